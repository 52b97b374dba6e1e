/* main.c -- back end onednn: ONNX operators as primitives of oneDNN on the processor, one at a time. */
#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onednn.h"

struct vn_worker_session {
    steps_t *steps;
};

static const op_table_t *const tables[] = {&product_ops, &convolution_ops, &elementwise_ops, &row_ops, &spatial_ops, &movement_ops};
enum { N_TABLES = sizeof tables / sizeof *tables };

static vn_status_t find(void *self, const vn_node_t *n, int64_t opset, const void **op, vn_error_t *err) {
    (void)self;
    for (int t = 0; t < N_TABLES; ++t)
        for (int i = 0; i < tables[t]->count; ++i) {
            const op_row_t *row = &tables[t]->rows[i];
            if (strcmp(row->domain, n->domain) != 0 || strcmp(row->name, n->op) != 0) continue;
            if (!n->domain[0] && opset < 7) return step_refuse(n, err, "opset %lld: read from 7 on", (long long)opset);
            *op = row;
            return VN_OK;
        }
    return vn_fail(err, VN_ERR_UNSUPPORTED, "operator %s%s%s of node %s: oneDNN has no primitive for it", n->domain,
                   n->domain[0] ? "." : "", n->op, n->path);
}

static vn_status_t run_step(void *self, step_call_t *c) {
    const op_row_t *row = c->step->op;
    return row->run(self, c, row->param);
}

/* ---- life ---- */

static const struct {
    const char *name;
    dnnl_fpmath_mode_t mode;
} modes[] = {
    {"strict", dnnl_fpmath_mode_strict}, {"bf16", dnnl_fpmath_mode_bf16}, {"f16", dnnl_fpmath_mode_f16}, {"any", dnnl_fpmath_mode_any}};
enum { N_MODES = sizeof modes / sizeof *modes };

static vn_status_t set_mode(dnn_t *d, const char *value, vn_error_t *err) {
    for (int i = 0; i < N_MODES; ++i)
        if (strcmp(modes[i].name, value) == 0) {
            d->math = modes[i].mode;
            d->math_name = modes[i].name;
            return VN_OK;
        }
    return vn_fail(err, VN_ERR_USAGE, "onednn: math_mode=%s is none of oneDNN %d.%d: strict, bf16, f16, any", value, dnnl_version()->major,
                   dnnl_version()->minor);
}

/* Through a union: ISO C has no cast from an object pointer to a function pointer. The library runs on OpenMP's threads. */
static int openmp(const char *name, int set) {
    union {
        void *object;
        int (*get)(void);
        void (*set)(int);
    } symbol = {.object = dlsym(RTLD_DEFAULT, name)};
    if (!symbol.object) return 0;
    if (!set) return symbol.get();
    symbol.set(set);
    return set;
}

static vn_status_t configure(dnn_t *d, int argc, char **argv, vn_error_t *err) {
    int threads = 0;
    VN_TRY(set_mode(d, "strict", err));
    for (int i = 0; i < argc; ++i) {
        const char *value = strchr(argv[i], '=');
        value = value ? value + 1 : "";
        if (strncmp(argv[i], "math_mode=", 10) == 0) VN_TRY(set_mode(d, value, err));
        else if (strncmp(argv[i], "layout=", 7) == 0) d->plain = strcmp(value, "plain") == 0;
        else if (strncmp(argv[i], "threads=", 8) == 0) threads = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "device=cpu") != 0 && strncmp(argv[i], "cache=", 6) != 0)
            return vn_fail(err, VN_ERR_USAGE, "onednn: unknown option '%s'", argv[i]);
    }
    if (threads && !openmp("omp_set_num_threads", threads))
        return vn_fail(err, VN_ERR_USAGE, "onednn: threads=%d: this build of oneDNN does not run on OpenMP", threads);
    d->threads = openmp("omp_get_max_threads", 0);
    if (d->threads < 1) d->threads = 1;
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success || dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags))
        return vn_fail(err, VN_ERR_WORKER, "oneDNN has no engine for this processor");
    return VN_OK;
}

static void stop(void *self) {
    dnn_t *d = self;
    if (!d) return;
    if (d->stream) dnnl_stream_destroy(d->stream);
    if (d->engine) dnnl_engine_destroy(d->engine);
    vn_free(d);
}

static vn_status_t start(int argc, char **argv, void **self, vn_error_t *err) {
    dnn_t *d = vn_alloc(1, sizeof *d);
    if (!d) return vn_fail(err, VN_ERR_NOMEM, "hello: out of memory");
    const vn_status_t s = configure(d, argc, argv, err);
    if (s == VN_OK) *self = d;
    else stop(d);
    return s;
}

/* ---- identity ---- */

static const char *isa_name(dnnl_cpu_isa_t isa) {
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
                 {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
                 {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
                 {dnnl_cpu_isa_avx512_core, "avx512_core"},
                 {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
                 {dnnl_cpu_isa_avx2, "avx2"},
                 {dnnl_cpu_isa_avx, "avx"},
                 {dnnl_cpu_isa_sse41, "sse41"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (names[i].isa == isa) return names[i].name;
    return "other";
}

static json_t *operator_names(void) {
    json_t *names = json_array();
    for (int t = 0; t < N_TABLES; ++t)
        for (int i = 0; i < tables[t]->count; ++i) {
            const op_row_t *row = &tables[t]->rows[i];
            json_array_append_new(names, json_sprintf("%s%s%s", row->domain, row->domain[0] ? "." : "", row->name));
        }
    return names;
}

static vn_status_t identity(void *self, vn_text_t *json, vn_error_t *err) {
    const dnn_t *d = self;
    const dnnl_version_t *v = dnnl_version();
    Dl_info info = {0};
    union {
        const dnnl_version_t *(*function)(void);
        void *object;
    } symbol = {.function = dnnl_version};
    char *path = dladdr(symbol.object, &info) && info.dli_fname ? realpath(info.dli_fname, NULL) : NULL;
    json_t *o = json_pack("{s:s,s:o,s:s,s:s,s:i,s:{s:s,s:s,s:s},s:{s:b,s:b,s:b,s:o}}", "framework", "onednn", "version",
                          json_sprintf("%d.%d.%d", v->major, v->minor, v->patch), "build", v->hash ? v->hash : "", "device", "cpu",
                          "threads", d->threads, "settings", "math_mode", d->math_name, "layout", d->plain ? "plain" : "any", "kernels",
                          isa_name(dnnl_get_effective_cpu_isa()), "capabilities", "intermediates", 1, "strings", 0, "sequences", 0,
                          "operators", operator_names());
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text) {
        vn_text_addn(json, text, strlen(text) - 1); /* without the brace */
        vn_text_add(json, ",");
        vn_worker_library(json, path ? path : "");
        vn_text_add(json, ",\"cpu_features\":");
        vn_worker_cpu_features(json);
        vn_text_add(json, "}");
    }
    const bool good = text && !json->failed;
    free(text);
    free(path);
    return good ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "identity: out of memory");
}

/* ---- sessions ---- */

static vn_status_t load(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    vn_worker_session_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    const vn_status_t status = steps_load(rq, find, self, &s->steps, err);
    if (status == VN_OK) *out = s;
    else vn_free(s);
    return status;
}

static vn_status_t run(void *self, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err) {
    return steps_run(s->steps, run_step, self, rq, err);
}

static void unload(void *self, vn_worker_session_t *s) {
    (void)self;
    steps_free(s->steps);
    vn_free(s);
}

int main(int argc, char **argv) {
    const vn_worker_ops_t ops = {"onednn", start, identity, load, run, unload, stop};
    return vn_worker_main(argc, argv, &ops);
}
