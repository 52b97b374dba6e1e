/* decode.c -- dense elements of every type to doubles. The tables of the 8-bit floats are filled once, at first use. */
#include <math.h>
#include <threads.h>

#include "tensor/clones.h"
#include "tensor/dense.h"
#include "tensor/walk.h"

#define DECODE_LOOP(name, type)                                           \
    VN_CLONES static void name(const void *src, double *out, int64_t n) { \
        const type *s = src;                                              \
        for (int64_t i = 0; i < n; ++i) out[i] = (double)s[i];            \
    }
DECODE_LOOP(decode_f32, float)
DECODE_LOOP(decode_u8, uint8_t)
DECODE_LOOP(decode_i8, int8_t)
DECODE_LOOP(decode_u16, uint16_t)
DECODE_LOOP(decode_i16, int16_t)
DECODE_LOOP(decode_u32, uint32_t)
DECODE_LOOP(decode_i32, int32_t)
DECODE_LOOP(decode_u64, uint64_t)
DECODE_LOOP(decode_i64, int64_t)

VN_CLONES static void decode_bf16(const void *src, double *out, int64_t n) {
    const uint16_t *s = src;
    for (int64_t i = 0; i < n; ++i) out[i] = (double)vn_float_of((uint32_t)s[i] << 16);
}

/* Both ways of reading a code are worked out and one is masked in: a choice by branches would not vectorise. */
VN_CLONES static void decode_f16(const void *src, double *out, int64_t n) {
    const uint16_t *s = src;
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t h = s[i], low = h & 0x7fffu;
        const uint32_t full = 0u - (uint32_t)(low >= 0x7c00u), tiny = 0u - (uint32_t)(low < 0x0400u);
        const uint32_t rebased = (low << 13) + (112u << 23) + (full & 112u << 23); /* Inf and NaN keep a full exponent */
        const uint32_t counted =
            vn_bits_of(vn_float_of((0x3f000000u | low) & tiny) - vn_float_of(0x3f000000u & tiny)); /* ulp(0.5) = 2^-24 */
        out[i] = (double)vn_float_of((counted & tiny) | (rebased & ~tiny) | (h & 0x8000u) << 16);
    }
}

static void decode_f64(const void *src, double *out, int64_t n) { memcpy(out, src, (size_t)n * sizeof *out); }

static void decode_bool(const void *src, double *out, int64_t n) {
    const uint8_t *s = src;
    for (int64_t i = 0; i < n; ++i) out[i] = s[i] != 0;
}

static void decode_c64(const void *src, double *out, int64_t n) {
    const float *s = src;
    for (int64_t i = 0; i < n; ++i) out[i] = (double)s[2 * i];
}

static void decode_c128(const void *src, double *out, int64_t n) {
    const double *s = src;
    for (int64_t i = 0; i < n; ++i) out[i] = s[2 * i];
}

enum { N_TABLES = 5 };
static const vn_dtype_t table_types[N_TABLES] = {VN_F8E4M3FN, VN_F8E4M3FNUZ, VN_F8E5M2, VN_F8E5M2FNUZ, VN_F8E8M0};
static double tables[N_TABLES][256];
static once_flag tables_once = ONCE_FLAG_INIT;

static void fill_tables(void) {
    for (int k = 0; k < N_TABLES; ++k)
        for (unsigned code = 0; code < 256; ++code) tables[k][code] = vn_decode_small(table_types[k], (uint16_t)code);
}

static void decode_table(int k, const void *src, double *out, int64_t n) {
    call_once(&tables_once, fill_tables);
    const uint8_t *s = src;
    for (int64_t i = 0; i < n; ++i) out[i] = tables[k][s[i]];
}
static void decode_e4m3fn(const void *src, double *out, int64_t n) { decode_table(0, src, out, n); }
static void decode_e4m3fnuz(const void *src, double *out, int64_t n) { decode_table(1, src, out, n); }
static void decode_e5m2(const void *src, double *out, int64_t n) { decode_table(2, src, out, n); }
static void decode_e5m2fnuz(const void *src, double *out, int64_t n) { decode_table(3, src, out, n); }
static void decode_e8m0(const void *src, double *out, int64_t n) { decode_table(4, src, out, n); }

#define DECODE_PACKED(name, bits_, value)                       \
    static void name(const void *src, double *out, int64_t n) { \
        for (int64_t i = 0; i < n; ++i) {                       \
            const int code = (int)vn_packed_get(src, bits_, i); \
            out[i] = value;                                     \
        }                                                       \
    }
DECODE_PACKED(decode_u4, 4, code)
DECODE_PACKED(decode_i4, 4, code >= 8 ? code - 16 : code)
DECODE_PACKED(decode_u2, 2, code)
DECODE_PACKED(decode_i2, 2, code >= 2 ? code - 4 : code)
DECODE_PACKED(decode_e2m1, 4, vn_decode_small(VN_F4E2M1, (uint16_t)code))

static void decode_none(const void *src, double *out, int64_t n) {
    (void)src;
    for (int64_t i = 0; i < n; ++i) out[i] = NAN;
}

const vn_decode_fn vn_decoders[VN_DTYPE_COUNT] = {
    [VN_UNDEFINED] = decode_none,
    [VN_F32] = decode_f32,
    [VN_U8] = decode_u8,
    [VN_I8] = decode_i8,
    [VN_U16] = decode_u16,
    [VN_I16] = decode_i16,
    [VN_I32] = decode_i32,
    [VN_I64] = decode_i64,
    [VN_STRING] = decode_none,
    [VN_BOOL] = decode_bool,
    [VN_F16] = decode_f16,
    [VN_F64] = decode_f64,
    [VN_U32] = decode_u32,
    [VN_U64] = decode_u64,
    [VN_C64] = decode_c64,
    [VN_C128] = decode_c128,
    [VN_BF16] = decode_bf16,
    [VN_F8E4M3FN] = decode_e4m3fn,
    [VN_F8E4M3FNUZ] = decode_e4m3fnuz,
    [VN_F8E5M2] = decode_e5m2,
    [VN_F8E5M2FNUZ] = decode_e5m2fnuz,
    [VN_U4] = decode_u4,
    [VN_I4] = decode_i4,
    [VN_F4E2M1] = decode_e2m1,
    [VN_F8E8M0] = decode_e8m0,
    [VN_U2] = decode_u2,
    [VN_I2] = decode_i2,
};
