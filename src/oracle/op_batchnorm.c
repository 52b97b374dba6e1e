/* op_batchnorm.c -- BatchNormalization: given statistics (inference) and statistics of the batch (training).
 *
 * Claim NORM-4 (bounds.md "batch norm"): with s = gamma / sqrt(v + eps) and d = x - mu, the direct form is within
 * [5.5 u |s d| + u |y|](1 + 16 u) + 3 eta (sub, eps, root, quotient, product, last addition; eps itself rounded to the accumulator's format adds
 * a relative eta / 2 (v + eps)). Second tier "bn-fold", x s + (beta - mu s): + u |s| (|x| + 2 |mu|) + u |beta|.
 * Training: NORM-1 over all axes but the channel; running = old * momentum + current * (1 - momentum):
 * 3 u (|old m| + |current (1-m)|) + (1-m) E(current) (1 + 3u).
 */
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/norm.h"

typedef struct infer_job {
    vn_eval_t *e;
    const double *x, *err, *x_var, *gamma, *beta, *mu, *var;
    int64_t channels, inner;
    double eps, u, eta, eta_acc, u_mid;
    vn_format_t acc;
    bool per_feature, doubt;
} infer_job_t;

static void infer_range(void *ctx, int64_t begin, int64_t end) {
    const infer_job_t *j = ctx;
    vn_ref_t *r = &j->e->out[0];
    for (int64_t i = begin; i < end; ++i) {
        const int64_t c = j->per_feature ? i % (j->channels * j->inner) : i / j->inner % j->channels;
        const double x = j->x[i], d = x - j->mu[c], under = j->var[c] + j->eps, s = j->gamma[c] / sqrt(under), y = d * s + j->beta[c];
        r->value[i] = y;
        if (!r->bound || !isfinite(y)) continue;
        const double u = j->u, a = fabs(s), w = j->err ? j->err[i] : 0, under_loss = j->eta_acc / 2 / under;
        const double inner = (5.5 * u + under_loss) * a * fabs(d) + (1 + 5.5 * u) * a * w, grow = 1 + 16 * u;
        double mid = j->u_mid * (2 * a * fabs(d) + fabs(y));
        r->bound[i] = (inner + u * fabs(y) + mid) * grow + 3 * j->eta;
        if (r->wide)
            r->wide[i] = (inner + u * a * (fabs(x) + 2 * fabs(j->mu[c])) + u * fabs(j->beta[c]) + u * fabs(y) + mid) * grow + 3 * j->eta;
        if (j->doubt) r->bound[i] = INFINITY;
        if (r->own) r->own[i] = r->bound[i] * (0x1p-53 / u) + 0x1p-52 * fabs(y);
        if (r->var)
            r->var[i] = 0.18 * u * u * 4.25 * s * s * d * d + vn_node_variance(j->acc, y) + (j->x_var ? s * s * j->x_var[i] : 0) +
                        0.36 * j->u_mid * j->u_mid * y * y;
    }
}

/* In more digits (claim PREC-3): d is one sum of doubles, the factor has 8 units, the last sum is kept apart. */
static void refine_one(void *ctx, int64_t i, vn_exact_t *out) {
    const infer_job_t *j = ctx;
    const int64_t c = j->per_feature ? i % (j->channels * j->inner) : i / j->inner % j->channels;
    const vn_quad_t d = (vn_quad_t)j->x[i] - j->mu[c], part = j->gamma[c] * d / vn_qsqrt((vn_quad_t)j->var[c] + j->eps);
    if (vn_quad_finite(part)) *out = (vn_exact_t){.value = part, .rest = j->beta[c], .own = vn_qabs(part) * VN_QUAD_ERROR(1)};
}

static vn_status_t inference(vn_eval_t *e, int64_t channels, int64_t inner, bool per_feature) {
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, x->dims));
    const bool bound = e->want >= VN_WANT_BOUND;
    if (bound && e->contract->tier != VN_TIER_IEEE) VN_TRY(vn_out_wide(e, 0, "bn-fold"));
    if (bound && e->contract->accumulator == VN_FMT_F64) VN_TRY(vn_out_own(e, 0));
    const vn_format_info_t *mid = vn_format_info(vn_mid_format(e)), *acc = vn_format_info(e->contract->accumulator);
    infer_job_t j = {.e = e,
                     .channels = channels,
                     .inner = inner,
                     .per_feature = per_feature,
                     .eps = vn_node_float(e->node, "epsilon", 1e-5f),
                     .u = acc->u,
                     .eta = e->contract->ftz ? acc->tau : acc->eta,
                     .eta_acc = acc->eta,
                     .acc = e->contract->accumulator,
                     .u_mid = mid->p < acc->p ? mid->u : 0};
    const double **operands[] = {&j.x, &j.gamma, &j.beta, &j.mu, &j.var};
    for (int k = 0; k < 5; ++k) {
        *operands[k] = vn_arg_f64(e, k);
        if (!*operands[k]) return VN_ERR_NOMEM;
        j.doubt |= k > 0 && vn_arg_err(e, k);
    }
    if (e->refine) {
        vn_refine_each(e, refine_one, &j);
        return VN_OK;
    }
    j.err = vn_arg_err(e, 0);
    j.x_var = e->in[0].var;
    e->out[0].terms = 1;
    e->out[0].own_rel = 0x1p-48; /* the product is wrong by less than 8 half units and at most |y| + |beta| */
    for (int64_t c = 0; c < e->in[2].t->count; ++c) e->out[0].own_abs = fmax(e->out[0].own_abs, 0x1p-49 * fabs(j.beta[c]));
    vn_parallel(x->count, 1 << 14, infer_range, &j);
    return VN_OK;
}

/* old * momentum + current * (1 - momentum) into output k. */
static vn_status_t running(vn_eval_t *e, int k, int k_old, const double *now, const double *now_err, int64_t channels) {
    if (!vn_out_named(e, k)) return VN_OK;
    const double m = vn_node_float(e->node, "momentum", 0.9f), rest = 1 - m, u = vn_u(e);
    const double *old = vn_arg_f64(e, k_old);
    if (!old) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, k, e->in[k_old].t->dtype, 1, &channels));
    vn_ref_t *r = &e->out[k];
    r->own_rel = 0x1p-52;
    for (int64_t c = 0; c < channels; ++c) {
        r->own_abs = fmax(r->own_abs, 0x1p-50 * (fabs(old[c] * m) + fabs(now[c] * rest)) + 0x1p-70 * now_err[c]);
        r->value[c] = old[c] * m + now[c] * rest;
        /* 1 - momentum is rounded once where momentum is not short; the products, then the sum */
        if (r->bound) r->bound[c] = 3 * u * (fabs(old[c] * m) + fabs(now[c] * rest)) + rest * now_err[c] * (1 + 3 * u) + 2 * vn_eta(e);
        if (r->var) r->var[c] = 0.18 * u * u * (old[c] * m * old[c] * m + now[c] * rest * now[c] * rest + r->value[c] * r->value[c]);
    }
    return VN_OK;
}

static vn_status_t saved(vn_eval_t *e, int k, const double *now, const double *now_err, int64_t channels) {
    if (!vn_out_named(e, k)) return VN_OK;
    VN_TRY(vn_out_float(e, k, e->in[0].t->dtype, 1, &channels));
    memcpy(e->out[k].value, now, (size_t)channels * sizeof *now);
    e->out[k].own_rel =
        0x1p-50; /* of the variance; a mean is wrong by 2^-100 of the mean size, which now_err counts in units of u (n + 1) */
    for (int64_t c = 0; c < channels; ++c) e->out[k].own_abs = fmax(e->out[k].own_abs, 0x1p-70 * now_err[c]);
    if (e->out[k].bound) memcpy(e->out[k].bound, now_err, (size_t)channels * sizeof *now);
    return VN_OK;
}

static vn_status_t training(vn_eval_t *e, int64_t channels, int64_t inner) {
    const vn_tensor_t *x = e->in[0].t;
    const int64_t batch = x->rank > 1 ? x->dims[0] : x->count, dims[3] = {batch, channels, inner};
    const bool along[3] = {true, false, true};
    vn_norm_job_t j = {.rule = vn_norm_rule(e, vn_node_float(e->node, "epsilon", 1e-5f), true),
                       .k_mean = -1,
                       .k_inv = -1,
                       .layout = VN_NORM_CHANNEL,
                       .groups = channels > 0 ? channels : 1,
                       .channels = 1,
                       .inner = batch * inner > 0 ? batch * inner : 1,
                       .note = "one-pass-variance"};
    vn_rows_plan(3, dims, along, &j.rows);
    j.x = vn_arg_f64(e, 0);
    j.gamma = vn_arg_f64(e, 1);
    j.beta = vn_arg_f64(e, 2);
    if (!j.x || !j.gamma || !j.beta) return VN_ERR_NOMEM;
    j.err = vn_arg_err(e, 0);
    j.x_var = e->in[0].var;
    VN_TRY(vn_norm_run(e, &j, x->dtype, x->rank, x->dims));
    if (e->refine) return VN_OK; /* the statistics themselves are not refined */

    const size_t n = (size_t)(j.rows.n > 0 ? j.rows.n : 1), c = (size_t)(channels > 0 ? channels : 1);
    double *row = vn_alloc(n, sizeof *row), *row_err = j.err ? vn_alloc(n, sizeof *row) : NULL, *stats = vn_alloc(4 * c, sizeof *stats);
    vn_status_t s = row && stats && (row_err || !j.err) ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t k = 0; k < channels && s == VN_OK; ++k) {
        vn_rows_read(&j.rows, j.x, k, 1, row);
        if (row_err) vn_rows_read(&j.rows, j.err, k, 1, row_err);
        const vn_norm_stats_t t = vn_norm_stats(&j.rule, row, row_err, j.rows.n, true, false, NULL);
        stats[k] = t.mu;
        stats[c + (size_t)k] = t.d_mu + t.shift;
        stats[2 * c + (size_t)k] = t.var;
        /* one pass is a second tier of the variance itself: here the looser one keeps the statement simple and sound in every tier but ieee */
        stats[3 * c + (size_t)k] = e->contract->tier == VN_TIER_IEEE ? t.d_var : fmax(t.d_var, t.d_var_one);
    }
    if (s == VN_OK) s = running(e, 1, 3, stats, stats + c, channels);
    if (s == VN_OK) s = running(e, 2, 4, stats + 2 * c, stats + 3 * c, channels);
    if (s == VN_OK) s = saved(e, 3, stats, stats + c, channels);
    if (s == VN_OK) s = saved(e, 4, stats + 2 * c, stats + 3 * c, channels);
    vn_free(row);
    vn_free(row_err);
    vn_free(stats);
    return s;
}

vn_status_t vn_eval_batch_norm(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    if (!vn_dtype_is_float(x->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s, not a float type", vn_dtype_name(x->dtype));
    const int64_t channels = x->rank > 1 ? x->dims[1] : 1;
    int64_t inner = 1;
    for (int d = 2; d < x->rank; ++d) inner *= x->dims[d];
    if (x->rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 is a scalar");
    const bool per_feature = e->version < 9 && !vn_node_int(e->node, "spatial", 1);
    for (int k = 1; k < 5; ++k)
        if (e->in[k].t->count != (per_feature ? channels * inner : channels))
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has %lld elements for %lld channels", k, (long long)e->in[k].t->count,
                                (long long)channels);
    const bool trains = e->version >= 14  ? vn_node_int(e->node, "training_mode", 0) != 0
                        : e->version >= 7 ? vn_out_named(e, 1)
                                          : !vn_node_int(e->node, "is_test", 0);
    if (!trains) return inference(e, channels, inner > 0 ? inner : 1, per_feature);
    if (per_feature) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "training with spatial = 0 has no oracle");
    return training(e, channels, inner);
}

vn_status_t vn_infer_batch_norm(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    const int64_t channels = x->rank > 1 ? x->dims[1] : 1;
    vn_infer_put(e, 0, x->dtype, x->rank, x->dims);
    for (int k = 1; k < e->n_out; ++k) vn_infer_put(e, k, k < 3 && e->n_in > 2 + k ? e->in[2 + k].t->dtype : x->dtype, 1, &channels);
    return VN_OK;
}
