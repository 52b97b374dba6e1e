/* integers.c -- integer operands as int64 planes, results back into any integer type: exact, wrapping like the type's two's complement. */
#include "oracle/elementwise.h"

int64_t *vn_ints_of(vn_eval_t *e, const vn_tensor_t *t) {
    int64_t *v = vn_alloc((size_t)(t->count ? t->count : 1), sizeof *v);
    if (!v) vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld integers", (long long)t->count);
    else vn_tensor_to_i64(t, v);
    return v;
}

int64_t vn_wrap(vn_dtype_t t, int64_t x) {
    const int bits = vn_dtype_bits(t);
    if (bits >= 64) return x;
    const uint64_t mask = (UINT64_C(1) << bits) - 1, low = (uint64_t)x & mask;
    const bool negative = vn_dtype_kind(t) == VN_KIND_SIGNED && (low >> (bits - 1)) & 1;
    return (int64_t)(negative ? low | ~mask : low);
}

int64_t vn_int_min(vn_dtype_t t) { return vn_dtype_kind(t) == VN_KIND_SIGNED ? (int64_t)(~UINT64_C(0) << (vn_dtype_bits(t) - 1)) : 0; }

int64_t vn_int_max(vn_dtype_t t) {
    const int bits = vn_dtype_bits(t) - (vn_dtype_kind(t) == VN_KIND_SIGNED);
    return bits >= 64 ? -1 : (int64_t)((UINT64_C(1) << bits) - 1); /* u64: all ones, by bit pattern */
}

#define STORE(type)                                               \
    do {                                                          \
        type *d = t->data;                                        \
        for (int64_t i = 0; i < t->count; ++i) d[i] = (type)v[i]; \
    } while (0)

void vn_ints_store(vn_tensor_t *t, const int64_t *v) {
    if (t->dtype == VN_BOOL) {
        uint8_t *d = t->data;
        for (int64_t i = 0; i < t->count; ++i) d[i] = v[i] != 0;
        return;
    }
    switch (vn_dtype_bits(t->dtype)) {
    case 8: STORE(uint8_t); break;
    case 16: STORE(uint16_t); break;
    case 32: STORE(uint32_t); break;
    case 64: STORE(uint64_t); break;
    default:
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_i64(t, i, v[i]);
    }
}
