/* main.c -- back end openvino: settings, identity, and the table of operations of the worker frame. */
#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "vernier/graph.h"

/* ---- settings ---- */

/* Our words for its properties. A key in capitals is a property of OpenVINO and is handed over as it is. */
static const struct {
    const char *key, *value; /* value NULL: handed over in capitals or as it is */
    const char *property, *setting;
} settings[] = {
    {"precision", "default", NULL, NULL},
    {"precision", NULL, "INFERENCE_PRECISION_HINT", NULL},
    {"execution", "performance", "EXECUTION_MODE_HINT", "PERFORMANCE"},
    {"execution", "accuracy", "EXECUTION_MODE_HINT", "ACCURACY"},
    {"threads", NULL, "INFERENCE_NUM_THREADS", NULL},
};

static bool is_property(const char *key) {
    for (const char *p = key; *p; ++p)
        if (!isupper((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '_') return false;
    return isupper((unsigned char)key[0]);
}

static vn_status_t set_property(ov_device_t *d, const char *key, const char *value, vn_error_t *err) {
    char what[200];
    snprintf(what, sizeof what, "OpenVINO refuses the property %.60s=%.100s", key, value);
    const int code = d->api.ov_core_set_property(d->core, d->name, key, value);
    return code == OV_OK ? VN_OK : ov_fail(&d->api, err, VN_ERR_USAGE, what, code);
}

static vn_status_t apply(ov_device_t *d, const char *key, const char *value, vn_error_t *err) {
    if (is_property(key)) return set_property(d, key, value, err);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; ++i) {
        if (strcmp(settings[i].key, key) != 0 || (settings[i].value && strcmp(settings[i].value, value) != 0)) continue;
        return settings[i].property ? set_property(d, settings[i].property, settings[i].setting ? settings[i].setting : value, err) : VN_OK;
    }
    return vn_fail(err, VN_ERR_USAGE, "openvino: no option %s=%s", key, value);
}

static const char *option(int argc, char **argv, const char *key) {
    const size_t n = strlen(key);
    for (int i = 0; i < argc; ++i)
        if (strncmp(argv[i], key, n) == 0 && argv[i][n] == '=') return argv[i] + n + 1;
    return NULL;
}

static void stop(void *self) {
    ov_device_t *d = self;
    if (!d) return;
    if (d->core) d->api.ov_core_free(d->core);
    /* The library stays loaded: its threads may still be running its code. */
    vn_free(d);
}

static vn_status_t configure(ov_device_t *d, int argc, char **argv, vn_error_t *err) {
    const char *device = option(argc, argv, "device");
    snprintf(d->name, sizeof d->name, "%s", device && *device ? device : "CPU");
    for (char *p = d->name; *p; ++p) *p = (char)toupper((unsigned char)*p);
    VN_TRY(ov_api_open(option(argc, argv, "environment"), &d->api, err));
    const int code = d->api.ov_core_create(&d->core);
    if (code != OV_OK) return ov_fail(&d->api, err, VN_ERR_WORKER, "OpenVINO does not start", code);
    static const char *const ours[] = {"device", "environment", "cache"}; /* a cache of compiled models would hide what is compiled */
    for (int i = 0; i < argc; ++i) {
        char key[64];
        const char *equals = strchr(argv[i], '=');
        const size_t n = equals ? (size_t)(equals - argv[i]) : 0;
        if (n == 0 || n >= sizeof key) return vn_fail(err, VN_ERR_USAGE, "openvino: '%.80s' is not KEY=VALUE", argv[i]);
        memcpy(key, argv[i], n);
        key[n] = '\0';
        bool known = false;
        for (size_t k = 0; k < sizeof ours / sizeof *ours; ++k) known |= strcmp(key, ours[k]) == 0;
        if (!known) VN_TRY(apply(d, key, equals + 1, err));
    }
    return VN_OK;
}

static vn_status_t start(int argc, char **argv, void **self, vn_error_t *err) {
    ov_device_t *d = vn_alloc(1, sizeof *d);
    if (!d) return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    const vn_status_t s = configure(d, argc, argv, err);
    if (s == VN_OK) *self = d;
    else stop(d);
    return s;
}

/* ---- identity ---- */

/* What decides arithmetic, read back from a compiled model: the answer, not the wish. */
static const char *const model_properties[] = {
    "INFERENCE_PRECISION_HINT",
    "EXECUTION_MODE_HINT",
    "INFERENCE_NUM_THREADS",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE",
    "KV_CACHE_PRECISION",
    "CPU_DENORMALS_OPTIMIZATION",
    "CPU_SPARSE_WEIGHTS_DECOMPRESSION_RATE",
    "PERFORMANCE_HINT",
    "NUM_STREAMS",
    "SCHEDULING_CORE_TYPE",
    "ENABLE_HYPER_THREADING",
    "EXECUTION_DEVICES",
    "RUNTIME_REQUIREMENTS",
};

/* One f32 MatMul, to have something compiled to ask. */
static vn_status_t probe_model(void **bytes, size_t *size, vn_error_t *err) {
    static const int64_t dims[] = {2, 2};
    static const char *const in[] = {"a", "b"}, *const out[] = {"c"};
    vn_model_t *m = NULL;
    VN_TRY(vn_model_new(8, &m, err));
    vn_status_t s = vn_model_set_opset(m, "", 13, err);
    if (s == VN_OK) s = vn_graph_add_input(m->graph, in[0], VN_F32, 2, dims, err);
    if (s == VN_OK) s = vn_graph_add_input(m->graph, in[1], VN_F32, 2, dims, err);
    if (s == VN_OK) s = vn_graph_add_output(m->graph, out[0], VN_F32, 2, dims, err);
    if (s == VN_OK) s = vn_graph_add_node(m->graph, "probe", "MatMul", "", 2, in, 1, out, NULL, err);
    if (s == VN_OK) s = vn_model_finish(m, err);
    if (s == VN_OK) s = vn_model_bytes(m, bytes, size, err);
    vn_model_free(m);
    return s;
}

static vn_status_t read_back(ov_device_t *d, json_t *into, vn_error_t *err) {
    vn_load_request_t rq = {.format = "onnx"};
    void *bytes = NULL;
    vn_worker_session_t *s = NULL;
    VN_TRY(probe_model(&bytes, &rq.size, err));
    rq.bytes = bytes;
    const vn_status_t status = ov_session_load(d, &rq, &s, err);
    vn_free(bytes);
    VN_TRY(status);
    for (size_t i = 0; i < sizeof model_properties / sizeof *model_properties; ++i) {
        char *value = NULL; /* a property that this device or release does not have is left out */
        if (d->api.ov_compiled_model_get_property(s->compiled, model_properties[i], &value) == OV_OK && value) {
            json_object_set_new(into, model_properties[i], json_string(value));
            d->api.ov_free(value);
        }
    }
    ov_session_free(d, s);
    return VN_OK;
}

static void add_device_property(ov_device_t *d, json_t *into, const char *key, const char *property) {
    char *value = NULL;
    if (d->api.ov_core_get_property(d->core, d->name, property, &value) != OV_OK || !value) return;
    json_object_set_new(into, key, json_string(value));
    d->api.ov_free(value);
}

static void add_version(ov_device_t *d, json_t *into) {
    ov_version_t version = {0};
    if (d->api.ov_get_openvino_version(&version) != OV_OK) return;
    const char *build = version.build ? version.build : "";
    json_object_set_new(into, "version", json_stringn(build, strcspn(build, "-")));
    json_object_set_new(into, "build", json_string(build));
    d->api.ov_version_free(&version);
}

/* The plugin holds the kernels. CPU -> libopenvino_intel_cpu_plugin.so; a composed device (AUTO, HETERO:...) is known by its core. */
static void plugin_path(const ov_device_t *d, char *out, size_t size) {
    static const struct {
        const char *device, *file;
    } plugins[] = {
        {"CPU", "libopenvino_intel_cpu_plugin.so"}, {"GPU", "libopenvino_intel_gpu_plugin.so"}, {"NPU", "libopenvino_intel_npu_plugin.so"}};
    const char *file = "libopenvino_auto_plugin.so";
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; ++i)
        if (strncmp(d->name, plugins[i].device, strlen(plugins[i].device)) == 0) file = plugins[i].file;
    snprintf(out, size, "%s/%s", d->api.folder, file);
}

static vn_status_t identity(void *self, vn_text_t *json, vn_error_t *err) {
    ov_device_t *d = self;
    json_t *o = json_object(), *all = json_object();
    json_object_set_new(o, "framework", json_string("openvino"));
    add_version(d, o);
    json_object_set_new(o, "device", json_string(d->name));
    add_device_property(d, o, "device_name", "FULL_DEVICE_NAME");
    add_device_property(d, o, "device_capabilities", "OPTIMIZATION_CAPABILITIES");
    json_object_set_new(o, "settings", all);
    vn_status_t s = read_back(d, all, err);
    const char *threads = json_string_value(json_object_get(all, "INFERENCE_NUM_THREADS"));
    if (threads) json_object_set_new(o, "threads", json_integer(strtoll(threads, NULL, 10)));
    json_object_set_new(o, "capabilities", json_pack("{s:b}", "strings", 0));
    char *text = s == VN_OK ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    json_decref(o);
    if (s != VN_OK) return s;
    if (!text) return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    vn_text_addn(json, text, strlen(text) - 1); /* without the closing brace */
    free(text);
    vn_text_add(json, ",\"cpu_features\":");
    vn_worker_cpu_features(json);
    vn_text_add(json, ",");
    char path[sizeof d->api.folder + 64];
    plugin_path(d, path, sizeof path);
    vn_worker_library(json, path);
    vn_text_add(json, "}");
    return json->failed ? vn_fail(err, VN_ERR_NOMEM, "out of memory") : VN_OK;
}

/* ---- operations ---- */

static vn_status_t load(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    return ov_session_load(self, rq, out, err);
}
static vn_status_t run(void *self, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err) {
    return ov_session_run(self, s, rq, err);
}
static void unload(void *self, vn_worker_session_t *s) { ov_session_free(self, s); }

int main(int argc, char **argv) {
    static const vn_worker_ops_t ops = {
        .name = "openvino", .start = start, .identity = identity, .load = load, .run = run, .unload = unload, .stop = stop};
    return vn_worker_main(argc, argv, &ops);
}
