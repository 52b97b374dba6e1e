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

#include "oracle/elementwise.h"
#include "oracle/vmath.h"

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

void vn_exp_array(double *x, int64_t n) { vn_v_exp_array(x, x, n); }

VN_CLONES static void shifted_exp(const double *restrict x, double max, int64_t n, double *restrict w) {
    for (int64_t k = 0; k < n; ++k) w[k] = vn_v_exp(x[k] - max);
}

/* Largest of eight interleaved parts each, and whether a NaN is among them. */
VN_CLONES static void max_lanes(const double *x, int64_t n, double *out, int64_t *nan) {
    lanes_t top = {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    bits_t bad = {0};
    for (int64_t k = 0; k < n; k += LANES) {
        lanes_t v;
        memcpy(&v, x + k, sizeof v);
        const bits_t above = v > top;
        top = (lanes_t)(((bits_t)v & above) | ((bits_t)top & ~above));
        bad |= v != v;
    }
    memcpy(out, &top, sizeof top);
    for (int l = 0; l < LANES; ++l) *nan |= bad[l];
}

/* Largest number; *nan is set where there is a NaN, which is passed over. */
static double largest(const double *x, int64_t n, bool *nan) {
    double part[LANES], top = -INFINITY;
    int64_t bad = 0;
    const int64_t whole = n - n % LANES;
    max_lanes(x, whole, part, &bad);
    for (int l = 0; l < LANES; ++l) top = part[l] > top ? part[l] : top;
    for (int64_t k = whole; k < n; ++k) {
        top = x[k] > top ? x[k] : top;
        bad |= x[k] != x[k];
    }
    *nan |= bad != 0;
    return top;
}

/* Prefix maxima of a row in both directions, how often an online evaluation rescales; pieces below the maximum so far are passed over. */
static int64_t maxima(const double *x, int64_t n) {
    enum { PIECE = 128, PIECES = 256 };
    double top[PIECES];
    int64_t most = 0, size = PIECE;
    bool nan = false;
    while (size * PIECES < n) size *= 2;
    const int64_t pieces = (n + size - 1) / size;
    for (int64_t i = 0; i < pieces; ++i) top[i] = largest(x + i * size, n - i * size < size ? n - i * size : size, &nan);
    for (int backwards = 0; backwards < 2; ++backwards) {
        int64_t count = 0;
        double so_far = -INFINITY;
        for (int64_t p = 0; p < pieces; ++p) {
            const int64_t i = backwards ? pieces - 1 - p : p, m = n - i * size < size ? n - i * size : size;
            if (!(top[i] > so_far)) continue;
            for (int64_t k = 0; k < m && so_far < top[i]; ++k) {
                const double v = x[i * size + (backwards ? m - 1 - k : k)];
                if (!(v > so_far)) continue;
                count += so_far > -INFINITY;
                so_far = v;
            }
        }
        most = count > most ? count : most;
    }
    return most;
}

vn_exp_row_t vn_exp_row(int64_t n, const double *x, const double *err, double *w) {
    vn_exp_row_t r = {.max = -INFINITY};
    bool nan = false, ignored = false;
    r.max = largest(x, n, &nan);
    if (nan) r.max = NAN;
    r.regular = isfinite(r.max);
    if (!r.regular) return r;
    shifted_exp(x, r.max, n, w);
    r.total = vn_sum2(w, n);
    if (err) r.shift = fmax(largest(err, n, &ignored), 0); /* an exact -inf has error 0 */
    return r;
}

/* What is the same for a whole row. */
typedef struct wrong_model {
    double max, shift, slope, fixed, outer; /* slope: times u */
    double u_x, u_abs;                      /* of an unfolded exp2: u and 2 u^2 |max|; 0 */
} wrong_model_t;

/* The argument's error; weights of 0 (masked or far below) count as exact. Returns how many are too large for the expansion of expm1. */
VN_CLONES static int64_t deltas(const wrong_model_t *m, int64_t n, const double *restrict x, const double *restrict w,
                                double *restrict wrong) {
    int64_t large = 0;
    for (int64_t k = 0; k < n; ++k) {
        const double delta = m->slope * (fabs(x[k] - m->max) + m->shift) + (m->u_x * fabs(x[k]) + m->u_abs);
        wrong[k] = w[k] == 0 ? 0.0 : delta;
        large += wrong[k] >= 0x1p-10 ? 1 : 0;
    }
    return large;
}

VN_CLONES static int64_t deltas_of(const wrong_model_t *m, int64_t n, const double *restrict x, const double *restrict err,
                                   const double *restrict w, double *restrict wrong) {
    int64_t large = 0;
    for (int64_t k = 0; k < n; ++k) {
        const double delta = m->slope * (fabs(x[k] - m->max) + err[k] + m->shift) + err[k] + (m->u_x * fabs(x[k]) + m->u_abs);
        wrong[k] = w[k] == 0 ? 0.0 : delta;
        large += wrong[k] >= 0x1p-10 ? 1 : 0;
    }
    return large;
}

/* delta -> e^delta - 1 (at most delta (1 + delta) below 2^-10), then the weight's own roundings. */
VN_CLONES static void factors_small(const wrong_model_t *m, int64_t n, const double *restrict w, double *restrict wrong) {
    for (int64_t k = 0; k < n; ++k) {
        const double a = wrong[k] * (1 + wrong[k]) * (1 + m->fixed) + m->outer;
        wrong[k] = w[k] == 0 ? 0.0 : a;
    }
}

VN_CLONES static void factors_large(const wrong_model_t *m, int64_t n, const double *restrict w, double *restrict wrong) {
    for (int64_t k = 0; k < n; ++k) {
        const double d = wrong[k], e = d < 0x1p-10 ? d * (1 + d) : vn_v_expm1(d) * (1 + 0x1p-50);
        wrong[k] = w[k] == 0 ? 0.0 : e * (1 + m->fixed) + m->outer;
    }
}

/* All of it at once where no argument's error reaches 2^-10; out: eight parts of sum w A. n a multiple of 8. */
VN_CLONES static void small_lanes(const wrong_model_t *m, int64_t n, const double *restrict x, const double *restrict w,
                                  double *restrict wrong, double *restrict out) {
    const lanes_t zero = {0};
    lanes_t sum = zero;
    for (int64_t k = 0; k < n; k += LANES) {
        lanes_t v, p;
        memcpy(&v, x + k, sizeof v);
        memcpy(&p, w + k, sizeof p);
        const lanes_t d = (lanes_t)((bits_t)(v - m->max) & INT64_MAX), size = (lanes_t)((bits_t)v & INT64_MAX);
        const lanes_t delta = m->slope * (d + m->shift) + (m->u_x * size + m->u_abs);
        const lanes_t a = delta * (1 + delta) * (1 + m->fixed) + m->outer;
        const lanes_t kept = (lanes_t)((bits_t)a & (p != zero));
        sum += p * kept;
        memcpy(wrong + k, &kept, sizeof kept);
    }
    memcpy(out, &sum, sizeof sum);
}

VN_CLONES static void dot_lanes(const double *x, const double *y, int64_t n, double *out) {
    lanes_t s = {0};
    for (int64_t k = 0; k < n; k += LANES) {
        lanes_t v, w;
        memcpy(&v, x + k, sizeof v);
        memcpy(&w, y + k, sizeof w);
        s += v * w;
    }
    memcpy(out, &s, sizeof s);
}

/* Sum of x y in eight interleaved parts. */
static double dot(const double *x, const double *y, int64_t n) {
    double part[LANES], s = 0;
    const int64_t whole = n - n % LANES;
    dot_lanes(x, y, whole, part);
    for (int64_t k = whole; k < n; ++k) part[k - whole] += x[k] * y[k];
    for (int l = 0; l < LANES; ++l) s += part[l];
    return s;
}

void vn_exp_wrong(const vn_exp_model_t *m, int64_t n, const double *x, const double *err, const double *w, vn_exp_row_t *row,
                  double *wrong) {
    if (!row->counted) {
        row->rescales = n > 1 ? (double)maxima(x, n) + ceil(log2((double)n)) : 0;
        row->counted = true;
    }
    const double fixed = (row->rescales * (2 * m->t + 2) + 2 * m->t) * m->u + m->u_mid, u = m->u;
    const wrong_model_t c = {.max = row->max,
                             .shift = row->shift,
                             .slope = m->slope * u,
                             .fixed = fixed,
                             .outer = fixed * (1 + m->u_mid),
                             .u_x = m->unfolded ? u + 2 * u * u : 0,
                             .u_abs = m->unfolded ? 2 * u * u * fabs(row->max) : 0};
    /* Where exp gives no zero, |d| < 746. */
    const double most = c.slope * (746 + c.shift) + c.u_x * (746 + fabs(row->max)) + c.u_abs;
    double sum = 0;
    if (!err && most < 0x1p-10) {
        double part[LANES];
        const int64_t whole = n - n % LANES;
        small_lanes(&c, whole, x, w, wrong, part);
        if (n > whole) {
            deltas(&c, n - whole, x + whole, w + whole, wrong + whole);
            factors_small(&c, n - whole, w + whole, wrong + whole);
        }
        for (int64_t k = whole; k < n; ++k) part[k - whole] += w[k] * wrong[k];
        for (int l = 0; l < LANES; ++l) sum += part[l];
    } else {
        const int64_t large = err ? deltas_of(&c, n, x, err, w, wrong) : deltas(&c, n, x, w, wrong);
        if (large) factors_large(&c, n, w, wrong);
        else factors_small(&c, n, w, wrong);
        sum = dot(w, wrong, n);
    }
    const double mean = sum * (1 + (double)n * 0x1p-52) / row->total.hi;
    const double g = vn_gamma((double)(n - 1), u);
    row->spread = g + (1 + g) * mean + (double)n * (2 * m->tau + m->eta_mid / 2);
    if (!(row->spread < 1) || (m->unfolded && 1.45 * u * fabs(row->max) > 0.5)) row->spread = INFINITY;
}

/* Relative variance of each weight: of its argument's rounding, of the exponential, of the hidden format. Weights below tau neither count nor
 * do their errors; exp(0) is 1. */
VN_CLONES static void weight_variances(const vn_exp_model_t *m, vn_spacing_t f, int64_t n, const double *restrict x,
                                       const double *restrict w, double max, double *restrict s2) {
    const double mid = m->u_mid > 0 ? 0.18 * m->u_mid * m->u_mid : 0;
    for (int64_t k = 0; k < n; ++k) {
        const double ulp_d = vn_spacing_at(f, x[k] - max), v = w[k] > m->tau ? w[k] : 1.0, ulp_w = vn_spacing_at(f, v) / v;
        const double s = ulp_d * ulp_d / 12 + 0.12 * ulp_w * ulp_w + mid;
        s2[k] = w[k] > m->tau && x[k] != max ? s : 0.0;
    }
}

VN_CLONES static void shares_squared(int64_t n, const double *restrict w, double inverse, double *restrict p2) {
    for (int64_t k = 0; k < n; ++k) p2[k] = w[k] * inverse * (w[k] * inverse);
}

double vn_exp_variance(const vn_exp_model_t *m, int64_t n, const double *x, const double *w, const vn_exp_row_t *row, double *s2) {
    enum { PIECE = 256 };
    const double l = row->total.hi;
    const vn_spacing_t f = vn_spacing(m->acc);
    double v = 0, s[PIECE], p2[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t c = n - at < PIECE ? n - at : PIECE;
        double *to = s2 ? s2 + at : s;
        weight_variances(m, f, c, x + at, w + at, row->max, to);
        shares_squared(c, w + at, 1 / l, p2);
        v += dot(p2, to, c);
    }
    return v + vn_sum_variance(m->acc, w, n, l) / (l * l);
}
