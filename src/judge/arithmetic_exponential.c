/* arithmetic_exponential.c -- exponentials without their safeguards: no maximum subtracted, or made from exponent bits.
 *
 * Claim ARITH-9 (no maximum): exp(x) > max of the working type gives an infinity, a sum of zeros gives 0/0 or log 0. Carried out, the naive formula
 * foretells the class of every element; finite ones are within its own error, (n + 20) roundings and what underflows. The name is given
 * only where some element tells: its class is not the exact one's.
 * Claim ARITH-10 (exponent bits): E(x) = 2^floor(t) (1 + t - floor(t)), t = x log2 e - b, for a constant b of 0 to 1/8 that the kernel chose; it is off by up to 6 %,
 * but itself known to 2^-14 (f32 arithmetic on an integer of 2^30) once b is found. Every element must follow it that closely.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"

/* ---- no maximum subtracted ---- */

typedef enum kind { SOFTMAX, LOG_SOFTMAX, LOG_SUM_EXP, NONE } kind_t;

static kind_t kind_of(const vn_arith_t *a) {
    return vn_arith_is(a, "Softmax")           ? SOFTMAX
           : vn_arith_is(a, "LogSoftmax")      ? LOG_SOFTMAX
           : vn_arith_is(a, "ReduceLogSumExp") ? LOG_SUM_EXP
                                               : NONE;
}

/* One working type; form 1: log of the quotient instead of a difference. */
typedef struct naive {
    vn_format_t work;
    int form;
} naive_t;

static double naive_result(kind_t kind, const naive_t *w, double x, double e, double sum) {
    if (kind == SOFTMAX) return e / sum;
    if (kind == LOG_SUM_EXP) return log(sum);
    return w->form ? log(e / sum) : x - log(sum);
}

/* Largest relative and absolute error of a finite result. */
static double naive_room(kind_t kind, const vn_format_info_t *w, const vn_format_info_t *out, int64_t n, double x, double sum, double y) {
    const double rel = ((double)n + 20) * 2 * w->u, under = ((double)n + 1) * w->tau / sum;
    const double log_error = rel + under + 4 * w->u * fabs(log(sum));
    const double e = kind == SOFTMAX ? fabs(y) * (rel + under) + w->tau * (1 + 1 / sum) : log_error + 2 * w->u * (fabs(x) + fabs(y));
    return e + 2 * out->u * fabs(y) + out->eta;
}

static bool same_class(double x, double y) { return isnan(y) ? isnan(x) : isinf(y) ? x == y : isfinite(x); }

/* Elements that tell; -1: some element does not follow. */
static int64_t follows_naive(const vn_arith_t *a, const vn_groups_t *g, const double *x, kind_t kind, const naive_t *w) {
    const vn_ref_t *r = a->c->ref;
    const vn_format_info_t *work = vn_format_info(w->work), *out = vn_format_info(vn_format_of(r->dtype));
    int64_t telling = 0;
    for (int64_t k = 0; k < g->count; ++k) {
        double sum = 0;
        for (int64_t j = 0; j < g->size; ++j) sum += vn_round_to(w->work, exp(x[g->base[k] + g->offset[j]]), VN_RNE, false);
        sum = vn_round_to(w->work, sum, VN_RNE, false);
        for (int64_t j = 0; j < (g->keeps ? g->size : 1); ++j) {
            const int64_t from = g->base[k] + g->offset[j], i = g->keeps ? from : k;
            const double e = vn_round_to(w->work, exp(x[from]), VN_RNE, false), y = naive_result(kind, w, x[from], e, sum);
            const bool lost = w->form && e < work->tau && e > 0; /* a subnormal exponential: the log of it is anything near */
            if (!same_class(a->x[i], y)) return -1;
            telling += !same_class(r->value[i], y);
            if (isfinite(y) && !lost && fabs(a->x[i] - y) > naive_room(kind, work, out, g->size, x[from], sum, y)) return -1;
        }
    }
    return telling;
}

vn_status_t vn_arith_no_maximum(vn_arith_t *a, vn_error_t *err) {
    const kind_t kind = kind_of(a);
    if (kind == NONE || !a->c->ref->value || a->c->m.outside == 0) return VN_OK;
    vn_groups_t g;
    VN_TRY(vn_groups_of(a, &g, err));
    double *x = g.count ? vn_arith_plane(a, 0) : NULL;
    const bool fits = (g.keeps ? g.count * g.size : g.count) == a->n;
    const vn_format_t own = vn_format_of(a->c->actual->dtype);
    const vn_format_t types[] = {own == VN_FMT_F64 ? VN_FMT_F64 : VN_FMT_F32, own};
    vn_status_t s = g.count && !x ? vn_fail(err, VN_ERR_NOMEM, "no memory") : VN_OK;
    bool held = false;
    for (int form = 0; x && fits && !held && form < (kind == LOG_SOFTMAX ? 2 : 1); ++form)
        for (int t = 0; !held && t < (types[0] == types[1] ? 1 : 2); ++t) {
            const naive_t w = {.work = types[t], .form = form};
            const int64_t telling = follows_naive(a, &g, x, kind, &w);
            a->tried++;
            held = telling > 0;
            if (held)
                vn_arith_exact(
                    a, "no-max-subtraction", VN_ARITH_BUG, a->c->actual,
                    "exponentials in %s without subtracting the maximum: they overflow or vanish, %lld elements are NaN, infinite or "
                    "zero for that",
                    vn_format_info(w.work)->name, (long long)telling);
        }
    vn_free(x);
    vn_groups_free(&g);
    return s;
}

/* ---- a denominator that stalls ---- */

/* Running sum of the exponentials of group k in format f, in lanes that are added at the end. */
static double stalled(const vn_groups_t *g, int64_t k, const double *x, double top, vn_format_t f, int lanes) {
    double part[16] = {0}, sum = 0;
    for (int64_t j = 0; j < g->size; ++j) {
        const double e = vn_round_to(f, exp(x[g->base[k] + g->offset[j]] - top), VN_RNE, false);
        part[j % lanes] = vn_round_to(f, part[j % lanes] + e, VN_RNE, false);
    }
    for (int l = 0; l < lanes; ++l) sum = vn_round_to(f, sum + part[l], VN_RNE, false);
    return sum;
}

/* Claim ARITH-16: exponentials and their running sum in a 16-bit format f are carried out; a quotient of them is within 4 u_f of what they give, a
 * logarithm within 4 u_f of its terms. */
static vn_status_t consider_stalled(vn_arith_t *a, const vn_groups_t *g, const double *x, kind_t kind, vn_format_t f, int lanes,
                                    vn_error_t *err) {
    const size_t n = (size_t)a->n + 1;
    const double u = vn_format_info(f)->u, eta = vn_format_info(f)->eta;
    double *value = vn_alloc(n, sizeof *value), *bound = vn_alloc(n, sizeof *bound), *var = vn_alloc(n, sizeof *var);
    if (!value || !bound || !var) {
        vn_free(value);
        vn_free(bound);
        vn_free(var);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int64_t k = 0; k < g->count; ++k) {
        double top = -INFINITY;
        for (int64_t j = 0; j < g->size; ++j) top = fmax(top, x[g->base[k] + g->offset[j]]);
        const double sum = stalled(g, k, x, top, f, lanes);
        for (int64_t j = 0; j < (g->keeps ? g->size : 1); ++j) {
            const int64_t from = g->base[k] + g->offset[j], i = g->keeps ? from : k;
            const double d = x[from] - top;
            value[i] = kind == SOFTMAX ? exp(d) / sum : kind == LOG_SUM_EXP ? top + log(sum) : d - log(sum);
            bound[i] = 4 * u * (kind == SOFTMAX ? fabs(value[i]) : 1 + fabs(log(sum)) + fabs(value[i])) + 2 * eta;
            var[i] = bound[i] * bound[i] / 36;
        }
    }
    vn_ref_t ref;
    VN_TRY(vn_arith_planes(a, value, bound, var, &ref, err));
    char id[32];
    snprintf(id, sizeof id, "accumulator-%s", vn_format_info(f)->name);
    a->choices = log(8);
    a->tried++;
    const vn_status_t s = vn_arith_consider(a, id, VN_ARITH_SHARP, &ref, err,
                                            "exponentials and their running sum in %s, %d %s: the sum loses what is below its last bit",
                                            vn_format_info(f)->name, lanes, lanes == 1 ? "chain" : "lanes");
    vn_ref_free(&ref);
    return s;
}

vn_status_t vn_arith_denominator(vn_arith_t *a, vn_error_t *err) {
    static const vn_format_t formats[] = {VN_FMT_F16, VN_FMT_BF16};
    const kind_t kind = kind_of(a);
    if (kind == NONE || !a->c->ref->value || a->c->m.outside == 0) return VN_OK;
    vn_groups_t g;
    VN_TRY(vn_groups_of(a, &g, err));
    double *x = g.count ? vn_arith_plane(a, 0) : NULL;
    vn_status_t s = g.count && !x ? vn_fail(err, VN_ERR_NOMEM, "no memory") : VN_OK;
    for (int f = 0; f < 2 && x && (g.keeps ? g.count * g.size : g.count) == a->n; ++f)
        for (int lanes = 1; lanes <= 16 && s == VN_OK && vn_arith_time(a); lanes *= lanes == 1 ? 4 : 2)
            s = consider_stalled(a, &g, x, kind, formats[f], lanes, err);
    vn_free(x);
    vn_groups_free(&g);
    return s;
}

/* ---- differences of exponentials near zero ---- */

/* Claim ARITH-14: (e^x - e^-x)/2, (e^2x - 1)/(e^2x + 1), log(1 + x) and their kin carried out in the type lose what cancels: 8 u of the larger part, an
 * absolute error that only shows where the result is small beside it. */
static const struct {
    const char *op;
    bool grows; /* the parts are cosh x, not 1 */
} differences[] = {{"Sinh", true}, {"Tanh", false}, {"Asinh", false}, {"Atanh", false}, {"Softplus", false}};

vn_status_t vn_arith_cancellation(vn_arith_t *a, vn_error_t *err) {
    const vn_ref_t *r = a->c->ref;
    const vn_tensor_t *in = vn_arith_operand(a, 0);
    size_t k = 0;
    while (k < sizeof differences / sizeof *differences && !vn_arith_is(a, differences[k].op)) ++k;
    if (k == sizeof differences / sizeof *differences || !r->value || a->c->m.outside == 0 || a->c->m.classes || !in || in->count != a->n)
        return VN_OK;
    const vn_format_info_t *f = vn_format_info(vn_format_of(a->c->actual->dtype));
    int64_t wrong = 0;
    a->tried++;
    double *x = vn_arith_plane(a, 0);
    if (!x) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    bool holds = true;
    for (int64_t i = 0; i < a->n && holds; ++i) {
        const double e = fabs(a->x[i] - r->value[i]), part = differences[k].grows ? cosh(x[i]) : 1;
        if (!isfinite(r->value[i]) || e <= vn_room(r, i)) continue;
        wrong++;
        holds = e <= 8 * f->u * part && fabs(r->value[i]) <= part / 4;
    }
    vn_free(x);
    if (holds && wrong)
        vn_arith_exact(
            a, "expm1-missing", 0, a->c->actual,
            "%s as a difference that cancels near zero: %lld elements have lost their relative accuracy, none more than 8 u of the parts",
            a->c->q->node->op, (long long)wrong);
    return VN_OK;
}

/* ---- exponent bits ---- */

static double bits_exp(double x, double b) {
    const double t = x * 1.4426950408889634 - b, k = floor(t);
    return t > 1023 ? INFINITY : t < -1022 ? 0 : ldexp(1 + (t - k), (int)k);
}

/* The function as a kernel writes it, with E in place of the exponential; d: relative change of E. */
typedef struct form {
    const char *op;
    double (*f)(double x, const double *p, double b, double d);
} form_t;

static double E(double x, double b, double d) { return bits_exp(x, b) * (1 + d); }

static double f_exp(double x, const double *p, double b, double d) { return (void)p, E(x, b, d); }
static double f_sigmoid(double x, const double *p, double b, double d) { return (void)p, 1 / (1 + E(-x, b, d)); }
static double f_sigmoid2(double x, const double *p, double b, double d) {
    (void)p;
    const double e = E(x, b, d);
    return isinf(e) ? 1 : e / (1 + e);
}
static double f_tanh(double x, const double *p, double b, double d) { return (void)p, 2 / (1 + E(-2 * x, b, d)) - 1; }
static double f_tanh2(double x, const double *p, double b, double d) {
    (void)p;
    return 1 - 2 / (E(2 * x, b, d) + 1);
}
static double f_tanh3(double x, const double *p, double b, double d) {
    (void)p;
    const double e = E(-2 * fabs(x), b, d);
    return copysign((1 - e) / (1 + e), x);
}
static double f_tanh4(double x, const double *p, double b, double d) { /* quotient of the two exponentials */
    (void)p;
    const double e = E(x, b, d), i = E(-x, b, d);
    return isinf(e) ? 1 : isinf(i) ? -1 : (e - i) / (e + i);
}
static double f_swish(double x, const double *p, double b, double d) { return x / (1 + E(-p[0] * x, b, d)); }
static double f_softplus(double x, const double *p, double b, double d) { return (void)p, log(1 + E(x, b, d)); }
static double f_softplus2(double x, const double *p, double b, double d) { return (void)p, fmax(x, 0) + log1p(E(-fabs(x), b, d)); }
static double f_elu(double x, const double *p, double b, double d) { return x > 0 ? x * p[1] : p[1] * p[0] * (E(x, b, d) - 1); }
static double f_celu(double x, const double *p, double b, double d) { return x > 0 ? x : p[0] * (E(x / p[0], b, d) - 1); }
static double f_mish(double x, const double *p, double b, double d) {
    (void)p;
    const double e = 1 + E(x, b, d), q = e * e;
    return isinf(q) ? x : x * (q - 1) / (q + 1);
}
static double f_gelu(double x, const double *p, double b, double d) {
    (void)p;
    const double z = 1.5957691216057308 * (x + 0.044715 * x * x * x); /* 2 sqrt(2/pi) */
    return x / (1 + E(-z, b, d));
}

static const form_t forms[] = {
    {"Exp", f_exp},         {"Sigmoid", f_sigmoid},   {"Sigmoid", f_sigmoid2},   {"Tanh", f_tanh},
    {"Tanh", f_tanh2},      {"Tanh", f_tanh3},        {"Tanh", f_tanh4},         {"Swish", f_swish},
    {"QuickGelu", f_swish}, {"Softplus", f_softplus}, {"Softplus", f_softplus2}, {"Elu", f_elu},
    {"Selu", f_elu},        {"Celu", f_celu},         {"Mish", f_mish},          {"Gelu", f_gelu},
    {"FastGelu", f_gelu},
};

static void parameters(const vn_node_t *n, double *p) {
    const bool selu = strcmp(n->op, "Selu") == 0, quick = strcmp(n->op, "QuickGelu") == 0;
    p[0] = vn_node_float(n, "alpha", selu ? 1.67326319217681884765625 : quick ? 1.702 : 1);
    p[1] = selu ? vn_node_float(n, "gamma", 1.05070102214813232421875) : 1;
}

/* A question about exponentials: elementwise through a form, or rows of a softmax. */
typedef struct task {
    const vn_arith_t *a;
    const double *x;
    const form_t *form;
    double p[2];
    kind_t kind;
    const vn_groups_t *g;
    double delta;
} task_t;

/* Results of one row of a softmax by E; y: size numbers (LOG_SUM_EXP: one). */
static void row_of(const task_t *t, int64_t k, double b, double *y) {
    const vn_groups_t *g = t->g;
    double top = -INFINITY, sum = 0;
    for (int64_t j = 0; j < g->size; ++j) top = fmax(top, t->x[g->base[k] + g->offset[j]]);
    for (int64_t j = 0; j < g->size; ++j) sum += bits_exp(t->x[g->base[k] + g->offset[j]] - top, b);
    if (t->kind == LOG_SUM_EXP) {
        y[0] = top + log(sum);
        return;
    }
    for (int64_t j = 0; j < g->size; ++j) {
        const double d = t->x[g->base[k] + g->offset[j]] - top;
        y[j] = t->kind == SOFTMAX ? bits_exp(d, b) / sum : d - log(sum);
    }
}

enum { SAMPLE = 2048 };

/* Typical distance from what b foretells: mean over a sample of the relative errors, each at most 1. */
static double distance(const task_t *t, double b, double *row) {
    const vn_arith_t *a = t->a;
    double sum = 0;
    int64_t used = 0;
    if (t->form) {
        const int64_t step = a->n / SAMPLE + 1;
        for (int64_t i = 0; i < a->n; i += step) {
            if (!isfinite(a->x[i]) || a->x[i] == 0) continue;
            sum += fmin(1, fabs(t->form->f(t->x[i], t->p, b, 0) - a->x[i]) / fabs(a->x[i]));
            used++;
        }
    } else {
        for (int64_t k = 0; k < t->g->count && used < SAMPLE; ++k) {
            row_of(t, k, b, row);
            for (int64_t j = 0; j < (t->g->keeps ? t->g->size : 1); ++j) {
                const int64_t i = t->g->keeps ? t->g->base[k] + t->g->offset[j] : k;
                if (!isfinite(a->x[i]) || a->x[i] == 0) continue;
                sum += fmin(1, fabs(row[j] - a->x[i]) / fabs(a->x[i]));
                used++;
            }
        }
    }
    return used ? sum / (double)used : 1;
}

/* The b of the smallest distance: a grid over [-1/8, 1/8], then halved steps. */
static double fitted(const task_t *t, double *row, double *best) {
    double at = 0, step = 0x1p-9;
    *best = INFINITY;
    for (int k = -64; k <= 64; ++k) {
        const double d = distance(t, k * step, row);
        if (d < *best) {
            *best = d;
            at = k * step;
        }
    }
    for (int halving = 0; halving < 12; ++halving) { /* down to 2^-21 */
        step /= 2;
        for (int side = -1; side <= 1; side += 2) {
            const double d = distance(t, at + side * step, row);
            if (d < *best) {
                *best = d;
                at += side * step;
            }
        }
    }
    return at;
}

/* Values that b foretells, and how far its own arithmetic may be off. */
static void foretell(const task_t *t, double b, double *row, double *value, double *room) {
    const vn_arith_t *a = t->a;
    const double d = t->delta;
    if (t->form) {
        for (int64_t i = 0; i < a->n; ++i) {
            value[i] = t->form->f(t->x[i], t->p, b, 0);
            room[i] = fabs(t->form->f(t->x[i], t->p, b, d) - value[i]) + fabs(t->form->f(t->x[i], t->p, b, -d) - value[i]);
        }
        return;
    }
    for (int64_t k = 0; k < t->g->count; ++k) {
        row_of(t, k, b, row);
        for (int64_t j = 0; j < (t->g->keeps ? t->g->size : 1); ++j) {
            const int64_t i = t->g->keeps ? t->g->base[k] + t->g->offset[j] : k;
            value[i] = row[j];
            room[i] = t->kind == SOFTMAX ? 4 * d * fabs(row[j]) : 4 * d;
        }
    }
}

static vn_status_t consider_fast(vn_arith_t *a, task_t *t, vn_error_t *err) {
    const vn_ref_t *r = a->c->ref;
    const size_t n = (size_t)a->n + 1, row_size = t->g ? (size_t)t->g->size + 1 : 1;
    double *row = vn_alloc(row_size, sizeof *row), *value = vn_alloc(n, sizeof *value), *room = vn_alloc(n, sizeof *room),
           *var = vn_alloc(n, sizeof *var), best;
    if (!row || !value || !room || !var) {
        vn_free(row);
        vn_free(value);
        vn_free(room);
        vn_free(var);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    const vn_format_info_t *out = vn_format_info(vn_format_of(r->dtype));
    const double b = fitted(t, row, &best);
    int64_t telling = 0;
    foretell(t, b, row, value, room);
    for (int64_t i = 0; i < a->n; ++i) {
        room[i] +=
            8 * out->u * (1 + fabs(t->form ? t->x[i] : 0)) * fabs(value[i]) + 4 * out->u * (t->form && t->form->f != f_exp) + out->eta;
        const bool right = isfinite(r->value[i]) && fabs(a->x[i] - r->value[i]) <= vn_room(r, i);
        telling += !right && fabs(value[i] - r->value[i]) > 2 * room[i];
        if (right || !isfinite(value[i])) { /* both give it, or an end of the range where kernels clamp */
            value[i] = r->value[i];
            room[i] = vn_room(r, i);
        }
        if (!(room[i] >= 0)) room[i] = 0;
        var[i] = room[i] * room[i] / 16;
    }
    vn_free(row);
    vn_ref_t ref;
    VN_TRY(vn_arith_planes(a, value, room, var, &ref, err));
    vn_status_t s = VN_OK;
    a->choices = log(1 << 20);
    if (telling >= 4)
        s = vn_arith_consider(
            a, "fast-exp", VN_ARITH_SHARP, &ref, err,
            "the exponential is made from exponent bits, 2^k (1 + f) with an offset of %.4g: piecewise linear, up to 6 %% off", b);
    vn_ref_free(&ref);
    return s;
}

vn_status_t vn_arith_fast_exp(vn_arith_t *a, vn_error_t *err) {
    const vn_node_t *n = a->c->q->node;
    if (!n || !a->c->ref->value || a->c->m.outside == 0) return VN_OK;
    const kind_t kind = kind_of(a);
    size_t first = 0;
    while (first < sizeof forms / sizeof *forms && strcmp(forms[first].op, n->op) != 0) ++first;
    if (kind == NONE && first == sizeof forms / sizeof *forms) return VN_OK;
    const vn_tensor_t *in = vn_arith_operand(a, 0);
    if (!in || !vn_dtype_is_float(in->dtype)) return VN_OK;
    const double u = vn_format_info(vn_format_of(in->dtype))->u;
    task_t t = {.a = a, .kind = kind, .delta = fmax(0x1p-14, 2 * u)};
    double *x = vn_arith_plane(a, 0);
    if (!x) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    t.x = x;
    vn_status_t s = VN_OK;
    vn_groups_t g = {0};
    if (kind != NONE) {
        s = vn_groups_of(a, &g, err);
        t.g = &g;
        a->tried++;
        if (s == VN_OK && g.count && (g.keeps ? g.count * g.size : g.count) == a->n) s = consider_fast(a, &t, err);
    } else if (in->count == a->n) {
        parameters(n, t.p);
        for (size_t k = first; k < sizeof forms / sizeof *forms && s == VN_OK && strcmp(forms[k].op, n->op) == 0; ++k) {
            a->tried++;
            t.form = &forms[k];
            s = consider_fast(a, &t, err);
        }
    }
    vn_free(x);
    vn_groups_free(&g);
    return s;
}
