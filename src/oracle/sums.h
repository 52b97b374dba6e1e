/* sums.h -- sums that float64 alone would blur: compensated totals, variance of a rounded sum, and the test for sums that cannot round. */
#ifndef VN_ORACLE_SUMS_H
#define VN_ORACLE_SUMS_H

#include "tensor/clones.h"
#include "vernier/tensor.h"

/**
 * Result of a compensated sum: hi + lo is the sum with an error below 2^-100 abs + 2^-53 |lo|; hi is its rounding to f64.
 * Specials   non-finite terms: hi is NaN or the infinity that IEEE addition gives in any order, lo is 0.
 */
typedef struct vn_sum2 {
    double hi, lo;
    double abs; /* upper bound of the sum of absolute terms */
} vn_sum2_t;

vn_sum2_t vn_sum2(const double *x, int64_t n);
/** The same over elements [first, first + n) of a dense float tensor, without a plane; long sums of either kind use all threads. */
vn_sum2_t vn_sum2_of(const vn_tensor_t *t, int64_t first, int64_t n);
/** Sum of (x - mu_hi - mu_lo)^2; relative error at most 4 * 2^-53. abs = hi. */
vn_sum2_t vn_sum2_squares(const double *x, int64_t n, double mu_hi, double mu_lo);
/** Sum of |x|. */
vn_sum2_t vn_sum2_abs(const double *x, int64_t n);
/** (hi, lo) divided by an integer count: quotient as hi + lo, relative error about 2^-100. */
vn_sum2_t vn_sum2_over(vn_sum2_t s, double count);

/** Adds b to (*hi, *lo) without loss in the leading part. */
static inline void vn_two_sum_add(double *hi, double *lo, double b) {
    const double a = *hi, t = a + b, z = t - a;
    *lo += (a - (t - z)) + (b - z);
    *hi = t;
}

/**
 * Claim SUM-EXACT: if every term is a multiple of G = 2^g >= eta and abs <= 2^p G, then every partial sum of every order is a multiple of
 * G of magnitude at most 2^p G, hence a number of the format: no order rounds. True only if that is so (x finite).
 */
bool vn_sum_exact(const double *x, int64_t n, double abs, vn_format_t format);

/**
 * Variance of the rounding errors of a sum in `format` for an unknown order: the largest of sequential, reversed (each node whose result
 * is inexact gives ulp^2/12), random order (closed form, scaled by the share of inexact nodes), and where the
 * sequential or the reversed chain itself errs by more than three such deviations (few-valued data, stalling sums), that error. `sum` is the exact total.
 */
double vn_sum_variance(vn_format_t format, const double *x, int64_t n, double sum);
/** Same for a running sum: adds to out[k] the variance of the sequential prefix 0..k; exclusive prefixes are shifted by the caller. */
void vn_prefix_variance(vn_format_t format, const double *x, int64_t n, double *out);

/** 2^-p |x|-binade spacing squared over 12: the variance of one rounding of x. */
double vn_node_variance(vn_format_t format, double x);

#endif
