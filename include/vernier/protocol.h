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
    VN_GUARD_BYTES = 64, /* before and after each host-allocated output */
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
VN_API vn_status_t vn_shm_attach(const char *name, size_t size, bool writable, vn_shm_t *out,
                                 vn_error_t *err); /* size checked against fstat */
VN_API void vn_shm_close(vn_shm_t *s);             /* unmaps; the owner also unlinks */

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

/**
 * The tensor to write output `io` into: the host's memory where dtype and dims are those that the host declared, else (open output, or a
 * result of another form) a new one, which the frame moves into shared memory. To leave an output out, set io->tensor to NULL
 * after vn_tensor_free.
 * Ownership  *out is borrowed from io. Calling again with another form replaces it.
 */
VN_API vn_status_t vn_worker_output(vn_io_t *io, vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err);

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
    /**
     * argv[0 .. argc-1]: "device=cpu" (if the spec names one), "environment=/opt/venv" (root of the Python environment that carries the
     * library, for back ends that come as a package), "threads=N" (from the spec, else the host's option; absent = the back end's default),
     * "cache=DIR", then every other "key=value" of the spec. The host has checked keys and values against its table; what the worker does
     * not know after all is VN_ERR_USAGE. A missing library is VN_ERR_NOTFOUND with the command that brings it.
     */
    vn_status_t (*start)(int argc, char **argv, void **self, vn_error_t *err);
    /** Strings framework, version, device; library {path, sha256}; settings {}; cpu_features; threads. An object "capabilities" may
     *  override the frame's defaults (docs/worker-protocol.md). */
    vn_status_t (*identity)(void *self, vn_text_t *json, vn_error_t *err);
    /** rq->bytes is only valid during the call. */
    vn_status_t (*load)(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err);
    /** Inputs are borrowed for the call. Outputs are written through vn_worker_output; one that is left NULL counts as not returned. */
    vn_status_t (*run)(void *self, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err);
    void (*unload)(void *self, vn_worker_session_t *s);
    void (*stop)(void *self);
} vn_worker_ops_t;
/** The whole life of a worker: takes over descriptors 0 and 1, answers requests until `quit` or end of file. Returns the exit status. */
VN_API int vn_worker_main(int argc, char **argv, const vn_worker_ops_t *ops);
/** CPU features that decide which kernels run, as a JSON array of strings, e.g. ["avx2","fma"]. For identities. */
VN_API void vn_worker_cpu_features(vn_text_t *json);
/** Adds "library":{"path":...,"sha256":...} (no comma) for the file at `path`; without sha256 if it cannot be read. For identities. */
VN_API void vn_worker_library(vn_text_t *json, const char *path);

#ifdef __cplusplus
}
#endif
#endif
