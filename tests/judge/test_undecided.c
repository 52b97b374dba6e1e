/* Elements that the oracle could not decide (claim PREC-5): both neighbours are equal to it, a third number is not; a choice of another kind
 * passes without being equal.
 */
#include "judge/judge_case.h"

static vn_tensor_t *floats(vn_test_t *t, double a, double b) {
    vn_tensor_t *x;
    const int64_t two = 2;
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, &two, &x, NULL));
    vn_tensor_set_f64(x, 0, a);
    vn_tensor_set_f64(x, 1, b);
    return x;
}

static vn_measure_t measured(vn_test_t *t, const vn_ref_t *r, double second) {
    vn_tensor_t *actual = floats(t, 3, second);
    vn_measure_t m;
    VN_ASSERT_OK(t, vn_measure(r, actual, &m, NULL));
    vn_tensor_free(actual);
    return m;
}

VN_TEST(undecided, both_neighbours_are_equal) {
    double value[2] = {3, 1 + 0x1p-24}, bound[2] = {0, 0x1p-40};
    vn_ref_t r = {.dtype = VN_F32, .rank = 1, .dims = {2}, .count = 2, .value = value, .bound = bound, .undecided = 1};
    r.tensor = floats(t, 3, 1);
    r.either = floats(t, 3, 1 + 0x1p-23);
    for (int up = 0; up < 2; ++up) {
        const vn_measure_t m = measured(t, &r, up ? 1 + 0x1p-23 : 1);
        VN_ASSERT_EQ(t, m.unequal, 0);
        VN_ASSERT_EQ(t, m.outside, 0);
    }
    VN_ASSERT_EQ(t, measured(t, &r, 1 + 0x1p-22).outside, 1);
    r.undecided = 0; /* now the choice is the operator's: it passes, and is not the oracle's own number */
    const vn_measure_t m = measured(t, &r, 1 + 0x1p-23);
    VN_ASSERT_EQ(t, m.unequal, 1);
    VN_ASSERT_EQ(t, m.outside, 0);
    vn_tensor_free(r.tensor);
    vn_tensor_free(r.either);
}

VN_TEST_MAIN(VN_CASE(undecided, both_neighbours_are_equal))
