/* replayed.c -- rung 9: the schedule of an isolated sum is read off the back end, and applied to the very inputs that were judged.
 *
 * Claim REPLAY-1: if every element equals the replay, the result is one execution of this tree with this arithmetic. Where both are in the declared
 * contract (any association, operands and products as promised) that proves what statistics only make likely.
 */
#include <stdio.h>
#include <string.h>

#include "study/reveal.h"
#include "study/study_internal.h"

enum { DEEP_SECONDS = 60, SUSPECT_SECONDS = 20 };

/* A schedule and the operator instance that it was read off. Another node with the same sizes most likely runs the same kernel: whether it does is
 * decided by the replay of its own result, so that no assumption is made; if it differs its own schedule is read. */
struct vn_revealed {
    vn_sum_op_t op;
    unsigned constant;
    vn_schedule_t *schedule;
};

void vn_study_forget_schedules(vn_backend_t *b) {
    for (int k = 0; k < b->n_revealed; ++k) vn_schedule_free(b->revealed[k].schedule);
    vn_free(b->revealed);
    b->revealed = NULL;
    b->n_revealed = 0;
}

/* Takes the schedule over. */
static vn_status_t keep(vn_backend_t *b, const vn_sum_op_t *op, unsigned constant, vn_schedule_t *s, vn_error_t *err) {
    struct vn_revealed *more = vn_realloc(b->revealed, (size_t)b->n_revealed + 1, sizeof *more);
    if (!more) {
        vn_schedule_free(s);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    b->revealed = more;
    b->revealed[b->n_revealed++] = (struct vn_revealed){.op = *op, .constant = constant, .schedule = s};
    return VN_OK;
}

static void append(char *text, size_t size, const char *more) {
    const size_t n = strlen(text);
    if (n + strlen(more) + 3 < size) snprintf(text + n, size - n, "%s%s", n ? "; " : "", more);
}

/* What the arithmetic does to operands and sums is what the contract promises. */
static bool in_contract(const vn_arithmetic_t *a, const vn_contract_t *c) {
    const vn_format_info_t *due = vn_format_info(c->accumulator), *have = vn_format_info(a->accumulator);
    return a->operand[0] == VN_FMT_NONE && a->operand[1] == VN_FMT_NONE && a->rounding == VN_RNE && !a->narrow_every &&
           a->initial == VN_FMT_NONE && !a->fused_bits && due && have && have->p >= due->p && (!a->daz || c->daz) && (!a->ftz || c->ftz) &&
           (a->store == VN_FMT_NONE || (c->result == VN_FMT_NONE && a->store_rounding == VN_RNE));
}

/* Elements that equal the replay, of all that have one. */
static vn_status_t compare(const vn_reveal_model_t *m, const vn_schedule_t *s, const vn_task_t *t, const vn_tensor_t *actual,
                           int64_t *equal, int64_t *known, vn_error_t *err) {
    vn_tensor_t *in[VN_REVEAL_INPUTS] = {0}, *out = NULL;
    float *due = vn_alloc((size_t)s->outputs + 1, sizeof *due);
    bool *has = vn_alloc((size_t)s->outputs + 1, sizeof *has);
    vn_status_t st = due && has ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    *equal = *known = 0;
    if (st == VN_OK && actual->count != s->outputs)
        st = vn_fail(err, VN_ERR_SHAPE, "%lld elements, not %lld", (long long)actual->count, (long long)s->outputs);
    for (int k = 0; k < m->n_inputs && st == VN_OK; ++k) st = vn_layout_undo(&m->in[k], t->inputs[m->slot[k]]->tensor, &in[k], err);
    if (st == VN_OK) st = vn_layout_undo(&m->out, actual, &out, err);
    if (st == VN_OK) st = vn_schedule_apply(s, m->n_inputs, (const vn_tensor_t *const *)in, due, has, err);
    for (int64_t e = 0; st == VN_OK && e < s->outputs; ++e) {
        const double got = vn_tensor_get_f64(out, e), want = (double)due[e];
        *known += has[e];
        *equal += has[e] && (memcmp(&got, &want, sizeof got) == 0 || (got != got && want != want));
    }
    for (int k = 0; k < VN_REVEAL_INPUTS; ++k) vn_tensor_free(in[k]);
    vn_tensor_free(out);
    vn_free(due);
    vn_free(has);
    return st;
}

static void conclude(const vn_schedule_t *s, const vn_contract_t *contract, int64_t equal, int64_t known, vn_finding_t *f) {
    char line[500], words[300];
    const char *text = s->n_classes > 0 && s->classes[0].text ? s->classes[0].text : "";
    snprintf(f->schedule, sizeof f->schedule, "%s | %s | sched:%.12s%s", text, s->arithmetic_text, s->sha256,
             s->n_classes > 1 ? " (several classes)" : "");
    snprintf(line, sizeof line, "schedule %.120s, %.80s: replayed %lld of %lld", text, s->arithmetic_text, (long long)equal,
             (long long)s->outputs);
    append(f->rungs, sizeof f->rungs, line);
    if (equal < s->outputs || known < s->outputs || !in_contract(&s->arithmetic, contract)) return;
    if (f->verdict != VN_EXPLAINED && f->verdict != VN_SUSPECT) return;
    f->verdict = VN_REPLAYED;
    vn_schedule_words(text, words, sizeof words);
    snprintf(f->words, sizeof f->words, "Every element equals the replay of the schedule that was read off the back end: %.200s, %.100s.",
             words, s->arithmetic_text);
    f->cause[0] = '\0';
}

vn_status_t vn_study_replay(vn_study_t *s, vn_backend_t *b, const vn_task_t *t, const vn_value_t *actual, vn_finding_t *f,
                            vn_error_t *err) {
    vn_sum_op_t op;
    vn_reveal_model_t m = {0};
    vn_schedule_t *schedule = NULL;
    vn_error_t why = {0};
    memset(&op, 0, sizeof op); /* compared as a whole */
    const bool deep = s->o->effort == VN_EFFORT_DEEP;
    const vn_ref_t *r = t->refs;
    if (t->node.n_outputs != 1 || !actual || actual->kind != VN_VALUE_TENSOR || !vn_dtype_is_float(r->dtype) || r->count == 0) return VN_OK;
    vn_status_t st = vn_reveal_model_task(s->model, &t->node, (const vn_value_t *const *)t->inputs, t->frozen, &op, &m, &why);
    if (st == VN_OK && op.kind == VN_SUM_ATTENTION)
        st = vn_fail(&why, VN_ERR_UNSUPPORTED,
                     "attention is read by vernier reveal; its exp is no part of a schedule, so that given inputs have no replay");
    if (st == VN_OK && m.dtype == VN_UNDEFINED) m.dtype = r->dtype;
    const vn_reveal_options_t o = {.seed = 1, .max_seconds = deep ? DEEP_SECONDS : SUSPECT_SECONDS};
    const vn_contract_t contract = vn_contract_resolve(&s->o->contract, r->dtype);
    int64_t equal = 0, known = 0;
    for (int k = 0; k < b->n_revealed && st == VN_OK; ++k) {
        const struct vn_revealed *old = &b->revealed[k];
        if (old->constant != m.constant || memcmp(&old->op, &op, sizeof op) != 0 || !*old->schedule->sha256) continue;
        st = compare(&m, old->schedule, t, actual->tensor, &equal, &known, &why);
        if (st != VN_OK || equal < old->schedule->outputs) continue;
        conclude(old->schedule, &contract, equal, known, f);
        vn_reveal_model_clear(&m);
        return VN_OK;
    }
    if (st == VN_OK) st = vn_reveal_on(b->worker, &m, &op, &o, &schedule, NULL, NULL, &why);
    if (st == VN_OK && *schedule->sha256) {
        st = compare(&m, schedule, t, actual->tensor, &equal, &known, &why);
        if (st == VN_OK) conclude(schedule, &contract, equal, known, f);
    }
    if (st != VN_ERR_NOMEM && (st != VN_OK || !*schedule->sha256) && (st != VN_ERR_UNSUPPORTED || vn_reveal_reads(&t->node))) {
        char line[400]; /* nothing was read, or the back end failed under probes: the row stands as it is */
        snprintf(line, sizeof line, "schedule: %.300s", st != VN_OK ? why.text : *schedule->reason ? schedule->reason : "none was read");
        append(f->rungs, sizeof f->rungs, line);
    }
    const unsigned constant = m.constant;
    vn_reveal_model_clear(&m);
    if (st == VN_ERR_NOMEM) {
        vn_schedule_free(schedule);
        return vn_fail(err, st, "%s", why.text);
    }
    return schedule ? keep(b, &op, constant, schedule, err) : VN_OK;
}
