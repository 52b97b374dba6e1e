/* pattern_guess.c -- what can be said where nothing else has a name: only this slice, a tail of unrelated values, old content under a sum.
 *
 * Asked last, of outputs without any offer. Claim PATTERN-4: values are called unrelated to those due if Kendall's tau is 3.1 of its standard
 * deviations (those of unrelated numbers; a chance of 2^-10) below 1/2, which is an order shared at 3/4, a correlation of 0.7. Claim PATTERN-10:
 * all elements of a sum are off by numbers that have nothing to do with them (correlation with the values, and of the sizes, within 3.3
 * standard errors of none: 2^-10), larger than partial sums rounded to bf16 leave, not on a grid, and not common to rows or columns.
 */
#include <math.h>

#include "judge/pattern.h"

/* ---- values unrelated to those due ---- */

static bool unrelated(const vn_pattern_t *p) {
    enum { MAX_SAMPLE = 256 };
    const int64_t n = p->m < MAX_SAMPLE ? p->m : MAX_SAMPLE;
    int64_t pairs = 0, same = 0;
    for (int64_t a = 0; a < n; ++a)
        for (int64_t b = 0; b < a; ++b) {
            const int64_t i = p->at[a * p->m / n], j = p->at[b * p->m / n];
            const double dx = p->e->x[i] - p->e->x[j], dy = p->e->y[i] - p->e->y[j];
            if (dx == 0 || dy == 0 || isnan(dx) || isnan(dy)) continue;
            pairs++;
            same += (dx > 0) == (dy > 0);
        }
    if (n < 8 || pairs < n * (n - 1) / 4) return false;
    const double tau = 2 * (double)same / (double)pairs - 1, m = (double)n;
    return tau < 0.5 - 3.1 * sqrt(2 * (2 * m + 5) / (9 * m * (m - 1)));
}

/* A block inside the tensor, or a range of its memory: no operator has a reason to treat it differently. */
static bool tile(const vn_places_t *w) {
    int ranges = 0;
    for (int k = 0; k < w->rank && w->kind == VN_PLACES_BOX; ++k)
        ranges += w->axes[k].form == VN_AXIS_RANGE || w->axes[k].form == VN_AXIS_HEAD || (w->axes[k].form == VN_AXIS_TAIL);
    return ranges > 1 || (w->kind == VN_PLACES_FLAT && w->flat.form == VN_AXIS_RANGE);
}

static void garbage(vn_pattern_t *p) {
    const vn_places_t *w = &p->where;
    const bool tail = vn_places_tail(w) && p->m <= p->n / 2; /* of more than half it is not the rest that is at fault */
    if (p->exact || p->e->c->cls == VN_CLASS_SCAN || !(tail || tile(w)) || !unrelated(p)) return; /* scans carry a fault to their end */
    vn_explain_offer(p->e, VN_NAME_PATTERN, 1, VN_BUG, tail ? "tail-unwritten" : "stale-buffer",
                     "What stands in %s is unrelated to what is due there, and the rest is right: memory that the kernel did not write.",
                     w->text);
}

static void one_slice(vn_pattern_t *p) {
    const vn_places_t *w = &p->where;
    if (w->kind != VN_PLACES_BOX || p->m < 2 || !vn_places_slices(w)) return;
    int64_t slices = 1;
    for (int k = 0; k < w->rank; ++k) {
        if (w->axes[k].form == VN_AXIS_ALL) continue;
        if (w->axes[k].form != VN_AXIS_ONE) return;
        slices *= w->axes[k].size;
    }
    if (slices > 2)
        vn_explain_offer(p->e, VN_NAME_PATTERN, 1, VN_BUG, "row-wrong", "Only %s is wrong; the other %lld such slices are right.", w->text,
                         (long long)slices - 1);
}

/* ---- old content of no known origin ---- */

typedef struct sums2 {
    double n, a, b, aa, bb, ab;
} sums2_t;
static void add(sums2_t *s, double a, double b) {
    s->n++;
    s->a += a;
    s->b += b;
    s->aa += a * a;
    s->bb += b * b;
    s->ab += a * b;
}
static double correlation(const sums2_t *s) {
    const double va = s->aa - s->a * s->a / s->n, vb = s->bb - s->b * s->b / s->n;
    return va > 0 && vb > 0 ? (s->ab - s->a * s->b / s->n) / sqrt(va * vb) : 0;
}

/* More than half of the residual's power is common to the indices of one axis. */
static vn_status_t common(const vn_pattern_t *p, int64_t d, int64_t inner, bool *yes, vn_error_t *err) {
    double *sum = vn_alloc((size_t)d, sizeof *sum), all = 0, groups = 0;
    if (!sum) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld sums", (long long)d);
    for (int64_t i = 0; i < p->n; ++i) {
        const double e = p->e->x[i] - p->e->y[i];
        sum[i / inner % d] += e;
        all += e * e;
    }
    for (int64_t t = 0; t < d; ++t) groups += sum[t] * sum[t] * (double)d / (double)p->n;
    vn_free(sum);
    *yes = *yes || (d < p->n && groups > all / 2);
    return VN_OK;
}

static vn_status_t old_content(vn_pattern_t *p, vn_error_t *err) {
    const vn_case_t *c = p->e->c;
    const bool sum = c->cls == VN_CLASS_CONTRACTION || c->cls == VN_CLASS_REDUCTION || c->cls == VN_CLASS_SCAN;
    if (!sum || p->m < 32 || p->m < p->n - p->n / 8) return VN_OK;
    if (p->n_sample < (p->m < 4096 ? p->m : 4096) * 3 / 4) return VN_OK; /* few different values: a grid, not old content */
    sums2_t values = {0}, sizes = {0};
    for (int64_t i = 0; i < p->n; ++i) {
        const double x = p->e->x[i], y = p->e->y[i], e = x - y;
        if (!isfinite(x) || !isfinite(y)) return VN_OK;
        add(&values, e, y);
        add(&sizes, fabs(e), fabs(y));
    }
    const double error = 3.3 / sqrt((double)p->n); /* two-sided 2^-10 */
    const double coarse = vn_format_info(VN_FMT_BF16)->u * sqrt((double)(c->ref->terms > 1 ? c->ref->terms : 1));
    if (!(values.aa > coarse * coarse * values.bb)) return VN_OK; /* partial sums as large as the result, each rounded to bf16 */
    if (fabs(correlation(&values)) > error || fabs(correlation(&sizes)) > error) return VN_OK;
    bool shared = false;
    int64_t inner = 1;
    for (int a = p->got->rank - 1; a >= 0; inner *= p->got->dims[a--]) {
        VN_TRY(common(p, p->got->dims[a], inner, &shared, err));
        VN_TRY(common(p, p->n / inner, inner, &shared, err));
    }
    if (!shared)
        vn_explain_offer(
            p->e, VN_NAME_PATTERN, 1, VN_BUG, "stale-buffer",
            "The right values plus numbers unrelated to them (correlation %.2g, standard error %.2g), as when a sum goes into memory "
            "that was not cleared.",
            correlation(&values), 1 / sqrt((double)p->n));
    return VN_OK;
}

/* Too few elements for evidence, and yet a factor that programs make by mistake: a power of two, exactly. */
static void power_of_two(vn_pattern_t *p) {
    const vn_format_t f = vn_format_of(p->got->dtype);
    int power = 0;
    for (int64_t k = 0; k < p->m; ++k) {
        const int64_t i = p->at[k];
        const double x = p->e->x[i], y = p->e->y[i];
        int ex, ey;
        if (x == 0 || y == 0 || f == VN_FMT_NONE) return;
        frexp(x, &ex);
        frexp(vn_round_to(f, y, VN_RNE, false), &ey);
        if (k == 0) power = ex - ey;
        if (fabs(x - ldexp(y, power)) > ldexp(vn_pattern_room(p, i), power) + vn_ulp(f, x)) return;
    }
    if (power != 0 && p->m == p->n)
        vn_explain_offer(p->e, VN_NAME_PATTERN, 1, VN_BUG, "constant-ratio", "The result is %.9g times what is due, %s.", ldexp(1, power),
                         p->m == 1 ? "in its only element" : "in all elements");
}

vn_status_t vn_pattern_guess(vn_pattern_t *p, vn_error_t *err) {
    if (p->e->level != VN_NAME_NONE || !p->e->x || p->e->c->m.outside == 0) return VN_OK;
    for (int64_t k = 0; k < p->m; ++k)
        if (!isfinite(p->e->x[p->at[k]]) && isfinite(p->e->y[p->at[k]])) return VN_OK;
    power_of_two(p);
    if (p->e->level == VN_NAME_NONE) garbage(p);
    if (p->e->level == VN_NAME_NONE) one_slice(p);
    if (p->e->level == VN_NAME_NONE && vn_dtype_is_float(p->got->dtype) && !p->near) return old_content(p, err);
    return VN_OK;
}
