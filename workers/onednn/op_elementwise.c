/* op_elementwise.c -- primitives eltwise, binary and prelu: functions of one tensor, of two with broadcasting, PRelu. */
#include <math.h>
#include <string.h>

#include "onednn.h"

/* ---- eltwise ---- */

/* Over the flat tensor: alpha and beta mean what the library's algorithm makes of them. */
static vn_status_t apply(const dnn_t *d, step_call_t *c, dnnl_alg_kind_t algorithm, double alpha, double beta) {
    vn_tensor_t *y;
    dnnl_memory_desc_t md;
    dnnl_eltwise_desc_t op;
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    VN_TRY(step_output(c, 0, c->in[0]->dtype, c->in[0]->rank, c->in[0]->dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, y->dtype, 1, &y->count, &md));
    VN_TRY(dnn_check(c, dnnl_eltwise_forward_desc_init(&op, dnnl_forward_inference, algorithm, &md, (float)alpha, (float)beta), "eltwise"));
    return dnn_run(d, c, &op, NULL, 2, (const dnn_arg_t[]){{DNNL_ARG_SRC, &md, c->in[0]->data}, {DNNL_ARG_DST, &md, y->data}});
}

static vn_status_t plain(const dnn_t *d, step_call_t *c, int algorithm) { return apply(d, c, (dnnl_alg_kind_t)algorithm, 0, 0); }

static vn_status_t leaky(const dnn_t *d, step_call_t *c, int algorithm) {
    (void)algorithm;
    return apply(d, c, dnnl_eltwise_relu, vn_node_float(c->step->node, "alpha", 0.01F), 0);
}

/* Elu and Swish: alpha, 1 where it is not given. */
static vn_status_t with_alpha(const dnn_t *d, step_call_t *c, int algorithm) {
    return apply(d, c, (dnnl_alg_kind_t)algorithm, vn_node_float(c->step->node, "alpha", 1), 0);
}

static vn_status_t quick_gelu(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    return apply(d, c, dnnl_eltwise_swish, vn_node_float(c->step->node, "alpha", 1.702F), 0);
}

static vn_status_t gelu(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    const bool tangent = strcmp(vn_node_string(c->step->node, "approximate", "none"), "tanh") == 0;
    return apply(d, c, tangent ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf, 0, 0);
}

static vn_status_t reciprocal(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    return apply(d, c, dnnl_eltwise_pow, 1, -1);
}

/* Limits: attributes before opset 11, inputs from then on. */
static vn_status_t clip(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    double limits[2] = {-INFINITY, INFINITY};
    for (int k = 0; k < 2; ++k) {
        if (c->step->opset < 11) {
            limits[k] = vn_node_float(c->step->node, k ? "max" : "min", (float)limits[k]);
        } else if (dnn_given(c, 1 + k)) {
            if (c->in[1 + k]->count != 1) return vn_fail(c->err, VN_ERR_SHAPE, "%s (Clip): a limit that is no scalar", c->step->node->path);
            limits[k] = vn_tensor_get_f64(c->in[1 + k], 0);
        }
    }
    if (!(limits[0] <= limits[1])) return step_refuse(c->step->node, c->err, "limits that are not in order");
    return apply(d, c, dnnl_eltwise_clip, limits[0], limits[1]);
}

/* ---- binary and prelu: dims with leading ones ---- */

static vn_status_t padded(const step_call_t *c, const vn_tensor_t *t, int rank, dnnl_memory_desc_t *md) {
    int64_t dims[VN_MAX_RANK];
    for (int i = 0; i < rank - t->rank; ++i) dims[i] = 1;
    if (t->rank) memcpy(dims + (rank - t->rank), t->dims, (size_t)t->rank * sizeof *dims);
    return dnn_desc(c, t->dtype, rank, dims, md);
}

static vn_status_t pair(const dnn_t *d, step_call_t *c, dnnl_alg_kind_t algorithm, bool compares) {
    int64_t dims[VN_MAX_RANK];
    int rank;
    vn_tensor_t *y;
    dnnl_memory_desc_t a, b, out;
    dnnl_binary_desc_t op;
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    VN_TRY(dnn_need(c, 1, c->in[0]->dtype));
    if (c->n_in != 2) return step_refuse(c->step->node, c->err, "%d operands; the primitive has two", c->n_in);
    if (!vn_dtype_is_float(c->in[0]->dtype)) /* its sums of 8-bit integers saturate, ONNX's wrap */
        return step_refuse(c->step->node, c->err, "element type %s", vn_dtype_name(c->in[0]->dtype));
    VN_TRY(vn_broadcast_shape(c->in[0]->rank, c->in[0]->dims, c->in[1]->rank, c->in[1]->dims, &rank, dims, c->err));
    VN_TRY(step_output(c, 0, compares ? VN_BOOL : c->in[0]->dtype, rank, dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(padded(c, c->in[0], rank, &a));
    VN_TRY(padded(c, c->in[1], rank, &b));
    VN_TRY(dnn_desc(c, y->dtype, rank, dims, &out));
    VN_TRY(dnn_check(c, dnnl_binary_desc_init(&op, algorithm, &a, &b, &out), "binary"));
    const dnn_arg_t args[] = {{DNNL_ARG_SRC_0, &a, c->in[0]->data}, {DNNL_ARG_SRC_1, &b, c->in[1]->data}, {DNNL_ARG_DST, &out, y->data}};
    return dnn_run(d, c, &op, NULL, 3, args);
}

static vn_status_t binary(const dnn_t *d, step_call_t *c, int algorithm) { return pair(d, c, (dnnl_alg_kind_t)algorithm, false); }
static vn_status_t compare(const dnn_t *d, step_call_t *c, int algorithm) { return pair(d, c, (dnnl_alg_kind_t)algorithm, true); }

static vn_status_t prelu(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    vn_tensor_t *y;
    dnnl_memory_desc_t x, slope;
    dnnl_prelu_desc_t op;
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    VN_TRY(dnn_need(c, 1, c->in[0]->dtype));
    const vn_tensor_t *in = c->in[0];
    if (c->in[1]->rank > in->rank) return vn_fail(c->err, VN_ERR_SHAPE, "%s (PRelu): the slope has more dimensions", c->step->node->path);
    VN_TRY(step_output(c, 0, in->dtype, in->rank, in->dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, in->dtype, in->rank, in->dims, &x));
    VN_TRY(padded(c, c->in[1], in->rank, &slope));
    VN_TRY(dnn_check(c, dnnl_prelu_forward_desc_init(&op, dnnl_forward_inference, &x, &slope), "prelu"));
    const dnn_arg_t args[] = {{DNNL_ARG_SRC, &x, in->data}, {DNNL_ARG_WEIGHTS, &slope, c->in[1]->data}, {DNNL_ARG_DST, &x, y->data}};
    return dnn_run(d, c, &op, NULL, 3, args);
}

static const op_row_t rows[] = {
    {"", "Relu", plain, dnnl_eltwise_relu},
    {"", "LeakyRelu", leaky, 0},
    {"", "Elu", with_alpha, dnnl_eltwise_elu},
    {"", "Tanh", plain, dnnl_eltwise_tanh},
    {"", "Sigmoid", plain, dnnl_eltwise_logistic},
    {"", "Exp", plain, dnnl_eltwise_exp},
    {"", "Log", plain, dnnl_eltwise_log},
    {"", "Sqrt", plain, dnnl_eltwise_sqrt},
    {"", "Abs", plain, dnnl_eltwise_abs},
    {"", "Softplus", plain, dnnl_eltwise_soft_relu},
    {"", "Swish", with_alpha, dnnl_eltwise_swish},
    {"", "Gelu", gelu, 0},
    {"", "HardSwish", plain, dnnl_eltwise_hardswish},
    {"", "Mish", plain, dnnl_eltwise_mish},
    {"", "Round", plain, dnnl_eltwise_round},
    {"", "Reciprocal", reciprocal, 0},
    {"", "Clip", clip, 0},
    {"com.microsoft", "Gelu", plain, dnnl_eltwise_gelu_erf},
    {"com.microsoft", "QuickGelu", quick_gelu, 0},
    {"", "Add", binary, dnnl_binary_add},
    {"", "Sub", binary, dnnl_binary_sub},
    {"", "Mul", binary, dnnl_binary_mul},
    {"", "Div", binary, dnnl_binary_div},
    {"", "Max", binary, dnnl_binary_max},
    {"", "Min", binary, dnnl_binary_min},
    {"", "Equal", compare, dnnl_binary_eq},
    {"", "Greater", compare, dnnl_binary_gt},
    {"", "GreaterOrEqual", compare, dnnl_binary_ge},
    {"", "Less", compare, dnnl_binary_lt},
    {"", "LessOrEqual", compare, dnnl_binary_le},
    {"", "PRelu", prelu, 0},
};
const op_table_t elementwise_ops = {rows, sizeof rows / sizeof *rows};
