/* resample.c -- interpolation along one axis, with error.
 *
 * Claims (bounds.md "resize, grid sample"; w computed weights, x taps with errors e, coordinate off by dc):
 *   RESIZE-1  linear: dc max adjacent difference over three cells + g(4) sum |w| (|x|+e) + 2 u |difference| (lerp form) + sum |w| e; an
 *             uncertain tap also widens the differences by 2 max e.
 *   RESIZE-2  cubic (|a| <= 1): 2.25 dc (range of six taps) + 24 u sum |x| + g(5) sum |w| (|x|+e) + sum |w| e.
 *   RESIZE-3  normalised weights r_k(c) / sum r (antialias, exclude_outside): each r_k moves by at most slope dc + raw_u u =: m, so the
 *             normalised weight by at most m (1 + n w_k) / (S - n m); as the weights sum to 1 before and after, the value moves by the sum
 *             of that times |x_k - y|. Rounding: g(n+3) sum |w| (|x|+e).
 *   RESIZE-7  own error: the same sums with u = 2^-53 for every rounding, that of the coordinate included; 0 of a linear step whose coordinate is exact
 *             and whose sum and products leave no rest (TwoSum, TwoProduct).
 * Variance: the coordinate part taken as uniform, a third of its largest value as deviation over sqrt 3, and one rounding per product and sum.
 */
#include "oracle/resample.h"

#include <math.h>

#include "oracle/dd.h"

double vn_cubic_weight(double a, double x) {
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
}

/* RESIZE-7: both parts grow with the unit roundoff that they were computed for. */
static double own_error(const vn_resample_rule_t *r, double moved, double round) {
    return moved * (0x1p-53 / r->u_coordinate) + round * (0x1p-53 / r->u);
}

/* (1 - f) a + f b == v with nothing rounded; numbers beyond 2^900, whose split overflows, and those below 2^-900, whose rests do, are not looked at. */
static bool linear_is_exact(double f, double a, double b, double v) {
    double less, p_rest, q_rest, rest;
    const double other = vn_dd_two_sum(1, -f, &less), p = vn_dd_two_prod(other, a, &p_rest), q = vn_dd_two_prod(f, b, &q_rest);
    const double least = fmin(a == 0 ? 1 : fabs(a), b == 0 ? 1 : fabs(b)), most = fmax(fabs(a), fabs(b));
    const bool within = least > 0x1p-900 && most < 0x1p900 && (f == 0 || f > 0x1p-60);
    return within && vn_dd_two_sum(p, q, &rest) == v && less == 0 && p_rest == 0 && q_rest == 0 && rest == 0;
}

static double third(double coordinate_part) { return coordinate_part * coordinate_part / 27; }

vn_sample_t vn_sample_linear(const vn_resample_rule_t *r, double f, double dc, const vn_sample_t w[VN_LINEAR_WINDOW]) {
    const double u = r->u, v = (1 - f) * w[1].v + f * w[2].v, diff = fabs(w[2].v - w[1].v);
    double step = diff, most = 0;
    for (int k = 0; k < VN_LINEAR_WINDOW; ++k) most = fmax(most, w[k].e);
    if (dc > 0) step = fmax(step, fmax(fabs(w[1].v - w[0].v), fabs(w[3].v - w[2].v)));
    const double size = (1 - f) * (fabs(w[1].v) + w[1].e) + f * (fabs(w[2].v) + w[2].e), moved = dc > 0 ? dc * (step + 2 * most) : 0;
    const double doubt = (1 - f) * w[1].e + f * w[2].e;
    double round = vn_gamma(4, u) * size + 2 * u * diff + r->eta;
    if (dc == 0 && (f == 0 || diff == 0) && most == 0) round = f == 0 ? 0 : round; /* on a sample: nothing is computed */
    const bool exact = moved == 0 && linear_is_exact(f, w[1].v, w[2].v, v);
    const double own = exact ? 0 : own_error(r, moved, round);
    return (vn_sample_t){.v = v,
                         .e = moved + round + doubt,
                         .s = third(moved) + 0.18 * u * u * (2 * size * size + v * v) + (1 - f) * (1 - f) * w[1].s + f * f * w[2].s,
                         .o = own + (1 - f) * w[1].o + f * w[2].o};
}

vn_sample_t vn_sample_cubic(const vn_resample_rule_t *r, double f, double dc, const vn_sample_t w[VN_CUBIC_WINDOW]) {
    const double u = r->u, k[4] = {vn_cubic_weight(r->a, f + 1), vn_cubic_weight(r->a, f), vn_cubic_weight(r->a, 1 - f),
                                   vn_cubic_weight(r->a, 2 - f)};
    double v = 0, size = 0, plain = 0, doubt = 0, lo = w[1].v, hi = w[1].v, most = 0, s = 0, own = 0;
    for (int i = 0; i < VN_CUBIC_WINDOW; ++i) {
        lo = fmin(lo, w[i].v);
        hi = fmax(hi, w[i].v);
        most = fmax(most, w[i].e);
    }
    for (int i = 0; i < 4; ++i) {
        const vn_sample_t *x = &w[i + 1];
        v += k[i] * x->v;
        size += fabs(k[i]) * (fabs(x->v) + x->e);
        plain += fabs(x->v) + x->e;
        doubt += fabs(k[i]) * x->e;
        own += fabs(k[i]) * x->o;
        s += k[i] * k[i] * (x->s + 0.36 * u * u * x->v * x->v);
    }
    const double steep = 2.25 * fmax(1, fabs(r->a)), moved = dc > 0 ? steep * dc * (hi - lo + 2 * most) : 0;
    double round = 24 * u * plain + vn_gamma(5, u) * size + r->eta;
    if (dc == 0 && f == 0 && most == 0) round = 0;
    return (vn_sample_t){
        .v = v, .e = moved + round + doubt, .s = third(moved) + s + 0.36 * u * u * size * size, .o = own_error(r, moved, round) + own};
}

vn_sample_t vn_sample_weighted(const vn_resample_rule_t *r, int64_t n, const double *weights, double raw_total, double slope, double raw_u,
                               double dc, const vn_sample_t *taps) {
    const double u = r->u, m = slope * dc + raw_u * u, count = (double)n, rest = raw_total - count * m;
    const double own_m = slope * dc * (0x1p-53 / r->u_coordinate) + raw_u * 0x1p-53;
    double v = 0, size = 0, doubt = 0, moved = 0, s = 0, own = 0;
    for (int64_t k = 0; k < n; ++k) {
        v += weights[k] * taps[k].v;
        size += fabs(weights[k]) * (fabs(taps[k].v) + taps[k].e);
        doubt += fabs(weights[k]) * taps[k].e;
        own += fabs(weights[k]) * taps[k].o;
        s += weights[k] * weights[k] * (taps[k].s + 0.36 * u * u * taps[k].v * taps[k].v);
    }
    for (int64_t k = 0; k < n; ++k) moved += (1 + count * fabs(weights[k])) * (fabs(taps[k].v - v) + taps[k].e + doubt);
    const double round = vn_gamma(count + 3, u) * size + count * r->eta, own_moved = rest > 0 ? moved * own_m / rest : INFINITY;
    moved = rest > 0 ? moved * m / rest : INFINITY;
    return (vn_sample_t){.v = v,
                         .e = moved + doubt + round,
                         .s = third(moved) + s + 0.18 * u * u * count / 3 * v * v,
                         .o = own_moved + own + round * (0x1p-53 / u)};
}
