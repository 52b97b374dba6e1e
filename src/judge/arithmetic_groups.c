/* arithmetic_groups.c -- which elements of operand 0 a reduction, softmax or norm takes together. */
#include <string.h>

#include "judge/arithmetic.h"

typedef enum axes_rule {
    FROM_ATTRIBUTE, /* attribute or operand `axes`; none: all */
    ONE_AXIS,       /* attribute axis */
    FROM_AXIS,      /* attribute axis and all behind it */
    SPATIAL,        /* all behind the channels */
    CHANNEL_GROUPS, /* num_groups of channels, with all behind them */
    VARIANCE_AXES   /* attribute axes, default 0, 2, 3 */
} axes_rule_t;

static const struct {
    const char *op;
    axes_rule_t rule;
    int64_t axis; /* default */
    bool keeps;
} table[] = {
    {"Softmax", ONE_AXIS, -1, true},
    {"LogSoftmax", ONE_AXIS, -1, true},
    {"LayerNormalization", FROM_AXIS, -1, true},
    {"RMSNormalization", FROM_AXIS, -1, true},
    {"SimplifiedLayerNormalization", FROM_AXIS, -1, true},
    {"LpNormalization", ONE_AXIS, -1, true},
    {"InstanceNormalization", SPATIAL, 0, true},
    {"GroupNormalization", CHANNEL_GROUPS, 0, true},
    {"MeanVarianceNormalization", VARIANCE_AXES, 0, true},
    {"ReduceMean", FROM_ATTRIBUTE, 0, false},
    {"ReduceSum", FROM_ATTRIBUTE, 0, false},
    {"ReduceSumSquare", FROM_ATTRIBUTE, 0, false},
    {"ReduceL1", FROM_ATTRIBUTE, 0, false},
    {"ReduceL2", FROM_ATTRIBUTE, 0, false},
    {"ReduceLogSum", FROM_ATTRIBUTE, 0, false},
    {"ReduceLogSumExp", FROM_ATTRIBUTE, 0, false},
    {"GlobalAveragePool", SPATIAL, 0, false},
};

/* Which axes of t are taken together. False: the node says nothing sensible. */
static bool reduced_axes(const vn_arith_t *a, const vn_tensor_t *t, axes_rule_t rule, int64_t fallback, bool *reduced) {
    const vn_node_t *n = a->c->q->node;
    int64_t count = 0, axis = vn_node_int(n, "axis", fallback);
    const int64_t *axes = vn_node_ints(n, "axes", &count);
    const vn_tensor_t *given = rule == FROM_ATTRIBUTE && !axes ? vn_arith_operand(a, 1) : NULL;
    static const int64_t variance_axes[] = {0, 2, 3};
    const bool old = rule == ONE_AXIS && vn_model_opset(a->c->q->model, n->domain) < 13 && strcmp(n->op, "LpNormalization") != 0;
    if (old) { /* before opset 13 a matrix: all from `axis` (default 1) on */
        rule = FROM_AXIS;
        axis = vn_node_int(n, "axis", 1);
    }
    if (rule == VARIANCE_AXES && !axes) {
        axes = variance_axes;
        count = 3;
    }
    if (given) count = given->count;
    memset(reduced, 0, VN_MAX_RANK * sizeof *reduced);
    if (rule == SPATIAL || rule == CHANNEL_GROUPS) {
        for (int d = 2; d < t->rank; ++d) reduced[d] = true;
        return t->rank >= 2;
    }
    if (rule == ONE_AXIS || rule == FROM_AXIS) {
        if (axis < 0) axis += t->rank;
        if (axis < 0 || axis >= t->rank) return false;
        for (int d = (int)axis; d < (rule == ONE_AXIS ? (int)axis + 1 : t->rank); ++d) reduced[d] = true;
        return true;
    }
    for (int64_t k = 0; k < count; ++k) {
        int64_t d = given ? vn_tensor_get_i64(given, k) : axes[k];
        if (d < 0) d += t->rank;
        if (d < 0 || d >= t->rank) return false;
        reduced[d] = true;
    }
    for (int d = 0; count == 0 && d < t->rank; ++d) reduced[d] = vn_node_int(n, "noop_with_empty_axes", 0) == 0;
    return true;
}

/* Places of all index tuples over the chosen axes, row-major. */
static int64_t *places(const int64_t *dims, const int64_t *strides, int rank, const bool *chosen, bool want, int64_t *count) {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d)
        if (chosen[d] == want) n *= dims[d];
    int64_t *p = vn_alloc((size_t)n + 1, sizeof *p);
    for (int64_t i = 0; p && i < n; ++i) {
        int64_t rest = i;
        for (int d = rank - 1; d >= 0; --d) {
            if (chosen[d] != want) continue;
            p[i] += rest % dims[d] * strides[d];
            rest /= dims[d];
        }
    }
    *count = n;
    return p;
}

vn_status_t vn_groups_of(const vn_arith_t *a, vn_groups_t *out, vn_error_t *err) {
    *out = (vn_groups_t){0};
    const vn_question_t *q = a->c->q;
    const vn_tensor_t *t = vn_arith_operand(a, 0);
    if (!q->node || !t || t->count == 0) return VN_OK;
    size_t row = 0;
    while (row < sizeof table / sizeof *table && strcmp(table[row].op, q->node->op) != 0) ++row;
    bool reduced[VN_MAX_RANK];
    if (row == sizeof table / sizeof *table || !reduced_axes(a, t, table[row].rule, table[row].axis, reduced)) return VN_OK;
    int64_t dims[VN_MAX_RANK], strides[VN_MAX_RANK], step = 1;
    int rank = t->rank;
    memcpy(dims, t->dims, (size_t)rank * sizeof *dims);
    if (table[row].rule == CHANNEL_GROUPS) { /* [N, C, ...] read as [N, groups, C / groups * ...] */
        const int64_t groups = vn_node_int(q->node, "num_groups", 0);
        if (groups < 1 || dims[1] % groups) return VN_OK;
        dims[1] = groups;
        dims[2] = t->count / (dims[0] * groups);
        rank = 3;
        memset(reduced, 0, sizeof reduced);
        reduced[2] = true;
    }
    for (int d = rank - 1; d >= 0; --d) {
        strides[d] = step;
        step *= dims[d];
    }
    out->keeps = table[row].keeps;
    out->base = places(dims, strides, rank, reduced, false, &out->count);
    out->offset = places(dims, strides, rank, reduced, true, &out->size);
    if (out->base && out->offset) return VN_OK;
    vn_groups_free(out);
    return vn_fail(err, VN_ERR_NOMEM, "no memory for the groups of %lld elements", (long long)t->count);
}

void vn_groups_free(vn_groups_t *g) {
    vn_free(g->base);
    vn_free(g->offset);
    *g = (vn_groups_t){0};
}
