/* write.c -- a model as bytes: structures -> protobuf-c messages that point at our memory -> one buffer, one copy. */
#include "internal.h"

#include <limits.h>
#include <string.h>

#include "onnx-ml.pb-c.h"
#include "outside.h"
#include "sparse.h"
#include "tensor/tensor_proto.h"

/* A protobuf message cannot be larger: its readers count bytes in a signed 32-bit integer. */
static const uint64_t PROTO_LIMIT = INT32_MAX;

typedef struct writer {
    vn_arena_t *arena;     /* messages; gone after packing */
    vn_outside_t *outside; /* NULL: every tensor is inside */
    uint64_t outside_from; /* initialisers of more bytes go outside */
    vn_tensor_t **kept;    /* made for this message */
    size_t n_kept;
    int depth;
    vn_error_t *err;
} writer_t;

static vn_status_t nomem(writer_t *w) { return vn_no_memory(w->err, "serialising a model"); }

#define NEW(w, type, init, var)                                     \
    Onnx__##type *var = vn_arena_alloc((w)->arena, 1, sizeof *var); \
    if (!var) return nomem(w);                                      \
    onnx__##init##__init(var)

/* A repeated field: an arena array of pointers. */
#define LIST(w, field, count)                                                   \
    do {                                                                        \
        (field) = vn_arena_alloc((w)->arena, (size_t)(count), sizeof *(field)); \
        if (!(field)) return nomem(w);                                          \
    } while (0)

/* protobuf-c declares strings writable, and only reads them. Optional texts that are empty are left out. */
static char *text(const char *s) { return (char *)s; }
static char *optional_text(const char *s) { return s && s[0] ? (char *)s : NULL; }
static ProtobufCBinaryData bytes(vn_string_t s) { return (ProtobufCBinaryData){.len = s.length, .data = (uint8_t *)s.text}; }

static vn_status_t enter(writer_t *w) {
    if (w->depth >= VN_MAX_NESTING)
        return vn_fail(w->err, VN_ERR_RANGE, "graphs or types nested deeper than %d; flatten the model", VN_MAX_NESTING);
    w->depth++;
    return VN_OK;
}

/* ---- types ---- */

static vn_status_t put_shape(writer_t *w, const vn_type_t *t, Onnx__TensorShapeProto **out) {
    *out = NULL;
    if (t->rank < 0) return VN_OK;
    NEW(w, TensorShapeProto, tensor_shape_proto, shape);
    LIST(w, shape->dim, t->rank);
    shape->n_dim = (size_t)t->rank;
    for (int k = 0; k < t->rank; ++k) {
        NEW(w, TensorShapeProto__Dimension, tensor_shape_proto__dimension, d);
        if (t->dims[k].value >= 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = t->dims[k].value;
        } else if (t->dims[k].param) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = text(t->dims[k].param);
        }
        shape->dim[k] = d;
    }
    *out = shape;
    return VN_OK;
}

static vn_status_t put_type(writer_t *w, const vn_type_t *t, Onnx__TypeProto **out) {
    *out = NULL;
    if (t->kind == VN_TYPE_NONE) return VN_OK;
    VN_TRY(enter(w));
    NEW(w, TypeProto, type_proto, p);
    Onnx__TypeProto *elem = NULL;
    if (t->elem) VN_TRY(put_type(w, t->elem, &elem));
    switch (t->kind) {
    case VN_TYPE_NONE: break;
    case VN_TYPE_TENSOR: {
        NEW(w, TypeProto__Tensor, type_proto__tensor, v);
        v->has_elem_type = true;
        v->elem_type = (int32_t)t->dtype;
        VN_TRY(put_shape(w, t, &v->shape));
        p->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
        p->tensor_type = v;
        break;
    }
    case VN_TYPE_SPARSE: {
        NEW(w, TypeProto__SparseTensor, type_proto__sparse_tensor, v);
        v->has_elem_type = true;
        v->elem_type = (int32_t)t->dtype;
        VN_TRY(put_shape(w, t, &v->shape));
        p->value_case = ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE;
        p->sparse_tensor_type = v;
        break;
    }
    case VN_TYPE_SEQUENCE: {
        NEW(w, TypeProto__Sequence, type_proto__sequence, v);
        v->elem_type = elem;
        p->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
        p->sequence_type = v;
        break;
    }
    case VN_TYPE_OPTIONAL: {
        NEW(w, TypeProto__Optional, type_proto__optional, v);
        v->elem_type = elem;
        p->value_case = ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
        p->optional_type = v;
        break;
    }
    case VN_TYPE_MAP: {
        NEW(w, TypeProto__Map, type_proto__map, v);
        v->has_key_type = true;
        v->key_type = (int32_t)t->dtype;
        v->value_type = elem;
        p->value_case = ONNX__TYPE_PROTO__VALUE_MAP_TYPE;
        p->map_type = v;
        break;
    }
    }
    w->depth--;
    *out = p;
    return VN_OK;
}

static vn_status_t put_infos(writer_t *w, int n, const vn_value_info_t *infos, size_t *count, Onnx__ValueInfoProto ***out) {
    LIST(w, *out, n);
    for (int k = 0; k < n; ++k) {
        NEW(w, ValueInfoProto, value_info_proto, v);
        v->name = text(infos[k].name);
        VN_TRY(put_type(w, &infos[k].type, &v->type));
        (*out)[k] = v;
    }
    *count = (size_t)n;
    return VN_OK;
}

/* ---- attributes ---- */

static vn_status_t put_graph(writer_t *w, const vn_graph_t *g, Onnx__GraphProto **out);

static vn_status_t put_tensor(writer_t *w, const char *name, const vn_tensor_t *t, Onnx__TensorProto **out) {
    *out = vn_arena_alloc(w->arena, 1, sizeof **out);
    return *out ? vn_tensor_to_proto(t, name, w->arena, *out, w->err) : nomem(w);
}

/* Takes over t; it lives until the message is packed. */
static vn_status_t keep(writer_t *w, vn_tensor_t *t) {
    vn_tensor_t **kept = vn_realloc(w->kept, w->n_kept + 1, sizeof *kept);
    if (!kept) {
        vn_tensor_free(t);
        return nomem(w);
    }
    w->kept = kept;
    w->kept[w->n_kept++] = t;
    return VN_OK;
}

static const Onnx__AttributeProto__AttributeType wire_kinds[] = {
    [VN_ATTR_NONE] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED,
    [VN_ATTR_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
    [VN_ATTR_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
    [VN_ATTR_STRING] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
    [VN_ATTR_TENSOR] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR,
    [VN_ATTR_GRAPH] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH,
    [VN_ATTR_FLOATS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS,
    [VN_ATTR_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
    [VN_ATTR_STRINGS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS,
    [VN_ATTR_TENSORS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSORS,
    [VN_ATTR_GRAPHS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS,
    [VN_ATTR_SPARSE_TENSOR] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR,
    [VN_ATTR_SPARSE_TENSORS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSORS,
    [VN_ATTR_TYPE] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO,
    [VN_ATTR_TYPES] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTOS,
};

static vn_status_t put_sparse(writer_t *w, const vn_tensor_t *dense, Onnx__SparseTensorProto **out) {
    vn_tensor_t *values, *indices;
    VN_TRY(vn_sparse_split(dense, &values, &indices, w->err));
    vn_status_t s = keep(w, values);
    vn_status_t also = keep(w, indices);
    if (s != VN_OK || also != VN_OK) return nomem(w);
    NEW(w, SparseTensorProto, sparse_tensor_proto, p);
    LIST(w, p->dims, dense->rank);
    p->n_dims = (size_t)dense->rank;
    for (int k = 0; k < dense->rank; ++k) p->dims[k] = dense->dims[k];
    VN_TRY(put_tensor(w, NULL, values, &p->values));
    VN_TRY(put_tensor(w, NULL, indices, &p->indices));
    *out = p;
    return VN_OK;
}

static vn_status_t put_attr(writer_t *w, const vn_attr_t *a, Onnx__AttributeProto **out) {
    NEW(w, AttributeProto, attribute_proto, p);
    size_t n = (size_t)a->count;
    p->name = text(a->name);
    p->has_type = true;
    p->type = wire_kinds[a->kind];
    *out = p;
    if (a->ref) {
        p->ref_attr_name = text(a->ref);
        return VN_OK;
    }
    switch (a->kind) {
    case VN_ATTR_NONE: return vn_fail(w->err, VN_ERR_USAGE, "attribute '%.200s' has no value to write", a->name);
    case VN_ATTR_FLOAT:
        p->has_f = true;
        p->f = a->f;
        return VN_OK;
    case VN_ATTR_INT:
        p->has_i = true;
        p->i = a->i;
        return VN_OK;
    case VN_ATTR_STRING:
        p->has_s = true;
        p->s = bytes(a->s);
        return VN_OK;
    case VN_ATTR_TENSOR: return put_tensor(w, NULL, a->t, &p->t);
    case VN_ATTR_SPARSE_TENSOR: return put_sparse(w, a->t, &p->sparse_tensor);
    case VN_ATTR_GRAPH: return put_graph(w, a->g, &p->g);
    case VN_ATTR_TYPE: return put_type(w, a->types, &p->tp);
    case VN_ATTR_FLOATS:
        p->floats = (float *)a->floats;
        p->n_floats = n;
        return VN_OK;
    case VN_ATTR_INTS:
        p->ints = (int64_t *)a->ints;
        p->n_ints = n;
        return VN_OK;
    case VN_ATTR_STRINGS:
        LIST(w, p->strings, n);
        for (size_t k = 0; k < n; ++k) p->strings[k] = bytes(a->strings[k]);
        p->n_strings = n;
        return VN_OK;
    case VN_ATTR_TENSORS:
        LIST(w, p->tensors, n);
        for (size_t k = 0; k < n; ++k) VN_TRY(put_tensor(w, NULL, a->tensors[k], &p->tensors[k]));
        p->n_tensors = n;
        return VN_OK;
    case VN_ATTR_SPARSE_TENSORS:
        LIST(w, p->sparse_tensors, n);
        for (size_t k = 0; k < n; ++k) VN_TRY(put_sparse(w, a->tensors[k], &p->sparse_tensors[k]));
        p->n_sparse_tensors = n;
        return VN_OK;
    case VN_ATTR_GRAPHS:
        LIST(w, p->graphs, n);
        for (size_t k = 0; k < n; ++k) VN_TRY(put_graph(w, a->graphs[k], &p->graphs[k]));
        p->n_graphs = n;
        return VN_OK;
    case VN_ATTR_TYPES:
        LIST(w, p->type_protos, n);
        for (size_t k = 0; k < n; ++k) VN_TRY(put_type(w, &a->types[k], &p->type_protos[k]));
        p->n_type_protos = n;
        return VN_OK;
    }
    return VN_OK;
}

static vn_status_t put_attrs(writer_t *w, int n, const vn_attr_t *attrs, size_t *count, Onnx__AttributeProto ***out) {
    LIST(w, *out, n);
    for (int k = 0; k < n; ++k) VN_TRY(put_attr(w, &attrs[k], &(*out)[k]));
    *count = (size_t)n;
    return VN_OK;
}

/* ---- nodes, graphs, functions, the model ---- */

static vn_status_t put_nodes(writer_t *w, int n, const vn_node_t *nodes, size_t *count, Onnx__NodeProto ***out) {
    LIST(w, *out, n);
    for (int i = 0; i < n; ++i) {
        NEW(w, NodeProto, node_proto, p);
        p->input = (char **)nodes[i].inputs;
        p->n_input = (size_t)nodes[i].n_inputs;
        p->output = (char **)nodes[i].outputs;
        p->n_output = (size_t)nodes[i].n_outputs;
        p->name = optional_text(nodes[i].name);
        p->op_type = text(nodes[i].op);
        p->domain = optional_text(nodes[i].domain);
        p->overload = optional_text(nodes[i].overload);
        VN_TRY(put_attrs(w, nodes[i].n_attrs, nodes[i].attrs, &p->n_attribute, &p->attribute));
        (*out)[i] = p;
    }
    *count = (size_t)n;
    return VN_OK;
}

static vn_status_t put_entry(writer_t *w, const char *key, const char *value, Onnx__StringStringEntryProto **out) {
    NEW(w, StringStringEntryProto, string_string_entry_proto, e);
    if (!value) return nomem(w);
    e->key = text(key);
    e->value = text(value);
    *out = e;
    return VN_OK;
}

static vn_status_t put_outside(writer_t *w, const vn_init_t *init, size_t size, Onnx__TensorProto **out) {
    vn_tensor_t *t;
    uint64_t offset = 0;
    VN_TRY(vn_tensor_contiguous(init->tensor, &t, w->err));
    vn_status_t s = vn_outside_add(w->outside, t, size, &offset, w->err);
    vn_tensor_free(t);
    VN_TRY(s);
    NEW(w, TensorProto, tensor_proto, p);
    p->name = text(init->name);
    p->has_data_type = true;
    p->data_type = (int32_t)init->tensor->dtype;
    LIST(w, p->dims, init->tensor->rank);
    p->n_dims = (size_t)init->tensor->rank;
    for (int k = 0; k < init->tensor->rank; ++k) p->dims[k] = init->tensor->dims[k];
    p->has_data_location = true;
    p->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    p->n_external_data = 3;
    LIST(w, p->external_data, 3);
    VN_TRY(put_entry(w, "location", w->outside->location, &p->external_data[0]));
    VN_TRY(put_entry(w, "offset", vn_arena_printf(w->arena, "%llu", (unsigned long long)offset), &p->external_data[1]));
    VN_TRY(put_entry(w, "length", vn_arena_printf(w->arena, "%zu", size), &p->external_data[2]));
    *out = p;
    return VN_OK;
}

static vn_status_t put_init(writer_t *w, const vn_init_t *init, Onnx__TensorProto **out) {
    size_t size = 0;
    const vn_tensor_t *t = init->tensor;
    if (!w->outside || t->dtype == VN_STRING || !vn_dtype_storage(t->dtype, t->count, &size) || size <= w->outside_from)
        return put_tensor(w, init->name, t, out);
    return put_outside(w, init, size, out);
}

static vn_status_t put_graph(writer_t *w, const vn_graph_t *g, Onnx__GraphProto **out) {
    VN_TRY(enter(w));
    NEW(w, GraphProto, graph_proto, p);
    p->name = text(g->name);
    VN_TRY(put_nodes(w, g->n_nodes, g->nodes, &p->n_node, &p->node));
    LIST(w, p->initializer, g->n_inits);
    p->n_initializer = (size_t)g->n_inits;
    for (int k = 0; k < g->n_inits; ++k) VN_TRY(put_init(w, &g->inits[k], &p->initializer[k]));
    VN_TRY(put_infos(w, g->n_inputs, g->inputs, &p->n_input, &p->input));
    VN_TRY(put_infos(w, g->n_outputs, g->outputs, &p->n_output, &p->output));
    VN_TRY(put_infos(w, g->n_infos, g->infos, &p->n_value_info, &p->value_info));
    w->depth--;
    *out = p;
    return VN_OK;
}

static vn_status_t put_opsets(writer_t *w, int n, const vn_opset_t *opsets, size_t *count, Onnx__OperatorSetIdProto ***out) {
    LIST(w, *out, n);
    for (int k = 0; k < n; ++k) {
        NEW(w, OperatorSetIdProto, operator_set_id_proto, p);
        p->domain = text(opsets[k].domain);
        p->has_version = true;
        p->version = opsets[k].version;
        (*out)[k] = p;
    }
    *count = (size_t)n;
    return VN_OK;
}

static vn_status_t put_function(writer_t *w, const vn_function_t *f, Onnx__FunctionProto **out) {
    NEW(w, FunctionProto, function_proto, p);
    p->name = text(f->name);
    p->domain = text(f->domain);
    p->overload = optional_text(f->overload);
    p->input = (char **)f->inputs;
    p->n_input = (size_t)f->n_inputs;
    p->output = (char **)f->outputs;
    p->n_output = (size_t)f->n_outputs;
    p->attribute = (char **)f->attr_names;
    p->n_attribute = (size_t)f->n_attr_names;
    VN_TRY(put_attrs(w, f->n_attr_defaults, f->attr_defaults, &p->n_attribute_proto, &p->attribute_proto));
    VN_TRY(put_nodes(w, f->body->n_nodes, f->body->nodes, &p->n_node, &p->node));
    VN_TRY(put_infos(w, f->body->n_infos, f->body->infos, &p->n_value_info, &p->value_info));
    VN_TRY(put_opsets(w, f->n_opsets, f->opsets, &p->n_opset_import, &p->opset_import));
    *out = p;
    return VN_OK;
}

static vn_status_t put_model(writer_t *w, const vn_model_t *m, Onnx__ModelProto **out) {
    NEW(w, ModelProto, model_proto, p);
    p->has_ir_version = true;
    p->ir_version = m->ir_version;
    p->producer_name = optional_text(m->producer);
    p->producer_version = optional_text(m->producer_version);
    p->domain = optional_text(m->domain);
    p->has_model_version = m->model_version != 0;
    p->model_version = m->model_version;
    VN_TRY(put_opsets(w, m->n_opsets, m->opsets, &p->n_opset_import, &p->opset_import));
    VN_TRY(put_graph(w, m->graph, &p->graph));
    LIST(w, p->functions, m->n_functions);
    p->n_functions = (size_t)m->n_functions;
    for (int k = 0; k < m->n_functions; ++k) VN_TRY(put_function(w, &m->functions[k], &p->functions[k]));
    LIST(w, p->metadata_props, m->n_metas);
    p->n_metadata_props = (size_t)m->n_metas;
    for (int k = 0; k < m->n_metas; ++k) VN_TRY(put_entry(w, m->metas[k].key, m->metas[k].value, &p->metadata_props[k]));
    *out = p;
    return VN_OK;
}

/* ---- packing ---- */

typedef struct sink {
    ProtobufCBuffer base;
    uint8_t *data;
    size_t size, used;
    bool overrun;
} sink_t;

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data) {
    sink_t *s = (sink_t *)buffer;
    if (n > s->size - s->used) {
        s->overrun = true;
        return;
    }
    if (n) memcpy(s->data + s->used, data, n);
    s->used += n;
}

/* Appending copies each tensor once; protobuf_c_message_pack would move it again at every level of nesting. */
static vn_status_t pack(writer_t *w, const Onnx__ModelProto *p, size_t size, void **data) {
    sink_t sink = {.base = {.append = append}, .data = vn_alloc(size, 1), .size = size};
    if (!sink.data) return vn_fail(w->err, VN_ERR_NOMEM, "out of memory while serialising a model of %zu bytes", size);
    protobuf_c_message_pack_to_buffer(&p->base, &sink.base);
    if (sink.overrun || sink.used != size) {
        vn_free(sink.data);
        return vn_fail(w->err, VN_ERR_INTERNAL, "serialising a model: %zu bytes expected, %zu written", size, sink.used);
    }
    *data = sink.data;
    return VN_OK;
}

static void release(writer_t *w) {
    for (size_t k = 0; k < w->n_kept; ++k) vn_tensor_free(w->kept[k]);
    vn_free(w->kept);
    vn_arena_free(w->arena);
}

/* Packs if the message has at most `limit` bytes. *size is set in any case. */
static vn_status_t serialise(const vn_model_t *m, vn_outside_t *outside, uint64_t outside_from, uint64_t limit, void **data, size_t *size,
                             vn_error_t *err) {
    writer_t w = {.arena = vn_arena_new(), .outside = outside, .outside_from = outside_from, .err = err};
    Onnx__ModelProto *p = NULL;
    *data = NULL;
    *size = 0;
    vn_status_t s = !w.arena ? nomem(&w) : put_model(&w, m, &p);
    if (s == VN_OK) *size = onnx__model_proto__get_packed_size(p);
    if (s == VN_OK && *size <= limit) s = pack(&w, p, *size, data);
    release(&w);
    return s;
}

static vn_status_t too_large(size_t size, vn_error_t *err) {
    return vn_fail(err, VN_ERR_UNSUPPORTED,
                   "the model has %zu bytes in one message and protobuf allows %llu; write it to a file, where tensors can go beside it",
                   size, (unsigned long long)PROTO_LIMIT);
}

vn_status_t vn_model_bytes(const vn_model_t *m, void **data, size_t *size, vn_error_t *err) {
    VN_TRY(serialise(m, NULL, 0, PROTO_LIMIT, data, size, err));
    return *data ? VN_OK : too_large(*size, err);
}

typedef struct stream {
    ProtobufCBuffer base; /* first: protobuf-c hands this back */
    void (*put)(void *ctx, const void *data, size_t n);
    void *ctx;
} stream_t;

static void stream_append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data) {
    stream_t *s = (stream_t *)buffer;
    s->put(s->ctx, data, n);
}

vn_status_t vn_model_stream(const vn_model_t *m, vn_status_t (*begin)(void *ctx, size_t size, vn_error_t *err),
                            void (*piece)(void *ctx, const void *data, size_t n), void *ctx, vn_error_t *err) {
    writer_t w = {.arena = vn_arena_new(), .err = err};
    Onnx__ModelProto *p = NULL;
    vn_status_t s = !w.arena ? nomem(&w) : put_model(&w, m, &p);
    const size_t size = s == VN_OK ? onnx__model_proto__get_packed_size(p) : 0;
    if (s == VN_OK && size > PROTO_LIMIT) s = too_large(size, err);
    if (s == VN_OK) s = begin(ctx, size, err);
    if (s == VN_OK) {
        stream_t out = {.base.append = stream_append, .put = piece, .ctx = ctx};
        onnx__model_proto__pack_to_buffer(p, &out.base);
    }
    release(&w);
    return s;
}

static vn_status_t write_both(const vn_model_t *m, const char *path, uint64_t outside_from, vn_error_t *err) {
    vn_text_t name = {0};
    vn_outside_t outside = {0};
    void *data = NULL;
    size_t size = 0;
    vn_text_printf(&name, "%s.data", path);
    vn_status_t s = name.failed ? vn_no_memory(err, "naming the data file") : VN_OK;
    if (s == VN_OK) {
        const char *slash = strrchr(name.data, '/');
        outside.location = slash ? slash + 1 : name.data;
        s = serialise(m, &outside, outside_from, PROTO_LIMIT, &data, &size, err);
    }
    if (s == VN_OK && !data) s = too_large(size, err);
    if (s == VN_OK) s = vn_outside_write(&outside, name.data, err); /* first: a model that is there has its data */
    if (s == VN_OK) s = vn_write_file(path, data, size, err);
    vn_free(data);
    vn_outside_free(&outside);
    vn_text_free(&name);
    return s;
}

vn_status_t vn_model_write_limited(const vn_model_t *m, const char *path, uint64_t inline_total, uint64_t outside_from, vn_error_t *err) {
    void *data;
    size_t size;
    VN_TRY(serialise(m, NULL, 0, inline_total, &data, &size, err));
    if (!data) {
        if (strcmp(path, "-") == 0) return too_large(size, err);
        return write_both(m, path, outside_from, err);
    }
    vn_status_t s = vn_write_file(path, data, size, err);
    vn_free(data);
    return s;
}

vn_status_t vn_model_write(const vn_model_t *m, const char *path, vn_error_t *err) {
    /* 1.9 GB leaves room below the limit for readers that add fields; 1 MiB is far above what one message of metadata costs. */
    return vn_model_write_limited(m, path, 1900000000u, 1u << 20, err);
}
