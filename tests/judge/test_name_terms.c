/* Names for sums that lack terms, count them twice, or add something in another measure (claims NAME-TERMS-1, NAME-BIAS-1, NAME-BORDER-1).
 * Faulty values are computed here in f64, term by term. */
#include "judge/name_case.h"

#define OURS "k-tail-dropped term-dropped term-twice border-taps bias- alpha-twice padding-leaks"

static double a[NC_MAX], b[NC_MAX], c0[NC_MAX], y[NC_MAX];

/* y[m,n] = alpha sum over k of a b, those k for which use(k) holds, + beta c0[n]. */
typedef bool (*use_fn)(int64_t k);
static int64_t first, last, period; /* what the functions below leave out */
static bool all(int64_t k) { return k >= 0; }
static bool outside_range(int64_t k) { return k < first || k > last; }
static bool in_phase(int64_t k) { return k % period != first; }

static void gemm(int64_t m, int64_t k, int64_t n, double alpha, double beta, use_fn use) {
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double s = 0;
            for (int64_t l = 0; l < k; ++l)
                if (use(l)) s += a[i * k + l] * b[l * n + j];
            y[i * n + j] = alpha * s + beta * c0[j];
        }
}

static void gemm_case(vn_test_t *t, jc_t *c, vn_rng_t *rng, vn_dtype_t type, int64_t m, int64_t k, int64_t n, double alpha, double beta) {
    nc_fill(rng, a, m * k, 1);
    nc_fill(rng, b, k * n, 1);
    nc_fill(rng, c0, n, 2);
    for (int64_t i = 0; type == VN_F16 && i < NC_MAX; ++i) {
        a[i] = vn_round_to(VN_FMT_F16, a[i], VN_RNE, false);
        b[i] = vn_round_to(VN_FMT_F16, b[i], VN_RNE, false);
        c0[i] = vn_round_to(VN_FMT_F16, c0[i], VN_RNE, false);
    }
    jc_new(t, c, "ieee");
    jc_in(t, c, type, JC_DIMS(m, k), a);
    jc_in(t, c, type, JC_DIMS(k, n), b);
    jc_in(t, c, type, JC_DIMS(n), c0);
    jc_op(t, c, "Gemm", 13, 1);
    VN_ASSERT_OK(t, vn_node_set_float(c->model, c->node, "alpha", (float)alpha, NULL));
    VN_ASSERT_OK(t, vn_node_set_float(c->model, c->node, "beta", (float)beta, NULL));
    jc_oracle(t, c);
}

VN_TEST(terms, lost_ranges_of_a_product) {
    vn_rng_t rng = vn_test_rng(t);
    const struct {
        int64_t k, first, last;
        const char *cause;
    } cases[] = {{67, 64, 66, "k-tail-dropped:3"}, {100, 50, 99, "k-tail-dropped:50"}, {33, 32, 32, "k-tail-dropped:1"},
                 {96, 32, 63, "term-dropped"},     {50, 17, 17, "term-dropped"},       {64, 0, 15, "term-dropped"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        jc_t c;
        gemm_case(t, &c, &rng, i & 1 ? VN_F16 : VN_F32, 7, cases[i].k, 6, 0.5, -1.5);
        first = cases[i].first;
        last = cases[i].last;
        gemm(7, cases[i].k, 6, 0.5, -1.5, outside_range);
        VN_ASSERT_CAUSE(t, &c, y, cases[i].cause);
        jc_free(&c);
    }
}

VN_TEST(terms, lanes_and_single_terms_and_rows) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    gemm_case(t, &c, &rng, VN_F32, 6, 80, 5, 1, 1);
    period = 8;
    first = 3;
    gemm(6, 80, 5, 1, 1, in_phase);
    VN_ASSERT_CAUSE(t, &c, y, "term-dropped");
    VN_ASSERT_HAS(t, c.found[0].words, "3 modulo 8");
    gemm(6, 80, 5, 1, 1, all); /* every third element lacks a term of its own */
    for (int64_t i = 0; i < 30; i += 3) {
        const int64_t k = (int64_t)vn_rng_below(&rng, 80);
        y[i] -= a[i / 5 * 80 + k] * b[k * 5 + i % 5];
    }
    VN_ASSERT_CAUSE(t, &c, y, "term-dropped");
    gemm(6, 80, 5, 1, 1, all); /* the tail of one row only */
    for (int64_t j = 0; j < 5; ++j)
        for (int64_t k = 76; k < 80; ++k) y[10 + j] -= a[160 + k] * b[k * 5 + j];
    VN_ASSERT_CAUSE(t, &c, y, "k-tail-dropped:4");
    gemm(6, 80, 5, 1, 1, all); /* a block twice */
    for (int64_t i = 0; i < 30; ++i)
        for (int64_t k = 64; k < 80; ++k) y[i] += a[i / 5 * 80 + k] * b[k * 5 + i % 5];
    VN_ASSERT_CAUSE(t, &c, y, "term-twice");
    jc_free(&c);
}

VN_TEST(terms, factors_of_addend_and_product) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    const float alpha = 0.3f, beta = 0.7f;
    const struct {
        double alpha, beta;
        const char *cause;
    } cases[] = {{0.3f, 0, "bias-missing"},
                 {0.3f, 1.4f, "bias-twice"},
                 {0.3f, 0.3f * 0.7f, "bias-scale"},
                 {0.3f, 0.7f * 0.7f, "bias-scale"},
                 {(double)0.3f * 0.3f, 0.7f, "alpha-twice"},
                 {0.3f, -2.125, "bias-scale"}};
    gemm_case(t, &c, &rng, VN_F32, 6, 20, 8, alpha, beta);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        gemm(6, 20, 8, cases[i].alpha, cases[i].beta, all);
        VN_ASSERT_CAUSE(t, &c, y, cases[i].cause);
    }
    jc_free(&c);
}

/* ---- convolution of [1,C,H,W] with padding 1, kernel 3 x 3 ---- */

enum { MAPS = 3, SIZE = 7 };
typedef bool (*tap_fn)(int64_t channel, int64_t h, int64_t w, int64_t kh, int64_t kw);
static bool every_tap(int64_t channel, int64_t h, int64_t w, int64_t kh, int64_t kw) { return channel + h + w + kh + kw >= 0; }
static bool not_last_channels(int64_t channel, int64_t h, int64_t w, int64_t kh, int64_t kw) { return channel + 0 * (h + w + kh + kw) < 3; }
static bool not_last_column_taps(int64_t channel, int64_t h, int64_t w, int64_t kh, int64_t kw) {
    return kw + 0 * (channel + h + w + kh) < 2;
}
static bool not_last_row(int64_t channel, int64_t h, int64_t w, int64_t kh, int64_t kw) {
    return h + 0 * (channel + w + kh + kw) < SIZE - 1;
}
static bool not_first_column(int64_t channel, int64_t h, int64_t w, int64_t kh, int64_t kw) { return w + 0 * (channel + h + kh + kw) > 0; }

static void conv(int64_t channels, tap_fn use) {
    for (int64_t m = 0; m < MAPS; ++m)
        for (int64_t p = 0; p < SIZE * SIZE; ++p) {
            double s = c0[m];
            for (int64_t c = 0; c < channels; ++c)
                for (int64_t k = 0; k < 9; ++k) {
                    const int64_t h = p / SIZE + k / 3 - 1, w = p % SIZE + k % 3 - 1;
                    if (h < 0 || w < 0 || h >= SIZE || w >= SIZE || !use(c, h, w, k / 3, k % 3)) continue;
                    s += a[(c * SIZE + h) * SIZE + w] * b[(m * channels + c) * 9 + k];
                }
            y[m * SIZE * SIZE + p] = s;
        }
}

VN_TEST(terms, taps_of_a_convolution) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    nc_fill(&rng, a, 5 * SIZE * SIZE, 1);
    nc_fill(&rng, b, MAPS * 5 * 9, 1);
    nc_fill(&rng, c0, MAPS, 1);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(1, 5, SIZE, SIZE), a);
    jc_in(t, &c, VN_F32, JC_DIMS(MAPS, 5, 3, 3), b);
    jc_in(t, &c, VN_F32, JC_DIMS(MAPS), c0);
    jc_op(t, &c, "Conv", 11, 1);
    VN_ASSERT_OK(t, vn_node_set_ints(c.model, c.node, "pads", (const int64_t[]){1, 1, 1, 1}, 4, NULL));
    jc_oracle(t, &c);
    conv(5, not_last_channels);
    VN_ASSERT_CAUSE(t, &c, y, "k-tail-dropped:18");
    conv(5, not_last_column_taps);
    VN_ASSERT_CAUSE(t, &c, y, "k-tail-dropped:15");
    conv(5, not_last_row);
    VN_ASSERT_CAUSE(t, &c, y, "border-taps");
    conv(5, not_first_column);
    VN_ASSERT_CAUSE(t, &c, y, "border-taps");
    conv(5, every_tap);
    for (int64_t i = 0; i < MAPS * SIZE * SIZE; ++i) y[i] += c0[i / (SIZE * SIZE)];
    VN_ASSERT_CAUSE(t, &c, y, "bias-twice");
    conv(5, every_tap); /* faults of another kind */
    for (int64_t i = 0; i < SIZE; ++i) y[i] = 0.3 * (double)i;
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(terms, windows_of_pooling) {
    vn_rng_t rng = vn_test_rng(t);
    for (int average = 0; average < 2; ++average) {
        jc_t c;
        nc_fill(&rng, a, SIZE * SIZE * 2, 1);
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(1, 2, SIZE, SIZE), a);
        jc_op(t, &c, average ? "AveragePool" : "MaxPool", 11, 1);
        VN_ASSERT_OK(t, vn_node_set_ints(c.model, c.node, "pads", (const int64_t[]){1, 1, 1, 1}, 4, NULL));
        VN_ASSERT_OK(t, vn_node_set_ints(c.model, c.node, "kernel_shape", (const int64_t[]){3, 3}, 2, NULL));
        jc_oracle(t, &c);
        for (int64_t i = 0; i < 2 * SIZE * SIZE; ++i) {
            double best = -INFINITY, sum = 0;
            int n = 0;
            for (int64_t k = 0; k < 9; ++k) {
                const int64_t h = i / SIZE % SIZE + k / 3 - 1, w = i % SIZE + k % 3 - 1;
                if (h < 0 || w < 0 || w >= SIZE || h >= SIZE - 1) continue; /* the last row is never read */
                const double x = a[(i / (SIZE * SIZE) * SIZE + h) * SIZE + w];
                best = fmax(best, x);
                sum += x;
                n++;
            }
            y[i] = average ? sum / n : best;
        }
        VN_ASSERT_CAUSE(t, &c, y, "border-taps");
        jc_free(&c);
    }
}

VN_TEST(terms, reductions) {
    vn_rng_t rng = vn_test_rng(t);
    static const char *const ops[] = {"ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"};
    const int64_t n = 45;
    const double axis = 1;
    for (int op = 0; op < 6; ++op) {
        jc_t c;
        nc_fill(&rng, a, 8 * n, 1);
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(8, n), a);
        jc_in(t, &c, VN_I64, JC_DIMS(1), &axis);
        jc_op(t, &c, ops[op], 18, 1);
        VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "keepdims", 0, NULL));
        jc_oracle(t, &c);
        for (int64_t i = 0; i < 8; ++i) {
            double s = 0;
            for (int64_t k = 0; k < 40; ++k) {
                const double x = a[i * n + k];
                s += op < 2 ? x : op == 2 ? fabs(x) : op == 5 ? exp(x) : x * x;
            }
            y[i] = op == 1 ? s / (double)n : op == 3 ? sqrt(s) : op == 5 ? log(s) : s;
        }
        VN_ASSERT_CAUSE(t, &c, y, "k-tail-dropped:5");
        if (op == 1) {
            for (int64_t i = 0; i < 8; ++i) y[i] = c.refs[0].value[i] * (double)n / 48;
            VN_ASSERT_CAUSE(t, &c, y, "padding-leaks");
        }
        jc_free(&c);
    }
}

/* Layer normalisation of [4, 37] and a softmax: statistics over the first `kept` elements, divided by n. */
static void layer(int64_t rows, int64_t length, int64_t kept, double n, double zeros) {
    for (int64_t r = 0; r < rows; ++r) {
        const double *x = a + r * length;
        double mean = 0, v = 0;
        for (int64_t k = 0; k < kept; ++k) mean += x[k] / n;
        for (int64_t k = 0; k < kept; ++k) v += (x[k] - mean) * (x[k] - mean) / n;
        v += zeros * mean * mean / n;
        for (int64_t k = 0; k < length; ++k) y[r * length + k] = (x[k] - mean) / sqrt(v + (double)1e-5f) * b[k] + c0[k];
    }
}

VN_TEST(terms, statistics_over_fewer_elements) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    enum { ROWS = 4, D = 37 };
    nc_fill(&rng, a, ROWS * D, 1);
    nc_fill(&rng, b, D, 1);
    nc_fill(&rng, c0, D, 1);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(ROWS, D), a);
    jc_in(t, &c, VN_F32, JC_DIMS(D), b);
    jc_in(t, &c, VN_F32, JC_DIMS(D), c0);
    jc_op(t, &c, "LayerNormalization", 17, 1);
    jc_oracle(t, &c);
    layer(ROWS, D, 32, 32, 0);
    VN_ASSERT_CAUSE(t, &c, y, "k-tail-dropped:5");
    layer(ROWS, D, 36, D, 0);
    VN_ASSERT_CAUSE(t, &c, y, "k-tail-dropped:1");
    layer(ROWS, D, D, 40, 3);
    VN_ASSERT_CAUSE(t, &c, y, "padding-leaks");
    layer(ROWS, D, D, D, 0);
    for (int64_t i = 0; i < ROWS * D; ++i) y[i] += 0.01 * vn_rng_normal(&rng);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(ROWS, D), a);
    jc_op(t, &c, "Softmax", 13, 1);
    jc_oracle(t, &c);
    for (int64_t r = 0; r < ROWS; ++r) {
        double sum = 0;
        for (int64_t k = 0; k < 32; ++k) sum += exp(a[r * D + k]);
        for (int64_t k = 0; k < D; ++k) y[r * D + k] = exp(a[r * D + k]) / sum;
    }
    const vn_finding_t *f = nc_answer(t, &c, y); /* the lost keys are a block, too: both names say it */
    VN_ASSERT(t, f->verdict == VN_BUG && (strcmp(f->cause, "k-tail-dropped:5") == 0 || strcmp(f->cause, "block-merge-missing") == 0));
    jc_free(&c);
}

/* A product inside the bound: K = 16384, one term lost everywhere. */
VN_TEST(terms, one_term_of_many_inside_the_bound) {
    vn_rng_t rng = vn_test_rng(t);
    enum { LONG = 16384 };
    double *p = vn_alloc(3 * LONG, sizeof *p), *q = vn_alloc(4 * LONG, sizeof *q);
    jc_t c;
    VN_ASSERT(t, p && q);
    nc_fill(&rng, p, 3 * LONG, 1);
    nc_fill(&rng, q, 4 * LONG, 1);
    jc_matmul(t, &c, "ieee", 3, LONG, 4, p, q);
    for (int64_t i = 0; i < 12; ++i) y[i] = c.refs[0].value[i] - p[i / 4 * LONG + 777] * q[777 * 4 + i % 4];
    VN_ASSERT_CAUSE(t, &c, y, "term-dropped");
    VN_ASSERT_VERDICT(t, &c.found[0], VN_SUSPECT);
    VN_ASSERT_HAS(t, c.found[0].words, "term 777 of 16384");
    jc_free(&c);
    vn_free(p);
    vn_free(q);
}

VN_TEST(terms, terms_that_are_alike_are_not_told_apart) {
    jc_t c;
    const double axis = 0;
    for (int64_t i = 0; i < 64; ++i) a[i] = 1;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(64), a);
    jc_in(t, &c, VN_I64, JC_DIMS(1), &axis);
    jc_op(t, &c, "ReduceSum", 18, 1);
    jc_oracle(t, &c);
    y[0] = 16;
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(terms, other_faults_keep_their_names) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    gemm_case(t, &c, &rng, VN_F32, 8, 60, 8, 1, 1);
    for (int kind = 0; kind < 6; ++kind) {
        gemm(8, 60, 8, 1, 1, all);
        for (int64_t i = 0; i < 64; ++i) {
            if (kind == 0) y[i] += 0.01 * vn_rng_normal(&rng);
            if (kind == 1 && i == 13) y[i] += 0.37;
            if (kind == 2 && i >= 16 && i < 24) y[i] = y[i + 8];
            if (kind == 3 && i % 8 > 3) y[i] = 0;
            if (kind == 4) y[i] *= 1.01;
            if (kind == 5) y[i] = -y[i];
        }
        VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    }
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(terms, lost_ranges_of_a_product), VN_CASE(terms, lanes_and_single_terms_and_rows),
             VN_CASE(terms, factors_of_addend_and_product), VN_CASE(terms, taps_of_a_convolution), VN_CASE(terms, windows_of_pooling),
             VN_CASE(terms, reductions), VN_CASE(terms, statistics_over_fewer_elements), VN_CASE(terms, one_term_of_many_inside_the_bound),
             VN_CASE(terms, terms_that_are_alike_are_not_told_apart), VN_CASE(terms, other_faults_keep_their_names))
