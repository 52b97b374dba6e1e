/* protos.h -- models with what the builder cannot make (functions, references, sparse and type attributes, broken fields):
 * protobuf-c messages as a file would hold them. Everything lives in an arena; protobuf-c never frees it. */
#ifndef VN_TEST_GRAPH_PROTOS_H
#define VN_TEST_GRAPH_PROTOS_H

#include <string.h>

#include "onnx-ml.pb-c.h"
#include "support/vn_test.h"
#include "vernier/graph.h"

typedef struct protos {
    vn_test_t *t;
    vn_arena_t *arena;
    Onnx__ModelProto *model;
    Onnx__GraphProto *graph;
} protos_t;

#define PROTO(p, type, init) ((Onnx__##type *)proto_new((p), sizeof(Onnx__##type), &(const Onnx__##type)init))
/* One more element of a repeated message field. */
#define PUSH(p, owner, field, message)                                                             \
    do {                                                                                           \
        void **list_ = vn_arena_alloc((p)->arena, (owner)->n_##field + 1, sizeof *list_);          \
        if ((owner)->n_##field) memcpy(list_, (owner)->field, (owner)->n_##field * sizeof *list_); \
        list_[(owner)->n_##field++] = (message);                                                   \
        (owner)->field = (void *)list_;                                                            \
    } while (0)

static inline void *proto_new(protos_t *p, size_t size, const void *init) { return memcpy(vn_arena_alloc(p->arena, 1, size), init, size); }
static inline char *proto_text(protos_t *p, const char *s) { return vn_arena_strdup(p->arena, s); }

static inline Onnx__OperatorSetIdProto *proto_opset(protos_t *p, const char *domain, int64_t version) {
    Onnx__OperatorSetIdProto *o = PROTO(p, OperatorSetIdProto, ONNX__OPERATOR_SET_ID_PROTO__INIT);
    o->domain = proto_text(p, domain);
    o->has_version = true;
    o->version = version;
    return o;
}

static inline Onnx__NodeProto *proto_node(protos_t *p, const char *op, const char *in, const char *out) {
    Onnx__NodeProto *n = PROTO(p, NodeProto, ONNX__NODE_PROTO__INIT);
    n->op_type = proto_text(p, op);
    if (in) PUSH(p, n, input, proto_text(p, in));
    if (out) PUSH(p, n, output, proto_text(p, out));
    return n;
}

static inline Onnx__AttributeProto *proto_attr(protos_t *p, Onnx__NodeProto *n, const char *name, int type) {
    Onnx__AttributeProto *a = PROTO(p, AttributeProto, ONNX__ATTRIBUTE_PROTO__INIT);
    a->name = proto_text(p, name);
    a->has_type = type != 0;
    a->type = type;
    if (n) PUSH(p, n, attribute, a);
    return a;
}

static inline Onnx__ValueInfoProto *proto_info(protos_t *p, const char *name, int elem, int rank, const int64_t *dims) {
    Onnx__ValueInfoProto *v = PROTO(p, ValueInfoProto, ONNX__VALUE_INFO_PROTO__INIT);
    Onnx__TypeProto *type = PROTO(p, TypeProto, ONNX__TYPE_PROTO__INIT);
    Onnx__TypeProto__Tensor *tensor = PROTO(p, TypeProto__Tensor, ONNX__TYPE_PROTO__TENSOR__INIT);
    v->name = proto_text(p, name);
    v->type = type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = elem;
    if (rank >= 0) tensor->shape = PROTO(p, TensorShapeProto, ONNX__TENSOR_SHAPE_PROTO__INIT);
    for (int k = 0; k < rank; ++k) {
        Onnx__TensorShapeProto__Dimension *d = PROTO(p, TensorShapeProto__Dimension, ONNX__TENSOR_SHAPE_PROTO__DIMENSION__INIT);
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        d->dim_value = dims[k];
        PUSH(p, tensor->shape, dim, d);
    }
    return v;
}

static inline Onnx__TensorProto *proto_tensor(protos_t *p, const char *name, int type, int rank, const int64_t *dims, const void *raw,
                                              size_t size) {
    Onnx__TensorProto *x = PROTO(p, TensorProto, ONNX__TENSOR_PROTO__INIT);
    x->name = proto_text(p, name);
    x->has_data_type = true;
    x->data_type = type;
    x->n_dims = (size_t)rank;
    x->dims = vn_arena_alloc(p->arena, (size_t)rank, sizeof *dims);
    if (rank) memcpy(x->dims, dims, (size_t)rank * sizeof *dims);
    x->has_raw_data = true;
    x->raw_data.len = size;
    x->raw_data.data = vn_arena_alloc(p->arena, size, 1);
    if (size) memcpy(x->raw_data.data, raw, size);
    return x;
}

/* x -> Neg -> y, f32 scalars, opset 21. */
static inline protos_t proto_model(vn_test_t *t) {
    protos_t p = {.t = t, .arena = vn_arena_new()};
    p.model = PROTO(&p, ModelProto, ONNX__MODEL_PROTO__INIT);
    p.graph = p.model->graph = PROTO(&p, GraphProto, ONNX__GRAPH_PROTO__INIT);
    p.model->has_ir_version = true;
    p.model->ir_version = 10;
    p.graph->name = proto_text(&p, "g");
    PUSH(&p, p.model, opset_import, proto_opset(&p, "", 21));
    PUSH(&p, p.graph, node, proto_node(&p, "Neg", "x", "y"));
    PUSH(&p, p.graph, input, proto_info(&p, "x", 1, 0, NULL));
    PUSH(&p, p.graph, output, proto_info(&p, "y", 1, 0, NULL));
    return p;
}

static inline unsigned char *proto_bytes(const protos_t *p, size_t *size) {
    *size = onnx__model_proto__get_packed_size(p->model);
    unsigned char *data = vn_alloc(*size, 1);
    onnx__model_proto__pack(p->model, data);
    return data;
}

/* Packs, releases the messages, parses. */
static inline vn_status_t proto_parse(protos_t *p, const char *folder, vn_model_t **m, vn_error_t *err) {
    size_t size;
    unsigned char *data = proto_bytes(p, &size);
    vn_status_t s = vn_model_parse(data, size, "made", folder, m, err);
    vn_free(data);
    vn_arena_free(p->arena);
    return s;
}

#endif
