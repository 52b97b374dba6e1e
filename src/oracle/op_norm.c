/* op_norm.c -- family "normalisation": LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization,
 * MeanVarianceNormalization and their contrib relatives; BatchNormalization, LpNormalization and LRN stand in files of their own.
 *
 * Claims NORM-1 to NORM-3: norm.c. Specials: a NaN or an infinity in a group makes the group NaN (root mean square: an infinity gives 0 to
 * the finite elements). Mean and InvStdDev have the stash type.
 */
#include <math.h>
#include <string.h>

#include "oracle/norm.h"

static vn_status_t check_float(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    return vn_dtype_is_float(x->dtype) ? VN_OK : vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s, not a float type", vn_dtype_name(x->dtype));
}

static vn_status_t check_size(vn_eval_t *e, int k, int64_t n) {
    if (!vn_has(e, k) || e->in[k].t->count == n) return VN_OK;
    return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has %lld elements, %lld are needed", k, (long long)e->in[k].t->count, (long long)n);
}

/* Scale or bias that is itself uncertain: no statement is made (bounds to +Inf). */
static void forget(vn_eval_t *e, int first, int last) {
    bool any = false;
    for (int k = first; k <= last; ++k) any |= vn_arg_err(e, k) != NULL;
    for (int k = 0; any && k < e->n_out; ++k)
        for (int64_t i = 0; e->out[k].bound && i < e->out[k].count; ++i) e->out[k].bound[i] = INFINITY;
}

static vn_dtype_t stash_of(const vn_eval_t *e) {
    const int64_t t = vn_node_int(e->node, "stash_type", VN_F32);
    return vn_dtype_is_float((vn_dtype_t)t) ? (vn_dtype_t)t : VN_F32;
}

static vn_status_t infer_same(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    e->out[0].dtype = x->dtype;
    e->out[0].rank = x->rank;
    memcpy(e->out[0].dims, x->dims, sizeof x->dims);
    return VN_OK;
}

/* Trailing axes from `axis` on; statistics keep them as 1. */
static vn_status_t trailing(vn_eval_t *e, vn_norm_job_t *j, int *axis) {
    const vn_tensor_t *x = e->in[0].t;
    bool along[VN_MAX_RANK] = {false};
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", -1), x->rank, axis));
    j->stat_rank = x->rank;
    for (int d = 0; d < x->rank; ++d) {
        along[d] = d >= *axis;
        j->stat_dims[d] = along[d] ? 1 : x->dims[d];
    }
    vn_rows_plan(x->rank, x->dims, along, &j->rows);
    return VN_OK;
}

static vn_status_t infer_layer(vn_eval_t *e) {
    vn_norm_job_t j = {.k_mean = -1};
    int axis;
    VN_TRY(trailing(e, &j, &axis));
    VN_TRY(infer_same(e));
    if (strcmp(e->node->op, "RMSNormalization") == 0) e->out[0].dtype = e->in[1].t->dtype;
    for (int k = 1; k < e->n_out; ++k) {
        e->out[k].dtype = stash_of(e);
        e->out[k].rank = j.stat_rank;
        memcpy(e->out[k].dims, j.stat_dims, sizeof j.stat_dims);
    }
    return VN_OK;
}

/* The operand as rows. */
static vn_status_t operand(vn_eval_t *e, vn_norm_job_t *j) {
    vn_row_job_t rows = {.shape = &j->rows};
    VN_TRY(vn_rows_operand(e, 0, &rows));
    j->x = rows.in[0];
    j->source = rows.source;
    return VN_OK;
}

static vn_status_t layer(vn_eval_t *e, bool mean) {
    VN_TRY(check_float(e));
    const vn_tensor_t *x = e->in[0].t;
    int axis;
    vn_norm_job_t j = {.rule = vn_norm_rule(e, vn_node_float(e->node, "epsilon", 1e-5f), mean),
                       .k_out = 0,
                       .k_mean = mean ? 1 : -1,
                       .k_inv = mean ? 2 : 1,
                       .stash = stash_of(e),
                       .note = mean ? "one-pass-variance" : "cast-before-scale"};
    VN_TRY(trailing(e, &j, &axis));
    VN_TRY(operand(e, &j));
    j.err = vn_arg_err(e, 0);
    j.x_var = e->in[0].var;
    double *owned[2] = {NULL, NULL};
    vn_status_t s = vn_norm_affine(e, &j, 1, mean ? 2 : -1, x->rank, x->dims, axis, owned);
    const vn_dtype_t type = strcmp(e->node->op, "RMSNormalization") == 0 ? e->in[1].t->dtype : x->dtype; /* V of the schema */
    if (s == VN_OK) s = vn_norm_run(e, &j, type, x->rank, x->dims);
    vn_free(owned[0]);
    vn_free(owned[1]);
    if (s == VN_OK) forget(e, 1, 2);
    return s;
}

static vn_status_t eval_layer(vn_eval_t *e) { return layer(e, true); }
static vn_status_t eval_rms(vn_eval_t *e) { return layer(e, false); }

/* [N, C, ...] as N * groups rows of C / groups channels. */
static vn_status_t channels(vn_eval_t *e, vn_norm_job_t *j, int64_t groups) {
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank < 2) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 of rank %d has no channel axis", x->rank);
    if (groups < 1 || x->dims[1] % groups)
        return vn_eval_fail(e, VN_ERR_RANGE, "%lld groups do not divide %lld channels", (long long)groups, (long long)x->dims[1]);
    int64_t inner = 1;
    for (int d = 2; d < x->rank; ++d) inner *= x->dims[d];
    const int64_t per = x->dims[1] / groups, dims[3] = {x->dims[0], groups, per * inner};
    const bool along[3] = {false, false, true};
    vn_rows_plan(3, dims, along, &j->rows);
    j->groups = groups;
    j->channels = per;
    j->inner = inner > 0 ? inner : 1;
    j->layout = VN_NORM_CHANNEL;
    j->k_mean = j->k_inv = -1;
    j->x = vn_arg_f64(e, 0);
    j->gamma = vn_arg_f64(e, 1);
    j->beta = vn_arg_f64(e, 2);
    j->err = vn_arg_err(e, 0);
    j->x_var = e->in[0].var;
    return j->x && j->gamma && j->beta ? VN_OK : VN_ERR_NOMEM;
}

static vn_status_t eval_instance(vn_eval_t *e) {
    VN_TRY(check_float(e));
    const vn_tensor_t *x = e->in[0].t;
    vn_norm_job_t j = {.rule = vn_norm_rule(e, vn_node_float(e->node, "epsilon", 1e-5f), true), .note = "one-pass-variance"};
    VN_TRY(channels(e, &j, x->rank > 1 ? x->dims[1] : 1));
    VN_TRY(check_size(e, 1, x->dims[1]));
    VN_TRY(check_size(e, 2, x->dims[1]));
    VN_TRY(vn_norm_run(e, &j, x->dtype, x->rank, x->dims));
    forget(e, 1, 2);
    return VN_OK;
}

static vn_status_t eval_group(vn_eval_t *e) {
    VN_TRY(check_float(e));
    const vn_tensor_t *x = e->in[0].t;
    const int64_t groups = vn_node_int(e->node, "num_groups", 0);
    vn_norm_job_t j = {.rule = vn_norm_rule(e, vn_node_float(e->node, "epsilon", 1e-5f), true), .note = "one-pass-variance"};
    VN_TRY(channels(e, &j, groups));
    const bool per_group = e->version < 21; /* opset 18: one scale for each group */
    VN_TRY(check_size(e, 1, per_group ? groups : x->dims[1]));
    VN_TRY(check_size(e, 2, per_group ? groups : x->dims[1]));
    if (per_group) {
        j.inner = j.rows.n > 0 ? j.rows.n : 1;
        j.channels = 1;
    }
    VN_TRY(vn_norm_run(e, &j, x->dtype, x->rank, x->dims));
    forget(e, 1, 2);
    return VN_OK;
}

/* The standard's body divides by (deviation + 1e-9), claim NORM-1; the text has no epsilon. The bound holds for both. */
static vn_status_t eval_mvn(vn_eval_t *e) {
    VN_TRY(check_float(e));
    const vn_tensor_t *x = e->in[0].t;
    static const int64_t usual[] = {0, 2, 3};
    int64_t count = 0;
    const int64_t *axes = vn_node_ints(e->node, "axes", &count);
    if (!vn_node_attr(e->node, "axes")) axes = usual, count = 3;
    bool along[VN_MAX_RANK] = {false};
    for (int64_t i = 0; i < count; ++i) {
        int a;
        VN_TRY(vn_eval_axis(e, axes[i], x->rank, &a));
        along[a] = true;
    }
    const double body_epsilon = 1e-9; /* of the standard's function body, claim NORM-1 */
    vn_norm_job_t j = {
        .rule = vn_norm_rule(e, body_epsilon, true), .k_mean = -1, .k_inv = -1, .layout = VN_NORM_NONE, .note = "one-pass-variance"};
    j.rule.outside = true;
    vn_rows_plan(x->rank, x->dims, along, &j.rows);
    j.x = vn_arg_f64(e, 0);
    if (!j.x) return VN_ERR_NOMEM;
    j.err = vn_arg_err(e, 0);
    j.x_var = e->in[0].var;
    return vn_norm_run(e, &j, x->dtype, x->rank, x->dims);
}

enum { P = VN_OP_PROPAGATES, PR = VN_OP_PROPAGATES | VN_OP_REFINES };
static const vn_op_t rows[] = {
    {"", "LayerNormalization", 17, 0, VN_CLASS_NORMALISATION, PR | VN_OP_LEAN, "NORM-1", eval_layer, infer_layer, 0},
    {"", "RMSNormalization", 23, 0, VN_CLASS_NORMALISATION, PR | VN_OP_LEAN, "NORM-3", eval_rms, infer_layer, 0},
    {"", "SimplifiedLayerNormalization", 1, 0, VN_CLASS_NORMALISATION, PR | VN_OP_LEAN, "NORM-3", eval_rms, infer_layer, 0},
    {"com.microsoft", "SimplifiedLayerNormalization", 1, 0, VN_CLASS_NORMALISATION, PR | VN_OP_LEAN, "NORM-3", eval_rms, infer_layer, 0},
    {"", "InstanceNormalization", 6, 0, VN_CLASS_NORMALISATION, PR, "NORM-1", eval_instance, infer_same, 0},
    {"", "GroupNormalization", 18, 20, VN_CLASS_NORMALISATION, PR, "NORM-1", eval_group, infer_same, 0},
    {"", "GroupNormalization", 21, 0, VN_CLASS_NORMALISATION, PR, "NORM-1", eval_group, infer_same, 0},
    {"", "MeanVarianceNormalization", 9, 0, VN_CLASS_NORMALISATION, PR, "NORM-1", eval_mvn, infer_same, 0},
    {"", "BatchNormalization", 1, 0, VN_CLASS_NORMALISATION, PR, "NORM-4", vn_eval_batch_norm, vn_infer_batch_norm, 0},
    {"", "LpNormalization", 1, 0, VN_CLASS_NORMALISATION, PR, "NORM-5", vn_eval_lp_norm, infer_same, 0},
    {"", "LRN", 1, 0, VN_CLASS_NORMALISATION, VN_OP_REFINES, "NORM-6", vn_eval_lrn, infer_same, 0},
    {"com.microsoft", "SkipLayerNormalization", 1, 0, VN_CLASS_NORMALISATION, PR, "NORM-7", vn_eval_skip_norm, vn_infer_skip_norm, 0},
    {"com.microsoft", "SkipSimplifiedLayerNormalization", 1, 0, VN_CLASS_NORMALISATION, PR, "NORM-7", vn_eval_skip_rms, vn_infer_skip_norm,
     0},
    {"com.microsoft", "EmbedLayerNormalization", 1, 0, VN_CLASS_NORMALISATION, VN_OP_REFINES, "NORM-7", vn_eval_embed_norm,
     vn_infer_embed_norm, 0},
};

const vn_family_t vn_family_normalisation = {"normalisation", rows, sizeof rows / sizeof *rows};
