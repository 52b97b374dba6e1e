/* format.c -- binary floating-point formats: their numbers, rounding of one value, bits of one value.
 *
 * f8e8m0     holds 2^-127 .. 2^127 and NaN only: neither sign nor zero. Nearest roundings take the nearest power of two in value, ties
 *            (1.5 2^e) up, as the ONNX Cast text asks. By the same text values below 2^-127, zero among them, become 2^-127 when
 *            saturating and NaN when not; a negative number, which that text leaves open, becomes NaN.
 * f4e2m1     has neither Inf nor NaN, and the ONNX float4 text knows only saturation: overflow gives +-6 with or without `saturate`.
 *            A NaN passes through vn_round_to as in every format; its code is that of +6, as that text says.
 */
#include "vernier/tensor.h"

#include <float.h>
#include <string.h>

#include "tensor/round_kernel.h"

static const vn_format_info_t infos[VN_FMT_COUNT] = {
    [VN_FMT_F64] = {"f64", VN_F64, 53, -1022, 1023, DBL_MAX, 0x1p-53, 0x1p-1074, 0x1p-1022, true, true, true},
    [VN_FMT_F32] = {"f32", VN_F32, 24, -126, 127, 0x1.fffffep127, 0x1p-24, 0x1p-149, 0x1p-126, true, true, true},
    [VN_FMT_TF32] = {"tf32", VN_UNDEFINED, 11, -126, 127, 0x1.ffcp127, 0x1p-11, 0x1p-136, 0x1p-126, true, true, true},
    [VN_FMT_F16] = {"f16", VN_F16, 11, -14, 15, 65504.0, 0x1p-11, 0x1p-24, 0x1p-14, true, true, true},
    [VN_FMT_BF16] = {"bf16", VN_BF16, 8, -126, 127, 0x1.fep127, 0x1p-8, 0x1p-133, 0x1p-126, true, true, true},
    [VN_FMT_F8E4M3FN] = {"f8e4m3fn", VN_F8E4M3FN, 4, -6, 8, 448.0, 0x1p-4, 0x1p-9, 0x1p-6, false, true, true},
    [VN_FMT_F8E4M3FNUZ] = {"f8e4m3fnuz", VN_F8E4M3FNUZ, 4, -7, 7, 240.0, 0x1p-4, 0x1p-10, 0x1p-7, false, true, false},
    [VN_FMT_F8E5M2] = {"f8e5m2", VN_F8E5M2, 3, -14, 15, 57344.0, 0x1p-3, 0x1p-16, 0x1p-14, true, true, true},
    [VN_FMT_F8E5M2FNUZ] = {"f8e5m2fnuz", VN_F8E5M2FNUZ, 3, -15, 15, 57344.0, 0x1p-3, 0x1p-17, 0x1p-15, false, true, false},
    [VN_FMT_F4E2M1] = {"f4e2m1", VN_F4E2M1, 2, 0, 2, 6.0, 0x1p-2, 0.5, 1.0, false, false, true},
    [VN_FMT_F8E8M0] = {"f8e8m0", VN_F8E8M0, 1, -127, 127, 0x1p127, 0x1p-1, 0x1p-127, 0x1p-127, false, true, false},
};

const vn_format_info_t *vn_format_info(vn_format_t f) { return (unsigned)f < VN_FMT_COUNT && infos[f].name ? &infos[f] : NULL; }

vn_format_t vn_format_of(vn_dtype_t t) {
    for (int f = 1; f < VN_FMT_COUNT && t != VN_UNDEFINED; ++f)
        if (infos[f].dtype == t) return (vn_format_t)f;
    return VN_FMT_NONE;
}

vn_format_t vn_format_from_name(const char *name) {
    for (int f = 1; name && f < VN_FMT_COUNT; ++f)
        if (strcmp(name, infos[f].name) == 0) return (vn_format_t)f;
    return VN_FMT_NONE;
}

/* 2^e for -1022 <= e <= 1023. */
static double power_of_two(int e) { return vn_bits_f64((uint64_t)(e + 1023) << 52); }

vn_round_spec_t vn_round_spec(vn_format_t f, bool saturate) {
    const vn_format_info_t *i = &infos[f];
    const double over = saturate || !i->has_nan ? i->max : i->has_inf ? INFINITY : NAN;
    return (vn_round_spec_t){.tau = i->tau,
                             .above = power_of_two(i->emax + 1),
                             .c_factor = power_of_two(1 - i->p),
                             .m_factor = 1.5 * power_of_two(53 - i->p),
                             .max = i->max,
                             .over = over};
}

static double round_e8m0(double x, vn_rounding_t r, bool saturate) {
    if (isnan(x) || x < 0) return NAN;
    if (x < 0x1p-127) return saturate ? 0x1p-127 : NAN;
    return vn_round_kernel(x, r, vn_round_spec(VN_FMT_F8E8M0, saturate));
}

double vn_round_to(vn_format_t f, double x, vn_rounding_t r, bool saturate) {
    const vn_format_info_t *i = vn_format_info(f);
    if (!i || isnan(x)) return x;
    if (f == VN_FMT_F64) return isinf(x) && saturate ? copysign(DBL_MAX, x) : x;
    if (f == VN_FMT_F8E8M0) return round_e8m0(x, r, saturate);
    const double y = vn_round_kernel(x, r, vn_round_spec(f, saturate));
    return y == 0 && !i->has_negative_zero ? 0.0 : y;
}

/* The binade of x is taken as if exponents had no upper end, so that an overflowing value has the ulp it would have had. */
double vn_ulp(vn_format_t f, double x) {
    const vn_format_info_t *i = vn_format_info(f);
    if (!i || !isfinite(x)) return NAN;
    int e;
    frexp(x, &e); /* |x| = 0.xx 2^e */
    e = x == 0 || e - 1 < i->emin ? i->emin : e - 1;
    return ldexp(1.0, e - (i->p - 1));
}

/* ---- codes. sign | exponent field | p-1 fraction bits; the field of a normal number of exponent e is e - emin + 1. ---- */

typedef struct code_row {
    int bits;
    uint16_t inf, nan; /* codes of +Inf and +NaN; inf 0: none */
    bool nan_signed;   /* NaN keeps the sign bit */
} code_row_t;

static const code_row_t codes[VN_FMT_COUNT] = {
    [VN_FMT_F16] = {16, 0x7c00, 0x7e00, true}, [VN_FMT_BF16] = {16, 0x7f80, 0x7fc0, true}, [VN_FMT_F8E4M3FN] = {8, 0, 0x7f, true},
    [VN_FMT_F8E4M3FNUZ] = {8, 0, 0x80, false}, [VN_FMT_F8E5M2] = {8, 0x7c, 0x7e, true},    [VN_FMT_F8E5M2FNUZ] = {8, 0, 0x80, false},
    [VN_FMT_F4E2M1] = {4, 0, 0x07, false},     [VN_FMT_F8E8M0] = {8, 0, 0xff, false},
};

double vn_decode_small(vn_dtype_t t, uint16_t bits) {
    const vn_format_t f = vn_format_of(t);
    if (f == VN_FMT_NONE || !codes[f].bits) return NAN;
    const vn_format_info_t *i = &infos[f];
    const code_row_t *c = &codes[f];
    bits &= (uint16_t)((1u << c->bits) - 1u);
    if (f == VN_FMT_F8E8M0) return bits == 0xff ? NAN : power_of_two((int)bits - 127);
    const unsigned sign = bits >> (c->bits - 1), low = bits & ((1u << (c->bits - 1)) - 1u);
    if (!i->has_negative_zero && bits == c->nan) return NAN; /* the code of -0 is the only NaN */
    double magnitude;
    const unsigned field = low >> (i->p - 1), fraction = low & ((1u << (i->p - 1)) - 1u);
    if (c->inf && low >= c->inf) magnitude = low == c->inf ? (double)INFINITY : (double)NAN;
    else if (f == VN_FMT_F8E4M3FN && low == c->nan) magnitude = NAN;
    else if (field == 0) magnitude = (double)fraction * i->eta;
    else magnitude = (double)(fraction + (1u << (i->p - 1))) * power_of_two((int)field - 1 + i->emin - (i->p - 1));
    return sign ? -magnitude : magnitude;
}

uint16_t vn_encode_small(vn_dtype_t t, double x) {
    const vn_format_t f = vn_format_of(t);
    if (f == VN_FMT_NONE || !codes[f].bits) return 0;
    const vn_format_info_t *i = &infos[f];
    const code_row_t *c = &codes[f];
    const unsigned sign = signbit(x) ? 1u << (c->bits - 1) : 0;
    if (isnan(x)) return (uint16_t)(c->nan | (c->nan_signed ? sign : 0));
    const double a = fabs(x);
    if (isinf(x)) return (uint16_t)(c->inf ? sign | c->inf : c->nan);
    if (f == VN_FMT_F8E8M0) {
        if (!(a >= i->tau)) return 0;
        return (uint16_t)((vn_f64_bits(a) >> 52) - 1023 + 127);
    }
    if (a == 0 && !i->has_negative_zero) return 0;
    unsigned low;
    if (a < i->tau) {
        low = (unsigned)(a / i->eta);
    } else { /* the top bits of the double are exponent and fraction already */
        const uint64_t top = vn_f64_bits(a) >> (52 - (i->p - 1));
        low = (unsigned)(top - ((uint64_t)(1023 + i->emin - 1) << (i->p - 1)));
    }
    return (uint16_t)(sign | low);
}
