/* INFER-1: types and shapes of every operator's results; open dimensions never claim what a number in their place would deny. */
#include "infer_net.h"

typedef struct single {
    const char *domain, *op;
    int version;
    const char *in;    /* "f32[2,3] i64[2]=1,2 -" */
    const char *attrs; /* NULL: none */
    const char *out;   /* the same manner */
} single_t;

#define MS "com.microsoft"
static const single_t singles[] = {
    /* types */
    {"", "Relu", 14, "bf16[2,3]", NULL, "bf16[2,3]"},
    {"", "Cast", 13, "f32[2,?]", "to=10", "f16[2,?]"},
    {"", "Cast", 13, "f32?", "to=7", "i64?"},
    {"", "CastLike", 15, "f32[2] u8[1]", NULL, "u8[2]"},
    {"", "CastLike", 15, "f32? u8[1]", NULL, "u8?"},
    {"", "IsNaN", 13, "f64[?]", NULL, "bool[?]"},
    {"", "Not", 1, "bool?", NULL, "bool?"},
    {"", "Equal", 13, "f32[2,1] f32[3]", NULL, "bool[2,3]"},
    {"", "Less", 13, "i64? i64[2]", NULL, "bool?"},
    {"", "Where", 16, "bool[3] f16[2,1] f16[1]", NULL, "f16[2,3]"},
    {"", "Where", 16, "bool? f16[2,1] f16[1]", NULL, "f16?"},
    {"", "QuantizeLinear", 13, "f32[2,3] f32[] i8[]", NULL, "i8[2,3]"},
    {"", "DequantizeLinear", 13, "u8[2,3] f32[] u8[]", NULL, "f32[2,3]"},
    {"", "DynamicQuantizeLinear", 11, "f32?", NULL, "u8? f32[] u8[]"},
    {"", "DynamicQuantizeLinear", 11, "f32[2]", NULL, "u8[2] f32[] u8[]"},
    {"", "Dropout", 13, "f32[2,?]", NULL, "f32[2,?] bool[2,?]"},
    {"", "ArgMax", 13, "f32[2,3]", "axis=1 keepdims=0", "i64[2]"},
    {"", "ArgMax", 13, "f32?", "axis=1", "i64?"},
    {"", "Shape", 15, "f32?", NULL, "i64[?]"},
    {"", "Size", 13, "f32[2,?]", NULL, "i64[]"},
    {"", "RandomNormalLike", 1, "i32[2,?]", "dtype=1", "f32[2,?]"},
    {"", "EyeLike", 9, "i32[2,3]", "dtype=11", "f64[2,3]"},
    {"", "Multinomial", 7, "f32[2,9]", "sample_size=4 dtype=6", "i32[2,4]"},
    /* texts and pictures */
    {"", "StringConcat", 20, "string[2,1] string[3]", NULL, "string[2,3]"},
    {"", "StringConcat", 20, "string[?] string[3]", NULL, "string[3]"},
    {"", "StringSplit", 20, "string[2,?]", NULL, "string[2,?,?] i64[2,?]"},
    {"", "StringSplit", 20, "string[2]", NULL, "string[2,?] i64[2]"},
    {"", "StringSplit", 20, "string?", NULL, "string? i64?"},
    {"", "StringNormalizer", 10, "string[4]", NULL, "string[4]"},
    {"", "StringNormalizer", 10, "string[1,?]", NULL, "string[1,?]"},
    {"", "RegexFullMatch", 20, "string[2,?]", NULL, "bool[2,?]"},
    {"", "TfIdfVectorizer", 9, "i64[?,3]", "ngram_indexes=0,4", "f32[?,5]"},
    {"", "TfIdfVectorizer", 9, "i64?", "ngram_indexes=0,4", "f32?"},
    {"", "ImageDecoder", 20, "u8[?]", NULL, "u8[?,?,?]"},
    {"", "ImageDecoder", 20, "u8[5]", NULL, "u8[?,?,?]"},
    /* broadcasting */
    {"", "Add", 14, "f32[2,1,4] f32[3,1]", NULL, "f32[2,3,4]"},
    {"", "Add", 14, "f32[?,4] f32[3,1]", NULL, "f32[3,4]"},
    {"", "Mul", 14, "f32[?,4] f32[1,4]", NULL, "f32[?,4]"},
    {"", "Mul", 14, "f32[0] f32[1]", NULL, "f32[0]"},
    {"", "Max", 13, "f32[2,1] f32[?] f32[]", NULL, "f32[2,?]"},
    {"", "Sum", 13, "f32? f32[2]", NULL, "f32?"},
    {"", "Pow", 15, "f32[2] i64[3,1]", NULL, "f32[3,2]"},
    /* movement */
    {"", "Reshape", 14, "f32[2,3,4] i64[2]=-1,4", NULL, "f32[6,4]"},
    {"", "Reshape", 14, "f32[?,3,4] i64[2]=0,-1", NULL, "f32[?,12]"},
    {"", "Reshape", 14, "f32[?,3,4] i64[2]=-1,12", NULL, "f32[?,12]"},
    {"", "Reshape", 14, "f32[2,3] i64[3]", NULL, "f32[?,?,?]"},
    {"", "Reshape", 14, "f32[2,3] i64[?]", NULL, "f32?"},
    {"", "Reshape", 14, "f32? i64[2]=5,6", NULL, "f32[5,6]"},
    {"", "Flatten", 13, "f32[2,3,4]", "axis=2", "f32[6,4]"},
    {"", "Flatten", 13, "f32[?,3,4]", NULL, "f32[?,12]"},
    {"", "Flatten", 13, "f32?", NULL, "f32[?,?]"},
    {"", "Squeeze", 13, "f32[1,3,1] i64[1]=-1", NULL, "f32[1,3]"},
    {"", "Squeeze", 13, "f32[1,3,1]", NULL, "f32[3]"},
    {"", "Squeeze", 13, "f32[?,3,1]", NULL, "f32?"},
    {"", "Squeeze", 13, "f32[?,3,1] i64[1]=0", NULL, "f32[3,1]"},
    {"", "Squeeze", 11, "f32[1,?]", "axes=0,", "f32[?]"},
    {"", "Unsqueeze", 13, "f32[?,3] i64[2]=0,-1", NULL, "f32[1,?,3,1]"},
    {"", "Unsqueeze", 11, "f32[3]", "axes=0,2", "f32[1,3,1]"},
    {"", "Transpose", 13, "f32[2,?,4]", "perm=2,0,1", "f32[4,2,?]"},
    {"", "Transpose", 13, "f32[2,?]", NULL, "f32[?,2]"},
    {"", "Transpose", 13, "f32?", "perm=1,0", "f32[?,?]"},
    {"", "Concat", 13, "f32[2,3] f32[?,3] f32[4,?]", "axis=0", "f32[?,3]"},
    {"", "Concat", 13, "f32[?,3] f32[2,5]", "axis=1", "f32[2,8]"},
    {"", "Split", 13, "f32[6,?] i64[2]=2,4", "axis=0", "f32[2,?] f32[4,?]"},
    {"", "Split", 18, "f32[7,?]", "axis=0 num_outputs=3", "f32[3,?] f32[3,?] f32[1,?]"},
    {"", "Split", 13, "f32[?,2] i64[2]=2,4", "axis=0", "f32[2,2] f32[4,2]"},
    {"", "Split", 13, "f32[6,2] i64[2]", "axis=0", "f32[?,2] f32[?,2]"},
    {"", "Slice", 13, "f32[9,?] i64[1]=2 i64[1]=100 i64[1]=0", NULL, "f32[7,?]"},
    {"", "Slice", 13, "f32[9,?] i64[1]=2 i64[1]=100 i64[1]=1", NULL, "f32[9,?]"},
    {"", "Slice", 13, "f32[9,4] i64[1] i64[1]=3", NULL, "f32[?,?]"},
    {"", "Expand", 13, "f32[3,1] i64[3]=2,1,6", NULL, "f32[2,3,6]"},
    {"", "Expand", 13, "f32[3,?] i64[2]", NULL, "f32[3,?]"},
    {"", "Tile", 13, "f32[2,?] i64[2]=3,2", NULL, "f32[6,?]"},
    {"", "Pad", 13, "f32[2,?] i64[4]=0,1,1,1", NULL, "f32[3,?]"},
    {"", "DepthToSpace", 13, "f32[?,8,2,?]", "blocksize=2", "f32[?,2,4,?]"},
    {"", "Gather", 13, "f32[5,?,7] i64[2,3]", "axis=1", "f32[5,2,3,7]"},
    {"", "Gather", 13, "f32[5,7] i64[]", NULL, "f32[7]"},
    {"", "Gather", 13, "f32[5,7] i64?", NULL, "f32?"},
    {"", "GatherElements", 13, "f32[?,7] i64[2,3]", NULL, "f32[2,3]"},
    {"", "GatherND", 13, "f32[?,3,4] i64[5,2]", NULL, "f32[5,4]"},
    {"", "ScatterND", 18, "f32[?,3] i64[1,1] f32[1,3]", NULL, "f32[?,3]"},
    {"", "OneHot", 11, "i64[2,?] i64[]=5 f16[2]", "axis=1", "f16[2,5,?]"},
    {"", "OneHot", 11, "i64[2] i64[] f16[2]", NULL, "f16[2,?]"},
    {"", "TopK", 11, "f32[2,9] i64[1]=3", NULL, "f32[2,3] i64[2,3]"},
    {"", "TopK", 11, "f32[?,9] i64[1]", NULL, "f32[?,?] i64[?,?]"},
    {"", "ConstantOfShape", 9, "i64[2]=3,4", NULL, "f32[3,4]"},
    {"", "ConstantOfShape", 9, "i64[2]", NULL, "f32[?,?]"},
    {"", "Range", 11, "i64[]=2 i64[]=9 i64[]=3", NULL, "i64[3]"},
    {"", "Range", 11, "f32[] f32[] f32[]", NULL, "f32[?]"},
    {"", "NonZero", 13, "f32[2,3]", NULL, "i64[2,?]"},
    {"", "NonZero", 13, "i64[3]=0,5,6", NULL, "i64[1,2]"},
    {"", "Compress", 11, "f32[2,3] bool[3]", "axis=1", "f32[2,?]"},
    {"", "Compress", 11, "f32[2,3] bool[3]", NULL, "f32[?]"},
    {"", "Unique", 11, "f32[2,3]", "axis=0", "f32[?,3] i64[?] i64[2] i64[?]"},
    {"", "Unique", 11, "i64[3]=4,4,9", NULL, "i64[2] i64[2] i64[3] i64[2]"},
    {"", "NonMaxSuppression", 11, "f32[1,6,4] f32[1,1,6]", NULL, "i64[?,3]"},
    {"", "Col2Im", 18, "f32[?,12,6] i64[2]=4,5 i64[2]=2,3", NULL, "f32[?,2,4,5]"},
    /* products, windows, reductions */
    {"", "MatMul", 13, "f32[2,1,3,4] f32[5,4,6]", NULL, "f32[2,5,3,6]"},
    {"", "MatMul", 13, "f32[?,4] f32[4,?]", NULL, "f32[?,?]"},
    {"", "MatMul", 13, "f32[4] f32[?,4,6]", NULL, "f32[?,6]"},
    {"", "MatMul", 13, "f32[3,4] f32[4]", NULL, "f32[3]"},
    {"", "MatMulInteger", 10, "u8[?,4] i8[4,2]", NULL, "i32[?,2]"},
    {"", "Gemm", 13, "f32[4,?] f32[4,6]", "transA=1", "f32[?,6]"},
    {"", "QLinearMatMul", 10, "u8[2,3] f32[] u8[] u8[3,4] f32[] u8[] f32[] i8[]", NULL, "i8[2,4]"},
    {"", "Einsum", 12, "f32[2,3] f32[3,4]", "equation=ij,jk->ik", "f32[2,4]"},
    {"", "Conv", 11, "f32[?,3,8,?] f32[16,3,3,3]", "pads=1,1,1,1 strides=2,2", "f32[?,16,4,?]"},
    {"", "Conv", 11, "f32[?,?,8,8] f32[16,3,3,3]", NULL, "f32[?,16,6,6]"},
    {"", "Conv", 11, "f32? f32[16,3,3,3]", NULL, "f32[?,16,?,?]"},
    {"", "Conv", 11, "f32[1,3,8,8] f32[?,3,3,3]", NULL, "f32[1,?,?,?]"},
    {"", "ConvTranspose", 11, "f32[?,4,5,?] f32[4,6,3,3]", "strides=2,2", "f32[?,6,11,?]"},
    {"", "ConvInteger", 10, "u8[1,1,4,4] u8[2,1,3,3]", NULL, "i32[1,2,2,2]"},
    {"", "MaxPool", 12, "f32[?,3,8,?]", "kernel_shape=2,2 strides=2,2", "f32[?,3,4,?] i64[?,3,4,?]"},
    {"", "AveragePool", 19, "f32[1,?,7,7]", "kernel_shape=3,3 ceil_mode=1 strides=2,2", "f32[1,?,3,3]"},
    {"", "GlobalAveragePool", 1, "f32[?,3,?,?]", NULL, "f32[?,3,1,1]"},
    {"", "MaxUnpool", 11, "f32[1,1,2,2] i64[1,1,2,2]", "kernel_shape=2,2 strides=2,2", "f32[1,1,4,4]"},
    {"", "ReduceSum", 13, "f32[2,?,4] i64[1]=-1", NULL, "f32[2,?,1]"},
    {"", "ReduceSum", 13, "f32[2,?,4] i64[2]=0,1", "keepdims=0", "f32[4]"},
    {"", "ReduceSum", 13, "f32[2,3]", "keepdims=0", "f32[]"},
    {"", "ReduceSum", 13, "f32[2,3] i64[1]", NULL, "f32[?,?]"},
    {"", "ReduceSum", 13, "f32[2,3] i64[1]", "keepdims=0", "f32?"},
    {"", "ReduceMean", 13, "f32[2,?,4]", "axes=2, keepdims=0", "f32[2,?]"},
    {"", "Softmax", 13, "f32[2,?]", NULL, "f32[2,?]"},
    {"", "LayerNormalization", 17, "f32[2,?,4] f32[4]", NULL, "f32[2,?,4] f32[2,?,1] f32[2,?,1]"},
    {"", "BatchNormalization", 15, "f32[?,3,4] f32[3] f32[3] f32[3] f32[3]", NULL, "f32[?,3,4]"},
    {"", "CumSum", 14, "f32[2,?] i64[]", NULL, "f32[2,?]"},
    {"", "Resize", 13, "f32[1,?,4,6] - f32[4]=1,1,2,1.5", NULL, "f32[1,?,8,9]"},
    {"", "Resize", 13, "f32[1,?,4,6] - - i64[4]=1,3,7,7", NULL, "f32[1,3,7,7]"},
    {"", "LSTM", 14, "f32[?,2,3] f32[1,20,3] f32[1,20,5]", "hidden_size=5", "f32[?,1,2,5] f32[1,2,5] f32[1,2,5]"},
    {"", "GRU", 14, "f32[7,?,3] f32[2,15,3] f32[2,15,5]", "hidden_size=5 direction=bidirectional", "f32[7,2,?,5] f32[2,?,5]"},
    {"", "HannWindow", 17, "i64[]=10", "output_datatype=11", "f64[10]"},
    {"", "HannWindow", 17, "i64[]", NULL, "f32[?]"},
    {"", "DFT", 20, "f32[?,9,1] i64[]=16", "onesided=1", "f32[?,9,2]"},
    {"", "STFT", 17, "f32[?,128,1] i64[]=8 - i64[]=16", NULL, "f32[?,15,9,2]"},
    {"", "GridSample", 20, "f32[?,3,4,4] f32[2,5,6,2]", NULL, "f32[?,3,5,6]"},
    {"", "AffineGrid", 20, "f32[2,2,3] i64[4]=2,3,5,6", NULL, "f32[2,5,6,2]"},
    {"", "AffineGrid", 20, "f32[2,2,3] i64[4]", NULL, "f32[2,?,?,2]"},
    {MS, "SkipLayerNormalization", 1, "f16[?,4,8] f16[?,4,8] f16[8]", NULL, "f16[?,4,8]"},
    {MS, "QLinearGlobalAveragePool", 1, "u8[1,?,4,4] f32[] u8[] f32[] u8[]", NULL, "u8[1,?,1,1]"},
    {MS, "Attention", 1, "f32[?,5,8] f32[8,24] f32[24]", "num_heads=2", "f32[?,5,8]"},
    {MS, "MultiHeadAttention", 1, "f32[2,?,8] f32[2,7,8] f32[2,7,8]", "num_heads=2", "f32[2,?,8]"},
    {MS, "EmbedLayerNormalization", 1, "i32[?,5] - f32[30,8] f32[9,8] - f32[8] f32[8]", NULL, "f32[?,5,8] i32[?]"},
    {MS, "RotaryEmbedding", 1, "f32[1,?,8] i64[1] f32[9,4] f32[9,4]", NULL, "f32[1,?,8]"},
    {MS, "QLinearAveragePool", 1, "u8[1,3,5,?] f32[] u8[] f32[] u8[]", "kernel_shape=2,2", "u8[1,3,4,?]"},
};
enum { SINGLES = sizeof singles / sizeof *singles };

static net_t single_net(vn_test_t *t, const single_t *c, char *const *in, int ni, int no) {
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"}, *const outs[] = {"y0", "y1", "y2", "y3"};
    net_t n = net_new(t, c->domain, c->version);
    char inputs[64] = "", outputs[64] = "";
    for (int k = 0; k < ni; ++k) {
        const bool absent = !strcmp(in[k], "-");
        if (!absent) net_in(&n, names[k], in[k]);
        sprintf(inputs + strlen(inputs), "%s%s", k ? "," : "", absent ? "-" : names[k]);
    }
    for (int k = 0; k < no; ++k) sprintf(outputs + strlen(outputs), "%s%s", k ? "," : "", outs[k]);
    net_op(&n, c->domain, c->op, inputs, outputs, c->attrs);
    for (int k = 0; k < no; ++k) net_out(&n, outs[k]);
    return n;
}

VN_TEST(infer, one_operator) {
    static const char *const outs[] = {"y0", "y1", "y2", "y3"};
    for (int i = 0; i < SINGLES; ++i) {
        char a[256], b[256], *in[8], *want[4];
        snprintf(a, sizeof a, "%s", singles[i].in);
        snprintf(b, sizeof b, "%s", singles[i].out);
        const int ni = net_split(a, ' ', in, 8), no = net_split(b, ' ', want, 4);
        net_t n = single_net(t, &singles[i], in, ni, no);
        const vn_status_t s = net_try(&n);
        if (s != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s(%s): %s", singles[i].op, singles[i].in, n.err.text);
        for (int k = 0; k < no; ++k) {
            char got[200];
            const vn_inferred_value_t *v = vn_inferred_find(&n.out, outs[k]);
            VN_ASSERT(t, v != NULL);
            net_text(v, got, sizeof got);
            if (strcmp(got, want[k]))
                vn_test_fail(t, __FILE__, __LINE__, "%s(%s): %s is %s, expected %s", singles[i].op, singles[i].in, outs[k], got, want[k]);
            VN_ASSERT_EQ(t, v->reason != NULL, strchr(got, '?') != NULL); /* open facts, and only they, say why */
            VN_ASSERT(t, !v->declared);
        }
        net_free(&n);
    }
}

/* Replaces open dimension number `which` (over all inputs) by `size`; false: there is none. */
static bool close_dim(char *text, int which, int size, char *out) {
    int seen = 0;
    for (char *at = text; *at; ++at) {
        const bool dim = *at == '?' && at > text && (at[-1] == '[' || at[-1] == ',');
        if (dim && seen++ == which) {
            const size_t head = (size_t)(at - text);
            memcpy(out, text, head);
            sprintf(out + head, "%d%s", size, at + 1);
            return true;
        }
    }
    return false;
}

/* True: what was said with a dimension open holds for every number in its place that the operator accepts. */
VN_TEST(infer, open_results_hold_for_numbers) {
    static const char *const outs[] = {"y0", "y1", "y2", "y3"};
    int compared = 0;
    for (int i = 0; i < SINGLES; ++i)
        for (int which = 0; which < 4; ++which)
            for (int size = 0; size < 12; ++size) {
                char text[256], closed[256], b[256], *in[8], *want[4];
                snprintf(text, sizeof text, "%s", singles[i].in);
                snprintf(b, sizeof b, "%s", singles[i].out);
                if (!close_dim(text, which, size, closed)) break;
                if (!size && !strcmp(singles[i].op, "Reshape"))
                    continue; /* of nothing, -1 could be any number: the standard has no answer */
                const int ni = net_split(closed, ' ', in, 8), no = net_split(b, ' ', want, 4);
                net_t n = single_net(t, &singles[i], in, ni, no);
                if (net_try(&n) == VN_OK) {
                    for (int k = 0; k < no; ++k) {
                        const vn_inferred_value_t *v = vn_inferred_find(&n.out, outs[k]);
                        const net_type_t y = net_type(want[k]);
                        char got[200];
                        net_text(v, got, sizeof got);
                        bool holds = v->dtype == VN_UNDEFINED || v->dtype == y.dtype; /* a row may refuse a number without an error */
                        holds = holds && (y.rank < 0 || v->rank < 0 || v->rank == y.rank);
                        for (int d = 0; d < y.rank && v->rank >= 0; ++d)
                            holds = holds && (y.dims[d] < 0 || v->dims[d] < 0 || v->dims[d] == y.dims[d]);
                        if (!holds)
                            vn_test_fail(t, __FILE__, __LINE__, "%s(%s with %d at its open dimension %d) is %s", singles[i].op,
                                         singles[i].in, size, which, got);
                        ++compared;
                    }
                }
                net_free(&n);
            }
    VN_ASSERT_GT(t, compared, 500);
}

/* ---- data that decide, through chains ---- */

/* Shape -> Gather -> Concat -> Reshape, the way exporters split heads. */
static net_t heads(vn_test_t *t, const char *x) {
    net_t n = net_new(t, "", 17);
    net_in(&n, "x", x);
    net_init(&n, "zero", "i64[]=0");
    net_init(&n, "one", "i64[]=1");
    net_init(&n, "axis", "i64[1]=0");
    net_init(&n, "split", "i64[2]=6,64");
    net_op(&n, "", "Shape", "x", "shape", NULL);
    net_op(&n, "", "Gather", "shape,zero", "batch", NULL);
    net_op(&n, "", "Gather", "shape,one", "length", NULL);
    net_op(&n, "", "Unsqueeze", "batch,axis", "batch1", NULL);
    net_op(&n, "", "Unsqueeze", "length,axis", "length1", NULL);
    net_op(&n, "", "Concat", "batch1,length1,split", "want", "axis=0");
    net_op(&n, "", "Reshape", "x,want", "y", NULL);
    net_op(&n, "", "Transpose", "y", "z", "perm=0,2,1,3");
    net_out(&n, "z");
    net_run(&n);
    return n;
}

VN_TEST(infer, data_decide_through_chains) {
    net_t n = heads(t, "f32[2,50,384]");
    NET_IS(&n, "z", "f32[2,6,50,64]");
    const vn_inferred_value_t *want = vn_inferred_find(&n.out, "want");
    VN_ASSERT(t, want->value != NULL);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(want->value->tensor, 1), 50);
    VN_ASSERT_EQ(t, n.out.known, n.out.count);
    net_free(&n);
    n = heads(t, "f32[?,50,384]"); /* one element of the vector is open, the others are followed */
    NET_IS(&n, "want", "i64[4]");
    NET_IS(&n, "z", "f32[?,6,50,64]");
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "z")->reason, "input x");
    net_free(&n);
    n = heads(t, "f32[?,?,384]");
    NET_IS(&n, "z", "f32[?,6,?,64]");
    net_free(&n);
}

/* Arithmetic on partly known vectors: a masked Expand as torch writes it, and a product that closes a dimension. */
VN_TEST(infer, partly_known_vectors) {
    net_t n = net_new(t, "", 17);
    net_in(&n, "x", "f32[?,3,4]");
    net_in(&n, "row", "f32[1,1,4]");
    net_init(&n, "two", "i64[]=2");
    net_init(&n, "wish", "i64[3]=-1,3,4");
    net_init(&n, "ones", "i64[3]=1,1,1");
    net_init(&n, "minus", "i64[]=-1");
    net_init(&n, "from", "i64[1]=1");
    net_init(&n, "to", "i64[1]=3");
    net_op(&n, "", "Equal", "wish,minus", "free", NULL);
    net_op(&n, "", "Where", "free,ones,wish", "size", NULL);
    net_op(&n, "", "Expand", "row,size", "wide", NULL);
    net_op(&n, "", "Shape", "x", "shape", NULL);
    net_op(&n, "", "Mul", "shape,two", "double", NULL);
    net_op(&n, "", "Cast", "double", "short", "to=6");
    net_op(&n, "", "Slice", "short,from,to", "tail", NULL);
    net_op(&n, "", "Add", "tail,tail", "sum", NULL); /* both known, though the vector before was not */
    net_op(&n, "", "Cast", "sum", "long", "to=7");
    net_op(&n, "", "ConstantOfShape", "long", "made", NULL);
    net_op(&n, "", "Max", "shape,ones", "most", NULL);
    net_op(&n, "", "Expand", "row,most", "like", NULL);
    const char *const outs[] = {"wide", "made", "like"};
    for (int k = 0; k < 3; ++k) net_out(&n, outs[k]);
    net_run(&n);
    NET_IS(&n, "wide", "f32[1,3,4]");
    NET_IS(&n, "tail", "i32[2]");
    NET_IS(&n, "made", "f32[12,16]");
    NET_IS(&n, "like", "f32[?,3,4]");
    net_free(&n);
}

VN_TEST(infer, what_decides_is_named) {
    net_t n = net_new(t, "", 17);
    net_in(&n, "x", "f32[4,5]");
    net_in(&n, "s", "i64[2]");
    net_op(&n, "", "NonZero", "x", "where", NULL);
    net_op(&n, "", "Transpose", "where", "rows", NULL);
    net_op(&n, "", "GatherND", "x,rows", "picked", NULL);
    net_op(&n, "", "Reshape", "x,s", "shaped", NULL);
    net_op(&n, "far.away", "Mystery", "picked", "strange", NULL);
    net_op(&n, "", "Identity", "strange", "y", NULL);
    net_ok(&n, vn_model_set_opset(n.m, "far.away", 3, &n.err));
    net_out(&n, "y");
    net_run(&n);
    NET_IS(&n, "picked", "f32[?]");
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "picked")->reason, "NonZero");
    NET_IS(&n, "shaped", "f32[?,?]");
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "shaped")->reason, "node Reshape_3 (Reshape): input 1 decides");
    NET_IS(&n, "y", "unknown");
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "y")->reason, "far.away.Mystery): the operator has no oracle");
    VN_ASSERT(t, vn_inferred_find(&n.out, "nothing") == NULL);
    net_free(&n);
}

/* An element that the oracle leaves open (an index out of range) or draws is not known. */
VN_TEST(infer, open_elements_are_not_known) {
    net_t n = net_new(t, "", 17);
    net_init(&n, "x", "i64[2]=3,4");
    net_init(&n, "k", "i64[1]=7");
    net_op(&n, "", "Gather", "x,k", "y", NULL);
    vn_node_t *node = net_op(&n, "", "RandomUniform", "", "r", "dtype=1 shape=2,2");
    (void)node;
    net_out(&n, "y");
    net_out(&n, "r");
    net_run(&n);
    NET_IS(&n, "y", "i64[1]");
    NET_IS(&n, "r", "f32[2,2]");
    VN_ASSERT(t, vn_inferred_find(&n.out, "y")->value == NULL);
    VN_ASSERT(t, vn_inferred_find(&n.out, "r")->value == NULL);
    VN_ASSERT(t, vn_inferred_find(&n.out, "x")->value != NULL);
    net_free(&n);
}

/* ---- declarations ---- */

static void declare(net_t *n, const char *name, vn_dtype_t type, const char *first, int64_t second) {
    vn_dim_t dims[2] = {{.value = -1, .param = first}, {.value = second}};
    const vn_type_t y = {.kind = VN_TYPE_TENSOR, .dtype = type, .rank = 2, .dims = dims};
    net_ok(n, vn_graph_add_typed(n->g, false, name, &y, &n->err));
}

VN_TEST(infer, inputs_and_declarations) {
    net_t n = net_new(t, "", 17);
    declare(&n, "x", VN_F32, "batch", 3);
    declare(&n, "w", VN_F32, "batch", 4);
    declare(&n, "v", VN_F32, "other", 4);
    net_op(&n, "", "Identity", "v", "y", NULL);
    net_op(&n, "far.away", "Mystery", "x", "z", NULL);
    net_ok(&n, vn_model_set_opset(n.m, "far.away", 3, &n.err));
    net_out(&n, "y");
    vn_dim_t dims[2] = {{.value = -1, .param = "batch"}, {.value = 9}};
    const vn_type_t y = {.kind = VN_TYPE_TENSOR, .dtype = VN_F16, .rank = 2, .dims = dims};
    net_ok(&n, vn_graph_add_typed(n.g, true, "z", &y, &n.err));
    net_ok(&n, vn_infer_input(&n.in, "x", VN_F32, 2, (const int64_t[]){7, -1}, &n.err));
    net_run(&n);
    NET_IS(&n, "x", "f32[7,3]"); /* what is given, filled by what is declared */
    NET_IS(&n, "w", "f32[7,4]"); /* the same symbol */
    NET_IS(&n, "y", "f32[?,4]");
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "y")->reason, "input v is declared f32[other,4] and not given");
    NET_IS(&n, "z", "f16[7,9]"); /* no oracle: the file's own word, and marked so */
    VN_ASSERT(t, vn_inferred_find(&n.out, "z")->declared && !vn_inferred_find(&n.out, "z")->reason);
    VN_ASSERT(t, !vn_inferred_find(&n.out, "y")->declared);
    vn_inferred_free(&n.out);
    VN_ASSERT_OK(t, vn_oracle_infer(n.m, NULL, &n.out, NULL));
    NET_IS(&n, "x", "f32[?,3]");
    net_free(&n);
}

VN_TEST(infer, an_initialiser_is_a_default) {
    net_t n = net_new(t, "", 17);
    net_init(&n, "s", "i64[2]=2,6");
    net_ok(&n, vn_graph_add_input(n.g, "s", VN_I64, 1, (const int64_t[]){2}, &n.err));
    net_in(&n, "x", "f32[12]");
    net_op(&n, "", "Reshape", "x,s", "y", NULL);
    net_out(&n, "y");
    net_run(&n);
    NET_IS(&n, "y", "f32[2,6]");
    vn_inferred_free(&n.out);
    const net_type_t other = net_type("i64[2]=3,4");
    vn_tensor_t *s = net_tensor(&n, &other);
    net_ok(&n, vn_bundle_add(&n.in, "s", s, &n.err));
    vn_tensor_free(s);
    net_ok(&n, vn_oracle_infer(n.m, &n.in, &n.out, &n.err));
    NET_IS(&n, "y", "f32[3,4]");
    net_free(&n);
}

/* ---- what cannot run ---- */

VN_TEST(infer, errors_name_the_node) {
    static const struct {
        const char *op, *in, *attrs;
        vn_status_t status;
        const char *text;
    } cases[] = {
        {"Add", "f32[2] f32[3]", NULL, VN_ERR_SHAPE, "node Add_0 (Add)"},
        {"Add", "f32[?,2] f32[3]", NULL, VN_ERR_SHAPE, "node Add_0 (Add)"},
        {"MatMul", "f32[?,3] f32[4,2]", NULL, VN_ERR_SHAPE, "node MatMul_0 (MatMul)"},
        {"Reshape", "f32[5] i64[1]=4", NULL, VN_ERR_SHAPE, "node Reshape_0 (Reshape)"},
        {"Transpose", "f32[?,3]", "perm=0,1,2", VN_ERR_SHAPE, "node Transpose_0 (Transpose): perm"},
        {"Concat", "f32[?,3] f32[?,4]", "axis=0", VN_ERR_SHAPE, "node Concat_0 (Concat)"},
        {"Gather", "f32[?,3] i64[1]", "axis=5", VN_ERR_RANGE, "node Gather_0 (Gather): axis 5"},
        {"Conv", "f32[1,3,4,4]", NULL, VN_ERR_SHAPE, "node Conv_0 (Conv): input 1 is missing"},
        {"Expand", "f32[1] i64[2]=4611686018427387904,4611686018427387904", NULL, VN_ERR_RANGE, "node Expand_0 (Expand)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        char a[256], *in[8];
        snprintf(a, sizeof a, "%s", cases[i].in);
        const single_t c = {.domain = "", .op = cases[i].op, .version = 17, .attrs = cases[i].attrs};
        net_t n = single_net(t, &c, in, net_split(a, ' ', in, 8), 1);
        const vn_status_t s = net_try(&n);
        if (s != cases[i].status)
            vn_test_fail(t, __FILE__, __LINE__, "%s(%s): %s, expected %s (%s)", cases[i].op, cases[i].in, vn_status_name(s),
                         vn_status_name(cases[i].status), n.err.text);
        VN_ASSERT_HAS(t, n.err.text, cases[i].text);
        VN_ASSERT_EQ(t, n.out.count, 0);
        net_free(&n);
    }
}

VN_TEST(infer, inputs_that_contradict) {
    net_t n = net_new(t, "", 17);
    declare(&n, "x", VN_F32, "batch", 3);
    net_op(&n, "", "Relu", "x", "y", NULL);
    net_out(&n, "y");
    net_ok(&n, vn_model_finish(n.m, &n.err));
    static const struct {
        const char *name;
        vn_dtype_t type;
        int rank;
        int64_t dims[3];
        vn_status_t status;
    } cases[] = {
        {"x", VN_F16, 2, {1, 3}, VN_ERR_DTYPE},
        {"x", VN_F32, 3, {1, 3, 3}, VN_ERR_SHAPE},
        {"x", VN_F32, 2, {1, 4}, VN_ERR_SHAPE},
        {"q", VN_F32, 2, {1, 3}, VN_ERR_NOTFOUND},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        vn_bundle_t in = {0};
        net_ok(&n, vn_infer_input(&in, cases[i].name, cases[i].type, cases[i].rank, cases[i].dims, &n.err));
        VN_ASSERT_EQ(t, vn_oracle_infer(n.m, &in, &n.out, &n.err), cases[i].status);
        VN_ASSERT_HAS(t, n.err.text, cases[i].name);
        vn_bundle_free(&in);
    }
    vn_bundle_t in = {0};
    VN_ASSERT_EQ(t, vn_infer_input(&in, "x", VN_UNDEFINED, 0, NULL, NULL), VN_ERR_DTYPE);
    VN_ASSERT_EQ(t, vn_infer_input(&in, "x", VN_F32, VN_MAX_RANK + 1, NULL, NULL), VN_ERR_RANGE);
    net_free(&n);
}

VN_TEST_MAIN(VN_CASE(infer, one_operator), VN_CASE(infer, open_results_hold_for_numbers), VN_CASE(infer, data_decide_through_chains),
             VN_CASE(infer, partly_known_vectors), VN_CASE(infer, what_decides_is_named), VN_CASE(infer, open_elements_are_not_known),
             VN_CASE(infer, inputs_and_declarations), VN_CASE(infer, an_initialiser_is_a_default), VN_CASE(infer, errors_name_the_node),
             VN_CASE(infer, inputs_that_contradict))
