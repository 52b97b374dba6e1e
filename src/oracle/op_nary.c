/* op_nary.c -- Max Min Sum Mean over any number of operands, Clip, and the classes IsNaN and IsInf.
 *
 * Claim ELEM-10: Max, Min and Clip return one of their operands: no rounding; uncertain operands add the largest of their uncertainties,
 *   because the functions are 1-Lipschitz in the maximum norm. NaN passes through; a kernel that drops it follows a reading.
 * Claim ELEM-11: Sum of n: E = (n-1) u T, one rounding for n = 2. Mean of n: E = g(n+1) T/n + eta (n > 1). T = sum of absolute values.
 */
#include "oracle/elementwise.h"
#include "oracle/escalate.h"

typedef enum nary { N_MAX, N_MIN, N_SUM, N_MEAN } nary_t;
/* What Max and Min do with NaN: it wins; or a > b ? a : b, which gives the later operand where one is NaN; or b > a ? b : a, the earlier. */
typedef enum nan_rule { NAN_WINS, NAN_LATER, NAN_EARLIER } nan_rule_t;

typedef struct job {
    nary_t op;
    nan_rule_t rule;
    int first; /* operand 0: initialises */
    const double *x;
    vn_doubt_t d;
    double *value, *low, *size, *err, *var, *squares;
    double *other; /* Max, Min: the result that drops NaN */
    int differs;   /* atomic */
    vn_spacing_t ulp;
    vn_flagger_t flags;
} job_t;

static void choose(job_t *j, int64_t o, double x, bool max) {
    const double m = j->value[o];
    if (j->rule != NAN_WINS) {
        const bool keep = max ? m > x : m < x, take_later = max ? x > m : x < m;
        if (j->rule == NAN_LATER ? !keep : take_later) j->value[o] = x;
        return;
    }
    const bool take = isnan(x) || (!isnan(m) && (max ? x > m : x < m));
    if (x == 0 && m == 0 && signbit(x) != signbit(m)) vn_flag(&j->flags, o, VN_EL_ZERO_OK);
    if (take) j->value[o] = x;
    if (!j->other) return;
    const double n = j->other[o];
    j->other[o] = isnan(n) || (max ? x > n : x < n) ? x : n;
    if (isnan(j->value[o]) != isnan(j->other[o])) __atomic_store_n(&j->differs, 1, __ATOMIC_RELAXED);
}

static void add(job_t *j, int64_t o, double x) {
    vn_two_sum_add(&j->value[o], &j->low[o], x);
    if (j->size) j->size[o] += fabs(x);
    if (j->squares) j->squares[o] += x * x;
    if (j->var) {
        const double ulp = vn_spacing_at(j->ulp, j->value[o]);
        j->var[o] += ulp * ulp / 12;
    }
}

static void piece(void *ctx, const vn_piece_t *p) {
    job_t *j = ctx;
    const bool sum = j->op == N_SUM || j->op == N_MEAN;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t o = p->out + i, k = p->at[0] + i * p->step[0];
        const double x = j->x[k];
        if (j->first) {
            j->value[o] = x;
            if (j->other) j->other[o] = x;
            if (j->size) j->size[o] = fabs(x);
            if (j->squares) j->squares[o] = x * x;
        } else if (sum) {
            add(j, o, x);
        } else {
            choose(j, o, x, j->op == N_MAX);
        }
        if (!j->err) continue;
        const double e = vn_doubt_at(&j->d, k, x);
        if (!(e < INFINITY)) vn_flag(&j->flags, o, VN_EL_VOID);
        j->err[o] = sum ? j->err[o] + e : fmax(j->err[o], e);
        if (j->var && j->d.var) j->var[o] = sum ? j->var[o] + j->d.var[k] : fmax(j->var[o], j->d.var[k]);
    }
}

typedef struct wrap_up {
    vn_ref_t *r;
    const job_t *j;
    int n;
    bool demand, is_f64;
    double u, eta;
} wrap_up_t;

static void sum_up(void *ctx, int64_t begin, int64_t end) {
    const wrap_up_t *w = ctx;
    const job_t *j = w->j;
    const double n = w->n, g = w->j->op == N_MEAN ? vn_gamma(n + 1, w->u) : 0;
    for (int64_t i = begin; i < end; ++i) {
        vn_sum2_t s = {.hi = j->low[i] == 0 ? j->value[i] : j->value[i] + j->low[i]}; /* a sum of negative zeros keeps its sign */
        s.lo = isfinite(s.hi) ? (j->value[i] - s.hi) + j->low[i] : 0;
        if (!isfinite(s.hi)) s.hi = j->value[i];
        const double total = s.hi;
        if (j->op == N_MEAN && w->n > 1) s = vn_sum2_over(s, n);
        w->r->value[i] = s.hi;
        if (w->r->lo) w->r->lo[i] = isfinite(s.lo) ? s.lo : 0;
        const double uncertain = j->err ? j->err[i] : 0;
        if (w->r->own) w->r->own[i] = 0x1p-100 * (j->size ? j->size[i] : 0) + (w->is_f64 ? 0 : 0x1p-52 * fabs(s.hi));
        if (!w->r->bound) continue;
        double e = w->demand ? 0 : j->op == N_SUM ? (n - 1) * w->u * (j->size[i] + uncertain) : g * (j->size[i] + uncertain) / n + w->eta;
        if (w->n == 1) e = 0;
        e += uncertain / (j->op == N_MEAN ? n : 1);
        w->r->bound[i] = isfinite(s.hi) ? e : 0;
        if (!j->var) continue;
        /* V_env of the sheet: the given order, or the mean over random orders, whichever is larger */
        double v = j->var[i];
        if (w->n > 2) {
            const double random =
                0.18 * w->u * w->u * ((n + 1) / 2 * j->squares[i] + (n + 1) / 3 * (total * total - j->squares[i]) - j->squares[i] / n);
            v = fmax(v, random);
        }
        if (j->op == N_MEAN) {
            const double ulp = vn_spacing_at(j->ulp, s.hi);
            v = v / (n * n) + ulp * ulp / 12;
        }
        w->r->var[i] = isfinite(v) ? v : 0;
    }
}

/* ---- integers: Max, Min (Sum and Mean take floats only) ---- */

typedef struct int_job {
    const int64_t *x;
    int64_t *out;
    bool first, max, is_u64;
} int_job_t;

static void int_piece(void *ctx, const vn_piece_t *p) {
    int_job_t *j = ctx;
    const uint64_t flip = j->is_u64 ? UINT64_C(1) << 63 : 0; /* orders unsigned patterns as signed ones */
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t x = j->x[p->at[0] + i * p->step[0]], m = j->out[p->out + i];
        const int64_t sx = (int64_t)((uint64_t)x ^ flip), sm = (int64_t)((uint64_t)m ^ flip);
        if (j->first || (j->max ? sx > sm : sx < sm)) j->out[p->out + i] = x;
    }
}

static vn_status_t ints(vn_eval_t *e, nary_t op, int rank, const int64_t *dims) {
    if (op != N_MAX && op != N_MIN)
        return vn_eval_fail(e, VN_ERR_DTYPE, "inputs are %s; floating-point types are needed", vn_dtype_name(e->in[0].t->dtype));
    VN_TRY(vn_out_exact(e, 0, e->in[0].t->dtype, rank, dims));
    const int64_t count = e->out[0].count;
    int_job_t j = {
        .max = op == N_MAX, .is_u64 = e->in[0].t->dtype == VN_U64, .out = vn_alloc((size_t)(count ? count : 1), sizeof(int64_t))};
    vn_status_t s = j.out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for integers");
    for (int k = 0; k < e->n_in && s == VN_OK; ++k) {
        vn_bcast_t plan;
        s = vn_bcast_onto(e, e->in[k].t, rank, dims, &plan);
        if (s != VN_OK) break;
        int64_t *x = vn_ints_of(e, e->in[k].t);
        if (!x) {
            s = VN_ERR_NOMEM;
            break;
        }
        j.x = x;
        j.first = k == 0;
        vn_bcast_run(&plan, int_piece, &j);
        vn_free(x);
    }
    if (s == VN_OK) vn_ints_store(e->out[0].tensor, j.out);
    vn_free(j.out);
    return s;
}

/* ---- floats ---- */

static vn_status_t reading(vn_eval_t *e, const double *v, const char *name) {
    vn_ref_t *r = &e->out[0];
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(r->dtype, r->rank, r->dims, &t, e->err));
    vn_tensor_from_f64(t, v, VN_RNE, false);
    return vn_out_reading(e, 0, name, t);
}

static vn_status_t accumulate(vn_eval_t *e, job_t *j, int rank, const int64_t *dims) {
    for (int k = 0; k < e->n_in; ++k) {
        vn_bcast_t plan;
        VN_TRY(vn_bcast_onto(e, e->in[k].t, rank, dims, &plan));
        j->x = vn_arg_f64(e, k);
        if (!j->x) return VN_ERR_NOMEM;
        j->d = vn_doubt(e, k);
        j->first = k == 0;
        vn_bcast_run(&plan, piece, j);
    }
    return j->flags.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags") : VN_OK;
}

/* ---- single elements in more digits (claim PREC-3): the sum without loss, then the quotient ---- */

typedef struct refine {
    const vn_eval_t *e;
    const vn_bcast_t *plans; /* one per operand */
    bool mean;
} refine_t;

static void refine_one(void *ctx, int64_t i, vn_exact_t *out) {
    const refine_t *j = ctx;
    vn_quad_sum_t s = {0};
    for (int k = 0; k < j->e->n_in; ++k) {
        const vn_bcast_t *b = &j->plans[k];
        int64_t at = 0, rest = i;
        for (int d = b->rank - 1; d >= 0; --d) {
            at += rest % b->dims[d] * b->step[0][d];
            rest /= b->dims[d];
        }
        const double *x = j->e->in[k].value ? j->e->in[k].value : j->e->in[k].t->data; /* f64 tensors are their own plane */
        vn_quad_add(&s, x[at]);
    }
    const vn_exact_t total = vn_exact_sum(&s);
    *out = j->mean ? vn_exact_quotient(total, j->e->n_in) : total;
}

static vn_status_t refine_sum(vn_eval_t *e, bool mean, int rank, const int64_t *dims) {
    vn_bcast_t *plans = vn_alloc((size_t)e->n_in, sizeof *plans);
    vn_status_t s = plans ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < e->n_in && s == VN_OK; ++k) {
        s = vn_bcast_onto(e, e->in[k].t, rank, dims, &plans[k]);
        if (s == VN_OK && !vn_arg_f64(e, k)) s = VN_ERR_NOMEM;
    }
    if (s == VN_OK) vn_refine_each(e, refine_one, &(refine_t){.e = e, .plans = plans, .mean = mean});
    vn_free(plans);
    return s;
}

/* Comparisons with NaN are false: which operand is left then depends on how the comparison is written. */
static vn_status_t ordered_readings(vn_eval_t *e, const job_t *given, int rank, const int64_t *dims) {
    static const char *const names[] = {
        [NAN_LATER] = "the later operand where one is NaN", [NAN_EARLIER] = "the earlier operand where one is NaN"};
    vn_status_t s = VN_OK;
    for (nan_rule_t rule = NAN_LATER; rule <= NAN_EARLIER && s == VN_OK; ++rule) {
        job_t j = {.op = given->op, .rule = rule, .ulp = given->ulp, .flags = given->flags};
        j.value = vn_alloc((size_t)e->out[0].count, sizeof(double));
        s = j.value ? accumulate(e, &j, rank, dims) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a reading");
        if (s == VN_OK) s = reading(e, j.value, names[rule]);
        vn_free(j.value);
    }
    return s;
}

vn_status_t vn_eval_nary(vn_eval_t *e) {
    const nary_t op = (nary_t)vn_registry_find(e->node->domain, e->node->op, e->version)->param;
    if (e->n_in < 1) return vn_eval_fail(e, VN_ERR_USAGE, "at least one input is needed");
    int rank = 0;
    int64_t dims[VN_MAX_RANK];
    bool doubtful = false;
    for (int k = 0; k < e->n_in; ++k) {
        if (!vn_has(e, k) || !e->in[k].t) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing or not a tensor", k);
        const vn_tensor_t *t = e->in[k].t;
        if (t->dtype != e->in[0].t->dtype)
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s, input 0 is %s", k, vn_dtype_name(t->dtype),
                                vn_dtype_name(e->in[0].t->dtype));
        int64_t merged[VN_MAX_RANK];
        int merged_rank;
        VN_TRY(vn_broadcast_shape(rank, dims, t->rank, t->dims, &merged_rank, merged, e->err));
        rank = merged_rank;
        memcpy(dims, merged, sizeof dims);
        const vn_doubt_t d = vn_doubt(e, k);
        doubtful |= vn_doubt_any(&d);
    }
    const vn_dtype_t type = e->in[0].t->dtype;
    if (vn_dtype_is_int(type)) return ints(e, op, rank, dims);
    if (!vn_dtype_is_float(type) || vn_dtype_bits(type) < 16)
        return vn_eval_fail(e, VN_ERR_DTYPE, "inputs are %s; numbers are needed", vn_dtype_name(type));

    VN_TRY(vn_out_float(e, 0, type, rank, dims));
    if (e->refine) return refine_sum(e, op == N_MEAN, rank, dims);
    vn_ref_t *r = &e->out[0];
    const size_t n = (size_t)(r->count ? r->count : 1);
    const bool sum = op == N_SUM || op == N_MEAN, bound = e->want >= VN_WANT_BOUND;
    job_t j = {.op = op, .value = r->value, .var = r->var, .ulp = vn_spacing(e->contract->accumulator), .flags = {.e = e, .k = 0}};
    if (sum && type == VN_F64) VN_TRY(vn_out_lo(e, 0));
    if (sum || type == VN_F64) VN_TRY(vn_out_own(e, 0));
    double *scratch[4] = {0};
    bool enough = true;
    if (sum) {
        enough &= (j.low = scratch[0] = vn_alloc(n, sizeof(double))) != NULL;
        enough &= (j.size = scratch[1] = vn_alloc(n, sizeof(double))) != NULL;
        if (r->var) enough &= (j.squares = scratch[2] = vn_alloc(n, sizeof(double))) != NULL;
    } else if (bound) {
        enough &= (j.other = scratch[2] = vn_alloc(n, sizeof(double))) != NULL;
    }
    if (doubtful) enough &= (j.err = scratch[3] = vn_alloc(n, sizeof(double))) != NULL;
    vn_status_t s = enough ? accumulate(e, &j, rank, dims) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for partial sums");
    /* A sum of two is one rounding; so is a mean of one, and a choice rounds nothing. */
    const bool demand = !doubtful && (!sum || e->n_in == 1 || (op == N_SUM && e->n_in == 2 && vn_one_rounding(e, type)));
    if (s == VN_OK && sum) {
        wrap_up_t w = {.r = r, .j = &j, .n = e->n_in, .demand = demand, .is_f64 = type == VN_F64, .u = vn_u(e), .eta = vn_eta(e)};
        vn_parallel(r->count, VN_BCAST_GRAIN, sum_up, &w);
        r->terms = e->n_in;
    } else if (s == VN_OK) {
        if (j.err && r->bound) memcpy(r->bound, j.err, (size_t)r->count * sizeof(double));
        if (j.differs) s = reading(e, j.other, op == N_MAX ? "fmax: NaN operands are skipped" : "fmin: NaN operands are skipped");
        if (j.differs && s == VN_OK) s = ordered_readings(e, &j, rank, dims);
    }
    if (s == VN_OK && demand) vn_out_rounded(e, 0);
    if (s == VN_OK && (!sum || e->n_in == 1) && (vn_in_region(e) || doubtful)) vn_out_final(e, 0);
    for (int k = 0; k < 4; ++k) vn_free(scratch[k]);
    return s;
}

/* ---- Clip ---- */

typedef struct clip {
    double lo, hi, elo, ehi;
    bool has_lo, has_hi, swapped; /* swapped: min > max */
} clip_t;

static vn_status_t clip_bound(vn_eval_t *e, int k, const char *attr, bool *has, double *value, double *err) {
    *err = 0;
    if (e->version < 11) {
        *has = vn_node_attr(e->node, attr) != NULL;
        if (*has) *value = vn_node_float(e->node, attr, 0);
        return VN_OK;
    }
    *has = vn_has(e, k) && e->in[k].t;
    if (!*has) return VN_OK;
    if (e->in[k].t->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d (%s) must hold one value", k, attr);
    if (e->in[k].t->dtype != e->in[0].t->dtype)
        return vn_eval_fail(e, VN_ERR_DTYPE, "input %d (%s) has another type than input 0", k, attr);
    const double *v = vn_arg_f64(e, k);
    if (!v) return VN_ERR_NOMEM;
    *value = v[0];
    if (e->in[k].err) *err = e->in[k].err[0];
    return VN_OK;
}

static double clipped(const clip_t *c, double x) { /* Min(max, Max(x, min)), NaN kept */
    if (isnan(c->lo) || isnan(c->hi)) return NAN;
    if (x < c->lo) x = c->lo;
    return x > c->hi ? c->hi : x;
}

static vn_status_t clip_ints(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t lo = vn_int_min(x->dtype), hi = vn_int_max(x->dtype);
    for (int k = 1; k <= 2; ++k) {
        if (!vn_has(e, k) || !e->in[k].t) continue;
        if (e->in[k].t->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d must hold one value", k);
        *(k == 1 ? &lo : &hi) = vn_tensor_get_i64(e->in[k].t, 0);
    }
    VN_TRY(vn_out_exact(e, 0, x->dtype, x->rank, x->dims));
    int64_t *v = vn_ints_of(e, x);
    if (!v) return VN_ERR_NOMEM;
    const uint64_t flip = x->dtype == VN_U64 ? UINT64_C(1) << 63 : 0;
    for (int64_t i = 0; i < x->count; ++i) {
        if ((int64_t)((uint64_t)v[i] ^ flip) < (int64_t)((uint64_t)lo ^ flip)) v[i] = lo;
        if ((int64_t)((uint64_t)v[i] ^ flip) > (int64_t)((uint64_t)hi ^ flip)) v[i] = hi;
    }
    vn_ints_store(e->out[0].tensor, v);
    vn_free(v);
    return VN_OK;
}

/* Readings of the text: NaN, absent bounds (numeric limits clip infinities), and min > max before opset 13. */
static vn_status_t clip_readings(vn_eval_t *e, const double *x, const clip_t *c) {
    vn_ref_t *r = &e->out[0];
    bool any_nan = false, open_ends = false;
    for (int64_t i = 0; i < r->count; ++i) {
        any_nan |= isnan(x[i]);
        open_ends |= isinf(x[i]) && !(x[i] < 0 ? c->has_lo : c->has_hi);
    }
    const bool swapped = c->swapped && e->version < 13, nan_bound = (isnan(c->lo) || isnan(c->hi)) && r->count > 0;
    if (!any_nan && !open_ends && !swapped && !nan_bound) return VN_OK;
    double *v = vn_alloc((size_t)(r->count ? r->count : 1), sizeof *v);
    if (!v) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a reading");
    vn_status_t s = VN_OK;
    if (nan_bound) { /* Max and Min that skip NaN: the bound is as good as absent */
        for (int64_t i = 0; i < r->count; ++i) v[i] = fmin(fmax(x[i], c->lo), c->hi);
        s = reading(e, v, "a NaN bound does not bind");
    } else if (any_nan) {
        for (int64_t i = 0; i < r->count; ++i) v[i] = isnan(x[i]) ? c->lo : r->value[i];
        s = reading(e, v, "NaN becomes the lower bound");
        for (int64_t i = 0; i < r->count; ++i) v[i] = isnan(x[i]) ? c->hi : r->value[i];
        if (s == VN_OK) s = reading(e, v, "NaN becomes the upper bound");
    }
    if (s == VN_OK && open_ends) {
        for (int64_t i = 0; i < r->count; ++i) v[i] = isinf(x[i]) && !(x[i] < 0 ? c->has_lo : c->has_hi) ? x[i] : r->value[i];
        s = reading(e, v, "an absent bound does not clip infinities");
    }
    if (s == VN_OK && swapped) {
        for (int64_t i = 0; i < r->count; ++i) v[i] = fmax(c->lo, fmin(c->hi, x[i]));
        s = reading(e, v, "min above max: min wins");
    }
    vn_free(v);
    return s;
}

vn_status_t vn_eval_clip(vn_eval_t *e) {
    if (!vn_has(e, 0) || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or not a tensor");
    const vn_tensor_t *t = e->in[0].t;
    if (vn_dtype_is_int(t->dtype)) return clip_ints(e);
    const vn_format_t format = vn_format_of(t->dtype);
    if (format == VN_FMT_NONE || vn_dtype_bits(t->dtype) < 16)
        return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s; numbers are needed", vn_dtype_name(t->dtype));
    clip_t c = {.lo = -vn_format_info(format)->max, .hi = vn_format_info(format)->max};
    VN_TRY(clip_bound(e, 1, "min", &c.has_lo, &c.lo, &c.elo));
    VN_TRY(clip_bound(e, 2, "max", &c.has_hi, &c.hi, &c.ehi));
    c.swapped = c.lo > c.hi;
    const double *x = vn_arg_f64(e, 0);
    if (!x) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, t->dtype, t->rank, t->dims));
    vn_ref_t *r = &e->out[0];
    const vn_doubt_t d = vn_doubt(e, 0);
    const bool doubtful = vn_doubt_any(&d) || c.elo > 0 || c.ehi > 0;
    vn_flagger_t flags = {.e = e, .k = 0};
    for (int64_t i = 0; i < r->count; ++i) {
        const double y = clipped(&c, x[i]);
        r->value[i] = y;
        if (!r->bound) continue;
        if (y == 0 && x[i] == 0 && (c.lo == 0 || c.hi == 0)) vn_flag(&flags, i, VN_EL_ZERO_OK);
        if (!doubtful) continue;
        const double ex = vn_doubt_at(&d, i, x[i]);
        if (!(ex < INFINITY)) vn_flag(&flags, i, VN_EL_VOID);
        const double far = fmax(fabs(clipped(&c, x[i] + ex) - y), fabs(clipped(&c, x[i] - ex) - y));
        r->bound[i] = fmax(far, fmax(c.elo, c.ehi));
        if (r->var && d.var) r->var[i] = far > 0 ? d.var[i] : 0;
    }
    if (flags.failed) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
    if (e->want >= VN_WANT_BOUND) {
        if (t->dtype == VN_F64) VN_TRY(vn_out_own(e, 0));
        VN_TRY(clip_readings(e, x, &c));
    }
    if (!doubtful) vn_out_rounded(e, 0);
    if (doubtful || vn_in_region(e)) vn_out_final(e, 0);
    return VN_OK;
}

/* ---- IsNaN, IsInf ---- */

vn_status_t vn_eval_class(vn_eval_t *e) {
    const bool nan = vn_registry_find(e->node->domain, e->node->op, e->version)->param == 0;
    if (!vn_has(e, 0) || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or not a tensor");
    const vn_tensor_t *t = e->in[0].t;
    if (!vn_dtype_is_float(t->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s; a floating-point type is needed", vn_dtype_name(t->dtype));
    const bool negative = vn_node_int(e->node, "detect_negative", 1) != 0, positive = vn_node_int(e->node, "detect_positive", 1) != 0;
    const double *x = vn_arg_f64(e, 0);
    if (!x) return VN_ERR_NOMEM;
    VN_TRY(vn_out_exact(e, 0, VN_BOOL, t->rank, t->dims));
    uint8_t *out = e->out[0].tensor->data;
    for (int64_t i = 0; i < t->count; ++i) out[i] = nan ? isnan(x[i]) : (x[i] == INFINITY && positive) || (x[i] == -INFINITY && negative);
    return VN_OK;
}
