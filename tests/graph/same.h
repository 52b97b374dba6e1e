/* same.h -- two models are the same: structure, order, names, and the bits of every tensor. */
#ifndef VN_TEST_GRAPH_SAME_H
#define VN_TEST_GRAPH_SAME_H

#include <string.h>

#include "vernier/graph.h"

static inline bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }
static inline bool same_bits(float a, float b) {
    uint32_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y;
}

static inline bool same_texts(int n, int m, const char *const *a, const char *const *b) {
    if (n != m) return false;
    for (int k = 0; k < n; ++k)
        if (!same_text(a[k], b[k])) return false;
    return true;
}

static inline bool same_type(const vn_type_t *a, const vn_type_t *b) {
    if (a->kind != b->kind) return false;
    if (a->kind == VN_TYPE_NONE) return true;
    if (a->dtype != b->dtype || !a->elem != !b->elem || (a->elem && !same_type(a->elem, b->elem))) return false;
    if (a->kind != VN_TYPE_TENSOR && a->kind != VN_TYPE_SPARSE) return true;
    if (a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; ++k)
        if (a->dims[k].value != b->dims[k].value || !same_text(a->dims[k].param, b->dims[k].param)) return false;
    return true;
}

static inline bool same_infos(int n, int m, const vn_value_info_t *a, const vn_value_info_t *b) {
    if (n != m) return false;
    for (int k = 0; k < n; ++k)
        if (!same_text(a[k].name, b[k].name) || !same_type(&a[k].type, &b[k].type)) return false;
    return true;
}

static inline bool same_string(vn_string_t a, vn_string_t b) { return a.length == b.length && memcmp(a.text, b.text, a.length) == 0; }

static inline bool same_graph(const vn_graph_t *a, const vn_graph_t *b);

static inline bool same_attr(const vn_attr_t *a, const vn_attr_t *b) {
    if (!same_text(a->name, b->name) || a->kind != b->kind || !same_text(a->ref, b->ref) || a->count != b->count) return false;
    if (a->ref) return true;
    if (!same_bits(a->f, b->f) || a->i != b->i) return false;
    if (a->kind == VN_ATTR_STRING && !same_string(a->s, b->s)) return false;
    if ((a->kind == VN_ATTR_TENSOR || a->kind == VN_ATTR_SPARSE_TENSOR) && !vn_tensor_equal_bits(a->t, b->t)) return false;
    if (a->kind == VN_ATTR_GRAPH && !same_graph(a->g, b->g)) return false;
    if (a->kind == VN_ATTR_TYPE && !same_type(a->types, b->types)) return false;
    for (int64_t k = 0; k < a->count; ++k) {
        if (a->kind == VN_ATTR_FLOATS && !same_bits(a->floats[k], b->floats[k])) return false;
        if (a->kind == VN_ATTR_INTS && a->ints[k] != b->ints[k]) return false;
        if (a->kind == VN_ATTR_STRINGS && !same_string(a->strings[k], b->strings[k])) return false;
        if ((a->kind == VN_ATTR_TENSORS || a->kind == VN_ATTR_SPARSE_TENSORS) && !vn_tensor_equal_bits(a->tensors[k], b->tensors[k]))
            return false;
        if (a->kind == VN_ATTR_GRAPHS && !same_graph(a->graphs[k], b->graphs[k])) return false;
        if (a->kind == VN_ATTR_TYPES && !same_type(&a->types[k], &b->types[k])) return false;
    }
    return true;
}

static inline bool same_attrs(int n, int m, const vn_attr_t *a, const vn_attr_t *b) {
    if (n != m) return false;
    for (int k = 0; k < n; ++k)
        if (!same_attr(&a[k], &b[k])) return false;
    return true;
}

static inline bool same_node(const vn_node_t *a, const vn_node_t *b) {
    return same_text(a->name, b->name) && same_text(a->path, b->path) && same_text(a->op, b->op) && same_text(a->domain, b->domain) &&
           same_text(a->overload, b->overload) && same_texts(a->n_inputs, b->n_inputs, a->inputs, b->inputs) &&
           same_texts(a->n_outputs, b->n_outputs, a->outputs, b->outputs) && same_attrs(a->n_attrs, b->n_attrs, a->attrs, b->attrs);
}

static inline bool same_graph(const vn_graph_t *a, const vn_graph_t *b) {
    if (!same_text(a->name, b->name) || a->n_nodes != b->n_nodes || a->n_inits != b->n_inits) return false;
    for (int i = 0; i < a->n_nodes; ++i)
        if (!same_node(&a->nodes[i], &b->nodes[i])) return false;
    for (int k = 0; k < a->n_inits; ++k)
        if (!same_text(a->inits[k].name, b->inits[k].name) || !vn_tensor_equal_bits(a->inits[k].tensor, b->inits[k].tensor)) return false;
    return same_infos(a->n_inputs, b->n_inputs, a->inputs, b->inputs) && same_infos(a->n_outputs, b->n_outputs, a->outputs, b->outputs) &&
           same_infos(a->n_infos, b->n_infos, a->infos, b->infos);
}

static inline bool same_opsets(int n, int m, const vn_opset_t *a, const vn_opset_t *b) {
    if (n != m) return false;
    for (int k = 0; k < n; ++k)
        if (!same_text(a[k].domain, b[k].domain) || a[k].version != b[k].version) return false;
    return true;
}

static inline bool same_function(const vn_function_t *a, const vn_function_t *b) {
    return same_text(a->domain, b->domain) && same_text(a->name, b->name) && same_text(a->overload, b->overload) &&
           same_texts(a->n_inputs, b->n_inputs, a->inputs, b->inputs) && same_texts(a->n_outputs, b->n_outputs, a->outputs, b->outputs) &&
           same_texts(a->n_attr_names, b->n_attr_names, a->attr_names, b->attr_names) &&
           same_attrs(a->n_attr_defaults, b->n_attr_defaults, a->attr_defaults, b->attr_defaults) &&
           same_opsets(a->n_opsets, b->n_opsets, a->opsets, b->opsets) && same_graph(a->body, b->body);
}

static inline bool same_model(const vn_model_t *a, const vn_model_t *b) {
    if (a->ir_version != b->ir_version || a->model_version != b->model_version || !same_text(a->producer, b->producer) ||
        !same_text(a->producer_version, b->producer_version) || !same_text(a->domain, b->domain) || a->n_functions != b->n_functions ||
        a->n_metas != b->n_metas || !same_opsets(a->n_opsets, b->n_opsets, a->opsets, b->opsets))
        return false;
    for (int k = 0; k < a->n_functions; ++k)
        if (!same_function(&a->functions[k], &b->functions[k])) return false;
    for (int k = 0; k < a->n_metas; ++k)
        if (!same_text(a->metas[k].key, b->metas[k].key) || !same_text(a->metas[k].value, b->metas[k].value)) return false;
    return same_graph(a->graph, b->graph);
}

#endif
