/* op_localnorm.c -- LpNormalization and LRN.
 *
 * Claims:
 *   NORM-5  y = x / ||x||: with F = (n-1) u (p = 1) or the relative form of SUM-4's L2 bound (p = 2) for the norm,
 *           |y| [(1+u)^2 / (1-F) - 1] + eta. A norm of zero gives zero.
 *   NORM-6  LRN: Q = sum of squares over the window, z = bias + (alpha/size) Q, D_z = (alpha/size) Q g(n+4) + u z + 2 eta,
 *           y = x z^-beta within |y| [(1 + E_p)(1+u)^2 - 1] + eta, E_p = (1 - D_z/z)^-|beta| (1 + 2 t u) - 1, t the budget of pow.
 */
#include <math.h>
#include <string.h>

#include "oracle/norm.h"

typedef struct lp {
    vn_eval_t *e;
    int p;
    double u, eta;
    vn_format_t acc;
} lp_t;

static void lp_row(void *ctx, const vn_row_t *row) {
    const lp_t *j = ctx;
    const double *x = row->in[0], *err = row->in[1], n = (double)row->n, u = j->u;
    const vn_sum2_t s = j->p == 1 ? vn_sum2_abs(x, row->n) : vn_sum2_squares(x, row->n, 0, 0);
    const double norm = j->p == 1 ? s.hi : sqrt(s.hi);
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
    for (int64_t k = 0; k < row->n; ++k) {
        const double y = norm == 0 ? 0 : x[k] / norm;
        row->out[0][k] = y;
        if (!row->out[1]) continue;
        if (norm == 0) {
            row->out[1][k] = err ? INFINITY : 0;
            continue;
        }
        const double ex = err ? err[k] / norm : 0;
        row->out[1][k] = rel < 1 ? (fabs(y) + ex) * ((1 + u) * (1 + u) / (1 - rel) - 1) + ex + j->eta : INFINITY;
        if (!isfinite(y)) row->out[1][k] = 0;
        if (row->out[2]) row->out[2][k] = y * y * sum_var + vn_node_variance(j->acc, y) + (row->in[2] ? row->in[2][k] / (norm * norm) : 0);
    }
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
    lp_t j = {.e = e, .p = (int)p, .u = vn_u(e), .eta = e->contract->ftz ? vn_tau(e) : vn_eta(e), .acc = e->contract->accumulator};
    vn_row_job_t job = {.shape = &s,
                        .in = {plane, vn_arg_err(e, 0), e->in[0].var},
                        .out = {e->out[0].value, e->out[0].bound, e->out[0].var},
                        .fn = lp_row,
                        .ctx = &j};
    e->out[0].terms = s.n;
    return vn_rows_run(e, &job);
}

typedef struct lrn {
    const double *x;
    vn_ref_t *r;
    int64_t channels, inner, size;
    double alpha, beta, bias, u, eta, t;
    vn_format_t acc;
} lrn_t;

static void lrn_range(void *ctx, int64_t begin, int64_t end) {
    const lrn_t *j = ctx;
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
        const double b = fabs(y) * ((1 + ep) * (1 + u) * (1 + u) - 1) + j->eta;
        j->r->bound[i] = isnan(b) ? INFINITY : b;
        if (j->r->var) {
            const double sz = j->beta * j->beta * (0.18 * u * u * (1 + (n / 3 + 3) * part * part / (z * z)));
            j->r->var[i] = y * y * (sz + 0.5 * u * u) + vn_node_variance(j->acc, y);
        }
    }
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
               .acc = e->contract->accumulator};
    if (!j.x) return VN_ERR_NOMEM;
    for (int d = 2; d < x->rank; ++d) j.inner *= x->dims[d];
    e->out[0].terms = size < x->dims[1] ? size : x->dims[1];
    vn_parallel(x->count, 1 << 12, lrn_range, &j);
    return VN_OK;
}
