/* op_det.c -- Det: determinants of square matrices, by elimination in double-double.
 *
 * Claim DET-1 (value): columns are scaled by powers of two, then eliminated with partial pivoting in double-double. The computed factors are
 *   those of A + E with |E_ij| <= g C_j, g = gamma(n) of VN_DD_U and C_j = sum over k of |u_kj| (|l| <= 1; Higham 2002, theorem 9.3), so
 *   `own` is claim DET-2 with that E.
 * Claim DET-2 (bound): a kernel that eliminates with partial pivoting in unit roundoff u gives det(A + E)(1 + theta), |theta| <= gamma(n),
 *   |E_ij| <= c_j = gamma(j) min(2 C_j, (2^n - 1) max_i |a_ij|), j from 1 (an element of column j takes at
 *   most j pairs of operations): pivoted elements at most double at each step, and no order of near-equal pivots is taken to grow more than
 *   twice as far as the oracle's own. With r = |A^-1| 1 (row sums), F = A^-1 E is r_i phi_ij c_j with |phi| <= 1, so that a principal minor of order k is at most
 *   k^(k/2) prod r_i c_i (Hadamard), and with f = sum r_i c_i
 *       |det(I + F) - 1| <= sum over k >= 1 of k^(k/2) f^k / k!.
 *   Where A has no usable inverse (or f > 4), or where it is smaller:
 *       |det(A + E) - det A| <= prod(|a_j| + sqrt(n) c_j) - prod |a_j|   (multilinear in the columns, Hadamard).
 *   For n <= 4 also gamma(2n) perm |A|, so that kernels by explicit products are covered.
 * Claim DET-3 (inverse): X from the factors in binary64; with R = I - X A, row sums rho_j < 1/2 (rounding of R included):
 *   r_j <= x_j + rho_j max x / (1 - max rho), x_j = row sums of |X|.
 * Claim DET-4 (variance): 0.18 u^2 (sum_ij W_ij cof_ij^2 + (n - 1) det^2), W_ij = sum of squares of all intermediates of element (i, j).
 */
#include <math.h>
#include <string.h>

#include "oracle/dd.h"
#include "oracle/move.h"
#include "tensor/clones.h"

/* A number below or above the range of binary64: m 2^e. */
typedef struct wide {
    double m;
    int64_t e;
} wide_t;

static wide_t wide_of(double m, int64_t e) {
    int shift;
    m = frexp(m, &shift);
    return (wide_t){m, m == 0 ? 0 : e + shift};
}

static wide_t wide_times(wide_t a, double x) { return wide_of(a.m * x, a.e); }

static wide_t wide_plus(wide_t a, wide_t b) {
    if (a.m == 0) return b;
    if (b.m == 0) return a;
    const wide_t big = a.e >= b.e ? a : b, small = a.e >= b.e ? b : a;
    const int64_t down = small.e - big.e;
    return wide_of(big.m + ldexp(small.m, down < -2000 ? -2000 : (int)down), big.e);
}

static double wide_value(wide_t a, int64_t shift) {
    const int64_t e = a.e + shift;
    return ldexp(a.m, e > 5000 ? 5000 : e < -5000 ? -5000 : (int)e);
}

/* One matrix and what elimination knows of it. All planes n x n, rows permuted. */
typedef struct work {
    int64_t n;
    double *a;       /* scaled operand, rows in pivot order */
    double *hi, *lo; /* factors: l below the diagonal, u on and above */
    double *w;       /* sums of squares of intermediates, NULL unless the variance is asked for */
    double *x;       /* transposed inverse of a: x[i n + j] = X_ji */
    double *r;       /* I - X a */
    double *grown;   /* C_j */
    double *top;     /* max_i |a_ij| */
    double *norm;    /* |a_j|_2, rounded up */
    double *doubt;   /* max_i of the operands' uncertainty, scaled */
    double *c;       /* the E of a bound */
    double *rows;    /* r_j of claim DET-3 */
    int64_t *scale;  /* a_ij = operand 2^-scale[j] */
    int64_t *order;  /* operand row of row i */
    double *store;
    int sign;
    bool invertible; /* rows[] holds */
} work_t;

enum { PLANES = 6, LINES = 7 };

static bool work_new(int64_t n, bool variance, work_t *w) {
    size_t cells, lines, all;
    *w = (work_t){.n = n};
    if (!vn_size_mul((size_t)n, (size_t)n, &cells) || !vn_size_mul(cells, PLANES, &cells) || !vn_size_mul((size_t)n, LINES, &lines) ||
        !vn_size_add(cells, lines, &all))
        return false;
    w->store = vn_alloc(all, sizeof(double));
    w->scale = vn_alloc((size_t)n, sizeof *w->scale);
    w->order = vn_alloc((size_t)n, sizeof *w->order);
    if (!w->store || !w->scale || !w->order) return false;
    double **planes[] = {&w->a, &w->hi, &w->lo, &w->w, &w->x, &w->r}, **rest[] = {&w->grown, &w->top, &w->norm, &w->doubt, &w->c, &w->rows};
    double *next = w->store;
    for (size_t k = 0; k < PLANES; ++k, next += n * n) *planes[k] = next;
    for (size_t k = 0; k < sizeof rest / sizeof *rest; ++k, next += n) *rest[k] = next;
    if (!variance) w->w = NULL;
    return true;
}

static void work_free(work_t *w) {
    vn_free(w->store);
    vn_free(w->scale);
    vn_free(w->order);
}

/* ---- elimination ---- */

/* row -= l * pivot, from column `from`: one step of elimination. */
VN_CLONES static void eliminate(int64_t from, int64_t n, double lh, double ll, const double *restrict ph, const double *restrict pl,
                                double *restrict rh, double *restrict rl) {
    for (int64_t j = from; j < n; ++j) {
        const vn_dd_t p = vn_dd_mul((vn_dd_t){lh, ll}, (vn_dd_t){ph[j], pl[j]});
        const vn_dd_t d = vn_dd_add((vn_dd_t){rh[j], rl[j]}, vn_dd_neg(p));
        rh[j] = d.hi;
        rl[j] = d.lo;
    }
}

static void count_squares(int64_t from, int64_t n, double l, const double *restrict p, const double *restrict row, double *restrict w) {
    for (int64_t j = from; j < n; ++j) w[j] += l * p[j] * (l * p[j]) + row[j] * row[j];
}

static void swap_rows(work_t *w, int64_t a, int64_t b) {
    double *planes[] = {w->a, w->hi, w->lo, w->w};
    for (size_t k = 0; k < sizeof planes / sizeof *planes; ++k)
        for (int64_t j = 0; planes[k] && j < w->n; ++j) {
            const double t = planes[k][a * w->n + j];
            planes[k][a * w->n + j] = planes[k][b * w->n + j];
            planes[k][b * w->n + j] = t;
        }
    const int64_t t = w->order[a];
    w->order[a] = w->order[b];
    w->order[b] = t;
    w->sign = -w->sign;
}

static void load(work_t *w, const double *x, const double *err) {
    const int64_t n = w->n;
    for (int64_t j = 0; j < n; ++j) {
        double top = 0;
        int e = 0;
        for (int64_t i = 0; i < n; ++i) top = fmax(top, fabs(x[i * n + j]));
        if (top > 0) (void)frexp(top, &e);
        w->scale[j] = e;
        double sum = 0;
        w->doubt[j] = 0;
        for (int64_t i = 0; i < n; ++i) {
            const double v = ldexp(x[i * n + j], -e);
            w->a[i * n + j] = w->hi[i * n + j] = v;
            w->lo[i * n + j] = 0;
            if (w->w) w->w[i * n + j] = 0;
            sum += v * v;
            if (err) w->doubt[j] = fmax(w->doubt[j], ldexp(err[i * n + j], -e));
        }
        w->top[j] = ldexp(top, -e);
        w->norm[j] = sqrt(sum) * (1 + (double)(n + 4) * 0x1p-53) + 0x1p-500;
    }
    for (int64_t i = 0; i < n; ++i) w->order[i] = i;
    w->sign = 1;
}

static void factorise(work_t *w) {
    const int64_t n = w->n;
    for (int64_t k = 0; k < n; ++k) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; ++i)
            if (fabs(w->hi[i * n + k]) > fabs(w->hi[best * n + k])) best = i;
        if (best != k) swap_rows(w, k, best);
        const vn_dd_t pivot = {w->hi[k * n + k], w->lo[k * n + k]};
        if (pivot.hi == 0) continue; /* the whole column is zero below: nothing to eliminate */
        for (int64_t i = k + 1; i < n; ++i) {
            const vn_dd_t l = vn_dd_div((vn_dd_t){w->hi[i * n + k], w->lo[i * n + k]}, pivot);
            if (w->w) w->w[i * n + k] += w->hi[i * n + k] * w->hi[i * n + k];
            w->hi[i * n + k] = l.hi;
            w->lo[i * n + k] = l.lo;
            if (l.hi == 0) continue;
            eliminate(k + 1, n, l.hi, l.lo, w->hi + k * n, w->lo + k * n, w->hi + i * n, w->lo + i * n);
            if (w->w) count_squares(k + 1, n, l.hi, w->hi + k * n, w->hi + i * n, w->w + i * n);
        }
    }
    for (int64_t j = 0; j < n; ++j) {
        w->grown[j] = 0;
        for (int64_t k = 0; k <= j; ++k) w->grown[j] += fabs(w->hi[k * n + j]) * (1 + 0x1p-40);
        w->grown[j] = fmax(w->grown[j], w->top[j]);
    }
}

/* ---- the inverse, and how far it can be trusted (claim DET-3) ---- */

static void solve_unit(const work_t *w, int64_t c, double *x) {
    const int64_t n = w->n;
    for (int64_t i = 0; i < n; ++i) {
        double s = i == c;
        for (int64_t k = c; k < i; ++k) s -= w->hi[i * n + k] * x[k];
        x[i] = i < c ? 0 : s;
    }
    for (int64_t i = n - 1; i >= 0; --i) {
        double s = x[i];
        for (int64_t k = i + 1; k < n; ++k) s -= w->hi[i * n + k] * x[k];
        x[i] = s / w->hi[i * n + i];
    }
}

static void invert(work_t *w) {
    const int64_t n = w->n;
    w->invertible = false;
    for (int64_t k = 0; k < n; ++k)
        if (w->hi[k * n + k] == 0) return;
    for (int64_t c = 0; c < n; ++c) solve_unit(w, c, w->x + c * n);
    memset(w->r, 0, (size_t)(n * n) * sizeof *w->r);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
            const double x = w->x[i * n + j];
            for (int64_t k = 0; k < n; ++k) w->r[j * n + k] += x * w->a[i * n + k];
        }
    double most = 0, worst = 0;
    for (int64_t j = 0; j < n; ++j) {
        double sum = 0, lost = 1;
        for (int64_t i = 0; i < n; ++i) {
            double row = 0;
            for (int64_t k = 0; k < n; ++k) row += fabs(w->a[i * n + k]);
            sum += fabs(w->x[i * n + j]);
            lost += fabs(w->x[i * n + j]) * row;
        }
        double rho = vn_gamma(2 * (double)n + 8, 0x1p-53) * lost;
        for (int64_t k = 0; k < n; ++k) rho += fabs((j == k) - w->r[j * n + k]);
        w->rows[j] = sum * (1 + 0x1p-30);
        w->c[j] = rho * (1 + 0x1p-30);
        most = fmax(most, w->rows[j]);
        worst = fmax(worst, w->c[j]);
        if (!(rho < 0.5)) return;
    }
    for (int64_t j = 0; j < n; ++j) w->rows[j] += w->c[j] * most / (1 - worst);
    w->invertible = true;
}

/* ---- the bound (claim DET-2): c[] to |det(A + E)(1 + theta) - det A| in the scaled matrix ---- */

/* sum over k >= 1 of k^(k/2) f^k / k!, rounded up; f <= 4. A term is at most sqrt(e / (k + 1)) f times the one before. */
static double minors(double f) {
    double sum = 0, term = f; /* of k = 1 */
    for (int k = 1; k <= 100; ++k) {
        sum += term;
        term *= f / (k + 1) * pow(1 + 1.0 / k, 0.5 * k) * sqrt(k + 1.0);
    }
    return (sum + 4 * term) * (1 + 0x1p-30); /* from there each is below 0.66 times the one before */
}

static wide_t spread(const work_t *w, wide_t det, double theta) {
    const int64_t n = w->n;
    const wide_t size = {fabs(det.m), det.e};
    wide_t grown = {0, 0}, plain = {1, 0}, best;
    double f = 0;
    for (int64_t j = 0; j < n; ++j) {
        const double b = sqrt((double)n) * w->c[j] * (1 + 0x1p-40);
        grown = wide_plus(wide_times(grown, w->norm[j] + b), wide_times(plain, b));
        plain = wide_times(plain, w->norm[j]);
        if (w->invertible) f += w->c[j] * w->rows[j];
    }
    f *= 1 + 0x1p-30;
    best = grown;
    if (w->invertible && f <= 4) {
        const wide_t by_inverse = wide_times(size, minors(f));
        if (by_inverse.m == 0 || by_inverse.e < grown.e || (by_inverse.e == grown.e && by_inverse.m < grown.m)) best = by_inverse;
    }
    return wide_times(wide_plus(wide_times(best, 1 + theta), wide_times(size, theta)), 1 + (double)(n + 8) * 0x1p-52);
}

/* Sum of |products| over all permutations: what explicit formulas add up. */
static double permanent(const double *x, int64_t n, int used, int64_t row) {
    if (row == n) return 1;
    double s = 0;
    for (int64_t j = 0; j < n; ++j)
        if (!(used >> j & 1)) s += fabs(x[row * n + j]) * permanent(x, n, used | 1 << j, row + 1);
    return s;
}

/* ---- one matrix ---- */

typedef struct job {
    vn_eval_t *e;
    const double *x, *err, *var;
    int64_t n;
    int failed, flagged;
    uint8_t *flags;
} job_t;

static wide_t product(const work_t *w, double *low) {
    const int64_t n = w->n;
    vn_dd_t p = {w->sign, 0};
    int64_t exponent = 0;
    for (int64_t k = 0; k < n; ++k) {
        int shift;
        p = vn_dd_mul(p, (vn_dd_t){w->hi[k * n + k], w->lo[k * n + k]});
        (void)frexp(p.hi, &shift);
        if (p.hi == 0) break;
        p.hi = ldexp(p.hi, -shift);
        p.lo = ldexp(p.lo, -shift);
        exponent += shift;
    }
    *low = p.lo;
    return (wide_t){p.hi, p.hi == 0 ? 0 : exponent};
}

static double plain_variance(const job_t *j, const work_t *w, wide_t det, int64_t shift, double u, double bound) {
    const int64_t n = w->n;
    if (!w->invertible) return bound * bound / 3; /* no cofactors: uniform in the bound */
    double v = 0;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t k = 0; k < n; ++k) {
            const double cof = w->x[i * n + k], own = j->var ? ldexp(j->var[w->order[i] * n + k], (int)(-2 * w->scale[k])) : 0;
            v += cof * cof * (0.18 * u * u * w->w[i * n + k] + own);
        }
    const double size = wide_value(det, shift);
    return (v + 0.18 * u * u * (double)(n - 1)) * size * size;
}

static void bounds(job_t *j, work_t *w, int64_t b, wide_t det, int64_t shift) {
    vn_ref_t *out = &j->e->out[0];
    const vn_format_info_t *acc = vn_format_info(j->e->contract->accumulator);
    const int64_t n = w->n;
    const double gamma = vn_gamma((double)n, VN_DD_U);
    /* the oracle's own: underflow of partial products leaves at most 2^-1060 an element of a matrix scaled to 1 */
    for (int64_t k = 0; k < n; ++k) w->c[k] = gamma * w->grown[k] + (double)n * 0x1p-1060;
    out->own[b] = wide_value(spread(w, det, gamma), shift) + 0x1p-1074;
    if (!out->bound) return;
    const double theta = vn_gamma((double)n, acc->u);
    wide_t lost = wide_of(acc->eta * (double)n, 0), most = {1, 0};
    bool overflow = false;
    for (int64_t k = 0; k < n; ++k) {
        const double worst = n < 64 ? (ldexp(1, (int)n) - 1) * w->top[k] : INFINITY, grown = fmin(2 * w->grown[k], worst);
        const int64_t s = w->scale[k];
        w->c[k] = vn_gamma((double)(k + 1), acc->u) * grown + w->doubt[k] + (double)n * acc->eta * (ldexp(1, (int)-s) + grown);
        const wide_t pivot = wide_of(fmax(grown, 0x1p-1000), s);
        overflow |= pivot.e >= acc->emax + 1;
        if (pivot.e > 0) most = wide_of(most.m * pivot.m, most.e + pivot.e);
    }
    overflow |= most.e >= acc->emax + 1;
    lost = wide_of(lost.m * most.m, lost.e + most.e); /* a partial product that underflowed may be multiplied up again */
    double e = wide_value(spread(w, det, theta), shift) + wide_value(lost, 0);
    if (n <= 4) e = fmax(e, vn_gamma(2 * (double)n, acc->u) * permanent(j->x + b * n * n, n, 0, 0) + wide_value(lost, 0));
    out->bound[b] = isnan(e) ? INFINITY : e;
    if (overflow) {
        j->flags[b] = VN_EL_INF_OK | (e >= fabs(out->value[b]) ? VN_EL_NAN_OK : 0);
        __atomic_store_n(&j->flagged, 1, __ATOMIC_RELAXED);
    }
    if (out->var) out->var[b] = plain_variance(j, w, det, shift, acc->u, out->bound[b]);
}

static void matrix(job_t *j, work_t *w, int64_t b) {
    const int64_t n = j->n;
    const double *x = j->x + b * n * n;
    vn_ref_t *out = &j->e->out[0];
    bool nan = false, infinite = false;
    for (int64_t i = 0; i < n * n; ++i) {
        nan |= isnan(x[i]);
        infinite |= isinf(x[i]);
    }
    if (nan || infinite) { /* NaN, unless elimination meets a column of zeros first; an infinity may also win, or become 0 by division */
        out->value[b] = NAN;
        j->flags[b] = VN_EL_VOID;
        __atomic_store_n(&j->flagged, 1, __ATOMIC_RELAXED);
        if (out->bound) out->bound[b] = INFINITY;
        return;
    }
    load(w, x, j->err ? j->err + b * n * n : NULL);
    factorise(w);
    double low;
    const wide_t det = product(w, &low);
    int64_t shift = 0;
    for (int64_t k = 0; k < n; ++k) shift += w->scale[k];
    out->value[b] = wide_value(det, shift);
    if (out->lo) out->lo[b] = isfinite(out->value[b]) ? wide_value((wide_t){low, det.e}, shift) : 0;
    if (!out->own) return;
    invert(w);
    bounds(j, w, b, det, shift);
}

static void run(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    work_t w;
    if (!work_new(j->n, j->e->want >= VN_WANT_VARIANCE, &w)) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    else
        for (int64_t b = begin; b < end; ++b) matrix(j, &w, b);
    work_free(&w);
}

/* ---- the row ---- */

static vn_status_t shape(vn_eval_t *e, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    *s = vn_shape_of(e->in[0].t);
    if (s->rank < 2 || s->d[s->rank - 1] != s->d[s->rank - 2])
        return vn_eval_fail(e, VN_ERR_SHAPE, "the last two of %d dimensions must be there and equal", s->rank);
    s->rank -= 2;
    return VN_OK;
}

static vn_status_t infer(vn_eval_t *e) {
    vn_shape_t s;
    VN_TRY(shape(e, &s));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

/* n = 1 moves the operand, n = 0 is the empty product. */
static vn_status_t trivial(vn_eval_t *e, int64_t n, const vn_shape_t *s) {
    const double *x = vn_arg_f64(e, 0), *err = vn_arg_err(e, 0);
    if (!x) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, e->in[0].t->dtype, s->rank, s->d));
    vn_ref_t *r = &e->out[0];
    for (int64_t b = 0; b < r->count; ++b) {
        r->value[b] = n ? x[b] : 1;
        if (n && err && r->bound) r->bound[b] = err[b];
        if (n && e->in[0].var && r->var) r->var[b] = e->in[0].var[b];
    }
    vn_out_rounded(e, 0);
    return VN_OK;
}

static vn_status_t eval(vn_eval_t *e) {
    vn_shape_t s;
    VN_TRY(shape(e, &s));
    const vn_tensor_t *t = e->in[0].t;
    if (!vn_dtype_is_float(t->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "no determinant of %s", vn_dtype_name(t->dtype));
    const int64_t n = t->dims[t->rank - 1];
    if (n <= 1) return trivial(e, n, &s);
    job_t j = {.e = e, .n = n, .x = vn_arg_f64(e, 0), .err = vn_arg_err(e, 0), .var = e->in[0].var};
    if (!j.x) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, t->dtype, s.rank, s.d));
    if (e->want >= VN_WANT_BOUND) VN_TRY(vn_out_own(e, 0));
    if (t->dtype == VN_F64) VN_TRY(vn_out_lo(e, 0));
    vn_ref_t *r = &e->out[0];
    r->terms = n;
    j.flags = vn_alloc((size_t)(r->count ? r->count : 1), 1);
    if (!j.flags) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
    const int64_t grain = (1 << 12) / (n * n);
    vn_parallel(r->count, grain < 1 ? 1 : grain, run, &j);
    vn_status_t status = j.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a matrix of %lld rows", (long long)n) : VN_OK;
    if (status == VN_OK && j.flagged) status = vn_out_flags(e, 0);
    if (status == VN_OK && j.flagged) memcpy(r->flags, j.flags, (size_t)r->count);
    vn_free(j.flags);
    return status;
}

static const vn_op_t rows[] = {
    {"", "Det", 11, 0, VN_CLASS_COMPOSITE, VN_OP_PROPAGATES, "DET-2", eval, infer, 0},
};

const vn_family_t vn_family_determinant = {.name = "determinant", .rows = rows, .count = sizeof rows / sizeof *rows};
