/* buffer.h -- counted storage behind tensors. */
#ifndef VN_TENSOR_BUFFER_H
#define VN_TENSOR_BUFFER_H

#include "vernier/tensor.h"

struct vn_buffer {
    int refs;                   /* atomic */
    void (*release)(void *ctx); /* foreign memory; NULL: none to call */
    void *ctx;
    vn_string_t *strings; /* elements whose text this buffer owns; NULL for other types and foreign memory */
    int64_t n_strings;
};

/** A tensor header with checked dims and row-major strides, no data yet. Errors: DTYPE, RANGE, NOMEM. */
vn_status_t vn_tensor_header(vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out, size_t *bytes, vn_error_t *err);
/** A header that shares t's buffer and data; the caller sets shape and strides. */
vn_status_t vn_tensor_view(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err);
/** Row-major strides of rank dims. */
void vn_row_major(int rank, const int64_t *dims, int64_t *strides);

#endif
