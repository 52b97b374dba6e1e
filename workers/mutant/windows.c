/* windows.c -- sliding windows: the attributes of ONNX convolutions and pools turned into plain numbers. */
#include "windows.h"

#include <string.h>

/* The window at this place leaves the image along axis d. */
static bool leaves(const windows_t *w, int d, int64_t at) {
    const int64_t first = at * w->strides[d] - w->begin[d];
    return first < 0 || first + (w->kernel[d] - 1) * w->dilations[d] >= w->in[d];
}

static int64_t window_index(const windows_t *w, const int64_t *at, const int64_t *k) {
    int64_t i = 0;
    for (int d = 0; d < w->rank; ++d) {
        const int64_t x = at[d] * w->strides[d] + k[d] * w->dilations[d] - w->begin[d];
        if (x < 0 || x >= w->in[d]) return -1;
        if (w->skip_border && (x == 0 || x == w->in[d] - 1) && leaves(w, d, at[d])) return -1;
        i = i * w->in[d] + x;
    }
    return i;
}

static vn_status_t read_list(const call_t *c, const char *name, int64_t want, int64_t fallback, int64_t least, int64_t *out) {
    int64_t n;
    const int64_t *v = vn_node_ints(c->node, name, &n);
    if (v && n != want)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: %s has %lld entries, not %lld", c->node->path, name, (long long)n, (long long)want);
    for (int64_t i = 0; i < want; ++i) {
        out[i] = v ? v[i] : fallback;
        if (out[i] < least || out[i] > INT32_MAX)
            return vn_fail(c->err, VN_ERR_RANGE, "%s: %s[%lld] = %lld", c->node->path, name, (long long)i, (long long)out[i]);
    }
    return VN_OK;
}

/* SAME: out = ceil(in / stride), the missing elements split between both sides. */
static void pad_same(windows_t *w, int d, bool upper) {
    const int64_t out = (w->in[d] + w->strides[d] - 1) / w->strides[d];
    int64_t need_in = (out - 1) * w->strides[d] + (w->kernel[d] - 1) * w->dilations[d] + 1 - w->in[d];
    if (need_in < 0) need_in = 0;
    w->begin[d] = upper ? need_in / 2 : need_in - need_in / 2;
    w->end[d] = need_in - w->begin[d];
}

static int64_t count_places(const windows_t *w, int d, bool ceil_mode) {
    const int64_t room = w->in[d] + w->begin[d] + w->end[d] - (w->kernel[d] - 1) * w->dilations[d] - 1;
    if (room < 0) return 0;
    int64_t n = (ceil_mode ? room + w->strides[d] - 1 : room) / w->strides[d] + 1;
    if (ceil_mode && (n - 1) * w->strides[d] >= w->in[d] + w->begin[d])
        --n; /* a window that starts in the padding behind the image is left out */
    return n;
}

vn_status_t windows_read(const call_t *c, const vn_tensor_t *x, const int64_t *kernel, windows_t *w) {
    memset(w, 0, sizeof *w);
    w->rank = x->rank - 2;
    w->in_size = w->out_size = w->kernel_size = 1;
    int64_t pads[2 * MAX_SPATIAL];
    VN_TRY(read_list(c, "strides", w->rank, 1, 1, w->strides));
    VN_TRY(read_list(c, "dilations", w->rank, 1, 1, w->dilations));
    VN_TRY(read_list(c, "pads", 2 * w->rank, 0, 0, pads));
    const char *how = attr_string(c, "auto_pad", "NOTSET");
    w->skip_border = faulty(c, F_BORDER_TAPS);
    const bool same = strncmp(how, "SAME_", 5) == 0, ceil_mode = attr_int(c, "ceil_mode", 0) != 0;
    for (int d = 0; d < w->rank; ++d) {
        w->in[d] = x->dims[d + 2];
        w->kernel[d] = kernel[d];
        if (kernel[d] < 1 || kernel[d] > INT32_MAX)
            return vn_fail(c->err, VN_ERR_RANGE, "%s: kernel of size %lld", c->node->path, (long long)kernel[d]);
        w->begin[d] = strcmp(how, "VALID") == 0 ? 0 : pads[d];
        w->end[d] = strcmp(how, "VALID") == 0 ? 0 : pads[d + w->rank];
        if (same) pad_same(w, d, strcmp(how, "SAME_UPPER") == 0);
        w->out[d] = count_places(w, d, ceil_mode);
        if (faulty(c, F_PADS_SWAPPED)) {
            const int64_t swapped = w->begin[d];
            w->begin[d] = w->end[d];
            w->end[d] = swapped;
        }
        if (ignored(c, "dilations")) w->dilations[d] = 1; /* places stay as they were counted */
        if (!vn_i64_mul(w->in_size, w->in[d], &w->in_size) || !vn_i64_mul(w->out_size, w->out[d], &w->out_size) ||
            !vn_i64_mul(w->kernel_size, w->kernel[d], &w->kernel_size))
            return vn_fail(c->err, VN_ERR_RANGE, "%s: sizes overflow", c->node->path);
    }
    return VN_OK;
}

int64_t *windows_table(const call_t *c, const windows_t *w) {
    size_t n;
    int64_t *table = vn_size_mul((size_t)w->kernel_size, (size_t)w->out_size, &n) ? vn_alloc(n, sizeof *table) : NULL;
    if (!table) {
        no_memory(c);
        return NULL;
    }
    int64_t kernel[MAX_SPATIAL], at[MAX_SPATIAL];
    for (int64_t k = 0; k < w->kernel_size; ++k) {
        unravel(k, w->rank, w->kernel, kernel);
        for (int64_t p = 0; p < w->out_size; ++p) {
            unravel(p, w->rank, w->out, at);
            table[k * w->out_size + p] = window_index(w, at, kernel);
        }
    }
    return table;
}
