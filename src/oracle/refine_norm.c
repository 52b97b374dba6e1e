/* refine_norm.c -- single elements of normalisations in 113 bits (claim PREC-3).
 *
 * The mean is given as value and rest; a deviation d is then wrong by at most 4 units of |x| + |mu|, the variance relatively by n + 16 units and
 * what that costs, its root by no more. A row of equal elements has d = 0 exactly, and y = beta.
 */
#include "oracle/escalate.h"
#include "oracle/norm.h"

typedef struct stats {
    vn_exact_t mean;
    vn_quad_t inverse, relative; /* 1 / deviation and its relative error */
    bool good;
} stats_t;

static vn_quad_t deviation(const stats_t *s, vn_quad_t x) { return (x - s->mean.value) - s->mean.rest; }
static vn_quad_t wrong(const stats_t *s, vn_quad_t x) { return s->mean.own + (vn_qabs(x) + vn_qabs(s->mean.value)) * (4 * VN_QUAD_U); }

static stats_t stats_of(const vn_norm_rule_t *rule, const vn_quad_t *x, int64_t n) {
    stats_t s = {.mean = {0}};
    vn_quad_sum_t total = {0}, squares = {0};
    for (int64_t k = 0; k < n && rule->mean; ++k) vn_quad_add(&total, x[k]);
    if (rule->mean) s.mean = vn_exact_quotient(vn_exact_sum(&total), (vn_quad_t)n);
    vn_quad_t moved = 0;
    for (int64_t k = 0; k < n; ++k) {
        const vn_quad_t d = deviation(&s, x[k]), w = rule->mean ? wrong(&s, x[k]) : 0;
        vn_quad_add(&squares, d * d);
        moved += (2 * vn_qabs(d) + w) * w;
    }
    const vn_quad_t v = squares.hi / n, under = rule->outside ? v : v + rule->epsilon;
    if (!(under > 0) || !vn_quad_finite(under)) return s;
    s.inverse = rule->outside ? 1 / (vn_qsqrt(v) + rule->epsilon) : 1 / vn_qsqrt(under);
    s.relative = ((double)n + 16) * VN_QUAD_U + (moved / n) / under;
    s.good = true;
    return s;
}

typedef struct job {
    const vn_norm_job_t *j;
} job_t;

static void affine(const vn_norm_job_t *j, const vn_refine_row_t *row, int64_t k, double *gamma, double *beta) {
    int64_t at = k;
    if (j->layout == VN_NORM_CHANNEL) at = row->index % j->groups * j->channels + k / j->inner;
    if (j->layout == VN_NORM_PLANE) at = -1;
    *gamma = 1;
    *beta = 0;
    if (at >= 0 && j->layout != VN_NORM_NONE) {
        if (j->gamma) *gamma = j->gamma[at];
        if (j->beta) *beta = j->beta[at];
    }
}

static void element(const vn_norm_rule_t *rule, const stats_t *s, vn_quad_t x, double gamma, double beta, vn_exact_t *out) {
    const vn_quad_t d = rule->mean ? deviation(s, x) : x, part = gamma * d * s->inverse;
    const vn_quad_t e = rule->mean && (d != 0 || s->mean.own > 0 || s->mean.rest != 0) ? wrong(s, x) : 0;
    *out = (vn_exact_t){.value = part, .rest = beta};
    out->own = vn_qabs(part) * (s->relative + 8 * VN_QUAD_U) + vn_qabs(gamma * s->inverse) * e * (1 + s->relative + 4 * VN_QUAD_U);
}

static double *row_of(const vn_rows_t *s, const double *plane, const vn_tensor_t *source, int64_t row) {
    double *x = vn_alloc((size_t)(s->n ? s->n : 1), sizeof *x);
    if (x) vn_rows_read_one(s, plane, source, row, x);
    return x;
}

/* The operand, with what its sum in f64 left behind. */
static vn_quad_t *operand(const vn_norm_job_t *j, int64_t row) {
    double *x = row_of(&j->rows, j->x, j->source, row), *lo = j->x_lo ? row_of(&j->rows, j->x_lo, NULL, row) : NULL;
    vn_quad_t *q = x && (lo || !j->x_lo) ? vn_alloc((size_t)(j->rows.n ? j->rows.n : 1), sizeof *q) : NULL;
    for (int64_t k = 0; q && k < j->rows.n; ++k) q[k] = (vn_quad_t)x[k] + (lo ? lo[k] : 0);
    vn_free(x);
    vn_free(lo);
    return q;
}

static void on_row(void *ctx, const vn_refine_row_t *row) {
    const vn_norm_job_t *j = ((const job_t *)ctx)->j;
    vn_quad_t *x = operand(j, row->index); /* no memory: not refined, counted as undecided */
    double *g = j->layout == VN_NORM_PLANE && j->gamma ? row_of(&j->rows, j->gamma, NULL, row->index) : NULL,
           *b = j->layout == VN_NORM_PLANE && j->beta ? row_of(&j->rows, j->beta, NULL, row->index) : NULL;
    const bool planes = j->layout != VN_NORM_PLANE || ((g || !j->gamma) && (b || !j->beta));
    const stats_t s = x && planes ? stats_of(&j->rule, x, row->n) : (stats_t){.good = false};
    for (int64_t i = 0; i < row->count && s.good; ++i) {
        const int64_t k = row->k[i];
        double gamma, beta;
        affine(j, row, k, &gamma, &beta);
        if (g) gamma = g[k];
        if (b) beta = b[k];
        element(&j->rule, &s, x[k], gamma, beta, row->out[i]);
    }
    vn_free(x);
    vn_free(g);
    vn_free(b);
}

static void mean_cell(void *ctx, int64_t at, vn_exact_t *out) {
    const vn_norm_job_t *j = ((const job_t *)ctx)->j;
    vn_quad_t *x = operand(j, at);
    if (x) *out = stats_of(&j->rule, x, j->rows.n).mean;
    vn_free(x);
}

static void inverse_cell(void *ctx, int64_t at, vn_exact_t *out) {
    const vn_norm_job_t *j = ((const job_t *)ctx)->j;
    vn_quad_t *x = operand(j, at);
    const stats_t s = x ? stats_of(&j->rule, x, j->rows.n) : (stats_t){.good = false};
    if (s.good) *out = (vn_exact_t){.value = s.inverse, .own = s.inverse * (s.relative + 8 * VN_QUAD_U)};
    vn_free(x);
}

vn_status_t vn_norm_refine(vn_eval_t *e, const vn_norm_job_t *j) {
    job_t job = {.j = j};
    const int k = e->refine->k;
    if (k == j->k_mean) vn_refine_each(e, mean_cell, &job);
    else if (k == j->k_inv) vn_refine_each(e, inverse_cell, &job);
    else if (k == j->k_out) return vn_refine_rows(e, &j->rows, on_row, &job);
    return VN_OK;
}
