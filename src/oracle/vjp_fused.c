/* vjp_fused.c -- cotangents through softmax, normalisations and losses.
 *
 * Claim GRAD-6: softmax y (g - sum g y); log-softmax g - exp(y) sum g; a normalised value z = d r: r (gs - mean gs - z mean(gs z)), without the
 *   first mean where no mean is subtracted (gs = g scale); cross entropy: weight (softmax - one-hot).
 */
#include <string.h>

#include "oracle/vjp.h"

#define X vn_vjp_in(v, 0)
#define Y vn_vjp_out(v, 0)
#define G (v->cot[0])

/* ---- softmax ---- */

/* From opset 13 one axis, before that all axes from `axis` on. */
static void softmax_axes(vn_vjp_t *v, int rank, bool *along) {
    const int axis = vn_vjp_axis(v, "axis", v->version >= 13 ? -1 : 1, rank);
    for (int d = 0; d < rank; ++d) along[d] = v->version >= 13 ? d == axis : d >= axis;
}

static void softmax(vn_vjp_t *v, int logarithm) {
    const int rank = vn_vjp_fact(v, X)->rank;
    bool along[VN_MAX_RANK];
    softmax_axes(v, rank, along);
    const char *d;
    if (logarithm) d = vn_vjp_sub(v, G, vn_vjp_mul(v, vn_vjp_1(v, "Exp", Y), vn_vjp_sum(v, G, rank, along, true)));
    else d = vn_vjp_mul(v, Y, vn_vjp_sub(v, G, vn_vjp_sum(v, vn_vjp_mul(v, G, Y), rank, along, true)));
    vn_vjp_give(v, 0, d);
}

/* ---- normalisations ---- */

/* One tensor normalised along some axes. */
typedef struct normal {
    int rank;
    bool along[VN_MAX_RANK];
    double count, epsilon;
    vn_dtype_t type;
    bool centred;
    const char *z, *r; /* normalised value; 1 / sqrt(variance + epsilon) */
} normal_t;

static const char *mean(vn_vjp_t *v, const normal_t *m, const char *x) {
    return vn_vjp_div(v, vn_vjp_sum(v, x, m->rank, m->along, true), vn_vjp_scalar(v, m->type, m->count));
}

static void normalise(vn_vjp_t *v, normal_t *m, const char *x, const int64_t *dims) {
    m->count = 1;
    for (int d = 0; d < m->rank; ++d)
        if (m->along[d]) m->count *= (double)dims[d];
    const char *d = m->centred ? vn_vjp_sub(v, x, mean(v, m, x)) : x;
    const char *spread = vn_vjp_add(v, mean(v, m, vn_vjp_mul(v, d, d)), vn_vjp_scalar(v, m->type, m->epsilon));
    m->r = vn_vjp_1(v, "Reciprocal", vn_vjp_1(v, "Sqrt", spread));
    m->z = vn_vjp_mul(v, d, m->r);
}

static const char *normal_cotangent(vn_vjp_t *v, const normal_t *m, const char *gs) {
    const char *inner = m->centred ? vn_vjp_sub(v, gs, mean(v, m, gs)) : gs;
    return vn_vjp_mul(v, m->r, vn_vjp_sub(v, inner, vn_vjp_mul(v, m->z, mean(v, m, vn_vjp_mul(v, gs, m->z)))));
}

static void give_reduced(vn_vjp_t *v, int k, const char *d, const vn_inferred_value_t *x) {
    vn_vjp_give(v, k, vn_vjp_unbroadcast(v, d, x->rank, x->dims, vn_vjp_fact(v, vn_vjp_in(v, k))));
}

/* LayerNormalization and RMSNormalization. */
static void layer_norm(vn_vjp_t *v, int centred) {
    const vn_inferred_value_t *x = vn_vjp_fact(v, X);
    if (v->cot[1] || v->cot[2]) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "mean and deviation are not differentiated");
    normal_t m = {.rank = x->rank, .type = x->dtype, .centred = centred != 0, .epsilon = vn_node_float(&v->node, "epsilon", (double)1e-5f)};
    const int axis = vn_vjp_axis(v, "axis", -1, x->rank);
    for (int d = 0; d < x->rank; ++d) m.along[d] = d >= axis;
    if (v->status != VN_OK) return;
    normalise(v, &m, X, x->dims);
    if (vn_vjp_needs(v, 0)) vn_vjp_give(v, 0, normal_cotangent(v, &m, vn_vjp_mul(v, G, vn_vjp_in(v, 1))));
    if (vn_vjp_needs(v, 1)) give_reduced(v, 1, vn_vjp_mul(v, G, m.z), x);
    if (vn_vjp_needs(v, 2)) give_reduced(v, 2, G, x);
}

/* Per-channel operand k, [C], as [1, C, 1, ...]. */
static const char *channel(vn_vjp_t *v, int k, const vn_inferred_value_t *x) {
    int64_t dims[VN_MAX_RANK];
    for (int d = 0; d < x->rank; ++d) dims[d] = d == 1 ? x->dims[1] : 1;
    return vn_vjp_reshape(v, vn_vjp_in(v, k), x->rank, dims);
}

static const char *channel_sum(vn_vjp_t *v, const char *d, const vn_inferred_value_t *x) {
    bool along[VN_MAX_RANK];
    for (int k = 0; k < x->rank; ++k) along[k] = k != 1;
    return vn_vjp_sum(v, d, x->rank, along, false);
}

/* InstanceNormalization and GroupNormalization (scale per channel): [N, groups, rest] normalised along the last axis. */
static void group_norm(vn_vjp_t *v, int grouped) {
    const vn_inferred_value_t *x = vn_vjp_fact(v, X);
    if (v->status != VN_OK || x->rank < 2) {
        vn_vjp_fail(v, VN_ERR_SHAPE, "rank below 2");
        return;
    }
    const int64_t groups = grouped ? vn_node_int(&v->node, "num_groups", 1) : x->dims[1];
    if (grouped && v->version < 21) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "scale per group (before opset 21)");
    if (groups < 1 || x->dims[1] % groups) vn_vjp_fail(v, VN_ERR_SHAPE, "%lld groups", (long long)groups);
    if (v->status != VN_OK) return;
    normal_t m = {.rank = 3,
                  .type = x->dtype,
                  .centred = true,
                  .along = {false, false, true},
                  .epsilon = vn_node_float(&v->node, "epsilon", (double)1e-5f)};
    int64_t flat[3] = {x->dims[0], groups, x->dims[1] / groups};
    for (int d = 2; d < x->rank; ++d) flat[2] *= x->dims[d];
    normalise(v, &m, vn_vjp_reshape(v, X, 3, flat), flat);
    if (vn_vjp_needs(v, 0)) {
        const char *gs = vn_vjp_reshape(v, vn_vjp_mul(v, G, channel(v, 1, x)), 3, flat);
        vn_vjp_give(v, 0, vn_vjp_reshape(v, normal_cotangent(v, &m, gs), x->rank, x->dims));
    }
    if (vn_vjp_needs(v, 1)) vn_vjp_give(v, 1, channel_sum(v, vn_vjp_mul(v, G, vn_vjp_reshape(v, m.z, x->rank, x->dims)), x));
    if (vn_vjp_needs(v, 2)) vn_vjp_give(v, 2, channel_sum(v, G, x));
}

/* Inference: y = (x - mean) s r + b with r = 1 / sqrt(var + epsilon). */
static void batch_norm(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X);
    if (v->version < 9 || vn_node_int(&v->node, "training_mode", 0)) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "training mode, or before opset 9");
    if (v->status != VN_OK || x->rank < 2) return;
    const char *spread = vn_vjp_add(v, channel(v, 4, x), vn_vjp_scalar(v, x->dtype, vn_node_float(&v->node, "epsilon", (double)1e-5f)));
    const char *r = vn_vjp_1(v, "Reciprocal", vn_vjp_1(v, "Sqrt", spread)), *sr = vn_vjp_mul(v, channel(v, 1, x), r);
    const char *gsr = vn_vjp_mul(v, G, sr), *d = vn_vjp_sub(v, X, channel(v, 3, x));
    if (vn_vjp_needs(v, 0)) vn_vjp_give(v, 0, gsr);
    if (vn_vjp_needs(v, 1)) vn_vjp_give(v, 1, channel_sum(v, vn_vjp_mul(v, G, vn_vjp_mul(v, d, r)), x));
    if (vn_vjp_needs(v, 2)) vn_vjp_give(v, 2, channel_sum(v, G, x));
    if (vn_vjp_needs(v, 3)) vn_vjp_give(v, 3, vn_vjp_1(v, "Neg", channel_sum(v, gsr, x)));
    if (!vn_vjp_needs(v, 4)) return;
    const char *half = vn_vjp_mul(v, vn_vjp_mul(v, gsr, d), vn_vjp_mul(v, vn_vjp_mul(v, r, r), vn_vjp_scalar(v, x->dtype, -0.5)));
    vn_vjp_give(v, 4, channel_sum(v, half, x));
}

/* ---- losses over classes along axis 1 ---- */

/* [N, 1, ...]: what g, the class weights, ignore_index and the mean make of each position. */
static const char *position_weights(vn_vjp_t *v, const vn_inferred_value_t *x, const char *onehot, bool *classes) {
    const char *labels = vn_vjp_in(v, 1), *reduction = vn_node_string(&v->node, "reduction", "mean");
    const vn_attr_t *ignored = vn_node_attr(&v->node, "ignore_index");
    const vn_dtype_t label_type = vn_vjp_fact(v, labels)->dtype;
    int64_t dims[VN_MAX_RANK];
    bool all[VN_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    dims[1] = 1;
    for (int d = 0; d < x->rank; ++d) all[d] = true;
    const char *hit = *vn_vjp_in(v, 2) ? vn_vjp_mul(v, onehot, channel(v, 2, x)) : onehot;
    const char *w = vn_vjp_sum(v, hit, x->rank, classes, true);
    if (ignored) {
        vn_tensor_t *t = NULL;
        const char *name = vn_arena_printf(v->arena, "gradient/ignore/%d", v->fresh++);
        if (v->status == VN_OK && !name) vn_vjp_fail(v, VN_ERR_NOMEM, "no memory");
        if (v->status == VN_OK) v->status = vn_tensor_new(label_type, 0, NULL, &t, v->err);
        if (v->status == VN_OK) vn_tensor_set_i64(t, 0, ignored->i);
        if (v->status == VN_OK) v->status = vn_graph_add_init(v->graph, name, t, v->err);
        vn_tensor_free(t);
        const char *out = vn_vjp_reshape(v, vn_vjp_2(v, "Equal", labels, name ? name : ""), x->rank, dims);
        w = vn_vjp_3(v, "Where", out, vn_vjp_scalar(v, x->dtype, 0), w);
    }
    if (strcmp(reduction, "none") == 0) return vn_vjp_mul(v, w, vn_vjp_reshape(v, G, x->rank, dims));
    if (strcmp(reduction, "mean") == 0) w = vn_vjp_div(v, w, vn_vjp_sum(v, w, x->rank, all, true));
    return vn_vjp_mul(v, w, G);
}

static void loss(vn_vjp_t *v, int entropy) {
    const vn_inferred_value_t *x = vn_vjp_fact(v, X);
    if (v->status != VN_OK || x->rank < 2) {
        vn_vjp_fail(v, VN_ERR_SHAPE, "rank below 2");
        return;
    }
    if (vn_vjp_needs(v, 2)) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "class weights are not differentiated");
    bool classes[VN_MAX_RANK] = {false};
    classes[1] = true;
    vn_node_t *n;
    const char *soft = NULL;
    if (entropy) {
        if (v->version < 13) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "it needs Softmax along axis 1, of opset 13 or newer");
        const char *scores = X;
        soft = vn_vjp_emit(v, "Softmax", 1, &scores, &n);
        vn_vjp_int(v, n, "axis", 1);
    }
    if (G) {
        const int64_t pair = 2;
        vn_tensor_t *t = NULL;
        const char *values = vn_arena_printf(v->arena, "gradient/onoff/%d", v->fresh++);
        if (v->status == VN_OK && !values) vn_vjp_fail(v, VN_ERR_NOMEM, "no memory");
        if (v->status == VN_OK) v->status = vn_tensor_new(x->dtype, 1, &pair, &t, v->err);
        if (v->status == VN_OK) vn_tensor_set_f64(t, 1, 1);
        if (v->status == VN_OK) v->status = vn_graph_add_init(v->graph, values, t, v->err);
        vn_tensor_free(t);
        const char *const in[] = {vn_vjp_in(v, 1), vn_vjp_list(v, &x->dims[1], 1), values ? values : ""};
        const char *onehot = vn_vjp_emit(v, "OneHot", 3, in, &n);
        vn_vjp_int(v, n, "axis", 1);
        const char *w = position_weights(v, x, onehot, classes);
        vn_vjp_give(v, 0, vn_vjp_mul(v, w, entropy ? vn_vjp_sub(v, soft, onehot) : vn_vjp_1(v, "Neg", onehot)));
    }
    if (entropy && v->cot[1]) /* the log-probabilities are an output too */
        vn_vjp_give(v, 0, vn_vjp_sub(v, v->cot[1], vn_vjp_mul(v, soft, vn_vjp_sum(v, v->cot[1], x->rank, classes, true))));
}

static const vn_vjp_rule_t rules[] = {
    {"Softmax", softmax, 0},
    {"LogSoftmax", softmax, 1},
    {"LayerNormalization", layer_norm, 1},
    {"RMSNormalization", layer_norm, 0},
    {"InstanceNormalization", group_norm, 0},
    {"GroupNormalization", group_norm, 1},
    {"BatchNormalization", batch_norm, 0},
    {"SoftmaxCrossEntropyLoss", loss, 1},
    {"NegativeLogLikelihoodLoss", loss, 0},
};

const vn_vjp_table_t vn_vjp_fused = {.rules = rules, .count = sizeof rules / sizeof *rules};
