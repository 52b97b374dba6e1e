/* The branch-free functions of vmath.h against MPFR (claims VMATH-1 to VMATH-7), at their edges, and in vectors of every length. */
#include <math.h>
#include <string.h>

#include <mpfr.h>

#include "oracle/vmath.h"
#include "support/vn_test.h"

enum { BITS = 160 };
#define U 0x1p-53

/* ---- what is computed, and the truth ---- */

static double f_exp(double x) { return vn_v_exp(x); }
static double f_expm1(double x) { return vn_v_expm1(x); }
static double f_log(double x) { return vn_v_log(x); }
static double f_log1p(double x) { return vn_v_log1p_unit(x); }
static double f_tanh(double x) { return vn_v_tanh(x); }
static double f_logistic(double x) { return vn_v_logistic(x); }
static double f_erf(double x) { return vn_v_erf(x); }
static double f_erfc(double x) { return vn_v_erfc_positive(x); }
static double f_tail(double x) { return vn_v_tail(x); }
static double f_gelu(double x) { return vn_v_gelu(x); }

static void m_exp(mpfr_t y, const mpfr_t x) { mpfr_exp(y, x, MPFR_RNDN); }
static void m_expm1(mpfr_t y, const mpfr_t x) { mpfr_expm1(y, x, MPFR_RNDN); }
static void m_log(mpfr_t y, const mpfr_t x) { mpfr_log(y, x, MPFR_RNDN); }
static void m_log1p(mpfr_t y, const mpfr_t x) { mpfr_log1p(y, x, MPFR_RNDN); }
static void m_tanh(mpfr_t y, const mpfr_t x) { mpfr_tanh(y, x, MPFR_RNDN); }
static void m_erf(mpfr_t y, const mpfr_t x) { mpfr_erf(y, x, MPFR_RNDN); }
static void m_erfc(mpfr_t y, const mpfr_t x) { mpfr_erfc(y, x, MPFR_RNDN); }
static void m_logistic(mpfr_t y, const mpfr_t x) {
    mpfr_neg(y, x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
}
static void normal_tail(mpfr_t y, const mpfr_t x, bool absolute) { /* Phi(-x) */
    mpfr_t root;
    mpfr_init2(root, BITS);
    mpfr_sqrt_ui(root, 2, MPFR_RNDN);
    mpfr_div(y, x, root, MPFR_RNDN);
    if (absolute) mpfr_abs(y, y, MPFR_RNDN);
    mpfr_erfc(y, y, MPFR_RNDN);
    mpfr_div_ui(y, y, 2, MPFR_RNDN);
    mpfr_clear(root);
}
static void m_tail(mpfr_t y, const mpfr_t x) { normal_tail(y, x, true); }
static void m_gelu(mpfr_t y, const mpfr_t x) {
    mpfr_neg(y, x, MPFR_RNDN);
    normal_tail(y, y, false);
    mpfr_mul(y, y, x, MPFR_RNDN);
}

/* limit: the claim, in units of 2^-53 relative. Ranges: uniform, or (geometric) log-uniform of either sign where lo of log is positive. */
static const struct {
    const char *name;
    double (*f)(double);
    void (*exact)(mpfr_t, const mpfr_t);
    double limit, lo, hi;
    bool geometric, negative;
} cases[] = {
    {"exp", f_exp, m_exp, 2, -708.3, 709.7, false, false},
    {"exp", f_exp, m_exp, 2, -1, 1, false, false},
    {"exp", f_exp, m_exp, 2, 1e-300, 1, true, true},
    {"expm1", f_expm1, m_expm1, 4, -2, 2, false, false},
    {"expm1", f_expm1, m_expm1, 4, 0x1p-1070, 0.5, true, true},
    {"expm1", f_expm1, m_expm1, 4, -100, 709.7, false, false},
    {"log", f_log, m_log, 2, 0x1p-1073, 1e308, true, false},
    {"log", f_log, m_log, 2, 0.5, 2, false, false},
    {"log", f_log, m_log, 2, 1 - 0x1p-20, 1 + 0x1p-20, false, false},
    {"log1p", f_log1p, m_log1p, 4, 0, 1, false, false},
    {"log1p", f_log1p, m_log1p, 4, 0x1p-1000, 1, true, false},
    {"tanh", f_tanh, m_tanh, 6, -3, 3, false, false},
    {"tanh", f_tanh, m_tanh, 6, 0x1p-1060, 400, true, true},
    {"logistic", f_logistic, m_logistic, 5, -700, 40, false, false},
    {"logistic", f_logistic, m_logistic, 5, -4, 4, false, false},
    {"erf", f_erf, m_erf, 4, -2, 2, false, false},
    {"erf", f_erf, m_erf, 4, 0x1p-1000, 8, true, true},
    {"erfc", f_erfc, m_erfc, 12, 0, 26.5, false, false},
    {"erfc", f_erfc, m_erfc, 12, 0, 1, false, false},
    {"tail", f_tail, m_tail, 12, -37, 37, false, false},
    {"tail", f_tail, m_tail, 12, -1, 1, false, false},
    {"gelu", f_gelu, m_gelu, 16, -37, 8, false, false},
    {"gelu", f_gelu, m_gelu, 16, -1, 1, false, false},
    {"gelu", f_gelu, m_gelu, 16, 0x1p-1000, 1, true, true},
};
enum { CASES = sizeof cases / sizeof *cases };

static double argument(vn_rng_t *rng, int c, int i) {
    const double lo = cases[c].lo, hi = cases[c].hi, at = vn_rng_uniform(rng);
    double x = cases[c].geometric ? exp2(log2(lo) + (log2(hi) - log2(lo)) * at) : lo + (hi - lo) * at;
    if (i % 3 == 1 && fabs(x) > FLT_MIN && fabs(x) < FLT_MAX) x = (float)x; /* members of f32 are what is asked for most */
    if (cases[c].negative && i % 2) x = -x;
    return i == 0 ? lo : i == 2 ? hi : x;
}

VN_TEST(vmath, errors_are_within_the_claims) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t x, y, d;
    mpfr_inits2(BITS, x, y, d, (mpfr_ptr)0);
    const int n = 250 * vn_test_scale(t);
    for (int c = 0; c < CASES; ++c) {
        double worst = 0;
        for (int i = 0; i < n; ++i) {
            const double v = argument(&rng, c, i), got = cases[c].f(v);
            mpfr_set_d(x, v, MPFR_RNDN);
            cases[c].exact(y, x);
            mpfr_sub_d(d, y, got, MPFR_RNDA);
            const double off = fabs(mpfr_get_d(d, MPFR_RNDA)), size = fabs(mpfr_get_d(y, MPFR_RNDN));
            if (!(off <= cases[c].limit * U * size + 0x1p-1074))
                vn_test_fail(t, __FILE__, __LINE__, "%s(%a) = %a is off by %a, %.2f units", cases[c].name, v, got, off, off / size / U);
            if (size > 0x1p-1000) worst = fmax(worst, off / size / U);
        }
        VN_ASSERT_GT(t, worst, cases[c].geometric ? 0 : 0.4); /* the claim is of the right size, and the comparison works */
    }
    mpfr_clears(x, y, d, (mpfr_ptr)0);
}

/* exp of an argument in two parts, as squares and double-double scores use it. */
VN_TEST(vmath, exponential_of_two_parts) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t x, y, d;
    mpfr_inits2(BITS, x, y, d, (mpfr_ptr)0);
    for (int i = 0; i < 500 * vn_test_scale(t); ++i) {
        const double hi = -700 * vn_rng_uniform(&rng) * vn_rng_uniform(&rng), lo = hi * 0x1p-22 * (vn_rng_uniform(&rng) - 0.5),
                     got = vn_v_exp_with(hi, lo);
        mpfr_set_d(x, hi, MPFR_RNDN);
        mpfr_add_d(x, x, lo, MPFR_RNDN);
        mpfr_exp(y, x, MPFR_RNDN);
        mpfr_sub_d(d, y, got, MPFR_RNDA);
        VN_ASSERT_LE(t, fabs(mpfr_get_d(d, MPFR_RNDA)), 3 * U * mpfr_get_d(y, MPFR_RNDU));
    }
    mpfr_clears(x, y, d, (mpfr_ptr)0);
}

VN_TEST(vmath, edges) {
    VN_ASSERT_DEQ(t, vn_v_exp(-INFINITY), 0);
    VN_ASSERT_DEQ(t, vn_v_exp(INFINITY), INFINITY);
    VN_ASSERT_DEQ(t, vn_v_exp(710), INFINITY);
    VN_ASSERT_DEQ(t, vn_v_exp(-746), 0);
    VN_ASSERT_DEQ(t, vn_v_exp(-745), 0x1p-1074);
    VN_ASSERT_DEQ(t, vn_v_exp(0), 1);
    VN_ASSERT_DEQ(t, vn_v_expm1(INFINITY), INFINITY);
    VN_ASSERT_DEQ(t, vn_v_expm1(-INFINITY), -1);
    VN_ASSERT_DEQ(t, vn_v_expm1(710), INFINITY);
    VN_ASSERT_DEQ(t, vn_v_log(0), -INFINITY);
    VN_ASSERT_DEQ(t, vn_v_log(-0.0), -INFINITY);
    VN_ASSERT_DEQ(t, vn_v_log(INFINITY), INFINITY);
    VN_ASSERT_DEQ(t, vn_v_log(1), 0);
    VN_ASSERT(t, isnan(vn_v_log(-1)));
    VN_ASSERT(t, isnan(vn_v_log(-INFINITY)));
    VN_ASSERT_DEQ(t, vn_v_tanh(INFINITY), 1);
    VN_ASSERT_DEQ(t, vn_v_tanh(-INFINITY), -1);
    VN_ASSERT_DEQ(t, vn_v_erf(INFINITY), 1);
    VN_ASSERT_DEQ(t, vn_v_erf(-INFINITY), -1);
    VN_ASSERT_DEQ(t, vn_v_logistic(INFINITY), 1);
    VN_ASSERT_DEQ(t, vn_v_logistic(-INFINITY), 0);
    VN_ASSERT_DEQ(t, vn_v_gelu(INFINITY), INFINITY);
    VN_ASSERT_DEQ(t, vn_v_gelu(-INFINITY), 0);
    VN_ASSERT_DEQ(t, vn_v_gelu(DBL_MAX), DBL_MAX);
    VN_ASSERT_DEQ(t, vn_v_gelu(-DBL_MAX), 0);
    static double (*const odd[])(double) = {f_expm1, f_tanh, f_erf, f_gelu};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; ++i) VN_ASSERT(t, odd[i](-0.0) == 0 && signbit(odd[i](-0.0)) && !signbit(odd[i](0.0)));
    for (int c = 0; c < CASES; ++c) VN_ASSERT(t, isnan(cases[c].f(NAN)));
}

/* Whatever width was chosen at load time: an element has the bits that it has alone, in the vector body and in the rest of a loop. */
VN_TEST(vmath, an_element_does_not_depend_on_its_neighbours) {
    static const struct {
        void (*array)(const double *, double *, int64_t);
        double (*one)(double);
    } pairs[] = {{vn_v_exp_array, f_exp}, {vn_v_tanh_array, f_tanh}, {vn_v_logistic_array, f_logistic}};
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 67 };
    double x[N], y[N];
    for (int i = 0; i < N; ++i) x[i] = i % 9 == 0 ? -800 + 400 * vn_rng_uniform(&rng) : 40 * (vn_rng_uniform(&rng) - 0.5);
    x[5] = NAN;
    x[6] = -INFINITY;
    x[7] = 0x1p-1074;
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; ++p)
        for (int first = 0; first < 9; ++first)
            for (int n = 0; first + n <= N; ++n) {
                pairs[p].array(x + first, y, n);
                for (int i = 0; i < n; ++i) {
                    const double want = pairs[p].one(x[first + i]);
                    VN_ASSERT(t, memcmp(&want, &y[i], sizeof want) == 0 || (isnan(want) && isnan(y[i])));
                }
            }
}

VN_TEST_MAIN(VN_CASE(vmath, errors_are_within_the_claims), VN_CASE(vmath, exponential_of_two_parts), VN_CASE(vmath, edges),
             VN_CASE(vmath, an_element_does_not_depend_on_its_neighbours))
