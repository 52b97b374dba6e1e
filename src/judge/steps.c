/* steps.c -- recurrent layers, each step from the state that was returned before it.
 *
 * A bound that is carried through the recurrence grows with |R|^t and says nothing after some tens of steps. The returned states allow a
 * sharper question: is every step, by itself, what the contract allows? Claim JUDGE-3: if each step from the returned state of the step
 * before keeps its bound, the whole is one execution under the contract; so a pass is as sound as the carried one, and a failure that the
 * carried bound has not seen is a proof as well: no execution of the contract takes that step.
 */
#include <stdio.h>
#include <string.h>

#include "judge/ladder.h"

/* Undecided or passing findings are replaced by what the steps say; a proof against the back end stays. */
vn_status_t vn_judge_steps(const vn_question_t *q, vn_finding_t *findings, vn_error_t *err) {
    bool open = false;
    for (int k = 0; k < q->n_outputs; ++k)
        open |= *q->node->outputs[k] &&
                (findings[k].verdict == VN_EXPLAINED || findings[k].verdict == VN_UNINFORMATIVE || findings[k].verdict == VN_SUSPECT);
    if (!open) return VN_OK;
    vn_ref_t *refs = vn_alloc((size_t)q->n_outputs + 1, sizeof *refs);
    vn_finding_t *fresh = vn_alloc((size_t)q->n_outputs + 1, sizeof *fresh);
    vn_error_t why = {0};
    vn_status_t s = refs && fresh ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) {
        const vn_status_t eval =
            vn_oracle_steps(q->model, q->node, q->inputs, q->outer, q->contract, VN_WANT_VARIANCE, q->actual, refs, &why);
        if (eval == VN_ERR_NOMEM) s = vn_fail(err, eval, "no memory");
        if (eval == VN_OK) {
            vn_question_t each = *q;
            each.refs = refs;
            each.stepwise = true;
            s = vn_judge(&each, fresh, err);
            for (int k = 0; k < q->n_outputs && s == VN_OK; ++k) {
                const vn_verdict_t v = findings[k].verdict;
                if (!*q->node->outputs[k] || !(v == VN_EXPLAINED || v == VN_UNINFORMATIVE || v == VN_SUSPECT)) continue;
                findings[k] = fresh[k];
                if (!*findings[k].note) snprintf(findings[k].note, sizeof findings[k].note, "each step from the returned state");
                if (findings[k].verdict == VN_EXACT)
                    findings[k].verdict = VN_EXPLAINED; /* every step is the rounded one; the whole need not be */
            }
        }
    }
    for (int k = 0; refs && k < q->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(refs);
    vn_free(fresh);
    return s;
}
