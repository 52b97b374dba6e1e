/* vdd.h -- elementary functions of double-double numbers without branches or calls, for loops that are vectorised (see vmath.h).
 *
 * Claims (v = 2^-53, relative; tested against MPFR in test_vdd, derived in docs/claims-elementwise.md):
 *   VDD-1  exp and expm1 of arguments in [-600, 0.3] within 64 v^2 = 2^-100.    VDD-2  logistic within 128 v^2 = 2^-99 for |x| <= 600.
 *   VDD-3  tanh within 256 v^2 = 2^-98 for 2^-400 <= |x|, and 0 of 0.
 * Specials   arguments below -600 count as -600: exp, and the logistic of negative numbers, are then wrong by at most 2^-865. NaN passes.
 */
#ifndef VN_ORACLE_VDD_H
#define VN_ORACLE_VDD_H

#include "oracle/dd.h"
#include "oracle/vmath.h"

#define VN_VDD_EXP_U 0x1p-100
#define VN_VDD_LOGISTIC_U 0x1p-99
#define VN_VDD_TANH_U 0x1p-98
#define VN_VDD_TINY 0x1p-865

/** a + b of a double-double and a number. */
VN_DD_FORM vn_dd_t vn_vdd_add_number(vn_dd_t a, double b) { return vn_dd_add(a, (vn_dd_t){b, 0}); }

/** e^s - 1 -> e^2s - 1. */
VN_DD_FORM vn_dd_t vn_vdd_doubled(vn_dd_t p) { return vn_dd_add((vn_dd_t){2 * p.hi, 2 * p.lo}, vn_dd_mul(p, p)); }

/**
 * exp(r) - 1 for |r| <= 0.36: eight times doubled from s = r / 256 by p -> 2 p + p^2. Taylor's sum to s^10; the terms from s^6 on are below
 * 2^-56 of the result, so that a number holds them.
 */
VN_DD_FORM vn_dd_t vn_vdd_expm1_part(vn_dd_t r) {
    const vn_dd_t s = {r.hi * 0x1p-8, r.lo * 0x1p-8};
    const double x = s.hi;
    const double far =
        x * (0x1.6c16c16c16c17p-10 +
             x * (0x1.a01a01a01a01ap-13 + x * (0x1.a01a01a01a01ap-16 + x * (0x1.71de3a556c734p-19 + x * 0x1.27e4fb7789f5cp-22))));
    vn_dd_t p = vn_vdd_add_number((vn_dd_t){0x1.1111111111111p-7, 0x1.1111111111111p-63}, far);
    p = vn_dd_add(vn_dd_mul(p, s), (vn_dd_t){0x1.5555555555555p-5, 0x1.5555555555555p-59});
    p = vn_dd_add(vn_dd_mul(p, s), (vn_dd_t){0x1.5555555555555p-3, 0x1.5555555555555p-57});
    p = vn_vdd_add_number(vn_dd_mul(p, s), 0.5);
    p = vn_dd_add(vn_dd_mul(p, vn_dd_mul(s, s)), s);
    p = vn_vdd_doubled(vn_vdd_doubled(vn_vdd_doubled(vn_vdd_doubled(p)))); /* no loop: loops around it would not be vectorised */
    return vn_vdd_doubled(vn_vdd_doubled(vn_vdd_doubled(vn_vdd_doubled(p))));
}

/** x = k log 2 + r, |r| <= 0.35; k as in vn_v_power, in *shifted. Log 2 in 32 bits, whose product with k is a number, and a double-double. */
VN_DD_FORM vn_dd_t vn_vdd_reduced(vn_dd_t x, double *shifted) {
    const double q = x.hi * 0x1.71547652b82fep0 + VN_V_MAGIC, k = q - VN_V_MAGIC;
    const vn_dd_t first = vn_vdd_add_number(x, -k * 0x1.62e42fee00000p-1);
    *shifted = q;
    return vn_dd_add(first, vn_dd_mul((vn_dd_t){0x1.a39ef35793c76p-33, 0x1.cc01f97b57a08p-87}, (vn_dd_t){-k, 0}));
}

VN_DD_FORM vn_dd_t vn_vdd_floored(vn_dd_t x) { return (vn_dd_t){x.hi < -600.0 ? -600.0 : x.hi, x.hi < -600.0 ? 0.0 : x.lo}; }

/** x <= 0.3. */
VN_DD_FORM vn_dd_t vn_vdd_exp(vn_dd_t x) {
    double q;
    const vn_dd_t p = vn_vdd_add_number(vn_vdd_expm1_part(vn_vdd_reduced(vn_vdd_floored(x), &q)), 1.0);
    const double scale = vn_v_power(q);
    return (vn_dd_t){p.hi * scale, p.lo * scale};
}

/** 2^k (e^r - 1) + (2^k - 1); x <= 0.3, so that the second part is a number within 2^-1074. */
VN_DD_FORM vn_dd_t vn_vdd_expm1(vn_dd_t x) {
    double q, rest;
    const vn_dd_t p = vn_vdd_expm1_part(vn_vdd_reduced(vn_vdd_floored(x), &q));
    const double scale = vn_v_power(q), top = vn_dd_two_sum(scale, -1.0, &rest);
    return vn_dd_add((vn_dd_t){p.hi * scale, p.lo * scale}, (vn_dd_t){top, rest});
}

/** w = exp(-|x|): 1 / (1 + w), or w / (1 + w). */
VN_DD_FORM vn_dd_t vn_vdd_logistic(vn_dd_t x) {
    const vn_dd_t w = vn_vdd_exp((vn_dd_t){x.hi > 0 ? -x.hi : x.hi, x.hi > 0 ? -x.lo : x.lo});
    const vn_dd_t top = {x.hi > 0 ? 1.0 : w.hi, x.hi > 0 ? 0.0 : w.lo};
    return vn_dd_div(top, vn_vdd_add_number(w, 1.0));
}

/** e = expm1(-2|x|): -e / (2 + e). */
VN_DD_FORM vn_dd_t vn_vdd_tanh(vn_dd_t x) {
    const double sign = x.hi > 0 ? -2.0 : 2.0;
    const vn_dd_t e = vn_vdd_expm1((vn_dd_t){x.hi * sign, x.lo * sign});
    const vn_dd_t y = vn_dd_div(vn_dd_neg(e), vn_vdd_add_number(e, 2.0));
    return (vn_dd_t){x.hi > 0 ? y.hi : -y.hi, x.hi > 0 ? y.lo : -y.lo};
}

#endif
