/* Names for operands read in another layout, along another axis, from another channel or group (claims NAME-1, NAME-CHANNEL-1). */
#include "judge/name_case.h"

#define OURS "transposed broadcast-axis operands-exchanged channel-scale group-index term-dropped"

static double a[NC_MAX], b[NC_MAX], d[NC_MAX], y[NC_MAX];

VN_TEST(operand, layouts_of_a_product) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    nc_fill(&rng, a, 5 * 6, 1);
    nc_fill(&rng, b, 6 * 9, 1);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(5, 6), a);
    jc_in(t, &c, VN_F32, JC_DIMS(6, 9), b);
    jc_op(t, &c, "MatMul", 13, 1);
    jc_oracle(t, &c);
    for (int64_t i = 0; i < 45; ++i) { /* the buffer of the right operand read as [9, 6] */
        y[i] = 0;
        for (int64_t k = 0; k < 6; ++k) y[i] += a[i / 9 * 6 + k] * b[i % 9 * 6 + k];
    }
    VN_ASSERT_CAUSE(t, &c, y, "transposed");
    for (int64_t i = 0; i < 45; ++i) y[i] = vn_rng_normal(&rng);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(operand, layouts_of_convolution_weights) {
    vn_rng_t rng = vn_test_rng(t);
    static const int orders[][4] = {{2, 3, 1, 0}, {0, 2, 3, 1}, {0, 1, 3, 2}}; /* HWIO, OHWI, kernel transposed */
    const int64_t dims[4] = {2, 3, 2, 2};
    for (size_t o = 0; o < sizeof orders / sizeof *orders; ++o) {
        jc_t c;
        nc_fill(&rng, a, 3 * 5 * 5, 1);
        nc_fill(&rng, b, 24, 1);
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(1, 3, 5, 5), a);
        jc_in(t, &c, VN_F32, JC_DIMS(2, 3, 2, 2), b);
        jc_op(t, &c, "Conv", 11, 1);
        jc_oracle(t, &c);
        int64_t step[4], s = 1;
        for (int k = 3; k >= 0; --k) {
            step[orders[o][k]] = s;
            s *= dims[orders[o][k]];
        }
        for (int64_t i = 0; i < 2 * 16; ++i) {
            y[i] = 0;
            for (int64_t k = 0; k < 12; ++k) {
                const int64_t at[4] = {i / 16, k / 4, k / 2 % 2, k % 2};
                int64_t from = 0;
                for (int x = 0; x < 4; ++x) from += at[x] * step[x];
                y[i] += b[from] * a[(at[1] * 5 + i / 4 % 4 + at[2]) * 5 + i % 4 + at[3]];
            }
        }
        VN_ASSERT_CAUSE(t, &c, y, "transposed");
        jc_free(&c);
    }
}

VN_TEST(operand, broadcast_along_another_axis) {
    vn_rng_t rng = vn_test_rng(t);
    static const char *const ops[] = {"Add", "Mul", "Div", "Sub"};
    for (int op = 0; op < 4; ++op) {
        jc_t c;
        nc_fill(&rng, a, 2 * 5 * 5, 1);
        nc_fill(&rng, b, 5, 1);
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(2, 5, 5), a);
        jc_in(t, &c, VN_F32, JC_DIMS(5), b);
        jc_op(t, &c, ops[op], 14, 1);
        jc_oracle(t, &c);
        for (int64_t i = 0; i < 50; ++i) {
            const double v = b[i / 5 % 5];
            y[i] = op == 0 ? a[i] + v : op == 1 ? a[i] * v : op == 2 ? a[i] / v : a[i] - v;
        }
        VN_ASSERT_CAUSE(t, &c, y, "broadcast-axis");
        for (int64_t i = 0; i < 50; ++i) {
            const double v = b[(i % 5 + 1) % 5];
            y[i] = op == 0 ? a[i] + v : op == 1 ? a[i] * v : op == 2 ? a[i] / v : a[i] - v;
        }
        VN_ASSERT_CAUSE(t, &c, y, "channel-scale");
        for (int64_t i = 0; i < 50; ++i) y[i] = (float)c.refs[0].value[i] + (i == 7 ? 0.5 : 0);
        VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
        jc_free(&c);
    }
}

VN_TEST(operand, exchanged_and_dropped) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    nc_fill(&rng, a, 36, 1);
    nc_fill(&rng, b, 36, 1);
    nc_fill(&rng, d, 36, 1);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(6, 6), a);
    jc_in(t, &c, VN_F32, JC_DIMS(6, 6), b);
    jc_op(t, &c, "Div", 14, 1);
    jc_oracle(t, &c);
    for (int64_t i = 0; i < 36; ++i) y[i] = b[i] / a[i];
    VN_ASSERT_CAUSE(t, &c, y, "operands-exchanged");
    for (int64_t i = 0; i < 36; ++i) y[i] = a[i] / b[i % 6 * 6 + i / 6];
    VN_ASSERT_CAUSE(t, &c, y, "transposed");
    jc_free(&c);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(6, 6), a);
    jc_in(t, &c, VN_F32, JC_DIMS(6, 6), b);
    jc_in(t, &c, VN_F32, JC_DIMS(6, 6), d);
    jc_op(t, &c, "Max", 13, 1);
    jc_oracle(t, &c);
    for (int64_t i = 0; i < 36; ++i) y[i] = fmax(a[i], d[i]);
    VN_ASSERT_CAUSE(t, &c, y, "term-dropped");
    jc_free(&c);
}

VN_TEST(operand, statistics_of_another_channel) {
    vn_rng_t rng = vn_test_rng(t);
    enum { C = 6, P = 8 };
    double p[4][C];
    jc_t c;
    nc_fill(&rng, a, C * P, 1);
    for (int k = 0; k < 4; ++k) nc_fill(&rng, p[k], C, 1);
    for (int k = 0; k < C; ++k) p[3][k] = (float)(0.1 + p[3][k] * p[3][k]);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(1, C, P), a);
    for (int k = 0; k < 4; ++k) jc_in(t, &c, VN_F32, JC_DIMS(C), p[k]);
    jc_op(t, &c, "BatchNormalization", 15, 1);
    jc_oracle(t, &c);
    for (int fault = 0; fault < 4; ++fault) { /* one mean, all of the first, the variance before, reversed */
        for (int64_t i = 0; i < C * P; ++i) {
            const int64_t k = i / P, other = fault == 1 ? 0 : fault == 3 ? C - 1 - k : fault == 0 ? (k + 1) % C : k ? k - 1 : 0;
            const double s = p[0][fault == 1 || fault == 3 ? other : k], o = p[1][fault == 1 || fault == 3 ? other : k],
                         m = p[2][fault == 2 ? k : other], v = p[3][fault == 0 ? k : other];
            y[i] = (a[i] - m) / sqrt(v + 1e-5f) * s + o;
        }
        VN_ASSERT_CAUSE(t, &c, y, "channel-scale");
    }
    for (int64_t i = 0; i < C * P; ++i) y[i] = c.refs[0].value[i] * (i / P == 2 ? 1.5 : 1);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(operand, groups_of_a_convolution) {
    vn_rng_t rng = vn_test_rng(t);
    enum { G = 3, CG = 2, MG = 2, L = 8, K = 3, O = L - K + 1 };
    jc_t c;
    nc_fill(&rng, a, G * CG * L, 1);
    nc_fill(&rng, b, G * MG * CG * K, 1);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(1, G * CG, L), a);
    jc_in(t, &c, VN_F32, JC_DIMS(G * MG, CG, K), b);
    jc_op(t, &c, "Conv", 11, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "group", G, NULL));
    jc_oracle(t, &c);
    for (int fault = 0; fault < 3; ++fault) {
        for (int64_t i = 0; i < G * MG * O; ++i) {
            const int64_t m = i / O, g = m / MG, from = fault == 0 ? 0 : fault == 1 ? (g + 1) % G : g, w = fault == 2 ? m % MG : m;
            y[i] = 0;
            for (int64_t k = 0; k < CG * K; ++k) y[i] += a[(from * CG + k / K) * L + i % O + k % K] * b[w * CG * K + k];
        }
        VN_ASSERT_CAUSE(t, &c, y, "group-index");
    }
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(operand, layouts_of_a_product), VN_CASE(operand, layouts_of_convolution_weights),
             VN_CASE(operand, broadcast_along_another_axis), VN_CASE(operand, exchanged_and_dropped),
             VN_CASE(operand, statistics_of_another_channel), VN_CASE(operand, groups_of_a_convolution))
