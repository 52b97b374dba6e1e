/* op_softmax.c -- family "softmax": Softmax, LogSoftmax, Hardmax; the losses' rows stand here too, their code in op_loss.c.
 *
 * Claims (bounds.md, softmax; A, D by expsum.c):
 *   SOFTMAX-1  |p^ - p| <= p [(1+A)(1+u)^2/(1-D) - 1] + 2 tau; a bound of 1 or more says nothing: +Inf.
 *   SOFTMAX-2  log-softmax (u|d|+F)(1+u) + u|y|, F = E_l + 2 t u (log l + E_l), E_l = -log1p(-D).
 * Second tier (portable): softmax "exp2-unfolded", the products with log2 e rounded before the difference; log-softmax "lse-rounded",
 * x - (max + log l): (F(1+u) + u|lse|)(1+u) + u|y|.
 * Specials: NaN in a row makes the row NaN; so does +inf. A row of -inf is 0/0: NaN, with the reading "zeros".
 */
#include <math.h>
#include <string.h>

#include "oracle/elementwise.h"
#include "oracle/escalate.h"
#include "oracle/softmax.h"

enum { X, ERR, XVAR };             /* in planes */
enum { Y, BOUND, WIDE, VAR, OWN }; /* out planes */

typedef struct job {
    vn_eval_t *e;
    vn_softmax_kind_t kind;
    vn_exp_model_t model;
    vn_format_t acc;
    double u, tau, log_t;
    int open; /* atomic */
} job_t;

static void fill(double *p, int64_t n, double v) {
    for (int64_t k = 0; p && k < n; ++k) p[k] = v;
}

static void irregular(job_t *j, const vn_row_t *row, double max) {
    for (int p = Y; p <= OWN; ++p) fill(row->out[p], row->n, p == Y ? NAN : 0);
    if (max == -INFINITY && row->n) __atomic_store_n(&j->open, 1, __ATOMIC_RELAXED);
}

static double log_f(const job_t *j, double spread, double log_l) {
    const double el = -log1p(-spread);
    return el + 2 * j->log_t * j->u * (log_l + el);
}

/* y [(1 + A)(1 + F) - 1] with (1 + F) = (1 + u)^2 / (1 - D), written without the cancellation; 1 or more says nothing. */
VN_CLONES static void weight_bounds(int64_t n, const double *restrict y, const double *restrict wrong, double f, double add,
                                    double *restrict out) {
    for (int64_t k = 0; k < n; ++k) {
        const double b = y[k] * (wrong[k] + (1 + wrong[k]) * f) + add;
        out[k] = b < 1 ? b : INFINITY;
    }
}

/* (u (|d| + dx + shift) + part)(1 + u) + u |y|; slope 0 where the difference is not what rounds. */
VN_CLONES static void log_bounds(int64_t n, const double *restrict x, double max, double slope, double part, double u,
                                 const double *restrict y, double *restrict out) {
    for (int64_t k = 0; k < n; ++k) {
        const double b = (slope * fabs(x[k] - max) + part) * (1 + u) + u * fabs(y[k]);
        out[k] = y[k] == -INFINITY ? 0.0 : b;
    }
}

/* The same for a second tier, which is never below the first. */
VN_CLONES static void second_bounds(int64_t n, const double *restrict y, const double *restrict wrong, double f, double add,
                                    const double *restrict first, double *restrict out) {
    for (int64_t k = 0; k < n; ++k) {
        const double b = y[k] * (wrong[k] + (1 + wrong[k]) * f) + add;
        const double c = b < 1 ? b : INFINITY;
        out[k] = c > first[k] ? c : first[k];
    }
}

VN_CLONES static void at_least(int64_t n, const double *restrict a, double *restrict b) {
    for (int64_t k = 0; k < n; ++k) b[k] = b[k] > a[k] ? b[k] : a[k];
}

/* Bounds of a row into `out`. */
static void bounds(const job_t *j, const vn_row_t *row, const vn_exp_row_t *r, const double *wrong, bool rounded_lse, double *out) {
    const double *err = row->in[ERR], u = j->u, log_l = log(r->total.hi);
    if (!isfinite(r->spread)) {
        fill(out, row->n, INFINITY);
        return;
    }
    if (j->kind == VN_SOFTMAX) {
        const double f = (2 * u + u * u + r->spread) / (1 - r->spread) * (1 + 0x1p-50);
        const double add = 2 * j->tau + j->model.eta_mid;
        if (out == row->out[WIDE]) second_bounds(row->n, row->out[Y], wrong, f, add, row->out[BOUND], out);
        else weight_bounds(row->n, row->out[Y], wrong, f, add, out);
        return;
    }
    const double f = log_f(j, r->spread, log_l), lse = fabs(r->max + log_l), slope = rounded_lse ? 0 : u;
    const double part = (rounded_lse ? f * (1 + u) + u * lse : u * r->shift + f) + j->model.u_mid * log_l;
    log_bounds(row->n, row->in[X], r->max, slope, part, u, row->out[Y], out);
    for (int64_t k = 0; err && k < row->n; ++k)
        if (row->out[Y][k] != -INFINITY) out[k] += (slope * err[k] + err[k]) * (1 + u);
}

/* p^2 max(s^2 (1 - 2p) + common, 0) + one rounding of y. */
VN_CLONES static void share_variances(vn_spacing_t f, int64_t n, const double *restrict w, double inverse, const double *restrict s2,
                                      double common, const double *restrict y, double *restrict out) {
    for (int64_t k = 0; k < n; ++k) {
        const double p = w[k] * inverse, v = s2[k] * (1 - 2 * p) + common, ulp = vn_spacing_at(f, y[k]);
        out[k] = p * p * (v > 0 ? v : 0.0) + ulp * ulp / 12;
    }
}

VN_CLONES static void log_variances(vn_spacing_t f, int64_t n, const double *restrict x, double max, double common,
                                    const double *restrict y, double *restrict out) {
    for (int64_t k = 0; k < n; ++k) {
        const double a = vn_spacing_at(f, x[k] - max), b = vn_spacing_at(f, y[k]), v = common + a * a / 12 + b * b / 12;
        out[k] = fabs(y[k]) <= DBL_MAX ? v : 0.0;
    }
}

static void variances(const job_t *j, const vn_row_t *row, const vn_exp_row_t *r, const double *w, double *s2) {
    const double common = vn_exp_variance(&j->model, row->n, row->in[X], w, r, s2), l = r->total.hi;
    double carried = 0; /* of the operands: sum p^2 var */
    for (int64_t k = 0; row->in[XVAR] && k < row->n; ++k) carried += w[k] / l * (w[k] / l) * row->in[XVAR][k];
    const double log_ulp = vn_ulp(j->acc, log(l)), inverse = 1 / l;
    for (int64_t k = 0; row->in[XVAR] && k < row->n; ++k) s2[k] += row->in[XVAR][k];
    if (j->kind == VN_SOFTMAX) {
        share_variances(vn_spacing(j->acc), row->n, w, inverse, s2, common + carried, row->out[Y], row->out[VAR]);
        return;
    }
    log_variances(vn_spacing(j->acc), row->n, row->in[X], r->max, common + carried + 0.12 * log_ulp * log_ulp, row->out[Y], row->out[VAR]);
    for (int64_t k = 0; row->in[XVAR] && k < row->n; ++k)
        if (isfinite(row->out[Y][k])) row->out[VAR][k] += row->in[XVAR][k] * (1 - 2 * w[k] * inverse);
}

VN_CLONES static void scaled(int64_t n, const double *restrict w, double factor, double *restrict y) {
    for (int64_t k = 0; k < n; ++k) y[k] = w[k] * factor;
}

VN_CLONES static void quotients(int64_t n, const double *restrict w, double by, double *restrict y) {
    for (int64_t k = 0; k < n; ++k) y[k] = w[k] / by;
}

VN_CLONES static void differences(int64_t n, const double *restrict x, double max, double log_l, double *restrict y) {
    for (int64_t k = 0; k < n; ++k) y[k] = (x[k] - max) - log_l;
}

static void on_row(void *ctx, const vn_row_t *row) {
    job_t *j = ctx;
    const int64_t n = row->n;
    double *w = row->work, *wrong = w + n;
    vn_exp_row_t r = vn_exp_row(n, row->in[X], row->in[ERR], w);
    if (!r.regular) {
        irregular(j, row, r.max);
        return;
    }
    if (j->kind == VN_SOFTMAX)
        (j->acc == VN_FMT_F64 ? quotients : scaled)(n, w, j->acc == VN_FMT_F64 ? r.total.hi : 1 / r.total.hi, row->out[Y]);
    else differences(n, row->in[X], r.max, log(r.total.hi), row->out[Y]);
    if (!row->out[BOUND]) return;
    vn_exp_wrong(&j->model, n, row->in[X], row->in[ERR], w, &r, wrong);
    bounds(j, row, &r, wrong, false, row->out[BOUND]);
    if (row->out[OWN]) /* the oracle is one such evaluation, in f64 */
        for (int64_t k = 0; k < n; ++k) {
            const double b = row->out[BOUND][k];
            row->out[OWN][k] = (isfinite(b) ? b * (0x1p-53 / j->u) : 0) + 0x1p-51 * fabs(row->out[Y][k]);
        }
    if (row->out[WIDE]) {
        vn_exp_model_t second = j->model;
        second.unfolded = j->kind == VN_SOFTMAX;
        vn_exp_row_t again = r;
        vn_exp_wrong(&second, n, row->in[X], row->in[ERR], w, &again, wrong);
        bounds(j, row, &again, wrong, true, row->out[WIDE]);
        if (j->kind == VN_LOG_SOFTMAX) at_least(n, row->out[BOUND], row->out[WIDE]);
    }
    if (row->out[VAR]) variances(j, row, &r, w, wrong);
}

vn_status_t vn_softmax_rows(vn_eval_t *e, vn_softmax_kind_t kind, const vn_rows_t *s, vn_softmax_planes_t *p) {
    job_t j = {.e = e,
               .kind = kind,
               .model = vn_exp_model(e),
               .acc = e->contract->accumulator,
               .u = vn_u(e),
               .tau = vn_tau(e),
               .log_t = vn_budget(e, "log")};
    vn_row_job_t job = {.shape = s,
                        .source = p->source,
                        .in = {p->x, p->err, p->x_var},
                        .out = {p->y, p->bound, p->wide, p->var, p->own},
                        .work = 2,
                        .fn = on_row,
                        .ctx = &j};
    if (p->reported) VN_TRY(vn_rows_report(e, 0, &job));
    VN_TRY(vn_rows_run(e, &job));
    p->open = j.open;
    return VN_OK;
}

/* ---- the operators ---- */

static vn_status_t plan(vn_eval_t *e, vn_rows_t *s) {
    const vn_tensor_t *x = e->in[0].t;
    int axis;
    bool along[VN_MAX_RANK] = {false};
    if (x->rank == 0) { /* a scalar is one row of one element */
        vn_rows_plan(0, NULL, along, s);
        return VN_OK;
    }
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", e->version < 13 ? 1 : -1), x->rank, &axis));
    for (int d = axis; d < x->rank && (d == axis || e->version < 13); ++d) along[d] = true; /* before 13: all axes from `axis` on */
    vn_rows_plan(x->rank, x->dims, along, s);
    return VN_OK;
}

static vn_status_t infer(vn_eval_t *e) {
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = e->in[0].t->rank;
    memcpy(e->out[0].dims, e->in[0].t->dims, sizeof e->out[0].dims);
    return VN_OK;
}

/* Rows of minus infinities read as rows of zeros (softmax) or of minus infinities (log-softmax). */
static vn_status_t reading_masked(vn_eval_t *e, vn_softmax_kind_t kind, const vn_rows_t *s) {
    const vn_ref_t *r = &e->out[0];
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new_raw(r->dtype, r->rank, r->dims, &t, e->err));
    vn_tensor_from_f64(t, r->value, VN_RNE, false);
    const double *x = vn_arg_f64(e, 0);
    double *row = vn_alloc((size_t)(s->n ? s->n : 1), sizeof *row), *plane = vn_alloc((size_t)(r->count ? r->count : 1), sizeof *plane);
    if (!row || !plane) {
        vn_free(row);
        vn_free(plane);
        vn_tensor_free(t);
        return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    memcpy(plane, r->value, (size_t)r->count * sizeof *plane);
    for (int64_t i = 0; i < s->rows; ++i) {
        bool all = s->n > 0;
        vn_rows_read(s, x, i, 1, row);
        for (int64_t k = 0; k < s->n; ++k) all &= row[k] == -INFINITY;
        if (!all) continue;
        for (int64_t k = 0; k < s->n; ++k) row[k] = kind == VN_SOFTMAX ? 0 : -INFINITY;
        vn_rows_write(s, plane, i, 1, row);
    }
    vn_tensor_from_f64(t, plane, VN_RNE, false);
    vn_free(row);
    vn_free(plane);
    return vn_out_reading(e, 0, "zeros", t);
}

/* ---- single elements in more digits (claim PREC-3) ---- */

typedef struct refine {
    const vn_rows_t *rows;
    const double *x;
    const vn_tensor_t *source;
    vn_softmax_kind_t kind;
} refine_t;

static void refine_row(void *ctx, const vn_refine_row_t *q) {
    const refine_t *j = ctx;
    double *x = vn_alloc((size_t)(q->n ? q->n : 1), sizeof *x);
    if (!x) return; /* not refined: counted as undecided */
    vn_rows_read_one(j->rows, j->x, j->source, q->index, x);
    const vn_quad_expsum_t s = vn_quad_expsum(x, q->n);
    for (int64_t i = 0; i < q->count && isfinite(s.max); ++i) {
        vn_quad_t lost;
        const vn_quad_t d = vn_quad_two_sum(x[q->k[i]], -(vn_quad_t)s.max, &lost);
        if (j->kind == VN_LOG_SOFTMAX) {
            *q->out[i] = (vn_exact_t){.value = d, .rest = lost - s.log, .own = s.log_own};
        } else {
            const vn_quad_t p = x[q->k[i]] == -INFINITY ? 0 : vn_qexp(d + lost) / (1 + s.others); /* -Inf: `lost` is no number */
            if (p == 0) *q->out[i] = (vn_exact_t){.value = 0}; /* exp of minus infinity, or below every format */
            else *q->out[i] = (vn_exact_t){.value = p, .own = p * ((2 * (double)q->n + 64 - (double)d) * VN_QUAD_U + s.relative)};
        }
    }
    vn_free(x);
}

/* Own error of a value in f64: rounding of d, exp, the denominator (whose terms weigh |d| by e^-|d|) and the quotient. */
static void own_numbers(vn_ref_t *r, vn_softmax_kind_t kind, int64_t n) {
    const double log_n = log((double)(n > 1 ? n : 1));
    const double smallest = 104; /* -log 2^-150: weights below round to 0 in every narrower type */
    r->own_rel = kind == VN_SOFTMAX ? (smallest + 2 * log_n + 16) * 0x1p-53 : 0x1p-49;
    r->own_abs = kind == VN_SOFTMAX ? 0 : (log_n + 8) * 0x1p-52;
}

static vn_status_t eval(vn_eval_t *e, vn_softmax_kind_t kind) {
    const vn_tensor_t *x = e->in[0].t;
    if (!vn_dtype_is_float(x->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s, not a float type", vn_dtype_name(x->dtype));
    vn_rows_t s;
    VN_TRY(plan(e, &s));
    VN_TRY(vn_out_float_raw(e, 0, x->dtype, x->rank, x->dims));
    vn_ref_t *r = &e->out[0];
    const bool second = e->want >= VN_WANT_BOUND && e->contract->tier != VN_TIER_IEEE && !e->refine;
    if (second) VN_TRY(vn_out_wide_raw(e, 0, kind == VN_SOFTMAX ? "exp2-unfolded" : "lse-rounded"));
    if (e->want >= VN_WANT_BOUND && (kind == VN_LOG_SOFTMAX || x->dtype == VN_F64)) VN_TRY(vn_out_own_raw(e, 0));
    vn_row_job_t operand = {.shape = &s};
    VN_TRY(vn_rows_operand(e, 0, &operand));
    if (e->refine) {
        refine_t job = {.rows = &s, .x = operand.in[0], .source = operand.source, .kind = kind};
        return vn_refine_rows(e, &s, refine_row, &job);
    }
    own_numbers(r, kind, s.n);
    vn_softmax_planes_t p = {.x = operand.in[0],
                             .source = operand.source,
                             .err = vn_arg_err(e, 0),
                             .x_var = e->in[0].var,
                             .y = r->value,
                             .bound = r->bound,
                             .wide = r->wide,
                             .var = r->var,
                             .own = r->own,
                             .reported = true};
    r->terms = s.n;
    VN_TRY(vn_softmax_rows(e, kind, &s, &p));
    return p.open ? reading_masked(e, kind, &s) : VN_OK;
}

static vn_status_t eval_softmax(vn_eval_t *e) { return eval(e, VN_SOFTMAX); }
static vn_status_t eval_log_softmax(vn_eval_t *e) { return eval(e, VN_LOG_SOFTMAX); }

/* ctx: whether NaN is skipped; else it counts as the largest, as in sorting. */
static void hard_row(void *ctx, const vn_row_t *row) {
    const bool skip = *(const bool *)ctx;
    int64_t best = 0;
    for (int64_t k = 1; k < row->n; ++k) {
        const double a = row->in[0][k], b = row->in[0][best];
        if (a > b || (skip ? isnan(b) && !isnan(a) : isnan(a) && !isnan(b))) best = k; /* the first maximum */
    }
    for (int64_t k = 0; k < row->n; ++k) row->out[0][k] = k == best;
}

static vn_status_t eval_hardmax(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    vn_rows_t s;
    VN_TRY(plan(e, &s));
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, x->dims));
    const double *plane = vn_arg_f64(e, 0);
    if (!plane) return VN_ERR_NOMEM;
    bool skip = false, any = false;
    vn_row_job_t job = {.shape = &s, .in = {plane}, .out = {e->out[0].value}, .fn = hard_row, .ctx = &skip};
    VN_TRY(vn_rows_run(e, &job));
    vn_out_rounded(e, 0);
    for (int64_t i = 0; i < x->count && !any; ++i) any = isnan(plane[i]);
    if (!any || e->want < VN_WANT_BOUND) return VN_OK;
    double *other = vn_alloc((size_t)x->count, sizeof *other);
    vn_tensor_t *t = NULL;
    skip = true;
    job.out[0] = other;
    vn_status_t status = other ? vn_rows_run(e, &job) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a reading");
    if (status == VN_OK) status = vn_tensor_new_raw(x->dtype, x->rank, x->dims, &t, e->err);
    if (status == VN_OK) {
        vn_tensor_from_f64(t, other, VN_RNE, false);
        status = vn_out_reading(e, 0, "nan-ignored", t);
    }
    vn_free(other);
    return status;
}

static const vn_op_t rows[] = {
    {"", "Softmax", 1, 12, VN_CLASS_SOFTMAX, VN_OP_PROPAGATES | VN_OP_REFINES | VN_OP_LEAN, "SOFTMAX-1", eval_softmax, infer, 0},
    {"", "Softmax", 13, 0, VN_CLASS_SOFTMAX, VN_OP_PROPAGATES | VN_OP_REFINES | VN_OP_LEAN, "SOFTMAX-1", eval_softmax, infer, 0},
    {"", "LogSoftmax", 1, 12, VN_CLASS_SOFTMAX, VN_OP_PROPAGATES | VN_OP_REFINES | VN_OP_LEAN, "SOFTMAX-2", eval_log_softmax, infer, 0},
    {"", "LogSoftmax", 13, 0, VN_CLASS_SOFTMAX, VN_OP_PROPAGATES | VN_OP_REFINES | VN_OP_LEAN, "SOFTMAX-2", eval_log_softmax, infer, 0},
    {"", "Hardmax", 1, 12, VN_CLASS_EXACT, 0, "SOFTMAX-3", eval_hardmax, infer, 0},
    {"", "Hardmax", 13, 0, VN_CLASS_EXACT, 0, "SOFTMAX-3", eval_hardmax, infer, 0},
    {"", "NegativeLogLikelihoodLoss", 12, 0, VN_CLASS_REDUCTION, VN_OP_PROPAGATES | VN_OP_REFINES, "SOFTMAX-4", vn_eval_nll_loss,
     vn_infer_loss, 0},
    {"", "SoftmaxCrossEntropyLoss", 12, 0, VN_CLASS_SOFTMAX, VN_OP_PROPAGATES | VN_OP_REFINES, "SOFTMAX-4", vn_eval_softmax_loss,
     vn_infer_loss, 0},
};

const vn_family_t vn_family_softmax = {"softmax", rows, sizeof rows / sizeof *rows};
