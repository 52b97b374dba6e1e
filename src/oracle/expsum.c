/* expsum.c -- rows of exponentials: weights, denominators and what each may be wrong by.
 *
 * Claim SOFTMAX-1 (sheet: softmax). With d = x - max, the computed weight is w (1 + a), |a| <= A = e^(delta + dx) (1 + 2 t u) - 1, where
 * delta = slope u (|d| + dx + dmax): the rounding of d (u |d|), of the product with log2 e where exp2 is used (u |d|, portable tiers), and
 * the roundings of the running maximum's steps in an online evaluation, which add up to at most u |d| because the steps after term k add up
 * to at most |d_k|. Each online rescaling multiplies by an exponential and rounds: (2 t + 2) u; their number is the number of prefix maxima
 * in the worse direction, plus the levels of a merge of partial rows. Denominator: D = g(n-1) + (1 + g(n-1)) sum p A + 2 n tau.
 */
#include "oracle/expsum.h"

#include <math.h>
#include <string.h>

typedef double lanes_t __attribute__((vector_size(64)));
typedef int64_t bits_t __attribute__((vector_size(64)));
enum { LANES = 8 };

vn_exp_model_t vn_exp_model(const vn_eval_t *e) {
    vn_exp_model_t m = {.acc = e->contract->accumulator, .u = vn_u(e), .tau = vn_tau(e), .t = vn_budget(e, "exp")};
    m.slope = (e->contract->tier == VN_TIER_IEEE ? 1 : 2) + 1;
    const vn_format_info_t *mid = vn_format_info(vn_mid_format(e));
    if (mid->p < vn_format_info(m.acc)->p) m.u_mid = mid->u, m.eta_mid = mid->eta;
    return m;
}

/* 1/k! for the Taylor sum of exp on |r| <= log(2)/2: the first term left out is below 2^-57. */
static const double inverse_factorial[] = {1.0,
                                           1.0,
                                           0x1p-1,
                                           0x1.5555555555555p-3,
                                           0x1.5555555555555p-5,
                                           0x1.1111111111111p-7,
                                           0x1.6c16c16c16c17p-10,
                                           0x1.a01a01a01a01ap-13,
                                           0x1.a01a01a01a01ap-16,
                                           0x1.71de3a556c734p-19,
                                           0x1.27e4fb7789f5cp-22,
                                           0x1.ae64567f544e4p-26,
                                           0x1.1eed8eff8d898p-29,
                                           0x1.6124613a86d09p-33};

VN_CLONES static void exp_lanes(double *x, int64_t n) {
    const double magic = 0x1.8p52, inv_ln2 = 0x1.71547652b82fep0, ln2_hi = 0x1.62e42fefa3800p-1, ln2_lo = 0x1.ef35793c76730p-45;
    for (int64_t k = 0; k < n; k += LANES) {
        lanes_t v;
        memcpy(&v, x + k, sizeof v);
        const bits_t low = v < -746.0; /* below half the smallest number: 0, and no overflow of the scale */
        const lanes_t least = {-746.0, -746.0, -746.0, -746.0, -746.0, -746.0, -746.0, -746.0};
        v = (lanes_t)(((bits_t)v & ~low) | ((bits_t)least & low));
        const lanes_t q = v * inv_ln2 + magic, kd = q - magic;
        const lanes_t r = (v - kd * ln2_hi) - kd * ln2_lo;
        lanes_t p = r * 0 + inverse_factorial[13];
        for (int i = 12; i >= 0; --i) p = p * r + inverse_factorial[i];
        const bits_t whole = (bits_t)q - (int64_t)0x4338000000000000; /* the integer k */
        const bits_t half = whole >> 1, rest = whole - half;
        const lanes_t a = (lanes_t)((half + 1023) << 52), b = (lanes_t)((rest + 1023) << 52);
        p = p * a * b;
        memcpy(x + k, &p, sizeof p);
    }
}

void vn_exp_array(double *x, int64_t n) {
    const int64_t whole = n - n % LANES;
    exp_lanes(x, whole);
    if (whole == n) return;
    double rest[LANES] = {0};
    memcpy(rest, x + whole, (size_t)(n - whole) * sizeof *x);
    exp_lanes(rest, LANES);
    memcpy(x + whole, rest, (size_t)(n - whole) * sizeof *x);
}

/* Prefix maxima of a row in one direction: how often an online evaluation rescales. */
static int64_t maxima(const double *x, int64_t n, int64_t first, int64_t step) {
    int64_t count = 0;
    double top = -INFINITY;
    for (int64_t k = 0; k < n; ++k) {
        const double v = x[first + k * step];
        if (v > top) {
            count += top > -INFINITY;
            top = v;
        }
    }
    return count;
}

vn_exp_row_t vn_exp_row(int64_t n, const double *x, const double *err, double *w) {
    vn_exp_row_t r = {.max = -INFINITY};
    bool nan = false;
    for (int64_t k = 0; k < n; ++k) {
        r.max = x[k] > r.max ? x[k] : r.max;
        nan |= x[k] != x[k];
    }
    if (nan) r.max = NAN;
    r.regular = isfinite(r.max);
    if (!r.regular) return r;
    for (int64_t k = 0; k < n; ++k) w[k] = x[k] - r.max;
    vn_exp_array(w, n);
    r.total = vn_sum2(w, n);
    for (int64_t k = 0; err && k < n; ++k) r.shift = err[k] > r.shift ? err[k] : r.shift; /* an exact -inf has error 0 */
    return r;
}

void vn_exp_wrong(const vn_exp_model_t *m, int64_t n, const double *x, const double *err, const double *w, vn_exp_row_t *row,
                  double *wrong) {
    const int64_t up = maxima(x, n, 0, 1), down = maxima(x, n, n - 1, -1);
    row->rescales = n > 1 ? (double)(up > down ? up : down) + ceil(log2((double)n)) : 0;
    const double fixed = (row->rescales * (2 * m->t + 2) + 2 * m->t) * m->u + m->u_mid, u = m->u;
    double mean = 0;
    for (int64_t k = 0; k < n; ++k) {
        if (w[k] == 0) { /* masked or far below: 0 times infinity counts as 0 */
            wrong[k] = 0;
            continue;
        }
        const double dx = err ? err[k] : 0;
        double delta = m->slope * u * (fabs(x[k] - row->max) + dx + row->shift) + dx;
        if (m->unfolded) delta += u * fabs(x[k]) + 2 * u * u * (fabs(x[k]) + fabs(row->max));
        const double a = (delta < 0x1p-10 ? delta * (1 + delta) : expm1(delta)) * (1 + fixed) + fixed * (1 + m->u_mid);
        wrong[k] = a;
        mean += w[k] * a;
    }
    mean *= (1 + (double)n * 0x1p-52) / row->total.hi;
    const double g = vn_gamma((double)(n - 1), u);
    row->spread = g + (1 + g) * mean + (double)n * (2 * m->tau + m->eta_mid / 2);
    if (!(row->spread < 1) || (m->unfolded && 1.45 * u * fabs(row->max) > 0.5)) row->spread = INFINITY;
}

double vn_exp_variance(const vn_exp_model_t *m, int64_t n, const double *x, const double *w, const vn_exp_row_t *row, double *s2) {
    const double l = row->total.hi;
    double v = 0;
    for (int64_t k = 0; k < n; ++k) {
        double s = 0;
        if (w[k] > m->tau) { /* smaller weights: neither they nor their errors count */
            const double ulp_w = vn_ulp(m->acc, w[k]) / w[k], p = w[k] / l;
            s = vn_node_variance(m->acc, x[k] - row->max) + 0.12 * ulp_w * ulp_w;
            if (m->u_mid > 0) s += 0.18 * m->u_mid * m->u_mid;
            if (x[k] == row->max) s = 0; /* exp(0) = 1 */
            v += p * p * s;
        }
        if (s2) s2[k] = s;
    }
    return v + vn_sum_variance(m->acc, w, n, l) / (l * l);
}
