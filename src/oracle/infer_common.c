/* infer_common.c -- which rule an operator follows where its row's `infer` cannot say, and what all rules use (claim INFER-1). */
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
    if (axis < -(int64_t)rank || axis >= rank)
        return vn_infer_fail(n, VN_ERR_RANGE, "axis %lld outside a tensor of rank %d", (long long)axis, rank);
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
    vn_error_t ignored = {0};
    sub.in = in;
    sub.err = &ignored;
    bool good = facts && in;
    ignored.status = good ? VN_OK : VN_ERR_NOMEM;
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
    if (ignored.status == VN_ERR_NOMEM) n->ctx->starved = true;
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
    for (int k = 0; k < n->n_out && k < 16; ++k) {
        if (outputs >> k & 1) vn_rule_out(n, k, VN_UNDEFINED, x->rank, x->dims);
        n->fallback = VN_UNDEFINED; /* the types of further outputs only the row knows */
    }
    return VN_OK;
}

vn_status_t vn_rule_dynamic(vn_infer_node_t *n, int param) {
    (void)param;
    if (!vn_infer_has(n, 0)) return VN_ERR_UNSUPPORTED;
    vn_rule_out(n, 0, VN_U8, n->in[0]->v.rank, n->in[0]->v.dims);
    vn_rule_out(n, 1, VN_F32, 0, NULL);
    vn_rule_out(n, 2, VN_U8, 0, NULL);
    return VN_OK;
}

/* Open against 1: open. Open against more than 1: that number, or the graph cannot run. */
static vn_status_t merge(const vn_infer_node_t *n, int k, int64_t a, int64_t b, int64_t *out) {
    *out = a == 1 ? b : b == 1 ? a : a < 0 ? b : a;
    if (a > 1 && b >= 0 && b != 1 && a != b)
        return vn_infer_fail(n, VN_ERR_SHAPE, "input %d (%s) with %lld does not broadcast to %lld", k, n->node->inputs[k], (long long)b,
                             (long long)a);
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

#define RULE_OF(name, fn, param) \
    { name, fn, param, TYPE_FIRST, NULL }
#define RULE(name, fn) RULE_OF(name, fn, 0)
#define SAME(name) RULE_OF(name, vn_rule_same, 1)
#define WIDE(name) RULE_OF(name, vn_rule_broadcast, 0)
#define TYPED(name, fn, param, type) \
    { name, fn, param, type, NULL }
#define MS(name, fn, param, type) \
    { name, fn, param, type, "com.microsoft" }
#define ML(name, fn, param, type) \
    { name, fn, param, type, "ai.onnx.ml" }
static const rule_t rules[] = {
    /* ai.onnx.ml */
    ML("Binarizer", vn_rule_same, 1, TYPE_FIRST),
    ML("Imputer", vn_rule_same, 1, TYPE_FIRST),
    ML("LinearClassifier", vn_rule_ml_classes, 0, TYPE_NONE),
    ML("LinearRegressor", vn_rule_ml_table, VN_ML_COLUMNS_TARGETS, VN_F32),
    ML("Normalizer", vn_rule_same, 1, VN_F32),
    ML("SVMClassifier", vn_rule_ml_classes, 0, TYPE_NONE),
    ML("SVMRegressor", vn_rule_ml_table, VN_ML_COLUMNS_ONE, VN_F32),
    ML("Scaler", vn_rule_same, 1, VN_F32),
    ML("TreeEnsemble", vn_rule_ml_table, VN_ML_COLUMNS_N_TARGETS, TYPE_FIRST),
    ML("TreeEnsembleClassifier", vn_rule_ml_classes, 0, TYPE_NONE),
    ML("TreeEnsembleRegressor", vn_rule_ml_table, VN_ML_COLUMNS_N_TARGETS, VN_F32),
    /* elementwise, and what else keeps its shape */
    SAME("Abs"),
    SAME("Acos"),
    SAME("Acosh"),
    SAME("Asin"),
    SAME("Asinh"),
    SAME("Atan"),
    SAME("Atanh"),
    TYPED("Bernoulli", vn_rule_same, 1, TYPE_NONE),
    SAME("BitwiseNot"),
    TYPED("Cast", vn_rule_same, 1, TYPE_TO),
    TYPED("CastLike", vn_rule_same, 1, TYPE_SECOND),
    SAME("Ceil"),
    SAME("Celu"),
    SAME("Clip"),
    SAME("Cos"),
    SAME("Cosh"),
    SAME("CumProd"),
    SAME("CumSum"),
    TYPED("DequantizeLinear", vn_rule_same, 1, TYPE_NONE),
    RULE_OF("Dropout", vn_rule_same, 3),
    TYPED("DynamicQuantizeLinear", vn_rule_dynamic, 0, VN_U8),
    SAME("Elu"),
    SAME("Erf"),
    SAME("Exp"),
    TYPED("EyeLike", vn_rule_same, 1, TYPE_NONE),
    SAME("Floor"),
    SAME("Gelu"),
    SAME("GroupNormalization"),
    SAME("HardSigmoid"),
    SAME("HardSwish"),
    SAME("Hardmax"),
    SAME("InstanceNormalization"),
    TYPED("IsInf", vn_rule_same, 1, VN_BOOL),
    TYPED("IsNaN", vn_rule_same, 1, VN_BOOL),
    SAME("LRN"),
    RULE("LayerNormalization", vn_rule_normalised),
    SAME("LeakyRelu"),
    SAME("Log"),
    SAME("LogSoftmax"),
    SAME("LpNormalization"),
    SAME("MeanVarianceNormalization"),
    SAME("Mish"),
    SAME("Neg"),
    TYPED("Not", vn_rule_same, 1, VN_BOOL),
    SAME("PRelu"),
    TYPED("QuantizeLinear", vn_rule_same, 1, TYPE_NONE),
    RULE("RMSNormalization", vn_rule_normalised),
    TYPED("RandomNormalLike", vn_rule_same, 1, TYPE_NONE),
    TYPED("RandomUniformLike", vn_rule_same, 1, TYPE_NONE),
    SAME("Reciprocal"),
    SAME("Relu"),
    SAME("ReverseSequence"),
    SAME("RotaryEmbedding"),
    SAME("Round"),
    SAME("Scatter"),
    SAME("ScatterElements"),
    SAME("ScatterND"),
    SAME("Selu"),
    SAME("Shrink"),
    SAME("Sigmoid"),
    SAME("Sign"),
    RULE("SimplifiedLayerNormalization", vn_rule_normalised),
    SAME("Sin"),
    SAME("Sinh"),
    SAME("Softmax"),
    SAME("Softplus"),
    SAME("Softsign"),
    SAME("Sqrt"),
    SAME("Swish"),
    SAME("Tan"),
    SAME("Tanh"),
    SAME("TensorScatter"),
    SAME("ThresholdedRelu"),
    SAME("Trilu"),
    RULE("BatchNormalization", vn_rule_batch_norm),
    MS("Gelu", vn_rule_same, 1, TYPE_FIRST),
    MS("FastGelu", vn_rule_same, 1, TYPE_FIRST),
    MS("QuickGelu", vn_rule_same, 1, TYPE_FIRST),
    MS("BiasGelu", vn_rule_same, 1, TYPE_FIRST),
    MS("RotaryEmbedding", vn_rule_same, 1, TYPE_FIRST),
    MS("SimplifiedLayerNormalization", vn_rule_normalised, 0, TYPE_FIRST),
    MS("QuantizeLinear", vn_rule_same, 1, TYPE_NONE),
    MS("DequantizeLinear", vn_rule_same, 1, TYPE_SECOND),
    MS("QLinearSigmoid", vn_rule_same, 1, TYPE_FIRST),
    MS("QLinearLeakyRelu", vn_rule_same, 1, TYPE_FIRST),
    MS("QLinearSoftmax", vn_rule_same, 1, TYPE_FIRST),
    MS("Trilu", vn_rule_same, 1, TYPE_FIRST),
    /* several operands of one shape */
    WIDE("Add"),
    TYPED("And", vn_rule_broadcast, 0, VN_BOOL),
    WIDE("BitShift"),
    WIDE("BitwiseAnd"),
    WIDE("BitwiseOr"),
    WIDE("BitwiseXor"),
    WIDE("Div"),
    TYPED("Equal", vn_rule_broadcast, 0, VN_BOOL),
    TYPED("Greater", vn_rule_broadcast, 0, VN_BOOL),
    TYPED("GreaterOrEqual", vn_rule_broadcast, 0, VN_BOOL),
    TYPED("Less", vn_rule_broadcast, 0, VN_BOOL),
    TYPED("LessOrEqual", vn_rule_broadcast, 0, VN_BOOL),
    WIDE("Max"),
    WIDE("Mean"),
    WIDE("Min"),
    WIDE("Mod"),
    WIDE("Mul"),
    TYPED("Or", vn_rule_broadcast, 0, VN_BOOL),
    WIDE("Pow"),
    WIDE("Sub"),
    WIDE("Sum"),
    TYPED("Where", vn_rule_broadcast, 0, TYPE_SECOND),
    TYPED("Xor", vn_rule_broadcast, 0, VN_BOOL),
    MS("QLinearAdd", vn_rule_broadcast, 0, TYPE_FIRST), /* scales and zero points are single numbers */
    MS("QLinearMul", vn_rule_broadcast, 0, TYPE_FIRST),
    MS("QLinearWhere", vn_rule_broadcast, 0, TYPE_SECOND),
    /* movement and choice */
    RULE("Identity", vn_rule_identity),
    RULE("Reshape", vn_rule_reshape),
    RULE("Flatten", vn_rule_flatten),
    RULE("Squeeze", vn_rule_squeeze),
    RULE("Unsqueeze", vn_rule_unsqueeze),
    RULE("Transpose", vn_rule_transpose),
    RULE("Concat", vn_rule_concat),
    RULE("Split", vn_rule_split),
    RULE("Slice", vn_rule_aligned),
    RULE("Tile", vn_rule_aligned),
    RULE("Pad", vn_rule_aligned),
    RULE("CenterCropPad", vn_rule_aligned),
    RULE("DepthToSpace", vn_rule_aligned),
    RULE("SpaceToDepth", vn_rule_aligned),
    RULE("Expand", vn_rule_expand),
    RULE("Gather", vn_rule_gather),
    RULE_OF("GatherElements", vn_rule_like, 1),
    RULE("GatherND", vn_rule_gather_nd),
    RULE("Shape", vn_rule_shape),
    RULE("ConstantOfShape", vn_rule_filled),
    RULE("Compress", vn_rule_compress),
    RULE("NonZero", vn_rule_non_zero),
    RULE("Unique", vn_rule_unique),
    RULE("NonMaxSuppression", vn_rule_boxes),
    RULE("OneHot", vn_rule_one_hot),
    RULE("TopK", vn_rule_top),
    RULE("Size", vn_rule_size),
    RULE("Range", vn_rule_range),
    RULE("Col2Im", vn_rule_col2im),
    MS("Pad", vn_rule_aligned, 0, TYPE_FIRST),
    MS("GatherND", vn_rule_gather_nd, 0, TYPE_FIRST),
    MS("Range", vn_rule_range, 0, TYPE_FIRST),
    /* products, windows, sums, signals */
    RULE_OF("MatMul", vn_rule_matmul, 1),
    TYPED("MatMulInteger", vn_rule_matmul, 1, VN_I32),
    TYPED("QLinearMatMul", vn_rule_matmul, 3, TYPE_NONE),
    RULE("Gemm", vn_rule_gemm),
    RULE_OF("Conv", vn_rule_convolution, 1),
    TYPED("ConvInteger", vn_rule_convolution, 1, VN_I32),
    TYPED("QLinearConv", vn_rule_convolution, 3, TYPE_NONE),
    RULE_OF("ConvTranspose", vn_rule_convolution, 1 + 16),
    RULE_OF("DeformConv", vn_rule_convolution, 1),
    RULE("AveragePool", vn_rule_aligned),
    RULE("MaxPool", vn_rule_aligned),
    RULE("LpPool", vn_rule_aligned),
    RULE("GlobalAveragePool", vn_rule_global),
    RULE("GlobalMaxPool", vn_rule_global),
    RULE("GlobalLpPool", vn_rule_global),
    RULE("MaxUnpool", vn_rule_unpool),
    RULE("ReduceL1", vn_rule_reduce),
    RULE("ReduceL2", vn_rule_reduce),
    RULE("ReduceLogSum", vn_rule_reduce),
    RULE("ReduceLogSumExp", vn_rule_reduce),
    RULE("ReduceMax", vn_rule_reduce),
    RULE("ReduceMean", vn_rule_reduce),
    RULE("ReduceMin", vn_rule_reduce),
    RULE("ReduceProd", vn_rule_reduce),
    RULE("ReduceSum", vn_rule_reduce),
    RULE("ReduceSumSquare", vn_rule_reduce),
    TYPED("ArgMax", vn_rule_reduce, 1, VN_I64),
    TYPED("ArgMin", vn_rule_reduce, 1, VN_I64),
    RULE("Resize", vn_rule_resize),
    RULE("Upsample", vn_rule_aligned),
    RULE_OF("RNN", vn_rule_recurrent, 1),
    RULE_OF("GRU", vn_rule_recurrent, 1),
    RULE_OF("LSTM", vn_rule_recurrent, 1),
    RULE("HannWindow", vn_rule_window),
    RULE("HammingWindow", vn_rule_window),
    RULE("BlackmanWindow", vn_rule_window),
    RULE("MelWeightMatrix", vn_rule_mel),
    RULE("STFT", vn_rule_stft),
    RULE("GridSample", vn_rule_grid_sample),
    RULE("AffineGrid", vn_rule_affine_grid),
    MS("FusedConv", vn_rule_convolution, 1, TYPE_FIRST),
    MS("NhwcMaxPool", vn_rule_aligned, 0, TYPE_FIRST),
    MS("GridSample", vn_rule_grid_sample, 0, TYPE_FIRST),
    MS("QLinearAveragePool", vn_rule_quantised_pool, 0, TYPE_FIRST),
    MS("QLinearGlobalAveragePool", vn_rule_quantised_pool, 1, TYPE_FIRST),
    MS("SkipLayerNormalization", vn_rule_skip_norm, 0, TYPE_FIRST),
    MS("SkipSimplifiedLayerNormalization", vn_rule_skip_norm, 0, TYPE_FIRST),
    MS("EmbedLayerNormalization", vn_rule_embed_norm, 0, TYPE_FIRST),
    MS("Attention", vn_rule_ms_attention, 0, TYPE_FIRST),
    MS("MultiHeadAttention", vn_rule_multi_head, 0, TYPE_FIRST),
    MS("GroupQueryAttention", vn_rule_group_query, 0, TYPE_FIRST),
    MS("MatMulIntegerToFloat", vn_rule_matmul, 1, TYPE_NONE),
    MS("DynamicQuantizeMatMul", vn_rule_matmul, 1, VN_F32),
    RULE("DFT", vn_rule_dft),
    /* texts and images */
    WIDE("StringConcat"),
    TYPED("StringSplit", vn_rule_split_text, 0, VN_STRING),
    TYPED("StringNormalizer", vn_rule_normalise_text, 0, VN_STRING),
    TYPED("RegexFullMatch", vn_rule_same, 1, VN_BOOL),
    TYPED("TfIdfVectorizer", vn_rule_ngrams, 0, VN_F32),
    TYPED("ImageDecoder", vn_rule_image, 0, VN_U8),
    /* sequences and optionals */
    RULE("SequenceConstruct", vn_rule_sequence),
    RULE("SequenceEmpty", vn_rule_sequence_empty),
    RULE("SequenceAt", vn_rule_sequence_at),
    RULE("SequenceLength", vn_rule_sequence_length),
    RULE_OF("SequenceInsert", vn_rule_sequence_edit, 1),
    RULE_OF("SequenceErase", vn_rule_sequence_edit, -1),
    RULE("SplitToSequence", vn_rule_split_to_sequence),
    RULE("ConcatFromSequence", vn_rule_concat_sequence),
    RULE("Optional", vn_rule_optional),
    RULE("OptionalHasElement", vn_rule_optional_has),
    RULE_OF("OptionalGetElement", vn_rule_sequence_at, 1),
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
