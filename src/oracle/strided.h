/* strided.h -- one copy between two strided arrays of the same shape; every pure movement of data is made of it. */
#ifndef VN_ORACLE_STRIDED_H
#define VN_ORACLE_STRIDED_H

#include "vernier/tensor.h"

enum { VN_STRIDED_RANK = 2 * VN_MAX_RANK }; /* Tile sees every axis twice, DepthToSpace splits two of four */

/** A copy to be done. Strides are in elements; those of the source may be 0 or negative. */
typedef struct vn_strided {
    int rank;
    size_t size; /* bytes of one element */
    int64_t dims[VN_STRIDED_RANK], src[VN_STRIDED_RANK], dst[VN_STRIDED_RANK];
} vn_strided_t;

/** Adds an axis inside those that are there. */
void vn_strided_axis(vn_strided_t *s, int64_t dim, int64_t src, int64_t dst);

/**
 * Copies all elements. Adjacent axes are merged, runs that are dense on both sides go by memcpy, a dense source axis that is not the
 * innermost one of the target is copied in square blocks; large copies are shared out to threads.
 * Threads    concurrent calls are fine; no two elements of the target may coincide.
 */
void vn_strided_copy(const vn_strided_t *s, const void *src, void *dst);

/** The elements of `view` (any strides, whole-byte elements) to dense memory at dst. */
void vn_strided_pack(const vn_tensor_t *view, void *dst);

#endif
