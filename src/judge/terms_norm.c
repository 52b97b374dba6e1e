/* terms_norm.c -- statistics of a row over fewer elements than it has, or over padding as well: normalisations, and the sum under a softmax.
 *
 * Claim NAME-NORM-1: for a row of D elements and n of them left out at its end (n < 0: -n zeros added), mean and variance are computed in f64 with
 * either divisor (the elements counted, or D), and the row is normalised by them; a count is named iff every element is within the contract's room,
 * widened by the ratio of the two scales. Counts are taken from the first wrong row: those that fit it.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/names.h"

typedef struct rows {
    vn_explain_t *e;
    const double *x;       /* operand 0 */
    double *scale, *shift; /* per element of the output, or NULL */
    int64_t rows, length;
    double eps;
    bool centred, softmax;
    double *y2, *room;
} rows_t;

typedef struct statistics {
    double mean, inverse;
} statistics_t;

/* Of the first `kept` elements of a row and `zeros` more; the divisor is what was counted, or the whole length. Softmax: mean is the maximum. */
static statistics_t statistics(const rows_t *r, const double *x, int64_t kept, int64_t zeros, bool whole) {
    const double n = whole ? (double)r->length : (double)(kept + zeros);
    statistics_t s = {0, 0};
    double sum = 0, square = 0;
    if (r->softmax) {
        s.mean = -INFINITY;
        for (int64_t i = 0; i < r->length; ++i) s.mean = fmax(s.mean, x[i]);
        for (int64_t i = 0; i < kept; ++i) sum += exp(x[i] - s.mean);
        s.inverse = 1 / (sum + (double)zeros * exp(-s.mean));
        return s;
    }
    for (int64_t i = 0; i < kept && r->centred; ++i) sum += x[i];
    s.mean = sum / n;
    for (int64_t i = 0; i < kept; ++i) square += (x[i] - s.mean) * (x[i] - s.mean);
    s.inverse = 1 / sqrt((square + (double)zeros * s.mean * s.mean) / n + r->eps);
    return s;
}

static double result(const rows_t *r, int64_t i, const double *x, statistics_t s) {
    if (r->softmax) return exp(*x - s.mean) * s.inverse;
    return (*x - s.mean) * s.inverse * (r->scale ? r->scale[i] : 1) + (r->shift ? r->shift[i] : 0);
}

/* Values and rooms of one row; false: an element does not fit. */
static bool row_fits(rows_t *r, int64_t row, int64_t kept, int64_t zeros, bool whole) {
    const vn_explain_t *e = r->e;
    const double *x = r->x + row * r->length;
    const statistics_t right = statistics(r, x, r->length, 0, true), wrong = statistics(r, x, kept, zeros, whole);
    const double wider = fmax(1, wrong.inverse / right.inverse);
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    for (int64_t k = 0; k < r->length; ++k) {
        const int64_t i = row * r->length + k;
        const double room = vn_room(e->c->ref, i);
        r->y2[i] = result(r, i, x + k, wrong);
        r->room[i] = fmax(room, 0) * wider + 2 * vn_ulp(f, isfinite(r->y2[i]) ? r->y2[i] : 0);
        if (isfinite(e->x[i]) && !(fabs(e->x[i] - r->y2[i]) <= r->room[i])) return false;
    }
    return true;
}

static bool ask(rows_t *r, int64_t first, int64_t kept, int64_t zeros, bool whole) {
    if (!row_fits(r, first, kept, zeros, whole)) return false;
    for (int64_t row = 0; row < r->rows; ++row)
        if (!row_fits(r, row, kept, zeros, whole)) return false;
    bool held;
    char cause[64];
    const char *what = r->softmax ? "the sum under the softmax" : "mean and variance";
    if (zeros) {
        vn_explain_plane(r->e, r->y2, r->room, VN_BUG, "padding-leaks", &held,
                         "%s with %s taken over %lld zeros besides the %lld elements gives the whole result.", r->e->c->q->node->op, what,
                         (long long)zeros, (long long)r->length);
        return held;
    }
    snprintf(cause, sizeof cause, "k-tail-dropped:%lld", (long long)(r->length - kept));
    vn_explain_plane(r->e, r->y2, r->room, VN_BUG, cause, &held,
                     "%s with %s taken over the first %lld of %lld elements (divided by %s) gives the whole result.", r->e->c->q->node->op,
                     what, (long long)kept, (long long)r->length, whole ? "all" : "as many");
    return held;
}

/* Sums over the beginnings of the first wrong row, about its own mean: each count costs O(1), and few are asked in full. */
typedef struct sums {
    statistics_t right;
    double *one, *two; /* of d and d^2, d = x - mean; softmax: of exp(x - maximum) */
} sums_t;

static void running(const rows_t *r, const double *x, sums_t *s) {
    s->right = statistics(r, x, r->length, 0, true);
    for (int64_t i = 0; i < r->length; ++i) {
        const double d = x[i] - s->right.mean;
        s->one[i + 1] = s->one[i] + (r->softmax ? exp(d) : d);
        s->two[i + 1] = s->two[i] + d * d;
    }
}

/* The first and the largest element of the row under these statistics. */
static bool may_fit(const rows_t *r, int64_t row, const sums_t *s, int64_t kept, bool whole) {
    const double n = whole ? (double)r->length : (double)kept;
    statistics_t t = s->right;
    if (r->softmax) {
        t.inverse = 1 / s->one[kept];
    } else {
        if (r->centred) t.mean = (s->one[kept] + (double)kept * s->right.mean) / n;
        const double off = t.mean - s->right.mean;
        t.inverse = 1 / sqrt(fmax(0, s->two[kept] - 2 * off * s->one[kept] + (double)kept * off * off) / n + r->eps);
    }
    const vn_explain_t *e = r->e;
    for (int64_t k = 0; k<r->length; k += r->length> 4 ? r->length / 4 : 1) {
        const int64_t i = row * r->length + k;
        const double y2 = result(r, i, r->x + i, t), room = fmax(vn_room(e->c->ref, i), 0) * fmax(1, t.inverse / s->right.inverse);
        if (isfinite(y2) && isfinite(e->x[i]) && !(fabs(e->x[i] - y2) <= 2 * room + 4 * vn_ulp(vn_format_of(e->c->actual->dtype), y2)))
            return false;
    }
    return true;
}

static void search(rows_t *r, sums_t *s) {
    vn_explain_t *e = r->e;
    int64_t first = 0;
    while (first < r->rows * r->length && !e->wrong[first]) ++first;
    first /= r->length;
    if (first >= r->rows) return;
    running(r, r->x + first * r->length, s);
    for (int64_t kept = r->length - 1; kept > 0; --kept)
        for (int whole = 0; whole < (r->softmax ? 1 : 2); ++whole) {
            if (!may_fit(r, first, s, kept, whole)) continue;
            if (vn_spent() > e->deadline) {
                e->cut = true;
                return;
            }
            if (ask(r, first, kept, 0, whole)) return;
        }
    for (int64_t width = 2; width <= 1024; width *= 2) {
        const int64_t padded = (r->length + width - 1) / width * width;
        if (padded != r->length && ask(r, first, r->length, padded - r->length, false)) return;
    }
}

/* Parameter k spread over the elements: entry (i / inner) % count. */
static vn_status_t spread(const vn_variant_t *v, int k, int64_t inner, int64_t n, double **out, bool *known, vn_error_t *err) {
    *out = NULL;
    if (k < 0 || k >= v->node->n_inputs || !*v->node->inputs[k]) return VN_OK;
    const vn_tensor_t *t = vn_variant_operand(v, k);
    *known = *known && t && t->count > 0;
    if (!*known) return VN_OK;
    *out = vn_alloc((size_t)n + 1, sizeof **out);
    if (!*out) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)n);
    for (int64_t i = 0; i < n; ++i) (*out)[i] = vn_tensor_get_f64(t, i / inner % t->count);
    return VN_OK;
}

/* Shape of the rows; false: another operator, or rows that are not contiguous. */
static bool read_rows(const vn_variant_t *v, rows_t *r, int *shift, int64_t *inner) {
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    if (!x || x->rank < 1 || x->count == 0 || x->count != r->e->n) return false;
    const bool layer = vn_variant_is(v, "", "LayerNormalization"), rms = vn_variant_is(v, "", "RMSNormalization"),
               instance = vn_variant_is(v, "", "InstanceNormalization"), group = vn_variant_is(v, "", "GroupNormalization");
    r->softmax = vn_variant_is(v, "", "Softmax") && vn_variant_version(v) >= 13;
    r->centred = !rms;
    r->eps = vn_node_float(v->node, "epsilon", (float)1e-5); /* the default of the standard (claim NORM-1) */
    r->length = 1;
    *shift = rms ? -1 : 2;
    *inner = 1;
    if (layer || rms || r->softmax) {
        int64_t axis = vn_node_int(v->node, "axis", -1);
        if (axis < 0) axis += x->rank;
        if (axis < 0 || axis >= x->rank || (r->softmax && axis != x->rank - 1)) return false;
        for (int d = (int)axis; d < x->rank; ++d) r->length *= x->dims[d];
    } else if ((instance || group) && x->rank > 2) {
        for (int d = 2; d < x->rank; ++d) *inner *= x->dims[d];
        const int64_t groups = instance ? x->dims[1] : vn_node_int(v->node, "num_groups", 0);
        if (groups < 1 || x->dims[1] % groups || (group && vn_variant_version(v) < 21)) return false;
        r->length = x->dims[1] / groups * *inner;
    } else {
        return false;
    }
    r->rows = x->count / r->length;
    return r->length > 1;
}

static vn_status_t norms(vn_variant_t *v, vn_error_t *err) {
    rows_t r = {.e = v->e};
    int shift;
    int64_t inner;
    if (!v->e->c->q->node || !v->e->x || !v->e->c->ref->value || !read_rows(v, &r, &shift, &inner)) return VN_OK;
    const int64_t n = r.rows * r.length;
    bool known = true;
    vn_status_t s = r.softmax ? VN_OK : spread(v, 1, inner, n, &r.scale, &known, err);
    if (s == VN_OK && !r.softmax) s = spread(v, shift, inner, n, &r.shift, &known, err);
    double *x = vn_alloc((size_t)n, sizeof *x);
    r.y2 = vn_alloc((size_t)n, sizeof *r.y2);
    r.room = vn_alloc((size_t)n, sizeof *r.room);
    sums_t sums = {.one = vn_alloc((size_t)r.length + 1, sizeof *sums.one), .two = vn_alloc((size_t)r.length + 1, sizeof *sums.two)};
    if (s == VN_OK && (!x || !r.y2 || !r.room || !sums.one || !sums.two))
        s = vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)n);
    if (s == VN_OK && known) {
        vn_tensor_to_f64(vn_variant_operand(v, 0), x);
        r.x = x;
        search(&r, &sums);
    }
    vn_free(x);
    vn_free(r.scale);
    vn_free(r.shift);
    vn_free(r.y2);
    vn_free(r.room);
    vn_free(sums.one);
    vn_free(sums.two);
    return s;
}

vn_status_t vn_name_norms(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, norms, err); }
