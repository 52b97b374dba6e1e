/* op_ml_scale.c -- Scaler and Normalizer.
 *
 * Claim ML-SCALE: y = (x - o) s; E = |s| (u |d| + dx)(1 + u) + u |y| + eta/2, d = x - o, dx: what the operand loses when it is read in the
 * accumulator's format.
 * Claim ML-NORMAL: y = x / D per row. MAX: D = max x. L1: D = sum |x|, error (n-1) u D + sum dx. L2: D = sqrt(sum x^2), error of SUM-4; a code
 * that divides the squares first may lose sqrt(eta / sum x^2). E = (|x| + dx)(1 + u)^2 / (D - dD) - |x|/D, void where dD >= D. D = 0 gives
 * x itself. Open: the formulas of the text take the signed sum (reading "signed-sum") and lose the sign in L2 (reading "magnitudes"); MAX is
 * often taken of the magnitudes (reading "largest-magnitude"). A row with a NaN is open under MAX.
 */
#include <math.h>
#include <string.h>

#include "oracle/ml.h"

/* Operand 0 of any rank as rows along its last dimension. */
static vn_status_t features(vn_eval_t *e, int64_t *f) {
    VN_TRY(vn_ml_number_type(e, 0, false));
    const vn_tensor_t *x = e->in[0].t;
    *f = x->rank ? x->dims[x->rank - 1] : 1;
    return VN_OK;
}

static vn_status_t infer_f32(vn_eval_t *e) {
    const vn_shape_t s = vn_shape_of(e->in[0].t);
    return vn_move_infer(e, 0, VN_F32, &s);
}

/* ---- Scaler ---- */

typedef struct scaler {
    int64_t f, scales, offsets;
    double *scale, *offset;
} scaler_t;

static vn_status_t scaler(vn_eval_t *e, scaler_t *s) {
    *s = (scaler_t){0};
    VN_TRY(features(e, &s->f));
    VN_TRY(vn_ml_numbers(e, "scale", NULL, &s->scale, &s->scales));
    VN_TRY(vn_ml_numbers(e, "offset", NULL, &s->offset, &s->offsets));
    if (s->scales == s->offsets && s->scales > 0 && (s->scales == 1 || s->scales == s->f)) return VN_OK;
    return vn_eval_fail(e, VN_ERR_SHAPE, "%lld scales and %lld offsets for %lld features: both must have 1 or all", (long long)s->scales,
                        (long long)s->offsets, (long long)s->f);
}

static void scaler_free(scaler_t *s) {
    vn_free(s->scale);
    vn_free(s->offset);
}

vn_status_t vn_infer_ml_scaler(vn_eval_t *e) {
    scaler_t s;
    const vn_status_t st = scaler(e, &s);
    scaler_free(&s);
    return st == VN_OK ? infer_f32(e) : st;
}

static double scale_error(const vn_ml_tier_t *t, double d, double s, int64_t i) {
    const double dx = t->err ? t->err[i] : 0, flush = t->contract.daz || t->contract.ftz ? t->tau : 0;
    const double ed = t->u * (fabs(d) + dx) + dx + flush;
    return (fabs(s) * ed + flush * fabs(d)) * (1 + t->u) + t->u * fabs(s * d) + t->eta / 2;
}

static vn_status_t scale_all(vn_ml_t *m, const scaler_t *s) {
    vn_eval_t *e = m->e;
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_float(e, 0, VN_F32, x->rank, x->dims));
    vn_ref_t *r = &e->out[0];
    if (m->last && r->bound) VN_TRY(vn_out_wide(e, 0, "operand-f32"));
    for (int64_t i = 0; i < r->count; ++i) {
        const int64_t at = s->scales == 1 ? 0 : i % s->f;
        const double d = m->x[i] - s->offset[at];
        r->value[i] = d * s->scale[at];
        if (r->bound) r->bound[i] = isfinite(r->value[i]) ? scale_error(&m->tier[0], d, s->scale[at], i) : 0;
        if (r->wide) r->wide[i] = fmax(r->bound[i], isfinite(r->value[i]) ? scale_error(&m->tier[1], d, s->scale[at], i) : 0);
        if (r->var)
            r->var[i] = s->scale[at] * s->scale[at] * (vn_node_variance(m->tier[0].format, d) + (e->in[0].var ? e->in[0].var[i] : 0)) +
                        vn_node_variance(m->tier[0].format, r->value[i]);
    }
    return VN_OK;
}

/* vn_ml_open wants a matrix; rows do not matter here. */
static vn_status_t open_any(vn_eval_t *e, vn_ml_t *m) {
    vn_tensor_t *flat = NULL;
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank == 1 || x->rank == 2) return vn_ml_open(e, false, m);
    *m = (vn_ml_t){.e = e};
    VN_TRY(vn_tensor_reshape(x, 1, &x->count, &flat, e->err));
    e->in[0].t = flat;
    const vn_status_t s = vn_ml_open(e, false, m);
    e->in[0].t = x;
    if (s == VN_OK && m->x == flat->data) m->x = x->data;
    vn_tensor_free(flat);
    return s;
}

vn_status_t vn_ml_scaler(vn_eval_t *e) {
    scaler_t s;
    vn_ml_t m = {.e = e};
    vn_status_t st = scaler(e, &s);
    if (st == VN_OK) st = open_any(e, &m);
    if (st == VN_OK) st = scale_all(&m, &s);
    vn_ml_close(&m);
    scaler_free(&s);
    return st;
}

/* ---- Normalizer ---- */

typedef enum norm { NORM_MAX, NORM_L1, NORM_L2 } norm_t;
typedef enum way { WAY_MAIN, WAY_MAGNITUDE /* MAX of |x|; L2 without sign */, WAY_SIGNED /* L1 */ } way_t;

static vn_status_t normalizer(vn_eval_t *e, norm_t *norm, int64_t *f) {
    static const char *const names[] = {"MAX", "L1", "L2", NULL};
    int at;
    VN_TRY(features(e, f));
    if (e->in[0].t->rank < 1 || e->in[0].t->rank > 2)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 has rank %d, not [N, C] or [C]", e->in[0].t->rank);
    VN_TRY(vn_ml_choice(e, "norm", "MAX", names, &at));
    *norm = (norm_t)at;
    return VN_OK;
}

vn_status_t vn_infer_ml_normalizer(vn_eval_t *e) {
    norm_t norm;
    int64_t f;
    VN_TRY(normalizer(e, &norm, &f));
    return infer_f32(e);
}

typedef struct divisor {
    double d, err; /* |error| of the computed divisor */
    double own;    /* sum of squares, for L2 */
    bool nan;
} divisor_t;

static divisor_t divisor(const vn_ml_tier_t *t, norm_t norm, way_t way, const double *x, const double *dx, int64_t n, double *work) {
    divisor_t r = {.d = norm == NORM_MAX ? -INFINITY : 0};
    double carried = 0, most = 0;
    for (int64_t k = 0; k < n; ++k) {
        const double v = norm == NORM_L2 ? x[k] * x[k] : (norm == NORM_L1 && way == WAY_MAIN) || way == WAY_MAGNITUDE ? fabs(x[k]) : x[k];
        const double d = dx ? dx[k] : 0;
        work[k] = v;
        r.nan |= isnan(v);
        carried += norm == NORM_L2 ? 2 * fabs(x[k]) * d + d * d : d;
        most = fmax(most, d);
    }
    if (norm == NORM_MAX) {
        for (int64_t k = 0; k < n; ++k) r.d = work[k] > r.d ? work[k] : r.d;
        r.err = most;
        return r;
    }
    const vn_sum2_t s = vn_sum2(work, n);
    if (norm == NORM_L1) {
        r.d = s.hi;
        r.err = vn_gamma((double)(n - 1), t->u) * (s.abs + carried) + carried;
        return r;
    }
    const double e = vn_ml_sum_error(t, (double)n + 1, s.hi + carried, (double)n) + carried;
    r.own = s.hi;
    r.d = sqrt(s.hi);
    r.err = fmax(sqrt(s.hi + e) - r.d, r.d - sqrt(fmax(s.hi - e, 0))) + t->u * sqrt(s.hi + e);
    if (e >= s.hi) r.err = INFINITY;
    return r;
}

typedef struct plan {
    const vn_ml_t *m;
    norm_t norm;
    way_t way;
    double *y, *bound, *wide, *var, *work;
    uint8_t *flags;
} plan_t;

static double quotient_error(const vn_ml_tier_t *t, const divisor_t *d, double x, double dx, double y) {
    const double size = fabs(d->d);
    if (!isfinite(x) || !isfinite(size)) return 0;
    if (size == 0 && d->err == 0) return dx + t->u * fabs(x);
    if (!(d->err < size)) return INFINITY;
    double e = (fabs(x) + dx) * (1 + t->u) * (1 + t->u) / (size - d->err) - fabs(y) + t->eta;
    e += 2 * t->u * fabs(y); /* the root of a quotient of squares */
    if (d->own > 0) e += fmin(fabs(y), sqrt(t->eta / d->own));
    return e;
}

static void one_row(const plan_t *p, int64_t i) {
    const vn_ml_t *m = p->m;
    const double *x = m->x + i * m->f;
    divisor_t d[2];
    for (int t = 0; t <= m->last; ++t)
        d[t] = divisor(&m->tier[t], p->norm, p->way, x, m->tier[t].err ? m->tier[t].err + i * m->f : NULL, m->f, p->work);
    const double v =
        p->var && p->norm != NORM_MAX ? vn_sum_variance(m->tier[0].format, p->work, m->f, p->norm == NORM_L2 ? d[0].own : d[0].d) : 0;
    for (int64_t k = 0; k < m->f; ++k) {
        const int64_t at = i * m->f + k;
        double y = d[0].d == 0 ? x[k] : x[k] / d[0].d;
        if (p->norm == NORM_L2 && p->way == WAY_MAGNITUDE) y = fabs(y);
        if (p->norm == NORM_MAX && d[0].nan && isnan(d[0].d)) y = NAN;
        p->y[at] = y;
        if (p->flags && d[0].nan && p->norm == NORM_MAX) p->flags[at] |= VN_EL_VOID;
        if (p->bound) p->bound[at] = quotient_error(&m->tier[0], &d[0], x[k], m->tier[0].err ? m->tier[0].err[at] : 0, y);
        if (p->wide)
            p->wide[at] = fmax(
                p->bound[at], quotient_error(&m->tier[m->last], &d[m->last], x[k], m->tier[m->last].err ? m->tier[m->last].err[at] : 0, y));
        if (!p->var || d[0].d == 0 || !isfinite(y)) continue;
        const double rel = p->norm == NORM_L2 ? v / (4 * d[0].own * d[0].own) : v / (d[0].d * d[0].d);
        p->var[at] = y * y * rel + 3 * vn_node_variance(m->tier[0].format, y);
    }
}

static vn_status_t way_reading(const plan_t *main_plan, way_t way, const char *name) {
    vn_eval_t *e = main_plan->m->e;
    const int64_t count = e->out[0].count;
    double *planes = vn_alloc((size_t)(count ? count : 1), 3 * sizeof *planes);
    if (!planes) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a reading");
    plan_t p = *main_plan;
    p.way = way;
    p.y = planes;
    p.bound = planes + count;
    p.wide = planes + 2 * count;
    p.var = NULL;
    p.flags = NULL;
    bool same = true;
    for (int64_t i = 0; i < p.m->n; ++i) one_row(&p, i);
    for (int64_t i = 0; i < count && same; ++i) same = p.y[i] == main_plan->y[i] || isnan(p.y[i]);
    const vn_status_t s = same ? VN_OK : vn_ml_reading(e, 0, name, p.y, p.wide);
    vn_free(planes);
    return s;
}

static vn_status_t normalize(vn_ml_t *m, norm_t norm, double *work) {
    vn_eval_t *e = m->e;
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_float(e, 0, VN_F32, x->rank, x->dims));
    if (m->last && e->want >= VN_WANT_BOUND) VN_TRY(vn_out_wide(e, 0, "operand-f32"));
    if (norm == NORM_MAX) VN_TRY(vn_out_flags(e, 0));
    vn_ref_t *r = &e->out[0];
    plan_t p = {.m = m, .norm = norm, .y = r->value, .bound = r->bound, .wide = r->wide, .var = r->var, .work = work, .flags = r->flags};
    for (int64_t i = 0; i < m->n; ++i) one_row(&p, i);
    r->terms = norm == NORM_MAX ? 0 : m->f;
    if (e->want < VN_WANT_BOUND) return VN_OK;
    if (norm == NORM_L1) return way_reading(&p, WAY_SIGNED, "signed-sum");
    return way_reading(&p, WAY_MAGNITUDE, norm == NORM_MAX ? "largest-magnitude" : "magnitudes");
}

vn_status_t vn_ml_normalizer(vn_eval_t *e) {
    norm_t norm;
    int64_t f;
    vn_ml_t m = {.e = e};
    VN_TRY(normalizer(e, &norm, &f));
    double *work = vn_alloc((size_t)(f ? f : 1), sizeof *work);
    vn_status_t s = work ? vn_ml_open(e, false, &m) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld features", (long long)f);
    if (s == VN_OK) s = normalize(&m, norm, work);
    vn_ml_close(&m);
    vn_free(work);
    return s;
}
