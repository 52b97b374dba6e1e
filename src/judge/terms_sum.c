/* terms_sum.c -- sums that lack some of their terms, or count some twice: which ones, found from the data.
 *
 * Claim NAME-TERMS-1: a set of terms is named iff for every wrong element (of very large outputs: for an even sample of them) the exact sum
 * without the set keeps the room of the contract, and the chance that sums of that many tried sets fit by accident is below 10^-6: product over
 * the wrong elements of (width of the room / size of the error), times the number of sets tried.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/dot.h"
#include "judge/edit.h"
#include "judge/names.h"

enum { SAMPLES = 24, SAMPLE_TERMS = 1 << 21, QUADRATIC = 2048, PERIODS = 64, NEIGHBOURHOOD = 256 };
#define VERIFY_TERMS 5e7 /* products looked at before an even sample of the wrong elements must do */

/* Positions from .. to - 1 in the order of an axis; period > 0: of these the positions p with p % period == rest. */
typedef struct set {
    int axis, sign; /* sign -1: counted twice */
    int64_t from, to, period, rest;
} set_t;

typedef struct sample {
    int64_t i;
    double lo, hi, *t, *prefix;
} sample_t;

typedef struct search {
    vn_explain_t *e;
    const vn_dot_t *d;
    sample_t s[SAMPLES];
    int n;
    int64_t *ia, *ib, *order;
    double *terms, *memory, tried;
} search_t;

static bool inside(const sample_t *s, double m) {
    const double slack = 0x1p-44 * (fabs(m) + (isfinite(s->lo) ? fabs(s->lo) : 0)); /* of our own sums in f64 */
    return m >= s->lo - slack && m <= s->hi + slack;
}

static double exact_sum(const vn_dot_t *d, const double *terms) {
    double sum = 0;
    for (int64_t t = 0; t < d->depth; ++t) sum += terms[t];
    return sum;
}

/* Whether wrong element number k of n is one of about `most` that are spread without a period: no column of the output is met again and again. */
static bool drawn(int64_t k, int64_t most, int64_t n) {
    const uint64_t mixed = (uint64_t)k * UINT64_C(0x9e3779b97f4a7c15);
    return k == 0 || (mixed >> 11) * 0x1p-53 < 1.5 * (double)most / (double)n;
}

static vn_status_t begin(search_t *q, vn_error_t *err) {
    const vn_dot_t *d = q->d;
    const int64_t depth = d->depth, fit = SAMPLE_TERMS / depth;
    int64_t most = fit < 1 ? 1 : fit > SAMPLES ? SAMPLES : fit;
    q->ia = vn_alloc((size_t)depth, sizeof *q->ia);
    q->ib = vn_alloc((size_t)depth, sizeof *q->ib);
    q->order = vn_alloc((size_t)depth, sizeof *q->order);
    q->terms = vn_alloc((size_t)depth, sizeof *q->terms);
    q->memory = vn_alloc((size_t)(most * (2 * depth + 1)), sizeof *q->memory);
    if (!q->ia || !q->ib || !q->order || !q->terms || !q->memory) return vn_fail(err, VN_ERR_NOMEM, "no memory for the terms of a sum");
    if (most > q->e->n_wrong) most = q->e->n_wrong;
    for (int64_t i = 0, seen = 0; i < q->e->n && q->n < most; ++i) {
        if (!q->e->wrong[i] || !drawn(seen++, most, q->e->n_wrong)) continue;
        sample_t *s = &q->s[q->n];
        s->i = i;
        s->t = q->memory + q->n * (2 * depth + 1);
        s->prefix = s->t + depth;
        vn_dot_places(d, i, q->ia, q->ib);
        vn_dot_terms(d, q->ia, q->ib, s->t);
        q->n += vn_dot_missing(d, q->e, i, exact_sum(d, s->t), vn_dot_gain(d, i, q->ia), true, &s->lo, &s->hi);
    }
    return VN_OK;
}

static void end(search_t *q) {
    vn_free(q->ia);
    vn_free(q->ib);
    vn_free(q->order);
    vn_free(q->terms);
    vn_free(q->memory);
}

static void prefixes(search_t *q, int axis) {
    vn_dot_order(q->d, axis, q->order);
    for (int k = 0; k < q->n; ++k) {
        sample_t *s = &q->s[k];
        s->prefix[0] = 0;
        for (int64_t t = 0; t < q->d->depth; ++t) s->prefix[t + 1] = s->prefix[t] + s->t[q->order[t]];
    }
}

/* Squared distance from the middle of the room over all samples, in half rooms; +Inf: some sample does not fit. */
static double misfit(const search_t *q, int64_t from, int64_t to, int sign) {
    double sum = 0;
    for (int k = 0; k < q->n; ++k) {
        const sample_t *s = &q->s[k];
        const double m = sign * (s->prefix[to] - s->prefix[from]);
        if (!inside(s, m)) return INFINITY;
        const double half = (s->hi - s->lo) / 2, off = m - (s->lo + half);
        if (half > 0 && isfinite(half)) sum += off * off / (half * half);
    }
    return sum;
}

static void keep(const search_t *q, int axis, int64_t from, int64_t to, int sign, set_t *best, double *least) {
    const double m = misfit(q, from, to, sign);
    if (!(m < *least)) return;
    *least = m;
    *best = (set_t){.axis = axis, .sign = sign, .from = from, .to = to};
}

typedef enum kind { SUFFIX, SINGLE, PREFIX, RANGE, RESIDUE, CLASSES } class_t;

static void residues(search_t *q, int axis, int sign, set_t *best, double *least) {
    const int64_t depth = q->d->depth;
    for (int64_t p = 2; p <= PERIODS && p < depth && depth * p < INT64_C(1) << 26; ++p)
        for (int64_t r = 0; r < p; ++r) {
            double sum = 0;
            for (int k = 0; k < q->n && isfinite(sum); ++k) {
                const sample_t *s = &q->s[k];
                double m = 0;
                for (int64_t t = r; t < depth; t += p) m += s->t[q->order[t]];
                m *= sign;
                const double half = (s->hi - s->lo) / 2, off = m - (s->lo + half);
                if (!inside(s, m)) sum = INFINITY;
                else if (half > 0 && isfinite(half)) sum += off * off / (half * half);
            }
            q->tried += 1;
            if (!(sum < *least)) continue;
            *least = sum;
            *best = (set_t){.axis = axis, .sign = sign, .from = 0, .to = depth, .period = p, .rest = r};
        }
}

/* The best set of a class; false: none fits the samples. */
static bool find(search_t *q, class_t class, int sign, set_t *best) {
    const int64_t depth = q->d->depth;
    double least = INFINITY;
    for (int axis = 0; axis < q->d->axes; ++axis) {
        if (axis > 0 && (q->d->length[axis] == 1 || class == SINGLE)) continue; /* the same order, the same sets */
        prefixes(q, axis);
        switch (class) {
        case SUFFIX:
            for (int64_t from = depth - 1; from > 0; --from) keep(q, axis, from, depth, sign, best, &least);
            q->tried += (double)depth;
            break;
        case SINGLE:
            for (int64_t k = 0; k < depth; ++k) keep(q, axis, k, k + 1, sign, best, &least);
            q->tried += (double)depth;
            break;
        case PREFIX:
            for (int64_t to = 1; to < depth; ++to) keep(q, axis, 0, to, sign, best, &least);
            q->tried += (double)depth;
            break;
        case RANGE: {
            int64_t grid = 1; /* of long sums: whole blocks only */
            while (depth / grid > QUADRATIC) grid *= 2;
            for (int64_t from = grid; from + grid < depth; from += grid)
                for (int64_t to = from + grid; to < depth; to += grid) keep(q, axis, from, to, sign, best, &least);
            q->tried += (double)(depth / grid) * (double)(depth / grid) / 2;
            break;
        }
        case RESIDUE: residues(q, axis, sign, best, &least); break;
        case CLASSES: break;
        }
    }
    return isfinite(least);
}

static double over(const set_t *s, const int64_t *order, const double *terms) {
    double m = 0;
    if (s->period)
        for (int64_t p = s->rest; p < s->to; p += s->period) m += terms[order[p]];
    else
        for (int64_t p = s->from; p < s->to; ++p) m += terms[order[p]];
    return s->sign * m;
}

/* log of the chance that an error of this size lies in a room of this width. */
static double chance(double lo, double hi, bool whole) {
    if (!isfinite(lo) || !isfinite(hi)) return 0;
    const double size = fmax(fabs(lo), fabs(hi)), width = whole ? hi - lo + 1 : hi - lo;
    return width <= 0 ? -30 : fmin(0, log(width / (2 * size)));
}

static double closeness(const vn_explain_t *e, const vn_dot_t *d, int64_t i, double gain, double m) {
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    const double far = fabs(e->x[i] - e->y[i]), ulp = f == VN_FMT_NONE ? 1 : vn_ulp(f, e->x[i]);
    double near = 0;
    if (d->form == VN_DOT_LINEAR) near = fabs(e->x[i] - (e->y[i] - gain * m));
    if (d->form == VN_DOT_ROOT) near = fabs(fabs(e->x[i]) - sqrt(fmax(0, e->y[i] * e->y[i] - m)));
    if (d->form == VN_DOT_LOG) near = fabs(exp(e->x[i]) - (exp(e->y[i]) - m)) / exp(e->x[i]);
    return fmin(40, log((far + ulp) / (near + ulp)));
}

/* Over the wrong elements: all fit, and not by accident. */
static bool verify(search_t *q, const set_t *s, double *weight, int64_t *checked) {
    const vn_explain_t *e = q->e;
    const vn_dot_t *d = q->d;
    const double most = VERIFY_TERMS / (double)d->depth;
    const int64_t step = (double)e->n_wrong > most ? (int64_t)((double)e->n_wrong / most) + 1 : 1;
    const bool inside_bound = e->c->m.outside == 0; /* then the noise is what was left, and the room is as wide as that */
    double log_chance = log(q->tried + 1), sum = 0;
    int64_t seen = 0;
    *checked = 0;
    vn_dot_order(d, s->axis, q->order);
    for (int64_t i = 0; i < e->n; ++i) {
        if (!e->wrong[i] || seen++ % step) continue;
        if ((*checked & 255) == 0 && vn_spent() > e->deadline) {
            q->e->cut = true;
            return false;
        }
        vn_dot_places(d, i, q->ia, q->ib);
        vn_dot_terms(d, q->ia, q->ib, q->terms);
        const double gain = vn_dot_gain(d, i, q->ia), m = over(s, q->order, q->terms);
        sample_t one = {.i = i};
        if (!vn_dot_missing(d, e, i, d->form == VN_DOT_CODE ? exact_sum(d, q->terms) : 0, gain, inside_bound, &one.lo, &one.hi))
            return false;
        if (!inside(&one, m)) return false;
        log_chance += chance(one.lo, one.hi, d->form == VN_DOT_INT32);
        sum += closeness(e, d, i, gain, m);
        ++*checked;
    }
    *weight = *checked ? sum / (double)*checked : 0;
    return log_chance < log(VN_NAME_ACCIDENT);
}

static void describe(const search_t *q, const set_t *s, char *out, size_t size) {
    const vn_dot_t *d = q->d;
    const long long from = (long long)s->from, to = (long long)s->to, depth = (long long)d->depth;
    const int64_t slab = d->depth / d->length[s->axis];
    const char *axis = d->what[s->axis];
    if (s->period) snprintf(out, size, "every term whose number is %lld modulo %lld", (long long)s->rest, (long long)s->period);
    else if (d->axes > 1 && s->from % slab == 0 && s->to % slab == 0)
        snprintf(out, size, "%lld to %lld of %lld along %s, that is %lld of %lld terms", from / (long long)slab, to / (long long)slab - 1,
                 (long long)d->length[s->axis], axis, to - from, depth);
    else if (to - from == 1) snprintf(out, size, "term %lld of %lld", from, depth);
    else if (to == depth) snprintf(out, size, "the last %lld of %lld terms", to - from, depth);
    else if (from == 0) snprintf(out, size, "the first %lld of %lld terms", to, depth);
    else snprintf(out, size, "terms %lld to %lld of %lld", from, to - 1, depth);
}

static void offer(search_t *q, const set_t *s, double weight, int64_t checked) {
    vn_explain_t *e = q->e;
    const bool tail = s->sign > 0 && !s->period && s->to == q->d->depth;
    char cause[96], which[160], part[64] = "";
    if (tail) snprintf(cause, sizeof cause, "k-tail-dropped:%lld", (long long)(s->to - s->from));
    else snprintf(cause, sizeof cause, "%s", s->sign > 0 ? "term-dropped" : "term-twice");
    describe(q, s, which, sizeof which);
    if (checked < e->n_wrong) snprintf(part, sizeof part, " (%lld of them were looked at)", (long long)checked);
    vn_explain_offer(e, VN_NAME_VARIANT, weight, e->c->f->verdict, cause,
                     "The sum of %s %s %s: every wrong element%s is what the other terms give.", q->e->c->q->node->op,
                     s->sign > 0 ? "lacks" : "counts twice", which, part);
}

/* ---- every wrong element lacks one term of its own ---- */

static double typical(const double *t, int64_t n) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += t[k] * t[k];
    return sqrt(sum / (double)n);
}

/* log of the expected number of terms in the room, from how many stand in one NEIGHBOURHOOD times as wide, with a factor of 4 for uneven ones. */
static double crowd(const double *t, int64_t n, double middle, double width) {
    int64_t near = 0;
    for (int64_t k = 0; k < n; ++k) near += fabs(t[k] - middle) <= NEIGHBOURHOOD * width / 2;
    return fmin(0, log(4 * (double)near / NEIGHBOURHOOD));
}

/* A single element that lacks as much as an ordinary term adds: the size fits, more cannot be said. */
static void hint(search_t *q, int64_t fitting, double missing, double size) {
    if (q->e->n_wrong != 1 || fitting < 1 || !(fabs(missing) > size / 16)) return;
    vn_explain_offer(q->e, VN_NAME_PATTERN, 0.5, q->e->c->f->verdict, "term-dropped",
                     "The only wrong element lacks just what one term adds: %lld of its %lld terms have that value.", (long long)fitting,
                     (long long)q->d->depth);
}

static void own_terms(search_t *q) {
    vn_explain_t *e = q->e;
    const vn_dot_t *d = q->d;
    const double most = VERIFY_TERMS / (double)d->depth;
    const int64_t step = (double)e->n_wrong > most ? (int64_t)((double)e->n_wrong / most) + 1 : 1;
    double log_chance = 0, sum = 0, best = 0, size = 0;
    int64_t seen = 0, checked = 0, fitting = 0, ordinary = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        if (!e->wrong[i] || seen++ % step) continue;
        if (vn_spent() > e->deadline) {
            e->cut = true;
            return;
        }
        vn_dot_places(d, i, q->ia, q->ib);
        vn_dot_terms(d, q->ia, q->ib, q->terms);
        const double gain = vn_dot_gain(d, i, q->ia);
        sample_t one = {.i = i};
        if (!vn_dot_missing(d, e, i, d->form == VN_DOT_CODE ? exact_sum(d, q->terms) : 0, gain, true, &one.lo, &one.hi)) return;
        double least = INFINITY;
        fitting = 0;
        for (int64_t t = 0; t < d->depth; ++t) {
            if (!inside(&one, q->terms[t])) continue;
            fitting++;
            const double off = fabs(q->terms[t] - (one.lo + one.hi) / 2);
            if (off < least) {
                least = off;
                best = q->terms[t];
            }
        }
        if (!fitting) return;
        size = typical(q->terms, d->depth);
        ordinary += fabs(best) > size / 16; /* round-off is small beside the terms, a lost term is one of them */
        log_chance += crowd(q->terms, d->depth, (one.lo + one.hi) / 2, one.hi - one.lo + (d->form == VN_DOT_INT32));
        sum += closeness(e, d, i, gain, best);
        checked++;
    }
    if (!checked) return;
    if (log_chance < log(VN_NAME_ACCIDENT) && 2 * ordinary > checked)
        vn_explain_offer(e, VN_NAME_VARIANT, sum / (double)checked, e->c->f->verdict, "term-dropped",
                         "Every wrong element lacks exactly one term of its sum, not the same one everywhere.");
    else hint(q, fitting, best, size);
}

/* Another set of as many terms gives the same: which ones are missing cannot be told (terms that are all alike). */
static bool ambiguous(search_t *q, const set_t *s) {
    if (s->period) return false;
    prefixes(q, s->axis);
    const int64_t length = s->to - s->from, other = s->from > 0 ? 0 : q->d->depth - length;
    return other != s->from && isfinite(misfit(q, other, other + length, s->sign));
}

static bool all_zero(const vn_explain_t *e) {
    for (int64_t i = 0; i < e->n; ++i)
        if (e->wrong[i] && e->x[i] != 0) return false;
    return true;
}

static vn_status_t lost(vn_variant_t *v, vn_error_t *err) {
    vn_dot_t d;
    bool known;
    VN_TRY(vn_dot_open(v, &d, &known, err));
    if (!known || d.maximum) {
        vn_dot_close(&d);
        return VN_OK;
    }
    search_t q = {.e = v->e, .d = &d};
    vn_status_t s = begin(&q, err);
    bool found = false;
    for (int sign = 1; sign >= -1 && s == VN_OK && q.n > 0 && d.depth > 1 && !found; sign -= 2)
        for (class_t class = SUFFIX; class < CLASSES && !found && vn_spent() < v->e->deadline; ++class) {
            set_t set = {0};
            double weight = 0;
            int64_t checked = 0;
            if (!find(&q, class, sign, &set)) continue;
            found = !ambiguous(&q, &set) && verify(&q, &set, &weight, &checked);
            if (found) offer(&q, &set, weight, checked);
        }
    if (s == VN_OK && q.n > 0 && !found && d.depth > 1) own_terms(&q);
    end(&q);
    vn_dot_close(&d);
    return s;
}

vn_status_t vn_name_terms(vn_explain_t *e, vn_error_t *err) { return e->x && !all_zero(e) ? vn_variants(e, lost, err) : VN_OK; }
