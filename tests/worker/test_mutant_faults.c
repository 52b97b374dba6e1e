/* Faults and arithmetics of the mutant: chosen by a word, shown to the bit that a slow twin says, refused aloud where they cannot be shown. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "worker/models.h"

enum { M = 5, K = 45, N = 6 };

/* ---- one MatMul [M,K] x [K,N] on a back end ---- */

typedef struct bench {
    double a[M * K], b[K * N];
    vn_bundle_t in;
    vn_worker_t *w;
    int64_t session;
} bench_t;

static const int64_t any[] = {-1, -1};
static const vn_test_node_t matmul = {"MatMul", "", 13, 2, VN_F32, 2, any, VN_F32, 2, any};

static void fill(vn_test_t *t, bench_t *x, bool small) {
    vn_rng_t rng = vn_test_rng(t);
    memset(x, 0, sizeof *x);
    for (int i = 0; i < M * K; ++i) x->a[i] = small ? (double)vn_rng_below(&rng, 9) - 4 : (double)(float)vn_rng_normal(&rng);
    for (int i = 0; i < K * N; ++i) x->b[i] = small ? (double)vn_rng_below(&rng, 9) - 4 : (double)(float)vn_rng_normal(&rng);
    VN_ASSERT_OK(t, vn_test_input(&x->in, "x", 2, (int64_t[]){M, K}, x->a, NULL));
    VN_ASSERT_OK(t, vn_test_input(&x->in, "x2", 2, (int64_t[]){K, N}, x->b, NULL));
}

static vn_status_t start(const char *spec_text, const vn_test_node_t *n, bench_t *x, vn_error_t *err) {
    const vn_worker_options_t o = {.timeout_s = 60, .threads = 1};
    vn_spec_t spec;
    vn_test_model_t m;
    x->w = NULL;
    VN_TRY(vn_spec_parse(spec_text, &spec, err));
    VN_TRY(vn_worker_start(&spec, &o, &x->w, err));
    VN_TRY(vn_test_one_node(n, &m, err));
    vn_status_t s = vn_worker_load(x->w, m.bytes, m.size, "onnx", NULL, &x->session, err);
    vn_free(m.bytes);
    return s;
}

static vn_status_t ask(bench_t *x, vn_output_t *y, vn_error_t *err) {
    const vn_output_spec_t out = {.name = "y", .rank = -1};
    return vn_worker_run(x->w, x->session, &x->in, 1, &out, y, NULL, err);
}

static void expect(vn_test_t *t, const char *spec, bench_t *x, const double *want) {
    vn_error_t err;
    vn_output_t y;
    VN_ASSERT_OK_ERR(t, start(spec, &matmul, x, &err), err);
    VN_ASSERT_OK_ERR(t, ask(x, &y, &err), err);
    for (int i = 0; i < M * N; ++i)
        if (vn_tensor_get_f64(y.value->tensor, i) != want[i])
            vn_test_fail(t, __FILE__, __LINE__, "%s: element %d is %a, the twin says %a", spec, i, vn_tensor_get_f64(y.value->tensor, i),
                         want[i]);
    vn_output_free(&y);
    vn_worker_stop(x->w);
}

/* ---- arithmetics against slow twins ---- */

static double product_of(const bench_t *x, int i, int k) { return (double)((float)x->a[i / N * K + k] * (float)x->b[k * N + i % N]); }
static double plus(double a, double b) { return (double)((float)a + (float)b); }

VN_TEST(mutant_arithmetic, partial_sums_are_stored_as_asked) {
    bench_t x;
    fill(t, &x, false);
    double want[M * N];
    for (int i = 0; i < M * N; ++i) { /* 4 parts of 12, 12, 12, 9 terms */
        want[i] = 0;
        for (int from = 0; from < K; from += 12) {
            double part = 0;
            for (int k = from; k < K && k < from + 12; ++k) part = plus(part, product_of(&x, i, k));
            want[i] = plus(want[i], vn_round_to(VN_FMT_BF16, part, VN_RNE, false));
        }
    }
    expect(t, "mutant,split=4,partials=bf16", &x, want);
    vn_bundle_free(&x.in);
}

/* |s| cut to 24 bits: a sum that was rounded away from zero goes back by one ulp. */
static double cut(double a, double b) {
    const double s = a + b;
    float f = (float)s;
    const long double exact = (long double)a + (long double)b; /* 64 bits: exact for these operands */
    if (fabsl((long double)f) > fabsl(exact)) f = nextafterf(f, 0);
    return (double)f;
}

VN_TEST(mutant_arithmetic, sums_are_cut) {
    bench_t x;
    fill(t, &x, false);
    double want[M * N];
    for (int i = 0; i < M * N; ++i) {
        want[i] = 0;
        for (int k = 0; k < K; ++k) {
            const double p = x.a[i / N * K + k] * x.b[k * N + i % N]; /* exact */
            want[i] = cut(want[i], vn_round_to(VN_FMT_F32, p, VN_RZ, false));
        }
    }
    expect(t, "mutant,accumulator=f32-rz", &x, want);
    vn_bundle_free(&x.in);
}

VN_TEST(mutant_arithmetic, sixteen_lanes) {
    bench_t x;
    fill(t, &x, false);
    double want[M * N];
    for (int i = 0; i < M * N; ++i) {
        double lane[16] = {0};
        for (int k = 0; k < K; ++k) lane[k % 16] = plus(lane[k % 16], product_of(&x, i, k));
        for (int step = 1; step < 16; step *= 2)
            for (int l = 0; l < 16; l += 2 * step) lane[l] = plus(lane[l], lane[l + step]);
        want[i] = lane[0];
    }
    expect(t, "mutant,association=lanes16", &x, want);
    vn_bundle_free(&x.in);
}

/* Small integers: whatever the adder cuts is zero, in every arithmetic that keeps 8 bits. */
VN_TEST(mutant_arithmetic, small_integers_stay_exact) {
    static const char *const specs[] = {"mutant,association=adder16", "mutant,operands=bf16x3", "mutant,operands=bf16x6",
                                        "mutant,accumulator=f32-rz",  "mutant,split=8",         "mutant,partials=f16,split=2"};
    bench_t x;
    fill(t, &x, true);
    double want[M * N];
    for (int i = 0; i < M * N; ++i) {
        want[i] = 0;
        for (int k = 0; k < K; ++k) want[i] += product_of(&x, i, k);
    }
    for (size_t s = 0; s < sizeof specs / sizeof *specs; ++s) expect(t, specs[s], &x, want);
    vn_bundle_free(&x.in);
}

VN_TEST(mutant_arithmetic, activations_are_codes) {
    bench_t x;
    fill(t, &x, false);
    double want[M * N];
    for (int i = 0; i < M * N; ++i) {
        const double *row = x.a + i / N * K;
        double top = 0;
        for (int k = 0; k < K; ++k) top = fmax(top, fabs(row[k]));
        const double scale = (double)(float)(top / 127);
        want[i] = 0;
        for (int k = 0; k < K; ++k) {
            const double code = fmax(-127, fmin(127, rint(row[k] / scale)));
            want[i] = plus(want[i], (double)((float)(scale * code) * (float)x.b[k * N + i % N]));
        }
    }
    expect(t, "mutant,activations=int8-row", &x, want);
    vn_bundle_free(&x.in);
}

/* ---- faults ---- */

VN_TEST(mutant_faults, tail_of_terms) {
    bench_t x;
    fill(t, &x, false);
    double want[M * N];
    for (int i = 0; i < M * N; ++i) {
        want[i] = 0;
        for (int k = 0; k < K - 7; ++k) want[i] = plus(want[i], product_of(&x, i, k));
    }
    expect(t, "mutant,fault=k-tail-dropped:7", &x, want);
    vn_bundle_free(&x.in);
}

VN_TEST(mutant_faults, rows_and_lanes_and_places) {
    bench_t x;
    fill(t, &x, false);
    double clean[M * N], want[M * N];
    for (int i = 0; i < M * N; ++i) {
        clean[i] = 0;
        for (int k = 0; k < K; ++k) clean[i] = plus(clean[i], product_of(&x, i, k));
    }
    expect(t, "mutant", &x, clean);
    for (int i = 0; i < M * N; ++i) want[i] = i / N == 3 ? clean[i - N] : clean[i];
    expect(t, "mutant,fault=row-wrong:3", &x, want);
    for (int i = 0; i < M * N; ++i) want[i] = i % N % 3 == 2 ? 0 : clean[i];
    expect(t, "mutant,fault=lane-unwritten:3", &x, want);
    for (int i = 0; i < M * N; ++i) want[i] = i % N >= N - 2 ? 0 : clean[i];
    expect(t, "mutant,fault=tail-unwritten:2", &x, want);
    for (int i = 0; i < M * N; ++i) want[i] = (double)(float)(clean[i] * 1.5);
    expect(t, "mutant,fault=constant-ratio:1.5", &x, want);
    for (int i = 0; i < M * N; ++i) { /* MatMul's own row of the name: the left operand's memory read by columns */
        want[i] = 0;
        for (int k = 0; k < K; ++k) want[i] = plus(want[i], (double)((float)x.a[k * M + i / N] * (float)x.b[k * N + i % N]));
    }
    expect(t, "mutant,fault=transposed", &x, want);
    vn_bundle_free(&x.in);
}

VN_TEST(mutant_faults, race_differs_from_run_to_run) {
    bench_t x;
    vn_error_t err;
    vn_output_t one, two;
    fill(t, &x, false);
    VN_ASSERT_OK_ERR(t, start("mutant,fault=race", &matmul, &x, &err), err);
    VN_ASSERT_OK_ERR(t, ask(&x, &one, &err), err);
    VN_ASSERT_OK_ERR(t, ask(&x, &two, &err), err);
    VN_ASSERT(t, !vn_tensor_equal_bits(one.value->tensor, two.value->tensor));
    vn_output_free(&one);
    vn_output_free(&two);
    vn_worker_stop(x.w);
    vn_bundle_free(&x.in);
}

/* ---- refusals ---- */

static void refused(vn_test_t *t, const char *spec, const vn_test_node_t *n, bool small, const char *text) {
    bench_t x;
    vn_error_t err = {0};
    vn_output_t y = {0};
    fill(t, &x, small);
    vn_status_t s = start(spec, n, &x, &err);
    if (s == VN_OK) s = ask(&x, &y, &err);
    if (s == VN_OK || !strstr(err.text, text)) vn_test_fail(t, __FILE__, __LINE__, "%s: '%s' does not say '%s'", spec, err.text, text);
    vn_output_free(&y);
    vn_worker_stop(x.w);
    vn_bundle_free(&x.in);
}

VN_TEST(mutant_faults, refused_aloud) {
    static const vn_test_node_t add = {"Add", "", 13, 2, VN_F32, 2, any, VN_F32, 2, any};
    refused(t, "mutant,fault=nonsense", &matmul, false, "unknown fault 'nonsense'");
    refused(t, "mutant,fault=gelu-tanh:3", &matmul, false, "takes no value");
    refused(t, "mutant,fault=k-tail-dropped:many", &matmul, false, "'many' is not how many terms");
    refused(t, "mutant,fault=gelu-tanh", &matmul, false, "no operator of this model can show it");
    refused(t, "mutant,fault=k-tail-dropped", &add, false, "no operator of this model can show it");
    refused(t, "mutant,fault=operands-f16", &matmul, true, "changes no element"); /* small integers are f16 numbers */
    refused(t, "mutant,fault=k-tail-dropped:45", &matmul, false, "changes no element");
    refused(t, "mutant,fault=zeros,node=elsewhere", &matmul, false, "no operator of this model can show it");
}

/* ---- the list ---- */

VN_TEST(mutant_faults, list_names_operators_and_faults) {
    FILE *p = popen(VN_TEST_BUILD "/workers/vernier-worker-mutant --list", "r");
    char line[1024];
    int operators = 0, faults = 0, fields = 0;
    VN_ASSERT(t, p != NULL);
    while (fgets(line, sizeof line, p)) {
        operators += strncmp(line, "operator\t", 9) == 0;
        if (strncmp(line, "fault\t", 6) != 0) continue;
        ++faults;
        for (const char *c = line; *c; ++c) fields += *c == '\t';
    }
    VN_ASSERT_EQ(t, pclose(p), 0);
    VN_ASSERT(t, operators >= 59);
    VN_ASSERT(t, faults >= 60);
    VN_ASSERT_EQ(t, fields, 5 * faults);
}

VN_TEST_MAIN(VN_CASE(mutant_arithmetic, partial_sums_are_stored_as_asked), VN_CASE(mutant_arithmetic, sums_are_cut),
             VN_CASE(mutant_arithmetic, sixteen_lanes), VN_CASE(mutant_arithmetic, small_integers_stay_exact),
             VN_CASE(mutant_arithmetic, activations_are_codes), VN_CASE(mutant_faults, tail_of_terms),
             VN_CASE(mutant_faults, rows_and_lanes_and_places), VN_CASE(mutant_faults, race_differs_from_run_to_run),
             VN_CASE(mutant_faults, refused_aloud), VN_CASE(mutant_faults, list_names_operators_and_faults))
