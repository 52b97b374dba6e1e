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

#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle/elementwise.h"

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

VN_CLONES static void square_deviations(int64_t n, const double *restrict x, double mu, double mu_lo, double *restrict out) {
    for (int64_t k = 0; k < n; ++k) {
        const double d = (x[k] - mu) - mu_lo;
        out[k] = d * d;
    }
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
    for (int64_t k = 0; rule->mid && k < n; ++k) big = fmax(big, fabs(x[k] - s.mu) + (err ? err[k] : 0));
    s.overflow = (1 + count * u) * count * V >= rule->a->max ||
                 (rule->mid && (big * big * (1 + rule->mid->u) >= rule->mid->max || count * V >= rule->mid->max)) ||
                 (rule->mean && (1 + count * u) * M * count >= rule->a->max);
    if (!variance) return s;
    if (rule->mean) {
        s.var_mu = vn_sum_variance(rule->acc, x, n, s.mu * count) / (count * count) + vn_node_variance(rule->acc, s.mu);
        if (rule->mid) s.var_mu += 0.18 * rule->mid->u * rule->mid->u * s.mu * s.mu;
    }
    square_deviations(n, x, s.mu, s.mu_lo, work);
    const double fourth = vn_sum2_squares(work, n, 0, 0).hi;
    const double u2 = rule->mid ? rule->mid->u * rule->mid->u : u * u;
    s.var_var = (vn_sum_variance(rule->acc, work, n, s.var * count) + 0.18 * u2 * fourth) / (count * count);
    if (rule->mid) s.var_var += 0.18 * u2 * s.var * s.var;
    return s;
}

/* ---- elements of a row: what NORM-1 to NORM-3 say, with everything that is the same for the row taken out of the loop ---- */

typedef struct element {
    double mu, mu_lo, r, shift, u;
    double slope, slope_one; /* (1 + R)(1 + u)^2 - 1 of both tiers */
    double d_mu, u_mean;     /* error of the mean and roundoff of the difference; 0 without mean */
    double eta, mid, mid_eta, outside;
    double folded, far, u_beta; /* second tier: u r (1 + R)(1 + u)^3, 2 |mu| + 3 D_mu */
    double cast;                /* u_T (1 + 2 u_T) */
    double v_mu, v_rel, v_mid;  /* variances: of the mean, relative of the root and products, of the hidden format */
    vn_spacing_t spacing, spacing_d;
} element_t;

static element_t element_of(const vn_norm_rule_t *rule, const vn_norm_stats_t *s) {
    const double u = rule->a->u, under = rule->outside ? s->var : s->var + rule->epsilon, two = 2 * u + u * u, up = 1 + 0x1p-50;
    element_t c = {
        .mu = s->mu, .mu_lo = s->mu_lo, .r = s->r, .shift = s->shift, .u = u, .eta = rule->ftz ? 2 * rule->a->tau : rule->a->eta};
    c.slope = (s->rel + (1 + s->rel) * two) * up;
    c.slope_one = (s->rel_one + (1 + s->rel_one) * two) * up;
    if (rule->mean) {
        c.d_mu = s->d_mu * (1 + u);
        c.u_mean = u;
        c.folded = u * s->r * (1 + s->rel_one) * (1 + u) * (1 + u) * (1 + u);
        c.far = 2 * fabs(s->mu) + 3 * s->d_mu;
        c.u_beta = u;
    }
    if (rule->mid) c.mid = rule->mid->u * (1 + 4 * rule->mid->u), c.mid_eta = rule->mid->eta;
    if (rule->outside) c.outside = s->r * s->r * rule->epsilon; /* the text without the body's epsilon */
    c.cast = rule->u_store * (1 + 2 * rule->u_store);
    c.v_mu = s->var_mu;
    c.v_rel = (under > 0 ? s->var_var / (4 * under * under) : 0) + 0.18 * u * u * 2.25;
    c.v_mid = rule->mid ? 0.36 * rule->mid->u * rule->mid->u : 0;
    c.spacing = vn_spacing(rule->acc);
    if (rule->mean) c.spacing_d = c.spacing;
    return c;
}

VN_CLONES static void values(const element_t *c, int64_t n, const double *restrict x, const double *restrict gamma,
                             const double *restrict beta, double *restrict y) {
    for (int64_t k = 0; k < n; ++k) y[k] = gamma[k] * (((x[k] - c->mu) - c->mu_lo) * c->r) + beta[k];
}

typedef struct tiers {
    double bound, wide;
} tiers_t;

static inline __attribute__((always_inline)) tiers_t tiers_at(const element_t *c, double x, double err, double gamma, double beta,
                                                              double y) {
    const double a = fabs(gamma), size = fabs((x - c->mu) - c->mu_lo), w = err + c->shift, ar = a * c->r;
    const double dd = (c->d_mu + c->u_mean * (size + w)) + w;
    const double store =
        c->u * fabs(y) + c->eta * (2 + a) + (c->mid * (2 * ar * size + fabs(y)) + c->mid_eta * (1 + a)) + a * size * c->outside;
    const double b = ar * (size * c->slope + dd * (1 + c->slope)) * (1 + c->u) + store;
    const double one = ar * (size * c->slope_one + dd * (1 + c->slope_one)) * (1 + c->u) + store;
    const double wide = one + (c->folded * a * (fabs(x) + c->far) + c->u_beta * fabs(beta)) + c->cast * (2 * ar * size + fabs(y));
    const bool known = fabs(y) <= DBL_MAX;
    tiers_t t;
    t.bound = known ? (b != b ? INFINITY : b) : 0.0;
    t.wide = known ? (wide >= b ? wide : wide < b ? t.bound : INFINITY) : 0.0;
    return t;
}

VN_CLONES static void bounds_exact(const element_t *c, int64_t n, const double *restrict x, const double *restrict gamma,
                                   const double *restrict beta, const double *restrict y, double *restrict b) {
    for (int64_t k = 0; k < n; ++k) b[k] = tiers_at(c, x[k], 0, gamma[k], beta[k], y[k]).bound;
}

VN_CLONES static void tiers_exact(const element_t *c, int64_t n, const double *restrict x, const double *restrict gamma,
                                  const double *restrict beta, const double *restrict y, double *restrict b, double *restrict w) {
    for (int64_t k = 0; k < n; ++k) {
        const tiers_t t = tiers_at(c, x[k], 0, gamma[k], beta[k], y[k]);
        b[k] = t.bound;
        w[k] = t.wide;
    }
}

static void tiers_open(const element_t *c, int64_t n, const double *x, const double *err, const double *gamma, const double *beta,
                       const double *y, double *b, double *w) {
    for (int64_t k = 0; k < n; ++k) {
        const tiers_t t = tiers_at(c, x[k], err[k], gamma[k], beta[k], y[k]);
        b[k] = t.bound;
        if (w) w[k] = t.wide;
    }
}

VN_CLONES static void variances(const element_t *c, int64_t n, const double *restrict x, const double *restrict gamma,
                                const double *restrict y, double *restrict v) {
    for (int64_t k = 0; k < n; ++k) {
        const double d = (x[k] - c->mu) - c->mu_lo, g = gamma[k] * c->r, part = g * d;
        const double at_d = c->spacing_d.step > 0 ? vn_spacing_at(c->spacing_d, d) : 0.0, at_y = vn_spacing_at(c->spacing, y[k]);
        const double s =
            g * g * (c->v_mu + at_d * at_d / 12) + part * part * c->v_rel + at_y * at_y / 12 + c->v_mid * (part * part + y[k] * y[k]);
        v[k] = fabs(y[k]) <= DBL_MAX && s <= DBL_MAX ? s : 0.0;
    }
}

/* An allowed intermediate may overflow: the deviation may come out infinite, and y = beta. */
static void reach_beta(const element_t *c, int64_t n, const double *gamma, const double *beta, const double *y, double *b, double *w) {
    for (int64_t k = 0; k < n; ++k) {
        const double part = fabs(y[k] - beta[k]) * (1 + 0x1p-50), store = c->u * fabs(y[k]) + c->eta * (2 + fabs(gamma[k]));
        if (!isfinite(y[k])) continue;
        b[k] = fmax(b[k], part + store + c->mid * (2 * part + fabs(y[k])) + c->mid_eta * (1 + fabs(gamma[k])));
        if (w) w[k] = fmax(w[k], b[k]);
    }
}

/* ---- rows ---- */

bool vn_out_named(const vn_eval_t *e, int k) { return k >= 0 && k < e->n_out && *e->node->outputs[k]; }

typedef struct run {
    const vn_norm_job_t *job;
    vn_ref_t *out, *mean, *inv;
    bool bound, variance, f64;
    uint8_t *over; /* per row: an allowed intermediate may overflow */
} run_t;

static void put(vn_ref_t *r, int64_t i, double y, double b, double w, double v, bool overflow) {
    if (!r) return;
    r->value[i] = y;
    if (r->bound) r->bound[i] = isnan(b) ? INFINITY : b;
    if (r->wide) r->wide[i] = fmax(isnan(w) ? INFINITY : w, r->bound[i]);
    if (r->var) r->var[i] = isfinite(v) ? v : 0;
    if (r->flags && overflow) r->flags[i] = VN_EL_INF_OK | VN_EL_NAN_OK | VN_EL_ZERO_OK;
}

/* Scale and bias of a row as n numbers each: the operand's own memory where it has them so, else written to work. */
static void affine_row(const vn_norm_job_t *j, const vn_row_t *row, double *work, const double **gamma, const double **beta) {
    const int64_t n = row->n, groups = j->groups > 0 ? j->groups : 1, inner = j->inner > 0 ? j->inner : 1;
    const double *from[2] = {j->gamma, j->beta};
    const double **to[2] = {gamma, beta};
    for (int i = 0; i < 2; ++i) {
        *to[i] = from[i] == NULL ? NULL : j->layout == VN_NORM_ELEMENT ? from[i] : j->layout == VN_NORM_PLANE ? row->in[3 + i] : NULL;
        if (*to[i]) continue;
        double *p = work + i * n;
        const bool channel = from[i] && j->layout == VN_NORM_CHANNEL;
        const int64_t first = row->index % groups * j->channels;
        for (int64_t k = 0; k < n; ++k) p[k] = channel ? from[i][first + k / inner] : i ? 0 : 1;
        *to[i] = p;
    }
}

static void row_statistics(const run_t *run, const vn_row_t *row, const vn_norm_stats_t *s, double mean_var) {
    const vn_norm_rule_t *rule = &run->job->rule;
    const double u = rule->a->u, under = rule->outside ? s->var : s->var + rule->epsilon;
    put(run->mean, row->index, s->mu, s->d_mu + s->shift, s->d_mu + s->shift, s->var_mu + mean_var, s->overflow);
    const double r_var = s->r * s->r * (s->var_var / (4 * under * under) + 0.18 * u * u * 2.25);
    if (run->mean && run->mean->own) run->mean->own[row->index] = isfinite(s->mu) ? 0x1p-52 * fabs(s->mu) + 0x1p-100 * s->size : 0;
    put(run->inv, row->index, s->finite ? s->r : NAN, s->r * s->rel, s->r * s->rel_one, r_var, s->overflow);
}

static void row_own(const run_t *run, const vn_row_t *row, const vn_norm_stats_t *s, const double *gamma, const double *beta) {
    const double *x = row->in[0], *y = row->out[0], u = run->job->rule.a->u, scale = u > 0 ? 0x1p-53 / u : 0;
    double *own = row->out[4], big = 0;
    for (int64_t k = 0; k < row->n; ++k) own[k] = 0;
    for (int64_t k = 0; run->f64 && k < row->n; ++k)
        own[k] = (isfinite(row->out[1][k]) ? row->out[1][k] * scale : 0) + 0x1p-51 * fabs(y[k]);
    if (!run->job->summed) return;
    for (int64_t k = 0; k < row->n; ++k) big = fmax(big, fabs(x[k]));
    for (int64_t k = 0; k < row->n; ++k) { /* each x is off by 2^-52 of itself: directly, through the mean, through the variance */
        const double moved = fabs(gamma[k]) * s->r * (fabs(x[k]) + s->size + 2 * fabs((x[k] - s->mu) * s->r) * big);
        own[k] += 0x1p-48 * fabs(y[k]) + 0x1p-49 * fabs(beta[k]) + 0x1p-51 * moved;
    }
}

static void on_row(void *ctx, const vn_row_t *row) {
    const run_t *run = ctx;
    const vn_norm_job_t *j = run->job;
    const double *x = row->in[0], *err = row->in[1], *x_var = row->in[2], *gamma, *beta;
    double *y = row->out[0], *b = row->out[1], *w = row->out[2], *var = row->out[3], mean_var = 0;
    const int64_t n = row->n;
    const vn_norm_stats_t s = vn_norm_stats(&j->rule, x, err, n, run->bound, run->variance, row->work);
    for (int64_t k = 0; x_var && k < n; ++k) mean_var += x_var[k] / ((double)n * (double)n);
    row_statistics(run, row, &s, mean_var);
    affine_row(j, row, row->work, &gamma, &beta);
    if (run->over) run->over[row->index] = s.overflow;
    if (!s.finite) {
        for (int64_t k = 0; k < n; ++k) y[k] = NAN;
        for (int p = 1; p <= 4; ++p)
            if (row->out[p]) memset(row->out[p], 0, (size_t)n * sizeof *y);
        return;
    }
    const element_t c = element_of(&j->rule, &s);
    values(&c, n, x, gamma, beta, y);
    if (b) {
        if (err) tiers_open(&c, n, x, err, gamma, beta, y, b, w);
        else if (w) tiers_exact(&c, n, x, gamma, beta, y, b, w);
        else bounds_exact(&c, n, x, gamma, beta, y, b);
        if (s.overflow) reach_beta(&c, n, gamma, beta, y, b, w);
    }
    if (var) variances(&c, n, x, gamma, y, var);
    for (int64_t k = 0; var && x_var && k < n; ++k) var[k] += gamma[k] * s.r * (gamma[k] * s.r) * (x_var[k] + mean_var);
    if (row->out[4]) row_own(run, row, &s, gamma, beta);
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

/* Every element of a row that may overflow: infinities, NaN and zero are explainable. */
static vn_status_t flag_rows(vn_eval_t *e, const vn_norm_job_t *j, const uint8_t *over) {
    bool any = false;
    for (int64_t i = 0; i < j->rows.rows; ++i) any |= over[i] != 0;
    if (!any) return VN_OK;
    VN_TRY(vn_out_flags(e, j->k_out));
    vn_ref_t *r = &e->out[j->k_out];
    double *marks = vn_alloc((size_t)(r->count ? r->count : 1), sizeof *marks), *row = vn_plane_raw(j->rows.n);
    for (int64_t k = 0; row && k < j->rows.n; ++k) row[k] = 1;
    for (int64_t i = 0; marks && row && i < j->rows.rows; ++i)
        if (over[i]) vn_rows_write(&j->rows, marks, i, 1, row);
    for (int64_t i = 0; marks && row && i < r->count; ++i)
        if (marks[i] != 0) r->flags[i] = VN_EL_INF_OK | VN_EL_NAN_OK | VN_EL_ZERO_OK;
    const bool good = marks && row;
    vn_free(marks);
    vn_free(row);
    return good ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
}

vn_status_t vn_norm_run(vn_eval_t *e, vn_norm_job_t *j, vn_dtype_t type, int rank, const int64_t *dims) {
    const bool bound = e->want >= VN_WANT_BOUND, second = bound && e->contract->tier != VN_TIER_IEEE;
    VN_TRY(vn_out_float_raw(e, j->k_out, type, rank, dims));
    if (e->refine) return vn_norm_refine(e, j);
    vn_ref_t *r = &e->out[j->k_out];
    r->terms = j->rows.n;
    /* In f64 the product gamma d r is wrong by less than 16 half units, then the sum rounds; |product| <= |y| + |beta| (claim PREC-4). */
    r->own_rel = 0x1p-48;
    r->own_abs = 0x1p-49 * largest(j->beta, j->layout == VN_NORM_PLANE     ? r->count
                                            : j->layout == VN_NORM_CHANNEL ? j->groups * j->channels
                                                                           : j->rows.n);
    if (second && (j->rule.mean || j->rule.u_store > 0)) VN_TRY(vn_out_wide_raw(e, j->k_out, j->note));
    const bool f64 = bound && j->rule.a->p == 53;
    if (f64 || j->summed) VN_TRY(vn_out_own_raw(e, j->k_out));
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
    if (bound && !(run.over = vn_alloc((size_t)j->rows.rows + 1, 1))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const bool plane = j->layout == VN_NORM_PLANE;
    vn_row_job_t job = {.shape = &j->rows,
                        .source = j->x ? NULL : j->source,
                        .in = {j->x, j->err, j->x_var, plane ? j->gamma : NULL, plane ? j->beta : NULL},
                        .out = {r->value, r->bound, r->wide, r->var, r->own},
                        .work = 2,
                        .fn = on_row,
                        .ctx = &run};
    vn_status_t st = vn_rows_report(e, j->k_out, &job);
    if (st == VN_OK) st = vn_rows_run(e, &job);
    if (st == VN_OK && run.over) st = flag_rows(e, j, run.over);
    vn_free(run.over);
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
