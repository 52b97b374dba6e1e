/* op_localnorm.c -- LpNormalization and LRN.
 *
 * Claims:
 *   NORM-5  y = x / ||x||: with F = (n-1) u (p = 1) or the relative form of SUM-4's L2 bound (p = 2) for the norm,
 *           |y| [(1+u)^2 / (1-F) - 1] + eta. A norm of zero gives zero. Where the hidden sum (1 + n u) reaches the largest number it may be
 *           infinite and y zero: a zero is explainable.
 *   NORM-6  LRN: Q = sum of squares over the window, z = bias + (alpha/size) Q, D_z = (alpha/size) Q g(n+4) + u z + 2 eta,
 *           y = x z^-beta within |y| [(1 + E_p)(1+u)^2 - 1] + eta (a zero is explainable where z + D_z overflows), E_p = (1 - D_z/z)^-|beta| (1 + 2 t u) - 1, t the budget of pow.
 */
#include <math.h>
#include <string.h>

#include "oracle/elementwise.h"
#include "oracle/escalate.h"
#include "oracle/norm.h"

static double norm_of(const double *x, int64_t n, int p, vn_sum2_t *s) {
    *s = p == 1 ? vn_sum2_abs(x, n) : vn_sum2_squares(x, n, 0, 0);
    return p == 1 ? s->hi : sqrt(s->hi);
}

/* The norm of numbers whose sum of powers leaves f64, in units of 2^*e; Inf where one of them is no number. */
static double scaled_norm(const double *x, int64_t n, int p, double *scratch, int *e) {
    double top = 0;
    vn_sum2_t s;
    for (int64_t i = 0; i < n; ++i) top = fmax(top, fabs(x[i]));
    if (!isfinite(top)) return INFINITY;
    frexp(top, e);
    for (int64_t i = 0; i < n; ++i) scratch[i] = ldexp(x[i], -*e);
    return norm_of(scratch, n, p, &s);
}

typedef struct lp {
    vn_eval_t *e;
    int p;
    double u, eta;
    vn_format_t acc;
} lp_t;

static void lp_row(void *ctx, const vn_row_t *row) {
    const lp_t *j = ctx;
    const double *x = row->in[0], *err = row->in[1], n = (double)row->n, u = j->u;
    vn_sum2_t s;
    int scale = 0;
    const double norm = norm_of(x, row->n, j->p, &s), unit = isinf(norm) ? scaled_norm(x, row->n, j->p, row->work, &scale) : norm;
    double doubt = 0, rel;
    for (int64_t k = 0; err && k < row->n; ++k) doubt += j->p == 1 ? err[k] : err[k] * err[k];
    doubt = j->p == 1 ? doubt : sqrt(doubt); /* the norm of the change bounds the change of the norm */
    if (j->p == 1) {
        rel = (n - 1) * u;
    } else {
        const double E = (n * u * s.hi + n * j->eta / 2 * (1 + n * u)) / s.hi;
        rel = fmax(sqrt(1 + E) * (1 + u) - 1, E < 1 ? 1 - sqrt(1 - E) * (1 - u) : INFINITY);
    }
    rel += norm > 0 ? doubt / norm * (1 + rel) : 0;
    const double sum_var =
        row->out[2] && norm > 0 ? (j->p == 1 ? 0.18 * u * u * n / 3 : 0.25 * (0.18 * u * u * (n / 3 + 1)) + 0.18 * u * u) : 0;
    const bool hidden = s.hi * (1 + n * u) >= vn_format_info(j->acc)->max;
    for (int64_t k = 0; k < row->n; ++k) {
        const double y = norm == 0 ? 0 : ldexp(x[k], -scale) / unit;
        row->out[0][k] = y;
        if (!row->out[1]) continue;
        row->out[3][k] = hidden;
        if (norm == 0) {
            row->out[1][k] = err ? INFINITY : 0;
            continue;
        }
        const double ex = err ? err[k] / norm : 0;
        row->out[1][k] = rel < 1 && !isinf(norm) ? (fabs(y) + ex) * ((1 + u) * (1 + u) / (1 - rel) - 1) + ex + j->eta : INFINITY;
        if (!isfinite(y)) row->out[1][k] = 0;
        if (row->out[2]) row->out[2][k] = y * y * sum_var + vn_node_variance(j->acc, y) + (row->in[2] ? row->in[2][k] / (norm * norm) : 0);
    }
}

typedef struct lp_refine {
    const vn_rows_t *rows;
    const double *x;
    int p;
} lp_refine_t;

/* In more digits (claim PREC-3): sums without loss, then a root and a quotient, each kept as value and rest where it is exact. */
static void lp_refine_row(void *ctx, const vn_refine_row_t *row) {
    const lp_refine_t *j = ctx;
    double *x = vn_alloc((size_t)(row->n ? row->n : 1), sizeof *x);
    if (!x) return; /* not refined: counted as undecided */
    vn_rows_read(j->rows, j->x, row->index, 1, x);
    vn_quad_sum_t s = {0};
    for (int64_t k = 0; k < row->n; ++k) vn_quad_add(&s, j->p == 1 ? (vn_quad_t)fabs(x[k]) : (vn_quad_t)x[k] * x[k]);
    const vn_quad_t norm = j->p == 1 ? s.hi : vn_qsqrt(s.hi);
    const bool exact = s.lo == 0 && s.lost == 0 && (j->p == 1 || vn_qfma(norm, norm, -s.hi) == 0);
    for (int64_t i = 0; i < row->count && norm > 0 && vn_quad_finite(norm); ++i) {
        vn_exact_t y = vn_exact_quotient((vn_exact_t){.value = x[row->k[i]]}, norm);
        if (!exact) y.own += vn_qabs(y.value) * VN_QUAD_ERROR(1);
        *row->out[i] = y;
    }
    vn_free(x);
}

/* Before opset 22 the text does not say what a zero norm gives: the quotient 0/0 is a reading. */
static vn_status_t reading_zero_norm(vn_eval_t *e, const vn_rows_t *s, const double *x) {
    vn_ref_t *r = &e->out[0];
    bool any = false;
    double *row = vn_alloc((size_t)(s->n ? s->n : 1), sizeof *row), *plane = vn_alloc((size_t)(r->count ? r->count : 1), sizeof *plane);
    vn_tensor_t *t = NULL;
    vn_status_t status = row && plane ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a reading");
    if (status == VN_OK) memcpy(plane, r->value, (size_t)r->count * sizeof *plane);
    for (int64_t i = 0; i < s->rows && status == VN_OK && s->n > 0; ++i) {
        bool zero = true;
        vn_rows_read(s, x, i, 1, row);
        for (int64_t k = 0; k < s->n; ++k) zero = zero && row[k] == 0;
        if (!zero) continue;
        any = true;
        for (int64_t k = 0; k < s->n; ++k) row[k] = NAN;
        vn_rows_write(s, plane, i, 1, row);
    }
    if (status == VN_OK && any) status = vn_tensor_new_raw(r->dtype, r->rank, r->dims, &t, e->err);
    if (status == VN_OK && any) {
        vn_tensor_from_f64(t, plane, VN_RNE, false);
        status = vn_out_reading(e, 0, "0/0 is NaN", t);
    }
    vn_free(row);
    vn_free(plane);
    return status;
}

vn_status_t vn_eval_lp_norm(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    const int64_t p = vn_node_int(e->node, "p", 2);
    int axis;
    bool along[VN_MAX_RANK] = {false};
    if (p != 1 && p != 2) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "p = %lld; the standard has 1 and 2", (long long)p);
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", -1), x->rank, &axis));
    along[axis] = true;
    vn_rows_t s;
    vn_rows_plan(x->rank, x->dims, along, &s);
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, x->dims));
    const double *plane = vn_arg_f64(e, 0);
    if (!plane) return VN_ERR_NOMEM;
    if (e->refine) return vn_refine_rows(e, &s, lp_refine_row, &(lp_refine_t){.rows = &s, .x = plane, .p = (int)p});
    e->out[0].own_rel = 0x1p-50; /* sum of squares 4 half units, root and quotient one each */
    lp_t j = {.e = e, .p = (int)p, .u = vn_u(e), .eta = e->contract->ftz ? vn_tau(e) : vn_eta(e), .acc = e->contract->accumulator};
    vn_ref_t *r = &e->out[0];
    double *over = r->bound ? vn_alloc((size_t)(r->count ? r->count : 1), sizeof *over) : NULL;
    if (r->bound && !over) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_row_job_t job = {.shape = &s,
                        .in = {plane, vn_arg_err(e, 0), e->in[0].var},
                        .out = {r->value, r->bound, r->var, over},
                        .work = 1,
                        .fn = lp_row,
                        .ctx = &j};
    r->terms = s.n;
    vn_status_t status = vn_rows_run(e, &job);
    bool any = false;
    for (int64_t i = 0; over && i < r->count && !any; ++i) any = over[i] != 0;
    if (status == VN_OK && any) status = vn_out_flags(e, 0);
    for (int64_t i = 0; status == VN_OK && any && i < r->count; ++i) r->flags[i] = over[i] != 0 ? VN_EL_ZERO_OK : 0;
    vn_free(over);
    VN_TRY(status);
    return e->version < 22 && e->want >= VN_WANT_BOUND ? reading_zero_norm(e, &s, plane) : VN_OK;
}

typedef struct lrn {
    const double *x;
    vn_ref_t *r;
    int64_t channels, inner, size;
    double alpha, beta, bias, u, eta, t;
    vn_format_t acc;
    vn_flagger_t flags;
} lrn_t;

static void lrn_range(void *ctx, int64_t begin, int64_t end) {
    lrn_t *j = ctx;
    const int64_t before = (j->size - 1) / 2, after = j->size - 1 - before; /* floor and ceil of (size - 1) / 2 */
    for (int64_t i = begin; i < end; ++i) {
        const int64_t c = i / j->inner % j->channels, from = c > before ? c - before : 0,
                      to = c + after < j->channels ? c + after : j->channels - 1;
        double q = 0;
        for (int64_t k = from; k <= to; ++k) {
            const double v = j->x[i + (k - c) * j->inner];
            q += v * v;
        }
        const double n = (double)(to - from + 1), part = j->alpha / (double)j->size * q, z = j->bias + part, y = j->x[i] * pow(z, -j->beta);
        j->r->value[i] = y;
        if (!j->r->bound || !isfinite(y)) continue;
        const double u = j->u, dz = fabs(part) * vn_gamma(n + 4, u) + u * fabs(z) + 2 * j->eta, rel = dz / fabs(z);
        const double ep = rel < 1 ? pow(1 - rel, -fabs(j->beta)) * (1 + 2 * j->t * u) - 1 : INFINITY;
        if (fmax(q * (1 + n * u), fabs(z) + dz) >= vn_format_info(j->acc)->max) vn_flag(&j->flags, i, VN_EL_ZERO_OK);
        const double b = fabs(y) * ((1 + ep) * (1 + u) * (1 + u) - 1) + j->eta;
        j->r->bound[i] = isnan(b) ? INFINITY : b;
        if (j->r->var) {
            const double sz = j->beta * j->beta * (0.18 * u * u * (1 + (n / 3 + 3) * part * part / (z * z)));
            j->r->var[i] = y * y * (sz + 0.5 * u * u) + vn_node_variance(j->acc, y);
        }
    }
}

static void lrn_refine(void *ctx, int64_t i, vn_exact_t *out) {
    const lrn_t *j = ctx;
    const int64_t before = (j->size - 1) / 2, after = j->size - 1 - before, c = i / j->inner % j->channels;
    const int64_t from = c > before ? c - before : 0, to = c + after < j->channels ? c + after : j->channels - 1;
    vn_quad_t q = 0;
    for (int64_t k = from; k <= to; ++k) q += (vn_quad_t)j->x[i + (k - c) * j->inner] * j->x[i + (k - c) * j->inner];
    const vn_quad_t part = (vn_quad_t)j->alpha / (vn_quad_t)j->size * q, z = j->bias + part;
    if (!(z > 0)) return;
    const vn_quad_t y = j->x[i] * vn_qpow(z, -j->beta), n = (double)(to - from + 8);
    /* z: n + 3 roundings of part, one of the sum; the power multiplies that by |beta| */
    const vn_quad_t z_wrong = (vn_qabs(part) * n + z) * VN_QUAD_U / z;
    if (vn_quad_finite(y)) *out = (vn_exact_t){.value = y, .own = vn_qabs(y) * (fabs(j->beta) * z_wrong + VN_QUAD_ERROR(2))};
}

vn_status_t vn_eval_lrn(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    const int64_t size = vn_node_int(e->node, "size", 0);
    if (x->rank < 2) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 of rank %d has no channel axis", x->rank);
    if (size < 1 || size > INT64_MAX / 4) return vn_eval_fail(e, VN_ERR_RANGE, "size is %lld", (long long)size);
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, x->dims));
    lrn_t j = {.x = vn_arg_f64(e, 0),
               .r = &e->out[0],
               .channels = x->dims[1],
               .inner = 1,
               .size = size,
               .alpha = vn_node_float(e->node, "alpha", 1e-4f),
               .beta = vn_node_float(e->node, "beta", 0.75),
               .bias = vn_node_float(e->node, "bias", 1),
               .u = vn_u(e),
               .eta = vn_eta(e),
               .t = vn_budget(e, "pow"),
               .acc = e->contract->accumulator,
               .flags = {.e = e}};
    if (!j.x) return VN_ERR_NOMEM;
    for (int d = 2; d < x->rank; ++d) j.inner *= x->dims[d];
    e->out[0].terms = size < x->dims[1] ? size : x->dims[1];
    if (e->refine) {
        vn_refine_each(e, lrn_refine, &j);
        return VN_OK;
    }
    /* z: n + 3 half units where bias and alpha have one sign (else the bound is void too), times |beta|; pow 2, product 1 */
    e->out[0].own_rel = (fabs(j.beta) * ((double)size + 4) + 8) * 0x1p-53;
    vn_parallel(x->count, 1 << 12, lrn_range, &j);
    return j.flags.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags") : VN_OK;
}
