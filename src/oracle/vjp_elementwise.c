/* vjp_elementwise.c -- cotangents through functions of one, two and many arguments, element by element.
 *
 * Claim GRAD-3: dx = g f'(x), written with y = f(x) where that saves a function: exp' = y, tanh' = 1 - y^2, sigmoid' = y (1 - y),
 *   sqrt' = 1/(2y); operands that were broadcast get the sum over the axes along which they were.
 */
#include <math.h>
#include <string.h>

#include "oracle/vjp.h"

#define X vn_vjp_in(v, 0)
#define Y vn_vjp_out(v, 0)
#define G (v->cot[0])

static const char *number(vn_vjp_t *v, double x) { return vn_vjp_scalar(v, vn_vjp_fact(v, X)->dtype, x); }
static const char *square(vn_vjp_t *v, const char *a) { return vn_vjp_mul(v, a, a); }
static const char *less_from(vn_vjp_t *v, double one, const char *a) { return vn_vjp_sub(v, number(v, one), a); }
static const char *scaled(vn_vjp_t *v, double c, const char *a) { return c == 1 ? a : vn_vjp_mul(v, a, number(v, c)); }
/* a where x > c, else b. */
static const char *above(vn_vjp_t *v, double c, const char *a, const char *b) {
    return vn_vjp_3(v, "Where", vn_vjp_2(v, "Greater", X, number(v, c)), a, b);
}
static const char *zero(vn_vjp_t *v) { return number(v, 0); }
static double attr(const vn_vjp_t *v, const char *name, double fallback) { return vn_node_float(&v->node, name, fallback); }

/* ---- one argument ---- */

enum {
    IDENTITY,
    NEG,
    ABS,
    EXP,
    LOG,
    SQRT,
    RECIPROCAL,
    SIN,
    COS,
    TAN,
    ASIN,
    ACOS,
    ATAN,
    SINH,
    COSH,
    TANH,
    ASINH,
    ACOSH,
    ATANH,
    ERF,
    SIGMOID,
    SOFTPLUS,
    SOFTSIGN,
    RELU,
    LEAKY,
    ELU,
    SELU,
    CELU,
    THRESHOLDED,
    HARD_SIGMOID,
    HARD_SWISH,
    MISH,
    SWISH,
    GELU,
    SHRINK
};

/* sigma(a x) as nodes. */
static const char *sigmoid(vn_vjp_t *v, double a) { return vn_vjp_1(v, "Sigmoid", scaled(v, a, X)); }

/* y = x s(a x): s + a x s (1 - s). */
static const char *swish(vn_vjp_t *v, double a) {
    const char *s = sigmoid(v, a);
    return vn_vjp_add(v, s, vn_vjp_mul(v, scaled(v, a, X), vn_vjp_mul(v, s, less_from(v, 1, s))));
}

/* y = x tanh(softplus x): t + x (1 - t^2) sigmoid(x). */
static const char *mish(vn_vjp_t *v) {
    const char *t = vn_vjp_1(v, "Tanh", vn_vjp_1(v, "Softplus", X));
    return vn_vjp_add(v, t, vn_vjp_mul(v, vn_vjp_mul(v, X, less_from(v, 1, square(v, t))), sigmoid(v, 1)));
}

/* Exact form: Phi(x) + x phi(x). Tanh form: (1 + t)/2 + x (1 - t^2) inner' / 2. */
static const char *gelu(vn_vjp_t *v) {
    if (strcmp(vn_node_string(&v->node, "approximate", "none"), "tanh") != 0) {
        const char *phi = scaled(v, 0.3989422804014327, vn_vjp_1(v, "Exp", scaled(v, -0.5, square(v, X))));
        const char *cdf = scaled(v, 0.5, vn_vjp_add(v, vn_vjp_1(v, "Erf", scaled(v, 0.7071067811865476, X)), number(v, 1)));
        return vn_vjp_add(v, cdf, vn_vjp_mul(v, X, phi));
    }
    const double c = 0.7978845608028654, k = 0.044715;
    const char *xx = square(v, X);
    const char *t = vn_vjp_1(v, "Tanh", scaled(v, c, vn_vjp_mul(v, X, vn_vjp_add(v, scaled(v, k, xx), number(v, 1)))));
    const char *inner = scaled(v, c, vn_vjp_add(v, scaled(v, 3 * k, xx), number(v, 1)));
    const char *slope = vn_vjp_mul(v, X, vn_vjp_mul(v, less_from(v, 1, square(v, t)), inner));
    return scaled(v, 0.5, vn_vjp_add(v, vn_vjp_add(v, t, number(v, 1)), slope));
}

/* Cotangents by cases: g on one side, something else on the other. */
static const char *by_cases(vn_vjp_t *v, int param) {
    switch (param) {
    case RELU: return above(v, 0, G, zero(v));
    case THRESHOLDED: return above(v, attr(v, "alpha", 1), G, zero(v));
    case LEAKY: return above(v, 0, G, scaled(v, attr(v, "alpha", (double)0.01f), G));
    case ELU: return above(v, 0, G, vn_vjp_mul(v, G, scaled(v, attr(v, "alpha", 1), vn_vjp_1(v, "Exp", X))));
    case SELU: {
        const double gamma = attr(v, "gamma", (double)1.05070102214813232421875f),
                     alpha = attr(v, "alpha", (double)1.67326319217681884765625f);
        return above(v, 0, scaled(v, gamma, G), vn_vjp_mul(v, G, scaled(v, gamma * alpha, vn_vjp_1(v, "Exp", X))));
    }
    case CELU: return above(v, 0, G, vn_vjp_mul(v, G, vn_vjp_1(v, "Exp", vn_vjp_div(v, X, number(v, attr(v, "alpha", 1))))));
    case HARD_SIGMOID: { /* slope alpha where 0 < y < 1 */
        const char *inside = vn_vjp_2(v, "And", vn_vjp_2(v, "Greater", Y, zero(v)), vn_vjp_2(v, "Less", Y, number(v, 1)));
        return vn_vjp_3(v, "Where", inside, scaled(v, attr(v, "alpha", (double)0.2f), G), zero(v));
    }
    case HARD_SWISH: { /* x clip(x/6 + 1/2): x/3 + 1/2 between -3 and 3 */
        const char *inner = vn_vjp_mul(v, G, vn_vjp_add(v, scaled(v, 1.0 / 3, X), number(v, 0.5)));
        return above(v, 3, G, above(v, -3, inner, zero(v)));
    }
    case SHRINK: {
        const double lambd = attr(v, "lambd", 0.5);
        return above(v, lambd, G, vn_vjp_3(v, "Where", vn_vjp_2(v, "Less", X, number(v, -lambd)), G, zero(v)));
    }
    default: return G;
    }
}

/* The factor f'(x). */
static const char *slope(vn_vjp_t *v, int param) {
    switch (param) {
    case ABS: return vn_vjp_1(v, "Sign", X);
    case EXP: return Y;
    case RECIPROCAL: return vn_vjp_1(v, "Neg", square(v, Y));
    case SIN: return vn_vjp_1(v, "Cos", X);
    case COS: return vn_vjp_1(v, "Neg", vn_vjp_1(v, "Sin", X));
    case TAN: return vn_vjp_add(v, square(v, Y), number(v, 1));
    case SINH: return vn_vjp_1(v, "Cosh", X);
    case COSH: return vn_vjp_1(v, "Sinh", X);
    case TANH: return less_from(v, 1, square(v, Y));
    case ERF: return scaled(v, 1.1283791670955126, vn_vjp_1(v, "Exp", vn_vjp_1(v, "Neg", square(v, X))));
    case SIGMOID: return vn_vjp_mul(v, Y, less_from(v, 1, Y));
    case SOFTPLUS: return vn_vjp_1(v, "Sigmoid", X);
    case MISH: return mish(v);
    case SWISH: return swish(v, attr(v, "alpha", 1));
    default: return gelu(v);
    }
}

/* What g is divided by. */
static const char *divisor(vn_vjp_t *v, int param) {
    switch (param) {
    case LOG: return X;
    case SQRT: return scaled(v, 2, Y);
    case ASIN: return vn_vjp_1(v, "Sqrt", less_from(v, 1, square(v, X)));
    case ACOS: return vn_vjp_1(v, "Neg", vn_vjp_1(v, "Sqrt", less_from(v, 1, square(v, X))));
    case ATAN: return vn_vjp_add(v, square(v, X), number(v, 1));
    case ASINH: return vn_vjp_1(v, "Sqrt", vn_vjp_add(v, square(v, X), number(v, 1)));
    case ACOSH: return vn_vjp_1(v, "Sqrt", vn_vjp_sub(v, square(v, X), number(v, 1)));
    case ATANH: return less_from(v, 1, square(v, X));
    default: return square(v, vn_vjp_add(v, vn_vjp_1(v, "Abs", X), number(v, 1))); /* Softsign */
    }
}

static void unary_same(vn_vjp_t *v, int param) { vn_vjp_give(v, 0, param == NEG ? vn_vjp_1(v, "Neg", G) : G); }
static void unary_cases(vn_vjp_t *v, int param) { vn_vjp_give(v, 0, by_cases(v, param)); }
static void unary_times(vn_vjp_t *v, int param) { vn_vjp_give(v, 0, vn_vjp_mul(v, G, slope(v, param))); }
static void unary_over(vn_vjp_t *v, int param) { vn_vjp_give(v, 0, vn_vjp_div(v, G, divisor(v, param))); }

/* ---- two arguments ---- */

static void give_reduced(vn_vjp_t *v, int k, const char *d) {
    const vn_inferred_value_t *y = vn_vjp_fact(v, Y), *x = vn_vjp_fact(v, vn_vjp_in(v, k));
    vn_vjp_give(v, k, vn_vjp_unbroadcast(v, d, y->rank, y->dims, x));
}

static void add(vn_vjp_t *v, int minus) {
    if (vn_vjp_needs(v, 0)) give_reduced(v, 0, G);
    if (vn_vjp_needs(v, 1)) give_reduced(v, 1, minus ? vn_vjp_1(v, "Neg", G) : G);
}

static void mul(vn_vjp_t *v, int param) {
    (void)param;
    if (vn_vjp_needs(v, 0)) give_reduced(v, 0, vn_vjp_mul(v, G, vn_vjp_in(v, 1)));
    if (vn_vjp_needs(v, 1)) give_reduced(v, 1, vn_vjp_mul(v, G, vn_vjp_in(v, 0)));
}

static void divide(vn_vjp_t *v, int param) {
    (void)param;
    if (vn_vjp_needs(v, 0)) give_reduced(v, 0, vn_vjp_div(v, G, vn_vjp_in(v, 1)));
    if (vn_vjp_needs(v, 1)) give_reduced(v, 1, vn_vjp_1(v, "Neg", vn_vjp_div(v, vn_vjp_mul(v, G, Y), vn_vjp_in(v, 1))));
}

/* a^b: g b a^(b - 1), and g y log a where a > 0 (0 at a = 0). */
static void power(vn_vjp_t *v, int param) {
    (void)param;
    const char *a = vn_vjp_in(v, 0), *b = vn_vjp_in(v, 1);
    const vn_dtype_t ta = vn_vjp_fact(v, a)->dtype, tb = vn_vjp_fact(v, b)->dtype;
    vn_node_t *n;
    if (vn_vjp_needs(v, 0)) {
        const char *less = vn_vjp_sub(v, b, vn_dtype_is_float(tb) ? vn_vjp_scalar(v, tb, 1) : "");
        if (!vn_dtype_is_float(tb)) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "an exponent of type %s", vn_dtype_name(tb));
        const char *factor = b;
        if (ta != tb) {
            factor = vn_vjp_emit(v, "Cast", 1, &b, &n);
            vn_vjp_int(v, n, "to", ta);
        }
        give_reduced(v, 0, vn_vjp_mul(v, vn_vjp_mul(v, G, factor), vn_vjp_2(v, "Pow", a, less)));
    }
    if (!vn_vjp_needs(v, 1)) return;
    if (ta != tb) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "base of type %s, exponent of type %s", vn_dtype_name(ta), vn_dtype_name(tb));
    const char *positive = vn_vjp_2(v, "Greater", a, number(v, 0));
    const char *log = vn_vjp_1(v, "Log", vn_vjp_3(v, "Where", positive, a, number(v, 1)));
    give_reduced(v, 1, vn_vjp_mul(v, vn_vjp_mul(v, G, Y), log));
}

/* x where x > 0, s x below: the slope gets g x there. */
static void prelu(vn_vjp_t *v, int param) {
    (void)param;
    const char *x = vn_vjp_in(v, 0), *s = vn_vjp_in(v, 1);
    if (vn_vjp_needs(v, 0)) vn_vjp_give(v, 0, above(v, 0, G, vn_vjp_mul(v, G, s)));
    if (vn_vjp_needs(v, 1)) give_reduced(v, 1, above(v, 0, zero(v), vn_vjp_mul(v, G, x)));
}

static void where(vn_vjp_t *v, int param) {
    (void)param;
    const char *c = vn_vjp_in(v, 0);
    const vn_inferred_value_t *y = vn_vjp_fact(v, Y);
    const char *nothing = vn_vjp_scalar(v, y->dtype, 0);
    if (vn_vjp_needs(v, 1)) give_reduced(v, 1, vn_vjp_3(v, "Where", c, G, nothing));
    if (vn_vjp_needs(v, 2)) give_reduced(v, 2, vn_vjp_3(v, "Where", c, nothing, G));
}

/* ---- many arguments ---- */

static void sum(vn_vjp_t *v, int mean) {
    const char *g = mean ? vn_vjp_div(v, G, number(v, v->node.n_inputs)) : G;
    for (int k = 0; k < v->node.n_inputs; ++k)
        if (vn_vjp_needs(v, k)) give_reduced(v, k, g);
}

/* 1 where operand k is among the largest (smallest), else 0. */
static const char *winner(vn_vjp_t *v, int k, const char *compare, vn_dtype_t t) {
    const char *all = NULL;
    for (int i = 0; i < v->node.n_inputs; ++i) {
        if (i == k) continue;
        const char *one = vn_vjp_2(v, compare, vn_vjp_in(v, k), vn_vjp_in(v, i));
        all = all ? vn_vjp_2(v, "And", all, one) : one;
    }
    return vn_vjp_3(v, "Where", all, vn_vjp_scalar(v, t, 1), vn_vjp_scalar(v, t, 0));
}

static void extreme(vn_vjp_t *v, int min) {
    const int n = v->node.n_inputs;
    const char *count = NULL, *share[VN_VJP_MAX];
    if (n == 1) {
        vn_vjp_give(v, 0, G);
        return;
    }
    if (n > VN_VJP_MAX) {
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "more than %d operands", VN_VJP_MAX);
        return;
    }
    const vn_dtype_t t = vn_vjp_fact(v, Y)->dtype;
    for (int k = 0; k < n; ++k) {
        share[k] = winner(v, k, min ? "LessOrEqual" : "GreaterOrEqual", t);
        count = count ? vn_vjp_add(v, count, share[k]) : share[k];
    }
    const char *g = vn_vjp_div(v, G, count);
    for (int k = 0; k < n; ++k)
        if (vn_vjp_needs(v, k)) give_reduced(v, k, vn_vjp_mul(v, g, share[k]));
}

/* The cotangent goes to x strictly between the bounds, else to the bound that y equals. */
static void clip(vn_vjp_t *v, int param) {
    (void)param;
    const char *x = vn_vjp_in(v, 0), *g = G, *bound[] = {vn_vjp_in(v, 1), vn_vjp_in(v, 2)};
    static const char *const inside[] = {"Greater", "Less"};
    for (int k = 0; k < 2; ++k) {
        if (!*bound[k]) continue;
        const char *free = vn_vjp_2(v, inside[k], x, bound[k]);
        if (vn_vjp_needs(v, k + 1)) give_reduced(v, k + 1, vn_vjp_3(v, "Where", free, zero(v), g));
        g = vn_vjp_3(v, "Where", free, g, zero(v));
    }
    if (vn_vjp_needs(v, 0)) vn_vjp_give(v, 0, g);
}

static void cast(vn_vjp_t *v, int param) {
    (void)param;
    vn_node_t *n;
    const vn_dtype_t t = vn_vjp_fact(v, X)->dtype;
    const char *d = vn_vjp_emit(v, "Cast", 1, &G, &n);
    vn_vjp_int(v, n, "to", t);
    vn_vjp_give(v, 0, d);
}

static const vn_vjp_rule_t rules[] = {
    {"Identity Dropout", unary_same, IDENTITY},
    {"Neg", unary_same, NEG},
    {"Cast CastLike", cast, 0},
    {"Floor Ceil Round Sign Shape Size IsNaN IsInf Equal Greater Less GreaterOrEqual LessOrEqual ArgMax ArgMin NonZero", NULL, 0},
    {"Relu", unary_cases, RELU},
    {"LeakyRelu", unary_cases, LEAKY},
    {"Elu", unary_cases, ELU},
    {"Selu", unary_cases, SELU},
    {"Celu", unary_cases, CELU},
    {"ThresholdedRelu", unary_cases, THRESHOLDED},
    {"HardSigmoid", unary_cases, HARD_SIGMOID},
    {"HardSwish", unary_cases, HARD_SWISH},
    {"Shrink", unary_cases, SHRINK},
    {"Abs", unary_times, ABS},
    {"Exp", unary_times, EXP},
    {"Reciprocal", unary_times, RECIPROCAL},
    {"Sin", unary_times, SIN},
    {"Cos", unary_times, COS},
    {"Tan", unary_times, TAN},
    {"Sinh", unary_times, SINH},
    {"Cosh", unary_times, COSH},
    {"Tanh", unary_times, TANH},
    {"Erf", unary_times, ERF},
    {"Sigmoid", unary_times, SIGMOID},
    {"Softplus", unary_times, SOFTPLUS},
    {"Mish", unary_times, MISH},
    {"Swish", unary_times, SWISH},
    {"Gelu", unary_times, GELU},
    {"Log", unary_over, LOG},
    {"Sqrt", unary_over, SQRT},
    {"Asin", unary_over, ASIN},
    {"Acos", unary_over, ACOS},
    {"Atan", unary_over, ATAN},
    {"Asinh", unary_over, ASINH},
    {"Acosh", unary_over, ACOSH},
    {"Atanh", unary_over, ATANH},
    {"Softsign", unary_over, SOFTSIGN},
    {"Add", add, 0},
    {"Sub", add, 1},
    {"Mul", mul, 0},
    {"Div", divide, 0},
    {"Pow", power, 0},
    {"PRelu", prelu, 0},
    {"Where", where, 0},
    {"Sum", sum, 0},
    {"Mean", sum, 1},
    {"Max", extreme, 0},
    {"Min", extreme, 1},
    {"Clip", clip, 0},
};

const vn_vjp_table_t vn_vjp_elementwise = {.rules = rules, .count = sizeof rules / sizeof *rules};
