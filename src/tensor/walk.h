/* walk.h -- elements of a strided tensor in row-major order, copied as raw bytes into a dense block. */
#ifndef VN_TENSOR_WALK_H
#define VN_TENSOR_WALK_H

#include "vernier/tensor.h"

/** Dims without those of size 1, neighbours merged where strides allow: the fewest loops that visit the same elements in order. */
typedef struct vn_walk {
    int rank;
    int64_t dims[VN_MAX_RANK], strides[VN_MAX_RANK];
} vn_walk_t;

void vn_walk_init(vn_walk_t *w, const vn_tensor_t *t);

/** Bytes of one element, 0 for sub-byte types. */
size_t vn_element_size(vn_dtype_t t);

/** Element offset (in elements, from t->data) of row-major index i. */
int64_t vn_walk_offset(const vn_walk_t *w, int64_t i);

/** Copies elements [begin, begin + n) to dst. Sub-byte types: contiguous only, begin at a byte border. */
void vn_walk_gather(const vn_walk_t *w, const vn_tensor_t *t, int64_t begin, int64_t n, void *dst);

/** Code of element i of a packed sub-byte array. */
static inline unsigned vn_packed_get(const unsigned char *p, int bits, int64_t i) {
    const int per = 8 / bits;
    return (unsigned)(p[i / per] >> (i % per * bits)) & ((1u << bits) - 1u);
}
static inline void vn_packed_set(unsigned char *p, int bits, int64_t i, unsigned code) {
    const int per = 8 / bits, shift = (int)(i % per) * bits;
    const unsigned mask = ((1u << bits) - 1u) << shift;
    p[i / per] = (unsigned char)((p[i / per] & ~mask) | ((code << shift) & mask));
}

#endif
