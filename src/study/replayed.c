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
    const bool deep = s->o->effort == VN_EFFORT_DEEP;
    const vn_ref_t *r = t->refs;
    if (t->node.n_outputs != 1 || !actual || actual->kind != VN_VALUE_TENSOR || !vn_dtype_is_float(r->dtype) || r->count == 0) return VN_OK;
    vn_status_t st = vn_reveal_model_task(s->model, &t->node, (const vn_value_t *const *)t->inputs, t->frozen, &op, &m, &why);
    if (st == VN_OK && m.dtype == VN_UNDEFINED) m.dtype = r->dtype;
    const vn_reveal_options_t o = {.seed = 1, .max_seconds = deep ? DEEP_SECONDS : SUSPECT_SECONDS};
    if (st == VN_OK) st = vn_reveal_on(b->worker, &m, &op, &o, &schedule, NULL, NULL, &why);
    int64_t equal = 0, known = 0;
    if (st == VN_OK && *schedule->sha256) {
        st = compare(&m, schedule, t, actual->tensor, &equal, &known, &why);
        if (st == VN_OK) {
            const vn_contract_t contract = vn_contract_resolve(&s->o->contract, r->dtype);
            conclude(schedule, &contract, equal, known, f);
        }
    } else if (st == VN_OK) {
        char line[400];
        snprintf(line, sizeof line, "schedule: %.300s", *schedule->reason ? schedule->reason : "none was read");
        append(f->rungs, sizeof f->rungs, line);
    }
    if (st != VN_OK && st != VN_ERR_NOMEM && st != VN_ERR_UNSUPPORTED) { /* the back end failed under probes: this row stands as it is */
        char line[400];
        snprintf(line, sizeof line, "schedule: %.300s", why.text);
        append(f->rungs, sizeof f->rungs, line);
    }
    vn_schedule_free(schedule);
    vn_reveal_model_clear(&m);
    return st == VN_ERR_NOMEM ? vn_fail(err, st, "%s", why.text) : VN_OK;
}
