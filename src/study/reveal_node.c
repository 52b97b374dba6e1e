/* reveal_node.c -- a node of a user's model as a sum: which operands it multiplies, over which axes it adds. */
#include <stdio.h>
#include <string.h>

#include "study/reveal.h"
#include "vernier/oracle.h"

/* The node, what is known of its values, and the sum that comes out. */
typedef struct scene {
    const vn_model_t *model;
    const vn_node_t *node;
    const vn_inferred_value_t *const *value; /* by input of the node; NULL: not known */
    const bool *frozen;                      /* by input: a weight; NULL: initialisers are */
    vn_sum_op_t *op;
    vn_reveal_model_t *m;
} scene_t;

static vn_status_t no_sum(const scene_t *s, const char *why, vn_error_t *err) {
    return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: %s (%s): %s", s->node->path, s->node->op, why);
}

static vn_status_t shape_of(const scene_t *s, int k, const vn_inferred_value_t **out, vn_error_t *err) {
    *out = k < s->node->n_inputs ? s->value[k] : NULL;
    if (!*out || (*out)->kind != VN_TYPE_TENSOR || (*out)->rank < 0) return no_sum(s, "the shape of an operand is not known", err);
    for (int d = 0; d < (*out)->rank; ++d)
        if ((*out)->dims[d] < 1) return no_sum(s, "a dimension of an operand is not known, or 0", err);
    return VN_OK;
}

static int64_t product_of(const int64_t *dims, int from, int to) {
    int64_t p = 1;
    for (int d = from; d < to; ++d) p *= dims[d];
    return p;
}

static vn_layout_t as_is(int rank, const int64_t *dims) {
    vn_layout_t l = {.rank = rank};
    for (int d = 0; d < rank; ++d) {
        l.dims[d] = dims[d];
        l.permutation[d] = d;
    }
    return l;
}

/* Input `slot` of the node is operand number n_inputs of the sum; an initialiser is a weight. */
static void operand(scene_t *s, int slot, vn_layout_t l) {
    vn_reveal_model_t *m = s->m;
    if (s->frozen ? s->frozen[slot] : vn_graph_init(s->model->graph, s->node->inputs[slot]) != NULL) m->constant |= 1u << m->n_inputs;
    m->slot[m->n_inputs] = slot;
    m->in[m->n_inputs++] = l;
}

static void result(scene_t *s, vn_layout_t l, int rank, const int64_t *dims) {
    s->m->out = l;
    s->m->out_rank = rank;
    memcpy(s->m->out_dims, dims, (size_t)rank * sizeof *dims);
}

/* ---- products ---- */

static vn_status_t matmul(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *a, *b;
    VN_TRY(shape_of(s, 0, &a, err));
    VN_TRY(shape_of(s, 1, &b, err));
    if (a->rank < 2 || b->rank < 2) return no_sum(s, "an operand is a vector", err);
    const int64_t batch_a = product_of(a->dims, 0, a->rank - 2), batch_b = product_of(b->dims, 0, b->rank - 2);
    int64_t dims[VN_MAX_RANK];
    vn_sum_op_t *op = s->op;
    op->k = a->dims[a->rank - 1];
    op->n = b->dims[b->rank - 1];
    op->m = a->dims[a->rank - 2];
    if (batch_b == 1 && b->rank <= a->rank) op->m *= batch_a; /* one B for all: the rows of the batches one below the other */
    else if (a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)(a->rank - 2) * sizeof *a->dims) == 0) op->batch = batch_a;
    else return no_sum(s, "its batches are broadcast", err);
    memcpy(dims, a->dims, (size_t)a->rank * sizeof *dims);
    dims[a->rank - 1] = op->n;
    operand(s, 0, as_is(a->rank, a->dims));
    operand(s, 1, as_is(b->rank, b->dims));
    result(s, as_is(a->rank, dims), a->rank, dims);
    return VN_OK;
}

static vn_status_t integer(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *b;
    VN_TRY(matmul(s, err));
    VN_TRY(shape_of(s, 1, &b, err));
    for (int k = 2; k < s->node->n_inputs; ++k)
        if (*s->node->inputs[k]) return no_sum(s, "zero points; integer products are exact, so that no order shows (order-free)", err);
    if (b->dtype != s->op->dtype)
        return no_sum(s, "operands of two types; integer products are exact, so that no order shows (order-free)", err);
    s->m->dtype = VN_I32;
    return VN_OK;
}

static vn_status_t nbits(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *a, *in;
    vn_sum_op_t *op = s->op;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(shape_of(s, 0, &a, err));
    for (int k = 4; k < s->node->n_inputs; ++k)
        if (*s->node->inputs[k]) return no_sum(s, "reordered groups (g_idx) or a bias", err);
    op->n = vn_node_int(s->node, "N", 0);
    op->k = vn_node_int(s->node, "K", 0);
    op->block = vn_node_int(s->node, "block_size", 0);
    op->bits = (int)vn_node_int(s->node, "bits", 4);
    op->accuracy = (int)vn_node_int(s->node, "accuracy_level", 0);
    op->m = product_of(a->dims, 0, a->rank - 1);
    op->zero_points = s->node->n_inputs > 3 && *s->node->inputs[3];
    if (op->k < 1 || op->n < 1 || op->block < 1 || a->dims[a->rank - 1] != op->k) return no_sum(s, "K, N or block_size", err);
    operand(s, 0, as_is(a->rank, a->dims));
    for (int k = 1; k < (op->zero_points ? 4 : 3); ++k) {
        VN_TRY(shape_of(s, k, &in, err));
        if (in->dtype != (k == 2 ? VN_F32 : VN_U8)) return no_sum(s, "its codes and zero points must be u8, its scales f32", err);
        operand(s, k, as_is(in->rank, in->dims));
    }
    memcpy(dims, a->dims, (size_t)a->rank * sizeof *dims);
    dims[a->rank - 1] = op->n;
    result(s, as_is(a->rank, dims), a->rank, dims);
    return VN_OK;
}

static vn_status_t gemm(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *a, *b, *c;
    vn_sum_op_t *op = s->op;
    VN_TRY(shape_of(s, 0, &a, err));
    VN_TRY(shape_of(s, 1, &b, err));
    if (a->rank != 2 || b->rank != 2) return no_sum(s, "its operands are not matrices", err);
    if (vn_node_float(s->node, "alpha", 1) != 1 || vn_node_float(s->node, "beta", 1) != 1) return no_sum(s, "alpha or beta is not 1", err);
    op->transpose_a = vn_node_int(s->node, "transA", 0) != 0;
    op->transpose_b = vn_node_int(s->node, "transB", 0) != 0;
    op->m = a->dims[op->transpose_a];
    op->k = a->dims[!op->transpose_a];
    op->n = b->dims[!op->transpose_b];
    operand(s, 0, as_is(2, a->dims));
    operand(s, 1, as_is(2, b->dims));
    if (s->node->n_inputs > 2 && *s->node->inputs[2]) {
        VN_TRY(shape_of(s, 2, &c, err));
        const bool row = product_of(c->dims, 0, c->rank) == op->n && c->rank > 0 && c->dims[c->rank - 1] == op->n;
        if (!row && !(c->rank == 2 && c->dims[0] == op->m && c->dims[1] == op->n)) return no_sum(s, "C is broadcast over columns", err);
        op->addend = true;
        op->addend_rows = row ? 1 : op->m;
        operand(s, 2, as_is(c->rank, c->dims));
    }
    const int64_t dims[2] = {op->m, op->n};
    result(s, as_is(2, dims), 2, dims);
    return VN_OK;
}

static vn_status_t convolution(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *x, *w, *b;
    vn_sum_op_t *op = s->op;
    int64_t count;
    VN_TRY(shape_of(s, 0, &x, err));
    VN_TRY(shape_of(s, 1, &w, err));
    if (x->rank != 4 || w->rank != 4) return no_sum(s, "only convolutions of images (two spatial axes) are read", err);
    const char *automatic = vn_node_string(s->node, "auto_pad", "NOTSET");
    if (strcmp(automatic, "NOTSET") != 0 && strcmp(automatic, "VALID") != 0) return no_sum(s, "auto_pad", err);
    const int64_t *stride = vn_node_ints(s->node, "strides", &count);
    for (int d = 0; d < 2; ++d) op->stride[d] = stride && count == 2 ? stride[d] : 1;
    const int64_t *dilation = vn_node_ints(s->node, "dilations", &count);
    for (int d = 0; d < 2; ++d) op->dilation[d] = dilation && count == 2 ? dilation[d] : 1;
    const int64_t *pad = vn_node_ints(s->node, "pads", &count);
    for (int d = 0; d < 4; ++d) op->pad[d] = pad && count == 4 ? pad[d] : 0;
    op->groups = vn_node_int(s->node, "group", 1);
    op->batch = x->dims[0];
    op->channels = x->dims[1];
    op->height = x->dims[2];
    op->width = x->dims[3];
    op->filters = w->dims[0];
    op->kernel[0] = w->dims[2];
    op->kernel[1] = w->dims[3];
    int64_t dims[4] = {op->batch, op->filters, 0, 0};
    for (int d = 0; d < 2; ++d) {
        const int64_t room = x->dims[2 + d] + op->pad[d] + op->pad[d + 2] - op->dilation[d] * (op->kernel[d] - 1) - 1;
        if (room < 0 || op->stride[d] < 1) return no_sum(s, "its window does not fit", err);
        dims[2 + d] = room / op->stride[d] + 1;
    }
    operand(s, 0, as_is(4, x->dims));
    operand(s, 1, as_is(4, w->dims));
    if (s->node->n_inputs > 2 && *s->node->inputs[2]) {
        VN_TRY(shape_of(s, 2, &b, err));
        op->addend = true;
        operand(s, 2, as_is(b->rank, b->dims));
    }
    result(s, as_is(4, dims), 4, dims);
    return VN_OK;
}

/* ---- rows: reductions over some axes, everything over one axis ---- */

/* Rows first, terms last: dims of the sum's [m, n] before the axes are put back, and the permutation that does it. */
static vn_layout_t split(int rank, const int64_t *dims, unsigned reduced) {
    vn_layout_t l = {.rank = rank};
    int order[VN_MAX_RANK], at = 0; /* order[p]: the tensor's axis at place p */
    for (int d = 0; d < rank; ++d)
        if (!(reduced >> d & 1)) order[at++] = d;
    for (int d = 0; d < rank; ++d)
        if (reduced >> d & 1) order[at++] = d;
    for (int p = 0; p < rank; ++p) {
        l.dims[p] = dims[order[p]];
        l.permutation[order[p]] = p;
    }
    return l;
}

static vn_status_t axes_of(const scene_t *s, int rank, unsigned *mask, vn_error_t *err) {
    int64_t count = 0;
    const int64_t *list = vn_node_ints(s->node, "axes", &count);
    *mask = 0;
    for (int64_t i = 0; i < count; ++i) *mask |= 1u << (list[i] < 0 ? list[i] + rank : list[i]);
    if (!list && s->node->n_inputs > 1 && *s->node->inputs[1]) {
        const vn_inferred_value_t *v = s->value[1];
        if (!v || !v->value || v->value->kind != VN_VALUE_TENSOR) return no_sum(s, "its axes are not known before the run", err);
        for (int64_t i = 0; i < v->value->tensor->count; ++i) {
            const int64_t axis = vn_tensor_get_i64(v->value->tensor, i);
            if (axis < -rank || axis >= rank) return no_sum(s, "an axis is out of range", err);
            *mask |= 1u << (axis < 0 ? axis + rank : axis);
        }
    }
    if (!*mask && vn_node_int(s->node, "noop_with_empty_axes", 0) == 0) *mask = (1u << rank) - 1;
    return *mask ? VN_OK : no_sum(s, "it reduces nothing", err);
}

static vn_status_t set_rows(scene_t *s, const vn_inferred_value_t *x, unsigned mask) {
    s->op->m = s->op->n = 1;
    for (int d = 0; d < x->rank; ++d) *(mask >> d & 1 ? &s->op->n : &s->op->m) *= x->dims[d];
    operand(s, 0, split(x->rank, x->dims, mask));
    return VN_OK;
}

static vn_status_t reduction(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *x;
    unsigned mask;
    int64_t dims[VN_MAX_RANK];
    int rank = 0;
    VN_TRY(shape_of(s, 0, &x, err));
    VN_TRY(axes_of(s, x->rank, &mask, err));
    VN_TRY(set_rows(s, x, mask));
    const bool keep = vn_node_int(s->node, "keepdims", 1) != 0;
    for (int d = 0; d < x->rank; ++d)
        if (!(mask >> d & 1)) dims[rank++] = x->dims[d];
        else if (keep) dims[rank++] = 1;
    result(s, as_is(rank, dims), rank, dims);
    return VN_OK;
}

static vn_status_t along(scene_t *s, const vn_inferred_value_t *x, unsigned mask) {
    (void)set_rows(s, x, mask);
    result(s, s->m->in[0], x->rank, x->dims);
    return VN_OK;
}

static vn_status_t softmax(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *x;
    VN_TRY(shape_of(s, 0, &x, err));
    const int64_t opset = vn_model_opset(s->model, ""), axis = vn_node_int(s->node, "axis", opset >= 13 ? -1 : 1);
    const int64_t at = axis < 0 ? axis + x->rank : axis;
    if (at < 0 || at >= x->rank) return no_sum(s, "its axis is out of range", err);
    /* before opset 13 everything from the axis on is one row */
    const unsigned mask = opset >= 13 ? 1u << at : ((1u << x->rank) - 1) & ~((1u << at) - 1);
    return along(s, x, mask);
}

static vn_status_t norm(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *x, *w;
    VN_TRY(shape_of(s, 0, &x, err));
    const int64_t axis = vn_node_int(s->node, "axis", -1), at = axis < 0 ? axis + x->rank : axis;
    if (at < 0 || at >= x->rank) return no_sum(s, "its axis is out of range", err);
    s->op->epsilon = vn_node_float(s->node, "epsilon", 1e-5f);
    VN_TRY(along(s, x, ((1u << x->rank) - 1) & ~((1u << at) - 1)));
    for (int k = 1; k < 3 && k < s->node->n_inputs && *s->node->inputs[k]; ++k) {
        VN_TRY(shape_of(s, k, &w, err));
        if (product_of(w->dims, 0, w->rank) != s->op->n) return no_sum(s, "scale or bias is broadcast", err);
        operand(s, k, as_is(w->rank, w->dims));
    }
    if (s->op->kind == VN_SUM_LAYER_NORM && s->m->n_inputs < 3) return no_sum(s, "it has no bias", err);
    return VN_OK;
}

static vn_status_t cumulative(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *x, *axis;
    VN_TRY(shape_of(s, 0, &x, err));
    if (vn_node_int(s->node, "exclusive", 0) || vn_node_int(s->node, "reverse", 0)) return no_sum(s, "exclusive or reverse", err);
    axis = s->node->n_inputs > 1 ? s->value[1] : NULL;
    if (!axis || !axis->value || axis->value->kind != VN_VALUE_TENSOR) return no_sum(s, "its axis is not known before the run", err);
    int64_t at = vn_tensor_get_i64(axis->value->tensor, 0);
    if (at < 0) at += x->rank;
    if (at < 0 || at >= x->rank) return no_sum(s, "its axis is out of range", err);
    return along(s, x, 1u << at);
}

static vn_status_t pooling(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *x;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(shape_of(s, 0, &x, err));
    if (x->rank < 3) return no_sum(s, "it has no positions", err);
    s->op->m = x->dims[0] * x->dims[1];
    s->op->n = product_of(x->dims, 2, x->rank);
    operand(s, 0, as_is(x->rank, x->dims));
    for (int d = 0; d < x->rank; ++d) dims[d] = d < 2 ? x->dims[d] : 1;
    result(s, as_is(x->rank, dims), x->rank, dims);
    return VN_OK;
}

/* [batch, heads, length, size], or the heads side by side: [batch, length, heads * size]. */
static vn_layout_t heads_of(const vn_inferred_value_t *x, int64_t heads) {
    if (x->rank == 4) return as_is(4, x->dims);
    const int64_t dims[4] = {x->dims[0], heads, x->dims[1], x->dims[2] / heads};
    vn_layout_t l = as_is(4, dims);
    l.permutation[1] = 2;
    l.permutation[2] = 1;
    l.stored_rank = 3;
    memcpy(l.stored, x->dims, 3 * sizeof *l.stored);
    return l;
}

static vn_status_t attention(scene_t *s, vn_error_t *err) {
    const vn_inferred_value_t *in[3];
    const bool contrib = *s->node->domain != '\0';
    int64_t heads[3];
    vn_layout_t l[3];
    heads[0] = vn_node_int(s->node, contrib ? "num_heads" : "q_num_heads", 0);
    heads[1] = heads[2] = contrib ? heads[0] : vn_node_int(s->node, "kv_num_heads", 0);
    for (int k = 0; k < 3; ++k) {
        VN_TRY(shape_of(s, k, &in[k], err));
        if (in[k]->rank == 4 && !contrib) heads[k] = in[k]->dims[1];
        else if (in[k]->rank != 3)
            return no_sum(s, "its operands are not [batch, heads, length, size] or [batch, length, heads * size]", err);
        if (heads[k] < 1 || (in[k]->rank == 3 && in[k]->dims[2] % heads[k])) return no_sum(s, "its number of heads", err);
        if (in[k]->rank != in[0]->rank) return no_sum(s, "operands of three and of four axes", err);
        l[k] = heads_of(in[k], heads[k]);
    }
    for (int i = 3; i < s->node->n_inputs; ++i)
        if (*s->node->inputs[i]) return no_sum(s, "a mask, a bias or a cache", err);
    if (vn_node_int(s->node, "is_causal", 0) || vn_node_int(s->node, "unidirectional", 0) || vn_node_float(s->node, "softcap", 0) != 0)
        return no_sum(s, "is_causal or softcap", err);
    if (l[2].dims[3] != l[0].dims[3]) return no_sum(s, "the size of values differs from that of keys", err);
    vn_sum_op_t *op = s->op;
    op->batch = l[0].dims[0];
    op->heads = heads[0];
    op->m = l[0].dims[2];
    op->head_size = l[0].dims[3];
    op->kv_heads = heads[1];
    op->keys = l[1].dims[2];
    op->scale = vn_node_float(s->node, "scale", 0);
    for (int k = 0; k < 3; ++k) operand(s, k, l[k]);
    result(s, l[0], in[0]->rank, in[0]->dims);
    return VN_OK;
}

static const struct {
    const char *op; /* with its domain before it, unless that is the default one */
    vn_sum_kind_t kind;
    vn_status_t (*read)(scene_t *, vn_error_t *);
} known[] = {
    {"MatMul", VN_SUM_MATMUL, matmul},
    {"Gemm", VN_SUM_MATMUL, gemm},
    {"MatMulInteger", VN_SUM_MATMUL, integer},
    {"Conv", VN_SUM_CONV, convolution},
    {"ReduceSum", VN_SUM_REDUCE_SUM, reduction},
    {"ReduceMean", VN_SUM_REDUCE_MEAN, reduction},
    {"ReduceL1", VN_SUM_REDUCE_L1, reduction},
    {"ReduceSumSquare", VN_SUM_SQUARE, reduction},
    {"ReduceL2", VN_SUM_L2, reduction},
    {"ReduceLogSumExp", VN_SUM_LOG_SUM_EXP, reduction},
    {"Softmax", VN_SUM_SOFTMAX, softmax},
    {"LayerNormalization", VN_SUM_LAYER_NORM, norm},
    {"RMSNormalization", VN_SUM_RMS_NORM, norm},
    {"CumSum", VN_SUM_CUMSUM, cumulative},
    {"GlobalAveragePool", VN_SUM_AVERAGE_POOL, pooling},
    {"Attention", VN_SUM_ATTENTION, attention},
    {"com.microsoft:MultiHeadAttention", VN_SUM_ATTENTION, attention},
    {"com.microsoft:MatMulNBits", VN_SUM_MATMUL_NBITS, nbits},
};

static bool is_known(size_t k, const vn_node_t *n) {
    const char *colon = strchr(known[k].op, ':');
    const size_t domain = colon ? (size_t)(colon - known[k].op) : 0;
    return strcmp(colon ? colon + 1 : known[k].op, n->op) == 0 && strlen(n->domain) == domain &&
           strncmp(known[k].op, n->domain, domain) == 0;
}

bool vn_reveal_reads(const vn_node_t *n) {
    for (size_t k = 0; k < sizeof known / sizeof *known; ++k)
        if (is_known(k, n)) return true;
    return false;
}

/* Inputs that are no operands keep the value that the model gives them. */
static vn_status_t fix_others(scene_t *s, vn_error_t *err) {
    vn_reveal_model_t *m = s->m;
    m->n_slots = s->node->n_inputs;
    if (!(m->fixed = vn_alloc((size_t)m->n_slots + 1, sizeof *m->fixed))) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int slot = 0; slot < m->n_slots; ++slot) {
        bool is_operand = !*s->node->inputs[slot];
        for (int k = 0; k < m->n_inputs; ++k) is_operand |= m->slot[k] == slot;
        if (is_operand) continue;
        const vn_inferred_value_t *v = s->value[slot];
        if (!v || !v->value || v->value->kind != VN_VALUE_TENSOR) return no_sum(s, "an input is not known before the run", err);
        m->fixed[slot] = vn_tensor_retain(v->value->tensor);
    }
    return VN_OK;
}

static vn_status_t read_node(scene_t *s, vn_error_t *err) {
    for (size_t k = 0; k < sizeof known / sizeof *known; ++k) {
        if (!is_known(k, s->node)) continue;
        const vn_inferred_value_t *x;
        VN_TRY(shape_of(s, 0, &x, err));
        s->op->kind = known[k].kind;
        s->op->dtype = s->m->dtype = x->dtype;
        VN_TRY(known[k].read(s, err));
        return fix_others(s, err);
    }
    return no_sum(
        s, "no operator whose sum can be read; products, convolutions, reductions, norms, softmax, CumSum, Attention and MatMulNBits can",
        err);
}

vn_status_t vn_reveal_model_node(const char *path, const char *node, int n_shapes, const vn_shape_arg_t *shapes, uint64_t seed,
                                 vn_sum_op_t *op, vn_reveal_model_t *out, vn_error_t *err) {
    *out = (vn_reveal_model_t){0};
    memset(op, 0, sizeof *op);
    vn_bundle_t inputs = {0};
    vn_inferred_t inferred = {0};
    const vn_inferred_value_t **value = NULL;
    scene_t s = {.op = op, .m = out};
    vn_status_t st = vn_model_read(path, &out->owned, err);
    for (int k = 0; st == VN_OK && k < out->owned->graph->n_nodes && !s.node; ++k)
        if (strcmp(out->owned->graph->nodes[k].path, node) == 0) s.node = &out->owned->graph->nodes[k];
    if (st == VN_OK && !s.node)
        st = vn_fail(err, VN_ERR_NOTFOUND, "%s: the main graph has no node '%s' (rows of vernier check name them)", path, node);
    if (st == VN_OK) st = vn_probe_inputs(out->owned, seed, n_shapes, shapes, &inputs, err);
    if (st == VN_OK) st = vn_oracle_infer(out->owned, &inputs, &inferred, err);
    if (st == VN_OK && !(value = vn_alloc((size_t)s.node->n_inputs + 1, sizeof *value))) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; st == VN_OK && k < s.node->n_inputs; ++k)
        if (*s.node->inputs[k]) value[k] = vn_inferred_find(&inferred, s.node->inputs[k]);
    s.model = out->model = out->owned;
    s.value = value;
    out->node = s.node;
    if (st == VN_OK) st = read_node(&s, err);
    vn_free(value);
    vn_inferred_free(&inferred);
    vn_bundle_free(&inputs);
    if (st != VN_OK) vn_reveal_model_clear(out);
    return st;
}

vn_status_t vn_reveal_model_task(const vn_model_t *model, const vn_node_t *node, const vn_value_t *const *inputs, const bool *frozen,
                                 vn_sum_op_t *op, vn_reveal_model_t *out, vn_error_t *err) {
    *out = (vn_reveal_model_t){.model = model, .node = node};
    memset(op, 0, sizeof *op);
    const size_t n = (size_t)node->n_inputs + 1;
    const vn_inferred_value_t **value = vn_alloc(n, sizeof *value);
    vn_inferred_value_t *held = vn_alloc(n, sizeof *held);
    scene_t s = {.op = op, .m = out, .model = model, .node = node, .value = value, .frozen = frozen};
    vn_status_t st = value && held ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; st == VN_OK && k < node->n_inputs; ++k) {
        if (!inputs[k] || inputs[k]->kind != VN_VALUE_TENSOR) continue;
        const vn_tensor_t *t = inputs[k]->tensor;
        held[k] =
            (vn_inferred_value_t){.kind = VN_TYPE_TENSOR, .dtype = t->dtype, .rank = t->rank, .value = (vn_value_t *)(uintptr_t)inputs[k]};
        memcpy(held[k].dims, t->dims, (size_t)t->rank * sizeof *t->dims);
        value[k] = &held[k];
    }
    if (st == VN_OK) st = read_node(&s, err);
    vn_free(value);
    vn_free(held);
    if (st != VN_OK) vn_reveal_model_clear(out);
    return st;
}
