/* semantic_channel.c -- a scale, zero point, statistic or addend of another channel or group; the input or the weights of another group.
 *
 * Each is the question with parameter operands whose entries are read from other places: the next or the last channel, the first for all,
 * the other of a pair, groups of another length. Claim NAME-1 decides. Where a table of the usual wrong places does not hold, the places are
 * solved for: dequantised values tell the scale that was used (claim NAME-CHANNEL-1: every wrong element is (q - z) s of some entry of the
 * tables, and runs of elements share their entry).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/edit.h"
#include "judge/names.h"

enum { PARAMETERS = 4 };

static const struct {
    const char *domain, *op;
    int k[PARAMETERS]; /* operands with one entry per channel or group; -1: none */
    const char *what;
} table[] = {
    {"", "DequantizeLinear", {1, 2, -1, -1}, "scale or zero point"},
    {"", "QuantizeLinear", {1, 2, -1, -1}, "scale or zero point"},
    {"", "QLinearConv", {4, 5, 8, -1}, "weight scale, zero point or addend"},
    {"", "QLinearMatMul", {4, 5, 1, 2}, "scale or zero point"},
    {"", "MatMulInteger", {2, 3, -1, -1}, "zero point"},
    {"", "ConvInteger", {3, -1, -1, -1}, "zero point"},
    {"", "BatchNormalization", {1, 2, 3, 4}, "scale, addend, mean or variance"},
    {"", "InstanceNormalization", {1, 2, -1, -1}, "scale or addend"},
    {"", "GroupNormalization", {1, 2, -1, -1}, "scale or addend"},
    {"", "PRelu", {1, -1, -1, -1}, "slope"},
    {"", "Conv", {2, -1, -1, -1}, "addend"},
    {"", "ConvTranspose", {2, -1, -1, -1}, "addend"},
    {"", "Gemm", {2, -1, -1, -1}, "addend"},
    {"com.microsoft", "MatMulNBits", {2, 3, -1, -1}, "scale or zero point"},
    {"com.microsoft", "GatherBlockQuantized", {2, 3, -1, -1}, "scale or zero point"},
    {"com.microsoft", "MatMulIntegerToFloat", {2, 3, 4, 5}, "scale or zero point"},
    {"com.microsoft", "DynamicQuantizeMatMul", {2, 3, -1, -1}, "scale or zero point"},
};

/* ---- which entry is read instead ---- */

typedef enum rule { NEXT, PREVIOUS, NEXT_ROUND, PREVIOUS_ROUND, FIRST, LAST, PAIR, HALVES, REVERSED, DOUBLED, HALF, MODULO, RULES } rule_t;
static const char *const rule_words[RULES] = {
    [NEXT] = "of the next place (the last for itself)",
    [PREVIOUS] = "of the place before (the first for itself)",
    [NEXT_ROUND] = "of the next place (the first for the last)",
    [PREVIOUS_ROUND] = "of the place before (the last for the first)",
    [FIRST] = "of the first place for all",
    [LAST] = "of the last place for all",
    [PAIR] = "of the other of each pair",
    [HALVES] = "of the other half",
    [REVERSED] = "in reversed order",
    [DOUBLED] = "of place 2 i (the last for those beyond)",
    [HALF] = "of place i / 2",
    [MODULO] = "of place i modulo half of them",
};
static int64_t place(rule_t rule, int64_t i, int64_t n) {
    int64_t j = i;
    switch (rule) {
    case NEXT: j = i + 1; break;
    case PREVIOUS: j = i ? i - 1 : 0; break;
    case NEXT_ROUND: j = (i + 1) % n; break;
    case PREVIOUS_ROUND: j = (i + n - 1) % n; break;
    case FIRST: j = 0; break;
    case LAST: j = n - 1; break;
    case PAIR: j = i ^ 1; break;
    case HALVES: j = (i + n / 2) % n; break;
    case REVERSED: j = n - 1 - i; break;
    case DOUBLED: j = 2 * i; break;
    case HALF: j = i / 2; break;
    case MODULO: j = n > 1 ? i % (n / 2) : i; break;
    case RULES: break;
    }
    return j < n ? j : n - 1;
}
/* Rules that give the same places as one before. */
static bool repeats(rule_t rule, int64_t n) {
    if (n < 2) return true;
    for (rule_t other = NEXT; other < rule; ++other) {
        bool same = true;
        for (int64_t i = 0; i < n && same; ++i) same = place(rule, i, n) == place(other, i, n);
        if (same) return true;
    }
    return false;
}

/* Shape of a table of parameters: the operand's, or of MatMulNBits one row of blocks for each column of the result. */
static int view(const vn_variant_t *v, const vn_tensor_t *t, int64_t *dims) {
    const int64_t n = vn_variant_is(v, "com.microsoft", "MatMulNBits") ? vn_node_int(v->node, "N", 0) : 0;
    if (n > 0 && t->count % n == 0) {
        dims[0] = n;
        dims[1] = t->count / n;
        return 2;
    }
    memcpy(dims, t->dims, sizeof t->dims);
    return t->rank;
}

/* Operand k with its entries along `axis` read by the rule; axis -1: in flat order. Not of that length: left as it is. */
static vn_status_t entries(vn_variant_t *v, int k, int axis, rule_t rule, int64_t length, bool *changed, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    int64_t dims[VN_MAX_RANK], inner = 1;
    if (!t || t->count < 2 || t->count > VN_EDIT_MOST) return VN_OK;
    const int rank = view(v, t, dims);
    if (axis >= rank || (axis >= 0 ? dims[axis] : t->count) != length) return VN_OK;
    for (int d = axis + 1; axis >= 0 && d < rank; ++d) inner *= dims[d];
    int64_t *from = vn_alloc((size_t)t->count, sizeof *from);
    if (!from) return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant");
    for (int64_t i = 0; i < t->count; ++i) {
        const int64_t at = i / inner % length;
        from[i] = i + (place(rule, at, length) - at) * inner;
    }
    vn_tensor_t *copy = NULL;
    vn_status_t s = vn_edit_gather(t, t->rank, t->dims, from, &copy, err);
    vn_free(from);
    if (s == VN_OK) s = vn_variant_input(v, k, copy, err);
    else vn_tensor_free(copy);
    *changed |= s == VN_OK;
    return s;
}

static bool blocked(const vn_variant_t *v) { return vn_node_int(v->node, "block_size", 0) > 0; }

/* All parameters together, then one at a time, along each axis and in flat order. */
static vn_status_t other_places(vn_variant_t *v, const int *k, const char *what, bool *held, vn_error_t *err) {
    const vn_tensor_t *first = NULL;
    for (int i = 0; i < PARAMETERS && !first; ++i)
        if (k[i] >= 0) first = vn_variant_operand(v, k[i]);
    if (!first) return VN_OK;
    int64_t dims[VN_MAX_RANK];
    const int rank = view(v, first, dims);
    for (int axis = rank - 1; axis >= -1 && !*held; --axis) {
        int wide = 0;
        for (int d = 0; d < rank; ++d) wide += dims[d] > 1;
        if (axis < 0 && wide < 2) break; /* the flat order is that of the only axis */
        const int64_t length = axis >= 0 ? dims[axis] : first->count;
        for (rule_t rule = NEXT; rule < RULES && !*held; ++rule) {
            if (repeats(rule, length > 64 ? 64 : length)) continue;
            for (int one = -1; one < PARAMETERS && !*held; ++one) {
                bool changed = false;
                int parts = 0;
                for (int i = 0; i < PARAMETERS; ++i) {
                    const vn_tensor_t *t = k[i] >= 0 ? vn_variant_operand(v, k[i]) : NULL;
                    parts += t && t->count > 1;
                }
                if (one >= 0 && (k[one] < 0 || parts < 2)) continue;
                vn_error_t why;
                vn_status_t s = VN_OK;
                for (int i = 0; i < PARAMETERS && s == VN_OK; ++i)
                    if (k[i] >= 0 && (one < 0 || one == i)) s = entries(v, k[i], axis, rule, length, &changed, &why);
                if (vn_edit_refused(v, &s)) {
                    if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
                    continue;
                }
                if (!changed) continue;
                char which[32] = "";
                if (one >= 0) snprintf(which, sizeof which, " (operand %d)", k[one]);
                VN_TRY(vn_variant_ask(v, VN_BUG, blocked(v) ? "group-index" : "channel-scale", held, err,
                                      "%s with the %s%s %s gives the whole result.", v->node->op, what, which, rule_words[rule]));
            }
        }
    }
    return VN_OK;
}

/* ---- groups of another length ---- */

/* DequantizeLinear, QuantizeLinear: entry i / other along the axis, for elements in groups of `block`. Flat: indices run on into the next row. */
static vn_status_t regroup(vn_variant_t *v, int k, int axis, int64_t block, int64_t other, int64_t length, bool flat, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    if (!t) return VN_OK;
    int64_t step = block, rest = other, dims[VN_MAX_RANK], inner = 1;
    while (rest) { /* groups of the greatest common divisor can say both */
        const int64_t next = step % rest;
        step = rest;
        rest = next;
    }
    memcpy(dims, t->dims, sizeof dims);
    const int64_t groups = t->dims[axis], fine = (length + step - 1) / step;
    dims[axis] = fine;
    for (int d = axis + 1; d < t->rank; ++d) inner *= t->dims[d];
    const int64_t outer = t->count / (groups * inner);
    int64_t *index = vn_alloc((size_t)(outer * fine * inner) + 1, sizeof *index);
    if (!index) return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant");
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t g = 0; g < fine; ++g)
            for (int64_t i = 0; i < inner; ++i) {
                int64_t from = g * step / other, row = o;
                if (flat) {
                    const int64_t per_row = (length + other - 1) / other, at = o * per_row + from;
                    row = at / groups;
                    from = at % groups;
                    if (row >= outer) {
                        row = outer - 1;
                        from = groups - 1;
                    }
                } else if (from >= groups) {
                    from = groups - 1;
                }
                index[(o * fine + g) * inner + i] = (row * groups + from) * inner + i;
            }
    vn_tensor_t *copy = NULL;
    vn_status_t s = vn_edit_gather(t, t->rank, dims, index, &copy, err);
    vn_free(index);
    if (s == VN_OK) s = vn_variant_input(v, k, copy, err);
    else vn_tensor_free(copy);
    return s == VN_OK ? vn_variant_int(v, "block_size", step, err) : s;
}

static vn_status_t group_lengths(vn_variant_t *v, const int *k, bool *held, vn_error_t *err) {
    const int64_t block = vn_node_int(v->node, "block_size", 0);
    const vn_tensor_t *x = vn_variant_operand(v, 0), *scale = vn_variant_operand(v, 1);
    if (!blocked(v) || !x || !scale || scale->rank != x->rank || x->rank < 1) return VN_OK;
    int64_t axis = vn_node_int(v->node, "axis", 1);
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || (!vn_variant_is(v, "", "DequantizeLinear") && !vn_variant_is(v, "", "QuantizeLinear"))) return VN_OK;
    for (int64_t other = 4; other <= 1024 && other / 2 < x->dims[axis] && !*held; other *= 2)
        for (int way = 0; way < 4 && !*held; ++way) { /* both parameters or the scale alone; kept in the row or not */
            const bool both = way < 2, flat = way & 1;
            const bool zero = k[1] >= 0 && vn_variant_operand(v, k[1]);
            if (other == block || (!both && !zero)) continue;
            vn_error_t why;
            vn_status_t s = regroup(v, 1, (int)axis, block, other, x->dims[axis], flat, &why);
            if (s == VN_OK && zero) s = regroup(v, 2, (int)axis, block, both ? other : block, x->dims[axis], flat && both, &why);
            if (s == VN_OK && zero && !both) { /* the zero points stay, in the finer groups of the scale */
                int64_t step = block, rest = other;
                while (rest) {
                    const int64_t next = step % rest;
                    step = rest;
                    rest = next;
                }
                s = step == block ? s : VN_ERR_UNSUPPORTED;
            }
            if (vn_edit_refused(v, &s)) {
                if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
                continue;
            }
            VN_TRY(vn_variant_ask(v, VN_BUG, "group-index", held, err,
                                  "%s with groups of %lld along axis %lld instead of %lld gives the whole result%s.", v->node->op,
                                  (long long)other, (long long)axis, (long long)block, flat ? " (the rows run into each other)" : ""));
        }
    return VN_OK;
}

/* ---- groups of a convolution, of a group norm ---- */

static vn_status_t convolution_groups(vn_variant_t *v, vn_error_t *err) {
    static const struct {
        const char *domain, *op;
        int x, w;
    } ops[] = {{"", "Conv", 0, 1},        {"", "ConvTranspose", 0, 1},          {"", "ConvInteger", 0, 1},
               {"", "QLinearConv", 0, 3}, {"com.microsoft", "FusedConv", 0, 1}, {"", "DeformConv", 0, 1}};
    const int64_t groups = vn_node_int(v->node, "group", 1);
    if (groups < 2) return VN_OK;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; ++o) {
        if (!vn_variant_is(v, ops[o].domain, ops[o].op)) continue;
        for (int weights = 0; weights < 2; ++weights) {
            const int k = weights ? ops[o].w : ops[o].x, axis = weights ? 0 : 1;
            const vn_tensor_t *t = vn_variant_operand(v, k);
            if (!t || t->rank <= axis || t->dims[axis] % groups || t->count > VN_EDIT_MOST) continue;
            const int64_t channels = t->dims[axis], per = channels / groups;
            bool held = false;
            for (rule_t rule = NEXT; rule < RULES && !held; ++rule) {
                if (repeats(rule, groups > 64 ? 64 : groups)) continue;
                int64_t *from = vn_alloc((size_t)channels + 1, sizeof *from);
                if (!from) return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant");
                for (int64_t c = 0; c < channels; ++c) from[c] = place(rule, c / per, groups) * per + c % per;
                vn_tensor_t *copy = NULL;
                vn_error_t why;
                vn_status_t s = vn_edit_lines(t, axis, from, &copy, &why);
                vn_free(from);
                if (s == VN_OK) s = vn_variant_input(v, k, copy, &why);
                if (vn_edit_refused(v, &s)) {
                    if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
                    continue;
                }
                VN_TRY(vn_variant_ask(v, VN_BUG, "group-index", &held, err, "%s with the %s of each group %s gives the whole result.",
                                      v->node->op, weights ? "weights" : "input", rule_words[rule]));
            }
            /* Channels of a group one after the other, or dealt out in turn. */
            for (int way = 0; way < 2 && !held && per > 1; ++way) {
                int64_t *from = vn_alloc((size_t)channels + 1, sizeof *from);
                if (!from) return vn_fail(err, VN_ERR_NOMEM, "no memory for a variant");
                for (int64_t c = 0; c < channels; ++c) from[c] = way ? c % groups * per + c / groups : c % per * groups + c / per;
                vn_tensor_t *copy = NULL;
                vn_error_t why;
                vn_status_t s = vn_edit_lines(t, axis, from, &copy, &why);
                vn_free(from);
                if (s == VN_OK) s = vn_variant_input(v, k, copy, &why);
                if (vn_edit_refused(v, &s)) {
                    if (s != VN_OK) return vn_fail(err, s, "no memory for a variant");
                    continue;
                }
                VN_TRY(vn_variant_ask(v, VN_BUG, "group-index", &held, err,
                                      "%s with the channels of the %s dealt to the groups in turn gives the whole result.", v->node->op,
                                      weights ? "weights" : "input"));
            }
        }
    }
    return VN_OK;
}

static vn_status_t norm_groups(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    const int64_t groups = vn_node_int(v->node, "num_groups", 0);
    if (!vn_variant_is(v, "", "GroupNormalization") || !x || x->rank < 2 || groups < 1) return VN_OK;
    bool held = false;
    for (int64_t g = 1; g <= x->dims[1] && !held; ++g) {
        if (g == groups || x->dims[1] % g) continue;
        VN_TRY(vn_variant_int(v, "num_groups", g, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "group-index", &held, err,
                              "GroupNormalization with %lld groups instead of %lld gives the whole result.", (long long)g,
                              (long long)groups));
    }
    return VN_OK;
}

/* A factor or addend with fewer elements than the result: one entry per channel. */
static vn_status_t elementwise(vn_variant_t *v, vn_error_t *err) {
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i) {
        if (!vn_variant_is(v, "", ops[i]) || v->node->n_inputs != 2) continue;
        for (int k = 0; k < 2; ++k) {
            const vn_tensor_t *t = vn_variant_operand(v, k), *y = v->e->c->actual;
            if (!t || t->count < 2 || y->count % t->count || y->count == t->count) continue;
            bool held = false;
            VN_TRY(other_places(v, (const int[PARAMETERS]){k, -1, -1, -1}, "factor or addend of each channel", &held, err));
        }
    }
    return VN_OK;
}

static vn_status_t channels(vn_variant_t *v, vn_error_t *err) {
    bool held = false;
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        if (!vn_variant_is(v, table[i].domain, table[i].op)) continue;
        VN_TRY(group_lengths(v, table[i].k, &held, err));
        if (!held) VN_TRY(other_places(v, table[i].k, table[i].what, &held, err));
    }
    VN_TRY(convolution_groups(v, err));
    VN_TRY(norm_groups(v, err));
    return elementwise(v, err);
}

vn_status_t vn_name_channels(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, channels, err); }
