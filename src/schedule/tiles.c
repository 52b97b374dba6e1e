/* tiles.c -- the inner loop of a replayed product: a chain of eight rows at once, a few columns wide, so that running values stay in registers. */
#include <math.h>
#include <string.h>

#include "schedule/program.h"

#if defined(__x86_64__) && defined(__has_attribute) && !defined(VN_SANITIZE) && !defined(__SANITIZE_ADDRESS__)
#if __has_attribute(target_clones)
#define NARROW_TARGETS __attribute__((target_clones("default", "fma")))
#define WIDE_TARGET __attribute__((target("avx512f")))
#endif
#endif
#ifndef NARROW_TARGETS
#define NARROW_TARGETS
#endif

enum { W = VN_BLOCK_WIDTH, R = VN_BLOCK_ROWS };

/* Each running value has its additions in the order of the terms, one IEEE operation a step: how many stand side by side changes no bit.
 * COLUMNS is one vector of the target: then each array is one register. */
#define STEP(k) sum##k[c] = ADD(factor##k, y, sum##k[c])
#define LOAD(k) memcpy(sum##k, acc + k * W + from, sizeof sum##k)
#define KEEP(k) memcpy(acc + k * W + from, sum##k, sizeof sum##k)
#define TILE(name, attributes, COLUMNS)                                                                                           \
    attributes static void name(float *restrict acc, const float *const *a, const float *restrict b, int32_t leaf, int32_t count, \
                                int32_t stride) {                                                                                 \
        for (int from = 0; from < W; from += COLUMNS) {                                                                           \
            float sum0[COLUMNS], sum1[COLUMNS], sum2[COLUMNS], sum3[COLUMNS];                                                     \
            float sum4[COLUMNS], sum5[COLUMNS], sum6[COLUMNS], sum7[COLUMNS];                                                     \
            LOAD(0), LOAD(1), LOAD(2), LOAD(3), LOAD(4), LOAD(5), LOAD(6), LOAD(7);                                               \
            int32_t k = leaf;                                                                                                     \
            for (int32_t m = 0; m < count; ++m, k += stride) {                                                                    \
                const float *row = b + (int64_t)k * W + from;                                                                     \
                const float factor0 = a[0][k], factor1 = a[1][k], factor2 = a[2][k], factor3 = a[3][k];                           \
                const float factor4 = a[4][k], factor5 = a[5][k], factor6 = a[6][k], factor7 = a[7][k];                           \
                for (int c = 0; c < COLUMNS; ++c) {                                                                               \
                    const float y = row[c];                                                                                       \
                    STEP(0), STEP(1), STEP(2), STEP(3), STEP(4), STEP(5), STEP(6), STEP(7);                                       \
                }                                                                                                                 \
            }                                                                                                                     \
            KEEP(0), KEEP(1), KEEP(2), KEEP(3), KEEP(4), KEEP(5), KEEP(6), KEEP(7);                                               \
        }                                                                                                                         \
    }
_Static_assert(R == 8, "the tiles have eight rows");

/* The build contracts nothing (-ffp-contract=off): the product is rounded. */
#define ADD(x, y, s) ((s) + (x) * (y))
TILE(rounded_narrow, NARROW_TARGETS, 8)
#ifdef WIDE_TARGET
TILE(rounded_wide, WIDE_TARGET, 16)
#endif
#undef ADD
#define ADD(x, y, s) __builtin_fmaf(x, y, s)
TILE(fused_narrow, NARROW_TARGETS, 8)
#ifdef WIDE_TARGET
TILE(fused_wide, WIDE_TARGET, 16)
#endif

void vn_chain_tile(float *acc, const float *const *a, const float *b, const vn_program_step_t *s) {
#ifdef WIDE_TARGET
    if (__builtin_cpu_supports("avx512f")) {
        (s->fused ? fused_wide : rounded_wide)(acc, a, b, s->leaf, s->count, s->stride);
        return;
    }
#endif
    (s->fused ? fused_narrow : rounded_narrow)(acc, a, b, s->leaf, s->count, s->stride);
}
