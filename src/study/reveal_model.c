/* reveal_model.c -- one operator instance as a model of its own, for `vernier reveal KIND`. */
#include <string.h>

#include "study/reveal.h"

enum { FLOAT_OPSET = 18, NEW_OPSET = 23, FLOAT_IR = 8, NEW_IR = 10, LARGEST = 1 << 24 };

void vn_reveal_model_clear(vn_reveal_model_t *m) {
    for (int k = 0; m->fixed && k < m->n_slots; ++k) vn_tensor_free(m->fixed[k]);
    vn_free(m->fixed);
    vn_model_free(m->owned);
    *m = (vn_reveal_model_t){0};
}

/* ---- shapes ---- */

static vn_layout_t layout(int rank, const int64_t *dims) {
    vn_layout_t l = {.rank = rank};
    for (int d = 0; d < rank; ++d) {
        l.dims[d] = dims[d];
        l.permutation[d] = d;
    }
    return l;
}
#define LAYOUT(...) layout((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static void input(vn_reveal_model_t *m, vn_layout_t l) {
    m->slot[m->n_inputs] = m->n_slots++;
    m->in[m->n_inputs++] = l;
}

static void output(vn_reveal_model_t *m, vn_dtype_t t, vn_layout_t l) {
    m->dtype = t;
    m->out = l;
    m->out_rank = l.rank;
    memcpy(m->out_dims, l.dims, sizeof m->out_dims);
}

static vn_status_t in_range(int64_t value, int64_t least, const char *what, vn_error_t *err) {
    if (value >= least && value <= LARGEST) return VN_OK;
    return vn_fail(err, VN_ERR_USAGE, "reveal: %s is %lld; give a number from %lld to %d", what, (long long)value, (long long)least,
                   LARGEST);
}

/* ---- one function a kind: layouts, then the node ---- */

typedef struct recipe {
    const vn_sum_op_t *op;
    vn_reveal_model_t *m;
    const char *name, *domain; /* operator */
    int64_t opset, ir;
    vn_dtype_t type[VN_REVEAL_INPUTS]; /* of the inputs; UNDEFINED: the sum's */
    vn_tensor_t *axis;                 /* the last input, fixed; NULL: none */
    vn_status_t (*attributes)(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err);
} recipe_t;

static vn_status_t gemm_attributes(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err) {
    VN_TRY(vn_node_set_int(model, n, "transA", op->transpose_a, err));
    return vn_node_set_int(model, n, "transB", op->transpose_b, err);
}

static vn_status_t product(recipe_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    VN_TRY(in_range(op->m, 1, "m", err));
    VN_TRY(in_range(op->k, 1, "k", err));
    VN_TRY(in_range(op->n, 1, "n", err));
    const bool batched = op->batch > 1, integer = op->dtype == VN_I8 || op->dtype == VN_U8,
               gemm = op->transpose_a || op->transpose_b || op->addend;
    if (gemm && (batched || integer))
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal matmul: transposed operands or an addend only for one product of floats (Gemm)");
    const int64_t ar = op->transpose_a ? op->k : op->m, ac = op->transpose_a ? op->m : op->k;
    const int64_t br = op->transpose_b ? op->n : op->k, bc = op->transpose_b ? op->k : op->n;
    input(r->m, batched ? LAYOUT(op->batch, op->m, op->k) : LAYOUT(ar, ac));
    input(r->m, batched ? LAYOUT(op->batch, op->k, op->n) : LAYOUT(br, bc));
    if (op->addend && op->addend_rows > 1) input(r->m, LAYOUT(op->m, op->n));
    else if (op->addend) input(r->m, LAYOUT(op->n));
    output(r->m, integer ? VN_I32 : op->dtype, batched ? LAYOUT(op->batch, op->m, op->n) : LAYOUT(op->m, op->n));
    r->name = integer ? "MatMulInteger" : gemm ? "Gemm" : "MatMul";
    if (gemm) r->attributes = gemm_attributes;
    return VN_OK;
}

static vn_status_t conv_attributes(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err) {
    VN_TRY(vn_node_set_ints(model, n, "kernel_shape", op->kernel, 2, err));
    VN_TRY(vn_node_set_ints(model, n, "strides", op->stride, 2, err));
    VN_TRY(vn_node_set_ints(model, n, "pads", op->pad, 4, err));
    VN_TRY(vn_node_set_ints(model, n, "dilations", op->dilation, 2, err));
    return vn_node_set_int(model, n, "group", op->groups, err);
}

static vn_status_t convolution(recipe_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    const int64_t image[2] = {op->height, op->width};
    int64_t out[2];
    VN_TRY(in_range(op->batch, 1, "batch", err));
    VN_TRY(in_range(op->channels, 1, "channels", err));
    VN_TRY(in_range(op->filters, 1, "filters", err));
    VN_TRY(in_range(op->groups, 1, "groups", err));
    if (op->channels % op->groups || op->filters % op->groups)
        return vn_fail(err, VN_ERR_USAGE, "reveal conv: channels and filters must be multiples of groups (%lld)", (long long)op->groups);
    for (int d = 0; d < 2; ++d) {
        VN_TRY(in_range(image[d], 1, d ? "width" : "height", err));
        VN_TRY(in_range(op->kernel[d], 1, "kernel", err));
        VN_TRY(in_range(op->stride[d], 1, "stride", err));
        VN_TRY(in_range(op->dilation[d], 1, "dilation", err));
        VN_TRY(in_range(op->pad[d], 0, "pad", err));
        VN_TRY(in_range(op->pad[d + 2], 0, "pad", err));
        const int64_t room = image[d] + op->pad[d] + op->pad[d + 2] - (op->dilation[d] * (op->kernel[d] - 1) + 1);
        if (room < 0) return vn_fail(err, VN_ERR_USAGE, "reveal conv: the kernel is larger than the padded image");
        out[d] = room / op->stride[d] + 1;
    }
    input(r->m, LAYOUT(op->batch, op->channels, op->height, op->width));
    input(r->m, LAYOUT(op->filters, op->channels / op->groups, op->kernel[0], op->kernel[1]));
    if (op->addend) input(r->m, LAYOUT(op->filters));
    output(r->m, op->dtype, LAYOUT(op->batch, op->filters, out[0], out[1]));
    r->name = "Conv";
    r->attributes = conv_attributes;
    return VN_OK;
}

static vn_status_t no_dims_kept(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err) {
    (void)op;
    return vn_node_set_int(model, n, "keepdims", 0, err);
}

static vn_status_t last_axis(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err) {
    (void)op;
    return vn_node_set_int(model, n, "axis", -1, err);
}

static vn_status_t norm_attributes(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err) {
    VN_TRY(last_axis(model, n, op, err));
    return vn_node_set_float(model, n, "epsilon", (float)op->epsilon, err);
}

static vn_status_t nbits_attributes(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err) {
    VN_TRY(vn_node_set_int(model, n, "K", op->k, err));
    VN_TRY(vn_node_set_int(model, n, "N", op->n, err));
    VN_TRY(vn_node_set_int(model, n, "bits", op->bits, err));
    VN_TRY(vn_node_set_int(model, n, "block_size", op->block, err));
    return vn_node_set_int(model, n, "accuracy_level", op->accuracy, err);
}

/* Codes, scales and zero points are weights of the model, as in every model that is shipped: kernels pack them when it is loaded. */
static vn_status_t nbits(recipe_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    VN_TRY(in_range(op->m, 1, "m", err));
    VN_TRY(in_range(op->k, 1, "k", err));
    VN_TRY(in_range(op->n, 1, "n", err));
    VN_TRY(in_range(op->block, 16, "block", err));
    if (op->bits != 2 && op->bits != 4 && op->bits != 8) return vn_fail(err, VN_ERR_USAGE, "reveal: bits is %d; give 2, 4 or 8", op->bits);
    if (op->accuracy < 0 || op->accuracy > 4) return vn_fail(err, VN_ERR_USAGE, "reveal: accuracy is %d; give 0 to 4", op->accuracy);
    if (op->block & (op->block - 1)) return vn_fail(err, VN_ERR_USAGE, "reveal: block is %lld; give a power of two", (long long)op->block);
    const int64_t blocks = (op->k + op->block - 1) / op->block;
    input(r->m, LAYOUT(op->m, op->k));
    input(r->m, LAYOUT(op->n, blocks, op->block * op->bits / 8));
    input(r->m, LAYOUT(op->n, blocks));
    if (op->zero_points) input(r->m, LAYOUT(op->n, (blocks * op->bits + 7) / 8));
    r->type[1] = r->type[3] = VN_U8;
    r->m->constant |= op->zero_points ? 14u : 6u;
    output(r->m, op->dtype, LAYOUT(op->m, op->n));
    r->name = "MatMulNBits";
    r->domain = "com.microsoft";
    r->attributes = nbits_attributes;
    return VN_OK;
}

/* Reductions, norms and scans of m rows of n terms. */
static vn_status_t rows(recipe_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    static const char *const names[VN_SUM_KIND_COUNT] = {
        [VN_SUM_REDUCE_SUM] = "ReduceSum",
        [VN_SUM_REDUCE_MEAN] = "ReduceMean",
        [VN_SUM_REDUCE_L1] = "ReduceL1",
        [VN_SUM_SQUARE] = "ReduceSumSquare",
        [VN_SUM_L2] = "ReduceL2",
        [VN_SUM_LOG_SUM_EXP] = "ReduceLogSumExp",
        [VN_SUM_SOFTMAX] = "Softmax",
        [VN_SUM_LAYER_NORM] = "LayerNormalization",
        [VN_SUM_RMS_NORM] = "RMSNormalization",
        [VN_SUM_CUMSUM] = "CumSum",
    };
    VN_TRY(in_range(op->m, 1, "m (rows)", err));
    VN_TRY(in_range(op->n, 1, "n (terms of a row)", err));
    r->name = names[op->kind];
    input(r->m, LAYOUT(op->m, op->n));
    if (op->kind == VN_SUM_LAYER_NORM || op->kind == VN_SUM_RMS_NORM) {
        input(r->m, LAYOUT(op->n));
        if (op->kind == VN_SUM_LAYER_NORM) input(r->m, LAYOUT(op->n));
        else r->opset = NEW_OPSET, r->ir = NEW_IR;
        r->attributes = norm_attributes;
    } else if (op->kind == VN_SUM_SOFTMAX) {
        r->attributes = last_axis;
    } else if (op->kind == VN_SUM_CUMSUM) {
        VN_TRY(vn_tensor_new(VN_I64, 0, NULL, &r->axis, err));
        vn_tensor_set_i64(r->axis, 0, 1);
    } else {
        VN_TRY(vn_tensor_new(VN_I64, 1, (const int64_t[]){1}, &r->axis, err));
        vn_tensor_set_i64(r->axis, 0, 1);
        r->attributes = no_dims_kept;
        output(r->m, op->dtype, LAYOUT(op->m));
        return VN_OK;
    }
    output(r->m, op->dtype, LAYOUT(op->m, op->n));
    return VN_OK;
}

static vn_status_t pooling(recipe_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    VN_TRY(in_range(op->m, 1, "m (channels)", err));
    VN_TRY(in_range(op->n, 1, "n (positions)", err));
    const bool image = op->height > 0;
    if (image && op->height * op->width != op->n)
        return vn_fail(err, VN_ERR_USAGE, "reveal averagepool: n is %lld, the image has %lld positions", (long long)op->n,
                       (long long)(op->height * op->width));
    input(r->m, image ? LAYOUT(1, op->m, op->height, op->width) : LAYOUT(1, op->m, 1, op->n));
    output(r->m, op->dtype, LAYOUT(1, op->m, 1, 1));
    r->name = "GlobalAveragePool";
    return VN_OK;
}

static vn_status_t attention_attributes(vn_model_t *model, vn_node_t *n, const vn_sum_op_t *op, vn_error_t *err) {
    return op->scale > 0 ? vn_node_set_float(model, n, "scale", (float)op->scale, err) : VN_OK;
}

static vn_status_t attention(recipe_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    VN_TRY(in_range(op->batch, 1, "batch", err));
    VN_TRY(in_range(op->m, 1, "m (queries)", err));
    VN_TRY(in_range(op->heads, 1, "heads", err));
    VN_TRY(in_range(op->kv_heads, 1, "kv-heads", err));
    VN_TRY(in_range(op->keys, 1, "keys", err));
    VN_TRY(in_range(op->head_size, 1, "head-size", err));
    if (op->heads % op->kv_heads) return vn_fail(err, VN_ERR_USAGE, "reveal attention: heads must be a multiple of kv-heads");
    input(r->m, LAYOUT(op->batch, op->heads, op->m, op->head_size));
    input(r->m, LAYOUT(op->batch, op->kv_heads, op->keys, op->head_size));
    input(r->m, LAYOUT(op->batch, op->kv_heads, op->keys, op->head_size));
    output(r->m, op->dtype, LAYOUT(op->batch, op->heads, op->m, op->head_size));
    r->name = "Attention";
    r->opset = NEW_OPSET;
    r->ir = NEW_IR;
    r->attributes = attention_attributes;
    return VN_OK;
}

static vn_status_t (*const recipes[VN_SUM_KIND_COUNT])(recipe_t *, vn_error_t *) = {
    [VN_SUM_MATMUL] = product,
    [VN_SUM_CONV] = convolution,
    [VN_SUM_REDUCE_SUM] = rows,
    [VN_SUM_REDUCE_MEAN] = rows,
    [VN_SUM_REDUCE_L1] = rows,
    [VN_SUM_SQUARE] = rows,
    [VN_SUM_L2] = rows,
    [VN_SUM_LOG_SUM_EXP] = rows,
    [VN_SUM_SOFTMAX] = rows,
    [VN_SUM_LAYER_NORM] = rows,
    [VN_SUM_RMS_NORM] = rows,
    [VN_SUM_CUMSUM] = rows,
    [VN_SUM_ATTENTION] = attention,
    [VN_SUM_AVERAGE_POOL] = pooling,
    [VN_SUM_MATMUL_NBITS] = nbits,
};

static vn_status_t build(recipe_t *r, vn_error_t *err) {
    static const char *const inputs[] = {"x0", "x1", "x2", "x3"};
    static const char *const outputs[] = {"y"};
    vn_reveal_model_t *m = r->m;
    vn_node_t *node;
    if (r->axis) m->n_slots++;
    if (!(m->fixed = vn_alloc((size_t)m->n_slots + 1, sizeof *m->fixed))) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (r->axis) {
        m->fixed[m->n_slots - 1] = r->axis;
        r->axis = NULL;
    }
    VN_TRY(vn_model_new(r->ir, &m->owned, err));
    vn_model_t *model = m->owned;
    m->model = model;
    VN_TRY(vn_model_set_opset(model, "", r->opset, err));
    if (*r->domain) VN_TRY(vn_model_set_opset(model, r->domain, 1, err));
    for (int k = 0; k < m->n_slots; ++k) {
        const vn_dtype_t type = m->fixed[k] ? m->fixed[k]->dtype : r->type[k] != VN_UNDEFINED ? r->type[k] : r->op->dtype;
        VN_TRY(vn_graph_add_input(model->graph, inputs[k], type, -1, NULL, err));
    }
    VN_TRY(vn_graph_add_node(model->graph, "sum", r->name, r->domain, m->n_slots, inputs, 1, outputs, &node, err));
    if (r->attributes) VN_TRY(r->attributes(model, node, r->op, err));
    VN_TRY(vn_graph_add_output(model->graph, outputs[0], m->dtype, -1, NULL, err));
    VN_TRY(vn_model_finish(model, err));
    m->node = &model->graph->nodes[0];
    return VN_OK;
}

vn_status_t vn_reveal_model_of(const vn_sum_op_t *op, unsigned constant, vn_reveal_model_t *out, vn_error_t *err) {
    *out = (vn_reveal_model_t){.constant = constant};
    recipe_t r = {.op = op, .m = out, .domain = "", .opset = FLOAT_OPSET, .ir = FLOAT_IR};
    if ((unsigned)op->kind >= VN_SUM_KIND_COUNT) return vn_fail(err, VN_ERR_USAGE, "reveal: no operator of number %d", (int)op->kind);
    vn_status_t st = recipes[op->kind](&r, err);
    if (st == VN_OK) st = build(&r, err);
    vn_tensor_free(r.axis);
    if (st == VN_OK && constant >> out->n_inputs)
        st = vn_fail(err, VN_ERR_USAGE, "reveal %s: there is no input %d to be constant", vn_sum_kind_name(op->kind), out->n_inputs);
    if (st != VN_OK) vn_reveal_model_clear(out);
    return st;
}
