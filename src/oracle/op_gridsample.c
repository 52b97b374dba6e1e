/* op_gridsample.c -- GridSample 16, 20, 22 for any number of spatial axes up to four.
 *
 * Claim RESIZE-5. Source coordinate c = ((g + 1) size - 1)/2, or (g + 1)/2 (size - 1); evaluated in f32: |dc| <= 3 u (|c| + 1) + u size.
 * Then RESIZE-1 or RESIZE-2 along each axis, innermost first. Reflection folds the coordinate: the fold moves no error but its own rounding,
 * one more u (|c| + size). Nearest: to even; within dc of a tie `either` is the other neighbour (several axes at once: void).
 * Padding: taps outside are zero (zeros), the nearest sample (border), or mirrored (reflection).
 * Coordinates that are not numbers: an infinite one lies outside, so zeros give 0 and border the border's value; a kernel that computes with
 * it gets NaN, which is explainable. NaN, and the reflection of infinity, name no place: the element is free.
 * Readings, cubic with border: "border-clamps-point" clamps the point to [0, size-1] before its fraction is taken; "border-outside-clamped"
 * does so only for points beyond the half-pixel border. The value clamps each tap.
 */
#include <math.h>
#include <string.h>

#include "oracle/resample.h"

enum { MAX_AXES = 4, NEAREST = 0, LINEAR, CUBIC, ZEROS = 0, BORDER, REFLECTION };
typedef enum clamp_reading { CLAMP_TAPS, CLAMP_POINT, CLAMP_OUTSIDE } clamp_reading_t;

typedef struct grid_job {
    vn_eval_t *e;
    const double *x, *grid;
    int axes, mode, padding;
    bool corners, is_float;
    int64_t batch, channels, in[MAX_AXES], step[MAX_AXES], cells, points;
    double u_coordinate;
    vn_resample_rule_t rule;
    clamp_reading_t reading;
    double *value;
    int ties; /* atomic */
} grid_job_t;

typedef struct place {
    double c, dc;
} place_t;

static double fold(double c, double lo, double hi) { /* mirror at lo and hi until inside */
    const double range = hi - lo;
    if (range <= 0) return lo;
    double d = fmod(fabs(c - lo), 2 * range);
    return d > range ? hi - (d - range) : lo + d;
}

static int64_t tap(const grid_job_t *j, int axis, double k) {
    const double n = (double)j->in[axis];
    if (k >= 0 && k < n) return (int64_t)k;
    if (j->padding == ZEROS || !isfinite(k)) return -1;
    if (j->padding == BORDER) return k < 0 ? 0 : j->in[axis] - 1;
    const double lo = j->corners ? 0 : -0.5, hi = j->corners ? n - 1 : n - 0.5;
    return (int64_t)fmin(fmax(rint(fold(k, lo, hi)), 0), n - 1);
}

static place_t locate(const grid_job_t *j, int axis, double g) {
    const double n = (double)j->in[axis], c = j->corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2, u = j->u_coordinate;
    place_t p = {.c = c, .dc = 3 * u * (fabs(c) + 1) + u * n};
    if (j->padding == BORDER && j->mode != NEAREST) {
        const double lo = -0.5, hi = n - 0.5;
        const bool outside = c < lo || c > hi;
        if (j->mode == LINEAR || j->reading == CLAMP_POINT || (j->reading == CLAMP_OUTSIDE && outside)) p.c = fmin(fmax(c, 0), n - 1);
    }
    if (j->padding == REFLECTION && isfinite(c)) {
        const double lo = j->corners ? 0 : -0.5, hi = j->corners ? n - 1 : n - 0.5;
        if (c < lo || c > hi) {
            p.c = fold(c, lo, hi);
            p.dc += u * (fabs(c) + n);
        }
    }
    return p;
}

/* Interpolates over axes axis..axes-1 at an offset into the channel's plane; outside: the whole slice is padding zeros. */
static vn_sample_t inside(const grid_job_t *j, const double *plane, int axis, const place_t *at, int64_t offset, bool zero) {
    if (axis == j->axes) return (vn_sample_t){.v = zero ? 0 : plane[offset]};
    const int n = j->mode == CUBIC ? VN_CUBIC_WINDOW : VN_LINEAR_WINDOW, before = n / 2 - 1;
    const double whole = floor(at[axis].c);
    vn_sample_t window[VN_CUBIC_WINDOW];
    for (int q = 0; q < n; ++q) {
        const int64_t k = tap(j, axis, whole + q - before);
        window[q] = zero || k < 0 ? (vn_sample_t){0} : inside(j, plane, axis + 1, at, offset + k * j->step[axis], false);
    }
    const double f = at[axis].c - whole;
    return j->mode == CUBIC ? vn_sample_cubic(&j->rule, f, at[axis].dc, window) : vn_sample_linear(&j->rule, f, at[axis].dc, window);
}

static void put(const grid_job_t *j, int64_t i, vn_sample_t y) {
    if (j->value) {
        j->value[i] = y.v;
        return;
    }
    vn_ref_t *r = &j->e->out[0];
    r->value[i] = y.v;
    if (r->bound) r->bound[i] = isfinite(y.v) ? (isnan(y.e) ? INFINITY : y.e) : 0;
    if (r->var) r->var[i] = isfinite(y.s) ? y.s : 0;
    if (r->own) r->own[i] = isfinite(y.v) ? (isnan(y.o) ? INFINITY : y.o) : 0;
}

static double pick(const grid_job_t *j, const double *plane, const double *k) {
    int64_t at = 0;
    for (int a = 0; a < j->axes; ++a) {
        const int64_t t = tap(j, a, k[a]);
        if (t < 0) return 0;
        at += t * j->step[a];
    }
    return plane[at];
}

static void nearest_point(grid_job_t *j, int64_t b, int64_t point, const double *g) {
    double main[MAX_AXES], other[MAX_AXES];
    int ties = 0;
    for (int a = 0; a < j->axes; ++a) {
        const place_t p = locate(j, a, g[j->axes - 1 - a]);
        const double k = rint(p.c), lo = rint(p.c - p.dc), hi = rint(p.c + p.dc);
        main[a] = k;
        other[a] = lo != k ? lo : hi;
        ties += other[a] != k;
    }
    vn_ref_t *r = &j->e->out[0];
    for (int64_t c = 0; c < j->channels; ++c) {
        const double *plane = j->x + (b * j->channels + c) * j->cells;
        const int64_t i = (b * j->channels + c) * j->points + point;
        const double v = pick(j, plane, main), w = ties ? pick(j, plane, other) : v;
        r->value[i] = v;
        if (r->own) r->own[i] = w; /* carries the alternative until the tensor is made */
        if (ties > 1 && r->flags) r->flags[i] |= VN_EL_VOID;
        if (ties) __atomic_store_n(&j->ties, 1, __ATOMIC_RELAXED);
    }
}

/* Every channel of a point: the same value, exact, under the same flag. */
static void put_all(const grid_job_t *j, int64_t b, int64_t point, double value, int flag) {
    vn_ref_t *r = &j->e->out[0];
    for (int64_t c = 0; c < j->channels; ++c) {
        const int64_t i = (b * j->channels + c) * j->points + point;
        put(j, i, (vn_sample_t){.v = value});
        if (j->mode == NEAREST && r->own) r->own[i] = value;
        if (r->flags) r->flags[i] = (uint8_t)flag;
    }
}

/* Coordinates of which some are not finite. True: the point is done. Else `near` holds coordinates outside in place of infinite ones. */
static bool far_point(const grid_job_t *j, int64_t b, int64_t point, const double *g, double *near) {
    bool nan = false;
    for (int a = 0; a < j->axes; ++a) {
        nan |= isnan(g[a]);
        near[a] = isinf(g[a]) ? copysign(3, g[a]) : g[a]; /* beyond [-1, 1] by more than half a cell of any axis */
    }
    if (nan || j->padding == REFLECTION) put_all(j, b, point, j->is_float ? NAN : 0, VN_EL_VOID);
    else if (j->padding == ZEROS) put_all(j, b, point, 0, VN_EL_NAN_OK);
    else return false;
    return true;
}

static bool all_finite(const double *g, int64_t n) {
    for (int64_t k = 0; k < n; ++k)
        if (!isfinite(g[k])) return false;
    return true;
}

static void points_range(void *ctx, int64_t begin, int64_t end) {
    grid_job_t *j = ctx;
    for (int64_t t = begin; t < end; ++t) {
        const int64_t b = t / j->points, point = t % j->points;
        const double *g = j->grid + t * j->axes;
        double near[MAX_AXES];
        if (!all_finite(g, j->axes)) {
            if (far_point(j, b, point, g, near)) continue;
            g = near;
            for (int64_t c = 0; c < j->channels && j->e->out[0].flags; ++c)
                j->e->out[0].flags[(b * j->channels + c) * j->points + point] = VN_EL_NAN_OK;
        }
        if (j->mode == NEAREST) {
            nearest_point(j, b, point, g);
            continue;
        }
        place_t at[MAX_AXES];
        for (int a = 0; a < j->axes; ++a) at[a] = locate(j, a, g[j->axes - 1 - a]); /* the grid lists the innermost axis first */
        bool finite = true;
        for (int a = 0; a < j->axes; ++a) finite &= isfinite(at[a].c);
        for (int64_t c = 0; c < j->channels; ++c) {
            const vn_sample_t y = finite ? inside(j, j->x + (b * j->channels + c) * j->cells, 0, at, 0, false) : (vn_sample_t){.v = NAN};
            put(j, (b * j->channels + c) * j->points + point, y);
        }
    }
}

/* ---- single elements in more digits (claim PREC-9) ---- */

/* Mirrored at lo and hi. The map is continuous: an error on the wrong side of a mirror counts twice at most. */
static vn_tracked_t folded(vn_tracked_t c, double lo, double hi) {
    const double range = hi - lo;
    if (range <= 0) return vn_tk(lo);
    vn_tracked_t d = vn_tk_sub(c, vn_tk(lo));
    if (d.v < 0) d.v = -d.v;
    const vn_quad_t turns = d.v / (2 * range);
    if (turns < 0x1p62) d = vn_tk_sub(d, vn_tk((vn_quad_t)(int64_t)turns * (2 * range)));
    else d.e = (vn_quad_t)INFINITY;
    d.e *= 2;
    return d.v > range ? vn_tk_sub(vn_tk(hi + range), d) : vn_tk_add(vn_tk(lo), d);
}

static vn_tracked_t located(const grid_job_t *j, int axis, double g) {
    const double n = (double)j->in[axis], lo = j->corners ? 0 : -0.5, hi = j->corners ? n - 1 : n - 0.5;
    const vn_tracked_t half = vn_tk((vn_quad_t)0.5), moved = vn_tk_add(vn_tk(g), vn_tk(1));
    const vn_tracked_t c = vn_tk_mul(half, j->corners ? vn_tk_mul(moved, vn_tk(n - 1)) : vn_tk_sub(vn_tk_mul(moved, vn_tk(n)), vn_tk(1)));
    if (j->padding == BORDER && j->mode == LINEAR) return vn_tk_held(c, 0, n - 1);
    if (j->padding == REFLECTION && (c.v < lo || c.v > hi)) return folded(c, lo, hi);
    return c;
}

/* Of one axis: what its output coordinate reads. */
typedef struct weights {
    int n;
    int64_t at[4]; /* -1: padding zeros */
    vn_tracked_t w[4];
} weights_t; /* over 1: coordinates have few digits, nothing is divided */

static vn_tracked_t nested(const grid_job_t *j, const double *plane, const weights_t *w, int axis, int64_t offset) {
    if (axis == j->axes) return vn_tk(plane[offset]);
    vn_tracked_t sum = vn_tk(0);
    for (int k = 0; k < w[axis].n; ++k)
        if (w[axis].at[k] >= 0 && !(w[axis].w[k].v == 0 && w[axis].w[k].e == 0))
            sum = vn_tk_add(sum, vn_tk_mul(w[axis].w[k], nested(j, plane, w, axis + 1, offset + w[axis].at[k] * j->step[axis])));
    return sum;
}

static void element(void *ctx, int64_t i, vn_exact_t *out) {
    const grid_job_t *j = ctx;
    const int64_t channel = i / j->points;
    const double *g = j->grid + (channel / j->channels * j->points + i % j->points) * j->axes;
    weights_t w[MAX_AXES];
    if (!all_finite(g, j->axes)) return; /* no place: left open */
    for (int a = 0; a < j->axes; ++a) {
        const vn_tracked_t c = located(j, a, g[j->axes - 1 - a]), one = vn_tk(1);
        vn_tracked_t f, total;
        int64_t k;
        if (!vn_quad_finite(c.e) || !vn_tk_floor((vn_tk_fraction_t){c, one}, &k, &f)) return;
        w[a].n = vn_tk_weights(j->mode == CUBIC, j->rule.a, f, one, w[a].w, &total);
        for (int q = 0; q < w[a].n; ++q) w[a].at[q] = tap(j, a, (double)(k + q - (j->mode == CUBIC ? 1 : 0)));
    }
    const vn_tracked_t y = nested(j, j->x + channel * j->cells, w, 0, 0);
    if (vn_quad_finite(y.v)) *out = vn_tk_exact(y);
}

static vn_status_t border_readings(vn_eval_t *e, grid_job_t *j) {
    static const char *const names[] = {NULL, "border-clamps-point", "border-outside-clamped"};
    const vn_ref_t *r = &e->out[0];
    for (int k = CLAMP_POINT; k <= CLAMP_OUTSIDE; ++k) {
        vn_tensor_t *t = NULL;
        double *y = vn_alloc((size_t)r->count + 1, sizeof *y);
        if (!y) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        j->reading = (clamp_reading_t)k;
        j->value = y;
        points_range(j, 0, j->batch * j->points);
        vn_status_t s = vn_tensor_new_raw(r->dtype, r->rank, r->dims, &t, e->err);
        if (s == VN_OK) {
            vn_tensor_from_f64(t, y, VN_RNE, false);
            s = vn_out_reading(e, 0, names[k], t);
        }
        vn_free(y);
        VN_TRY(s);
    }
    j->reading = CLAMP_TAPS;
    j->value = NULL;
    return VN_OK;
}

/* Integer tensors: the interpolated value is cut; its rounding is the other choice. */
static vn_status_t to_integers(vn_eval_t *e, vn_dtype_t type) {
    vn_ref_t *r = &e->out[0];
    vn_tensor_t *t, *other;
    VN_TRY(vn_tensor_new(type, r->rank, r->dims, &t, e->err));
    vn_status_t s = vn_tensor_new(type, r->rank, r->dims, &other, e->err);
    if (s != VN_OK) {
        vn_tensor_free(t);
        return s;
    }
    for (int64_t i = 0; i < r->count; ++i) {
        const double v = r->value[i], near = rint(v);
        vn_tensor_set_i64(t, i, (int64_t)(fabs(v - near) < 0x1p-20 * (fabs(v) + 1) ? near : trunc(v)));
        vn_tensor_set_i64(other, i, (int64_t)near);
    }
    s = vn_out_tensor(e, 0, t);
    e->out[0].either = other;
    return s;
}

static vn_status_t finish_nearest(vn_eval_t *e, const grid_job_t *j) {
    vn_ref_t *r = &e->out[0];
    if (j->ties && r->own) {
        VN_TRY(vn_out_either(e, 0));
        vn_tensor_from_f64(r->either, r->own, VN_RNE, false);
    }
    vn_free(r->own);
    r->own = NULL;
    vn_flags_settle(e, 0);
    vn_out_rounded(e, 0);
    return VN_OK;
}

vn_status_t vn_eval_grid_sample(vn_eval_t *e) {
    static const char *const pads[] = {"zeros", "border", "reflection"};
    const vn_tensor_t *x = e->in[0].t, *g = e->in[1].t;
    const char *mode = vn_node_string(e->node, "mode", "linear"), *pad = vn_node_string(e->node, "padding_mode", "zeros");
    grid_job_t j = {.e = e,
                    .axes = x->rank - 2,
                    .mode = -1,
                    .padding = -1,
                    .corners = vn_node_int(e->node, "align_corners", 0) != 0,
                    .u_coordinate = fmax(0x1p-24, vn_u(e)),
                    .rule = {.u = vn_u(e), .eta = vn_eta(e), .a = -0.75, .u_coordinate = fmax(0x1p-24, vn_u(e))}};
    if (strcmp(mode, "nearest") == 0) j.mode = NEAREST;
    if (strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0) j.mode = LINEAR;
    if (strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0) j.mode = CUBIC;
    for (int k = 0; k < 3; ++k)
        if (strcmp(pad, pads[k]) == 0) j.padding = k;
    if (j.mode < 0 || j.padding < 0) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "mode '%s' with padding '%s'", mode, pad);
    if (j.axes < 1 || j.axes > MAX_AXES || g->rank != x->rank || g->dims[g->rank - 1] != j.axes || g->dims[0] != x->dims[0])
        return vn_eval_fail(e, VN_ERR_SHAPE, "X [N, C, %d spatial axes] and grid [N, ..., %d] do not fit", j.axes, j.axes);
    int64_t dims[VN_MAX_RANK] = {x->dims[0], x->dims[1]};
    j.batch = x->dims[0];
    j.channels = x->dims[1];
    j.cells = j.points = 1;
    for (int a = j.axes - 1; a >= 0; --a) {
        j.in[a] = x->dims[2 + a];
        j.step[a] = j.cells;
        j.cells *= j.in[a];
    }
    for (int a = 0; a < j.axes; ++a) j.points *= dims[2 + a] = g->dims[1 + a];
    if (j.cells == 0 && j.points > 0) return vn_eval_fail(e, VN_ERR_SHAPE, "X has no cells to sample");
    j.x = vn_arg_f64(e, 0);
    j.grid = vn_arg_f64(e, 1);
    if (!j.x || !j.grid) return VN_ERR_NOMEM;
    const vn_dtype_t type = x->dtype;
    VN_TRY(vn_out_float(e, 0, vn_dtype_is_float(type) ? type : VN_F64, x->rank, dims));
    j.is_float = vn_dtype_is_float(type);
    if (e->refine) {
        if (j.mode != NEAREST) vn_refine_each(e, element, &j);
        return VN_OK;
    }
    if (j.mode == NEAREST || (e->want >= VN_WANT_BOUND && j.is_float)) VN_TRY(vn_out_own(e, 0));
    if (j.mode == NEAREST || !all_finite(j.grid, g->count)) VN_TRY(vn_out_flags(e, 0));
    e->out[0].terms = j.mode == CUBIC ? 16 : 4;
    vn_parallel(j.batch * j.points, 128, points_range, &j);
    if (!vn_dtype_is_float(type)) return to_integers(e, type);
    if (j.mode == NEAREST) return finish_nearest(e, &j);
    return j.mode == CUBIC && j.padding == BORDER ? border_readings(e, &j) : VN_OK;
}

vn_status_t vn_infer_grid_sample(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t, *g = e->in[1].t;
    if (x->rank < 3 || g->rank != x->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "X and grid do not fit");
    int64_t dims[VN_MAX_RANK] = {x->dims[0], x->dims[1]};
    for (int a = 2; a < x->rank; ++a) dims[a] = g->dims[a - 1];
    vn_infer_put(e, 0, x->dtype, x->rank, dims);
    return VN_OK;
}
