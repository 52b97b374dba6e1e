/* vernier/protocol.h -- messages between host and workers, and the shared memory that carries tensors (docs/worker-protocol.md).
 *
 * Control is one JSON object per line: requests on the worker's standard input, replies on what was its standard output (a worker
 * duplicates descriptor 1 and points 1 at 2 before it loads any library). Data lies in POSIX shared memory segments.
 */
#ifndef VERNIER_PROTOCOL_H
#define VERNIER_PROTOCOL_H

#include "vernier/base.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    VN_PROTOCOL_VERSION = 1,
    VN_GUARD_BYTES = 64,          /* before and after each host-allocated output */
    VN_GUARD_PATTERN = 0xC5,
    VN_MAX_LINE = 64 * 1024 * 1024 /* a longer reply is a garbage reply */
};

/**
 * Shared memory segment. The host creates and unlinks; a worker attaches by name; a worker may create segments for outputs whose shape
 * only it knows (name prefix given by the host in `hello`), which the host unlinks after attaching.
 */
typedef struct vn_shm {
    char name[64];
    void *data;
    size_t size;
    bool owner;
} vn_shm_t;
VN_API vn_status_t vn_shm_create(const char *name, size_t size, vn_shm_t *out, vn_error_t *err);
VN_API vn_status_t vn_shm_attach(const char *name, size_t size, bool writable, vn_shm_t *out, vn_error_t *err); /* size checked against fstat */
VN_API void vn_shm_close(vn_shm_t *s); /* unmaps; the owner also unlinks */

/** Poison that fills host-allocated outputs: a signalling NaN pattern for floats, 0xA5.. for the rest. */
VN_API void vn_poison_fill(vn_dtype_t t, void *data, int64_t count);
VN_API int64_t vn_poison_count(const vn_tensor_t *t); /* elements that still hold it */

/* ---- C workers: implement vn_worker_ops_t and call vn_worker_main (workers/null is the smallest complete one) ---- */

typedef struct vn_io {
    char *name;
    vn_dtype_t dtype;
    int rank; /* -1: unknown */
    int64_t dims[VN_MAX_RANK];
    vn_tensor_t *tensor; /* inputs: data to read; outputs: host memory to fill, or NULL = allocate with vn_worker_output */
} vn_io_t;

typedef struct vn_worker_session vn_worker_session_t; /* the worker's own */

typedef struct vn_load_request {
    const char *format; /* "onnx" */
    const void *bytes;
    size_t size;
    const char *folder; /* where external data lies, or NULL */
} vn_load_request_t;

typedef struct vn_run_request {
    int n_inputs, n_outputs;
    vn_io_t *inputs;
    vn_io_t *outputs; /* names asked for, in order */
} vn_run_request_t;

/** Every failure text goes to err; VN_ERR_UNSUPPORTED means "this back end does not do that". identity: a JSON object as text. */
typedef struct vn_worker_ops {
    const char *name;
    vn_status_t (*start)(int argc, char **argv, void **self, vn_error_t *err); /* argv[i]: "device=cpu", "key=value" of the spec */
    vn_status_t (*identity)(void *self, vn_text_t *json, vn_error_t *err);
    vn_status_t (*load)(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err);
    /** Outputs with tensor == NULL are set with vn_tensor_* tensors by the worker; the frame moves them into shared memory. */
    vn_status_t (*run)(void *self, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err);
    void (*unload)(void *self, vn_worker_session_t *s);
    void (*stop)(void *self);
} vn_worker_ops_t;
VN_API int vn_worker_main(int argc, char **argv, const vn_worker_ops_t *ops);

#ifdef __cplusplus
}
#endif
#endif
