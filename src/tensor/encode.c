/* encode.c -- doubles to dense elements of every type; floats were rounded to members of their format before. */
#include <math.h>

#include "tensor/clones.h"
#include "tensor/dense.h"
#include "tensor/walk.h"

#define ENCODE_LOOP(name, type, value)                        \
    static void name(const double *x, void *dst, int64_t n) { \
        type *d = dst;                                        \
        for (int64_t i = 0; i < n; ++i) d[i] = (type)(value); \
    }
ENCODE_LOOP(encode_u8, uint8_t, vn_low_bits(x[i]))
ENCODE_LOOP(encode_u16, uint16_t, vn_low_bits(x[i]))
ENCODE_LOOP(encode_u32, uint32_t, vn_low_bits(x[i]))
ENCODE_LOOP(encode_u64, uint64_t, vn_low_bits(x[i]))
ENCODE_LOOP(encode_bool, uint8_t, !(x[i] == 0))

VN_CLONES static void encode_f32(const double *x, void *dst, int64_t n) {
    float *d = dst;
    for (int64_t i = 0; i < n; ++i) d[i] = (float)x[i];
}

VN_CLONES static void encode_bf16(const double *x, void *dst, int64_t n) {
    uint16_t *d = dst;
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t b = vn_bits_of((float)x[i]), low = b & 0x7fffffffu;
        d[i] = (uint16_t)((b >> 16 & 0x8000u) | (low > 0x7f800000u ? 0x7fc0u : low >> 16));
    }
}

/* Numbers by which one loop writes the codes of any format with a sign, at most 16 bits wide. */
typedef struct code_spec {
    int shift;         /* of a double's bits, to leave exponent and p-1 digits */
    uint64_t rebase;   /* code of a normal number = shifted bits - rebase */
    double tau, magic; /* a + magic counts a subnormal number a in units of eta: ulp(magic) = eta */
    double max;
    uint64_t inf, nan, sign, nan_sign; /* codes; the sign bit, and the one that a NaN keeps */
} code_spec_t;

static code_spec_t code_spec(vn_dtype_t t) {
    const vn_format_info_t *i = vn_format_info(vn_format_of(t));
    const int drop = 52 - (i->p - 1);
    const uint64_t plus = vn_encode_small(t, NAN), minus = vn_encode_small(t, -NAN);
    return (code_spec_t){.shift = drop,
                         .rebase = (uint64_t)(1023 + i->emin - 1) << (i->p - 1),
                         .tau = i->tau,
                         .magic = i->eta * 0x1p52,
                         .max = i->max,
                         .inf = vn_encode_small(t, INFINITY),
                         .nan = plus,
                         .sign = UINT64_C(1) << (vn_dtype_bits(t) - 1),
                         .nan_sign = plus ^ minus};
}

static inline uint64_t code_of(double x, const code_spec_t c) {
    const uint64_t bits = vn_f64_bits(x) & ~VN_SIGN_BIT, negative = 0 - (vn_f64_bits(x) >> 63);
    const double a = vn_bits_f64(bits);
    const uint64_t tiny = 0 - (uint64_t)(bits < vn_f64_bits(c.tau)), beyond = 0 - (uint64_t)(bits > vn_f64_bits(c.max));
    const uint64_t is_nan = 0 - (uint64_t)(bits > VN_EXPONENT_BITS);
    const uint64_t counted = vn_f64_bits(a + c.magic) - vn_f64_bits(c.magic), normal = (bits >> c.shift) - c.rebase;
    const uint64_t finite = (counted & tiny) | (normal & ~tiny), special = (c.nan & is_nan) | (c.inf & ~is_nan);
    return (finite & ~beyond) | (special & beyond) | (negative & ((c.nan_sign & is_nan) | (c.sign & ~is_nan)));
}

#define ENCODE_SMALL(name, type, dtype_)                                                          \
    VN_CLONES static void name##_loop(const code_spec_t c, const double *x, type *d, int64_t n) { \
        for (int64_t i = 0; i < n; ++i) d[i] = (type)code_of(x[i], c);                            \
    }                                                                                             \
    static void name(const double *x, void *dst, int64_t n) { name##_loop(code_spec(dtype_), x, dst, n); }
ENCODE_SMALL(encode_f16, uint16_t, VN_F16)
ENCODE_SMALL(encode_e4m3fn, uint8_t, VN_F8E4M3FN)
ENCODE_SMALL(encode_e4m3fnuz, uint8_t, VN_F8E4M3FNUZ)
ENCODE_SMALL(encode_e5m2, uint8_t, VN_F8E5M2)
ENCODE_SMALL(encode_e5m2fnuz, uint8_t, VN_F8E5M2FNUZ)

/* Powers of two and NaN only: the exponent field is the code. */
static void encode_e8m0(const double *x, void *dst, int64_t n) {
    uint8_t *d = dst;
    for (int64_t i = 0; i < n; ++i) d[i] = (uint8_t)vn_encode_small(VN_F8E8M0, x[i]);
}

static void encode_f64(const double *x, void *dst, int64_t n) { memcpy(dst, x, (size_t)n * sizeof *x); }

static void encode_c64(const double *x, void *dst, int64_t n) {
    float *d = dst;
    for (int64_t i = 0; i < n; ++i) {
        d[2 * i] = (float)x[i];
        d[2 * i + 1] = 0.0f;
    }
}

static void encode_c128(const double *x, void *dst, int64_t n) {
    double *d = dst;
    for (int64_t i = 0; i < n; ++i) {
        d[2 * i] = x[i];
        d[2 * i + 1] = 0.0;
    }
}

static void encode_4(const double *x, void *dst, int64_t n) {
    for (int64_t i = 0; i < n; ++i) vn_packed_set(dst, 4, i, (unsigned)vn_low_bits(x[i]) & 15u);
}
static void encode_2(const double *x, void *dst, int64_t n) {
    for (int64_t i = 0; i < n; ++i) vn_packed_set(dst, 2, i, (unsigned)vn_low_bits(x[i]) & 3u);
}
static void encode_e2m1(const double *x, void *dst, int64_t n) {
    for (int64_t i = 0; i < n; ++i) vn_packed_set(dst, 4, i, vn_encode_small(VN_F4E2M1, x[i]));
}
static void encode_none(const double *x, void *dst, int64_t n) {
    (void)x;
    (void)dst;
    (void)n;
}

const vn_encode_fn vn_encoders[VN_DTYPE_COUNT] = {
    [VN_UNDEFINED] = encode_none,
    [VN_F32] = encode_f32,
    [VN_U8] = encode_u8,
    [VN_I8] = encode_u8,
    [VN_U16] = encode_u16,
    [VN_I16] = encode_u16,
    [VN_I32] = encode_u32,
    [VN_I64] = encode_u64,
    [VN_STRING] = encode_none,
    [VN_BOOL] = encode_bool,
    [VN_F16] = encode_f16,
    [VN_F64] = encode_f64,
    [VN_U32] = encode_u32,
    [VN_U64] = encode_u64,
    [VN_C64] = encode_c64,
    [VN_C128] = encode_c128,
    [VN_BF16] = encode_bf16,
    [VN_F8E4M3FN] = encode_e4m3fn,
    [VN_F8E4M3FNUZ] = encode_e4m3fnuz,
    [VN_F8E5M2] = encode_e5m2,
    [VN_F8E5M2FNUZ] = encode_e5m2fnuz,
    [VN_U4] = encode_4,
    [VN_I4] = encode_4,
    [VN_F4E2M1] = encode_e2m1,
    [VN_F8E8M0] = encode_e8m0,
    [VN_U2] = encode_2,
    [VN_I2] = encode_2,
};
