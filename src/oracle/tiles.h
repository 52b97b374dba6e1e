/* tiles.h -- fixed tiles of a product, and the f32 magnitude product of one tile. */
#ifndef VN_ORACLE_TILES_H
#define VN_ORACLE_TILES_H

#include <stdbool.h>
#include <stdint.h>

/** Tiles of an m by n result with k terms each. They depend on the sizes only, never on the number of threads. */
typedef struct vn_tiles {
    int64_t m, n, tm, tn, across, count;
} vn_tiles_t;
vn_tiles_t vn_tiles(int64_t m, int64_t n, int64_t k);
void vn_tile_at(const vn_tiles_t *t, int64_t index, int64_t *i, int64_t *rows, int64_t *j, int64_t *cols);

/**
 * sum[m,n] (packed) = upper bound of A B for nonnegative f32 operands, times `unscale`. part: scratch of m n floats.
 * Bound      claim GEMM-2: T <= T^/(1 - k 2^-24) per block of VN_MAG_BLOCK terms; no product is subnormal (vn_mag_fits).
 * Threads    runs on the calling one.
 */
void vn_mag_product(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, bool ta, const float *b, int64_t ldb, bool tb,
                    double unscale, float *part, double *sum);

#endif
