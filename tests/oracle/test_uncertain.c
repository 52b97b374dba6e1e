/* Claims ELEM-4, ELEM-8, ELEM-10, CAST-4, CMP-1, BUDGET-1 to BUDGET-3: elementwise operators behind a rounded one, judged as a region; budgets. */
#include "oracle/elementwise.h"
#include "oracle/one_node.h"

/* z = a + b (rounded in f32), then OP(z [, c]): a region. */
typedef struct chain {
    const char *op;
    int version;
    bool second; /* OP has operand c */
    one_attr_t attr;
    float (*fn)(float z, float c);
} chain_t;

static float f_neg(float z, float c) {
    (void)c;
    return -z;
}
static float f_relu(float z, float c) {
    (void)c;
    return z > 0 ? z : 0;
}
static float f_round(float z, float c) {
    (void)c;
    return rintf(z);
}
static float f_floor(float z, float c) {
    (void)c;
    return floorf(z);
}
static float f_sign(float z, float c) {
    (void)c;
    return (float)((z > 0) - (z < 0));
}
static float f_abs(float z, float c) {
    (void)c;
    return fabsf(z);
}
static float f_exp(float z, float c) {
    (void)c;
    return expf(z);
}
static float f_tanh(float z, float c) {
    (void)c;
    return tanhf(z);
}
static float f_sin(float z, float c) {
    (void)c;
    return sinf(z);
}
static float f_cosh(float z, float c) {
    (void)c;
    return coshf(z);
}
static float f_gelu(float z, float c) {
    (void)c;
    return 0.5f * z * erfcf(-z * 0.70710678f);
}
static float f_swish(float z, float c) {
    (void)c;
    return z / (1 + expf(-z));
}
static float f_hard(float z, float c) {
    (void)c;
    return fmaxf(0, fminf(1, 0.2f * z + 0.5f));
}
static float f_hard_swish(float z, float c) {
    (void)c;
    return z * fmaxf(0, fminf(1, z * (1.0f / 6) + 0.5f));
}
static float f_leaky(float z, float c) {
    (void)c;
    return z < 0 ? 0.01f * z : z;
}
static float f_thresholded(float z, float c) {
    (void)c;
    return z > 1 ? z : 0;
}
static float f_shrink(float z, float c) {
    (void)c;
    return z < -0.5f ? z : z > 0.5f ? z : 0;
}
static float f_recip(float z, float c) {
    (void)c;
    return 1 / z;
}
static float f_mul(float z, float c) { return z * c; }
static float f_add(float z, float c) { return z + c; }
static float f_div(float z, float c) { return z / c; }
static float f_max(float z, float c) { return z > c ? z : c; }
static float f_prelu(float z, float c) { return z < 0 ? z * c : z; }

static const chain_t chains[] = {
    {"Neg", 13, false, {0}, f_neg},          {"Relu", 14, false, {0}, f_relu},
    {"Round", 22, false, {0}, f_round},      {"Floor", 13, false, {0}, f_floor},
    {"Sign", 13, false, {0}, f_sign},        {"Abs", 13, false, {0}, f_abs},
    {"Exp", 13, false, {0}, f_exp},          {"Tanh", 13, false, {0}, f_tanh},
    {"Sin", 22, false, {0}, f_sin},          {"Cosh", 22, false, {0}, f_cosh},
    {"Gelu", 20, false, {0}, f_gelu},        {"Swish", 24, false, {0}, f_swish},
    {"HardSigmoid", 22, false, {0}, f_hard}, {"HardSwish", 22, false, {0}, f_hard_swish},
    {"LeakyRelu", 16, false, {0}, f_leaky},  {"ThresholdedRelu", 22, false, {0}, f_thresholded},
    {"Shrink", 9, false, {0}, f_shrink},     {"Reciprocal", 13, false, {0}, f_recip},
    {"Mul", 14, true, {0}, f_mul},           {"Add", 14, true, {0}, f_add},
    {"Div", 14, true, {0}, f_div},           {"Max", 13, true, {0}, f_max},
    {"PRelu", 16, true, {0}, f_prelu},
};

enum { N = 4000 };

static void region(vn_test_t *t, const chain_t *c, vn_tensor_t *a, vn_tensor_t *b, vn_tensor_t *d, vn_ref_t *out) {
    vn_model_t *m;
    vn_error_t err;
    vn_contract_t contract;
    VN_ASSERT(t, vn_contract_builtin("portable", &contract));
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, "", c->version < 14 ? 14 : c->version, &err), err);
    vn_bundle_t inputs = {0};
    vn_tensor_t *const tensors[] = {a, b, d};
    static const char *const names[] = {"a", "b", "d"};
    for (int k = 0; k < (c->second ? 3 : 2); ++k) {
        VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, names[k], tensors[k]->dtype, tensors[k]->rank, tensors[k]->dims, &err), err);
        VN_ASSERT_OK_ERR(t, vn_bundle_add(&inputs, names[k], tensors[k], &err), err);
    }
    vn_node_t *node;
    VN_ASSERT_OK_ERR(
        t, vn_graph_add_node(m->graph, "first", "Add", "", 2, (const char *[]){"a", "b"}, 1, (const char *[]){"z"}, NULL, &err), err);
    VN_ASSERT_OK_ERR(t,
                     vn_graph_add_node(m->graph, "then", c->op, "", c->second ? 2 : 1, (const char *[]){"z", "d"}, 1, (const char *[]){"y"},
                                       &node, &err),
                     err);
    if (c->attr.name) VN_ASSERT_OK_ERR(t, vn_node_set_int(m, node, c->attr.name, (int64_t)c->attr.number, &err), err);
    VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, "y", VN_F32, -1, NULL, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_oracle_region(m, &inputs, &contract, VN_WANT_VARIANCE, out, &err), err);
    vn_bundle_free(&inputs);
    vn_model_free(m);
}

static vn_tensor_t *random_vector(vn_test_t *t, vn_rng_t *rng, double scale) {
    double v[N];
    for (int i = 0; i < N; ++i) v[i] = vn_rng_normal(rng) * scale;
    return one_vector(t, VN_F32, N, v);
}

VN_TEST(uncertain, chains_true_and_not_vacuous) {
    vn_rng_t rng = vn_test_rng(t);
    vn_tensor_t *a = random_vector(t, &rng, 3), *b = random_vector(t, &rng, 3), *d = random_vector(t, &rng, 2);
    for (int i = 0; i < N; i += 4)
        vn_tensor_set_f64(b, i, -vn_tensor_get_f64(a, i) + vn_rng_normal(&rng) * 1e-6); /* cancelling: near every break point */
    for (size_t k = 0; k < sizeof chains / sizeof *chains; ++k) {
        vn_ref_t r = {0};
        region(t, &chains[k], a, b, d, &r);
        int loose = 0, moved = 0;
        double ratio = 0, counted = 0;
        for (int i = 0; i < N; ++i) {
            const volatile float z = ((float *)a->data)[i] + ((float *)b->data)[i];
            const float y = chains[k].fn(z, ((float *)d->data)[i]);
            if (!isfinite(y) || (r.flags && (r.flags[i] & (VN_EL_VOID | VN_EL_INF_OK)))) continue;
            const double e = fabs((double)y - r.value[i]), bound = r.wide ? fmax(r.wide[i], r.bound[i]) : r.bound[i];
            if (!(e <= bound + 0x1p-52 * fabs(r.value[i])))
                vn_test_fail(t, __FILE__, __LINE__, "%s(%a): %a, oracle %a, error %g, bound %g", chains[k].op, (double)z, (double)y,
                             r.value[i], e, bound);
            moved += e > 0;
            loose += bound > 40 * 0x1p-24 * (1 + fabs(r.value[i]) + fabs((double)y)) * (1 + fabs((double)z)); /* steps near a jump only */
            if (r.var[i] > 0) ratio += e * e / r.var[i], counted += 1;
        }
        VN_ASSERT(t, loose < N / 10);
        VN_ASSERT(t, moved > 0 || !strcmp(chains[k].op, "Sign") || !strcmp(chains[k].op, "Round") || !strcmp(chains[k].op, "Floor"));
        if (counted > N / 2) VN_ASSERT(t, ratio / counted < 3);
        vn_ref_free(&r);
    }
    vn_tensor_free(a);
    vn_tensor_free(b);
    vn_tensor_free(d);
}

/* A jump inside the interval opens the bound; away from it the result is exact. */
VN_TEST(uncertain, jumps) {
    const double a[] = {1.5, 2.5, 0x1p-3}, b[] = {0x1p-26, 0x1p-30, 1};
    vn_tensor_t *x = one_vector(t, VN_F32, 3, a), *y = one_vector(t, VN_F32, 3, b);
    vn_ref_t r = {0};
    region(t, &chains[2], x, y, NULL, &r); /* Round: 1.5 + 2^-26 is 2, but the rounded sum 1.5 is 2 as well, 1.5 - u would be 1 */
    VN_ASSERT_DEQ(t, r.value[0], 2);
    VN_ASSERT_GE(t, r.bound[0], 1);
    VN_ASSERT_GE(t, r.bound[1], 1); /* 2.5 exactly in f32: 2; the true sum: 3 */
    VN_ASSERT_DEQ(t, r.value[2], 1);
    VN_ASSERT_DEQ(t, r.bound[2], 0);
    vn_ref_free(&r);
    const chain_t compare = {"Greater", 13, true, {0}, NULL};
    const double limit[] = {1.5, 2, 9};
    vn_tensor_t *c = one_vector(t, VN_F32, 3, limit);
    region(t, &compare, x, y, c, &r);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(r.tensor, 0), 1);
    VN_ASSERT(t, r.either && vn_tensor_get_i64(r.either, 0) == 0); /* undecided */
    VN_ASSERT_EQ(t, vn_tensor_get_i64(r.either, 1), 1);            /* decided: both agree */
    VN_ASSERT_EQ(t, vn_tensor_get_i64(r.either, 2), vn_tensor_get_i64(r.tensor, 2));
    vn_ref_free(&r);
    const chain_t cast = {"Cast", 13, false, {"to", ONE_INT, VN_F16, NULL}, NULL};
    const double p[] = {1, 1}, q[] = {0x1p-11, 0x1p-3};
    vn_tensor_t *u = one_vector(t, VN_F32, 2, p), *v = one_vector(t, VN_F32, 2, q);
    region(t, &cast, u, v, NULL, &r); /* at a tie of f16 either neighbour; elsewhere the rounding is definite */
    VN_ASSERT_GE(t, r.bound[0], 0x1p-10);
    VN_ASSERT_DEQ(t, r.value[1], 1.125);
    VN_ASSERT_DEQ(t, r.bound[1], 0);
    vn_ref_free(&r);
    const chain_t to_int = {"Cast", 13, false, {"to", ONE_INT, VN_I32, NULL}, NULL};
    const double near[] = {2, 2.5}, tiny[] = {0x1p-30, 0.25};
    vn_tensor_t *g = one_vector(t, VN_F32, 2, near), *h = one_vector(t, VN_F32, 2, tiny);
    region(t, &to_int, g, h, NULL, &r);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(r.tensor, 0), 2);
    VN_ASSERT(t, r.either && vn_tensor_get_i64(r.either, 0) == 1 && vn_tensor_get_i64(r.either, 1) == 2);
    vn_ref_free(&r);
    vn_tensor_t *const all[] = {x, y, c, u, v, g, h};
    for (size_t k = 0; k < sizeof all / sizeof *all; ++k) vn_tensor_free(all[k]);
}

/* Leaving the domain, poles, and divisors that may be zero. */
VN_TEST(uncertain, no_statement_where_there_is_none) {
    const double a[] = {1e-9, 1, 1}, b[] = {-1e-9 + 1e-17, -1, 2}, d[] = {1, 1, 1};
    vn_tensor_t *x = one_vector(t, VN_F32, 3, a), *y = one_vector(t, VN_F32, 3, b), *c = one_vector(t, VN_F32, 3, d);
    const chain_t root = {"Sqrt", 13, false, {0}, NULL}, inverse = {"Reciprocal", 13, false, {0}, NULL},
                  tangent = {"Tan", 22, false, {0}, NULL};
    vn_ref_t r = {0};
    region(t, &root, x, y, NULL, &r);
    VN_ASSERT(t, isfinite(r.bound[2]) && r.bound[2] < 1e-6);
    vn_ref_free(&r);
    region(t, &inverse, x, y, NULL, &r);
    VN_ASSERT(t, isinf(r.bound[1]) || isinf(r.value[1]));
    VN_ASSERT_LT(t, r.bound[2], 1e-7);
    vn_ref_free(&r);
    const double pole[] = {1.5707963, 1.5, 0.5}, rest[] = {2.6794897e-8, 0, 0};
    vn_tensor_t *p = one_vector(t, VN_F32, 3, pole), *q = one_vector(t, VN_F32, 3, rest);
    region(t, &tangent, p, q, NULL, &r);
    VN_ASSERT(t, isinf(r.bound[0]));
    VN_ASSERT_LT(t, r.bound[2], 1e-6);
    vn_ref_free(&r);
    vn_tensor_t *const all[] = {x, y, c, p, q};
    for (size_t k = 0; k < sizeof all / sizeof *all; ++k) vn_tensor_free(all[k]);
}

/* ---- budgets ---- */

VN_TEST(budget, tiers) {
    static const char *const functions[] = {"exp",      "log",   "sin",   "cos",   "tan",  "tanh", "erf",   "asin", "acos",
                                            "atan",     "asinh", "acosh", "atanh", "sinh", "cosh", "rsqrt", "pow",  "sigmoid",
                                            "softplus", "elu",   "selu",  "celu",  "gelu", "mish", "swish", "exp2", "log1p"};
    vn_contract_t ieee, portable, fast, promise;
    VN_ASSERT(t, vn_contract_builtin("ieee", &ieee));
    VN_ASSERT(t, vn_contract_builtin("portable", &portable));
    VN_ASSERT(t, vn_contract_builtin("fast", &fast));
    promise = portable;
    promise.has_function_ulp = true;
    promise.function_ulp = 2.5;
    for (size_t k = 0; k < sizeof functions / sizeof *functions; ++k) {
        const char *f = functions[k];
        vn_eval_t e = {.contract = &ieee};
        VN_ASSERT_DEQ(t, vn_budget(&e, f), 1);
        VN_ASSERT_DEQ(t, vn_body_budget(&e, f), 0);
        e.contract = &portable;
        const double p = vn_budget(&e, f), pc = vn_body_budget(&e, f);
        VN_ASSERT_GE(t, p, 1);
        e.contract = &fast;
        VN_ASSERT_GE(t, vn_budget(&e, f), p);
        VN_ASSERT_GE(t, vn_body_budget(&e, f), pc);
        e.contract = &promise;
        VN_ASSERT_DEQ(t, vn_budget(&e, f), 2.5);
        VN_ASSERT_DEQ(t, vn_body_budget(&e, f), 0);
    }
    vn_eval_t e = {.contract = &promise};
    VN_ASSERT_DEQ(t, vn_budget(&e, "sqrt"), 0.5); /* a promise about functions does not loosen basic operations */
    VN_ASSERT_DEQ(t, vn_budget(&e, "div"), 0.5);
    e.contract = &portable;
    VN_ASSERT_DEQ(t, vn_budget(&e, "exp"), 6);
    VN_ASSERT_DEQ(t, vn_budget(&e, "pow"), 16);
    VN_ASSERT_DEQ(t, vn_body_budget(&e, "gelu"), 3);
    VN_ASSERT(t, isinf(vn_budget(&e, "no such function"))); /* unknown is unknown */
}

/* Claim REGION-4: y = erf(x) + d at small x. A fit of 10 u absolute error (budget of `fast`) is inside the composed bound of that tier and
 * outside that of `portable`; one of 12 u is outside both. */
VN_TEST(uncertain, second_tiers_count_in_fast_regions) {
    const double x[] = {1e-3, -2e-4, 3e-5, 1e-2}, d[] = {2e-3, 1e-4, -1e-5, 5e-3}, u = 0x1p-24;
    static const char *const tiers[] = {"portable", "fast"};
    for (int tier = 0; tier < 2; ++tier) {
        vn_model_t *m;
        vn_error_t err;
        vn_contract_t contract;
        vn_ref_t r = {0};
        vn_bundle_t inputs = {0};
        vn_tensor_t *const tensors[] = {one_vector(t, VN_F32, 4, x), one_vector(t, VN_F32, 4, d)};
        static const char *const names[] = {"x", "d"};
        VN_ASSERT(t, vn_contract_builtin(tiers[tier], &contract));
        VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &err), err);
        VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, "", 14, &err), err);
        for (int k = 0; k < 2; ++k) {
            VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, names[k], VN_F32, 1, tensors[k]->dims, &err), err);
            VN_ASSERT_OK_ERR(t, vn_bundle_add(&inputs, names[k], tensors[k], &err), err);
        }
        VN_ASSERT_OK_ERR(t, vn_graph_add_node(m->graph, "f", "Erf", "", 1, (const char *[]){"x"}, 1, (const char *[]){"z"}, NULL, &err),
                         err);
        VN_ASSERT_OK_ERR(
            t, vn_graph_add_node(m->graph, "g", "Add", "", 2, (const char *[]){"z", "d"}, 1, (const char *[]){"y"}, NULL, &err), err);
        VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, "y", VN_F32, -1, NULL, &err), err);
        VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
        VN_ASSERT_OK_ERR(t, vn_oracle_region(m, &inputs, &contract, VN_WANT_BOUND, &r, &err), err);
        for (int i = 0; i < 4; ++i) {
            if (tier) VN_ASSERT_GE(t, r.bound[i], 10 * u);
            else VN_ASSERT_LT(t, r.bound[i], 10 * u);
            VN_ASSERT_LT(t, r.bound[i], 12 * u);
        }
        vn_ref_free(&r);
        vn_bundle_free(&inputs);
        vn_model_free(m);
        vn_tensor_free(tensors[0]);
        vn_tensor_free(tensors[1]);
    }
}

/* bf16(f32(a + b)) w: the sum is 1 + 2^-8 + 2^-27, which bf16 rounds up, while its f32 rounding is the tie, which goes down; or 1 + 2^-9, far from a
 * tie: exact again in bf16. */
VN_TEST(uncertain, rounded_operands_flip) {
    static const double b[] = {0x1p-8 + 0x1p-27, 0x1p-9};
    for (int k = 0; k < 2; ++k) {
        vn_model_t *m;
        vn_error_t err;
        vn_contract_t contract;
        vn_ref_t r = {0};
        vn_bundle_t inputs = {0};
        static const char *const names[] = {"a", "b", "w"};
        const double w = 3, value[] = {1, b[k], w};
        VN_ASSERT_OK_ERR(t, vn_contract_parse("operand=bf16,accumulator=f32,result=f32", &contract, &err), err);
        VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &err), err);
        VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, "", 14, &err), err);
        for (int i = 0; i < 3; ++i) {
            vn_tensor_t *x;
            VN_ASSERT_OK_ERR(t, vn_tensor_new(VN_F32, 2, (const int64_t[]){1, 1}, &x, &err), err);
            vn_tensor_set_f64(x, 0, value[i]);
            VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, names[i], VN_F32, 2, x->dims, &err), err);
            VN_ASSERT_OK_ERR(t, vn_bundle_add(&inputs, names[i], x, &err), err);
            vn_tensor_free(x);
        }
        VN_ASSERT_OK_ERR(
            t, vn_graph_add_node(m->graph, "s", "Add", "", 2, (const char *[]){"a", "b"}, 1, (const char *[]){"s"}, NULL, &err), err);
        VN_ASSERT_OK_ERR(
            t, vn_graph_add_node(m->graph, "p", "MatMul", "", 2, (const char *[]){"s", "w"}, 1, (const char *[]){"y"}, NULL, &err), err);
        VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, "y", VN_F32, -1, NULL, &err), err);
        VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
        VN_ASSERT_OK_ERR(t, vn_oracle_region(m, &inputs, &contract, VN_WANT_VARIANCE, &r, &err), err);
        const double stored = (double)(float)(1 + (double)(float)b[k]), got = vn_round_to(VN_FMT_BF16, stored, VN_RNE, false) * w;
        VN_ASSERT_LE(t, fabs(got - r.value[0]), r.bound[0]);
        if (k == 0) {
            VN_ASSERT_GE(t, fabs(got - r.value[0]), 0x1p-7 * w); /* the flip happened */
            VN_ASSERT_GE(t, r.var[0], 0x1p-14 * w * w);
        } else {
            VN_ASSERT_LT(t, r.bound[0], 0x1p-20);
            VN_ASSERT_LT(t, r.var[0], 0x1p-40);
        }
        vn_ref_free(&r);
        vn_bundle_free(&inputs);
        vn_model_free(m);
    }
}

VN_TEST_MAIN(VN_CASE(uncertain, chains_true_and_not_vacuous), VN_CASE(uncertain, jumps),
             VN_CASE(uncertain, no_statement_where_there_is_none), VN_CASE(uncertain, second_tiers_count_in_fast_regions),
             VN_CASE(uncertain, rounded_operands_flip), VN_CASE(budget, tiers))
