/* infer_numeric.c -- shapes of products, windows, reductions and signal operators whose operands have open dimensions. */
#include <string.h>

#include "oracle/infer_rules.h"

static const vn_inferred_value_t *operand(const vn_infer_node_t *n, int k) { return &n->in[k]->v; }

static vn_ref_t *refs_new(const vn_infer_node_t *n) { return vn_alloc(n->n_out ? (size_t)n->n_out : 1, sizeof(vn_ref_t)); }

static void refs_free(const vn_infer_node_t *n, vn_ref_t *out) {
    for (int k = 0; k < n->n_out; ++k) vn_ref_free(&out[k]);
    vn_free(out);
}

/* Output k: dimension d of what the row says of numbers, where `open[d]` is false. */
static void masked(vn_infer_node_t *n, int k, const vn_ref_t *r, const bool *open) {
    int64_t d[VN_MAX_RANK];
    for (int i = 0; i < r->rank; ++i) d[i] = open[i] ? -1 : r->dims[i];
    vn_rule_out(n, k, r->dtype, r->rank, d);
}

/* A dimension of operand 0 that is known gives one of the result that is; all other operands must be known in full. */
vn_status_t vn_rule_aligned(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    if (rank < 0) return VN_OK;
    bool open[VN_MAX_RANK], others = true;
    for (int k = 1; k < n->n_in; ++k) others = others && (!n->in[k] || vn_fact_shaped(n->in[k]));
    for (int d = 0; d < rank; ++d) open[d] = !others || operand(n, 0)->dims[d] < 0;
    vn_ref_t *out = refs_new(n);
    if (!out) return vn_infer_fail(n, VN_ERR_NOMEM, "no memory");
    if (others && vn_rule_try(n, 0, out)) {
        for (int k = 0; k < n->n_out; ++k)
            if (out[k].dtype != VN_UNDEFINED && out[k].rank == rank) masked(n, k, &out[k], open);
    } else {
        vn_rule_out(n, 0, VN_UNDEFINED, rank, NULL); /* these operators keep the rank */
    }
    refs_free(n, out);
    return VN_OK;
}

vn_status_t vn_rule_normalised(vn_infer_node_t *n, int param) {
    VN_TRY(vn_rule_aligned(n, param));
    return vn_rule_same(n, 1);
}

vn_status_t vn_rule_convolution(vn_infer_node_t *n, int param) {
    const int kw = param & 15, rank = vn_rule_rank(n, 0) >= 0 ? vn_rule_rank(n, 0) : vn_rule_rank(n, kw);
    const bool transposed = param & 16;
    const int64_t group = vn_node_int(n->node, "group", 1);
    if (rank < 2) return VN_OK;
    int64_t d[VN_MAX_RANK];
    bool open[VN_MAX_RANK], others = vn_rule_rank(n, 0) >= 0;
    for (int k = 0; k < rank; ++k) d[k] = -1;
    const int64_t features = vn_rule_dim(n, kw, transposed ? 1 : 0);
    d[0] = vn_rule_dim(n, 0, 0);
    if (features >= 0 && (!transposed || !vn_i64_mul(features, group, &d[1]))) d[1] = transposed ? -1 : features;
    for (int k = 1; k < n->n_in; ++k) others = others && (!n->in[k] || vn_fact_shaped(n->in[k]));
    vn_rule_out(n, 0, VN_UNDEFINED, rank, d);
    if (!others) return VN_OK;
    for (int k = 0; k < rank; ++k) open[k] = k != 1 && operand(n, 0)->dims[k] < 0;
    int64_t channels = vn_rule_dim(n, kw, transposed ? 0 : 1);
    if (!transposed && (channels < 0 || !vn_i64_mul(channels, group, &channels))) return VN_OK;
    vn_ref_t *out = refs_new(n);
    if (!out) return vn_infer_fail(n, VN_ERR_NOMEM, "no memory");
    if (vn_rule_try(n, channels, out)) masked(n, 0, &out[0], open);
    refs_free(n, out);
    return VN_OK;
}

vn_status_t vn_rule_global(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t d[VN_MAX_RANK];
    for (int k = 0; k < rank; ++k) d[k] = k < 2 ? operand(n, 0)->dims[k] : 1;
    vn_rule_out(n, 0, VN_UNDEFINED, rank, d);
    return VN_OK;
}

/* Attribute of one number per spatial axis, or `fallback` where it is absent. False: it has another length. */
static bool per_axis(const vn_infer_node_t *n, const char *name, int count, int64_t fallback, int64_t *out) {
    int64_t have;
    const int64_t *v = vn_node_ints(n->node, name, &have);
    if (v && have != count) return false;
    for (int k = 0; k < count; ++k) out[k] = v ? v[k] : fallback;
    return true;
}

/* Pooling of codes: channels may stand last; there is no `infer` to ask. */
vn_status_t vn_rule_quantised_pool(vn_infer_node_t *n, int global) {
    const int rank = vn_rule_rank(n, 0), spatial = rank - 2, first = vn_node_int(n->node, "channels_last", 0) ? 1 : 2;
    int64_t d[VN_MAX_RANK], kernel[VN_MAX_RANK], stride[VN_MAX_RANK], dilation[VN_MAX_RANK], pads[2 * VN_MAX_RANK];
    if (rank < 3) return VN_OK;
    memcpy(d, operand(n, 0)->dims, sizeof d);
    const char *mode = vn_node_string(n->node, "auto_pad", "NOTSET");
    const bool same = strncmp(mode, "SAME_", 5) == 0, ceil_mode = vn_node_int(n->node, "ceil_mode", 0) != 0;
    const bool fits = global || (per_axis(n, "kernel_shape", spatial, -1, kernel) && per_axis(n, "strides", spatial, 1, stride) &&
                                 per_axis(n, "dilations", spatial, 1, dilation) && per_axis(n, "pads", 2 * spatial, 0, pads));
    if (!fits) return vn_infer_fail(n, VN_ERR_SHAPE, "attributes do not fit %d spatial axes", spatial);
    for (int k = 0; k < spatial; ++k) {
        int64_t *x = &d[first + k];
        if (global) {
            *x = 1;
            continue;
        }
        if (*x < 0 || kernel[k] < 1 || stride[k] < 1) continue;
        if (same) {
            *x = *x / stride[k] + (*x % stride[k] != 0);
            continue;
        }
        const int64_t room = *x + (strcmp(mode, "NOTSET") == 0 ? pads[k] + pads[spatial + k] : 0) - ((kernel[k] - 1) * dilation[k] + 1);
        if (room < 0) return vn_infer_fail(n, VN_ERR_SHAPE, "the window is larger than spatial axis %d", k);
        int64_t count = room / stride[k] + 1;
        if (ceil_mode && room % stride[k] != 0 && count * stride[k] < *x + pads[k]) ++count;
        *x = count;
    }
    vn_rule_out(n, 0, operand(n, 0)->dtype, rank, d);
    return VN_OK;
}

vn_status_t vn_rule_unpool(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0), spatial = rank - 2;
    int64_t d[VN_MAX_RANK], kernel[VN_MAX_RANK], stride[VN_MAX_RANK], pads[2 * VN_MAX_RANK];
    bool known[VN_MAX_RANK];
    int count;
    if (rank < 2) return VN_OK;
    if (n->n_in > 2 && n->in[2]) {
        if (!vn_fact_ints(n->in[2], VN_MAX_RANK, d, known, &count)) count = 0;
        vn_rule_out(n, 0, operand(n, 0)->dtype, rank, count == rank ? d : NULL);
        return VN_OK;
    }
    memcpy(d, operand(n, 0)->dims, sizeof d);
    if (!per_axis(n, "kernel_shape", spatial, 1, kernel) || !per_axis(n, "strides", spatial, 1, stride) ||
        !per_axis(n, "pads", 2 * spatial, 0, pads))
        return vn_infer_fail(n, VN_ERR_SHAPE, "attributes do not fit %d spatial axes", spatial);
    for (int k = 0; k < spatial; ++k)
        if (d[2 + k] >= 0) d[2 + k] = (d[2 + k] - 1) * stride[k] + kernel[k] - pads[k] - pads[spatial + k];
    vn_rule_out(n, 0, operand(n, 0)->dtype, rank, d);
    return VN_OK;
}

/* ---- products ---- */

vn_status_t vn_rule_matmul(vn_infer_node_t *n, int second) {
    const int ra = vn_rule_rank(n, 0), rb = vn_rule_rank(n, second);
    if (ra < 1 || rb < 1) {
        vn_rule_out(n, 0, VN_UNDEFINED, -1, NULL);
        return VN_OK;
    }
    int64_t d[VN_MAX_RANK];
    const int na = ra > 2 ? ra - 2 : 0, nb = rb > 2 ? rb - 2 : 0, batch = na > nb ? na : nb;
    int r = batch;
    for (int k = 0; k < batch; ++k) {
        const int64_t a = k < batch - na ? 1 : vn_rule_dim(n, 0, k - (batch - na)),
                      b = k < batch - nb ? 1 : vn_rule_dim(n, second, k - (batch - nb));
        d[k] = a == 1 ? b : b == 1 ? a : a < 0 ? b : a;
        if (a > 1 && b > 1 && a != b) return vn_infer_fail(n, VN_ERR_SHAPE, "batches of %lld and %lld", (long long)a, (long long)b);
    }
    const int64_t inner_a = vn_rule_dim(n, 0, -1), inner_b = vn_rule_dim(n, second, rb == 1 ? -1 : -2);
    if (inner_a >= 0 && inner_b >= 0 && inner_a != inner_b)
        return vn_infer_fail(n, VN_ERR_SHAPE, "rows of %lld against columns of %lld", (long long)inner_a, (long long)inner_b);
    if (ra > 1) d[r++] = vn_rule_dim(n, 0, -2);
    if (rb > 1) d[r++] = vn_rule_dim(n, second, -1);
    vn_rule_out(n, 0, VN_UNDEFINED, r, d);
    return VN_OK;
}

vn_status_t vn_rule_gemm(vn_infer_node_t *n, int param) {
    (void)param;
    const bool ta = vn_node_int(n->node, "transA", 0) != 0, tb = vn_node_int(n->node, "transB", 0) != 0;
    const int64_t d[2] = {vn_rule_dim(n, 0, ta ? 1 : 0), vn_rule_dim(n, 1, tb ? 0 : 1)};
    const int64_t ka = vn_rule_dim(n, 0, ta ? 0 : 1), kb = vn_rule_dim(n, 1, tb ? 1 : 0);
    if (ka >= 0 && kb >= 0 && ka != kb)
        return vn_infer_fail(n, VN_ERR_SHAPE, "rows of %lld against columns of %lld", (long long)ka, (long long)kb);
    vn_rule_out(n, 0, VN_UNDEFINED, 2, d);
    return VN_OK;
}

/* ---- reductions ---- */

vn_status_t vn_rule_reduce(vn_infer_node_t *n, int single) {
    const int rank = vn_rule_rank(n, 0);
    const bool keep = vn_node_int(n->node, "keepdims", 1) != 0;
    int64_t axes[VN_MAX_RANK], attr_count = 0, d[VN_MAX_RANK];
    int count = 0, r = 0;
    bool given = false, along[VN_MAX_RANK] = {false};
    const int64_t *attr = single ? NULL : vn_node_ints(n->node, "axes", &attr_count);
    if (rank < 0) {
        vn_rule_out(n, 0, VN_UNDEFINED, -1, NULL);
        return VN_OK;
    }
    if (single) {
        axes[count++] = vn_node_int(n->node, "axis", 0);
    } else if (attr && attr_count <= VN_MAX_RANK) {
        for (int64_t i = 0; i < attr_count; ++i) axes[count++] = attr[i];
    } else if (n->n_in > 1 && n->in[1]) {
        if (!vn_fact_all_ints(n->in[1], VN_MAX_RANK, axes, &count)) {
            vn_rule_out(n, 0, VN_UNDEFINED, keep ? rank : -1, NULL);
            return VN_OK;
        }
    }
    given = count > 0;
    if (!given && vn_node_int(n->node, "noop_with_empty_axes", 0) != 0) return vn_rule_same(n, 1);
    for (int i = 0; i < count; ++i) {
        int at;
        VN_TRY(vn_rule_axis(n, axes[i], rank, &at));
        along[at] = true;
    }
    for (int k = 0; k < rank; ++k)
        if (given && !along[k]) d[r++] = operand(n, 0)->dims[k];
        else if (keep) d[r++] = 1;
    vn_rule_out(n, 0, VN_UNDEFINED, r, d);
    return VN_OK;
}

/* ---- images ---- */

vn_status_t vn_rule_resize(vn_infer_node_t *n, int param) {
    const int rank = vn_rule_rank(n, 0);
    int64_t sizes[VN_MAX_RANK], d[VN_MAX_RANK];
    bool known[VN_MAX_RANK];
    int count;
    const bool sized = n->n_in > 3 && n->in[3];
    if (!sized) return vn_rule_aligned(n, param);
    if (rank < 0) return VN_OK;
    int64_t listed;
    const int64_t *axes = vn_node_ints(n->node, "axes", &listed);
    const bool stretch = strcmp(vn_node_string(n->node, "keep_aspect_ratio_policy", "stretch"), "stretch") == 0;
    for (int k = 0; k < rank; ++k) d[k] = axes ? operand(n, 0)->dims[k] : -1;
    const bool told = vn_infer_has(n, 3) && vn_fact_ints(n->in[3], VN_MAX_RANK, sizes, known, &count) && count == (axes ? listed : rank);
    for (int k = 0; k < (axes ? (int)(listed < VN_MAX_RANK ? listed : VN_MAX_RANK) : rank); ++k) {
        int at = k;
        if (axes) VN_TRY(vn_rule_axis(n, axes[k], rank, &at));
        d[at] = told && stretch && known[k] ? sizes[k] : -1;
    }
    vn_rule_out(n, 0, VN_UNDEFINED, rank, d);
    return VN_OK;
}

vn_status_t vn_rule_grid_sample(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0) >= 0 ? vn_rule_rank(n, 0) : vn_rule_rank(n, 1);
    int64_t d[VN_MAX_RANK];
    for (int k = 0; k < rank; ++k) d[k] = k < 2 ? vn_rule_dim(n, 0, k) : vn_rule_dim(n, 1, k - 1);
    vn_rule_out(n, 0, VN_UNDEFINED, rank, d);
    return VN_OK;
}

vn_status_t vn_rule_affine_grid(vn_infer_node_t *n, int param) {
    (void)param;
    int64_t size[5], d[5];
    bool known[5];
    int count;
    if (!vn_infer_has(n, 1) || !vn_fact_ints(n->in[1], 5, size, known, &count) || count < 4) {
        vn_rule_out(n, 0, VN_UNDEFINED, -1, NULL);
        return VN_OK;
    }
    d[0] = known[0] ? size[0] : vn_rule_dim(n, 0, 0);
    for (int k = 2; k < count; ++k) d[k - 1] = known[k] ? size[k] : -1;
    d[count - 1] = count - 2;
    vn_rule_out(n, 0, VN_UNDEFINED, count, d);
    return VN_OK;
}

/* ---- sequences in time ---- */

vn_status_t vn_rule_recurrent(vn_infer_node_t *n, int param) {
    (void)param;
    const bool batch_first = vn_node_int(n->node, "layout", 0) != 0;
    int64_t hidden = vn_node_int(n->node, "hidden_size", -1);
    if (hidden < 0) hidden = vn_rule_dim(n, 2, -1);
    const int64_t dirs = strcmp(vn_node_string(n->node, "direction", "forward"), "bidirectional") == 0 ? 2 : 1;
    const int64_t steps = vn_rule_dim(n, 0, batch_first ? 1 : 0), batch = vn_rule_dim(n, 0, batch_first ? 0 : 1);
    const int64_t all[2][4] = {{steps, dirs, batch, hidden}, {batch, steps, dirs, hidden}},
                  last[2][3] = {{dirs, batch, hidden}, {batch, dirs, hidden}};
    vn_rule_out(n, 0, VN_UNDEFINED, 4, all[batch_first]);
    vn_rule_out(n, 1, VN_UNDEFINED, 3, last[batch_first]);
    vn_rule_out(n, 2, VN_UNDEFINED, 3, last[batch_first]);
    return VN_OK;
}

static vn_dtype_t named_type(const vn_infer_node_t *n) {
    const int64_t t = vn_node_int(n->node, "output_datatype", VN_F32);
    return t > 0 && t < VN_DTYPE_COUNT ? (vn_dtype_t)t : VN_UNDEFINED;
}

/* A count that is known and makes sense, else -1. */
static int64_t count_of(const vn_infer_node_t *n, int k) {
    int64_t v;
    return vn_infer_has(n, k) && vn_fact_int(n->in[k], &v) && v >= 0 ? v : -1;
}

vn_status_t vn_rule_window(vn_infer_node_t *n, int param) {
    (void)param;
    const int64_t size = count_of(n, 0);
    vn_rule_out(n, 0, named_type(n), 1, &size);
    return VN_OK;
}

vn_status_t vn_rule_mel(vn_infer_node_t *n, int param) {
    (void)param;
    const int64_t length = count_of(n, 1), d[2] = {length < 0 ? -1 : length / 2 + 1, count_of(n, 0)};
    vn_rule_out(n, 0, named_type(n), 2, d);
    return VN_OK;
}

/* Along the axis: dft_length, halved where one side is given; the last dimension holds real and imaginary parts. */
vn_status_t vn_rule_dft(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    const bool onesided = vn_node_int(n->node, "onesided", 0) != 0, inverse = vn_node_int(n->node, "inverse", 0) != 0;
    int64_t d[VN_MAX_RANK], axis = n->version < 20 ? vn_node_int(n->node, "axis", 1) : -2, length = -1;
    if (rank < 2) return VN_OK;
    for (int k = 0; k < rank; ++k) d[k] = -1;
    d[rank - 1] = onesided && inverse ? 1 : 2;
    const bool told = n->version < 20 || !vn_infer_has(n, 2) || vn_fact_int(n->in[2], &axis);
    if (told) {
        int at;
        VN_TRY(vn_rule_axis(n, axis, rank, &at));
        for (int k = 0; k + 1 < rank; ++k) d[k] = operand(n, 0)->dims[k];
        if (vn_infer_has(n, 1)) {
            d[at] = vn_fact_int(n->in[1], &length) && length >= 0 ? length : -1;
        } else if (onesided && inverse && d[at] >= 0) {
            d[at] = 2 * (d[at] - 1);
        }
        if (onesided && !inverse && d[at] >= 0) d[at] = d[at] / 2 + 1;
    }
    vn_rule_out(n, 0, VN_UNDEFINED, rank, d);
    return VN_OK;
}

vn_status_t vn_rule_stft(vn_infer_node_t *n, int param) {
    (void)param;
    const int64_t hop = count_of(n, 1), length = vn_rule_dim(n, 0, 1);
    int64_t frame = vn_infer_has(n, 3) ? count_of(n, 3) : vn_rule_dim(n, 2, 0);
    if (frame < 0 && vn_infer_has(n, 2)) frame = vn_rule_dim(n, 2, 0);
    const bool onesided = vn_node_int(n->node, "onesided", 1) != 0;
    int64_t d[4] = {vn_rule_dim(n, 0, 0), -1, -1, 2};
    if (hop > 0 && frame > 0 && length >= frame) d[1] = (length - frame) / hop + 1;
    if (frame > 0) d[2] = onesided ? frame / 2 + 1 : frame;
    vn_rule_out(n, 0, VN_UNDEFINED, 4, d);
    return VN_OK;
}
