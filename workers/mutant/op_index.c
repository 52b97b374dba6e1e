/* op_index.c -- Gather, NonZero, Shape, Size, Constant, ConstantOfShape: positions, shapes, constants. */
#include <string.h>

#include "mutant.h"

static vn_status_t run_gather(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need(c, 1));
    const vn_tensor_t *x = c->in[0], *ix = c->in[1];
    const int bits = vn_dtype_bits(x->dtype);
    int64_t axis = attr_int(c, "axis", 0), dims[VN_MAX_RANK];
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    const int rank = x->rank - 1 + ix->rank;
    if (bits < 8 || x->rank == 0 || rank > VN_MAX_RANK)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (Gather): %s, result of rank %d", c->node->path, vn_dtype_name(x->dtype), rank);
    memcpy(dims, x->dims, (size_t)axis * sizeof *dims);
    memcpy(dims + axis, ix->dims, (size_t)ix->rank * sizeof *dims);
    memcpy(dims + axis + ix->rank, x->dims + axis + 1, (size_t)(x->rank - axis - 1) * sizeof *dims);
    int64_t *index = int_plane(c, ix);
    if (!index) return VN_ERR_NOMEM;
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < ix->count && s == VN_OK; ++i) {
        if (index[i] < 0) index[i] = faulty(c, F_NEGATIVE_INDEX) ? 0 : index[i] + x->dims[axis];
        if (index[i] < 0 || index[i] >= x->dims[axis])
            s = vn_fail(c->err, VN_ERR_RANGE, "%s: index %lld", c->node->path, (long long)index[i]);
    }
    if (s == VN_OK) s = vn_tensor_new_raw(x->dtype, rank, dims, &c->out[0], c->err);
    if (s == VN_OK && c->out[0]->count) {
        const size_t unit = (size_t)product_of(x->dims + axis + 1, x->rank - (int)axis - 1) * (size_t)bits / 8;
        const int64_t outer = product_of(x->dims, (int)axis);
        unsigned char *to = c->out[0]->data;
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t i = 0; i < ix->count; ++i, to += unit)
                memcpy(to, (const unsigned char *)x->data + (size_t)(o * x->dims[axis] + index[i]) * unit, unit);
    }
    vn_free(index);
    return s;
}

/* [rank, number of elements that are not zero], in row-major order: a shape that only the data decide. */
static vn_status_t run_nonzero(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    double *v = plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    int64_t n = 0;
    for (int64_t i = 0; i < x->count; ++i) n += v[i] != 0;
    vn_status_t s = vn_tensor_new(VN_I64, 2, (int64_t[]){x->rank, n}, &c->out[0], c->err);
    for (int64_t i = 0, k = 0; s == VN_OK && i < x->count; ++i) {
        if (v[i] == 0) continue;
        int64_t rest = i;
        for (int d = x->rank - 1; d >= 0; --d) {
            vn_tensor_set_i64(c->out[0], d * n + k, rest % x->dims[d]);
            rest /= x->dims[d];
        }
        ++k;
    }
    vn_free(v);
    return s;
}

static vn_status_t run_shape(call_t *c) {
    VN_TRY(need(c, 0));
    const int rank = c->in[0]->rank;
    int64_t start = attr_int(c, "start", 0), end = attr_int(c, "end", rank);
    start = start < 0 ? start + rank : start;
    end = end < 0 ? end + rank : end;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    VN_TRY(vn_tensor_new(VN_I64, 1, (int64_t[]){end - start}, &c->out[0], c->err));
    for (int64_t i = start; i < end; ++i) vn_tensor_set_i64(c->out[0], i - start, c->in[0]->dims[i]);
    return VN_OK;
}

static vn_status_t run_size(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(vn_tensor_new(VN_I64, 0, NULL, &c->out[0], c->err));
    vn_tensor_set_i64(c->out[0], 0, c->in[0]->count);
    return VN_OK;
}

static vn_status_t run_constant(call_t *c) {
    const vn_attr_t *value = vn_node_attr(c->node, "value");
    if (value && value->t) return vn_tensor_contiguous(value->t, &c->out[0], c->err);
    int64_t n;
    const float *floats = vn_node_floats(c->node, "value_floats", &n);
    const bool is_int = vn_node_attr(c->node, "value_int") != NULL, is_float = vn_node_attr(c->node, "value_float") != NULL;
    if (floats) {
        VN_TRY(vn_tensor_new(VN_F32, 1, &n, &c->out[0], c->err));
        for (int64_t i = 0; i < n; ++i) vn_tensor_set_f64(c->out[0], i, floats[i]);
        return VN_OK;
    }
    const int64_t *ints = vn_node_ints(c->node, "value_ints", &n);
    if (ints) {
        VN_TRY(vn_tensor_new(VN_I64, 1, &n, &c->out[0], c->err));
        for (int64_t i = 0; i < n; ++i) vn_tensor_set_i64(c->out[0], i, ints[i]);
        return VN_OK;
    }
    if (!is_int && !is_float) return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (Constant): this form of value", c->node->path);
    VN_TRY(vn_tensor_new(is_int ? VN_I64 : VN_F32, 0, NULL, &c->out[0], c->err));
    if (is_int) vn_tensor_set_i64(c->out[0], 0, attr_int(c, "value_int", 0));
    else vn_tensor_set_f64(c->out[0], 0, attr_float(c, "value_float", 0));
    return VN_OK;
}

static vn_status_t run_constant_of_shape(call_t *c) {
    int64_t *dims, n;
    VN_TRY(need(c, 0));
    VN_TRY(int_list(c, 0, NULL, &dims, &n));
    const vn_attr_t *value = vn_node_attr(c->node, "value");
    const vn_tensor_t *v = value ? value->t : NULL;
    const int bits = v ? vn_dtype_bits(v->dtype) : 32;
    vn_status_t s = n <= VN_MAX_RANK && bits >= 8 && (!v || v->count == 1)
                        ? VN_OK
                        : vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (ConstantOfShape): this form", c->node->path);
    if (s == VN_OK) s = vn_tensor_new(v ? v->dtype : VN_F32, (int)n, dims, &c->out[0], c->err);
    if (s == VN_OK && v)
        for (int64_t i = 0; i < c->out[0]->count; ++i)
            memcpy((char *)c->out[0]->data + (size_t)i * (size_t)bits / 8, v->data, (size_t)bits / 8);
    vn_free(dims);
    return s;
}

static const op_row_t rows[] = {
    {"Gather", run_gather, 0}, {"NonZero", run_nonzero, 0},   {"Shape", run_shape, 0},
    {"Size", run_size, 0},     {"Constant", run_constant, 0}, {"ConstantOfShape", run_constant_of_shape, 0},
};
const op_table_t index_ops = {rows, sizeof rows / sizeof *rows};
