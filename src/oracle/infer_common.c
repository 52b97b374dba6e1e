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
    if (t == VN_UNDEFINED) t = f->v.dtype != VN_UNDEFINED ? f->v.dtype : n->fallback;
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
    vn_rule_out(n, 0, VN_UNDEFINED, rank, rank >= 0 ? d : NULL);
    return VN_OK;
}

/* ---- the table ---- */

/* Type of the result where the row could not be asked: a dtype, or one of these. */
enum { TYPE_FIRST = 0, TYPE_NONE = -1, TYPE_SECOND = -2, TYPE_TO = -3 }; /* of operand 0; not known; of operand 1; attribute `to` */

typedef struct rule {
    const char *name;
    vn_rule_fn fn;
    int param;
    int type;
    const char *domain; /* NULL: ai.onnx */
} rule_t;

#define MS "com.microsoft"
static const rule_t rules[] = {
    /* elementwise, and what else keeps its shape */
    {"Abs", vn_rule_same, 1}, {"Acos", vn_rule_same, 1}, {"Acosh", vn_rule_same, 1}, {"Asin", vn_rule_same, 1}, {"Asinh", vn_rule_same, 1},
    {"Atan", vn_rule_same, 1}, {"Atanh", vn_rule_same, 1}, {"Bernoulli", vn_rule_same, 1, TYPE_NONE}, {"BitwiseNot", vn_rule_same, 1},
    {"Cast", vn_rule_same, 1, TYPE_TO}, {"CastLike", vn_rule_same, 1, TYPE_SECOND}, {"Ceil", vn_rule_same, 1}, {"Celu", vn_rule_same, 1},
    {"Clip", vn_rule_same, 1}, {"Cos", vn_rule_same, 1}, {"Cosh", vn_rule_same, 1}, {"CumProd", vn_rule_same, 1}, {"CumSum", vn_rule_same, 1},
    {"DequantizeLinear", vn_rule_same, 1, TYPE_NONE}, {"Dropout", vn_rule_same, 3}, {"DynamicQuantizeLinear", vn_rule_same, 1, VN_U8},
    {"Elu", vn_rule_same, 1}, {"Erf", vn_rule_same, 1}, {"Exp", vn_rule_same, 1}, {"EyeLike", vn_rule_same, 1, TYPE_NONE},
    {"Floor", vn_rule_same, 1}, {"Gelu", vn_rule_same, 1}, {"GroupNormalization", vn_rule_same, 1}, {"HardSigmoid", vn_rule_same, 1},
    {"HardSwish", vn_rule_same, 1}, {"Hardmax", vn_rule_same, 1}, {"InstanceNormalization", vn_rule_same, 1}, {"IsInf", vn_rule_same, 1, VN_BOOL},
    {"IsNaN", vn_rule_same, 1, VN_BOOL}, {"LRN", vn_rule_same, 1}, {"LayerNormalization", vn_rule_normalised}, {"LeakyRelu", vn_rule_same, 1},
    {"Log", vn_rule_same, 1}, {"LogSoftmax", vn_rule_same, 1}, {"LpNormalization", vn_rule_same, 1},
    {"MeanVarianceNormalization", vn_rule_same, 1}, {"Mish", vn_rule_same, 1}, {"Neg", vn_rule_same, 1}, {"Not", vn_rule_same, 1, VN_BOOL},
    {"PRelu", vn_rule_same, 1}, {"QuantizeLinear", vn_rule_same, 1, TYPE_NONE}, {"RMSNormalization", vn_rule_normalised},
    {"RandomNormalLike", vn_rule_same, 1, TYPE_NONE}, {"RandomUniformLike", vn_rule_same, 1, TYPE_NONE}, {"Reciprocal", vn_rule_same, 1},
    {"Relu", vn_rule_same, 1}, {"ReverseSequence", vn_rule_same, 1}, {"RotaryEmbedding", vn_rule_same, 1}, {"Round", vn_rule_same, 1},
    {"Scatter", vn_rule_same, 1}, {"ScatterElements", vn_rule_same, 1}, {"ScatterND", vn_rule_same, 1}, {"Selu", vn_rule_same, 1},
    {"Shrink", vn_rule_same, 1}, {"Sigmoid", vn_rule_same, 1}, {"Sign", vn_rule_same, 1}, {"SimplifiedLayerNormalization", vn_rule_normalised},
    {"Sin", vn_rule_same, 1}, {"Sinh", vn_rule_same, 1}, {"Softmax", vn_rule_same, 1}, {"Softplus", vn_rule_same, 1},
    {"Softsign", vn_rule_same, 1}, {"Sqrt", vn_rule_same, 1}, {"Swish", vn_rule_same, 1}, {"Tan", vn_rule_same, 1}, {"Tanh", vn_rule_same, 1},
    {"TensorScatter", vn_rule_same, 1}, {"ThresholdedRelu", vn_rule_same, 1}, {"Trilu", vn_rule_same, 1},
    {"BatchNormalization", vn_rule_batch_norm}, {"Gelu", vn_rule_same, 1, TYPE_FIRST, MS}, {"FastGelu", vn_rule_same, 1, TYPE_FIRST, MS},
    {"QuickGelu", vn_rule_same, 1, TYPE_FIRST, MS}, {"BiasGelu", vn_rule_same, 1, TYPE_FIRST, MS},
    {"RotaryEmbedding", vn_rule_same, 1, TYPE_FIRST, MS}, {"SimplifiedLayerNormalization", vn_rule_normalised, 0, TYPE_FIRST, MS},
    /* several operands of one shape */
    {"Add", vn_rule_broadcast}, {"And", vn_rule_broadcast, 0, VN_BOOL}, {"BitShift", vn_rule_broadcast}, {"BitwiseAnd", vn_rule_broadcast},
    {"BitwiseOr", vn_rule_broadcast}, {"BitwiseXor", vn_rule_broadcast}, {"Div", vn_rule_broadcast}, {"Equal", vn_rule_broadcast, 0, VN_BOOL},
    {"Greater", vn_rule_broadcast, 0, VN_BOOL}, {"GreaterOrEqual", vn_rule_broadcast, 0, VN_BOOL}, {"Less", vn_rule_broadcast, 0, VN_BOOL},
    {"LessOrEqual", vn_rule_broadcast, 0, VN_BOOL}, {"Max", vn_rule_broadcast}, {"Mean", vn_rule_broadcast}, {"Min", vn_rule_broadcast},
    {"Mod", vn_rule_broadcast}, {"Mul", vn_rule_broadcast}, {"Or", vn_rule_broadcast, 0, VN_BOOL}, {"Pow", vn_rule_broadcast},
    {"Sub", vn_rule_broadcast}, {"Sum", vn_rule_broadcast}, {"Where", vn_rule_broadcast, 0, TYPE_SECOND}, {"Xor", vn_rule_broadcast, 0, VN_BOOL},
    /* movement and choice */
    {"Identity", vn_rule_identity}, {"Reshape", vn_rule_reshape}, {"Flatten", vn_rule_flatten}, {"Squeeze", vn_rule_squeeze},
    {"Unsqueeze", vn_rule_unsqueeze}, {"Transpose", vn_rule_transpose}, {"Concat", vn_rule_concat}, {"Split", vn_rule_split},
    {"Slice", vn_rule_aligned}, {"Tile", vn_rule_aligned}, {"Pad", vn_rule_aligned}, {"CenterCropPad", vn_rule_aligned},
    {"DepthToSpace", vn_rule_aligned}, {"SpaceToDepth", vn_rule_aligned}, {"Expand", vn_rule_expand}, {"Gather", vn_rule_gather},
    {"GatherElements", vn_rule_like, 1}, {"GatherND", vn_rule_gather_nd}, {"Shape", vn_rule_shape}, {"ConstantOfShape", vn_rule_filled},
    {"Compress", vn_rule_compress}, {"NonZero", vn_rule_non_zero}, {"Unique", vn_rule_unique}, {"NonMaxSuppression", vn_rule_boxes},
    {"OneHot", vn_rule_one_hot}, {"TopK", vn_rule_top}, {"Size", vn_rule_size}, {"Range", vn_rule_range}, {"Col2Im", vn_rule_col2im},
    /* products, windows, sums, signals */
    {"MatMul", vn_rule_matmul, 1}, {"MatMulInteger", vn_rule_matmul, 1, VN_I32}, {"QLinearMatMul", vn_rule_matmul, 3, TYPE_NONE},
    {"Gemm", vn_rule_gemm}, {"Conv", vn_rule_convolution, 1}, {"ConvInteger", vn_rule_convolution, 1, VN_I32},
    {"QLinearConv", vn_rule_convolution, 3, TYPE_NONE}, {"ConvTranspose", vn_rule_convolution, 1 + 16}, {"DeformConv", vn_rule_convolution, 1},
    {"AveragePool", vn_rule_aligned}, {"MaxPool", vn_rule_aligned}, {"LpPool", vn_rule_aligned}, {"GlobalAveragePool", vn_rule_global},
    {"GlobalMaxPool", vn_rule_global}, {"GlobalLpPool", vn_rule_global}, {"MaxUnpool", vn_rule_unpool}, {"ReduceL1", vn_rule_reduce},
    {"ReduceL2", vn_rule_reduce}, {"ReduceLogSum", vn_rule_reduce}, {"ReduceLogSumExp", vn_rule_reduce}, {"ReduceMax", vn_rule_reduce},
    {"ReduceMean", vn_rule_reduce}, {"ReduceMin", vn_rule_reduce}, {"ReduceProd", vn_rule_reduce}, {"ReduceSum", vn_rule_reduce},
    {"ReduceSumSquare", vn_rule_reduce}, {"ArgMax", vn_rule_reduce, 1, VN_I64}, {"ArgMin", vn_rule_reduce, 1, VN_I64}, {"Resize", vn_rule_resize},
    {"Upsample", vn_rule_aligned}, {"RNN", vn_rule_recurrent, 1}, {"GRU", vn_rule_recurrent, 1}, {"LSTM", vn_rule_recurrent, 1},
    {"HannWindow", vn_rule_window}, {"HammingWindow", vn_rule_window}, {"BlackmanWindow", vn_rule_window}, {"MelWeightMatrix", vn_rule_mel},
    {"STFT", vn_rule_stft}, {"GridSample", vn_rule_grid_sample}, {"AffineGrid", vn_rule_affine_grid},
    {"FusedConv", vn_rule_convolution, 1, TYPE_FIRST, MS}, {"QLinearAveragePool", vn_rule_quantised_pool, 0, TYPE_FIRST, MS},
    {"QLinearGlobalAveragePool", vn_rule_quantised_pool, 1, TYPE_FIRST, MS}, {"SkipLayerNormalization", vn_rule_skip_norm, 0, TYPE_FIRST, MS},
    {"SkipSimplifiedLayerNormalization", vn_rule_skip_norm, 0, TYPE_FIRST, MS},
    {"EmbedLayerNormalization", vn_rule_embed_norm, 0, TYPE_FIRST, MS}, {"Attention", vn_rule_ms_attention, 0, TYPE_FIRST, MS},
    {"MultiHeadAttention", vn_rule_multi_head, 0, TYPE_FIRST, MS}, {"GroupQueryAttention", vn_rule_group_query, 0, TYPE_FIRST, MS},
    {"MatMulIntegerToFloat", vn_rule_matmul, 1, TYPE_NONE, MS}, {"DynamicQuantizeMatMul", vn_rule_matmul, 1, VN_F32, MS}, {"DFT", vn_rule_dft},
    /* sequences and optionals */
    {"SequenceConstruct", vn_rule_sequence}, {"SequenceEmpty", vn_rule_sequence_empty}, {"SequenceAt", vn_rule_sequence_at},
    {"SequenceLength", vn_rule_sequence_length}, {"SequenceInsert", vn_rule_sequence_edit, 1}, {"SequenceErase", vn_rule_sequence_edit, -1},
    {"SplitToSequence", vn_rule_split_to_sequence}, {"ConcatFromSequence", vn_rule_concat_sequence}, {"Optional", vn_rule_optional},
    {"OptionalHasElement", vn_rule_optional_has}, {"OptionalGetElement", vn_rule_sequence_at, 1},
};

static vn_dtype_t type_of(const vn_infer_node_t *n, int type) {
    const int k = type == TYPE_SECOND ? 1 : 0;
    if (type > 0) return (vn_dtype_t)type;
    if (type == TYPE_NONE) return VN_UNDEFINED;
    if (type != TYPE_TO) return vn_infer_has(n, k) ? n->in[k]->v.dtype : VN_UNDEFINED;
    const int64_t to = vn_node_int(n->node, "to", VN_UNDEFINED);
    return to > 0 && to < VN_DTYPE_COUNT ? (vn_dtype_t)to : VN_UNDEFINED;
}

vn_status_t vn_infer_by_rule(vn_infer_node_t *n) {
    VN_TRY(types_from_row(n));
    for (size_t i = 0; i < sizeof rules / sizeof *rules; ++i) {
        const rule_t *r = &rules[i];
        if (strcmp(n->node->op, r->name) != 0 || strcmp(n->node->domain, r->domain ? r->domain : "") != 0) continue;
        n->fallback = type_of(n, r->type);
        return r->fn(n, r->param);
    }
    return VN_OK;
}
