/* functions.c -- elementary functions: of libm, of a fast library, and with the faults that such libraries have shown. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "mutant.h"

/* The argument as a function unit with f16 tables sees it. */
static double argument(const call_t *c, double x) { return faulty(c, F_FUNCTION_F16) ? vn_round_to(VN_FMT_F16, x, VN_RNE, false) : x; }

/* A number of a fit, as it is stored. */
static double coefficient(const call_t *c, double x) {
    return faulty(c, F_COEFFICIENTS_F16) ? vn_round_to(VN_FMT_F16, x, VN_RNE, false) : x;
}

static bool fitted(const call_t *c) { return c->a->fast || faulty(c, F_LOW_ORDER_FIT) || faulty(c, F_COEFFICIENTS_F16); }

/* exp by 2^n times a Taylor polynomial of exp on [-ln2/2, ln2/2]: 7 terms, or 3 under low-order-fit. */
static double fit_exp(const call_t *c, bool wide, double x) {
    if (isnan(x)) return x;
    if (x > 750) return INFINITY;
    if (x < -750) return 0;
    static const double inverse[] = {1, 1, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320};
    const int order = faulty(c, F_LOW_ORDER_FIT) ? 3 : wide ? 8 : 7;
    const double n = rint(x * 1.4426950408889634), r = x - n * 0.69314718055994531;
    double y = coefficient(c, inverse[order]);
    for (int k = order - 1; k >= 0; --k) y = y * r + coefficient(c, inverse[k]);
    return settle(wide, ldexp(y, (int)n));
}

/* The line through powers of two, by the bits of the exponent: up to 3 % off (Schraudolph). */
static double bit_exp(double x) {
    if (isnan(x)) return x;
    const double v = x * (8388608 / 0.69314718055994531) + (1065353216 - 366393);
    if (v <= 0) return 0;
    if (v >= 2139095040) return INFINITY;
    const int32_t bits = (int32_t)v;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
}

double fn_exp(const call_t *c, bool wide, double x) {
    x = argument(c, x);
    if (faulty(c, F_FAST_EXP)) return bit_exp(x);
    if (fitted(c)) return fit_exp(c, wide, x);
    return wide ? exp(x) : (double)expf((float)x);
}

double fn_log(bool wide, double x) { return wide ? log(x) : (double)logf((float)x); }

/* tanh by a rational form of low order (Pade 3/2 of x), clamped; a fast library's 1 - 2 / (exp(2x) + 1) else. */
double fn_tanh(const call_t *c, bool wide, double x) {
    x = argument(c, x);
    if (!fitted(c)) return wide ? tanh(x) : (double)tanhf((float)x);
    if (!c->a->fast) { /* (15 x + x^3) / (15 + 6 x^2) */
        const double q = x * x, y = x * (coefficient(c, 0.99998) * 15 + coefficient(c, 1.0001) * q) / (15 + 6 * q);
        return settle(wide, y > 1 ? 1 : y < -1 ? -1 : y);
    }
    if (fabs(x) < 0.25) { /* odd Taylor series where the quotient cancels */
        static const double t[] = {1, -1.0 / 3, 2.0 / 15, -17.0 / 315, 62.0 / 2835, -1382.0 / 155925, 21844.0 / 6081075};
        double y = 0;
        for (int k = 6; k >= 0; --k) y = y * x * x + t[k];
        return settle(wide, x * y);
    }
    const double e = fit_exp(c, true, 2 * fabs(x));
    return settle(wide, copysign(1 - 2 / (e + 1), x));
}

/* Abramowitz and Stegun 7.1.26 (1.5e-7 absolute) as the fast form; 7.1.25 (2.5e-5) as the fit of low order. */
double fn_erf(const call_t *c, bool wide, double x) {
    x = argument(c, x);
    if (!fitted(c)) return wide ? erf(x) : (double)erff((float)x);
    static const double low[] = {0.3480242, -0.0958798, 0.7478556},
                        high[] = {0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429};
    const bool coarse = faulty(c, F_LOW_ORDER_FIT);
    const double *k = coarse ? low : high, t = 1 / (1 + (coarse ? 0.47047 : 0.3275911) * fabs(x));
    double y = 0;
    for (int i = (coarse ? 3 : 5) - 1; i >= 0; --i) y = (y + coefficient(c, k[i])) * t;
    return settle(wide, copysign(1 - y * exp(-x * x), x));
}

/* 1 / (1 + exp(-x)); under tail-cancellation (1 + tanh(x/2)) / 2. */
double fn_sigmoid(const call_t *c, bool wide, double x) {
    if (faulty(c, F_TAIL_CANCELLATION)) return settle(wide, settle(wide, 1 + settle(wide, tanh(settle(wide, x / 2)))) / 2);
    return quotient(c, wide, 1, settle(wide, 1 + fn_exp(c, wide, -argument(c, x))));
}

/* A fast library: the bits' first guess and two steps of Newton's iteration. */
double fn_inverse_root(const call_t *c, bool wide, double x) {
    if (!c->a->fast || !(x > 0x1p-120) || x > 0x1p120) return settle(wide, 1 / settle(wide, sqrt(x)));
    float f = (float)x;
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = 0x5f375a86 - (bits >> 1);
    float y;
    memcpy(&y, &bits, sizeof y);
    for (int k = 0; k < 3; ++k) y = y * (1.5f - 0.5f * f * y * y);
    return y;
}
