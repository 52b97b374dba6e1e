/* semantic_axis.c -- another axis than the one asked for: every axis, and every set of as many axes, that leaves the shape of the result. */
#include <stdio.h>
#include <string.h>

#include "judge/semantic.h"

/* Where an operator has its axis. input: the operand that holds it, -1: the attribute. standard: if not given; MANY: all axes.
 * STATISTICS: those of MeanVarianceNormalization, which keeps its shape over any set of axes. */
enum { MANY = -100, OLD_SOFTMAX = -101, STATISTICS = -102, MOST_AXES = 8 };
static const struct {
    const char *ops, *attr;
    int input;
    int64_t standard;
} places[] = {
    {"Softmax LogSoftmax Hardmax", "axis", -1, OLD_SOFTMAX},
    {"ArgMax ArgMin Gather GatherElements ScatterElements Scatter Split SplitToSequence Concat", "axis", -1, 0},
    {"TopK LayerNormalization RMSNormalization SimplifiedLayerNormalization LpNormalization OneHot", "axis", -1, -1},
    {"QuantizeLinear DequantizeLinear Flatten Compress Unique", "axis", -1, 1},
    {"TensorScatter", "axis", -1, -2},
    {"CumSum CumProd", NULL, 1, 0},
    {"DFT", "axis", -1, 1},
    {"DFT", NULL, 2, -2},
    {"MeanVarianceNormalization", "axes", -1, STATISTICS},
    {"ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare", "axes", -1,
     MANY},
    {"ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare", NULL, 1, MANY},
};

/* The axes in force as a mask over `rank`; *negative: the node counts from the end. False: not known. */
static bool current(const vn_variant_t *v, const char *attr, int input, int64_t standard, int rank, unsigned *mask, bool *negative) {
    int64_t list[VN_MAX_RANK] = {standard}, n = 1;
    const vn_attr_t *a = attr ? vn_node_attr(v->node, attr) : NULL;
    if (standard == OLD_SOFTMAX) list[0] = vn_variant_version(v) < 13 ? 1 : -1;
    if (a && a->kind == VN_ATTR_INT) list[0] = a->i;
    else if (a && a->kind == VN_ATTR_INTS) {
        if (a->count > VN_MAX_RANK) return false;
        n = a->count;
        if (n) memcpy(list, a->ints, (size_t)n * sizeof *list);
    } else if (!attr) {
        if (input >= v->node->n_inputs || !*v->node->inputs[input]) {
            if (standard == MANY) return false;
        } else {
            const vn_tensor_t *t = vn_variant_operand(v, input);
            if (!t || (t->dtype != VN_I64 && t->dtype != VN_I32) || t->count > VN_MAX_RANK) return false;
            n = t->count;
            for (int64_t i = 0; i < n; ++i) list[i] = vn_tensor_get_i64(t, i);
        }
    } else if (standard == STATISTICS) {
        const int64_t text[3] = {0, 2, 3};
        memcpy(list, text, sizeof text);
        n = 3;
    } else if (standard == MANY) {
        return false; /* all of them */
    }
    *mask = 0;
    *negative = false;
    for (int64_t i = 0; i < n; ++i) {
        if (list[i] < -rank || list[i] >= rank) return false;
        *negative |= list[i] < 0;
        *mask |= 1u << (list[i] < 0 ? list[i] + rank : list[i]);
    }
    return true;
}

static int bits(unsigned m) {
    int n = 0;
    for (; m; m &= m - 1) ++n;
    return n;
}

static vn_status_t put(vn_variant_t *v, const char *attr, int input, unsigned mask, bool many, vn_error_t *err) {
    int64_t list[VN_MAX_RANK], n = 0;
    for (int a = 0; a < VN_MAX_RANK; ++a)
        if (mask >> a & 1) list[n++] = a;
    if (attr) return many ? vn_variant_ints(v, attr, list, n, err) : vn_variant_int(v, attr, list[0], err);
    const vn_tensor_t *old = vn_variant_operand(v, input);
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(old ? old->dtype : VN_I64, old ? old->rank : 0, old ? old->dims : NULL, &t, err));
    for (int64_t i = 0; i < t->count && i < n; ++i) vn_tensor_set_i64(t, i, list[i]);
    return vn_variant_input(v, input, t, err);
}

/* "2", "1,3"; the last axis is -1 where the node counts from the end. */
static void mask_text(unsigned mask, int rank, bool negative, char *out, size_t size) {
    size_t n = 0;
    *out = '\0';
    for (int a = 0; a < rank && n < size; ++a)
        if (mask >> a & 1) n += (size_t)snprintf(out + n, size - n, "%s%d", n ? "," : "", negative && a == rank - 1 ? -1 : a);
}

static vn_status_t one_place(vn_variant_t *v, size_t p, vn_error_t *err) {
    const bool any = places[p].standard == STATISTICS, many = any || places[p].standard == MANY;
    vn_dtype_t type;
    int rank;
    int64_t dims[VN_MAX_RANK];
    unsigned mask;
    bool negative;
    if (!vn_variant_shape(v, 0, &type, &rank, dims)) return VN_OK;
    if (vn_name_in("OneHot", v->node->op)) rank++;
    if (rank < 2 || rank > MOST_AXES || !current(v, places[p].attr, places[p].input, places[p].standard, rank, &mask, &negative))
        return VN_OK;
    char was[32], now[32], cause[96];
    mask_text(mask, rank, negative, was, sizeof was);
    for (unsigned m = 1; m < 1u << rank; ++m) {
        if (m == mask || (!any && bits(m) != bits(mask))) continue;
        mask_text(m, rank, negative, now, sizeof now);
        snprintf(cause, sizeof cause, "axis:%s", now);
        VN_TRY(put(v, places[p].attr, places[p].input, m, many, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s over axis %s in place of axis %s gives the whole result.", v->node->op, now,
                              was));
    }
    return VN_OK;
}

/* ReverseSequence: the two axes exchanged. */
static vn_status_t sequence_axes(vn_variant_t *v, vn_error_t *err) {
    const int64_t time = (int64_t)vn_name_attr_number(v->node, "time_axis", 0),
                  batch = (int64_t)vn_name_attr_number(v->node, "batch_axis", 1);
    VN_TRY(vn_variant_int(v, "time_axis", batch, err));
    VN_TRY(vn_variant_int(v, "batch_axis", time, err));
    return vn_variant_ask(v, VN_BUG, "attribute-ignored:time_axis", NULL, err,
                          "ReverseSequence with time axis %lld and batch axis %lld exchanged gives the whole result.", (long long)time,
                          (long long)batch);
}

static vn_status_t axes(vn_variant_t *v, vn_error_t *err) {
    for (size_t p = 0; p < sizeof places / sizeof *places; ++p) {
        if (!vn_name_in(places[p].ops, v->node->op)) continue;
        /* a Reduce or a DFT has its axes in one of two places, by its version */
        if (vn_name_in("DFT", v->node->op) && (vn_variant_version(v) < 20) != (places[p].attr != NULL)) continue;
        if (places[p].standard == MANY && places[p].attr && !vn_node_attr(v->node, "axes")) continue;
        VN_TRY(one_place(v, p, err));
    }
    if (vn_name_in("ReverseSequence", v->node->op)) VN_TRY(sequence_axes(v, err));
    return VN_OK;
}

vn_status_t vn_name_axis(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, axes, err); }
