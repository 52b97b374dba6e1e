/* infer_common.c -- which rule an operator follows where its row's `infer` cannot say, and what all rules use. */
#include <string.h>

#include "oracle/infer_rules.h"

/* ---- reading facts ---- */

int vn_rule_rank(const vn_infer_node_t *n, int k) { return vn_infer_has(n, k) ? n->in[k]->v.rank : -1; }

int64_t vn_rule_dim(const vn_infer_node_t *n, int k, int d) {
    const int rank = vn_rule_rank(n, k);
    if (d < 0) d += rank;
    return rank >= 0 && d >= 0 && d < rank ? n->in[k]->v.dims[d] : -1;
}

vn_status_t vn_rule_axis(const vn_infer_node_t *n, int64_t axis, int rank, int *out) {
    *out = 0;
    if (axis < -(int64_t)rank || axis >= rank) return vn_infer_fail(n, VN_ERR_RANGE, "axis %lld outside a tensor of rank %d", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return VN_OK;
}

int64_t vn_rule_product(const int64_t *d, int from, int to) {
    int64_t p = 1;
    for (int k = from; k < to; ++k)
        if (d[k] < 0 || !vn_i64_mul(p, d[k], &p)) return -1;
    return p;
}

void vn_rule_out(vn_infer_node_t *n, int k, vn_dtype_t t, int rank, const int64_t *dims) {
    if (k >= n->n_out || !*n->node->outputs[k]) return;
    vn_fact_t *f = &n->out[k];
    if (t == VN_UNDEFINED) t = f->v.dtype != VN_UNDEFINED ? f->v.dtype : vn_infer_has(n, 0) ? n->in[0]->v.dtype : VN_UNDEFINED;
    vn_fact_tensor(f, t, rank, dims);
}

/* ---- the row's `infer` on numbers in place of open dimensions ---- */

static void fill_open(vn_fact_t *f, int k, int64_t fill, int64_t channels) {
    for (int d = 0; d < f->v.rank; ++d)
        if (f->v.dims[d] < 0) f->v.dims[d] = k == 0 && d == 1 && channels > 0 ? channels : fill;
}

static bool try_fill(const vn_infer_node_t *n, int64_t fill, int64_t channels, vn_ref_t *out) {
    vn_infer_node_t sub = *n;
    const size_t ni = n->n_in ? (size_t)n->n_in : 1;
    vn_fact_t *facts = vn_alloc(ni, sizeof *facts);
    const vn_fact_t **in = vn_alloc(ni, sizeof *in);
    vn_operands_t o = {0};
    vn_error_t ignored;
    sub.in = in;
    sub.err = &ignored;
    bool good = facts && in;
    for (int k = 0; k < n->n_in && good; ++k) {
        if (!n->in[k]) continue;
        vn_fact_copy(&facts[k], n->in[k]);
        fill_open(&facts[k], k, fill, channels);
        in[k] = &facts[k];
    }
    good = good && vn_operands_open(&sub, &o) == VN_OK && o.shaped && vn_infer_row(&sub, o.args, o.out, &ignored) == VN_OK;
    for (int k = 0; k < n->n_out && good; ++k) {
        out[k] = o.out[k];
        o.out[k] = (vn_ref_t){0};
    }
    vn_operands_close(&sub, &o);
    for (int k = 0; facts && k < n->n_in; ++k) vn_fact_clear(&facts[k]);
    vn_free(facts);
    vn_free(in);
    return good;
}

bool vn_rule_try(const vn_infer_node_t *n, int64_t channels, vn_ref_t *out) {
    static const int64_t fills[] = {1, 2, 4, 16, 144, 64, 512, 4096}; /* ones broadcast; large ones hold windows; multiples divide */
    if (!n->row->infer) return false;
    for (size_t i = 0; i < sizeof fills / sizeof *fills; ++i)
        if (try_fill(n, fills[i], channels, out)) return true;
    return false;
}

/* Types never depend on dimensions, ranks only on ranks: what the row says of numbers holds (Squeeze without axes has a rule of its own). */
static vn_status_t types_from_row(vn_infer_node_t *n) {
    if (!n->row->infer) return VN_OK;
    vn_ref_t *out = vn_alloc(n->n_out ? (size_t)n->n_out : 1, sizeof *out);
    if (!out) return vn_infer_fail(n, VN_ERR_NOMEM, "no memory");
    if (vn_rule_try(n, 0, out))
        for (int k = 0; k < n->n_out; ++k)
            if (*n->node->outputs[k] && out[k].dtype != VN_UNDEFINED) vn_fact_tensor(&n->out[k], out[k].dtype, out[k].rank, NULL);
    for (int k = 0; k < n->n_out; ++k) vn_ref_free(&out[k]);
    vn_free(out);
    return VN_OK;
}

/* ---- two laws that most operators follow ---- */

vn_status_t vn_rule_same(vn_infer_node_t *n, int outputs) {
    if (!vn_infer_has(n, 0)) return VN_ERR_UNSUPPORTED;
    const vn_inferred_value_t *x = &n->in[0]->v;
    for (int k = 0; k < n->n_out && k < 16; ++k)
        if (outputs >> k & 1) vn_rule_out(n, k, VN_UNDEFINED, x->rank, x->dims);
    return VN_OK;
}

/* Open against 1: open. Open against more than 1: that number, or the graph cannot run. */
static vn_status_t merge(const vn_infer_node_t *n, int k, int64_t a, int64_t b, int64_t *out) {
    *out = a == 1 ? b : b == 1 ? a : a < 0 ? b : a;
    if (a > 1 && b >= 0 && b != 1 && a != b)
        return vn_infer_fail(n, VN_ERR_SHAPE, "input %d (%s) with %lld does not broadcast to %lld", k, n->node->inputs[k], (long long)b, (long long)a);
    return VN_OK;
}

vn_status_t vn_rule_broadcast(vn_infer_node_t *n, int first) {
    int rank = 0;
    int64_t d[VN_MAX_RANK];
    for (int k = first; k < n->n_in; ++k)
        if (n->in[k]) rank = rank < 0 || vn_rule_rank(n, k) < 0 ? -1 : rank > vn_rule_rank(n, k) ? rank : vn_rule_rank(n, k);
    for (int i = 0; i < rank; ++i) {
        d[i] = 1;
        for (int k = first; k < n->n_in; ++k) {
            const int at = n->in[k] ? i - (rank - n->in[k]->v.rank) : -1;
            if (at >= 0) VN_TRY(merge(n, k, d[i], n->in[k]->v.dims[at], &d[i]));
        }
    }
    vn_dtype_t t = VN_UNDEFINED;
    if (strcmp(n->node->op, "Where") == 0 && vn_infer_has(n, 1)) t = n->in[1]->v.dtype;
    static const char *const questions[] = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; ++i)
        if (strcmp(n->node->op, questions[i]) == 0) t = VN_BOOL;
    vn_rule_out(n, 0, t, rank, rank >= 0 ? d : NULL);
    return VN_OK;
}

/* ---- the table ---- */

typedef struct rule {
    const char *name;
    vn_rule_fn fn;
    int param;
    const char *domain; /* NULL: ai.onnx */
} rule_t;

#define MS "com.microsoft"
static const rule_t rules[] = {
    /* elementwise and what else keeps its shape */
    {"Abs", vn_rule_same, 1, NULL}, {"Acos", vn_rule_same, 1, NULL}, {"Acosh", vn_rule_same, 1, NULL}, {"Asin", vn_rule_same, 1, NULL},
    {"Asinh", vn_rule_same, 1, NULL}, {"Atan", vn_rule_same, 1, NULL}, {"Atanh", vn_rule_same, 1, NULL}, {"Bernoulli", vn_rule_same, 1, NULL},
    {"BitwiseNot", vn_rule_same, 1, NULL}, {"Cast", vn_rule_same, 1, NULL}, {"CastLike", vn_rule_same, 1, NULL}, {"Ceil", vn_rule_same, 1, NULL},
    {"Celu", vn_rule_same, 1, NULL}, {"Clip", vn_rule_same, 1, NULL}, {"Cos", vn_rule_same, 1, NULL}, {"Cosh", vn_rule_same, 1, NULL},
    {"CumProd", vn_rule_same, 1, NULL}, {"CumSum", vn_rule_same, 1, NULL}, {"DequantizeLinear", vn_rule_same, 1, NULL},
    {"Dropout", vn_rule_same, 3, NULL}, {"DynamicQuantizeLinear", vn_rule_same, 1, NULL}, {"Elu", vn_rule_same, 1, NULL},
    {"Erf", vn_rule_same, 1, NULL}, {"Exp", vn_rule_same, 1, NULL}, {"EyeLike", vn_rule_same, 1, NULL}, {"Floor", vn_rule_same, 1, NULL},
    {"Gelu", vn_rule_same, 1, NULL}, {"GroupNormalization", vn_rule_same, 1, NULL}, {"HardSigmoid", vn_rule_same, 1, NULL},
    {"HardSwish", vn_rule_same, 1, NULL}, {"Hardmax", vn_rule_same, 1, NULL}, {"InstanceNormalization", vn_rule_same, 1, NULL},
    {"IsInf", vn_rule_same, 1, NULL}, {"IsNaN", vn_rule_same, 1, NULL}, {"LRN", vn_rule_same, 1, NULL}, {"LayerNormalization", vn_rule_aligned, 0, NULL},
    {"LeakyRelu", vn_rule_same, 1, NULL}, {"Log", vn_rule_same, 1, NULL}, {"LogSoftmax", vn_rule_same, 1, NULL},
    {"LpNormalization", vn_rule_same, 1, NULL}, {"MeanVarianceNormalization", vn_rule_same, 1, NULL}, {"Mish", vn_rule_same, 1, NULL},
    {"Neg", vn_rule_same, 1, NULL}, {"Not", vn_rule_same, 1, NULL}, {"PRelu", vn_rule_same, 1, NULL}, {"QuantizeLinear", vn_rule_same, 1, NULL},
    {"RMSNormalization", vn_rule_aligned, 0, NULL}, {"RandomNormalLike", vn_rule_same, 1, NULL}, {"RandomUniformLike", vn_rule_same, 1, NULL},
    {"Reciprocal", vn_rule_same, 1, NULL}, {"Relu", vn_rule_same, 1, NULL}, {"ReverseSequence", vn_rule_same, 1, NULL},
    {"RotaryEmbedding", vn_rule_same, 1, NULL}, {"Round", vn_rule_same, 1, NULL}, {"Scatter", vn_rule_same, 1, NULL},
    {"ScatterElements", vn_rule_same, 1, NULL}, {"ScatterND", vn_rule_same, 1, NULL}, {"Selu", vn_rule_same, 1, NULL},
    {"Shrink", vn_rule_same, 1, NULL}, {"Sigmoid", vn_rule_same, 1, NULL}, {"Sign", vn_rule_same, 1, NULL},
    {"SimplifiedLayerNormalization", vn_rule_aligned, 0, NULL}, {"Sin", vn_rule_same, 1, NULL}, {"Sinh", vn_rule_same, 1, NULL},
    {"Softmax", vn_rule_same, 1, NULL}, {"Softplus", vn_rule_same, 1, NULL}, {"Softsign", vn_rule_same, 1, NULL}, {"Sqrt", vn_rule_same, 1, NULL},
    {"Swish", vn_rule_same, 1, NULL}, {"Tan", vn_rule_same, 1, NULL}, {"Tanh", vn_rule_same, 1, NULL}, {"TensorScatter", vn_rule_same, 1, NULL},
    {"ThresholdedRelu", vn_rule_same, 1, NULL}, {"Trilu", vn_rule_same, 1, NULL}, {"BatchNormalization", vn_rule_batch_norm, 0, NULL},
    {"Gelu", vn_rule_same, 1, MS}, {"FastGelu", vn_rule_same, 1, MS}, {"QuickGelu", vn_rule_same, 1, MS}, {"BiasGelu", vn_rule_same, 1, MS},
    {"RotaryEmbedding", vn_rule_same, 1, MS}, {"SimplifiedLayerNormalization", vn_rule_aligned, 0, MS},
    {"Add", vn_rule_broadcast, 0, NULL}, {"And", vn_rule_broadcast, 0, NULL}, {"BitShift", vn_rule_broadcast, 0, NULL},
    {"BitwiseAnd", vn_rule_broadcast, 0, NULL}, {"BitwiseOr", vn_rule_broadcast, 0, NULL}, {"BitwiseXor", vn_rule_broadcast, 0, NULL},
    {"Div", vn_rule_broadcast, 0, NULL}, {"Equal", vn_rule_broadcast, 0, NULL}, {"Greater", vn_rule_broadcast, 0, NULL},
    {"GreaterOrEqual", vn_rule_broadcast, 0, NULL}, {"Less", vn_rule_broadcast, 0, NULL}, {"LessOrEqual", vn_rule_broadcast, 0, NULL},
    {"Max", vn_rule_broadcast, 0, NULL}, {"Mean", vn_rule_broadcast, 0, NULL}, {"Min", vn_rule_broadcast, 0, NULL}, {"Mod", vn_rule_broadcast, 0, NULL},
    {"Mul", vn_rule_broadcast, 0, NULL}, {"Or", vn_rule_broadcast, 0, NULL}, {"Pow", vn_rule_broadcast, 0, NULL}, {"Sub", vn_rule_broadcast, 0, NULL},
    {"Sum", vn_rule_broadcast, 0, NULL}, {"Where", vn_rule_broadcast, 0, NULL}, {"Xor", vn_rule_broadcast, 0, NULL},
    /* movement */
    {"Identity", vn_rule_identity, 0, NULL}, {"Reshape", vn_rule_reshape, 0, NULL}, {"Flatten", vn_rule_flatten, 0, NULL},
    {"Squeeze", vn_rule_squeeze, 0, NULL}, {"Unsqueeze", vn_rule_unsqueeze, 0, NULL}, {"Transpose", vn_rule_transpose, 0, NULL},
    {"Concat", vn_rule_concat, 0, NULL}, {"Split", vn_rule_split, 0, NULL}, {"Slice", vn_rule_aligned, 0, NULL}, {"Tile", vn_rule_aligned, 0, NULL},
    {"Pad", vn_rule_aligned, 0, NULL}, {"CenterCropPad", vn_rule_aligned, 0, NULL}, {"DepthToSpace", vn_rule_aligned, 0, NULL},
    {"SpaceToDepth", vn_rule_aligned, 0, NULL}, {"Expand", vn_rule_expand, 0, NULL}, {"Gather", vn_rule_gather, 0, NULL},
    {"GatherElements", vn_rule_like, 1, NULL}, {"GatherND", vn_rule_gather_nd, 0, NULL}, {"Shape", vn_rule_shape, 0, NULL},
    {"ConstantOfShape", vn_rule_filled, 0, NULL}, {"Compress", vn_rule_compress, 0, NULL}, {"NonZero", vn_rule_non_zero, 0, NULL},
    {"Unique", vn_rule_unique, 0, NULL}, {"NonMaxSuppression", vn_rule_boxes, 0, NULL}, {"OneHot", vn_rule_one_hot, 0, NULL},
    {"TopK", vn_rule_top, 0, NULL},
    /* sums and windows */
    {"MatMul", vn_rule_matmul, 1, NULL}, {"MatMulInteger", vn_rule_matmul, 1, NULL}, {"QLinearMatMul", vn_rule_matmul, 3, NULL},
    {"Gemm", vn_rule_gemm, 0, NULL}, {"Conv", vn_rule_convolution, 1, NULL}, {"ConvInteger", vn_rule_convolution, 1, NULL},
    {"QLinearConv", vn_rule_convolution, 3, NULL}, {"ConvTranspose", vn_rule_convolution, 1 + 16, NULL}, {"DeformConv", vn_rule_convolution, 1, NULL},
    {"AveragePool", vn_rule_aligned, 0, NULL}, {"MaxPool", vn_rule_aligned, 0, NULL}, {"LpPool", vn_rule_aligned, 0, NULL},
    {"GlobalAveragePool", vn_rule_global, 0, NULL}, {"GlobalMaxPool", vn_rule_global, 0, NULL}, {"GlobalLpPool", vn_rule_global, 0, NULL},
    {"MaxUnpool", vn_rule_unpool, 0, NULL}, {"ReduceL1", vn_rule_reduce, 0, NULL}, {"ReduceL2", vn_rule_reduce, 0, NULL},
    {"ReduceLogSum", vn_rule_reduce, 0, NULL}, {"ReduceLogSumExp", vn_rule_reduce, 0, NULL}, {"ReduceMax", vn_rule_reduce, 0, NULL},
    {"ReduceMean", vn_rule_reduce, 0, NULL}, {"ReduceMin", vn_rule_reduce, 0, NULL}, {"ReduceProd", vn_rule_reduce, 0, NULL},
    {"ReduceSum", vn_rule_reduce, 0, NULL}, {"ReduceSumSquare", vn_rule_reduce, 0, NULL}, {"ArgMax", vn_rule_reduce, 1, NULL},
    {"ArgMin", vn_rule_reduce, 1, NULL}, {"Resize", vn_rule_resize, 0, NULL}, {"Upsample", vn_rule_aligned, 0, NULL},
    {"RNN", vn_rule_recurrent, 1, NULL}, {"GRU", vn_rule_recurrent, 1, NULL}, {"LSTM", vn_rule_recurrent, 1, NULL},
    {"HannWindow", vn_rule_window, 0, NULL}, {"HammingWindow", vn_rule_window, 0, NULL}, {"BlackmanWindow", vn_rule_window, 0, NULL},
    {"MelWeightMatrix", vn_rule_mel, 0, NULL}, {"STFT", vn_rule_stft, 0, NULL}, {"GridSample", vn_rule_grid_sample, 0, NULL},
    {"AffineGrid", vn_rule_affine_grid, 0, NULL},
    {"FusedConv", vn_rule_convolution, 1, MS}, {"QLinearAveragePool", vn_rule_quantised_pool, 0, MS},
    {"QLinearGlobalAveragePool", vn_rule_quantised_pool, 1, MS}, {"SkipLayerNormalization", vn_rule_skip_norm, 0, MS},
    {"SkipSimplifiedLayerNormalization", vn_rule_skip_norm, 0, MS}, {"EmbedLayerNormalization", vn_rule_embed_norm, 0, MS},
    {"Attention", vn_rule_ms_attention, 0, MS}, {"MultiHeadAttention", vn_rule_multi_head, 0, MS},
    {"GroupQueryAttention", vn_rule_group_query, 0, MS}, {"MatMulIntegerToFloat", vn_rule_matmul, 1, MS},
    {"DynamicQuantizeMatMul", vn_rule_matmul, 1, MS},
    /* sequences and optionals */
    {"SequenceConstruct", vn_rule_sequence, 0, NULL}, {"SequenceEmpty", vn_rule_sequence_empty, 0, NULL}, {"SequenceAt", vn_rule_sequence_at, 0, NULL},
    {"SequenceLength", vn_rule_sequence_length, 0, NULL}, {"SequenceInsert", vn_rule_sequence_edit, 1, NULL},
    {"SequenceErase", vn_rule_sequence_edit, -1, NULL}, {"SplitToSequence", vn_rule_split_to_sequence, 0, NULL},
    {"ConcatFromSequence", vn_rule_concat_sequence, 0, NULL}, {"Optional", vn_rule_optional, 0, NULL},
    {"OptionalHasElement", vn_rule_optional_has, 0, NULL}, {"OptionalGetElement", vn_rule_sequence_at, 1, NULL},
};

vn_status_t vn_infer_by_rule(vn_infer_node_t *n) {
    VN_TRY(types_from_row(n));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i) {
        const rule_t *r = &rules[i];
        if (strcmp(n->node->op, r->name) == 0 && strcmp(n->node->domain, r->domain ? r->domain : "") == 0) return r->fn(n, r->param);
    }
    return VN_OK;
}
