/* The mutant does what its options say, to the bit: every order, accumulator and operand format against a slow twin, one term at a time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "worker/models.h"

enum { M = 3, K = 301, N = 5 };

/* ---- the slow twin ---- */

typedef struct twin {
    vn_format_t acc;
    bool ftz;
} twin_t;

static double keep(const twin_t *w, double x) {
    const double y = vn_round_to(w->acc, x, VN_RNE, false);
    return w->ftz && fabs(y) < vn_format_info(w->acc)->tau ? copysign(0.0, y) : y;
}

static double chain(const twin_t *w, const double *p, int n, int step) {
    double s = 0;
    for (int i = 0; i < n; i += step) s = keep(w, s + p[i]);
    return s;
}

static double sequential(const twin_t *w, const double *p, int n) { return chain(w, p, n, 1); }

static double reversed(const twin_t *w, const double *p, int n) {
    double s = 0;
    for (int i = n - 1; i >= 0; --i) s = keep(w, s + p[i]);
    return s;
}

static double pairwise(const twin_t *w, const double *p, int n) {
    if (n <= 1) return n ? p[0] : 0;
    int left = 1;
    while (2 * left < n) left *= 2;
    return keep(w, pairwise(w, p, left) + pairwise(w, p + left, n - left));
}

static double lanes8(const twin_t *w, const double *p, int n) {
    double lane[8];
    for (int i = 0; i < 8; ++i) lane[i] = i < n ? chain(w, p + i, n - i, 8) : 0;
    return pairwise(w, lane, 8);
}

static double blocks128(const twin_t *w, const double *p, int n) {
    double s = 0;
    for (int i = 0; i < n; i += 128) s = keep(w, s + chain(w, p + i, n - i < 128 ? n - i : 128, 1));
    return s;
}

static const struct {
    const char *name;
    double (*sum)(const twin_t *w, const double *p, int n);
} orders[] = {
    {"sequential", sequential}, {"reversed", reversed}, {"pairwise", pairwise}, {"lanes8", lanes8}, {"blocks128", blocks128},
};

static const struct {
    const char *name;
    vn_format_t format;
    vn_rounding_t mode;
} operand_formats[] = {
    {"f32", VN_FMT_F32, VN_RNE},       {"tf32-rn", VN_FMT_TF32, VN_RNE}, {"tf32-rz", VN_FMT_TF32, VN_RZ},
    {"tf32-rna", VN_FMT_TF32, VN_RNA}, {"bf16", VN_FMT_BF16, VN_RNE},    {"f16", VN_FMT_F16, VN_RNE},
};

/* ---- one product through the worker ---- */

typedef struct product {
    double a[M * K], b[K * N];
    vn_bundle_t in;
} product_t;

static void make_product(vn_test_t *t, product_t *p, double scale) {
    vn_rng_t rng = vn_test_rng(t);
    memset(p, 0, sizeof *p);
    for (int i = 0; i < M * K; ++i) p->a[i] = (double)(float)(scale * vn_rng_normal(&rng));
    for (int i = 0; i < K * N; ++i) p->b[i] = (double)(float)vn_rng_normal(&rng);
    VN_ASSERT_OK(t, vn_test_input(&p->in, "x", 2, (int64_t[]){M, K}, p->a, NULL));
    VN_ASSERT_OK(t, vn_test_input(&p->in, "x2", 2, (int64_t[]){K, N}, p->b, NULL));
}

/* Runs one-node model `n` on `spec`; y is an open output. */
static void run(vn_test_t *t, const char *spec_text, const vn_test_node_t *n, const vn_bundle_t *in, vn_output_t *y) {
    vn_spec_t spec;
    vn_worker_t *w;
    vn_error_t err;
    vn_test_model_t m;
    int64_t session;
    const vn_worker_options_t o = {.timeout_s = 60, .threads = 2};
    const vn_output_spec_t out = {.name = "y", .rank = -1};
    VN_ASSERT_OK_ERR(t, vn_spec_parse(spec_text, &spec, &err), err);
    VN_ASSERT_OK_ERR(t, vn_worker_start(&spec, &o, &w, &err), err);
    VN_ASSERT_OK_ERR(t, vn_test_one_node(n, &m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_worker_load(w, m.bytes, m.size, "onnx", NULL, &session, &err), err);
    VN_ASSERT_OK_ERR(t, vn_worker_run(w, session, in, 1, &out, y, NULL, &err), err);
    vn_free(m.bytes);
    vn_worker_stop(w);
}

/* The model's inputs have different shapes, so they are left open in it. */
static const int64_t any_shape[] = {-1, -1};
static const vn_test_node_t matmul = {"MatMul", "", 13, 2, VN_F32, 2, any_shape, VN_F32, 2, any_shape};

static void check(vn_test_t *t, const char *spec, const product_t *p, const double *want) {
    vn_output_t y;
    run(t, spec, &matmul, &p->in, &y);
    for (int i = 0; i < M * N; ++i) {
        const double got = vn_tensor_get_f64(y.value->tensor, i);
        if (got != want[i] && !(isnan(got) && isnan(want[i])))
            vn_test_fail(t, __FILE__, __LINE__, "%s: element %d is %a, the twin says %a", spec, i, got, want[i]);
    }
    vn_output_free(&y);
}

static void terms(const product_t *p, const twin_t *w, vn_format_t f, vn_rounding_t mode, int i, int j, double *out) {
    for (int k = 0; k < K; ++k)
        out[k] = keep(w, vn_round_to(f, p->a[i * K + k], mode, false) * vn_round_to(f, p->b[k * N + j], mode, false));
}

VN_TEST(mutant, orders_and_accumulators) {
    static const struct {
        const char *name;
        vn_format_t format;
    } accumulators[] = {{"f32", VN_FMT_F32}, {"f64", VN_FMT_F64}, {"f16", VN_FMT_F16}, {"bf16", VN_FMT_BF16}};
    product_t p;
    make_product(t, &p, 1);
    for (size_t o = 0; o < sizeof orders / sizeof *orders; ++o)
        for (size_t a = 0; a < sizeof accumulators / sizeof *accumulators; ++a) {
            char spec[128];
            double want[M * N], part[K];
            const twin_t w = {accumulators[a].format, false};
            for (int i = 0; i < M * N; ++i) {
                terms(&p, &w, VN_FMT_F32, VN_RNE, i / N, i % N, part);
                want[i] = (double)(float)orders[o].sum(&w, part, K);
            }
            snprintf(spec, sizeof spec, "mutant,association=%s,accumulator=%s", orders[o].name, accumulators[a].name);
            check(t, spec, &p, want);
        }
    vn_bundle_free(&p.in);
}

VN_TEST(mutant, operands_and_results) {
    product_t p;
    make_product(t, &p, 1);
    const twin_t w = {VN_FMT_F32, false};
    for (size_t f = 0; f < sizeof operand_formats / sizeof *operand_formats; ++f) {
        char spec[128];
        double want[M * N], part[K];
        for (int i = 0; i < M * N; ++i) {
            terms(&p, &w, operand_formats[f].format, operand_formats[f].mode, i / N, i % N, part);
            want[i] = sequential(&w, part, K);
        }
        snprintf(spec, sizeof spec, "mutant,operands=%s", operand_formats[f].name);
        check(t, spec, &p, want);
        for (int i = 0; i < M * N; ++i) {
            terms(&p, &w, VN_FMT_F32, VN_RNE, i / N, i % N, part);
            want[i] = vn_round_to(operand_formats[f].format, sequential(&w, part, K), operand_formats[f].mode, false);
        }
        snprintf(spec, sizeof spec, "mutant,result=%s", operand_formats[f].name);
        check(t, spec, &p, want);
    }
    vn_bundle_free(&p.in);
}

VN_TEST(mutant, fused_multiply_add) {
    product_t p;
    double want[M * N];
    make_product(t, &p, 1);
    for (int i = 0; i < M * N; ++i) {
        float s = 0;
        for (int k = 0; k < K; ++k) s = fmaf((float)p.a[i / N * K + k], (float)p.b[k * N + i % N], s);
        want[i] = s;
    }
    check(t, "mutant,association=fma", &p, want);
    check(t, "mutant,association=fma,ftz", &p, want); /* lanes of any format: rounds to odd first; nothing here is subnormal */
    for (int i = 0; i < M * N; ++i) {
        double s = 0;
        for (int k = 0; k < K; ++k) s = fma(p.a[i / N * K + k], p.b[k * N + i % N], s);
        want[i] = (double)(float)s;
    }
    check(t, "mutant,association=fma,accumulator=f64", &p, want);
    vn_bundle_free(&p.in);
}

/* Products below 2^-126: kept, flushed as results, flushed as operands. */
VN_TEST(mutant, subnormals) {
    product_t p;
    make_product(t, &p, 0x1p-128);
    double kept[M * N], flushed[M * N], part[K];
    const twin_t keeps = {VN_FMT_F32, false}, flushes = {VN_FMT_F32, true};
    int differ = 0;
    for (int i = 0; i < M * N; ++i) {
        terms(&p, &keeps, VN_FMT_F32, VN_RNE, i / N, i % N, part);
        kept[i] = sequential(&keeps, part, K);
        terms(&p, &flushes, VN_FMT_F32, VN_RNE, i / N, i % N, part);
        flushed[i] = sequential(&flushes, part, K);
        differ += kept[i] != flushed[i];
    }
    VN_ASSERT(t, differ > M * N / 2);
    check(t, "mutant", &p, kept);
    check(t, "mutant,ftz", &p, flushed);
    for (int i = 0; i < M * N; ++i) {
        for (int k = 0; k < K; ++k) {
            const double a = p.a[i / N * K + k];
            part[k] = keep(&keeps, (fabs(a) < 0x1p-126 ? 0 : a) * p.b[k * N + i % N]);
        }
        kept[i] = sequential(&keeps, part, K);
    }
    check(t, "mutant,daz", &p, kept);
    vn_bundle_free(&p.in);
}

/* Sums outside contractions follow the order too. */
VN_TEST(mutant, reductions) {
    const int64_t dims[] = {3, K};
    double x[3 * K];
    vn_rng_t rng = vn_test_rng(t);
    vn_bundle_t in = {0};
    for (int i = 0; i < 3 * K; ++i) x[i] = (double)(float)vn_rng_normal(&rng);
    VN_ASSERT_OK(t, vn_test_input(&in, "x", 2, dims, x, NULL));
    const vn_test_node_t sum = {"ReduceSum", "", 13, 1, VN_F32, 2, dims, VN_F32, -1, NULL};
    const twin_t w = {VN_FMT_F32, false};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; ++o) { /* all axes: 903 terms in row-major order */
        char spec[128];
        vn_output_t y;
        snprintf(spec, sizeof spec, "mutant,association=%s", orders[o].name);
        run(t, spec, &sum, &in, &y);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(y.value->tensor, 0), orders[o].sum(&w, x, 3 * K));
        vn_output_free(&y);
    }
    vn_bundle_free(&in);
}

VN_TEST_MAIN(VN_CASE(mutant, orders_and_accumulators), VN_CASE(mutant, operands_and_results), VN_CASE(mutant, fused_multiply_add),
             VN_CASE(mutant, subnormals), VN_CASE(mutant, reductions))
