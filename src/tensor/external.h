/* external.h -- external data of a TensorProto: found, kept inside its folder, mapped once a file. */
#ifndef VN_TENSOR_EXTERNAL_H
#define VN_TENSOR_EXTERNAL_H

#include "tensor/tensor_proto.h"

/** The `bytes` bytes that p names. *source is borrowed from the origin, *data points into it. */
vn_status_t vn_external_find(const Onnx__TensorProto *p, vn_proto_origin_t *origin, const char *label, size_t bytes, vn_source_t **source,
                             const unsigned char **data, vn_error_t *err);

#endif
