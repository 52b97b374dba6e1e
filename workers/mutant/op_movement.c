/* op_movement.c -- operators that move bits: Transpose, Reshape, Squeeze, Unsqueeze, Flatten, Identity, Expand, Slice, Split, Concat. */
#include <string.h>

#include "mutant.h"

/* Output k becomes a copy of the view; the view is released. */
static vn_status_t set_view(call_t *c, int k, vn_tensor_t *view) {
    vn_status_t s = vn_tensor_contiguous(view, &c->out[k], c->err);
    vn_tensor_free(view);
    return s;
}

static vn_status_t run_identity(call_t *c) {
    VN_TRY(need(c, 0));
    c->out[0] = vn_tensor_retain(c->in[0]);
    return VN_OK;
}

/* In inference it is Identity; the mask would be all true. */
static vn_status_t run_dropout(call_t *c) {
    const bool training = c->n_in > 2 && c->in[2] && c->in[2]->count == 1 && vn_tensor_get_i64(c->in[2], 0) != 0;
    if (training || c->n_out > 1) return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s: Dropout in training, or with its mask", c->node->path);
    return run_identity(c);
}

static vn_status_t run_transpose(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t n;
    const int64_t *perm = vn_node_ints(c->node, "perm", &n);
    if (perm && n != x->rank)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: perm has %lld entries, rank is %d", c->node->path, (long long)n, x->rank);
    int axes[VN_MAX_RANK];
    bool seen[VN_MAX_RANK] = {false};
    for (int d = 0; d < x->rank; ++d) {
        const int64_t p = perm ? perm[d] : x->rank - 1 - d;
        if (p < 0 || p >= x->rank || seen[p]) return vn_fail(c->err, VN_ERR_RANGE, "%s: perm is no permutation", c->node->path);
        seen[axes[d] = (int)p] = true;
    }
    vn_tensor_t *view;
    VN_TRY(vn_tensor_permute(x, axes, &view, c->err));
    return set_view(c, 0, view);
}

/* ---- new shapes over the same elements ---- */

static vn_status_t reshape(call_t *c, int rank, const int64_t *dims) { return vn_tensor_reshape(c->in[0], rank, dims, &c->out[0], c->err); }

static vn_status_t run_reshape(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t *want, n, dims[VN_MAX_RANK], known = 1;
    VN_TRY(int_list(c, 1, "shape", &want, &n));
    const bool allow_zero = attr_int(c, "allowzero", 0) != 0;
    int open = -1;
    vn_status_t s = n >= 0 && n <= VN_MAX_RANK ? VN_OK : vn_fail(c->err, VN_ERR_SHAPE, "%s: no usable shape", c->node->path);
    for (int d = 0; d < n && s == VN_OK; ++d) {
        dims[d] = want[d] == 0 && !allow_zero && d < x->rank ? x->dims[d] : want[d];
        if (dims[d] == -1 && open < 0) open = d;
        else if (dims[d] < 0 || !vn_i64_mul(known, dims[d], &known))
            s = vn_fail(c->err, VN_ERR_SHAPE, "%s: dimension %lld", c->node->path, (long long)dims[d]);
    }
    if (s == VN_OK && open >= 0) {
        if (known == 0) s = vn_fail(c->err, VN_ERR_SHAPE, "%s: -1 beside a zero dimension", c->node->path);
        else dims[open] = x->count / known;
    }
    vn_free(want);
    return s == VN_OK ? reshape(c, (int)n, dims) : s;
}

static vn_status_t run_squeeze(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t *axes, n, dims[VN_MAX_RANK];
    bool drop[VN_MAX_RANK] = {false};
    VN_TRY(int_list(c, 1, "axes", &axes, &n));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < n && s == VN_OK; ++i) {
        s = fix_axis(c, &axes[i], x->rank);
        if (s == VN_OK && x->rank && x->dims[axes[i]] != 1)
            s = vn_fail(c->err, VN_ERR_SHAPE, "%s: axis %lld is not 1", c->node->path, (long long)axes[i]);
        if (s == VN_OK && x->rank) drop[axes[i]] = true;
    }
    vn_free(axes);
    int rank = 0;
    for (int d = 0; d < x->rank; ++d)
        if (!(n < 0 ? x->dims[d] == 1 : drop[d])) dims[rank++] = x->dims[d];
    return s == VN_OK ? reshape(c, rank, dims) : s;
}

static vn_status_t run_unsqueeze(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t *axes, n, dims[VN_MAX_RANK];
    bool fresh[VN_MAX_RANK] = {false};
    VN_TRY(int_list(c, 1, "axes", &axes, &n));
    vn_status_t s = n >= 0 && x->rank + n <= VN_MAX_RANK ? VN_OK : vn_fail(c->err, VN_ERR_SHAPE, "%s: no usable axes", c->node->path);
    for (int64_t i = 0; i < n && s == VN_OK; ++i) {
        s = fix_axis(c, &axes[i], x->rank + (int)n);
        if (s == VN_OK && fresh[axes[i]]) s = vn_fail(c->err, VN_ERR_RANGE, "%s: axis %lld twice", c->node->path, (long long)axes[i]);
        if (s == VN_OK) fresh[axes[i]] = true;
    }
    vn_free(axes);
    for (int d = 0, from = 0; s == VN_OK && d < x->rank + n; ++d) dims[d] = fresh[d] ? 1 : x->dims[from++];
    return s == VN_OK ? reshape(c, x->rank + (int)n, dims) : s;
}

static vn_status_t run_flatten(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = attr_int(c, "axis", 1);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis > x->rank) return vn_fail(c->err, VN_ERR_RANGE, "%s: axis %lld", c->node->path, (long long)axis);
    return reshape(c, 2, (int64_t[]){product_of(x->dims, (int)axis), product_of(x->dims + axis, x->rank - (int)axis)});
}

static vn_status_t run_expand(call_t *c) {
    VN_TRY(need(c, 0));
    int64_t *want, n, dims[VN_MAX_RANK];
    int rank;
    VN_TRY(int_list(c, 1, NULL, &want, &n));
    vn_status_t s = n >= 0 && n <= VN_MAX_RANK ? VN_OK : vn_fail(c->err, VN_ERR_SHAPE, "%s: no usable shape", c->node->path);
    if (s == VN_OK) s = vn_broadcast_shape(c->in[0]->rank, c->in[0]->dims, (int)n, want, &rank, dims, c->err);
    vn_free(want);
    vn_tensor_t *view;
    if (s == VN_OK) s = vn_tensor_broadcast(c->in[0], rank, dims, &view, c->err);
    return s == VN_OK ? set_view(c, 0, view) : s;
}

/* ---- parts ---- */

/* start, end, step of one axis as ONNX means them -> first element and number of elements. */
static int64_t slice_axis(int64_t dim, int64_t *start, int64_t end, int64_t step) {
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
    if (*start < 0) *start += dim;
    if (end < 0 && end >= -dim) end += dim;
    else if (end < 0) end = low;
    *start = *start < (step > 0 ? 0 : low + 1) ? (step > 0 ? 0 : low + 1) : *start > high ? high : *start;
    end = end < low ? low : end > dim ? dim : end;
    const int64_t span = step > 0 ? end - *start : *start - end, size = step > 0 ? step : -step;
    return span <= 0 || dim == 0 ? 0 : (span - 1) / size + 1;
}

static vn_status_t run_slice(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    static const char *const names[] = {"starts", "ends", "axes", NULL}; /* opset 1; later inputs 1 to 4 */
    int64_t *list[4] = {0}, n[4], start[VN_MAX_RANK] = {0}, length[VN_MAX_RANK], step[VN_MAX_RANK];
    vn_status_t s = VN_OK;
    for (int k = 0; k < 4 && s == VN_OK; ++k) s = int_list(c, k + 1, names[k], &list[k], &n[k]);
    if (s == VN_OK && (n[0] < 0 || n[0] != n[1] || n[0] > x->rank || (n[2] >= 0 && n[2] != n[0]) || (n[3] >= 0 && n[3] != n[0])))
        s = vn_fail(c->err, VN_ERR_SHAPE, "%s: starts, ends, axes, steps do not fit together", c->node->path);
    for (int d = 0; d < x->rank; ++d) length[d] = x->dims[d], step[d] = 1;
    for (int64_t i = 0; s == VN_OK && i < n[0]; ++i) {
        int64_t axis = n[2] >= 0 ? list[2][i] : i;
        s = fix_axis(c, &axis, x->rank);
        if (s != VN_OK) break;
        step[axis] = n[3] >= 0 ? list[3][i] : 1;
        if (step[axis] == 0 || step[axis] == INT64_MIN)
            s = vn_fail(c->err, VN_ERR_RANGE, "%s: step %lld", c->node->path, (long long)step[axis]);
        start[axis] = list[0][i];
        if (s == VN_OK) length[axis] = slice_axis(x->dims[axis], &start[axis], list[1][i], step[axis]);
        if (length[axis] == 0) start[axis] = 0;
    }
    for (int k = 0; k < 4; ++k) vn_free(list[k]);
    vn_tensor_t *view;
    if (s == VN_OK) s = vn_tensor_slice(x, start, length, step, &view, c->err);
    return s == VN_OK ? set_view(c, 0, view) : s;
}

static vn_status_t run_split(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = attr_int(c, "axis", 0), *sizes, n, start[VN_MAX_RANK] = {0}, length[VN_MAX_RANK], step[VN_MAX_RANK];
    VN_TRY(fix_axis(c, &axis, x->rank));
    VN_TRY(int_list(c, 1, "split", &sizes, &n));
    vn_status_t s =
        n < 0 || n == c->n_out ? VN_OK : vn_fail(c->err, VN_ERR_SHAPE, "%s: %lld parts, %d outputs", c->node->path, (long long)n, c->n_out);
    const int64_t part = (x->dims[axis] + c->n_out - 1) / c->n_out; /* equal parts, the last may be shorter */
    for (int d = 0; d < x->rank; ++d) length[d] = x->dims[d], step[d] = 1;
    for (int k = 0; k < c->n_out && s == VN_OK; ++k) {
        length[axis] = n >= 0 ? sizes[k] : part;
        if (n < 0 && start[axis] + length[axis] > x->dims[axis]) length[axis] = x->dims[axis] - start[axis];
        vn_tensor_t *view;
        s = vn_tensor_slice(x, start, length, step, &view, c->err);
        if (s == VN_OK) s = set_view(c, k, view);
        start[axis] += length[axis];
    }
    vn_free(sizes);
    return s;
}

static vn_status_t run_concat(call_t *c) {
    for (int k = 0; k < (c->n_in ? c->n_in : 1); ++k) VN_TRY(need(c, k));
    const vn_tensor_t *first = c->in[0];
    const int bits = vn_dtype_bits(first->dtype);
    int64_t axis = attr_int(c, "axis", 0), dims[VN_MAX_RANK], total = 0;
    VN_TRY(fix_axis(c, &axis, first->rank));
    axis = axis_of(c, axis, first->rank);
    if (bits < 8 || first->rank == 0)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (Concat): %s of rank %d", c->node->path, vn_dtype_name(first->dtype), first->rank);
    for (int k = 0; k < c->n_in; ++k) {
        const vn_tensor_t *x = c->in[k];
        bool fits = x->rank == first->rank && x->dtype == first->dtype;
        for (int d = 0; fits && d < x->rank; ++d) fits = d == axis || x->dims[d] == first->dims[d];
        if (!fits) return vn_fail(c->err, VN_ERR_SHAPE, "%s: input %d does not fit input 0", c->node->path, k);
        total += x->dims[axis];
    }
    memcpy(dims, first->dims, sizeof dims);
    dims[axis] = total;
    VN_TRY(vn_tensor_new_raw(first->dtype, first->rank, dims, &c->out[0], c->err));
    const int64_t outer = product_of(dims, (int)axis);
    const size_t unit = (size_t)product_of(dims + axis + 1, first->rank - (int)axis - 1) * (size_t)bits / 8;
    unsigned char *to = c->out[0]->data;
    for (int64_t o = 0; o < outer; ++o)
        for (int k = 0; k < c->n_in; ++k) {
            const size_t n = (size_t)c->in[k]->dims[axis] * unit;
            if (n) memcpy(to, (const unsigned char *)c->in[k]->data + (size_t)o * n, n);
            to += n;
        }
    return VN_OK;
}

static const op_row_t rows[] = {
    {"Identity", run_identity, 0}, {"Dropout", run_dropout, 0},     {"Transpose", run_transpose, 0}, {"Reshape", run_reshape, 0},
    {"Squeeze", run_squeeze, 0},   {"Unsqueeze", run_unsqueeze, 0}, {"Flatten", run_flatten, 0},     {"Expand", run_expand, 0},
    {"Slice", run_slice, 0},       {"Split", run_split, 0},         {"Concat", run_concat, 0},
};
const op_table_t movement_ops = {rows, sizeof rows / sizeof *rows};
