/* Claims GRAD-1 to GRAD-6: gradient graphs against central differences of the forward graph, and against f32 executions; the operator Gradient.
 *
 * Differences are of fourth order with h = 2^-10: their own error is h^4/30 times a fifth derivative, plus 1.5 2^-53 |L| / h, together below
 * 2^-28 of the size of L and its gradient for the operators here; wrong formulas are off by parts of one.
 */
#include <math.h>

#include "oracle/infer_net.h"

enum { INPUTS = 5 };

typedef struct rule_case {
    const char *op;
    int version;
    const char *inputs; /* "f[2,3] -1 1": differentiated, uniform; "z[2,3] 0 1": a float that is not; "i64[2]=0,2": constant */
    const char *attrs, *floats;
    const char *outputs; /* all of them get a cotangent */
} rule_case_t;

static const rule_case_t cases[] = {
    {"Identity", 13, "f[2,3] -1 1", "", "", "y"},
    {"Neg", 13, "f[2,3] -1 1", "", "", "y"},
    {"Abs", 13, "f[5] 0.2 2", "", "", "y"},
    {"Exp", 13, "f[5] -1 1", "", "", "y"},
    {"Log", 13, "f[5] 0.5 2", "", "", "y"},
    {"Sqrt", 13, "f[5] 0.5 2", "", "", "y"},
    {"Reciprocal", 13, "f[5] 0.5 2", "", "", "y"},
    {"Sin", 13, "f[5] -2 2", "", "", "y"},
    {"Cos", 13, "f[5] -2 2", "", "", "y"},
    {"Tan", 13, "f[5] -0.7 0.7", "", "", "y"},
    {"Asin", 13, "f[5] -0.6 0.6", "", "", "y"},
    {"Acos", 13, "f[5] -0.6 0.6", "", "", "y"},
    {"Atan", 13, "f[5] -2 2", "", "", "y"},
    {"Sinh", 13, "f[5] -1 1", "", "", "y"},
    {"Cosh", 13, "f[5] -1 1", "", "", "y"},
    {"Tanh", 13, "f[5] -1 1", "", "", "y"},
    {"Asinh", 13, "f[5] -1 1", "", "", "y"},
    {"Acosh", 13, "f[5] 1.5 3", "", "", "y"},
    {"Atanh", 13, "f[5] -0.5 0.5", "", "", "y"},
    {"Erf", 13, "f[5] -1 1", "", "", "y"},
    {"Sigmoid", 13, "f[5] -2 2", "", "", "y"},
    {"Softplus", 13, "f[5] -2 2", "", "", "y"},
    {"Softsign", 22, "f[5] 0.2 2", "", "", "y"},
    {"Relu", 14, "f[5] 0.1 2", "", "", "y"},
    {"Relu", 14, "f[5] -2 -0.1", "", "", "y"},
    {"LeakyRelu", 16, "f[5] -2 -0.1", "", "alpha=0.25", "y"},
    {"Elu", 13, "f[5] -2 -0.1", "", "alpha=1.5", "y"},
    {"Selu", 13, "f[5] -2 -0.1", "", "", "y"},
    {"Selu", 13, "f[5] 0.1 2", "", "", "y"},
    {"Celu", 13, "f[5] -2 -0.1", "", "alpha=2", "y"},
    {"ThresholdedRelu", 13, "f[5] 1.1 2", "", "", "y"},
    {"HardSigmoid", 13, "f[5] -1 1", "", "", "y"},
    {"HardSwish", 14, "f[5] -2 2", "", "", "y"},
    {"HardSwish", 14, "f[5] 4 5", "", "", "y"},
    {"Shrink", 13, "f[5] 0.8 2", "", "", "y"},
    {"Mish", 18, "f[5] -2 2", "", "", "y"},
    {"Swish", 24, "f[5] -2 2", "", "alpha=1.5", "y"},
    {"Gelu", 20, "f[5] -2 2", "", "", "y"},
    {"Gelu", 20, "f[5] -2 2", "approximate=tanh", "", "y"},
    {"Add", 14, "f[2,3] -1 1; f[3] -1 1", "", "", "y"},
    {"Sub", 14, "f[2,1] -1 1; f[4,1,3] -1 1", "", "", "y"},
    {"Mul", 14, "f[2,3] -1 1; f[] -1 1", "", "", "y"},
    {"Div", 14, "f[2,3] -1 1; f[2,1] 0.7 2", "", "", "y"},
    {"Pow", 15, "f[4] 0.5 2; f[4] -1 3", "", "", "y"},
    {"PRelu", 16, "f[2,3] -2 -0.1; f[3] 0.1 0.5", "", "", "y"},
    {"Where", 16, "bool[4]=1,0,1,0; f[4] -1 1; f[1] -1 1", "", "", "y"},
    {"Sum", 13, "f[2,3] -1 1; f[3] -1 1; f[2,1] -1 1", "", "", "y"},
    {"Mean", 13, "f[2,3] -1 1; f[3] -1 1", "", "", "y"},
    {"Max", 13, "f[4] -1 -0.1; f[4] 0.1 1; f[1] -3 -2", "", "", "y"},
    {"Min", 13, "f[4] -1 -0.1; f[4] 0.1 1", "", "", "y"},
    {"Clip", 13, "f[6] -0.9 0.9; f[] -1.5 -1.4; f[] 1.4 1.5", "", "", "y"},
    {"Clip", 13, "f[6] 2 3; f[] -1.5 -1.4; f[] 1.4 1.5", "", "", "y"},
    {"Floor", 13, "f[5] 0.2 0.8", "", "", "y"},
    {"ReduceSum", 13, "f[2,3,2] -1 1; i64[1]=1", "keepdims=0", "", "y"},
    {"ReduceSum", 12, "f[2,3,2] -1 1", "axes=0,-1", "", "y"},
    {"ReduceMean", 18, "f[2,3,2] -1 1; i64[2]=0,2", "", "", "y"},
    {"ReduceMean", 13, "f[2,3] -1 1", "keepdims=0", "", "y"},
    {"ReduceSumSquare", 18, "f[2,3] -1 1; i64[1]=1", "", "", "y"},
    {"ReduceL1", 18, "f[2,3] 0.2 1; i64[1]=1", "", "", "y"},
    {"ReduceL2", 18, "f[2,3] 0.2 1; i64[1]=1", "keepdims=0", "", "y"},
    {"ReduceLogSum", 18, "f[2,3] 0.2 1; i64[1]=0", "", "", "y"},
    {"ReduceLogSumExp", 18, "f[2,3] -1 1; i64[1]=1", "", "", "y"},
    {"ReduceMax", 18, "f[2,3] -1 1; i64[1]=1", "", "", "y"},
    {"ReduceMin", 18, "f[4] -1 1", "", "", "y"},
    {"MatMul", 13, "f[2,3] -1 1; f[3,4] -1 1", "", "", "y"},
    {"MatMul", 13, "f[5,2,3] -1 1; f[3,2] -1 1", "", "", "y"},
    {"MatMul", 13, "f[3] -1 1; f[2,3,2] -1 1", "", "", "y"},
    {"MatMul", 13, "f[2,3] -1 1; f[3] -1 1", "", "", "y"},
    {"MatMul", 13, "f[3] -1 1; f[3] -1 1", "", "", "y"},
    {"Gemm", 13, "f[2,3] -1 1; f[3,4] -1 1; f[4] -1 1", "", "alpha=0.5 beta=2", "y"},
    {"Gemm", 13, "f[3,2] -1 1; f[4,3] -1 1", "transA=1 transB=1", "", "y"},
    {"Gemm", 13, "f[3,2] -1 1; f[3,4] -1 1; f[2,1] -1 1", "transA=1", "", "y"},
    {"Gemm", 13, "f[2,3] -1 1; f[4,3] -1 1; f[] -1 1", "transB=1", "", "y"},
    {"Einsum", 12, "f[2,3,4] -1 1; f[4,3,2] -1 1", "equation=bij,jik->bk", "", "y"},
    {"Einsum", 12, "f[2,3] -1 1", "equation=ij->i", "", "y"},
    {"Conv", 11, "f[2,2,5] -1 1; f[3,2,3] -1 1; f[3] -1 1", "", "", "y"},
    {"Conv", 11, "f[1,4,5,6] -1 1; f[2,2,3,2] -1 1", "group=2 strides=2,1 dilations=1,2 pads=1,0,1,2", "", "y"},
    {"Conv", 11, "f[2,3,6] -1 1; f[3,1,3] -1 1", "group=3 strides=2, auto_pad=SAME_UPPER", "", "y"},
    {"Conv", 11, "f[1,1,7] -1 1; f[1,1,2] -1 1", "strides=3,", "", "y"},
    {"ConvTranspose", 11, "f[2,2,4] -1 1; f[2,3,3] -1 1; f[3] -1 1", "strides=2, pads=1,0 output_padding=1,", "", "y"},
    {"ConvTranspose", 11, "f[1,4,3,3] -1 1; f[4,1,2,3] -1 1", "group=2 strides=2,1 dilations=1,2", "", "y"},
    {"GlobalAveragePool", 13, "f[2,2,3,3] -1 1", "", "", "y"},
    {"AveragePool", 11, "f[1,2,5,4] -1 1", "kernel_shape=2,3 strides=2,1", "", "y"},
    {"AveragePool", 11, "f[1,2,5] -1 1", "kernel_shape=3, pads=1,1 count_include_pad=1", "", "y"},
    {"Reshape", 14, "f[2,3] -1 1; i64[2]=3,-1", "", "", "y"},
    {"Flatten", 13, "f[2,3,2] -1 1", "axis=2", "", "y"},
    {"Squeeze", 13, "f[2,1,3] -1 1; i64[1]=1", "", "", "y"},
    {"Unsqueeze", 13, "f[2,3] -1 1; i64[1]=0", "", "", "y"},
    {"Transpose", 13, "f[2,3,4] -1 1", "perm=2,0,1", "", "y"},
    {"Transpose", 13, "f[2,3,4] -1 1", "", "", "y"},
    {"Expand", 13, "f[2,1] -1 1; i64[3]=4,1,3", "", "", "y"},
    {"Tile", 13, "f[2,3] -1 1; i64[2]=2,3", "", "", "y"},
    {"Concat", 13, "f[2,3] -1 1; f[2,1] -1 1", "axis=-1", "", "y"},
    {"Split", 13, "f[5,2] -1 1; i64[2]=2,3", "axis=0", "", "y,z"},
    {"Slice", 16, "f[5,4] -1 1; i64[2]=1,-1; i64[2]=5,-4; i64[2]=0,1; i64[2]=2,-1", "", "", "y"},
    {"Slice", 16, "f[5,4] -1 1; i64[1]=1; i64[1]=4; i64[1]=0", "", "", "y"},
    {"Pad", 18, "f[2,3] -1 1; i64[4]=1,0,2,1", "", "", "y"},
    {"Gather", 16, "f[3,4] -1 1; i64[2,2]=0,2,2,-1", "axis=1", "", "y"},
    {"GatherElements", 16, "f[3,2] -1 1; i64[2,2]=0,2,2,2", "", "", "y"},
    {"GatherND", 16, "f[3,2] -1 1; i64[3,1]=0,2,2", "", "", "y"},
    {"Trilu", 14, "f[3,3] -1 1", "upper=0", "", "y"},
    {"CumSum", 14, "f[2,4] -1 1; i64[]=1", "exclusive=1", "", "y"},
    {"DepthToSpace", 13, "f[1,8,2,3] -1 1", "blocksize=2", "", "y"},
    {"SpaceToDepth", 13, "f[1,2,4,2] -1 1", "blocksize=2", "", "y"},
    {"Cast", 13, "f[3] -1 1", "to=11", "", "y"},
    {"Dropout", 13, "f[3] -1 1", "", "", "y"},
    {"Softmax", 13, "f[2,4] -1 1", "axis=1", "", "y"},
    {"Softmax", 12, "f[2,2,3] -1 1", "axis=1", "", "y"},
    {"LogSoftmax", 13, "f[2,4] -1 1", "axis=0", "", "y"},
    {"LayerNormalization", 17, "f[3,4] -1 1; f[4] 0.5 1.5; f[4] -1 1", "", "", "y"},
    {"LayerNormalization", 17, "f[2,3,2] -1 1; f[3,2] 0.5 1.5", "axis=1", "", "y"},
    {"RMSNormalization", 23, "f[3,4] -1 1; f[4] 0.5 1.5", "", "", "y"},
    {"InstanceNormalization", 13, "f[2,3,4] -1 1; f[3] 0.5 1.5; f[3] -1 1", "", "", "y"},
    {"GroupNormalization", 21, "f[2,4,3] -1 1; f[4] 0.5 1.5; f[4] -1 1", "num_groups=2", "", "y"},
    {"BatchNormalization", 15, "f[2,3,2] -1 1; f[3] 0.5 1.5; f[3] -1 1; f[3] -1 1; f[3] 0.5 2", "", "", "y"},
    {"SoftmaxCrossEntropyLoss", 13, "f[3,4] -1 1; i64[3]=0,3,1", "", "", "y"},
    {"SoftmaxCrossEntropyLoss", 13, "f[3,4,2] -1 1; i64[3,2]=0,3,1,2,2,1; z[4] 0.5 2", "reduction=mean ignore_index=2", "", "y,z"},
    {"SoftmaxCrossEntropyLoss", 13, "f[3,4] -1 1; i64[3]=0,-1,1", "reduction=none ignore_index=-1", "", "y"},
    {"NegativeLogLikelihoodLoss", 13, "f[3,4] -1 1; i64[3]=0,3,1; z[4] 0.5 2", "reduction=sum", "", "y"},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- one rule as a graph with random data ---- */

typedef struct made {
    net_t net; /* net.in: the data */
    const char *xs[INPUTS], *ys[4], *cots[4];
    int n_xs, n_ys;
    vn_model_t *gradient;
    vn_bundle_t all; /* data and cotangents */
} made_t;

static void put_random(made_t *m, vn_rng_t *rng, vn_bundle_t *b, const char *name, vn_dtype_t t, int rank, const int64_t *dims, double lo,
                       double hi) {
    vn_tensor_t *x;
    net_ok(&m->net, vn_tensor_new(t, rank, dims, &x, &m->net.err));
    for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_f64(x, i, (double)(float)(lo + (hi - lo) * vn_rng_uniform(rng)));
    net_ok(&m->net, vn_bundle_add(b, name, x, &m->net.err));
    vn_tensor_free(x);
}

static void set_floats(made_t *m, vn_node_t *node, const char *text) {
    char copy[128], *words[4];
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    const int n = net_split(copy, ' ', words, 4);
    for (int i = 0; i < n; ++i) {
        char *value = strchr(words[i], '=');
        *value++ = '\0';
        net_ok(&m->net, vn_node_set_float(m->net.m, node, words[i], strtof(value, NULL), &m->net.err));
    }
}

static void make(vn_test_t *t, const rule_case_t *c, vn_dtype_t type, vn_rng_t *rng, made_t *m) {
    static const char *const names[INPUTS] = {"a", "b", "c", "d", "e"}, *const outs[] = {"y", "z"}, *const cots[] = {"gy", "gz"};
    char inputs[64] = "", texts[256], *list[INPUTS];
    snprintf(texts, sizeof texts, "%s", c->inputs);
    const int n_in = net_split(texts, ';', list, INPUTS);
    memset(m, 0, sizeof *m);
    m->net = net_new(t, "", c->version);
    for (int k = 0; k < n_in; ++k) {
        const char *text = list[k] + (*list[k] == ' ');
        strcat(strcat(inputs, k ? "," : ""), names[k]);
        if (*text != 'f' && *text != 'z') {
            net_init(&m->net, names[k], text);
            continue;
        }
        char full[80], *rest;
        snprintf(full, sizeof full, "f32%s", text + 1);
        const net_type_t y = net_type(full);
        const double lo = strtod(strchr(text, ' '), &rest), hi = strtod(rest, NULL);
        net_ok(&m->net, vn_graph_add_input(m->net.g, names[k], type, y.rank, y.dims, &m->net.err));
        put_random(m, rng, &m->net.in, names[k], type, y.rank, y.dims, lo, hi);
        if (*text == 'f') m->xs[m->n_xs++] = names[k];
    }
    const char *attrs = c->attrs;
    if (strcmp(c->op, "Cast") == 0 && type == VN_F32) attrs = "to=1";
    set_floats(m, net_op(&m->net, "", c->op, inputs, c->outputs, attrs), c->floats);
    m->n_ys = strchr(c->outputs, ',') ? 2 : 1;
    for (int k = 0; k < m->n_ys; ++k) {
        m->ys[k] = outs[k];
        m->cots[k] = cots[k];
        net_out(&m->net, outs[k]);
    }
    net_run(&m->net);
    for (int k = 0; k < m->net.in.count; ++k)
        net_ok(&m->net, vn_bundle_add(&m->all, m->net.in.items[k].name, m->net.in.items[k].tensor, &m->net.err));
    for (int k = 0; k < m->n_ys; ++k) {
        const vn_inferred_value_t *y = vn_inferred_find(&m->net.out, m->ys[k]);
        put_random(m, rng, &m->all, m->cots[k], type, y->rank, y->dims, -1, 1);
    }
    const vn_gradient_ask_t ask = {.n_ys = m->n_ys, .ys = m->ys, .cotangents = m->cots, .n_xs = m->n_xs, .xs = m->xs, .open_zs = true};
    net_ok(&m->net, vn_oracle_gradient(m->net.g, &ask, &m->net.in, &m->gradient, &m->net.err));
}

static void made_free(made_t *m) {
    vn_bundle_free(&m->all);
    vn_model_free(m->gradient);
    net_free(&m->net);
}

static vn_contract_t portable(void) {
    vn_contract_t c;
    vn_contract_builtin("portable", &c);
    return c;
}

/* L = sum of cotangent times y, by the forward graph in f64. */
static long double functional(made_t *m) {
    vn_ref_t refs[4];
    const vn_contract_t c = portable();
    net_ok(&m->net, vn_oracle_region(m->net.m, &m->net.in, &c, VN_WANT_VALUE, refs, &m->net.err));
    long double sum = 0;
    for (int k = 0; k < m->n_ys; ++k) {
        const vn_tensor_t *g = vn_bundle_find(&m->all, m->cots[k]);
        for (int64_t i = 0; i < refs[k].count; ++i) {
            const long double y = refs[k].value ? (long double)refs[k].value[i] + (refs[k].lo ? refs[k].lo[i] : 0)
                                                : (long double)vn_tensor_get_f64(refs[k].tensor, i);
            sum += y * vn_tensor_get_f64(g, i);
        }
        vn_ref_free(&refs[k]);
    }
    return sum;
}

static double difference(made_t *m, vn_tensor_t *x, int64_t i) {
    const double h = 0x1p-10, at = vn_tensor_get_f64(x, i);
    long double l[4];
    static const double places[] = {1, -1, 2, -2};
    for (int k = 0; k < 4; ++k) {
        vn_tensor_set_f64(x, i, at + places[k] * h);
        l[k] = functional(m);
    }
    vn_tensor_set_f64(x, i, at);
    return (double)((8 * (l[0] - l[1]) - (l[2] - l[3])) / (12 * (long double)h));
}

VN_TEST(gradient, formulas_against_differences) {
    vn_rng_t rng = vn_test_rng(t);
    const vn_contract_t c = portable();
    for (int n = 0; n < CASES; ++n) {
        made_t m;
        vn_ref_t refs[INPUTS];
        make(t, &cases[n], VN_F64, &rng, &m);
        net_ok(&m.net, vn_oracle_region(m.gradient, &m.all, &c, VN_WANT_VALUE, refs, &m.net.err));
        double size = fabs((double)functional(&m));
        for (int k = 0; k < m.n_xs; ++k)
            for (int64_t i = 0; i < refs[k].count; ++i) size = fmax(size, fabs(vn_tensor_get_f64(refs[k].tensor, i)));
        for (int k = 0; k < m.n_xs; ++k) {
            vn_tensor_t *x = (vn_tensor_t *)(uintptr_t)vn_bundle_find(&m.net.in, m.xs[k]);
            VN_ASSERT_EQ(t, refs[k].count, x->count);
            VN_ASSERT_EQ(t, refs[k].rank, x->rank);
            for (int64_t i = 0; i < x->count; ++i) {
                const double want = difference(&m, x, i), got = vn_tensor_get_f64(refs[k].tensor, i);
                if (!(fabs(got - want) <= 0x1p-26 * (size + 1)))
                    vn_test_fail(t, __FILE__, __LINE__, "case %d, %s: d/d%s[%lld] is %.17g, by differences %.17g", n, cases[n].op, m.xs[k],
                                 (long long)i, got, want);
            }
            vn_ref_free(&refs[k]);
        }
        made_free(&m);
    }
}

/* An f32 execution, every operator rounded, stays inside; the bound is far below the gradient; a wrong element is outside. */
VN_TEST(gradient, bounds_true_and_sharp) {
    vn_rng_t rng = vn_test_rng(t);
    const vn_contract_t c = portable();
    for (int n = 0; n < CASES; ++n) {
        made_t m;
        vn_ref_t refs[INPUTS];
        vn_bundle_t run = {0};
        make(t, &cases[n], VN_F32, &rng, &m);
        net_ok(&m.net, vn_oracle_region(m.gradient, &m.all, &c, VN_WANT_VARIANCE, refs, &m.net.err));
        net_ok(&m.net, vn_oracle_trajectory(m.gradient, &m.all, &c, VN_WANT_VALUE, NULL, NULL, &run, &m.net.err));
        for (int k = 0; k < m.n_xs; ++k) {
            const vn_tensor_t *got = vn_bundle_find(&run, m.gradient->graph->outputs[k].name);
            VN_ASSERT(t, got != NULL);
            double size = 0, widest = 0;
            for (int64_t i = 0; i < refs[k].count; ++i) {
                const double y = refs[k].value ? refs[k].value[i] : vn_tensor_get_f64(refs[k].tensor, i),
                             bound = refs[k].bound ? refs[k].bound[i] : 0, e = fabs(vn_tensor_get_f64(got, i) - y);
                if (!(e <= bound + 0x1p-52 * fabs(y)))
                    vn_test_fail(t, __FILE__, __LINE__, "case %d, %s: d/d%s[%lld] is off by %g, bound %g", n, cases[n].op, m.xs[k],
                                 (long long)i, e, bound);
                size = fmax(size, fabs(y));
                widest = fmax(widest, bound);
            }
            if (size > 0 && !(widest <= 0x1p-10 * size))
                vn_test_fail(t, __FILE__, __LINE__, "case %d, %s: d/d%s has bound %g for gradients of %g", n, cases[n].op, m.xs[k], widest,
                             size);
            vn_ref_free(&refs[k]);
        }
        vn_bundle_free(&run);
        made_free(&m);
    }
}

/* ---- several operators, one value used twice, conventions at kinks ---- */

static double only(vn_test_t *t, const vn_ref_t *r, int64_t i) {
    VN_ASSERT(t, r->tensor != NULL && i < r->count);
    return vn_tensor_get_f64(r->tensor, i);
}

static void set_text(net_t *n, vn_node_t *node, const char *name, vn_attr_kind_t kind, int count, const char *const *words) {
    vn_string_t strings[4];
    for (int k = 0; k < count; ++k) strings[k] = (vn_string_t){.text = (char *)(uintptr_t)words[k], .length = strlen(words[k])};
    const vn_attr_t a = {.name = name, .kind = kind, .count = count, .s = strings[0], .strings = strings};
    net_ok(n, vn_node_set_attr(n->m, node, &a, &n->err));
}

#define TRAINING "ai.onnx.preview.training"
static void gradient_op(net_t *n, const char *inputs, const char *outputs, const char *x, const char *z, const char *y) {
    vn_node_t *node = net_op(n, TRAINING, "Gradient", inputs, outputs, "");
    set_text(n, node, "xs", VN_ATTR_STRINGS, 1, &x);
    if (z) set_text(n, node, "zs", VN_ATTR_STRINGS, 1, &z);
    set_text(n, node, "y", VN_ATTR_STRING, 1, &y);
}

/* y = tanh(x w)^2 x: the operator in its graph, first and second derivative, and a derivative at another point. */
VN_TEST(gradient, operator_and_second_derivative) {
    net_t n = net_new(t, TRAINING, 1);
    const vn_contract_t c = portable();
    vn_ref_t refs[4];
    net_in(&n, "x", "f64[1]=0.5");
    net_in(&n, "w", "f64[1]=1.5");
    net_in(&n, "elsewhere", "f64[1]=-0.25");
    net_op(&n, "", "Mul", "x,w", "p", "");
    net_op(&n, "", "Tanh", "p", "s", "");
    net_op(&n, "", "Mul", "s,s", "q", "");
    net_op(&n, "", "Mul", "q,x", "y", "");
    gradient_op(&n, "x,w", "first", "x", "w", "y");
    gradient_op(&n, "x,w", "second", "x", "w", "first");
    gradient_op(&n, "elsewhere,w", "there", "x", "w", "y");
    net_op(&n, "", "Identity", "y", "copy", "");
    net_out(&n, "first");
    net_out(&n, "second");
    net_out(&n, "there");
    net_run(&n);
    net_ok(&n, vn_oracle_region(n.m, &n.in, &c, VN_WANT_BOUND, refs, &n.err));
    const long double w = 1.5L, points[] = {0.5L, 0.5L, -0.25L};
    for (int k = 0; k < 3; ++k) {
        const long double x = points[k], s = tanhl(x * w), d = 1 - s * s;
        const long double first = s * s + 2 * s * d * w * x, second = 4 * s * d * w + 2 * x * w * w * (d * d - 2 * s * s * d);
        const double want = (double)(k == 1 ? second : first);
        VN_ASSERT_LE(t, fabs(only(t, &refs[k], 0) - want), 0x1p-48);
        VN_ASSERT(t, refs[k].bound && isfinite(refs[k].bound[0]));
        vn_ref_free(&refs[k]);
    }
    net_free(&n);
}

/* Relu(0) counts as the constant side, equal maxima share, an unused x gets zeros, ones are the default cotangent. */
VN_TEST(gradient, conventions) {
    net_t n = net_new(t, "", 17);
    const vn_contract_t c = portable();
    vn_ref_t refs[3];
    vn_model_t *g;
    net_in(&n, "a", "f32[3]=0,1,-1");
    net_in(&n, "b", "f32[3]=0,2,-1");
    net_in(&n, "unused", "f32[2]=5,6");
    net_op(&n, "", "Relu", "a", "r", "");
    net_op(&n, "", "Max", "a,b", "m", "");
    net_op(&n, "", "Add", "r,m", "y", "");
    net_out(&n, "y");
    net_run(&n);
    const vn_gradient_ask_t ask = {.n_ys = 1, .ys = (const char *const[]){"y"}, .n_xs = 3, .xs = (const char *const[]){"a", "b", "unused"}};
    net_ok(&n, vn_oracle_gradient(n.g, &ask, &n.in, &g, &n.err));
    net_ok(&n, vn_oracle_region(g, &n.in, &c, VN_WANT_BOUND, refs, &n.err));
    static const double a[] = {0.5, 1, 0.5}, b[] = {0.5, 1, 0.5};
    for (int i = 0; i < 3; ++i) {
        VN_ASSERT_DEQ(t, only(t, &refs[0], i), a[i]);
        VN_ASSERT_DEQ(t, only(t, &refs[1], i), b[i]);
    }
    VN_ASSERT_DEQ(t, only(t, &refs[2], 1), 0);
    VN_ASSERT_EQ(t, refs[2].count, 2);
    for (int k = 0; k < 3; ++k) vn_ref_free(&refs[k]);
    vn_model_free(g);
    net_free(&n);
}

/* A comparison that the forward bounds leave undecided widens the bound to both answers (claim CMP-2). */
VN_TEST(gradient, undecided_branch) {
    net_t n = net_new(t, "", 17);
    const vn_contract_t c = portable();
    vn_ref_t ref;
    vn_model_t *g;
    net_in(&n, "a", "f32[2]=0.1,3");
    net_init(&n, "third", "f32[1]=0.3333333432674408");
    net_init(&n, "less", "f32[1]=0.03333333507180214");
    net_op(&n, "", "Mul", "a,third", "p", "");
    net_op(&n, "", "Sub", "p,less", "d", ""); /* about one rounding from zero at the first element */
    net_op(&n, "", "Relu", "d", "y", "");
    net_out(&n, "y");
    net_run(&n);
    const vn_gradient_ask_t ask = {.n_ys = 1, .ys = (const char *const[]){"y"}, .n_xs = 1, .xs = (const char *const[]){"a"}};
    net_ok(&n, vn_oracle_gradient(n.g, &ask, &n.in, &g, &n.err));
    net_ok(&n, vn_oracle_region(g, &n.in, &c, VN_WANT_BOUND, &ref, &n.err));
    const double slope = 0.3333333432674408;
    VN_ASSERT(t, ref.value && ref.bound);
    VN_ASSERT_GE(t, ref.bound[0], fmax(fabs(ref.value[0]), fabs(ref.value[0] - slope)) * (1 - 0x1p-20));
    VN_ASSERT_LE(t, ref.bound[1], 0x1p-20);
    vn_ref_free(&ref);
    vn_model_free(g);
    net_free(&n);
}

VN_TEST(gradient, refusals) {
    net_t n = net_new(t, "", 17);
    vn_model_t *g = NULL;
    net_in(&n, "a", "f32[2]=1,2");
    net_in(&n, "b", "f32[2]=1,2");
    net_op(&n, "", "ReduceProd", "a", "y", "");
    net_op(&n, "", "Add", "a,b", "s", "");
    net_op(&n, "", "Shape", "a", "shape", "");
    net_out(&n, "y");
    net_run(&n);
    vn_gradient_ask_t ask = {.n_ys = 1, .ys = (const char *const[]){"y"}, .n_xs = 1, .xs = (const char *const[]){"a"}};
    VN_ASSERT_EQ(t, vn_oracle_gradient(n.g, &ask, &n.in, &g, &n.err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, n.err.text, "ReduceProd");
    VN_ASSERT(t, g == NULL);
    ask.ys = (const char *const[]){"s"};
    VN_ASSERT_EQ(t, vn_oracle_gradient(n.g, &ask, &n.in, &g, &n.err), VN_ERR_USAGE);
    VN_ASSERT_HAS(t, n.err.text, "'b'");
    ask.ys = (const char *const[]){"nowhere"};
    VN_ASSERT_EQ(t, vn_oracle_gradient(n.g, &ask, &n.in, &g, &n.err), VN_ERR_NOTFOUND);
    ask.ys = (const char *const[]){"shape"};
    VN_ASSERT_EQ(t, vn_oracle_gradient(n.g, &ask, &n.in, &g, &n.err), VN_ERR_DTYPE);
    VN_ASSERT(t, vn_gradient_knows("RMSNormalization") && !vn_gradient_knows("ReduceProd"));
    net_free(&n);
}

/* Every allocation that can fail is answered by an error. */
VN_TEST(gradient, no_memory) {
    vn_rng_t rng = vn_test_rng(t);
    made_t m;
    make(t, &cases[CASES - 3], VN_F32, &rng, &m);
    const vn_gradient_ask_t ask = {.n_ys = m.n_ys, .ys = m.ys, .cotangents = m.cots, .n_xs = m.n_xs, .xs = m.xs, .open_zs = true};
    for (int64_t at = 1;; at += at < 40 ? 1 : 7) {
        vn_model_t *g = NULL;
        vn_alloc_fail_at(at);
        const vn_status_t s = vn_oracle_gradient(m.net.g, &ask, &m.net.in, &g, &m.net.err);
        vn_alloc_fail_at(0);
        VN_ASSERT(t, (s == VN_OK) == (g != NULL));
        vn_model_free(g);
        if (s == VN_OK) break;
        VN_ASSERT(t, at < 100000);
    }
    made_free(&m);
}

VN_TEST_MAIN(VN_CASE(gradient, formulas_against_differences), VN_CASE(gradient, bounds_true_and_sharp),
             VN_CASE(gradient, operator_and_second_derivative), VN_CASE(gradient, conventions), VN_CASE(gradient, undecided_branch),
             VN_CASE(gradient, refusals), VN_CASE(gradient, no_memory))
