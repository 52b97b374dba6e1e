/* finish.c -- makes a model ready for use: indices, checks of names, order of nodes, paths; bodies and functions included. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

enum {
    LONGEST_PIECE = 512,   /* a node name longer than this is not used in paths: a body repeats it in each of its paths */
    LONGEST_PREFIX = 2048, /* from here on pieces are OpType_k only */
    DENSE_ATTRS = 16       /* up to so many attributes are compared one with another */
};

typedef struct finisher {
    vn_model_t *m;
    const vn_function_t *function; /* whose body this is, or NULL */
    vn_names_t paths;              /* all paths given so far */
    vn_error_t *err;
} finisher_t;

static vn_status_t nomem(finisher_t *f) { return vn_no_memory(f->err, "finishing a model"); }

/* ---- checks of one node ---- */

static vn_status_t check_attrs(finisher_t *f, const vn_graph_t *g, const vn_node_t *n) {
    char where[300];
    const char *twice = NULL;
    if (n->n_attrs <= DENSE_ATTRS) {
        for (int a = 0; a < n->n_attrs && !twice; ++a)
            for (int b = 0; b < a; ++b)
                if (strcmp(n->attrs[a].name, n->attrs[b].name) == 0) twice = n->attrs[a].name;
    } else {
        vn_names_t names;
        if (!vn_names_init(&names, (size_t)n->n_attrs, NULL)) return nomem(f);
        for (int a = 0; a < n->n_attrs && !twice; ++a) {
            bool fresh;
            if (!vn_names_put(&names, n->attrs[a].name, &fresh)) {
                vn_names_free(&names);
                return nomem(f);
            }
            if (!fresh) twice = n->attrs[a].name;
        }
        vn_names_free(&names);
    }
    if (!twice) return VN_OK;
    return vn_fail(f->err, VN_ERR_PARSE, "%s has attribute '%.200s' twice; remove one", vn_node_where(g, n, where, sizeof where), twice);
}

static int64_t function_opset(const vn_function_t *fn, const char *domain) {
    for (int i = 0; fn && i < fn->n_opsets; ++i)
        if (strcmp(fn->opsets[i].domain, domain) == 0) return fn->opsets[i].version;
    return -1;
}

static vn_status_t check_node(finisher_t *f, const vn_graph_t *g, const vn_node_t *n) {
    char where[300];
    if (!n->op[0])
        return vn_fail(f->err, VN_ERR_PARSE, "%s of graph '%.80s' has no op_type", vn_node_where(g, n, where, sizeof where), g->name);
    if (!n->domain[0] && vn_model_opset(f->m, "") < 0 && function_opset(f->function, "") < 0 &&
        !vn_model_function(f->m, n->domain, n->op, n->overload))
        return vn_fail(f->err, VN_ERR_PARSE,
                       "the model has no opset_import for the default domain (ai.onnx), so the meaning of %s is unknown; add one with the "
                       "version that the exporter used",
                       vn_node_where(g, n, where, sizeof where));
    return check_attrs(f, g, n);
}

static vn_status_t check_outputs(finisher_t *f, const vn_graph_t *g) {
    for (int k = 0; k < g->n_outputs; ++k) {
        bool found = false;
        for (const vn_graph_t *o = g; o && !found; o = o->outer) found = vn_graph_defines(o, g->outputs[k].name);
        if (!found)
            return vn_fail(f->err, VN_ERR_PARSE, "graph '%.80s': output '%.200s' is produced by no node and is no input or initialiser",
                           g->name, g->outputs[k].name);
    }
    return VN_OK;
}

/* ---- paths ---- */

static vn_status_t take_path(finisher_t *f, const char *path, bool *taken) {
    vn_name_entry_t *e = vn_names_put(&f->paths, path, taken);
    return e ? VN_OK : nomem(f);
}

static vn_status_t name_path(finisher_t *f, vn_node_t *n, const char *prefix) {
    bool fresh;
    char *path = vn_arena_printf(f->m->arena, "%s%s", prefix, n->name);
    if (!path) return nomem(f);
    VN_TRY(take_path(f, path, &fresh));
    n->path = fresh ? path : NULL; /* the name may hold slashes and so equal the path of a node in a body */
    return VN_OK;
}

static vn_status_t number_path(finisher_t *f, vn_node_t *n, int k, const char *prefix) {
    bool fresh = false;
    for (int again = 1; !fresh; ++again) {
        char *path = again == 1 ? vn_arena_printf(f->m->arena, "%s%.64s_%d", prefix, n->op, k)
                                : vn_arena_printf(f->m->arena, "%s%.64s_%d.%d", prefix, n->op, k, again);
        if (!path) return nomem(f);
        VN_TRY(take_path(f, path, &fresh));
        n->path = path;
    }
    return VN_OK;
}

static vn_status_t set_paths(finisher_t *f, vn_graph_t *g, const char *prefix) {
    vn_names_t uses; /* how often each node name occurs in this graph, in slot 0 */
    bool names_allowed = strlen(prefix) <= LONGEST_PREFIX;
    if (!vn_names_init(&uses, (size_t)g->n_nodes, NULL)) return nomem(f);
    vn_status_t s = VN_OK;
    for (int i = 0; i < g->n_nodes && s == VN_OK; ++i) {
        g->nodes[i].path = NULL;
        vn_name_entry_t *e = vn_names_put(&uses, g->nodes[i].name, NULL);
        if (e) e->slot[0]++;
        else s = nomem(f);
    }
    for (int i = 0; i < g->n_nodes && s == VN_OK; ++i) {
        vn_node_t *n = &g->nodes[i];
        if (!names_allowed || !n->name[0] || strlen(n->name) > LONGEST_PIECE) continue;
        if (vn_names_find(&uses, n->name)->slot[0] == 0) s = name_path(f, n, prefix);
    }
    for (int i = 0; i < g->n_nodes && s == VN_OK; ++i)
        if (!g->nodes[i].path) s = number_path(f, &g->nodes[i], i, prefix);
    vn_names_free(&uses);
    return s;
}

/* then_branch -> then, else_branch -> else, body -> body */
static char *body_prefix(vn_arena_t *arena, const vn_node_t *n, const vn_attr_t *a, int64_t k) {
    static const char suffix[] = "_branch";
    size_t length = strlen(a->name), tail = sizeof suffix - 1;
    if (length > tail && strcmp(a->name + length - tail, suffix) == 0) length -= tail;
    if (length > 64) length = 64;
    if (a->kind == VN_ATTR_GRAPHS) return vn_arena_printf(arena, "%s/%.*s.%lld/", n->path, (int)length, a->name, (long long)k);
    return vn_arena_printf(arena, "%s/%.*s/", n->path, (int)length, a->name);
}

/* ---- graphs ---- */

static vn_status_t finish_graph(finisher_t *f, vn_graph_t *g, const char *prefix, int depth) {
    if (depth > VN_MAX_NESTING)
        return vn_fail(f->err, VN_ERR_RANGE, "graph '%.100s' is nested deeper than %d; flatten the model", g->name, VN_MAX_NESTING);
    g->model = f->m;
    for (int i = 0; i < g->n_nodes; ++i) VN_TRY(check_node(f, g, &g->nodes[i]));
    VN_TRY(vn_graph_build_index(g, depth == 1 && !f->function, f->err));
    VN_TRY(vn_graph_sort(g, f->err));
    VN_TRY(check_outputs(f, g));
    VN_TRY(set_paths(f, g, prefix));
    for (int i = 0; i < g->n_nodes; ++i) {
        const vn_node_t *n = &g->nodes[i];
        for (int a = 0; a < n->n_attrs; ++a)
            for (int64_t k = 0; k < vn_attr_graph_count(&n->attrs[a]); ++k) {
                vn_graph_t *body = vn_attr_graph(&n->attrs[a], k);
                char *inner = body_prefix(f->m->arena, n, &n->attrs[a], k);
                if (!inner) return nomem(f);
                body->outer = g;
                VN_TRY(finish_graph(f, body, inner, depth + 1));
            }
    }
    return VN_OK;
}

static vn_status_t finish_top(vn_model_t *m, const vn_function_t *fn, vn_graph_t *g, vn_error_t *err) {
    finisher_t f = {.m = m, .function = fn, .err = err};
    if (!vn_names_init(&f.paths, (size_t)g->n_nodes, NULL)) return nomem(&f);
    g->outer = NULL;
    vn_status_t s = finish_graph(&f, g, "", 1);
    vn_names_free(&f.paths);
    return s;
}

/* ---- functions must not call themselves, nor call chains be endless: whoever follows calls recurses ---- */

enum { FRESH = 0, OPEN = -1 }; /* otherwise: length of the longest chain of calls that starts here */

typedef struct caller {
    const vn_model_t *m;
    int *chain; /* one a function */
    vn_error_t *err;
} caller_t;

static vn_status_t follow_calls(caller_t *c, const vn_function_t *fn, int depth);

static vn_status_t follow_graph(caller_t *c, const vn_graph_t *g, int depth, int *longest) {
    for (int i = 0; i < g->n_nodes; ++i) {
        const vn_node_t *n = &g->nodes[i];
        const vn_function_t *called = vn_model_function(c->m, n->domain, n->op, n->overload);
        if (called) {
            VN_TRY(follow_calls(c, called, depth + 1));
            int chain = c->chain[called - c->m->functions];
            if (chain > *longest) *longest = chain;
        }
        for (int a = 0; a < n->n_attrs; ++a)
            for (int64_t k = 0; k < vn_attr_graph_count(&n->attrs[a]); ++k)
                VN_TRY(follow_graph(c, vn_attr_graph(&n->attrs[a], k), depth, longest));
    }
    return VN_OK;
}

static vn_status_t follow_calls(caller_t *c, const vn_function_t *fn, int depth) {
    int *chain = &c->chain[fn - c->m->functions], longest = 0;
    if (*chain > 0) return VN_OK;
    if (*chain == OPEN) return vn_fail(c->err, VN_ERR_PARSE, "function '%.150s' (domain '%.100s') calls itself", fn->name, fn->domain);
    *chain = OPEN;
    vn_status_t s = depth > VN_MAX_NESTING ? VN_ERR_RANGE : follow_graph(c, fn->body, depth, &longest);
    if (s == VN_ERR_RANGE || longest >= VN_MAX_NESTING)
        return vn_fail(c->err, VN_ERR_RANGE, "function '%.150s': calls go more than %d deep; inline some", fn->name, VN_MAX_NESTING);
    *chain = longest + 1;
    return s;
}

static vn_status_t finish_functions(vn_model_t *m, vn_error_t *err) {
    size_t n = (size_t)m->n_functions;
    if (n == 0) return VN_OK;
    const vn_function_t **order = vn_arena_alloc(m->arena, n, sizeof *order);
    if (!order) return vn_no_memory(err, "finishing functions");
    vn_model_order_functions(m, order);
    for (size_t i = 1; i < n; ++i)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0 && strcmp(order[i - 1]->domain, order[i]->domain) == 0 &&
            strcmp(order[i - 1]->overload, order[i]->overload) == 0)
            return vn_fail(err, VN_ERR_PARSE, "function '%.150s' (domain '%.100s', overload '%.60s') is there twice; remove one",
                           order[i]->name, order[i]->domain, order[i]->overload);
    for (size_t i = 0; i < n; ++i) {
        vn_status_t s = finish_top(m, &m->functions[i], m->functions[i].body, err);
        if (s != VN_OK) {
            vn_fail_prefix(err, "function '%.150s'", m->functions[i].name);
            return s;
        }
    }
    caller_t c = {.m = m, .chain = vn_alloc(n, sizeof *c.chain), .err = err};
    vn_status_t s = c.chain ? VN_OK : vn_no_memory(err, "finishing functions");
    for (size_t i = 0; i < n && s == VN_OK; ++i) s = follow_calls(&c, &m->functions[i], 1);
    vn_free(c.chain);
    return s;
}

vn_status_t vn_model_finish(vn_model_t *m, vn_error_t *err) {
    if (!m->graph) return vn_fail(err, VN_ERR_PARSE, "the model has no graph");
    VN_TRY(finish_functions(m, err));
    return finish_top(m, NULL, m->graph, err);
}
