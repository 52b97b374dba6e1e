/* test_contraction_quant.c -- claims CONTRACT-10 to CONTRACT-13: products of quantised matrices; and no allocation failure leaks or lies. */
#include "sum_case.h"

enum { M = 5, K = 37, N = 6 };
static const char ms[] = "com.microsoft";

static void codes(vn_rng_t *rng, double *x, int n, int low) {
    for (int i = 0; i < n; ++i) x[i] = (double)vn_rng_below(rng, 256) + low;
}

/* sum of (a - za) (b - zb) of element (i, j) */
static double exact(const double *a, const double *b, const double *za, const double *zb, int i, int j) {
    double s = 0;
    for (int k = 0; k < K; ++k) s += (a[i * K + k] - za[i]) * (b[k * N + j] - zb[j]);
    return s;
}

VN_TEST(quantised, integer_sums_are_exact) {
    static double a[M * K], b[K * N], za[M], zb[N];
    vn_rng_t rng = vn_test_rng(t);
    for (int form = 0; form < 3; ++form) { /* one zero point, per row and column, none */
        sc_t c;
        codes(&rng, a, M * K, 0);
        codes(&rng, b, K * N, -128);
        for (int i = 0; i < M; ++i) za[i] = form == 2 ? 0 : form ? 100 + i : 77;
        for (int i = 0; i < N; ++i) zb[i] = form == 2 ? 0 : form ? i - 3 : -9;
        sc_new(t, &c, "", "MatMulInteger", 10, "portable");
        sc_in(t, &c, VN_U8, SC_DIMS(M, K), a);
        sc_in(t, &c, VN_I8, SC_DIMS(K, N), b);
        if (form == 0) {
            sc_in(t, &c, VN_U8, SC_DIMS(1), za);
            sc_in(t, &c, VN_I8, SC_DIMS(1), zb);
        } else if (form == 1) {
            sc_in(t, &c, VN_U8, SC_DIMS(M), za);
            sc_in(t, &c, VN_I8, SC_DIMS(1, N), zb);
        }
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        VN_ASSERT_EQ(t, r->dtype, VN_I32);
        for (int i = 0; i < M * N; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, i), exact(a, b, za, zb, i / N, i % N));
        sc_free(&c);
    }
    sc_t c;
    sc_new(t, &c, "", "MatMulInteger", 10, "portable");
    sc_in(t, &c, VN_U8, SC_DIMS(M, K), a);
    sc_in(t, &c, VN_I8, SC_DIMS(K, N), b);
    sc_in(t, &c, VN_U8, SC_DIMS(M - 1), za);
    VN_ASSERT_EQ(t, sc_try(&c, VN_WANT_BOUND), VN_ERR_SHAPE);
    sc_free(&c);
}

VN_TEST(quantised, requantised_codes_and_their_windows) {
    static double a[M * K], b[K * N], za[M], zb[N], sb[N];
    vn_rng_t rng = vn_test_rng(t);
    const double sa[1] = {0.02}, sy[1] = {0.9}, zy[1] = {120};
    codes(&rng, a, M * K, 0);
    codes(&rng, b, K * N, 0);
    for (int i = 0; i < M; ++i) za[i] = 128;
    for (int i = 0; i < N; ++i) {
        zb[i] = 120 + i;
        sb[i] = 0.01 + 0.003 * i;
    }
    sc_t c;
    sc_new(t, &c, "", "QLinearMatMul", 10, "portable");
    sc_in(t, &c, VN_U8, SC_DIMS(M, K), a);
    sc_in(t, &c, VN_F32, SC_DIMS(1), sa);
    sc_in(t, &c, VN_U8, SC_DIMS(1), za);
    sc_in(t, &c, VN_U8, SC_DIMS(K, N), b);
    sc_in(t, &c, VN_F32, SC_DIMS(N), sb);
    sc_in(t, &c, VN_U8, SC_DIMS(N), zb);
    sc_in(t, &c, VN_F32, SC_DIMS(1), sy);
    sc_in(t, &c, VN_U8, SC_DIMS(1), zy);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    for (int i = 0; i < M * N; ++i) {
        const double v = exact(a, b, za, zb, i / N, i % N) * sc_get(&c, 1, 0) * sc_get(&c, 4, i % N) / sc_get(&c, 6, 0),
                     code = fmin(fmax(rint(v) + 120, 0), 255);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(r->tensor, i), code);
        if (fabs(v - floor(v) - 0.5) > 1e-4) VN_ASSERT_EQ(t, vn_tensor_get_i64(r->either, i), code);
    }
    sc_free(&c);
}

VN_TEST(quantised, sums_scaled_back) {
    static double a[M * K], b[K * N], za[M], zb[N], sb[N], bias[N];
    vn_rng_t rng = vn_test_rng(t);
    const double sa[1] = {0.02};
    for (int run = 0; run < 20; ++run) {
        codes(&rng, a, M * K, 0);
        codes(&rng, b, K * N, -128);
        for (int i = 0; i < M; ++i) za[i] = 100;
        for (int i = 0; i < N; ++i) {
            zb[i] = i;
            sb[i] = 0.001 + 0.01 * vn_rng_uniform(&rng);
            bias[i] = vn_rng_normal(&rng);
        }
        sc_t c;
        sc_new(t, &c, ms, "MatMulIntegerToFloat", 1, "portable");
        sc_in(t, &c, VN_U8, SC_DIMS(M, K), a);
        sc_in(t, &c, VN_I8, SC_DIMS(K, N), b);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sa);
        sc_in(t, &c, VN_F32, SC_DIMS(N), sb);
        sc_in(t, &c, VN_U8, SC_DIMS(1), za);
        sc_in(t, &c, VN_I8, SC_DIMS(N), zb);
        sc_in(t, &c, VN_F32, SC_DIMS(N), bias);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
        for (int i = 0; i < M * N; ++i) {
            const double s = exact(a, b, za, zb, i / N, i % N);
            const float x = (float)sc_get(&c, 2, 0), w = (float)sc_get(&c, 3, i % N), d = (float)sc_get(&c, 6, i % N);
            VN_ASSERT_LE(t, fabs((double)((float)s * (x * w) + d) - r->value[i]), r->bound[i]);
            VN_ASSERT_LE(t, fabs((double)((float)s * x * w + d) - r->value[i]), r->bound[i]);
            VN_ASSERT_LE(t, fabs((double)fmaf((float)s * x, w, d) - r->value[i]), r->bound[i]);
            VN_ASSERT_LE(t, r->bound[i],
                         4 * 0x1p-24 * (fabs(s * (double)x * (double)w) + fabs((double)d)) + 1e-35); /* tight: one ulp or two */
        }
        sc_free(&c);
    }
}

/* A plain f32 kernel of the dynamic form: quantise, multiply exactly, scale back. */
VN_TEST(quantised, dynamic_quantisation) {
    static double a[M * K], b[K * N], zb[1] = {4};
    const double sb[1] = {0.013};
    vn_rng_t rng = vn_test_rng(t);
    for (int run = 0; run < 20; ++run) {
        sc_fill(&rng, run % 2 ? SC_NORMAL : SC_POSITIVE, a, M * K);
        if (run == 6) /* a grid: many quotients at ties */
            for (int i = 0; i < M * K; ++i) a[i] = 0.05 * (double)(i % 52) - 0.05;
        codes(&rng, b, K * N, -128);
        sc_t c;
        sc_new(t, &c, ms, "DynamicQuantizeMatMul", 1, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
        sc_in(t, &c, VN_I8, SC_DIMS(K, N), b);
        sc_in(t, &c, VN_F32, SC_DIMS(1), sb);
        sc_in(t, &c, VN_I8, SC_DIMS(1), zb);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        for (int form = 0; form < 2; ++form) { /* quotient, or product with the reciprocal */
            float min = 0, max = 0;
            for (int i = 0; i < M * K; ++i) {
                min = fminf(min, (float)sc_get(&c, 0, i));
                max = fmaxf(max, (float)sc_get(&c, 0, i));
            }
            const float scale = (max - min) / 255, zero = fminf(fmaxf(rintf(-min / scale), 0), 255);
            for (int i = 0; i < M * N; ++i) {
                double s = 0;
                for (int k = 0; k < K; ++k) {
                    const float x = (float)sc_get(&c, 0, i / N * K + k),
                                q = fminf(fmaxf(rintf(form ? x * (1 / scale) : x / scale) + zero, 0), 255);
                    s += (double)(q - zero) * (b[k * N + i % N] - zb[0]);
                }
                VN_ASSERT_LE(t, fabs((double)((float)s * (scale * (float)sc_get(&c, 2, 0))) - r->value[i]), r->bound[i]);
            }
        }
        sc_free(&c);
    }
}

/* ---- CONTRACT-13 ---- */

VN_TEST(quantised, block_quantised_weights) {
    enum { BLOCK = 16, BLOCKS = (K + BLOCK - 1) / BLOCK };
    static double a[M * K], bytes[N * BLOCKS * BLOCK], scales[N * BLOCKS], zeros[N * BLOCKS], bias[N], w[K], row[K];
    vn_rng_t rng = vn_test_rng(t);
    for (int form = 0; form < 8; ++form) {
        const int bits = form & 1 ? 8 : 4, blob = BLOCK * bits / 8, zero_row = (BLOCKS * bits + 7) / 8;
        const bool has_zero = form & 2, level4 = form & 4;
        sc_t c;
        sc_fill(&rng, SC_NORMAL, a, M * K);
        sc_fill(&rng, SC_POSITIVE, scales, N * BLOCKS);
        sc_fill(&rng, SC_NORMAL, bias, N);
        codes(&rng, bytes, N * BLOCKS * blob, 0);
        codes(&rng, zeros, N * zero_row, 0);
        sc_new(t, &c, ms, "MatMulNBits", 1, "portable");
        sc_int(&c, "K", K);
        sc_int(&c, "N", N);
        sc_int(&c, "bits", bits);
        sc_int(&c, "block_size", BLOCK);
        if (level4) sc_int(&c, "accuracy_level", 4);
        sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
        sc_in(t, &c, VN_U8, SC_DIMS(N, BLOCKS, blob), bytes);
        sc_in(t, &c, VN_F32, SC_DIMS(N * BLOCKS), scales);
        if (has_zero) sc_in(t, &c, VN_U8, SC_DIMS(N * zero_row), zeros);
        else sc_absent(&c);
        sc_absent(&c);
        sc_in(t, &c, VN_F32, SC_DIMS(N), bias);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        VN_ASSERT_STR(t, r->wide_note, level4 ? "int8-activations" : "zero-point-outside-the-sum");
        for (int i = 0; i < M * N; ++i) {
            const int n = i % N;
            double y = sc_get(&c, 5, n), magnitude = fabs(y), int8 = 0;
            for (int k = 0; k < K; ++k) {
                const int g = k / BLOCK, at = k % BLOCK, byte = (int)bytes[(n * BLOCKS + g) * blob + at * bits / 8];
                const int zb = has_zero ? (int)zeros[n * zero_row + g * bits / 8] : 0;
                const int q = bits == 8 ? byte : byte >> at % 2 * 4 & 15, z = !has_zero   ? 1 << (bits - 1)
                                                                              : bits == 8 ? zb
                                                                                          : zb >> g % 2 * 4 & 15;
                row[k] = sc_get(&c, 0, i / N * K + k);
                const double s = sc_get(&c, 2, n * BLOCKS + g);
                y += row[k] * (q - z) * s;
                magnitude += fabs(row[k] * (q - z) * s);
                w[k] = (double)((float)(q - z) * (float)s);
            }
            VN_ASSERT_LE(t, fabs(y - r->value[i]), 0x1p-45 * magnitude);
            VN_ASSERT_LE(t, r->bound[i], (K + 3) * 0x1p-24 * magnitude * 1.01);
            for (int order = 0; order < SC_ORDERS; ++order)
                VN_ASSERT_LE(
                    t, fabs(sc_dot(&rng, VN_FMT_F32, row, w, K, (sc_order_t)order, true, false, sc_get(&c, 5, n), true) - r->value[i]),
                    r->bound[i]);
            for (int g = 0; level4 && g < BLOCKS; ++g) { /* activations as int8 with one scale per block */
                double max = 0;
                for (int k = g * BLOCK; k < K && k < (g + 1) * BLOCK; ++k) max = fmax(max, fabs(row[k]));
                for (int k = g * BLOCK; k < K && k < (g + 1) * BLOCK; ++k) int8 += rint(row[k] / (max / 127)) * (max / 127) * w[k];
            }
            if (level4) VN_ASSERT_LE(t, fabs(int8 + sc_get(&c, 5, n) - r->value[i]), r->wide[i]);
            VN_ASSERT_GE(t, r->wide[i], r->bound[i]);
        }
        sc_free(&c);
    }
}

VN_TEST(quantised, what_is_not_done_is_said) {
    static double a[M * K], b[N * 3 * 16];
    sc_t c;
    sc_new(t, &c, ms, "MatMulNBits", 1, "portable");
    sc_int(&c, "K", K);
    sc_int(&c, "N", N);
    sc_int(&c, "bits", 3);
    sc_int(&c, "block_size", 16);
    sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
    sc_in(t, &c, VN_U8, SC_DIMS(N, 3, 6), b);
    sc_in(t, &c, VN_F32, SC_DIMS(N * 3), b);
    VN_ASSERT_EQ(t, sc_try(&c, VN_WANT_BOUND), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, c.err.text, "3 bits");
    c.attrs[2].i = 4;
    VN_ASSERT_EQ(t, sc_try(&c, VN_WANT_BOUND), VN_ERR_SHAPE); /* blobs of 6 bytes where 8 are needed */
    sc_free(&c);
}

/* ---- fault loops: the n-th allocation fails; the answer is right or NOMEM ---- */

static void fault_loop(vn_test_t *t, sc_t *c, vn_status_t (*run)(sc_t *, int)) {
    double *value = NULL;
    const vn_ref_t *r = sc_run(t, c, VN_WANT_VARIANCE);
    const int64_t count = r->count;
    if (r->value) {
        value = malloc((size_t)count * sizeof *value);
        VN_ASSERT(t, value != NULL);
        memcpy(value, r->value, (size_t)count * sizeof *value);
    }
    sc_clear(c);
    int failures = 0;
    for (int n = 1; n < 80; ++n) {
        vn_alloc_fail_at(n);
        const vn_status_t s = run(c, VN_WANT_VARIANCE);
        vn_alloc_fail_at(0);
        VN_ASSERT(t, s == VN_OK || s == VN_ERR_NOMEM);
        failures += s != VN_OK;
        if (s == VN_OK && value) VN_ASSERT(t, memcmp(value, c->out[0].value, (size_t)count * sizeof *value) == 0);
        sc_clear(c);
    }
    VN_ASSERT_GT(t, failures, 3);
    free(value);
}

VN_TEST(quantised, failing_allocations) {
    static double x[512], w[512];
    const int64_t kernel[2] = {2, 2};
    vn_rng_t rng = vn_test_rng(t);
    sc_fill(&rng, SC_NORMAL, x, 512);
    sc_fill(&rng, SC_NORMAL, w, 512);
    static const struct {
        const char *domain, *op, *equation;
        int inputs, a[4], b[4];
    } cases[] = {{"", "MatMul", NULL, 2, {4, 8, -1}, {8, 5, -1}},     {"", "Einsum", "ij,jk->ki", 2, {4, 8, -1}, {8, 5, -1}},
                 {"", "Conv", NULL, 2, {1, 2, 6, -1}, {3, 2, 2, -1}}, {"", "ConvTranspose", NULL, 2, {1, 2, 6, -1}, {2, 3, 2, -1}},
                 {"", "AveragePool", NULL, 1, {1, 2, 6, 6}, {-1}},    {"", "MaxPool", NULL, 1, {1, 2, 6, 6}, {-1}},
                 {"", "GlobalLpPool", NULL, 1, {1, 2, 6, 6}, {-1}},   {"com.microsoft", "FusedMatMul", NULL, 2, {2, 9, -1}, {9, 2, -1}}};
    vn_threads_set(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        sc_t c;
        int64_t a[5] = {-1, -1, -1, -1, -1}, b[5] = {-1, -1, -1, -1, -1};
        for (int d = 0; d < 4; ++d) {
            a[d] = cases[i].a[d];
            b[d] = cases[i].b[d];
        }
        sc_new(t, &c, cases[i].domain, cases[i].op, *cases[i].domain ? 1 : 13, "portable");
        if (cases[i].equation) sc_text(&c, "equation", cases[i].equation);
        if (strstr(cases[i].op, "Pool") && !strstr(cases[i].op, "Global")) sc_ints(&c, "kernel_shape", 2, kernel);
        sc_in(t, &c, VN_F32, a, x);
        if (cases[i].inputs > 1) sc_in(t, &c, VN_F32, b, w);
        fault_loop(t, &c, sc_try);
        sc_free(&c);
    }
    vn_threads_set(0);
}

VN_TEST_MAIN(VN_CASE(quantised, integer_sums_are_exact), VN_CASE(quantised, requantised_codes_and_their_windows),
             VN_CASE(quantised, sums_scaled_back), VN_CASE(quantised, dynamic_quantisation), VN_CASE(quantised, block_quantised_weights),
             VN_CASE(quantised, what_is_not_done_is_said), VN_CASE(quantised, failing_allocations))
