/* null.c -- the smallest complete worker, to be cloned: it reads ONNX models and returns zeros.
 *
 * A back end of your own: copy this file, put your library's calls in start (open it), load (compile), run (execute), unload and stop, tell
 * in identity exactly what ran, and delete the two lines that mention faults. The frame (vn_worker_main) does the rest: requests,
 * sessions, shared memory, errors. docs/worker-protocol.md describes what goes over the wire, should you write it in another language.
 */
#include <string.h>

#include "faults.h"
#include "vernier/graph.h"
#include "vernier/protocol.h"

struct vn_worker_session {
    vn_model_t *model;
};

/* Options come as "key=value". What you do not know is an error: an option that is ignored would be reported as if it had been used. */
static vn_status_t null_start(int argc, char **argv, void **self, vn_error_t *err) {
    *self = NULL; /* your library's handle */
    for (int i = 0; i < argc; ++i) {
        if (strcmp(argv[i], "device=cpu") == 0 || strncmp(argv[i], "threads=", 8) == 0 || strncmp(argv[i], "cache=", 6) == 0) continue;
        return vn_fail(err, VN_ERR_USAGE, "unknown option '%s'", argv[i]);
    }
    return VN_OK;
}

/* Whatever could change a bit of a result belongs here: version, build, library file, device, driver, settings. */
static vn_status_t null_identity(void *self, vn_text_t *json, vn_error_t *err) {
    (void)self;
    vn_text_printf(json, "{\"framework\":\"null\",\"version\":\"%s\",\"device\":\"cpu\",\"threads\":1,\"settings\":{},", vn_version());
    vn_worker_library(json, "/proc/self/exe");
    vn_text_add(json, ",\"cpu_features\":");
    vn_worker_cpu_features(json);
    vn_text_add(json, "}");
    return json->failed ? vn_fail(err, VN_ERR_NOMEM, "identity: out of memory") : VN_OK;
}

/* An operator that the back end does not have is VN_ERR_UNSUPPORTED with its name; a broken model is VN_ERR_PARSE. */
static vn_status_t null_load(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    (void)self;
    if (strcmp(rq->format, "onnx") != 0) return vn_fail(err, VN_ERR_UNSUPPORTED, "model format '%s'", rq->format);
    vn_worker_session_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    vn_status_t status = vn_model_parse(rq->bytes, rq->size, "model", rq->folder, &s->model, err);
    if (status == VN_OK) *out = s;
    else vn_free(s);
    return status;
}

/* One output: zeros of the type that the host declared, else of the model's (an unknown dimension counts as 1). */
static vn_status_t zero_output(const vn_graph_t *graph, vn_io_t *io, vn_error_t *err) {
    const vn_value_info_t *info = vn_graph_info(graph, io->name);
    vn_tensor_t *t = io->tensor;
    if (!t) {
        int64_t dims[VN_MAX_RANK];
        if (!info || info->type.kind != VN_TYPE_TENSOR)
            return vn_fail(err, VN_ERR_UNSUPPORTED, "output '%s' is not a typed tensor", io->name);
        const int rank = info->type.rank < 0 || info->type.rank > VN_MAX_RANK ? 0 : info->type.rank;
        for (int i = 0; i < rank; ++i) dims[i] = info->type.dims[i].value < 0 ? 1 : info->type.dims[i].value;
        return vn_worker_output(io, info->type.dtype, rank, dims, &t, err); /* fresh memory is zero */
    }
    size_t bytes;
    if (vn_dtype_storage(t->dtype, t->count, &bytes)) memset(t->data, 0, bytes);
    return VN_OK;
}

static vn_status_t null_run(void *self, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err) {
    (void)self;
    for (int i = 0; i < rq->n_outputs; ++i) VN_TRY(zero_output(s->model->graph, &rq->outputs[i], err));
    return VN_OK;
}

static void null_unload(void *self, vn_worker_session_t *s) {
    (void)self;
    vn_model_free(s->model);
    vn_free(s);
}

static void null_stop(void *self) { (void)self; }

int main(int argc, char **argv) {
    vn_worker_ops_t ops = {"null", null_start, null_identity, null_load, null_run, null_unload, null_stop};
    null_faults_wrap(&ops); /* not in your worker */
    return vn_worker_main(argc, argv, &ops);
}
