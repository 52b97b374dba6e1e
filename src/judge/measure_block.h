/* measure_block.h -- the common case of measure.c, vectorised: blocks whose elements are finite and inside their bound. */
#ifndef VN_JUDGE_MEASURE_BLOCK_H
#define VN_JUDGE_MEASURE_BLOCK_H

#include "judge/ladder.h"

/** Elements of a block. Sums are formed in fixed lanes, so neither threads nor vector width change a bit. */
enum { VN_BLOCK = 512 };

/** Elements [begin, begin + n) of a contiguous tensor as doubles. Not for strings and complex numbers. n <= VN_BLOCK. */
void vn_block_load(const vn_tensor_t *t, int64_t begin, int64_t n, double *out);

/**
 * Adds the n elements from `begin` to m if all are simple: finite on both sides, and equal or inside bound + own. n <= VN_BLOCK.
 * x: those elements of `actual` as doubles, then zeros up to VN_BLOCK. False: nothing was added, the elements must be looked at one by one.
 */
bool vn_block_measure(const vn_ref_t *ref, const vn_tensor_t *actual, int64_t begin, int64_t n, const double *x, vn_measure_t *m);

#endif
