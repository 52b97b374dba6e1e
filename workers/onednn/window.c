/* window.c -- see window.h. */
#include "window.h"

#include <string.h>

/* Attribute `name` with `count` entries, or all of them `fallback`. */
static vn_status_t list(const step_call_t *c, const char *name, int count, int64_t fallback, int64_t *out) {
    int64_t n = 0;
    const int64_t *v = vn_node_ints(c->step->node, name, &n);
    if (v && n != count)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s (%s): %s has %lld entries, not %d", c->step->node->path, c->step->node->op, name,
                       (long long)n, count);
    for (int i = 0; i < count; ++i) out[i] = v ? v[i] : fallback;
    return VN_OK;
}

/* Pads of SAME_UPPER and SAME_LOWER: the output is as long as the input over the stride, rounded up. */
static void same(window_t *w, int i, int64_t in, int64_t reach, bool lower) {
    const int64_t out = (in + w->stride[i] - 1) / w->stride[i], need = (out - 1) * w->stride[i] + reach - in, pad = need > 0 ? need : 0;
    w->before[i] = lower ? pad - pad / 2 : pad / 2;
    w->after[i] = pad - w->before[i];
}

static vn_status_t lengths(const step_call_t *c, const int64_t *in, bool transpose, const int64_t *extra, window_t *w) {
    const vn_node_t *node = c->step->node;
    const bool ceil_mode = vn_node_int(node, "ceil_mode", 0) != 0;
    for (int i = 0; i < w->n; ++i) {
        const int64_t reach = (w->kernel[i] - 1) * (w->dilation[i] + 1) + 1, room = in[i] + w->before[i] + w->after[i] - reach;
        if (transpose) {
            w->out[i] = (in[i] - 1) * w->stride[i] + reach + extra[i] - w->before[i] - w->after[i];
            w->after[i] -= extra[i];
        } else {
            w->out[i] = room < 0 ? 0 : room / w->stride[i] + 1;
            if (ceil_mode && room >= 0 && room % w->stride[i]) {
                /* a window that would begin behind the data and the pads before them is not counted */
                if (w->out[i] * w->stride[i] < in[i] + w->before[i]) {
                    w->after[i] += w->stride[i] - room % w->stride[i];
                    ++w->out[i];
                    w->rounded_up = true;
                }
            }
        }
        if (w->out[i] < 0) return vn_fail(c->err, VN_ERR_SHAPE, "%s (%s): a negative output length", node->path, node->op);
    }
    return VN_OK;
}

vn_status_t window_of(const step_call_t *c, int n, const int64_t *in, const int64_t *kernel, bool transpose, window_t *w) {
    const vn_node_t *node = c->step->node;
    const char *mode = vn_node_string(node, "auto_pad", "NOTSET");
    int64_t stride[VN_MAX_RANK], dilation[VN_MAX_RANK], pads[2 * VN_MAX_RANK], extra[VN_MAX_RANK];
    *w = (window_t){.n = n};
    if (transpose && vn_node_attr(node, "output_shape")) return step_refuse(node, c->err, "attribute output_shape");
    VN_TRY(list(c, "strides", n, 1, stride));
    VN_TRY(list(c, "dilations", n, 1, dilation));
    VN_TRY(list(c, "pads", 2 * n, 0, pads));
    VN_TRY(list(c, "output_padding", n, 0, extra));
    const bool upper = strcmp(mode, "SAME_UPPER") == 0, lower = strcmp(mode, "SAME_LOWER") == 0;
    if (transpose && (upper || lower)) return step_refuse(node, c->err, "auto_pad %s", mode);
    for (int i = 0; i < n; ++i) {
        w->kernel[i] = kernel[i];
        w->stride[i] = stride[i];
        w->dilation[i] = dilation[i] - 1;
        w->before[i] = strcmp(mode, "VALID") == 0 ? 0 : pads[i];
        w->after[i] = strcmp(mode, "VALID") == 0 ? 0 : pads[n + i];
        if (stride[i] < 1 || dilation[i] < 1 || kernel[i] < 1)
            return vn_fail(c->err, VN_ERR_RANGE, "%s (%s): a stride, dilation or kernel below 1", node->path, node->op);
        if (upper || lower) same(w, i, in[i], (kernel[i] - 1) * dilation[i] + 1, lower);
    }
    return lengths(c, in, transpose, extra, w);
}
