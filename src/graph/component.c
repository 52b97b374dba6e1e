/* component.c -- appends one node to a model as a component with no edge to any other. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

enum { FUNCTION_IR = 8, OVERLOAD_IR = 10 }; /* IR versions that brought model-local functions, and their overloads */

typedef struct component {
    vn_model_t *into;
    const vn_model_t *from;
    const vn_component_t *c;
    const vn_function_t *home; /* function whose body holds the node, or NULL */
    vn_copier_t copier;
    vn_names_t given;    /* names of `from` that are values of the component: slot 0 = input number of the node, -1 for a capture */
    const char **inputs; /* renamed, one a node input */
    vn_error_t *err;
} component_t;

static vn_status_t fail(component_t *k, vn_status_t s, const char *what, const char *name) {
    const vn_node_t *n = k->c->node;
    return vn_fail(k->err, s, "component of node '%.150s' (%.60s): %s '%.150s'", n->path && n->path[0] ? n->path : n->name, n->op, what,
                   name);
}

static vn_status_t nomem(component_t *k) { return vn_no_memory(k->err, "adding a component"); }

/* ---- where the node stands ---- */

static const vn_graph_t *graph_of(const vn_graph_t *g, const vn_node_t *n) {
    uintptr_t at = (uintptr_t)n, first = (uintptr_t)g->nodes;
    if (g->n_nodes && at >= first && at < first + (uintptr_t)g->n_nodes * sizeof *n) return g;
    for (int i = 0; i < g->n_nodes; ++i)
        for (int a = 0; a < g->nodes[i].n_attrs; ++a)
            for (int64_t b = 0; b < vn_attr_graph_count(&g->nodes[i].attrs[a]); ++b) {
                const vn_graph_t *found = graph_of(vn_attr_graph(&g->nodes[i].attrs[a], b), n);
                if (found) return found;
            }
    return NULL;
}

/* ---- opsets ---- */

static int64_t version_of(int n, const vn_opset_t *list, const char *domain) {
    for (int i = 0; i < n; ++i)
        if (strcmp(list[i].domain, domain) == 0) return list[i].version;
    return -1;
}

static vn_status_t match_opsets(component_t *k) {
    int n = k->home ? k->home->n_opsets : k->from->n_opsets;
    const vn_opset_t *list = k->home ? k->home->opsets : k->from->opsets;
    bool set = k->into->n_opsets == 0;
    for (int i = 0; i < n; ++i) {
        if (set) {
            VN_TRY(vn_model_set_opset(k->into, list[i].domain, list[i].version, k->err));
            continue;
        }
        int64_t have = vn_model_opset(k->into, list[i].domain);
        if (have != list[i].version)
            return vn_fail(k->err, VN_ERR_USAGE,
                           "component of node '%.150s': opset '%.60s' is %lld there and %lld (-1: none) in the model "
                           "it goes into; use one model for each set of imports",
                           k->c->node->name, list[i].domain, (long long)list[i].version, (long long)have);
    }
    for (int i = 0; i < k->into->n_opsets && !set; ++i)
        if (version_of(n, list, k->into->opsets[i].domain) < 0)
            return fail(k, VN_ERR_USAGE, "its model does not import the domain", k->into->opsets[i].domain);
    return VN_OK;
}

/* ---- functions ---- */

static vn_status_t need_functions(component_t *k, const vn_node_t *n, int depth);

static vn_status_t need_graph(component_t *k, const vn_graph_t *g, int depth) {
    if (depth > 2 * VN_MAX_NESTING) return fail(k, VN_ERR_RANGE, "calls and bodies nested too deep at graph", g->name);
    for (int i = 0; i < g->n_nodes; ++i) VN_TRY(need_functions(k, &g->nodes[i], depth));
    return VN_OK;
}

static vn_status_t need_functions(component_t *k, const vn_node_t *n, int depth) {
    const vn_function_t *f = vn_model_function(k->from, n->domain, n->op, n->overload);
    if (f && !vn_model_function(k->into, f->domain, f->name, f->overload)) {
        int64_t ir = f->overload[0] ? OVERLOAD_IR : FUNCTION_IR;
        if (k->into->ir_version < ir) k->into->ir_version = ir;
        VN_TRY(vn_model_add_function(k->into, f, k->err));
        VN_TRY(need_graph(k, f->body, depth + 1));
    }
    for (int a = 0; a < n->n_attrs; ++a)
        for (int64_t b = 0; b < vn_attr_graph_count(&n->attrs[a]); ++b) VN_TRY(need_graph(k, vn_attr_graph(&n->attrs[a], b), depth + 1));
    return VN_OK;
}

/* ---- values ---- */

static vn_status_t add_run_input(component_t *k, const char *renamed, const vn_tensor_t *t) {
    return vn_graph_add_input(k->into->graph, renamed, t->dtype, t->rank, t->dims, k->err);
}

static bool same_form(const vn_tensor_t *a, const vn_tensor_t *b) {
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; ++i)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

/* Run-time inputs first, so that a name which is read both ways keeps its plain name for the run-time one. */
static vn_status_t add_inputs(component_t *k, bool frozen) {
    const vn_node_t *n = k->c->node;
    for (int i = 0; i < n->n_inputs; ++i) {
        const char *name = n->inputs[i];
        const vn_tensor_t *t = k->c->inputs ? k->c->inputs[i] : NULL;
        if (!name[0]) {
            if (t) return fail(k, VN_ERR_USAGE, "a tensor is given for an absent input of", n->op);
            k->inputs[i] = "";
            continue;
        }
        if (!t) return fail(k, VN_ERR_USAGE, "no tensor is given for input", name);
        if ((k->c->frozen && k->c->frozen[i]) != frozen) continue;
        bool fresh;
        vn_name_entry_t *e = vn_names_put(&k->given, name, &fresh);
        if (!e) return nomem(k);
        if (!fresh) {
            int first = e->slot[0];
            if (!same_form(t, k->c->inputs[first]))
                return fail(k, VN_ERR_USAGE, "tensors of different type or shape are given for input", name);
            bool first_frozen = k->c->frozen && k->c->frozen[first];
            if (first_frozen == frozen) {
                k->inputs[i] = k->inputs[first];
                continue;
            }
            /* run-time here, frozen there: the frozen one gets a name of its own, once */
            if (e->slot[1] >= 0) {
                k->inputs[i] = k->inputs[e->slot[1]];
                continue;
            }
            e->slot[1] = i;
            k->inputs[i] = vn_arena_printf(k->into->arena, "%s%s/frozen", k->c->prefix, name);
            if (!k->inputs[i]) return nomem(k);
        } else {
            e->slot[0] = i;
            VN_TRY(vn_copy_name(&k->copier, name, &k->inputs[i], k->err));
        }
        VN_TRY(frozen ? vn_graph_add_init(k->into->graph, k->inputs[i], t, k->err) : add_run_input(k, k->inputs[i], t));
    }
    return VN_OK;
}

static vn_status_t add_capture(component_t *k, const vn_graph_t *g, const char *name) {
    bool fresh;
    const char *renamed;
    if (!vn_names_put(&k->given, name, &fresh)) return nomem(k);
    if (!fresh) return VN_OK; /* the node reads it itself: the bodies see that value */
    VN_TRY(vn_copy_name(&k->copier, name, &renamed, k->err));
    const vn_tensor_t *t = k->c->outer ? vn_bundle_find(k->c->outer, name) : NULL;
    if (t) return add_run_input(k, renamed, t);
    for (const vn_graph_t *o = g; o; o = o->outer) {
        t = vn_graph_init(o, name);
        if (t) return vn_graph_add_init(k->into->graph, renamed, t, k->err);
        if (vn_graph_defines(o, name)) break;
    }
    return fail(k, VN_ERR_USAGE, "a body reads a value from outside that `outer` does not give:", name);
}

static vn_status_t add_captures(component_t *k, const vn_graph_t *g) {
    const char **names;
    int n;
    VN_TRY(vn_node_captures(k->c->node, &names, &n, k->err));
    vn_status_t s = VN_OK;
    for (int i = 0; i < n && s == VN_OK; ++i) s = add_capture(k, g, names[i]);
    vn_free(names);
    return s;
}

static vn_status_t add_outputs(component_t *k, const char **renamed) {
    const vn_node_t *n = k->c->node;
    const vn_type_t open = {.kind = VN_TYPE_NONE, .rank = -1};
    for (int i = 0; i < n->n_outputs; ++i) {
        VN_TRY(vn_copy_name(&k->copier, n->outputs[i], &renamed[i], k->err));
        if (renamed[i][0])
            VN_TRY(vn_graph_add_typed(k->into->graph, true, renamed[i], k->c->out_types ? &k->c->out_types[i] : &open, k->err));
    }
    return VN_OK;
}

static vn_status_t add_node(component_t *k) {
    const vn_node_t *n = k->c->node;
    vn_arena_t *arena = k->into->arena;
    const char **outputs = vn_arena_alloc(arena, (size_t)n->n_outputs, sizeof *outputs);
    const char *name = vn_arena_printf(arena, "%s%s", k->c->prefix, n->path && n->path[0] ? n->path : n->name);
    vn_attr_t *attrs = vn_arena_alloc(arena, (size_t)n->n_attrs, sizeof *attrs);
    const char *overload = vn_arena_strdup(arena, n->overload);
    if (!outputs || !name || !attrs || !overload) return nomem(k);
    VN_TRY(add_outputs(k, outputs));
    for (int a = 0; a < n->n_attrs; ++a) {
        if (n->attrs[a].ref)
            return fail(k, VN_ERR_UNSUPPORTED,
                        "the node stands in a function and takes the caller's attribute; expand the call first:", n->attrs[a].ref);
        VN_TRY(vn_copy_attr(&k->copier, &n->attrs[a], &attrs[a], k->err));
    }
    vn_node_t *node;
    VN_TRY(vn_graph_add_node(k->into->graph, name, n->op, n->domain, n->n_inputs, k->inputs, n->n_outputs, outputs, &node, k->err));
    node->overload = overload;
    node->attrs = attrs;
    node->n_attrs = n->n_attrs;
    return VN_OK;
}

static vn_status_t add_all(component_t *k) {
    const vn_graph_t *home = graph_of(k->from->graph, k->c->node);
    for (int f = 0; f < k->from->n_functions && !home; ++f) {
        home = graph_of(k->from->functions[f].body, k->c->node);
        if (home) k->home = &k->from->functions[f];
    }
    if (!home) home = k->from->graph; /* a node made by the caller, such as the expansion of a call */
    VN_TRY(match_opsets(k));
    VN_TRY(add_inputs(k, false));
    VN_TRY(add_inputs(k, true));
    VN_TRY(add_captures(k, home));
    VN_TRY(need_functions(k, k->c->node, 1));
    return add_node(k);
}

vn_status_t vn_model_add_component(vn_model_t *into, const vn_model_t *from, const vn_component_t *c, vn_error_t *err) {
    component_t k = {.into = into, .from = from, .c = c, .copier = {.into = into, .prefix = c->prefix}, .err = err};
    vn_graph_t *g = into->graph;
    const int before[] = {g->n_nodes, g->n_inputs, g->n_outputs, g->n_inits, into->n_opsets, into->n_functions};
    const int64_t ir = into->ir_version;
    k.inputs = vn_arena_alloc(into->arena, (size_t)c->node->n_inputs, sizeof *k.inputs);
    if (!k.inputs || !vn_names_init(&k.given, (size_t)c->node->n_inputs, NULL)) return nomem(&k);
    vn_status_t s = add_all(&k);
    vn_names_free(&k.given);
    if (s != VN_OK) { /* the other components stay as they were */
        g->n_nodes = before[0];
        g->n_inputs = before[1];
        g->n_outputs = before[2];
        g->n_inits = before[3];
        into->n_opsets = before[4];
        into->n_functions = before[5];
        into->ir_version = ir;
        vn_graph_touch(g);
        ((vn_storage_t *)into->storage)->function_order = NULL;
    }
    return s;
}
