/* build.c -- adding inputs, outputs, initialisers and nodes to a graph. */
#include "internal.h"

#include <limits.h>
#include <string.h>

/* Appends to one of the growing arrays of a graph; the private part holds the capacities. */
#define APPEND(g, p, array, value)                                                                                          \
    do {                                                                                                                    \
        void *moved_ = vn_array_grow((g)->model->arena, (g)->array, (g)->n_##array, &(p)->cap_##array, sizeof *(g)->array); \
        if (!moved_) return vn_no_memory(err, "growing a graph");                                                           \
        (g)->array = moved_;                                                                                                \
        (g)->array[(g)->n_##array++] = (value);                                                                             \
        vn_graph_touch(g);                                                                                                  \
    } while (0)

vn_status_t vn_graph_add_typed(vn_graph_t *g, bool output, const char *name, const vn_type_t *type, vn_error_t *err) {
    vn_graph_private_t *p = vn_graph_private(g);
    vn_value_info_t info = {0};
    if (!p) return vn_no_memory(err, "growing a graph");
    vn_copier_t copier = {.into = g->model};
    VN_TRY(vn_copy_name(&copier, name, &info.name, err));
    VN_TRY(vn_copy_type(&copier, type, &info.type, err));
    if (output) APPEND(g, p, outputs, info);
    else APPEND(g, p, inputs, info);
    return VN_OK;
}

static vn_status_t add_tensor(vn_graph_t *g, bool output, const char *name, vn_dtype_t t, int rank, const int64_t *dims, vn_error_t *err) {
    vn_dim_t list[VN_MAX_RANK];
    vn_type_t type = {.kind = VN_TYPE_TENSOR, .dtype = t, .rank = rank, .dims = list};
    if ((unsigned)t >= VN_DTYPE_COUNT) return vn_fail(err, VN_ERR_DTYPE, "'%.200s': no element type has number %d", name, (int)t);
    if (t == VN_UNDEFINED) type.kind = VN_TYPE_NONE;
    if (rank > VN_MAX_RANK || rank < -1)
        return vn_fail(err, VN_ERR_RANGE, "'%.200s': rank %d is outside -1 .. %d", name, rank, VN_MAX_RANK);
    for (int k = 0; k < rank; ++k) {
        if (dims[k] < -1)
            return vn_fail(err, VN_ERR_RANGE, "'%.200s': dimension %d is %lld; give -1 when unknown", name, k, (long long)dims[k]);
        list[k] = (vn_dim_t){.value = dims[k]};
    }
    return vn_graph_add_typed(g, output, name, &type, err);
}

vn_status_t vn_graph_add_input(vn_graph_t *g, const char *name, vn_dtype_t t, int rank, const int64_t *dims, vn_error_t *err) {
    return add_tensor(g, false, name, t, rank, dims, err);
}

vn_status_t vn_graph_add_output(vn_graph_t *g, const char *name, vn_dtype_t t, int rank, const int64_t *dims, vn_error_t *err) {
    return add_tensor(g, true, name, t, rank, dims, err);
}

vn_status_t vn_graph_add_init(vn_graph_t *g, const char *name, const vn_tensor_t *t, vn_error_t *err) {
    vn_graph_private_t *p = vn_graph_private(g);
    vn_init_t init = {.name = vn_arena_strdup(g->model->arena, name)};
    if (!p || !init.name) return vn_no_memory(err, "adding an initialiser");
    VN_TRY(vn_model_hold(g->model, t, err));
    init.tensor = (vn_tensor_t *)t;
    APPEND(g, p, inits, init);
    return VN_OK;
}

static const char **copy_names(vn_arena_t *arena, int n, const char *const *names) {
    const char **out = vn_arena_alloc(arena, (size_t)n, sizeof *out);
    for (int k = 0; out && k < n; ++k) {
        out[k] = vn_arena_strdup(arena, names[k] ? names[k] : "");
        if (!out[k]) return NULL;
    }
    return out;
}

vn_status_t vn_graph_add_node(vn_graph_t *g, const char *name, const char *op, const char *domain, int n_inputs, const char *const *inputs,
                              int n_outputs, const char *const *outputs, vn_node_t **out, vn_error_t *err) {
    vn_arena_t *arena = g->model->arena;
    vn_graph_private_t *p = vn_graph_private(g);
    if (out) *out = NULL;
    if (n_inputs < 0 || n_outputs < 0)
        return vn_fail(err, VN_ERR_USAGE, "node '%.200s': negative number of inputs or outputs", name ? name : "");
    vn_node_t node = {
        .name = vn_arena_strdup(arena, name ? name : ""),
        .path = "",
        .op = vn_arena_strdup(arena, op),
        .domain = vn_arena_strdup(arena, vn_domain_name(domain)),
        .overload = "",
        .n_inputs = n_inputs,
        .n_outputs = n_outputs,
        .inputs = copy_names(arena, n_inputs, inputs),
        .outputs = copy_names(arena, n_outputs, outputs),
    };
    if (!p || !node.name || !node.op || !node.domain || !node.inputs || !node.outputs) return vn_no_memory(err, "adding a node");
    APPEND(g, p, nodes, node);
    if (out) *out = &g->nodes[g->n_nodes - 1];
    return VN_OK;
}

vn_status_t vn_model_add_function(vn_model_t *m, const vn_function_t *from, vn_error_t *err) {
    vn_storage_t *s = m->storage;
    vn_function_t copy;
    VN_TRY(vn_copy_function(&(vn_copier_t){.into = m}, from, &copy, err));
    vn_function_t *functions = vn_array_grow(m->arena, m->functions, m->n_functions, &s->cap_functions, sizeof *functions);
    if (!functions) return vn_no_memory(err, "adding a function");
    m->functions = functions;
    m->functions[m->n_functions++] = copy;
    s->function_order = NULL;
    return VN_OK;
}

vn_status_t vn_model_mark_outputs(vn_model_t *m, int n, const char *const *names, const vn_type_t *types, vn_error_t *err) {
    vn_graph_t *g = m->graph;
    vn_graph_private_t *p = vn_graph_private(g);
    vn_names_t done;
    if (!p || !vn_names_init(&done, (size_t)n, NULL)) return vn_no_memory(err, "marking outputs");
    int before = g->n_outputs;
    vn_status_t s = VN_OK;
    for (int k = 0; k < g->n_outputs && s == VN_OK; ++k)
        if (!vn_names_put(&done, g->outputs[k].name, NULL)) s = vn_no_memory(err, "marking outputs");
    /* First all lookups, with the index; additions switch it off. Types of unnamed origin stay open. */
    for (int k = 0; k < n && s == VN_OK; ++k) {
        if (vn_graph_producer(g, names[k]) < 0 && !vn_graph_defines(g, names[k]))
            s = vn_fail(err, VN_ERR_NOTFOUND, "no value '%.200s' in the main graph; it cannot become an output", names[k]);
    }
    const vn_value_info_t **infos = s == VN_OK ? vn_alloc((size_t)n, sizeof *infos) : NULL;
    bool *wanted = s == VN_OK ? vn_alloc((size_t)n, sizeof *wanted) : NULL;
    if (s == VN_OK && (!infos || !wanted)) s = vn_no_memory(err, "marking outputs");
    for (int k = 0; k < n && s == VN_OK; ++k) {
        bool fresh;
        if (vn_graph_producer(g, names[k]) < 0) continue; /* inputs and initialisers are known already */
        if (!vn_names_put(&done, names[k], &fresh)) s = vn_no_memory(err, "marking outputs");
        wanted[k] = fresh;
        infos[k] = vn_graph_info(g, names[k]);
    }
    for (int k = 0; k < n && s == VN_OK; ++k) {
        if (!wanted[k]) continue;
        vn_type_t open = {.kind = VN_TYPE_NONE, .rank = -1};
        const vn_type_t *type = types && types[k].kind != VN_TYPE_NONE ? &types[k] : infos[k] ? &infos[k]->type : &open;
        s = vn_graph_add_typed(g, true, names[k], type, err);
    }
    vn_free(infos);
    vn_free(wanted);
    vn_names_free(&done);
    if (s != VN_OK) {
        g->n_outputs = before;
        return s;
    }
    return g->n_outputs > before ? vn_graph_build_index(g, true, err) : VN_OK;
}
