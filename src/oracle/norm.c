/* norm.c -- statistics of a group and the output of a normalisation, with bounds.
 *
 * Claims (bounds.md "norms", "RMSNorm"; M = mean |x|, q = mean x^2, V the variance, g(k) = k u / (1 - k u)):
 *   NORM-1  two passes: D_mu = g(n+1) M + eta, D_V = (V + D_mu^2) g(n+4) + D_mu^2 + 2 eta.
 *           rho = D_V / (V + eps) + u (>= 1: void); R = (1 - rho)^-1/2 max((1+u)^2, 1 + 2 t u) - 1 for the root and its reciprocal;
 *           D_d = D_mu (1+u) + u |d|; |gamma| r [(|d| + D_d)(1+R)(1+u)^2 - |d|](1+u) + u |y| + eta (2 + |gamma|).
 *   NORM-2  second tier: one-pass variance D_V = [g(n+2) q + (2|mu| D_mu + D_mu^2)(1+u) + u mu^2 (1+u) + 3 eta](1+u) + u V, and the folded
 *           output x s + (beta - mu s): + u |gamma| r (1+R)(1+u)^3 (|x| + 2|mu| + 3 D_mu) + u |beta|; in 16-bit types also the function
 *           body's cast before the scale: + u_T (2 |gamma d r| + |y|).
 *   NORM-3  root mean square: rho = (g(n+2) q + 2 eta)/(q + eps) + u, |y| [(1+R)(1+u)^2 - 1] + eta (1 + |gamma|).
 * Operands with uncertainty x +- e: d moves by e + mean e =: w, V by mean(2 |d| w + w^2).
 * A hidden narrower format of roundoff u_m (contract.intermediate): squares, total and normalised value rounded to it; where one of them can
 * overflow, V is infinite and y = beta: the bound then reaches beta and Inf, NaN and zero are explainable.
 */
#include "oracle/norm.h"

#include <math.h>
#include <string.h>

vn_norm_rule_t vn_norm_rule(const vn_eval_t *e, double epsilon, bool mean) {
    vn_norm_rule_t r = {
        .acc = e->contract->accumulator, .epsilon = epsilon, .mean = mean, .ftz = e->contract->ftz, .t_rsqrt = vn_budget(e, "rsqrt")};
    const bool staged = strcmp(e->node->op, "LayerNormalization") == 0 || strcmp(e->node->op, "RMSNormalization") == 0 ||
                        (strcmp(e->node->op, "GroupNormalization") == 0 && e->version >= 21);
    const int64_t stash = staged ? vn_node_int(e->node, "stash_type", VN_F32) : VN_F64;
    const vn_format_t named = vn_format_of((vn_dtype_t)stash);
    /* The standard computes stage one in the stash type: for wider tensors (f64 under the default, f32) that is the arithmetic. */
    if (named != VN_FMT_NONE && vn_format_info(named)->p < vn_format_info(r.acc)->p) r.acc = named;
    r.a = vn_format_info(r.acc);
    const vn_format_info_t *mid = vn_format_info(vn_mid_format(e)), *t = vn_format_info(vn_format_of(e->in[0].t->dtype));
    r.mid = mid->p < r.a->p ? mid : NULL;
    r.u_store = t && t->p < r.a->p ? t->u : 0;
    return r;
}

static double root_factor(const vn_norm_rule_t *rule, double rho) {
    const double u = rule->a->u;
    if (!(rho < 1)) return INFINITY;
    return 1 / sqrt(1 - rho) * fmax((1 + u) * (1 + u), 1 + 2 * rule->t_rsqrt * u) * (rule->outside ? 1 + u : 1) - 1;
}

vn_norm_stats_t vn_norm_stats(const vn_norm_rule_t *rule, const double *x, const double *err, int64_t n, bool bound, bool variance,
                              double *work) {
    vn_norm_stats_t s = {0};
    const double count = (double)n, u = rule->a->u, eta = rule->ftz ? 2 * rule->a->tau : rule->a->eta;
    double M = 0;
    s.finite = true;
    if (rule->mean) {
        const vn_sum2_t t = vn_sum2(x, n), m = vn_sum2_over(t, count);
        s.mu = m.hi;
        s.mu_lo = m.lo;
        M = t.abs / count;
        s.size = M;
        s.finite = isfinite(s.mu);
    }
    const double mean_d2 = vn_sum2_squares(x, n, s.mu, s.mu_lo).hi / count;
    s.var = mean_d2;
    s.square = rule->mean ? mean_d2 + s.mu * s.mu : mean_d2;
    s.finite &= s.var == s.var && !(rule->mean && s.var == INFINITY);
    const double under = rule->outside ? s.var : s.var + rule->epsilon;
    s.r = rule->outside ? 1 / (sqrt(s.var) + rule->epsilon) : 1 / sqrt(under);
    if (!bound || !s.finite) return s;

    double moved = 0; /* of V, by uncertain operands */
    if (err) {
        const double mean_err = vn_sum2_abs(err, n).abs / count;
        s.shift = rule->mean ? mean_err : 0;
        for (int64_t k = 0; k < n; ++k) {
            const double w = err[k] + s.shift;
            moved += (2 * fabs((x[k] - s.mu) - s.mu_lo) + w) * w;
        }
        moved = moved / count * (1 + count * 0x1p-52);
        M += mean_err;
    }
    const double V = s.var + moved, q = s.square + moved + 2 * fabs(s.mu) * s.shift;
    if (rule->mean) {
        s.d_mu = vn_gamma(count + 1, u) * M + eta;
        if (rule->mid) s.d_mu += rule->mid->u * (fabs(s.mu) + s.d_mu) + rule->mid->eta;
        s.d_var = (V + s.d_mu * s.d_mu) * vn_gamma(count + 4, u) + s.d_mu * s.d_mu + 2 * eta;
        s.d_var_one =
            (vn_gamma(count + 2, u) * q + (2 * fabs(s.mu) * s.d_mu + s.d_mu * s.d_mu) * (1 + u) + u * s.mu * s.mu * (1 + u) + 3 * eta) *
                (1 + u) +
            u * V;
    } else {
        s.d_var = s.d_var_one = vn_gamma(count + 2, u) * q + 2 * eta;
    }
    if (rule->mid) {
        const double extra = (2 * rule->mid->u * (V + s.d_var) + 2 * rule->mid->eta) * (1 + rule->mid->u);
        s.d_var += extra;
        s.d_var_one += extra + 2 * rule->mid->u * q;
    }
    s.d_var += moved;
    s.d_var_one += moved;
    const double e_round = u + (under > 0 ? rule->a->eta / 2 / under : 0);
    s.rel = root_factor(rule, s.d_var / under + e_round);
    s.rel_one = root_factor(rule, s.d_var_one / under + e_round);
    /* Sums of squares beyond the accumulator, one square or deviation beyond the hidden format. */
    double big = 0;
    for (int64_t k = 0; k < n; ++k) big = fmax(big, fabs(x[k] - s.mu) + (err ? err[k] : 0));
    s.overflow = (1 + count * u) * count * V >= rule->a->max ||
                 (rule->mid && (big * big * (1 + rule->mid->u) >= rule->mid->max || count * V >= rule->mid->max)) ||
                 (rule->mean && (1 + count * u) * M * count >= rule->a->max);
    if (!variance) return s;
    if (rule->mean) {
        s.var_mu = vn_sum_variance(rule->acc, x, n, s.mu * count) / (count * count) + vn_node_variance(rule->acc, s.mu);
        if (rule->mid) s.var_mu += 0.18 * rule->mid->u * rule->mid->u * s.mu * s.mu;
    }
    double fourth = 0;
    for (int64_t k = 0; k < n; ++k) {
        const double d = (x[k] - s.mu) - s.mu_lo;
        work[k] = d * d;
        fourth += work[k] * work[k];
    }
    const double u2 = rule->mid ? rule->mid->u * rule->mid->u : u * u;
    s.var_var = (vn_sum_variance(rule->acc, work, n, s.var * count) + 0.18 * u2 * fourth) / (count * count);
    if (rule->mid) s.var_var += 0.18 * u2 * s.var * s.var;
    return s;
}

vn_norm_out_t vn_norm_element(const vn_norm_rule_t *rule, const vn_norm_stats_t *s, double x, double err, double gamma, double beta,
                              bool bound, bool variance) {
    vn_norm_out_t o = {0};
    const double d = (x - s->mu) - s->mu_lo, part = gamma * (d * s->r);
    o.y = part + beta;
    if (!bound || !isfinite(o.y)) return o;
    const double u = rule->a->u, eta = rule->ftz ? 2 * rule->a->tau : rule->a->eta, a = fabs(gamma), w = err + s->shift, size = fabs(d);
    double extra = 0;
    if (rule->mid) extra = rule->mid->u * (2 * a * size * s->r + fabs(o.y)) * (1 + 4 * rule->mid->u) + rule->mid->eta * (1 + a);
    if (rule->outside) extra += a * size * s->r * s->r * rule->epsilon; /* the text without the body's epsilon */
    const double sub = rule->mean ? s->d_mu * (1 + u) + u * (size + w) : 0, dd = sub + w;
    const double store = u * fabs(o.y) + eta * (2 + a) + extra;
    o.bound = a * s->r * ((size + dd) * (1 + s->rel) * (1 + u) * (1 + u) - size) * (1 + u) + store;
    o.wide = a * s->r * ((size + dd) * (1 + s->rel_one) * (1 + u) * (1 + u) - size) * (1 + u) + store;
    if (rule->mean)
        o.wide +=
            u * a * s->r * (1 + s->rel_one) * (1 + u) * (1 + u) * (1 + u) * (fabs(x) + 2 * fabs(s->mu) + 3 * s->d_mu) + u * fabs(beta);
    if (rule->u_store > 0) o.wide += rule->u_store * (2 * fabs(part) + fabs(o.y)) * (1 + 2 * rule->u_store);
    if (s->overflow) { /* the deviation may come out infinite: y = beta */
        o.bound = fmax(o.bound, fabs(part) + store);
        o.wide = fmax(o.wide, fabs(part) + store);
    }
    if (isnan(o.bound)) o.bound = INFINITY;
    if (isnan(o.wide)) o.wide = INFINITY;
    if (variance) {
        const double under = rule->outside ? s->var : s->var + rule->epsilon, ar = a * s->r;
        o.var = ar * ar * (s->var_mu + (rule->mean ? vn_node_variance(rule->acc, d) : 0)) +
                part * part * ((under > 0 ? s->var_var / (4 * under * under) : 0) + 0.18 * u * u * 2.25) + vn_node_variance(rule->acc, o.y);
        if (rule->mid) o.var += 0.36 * rule->mid->u * rule->mid->u * (part * part + o.y * o.y);
        if (!isfinite(o.var)) o.var = 0;
    }
    return o;
}

/* ---- rows ---- */

bool vn_out_named(const vn_eval_t *e, int k) { return k >= 0 && k < e->n_out && *e->node->outputs[k]; }

typedef struct run {
    const vn_norm_job_t *job;
    vn_ref_t *out, *mean, *inv;
    bool bound, variance, f64;
} run_t;

static void put(vn_ref_t *r, int64_t i, double y, double b, double w, double v, bool overflow) {
    if (!r) return;
    r->value[i] = y;
    if (r->bound) r->bound[i] = isnan(b) ? INFINITY : b;
    if (r->wide) r->wide[i] = fmax(isnan(w) ? INFINITY : w, r->bound[i]);
    if (r->var) r->var[i] = isfinite(v) ? v : 0;
    if (r->flags && overflow) r->flags[i] = VN_EL_INF_OK | VN_EL_NAN_OK | VN_EL_ZERO_OK;
}

static void on_row(void *ctx, const vn_row_t *row) {
    const run_t *run = ctx;
    const vn_norm_job_t *j = run->job;
    const vn_norm_rule_t *rule = &j->rule;
    const double *x = row->in[0], *err = row->in[1], *x_var = row->in[2], u = rule->a->u;
    const int64_t n = row->n, i = row->index;
    vn_norm_stats_t s = vn_norm_stats(rule, x, err, n, run->bound, run->variance, row->work);
    const double scale = u > 0 ? 0x1p-53 / u : 0;
    double mean_var = 0, big = 0;
    for (int64_t k = 0; j->summed && k < n; ++k) big = fmax(big, fabs(x[k]));
    for (int64_t k = 0; x_var && k < n; ++k) mean_var += x_var[k] / ((double)n * (double)n);
    put(run->mean, i, s.mu, s.d_mu + s.shift, s.d_mu + s.shift, s.var_mu + mean_var, s.overflow);
    const double under = rule->outside ? s.var : s.var + rule->epsilon;
    const double r_var = s.r * s.r * (s.var_var / (4 * under * under) + 0.18 * u * u * 2.25);
    if (run->mean && run->mean->own) run->mean->own[i] = isfinite(s.mu) ? 0x1p-52 * fabs(s.mu) + 0x1p-100 * s.size : 0;
    put(run->inv, i, s.finite ? s.r : NAN, s.r * s.rel, s.r * s.rel_one, r_var, s.overflow);
    for (int64_t k = 0; k < n; ++k) {
        double g = 1, b = 0;
        if (j->layout == VN_NORM_ELEMENT || j->layout == VN_NORM_CHANNEL) {
            const int64_t at = j->layout == VN_NORM_ELEMENT ? k : i % j->groups * j->channels + k / j->inner;
            g = j->gamma ? j->gamma[at] : 1;
            b = j->beta ? j->beta[at] : 0;
        } else if (j->layout == VN_NORM_PLANE) {
            g = row->in[3] ? row->in[3][k] : 1;
            b = row->in[4] ? row->in[4][k] : 0;
        }
        vn_norm_out_t o = {.y = NAN};
        if (s.finite) o = vn_norm_element(rule, &s, x[k], err ? err[k] : 0, g, b, run->bound, run->variance);
        if (x_var) o.var += g * s.r * (g * s.r) * (x_var[k] + mean_var);
        row->out[0][k] = o.y;
        if (row->out[1]) row->out[1][k] = o.bound;
        if (row->out[2]) row->out[2][k] = fmax(o.wide, o.bound);
        if (row->out[3]) row->out[3][k] = o.var;
        if (row->out[4] && run->f64) row->out[4][k] = (isfinite(o.bound) ? o.bound * scale : 0) + 0x1p-51 * fabs(o.y);
        if (row->out[4] && j->summed) { /* each x is off by 2^-52 of itself: directly, through the mean, through the variance */
            const double moved = fabs(g) * s.r * (fabs(x[k]) + s.size + 2 * fabs((x[k] - s.mu) * s.r) * big);
            row->out[4][k] += 0x1p-48 * fabs(o.y) + 0x1p-49 * fabs(b) + 0x1p-51 * moved;
        }
        if (row->out[5]) row->out[5][k] = s.overflow;
    }
}

static double largest(const double *p, int64_t n) {
    double m = 0;
    for (int64_t i = 0; p && i < n; ++i) m = fabs(p[i]) > m ? fabs(p[i]) : m;
    return m;
}

static vn_status_t stat_output(vn_eval_t *e, const vn_norm_job_t *j, int k, bool second) {
    VN_TRY(vn_out_float(e, k, j->stash, j->stat_rank, j->stat_dims));
    e->out[k].terms = j->rows.n;
    e->out[k].own_rel = 0x1p-50; /* of 1/deviation: 8 half units */
    if (k == j->k_mean) VN_TRY(vn_out_own(e, k));
    if (e->want >= VN_WANT_BOUND) VN_TRY(vn_out_flags(e, k));
    return second ? vn_out_wide(e, k, "one-pass-variance") : VN_OK;
}

vn_status_t vn_norm_run(vn_eval_t *e, vn_norm_job_t *j, vn_dtype_t type, int rank, const int64_t *dims) {
    const bool bound = e->want >= VN_WANT_BOUND, second = bound && e->contract->tier != VN_TIER_IEEE;
    VN_TRY(vn_out_float(e, j->k_out, type, rank, dims));
    if (e->refine) return vn_norm_refine(e, j);
    vn_ref_t *r = &e->out[j->k_out];
    r->terms = j->rows.n;
    /* In f64 the product gamma d r is wrong by less than 16 half units, then the sum rounds; |product| <= |y| + |beta| (claim PREC-4). */
    r->own_rel = 0x1p-48;
    r->own_abs = 0x1p-49 * largest(j->beta, j->layout == VN_NORM_PLANE     ? r->count
                                            : j->layout == VN_NORM_CHANNEL ? j->groups * j->channels
                                                                           : j->rows.n);
    if (second && (j->rule.mean || j->rule.u_store > 0)) VN_TRY(vn_out_wide(e, j->k_out, j->note));
    const bool f64 = bound && j->rule.a->p == 53;
    if (f64 || j->summed) VN_TRY(vn_out_own(e, j->k_out));
    const bool mean = vn_out_named(e, j->k_mean), inv = vn_out_named(e, j->k_inv);
    if (mean) VN_TRY(stat_output(e, j, j->k_mean, false));
    if (inv) VN_TRY(stat_output(e, j, j->k_inv, second && j->rule.mean));
    run_t run = {.job = j,
                 .out = r,
                 .mean = mean ? &e->out[j->k_mean] : NULL,
                 .inv = inv ? &e->out[j->k_inv] : NULL,
                 .bound = bound,
                 .variance = e->want >= VN_WANT_VARIANCE,
                 .f64 = f64};
    double *over = bound ? vn_alloc((size_t)(r->count ? r->count : 1), sizeof *over) : NULL;
    if (bound && !over) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const bool plane = j->layout == VN_NORM_PLANE;
    vn_row_job_t job = {.shape = &j->rows,
                        .in = {j->x, j->err, j->x_var, plane ? j->gamma : NULL, plane ? j->beta : NULL},
                        .out = {r->value, r->bound, r->wide, r->var, r->own, over},
                        .work = run.variance,
                        .fn = on_row,
                        .ctx = &run};
    vn_status_t st = vn_rows_run(e, &job);
    bool any = false;
    for (int64_t i = 0; over && i < r->count && !any; ++i) any = over[i] != 0;
    if (st == VN_OK && any) st = vn_out_flags(e, j->k_out);
    for (int64_t i = 0; st == VN_OK && any && i < r->count; ++i)
        if (over[i] != 0) r->flags[i] = VN_EL_INF_OK | VN_EL_NAN_OK | VN_EL_ZERO_OK;
    vn_free(over);
    if (mean) vn_flags_settle(e, j->k_mean);
    if (inv) vn_flags_settle(e, j->k_inv);
    return st;
}

/* Operand k as a plane of shape dims; the plane is added to owned[]. */
static vn_status_t expand(vn_eval_t *e, int k, int rank, const int64_t *dims, double **out) {
    vn_tensor_t *view = NULL, *flat = NULL, *wide = NULL;
    const double *p = vn_arg_f64(e, k);
    const vn_tensor_t *t = e->in[k].t;
    if (!p) return VN_ERR_NOMEM;
    VN_TRY(vn_tensor_wrap(VN_F64, t->rank, t->dims, (void *)(uintptr_t)p, (size_t)t->count * sizeof *p, NULL, NULL, &flat, e->err));
    vn_status_t s = vn_tensor_broadcast(flat, rank, dims, &view, e->err);
    if (s == VN_OK) s = vn_tensor_contiguous(view, &wide, e->err);
    if (s == VN_OK) {
        *out = vn_alloc((size_t)(wide->count ? wide->count : 1), sizeof **out);
        if (*out) memcpy(*out, wide->data, (size_t)wide->count * sizeof **out);
        else s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    } else {
        vn_fail_prefix(e->err, "scale or bias, input %d", k);
    }
    vn_tensor_free(flat);
    vn_tensor_free(view);
    vn_tensor_free(wide);
    return s;
}

vn_status_t vn_norm_affine(vn_eval_t *e, vn_norm_job_t *job, int k_gamma, int k_beta, int rank, const int64_t *dims, int axis,
                           double **owned) {
    const int k[2] = {k_gamma, k_beta};
    const double **to[2] = {&job->gamma, &job->beta};
    bool simple = true;
    for (int i = 0; i < 2; ++i) {
        if (k[i] < 0 || !vn_has(e, k[i])) continue;
        const vn_tensor_t *t = e->in[k[i]].t;
        simple &= t->rank == rank - axis;
        for (int d = 0; simple && d < t->rank; ++d) simple = t->dims[d] == dims[axis + d];
    }
    job->layout = simple ? VN_NORM_ELEMENT : VN_NORM_PLANE;
    for (int i = 0; i < 2; ++i) {
        if (k[i] < 0 || !vn_has(e, k[i])) continue;
        if (simple) {
            *to[i] = vn_arg_f64(e, k[i]);
            if (!*to[i]) return VN_ERR_NOMEM;
        } else {
            VN_TRY(expand(e, k[i], rank, dims, &owned[i]));
            *to[i] = owned[i];
        }
    }
    return VN_OK;
}
