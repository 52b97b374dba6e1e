/* wire_schema.c -- the table of ONNX messages (onnx-ml.proto up to IR version 14). */
#include "tensor/wire_schema.h"

#define ONE(n, type, name) \
    { n, type, 0, false, name }
#define MANY(n, type, name) \
    { n, type, 0, true, name }
#define SUB(n, message, name) \
    { n, WIRE_MESSAGE, message, false, name }
#define SUBS(n, message, name) \
    { n, WIRE_MESSAGE, message, true, name }

static const wire_field_t model[] = {
    ONE(1, WIRE_VARINT, "ir_version"),
    ONE(2, WIRE_TEXT, "producer_name"),
    ONE(3, WIRE_TEXT, "producer_version"),
    ONE(4, WIRE_TEXT, "domain"),
    ONE(5, WIRE_VARINT, "model_version"),
    ONE(6, WIRE_TEXT, "doc_string"),
    SUB(7, M_GRAPH, "graph"),
    SUBS(8, M_OPSET, "opset_import"),
    SUBS(14, M_ENTRY, "metadata_props"),
    SUBS(20, M_TRAINING, "training_info"),
    SUBS(25, M_FUNCTION, "functions"),
    SUBS(26, M_DEVICE, "configuration"),
};
static const wire_field_t graph[] = {
    SUBS(1, M_NODE, "node"),
    ONE(2, WIRE_TEXT, "name"),
    SUBS(5, M_TENSOR, "initializer"),
    ONE(10, WIRE_TEXT, "doc_string"),
    SUBS(11, M_VALUE_INFO, "input"),
    SUBS(12, M_VALUE_INFO, "output"),
    SUBS(13, M_VALUE_INFO, "value_info"),
    SUBS(14, M_ANNOTATION, "quantization_annotation"),
    SUBS(15, M_SPARSE, "sparse_initializer"),
    SUBS(16, M_ENTRY, "metadata_props"),
};
static const wire_field_t node[] = {
    MANY(1, WIRE_TEXT, "input"),        MANY(2, WIRE_TEXT, "output"),
    ONE(3, WIRE_TEXT, "name"),          ONE(4, WIRE_TEXT, "op_type"),
    SUBS(5, M_ATTRIBUTE, "attribute"),  ONE(6, WIRE_TEXT, "doc_string"),
    ONE(7, WIRE_TEXT, "domain"),        ONE(8, WIRE_TEXT, "overload"),
    SUBS(9, M_ENTRY, "metadata_props"), SUBS(10, M_NODE_DEVICE, "device_configurations"),
};
static const wire_field_t attribute[] = {
    ONE(1, WIRE_TEXT, "name"),
    ONE(2, WIRE_FIX32, "f"),
    ONE(3, WIRE_VARINT, "i"),
    ONE(4, WIRE_BYTES, "s"),
    SUB(5, M_TENSOR, "t"),
    SUB(6, M_GRAPH, "g"),
    MANY(7, WIRE_FIX32, "floats"),
    MANY(8, WIRE_VARINT, "ints"),
    MANY(9, WIRE_BYTES, "strings"),
    SUBS(10, M_TENSOR, "tensors"),
    SUBS(11, M_GRAPH, "graphs"),
    ONE(13, WIRE_TEXT, "doc_string"),
    SUB(14, M_TYPE, "tp"),
    SUBS(15, M_TYPE, "type_protos"),
    ONE(20, WIRE_VARINT, "type"),
    ONE(21, WIRE_TEXT, "ref_attr_name"),
    SUB(22, M_SPARSE, "sparse_tensor"),
    SUBS(23, M_SPARSE, "sparse_tensors"),
};
static const wire_field_t tensor[] = {
    MANY(1, WIRE_VARINT, "dims"),         ONE(2, WIRE_VARINT, "data_type"),
    SUB(3, M_SEGMENT, "segment"),         MANY(4, WIRE_FIX32, "float_data"),
    MANY(5, WIRE_VARINT, "int32_data"),   MANY(6, WIRE_BYTES, "string_data"),
    MANY(7, WIRE_VARINT, "int64_data"),   ONE(8, WIRE_TEXT, "name"),
    ONE(9, WIRE_RAW, "raw_data"),         MANY(10, WIRE_FIX64, "double_data"),
    MANY(11, WIRE_VARINT, "uint64_data"), ONE(12, WIRE_TEXT, "doc_string"),
    SUBS(13, M_ENTRY, "external_data"),   ONE(14, WIRE_VARINT, "data_location"),
    SUBS(16, M_ENTRY, "metadata_props"),
};
static const wire_field_t segment[] = {ONE(1, WIRE_VARINT, "begin"), ONE(2, WIRE_VARINT, "end")};
static const wire_field_t sparse[] = {SUB(1, M_TENSOR, "values"), SUB(2, M_TENSOR, "indices"), MANY(3, WIRE_VARINT, "dims")};
static const wire_field_t value_info[] = {
    ONE(1, WIRE_TEXT, "name"),
    SUB(2, M_TYPE, "type"),
    ONE(3, WIRE_TEXT, "doc_string"),
    SUBS(4, M_ENTRY, "metadata_props"),
};
static const wire_field_t type[] = {
    SUB(1, M_TYPE_TENSOR, "tensor_type"), SUB(4, M_TYPE_ELEM, "sequence_type"), SUB(5, M_TYPE_MAP, "map_type"),
    ONE(6, WIRE_TEXT, "denotation"),      SUB(7, M_TYPE_OPAQUE, "opaque_type"), SUB(8, M_TYPE_TENSOR, "sparse_tensor_type"),
    SUB(9, M_TYPE_ELEM, "optional_type"),
};
static const wire_field_t type_tensor[] = {ONE(1, WIRE_VARINT, "elem_type"), SUB(2, M_SHAPE, "shape")};
static const wire_field_t type_elem[] = {SUB(1, M_TYPE, "elem_type")};
static const wire_field_t type_map[] = {ONE(1, WIRE_VARINT, "key_type"), SUB(2, M_TYPE, "value_type")};
static const wire_field_t type_opaque[] = {ONE(1, WIRE_TEXT, "domain"), ONE(2, WIRE_TEXT, "name")};
static const wire_field_t shape[] = {SUBS(1, M_DIM, "dim")};
static const wire_field_t dim[] = {ONE(1, WIRE_VARINT, "dim_value"), ONE(2, WIRE_TEXT, "dim_param"), ONE(3, WIRE_TEXT, "denotation")};
static const wire_field_t function[] = {
    ONE(1, WIRE_TEXT, "name"),
    MANY(4, WIRE_TEXT, "input"),
    MANY(5, WIRE_TEXT, "output"),
    MANY(6, WIRE_TEXT, "attribute"),
    SUBS(7, M_NODE, "node"),
    ONE(8, WIRE_TEXT, "doc_string"),
    SUBS(9, M_OPSET, "opset_import"),
    ONE(10, WIRE_TEXT, "domain"),
    SUBS(11, M_ATTRIBUTE, "attribute_proto"),
    SUBS(12, M_VALUE_INFO, "value_info"),
    ONE(13, WIRE_TEXT, "overload"),
    SUBS(14, M_ENTRY, "metadata_props"),
};
static const wire_field_t opset[] = {ONE(1, WIRE_TEXT, "domain"), ONE(2, WIRE_VARINT, "version")};
static const wire_field_t entry[] = {ONE(1, WIRE_TEXT, "key"), ONE(2, WIRE_TEXT, "value")};
static const wire_field_t training[] = {
    SUB(1, M_GRAPH, "initialization"),
    SUB(2, M_GRAPH, "algorithm"),
    SUBS(3, M_ENTRY, "initialization_binding"),
    SUBS(4, M_ENTRY, "update_binding"),
};
static const wire_field_t annotation[] = {ONE(1, WIRE_TEXT, "tensor_name"), SUBS(2, M_ENTRY, "quant_parameter_tensor_names")};
static const wire_field_t device[] = {ONE(1, WIRE_TEXT, "name"), ONE(2, WIRE_VARINT, "num_devices"), MANY(3, WIRE_TEXT, "device")};
static const wire_field_t node_device[] = {
    ONE(1, WIRE_TEXT, "configuration_id"),
    SUBS(2, M_SHARDING, "sharding_spec"),
    ONE(3, WIRE_VARINT, "pipeline_stage"),
};
static const wire_field_t sharding[] = {
    ONE(1, WIRE_TEXT, "tensor_name"),
    MANY(2, WIRE_VARINT, "device"),
    SUBS(3, M_INT_LIST, "index_to_device_group_map"),
    SUBS(4, M_SHARDED_DIM, "sharded_dim"),
};
static const wire_field_t int_list[] = {ONE(1, WIRE_VARINT, "key"), MANY(2, WIRE_VARINT, "value")};
static const wire_field_t sharded_dim[] = {ONE(1, WIRE_VARINT, "axis"), SUBS(2, M_SIMPLE_SHARD, "simple_sharding")};
static const wire_field_t simple_shard[] = {
    ONE(1, WIRE_VARINT, "dim_value"),
    ONE(2, WIRE_TEXT, "dim_param"),
    ONE(3, WIRE_VARINT, "num_shards"),
};

#define ROW(fields) \
    { fields, sizeof fields / sizeof *fields }
const wire_row_t vn_wire_schema[M_COUNT] = {
    [M_MODEL] = ROW(model),
    [M_GRAPH] = ROW(graph),
    [M_NODE] = ROW(node),
    [M_ATTRIBUTE] = ROW(attribute),
    [M_TENSOR] = ROW(tensor),
    [M_SEGMENT] = ROW(segment),
    [M_SPARSE] = ROW(sparse),
    [M_VALUE_INFO] = ROW(value_info),
    [M_TYPE] = ROW(type),
    [M_TYPE_TENSOR] = ROW(type_tensor),
    [M_TYPE_ELEM] = ROW(type_elem),
    [M_TYPE_MAP] = ROW(type_map),
    [M_TYPE_OPAQUE] = ROW(type_opaque),
    [M_SHAPE] = ROW(shape),
    [M_DIM] = ROW(dim),
    [M_FUNCTION] = ROW(function),
    [M_OPSET] = ROW(opset),
    [M_ENTRY] = ROW(entry),
    [M_TRAINING] = ROW(training),
    [M_ANNOTATION] = ROW(annotation),
    [M_DEVICE] = ROW(device),
    [M_NODE_DEVICE] = ROW(node_device),
    [M_SHARDING] = ROW(sharding),
    [M_INT_LIST] = ROW(int_list),
    [M_SHARDED_DIM] = ROW(sharded_dim),
    [M_SIMPLE_SHARD] = ROW(simple_shard),
};
