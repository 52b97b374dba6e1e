/* The functions of one argument as their texts write them, by MPFR. */
#include <string.h>

#include "support/mpfr_twin.h"

#define MP(name, call)                                                \
    static void x_##name(mpfr_t y, const mpfr_t x, const double *p) { \
        (void)p;                                                      \
        call(y, x, MPFR_RNDN);                                        \
    }
MP(neg, mpfr_neg)
MP(abs, mpfr_abs)
MP(round, mpfr_rint)
MP(exp, mpfr_exp)
MP(log, mpfr_log)
MP(sin, mpfr_sin)
MP(cos, mpfr_cos)
MP(tan, mpfr_tan)
MP(asin, mpfr_asin)
MP(acos, mpfr_acos)
MP(atan, mpfr_atan)
MP(sinh, mpfr_sinh)
MP(cosh, mpfr_cosh)
MP(tanh, mpfr_tanh)
MP(asinh, mpfr_asinh)
MP(acosh, mpfr_acosh)
MP(atanh, mpfr_atanh)
MP(erf, mpfr_erf)
MP(sqrt, mpfr_sqrt)

static void x_floor(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_floor(y, x);
}
static void x_ceil(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_ceil(y, x);
}
static void x_sign(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_set_si(y, (mpfr_sgn(x) > 0) - (mpfr_sgn(x) < 0), MPFR_RNDN);
}
static void x_relu(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    if (mpfr_sgn(x) > 0) mpfr_set(y, x, MPFR_RNDN);
    else mpfr_set_zero(y, 1);
}
static void x_thresholded(mpfr_t y, const mpfr_t x, const double *p) {
    if (mpfr_cmp_d(x, p[0]) > 0) mpfr_set(y, x, MPFR_RNDN);
    else mpfr_set_zero(y, 1);
}
static void x_reciprocal(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_ui_div(y, 1, x, MPFR_RNDN);
}
static void x_sigmoid(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_neg(y, x, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
}
static void x_softplus(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    if (mpfr_cmp_ui(x, 2000) > 0) { /* e^-x is far below the last digit */
        mpfr_set(y, x, MPFR_RNDN);
        return;
    }
    mpfr_exp(y, x, MPFR_RNDN);
    mpfr_log1p(y, y, MPFR_RNDN);
}
static void scaled_expm1(mpfr_t y, const mpfr_t x, double scale) {
    mpfr_expm1(y, x, MPFR_RNDN);
    mpfr_mul_d(y, y, scale, MPFR_RNDN);
}
static void x_elu(mpfr_t y, const mpfr_t x, const double *p) {
    if (mpfr_sgn(x) < 0) scaled_expm1(y, x, p[0]);
    else mpfr_set(y, x, MPFR_RNDN);
}
static void x_selu(mpfr_t y, const mpfr_t x, const double *p) {
    if (mpfr_sgn(x) <= 0) scaled_expm1(y, x, p[0]);
    else mpfr_set(y, x, MPFR_RNDN);
    mpfr_mul_d(y, y, p[1], MPFR_RNDN);
}
static void x_celu(mpfr_t y, const mpfr_t x, const double *p) {
    if (mpfr_sgn(x) >= 0) {
        mpfr_set(y, x, MPFR_RNDN);
        return;
    }
    mpfr_div_d(y, x, p[0], MPFR_RNDN);
    mpfr_expm1(y, y, MPFR_RNDN);
    mpfr_mul_d(y, y, p[0], MPFR_RNDN);
}
static void x_gelu(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_t r;
    mpfr_init2(r, mpfr_get_prec(y));
    mpfr_sqrt_ui(r, 2, MPFR_RNDN);
    mpfr_div(y, x, r, MPFR_RNDN);
    mpfr_neg(y, y, MPFR_RNDN);
    mpfr_erfc(y, y, MPFR_RNDN);
    mpfr_mul(y, y, x, MPFR_RNDN);
    mpfr_div_ui(y, y, 2, MPFR_RNDN);
    mpfr_clear(r);
}
/* x times 1/(1 + exp(-z)) */
static void times_logistic(mpfr_t y, const mpfr_t x, mpfr_t z) {
    x_sigmoid(y, z, NULL);
    mpfr_mul(y, y, x, MPFR_RNDN);
}
static void x_gelu_tanh(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_t z, c;
    mpfr_inits2(mpfr_get_prec(y), z, c, (mpfr_ptr)0);
    mpfr_set_str(c, "0.044715", 10, MPFR_RNDN);
    mpfr_pow_ui(z, x, 3, MPFR_RNDN);
    mpfr_mul(z, z, c, MPFR_RNDN);
    mpfr_add(z, z, x, MPFR_RNDN);
    mpfr_const_pi(c, MPFR_RNDN);
    mpfr_ui_div(c, 2, c, MPFR_RNDN);
    mpfr_sqrt(c, c, MPFR_RNDN);
    mpfr_mul(z, z, c, MPFR_RNDN);
    mpfr_mul_ui(z, z, 2, MPFR_RNDN);
    times_logistic(y, x, z);
    mpfr_clears(z, c, (mpfr_ptr)0);
}
static void x_mish(mpfr_t y, const mpfr_t x, const double *p) {
    x_softplus(y, x, p);
    mpfr_tanh(y, y, MPFR_RNDN);
    mpfr_mul(y, y, x, MPFR_RNDN);
}
static void x_swish(mpfr_t y, const mpfr_t x, const double *p) {
    mpfr_t z;
    mpfr_init2(z, mpfr_get_prec(y));
    mpfr_mul_d(z, x, p[0], MPFR_RNDN);
    times_logistic(y, x, z);
    mpfr_clear(z);
}
static void clip01(mpfr_t y) {
    if (mpfr_cmp_ui(y, 1) > 0) mpfr_set_ui(y, 1, MPFR_RNDN);
    if (mpfr_sgn(y) < 0) mpfr_set_zero(y, 1);
}
static void x_hard_sigmoid(mpfr_t y, const mpfr_t x, const double *p) {
    mpfr_mul_d(y, x, p[0], MPFR_RNDN);
    mpfr_add_d(y, y, p[1], MPFR_RNDN);
    clip01(y);
}
static void x_hard_swish(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_div_ui(y, x, 6, MPFR_RNDN);
    mpfr_add_d(y, y, 0.5, MPFR_RNDN);
    clip01(y);
    mpfr_mul(y, y, x, MPFR_RNDN);
}
static void x_softsign(mpfr_t y, const mpfr_t x, const double *p) {
    (void)p;
    mpfr_abs(y, x, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_div(y, x, y, MPFR_RNDN);
}
static void x_leaky(mpfr_t y, const mpfr_t x, const double *p) {
    mpfr_set(y, x, MPFR_RNDN);
    if (mpfr_sgn(x) < 0) mpfr_mul_d(y, x, p[0], MPFR_RNDN);
}
static void x_shrink(mpfr_t y, const mpfr_t x, const double *p) {
    if (mpfr_cmp_d(x, -p[0]) < 0) mpfr_add_d(y, x, p[1], MPFR_RNDN);
    else if (mpfr_cmp_d(x, p[0]) > 0) mpfr_sub_d(y, x, p[1], MPFR_RNDN);
    else mpfr_set_zero(y, 1);
}

#define MS "com.microsoft"
const tw_function_t tw_functions[] = {
    {"Exp", 13, x_exp, {0}, NULL, -110, 95, ""},
    {"Log", 13, x_log, {0}, NULL, 0, 1e6, ""},
    {"Sin", 22, x_sin, {0}, NULL, -50, 50, ""},
    {"Cos", 22, x_cos, {0}, NULL, -50, 50, ""},
    {"Tan", 22, x_tan, {0}, NULL, -50, 50, ""},
    {"Asin", 22, x_asin, {0}, NULL, -1, 1, ""},
    {"Acos", 22, x_acos, {0}, NULL, -1, 1, ""},
    {"Atan", 22, x_atan, {0}, NULL, -20, 20, ""},
    {"Sinh", 22, x_sinh, {0}, NULL, -90, 90, ""},
    {"Cosh", 22, x_cosh, {0}, NULL, -90, 90, ""},
    {"Tanh", 13, x_tanh, {0}, NULL, -12, 12, ""},
    {"Asinh", 22, x_asinh, {0}, NULL, -100, 100, ""},
    {"Acosh", 22, x_acosh, {0}, NULL, 1, 100, ""},
    {"Atanh", 22, x_atanh, {0}, NULL, -1, 1, ""},
    {"Erf", 13, x_erf, {0}, NULL, -5, 5, ""},
    {"Sigmoid", 13, x_sigmoid, {0}, NULL, -110, 40, ""},
    {"Softplus", 22, x_softplus, {0}, NULL, -110, 100, ""},
    {"Elu", 22, x_elu, {1}, NULL, -20, 5, ""},
    {"Selu", 22, x_selu, {1.67326319217681884765625f, 1.05070102214813232421875f}, NULL, -20, 5, ""},
    {"Celu", 12, x_celu, {1}, NULL, -20, 5, ""},
    {"Gelu", 20, x_gelu, {0}, "none", -14, 8, ""},
    {"Gelu", 20, x_gelu_tanh, {0}, "tanh", -14, 8, ""},
    {"Mish", 22, x_mish, {0}, NULL, -110, 20, ""},
    {"Swish", 24, x_swish, {1}, NULL, -110, 20, ""},
    {"HardSigmoid", 22, x_hard_sigmoid, {0.2f, 0.5f}, NULL, -4, 4, ""},
    {"HardSwish", 22, x_hard_swish, {0}, NULL, -4, 4, ""},
    {"Softsign", 22, x_softsign, {0}, NULL, -50, 50, ""},
    {"Sqrt", 13, x_sqrt, {0}, NULL, 0, 1e6, ""},
    {"Reciprocal", 13, x_reciprocal, {0}, NULL, -100, 100, ""},
    {"LeakyRelu", 16, x_leaky, {0.01f}, NULL, -50, 50, ""},
    {"Shrink", 9, x_shrink, {0.5f, 0.0f}, NULL, -3, 3, ""},
    {"ThresholdedRelu", 22, x_thresholded, {1}, NULL, -3, 3, ""},
    {"Relu", 14, x_relu, {0}, NULL, -3, 3, ""},
    {"Neg", 13, x_neg, {0}, NULL, -3, 3, ""},
    {"Abs", 13, x_abs, {0}, NULL, -3, 3, ""},
    {"Sign", 13, x_sign, {0}, NULL, -3, 3, ""},
    {"Floor", 13, x_floor, {0}, NULL, -30, 30, ""},
    {"Ceil", 13, x_ceil, {0}, NULL, -30, 30, ""},
    {"Round", 22, x_round, {0}, NULL, -30, 30, ""},
    {"Gelu", 1, x_gelu, {0}, NULL, -14, 8, MS},
    {"FastGelu", 1, x_gelu_tanh, {0}, NULL, -14, 8, MS},
    {"QuickGelu", 1, x_swish, {1.702f}, NULL, -110, 20, MS},
};
const int tw_function_count = sizeof tw_functions / sizeof *tw_functions;

const tw_function_t *tw_function(const char *op, const char *form) {
    for (int i = 0; i < tw_function_count; ++i) {
        const tw_function_t *f = &tw_functions[i];
        if (strcmp(f->op, op) == 0 && (!form || (f->form && strcmp(f->form, form) == 0))) return f;
    }
    return NULL;
}
