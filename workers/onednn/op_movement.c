/* op_movement.c -- primitives reorder and concat: Transpose, Concat, and Cast between float types. */
#include <stdlib.h>
#include <string.h>

#include "onednn.h"

static vn_status_t copy(const dnn_t *d, step_call_t *c, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, vn_tensor_t *y) {
    dnnl_primitive_desc_t pd = NULL;
    const dnnl_status_t s = dnnl_reorder_primitive_desc_create(&pd, from, d->engine, to, d->engine, NULL);
    return dnn_execute(d, c, s, pd, 2, (const dnn_arg_t[]){{DNNL_ARG_FROM, from, c->in[0]->data}, {DNNL_ARG_TO, to, y->data}});
}

static vn_status_t transpose(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    const vn_tensor_t *x = c->in[0];
    int64_t dims[VN_MAX_RANK], strides[VN_MAX_RANK], own[VN_MAX_RANK], n = 0, step = 1;
    bool seen[VN_MAX_RANK] = {false};
    const int64_t *perm = vn_node_ints(c->step->node, "perm", &n);
    vn_tensor_t *y;
    dnnl_memory_desc_t from, to;
    if (perm && n != x->rank) return vn_fail(c->err, VN_ERR_SHAPE, "%s (Transpose): perm", c->step->node->path);
    for (int i = x->rank - 1; i >= 0; --i) {
        own[i] = step;
        step *= x->dims[i];
    }
    for (int i = 0; i < x->rank; ++i) {
        const int64_t k = perm ? perm[i] : x->rank - 1 - i;
        if (k < 0 || k >= x->rank || seen[k]) return vn_fail(c->err, VN_ERR_RANGE, "%s (Transpose): perm", c->step->node->path);
        seen[k] = true;
        dims[i] = x->dims[k];
        strides[i] = own[k];
    }
    VN_TRY(step_output(c, 0, x->dtype, x->rank, dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, x->dtype, x->rank, dims, &to));
    if (x->rank == 0) return copy(d, c, &to, &to, y);
    VN_TRY(dnn_desc_strided(c, x->dtype, x->rank, dims, strides, &from));
    return copy(d, c, &from, &to, y);
}

static vn_status_t cast(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    const int64_t named = vn_node_int(c->step->node, "to", 0);
    const vn_dtype_t from = c->in[0]->dtype, to = named > 0 && named < VN_DTYPE_COUNT ? (vn_dtype_t)named : VN_UNDEFINED;
    vn_tensor_t *y;
    dnnl_memory_desc_t a, b;
    if (!vn_dtype_is_float(from) || !vn_dtype_is_float(to) || dnn_type(to) == dnnl_data_type_undef)
        return step_refuse(c->step->node, c->err, "%s to %s: float types only", vn_dtype_name(from), vn_dtype_name(to));
    VN_TRY(step_output(c, 0, to, c->in[0]->rank, c->in[0]->dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, from, 1, &y->count, &a));
    VN_TRY(dnn_desc(c, to, 1, &y->count, &b));
    return copy(d, c, &a, &b, y);
}

static vn_status_t concat(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    enum { MOST = 64 };
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    const vn_tensor_t *first = c->in[0];
    int64_t axis = vn_node_int(c->step->node, "axis", 0), dims[VN_MAX_RANK];
    dnnl_memory_desc_t from[MOST], to;
    dnn_arg_t args[MOST + 1];
    vn_tensor_t *y;
    int n = 0;
    if (c->n_in > MOST) return step_refuse(c->step->node, c->err, "more than %d operands", MOST);
    VN_TRY(dnn_axis(c, &axis, first->rank));
    memcpy(dims, first->dims, sizeof dims);
    dims[axis] = 0;
    for (int k = 0; k < c->n_in; ++k) {
        VN_TRY(dnn_need(c, k, first->dtype));
        const vn_tensor_t *x = c->in[k];
        for (int i = 0; i < first->rank; ++i)
            if (x->rank != first->rank || (i != axis && x->dims[i] != first->dims[i]))
                return vn_fail(c->err, VN_ERR_SHAPE, "%s (Concat): operand %d does not fit", c->step->node->path, k);
        dims[axis] += x->dims[axis];
        if (x->count == 0) continue; /* the primitive takes no empty ones */
        VN_TRY(dnn_desc(c, x->dtype, x->rank, x->dims, &from[n]));
        args[n] = (dnn_arg_t){DNNL_ARG_MULTIPLE_SRC + n, &from[n], x->data};
        ++n;
    }
    VN_TRY(step_output(c, 0, first->dtype, first->rank, dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, first->dtype, first->rank, dims, &to));
    args[n] = (dnn_arg_t){DNNL_ARG_DST, &to, y->data};
    dnnl_primitive_desc_t pd = NULL;
    const dnnl_status_t s = dnnl_concat_primitive_desc_create(&pd, &to, n, (int)axis, from, NULL, d->engine);
    return dnn_execute(d, c, s, pd, n + 1, args);
}

static const op_row_t rows[] = {{"", "Transpose", transpose, 0}, {"", "Concat", concat, 0}, {"", "Cast", cast, 0}};
const op_table_t movement_ops = {rows, sizeof rows / sizeof *rows};
