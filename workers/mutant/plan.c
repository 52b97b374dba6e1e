/* plan.c -- from a model to steps over slots. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

static const op_table_t *const tables[] = {&contraction_ops,   &convolution_ops, &unary_ops,    &elementwise_ops, &reduction_ops,
                                           &normalisation_ops, &pooling_ops,     &movement_ops, &index_ops,       &attention_ops,
                                           &quantise_ops,      &integer_ops,     &resample_ops, &recurrent_ops,   &scan_ops,
                                           &scatter_ops,       &order_ops,       &einsum_ops,   &statistics_ops,  &rearrange_ops};

const op_row_t *mutant_op(int i) {
    for (size_t t = 0; i >= 0 && t < sizeof tables / sizeof *tables; i -= tables[t]->count, ++t)
        if (i < tables[t]->count) return &tables[t]->rows[i];
    return NULL;
}

const op_row_t *mutant_find(const char *domain, const char *name) {
    if (domain[0]) return NULL;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; ++t)
        for (int i = 0; i < tables[t]->count; ++i)
            if (strcmp(tables[t]->rows[i].name, name) == 0) return &tables[t]->rows[i];
    return NULL;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

int plan_slot(const plan_t *p, const char *name) {
    const char **at = p->n_slots ? bsearch(&name, p->names, (size_t)p->n_slots, sizeof *p->names, by_name) : NULL;
    return at ? (int)(at - p->names) : -1;
}

/* Every name that the graph gives a value: inputs, initialisers, outputs of nodes. */
static vn_status_t collect(const vn_graph_t *g, plan_t *p, vn_error_t *err) {
    size_t n = (size_t)g->n_inputs + (size_t)g->n_inits;
    for (int i = 0; i < g->n_nodes; ++i) n += (size_t)g->nodes[i].n_outputs;
    p->names = vn_arena_alloc(p->arena, n, sizeof *p->names);
    if (!p->names) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    size_t k = 0;
    for (int i = 0; i < g->n_inputs; ++i) p->names[k++] = g->inputs[i].name;
    for (int i = 0; i < g->n_inits; ++i) p->names[k++] = g->inits[i].name;
    for (int i = 0; i < g->n_nodes; ++i)
        for (int o = 0; o < g->nodes[i].n_outputs; ++o)
            if (g->nodes[i].outputs[o][0]) p->names[k++] = g->nodes[i].outputs[o];
    qsort(p->names, k, sizeof *p->names, by_name);
    for (size_t i = 0; i < k; ++i) /* an initialiser may also be an input */
        if (p->n_slots == 0 || strcmp(p->names[p->n_slots - 1], p->names[i]) != 0) p->names[p->n_slots++] = p->names[i];
    return VN_OK;
}

static vn_status_t make_step(plan_t *p, const vn_node_t *n, step_t *s, vn_error_t *err) {
    s->node = n;
    s->op = mutant_find(n->domain, n->op);
    s->opset = vn_model_opset(p->model, n->domain);
    if (!s->op) return vn_fail(err, VN_ERR_UNSUPPORTED, "operator %s%s%s of node %s", n->domain, n->domain[0] ? "." : "", n->op, n->path);
    s->in = vn_arena_alloc(p->arena, (size_t)n->n_inputs, sizeof *s->in);
    s->out = vn_arena_alloc(p->arena, (size_t)n->n_outputs, sizeof *s->out);
    if (!s->in || !s->out) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    for (int i = 0; i < n->n_inputs; ++i) {
        s->in[i] = n->inputs[i][0] ? plan_slot(p, n->inputs[i]) : -1;
        if (n->inputs[i][0] && s->in[i] < 0) return vn_fail(err, VN_ERR_PARSE, "%s: nothing gives '%.100s'", n->path, n->inputs[i]);
    }
    for (int i = 0; i < n->n_outputs; ++i) s->out[i] = n->outputs[i][0] ? plan_slot(p, n->outputs[i]) : -1;
    return VN_OK;
}

static vn_status_t make(const vn_graph_t *g, plan_t *p, vn_error_t *err) {
    VN_TRY(collect(g, p, err));
    p->n_steps = g->n_nodes;
    p->steps = vn_arena_alloc(p->arena, (size_t)g->n_nodes, sizeof *p->steps);
    p->last_use = vn_arena_alloc(p->arena, (size_t)p->n_slots, sizeof *p->last_use);
    if (!p->steps || !p->last_use) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    for (int i = 0; i < g->n_nodes; ++i) VN_TRY(make_step(p, &g->nodes[i], &p->steps[i], err));
    for (int i = 0; i < p->n_steps; ++i) {
        for (int k = 0; k < p->steps[i].node->n_inputs; ++k)
            if (p->steps[i].in[k] >= 0) p->last_use[p->steps[i].in[k]] = i;
        for (int k = 0; k < p->steps[i].node->n_outputs; ++k)
            if (p->steps[i].out[k] >= 0) p->last_use[p->steps[i].out[k]] = i;
    }
    for (int i = 0; i < g->n_outputs; ++i) {
        const int slot = plan_slot(p, g->outputs[i].name);
        if (slot >= 0) p->last_use[slot] = p->n_steps;
    }
    return VN_OK;
}

vn_status_t plan_make(const vn_model_t *m, plan_t *p, vn_error_t *err) {
    *p = (plan_t){.model = m, .arena = vn_arena_new()};
    if (!p->arena) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    vn_status_t s = make(m->graph, p, err);
    if (s != VN_OK) plan_free(p);
    return s;
}

void plan_free(plan_t *p) {
    vn_arena_free(p->arena);
    *p = (plan_t){0};
}
