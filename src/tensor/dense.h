/* dense.h -- conversion loops over dense elements, one pair for each type. */
#ifndef VN_TENSOR_DENSE_H
#define VN_TENSOR_DENSE_H

#include <math.h>

#include "tensor/round_kernel.h"

/** n elements at src (packed types: from a byte border) to doubles. Types without a number give NaN. */
typedef void (*vn_decode_fn)(const void *src, double *out, int64_t n);
/** n doubles to elements: members of the format (floats), anything (integers: low bits of the truncation). */
typedef void (*vn_encode_fn)(const double *x, void *dst, int64_t n);

extern const vn_decode_fn vn_decoders[VN_DTYPE_COUNT];
extern const vn_encode_fn vn_encoders[VN_DTYPE_COUNT];

/** As vn_tensor_from_f64 for elements [begin, begin + n) of a dense tensor, in this thread; packed types: begin a multiple of 8. */
void vn_tensor_put_f64(vn_tensor_t *t, int64_t begin, int64_t n, const double *x, vn_rounding_t r, bool saturate);

/** Elements [begin, begin + n) of a dense tensor as doubles, in this thread; packed types: begin a multiple of 8. */
static inline void vn_tensor_take_f64(const vn_tensor_t *t, int64_t begin, int64_t n, double *out) {
    vn_decoders[t->dtype]((const unsigned char *)t->data + begin * vn_dtype_bits(t->dtype) / 8, out, n);
}

static inline float vn_float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint32_t vn_bits_of(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

/* Low 64 bits of x truncated toward zero, exact for every finite x; 0 for NaN and Inf. */
static inline uint64_t vn_low_bits(double x) {
    if (x > -0x1p63 && x < 0x1p63) return (uint64_t)(int64_t)x;
    if (!isfinite(x)) return 0;
    const int shift = (int)(vn_f64_bits(x) >> 52 & 0x7ff) - 1023 - 52; /* >= 11 here */
    const uint64_t m = (vn_f64_bits(x) & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    const uint64_t low = shift >= 64 ? 0 : m << shift;
    return x < 0 ? 0 - low : low;
}

#endif
