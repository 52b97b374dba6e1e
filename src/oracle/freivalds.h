/* freivalds.h -- does C = op(A) op(B) hold? Asked of every product that a BLAS library computed. */
#ifndef VN_ORACLE_FREIVALDS_H
#define VN_ORACLE_FREIVALDS_H

#include <stdbool.h>
#include <stdint.h>

/**
 * Compares C r with A (B r) for one vector r of random signs (Freivalds), element by element, within the rounding errors of all four
 * products (claim GEMM-4): a correct product never fails, in any order of summation, fused or not.
 * Shapes     as vn_dgemm_tile.
 * Bound      a row that holds an error larger than twice its tolerance is seen with probability at least 1/2; a wrong kernel is wrong in
 *            many tiles. The signs depend on the shape only: results are the same for every number of threads.
 * Specials   rows that operands or magnitudes make infinite or NaN are not judged.
 * Errors     false also when there is no memory: the caller computes the product by its own kernel.
 */
bool vn_plausible_dgemm(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb,
                        const double *c, int64_t ldc);
bool vn_plausible_sgemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, bool ta, const float *b, int64_t ldb, bool tb,
                        const float *c, int64_t ldc);

#endif
