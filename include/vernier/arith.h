/* vernier/arith.h -- software arithmetics: rounding to formats, the fused dot-adds of matrix units, staged prefix scans. */
#ifndef VERNIER_ARITH_H
#define VERNIER_ARITH_H

#include "vernier/base.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rounds x[0..n) in place to format f under r (no saturation). Vectorised for f32, tf32, bf16, f16. */
VN_API void vn_round_array(vn_format_t f, vn_rounding_t r, double *x, int64_t n);

/* ---- fused dot-adds (claim ARITHM-1) ---- */

/** How the products of a fused sum and the running value come together. */
typedef enum vn_fused_form {
    VN_FUSED_GROUPS, /* groups of `group` products and the running value, one after the other */
    VN_FUSED_SPLIT2  /* 32 products as two groups of 16, by bit 1 of their index, from zero; c is added last, to nearest */
} vn_fused_form_t;

/**
 * One matrix instruction. For a group: E = largest exponent (floor log2 of the operands added, not renormalised; subnormals keep emin), q =
 * 2^(E - bits); every addend is cut to a multiple of q toward zero, the sum is exact, and rounded once.
 * final      VN_RZ with f32: the result's low bits are cut; kept_bits < 23: only so many fraction bits stay (E8M13: 13). VN_RNE with f16.
 * Specials   a NaN operand, infinity times zero and infinities of both signs give NaN, else an infinite addend its infinity. A result beyond the
 *            format is infinite. Zero products do not take part in E.
 * Source     tests/data/schedule/tensor_core_configs.tsv; measured by others on real devices, see the licence beside it.
 */
typedef struct vn_fused_unit {
    const char *device; /* "A100" */
    vn_format_t in, out;
    int products; /* of one instruction as it was measured */
    int group, bits;
    int kept_bits;
    vn_rounding_t final;
    vn_fused_form_t form;
} vn_fused_unit_t;
/** The table. Returns how many. */
VN_API int vn_fused_units(const vn_fused_unit_t **out);
VN_API const vn_fused_unit_t *vn_fused_unit(const char *device, vn_format_t in, vn_format_t out); /* NULL: none */

/**
 * out[j] = c[j] + sum of a[i] * b[i*ld + j], i < n, j < columns, in the unit's arithmetic; groups chain in the order of i. out may be c.
 * Units      values of the unit's formats held in doubles; n a multiple of 32 for SPLIT2 (USAGE), any n otherwise (a short last group).
 * Threads    none shared. Vectorised over columns.
 */
VN_API vn_status_t vn_fused_dot(const vn_fused_unit_t *u, int64_t n, int64_t columns, const double *a, const double *b, int64_t ld,
                                const double *c, double *out, vn_error_t *err);

/* ---- staged prefix scan of one block (claim ARITHM-2) ---- */

/**
 * Prefix sums of one row in f32 by the one-block schedule: 4 neighbours a thread in order, threads of a warp of 32 by doubling offsets, warp totals
 * the same way, and ((value + carry) + warp) + thread. 1 <= width <= 4096. carry: 0 for the first block; it is added even then, so -0 becomes +0.
 */
VN_API vn_status_t vn_scan_staged(const float *x, int64_t width, float carry, float *out, vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
