/* Claims ELEM-OWN, ELEM-1 to ELEM-6: functions of one argument against MPFR, and their bounds against f32 evaluations. */
#include "oracle/elementwise.h"
#include "oracle/one_node.h"
#include "support/mpfr_twin.h"

static const double alpha_selu = 1.67326319217681884765625f, gamma_selu = 1.05070102214813232421875f;

enum { BITS = 400, RANDOM = 300 };

static const vn_fn_t *function_of(const tw_function_t *c) { return &vn_functions[vn_registry_find(c->domain, c->op, c->version)->param]; }

/* Random in the range, random over exponents, and the edges. */
static vn_tensor_t *arguments(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type, const tw_function_t *c, int n) {
    const int64_t count = n + ONE_EDGES;
    vn_tensor_t *x = one_tensor(t, type, 1, &count);
    for (int i = 0; i < n; ++i) {
        double v = c->lo + (c->hi - c->lo) * vn_rng_uniform(rng);
        if (i % 3 == 0) v = ldexp(0.5 + vn_rng_uniform(rng) / 2, (int)vn_rng_below(rng, 40) - 30) * (vn_rng_below(rng, 2) ? 1 : -1);
        vn_tensor_set_f64(x, i, v);
    }
    for (int i = 0; i < ONE_EDGES; ++i) vn_tensor_set_f64(x, n + i, one_edges[i]);
    return x;
}

static one_node_t node_of(const tw_function_t *c, vn_tensor_t *x, const char *contract) {
    one_node_t n = {
        .domain = c->domain, .op = c->op, .version = c->version, .n_in = 1, .in = {x}, .contract = contract, .want = VN_WANT_VARIANCE};
    if (c->form) n.attrs[0] = (one_attr_t){"approximate", ONE_TEXT, 0, c->form};
    return n;
}

static void check_values(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type) {
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)0);
    for (int k = 0; k < tw_function_count; ++k) {
        one_node_t n = node_of(&tw_functions[k], arguments(t, rng, type, &tw_functions[k], RANDOM * vn_test_scale(t)), "ieee");
        one_run(t, &n);
        const vn_ref_t *r = &n.out[0];
        for (int64_t i = 0; i < r->count; ++i) {
            const double v = vn_tensor_get_f64(n.in[0], i);
            if (!isfinite(v)) continue;
            mpfr_set_d(x, v, MPFR_RNDN);
            tw_functions[k].exact(y, x, tw_functions[k].p);
            if (!mpfr_number_p(y) || fabs(mpfr_get_d(y, MPFR_RNDN)) > DBL_MAX) {
                if (isfinite(r->value[i]))
                    vn_test_fail(t, __FILE__, __LINE__, "%s(%a) = %a, not finite in truth", tw_functions[k].op, v, r->value[i]);
                continue;
            }
            const double own = vn_ref_own(r, i) + 0x1p-1074;
            const double d = tw_off(y, r->value[i], r->lo ? r->lo[i] : 0);
            const double slack =
                type == VN_F64 && r->demand_equal ? 0x1p-100 * fabs(r->value[i]) : 0; /* once rounded: value + lo to 2^-100 */
            if (!(d <= own + slack))
                vn_test_fail(t, __FILE__, __LINE__, "%s(%a) = %a + %a: off by %a, own error %a", tw_functions[k].op, v, r->value[i],
                             r->lo ? r->lo[i] : 0, d, own);
        }
        one_free(&n);
    }
    mpfr_clears(x, y, (mpfr_ptr)0);
}

VN_TEST(elementwise, values_f32) {
    vn_rng_t rng = vn_test_rng(t);
    check_values(t, &rng, VN_F32);
}

VN_TEST(elementwise, values_f64) {
    vn_rng_t rng = vn_test_rng(t);
    check_values(t, &rng, VN_F64);
}

/* True, tight, sharp: anything within t ulp is inside; the bound is no larger than t ulp and what the sheet adds; t + 1 ulp is outside. */
VN_TEST(elementwise, budget_true_tight_sharp) {
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < tw_function_count; ++k) {
        const vn_fn_t *f = function_of(&tw_functions[k]);
        if (f->kind != VN_FN_ELEMENTARY) continue;
        one_node_t n = node_of(&tw_functions[k], arguments(t, &rng, VN_F32, &tw_functions[k], RANDOM), "function_ulp=3");
        one_run(t, &n);
        const vn_ref_t *r = &n.out[0];
        VN_ASSERT(t, r->wide == NULL); /* a promise has no second tier */
        int sharp = 0, seen = 0;
        for (int64_t i = 0; i < r->count; ++i) {
            const double y = r->value[i];
            if (!isfinite(y) || fabs(y) > 1e38) continue;
            const double ulp = vn_ulp(VN_FMT_F32, y);
            VN_ASSERT_LE(t, 3 * ulp, r->bound[i]);
            VN_ASSERT_LE(t, r->bound[i], 3 * ulp + 0x1p-126);
            const float moved = (float)(y + 4.6 * ulp * (vn_rng_below(&rng, 2) ? 1 : -1));
            ++seen;
            sharp += fabs((double)moved - y) > r->bound[i];
            VN_ASSERT(t, fabs(y) < 0x1p-96 || /* below, the flush term rules */
                             fabs((double)moved - y) > r->bound[i]);
        }
        VN_ASSERT(t, sharp > seen / 2);
        one_free(&n);
    }
}

/* ---- evaluations in f32 as back ends write them ---- */

typedef struct f32_form {
    const char *op, *form;
    int version;
    float (*fn)(float x);
    double lo, hi;
    bool body; /* the standard's own formula: may need the second tier */
} f32_form_t;

static float s_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static float s_softplus(float x) { return logf(expf(x) + 1.0f); }
static float s_elu(float x) { return x < 0 ? expf(x) - 1.0f : x; }
static float s_selu(float x) {
    const float a = (float)alpha_selu, g = (float)gamma_selu;
    return x > 0 ? g * x : g * (a * expf(x) - a);
}
static float s_celu(float x) { return fmaxf(0, x) + fminf(0, expf(x) - 1.0f); }
static float s_gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
static float s_gelu_tanh(float x) { return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x))); }
static float s_mish(float x) { return x * tanhf(log1pf(expf(x))); }
static float s_swish(float x) { return x / (1.0f + expf(-x)); }
static float s_hard_sigmoid(float x) { return fmaxf(0, fminf(1, 0.2f * x + 0.5f)); }
static float s_hard_swish(float x) { return x * fmaxf(0, fminf(1, x * (1.0f / 6) + 0.5f)); }
static float s_hard_swish6(float x) { return x * fminf(fmaxf(x + 3, 0), 6) * (1.0f / 6); }
static float s_softsign(float x) { return x / (1 + fabsf(x)); }
static float s_softsign_r(float x) { return x * (1 / (1 + fabsf(x))); }

static const f32_form_t forms[] = {
    {"Exp", NULL, 13, expf, -87, 88, false},
    {"Log", NULL, 13, logf, 1e-3, 1e3, false},
    {"Sin", NULL, 22, sinf, -50, 50, false},
    {"Cos", NULL, 22, cosf, -50, 50, false},
    {"Tan", NULL, 22, tanf, -50, 50, false},
    {"Asin", NULL, 22, asinf, -1, 1, false},
    {"Acos", NULL, 22, acosf, -1, 1, false},
    {"Atan", NULL, 22, atanf, -20, 20, false},
    {"Sinh", NULL, 22, sinhf, -50, 50, false},
    {"Cosh", NULL, 22, coshf, -50, 50, false},
    {"Tanh", NULL, 13, tanhf, -12, 12, false},
    {"Asinh", NULL, 22, asinhf, -50, 50, false},
    {"Acosh", NULL, 22, acoshf, 1, 50, false},
    {"Atanh", NULL, 22, atanhf, -1, 1, false},
    {"Erf", NULL, 13, erff, -5, 5, false},
    {"Sigmoid", NULL, 13, s_sigmoid, -80, 40, true},
    {"Softplus", NULL, 22, s_softplus, -80, 80, true},
    {"Elu", NULL, 22, s_elu, -20, 5, true},
    {"Selu", NULL, 22, s_selu, -20, 5, true},
    {"Celu", NULL, 12, s_celu, -20, 5, true},
    {"Gelu", "none", 20, s_gelu, -14, 8, true},
    {"Gelu", "tanh", 20, s_gelu_tanh, -14, 8, true},
    {"Mish", NULL, 22, s_mish, -80, 20, true},
    {"Swish", NULL, 24, s_swish, -80, 20, true},
    {"HardSigmoid", NULL, 22, s_hard_sigmoid, -4, 4, false},
    {"HardSwish", NULL, 22, s_hard_swish, -4, 4, false},
    {"HardSwish", NULL, 22, s_hard_swish6, -4, 4, false},
    {"Softsign", NULL, 22, s_softsign, -50, 50, false},
    {"Softsign", NULL, 22, s_softsign_r, -50, 50, false},
};

VN_TEST(elementwise, f32_evaluations_are_inside) {
    vn_rng_t rng = vn_test_rng(t);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; ++k) {
        const tw_function_t c = {
            .op = forms[k].op, .version = forms[k].version, .form = forms[k].form, .lo = forms[k].lo, .hi = forms[k].hi};
        one_node_t n = node_of(&c, arguments(t, &rng, VN_F32, &c, 3000), "portable");
        one_run(t, &n);
        const vn_ref_t *r = &n.out[0];
        if (forms[k].body) VN_ASSERT(t, r->wide && r->wide_note);
        for (int64_t i = 0; i < r->count; ++i) {
            const float x = ((const float *)n.in[0]->data)[i], y = forms[k].fn(x);
            if (!isfinite(r->value[i]) || !isfinite(x) || fabs(r->value[i]) > 1e38 || !isfinite(y)) continue;
            const double room = r->wide ? fmax(r->wide[i], r->bound[i]) : r->bound[i], e = fabs((double)y - r->value[i]);
            if (!(e <= room))
                vn_test_fail(t, __FILE__, __LINE__, "%s %s: f(%a) = %a, oracle %a, error %g of the allowed %g", forms[k].op,
                             forms[k].form ? forms[k].form : "", (double)x, (double)y, r->value[i], e, room);
        }
        one_free(&n);
    }
}

/* A fault of 10 u |x| in Gelu, or an Erf that is 2.7 u off in absolute terms near 0, is outside both tiers. */
VN_TEST(elementwise, second_tier_is_sharp) {
    const double x[] = {-4, -2, -0.5, 0.25, 1, 3};
    one_node_t n = {.op = "Gelu", .version = 20, .n_in = 1, .in = {one_vector(t, VN_F32, 6, x)}, .want = VN_WANT_BOUND};
    one_run(t, &n);
    for (int i = 0; i < 6; ++i) {
        VN_ASSERT_STR(t, n.out[0].wide_note, "tail-cancellation");
        VN_ASSERT_LT(t, n.out[0].wide[i], 0x1p-24 * fabs(x[i]) * 3 + 4.001 * vn_ulp(VN_FMT_F32, n.out[0].value[i]));
        VN_ASSERT_GE(t, n.out[0].wide[i], 0x1p-24 * fabs(x[i]) * 3);
    }
    one_free(&n);
    const double small[] = {1e-3, -2e-3};
    one_node_t m = {.op = "Erf", .version = 13, .n_in = 1, .in = {one_vector(t, VN_F32, 2, small)}, .want = VN_WANT_BOUND};
    one_run(t, &m);
    VN_ASSERT(t, m.out[0].wide == NULL);
    VN_ASSERT_LT(t, m.out[0].bound[0], 2.7 * 0x1p-24);
    one_free(&m);
}

/* ---- 16 bits: every input ---- */

static void exhaustive(vn_test_t *t, vn_dtype_t type, const tw_function_t *c, float (*fn)(float)) {
    const int64_t count = 65536;
    vn_tensor_t *x = one_tensor(t, type, 1, &count);
    for (int i = 0; i < 65536; ++i) ((uint16_t *)x->data)[i] = (uint16_t)i;
    one_node_t n = node_of(c, x, "portable");
    one_run(t, &n);
    const vn_ref_t *r = &n.out[0];
    const vn_format_t f = vn_format_of(type);
    mpfr_t mx, my;
    mpfr_inits2(120, mx, my, (mpfr_ptr)0);
    int unequal = 0, bitten = 0;
    for (int i = 0; i < 65536; ++i) {
        const double v = vn_tensor_get_f64(x, i), got = vn_tensor_get_f64(r->tensor, i);
        if (!isfinite(v)) continue;
        if (i % 16 == 0) { /* the rounded oracle is the rounding of the exact value */
            mpfr_set_d(mx, v, MPFR_RNDN);
            c->exact(my, mx, c->p);
            if (mpfr_number_p(my)) {
                const double want = tw_round(f, my);
                if (!(want == got)) vn_test_fail(t, __FILE__, __LINE__, "%s(%a) = %a, rounded exactly %a", c->op, v, got, want);
            }
        }
        if (!isfinite(r->value[i])) continue;
        const double y = vn_round_to(f, (double)fn((float)v), VN_RNE, false); /* f32 inside */
        if (!isfinite(y)) continue;
        unequal += y != got;
        if (r->demand_equal && y != got) vn_test_fail(t, __FILE__, __LINE__, "%s(%a): %a, %a", c->op, v, y, got);
        const double room = r->wide ? fmax(r->wide[i], r->bound[i]) : r->bound[i];
        if (!(fabs(y - r->value[i]) <= room))
            vn_test_fail(t, __FILE__, __LINE__, "%s(%a) = %a, oracle %a, room %a", c->op, v, y, r->value[i], room);
        const double up = vn_round_to(f, got + 1.1 * vn_ulp(f, got), VN_RNE, false); /* sharp: the next but one neighbour is outside */
        if (fabs(got) > 0x1p-12 && isfinite(up))
            bitten += fabs(up - r->value[i]) > r->bound[i] || fabs(got - r->value[i]) > 0.49 * vn_ulp(f, got);
    }
    VN_ASSERT(t, unequal < 655);
    VN_ASSERT(t, bitten > 1000);
    mpfr_clears(mx, my, (mpfr_ptr)0);
    one_free(&n);
}

static float s_reciprocal(float x) { return 1.0f / x; }

VN_TEST(elementwise, every_f16) {
    exhaustive(t, VN_F16, tw_function("Tanh", NULL), tanhf);
    exhaustive(t, VN_F16, tw_function("Sqrt", NULL), sqrtf);
    exhaustive(t, VN_F16, tw_function("Reciprocal", NULL), s_reciprocal);
}

VN_TEST(elementwise, every_bf16) {
    exhaustive(t, VN_BF16, tw_function("Tanh", NULL), tanhf);
    exhaustive(t, VN_BF16, tw_function("Exp", NULL), expf);
    exhaustive(t, VN_BF16, tw_function("Reciprocal", NULL), s_reciprocal);
}

/* ---- specials ---- */

static void expect(vn_test_t *t, const char *op, int version, double x, double want) {
    one_node_t n = {.op = op, .version = version, .n_in = 1, .in = {one_vector(t, VN_F32, 1, &x)}, .want = VN_WANT_BOUND};
    one_run(t, &n);
    const double got = vn_tensor_get_f64(n.out[0].tensor, 0);
    if (!(got == want && signbit(got) == signbit(want)) && !(isnan(got) && isnan(want)))
        vn_test_fail(t, __FILE__, __LINE__, "%s(%g) = %g, expected %g", op, x, got, want);
    one_free(&n);
}

VN_TEST(elementwise, specials) {
    static const struct {
        const char *op;
        int version;
        double x, y;
    } table[] = {
        {"Relu", 14, -0.0, 0},
        {"Relu", 14, NAN, NAN},
        {"Relu", 14, -INFINITY, 0},
        {"Sign", 13, -0.0, 0},
        {"Sign", 13, NAN, NAN},
        {"Sign", 13, -3, -1},
        {"Round", 22, 0.5, 0},
        {"Round", 22, 1.5, 2},
        {"Round", 22, 2.5, 2},
        {"Round", 22, -2.5, -2},
        {"Round", 22, -0.0, -0.0},
        {"Ceil", 13, -0.5, -0.0},
        {"Floor", 13, -0.0, -0.0},
        {"Floor", 13, -1.5, -2},
        {"Sqrt", 13, -1, NAN},
        {"Sqrt", 13, -0.0, -0.0},
        {"Log", 13, 0, -INFINITY},
        {"Log", 13, -1, NAN},
        {"Reciprocal", 13, -0.0, -INFINITY},
        {"Gelu", 20, -INFINITY, -0.0},
        {"Gelu", 20, INFINITY, INFINITY},
        {"Mish", 22, -INFINITY, -0.0},
        {"Swish", 24, -INFINITY, -0.0},
        {"Softplus", 22, -INFINITY, 0},
        {"Softplus", 22, 1000, 1000},
        {"Sigmoid", 13, -INFINITY, 0},
        {"Sigmoid", 13, INFINITY, 1},
        {"Elu", 22, -INFINITY, -1},
        {"Softsign", 22, -INFINITY, -1},
        {"HardSigmoid", 22, NAN, NAN},
        {"HardSwish", 22, -INFINITY, -0.0},
        {"ThresholdedRelu", 22, NAN, 0},
        {"ThresholdedRelu", 22, 1, 0},
        {"Shrink", 9, NAN, 0},
        {"Neg", 13, 0, -0.0},
        {"Abs", 13, -0.0, 0},
        {"Exp", 13, 100, INFINITY},
        {"Exp", 13, -INFINITY, 0},
        {"Asin", 22, 1.5, NAN},
        {"Acosh", 22, 0.5, NAN},
        {"Atanh", 22, 1, INFINITY},
        {"Erf", 13, INFINITY, 1},
        {"Tanh", 13, -0.0, -0.0},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) expect(t, table[k].op, table[k].version, table[k].x, table[k].y);
    const double v[] = {-0.0, NAN, -0.3};
    one_node_t relu = {.op = "Relu", .version = 14, .n_in = 1, .in = {one_vector(t, VN_F32, 3, v)}, .want = VN_WANT_BOUND};
    one_run(t, &relu);
    VN_ASSERT(t, relu.out[0].flags && relu.out[0].flags[0] == VN_EL_ZERO_OK && relu.out[0].flags[2] == 0);
    VN_ASSERT(t, relu.out[0].n_readings == 1 && vn_tensor_get_f64(relu.out[0].readings[0].value, 1) == 0);
    one_free(&relu);
    const double ends[] = {-INFINITY, INFINITY, 1};
    one_node_t soft = {.op = "Softsign", .version = 22, .n_in = 1, .in = {one_vector(t, VN_F32, 3, ends)}, .want = VN_WANT_BOUND};
    one_run(t, &soft); /* the formula gives inf/inf; the limit is 1 */
    VN_ASSERT(t, soft.out[0].flags && soft.out[0].flags[0] == VN_EL_NAN_OK && soft.out[0].flags[1] == VN_EL_NAN_OK &&
                     soft.out[0].flags[2] == 0);
    one_free(&soft);
}

/* In f16 arithmetic inside an f32 tensor, an operation rounds to f16 first: bits cannot be demanded, the bound is half an ulp of f16. */
VN_TEST(elementwise, narrow_accumulator) {
    const double x[] = {3, 0.1};
    one_node_t n = {.op = "Reciprocal",
                    .version = 13,
                    .n_in = 1,
                    .in = {one_vector(t, VN_F32, 2, x)},
                    .want = VN_WANT_BOUND,
                    .contract = "accumulator=f16"};
    one_run(t, &n);
    VN_ASSERT(t, !n.out[0].demand_equal);
    for (int i = 0; i < 2; ++i) {
        const double narrow = vn_round_to(VN_FMT_F16, n.out[0].value[i], VN_RNE, false);
        VN_ASSERT_LE(t, fabs(narrow - n.out[0].value[i]), n.out[0].bound[i]);
        VN_ASSERT_LE(t, n.out[0].bound[i], vn_ulp(VN_FMT_F16, n.out[0].value[i]) / 2);
    }
    one_free(&n);
}

/* Beyond 10^4 the reduction of the argument may lose u |x|: a second tier with its own name; f64 from pi/4 on. */
VN_TEST(elementwise, argument_reduction) {
    const double x[] = {1, 2e5};
    one_node_t n = {.op = "Sin", .version = 22, .n_in = 1, .in = {one_vector(t, VN_F32, 2, x)}, .want = VN_WANT_BOUND};
    one_run(t, &n);
    VN_ASSERT_STR(t, n.out[0].wide_note, "argument-reduction");
    VN_ASSERT_DEQ(t, n.out[0].wide[0], n.out[0].bound[0]);
    VN_ASSERT_GE(t, n.out[0].wide[1], 2e5 * 0x1p-24);
    VN_ASSERT_LE(t, n.out[0].wide[1], 2.1e5 * 0x1p-24);
    one_free(&n);
    one_node_t near = {.op = "Sin", .version = 22, .n_in = 1, .in = {one_vector(t, VN_F32, 1, x)}, .want = VN_WANT_BOUND};
    one_run(t, &near);
    VN_ASSERT(t, near.out[0].wide == NULL);
    one_free(&near);
}

/* daz: a subnormal operand may count as zero; without it the subnormal is demanded. */
VN_TEST(elementwise, subnormal_operands) {
    const double x[] = {0x1p-140, 1.0};
    for (int daz = 0; daz < 2; ++daz) {
        one_node_t n = {.op = "Sqrt",
                        .version = 13,
                        .n_in = 1,
                        .in = {one_vector(t, VN_F32, 2, x)},
                        .want = VN_WANT_BOUND,
                        .contract = daz ? "subnormals=daz" : "ieee"};
        one_run(t, &n);
        VN_ASSERT(t, daz ? n.out[0].bound[0] >= 0x1p-70 : n.out[0].bound[0] <= 0x1p-94);
        VN_ASSERT(t, n.out[0].demand_equal == !daz);
        VN_ASSERT_LE(t, n.out[0].bound[1], 0x1p-24 + 0x1p-149);
        one_free(&n);
    }
    one_node_t log0 = {
        .op = "Log", .version = 13, .n_in = 1, .in = {one_vector(t, VN_F32, 1, x)}, .want = VN_WANT_BOUND, .contract = "subnormals=daz"};
    one_run(t, &log0);
    VN_ASSERT(t, isinf(log0.out[0].bound[0])); /* log of a flushed operand is -inf: nothing can be said */
    one_free(&log0);
}

VN_TEST(elementwise, refuses) {
    one_node_t n = {.op = "Exp", .version = 13, .n_in = 1, .in = {one_scalar(t, VN_I32, 1)}};
    VN_ASSERT_EQ(t, one_try(t, &n), VN_ERR_DTYPE);
    VN_ASSERT_HAS(t, n.err.text, "i32");
    one_free(&n);
    one_node_t g = {
        .op = "Gelu", .version = 20, .n_in = 1, .in = {one_scalar(t, VN_F32, 1)}, .attrs = {{"approximate", ONE_TEXT, 0, "cubic"}}};
    VN_ASSERT_EQ(t, one_try(t, &g), VN_ERR_UNSUPPORTED);
    one_free(&g);
}

VN_TEST_MAIN(VN_CASE(elementwise, values_f32), VN_CASE(elementwise, values_f64), VN_CASE(elementwise, budget_true_tight_sharp),
             VN_CASE(elementwise, f32_evaluations_are_inside), VN_CASE(elementwise, second_tier_is_sharp), VN_CASE(elementwise, every_f16),
             VN_CASE(elementwise, every_bf16), VN_CASE(elementwise, specials), VN_CASE(elementwise, narrow_accumulator),
             VN_CASE(elementwise, argument_reduction), VN_CASE(elementwise, subnormal_operands), VN_CASE(elementwise, refuses))
