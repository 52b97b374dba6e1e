/* semantic_step.c -- a group of operators whose result jumps: honest round-off in front of a step function decides which step is taken.
 *
 * The verdict is the oracle's: it composes bounds through the step and accepts either side where the operand may lie on both. This only says why two
 * right executions differ by a whole step, and where: the graph is to blame, not a kernel.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/explain.h"

/* Operators whose result jumps where their operand moves by a rounding. */
static bool jumps(const vn_node_t *n) {
    static const char *const ops[] = {"Floor",
                                      "Ceil",
                                      "Round",
                                      "Sign",
                                      "Equal",
                                      "Less",
                                      "LessOrEqual",
                                      "Greater",
                                      "GreaterOrEqual",
                                      "ArgMax",
                                      "ArgMin",
                                      "TopK",
                                      "NonZero",
                                      "Hardmax",
                                      "Mod",
                                      "QuantizeLinear",
                                      "DynamicQuantizeLinear",
                                      "Unique",
                                      "NonMaxSuppression",
                                      NULL};
    if (*n->domain) return false;
    if (strcmp(n->op, "Cast") == 0) return !vn_dtype_is_float((vn_dtype_t)vn_node_int(n, "to", VN_F32));
    for (int i = 0; ops[i]; ++i)
        if (strcmp(n->op, ops[i]) == 0) return true;
    return false;
}

enum { DEPTH = 12 };

/* The step behind `value`, seen through operators that neither add terms nor approximate: what differs behind them differs by steps. */
static const vn_node_t *step_behind(const vn_model_t *m, const char *value, int depth, bool *rounded) {
    const vn_graph_t *g = m->graph;
    const int at = depth > 0 ? vn_graph_producer(g, value) : -1;
    vn_op_info_t info;
    if (at < 0) return NULL;
    const vn_node_t *n = &g->nodes[at];
    if (jumps(n)) return n;
    if (!vn_oracle_knows(m, n, &info)) return NULL;
    if (info.cls == VN_CLASS_ROUNDED || info.cls == VN_CLASS_QUANTISE) *rounded = true;
    else if (info.cls != VN_CLASS_MOVEMENT && info.cls != VN_CLASS_EXACT && info.cls != VN_CLASS_CONTROL) return NULL;
    for (int k = 0; k < n->n_inputs; ++k) {
        const vn_node_t *found = *n->inputs[k] ? step_behind(m, n->inputs[k], depth - 1, rounded) : NULL;
        if (found) return found;
    }
    return NULL;
}

void vn_note_step(vn_case_t *c) {
    const vn_question_t *q = c->q;
    const vn_tensor_t *want = c->ref->tensor, *got = c->actual;
    vn_finding_t *f = c->f;
    if (q->node || c->m.outside || !c->m.unequal || !want || want->dtype != got->dtype || c->k >= q->model->graph->n_outputs) return;
    if (vn_dtype_kind(want->dtype) == VN_KIND_STRING || vn_dtype_kind(want->dtype) == VN_KIND_COMPLEX) return;
    bool rounded = false;
    const vn_node_t *step = step_behind(q->model, q->model->graph->outputs[c->k].name, DEPTH, &rounded);
    if (!step) return;
    const vn_format_t format = vn_format_of(want->dtype);
    int64_t n = 0, first = -1;
    for (int64_t i = 0; i < want->count; ++i) {
        if (vn_same_bits(got, i, want, i)) continue;
        const double x = vn_tensor_get_f64(got, i), y = vn_tensor_get_f64(want, i);
        if (format != VN_FMT_NONE && (!isfinite(x) || !isfinite(y) || x == y)) continue;
        if (rounded && format != VN_FMT_NONE && fabs(x - y) <= 2 * vn_ulp(format, fmax(fabs(x), fabs(y))))
            continue; /* their own roundings */
        if (first < 0) first = i;
        n++;
    }
    if (!n) return;
    char where[96];
    vn_index_text(got, first, where, sizeof where);
    snprintf(f->cause, sizeof f->cause, "discrete-step");
    snprintf(f->note, sizeof f->note, "discrete-step: round-off in front of %.60s decides %lld of %lld elements", step->op, (long long)n,
             (long long)want->count);
    snprintf(f->words, sizeof f->words,
             "%lld of %lld elements differ by a whole step, the first at %s (%.9g, oracle %.9g): the operand of %.60s lies within the "
             "bound of the "
             "step, so either side is right. The graph asks for more digits than its type has.",
             (long long)n, (long long)want->count, where, vn_tensor_get_f64(got, first), vn_tensor_get_f64(want, first), step->path);
}
