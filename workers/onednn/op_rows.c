/* op_rows.c -- primitives softmax, layer normalisation and reduction. */
#include <string.h>

#include "onednn.h"

static int64_t product(const int64_t *dims, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; ++i) p *= dims[i];
    return p;
}

/* ---- softmax: before opset 13 all axes from `axis` on are one ---- */

static vn_status_t softmax(const dnn_t *d, step_call_t *c, int algorithm) {
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    const vn_tensor_t *x = c->in[0];
    const bool old = c->step->opset < 13;
    int64_t axis = vn_node_int(c->step->node, "axis", old ? 1 : -1), dims[2];
    vn_tensor_t *y;
    dnnl_memory_desc_t md;
    dnnl_softmax_v2_desc_t op;
    VN_TRY(dnn_axis(c, &axis, x->rank));
    VN_TRY(step_output(c, 0, x->dtype, x->rank, x->dims, &y));
    if (y->count == 0) return VN_OK;
    dims[0] = product(x->dims, (int)axis);
    dims[1] = product(x->dims + axis, x->rank - (int)axis);
    if (old) VN_TRY(dnn_desc(c, x->dtype, 2, dims, &md));
    else VN_TRY(dnn_desc(c, x->dtype, x->rank, x->dims, &md));
    VN_TRY(dnn_check(
        c, dnnl_softmax_v2_forward_desc_init(&op, dnnl_forward_inference, (dnnl_alg_kind_t)algorithm, &md, &md, old ? 1 : (int)axis),
        "softmax"));
    return dnn_run(d, c, &op, NULL, 2, (const dnn_arg_t[]){{DNNL_ARG_SRC, &md, x->data}, {DNNL_ARG_DST, &md, y->data}});
}

/* ---- layer normalisation: all axes from `axis` on are one; scale and shift are f32 in the library ---- */

static vn_status_t layer_norm(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    const vn_node_t *node = c->step->node;
    VN_TRY(dnn_one_output(c));
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    VN_TRY(dnn_need(c, 1, VN_F32));
    const bool shifted = dnn_given(c, 2);
    if (shifted) VN_TRY(dnn_need(c, 2, VN_F32));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = vn_node_int(node, "axis", -1);
    VN_TRY(dnn_axis(c, &axis, x->rank));
    const int64_t dims[2] = {product(x->dims, (int)axis), product(x->dims + axis, x->rank - (int)axis)};
    if (c->in[1]->count != dims[1] || (shifted && c->in[2]->count != dims[1]))
        return step_refuse(node, c->err, "a scale or bias that is broadcast");
    vn_tensor_t *y;
    dnnl_memory_desc_t md, scale;
    dnnl_layer_normalization_desc_t op;
    VN_TRY(step_output(c, 0, x->dtype, x->rank, x->dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, x->dtype, 2, dims, &md));
    VN_TRY(dnn_desc(c, VN_F32, 1, &dims[1], &scale));
    const unsigned flags = (unsigned)dnnl_use_scale | (shifted ? (unsigned)dnnl_use_shift : 0U);
    const float epsilon = (float)vn_node_float(node, "epsilon", 1e-5F);
    VN_TRY(dnn_check(c, dnnl_layer_normalization_forward_desc_init(&op, dnnl_forward_inference, &md, NULL, epsilon, flags),
                     "layer normalisation"));
    const dnn_arg_t args[] = {{DNNL_ARG_SRC, &md, x->data},
                              {DNNL_ARG_SCALE, &scale, c->in[1]->data},
                              {DNNL_ARG_DST, &md, y->data},
                              {DNNL_ARG_SHIFT, &scale, shifted ? c->in[2]->data : NULL}};
    return dnn_run(d, c, &op, NULL, shifted ? 4 : 3, args);
}

/* ---- reduction ---- */

/* Which axes go; axes are an input from opset 13 (ReduceSum) or 18 on. None: all, or nothing where noop_with_empty_axes says so. */
static vn_status_t reduced(const step_call_t *c, int rank, bool *gone, bool *nothing) {
    const vn_node_t *node = c->step->node;
    int64_t n = 0, axis;
    const int64_t *attribute = vn_node_ints(node, "axes", &n);
    const vn_tensor_t *input = dnn_given(c, 1) ? c->in[1] : NULL;
    if (input) n = input->count;
    *nothing = n == 0 && vn_node_int(node, "noop_with_empty_axes", 0) != 0;
    for (int i = 0; i < rank; ++i) gone[i] = n == 0 && !*nothing;
    for (int64_t i = 0; i < n; ++i) {
        axis = input ? vn_tensor_get_i64(input, i) : attribute[i];
        VN_TRY(dnn_axis(c, &axis, rank));
        gone[axis] = true;
    }
    return VN_OK;
}

typedef enum reduction { SUM, MEAN, MAXIMUM, MINIMUM, PRODUCT, NORM_1, NORM_2, SQUARES } reduction_t;
static const struct {
    dnnl_alg_kind_t algorithm;
    float p;
} reductions[] = {[SUM] = {dnnl_reduction_sum, 0},
                  [MEAN] = {dnnl_reduction_mean, 0},
                  [MAXIMUM] = {dnnl_reduction_max, 0},
                  [MINIMUM] = {dnnl_reduction_min, 0},
                  [PRODUCT] = {dnnl_reduction_mul, 0},
                  [NORM_1] = {dnnl_reduction_norm_lp_power_p_sum, 1},
                  [NORM_2] = {dnnl_reduction_norm_lp_sum, 2},
                  [SQUARES] = {dnnl_reduction_norm_lp_power_p_sum, 2}};

static vn_status_t reduce(const dnn_t *d, step_call_t *c, int kind) {
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    const vn_tensor_t *x = c->in[0];
    if (!vn_dtype_is_float(x->dtype)) return step_refuse(c->step->node, c->err, "element type %s", vn_dtype_name(x->dtype));
    bool gone[VN_MAX_RANK], nothing, keep = vn_node_int(c->step->node, "keepdims", 1) != 0;
    int64_t ones[VN_MAX_RANK], dims[VN_MAX_RANK];
    int rank = 0;
    vn_tensor_t *y;
    dnnl_memory_desc_t from, to;
    dnnl_reduction_desc_t op;
    VN_TRY(reduced(c, x->rank, gone, &nothing));
    if (nothing) return step_refuse(c->step->node, c->err, "nothing to reduce");
    for (int i = 0; i < x->rank; ++i) {
        ones[i] = gone[i] ? 1 : x->dims[i];
        if (keep || !gone[i]) dims[rank++] = ones[i];
    }
    VN_TRY(step_output(c, 0, x->dtype, rank, dims, &y));
    if (y->count == 0) return VN_OK;
    if (x->count == 0) return step_refuse(c->step->node, c->err, "a sum of no terms");
    VN_TRY(dnn_desc(c, x->dtype, x->rank, x->dims, &from));
    VN_TRY(dnn_desc(c, x->dtype, x->rank, ones, &to));
    VN_TRY(dnn_check(c, dnnl_reduction_desc_init(&op, reductions[kind].algorithm, &from, &to, reductions[kind].p, 0), "reduction"));
    return dnn_run(d, c, &op, NULL, 2, (const dnn_arg_t[]){{DNNL_ARG_SRC, &from, x->data}, {DNNL_ARG_DST, &to, y->data}});
}

static const op_row_t rows[] = {
    {"", "Softmax", softmax, dnnl_softmax_accurate},
    {"", "LogSoftmax", softmax, dnnl_softmax_log},
    {"", "LayerNormalization", layer_norm, 0},
    {"", "ReduceSum", reduce, SUM},
    {"", "ReduceMean", reduce, MEAN},
    {"", "ReduceMax", reduce, MAXIMUM},
    {"", "ReduceMin", reduce, MINIMUM},
    {"", "ReduceProd", reduce, PRODUCT},
    {"", "ReduceL1", reduce, NORM_1},
    {"", "ReduceL2", reduce, NORM_2},
    {"", "ReduceSumSquare", reduce, SQUARES},
};
const op_table_t row_ops = {rows, sizeof rows / sizeof *rows};
