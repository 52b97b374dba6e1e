/* Detection power: which of the catalogued faults a check would have caught, and from which single error on it speaks. */
#include "judge/judge_case.h"

enum { M = 16, K = 64, N = 16 };
static double a[M * K], b[K * N], y[M * N];

static vn_finding_t judged(vn_test_t *t, const char *contract, jc_data_t kind, double scale) {
    static const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_fill(&rng, kind, a, M * K);
    jc_fill(&rng, kind, b, K * N);
    for (int i = 0; i < M * K; ++i) a[i] = (float)(a[i] * scale);
    jc_matmul(t, &c, contract, M, K, N, a, b);
    jc_product(&right, M, K, N, a, b, y);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), y));
    const vn_finding_t f = *jc_judge(t, &c);
    jc_free(&c);
    return f;
}

VN_TEST(detection, ordinary_outputs_catch_most) {
    const vn_finding_t f = judged(t, "portable", JC_NORMAL, 1);
    VN_ASSERT_EQ(t, f.detection_of, 19); /* fourteen faults of the output, two kinds of lost terms, three of narrower arithmetic */
    VN_ASSERT_GE(t, f.detection_caught, 18);
    VN_ASSERT_GT(t, f.detection_smallest, 0x1p-24);
    VN_ASSERT_LT(t, f.detection_smallest, 1e-3);
}

VN_TEST(detection, a_wide_contract_catches_less) {
    const vn_finding_t narrow = judged(t, "portable", JC_NORMAL, 1),
                       wide = judged(t, "operand=bf16,accumulator=bf16,result=f32", JC_NORMAL, 1);
    VN_ASSERT_GT(t, wide.detection_smallest, narrow.detection_smallest);
    VN_ASSERT_LT(t, wide.detection_caught, narrow.detection_caught);
}

/* The figure does not depend on units. */
VN_TEST(detection, is_the_same_at_any_scale) {
    const vn_finding_t one = judged(t, "portable", JC_NORMAL, 1), large = judged(t, "portable", JC_NORMAL, 0x1p40),
                       small = judged(t, "portable", JC_NORMAL, 0x1p-40);
    VN_ASSERT_EQ(t, one.detection_caught, large.detection_caught);
    VN_ASSERT_EQ(t, one.detection_caught, small.detection_caught);
    VN_ASSERT_LE(t, fabs(one.detection_smallest / large.detection_smallest - 1), 1e-6);
    VN_ASSERT_LE(t, fabs(one.detection_smallest / small.detection_smallest - 1), 1e-6);
}

/* The smallest error is a promise: half of the elements would have been flagged with it, and none with a hundredth. */
VN_TEST(detection, the_smallest_error_is_what_the_bound_flags) {
    static const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_fill(&rng, JC_NORMAL, a, M * K);
    jc_fill(&rng, JC_NORMAL, b, K * N);
    jc_matmul(t, &c, "portable", M, K, N, a, b);
    jc_product(&right, M, K, N, a, b, y);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), y));
    const double eps = jc_judge(t, &c)->detection_smallest;
    int flagged[2] = {0};
    for (int i = 0; i < M * N; ++i) {
        const double keep = y[i], *v = c.refs[0].value;
        const double size[] = {2 * eps, eps / 100};
        for (int k = 0; k < 2; ++k) {
            vn_measure_t m;
            y[i] = (float)(v[i] * (1 + size[k]));
            vn_tensor_t *x = jc_tensor(t, VN_F32, JC_DIMS(M, N), y);
            VN_ASSERT_OK(t, vn_measure(&c.refs[0], x, &m, NULL));
            vn_tensor_free(x);
            flagged[k] += m.outside > 0;
        }
        y[i] = keep;
    }
    VN_ASSERT_GE(t, flagged[0], M * N / 2);
    VN_ASSERT_LE(t, flagged[1], M * N / 20);
    jc_free(&c);
}

VN_TEST(detection, exact_operators_catch_a_single_bit) {
    double x[12];
    for (int i = 0; i < 12; ++i) x[i] = (float)(0.37 * (i + 1));
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(3, 4), x);
    jc_op(t, &c, "Relu", 14, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(3, 4), x));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_EXACT);
    VN_ASSERT_EQ(t, f->detection_caught, f->detection_of);
    VN_ASSERT_LE(t, f->detection_smallest, 0x1p-23);
    jc_free(&c);
}

/* A fault that changes nothing is no fault: equal elements swapped, zeros into zeros. */
VN_TEST(detection, what_changes_nothing_is_not_caught) {
    double x[12];
    for (int i = 0; i < 12; ++i) x[i] = 3;
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(3, 4), x);
    jc_op(t, &c, "Relu", 14, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(3, 4), x));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_EXACT); /* some faults would show: not uninformative */
    VN_ASSERT_GT(t, f->detection_caught, 0);
    VN_ASSERT_LE(t, f->detection_caught,
                 f->detection_of - 5); /* row repeated, swapped, shifted, reversed, stale tile, rounded: no change */
    jc_free(&c);
}

VN_TEST(detection, strings_have_no_catalogue) {
    const int64_t n = 2;
    vn_tensor_t *x;
    jc_t c;
    jc_new(t, &c, "portable");
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 1, &n, &x, NULL));
    VN_ASSERT_OK(t, vn_graph_add_input(c.model->graph, jc_in_names[0], VN_STRING, 1, &n, &c.err));
    c.in[c.n_in++] = vn_value_tensor(x);
    jc_op(t, &c, "Identity", 14, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, vn_tensor_retain(x));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_EXACT);
    VN_ASSERT_EQ(t, f->detection_of, 0);
    jc_free(&c);
}

/* Operands of fewer bits inside the bound: only the fingerprint catches them, and it counts. Two elements are too few for it. */
VN_TEST(detection, narrower_operands_count_where_the_fingerprint_sees_them) {
    enum { LONG = 4096 };
    static double wide[8 * LONG], right_side[LONG * 8], out[64];
    static const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    vn_rng_t rng = vn_test_rng(t);
    int caught[2];
    for (int small = 0; small < 2; ++small) {
        jc_t c;
        jc_fill(&rng, JC_NORMAL, wide, 8 * LONG);
        jc_fill(&rng, JC_NORMAL, right_side, LONG * 8);
        const int m = small ? 1 : 8, n = small ? 2 : 8;
        jc_matmul(t, &c, "portable", m, LONG, n, wide, right_side);
        jc_product(&right, m, LONG, n, wide, right_side, out);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), out));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_EQ(t, f->detection_of, 19);
        caught[small] = f->detection_caught;
        VN_ASSERT_GE(t, f->detection_worst, f->detection_smallest);
        jc_free(&c);
    }
    VN_ASSERT_GT(t, caught[0], caught[1]);
}

/* Another epsilon moves a row of variance 10 by 5e-7 of itself: caught; rows of variance 10^6 do not notice. */
VN_TEST(detection, another_epsilon) {
    enum { ROWS = 16, WIDE = 32 };
    double x[ROWS * WIDE], scale[WIDE], out[ROWS * WIDE];
    vn_rng_t rng = vn_test_rng(t);
    int caught[2], of[2];
    for (int large = 0; large < 2; ++large) {
        jc_t c;
        jc_fill(&rng, JC_NORMAL, x, ROWS * WIDE);
        for (int i = 0; i < ROWS * WIDE; ++i) x[i] = (float)(x[i] * (large ? 1000 : 0.01));
        for (int i = 0; i < WIDE; ++i) scale[i] = 1;
        jc_new(t, &c, "portable");
        jc_in(t, &c, VN_F32, JC_DIMS(ROWS, WIDE), x);
        jc_in(t, &c, VN_F32, JC_DIMS(WIDE), scale);
        jc_op(t, &c, "LayerNormalization", 17, 1);
        VN_ASSERT_OK(t, vn_node_set_float(c.model, c.node, "epsilon", 1e-5f, NULL));
        jc_oracle(t, &c);
        vn_tensor_to_f64(c.refs[0].tensor, out);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(ROWS, WIDE), out));
        const vn_finding_t *f = jc_judge(t, &c);
        caught[large] = f->detection_caught;
        of[large] = f->detection_of;
        jc_free(&c);
    }
    VN_ASSERT_EQ(t, of[0], 15); /* fourteen of the output and the epsilon */
    VN_ASSERT_EQ(t, of[1], 15);
    VN_ASSERT_EQ(t, caught[0], caught[1] + 1);
}

/* A check that could not have failed says why, and what to give instead. */
VN_TEST(detection, uninformative_says_why) {
    static const struct {
        double fill, other;
        const char *says;
    } rows[] = {{0, 1, "operand a is 0 throughout"}, {INFINITY, 0, "every element"}, {NAN, 1, "operand a is NaN throughout"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        jc_t c;
        for (int i = 0; i < M * K; ++i) a[i] = rows[k].fill;
        for (int i = 0; i < K * N; ++i) b[i] = rows[k].other;
        jc_matmul(t, &c, "portable", M, K, N, a, b);
        vn_tensor_to_f64(c.refs[0].tensor, y);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), y));
        const vn_finding_t *f = jc_judge(t, &c);
        if (rows[k].fill == 0) VN_ASSERT_VERDICT(t, f, VN_UNINFORMATIVE);
        if (f->verdict == VN_UNINFORMATIVE && rows[k].fill == 0) {
            VN_ASSERT_HAS(t, f->note, rows[k].says);
            VN_ASSERT_HAS(t, f->note, "give it different values");
        }
        jc_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(detection, ordinary_outputs_catch_most), VN_CASE(detection, a_wide_contract_catches_less),
             VN_CASE(detection, is_the_same_at_any_scale), VN_CASE(detection, the_smallest_error_is_what_the_bound_flags),
             VN_CASE(detection, exact_operators_catch_a_single_bit), VN_CASE(detection, what_changes_nothing_is_not_caught),
             VN_CASE(detection, strings_have_no_catalogue), VN_CASE(detection, narrower_operands_count_where_the_fingerprint_sees_them),
             VN_CASE(detection, another_epsilon), VN_CASE(detection, uninformative_says_why))
