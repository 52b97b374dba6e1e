/* semantic_window.c -- sliding windows put down otherwise: padding exchanged or moved, dilation or stride without effect, another divisor.
 *
 * The result keeps its shape, so a changed window is completed: what the padding behind the input cannot balance is cut off the operand, or
 * added to it as zeros where a transposed convolution needs more.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/semantic.h"

enum { AXES = 6, LONGEST = 1 << 20 }; /* taps on one axis: more is no picture, and each is looked at */

typedef struct window {
    int n, rank;
    bool transposed, ceil;
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], dilation[AXES], lo[AXES], hi[AXES], extra[AXES];
} window_t;

static int64_t extent(const window_t *w, int k) { return (w->kernel[k] - 1) * w->dilation[k] + 1; }

static bool list(const vn_node_t *n, const char *attr, int64_t count, int64_t standard, int64_t *out) {
    const vn_attr_t *a = vn_node_attr(n, attr);
    for (int64_t i = 0; i < count; ++i) out[i] = standard;
    if (!a || a->count == 0) return true;
    if (a->kind != VN_ATTR_INTS || a->count != count) return false;
    memcpy(out, a->ints, (size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; ++i)
        if (out[i] < 0 || out[i] > INT32_MAX) return false;
    return true;
}

/* auto_pad as explicit padding. */
static bool resolve(const vn_node_t *n, window_t *w) {
    char mode[72];
    vn_name_attr_text(n, "auto_pad", "NOTSET", mode, sizeof mode);
    const bool upper = strcmp(mode, "SAME_UPPER") == 0, lower = strcmp(mode, "SAME_LOWER") == 0;
    if (w->transposed && (upper || lower || vn_node_attr(n, "output_shape")))
        return false; /* three readings; the attribute itself is asked elsewhere */
    for (int k = 0; k < w->n; ++k) {
        if (w->stride[k] < 1 || w->dilation[k] < 1 || w->kernel[k] < 1 || w->kernel[k] > LONGEST) return false;
        if (strcmp(mode, "VALID") == 0) w->lo[k] = w->hi[k] = 0;
        if (upper || lower) {
            const int64_t out = (w->in[k] + w->stride[k] - 1) / w->stride[k], all = (out - 1) * w->stride[k] + extent(w, k) - w->in[k];
            const int64_t total = all > 0 ? all : 0;
            w->lo[k] = upper ? total / 2 : total - total / 2;
            w->hi[k] = total - w->lo[k];
        }
        if (w->transposed) {
            w->out[k] = (w->in[k] - 1) * w->stride[k] + w->extra[k] + extent(w, k) - w->lo[k] - w->hi[k];
            continue;
        }
        const int64_t room = w->in[k] + w->lo[k] + w->hi[k] - extent(w, k);
        if (room < 0) return false;
        w->out[k] = room / w->stride[k] + 1;
        if (w->ceil && room % w->stride[k] && w->out[k] * w->stride[k] < w->in[k] + w->lo[k]) w->out[k]++;
    }
    return true;
}

static bool read_window(vn_variant_t *v, window_t *w) {
    const vn_node_t *n = v->node;
    const bool pool = vn_name_in("AveragePool MaxPool LpPool", n->op);
    vn_dtype_t type;
    int64_t d[VN_MAX_RANK], f[VN_MAX_RANK], both[2 * AXES];
    int rank;
    *w = (window_t){.transposed = vn_name_in("ConvTranspose", n->op)};
    if (!pool && !w->transposed && !vn_name_in("Conv ConvInteger QLinearConv FusedConv DeformConv", n->op)) return false;
    if (!vn_variant_shape(v, 0, &type, &w->rank, d) || w->rank < 3 || w->rank > AXES + 2) return false;
    w->n = w->rank - 2;
    for (int k = 0; k < w->n; ++k) w->in[k] = d[k + 2];
    if (!vn_variant_shape(v, vn_name_in("QLinearConv", n->op) ? 3 : 1, &type, &rank, f)) rank = 0;
    if (!list(n, "kernel_shape", w->n, 0, w->kernel)) return false;
    for (int k = 0; k < w->n && !pool && !w->kernel[k]; ++k) w->kernel[k] = rank == w->rank ? f[k + 2] : 0;
    if (!list(n, "strides", w->n, 1, w->stride) || !list(n, "dilations", w->n, 1, w->dilation) || !list(n, "pads", 2 * w->n, 0, both) ||
        !list(n, "output_padding", w->n, 0, w->extra))
        return false;
    for (int k = 0; k < w->n; ++k) {
        w->lo[k] = both[k];
        w->hi[k] = both[k + w->n];
    }
    w->ceil = pool && vn_name_attr_number(n, "ceil_mode", 0) != 0;
    return resolve(n, w);
}

/* Operand 0 with its spatial axes cut or filled with zeros behind. */
static vn_status_t resize(vn_variant_t *v, const window_t *w, const int64_t *length, bool *possible, vn_error_t *err) {
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    bool same = true;
    for (int k = 0; k < w->n; ++k) {
        same &= length[k] == w->in[k];
        *possible &= length[k] >= 1 && length[k] <= 4 * w->in[k] + 64;
    }
    if (same || !*possible) return VN_OK;
    vn_tensor_t *t = x ? vn_tensor_retain(x) : NULL;
    for (int k = 0; k < w->n && t; ++k) {
        vn_tensor_t *next;
        const vn_status_t s = vn_name_resize(t, k + 2, 0, length[k], &next, err);
        vn_tensor_free(t);
        if (s != VN_OK) {
            vn_tensor_free(next);
            return s;
        }
        t = next;
    }
    *possible = t != NULL;
    return t ? vn_variant_input(v, 0, t, err) : VN_OK;
}

/* Asks the node with this window; `to` holds lo, stride and dilation as wished, its padding behind follows from the output's size. */
static vn_status_t ask(vn_variant_t *v, const window_t *w, window_t *to, const char *cause, const char *words, vn_error_t *err) {
    int64_t pads[2 * AXES], length[AXES];
    bool possible = true, differs = false;
    for (int k = 0; k < w->n; ++k) {
        length[k] = w->in[k];
        if (to->lo[k] < 0) return VN_OK;
        if (w->transposed) {
            const int64_t steps = w->out[k] + to->lo[k] + to->hi[k] - to->extra[k] - extent(to, k);
            if (steps < 0) return VN_OK;
            length[k] = steps / to->stride[k] + 1;
            to->extra[k] += steps % to->stride[k];
        } else {
            const int64_t need = (w->out[k] - 1) * to->stride[k] + extent(to, k) - w->in[k] - to->lo[k];
            to->hi[k] = need > 0 ? need : 0;
            if (need < 0) length[k] = w->in[k] + need;
            if (w->ceil && to->stride[k] == w->stride[k] && extent(to, k) == extent(w, k)) to->hi[k] = w->lo[k] + w->hi[k] - to->lo[k];
            if (to->hi[k] < 0) return VN_OK;
        }
        pads[k] = to->lo[k];
        pads[k + w->n] = to->hi[k];
        differs |= to->lo[k] != w->lo[k] || to->stride[k] != w->stride[k] || to->dilation[k] != w->dilation[k];
    }
    if (!differs) return VN_OK;
    VN_TRY(resize(v, w, length, &possible, err));
    if (possible) {
        VN_TRY(vn_variant_drop_attr(v, "auto_pad", err));
        VN_TRY(vn_variant_ints(v, "pads", pads, 2 * w->n, err));
        VN_TRY(vn_variant_ints(v, "strides", to->stride, w->n, err));
        VN_TRY(vn_variant_ints(v, "dilations", to->dilation, w->n, err));
        if (w->transposed) VN_TRY(vn_variant_ints(v, "output_padding", to->extra, w->n, err));
        return vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s %s gives the whole result.", v->node->op, words);
    }
    vn_variant_reset(v);
    return VN_OK;
}

static vn_status_t padding(vn_variant_t *v, const window_t *w, vn_error_t *err) {
    window_t to = *w;
    for (int k = 0; k < w->n; ++k) {
        to.lo[k] = w->hi[k];
        to.hi[k] = w->lo[k];
    }
    VN_TRY(ask(v, w, &to, "pads-swapped", "with the padding before and after exchanged", err));
    for (int way = 0; way < 3; ++way) { /* all of it behind, all before, in the middle */
        to = *w;
        for (int k = 0; k < w->n; ++k) {
            const int64_t total = w->lo[k] + w->hi[k];
            to.lo[k] = way == 0 ? 0 : way == 1 ? total : total / 2;
            to.hi[k] = total - to.lo[k];
        }
        VN_TRY(ask(v, w, &to, "attribute-ignored:pads",
                   way == 0   ? "with all its padding behind the input"
                   : way == 1 ? "with all its padding before the input"
                              : "with its padding shared evenly",
                   err));
    }
    if (w->transposed) { /* the extra output in front in place of behind */
        to = *w;
        for (int k = 0; k < w->n; ++k) {
            to.lo[k] = w->lo[k] - w->extra[k];
            to.hi[k] = w->hi[k] + w->extra[k];
        }
        VN_TRY(ask(v, w, &to, "attribute-ignored:output_padding", "with the extra output before the others", err));
    }
    if (w->n < 2) return VN_OK;
    to = *w;
    for (int k = 0; k < w->n; ++k) {
        to.lo[k] = w->lo[w->n - 1 - k];
        to.hi[k] = w->hi[w->n - 1 - k];
    }
    return ask(v, w, &to, "attribute-ignored:pads", "with the padding of its axes exchanged", err);
}

enum { SOME_WAYS = 3 };
/* ONE: no effect; FIRST: that of the first axis for all; BACK: in the order of the axes from the last. */
static void changed(const int64_t *is, int n, int way, int64_t *to) {
    for (int k = 0; k < n; ++k) to[k] = way == 0 ? 1 : way == 1 ? is[0] : is[n - 1 - k];
}
static const char *const dilation_words[SOME_WAYS] = {"with dilation 1", "with the first dilation for all axes",
                                                      "with its dilations in reverse order"};
static const char *const stride_words[SOME_WAYS] = {"with stride 1", "with the first stride for all axes",
                                                    "with its strides in reverse order"};

static vn_status_t steps(vn_variant_t *v, const window_t *w, vn_error_t *err) {
    for (int way = 0; way < SOME_WAYS; ++way) {
        for (int start = 0; start < 2; ++start) { /* windows begin where they did, or are centred where they were */
            window_t to = *w;
            changed(w->dilation, w->n, way, to.dilation);
            for (int k = 0; k < w->n && start == 1; ++k) to.lo[k] = w->lo[k] - (extent(w, k) - extent(&to, k)) / 2;
            if (w->transposed && start == 1)
                for (int k = 0; k < w->n; ++k) to.hi[k] = w->hi[k] - (extent(w, k) - extent(&to, k) - (w->lo[k] - to.lo[k]));
            bool differs = false;
            for (int k = 0; k < w->n; ++k) differs |= to.dilation[k] != w->dilation[k];
            if (differs) VN_TRY(ask(v, w, &to, "attribute-ignored:dilations", dilation_words[way], err));
        }
        window_t to = *w;
        changed(w->stride, w->n, way, to.stride);
        memset(to.extra, 0, sizeof to.extra);
        bool differs = false;
        for (int k = 0; k < w->n; ++k) differs |= to.stride[k] != w->stride[k];
        if (differs) VN_TRY(ask(v, w, &to, "attribute-ignored:strides", stride_words[way], err));
    }
    return VN_OK;
}

/* Taps of output o on axis k: inside the input, inside the padded input, and whether the window reaches beyond that. */
static bool taps(const window_t *w, int k, int64_t o, int64_t *inside, int64_t *padded) {
    *inside = *padded = 0;
    for (int64_t t = 0; t < w->kernel[k]; ++t) {
        const int64_t i = o * w->stride[k] + t * w->dilation[k] - w->lo[k];
        *inside += i >= 0 && i < w->in[k];
        *padded += i >= -w->lo[k] && i < w->in[k] + w->hi[k];
    }
    return *padded < w->kernel[k];
}

/* The mean of a window that ceil_mode lets hang over the padded input, divided by the whole kernel. */
static vn_status_t divisor(vn_variant_t *v, const window_t *w, vn_error_t *err) {
    const vn_explain_t *e = v->e;
    const vn_tensor_t *a = e->c->actual;
    if (!vn_name_in("AveragePool", v->node->op) || !w->ceil || !e->x || a->rank != w->rank) return VN_OK;
    for (int k = 0; k < w->n; ++k)
        if (a->dims[k + 2] != w->out[k]) return VN_OK;
    const bool include = vn_name_attr_number(v->node, "count_include_pad", 0) != 0;
    double *y2 = vn_alloc((size_t)e->n, 2 * sizeof *y2);
    if (!y2) return vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    double *room = y2 + e->n;
    for (int every = 0; every < 2; ++every) { /* only along the axes that hang over; along every axis */
        for (int64_t i = 0; i < e->n; ++i) {
            int64_t rest = i;
            double now = 1, then = 1;
            bool over = false;
            for (int k = w->n - 1; k >= 0; --k) {
                int64_t inside, padded;
                const bool beyond = taps(w, k, rest % w->out[k], &inside, &padded);
                rest /= w->out[k];
                over |= beyond;
                now *= (double)(include ? padded : inside);
                then *= (double)(beyond || every ? w->kernel[k] : include ? padded : inside);
            }
            const double ratio = over && then > 0 ? now / then : 1;
            y2[i] = e->y[i] * ratio;
            room[i] = vn_room(e->c->ref, i);
        }
        vn_explain_plane(
            v->e, y2, room, VN_BUG, "ceil-window-divisor", NULL,
            "The sums of the windows that ceil_mode lets hang over are divided by the whole kernel: this gives the whole result.");
    }
    vn_free(y2);
    return VN_OK;
}

/* Pad: begin and end exchanged in the operand (or, before version 11, the attribute); Col2Im and MaxUnpool: in the attribute. */
static vn_status_t pad(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, 1);
    const vn_attr_t *a = vn_node_attr(v->node, "pads");
    if (!vn_name_in("Pad Col2Im MaxUnpool", v->node->op)) return VN_OK;
    if (!a && t && t->dtype == VN_I64 && t->rank == 1 && t->count % 2 == 0) {
        vn_tensor_t *other;
        VN_TRY(vn_tensor_copy(t, &other, err));
        for (int64_t i = 0, n = t->count / 2; i < n; ++i) {
            vn_tensor_set_i64(other, i, vn_tensor_get_i64(t, i + n));
            vn_tensor_set_i64(other, i + n, vn_tensor_get_i64(t, i));
        }
        VN_TRY(vn_variant_input(v, 1, other, err));
    } else if (a && a->kind == VN_ATTR_INTS && a->count % 2 == 0 && a->count <= 2 * VN_MAX_RANK) {
        int64_t other[2 * VN_MAX_RANK];
        for (int64_t i = 0, n = a->count / 2; i < n; ++i) {
            other[i] = a->ints[i + n];
            other[i + n] = a->ints[i];
        }
        VN_TRY(vn_variant_ints(v, "pads", other, a->count, err));
    } else {
        return VN_OK;
    }
    return vn_variant_ask(v, VN_BUG, "pads-swapped", NULL, err, "%s with the padding before and after exchanged gives the whole result.",
                          v->node->op);
}

static vn_status_t windows(vn_variant_t *v, vn_error_t *err) {
    window_t w;
    VN_TRY(pad(v, err));
    if (!read_window(v, &w)) return VN_OK;
    VN_TRY(padding(v, &w, err));
    VN_TRY(steps(v, &w, err));
    return divisor(v, &w, err);
}

vn_status_t vn_name_window(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, windows, err); }
