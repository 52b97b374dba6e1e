/* capture.c -- what the bodies of If, Loop and Scan read from outside. */
#include "internal.h"

#include <stdio.h>

int64_t vn_attr_graph_count(const vn_attr_t *a) {
    if (a->kind == VN_ATTR_GRAPH) return a->g ? 1 : 0;
    return a->kind == VN_ATTR_GRAPHS ? a->count : 0;
}

vn_graph_t *vn_attr_graph(const vn_attr_t *a, int64_t k) { return a->kind == VN_ATTR_GRAPH ? a->g : a->graphs[k]; }

const char *vn_node_where(const vn_graph_t *g, const vn_node_t *n, char *out, size_t size) {
    if (n->name[0]) snprintf(out, size, "node '%.150s' (%.60s)", n->name, n->op);
    else snprintf(out, size, "node number %td (%.60s)", n - g->nodes, n->op);
    return out;
}

/* Names defined in the graphs between the one being read and the outermost that counts as inside. */
typedef struct scope {
    vn_names_t defined;
    const struct scope *outer;
} scope_t;

typedef struct collector {
    vn_names_t seen;
    const char **names;
    int count, capacity;
    vn_error_t *err;
} collector_t;

static vn_status_t nomem(collector_t *c) { return vn_no_memory(c->err, "collecting captured values"); }

static vn_status_t note(collector_t *c, const scope_t *scope, const char *name) {
    if (!name[0]) return VN_OK;
    for (const scope_t *s = scope; s; s = s->outer)
        if (vn_names_find(&s->defined, name)) return VN_OK;
    bool fresh;
    if (!vn_names_put(&c->seen, name, &fresh)) return nomem(c);
    if (!fresh) return VN_OK;
    if (c->count == c->capacity) {
        size_t room = c->capacity ? (size_t)c->capacity * 2 : 16;
        const char **names = vn_realloc(c->names, room, sizeof *names);
        if (!names) return nomem(c);
        c->names = names;
        c->capacity = (int)room;
    }
    c->names[c->count++] = name;
    return VN_OK;
}

static bool define(const vn_graph_t *g, vn_names_t *defined) {
    for (int k = 0; k < g->n_inputs; ++k)
        if (!vn_names_put(defined, g->inputs[k].name, NULL)) return false;
    for (int k = 0; k < g->n_inits; ++k)
        if (!vn_names_put(defined, g->inits[k].name, NULL)) return false;
    for (int i = 0; i < g->n_nodes; ++i)
        for (int k = 0; k < g->nodes[i].n_outputs; ++k)
            if (g->nodes[i].outputs[k][0] && !vn_names_put(defined, g->nodes[i].outputs[k], NULL)) return false;
    return true;
}

static vn_status_t visit(collector_t *c, const vn_graph_t *g, const scope_t *outer, int depth);

static vn_status_t visit_bodies(collector_t *c, const vn_node_t *n, const scope_t *scope, int depth) {
    for (int a = 0; a < n->n_attrs; ++a)
        for (int64_t k = 0; k < vn_attr_graph_count(&n->attrs[a]); ++k) VN_TRY(visit(c, vn_attr_graph(&n->attrs[a], k), scope, depth));
    return VN_OK;
}

static vn_status_t visit(collector_t *c, const vn_graph_t *g, const scope_t *outer, int depth) {
    if (depth > VN_MAX_NESTING)
        return vn_fail(c->err, VN_ERR_RANGE, "graph '%.100s' is nested deeper than %d; flatten the model", g->name, VN_MAX_NESTING);
    scope_t scope = {.outer = outer};
    if (!vn_names_init(&scope.defined, (size_t)g->n_nodes + (size_t)g->n_inputs + (size_t)g->n_inits, NULL)) return nomem(c);
    vn_status_t s = define(g, &scope.defined) ? VN_OK : nomem(c);
    for (int i = 0; i < g->n_nodes && s == VN_OK; ++i) {
        const vn_node_t *n = &g->nodes[i];
        for (int k = 0; k < n->n_inputs && s == VN_OK; ++k) s = note(c, &scope, n->inputs[k]);
        if (s == VN_OK) s = visit_bodies(c, n, &scope, depth + 1);
    }
    for (int k = 0; k < g->n_outputs && s == VN_OK; ++k) s = note(c, &scope, g->outputs[k].name);
    vn_names_free(&scope.defined);
    return s;
}

static vn_status_t finish(collector_t *c, vn_status_t s, const char ***names, int *count) {
    vn_names_free(&c->seen);
    if (s != VN_OK) {
        vn_free(c->names);
        return s;
    }
    *names = c->names;
    *count = c->count;
    return VN_OK;
}

vn_status_t vn_graph_captures(const vn_graph_t *g, const char ***names, int *n, vn_error_t *err) {
    collector_t c = {.err = err};
    *names = NULL;
    *n = 0;
    if (!vn_names_init(&c.seen, 0, NULL)) return nomem(&c);
    return finish(&c, visit(&c, g, NULL, 1), names, n);
}

vn_status_t vn_node_captures(const vn_node_t *n, const char ***names, int *count, vn_error_t *err) {
    collector_t c = {.err = err};
    *names = NULL;
    *count = 0;
    if (!vn_names_init(&c.seen, 0, NULL)) return nomem(&c);
    return finish(&c, visit_bodies(&c, n, NULL, 1), names, count);
}
