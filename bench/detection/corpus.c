/* corpus.c -- the cases: small ones on which every fault shows, and grids of sizes at which back ends change their kernels. */
#include <stdio.h>

#include "detection.h"

#define FLOATS "f32 f16 bf16"

/* A letter behind a shape says what the data are like (cases.c): n normal, o around an offset, p positive, u uniform, h halves, f few values,
 * q whole codes, s subnormal, x with NaN, m negative, b boolean, z with rows of false, d a band, i and j indices. */
static const case_text_t small[] = {
    {"MatMul", "", "T[9,129]n; T[129,65]n", 1, FLOATS " f64"},
    {"MatMul", "", "T[8,1000]n; T[1000,33]n", 1, "f32 f16 bf16"},
    {"MatMul", "", "T[3,12,40]n; T[3,40,16]n", 1, "f32 f16"},
    {"MatMul", "", "T[4,64]s; T[64,8]n", 1, "f32"},
    {"MatMul", "", "T[6,300]p; T[300,17]p", 1, "f32"},
    {"Gemm", "", "T[16,96]n; T[96,24]n; T[24]n", 1, FLOATS},
    {"Gemm", "transA=1 alpha=0.5 beta=2.0", "T[48,12]n; T[48,20]n; T[20]n", 1, "f32 f16"},
    {"Gemm", "transB=1 alpha=1.5 beta=0.25", "T[12,64]n; T[24,64]n; T[24]n", 1, "f32 bf16"},
    {"Gemm", "", "T[24,32]n; T[32,24]n; T[24]n", 1, "f32"},
    {"Conv", "pads=[1,1,1,1]", "T[1,8,14,14]n; T[12,8,3,3]n; T[12]n", 1, FLOATS},
    {"Conv", "group=2 dilations=[2,2] pads=[2,1,2,3]", "T[2,8,11,13]n; T[6,4,3,3]n; T[6]n", 1, "f32 f16"},
    {"Conv", "strides=[2] pads=[2,1]", "T[2,6,50]n; T[10,6,5]n", 1, "f32 bf16"},
    {"ConvTranspose", "strides=[2,2] pads=[1,0,0,1]", "T[1,6,7,8]n; T[6,4,3,3]n; T[4]n", 1, FLOATS},
    {"ConvTranspose", "group=2 dilations=[2]", "T[2,4,15]n; T[4,3,3]n; T[6]n", 1, "f32"},
    {"Einsum", "equation='bij,bjk->bik'", "T[3,10,48]n; T[3,48,14]n", 1, FLOATS},
    {"Einsum", "equation='ijk,kl->lij'", "T[4,6,40]n; T[40,9]n", 1, "f32"},
    {"Attention", "", "T[1,4,12,32]n; T[1,4,12,32]n; T[1,4,12,32]n", 1, FLOATS},
    {"Attention", "is_causal=1", "T[1,4,9,16]n; T[1,2,9,16]n; T[1,2,9,16]n", 1, "f32 f16"},
    {"Attention", "softcap=2.0 scale=0.5", "T[2,4,6,16]n; T[2,2,10,16]n; T[2,2,10,16]n; bool[6,10]b", 1, "f32 bf16"},
    {"Attention", "is_causal=1", "T[1,2,4,16]n; T[1,2,5,16]n; T[1,2,5,16]n; -; T[1,2,7,16]n; T[1,2,7,16]n", 1, "f32"},
    {"Attention", "is_causal=1", "T[1,2,5,16]n; T[1,2,11,16]n; T[1,2,11,16]n", 1, "f32"},
    {"Attention", "q_num_heads=4 kv_num_heads=2", "T[2,8,64]n; T[2,8,32]n; T[2,8,32]n; T[2,4,8,8]n", 1, "f32"},
    {"Attention", "", "T[1,2,16,16]n; T[1,2,16,16]n; T[1,2,16,16]n; bool[16,16]d4", 1, "f32"},
    {"Attention", "", "T[1,2,8,16]n20; T[1,2,8,16]n20; T[1,2,8,16]n", 1, "f32"},
    {"Attention", "", "T[1,2,6,16]n; T[1,2,10,16]n; T[1,2,10,16]n; bool[6,10]z", 1, "f32 f16"},
    {"RotaryEmbedding", "", "T[1,3,10,16]n; T[16,8]C; T[16,8]S; i64[1,10]r", 1, FLOATS},
    {"RotaryEmbedding", "interleaved=1 num_heads=2", "T[2,6,32]n; T[12,8]C; T[12,8]S; i64[2,6]r", 1, "f32"},
    {"ReduceSum", "keepdims=0", "T[12,200]n; i64[1]{1}", 1, FLOATS},
    {"ReduceSum", "", "T[20,20]o10; i64[1]{0}", 1, "f32"},
    {"ReduceMean", "", "T[9,130]o1; i64[1]{1}", 1, FLOATS},
    {"ReduceMean", "", "T[14,14,6]n; i64[2]{0,1}", 1, "f32"},
    {"ReduceMean", "", "T[4,500]o300; i64[1]{1}", 1, "f16 f32"},
    {"ReduceL1", "", "T[10,77]n; i64[1]{1}", 1, "f32 f16"},
    {"ReduceL2", "", "T[10,300]n; i64[1]{1}", 1, FLOATS},
    {"ReduceL2", "", "T[6,60]n300; i64[1]{1}", 1, "f16"},
    {"ReduceSumSquare", "", "T[10,130]n; i64[1]{0}", 1, "f32 bf16"},
    {"ReduceMax", "", "T[12,30]n; i64[1]{1}", 1, FLOATS},
    {"ReduceMax", "", "T[6,30]m; i64[1]{1}", 1, "f32 f16"},
    {"ReduceMax", "", "T[12,12]x; i64[1]{1}", 1, "f32"},
    {"ReduceMin", "", "T[12,30]p; i64[1]{0}", 1, "f32 f16"},
    {"ReduceProd", "", "T[12,7]p; i64[1]{1}", 1, "f32"},
    {"ReduceLogSumExp", "", "T[8,100]n; i64[1]{1}", 1, "f32 f16"},
    {"ReduceLogSumExp", "", "T[4,50]o200; i64[1]{1}", 1, "f32"},
    {"ReduceLogSum", "", "T[6,90]p; i64[1]{1}", 1, "f32"},
    {"Softmax", "", "T[10,50]n", 1, FLOATS},
    {"Softmax", "axis=1", "T[6,6,12]n3", 1, "f32"},
    {"Softmax", "", "T[4,60]n60", 1, "f32"},
    {"LogSoftmax", "", "T[10,50]n", 1, "f32 f16"},
    {"LogSoftmax", "axis=0", "T[12,12]o3000", 1, "f32"},
    {"LayerNormalization", "", "T[6,96]n; T[96]n; T[96]n", 1, FLOATS},
    {"LayerNormalization", "epsilon=0.001", "T[5,100]n0.05; T[100]p", 1, "f32"},
    {"LayerNormalization", "", "T[6,64]o1000; T[64]n; T[64]n", 1, "f32"},
    {"LayerNormalization", "", "T[4,64]n500; T[64]p; T[64]n", 1, "f16"},
    {"RMSNormalization", "", "T[6,96]n; T[96]n", 1, FLOATS},
    {"RMSNormalization", "epsilon=0.01", "T[5,100]n0.2; T[100]p", 1, "f32"},
    {"RMSNormalization", "", "T[4,64]n500; T[64]p", 1, "f16"},
    {"GroupNormalization", "num_groups=3", "T[2,6,5,7]n; T[6]n; T[6]n", 1, "f32 f16"},
    {"GroupNormalization", "num_groups=2 epsilon=0.01", "T[1,8,40]o100; T[8]p; T[8]n", 1, "f32"},
    {"InstanceNormalization", "epsilon=0.001", "T[2,4,9,9]n; T[4]n; T[4]n", 1, "f32 f16"},
    {"MeanVarianceNormalization", "", "T[2,3,6,5]n", 1, "f32"},
    {"MeanVarianceNormalization", "axes=[1,2]", "T[3,8,9]o200", 1, "f32"},
    {"BatchNormalization", "epsilon=0.01", "T[2,6,7,5]n; T[6]n; T[6]n; T[6]n; T[6]p", 1, FLOATS},
    {"BatchNormalization", "epsilon=0.001", "T[2,6,20]o1000; T[6]p; T[6]n; T[6]o1000; T[6]p", 1, "f32"},
    {"AveragePool", "kernel_shape=[3,3] pads=[1,1,1,1]", "T[1,3,10,11]n", 1, FLOATS},
    {"AveragePool", "kernel_shape=[3,3] strides=[2,2] pads=[0,1,1,0] ceil_mode=1 count_include_pad=1", "T[1,2,10,11]n", 1, "f32"},
    {"AveragePool", "kernel_shape=[3,2] dilations=[2,1]", "T[1,3,12,9]n", 1, "f32"},
    {"MaxPool", "kernel_shape=[3,3] pads=[1,0,0,1]", "T[1,3,10,11]n", 1, FLOATS},
    {"MaxPool", "kernel_shape=[2,3] pads=[1,1,1,1]", "T[1,2,9,9]m", 1, "f32"},
    {"GlobalAveragePool", "", "T[2,6,9,10]n", 1, FLOATS},
    {"CumSum", "", "T[6,60]n; i64[1]{1}", 1, FLOATS},
    {"CumSum", "exclusive=1 reverse=1", "T[20,20]n; i64[1]{0}", 1, "f32"},
    {"CumSum", "reverse=1", "i32[8,30]w; i64[1]{1}", 1, "f32"},
    {"LSTM", "hidden_size=12", "T[7,3,10]n; T[1,48,10]u0.4; T[1,48,12]u0.4; T[1,96]n", 2, "f32 f16"},
    {"LSTM", "hidden_size=6 direction=reverse", "T[5,2,8]n; T[1,24,8]u0.4; T[1,24,6]u0.4; T[1,48]n", 1, "f32"},
    {"GRU", "hidden_size=10 linear_before_reset=1", "T[6,3,9]n; T[1,30,9]u0.4; T[1,30,10]u0.4; T[1,60]n", 2, "f32 bf16"},
    {"GRU", "hidden_size=6 direction=reverse", "T[5,2,8]n; T[1,18,8]u0.4; T[1,18,6]u0.4; T[1,36]n", 1, "f32"},
    {"RNN", "hidden_size=14", "T[6,2,9]n; T[1,14,9]u0.4; T[1,14,14]u0.4; T[1,28]n", 2, "f32"},
    {"Exp", "", "T[40,25]n2", 1, FLOATS},
    {"Tanh", "", "T[40,25]n", 1, FLOATS},
    {"Sigmoid", "", "T[40,25]n3", 1, FLOATS},
    {"Sigmoid", "", "T[200]m", 1, "f32"},
    {"Erf", "", "T[40,25]n", 1, FLOATS},
    {"Gelu", "", "T[40,25]n2", 1, FLOATS},
    {"Gelu", "approximate=tanh", "T[40,25]n2", 1, "f32 f16"},
    {"Elu", "alpha=0.7", "T[40,25]n", 1, "f32 f16"},
    {"Elu", "", "T[300]n0.001", 1, "f32"},
    {"Selu", "", "T[40,25]n", 1, "f32"},
    {"Celu", "alpha=0.5", "T[40,25]n", 1, "f32"},
    {"Softplus", "", "T[40,25]n4", 1, "f32 f16"},
    {"Softsign", "", "T[40,25]n2", 1, "f32 f16"},
    {"Mish", "", "T[40,25]n2", 1, "f32"},
    {"Sin", "", "T[300]n", 1, "f32 f16"},
    {"Cos", "", "T[300]n", 1, "f32 f16"},
    {"Log", "", "T[300]p", 1, "f32 bf16"},
    {"Sqrt", "", "T[300]p", 1, "f32 f16"},
    {"Relu", "", "T[12,22]x", 1, FLOATS},
    {"LeakyRelu", "alpha=0.2", "T[300]n", 1, FLOATS},
    {"HardSigmoid", "alpha=0.3 beta=0.4", "T[300]n", 1, "f32 f16"},
    {"ThresholdedRelu", "alpha=0.3", "T[300]n", 1, "f32"},
    {"HardSwish", "", "T[300]n2", 1, "f32"},
    {"Swish", "", "T[300]n2", 1, "f32 f16"},
    {"Tan", "", "T[300]u", 1, "f32"},
    {"Atan", "", "T[300]n", 1, "f32"},
    {"Sinh", "", "T[300]n", 1, "f32"},
    {"Reciprocal", "", "T[300]p", 1, "f32"},
    {"Abs", "", "T[12,25]n", 1, "f32 bf16"},
    {"GlobalMaxPool", "", "T[2,6,9,10]n", 1, "f32"},
    {"Round", "", "T[200]h", 1, FLOATS},
    {"Floor", "", "T[200]n3", 1, "f32"},
    {"Add", "", "T[12,16]n; T[16]n", 1, FLOATS},
    {"Add", "", "T[16,16]n; T[16]n", 1, "f32"},
    {"Sub", "", "T[9,9]n; T[9]n", 1, "f32 bf16"},
    {"Mul", "", "T[14,14]n; T[14]n", 1, FLOATS},
    {"Mul", "", "T[200]s; T[200]n", 1, "f32"},
    {"Div", "", "T[14,14]n; T[14]p", 1, FLOATS},
    {"Pow", "", "T[14,14]p; T[14]n", 1, "f32 f16"},
    {"Max", "", "T[12,12]x; T[12]n", 1, FLOATS},
    {"Min", "", "T[12,12]n; T[12,12]n", 1, "f32"},
    {"Mod", "fmod=1", "T[100]n5; T[100]p", 1, "f32 f16"},
    {"Mod", "", "i32[100]w; i32[100]{7,-3,11,-5}", 1, "f32"},
    {"PRelu", "", "T[6,6,8]n; T[6,1]n", 1, "f32 f16"},
    {"PRelu", "", "T[8,8]n; T[8]n", 1, "f32"},
    {"Where", "", "bool[12,12]b; T[12,12]n; T[12,12]n", 1, FLOATS},
    {"Where", "", "bool[12]b; T[12,12]n; T[12,12]n", 1, "f32"},
    {"Clip", "", "T[15,20]n3; T[]{2}; T[]{-1}", 1, "f32 f16"},
    {"Clip", "", "T[15,20]x; T[]{-1}; T[]{1}", 1, "f32"},
    {"Cast", "to=2", "T[100]u200", 1, "f32"},
    {"Cast", "to=3", "i32[200]w", 1, "f32"},
    {"Cast", "to=6", "i8[100]q", 1, "f32"},
    {"Cast", "to=10", "T[4000]n", 1, "f64 f32"},
    {"Cast", "to=16", "T[300]n", 1, "f32"},
    {"Cast", "to=17", "T[300]n300", 1, "f32 f16"},
    {"Cast", "to=19", "T[3000]n30000", 1, "f32"},
    {"QuantizeLinear", "", "T[10,40]h; T[]{1}; u8[]{10}", 1, "f32 f16"},
    {"QuantizeLinear", "axis=0", "T[6,6]u90; T[6]p; i8[6]{0,3,-4}", 1, "f32"},
    {"QuantizeLinear", "axis=1 block_size=8", "T[4,32]u30; T[4,4]p; u8[4,4]{100,110,120}", 1, "f32"},
    {"QuantizeLinear", "saturate=0", "T[200]n300; T[]{1}; f8e4m3fn[]{0}", 1, "f32"},
    {"DequantizeLinear", "axis=1", "u8[9,12]q; T[12]p; u8[12]q", 1, FLOATS},
    {"DequantizeLinear", "axis=0", "i8[8,8]q; T[8]p; i8[8]q", 1, "f32"},
    {"DequantizeLinear", "axis=1 block_size=16", "i4[6,64]q; T[6,4]p; i4[6,4]q", 1, "f32 f16"},
    {"DequantizeLinear", "axis=0 block_size=8", "u4[32,10]q; T[4,10]p", 1, "f32"},
    {"DynamicQuantizeLinear", "", "f32[10,30]n", 3, "f32"},
    {"MatMulInteger", "", "u8[8,40]q; i8[40,12]q; u8[]{120}", 1, "f32"},
    {"MatMulInteger", "", "i8[6,64]q; i8[64,9]q", 1, "f32"},
    {"ConvInteger", "pads=[1,1,1,1]", "u8[1,4,9,9]q; i8[6,4,3,3]q; u8[]{100}", 1, "f32"},
    {"QLinearMatMul", "", "u8[6,32]q; f32[]{1}; u8[]{128}; i8[32,8]q; f32[1]p; i8[1]{0}; f32[]{900}; u8[]{120}", 1, "f32"},
    {"QLinearConv", "pads=[1,1,1,1]", "u8[1,4,8,8]q; f32[]{1}; u8[]{120}; i8[6,4,3,3]q; f32[6]p; i8[6]{0}; f32[]{400}; u8[]{128}; i32[6]w",
     1, "f32"},
    {"Resize", "mode=linear", "T[1,2,9,10]n; -; -; i64[4]{1,2,15,17}", 1, FLOATS},
    {"Resize", "mode=cubic cubic_coeff_a=-0.5", "T[1,2,9,10]n; -; -; i64[4]{1,2,16,23}", 1, "f32"},
    {"Resize", "mode=nearest coordinate_transformation_mode=align_corners", "T[1,2,7,9]n; -; -; i64[4]{1,2,14,20}", 1, "f32 f16"},
    {"Resize", "mode=cubic exclude_outside=1", "T[1,1,8,8]n; -; f32[4]{1,1,2,2}", 1, "f32"},
    {"GridSample", "", "T[1,3,7,8]n; T[1,6,9,2]u1.2", 1, "f32 f16"},
    {"GridSample", "mode=cubic padding_mode=border align_corners=1", "T[1,2,9,9]n; T[1,5,6,2]u1.1", 1, "f32"},
    {"GridSample", "padding_mode=reflection", "T[1,2,9,9]n; T[1,5,6,2]u1.1", 1, "f32"},
    {"ArgMax", "axis=1", "T[14,40]f", 1, FLOATS},
    {"ArgMax", "axis=1 select_last_index=1", "T[6,30]f", 1, "f32"},
    {"ArgMin", "axis=0", "T[24,24]f", 1, "f32"},
    {"ArgMin", "axis=1", "T[8,20]s", 1, "f32"},
    {"ArgMax", "axis=1", "T[8,20]x", 1, "f32"},
    {"TopK", "", "T[8,40]n; i64[1]{6}", 2, FLOATS},
    {"TopK", "", "T[8,40]f; i64[1]{12}", 2, "f32"},
    {"TopK", "largest=0 axis=0", "T[20,20]n; i64[1]{5}", 2, "f32"},
    {"Gather", "axis=0", "T[20,12]n; i64[15]i20", 1, FLOATS},
    {"Gather", "axis=1", "T[12,12]n; i64[12]i12", 1, "f32"},
    {"GatherElements", "axis=1", "T[10,10]n; i64[10,10]i10", 1, "f32 f16"},
    {"GatherND", "", "T[8,9,6]n; i64[15,2]i8", 1, "f32"},
    {"ScatterElements", "axis=1 reduction=add", "T[8,8]n; i64[8,8]i8; T[8,8]n", 1, "f32 f16"},
    {"ScatterElements", "axis=0 reduction=max", "T[8,8]n; i64[6,8]i8; T[6,8]n", 1, "f32"},
    {"ScatterND", "reduction=add", "T[12,6]n; i64[20,1]i12; T[20,6]n", 1, "f32"},
    {"ScatterND", "", "T[30,4]n; i64[4,1]{3,-5,17,8}; T[4,4]n", 1, "f32"},
    {"Pad", "mode=reflect", "T[6,9]n; i64[4]{2,1,0,3}", 1, FLOATS},
    {"Pad", "", "T[6,9]n; i64[4]{1,0,2,4}; T[]{1}", 1, "f32"},
    {"DepthToSpace", "blocksize=2 mode=CRD", "T[1,12,5,6]n", 1, "f32 bf16"},
    {"SpaceToDepth", "blocksize=3", "T[1,2,9,12]n", 1, "f32"},
    {"Transpose", "perm=[1,0]", "T[12,17]n", 1, FLOATS},
    {"Concat", "axis=0", "T[8,8]n; T[8,8]n", 1, "f32 f16"},
    {"Slice", "", "T[12,20]n; i64[2]{1,2}; i64[2]{11,20}; i64[2]{0,1}; i64[2]{1,3}", 1, "f32"},
    {"Expand", "", "T[1,20]n; i64[2]{9,20}", 1, "f32"},
    {"Tile", "", "T[5,8]n; i64[2]{2,3}", 1, "f32"},
    {"Trilu", "upper=0", "T[12,12]n", 1, "f32"},
};

/* ---- products at dispatch sizes ---- */

static const int m_sizes[] = {1, 2, 8, 9, 32}, k_sizes[] = {1, 3, 127, 128, 129, 1000, 4096, 16384},
                 n_sizes[] = {8, 7, 32, 33, 64, 63, 31, 65, 9, 96, 1};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static case_text_t made;
static char made_operands[200];

/* Two widths for every m and k: all of them come up with every k. */
static const case_text_t *dispatch(int i) {
    const int m = i / 2 % COUNT(m_sizes), k = i / 2 / COUNT(m_sizes);
    if (k >= COUNT(k_sizes)) return NULL;
    const int n = n_sizes[(i + 3 * k) % COUNT(n_sizes)];
    snprintf(made_operands, sizeof made_operands, "T[%d,%d]n; T[%d,%d]n", m_sizes[m], k_sizes[k], k_sizes[k], n);
    made = (case_text_t){"MatMul", "", made_operands, 1, FLOATS};
    return &made;
}

/* ---- the other sums at such sizes: %d is the length, %e the number of rows ---- */

static const struct {
    const char *op, *attributes, *operands; /* %r rows, %k length */
    const char *types;
} shapes[] = {
    {"Gemm", "alpha=0.5 beta=2.0", "T[%r,%k]n; T[%k,24]n; T[24]n", FLOATS},
    {"Gemm", "transB=1", "T[%r,%k]n; T[33,%k]n; T[33]n", "f32"},
    {"Einsum", "equation='bk,bk->b'", "T[%r,%k]n; T[%r,%k]n", FLOATS},
    {"ReduceSum", "", "T[%r,%k]n; i64[1]{1}", FLOATS},
    {"ReduceSum", "", "T[%k,%r]o10; i64[1]{0}", "f32"},
    {"ReduceMean", "", "T[%r,%k]o1; i64[1]{1}", FLOATS},
    {"ReduceL2", "", "T[%r,%k]n; i64[1]{1}", FLOATS},
    {"ReduceL1", "", "T[%r,%k]n; i64[1]{1}", "f32"},
    {"ReduceSumSquare", "", "T[%r,%k]n; i64[1]{1}", "f32"},
    {"ReduceLogSumExp", "", "T[%r,%k]n; i64[1]{1}", "f32"},
    {"Softmax", "", "T[%r,%k]n3", FLOATS},
    {"LogSoftmax", "", "T[%r,%k]n3", "f32 f16"},
    {"LayerNormalization", "", "T[%r,%k]n; T[%k]n; T[%k]n", FLOATS},
    {"LayerNormalization", "", "T[%r,%k]o30; T[%k]n; T[%k]n", "f32"},
    {"RMSNormalization", "", "T[%r,%k]n; T[%k]n", FLOATS},
    {"GroupNormalization", "num_groups=2", "T[%r,4,%k]n; T[4]n; T[4]n", "f32"},
    {"InstanceNormalization", "", "T[%r,3,%k]n; T[3]n; T[3]n", "f32"},
    {"MeanVarianceNormalization", "axes=[1]", "T[%r,%k]n", "f32"},
    {"GlobalAveragePool", "", "T[%r,2,%k]n", FLOATS},
    {"CumSum", "", "T[%r,%k]n; i64[1]{1}", "f32 f16"},
    {"Attention", "", "T[1,2,%r,16]n; T[1,2,%k,16]n; T[1,2,%k,16]n", FLOATS},
    {"Conv", "pads=[1,1,1,1]", "T[1,%k,4,4]n; T[%r,%k,3,3]n; T[%r]n", "f32 f16"},
    {"ConvTranspose", "strides=[2]", "T[1,%k,5]n; T[%k,%r,3]n; T[%r]n", "f32"},
};
static const int rows_of[] = {1, 2, 8, 9, 32}, lengths[] = {1, 3, 127, 128, 129, 1000, 4096};

static void expand(const char *form, int rows, int length, char *out, size_t size) {
    size_t at = 0;
    for (const char *p = form; *p && at + 12 < size; ++p) {
        if (*p != '%') out[at++] = *p;
        else at += (size_t)snprintf(out + at, size - at, "%d", *++p == 'r' ? rows : length);
    }
    out[at] = '\0';
}

/* Every form with every length; the rows go round. */
static const case_text_t *reductions(int i) {
    const int k = i % COUNT(lengths), s = i / COUNT(lengths);
    if (s >= COUNT(shapes)) return NULL;
    const int many = lengths[k] > 1000, conv = shapes[s].op[0] == 'C' && shapes[s].op[1] == 'o';
    const int rows = rows_of[(k + s) % (many ? 3 : COUNT(rows_of))], length = conv && lengths[k] > 129 ? 200 + lengths[k] % 7 : lengths[k];
    expand(shapes[s].operands, rows, length, made_operands, sizeof made_operands);
    made = (case_text_t){shapes[s].op, shapes[s].attributes, made_operands, 1, shapes[s].types};
    return &made;
}

const case_text_t *corpus_case(corpus_t which, int i) {
    if (i < 0) return NULL;
    if (which == CORPUS_DISPATCH) return dispatch(i);
    if (which == CORPUS_REDUCTIONS) return reductions(i);
    return i < COUNT(small) ? &small[i] : NULL;
}
