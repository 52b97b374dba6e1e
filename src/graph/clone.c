/* clone.c -- deep copies of types, attributes, graphs, functions and models into a model's arena; tensors are shared. */
#include "internal.h"

#include <string.h>

static vn_status_t nomem(vn_error_t *err) { return vn_no_memory(err, "copying a graph"); }

static vn_status_t text(vn_copier_t *c, const char *from, const char **to, vn_error_t *err) {
    *to = from ? vn_arena_strdup(c->into->arena, from) : NULL;
    return *to || !from ? VN_OK : nomem(err);
}

vn_status_t vn_copy_name(vn_copier_t *c, const char *name, const char **out, vn_error_t *err) {
    bool plain = !c->prefix || !name[0];
    *out = plain ? vn_arena_strdup(c->into->arena, name) : vn_arena_printf(c->into->arena, "%s%s", c->prefix, name);
    return *out ? VN_OK : nomem(err);
}

static vn_status_t names(vn_copier_t *c, int n, const char *const *from, const char ***to, vn_error_t *err) {
    const char **list = vn_arena_alloc(c->into->arena, (size_t)n, sizeof *list);
    if (!list) return nomem(err);
    for (int k = 0; k < n; ++k) VN_TRY(vn_copy_name(c, from[k], &list[k], err));
    *to = list;
    return VN_OK;
}

static vn_status_t enter(vn_copier_t *c, vn_error_t *err) {
    if (c->depth >= VN_MAX_NESTING)
        return vn_fail(err, VN_ERR_RANGE, "graphs or types nested deeper than %d; flatten the model", VN_MAX_NESTING);
    c->depth++;
    return VN_OK;
}

vn_status_t vn_copy_type(vn_copier_t *c, const vn_type_t *from, vn_type_t *to, vn_error_t *err) {
    *to = *from;
    to->dims = NULL;
    to->elem = NULL;
    if (from->rank > 0) {
        to->dims = vn_arena_alloc(c->into->arena, (size_t)from->rank, sizeof *to->dims);
        if (!to->dims) return nomem(err);
        for (int k = 0; k < from->rank; ++k) {
            to->dims[k].value = from->dims[k].value;
            if (from->dims[k].param) VN_TRY(vn_copy_name(c, from->dims[k].param, &to->dims[k].param, err));
        }
    }
    if (!from->elem) return VN_OK;
    VN_TRY(enter(c, err));
    to->elem = vn_arena_alloc(c->into->arena, 1, sizeof *to->elem);
    vn_status_t s = to->elem ? vn_copy_type(c, from->elem, to->elem, err) : nomem(err);
    c->depth--;
    return s;
}

static vn_status_t hold(vn_copier_t *c, vn_tensor_t *t, vn_error_t *err) { return t ? vn_model_hold(c->into, t, err) : VN_OK; }

static vn_status_t copy_string(vn_copier_t *c, vn_string_t from, vn_string_t *to, vn_error_t *err) {
    *to = (vn_string_t){.text = vn_arena_strndup(c->into->arena, from.text ? from.text : "", from.length), .length = from.length};
    return to->text ? VN_OK : nomem(err);
}

/* Plain lists: copied even when empty, because NULL would mean absent. */
static vn_status_t copy_list(vn_copier_t *c, const void *from, int64_t count, size_t size, void *to, vn_error_t *err) {
    void *list = vn_arena_alloc(c->into->arena, (size_t)count, size);
    if (!list) return nomem(err);
    if (count) memcpy(list, from, (size_t)count * size);
    memcpy(to, &list, sizeof list);
    return VN_OK;
}

static vn_status_t copy_plural(vn_copier_t *c, const vn_attr_t *from, vn_attr_t *to, vn_error_t *err) {
    size_t n = (size_t)from->count;
    vn_arena_t *arena = c->into->arena;
    switch (from->kind) {
    case VN_ATTR_FLOATS: return copy_list(c, from->floats, from->count, sizeof *from->floats, &to->floats, err);
    case VN_ATTR_INTS: return copy_list(c, from->ints, from->count, sizeof *from->ints, &to->ints, err);
    case VN_ATTR_TENSORS:
    case VN_ATTR_SPARSE_TENSORS:
        VN_TRY(copy_list(c, from->tensors, from->count, sizeof *from->tensors, &to->tensors, err));
        for (size_t k = 0; k < n; ++k) VN_TRY(hold(c, to->tensors[k], err));
        return VN_OK;
    case VN_ATTR_STRINGS: {
        vn_string_t *list = vn_arena_alloc(arena, n, sizeof *list);
        if (!list) return nomem(err);
        for (size_t k = 0; k < n; ++k) VN_TRY(copy_string(c, from->strings[k], &list[k], err));
        to->strings = list;
        return VN_OK;
    }
    case VN_ATTR_GRAPHS:
        to->graphs = vn_arena_alloc(arena, n, sizeof *to->graphs);
        if (!to->graphs) return nomem(err);
        for (size_t k = 0; k < n; ++k) VN_TRY(vn_copy_graph(c, from->graphs[k], NULL, &to->graphs[k], err));
        return VN_OK;
    case VN_ATTR_TYPE:
    case VN_ATTR_TYPES:
        if (from->kind == VN_ATTR_TYPE) n = from->types ? 1 : 0;
        to->types = vn_arena_alloc(arena, n, sizeof *to->types);
        if (!to->types) return nomem(err);
        for (size_t k = 0; k < n; ++k) VN_TRY(vn_copy_type(c, &from->types[k], &to->types[k], err));
        return VN_OK;
    default: return VN_OK;
    }
}

vn_status_t vn_copy_attr(vn_copier_t *c, const vn_attr_t *from, vn_attr_t *to, vn_error_t *err) {
    *to = (vn_attr_t){.kind = from->kind, .count = from->count, .f = from->f, .i = from->i, .t = from->t};
    VN_TRY(text(c, from->name, &to->name, err));
    VN_TRY(text(c, from->ref, &to->ref, err));
    if (from->ref) return VN_OK; /* the value is the caller's */
    if (from->count < 0)
        return vn_fail(err, VN_ERR_RANGE, "attribute '%.200s': count %lld is negative", from->name, (long long)from->count);
    switch (from->kind) {
    case VN_ATTR_STRING: return copy_string(c, from->s, &to->s, err);
    case VN_ATTR_TENSOR:
    case VN_ATTR_SPARSE_TENSOR: return hold(c, from->t, err);
    case VN_ATTR_GRAPH: return from->g ? vn_copy_graph(c, from->g, NULL, &to->g, err) : VN_OK;
    default: return copy_plural(c, from, to, err);
    }
}

static vn_status_t copy_infos(vn_copier_t *c, int n, const vn_value_info_t *from, vn_value_info_t **to, vn_error_t *err) {
    vn_value_info_t *list = vn_arena_alloc(c->into->arena, (size_t)n, sizeof *list);
    if (!list) return nomem(err);
    for (int k = 0; k < n; ++k) {
        VN_TRY(vn_copy_name(c, from[k].name, &list[k].name, err));
        VN_TRY(vn_copy_type(c, &from[k].type, &list[k].type, err));
    }
    *to = list;
    return VN_OK;
}

static vn_status_t copy_node(vn_copier_t *c, const vn_node_t *from, vn_node_t *to, vn_error_t *err) {
    *to = (vn_node_t){.n_inputs = from->n_inputs, .n_outputs = from->n_outputs, .n_attrs = from->n_attrs};
    VN_TRY(vn_copy_name(c, from->name, &to->name, err));
    VN_TRY(text(c, c->prefix || !from->path ? "" : from->path, &to->path, err));
    VN_TRY(text(c, from->op, &to->op, err));
    VN_TRY(text(c, from->domain, &to->domain, err));
    VN_TRY(text(c, from->overload, &to->overload, err));
    VN_TRY(names(c, from->n_inputs, from->inputs, &to->inputs, err));
    VN_TRY(names(c, from->n_outputs, from->outputs, &to->outputs, err));
    to->attrs = vn_arena_alloc(c->into->arena, (size_t)from->n_attrs, sizeof *to->attrs);
    if (!to->attrs) return nomem(err);
    for (int k = 0; k < from->n_attrs; ++k) VN_TRY(vn_copy_attr(c, &from->attrs[k], &to->attrs[k], err));
    return VN_OK;
}

static vn_status_t copy_graph(vn_copier_t *c, const vn_graph_t *from, vn_graph_t *g, vn_error_t *err) {
    vn_arena_t *arena = c->into->arena;
    vn_graph_private_t *p = vn_graph_private(g);
    VN_TRY(copy_infos(c, from->n_inputs, from->inputs, &g->inputs, err));
    VN_TRY(copy_infos(c, from->n_outputs, from->outputs, &g->outputs, err));
    VN_TRY(copy_infos(c, from->n_infos, from->infos, &g->infos, err));
    p->cap_inputs = g->n_inputs = from->n_inputs;
    p->cap_outputs = g->n_outputs = from->n_outputs;
    p->cap_infos = g->n_infos = from->n_infos;
    g->inits = vn_arena_alloc(arena, (size_t)from->n_inits, sizeof *g->inits);
    g->nodes = vn_arena_alloc(arena, (size_t)from->n_nodes, sizeof *g->nodes);
    if (!g->inits || !g->nodes) return nomem(err);
    for (int k = 0; k < from->n_inits; ++k) {
        VN_TRY(vn_copy_name(c, from->inits[k].name, &g->inits[k].name, err));
        VN_TRY(hold(c, from->inits[k].tensor, err));
        g->inits[k].tensor = from->inits[k].tensor;
    }
    p->cap_inits = g->n_inits = from->n_inits;
    for (int i = 0; i < from->n_nodes; ++i) {
        VN_TRY(copy_node(c, &from->nodes[i], &g->nodes[i], err));
        for (int a = 0; a < g->nodes[i].n_attrs; ++a)
            for (int64_t k = 0; k < vn_attr_graph_count(&g->nodes[i].attrs[a]); ++k) vn_attr_graph(&g->nodes[i].attrs[a], k)->outer = g;
    }
    p->cap_nodes = g->n_nodes = from->n_nodes;
    return VN_OK;
}

vn_status_t vn_copy_graph(vn_copier_t *c, const vn_graph_t *from, vn_graph_t *outer, vn_graph_t **to, vn_error_t *err) {
    *to = NULL;
    VN_TRY(enter(c, err));
    vn_graph_t *g;
    vn_status_t s = vn_graph_create(c->into, from->name, outer, &g, err);
    if (s == VN_OK) s = copy_graph(c, from, g, err);
    c->depth--;
    if (s == VN_OK) *to = g;
    return s;
}

static vn_status_t copy_opsets(vn_copier_t *c, int n, const vn_opset_t *from, vn_opset_t **to, vn_error_t *err) {
    vn_opset_t *list = vn_arena_alloc(c->into->arena, (size_t)n, sizeof *list);
    if (!list) return nomem(err);
    for (int k = 0; k < n; ++k) {
        list[k].version = from[k].version;
        VN_TRY(text(c, from[k].domain, &list[k].domain, err));
    }
    *to = list;
    return VN_OK;
}

vn_status_t vn_copy_function(vn_copier_t *c, const vn_function_t *from, vn_function_t *to, vn_error_t *err) {
    *to = (vn_function_t){.n_inputs = from->n_inputs,
                          .n_outputs = from->n_outputs,
                          .n_opsets = from->n_opsets,
                          .n_attr_names = from->n_attr_names,
                          .n_attr_defaults = from->n_attr_defaults};
    VN_TRY(text(c, from->domain, &to->domain, err));
    VN_TRY(text(c, from->name, &to->name, err));
    VN_TRY(text(c, from->overload, &to->overload, err));
    VN_TRY(names(c, from->n_inputs, from->inputs, &to->inputs, err));
    VN_TRY(names(c, from->n_outputs, from->outputs, &to->outputs, err));
    VN_TRY(names(c, from->n_attr_names, from->attr_names, &to->attr_names, err));
    VN_TRY(copy_opsets(c, from->n_opsets, from->opsets, &to->opsets, err));
    to->attr_defaults = vn_arena_alloc(c->into->arena, (size_t)from->n_attr_defaults, sizeof *to->attr_defaults);
    if (!to->attr_defaults) return nomem(err);
    for (int k = 0; k < from->n_attr_defaults; ++k) VN_TRY(vn_copy_attr(c, &from->attr_defaults[k], &to->attr_defaults[k], err));
    return vn_copy_graph(c, from->body, NULL, &to->body, err);
}

static vn_status_t copy_model(const vn_model_t *from, vn_model_t *m, vn_error_t *err) {
    vn_copier_t c = {.into = m};
    vn_storage_t *storage = m->storage;
    m->ir_version = from->ir_version;
    m->model_version = from->model_version;
    memcpy(m->sha256, from->sha256, sizeof m->sha256);
    VN_TRY(text(&c, from->producer, &m->producer, err));
    VN_TRY(text(&c, from->producer_version, &m->producer_version, err));
    VN_TRY(text(&c, from->domain, &m->domain, err));
    VN_TRY(text(&c, from->path, &m->path, err));
    VN_TRY(text(&c, from->folder, &m->folder, err));
    VN_TRY(copy_opsets(&c, from->n_opsets, from->opsets, &m->opsets, err));
    m->n_opsets = storage->cap_opsets = from->n_opsets;
    m->metas = vn_arena_alloc(m->arena, (size_t)from->n_metas, sizeof *m->metas);
    if (!m->metas) return nomem(err);
    for (int k = 0; k < from->n_metas; ++k) {
        VN_TRY(text(&c, from->metas[k].key, &m->metas[k].key, err));
        VN_TRY(text(&c, from->metas[k].value, &m->metas[k].value, err));
    }
    m->n_metas = from->n_metas;
    for (int k = 0; k < from->n_functions; ++k) VN_TRY(vn_model_add_function(m, &from->functions[k], err));
    VN_TRY(vn_copy_graph(&c, from->graph, NULL, &m->graph, err));
    return vn_model_finish(m, err);
}

vn_status_t vn_model_clone(const vn_model_t *from, vn_model_t **out, vn_error_t *err) {
    vn_model_t *m;
    *out = NULL;
    VN_TRY(vn_model_empty(&m, err));
    vn_status_t s = copy_model(from, m, err);
    if (s == VN_OK) *out = m;
    else vn_model_free(m);
    return s;
}
