/* terms_bias.c -- the addend or the factor of an operator: missing, added twice, multiplied by something else.
 *
 * Claim NAME-BIAS-1: with y0 the exact result without the addend, a factor c of the addend is named iff every element of the actual output is
 * within the contract's room of y0 + c (y - y0); c is the least-squares value over all elements, or the factor that it stands next to.
 * The same for the product of Gemm, with y0 the result without the product.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/edit.h"
#include "judge/names.h"

static const struct {
    const char *domain, *op;
    int k;
    bool additive; /* the result is linear in it with factor 1 or a constant: c can be solved for */
    bool required;
} table[] = {
    {"", "Conv", 2, true, false},
    {"", "ConvTranspose", 2, true, false},
    {"", "Gemm", 2, true, false},
    {"", "LayerNormalization", 2, true, false},
    {"", "BatchNormalization", 2, true, true},
    {"", "InstanceNormalization", 2, true, true},
    {"", "GroupNormalization", 2, true, true},
    {"", "DeformConv", 3, true, false},
    {"", "QLinearConv", 8, false, false},
    {"", "LSTM", 3, false, false},
    {"", "GRU", 3, false, false},
    {"", "RNN", 3, false, false},
    {"com.microsoft", "FusedConv", 2, false, false},
    {"com.microsoft", "FusedGemm", 2, false, false},
    {"com.microsoft", "MatMulNBits", 5, true, false},
    {"com.microsoft", "SkipLayerNormalization", 3, true, false},
    {"com.microsoft", "SkipLayerNormalization", 4, false, false},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 3, false, false},
    {"com.microsoft", "BiasGelu", 1, false, true},
    {"com.microsoft", "FastGelu", 1, false, false},
    {"com.microsoft", "BiasSoftmax", 1, false, true},
    {"com.microsoft", "Attention", 2, false, false},
    {"com.microsoft", "MultiHeadAttention", 3, false, false},
    {"com.microsoft", "QGemm", 6, false, false},
    {"com.microsoft", "MatMulIntegerToFloat", 6, true, false},
    {"com.microsoft", "DynamicQuantizeMatMul", 4, true, false},
    {"com.microsoft", "DynamicQuantizeLSTM", 3, false, false},
};

/* The operand becomes zero: left out where that is allowed. */
static vn_status_t without(vn_variant_t *v, int k, bool required, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    if (!required) return vn_variant_drop_input(v, k, err);
    vn_tensor_t *zero;
    VN_TRY(vn_edit_fill(t, 0, &zero, err));
    return vn_variant_input(v, k, zero, err);
}

/* What a factor may be: attributes of the node and their powers, small numbers. */
static double known(const vn_variant_t *v, double c, double slack, char *what, size_t size) {
    const double alpha = vn_node_float(v->node, "alpha", 1), beta = vn_node_float(v->node, "beta", 1);
    const struct {
        double x;
        const char *what;
    } all[] = {{0, "0"},
               {2, "2"},
               {-1, "-1"},
               {alpha, "alpha"},
               {1 / alpha, "1 / alpha"},
               {beta, "beta"},
               {1 / beta, "1 / beta"},
               {alpha / beta, "alpha / beta"},
               {alpha * beta, "alpha beta"}};
    for (size_t k = 0; k < sizeof all / sizeof *all; ++k) {
        if (!isfinite(all[k].x) || all[k].x == 1 || fabs(c - all[k].x) > slack) continue;
        if (k < 3) snprintf(what, size, "%s", all[k].what);
        else snprintf(what, size, "%s = %.6g", all[k].what, all[k].x);
        return all[k].x;
    }
    snprintf(what, size, "%.6g", c);
    return c;
}

/*
 * The part p = y - y0 of every element is there c times. Solves c and its uncertainty from the elements' rooms; false: no c, or c = 1.
 */
static bool factor(const vn_explain_t *e, const double *y0, double *c, double *slack) {
    double xp = 0, pp = 0, yy = 0, room2 = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        const double p = e->y[i] - y0[i], d = e->x[i] - y0[i], room = vn_room(e->c->ref, i);
        if (!isfinite(p) || !isfinite(d) || !isfinite(room)) continue;
        xp += d * p;
        pp += p * p;
        yy += y0[i] * y0[i];
        room2 += room > 0 ? room * fabs(p) : 0;
    }
    if (!(pp > 0) || !(yy > 1e-12 * pp)) return false; /* nothing there, or nothing else: that is a constant ratio */
    *c = xp / pp;
    *slack = room2 / pp + 0x1p-20;
    return fabs(*c - 1) > *slack;
}

static vn_status_t name(vn_variant_t *v, const double *y0, const char *part, bool product, vn_error_t *err) {
    vn_explain_t *e = v->e;
    double c, slack;
    char what[64], cause[48];
    if (!factor(e, y0, &c, &slack)) return VN_OK;
    c = known(v, c, slack, what, sizeof what);
    double *y2 = vn_alloc((size_t)e->n, sizeof *y2);
    if (!y2) return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant");
    for (int64_t i = 0; i < e->n; ++i) y2[i] = y0[i] + c * (e->y[i] - y0[i]);
    const double alpha = vn_node_float(v->node, "alpha", 1);
    if (product)
        snprintf(cause, sizeof cause, "%s",
                 c == alpha && alpha != 1       ? "alpha-twice"
                 : c == 1 / alpha && alpha != 1 ? "attribute-ignored:alpha"
                                                : "constant-ratio");
    else snprintf(cause, sizeof cause, "%s", c == 0 ? "bias-missing" : c == 2 ? "bias-twice" : "bias-scale");
    vn_explain_plane(e, y2, NULL, VN_BUG, cause, NULL, "The %s counts %s times instead of once, the rest of the result is right.", part,
                     what);
    vn_free(y2);
    return VN_OK;
}

static vn_status_t solve(vn_variant_t *v, const char *part, bool product, vn_error_t *err) {
    vn_ref_t r;
    VN_TRY(vn_variant_eval(v, VN_WANT_VALUE | VN_WANT_PLAIN, &r, err));
    vn_status_t s = VN_OK;
    if (r.value && r.count == v->e->n && v->e->c->ref->value) s = name(v, r.value, part, product, err);
    vn_ref_free(&r);
    vn_variant_reset(v);
    return s;
}

static vn_status_t addend(vn_variant_t *v, int k, bool additive, bool required, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    if (!t || t->count > VN_EDIT_MOST || (!vn_dtype_is_float(t->dtype) && !vn_dtype_is_int(t->dtype))) return VN_OK;
    bool held;
    VN_TRY(without(v, k, required, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "bias-missing", &held, err, "%s without its addend (operand %d) gives the whole result.", v->node->op,
                          k));
    if (held) return VN_OK;
    vn_tensor_t *twice;
    VN_TRY(vn_edit_scale(t, 2, &twice, err));
    VN_TRY(vn_variant_input(v, k, twice, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "bias-twice", &held, err, "%s with its addend (operand %d) added twice gives the whole result.",
                          v->node->op, k));
    if (held || !additive || !v->e->x) return VN_OK;
    VN_TRY(without(v, k, required, err));
    return solve(v, "addend", false, err);
}

/* The product of Gemm, with everything else gone: its factor is alpha. */
static vn_status_t products(vn_variant_t *v, vn_error_t *err) {
    const bool gemm = vn_variant_is(v, "", "Gemm"), fused = vn_variant_is(v, "com.microsoft", "FusedMatMul");
    const double alpha = vn_node_float(v->node, "alpha", 1);
    bool held;
    if (!gemm && !fused) return VN_OK;
    if (alpha != 1) {
        VN_TRY(vn_variant_float(v, "alpha", alpha * alpha, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "alpha-twice", &held, err, "%s with alpha = %.6g applied twice gives the whole result.",
                              v->node->op, alpha));
        if (held) return VN_OK;
    }
    if (!gemm || v->node->n_inputs < 3 || !*v->node->inputs[2] || !v->e->x) return VN_OK;
    VN_TRY(vn_variant_float(v, "alpha", 0, err));
    return solve(v, "product", true, err);
}

/* In a region an Add of a constant along the last or the channel axis is the addend of what stands before it. */
static vn_status_t constant_addend(vn_variant_t *v, vn_error_t *err) {
    if (v->index < 0 || !vn_variant_is(v, "", "Add") || v->node->n_inputs != 2) return VN_OK;
    const int k = vn_variant_operand(v, 1) ? 1 : 0;
    const vn_tensor_t *t = vn_variant_operand(v, k);
    return t && !vn_variant_operand(v, 1 - k) ? addend(v, k, false, true, err) : VN_OK;
}

/* Scale of a normalisation: absent, or its square. */
static vn_status_t scales(vn_variant_t *v, vn_error_t *err) {
    static const char *const ops[] = {"LayerNormalization", "RMSNormalization", "InstanceNormalization", "GroupNormalization",
                                      "BatchNormalization"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
        const vn_tensor_t *t = vn_variant_is(v, "", ops[i]) ? vn_variant_operand(v, 1) : NULL;
        if (!t || t->count > VN_EDIT_MOST) continue;
        vn_tensor_t *one;
        VN_TRY(vn_edit_fill(t, 1, &one, err));
        VN_TRY(vn_variant_input(v, 1, one, err));
        VN_TRY(
            vn_variant_ask(v, VN_BUG, "scale-missing", NULL, err, "%s without its scale (operand 1) gives the whole result.", v->node->op));
    }
    return VN_OK;
}

static vn_status_t addends(vn_variant_t *v, vn_error_t *err) {
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (vn_variant_is(v, table[i].domain, table[i].op) && table[i].k < v->node->n_inputs)
            VN_TRY(addend(v, table[i].k, table[i].additive, table[i].required, err));
    VN_TRY(constant_addend(v, err));
    VN_TRY(scales(v, err));
    return products(v, err);
}

vn_status_t vn_name_bias(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, addends, err); }
