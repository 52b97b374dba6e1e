/* refine_elementwise.c -- single elements of the functions of one argument and of Pow in 113 bits.
 *
 * Claim PREC-1: the forms are those of unary_functions.c with base functions that are within 8 units, so that ELEM-OWN's counts hold with
 *   8 units of 2^-113 in place of 2^-52. Arguments so small that a term of second order is lost beside the first are given as the first
 *   term and the rest apart: x/2 + x^2 c of a subnormal x lies next to a tie that only the second term breaks.
 * Claim PREC-6 (exact powers): a^b is a number of few digits only if b = n / 2^k, a has k exact square roots, and the n-th power of the last
 *   one is formed without loss; then it is exact, ties included. A power of two stays one.
 */
#include "oracle/elementwise.h"
#include "oracle/escalate.h"

/* Below this the relative size of the third term is under 2^-96; own errors below cover it. */
#define SMALL 0x1p-50

/* Anything the exponent range of 113-bit numbers cannot hold. */
static vn_quad_t nothing(void) {
    vn_quad_t t = 0x1p-1000;
    t *= t;
    t *= t;
    t *= t;
    return t * t;
}

#define Q(name, expr)                                         \
    static vn_quad_t q_##name(vn_quad_t x, const double *p) { \
        (void)p;                                              \
        return (expr);                                        \
    }
Q(exp, vn_qexp(x))
Q(log, vn_qlog(x))
Q(sin, vn_qsin(x))
Q(cos, vn_qcos(x))
Q(tan, vn_qtan(x))
Q(asin, vn_qasin(x))
Q(acos, vn_qacos(x))
Q(atan, vn_qatan(x))
Q(sinh, vn_qsinh(x))
Q(cosh, vn_qcosh(x))
Q(tanh, vn_qtanh(x))
Q(asinh, vn_qasinh(x))
Q(acosh, vn_qacosh(x))
Q(atanh, vn_qatanh(x))
Q(erf, vn_qerf(x))

static vn_quad_t logistic(vn_quad_t x) {
    const vn_quad_t w = vn_qexp(-vn_qabs(x));
    return x >= 0 ? 1 / (1 + w) : w / (1 + w);
}
Q(sigmoid, logistic(x))
Q(softplus, x > 0 ? x + vn_qlog1p(vn_qexp(-x)) : vn_qlog1p(vn_qexp(x)))
Q(elu, x < 0 ? p[0] * vn_qexpm1(x) : x)
Q(selu, x > 0 ? (vn_quad_t)p[1] * x : (vn_quad_t)p[1] * p[0] * vn_qexpm1(x))

static vn_quad_t q_celu(vn_quad_t x, const double *p) {
    const vn_quad_t m = p[0] * vn_qexpm1(x / p[0]);
    return (x > 0 ? x : 0) + (m < 0 ? m : 0);
}

/* sqrt(1/2) and 2 sqrt(2/pi) from exact arguments, once per element: this is the slow way. */
static vn_quad_t half_root(void) { return vn_qsqrt((vn_quad_t)0.5); }
static vn_quad_t two_root_2_pi(void) { return 2 * vn_qsqrt(1 / (2 * vn_qatan((vn_quad_t)1))); } /* 2/pi = 1 / (2 atan 1) */

static vn_quad_t q_gelu(vn_quad_t x, const double *p) {
    (void)p;
    return x / 2 * vn_qerfc(-x * half_root());
}

static vn_quad_t tanh_argument(vn_quad_t x) {
    const vn_quad_t c = (vn_quad_t)44715 / 1000000;
    return two_root_2_pi() * (x + c * (x * x * x));
}
static vn_quad_t q_gelu_tanh(vn_quad_t x, const double *p) {
    (void)p;
    return x * logistic(tanh_argument(x));
}

static vn_quad_t q_mish(vn_quad_t x, const double *p) {
    (void)p;
    const vn_quad_t w = vn_qexp(-vn_qabs(x)), q = w * (w + 2);
    return x >= 0 ? x * ((1 + 2 * w) / (1 + 2 * w + 2 * w * w)) : x * (q / (q + 2));
}
Q(swish, x *logistic(p[0] * x))

typedef vn_quad_t (*quad_fn)(vn_quad_t, const double *);
static const quad_fn functions[VN_F_COUNT] = {
    [VN_F_EXP] = q_exp,           [VN_F_LOG] = q_log,
    [VN_F_SIN] = q_sin,           [VN_F_COS] = q_cos,
    [VN_F_TAN] = q_tan,           [VN_F_ASIN] = q_asin,
    [VN_F_ACOS] = q_acos,         [VN_F_ATAN] = q_atan,
    [VN_F_SINH] = q_sinh,         [VN_F_COSH] = q_cosh,
    [VN_F_TANH] = q_tanh,         [VN_F_ASINH] = q_asinh,
    [VN_F_ACOSH] = q_acosh,       [VN_F_ATANH] = q_atanh,
    [VN_F_ERF] = q_erf,           [VN_F_SIGMOID] = q_sigmoid,
    [VN_F_SOFTPLUS] = q_softplus, [VN_F_ELU] = q_elu,
    [VN_F_SELU] = q_selu,         [VN_F_CELU] = q_celu,
    [VN_F_GELU] = q_gelu,         [VN_F_GELU_TANH] = q_gelu_tanh,
    [VN_F_MISH] = q_mish,         [VN_F_SWISH] = q_swish,
};

/* ---- first term and rest ---- */

/* value + rest (1 + tiny), the relative error of the rest being below 2^-48. */
static vn_exact_t two_terms(vn_quad_t value, vn_quad_t rest) {
    return (vn_exact_t){.value = value, .rest = rest, .own = vn_qabs(rest) * (vn_quad_t)0x1p-48};
}

/* x / (1 + e^-t) for a small t: x/2 + x t/4. */
static vn_exact_t gated(vn_quad_t x, vn_quad_t t) { return two_terms(x / 2, x * t / 4); }

/* 1 + rest of a function that is 1 at the origin: the rest alone keeps its digits. */
static vn_exact_t beside_one(vn_quad_t rest, vn_quad_t wrong) {
    return (vn_exact_t){.value = 1, .rest = rest, .own = vn_qabs(rest) * VN_QUAD_ERROR(2) + wrong};
}

static bool near_one(vn_fn_id_t id, vn_quad_t x, vn_exact_t *out) {
    if (vn_qabs(x) > 0x1p-16) return false;
    const vn_quad_t q = x * x, tail = q * q * q * q / 40320 * 2; /* of the series of cos and cosh after four terms, doubled */
    switch (id) {
    case VN_F_EXP: *out = beside_one(vn_qexpm1(x), 0); return true;
    case VN_F_COSH: *out = beside_one(q / 2 * (1 + q / 12 * (1 + q / 30)), tail); return true;
    case VN_F_COS: *out = beside_one(-q / 2 * (1 - q / 12 * (1 - q / 30)), tail); return true;
    default: return false;
    }
}

static bool small_argument(vn_fn_id_t id, vn_quad_t x, const double *p, vn_exact_t *out) {
    if (vn_qabs(x) >= SMALL) return false;
    switch (id) {
    case VN_F_GELU: *out = two_terms(x / 2, x * x * two_root_2_pi() / 4); return true;
    case VN_F_GELU_TANH: *out = gated(x, tanh_argument(x)); return true;
    case VN_F_SWISH:
        if (vn_qabs(p[0] * x) >= SMALL) return false;
        *out = gated(x, p[0] * x);
        return true;
    case VN_F_SIGMOID: { /* 1/2 + x/4 - x^3/48 */
        const vn_quad_t rest = x / 4 - x * x * x / 48;
        *out = (vn_exact_t){.value = 0.5, .rest = rest, .own = vn_qabs(rest) * (4 * VN_QUAD_U)};
        return true;
    }
    case VN_F_ELU:
        if (x >= 0) return false;
        *out = two_terms(p[0] * x, p[0] * x * x / 2);
        return true;
    case VN_F_SELU:
        if (x >= 0) return false;
        *out = two_terms((vn_quad_t)p[1] * p[0] * x, (vn_quad_t)p[1] * p[0] * x * x / 2);
        return true;
    default: return false;
    }
}

/* ---- a few operations, carried out without loss where they have few digits ---- */

static vn_exact_t number(vn_quad_t v) { return (vn_exact_t){.value = v}; }

static vn_exact_t hard_sigmoid(vn_quad_t x, const double *p) {
    vn_quad_sum_t s = {.hi = p[0] * x}; /* x is one double, the attribute one float */
    vn_quad_add(&s, p[1]);
    const vn_quad_t t = s.hi + s.lo;
    return t <= 0 ? number(0) : t >= 1 ? number(1) : vn_exact_sum(&s);
}

static vn_exact_t hard_swish(vn_quad_t x) {
    if (x <= -3) return number(0);
    if (x >= 3) return number(x);
    const vn_exact_t second = vn_exact_quotient(number(x * x), 6);
    vn_quad_sum_t s = {.hi = x / 2, .lost = second.own};
    vn_quad_add(&s, second.value);
    vn_quad_add(&s, second.rest);
    return vn_exact_sum(&s);
}

static vn_exact_t softsign(vn_quad_t x) {
    vn_quad_t lost;
    const vn_quad_t d = vn_quad_two_sum(1, vn_qabs(x), &lost);
    vn_exact_t r = vn_exact_quotient(number(x), d);
    r.own += vn_qabs(r.value) * vn_qabs(lost) / d * (1 + 4 * VN_QUAD_U);
    return r;
}

typedef struct job {
    const vn_fn_t *f;
    vn_fn_id_t id;
    const double *p;
    vn_plane_t x;
} job_t;

static void one(void *ctx, int64_t i, vn_exact_t *out) {
    const job_t *j = ctx;
    const double v = j->x.value ? j->x.value[i] : vn_tensor_get_f64(j->x.source, i);
    const vn_quad_t x = (vn_quad_t)v + (j->x.lo ? j->x.lo[i] : 0);
    if (small_argument(j->id, x, j->p, out) || near_one(j->id, x, out)) return;
    switch (j->id) {
    case VN_F_HARD_SIGMOID: *out = hard_sigmoid(x, j->p); return;
    case VN_F_HARD_SWISH: *out = hard_swish(x); return;
    case VN_F_SOFTSIGN: *out = softsign(x); return;
    default: break;
    }
    if (!functions[j->id]) return;
    const vn_quad_t y = functions[j->id](x, j->p);
    if (!vn_quad_finite(y)) return;
    const double units = j->f->own + (j->f->amplified ? j->f->amplified((double)x, j->p) : 0);
    *out = (vn_exact_t){.value = y, .own = vn_qabs(y) * VN_QUAD_ERROR(units) + nothing()};
    if (y == 0 && x == 0) out->own = 0;
}

vn_status_t vn_refine_function(vn_eval_t *e, const vn_fn_t *f, const double *p, vn_plane_t x) {
    job_t j = {.f = f, .id = (vn_fn_id_t)(f - vn_functions), .p = p, .x = x};
    vn_refine_each(e, one, &j);
    return VN_OK;
}

/* ---- Pow ---- */

typedef struct pow_job {
    const double *a, *b;
    const vn_bcast_t *plan;
} pow_job_t;

/* m^n without loss, or false. */
static bool integer_power(vn_quad_t m, int64_t n, vn_quad_t *out) {
    vn_quad_t r = 1;
    for (int64_t k = 0; k < n; ++k) {
        const vn_quad_t next = r * m;
        if (!vn_quad_finite(next) || vn_qfma(r, m, -next) != 0) return false;
        r = next;
    }
    *out = r;
    return true;
}

static bool exact_power(double a, double b, vn_quad_t *out) {
    int exponent;
    const double m = frexp(fabs(a), &exponent);
    const bool odd = b == rint(b) && fabs(b) < 0x1p53 && fmod(fabs(b), 2) == 1;
    if (m == 0.5) { /* a power of two */
        const double to = (exponent - 1) * b;
        if (to != rint(to) || fabs(to) > 16000 || (a < 0 && b != rint(b))) return false;
        vn_quad_t r = 1;
        const vn_quad_t step = to < 0 ? (vn_quad_t)0.5 : (vn_quad_t)2;
        for (int k = 0; k < (int)fabs(to); ++k) r *= step;
        *out = a < 0 && odd ? -r : r;
        return true;
    }
    if (!(b > 0) || b > 64) return false; /* 3^64 has 102 digits; more are never few again */
    vn_quad_t base = fabs(a);
    for (int k = 0; k < 6 && b != rint(b); ++k) {
        const vn_quad_t root = vn_qsqrt(base);
        if (a < 0 || vn_qfma(root, root, -base) != 0) return false;
        base = root;
        b *= 2;
    }
    if (b != rint(b) || b > 64 || !integer_power(base, (int64_t)b, out)) return false;
    if (a < 0 && odd) *out = -*out;
    return true;
}

static void one_power(void *ctx, int64_t i, vn_exact_t *out) {
    const pow_job_t *j = ctx;
    int64_t at[2] = {0, 0}, rest = i;
    for (int d = j->plan->rank - 1; d >= 0; --d) {
        const int64_t digit = rest % j->plan->dims[d];
        rest /= j->plan->dims[d];
        for (int k = 0; k < 2; ++k) at[k] += digit * j->plan->step[k][d];
    }
    const double a = j->a[at[0]], b = j->b[at[1]];
    vn_quad_t y;
    if (exact_power(a, b, &y)) {
        *out = number(y);
        return;
    }
    y = vn_qpow(a, b);
    if (vn_quad_finite(y)) *out = (vn_exact_t){.value = y, .own = vn_qabs(y) * VN_QUAD_ERROR(1) + nothing()};
}

vn_status_t vn_refine_pow(vn_eval_t *e, const double *a, const double *b, const vn_bcast_t *plan) {
    pow_job_t j = {.a = a, .b = b, .plan = plan};
    vn_refine_each(e, one_power, &j);
    return VN_OK;
}
