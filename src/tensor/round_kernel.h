/* round_kernel.h -- rounding a double to a narrower binary format, free of branches so that loops over it vectorise.
 *
 * Method     With P = 2^e the power of two of x's binade, kept inside [2^emin, 2^(emax+1)], the members of the format near x are the
 *            multiples of c = P 2^(1-p). Adding and subtracting M = 1.5 P 2^(53-p) = 1.5 2^52 c leaves the multiple of c nearest to x,
 *            ties to even: the sum lies in the binade of M, whose ulp is c, and M/c is even. The other roundings correct that result by
 *            one c where it lies on the wrong side; x - t is exact (both are multiples of ulp(x), and |x - t| <= c/2).
 * Needs      the processor's rounding mode at its default and no reassociation; both hold in this library.
 */
#ifndef VN_TENSOR_ROUND_KERNEL_H
#define VN_TENSOR_ROUND_KERNEL_H

#include <math.h>
#include <string.h>

#include "vernier/tensor.h"

/** What the kernel needs of a format. `over` replaces a result beyond max when rounding may go outward: Inf, NaN or max. */
typedef struct vn_round_spec {
    double tau, above;         /* 2^emin, 2^(emax+1) */
    double c_factor, m_factor; /* 2^(1-p), 1.5 2^(53-p) */
    double max, over;
} vn_round_spec_t;

static inline double vn_bits_f64(uint64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}
static inline uint64_t vn_f64_bits(double x) {
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

#define VN_SIGN_BIT UINT64_C(0x8000000000000000)
#define VN_EXPONENT_BITS UINT64_C(0x7ff0000000000000)

/** x rounded under `mode`; keeps NaN and the sign of zero. `mode` and the spec are to be constants of the calling loop. */
static inline double vn_round_kernel(double x, vn_rounding_t mode, const vn_round_spec_t s) {
    const uint64_t sign = vn_f64_bits(x) & VN_SIGN_BIT;
    const double a = vn_bits_f64(vn_f64_bits(x) & ~VN_SIGN_BIT);
    double b = a > s.tau ? a : s.tau; /* NaN: tau */
    b = b < s.above ? b : s.above;
    const double power = vn_bits_f64(vn_f64_bits(b) & VN_EXPONENT_BITS);
    const double c = power * s.c_factor, m = power * s.m_factor;
    double t = (a + m) - m; /* magnitude, nearest even */
    /* One step of c where the result lies on the wrong side; masked, not chosen, as a choice would keep the loop from vectorising. */
    const uint64_t above = 0 - (uint64_t)(t > a), below = 0 - (uint64_t)(t < a), negative = 0 - (sign >> 63);
    uint64_t up = 0, down = 0;
    if (mode == VN_RNA) up = 0 - (uint64_t)(a - t == 0.5 * c);
    if (mode == VN_RZ) down = above;
    if (mode == VN_RU) up = below & ~negative, down = above & negative;
    if (mode == VN_RD) up = below & negative, down = above & ~negative;
    if (mode != VN_RNE) t += vn_bits_f64(vn_f64_bits(c) & up) - vn_bits_f64(vn_f64_bits(c) & down);
    /* A finite x whose rounding points inward stops at max; an infinite one stays beyond it. */
    const bool inward = mode == VN_RZ || (mode == VN_RU && sign) || (mode == VN_RD && !sign);
    const double edge = inward && a < INFINITY ? s.max : s.over;
    t = t > s.max ? edge : t;
    return vn_bits_f64(vn_f64_bits(t) | sign);
}

/** The spec of a format that has a NaN-free magnitude path: every one but f64, f8e8m0. Defined in format.c. */
vn_round_spec_t vn_round_spec(vn_format_t f, bool saturate);

/** vn_round_to over an array, from src to dst (which may be the same). Vectorised for f32, tf32, bf16, f16. Defined in round_bulk.c. */
void vn_round_bulk(vn_format_t f, vn_rounding_t r, bool saturate, const double *src, double *dst, int64_t n);

#endif
