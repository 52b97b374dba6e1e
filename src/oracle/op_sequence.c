/* op_sequence.c -- sequences and optionals: values in order, passed on without a copy.
 *
 * Claim MOVE-12: the tensors of a sequence or optional are the operands' tensors, bit for bit. Positions outside the range that the
 * standard accepts are errors, as it says.
 */
#include <string.h>

#include "oracle/move.h"

static vn_status_t need_sequence(vn_eval_t *e, const vn_value_t **v) {
    *v = e->n_in > 0 ? e->in[0].v : NULL;
    if (*v && (*v)->kind == VN_VALUE_SEQUENCE) return VN_OK;
    return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is not a sequence");
}

static vn_status_t give_list(vn_eval_t *e, vn_value_kind_t kind, vn_dtype_t elem, vn_value_t **items, int64_t n) {
    return vn_move_out_value(e, 0, vn_value_list(kind, elem, items, n));
}

/* Position operand k, or `fallback` when it is absent; accepted: [-n, n - 1 + extra]. */
static vn_status_t position_of(vn_eval_t *e, int k, int64_t n, int64_t extra, int64_t fallback, int64_t *at) {
    *at = fallback;
    if (vn_has(e, k)) {
        VN_TRY(vn_move_scalar(e, k, at));
        if (*at < -n || *at >= n + extra)
            return vn_eval_fail(e, VN_ERR_RANGE, "position %lld in a sequence of %lld", (long long)*at, (long long)n);
        if (*at < 0) *at += n;
    }
    if (*at < 0 || *at >= n + extra) return vn_eval_fail(e, VN_ERR_RANGE, "the sequence is empty");
    return VN_OK;
}

vn_status_t vn_move_sequence_construct(vn_eval_t *e) {
    const size_t n = e->n_in ? (size_t)e->n_in : 1;
    vn_value_t **items = vn_alloc(n, sizeof *items);
    vn_status_t s = items ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < e->n_in && s == VN_OK; ++k) {
        s = vn_move_need(e, k);
        if (s == VN_OK && e->in[k].t->dtype != e->in[0].t->dtype)
            s = vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s, input 0 is %s", k, vn_dtype_name(e->in[k].t->dtype),
                             vn_dtype_name(e->in[0].t->dtype));
        if (s == VN_OK && !(items[k] = vn_move_value(&e->in[k]))) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    if (s == VN_OK) s = give_list(e, VN_VALUE_SEQUENCE, e->n_in ? e->in[0].t->dtype : VN_F32, items, e->n_in);
    for (int k = 0; items && k < e->n_in; ++k) vn_value_free(items[k]);
    vn_free(items);
    return s;
}

vn_status_t vn_move_sequence_empty(vn_eval_t *e) {
    const int64_t named = vn_node_int(e->node, "dtype", VN_F32);
    if (named <= 0 || named >= VN_DTYPE_COUNT) return vn_eval_fail(e, VN_ERR_DTYPE, "dtype %lld", (long long)named);
    return give_list(e, VN_VALUE_SEQUENCE, (vn_dtype_t)named, NULL, 0);
}

vn_status_t vn_move_sequence_at(vn_eval_t *e) {
    const vn_value_t *v;
    int64_t at;
    VN_TRY(need_sequence(e, &v));
    if (!vn_has(e, 1)) return vn_eval_fail(e, VN_ERR_SHAPE, "position is missing");
    VN_TRY(position_of(e, 1, v->count, 0, 0, &at));
    return vn_move_out_value(e, 0, vn_value_retain(v->items[at]));
}

vn_status_t vn_move_sequence_length(vn_eval_t *e) {
    const vn_value_t *v;
    VN_TRY(need_sequence(e, &v));
    VN_TRY(vn_out_exact(e, 0, VN_I64, 0, NULL));
    vn_tensor_set_i64(e->out[0].tensor, 0, v->count);
    return VN_OK;
}

/* The items of v with `fresh` put in at `at` (or, NULL, without the one at `at`). */
static vn_status_t edited(vn_eval_t *e, const vn_value_t *v, int64_t at, vn_value_t *fresh) {
    vn_value_t **items = vn_alloc((size_t)v->count + 1, sizeof *items);
    if (!items) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    int64_t n = 0;
    for (int64_t i = 0; i <= v->count; ++i) {
        if (i == at && fresh) items[n++] = fresh;
        if (i < v->count && !(i == at && !fresh)) items[n++] = v->items[i];
    }
    const vn_status_t s = give_list(e, VN_VALUE_SEQUENCE, v->elem, items, n);
    vn_free(items);
    return s;
}

vn_status_t vn_move_sequence_insert(vn_eval_t *e) {
    const vn_value_t *v;
    int64_t at;
    VN_TRY(need_sequence(e, &v));
    VN_TRY(vn_move_need(e, 1));
    if (v->elem != VN_UNDEFINED && e->in[1].t->dtype != v->elem)
        return vn_eval_fail(e, VN_ERR_DTYPE, "a %s tensor into a sequence of %s", vn_dtype_name(e->in[1].t->dtype), vn_dtype_name(v->elem));
    VN_TRY(position_of(e, 2, v->count, 1, v->count, &at));
    vn_value_t *fresh = vn_move_value(&e->in[1]);
    if (!fresh) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const vn_status_t s = edited(e, v, at, fresh);
    vn_value_free(fresh);
    return s;
}

vn_status_t vn_move_sequence_erase(vn_eval_t *e) {
    const vn_value_t *v;
    int64_t at;
    VN_TRY(need_sequence(e, &v));
    VN_TRY(position_of(e, 1, v->count, 0, v->count - 1, &at));
    return edited(e, v, at, NULL);
}

/* ---- SplitToSequence, ConcatFromSequence ---- */

/* Sizes of the parts along an axis of `dim` entries; *sizes is the caller's to free. */
static vn_status_t part_sizes(vn_eval_t *e, int64_t dim, int64_t **sizes, int64_t *n) {
    int64_t each = 1, *list = NULL;
    *sizes = NULL;
    const bool given = vn_has(e, 1);
    if (given) {
        VN_TRY(vn_move_i64(e, 1, &list));
        if (e->in[1].t->rank > 0) {
            int64_t sum = 0;
            bool fits = e->in[1].t->rank == 1;
            *n = e->in[1].t->count;
            for (int64_t i = 0; i < *n; ++i) fits = fits && list[i] >= 0 && vn_i64_add(sum, list[i], &sum);
            *sizes = list;
            return fits && sum == dim ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "split does not sum to %lld entries", (long long)dim);
        }
        each = list[0];
        vn_free(list);
    }
    if (each < 1) return vn_eval_fail(e, VN_ERR_RANGE, "split is %lld", (long long)each);
    *n = dim / each + (dim % each != 0);
    *sizes = vn_alloc((size_t)(*n ? *n : 1), sizeof **sizes);
    if (!*sizes) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld parts", (long long)*n);
    for (int64_t i = 0; i < *n; ++i) (*sizes)[i] = i + 1 < *n ? each : dim - i * each;
    return VN_OK;
}

vn_status_t vn_move_split_to_sequence(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int axis;
    int64_t *sizes, n = 0, start = 0;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 0), t->rank, &axis));
    const bool drop = !vn_has(e, 1) && vn_node_int(e->node, "keepdims", 1) == 0;
    vn_value_t **items = NULL;
    vn_status_t s = part_sizes(e, t->dims[axis], &sizes, &n);
    if (s == VN_OK && !(items = vn_alloc((size_t)(n ? n : 1), sizeof *items))) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < n && s == VN_OK; ++i) {
        vn_tensor_t *part;
        s = vn_move_part(e, t, axis, start, sizes[i], drop, &part);
        if (s == VN_OK && !(items[i] = vn_value_tensor(part))) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        start += sizes[i];
    }
    if (s == VN_OK) s = give_list(e, VN_VALUE_SEQUENCE, t->dtype, items, n);
    for (int64_t i = 0; items && i < n; ++i) vn_value_free(items[i]);
    vn_free(items);
    vn_free(sizes);
    return s;
}

vn_status_t vn_move_concat_from_sequence(vn_eval_t *e) {
    const vn_value_t *v;
    const vn_attr_t *axis = vn_node_attr(e->node, "axis");
    VN_TRY(need_sequence(e, &v));
    if (!axis) return vn_eval_fail(e, VN_ERR_SHAPE, "attribute axis is missing");
    if (v->count > INT32_MAX) return vn_eval_fail(e, VN_ERR_RANGE, "%lld parts", (long long)v->count);
    vn_tensor_t **parts = vn_alloc((size_t)(v->count ? v->count : 1), sizeof *parts), *all = NULL;
    vn_status_t s = parts ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < v->count && s == VN_OK; ++i) {
        if (v->items[i]->kind != VN_VALUE_TENSOR) s = vn_eval_fail(e, VN_ERR_DTYPE, "item %lld is no tensor", (long long)i);
        if (s == VN_OK) s = vn_tensor_contiguous(v->items[i]->tensor, &parts[i], e->err);
    }
    if (s == VN_OK)
        s = vn_move_join(e, (int)v->count, (const vn_tensor_t *const *)parts, axis->i, vn_node_int(e->node, "new_axis", 0) != 0, &all);
    for (int64_t i = 0; parts && i < v->count; ++i) vn_tensor_free(parts[i]);
    vn_free(parts);
    return s == VN_OK ? vn_out_tensor(e, 0, all) : s;
}

/* ---- optionals ---- */

static vn_dtype_t elem_of(const vn_type_t *t) {
    while (t && t->kind != VN_TYPE_TENSOR) t = t->elem;
    return t ? t->dtype : VN_UNDEFINED;
}

vn_status_t vn_move_optional(vn_eval_t *e) {
    if (!vn_has(e, 0)) {
        const vn_attr_t *type = vn_node_attr(e->node, "type");
        if (!type || !type->types) return vn_eval_fail(e, VN_ERR_SHAPE, "an empty optional needs attribute type");
        return give_list(e, VN_VALUE_OPTIONAL, elem_of(type->types), NULL, 0);
    }
    vn_value_t *v = vn_move_value(&e->in[0]);
    if (!v) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const vn_status_t s = give_list(e, VN_VALUE_OPTIONAL, v->kind == VN_VALUE_TENSOR ? v->tensor->dtype : v->elem, &v, 1);
    vn_value_free(v);
    return s;
}

vn_status_t vn_move_optional_has(vn_eval_t *e) {
    const vn_value_t *v = e->n_in > 0 ? e->in[0].v : NULL;
    const bool has = vn_has(e, 0) && !(v && (v->kind == VN_VALUE_ABSENT || (v->kind == VN_VALUE_OPTIONAL && v->count == 0)));
    VN_TRY(vn_out_exact(e, 0, VN_BOOL, 0, NULL));
    vn_tensor_set_i64(e->out[0].tensor, 0, has);
    return VN_OK;
}

vn_status_t vn_move_optional_get(vn_eval_t *e) {
    if (!vn_has(e, 0)) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 is missing");
    if (e->in[0].t) return vn_out_tensor(e, 0, vn_tensor_retain(e->in[0].t));
    const vn_value_t *v = e->in[0].v;
    if (v->kind != VN_VALUE_OPTIONAL) return vn_move_out_value(e, 0, vn_value_retain(v));
    if (v->count == 0) return vn_eval_fail(e, VN_ERR_RANGE, "the optional is empty, which the standard calls an error");
    return vn_move_out_value(e, 0, vn_value_retain(v->items[0]));
}
