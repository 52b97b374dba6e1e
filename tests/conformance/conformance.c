/* conformance.c -- what every worker owes, asked of the one that the command line names: `conformance SPEC`.
 *
 * Exceptions are listed with their reasons below; a worker that passes what it is excepted from fails the suite, so that the list stays true.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance/models.h"
#include "support/vn_test.h"
#include "worker/internal.h"
#include "worker/processes.h"

enum { SKIPPED = 77 };

static const char *spec_text;
static vn_worker_t *worker; /* shared by the tests; those that kill it leave it to be started anew */
static json_t *identity;

static const struct {
    const char *worker, *test, *reason;
} exceptions[] = {
    {"null", "values", "it returns zeros"},
    {"null", "forms", "it returns whatever form the host declares"},
    {"null", "operators", "it computes nothing, so it refuses nothing"},
    {"openvino", "64-bit types", "its CPU plug-in computes them in 32 bits"},
};

static const char *excepted(const char *test) {
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; ++i)
        if (strcmp(exceptions[i].worker, worker->spec.name) == 0 && strcmp(exceptions[i].test, test) == 0) return exceptions[i].reason;
    return NULL;
}

/* `held`: the worker did what `test` wants. */
static void expect(vn_test_t *t, int line, const char *test, bool held) {
    const char *reason = excepted(test);
    if (!reason && !held) vn_test_fail(t, __FILE__, line, "%s: %s does not hold", spec_text, test);
    if (reason && held)
        vn_test_fail(t, __FILE__, line, "%s: %s holds although it is excepted (%s): remove the exception", spec_text, test, reason);
}
#define EXPECT(t, test, held) expect(t, __LINE__, test, held)

static bool can(const char *capability) { return json_is_true(json_object_get(json_object_get(identity, "capabilities"), capability)); }

/* A worker of few operators lists them; one that lists none has all that this suite needs. */
static bool offers(const char *op) {
    const json_t *names = json_object_get(json_object_get(identity, "capabilities"), "operators");
    for (size_t i = 0; i < json_array_size(names); ++i)
        if (strcmp(json_string_value(json_array_get(names, i)), op) == 0) return true;
    return !names;
}

/* ---- helpers ---- */

/* x w + b and what may follow it: Relu, where there is one. */
static bool rectifies(void) { return offers("Add") && offers("Relu"); }
static vn_status_t affine(vn_test_model_t *out, vn_error_t *err) { return rectifies() ? vn_test_affine(out, err) : cf_gemm(out, err); }

static int64_t load(vn_test_t *t, vn_test_model_t *m, const char *folder) {
    int64_t session;
    vn_error_t err;
    VN_ASSERT_OK_ERR(t, vn_worker_load(worker, m->bytes, m->size, "onnx", folder, &session, &err), err);
    VN_ASSERT(t, session > 0);
    vn_free(m->bytes);
    m->bytes = NULL;
    return session;
}

static const double counting[] = {1, 2, 3, 4, 5, 6}, rectified[] = {0, 29, 19, 65}, plain_affine[] = {-8, 29, 19, 65};
static const double *affine_y(void) { return rectifies() ? rectified : plain_affine; }
static const vn_output_spec_t declared_y = {.name = "y", .dtype = VN_F32, .rank = 2, .dims = {2, 2}}, open_y = {.name = "y", .rank = -1};

static vn_status_t run_affine(int64_t session, const vn_output_spec_t *spec, vn_output_t *y, vn_error_t *err) {
    vn_bundle_t in = {0};
    double seconds;
    VN_TRY(vn_test_input(&in, "x", 2, (int64_t[]){2, 3}, counting, err));
    vn_status_t s = vn_worker_run(worker, session, &in, 1, spec, y, &seconds, err);
    vn_bundle_free(&in);
    return s;
}

static bool has_values(const vn_output_t *y, int rank, const int64_t *dims, const double *v) {
    const vn_tensor_t *x = y->value && y->value->kind == VN_VALUE_TENSOR ? y->value->tensor : NULL;
    if (!x || x->rank != rank || (rank > 0 && memcmp(x->dims, dims, (size_t)rank * sizeof *dims) != 0)) return false;
    for (int64_t i = 0; i < x->count; ++i)
        if (vn_tensor_get_f64(x, i) != v[i]) return false;
    return true;
}

static void affine_is_right(vn_test_t *t, int64_t session) {
    vn_output_t y;
    vn_error_t err;
    VN_ASSERT_OK_ERR(t, run_affine(session, &declared_y, &y, &err), err);
    VN_ASSERT(t, y.value && !y.guard_broken && y.poison_left == 0);
    VN_ASSERT_STR(t, y.form_error, "");
    EXPECT(t, "values", has_values(&y, 2, (int64_t[]){2, 2}, affine_y()));
    vn_output_free(&y);
}

/* One node, run once with f32 inputs; outputs open. */
static vn_status_t run_node(const vn_test_node_t *n, const double *x, int64_t *session, vn_output_t *y, vn_error_t *err) {
    vn_test_model_t m;
    memset(y, 0, sizeof *y);
    VN_TRY(vn_test_one_node(n, &m, err));
    vn_status_t s = vn_worker_load(worker, m.bytes, m.size, "onnx", NULL, session, err);
    vn_free(m.bytes);
    if (s != VN_OK) return s;
    vn_bundle_t in = {0};
    VN_TRY(vn_test_input(&in, "x", n->rank, n->dims, x, err));
    s = vn_worker_run(worker, *session, &in, 1, &open_y, y, NULL, err);
    vn_bundle_free(&in);
    return s;
}

/* ---- identity ---- */

VN_TEST(identity, says_what_ran) {
    static const char *const texts[] = {"framework", "version", "device"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        const char *v = vn_json_text(identity, texts[i]);
        VN_ASSERT(t, v && *v);
    }
    const json_t *library = json_object_get(identity, "library");
    const char *path = vn_json_text(library, "path"), *hash = vn_json_text(library, "sha256");
    VN_ASSERT(t, path && path[0] == '/' && access(path, R_OK) == 0);
    VN_ASSERT(t, hash && strlen(hash) == 64 && strspn(hash, "0123456789abcdef") == 64);
    VN_ASSERT(t, json_array_size(json_object_get(identity, "cpu_features")) > 0);
    VN_ASSERT(t, json_integer_value(json_object_get(identity, "threads")) >= 1);
    VN_ASSERT(t, json_is_object(json_object_get(identity, "settings")));
    VN_ASSERT(t, json_array_size(json_object_get(json_object_get(identity, "capabilities"), "formats")) >= 1);
    VN_ASSERT(t, can("graph"));
}

VN_TEST(identity, environment_is_asserted) {
    json_error_t why;
    json_t *env = json_loads(vn_worker_environment(worker), 0, &why);
    VN_ASSERT_STR(t, vn_json_text(json_object_get(env, "NVIDIA_TF32_OVERRIDE"), "value"), "0");
    VN_ASSERT_STR(t, vn_json_text(json_object_get(env, "ONEDNN_DEFAULT_FPMATH_MODE"), "value"), "STRICT");
    json_decref(env);
}

/* ---- runs ---- */

VN_TEST(run, small_model_is_exact) {
    vn_test_model_t m;
    VN_ASSERT_OK(t, affine(&m, NULL));
    const int64_t s = load(t, &m, NULL);
    affine_is_right(t, s);
    affine_is_right(t, s);
    vn_worker_unload(worker, s);
}

VN_TEST(run, two_models_at_once) {
    vn_test_model_t a, b;
    VN_ASSERT_OK(t, affine(&a, NULL));
    VN_ASSERT_OK(t, cf_rows(2, &b, NULL));
    const int64_t sa = load(t, &a, NULL), sb = load(t, &b, NULL);
    static const double plain[] = {22, 28, 49, 64};
    VN_ASSERT(t, sa != sb);
    for (int i = 0; i < 3; ++i) {
        vn_output_t y;
        vn_error_t err;
        affine_is_right(t, sa);
        VN_ASSERT_OK_ERR(t, run_affine(sb, &declared_y, &y, &err), err);
        EXPECT(t, "values", has_values(&y, 2, (int64_t[]){2, 2}, plain));
        vn_output_free(&y);
    }
    vn_worker_unload(worker, sa);
    vn_output_t y;
    vn_error_t err;
    VN_ASSERT_EQ(t, run_affine(sa, &declared_y, &y, &err), VN_ERR_NOTFOUND);
    VN_ASSERT_OK_ERR(t, run_affine(sb, &declared_y, &y, &err), err); /* the other one is still there */
    vn_output_free(&y);
    vn_worker_unload(worker, sb);
    VN_ASSERT_OK(t, affine(&a, NULL));
    const int64_t again = load(t, &a, NULL);
    affine_is_right(t, again);
    vn_worker_unload(worker, again);
}

/* The host refuses a session that it does not know; the worker must do so as well, and a command that it does not know. */
VN_TEST(run, unknown_sessions_and_commands) {
    vn_error_t err;
    json_t *reply;
    VN_ASSERT_EQ(
        t, vn_worker_ask(worker, json_pack("{s:s,s:i,s:[],s:[]}", "cmd", "run", "session", 4711, "inputs", "outputs"), "run", &reply, &err),
        VN_ERR_NOTFOUND);
    VN_ASSERT_HAS(t, err.text, "4711");
    VN_ASSERT_EQ(t, vn_worker_ask(worker, json_pack("{s:s,s:i}", "cmd", "unload", "session", 4711), "unload", &reply, &err),
                 VN_ERR_NOTFOUND);
    VN_ASSERT_EQ(t, vn_worker_ask(worker, json_pack("{s:s}", "cmd", "dance"), "dance", &reply, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "dance");
    VN_ASSERT(t, worker->process != NULL);
}

VN_TEST(run, unsupported_operator_is_named) {
    const int64_t dims[] = {2};
    const vn_test_node_t n = {"Nonsense", "com.example.nowhere", 13, 1, VN_F32, 1, dims, VN_F32, 1, dims};
    vn_output_t y;
    vn_error_t err = {0};
    int64_t session;
    const vn_status_t s = run_node(&n, counting, &session, &y, &err);
    EXPECT(t, "operators", s == VN_ERR_UNSUPPORTED && strstr(err.text, "Nonsense"));
    vn_output_free(&y);
    VN_ASSERT(t, worker->process != NULL); /* a refusal, not an end */
}

VN_TEST(run, broken_models_are_refused) {
    static const char *const models[] = {"", "\x08", "not a model at all", "\x0a\xff\xff\xff\xff\x0f"};
    for (size_t i = 0; i < sizeof models / sizeof *models; ++i) {
        int64_t session;
        vn_error_t err;
        const vn_status_t s = vn_worker_load(worker, models[i], strlen(models[i]), "onnx", NULL, &session, &err);
        VN_ASSERT(t, s == VN_ERR_WORKER || s == VN_ERR_UNSUPPORTED);
        VN_ASSERT(t, worker->process != NULL);
    }
    vn_error_t err;
    int64_t session;
    VN_ASSERT_EQ(t, vn_worker_load(worker, "x", 1, "stone-tablet", NULL, &session, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "stone-tablet");
}

VN_TEST(run, shape_that_only_the_data_know) {
    const int64_t dims[] = {2, 3}, out[] = {2, -1};
    const vn_test_node_t n = {"NonZero", "", 13, 1, VN_F32, 2, dims, VN_I64, 2, out};
    static const double x[] = {0, 7, 0, 1, 0, 2}, want[] = {0, 1, 1, 1, 0, 2};
    vn_output_t y;
    vn_error_t err;
    int64_t session;
    const vn_status_t s = run_node(&n, x, &session, &y, &err);
    if (!offers("NonZero")) {
        VN_ASSERT_EQ(t, s, VN_ERR_UNSUPPORTED);
        return;
    }
    VN_ASSERT_OK_ERR(t, s, err);
    VN_ASSERT(t, y.worker_allocated && y.value->kind == VN_VALUE_TENSOR && y.value->tensor->dtype == VN_I64);
    EXPECT(t, "values", has_values(&y, 2, (int64_t[]){2, 3}, want));
    vn_output_free(&y);
    vn_worker_unload(worker, session);
}

/* A result that is not what the host declared goes not into the host's memory, and the host says how it differs. */
VN_TEST(run, other_forms_than_declared) {
    static const struct {
        vn_output_spec_t spec;
        const char *error;
    } cases[] = {
        {{.name = "y", .dtype = VN_F32, .rank = 2, .dims = {4, 1}}, "f32[4,1] was declared, f32[2,2] returned"},
        {{.name = "y", .dtype = VN_F32, .rank = 2, .dims = {1, 1}}, "f32[1,1] was declared, f32[2,2] returned"},
        {{.name = "y", .dtype = VN_F64, .rank = 2, .dims = {2, 2}}, "f64[2,2] was declared, f32[2,2] returned"},
        {{.name = "y", .dtype = VN_F32, .rank = 1, .dims = {4}}, "f32[4] was declared, f32[2,2] returned"},
    };
    vn_test_model_t m;
    VN_ASSERT_OK(t, affine(&m, NULL));
    const int64_t s = load(t, &m, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        vn_output_t y;
        vn_error_t err;
        VN_ASSERT_OK_ERR(t, run_affine(s, &cases[i].spec, &y, &err), err);
        VN_ASSERT(t, !y.guard_broken);
        EXPECT(t, "forms", y.worker_allocated && strcmp(y.form_error, cases[i].error) == 0);
        EXPECT(t, "values", has_values(&y, 2, (int64_t[]){2, 2}, affine_y()));
        vn_output_free(&y);
    }
    affine_is_right(t, s);
    vn_worker_unload(worker, s);
}

VN_TEST(run, empty_batch_and_scalar) {
    vn_test_model_t m;
    vn_output_t y;
    vn_error_t err;
    vn_bundle_t in = {0};
    VN_ASSERT_OK(t, cf_rows(0, &m, NULL));
    int64_t s = load(t, &m, NULL);
    const vn_output_spec_t none = {.name = "y", .dtype = VN_F32, .rank = 2, .dims = {0, 2}};
    VN_ASSERT_OK(t, vn_test_input(&in, "x", 2, (int64_t[]){0, 3}, NULL, NULL));
    VN_ASSERT_OK_ERR(t, vn_worker_run(worker, s, &in, 1, &none, &y, NULL, &err), err);
    VN_ASSERT(t, has_values(&y, 2, none.dims, NULL) && !y.guard_broken && y.form_error[0] == '\0');
    vn_output_free(&y);
    vn_bundle_free(&in);
    vn_worker_unload(worker, s);
    const vn_test_node_t n = {"Neg", "", 13, 1, VN_F32, 0, NULL, VN_F32, 0, NULL};
    static const double x[] = {3}, want[] = {-3};
    const vn_status_t status = run_node(&n, x, &s, &y, &err);
    if (!offers("Neg")) {
        VN_ASSERT_EQ(t, status, VN_ERR_UNSUPPORTED);
        return;
    }
    VN_ASSERT_OK_ERR(t, status, err);
    VN_ASSERT(t, y.value && y.value->kind == VN_VALUE_TENSOR && y.value->tensor->rank == 0);
    EXPECT(t, "values", has_values(&y, 0, NULL, want));
    vn_output_free(&y);
    vn_worker_unload(worker, s);
}

/* Identity on each element type: the same bits come back, or the type is refused. */
VN_TEST(run, element_types_travel) {
    const int64_t dims[] = {3, 5};
    vn_rng_t rng = vn_test_rng(t);
    int carried = 0;
    bool wide_types = true;
    for (int d = VN_F32; d < VN_DTYPE_COUNT; ++d) {
        if (d == VN_STRING) continue;
        const vn_test_node_t n = {"Identity", "", 25, 1, (vn_dtype_t)d, 2, dims, (vn_dtype_t)d, 2, dims};
        vn_test_model_t m;
        vn_error_t err;
        int64_t s;
        VN_ASSERT_OK(t, vn_test_one_node(&n, &m, NULL));
        vn_status_t status = vn_worker_load(worker, m.bytes, m.size, "onnx", NULL, &s, &err);
        vn_free(m.bytes);
        if (status == VN_ERR_UNSUPPORTED) continue;
        VN_ASSERT_OK_ERR(t, status, err);
        vn_tensor_t *x;
        size_t bytes;
        vn_bundle_t in = {0};
        VN_ASSERT_OK(t, vn_tensor_new((vn_dtype_t)d, 2, dims, &x, NULL));
        VN_ASSERT(t, vn_dtype_storage((vn_dtype_t)d, x->count, &bytes));
        for (size_t i = 0; i < bytes; ++i)
            ((unsigned char *)x->data)[i] = (unsigned char)(d == VN_BOOL ? vn_rng_below(&rng, 2) : vn_rng_below(&rng, 128));
        if (vn_dtype_bits((vn_dtype_t)d) < 8)
            ((unsigned char *)x->data)[bytes - 1] &= (unsigned char)((1 << (x->count * vn_dtype_bits((vn_dtype_t)d) % 8)) - 1);
        VN_ASSERT_OK(t, vn_bundle_add(&in, "x", x, NULL));
        const vn_output_spec_t spec = {.name = "y", .dtype = (vn_dtype_t)d, .rank = 2, .dims = {3, 5}};
        vn_output_t y;
        status = vn_worker_run(worker, s, &in, 1, &spec, &y, NULL, &err);
        if (status != VN_ERR_UNSUPPORTED) {
            if (status != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s: %s: %s", spec_text, vn_dtype_name((vn_dtype_t)d), err.text);
            VN_ASSERT(t, y.value && !y.guard_broken);
            const bool same = y.value->kind == VN_VALUE_TENSOR && vn_tensor_equal_bits(y.value->tensor, x);
            if (vn_dtype_bits((vn_dtype_t)d) == 64 && !excepted("values")) wide_types &= same;
            else if (!same && !excepted("values"))
                vn_test_fail(t, __FILE__, __LINE__, "%s: %s does not come back as it went", spec_text, vn_dtype_name((vn_dtype_t)d));
            vn_output_free(&y);
            ++carried;
        }
        vn_bundle_free(&in);
        vn_tensor_free(x);
        vn_worker_unload(worker, s);
    }
    EXPECT(t, "64-bit types", wide_types);
    if (offers("Identity")) VN_ASSERT(t, carried >= 8);
    else VN_ASSERT_EQ(t, carried, 0);
}

VN_TEST(run, strings) {
    const int64_t dims[] = {3};
    static const char *const words[] = {"", "Vernier", "\xc3\xa9t\xc3\xa9"};
    const vn_test_node_t n = {"Identity", "", 14, 1, VN_STRING, 1, dims, VN_STRING, 1, dims};
    vn_test_model_t m;
    vn_error_t err;
    vn_tensor_t *x;
    vn_bundle_t in = {0};
    vn_output_t y = {0};
    int64_t s;
    VN_ASSERT_OK(t, vn_test_one_node(&n, &m, NULL));
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 1, dims, &x, NULL));
    for (int i = 0; i < 3; ++i) VN_ASSERT_OK(t, vn_tensor_set_string(x, i, words[i], strlen(words[i]), NULL));
    VN_ASSERT_OK(t, vn_bundle_add(&in, "x", x, NULL));
    const vn_output_spec_t spec = {.name = "y", .dtype = VN_STRING, .rank = 1, .dims = {3}};
    vn_status_t status = vn_worker_load(worker, m.bytes, m.size, "onnx", NULL, &s, &err);
    if (status == VN_OK) {
        status = vn_worker_run(worker, s, &in, 1, &spec, &y, NULL, &err);
        vn_worker_unload(worker, s);
    }
    if (can("strings")) {
        VN_ASSERT_OK_ERR(t, status, err);
        EXPECT(t, "values", y.value && y.value->kind == VN_VALUE_TENSOR && vn_tensor_equal_bits(y.value->tensor, x));
        VN_ASSERT(t, y.worker_allocated && y.form_error[0] == '\0');
    } else {
        VN_ASSERT(t, status == VN_ERR_UNSUPPORTED || status == VN_ERR_WORKER);
    }
    vn_output_free(&y);
    vn_bundle_free(&in);
    vn_tensor_free(x);
    vn_free(m.bytes);
}

VN_TEST(run, sequences) {
    vn_test_model_t m;
    vn_error_t err;
    vn_bundle_t in = {0};
    vn_output_t y = {0};
    int64_t s;
    const vn_output_spec_t spec = {.name = "s", .rank = -1};
    VN_ASSERT_OK(t, cf_sequence(3, &m, NULL));
    VN_ASSERT_OK(t, vn_test_input(&in, "x", 2, (int64_t[]){3, 2}, counting, NULL));
    vn_status_t status = vn_worker_load(worker, m.bytes, m.size, "onnx", NULL, &s, &err);
    if (status == VN_OK) {
        status = vn_worker_run(worker, s, &in, 1, &spec, &y, NULL, &err);
        vn_worker_unload(worker, s);
    }
    if (can("sequences")) {
        VN_ASSERT_OK_ERR(t, status, err);
        VN_ASSERT(t, y.value && y.value->kind == VN_VALUE_SEQUENCE && y.value->count == 3 && y.value->elem == VN_F32);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(y.value->items[2]->tensor, 1), 6);
    } else {
        VN_ASSERT_EQ(t, status, VN_ERR_UNSUPPORTED);
    }
    vn_output_free(&y);
    vn_bundle_free(&in);
    vn_free(m.bytes);
}

VN_TEST(run, external_data) {
    vn_test_model_t m = {0};
    vn_error_t err;
    VN_ASSERT_OK_ERR(t, cf_external(vn_test_tmp(), affine, &m, &err), err);
    const int64_t s = load(t, &m, vn_test_tmp());
    affine_is_right(t, s);
    vn_worker_unload(worker, s);
}

/* The same run, the same bits. */
VN_TEST(run, repeats_to_the_bit) {
    enum { N = 96 };
    const int64_t dims[] = {N, N};
    const vn_test_node_t n = {"MatMul", "", 13, 2, VN_F32, 2, dims, VN_F32, 2, dims};
    vn_test_model_t m;
    vn_error_t err;
    vn_rng_t rng = vn_test_rng(t);
    vn_bundle_t in = {0};
    static double x[2][N * N];
    VN_ASSERT_OK(t, vn_test_one_node(&n, &m, NULL));
    const int64_t s = load(t, &m, NULL);
    for (int k = 0; k < 2; ++k) {
        for (int i = 0; i < N * N; ++i) x[k][i] = vn_rng_normal(&rng);
        VN_ASSERT_OK(t, vn_test_input(&in, k ? "x2" : "x", 2, dims, x[k], NULL));
    }
    const vn_output_spec_t spec = {.name = "y", .dtype = VN_F32, .rank = 2, .dims = {N, N}};
    vn_output_t first, y;
    VN_ASSERT_OK_ERR(t, vn_worker_run(worker, s, &in, 1, &spec, &first, NULL, &err), err);
    VN_ASSERT_EQ(t, first.poison_left, 0);
    for (int i = 0; i < 5; ++i) {
        VN_ASSERT_OK_ERR(t, vn_worker_run(worker, s, &in, 1, &spec, &y, NULL, &err), err);
        VN_ASSERT(t, vn_tensor_equal_bits(first.value->tensor, y.value->tensor));
        vn_output_free(&y);
    }
    vn_output_free(&first);
    vn_bundle_free(&in);
    vn_worker_unload(worker, s);
}

/* ---- limits and ends ---- */

VN_TEST(limits, crash_is_told_and_healed) {
    vn_test_model_t m;
    vn_output_t y;
    vn_error_t err;
    VN_ASSERT_OK(t, affine(&m, NULL));
    int64_t s = load(t, &m, NULL);
    const int child = vn_test_child(), before = vn_worker_restarts(worker);
    VN_ASSERT(t, child > 0);
    kill(child, SIGKILL);
    VN_ASSERT_EQ(t, run_affine(s, &declared_y, &y, &err), VN_ERR_CRASHED);
    VN_ASSERT_HAS(t, err.text, "SIGKILL");
    VN_ASSERT(t, !y.value);
    VN_ASSERT_EQ(t, run_affine(s, &declared_y, &y, &err), VN_ERR_NOTFOUND);
    VN_ASSERT_OK(t, affine(&m, NULL));
    s = load(t, &m, NULL);
    VN_ASSERT_EQ(t, vn_worker_restarts(worker), before + 1);
    affine_is_right(t, s);
    vn_worker_unload(worker, s);
}

VN_TEST(limits, time) {
    vn_test_model_t m;
    vn_error_t err;
    int64_t s;
    VN_ASSERT_OK(t, affine(&m, NULL));
    const int child = vn_test_child();
    const double before = worker->timeout_s;
    kill(child, SIGSTOP); /* as good as hanging, and the same for every worker */
    worker->timeout_s = 0.05;
    VN_ASSERT_EQ(t, vn_worker_load(worker, m.bytes, m.size, "onnx", NULL, &s, &err), VN_ERR_TIMEOUT);
    VN_ASSERT_HAS(t, err.text, "did not answer load within 0.05 s");
    worker->timeout_s = before;
    VN_ASSERT(t, kill(child, 0) != 0); /* dead and reaped */
    s = load(t, &m, NULL);
    affine_is_right(t, s);
    vn_worker_unload(worker, s);
}

VN_TEST(limits, memory) {
    vn_worker_t *small;
    vn_error_t err;
    const vn_worker_options_t o = {.timeout_s = 60, .memory_bytes = (int64_t)1 << 20};
    VN_ASSERT_EQ(t, vn_worker_start(&worker->spec, &o, &small, &err), VN_ERR_MEMORY_LIMIT);
    VN_ASSERT_HAS(t, err.text, "the limit is 1 MiB");
    VN_ASSERT(t, vn_worker_peak_bytes(worker) > (int64_t)1 << 20);
}

/* ---- the suite ---- */

static int prepare(void **state) {
    (void)state;
    vn_spec_t spec;
    vn_error_t err = {0};
    json_error_t why;
    const vn_worker_options_t o = {.timeout_s = 120, .threads = 1};
    vn_status_t s = vn_spec_parse(spec_text, &spec, &err);
    if (s == VN_OK) s = vn_worker_start(&spec, &o, &worker, &err);
    if (s == VN_OK) identity = json_loads(vn_worker_identity(worker), 0, &why);
    else fprintf(stderr, "%s\n", err.text);
    return s == VN_OK && identity ? 0 : -1;
}

/* Nothing of ours may be left in shared memory. */
static int finish(void **state) {
    (void)state;
    char prefix[40];
    snprintf(prefix, sizeof prefix, "%s-", worker->prefix + 1);
    json_decref(identity);
    vn_worker_stop(worker);
    const int left = vn_test_segments(prefix);
    if (left) fprintf(stderr, "left behind: %d segments /dev/shm/%s...\n", left, prefix);
    return left ? -1 : 0;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: conformance SPEC, e.g. conformance openvino,precision=f32\n");
        return 2;
    }
    spec_text = argv[1];
    vn_spec_t spec;
    vn_error_t err;
    if (vn_spec_parse(spec_text, &spec, &err) != VN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    if (vn_backend_available(&spec, &err) != VN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return vn_backend_row(spec.name)->info->optional ? SKIPPED : 1;
    }
    const struct CMUnitTest tests[] = {
        VN_CASE(identity, says_what_ran),
        VN_CASE(identity, environment_is_asserted),
        VN_CASE(run, small_model_is_exact),
        VN_CASE(run, two_models_at_once),
        VN_CASE(run, unknown_sessions_and_commands),
        VN_CASE(run, unsupported_operator_is_named),
        VN_CASE(run, broken_models_are_refused),
        VN_CASE(run, shape_that_only_the_data_know),
        VN_CASE(run, other_forms_than_declared),
        VN_CASE(run, empty_batch_and_scalar),
        VN_CASE(run, element_types_travel),
        VN_CASE(run, strings),
        VN_CASE(run, sequences),
        VN_CASE(run, external_data),
        VN_CASE(run, repeats_to_the_bit),
        VN_CASE(limits, crash_is_told_and_healed),
        VN_CASE(limits, time),
        VN_CASE(limits, memory),
    };
    return cmocka_run_group_tests(tests, prepare, finish);
}
