/* sparse.h -- a dense tensor as values and positions, the form in which sparse attributes are written. */
#ifndef VN_GRAPH_SPARSE_H
#define VN_GRAPH_SPARSE_H

#include "vernier/tensor.h"

/**
 * Elements whose bits are not all zero (so -0 counts), in row-major order.
 * Shapes     dense: any; values: [n]; indices: i64 [n], linear positions.
 * Ownership  both are the caller's.
 */
vn_status_t vn_sparse_split(const vn_tensor_t *dense, vn_tensor_t **values, vn_tensor_t **indices, vn_error_t *err);

#endif
