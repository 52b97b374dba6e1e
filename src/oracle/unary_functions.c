/* unary_functions.c -- the functions of one argument: value in f64 and long double, shape, domain, own error. One table.
 *
 * Claim ELEM-OWN: for every f64 argument in the domain |row(x) - f(x)| <= own 2^-52 |f(x)| + 2^-1068, own as in the table (tested against
 * MPFR); the forms are chosen so that no tail cancels: expm1, log1p, erfc, and the logistic function of the negative argument. The long
 * double forms keep the same count in units of 2^-63 where long double has 64 bits.
 */
#include "oracle/elementwise.h"
#include "oracle/vmath.h"

/* y_[i] = expr(x) for a whole run; the loops are plain so that cheap ones vectorise. */
#define ROW(name, expr)                                                                                            \
    VN_CLONES static void name##_row(const double *restrict x_, double *restrict y_, int64_t n, const double *p) { \
        (void)p;                                                                                                   \
        for (int64_t i = 0; i < n; ++i) {                                                                          \
            const double x = x_[i];                                                                                \
            y_[i] = (expr);                                                                                        \
        }                                                                                                          \
    }
#define WIDE(name, expr)                                             \
    static long double name##_wide(long double x, const double *p) { \
        (void)p;                                                     \
        return (expr);                                               \
    }
/* One expression, two types: the long double form carries the suffix l on every call. */
#define BOTH(name, f, fl) ROW(name, f) WIDE(name, fl)

/* ---- exact and once rounded ---- */
ROW(neg, -x)
ROW(abs, fabs(x))
ROW(sign, x > 0 ? 1.0 : x < 0 ? -1.0 : x == 0 ? 0.0 : x)
ROW(floor, floor(x))
ROW(ceil, ceil(x))
ROW(round, rint(x))
ROW(relu, x > 0 ? x : x <= 0 ? 0.0 : x)
ROW(thresholded, x > p[0] ? x : 0.0)
ROW(shrink, x<-p[0] ? x + p[1] : x> p[0] ? x - p[1] : 0.0)
ROW(sqrt, sqrt(x))
ROW(reciprocal, 1.0 / x)
ROW(leaky, x < 0 ? p[0] * x : x)

static double shrink_rest(double x, double y, const double *p) {
    const double b = x < -p[0] ? p[1] : x > p[0] ? -p[1] : 0;
    const double z = y - x;
    return b == 0 ? 0 : (x - (y - z)) + (b - z);
}
static double sqrt_rest(double x, double y, const double *p) {
    (void)p;
    return y > 0 ? fma(-y, y, x) / (2 * y) : 0;
}
static double reciprocal_rest(double x, double y, const double *p) {
    (void)p;
    return fma(-y, x, 1) / x;
}
static double leaky_rest(double x, double y, const double *p) { return x < 0 ? fma(p[0], x, -y) : 0; }

/* ---- elementary ---- */
BOTH(exp, vn_v_exp(x), expl(x))
BOTH(log, vn_v_log(x), logl(x))
BOTH(sin, sin(x), sinl(x))
BOTH(cos, cos(x), cosl(x))
BOTH(tan, tan(x), tanl(x))
BOTH(asin, asin(x), asinl(x))
BOTH(acos, acos(x), acosl(x))
BOTH(atan, atan(x), atanl(x))
BOTH(sinh, sinh(x), sinhl(x))
BOTH(cosh, cosh(x), coshl(x))
BOTH(tanh, vn_v_tanh(x), tanhl(x))
BOTH(asinh, asinh(x), asinhl(x))
BOTH(acosh, acosh(x), acoshl(x))
BOTH(atanh, atanh(x), atanhl(x))
BOTH(erf, vn_v_erf(x), erfl(x))

static inline long double logistic_wide(long double x) {
    const long double w = expl(-fabsl(x));
    return x >= 0 ? 1 / (1 + w) : x < 0 ? w / (1 + w) : x;
}
BOTH(sigmoid, vn_v_logistic(x), logistic_wide(x))
BOTH(softplus, (x > 0 ? x : 0.0) + vn_v_log1p_unit(vn_v_exp(-fabs(x))), x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)))
BOTH(elu, x < 0 ? p[0] * vn_v_expm1(x) : x, x < 0 ? p[0] * expm1l(x) : x)
/* gamma (alpha e^x - alpha) */
BOTH(selu, x > 0 ? p[1] * x : p[1] * p[0] * vn_v_expm1(x), x > 0 ? (long double)p[1] * x : (long double)p[1] * p[0] * expm1l(x))

VN_V_FORM double celu(double x, double a) {
    const double m = a * vn_v_expm1(x / a);
    return x != x ? x : (x > 0 ? x : 0) + (m < 0 ? m : m >= 0 ? 0 : m);
}
static inline long double celu_wide_of(long double x, long double a) {
    const long double m = a * expm1l(x / a);
    return x != x ? x : (x > 0 ? x : 0) + (m < 0 ? m : m >= 0 ? 0 : m);
}
BOTH(celu, celu(x, p[0]), celu_wide_of(x, p[0]))

/* x/2 (1 + erf(x/sqrt 2)) = x/2 erfc(-x/sqrt 2); below -39 (long double: -151) the product underflows, -inf included. */
#define SQRT_HALF_L 0.707106781186547524400844362104849039L
BOTH(gelu, vn_v_gelu(x), x < -151 ? -0.0L : 0.5L * x * erfcl(-x * SQRT_HALF_L))

/* 1/2 (1 + tanh u) is the logistic function of 2u; 2u = 2 sqrt(2/pi) (x + 0.044715 x^3). */
#define TWO_SQRT_2_PI 1.595769121605730711759784137600L
VN_V_FORM double gelu_tanh(double x) {
    const double u = (double)TWO_SQRT_2_PI * (x + 0.044715 * (x * x * x));
    return x < -60 ? -0.0 : x > 60 ? x : x * vn_v_logistic(u);
}
static inline long double gelu_tanh_wide_of(long double x) {
    const long double u = TWO_SQRT_2_PI * (x + 0.044715L * (x * x * x));
    return x < -60 ? -0.0L : x > 60 ? x : x * logistic_wide(u);
}
BOTH(gelu_tanh, gelu_tanh(x), gelu_tanh_wide_of(x))

/* tanh(log(1 + w)) = w (w + 2) / (w (w + 2) + 2), and with v = 1/w = (1 + 2v) / (1 + 2v + 2v^2). */
VN_V_FORM double mish(double x) {
    const double w = vn_v_exp(-fabs(x)), q = w * (w + 2);
    return x >= 0 ? x * ((1 + 2 * w) / (1 + 2 * w + 2 * w * w)) : x < -800 ? -0.0 : x * (q / (q + 2));
}
static inline long double mish_wide_of(long double x) {
    const long double w = expl(-fabsl(x)), q = w * (w + 2);
    return x >= 0 ? x * ((1 + 2 * w) / (1 + 2 * w + 2 * w * w)) : x < -12000 ? -0.0L : x * (q / (q + 2));
}
BOTH(mish, mish(x), mish_wide_of(x))

/* x sigma(alpha x); where the logistic function underflows, 0 times infinity is its limit 0. */
VN_V_FORM double swish(double x, double a) {
    const double s = vn_v_logistic(a * x);
    return s == 0 ? copysign(0.0, x) : x * s;
}
static inline long double swish_wide_of(long double x, long double a) {
    const long double s = logistic_wide(a * x);
    return s == 0 ? copysignl(0.0L, x) : x * s;
}
BOTH(swish, swish(x, p[0]), swish_wide_of(x, p[0]))

/* ---- a few roundings ---- */
VN_V_FORM double clip01(double t) { return t < 0 ? 0 : t > 1 ? 1 : t; }
static inline long double clip01_wide(long double t) { return t < 0 ? 0 : t > 1 ? 1 : t; }
BOTH(hard_sigmoid, clip01(fma(p[0], x, p[1])), clip01_wide(fmal(p[0], x, p[1])))
BOTH(hard_swish, x <= -3 ? copysign(0.0, x) : x >= 3 ? x : x * (x + 3) / 6, x <= -3 ? -0.0L : x >= 3 ? x : x * (x + 3) / 6)
BOTH(softsign, isinf(x) ? copysign(1.0, x) : x / (1 + fabs(x)), isinf(x) ? copysignl(1.0L, x) : x / (1 + fabsl(x)))

/* Product and sum, or one FMA; exact where the clip is certain. */
static double hard_sigmoid_arith(double x, double y, const double *p, double u, double eta, bool reciprocal) {
    (void)y;
    (void)reciprocal;
    const double product = fabs(p[0] * x), t = fma(p[0], x, p[1]), e = u * product + u * (fabs(t) + u * product) + eta;
    return t <= -e || t >= 1 + e ? 0 : e;
}
/* x (x/6 + 1/2) with a rounded 1/6, or x min(max(x + 3, 0), 6) / 6 with quotient or rounded reciprocal: the larger of both counts. */
static double hard_swish_arith(double x, double y, const double *p, double u, double eta, bool reciprocal) {
    (void)p;
    (void)reciprocal;
    const double edge = 3 * (1 + 8 * u);
    if (x == -INFINITY) return NAN;
    if (x <= -edge) return 0;
    return 4 * u * (1 + 8 * u) * fabs(y) + (x < edge ? u / 3 * (1 + 8 * u) * x * x : 0) + 2 * eta;
}
static double softsign_arith(double x, double y, const double *p, double u, double eta, bool reciprocal) {
    (void)p;
    if (isinf(x)) return NAN;
    return vn_gamma(reciprocal ? 4 : 2, u) * fabs(y) + eta;
}

/* ---- break points ---- */
static int at_zero(const double *p, double *at) {
    (void)p;
    at[0] = 0;
    return 1;
}
static int at_threshold(const double *p, double *at) {
    at[0] = p[0];
    return 1;
}
static int at_lambda(const double *p, double *at) {
    at[0] = -p[0];
    at[1] = p[0];
    return 2;
}
/* Minima: the values are flat there, so that the last digits do not matter. */
static int at_gelu(const double *p, double *at) {
    (void)p;
    at[0] = -0.75179152469356;
    return 1;
}
static int at_gelu_tanh(const double *p, double *at) {
    (void)p;
    at[0] = -0.75246142207102;
    return 1;
}
static int at_mish(const double *p, double *at) {
    (void)p;
    at[0] = -1.19243121451550;
    return 1;
}
static int at_swish(const double *p, double *at) {
    at[0] = p[0] != 0 ? -1.27846454276107 / p[0] : 0;
    return 1;
}
static int at_hard_swish(const double *p, double *at) {
    (void)p;
    at[0] = -3;
    at[1] = -1.5;
    at[2] = 3;
    return 3;
}

/* ---- own error: rounding inside the argument ---- */
static double gelu_amplified(double x, const double *p) {
    (void)p;
    return x < 0 && x > -151 ? 1.5 * x * x : 0; /* erfc(z): relative condition 2 z^2 */
}
static double gelu_tanh_amplified(double x, const double *p) {
    (void)p;
    return x < 0 && x > -60 ? 4 * fabs(1.6 * (x + 0.0448 * x * x * x)) : 0; /* logistic(u): condition |u|, u to 4 roundings */
}
static double swish_amplified(double x, const double *p) { return p[0] * x < 0 ? fmin(fabs(p[0] * x), 12000) : 0; }

/* ---- attributes in the tensor's type: relative change of each attribute by u ---- */
static double leaky_attribute(double x, double y, const double *p) {
    (void)p;
    return x < 0 ? fabs(y) : 0;
}
static double elu_attribute(double x, double y, const double *p) { return leaky_attribute(x, y, p); }
static double selu_attribute(double x, double y, const double *p) {
    (void)p;
    return (x > 0 ? 1 : 2.01) * fabs(y);
}
static double celu_attribute(double x, double y, const double *p) { return x < 0 ? fabs(y) + 1.01 * fabs(x) * exp(x / p[0]) : 0; }
static double swish_attribute(double x, double y, const double *p) { return 1.01 * fabs(p[0] * x * y) * (1 - vn_v_logistic(p[0] * x)); }
static double hard_sigmoid_attribute(double x, double y, const double *p) { return y <= 0 || y >= 1 ? 0 : fabs(p[0] * x) + fabs(p[1]); }
static double shrink_attribute(double x, double y, const double *p) {
    (void)y;
    return x < -p[0] || x > p[0] ? fabs(p[1]) : 0;
}

#define ALL .lo = -INFINITY, .hi = INFINITY

const vn_fn_t vn_functions[VN_F_COUNT] = {
    [VN_F_NEG] = {"", VN_FN_EXACT, neg_row, ALL},
    [VN_F_ABS] = {"", VN_FN_EXACT, abs_row, ALL, .breaks = at_zero},
    [VN_F_SIGN] = {"", VN_FN_EXACT, sign_row, ALL, .zero = VN_ZERO_AT_ZERO, .breaks = at_zero},
    [VN_F_FLOOR] = {"", VN_FN_EXACT, floor_row, ALL, .zero = VN_ZERO_ELSEWHERE},
    [VN_F_CEIL] = {"", VN_FN_EXACT, ceil_row, ALL, .zero = VN_ZERO_ELSEWHERE},
    [VN_F_ROUND] = {"", VN_FN_EXACT, round_row, ALL, .zero = VN_ZERO_ELSEWHERE},
    [VN_F_RELU] = {"", VN_FN_EXACT, relu_row, ALL, .zero = VN_ZERO_AT_ZERO},
    [VN_F_THRESHOLDED] = {"", VN_FN_EXACT, thresholded_row, ALL, .breaks = at_threshold},
    [VN_F_SHRINK] = {"", VN_FN_ROUNDED, shrink_row, ALL, .rest = shrink_rest, .breaks = at_lambda, .attribute = shrink_attribute},
    [VN_F_SQRT] = {"sqrt", VN_FN_ROUNDED, sqrt_row, .rest = sqrt_rest, .lo = 0, .hi = INFINITY},
    [VN_F_RECIPROCAL] = {"reciprocal", VN_FN_ROUNDED, reciprocal_row, .rest = reciprocal_rest, ALL, .breaks = at_zero},
    [VN_F_LEAKY] = {"", VN_FN_ROUNDED, leaky_row, ALL, .rest = leaky_rest, .breaks = at_zero, .attribute = leaky_attribute},
    [VN_F_EXP] = {"exp", VN_FN_ELEMENTARY, exp_row, exp_wide, .zero = VN_ZERO_FREE, ALL, .scale = VN_SCALE_XY, .own = 1},
    [VN_F_LOG] = {"log", VN_FN_ELEMENTARY, log_row, log_wide, .zero = VN_ZERO_FREE, .lo = 0, .hi = INFINITY, .own = 1},
    [VN_F_SIN] = {"sin", VN_FN_ELEMENTARY, sin_row, sin_wide, .zero = VN_ZERO_FREE, ALL, .lipschitz = 1, .own = 1},
    [VN_F_COS] = {"cos", VN_FN_ELEMENTARY, cos_row, cos_wide, .zero = VN_ZERO_FREE, ALL, .lipschitz = 1, .own = 1},
    [VN_F_TAN] = {"tan", VN_FN_ELEMENTARY, tan_row, tan_wide, .zero = VN_ZERO_FREE, ALL, .poles = true, .scale = VN_SCALE_TAN, .own = 1.5},
    [VN_F_ASIN] = {"asin", VN_FN_ELEMENTARY, asin_row, asin_wide, .zero = VN_ZERO_FREE, .lo = -1, .hi = 1, .own = 1.5},
    [VN_F_ACOS] = {"acos", VN_FN_ELEMENTARY, acos_row, acos_wide, .zero = VN_ZERO_FREE, .lo = -1, .hi = 1, .own = 1.5},
    [VN_F_ATAN] = {"atan", VN_FN_ELEMENTARY, atan_row, atan_wide, .zero = VN_ZERO_FREE, ALL, .own = 1.5},
    [VN_F_SINH] = {"sinh", VN_FN_ELEMENTARY, sinh_row, sinh_wide, .zero = VN_ZERO_FREE, ALL, .own = 3},
    [VN_F_COSH] = {"cosh", VN_FN_ELEMENTARY, cosh_row, cosh_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_zero, .own = 3},
    [VN_F_TANH] = {"tanh", VN_FN_ELEMENTARY, tanh_row, tanh_wide, .zero = VN_ZERO_FREE, ALL, .own = 4},
    [VN_F_ASINH] = {"asinh", VN_FN_ELEMENTARY, asinh_row, asinh_wide, .zero = VN_ZERO_FREE, ALL, .own = 4},
    [VN_F_ACOSH] = {"acosh", VN_FN_ELEMENTARY, acosh_row, acosh_wide, .zero = VN_ZERO_FREE, .lo = 1, .hi = INFINITY, .own = 4},
    [VN_F_ATANH] = {"atanh", VN_FN_ELEMENTARY, atanh_row, atanh_wide, .zero = VN_ZERO_FREE, .lo = -1, .hi = 1, .own = 4},
    [VN_F_ERF] = {"erf", VN_FN_ELEMENTARY, erf_row, erf_wide, .zero = VN_ZERO_FREE, ALL, .own = 2},
    [VN_F_SIGMOID] = {"sigmoid", VN_FN_ELEMENTARY, sigmoid_row, sigmoid_wide, .zero = VN_ZERO_FREE, ALL, .note = "tail-cancellation",
                      .own = 3},
    [VN_F_SOFTPLUS] = {"softplus", VN_FN_ELEMENTARY, softplus_row, softplus_wide, .zero = VN_ZERO_FREE, ALL, .note = "expm1-missing",
                       .own = 3},
    [VN_F_ELU] = {"elu", VN_FN_ELEMENTARY, elu_row, elu_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_zero, .scale = VN_SCALE_ALPHA,
                  .note = "expm1-missing", .own = 3, .attribute = elu_attribute},
    [VN_F_SELU] = {"selu", VN_FN_ELEMENTARY, selu_row, selu_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_zero, .scale = VN_SCALE_SELU,
                   .note = "expm1-missing", .own = 3, .attribute = selu_attribute},
    [VN_F_CELU] = {"celu", VN_FN_ELEMENTARY, celu_row, celu_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_zero, .scale = VN_SCALE_ALPHA,
                   .note = "expm1-missing", .own = 4, .attribute = celu_attribute},
    [VN_F_GELU] = {"gelu", VN_FN_ELEMENTARY, gelu_row, gelu_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_gelu, .scale = VN_SCALE_X,
                   .note = "tail-cancellation", .own = 8, .amplified = gelu_amplified, .steady = true},
    [VN_F_GELU_TANH] = {"gelu", VN_FN_ELEMENTARY, gelu_tanh_row, gelu_tanh_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_gelu_tanh,
                        .scale = VN_SCALE_X, .note = "tail-cancellation", .own = 6, .amplified = gelu_tanh_amplified},
    [VN_F_MISH] = {"mish", VN_FN_ELEMENTARY, mish_row, mish_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_mish, .scale = VN_SCALE_X,
                   .note = "expm1-missing", .own = 6},
    [VN_F_SWISH] = {"swish", VN_FN_ELEMENTARY, swish_row, swish_wide, .zero = VN_ZERO_FREE, ALL, .breaks = at_swish, .scale = VN_SCALE_X,
                    .note = "tail-cancellation", .own = 4, .amplified = swish_amplified, .attribute = swish_attribute},
    [VN_F_HARD_SIGMOID] = {"", VN_FN_ARITHMETIC, hard_sigmoid_row, hard_sigmoid_wide, .zero = VN_ZERO_FREE, ALL,
                           .arith = hard_sigmoid_arith, .own = 1, .attribute = hard_sigmoid_attribute},
    [VN_F_HARD_SWISH] = {"", VN_FN_ARITHMETIC, hard_swish_row, hard_swish_wide, .zero = VN_ZERO_FREE, ALL, .arith = hard_swish_arith,
                         .breaks = at_hard_swish, .own = 2},
    [VN_F_SOFTSIGN] = {"", VN_FN_ARITHMETIC, softsign_row, softsign_wide, .zero = VN_ZERO_FREE, ALL, .arith = softsign_arith, .own = 2},
};
