/* Claim LADDER-1: on these inputs every order of summation gives the exact sum in an accumulator of so many bits, and one of fewer bits does not. */
#include <math.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/probe.h"

enum { M = 12, K = 200, N = 16 };

static vn_node_t node_of(const char *op, const char *const *inputs, int n) {
    return (vn_node_t){.op = op, .domain = "", .inputs = (const char **)(uintptr_t)inputs, .n_inputs = n};
}

static const char *const names[] = {"a", "b", "c"};

static vn_tensor_t *filled(vn_test_t *t, const vn_ladder_op_t *op, const vn_ladder_t *rung, int k, vn_dtype_t type, int64_t rows,
                           int64_t cols) {
    vn_tensor_t *like, *out;
    VN_ASSERT_OK(t, vn_tensor_new(type, 2, (const int64_t[]){rows, cols}, &like, NULL));
    VN_ASSERT_OK(t, vn_ladder_fill(op, rung, k, like, &out, NULL));
    vn_tensor_free(like);
    return out;
}

/* Sum of the terms in one of several orders, rounded to p bits after each addition (p = 53: not at all). */
static double summed(const double *x, int order, int p) {
    double s = 0;
    for (int i = 0; i < K; ++i) {
        const int k = order == 0 ? i : order == 1 ? K - 1 - i : (i * 77) % K; /* 77 and 200 have no common divisor */
        s += x[k];
        int e;
        const double m = frexp(s, &e);
        s = p < 53 ? ldexp(nearbyint(ldexp(m, p)), e - p) : s;
    }
    return s;
}

static void products(vn_test_t *t, const vn_ladder_t *rung, vn_dtype_t type, int64_t *judged, int64_t *inexact_here, int64_t *inexact_below,
                     int below) {
    vn_ladder_op_t op;
    const char *why;
    const vn_node_t n = node_of("MatMul", names, 2);
    VN_ASSERT(t, vn_ladder_of(&n, K, &op, &why));
    vn_tensor_t *a = filled(t, &op, rung, 0, type, M, K), *b = filled(t, &op, rung, 1, type, K, N);
    *judged = *inexact_here = *inexact_below = 0;
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            double x[K], size = 0;
            for (int k = 0; k < K; ++k) {
                x[k] = vn_tensor_get_f64(a, i * K + k) * vn_tensor_get_f64(b, k * N + j);
                VN_ASSERT_DEQ(t, x[k], nearbyint(x[k])); /* integers */
                size += fabs(x[k]);
            }
            if (!(size <= ldexp(op.unit, rung->bits)) || size == 0) continue;
            ++*judged;
            const double exact = summed(x, 0, 53);
            for (int order = 0; order < 3; ++order) {
                *inexact_here += summed(x, order, rung->bits) != exact;
                *inexact_below += summed(x, order, below) != exact;
            }
        }
    vn_tensor_free(a);
    vn_tensor_free(b);
}

VN_TEST(ladder, sums_are_exact_in_their_bits_and_not_in_fewer) {
    static const struct {
        int bits, below;
        vn_dtype_t type;
    } rows[] = {{8, 5, VN_F32}, {11, 8, VN_F32}, {24, 11, VN_F32}, {24, 11, VN_BF16}, {24, 11, VN_F16}, {53, 24, VN_F64}, {8, 5, VN_BF16}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
        int64_t judged, here, below;
        products(t, &(vn_ladder_t){.bits = rows[r].bits, .operand = -1, .terms = K, .seed = 3}, rows[r].type, &judged, &here, &below,
                 rows[r].below);
        VN_ASSERT_GE(t, judged, M * N / 2);
        VN_ASSERT_EQ(t, here, 0);
        VN_ASSERT_GE(t, below, judged); /* a narrower accumulator is wrong in one of the three orders at least */
    }
}

VN_TEST(ladder, operands_need_all_their_bits) {
    for (int operand = 0; operand < 2; ++operand)
        for (int bits = 8; bits <= 24; bits += 8) {
            int64_t judged, here, below;
            const vn_ladder_t rung = {.bits = bits, .operand = operand, .terms = K, .seed = 5};
            products(t, &rung, VN_F32, &judged, &here, &below, bits - 1);
            VN_ASSERT_GT(t, judged, 0);
            VN_ASSERT_EQ(t, here, 0);
            VN_ASSERT_EQ(t, below, 3 * judged); /* odd numbers of exactly `bits` bits */
        }
}

VN_TEST(ladder, types_that_cannot_hold_them_say_so) {
    const vn_node_t n = node_of("MatMul", names, 2);
    vn_ladder_op_t op;
    const char *why;
    vn_tensor_t *like, *out;
    const int64_t dims[] = {4, 4};
    VN_ASSERT(t, vn_ladder_of(&n, 4, &op, &why));
    VN_ASSERT_OK(t, vn_tensor_new(VN_F16, 2, dims, &like, NULL));
    VN_ASSERT_EQ(t, vn_ladder_fill(&op, &(vn_ladder_t){.bits = 24, .operand = 0, .terms = 4}, 0, like, &out, NULL), VN_ERR_UNSUPPORTED);
    VN_ASSERT(t, out == NULL);
    VN_ASSERT_OK(t, vn_ladder_fill(&op, &(vn_ladder_t){.bits = 11, .operand = 0, .terms = 4}, 0, like, &out, NULL));
    vn_tensor_free(out);
    VN_ASSERT_OK(t,
                 vn_ladder_fill(&op, &(vn_ladder_t){.bits = 11, .operand = 0, .terms = 4}, 2, like, &out, NULL)); /* no part of the sum */
    VN_ASSERT(t, out == NULL);
    vn_tensor_free(like);
    VN_ASSERT_OK(t, vn_tensor_new(VN_I32, 2, dims, &like, NULL));
    VN_ASSERT_EQ(t, vn_ladder_fill(&op, &(vn_ladder_t){.bits = 8, .operand = 0, .terms = 4}, 0, like, &out, NULL), VN_ERR_UNSUPPORTED);
    vn_tensor_free(like);
}

VN_TEST(ladder, which_operators_have_an_exact_form) {
    vn_ladder_op_t op;
    const char *why, *const twice[] = {"a", "a"};
    vn_node_t n = node_of("Conv", names, 3);
    VN_ASSERT(t, vn_ladder_of(&n, 27, &op, &why) && op.n_factors == 2 && op.addend == 2);
    VN_ASSERT_DEQ(t, op.unit, 1);
    n = node_of("ReduceMean", names, 1);
    VN_ASSERT(t, vn_ladder_of(&n, 64, &op, &why));
    VN_ASSERT_DEQ(t, op.unit, 1.0 / 64);
    VN_ASSERT(t, !vn_ladder_of(&n, 60, &op, &why) && strstr(why, "power of two")); /* 1/60 is rounded */
    n = node_of("Softmax", names, 1);
    VN_ASSERT(t, !vn_ladder_of(&n, 64, &op, &why) && strstr(why, "no plain sum"));
    n = node_of("MatMul", twice, 2);
    VN_ASSERT(t, !vn_ladder_of(&n, 64, &op, &why) && strstr(why, "one tensor"));
    vn_model_t *m;
    vn_node_t *gemm;
    const char *const out = "y";
    VN_ASSERT_OK(t, vn_model_new(10, &m, NULL));
    VN_ASSERT_OK(t, vn_graph_add_node(m->graph, "g", "Gemm", "", 2, names, 1, &out, &gemm, NULL));
    VN_ASSERT_OK(t, vn_node_set_float(m, gemm, "alpha", 0.125f, NULL));
    VN_ASSERT(t, vn_ladder_of(gemm, 64, &op, &why));
    VN_ASSERT_DEQ(t, op.unit, 0.125);
    VN_ASSERT_OK(t, vn_node_set_float(m, gemm, "alpha", 0.3f, NULL));
    VN_ASSERT(t, !vn_ladder_of(gemm, 64, &op, &why));
    VN_ASSERT_OK(t, vn_node_set_float(m, gemm, "alpha", -1, NULL));
    VN_ASSERT(t, !vn_ladder_of(gemm, 64, &op, &why)); /* magnitudes would not be those of the terms */
    vn_model_free(m);
}

VN_TEST_MAIN(VN_CASE(ladder, sums_are_exact_in_their_bits_and_not_in_fewer), VN_CASE(ladder, operands_need_all_their_bits),
             VN_CASE(ladder, types_that_cannot_hold_them_say_so), VN_CASE(ladder, which_operators_have_an_exact_form))
