/* semantic_scores.c -- attention and other small graphs made of nodes: a node left out, a mask changed, a bound of a range or a triangle off by one.
 *
 * Only in regions: there a node can be taken out while its neighbours stay. What leads to a softmax is about scores and gets the ids of attention.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/mask_edges.h"
#include "judge/names.h"

static bool one_of(const vn_variant_t *v, const char *const *ops) {
    for (; *ops; ++ops)
        if (vn_variant_is(v, "", *ops)) return true;
    return false;
}

/* Whether what `value` goes into ends in a softmax within `depth` nodes. */
static bool to_softmax(const vn_graph_t *g, const char *value, int depth) {
    for (int i = 0; i < g->n_nodes && depth > 0; ++i)
        for (int k = 0; k < g->nodes[i].n_inputs; ++k) {
            if (strcmp(g->nodes[i].inputs[k], value) != 0) continue;
            if (strcmp(g->nodes[i].op, "Softmax") == 0 || strcmp(g->nodes[i].op, "LogSoftmax") == 0) return true;
            for (int o = 0; o < g->nodes[i].n_outputs; ++o)
                if (*g->nodes[i].outputs[o] && to_softmax(g, g->nodes[i].outputs[o], depth - 1)) return true;
        }
    return false;
}

/* The same number in all elements. */
static bool constant(const vn_tensor_t *t, double *x) {
    if (!t || t->count < 1 || !vn_dtype_is_float(t->dtype)) return false;
    *x = vn_tensor_get_f64(t, 0);
    for (int64_t i = 1; i < t->count; ++i)
        if (vn_tensor_get_f64(t, i) != *x) return false;
    return true;
}

static bool forbids(const vn_tensor_t *t) {
    if (!t || !vn_dtype_is_float(t->dtype)) return false;
    for (int64_t i = 0; i < t->count; ++i)
        if (vn_tensor_get_f64(t, i) <= -1e4) return true; /* what models write for minus infinity, or it */
    return false;
}

static vn_status_t filled(const vn_tensor_t *like, double x, vn_tensor_t **out, vn_error_t *err) {
    VN_TRY(vn_tensor_copy(like, out, err));
    for (int64_t i = 0; i < like->count; ++i) vn_tensor_set_f64(*out, i, x);
    return VN_OK;
}

/* ---- scale ---- */

static vn_status_t scale(vn_variant_t *v, vn_error_t *err) {
    static const char *const ops[] = {"Mul", "Div", NULL};
    if (!one_of(v, ops)) return VN_OK;
    for (int k = 0; k < 2; ++k) {
        const vn_tensor_t *t = vn_variant_operand(v, k);
        double x;
        vn_tensor_t *square;
        if (!constant(t, &x) || x == 1 || (k == 0 && vn_variant_is(v, "", "Div"))) continue;
        VN_TRY(vn_variant_bypass(v, 1 - k, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "scale-missing", NULL, err, "Scores that are not %s %.6g give the whole result.",
                              vn_variant_is(v, "", "Div") ? "divided by" : "multiplied by", x));
        VN_TRY(filled(t, x * x, &square, err));
        VN_TRY(vn_variant_input(v, k, square, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "scale-twice", NULL, err, "The scale %.6g applied twice gives the whole result.", x));
    }
    return VN_OK;
}

/* ---- masks ---- */

/* Minus infinity in operand k written as a finite number. */
static vn_status_t finite_mask(vn_variant_t *v, int k, vn_error_t *err) {
    static const double numbers[] = {-1e4, -65504, -1e9, -3.4028234663852886e38};
    const vn_tensor_t *t = vn_variant_operand(v, k);
    if (!t || !vn_dtype_is_float(t->dtype)) return VN_OK;
    bool any = false;
    for (int64_t i = 0; i < t->count; ++i) any |= vn_tensor_get_f64(t, i) == -INFINITY;
    for (size_t n = 0; any && n < sizeof numbers / sizeof *numbers; ++n) {
        vn_tensor_t *other;
        VN_TRY(vn_tensor_copy(t, &other, err));
        for (int64_t i = 0; i < t->count; ++i)
            if (vn_tensor_get_f64(t, i) == -INFINITY) vn_tensor_set_f64(other, i, numbers[n]);
        VN_TRY(vn_variant_input(v, k, other, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "mask-finite", NULL, err, "The whole result comes out with %.6g for minus infinity in the mask.",
                              numbers[n]));
    }
    return VN_OK;
}

/* One diagonal or column of operand k more or less; `allows`: what a bool of it says to an allowed pair. */
static vn_status_t moved_mask(vn_variant_t *v, int k, bool allows, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    for (int m = 0; t && m < VN_MASK_MOVES; ++m) {
        vn_tensor_t *moved;
        const char *cause;
        VN_TRY(vn_mask_move(t, allows, &vn_mask_moves[m], &moved, &cause, err));
        if (!moved) continue;
        VN_TRY(vn_variant_input(v, k, moved, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err, "The whole result comes out if %s.", vn_mask_moves[m].words));
    }
    return VN_OK;
}

/* Slice 0 of one of the leading axes for all of it. */
static vn_status_t one_slice(vn_variant_t *v, int k, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    for (int axis = 0; t && axis + 1 < t->rank; ++axis) {
        vn_tensor_t *other;
        int64_t inner = 1;
        if (t->dims[axis] < 2 || vn_dtype_bits(t->dtype) < 8) continue;
        for (int d = axis + 1; d < t->rank; ++d) inner *= t->dims[d];
        VN_TRY(vn_tensor_copy(t, &other, err));
        for (int64_t i = 0; i < t->count; ++i) {
            const int64_t from = i - i / inner % t->dims[axis] * inner;
            if (vn_dtype_is_float(t->dtype)) vn_tensor_set_f64(other, i, vn_tensor_get_f64(t, from));
            else vn_tensor_set_i64(other, i, vn_tensor_get_i64(t, from));
        }
        VN_TRY(vn_variant_input(v, k, other, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "broadcast-axis", NULL, err,
                              "The whole result comes out if slice 0 of axis %d of the mask is used for all of them.", axis));
    }
    return VN_OK;
}

static vn_status_t added_mask(vn_variant_t *v, vn_error_t *err) {
    if (!vn_variant_is(v, "", "Add") && !vn_variant_is(v, "", "Sub")) return VN_OK;
    for (int k = 0; k < 2; ++k) {
        const vn_tensor_t *t = vn_variant_operand(v, k);
        if (k == 0 && vn_variant_is(v, "", "Sub")) continue;
        if (t && t->rank < 2 && !forbids(t)) continue; /* a bias */
        VN_TRY(vn_variant_bypass(v, 1 - k, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "mask-ignored", NULL, err,
                              "The whole result comes out if operand %d of %s, added to the scores, is left out.", k, v->node->op));
        VN_TRY(finite_mask(v, k, err));
        if (!forbids(t)) continue;
        VN_TRY(moved_mask(v, k, true, err));
        VN_TRY(one_slice(v, k, err));
    }
    return VN_OK;
}

static vn_status_t chosen_mask(vn_variant_t *v, vn_error_t *err) {
    if (!vn_variant_is(v, "", "Where")) return VN_OK;
    const vn_tensor_t *condition = vn_variant_operand(v, 0);
    const bool allows = forbids(vn_variant_operand(v, 2)), denies = forbids(vn_variant_operand(v, 1));
    if (allows == denies) return VN_OK;
    VN_TRY(vn_variant_bypass(v, allows ? 1 : 2, err));
    VN_TRY(vn_variant_ask(v, VN_BUG, "mask-ignored", NULL, err,
                          "The whole result comes out if the mask is left out: Where takes every score."));
    VN_TRY(finite_mask(v, allows ? 2 : 1, err));
    if (!condition) return VN_OK;
    vn_tensor_t *other;
    VN_TRY(vn_tensor_copy(condition, &other, err));
    for (int64_t i = 0; i < condition->count; ++i) vn_tensor_set_i64(other, i, !vn_tensor_get_i64(condition, i));
    VN_TRY(vn_variant_input(v, 0, other, err));
    VN_TRY(
        vn_variant_ask(v, VN_BUG, "mask-inverted", NULL, err, "The whole result comes out if true and false of the mask are exchanged."));
    VN_TRY(moved_mask(v, 0, allows, err));
    return one_slice(v, 0, err);
}

/* ---- comparisons, triangles, ranges ---- */

static vn_status_t comparison(vn_variant_t *v, const char *cause, vn_error_t *err) {
    static const char *const pairs[][2] = {
        {"Less", "LessOrEqual"}, {"LessOrEqual", "Less"}, {"Greater", "GreaterOrEqual"}, {"GreaterOrEqual", "Greater"}};
    for (size_t i = 0; i < 4; ++i) {
        if (!vn_variant_is(v, "", pairs[i][0])) continue;
        VN_TRY(vn_variant_op(v, "", pairs[i][1], err));
        return vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s in place of %s gives the whole result.", pairs[i][1], pairs[i][0]);
    }
    return VN_OK;
}

static vn_status_t triangle(vn_variant_t *v, const char *cause, vn_error_t *err) {
    if (!vn_variant_is(v, "", "Trilu")) return VN_OK;
    const vn_tensor_t *t = vn_variant_operand(v, 1);
    if (v->node->n_inputs > 1 && *v->node->inputs[1] && !t) return VN_OK;
    const int64_t k = t && t->count ? vn_tensor_get_i64(t, 0) : 0;
    for (int by = -1; by < 2; by += 2) {
        vn_tensor_t *other;
        VN_TRY(vn_tensor_new(VN_I64, 0, NULL, &other, err));
        vn_tensor_set_i64(other, 0, k + by);
        VN_TRY(vn_variant_input(v, 1, other, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err, "The whole result comes out with diagonal %lld of the triangle instead of %lld.",
                              (long long)(k + by), (long long)k));
    }
    return VN_OK;
}

/* All of operands a and b (b < 0: a alone) moved by the same whole number. */
static vn_status_t shift(vn_variant_t *v, int a, int b, int64_t by, vn_error_t *err) {
    for (int n = 0; n < 2; ++n) {
        const int k = n ? b : a;
        const vn_tensor_t *t = vn_variant_operand(v, k);
        vn_tensor_t *other;
        if (n && b < 0) break;
        if (!t || vn_dtype_kind(t->dtype) == VN_KIND_STRING) {
            vn_variant_reset(v);
            return VN_OK;
        }
        VN_TRY(vn_tensor_copy(t, &other, err));
        for (int64_t i = 0; i < t->count; ++i)
            if (vn_dtype_is_float(t->dtype)) vn_tensor_set_f64(other, i, vn_tensor_get_f64(t, i) + (double)by);
            else vn_tensor_set_i64(other, i, vn_tensor_get_i64(t, i) + by);
        VN_TRY(vn_variant_input(v, k, other, err));
    }
    return vn_variant_ask(v, VN_BUG, "position-offset", NULL, err, "The whole result comes out if %s begins %lld place%s %s.", v->node->op,
                          (long long)(by < 0 ? -by : by), by == 1 || by == -1 ? "" : "s", by < 0 ? "earlier" : "later");
}

/* Negative starts of a slice read as the front. */
static vn_status_t slice_front(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *from = vn_variant_operand(v, 1), *to = vn_variant_operand(v, 2), *axes = vn_variant_operand(v, 3);
    vn_dtype_t type;
    int rank;
    int64_t dims[VN_MAX_RANK];
    if (!from || !to || from->count != to->count || !vn_variant_shape(v, 0, &type, &rank, dims)) return VN_OK;
    vn_tensor_t *starts, *ends;
    bool any = false;
    VN_TRY(vn_tensor_copy(from, &starts, err));
    const vn_status_t s = vn_tensor_copy(to, &ends, err);
    if (s != VN_OK) {
        vn_tensor_free(starts);
        return s;
    }
    for (int64_t i = 0; i < from->count; ++i) {
        int64_t axis = axes && i < axes->count ? vn_tensor_get_i64(axes, i) : i;
        if (axis < 0) axis += rank;
        const int64_t a = vn_tensor_get_i64(from, i), n = axis >= 0 && axis < rank ? dims[axis] : 0;
        int64_t b = vn_tensor_get_i64(to, i);
        if (a >= 0 || a < -n) continue;
        b = b < 0 ? b + n : b > n ? n : b;
        vn_tensor_set_i64(starts, i, 0);
        vn_tensor_set_i64(ends, i, b - (a + n));
        any |= a + n > 0;
    }
    if (!any) {
        vn_tensor_free(starts);
        vn_tensor_free(ends);
        return VN_OK;
    }
    vn_status_t st = vn_variant_input(v, 1, starts, err);
    if (st != VN_OK) {
        vn_tensor_free(ends);
        return st;
    }
    VN_TRY(vn_variant_input(v, 2, ends, err));
    return vn_variant_ask(v, VN_BUG, "negative-index", NULL, err,
                          "The whole result comes out if negative starts of the slice are read as 0.");
}

static vn_status_t begins(vn_variant_t *v, vn_error_t *err) {
    const bool range = vn_variant_is(v, "", "Range"), slice = vn_variant_is(v, "", "Slice");
    if (slice) VN_TRY(slice_front(v, err));
    for (int by = -1; (range || slice) && by < 2; by += 2) VN_TRY(shift(v, range ? 0 : 1, range ? 1 : 2, by, err));
    if (!vn_variant_is(v, "", "TensorScatter") || !vn_variant_operand(v, 2)) return VN_OK;
    VN_TRY(shift(v, 2, -1, 1, err));
    VN_TRY(shift(v, 2, -1, -1, err));
    VN_TRY(vn_variant_drop_input(v, 2, err));
    return vn_variant_ask(v, VN_BUG, "position-offset", NULL, err,
                          "The whole result comes out if write_indices is ignored: written from place 0.");
}

/* ---- nodes left out ---- */

static vn_status_t left_out(vn_variant_t *v, bool scores, vn_error_t *err) {
    static const char *const kept[] = {
        "Identity",         "Cast",  "Add",     "Sum", "Reshape", "Transpose", "Constant", "Shape", "QuantizeLinear",
        "DequantizeLinear", "Where", "Dropout", NULL};
    if (v->node->n_outputs != 1 || one_of(v, kept)) return VN_OK; /* these have families of their own, or leave nothing behind */
    const bool tanh_cap = scores && vn_variant_is(v, "", "Tanh");
    char cause[96];
    snprintf(cause, sizeof cause, tanh_cap ? "softcap-missing" : "operator-missing:%.60s", v->node->op);
    for (int k = 0; k < v->node->n_inputs && k < 2; ++k) {
        if (!*v->node->inputs[k]) continue;
        VN_TRY(vn_variant_bypass(v, k, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err,
                              "The whole result comes out with operand %d of %s in place of its result: the node is left out.", k,
                              v->node->op));
    }
    return VN_OK;
}

static vn_status_t nodes(vn_variant_t *v, vn_error_t *err) {
    bool scores = false;
    for (int o = 0; v->model && o < v->node->n_outputs; ++o)
        scores |= *v->node->outputs[o] && to_softmax(v->model->graph, v->node->outputs[o], 6);
    VN_TRY(triangle(v, scores ? "causal-off-by-one" : "diagonal-off-by-one", err));
    VN_TRY(begins(v, err));
    if (!v->model) return VN_OK;
    VN_TRY(comparison(v, scores ? "causal-off-by-one" : "compare-ties", err));
    if (scores) {
        VN_TRY(scale(v, err));
        VN_TRY(added_mask(v, err));
        VN_TRY(chosen_mask(v, err));
    }
    return left_out(v, scores, err);
}

vn_status_t vn_name_scores(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, nodes, err); }
