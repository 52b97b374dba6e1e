/* recurrent_run.c -- the steps of one direction of RNN, GRU and LSTM.
 *
 * Claim RNN-2 (bounds.md "RNN"): the argument of a gate is a sum of n = in + hidden + biases (+ peephole) terms:
 * E_z = g(n) (|W| |x| + |R| (|h| + E_h) + |b|) + |R| E_h + |W| E_x + n eta/2, in any order; then RNN-1 per gate, products and sums with all
 * second-order terms; E_h and E_c are carried from step to step. A state stored in a narrower tensor type adds u_o |h| + eta_o / 2 per step.
 * Variance: first order, random order of the sum, errors of different steps independent.
 * Claim RNN-3: where the returned states are given, step t starts from the returned h of step t - 1, known up to the rounding of its store.
 * If every step keeps its bound, the whole is one execution under the contract; the bound does not grow with |R|^t. Where states are stored
 * and enter the products in one format, the returned h is the operand itself: exact.
 * Claim RNN-5: under contract.intermediate each of the two products of a gate, X W' and H R', is a sum by RNN-2 of its own terms, is rounded
 * to that format (RNN-4), and the argument is a sum of the two and the biases: where the contract rounds operands of products but not biases
 * (operand_mask without bit 2). Else it is open which products, biases and sums are rounded: the argument is a sum of these few parts, each
 * rounded, in the roundoff of that format, in any order. A reset gate that scales the operand of a product lies between two products: its bias
 * and the sum of H R' and bias are rounded too.
 */
#include <math.h>
#include <string.h>

#include "oracle/blas.h"
#include "oracle/recurrent.h"

/* Products of a plane with a weight matrix: value, absolute sum, carried error, sum of squares, carried variance. */
typedef struct planes {
    double *v, *a, *e, *q, *s;
} planes_t;

enum { COLUMNS = 256 };

typedef struct state {
    vn_rnn_layer_t *l;
    int64_t width;                  /* gates * hidden */
    double x_terms, h_terms;        /* terms that a product brings into the argument: all of its own, or 1 after it was rounded */
    double u, eta;                  /* of the sums that make the argument */
    planes_t xw, hr, rh;            /* [steps*batch, width], [batch, width], [batch, hidden] of the reset state (GRU) */
    double *r_tiles;                /* tiles of COLUMNS columns, each [hidden, COLUMNS]: a step streams the weights once, front to back */
    double *hv, *ha, *he, *hq, *hs; /* operand planes of a step */
    vn_tri_t *z;                    /* [hidden] scratch: reset gate */
    double *row;                    /* ROWS x [hidden] scratch of cells that go a row at a time; NULL: one by one */
    vn_tri_t *reset, *update;       /* [batch*hidden] */
} state_t;

static bool planes_new(planes_t *p, size_t n, bool bound, bool variance) {
    if (n == 0) n = 1;
    p->v = vn_alloc(n, sizeof(double));
    if (bound) p->a = vn_alloc(n, sizeof(double)), p->e = vn_alloc(n, sizeof(double));
    if (variance) p->q = vn_alloc(n, sizeof(double)), p->s = vn_alloc(n, sizeof(double));
    return p->v && (!bound || (p->a && p->e)) && (!variance || (p->q && p->s));
}

static void planes_free(planes_t *p) {
    vn_free(p->v);
    vn_free(p->a);
    vn_free(p->e);
    vn_free(p->q);
    vn_free(p->s);
}

static double *mapped(const double *x, int64_t n, bool square) {
    double *y = vn_plane_raw(n);
    for (int64_t i = 0; y && i < n; ++i) y[i] = square ? x[i] * x[i] : fabs(x[i]);
    return y;
}

/* out (columns of it) = plane [m, k] times columns [first, first + n) of the weights. */
static void multiply(const vn_rnn_layer_t *l, int64_t m, int64_t n, int64_t k, const double *a, const double *w, int64_t first, double *out,
                     int64_t ld) {
    const int64_t width = l->gates * l->hidden;
    if (l->w_turned) vn_dgemm(m, n, k, a, k, false, w + first, width, false, out, ld, false);
    else vn_dgemm(m, n, k, a, k, false, w + first * k, k, true, out, ld, false);
}

static vn_status_t inputs(state_t *s) {
    vn_rnn_layer_t *l = s->l;
    const int64_t rows = l->steps * l->batch, k = l->in, n = s->width;
    multiply(l, rows, n, k, l->x, l->w, 0, s->xw.v, n);
    if (!l->bound) return VN_OK;
    double *w_abs = mapped(l->w, n * k, false), *x_abs = mapped(l->x, rows * k, false);
    vn_status_t st = w_abs && x_abs ? VN_OK : vn_eval_fail(l->e, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) {
        multiply(l, rows, n, k, x_abs, w_abs, 0, s->xw.a, n);
        if (l->x_err || l->quantised_x > 0) {
            for (int64_t i = 0; i < rows * k; ++i) x_abs[i] = (l->x_err ? l->x_err[i] : 0) + l->quantised_x;
            multiply(l, rows, n, k, x_abs, w_abs, 0, s->xw.e, n);
        }
    }
    vn_free(w_abs);
    vn_free(x_abs);
    if (st != VN_OK || !l->variance) return st;
    double *w_sq = mapped(l->w, n * k, true), *x_sq = mapped(l->x, rows * k, true);
    if (w_sq && x_sq) multiply(l, rows, n, k, x_sq, w_sq, 0, s->xw.q, n);
    else st = vn_eval_fail(l->e, VN_ERR_NOMEM, "no memory");
    vn_free(w_sq);
    vn_free(x_sq);
    return st;
}

/* Planes of a state as it enters a product: rounded to the contract's operand format, with its doubt. settled: its store had that format, so
 * what was returned is the operand. */
static void operand(state_t *s, const vn_tri_t *h, bool settled) {
    const vn_rnn_layer_t *l = s->l;
    const vn_contract_t *c = l->e->contract;
    for (int64_t i = 0; i < l->batch * l->hidden; ++i) {
        vn_tri_t z = h[i];
        if (settled) z.e = z.s = 0;
        if (l->h_format != VN_FMT_NONE) z = vn_tri_round(l->h_format, c->operand_rounding, z);
        if (settled && c->ftz) z.e += vn_format_info(l->h_format)->tau;
        s->hv[i] = z.v;
        if (!l->bound) continue;
        s->he[i] = z.e + l->quantised_h;
        s->ha[i] = fabs(z.v) + s->he[i];
        if (l->variance) s->hq[i] = z.v * z.v, s->hs[i] = z.s;
    }
}

/* Row k of the weights times what the state holds at k, added to the planes of n columns. */
typedef struct factors {
    double v, a, e, q, s;
} factors_t;

VN_CLONES static void add_value(int64_t n, const double *restrict r, double f, double *restrict v) {
    for (int64_t j = 0; j < n; ++j) v[j] += f * r[j];
}

VN_CLONES static void add_bound(int64_t n, const double *restrict r, factors_t f, double *restrict a, double *restrict e) {
    for (int64_t j = 0; j < n; ++j) {
        const double x = fabs(r[j]);
        a[j] += f.a * x;
        e[j] += f.e * x;
    }
}

/* Four rows of the weights in one pass over the planes; every sum adds its terms in the same order as above. */
VN_CLONES static void add_value_4(int64_t n, const double *restrict r, const double *restrict f, double *restrict v) {
    const double f0 = f[0], f1 = f[1], f2 = f[2], f3 = f[3];
    for (int64_t j = 0; j < n; ++j) v[j] = (((v[j] + f0 * r[j]) + f1 * r[j + COLUMNS]) + f2 * r[j + 2 * COLUMNS]) + f3 * r[j + 3 * COLUMNS];
}

VN_CLONES static void add_bound_4(int64_t n, const double *restrict r, const double *restrict fa, const double *restrict fe,
                                  double *restrict a, double *restrict e) {
    const double a0 = fa[0], a1 = fa[1], a2 = fa[2], a3 = fa[3], e0 = fe[0], e1 = fe[1], e2 = fe[2], e3 = fe[3];
    for (int64_t j = 0; j < n; ++j) {
        const double r0 = fabs(r[j]), r1 = fabs(r[j + COLUMNS]), r2 = fabs(r[j + 2 * COLUMNS]), r3 = fabs(r[j + 3 * COLUMNS]);
        a[j] = (((a[j] + a0 * r0) + a1 * r1) + a2 * r2) + a3 * r3;
        e[j] = (((e[j] + e0 * r0) + e1 * r1) + e2 * r2) + e3 * r3;
    }
}

VN_CLONES static void add_squares(int64_t n, const double *restrict r, factors_t f, double *restrict q, double *restrict s) {
    for (int64_t j = 0; j < n; ++j) {
        const double x = r[j] * r[j];
        q[j] += f.q * x;
        s[j] += f.s * x;
    }
}

typedef struct recurrence {
    const state_t *s;
    int64_t first, n, ld;
    const planes_t *out;
} recurrence_t;

/* The wanted columns of one tile, all planes; every column adds its terms in the order of k, so threads do not matter. */
static void recur_tile(const recurrence_t *c, int64_t tile) {
    const state_t *s = c->s;
    const vn_rnn_layer_t *l = s->l;
    const int64_t start = tile * COLUMNS, last = c->first + c->n, begin = start > c->first ? start : c->first,
                  end = start + COLUMNS < last ? start + COLUMNS : last;
    const int64_t n = end - begin;
    const double *weights = s->r_tiles + start * l->hidden + (begin - start);
    for (int64_t b = 0; b < l->batch; ++b) {
        const int64_t at = b * c->ld + begin - c->first;
        double *const planes[] = {c->out->v, l->bound ? c->out->a : NULL, l->bound ? c->out->e : NULL, l->variance ? c->out->q : NULL,
                                  l->variance ? c->out->s : NULL};
        for (int p = 0; p < 5; ++p)
            if (planes[p]) memset(planes[p] + at, 0, (size_t)n * sizeof(double));
        int64_t first = 0;
        for (; first + 4 <= l->hidden && !l->variance; first += 4) {
            const double *r = weights + first * COLUMNS;
            const int64_t i = b * l->hidden + first;
            add_value_4(n, r, s->hv + i, planes[0] + at);
            if (l->bound) add_bound_4(n, r, s->ha + i, s->he + i, planes[1] + at, planes[2] + at);
        }
        for (int64_t k = first; k < l->hidden; ++k) {
            const double *r = weights + k * COLUMNS;
            const int64_t i = b * l->hidden + k;
            add_value(n, r, s->hv[i], planes[0] + at);
            if (l->bound) add_bound(n, r, (factors_t){.a = s->ha[i], .e = s->he[i]}, planes[1] + at, planes[2] + at);
            if (l->variance) add_squares(n, r, (factors_t){.q = s->hq[i], .s = s->hs[i]}, planes[3] + at, planes[4] + at);
        }
    }
}

static void recur_range(void *ctx, int64_t begin, int64_t end) {
    const recurrence_t *c = ctx;
    for (int64_t t = begin; t < end; ++t) recur_tile(c, c->first / COLUMNS + t);
}

static void recur(state_t *s, int64_t first, int64_t n, planes_t *out, int64_t ld) {
    recurrence_t c = {.s = s, .first = first, .n = n, .ld = ld, .out = out};
    if (n <= 0) return;
    const int64_t tiles = (first + n - 1) / COLUMNS - first / COLUMNS + 1;
    /* A step of few terms is done before a thread has started. */
    if ((double)n * (double)s->l->hidden * (double)s->l->batch < 0x1p19) recur_range(&c, 0, tiles);
    else vn_parallel(tiles, 1, recur_range, &c);
}

/* Weights [width, hidden] or [hidden, width] as tiles. */
static double *tiles_of(const vn_rnn_layer_t *l, int64_t width) {
    size_t n;
    const int64_t columns = (width + COLUMNS - 1) / COLUMNS * COLUMNS;
    if (!vn_size_mul((size_t)columns, (size_t)l->hidden, &n)) return NULL;
    double *y = vn_alloc(n ? n : 1, sizeof *y);
    for (int64_t j = 0; y && j < width; ++j) {
        double *column = y + j / COLUMNS * COLUMNS * l->hidden + j % COLUMNS;
        for (int64_t k = 0; k < l->hidden; ++k) column[k * COLUMNS] = l->w_turned ? l->r[k * width + j] : l->r[j * l->hidden + k];
    }
    return y;
}

typedef struct terms {
    double v, a, q, e, s; /* value, absolute sum, sum of squares, carried error, carried variance */
} terms_t;

/* A sum of n terms, each addition wrong by u. */
static vn_tri_t sum(const vn_rnn_layer_t *l, double u, double eta, double n, terms_t p) {
    const double inflate = 1 + n * 0x1p-52;
    vn_tri_t z = {.v = p.v};
    if (!l->bound) return z;
    z.e = vn_gamma(n, u) * p.a * inflate + p.e * inflate + n * eta / 2;
    if (l->variance) z.s = 0.18 * u * u * (n + 1) * (p.q / 6 + p.v * p.v / 3) + 0.18 * u * u * p.q + p.s;
    return z;
}

/* Products of `terms` terms that become one number each before they meet anything else. */
static void narrow(const vn_rnn_layer_t *l, const planes_t *p, int64_t count, int64_t terms) {
    for (int64_t i = 0; i < count && l->mid_format != VN_FMT_NONE; ++i) {
        terms_t of = {.v = p->v[i]};
        if (l->bound) of.e = p->e[i], of.a = p->a[i] + of.e;
        if (l->variance) of.q = p->q[i], of.s = p->s[i];
        vn_tri_t z = sum(l, l->rule.u, l->rule.eta, (double)terms, of);
        if (!l->mid_open) z = vn_tri_round(l->mid_format, VN_RNE, z);
        p->v[i] = z.v;
        if (l->bound) p->e[i] = z.e, p->a[i] = fabs(z.v) + z.e;
        if (l->variance) p->q[i] = z.v * z.v, p->s[i] = z.s;
    }
}

/* Gate g of sample b at step t: products with x and h, biases; the part of h may be left out. */
static vn_tri_t argument(const state_t *s, int64_t t, int64_t b, int g, int64_t k, bool with_h, const vn_tri_t *peep_of) {
    const vn_rnn_layer_t *l = s->l;
    const int64_t at = g * l->hidden + k, x = (t * l->batch + b) * s->width + at, h = b * s->width + at;
    const double wb = l->wb ? l->wb[at] : 0, rb = l->rb && with_h ? l->rb[at] : 0;
    double n = s->x_terms + 2;
    terms_t p = {.v = s->xw.v[x] + wb + rb};
    if (l->bound) p.a = s->xw.a[x] + s->xw.e[x] + fabs(wb) + fabs(rb), p.e = s->xw.e[x];
    if (l->variance) p.q = s->xw.q[x] + wb * wb + rb * rb, p.s = s->xw.s[x];
    if (with_h) {
        n += s->h_terms;
        p.v += s->hr.v[h];
        if (l->bound) p.a += s->hr.a[h], p.e += s->hr.e[h];
        if (l->variance) p.q += s->hr.q[h], p.s += s->hr.s[h];
    }
    if (l->peep && peep_of) {
        static const int order[4] = {0, 1, 2, 0}; /* peepholes stand as i o f; the cell gate has none */
        const double weight = l->peep[order[g] * l->hidden + k], term = weight * peep_of->v;
        n += 1;
        p.v += term;
        p.a += fabs(weight) * (fabs(peep_of->v) + peep_of->e);
        p.q += term * term;
        p.e += fabs(weight) * peep_of->e;
        p.s += weight * weight * peep_of->s;
    }
    return sum(l, s->u, s->eta, n, p);
}

static vn_tri_t complement(const vn_rnn_layer_t *l, vn_tri_t a) { /* 1 - a, one rounding */
    const double y = 1 - a.v;
    return (vn_tri_t){.v = y, .e = a.e + l->rule.u * (fabs(y) + a.e), .s = a.s + 0.18 * l->rule.u * l->rule.u * y * y};
}

static vn_tri_t stored(const vn_rnn_layer_t *l, vn_tri_t h) {
    if (l->u_state > 0 && l->bound) {
        h.e += l->u_state * (fabs(h.v) + h.e) + l->eta_state / 2;
        h.s += 0.18 * l->u_state * l->u_state * h.v * h.v;
    }
    return h;
}

/* The doubts that gates were asked with. */
static void note(const state_t *s, int64_t n, const double *e) {
    for (int64_t k = 0; k < n && e; ++k)
        if (!(e[k] <= s->l->most)) s->l->most = isnan(e[k]) ? INFINITY : e[k];
}

static vn_tri_t gate(const state_t *s, int k, vn_tri_t z) {
    note(s, 1, &z.e);
    return vn_gate_apply(&s->l->gate[k], &s->l->rule, z);
}

static void rnn_cell(state_t *s, int64_t t, int64_t b, vn_tri_t *h) {
    for (int64_t k = 0; k < s->l->hidden; ++k) h[k] = stored(s->l, gate(s, 0, argument(s, t, b, 0, k, true, NULL)));
}

/* ---- LSTM cells of plain gates, a row of hidden units at a time: the same formulas, without variance and peepholes ---- */

enum { ROWS = 12 };

/* Argument and error of one gate, see argument() and sum(). */
VN_CLONES static void argument_values(int64_t n, const double *restrict x, const double *restrict wb, const double *restrict rb,
                                      const double *restrict h, double *restrict z) {
    for (int64_t k = 0; k < n; ++k) z[k] = x[k] + wb[k] + rb[k] + h[k];
}

typedef struct argument_planes {
    const double *xa, *xe, *wb, *rb, *ha, *he;
} argument_planes_t;

VN_CLONES static void argument_errors(int64_t n, argument_planes_t p, double g, double inflate, double floor_, double *restrict e) {
    const double *restrict xa = p.xa, *restrict xe = p.xe, *restrict wb = p.wb, *restrict rb = p.rb, *restrict ha = p.ha,
                           *restrict he = p.he;
    for (int64_t k = 0; k < n; ++k) {
        const double a = (xa[k] + xe[k] + fabs(wb[k]) + fabs(rb[k])) + (ha[k] + he[k]);
        e[k] = g * a * inflate + (xe[k] + he[k]) * inflate + floor_;
    }
}

static void argument_row(const state_t *s, int64_t t, int64_t b, int g, const double *zero, double *z, double *e) {
    const vn_rnn_layer_t *l = s->l;
    const int64_t at = g * l->hidden, x = (t * l->batch + b) * s->width + at, h = b * s->width + at;
    const double n = s->x_terms + 2 + s->h_terms, *wb = l->wb ? l->wb + at : zero, *rb = l->rb ? l->rb + at : zero;
    argument_values(l->hidden, s->xw.v + x, wb, rb, s->hr.v + h, z);
    if (!l->bound) return;
    const argument_planes_t p = {s->xw.a + x, s->xw.e + x, wb, rb, s->hr.a + h, s->hr.e + h};
    argument_errors(l->hidden, p, vn_gamma(n, s->u), 1 + n * 0x1p-52, n * s->eta / 2, e);
}

static void lstm_row(const state_t *s, int64_t t, int64_t b, vn_tri_t *h, vn_tri_t *c) {
    const vn_rnn_layer_t *l = s->l;
    const int64_t H = l->hidden;
    const double u = l->rule.u, eta = l->rule.eta;
    enum { I, O, F, C, CELL, ZERO };
    double *v[CELL + 1], *e[CELL + 1], *zero = s->row + 2 * ZERO * H; /* never written: as it was made */
    for (int g = 0; g <= CELL; ++g) v[g] = s->row + 2 * g * H, e[g] = l->bound ? v[g] + H : NULL;
    for (int g = 0; g <= C; ++g) {
        argument_row(s, t, b, g, zero, v[g], e[g]);
        note(s, H, e[g]);
        vn_gate_row(&l->gate[g == C], &l->rule, H, v[g], e[g], v[g], e[g]);
    }
    for (int64_t k = 0; k < H; ++k) {
        const vn_tri_t i = {v[I][k], e[I] ? e[I][k] : 0, 0}, f = {v[F][k], e[F] ? e[F][k] : 0, 0}, g = {v[C][k], e[C] ? e[C][k] : 0, 0};
        c[k] = vn_tri_add(u, vn_tri_mul(u, eta, f, c[k]), vn_tri_mul(u, eta, i, g));
        v[CELL][k] = c[k].v;
        if (e[CELL]) e[CELL][k] = c[k].e;
    }
    note(s, H, e[CELL]);
    vn_gate_row(&l->gate[2], &l->rule, H, v[CELL], e[CELL], v[CELL], e[CELL]);
    for (int64_t k = 0; k < H; ++k) {
        const vn_tri_t o = {v[O][k], e[O] ? e[O][k] : 0, 0}, y = {v[CELL][k], e[CELL] ? e[CELL][k] : 0, 0};
        h[k] = stored(l, vn_tri_mul(u, eta, o, y));
    }
}

static bool by_rows(const vn_rnn_layer_t *l) {
    return l->kind == 'L' && !l->variance && !l->peep && !l->input_forget && vn_gate_is_plain(&l->gate[0]) &&
           vn_gate_is_plain(&l->gate[1]) && vn_gate_is_plain(&l->gate[2]);
}

static void lstm_cell(const state_t *s, int64_t t, int64_t b, vn_tri_t *h, vn_tri_t *c) {
    const vn_rnn_layer_t *l = s->l;
    const double u = l->rule.u, eta = l->rule.eta;
    enum { I, O, F, C };
    for (int64_t k = 0; k < l->hidden; ++k) {
        const vn_tri_t i = gate(s, 0, argument(s, t, b, I, k, true, &c[k]));
        const vn_tri_t f = l->input_forget ? complement(l, i) : gate(s, 0, argument(s, t, b, F, k, true, &c[k]));
        const vn_tri_t g = gate(s, 1, argument(s, t, b, C, k, true, NULL));
        const vn_tri_t cell = vn_tri_add(u, vn_tri_mul(u, eta, f, c[k]), vn_tri_mul(u, eta, i, g));
        const vn_tri_t o = gate(s, 0, argument(s, t, b, O, k, true, &cell));
        c[k] = cell;
        h[k] = stored(l, vn_tri_mul(u, eta, o, gate(s, 2, cell)));
    }
}

enum { UPDATE, RESET, HIDDEN };

/* The reset gate where it scales the operand of a product: it lies between two products, so biases and their sum with H R' are rounded as well. */
static vn_tri_t reset_argument(const state_t *s, int64_t t, int64_t b, int64_t k) {
    const vn_rnn_layer_t *l = s->l;
    if (l->mid_format == VN_FMT_NONE || l->mid_open || l->linear_before_reset) return argument(s, t, b, RESET, k, true, NULL);
    const int64_t at = RESET * l->hidden + k, i = (t * l->batch + b) * s->width + at, j = b * s->width + at;
    const double u = l->rule.u, wb = l->wb ? l->wb[at] : 0, rb = l->rb ? l->rb[at] : 0;
    const vn_tri_t x = {s->xw.v[i], l->bound ? s->xw.e[i] : 0, l->variance ? s->xw.s[i] : 0},
                   h = {s->hr.v[j], l->bound ? s->hr.e[j] : 0, l->variance ? s->hr.s[j] : 0};
    const vn_tri_t bias = vn_tri_round(l->mid_format, VN_RNE, vn_tri_add(u, (vn_tri_t){.v = wb}, (vn_tri_t){.v = rb}));
    return vn_tri_add(u, x, vn_tri_round(l->mid_format, VN_RNE, vn_tri_add(u, h, bias)));
}

static void gru_gates(state_t *s, int64_t t, int64_t b) {
    const vn_rnn_layer_t *l = s->l;
    for (int64_t k = 0; k < l->hidden; ++k) {
        s->update[b * l->hidden + k] = gate(s, 0, argument(s, t, b, UPDATE, k, true, NULL));
        s->reset[b * l->hidden + k] = gate(s, 0, reset_argument(s, t, b, k));
    }
}

static void gru_cell(state_t *s, int64_t t, int64_t b, vn_tri_t *h) {
    const vn_rnn_layer_t *l = s->l;
    const double u = l->rule.u, eta = l->rule.eta;
    for (int64_t k = 0; k < l->hidden; ++k) {
        const vn_tri_t z = s->update[b * l->hidden + k], r = s->reset[b * l->hidden + k];
        vn_tri_t arg = argument(s, t, b, HIDDEN, k, false, NULL), rest;
        const int64_t at = HIDDEN * l->hidden + k, from = b * l->hidden + k;
        const double rb = l->rb ? l->rb[at] : 0;
        const planes_t *p = l->linear_before_reset ? &s->hr : &s->rh;
        const int64_t i = l->linear_before_reset ? b * s->width + at : from;
        terms_t of = {.v = p->v[i] + rb};
        if (l->bound) of.a = p->a[i] + fabs(rb), of.e = p->e[i];
        if (l->variance) of.q = p->q[i] + rb * rb, of.s = p->s[i];
        rest = sum(l, s->u, s->eta, s->h_terms + 1, of);
        if (l->linear_before_reset) rest = vn_tri_mul(s->u, s->eta, r, rest);
        arg = vn_tri_add(s->u, arg, rest);
        /* the additions of both parts may be mixed in any order: count them all on all terms */
        if (l->bound && !l->linear_before_reset) {
            const int64_t x = (t * l->batch + b) * s->width + at;
            const double a = s->xw.a[x] + p->a[i] + fabs(rb) + (l->wb ? fabs(l->wb[at]) : 0), n = s->x_terms + s->h_terms + 2;
            arg.e = fmax(arg.e, vn_gamma(n, s->u) * a * (1 + n * 0x1p-52) + (s->xw.e[x] + p->e[i]) * (1 + s->u) + n * s->eta / 2);
        }
        const vn_tri_t cand = gate(s, 1, arg);
        vn_tri_t y = vn_tri_add(u, vn_tri_mul(u, eta, complement(l, z), cand), vn_tri_mul(u, eta, z, h[k]));
        y.e += 3 * u * fabs(z.v) * (fabs(cand.v) + fabs(h[k].v)); /* also as cand + z (h - cand) */
        h[k] = stored(l, y);
    }
}

/* GRU, reset before the product: the operand is r * h. */
static void gru_reset_product(state_t *s, const vn_tri_t *h) {
    vn_rnn_layer_t *l = s->l;
    vn_tri_t *scaled = s->z;
    for (int64_t i = 0; i < l->batch * l->hidden; ++i) scaled[i] = vn_tri_mul(l->rule.u, l->rule.eta, s->reset[i], h[i]);
    operand(s, scaled, false);
    recur(s, HIDDEN * l->hidden, l->hidden, &s->rh, l->hidden);
    narrow(l, &s->rh, l->batch * l->hidden, l->hidden);
}

/* The state that was returned before this step, for every sample that is still running. */
static void take_given(vn_rnn_layer_t *l, int64_t step) {
    for (int64_t b = 0; b < l->batch; ++b) {
        if (step >= l->lens[b]) continue;
        const int64_t before = l->reverse ? l->lens[b] - step : step - 1;
        const double *from = l->given + (before * l->batch + b) * l->hidden;
        for (int64_t k = 0; k < l->hidden; ++k)
            l->h[b * l->hidden + k] =
                (vn_tri_t){.v = from[k], .e = l->u_given > 0 ? l->u_given * (1 + 2 * l->u_given) * fabs(from[k]) + l->eta_given / 2 : 0};
    }
}

static void steps(state_t *s) {
    vn_rnn_layer_t *l = s->l;
    const int64_t H = l->hidden;
    const bool one_format = l->h_format != VN_FMT_NONE && l->h_format == l->given_format && l->e->contract->operand_rounding == VN_RNE;
    for (int64_t step = 0; step < l->steps; ++step) {
        if (l->given && step > 0) take_given(l, step);
        operand(s, l->h, l->given && step > 0 && one_format);
        recur(s, 0, s->width, &s->hr, s->width);
        narrow(l, &s->hr, l->batch * s->width, l->hidden);
        if (l->kind == 'G') {
            for (int64_t b = 0; b < l->batch; ++b)
                if (step < l->lens[b]) gru_gates(s, l->reverse ? l->lens[b] - 1 - step : step, b);
            if (!l->linear_before_reset) gru_reset_product(s, l->h);
        }
        for (int64_t b = 0; b < l->batch; ++b) {
            if (step >= l->lens[b]) continue; /* past the end of this sample: state kept, output zero */
            const int64_t t = l->reverse ? l->lens[b] - 1 - step : step;
            vn_tri_t *h = l->h + b * H;
            if (l->kind == 'R') rnn_cell(s, t, b, h);
            if (l->kind == 'G') gru_cell(s, t, b, h);
            if (l->kind == 'L') (s->row ? lstm_row : lstm_cell)(s, t, b, h, l->c + b * H);
            if (l->y) memcpy(l->y + (t * l->batch + b) * H, h, (size_t)H * sizeof *h);
        }
    }
}

vn_status_t vn_rnn_run(vn_rnn_layer_t *l) {
    const bool one = l->mid_format != VN_FMT_NONE, open = one && l->mid_open;
    const vn_format_info_t *mid = vn_format_info(l->mid_format);
    state_t s = {.l = l,
                 .width = l->gates * l->hidden,
                 .x_terms = open  ? 2
                            : one ? 1
                                  : (double)l->in, /* open: one more, each part may be rounded by itself too */
                 .h_terms = one ? 1 : (double)l->hidden,
                 .u = open ? mid->u : l->rule.u,
                 .eta = open ? mid->eta : l->rule.eta};
    l->most = 0;
    const int64_t n = l->batch * l->hidden;
    const size_t room = (size_t)(n ? n : 1);
    bool good = planes_new(&s.xw, (size_t)(l->steps * l->batch * s.width), l->bound, l->variance) &&
                planes_new(&s.hr, (size_t)(l->batch * s.width), l->bound, l->variance);
    double **planes[] = {&s.hv, &s.ha, &s.he, &s.hq, &s.hs};
    for (int i = 0; i < 5; ++i) good &= (*planes[i] = vn_alloc(room, sizeof(double))) != NULL;
    good &= (s.r_tiles = tiles_of(l, s.width)) != NULL;
    if (by_rows(l)) good &= (s.row = vn_alloc(room, ROWS * sizeof *s.row)) != NULL;
    if (l->kind == 'G') {
        good &= planes_new(&s.rh, room, l->bound, l->variance);
        s.z = vn_alloc(room, sizeof *s.z);
        s.reset = vn_alloc(room, sizeof *s.reset);
        s.update = vn_alloc(room, sizeof *s.update);
        good &= s.z && s.reset && s.update;
    }
    vn_status_t st = good ? VN_OK : vn_eval_fail(l->e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < n; ++i) {
        l->h[i] = (vn_tri_t){.v = l->h0 ? l->h0[i] : 0};
        if (l->c) l->c[i] = (vn_tri_t){.v = l->c0 ? l->c0[i] : 0};
    }
    if (st == VN_OK) st = inputs(&s);
    if (st == VN_OK) {
        narrow(l, &s.xw, l->steps * l->batch * s.width, l->in);
        steps(&s);
    }
    planes_free(&s.xw);
    planes_free(&s.hr);
    planes_free(&s.rh);
    for (int i = 0; i < 5; ++i) vn_free(*planes[i]);
    vn_free(s.r_tiles);
    vn_free(s.row);
    vn_free(s.z);
    vn_free(s.reset);
    vn_free(s.update);
    return st;
}
