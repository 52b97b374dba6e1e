/* op_unary.c -- functions of one element: f32 by the f32 functions of libm, f64 by the double ones, every step rounded. A new one is a row. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* The first four are exact on integers too. */
enum {
    RELU,
    ABS,
    NEG,
    SIGN,
    TANH,
    EXP,
    LOG,
    SQRT,
    ERF,
    FLOOR,
    CEIL,
    ROUND,
    RECIPROCAL,
    SIN,
    COS,
    TAN,
    ATAN,
    ASIN,
    ACOS,
    SINH,
    COSH,
    ASINH,
    LEAKY_RELU,
    THRESHOLDED_RELU,
    SIGMOID,
    HARD_SIGMOID,
    HARD_SWISH,
    SOFTSIGN,
    SOFTPLUS,
    ELU,
    SELU,
    CELU,
    MISH,
    SWISH
};

typedef double (*unary_fn)(const call_t *c, bool wide, double x, const double *p);

#define LIBM(name, single, twin)                                                \
    static double name(const call_t *c, bool wide, double x, const double *p) { \
        (void)c, (void)p;                                                       \
        return wide ? twin(x) : (double)single((float)x);                       \
    }
LIBM(f_sqrt, sqrtf, sqrt)
LIBM(f_floor, floorf, floor)
LIBM(f_ceil, ceilf, ceil)
LIBM(f_abs, fabsf, fabs)
LIBM(f_tan, tanf, tan)
LIBM(f_atan, atanf, atan)
LIBM(f_asin, asinf, asin)
LIBM(f_acos, acosf, acos)
LIBM(f_sinh, sinhf, sinh)
LIBM(f_cosh, coshf, cosh)
LIBM(f_asinh, asinhf, asinh)
LIBM(f_expm1, expm1f, expm1)
LIBM(f_log1p, log1pf, log1p)
LIBM(f_erfc, erfcf, erfc)
LIBM(plain_log, logf, log)
LIBM(plain_sin, sinf, sin)
LIBM(plain_cos, cosf, cos)

#define F16_ARGUMENT(name, plain)                                                                            \
    static double name(const call_t *c, bool wide, double x, const double *p) {                              \
        return plain(c, wide, faulty(c, F_FUNCTION_F16) ? vn_round_to(VN_FMT_F16, x, VN_RNE, false) : x, p); \
    }
F16_ARGUMENT(f_log, plain_log)
F16_ARGUMENT(f_sin, plain_sin)
F16_ARGUMENT(f_cos, plain_cos)

static double f_exp(const call_t *c, bool wide, double x, const double *p) {
    (void)p;
    return fn_exp(c, wide, x);
}
static double f_tanh(const call_t *c, bool wide, double x, const double *p) {
    (void)p;
    return fn_tanh(c, wide, x);
}
static double f_erf(const call_t *c, bool wide, double x, const double *p) {
    (void)p;
    return fn_erf(c, wide, x);
}
static double f_sigmoid(const call_t *c, bool wide, double x, const double *p) {
    (void)p;
    return fn_sigmoid(c, wide, x);
}
static double f_neg(const call_t *c, bool wide, double x, const double *p) {
    (void)c, (void)wide, (void)p;
    return -x;
}
static double f_sign(const call_t *c, bool wide, double x, const double *p) {
    (void)c, (void)wide, (void)p;
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
static double f_relu(const call_t *c, bool wide, double x, const double *p) {
    (void)wide, (void)p;
    if (isnan(x)) return faulty(c, F_NAN_IGNORED) ? 0 : x;
    return x < 0 ? 0 : x;
}
static double f_reciprocal(const call_t *c, bool wide, double x, const double *p) {
    (void)c, (void)p;
    return settle(wide, 1 / x);
}
static double f_leaky(const call_t *c, bool wide, double x, const double *p) {
    (void)c;
    return x < 0 ? settle(wide, p[0] * x) : x;
}
static double f_thresholded(const call_t *c, bool wide, double x, const double *p) {
    (void)c, (void)wide;
    return x > p[0] || isnan(x) ? x : 0;
}
static double f_hard_sigmoid(const call_t *c, bool wide, double x, const double *p) {
    (void)c;
    const double y = settle(wide, settle(wide, p[0] * x) + p[1]);
    return y < 0 ? 0 : y > 1 ? 1 : y; /* NaN stays */
}
static double f_hard_swish(const call_t *c, bool wide, double x, const double *p) {
    return settle(wide, x * f_hard_sigmoid(c, wide, x, p));
}
static double f_softsign(const call_t *c, bool wide, double x, const double *p) {
    (void)p;
    return quotient(c, wide, x, settle(wide, 1 + fabs(x)));
}

/* exp(x) - 1, without cancellation unless that is the fault. */
static double less_one(const call_t *c, bool wide, double x) {
    if (faulty(c, F_EXPM1_MISSING) || faulty(c, F_FAST_EXP)) return settle(wide, fn_exp(c, wide, x) - 1);
    return f_expm1(c, wide, faulty(c, F_FUNCTION_F16) ? vn_round_to(VN_FMT_F16, x, VN_RNE, false) : x, NULL);
}
static double f_elu(const call_t *c, bool wide, double x, const double *p) { return x < 0 ? settle(wide, p[0] * less_one(c, wide, x)) : x; }
static double f_selu(const call_t *c, bool wide, double x, const double *p) {
    return settle(wide, p[1] * (x < 0 ? settle(wide, p[0] * less_one(c, wide, x)) : x));
}
static double f_celu(const call_t *c, bool wide, double x, const double *p) {
    return x < 0 ? settle(wide, p[0] * less_one(c, wide, settle(wide, x / p[0]))) : x;
}

/* max(x, 0) + log1p(exp(-|x|)) */
static double f_softplus(const call_t *c, bool wide, double x, const double *p) {
    if (faulty(c, F_EXPM1_MISSING)) return fn_log(wide, settle(wide, 1 + fn_exp(c, wide, x)));
    return settle(wide, (x > 0 ? x : 0) + f_log1p(c, wide, fn_exp(c, wide, -fabs(x)), p));
}
static double f_mish(const call_t *c, bool wide, double x, const double *p) {
    return settle(wide, x * fn_tanh(c, wide, f_softplus(c, wide, x, p)));
}
static double f_swish(const call_t *c, bool wide, double x, const double *p) {
    return settle(wide, x * fn_sigmoid(c, wide, settle(wide, p[0] * x)));
}

/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); the tail as a quotient of exponentials, x / (1 + exp(-2 z)), which does not cancel */
static double tanh_form(const call_t *c, bool wide, double x) {
    const double cube = settle(wide, settle(wide, x * x) * x), root = wide ? 0.79788456080286535588 : (double)0.797884561f,
                 z = settle(wide, root * settle(wide, x + settle(wide, (wide ? 0.044715 : (double)0.044715f) * cube)));
    if (faulty(c, F_TAIL_CANCELLATION) || faulty(c, F_LOW_ORDER_FIT) || faulty(c, F_COEFFICIENTS_F16))
        return settle(wide, settle(wide, x / 2) * settle(wide, 1 + fn_tanh(c, wide, z)));
    return settle(wide, x / settle(wide, 1 + fn_exp(c, wide, -2 * z)));
}
/* x/2 erfc(-x / sqrt 2) */
static double erf_form(const call_t *c, bool wide, double x) {
    const double root = wide ? 0.70710678118654752440 : (double)0.707106781f, z = settle(wide, x * root);
    if (faulty(c, F_TAIL_CANCELLATION) || faulty(c, F_LOW_ORDER_FIT) || faulty(c, F_COEFFICIENTS_F16) || faulty(c, F_FUNCTION_F16))
        return settle(wide, settle(wide, x / 2) * settle(wide, 1 + fn_erf(c, wide, z)));
    return settle(wide, settle(wide, x / 2) * f_erfc(c, wide, -z, NULL));
}

/* Ties to even unless the fault says away from zero or upward. */
static double f_round(const call_t *c, bool wide, double x, const double *p) {
    (void)wide, (void)p;
    return faulty(c, F_HALF_AWAY) ? round(x) : faulty(c, F_HALF_UP) ? floor(x + 0.5) : rint(x);
}

static const struct {
    unary_fn f;
    const char *attrs[2];
    double defaults[2];
} unaries[] = {
    [RELU] = {f_relu, {0}, {0}},
    [ABS] = {f_abs, {0}, {0}},
    [NEG] = {f_neg, {0}, {0}},
    [SIGN] = {f_sign, {0}, {0}},
    [TANH] = {f_tanh, {0}, {0}},
    [EXP] = {f_exp, {0}, {0}},
    [LOG] = {f_log, {0}, {0}},
    [SQRT] = {f_sqrt, {0}, {0}},
    [ERF] = {f_erf, {0}, {0}},
    [FLOOR] = {f_floor, {0}, {0}},
    [CEIL] = {f_ceil, {0}, {0}},
    [ROUND] = {f_round, {0}, {0}},
    [RECIPROCAL] = {f_reciprocal, {0}, {0}},
    [SIN] = {f_sin, {0}, {0}},
    [COS] = {f_cos, {0}, {0}},
    [TAN] = {f_tan, {0}, {0}},
    [ATAN] = {f_atan, {0}, {0}},
    [ASIN] = {f_asin, {0}, {0}},
    [ACOS] = {f_acos, {0}, {0}},
    [SINH] = {f_sinh, {0}, {0}},
    [COSH] = {f_cosh, {0}, {0}},
    [ASINH] = {f_asinh, {0}, {0}},
    [LEAKY_RELU] = {f_leaky, {"alpha", NULL}, {0.01f, 0}},
    [THRESHOLDED_RELU] = {f_thresholded, {"alpha", NULL}, {1, 0}},
    [SIGMOID] = {f_sigmoid, {0}, {0}},
    [HARD_SIGMOID] = {f_hard_sigmoid, {"alpha", "beta"}, {0.2f, 0.5f}},
    [HARD_SWISH] = {f_hard_swish, {0}, {(double)(1.0f / 6.0f), 0.5}},
    [SOFTSIGN] = {f_softsign, {0}, {0}},
    [SOFTPLUS] = {f_softplus, {0}, {0}},
    [ELU] = {f_elu, {"alpha", NULL}, {1, 0}},
    [SELU] = {f_selu, {"alpha", "gamma"}, {1.67326319217681884765625, 1.05070102214813232421875}},
    [CELU] = {f_celu, {"alpha", NULL}, {1, 0}},
    [MISH] = {f_mish, {0}, {0}},
    [SWISH] = {f_swish, {"alpha", NULL}, {1, 0}},
};

static vn_status_t unary_ints(call_t *c, const vn_tensor_t *x) {
    int64_t *v = int_plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; ++i) {
        const bool negative = vn_dtype_kind(x->dtype) == VN_KIND_SIGNED && v[i] < 0;
        const int64_t minus = (int64_t)(0 - (uint64_t)v[i]);
        if (c->param == NEG) v[i] = minus;
        else if (c->param == SIGN) v[i] = negative ? -1 : v[i] != 0;
        else if (negative) v[i] = c->param == ABS ? minus : 0;
    }
    return put_ints(c, 0, x->dtype, x->rank, x->dims, v);
}

static vn_status_t run_unary(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    if (c->param <= SIGN && vn_dtype_is_int(x->dtype)) return unary_ints(c, x);
    VN_TRY(need_float(c, 0));
    double p[2], *v = plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    for (int k = 0; k < 2; ++k) {
        const char *name = unaries[c->param].attrs[k];
        p[k] = name ? attr_float(c, name, unaries[c->param].defaults[k]) : unaries[c->param].defaults[k];
    }
    const bool wide = is_wide(x->dtype);
    for (int64_t i = 0; i < x->count; ++i) v[i] = unaries[c->param].f(c, wide, v[i], p);
    return put_plane(c, 0, x->dtype, x->rank, x->dims, v);
}

static vn_status_t run_gelu(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    const bool approximate = strcmp(vn_node_string(c->node, "approximate", "none"), "tanh") == 0, wide = is_wide(x->dtype);
    const bool by_tanh = (approximate || faulty(c, F_GELU_TANH)) && !faulty(c, F_GELU_ERF);
    double *v = plane(c, x);
    if (!v) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; ++i) v[i] = by_tanh ? tanh_form(c, wide, v[i]) : erf_form(c, wide, v[i]);
    return put_plane(c, 0, x->dtype, x->rank, x->dims, v);
}

static const op_row_t rows[] = {
    {"Relu", run_unary, RELU},
    {"Abs", run_unary, ABS},
    {"Neg", run_unary, NEG},
    {"Sign", run_unary, SIGN},
    {"Tanh", run_unary, TANH},
    {"Exp", run_unary, EXP},
    {"Log", run_unary, LOG},
    {"Sqrt", run_unary, SQRT},
    {"Erf", run_unary, ERF},
    {"Floor", run_unary, FLOOR},
    {"Ceil", run_unary, CEIL},
    {"Round", run_unary, ROUND},
    {"Reciprocal", run_unary, RECIPROCAL},
    {"Sin", run_unary, SIN},
    {"Cos", run_unary, COS},
    {"Tan", run_unary, TAN},
    {"Atan", run_unary, ATAN},
    {"Asin", run_unary, ASIN},
    {"Acos", run_unary, ACOS},
    {"Sinh", run_unary, SINH},
    {"Cosh", run_unary, COSH},
    {"Asinh", run_unary, ASINH},
    {"LeakyRelu", run_unary, LEAKY_RELU},
    {"ThresholdedRelu", run_unary, THRESHOLDED_RELU},
    {"Sigmoid", run_unary, SIGMOID},
    {"HardSigmoid", run_unary, HARD_SIGMOID},
    {"HardSwish", run_unary, HARD_SWISH},
    {"Softsign", run_unary, SOFTSIGN},
    {"Softplus", run_unary, SOFTPLUS},
    {"Elu", run_unary, ELU},
    {"Selu", run_unary, SELU},
    {"Celu", run_unary, CELU},
    {"Mish", run_unary, MISH},
    {"Swish", run_unary, SWISH},
    {"Gelu", run_gelu, 0},
};
const op_table_t unary_ops = {rows, sizeof rows / sizeof *rows};
