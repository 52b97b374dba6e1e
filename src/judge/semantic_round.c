/* semantic_round.c -- another rule of rounding: ties away or up, truncation, the zero point added first; integers that saturate or not.
 *
 * Claim NAME-ROUND-1: a rule of rounding is monotone. So if the number v in front of it is known within w, the result under rule f lies in
 * [f(v - w), f(v + w)], and a result is explained iff every element lies in its interval. w: 0 for Round and Cast of given numbers, 2u|v| for a
 * quotient by a scale, 4u|v| behind a requantised product (bounds.md, quantise), the bound without the store for a float store.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/semantic.h"

/* What is rounded: v within w, then + zero, kept in [least, most]. */
typedef struct grid {
    double *v, *w, *zero;
    double least, most;
} grid_t;

static double away(double v) { return v < 0 ? ceil(v - 0.5) : floor(v + 0.5); }
static double up(double v) { return floor(v + 0.5); }
static double down(double v) { return ceil(v - 0.5); }

static const struct {
    double (*f)(double);
    bool shifted; /* the zero point is added first */
    const char *cause, *words;
} rules[] = {
    {away, false, "round-half-away", "ties rounded away from zero"},
    {up, false, "round-half-up", "ties rounded up"},
    {trunc, false, "truncation-bias", "fractions cut off, towards zero"},
    {floor, false, "truncation-bias", "fractions cut off, downwards"},
    {trunc, true, "truncation-bias", "fractions cut off after the zero point is added"},
    {rint, true, "round-order", "the zero point added before the rounding: ties go to an even sum"},
    {away, true, "round-half-away", "ties rounded away from zero after the zero point is added"},
    {down, false, "round-half-down", "ties rounded down"},
};

static double apply(const grid_t *g, size_t r, int64_t i, double v) {
    const double z = g->zero ? g->zero[i] : 0, q = rules[r].shifted ? rules[r].f(v + z) : rules[r].f(v) + z;
    return q < g->least ? g->least : q > g->most ? g->most : q;
}

/* The element of [lo, hi] nearest to x; what is no number is nowhere near. */
static double nearest(double x, double lo, double hi) { return x > lo ? (x < hi ? x : hi) : lo; }

static vn_status_t by_rules(vn_explain_t *e, const grid_t *g, const char *op, vn_error_t *err) {
    double *none = vn_alloc((size_t)e->n, 2 * sizeof *none); /* no room: the interval is in y2 */
    if (!none) return vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    double *y2 = none + e->n;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; ++r) {
        if (rules[r].shifted && !g->zero) continue;
        for (int64_t i = 0; i < e->n; ++i)
            y2[i] = isfinite(g->v[i]) ? nearest(e->x[i], apply(g, r, i, g->v[i] - g->w[i]), apply(g, r, i, g->v[i] + g->w[i])) : e->y[i];
        vn_explain_plane(e, y2, none, VN_BUG, rules[r].cause, NULL, "%s with %s gives the whole result.", op, rules[r].words);
    }
    vn_free(none);
    return VN_OK;
}

static bool range(vn_dtype_t t, double *least, double *most) {
    const vn_kind_t kind = vn_dtype_kind(t);
    const int bits = vn_dtype_bits(t);
    if ((kind != VN_KIND_SIGNED && kind != VN_KIND_UNSIGNED) || bits > 32) return false;
    *least = kind == VN_KIND_SIGNED ? -ldexp(1, bits - 1) : 0;
    *most = ldexp(1, kind == VN_KIND_SIGNED ? bits - 1 : bits) - 1;
    return true;
}

static void grid_free(grid_t *g) {
    vn_free(g->v);
    vn_free(g->w);
    vn_free(g->zero);
}

static vn_status_t grid_new(const vn_explain_t *e, grid_t *g, vn_error_t *err) {
    *g = (grid_t){
        .v = vn_alloc((size_t)e->n, sizeof(double)), .w = vn_alloc((size_t)e->n, sizeof(double)), .least = -INFINITY, .most = INFINITY};
    return g->v && g->w ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
}

/* Operand 0 of the node as the computation in front of it gives it. */
static vn_status_t operand_plane(vn_variant_t *v, grid_t *g, bool *known, vn_error_t *err) {
    const vn_explain_t *e = v->e;
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    *known = false;
    if (x && x->count == e->n && vn_dtype_kind(x->dtype) != VN_KIND_STRING && vn_dtype_kind(x->dtype) != VN_KIND_COMPLEX) {
        vn_tensor_to_f64(x, g->v);
        for (int64_t i = 0; i < e->n; ++i) g->w[i] = 0;
        *known = true;
        return VN_OK;
    }
    if (x || v->node->n_outputs != 1) return VN_OK;
    vn_ref_t r;
    VN_TRY(vn_variant_bypass(v, 0, err));
    VN_TRY(vn_variant_eval(v, VN_WANT_BOUND | VN_WANT_PLAIN, &r, err));
    vn_variant_reset(v);
    if (r.value && r.count == e->n) {
        for (int64_t i = 0; i < e->n; ++i) {
            const double room = vn_room(&r, i);
            g->v[i] = r.value[i];
            g->w[i] = room > 0 ? room : 0;
        }
        *known = true;
    }
    vn_ref_free(&r);
    return VN_OK;
}

/* Divides the plane by the scale and gets the zero point; axis and block as QuantizeLinear has them. */
static vn_status_t scaled(vn_variant_t *v, const vn_tensor_t *scale, const vn_tensor_t *zero, grid_t *g, bool *possible, vn_error_t *err) {
    const vn_explain_t *e = v->e;
    const vn_tensor_t *a = e->c->actual;
    const int64_t axis = (int64_t)vn_name_attr_number(v->node, "axis", 1), block = (int64_t)vn_name_attr_number(v->node, "block_size", 0);
    *possible = false;
    g->zero = vn_alloc((size_t)e->n, sizeof *g->zero);
    if (!g->zero) return vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    for (int64_t i = 0; i < e->n; ++i) {
        const int64_t s = vn_name_scale_at(scale, a->rank, a->dims, axis, block, i);
        const int64_t z = zero ? vn_name_scale_at(zero, a->rank, a->dims, axis, block, i) : 0;
        if (s < 0 || z < 0) return VN_OK;
        const double unit = vn_tensor_get_f64(scale, s);
        g->zero[i] = zero ? vn_tensor_get_f64(zero, z) : 0;
        const double quotient = g->v[i] / unit;
        const bool exact = g->w[i] == 0 && quotient == (double)(float)quotient && quotient * unit == g->v[i];
        g->w[i] = exact ? 0 : g->w[i] / fabs(unit) + 2 * 0x1p-24 * fabs(quotient);
        g->v[i] = quotient;
    }
    *possible = true;
    return VN_OK;
}

/* QuantizeLinear and Round whose result other nodes of a region take: the given operand itself is put on the grid. */
static vn_status_t on_grid(vn_variant_t *v, const vn_tensor_t *scale, vn_error_t *err) {
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    const int64_t axis = (int64_t)vn_name_attr_number(v->node, "axis", 1), block = (int64_t)vn_name_attr_number(v->node, "block_size", 0);
    if (!x || !vn_dtype_is_float(x->dtype)) return VN_OK;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; ++r) {
        if (rules[r].shifted) continue;
        vn_tensor_t *t;
        VN_TRY(vn_tensor_copy(x, &t, err));
        bool possible = true;
        for (int64_t i = 0; i < t->count && possible; ++i) {
            const int64_t s = scale ? vn_name_scale_at(scale, t->rank, t->dims, axis, block, i) : 0;
            possible = s >= 0;
            const double unit = scale && possible ? vn_tensor_get_f64(scale, s) : 1, q = vn_tensor_get_f64(t, i) / unit;
            if (possible && isfinite(q)) vn_tensor_set_f64(t, i, rules[r].f(q) * unit);
        }
        if (!possible) {
            vn_tensor_free(t);
            return VN_OK;
        }
        VN_TRY(vn_variant_input(v, 0, t, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, rules[r].cause, NULL, err, "%s with %s gives the whole result.", v->node->op, rules[r].words));
    }
    return VN_OK;
}

static vn_status_t quantize(vn_variant_t *v, vn_error_t *err) {
    const bool round = vn_variant_is(v, "", "Round");
    const vn_tensor_t *scale = round ? NULL : vn_variant_operand(v, 1), *zero = round ? NULL : vn_variant_operand(v, 2);
    if (!round && (!scale || (v->node->n_inputs > 2 && *v->node->inputs[2] && !zero))) return VN_OK;
    if (!vn_name_judged(v, 0)) return on_grid(v, scale, err);
    grid_t g;
    bool possible;
    vn_status_t s = grid_new(v->e, &g, err);
    if (!round && !range(v->e->c->actual->dtype, &g.least, &g.most)) {
        grid_free(&g);
        return s;
    }
    if (s == VN_OK) s = operand_plane(v, &g, &possible, err);
    if (s == VN_OK && possible && !round) s = scaled(v, scale, zero, &g, &possible, err);
    if (s == VN_OK && possible) s = by_rules(v->e, &g, v->node->op, err);
    grid_free(&g);
    return s;
}

/* DynamicQuantizeLinear: the scale is the operator's own, from the largest and the least operand. */
static vn_status_t dynamic(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    if (!x || !vn_name_judged(v, 0) || x->count != v->e->n) return VN_OK;
    grid_t g;
    vn_status_t s = grid_new(v->e, &g, err);
    if (s == VN_OK && !(g.zero = vn_alloc((size_t)v->e->n, sizeof *g.zero))) s = vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    if (s == VN_OK) {
        vn_tensor_to_f64(x, g.v);
        double lo = 0, hi = 0;
        for (int64_t i = 0; i < v->e->n; ++i) {
            lo = fmin(lo, g.v[i]);
            hi = fmax(hi, g.v[i]);
        }
        const double unit = (double)(float)((hi - lo) / 255), zero = fmin(fmax(rint((double)(float)(-lo / unit)), 0), 255);
        for (int64_t i = 0; i < v->e->n; ++i) {
            g.v[i] /= unit;
            g.w[i] = 2 * 0x1p-24 * fabs(g.v[i]);
            g.zero[i] = zero;
        }
        g.most = 255;
        g.least = 0;
        if (unit > 0 && isfinite(unit)) s = by_rules(v->e, &g, v->node->op, err);
    }
    grid_free(&g);
    return s;
}

/* Moves operand `from` of the question to place `to` of the edited node. */
static vn_status_t move(vn_variant_t *v, const vn_tensor_t *t, int to, vn_error_t *err) {
    return t ? vn_variant_input(v, to, vn_tensor_retain(t), err) : vn_variant_drop_input(v, to, err);
}

/* QLinearMatMul, QLinearConv: the exact integer sum comes from the integer operator; then scale, rule, zero point. */
static vn_status_t requantize(vn_variant_t *v, vn_error_t *err) {
    const bool conv = vn_variant_is(v, "", "QLinearConv");
    const vn_explain_t *e = v->e;
    const vn_tensor_t *a = e->c->actual, *in[9];
    for (int k = 0; k < 9; ++k) in[k] = vn_variant_operand(v, k);
    grid_t g;
    if (!vn_name_judged(v, 0) || !in[0] || !in[1] || !in[3] || !in[4] || !in[6] || in[1]->count != 1 || in[6]->count != 1) return VN_OK;
    vn_status_t s = grid_new(e, &g, err);
    if (s == VN_OK && !(g.zero = vn_alloc((size_t)e->n, sizeof *g.zero))) s = vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    if (s != VN_OK || !range(a->dtype, &g.least, &g.most)) {
        grid_free(&g);
        return s;
    }
    vn_ref_t r = {0};
    s = vn_variant_op(v, "", conv ? "ConvInteger" : "MatMulInteger", err);
    const int from[4] = {0, 3, 2, 5};
    for (int k = 0; k < 4 && s == VN_OK; ++k) s = move(v, in[from[k]], k, err);
    v->node->n_inputs = 4;
    if (s == VN_OK) s = vn_variant_eval(v, VN_WANT_VALUE, &r, err);
    vn_variant_reset(v);
    if (s == VN_OK && r.tensor && r.tensor->count == e->n) {
        const int64_t axis = conv ? 1 : a->rank - 1;
        const double base = vn_tensor_get_f64(in[1], 0) / vn_tensor_get_f64(in[6], 0);
        bool possible = true;
        for (int64_t i = 0; i < e->n && possible; ++i) {
            const int64_t c = vn_name_scale_at(in[4], a->rank, a->dims, axis, 0, i);
            const int64_t b = conv && in[8] ? vn_name_scale_at(in[8], a->rank, a->dims, axis, 0, i) : 0;
            possible = c >= 0 && b >= 0;
            if (!possible) break;
            g.v[i] =
                (vn_tensor_get_f64(r.tensor, i) + (conv && in[8] ? vn_tensor_get_f64(in[8], b) : 0)) * base * vn_tensor_get_f64(in[4], c);
            g.w[i] = 4 * 0x1p-24 * fabs(g.v[i]);
            g.zero[i] = in[7] ? vn_tensor_get_f64(in[7], 0) : 0;
        }
        if (possible) s = by_rules(v->e, &g, v->node->op, err);
    }
    vn_ref_free(&r);
    grid_free(&g);
    return s;
}

/* Cast to integers: rounded where fractions are to be cut, saturated where the low bits are to be kept. */
static vn_status_t cast(vn_variant_t *v, vn_error_t *err) {
    static const struct {
        double (*f)(double);
        const char *words;
    } other[] = {
        {rint, "to the nearest integer, ties to even"}, {away, "to the nearest integer, ties away from zero"}, {floor, "downwards"}};
    vn_explain_t *e = v->e;
    const vn_dtype_t to = e->c->actual->dtype;
    vn_dtype_t from;
    int rank;
    int64_t dims[VN_MAX_RANK];
    grid_t g;
    bool known;
    double least, most;
    if (!vn_name_judged(v, 0) || !vn_variant_shape(v, 0, &from, &rank, dims) || !range(to, &least, &most)) return VN_OK;
    vn_status_t s = grid_new(e, &g, err);
    if (s == VN_OK) s = operand_plane(v, &g, &known, err);
    double *none = vn_alloc((size_t)e->n, sizeof *none), *y2 = vn_alloc((size_t)e->n, sizeof *y2);
    if (s == VN_OK && (!y2 || !none)) s = vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    for (size_t r = 0; s == VN_OK && known && vn_dtype_is_float(from) && r < sizeof other / sizeof *other; ++r) {
        for (int64_t i = 0; i < e->n; ++i)
            y2[i] = isfinite(g.v[i]) ? nearest(e->x[i], other[r].f(g.v[i] - g.w[i]), other[r].f(g.v[i] + g.w[i])) : e->y[i];
        vn_explain_plane(e, y2, none, VN_BUG, "cast-rounds", NULL,
                         "%s that rounds %s, where fractions are to be cut off, gives the whole result.", v->node->op, other[r].words);
    }
    if (s == VN_OK && known && !vn_dtype_is_float(from)) {
        char cause[32];
        snprintf(cause, sizeof cause, "saturate-i%d", vn_dtype_bits(to));
        for (int64_t i = 0; i < e->n; ++i) y2[i] = fmin(fmax(g.v[i], least), most);
        vn_explain_plane(e, y2, none, VN_BUG, cause, NULL,
                         "%s to %s saturates where the low bits are to be kept: this gives the whole result.", v->node->op,
                         vn_dtype_name(to));
    }
    vn_free(y2);
    vn_free(none);
    grid_free(&g);
    return s;
}

/* The store to the result's type by another rule. Only where what is stored is known to a fraction of a step of that type. */
static vn_status_t store(vn_explain_t *e, vn_error_t *err) {
    static const struct {
        vn_rounding_t rule;
        vn_verdict_t verdict;
        const char *cause, *words;
    } other[] = {
        {VN_RZ, VN_CONTRACT_MISMATCH, "truncation-bias", "is cut to its type in place of rounded: every error points to zero"},
        {VN_RNA, VN_BUG, "round-half-away", "is rounded to its type with ties away from zero"},
        {VN_RU, VN_BUG, "round-up", "is rounded up to its type"},
        {VN_RD, VN_BUG, "round-down", "is rounded down to its type"},
    };
    enum { ENOUGH = 3 }; /* wrong elements: one or two may be anything */
    const vn_ref_t *ref = e->c->ref;
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    if (f == VN_FMT_NONE || !ref->value || !ref->bound || e->n_wrong < ENOUGH) return VN_OK;
    const vn_format_info_t *info = vn_format_info(f);
    double *none = vn_alloc((size_t)e->n, 3 * sizeof *none);
    if (!none) return vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    double *y2 = none + e->n, *w = y2 + e->n;
    int64_t sharp = 0, far = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        const double y = fabs(e->y[i]), own = vn_ref_own(ref, i);
        const double before = ref->demand_equal ? 0 : (ref->bound[i] - info->u * y - info->eta / 2) / (1 + info->u);
        w[i] = fmax(before, 0) + own;
        if (!e->wrong[i] || !isfinite(w[i]) || !isfinite(y)) continue;
        sharp += w[i] < 0.25 * vn_ulp(f, e->y[i]);
        far += fabs(e->x[i] - e->y[i]) > 0.625 * vn_ulp(f, e->y[i]);
    }
    for (size_t r = 0; 2 * sharp > e->n_wrong && r < sizeof other / sizeof *other; ++r) {
        if (other[r].rule != VN_RNA && far < ENOUGH) continue; /* a second rounding errs at ties too, and by no more than half a step */
        for (int64_t i = 0; i < e->n; ++i) {
            const double y = e->y[i];
            y2[i] = isfinite(y)
                        ? nearest(e->x[i], vn_round_to(f, y - w[i], other[r].rule, false), vn_round_to(f, y + w[i], other[r].rule, false))
                        : y;
        }
        vn_explain_plane(e, y2, none, other[r].verdict, other[r].cause, NULL, "The result %s: this gives every element.", other[r].words);
    }
    vn_free(none);
    return VN_OK;
}

static vn_status_t one(vn_variant_t *v, vn_error_t *err) {
    if (!v->e->x) return VN_OK;
    if (vn_variant_is(v, "", "QuantizeLinear") || vn_variant_is(v, "", "Round")) return quantize(v, err);
    if (vn_variant_is(v, "", "DynamicQuantizeLinear")) return dynamic(v, err);
    if (vn_variant_is(v, "", "QLinearMatMul") || vn_variant_is(v, "", "QLinearConv")) return requantize(v, err);
    if (vn_variant_is(v, "", "Cast") || vn_variant_is(v, "", "CastLike")) return cast(v, err);
    return VN_OK;
}

vn_status_t vn_name_round(vn_explain_t *e, vn_error_t *err) {
    VN_TRY(vn_variants(e, one, err));
    return e->x ? store(e, err) : VN_OK;
}
