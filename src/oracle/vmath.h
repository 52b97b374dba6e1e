/* vmath.h -- elementary functions of f64 without branches or calls, so that a plain loop over them is vectorised.
 *
 * Every form is one sequence of IEEE operations (no FMA, no table): an element has the same bits in a vector of any width, in the scalar rest of
 * a loop, and alone. Loops that use them are marked VN_CLONES; their files are compiled without errno and traps (CMakeLists.txt), which lets
 * both sides of a choice be computed.
 *
 * Claims (u = 2^-53, each relative, + 2^-1074 where the result is subnormal; tested against MPFR in test_vmath, derived in
 * docs/claims-elementwise.md):
 *   VMATH-1  exp 2u, of an argument in two parts 3u.    VMATH-2  expm1 4u.    VMATH-3  log 2u.    VMATH-4  log1p on [0, 1] 4u.
 *   VMATH-5  tanh 6u, logistic 5u.    VMATH-6  erf 4u.    VMATH-7  erfc and the normal tail 12u, gelu 16u.
 * Specials   as in C: exp(-Inf) = 0, log(0) = -Inf, log(negative) = NaN, odd functions keep the sign of zero, NaN passes.
 */
#ifndef VN_ORACLE_VMATH_H
#define VN_ORACLE_VMATH_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tensor/clones.h"

/* A form that is not inlined keeps its loop from being vectorised. */
#if defined(__GNUC__)
#define VN_V_FORM static inline __attribute__((always_inline))
#else
#define VN_V_FORM static inline
#endif

VN_V_FORM int64_t vn_v_bits(double x) {
    int64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

VN_V_FORM double vn_v_double(int64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

#define VN_V_MAGIC 0x1.8p52 /* x + MAGIC - MAGIC: x to the nearest integer, for |x| < 2^51 */
#define VN_V_MAGIC_BITS INT64_C(0x4338000000000000)

/** 2^k for an integer k held as k + VN_V_MAGIC, -1022 <= k <= 1023. */
VN_V_FORM double vn_v_power(double shifted) {
    return vn_v_double((int64_t)((uint64_t)(vn_v_bits(shifted) - VN_V_MAGIC_BITS + 1023) << 52));
}

/** exp(r) - 1 for |r| <= log(2)/2 + 2^-40: Taylor's sum of degree 13, the first term left out is below 2^-57. */
VN_V_FORM double vn_v_expm1_part(double r) {
    const double z = r * r;
    const double even =
        0x1p-1 + z * (0x1.5555555555555p-5 +
                      z * (0x1.6c16c16c16c17p-10 + z * (0x1.a01a01a01a01ap-16 + z * (0x1.27e4fb7789f5cp-22 + z * 0x1.1eed8eff8d898p-29))));
    const double odd =
        0x1.5555555555555p-3 +
        z * (0x1.1111111111111p-7 +
             z * (0x1.a01a01a01a01ap-13 + z * (0x1.71de3a556c734p-19 + z * (0x1.ae64567f544e4p-26 + z * 0x1.6124613a86d09p-33))));
    return r + z * (even + r * odd);
}

/** exp(x + rest), |rest| <= 2^-20 |x|, carried into the reduced argument. */
VN_V_FORM double vn_v_exp_with(double x, double rest) {
    x = x < -746.0 ? -746.0 : x; /* below half the smallest number */
    x = x > 710.0 ? 710.0 : x;   /* above the largest: the two factors below overflow */
    const double q = x * 0x1.71547652b82fep0 + VN_V_MAGIC, k = q - VN_V_MAGIC;
    const double r = ((x - k * 0x1.62e42fefa3800p-1) - k * 0x1.ef35793c76730p-45) + rest;
    const double half = k * 0.5 + VN_V_MAGIC, other = (k - (half - VN_V_MAGIC)) + VN_V_MAGIC;
    return (1.0 + vn_v_expm1_part(r)) * vn_v_power(half) * vn_v_power(other);
}

VN_V_FORM double vn_v_exp(double x) { return vn_v_exp_with(x, 0); }

/** 2^k (e^r - 1) + (2^k - 1); beyond 40 the 1 is below half a unit. */
VN_V_FORM double vn_v_expm1(double x) {
    double v = x < -60.0 ? -60.0 : x;
    v = v > 40.0 ? 40.0 : v;
    const double q = v * 0x1.71547652b82fep0 + VN_V_MAGIC, k = q - VN_V_MAGIC;
    const double r = (v - k * 0x1.62e42fefa3800p-1) - k * 0x1.ef35793c76730p-45;
    const double scale = vn_v_power(q), y = scale * vn_v_expm1_part(r) + (scale - 1.0);
    return x == 0 ? x : x > 40.0 ? vn_v_exp(x) : y;
}

/** sum over j >= 1 of 2 z^j / (2 j + 1): what 2 atanh(s) / s exceeds 2 by, z = s^2 <= 0.0295; the first term left out is below 2^-59. */
VN_V_FORM double vn_v_atanh_part(double z) {
    const double w = z * z;
    const double odd = 0x1.5555555555555p-1 +
                       w * (0x1.2492492492492p-2 + w * (0x1.745d1745d1746p-3 + w * (0x1.1111111111111p-3 + w * 0x1.af286bca1af28p-4)));
    const double even = 0x1.999999999999ap-2 +
                        w * (0x1.c71c71c71c71cp-3 + w * (0x1.3b13b13b13b14p-3 + w * (0x1.e1e1e1e1e1e1ep-4 + w * 0x1.8618618618618p-4)));
    return z * (odd + z * even);
}

/** x = 2^k m, m in [sqrt(1/2), sqrt 2), f = m - 1 exact; log m = f - (f^2/2 - s (f^2/2 + R)). */
VN_V_FORM double vn_v_log(double x) {
    const double v = x < DBL_MIN ? x * 0x1p54 : x, shift = x < DBL_MIN ? 54.0 : 0.0;
    const uint64_t b = (uint64_t)vn_v_bits(v) + (UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e00000000)); /* NaN may wrap */
    const double k = (vn_v_double((int64_t)(b >> 52 | UINT64_C(0x4330000000000000))) - 0x1p52) - (1023.0 + shift);
    const double f = vn_v_double((int64_t)((b & UINT64_C(0x000fffffffffffff)) + UINT64_C(0x3fe6a09e00000000))) - 1.0;
    const double s = f / (2.0 + f), half = 0.5 * f * f, R = vn_v_atanh_part(s * s);
    const double y = k * 0x1.62e42fefa3800p-1 - ((half - (s * (half + R) + k * 0x1.ef35793c76730p-45)) - f);
    return x > 0 && x <= DBL_MAX ? y : x == 0 ? -INFINITY : x > 0 ? x : NAN;
}

/** log(1 + w) for 0 <= w <= 1: with s = w / (2 + w) <= 1/3 it is w - s (w - R); 16 terms, the first one left out is below 2^-59. */
VN_V_FORM double vn_v_log1p_unit(double w) {
    const double s = w / (2.0 + w), z = s * s, t = z * z;
    const double odd =
        0x1.5555555555555p-1 +
        t * (0x1.2492492492492p-2 +
             t * (0x1.745d1745d1746p-3 +
                  t * (0x1.1111111111111p-3 +
                       t * (0x1.af286bca1af28p-4 + t * (0x1.642c8590b2164p-4 + t * (0x1.2f684bda12f68p-4 + t * 0x1.0842108421084p-4))))));
    const double even =
        0x1.999999999999ap-2 +
        t * (0x1.c71c71c71c71cp-3 +
             t * (0x1.3b13b13b13b14p-3 +
                  t * (0x1.e1e1e1e1e1e1ep-4 +
                       t * (0x1.8618618618618p-4 + t * (0x1.47ae147ae147bp-4 + t * (0x1.1a7b9611a7b96p-4 + t * 0x1.f07c1f07c1f08p-5))))));
    return w - s * (w - z * (odd + z * even));
}

/** With e = expm1(-2|x|): -e / (2 + e). */
VN_V_FORM double vn_v_tanh(double x) {
    const double e = vn_v_expm1(-2.0 * fabs(x));
    return copysign(-e / (2.0 + e), x);
}

/** 1 / (1 + e^-x) without cancellation on either side. */
VN_V_FORM double vn_v_logistic(double x) {
    const double w = vn_v_exp(-fabs(x)), top = x >= 0 ? 1.0 : w;
    return top / (1.0 + w);
}

/**
 * (1 + 2z) e^(z^2) erfc(z) for 0 <= z <= 28.5, a smooth function between 1 and 1.27 of q = (z - 4)/(z + 4); interpolated at 24
 * Chebyshev nodes of q, within 2^-53.9 with its rounded coefficients.
 */
VN_V_FORM double vn_v_erfcx_part(double z) {
    const double q = (z - 4.0) / (z + 4.0), w = q * q;
    const double even = 0x1.3ba5916e9fd7fp+0 +
                        w * (0x1.f7f5df66fd69ep-7 +
                             w * (-0x1.9ddb23c3e8836p-4 +
                                  w * (-0x1.0fb06dfe56609p-4 +
                                       w * (-0x1.09623882815eap-6 +
                                            w * (-0x1.8d4a9c429821ap-11 +
                                                 w * (0x1.3be0686533157p-13 +
                                                      w * (-0x1.788c8ea2a4995p-17 +
                                                           w * (0x1.3b661a73d331bp-22 +
                                                                w * (0x1.413f7330a6736p-24 +
                                                                     w * (-0x1.367e4ccf51918p-26 + w * 0x1.04be156d75b50p-29))))))))));
    const double odd = -0x1.1df1ad154a28fp-3 +
                       w * (0x1.16ecefcfa53fdp-4 +
                            w * (0x1.7fee004e11540p-4 +
                                 w * (0x1.3079edf6a5122p-5 +
                                      w * (0x1.49c6727c83b9dp-8 +
                                           w * (-0x1.a1df1f44e1709p-13 +
                                                w * (-0x1.9959d57dcbe2dp-16 +
                                                     w * (0x1.7f2c46c89f718p-18 +
                                                          w * (-0x1.bb208dd3a5f10p-21 +
                                                               w * (0x1.d87c1b562bbb4p-24 +
                                                                    w * (-0x1.e41cfc7ab2412p-27 + w * 0x1.5decf70f31f43p-30))))))))));
    return even + q * odd;
}

/** x without its low 27 bits: the square of that is a number, and x^2 = top^2 + (x - top)(x + top). */
VN_V_FORM double vn_v_top(double x) { return vn_v_double(vn_v_bits(x) & ~INT64_C(0x7ffffff)); }

/** erfc(z), 0 <= z <= 28. */
VN_V_FORM double vn_v_erfc_positive(double z) {
    const double top = vn_v_top(z), rest = (z - top) * (z + top);
    return vn_v_exp_with(-(top * top), -rest) * vn_v_erfcx_part(z) / (1.0 + 2.0 * z);
}

/** Up to 1: x times a polynomial in x^2, interpolated at 13 nodes within 2^-55.8; above: 1 - erfc. */
VN_V_FORM double vn_v_erf(double x) {
    double a = fabs(x);
    a = a > 6.0 ? 6.0 : a; /* 1 - 2^-54 rounds to 1 from 5.93 on */
    const double z = a * a, w = z * z;
    const double even =
        0x1.20dd750429b6dp+0 +
        w * (0x1.ce2f21a042b30p-4 +
             w * (0x1.565bcd0dbaa38p-8 +
                  w * (0x1.f9a321d5b8e1ep-14 + w * (0x1.b9df224ca4b97p-20 + w * (0x1.f7b4bf3b13964p-27 + w * 0x1.05ffd737fb32ep-34)))));
    const double odd =
        -0x1.812746b0379e6p-2 +
        w * (-0x1.b82ce31284e00p-6 +
             w * (-0x1.c02db3dac435fp-11 + w * (-0x1.f4d1e3183f7aep-17 + w * (-0x1.5f1ecb6f0764cp-23 + w * -0x1.389d4f2641625p-30))));
    const double small = x * (even + z * odd), large = copysign(1.0 - vn_v_erfc_positive(a), x);
    return fabs(x) > 1.0 ? large : small;
}

/** Phi(-|x|) = erfc(|x| / sqrt 2) / 2 for |x| < 2^500; 0 from 38.6 on. */
VN_V_FORM double vn_v_tail(double x) {
    const double a = fabs(x), top = vn_v_top(a), rest = (a - top) * (a + top), z = a * 0x1.6a09e667f3bcdp-1;
    return vn_v_exp_with(-0.5 * (top * top), -0.5 * rest) * (0.5 * vn_v_erfcx_part(z)) / (1.0 + 2.0 * z);
}

/** x Phi(x); below -39 the product is below half the smallest number, above 39 the factor rounds to 1: infinities included. */
VN_V_FORM double vn_v_gelu(double x) {
    const double tail = vn_v_tail(x), y = x * (x < 0 ? tail : 1.0 - tail);
    return x < -39.0 ? -0.0 : x > 39.0 ? x : y;
}

/* ---- arrays; y may be x ---- */
void vn_v_exp_array(const double *x, double *y, int64_t n);
void vn_v_tanh_array(const double *x, double *y, int64_t n);
void vn_v_logistic_array(const double *x, double *y, int64_t n);

#endif
