/* Other arithmetics of products (claims ARITH-4 to -7, -12): planted in other operators and shapes than the public cases, and faults that are none. */
#include "judge/name_case.h"

static double f32(double x) { return (double)(float)x; }
static double bf16(double x) { return vn_round_to(VN_FMT_BF16, x, VN_RNE, false); }
static double f16(double x) { return vn_round_to(VN_FMT_F16, x, VN_RNE, false); }

static double a[1 << 16], b[1 << 16], y[1 << 14];

/* ---- operands in parts ---- */

/* sum of products of the parts, smallest first, each addition in f32 */
static void bf16x3(int64_t m, int64_t k, int64_t n) {
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double s = 0;
            for (int64_t l = 0; l < k; ++l) {
                const double x = a[i * k + l], z = b[l * n + j], xh = bf16(x), zh = bf16(z), xl = bf16(x - xh), zl = bf16(z - zh);
                s = f32(s + f32(xl * zh));
                s = f32(s + f32(xh * zl));
                s = f32(s + f32(xh * zh));
            }
            y[i * n + j] = s;
        }
}

VN_TEST(arith_products, three_bfloat16_products_are_named) {
    static const struct { int64_t m, k, n; } shapes[] = {{3, 70, 24}, {16, 200, 5}};
    vn_rng_t rng = vn_test_rng(t);
    for (int s = 0; s < 2; ++s) {
        nc_fill(&rng, a, shapes[s].m * shapes[s].k, 1);
        nc_fill(&rng, b, shapes[s].k * shapes[s].n, 1);
        jc_t c;
        jc_matmul(t, &c, "ieee", shapes[s].m, shapes[s].k, shapes[s].n, a, b);
        bf16x3(shapes[s].m, shapes[s].k, shapes[s].n);
        VN_ASSERT_CAUSE(t, &c, y, "operands-bf16x3");
        y[1] += 1e-3; /* on top of it a fault of one element: no arithmetic */
        VN_ASSERT_NOT_CAUSE(t, &c, y, "operands accumulator splitk truncation activations");
        jc_free(&c);
    }
}

/* ---- partial sums in 16 bits ---- */

static double split(vn_format_t f, const double *x, int64_t n, int slices, bool tree) {
    double p[64];
    const int64_t each = (n + slices - 1) / slices;
    for (int c = 0; c < slices; ++c) {
        p[c] = 0;
        for (int64_t k = c * each; k < n && k < (c + 1) * each; ++k) p[c] = f32(p[c] + x[k]);
        p[c] = vn_round_to(f, p[c], VN_RNE, false);
    }
    for (int width = 1; tree && width < slices; width *= 2)
        for (int c = 0; c + width < slices; c += 2 * width) p[c] = vn_round_to(f, p[c] + p[c + width], VN_RNE, false);
    double s = tree ? p[0] : 0;
    for (int c = 0; !tree && c < slices; ++c) s = vn_round_to(f, s + p[c], VN_RNE, false);
    return s;
}

VN_TEST(arith_products, partial_sums_of_16_bits_are_named) {
    enum { M = 5, K = 480, N = 7 };
    static const struct {
        vn_dtype_t type;
        vn_format_t format;
        int slices;
        bool tree;
        const char *cause;
    } planted[] = {{VN_BF16, VN_FMT_BF16, 3, false, "splitk-partials-bf16"},
                   {VN_BF16, VN_FMT_BF16, 16, true, "splitk-partials-bf16"},
                   {VN_F16, VN_FMT_F16, 5, false, "splitk-partials-f16"},
                   {VN_F16, VN_FMT_F16, 32, true, "splitk-partials-f16"}};
    vn_rng_t rng = vn_test_rng(t);
    for (size_t p = 0; p < sizeof planted / sizeof *planted; ++p) {
        nc_fill(&rng, a, M * K, 1);
        nc_fill(&rng, b, K * N, 1);
        for (int i = 0; i < M * K; ++i) a[i] = vn_round_to(planted[p].format, a[i], VN_RNE, false);
        for (int i = 0; i < K * N; ++i) b[i] = vn_round_to(planted[p].format, b[i], VN_RNE, false);
        jc_t c;
        jc_new(t, &c, "ieee");
        jc_in(t, &c, planted[p].type, JC_DIMS(M, K), a);
        jc_in(t, &c, planted[p].type, JC_DIMS(K, N), b);
        jc_op(t, &c, "MatMul", 13, 1);
        jc_oracle(t, &c);
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < N; ++j) {
                double x[K];
                for (int l = 0; l < K; ++l) x[l] = a[i * K + l] * b[l * N + j];
                y[i * N + j] = split(planted[p].format, x, K, planted[p].slices, planted[p].tree);
            }
        VN_ASSERT_CAUSE(t, &c, y, planted[p].cause);
        for (int k = 0; k < M * N; ++k) y[k] = c.refs[0].value[k];
        for (int j = 0; j < N; ++j) y[j] *= 1.25; /* a wrong row */
        VN_ASSERT_NOT_CAUSE(t, &c, y, "splitk truncation accumulator activations");
        jc_free(&c);
    }
}

/* ---- adders that cut ---- */

static double cut(double x) { return vn_round_to(VN_FMT_F32, x, VN_RZ, false); }

VN_TEST(arith_products, adders_that_cut_are_named) {
    enum { N = 40, K = 300 };
    vn_rng_t rng = vn_test_rng(t);
    for (int order = 0; order < 2; ++order) { /* in order; every third first, which is in no table */
        nc_fill(&rng, a, N * K, 1);
        nc_fill(&rng, b, K, 1);
        jc_t c;
        jc_matmul(t, &c, "ieee", N, K, 1, a, b);
        for (int i = 0; i < N; ++i) {
            double s = 0;
            for (int first = 0; first < (order ? 3 : 1); ++first)
                for (int k = first; k < K; k += order ? 3 : 1) s = cut(s + a[i * K + k] * b[k]);
            y[i] = s;
        }
        VN_ASSERT_CAUSE(t, &c, y, "truncation-bias");
        jc_free(&c);
    }
}

VN_TEST(arith_products, results_cut_at_the_store_are_named) {
    enum { M = 9, K = 33, N = 11 };
    static const vn_dtype_t types[] = {VN_BF16, VN_F16};
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < 2; ++k) {
        const vn_format_t f = vn_format_of(types[k]);
        nc_fill(&rng, a, M * K, 1);
        nc_fill(&rng, b, K * N, 1);
        jc_t c;
        jc_new(t, &c, "ieee");
        jc_in(t, &c, types[k], JC_DIMS(M, K), a);
        jc_in(t, &c, types[k], JC_DIMS(K, N), b);
        jc_op(t, &c, "MatMul", 13, 1);
        jc_oracle(t, &c);
        for (int i = 0; i < M * N; ++i) y[i] = vn_round_to(f, f32(c.refs[0].value[i]), VN_RZ, false);
        VN_ASSERT_CAUSE(t, &c, y, "truncation-bias");
        for (int i = 0; i < M * N; ++i) { /* the same distances to either side are no truncation */
            const double v = c.refs[0].value[i], ulp = vn_ulp(f, v);
            y[i] = vn_round_to(f, v + (i % 2 ? 1.5 : -1.5) * ulp, VN_RNE, false);
        }
        VN_ASSERT_NOT_CAUSE(t, &c, y, "truncation double");
        jc_free(&c);
    }
}

/* ---- activations quantised on the fly ---- */

static void fake_int8(double *x, int64_t n) {
    float top = 0;
    for (int64_t i = 0; i < n; ++i) top = fmaxf(top, fabsf((float)x[i]));
    const float scale = top / 127;
    for (int64_t i = 0; i < n; ++i) x[i] = rint((double)((float)x[i] / scale)) * (double)scale;
}

VN_TEST(arith_products, activations_in_8_bits_are_named_with_their_grouping) {
    enum { M = 6, K = 128, N = 10 };
    static const struct {
        int64_t group;
        const char *words;
    } planted[] = {{M * K, "per tensor"}, {K, "per row"}, {32, "groups of 32"}};
    vn_rng_t rng = vn_test_rng(t);
    for (int p = 0; p < 3; ++p) {
        nc_fill(&rng, a, M * K, 1);
        nc_fill(&rng, b, K * N, 1);
        jc_t c;
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(M, K), a);
        jc_in(t, &c, VN_F32, JC_DIMS(K, N), b);
        jc_op(t, &c, "Gemm", 13, 1);
        jc_oracle(t, &c);
        for (int64_t g = 0; g < M * K; g += planted[p].group) fake_int8(a + g, planted[p].group);
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < N; ++j) {
                double s = 0;
                for (int k = 0; k < K; ++k) s += a[i * K + k] * b[k * N + j];
                y[i * N + j] = f32(s);
            }
        VN_ASSERT_CAUSE(t, &c, y, "activations-int8");
        VN_ASSERT_HAS(t, c.found[0].words, planted[p].words);
        for (int k = 0; k < M * N; ++k) y[k] = f32(c.refs[0].value[k] * (1 + 0.01 * vn_rng_normal(&rng)));
        VN_ASSERT_NOT_CAUSE(t, &c, y, "activations operands splitk");
        jc_free(&c);
    }
}

/* ---- minimal filtering ---- */

static double conv_at(const double *x, const double *w, int depth, int h, int k, int i, int j) {
    double s = 0;
    for (int c = 0; c < depth; ++c)
        for (int p = 0; p < 3; ++p)
            for (int q = 0; q < 3; ++q) {
                const int r = i + p - 1, l = j + q - 1;
                if (r >= 0 && r < h && l >= 0 && l < h) s += x[(c * h + r) * h + l] * w[((k * depth + c) * 3 + p) * 3 + q];
            }
    return s;
}

/* F(2,3) along both axes in f16: transforms, products and sums rounded at each step. */
static double tile_f2(const double *x, const double *w, int depth, int h, int k, int i, int j) {
    static const double bt[4][4] = {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
                        g[4][3] = {{1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}}, at[2][4] = {{1, 1, 1, 0}, {0, 1, -1, -1}};
    double m[4][4] = {{0}}, out = 0;
    for (int c = 0; c < depth; ++c)
        for (int r = 0; r < 4; ++r)
            for (int l = 0; l < 4; ++l) {
                double u = 0, v = 0;
                for (int p = 0; p < 3; ++p)
                    for (int q = 0; q < 3; ++q) u += g[r][p] * w[((k * depth + c) * 3 + p) * 3 + q] * g[l][q];
                for (int p = 0; p < 4; ++p)
                    for (int q = 0; q < 4; ++q) {
                        const int row = i / 2 * 2 + p - 1, col = j / 2 * 2 + q - 1;
                        if (row >= 0 && row < h && col >= 0 && col < h) v += bt[r][p] * x[(c * h + row) * h + col] * bt[l][q];
                    }
                m[r][l] = f32(m[r][l] + f16(u) * f16(v));
            }
    for (int r = 0; r < 4; ++r)
        for (int l = 0; l < 4; ++l) out += at[i % 2][r] * m[r][l] * at[j % 2][l];
    return out;
}

VN_TEST(arith_products, winograd_with_f16_tiles_is_named) {
    enum { C = 6, H = 10, K = 5 };
    vn_rng_t rng = vn_test_rng(t);
    nc_fill(&rng, a, C * H * H, 1);
    nc_fill(&rng, b, K * C * 9, 0.3);
    for (int i = 0; i < C * H * H; ++i) a[i] = f16(a[i]);
    for (int i = 0; i < K * C * 9; ++i) b[i] = f16(b[i]);
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F16, JC_DIMS(1, C, H, H), a);
    jc_in(t, &c, VN_F16, JC_DIMS(K, C, 3, 3), b);
    jc_op(t, &c, "Conv", 22, 1);
    const int64_t pads[] = {1, 1, 1, 1};
    VN_ASSERT_OK(t, vn_node_set_ints(c.model, c.node, "pads", pads, 4, NULL));
    jc_oracle(t, &c);
    double own = 0;
    for (int k = 0; k < K; ++k)
        for (int i = 0; i < H; ++i)
            for (int j = 0; j < H; ++j) {
                const double plain = conv_at(a, b, C, H, k, i, j), tile = tile_f2(a, b, C, H, k, i, j);
                VN_ASSERT_LE(t, fabs(plain - tile), 0.1); /* the algorithm is one */
                own = fmax(own, fabs(plain - tile));
                y[(k * H + i) * H + j] = f16(tile);
            }
    VN_ASSERT_GT(t, own, 0);
    VN_ASSERT_CAUSE(t, &c, y, "winograd-f2");
    for (int i = 0; i < K * H * H; ++i) y[i] = f16(c.refs[0].value[i]);
    for (int i = 0; i < 9; ++i) y[i * 7] = 0;
    VN_ASSERT_NOT_CAUSE(t, &c, y, "winograd");
    jc_free(&c);
}

/* ---- running sums ---- */

VN_TEST(arith_products, running_sums_that_stall_are_named) {
    enum { N = 3000 };
    static const struct {
        vn_dtype_t type;
        const char *cause;
    } planted[] = {{VN_F16, "accumulator-f16"}, {VN_BF16, "accumulator-bf16"}};
    for (int p = 0; p < 2; ++p) {
        const vn_format_t f = vn_format_of(planted[p].type);
        jc_t c;
        jc_new(t, &c, "ieee");
        double s = 0, axis = 0;
        for (int k = 0; k < N; ++k) {
            a[k] = 1;
            y[k] = s = vn_round_to(f, s + a[k], VN_RNE, false);
        }
        jc_in(t, &c, planted[p].type, JC_DIMS(N), a);
        jc_in(t, &c, VN_I64, (const int64_t[]){-1}, &axis);
        jc_op(t, &c, "CumSum", 14, 1);
        jc_oracle(t, &c);
        VN_ASSERT_CAUSE(t, &c, y, planted[p].cause);
        for (int k = N / 2; k < N; ++k) y[k] = 7;                 /* stands still too, at no value of a running sum */
        if (p == 0) VN_ASSERT_NOT_CAUSE(t, &c, y, "accumulator"); /* of bfloat16 a chain of 3000 may give nearly anything */
        jc_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(arith_products, three_bfloat16_products_are_named), VN_CASE(arith_products, partial_sums_of_16_bits_are_named),
             VN_CASE(arith_products, adders_that_cut_are_named), VN_CASE(arith_products, results_cut_at_the_store_are_named),
             VN_CASE(arith_products, activations_in_8_bits_are_named_with_their_grouping),
             VN_CASE(arith_products, winograd_with_f16_tiles_is_named), VN_CASE(arith_products, running_sums_that_stall_are_named))
