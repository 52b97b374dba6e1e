/* recurrent_exact.c -- the steps of one direction again, in twice the working precision: what float64 leaves open (claims PREC-3, RNN-6).
 *
 * Claim RNN-6: products with weights are dot products of double-double numbers, wrong by at most 2 x vn_dd_dot_own of their absolute sum (the
 * low halves of the states add (2 n^2 + n) 2^-106 of it at most), everything else is in 113 bits with functions within 8 units. Each of
 * these is less than one rounding of u = 2^-104, so errors are carried from step to step by the formulas of RNN-1 and RNN-2 with that u and
 * functions of one ulp. The carried numbers are doubles; 1 + 2^-40 per step covers their rounding and that slopes are taken at rounded arguments.
 */
#include "oracle/recurrent_exact.h"

#include <string.h>

#include "tensor/clones.h"

#define U 0x1p-104
#define TINY 0x1p-1070
#define ROOM VN_SHARP_ROOM

typedef struct exact {
    vn_sharp_layer_t base;
    const vn_rnn_layer_t *l;
    vn_sharp_t *z, *rest, *r_gate; /* [hidden]: update gate, 1 - it, reset gate */
    vn_gate_rule_t rule;
    double hopeless;
} exact_t;

/* ---- products ---- */

VN_CLONES static void add_row(int64_t n, const double *restrict row, double hi, double lo, double *restrict sum, double *restrict lost,
                              double *restrict size) {
    for (int64_t j = 0; j < n; ++j) {
        double e, f;
        const double p = vn_dd_two_prod(row[j], hi, &e);
        sum[j] = vn_dd_two_sum(sum[j], p, &f);
        lost[j] += (e + f) + row[j] * lo;
        size[j] += fabs(p);
    }
}

VN_CLONES static void add_doubt(int64_t n, const double *restrict row, double err, double *restrict to) {
    for (int64_t j = 0; j < n; ++j) to[j] += fabs(row[j]) * err;
}

typedef struct product {
    const vn_sharp_layer_t *x;
    const double *turned; /* [terms, width] */
    int64_t terms, first;
    const vn_sharp_sums_t *out;
} product_t;

static void columns(void *ctx, int64_t begin, int64_t end) {
    const product_t *p = ctx;
    const int64_t n = end - begin;
    double *const planes[] = {p->out->sum, p->out->lost, p->out->size, p->out->err};
    for (int k = 0; k < 4; ++k) memset(planes[k] + begin, 0, (size_t)n * sizeof(double));
    for (int64_t i = 0; i < p->terms; ++i) {
        const double *row = p->turned + i * p->x->width + p->first + begin;
        add_row(n, row, p->x->v.hi[i], p->x->v.lo[i], p->out->sum + begin, p->out->lost + begin, p->out->size + begin);
        if (p->x->v.err[i] > 0) add_doubt(n, row, p->x->v.err[i], p->out->err + begin);
    }
}

void vn_sharp_multiply(const vn_sharp_layer_t *x, const double *turned, int64_t terms, int64_t first, int64_t n,
                       const vn_sharp_sums_t *out) {
    enum { COLUMNS = 128 };
    product_t p = {.x = x, .turned = turned, .terms = terms, .first = first, .out = out};
    /* A few hundred thousand products are done before a thread has started. */
    if ((double)n * (double)terms < 0x1p19) columns(&p, 0, n);
    else vn_parallel(n, COLUMNS, columns, &p);
}

static void vector(exact_t *x, const vn_sharp_t *from, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        x->base.v.hi[i] = (double)from[i].v;
        x->base.v.lo[i] = (double)(from[i].v - x->base.v.hi[i]);
        x->base.v.err[i] = from[i].e;
    }
}

static vn_quad_t value(const vn_sharp_sums_t *p, int64_t j) { return (vn_quad_t)p->sum[j] + p->lost[j]; }

static double doubt(const vn_sharp_sums_t *p, int64_t j, int64_t terms) {
    if (!(p->size[j] < 0x1p960)) return INFINITY;
    return 2 * vn_dd_dot_own(terms, p->size[j]) + p->err[j] * ROOM;
}

/* ---- single quantities ---- */

static vn_tri_t rough(vn_sharp_t a) { return (vn_tri_t){.v = (double)a.v, .e = a.e}; }
static bool is_zero(vn_sharp_t a) { return a.v == 0 && a.e == 0; }
static vn_sharp_t mul(vn_sharp_t a, vn_sharp_t b) {
    if (is_zero(a) || is_zero(b)) return (vn_sharp_t){.v = 0};
    return (vn_sharp_t){a.v * b.v, vn_tri_mul(U, TINY, rough(a), rough(b)).e};
}
static vn_sharp_t add(vn_sharp_t a, vn_sharp_t b) {
    return (vn_sharp_t){a.v + b.v, vn_tri_add(U, rough(a), rough(b)).e + U * fabs((double)a.v)};
}
static vn_sharp_t complement(vn_sharp_t a) { return add((vn_sharp_t){.v = 1}, (vn_sharp_t){-a.v, a.e}); }

static vn_quad_t logistic(vn_quad_t z) {
    const vn_quad_t w = vn_qexp(-vn_qabs(z));
    return z >= 0 ? 1 / (1 + w) : w / (1 + w);
}

static vn_quad_t function(const vn_gate_t *g, vn_quad_t z) {
    const vn_quad_t a = g->alpha, b = g->beta;
    switch (g->kind) {
    case VN_GATE_TANH: return vn_qtanh(z);
    case VN_GATE_SIGMOID: return logistic(z);
    case VN_GATE_AFFINE: return a * z + b;
    case VN_GATE_LEAKY: return z >= 0 ? z : a * z;
    case VN_GATE_SCALED_TANH: return a * vn_qtanh(b * z);
    case VN_GATE_ELU: return z >= 0 ? z : a * vn_qexpm1(z);
    case VN_GATE_SOFTSIGN: return z / (1 + vn_qabs(z));
    case VN_GATE_SOFTPLUS: return z > 0 ? z + vn_qlog1p(vn_qexp(-z)) : vn_qlog1p(vn_qexp(z));
    default: return z; /* the others are not smooth: gate() */
    }
}

/* A value known within e, held in [low, high]: exact where it is surely outside. */
static vn_sharp_t held(vn_sharp_t z, vn_quad_t low, vn_quad_t high) {
    const double e = z.e * ROOM;
    if (z.v > high) return (vn_sharp_t){high, z.v - e > high ? 0 : z.e};
    if (z.v < low) return (vn_sharp_t){low, z.v + e < low ? 0 : z.e};
    return z;
}

static vn_sharp_t gate(const exact_t *x, int k, vn_sharp_t argument) {
    const vn_gate_t *g = &x->l->gate[k];
    const vn_sharp_t z = held(argument, -(vn_quad_t)g->clip, g->clip);
    const vn_quad_t a = g->alpha, b = g->beta;
    vn_sharp_t y;
    switch (g->kind) {
    case VN_GATE_RELU: return held(z, 0, INFINITY);
    case VN_GATE_HARD_SIGMOID: return held(add(mul((vn_sharp_t){.v = a}, z), (vn_sharp_t){.v = b}), 0, 1);
    case VN_GATE_THRESHOLDED: /* the side of the jump must be sure */
        if (!(vn_qabs(z.v - a) > z.e * ROOM)) return (vn_sharp_t){.e = INFINITY};
        return z.v > a ? z : (vn_sharp_t){.v = 0};
    default:
        y = (vn_sharp_t){function(g, z.v), vn_gate_apply(g, &x->rule, rough(z)).e};
        if (g->kind == VN_GATE_SIGMOID) y.e = fmin(y.e, (expm1(z.e) + U) * ROOM * (double)y.v); /* s' <= s: its digits near 0 */
        if (y.v != 0) y.e += TINY;
        return y;
    }
}

/* Products and bias of gate g that come from x, and from h. */
static vn_sharp_t from_x(const exact_t *x, int g, int64_t k) {
    const int64_t at = g * x->l->hidden + k;
    const vn_sharp_t p = {value(&x->base.x, at), doubt(&x->base.x, at, x->l->in)};
    return add(p, (vn_sharp_t){.v = x->l->wb ? x->l->wb[at] : 0});
}

static vn_sharp_t from_h(const exact_t *x, const vn_sharp_sums_t *sums, int64_t place, int g, int64_t k) {
    const vn_sharp_t p = {value(sums, place), doubt(sums, place, x->l->hidden)};
    return add(p, (vn_sharp_t){.v = x->l->rb ? x->l->rb[g * x->l->hidden + k] : 0});
}

static vn_sharp_t argument(const exact_t *x, int g, int64_t k, const vn_sharp_t *peep_of) {
    static const int order[4] = {0, 1, 2, 0}; /* peepholes stand as i o f */
    const vn_rnn_layer_t *l = x->l;
    vn_sharp_t z = add(from_x(x, g, k), from_h(x, &x->base.h, g * l->hidden + k, g, k));
    if (l->peep && peep_of) z = add(z, mul((vn_sharp_t){.v = l->peep[order[g] * l->hidden + k]}, *peep_of));
    return z;
}

/* ---- cells ---- */

static void lstm(const exact_t *x, vn_sharp_t *h, vn_sharp_t *c) {
    enum { I, O, F, C };
    const vn_rnn_layer_t *l = x->l;
    for (int64_t k = 0; k < l->hidden; ++k) {
        const vn_sharp_t i = gate(x, 0, argument(x, I, k, &c[k]));
        const vn_sharp_t f = l->input_forget ? complement(i) : gate(x, 0, argument(x, F, k, &c[k]));
        c[k] = add(mul(f, c[k]), mul(i, gate(x, 1, argument(x, C, k, NULL))));
        c[k].e *= ROOM;
        h[k] = mul(gate(x, 0, argument(x, O, k, &c[k])), gate(x, 2, c[k]));
    }
}

static void gru(exact_t *x, vn_sharp_t *h) {
    enum { UPDATE, RESET, HIDDEN };
    const vn_rnn_layer_t *l = x->l;
    const int64_t H = l->hidden;
    for (int64_t k = 0; k < H; ++k) {
        const vn_sharp_t update = argument(x, UPDATE, k, NULL);
        x->z[k] = gate(x, 0, update);
        x->rest[k] = l->gate[0].kind == VN_GATE_SIGMOID ? gate(x, 0, (vn_sharp_t){-update.v, update.e}) : complement(x->z[k]);
        x->r_gate[k] = gate(x, 0, argument(x, RESET, k, NULL));
    }
    if (!l->linear_before_reset) {
        for (int64_t k = 0; k < H; ++k) x->r_gate[k] = mul(x->r_gate[k], h[k]);
        vector(x, x->r_gate, H);
        vn_sharp_multiply(&x->base, x->base.r, H, HIDDEN * H, H, &x->base.scaled);
    }
    for (int64_t k = 0; k < H; ++k) {
        const vn_sharp_t rest = l->linear_before_reset ? mul(x->r_gate[k], from_h(x, &x->base.h, HIDDEN * H + k, HIDDEN, k))
                                                       : from_h(x, &x->base.scaled, k, HIDDEN, k);
        const vn_sharp_t candidate = gate(x, 1, add(from_x(x, HIDDEN, k), rest));
        h[k] = add(mul(x->rest[k], candidate), mul(x->z[k], h[k]));
    }
}

/* ---- samples ---- */

/* The input of a step and its product. */
static void take_input(vn_sharp_layer_t *x, int64_t t, int64_t b) {
    const vn_rnn_layer_t *l = x->l;
    memcpy(x->v.hi, l->x + (t * l->batch + b) * l->in, (size_t)l->in * sizeof(double));
    memset(x->v.lo, 0, (size_t)l->in * sizeof(double));
    memset(x->v.err, 0, (size_t)l->in * sizeof(double));
    vn_sharp_multiply(x, x->w, l->in, 0, x->width, &x->x);
}

static int64_t time_of(const vn_rnn_layer_t *l, int64_t b, int64_t step) { return l->reverse ? l->lens[b] - 1 - step : step; }

/* The state that was returned before the step at t. */
static const double *returned(const vn_rnn_layer_t *l, int64_t b, int64_t t) {
    return l->given + ((l->reverse ? t + 1 : t - 1) * l->batch + b) * l->hidden;
}

/* No state is known to within `hopeless` of it. */
static bool lost(const vn_sharp_t *h, int64_t n, double hopeless) {
    for (int64_t k = 0; k < n; ++k)
        if (h[k].e == 0 || h[k].e < hopeless * fabs((double)h[k].v)) return false;
    return n > 0;
}

static void void_of(vn_sharp_t *x, int64_t n) {
    for (int64_t k = 0; k < n; ++k) x[k] = (vn_sharp_t){.e = INFINITY};
}

/* Nothing is said of the steps from `step` on. */
static void give_up(const vn_rnn_layer_t *l, int64_t b, int64_t step, int64_t steps, vn_sharp_t *y, vn_sharp_t *h, vn_sharp_t *c) {
    if (step >= steps) return;
    for (; step < steps; ++step) void_of(y + (time_of(l, b, step) * l->batch + b) * l->hidden, l->hidden);
    void_of(h, l->hidden);
    if (c) void_of(c, l->hidden);
}

/* Steps of one sample. */
static void sample(exact_t *x, int64_t b, int64_t steps, vn_sharp_t *y, vn_sharp_t *h, vn_sharp_t *c) {
    const vn_rnn_layer_t *l = x->l;
    const int64_t H = l->hidden;
    for (int64_t k = 0; k < H; ++k) {
        h[k] = (vn_sharp_t){.v = l->h0 ? l->h0[b * H + k] : 0};
        if (c) c[k] = (vn_sharp_t){.v = l->c0 ? l->c0[b * H + k] : 0};
    }
    bool known = true;
    int64_t step = 0;
    for (; step < steps && known; ++step) {
        const int64_t t = time_of(l, b, step);
        for (int64_t k = 0; k < H && l->given && step > 0; ++k) h[k] = (vn_sharp_t){.v = returned(l, b, t)[k]};
        take_input(&x->base, t, b);
        vector(x, h, H);
        vn_sharp_multiply(&x->base, x->base.r, H, 0, x->base.width, &x->base.h);
        if (l->kind == 'L') lstm(x, h, c);
        if (l->kind == 'G') gru(x, h);
        for (int64_t k = 0; k < H && l->kind == 'R'; ++k) h[k] = gate(x, 0, argument(x, 0, k, NULL));
        for (int64_t k = 0; k < H; ++k) h[k].e *= ROOM;
        memcpy(y + (t * l->batch + b) * H, h, (size_t)H * sizeof *h);
        known = (l->given && !c) || !lost(h, H, x->hopeless);
    }
    give_up(l, b, step, steps, y, h, c);
}

static void put(const vn_sharp_plane_t *from, int64_t n, vn_sharp_t *to) {
    for (int64_t k = 0; k < n; ++k) to[k] = (vn_sharp_t){.v = (vn_quad_t)from->hi[k] + from->lo[k], .e = from->err[k]};
}

static void begin_at(vn_sharp_plane_t p, const double *from, int64_t n) {
    memset(p.lo, 0, (size_t)n * sizeof *p.lo);
    memset(p.err, 0, (size_t)n * sizeof *p.err);
    for (int64_t k = 0; k < n; ++k) p.hi[k] = from ? from[k] : 0;
}

/* The same a row at a time; rows: the states, then the scratch of a step. */
static void plain_sample(exact_t *x, int64_t b, int64_t steps, double *rows, vn_sharp_t *y, vn_sharp_t *h, vn_sharp_t *c) {
    const vn_rnn_layer_t *l = x->l;
    const int64_t H = l->hidden;
    const vn_sharp_plane_t hp = {rows, rows + H, rows + 2 * H}, cp = {rows + 3 * H, rows + 4 * H, rows + 5 * H};
    begin_at(hp, l->h0 ? l->h0 + b * H : NULL, H);
    begin_at(cp, l->c0 ? l->c0 + b * H : NULL, H);
    bool known = true;
    int64_t step = 0;
    for (; step < steps && known; ++step) {
        const int64_t t = time_of(l, b, step);
        if (l->given && step > 0) begin_at(hp, returned(l, b, t), H);
        take_input(&x->base, t, b);
        vn_sharp_plain_step(&x->base, rows + 6 * H, hp, cp);
        put(&hp, H, y + (t * l->batch + b) * H);
        known = (l->given && !c) || !lost(y + (t * l->batch + b) * H, H, x->hopeless);
    }
    put(&hp, H, h);
    if (c) put(&cp, H, c);
    give_up(l, b, step, steps, y, h, c);
}

static double *turned(const double *w, int64_t width, int64_t terms, bool already) {
    const size_t n = (size_t)(width * terms);
    double *y = vn_alloc(n ? n : 1, sizeof *y);
    if (y && already) memcpy(y, w, n * sizeof *y);
    for (int64_t i = 0; y && !already && i < terms; ++i)
        for (int64_t j = 0; j < width; ++j) y[i * width + j] = w[j * terms + i];
    return y;
}

vn_status_t vn_rnn_exact(const vn_rnn_layer_t *l, const int64_t *steps, double hopeless, vn_sharp_t *y, vn_sharp_t *h, vn_sharp_t *c) {
    exact_t x = {.base = {.l = l, .width = l->gates * l->hidden}, .l = l, .hopeless = hopeless};
    vn_sharp_layer_t *e = &x.base;
    x.rule = (vn_gate_rule_t){.u = U, .eta = 0, .t_tanh = 1, .t_sigmoid = 1, .t_exp = 1, .log_max = INFINITY};
    double **const planes[] = {&e->x.sum, &e->x.lost, &e->x.size, &e->x.err, &e->h.sum, &e->h.lost, &e->h.size, &e->h.err};
    double **const others[] = {&e->scaled.sum, &e->scaled.lost, &e->scaled.size, &e->scaled.err, &e->v.hi, &e->v.lo, &e->v.err};
    const size_t most = (size_t)(l->in > l->hidden ? l->in : l->hidden) + 1;
    const bool plain = vn_sharp_is_plain(l);
    double *rows = plain ? vn_alloc(most, (VN_SHARP_ROWS + 6) * sizeof *rows) : NULL;
    bool good = (e->w = turned(l->w, e->width, l->in, l->w_turned)) != NULL;
    good &= (e->r = turned(l->r, e->width, l->hidden, l->w_turned)) != NULL;
    for (int k = 0; k < 8; ++k) good &= (*planes[k] = vn_alloc((size_t)e->width + 1, sizeof(double))) != NULL;
    for (int k = 0; k < 7; ++k) good &= (*others[k] = vn_alloc(most, sizeof(double))) != NULL;
    x.z = vn_alloc(most, sizeof *x.z);
    x.rest = vn_alloc(most, sizeof *x.rest);
    x.r_gate = vn_alloc(most, sizeof *x.r_gate);
    good &= x.z && x.rest && x.r_gate && (rows || !plain);
    for (int64_t b = 0; b < l->batch && good; ++b) {
        vn_sharp_t *hb = h + b * l->hidden, *cb = c ? c + b * l->hidden : NULL;
        if (plain) plain_sample(&x, b, steps[b], rows, y, hb, cb);
        else sample(&x, b, steps[b], y, hb, cb);
    }
    vn_free(rows);
    vn_free(e->w);
    vn_free(e->r);
    for (int k = 0; k < 8; ++k) vn_free(*planes[k]);
    for (int k = 0; k < 7; ++k) vn_free(*others[k]);
    vn_free(x.z);
    vn_free(x.rest);
    vn_free(x.r_gate);
    return good ? VN_OK : vn_eval_fail(l->e, VN_ERR_NOMEM, "no memory");
}
