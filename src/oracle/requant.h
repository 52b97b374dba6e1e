/* requant.h -- one integer code from a real value, and the second code that rounding within a window may give. */
#ifndef VN_ORACLE_REQUANT_H
#define VN_ORACLE_REQUANT_H

#include <math.h>

#include "vernier/tensor.h"

/** Smallest and largest code of an integer type of at most 32 bits. */
static inline void vn_code_range(vn_dtype_t t, double *lo, double *hi) {
    const int bits = vn_dtype_bits(t);
    const bool is_signed = vn_dtype_kind(t) == VN_KIND_SIGNED;
    *lo = is_signed ? -ldexp(1, bits - 1) : 0;
    *hi = ldexp(1, is_signed ? bits - 1 : bits) - 1;
}

/**
 * Claim REQUANT-1 (bounds.md, requantise): the computed value lies within `window` of v, so the code is round(v) + zero unless a tie lies in
 * the window; then its other neighbour is as good. Rounding ties either way is inside the window.
 */
static inline void vn_requant(double v, double window, double zero, double lo, double hi, double *code, double *other) {
    const double down = rint(v - window), up = rint(v + window), near = rint(v);
    const double second = near == down ? up : down;
    *code = fmin(fmax(near + zero, lo), hi);
    *other = fmin(fmax(second + zero, lo), hi);
    if (isnan(v)) *code = *other = fmin(fmax(zero, lo), hi);
}

#endif
