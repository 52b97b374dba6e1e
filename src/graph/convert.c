/* convert.c -- protobuf-c messages -> structures. Nesting is bounded by the scanner that ran before, and checked again here. */
#include "convert.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MAX_OPSETS = 256 }; /* imports are looked up one after the other */

typedef struct converter {
    vn_model_t *m;
    const vn_tensor_source_t *tensors;
    int depth;
    vn_error_t *err;
} converter_t;

static vn_status_t nomem(converter_t *c) { return vn_no_memory(c->err, "reading a model"); }

static vn_status_t enter(converter_t *c) {
    if (c->depth >= VN_MAX_NESTING)
        return vn_fail(c->err, VN_ERR_RANGE, "graphs or types nested deeper than %d; flatten the model", VN_MAX_NESTING);
    c->depth++;
    return VN_OK;
}

/* A count of list elements as int, and room for the list. */
static vn_status_t room(converter_t *c, size_t n, size_t size, void *list, int *count) {
    if (n > INT_MAX) return vn_fail(c->err, VN_ERR_RANGE, "a list of %zu elements is too long", n);
    void *fresh = vn_arena_alloc(c->m->arena, n, size);
    if (!fresh) return nomem(c);
    memcpy(list, &fresh, sizeof fresh);
    *count = (int)n;
    return VN_OK;
}

static vn_status_t text(converter_t *c, const char *s, const char **out) {
    *out = vn_arena_strdup(c->m->arena, s ? s : "");
    return *out ? VN_OK : nomem(c);
}

static vn_status_t texts(converter_t *c, size_t n, char *const *from, const char ***to, int *count) {
    VN_TRY(room(c, n, sizeof **to, to, count));
    for (size_t k = 0; k < n; ++k) VN_TRY(text(c, from[k], &(*to)[k]));
    return VN_OK;
}

static vn_status_t binary(converter_t *c, ProtobufCBinaryData from, vn_string_t *to) {
    *to = (vn_string_t){.text = vn_arena_strndup(c->m->arena, (const char *)from.data, from.len), .length = from.len};
    return to->text ? VN_OK : nomem(c);
}

static vn_status_t prefix(converter_t *c, vn_status_t s, const char *what, const char *name) {
    if (s != VN_OK) vn_fail_prefix(c->err, "%s '%.120s'", what, name ? name : "");
    return s;
}

/* ---- types ---- */

static vn_status_t get_dtype(converter_t *c, int32_t number, vn_dtype_t *out) {
    if (number < 0 || number >= VN_DTYPE_COUNT)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "element type number %d is unknown; known are 1 to %d", (int)number, VN_DTYPE_COUNT - 1);
    *out = (vn_dtype_t)number;
    return VN_OK;
}

static vn_status_t get_shape(converter_t *c, const Onnx__TensorShapeProto *p, vn_type_t *t) {
    if (!p) return VN_OK; /* rank unknown */
    if (p->n_dim > VN_MAX_RANK)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "a shape of rank %zu; at most %d dimensions are supported", p->n_dim, VN_MAX_RANK);
    VN_TRY(room(c, p->n_dim, sizeof *t->dims, &t->dims, &t->rank));
    for (int k = 0; k < t->rank; ++k) {
        const Onnx__TensorShapeProto__Dimension *d = p->dim[k];
        t->dims[k].value = -1;
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
            if (d->dim_value < -1) /* -1 is how some exporters write "unknown" */
                return vn_fail(c->err, VN_ERR_RANGE, "dimension %d of a shape is %lld; give a size of at least 0, or leave it open", k,
                               (long long)d->dim_value);
            t->dims[k].value = d->dim_value;
        } else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && d->dim_param[0] &&
                   strcmp(d->dim_param, "?") != 0) { /* "?": some exporters' "unknown", no name */
            VN_TRY(text(c, d->dim_param, &t->dims[k].param));
        }
    }
    return VN_OK;
}

static vn_status_t get_type(converter_t *c, const Onnx__TypeProto *p, vn_type_t *t);

static vn_status_t get_elem(converter_t *c, const Onnx__TypeProto *p, vn_type_t *t) {
    t->elem = vn_arena_alloc(c->m->arena, 1, sizeof *t->elem);
    if (!t->elem) return nomem(c);
    VN_TRY(enter(c));
    vn_status_t s = get_type(c, p, t->elem);
    c->depth--;
    return s;
}

static vn_status_t get_type(converter_t *c, const Onnx__TypeProto *p, vn_type_t *t) {
    *t = (vn_type_t){.rank = -1};
    if (!p) return VN_OK;
    switch (p->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        t->kind = VN_TYPE_TENSOR;
        VN_TRY(get_dtype(c, p->tensor_type->elem_type, &t->dtype));
        return get_shape(c, p->tensor_type->shape, t);
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        t->kind = VN_TYPE_SPARSE;
        VN_TRY(get_dtype(c, p->sparse_tensor_type->elem_type, &t->dtype));
        return get_shape(c, p->sparse_tensor_type->shape, t);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: t->kind = VN_TYPE_SEQUENCE; return get_elem(c, p->sequence_type->elem_type, t);
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE: t->kind = VN_TYPE_OPTIONAL; return get_elem(c, p->optional_type->elem_type, t);
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        t->kind = VN_TYPE_MAP;
        VN_TRY(get_dtype(c, p->map_type->key_type, &t->dtype));
        return get_elem(c, p->map_type->value_type, t);
    case ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE:
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "an opaque type ('%.60s'); only tensors, sequences, optionals and maps are supported",
                       p->opaque_type->name ? p->opaque_type->name : "");
    default: return VN_OK;
    }
}

static vn_status_t get_infos(converter_t *c, size_t n, Onnx__ValueInfoProto *const *from, vn_value_info_t **to, int *count) {
    VN_TRY(room(c, n, sizeof **to, to, count));
    for (size_t k = 0; k < n; ++k) {
        VN_TRY(text(c, from[k]->name, &(*to)[k].name));
        VN_TRY(prefix(c, get_type(c, from[k]->type, &(*to)[k].type), "type of value", from[k]->name));
    }
    return VN_OK;
}

/* ---- attributes ---- */

static vn_status_t get_graph(converter_t *c, const Onnx__GraphProto *p, vn_graph_t *outer, vn_graph_t **out);

static vn_status_t get_tensor(converter_t *c, const Onnx__TensorProto *p, const char *label, vn_tensor_t **out) {
    VN_TRY(c->tensors->dense(c->tensors->ctx, p, label, out, c->err));
    return vn_model_take(c->m, *out, c->err);
}

static vn_status_t get_sparse(converter_t *c, const Onnx__SparseTensorProto *p, const char *label, vn_tensor_t **out) {
    VN_TRY(c->tensors->sparse(c->tensors->ctx, p, label, out, c->err));
    return vn_model_take(c->m, *out, c->err);
}

/* Files of IR version 1 may lack the type: the field that is filled tells. */
static vn_attr_kind_t attr_kind(const Onnx__AttributeProto *p) {
    if (p->has_type && p->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED) return (vn_attr_kind_t)p->type;
    const struct {
        bool filled;
        vn_attr_kind_t kind;
    } rows[] = {
        {p->has_f, VN_ATTR_FLOAT},
        {p->has_i, VN_ATTR_INT},
        {p->has_s, VN_ATTR_STRING},
        {p->t != NULL, VN_ATTR_TENSOR},
        {p->g != NULL, VN_ATTR_GRAPH},
        {p->sparse_tensor != NULL, VN_ATTR_SPARSE_TENSOR},
        {p->tp != NULL, VN_ATTR_TYPE},
        {p->n_floats > 0, VN_ATTR_FLOATS},
        {p->n_ints > 0, VN_ATTR_INTS},
        {p->n_strings > 0, VN_ATTR_STRINGS},
        {p->n_tensors > 0, VN_ATTR_TENSORS},
        {p->n_graphs > 0, VN_ATTR_GRAPHS},
        {p->n_sparse_tensors > 0, VN_ATTR_SPARSE_TENSORS},
        {p->n_type_protos > 0, VN_ATTR_TYPES},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k)
        if (rows[k].filled) return rows[k].kind;
    return VN_ATTR_NONE;
}

static vn_status_t missing(converter_t *c, const char *field) {
    return vn_fail(c->err, VN_ERR_PARSE, "its type asks for field '%s', which is not there", field);
}

static vn_status_t get_list(converter_t *c, size_t n, size_t size, const void *from, void *to, int64_t *count) {
    int k;
    VN_TRY(room(c, n, size, to, &k));
    void *list;
    memcpy(&list, to, sizeof list);
    if (n) memcpy(list, from, n * size);
    *count = k;
    return VN_OK;
}

static vn_status_t get_value(converter_t *c, const Onnx__AttributeProto *p, vn_attr_t *a) {
    int n = 0;
    switch (a->kind) {
    case VN_ATTR_FLOAT: a->f = p->f; return VN_OK;
    case VN_ATTR_INT: a->i = p->i; return VN_OK;
    case VN_ATTR_STRING: return binary(c, p->s, &a->s);
    case VN_ATTR_TENSOR: return p->t ? get_tensor(c, p->t, "field t", &a->t) : missing(c, "t");
    case VN_ATTR_SPARSE_TENSOR:
        return p->sparse_tensor ? get_sparse(c, p->sparse_tensor, "field sparse_tensor", &a->t) : missing(c, "sparse_tensor");
    case VN_ATTR_GRAPH: return p->g ? get_graph(c, p->g, NULL, &a->g) : missing(c, "g");
    case VN_ATTR_FLOATS: return get_list(c, p->n_floats, sizeof *p->floats, p->floats, &a->floats, &a->count);
    case VN_ATTR_INTS: return get_list(c, p->n_ints, sizeof *p->ints, p->ints, &a->ints, &a->count);
    case VN_ATTR_STRINGS: {
        vn_string_t *list;
        VN_TRY(room(c, p->n_strings, sizeof *list, &list, &n));
        for (int k = 0; k < n; ++k) VN_TRY(binary(c, p->strings[k], &list[k]));
        a->strings = list;
        a->count = n;
        return VN_OK;
    }
    case VN_ATTR_TENSORS:
        VN_TRY(room(c, p->n_tensors, sizeof *a->tensors, &a->tensors, &n));
        for (int k = 0; k < n; ++k) VN_TRY(get_tensor(c, p->tensors[k], "field tensors", &a->tensors[k]));
        a->count = n;
        return VN_OK;
    case VN_ATTR_SPARSE_TENSORS:
        VN_TRY(room(c, p->n_sparse_tensors, sizeof *a->tensors, &a->tensors, &n));
        for (int k = 0; k < n; ++k) VN_TRY(get_sparse(c, p->sparse_tensors[k], "field sparse_tensors", &a->tensors[k]));
        a->count = n;
        return VN_OK;
    case VN_ATTR_GRAPHS:
        VN_TRY(room(c, p->n_graphs, sizeof *a->graphs, &a->graphs, &n));
        for (int k = 0; k < n; ++k) VN_TRY(get_graph(c, p->graphs[k], NULL, &a->graphs[k]));
        a->count = n;
        return VN_OK;
    case VN_ATTR_TYPE:
        if (!p->tp) return missing(c, "tp");
        VN_TRY(room(c, 1, sizeof *a->types, &a->types, &n));
        return get_type(c, p->tp, a->types);
    case VN_ATTR_TYPES:
        VN_TRY(room(c, p->n_type_protos, sizeof *a->types, &a->types, &n));
        for (int k = 0; k < n; ++k) VN_TRY(get_type(c, p->type_protos[k], &a->types[k]));
        a->count = n;
        return VN_OK;
    default: return vn_fail(c->err, VN_ERR_PARSE, "its type (%d) is unknown, or it has neither type nor value", (int)p->type);
    }
}

static vn_status_t get_attr(converter_t *c, const Onnx__AttributeProto *p, vn_attr_t *a) {
    *a = (vn_attr_t){.kind = attr_kind(p)};
    VN_TRY(text(c, p->name, &a->name));
    if (!a->name[0]) return vn_fail(c->err, VN_ERR_PARSE, "an attribute has no name");
    if (p->ref_attr_name && p->ref_attr_name[0]) return text(c, p->ref_attr_name, &a->ref);
    return prefix(c, get_value(c, p, a), "attribute", a->name);
}

static vn_status_t get_attrs(converter_t *c, size_t n, Onnx__AttributeProto *const *from, vn_attr_t **to, int *count) {
    VN_TRY(room(c, n, sizeof **to, to, count));
    for (size_t k = 0; k < n; ++k) VN_TRY(get_attr(c, from[k], &(*to)[k]));
    return VN_OK;
}

/* ---- nodes and graphs ---- */

static vn_status_t get_node(converter_t *c, const Onnx__NodeProto *p, vn_node_t *n) {
    n->path = "";
    VN_TRY(text(c, p->name, &n->name));
    VN_TRY(text(c, p->op_type, &n->op));
    VN_TRY(text(c, vn_domain_name(p->domain), &n->domain));
    VN_TRY(text(c, p->overload, &n->overload));
    VN_TRY(texts(c, p->n_input, p->input, &n->inputs, &n->n_inputs));
    VN_TRY(texts(c, p->n_output, p->output, &n->outputs, &n->n_outputs));
    vn_status_t s = get_attrs(c, p->n_attribute, p->attribute, &n->attrs, &n->n_attrs);
    if (s != VN_OK) vn_fail_prefix(c->err, "node '%.120s' (%.60s)", n->name, n->op);
    return s;
}

static vn_status_t get_nodes(converter_t *c, size_t n, Onnx__NodeProto *const *from, vn_graph_t *g) {
    VN_TRY(room(c, n, sizeof *g->nodes, &g->nodes, &g->n_nodes));
    for (int i = 0; i < g->n_nodes; ++i) {
        VN_TRY(get_node(c, from[i], &g->nodes[i]));
        for (int a = 0; a < g->nodes[i].n_attrs; ++a)
            for (int64_t k = 0; k < vn_attr_graph_count(&g->nodes[i].attrs[a]); ++k) vn_attr_graph(&g->nodes[i].attrs[a], k)->outer = g;
    }
    return VN_OK;
}

static vn_status_t get_inits(converter_t *c, const Onnx__GraphProto *p, vn_graph_t *g) {
    char label[200];
    size_t n;
    if (!vn_size_add(p->n_initializer, p->n_sparse_initializer, &n)) return nomem(c);
    VN_TRY(room(c, n, sizeof *g->inits, &g->inits, &g->n_inits));
    int k = 0;
    for (size_t i = 0; i < p->n_initializer; ++i, ++k) {
        VN_TRY(text(c, p->initializer[i]->name, &g->inits[k].name));
        snprintf(label, sizeof label, "initialiser '%.150s'", g->inits[k].name);
        VN_TRY(get_tensor(c, p->initializer[i], label, &g->inits[k].tensor));
    }
    for (size_t i = 0; i < p->n_sparse_initializer; ++i, ++k) { /* named by its values */
        const Onnx__TensorProto *values = p->sparse_initializer[i]->values;
        VN_TRY(text(c, values ? values->name : NULL, &g->inits[k].name));
        snprintf(label, sizeof label, "sparse initialiser '%.150s'", g->inits[k].name);
        VN_TRY(get_sparse(c, p->sparse_initializer[i], label, &g->inits[k].tensor));
    }
    return VN_OK;
}

static vn_status_t fill_graph(converter_t *c, const Onnx__GraphProto *p, vn_graph_t *g) {
    VN_TRY(get_nodes(c, p->n_node, p->node, g));
    VN_TRY(get_inits(c, p, g));
    VN_TRY(get_infos(c, p->n_input, p->input, &g->inputs, &g->n_inputs));
    VN_TRY(get_infos(c, p->n_output, p->output, &g->outputs, &g->n_outputs));
    return get_infos(c, p->n_value_info, p->value_info, &g->infos, &g->n_infos);
}

static vn_status_t get_graph(converter_t *c, const Onnx__GraphProto *p, vn_graph_t *outer, vn_graph_t **out) {
    VN_TRY(enter(c));
    vn_status_t s = vn_graph_create(c->m, p->name, outer, out, c->err);
    if (s == VN_OK) s = prefix(c, fill_graph(c, p, *out), "graph", p->name);
    c->depth--;
    return s;
}

/* ---- functions and the model ---- */

static vn_status_t get_opsets(converter_t *c, size_t n, Onnx__OperatorSetIdProto *const *from, vn_opset_t **to, int *count) {
    int kept = 0;
    VN_TRY(room(c, n, sizeof **to, to, count));
    for (size_t k = 0; k < n; ++k) {
        const char *domain = vn_domain_name(from[k]->domain);
        bool known = false;
        if (from[k]->version < 1)
            return vn_fail(c->err, VN_ERR_PARSE, "opset_import '%.100s': version %lld is not positive", domain,
                           (long long)from[k]->version);
        for (int i = 0; i < kept && !known; ++i) {
            known = strcmp((*to)[i].domain, domain) == 0;
            if (known && (*to)[i].version != from[k]->version)
                return vn_fail(c->err, VN_ERR_PARSE, "opset_import '%.100s' asks for version %lld and for version %lld; keep one", domain,
                               (long long)(*to)[i].version, (long long)from[k]->version);
        }
        if (known) continue;
        if (kept == MAX_OPSETS) return vn_fail(c->err, VN_ERR_RANGE, "more than %d opset imports", MAX_OPSETS);
        (*to)[kept].version = from[k]->version;
        VN_TRY(text(c, domain, &(*to)[kept++].domain));
    }
    *count = kept;
    return VN_OK;
}

static vn_status_t name_values(converter_t *c, int n, const char **names, vn_value_info_t **to, int *count) {
    VN_TRY(room(c, (size_t)n, sizeof **to, to, count));
    for (int k = 0; k < n; ++k) (*to)[k] = (vn_value_info_t){.name = names[k], .type = {.rank = -1}};
    return VN_OK;
}

static vn_status_t get_function(converter_t *c, const Onnx__FunctionProto *p, vn_function_t *f) {
    VN_TRY(text(c, vn_domain_name(p->domain), &f->domain));
    VN_TRY(text(c, p->name, &f->name));
    VN_TRY(text(c, p->overload, &f->overload));
    VN_TRY(texts(c, p->n_input, p->input, &f->inputs, &f->n_inputs));
    VN_TRY(texts(c, p->n_output, p->output, &f->outputs, &f->n_outputs));
    VN_TRY(texts(c, p->n_attribute, p->attribute, &f->attr_names, &f->n_attr_names));
    VN_TRY(get_attrs(c, p->n_attribute_proto, p->attribute_proto, &f->attr_defaults, &f->n_attr_defaults));
    VN_TRY(get_opsets(c, p->n_opset_import, p->opset_import, &f->opsets, &f->n_opsets));
    VN_TRY(vn_graph_create(c->m, f->name, NULL, &f->body, c->err));
    VN_TRY(get_nodes(c, p->n_node, p->node, f->body));
    VN_TRY(name_values(c, f->n_inputs, f->inputs, &f->body->inputs, &f->body->n_inputs));
    VN_TRY(name_values(c, f->n_outputs, f->outputs, &f->body->outputs, &f->body->n_outputs));
    return get_infos(c, p->n_value_info, p->value_info, &f->body->infos, &f->body->n_infos);
}

static vn_status_t get_metas(converter_t *c, const Onnx__ModelProto *p) {
    VN_TRY(room(c, p->n_metadata_props, sizeof *c->m->metas, &c->m->metas, &c->m->n_metas));
    for (int k = 0; k < c->m->n_metas; ++k) {
        VN_TRY(text(c, p->metadata_props[k]->key, &c->m->metas[k].key));
        VN_TRY(text(c, p->metadata_props[k]->value, &c->m->metas[k].value));
    }
    return VN_OK;
}

vn_status_t vn_convert_model(const Onnx__ModelProto *p, const vn_tensor_source_t *tensors, vn_model_t *m, vn_error_t *err) {
    converter_t c = {.m = m, .tensors = tensors, .err = err};
    const int64_t newest = ONNX__VERSION__IR_VERSION;
    if (!p->has_ir_version) return vn_fail(err, VN_ERR_PARSE, "field ir_version is missing; this is not an ONNX model");
    if (p->ir_version > newest)
        return vn_fail(err, VN_ERR_UNSUPPORTED,
                       "ir_version %lld is newer than %lld, the newest of the onnx package that this program was built with; "
                       "build it with a newer one",
                       (long long)p->ir_version, (long long)newest);
    if (p->ir_version < 1)
        return vn_fail(err, VN_ERR_PARSE, "ir_version %lld is not positive; this is not an ONNX model", (long long)p->ir_version);
    if (!p->graph) return vn_fail(err, VN_ERR_PARSE, "field graph is missing; this is not an ONNX model, or only the head of one");
    m->ir_version = p->ir_version;
    m->model_version = p->model_version;
    VN_TRY(text(&c, p->producer_name, &m->producer));
    VN_TRY(text(&c, p->producer_version, &m->producer_version));
    VN_TRY(text(&c, p->domain, &m->domain));
    VN_TRY(get_opsets(&c, p->n_opset_import, p->opset_import, &m->opsets, &m->n_opsets));
    VN_TRY(get_metas(&c, p));
    VN_TRY(room(&c, p->n_functions, sizeof *m->functions, &m->functions, &m->n_functions));
    for (int k = 0; k < m->n_functions; ++k)
        VN_TRY(prefix(&c, get_function(&c, p->functions[k], &m->functions[k]), "function", p->functions[k]->name));
    return get_graph(&c, p->graph, NULL, &m->graph);
}
