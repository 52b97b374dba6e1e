/* vernier/worker.h -- back ends as processes: start, identity, limits, load, run. */
#ifndef VERNIER_WORKER_H
#define VERNIER_WORKER_H

#include "vernier/base.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Parsed back-end spec `name[:device][@environment][,key=value...]`. Fixed storage: a spec longer than that is refused. */
enum { VN_MAX_SPEC_OPTIONS = 32 };
typedef struct vn_spec {
    char text[512]; /* as given */
    char name[32];  /* canonical: "ort" and "onnxruntime" both give "onnxruntime" */
    char device[64];
    char environment[256]; /* "" = the project's own */
    int n_options;
    struct {
        char key[48];
        char value[128];
    } options[VN_MAX_SPEC_OPTIONS];
} vn_spec_t;
/** Errors: USAGE "unknown back end 'x'; known: ..." or names the option that this back end does not have. */
VN_API vn_status_t vn_spec_parse(const char *text, vn_spec_t *out, vn_error_t *err);

/** One row of the table of back ends. */
typedef struct vn_backend_info {
    const char *name;  /* "onnxruntime" */
    const char *alias; /* "ort" or NULL */
    const char *summary;
    const char *options;  /* "provider=CPU|CUDA optimisation=all|extended|basic|none threads=N" */
    const char *packages; /* pip packages that bring it, or NULL for a C worker without any */
    bool optional;        /* missing does not fail the test suite */
} vn_backend_info_t;
VN_API int vn_backends(const vn_backend_info_t **out);
/** VN_OK if the back end can be started; else err says what is missing and which command brings it. Starts nothing. */
VN_API vn_status_t vn_backend_available(const vn_spec_t *spec, vn_error_t *err);

typedef struct vn_worker_options {
    double timeout_s;     /* per request; 0 = 300 */
    int64_t memory_bytes; /* resident limit of the process group; 0 = none */
    int threads;          /* of the back end; 0 = its default */
    const char *cache;    /* folder, or NULL */
} vn_worker_options_t;

typedef struct vn_worker vn_worker_t;

/**
 * Starts the process, asserts the environment policy, waits for the handshake.
 * Errors     NOTFOUND (package or library missing, says the command), CRASHED, TIMEOUT, WORKER; err ends with the last line of its log.
 * Threads    one worker, one thread at a time; different workers are independent.
 */
VN_API vn_status_t vn_worker_start(const vn_spec_t *spec, const vn_worker_options_t *o, vn_worker_t **out, vn_error_t *err);
VN_API void vn_worker_stop(vn_worker_t *w);                     /* asks, waits 2 s, kills the group; NULL is fine */
VN_API const char *vn_worker_identity(const vn_worker_t *w);    /* JSON object, borrowed */
VN_API const char *vn_worker_environment(const vn_worker_t *w); /* JSON object: variables that change arithmetic, asserted or inherited */
VN_API int64_t vn_worker_peak_bytes(const vn_worker_t *w);      /* largest resident size seen of the group */
VN_API int vn_worker_restarts(const vn_worker_t *w);

/** *session > 0. Errors: UNSUPPORTED, WORKER, CRASHED, TIMEOUT, MEMORY_LIMIT. After the last three the process is started anew by the
 *  next call and all earlier sessions are gone (run answers NOTFOUND). */
VN_API vn_status_t vn_worker_load(vn_worker_t *w, const void *model, size_t size, const char *format, const char *folder, int64_t *session,
                                  vn_error_t *err);
/** The same for a model in memory, written straight into the shared segment. */
struct vn_model;
VN_API vn_status_t vn_worker_load_model(vn_worker_t *w, const struct vn_model *m, const char *folder, int64_t *session, vn_error_t *err);
VN_API void vn_worker_unload(vn_worker_t *w, int64_t session);

/** What is asked of one output. rank -1 or dtype UNDEFINED: the worker allocates (no poison, no guards). */
typedef struct vn_output_spec {
    const char *name;
    vn_dtype_t dtype;
    int rank;
    int64_t dims[VN_MAX_RANK];
} vn_output_spec_t;

typedef struct vn_output {
    vn_value_t *value; /* NULL: not returned */
    bool worker_allocated;
    bool guard_broken;    /* bytes before or after the output were written */
    int64_t poison_left;  /* elements that still hold the poison */
    char form_error[200]; /* "" or how dtype or shape differ from what was declared */
} vn_output_t;

/**
 * Runs a session. inputs: all run inputs by name. outputs[k] belongs to specs[k].
 * Errors     as load; PARSE for a garbage reply. outputs are zeroed on failure; release each with vn_output_free.
 */
VN_API vn_status_t vn_worker_run(vn_worker_t *w, int64_t session, const vn_bundle_t *inputs, int n, const vn_output_spec_t *specs,
                                 vn_output_t *outputs, double *seconds, vn_error_t *err);
VN_API void vn_output_free(vn_output_t *o);
/** The tensor's pages may leave this process's resident memory; the data stay in the shared segment and come back when read. */
VN_API void vn_output_idle(const vn_output_t *o);

#ifdef __cplusplus
}
#endif
#endif
