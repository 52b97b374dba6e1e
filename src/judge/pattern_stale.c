/* pattern_stale.c -- memory that the kernel should have written or cleared: an operand's values, sums that go on from the slice before.
 *
 * Claim PATTERN-9: elements that hold an operand's value of their own place, or the right value plus that of the slice before, are named by the
 * evidence of PATTERN-1.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/pattern.h"

/* ---- operands ---- */

/* ctx: a view of the operand with the output's shape. */
static bool holds(const vn_pattern_t *p, const void *ctx, int64_t i) {
    const double x = p->e->x[i], v = vn_tensor_get_f64(ctx, i);
    return x == v || (isnan(x) && isnan(v));
}

static bool evident(const vn_pattern_t *p, double log_tried) {
    double evidence = 0;
    int64_t different = 0;
    for (int64_t s = 0; s < p->n_sample; ++s) {
        const int64_t i = p->sample[s];
        if (p->e->x[i] == 0) continue; /* zeros have a name of their own */
        different++;
        evidence += p->exact ? -log(vn_pattern_share(p, i, 0)) : vn_pattern_accident(p, p->e->x[i], 0);
    }
    return different > 1 && evidence > vn_pattern_limit(log_tried);
}

static vn_status_t one_operand(vn_pattern_t *p, const vn_tensor_t *t, int k, double log_tried, bool *found, vn_error_t *err) {
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    if (kind == VN_KIND_STRING || kind == VN_KIND_COMPLEX || kind == VN_KIND_NONE || t->count == 0) return VN_OK;
    vn_tensor_t *as = NULL, *whole = NULL;
    vn_error_t why;
    vn_status_t s = vn_tensor_broadcast(t, p->got->rank, p->got->dims, &as, &why);
    if (s != VN_OK && s != VN_ERR_NOMEM && t->count == p->n) { /* the same memory under another shape */
        s = vn_tensor_contiguous(t, &whole, &why);
        if (s == VN_OK) s = vn_tensor_reshape(whole, p->got->rank, p->got->dims, &as, &why);
    }
    if (s == VN_ERR_NOMEM) s = vn_fail(err, s, "no memory for an operand");
    else s = VN_OK;
    bool all = as != NULL && s == VN_OK;
    for (int64_t w = 0; w < p->m && all; ++w) all = holds(p, as, p->at[w]);
    if (all && evident(p, log_tried)) {
        vn_places_t where;
        s = vn_pattern_where(p, holds, as, &where, err);
        *found = s == VN_OK && where.kind != VN_PLACES_SCATTERED && where.kind != VN_PLACES_ONE;
        if (*found)
            vn_explain_offer(p->e, VN_NAME_SOURCE, 0.9, VN_BUG, vn_places_slices(&where) ? "row-wrong" : "stale-buffer",
                             "The values of operand %d stand unchanged in %s: nothing was computed there.", k, where.text);
    }
    vn_tensor_free(as);
    vn_tensor_free(whole);
    return s;
}

static vn_status_t operands(vn_pattern_t *p, bool *found, vn_error_t *err) {
    const vn_question_t *q = p->e->c->q;
    const int n = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    for (int k = 0; k < n && !*found; ++k)
        if (q->inputs[k] && q->inputs[k]->kind == VN_VALUE_TENSOR) VN_TRY(one_operand(p, q->inputs[k]->tensor, k, log(n), found, err));
    return VN_OK;
}

/* ---- sums that go on ---- */

/* Slice t holds its own sum plus what slice t - 1 held (or was due to hold). */
static bool goes_on(const vn_pattern_t *p, int64_t d, int64_t inner, bool kept, double *evidence) {
    const vn_format_t f = vn_format_of(p->got->dtype);
    *evidence = 0;
    int64_t said = 0;
    for (int64_t k = 0; k < p->m; ++k) {
        const int64_t i = p->at[k], t = i / inner % d;
        if (t == 0) return false; /* nothing stands before the first */
        const double before = kept ? p->e->x[i - inner] : p->e->y[i - inner], x = p->e->x[i], sum = p->e->y[i] + before;
        const double room = vn_pattern_room(p, i) + (kept ? 0 : vn_pattern_room(p, i - inner)) + 2 * vn_ulp(f, x) + vn_ulp(f, before);
        if (!isfinite(sum) || !(fabs(x - sum) <= room)) return false;
        const double share = vn_pattern_accident(p, before, room);
        if (share > 0) said++;
        *evidence += share;
    }
    return said > 1;
}

static void sums(vn_pattern_t *p, bool *found) {
    int64_t inner = 1;
    for (int k = p->got->rank - 1; k >= 0 && !*found; inner *= p->got->dims[k--])
        for (int kept = 0; kept < 2 && !*found; ++kept)
            for (int merged = 0; merged < 2 && !*found; ++merged) { /* an axis; all axes up to it as one */
                const int64_t d = merged ? p->n / inner : p->got->dims[k];
                double evidence;
                if (d < 2 || !goes_on(p, d, inner, kept != 0, &evidence) || evidence <= vn_pattern_limit(log(4.0 * p->got->rank))) continue;
                *found = true;
                vn_explain_offer(
                    p->e, VN_NAME_SOURCE, 1, VN_BUG, "stale-buffer",
                    "Along axis %d each slice holds the right values plus those of the slice before: the accumulator is not cleared "
                    "in between.",
                    k);
            }
}

vn_status_t vn_pattern_stale(vn_pattern_t *p, vn_error_t *err) {
    if (p->e->c->m.outside == 0 || !p->e->x || p->index || p->near || p->e->level >= VN_NAME_SOURCE) return VN_OK;
    for (int64_t k = 0; k < p->m; ++k)
        if (isnan(p->e->x[p->at[k]])) return VN_OK;
    bool found = false;
    VN_TRY(operands(p, &found, err));
    if (!found && vn_dtype_is_float(p->got->dtype)) sums(p, &found);
    return VN_OK;
}
