/* gradient.c -- reverse-mode differentiation: cuts out the forward part, walks it backwards, and adds up cotangents.
 *
 * Claim GRAD-1: the gradient is a graph of ONNX nodes, evaluated as a region: every back end that computes the same vector-Jacobian formulas
 *   under the contract, each forward value recomputed or kept, is inside the composed bound. The formulas are those of vjp_*.c.
 * Claim GRAD-2 (conventions where no derivative exists): the derivative at a kink of Relu, LeakyRelu, Elu, Clip and their kin is that of the
 *   constant side; Abs and Sign have 0 at 0; equal maxima or minima share the cotangent evenly; Floor, Ceil, Round, Sign have 0 everywhere.
 */
#include <stdio.h>
#include <string.h>

#include "oracle/vjp.h"

#define TRAINING "ai.onnx.preview.training"

/* The cotangents that have come in for one value. */
typedef struct sum {
    const char **terms;
    int n, room;
} sum_t;

typedef struct sums {
    vn_scope_t index; /* name -> uses = place in list */
    sum_t *list;
    int n, room;
} sums_t;

static bool names_it(const vn_scope_t *s, const char *name) { return *name && vn_scope_local(s, name) != NULL; }

static vn_status_t mark(vn_scope_t *s, const char *name, int number, vn_error_t *err) {
    return *name ? vn_scope_put(s, name, NULL, NULL, number, err) : VN_OK;
}

/* ---- what rules ask ---- */

const char *vn_vjp_in(const vn_vjp_t *v, int k) { return k < v->node.n_inputs ? v->node.inputs[k] : ""; }
const char *vn_vjp_out(const vn_vjp_t *v, int k) { return k < v->node.n_outputs ? v->node.outputs[k] : ""; }

const vn_inferred_value_t *vn_vjp_fact(vn_vjp_t *v, const char *name) {
    static const vn_inferred_value_t nothing; /* after a failure: rank 0, dtype undefined */
    if (v->status != VN_OK) return &nothing;
    const vn_inferred_value_t *f = vn_inferred_find(v->facts, name);
    bool known = f && f->kind == VN_TYPE_TENSOR && f->dtype != VN_UNDEFINED && f->rank >= 0;
    for (int d = 0; known && d < f->rank; ++d) known = f->dims[d] >= 0;
    if (known) return f;
    vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "the shape of %.200s is not known%s%.150s", name, f && f->reason ? ": " : "",
                f && f->reason ? f->reason : "");
    return &nothing;
}

bool vn_vjp_needs(const vn_vjp_t *v, int k) {
    if (v->status != VN_OK || !names_it(v->active, vn_vjp_in(v, k))) return false;
    const vn_inferred_value_t *f = vn_inferred_find(v->facts, vn_vjp_in(v, k));
    return !f || f->dtype == VN_UNDEFINED || vn_dtype_is_float(f->dtype);
}

bool vn_vjp_known_ints(vn_vjp_t *v, int k, int64_t *out, int max, int *n) {
    *n = 0;
    if (v->status != VN_OK || !*vn_vjp_in(v, k)) return false;
    const vn_inferred_value_t *f = vn_inferred_find(v->facts, vn_vjp_in(v, k));
    const vn_tensor_t *t = f && f->value && f->value->kind == VN_VALUE_TENSOR ? f->value->tensor : vn_graph_init(v->graph, vn_vjp_in(v, k));
    if (!t || !t->data || !vn_dtype_is_int(t->dtype) || t->count > max) {
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "input %d (%.200s) decides the shape of the gradient and is not known", k, vn_vjp_in(v, k));
        return false;
    }
    for (int64_t i = 0; i < t->count; ++i) out[i] = vn_tensor_get_i64(t, i);
    *n = (int)t->count;
    return true;
}

static void add_term(vn_vjp_t *v, const char *name, const char *term) {
    sums_t *s = v->sums;
    if (v->status != VN_OK || !*name || !term || !*term) return;
    vn_slot_t *slot = vn_scope_local(&s->index, name);
    if (!slot) {
        if (s->n == s->room) {
            const int room = s->room ? 2 * s->room : 32;
            sum_t *more = vn_realloc(s->list, (size_t)room, sizeof *more);
            if (!more) {
                vn_vjp_fail(v, VN_ERR_NOMEM, "no memory");
                return;
            }
            s->list = more;
            s->room = room;
        }
        s->list[s->n] = (sum_t){.n = 0};
        v->status = mark(&s->index, name, s->n++, v->err);
        if (v->status != VN_OK) return;
        slot = vn_scope_local(&s->index, name);
    }
    sum_t *sum = &s->list[slot->uses];
    if (sum->n == sum->room) {
        const int room = sum->room ? 2 * sum->room : 4;
        const char **more = vn_arena_alloc(v->arena, (size_t)room, sizeof *more);
        if (!more) {
            vn_vjp_fail(v, VN_ERR_NOMEM, "no memory");
            return;
        }
        if (sum->n) memcpy(more, sum->terms, (size_t)sum->n * sizeof *more);
        sum->terms = more;
        sum->room = room;
    }
    sum->terms[sum->n++] = term;
}

void vn_vjp_give(vn_vjp_t *v, int k, const char *cotangent) { add_term(v, vn_vjp_in(v, k), cotangent); }

/* All terms of a value added up; NULL: there are none. Further terms after that would be lost, so consumers come first. */
static const char *total(vn_vjp_t *v, const char *name) {
    const sums_t *s = v->sums;
    const vn_slot_t *slot = *name ? vn_scope_local(&s->index, name) : NULL;
    if (!slot) return NULL;
    const sum_t *sum = &s->list[slot->uses];
    return sum->n == 1 ? sum->terms[0] : vn_vjp_emit(v, sum->n == 2 ? "Add" : "Sum", sum->n, sum->terms, NULL);
}

/* ---- rules ---- */

static bool lists(const char *names, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = names; n && (at = strstr(at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

static const vn_vjp_rule_t *rule_of(const char *op) {
    static const vn_vjp_table_t *const tables[] = {&vn_vjp_elementwise, &vn_vjp_shapes, &vn_vjp_sums, &vn_vjp_fused};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; ++t)
        for (int i = 0; i < tables[t]->count; ++i)
            if (lists(tables[t]->rules[i].names, op)) return &tables[t]->rules[i];
    return NULL;
}

bool vn_gradient_knows(const char *op) { return rule_of(op) != NULL; }

static void back(vn_vjp_t *v, const vn_node_t *node) {
    bool any = false;
    if (node->n_outputs > VN_VJP_MAX) {
        v->node = *node;
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "more than %d outputs", VN_VJP_MAX);
        return;
    }
    for (int k = 0; k < node->n_outputs; ++k) {
        v->cot[k] = names_it(v->active, node->outputs[k]) ? total(v, node->outputs[k]) : NULL;
        any |= v->cot[k] != NULL;
    }
    v->node = *node;
    bool wanted = false;
    for (int k = 0; k < node->n_inputs; ++k) wanted |= vn_vjp_needs(v, k);
    if (!any || !wanted) return;
    const vn_vjp_rule_t *r = *node->domain ? NULL : rule_of(node->op);
    if (!r) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "there is no rule of differentiation for this operator");
    else if (r->rule) r->rule(v, r->param);
}

/* ---- the forward part ---- */

static const vn_graph_t *home_of(const vn_graph_t *g, const char *name, int *producer) {
    for (; g; g = g->outer) {
        *producer = vn_graph_producer(g, name);
        if (*producer >= 0 || vn_graph_init(g, name) || vn_graph_input(g, name)) return g;
    }
    return NULL;
}

/* Marks what `name` needs: nodes by graph and place, initialisers and inputs by name. Iterative: graphs come from files. */
typedef struct cut {
    vn_vjp_t *v;
    const vn_gradient_ask_t *ask;
    const vn_bundle_t *inputs;
    vn_scope_t stop;   /* xs and zs */
    vn_scope_t needed; /* names seen */
    const char **todo;
    int n_todo, room;
} cut_t;

static vn_status_t want_name(void *ctx, const char *name, vn_error_t *err) {
    cut_t *c = ctx;
    if (!*name || names_it(&c->needed, name)) return VN_OK;
    VN_TRY(mark(&c->needed, name, 0, err));
    if (names_it(&c->stop, name)) return VN_OK;
    if (c->n_todo == c->room) {
        const int room = c->room ? 2 * c->room : 64;
        const char **more = vn_realloc(c->todo, (size_t)room, sizeof *more);
        if (!more) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        c->todo = more;
        c->room = room;
    }
    c->todo[c->n_todo++] = name;
    return VN_OK;
}

static vn_status_t want_node(cut_t *c, const vn_node_t *n, vn_error_t *err) {
    for (int k = 0; k < n->n_inputs; ++k) VN_TRY(want_name(c, n->inputs[k], err));
    for (int a = 0; a < n->n_attrs; ++a) {
        const vn_attr_t *at = &n->attrs[a];
        const int64_t graphs = at->kind == VN_ATTR_GRAPH ? 1 : at->kind == VN_ATTR_GRAPHS ? at->count : 0;
        for (int64_t i = 0; i < graphs; ++i) {
            const char **names;
            int count;
            VN_TRY(vn_graph_captures(at->kind == VN_ATTR_GRAPH ? at->g : at->graphs[i], &names, &count, err));
            vn_status_t s = VN_OK;
            for (int k = 0; k < count && s == VN_OK; ++k) s = want_name(c, names[k], err);
            vn_free(names);
            VN_TRY(s);
        }
    }
    return VN_OK;
}

static vn_status_t add_input(cut_t *c, const char *name, vn_error_t *err) {
    const vn_tensor_t *t = vn_bundle_find(c->inputs, name);
    if (!t) return vn_fail(err, VN_ERR_USAGE, "gradient: type and shape of '%.200s' are not given", name);
    if (!vn_graph_input(c->v->graph, name)) VN_TRY(vn_graph_add_input(c->v->graph, name, t->dtype, t->rank, t->dims, err));
    return VN_OK;
}

static vn_status_t trace(cut_t *c, const vn_graph_t *g, vn_error_t *err) {
    for (int k = 0; k < c->ask->n_ys; ++k) VN_TRY(want_name(c, c->ask->ys[k], err));
    while (c->n_todo) {
        const char *name = c->todo[--c->n_todo];
        int at;
        const vn_graph_t *home = home_of(g, name, &at);
        if (!home) return vn_fail(err, VN_ERR_NOTFOUND, "gradient: the graph holds no value '%.200s'", name);
        const vn_tensor_t *init = vn_graph_init(home, name);
        if (at >= 0) {
            VN_TRY(want_node(c, &home->nodes[at], err));
        } else if (init) {
            VN_TRY(vn_graph_add_init(c->v->graph, name, init, err));
        } else if (c->ask->open_zs) {
            VN_TRY(add_input(c, name, err));
        } else {
            return vn_fail(err, VN_ERR_USAGE, "gradient: input '%.200s' decides y and is in neither xs nor zs", name);
        }
    }
    return VN_OK;
}

static vn_status_t copy_node(vn_vjp_t *v, const vn_node_t *n, const char *const *inputs, const char *const *outputs, vn_error_t *err) {
    vn_node_t *made;
    VN_TRY(vn_graph_add_node(v->graph, n->path && *n->path ? n->path : n->name, n->op, n->domain, n->n_inputs, inputs, n->n_outputs,
                             outputs, &made, err));
    if (n->overload && *n->overload) made->overload = vn_arena_strdup(v->model->arena, n->overload);
    for (int a = 0; a < n->n_attrs; ++a) VN_TRY(vn_node_set_attr(v->model, made, &n->attrs[a], err));
    return VN_OK;
}

/* ---- Gradient nodes inside the forward part ---- */

static const char *renamed(vn_vjp_t *v, const char *prefix, const char *name, const vn_gradient_ask_t *ask, const vn_node_t *node) {
    if (!*name) return "";
    for (int k = 0; k < ask->n_xs + ask->n_zs; ++k)
        if (strcmp(name, k < ask->n_xs ? ask->xs[k] : ask->zs[k - ask->n_xs]) == 0) return node->inputs[k];
    const char *out = vn_arena_printf(v->arena, "%s/%s", prefix, name);
    return out ? out : "";
}

static vn_status_t splice(vn_vjp_t *v, const vn_model_t *inner, const char *prefix, const vn_gradient_ask_t *ask, const vn_node_t *node,
                          vn_error_t *err) {
    const vn_graph_t *g = inner->graph;
    for (int i = 0; i < g->n_inits; ++i)
        VN_TRY(vn_graph_add_init(v->graph, renamed(v, prefix, g->inits[i].name, ask, node), g->inits[i].tensor, err));
    for (int i = 0; i < g->n_nodes; ++i) {
        const vn_node_t *n = &g->nodes[i];
        const size_t ni = n->n_inputs ? (size_t)n->n_inputs : 1, no = n->n_outputs ? (size_t)n->n_outputs : 1;
        const char **in = vn_arena_alloc(v->arena, ni, sizeof *in), **out = vn_arena_alloc(v->arena, no, sizeof *out);
        if (!in || !out) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        for (int k = 0; k < n->n_inputs; ++k) in[k] = renamed(v, prefix, n->inputs[k], ask, node);
        for (int k = 0; k < n->n_outputs; ++k) out[k] = renamed(v, prefix, n->outputs[k], ask, node);
        for (int a = 0; a < n->n_attrs; ++a)
            if (n->attrs[a].kind == VN_ATTR_GRAPH || n->attrs[a].kind == VN_ATTR_GRAPHS)
                return vn_fail(err, VN_ERR_UNSUPPORTED, "gradient of a gradient through control flow (node %.200s)", n->path);
        VN_TRY(copy_node(v, n, in, out, err));
    }
    for (int k = 0; k < node->n_outputs; ++k) {
        if (!*node->outputs[k]) continue;
        const char *from = renamed(v, prefix, g->outputs[k].name, ask, node);
        VN_TRY(
            vn_graph_add_node(v->graph, node->outputs[k], "Identity", "", 1, &from, 1, (const char *const[]){node->outputs[k]}, NULL, err));
    }
    return VN_OK;
}

vn_status_t vn_gradient_node_ask(const vn_node_t *node, vn_arena_t *arena, vn_gradient_ask_t *ask, vn_error_t *err) {
    const vn_attr_t *xs = vn_node_attr(node, "xs"), *zs = vn_node_attr(node, "zs"), *y = vn_node_attr(node, "y");
    const char *where = node->path && *node->path ? node->path : node->name;
    if (!xs || !y || xs->kind != VN_ATTR_STRINGS || y->kind != VN_ATTR_STRING || (zs && zs->kind != VN_ATTR_STRINGS))
        return vn_fail(err, VN_ERR_USAGE, "node %s (Gradient): attributes xs and y are needed", where);
    const int64_t nz = zs ? zs->count : 0;
    if (xs->count + nz != node->n_inputs || xs->count < node->n_outputs)
        return vn_fail(err, VN_ERR_USAGE, "node %s (Gradient): %lld xs and %lld zs for %d inputs and %d outputs", where,
                       (long long)xs->count, (long long)nz, node->n_inputs, node->n_outputs);
    const char **names = vn_arena_alloc(arena, (size_t)node->n_inputs + 1, sizeof *names);
    if (!names) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < node->n_inputs; ++k) names[k] = k < xs->count ? xs->strings[k].text : zs->strings[k - xs->count].text;
    names[node->n_inputs] = y->s.text;
    *ask = (vn_gradient_ask_t){
        .n_ys = 1, .ys = names + node->n_inputs, .n_xs = (int)xs->count, .xs = names, .n_zs = (int)nz, .zs = names + xs->count};
    return VN_OK;
}

static vn_status_t expand(cut_t *c, const vn_graph_t *g, const vn_node_t *node, int depth, vn_error_t *err);

static vn_status_t gather(cut_t *c, const vn_graph_t *g, int depth, vn_error_t *err) {
    if (g->outer) VN_TRY(gather(c, g->outer, depth, err));
    for (int i = 0; i < g->n_nodes; ++i) {
        const vn_node_t *n = &g->nodes[i];
        bool used = false, cut = n->n_outputs > 0;
        for (int k = 0; k < n->n_outputs; ++k) {
            used |= names_it(&c->needed, n->outputs[k]) && !names_it(&c->stop, n->outputs[k]);
            cut &= names_it(&c->stop, n->outputs[k]);
        }
        if (!used || cut) continue;
        for (int k = 0; k < n->n_outputs; ++k) /* one output asked for as independent: its computed twin must not carry the same name */
            if (names_it(&c->stop, n->outputs[k]))
                return vn_fail(err, VN_ERR_UNSUPPORTED, "gradient: %.200s is independent, another output of its node is not",
                               n->outputs[k]);
        if (strcmp(n->domain, TRAINING) == 0 && strcmp(n->op, "Gradient") == 0) VN_TRY(expand(c, g, n, depth, err));
        else VN_TRY(copy_node(c->v, n, n->inputs, n->outputs, err));
    }
    return VN_OK;
}

/* Public types, opsets and functions of the model it comes from. */
static vn_status_t start(const vn_graph_t *g, vn_vjp_t *v, vn_error_t *err) {
    const vn_model_t *from = g->model;
    VN_TRY(vn_model_new(from->ir_version, &v->model, err));
    v->graph = v->model->graph;
    for (int k = 0; k < from->n_opsets; ++k) VN_TRY(vn_model_set_opset(v->model, from->opsets[k].domain, from->opsets[k].version, err));
    v->version = vn_model_opset(from, "");
    return v->version < 0 ? vn_fail(err, VN_ERR_UNSUPPORTED, "gradient: the model imports no operator set for ai.onnx") : VN_OK;
}

static vn_status_t facts_of(cut_t *c, vn_inferred_t *facts, vn_error_t *err) {
    VN_TRY(vn_model_finish(c->v->model, err));
    vn_bundle_t given = {0};
    vn_status_t s = VN_OK;
    const vn_graph_t *g = c->v->graph;
    for (int k = 0; k < g->n_inputs && s == VN_OK; ++k) {
        const vn_tensor_t *t = vn_bundle_find(c->inputs, g->inputs[k].name);
        if (t) s = vn_bundle_add(&given, g->inputs[k].name, (vn_tensor_t *)(uintptr_t)t, err);
    }
    if (s == VN_OK) s = vn_oracle_infer(c->v->model, &given, facts, err);
    vn_bundle_free(&given);
    return s;
}

static vn_status_t differentiate(const vn_graph_t *g, const vn_gradient_ask_t *ask, const vn_bundle_t *inputs, int depth, vn_model_t **out,
                                 vn_error_t *err);

/* The Gradient node becomes its nodes; its operands' shapes come from what has been copied so far. */
static vn_status_t expand(cut_t *c, const vn_graph_t *g, const vn_node_t *node, int depth, vn_error_t *err) {
    vn_gradient_ask_t ask;
    vn_inferred_t facts = {0};
    vn_bundle_t typed = {0};
    vn_model_t *inner = NULL;
    vn_vjp_t *v = c->v;
    VN_TRY(vn_gradient_node_ask(node, v->arena, &ask, err));
    vn_status_t s = facts_of(c, &facts, err);
    v->facts = &facts;
    v->node = *node;
    for (int k = 0; k < node->n_inputs && s == VN_OK; ++k) {
        const vn_inferred_value_t *f = vn_vjp_fact(v, node->inputs[k]);
        s = v->status;
        if (s == VN_OK) s = vn_infer_input(&typed, k < ask.n_xs ? ask.xs[k] : ask.zs[k - ask.n_xs], f->dtype, f->rank, f->dims, err);
    }
    v->facts = NULL;
    if (s == VN_OK) s = differentiate(g, &ask, &typed, depth + 1, &inner, err);
    const char *prefix = vn_arena_printf(v->arena, "nested/%d", v->fresh++);
    if (s == VN_OK && !prefix) s = vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = splice(v, inner, prefix, &ask, node, err);
    vn_inferred_free(&facts);
    vn_bundle_free(&typed);
    vn_model_free(inner);
    return s;
}

/* ---- the whole ---- */

static vn_status_t activate(const vn_graph_t *g, const vn_gradient_ask_t *ask, vn_scope_t *active, vn_error_t *err) {
    for (int k = 0; k < ask->n_xs; ++k) VN_TRY(mark(active, ask->xs[k], 0, err));
    for (int i = 0; i < g->n_nodes; ++i) {
        bool any = false;
        for (int k = 0; k < g->nodes[i].n_inputs; ++k) any |= names_it(active, g->nodes[i].inputs[k]);
        for (int k = 0; k < g->nodes[i].n_outputs && any; ++k) VN_TRY(mark(active, g->nodes[i].outputs[k], 0, err));
    }
    return VN_OK;
}

static vn_status_t seed(vn_vjp_t *v, const vn_gradient_ask_t *ask, vn_error_t *err) {
    for (int k = 0; k < ask->n_ys; ++k) {
        const vn_inferred_value_t *y = vn_vjp_fact(v, ask->ys[k]);
        VN_TRY(v->status);
        if (!vn_dtype_is_float(y->dtype))
            return vn_fail(err, VN_ERR_DTYPE, "gradient: '%.200s' is %s; only floats are differentiated", ask->ys[k],
                           vn_dtype_name(y->dtype));
        const char *name = ask->cotangents ? ask->cotangents[k] : vn_vjp_filled(v, y, 1);
        if (ask->cotangents) VN_TRY(vn_graph_add_input(v->graph, name, y->dtype, y->rank, y->dims, err));
        add_term(v, ask->ys[k], name);
    }
    return v->status;
}

static vn_status_t finish(vn_vjp_t *v, const vn_gradient_ask_t *ask, vn_error_t *err) {
    for (int k = 0; k < ask->n_xs; ++k) {
        const vn_inferred_value_t *x = vn_vjp_fact(v, ask->xs[k]);
        VN_TRY(v->status);
        if (!vn_dtype_is_float(x->dtype))
            return vn_fail(err, VN_ERR_DTYPE, "gradient: '%.200s' is %s; only floats are differentiated", ask->xs[k],
                           vn_dtype_name(x->dtype));
        const char *sum = total(v, ask->xs[k]), *name = vn_arena_printf(v->arena, "gradient/of/%s", ask->xs[k]);
        if (!sum) sum = vn_vjp_filled(v, x, 0);
        VN_TRY(v->status);
        if (!name) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        VN_TRY(vn_graph_add_node(v->graph, name, "Identity", "", 1, &sum, 1, &name, NULL, err));
        VN_TRY(vn_graph_add_output(v->graph, name, x->dtype, x->rank, x->dims, err));
    }
    return vn_model_finish(v->model, err);
}

static vn_status_t backward(vn_vjp_t *v, const vn_gradient_ask_t *ask, vn_error_t *err) {
    vn_scope_t active = {0};
    const int forward = v->graph->n_nodes;
    vn_status_t s = activate(v->graph, ask, &active, err);
    v->active = &active;
    if (s == VN_OK) s = seed(v, ask, err);
    for (int i = forward - 1; i >= 0 && s == VN_OK; --i) {
        const vn_node_t node = v->graph->nodes[i]; /* the array may move while nodes are added */
        back(v, &node);
        s = v->status;
    }
    if (s == VN_OK) s = finish(v, ask, err);
    v->active = NULL;
    vn_scope_clear(&active);
    return s;
}

static vn_status_t differentiate(const vn_graph_t *g, const vn_gradient_ask_t *ask, const vn_bundle_t *inputs, int depth, vn_model_t **out,
                                 vn_error_t *err) {
    sums_t sums = {0};
    vn_inferred_t facts = {0};
    vn_vjp_t v = {.err = err, .sums = &sums};
    cut_t c = {.v = &v, .ask = ask, .inputs = inputs};
    *out = NULL;
    if (depth > 8) return vn_fail(err, VN_ERR_RANGE, "gradient: derivatives nested deeper than 8 (does a Gradient node depend on itself?)");
    v.arena = vn_arena_new();
    vn_status_t s = v.arena ? start(g, &v, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < ask->n_xs + ask->n_zs && s == VN_OK; ++k) {
        const char *name = k < ask->n_xs ? ask->xs[k] : ask->zs[k - ask->n_xs];
        s = mark(&c.stop, name, 0, err);
        if (s == VN_OK) s = add_input(&c, name, err);
    }
    if (s == VN_OK) s = trace(&c, g, err);
    if (s == VN_OK) s = gather(&c, g, depth, err);
    if (s == VN_OK) s = facts_of(&c, &facts, err);
    v.facts = &facts;
    if (s == VN_OK) s = backward(&v, ask, err);
    vn_inferred_free(&facts);
    vn_scope_clear(&c.stop);
    vn_scope_clear(&c.needed);
    vn_free(c.todo);
    vn_scope_clear(&sums.index);
    vn_free(sums.list);
    vn_arena_free(v.arena);
    if (s == VN_OK) *out = v.model;
    else vn_model_free(v.model);
    return s;
}

vn_status_t vn_oracle_gradient(const vn_graph_t *g, const vn_gradient_ask_t *ask, const vn_bundle_t *inputs, vn_model_t **out,
                               vn_error_t *err) {
    return differentiate(g, ask, inputs, 0, out, err);
}
