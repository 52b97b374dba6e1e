/* fused_activation.c -- the activation behind a fused Gemm or Conv: value, and the error carried through it.
 *
 * Claim CONTRACT-9: for x within E of v, |f(x) - f(v)| <= L E with L the largest slope of f on [v-E, v+E]; the evaluation of f itself adds
 * its budget (2 t u |y| for t ulp, claim BUDGET-1). Relu and Clip are exact and 1-Lipschitz.
 */
#include <math.h>
#include <string.h>

#include "oracle/matmul.h"

typedef struct act {
    double a, b;      /* parameters */
    double u, eta, t; /* of the accumulator; budget in ulp */
} act_t;

/* Value at x, largest slope on [lo, hi], own error of the evaluation at y. */
typedef struct act_fn {
    const char *name, *budget;
    double a, b; /* defaults: f32 attributes */
    double (*value)(const act_t *, double x);
    double (*slope)(const act_t *, double lo, double hi);
    double (*error)(const act_t *, double x, double y);
} act_fn_t;

static double relu(const act_t *p, double x) { return (void)p, isnan(x) ? x : x > 0 ? x : 0; }
static double relu_slope(const act_t *p, double lo, double hi) { return (void)p, (void)lo, hi > 0 ? 1 : 0; }
static double no_error(const act_t *p, double x, double y) { return (void)p, (void)x, (void)y, 0; }
static double leaky(const act_t *p, double x) { return x < 0 ? p->a * x : x; }
static double leaky_slope(const act_t *p, double lo, double hi) { return lo >= 0 ? 1 : hi <= 0 ? fabs(p->a) : fmax(1, fabs(p->a)); }
static double leaky_error(const act_t *p, double x, double y) { return x < 0 ? p->u * fabs(y) + p->eta : 0; }
static double clip(const act_t *p, double x) { return isnan(x) ? x : fmin(fmax(x, p->a), p->b); }
static double clip_slope(const act_t *p, double lo, double hi) { return hi <= p->a || lo >= p->b ? 0 : 1; }
static double hard(const act_t *p, double x) { return isnan(x) ? x : fmin(fmax(p->a * x + p->b, 0), 1); }
static double hard_slope(const act_t *p, double lo, double hi) { return (void)lo, (void)hi, fabs(p->a); }
static double hard_error(const act_t *p, double x, double y) { return 2 * p->u * (fabs(p->a * x) + fabs(p->b)) + p->u * fabs(y) + p->eta; }
static double tanh_value(const act_t *p, double x) { return (void)p, tanh(x); }
/* Distance of the interval from the origin, where both slopes are largest. */
static double nearest(double lo, double hi) { return lo > 0 ? lo : hi < 0 ? -hi : 0; }
static double tanh_slope(const act_t *p, double lo, double hi) {
    (void)p;
    const double c = 1 / cosh(nearest(lo, hi));
    return c * c * (1 + 0x1p-40);
}
static double budget_error(const act_t *p, double x, double y) { return (void)x, 2 * p->t * p->u * fabs(y) + p->eta; }
static double sigmoid(const act_t *p, double x) { return (void)p, x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double sigmoid_slope(const act_t *p, double lo, double hi) {
    (void)p;
    const double c = 1 / cosh(nearest(lo, hi) / 2);
    return c * c / 4 * (1 + 0x1p-40);
}
static double sigmoid_error(const act_t *p, double x, double y) { return (void)x, 2 * p->t * p->u * fabs(y) + 3 * p->u + p->eta; }
static double hard_swish(const act_t *p, double x) { return (void)p, isnan(x) ? x : x * fmin(fmax(x / 6 + 0.5, 0), 1); }
/* The derivative grows from -1/2 at -3 to 3/2 at 3; outside it is 0 and 1. */
static double hard_swish_slope(const act_t *p, double lo, double hi) {
    (void)p;
    if (hi <= -3) return 0;
    if (lo >= 3) return 1;
    return fmax(fabs(2 * fmax(lo, -3) + 3), fabs(2 * fmin(hi, 3) + 3)) / 6;
}
static double hard_swish_error(const act_t *p, double x, double y) {
    return x <= -3 || x >= 3 ? 2 * p->u * fabs(y) : 3 * p->u * fabs(x) * (fabs(x) / 6 + 0.5) + p->u * fabs(y) + p->eta;
}
static double softsign(const act_t *p, double x) { return (void)p, isinf(x) ? copysign(1, x) : x / (1 + fabs(x)); }
static double softsign_slope(const act_t *p, double lo, double hi) {
    (void)p;
    const double d = 1 + nearest(lo, hi);
    return 1 / (d * d) * (1 + 0x1p-40);
}
static double softsign_error(const act_t *p, double x, double y) { return (void)x, 4 * p->u * fabs(y) + p->eta; }

static const act_fn_t table[] = {
    {"Relu", NULL, 0, 0, relu, relu_slope, no_error},
    {"LeakyRelu", NULL, 0.01f, 0, leaky, leaky_slope, leaky_error},
    {"Clip", NULL, -INFINITY, INFINITY, clip, clip_slope, no_error},
    {"HardSigmoid", NULL, 0.2f, 0.5, hard, hard_slope, hard_error},
    {"HardSwish", NULL, 0, 0, hard_swish, hard_swish_slope, hard_swish_error},
    {"Softsign", NULL, 0, 0, softsign, softsign_slope, softsign_error},
    {"Tanh", "tanh", 0, 0, tanh_value, tanh_slope, budget_error},
    {"Sigmoid", "sigmoid", 0, 0, sigmoid, sigmoid_slope, sigmoid_error},
};

vn_status_t vn_fused_activation(vn_eval_t *e, const char *name, double first, double second) {
    if (!name[0]) return VN_OK;
    const act_fn_t *f = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (strcmp(table[i].name, name) == 0) f = &table[i];
    if (!f) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "fused activation %s has no oracle", name);
    const act_t p = {.a = isnan(first) ? f->a : first,
                     .b = isnan(second) ? f->b : second,
                     .u = vn_u(e),
                     .eta = e->contract->ftz ? vn_tau(e) : vn_eta(e),
                     .t = f->budget ? vn_budget(e, f->budget) : 0};
    vn_ref_t *r = &e->out[0];
    for (int64_t i = 0; i < r->count; ++i) {
        const double x = r->value[i], y = f->value(&p, x);
        r->value[i] = y;
        if (r->lo) r->lo[i] = y == x ? r->lo[i] : 0;
        if (!r->bound) continue;
        const double w = r->bound[i];
        if (!isfinite(x)) { /* stays demanded where it is demanded: f of an infinity is exact */
            if (isfinite(y)) r->bound[i] = f->error(&p, x, y);
            continue;
        }
        const double slope = isfinite(w) ? f->slope(&p, x - w, x + w) : f->slope(&p, -INFINITY, INFINITY);
        const double carried = slope == 0 ? 0 : slope * w;
        r->bound[i] = isnan(carried) ? INFINITY
                                     : (carried + (f->error(&p, x, y) + f->error(&p, x, y) * slope * 4 * p.u)) * (1 + 0x1p-50) +
                                           (f->budget ? 2 * p.t * p.u * carried : 2 * p.u * (f->error == no_error ? 0 : carried));
        if (r->own) r->own[i] = r->own[i] * slope + 0x1p-51 * fabs(y);
        if (r->var) r->var[i] = r->var[i] * slope * slope + (f->error == no_error ? 0 : f->error(&p, x, y) * f->error(&p, x, y) / 3);
    }
    return VN_OK;
}
