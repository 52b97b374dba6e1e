/* terms_border.c -- windows at the border of a picture that leave out taps which lie inside it.
 *
 * Claim NAME-BORDER-1: wrong elements are named border-taps iff each is at a place whose window reaches the border, some elements are right, and
 * each wrong one is what the window gives without whole lines of taps (a smaller box of the window is kept); and boxes that fit by
 * accident have together a probability below 10^-6: product over the elements of (number of boxes x width of the room / size of the error).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/dot.h"
#include "judge/edit.h"
#include "judge/names.h"

enum { MOST_AXES = 3, MOST_TAPS = 4096 };

typedef struct border {
    vn_explain_t *e;
    const vn_dot_t *d;
    int axes;                               /* windowed axes */
    int64_t kernel[MOST_AXES], taps, outer; /* taps of a window; terms of one tap (channels) */
    int64_t *ia, *ib;
    double *terms, *tap; /* tap: summed over the channels */
    bool *valid;
} border_t;

/* Largest value of the kept box, or sum over it. */
static double over_box(const border_t *b, const int64_t *lo, const int64_t *hi, bool maximum, int64_t *count) {
    double sum = maximum ? -INFINITY : 0;
    *count = 0;
    int64_t at[MOST_AXES];
    for (int64_t t = 0; t < b->taps; ++t) {
        int64_t rest = t;
        bool in = true;
        for (int x = b->axes - 1; x >= 0; --x) {
            at[x] = rest % b->kernel[x];
            rest /= b->kernel[x];
            in = in && at[x] >= lo[x] && at[x] < hi[x];
        }
        if (!in || !b->valid[t]) continue;
        ++*count;
        if (maximum) sum = fmax(sum, b->tap[t]);
        else sum += b->tap[t];
    }
    return sum;
}

/* Next pair lo < hi on each axis; false: all boxes were seen. */
static bool next_box(const border_t *b, int64_t *lo, int64_t *hi) {
    for (int x = b->axes - 1; x >= 0; --x) {
        if (--hi[x] > lo[x]) return true;
        if (++lo[x] < b->kernel[x]) {
            hi[x] = b->kernel[x];
            return true;
        }
        lo[x] = 0;
        hi[x] = b->kernel[x];
    }
    return false;
}

/* Value per tap of element i (summed over channels); false: the window lies in the interior. */
static bool window(border_t *b, int64_t i) {
    const vn_dot_t *d = b->d;
    vn_dot_places(d, i, b->ia, b->ib);
    vn_dot_terms(d, b->ia, b->ib, b->terms);
    bool edge = false;
    for (int64_t t = 0; t < b->taps; ++t) {
        b->tap[t] = 0;
        b->valid[t] = b->ia[t] >= 0;
        edge |= !b->valid[t];
        for (int64_t c = 0; c < b->outer; ++c) b->tap[t] += b->terms[c * b->taps + t];
    }
    for (int w = 0; w < d->windows && !edge; ++w) /* the first or last line of the picture is inside */
        for (int64_t t = 0; t < b->taps && !edge; ++t) {
            const int64_t h = b->ia[t] / d->window[w].step % d->window[w].size;
            edge = h == 0 || h == d->window[w].size - 1;
        }
    return edge;
}

/* A smaller box of taps explains element i; *log_chance: that one does by accident. */
static bool explained(border_t *b, int64_t i, bool maximum, double *log_chance) {
    vn_explain_t *e = b->e;
    int64_t lo[MOST_AXES] = {0}, hi[MOST_AXES], all, count, boxes = 0;
    for (int x = 0; x < b->axes; ++x) hi[x] = b->kernel[x];
    const double whole = over_box(b, lo, hi, maximum, &all), gain = vn_dot_gain(b->d, i, b->ia);
    double least, most;
    if (!maximum && !vn_dot_missing(b->d, e, i, b->d->form == VN_DOT_CODE ? whole : 0, gain, false, &least, &most)) return false;
    bool fits = false;
    while (next_box(b, lo, hi)) {
        const double kept = over_box(b, lo, hi, maximum, &count);
        boxes++;
        if (count == all || count == 0) continue;
        if (maximum) fits = e->x[i] == kept;
        else fits = whole - kept >= least && whole - kept <= most;
        if (!fits && b->d->average) { /* the divisor follows the taps that were read */
            const double room = vn_room(e->c->ref, i);
            fits = fabs(e->x[i] - kept / (double)count) <= (room > 0 ? room : 0);
        }
        if (fits) break;
    }
    if (!fits) return false;
    if (maximum) *log_chance -= 3; /* one value of the window among all numbers */
    else if (isfinite(least) && isfinite(most))
        *log_chance += fmin(0, log((double)boxes * (most - least + (b->d->form == VN_DOT_INT32)) / (2 * fmax(fabs(least), fabs(most)))));
    return true;
}

static vn_status_t search(vn_explain_t *e, const vn_dot_t *d, bool maximum, vn_error_t *err) {
    border_t b = {.e = e, .d = d, .axes = d->windows, .taps = 1};
    if (d->windows < 1 || d->windows > MOST_AXES || e->n_wrong == e->n) return VN_OK;
    for (int x = 0; x < b.axes; ++x) {
        b.kernel[x] = d->length[d->window[x].tap];
        b.taps *= b.kernel[x];
    }
    if (b.taps < 2 || b.taps > MOST_TAPS) return VN_OK;
    b.outer = d->depth / b.taps;
    b.ia = vn_alloc((size_t)d->depth, sizeof *b.ia);
    b.ib = vn_alloc((size_t)d->depth, sizeof *b.ib);
    b.terms = vn_alloc((size_t)d->depth, sizeof *b.terms);
    b.tap = vn_alloc((size_t)b.taps, sizeof *b.tap);
    b.valid = vn_alloc((size_t)b.taps, sizeof *b.valid);
    vn_status_t s = b.ia && b.ib && b.terms && b.tap && b.valid ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for the taps of a window");
    bool all = s == VN_OK;
    double log_chance = 0;
    for (int64_t i = 0; i < e->n && all; ++i) {
        if (!e->wrong[i]) continue;
        if (vn_spent() > e->deadline) {
            e->cut = true;
            all = false;
        }
        all = all && window(&b, i) && explained(&b, i, maximum, &log_chance);
    }
    if (all && log_chance < log(VN_NAME_ACCIDENT)) /* sharper than the same terms lost in some elements: one more */
        vn_explain_offer(
            e, VN_NAME_VARIANT, 1 + vn_edit_exact_gain(e), e->c->f->verdict, "border-taps",
            "%s leaves out taps that lie inside: every wrong element has its window at the border and is what a smaller window gives.",
            e->c->q->node->op);
    vn_free(b.ia);
    vn_free(b.ib);
    vn_free(b.terms);
    vn_free(b.tap);
    vn_free(b.valid);
    return s;
}

static vn_status_t borders(vn_variant_t *v, vn_error_t *err) {
    vn_dot_t d;
    bool known;
    VN_TRY(vn_dot_open(v, &d, &known, err));
    if (!known) return VN_OK;
    const vn_status_t s = search(v->e, &d, d.maximum, err);
    vn_dot_close(&d);
    return s;
}

vn_status_t vn_name_borders(vn_explain_t *e, vn_error_t *err) { return e->x ? vn_variants(e, borders, err) : VN_OK; }
