/* op_pooling.c -- AveragePool, LpPool and their global forms; the table of the pooling family.
 *
 * n = elements of the window on the input, d = divisor (n, or with count_include_pad the elements on the padded input).
 * Claim POOL-1 (average): E = g(n+1) sum|x|/d + eta max(1, n/2): n - 1 additions, then a division, a product by the rounded 1/d, or terms
 * scaled beforehand. E = 0 where the sum is exact (SUM-EXACT) and d a power of two that does not underflow.
 * Claim POOL-2 (Lp, p = 2): E_Q = n u Q + n eta/2 (1+nu), E = max(sqrt(Q+E_Q)(1+r) - y, y - sqrt(max(Q-E_Q,0))(1-r)), r = 2 t u of sqrt;
 * second tier: powers instead of squares and root. p = 1: (n-1) u T. Other p: each term within delta = max(2 t u, (p-1) u) of pow, so that
 * y (((1+delta)(1+g(n-1)) + n eta/S)^(1/p) (1+2tu) - 1).
 * Claim POOL-3 (uncertain operands): + mean of the uncertainties for averages; y moves by at most the Lp norm of the uncertainties.
 */
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/pool.h"
#include "oracle/require.h"
#include "oracle/sums.h"

/* ---- averages ---- */

typedef struct average_job {
    vn_eval_t *e;
    vn_pool_t p;
    const double *x, *err, *var;
    bool include_pad, overhang; /* overhang: the second reading divides by the whole kernel */
    vn_format_t acc;
    double u, eta;
    double *second; /* values of that reading */
    bool failed;
} average_job_t;

static void average_one(average_job_t *j, const double *x, const double *dx, int64_t n, double d, int64_t at) {
    vn_ref_t *r = &j->e->out[0];
    const vn_sum2_t s = vn_sum2(x, n), m = vn_sum2_over(s, d);
    double abs = s.abs, moved = 0;
    r->value[at] = m.hi;
    if (r->lo) r->lo[at] = m.lo;
    if (r->own) r->own[at] = isfinite(m.hi) ? 0x1p-100 * m.abs + (d >= 0x1p11 ? 0x1p-64 * fabs(m.hi) : 0) : 0; /* claims of sums.h */
    if (!r->bound) return;
    for (int64_t i = 0; dx && i < n; ++i) moved += dx[i];
    if (!isfinite(m.hi)) return;
    abs += moved;
    const bool dyadic = frexp(d, &(int){0}) == 0.5;
    const double tau = vn_tau(j->e);
    const bool exact = moved == 0 && (abs == 0 || (dyadic && vn_sum_exact(x, n, abs, j->acc) && fabs(m.hi) >= tau));
    if (r->flags && abs * (1 + (double)n * j->u) >= vn_format_info(j->acc)->max) r->flags[at] |= VN_EL_INF_OK | VN_EL_NAN_OK;
    if (exact) return;
    const double tiny = j->e->contract->ftz ? 2 * (double)n * tau : j->eta * fmax(1, (double)n / 2);
    double b = vn_gamma((double)n + 1, j->u) * abs / d + tiny + moved / d;
    r->bound[at] = isnan(b) ? INFINITY : b * (1 + 0x1p-48);
    if (r->var) r->var[at] = vn_sum_variance(j->acc, x, n, s.hi) / (d * d) + vn_node_variance(j->acc, m.hi);
}

static void average_range(void *ctx, int64_t begin, int64_t end) {
    average_job_t *j = ctx;
    const int64_t room = vn_pool_capacity(&j->p), positions = j->p.w.positions;
    double *buffer = vn_alloc((size_t)(room ? 3 * room : 1), sizeof *buffer);
    if (!buffer) {
        __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t at = begin; at < end; ++at) {
        vn_pool_span_t s;
        const int64_t plane = at / positions * j->p.w.in_size, position = at % positions;
        vn_pool_span(&j->p, position, &s);
        vn_pool_read(&j->p, &s, j->x + plane, buffer);
        if (j->err) vn_pool_read(&j->p, &s, j->err + plane, buffer + room);
        if (j->var) vn_pool_read(&j->p, &s, j->var + plane, buffer + 2 * room);
        const double d = (double)(j->include_pad ? s.inside : s.present);
        vn_ref_t *r = &j->e->out[0];
        if (s.present == 0) { /* padding only: 0, or 0/0 */
            if (r->flags) r->flags[at] |= VN_EL_NAN_OK | VN_EL_ZERO_OK;
            continue;
        }
        average_one(j, buffer, j->err ? buffer + room : NULL, s.present, d, at);
        for (int64_t i = 0; j->var && r->var && i < s.present; ++i) r->var[at] += buffer[2 * room + i] / (d * d);
        if (j->second) j->second[at] = r->value[at] * d / (double)j->p.w.taps;
    }
    vn_free(buffer);
}

/* In more digits (claim PREC-3): the window's sum without loss, then the quotient. */
static void average_refine(void *ctx, int64_t at, vn_exact_t *out) {
    const average_job_t *j = ctx;
    const int64_t room = vn_pool_capacity(&j->p), positions = j->p.w.positions;
    double *x = vn_alloc((size_t)(room ? room : 1), sizeof *x);
    if (!x) return; /* not refined: counted as undecided */
    vn_pool_span_t s;
    vn_pool_span(&j->p, at % positions, &s);
    vn_pool_read(&j->p, &s, j->x + at / positions * j->p.w.in_size, x);
    vn_quad_sum_t sum = {0};
    for (int64_t i = 0; i < s.present; ++i) vn_quad_add(&sum, x[i]);
    if (s.present) *out = vn_exact_quotient(vn_exact_sum(&sum), (vn_quad_t)(j->include_pad ? s.inside : s.present));
    vn_free(x);
}

/* True if some window is empty, or overhangs the padded input. */
static void look_at_windows(const vn_pool_t *p, bool *empty, bool *overhang) {
    *empty = *overhang = false;
    for (int64_t i = 0; i < p->w.positions; ++i) {
        vn_pool_span_t s;
        vn_pool_span(p, i, &s);
        *empty = *empty || s.present == 0;
        *overhang = *overhang || s.inside < p->w.taps;
    }
}

static vn_status_t need_float(vn_eval_t *e) {
    VN_TRY(vn_require(e, 1));
    const vn_dtype_t t = e->in[0].t->dtype;
    return vn_dtype_is_float(t) ? VN_OK : vn_eval_fail(e, VN_ERR_DTYPE, "no average of %s", vn_dtype_name(t));
}

static bool may_overflow(const double *x, int64_t n, double terms, double limit) {
    double max = 0;
    for (int64_t i = 0; i < n; ++i) max = fabs(x[i]) > max ? fabs(x[i]) : max;
    return !(max * (terms + 2) < limit);
}

static vn_status_t average(vn_eval_t *e, vn_pool_form_t form) {
    average_job_t j = {.e = e, .acc = e->contract->accumulator, .u = vn_u(e), .eta = vn_eta(e)};
    const vn_tensor_t *x = e->in[0].t;
    bool empty = false, overhang = false;
    VN_TRY(need_float(e));
    VN_TRY(vn_pool_plan(e, form, &j.p));
    VN_TRY(vn_out_float(e, 0, x->dtype, j.p.rank, j.p.dims));
    j.x = vn_arg_f64(e, 0);
    if (!j.x) return VN_ERR_NOMEM;
    j.include_pad = form != VN_POOL_GLOBAL && vn_node_int(e->node, "count_include_pad", 0) != 0;
    if (e->refine) {
        vn_refine_each(e, average_refine, &j);
        return VN_OK;
    }
    VN_TRY(vn_out_lo(e, 0));
    VN_TRY(vn_out_own(e, 0));
    j.err = vn_arg_err(e, 0);
    j.var = e->in[0].var;
    if (form != VN_POOL_GLOBAL) look_at_windows(&j.p, &empty, &overhang);
    e->out[0].terms = vn_pool_capacity(&j.p);
    if (empty || may_overflow(j.x, x->count, (double)e->out[0].terms, vn_format_info(j.acc)->max)) VN_TRY(vn_out_flags(e, 0));
    vn_tensor_t *reading = NULL;
    if (j.include_pad && overhang && e->out[0].count) {
        VN_TRY(vn_tensor_new(x->dtype, j.p.rank, j.p.dims, &reading, e->err));
        j.second = vn_alloc((size_t)e->out[0].count, sizeof *j.second);
        if (!j.second) {
            vn_tensor_free(reading);
            return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        }
    }
    const int64_t per = e->out[0].terms;
    vn_parallel(e->out[0].count, per > 16384 ? 1 : 16384 / (per + 1) + 1, average_range, &j);
    if (j.second) vn_tensor_from_f64(reading, j.second, VN_RNE, false);
    vn_free(j.second);
    if (reading) VN_TRY(vn_out_reading(e, 0, "overhang-counted", reading));
    return j.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for windows") : VN_OK;
}

static vn_status_t eval_average(vn_eval_t *e) {
    VN_TRY(average(e, VN_POOL_WINDOWS));
    return e->refine ? VN_OK : vn_pool_unpadded_reading(e, average);
}
static vn_status_t eval_global_average(vn_eval_t *e) { return average(e, VN_POOL_GLOBAL); }

/* ---- Lp ---- */

typedef struct lp_job {
    vn_eval_t *e;
    vn_pool_t p;
    const double *x, *err;
    int64_t power;
    double u, eta, t_sqrt, t_pow;
    bool failed;
} lp_job_t;

/* Largest distance of computed roots from y, the sum being within rel and abs of S. */
static double root_bound(double sum, double abs_err, double power, double root_rel) {
    const double y = pow(sum, 1 / power), up = pow(sum + abs_err, 1 / power) * (1 + root_rel), low = sum - abs_err;
    const double down = low > 0 ? pow(low, 1 / power) * (1 - root_rel) : 0;
    return fmax(up - y, y - fmax(down, 0)) + 0x1p-50 * y;
}

static void lp_one(lp_job_t *j, const double *x, const double *dx, int64_t n, int64_t at) {
    vn_ref_t *r = &j->e->out[0];
    const double p = (double)j->power, nn = (double)n;
    long double sum = 0, moved = 0; /* 64 bits: enough to judge binary64, too */
    for (int64_t i = 0; i < n; ++i) {
        const long double m = fabsl((long double)x[i]);
        sum += j->power == 1 ? m : j->power == 2 ? m * m : powl(m, (long double)p);
        if (dx) moved += j->power == 1 ? (long double)dx[i] : powl((long double)dx[i], (long double)p);
    }
    const long double y = j->power == 1 ? sum : j->power == 2 ? sqrtl(sum) : powl(sum, 1 / (long double)p);
    r->value[at] = (double)y;
    if (r->lo) r->lo[at] = isfinite(y) ? (double)(y - (long double)(double)y) : 0;
    if (r->own) r->own[at] = (nn + 16) * 0x1p-62 * (double)y;
    if (!r->bound) return;
    const double s = (double)sum, max = vn_format_info(j->e->contract->accumulator)->max;
    if (r->flags && s * (1 + nn * j->u) >= max) r->flags[at] |= VN_EL_INF_OK;
    if (!isfinite((double)y)) return;
    const double carried = dx ? (double)(j->power == 1 ? moved : powl(moved, 1 / (long double)p)) * (1 + 0x1p-40) : 0;
    const double eta = j->e->contract->ftz ? 2 * vn_tau(j->e) : j->eta;
    double tight, wide;
    if (n == 1 && j->power == 1) {
        tight = wide = 0;
    } else if (j->power == 1) {
        tight = wide = (nn - 1) * j->u * s + (j->e->contract->ftz ? nn * eta : 0);
    } else {
        const double body = fmax(2 * j->t_pow * j->u, (p - 1) * j->u), sums = vn_gamma(nn - 1, j->u);
        wide = root_bound(s, s * ((1 + body) * (1 + sums) - 1) + nn * eta, p, 2 * j->t_pow * j->u);
        tight = j->power == 2 ? root_bound(s, nn * j->u * s + nn * eta / 2 * (1 + nn * j->u), 2, 2 * j->t_sqrt * j->u) : wide;
        if (s == 0) tight = wide = 0;
    }
    r->bound[at] = tight + carried;
    if (r->wide) r->wide[at] = wide + carried;
    if (r->var) { /* of the sum of n rounded terms in random order, through the root; then the root's own rounding */
        const double u2 = 0.18 * j->u * j->u, v = s > 0 ? u2 * ((nn + 1) / 3 * s * s + s * s / (nn > 1 ? nn : 1)) : 0;
        r->var[at] = s > 0 ? v * pow((double)y / s / p, 2) + u2 * (double)y * (double)y : 0;
        if (j->power == 1) r->var[at] = n > 1 ? u2 * (nn + 1) / 3 * s * s : 0;
    }
}

static void lp_range(void *ctx, int64_t begin, int64_t end) {
    lp_job_t *j = ctx;
    const int64_t room = vn_pool_capacity(&j->p), positions = j->p.w.positions;
    double *buffer = vn_alloc((size_t)(room ? 2 * room : 1), sizeof *buffer);
    if (!buffer) {
        __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t at = begin; at < end; ++at) {
        vn_pool_span_t s;
        const int64_t plane = at / positions * j->p.w.in_size, position = at % positions;
        vn_pool_span(&j->p, position, &s);
        vn_pool_read(&j->p, &s, j->x + plane, buffer);
        if (j->err) vn_pool_read(&j->p, &s, j->err + plane, buffer + room);
        lp_one(j, buffer, j->err ? buffer + room : NULL, s.present, at);
    }
    vn_free(buffer);
}

/* In more digits: powers by multiplication, p - 1 roundings each; the last root costs 8 units and what 1/p loses times the logarithm. */
static void lp_refine(void *ctx, int64_t at, vn_exact_t *out) {
    const lp_job_t *j = ctx;
    const int64_t room = vn_pool_capacity(&j->p), positions = j->p.w.positions;
    double *x = vn_alloc((size_t)(room ? room : 1), sizeof *x);
    if (!x) return; /* not refined: counted as undecided */
    vn_pool_span_t s;
    vn_pool_span(&j->p, at % positions, &s);
    vn_pool_read(&j->p, &s, j->x + at / positions * j->p.w.in_size, x);
    vn_quad_sum_t sum = {0};
    for (int64_t i = 0; i < s.present; ++i) {
        vn_quad_t power = fabs(x[i]);
        for (int64_t k = 1; k < j->power; ++k) power *= fabs(x[i]);
        vn_quad_add(&sum, power);
    }
    if (j->power == 1) {
        *out = vn_exact_sum(&sum);
    } else if (j->power == 2) {
        *out = vn_exact_root(&sum);
    } else if (sum.hi > 0 && vn_quad_finite(sum.hi)) {
        const vn_quad_t y = vn_qpow(sum.hi, 1 / (vn_quad_t)j->power), units = 32 + (double)j->power + vn_qabs(vn_qlog(sum.hi));
        *out = (vn_exact_t){.value = y, .own = y * units * VN_QUAD_U};
    }
    vn_free(x);
}

static vn_status_t lp(vn_eval_t *e, vn_pool_form_t form) {
    lp_job_t j = {.e = e,
                  .power = vn_node_int(e->node, "p", 2),
                  .u = vn_u(e),
                  .eta = vn_eta(e),
                  .t_sqrt = vn_budget(e, "sqrt"),
                  .t_pow = vn_budget(e, "pow")};
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(need_float(e));
    if (j.power < 1 || j.power > 1024) return vn_eval_fail(e, VN_ERR_RANGE, "p = %lld", (long long)j.power);
    VN_TRY(vn_pool_plan(e, form, &j.p));
    VN_TRY(vn_out_float(e, 0, x->dtype, j.p.rank, j.p.dims));
    j.x = vn_arg_f64(e, 0);
    if (!j.x) return VN_ERR_NOMEM;
    if (e->refine) {
        vn_refine_each(e, lp_refine, &j);
        return VN_OK;
    }
    VN_TRY(vn_out_lo(e, 0));
    VN_TRY(vn_out_own(e, 0));
    if (e->want >= VN_WANT_BOUND) {
        if (j.power == 2) VN_TRY(vn_out_wide(e, 0, "powers-for-squares"));
        VN_TRY(vn_out_flags(e, 0));
    }
    j.err = vn_arg_err(e, 0);
    e->out[0].terms = vn_pool_capacity(&j.p);
    const int64_t per = e->out[0].terms;
    vn_parallel(e->out[0].count, per > 16384 ? 1 : 16384 / (per + 1) + 1, lp_range, &j);
    return j.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for windows") : VN_OK;
}

static vn_status_t eval_lp(vn_eval_t *e) {
    VN_TRY(lp(e, VN_POOL_WINDOWS));
    return e->refine ? VN_OK : vn_pool_unpadded_reading(e, lp);
}
static vn_status_t eval_global_lp(vn_eval_t *e) { return lp(e, VN_POOL_GLOBAL); }

static vn_status_t infer_pool(vn_eval_t *e) { return vn_pool_infer(e, false); }
static vn_status_t infer_global(vn_eval_t *e) { return vn_pool_infer(e, true); }

static const vn_op_t rows[] = {
    {"", "AveragePool", 1, 0, VN_CLASS_REDUCTION, VN_OP_PROPAGATES | VN_OP_REFINES, "POOL-1", eval_average, infer_pool, 0},
    {"", "GlobalAveragePool", 1, 0, VN_CLASS_REDUCTION, VN_OP_PROPAGATES | VN_OP_REFINES, "POOL-1", eval_global_average, infer_global, 0},
    {"", "LpPool", 2, 0, VN_CLASS_REDUCTION, VN_OP_PROPAGATES | VN_OP_REFINES, "POOL-2", eval_lp, infer_pool, 0},
    {"", "GlobalLpPool", 2, 0, VN_CLASS_REDUCTION, VN_OP_PROPAGATES | VN_OP_REFINES, "POOL-2", eval_global_lp, infer_global, 0},
    {"", "MaxPool", 1, 0, VN_CLASS_MOVEMENT, VN_OP_PROPAGATES, "POOL-4", vn_eval_max_pool, vn_infer_max_pool, 0},
    {"", "GlobalMaxPool", 1, 0, VN_CLASS_MOVEMENT, VN_OP_PROPAGATES, "POOL-4", vn_eval_global_max_pool, infer_global, 0},
    {"", "MaxUnpool", 9, 0, VN_CLASS_MOVEMENT, VN_OP_MAPS | VN_OP_SHAPE_LIKE_2, "POOL-5", vn_eval_max_unpool, NULL, 0},
    {"", "MaxRoiPool", 1, 0, VN_CLASS_MOVEMENT, 0, "POOL-6", vn_eval_max_roi_pool, vn_infer_max_roi_pool, 0},
    {"", "RoiAlign", 10, 0, VN_CLASS_COMPOSITE, VN_OP_REFINES, "POOL-7", vn_eval_roi_align, vn_infer_roi_align, 0},
    {"com.microsoft", "QLinearAveragePool", 1, 0, VN_CLASS_QUANTISE, 0, "POOL-8", vn_eval_qlinear_average_pool, NULL, 0},
    {"com.microsoft", "QLinearGlobalAveragePool", 1, 0, VN_CLASS_QUANTISE, 0, "POOL-8", vn_eval_qlinear_global_average_pool, NULL, 0},
};
const vn_family_t vn_family_pooling = {"pooling", rows, sizeof rows / sizeof *rows};
