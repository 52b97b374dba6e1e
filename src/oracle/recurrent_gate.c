/* recurrent_gate.c -- activations of recurrent layers, and products and sums of values with errors.
 *
 * Claim RNN-1 (bounds.md "RNN"): for f with Lipschitz constant L on [z - E, z + E], |f^(z^) - f(z)| <= L E (1 + 2 t u) + own, own = 2 t u |f|
 * (tanh, and as for Elu's exponential, Softplus), + 4 u for the sigmoid (the body 1 / (1 + exp(-z))), 2 u (...) for the rational and
 * piecewise linear ones. Clipping before f is 1-Lipschitz. Bounded functions: never more than their range and own error.
 * Claim RNN-4 (as CONTRACT-9): rounding is monotone, so what is known within E becomes a number between RN(z - E) and RN(z + E). The larger
 * distance to RN(z) is the new error, 0 where all agree; its square is the variance where the ends at 8 sigma differ, else 0.
 */
#include "oracle/recurrent.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "oracle/vmath.h"

static const struct {
    const char *name;
    vn_gate_t gate;
} names[] = {
    {"Relu", {VN_GATE_RELU, 0, 0, INFINITY}},
    {"Tanh", {VN_GATE_TANH, 0, 0, INFINITY}},
    {"Sigmoid", {VN_GATE_SIGMOID, 0, 0, INFINITY}},
    {"Affine", {VN_GATE_AFFINE, 1, 0, INFINITY}},
    {"LeakyRelu", {VN_GATE_LEAKY, 0.01f, 0, INFINITY}},
    {"ThresholdedRelu", {VN_GATE_THRESHOLDED, 1, 0, INFINITY}},
    {"ScaledTanh", {VN_GATE_SCALED_TANH, 1, 1, INFINITY}},
    {"HardSigmoid", {VN_GATE_HARD_SIGMOID, 0.2f, 0.5f, INFINITY}},
    {"Elu", {VN_GATE_ELU, 1, 0, INFINITY}},
    {"Softsign", {VN_GATE_SOFTSIGN, 0, 0, INFINITY}},
    {"Softplus", {VN_GATE_SOFTPLUS, 0, 0, INFINITY}},
};

bool vn_gate_find(const char *name, vn_gate_t *out) {
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strcasecmp(name, names[i].name) == 0) {
            *out = names[i].gate;
            return true;
        }
    return false;
}

/* The point of [z - e, z + e] nearest to 0: the steepest one of tanh, sigmoid and softsign. */
static double nearest_zero(double z, double e) { return fabs(z) <= e ? 0 : fabs(z) - e; }

static double tanh_slope(double z, double e) {
    const double c = 1 / cosh(nearest_zero(z, e));
    return c * c;
}

static double sigmoid(double z) { return vn_v_logistic(z); }

static double sigmoid_slope(double z, double e) {
    const double p = sigmoid(nearest_zero(z, e));
    return p * (1 - p);
}

vn_tri_t vn_gate_apply(const vn_gate_t *g, const vn_gate_rule_t *r, vn_tri_t in) {
    double z = in.v, slope = 1, own = 0, y = 0;
    const double E = in.e, u = r->u, a = g->alpha, b = g->beta;
    if (z > g->clip) z = g->clip;
    if (z < -g->clip) z = -g->clip;
    double t = 0;
    switch (g->kind) {
    case VN_GATE_RELU:
        y = z > 0 ? z : 0;
        slope = z + E > 0;
        break;
    case VN_GATE_TANH:
        y = vn_v_tanh(z);
        slope = tanh_slope(z, E);
        t = r->t_tanh;
        own = 2 * t * u * fabs(y);
        break;
    case VN_GATE_SIGMOID:
        y = sigmoid(z);
        slope = sigmoid_slope(z, E);
        t = r->t_sigmoid;
        own = 2 * t * u * y + 4 * u;
        break;
    case VN_GATE_AFFINE:
        y = a * z + b;
        slope = fabs(a);
        own = u * fabs(a * z) + u * fabs(y);
        break;
    case VN_GATE_LEAKY:
        y = z >= 0 ? z : a * z;
        slope = z + E < 0 ? fabs(a) : z - E >= 0 ? 1 : fmax(1, fabs(a));
        own = z < E ? u * fabs(y) : 0;
        break;
    case VN_GATE_THRESHOLDED:
        y = z > a ? z : 0;
        slope = z - E > a ? 1 : 0;
        own = fabs(z - a) <= E ? fabs(a) + E : 0; /* the jump */
        break;
    case VN_GATE_SCALED_TANH:
        y = a * tanh(b * z);
        t = r->t_tanh;
        slope = fabs(a * b) * tanh_slope(b * z, fabs(b) * E);
        own = (2 * t + 2) * u * fabs(y) + slope * u * fabs(z);
        break;
    case VN_GATE_HARD_SIGMOID: {
        const double v = a * z + b;
        y = v < 0 ? 0 : v > 1 ? 1 : v;
        slope = fabs(a);
        own = u * (fabs(a * z) + fabs(v));
        break;
    }
    case VN_GATE_ELU:
        y = z >= 0 ? z : a * expm1(z);
        t = r->t_exp;
        slope = fmax(z + E > 0 ? 1 : 0, z - E < 0 ? fabs(a) * exp(fmin(z + E, 0)) : 0);
        own = z < E ? (2 * t + 2) * u * fabs(y) + 3 * u * fabs(a) : 0; /* exp(z) - 1 may cancel */
        break;
    case VN_GATE_SOFTSIGN:
        y = z / (1 + fabs(z));
        slope = 1 / ((1 + nearest_zero(z, E)) * (1 + nearest_zero(z, E)));
        own = 2 * u * fabs(y);
        break;
    case VN_GATE_SOFTPLUS:
        y = z > 0 ? z + log1p(exp(-z)) : log1p(exp(z));
        t = r->t_exp;
        slope = sigmoid(z + E);
        own = z + E < r->log_max ? 2 * t * u * y + 3 * u : INFINITY; /* exp(z) of the body overflows */
        break;
    }
    /* A bounded function cannot leave its range by more than its own error, however uncertain the argument is. */
    const double unit = g->kind == VN_GATE_SCALED_TANH ? fabs(a) : 1, most = 2 * (t + 2) * u * unit + own + r->eta;
    double reach = INFINITY;
    if (g->kind == VN_GATE_TANH || g->kind == VN_GATE_SCALED_TANH || g->kind == VN_GATE_SOFTSIGN) reach = fabs(y) + unit + most;
    if (g->kind == VN_GATE_SIGMOID || g->kind == VN_GATE_HARD_SIGMOID) reach = fmax(y, 1 - y) + most;
    const double carried = slope * E * (1 + 2 * t * u) + own + r->eta;
    const double here = g->kind == VN_GATE_TANH ? 1 - y * y : g->kind == VN_GATE_SIGMOID ? y * (1 - y) : slope;
    return (vn_tri_t){.v = y, .e = carried <= reach ? carried : reach, .s = here * here * in.s + (t > 0 ? 0.5 * u * u * y * y : 0)};
}

/* ---- rows ---- */

bool vn_gate_is_plain(const vn_gate_t *g) { return (g->kind == VN_GATE_SIGMOID || g->kind == VN_GATE_TANH) && g->clip == INFINITY; }

/* Derivatives at the point of [z - e, z + e] nearest to 0 from w = exp(-|.|): w / (1 + w)^2, and for tanh 4 w / (1 + w)^2 with w squared.
 * (1 + 2^-48) covers their roundings. */
VN_CLONES static void sigmoid_errors(const vn_gate_rule_t *r, int64_t n, const double *restrict z, const double *restrict ze,
                                     const double *restrict y, double *restrict ye) {
    const double u = r->u, t = r->t_sigmoid, grown = (1 + 2 * t * u) * (1 + 0x1p-48), most = 2 * (t + 2) * u;
    for (int64_t k = 0; k < n; ++k) {
        const double near = fabs(z[k]) > ze[k] ? fabs(z[k]) - ze[k] : 0.0, w = vn_v_exp(-near), own = 2 * t * u * y[k] + 4 * u;
        const double carried = w / ((1 + w) * (1 + w)) * ze[k] * grown + own + r->eta;
        const double reach = (y[k] > 0.5 ? y[k] : 1 - y[k]) + most + own + r->eta;
        ye[k] = carried <= reach ? carried : reach;
    }
}

VN_CLONES static void tanh_errors(const vn_gate_rule_t *r, int64_t n, const double *restrict z, const double *restrict ze,
                                  const double *restrict y, double *restrict ye) {
    const double u = r->u, t = r->t_tanh, grown = (1 + 2 * t * u) * (1 + 0x1p-48), most = 2 * (t + 2) * u;
    for (int64_t k = 0; k < n; ++k) {
        const double near = fabs(z[k]) > ze[k] ? fabs(z[k]) - ze[k] : 0.0, w = vn_v_exp(-2 * near), own = 2 * t * u * fabs(y[k]);
        const double carried = 4 * w / ((1 + w) * (1 + w)) * ze[k] * grown + own + r->eta;
        const double reach = fabs(y[k]) + 1 + most + own + r->eta;
        ye[k] = carried <= reach ? carried : reach;
    }
}

void vn_gate_row(const vn_gate_t *g, const vn_gate_rule_t *r, int64_t n, const double *z, const double *ze, double *y, double *ye) {
    enum { PIECE = 256 };
    const bool is_tanh = g->kind == VN_GATE_TANH;
    double f[PIECE], fe[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t m = n - at < PIECE ? n - at : PIECE;
        (is_tanh ? vn_v_tanh_array : vn_v_logistic_array)(z + at, f, m);
        if (ze) (is_tanh ? tanh_errors : sigmoid_errors)(r, m, z + at, ze + at, f, fe);
        if (ze) memcpy(ye + at, fe, (size_t)m * sizeof *ye);
        memcpy(y + at, f, (size_t)m * sizeof *y);
    }
}

vn_tri_t vn_tri_mul(double u, double eta, vn_tri_t a, vn_tri_t b) {
    const double y = a.v * b.v, carried = fabs(a.v) * b.e + fabs(b.v) * a.e + a.e * b.e;
    return (vn_tri_t){
        .v = y, .e = carried + u * (fabs(y) + carried) + eta / 2, .s = a.v * a.v * b.s + b.v * b.v * a.s + 0.18 * u * u * y * y};
}

vn_tri_t vn_tri_add(double u, vn_tri_t a, vn_tri_t b) {
    const double y = a.v + b.v, carried = a.e + b.e;
    return (vn_tri_t){.v = y, .e = carried + u * (fabs(y) + carried), .s = a.s + b.s + 0.18 * u * u * y * y};
}

vn_tri_t vn_tri_round(vn_format_t f, vn_rounding_t r, vn_tri_t z) {
    enum { SIGMAS = 8 };
    vn_tri_t y = {.v = vn_round_to(f, z.v, r, false)};
    for (int pass = 0; pass < 2 && z.e > 0; ++pass) {
        const double far = pass ? SIGMAS * sqrt(z.s) : z.e, d = (far < z.e ? far : z.e) * (1 + 0x1p-50) + 0x1p-52 * fabs(z.v);
        const double below = y.v - vn_round_to(f, z.v - d, r, false), above = vn_round_to(f, z.v + d, r, false) - y.v;
        const double step = below > above ? below : above;
        if (pass) y.s = isfinite(step) ? step * step : 0;
        else y.e = isnan(step) || isnan(z.e) ? INFINITY : step * (1 + 0x1p-50);
    }
    return y;
}
