/* convert.c -- elements to and from double and int64, one by one and in bulk.
 *
 * Bulk work runs in chunks of 2^16 elements (a multiple of 8, so that packed types start at a byte) over all threads; strided tensors pass
 * through a small dense block.
 */
#include <math.h>
#include <string.h>

#include "tensor/dense.h"
#include "tensor/walk.h"

enum { GRAIN = 1 << 16, BLOCK = 1024 };

typedef struct bulk {
    const vn_tensor_t *t;
    vn_walk_t walk;
    bool dense;
    double *out;
    int64_t *ints;
    const double *in;
    vn_format_t format;
    vn_rounding_t rounding;
    bool saturate;
} bulk_t;

static const unsigned char *at(const vn_tensor_t *t, int64_t i) {
    const size_t size = vn_element_size(t->dtype);
    return (const unsigned char *)t->data + (size ? i * (int64_t)size : i * vn_dtype_bits(t->dtype) / 8);
}

/* Dense bytes of elements [begin, begin + n), n <= BLOCK: in place, or gathered into `block`. */
static const void *dense_block(const bulk_t *b, int64_t begin, int64_t n, void *block) {
    if (b->dense) return at(b->t, begin);
    vn_walk_gather(&b->walk, b->t, begin, n, block);
    return block;
}

static void to_f64_range(void *ctx, int64_t begin, int64_t end) {
    const bulk_t *b = ctx;
    const vn_decode_fn decode = vn_decoders[b->t->dtype];
    if (b->dense) {
        decode(at(b->t, begin), b->out + begin, end - begin);
        return;
    }
    uint64_t block[BLOCK * 2];
    for (int64_t i = begin; i < end; i += BLOCK) {
        const int64_t n = end - i < BLOCK ? end - i : BLOCK;
        decode(dense_block(b, i, n, block), b->out + i, n);
    }
}

void vn_tensor_to_f64(const vn_tensor_t *t, double *out) {
    bulk_t b = {.t = t, .out = out, .dense = vn_tensor_is_contiguous(t)};
    vn_walk_init(&b.walk, t);
    vn_parallel(t->count, GRAIN, to_f64_range, &b);
}

static void put(const bulk_t *b, int64_t begin, int64_t n, const double *from) {
    const vn_encode_fn encode = vn_encoders[b->t->dtype];
    double block[BLOCK];
    /* The conversion to f32 is itself round to nearest even; f64 takes everything. */
    const bool plain =
        b->format == VN_FMT_NONE || (!b->saturate && (b->format == VN_FMT_F64 || (b->format == VN_FMT_F32 && b->rounding == VN_RNE)));
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = n - i < BLOCK ? n - i : BLOCK;
        const double *x = from + i;
        if (!plain) {
            vn_round_bulk(b->format, b->rounding, b->saturate, x, block, m);
            x = block;
        }
        encode(x, (unsigned char *)(uintptr_t)at(b->t, begin + i), m);
    }
}

static void from_f64_range(void *ctx, int64_t begin, int64_t end) {
    const bulk_t *b = ctx;
    put(b, begin, end - begin, b->in + begin);
}

/* Complex types round their parts: the format of a part stands in for the type. */
static vn_format_t part_format(vn_dtype_t t) { return t == VN_C64 ? VN_FMT_F32 : t == VN_C128 ? VN_FMT_F64 : vn_format_of(t); }

void vn_tensor_from_f64(vn_tensor_t *t, const double *x, vn_rounding_t r, bool saturate) {
    bulk_t b = {.t = t, .in = x, .format = part_format(t->dtype), .rounding = r, .saturate = saturate};
    vn_parallel(t->count, GRAIN, from_f64_range, &b);
}

void vn_tensor_put_f64(vn_tensor_t *t, int64_t begin, int64_t n, const double *x, vn_rounding_t r, bool saturate) {
    const bulk_t b = {.t = t, .format = part_format(t->dtype), .rounding = r, .saturate = saturate};
    put(&b, begin, n, x);
}

static int64_t code_to_i64(vn_dtype_t t, uint64_t code) {
    const int bits = vn_dtype_bits(t);
    if (t == VN_BOOL) return code != 0;
    if (vn_dtype_kind(t) == VN_KIND_SIGNED && bits < 64 && (code >> (bits - 1) & 1)) code |= ~UINT64_C(0) << bits;
    return (int64_t)code;
}

static uint64_t load_code(vn_dtype_t t, const void *src, int64_t i) {
    const int bits = vn_dtype_bits(t);
    switch (bits) {
    case 8: return ((const uint8_t *)src)[i];
    case 16: return ((const uint16_t *)src)[i];
    case 32: return ((const uint32_t *)src)[i];
    case 64: return ((const uint64_t *)src)[i];
    case 2:
    case 4: return vn_packed_get(src, bits, i);
    default: return 0;
    }
}

static void to_i64_range(void *ctx, int64_t begin, int64_t end) {
    const bulk_t *b = ctx;
    const vn_dtype_t t = b->t->dtype;
    uint64_t block[BLOCK * 2];
    double values[BLOCK];
    const bool whole = vn_dtype_is_int(t) || t == VN_BOOL;
    for (int64_t i = begin; i < end; i += BLOCK) {
        const int64_t n = end - i < BLOCK ? end - i : BLOCK;
        const void *src = dense_block(b, i, n, block);
        if (whole) {
            for (int64_t k = 0; k < n; ++k) b->ints[i + k] = code_to_i64(t, load_code(t, src, k));
        } else {
            vn_decoders[t](src, values, n);
            for (int64_t k = 0; k < n; ++k) b->ints[i + k] = (int64_t)vn_low_bits(values[k]);
        }
    }
}

void vn_tensor_to_i64(const vn_tensor_t *t, int64_t *out) {
    bulk_t b = {.t = t, .ints = out, .dense = vn_tensor_is_contiguous(t)};
    vn_walk_init(&b.walk, t);
    vn_parallel(t->count, GRAIN, to_i64_range, &b);
}

/* ---- one element ---- */

/* Bytes of element i: in place, or its packed code alone in *code. */
static const void *element(const vn_tensor_t *t, int64_t i, unsigned char *code) {
    const int bits = vn_dtype_bits(t->dtype);
    if (bits && bits < 8) {
        *code = (unsigned char)vn_packed_get(t->data, bits, i);
        return code;
    }
    if (!vn_tensor_is_contiguous(t)) {
        vn_walk_t w;
        vn_walk_init(&w, t);
        i = vn_walk_offset(&w, i);
    }
    return at(t, i);
}

double vn_tensor_get_f64(const vn_tensor_t *t, int64_t i) {
    unsigned char code;
    double x;
    vn_decoders[t->dtype](element(t, i, &code), &x, 1);
    return x;
}

uint64_t vn_tensor_bits(const vn_tensor_t *t, int64_t i) {
    unsigned char code;
    return load_code(t->dtype, element(t, i, &code), 0);
}

int64_t vn_tensor_get_i64(const vn_tensor_t *t, int64_t i) {
    if (vn_dtype_is_int(t->dtype) || t->dtype == VN_BOOL) return code_to_i64(t->dtype, vn_tensor_bits(t, i));
    return (int64_t)vn_low_bits(vn_tensor_get_f64(t, i));
}

static void store_rounded(vn_tensor_t *t, int64_t i, double x) {
    const int bits = vn_dtype_bits(t->dtype);
    if (bits && bits < 8) {
        unsigned char code = 0;
        vn_encoders[t->dtype](&x, &code, 1);
        vn_packed_set(t->data, bits, i, code);
        return;
    }
    vn_encoders[t->dtype](&x, (unsigned char *)(uintptr_t)at(t, i), 1);
}

void vn_tensor_set_f64(vn_tensor_t *t, int64_t i, double x) {
    const vn_format_t f = part_format(t->dtype);
    store_rounded(t, i, f == VN_FMT_NONE ? x : vn_round_to(f, x, VN_RNE, false));
}

/* x as a double rounded to odd: a second rounding to any format of at most 51 bits is then the correct one. */
static double to_odd(int64_t x) {
    const double d = (double)x;
    if (d >= 0x1p63) return 0x1.fffffffffffffp62; /* x < 2^63 = d; the double below, which is odd */
    const int64_t back = (int64_t)d;
    if (back == x || (vn_f64_bits(d) & 1)) return d;
    /* The exact value lies between d and its neighbour on x's side; that neighbour is odd. */
    return nextafter(d, x > back ? INFINITY : -INFINITY);
}

void vn_tensor_set_i64(vn_tensor_t *t, int64_t i, int64_t x) {
    const int bits = vn_dtype_bits(t->dtype);
    const vn_format_t f = part_format(t->dtype);
    if (f != VN_FMT_NONE) {
        store_rounded(t, i, f == VN_FMT_F64 ? (double)x : vn_round_to(f, to_odd(x), VN_RNE, false));
    } else if (t->dtype == VN_BOOL) {
        ((uint8_t *)t->data)[i] = x != 0;
    } else {
        switch (bits) {
        case 8: ((uint8_t *)t->data)[i] = (uint8_t)x; break;
        case 16: ((uint16_t *)t->data)[i] = (uint16_t)x; break;
        case 32: ((uint32_t *)t->data)[i] = (uint32_t)x; break;
        case 64: ((uint64_t *)t->data)[i] = (uint64_t)x; break;
        case 2:
        case 4: vn_packed_set(t->data, bits, i, (unsigned)((uint64_t)x & ((1u << bits) - 1u))); break;
        default: break;
        }
    }
}
