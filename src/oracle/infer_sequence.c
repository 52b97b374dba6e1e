/* infer_sequence.c -- sequences and optionals under inference: element type, the shape that all elements share, their number. */
#include "oracle/infer_rules.h"

static vn_fact_t *target(vn_infer_node_t *n) { return n->n_out > 0 && *n->node->outputs[0] ? &n->out[0] : NULL; }

static const vn_fact_t *source(const vn_infer_node_t *n, vn_type_kind_t kind) {
    return n->n_in > 0 && n->in[0] && n->in[0]->v.kind == kind ? n->in[0] : NULL;
}

/* f becomes a list of `length` elements like `item` (NULL: of nothing known). */
static void list_of(vn_fact_t *f, vn_type_kind_t kind, const vn_fact_t *item, int64_t length) {
    vn_fact_t elem = {.v = {.rank = -1}};
    if (item) vn_fact_copy(&elem, item);
    vn_fact_tensor(f, elem.v.dtype, elem.v.rank, elem.v.dims);
    f->v.reason = elem.v.reason;
    vn_fact_clear(&elem);
    f->v.kind = kind;
    f->v.length = length;
}

vn_status_t vn_rule_sequence(vn_infer_node_t *n, int param) {
    (void)param;
    vn_fact_t item = {.v = {.rank = -1}}, *f = target(n);
    bool changed = false;
    for (int k = 0; k < n->n_in; ++k) {
        if (!vn_infer_has(n, k)) return VN_ERR_UNSUPPORTED;
        if (k == 0) vn_fact_copy(&item, n->in[0]);
        else vn_fact_join(&item, n->in[k], &changed);
        vn_fact_forget(&item);
    }
    if (f && n->n_in > 0) list_of(f, VN_TYPE_SEQUENCE, &item, n->n_in);
    vn_fact_clear(&item);
    return VN_OK;
}

vn_status_t vn_rule_sequence_empty(vn_infer_node_t *n, int param) {
    (void)param;
    vn_fact_t *f = target(n);
    const int64_t t = vn_node_int(n->node, "dtype", VN_F32);
    if (!f || t <= 0 || t >= VN_DTYPE_COUNT) return VN_ERR_UNSUPPORTED;
    list_of(f, VN_TYPE_SEQUENCE, NULL, 0);
    f->v.dtype = (vn_dtype_t)t;
    return VN_OK;
}

/* An element of a known list, or what all of them share. OptionalGetElement of something that is no optional is that thing. */
vn_status_t vn_rule_sequence_at(vn_infer_node_t *n, int optional) {
    vn_fact_t *f = target(n);
    const vn_fact_t *s = source(n, optional ? VN_TYPE_OPTIONAL : VN_TYPE_SEQUENCE);
    if (f && optional && !s && n->n_in > 0 && n->in[0] && n->in[0]->v.kind != VN_TYPE_NONE) {
        vn_fact_copy(f, n->in[0]);
        return VN_OK;
    }
    if (!f || !s || s->v.dtype == VN_UNDEFINED) return VN_ERR_UNSUPPORTED;
    vn_fact_tensor(f, s->v.dtype, s->v.rank, s->v.dims);
    f->v.reason = s->v.reason;
    const vn_value_t *v = s->v.value;
    int64_t at = 0;
    if (!v || v->count < 1 || (!optional && (n->n_in < 2 || !n->in[1] || !vn_fact_int(n->in[1], &at)))) return VN_OK;
    if (at < 0) at += v->count;
    if (at < 0 || at >= v->count) return vn_infer_fail(n, VN_ERR_RANGE, "position outside a sequence of %lld", (long long)v->count);
    return vn_fact_value(f, vn_value_retain(v->items[at]), n->err);
}

vn_status_t vn_rule_sequence_length(vn_infer_node_t *n, int param) {
    (void)param;
    const vn_fact_t *s = source(n, VN_TYPE_SEQUENCE);
    vn_rule_out(n, 0, VN_I64, 0, NULL);
    if (!s || s->v.length < 0 || !target(n)) return VN_OK;
    const bool known = true;
    return vn_fact_set_part(&n->out[0], &s->v.length, &known, 1, n->err);
}

vn_status_t vn_rule_sequence_edit(vn_infer_node_t *n, int added) {
    vn_fact_t *f = target(n);
    const vn_fact_t *s = source(n, VN_TYPE_SEQUENCE);
    if (!f || !s) return VN_ERR_UNSUPPORTED;
    const int64_t length = s->v.length < 0 ? -1 : s->v.length + added;
    if (added < 0 || !vn_infer_has(n, 1)) {
        list_of(f, VN_TYPE_SEQUENCE, s, length);
        return VN_OK;
    }
    vn_fact_t item = {.v = {.rank = -1}}, old = {.v = {.rank = -1}};
    bool changed = false;
    vn_fact_copy(&item, n->in[1]);
    vn_fact_forget(&item);
    vn_fact_tensor(&old, s->v.dtype, s->v.rank, s->v.dims);
    if (s->v.length != 0) vn_fact_join(&item, &old, &changed);
    if (item.v.dtype == VN_UNDEFINED) item.v.dtype = n->in[1]->v.dtype;
    list_of(f, VN_TYPE_SEQUENCE, &item, length);
    vn_fact_clear(&item);
    return VN_OK;
}

vn_status_t vn_rule_split_to_sequence(vn_infer_node_t *n, int param) {
    (void)param;
    vn_fact_t *f = target(n);
    const int rank = vn_rule_rank(n, 0);
    if (!f || !vn_infer_has(n, 0)) return VN_ERR_UNSUPPORTED;
    vn_fact_t item = {.v = {.rank = -1}};
    int axis = 0, count = 0;
    if (rank >= 1) VN_TRY(vn_rule_axis(n, vn_node_int(n->node, "axis", 0), rank, &axis));
    vn_fact_tensor(&item, n->in[0]->v.dtype, rank, n->in[0]->v.dims);
    const int64_t dim = vn_rule_dim(n, 0, axis);
    int64_t sizes[VN_INFER_PART], length = -1, each = 1;
    if (!vn_infer_has(n, 1)) {
        length = dim;
        if (rank >= 1) item.v.dims[axis] = 1;
        if (rank >= 1 && vn_node_int(n->node, "keepdims", 1) == 0) {
            for (int k = axis; k + 1 < rank; ++k) item.v.dims[k] = item.v.dims[k + 1];
            --item.v.rank;
        }
    } else if (n->in[1]->v.rank == 0) {
        if (!vn_fact_int(n->in[1], &each) || each < 1) each = -1;
        if (each > 0 && dim >= 0) length = dim / each + (dim % each != 0);
        if (rank >= 1) item.v.dims[axis] = each > 0 && dim >= 0 && dim % each == 0 ? each : -1;
    } else {
        const bool known = vn_fact_all_ints(n->in[1], VN_INFER_PART, sizes, &count);
        length = vn_rule_dim(n, 1, 0);
        bool equal = known && count > 0;
        for (int k = 1; k < count && equal; ++k) equal = sizes[k] == sizes[0];
        if (rank >= 1) item.v.dims[axis] = equal ? sizes[0] : -1;
    }
    list_of(f, VN_TYPE_SEQUENCE, &item, length);
    return VN_OK;
}

vn_status_t vn_rule_concat_sequence(vn_infer_node_t *n, int param) {
    (void)param;
    vn_fact_t *f = target(n);
    const vn_fact_t *s = source(n, VN_TYPE_SEQUENCE);
    const bool stack = vn_node_int(n->node, "new_axis", 0) != 0;
    if (!f || !s) return VN_ERR_UNSUPPORTED;
    const int rank = s->v.rank < 0 ? -1 : s->v.rank + stack;
    int axis = 0;
    int64_t out[VN_MAX_RANK];
    if (rank > VN_MAX_RANK) return vn_infer_fail(n, VN_ERR_RANGE, "the result would have more than %d dimensions", VN_MAX_RANK);
    if (rank >= 0) VN_TRY(vn_rule_axis(n, vn_node_int(n->node, "axis", 0), rank, &axis));
    for (int k = 0, from = 0; k < rank; ++k) {
        if (stack && k == axis) {
            out[k] = s->v.length;
            continue;
        }
        out[k] = s->v.dims[from++];
        if (k == axis && (out[k] < 0 || s->v.length < 0 || !vn_i64_mul(out[k], s->v.length, &out[k]))) out[k] = -1;
    }
    vn_fact_tensor(f, s->v.dtype, rank, out);
    f->v.reason = s->v.reason;
    return VN_OK;
}

vn_status_t vn_rule_identity(vn_infer_node_t *n, int param) {
    (void)param;
    vn_fact_t *f = target(n);
    if (!f || n->n_in < 1 || !n->in[0]) return VN_ERR_UNSUPPORTED;
    vn_fact_clear(f);
    vn_fact_copy(f, n->in[0]);
    return VN_OK;
}

vn_status_t vn_rule_optional(vn_infer_node_t *n, int param) {
    (void)param;
    vn_fact_t *f = target(n);
    if (!f || !vn_infer_has(n, 0)) return VN_ERR_UNSUPPORTED; /* an empty one is evaluated */
    list_of(f, VN_TYPE_OPTIONAL, n->in[0], 1);
    return VN_OK;
}

vn_status_t vn_rule_optional_has(vn_infer_node_t *n, int param) {
    (void)param;
    const vn_fact_t *in = n->n_in > 0 ? n->in[0] : NULL;
    vn_rule_out(n, 0, VN_BOOL, 0, NULL);
    const vn_type_kind_t kind = in ? in->v.kind : VN_TYPE_OPTIONAL;
    const bool known = kind == VN_TYPE_TENSOR || kind == VN_TYPE_SEQUENCE || !in || in->v.length >= 0;
    const int64_t has = in && !(kind == VN_TYPE_OPTIONAL && in->v.length == 0);
    return known && target(n) ? vn_fact_set_part(&n->out[0], &has, &known, 1, n->err) : VN_OK;
}
