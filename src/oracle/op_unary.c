/* op_unary.c -- functions of one argument: value, bound, second tier, variance, uncertain argument. The functions are in unary_functions.c.
 *
 * Claim ELEM-1 (one rounding): Sqrt, Reciprocal, LeakyRelu, Shrink and the exact functions equal the exact value rounded once.
 * Claim ELEM-2 (functions): E = t ulp(y) + tau, t the budget, ulp of the working format, or of the result where function_ulp is declared;
 *   tau because a function's result may be flushed (not under ieee). Second tier: + c u scale, named.
 * Claim ELEM-3 (a few roundings): HardSigmoid, HardSwish, Softsign: the counts beside their `arith`.
 * Claim ELEM-4 (uncertain argument): x known to e adds max |f(z) - f(x)| over [x-e, x+e]: the ends and the break points inside, because f is
 *   monotone between them; sin and cos by their Lipschitz constant; variance ((f(x+s) - f(x-s)) / 2)^2, s^2 the variance of x.
 */
#include "oracle/elementwise.h"
#include "tensor/dense.h"

typedef struct job {
    const vn_fn_t *f;
    const double *p;
    vn_plane_t x;
    double *value, *lo, *bound, *wide, *var, *own;
    double *rest_own;      /* own plane of a function whose rest is rounded */
    vn_spacing_t ulp;      /* of the working format */
    vn_spacing_t promised; /* of the format that the budget speaks of */
    double t, c, tau, u, eta, attribute_u, sd;
    double far; /* trigonometric argument from which reduction may lose u |x| */
    bool long_double, demand, reciprocal;
    vn_flagger_t flags;
} job_t;

static double scale_of(const job_t *j, double x, double y) {
    switch (j->f->scale) {
    case VN_SCALE_ONE: return 1;
    case VN_SCALE_X: return fabs(x);
    case VN_SCALE_XY: return fabs(x * y);
    case VN_SCALE_TAN: return 1 + y * y;
    case VN_SCALE_ALPHA: return fabs(j->p[0]);
    case VN_SCALE_SELU: return fabs(j->p[0] * j->p[1]);
    }
    return INFINITY;
}

static double call(const job_t *j, double x) {
    double y;
    j->f->row(&x, &y, 1, j->p);
    return y;
}

/* Claim ELEM-4. Sets flags where the interval leaves the domain. */
static double spread(job_t *j, int64_t i, double x, double y, double e) {
    const vn_fn_t *f = j->f;
    if (e == 0) return 0;
    e = e * (1 + 0x1p-40) + 0x1p-52 * fabs(x);
    double lo = x - e, hi = x + e;
    if (lo < f->lo || hi > f->hi) {
        vn_flag(&j->flags, i, VN_EL_NAN_OK);
        lo = fmax(lo, f->lo);
        hi = fmin(hi, f->hi);
    }
    if (!(e < INFINITY) || !isfinite(y)) { /* the demanded NaN or Inf need not come, or anything may */
        vn_flag(&j->flags, i, VN_EL_VOID);
        return INFINITY;
    }
    if (f->lipschitz > 0) return fmin(f->lipschitz * e, 2);
    const double a = call(j, lo), b = call(j, hi);
    if (f->poles && (2 * e >= M_PI || b < a)) return INFINITY;
    double worst = fmax(fabs(a - y), fabs(b - y)), largest = fmax(fabs(a), fabs(b));
    if (f->breaks) {
        double at[VN_FN_BREAKS];
        const int n = f->breaks(j->p, at);
        for (int k = 0; k < n; ++k)
            for (int side = -1; side <= 1; ++side) {
                const double z = side ? nextafter(at[k], side * INFINITY) : at[k];
                if (z < lo || z > hi) continue;
                worst = fmax(worst, fabs(call(j, z) - y));
            }
    }
    return worst * (1 + 0x1p-40) + 0x1p-49 * (1 + f->own) * (f->kind == VN_FN_ELEMENTARY ? largest : 0);
}

static double slope_variance(const job_t *j, double x, double var) {
    const double s = sqrt(var), a = call(j, fmin(x + s, j->f->hi)), b = call(j, fmax(x - s, j->f->lo)), d = (a - b) / 2;
    return d * d;
}

static bool zero_is_free(const job_t *j, double x) {
    switch (j->f->zero) {
    case VN_ZERO_FIXED: return false;
    case VN_ZERO_AT_ZERO: return x == 0;
    case VN_ZERO_ELSEWHERE: return x != 0;
    case VN_ZERO_FREE: return true;
    }
    return false;
}

static void values(const job_t *j, const double *x, int64_t begin, int64_t n) {
    if (!j->long_double || !j->f->wide) {
        j->f->row(x, j->value + begin, n, j->p);
        if (j->lo && j->f->rest)
            for (int64_t i = 0; i < n; ++i) {
                const double r = j->f->rest(x[i], j->value[begin + i], j->p);
                j->lo[begin + i] = isfinite(r) && isfinite(j->value[begin + i]) ? r : 0;
                if (j->rest_own && isfinite(r) && r != 0)
                    j->rest_own[begin + i] = 0x1p-104 * fabs(j->value[begin + i]) + 0x1p-1074; /* r itself is rounded */
            }
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        const long double y = j->f->wide(x[i], j->p);
        const double hi = (double)y;
        j->value[begin + i] = hi;
        if (j->lo) j->lo[begin + i] = isfinite(hi) ? (double)(y - hi) : 0;
    }
}

VN_CLONES static void wide_constant(int64_t n, const double *restrict b, double add, double *restrict w) {
    for (int64_t i = 0; i < n; ++i) w[i] = b[i] + add;
}

VN_CLONES static void wide_linear(int64_t n, const double *restrict b, double a, const double *restrict x, double *restrict w) {
    for (int64_t i = 0; i < n; ++i) w[i] = b[i] + a * fabs(x[i]);
}

/* Second tier of the common scales as plain loops: w = bound + c u scale. False: the scale needs the general way. */
static bool wide_plain(const job_t *j, const double *x, int64_t begin, int64_t n) {
    const double *b = j->bound + begin;
    double *w = j->wide + begin;
    const double a = j->c * j->u, alpha = j->f->scale == VN_SCALE_ALPHA  ? fabs(j->p[0])
                                          : j->f->scale == VN_SCALE_SELU ? fabs(j->p[0] * j->p[1])
                                                                         : 1;
    if (j->far < INFINITY || j->attribute_u > 0) return false;
    switch (j->f->scale) {
    case VN_SCALE_ONE:
    case VN_SCALE_ALPHA:
    case VN_SCALE_SELU: wide_constant(n, b, a * alpha, w); return true;
    case VN_SCALE_X: wide_linear(n, b, a, x, w); return true;
    case VN_SCALE_XY:
    case VN_SCALE_TAN: break;
    }
    return false;
}

/* The common case goes by plain loops: exact argument, one rounding or a result within t ulp. */
static bool bounds_plain(const job_t *j, const double *x, int64_t begin, int64_t n) {
    const vn_fn_kind_t kind = j->f->kind;
    if (vn_doubt_any(&j->x.doubt) || kind == VN_FN_ARITHMETIC) return false;
    const double *y = j->value + begin;
    if (j->demand) memset(j->bound + begin, 0, (size_t)n * sizeof *j->bound); /* the frame adds the one rounding */
    else vn_spacing_row(j->promised, y, n, j->t, j->tau, j->bound + begin);
    if (j->wide && !wide_plain(j, x, begin, n)) return false;
    if (j->var && kind != VN_FN_EXACT) vn_spacing_square_row(j->ulp, y, n, j->sd * j->sd, j->var + begin);
    else if (j->var) memset(j->var + begin, 0, (size_t)n * sizeof *j->var);
    return true;
}

#define OWN_FLOOR 0x1p-1068 /* products of subnormals of f64 */

/* The own error grows with the argument; a row that carries its argument in two parts does not suffer from it. */
static bool amplified(const job_t *j) { return j->f->amplified && (j->long_double || !j->f->steady); }

static void own_errors(const job_t *j, const double *x, int64_t begin, int64_t n) {
    const double *restrict y = j->value + begin;
    double *restrict own = j->own + begin;
    const double unit = j->long_double && LDBL_MANT_DIG >= 64 ? 0x1p-63 : 0x1p-52, k = j->f->own * unit;
    for (int64_t i = 0; i < n; ++i) own[i] = k * fabs(y[i]) + OWN_FLOOR;
    if (!amplified(j)) return;
    for (int64_t i = 0; i < n; ++i) own[i] += j->f->amplified(x[i], j->p) * unit * fabs(y[i]);
}

static double local_error(const job_t *j, double x, double y, double spread_by) {
    const double size = fabs(y) + (isfinite(spread_by) ? spread_by : 0);
    switch (j->f->kind) {
    case VN_FN_EXACT: return 0;
    case VN_FN_ROUNDED: return j->demand ? 0 : j->t * vn_spacing_at(j->promised, size);
    case VN_FN_ELEMENTARY: return j->t * vn_spacing_at(j->promised, size) + j->tau;
    case VN_FN_ARITHMETIC: return isfinite(y) ? j->f->arith(x, y, j->p, j->u, j->eta, j->reciprocal) + j->u * 8 * (size - fabs(y)) : 0;
    }
    return INFINITY;
}

static double second_tier(const job_t *j, double x, double y) {
    double w = 0;
    if (!isfinite(y)) return 0;
    if (j->c > 0) w += j->c * j->u * scale_of(j, x, y);
    if (fabs(x) > j->far) w += j->u * fabs(x) * (j->f->poles ? 1 + y * y : 1);
    if (j->attribute_u > 0) w += j->attribute_u * j->f->attribute(x, y, j->p);
    return w;
}

static void bounds_full(job_t *j, const double *xs, int64_t begin, int64_t n) {
    const vn_fn_t *f = j->f;
    const bool doubtful = vn_doubt_any(&j->x.doubt);
    for (int64_t i = begin; i < begin + n; ++i) {
        const double x = xs[i - begin], y = j->value[i];
        const double s = doubtful ? spread(j, i, x, y, vn_doubt_at(&j->x.doubt, i, x)) : 0;
        double e = local_error(j, x, y, s) + s;
        if (isnan(e)) { /* the formula itself, carried out, gives inf/inf or 0 inf; the value is its limit */
            vn_flag(&j->flags, i, VN_EL_NAN_OK);
            e = 0;
        }
        j->bound[i] = e;
        if (j->wide) j->wide[i] = e + second_tier(j, x, y);
        if (!j->var) continue;
        const double ulp = vn_spacing_at(j->ulp, y);
        double v = f->kind == VN_FN_EXACT ? 0 : j->sd * j->sd * ulp * ulp;
        if (f->kind == VN_FN_ARITHMETIC) v = 0.18 * (e - s) * (e - s);
        if (j->x.doubt.var && isfinite(y)) v += slope_variance(j, x, j->x.doubt.var[i]);
        j->var[i] = v;
    }
}

/* At an infinity the limit is exact and no second tier applies; x f(x) carried out there is infinity times 0 for gelu, mish and swish. */
static void at_infinity(job_t *j, const double *x, int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) {
        if (!isinf(x[i - begin])) continue;
        if (j->wide) j->wide[i] = j->bound[i];
        if (j->f->scale == VN_SCALE_X && j->value[i] == 0) vn_flag(&j->flags, i, VN_EL_NAN_OK);
    }
}

VN_CLONES static bool any_infinite(int64_t n, const double *x) {
    int64_t any = 0;
    for (int64_t i = 0; i < n; ++i) any |= fabs(x[i]) > DBL_MAX ? 1 : 0;
    return any != 0;
}

VN_CLONES static bool any_zero(int64_t n, const double *x) {
    int64_t any = 0;
    for (int64_t i = 0; i < n; ++i) any |= x[i] == 0 ? 1 : 0;
    return any != 0;
}

static void run_range(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    double decoded[VN_BCAST_ROW];
    for (int64_t at = begin; at < end; at += VN_BCAST_ROW) {
        const int64_t n = end - at < VN_BCAST_ROW ? end - at : VN_BCAST_ROW;
        const double *x = j->x.value ? j->x.value + at : decoded;
        if (!j->x.value) vn_tensor_take_f64(j->x.source, at, n, decoded);
        values(j, x, at, n);
        if (j->own) own_errors(j, x, at, n);
        if (j->bound) {
            if (!bounds_plain(j, x, at, n)) bounds_full(j, x, at, n);
            if ((j->wide || j->f->scale == VN_SCALE_X) && any_infinite(n, x)) at_infinity(j, x, at, n);
            if (j->f->zero != VN_ZERO_FIXED && any_zero(n, j->value + at))
                for (int64_t i = at; i < at + n; ++i)
                    if (j->value[i] == 0 && zero_is_free(j, x[i - at])) vn_flag(&j->flags, i, VN_EL_ZERO_OK);
        }
        vn_out_done(j->flags.e, j->flags.k, at, n);
    }
}

/* In 16 bits attributes may be cast to the type first, as the function bodies of the standard do (claim ELEM-5). */
static double attribute_roundoff(const vn_eval_t *e, const vn_fn_t *f, const double *p, vn_dtype_t t) {
    if (!f->attribute || (t != VN_F16 && t != VN_BF16) || e->contract->tier == VN_TIER_IEEE) return 0;
    const vn_format_t format = vn_format_of(t);
    for (int k = 0; k < VN_FN_PARAMS; ++k)
        if (vn_round_to(format, p[k], VN_RNE, false) != p[k]) return vn_format_info(format)->u;
    return 0;
}

static bool far_argument(const job_t *j, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        if (fabs(j->x.value[i]) > j->far && isfinite(j->x.value[i])) return true;
    return false;
}

vn_status_t vn_apply(vn_eval_t *e, int k, const vn_fn_t *f, const double *p, vn_plane_t x, vn_dtype_t t, int rank, const int64_t *dims) {
    VN_TRY(vn_out_float_raw(e, k, t, rank, dims));
    if (e->refine) return vn_refine_function(e, f, p, x);
    vn_ref_t *r = &e->out[k];
    const vn_format_t declared = e->contract->result != VN_FMT_NONE ? e->contract->result : vn_format_of(t);
    const bool promise = e->contract->has_function_ulp, bare_ieee = e->contract->tier == VN_TIER_IEEE && !promise;
    const bool trigonometric = f == &vn_functions[VN_F_SIN] || f == &vn_functions[VN_F_COS] || f == &vn_functions[VN_F_TAN];
    job_t j = {.f = f, .p = p, .x = x, .u = vn_u(e), .eta = vn_eta(e), .flags = {.e = e, .k = k}, .far = INFINITY};
    j.long_double = t == VN_F64;
    j.reciprocal = e->contract->reciprocal_quotient;
    j.ulp = vn_spacing(e->contract->accumulator);
    j.promised = vn_spacing(promise && f->kind == VN_FN_ELEMENTARY ? declared : e->contract->accumulator);
    j.t = *f->budget ? vn_budget(e, f->budget) : 0.5;
    j.c = *f->budget ? vn_body_budget(e, f->budget) : 0;
    j.tau = f->kind == VN_FN_ELEMENTARY && !bare_ieee ? vn_tau(e) : 0;
    j.sd = fmax(0.2886751345948129, f->kind == VN_FN_ELEMENTARY ? j.t / 4 : 0); /* claim ELEM-6: rms of a kernel of largest error t */
    /* A single rounding that no doubt touches is demanded bit by bit, unless the tier lets even basic operations be approximate. */
    const bool single = f->kind == VN_FN_EXACT || (f->kind == VN_FN_ROUNDED && j.t <= 0.5 && vn_one_rounding(e, t));
    j.demand = single && !vn_doubt_any(&x.doubt);
    if (e->want >= VN_WANT_BOUND && trigonometric && e->contract->tier != VN_TIER_IEEE && !promise) {
        j.far = t == VN_F64 ? M_PI_4 : 1e4; /* f64 reductions of shipped back ends are not longer than f64 itself */
        if (!far_argument(&j, r->count)) j.far = INFINITY;
    }
    j.attribute_u = promise ? 0 : attribute_roundoff(e, f, p, t);
    if (e->want >= VN_WANT_BOUND) {
        const char *note = j.far < INFINITY ? "argument-reduction"
                           : f->note        ? f->note
                           : j.c > 0        ? "native-approximation"
                                            : "attribute-in-type";
        if (j.c > 0 || j.far < INFINITY || j.attribute_u > 0) VN_TRY(vn_out_wide_raw(e, k, note));
    }
    r->own_rel = f->own * 0x1p-52; /* of the plain row; 0: exact, or once rounded */
    r->own_abs = f->own > 0 ? OWN_FLOOR : 0;
    if (f->own > 0 && amplified(&j)) VN_TRY(vn_out_own_raw(e, k));
    if (t == VN_F64) {
        if (f->wide || f->rest) VN_TRY(vn_out_lo(e, k));
        VN_TRY(vn_out_own(e, k)); /* stays 0 where the function is exact */
    }
    j.value = r->value;
    j.lo = r->lo;
    j.bound = r->bound;
    j.wide = r->wide;
    j.var = r->var;
    j.own = f->own > 0 ? r->own : NULL; /* NULL for narrower types too where r->own_rel says it */
    j.rest_own = f == &vn_functions[VN_F_SQRT] || f == &vn_functions[VN_F_RECIPROCAL] ? r->own : NULL;
    if (f->scale == VN_SCALE_X) r->nan_reading = "infinity-times-zero"; /* see at_infinity */
    if (j.demand) vn_out_rounded(e, k);
    if (f->kind == VN_FN_EXACT && (vn_in_region(e) || !j.demand)) vn_out_final(e, k);
    VN_TRY(vn_out_begin(e, k));
    vn_parallel(r->count, VN_BCAST_GRAIN, run_range, &j);
    return j.flags.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags") : VN_OK;
}

/* ---- rows ---- */

static vn_status_t reading_for_nan(vn_eval_t *e, const vn_tensor_t *x) {
    vn_ref_t *r = &e->out[0];
    bool any = false;
    for (int64_t i = 0; i < r->count && !any; ++i) any = isnan(r->value[i]);
    if (!any || e->want < VN_WANT_BOUND) return VN_OK;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(x->dtype, x->rank, x->dims, &t, e->err));
    for (int64_t i = 0; i < r->count; ++i) vn_tensor_set_f64(t, i, isnan(r->value[i]) ? 0 : r->value[i]);
    return vn_out_reading(e, 0, "NaN gives 0 (a comparison with NaN is false)", t);
}

/* The text of these compares; "otherwise 0" includes NaN, and a kernel that lets NaN through follows another reading. */
static vn_status_t reading_of_nan(vn_eval_t *e, const vn_tensor_t *x) {
    vn_ref_t *r = &e->out[0];
    const double *v = vn_arg_f64(e, 0);
    bool any = false;
    if (!v) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < r->count && !any; ++i) any = isnan(v[i]);
    if (!any || e->want < VN_WANT_BOUND) return VN_OK;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(x->dtype, x->rank, x->dims, &t, e->err));
    for (int64_t i = 0; i < r->count; ++i) vn_tensor_set_f64(t, i, isnan(v[i]) ? NAN : r->value[i]);
    return vn_out_reading(e, 0, "NaN passes through", t);
}

static vn_status_t float_operand(vn_eval_t *e) {
    if (!vn_has(e, 0) || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or not a tensor");
    const vn_dtype_t t = e->in[0].t->dtype;
    if (vn_dtype_is_float(t) && vn_dtype_bits(t) >= 16) return VN_OK;
    return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s; a floating-point type of at least 16 bits is needed", vn_dtype_name(t));
}

static vn_status_t apply_to_operand(vn_eval_t *e, vn_fn_id_t id, const double *p) {
    const vn_tensor_t *x = e->in[0].t;
    vn_plane_t plane = {.source = x, .doubt = vn_doubt(e, 0)};
    /* Elements of narrower types are decoded where they are used; trigonometric functions look at all arguments first. */
    const bool all = id == VN_F_SIN || id == VN_F_COS || id == VN_F_TAN || e->in[0].value || x->dtype == VN_F64;
    if (all && !(plane.value = vn_arg_f64(e, 0))) return VN_ERR_NOMEM;
    return vn_apply(e, 0, &vn_functions[id], p, plane, x->dtype, x->rank, x->dims);
}

static vn_fn_id_t row_function(const vn_eval_t *e) { return (vn_fn_id_t)vn_registry_find(e->node->domain, e->node->op, e->version)->param; }

vn_status_t vn_eval_unary(vn_eval_t *e) {
    static const double none[VN_FN_PARAMS];
    const vn_fn_id_t id = row_function(e);
    if (vn_has(e, 0) && e->in[0].t && vn_dtype_is_int(e->in[0].t->dtype)) return vn_eval_unary_int(e, id);
    VN_TRY(float_operand(e));
    VN_TRY(apply_to_operand(e, id, none));
    return id == VN_F_RELU || id == VN_F_SIGN ? reading_for_nan(e, e->in[0].t) : VN_OK;
}

/* Attributes of the activations, in the order of their parameters. */
static const struct {
    vn_fn_id_t id;
    struct {
        const char *name;
        float fallback;
    } attr[2];
} activations[] = {
    {VN_F_LEAKY, {{"alpha", 0.01f}}},
    {VN_F_ELU, {{"alpha", 1.0f}}},
    {VN_F_SELU, {{"alpha", 1.67326319217681884765625f}, {"gamma", 1.05070102214813232421875f}}},
    {VN_F_CELU, {{"alpha", 1.0f}}},
    {VN_F_THRESHOLDED, {{"alpha", 1.0f}}},
    {VN_F_SHRINK, {{"lambd", 0.5f}, {"bias", 0.0f}}},
    {VN_F_HARD_SIGMOID, {{"alpha", 0.2f}, {"beta", 0.5f}}},
    {VN_F_SWISH, {{"alpha", 1.0f}}},
};

vn_status_t vn_eval_activation(vn_eval_t *e) {
    const vn_fn_id_t id = row_function(e);
    double p[VN_FN_PARAMS] = {0};
    for (size_t i = 0; i < sizeof activations / sizeof *activations; ++i)
        for (int a = 0; a < 2 && activations[i].id == id; ++a)
            if (activations[i].attr[a].name) p[a] = vn_node_float(e->node, activations[i].attr[a].name, activations[i].attr[a].fallback);
    if (id == VN_F_SHRINK && vn_has(e, 0) && e->in[0].t && vn_dtype_is_int(e->in[0].t->dtype)) return vn_eval_shrink_int(e, p[0], p[1]);
    VN_TRY(float_operand(e));
    VN_TRY(apply_to_operand(e, id, p));
    return id == VN_F_THRESHOLDED || id == VN_F_SHRINK ? reading_of_nan(e, e->in[0].t) : VN_OK;
}

vn_status_t vn_eval_gelu(vn_eval_t *e) {
    static const double none[VN_FN_PARAMS];
    const char *form = vn_node_string(e->node, "approximate", "none");
    const bool tanh_form = strcmp(form, "tanh") == 0;
    if (!tanh_form && strcmp(form, "none") != 0)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "approximate=\"%s\"; known are none and tanh", form);
    VN_TRY(float_operand(e));
    return apply_to_operand(e, tanh_form ? VN_F_GELU_TANH : VN_F_GELU, none);
}

/* ---- com.microsoft: the same functions behind a bias, which is a sum rounded in the working format ---- */

typedef struct biased {
    const double *x, *b;
    vn_doubt_t dx, db;
    double *value, *err, *var;
    double *lo; /* only where single elements are asked for in more digits */
    vn_spacing_t ulp;
} biased_t;

static void add_piece(void *ctx, const vn_piece_t *p) {
    biased_t *s = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t o = p->out + i, a = p->at[0] + i * p->step[0], b = p->at[1] + i * p->step[1];
        const double z = s->x[a] + s->b[b], ulp = vn_spacing_at(s->ulp, z);
        s->value[o] = z;
        if (s->lo) {
            double hi = s->x[a], lo = 0;
            vn_two_sum_add(&hi, &lo, s->b[b]);
            s->lo[o] = lo;
        }
        s->err[o] = ulp / 2 + vn_doubt_at(&s->dx, a, s->x[a]) + vn_doubt_at(&s->db, b, s->b[b]);
        s->var[o] = ulp * ulp / 12 + (s->dx.var ? s->dx.var[a] : 0) + (s->db.var ? s->db.var[b] : 0);
    }
}

static vn_status_t apply_biased(vn_eval_t *e, vn_fn_id_t id, const double *p) {
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, 2, (const int[]){0, 1}, &plan));
    const double *x = vn_arg_f64(e, 0), *b = vn_arg_f64(e, 1);
    if (!x || !b) return VN_ERR_NOMEM;
    const size_t n = (size_t)(plan.count ? plan.count : 1);
    biased_t s = {.x = x, .b = b, .dx = vn_doubt(e, 0), .db = vn_doubt(e, 1), .ulp = vn_spacing(e->contract->accumulator)};
    s.value = vn_alloc(n, sizeof(double));
    s.err = vn_alloc(n, sizeof(double));
    s.var = vn_alloc(n, sizeof(double));
    s.lo = e->refine ? vn_alloc(n, sizeof(double)) : NULL;
    vn_status_t status = VN_OK;
    if (!s.value || !s.err || !s.var || (e->refine && !s.lo)) {
        status = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for the biased operand");
    } else {
        vn_bcast_run(&plan, add_piece, &s);
        const vn_plane_t plane = {.value = s.value, .lo = s.lo, .doubt = {.err = s.err, .var = s.var}};
        status = vn_apply(e, 0, &vn_functions[id], p, plane, e->in[0].t->dtype, plan.out_rank, plan.out_dims);
    }
    vn_free(s.value);
    vn_free(s.err);
    vn_free(s.var);
    vn_free(s.lo);
    return status;
}

vn_status_t vn_eval_ms_gelu(vn_eval_t *e) {
    double p[VN_FN_PARAMS] = {0};
    const vn_fn_id_t id = row_function(e);
    VN_TRY(float_operand(e));
    if (id == VN_F_SWISH) p[0] = vn_node_float(e->node, "alpha", 1.702f);
    return vn_has(e, 1) ? apply_biased(e, id, p) : apply_to_operand(e, id, p);
}
