/* op_pool_max.c -- MaxPool, GlobalMaxPool, MaxUnpool, MaxRoiPool: values are moved, never rounded.
 *
 * Claim POOL-4: the largest present element, bits equal. NaN in a window: ignored or passed on, the standard does not say. Zeros of both
 * signs that tie: either. Equal elements: the index of the first, or of the last. Uncertain operands: the maximum moves by at most the
 * largest uncertainty in the window, and an index within reach is open.
 * Claim POOL-5: MaxUnpool scatters into the shape of the inverted pooling; a larger output_shape extends it at the end of each axis. Second
 * reading: indices count in output_shape itself.
 * Claim POOL-6: MaxRoiPool bins as Fast R-CNN defines them; the corners are rounded to whole pixels after scaling.
 */
#include <math.h>
#include <string.h>

#include "oracle/pool.h"
#include "oracle/require.h"
#include "oracle/rows.h"

/* ---- MaxPool ---- */

typedef struct max_job {
    vn_eval_t *e;
    vn_pool_t p;
    const double *x, *err, *var;
    bool column_major, failed;
    vn_ref_t *values, *indices; /* indices NULL if not asked for */
} max_job_t;

/* Index as the standard counts it, from an offset in a plane. */
static int64_t index_of(const max_job_t *j, int64_t plane, int64_t offset) {
    const int64_t base = plane * j->p.w.in_size;
    if (!j->column_major) return base + offset;
    int64_t out = 0, at[VN_MAX_RANK];
    for (int d = j->p.w.n - 1; d >= 0; --d) {
        at[d] = offset % j->p.w.axis[d].in;
        offset /= j->p.w.axis[d].in;
    }
    for (int d = j->p.w.n - 1; d >= 0; --d) out = out * j->p.w.axis[d].in + at[d];
    return base + out;
}

static void max_one(max_job_t *j, int64_t at, double *window) {
    const int64_t positions = j->p.w.positions, plane = at / positions, base = plane * j->p.w.in_size;
    const double *x = j->x + base, *err = j->err ? j->err + base : NULL, *source = j->var ? j->var + base : NULL;
    vn_pool_span_t s;
    vn_pool_span(&j->p, at % positions, &s);
    vn_pool_read(&j->p, &s, x, window);
    double best = -INFINITY, moved = 0, var = 0;
    int64_t first = -1, last = -1;
    bool nan = false, plus = false, minus = false;
    for (int64_t i = 0; i < s.present; ++i) {
        const double v = window[i];
        if (isnan(v)) {
            nan = true;
        } else if (first < 0 || v > best) {
            best = v;
            first = last = i;
            plus = v == 0 && !signbit(v);
            minus = v == 0 && signbit(v);
        } else if (v == best) {
            last = i;
            if (v == 0) *(signbit(v) ? &minus : &plus) = true;
        }
    }
    for (int64_t i = 0; err && i < s.present; ++i) {
        const int64_t o = vn_pool_offset(&j->p, &s, i);
        if (err[o] > moved) moved = err[o];
        if (source && source[o] > var) var = source[o];
    }
    vn_ref_t *r = j->values;
    const bool empty = s.present == 0;
    const double value = first >= 0 ? window[first] : nan ? NAN : -INFINITY;
    if (r->value) {
        r->value[at] = value;
        if (r->bound) r->bound[at] = moved;
        if (r->var) r->var[at] = var;
        if (r->flags) r->flags[at] = (uint8_t)((nan ? VN_EL_NAN_OK : 0) | (plus && minus ? VN_EL_ZERO_OK : 0) | (empty ? VN_EL_VOID : 0));
    } else {
        vn_tensor_set_i64(r->tensor, at, first >= 0 ? (int64_t)value : 0);
    }
    if (!j->indices) return;
    bool open = empty || nan;
    const int64_t winner = first >= 0 ? vn_pool_offset(&j->p, &s, first) : 0;
    for (int64_t i = 0; err && !open && first >= 0 && i < s.present; ++i) {
        const int64_t o = vn_pool_offset(&j->p, &s, i);
        open = i != first && window[i] + err[o] >= best - err[winner];
    }
    vn_tensor_set_i64(j->indices->tensor, at, first >= 0 ? index_of(j, plane, winner) : 0);
    vn_tensor_set_i64(j->indices->either, at, last >= 0 ? index_of(j, plane, vn_pool_offset(&j->p, &s, last)) : 0);
    if (open && j->indices->flags) j->indices->flags[at] = VN_EL_VOID;
}

static void max_range(void *ctx, int64_t begin, int64_t end) {
    max_job_t *j = ctx;
    const int64_t room = vn_pool_capacity(&j->p);
    double *window = vn_realloc(NULL, (size_t)(room ? room : 1), sizeof *window);
    if (!window) {
        __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t at = begin; at < end; ++at) max_one(j, at, window);
    vn_free(window);
}

static vn_status_t max_pool(vn_eval_t *e, vn_pool_form_t form) {
    VN_TRY(vn_require(e, 1));
    max_job_t j = {.e = e, .column_major = vn_node_int(e->node, "storage_order", 0) != 0};
    const vn_tensor_t *x = e->in[0].t;
    const bool floating = vn_dtype_is_float(x->dtype), indices = e->n_out > 1 && *e->node->outputs[1];
    if (!floating && !(vn_dtype_is_int(x->dtype) && vn_dtype_bits(x->dtype) <= 32))
        return vn_eval_fail(e, VN_ERR_DTYPE, "no maximum of %s", vn_dtype_name(x->dtype));
    VN_TRY(vn_pool_plan(e, form, &j.p));
    if (floating) {
        VN_TRY(vn_out_float(e, 0, x->dtype, j.p.rank, j.p.dims));
        vn_out_rounded(e, 0);
        VN_TRY(vn_out_flags(e, 0));
    } else {
        VN_TRY(vn_out_exact(e, 0, x->dtype, j.p.rank, j.p.dims));
    }
    if (indices) {
        VN_TRY(vn_out_exact(e, 1, VN_I64, j.p.rank, j.p.dims));
        VN_TRY(vn_out_either(e, 1));
        VN_TRY(vn_out_flags(e, 1));
        j.indices = &e->out[1];
    }
    j.values = &e->out[0];
    j.x = vn_arg_f64(e, 0);
    if (!j.x) return VN_ERR_NOMEM;
    j.err = vn_arg_err(e, 0);
    j.var = e->in[0].var;
    const int64_t per = vn_pool_capacity(&j.p);
    vn_parallel(e->out[0].count, per > 16384 ? 1 : 16384 / (per + 1) + 1, max_range, &j);
    if (j.failed) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for windows");
    if (floating) vn_flags_settle(e, 0);
    if (indices) vn_flags_settle(e, 1);
    return VN_OK;
}

vn_status_t vn_eval_max_pool(vn_eval_t *e) {
    VN_TRY(max_pool(e, VN_POOL_WINDOWS));
    return vn_pool_unpadded_reading(e, max_pool);
}
vn_status_t vn_eval_global_max_pool(vn_eval_t *e) { return max_pool(e, VN_POOL_GLOBAL); }

vn_status_t vn_infer_max_pool(vn_eval_t *e) {
    VN_TRY(vn_pool_infer(e, false));
    if (e->n_out > 1) {
        e->out[1].dtype = VN_I64;
        e->out[1].rank = e->out[0].rank;
        memcpy(e->out[1].dims, e->out[0].dims, sizeof e->out[0].dims);
    }
    return VN_OK;
}

/* ---- MaxUnpool ---- */

static vn_status_t unpooled_dims(vn_eval_t *e, int64_t *dims) {
    const vn_tensor_t *x = e->in[0].t;
    const int n = x->rank - 2;
    int64_t kc, sc, pc;
    const int64_t *kernel = vn_node_ints(e->node, "kernel_shape", &kc), *strides = vn_node_ints(e->node, "strides", &sc),
                  *pads = vn_node_ints(e->node, "pads", &pc);
    if (n < 1 || !kernel || kc != n || (strides && sc != n) || (pads && pc != 2 * n))
        return vn_eval_fail(e, VN_ERR_SHAPE, "kernel_shape, strides or pads do not fit %d spatial axes", n);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (int d = 0; d < n; ++d) {
        const int64_t s = strides ? strides[d] : 1, lo = pads ? pads[d] : 0, hi = pads ? pads[n + d] : 0;
        if (kernel[d] < 1 || s < 1 || lo < 0 || hi < 0 || kernel[d] > INT32_MAX || s > INT32_MAX || lo > INT32_MAX || hi > INT32_MAX ||
            x->dims[2 + d] > INT64_C(1) << 31)
            return vn_eval_fail(e, VN_ERR_RANGE, "kernel_shape, strides or pads out of range");
        dims[2 + d] = (x->dims[2 + d] - 1) * s - lo - hi + kernel[d];
        if (dims[2 + d] < 0) return vn_eval_fail(e, VN_ERR_SHAPE, "an output axis of %lld elements", (long long)dims[2 + d]);
    }
    return VN_OK;
}

/* Scatters into `out`, whose indices count in a tensor of `shape` (same rank, each axis at most as long). */
static vn_status_t scatter(vn_eval_t *e, const int64_t *shape, vn_tensor_t *out, bool *fits) {
    const vn_tensor_t *x = e->in[0].t, *index = e->in[1].t;
    const size_t size = (size_t)vn_dtype_bits(x->dtype) / 8;
    int64_t total = 1;
    *fits = true;
    for (int d = 0; d < out->rank; ++d)
        if (!vn_i64_mul(total, shape[d], &total)) return vn_eval_fail(e, VN_ERR_RANGE, "too many elements");
    for (int64_t i = 0; i < x->count; ++i) {
        int64_t at = vn_tensor_get_i64(index, i), to = 0, step = 1;
        if (at < 0 || at >= total) {
            *fits = false;
            return VN_OK;
        }
        for (int d = out->rank - 1; d >= 0; --d) {
            to += at % shape[d] * step;
            at /= shape[d];
            step *= out->dims[d];
        }
        memcpy((char *)out->data + (size_t)to * size, (const char *)x->data + (size_t)i * size, size);
    }
    return VN_OK;
}

vn_status_t vn_eval_max_unpool(vn_eval_t *e) {
    VN_TRY(vn_require(e, 2));
    const vn_tensor_t *x = e->in[0].t;
    int64_t inferred[VN_MAX_RANK], dims[VN_MAX_RANK];
    if (vn_dtype_bits(x->dtype) < 8) return vn_eval_fail(e, VN_ERR_DTYPE, "no unpooling of %s", vn_dtype_name(x->dtype));
    if (e->in[1].t->count != x->count)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld indices for %lld elements", (long long)e->in[1].t->count, (long long)x->count);
    VN_TRY(unpooled_dims(e, inferred));
    memcpy(dims, inferred, sizeof dims);
    bool larger = false;
    if (vn_has(e, 2)) {
        int n;
        VN_TRY(vn_arg_ints(e, 2, dims, VN_MAX_RANK, &n));
        if (n != x->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "output_shape has %d values for rank %d", n, x->rank);
        for (int d = 0; d < n; ++d) larger = larger || dims[d] != inferred[d];
    }
    bool fits = true, flat_fits = false;
    for (int d = 0; d < x->rank; ++d) fits = fits && dims[d] >= inferred[d];
    VN_TRY(vn_out_exact(e, 0, x->dtype, x->rank, dims));
    const bool embedded = fits;
    if (embedded) VN_TRY(scatter(e, inferred, e->out[0].tensor, &fits));
    if (!embedded || !fits) { /* smaller than the inverted pooling, or indices beyond it: they can only count in output_shape */
        if (embedded) VN_TRY(vn_out_exact(e, 0, x->dtype, x->rank, dims));
        VN_TRY(scatter(e, dims, e->out[0].tensor, &flat_fits));
        return flat_fits ? VN_OK : vn_eval_fail(e, VN_ERR_RANGE, "an index lies outside the output");
    }
    if (!larger) return VN_OK;
    vn_tensor_t *flat;
    VN_TRY(vn_tensor_new(x->dtype, x->rank, dims, &flat, e->err));
    vn_status_t s = scatter(e, dims, flat, &flat_fits);
    if (s == VN_OK && flat_fits) return vn_out_reading(e, 0, "indices-in-output-shape", flat);
    vn_tensor_free(flat);
    return s;
}

/* ---- MaxRoiPool ---- */

static vn_status_t roi_dims(vn_eval_t *e, int64_t *dims) {
    VN_TRY(vn_require(e, 2));
    const vn_tensor_t *x = e->in[0].t, *rois = e->in[1].t;
    int64_t n;
    const int64_t *shape = vn_node_ints(e->node, "pooled_shape", &n);
    if (x->rank != 4 || rois->rank != 2 || rois->dims[1] != 5) return vn_eval_fail(e, VN_ERR_SHAPE, "needs [N,C,H,W] and rois [R,5]");
    if (!shape || n != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] > INT32_MAX || shape[1] > INT32_MAX)
        return vn_eval_fail(e, VN_ERR_SHAPE, "pooled_shape must be two positive numbers");
    dims[0] = rois->dims[0];
    dims[1] = x->dims[1];
    dims[2] = shape[0];
    dims[3] = shape[1];
    return VN_OK;
}

vn_status_t vn_infer_max_roi_pool(vn_eval_t *e) {
    VN_TRY(roi_dims(e, e->out[0].dims));
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = 4;
    return VN_OK;
}

/* First and one past the last pixel of bin i of `bins` over [start, end], clipped to the image. */
static void bin(double start, double end, int64_t i, int64_t bins, int64_t size, int64_t *lo, int64_t *hi) {
    const float length = (float)fmax(end - start + 1, 1), per = length / (float)bins;
    const double a = floor((double)((float)i * per)) + start, b = ceil((double)((float)(i + 1) * per)) + start;
    *lo = (int64_t)fmin(fmax(a, 0), (double)size);
    *hi = (int64_t)fmin(fmax(b, 0), (double)size);
}

vn_status_t vn_eval_max_roi_pool(vn_eval_t *e) {
    int64_t dims[VN_MAX_RANK];
    VN_TRY(roi_dims(e, dims));
    const vn_tensor_t *x = e->in[0].t;
    if (!vn_dtype_is_float(x->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "no maximum of %s", vn_dtype_name(x->dtype));
    VN_TRY(vn_out_float(e, 0, x->dtype, 4, dims));
    vn_out_rounded(e, 0);
    VN_TRY(vn_out_flags(e, 0));
    const double *v = vn_arg_f64(e, 0), *rois = vn_arg_f64(e, 1), scale = vn_node_float(e->node, "spatial_scale", 1);
    if (!v || !rois) return VN_ERR_NOMEM;
    vn_ref_t *r = &e->out[0];
    int64_t at = 0;
    for (int64_t n = 0; n < dims[0]; ++n) {
        const double *roi = rois + 5 * n;
        double c[4];
        bool near_tie = false;
        for (int i = 0; i < 4; ++i) {
            const double s = roi[1 + i] * scale;
            if (!isfinite(s) || fabs(s) > 0x1p31)
                return vn_eval_fail(e, VN_ERR_RANGE, "roi %lld has the coordinate %g", (long long)n, roi[1 + i]);
            c[i] = round(s);
            near_tie = near_tie || fabs(fabs(s - floor(s)) - 0.5) <= 2 * 0x1p-24 * fabs(s); /* the product is rounded in f32 */
        }
        if (!(roi[0] >= 0 && roi[0] < (double)x->dims[0]))
            return vn_eval_fail(e, VN_ERR_RANGE, "roi %lld names image %g", (long long)n, roi[0]);
        for (int64_t ch = 0; ch < dims[1]; ++ch)
            for (int64_t h = 0; h < dims[2]; ++h)
                for (int64_t w = 0; w < dims[3]; ++w, ++at) {
                    int64_t h0, h1, w0, w1;
                    bin(c[1], c[3], h, dims[2], x->dims[2], &h0, &h1);
                    bin(c[0], c[2], w, dims[3], x->dims[3], &w0, &w1);
                    const double *plane = v + ((int64_t)roi[0] * x->dims[1] + ch) * x->dims[2] * x->dims[3];
                    double best = h1 > h0 && w1 > w0 ? -INFINITY : 0;
                    bool nan = false;
                    for (int64_t y = h0; y < h1; ++y)
                        for (int64_t z = w0; z < w1; ++z) {
                            const double p = plane[y * x->dims[3] + z];
                            nan = nan || isnan(p);
                            if (p > best) best = p;
                        }
                    r->value[at] = best;
                    r->flags[at] = (uint8_t)((nan ? VN_EL_NAN_OK : 0) | (near_tie ? VN_EL_VOID : 0) | (best == 0 ? VN_EL_ZERO_OK : 0));
                }
    }
    vn_flags_settle(e, 0);
    return VN_OK;
}
