/* op_resize.c -- family "resample": Resize 10 to 19, Upsample 7 and 9; the rows of GridSample and AffineGrid.
 *
 * Method: one pass per resized axis over planes of value, error and variance; interpolation is separable, so the order of axes is free in the
 * exact value, and the errors of RESIZE-1 to RESIZE-4 add up along the way. Nearest moves bits: where the coordinate lies within dc of a
 * tie, `either` holds the other neighbour (several axes at once: void). Integer tensors: the value is computed and cut; the rounded value is
 * the other choice.
 * Readings: "real-length", with scales, align_corners and crops divide by scale * length (the reference) instead of the integer output length
 * (the text). "ceil-when-shrinking", nearest before opset 11 with a scale below 1.
 */
#include <math.h>
#include <string.h>

#include "oracle/resample.h"

/* ---- nearest: movement ---- */

typedef struct nearest_axis {
    int64_t *at, *other; /* source index per output index; -1 = extrapolated */
} nearest_axis_t;

typedef struct nearest {
    const vn_resize_plan_t *p;
    const vn_tensor_t *x;
    vn_ref_t *r;
    nearest_axis_t axis[VN_MAX_RANK];
    int64_t step[VN_MAX_RANK];
    size_t unit;
    bool ties;
    uint64_t fill;
    int tied; /* atomic */
} nearest_t;

static void copy_unit(char *to, const char *from, size_t unit) { memcpy(to, from, unit); }

static void nearest_range(void *ctx, int64_t begin, int64_t end) {
    nearest_t *j = ctx;
    for (int64_t i = begin; i < end; ++i) {
        int64_t rest = i, at = 0, other = 0;
        int ties = 0;
        bool outside = false;
        for (int d = j->p->rank - 1; d >= 0; --d) {
            const int64_t k = rest % j->p->dims[d];
            rest /= j->p->dims[d];
            const int64_t a = j->axis[d].at[k], b = j->axis[d].other[k];
            outside |= a < 0;
            ties += a != b;
            at += a * j->step[d];
            other += b * j->step[d];
        }
        char *to = (char *)j->r->tensor->data + (size_t)i * j->unit;
        if (outside) memcpy(to, &j->fill, j->unit);
        else copy_unit(to, (const char *)j->x->data + (size_t)at * j->unit, j->unit);
        if (!j->r->either) continue;
        char *alt = (char *)j->r->either->data + (size_t)i * j->unit;
        if (outside || ties == 0) memcpy(alt, to, j->unit);
        else copy_unit(alt, (const char *)j->x->data + (size_t)other * j->unit, j->unit);
        if (ties > 1 && j->r->flags) j->r->flags[i] = VN_EL_VOID;
    }
}

static vn_status_t nearest_axis(vn_eval_t *e, const vn_resize_plan_t *p, int d, nearest_axis_t *t, bool *ties) {
    const vn_resize_axis_t *a = &p->axis[d];
    t->at = vn_alloc((size_t)a->out + 1, sizeof *t->at);
    t->other = vn_alloc((size_t)a->out + 1, sizeof *t->other);
    if (!t->at || !t->other) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < a->out; ++i) {
        double dc, last = (double)(a->in - 1);
        const double c = vn_resize_coordinate(p, a, i, &dc), k = vn_resize_nearest(p, a, c), lo = vn_resize_nearest(p, a, c - dc),
                     hi = vn_resize_nearest(p, a, c + dc);
        const double other = lo != k ? lo : hi;
        if (a->identity) {
            t->at[i] = t->other[i] = i;
            continue;
        }
        t->at[i] = (int64_t)fmin(fmax(k, 0), last);
        t->other[i] = (int64_t)fmin(fmax(other, 0), last);
        if (p->coordinates == VN_TF_CROP && (c < 0 || c > last)) t->at[i] = t->other[i] = -1;
        *ties |= t->at[i] != t->other[i];
    }
    return VN_OK;
}

static vn_status_t nearest(vn_eval_t *e, const vn_resize_plan_t *p) {
    const vn_tensor_t *x = e->in[0].t;
    const int bits = vn_dtype_bits(x->dtype);
    if (x->dtype == VN_STRING || bits < 8 || bits > 64)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "nearest resize of %s", vn_dtype_name(x->dtype));
    VN_TRY(vn_out_exact(e, 0, x->dtype, p->rank, p->dims));
    nearest_t j = {.p = p, .x = x, .r = &e->out[0], .unit = (size_t)bits / 8};
    vn_status_t s = VN_OK;
    int64_t step = 1;
    for (int d = p->rank - 1; d >= 0; --d) {
        j.step[d] = step;
        step *= x->dims[d];
    }
    for (int d = 0; d < p->rank && s == VN_OK; ++d) s = nearest_axis(e, p, d, &j.axis[d], &j.ties);
    if (s == VN_OK && p->coordinates == VN_TF_CROP) {
        vn_tensor_t *one = NULL;
        s = vn_tensor_new(x->dtype, 0, NULL, &one, e->err);
        if (s == VN_OK) {
            if (vn_dtype_is_float(x->dtype)) vn_tensor_set_f64(one, 0, p->extrapolation);
            else vn_tensor_set_i64(one, 0, (int64_t)p->extrapolation);
            memcpy(&j.fill, one->data, j.unit);
        }
        vn_tensor_free(one);
    }
    if (s == VN_OK && j.ties) s = vn_out_either(e, 0);
    if (s == VN_OK && j.ties) s = vn_out_flags(e, 0);
    if (s == VN_OK) vn_parallel(e->out[0].count, 1 << 13, nearest_range, &j);
    vn_flags_settle(e, 0);
    for (int d = 0; d < p->rank; ++d) {
        vn_free(j.axis[d].at);
        vn_free(j.axis[d].other);
    }
    return s;
}

/* ---- linear and cubic: passes over planes ---- */

typedef struct planes {
    double *v, *e, *s, *o;
} planes_t;

static void planes_free(planes_t *p) {
    vn_free(p->v);
    vn_free(p->e);
    vn_free(p->s);
    vn_free(p->o);
    *p = (planes_t){0};
}

static bool planes_new(planes_t *p, int64_t n, bool bound, bool variance) {
    p->v = vn_alloc((size_t)n + 1, sizeof(double));
    p->e = bound ? vn_alloc((size_t)n + 1, sizeof(double)) : NULL;
    p->s = variance ? vn_alloc((size_t)n + 1, sizeof(double)) : NULL;
    p->o = vn_alloc((size_t)n + 1, sizeof(double)); /* a value alone wants it too: what it leaves open is evaluated again */
    return p->v && p->o && (p->e || !bound) && (p->s || !variance);
}

typedef struct pass {
    const vn_resize_plan_t *p;
    const vn_resize_axis_t *a;
    vn_resample_rule_t rule;
    planes_t from, to;
    int64_t outer, inner;
    bool weighted;
    int failed; /* atomic */
} pass_t;

static vn_sample_t sample_at(const planes_t *p, int64_t i) {
    return (vn_sample_t){.v = p->v[i], .e = p->e ? p->e[i] : 0, .s = p->s ? p->s[i] : 0, .o = p->o[i]};
}

static int64_t clamp(int64_t k, int64_t n) { return k < 0 ? 0 : k >= n ? n - 1 : k; }

/*
 * Raw weights of antialiased or excluding interpolation: taps first..first+n, normalised; *total their raw sum. One tap beyond the reach on
 * each side is listed with its weight of 0: a coordinate off by dc may give it some. Excluded taps have no weight wherever c lies.
 */
static int64_t raw_weights(const pass_t *s, double c, double *w, int64_t room, int64_t *first, double *total) {
    const vn_resize_plan_t *p = s->p;
    const double scale = p->antialias ? fmin(s->a->scale, 1) : 1, reach = (p->mode == VN_RESIZE_CUBIC ? 2 : 1) / scale;
    int64_t lo = (int64_t)floor(c - reach), hi = (int64_t)ceil(c + reach), n = 0;
    if (p->exclude && lo < 0) lo = 0;
    if (p->exclude && hi >= s->a->in) hi = s->a->in - 1;
    *first = lo;
    *total = 0;
    for (int64_t k = lo; k <= hi && n < room; ++k) {
        const double x = ((double)k - c) * scale, r = p->mode == VN_RESIZE_CUBIC ? vn_cubic_weight(p->a, x) : fmax(0, 1 - fabs(x));
        w[n++] = r;
        *total += r;
    }
    if (*total == 0) *total = 1; /* everything excluded: zero */
    for (int64_t k = 0; k < n; ++k) w[k] /= *total;
    return n;
}

/* Error constants of the raw weights: slope in the coordinate, and evaluation error in u. */
static void weight_errors(const pass_t *s, double *slope, double *raw_u) {
    const bool cubic = s->p->mode == VN_RESIZE_CUBIC;
    const double scale = s->p->antialias ? fmin(s->a->scale, 1) : 1, steep = cubic ? 2.25 : 1;
    *slope = steep * scale;
    /* the distance (k - c) * scale is rounded twice: its error moves the kernel by its slope; the kernel's own polynomial costs the rest */
    *raw_u = (cubic ? 24 : 3) + steep * 2 * (cubic ? 2 : 1);
}

static void pass_range(void *ctx, int64_t begin, int64_t end) {
    pass_t *s = ctx;
    const vn_resize_plan_t *p = s->p;
    const vn_resize_axis_t *a = s->a;
    const int64_t room = s->weighted ? (int64_t)(2 * (p->mode == VN_RESIZE_CUBIC ? 2 : 1) / fmin(p->antialias ? a->scale : 1, 1)) + 6 : 0;
    double *w = NULL;
    vn_sample_t *taps = NULL;
    if (s->weighted) {
        w = vn_alloc((size_t)room, sizeof *w);
        taps = vn_alloc((size_t)room, sizeof *taps);
        if (!w || !taps) {
            __atomic_store_n(&s->failed, 1, __ATOMIC_RELAXED);
            begin = end;
        }
    }
    for (int64_t t = begin; t < end; ++t) { /* t = (outer index, output index) */
        const int64_t o = t / a->out, i = t % a->out;
        double dc;
        const double c = vn_resize_coordinate(p, a, i, &dc), whole = floor(c), last = (double)(a->in - 1);
        const int64_t k = (int64_t)fmin(fmax(whole, -4), last + 4);
        const bool extra = p->coordinates == VN_TF_CROP && (c < 0 || c > last);
        const bool edge = p->coordinates == VN_TF_CROP && (fabs(c) <= dc || fabs(c - last) <= dc);
        int64_t first = 0, taken = 0;
        double raw = 1, slope = 0, raw_u = 0;
        if (s->weighted) {
            taken = raw_weights(s, c, w, room, &first, &raw);
            weight_errors(s, &slope, &raw_u);
        }
        for (int64_t j = 0; j < s->inner; ++j) {
            const int64_t base = o * a->in * s->inner + j, at = t * s->inner + j;
            vn_sample_t y, window[VN_CUBIC_WINDOW];
            if (s->weighted) {
                for (int64_t q = 0; q < taken; ++q) taps[q] = sample_at(&s->from, base + clamp(first + q, a->in) * s->inner);
                y = vn_sample_weighted(&s->rule, taken, w, raw, slope, raw_u, dc, taps);
            } else {
                const int n = p->mode == VN_RESIZE_CUBIC ? VN_CUBIC_WINDOW : VN_LINEAR_WINDOW, before = n / 2 - 1;
                for (int q = 0; q < n; ++q) window[q] = sample_at(&s->from, base + clamp(k + q - before, a->in) * s->inner);
                y = p->mode == VN_RESIZE_CUBIC ? vn_sample_cubic(&s->rule, c - whole, dc, window)
                                               : vn_sample_linear(&s->rule, c - whole, dc, window);
            }
            if (edge) y.e += fabs(y.v - p->extrapolation) + y.e;
            if (edge) y.o = y.e; /* on which side the coordinate lies is as uncertain for f64 */
            if (extra) y = (vn_sample_t){.v = p->extrapolation, .e = edge ? y.e : 0, .o = edge ? y.e : 0};
            s->to.v[at] = y.v;
            if (s->to.e) s->to.e[at] = y.e;
            if (s->to.s) s->to.s[at] = y.s;
            s->to.o[at] = y.o;
        }
    }
    vn_free(w);
    vn_free(taps);
}

/* Runs the passes; *out owns the last planes. */
static vn_status_t passes(vn_eval_t *e, const vn_resize_plan_t *p, bool bound, bool variance, planes_t *out) {
    const vn_tensor_t *x = e->in[0].t;
    const double *plane = vn_arg_f64(e, 0), *err = vn_arg_err(e, 0);
    int64_t dims[VN_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    planes_t now = {0};
    if (!plane) return VN_ERR_NOMEM;
    if (!planes_new(&now, x->count, bound, variance)) {
        planes_free(&now);
        return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    memcpy(now.v, plane, (size_t)x->count * sizeof *plane);
    if (now.e && err) memcpy(now.e, err, (size_t)x->count * sizeof *plane);
    if (now.s && e->in[0].var) memcpy(now.s, e->in[0].var, (size_t)x->count * sizeof *plane);
    for (int pick = 0; pick < p->rank; ++pick) {
        const int d = p->rank - 1 - pick;
        const vn_resize_axis_t *a = &p->axis[d];
        if (a->identity) continue;
        pass_t s = {.p = p,
                    .a = a,
                    .from = now,
                    .outer = 1,
                    .inner = 1,
                    .rule = {.u = vn_u(e), .eta = vn_eta(e), .a = p->a, .u_coordinate = p->u_coordinate},
                    .weighted = p->exclude || (p->antialias && a->scale < 1)};
        for (int q = 0; q < d; ++q) s.outer *= dims[q];
        for (int q = d + 1; q < p->rank; ++q) s.inner *= dims[q];
        int64_t n;
        if (!vn_i64_mul(s.outer, a->out, &n) || !vn_i64_mul(n, s.inner, &n) || !planes_new(&s.to, n, bound, variance)) {
            planes_free(&s.to);
            planes_free(&now);
            return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for the pass along axis %d", d);
        }
        vn_parallel(s.outer * a->out, 1 + 4096 / (s.inner + 1), pass_range, &s);
        planes_free(&now);
        now = s.to;
        dims[d] = a->out;
        if (s.failed) {
            planes_free(&now);
            return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for weights");
        }
    }
    *out = now;
    return VN_OK;
}

/* Integer tensors: cut, or rounded. */
static vn_status_t integers(vn_eval_t *e, const vn_resize_plan_t *p, const planes_t *r) {
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_exact(e, 0, x->dtype, p->rank, p->dims));
    VN_TRY(vn_out_either(e, 0));
    const int bits = vn_dtype_bits(x->dtype);
    const bool sign = vn_dtype_kind(x->dtype) == VN_KIND_SIGNED;
    const double lo = sign ? -ldexp(1, bits - 1) : 0, hi = ldexp(1, sign ? bits - 1 : bits) - 1;
    for (int64_t i = 0; i < e->out[0].count; ++i) {
        const double v = fmin(fmax(r->v[i], lo), hi), near = rint(v), slack = fmax(r->e ? r->e[i] : 0, 0x1p-20 * (fabs(v) + 1));
        const bool edge = fabs(v - near) <= slack; /* a value that may fall below its integer */
        const double below = near > 0 ? fmax(near - 1, lo) : near < 0 ? fmin(near + 1, hi) : near;
        vn_tensor_set_i64(e->out[0].tensor, i, (int64_t)(edge ? near : trunc(v)));
        vn_tensor_set_i64(e->out[0].either, i, (int64_t)(edge ? below : near));
    }
    return VN_OK;
}

/* The same plan read with the real length scale * in, where that differs from the output's. */
static bool real_length(const vn_resize_plan_t *p, vn_resize_plan_t *other) {
    bool differs = false;
    *other = *p;
    other->whole_lengths = false;
    for (int d = 0; d < p->rank; ++d) differs |= p->axis[d].scale * (double)p->axis[d].in != (double)p->axis[d].out;
    return differs && (p->coordinates == VN_ALIGN_CORNERS || p->coordinates == VN_TF_CROP);
}

static vn_status_t reading_length(vn_eval_t *e, const vn_resize_plan_t *p) {
    vn_resize_plan_t other;
    planes_t r;
    vn_tensor_t *t;
    if (!real_length(p, &other)) return VN_OK;
    VN_TRY(passes(e, &other, false, false, &r));
    vn_status_t s = vn_tensor_new_raw(e->out[0].dtype, p->rank, p->dims, &t, e->err);
    if (s == VN_OK) {
        vn_tensor_from_f64(t, r.v, VN_RNE, false);
        s = vn_out_reading(e, 0, "real-length", t);
    }
    planes_free(&r);
    return s;
}

/* Nearest by another rule, as a reading of output 0. */
static vn_status_t reading_nearest(vn_eval_t *e, const vn_resize_plan_t *p, const char *name) {
    vn_ref_t second = {0}, first = e->out[0];
    e->out[0] = second;
    vn_status_t s = nearest(e, p);
    second = e->out[0];
    e->out[0] = first;
    if (s == VN_OK) s = vn_out_reading(e, 0, name, vn_tensor_retain(second.tensor));
    vn_ref_free(&second);
    return s;
}

static vn_status_t readings_nearest(vn_eval_t *e, const vn_resize_plan_t *p) {
    vn_resize_plan_t other;
    bool shrinks = false;
    if (real_length(p, &other)) VN_TRY(reading_nearest(e, &other, "real-length"));
    for (int d = 0; d < p->rank; ++d) shrinks |= p->axis[d].scale < 1;
    if (!p->simple || !shrinks) return VN_OK;
    other = *p;
    other.nearest = 4; /* ceil on the axes that shrink */
    return reading_nearest(e, &other, "ceil-when-shrinking");
}

vn_status_t vn_eval_resize(vn_eval_t *e) {
    vn_resize_plan_t p;
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_resize_planned(e, &p));
    if (p.mode == VN_RESIZE_NEAREST) {
        if (vn_arg_err(e, 0)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "nearest resize of uncertain values inside a region");
        VN_TRY(nearest(e, &p));
        return readings_nearest(e, &p);
    }
    if (e->refine) {
        VN_TRY(vn_out_float(e, 0, x->dtype, p.rank, p.dims));
        return vn_resize_refine(e, &p);
    }
    planes_t r;
    const bool bound = e->want >= VN_WANT_BOUND, variance = e->want >= VN_WANT_VARIANCE;
    VN_TRY(passes(e, &p, bound, variance, &r));
    vn_status_t s;
    if (!vn_dtype_is_float(x->dtype)) {
        s = integers(e, &p, &r);
    } else {
        s = vn_out_float(e, 0, x->dtype, p.rank, p.dims);
        vn_ref_t *o = &e->out[0];
        if (s == VN_OK) s = vn_out_own(e, 0);
        if (s == VN_OK) {
            memcpy(o->value, r.v, (size_t)o->count * sizeof(double));
            if (o->bound) memcpy(o->bound, r.e, (size_t)o->count * sizeof(double));
            if (o->var) memcpy(o->var, r.s, (size_t)o->count * sizeof(double));
            if (o->own) memcpy(o->own, r.o, (size_t)o->count * sizeof(double));
            for (int64_t i = 0; i < o->count; ++i)
                if (!isfinite(o->value[i]) && o->bound) o->bound[i] = 0;
            o->terms = p.mode == VN_RESIZE_CUBIC ? 16 : 4;
            s = reading_length(e, &p);
        }
    }
    planes_free(&r);
    return s;
}

static vn_status_t infer(vn_eval_t *e) {
    vn_resize_plan_t p;
    VN_TRY(vn_resize_planned(e, &p));
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = p.rank;
    memcpy(e->out[0].dims, p.dims, sizeof p.dims);
    return VN_OK;
}

enum { SHAPES = VN_OP_SHAPE_LIKE_1 | VN_OP_SHAPE_LIKE_2 | VN_OP_SHAPE_LIKE_3, P = VN_OP_PROPAGATES | VN_OP_REFINES };
static const vn_op_t rows[] = {
    {"", "Resize", 10, 10, VN_CLASS_COMPOSITE, VN_OP_SHAPE_LIKE_1 | P, "RESIZE-1", vn_eval_resize, infer, 0},
    {"", "Resize", 11, 12, VN_CLASS_COMPOSITE, SHAPES | P, "RESIZE-1", vn_eval_resize, infer, 0},
    {"", "Resize", 13, 17, VN_CLASS_COMPOSITE, SHAPES | P, "RESIZE-1", vn_eval_resize, infer, 0},
    {"", "Resize", 18, 0, VN_CLASS_COMPOSITE, SHAPES | P, "RESIZE-1", vn_eval_resize, infer, 0},
    {"", "Upsample", 7, 8, VN_CLASS_COMPOSITE, P, "RESIZE-1", vn_eval_resize, infer, 0},
    {"", "Upsample", 9, 9, VN_CLASS_COMPOSITE, VN_OP_SHAPE_LIKE_1 | P, "RESIZE-1", vn_eval_resize, infer, 0},
    {"", "GridSample", 16, 19, VN_CLASS_COMPOSITE, VN_OP_REFINES, "RESIZE-5", vn_eval_grid_sample, vn_infer_grid_sample, 0},
    {"", "GridSample", 20, 0, VN_CLASS_COMPOSITE, VN_OP_REFINES, "RESIZE-5", vn_eval_grid_sample, vn_infer_grid_sample, 0},
    {"", "AffineGrid", 20, 0, VN_CLASS_COMPOSITE, VN_OP_SHAPE_LIKE_1 | VN_OP_REFINES, "RESIZE-6", vn_eval_affine_grid, vn_infer_affine_grid,
     0},
};

const vn_family_t vn_family_resample = {"resample", rows, sizeof rows / sizeof *rows};
