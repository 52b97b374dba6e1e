/* source.h -- counted bytes that tensors may point into: a mapped file or a copy. */
#ifndef VN_TENSOR_SOURCE_H
#define VN_TENSOR_SOURCE_H

#include "vernier/base.h"

typedef struct vn_source {
    const unsigned char *data;
    size_t size;
    vn_map_t map;        /* of a file */
    unsigned char *copy; /* else */
    int refs;            /* atomic */
} vn_source_t;

vn_status_t vn_source_map(const char *path, vn_source_t **out, vn_error_t *err);
vn_status_t vn_source_copy(const void *data, size_t size, vn_source_t **out, vn_error_t *err);
/** Takes over `data`, a block of vn_alloc or vn_realloc; it is released also on failure. */
vn_status_t vn_source_adopt(unsigned char *data, size_t size, vn_source_t **out, vn_error_t *err);
vn_source_t *vn_source_retain(vn_source_t *s);
void vn_source_free(void *source); /* fits the release callback of vn_tensor_wrap; NULL is fine */

#endif
