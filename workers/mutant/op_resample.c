/* op_resample.c -- Resize (axis by axis, taps with weights) and GridSample (two spatial axes); coordinates and weights in the working format. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* ---- Resize ---- */

enum { NEAREST, LINEAR, CUBIC, MAX_TAPS = 4 };

typedef struct resize {
    int mode;
    bool wide, exclude;
    const char *coordinates, *nearest;
    double cubic_a;
} resize_t;

/* Output place i of `out` -> coordinate on the input axis of `in`. */
static double coordinate(const resize_t *r, int64_t i, int64_t in, int64_t out, double scale) {
    const bool w = r->wide;
    const double x = (double)i, length = settle(w, (double)in * scale);
    if (strcmp(r->coordinates, "asymmetric") == 0) return settle(w, x / scale);
    if (strcmp(r->coordinates, "align_corners") == 0) return out <= 1 ? 0 : settle(w, settle(w, x * (double)(in - 1)) / (double)(out - 1));
    const double half = settle(w, settle(w, settle(w, x + 0.5) / scale) - 0.5);
    if (strcmp(r->coordinates, "pytorch_half_pixel") == 0) return out > 1 ? half : 0;
    if (strcmp(r->coordinates, "half_pixel_symmetric") == 0) {
        const double adjust = (double)out / length, center = (double)in / 2;
        return settle(w, half + settle(w, center * (1 - adjust)));
    }
    return half;
}

static int64_t nearest_place(const resize_t *r, double x, int64_t in) {
    double at = strcmp(r->nearest, "floor") == 0               ? floor(x)
                : strcmp(r->nearest, "ceil") == 0              ? ceil(x)
                : strcmp(r->nearest, "round_prefer_ceil") == 0 ? floor(x + 0.5)
                                                               : ceil(x - 0.5);
    at = at < 0 ? 0 : at > (double)(in - 1) ? (double)(in - 1) : at;
    return (int64_t)at;
}

static double cubic_weight(bool w, double a, double t) {
    t = fabs(t);
    if (t <= 1) return settle(w, ((a + 2) * t - (a + 3)) * t * t + 1);
    return t < 2 ? settle(w, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a) : 0;
}

/* Taps of one output place; returns how many. */
static int taps_of(const resize_t *r, double x, int64_t in, int64_t *at, double *weight) {
    if (r->mode == NEAREST) {
        at[0] = nearest_place(r, x, in);
        weight[0] = 1;
        return 1;
    }
    const double base = floor(x), t = settle(r->wide, x - base);
    const int n = r->mode == LINEAR ? 2 : 4, first = r->mode == LINEAR ? 0 : -1;
    double sum = 0;
    for (int k = 0; k < n; ++k) {
        const int64_t place = (int64_t)base + first + k;
        weight[k] = r->mode == CUBIC ? cubic_weight(r->wide, r->cubic_a, (double)(first + k) - t) : k ? t : settle(r->wide, 1 - t);
        if (r->exclude && (place < 0 || place >= in)) weight[k] = 0;
        at[k] = place < 0 ? 0 : place >= in ? in - 1 : place;
        sum += weight[k];
    }
    for (int k = 0; r->exclude && k < n; ++k) weight[k] = settle(r->wide, weight[k] / settle(r->wide, sum));
    return n;
}

/* One axis: x[outer][in][inner] -> y[outer][out][inner]. */
static void resize_axis(const resize_t *r, int64_t outer, int64_t in, int64_t inner, int64_t out, double scale, const double *x,
                        double *y) {
    for (int64_t i = 0; i < out; ++i) {
        int64_t at[MAX_TAPS];
        double weight[MAX_TAPS];
        const int n = taps_of(r, coordinate(r, i, in, out, scale), in, at, weight);
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t e = 0; e < inner; ++e) {
                double s = r->mode == NEAREST ? x[(o * in + at[0]) * inner + e] : 0;
                for (int k = 0; r->mode != NEAREST && k < n; ++k)
                    s = settle(r->wide, s + settle(r->wide, weight[k] * x[(o * in + at[k]) * inner + e]));
                y[(o * out + i) * inner + e] = s;
            }
    }
}

static vn_status_t resize_form(call_t *c, resize_t *r, int64_t *dims, double *scales) {
    const vn_tensor_t *x = c->in[0];
    const char *mode = attr_string(c, "mode", "nearest");
    r->mode = strcmp(mode, "linear") == 0 ? LINEAR : strcmp(mode, "cubic") == 0 ? CUBIC : NEAREST;
    r->wide = is_wide(x->dtype);
    r->exclude = attr_int(c, "exclude_outside", 0) != 0;
    r->cubic_a = attr_float(c, "cubic_coeff_a", -0.75);
    r->nearest = attr_string(c, "nearest_mode", "round_prefer_floor");
    r->coordinates = vn_node_string(c->node, "coordinate_transformation_mode", "half_pixel");
    if (faulty(c, F_COORDINATE_MODE)) r->coordinates = c->fault->value[0] ? c->fault->value : "asymmetric";
    if (vn_node_int(c->node, "antialias", 0) || strcmp(r->coordinates, "tf_crop_and_resize") == 0 ||
        strcmp(vn_node_string(c->node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return refuse(c, "antialias, cropping or a kept aspect ratio");
    int64_t *axes, n, *sizes, n_sizes;
    VN_TRY(int_list(c, -1, "axes", &axes, &n));
    vn_status_t s = int_list(c, 3, NULL, &sizes, &n_sizes);
    const vn_tensor_t *factors = given(c, 2) && c->in[2]->count ? c->in[2] : NULL;
    const int64_t count = n >= 0 ? n : x->rank;
    for (int d = 0; d < x->rank; ++d) dims[d] = x->dims[d], scales[d] = 1;
    if (s == VN_OK && (factors ? factors->count != count : n_sizes != count)) s = refuse(c, "scales or sizes that do not fit the axes");
    for (int64_t i = 0; s == VN_OK && i < count; ++i) {
        int64_t axis = n >= 0 ? axes[i] : i;
        s = fix_axis(c, &axis, x->rank);
        if (s != VN_OK) break;
        scales[axis] = factors ? vn_tensor_get_f64(factors, i) : settle(r->wide, (double)sizes[i] / (double)x->dims[axis]);
        dims[axis] = factors ? (int64_t)floor((double)x->dims[axis] * scales[axis]) : sizes[i];
        if (!(scales[axis] > 0) || dims[axis] < 1) s = refuse(c, "an empty result");
    }
    vn_free(axes);
    vn_free(sizes);
    return s;
}

static vn_status_t run_resize(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    resize_t r;
    int64_t dims[VN_MAX_RANK], now[VN_MAX_RANK];
    double scales[VN_MAX_RANK];
    VN_TRY(resize_form(c, &r, dims, scales));
    double *v = plane(c, x);
    memcpy(now, x->dims, sizeof now);
    vn_status_t s = v ? VN_OK : VN_ERR_NOMEM;
    for (int d = 0; s == VN_OK && d < x->rank; ++d) {
        if (dims[d] == x->dims[d] && scales[d] == 1) continue;
        const int64_t outer = product_of(now, d), inner = product_of(now + d + 1, x->rank - d - 1);
        double *y = room_for(c, outer * dims[d] * inner);
        if (!y) s = VN_ERR_NOMEM;
        else resize_axis(&r, outer, now[d], inner, dims[d], scales[d], v, y);
        now[d] = dims[d];
        vn_free(v);
        v = y;
    }
    if (s == VN_OK) return put_plane(c, 0, x->dtype, x->rank, dims, v);
    vn_free(v);
    return s;
}

/* ---- GridSample ---- */

typedef struct sampler {
    int mode, padding; /* 0 zeros, 1 border, 2 reflection */
    bool wide, align, clamp_point, skip_border;
    int64_t h, w;
} sampler_t;

static double unnormalise(const sampler_t *g, double x, int64_t n) {
    return g->align ? settle(g->wide, settle(g->wide, settle(g->wide, x + 1) / 2) * (double)(n - 1))
                    : settle(g->wide, settle(g->wide, settle(g->wide, settle(g->wide, x + 1) * (double)n) - 1) / 2);
}

static double reflect(double x, double low, double high) {
    const double span = high - low;
    if (span <= 0) return 0;
    double t = fmod(fabs(x - low), 2 * span);
    if (t > span) t = 2 * span - t;
    return t + low;
}

static double bring_in(const sampler_t *g, double x, int64_t n) {
    if (g->padding == 1) return x < 0 ? 0 : x > (double)(n - 1) ? (double)(n - 1) : x;
    if (g->padding == 2) x = settle(g->wide, g->align ? reflect(x, 0, (double)(n - 1)) : reflect(x, -0.5, (double)n - 0.5));
    return x;
}

static double tap(const sampler_t *g, const double *image, double y, double x) {
    y = bring_in(g, y, g->h);
    x = bring_in(g, x, g->w);
    if (g->padding == 2) { /* half a pixel beyond the corner reflects onto it */
        y = y < 0 ? 0 : y > (double)(g->h - 1) ? (double)(g->h - 1) : y;
        x = x < 0 ? 0 : x > (double)(g->w - 1) ? (double)(g->w - 1) : x;
    }
    const double low = g->skip_border ? 1 : 0;
    if (y < low || x < low || y > (double)(g->h - 1) - low || x > (double)(g->w - 1) - low) return 0;
    return image[(int64_t)y * g->w + (int64_t)x];
}

static double sample(const sampler_t *g, const double *image, double y, double x) {
    const bool w = g->wide;
    if (g->mode == NEAREST) return tap(g, image, rint(bring_in(g, y, g->h)), rint(bring_in(g, x, g->w)));
    if (g->mode == LINEAR || g->clamp_point) y = bring_in(g, y, g->h), x = bring_in(g, x, g->w);
    const double y0 = floor(y), x0 = floor(x), ty = settle(w, y - y0), tx = settle(w, x - x0);
    if (g->mode == LINEAR) {
        const double wy[2] = {settle(w, 1 - ty), ty}, wx[2] = {settle(w, 1 - tx), tx};
        double s = 0;
        for (int i = 0; i < 4; ++i) s = settle(w, s + settle(w, settle(w, wy[i / 2] * wx[i % 2]) * tap(g, image, y0 + i / 2, x0 + i % 2)));
        return s;
    }
    double s = 0;
    for (int i = -1; i < 3; ++i) {
        double row = 0;
        for (int k = -1; k < 3; ++k) row = settle(w, row + settle(w, cubic_weight(w, -0.75, k - tx) * tap(g, image, y0 + i, x0 + k)));
        s = settle(w, s + settle(w, cubic_weight(w, -0.75, i - ty) * row));
    }
    return s;
}

static vn_status_t run_grid_sample(call_t *c) {
    VN_TRY(need_float(c, 0));
    VN_TRY(need_float(c, 1));
    const vn_tensor_t *x = c->in[0], *grid = c->in[1];
    if (x->rank != 4 || grid->rank != 4 || grid->dims[3] != 2 || grid->dims[0] != x->dims[0])
        return refuse(c, "other than two spatial axes");
    const char *mode = attr_string(c, "mode", c->opset < 20 ? "bilinear" : "linear"), *padding = attr_string(c, "padding_mode", "zeros");
    sampler_t g = {.wide = is_wide(x->dtype), .h = x->dims[2], .w = x->dims[3]};
    g.mode = strcmp(mode, "nearest") == 0 ? NEAREST : strstr(mode, "cubic") ? CUBIC : LINEAR;
    g.padding = strcmp(padding, "border") == 0 ? 1 : strcmp(padding, "reflection") == 0 ? 2 : 0;
    g.align = attr_int(c, "align_corners", 0) != 0;
    g.clamp_point = faulty(c, F_BORDER_CLAMPS);
    g.skip_border = faulty(c, F_BORDER_TAPS);
    const int64_t dims[4] = {x->dims[0], x->dims[1], grid->dims[1], grid->dims[2]}, places = dims[2] * dims[3];
    double *v = plane(c, x), *at = plane(c, grid), *y = room_for(c, product_of(dims, 4));
    vn_status_t s = v && at && y ? VN_OK : VN_ERR_NOMEM;
    for (int64_t i = 0; s == VN_OK && i < dims[0] * dims[1] * places; ++i) {
        const double *p = at + (i / places / dims[1] * places + i % places) * 2;
        y[i] = sample(&g, v + i / places * g.h * g.w, unnormalise(&g, p[1], g.h), unnormalise(&g, p[0], g.w));
    }
    vn_free(v);
    vn_free(at);
    if (s == VN_OK) return put_plane(c, 0, x->dtype, 4, dims, y);
    vn_free(y);
    return s;
}

static const op_row_t rows[] = {{"Resize", run_resize, 0}, {"GridSample", run_grid_sample, 0}};
const op_table_t resample_ops = {rows, sizeof rows / sizeof *rows};
