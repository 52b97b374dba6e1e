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
#include "judge/places.h"

void vn_explain_offer(vn_explain_t *e, vn_name_level_t level, double weight, vn_verdict_t verdict, const char *cause, const char *fmt,
                      ...) {
    if (level < e->level || (level == e->level && !(weight - e->weight > 0x1p-30 * fabs(e->weight)))) return;
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
    if (r->tensor && vn_tensor_get_f64(r->tensor, i) == x) return true; /* where one rounding is due, y itself is not rounded */
    if (r->either && vn_tensor_get_f64(r->either, i) == x) return true;
    const uint8_t flags = r->flags ? r->flags[i] : 0;
    if ((isnan(x) && (flags & VN_EL_NAN_OK)) || (isinf(x) && (flags & VN_EL_INF_OK)) || (x == 0 && (flags & VN_EL_ZERO_OK))) return true;
    const double room = vn_room(r, i);
    return room >= 0 && fabs(x - y) <= room;
}

bool vn_explain_moved(const vn_explain_t *e, int64_t i, int64_t j) { return vn_explain_fits(e, j, e->x[i]); }

/* Whether x may stand for the computed y2 at place i; *room as used, negative: equality. */
static bool plane_fits(const vn_explain_t *e, const double *given, int64_t i, double y2, double *room) {
    const vn_ref_t *r = e->c->ref;
    const double x = e->x[i];
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    *room = given ? given[i] : vn_room(r, i);
    if (x == y2 || (isnan(x) && isnan(y2))) return true;
    if (f != VN_FMT_NONE && x == vn_round_to(f, y2, VN_RNE, false)) return true;
    if (*room < 0 || !isfinite(x) || !isfinite(y2)) return false;
    if (!given && f != VN_FMT_NONE && isfinite(e->y[i])) *room += vn_format_info(f)->u * fmax(0, fabs(y2) - fabs(e->y[i]));
    return fabs(x - y2) <= *room;
}

void vn_explain_plane(vn_explain_t *e, const double *y2, const double *room, vn_verdict_t verdict, const char *cause, bool *held,
                      const char *fmt, ...) {
    bool says = false;
    if (held) *held = false;
    if (!e->x) return;
    for (int64_t i = 0; i < e->n; ++i) {
        double used;
        if (e->c->ref->flags && (e->c->ref->flags[i] & VN_EL_VOID)) continue;
        if (!plane_fits(e, room, i, y2[i], &used)) return;
        says |= e->wrong[i] && (used < 0 || !isfinite(e->x[i]) || !isfinite(e->y[i]) || used < fabs(e->x[i] - e->y[i]));
    }
    if (!says) return;
    char text[sizeof e->words];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const vn_ref_t plane = {.value = (double *)(uintptr_t)y2};
    vn_explain_offer(e, VN_NAME_VARIANT, vn_explain_gain(e, &plane), verdict, cause, "%s", text);
    if (held) *held = true;
}

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

/* The words end with how many elements are wrong and where they stand, with a name or without. */
static vn_status_t say_where(const vn_explain_t *e, bool named, vn_error_t *err) {
    vn_finding_t *f = e->c->f;
    vn_places_t p;
    char first[96], where[sizeof p.text + 4] = "";
    VN_TRY(vn_places_find(e->wrong, e->c->actual->rank, e->c->actual->dims, &p, err)); /* 1 is VN_PLACE_MARKED */
    if (!named || !strstr(e->words, p.text)) snprintf(where, sizeof where, ": %s", p.text);
    if (named) {
        vn_index_text(e->c->actual, f->first.index, first, sizeof first);
        snprintf(f->words, sizeof f->words, "%.330s %lld of %lld elements are wrong%.*s, the first at %.60s.", e->words,
                 (long long)e->n_wrong, (long long)e->n, p.kind == VN_PLACES_ALL || p.kind == VN_PLACES_SCATTERED ? 0 : 90, where, first);
    } else if (e->n_wrong > 0) {
        const size_t n = strlen(f->words);
        snprintf(f->words + n, sizeof f->words - n, " Wrong%.160s.", where);
    }
    return VN_OK;
}

static vn_status_t explain(vn_case_t *c, vn_name_level_t least, bool *named, vn_error_t *err) {
    *named = false;
    vn_explain_t e = {.c = c, .n = c->actual->count, .deadline = vn_spent() + seconds(c->q->effort)};
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
    if (s == VN_OK && e.level && e.level >= least) {
        *named = true;
        c->f->verdict = e.verdict;
        snprintf(c->f->cause, sizeof c->f->cause, "%s", e.cause);
        s = say_where(&e, true, err);
    } else if (s == VN_OK && least == VN_NAME_PATTERN) {
        s = say_where(&e, false, err);
    }
    vn_free(wrong);
    vn_free(x);
    vn_free(y);
    return s;
}

vn_status_t vn_explain(vn_case_t *c, vn_error_t *err) {
    bool named;
    return explain(c, VN_NAME_PATTERN, &named, err);
}

vn_status_t vn_explain_variant(vn_case_t *c, bool *named, vn_error_t *err) { return explain(c, VN_NAME_VARIANT, named, err); }
