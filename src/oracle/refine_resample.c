/* refine_resample.c -- single elements of Resize and Upsample in more digits (claims PREC-9, RESIZE-8).
 *
 * An element is the nested sum over the taps of its axes. A coordinate that the digits leave beside an integer, or beside the edge of a crop, leaves the
 * element open, unless it is that number.
 */
#include "oracle/resample.h"

/* Taps along one axis for one output index; weights are to be divided by total. */
typedef struct taps {
    int64_t n, room, *at;
    vn_tracked_t *w, total;
} taps_t;

typedef struct refine {
    const vn_resize_plan_t *p;
    const double *x;
    int64_t in_step[VN_MAX_RANK];
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

/* *outside: the extrapolated value. False: not known. */
static bool taps_of(const vn_resize_plan_t *p, const vn_resize_axis_t *a, int64_t i, taps_t *t, bool *outside) {
    const vn_tk_fraction_t c = vn_resize_exact(p, a, i);
    vn_tracked_t rest, w[4];
    int64_t k;
    if (!vn_quad_finite(c.n.e + c.d.e)) return false;
    if (p->coordinates == VN_TF_CROP) {
        const vn_tracked_t over = vn_tk_sub(c.n, vn_tk_mul(vn_tk((double)(a->in - 1)), c.d)); /* above 0: outside */
        const bool below = vn_tk_below(c.n, 0), above = vn_tk_above(over, 0);
        *outside |= below || above;
        if (below || above) return true;
        if ((c.n.e > 0 && !vn_tk_above(c.n, 0)) || (over.e > 0 && !vn_tk_below(over, 0))) return false;
    }
    if (p->exclude || (p->antialias && a->scale < 1)) return weighted(p, a, c, t);
    const bool cubic = p->mode == VN_RESIZE_CUBIC;
    if (!vn_tk_floor(c, &k, &rest) || !reserve(t, 4)) return false;
    const int n = vn_tk_weights(cubic, p->a, rest, c.d, w, &t->total);
    for (int q = 0; q < n; ++q) put(t, clamp(k + q - (cubic ? 1 : 0), a->in), w[q]);
    return true;
}

/* Without the totals. */
static vn_tracked_t nested(const refine_t *j, const taps_t *taps, int d, int64_t offset) {
    if (d == j->p->rank) return vn_tk(j->x[offset]);
    const taps_t *t = &taps[d];
    vn_tracked_t sum = vn_tk(0);
    for (int64_t k = 0; k < t->n; ++k) sum = vn_tk_add(sum, vn_tk_mul(t->w[k], nested(j, taps, d + 1, offset + t->at[k] * j->in_step[d])));
    return sum;
}

static vn_tracked_t totals(const taps_t *taps, int rank) {
    vn_tracked_t total = vn_tk(1);
    for (int d = 0; d < rank; ++d) total = vn_tk_mul(total, taps[d].total);
    return total;
}

static void element(void *ctx, int64_t at, vn_exact_t *out) {
    const refine_t *j = ctx;
    taps_t taps[VN_MAX_RANK] = {{0}};
    bool known = true, outside = false;
    for (int d = j->p->rank - 1; d >= 0 && known; --d) {
        const vn_resize_axis_t *a = &j->p->axis[d];
        const int64_t i = at % a->out;
        at /= a->out;
        if (!a->identity) {
            known = taps_of(j->p, a, i, &taps[d], &outside);
            continue;
        }
        known = reserve(&taps[d], 1);
        if (!known) break;
        put(&taps[d], i, vn_tk(1));
        taps[d].total = vn_tk(1);
    }
    if (known && outside) *out = (vn_exact_t){.value = j->p->extrapolation};
    else if (known) *out = vn_tk_exact(vn_tk_div(nested(j, taps, 0, 0), totals(taps, j->p->rank)));
    if (!vn_quad_finite(out->value)) out->own = (vn_quad_t)INFINITY;
    for (int d = 0; d < j->p->rank; ++d) {
        vn_free(taps[d].at);
        vn_free(taps[d].w);
    }
}

vn_status_t vn_resize_refine(vn_eval_t *e, const vn_resize_plan_t *p) {
    refine_t j = {.p = p, .x = vn_arg_f64(e, 0)};
    if (!j.x) return VN_ERR_NOMEM;
    int64_t step = 1;
    for (int d = p->rank - 1; d >= 0; --d) {
        j.in_step[d] = step;
        step *= e->in[0].t->dims[d];
    }
    vn_refine_each(e, element, &j);
    return VN_OK;
}
