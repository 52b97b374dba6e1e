/* faults.c -- the table of injectable faults, and the words that choose one. A new fault is a row here and a question in its operator. */
#include "faults.h"

#include <stdlib.h>
#include <string.h>

#define PRODUCTS "MatMul Gemm Conv ConvTranspose Einsum"
#define RECURRENT "LSTM GRU RNN"
#define SUMS "ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare"
#define POOLS "AveragePool GlobalAveragePool"
#define SOFTMAXES "Softmax LogSoftmax ReduceLogSumExp ReduceLogSum"
#define NORMS "LayerNormalization GroupNormalization InstanceNormalization MeanVarianceNormalization"
#define ALL_NORMS NORMS " RMSNormalization BatchNormalization"
#define EPSILONS "LayerNormalization GroupNormalization InstanceNormalization RMSNormalization BatchNormalization"
#define REDUCTIONS SUMS " ReduceMax ReduceMin ReduceProd " SOFTMAXES
#define INTEGER_PRODUCTS "MatMulInteger ConvInteger QLinearConv QLinearMatMul"
#define BINARY "Add Sub Mul Div Pow Max Min PRelu Where"
#define WINDOWS "Conv ConvTranspose ConvInteger QLinearConv AveragePool MaxPool"
#define FUNCTIONS "Exp Tanh Sigmoid Erf Gelu Elu Softplus Sin Cos Log Mish"

static const fault_row_t rows[] = {
    /* arithmetic */
    {"operands-tf32-rn", FAULT_ARITHMETIC, F_OPTION, PRODUCTS " Attention " RECURRENT, NULL, "operands=tf32-rn", "operands of 11 bits"},
    {"operands-tf32-rna", FAULT_ARITHMETIC, F_OPTION, PRODUCTS " Attention " RECURRENT, NULL, "operands=tf32-rna",
     "operands of 11 bits, ties away"},
    {"operands-tf32-rz", FAULT_ARITHMETIC, F_OPTION, PRODUCTS " Attention " RECURRENT, NULL, "operands=tf32-rz", "operands cut to 11 bits"},
    {"operands-bf16", FAULT_ARITHMETIC, F_OPTION, PRODUCTS " Attention " RECURRENT, NULL, "operands=bf16", "operands in bf16"},
    {"operands-bf16x3", FAULT_ARITHMETIC, F_OPTION, PRODUCTS, NULL, "operands=bf16x3", "operands as two bf16 numbers, three products"},
    {"operands-bf16x6", FAULT_ARITHMETIC, F_OPTION, PRODUCTS, NULL, "operands=bf16x6", "operands as three bf16 numbers, six products"},
    {"operands-f16", FAULT_ARITHMETIC, F_OPTION, PRODUCTS " Attention " RECURRENT, NULL, "operands=f16", "operands in f16"},
    {"operands-f16", FAULT_ARITHMETIC, F_FUNCTION_F16, FUNCTIONS, NULL, NULL, "the argument of the function in f16"},
    {"activations-int8", FAULT_ARITHMETIC, F_OPTION, PRODUCTS, NULL, "activations=int8-row",
     "left operands as 8-bit codes, one scale a row"},
    {"accumulator-f16", FAULT_ARITHMETIC, F_OPTION,
     PRODUCTS " Attention CumSum " SUMS " " POOLS " " SOFTMAXES " " NORMS " RMSNormalization", NULL, "accumulator=f16",
     "running sums in f16"},
    {"accumulator-bf16", FAULT_ARITHMETIC, F_OPTION,
     PRODUCTS " Attention CumSum " SUMS " " POOLS " " SOFTMAXES " " NORMS " RMSNormalization", NULL, "accumulator=bf16",
     "running sums in bf16"},
    {"splitk-partials-bf16", FAULT_ARITHMETIC, F_OPTION, "MatMul Gemm Conv Einsum ReduceSum", NULL, "split=8,partials=bf16",
     "eight partial sums stored in bf16"},
    {"splitk-partials-f16", FAULT_ARITHMETIC, F_OPTION, "MatMul Gemm Conv Einsum ReduceSum", NULL, "split=8,partials=f16",
     "eight partial sums stored in f16"},
    {"result-rounded-to-bf16", FAULT_ARITHMETIC, F_OPTION, "*", NULL, "result=bf16", "results pass through bf16"},
    {"result-rounded-to-f16", FAULT_ARITHMETIC, F_OPTION, "*", NULL, "result=f16", "results pass through f16"},
    {"intermediate-f16", FAULT_ARITHMETIC, F_OPTION, "Attention Softmax " ALL_NORMS, NULL, "intermediate=f16", "hidden values in f16"},
    {"intermediate-bf16", FAULT_ARITHMETIC, F_OPTION, "Attention Softmax " ALL_NORMS, NULL, "intermediate=bf16", "hidden values in bf16"},
    {"intermediate-f16-overflow", FAULT_ARITHMETIC, F_INTERMEDIATE_OVERFLOW, "ReduceMean ReduceL2 " NORMS " RMSNormalization", NULL, NULL,
     "squares and sums kept in f16: they overflow"},
    {"ftz", FAULT_ARITHMETIC, F_OPTION, "*", NULL, "ftz=1", "subnormal results are zero"},
    {"daz", FAULT_ARITHMETIC, F_OPTION, "*", NULL, "daz=1", "subnormal operands are zero"},
    {"winograd-f2", FAULT_ARITHMETIC, F_OPTION, "Conv", NULL, "winograd=2", "Winograd F(2x2,3x3)"},
    {"winograd-f4", FAULT_ARITHMETIC, F_OPTION, "Conv", NULL, "winograd=4", "Winograd F(4x4,3x3)"},
    {"winograd-f6", FAULT_ARITHMETIC, F_OPTION, "Conv", NULL, "winograd=6", "Winograd F(6x6,3x3)"},
    {"one-pass-variance", FAULT_ARITHMETIC, F_OPTION, NORMS, NULL, "variance=one-pass", "mean of squares minus squared mean"},
    {"no-max-subtraction", FAULT_ARITHMETIC, F_OPTION, "Softmax LogSoftmax ReduceLogSumExp Attention", NULL, "softmax=no-max",
     "exponentials of the scores as they are"},
    {"lse-rounded", FAULT_ARITHMETIC, F_LSE_ROUNDED, "LogSoftmax", NULL, NULL, "maximum added to the logarithm before it is subtracted"},
    {"tail-cancellation", FAULT_ARITHMETIC, F_TAIL_CANCELLATION, "Gelu Sigmoid", NULL, NULL, "1 + erf or 1 + tanh in the tail"},
    {"expm1-missing", FAULT_ARITHMETIC, F_EXPM1_MISSING, "Elu Softplus", NULL, NULL, "exp(x) - 1 or log(1 + exp(x)) near cancellation"},
    {"reciprocal-quotient", FAULT_ARITHMETIC, F_OPTION, "Div Mod Softmax ReduceMean AveragePool Softsign " ALL_NORMS, NULL,
     "quotient=reciprocal", "x times the rounded reciprocal of y"},
    {"truncation-bias", FAULT_ARITHMETIC, F_OPTION, PRODUCTS " " SUMS " CumSum", NULL, "accumulator=f32-rz", "sums cut after every step"},
    {"truncation-bias", FAULT_ARITHMETIC, F_TRUNCATED_STORE, "QuantizeLinear Cast QLinearConv QLinearMatMul", NULL, NULL,
     "cut instead of rounded when stored"},
    {"double-rounding", FAULT_ARITHMETIC, F_DOUBLE_ROUNDING, "Cast", NULL, NULL, "rounded through a type in between"},
    {"low-order-fit", FAULT_ARITHMETIC, F_LOW_ORDER_FIT, "Exp Tanh Sigmoid Erf Gelu", NULL, NULL, "a fit of too low an order"},
    {"fast-exp", FAULT_ARITHMETIC, F_FAST_EXP, "Exp Sigmoid Softmax Elu Softplus Mish Attention", NULL, NULL, "exponent-bit arithmetic"},
    {"coefficients-f16", FAULT_ARITHMETIC, F_COEFFICIENTS_F16, "Tanh Exp Sigmoid Erf Gelu", NULL, NULL,
     "coefficients of a fit stored in f16"},
    {"bn-fold", FAULT_ARITHMETIC, F_BN_FOLD, "BatchNormalization", NULL, NULL, "x scale + shift, the mean inside the shift"},
    /* semantic */
    {"gelu-tanh", FAULT_SEMANTIC, F_GELU_TANH, "Gelu", NULL, NULL, "the tanh form"},
    {"gelu-erf", FAULT_SEMANTIC, F_GELU_ERF, "Gelu", NULL, NULL, "the exact form"},
    {"eps", FAULT_SEMANTIC, F_EPS, EPSILONS, "a number >= 0 (0)", NULL, "another epsilon"},
    {"eps-outside-sqrt", FAULT_SEMANTIC, F_EPS_OUTSIDE, EPSILONS, NULL, NULL, "epsilon added after the root"},
    {"round-half-away", FAULT_SEMANTIC, F_HALF_AWAY, "Round QuantizeLinear QLinearConv QLinearMatMul DynamicQuantizeLinear", NULL, NULL,
     "ties away from zero"},
    {"round-half-up", FAULT_SEMANTIC, F_HALF_UP, "Round QuantizeLinear QLinearConv QLinearMatMul DynamicQuantizeLinear", NULL, NULL,
     "ties upward"},
    {"argmax-last", FAULT_SEMANTIC, F_ARGMAX_LAST, "ArgMax ArgMin", NULL, NULL, "the last of equal values"},
    {"tie-order", FAULT_SEMANTIC, F_TIE_ORDER, "TopK", NULL, NULL, "equal values in falling order of index"},
    {"nan-ignored", FAULT_SEMANTIC, F_NAN_IGNORED, "Max Min ReduceMax ReduceMin ArgMax ArgMin Relu Clip MaxPool GlobalMaxPool", NULL, NULL,
     "NaN operands are skipped"},
    {"causal-corner", FAULT_SEMANTIC, F_CAUSAL_CORNER, "Attention", NULL, NULL, "causal mask aligned to the other corner"},
    {"causal-off-by-one", FAULT_SEMANTIC, F_CAUSAL_OFF_BY_ONE, "Attention", NULL, NULL, "causal mask one key too wide"},
    {"scale-missing", FAULT_SEMANTIC, F_SCALE_MISSING, "Attention", NULL, NULL, "scores not scaled"},
    {"softcap-missing", FAULT_SEMANTIC, F_SOFTCAP_MISSING, "Attention", NULL, NULL, "scores not capped"},
    {"window-off-by-one", FAULT_SEMANTIC, F_WINDOW_OFF_BY_ONE, "Attention", NULL, NULL, "a boolean mask one key wider"},
    {"mask-ignored", FAULT_SEMANTIC, F_MASK_IGNORED, "Attention", NULL, NULL, "mask and valid length not applied"},
    {"mask-finite", FAULT_SEMANTIC, F_MASK_FINITE, "Attention", NULL, NULL, "forbidden keys get a large negative score"},
    {"coordinate-mode", FAULT_SEMANTIC, F_COORDINATE_MODE, "Resize", "a mode (asymmetric)", NULL, "another coordinate mode"},
    {"count-include-pad", FAULT_SEMANTIC, F_COUNT_INCLUDE_PAD, "AveragePool", NULL, NULL, "padding counted, or not, against the attribute"},
    {"ceil-window-divisor", FAULT_SEMANTIC, F_CEIL_DIVISOR, "AveragePool", NULL, NULL, "every window divided by the whole kernel"},
    {"border-clamps-point", FAULT_SEMANTIC, F_BORDER_CLAMPS, "GridSample", NULL, NULL, "the sample point clamped instead of its taps"},
    {"axis", FAULT_SEMANTIC, F_AXIS,
     "Softmax LogSoftmax CumSum ArgMax ArgMin LayerNormalization RMSNormalization QuantizeLinear "
     "DequantizeLinear Gather GatherElements ScatterElements TopK Concat ReduceSum ReduceMean ReduceMax ReduceMin ReduceL2 ReduceLogSumExp",
     "an axis that keeps the shape", NULL, "another axis"},
    {"attribute-ignored", FAULT_SEMANTIC, F_ATTRIBUTE_IGNORED,
     "Gemm Conv ConvTranspose ConvInteger QLinearConv AveragePool MaxPool Resize GridSample Pad Mod Cast CumSum GRU DepthToSpace LeakyRelu "
     "Elu HardSigmoid ScatterElements ScatterND TopK QuantizeLinear DequantizeLinear Attention Celu Selu ThresholdedRelu",
     "the attribute's name (the operator's most usual one)", NULL,
     "an attribute has its default, or another value where it is the default"},
    {"interleave-ignored", FAULT_SEMANTIC, F_INTERLEAVE, "RotaryEmbedding", NULL, NULL, "pairs of the other layout"},
    {"position-offset", FAULT_SEMANTIC, F_POSITION_OFFSET, "RotaryEmbedding", "how many (1)", NULL, "positions shifted"},
    {"time-reversed", FAULT_SEMANTIC, F_TIME_REVERSED, RECURRENT, NULL, NULL, "a reverse sequence left in the order of its steps"},
    {"negative-index", FAULT_SEMANTIC, F_NEGATIVE_INDEX, "Gather GatherND GatherElements ScatterElements ScatterND", NULL, NULL,
     "a negative index is clamped to zero"},
    {"clip-order", FAULT_SEMANTIC, F_CLIP_ORDER, "Clip", NULL, NULL, "the bounds in the other order"},
    {"pads-swapped", FAULT_SEMANTIC, F_PADS_SWAPPED, WINDOWS " Pad", NULL, NULL, "begin and end padding exchanged"},
    /* data, inside an operator */
    {"transposed", FAULT_DATA, F_OPERAND_TRANSPOSED, "MatMul Gemm Where", NULL, NULL, "an operand read in the other order"},
    {"k-tail-dropped", FAULT_DATA, F_K_TAIL, PRODUCTS " " SUMS " " POOLS " " INTEGER_PRODUCTS, "how many terms (1)", NULL,
     "the last terms of every sum are missing"},
    {"term-dropped", FAULT_DATA, F_TERM_DROPPED, PRODUCTS " " SUMS " " INTEGER_PRODUCTS, NULL, NULL, "one term in the middle is missing"},
    {"duplicates-dropped", FAULT_DATA, F_DUPLICATES, "ScatterElements ScatterND TopK", NULL, NULL, "repeated indices or values are lost"},
    {"border-taps", FAULT_DATA, F_BORDER_TAPS, "Conv AveragePool GridSample ConvInteger QLinearConv", NULL, NULL,
     "valid taps at the border are skipped where a window leaves the image"},
    {"padding-leaks", FAULT_DATA, F_PADDING_LEAKS, "ReduceMax ReduceMin ReduceMean ReduceProd Softmax LogSoftmax MaxPool " NORMS, NULL,
     NULL, "rows padded with zeros to a multiple of eight, which take part"},
    {"alpha-twice", FAULT_DATA, F_ALPHA_TWICE, "Gemm", NULL, NULL, "alpha applied twice"},
    {"bias-missing", FAULT_DATA, F_BIAS_MISSING,
     "Gemm Conv ConvTranspose QLinearConv LayerNormalization GroupNormalization "
     "InstanceNormalization BatchNormalization " RECURRENT,
     NULL, NULL, "no bias"},
    {"bias-twice", FAULT_DATA, F_BIAS_TWICE,
     "Gemm Conv ConvTranspose QLinearConv LayerNormalization GroupNormalization "
     "InstanceNormalization BatchNormalization " RECURRENT,
     NULL, NULL, "the bias twice"},
    {"bias-scale", FAULT_DATA, F_BIAS_SCALE, "Gemm Conv ConvTranspose QLinearConv", "a factor (0.5)", NULL,
     "the bias times a wrong factor"},
    {"broadcast-axis", FAULT_DATA, F_BROADCAST_AXIS, BINARY " Gemm Attention", NULL, NULL, "an operand broadcast along another axis"},
    {"group-index", FAULT_DATA, F_GROUP_INDEX,
     "Conv ConvTranspose ConvInteger QLinearConv DequantizeLinear QuantizeLinear GroupNormalization", NULL, NULL,
     "channels or scales of another group"},
    {"channel-scale", FAULT_DATA, F_CHANNEL_SCALE,
     "BatchNormalization InstanceNormalization GroupNormalization QLinearConv QLinearMatMul "
     "DequantizeLinear QuantizeLinear",
     NULL, NULL, "scale of the next channel"},
    {"head-index", FAULT_DATA, F_HEAD_INDEX, "Attention", NULL, NULL, "key and value head by remainder"},
    {"chunk-offset", FAULT_DATA, F_CHUNK_OFFSET, "ArgMax ArgMin TopK", "size of a chunk (half the axis)", NULL,
     "indices within a chunk, without its start"},
    {"block-merge-missing", FAULT_DATA, F_BLOCK_MERGE, "CumSum ReduceSum ReduceMean ReduceMax ReduceMin Softmax",
     "size of a block (half the axis)", NULL, "blocks not carried or merged"},
    /* data, on any finished result */
    {"transposed", FAULT_STRUCTURAL, F_TRANSPOSED, "*", NULL, NULL, "the last two axes exchanged in memory"},
    {"permuted", FAULT_STRUCTURAL, F_PERMUTED, "*", NULL, NULL, "in every four columns the inner two exchanged"},
    {"tail-unwritten", FAULT_STRUCTURAL, F_TAIL_UNWRITTEN, "*", "how many (a tenth)", NULL,
     "the last elements of every row are not written"},
    {"lane-unwritten", FAULT_STRUCTURAL, F_LANE_UNWRITTEN, "*", "period (4)", NULL, "one of every few columns is not written"},
    {"row-wrong", FAULT_STRUCTURAL, F_ROW_WRONG, "*", "which row (the middle)", NULL, "a row holds the row before it"},
    {"stale-buffer", FAULT_STRUCTURAL, F_STALE, "*", NULL, NULL, "a block holds old memory"},
    {"zeros", FAULT_STRUCTURAL, F_ZEROS, "*", "all", NULL, "the second half is zero; all of it"},
    {"constant-ratio", FAULT_STRUCTURAL, F_CONSTANT_RATIO, "*", "a factor (2)", NULL, "every element times a factor"},
    {"sign-flipped", FAULT_STRUCTURAL, F_SIGN_FLIPPED, "*", NULL, NULL, "every sign reversed"},
    {"sign-lost", FAULT_STRUCTURAL, F_SIGN_LOST, "*", NULL, NULL, "every sign positive"},
    {"nan-produced", FAULT_STRUCTURAL, F_NAN_PRODUCED, "*", NULL, NULL, "the largest element is NaN"},
    {"inf-produced", FAULT_STRUCTURAL, F_INF_PRODUCED, "*", NULL, NULL, "the largest element is infinite"},
    {"race", FAULT_STRUCTURAL, F_RACE, "*", NULL, NULL, "another block is lost in every run"},
    {"order-nondeterminism", FAULT_ARITHMETIC, F_ORDER_CHANGES, PRODUCTS " " SUMS, NULL, NULL, "another order of summation in every run"},
    /* integer */
    {"saturate-i16", FAULT_INTEGER, F_SATURATE_I16, INTEGER_PRODUCTS, NULL, NULL, "sums of two products saturate at 16 bits"},
    {"wrap-i16", FAULT_INTEGER, F_WRAP_I16, INTEGER_PRODUCTS, NULL, NULL, "sums of two products wrap at 16 bits"},
    {"saturate-i8", FAULT_INTEGER, F_SATURATE_I8, "Cast", NULL, NULL, "integers saturate where they wrap"},
    {"clamp-u8", FAULT_INTEGER, F_CLAMP_U8, INTEGER_PRODUCTS " QuantizeLinear", NULL, NULL, "unsigned values clamped to 127"},
    {"zero-point-sign", FAULT_INTEGER, F_ZERO_POINT_SIGN, INTEGER_PRODUCTS " DequantizeLinear", NULL, NULL,
     "8-bit numbers read with the other signedness"},
    {"sign-extension", FAULT_INTEGER, F_SIGN_EXTENSION, "Cast DequantizeLinear", NULL, NULL, "zero extension of signed numbers"},
    {"zero-point-pad", FAULT_INTEGER, F_ZERO_POINT_PAD, "QLinearConv ConvInteger", NULL, NULL, "padding holds 0 and not the zero point"},
    {"nibble-order", FAULT_INTEGER, F_NIBBLE_ORDER, "DequantizeLinear", NULL, NULL, "low and high nibble exchanged"},
};

const fault_row_t *fault_row(int i) { return i >= 0 && i < (int)(sizeof rows / sizeof *rows) ? &rows[i] : NULL; }

const char *fault_kind_name(fault_kind_t k) {
    static const char *const names[] = {"arithmetic", "semantic", "data", "data", "integer"};
    return names[k];
}

bool fault_fits(const fault_row_t *row, const char *operator) {
    if (row->operators[0] == '*') return true;
    const size_t n = strlen(operator);
    for (const char *p = row->operators; *p;) {
        const size_t k = strcspn(p, " ");
        if (k == n && strncmp(p, operator, n) == 0) return true;
        p += k + strspn(p + k, " ");
    }
    return false;
}

static vn_status_t unknown(const char *text, vn_error_t *err) {
    char known[520];
    size_t at = 0;
    for (int i = 0; fault_row(i); ++i) {
        const char *name = rows[i].name;
        if (i && strcmp(rows[i - 1].name, name) == 0) continue;
        const size_t k = strlen(name);
        if (at + k + 5 > sizeof known) {
            memcpy(known + at, " ...", 4), at += 4;
            break;
        }
        if (at) known[at++] = ' ';
        memcpy(known + at, name, k);
        at += k;
    }
    known[at] = '\0';
    return vn_fail(err, VN_ERR_USAGE, "unknown fault '%.40s' (all: --list): %s", text, known);
}

/* Faults whose value is a number. */
static bool wants_number(fault_id_t id) {
    return id == F_EPS || id == F_AXIS || id == F_POSITION_OFFSET || id == F_K_TAIL || id == F_CHUNK_OFFSET || id == F_BLOCK_MERGE ||
           id == F_TAIL_UNWRITTEN || id == F_LANE_UNWRITTEN || id == F_ROW_WRONG || id == F_CONSTANT_RATIO || id == F_BIAS_SCALE;
}

vn_status_t fault_parse(const char *text, fault_t *out, vn_error_t *err) {
    *out = (fault_t){0};
    const size_t n = strcspn(text, ":");
    for (int i = 0; fault_row(i) && !out->row; ++i)
        if (strlen(rows[i].name) == n && strncmp(rows[i].name, text, n) == 0) out->row = &rows[i];
    if (!out->row) return unknown(text, err);
    if (!text[n]) return VN_OK;
    const fault_row_t *row = out->row;
    const char *value = text + n + 1;
    if (!row->value) return vn_fail(err, VN_ERR_USAGE, "fault %s takes no value", row->name);
    char *end;
    strtod(value, &end);
    const bool number = *value && !*end;
    if (!*value || strlen(value) >= sizeof out->value || (wants_number(row->id) && !number) ||
        (row->id == F_ZEROS && strcmp(value, "all") != 0))
        return vn_fail(err, VN_ERR_USAGE, "fault %s: value '%.40s' is not %s", row->name, value, row->value);
    strcpy(out->value, value);
    return VN_OK;
}

fault_t fault_for(const fault_t *f, const char *operator) {
    fault_t out = *f;
    out.row = NULL;
    for (int i = 0; f->row && fault_row(i) && !out.row; ++i)
        if (strcmp(rows[i].name, f->row->name) == 0 && fault_fits(&rows[i], operator)) out.row = &rows[i];
    return out;
}
