/* refine_resample.c -- single elements of Resize and Upsample in more digits (claims PREC-9, RESIZE-8).
 *
 * An element is the nested sum over the taps of its axes. A coordinate that the digits leave beside an integer, or beside the edge of a crop, leaves the
 * element open, unless it is that number. Where many are asked for, the taps of every output index are found once, and sums are taken in two
 * numbers first (claim RESIZE-9): ties and what those leave open take 113 bits.
 */
#include <math.h>

#include "oracle/dd.h"
#include "oracle/resample.h"

/* Taps along one axis for one output index; weights are to be divided by total. */
typedef struct taps {
    int64_t n, room, *at;
    vn_tracked_t *w, total;
    vn_dd_t *pair; /* the quotients; NULL: not formed */
    double off;    /* how far these are off, relative; Inf: not to be used */
    bool known, outside;
} taps_t;

typedef struct refine {
    const vn_resize_plan_t *p;
    const double *x;
    vn_format_t format;
    int64_t in_step[VN_MAX_RANK];
    taps_t *table[VN_MAX_RANK]; /* of every output index; NULL: found anew for each element */
} refine_t;

static bool reserve(taps_t *t, int64_t n) {
    if (n <= t->room) return true;
    int64_t *at = vn_alloc((size_t)n, sizeof *at);
    vn_tracked_t *w = vn_alloc((size_t)n, sizeof *w);
    vn_free(t->at);
    vn_free(t->w);
    t->at = at;
    t->w = w;
    t->room = at && w ? n : 0;
    return at && w;
}

static int64_t clamp(int64_t k, int64_t n) { return k < 0 ? 0 : k >= n ? n - 1 : k; }

static void put(taps_t *t, int64_t at, vn_tracked_t w) {
    if (w.v == 0 && w.e == 0) return; /* as good as absent: results of infinities are not asked for */
    t->at[t->n] = at;
    t->w[t->n++] = w;
}

/* Stretched and excluded taps, with their sum. The distance (k - c) scale is x / d. */
static bool weighted(const vn_resize_plan_t *p, const vn_resize_axis_t *a, vn_tk_fraction_t c, taps_t *t) {
    const bool cubic = p->mode == VN_RESIZE_CUBIC, stretched = p->antialias && a->scale < 1;
    const vn_tracked_t num = vn_tk(stretched ? a->num : 1), den = vn_tk(stretched ? a->den : 1), d = vn_tk_mul(c.d, den);
    const double reach = (cubic ? 2 : 1) * (double)(den.v / num.v) + 1, middle = (double)(c.n.v / c.d.v);
    int64_t lo = (int64_t)floor(middle - reach), hi = (int64_t)ceil(middle + reach);
    if (p->exclude && lo < 0) lo = 0;
    if (p->exclude && hi >= a->in) hi = a->in - 1;
    t->total = vn_tk(0);
    if (hi < lo || !reserve(t, hi - lo + 1)) return false; /* nothing left: 0/0 is not looked into again */
    for (int64_t k = lo; k <= hi; ++k) {
        vn_tracked_t x = vn_tk_mul(vn_tk_sub(vn_tk_mul(vn_tk((double)k), c.d), c.n), num);
        if (x.v < 0) x.v = -x.v;
        vn_tracked_t w = cubic ? vn_tk_cubic(p->a, x, d) : vn_tk_sub(d, x);
        if (!cubic && w.v < 0) w = (vn_tracked_t){0, w.v + w.e > 0 ? w.e : 0};
        put(t, clamp(k, a->in), w);
        t->total = vn_tk_add(t->total, w);
    }
    return true;
}

/* t->outside: the extrapolated value. */
static void taps_of(const vn_resize_plan_t *p, const vn_resize_axis_t *a, int64_t i, taps_t *t) {
    const vn_tk_fraction_t c = vn_resize_exact(p, a, i);
    vn_tracked_t rest, w[4];
    int64_t k;
    if (!vn_quad_finite(c.n.e + c.d.e)) return;
    if (p->coordinates == VN_TF_CROP) {
        const vn_tracked_t over = vn_tk_sub(c.n, vn_tk_mul(vn_tk((double)(a->in - 1)), c.d)); /* above 0: outside */
        t->outside = vn_tk_below(c.n, 0) || vn_tk_above(over, 0);
        t->known = t->outside;
        if (t->outside || (c.n.e > 0 && !vn_tk_above(c.n, 0)) || (over.e > 0 && !vn_tk_below(over, 0))) return;
    }
    if (p->exclude || (p->antialias && a->scale < 1)) {
        t->known = weighted(p, a, c, t);
        return;
    }
    const bool cubic = p->mode == VN_RESIZE_CUBIC;
    if (!vn_tk_floor(c, &k, &rest) || !reserve(t, 4)) return;
    const int n = vn_tk_weights(cubic, p->a, rest, c.d, w, &t->total);
    for (int q = 0; q < n; ++q) put(t, clamp(k + q - (cubic ? 1 : 0), a->in), w[q]);
    t->known = true;
}

static void taps_free(taps_t *t) {
    vn_free(t->at);
    vn_free(t->w);
    vn_free(t->pair);
}

/*
 * Claim RESIZE-9. Weights over their total as two numbers: the error of a weight, that of the total, one division in 113 bits and two roundings to 53,
 * 2^-105 together. Weights in [2^-60, 4], eight axes at most: products stay within the range of DD-1, what underflows is below 2^-1040.
 */
static void in_pairs(taps_t *t) {
    double most = 0, off = (double)(t->total.e / vn_qabs(t->total.v));
    t->off = INFINITY;
    t->pair = t->known && !t->outside ? vn_alloc((size_t)t->n + 1, sizeof *t->pair) : NULL;
    if (!t->pair) return;
    for (int64_t k = 0; k < t->n; ++k) {
        const vn_quad_t w = t->w[k].v / t->total.v;
        t->pair[k].hi = (double)w;
        t->pair[k].lo = (double)(w - t->pair[k].hi);
        const double size = fabs(t->pair[k].hi);
        if (!(size >= 0x1p-60 && size <= 4)) return;
        most = fmax(most, (double)(t->w[k].e / vn_qabs(t->w[k].v)));
    }
    off = (off + most) * (1 + 0x1p-20) + 0x1p-105;
    if (off < 0x1p-60) t->off = off;
}

/* ---- one element ---- */

/* Without the totals. Axes without taps are in the offset already. */
static vn_tracked_t nested(const refine_t *j, const taps_t *const *taps, int d, int64_t offset) {
    while (d < j->p->rank && !taps[d]) ++d;
    if (d == j->p->rank) return vn_tk(j->x[offset]);
    const taps_t *t = taps[d];
    vn_tracked_t sum = vn_tk(0);
    for (int64_t k = 0; k < t->n; ++k) sum = vn_tk_add(sum, vn_tk_mul(t->w[k], nested(j, taps, d + 1, offset + t->at[k] * j->in_step[d])));
    return sum;
}

/* The same in two numbers, and the sum of magnitudes; samples below 2^-800 make it NaN: products with them may be cut. */
static vn_dd_t paired(const refine_t *j, const taps_t *const *taps, int d, int64_t offset, double *size) {
    while (d < j->p->rank && !taps[d]) ++d;
    if (d == j->p->rank) {
        const double x = j->x[offset], least = fabs(x);
        *size = least == 0 || least >= 0x1p-800 ? least : NAN;
        return (vn_dd_t){x, 0};
    }
    const taps_t *t = taps[d];
    vn_dd_t sum = {0, 0};
    *size = 0;
    for (int64_t k = 0; k < t->n; ++k) {
        double part;
        sum = vn_dd_add(sum, vn_dd_mul(t->pair[k], paired(j, taps, d + 1, offset + t->at[k] * j->in_step[d], &part)));
        *size += fabs(t->pair[k].hi) * part;
    }
    return sum;
}

/* Claim RESIZE-9: the element in two numbers, if that decides it. */
static bool quickly(const refine_t *j, const taps_t *const *taps, int64_t offset, vn_exact_t *out) {
    double off = 0, size;
    for (int d = 0; d < j->p->rank; ++d)
        if (taps[d]) off += taps[d]->off + (double)(taps[d]->n + 2) * VN_DD_U;
    if (!(off < 0x1p-56)) return false;
    const vn_dd_t sum = paired(j, taps, 0, offset, &size);
    *out = (vn_exact_t){.value = sum.hi, .rest = sum.lo, .own = off * (1 + 0x1p-20) * size + 0x1p-1040};
    return isfinite(sum.hi) && size < 0x1p960 && vn_exact_decided(j->format, out);
}

static void element(void *ctx, int64_t at, vn_exact_t *out) {
    const refine_t *j = ctx;
    taps_t own[VN_MAX_RANK] = {{0}};
    const taps_t *taps[VN_MAX_RANK] = {0};
    bool known = true, outside = false, pairs = true;
    int64_t offset = 0;
    vn_tracked_t total = vn_tk(1);
    for (int d = j->p->rank - 1; d >= 0; --d) {
        const vn_resize_axis_t *a = &j->p->axis[d];
        const int64_t i = at % a->out;
        at /= a->out;
        if (a->identity) {
            offset += i * j->in_step[d];
            continue;
        }
        if (!j->table[d]) taps_of(j->p, a, i, &own[d]);
        taps[d] = j->table[d] ? &j->table[d][i] : &own[d];
        known &= taps[d]->known;
        outside |= taps[d]->outside;
        pairs &= taps[d]->pair != NULL;
    }
    if (known && outside) {
        *out = (vn_exact_t){.value = j->p->extrapolation};
    } else if (known && !(pairs && quickly(j, taps, offset, out))) {
        for (int d = 0; d < j->p->rank; ++d)
            if (taps[d]) total = vn_tk_mul(total, taps[d]->total);
        *out = vn_tk_exact(vn_tk_div(nested(j, taps, 0, offset), total));
    }
    if (!vn_quad_finite(out->value)) out->own = (vn_quad_t)INFINITY;
    for (int d = 0; d < j->p->rank; ++d) taps_free(&own[d]);
}

/* ---- tables ---- */

typedef struct tabulate {
    const vn_resize_plan_t *p;
    const vn_resize_axis_t *a;
    taps_t *table;
} tabulate_t;

static void tabulate_range(void *ctx, int64_t begin, int64_t end) {
    const tabulate_t *j = ctx;
    for (int64_t i = begin; i < end; ++i) {
        taps_of(j->p, j->a, i, &j->table[i]);
        in_pairs(&j->table[i]);
    }
}

/* Where more elements are asked for than an axis has indices. */
static bool tabulate(refine_t *j, int64_t asked) {
    for (int d = 0; d < j->p->rank; ++d) {
        const vn_resize_axis_t *a = &j->p->axis[d];
        if (a->identity || a->out > asked) continue;
        j->table[d] = vn_alloc((size_t)a->out, sizeof *j->table[d]);
        if (!j->table[d]) return false;
        vn_parallel(a->out, 16, tabulate_range, &(tabulate_t){.p = j->p, .a = a, .table = j->table[d]});
    }
    return true;
}

static void tables_free(refine_t *j) {
    for (int d = 0; d < j->p->rank; ++d) {
        for (int64_t i = 0; j->table[d] && i < j->p->axis[d].out; ++i) taps_free(&j->table[d][i]);
        vn_free(j->table[d]);
    }
}

vn_status_t vn_resize_refine(vn_eval_t *e, const vn_resize_plan_t *p) {
    refine_t j = {.p = p, .x = vn_arg_f64(e, 0), .format = e->refine->format};
    if (!j.x) return VN_ERR_NOMEM;
    int64_t step = 1;
    for (int d = p->rank - 1; d >= 0; --d) {
        j.in_step[d] = step;
        step *= e->in[0].t->dims[d];
    }
    const bool done = tabulate(&j, e->refine->n);
    if (done) vn_refine_each(e, element, &j);
    tables_free(&j);
    return done ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for weights");
}
