/* op_quantise.c -- QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: per tensor, per axis, in blocks; integer and small float codes.
 *
 * Claim QUANT-1: the code is round(q) + z, saturated, q = x/s rounded to the precision of the division (the scale's type, or `precision`), ties
 *   to even. Where the contract leaves the quotient open (x * (1/s), division in the working format), the code of any quotient within
 *   2u |x/s| is as good: the second code stands in `either`. A power of two as scale leaves nothing open.
 * Claim QUANT-2: dequantisation (q - z) s is one rounding where q - z is exact in the working format; s q - (s z) with a rounded product
 *   s z is a second tier, u (|s q| + |s z| + |y|).
 * Claim QUANT-3: dynamic quantisation: scale and zero point as the text computes them in f32; a scale off by its own rounding (3u) widens the
 *   window of the codes; another admissible zero point is a reading of the codes.
 */
#include "oracle/elementwise.h"
#include "oracle/requant.h"

/* x seen as outer x axis x inner; which scale belongs to an element. */
typedef struct granularity {
    int64_t outer, axis, inner;
    int64_t scales, block; /* scales along the axis; block elements share one */
    bool per_element;      /* blocked: the scale also depends on outer and inner */
    bool per_tensor;
} granularity_t;

static vn_status_t read_granularity(vn_eval_t *e, granularity_t *g) {
    const vn_tensor_t *x = e->in[0].t, *s = e->in[1].t;
    const int64_t block = vn_node_int(e->node, "block_size", 0);
    *g = (granularity_t){.outer = 1, .axis = 1, .inner = 1, .scales = 1, .block = 1};
    if (block == 0 && (s->rank == 0 || (s->rank == 1 && s->count == 1))) {
        g->inner = x->count;
        g->per_tensor = true;
        return VN_OK;
    }
    int axis;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 1), x->rank, &axis));
    if (block == 0 && s->rank == 1 && x->rank == 1) axis = 0;
    for (int d = 0; d < x->rank; ++d) *(d < axis ? &g->outer : d == axis ? &g->axis : &g->inner) *= x->dims[d];
    if (block < 0) return vn_eval_fail(e, VN_ERR_RANGE, "block_size %lld", (long long)block);
    if (block == 0) {
        if (s->rank != 1 || s->count != g->axis)
            return vn_eval_fail(e, VN_ERR_SHAPE, "the scale has %lld entries in rank %d, axis %d has %lld", (long long)s->count, s->rank,
                                axis, (long long)g->axis);
        g->scales = g->axis;
        return VN_OK;
    }
    bool fits = s->rank == x->rank;
    for (int d = 0; d < x->rank && fits; ++d) fits = s->dims[d] == (d == axis ? (x->dims[d] + block - 1) / block : x->dims[d]);
    if (!fits) return vn_eval_fail(e, VN_ERR_SHAPE, "the scale's shape does not fit blocks of %lld along axis %d", (long long)block, axis);
    g->scales = s->dims[axis];
    g->block = block;
    g->per_element = true;
    return VN_OK;
}

/* Scale of the first element of line (o, a), and whether it advances along the inner axes. */
static int64_t scale_at(const granularity_t *g, int64_t line, int64_t *step) {
    *step = g->per_element;
    const int64_t o = line / g->axis, a = line % g->axis;
    if (g->per_element) return (o * g->scales + a / g->block) * g->inner;
    return g->scales == 1 ? 0 : a;
}

static vn_status_t check_scale(vn_eval_t *e) {
    for (int k = 0; k < 2; ++k)
        if (!vn_has(e, k) || !e->in[k].t) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing or not a tensor", k);
    if (!vn_has(e, 2)) return VN_OK;
    const vn_tensor_t *s = e->in[1].t, *z = e->in[2].t;
    if (!z) return vn_eval_fail(e, VN_ERR_USAGE, "input 2 is not a tensor");
    if (z->count != s->count)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the zero point has %lld entries, the scale %lld", (long long)z->count, (long long)s->count);
    return VN_OK;
}

static bool power_of_two(double s) {
    int k;
    return frexp(fabs(s), &k) == 0.5;
}

/* ---- QuantizeLinear ---- */

typedef struct quantise {
    granularity_t g;
    const double *x, *s, *z, *err;
    vn_dtype_t to;
    vn_format_t division, working, code; /* code: float codes */
    double lo, hi;
    double window; /* relative, in the working format; 0 = the contract leaves nothing open */
    bool saturate, inf_is_nan;
    double *first, *second;
    int differs; /* atomic */
    vn_flagger_t flags;
} quantise_t;

static double rounded_quotient(vn_format_t f, double x, double s) {
    if (f == VN_FMT_F32 || f == VN_FMT_F64) return vn_round_to(f, x / s, VN_RNE, false);
    return vn_round_to(f, vn_round_to(f, x, VN_RNE, false) / vn_round_to(f, s, VN_RNE, false), VN_RNE, false);
}

static double code_of(const quantise_t *j, double q, double z) {
    if (j->code == VN_FMT_NONE) return fmin(fmax(rint(q) + z, j->lo), j->hi);
    const double v = q + z;
    return isinf(v) && j->inf_is_nan ? NAN : vn_round_to(j->code, v, VN_RNE, j->saturate);
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void quantise_one(quantise_t *j, int64_t i, double s, double z) {
    const double x = j->x[i], q = rounded_quotient(j->division, x, s), exact = x / s;
    const double first = code_of(j, q, z);
    double second = first;
    if (j->code == VN_FMT_NONE && isnan(q)) vn_flag(&j->flags, i, VN_EL_VOID); /* no code stands for NaN */
    /* Every quotient that is allowed besides the text's own. */
    const double doubt = j->err ? j->err[i] / fabs(s) : 0;
    const bool settled = j->division == j->working && power_of_two(s);
    const double w = doubt + (settled ? 0 : j->window * fabs(exact));
    if (isfinite(exact) && (w > 0 || j->division != j->working)) { /* an infinite quotient is one however it is rounded */
        /* Quotients are members of the working format within the window; what an uncertain operand may give is rounded to one. */
        const bool inward = w > 0 && doubt == 0;
        const double down = code_of(j, vn_round_to(j->working, exact - w, inward ? VN_RU : VN_RNE, false), z),
                     up = code_of(j, vn_round_to(j->working, exact + w, inward ? VN_RD : VN_RNE, false), z);
        second = !same(down, first) ? down : up;
        if (!same(down, first) && !same(up, first) && !same(down, up)) vn_flag(&j->flags, i, VN_EL_VOID); /* more than two codes */
    }
    j->first[i] = isnan(first) && j->code == VN_FMT_NONE ? z : first;
    j->second[i] = isnan(second) && j->code == VN_FMT_NONE ? z : second;
    if (!same(first, second)) __atomic_store_n(&j->differs, 1, __ATOMIC_RELAXED);
}

static void quantise_lines(void *ctx, int64_t begin, int64_t end) {
    quantise_t *j = ctx;
    for (int64_t line = begin; line < end; ++line) {
        int64_t step;
        const int64_t at = scale_at(&j->g, line, &step);
        for (int64_t i = 0; i < j->g.inner; ++i) {
            const int64_t k = at + i * step;
            quantise_one(j, line * j->g.inner + i, j->s[k], j->z ? j->z[k] : 0);
        }
    }
}

static void over_lines(const granularity_t *g, vn_range_fn fn, void *ctx) {
    vn_parallel(g->outer * g->axis, g->inner > 0 ? 1 + VN_BCAST_GRAIN / g->inner : 1, fn, ctx);
}

/* One line is one job; a tensor with one scale is cut into lines of equal length so that threads can share it. */
static void cut(granularity_t *g) {
    if (!g->per_tensor) return;
    int64_t parts = 1;
    while (g->inner / parts > VN_BCAST_GRAIN && g->inner % (parts * 2) == 0) parts *= 2;
    g->outer = parts;
    g->inner /= parts;
}

static void store_codes(vn_tensor_t *t, const double *v, vn_format_t code) {
    for (int64_t i = 0; i < t->count; ++i)
        if (code == VN_FMT_NONE) vn_tensor_set_i64(t, i, (int64_t)v[i]);
        else vn_tensor_set_f64(t, i, v[i]);
}

static vn_status_t output_type(vn_eval_t *e, vn_dtype_t *t) {
    const int64_t named = vn_node_int(e->node, "output_dtype", 0);
    *t = vn_has(e, 2) ? e->in[2].t->dtype : named ? (vn_dtype_t)named : VN_U8;
    if (named < 0 || named >= VN_DTYPE_COUNT)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "output_dtype=%lld is no element type known here", (long long)named);
    if (vn_has(e, 2) && named && (vn_dtype_t)named != *t)
        return vn_eval_fail(e, VN_ERR_DTYPE, "output_dtype is %s, the zero point %s", vn_dtype_name((vn_dtype_t)named), vn_dtype_name(*t));
    const bool small = vn_dtype_bits(*t) > 0 && vn_dtype_bits(*t) <= 16;
    if ((!vn_dtype_is_int(*t) && !(vn_dtype_is_float(*t) && vn_dtype_bits(*t) <= 8)) || !small || *t == VN_F8E8M0)
        return vn_eval_fail(e, VN_ERR_DTYPE, "%s is no type of quantised values", vn_dtype_name(*t));
    return VN_OK;
}

/* Precision of the division: `precision`, else the scale's type if it is a float of at least 16 bits, else f32. */
static vn_format_t division_format(const vn_eval_t *e) {
    const vn_dtype_t named = (vn_dtype_t)vn_node_int(e->node, "precision", 0), t = named ? named : e->in[1].t->dtype;
    return vn_dtype_is_float(t) && vn_dtype_bits(t) >= 16 ? vn_format_of(t) : VN_FMT_F32;
}

static vn_status_t finish_codes(vn_eval_t *e, quantise_t *j, int rank, const int64_t *dims, int k) {
    const bool is_float = j->code != VN_FMT_NONE;
    if (is_float) {
        uint8_t *flags = e->out[k].flags; /* made before the planes */
        e->out[k].flags = NULL;
        VN_TRY(vn_out_float(e, k, j->to, rank, dims));
        e->out[k].flags = flags;
        memcpy(e->out[k].value, j->first, (size_t)e->out[k].count * sizeof(double));
        vn_out_rounded(e, k);
        vn_out_final(e, k);
    } else {
        store_codes(e->out[k].tensor, j->first, j->code);
    }
    if (!j->differs || e->want < VN_WANT_BOUND) return VN_OK;
    VN_TRY(vn_out_either(e, k));
    store_codes(e->out[k].either, j->second, j->code);
    return VN_OK;
}

static vn_status_t eval_quantise(vn_eval_t *e) {
    VN_TRY(check_scale(e));
    const vn_tensor_t *x = e->in[0].t;
    quantise_t j = {.flags = {.e = e, .k = 0}, .err = e->in[0].err, .working = e->contract->accumulator};
    VN_TRY(output_type(e, &j.to));
    VN_TRY(read_granularity(e, &j.g));
    j.x = vn_arg_f64(e, 0);
    j.s = vn_arg_f64(e, 1);
    if (vn_has(e, 2) && !(j.z = vn_arg_f64(e, 2))) return VN_ERR_NOMEM;
    if (!j.x || !j.s) return VN_ERR_NOMEM;
    const vn_format_t code = vn_format_of(j.to);
    j.code = code;
    if (code == VN_FMT_NONE) vn_code_range(j.to, &j.lo, &j.hi);
    j.division = division_format(e);
    j.saturate = vn_node_int(e->node, "saturate", 1) != 0 || j.to == VN_F4E2M1;
    j.inf_is_nan = (j.to == VN_F8E4M3FNUZ || j.to == VN_F8E5M2FNUZ) && (e->version < 24 || !j.saturate);
    j.window = e->contract->tier == VN_TIER_IEEE ? 0 : 2 * vn_u(e);
    const size_t n = (size_t)(x->count ? x->count : 1);
    /* Flags may be set while codes are made: the output must have its shape first. */
    VN_TRY(vn_out_exact(e, 0, j.to, x->rank, x->dims));
    j.first = vn_alloc(n, sizeof(double));
    j.second = vn_alloc(n, sizeof(double));
    vn_status_t s = j.first && j.second ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for codes");
    if (s == VN_OK) {
        cut(&j.g);
        over_lines(&j.g, quantise_lines, &j);
        s = j.flags.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags") : finish_codes(e, &j, x->rank, x->dims, 0);
    }
    vn_free(j.first);
    vn_free(j.second);
    return s;
}

/* ---- DequantizeLinear ---- */

typedef struct dequantise {
    granularity_t g;
    const double *q, *s, *z, *err; /* err of the scale */
    double *value, *lo, *bound, *wide, *var;
    double u, eta, exact_limit, scale_loss; /* scale_loss: relative, where the scale is rounded to the output type first */
    bool demand;
    vn_spacing_t ulp;
} dequantise_t;

static void dequantise_lines(void *ctx, int64_t begin, int64_t end) {
    dequantise_t *j = ctx;
    for (int64_t line = begin; line < end; ++line) {
        int64_t step;
        const int64_t at = scale_at(&j->g, line, &step);
        for (int64_t n = 0; n < j->g.inner; ++n) {
            const int64_t i = line * j->g.inner + n, k = at + n * step;
            const double s = j->s[k], z = j->z ? j->z[k] : 0, d = j->q[i] - z, y = d * s;
            j->value[i] = y;
            if (j->lo) j->lo[i] = isfinite(y) ? fma(d, s, -y) : 0;
            if (!j->bound) continue;
            const double size = fabs(y), half = vn_spacing_at(j->ulp, y * (1 + 4 * j->u)) / 2;
            double e = j->demand ? 0 : half;
            if (fabs(d) > j->exact_limit) e += j->u * (1 + j->u) * size; /* the difference is rounded before the product */
            e += j->scale_loss * (1 + j->u) * size;
            if (j->err) e += fabs(d) * j->err[k];
            j->bound[i] = isfinite(y) ? e : 0;
            if (j->wide) j->wide[i] = isfinite(y) ? e + j->u * (1 + 2 * j->u) * (fabs(s * j->q[i]) + fabs(s * z) + size) + j->eta : 0;
            if (j->var) j->var[i] = isfinite(y) ? half * half / 3 : 0;
        }
    }
}

static bool any_above(const double *q, int64_t n, double limit) {
    for (int64_t i = 0; i < n; ++i)
        if (fabs(q[i]) > limit) return true;
    return false;
}

static bool any_not_zero(const double *z, int64_t n) { return z && any_above(z, n, 0); }

static vn_status_t dequantised_type(vn_eval_t *e, vn_dtype_t *t) {
    const int64_t named = vn_node_int(e->node, "output_dtype", 0);
    if (named < 0 || named >= VN_DTYPE_COUNT)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "output_dtype=%lld is no element type known here", (long long)named);
    *t = named ? (vn_dtype_t)named : e->in[1].t->dtype;
    if (vn_dtype_is_float(*t) && vn_dtype_bits(*t) >= 16) return VN_OK;
    return vn_eval_fail(e, VN_ERR_DTYPE, "the result would be %s; set output_dtype to a floating-point type", vn_dtype_name(*t));
}

static vn_status_t eval_dequantise(vn_eval_t *e) {
    VN_TRY(check_scale(e));
    const vn_tensor_t *x = e->in[0].t;
    vn_dtype_t t;
    VN_TRY(dequantised_type(e, &t));
    dequantise_t j = {.err = e->in[1].err, .u = vn_u(e), .eta = vn_eta(e), .ulp = vn_spacing(e->contract->accumulator)};
    VN_TRY(read_granularity(e, &j.g));
    j.q = vn_arg_f64(e, 0);
    j.s = vn_arg_f64(e, 1);
    if (vn_has(e, 2) && !(j.z = vn_arg_f64(e, 2))) return VN_ERR_NOMEM;
    if (!j.q || !j.s) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, t, x->rank, x->dims));
    const vn_format_t out = vn_format_of(t);
    /* Codes that the working format holds exactly leave one rounding. The multiplication is in the output's precision. */
    j.exact_limit = 1 / vn_u(e);
    const double type_limit = 1 / vn_format_info(out)->u;
    if (type_limit < j.exact_limit) j.exact_limit = type_limit;
    const vn_dtype_t scale_type = e->in[1].t->dtype;
    if (vn_dtype_bits(scale_type) > vn_dtype_bits(t) || (scale_type != t && vn_dtype_bits(scale_type) == 16))
        j.scale_loss = vn_format_info(out)->u;
    const bool large = any_above(j.q, x->count, j.exact_limit / 2) || (j.z && any_above(j.z, e->in[2].t->count, j.exact_limit / 2));
    j.demand = !j.err && !large && j.scale_loss == 0;
    if (large && vn_format_info(out)->p < 24) j.u = fmax(j.u, vn_format_info(out)->u); /* q - z may be rounded to the type */
    const bool shifted = j.z && any_not_zero(j.z, e->in[2].t->count);
    if (e->want >= VN_WANT_BOUND && e->contract->tier != VN_TIER_IEEE && shifted) VN_TRY(vn_out_wide(e, 0, "folded-zero-point"));
    if (t == VN_F64 || large) { /* value + lo is exact: a product of 33 and 24 digits is not one rounding of the f64 product (PREC-3) */
        VN_TRY(vn_out_own(e, 0));
        VN_TRY(vn_out_lo(e, 0));
    }
    j.value = e->out[0].value;
    j.lo = e->out[0].lo;
    j.bound = e->out[0].bound;
    j.wide = e->out[0].wide;
    j.var = e->out[0].var;
    cut(&j.g);
    over_lines(&j.g, dequantise_lines, &j);
    if (j.demand) vn_out_rounded(e, 0);
    return VN_OK;
}

/* ---- DynamicQuantizeLinear ---- */

static double f32(double x) { return vn_round_to(VN_FMT_F32, x, VN_RNE, false); }

/* Codes under one (scale, zero point), by the text's own arithmetic. */
static vn_status_t codes_reading(vn_eval_t *e, const double *x, double scale, double zero, const char *name) {
    vn_ref_t *r = &e->out[0];
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(VN_U8, r->rank, r->dims, &t, e->err));
    uint8_t *d = t->data;
    for (int64_t i = 0; i < r->count; ++i) {
        const double c = fmin(fmax(rint(f32(x[i] / scale)) + zero, 0), 255);
        d[i] = isnan(c) ? (uint8_t)zero : (uint8_t)c;
    }
    return vn_out_reading(e, 0, name, t);
}

static vn_status_t scalar_u8(vn_eval_t *e, double zero, double other) {
    VN_TRY(vn_out_exact(e, 2, VN_U8, 0, NULL));
    *(uint8_t *)e->out[2].tensor->data = (uint8_t)zero;
    if (other == zero || e->want < VN_WANT_BOUND) return VN_OK;
    VN_TRY(vn_out_either(e, 2));
    *(uint8_t *)e->out[2].either->data = (uint8_t)other;
    return VN_OK;
}

static vn_status_t eval_dynamic(vn_eval_t *e) {
    if (!vn_has(e, 0) || !e->in[0].t || e->in[0].t->dtype != VN_F32) return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 must be an f32 tensor");
    if (e->n_out < 3) return vn_eval_fail(e, VN_ERR_USAGE, "three outputs are needed");
    const vn_tensor_t *x = e->in[0].t;
    const double *v = vn_arg_f64(e, 0);
    if (!v) return VN_ERR_NOMEM;
    double lo = 0, hi = 0;
    bool nan = false;
    for (int64_t i = 0; i < x->count; ++i) {
        lo = fmin(lo, v[i]);
        hi = fmax(hi, v[i]);
        nan |= isnan(v[i]);
    }
    const bool open = e->contract->tier != VN_TIER_IEEE;
    const double u = vn_u(e), exact_scale = (hi - lo) / 255, scale = f32(f32(hi - lo) / 255);
    const double z_real = f32(-f32(lo / scale)),
                 window = open ? 5 * u * fabs(z_real) : 0; /* scale: difference, quotient; then the quotient by it */
    const bool degenerate = scale == 0 || nan || !isfinite(scale);
    double zero = 0, other = 0;
    if (!degenerate) vn_requant(z_real, window, 0, 0, 255, &zero, &other);

    VN_TRY(vn_out_float(e, 1, VN_F32, 0, NULL));
    e->out[1].value[0] = exact_scale;
    if (e->out[1].bound) e->out[1].bound[0] = vn_gamma(open ? 3 : 2, u) * fabs(exact_scale) + vn_eta(e);
    if (e->out[1].var) e->out[1].var[0] = 0.18 * 2 * u * u * exact_scale * exact_scale;
    VN_TRY(scalar_u8(e, zero, other));

    VN_TRY(vn_out_exact(e, 0, VN_U8, x->rank, x->dims));
    const size_t n = (size_t)(x->count ? x->count : 1);
    quantise_t j = {.g = {.outer = 1, .axis = 1, .inner = x->count, .scales = 1, .block = 1, .per_tensor = true},
                    .flags = {.e = e, .k = 0}};
    j.x = v;
    j.s = &scale;
    j.z = &zero;
    j.err = e->in[0].err;
    j.to = VN_U8;
    j.division = VN_FMT_F32;
    j.working = e->contract->accumulator;
    j.hi = 255;
    j.window = open ? 5 * u : 0;
    j.first = vn_alloc(n, sizeof(double));
    j.second = vn_alloc(n, sizeof(double));
    vn_status_t s = j.first && j.second ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for codes");
    if (s == VN_OK) {
        cut(&j.g);
        over_lines(&j.g, quantise_lines, &j);
        s = finish_codes(e, &j, x->rank, x->dims, 0);
    }
    vn_free(j.first);
    vn_free(j.second);
    VN_TRY(s);
    if (e->want < VN_WANT_BOUND) return VN_OK;
    if (degenerate) { /* all zero, or not finite: the text divides by zero */
        for (int k = 0; k < 3; ++k) {
            VN_TRY(vn_out_flags(e, k));
            memset(e->out[k].flags, VN_EL_VOID, (size_t)e->out[k].count);
        }
        return VN_OK;
    }
    return other != zero ? codes_reading(e, v, scale, other, "the other zero point of the tie window") : VN_OK;
}

/* ---- rows ---- */

static vn_status_t infer_quantise(vn_eval_t *e) {
    vn_dtype_t t;
    VN_TRY(check_scale(e));
    VN_TRY(output_type(e, &t));
    VN_TRY(vn_infer_same(e));
    e->out[0].dtype = t;
    return VN_OK;
}

static vn_status_t infer_dequantise(vn_eval_t *e) {
    vn_dtype_t t;
    VN_TRY(check_scale(e));
    VN_TRY(dequantised_type(e, &t));
    VN_TRY(vn_infer_same(e));
    e->out[0].dtype = t;
    return VN_OK;
}

static vn_status_t infer_dynamic(vn_eval_t *e) {
    if (e->n_out < 3) return vn_eval_fail(e, VN_ERR_USAGE, "three outputs are needed");
    VN_TRY(vn_infer_same(e));
    e->out[0].dtype = VN_U8;
    e->out[1] = (vn_ref_t){.dtype = VN_F32, .count = 1};
    e->out[2] = (vn_ref_t){.dtype = VN_U8, .count = 1};
    return VN_OK;
}

static const vn_op_t rows[] = {
    {"", "QuantizeLinear", 10, 0, VN_CLASS_QUANTISE, VN_OP_PROPAGATES, "QUANT-1", eval_quantise, infer_quantise, 0},
    {"", "DequantizeLinear", 10, 0, VN_CLASS_ROUNDED, VN_OP_PROPAGATES, "QUANT-2", eval_dequantise, infer_dequantise, 0},
    {"", "DynamicQuantizeLinear", 11, 0, VN_CLASS_QUANTISE, 0, "QUANT-3", eval_dynamic, infer_dynamic, 0},
};

const vn_family_t vn_family_quantise = {.name = "quantise", .rows = rows, .count = sizeof rows / sizeof *rows};
