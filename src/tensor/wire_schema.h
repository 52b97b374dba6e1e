/* wire_schema.h -- fields of the ONNX messages, as far as the scanner must know them. */
#ifndef VN_TENSOR_WIRE_SCHEMA_H
#define VN_TENSOR_WIRE_SCHEMA_H

#include <stdbool.h>
#include <stdint.h>

typedef enum wire_type { WIRE_VARINT, WIRE_FIX32, WIRE_FIX64, WIRE_TEXT, WIRE_BYTES, WIRE_RAW, WIRE_MESSAGE } wire_type_t;

typedef enum wire_message {
    M_MODEL,
    M_GRAPH,
    M_NODE,
    M_ATTRIBUTE,
    M_TENSOR,
    M_SEGMENT,
    M_SPARSE,
    M_VALUE_INFO,
    M_TYPE,
    M_TYPE_TENSOR,
    M_TYPE_ELEM,
    M_TYPE_MAP,
    M_TYPE_OPAQUE,
    M_SHAPE,
    M_DIM,
    M_FUNCTION,
    M_OPSET,
    M_ENTRY,
    M_TRAINING,
    M_ANNOTATION,
    M_DEVICE,
    M_NODE_DEVICE,
    M_SHARDING,
    M_INT_LIST,
    M_SHARDED_DIM,
    M_SIMPLE_SHARD,
    M_COUNT
} wire_message_t;

typedef struct wire_field {
    uint16_t number;
    uint8_t type;    /* wire_type_t */
    uint8_t message; /* of WIRE_MESSAGE */
    bool repeated;
    const char *name;
} wire_field_t;

typedef struct wire_row {
    const wire_field_t *fields;
    int count;
} wire_row_t;

enum { WIRE_MAX_FIELDS = 32 };

extern const wire_row_t vn_wire_schema[M_COUNT];

#endif
