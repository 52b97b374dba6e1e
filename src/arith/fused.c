/* fused.c -- fused dot-adds: what a matrix unit does with a group of products and its running value.
 *
 * Claim ARITHM-1. Method: operands have at most 11 significant bits (24 for the running value), so products are exact in double. All addends are
 * scaled by 2^(bits - E), cut by trunc, and added: whole numbers below 2^(bits + 2 + log2(33)) <= 2^33, exact in double. The sum is scaled
 * back and rounded once. Branches are per column only where a value is infinite or NaN.
 */
#include <math.h>
#include <string.h>

#include "tensor/clones.h"
#include "vernier/arith.h"

static const vn_fused_unit_t units[] = {
    {"V100", VN_FMT_F16, VN_FMT_F32, 4, 4, 23, 23, VN_RZ, VN_FUSED_GROUPS},
    {"V100", VN_FMT_F16, VN_FMT_F16, 4, 4, 23, 10, VN_RNE, VN_FUSED_GROUPS},
    {"A100", VN_FMT_F16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"A100", VN_FMT_F16, VN_FMT_F16, 8, 8, 24, 10, VN_RNE, VN_FUSED_GROUPS},
    {"A100", VN_FMT_BF16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"A100", VN_FMT_TF32, VN_FMT_F32, 4, 4, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"A2", VN_FMT_F16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"A2", VN_FMT_F16, VN_FMT_F16, 8, 8, 24, 10, VN_RNE, VN_FUSED_GROUPS},
    {"A2", VN_FMT_BF16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"A2", VN_FMT_TF32, VN_FMT_F32, 4, 4, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_F16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_F16, VN_FMT_F16, 8, 8, 24, 10, VN_RNE, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_BF16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_TF32, VN_FMT_F32, 4, 4, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_F8E5M2, VN_FMT_F32, 32, 16, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_F8E5M2, VN_FMT_F16, 32, 16, 13, 10, VN_RNE, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_F8E4M3FN, VN_FMT_F32, 32, 16, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"Ada", VN_FMT_F8E4M3FN, VN_FMT_F16, 32, 16, 13, 10, VN_RNE, VN_FUSED_GROUPS},
    {"L40S", VN_FMT_F16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"L40S", VN_FMT_F16, VN_FMT_F16, 8, 8, 24, 10, VN_RNE, VN_FUSED_GROUPS},
    {"L40S", VN_FMT_BF16, VN_FMT_F32, 8, 8, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"L40S", VN_FMT_TF32, VN_FMT_F32, 4, 4, 24, 23, VN_RZ, VN_FUSED_GROUPS},
    {"L40S", VN_FMT_F8E5M2, VN_FMT_F32, 32, 16, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"L40S", VN_FMT_F8E4M3FN, VN_FMT_F32, 32, 16, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"H100", VN_FMT_F16, VN_FMT_F32, 16, 16, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"H100", VN_FMT_F16, VN_FMT_F16, 16, 16, 25, 10, VN_RNE, VN_FUSED_GROUPS},
    {"H100", VN_FMT_BF16, VN_FMT_F32, 16, 16, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"H100", VN_FMT_TF32, VN_FMT_F32, 4, 8, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"H100", VN_FMT_F8E5M2, VN_FMT_F32, 32, 32, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"H100", VN_FMT_F8E5M2, VN_FMT_F16, 32, 16, 25, 10, VN_RNE, VN_FUSED_SPLIT2},
    {"H100", VN_FMT_F8E4M3FN, VN_FMT_F32, 32, 32, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"H100", VN_FMT_F8E4M3FN, VN_FMT_F16, 32, 16, 25, 10, VN_RNE, VN_FUSED_SPLIT2},
    {"H200", VN_FMT_F16, VN_FMT_F32, 16, 16, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"H200", VN_FMT_F16, VN_FMT_F16, 16, 16, 25, 10, VN_RNE, VN_FUSED_GROUPS},
    {"H200", VN_FMT_BF16, VN_FMT_F32, 16, 16, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"H200", VN_FMT_TF32, VN_FMT_F32, 4, 8, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"H200", VN_FMT_F8E5M2, VN_FMT_F32, 32, 32, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"H200", VN_FMT_F8E5M2, VN_FMT_F16, 32, 16, 25, 10, VN_RNE, VN_FUSED_SPLIT2},
    {"H200", VN_FMT_F8E4M3FN, VN_FMT_F32, 32, 32, 13, 13, VN_RZ, VN_FUSED_GROUPS},
    {"H200", VN_FMT_F8E4M3FN, VN_FMT_F16, 32, 16, 25, 10, VN_RNE, VN_FUSED_SPLIT2},
    {"B200", VN_FMT_F16, VN_FMT_F32, 16, 16, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"B200", VN_FMT_F16, VN_FMT_F16, 16, 16, 25, 10, VN_RNE, VN_FUSED_GROUPS},
    {"B200", VN_FMT_BF16, VN_FMT_F32, 16, 16, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"B200", VN_FMT_TF32, VN_FMT_F32, 4, 8, 25, 23, VN_RZ, VN_FUSED_GROUPS},
    {"B200", VN_FMT_F8E5M2, VN_FMT_F32, 32, 16, 25, 23, VN_RZ, VN_FUSED_SPLIT2},
    {"B200", VN_FMT_F8E5M2, VN_FMT_F16, 32, 16, 25, 10, VN_RNE, VN_FUSED_SPLIT2},
    {"B200", VN_FMT_F8E4M3FN, VN_FMT_F32, 32, 16, 25, 23, VN_RZ, VN_FUSED_SPLIT2},
    {"B200", VN_FMT_F8E4M3FN, VN_FMT_F16, 32, 16, 25, 10, VN_RNE, VN_FUSED_SPLIT2},
};

int vn_fused_units(const vn_fused_unit_t **out) {
    *out = units;
    return (int)(sizeof units / sizeof *units);
}

const vn_fused_unit_t *vn_fused_unit(const char *device, vn_format_t in, vn_format_t out) {
    for (size_t k = 0; k < sizeof units / sizeof *units; ++k)
        if (units[k].in == in && units[k].out == out && strcmp(units[k].device, device) == 0) return &units[k];
    return NULL;
}

/* ---- a group over a strip of columns ---- */

enum { STRIP = 32, GROUP_MOST = 32, NOTHING = -4096 };

/* floor(log2|x|) of a member of a format with smallest normal exponent emin; zero: NOTHING. */
static inline int64_t exponent(double x, int64_t emin) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int64_t e = (int64_t)(bits >> 52 & 0x7ff) - 1023;
    return x == 0 ? NOTHING : e < emin ? emin : e;
}

static inline double power(int64_t e) {
    const uint64_t bits = (uint64_t)(e + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* total[j]: the exact sum in units of 2^(largest[j] - bits); largest NOTHING: all addends are zero. */
VN_CLONES
static void group_sum(int n, const double *a, const double *b, int64_t ld, const double *c, int64_t emin, int64_t bits, double *total,
                      int64_t *largest) {
    for (int j = 0; j < STRIP; ++j) largest[j] = exponent(c[j], -126);
    for (int i = 0; i < n; ++i) {
        const int64_t ea = exponent(a[i], emin);
        for (int j = 0; j < STRIP; ++j) {
            const int64_t e = ea + exponent(b[i * ld + j], emin);
            largest[j] = e > largest[j] ? e : largest[j];
        }
    }
    double scale[STRIP];
    for (int j = 0; j < STRIP; ++j) {
        scale[j] = power(bits - (largest[j] < -900 ? -900 : largest[j]));
        total[j] = trunc(c[j] * scale[j]);
    }
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < STRIP; ++j) total[j] += trunc(a[i] * b[i * ld + j] * scale[j]);
}

/* One rounding of total 2^(largest - bits). */
static double finish(const vn_fused_unit_t *u, double total, int64_t largest, vn_format_t out, vn_rounding_t rounding, int kept) {
    if (total == 0) return 0;
    const double x = ldexp(total, (int)(largest - u->bits));
    if (kept >= vn_format_info(out)->p - 1) {
        const double y = vn_round_to(out, x, rounding, false);
        /* cut results beyond the largest number are infinite: the overflow is seen after normalisation */
        return rounding == VN_RZ && fabs(x) >= 2 * power(vn_format_info(out)->emax) ? copysign(INFINITY, x) : y;
    }
    const double ulp = ldexp(vn_ulp(out, x), vn_format_info(out)->p - 1 - kept);
    if (fabs(x) >= 2 * power(vn_format_info(out)->emax)) return copysign(INFINITY, x);
    return trunc(x / ulp) * ulp;
}

/* A column with a NaN or an infinity among its addends. */
static bool special(int n, const double *a, const double *b, int64_t ld, double c, double *out) {
    double sum = c;
    bool any = !isfinite(c);
    for (int i = 0; i < n; ++i) {
        const double p = a[i] * b[i * ld];
        any |= !isfinite(p);
        if (!isfinite(p)) sum += p; /* finite addends do not change what infinities and NaN give */
    }
    if (any) *out = isfinite(sum) ? c : sum;
    return any;
}

/* The common case for a whole strip: finite addends, a result that is cut and normal. slow[j]: the column needs the careful path. */
VN_CLONES
static void finish_cut(int64_t bits, int kept, const double *total, const int64_t *largest, double *out, int64_t *slow) {
    const uint64_t mask = ~(((uint64_t)1 << (52 - kept)) - 1);
    for (int j = 0; j < STRIP; ++j) {
        uint64_t cut;
        double x;
        memcpy(&cut, &total[j], sizeof cut);
        const int64_t e = (int64_t)(cut >> 52 & 0x7ff) - 1023 + largest[j] - bits; /* of the result */
        cut &= mask;
        memcpy(&x, &cut, sizeof x);
        const int64_t shift = largest[j] - bits < -1000 ? -1000 : largest[j] - bits > 1000 ? 1000 : largest[j] - bits;
        out[j] = total[j] == 0 ? 0 : x * power(shift);
        /* infinities have the exponent 1024, and a NaN among the products makes the total one */
        slow[j] = (total[j] != 0) & ((e < -126) | (e > 127) | (largest[j] > 900) | !(total[j] == total[j]));
    }
}

/* out[0..STRIP) = one group on top of c. */
static void one_group(const vn_fused_unit_t *u, int n, const double *a, const double *b, int64_t ld, const double *c, int width,
                      double *out) {
    double total[STRIP], result[STRIP];
    int64_t largest[STRIP], slow[STRIP];
    const int64_t emin = vn_format_info(u->in)->emin;
    group_sum(n, a, b, ld, c, emin, u->bits, total, largest);
    if (u->final == VN_RZ && u->out == VN_FMT_F32) finish_cut(u->bits, u->kept_bits, total, largest, result, slow);
    else
        for (int j = 0; j < width; ++j) slow[j] = 1;
    for (int j = 0; j < width; ++j) {
        if (slow[j] && !special(n, a, b + j, ld, c[j], &result[j]))
            result[j] = finish(u, total[j], largest[j], u->out, u->final, u->kept_bits);
    }
    memcpy(out, result, (size_t)width * sizeof *out);
}

/* 32 products: those with bit 1 of their index clear, then the others. */
static void split_groups(const vn_fused_unit_t *u, const double *a, const double *b, int64_t ld, const double *c, int width, double *out) {
    double value[STRIP] = {0}, x[16], y[16 * STRIP];
    for (int half = 0; half < 2; ++half) {
        int n = 0;
        for (int i = 0; i < 32; ++i) {
            if ((i >> 1 & 1) != half) continue;
            x[n] = a[i];
            memcpy(y + n++ * STRIP, b + i * ld, STRIP * sizeof *y);
        }
        one_group(u, 16, x, y, STRIP, value, width, value);
    }
    for (int j = 0; j < width; ++j) out[j] = vn_round_to(u->out, value[j] + c[j], VN_RNE, false); /* 24 + 24 bits: see the claim */
}

vn_status_t vn_fused_dot(const vn_fused_unit_t *u, int64_t n, int64_t columns, const double *a, const double *b, int64_t ld,
                         const double *c, double *out, vn_error_t *err) {
    if (u->form == VN_FUSED_SPLIT2 && n % 32)
        return vn_fail(err, VN_ERR_USAGE, "fused dot-add of %s: %lld products, not a multiple of 32", u->device, (long long)n);
    if (u->group < 1 || u->group > GROUP_MOST) return vn_fail(err, VN_ERR_USAGE, "fused dot-add: groups of 1 to %d products", GROUP_MOST);
    for (int64_t from = 0; from < columns; from += STRIP) {
        const int width = (int)(columns - from < STRIP ? columns - from : STRIP);
        double value[STRIP] = {0}, strip[32 * STRIP];
        memcpy(value, c + from, (size_t)width * sizeof *value);
        const int64_t step = u->form == VN_FUSED_SPLIT2 ? 32 : u->group;
        for (int64_t i = 0; i < n; i += step) {
            const int count = (int)(n - i < step ? n - i : step);
            if (width == STRIP && u->form == VN_FUSED_GROUPS) { /* a whole strip is read where it stands */
                one_group(u, count, a + i, b + i * ld + from, ld, value, width, value);
                continue;
            }
            memset(strip, 0, sizeof strip);
            for (int k = 0; k < count; ++k) memcpy(strip + k * STRIP, b + (i + k) * ld + from, (size_t)width * sizeof *strip);
            if (u->form == VN_FUSED_SPLIT2) split_groups(u, a + i, strip, STRIP, value, width, value);
            else one_group(u, count, a + i, strip, STRIP, value, width, value);
        }
        memcpy(out + from, value, (size_t)width * sizeof *value);
    }
    return VN_OK;
}
