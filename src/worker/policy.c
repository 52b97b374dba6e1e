/* policy.c -- the environment of a worker: variables that change arithmetic are asserted before the program starts, and all are told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/internal.h"

extern char **environ;

/* Asserted values: what the declared contract (types as they stand in the graph) needs. backend NULL: every back end. */
static const struct {
    const char *backend, *variable, *value;
} asserted[] = {
    {NULL, "NVIDIA_TF32_OVERRIDE", "0"},
    {NULL, "ONEDNN_DEFAULT_FPMATH_MODE", "STRICT"},
    {NULL, "DNNL_DEFAULT_FPMATH_MODE", "STRICT"}, /* the older spelling, still read */
    {"mlx", "MLX_ENABLE_TF32", "0"},
    {"torch", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "0"},
    {"xla", "JAX_DEFAULT_MATMUL_PRECISION", "highest"},
};

/* Kept as found and told: names or, with a star, families of names. */
static const char *const watched[] = {
    "OPENBLAS_*",
    "MKL_*",
    "BLIS_*",
    "ONEDNN_*",
    "DNNL_*",
    "OMP_*",
    "KMP_*",
    "GOMP_*",
    "XLA_*",
    "JAX_*",
    "TF_XLA_FLAGS",
    "TF_ENABLE_ONEDNN_OPTS",
    "MLX_*",
    "IREE_*",
    "GGML_*",
    "POCL_*",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS*",
    "CUDNN*",
    "CUDA_VISIBLE_DEVICES",
    "TORCH_*",
    "PYTORCH_*",
    "ORT_*",
    "OV_*",
    "OPENVINO_*",
    "LP_*",
    "GALLIUM_*",
    "MESA_*",
    "GLIBC_TUNABLES",
    "LD_LIBRARY_PATH",
};

/* Never passed on: instruments of the host that do not belong into somebody else's library. */
static const char *const instruments[] = {"LD_PRELOAD", "ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "MSAN_OPTIONS"};
static const char *const python_only[] = {"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT"};

static bool in_list(const char *const *list, size_t n, const char *name, size_t length) {
    for (size_t i = 0; i < n; ++i)
        if (strlen(list[i]) == length && strncmp(list[i], name, length) == 0) return true;
    return false;
}

static bool is_watched(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof watched / sizeof *watched; ++i) {
        const size_t k = strlen(watched[i]);
        const bool star = watched[i][k - 1] == '*';
        if (star ? length >= k - 1 && strncmp(name, watched[i], k - 1) == 0 : length == k && strncmp(name, watched[i], k) == 0) return true;
    }
    return false;
}

typedef struct build {
    char **envp;
    size_t n, room;
    json_t *json;
    bool failed;
} build_t;

static void set(build_t *b, const char *name, size_t length, const char *value) {
    vn_text_t t = {0};
    vn_text_addn(&t, name, length);
    vn_text_add(&t, "=");
    vn_text_add(&t, value);
    if (t.failed) {
        b->failed = true;
        vn_text_free(&t);
        return;
    }
    for (size_t i = 0; i < b->n; ++i)
        if (strncmp(b->envp[i], name, length) == 0 && b->envp[i][length] == '=') {
            vn_free(b->envp[i]);
            b->envp[i] = t.data;
            return;
        }
    if (b->n + 1 >= b->room) {
        vn_text_free(&t);
        b->failed = true;
        return;
    }
    b->envp[b->n++] = t.data;
}

static const char *get(const build_t *b, const char *name) {
    const size_t k = strlen(name);
    for (size_t i = 0; i < b->n; ++i)
        if (strncmp(b->envp[i], name, k) == 0 && b->envp[i][k] == '=') return b->envp[i] + k + 1;
    return NULL;
}

/* {"value": text|null, "source": how}, and "was" where a value was replaced. Bytes that are no UTF-8 are told as such. */
static void tell(build_t *b, const char *name, const char *value, const char *source, const char *was) {
    json_t *o = json_object();
    json_t *v = value ? json_string(value) : json_null();
    json_object_set_new(o, "value", v ? v : json_string("(not UTF-8)"));
    json_object_set_new(o, "source", json_string(source));
    if (was && (!value || strcmp(was, value) != 0)) json_object_set_new(o, "was", json_string(was));
    if (!o || json_object_set_new(b->json, name, o) != 0) b->failed = true;
}

static void assert_variable(build_t *b, const char *name, const char *value, const char *source) {
    char *was = get(b, name) ? vn_strdup(get(b, name)) : NULL;
    set(b, name, strlen(name), value);
    tell(b, name, value, source, was);
    vn_free(was);
}

static void inherit(build_t *b, const vn_backend_row_t *row) {
    for (char **e = environ; *e; ++e) {
        const char *eq = strchr(*e, '=');
        if (!eq || eq == *e) continue;
        const size_t k = (size_t)(eq - *e);
        char name[128];
        if (k < sizeof name) {
            memcpy(name, *e, k);
            name[k] = '\0';
        } else {
            name[0] = '\0';
        }
        if (!row->own_code && in_list(instruments, sizeof instruments / sizeof *instruments, *e, k)) {
            tell(b, name, NULL, "removed", eq + 1);
            continue;
        }
        if (row->form == VN_FORM_SCRIPT && in_list(python_only, sizeof python_only / sizeof *python_only, *e, k)) continue;
        set(b, *e, k, eq + 1);
        if (name[0] && is_watched(*e, k)) tell(b, name, eq + 1, "inherited", NULL);
    }
}

vn_status_t vn_policy_build(const vn_spec_t *spec, const vn_backend_row_t *row, int threads, char ***envp, char **json, vn_error_t *err) {
    *envp = NULL;
    *json = NULL;
    size_t n = 0;
    while (environ[n]) ++n;
    build_t b = {.room = n + sizeof asserted / sizeof *asserted + VN_MAX_SPEC_OPTIONS + 4, .json = json_object()};
    b.envp = vn_alloc(b.room, sizeof *b.envp);
    b.failed = !b.envp || !b.json;
    if (!b.failed) inherit(&b, row);
    for (size_t i = 0; !b.failed && i < sizeof asserted / sizeof *asserted; ++i)
        if (!asserted[i].backend || strcmp(asserted[i].backend, row->info->name) == 0)
            assert_variable(&b, asserted[i].variable, asserted[i].value, "asserted");
    if (!b.failed && threads > 0) {
        char number[16];
        snprintf(number, sizeof number, "%d", threads);
        assert_variable(&b, "OMP_NUM_THREADS", number, "asserted");
    }
    for (int i = 0; !b.failed && i < spec->n_options; ++i)
        if (strncmp(spec->options[i].key, "env.", 4) == 0) assert_variable(&b, spec->options[i].key + 4, spec->options[i].value, "spec");
    char *text = b.failed ? NULL : json_dumps(b.json, JSON_COMPACT | JSON_SORT_KEYS);
    json_decref(b.json);
    *json = text ? vn_strdup(text) : NULL;
    free(text);
    if (!*json) {
        vn_policy_free(b.envp);
        return vn_fail(err, VN_ERR_NOMEM, "back end %s: out of memory for its environment", spec->name);
    }
    *envp = b.envp;
    return VN_OK;
}

void vn_policy_free(char **envp) {
    for (char **e = envp; e && *e; ++e) vn_free(*e);
    vn_free(envp);
}
