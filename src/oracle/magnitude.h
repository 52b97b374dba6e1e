/* magnitude.h -- what a product must know about the size of its operands: extents, common grids, and rounded-up f32 magnitudes. */
#ifndef VN_ORACLE_MAGNITUDE_H
#define VN_ORACLE_MAGNITUDE_H

#include <stdbool.h>
#include <stdint.h>

#include "vernier/base.h"

typedef struct vn_extent {
    double max;     /* largest finite magnitude, 0 if there is none */
    double min;     /* smallest nonzero finite magnitude, +Inf if there is none */
    bool nonfinite; /* some element is NaN or infinite */
} vn_extent_t;

/** Threads: splits the array; the result does not depend on their number. */
vn_extent_t vn_extent(const double *x, int64_t n);
/**
 * The largest power of two of which every finite element is a multiple; 0 when the array is no small grid: some element needs more
 * than `bits` bits above it, so that no sum of products could profit. All zero: 2^1000.
 */
double vn_grid(const double *x, int64_t n, int bits);

/** Terms of one f32 partial product; longer sums are split and added in f64. */
enum { VN_MAG_BLOCK = 1 << 16 };
/** Power of two that brings the largest magnitude of an operand near 2^54: block sums of products stay below 2^127. */
double vn_mag_scale(const vn_extent_t *e);
/** Same for squares, near 2^26. */
double vn_sq_scale(const vn_extent_t *e);
/** True if no product of scaled magnitudes (squares) of the two operands leaves the normal range of f32. */
bool vn_mag_fits(const vn_extent_t *a, const vn_extent_t *b);
bool vn_sq_fits(const vn_extent_t *a, const vn_extent_t *b);
/** out[i] = |x[i]| scale rounded up to f32 (x finite). */
void vn_mag_f32(const double *x, int64_t n, double scale, float *out);
/** Both at once: mag as above, sq[i] = (x[i] sq_scale)^2 rounded to nearest; either may be NULL. */
void vn_mag_sq_f32(const double *x, int64_t n, double mag_scale, float *mag, double sq_scale, float *sq);
/** The same for operands that are f32 as they stand: half the memory to read. */
vn_extent_t vn_extent_f32(const float *x, int64_t n);
void vn_mag_sq_of_f32(const float *x, int64_t n, double mag_scale, float *mag, double sq_scale, float *sq);

/** What each term may have lost to underflow in f64: 0 if no product of nonzero operands can be subnormal. */
static inline double vn_mag_lost(const vn_extent_t *a, const vn_extent_t *b) { return a->min * b->min >= 0x1p-1022 ? 0 : 0x1p-1074; }

/** Factor that turns a computed f32 sum of k <= VN_MAG_BLOCK nonnegative products into an upper bound (bounds.md A.10). */
static inline double vn_mag_up(int64_t k) { return 1 / (1 - (double)k * 0x1p-24) * (1 + 0x1p-50); }

#endif
