/* resize_plan.c -- Resize and Upsample: attributes, scales, sizes and the map from output index to source coordinate.
 *
 * Claim RESIZE-4. Coordinates are evaluated in f32 (the type of scales); three roundings give |dc| <= 3 u (|c| + 1), crop regions
 * 4 u (|start| + |offset| + 1). A scale that is a power of two makes every step exact (indices below 2^22): dc = 0, ties bind.
 * Claim RESIZE-8. In 113 bits the coordinate is that of the scale given, or of the exact quotient of the lengths where sizes are given (PREC-9).
 */
#include <math.h>
#include <string.h>

#include "oracle/resample.h"

static int word(const char *text, const char *const *words, int n) {
    for (int i = 0; i < n; ++i)
        if (strcmp(text, words[i]) == 0) return i;
    return -1;
}

static vn_status_t modes(vn_eval_t *e, vn_resize_plan_t *p) {
    static const char *const mode_names[] = {"nearest", "linear", "cubic"};
    static const char *const nearest_names[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const coordinate_names[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                                   "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"};
    const vn_node_t *n = e->node;
    const char *mode = vn_node_string(n, "mode", "nearest");
    const bool old = strcmp(n->op, "Upsample") == 0 || e->version < 11;
    const int m = word(strcmp(mode, "bilinear") == 0 ? "linear" : mode, mode_names, 3);
    if (m < 0) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "mode '%s'", mode);
    p->mode = (vn_resize_mode_t)m;
    p->simple = old;
    p->whole_lengths = true;
    p->nearest = old ? 2 : word(vn_node_string(n, "nearest_mode", "round_prefer_floor"), nearest_names, 4);
    const int c = old ? (int)VN_ASYMMETRIC : word(vn_node_string(n, "coordinate_transformation_mode", "half_pixel"), coordinate_names, 7);
    if (p->nearest < 0 || c < 0)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "nearest_mode or coordinate_transformation_mode is not one of the standard");
    p->coordinates = (vn_coordinates_t)c;
    p->exclude = vn_node_int(n, "exclude_outside", 0) != 0 && p->mode != VN_RESIZE_NEAREST;
    p->antialias = vn_node_int(n, "antialias", 0) != 0 && p->mode != VN_RESIZE_NEAREST;
    p->a = vn_node_float(n, "cubic_coeff_a", -0.75);
    p->extrapolation = vn_node_float(n, "extrapolation_value", 0);
    p->u_coordinate = fmax(0x1p-24, vn_u(e));
    return VN_OK;
}

/* Axes that roi, scales and sizes speak of. */
static vn_status_t chosen(vn_eval_t *e, int rank, int *axes, int *n) {
    int64_t count = 0;
    const int64_t *given = vn_node_ints(e->node, "axes", &count);
    if (!given) {
        for (int d = 0; d < rank; ++d) axes[d] = d;
        *n = rank;
        return VN_OK;
    }
    if (count > rank) return vn_eval_fail(e, VN_ERR_RANGE, "%lld axes of a tensor of rank %d", (long long)count, rank);
    for (int64_t i = 0; i < count; ++i) VN_TRY(vn_eval_axis(e, given[i], rank, &axes[i]));
    *n = (int)count;
    return VN_OK;
}

static vn_status_t from_scales(vn_eval_t *e, vn_resize_plan_t *p, const int *axes, int n, const double *scales) {
    for (int i = 0; i < n; ++i) {
        vn_resize_axis_t *a = &p->axis[axes[i]];
        if (!(scales[i] > 0) || !isfinite(scales[i])) return vn_eval_fail(e, VN_ERR_RANGE, "scale %g", scales[i]);
        a->scale = a->num = scales[i];
        const double part = p->coordinates == VN_TF_CROP ? a->end - a->start : 1;
        /* the product is formed in f32 by the standard's shape inference */
        const double out = floor((double)((float)((double)a->in * part) * (float)scales[i]));
        if (!(out >= 0 && out < 0x1p40)) return vn_eval_fail(e, VN_ERR_RANGE, "an output of %g elements along axis %d", out, axes[i]);
        a->out = (int64_t)out;
    }
    return VN_OK;
}

static vn_status_t from_sizes(vn_eval_t *e, vn_resize_plan_t *p, const int *axes, int n, const int64_t *sizes) {
    const char *policy = e->version >= 18 ? vn_node_string(e->node, "keep_aspect_ratio_policy", "stretch") : "stretch";
    const bool stretch = strcmp(policy, "stretch") == 0, larger = strcmp(policy, "not_smaller") == 0;
    if (!stretch && !larger && strcmp(policy, "not_larger"))
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "keep_aspect_ratio_policy '%s'", policy);
    double common = larger ? 0 : INFINITY;
    int of = 0; /* the axis that decides */
    for (int i = 0; i < n; ++i) {
        if (sizes[i] < 0 || sizes[i] > INT64_C(1) << 40) return vn_eval_fail(e, VN_ERR_RANGE, "size %lld", (long long)sizes[i]);
        const double s = (double)sizes[i] / (double)p->axis[axes[i]].in;
        if (larger ? s > common : s < common) {
            common = s;
            of = i;
        }
    }
    for (int i = 0; i < n; ++i) {
        vn_resize_axis_t *a = &p->axis[axes[i]];
        a->scale = stretch ? (double)sizes[i] / (double)a->in : common;
        a->num = (double)sizes[stretch ? i : of];
        a->den = (double)p->axis[axes[stretch ? i : of]].in;
        a->out = stretch ? sizes[i] : (int64_t)floor(common * (double)a->in + 0.5);
    }
    return VN_OK;
}

static vn_status_t read_doubles(vn_eval_t *e, int k, double *out, int n) {
    const vn_tensor_t *t = e->in[k].t;
    if (!t->data) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "input %d decides the shape and is not known", k);
    if (t->count != n) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has %lld entries, %d are needed", k, (long long)t->count, n);
    for (int i = 0; i < n; ++i) out[i] = vn_tensor_get_f64(t, i);
    return VN_OK;
}

static vn_status_t sizes_of(vn_eval_t *e, vn_resize_plan_t *p, const int *axes, int n) {
    double scales[VN_MAX_RANK];
    if (strcmp(e->node->op, "Upsample") == 0 && e->version < 9) {
        int64_t count = 0;
        const float *given = vn_node_floats(e->node, "scales", &count);
        if (count != n) return vn_eval_fail(e, VN_ERR_SHAPE, "%lld scales for rank %d", (long long)count, n);
        for (int i = 0; i < n; ++i) scales[i] = given[i];
        return from_scales(e, p, axes, n, scales);
    }
    const bool old = strcmp(e->node->op, "Upsample") == 0 || e->version < 11;
    const int k_scales = old ? 1 : 2, k_sizes = 3;
    if (!old && vn_has(e, 1) && e->in[1].t->count > 0) {
        double roi[2 * VN_MAX_RANK];
        VN_TRY(read_doubles(e, 1, roi, 2 * n));
        for (int i = 0; i < n; ++i) {
            p->axis[axes[i]].start = roi[i];
            p->axis[axes[i]].end = roi[n + i];
        }
    } else if (p->coordinates == VN_TF_CROP) {
        return vn_eval_fail(e, VN_ERR_SHAPE, "tf_crop_and_resize needs roi");
    }
    if (!old && vn_has(e, k_sizes) && e->in[k_sizes].t->count > 0) {
        int64_t sizes[VN_MAX_RANK];
        int count;
        VN_TRY(vn_arg_ints(e, k_sizes, sizes, VN_MAX_RANK, &count));
        if (count != n) return vn_eval_fail(e, VN_ERR_SHAPE, "%d sizes for %d axes", count, n);
        return from_sizes(e, p, axes, n, sizes);
    }
    if (!vn_has(e, k_scales)) return vn_eval_fail(e, VN_ERR_SHAPE, "neither scales nor sizes are given");
    VN_TRY(read_doubles(e, k_scales, scales, n));
    return from_scales(e, p, axes, n, scales);
}

vn_status_t vn_resize_planned(vn_eval_t *e, vn_resize_plan_t *p) {
    const vn_tensor_t *x = e->in[0].t;
    *p = (vn_resize_plan_t){.rank = x->rank};
    int axes[VN_MAX_RANK], n = 0;
    VN_TRY(modes(e, p));
    VN_TRY(chosen(e, x->rank, axes, &n));
    for (int d = 0; d < x->rank; ++d)
        p->axis[d] = (vn_resize_axis_t){.in = x->dims[d], .out = x->dims[d], .scale = 1, .num = 1, .den = 1, .end = 1};
    VN_TRY(sizes_of(e, p, axes, n));
    for (int d = 0; d < x->rank; ++d) {
        vn_resize_axis_t *a = &p->axis[d];
        p->dims[d] = a->out;
        a->identity = a->in == a->out && a->scale == 1 && (p->coordinates != VN_TF_CROP || (a->start == 0 && a->end == 1)) &&
                      p->coordinates != VN_TF_HALF_PIXEL;
        if (a->out > 0 && a->in < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "axis %d is empty", d);
    }
    return VN_OK;
}

static bool power_of_two(double x) {
    int e;
    return frexp(x, &e) == 0.5;
}

double vn_resize_coordinate(const vn_resize_plan_t *p, const vn_resize_axis_t *a, int64_t i, double *dc) {
    const double x = (double)i, s = a->scale, in = (double)a->in, u = p->u_coordinate;
    const double length = p->whole_lengths ? (double)a->out : s * in; /* of the resized axis */
    bool exact = power_of_two(s) && in < 0x1p20 && (double)a->out < 0x1p20;
    double c = 0;
    switch (p->coordinates) {
    case VN_HALF_PIXEL: c = (x + 0.5) / s - 0.5; break;
    case VN_HALF_PIXEL_SYMMETRIC:
        c = in / 2 * (1 - (double)a->out / (s * in)) + (x + 0.5) / s - 0.5;
        exact = exact && (double)a->out == s * in;
        break;
    case VN_PYTORCH_HALF_PIXEL: c = a->out > 1 ? (x + 0.5) / s - 0.5 : 0; break;
    case VN_ALIGN_CORNERS:
        c = length == 1 ? 0 : x * (in - 1) / (length - 1);
        exact = length == 1 || in == 1 || (length > 1 && power_of_two((in - 1) / (length - 1)));
        break;
    case VN_ASYMMETRIC: c = x / s; break;
    case VN_TF_HALF_PIXEL: c = (x + 0.5) / s; break;
    case VN_TF_CROP: {
        const double start = a->start * (in - 1), offset = length > 1 ? x * (a->end - a->start) * (in - 1) / (length - 1) : 0;
        c = length > 1 ? start + offset : 0.5 * (a->start + a->end) * (in - 1);
        *dc = 4 * u * (fabs(start) + fabs(offset) + 1);
        return c;
    }
    }
    *dc = exact ? 0 : 3 * u * (fabs(c) + 1);
    return c;
}

vn_tk_fraction_t vn_resize_exact(const vn_resize_plan_t *p, const vn_resize_axis_t *a, int64_t i) {
    const vn_tracked_t num = vn_tk(a->num), den = vn_tk(a->den), last = vn_tk((double)(a->in - 1)), one = vn_tk(1), two = vn_tk(2);
    const vn_tracked_t n2 = vn_tk_mul(two, num), center = vn_tk_mul(vn_tk(2 * (double)i + 1), den); /* (i + 1/2) / scale = center / n2 */
    switch (p->coordinates) {
    case VN_HALF_PIXEL: return (vn_tk_fraction_t){vn_tk_sub(center, num), n2};
    case VN_HALF_PIXEL_SYMMETRIC: { /* in/2 - out/(2 scale) is added */
        const vn_tracked_t more = vn_tk_sub(vn_tk_mul(vn_tk((double)a->in), num), vn_tk_mul(vn_tk((double)a->out), den));
        return (vn_tk_fraction_t){vn_tk_sub(vn_tk_add(more, center), num), n2};
    }
    case VN_PYTORCH_HALF_PIXEL: return a->out > 1 ? (vn_tk_fraction_t){vn_tk_sub(center, num), n2} : (vn_tk_fraction_t){vn_tk(0), one};
    case VN_ALIGN_CORNERS:
        if (a->out == 1) return (vn_tk_fraction_t){vn_tk(0), one};
        return (vn_tk_fraction_t){vn_tk_mul(vn_tk((double)i), last), vn_tk((double)(a->out - 1))};
    case VN_ASYMMETRIC: return (vn_tk_fraction_t){vn_tk_mul(vn_tk((double)i), den), num};
    case VN_TF_HALF_PIXEL: return (vn_tk_fraction_t){center, n2};
    case VN_TF_CROP: break;
    }
    const vn_tracked_t start = vn_tk(a->start), end = vn_tk(a->end), parts = vn_tk((double)(a->out - 1));
    if (a->out <= 1) return (vn_tk_fraction_t){vn_tk_mul(vn_tk_add(start, end), last), two};
    const vn_tracked_t offset = vn_tk_mul(vn_tk((double)i), vn_tk_sub(end, start));
    return (vn_tk_fraction_t){vn_tk_mul(vn_tk_add(vn_tk_mul(start, parts), offset), last), parts};
}

double vn_resize_nearest(const vn_resize_plan_t *p, const vn_resize_axis_t *a, double c) {
    switch (p->nearest) {
    case 0: return ceil(c - 0.5);
    case 1: return floor(c + 0.5);
    case 2: return floor(c);
    case 4: return a->scale < 1 ? ceil(c) : floor(c);
    default: return ceil(c);
    }
}
