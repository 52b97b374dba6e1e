/* fused.c -- groups of operators that a back end may have computed as one kernel, judged as one operator with composed bounds.
 *
 * A fused kernel keeps intermediates in registers, and a captured intermediate is then computed beside it: the node alone, on the captured
 * input, looks wrong by a rounding. The group is judged by the same contract; its composed bound allows each inner rounding to happen or
 * not (claim REGION-1), so a pass is a sound statement about the group and is noted as such. Where the contract does not explain a group,
 * hypotheses are asked: functions inside it may be approximate (tier `fast`), and the operands of a product narrow.
 */
#include <stdio.h>
#include <string.h>

#include "study/study_internal.h"

enum { MAX_GROUP = 12, MAX_LEVELS = 5 };

typedef struct group {
    int nodes[MAX_GROUP];
    int count;
} group_t;

static bool holds(const group_t *g, int node) {
    for (int i = 0; i < g->count; ++i)
        if (g->nodes[i] == node) return true;
    return false;
}

static bool may_join(const vn_study_t *s, const vn_node_t *n) {
    vn_op_info_t info;
    if (!*n->domain && strcmp(n->op, "Constant") == 0) return false;
    if (!vn_oracle_knows(s->model, n, &info)) return false;
    return info.cls != VN_CLASS_CONTROL && info.cls != VN_CLASS_RANDOM &&
           vn_model_function(s->model, n->domain, n->op, n->overload) == NULL;
}

/* One level: the producers of everything the group reads. False when nothing can be added. */
static bool grow(const vn_study_t *s, group_t *g) {
    const vn_graph_t *graph = s->model->graph;
    const int before = g->count;
    for (int i = 0; i < before; ++i) {
        const vn_node_t *n = &graph->nodes[g->nodes[i]];
        for (int k = 0; k < n->n_inputs; ++k) {
            const int p = *n->inputs[k] ? vn_graph_producer(graph, n->inputs[k]) : -1;
            if (p < 0 || holds(g, p) || !may_join(s, &graph->nodes[p])) continue;
            if (g->count == MAX_GROUP) return false;
            g->nodes[g->count++] = p;
        }
    }
    return g->count > before;
}

/* Only products have operands that a back end rounds. */
static bool has_contraction(const vn_study_t *s, const group_t *g) {
    vn_op_info_t info;
    for (int i = 0; i < g->count; ++i)
        if (vn_oracle_knows(s->model, &s->model->graph->nodes[g->nodes[i]], &info) && info.cls == VN_CLASS_CONTRACTION) return true;
    return false;
}

static bool made_inside(const vn_study_t *s, const group_t *g, const char *name) {
    const int p = vn_graph_producer(s->model->graph, name);
    return p >= 0 && holds(g, p);
}

static vn_status_t copy_node(vn_model_t *m, const vn_node_t *n, vn_error_t *err) {
    vn_node_t *copy;
    VN_TRY(vn_graph_add_node(m->graph, n->name, n->op, n->domain, n->n_inputs, n->inputs, n->n_outputs, n->outputs, &copy, err));
    for (int a = 0; a < n->n_attrs; ++a) VN_TRY(vn_node_set_attr(m, copy, &n->attrs[a], err));
    return VN_OK;
}

/* The group as a model of its own; its inputs are what nobody inside makes. */
static vn_status_t build(const vn_study_t *s, const group_t *g, vn_operand_fn operand, const void *ctx, vn_model_t **out, vn_bundle_t *in,
                         bool *complete, vn_error_t *err) {
    const vn_graph_t *graph = s->model->graph;
    *complete = true;
    VN_TRY(vn_model_new(s->model->ir_version, out, err));
    for (int i = 0; i < s->model->n_opsets; ++i)
        VN_TRY(vn_model_set_opset(*out, s->model->opsets[i].domain, s->model->opsets[i].version, err));
    for (int i = g->count - 1; i >= 0; --i) {
        const vn_node_t *n = &graph->nodes[g->nodes[i]];
        VN_TRY(copy_node(*out, n, err));
        for (int k = 0; k < n->n_inputs; ++k) {
            const char *name = n->inputs[k];
            if (!*name || made_inside(s, g, name) || vn_bundle_find(in, name) || vn_graph_init((*out)->graph, name)) continue;
            vn_value_t *v;
            VN_TRY(operand(ctx, name, &v, err));
            if (!v || v->kind != VN_VALUE_TENSOR) {
                *complete = false;
                vn_value_free(v);
                return VN_OK;
            }
            const vn_tensor_t *t = v->tensor;
            vn_status_t st = vn_graph_add_input((*out)->graph, name, t->dtype, t->rank, t->dims, err);
            if (st == VN_OK) st = vn_bundle_add(in, name, v->tensor, err);
            vn_value_free(v);
            VN_TRY(st);
        }
    }
    const vn_node_t *last = &graph->nodes[g->nodes[0]];
    for (int k = 0; k < last->n_outputs; ++k)
        if (*last->outputs[k]) VN_TRY(vn_graph_add_output((*out)->graph, last->outputs[k], VN_UNDEFINED, -1, NULL, err));
    return vn_model_finish(*out, err);
}

static bool is_named(const vn_finding_t *f) { return f->verdict == VN_CONTRACT_MISMATCH && *f->cause; }

static void describe(const vn_study_t *s, const group_t *g, vn_finding_t *f) {
    char names[200] = "";
    for (int i = g->count - 1; i >= 0; --i)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.40s", *names ? "+" : "", s->model->graph->nodes[g->nodes[i]].op);
    snprintf(f->note, sizeof f->note, "fused: %.200s", names);
    if (is_named(f)) return; /* its words say which arithmetic */
    snprintf(
        f->words, sizeof f->words,
        "Not what this operator alone would give on the captured inputs; explained as one kernel with the operators before it (%.200s).",
        names);
}

/* Passes the contract, or (ask != NONE) is named by a hypothesis about its arithmetic. */
static vn_status_t judge_group(const vn_study_t *s, vn_backend_t *b, const group_t *g, vn_operand_fn operand, const void *ctx,
                               const vn_value_t *const *got, vn_ask_t ask, vn_finding_t *findings, bool *explained, vn_error_t *err) {
    const vn_node_t *last = &s->model->graph->nodes[g->nodes[0]];
    vn_model_t *m = NULL;
    vn_bundle_t in = {0};
    bool complete;
    vn_ref_t refs[16] = {0};
    const vn_value_t *actual[16] = {0};
    vn_finding_t *fresh = vn_alloc(16, sizeof *fresh);
    vn_value_t **inputs = NULL;
    vn_status_t st = fresh ? build(s, g, operand, ctx, &m, &in, &complete, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    int n = 0;
    for (int k = 0; st == VN_OK && complete && k < last->n_outputs; ++k)
        if (*last->outputs[k] && n < 16) actual[n++] = got[k];
    vn_error_t why = {0};
    if (st == VN_OK && complete && n == m->graph->n_outputs &&
        vn_oracle_region(m, &in, &s->o->contract, VN_WANT_VARIANCE, refs, &why) == VN_OK) {
        inputs = vn_alloc((size_t)m->graph->n_inputs + 1, sizeof *inputs);
        for (int k = 0; inputs && k < m->graph->n_inputs && st == VN_OK; ++k) {
            const vn_tensor_t *t = vn_bundle_find(&in, m->graph->inputs[k].name);
            inputs[k] = t ? vn_value_tensor(vn_tensor_retain(t)) : NULL;
        }
        const vn_question_t q = {.model = m,
                                 .inputs = (const vn_value_t *const *)inputs,
                                 .contract = &s->o->contract,
                                 .refs = refs,
                                 .n_outputs = n,
                                 .actual = actual,
                                 .alpha = s->alpha,
                                 .effort = VN_EFFORT_QUICK,
                                 .ask = ask,
                                 .hint = &b->hint};
        st = inputs ? vn_judge(&q, fresh, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
        bool pass = st == VN_OK;
        for (int k = 0; k < n && pass; ++k) pass = vn_verdict_passes(fresh[k].verdict) || (ask != VN_ASK_NONE && is_named(&fresh[k]));
        for (int k = 0, j = 0; pass && k < last->n_outputs; ++k) {
            if (!*last->outputs[k]) continue;
            findings[k] = fresh[j++];
            if (!is_named(&findings[k])) findings[k].verdict = VN_EXPLAINED;
            describe(s, g, &findings[k]);
        }
        *explained = pass;
        for (int k = 0; k < n; ++k) vn_ref_free(&refs[k]);
    }
    for (int k = 0; inputs && k < m->graph->n_inputs; ++k) vn_value_free(inputs[k]);
    vn_free(inputs);
    vn_free(fresh);
    vn_bundle_free(&in);
    vn_model_free(m);
    return st;
}

vn_status_t vn_study_fused(const vn_study_t *s, vn_backend_t *b, int node, vn_operand_fn operand, const void *ctx, vn_ask_t ask,
                           const vn_value_t *const *got, vn_finding_t *findings, bool *explained, vn_error_t *err) {
    group_t g = {.nodes = {node}, .count = 1};
    *explained = false;
    if (!may_join(s, &s->model->graph->nodes[node])) return VN_OK;
    for (int level = 0; level < MAX_LEVELS && !*explained && grow(s, &g); ++level)
        if (ask != VN_ASK_ARITHMETICS || has_contraction(s, &g)) /* without a product there is nothing that was not asked before */
            VN_TRY(judge_group(s, b, &g, operand, ctx, got, ask, findings, explained, err));
    return VN_OK;
}
