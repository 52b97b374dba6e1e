/* round_bulk.c -- rounding arrays of doubles to a format: one loop per rounding, the format's numbers held in registers. */
#include "tensor/clones.h"
#include "tensor/round_kernel.h"

#define ROUND_LOOP(name, mode)                                                                       \
    VN_CLONES static void name(const vn_round_spec_t s, const double *src, double *dst, int64_t n) { \
        for (int64_t i = 0; i < n; ++i) dst[i] = vn_round_kernel(src[i], mode, s);                   \
    }
ROUND_LOOP(round_rne, VN_RNE)
ROUND_LOOP(round_rna, VN_RNA)
ROUND_LOOP(round_rz, VN_RZ)
ROUND_LOOP(round_ru, VN_RU)
ROUND_LOOP(round_rd, VN_RD)

/* The processor's own conversion is round to nearest even with gradual underflow and overflow to Inf. */
VN_CLONES static void round_f32_rne(const double *src, double *dst, int64_t n) {
    for (int64_t i = 0; i < n; ++i) dst[i] = (double)(float)src[i];
}

void vn_round_bulk(vn_format_t f, vn_rounding_t r, bool saturate, const double *src, double *dst, int64_t n) {
    static void (*const loops[])(const vn_round_spec_t, const double *, double *, int64_t) = {
        [VN_RNE] = round_rne, [VN_RNA] = round_rna, [VN_RZ] = round_rz, [VN_RU] = round_ru, [VN_RD] = round_rd,
    };
    const vn_format_info_t *info = vn_format_info(f);
    if (!info || n <= 0) {
        if (n > 0 && src != dst) memcpy(dst, src, (size_t)n * sizeof *dst);
        return;
    }
    if (f == VN_FMT_F64 || f == VN_FMT_F8E8M0) {
        for (int64_t i = 0; i < n; ++i) dst[i] = vn_round_to(f, src[i], r, saturate);
        return;
    }
    if (f == VN_FMT_F32 && r == VN_RNE && !saturate) {
        round_f32_rne(src, dst, n);
        return;
    }
    loops[r](vn_round_spec(f, saturate), src, dst, n);
    if (!info->has_negative_zero)
        for (int64_t i = 0; i < n; ++i) dst[i] += 0.0; /* -0 + 0 = +0 */
}
