/* explain.c -- asks every family for a name of one failing output, and keeps the best.
 *
 * Claim NAME-1: a variant is offered iff every element of the actual output lies inside the variant's own bound although some lie outside the
 * contract's. So the words "this computation gives the whole result" are as sound as the bound. That another computation gives it too is
 * possible; of those that hold, the one nearest to the actual values is named.
 */
#include "judge/explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "judge/names.h"

void vn_explain_offer(vn_explain_t *e, vn_name_level_t level, double weight, vn_verdict_t verdict, const char *cause, const char *fmt, ...) {
    if (level < e->level || (level == e->level && !(weight > e->weight + 1e-9 * fabs(e->weight)))) return;
    e->level = level;
    e->weight = weight;
    e->verdict = verdict;
    snprintf(e->cause, sizeof e->cause, "%s", cause);
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->words, sizeof e->words, fmt, args);
    va_end(args);
}

bool vn_explain_fits(const vn_explain_t *e, int64_t i, double x) {
    const vn_ref_t *r = e->c->ref;
    const double y = e->y[i];
    if (x == y || (isnan(x) && isnan(y))) return true;
    if (r->either && vn_tensor_get_f64(r->either, i) == x) return true;
    const double room = vn_room(r, i);
    return room >= 0 && fabs(x - y) <= room;
}

bool vn_explain_moved(const vn_explain_t *e, int64_t i, int64_t j) { return vn_explain_fits(e, j, e->x[i]); }

/* Outside what the contract allows; of a suspect output, beyond the limit of its z. */
static int64_t mark(const vn_explain_t *e, uint8_t *wrong) {
    const vn_case_t *c = e->c;
    const vn_ref_t *r = c->ref;
    const bool suspect = c->m.outside == 0;
    const double z = vn_chernoff_z(1e-3, 0); /* typical round-off stays below (bounds.md, calculus 5) */
    int64_t n = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        if (suspect) wrong[i] = r->var && r->var[i] > 0 && fabs(e->x[i] - e->y[i]) > z * sqrt(r->var[i]);
        else if (e->x) wrong[i] = !(r->flags && (r->flags[i] & VN_EL_VOID)) && !vn_explain_fits(e, i, e->x[i]);
        else wrong[i] = !vn_same_bits(c->actual, i, r->tensor, i);
        n += wrong[i];
    }
    return n;
}

static double seconds(vn_effort_t effort) { return effort == VN_EFFORT_DEEP ? 60 : effort == VN_EFFORT_NORMAL ? 10 : 3; }

vn_status_t vn_explain(vn_case_t *c, vn_error_t *err) {
    vn_explain_t e = {.c = c, .n = c->actual->count, .deadline = vn_now() + seconds(c->q->effort)};
    if (e.n == 0 || !c->ref->tensor || c->ref->count != e.n) return VN_OK;
    const vn_kind_t kind = vn_dtype_kind(c->actual->dtype);
    const bool numbers = kind != VN_KIND_STRING && kind != VN_KIND_COMPLEX;
    uint8_t *wrong = vn_alloc((size_t)e.n, 1);
    double *x = numbers ? vn_alloc((size_t)e.n, sizeof *x) : NULL, *y = numbers ? vn_alloc((size_t)e.n, sizeof *y) : NULL;
    vn_status_t s = wrong && (!numbers || (x && y)) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)e.n);
    if (s == VN_OK) {
        if (numbers) {
            vn_tensor_to_f64(c->actual, x);
            if (c->ref->value) memcpy(y, c->ref->value, (size_t)e.n * sizeof *y);
            else vn_tensor_to_f64(c->ref->tensor, y);
        }
        e.x = x;
        e.y = y;
        e.wrong = wrong;
        e.n_wrong = mark(&e, wrong);
        for (int k = 0; vn_name_families[k].fn && e.n_wrong > 0 && s == VN_OK; ++k) s = vn_name_families[k].fn(&e, err);
        vn_rung(c->f, "names %d variants%s%s%s", e.variants, e.cut ? ", cut by time" : "", e.level ? ": " : "", e.cause);
    }
    if (s == VN_OK && e.level) {
        c->f->verdict = e.verdict;
        snprintf(c->f->cause, sizeof c->f->cause, "%s", e.cause);
        char where[96];
        vn_index_text(c->actual, c->f->first.index, where, sizeof where);
        snprintf(c->f->words, sizeof c->f->words, "%.330s %lld of %lld elements are wrong, the first at %s.", e.words, (long long)e.n_wrong,
                 (long long)e.n, where);
    }
    vn_free(wrong);
    vn_free(x);
    vn_free(y);
    return s;
}
