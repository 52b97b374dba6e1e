/* walk.c -- elements of a strided tensor in row-major order. */
#include "tensor/walk.h"

#include <string.h>

size_t vn_element_size(vn_dtype_t t) { return t == VN_STRING ? sizeof(vn_string_t) : (size_t)vn_dtype_bits(t) / 8; }

void vn_walk_init(vn_walk_t *w, const vn_tensor_t *t) {
    w->rank = 0;
    for (int k = 0; k < t->rank; ++k) {
        if (t->dims[k] == 1) continue;
        const int last = w->rank - 1;
        if (last >= 0 && w->strides[last] == t->strides[k] * t->dims[k]) {
            w->dims[last] *= t->dims[k];
            w->strides[last] = t->strides[k];
        } else {
            w->dims[w->rank] = t->dims[k];
            w->strides[w->rank++] = t->strides[k];
        }
    }
    if (w->rank == 0) {
        w->rank = 1;
        w->dims[0] = 1;
        w->strides[0] = 1;
    }
}

int64_t vn_walk_offset(const vn_walk_t *w, int64_t i) {
    int64_t offset = 0;
    for (int k = w->rank - 1; k > 0; --k) {
        offset += i % w->dims[k] * w->strides[k];
        i /= w->dims[k];
    }
    return offset + i * w->strides[0];
}

#define GATHER(type)                                                                   \
    static void gather_##type(const void *src, int64_t stride, int64_t n, void *dst) { \
        const type *s = src;                                                           \
        type *d = dst;                                                                 \
        for (int64_t i = 0; i < n; ++i) d[i] = s[i * stride];                          \
    }
typedef struct sixteen {
    uint64_t part[2];
} sixteen_t;
GATHER(uint8_t)
GATHER(uint16_t)
GATHER(uint32_t)
GATHER(uint64_t)
GATHER(sixteen_t)

static void gather_row(const void *src, int64_t stride, int64_t n, size_t size, void *dst) {
    if (stride == 1) {
        memcpy(dst, src, (size_t)n * size);
        return;
    }
    switch (size) {
    case 1: gather_uint8_t(src, stride, n, dst); break;
    case 2: gather_uint16_t(src, stride, n, dst); break;
    case 4: gather_uint32_t(src, stride, n, dst); break;
    case 8: gather_uint64_t(src, stride, n, dst); break;
    default: gather_sixteen_t(src, stride, n, dst); break;
    }
}

void vn_walk_gather(const vn_walk_t *w, const vn_tensor_t *t, int64_t begin, int64_t n, void *dst) {
    if (n <= 0) return;
    const size_t size = vn_element_size(t->dtype);
    if (size == 0) {
        const int bits = vn_dtype_bits(t->dtype);
        memcpy(dst, (const unsigned char *)t->data + begin * bits / 8, (size_t)((n * bits + 7) / 8));
        return;
    }
    const int inner = w->rank - 1;
    const int64_t width = w->dims[inner], step = w->strides[inner];
    const unsigned char *base = t->data;
    unsigned char *to = dst;
    int64_t at[VN_MAX_RANK], rest = begin, offset = 0;
    for (int k = inner; k >= 0; --k) {
        at[k] = k ? rest % w->dims[k] : rest;
        rest = k ? rest / w->dims[k] : 0;
        offset += at[k] * w->strides[k];
    }
    for (;;) {
        int64_t m = width - at[inner];
        if (m > n) m = n;
        gather_row(base + offset * (int64_t)size, step, m, size, to);
        n -= m;
        if (n == 0) return;
        to += (size_t)m * size;
        offset -= at[inner] * step; /* back to the start of the row, on to the next one */
        at[inner] = 0;
        for (int k = inner - 1; k >= 0; --k) {
            offset += w->strides[k];
            if (++at[k] < w->dims[k] || k == 0) break;
            offset -= w->dims[k] * w->strides[k];
            at[k] = 0;
        }
    }
}
