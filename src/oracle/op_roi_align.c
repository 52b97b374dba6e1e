/* op_roi_align.c -- RoiAlign: the mean (or maximum) of bilinear samples on a grid inside each bin of a region.
 *
 * Region (x1,y1,x2,y2) scale - shift, shift = 1/2 under half_pixel; without the shift a region is at least 1 wide and high. A bin holds g by g
 * samples, g = sampling_ratio or ceil(size / bins), at (i + 1/2) / g of the bin. A sample more than one pixel outside the image is 0, else
 * its coordinates are clamped to the image.
 * Claim POOL-7: the coordinate is computed in the accumulator's format from the corners, |dc| <= 6u (|c| + |corner| + 1); a sample moves by at
 * most dc times the range of the values around it per axis, and its four products and their sum round within g(8) max|x|. Average:
 * mean of those + g(samples + 1) mean|sample|. Maximum: the largest of those; the operator's text takes the maximum of the four weighted
 * neighbours (second reading: of the interpolated samples). A sample within dc of the cut one pixel outside may be 0 or not; where rounding may change the
 * size of an adaptive grid nothing is said. Own error: the same with u = 2^-53.
 */
#include <math.h>
#include <string.h>

#include "oracle/pool.h"
#include "oracle/require.h"
#include "oracle/rows.h"
#include "oracle/tracked.h"

enum { IN_X, IN_ROIS, IN_BATCH };

static vn_status_t roi_dims(vn_eval_t *e, int64_t *dims) {
    VN_TRY(vn_require(e, 3));
    const vn_tensor_t *x = e->in[IN_X].t, *rois = e->in[IN_ROIS].t, *batch = e->in[IN_BATCH].t;
    if (x->rank != 4 || rois->rank != 2 || rois->dims[1] != 4 || batch->count != rois->dims[0])
        return vn_eval_fail(e, VN_ERR_SHAPE, "needs [N,C,H,W], rois [R,4] and R batch indices");
    dims[0] = rois->dims[0];
    dims[1] = x->dims[1];
    dims[2] = vn_node_int(e->node, "output_height", 1);
    dims[3] = vn_node_int(e->node, "output_width", 1);
    if (dims[2] < 1 || dims[3] < 1) return vn_eval_fail(e, VN_ERR_RANGE, "output of %lld by %lld", (long long)dims[2], (long long)dims[3]);
    return VN_OK;
}

vn_status_t vn_infer_roi_align(vn_eval_t *e) {
    VN_TRY(roi_dims(e, e->out[0].dims));
    e->out[0].dtype = e->in[IN_X].t->dtype;
    e->out[0].rank = 4;
    return VN_OK;
}

typedef struct axis {
    double start, per; /* of the region, of a bin */
    int64_t grid, size;
    bool open_grid; /* an adaptive grid whose size rounding may change */
    bool own_grid;  /* even rounding in f64 */
    double u;
} axis_t;

typedef struct spot {
    bool outside, near_cut, own_cut; /* the cut may fall on the other side, even in f64 */
    int64_t lo, hi;
    double fraction, moved;
} spot_t;

static spot_t spot_at(const axis_t *a, int64_t bin, int64_t i) {
    double c = a->start + (double)bin * a->per + ((double)i + 0.5) * a->per / (double)a->grid;
    spot_t s = {.moved = 6 * a->u * (fabs(c) + fabs(a->start) + 1)};
    const double top = (double)a->size;
    s.near_cut = fabs(c + 1) <= s.moved || fabs(c - top) <= s.moved;
    const double own = s.moved * (0x1p-53 / a->u);
    s.own_cut = fabs(c + 1) <= own || fabs(c - top) <= own;
    s.outside = c < -1 || c > top;
    if (c < 0) c = 0;
    if (c > top - 1) c = top - 1;
    s.lo = (int64_t)c;
    s.hi = s.lo + 1 < a->size ? s.lo + 1 : s.lo;
    s.fraction = c - (double)s.lo;
    return s;
}

typedef struct sample {
    double value, corner, err, own; /* interpolated, largest weighted neighbour, uncertainty of both, that of f64 */
} sample_t;

static sample_t sample_at(const double *plane, int64_t width, int64_t height, const spot_t *y, const spot_t *x, double u) {
    sample_t s = {0};
    const double wy[2] = {1 - y->fraction, y->fraction}, wx[2] = {1 - x->fraction, x->fraction};
    double lo = INFINITY, hi = -INFINITY;
    for (int64_t i = y->lo - 1; i <= y->hi + 1; ++i)
        for (int64_t j = x->lo - 1; j <= x->hi + 1; ++j) {
            if (i < 0 || j < 0 || i >= height || j >= width) continue;
            lo = fmin(lo, plane[i * width + j]);
            hi = fmax(hi, plane[i * width + j]);
        }
    const double top = fmax(fabs(lo), fabs(hi));
    const bool outside = y->outside || x->outside;
    s.corner = outside ? 0 : -INFINITY;
    for (int i = 0; !outside && i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const double v = wy[i] * wx[j] * plane[(i ? y->hi : y->lo) * width + (j ? x->hi : x->lo)];
            s.value += v;
            s.corner = fmax(s.corner, v);
        }
    if (!outside) s.err = (y->moved + x->moved) * (hi - lo) + vn_gamma(8, u) * top;
    s.own = y->own_cut || x->own_cut ? 2 * top : s.err * (0x1p-53 / u);
    if (y->near_cut || x->near_cut) s.err = fmax(s.err, 2 * top);
    return s;
}

/* The weighted neighbour w*x moves with w itself, not with differences of x. */
static double corner_error(double err, const spot_t *y, const spot_t *x, double top) { return err + (y->moved + x->moved) * top; }

typedef struct align_job {
    vn_eval_t *e;
    const double *x, *rois;
    int64_t dims[4];
    double scale, shift, u, eta;
    bool half_pixel, maximum;
    int64_t ratio;
    double *second;
} align_job_t;

static void axis_of(const align_job_t *j, double low, double high, int64_t bins, int64_t size, axis_t *a) {
    const double start = low * j->scale - j->shift;
    double length = high * j->scale - j->shift - start;
    if (!j->half_pixel && length < 1) length = 1;
    a->start = start;
    a->per = length / (double)bins;
    a->size = size;
    a->u = j->u;
    const double adaptive = length / (double)bins, off = fabs(adaptive - rint(adaptive));
    a->grid = j->ratio > 0 ? j->ratio : (int64_t)fmax(ceil(adaptive), 0);
    const double far = fabs(start) + fabs(start + length) + 1;
    a->open_grid = j->ratio == 0 && off > 0 && off <= 6 * j->u * far;
    a->own_grid = j->ratio == 0 && off <= 6 * 0x1p-53 * far;
}

static void align_range(void *ctx, int64_t begin, int64_t end) {
    align_job_t *j = ctx;
    const vn_tensor_t *x = j->e->in[IN_X].t;
    const int64_t height = x->dims[2], width = x->dims[3], cells = j->dims[2] * j->dims[3];
    vn_ref_t *r = &j->e->out[0];
    for (int64_t rc = begin; rc < end; ++rc) {
        const int64_t roi = rc / j->dims[1], ch = rc % j->dims[1];
        const double *box = j->rois + 4 * roi;
        const double *plane = j->x + (vn_arg_int(j->e, IN_BATCH, roi) * x->dims[1] + ch) * height * width;
        axis_t ax, ay;
        axis_of(j, box[0], box[2], j->dims[3], width, &ax);
        axis_of(j, box[1], box[3], j->dims[2], height, &ay);
        double top = 0;
        for (int64_t i = 0; i < height * width; ++i) top = fmax(top, fabs(plane[i]));
        for (int64_t c = 0; c < cells; ++c) {
            const int64_t at = rc * cells + c;
            double sum = 0, abs = 0, err = 0, own = 0, best = -INFINITY, corner = -INFINITY, worst = 0, own_worst = 0;
            for (int64_t gy = 0; gy < ay.grid; ++gy)
                for (int64_t gx = 0; gx < ax.grid; ++gx) {
                    const spot_t sy = spot_at(&ay, c / j->dims[3], gy), sx = spot_at(&ax, c % j->dims[3], gx);
                    const sample_t s = sample_at(plane, width, height, &sy, &sx, j->u);
                    sum += s.value;
                    abs += fabs(s.value) + s.err;
                    err += s.err;
                    own += s.own;
                    best = fmax(best, s.value);
                    corner = fmax(corner, s.corner);
                    worst = fmax(worst, corner_error(s.err, &sy, &sx, top));
                    own_worst = fmax(own_worst, s.own + (sy.moved + sx.moved) * (0x1p-53 / j->u) * top);
                }
            const double n = (double)(ay.grid * ax.grid), count = n > 0 ? n : 1;
            r->value[at] = j->maximum ? (n > 0 ? corner : 0) : sum / count;
            if (j->second) j->second[at] = n > 0 ? best : 0;
            if (!r->bound) continue;
            if (r->flags && (ax.open_grid || ay.open_grid)) r->flags[at] = VN_EL_VOID;
            const double b = j->maximum ? worst : (err + vn_gamma(n + 1, j->u) * abs) / count;
            r->bound[at] = isnan(b) ? INFINITY : b + (n + 4) * j->eta;
            if (r->var) r->var[at] = b * b / 12;
            if (!r->own) continue;
            const double o = j->maximum ? own_worst : (own + vn_gamma(n + 1, 0x1p-53) * abs) / count;
            r->own[at] = ax.own_grid || ay.own_grid || isnan(o) ? INFINITY : o * (1 + 0x1p-40);
        }
    }
}

/* ---- single elements in more digits (claim PREC-9) ---- */

typedef struct exact_axis {
    vn_tracked_t start, length;
    int64_t bins, grid, size;
} exact_axis_t;

/* False: the digits leave open how long the region is, or how fine its grid. */
static bool exact_axis_of(const align_job_t *j, double low, double high, int64_t bins, int64_t size, exact_axis_t *a) {
    const vn_tracked_t scale = vn_tk(j->scale);
    *a = (exact_axis_t){.start = vn_tk_sub(vn_tk_mul(vn_tk(low), scale), vn_tk(j->shift)),
                        .length = vn_tk_mul(vn_tk_sub(vn_tk(high), vn_tk(low)), scale),
                        .bins = bins,
                        .grid = j->ratio,
                        .size = size};
    if (!j->half_pixel) {
        if (vn_tk_below(a->length, 1)) a->length = vn_tk(1);
        else if (a->length.e > 0 && !vn_tk_above(a->length, 1)) return false;
    }
    if (j->ratio > 0) return true;
    vn_tracked_t rest;
    if (!vn_tk_floor((vn_tk_fraction_t){a->length, vn_tk((double)bins)}, &a->grid, &rest)) return false;
    a->grid += rest.v > 0;
    if (a->grid < 0) a->grid = 0;
    return true;
}

/* Weights are to be divided by bins * grid. */
typedef struct exact_spot {
    bool outside;
    int64_t at[2];
    vn_tracked_t w[2];
} exact_spot_t;

static bool exact_spot_at(const exact_axis_t *a, int64_t bin, int64_t i, exact_spot_t *s) {
    const vn_tracked_t steps = vn_tk((double)(bin * a->grid + i) + 0.5), of = vn_tk((double)a->bins * (double)a->grid);
    vn_tracked_t c = vn_tk_add(vn_tk_mul(a->start, of), vn_tk_mul(a->length, steps)); /* the coordinate is c / of */
    const vn_quad_t top = (vn_quad_t)a->size * of.v, last = top - of.v;
    s->outside = vn_tk_below(c, -of.v) || vn_tk_above(c, top);
    if (s->outside) return true;
    if (c.e > 0 && !(vn_tk_above(c, -of.v) && vn_tk_below(c, top))) return false;
    c = vn_tk_held(c, 0, last);
    if (!vn_tk_floor((vn_tk_fraction_t){c, of}, &s->at[0], &s->w[1])) return false;
    s->at[1] = s->at[0] + 1 < a->size ? s->at[0] + 1 : s->at[0];
    s->w[0] = vn_tk_sub(of, s->w[1]);
    return true;
}

static void element(void *ctx, int64_t at, vn_exact_t *out) {
    const align_job_t *j = ctx;
    const vn_tensor_t *x = j->e->in[IN_X].t;
    const int64_t height = x->dims[2], width = x->dims[3], bx = at % j->dims[3], by = at / j->dims[3] % j->dims[2],
                  rc = at / (j->dims[3] * j->dims[2]), roi = rc / j->dims[1], ch = rc % j->dims[1];
    const double *box = j->rois + 4 * roi, *plane = j->x + (vn_arg_int(j->e, IN_BATCH, roi) * x->dims[1] + ch) * height * width;
    exact_axis_t ax, ay;
    vn_tracked_t sum = vn_tk(0);
    vn_quad_t most = 0, above = 0, below = 0; /* the maximum lies between the largest ends, most - below and most + above */
    bool any = false;
    if (!exact_axis_of(j, box[0], box[2], j->dims[3], width, &ax) || !exact_axis_of(j, box[1], box[3], j->dims[2], height, &ay)) return;
    const double n = (double)ax.grid * (double)ay.grid;
    for (int64_t gy = 0; gy < ay.grid; ++gy)
        for (int64_t gx = 0; gx < ax.grid; ++gx) {
            exact_spot_t sy, sx;
            if (!exact_spot_at(&ay, by, gy, &sy) || !exact_spot_at(&ax, bx, gx, &sx)) return;
            for (int k = 0; k < 4; ++k) {
                const bool outside = sy.outside || sx.outside;
                const vn_tracked_t v =
                    outside ? vn_tk(0) : vn_tk_mul(vn_tk_mul(sy.w[k / 2], sx.w[k % 2]), vn_tk(plane[sy.at[k / 2] * width + sx.at[k % 2]]));
                sum = vn_tk_add(sum, v);
                const vn_quad_t step = !any || v.v > most ? v.v - most : 0, under = most + step - v.v;
                above = any && above - step > v.e - under ? above - step : v.e - under;
                below = any && below + step < v.e + under ? below + step : v.e + under;
                most += step;
                any = true;
            }
        }
    const double parts = (double)ax.bins * (double)ax.grid * ((double)ay.bins * (double)ay.grid);
    if (j->maximum && any) sum = (vn_tracked_t){most, above > below ? above : below};
    const vn_tracked_t y = n == 0 ? vn_tk(0) : vn_tk_div(sum, vn_tk(j->maximum ? parts : parts * n));
    if (vn_quad_finite(y.v)) *out = vn_tk_exact(y);
}

vn_status_t vn_eval_roi_align(vn_eval_t *e) {
    VN_TRY(vn_require(e, 3));
    const vn_tensor_t *x = e->in[IN_X].t;
    const char *fallback = e->version >= 16 ? "half_pixel" : "output_half_pixel"; /* version 10 had no shift */
    const char *mode = vn_node_string(e->node, "mode", "avg"),
               *transform = vn_node_string(e->node, "coordinate_transformation_mode", fallback);
    align_job_t j = {.e = e,
                     .scale = vn_node_float(e->node, "spatial_scale", 1),
                     .u = vn_u(e),
                     .eta = e->contract->ftz ? vn_tau(e) : vn_eta(e),
                     .half_pixel = strcmp(transform, "half_pixel") == 0,
                     .maximum = strcmp(mode, "max") == 0,
                     .ratio = vn_node_int(e->node, "sampling_ratio", 0)};
    if (!vn_dtype_is_float(x->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "no samples of %s", vn_dtype_name(x->dtype));
    if (!j.half_pixel && strcmp(transform, "output_half_pixel"))
        return vn_eval_fail(e, VN_ERR_USAGE, "coordinate_transformation_mode \"%s\"", transform);
    if (!j.maximum && strcmp(mode, "avg")) return vn_eval_fail(e, VN_ERR_USAGE, "mode \"%s\"", mode);
    if (j.ratio < 0 || j.ratio > 1 << 15) return vn_eval_fail(e, VN_ERR_RANGE, "sampling_ratio %lld", (long long)j.ratio);
    j.shift = j.half_pixel ? 0.5 : 0;
    VN_TRY(roi_dims(e, j.dims));
    VN_TRY(vn_out_float(e, 0, x->dtype, 4, j.dims));
    j.x = vn_arg_f64(e, IN_X);
    j.rois = vn_arg_f64(e, IN_ROIS);
    if (!j.x || !j.rois) return VN_ERR_NOMEM;
    for (int64_t r = 0; r < j.dims[0]; ++r) {
        const int64_t b = vn_arg_int(e, IN_BATCH, r);
        if (b < 0 || b >= x->dims[0]) return vn_eval_fail(e, VN_ERR_RANGE, "roi %lld names image %lld", (long long)r, (long long)b);
        for (int i = 0; i < 4; ++i)
            if (!(fabs(j.rois[4 * r + i] * j.scale) < 0x1p24))
                return vn_eval_fail(e, VN_ERR_RANGE, "roi %lld has the coordinate %g", (long long)r, j.rois[4 * r + i]);
    }
    if (x->dims[2] < 1 || x->dims[3] < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "an empty image");
    if (e->refine) {
        vn_refine_each(e, element, &j);
        return VN_OK;
    }
    if (e->want >= VN_WANT_BOUND) VN_TRY(vn_out_own(e, 0));
    if (j.ratio == 0 && e->want >= VN_WANT_BOUND) VN_TRY(vn_out_flags(e, 0));
    vn_tensor_t *reading = NULL;
    if (j.maximum && e->out[0].count) {
        j.second = vn_alloc((size_t)e->out[0].count, sizeof *j.second);
        if (!j.second) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        vn_status_t s = vn_tensor_new(x->dtype, 4, j.dims, &reading, e->err);
        if (s != VN_OK) {
            vn_free(j.second);
            return s;
        }
    }
    vn_parallel(j.dims[0] * j.dims[1], 1, align_range, &j);
    if (j.second) vn_tensor_from_f64(reading, j.second, VN_RNE, false);
    vn_free(j.second);
    vn_flags_settle(e, 0);
    return reading ? vn_out_reading(e, 0, "maximum-of-samples", reading) : VN_OK;
}
