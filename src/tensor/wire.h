/* wire.h -- a bounded scanner for ONNX protobuf bytes, run before protobuf-c sees them (rooms: tensor, graph).
 *
 * It checks every tag, varint, length, wire type and nesting depth, and writes a *skeleton*: the same message, canonically encoded, without
 * unknown fields, and with every TensorProto.raw_data replaced, so that protobuf-c never copies bulk data and never recurses deeply.
 *
 * raw_data in a skeleton, always one of:
 *   byte 0, then the data itself                                   (data of at most VN_WIRE_INLINE bytes)
 *   byte 1, then offset and length of the data in the source, each 8 bytes, little-endian
 * vn_wire_raw reads either form. A skeleton is at most 1.5 times as long as its source.
 */
#ifndef VN_TENSOR_WIRE_H
#define VN_TENSOR_WIRE_H

#include "vernier/base.h"

enum {
    VN_WIRE_MAX_NESTING = 64,       /* messages inside messages, the outermost not counted */
    VN_WIRE_MAX_MESSAGES = 1 << 23, /* an empty message of 2 bytes costs protobuf-c some 100: a bound on that amplification */
    VN_WIRE_INLINE = 64
};

/** Outermost message. */
typedef enum vn_wire_kind {
    VN_WIRE_MODEL,
    VN_WIRE_GRAPH,
    VN_WIRE_NODE,
    VN_WIRE_FUNCTION,
    VN_WIRE_TENSOR,
    VN_WIRE_SPARSE,
    VN_WIRE_TYPE
} vn_wire_kind_t;

typedef struct vn_wire_scan {
    unsigned char *skeleton; /* vn_free */
    size_t size;
    int64_t messages;   /* all messages, the outermost not counted */
    int64_t raw_count;  /* raw_data fields that stay in the source */
    uint64_t raw_bytes; /* their bytes */
} vn_wire_scan_t;

/**
 * Scans data[0, size). `label` names the source in errors.
 * Errors     PARSE: "LABEL: graph.node[17].attribute[2]: field runs past the end of the file (offset 81204 of 81000); is the download
 *            complete?"; what is no ONNX at all is called so, and what it seems to be. NOMEM. *out is empty then.
 * Ownership  vn_wire_scan_free(out).
 */
vn_status_t vn_wire_scan(const void *data, size_t size, vn_wire_kind_t kind, const char *label, vn_wire_scan_t *out, vn_error_t *err);
void vn_wire_scan_free(vn_wire_scan_t *scan);

/** Data of a raw_data field of a skeleton over source[0, size). False: not such a field. */
bool vn_wire_raw(const void *field, size_t field_size, const unsigned char *source, size_t size, const unsigned char **data,
                 size_t *length);

#endif
