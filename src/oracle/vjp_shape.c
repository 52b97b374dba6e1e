/* vjp_shape.c -- cotangents through operators that move elements: the same elements moved back, those used several times added up.
 *
 * Claim GRAD-4: the cotangent of a moved element is that of its place in the result; of an element used several times, their sum; of one
 *   that was left out, zero.
 */
#include <string.h>

#include "oracle/vjp.h"

#define X vn_vjp_in(v, 0)
#define Y vn_vjp_out(v, 0)
#define G (v->cot[0])

static void reshape(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X);
    vn_vjp_give(v, 0, vn_vjp_reshape(v, G, x->rank, x->dims));
}

static void transpose(vn_vjp_t *v, int param) {
    (void)param;
    int64_t count, back[VN_MAX_RANK] = {0};
    const int64_t *perm = vn_node_ints(&v->node, "perm", &count);
    const int rank = vn_vjp_fact(v, X)->rank;
    for (int d = 0; d < rank; ++d) {
        const int64_t p = perm && d < count ? perm[d] : rank - 1 - d;
        if (p >= 0 && p < rank) back[p] = d;
    }
    vn_vjp_give(v, 0, vn_vjp_transpose(v, G, rank, back));
}

static void expand(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X), *y = vn_vjp_fact(v, Y);
    vn_vjp_give(v, 0, vn_vjp_unbroadcast(v, G, y->rank, y->dims, x));
}

/* Each axis of length n repeated r times is an axis r beside an axis n. */
static void tile(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X), *y = vn_vjp_fact(v, Y);
    int64_t dims[VN_MAX_RANK];
    bool along[VN_MAX_RANK] = {false};
    int rank = 0;
    if (2 * x->rank > VN_MAX_RANK) {
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "rank %d", x->rank);
        return;
    }
    for (int d = 0; d < x->rank; ++d) {
        along[rank] = true;
        dims[rank++] = x->dims[d] ? y->dims[d] / x->dims[d] : 1;
        dims[rank++] = x->dims[d];
    }
    vn_vjp_give(v, 0, rank ? vn_vjp_sum(v, vn_vjp_reshape(v, G, rank, dims), rank, along, false) : G);
}

/* Entries [start, start + length) of g along an axis. */
static const char *part(vn_vjp_t *v, const char *g, int64_t axis, int64_t start, int64_t length) {
    const int64_t end = start + length, step = 1;
    return vn_vjp_slice(v, g, 1, &start, &end, &axis, &step);
}

static void concat(vn_vjp_t *v, int param) {
    (void)param;
    const int axis = vn_vjp_axis(v, "axis", 0, vn_vjp_fact(v, Y)->rank);
    int64_t start = 0;
    for (int k = 0; k < v->node.n_inputs; ++k) {
        const vn_inferred_value_t *x = vn_vjp_fact(v, vn_vjp_in(v, k));
        if (v->status != VN_OK) return;
        if (vn_vjp_needs(v, k)) vn_vjp_give(v, k, part(v, G, axis, start, x->dims[axis]));
        start += x->dims[axis];
    }
}

/* Pieces side by side; a piece without cotangent is zero. */
static void split(vn_vjp_t *v, int param) {
    (void)param;
    vn_node_t *n;
    const char *pieces[VN_VJP_MAX];
    const int axis = vn_vjp_axis(v, "axis", 0, vn_vjp_fact(v, X)->rank);
    for (int k = 0; k < v->node.n_outputs; ++k) {
        pieces[k] = v->cot[k];
        if (!pieces[k] && !*vn_vjp_out(v, k)) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "output %d is left out, so its size is not known", k);
        if (!pieces[k]) pieces[k] = vn_vjp_filled(v, vn_vjp_fact(v, vn_vjp_out(v, k)), 0);
    }
    const char *d = vn_vjp_emit(v, "Concat", v->node.n_outputs, pieces, &n);
    vn_vjp_int(v, n, "axis", axis);
    vn_vjp_give(v, 0, d);
}

/* g, of shape dims, laid into zeros of length `length` at start, start + step, ... along axis d. */
static const char *spread_along(vn_vjp_t *v, const char *g, int rank, int64_t *dims, int d, int64_t start, int64_t step, int64_t length,
                                vn_dtype_t t) {
    vn_node_t *n;
    int64_t flat[VN_MAX_RANK];
    const int64_t count = dims[d];
    int64_t *places = vn_arena_alloc(v->arena, (size_t)(count ? count : 1), sizeof *places);
    if (!places || count > 1 << 24) vn_vjp_fail(v, VN_ERR_NOMEM, "no memory for %lld places", (long long)count);
    if (v->status != VN_OK) return "";
    for (int64_t i = 0; i < count; ++i) places[i] = start + i * step;
    for (int k = 0; k < rank; ++k) flat[k] = k == d ? count : 1;
    const char *indices = vn_vjp_expand(v, vn_vjp_reshape(v, vn_vjp_list(v, places, (int)count), rank, flat), rank, dims);
    dims[d] = length;
    const char *const in[] = {vn_vjp_expand(v, vn_vjp_scalar(v, t, 0), rank, dims), indices, g};
    const char *y = vn_vjp_emit(v, "ScatterElements", 3, in, &n);
    vn_vjp_int(v, n, "axis", d);
    return y;
}

static void slice(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X), *y = vn_vjp_fact(v, Y);
    int64_t start[VN_MAX_RANK], axes[VN_MAX_RANK], steps[VN_MAX_RANK], dims[VN_MAX_RANK];
    int n = 0, na = 0, ns = 0;
    const char *g = G;
    if (v->version < 10) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "Slice before opset 10");
    if (!vn_vjp_known_ints(v, 1, start, VN_MAX_RANK, &n)) return;
    (void)vn_vjp_known_ints(v, 3, axes, VN_MAX_RANK, &na);
    (void)vn_vjp_known_ints(v, 4, steps, VN_MAX_RANK, &ns);
    if (v->status != VN_OK) return;
    memcpy(dims, y->dims, sizeof dims);
    for (int k = 0; k < n; ++k) {
        const int64_t axis = na ? axes[k] : k, step = ns ? steps[k] : 1;
        const int d = (int)(axis < 0 ? axis + x->rank : axis);
        if (d < 0 || d >= x->rank) vn_vjp_fail(v, VN_ERR_RANGE, "axis %lld", (long long)axis);
        if (v->status != VN_OK) return;
        const int64_t last = step < 0 ? x->dims[d] - 1 : x->dims[d], from = start[k] < 0 ? start[k] + x->dims[d] : start[k];
        const int64_t s = from < 0 ? 0 : from > last ? last : from;
        if (x->dims[d] == y->dims[d] && step == 1) continue;
        g = spread_along(v, g, x->rank, dims, d, s, step, x->dims[d], x->dtype);
    }
    vn_vjp_give(v, 0, g);
}

static void pad(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X);
    int64_t pads[2 * VN_MAX_RANK], start[VN_MAX_RANK], end[VN_MAX_RANK], axes[VN_MAX_RANK], steps[VN_MAX_RANK];
    int n = 0;
    if (strcmp(vn_node_string(&v->node, "mode", "constant"), "constant") != 0 || *vn_vjp_in(v, 3) || v->version < 11)
        vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "only mode constant without axes, of opset 11 or newer");
    if (vn_vjp_needs(v, 2)) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "the constant of the padding is not differentiated");
    if (!vn_vjp_known_ints(v, 1, pads, 2 * VN_MAX_RANK, &n)) return;
    if (n != 2 * x->rank) vn_vjp_fail(v, VN_ERR_SHAPE, "%d pads for rank %d", n, x->rank);
    for (int d = 0; d < x->rank && v->status == VN_OK; ++d) {
        if (pads[d] < 0 || pads[x->rank + d] < 0) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "negative padding");
        start[d] = pads[d];
        end[d] = pads[d] + x->dims[d];
        axes[d] = d;
        steps[d] = 1;
    }
    vn_vjp_give(v, 0, x->rank ? vn_vjp_slice(v, G, x->rank, start, end, axes, steps) : G);
}

/* Zeros of X's shape, into which cotangents are added at the places they came from. */
static void add_at(vn_vjp_t *v, const char *op, const char *indices, const char *updates, int64_t axis) {
    vn_node_t *n;
    const char *const in[] = {vn_vjp_filled(v, vn_vjp_fact(v, X), 0), indices, updates};
    if (v->version < 16) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "adding at indices needs opset 16 or newer");
    const char *d = vn_vjp_emit(v, op, 3, in, &n);
    if (v->status == VN_OK) v->status = vn_node_set_string(v->model, n, "reduction", "add", v->err);
    if (axis >= 0) vn_vjp_int(v, n, "axis", axis);
    vn_vjp_give(v, 0, d);
}

static void gather_elements(vn_vjp_t *v, int param) {
    (void)param;
    add_at(v, "ScatterElements", vn_vjp_in(v, 1), G, vn_vjp_axis(v, "axis", 0, vn_vjp_fact(v, X)->rank));
}

static void gather_nd(vn_vjp_t *v, int param) {
    (void)param;
    if (vn_node_int(&v->node, "batch_dims", 0) != 0) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "batch_dims is not 0");
    add_at(v, "ScatterND", vn_vjp_in(v, 1), G, -1);
}

/* Gather along an axis is GatherElements with the indices laid along that axis and repeated along the others. */
static void gather(vn_vjp_t *v, int param) {
    (void)param;
    const vn_inferred_value_t *x = vn_vjp_fact(v, X), *i = vn_vjp_fact(v, vn_vjp_in(v, 1));
    const int axis = vn_vjp_axis(v, "axis", 0, x->rank);
    int64_t flat[VN_MAX_RANK], wide[VN_MAX_RANK], count = 1;
    for (int d = 0; d < i->rank; ++d) count *= i->dims[d];
    for (int d = 0; d < x->rank; ++d) {
        flat[d] = d == axis ? count : 1;
        wide[d] = d == axis ? count : x->dims[d];
    }
    const char *indices = vn_vjp_expand(v, vn_vjp_reshape(v, vn_vjp_in(v, 1), x->rank, flat), x->rank, wide);
    add_at(v, "ScatterElements", indices, vn_vjp_reshape(v, G, x->rank, wide), axis);
}

static void trilu(vn_vjp_t *v, int param) {
    (void)param;
    vn_node_t *n;
    const char *const in[] = {G, vn_vjp_in(v, 1)};
    const char *d = vn_vjp_emit(v, "Trilu", *in[1] ? 2 : 1, in, &n);
    vn_vjp_int(v, n, "upper", vn_node_int(&v->node, "upper", 1));
    vn_vjp_give(v, 0, d);
}

/* Prefix sums become suffix sums. */
static void cumsum(vn_vjp_t *v, int param) {
    (void)param;
    vn_node_t *n;
    const char *const in[] = {G, vn_vjp_in(v, 1)};
    const char *d = vn_vjp_emit(v, "CumSum", 2, in, &n);
    vn_vjp_int(v, n, "exclusive", vn_node_int(&v->node, "exclusive", 0));
    vn_vjp_int(v, n, "reverse", !vn_node_int(&v->node, "reverse", 0));
    vn_vjp_give(v, 0, d);
}

/* DepthToSpace and SpaceToDepth undo each other in the order DCR. */
static void blocks(vn_vjp_t *v, int to_space) {
    vn_node_t *n;
    if (strcmp(vn_node_string(&v->node, "mode", "DCR"), "DCR") != 0) vn_vjp_fail(v, VN_ERR_UNSUPPORTED, "only mode DCR");
    const char *d = vn_vjp_emit(v, to_space ? "SpaceToDepth" : "DepthToSpace", 1, &G, &n);
    vn_vjp_int(v, n, "blocksize", vn_node_int(&v->node, "blocksize", 1));
    vn_vjp_give(v, 0, d);
}

static const vn_vjp_rule_t rules[] = {
    {"Reshape Flatten Squeeze Unsqueeze", reshape, 0},
    {"Transpose", transpose, 0},
    {"Expand", expand, 0},
    {"Tile", tile, 0},
    {"Concat", concat, 0},
    {"Split", split, 0},
    {"Slice", slice, 0},
    {"Pad", pad, 0},
    {"Gather", gather, 0},
    {"GatherElements", gather_elements, 0},
    {"GatherND", gather_nd, 0},
    {"Trilu", trilu, 0},
    {"CumSum", cumsum, 0},
    {"DepthToSpace", blocks, 1},
    {"SpaceToDepth", blocks, 0},
};

const vn_vjp_table_t vn_vjp_shapes = {.rules = rules, .count = sizeof rules / sizeof *rules};
