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
    VN_ASSERT_EQ(t, f.detection_of, 16); /* fourteen faults of the output and two kinds of lost terms */
    VN_ASSERT_GE(t, f.detection_caught, 15);
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

VN_TEST_MAIN(VN_CASE(detection, ordinary_outputs_catch_most), VN_CASE(detection, a_wide_contract_catches_less),
             VN_CASE(detection, is_the_same_at_any_scale), VN_CASE(detection, the_smallest_error_is_what_the_bound_flags),
             VN_CASE(detection, exact_operators_catch_a_single_bit), VN_CASE(detection, what_changes_nothing_is_not_caught),
             VN_CASE(detection, strings_have_no_catalogue))
