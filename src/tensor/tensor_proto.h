/* tensor_proto.h -- ONNX TensorProto and SparseTensorProto to tensors and back (rooms: tensor, graph). */
#ifndef VN_TENSOR_TENSOR_PROTO_H
#define VN_TENSOR_TENSOR_PROTO_H

#include "onnx-ml.pb-c.h"

#include "tensor/source.h"
#include "vernier/tensor.h"

/** Where the protos of one file come from. Fill source, skeleton, folder; release with vn_proto_origin_free. */
typedef struct vn_proto_origin {
    vn_source_t *source; /* bytes behind raw_data (retained); may be NULL if skeleton is false */
    bool skeleton;       /* raw_data fields have the form of wire.h; false: they hold the data itself */
    const char *folder;  /* of external data (borrowed); NULL: external data is refused */
    char *real_folder;   /* private: resolved folder */
    struct vn_proto_external {
        char *path;
        vn_source_t *source;
    } * externals; /* private: files mapped so far */
    int n_externals;
} vn_proto_origin_t;

void vn_proto_origin_free(vn_proto_origin_t *origin);

/**
 * Any element type, from raw_data, the typed data fields, or external data.
 * Errors     PARSE: contents and dims disagree; RANGE: hostile dims; UNSUPPORTED: 6-bit floats, segments; IO and USAGE for external data:
 *            its location must stay inside the folder, also behind symbolic links. `label` (file and field) begins each text.
 * Ownership  *out: vn_tensor_free. It points into the source or the external file where the data lies aligned there, and keeps that alive;
 *            else, and for up to VN_WIRE_INLINE bytes, it is a copy. The checksum key of external data is not verified.
 * Threads    one origin, one thread; the tensors are free afterwards.
 */
vn_status_t vn_tensor_from_proto(const Onnx__TensorProto *p, vn_proto_origin_t *origin, const char *label, vn_tensor_t **out,
                                 vn_error_t *err);

/** Dense form, zeros (false, "") where nothing is stored. A dense form of more than 2^32 bytes is UNSUPPORTED; bad indices are PARSE. */
vn_status_t vn_sparse_from_proto(const Onnx__SparseTensorProto *p, vn_proto_origin_t *origin, const char *label, vn_tensor_t **out,
                                 vn_error_t *err);

/**
 * For writing: raw_data, strings in string_data. *out is initialised here; all it points to lives in `arena`, but raw_data of a contiguous
 * tensor is t's own memory: keep t until the message is packed. name may be NULL.
 */
vn_status_t vn_tensor_to_proto(const vn_tensor_t *t, const char *name, vn_arena_t *arena, Onnx__TensorProto *out, vn_error_t *err);

#endif
