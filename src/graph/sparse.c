/* sparse.c -- a dense tensor as values and positions. */
#include "sparse.h"

#include <string.h>

static bool is_zero(const vn_tensor_t *t, int64_t i) {
    if (t->dtype == VN_STRING) return ((const vn_string_t *)t->data)[i].length == 0;
    int bits = vn_dtype_bits(t->dtype);
    if (bits <= 64) return vn_tensor_bits(t, i) == 0;
    static const unsigned char zeros[16];
    return memcmp((const char *)t->data + (size_t)i * (size_t)(bits / 8), zeros, (size_t)(bits / 8)) == 0;
}

static vn_status_t copy_element(const vn_tensor_t *from, int64_t i, vn_tensor_t *to, int64_t k, vn_error_t *err) {
    if (from->dtype == VN_STRING) {
        const vn_string_t *s = (const vn_string_t *)from->data + i;
        return vn_tensor_set_string(to, k, s->text, s->length, err);
    }
    int bits = vn_dtype_bits(from->dtype);
    if (bits >= 8) {
        size_t size = (size_t)(bits / 8);
        memcpy((char *)to->data + (size_t)k * size, (const char *)from->data + (size_t)i * size, size);
        return VN_OK;
    }
    /* sub-byte elements, packed from the low bits of each byte; `to` starts as zeros */
    unsigned char *byte = (unsigned char *)to->data + (size_t)k * (size_t)bits / 8;
    *byte = (unsigned char)(*byte | (vn_tensor_bits(from, i) << ((size_t)k * (size_t)bits % 8)));
    return VN_OK;
}

vn_status_t vn_sparse_split(const vn_tensor_t *dense, vn_tensor_t **values, vn_tensor_t **indices, vn_error_t *err) {
    vn_tensor_t *flat;
    int64_t n = 0, k = 0;
    *values = *indices = NULL;
    VN_TRY(vn_tensor_contiguous(dense, &flat, err));
    for (int64_t i = 0; i < flat->count; ++i) n += !is_zero(flat, i);
    vn_status_t s = vn_tensor_new(flat->dtype, 1, &n, values, err);
    if (s == VN_OK) s = vn_tensor_new(VN_I64, 1, &n, indices, err);
    for (int64_t i = 0; i < flat->count && s == VN_OK; ++i) {
        if (is_zero(flat, i)) continue;
        ((int64_t *)(*indices)->data)[k] = i;
        s = copy_element(flat, i, *values, k++, err);
    }
    vn_tensor_free(flat);
    if (s == VN_OK) return VN_OK;
    vn_tensor_free(*values);
    vn_tensor_free(*indices);
    *values = *indices = NULL;
    return s;
}
