/* op_ms_inverse.c -- Inverse of com.microsoft: the inverse of each matrix of a batch.
 *
 * Claim MS-13. A kernel eliminates with partial pivoting and solves for the columns of the identity (or multiplies inverse factors): its X^ has
 * a residual of at most g(4n) |L||U||X^|, from the right or from the left (Higham, Accuracy and Stability, 9.4 and 14.3). With M = |X| g(4n) P'|L||U|,
 * mu its largest row sum and m_i the sum of row i:
 *   E_ij = (M|X|)_ij + m_i mu / (1 - mu) max_k |X_kj|, no statement where mu >= 1.
 * L and U are those of exact partial pivoting. Where rounding may change a pivot, growth from there on is bounded by doubling at each step: |L||U|
 * <= n rho 2^(n-1-k), rho the largest element at step k. Value: elimination in long double, whose own error is E with its roundoff.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle/ms.h"
#include "oracle/require.h"

typedef struct inverse {
    vn_eval_t *e;
    int64_t n;
    const double *a;
    double u;
    int failed; /* atomic */
    vn_flagger_t flags;
} inverse_t;

typedef struct work {
    long double *lu, *x; /* [n, n] each */
    double *w, *m, *size;
    int64_t *row; /* row of A that stands in row i of lu */
} work_t;

/* Returns false for a singular matrix. *loose: bound of |L||U| where a pivot is open, 0 = none is. */
static bool eliminate(const inverse_t *j, work_t *w, double *loose) {
    const int64_t n = j->n;
    long double rho = 0;
    *loose = 0;
    for (int64_t i = 0; i < n * n; ++i) rho = fmaxl(rho, fabsl(w->lu[i]));
    for (int64_t k = 0; k < n; ++k) {
        int64_t best = k;
        long double second = 0;
        for (int64_t i = k; i < n; ++i)
            if (fabsl(w->lu[i * n + k]) > fabsl(w->lu[best * n + k])) best = i;
        for (int64_t i = k; i < n; ++i)
            if (i != best) second = fmaxl(second, fabsl(w->lu[i * n + k]));
        const long double pivot = w->lu[best * n + k];
        if (pivot == 0 || !isfinite(pivot)) return false;
        const double slack = k ? 2 * vn_gamma(2.0 * (double)n, j->u) * (double)n * (double)rho : 0; /* the first column is given */
        if (k + 1 < n && (double)second >= (double)fabsl(pivot) - slack)
            *loose = fmax(*loose, ldexp((double)n * (double)rho, (int)(n - 1 - k < 2000 ? n - 1 - k : 2000)));
        for (int64_t c = 0; c < n && best != k; ++c) {
            const long double t = w->lu[k * n + c];
            w->lu[k * n + c] = w->lu[best * n + c];
            w->lu[best * n + c] = t;
        }
        const int64_t t = w->row[k];
        w->row[k] = w->row[best];
        w->row[best] = t;
        for (int64_t i = k + 1; i < n; ++i) {
            const long double l = w->lu[i * n + k] / pivot;
            w->lu[i * n + k] = l;
            for (int64_t c = k + 1; c < n; ++c) {
                w->lu[i * n + c] -= l * w->lu[k * n + c];
                rho = fmaxl(rho, fabsl(w->lu[i * n + c]));
            }
        }
    }
    return true;
}

static void solve(const inverse_t *j, work_t *w) {
    const int64_t n = j->n;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < n; ++c) w->x[i * n + c] = w->row[i] == c ? 1 : 0;
    for (int64_t i = 0; i < n; ++i)
        for (int64_t k = 0; k < i; ++k)
            for (int64_t c = 0; c < n; ++c) w->x[i * n + c] -= w->lu[i * n + k] * w->x[k * n + c];
    for (int64_t i = n - 1; i >= 0; --i) {
        for (int64_t k = i + 1; k < n; ++k)
            for (int64_t c = 0; c < n; ++c) w->x[i * n + c] -= w->lu[i * n + k] * w->x[k * n + c];
        for (int64_t c = 0; c < n; ++c) w->x[i * n + c] /= w->lu[i * n + i];
    }
}

/* |L||U| in the rows of A, and M = |X| g(4n) of it. */
static void residual(const inverse_t *j, work_t *w, double loose) {
    const int64_t n = j->n;
    const double g = vn_gamma(4.0 * (double)n, j->u);
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < n; ++c) {
            double s = 0;
            for (int64_t k = 0; k <= i && k <= c; ++k)
                s += (k == i ? 1 : (double)fabsl(w->lu[i * n + k])) * (double)fabsl(w->lu[k * n + c]);
            w->w[w->row[i] * n + c] = fmax(s, loose);
        }
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < n; ++c) {
            double s = 0;
            for (int64_t k = 0; k < n; ++k) s += w->size[i * n + k] * w->w[k * n + c];
            w->m[i * n + c] = g * s * (1 + 0x1p-40);
        }
}

/* Var of X^ = sum of X_ik^2 s_kc X_cj^2, s = 0.18 (u W)^2 with W = |L||U|: independent entries of the residual. The factors are not needed any more. */
static void variance(const inverse_t *j, const work_t *w, double *out) {
    const int64_t n = j->n;
    long double *half = w->lu; /* s X^2 */
    for (int64_t k = 0; k < n; ++k)
        for (int64_t c = 0; c < n; ++c) {
            double sum = 0;
            for (int64_t i = 0; i < n; ++i) {
                const double size = j->u * w->w[k * n + i] * w->size[i * n + c];
                sum += 0.18 * size * size;
            }
            half[k * n + c] = sum;
        }
    for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < n; ++c) {
            double sum = 0;
            for (int64_t k = 0; k < n; ++k) sum += w->size[i * n + k] * w->size[i * n + k] * (double)half[k * n + c];
            out[i * n + c] = sum;
        }
}

static void bound(const inverse_t *j, const work_t *w, int64_t at) {
    const int64_t n = j->n;
    vn_ref_t *r = &j->e->out[0];
    double mu = 0;
    for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < n; ++c) sum += w->m[i * n + c];
        mu = sum <= mu ? mu : sum; /* keeps NaN out of later comparisons: !(mu < 1) */
    }
    for (int64_t c = 0; c < n; ++c) {
        double top = 0;
        for (int64_t k = 0; k < n; ++k) top = fmax(top, w->size[k * n + c]);
        for (int64_t i = 0; i < n; ++i) {
            double sum = 0, row = 0;
            for (int64_t k = 0; k < n; ++k) {
                sum += w->m[i * n + k] * w->size[k * n + c];
                row += w->m[i * n + k];
            }
            const double b = mu < 1 ? (sum + row * mu / (1 - mu) * top) * (1 + 0x1p-40) + vn_eta(j->e) : INFINITY;
            r->bound[at + i * n + c] = b;
            if (r->own) r->own[at + i * n + c] = isfinite(b) ? b * ((double)LDBL_EPSILON / j->u) : 0;
        }
    }
}

static bool work_new(int64_t n, work_t *w) {
    const size_t cells = (size_t)(n * n) + 1;
    *w = (work_t){.lu = vn_alloc(cells, sizeof(long double)),
                  .x = vn_alloc(cells, sizeof(long double)),
                  .w = vn_alloc(cells, sizeof(double)),
                  .m = vn_alloc(cells, sizeof(double)),
                  .size = vn_alloc(cells, sizeof(double)),
                  .row = vn_alloc((size_t)n + 1, sizeof(int64_t))};
    return w->lu && w->x && w->w && w->m && w->size && w->row;
}

static void work_free(work_t *w) {
    vn_free(w->lu);
    vn_free(w->x);
    vn_free(w->w);
    vn_free(w->m);
    vn_free(w->size);
    vn_free(w->row);
}

static void matrices(void *ctx, int64_t begin, int64_t end) {
    inverse_t *j = ctx;
    const int64_t n = j->n, cells = n * n;
    vn_ref_t *r = &j->e->out[0];
    work_t w;
    if (!work_new(n, &w)) __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
    for (int64_t z = begin; z < end && !j->failed; ++z) {
        const int64_t at = z * cells;
        double loose;
        for (int64_t i = 0; i < cells; ++i) w.lu[i] = j->a[at + i];
        for (int64_t i = 0; i < n; ++i) w.row[i] = i;
        if (!eliminate(j, &w, &loose)) { /* the operator's text demands matrices that have an inverse */
            for (int64_t i = 0; i < cells; ++i) vn_flag(&j->flags, at + i, VN_EL_VOID);
            continue;
        }
        solve(j, &w);
        for (int64_t i = 0; i < cells; ++i) {
            const double v = (double)w.x[i];
            r->value[at + i] = v;
            r->lo[at + i] = isfinite(v) ? (double)(w.x[i] - v) : 0;
            w.size[i] = fabs(v) * (1 + 0x1p-50);
        }
        if (!r->bound) continue;
        residual(j, &w, loose);
        bound(j, &w, at);
        if (r->var) variance(j, &w, r->var + at);
    }
    work_free(&w);
}

static vn_status_t square(vn_eval_t *e) {
    VN_TRY(vn_require(e, 1));
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2]) return vn_eval_fail(e, VN_ERR_SHAPE, "square matrices are needed");
    if (!vn_dtype_is_float(x->dtype) || vn_dtype_bits(x->dtype) < 16)
        return vn_eval_fail(e, VN_ERR_DTYPE, "matrices of %s", vn_dtype_name(x->dtype));
    return x->dims[x->rank - 1] <= 1 << 15 ? VN_OK
                                           : vn_eval_fail(e, VN_ERR_RANGE, "matrices of %lld rows", (long long)x->dims[x->rank - 1]);
}

vn_status_t vn_eval_ms_inverse(vn_eval_t *e) {
    VN_TRY(square(e));
    const vn_tensor_t *x = e->in[0].t;
    inverse_t j = {.e = e, .n = x->dims[x->rank - 1], .a = vn_arg_f64(e, 0), .u = vn_u(e), .flags = {.e = e, .k = 0}};
    if (!j.a) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, x->dims));
    VN_TRY(vn_out_lo(e, 0));
    if (e->want >= VN_WANT_BOUND) VN_TRY(vn_out_own(e, 0));
    e->out[0].terms = j.n;
    if (x->count == 0) return VN_OK;
    vn_parallel(x->count / (j.n * j.n), 1 + 4096 / (j.n * j.n * j.n + 1), matrices, &j);
    return j.failed || j.flags.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for matrices of %lld rows", (long long)j.n) : VN_OK;
}

vn_status_t vn_infer_ms_inverse(vn_eval_t *e) {
    VN_TRY(square(e));
    return vn_infer_same(e);
}
