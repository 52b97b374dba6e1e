/* convert.h -- protobuf-c messages of a model that was read -> the structures of vernier/graph.h. */
#ifndef VN_GRAPH_CONVERT_H
#define VN_GRAPH_CONVERT_H

#include "internal.h"
#include "onnx-ml.pb-c.h"

/** Gives the tensor of a TensorProto; the caller takes over *out. `label` begins error texts. */
typedef vn_status_t (*vn_tensor_fn)(void *ctx, const Onnx__TensorProto *p, const char *label, vn_tensor_t **out, vn_error_t *err);
typedef vn_status_t (*vn_sparse_fn)(void *ctx, const Onnx__SparseTensorProto *p, const char *label, vn_tensor_t **out, vn_error_t *err);
typedef struct vn_tensor_source {
    vn_tensor_fn dense;
    vn_sparse_fn sparse;
    void *ctx;
} vn_tensor_source_t;

/** Fills the empty model m. Everything is copied out of p. Errors: PARSE, RANGE, DTYPE, UNSUPPORTED name the field. */
vn_status_t vn_convert_model(const Onnx__ModelProto *p, const vn_tensor_source_t *tensors, vn_model_t *m, vn_error_t *err);

#endif
