/* window.c -- attributes of sliding windows and the output sizes that follow. */
#include "oracle/window.h"

#include <string.h>

enum { NOTSET, SAME_UPPER, SAME_LOWER, VALID };

/* Optional list attribute of `n` values, each in [low, 2^31); absent: fallback. */
static vn_status_t list(vn_eval_t *e, const char *name, int n, int64_t low, int64_t fallback, int64_t *out) {
    int64_t count;
    const int64_t *v = vn_node_ints(e->node, name, &count);
    for (int i = 0; i < n; ++i) out[i] = fallback;
    if (!v || count == 0) return VN_OK;
    if (count != n) return vn_eval_fail(e, VN_ERR_SHAPE, "%s has %lld values, %d are needed", name, (long long)count, n);
    for (int i = 0; i < n; ++i) {
        if (v[i] < low || v[i] > INT32_MAX) return vn_eval_fail(e, VN_ERR_RANGE, "%s holds %lld", name, (long long)v[i]);
        out[i] = v[i];
    }
    return VN_OK;
}

static vn_status_t auto_pad(vn_eval_t *e, int *mode) {
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    const char *text = vn_node_string(e->node, "auto_pad", "NOTSET");
    for (int i = 0; i < 4; ++i)
        if (strcmp(text, names[i]) == 0 || (i == 0 && !text[0])) {
            *mode = i;
            return VN_OK;
        }
    return vn_eval_fail(e, VN_ERR_USAGE, "auto_pad \"%s\" is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID", text);
}

/* Reads the lists into axes; pads only where auto_pad leaves them to the node. */
static vn_status_t read_axes(vn_eval_t *e, int n, const int64_t *in, const int64_t *kernel, int *mode, vn_windows_t *out) {
    int64_t k[VN_MAX_RANK], s[VN_MAX_RANK], d[VN_MAX_RANK], p[2 * VN_MAX_RANK];
    *out = (vn_windows_t){.n = n, .positions = 1, .taps = 1, .in_size = 1};
    if (n < 1 || n > VN_MAX_RANK - 2) return vn_eval_fail(e, VN_ERR_SHAPE, "%d spatial axes", n);
    VN_TRY(auto_pad(e, mode));
    VN_TRY(list(e, "kernel_shape", n, 1, 0, k));
    VN_TRY(list(e, "strides", n, 1, 1, s));
    VN_TRY(list(e, "dilations", n, 1, 1, d));
    VN_TRY(list(e, "pads", 2 * n, 0, 0, p));
    for (int i = 0; i < n; ++i) {
        if (kernel && k[i] && k[i] != kernel[i])
            return vn_eval_fail(e, VN_ERR_SHAPE, "kernel_shape says %lld where the weights have %lld", (long long)k[i],
                                (long long)kernel[i]);
        if (kernel) k[i] = kernel[i];
        if (k[i] < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "a window of size %lld", (long long)k[i]);
        if (in[i] > INT64_C(1) << 40 || k[i] > INT32_MAX)
            return vn_eval_fail(e, VN_ERR_RANGE, "an axis of %lld elements, a window of %lld", (long long)in[i], (long long)k[i]);
        out->axis[i] = (vn_window_t){.in = in[i], .kernel = k[i], .stride = s[i], .dilation = d[i]};
        /* Far more padding than there is to pad: a hostile count, not a model. */
        const int64_t enough = in[i] + (k[i] - 1) * d[i] + (1 << 16);
        if (p[i] > enough || p[n + i] > enough)
            return vn_eval_fail(e, VN_ERR_RANGE, "padding of %lld and %lld beside an axis of %lld elements", (long long)p[i],
                                (long long)p[n + i], (long long)in[i]);
        if (*mode == NOTSET) {
            out->axis[i].lo = p[i];
            out->axis[i].hi = p[n + i];
        }
    }
    return VN_OK;
}

static vn_status_t products(vn_eval_t *e, vn_windows_t *w) {
    for (int i = 0; i < w->n; ++i)
        if (!vn_i64_mul(w->positions, w->axis[i].out, &w->positions) || !vn_i64_mul(w->taps, w->axis[i].kernel, &w->taps) ||
            !vn_i64_mul(w->in_size, w->axis[i].in, &w->in_size))
            return vn_eval_fail(e, VN_ERR_RANGE, "the window's sizes overflow");
    return VN_OK;
}

vn_status_t vn_windows_read(vn_eval_t *e, int spatial, const int64_t *in, const int64_t *kernel, bool crop, vn_windows_t *out) {
    int mode;
    VN_TRY(read_axes(e, spatial, in, kernel, &mode, out));
    const bool ceil_mode = vn_node_int(e->node, "ceil_mode", 0) != 0;
    for (int i = 0; i < spatial; ++i) {
        vn_window_t *w = &out->axis[i];
        const int64_t span = (w->kernel - 1) * w->dilation + 1;
        if (mode == SAME_UPPER || mode == SAME_LOWER) {
            w->out = (w->in + w->stride - 1) / w->stride;
            const int64_t need = (w->out - 1) * w->stride + span - w->in, total = need > 0 || crop ? need : 0;
            w->lo = mode == SAME_UPPER ? total / 2 : total - total / 2;
            w->hi = total - w->lo;
        } else {
            const int64_t room = w->in + w->lo + w->hi - span;
            if (room < 0)
                return vn_eval_fail(e, VN_ERR_SHAPE, "a window that spans %lld on an axis of %lld with padding", (long long)span,
                                    (long long)(w->in + w->lo + w->hi));
            w->out = room / w->stride + 1;
            if (ceil_mode && mode == NOTSET && room % w->stride && w->out * w->stride < w->in + w->lo) w->out++;
        }
    }
    return products(e, out);
}

vn_status_t vn_windows_read_transposed(vn_eval_t *e, int spatial, const int64_t *in, const int64_t *kernel, vn_windows_t *out) {
    int mode;
    int64_t extra[VN_MAX_RANK], shape_count;
    VN_TRY(read_axes(e, spatial, in, kernel, &mode, out));
    VN_TRY(list(e, "output_padding", spatial, 0, 0, extra));
    const int64_t *shape = vn_node_ints(e->node, "output_shape", &shape_count);
    if (shape_count == 0) shape = NULL;
    if (shape && shape_count != spatial && shape_count != spatial + 2)
        return vn_eval_fail(e, VN_ERR_SHAPE, "output_shape has %lld values for %d spatial axes", (long long)shape_count, spatial);
    for (int i = 0; i < spatial; ++i) {
        vn_window_t *w = &out->axis[i];
        const int64_t full = w->stride * (w->in - 1) + extra[i] + (w->kernel - 1) * w->dilation + 1;
        const bool same = mode == SAME_UPPER || mode == SAME_LOWER;
        if (w->in == 0) {
            w->out = 0;
        } else if (shape || same) {
            w->out = shape ? shape[shape_count - spatial + i] : w->in * w->stride;
            if (w->out < 0 || w->out > INT64_C(1) << 40) return vn_eval_fail(e, VN_ERR_RANGE, "output_shape holds %lld", (long long)w->out);
            const int64_t total = full > w->out ? full - w->out : 0; /* a longer output has empty places at its end */
            w->lo = mode == SAME_UPPER ? total / 2 : total - total / 2;
            w->hi = total - w->lo;
        } else {
            w->out = full - w->lo - w->hi;
            if (w->out < 0) return vn_eval_fail(e, VN_ERR_SHAPE, "an output axis of %lld elements", (long long)w->out);
        }
    }
    return products(e, out);
}
