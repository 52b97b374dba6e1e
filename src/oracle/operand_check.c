/* operand_check.c -- what every row may rely on: the operands that the standard demands are there, and are tensors where it says so.
 *
 * A model file can leave out any input of any node; without this check each row would have to ask for each operand.
 */
#include <string.h>

#include "oracle/frame.h"

/* Which operands (bit k) an operator must be given, from version `since` on; all others: the first. */
typedef struct demand {
    unsigned mask;
    int since;
    const char *names; /* separated by spaces */
} demand_t;

#define FIRST(n) ((1u << (n)) - 1)

static const demand_t demands[] = {
    {FIRST(0), 1, "Constant RandomNormal RandomUniform"},
    {FIRST(2), 1, "Add And Conv ConvTranspose Div Equal Gather Greater Less MatMul MaxRoiPool Mul Or PRelu Pow Sub Xor"},
    {FIRST(3), 1, "FlexAttention GRU InstanceNormalization LSTM RNN"},
    {FIRST(5), 1, "BatchNormalization"},
    {FIRST(2), 5, "Reshape"},
    {FIRST(2), 6, "Tile"},
    {FIRST(3), 1, "Gemm"},
    {FIRST(2), 7, "Gemm"},
    {FIRST(2), 8, "Expand"},
    {0x2, 8, "Scan"}, /* sequence_lens is optional */
    {FIRST(1), 9, "Scan"},
    {FIRST(2), 9, "Compress MaxUnpool Upsample"},
    {FIRST(3), 9, "OneHot Scatter Where"},
    {FIRST(2), 10, "ConvInteger DequantizeLinear MatMulInteger Mod NonMaxSuppression QuantizeLinear ReverseSequence TopK"},
    {FIRST(3), 10, "RoiAlign Slice"},
    {FIRST(8), 10, "QLinearConv QLinearMatMul"},
    {FIRST(0), 11, "Loop SequenceEmpty"},
    {FIRST(2), 11, "BitShift CumSum GatherElements GatherND Pad SequenceAt SequenceInsert"},
    {FIRST(3), 11, "Range ScatterElements ScatterND"},
    {FIRST(2), 12, "GreaterOrEqual LessOrEqual NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss"},
    {FIRST(2), 13, "Unsqueeze"},
    {FIRST(0), 15, "Optional"},
    {FIRST(2), 15, "CastLike"},
    {FIRST(2), 16, "GridSample"},
    {FIRST(2), 17, "LayerNormalization STFT"},
    {FIRST(5), 17, "MelWeightMatrix"},
    {FIRST(0), 18, "OptionalHasElement"},
    {FIRST(2), 18, "BitwiseAnd BitwiseOr BitwiseXor CenterCropPad"},
    {FIRST(3), 18, "Col2Im GroupNormalization"},
    {FIRST(3), 19, "DeformConv"},
    {FIRST(2), 20, "AffineGrid StringConcat"},
    {FIRST(2), 23, "RMSNormalization"},
    {FIRST(3), 23, "Attention RotaryEmbedding"},
    {FIRST(2), 24, "TensorScatter"},
    {FIRST(2), 26, "CumProd"},
    {FIRST(2), 27, "CausalConvWithState"},
    {FIRST(3), 27, "LinearAttention"},
    {FIRST(2), 28, "SwiGLU"},
};

/* com.microsoft has one version. */
static const demand_t contributed[] = {
    {FIRST(2), 1, "Attention BiasGelu FusedConv FusedGemm FusedMatMul SimplifiedLayerNormalization TransposeMatMul"},
    {FIRST(3), 1, "DynamicQuantizeMatMul MatMulNBits SkipLayerNormalization SkipSimplifiedLayerNormalization"},
    {FIRST(4), 1, "MatMulIntegerToFloat RotaryEmbedding"},
    {FIRST(3), 1, "DynamicQuantizeLSTM"},
    {0x6d, 1, "EmbedLayerNormalization"}, /* segments, their table, mask and positions are optional */
    {0x61, 1, "GroupQueryAttention"},     /* key, value and caches are optional */
    {FIRST(2), 1, "DequantizeLinear ExpandDims GatherND GridSample MatMulInteger16 Pad QuantizeLinear Range"},
    {FIRST(3), 1, "GatherBlockQuantized"},
    {FIRST(4), 1, "QLinearConcat"},
    {FIRST(5), 1, "QAttention"},
    {FIRST(6), 1, "QGemm"},
    {FIRST(8), 1, "QLinearConv QLinearWhere"},
    {0x5b, 1, "QLinearAdd QLinearMul"}, /* zero points are optional */
    {0x0b, 1, "QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearReduceMean QLinearSigmoid QLinearSoftmax"},
};

static bool lists(const char *names, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = names; (at = strstr(at, name)) != NULL; at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

static unsigned demanded(const vn_eval_t *e) {
    const bool ms = strcmp(e->node->domain, "com.microsoft") == 0;
    const demand_t *table = ms ? contributed : demands;
    const size_t n = ms ? sizeof contributed / sizeof *contributed : sizeof demands / sizeof *demands;
    unsigned mask = FIRST(1);
    for (size_t i = 0; i < n; ++i)
        if ((ms || e->version >= table[i].since) && lists(table[i].names, e->node->op)) mask = table[i].mask;
    return mask;
}

/* Operators that take sequences, optionals and maps; all others compute with tensors. */
static bool takes_lists(const char *op) {
    return lists("CastMap ConcatFromSequence DictVectorizer Identity If Loop", op) || strncmp(op, "Sequence", 8) == 0 ||
           strncmp(op, "Optional", 8) == 0;
}

vn_status_t vn_operands_check(vn_eval_t *e) {
    const unsigned mask = demanded(e);
    for (int k = 0; mask >> k; ++k)
        if ((mask >> k & 1) && !vn_has(e, k)) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is missing", k);
    if (takes_lists(e->node->op)) return VN_OK;
    for (int k = 0; k < e->n_in; ++k)
        if (!e->in[k].t && e->in[k].v) return vn_eval_fail(e, VN_ERR_DTYPE, "input %d must be a tensor", k);
    return VN_OK;
}
