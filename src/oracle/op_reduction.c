/* op_reduction.c -- family "reduction": the ten Reduce operators of ai.onnx, floats with bounds, integers exact.
 *
 * Claims (docs/claims.md; u, eta, tau of the accumulator, g(k) = k u / (1 - k u), T = sum |terms|; bounds.md "sum" to "LSE"):
 *   SUM-1   sum, L1     (n-1) u T; 0 where no order can round (SUM-EXACT).
 *   SUM-2   mean        g(n+1) T/n + max(eta, n eta/2): division, reciprocal, or terms scaled first.
 *   SUM-3   prod        g(n-1) |y| + (n-1) (eta/2) prod max(1,|x|).
 *   SUM-4   squares     E_Q = n u Q + (n eta/2)(1 + n u); one u less where squares are exact. L2: through the root, both sides.
 *   SUM-5   log-sum     -log1p(-E/S) carried through the logarithm; log-sum-exp: SOFTMAX-1's D in place of E/S.
 * A hidden narrower format (contract.intermediate) adds its roundoff where a value would be kept in it: squares, totals, counts.
 * Empty sets: sum 0, product 1, maximum the lowest and minimum the highest value of the type, log of 0, mean NaN with the reading "zeros".
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/expsum.h"
#include "oracle/frame.h"
#include "tensor/dense.h"

typedef enum kind { SUM, MEAN, MAX, MIN, PROD, L1, L2, SQUARES, LOGSUM, LOGSUMEXP } kind_t;

typedef struct cell {
    double y, lo, bound, var;
    uint8_t flags;
    double own; /* error of y + lo; where no lo is kept the rounding to y comes on top */
} cell_t;

typedef struct job {
    vn_eval_t *e;
    kind_t kind;
    vn_ref_t *out;
    const vn_format_info_t *acc;
    double u, eta, nodes_ftz;
    const vn_format_info_t *mid; /* NULL unless narrower than the accumulator */
    bool exact_squares;
    const vn_tensor_t *source; /* rows too long to be worth a plane: in[0] of a row is NULL (sums and means only) */
    int zero_signs;            /* atomic: a row holds both zeros at its extreme */
    vn_exp_model_t exps;
} job_t;

static double max_abs_over(const double *x, int64_t n) {
    double m = 0;
    for (int64_t k = 0; k < n; ++k) m = fabs(x[k]) > m ? fabs(x[k]) : m;
    return m;
}

static double min_abs(const double *x, int64_t n) { /* of the terms that are not zero */
    double m = INFINITY;
    for (int64_t k = 0; k < n; ++k) m = x[k] != 0 && fabs(x[k]) < m ? fabs(x[k]) : m;
    return m;
}

static double total(const double *p, int64_t n) {
    double s = 0;
    for (int64_t k = 0; p && k < n; ++k) s += p[k];
    return s * (1 + (double)n * 0x1p-52);
}

/* An allowed intermediate of magnitude `size` may overflow the accumulator, or the hidden format. */
static uint8_t overflow(const job_t *j, double size, bool both_signs) {
    const double most = j->mid ? j->mid->max : j->acc->max;
    return size >= most ? (uint8_t)(VN_EL_INF_OK | (both_signs ? VN_EL_NAN_OK : 0)) : 0;
}

/* Claim SUM-EXACT of a row and, for a mean, the smallest of its terms; block by block where there is no plane. */
static bool exact_terms(const job_t *j, const vn_row_t *row, double abs, double *least) {
    enum { BLOCK = 512 };
    const vn_format_t acc = j->e->contract->accumulator;
    const int64_t n = row->n;
    if (row->in[0]) {
        const bool exact = vn_sum_exact(row->in[0], n, abs, acc);
        *least = exact ? min_abs(row->in[0], n) : 0;
        return exact;
    }
    double block[BLOCK];
    *least = INFINITY;
    for (int64_t at = 0; at < n; at += BLOCK) {
        const int64_t m = n - at < BLOCK ? n - at : BLOCK;
        vn_tensor_take_f64(j->source, row->index * n + at, m, block);
        if (!vn_sum_exact(block, m, abs, acc)) return false;
        *least = fmin(*least, min_abs(block, m));
    }
    return true;
}

static void cell_sum(job_t *j, const vn_row_t *row, cell_t *c) {
    const int64_t n = row->n;
    const double count = (double)n;
    const vn_sum2_t s = !row->in[0]     ? vn_sum2_of(j->source, row->index * n, n)
                        : j->kind == L1 ? vn_sum2_abs(row->in[0], n)
                                        : vn_sum2(row->in[0], n);
    const bool mean = j->kind == MEAN;
    const vn_sum2_t q = mean ? vn_sum2_over(s, count) : s;
    c->y = q.hi;
    c->lo = q.lo;
    c->own = 0x1p-100 * q.abs + (mean && n >= 1 << 11 ? 0x1p-64 * fabs(q.hi) : 0); /* claims of sums.h */
    if (j->e->want < VN_WANT_BOUND || !isfinite(c->y)) return;
    const double *err = row->in[1];
    const double doubt = total(err, n), size = s.abs + doubt;
    c->flags = overflow(j, (1 + count * j->u) * size, j->kind != L1);
    /* A mean is exact too when n is a power of two: scaling neither terms nor total rounds. */
    const bool power = (n & (n - 1)) == 0;
    double least = 0;
    const bool exact = !err && !j->mid && (!mean || power) && !j->e->contract->ftz && !j->e->contract->daz &&
                       exact_terms(j, row, s.abs, &least) && (!mean || least >= count * j->acc->tau);
    if (!exact) {
        if (mean) c->bound = vn_gamma(count + 1, j->u) * size / count + fmax(j->eta, count * j->eta / 2) + doubt / count;
        else c->bound = (count - 1) * j->u * size + doubt;
        c->bound += vn_flushed(j->e, count + 1, fmin(count, size / vn_tau(j->e))) / (mean ? count : 1);
    }
    if (j->mid && mean) { /* total and count kept in the hidden format */
        c->bound += (3 * j->mid->u * fabs(c->y) + j->mid->eta) * (1 + j->mid->u);
        if (count >= j->mid->max) c->flags |= VN_EL_ZERO_OK | VN_EL_NAN_OK;
    }
    if (j->e->want < VN_WANT_VARIANCE || exact) return;
    double v = 0;
    if (j->kind == L1) {
        for (int64_t k = 0; k < n; ++k) row->work[k] = fabs(row->in[0][k]);
        v = vn_sum_variance(j->e->contract->accumulator, row->work, n, s.hi);
    } else {
        v = vn_sum_variance(j->e->contract->accumulator, row->in[0], n, s.hi);
    }
    v += total(row->in[2], n);
    c->var = mean ? v / (count * count) + vn_node_variance(j->e->contract->accumulator, c->y) : v;
    if (mean && j->mid) c->var += 2 * vn_node_variance(vn_mid_format(j->e), c->y);
}

static void cell_extreme(job_t *j, const vn_row_t *row, cell_t *c) {
    const bool max = j->kind == MAX;
    const double *x = row->in[0], *err = row->in[1];
    double y = max ? -INFINITY : INFINITY;
    bool nan = false, minus = false, plus = false;
    int64_t at = 0;
    for (int64_t k = 0; k < row->n; ++k) {
        nan |= x[k] != x[k];
        if (max ? x[k] > y : x[k] < y) y = x[k], at = k;
    }
    if (y == 0) {
        for (int64_t k = 0; k < row->n; ++k)
            if (x[k] == 0) *(signbit(x[k]) ? &minus : &plus) = true;
        y = max ? (plus ? 0.0 : -0.0) : (minus ? -0.0 : 0.0);
        if (plus && minus) __atomic_store_n(&j->zero_signs, 1, __ATOMIC_RELAXED);
    }
    c->y = nan ? NAN : y;
    if (!err || nan || !isfinite(y)) return;
    double high = -INFINITY, low = max ? -INFINITY : INFINITY; /* interval of the extreme */
    high = max ? -INFINITY : INFINITY;
    for (int64_t k = 0; k < row->n; ++k) {
        const double a = x[k] - err[k], b = x[k] + err[k];
        low = max ? fmax(low, a) : fmin(low, a);
        high = max ? fmax(high, b) : fmin(high, b);
    }
    c->bound = fmax(high - y, y - low);
    c->var = row->in[2] ? row->in[2][at] : 0;
}

/* Extended mantissa and a separate exponent: neither overflow nor underflow touches the value; n 2^-64 relative error (own plane). */
static void cell_prod(job_t *j, const vn_row_t *row, cell_t *c) {
    const double *x = row->in[0], *err = row->in[1];
    const int64_t n = row->n;
    long double mantissa = 1;
    double grown_log = 0, plain = 1, doubt = 0;
    int64_t exponent = 0;
    bool integers = true, zero = false;
    for (int64_t k = 0; k < n; ++k) {
        const double v = x[k];
        plain *= v;
        zero |= v == 0;
        if (v == 0 || !isfinite(v)) continue;
        int ev;
        mantissa *= frexp(v, &ev);
        exponent += ev;
        if (fabsl(mantissa) < 0.5L) mantissa *= 2, --exponent;
        if (fabs(v) > 1) grown_log += log2(fabs(v));
        integers &= rint(v) == v;
        if (err) doubt += err[k] / fabs(v);
    }
    const int e = exponent > 4000 ? 4000 : exponent < -4000 ? -4000 : (int)exponent;
    if (zero || !isfinite(plain)) {
        bool nonfinite = false;
        for (int64_t k = 0; k < n; ++k) nonfinite |= !isfinite(x[k]);
        c->y = nonfinite ? plain : zero ? 0 : (double)ldexpl(mantissa, e); /* an overflowing prefix must not make NaN of a zero */
    } else {
        c->y = (double)ldexpl(mantissa, e);
    }
    c->own = ((double)n * LDBL_EPSILON + 0x1p-53) * fabs(c->y) + (c->y != 0 && fabs(c->y) < DBL_MIN ? 0x1p-1074 : 0);
    if (j->e->want < VN_WANT_BOUND || !isfinite(c->y)) return;
    const double count = (double)n, grown = exp2(grown_log * (1 + 0x1p-40) + 0x1p-30);
    if (zero && err) { /* a zero operand with doubt: no relative statement */
        double most = 1;
        for (int64_t k = 0; k < n; ++k) most *= fmax(1, fabs(x[k]) + err[k]);
        for (int64_t k = 0; k < n; ++k) c->bound += err[k] * most;
        c->bound *= 1 + vn_gamma(count - 1, j->u);
    } else if (!(integers && !err && grown <= 1 / j->u) || j->e->contract->ftz || j->e->contract->daz) {
        const double g = vn_gamma(count - 1, j->u), rel = err ? expm1(doubt) * (doubt < 1 ? 1.1 : INFINITY) : 0;
        c->bound = (g + rel + g * rel) * fabs(c->y) + (count - 1) * (j->eta / 2) * grown;
        if (j->e->contract->ftz || j->e->contract->daz) c->bound += vn_flushed(j->e, count - 1, count) * grown;
        /* a prefix that underflows loses up to eta / 2, which later factors multiply as in SUM-3 */
        if (n > 1) c->var = (count - 1) * (0.18 * j->u * j->u * c->y * c->y + (j->eta * grown) * (j->eta * grown) / 12);
        if (err && row->in[2])
            for (int64_t k = 0; k < n; ++k) c->var += row->in[2][k] / (x[k] * x[k]) * c->y * c->y;
    }
    if (grown >= j->acc->max) c->flags |= VN_EL_INF_OK | VN_EL_NAN_OK;
}

static void cell_squares(job_t *j, const vn_row_t *row, cell_t *c) {
    const double *x = row->in[0], *err = row->in[1];
    const int64_t n = row->n;
    const double count = (double)n, u = j->u;
    const vn_sum2_t s = vn_sum2_squares(x, n, 0, 0);
    const long double q = (long double)s.hi + s.lo, y = j->kind == L2 ? sqrtl(q) : q;
    c->y = (double)y;
    c->lo = isfinite(c->y) ? (double)(y - c->y) : 0;
    if (s.hi == INFINITY && max_abs_over(x, n) < INFINITY) { /* f64 squares beyond f64 */
        const double m = max_abs_over(x, n);
        long double t = 0;
        for (int64_t k = 0; k < n; ++k) t += (long double)(x[k] / m) * (x[k] / m);
        c->y = j->kind == L2 ? (double)(sqrtl(t) * m) : INFINITY;
    }
    c->own = 0x1p-51 * fabs(c->y);
    if (j->e->want < VN_WANT_BOUND || !isfinite(c->y)) return;
    const double big = max_abs_over(x, n), Q = s.abs;
    c->flags = overflow(j, (1 + count * u) * Q + total(err, n) * 2 * big, false);
    for (int64_t k = 0; k < n; ++k) row->work[k] = x[k] * x[k];
    const bool quiet = !err && !j->mid && !j->e->contract->ftz && !j->e->contract->daz;
    double E = 0;
    if (!(quiet && j->exact_squares && vn_sum_exact(row->work, n, Q, j->e->contract->accumulator))) {
        E = (count - (j->exact_squares ? 1 : 0)) * u * Q + count * j->eta / 2 * (1 + count * u);
        for (int64_t k = 0; err && k < n; ++k) E += (2 * fabs(x[k]) + err[k]) * err[k] * (1 + count * u);
        if (j->mid) E += (2 * j->mid->u * Q + (count + 1) * j->mid->eta) * (1 + j->mid->u);
        E += vn_flushed(j->e, 2 * count, 0);
        if (j->e->contract->daz) E += vn_tau(j->e) * fmin(big, 1) * count;
    }
    double var = 0;
    if (j->e->want >= VN_WANT_VARIANCE && E > 0) {
        var = vn_sum_variance(j->e->contract->accumulator, row->work, n, s.hi);
        if (!j->exact_squares)
            for (int64_t k = 0; k < n; ++k) var += 0.18 * u * u * row->work[k] * row->work[k];
        for (int64_t k = 0; row->in[2] && k < n; ++k) var += 4 * row->work[k] * row->in[2][k];
    }
    if (j->kind == SQUARES) {
        c->bound = E;
        c->var = var;
        return;
    }
    const double root = c->y, rest = Q > E ? Q - E : 0;
    const double above = sqrt(Q + E) * (1 + u) - root, below = root - sqrt(rest) * (1 - u);
    c->bound = fmax(above, below) + 0x1p-50 * root * (u < 0x1p-50 ? 1 : u);
    if (j->e->want >= VN_WANT_VARIANCE) c->var = (Q > 0 ? var / (4 * Q) : 0) + vn_node_variance(j->e->contract->accumulator, root);
}

/* log of a positive computed value with relative error in [-rel, rel]. */
static double log_bound(const job_t *j, double rel, double y, double log_ulp) {
    const double el = -log1p(-rel), f = el + 2 * log_ulp * j->u * (fabs(y) + el);
    return f + vn_tau(j->e) * (j->e->contract->ftz ? 1 : 0);
}

static void cell_logsum(job_t *j, const vn_row_t *row, cell_t *c) {
    const int64_t n = row->n;
    const double count = (double)n;
    const vn_sum2_t s = vn_sum2(row->in[0], n);
    const long double y = logl((long double)s.hi + s.lo);
    c->y = (double)y;
    c->lo = isfinite(c->y) ? (double)(y - c->y) : 0;
    c->own = 0x1p-99 * s.abs / fabs(s.hi) + 4 * LDBL_EPSILON * fabs(c->y);
    if (j->e->want < VN_WANT_BOUND) return;
    const double doubt = total(row->in[1], n), size = s.abs + doubt;
    const bool exact = !row->in[1] && vn_sum_exact(row->in[0], n, s.abs, j->e->contract->accumulator);
    const double E = exact ? 0 : (count - 1) * j->u * size + doubt + vn_flushed(j->e, count, count);
    if (!(s.hi > E) && E > 0 && isfinite(s.hi)) { /* the computed sum may be zero or change its sign */
        c->bound = INFINITY;
        if (s.hi + E >= 0) c->flags = VN_EL_VOID | VN_EL_INF_OK | VN_EL_NAN_OK;
        return;
    }
    if (!isfinite(c->y)) return;
    c->flags = overflow(j, (1 + count * j->u) * size, true);
    c->bound = log_bound(j, E / s.hi, c->y, vn_budget(j->e, "log")) + (j->mid ? j->mid->u * 1.01 : 0);
    if (j->e->want < VN_WANT_VARIANCE) return;
    const double ulp = vn_ulp(j->e->contract->accumulator, c->y);
    c->var = (vn_sum_variance(j->e->contract->accumulator, row->in[0], n, s.hi) + total(row->in[2], n)) / (s.hi * s.hi) + 0.12 * ulp * ulp;
}

static void cell_logsumexp(job_t *j, const vn_row_t *row, cell_t *c) {
    const bool want = j->e->want >= VN_WANT_BOUND;
    double *w = row->work, *wrong = want ? row->work + row->n : NULL;
    vn_exp_row_t r = vn_exp_row(row->n, row->in[0], row->in[1], w);
    if (!r.regular) { /* NaN, all -inf or empty: -inf, an infinite term: inf; shifting by an infinite maximum gives NaN */
        c->y = r.max;
        if (r.max == INFINITY || (r.max == -INFINITY && row->n)) c->flags = VN_EL_NAN_OK;
        return;
    }
    const long double log_l = logl((long double)r.total.hi + r.total.lo), y = log_l + r.max;
    c->y = (double)y;
    c->lo = 0;
    c->own = (16 + 2 * log((double)row->n)) * 0x1p-53 + 0x1p-52 * fabs(c->y); /* relative error of the sum, then two roundings */
    if (!want) return;
    c->bound = INFINITY;
    vn_exp_wrong(&j->exps, row->n, row->in[0], row->in[1], w, &r, wrong);
    if (!isfinite(r.spread)) return;
    const double t = vn_budget(j->e, "log"), l = (double)log_l, f = log_bound(j, r.spread, l, t);
    c->bound = f * (1 + j->u) + j->u * fabs(c->y) + (j->mid ? j->mid->u * (1 + l) : 0);
    if (j->e->want < VN_WANT_VARIANCE) return;
    const double ulp = vn_ulp(j->e->contract->accumulator, l);
    c->var =
        vn_exp_variance(&j->exps, row->n, row->in[0], w, &r, NULL) + 0.12 * ulp * ulp + vn_node_variance(j->e->contract->accumulator, c->y);
    for (int64_t k = 0; row->in[2] && k < row->n; ++k) c->var += w[k] / r.total.hi * (w[k] / r.total.hi) * row->in[2][k];
}

static void (*const cells[])(job_t *, const vn_row_t *, cell_t *) = {
    [SUM] = cell_sum, [MEAN] = cell_sum,   [MAX] = cell_extreme,     [MIN] = cell_extreme,   [PROD] = cell_prod,
    [L1] = cell_sum,  [L2] = cell_squares, [SQUARES] = cell_squares, [LOGSUM] = cell_logsum, [LOGSUMEXP] = cell_logsumexp,
};

static void on_row(void *ctx, const vn_row_t *row) {
    job_t *j = ctx;
    cell_t c = {0};
    cells[j->kind](j, row, &c);
    vn_ref_t *r = j->out;
    const int64_t i = row->index;
    r->value[i] = c.y;
    if (r->lo) r->lo[i] = c.lo;
    if (r->bound) r->bound[i] = c.bound;
    if (r->var) r->var[i] = c.var;
    if (r->flags) r->flags[i] = c.flags;
    if (r->own) r->own[i] = isfinite(c.y) ? c.own + (r->lo ? 0 : 0x1p-52 * fabs(c.y)) : 0;
}

/* ---- single elements in more digits (claim PREC-3) ---- */

typedef struct refine {
    const vn_rows_t *rows;
    const double *x;
    kind_t kind;
} refine_t;

static vn_exact_t quad_product(const double *x, int64_t n) {
    vn_quad_t y = 1;
    bool exact = true;
    for (int64_t k = 0; k < n; ++k) {
        const vn_quad_t next = y * x[k];
        exact = exact && (n <= 2 || vn_qfma(y, x[k], -next) == 0);
        y = next;
    }
    const vn_quad_t far = (vn_quad_t)0x1p-1000 * 0x1p-1000; /* beyond this nothing narrower has members */
    if (!vn_quad_finite(y) || (y != 0 && vn_qabs(y) < far)) return (vn_exact_t){.own = INFINITY};
    return (vn_exact_t){.value = y, .own = exact ? 0 : vn_qabs(y) * ((double)n * VN_QUAD_U)};
}

static void refine_cell(void *ctx, int64_t at, vn_exact_t *out) {
    const refine_t *j = ctx;
    const int64_t n = j->rows->n;
    double *x = vn_alloc((size_t)(n ? n : 1), sizeof *x);
    if (!x) return; /* not refined: counted as undecided */
    vn_rows_read(j->rows, j->x, at, 1, x);
    vn_quad_sum_t s = {0};
    for (int64_t k = 0; k < n && j->kind != PROD && j->kind != LOGSUMEXP; ++k)
        vn_quad_add(&s, j->kind == L2 || j->kind == SQUARES ? (vn_quad_t)x[k] * x[k] : j->kind == L1 ? fabs(x[k]) : x[k]);
    switch (j->kind) {
    case SUM:
    case L1:
    case SQUARES: *out = vn_exact_sum(&s); break;
    case MEAN: *out = vn_exact_quotient(vn_exact_sum(&s), (vn_quad_t)n); break;
    case L2: *out = vn_exact_root(&s); break;
    case PROD: *out = quad_product(x, n); break;
    case LOGSUM:
        if (s.hi > 0) {
            *out = (vn_exact_t){.value = vn_qlog(s.hi), .rest = s.lo / s.hi};
            out->own = vn_qabs(out->value) * VN_QUAD_ERROR(1) + (s.lost + vn_qabs(s.lo) * (8 * VN_QUAD_U)) / s.hi;
        }
        break;
    case LOGSUMEXP: {
        const vn_quad_expsum_t w = vn_quad_expsum(x, n);
        if (isfinite(w.max)) *out = (vn_exact_t){.value = w.max, .rest = w.log, .own = w.log_own};
        break;
    }
    case MAX:
    case MIN: break;
    }
    vn_free(x);
}

/* ---- shapes ---- */

typedef struct plan {
    vn_rows_t rows;
    int rank;
    int64_t dims[VN_MAX_RANK];
} plan_t;

static vn_status_t plan(vn_eval_t *e, plan_t *p) {
    const vn_tensor_t *x = e->in[0].t;
    const bool by_input = e->version >= 18 || (e->version >= 13 && strcmp(e->node->op, "ReduceSum") == 0);
    int64_t axes[VN_MAX_RANK];
    int64_t count = 0;
    if (by_input) {
        if (vn_has(e, 1)) {
            int n;
            VN_TRY(vn_arg_ints(e, 1, axes, VN_MAX_RANK, &n));
            count = n;
        }
    } else {
        const int64_t *a = vn_node_ints(e->node, "axes", &count);
        if (count > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "%lld axes", (long long)count);
        for (int64_t i = 0; i < count; ++i) axes[i] = a[i];
    }
    bool along[VN_MAX_RANK] = {false};
    if (count == 0 && !(by_input && vn_node_int(e->node, "noop_with_empty_axes", 0)))
        for (int d = 0; d < x->rank; ++d) along[d] = true;
    for (int64_t i = 0; i < count; ++i) {
        int a;
        VN_TRY(vn_eval_axis(e, axes[i], x->rank, &a));
        along[a] = true;
    }
    const bool keep = vn_node_int(e->node, "keepdims", 1) != 0;
    p->rank = 0;
    for (int d = 0; d < x->rank; ++d)
        if (!along[d]) p->dims[p->rank++] = x->dims[d];
        else if (keep) p->dims[p->rank++] = 1;
    vn_rows_plan(x->rank, x->dims, along, &p->rows);
    return VN_OK;
}

static vn_status_t infer(vn_eval_t *e) {
    plan_t p;
    VN_TRY(plan(e, &p));
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = p.rank;
    memcpy(e->out[0].dims, p.dims, sizeof p.dims);
    return VN_OK;
}

/* ---- integers and bool: arithmetic modulo 2^bits, roots and logarithms truncated ---- */

typedef struct ints {
    kind_t kind;
    const vn_rows_t *rows;
    const int64_t *x;
    vn_tensor_t *out;
    int64_t *clamped; /* a row's exact result, kept within the type; NULL: not asked for */
    int overflows;    /* atomic: some row's is not the one modulo 2^bits */
    bool is_unsigned;
} ints_t;

__extension__ typedef __int128 wide_t;

/* acc + v or acc * v; beyond 2^126 only sign and size matter. */
static wide_t grow(wide_t acc, wide_t v, bool product) {
    wide_t r;
    const wide_t huge = (wide_t)1 << 126;
    if (product ? __builtin_mul_overflow(acc, v, &r) : __builtin_add_overflow(acc, v, &r))
        return (acc < 0) != (product && v < 0) ? -huge : huge;
    return r > huge ? huge : r < -huge ? -huge : r;
}

static int64_t clamp_to(bool is_unsigned, wide_t v, int64_t lo, int64_t hi) {
    const wide_t least = lo, most = is_unsigned ? (wide_t)(uint64_t)hi : (wide_t)hi;
    return v < least ? lo : v > most ? hi : (int64_t)v;
}

static int64_t int_limit(vn_dtype_t t, bool max) {
    const int bits = vn_dtype_bits(t);
    if (vn_dtype_kind(t) == VN_KIND_BOOL) return max;
    if (vn_dtype_kind(t) == VN_KIND_UNSIGNED) return max ? (bits == 64 ? -1 : (INT64_C(1) << bits) - 1) : 0;
    return max ? (int64_t)(UINT64_MAX >> (65 - bits)) : -(int64_t)(UINT64_MAX >> (65 - bits)) - 1;
}

static void int_rows(void *ctx, int64_t begin, int64_t end) {
    ints_t *j = ctx;
    const vn_rows_t *s = j->rows;
    for (int64_t r = begin; r < end; ++r) {
        const int64_t base = vn_rows_base(s, r);
        uint64_t acc = j->kind == PROD;
        wide_t exact = j->kind == PROD;
        double real = 0;
        int64_t best = int_limit(j->out->dtype, j->kind == MIN);
        for (int64_t k = 0; k < s->n; ++k) {
            int64_t at = base, rest = k;
            for (int d = s->n_inner - 1; d >= 0; --d) {
                at += rest % s->inner_dim[d] * s->inner_step[d];
                rest /= s->inner_dim[d];
            }
            const int64_t v = j->x[at];
            const double f = j->is_unsigned ? (double)(uint64_t)v : (double)v;
            if (j->clamped) {
                const wide_t w = j->is_unsigned ? (wide_t)(uint64_t)v : (wide_t)v;
                exact = grow(exact, j->kind == SQUARES ? grow(w, w, true) : j->kind == L1 && w < 0 ? -w : w, j->kind == PROD);
            }
            switch (j->kind) {
            case MAX: best = (j->is_unsigned ? (uint64_t)v > (uint64_t)best : v > best) ? v : best; break;
            case MIN: best = (j->is_unsigned ? (uint64_t)v < (uint64_t)best : v < best) ? v : best; break;
            case PROD: acc *= (uint64_t)v; break;
            case L1: acc += v < 0 && !j->is_unsigned ? 0 - (uint64_t)v : (uint64_t)v; break;
            case L2:
            case SQUARES:
                acc += (uint64_t)v * (uint64_t)v;
                real += f * f;
                break;
            case LOGSUMEXP: real += exp(f); break;
            default:
                acc += (uint64_t)v;
                real += f;
                break;
            }
        }
        int64_t y = (int64_t)acc;
        if (j->kind == MAX || j->kind == MIN) y = best;
        if (j->kind == MEAN) y = s->n ? (j->is_unsigned ? (int64_t)(acc / (uint64_t)s->n) : (int64_t)acc / s->n) : 0;
        if (j->kind == L2) real = sqrt(real);
        if (j->kind == LOGSUM || j->kind == LOGSUMEXP) real = log(real);
        if (j->kind == L2 || j->kind == LOGSUM || j->kind == LOGSUMEXP) y = fabs(real) < 0x1p62 ? (int64_t)real : 0;
        vn_tensor_set_i64(j->out, r, y);
        if (!j->clamped) continue;
        j->clamped[r] = clamp_to(j->is_unsigned, exact, int_limit(j->out->dtype, false), int_limit(j->out->dtype, true));
        if (j->clamped[r] != vn_tensor_get_i64(j->out, r)) __atomic_store_n(&j->overflows, 1, __ATOMIC_RELAXED);
    }
}

/* The text names no arithmetic beyond the type's range: saturation is a reading beside the low bits. */
static vn_status_t reading_saturated(vn_eval_t *e, const int64_t *v) {
    const vn_ref_t *r = &e->out[0];
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(r->dtype, r->rank, r->dims, &t, e->err));
    for (int64_t i = 0; i < r->count; ++i) vn_tensor_set_i64(t, i, v[i]);
    return vn_out_reading(e, 0, "integer overflow saturates", t);
}

static vn_status_t eval_ints(vn_eval_t *e, kind_t kind, const plan_t *p) {
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_exact(e, 0, x->dtype, p->rank, p->dims));
    int64_t *plane = vn_alloc((size_t)(x->count ? x->count : 1), sizeof *plane);
    if (!plane) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_tensor_to_i64(x, plane);
    ints_t j = {.kind = kind,
                .rows = &p->rows,
                .x = plane,
                .out = e->out[0].tensor,
                .is_unsigned = vn_dtype_kind(x->dtype) == VN_KIND_UNSIGNED || vn_dtype_kind(x->dtype) == VN_KIND_BOOL};
    const int bits = vn_dtype_bits(x->dtype); /* elements that share a byte stay in one chunk */
    const bool may_overflow = (kind == SUM || kind == PROD || kind == L1 || kind == SQUARES) && vn_dtype_is_int(x->dtype);
    vn_status_t s = VN_OK;
    if (may_overflow && e->want >= VN_WANT_BOUND) {
        j.clamped = vn_alloc((size_t)(e->out[0].count ? e->out[0].count : 1), sizeof *j.clamped);
        if (!j.clamped) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a reading");
    }
    if (s == VN_OK) vn_parallel(p->rows.rows, bits >= 8 ? 1 + (1 << 14) / (p->rows.n + 1) : p->rows.rows, int_rows, &j);
    if (s == VN_OK && j.overflows) s = reading_saturated(e, j.clamped);
    vn_free(j.clamped);
    vn_free(plane);
    return s;
}

/* ---- readings of the text ---- */

static vn_status_t reading_nan_ignored(vn_eval_t *e, job_t *j, const vn_rows_t *rows) {
    const vn_ref_t *r = j->out;
    bool any = false;
    for (int64_t i = 0; i < r->count && !any; ++i) any = isnan(r->value[i]);
    if (!any) return VN_OK;
    double *x = vn_alloc((size_t)e->in[0].t->count, sizeof *x), *y = vn_alloc((size_t)r->count, sizeof *y);
    vn_status_t s = x && y ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) {
        const double *from = vn_arg_f64(e, 0), skip = j->kind == MAX ? -INFINITY : INFINITY;
        for (int64_t i = 0; i < e->in[0].t->count; ++i) x[i] = isnan(from[i]) ? skip : from[i];
        vn_ref_t copy = {.value = y, .count = r->count};
        job_t second = *j;
        second.out = &copy;
        vn_row_job_t job = {.shape = rows, .in = {x}, .fn = on_row, .ctx = &second};
        s = vn_rows_run(e, &job);
    }
    vn_tensor_t *t = NULL;
    if (s == VN_OK) s = vn_tensor_new_raw(r->dtype, r->rank, r->dims, &t, e->err);
    if (s == VN_OK) {
        vn_tensor_from_f64(t, y, VN_RNE, false);
        s = vn_out_reading(e, 0, "nan-ignored", t);
    }
    vn_free(x);
    vn_free(y);
    return s;
}

static vn_status_t reading_empty_mean(vn_eval_t *e) {
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(e->out[0].dtype, e->out[0].rank, e->out[0].dims, &t, e->err));
    return vn_out_reading(e, 0, "empty-reduction", t);
}

/* Both zeros at an extreme: the sign of the result is open. */
static vn_status_t either_zero(vn_eval_t *e) {
    vn_ref_t *r = &e->out[0];
    VN_TRY(vn_out_either(e, 0));
    vn_tensor_from_f64(r->either, r->value, VN_RNE, false);
    for (int64_t i = 0; i < r->count; ++i)
        if (r->value[i] == 0) vn_tensor_set_f64(r->either, i, -r->value[i]);
    return VN_OK;
}

static int widest_p(const vn_tensor_t *t) {
    const vn_format_info_t *f = vn_format_info(vn_format_of(t->dtype));
    return f ? f->p : 53;
}

static vn_status_t eval_kind(vn_eval_t *e, kind_t kind) {
    plan_t p;
    VN_TRY(plan(e, &p));
    const vn_tensor_t *x = e->in[0].t;
    if (!vn_dtype_is_float(x->dtype)) return eval_ints(e, kind, &p);
    VN_TRY(vn_out_float(e, 0, x->dtype, p.rank, p.dims));
    if (e->refine) {
        const double *value = vn_arg_f64(e, 0);
        if (!value) return VN_ERR_NOMEM;
        vn_refine_each(e, refine_cell, &(refine_t){.rows = &p.rows, .x = value, .kind = kind});
        return VN_OK;
    }
    const bool extreme = kind == MAX || kind == MIN, f64 = x->dtype == VN_F64;
    job_t j = {.e = e, .kind = kind, .out = &e->out[0], .acc = vn_format_info(e->contract->accumulator), .u = vn_u(e), .eta = vn_eta(e)};
    const vn_format_info_t *mid = vn_format_info(vn_mid_format(e));
    j.mid = mid->p < j.acc->p ? mid : NULL;
    j.exact_squares = 2 * widest_p(x) <= j.acc->p;
    j.exps = vn_exp_model(e);
    if (f64 && !extreme) VN_TRY(vn_out_lo(e, 0));
    if (e->want >= VN_WANT_BOUND && !extreme) VN_TRY(vn_out_flags(e, 0));
    if (!extreme) VN_TRY(vn_out_own(e, 0));
    j.out->terms = p.rows.n;
    vn_row_job_t job = {.shape = &p.rows, .in = {NULL, vn_arg_err(e, 0), e->in[0].var}, .fn = on_row, .ctx = &j};
    if ((kind == SUM || kind == MEAN) && p.rows.contiguous && p.rows.n >= 1 << 16 && e->want < VN_WANT_VARIANCE && !e->in[0].value &&
        !f64 && vn_dtype_bits(x->dtype) % 8 == 0)
        j.source = x;
    else VN_TRY(vn_rows_operand(e, 0, &job));
    if (kind == L1 || kind == L2 || kind == SQUARES) job.work = e->want >= VN_WANT_BOUND;
    if (kind == LOGSUMEXP) job.work = 2;
    VN_TRY(vn_rows_run(e, &job));
    vn_flags_settle(e, 0);
    if (extreme) {
        if (p.rows.n == 0) /* types without infinities: the largest finite number */
            for (int64_t i = 0; i < j.out->count; ++i)
                if (!vn_format_info(vn_format_of(x->dtype))->has_inf)
                    j.out->value[i] = copysign(vn_format_info(vn_format_of(x->dtype))->max, j.out->value[i]);
        if (!vn_arg_err(e, 0)) { /* an element of the operand; in a region it stays exact for what is computed from it */
            if (e->run && e->run->region && e->contract->result == VN_FMT_NONE) vn_out_final(e, 0);
            else vn_out_rounded(e, 0);
        }
        VN_TRY(reading_nan_ignored(e, &j, &p.rows));
        if (j.zero_signs) VN_TRY(either_zero(e));
    }
    if (kind == MEAN && p.rows.n == 0 && j.out->count) VN_TRY(reading_empty_mean(e));
    return VN_OK;
}

#define KINDS(row)                                                                                                    \
    row(Sum, SUM, VN_CLASS_REDUCTION, "SUM-1", 13) row(Mean, MEAN, VN_CLASS_REDUCTION, "SUM-2", 18)                   \
        row(Max, MAX, VN_CLASS_EXACT, "SUM-6", 18) row(Min, MIN, VN_CLASS_EXACT, "SUM-6", 18)                         \
            row(Prod, PROD, VN_CLASS_REDUCTION, "SUM-3", 18) row(L1, L1, VN_CLASS_REDUCTION, "SUM-1", 18)             \
                row(L2, L2, VN_CLASS_REDUCTION, "SUM-4", 18) row(SumSquare, SQUARES, VN_CLASS_REDUCTION, "SUM-4", 18) \
                    row(LogSum, LOGSUM, VN_CLASS_REDUCTION, "SUM-5", 18) row(LogSumExp, LOGSUMEXP, VN_CLASS_REDUCTION, "SUM-5", 18)

#define EVAL(name, kind, cls, claim, axes_since) \
    static vn_status_t eval_##name(vn_eval_t *e) { return eval_kind(e, kind); }
KINDS(EVAL)

#define ROWS(name, kind, cls, claim, axes_since)                                                                     \
    {"", "Reduce" #name, 1, axes_since - 1, cls, VN_OP_PROPAGATES | VN_OP_REFINES, claim, eval_##name, infer, kind}, \
        {"", "Reduce" #name, axes_since, 0, cls, VN_OP_SHAPE_LIKE_1 | VN_OP_PROPAGATES | VN_OP_REFINES, claim, eval_##name, infer, kind},
static const vn_op_t rows[] = {KINDS(ROWS)};

const vn_family_t vn_family_reduction = {"reduction", rows, sizeof rows / sizeof *rows};
