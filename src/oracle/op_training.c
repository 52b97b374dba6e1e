/* op_training.c -- one iteration of an optimiser: Adagrad, Adam, Momentum of ai.onnx.preview.training. Gradient stands in op_gradient.c.
 *
 * Every quantity of the standard's pseudo-code is a ball: value in long double, and what a kernel's own value may differ from it.
 * Claim TRAIN-1: each + - * adds u |result| + eta/2, each quotient 2 t u |q| (+ 3u |q| + eta |a| where x (1/y) is allowed), each root 2 t u,
 *   each power 2 t u + T u (a power by T multiplications); what flows in is composed by interval arithmetic, all second-order terms kept.
 *   A chain of products and quotients has the same relative error in any order; an intermediate of it that underflows loses eta, carried
 *   through the largest rest of the chain. Fused multiply-add leaves out roundings that are counted.
 * Claim TRAIN-2: Adam's averages may also be computed as V + (1 - alpha)(G - V): the larger of the two errors.
 * Claim TRAIN-3: where G^2 may overflow, H is infinite and the step is lost: + |step| on X.
 * Claim TRAIN-4 (own): the same count with u = 2^-64; f64 results carry lo.
 * Elements are rounded in the arithmetic of their tensor; scalars (R, T, powers, 1 - alpha) in the narrower of the tensor's and R's, so that a
 * kernel that holds them in either is inside.
 */
#include <math.h>
#include <string.h>

#include "oracle/frame.h"
#include "oracle/move.h"
#include "oracle/vjp.h"

enum { MAX_STATES = 4 };

typedef struct ball {
    long double v;
    double e, var;
} ball_t;

/* What one operation may cost; scalars: the same for scalars. */
typedef struct unit {
    double u, eta, max;
    double root, quotient, power; /* budgets in ulp */
    bool reciprocal;
    const struct unit *scalars;
} unit_t;

static ball_t exact(double x) { return (ball_t){.v = x}; }

static ball_t rounded(const unit_t *k, long double v, double e, double var, double ulps) {
    const double size = fabs((double)v), cost = 2 * ulps * k->u;
    if (!isfinite(size)) return (ball_t){v, 0, 0};
    return (ball_t){v, (e + cost * (size + e) + k->eta / 2) * (1 + 0x1p-48), var + 0.18 * k->u * k->u * size * size};
}

static ball_t plus(const unit_t *k, ball_t a, ball_t b) { return rounded(k, a.v + b.v, a.e + b.e, a.var + b.var, 0.5); }

static ball_t minus(const unit_t *k, ball_t a, ball_t b) { return rounded(k, a.v - b.v, a.e + b.e, a.var + b.var, 0.5); }

static ball_t times(const unit_t *k, ball_t a, ball_t b) {
    const double x = fabs((double)a.v), y = fabs((double)b.v);
    return rounded(k, a.v * b.v, x * b.e + y * a.e + a.e * b.e, y * y * a.var + x * x * b.var, 0.5);
}

/* a / b; no statement (infinite error) where b may be zero and is not. */
static ball_t over(const unit_t *k, ball_t a, ball_t b) {
    const double y = fabs((double)b.v), q = fabs((double)(a.v / b.v)), x = fabs((double)a.v);
    if (!isfinite(q)) return (ball_t){.v = a.v / b.v};
    if (b.e >= y) return (ball_t){.v = a.v / b.v, .e = INFINITY};
    double e = (a.e + q * b.e) / (y - b.e);
    if (k->reciprocal) e += 3 * k->u * (q + e) + k->eta * x;
    return rounded(k, a.v / b.v, e, (a.var + q * q * b.var) / (y * y), k->quotient);
}

static ball_t root(const unit_t *k, ball_t a) {
    const double v = (double)a.v, r = sqrt(fmax(v, 0));
    if (!(a.v >= 0)) return (ball_t){.v = a.v < 0 ? (long double)NAN : a.v};
    const double up = a.e > 0 ? a.e / (sqrt(v + a.e) + r) : 0, down = a.e >= v ? r : a.e / (r + sqrt(v - a.e));
    return rounded(k, sqrtl(a.v), fmax(up, down) * (1 + 0x1p-40), v > 0 ? a.var / (4 * v) : 0, k->root);
}

/* b^n by a power function or by n multiplications. */
static ball_t power(const unit_t *k, double b, int64_t n) {
    const long double p = powl(b, (long double)n);
    const double size = fabs((double)p), e = size > 0 ? size * expm1((2 * k->power + (double)n) * k->u) : 0;
    return (ball_t){.v = p, .e = e + k->eta, .var = 0.18 * k->u * k->u * size * size * fmin((double)n, 2 * k->power)};
}

/* r v / h in any order. */
static ball_t step(const unit_t *k, ball_t r, ball_t v, ball_t h) {
    ball_t s = over(k, times(k, r, v), h);
    const double x = fabs((double)r.v) + r.e, y = fabs((double)h.v) - h.e;
    if (isfinite(s.e) && y > 0) s.e += k->eta * (1 + x + (1 + x) / y);
    return s;
}

/* ---- the three algorithms ---- */

typedef struct rule rule_t;
typedef struct scalars {
    double norm, post, alpha, beta, epsilon, decay;
    bool nesterov;
    double rate;
    double rate_err;
    int64_t count; /* T */
} scalars_t;

/* One element: in = X, G, then the states; out = X, then the states. */
typedef void (*update_fn)(const unit_t *k, const scalars_t *s, const ball_t *in, ball_t *out);

static ball_t rate_of(const scalars_t *s) { return (ball_t){.v = s->rate, .e = s->rate_err}; }

static ball_t regularised(const unit_t *k, const scalars_t *s, ball_t x, ball_t g) {
    return s->norm == 0 ? g : plus(k, times(k, exact(s->norm), x), g);
}

static ball_t lost_step(const unit_t *k, ball_t s, ball_t h) {
    if (fabs((double)h.v) + h.e >= k->max) s.e += fabs((double)s.v);
    return s;
}

static void adagrad(const unit_t *k, const scalars_t *s, const ball_t *in, ball_t *out) {
    const unit_t *q = k->scalars;
    const ball_t count = rounded(q, (long double)s->count, 0, 0, 0.5);
    const ball_t r = s->decay == 0 ? rate_of(s) : over(q, rate_of(s), plus(q, exact(1), times(q, count, exact(s->decay))));
    const ball_t g = regularised(k, s, in[0], in[1]);
    const ball_t h = plus(k, in[2], times(k, g, g));
    const ball_t adaptive = plus(k, root(k, h), exact(s->epsilon));
    out[0] = minus(k, in[0], lost_step(k, step(k, r, g, adaptive), h));
    out[1] = h;
}

/* a old + (1 - a) fresh, or old + (1 - a)(fresh - old). */
static ball_t average(const unit_t *k, double a, ball_t old, ball_t fresh) {
    const ball_t rest = minus(k->scalars, exact(1), exact(a));
    ball_t y = plus(k, times(k, exact(a), old), times(k, rest, fresh));
    const ball_t lerp = plus(k, old, times(k, rest, minus(k, fresh, old)));
    if (lerp.e > y.e && isfinite((double)lerp.v)) y.e = lerp.e;
    return y;
}

static void adam(const unit_t *k, const scalars_t *s, const ball_t *in, ball_t *out) {
    const ball_t g = regularised(k, s, in[0], in[1]);
    const ball_t v = average(k, s->alpha, in[2], g), h = average(k, s->beta, in[3], times(k, g, g));
    const ball_t denominator = plus(k, root(k, h), exact(s->epsilon));
    ball_t r = rate_of(s);
    if (s->count > 0) {
        const unit_t *q = k->scalars;
        const ball_t top = root(q, minus(q, exact(1), power(q, s->beta, s->count)));
        r = over(q, times(q, r, top), minus(q, exact(1), power(q, s->alpha, s->count)));
    }
    const ball_t x = minus(k, in[0], lost_step(k, step(k, r, v, denominator), h));
    out[0] = s->post == 0 ? x : times(k, minus(k->scalars, exact(1), exact(s->post)), x);
    out[1] = v;
    out[2] = h;
}

static void momentum(const unit_t *k, const scalars_t *s, const ball_t *in, ball_t *out) {
    const ball_t g = regularised(k, s, in[0], in[1]);
    const ball_t fresh = s->count > 0 ? times(k, exact(s->beta), g) : g;
    const ball_t v = plus(k, times(k, exact(s->alpha), in[2]), fresh);
    const ball_t direction = s->nesterov ? plus(k, g, times(k, exact(s->alpha), v)) : v;
    out[0] = minus(k, in[0], times(k, rate_of(s), direction));
    out[1] = v;
}

struct rule {
    update_fn update;
    int in, out; /* tensors per optimised tensor, R and T apart */
};
enum { ADAGRAD, ADAM, MOMENTUM };
static const rule_t rules[] = {[ADAGRAD] = {adagrad, 3, 2}, [ADAM] = {adam, 4, 3}, [MOMENTUM] = {momentum, 3, 2}};

static const rule_t *rule_of(const vn_eval_t *e) { return &rules[vn_registry_find(e->node->domain, e->node->op, e->version)->param]; }

/* ---- shapes and attributes ---- */

/* How many tensors are optimised; every operand is there, of the shape and type of its X. */
static vn_status_t groups(vn_eval_t *e, const rule_t *rule, int *n) {
    if (e->n_in < 2 + rule->in || (e->n_in - 2) % rule->in)
        return vn_eval_fail(e, VN_ERR_USAGE, "%d inputs are not R, T and groups of %d", e->n_in, rule->in);
    *n = (e->n_in - 2) / rule->in;
    if (e->n_out > *n * rule->out) return vn_eval_fail(e, VN_ERR_USAGE, "%d outputs for %d tensors", e->n_out, *n);
    for (int k = 0; k < e->n_in; ++k) VN_TRY(vn_move_need(e, k));
    for (int k = 0; k < 2; ++k)
        if (e->in[k].t->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d (%s) must hold one value", k, k ? "T" : "R");
    if (!vn_dtype_is_float(e->in[0].t->dtype) || e->in[1].t->dtype != VN_I64)
        return vn_eval_fail(e, VN_ERR_DTYPE, "R is %s and T is %s", vn_dtype_name(e->in[0].t->dtype), vn_dtype_name(e->in[1].t->dtype));
    for (int k = 2; k < e->n_in; ++k) {
        const vn_tensor_t *x = e->in[2 + (k - 2) % *n].t, *t = e->in[k].t;
        if (!vn_dtype_is_float(t->dtype) || t->dtype != x->dtype)
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s, its tensor is %s", k, vn_dtype_name(t->dtype), vn_dtype_name(x->dtype));
        if (t->rank != x->rank || memcmp(t->dims, x->dims, (size_t)t->rank * sizeof *t->dims) != 0)
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has another shape than the tensor it belongs to (input %d)", k,
                                2 + (k - 2) % *n);
    }
    return VN_OK;
}

static vn_status_t infer(vn_eval_t *e) {
    int n;
    VN_TRY(groups(e, rule_of(e), &n));
    for (int k = 0; k < e->n_out; ++k) {
        const vn_shape_t s = vn_shape_of(e->in[2 + k % n].t);
        VN_TRY(vn_move_infer(e, k, e->in[2 + k % n].t->dtype, &s));
    }
    return VN_OK;
}

static vn_status_t read_scalars(vn_eval_t *e, scalars_t *s) {
    static const char *const required[] = {"norm_coefficient", "alpha", "beta", "mode"};
    const vn_node_t *n = e->node;
    const bool is_momentum = rule_of(e) == &rules[MOMENTUM];
    for (size_t k = 0; is_momentum && k < sizeof required / sizeof *required; ++k)
        if (!vn_node_attr(n, required[k])) return vn_eval_fail(e, VN_ERR_USAGE, "attribute %s is missing", required[k]);
    *s = (scalars_t){.norm = vn_node_float(n, "norm_coefficient", 0),
                     .post = vn_node_float(n, "norm_coefficient_post", 0),
                     .alpha = vn_node_float(n, "alpha", (double)0.9f),
                     .beta = vn_node_float(n, "beta", (double)0.999f),
                     .epsilon = vn_node_float(n, "epsilon", (double)1e-6f),
                     .decay = vn_node_float(n, "decay_factor", 0)};
    const char *mode = vn_node_string(n, "mode", "standard");
    s->nesterov = strcmp(mode, "nesterov") == 0;
    if (!s->nesterov && strcmp(mode, "standard") != 0)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "mode=\"%s\"; known are standard, nesterov", mode);
    const double *rate = vn_arg_f64(e, 0), *err = vn_arg_err(e, 0);
    if (!rate) return VN_ERR_NOMEM;
    s->rate = rate[0];
    s->rate_err = err ? err[0] : 0;
    s->count = vn_arg_int(e, 1, 0);
    return VN_OK;
}

/* ---- planes ---- */

typedef struct job {
    const rule_t *rule;
    scalars_t s;
    unit_t kernel, scalars, own;
    const double *x[MAX_STATES], *err[MAX_STATES], *var[MAX_STATES];
    vn_ref_t *out[MAX_STATES]; /* NULL: not wanted */
    uint8_t *flags[MAX_STATES];
    int flagged; /* atomic */
} job_t;

static void put(job_t *j, int k, int64_t i, ball_t b, ball_t own) {
    vn_ref_t *r = j->out[k];
    r->value[i] = (double)b.v;
    const double low = (double)(b.v - (long double)r->value[i]);
    if (r->lo) r->lo[i] = isfinite(low) ? low : 0;
    if (r->own) r->own[i] = isfinite(own.e) ? own.e + (r->lo ? 0 : 0x1p-53 * fabs(r->value[i])) : 0;
    if (!r->bound) return;
    r->bound[i] = b.e;
    if (r->var) r->var[i] = b.var;
    if (isfinite(r->value[i]) && isinf(b.e)) {
        j->flags[k][i] = VN_EL_INF_OK | VN_EL_NAN_OK;
        __atomic_store_n(&j->flagged, 1, __ATOMIC_RELAXED);
    }
}

static void run(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    scalars_t sharp = j->s;
    sharp.rate_err = 0;
    for (int64_t i = begin; i < end; ++i) {
        ball_t in[MAX_STATES] = {0}, plain[MAX_STATES] = {0}, out[MAX_STATES] = {0}, own[MAX_STATES] = {0};
        for (int k = 0; k < j->rule->in; ++k) {
            plain[k] = exact(j->x[k][i]);
            in[k] = (ball_t){j->x[k][i], j->err[k] ? j->err[k][i] : 0, j->var[k] ? j->var[k][i] : 0};
        }
        j->rule->update(&j->kernel, &j->s, in, out);
        j->rule->update(&j->own, &sharp, plain, own);
        for (int k = 0; k < j->rule->out; ++k)
            if (j->out[k]) put(j, k, i, out[k], own[k]);
    }
}

/* The arithmetic of the tensor; scalars: the narrower of that and R's. */
static unit_t kernel_unit(vn_eval_t *e, vn_dtype_t t, bool scalars) {
    const vn_contract_t own = vn_contract_resolve(e->run->contract, t);
    const vn_format_info_t *a = vn_format_info(e->contract->accumulator), *b = vn_format_info(own.accumulator);
    if (!scalars || a->p > b->p) a = b;
    return (unit_t){.u = a->u,
                    .eta = a->eta,
                    .max = a->max,
                    .root = vn_budget(e, "sqrt"),
                    .quotient = vn_budget(e, "div"),
                    .power = vn_budget(e, "pow"),
                    .reciprocal = e->contract->reciprocal_quotient};
}

static vn_status_t optimise(vn_eval_t *e, const rule_t *rule, const scalars_t *s, int group, int n) {
    const vn_tensor_t *x = e->in[2 + group].t;
    job_t j = {.rule = rule,
               .s = *s,
               .kernel = kernel_unit(e, x->dtype, false),
               .scalars = kernel_unit(e, x->dtype, true),
               .own = {.u = 0x1p-64, .eta = 0, .max = INFINITY, .root = 0.5, .quotient = 0.5, .power = 2}};
    j.kernel.scalars = &j.scalars;
    j.own.scalars = &j.own;
    vn_status_t status = VN_OK;
    for (int k = 0; k < rule->in; ++k) {
        const int at = 2 + group + k * n;
        j.x[k] = vn_arg_f64(e, at);
        if (!j.x[k]) return VN_ERR_NOMEM;
        j.err[k] = vn_arg_err(e, at);
        j.var[k] = e->in[at].var;
    }
    for (int k = 0; k < rule->out && status == VN_OK; ++k) {
        const int at = group + k * n;
        if (!vn_move_wanted(e, at)) continue;
        status = vn_out_float(e, at, x->dtype, x->rank, x->dims);
        if (status == VN_OK && e->want >= VN_WANT_BOUND) status = vn_out_own(e, at);
        if (status == VN_OK && x->dtype == VN_F64) status = vn_out_lo(e, at);
        j.flags[k] = vn_alloc((size_t)(x->count ? x->count : 1), 1);
        if (status == VN_OK && !j.flags[k]) status = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
        j.out[k] = &e->out[at];
    }
    if (status == VN_OK) vn_parallel(x->count, 1 << 12, run, &j);
    for (int k = 0; k < rule->out; ++k) {
        if (status == VN_OK && j.flagged && j.out[k]) {
            status = vn_out_flags(e, group + k * n);
            if (status == VN_OK) memcpy(j.out[k]->flags, j.flags[k], (size_t)x->count);
        }
        vn_free(j.flags[k]);
    }
    return status;
}

static vn_status_t eval(vn_eval_t *e) {
    const rule_t *rule = rule_of(e);
    int n;
    scalars_t s;
    VN_TRY(groups(e, rule, &n));
    VN_TRY(read_scalars(e, &s));
    for (int g = 0; g < n; ++g) VN_TRY(optimise(e, rule, &s, g, n));
    return VN_OK;
}

#define DOMAIN "ai.onnx.preview.training"

static const vn_op_t rows[] = {
    {DOMAIN, "Adagrad", 1, 0, VN_CLASS_COMPOSITE, VN_OP_PROPAGATES, "TRAIN-1", eval, infer, ADAGRAD},
    {DOMAIN, "Adam", 1, 0, VN_CLASS_COMPOSITE, VN_OP_PROPAGATES, "TRAIN-2", eval, infer, ADAM},
    {DOMAIN, "Gradient", 1, 0, VN_CLASS_COMPOSITE, VN_OP_PROPAGATES, "GRAD-1", vn_eval_gradient, vn_infer_gradient, 0},
    {DOMAIN, "Momentum", 1, 0, VN_CLASS_COMPOSITE, VN_OP_PROPAGATES, "TRAIN-1", eval, infer, MOMENTUM},
};

const vn_family_t vn_family_training = {.name = "training", .rows = rows, .count = sizeof rows / sizeof *rows};
