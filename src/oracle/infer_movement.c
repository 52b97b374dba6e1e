/* infer_movement.c -- shapes of movement and index operators whose operands have open dimensions or whose data decide. */
#include <string.h>

#include "oracle/infer_rules.h"

static const vn_inferred_value_t *operand(const vn_infer_node_t *n, int k) { return &n->in[k]->v; }

/* Nothing but the type: rank and dims stay open. */
static vn_status_t type_only(vn_infer_node_t *n, vn_dtype_t t) {
    vn_rule_out(n, 0, t, -1, NULL);
    return VN_OK;
}

/* Axes of Squeeze, Unsqueeze: an attribute before opset 13, operand 1 since. given: there are some; false: not known. */
static bool axes_known(const vn_infer_node_t *n, int64_t *axes, int *count, bool *given) {
    *count = 0;
    if (n->version >= 13) {
        *given = n->n_in > 1 && n->in[1];
        return !*given || vn_fact_all_ints(n->in[1], VN_MAX_RANK, axes, count);
    }
    int64_t k;
    const int64_t *v = vn_node_ints(n->node, "axes", &k);
    *given = v != NULL;
    if (k > VN_MAX_RANK) return false;
    for (int64_t i = 0; i < k; ++i) axes[i] = v[i];
    *count = (int)k;
    return true;
}

/* ---- the same elements in another shape ---- */

vn_status_t vn_rule_reshape(vn_infer_node_t *n, int param) {
    (void)param;
    int64_t want[VN_MAX_RANK], out[VN_MAX_RANK], have[VN_MAX_RANK] = {0};
    bool known[VN_MAX_RANK];
    int count, open = -1, unknown = 0;
    if (!vn_infer_has(n, 0) || !vn_infer_has(n, 1) || !vn_fact_ints(n->in[1], VN_MAX_RANK, want, known, &count))
        return type_only(n, VN_UNDEFINED);
    const vn_inferred_value_t *x = operand(n, 0);
    const bool keep_zero = n->version >= 14 && vn_node_int(n->node, "allowzero", 0) != 0;
    if (x->rank >= 0) memcpy(have, x->dims, sizeof have);
    for (int k = 0; k < count; ++k) {
        out[k] = known[k] ? want[k] : -1;
        if (!known[k]) {
            ++unknown;
        } else if (want[k] == -1) {
            open = k;
        } else if (want[k] == 0 && !keep_zero) {
            out[k] = vn_rule_dim(n, 0, k);
            if (out[k] >= 0) continue;
            if (k < x->rank) have[k] = 1, want[k] = 1; /* open, but the same on both sides (not 0: of nothing, -1 could be any number) */
            else ++unknown;
        }
    }
    const int64_t all = x->rank >= 0 ? vn_rule_product(have, 0, x->rank) : -1;
    int64_t rest = 1;
    for (int k = 0; k < count; ++k)
        if (k != open && known[k]) rest *= want[k] == 0 && !keep_zero ? out[k] : want[k];
    if (open >= 0 && !unknown && all >= 0 && rest > 0 && all % rest == 0) out[open] = all / rest;
    if (open < 0 && unknown == 1 && all >= 0 && rest > 0 && all % rest == 0) /* the one unknown entry takes what is left, -1 or not */
        for (int k = 0; k < count; ++k)
            if (!known[k]) out[k] = all / rest;
    vn_rule_out(n, 0, VN_UNDEFINED, count, out);
    return VN_OK;
}

vn_status_t vn_rule_flatten(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t axis = vn_node_int(n->node, "axis", 1), d[2] = {-1, -1};
    if (axis < 0 && rank >= 0) axis += rank;
    if (rank >= 0 && axis >= 0 && axis <= rank) {
        d[0] = vn_rule_product(operand(n, 0)->dims, 0, (int)axis);
        d[1] = vn_rule_product(operand(n, 0)->dims, (int)axis, rank);
    }
    vn_rule_out(n, 0, VN_UNDEFINED, 2, d);
    return VN_OK;
}

vn_status_t vn_rule_squeeze(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t axes[VN_MAX_RANK], out[VN_MAX_RANK];
    int count, left = 0;
    bool given, drop[VN_MAX_RANK] = {false};
    if (rank < 0 || !axes_known(n, axes, &count, &given)) return type_only(n, VN_UNDEFINED);
    for (int k = 0; k < rank && !given; ++k) {
        if (operand(n, 0)->dims[k] < 0) return type_only(n, VN_UNDEFINED); /* an open dimension may be 1 */
        drop[k] = operand(n, 0)->dims[k] == 1;
    }
    for (int i = 0; i < count; ++i) {
        int k;
        VN_TRY(vn_rule_axis(n, axes[i], rank, &k));
        drop[k] = true;
    }
    for (int k = 0; k < rank; ++k)
        if (!drop[k]) out[left++] = operand(n, 0)->dims[k];
    vn_rule_out(n, 0, VN_UNDEFINED, left, out);
    return VN_OK;
}

vn_status_t vn_rule_unsqueeze(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t axes[VN_MAX_RANK], out[VN_MAX_RANK];
    int count, from = 0;
    bool given, fresh[VN_MAX_RANK] = {false};
    if (rank < 0 || !axes_known(n, axes, &count, &given) || rank + count > VN_MAX_RANK) return type_only(n, VN_UNDEFINED);
    for (int i = 0; i < count; ++i) {
        int k;
        VN_TRY(vn_rule_axis(n, axes[i], rank + count, &k));
        fresh[k] = true;
    }
    for (int k = 0; k < rank + count; ++k) out[k] = fresh[k] ? 1 : from < rank ? operand(n, 0)->dims[from++] : -1;
    vn_rule_out(n, 0, VN_UNDEFINED, rank + count, out);
    return VN_OK;
}

vn_status_t vn_rule_transpose(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t count, out[VN_MAX_RANK];
    const int64_t *perm = vn_node_ints(n->node, "perm", &count);
    if (rank < 0 && !perm) return type_only(n, VN_UNDEFINED);
    if (perm && (count > VN_MAX_RANK || (rank >= 0 && count != rank)))
        return vn_infer_fail(n, VN_ERR_SHAPE, "perm has %lld entries for %d dimensions", (long long)count, rank);
    const int r = perm ? (int)count : rank;
    for (int k = 0; k < r; ++k) out[k] = vn_rule_dim(n, 0, perm ? (int)(perm[k] >= 0 && perm[k] < r ? perm[k] : r) : r - 1 - k);
    vn_rule_out(n, 0, VN_UNDEFINED, r, out);
    return VN_OK;
}

vn_status_t vn_rule_concat(vn_infer_node_t *n, int param) {
    (void)param;
    int rank = -1, axis;
    int64_t out[VN_MAX_RANK], sum = 0;
    for (int k = 0; k < n->n_in; ++k)
        if (vn_rule_rank(n, k) >= 0) rank = vn_rule_rank(n, k);
    if (rank < 0) return type_only(n, VN_UNDEFINED);
    VN_TRY(vn_rule_axis(n, vn_node_int(n->node, "axis", 1), rank, &axis));
    for (int d = 0; d < rank; ++d) out[d] = -1;
    for (int k = 0; k < n->n_in; ++k) {
        if (vn_rule_rank(n, k) >= 0 && vn_rule_rank(n, k) != rank) return vn_infer_fail(n, VN_ERR_SHAPE, "input %d has another rank", k);
        for (int d = 0; d < rank; ++d) {
            const int64_t here = vn_rule_dim(n, k, d);
            if (d == axis) {
                sum = sum < 0 || here < 0 ? -1 : sum + here;
                continue;
            }
            if (here >= 0 && out[d] >= 0 && here != out[d])
                return vn_infer_fail(n, VN_ERR_SHAPE, "input %d has %lld at dimension %d, others %lld", k, (long long)here, d,
                                     (long long)out[d]);
            if (here >= 0) out[d] = here;
        }
    }
    out[axis] = sum;
    vn_rule_out(n, 0, VN_UNDEFINED, rank, out);
    return VN_OK;
}

vn_status_t vn_rule_split(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t sizes[VN_INFER_PART], out[VN_MAX_RANK], count = 0;
    int axis, given = 0;
    if (rank < 0) {
        for (int k = 0; k < n->n_out; ++k) vn_rule_out(n, k, VN_UNDEFINED, -1, NULL);
        return VN_OK;
    }
    VN_TRY(vn_rule_axis(n, vn_node_int(n->node, "axis", 0), rank, &axis));
    const int64_t *attr = vn_node_ints(n->node, "split", &count), dim = vn_rule_dim(n, 0, axis);
    const bool operand_given = n->version >= 13 && n->n_in > 1 && n->in[1];
    for (int64_t i = 0; attr && n->version < 13 && i < count && i < VN_INFER_PART; ++i) sizes[given++] = attr[i];
    const bool sized = operand_given ? vn_fact_all_ints(n->in[1], VN_INFER_PART, sizes, &given) : given > 0;
    memcpy(out, operand(n, 0)->dims, sizeof out);
    for (int k = 0; k < n->n_out; ++k) {
        out[axis] = sized && k < given ? sizes[k] : -1;
        if (!sized && !operand_given && dim >= 0) { /* equal parts, the last one smaller since opset 18 */
            const int64_t each = dim / n->n_out + (dim % n->n_out != 0), before = each * k;
            out[axis] = before + each <= dim ? each : dim > before ? dim - before : 0;
        }
        vn_rule_out(n, k, VN_UNDEFINED, rank, out);
    }
    return VN_OK;
}

vn_status_t vn_rule_expand(vn_infer_node_t *n, int param) {
    (void)param;
    int64_t want[VN_MAX_RANK], out[VN_MAX_RANK];
    bool known[VN_MAX_RANK];
    int count;
    const int rank = vn_rule_rank(n, 0);
    if (rank < 0 || !vn_infer_has(n, 1) || !vn_fact_ints(n->in[1], VN_MAX_RANK, want, known, &count)) return type_only(n, VN_UNDEFINED);
    const int r = rank > count ? rank : count;
    for (int k = 0; k < r; ++k) {
        const int64_t a = k < r - rank ? 1 : operand(n, 0)->dims[k - (r - rank)];
        const int64_t b = k < r - count ? 1 : known[k - (r - count)] ? want[k - (r - count)] : -1;
        out[k] = a == 1 ? b : b == 1 || b < 0 ? a : b;
    }
    vn_rule_out(n, 0, VN_UNDEFINED, r, out);
    return VN_OK;
}

/* ---- chosen elements ---- */

vn_status_t vn_rule_gather(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0), picks = vn_rule_rank(n, 1);
    int axis, r = 0;
    int64_t out[VN_MAX_RANK];
    if (rank < 0 || picks < 0 || rank - 1 + picks > VN_MAX_RANK) return type_only(n, VN_UNDEFINED);
    VN_TRY(vn_rule_axis(n, vn_node_int(n->node, "axis", 0), rank, &axis));
    for (int k = 0; k < axis; ++k) out[r++] = operand(n, 0)->dims[k];
    for (int k = 0; k < picks; ++k) out[r++] = operand(n, 1)->dims[k];
    for (int k = axis + 1; k < rank; ++k) out[r++] = operand(n, 0)->dims[k];
    vn_rule_out(n, 0, VN_UNDEFINED, r, out);
    return VN_OK;
}

vn_status_t vn_rule_gather_nd(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0), picks = vn_rule_rank(n, 1);
    const int64_t batch = vn_node_int(n->node, "batch_dims", 0), depth = vn_rule_dim(n, 1, -1);
    int r = 0;
    int64_t out[VN_MAX_RANK];
    if (rank < 0 || picks < 1 || depth < 0 || batch < 0 || batch + depth > rank || picks - 1 + rank - batch - depth > VN_MAX_RANK)
        return type_only(n, VN_UNDEFINED);
    for (int k = 0; k < picks - 1; ++k) out[r++] = operand(n, 1)->dims[k];
    for (int k = (int)(batch + depth); k < rank; ++k) out[r++] = operand(n, 0)->dims[k];
    vn_rule_out(n, 0, VN_UNDEFINED, r, out);
    return VN_OK;
}

vn_status_t vn_rule_like(vn_infer_node_t *n, int k) {
    if (!vn_infer_has(n, k)) return VN_ERR_UNSUPPORTED;
    vn_rule_out(n, 0, VN_UNDEFINED, operand(n, k)->rank, operand(n, k)->dims);
    return VN_OK;
}

vn_status_t vn_rule_compress(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    const vn_attr_t *a = vn_node_attr(n->node, "axis");
    int64_t out[VN_MAX_RANK] = {-1};
    if (!a || rank < 0) {
        vn_rule_out(n, 0, VN_UNDEFINED, a ? -1 : 1, out);
        return VN_OK;
    }
    int axis;
    VN_TRY(vn_rule_axis(n, a->i, rank, &axis));
    memcpy(out, operand(n, 0)->dims, sizeof out);
    out[axis] = -1;
    vn_rule_out(n, 0, VN_UNDEFINED, rank, out);
    return VN_OK;
}

vn_status_t vn_rule_non_zero(vn_infer_node_t *n, int param) {
    (void)param;
    const int64_t out[2] = {vn_rule_rank(n, 0), -1};
    vn_rule_out(n, 0, VN_I64, 2, out);
    return VN_OK;
}

vn_status_t vn_rule_unique(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    const vn_attr_t *a = vn_node_attr(n->node, "axis");
    int64_t out[VN_MAX_RANK] = {-1}, all = rank >= 0 ? vn_rule_product(operand(n, 0)->dims, 0, rank) : -1;
    int axis, r = a ? rank : 1;
    if (a && rank >= 0) {
        VN_TRY(vn_rule_axis(n, a->i, rank, &axis));
        memcpy(out, operand(n, 0)->dims, sizeof out);
        all = out[axis];
        out[axis] = -1;
    }
    const int64_t open = -1;
    vn_rule_out(n, 0, VN_UNDEFINED, r, r >= 0 ? out : NULL);
    vn_rule_out(n, 1, VN_I64, 1, &open);
    vn_rule_out(n, 2, VN_I64, 1, &all);
    vn_rule_out(n, 3, VN_I64, 1, &open);
    return VN_OK;
}

vn_status_t vn_rule_boxes(vn_infer_node_t *n, int param) {
    (void)param;
    const int64_t out[2] = {-1, 3};
    vn_rule_out(n, 0, VN_I64, 2, out);
    return VN_OK;
}

vn_status_t vn_rule_top(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t out[VN_MAX_RANK], k = -1;
    int axis;
    if (n->version < 10) k = vn_node_int(n->node, "k", -1);
    else if (!vn_infer_has(n, 1) || !vn_fact_int(n->in[1], &k)) k = -1;
    if (rank >= 0) {
        VN_TRY(vn_rule_axis(n, vn_node_int(n->node, "axis", -1), rank, &axis));
        memcpy(out, operand(n, 0)->dims, sizeof out);
        out[axis] = k;
    }
    vn_rule_out(n, 0, vn_infer_has(n, 0) ? operand(n, 0)->dtype : VN_UNDEFINED, rank, out);
    vn_rule_out(n, 1, VN_I64, rank, out);
    return VN_OK;
}

/* ---- made from shapes ---- */

vn_status_t vn_rule_shape(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t start = vn_node_int(n->node, "start", 0), end = vn_node_int(n->node, "end", INT64_MAX), count = -1;
    bool known[VN_MAX_RANK];
    if (rank >= 0) {
        start = start < 0 ? (start + rank < 0 ? 0 : start + rank) : start > rank ? rank : start;
        end = end < 0 ? (end + rank < 0 ? 0 : end + rank) : end > rank ? rank : end;
        count = end > start ? end - start : 0;
    }
    vn_rule_out(n, 0, VN_I64, 1, &count);
    if (rank < 0 || count == 0 || n->n_out < 1 || !*n->node->outputs[0]) return VN_OK;
    const int64_t *dims = operand(n, 0)->dims + start;
    for (int k = 0; k < count; ++k) known[k] = dims[k] >= 0;
    return vn_fact_set_part(&n->out[0], dims, known, (int)count, n->err);
}

vn_status_t vn_rule_size(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    vn_rule_out(n, 0, VN_I64, 0, NULL);
    const int64_t all = rank >= 0 ? vn_rule_product(operand(n, 0)->dims, 0, rank) : -1;
    const bool known = all >= 0;
    return known && *n->node->outputs[0] ? vn_fact_set_part(&n->out[0], &all, &known, 1, n->err) : VN_OK;
}

vn_status_t vn_rule_range(vn_infer_node_t *n, int param) {
    (void)param;
    vn_rule_out(n, 0, VN_UNDEFINED, 1, NULL);
    return VN_OK;
}

vn_status_t vn_rule_col2im(vn_infer_node_t *n, int param) {
    (void)param;
    int64_t image[VN_MAX_RANK], block[VN_MAX_RANK], d[VN_MAX_RANK];
    bool known[VN_MAX_RANK];
    int count, blocks;
    if (!vn_infer_has(n, 1) || !vn_fact_ints(n->in[1], VN_MAX_RANK - 2, image, known, &count)) return type_only(n, VN_UNDEFINED);
    d[0] = vn_rule_dim(n, 0, 0);
    d[1] = vn_rule_dim(n, 0, 1);
    const bool sized = vn_infer_has(n, 2) && vn_fact_all_ints(n->in[2], VN_MAX_RANK, block, &blocks);
    const int64_t taps = sized ? vn_rule_product(block, 0, blocks) : -1;
    d[1] = d[1] >= 0 && taps > 0 ? d[1] / taps : -1;
    for (int k = 0; k < count; ++k) d[2 + k] = known[k] ? image[k] : -1;
    vn_rule_out(n, 0, VN_UNDEFINED, count + 2, d);
    return VN_OK;
}

vn_status_t vn_rule_filled(vn_infer_node_t *n, int param) {
    (void)param;
    const vn_attr_t *a = vn_node_attr(n->node, "value");
    const vn_dtype_t t = a && a->t ? a->t->dtype : VN_F32;
    int64_t want[VN_MAX_RANK];
    bool known[VN_MAX_RANK];
    int count;
    if (!vn_infer_has(n, 0) || !vn_fact_ints(n->in[0], VN_MAX_RANK, want, known, &count)) return type_only(n, t);
    for (int k = 0; k < count; ++k)
        if (!known[k]) want[k] = -1;
    vn_rule_out(n, 0, t, count, want);
    return VN_OK;
}

vn_status_t vn_rule_one_hot(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    const vn_dtype_t t = vn_infer_has(n, 2) ? operand(n, 2)->dtype : VN_UNDEFINED;
    int64_t out[VN_MAX_RANK], depth = -1;
    int axis, from = 0;
    if (rank < 0 || rank >= VN_MAX_RANK) return type_only(n, t);
    if (!vn_infer_has(n, 1) || !vn_fact_int(n->in[1], &depth)) depth = -1;
    VN_TRY(vn_rule_axis(n, vn_node_int(n->node, "axis", -1), rank + 1, &axis));
    for (int k = 0; k <= rank; ++k) out[k] = k == axis ? depth : operand(n, 0)->dims[from++];
    vn_rule_out(n, 0, t, rank + 1, out);
    return VN_OK;
}
