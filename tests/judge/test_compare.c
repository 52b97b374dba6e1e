/* A fixed criterion (vn_compare): what it refuses, and how the divisor and the mean follow the type. The goldens are in tests/cases. */
#include "judge/judge_case.h"

static const vn_compare_rule_t exact = {.exact = true};

VN_TEST(compare, refuses_what_it_cannot_count) {
    const double x[] = {1, 2, 3, 4};
    vn_comparison_t c;
    vn_error_t err;
    vn_tensor_t *a = jc_tensor(t, VN_F32, JC_DIMS(2, 2), x), *b = jc_tensor(t, VN_F32, JC_DIMS(4), x),
                *h = jc_tensor(t, VN_F16, JC_DIMS(2, 2), x), *i = jc_tensor(t, VN_I32, JC_DIMS(2, 2), x);
    VN_ASSERT_EQ(t, vn_compare(a, b, &exact, &c, &err), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, err.text, "f32[4]");
    VN_ASSERT_EQ(t, vn_compare(a, h, &exact, &c, &err), VN_ERR_DTYPE);
    VN_ASSERT_EQ(t, vn_compare(i, i, &exact, &c, &err), VN_ERR_DTYPE);
    VN_ASSERT_OK(t, vn_compare(a, a, &exact, &c, &err));
    VN_ASSERT_EQ(t, c.failures, 0);
    VN_ASSERT_EQ(t, c.first, -1);
    vn_tensor_free(a);
    vn_tensor_free(b);
    vn_tensor_free(h);
    vn_tensor_free(i);
}

/* A zero reference is divided by the smallest normal number of its own type. */
VN_TEST(compare, divisor_follows_the_type) {
    static const vn_dtype_t types[] = {VN_F16, VN_BF16, VN_F32, VN_F64};
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
        const vn_format_info_t *f = vn_format_info(vn_format_of(types[k]));
        const double zero[] = {0, 1}, tiny[] = {f->eta, 1};
        vn_comparison_t c;
        vn_tensor_t *a = jc_tensor(t, types[k], JC_DIMS(2), zero), *b = jc_tensor(t, types[k], JC_DIMS(2), tiny);
        VN_ASSERT_OK(t, vn_compare(a, b, &(vn_compare_rule_t){.absolute = 0.5}, &c, NULL));
        VN_ASSERT_EQ(t, c.failures, 0);
        VN_ASSERT_DEQ(t, c.max_relative, f->eta / f->tau);
        VN_ASSERT_DEQ(t, c.rms, sqrt(f->eta * f->eta / 2));
        vn_tensor_free(a);
        vn_tensor_free(b);
    }
}

VN_TEST_MAIN(VN_CASE(compare, refuses_what_it_cannot_count), VN_CASE(compare, divisor_follows_the_type))
