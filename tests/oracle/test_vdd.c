/* The double-double functions of vdd.h against MPFR (claims VDD-1 to VDD-3), at their edges, and in vectors of every length. */
#include <math.h>
#include <string.h>

#include <mpfr.h>

#include "oracle/vdd.h"
#include "support/vn_test.h"

enum { BITS = 300 };

static vn_dd_t f_exp(vn_dd_t x) { return vn_vdd_exp(x); }
static vn_dd_t f_expm1(vn_dd_t x) { return vn_vdd_expm1(x); }
static vn_dd_t f_logistic(vn_dd_t x) { return vn_vdd_logistic(x); }
static vn_dd_t f_tanh(vn_dd_t x) { return vn_vdd_tanh(x); }

static void m_exp(mpfr_t y, const mpfr_t x) { mpfr_exp(y, x, MPFR_RNDN); }
static void m_expm1(mpfr_t y, const mpfr_t x) { mpfr_expm1(y, x, MPFR_RNDN); }
static void m_tanh(mpfr_t y, const mpfr_t x) { mpfr_tanh(y, x, MPFR_RNDN); }
static void m_logistic(mpfr_t y, const mpfr_t x) {
    mpfr_neg(y, x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

/* limit: the claim, relative. Uniform in [lo, hi], or (geometric) of either sign, uniform in the logarithm of the magnitude. */
static const struct {
    const char *name;
    vn_dd_t (*f)(vn_dd_t);
    void (*exact)(mpfr_t, const mpfr_t);
    double limit, lo, hi;
    bool geometric, negative; /* negative: -magnitude only */
} cases[] = {
    {"exp", f_exp, m_exp, VN_VDD_EXP_U, -600, 0.3, false, false},
    {"exp", f_exp, m_exp, VN_VDD_EXP_U, -1, 0.3, false, false},
    {"exp", f_exp, m_exp, VN_VDD_EXP_U, 0x1p-400, 600, true, true},
    {"expm1", f_expm1, m_expm1, VN_VDD_EXP_U, -2, 0.3, false, false},
    {"expm1", f_expm1, m_expm1, VN_VDD_EXP_U, -0.4, -0.3, false, false},
    {"expm1", f_expm1, m_expm1, VN_VDD_EXP_U, 0x1p-400, 600, true, true},
    {"logistic", f_logistic, m_logistic, VN_VDD_LOGISTIC_U, -600, 40, false, false},
    {"logistic", f_logistic, m_logistic, VN_VDD_LOGISTIC_U, -4, 4, false, false},
    {"tanh", f_tanh, m_tanh, VN_VDD_TANH_U, -3, 3, false, false},
    {"tanh", f_tanh, m_tanh, VN_VDD_TANH_U, 0x1p-400, 400, true, false},
};
enum { CASES = sizeof cases / sizeof *cases };

/* A double-double with a low part of random size. */
static vn_dd_t draw(vn_rng_t *rng, int c) {
    double x = cases[c].lo + (cases[c].hi - cases[c].lo) * vn_rng_uniform(rng);
    if (cases[c].geometric) {
        x = exp(log(cases[c].lo) + (log(cases[c].hi) - log(cases[c].lo)) * vn_rng_uniform(rng));
        if (cases[c].negative || vn_rng_below(rng, 2)) x = -x;
    }
    vn_dd_t y;
    y.hi = vn_dd_fast_sum(x, x * 0x1p-54 * (2 * vn_rng_uniform(rng) - 1) * exp2(-(double)vn_rng_below(rng, 40)), &y.lo);
    return y;
}

/* |got - exact| / |exact|. */
static double wrong(int c, vn_dd_t x, vn_dd_t got) {
    mpfr_t a, y;
    mpfr_inits2(BITS, a, y, (mpfr_ptr)0);
    mpfr_set_d(a, x.hi, MPFR_RNDN);
    mpfr_add_d(a, a, x.lo, MPFR_RNDN);
    cases[c].exact(y, a);
    mpfr_set_d(a, got.hi, MPFR_RNDN);
    mpfr_add_d(a, a, got.lo, MPFR_RNDN);
    mpfr_sub(a, a, y, MPFR_RNDN);
    mpfr_div(a, a, y, MPFR_RNDN);
    const double d = fabs(mpfr_get_d(a, MPFR_RNDU));
    mpfr_clears(a, y, (mpfr_ptr)0);
    return d;
}

VN_TEST(vdd, errors_are_within_the_claims) {
    vn_rng_t rng = vn_test_rng(t);
    const int draws = vn_test_full() ? 100000 : 3000;
    for (int c = 0; c < CASES; ++c) {
        double worst = 0;
        for (int i = 0; i < draws; ++i) {
            const vn_dd_t x = draw(&rng, c), y = cases[c].f(x);
            const double d = wrong(c, x, y);
            if (!(d <= cases[c].limit))
                vn_test_fail(t, __FILE__, __LINE__, "%s(%a + %a) is %a + %a, wrong by %a", cases[c].name, x.hi, x.lo, y.hi, y.lo, d);
            worst = fmax(worst, d);
        }
        if (!(worst > cases[c].limit / 128)) /* the claim is no more than seven bits away from what was seen */
            vn_test_fail(t, __FILE__, __LINE__, "%s is wrong by %a at most, the claim of %a is too wide", cases[c].name, worst,
                         cases[c].limit);
    }
}

/* Reduction is worst beside odd multiples of log(2)/2. */
VN_TEST(vdd, edges_of_the_reduction) {
    for (int k = -865; k <= 0; ++k)
        for (int side = -1; side <= 1; ++side) {
            vn_dd_t x;
            x.hi = vn_dd_fast_sum((k + 0.5 * side) * 0x1.62e42fefa39efp-1, (double)side * 0x1p-60, &x.lo);
            if (x.hi > 0.3 || x.hi < -600 || x.hi == 0) continue;
            VN_ASSERT_LE(t, wrong(0, x, vn_vdd_exp(x)), VN_VDD_EXP_U);
            VN_ASSERT_LE(t, wrong(3, x, vn_vdd_expm1(x)), VN_VDD_EXP_U);
        }
}

VN_TEST(vdd, specials) {
    const vn_dd_t zero = {0, 0}, nan = {NAN, 0}, low = {-1e4, 0}, high = {1e4, 0};
    VN_ASSERT_EQ(t, vn_vdd_tanh(zero).hi, 0);
    VN_ASSERT_EQ(t, vn_vdd_logistic(zero).hi, 0.5);
    VN_ASSERT_EQ(t, vn_vdd_logistic(zero).lo, 0);
    VN_ASSERT_EQ(t, vn_vdd_exp(zero).hi, 1);
    VN_ASSERT_EQ(t, vn_vdd_tanh(high).hi, 1);
    VN_ASSERT_EQ(t, vn_vdd_tanh(low).hi, -1);
    VN_ASSERT_EQ(t, vn_vdd_logistic(high).hi, 1);
    VN_ASSERT_LE(t, vn_vdd_logistic(low).hi, VN_VDD_TINY);
    VN_ASSERT_LE(t, vn_vdd_exp(low).hi, VN_VDD_TINY);
    VN_ASSERT_EQ(t, isnan(vn_vdd_tanh(nan).hi) && isnan(vn_vdd_logistic(nan).hi) && isnan(vn_vdd_exp(nan).hi), 1);
}

VN_TEST_MAIN(VN_CASE(vdd, errors_are_within_the_claims), VN_CASE(vdd, edges_of_the_reduction), VN_CASE(vdd, specials))
