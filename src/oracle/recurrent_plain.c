/* recurrent_plain.c -- steps of the second evaluation where gates are sigmoid and tanh: rows of double-double numbers, in vectors.
 *
 * Claim RNN-7: as RNN-6 with u = 2^-102 (DD-1) in place of 2^-104, and gates of VDD-2 and VDD-3. Slopes are taken at numbers of f64; the room
 * of each step covers that. A sum of four parts is wrong by at most 3 u of the sum of their magnitudes.
 */
#include <math.h>
#include <string.h>

#include "oracle/recurrent_exact.h"
#include "oracle/vdd.h"
#include "tensor/clones.h"

#define U VN_DD_U
#define TINY 0x1p-860 /* covers VN_VDD_TINY and products that underflow */

bool vn_sharp_is_plain(const vn_rnn_layer_t *l) {
    if (l->peep || l->input_forget) return false;
    for (int g = 0; g < (l->kind == 'R' ? 1 : l->kind == 'G' ? 2 : 3); ++g)
        if (!vn_gate_is_plain(&l->gate[g])) return false;
    return true;
}

VN_DD_FORM vn_dd_t at(vn_sharp_plane_t p, int64_t k) { return (vn_dd_t){p.hi[k], p.lo[k]}; }

/* A product with weights as it enters a gate's argument, with its bias. factor, least: of vn_dd_dot_own, twice of it. */
typedef struct part {
    vn_sharp_sums_t sums;
    const double *bias;
    double factor, least;
} part_t;

static part_t part(const vn_sharp_sums_t *s, int64_t first, const double *bias, int64_t bias_at, const double *zero, int64_t terms) {
    return (part_t){.sums = {s->sum + first, s->lost + first, s->size + first, s->err + first},
                    .bias = bias ? bias + bias_at : zero,
                    .factor = 2 * (vn_dd_dot_own(terms, 1) - vn_dd_dot_own(terms, 0)) * (1 + 0x1p-20),
                    .least = 2 * vn_dd_dot_own(terms, 0)};
}

/* z = product + bias. */
VN_CLONES static void part_loop(int64_t n, const double *restrict sum, const double *restrict lost, const double *restrict size,
                                const double *restrict err, const double *restrict bias, double factor, double least, double *restrict hi,
                                double *restrict lo, double *restrict e) {
    for (int64_t k = 0; k < n; ++k) {
        vn_dd_t a;
        a.hi = vn_dd_two_sum(sum[k], lost[k], &a.lo);
        const vn_dd_t s = vn_vdd_add_number(a, bias[k]);
        const double own = size[k] < 0x1p960 ? factor * size[k] + least : INFINITY;
        e[k] = (own + err[k] * VN_SHARP_ROOM + U * (fabs(a.hi) + fabs(bias[k]))) * VN_SHARP_ROOM;
        hi[k] = s.hi;
        lo[k] = s.lo;
    }
}

/* z += other. */
VN_CLONES static void add_loop(int64_t n, const double *restrict oh, const double *restrict ol, const double *restrict oe,
                               double *restrict hi, double *restrict lo, double *restrict e) {
    for (int64_t k = 0; k < n; ++k) {
        const vn_dd_t s = vn_dd_add((vn_dd_t){hi[k], lo[k]}, (vn_dd_t){oh[k], ol[k]});
        e[k] = (e[k] + oe[k] + U * (fabs(hi[k]) + fabs(oh[k]))) * VN_SHARP_ROOM;
        hi[k] = s.hi;
        lo[k] = s.lo;
    }
}

/* The error of a b. */
VN_V_FORM double product_error(double a, double ea, double b, double eb, double y) {
    const double carried = fabs(a) * eb + fabs(b) * ea + ea * eb, e = (carried + U * (fabs(y) + carried)) * VN_SHARP_ROOM + TINY;
    const double some_a = fabs(a) + ea, some_b = fabs(b) + eb, least = some_a < some_b ? some_a : some_b;
    return least == 0 ? 0.0 : e;
}

/* z = z b. */
VN_CLONES static void times_loop(int64_t n, const double *restrict bh, const double *restrict bl, const double *restrict be,
                                 double *restrict hi, double *restrict lo, double *restrict e) {
    for (int64_t k = 0; k < n; ++k) {
        const vn_dd_t y = vn_dd_mul((vn_dd_t){hi[k], lo[k]}, (vn_dd_t){bh[k], bl[k]});
        e[k] = product_error(hi[k], e[k], bh[k], be[k], y.hi);
        hi[k] = y.hi;
        lo[k] = y.lo;
    }
}

/* Logistic: the slope at the nearest point to 0 is w / (1 + w)^2; and s(z + e) / s(z) <= e^e, which is what counts where s is small. */
VN_CLONES static void logistics(int64_t n, double sign, const double *restrict fh, const double *restrict fl, const double *restrict fe,
                                double *restrict hi, double *restrict lo, double *restrict e) {
    for (int64_t k = 0; k < n; ++k) {
        const vn_dd_t y = vn_vdd_logistic((vn_dd_t){sign * fh[k], sign * fl[k]});
        const double near = fabs(fh[k]) > fe[k] ? fabs(fh[k]) - fe[k] : 0.0, w = vn_v_exp(-near);
        const double slope = w / ((1 + w) * (1 + w)) * fe[k], relative = fe[k] < 0x1p-10 ? fe[k] * (1 + fe[k]) * y.hi : INFINITY;
        const double carried = slope < relative ? slope : relative;
        hi[k] = y.hi;
        lo[k] = y.lo;
        e[k] = (carried < 1 ? carried : 1.0) * VN_SHARP_ROOM + VN_VDD_LOGISTIC_U * y.hi + TINY;
    }
}

/* Tanh: the slope is 4 w / (1 + w)^2 with w = exp(-2 |z|). */
VN_CLONES static void tanhs(int64_t n, const double *restrict fh, const double *restrict fl, const double *restrict fe, double *restrict hi,
                            double *restrict lo, double *restrict e) {
    for (int64_t k = 0; k < n; ++k) {
        const vn_dd_t y = vn_vdd_tanh((vn_dd_t){fh[k], fl[k]});
        const double near = fabs(fh[k]) > fe[k] ? fabs(fh[k]) - fe[k] : 0.0, w = vn_v_exp(-2 * near);
        const double carried = 4 * w / ((1 + w) * (1 + w)) * fe[k];
        const double some = fabs(fh[k]) + fe[k];
        hi[k] = y.hi;
        lo[k] = y.lo;
        e[k] = some == 0 ? 0.0 : (carried < 2 ? carried : 2.0) * VN_SHARP_ROOM + VN_VDD_TANH_U * fabs(y.hi) + TINY;
    }
}

static void one_part(int64_t n, part_t p, vn_sharp_plane_t z) {
    part_loop(n, p.sums.sum, p.sums.lost, p.sums.size, p.sums.err, p.bias, p.factor, p.least, z.hi, z.lo, z.err);
}
static void add(int64_t n, vn_sharp_plane_t other, vn_sharp_plane_t z) { add_loop(n, other.hi, other.lo, other.err, z.hi, z.lo, z.err); }
static void times(int64_t n, vn_sharp_plane_t b, vn_sharp_plane_t z) { times_loop(n, b.hi, b.lo, b.err, z.hi, z.lo, z.err); }

static void copied(int64_t n, vn_sharp_plane_t from, vn_sharp_plane_t to) {
    memcpy(to.hi, from.hi, (size_t)n * sizeof(double));
    memcpy(to.lo, from.lo, (size_t)n * sizeof(double));
    memcpy(to.err, from.err, (size_t)n * sizeof(double));
}

/* sign 0: tanh; else the logistic of sign * z. In place is allowed. */
static void function(int64_t n, double sign, vn_sharp_plane_t from, vn_sharp_plane_t to) {
    enum { PIECE = 128 };
    double hi[PIECE], lo[PIECE], err[PIECE];
    const vn_sharp_plane_t y = {hi, lo, err};
    for (int64_t k = 0; k < n; k += PIECE) {
        const int64_t m = n - k < PIECE ? n - k : PIECE;
        const vn_sharp_plane_t z = {from.hi + k, from.lo + k, from.err + k};
        if (sign == 0) tanhs(m, z.hi, z.lo, z.err, hi, lo, err);
        else logistics(m, sign, z.hi, z.lo, z.err, hi, lo, err);
        copied(m, y, (vn_sharp_plane_t){to.hi + k, to.lo + k, to.err + k});
    }
}

static void gate(const vn_rnn_layer_t *l, int which, vn_sharp_plane_t from, vn_sharp_plane_t to) {
    function(l->hidden, l->gate[which].kind == VN_GATE_TANH ? 0 : 1, from, to);
}

typedef struct step {
    vn_sharp_layer_t *x;
    vn_sharp_plane_t row[6]; /* scratch */
    const double *zero;      /* [hidden] */
} step_t;

static void argument_of_x(const step_t *s, int g, vn_sharp_plane_t z) {
    const vn_rnn_layer_t *l = s->x->l;
    const part_t p = part(&s->x->x, g * l->hidden, l->wb, g * l->hidden, s->zero, l->in);
    one_part(l->hidden, p, z);
}

static void argument_of_h(const step_t *s, const vn_sharp_sums_t *sums, int64_t first, int g, vn_sharp_plane_t z) {
    const vn_rnn_layer_t *l = s->x->l;
    const part_t p = part(sums, first, l->rb, g * l->hidden, s->zero, l->hidden);
    one_part(l->hidden, p, z);
}

/* Both parts of gate g; `other` is overwritten. */
static void argument(const step_t *s, int g, vn_sharp_plane_t z, vn_sharp_plane_t other) {
    argument_of_x(s, g, z);
    argument_of_h(s, &s->x->h, g * s->x->l->hidden, g, other);
    add(s->x->l->hidden, other, z);
}

static void lstm(const step_t *s, vn_sharp_plane_t h, vn_sharp_plane_t c) {
    enum { I, O, F, C };
    const vn_rnn_layer_t *l = s->x->l;
    const vn_sharp_plane_t a = s->row[0], b = s->row[1], other = s->row[2];
    argument(s, F, a, other);
    gate(l, 0, a, a);
    times(l->hidden, a, c);
    argument(s, I, a, other);
    gate(l, 0, a, a);
    argument(s, C, b, other);
    gate(l, 1, b, b);
    times(l->hidden, b, a);
    add(l->hidden, a, c);
    argument(s, O, h, other);
    gate(l, 0, h, h);
    gate(l, 2, c, a);
    times(l->hidden, a, h);
}

static void gru(const step_t *s, vn_sharp_plane_t h) {
    enum { UPDATE, RESET, HIDDEN };
    vn_sharp_layer_t *x = s->x;
    const vn_rnn_layer_t *l = x->l;
    const int64_t n = l->hidden;
    const vn_sharp_plane_t update = s->row[0], kept = s->row[1], reset = s->row[2], other = s->row[3];
    argument(s, UPDATE, update, other);
    if (l->gate[0].kind == VN_GATE_TANH) { /* 1 - z */
        gate(l, 0, update, update);
        for (int64_t k = 0; k < n; ++k) {
            const vn_dd_t y = vn_vdd_add_number(vn_dd_neg(at(update, k)), 1);
            kept.err[k] = (update.err[k] + U * (1 + fabs(update.hi[k]))) * VN_SHARP_ROOM;
            kept.hi[k] = y.hi;
            kept.lo[k] = y.lo;
        }
    } else { /* 1 - s(z) = s(-z) */
        function(n, -1, update, kept);
        function(n, 1, update, update);
    }
    argument(s, RESET, reset, other);
    gate(l, 0, reset, reset);
    if (l->linear_before_reset) {
        argument_of_h(s, &x->h, HIDDEN * n, HIDDEN, other);
        times(n, reset, other);
    } else {
        times(n, h, reset);
        copied(n, reset, x->v);
        vn_sharp_multiply(x, x->r, n, HIDDEN * n, n, &x->scaled);
        argument_of_h(s, &x->scaled, 0, HIDDEN, other);
    }
    argument_of_x(s, HIDDEN, reset);
    add(n, other, reset);
    gate(l, 1, reset, reset);
    times(n, reset, kept);
    times(n, update, h);
    add(n, kept, h);
}

void vn_sharp_plain_step(vn_sharp_layer_t *x, double *scratch, vn_sharp_plane_t h, vn_sharp_plane_t c) {
    const vn_rnn_layer_t *l = x->l;
    const int64_t n = l->hidden;
    step_t s = {.x = x, .zero = scratch + 18 * n};
    for (int k = 0; k < 6; ++k) s.row[k] = (vn_sharp_plane_t){scratch + 3 * k * n, scratch + (3 * k + 1) * n, scratch + (3 * k + 2) * n};
    copied(n, h, x->v);
    vn_sharp_multiply(x, x->r, n, 0, x->width, &x->h);
    if (l->kind == 'L') lstm(&s, h, c);
    if (l->kind == 'G') gru(&s, h);
    if (l->kind == 'R') {
        argument(&s, 0, h, s.row[0]);
        gate(l, 0, h, h);
    }
}
