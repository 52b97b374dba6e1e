/* op_movement.c -- the movement family: its table, and the operators that keep, cut, join, permute or repeat whole axes.
 *
 * Claim MOVE-1: every element of the result is one element of an operand with its bits unchanged, at the place the standard names. There
 * is no arithmetic, so no bound: results are exact. Reshape and its kin share the operand's data.
 * Copies are views (strides) packed by strided.c.
 */
#include <string.h>

#include "oracle/move.h"

/* ---- the operand as it is, in another shape ---- */

static vn_status_t give_reshaped(vn_eval_t *e, const vn_shape_t *s) {
    vn_tensor_t *t;
    VN_TRY(vn_tensor_reshape(e->in[0].t, s->rank, s->d, &t, e->err));
    return vn_out_tensor(e, 0, t);
}

static vn_status_t eval_identity(vn_eval_t *e) {
    if (!vn_has(e, 0)) return vn_move_need(e, 0);
    if (e->in[0].t) return vn_out_tensor(e, 0, vn_tensor_retain(e->in[0].t));
    return vn_move_out_value(e, 0, vn_move_value(&e->in[0]));
}

static vn_status_t infer_identity(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_shape_t s = vn_shape_of(e->in[0].t);
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

static vn_status_t reshape_shape(vn_eval_t *e, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *t = e->in[0].t;
    const bool allow_zero = e->version >= 14 && vn_node_int(e->node, "allowzero", 0) != 0;
    VN_TRY(vn_arg_ints(e, 1, s->d, VN_MAX_RANK, &s->rank));
    int open = -1;
    bool zero = false;
    int64_t known = 1;
    for (int k = 0; k < s->rank; ++k) {
        if (s->d[k] == 0 && !allow_zero) {
            if (k >= t->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "shape[%d] is 0 (keep) but the operand has %d dimensions", k, t->rank);
            s->d[k] = t->dims[k];
        } else if (s->d[k] == -1) {
            if (open >= 0) return vn_eval_fail(e, VN_ERR_SHAPE, "shape has -1 at %d and at %d", open, k);
            open = k;
            continue;
        } else if (s->d[k] < 0) {
            return vn_eval_fail(e, VN_ERR_SHAPE, "shape[%d] is %lld", k, (long long)s->d[k]);
        }
        zero |= s->d[k] == 0;
        if (!vn_i64_mul(known, s->d[k], &known)) return vn_eval_fail(e, VN_ERR_RANGE, "shape overflows at entry %d", k);
    }
    if (open >= 0) {
        if (zero && allow_zero) return vn_eval_fail(e, VN_ERR_SHAPE, "shape holds both 0 and -1: -1 cannot be determined");
        if (known ? t->count % known != 0 : t->count != 0)
            return vn_eval_fail(e, VN_ERR_SHAPE, "%lld elements do not divide by %lld", (long long)t->count, (long long)known);
        s->d[open] = known ? t->count / known : 0;
    } else if (known != t->count) {
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld elements do not fit a shape of %lld", (long long)t->count, (long long)known);
    }
    return VN_OK;
}

static vn_status_t flatten_shape(vn_eval_t *e, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t axis = vn_node_int(e->node, "axis", 1);
    if (axis < -(int64_t)t->rank || axis > t->rank)
        return vn_eval_fail(e, VN_ERR_RANGE, "axis %lld outside [-%d, %d]", (long long)axis, t->rank, t->rank);
    if (axis < 0) axis += t->rank;
    *s = (vn_shape_t){.rank = 2, .d = {vn_shape_product(t->dims, 0, (int)axis), vn_shape_product(t->dims, (int)axis, t->rank)}};
    return VN_OK;
}

/* Axes of Squeeze and Unsqueeze: an attribute before opset 13, operand 1 since. *given false: absent. */
static vn_status_t axes_of(vn_eval_t *e, int64_t *axes, int *n, bool *given) {
    *n = 0;
    if (e->version >= 13) {
        *given = vn_has(e, 1);
        return *given ? vn_arg_ints(e, 1, axes, VN_MAX_RANK, n) : VN_OK;
    }
    int64_t count;
    const int64_t *v = vn_node_ints(e->node, "axes", &count);
    *given = v != NULL;
    if (count > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "%lld axes", (long long)count);
    for (int k = 0; k < count; ++k) axes[k] = v[k];
    *n = (int)count;
    return VN_OK;
}

static vn_status_t squeeze_shape(vn_eval_t *e, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t axes[VN_MAX_RANK];
    bool given, drop[VN_MAX_RANK] = {false};
    int n;
    VN_TRY(axes_of(e, axes, &n, &given));
    for (int k = 0; k < t->rank && !given; ++k) drop[k] = t->dims[k] == 1;
    for (int i = 0; i < n; ++i) {
        int k;
        VN_TRY(vn_eval_axis(e, axes[i], t->rank, &k));
        if (t->dims[k] != 1)
            return vn_eval_fail(e, VN_ERR_SHAPE, "axis %d has %lld entries and cannot be squeezed", k, (long long)t->dims[k]);
        drop[k] = true;
    }
    s->rank = 0;
    for (int k = 0; k < t->rank; ++k)
        if (!drop[k]) s->d[s->rank++] = t->dims[k];
    return VN_OK;
}

static vn_status_t unsqueeze_shape(vn_eval_t *e, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t axes[VN_MAX_RANK];
    bool given, fresh[VN_MAX_RANK] = {false};
    int n;
    VN_TRY(axes_of(e, axes, &n, &given));
    if (!given) return vn_eval_fail(e, VN_ERR_SHAPE, "axes are missing");
    if (t->rank + n > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "the result would have %d dimensions", t->rank + n);
    s->rank = t->rank + n;
    for (int i = 0; i < n; ++i) {
        int k;
        VN_TRY(vn_eval_axis(e, axes[i], s->rank, &k));
        if (fresh[k]) return vn_eval_fail(e, VN_ERR_SHAPE, "axis %d is named twice", k);
        fresh[k] = true;
    }
    for (int k = 0, from = 0; k < s->rank; ++k) s->d[k] = fresh[k] ? 1 : t->dims[from++];
    return VN_OK;
}

#define RESHAPING(name)                                    \
    static vn_status_t eval_##name(vn_eval_t *e) {         \
        vn_shape_t s;                                      \
        VN_TRY(name##_shape(e, &s));                       \
        return give_reshaped(e, &s);                       \
    }                                                      \
    static vn_status_t infer_##name(vn_eval_t *e) {        \
        vn_shape_t s;                                      \
        VN_TRY(name##_shape(e, &s));                       \
        return vn_move_infer(e, 0, e->in[0].t->dtype, &s); \
    }
RESHAPING(reshape)
RESHAPING(flatten)
RESHAPING(squeeze)
RESHAPING(unsqueeze)

/* ---- views, packed ---- */

static vn_status_t transpose_perm(vn_eval_t *e, int *perm, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t n;
    const int64_t *given = vn_node_ints(e->node, "perm", &n);
    bool seen[VN_MAX_RANK] = {false};
    if (given && n != t->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "perm has %lld entries for rank %d", (long long)n, t->rank);
    s->rank = t->rank;
    for (int k = 0; k < t->rank; ++k) {
        const int64_t from = given ? given[k] : t->rank - 1 - k;
        if (from < 0 || from >= t->rank || seen[from])
            return vn_eval_fail(e, VN_ERR_RANGE, "perm[%d] = %lld is no permutation", k, (long long)from);
        seen[from] = true;
        perm[k] = (int)from;
        s->d[k] = t->dims[from];
    }
    return VN_OK;
}

static vn_status_t eval_transpose(vn_eval_t *e) {
    int perm[VN_MAX_RANK];
    vn_shape_t s;
    vn_tensor_t *plain, *view;
    VN_TRY(transpose_perm(e, perm, &s));
    VN_TRY(vn_plain_from(e, e->in[0].t, &plain));
    vn_status_t status = vn_tensor_permute(plain, perm, &view, e->err);
    vn_tensor_free(plain);
    VN_TRY(status);
    return vn_plain_out_view(e, 0, e->in[0].t->dtype, view);
}

static vn_status_t infer_transpose(vn_eval_t *e) {
    int perm[VN_MAX_RANK];
    vn_shape_t s;
    VN_TRY(transpose_perm(e, perm, &s));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

typedef struct cut {
    int64_t start[VN_MAX_RANK], length[VN_MAX_RANK], step[VN_MAX_RANK];
} cut_t;

static void whole(const vn_tensor_t *t, cut_t *c) {
    for (int k = 0; k < t->rank; ++k) {
        c->start[k] = 0;
        c->length[k] = t->dims[k];
        c->step[k] = 1;
    }
}

/* `from`: plain. Writes the cut to output k. */
static vn_status_t give_cut(vn_eval_t *e, int k, const vn_tensor_t *from, const cut_t *c) {
    vn_tensor_t *view;
    VN_TRY(vn_tensor_slice(from, c->start, c->length, c->step, &view, e->err));
    return vn_plain_out_view(e, k, e->in[0].t->dtype, view);
}

/* Operands or attributes of Slice, by version. */
static vn_status_t slice_lists(vn_eval_t *e, int64_t lists[4][VN_MAX_RANK], int n[4], bool given[4]) {
    static const char *const names[3] = {"starts", "ends", "axes"};
    for (int i = 0; i < 4; ++i) {
        n[i] = 0;
        if (e->version >= 10) {
            given[i] = vn_has(e, i + 1);
            if (given[i]) VN_TRY(vn_arg_ints(e, i + 1, lists[i], VN_MAX_RANK, &n[i]));
            continue;
        }
        int64_t count = 0;
        const int64_t *v = i < 3 ? vn_node_ints(e->node, names[i], &count) : NULL;
        given[i] = v != NULL;
        if (count > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "%s has %lld entries", names[i], (long long)count);
        for (int k = 0; k < count; ++k) lists[i][k] = v[k];
        n[i] = (int)count;
    }
    if (!given[0] || !given[1]) return vn_eval_fail(e, VN_ERR_SHAPE, "starts or ends are missing");
    if (n[0] != n[1] || (given[2] && n[2] != n[0]) || (given[3] && n[3] != n[0]))
        return vn_eval_fail(e, VN_ERR_SHAPE, "starts, ends, axes and steps have %d, %d, %d and %d entries", n[0], n[1], n[2], n[3]);
    return VN_OK;
}

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

static vn_status_t slice_cut(vn_eval_t *e, cut_t *c) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t lists[4][VN_MAX_RANK];
    int n[4];
    bool given[4], seen[VN_MAX_RANK] = {false};
    VN_TRY(slice_lists(e, lists, n, given));
    whole(t, c);
    for (int i = 0; i < n[0]; ++i) {
        int k;
        VN_TRY(vn_eval_axis(e, given[2] ? lists[2][i] : i, t->rank, &k));
        if (seen[k]) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "axis %d is named twice, which the standard leaves undefined", k);
        seen[k] = true;
        const int64_t dim = t->dims[k], step = given[3] ? lists[3][i] : 1;
        int64_t start = lists[0][i], end = lists[1][i];
        if (step == 0) return vn_eval_fail(e, VN_ERR_RANGE, "steps[%d] is 0", i);
        if (start < 0) start += dim; /* cannot overflow: dim >= 0 */
        if (end < 0) end += dim;
        int64_t count = 0;
        if (step > 0) {
            start = clamp(start, 0, dim);
            end = clamp(end, 0, dim);
            if (end > start) count = (end - start - 1) / step + 1;
        } else {
            start = clamp(start, 0, dim - 1);
            end = clamp(end, -1, dim - 1);
            const uint64_t down = (uint64_t)0 - (uint64_t)step; /* |step|, also of INT64_MIN */
            if (dim > 0 && start > end) count = (int64_t)((uint64_t)(start - end - 1) / down) + 1;
        }
        c->start[k] = count ? start : 0;
        c->length[k] = count;
        c->step[k] = count > 1 ? step : 1;
    }
    return VN_OK;
}

static vn_status_t eval_slice(vn_eval_t *e) {
    cut_t c = {.start = {0}};
    vn_tensor_t *plain;
    VN_TRY(slice_cut(e, &c));
    VN_TRY(vn_plain_from(e, e->in[0].t, &plain));
    vn_status_t s = give_cut(e, 0, plain, &c);
    vn_tensor_free(plain);
    return s;
}

static vn_status_t infer_slice(vn_eval_t *e) {
    cut_t c = {.start = {0}};
    VN_TRY(slice_cut(e, &c));
    vn_shape_t s = {.rank = e->in[0].t->rank};
    memcpy(s.d, c.length, sizeof s.d);
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

/* Sizes of the parts: operand or attribute `split`, else equal parts (the last smaller since opset 18). sizes: n_out entries. */
static vn_status_t split_sizes(vn_eval_t *e, int *axis, int64_t *sizes) {
    const vn_tensor_t *t = e->in[0].t;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 0), t->rank, axis));
    const int64_t dim = t->dims[*axis], parts = e->n_out;
    int64_t n = 0;
    const int64_t *attr = e->version < 13 ? vn_node_ints(e->node, "split", &n) : NULL;
    if (e->version >= 13 && vn_has(e, 1)) {
        int64_t *v;
        VN_TRY(vn_move_i64(e, 1, &v));
        n = e->in[1].t->count;
        for (int64_t i = 0; i < n && i < parts; ++i) sizes[i] = v[i];
        vn_free(v);
    } else if (attr) {
        for (int64_t i = 0; i < n && i < parts; ++i) sizes[i] = attr[i];
    } else {
        const int64_t wanted = vn_node_int(e->node, "num_outputs", parts);
        if (e->version >= 18 && wanted != parts)
            return vn_eval_fail(e, VN_ERR_SHAPE, "num_outputs is %lld, the node has %lld outputs", (long long)wanted, (long long)parts);
        if (e->version < 18 && dim % parts)
            return vn_eval_fail(e, VN_ERR_SHAPE, "axis %d of %lld entries does not split into %lld equal parts", *axis, (long long)dim,
                                (long long)parts);
        const int64_t each = dim / parts + (dim % parts != 0);
        int64_t left = dim;
        for (int64_t i = 0; i < parts; ++i) {
            sizes[i] = left < each ? left : each;
            left -= sizes[i];
        }
        return VN_OK;
    }
    if (n != parts) return vn_eval_fail(e, VN_ERR_SHAPE, "split has %lld entries for %lld outputs", (long long)n, (long long)parts);
    int64_t sum = 0;
    for (int64_t i = 0; i < parts; ++i) {
        if (sizes[i] < 0) return vn_eval_fail(e, VN_ERR_RANGE, "split[%lld] is %lld", (long long)i, (long long)sizes[i]);
        if (!vn_i64_add(sum, sizes[i], &sum)) return vn_eval_fail(e, VN_ERR_RANGE, "split overflows");
    }
    if (sum != dim)
        return vn_eval_fail(e, VN_ERR_SHAPE, "split sums to %lld, axis %d has %lld entries", (long long)sum, *axis, (long long)dim);
    return VN_OK;
}

static vn_status_t split(vn_eval_t *e, bool with_data) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    vn_tensor_t *plain = NULL;
    int axis;
    if (e->n_out < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "the node has no outputs");
    int64_t *sizes = vn_alloc((size_t)e->n_out, sizeof *sizes);
    if (!sizes) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_status_t s = split_sizes(e, &axis, sizes);
    cut_t c = {.start = {0}};
    if (s == VN_OK) whole(t, &c);
    if (s == VN_OK && with_data) s = vn_plain_from(e, t, &plain);
    for (int k = 0; k < e->n_out && s == VN_OK; ++k) {
        c.length[axis] = sizes[k];
        if (!with_data) {
            vn_shape_t shape = {.rank = t->rank};
            memcpy(shape.d, c.length, sizeof shape.d);
            s = vn_move_infer(e, k, t->dtype, &shape);
        } else if (vn_move_wanted(e, k)) {
            const int64_t keep = c.start[axis];
            if (sizes[k] == 0) c.start[axis] = 0; /* an empty part has no first element */
            s = give_cut(e, k, plain, &c);
            c.start[axis] = keep;
        }
        c.start[axis] += sizes[k];
    }
    vn_tensor_free(plain);
    vn_free(sizes);
    return s;
}
static vn_status_t eval_split(vn_eval_t *e) { return split(e, true); }
static vn_status_t infer_split(vn_eval_t *e) { return split(e, false); }

static vn_status_t concat_parts(vn_eval_t *e, const vn_tensor_t **parts) {
    for (int k = 0; k < e->n_in; ++k) {
        VN_TRY(vn_move_need(e, k));
        parts[k] = e->in[k].t;
    }
    return VN_OK;
}

static vn_status_t eval_concat(vn_eval_t *e) {
    const vn_attr_t *axis = vn_node_attr(e->node, "axis");
    vn_tensor_t *t = NULL;
    if (!axis) return vn_eval_fail(e, VN_ERR_SHAPE, "attribute axis is missing");
    const vn_tensor_t **parts = vn_alloc((size_t)(e->n_in ? e->n_in : 1), sizeof *parts);
    if (!parts) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_status_t s = concat_parts(e, parts);
    if (s == VN_OK) s = vn_move_join(e, e->n_in, parts, axis->i, false, &t);
    vn_free(parts);
    return s == VN_OK ? vn_out_tensor(e, 0, t) : s;
}

static vn_status_t infer_concat(vn_eval_t *e) {
    int axis;
    for (int k = 0; k < e->n_in; ++k) VN_TRY(vn_move_need(e, k));
    VN_TRY(vn_move_need(e, 0));
    vn_shape_t s = vn_shape_of(e->in[0].t);
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 1), s.rank, &axis));
    for (int k = 1; k < e->n_in; ++k) {
        if (e->in[k].t->rank != s.rank)
            return vn_eval_fail(e, VN_ERR_SHAPE, "part %d has rank %d, part 0 has rank %d", k, e->in[k].t->rank, s.rank);
        for (int d = 0; d < s.rank; ++d)
            if (d != axis && e->in[k].t->dims[d] != s.d[d])
                return vn_eval_fail(e, VN_ERR_SHAPE, "part %d has another shape than part 0", k);
        if (!vn_i64_add(s.d[axis], e->in[k].t->dims[axis], &s.d[axis]))
            return vn_eval_fail(e, VN_ERR_RANGE, "the joined dimension overflows");
    }
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

static vn_status_t expand_shape(vn_eval_t *e, vn_shape_t *s) {
    int64_t want[VN_MAX_RANK];
    int n;
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    VN_TRY(vn_arg_ints(e, 1, want, VN_MAX_RANK, &n));
    for (int k = 0; k < n; ++k)
        if (want[k] < 0) return vn_eval_fail(e, VN_ERR_SHAPE, "shape[%d] is %lld", k, (long long)want[k]);
    VN_TRY(vn_broadcast_shape(e->in[0].t->rank, e->in[0].t->dims, n, want, &s->rank, s->d, e->err));
    return vn_shape_check(e, e->in[0].t->dtype, s);
}

static vn_status_t eval_expand(vn_eval_t *e) {
    vn_shape_t s;
    vn_tensor_t *plain, *view;
    VN_TRY(expand_shape(e, &s));
    VN_TRY(vn_plain_from(e, e->in[0].t, &plain));
    vn_status_t status = vn_tensor_broadcast(plain, s.rank, s.d, &view, e->err);
    vn_tensor_free(plain);
    VN_TRY(status);
    return vn_plain_out_view(e, 0, e->in[0].t->dtype, view);
}

static vn_status_t infer_expand(vn_eval_t *e) {
    vn_shape_t s;
    VN_TRY(expand_shape(e, &s));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

static vn_status_t tile_shape(vn_eval_t *e, int64_t *repeats, vn_shape_t *s) {
    int n;
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    VN_TRY(vn_arg_ints(e, 1, repeats, VN_MAX_RANK, &n));
    *s = vn_shape_of(e->in[0].t);
    if (n != s->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "repeats has %d entries for rank %d", n, s->rank);
    for (int k = 0; k < n; ++k)
        if (repeats[k] < 0 || !vn_i64_mul(s->d[k], repeats[k], &s->d[k]))
            return vn_eval_fail(e, VN_ERR_RANGE, "repeats[%d] is %lld", k, (long long)repeats[k]);
    return vn_shape_check(e, e->in[0].t->dtype, s);
}

static vn_status_t eval_tile(vn_eval_t *e) {
    int64_t repeats[VN_MAX_RANK];
    vn_shape_t s;
    vn_tensor_t *plain, *all;
    const vn_dtype_t t = e->in[0].t ? e->in[0].t->dtype : VN_UNDEFINED;
    VN_TRY(tile_shape(e, repeats, &s));
    VN_TRY(vn_plain_from(e, e->in[0].t, &plain));
    vn_status_t status = vn_plain_new(e, t, &s, &all);
    if (status == VN_OK && all->count) {
        vn_strided_t c = {.size = vn_plain_size(plain)};
        for (int k = 0; k < s.rank; ++k) { /* axis k is (which copy, place in the copy) */
            vn_strided_axis(&c, repeats[k], 0, plain->dims[k] * all->strides[k]);
            vn_strided_axis(&c, plain->dims[k], plain->strides[k], all->strides[k]);
        }
        vn_strided_copy(&c, plain->data, all->data);
    }
    if (status == VN_OK) status = vn_plain_out(e, 0, t, all);
    vn_tensor_free(plain);
    return status;
}

static vn_status_t infer_tile(vn_eval_t *e) {
    int64_t repeats[VN_MAX_RANK];
    vn_shape_t s;
    VN_TRY(tile_shape(e, repeats, &s));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

/* ---- blocks between depth and space ---- */

typedef struct blocks {
    vn_shape_t out;
    int64_t b;
    bool crd;
} blocks_t;

static vn_status_t block_shape(vn_eval_t *e, bool to_space, blocks_t *k) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    const char *mode = vn_node_string(e->node, "mode", "DCR");
    k->b = vn_node_int(e->node, "blocksize", 0);
    k->crd = strcmp(mode, "CRD") == 0;
    if (!k->crd && strcmp(mode, "DCR")) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "mode '%s' is neither DCR nor CRD", mode);
    if (t->rank != 4) return vn_eval_fail(e, VN_ERR_SHAPE, "needs rank 4, not %d", t->rank);
    if (k->b < 1 || k->b > INT32_MAX) return vn_eval_fail(e, VN_ERR_RANGE, "blocksize %lld", (long long)k->b);
    const int64_t *d = t->dims, square = k->b * k->b;
    k->out = vn_shape_of(t);
    if (to_space ? d[1] % square != 0 : d[2] % k->b != 0 || d[3] % k->b != 0)
        return vn_eval_fail(e, VN_ERR_SHAPE, "blocksize %lld does not divide %lld x %lld x %lld", (long long)k->b, (long long)d[1],
                            (long long)d[2], (long long)d[3]);
    bool fits = true;
    k->out.d[1] = d[1] / square;
    if (to_space) fits = vn_i64_mul(d[2], k->b, &k->out.d[2]) && vn_i64_mul(d[3], k->b, &k->out.d[3]);
    else {
        fits = vn_i64_mul(d[1], square, &k->out.d[1]);
        k->out.d[2] = d[2] / k->b;
        k->out.d[3] = d[3] / k->b;
    }
    return fits ? vn_shape_check(e, t->dtype, &k->out) : vn_eval_fail(e, VN_ERR_RANGE, "the result's dimensions overflow");
}

/* One copy over (n, c, h, w, row in block, column in block); `deep` has channels c*b*b, `wide` has pixels h*b x w*b. */
static vn_status_t move_blocks(vn_eval_t *e, bool to_space) {
    blocks_t k;
    vn_tensor_t *plain, *all;
    VN_TRY(block_shape(e, to_space, &k));
    const vn_dtype_t t = e->in[0].t->dtype;
    VN_TRY(vn_plain_from(e, e->in[0].t, &plain));
    vn_status_t s = vn_plain_new(e, t, &k.out, &all);
    if (s == VN_OK && all->count) {
        const vn_tensor_t *deep = to_space ? plain : all, *wide = to_space ? all : plain;
        const int64_t c = wide->dims[1], b = k.b;
        /* DCR: channel = (row b + column) c + depth; CRD: channel = (depth b + row) b + column. */
        const int64_t row = k.crd ? b : b * c, column = k.crd ? 1 : c, depth = k.crd ? b * b : 1;
        const int64_t dims[6] = {deep->dims[0], c, deep->dims[2], b, deep->dims[3], b};
        const int64_t ds[6] = {deep->strides[0],       depth * deep->strides[1], deep->strides[2],
                               row * deep->strides[1], deep->strides[3],         column * deep->strides[1]};
        const int64_t ws[6] = {wide->strides[0], wide->strides[1],     b * wide->strides[2],
                               wide->strides[2], b * wide->strides[3], wide->strides[3]};
        vn_strided_t copy = {.size = vn_plain_size(plain)};
        for (int i = 0; i < 6; ++i) vn_strided_axis(&copy, dims[i], to_space ? ds[i] : ws[i], to_space ? ws[i] : ds[i]);
        vn_strided_copy(&copy, plain->data, all->data);
    }
    if (s == VN_OK) s = vn_plain_out(e, 0, t, all);
    vn_tensor_free(plain);
    return s;
}
static vn_status_t eval_depth_to_space(vn_eval_t *e) { return move_blocks(e, true); }
static vn_status_t eval_space_to_depth(vn_eval_t *e) { return move_blocks(e, false); }

static vn_status_t infer_blocks(vn_eval_t *e) {
    blocks_t k;
    VN_TRY(block_shape(e, strcmp(e->node->op, "DepthToSpace") == 0, &k));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &k.out);
}

/* ---- the table ---- */

enum {
    S0 = VN_OP_SHAPE_LIKE_0,
    S1 = VN_OP_SHAPE_LIKE_1,
    S2 = VN_OP_SHAPE_LIKE_2,
    S3 = VN_OP_SHAPE_LIKE_3,
    S4 = VN_OP_SHAPE_LIKE_4,
    MAPS = VN_OP_MAPS,
    PROP = VN_OP_PROPAGATES
};
#define MOVE VN_CLASS_MOVEMENT
#define EXACT VN_CLASS_EXACT

static const vn_op_t rows[] = {
    {"", "Identity", 1, 0, MOVE, MAPS, "MOVE-1", eval_identity, infer_identity, 0},
    {"", "Reshape", 5, 0, MOVE, MAPS | S1, "MOVE-1", eval_reshape, infer_reshape, 0},
    {"", "Flatten", 1, 0, MOVE, MAPS, "MOVE-1", eval_flatten, infer_flatten, 0},
    {"", "Squeeze", 1, 12, MOVE, MAPS, "MOVE-1", eval_squeeze, infer_squeeze, 0},
    {"", "Squeeze", 13, 0, MOVE, MAPS | S1, "MOVE-1", eval_squeeze, infer_squeeze, 0},
    {"", "Unsqueeze", 1, 12, MOVE, MAPS, "MOVE-1", eval_unsqueeze, infer_unsqueeze, 0},
    {"", "Unsqueeze", 13, 0, MOVE, MAPS | S1, "MOVE-1", eval_unsqueeze, infer_unsqueeze, 0},
    {"", "Transpose", 1, 0, MOVE, MAPS, "MOVE-1", eval_transpose, infer_transpose, 0},
    {"", "Concat", 4, 0, MOVE, MAPS, "MOVE-1", eval_concat, infer_concat, 0},
    {"", "Split", 2, 12, MOVE, MAPS, "MOVE-2", eval_split, infer_split, 0},
    {"", "Split", 13, 0, MOVE, MAPS | S1, "MOVE-2", eval_split, infer_split, 0},
    {"", "Slice", 1, 9, MOVE, MAPS, "MOVE-3", eval_slice, infer_slice, 0},
    {"", "Slice", 10, 0, MOVE, MAPS | S1 | S2 | S3 | S4, "MOVE-3", eval_slice, infer_slice, 0},
    {"", "Expand", 8, 0, MOVE, MAPS | S1, "MOVE-1", eval_expand, infer_expand, 0},
    {"", "Tile", 6, 0, MOVE, MAPS | S1, "MOVE-1", eval_tile, infer_tile, 0},
    {"", "DepthToSpace", 1, 0, MOVE, MAPS, "MOVE-4", eval_depth_to_space, infer_blocks, 0},
    {"", "SpaceToDepth", 1, 0, MOVE, MAPS, "MOVE-4", eval_space_to_depth, infer_blocks, 0},
    {"", "Pad", 2, 10, MOVE, MAPS, "MOVE-5", vn_move_pad, vn_infer_pad, 0},
    {"", "Pad", 11, 0, MOVE, MAPS | S1 | S3, "MOVE-5", vn_move_pad, vn_infer_pad, 0},
    {"", "CenterCropPad", 18, 0, MOVE, MAPS | S1, "MOVE-5", vn_move_center_crop_pad, vn_infer_center_crop_pad, 0},
    {"", "Trilu", 14, 0, MOVE, MAPS | S1, "MOVE-5", vn_move_trilu, vn_infer_trilu, 0},
    {"", "Gather", 1, 0, MOVE, MAPS, "MOVE-6", vn_move_gather, vn_infer_gather, 0},
    {"", "GatherElements", 11, 0, MOVE, MAPS, "MOVE-6", vn_move_gather_elements, vn_infer_gather_elements, 0},
    {"", "GatherND", 11, 0, MOVE, MAPS, "MOVE-6", vn_move_gather_nd, vn_infer_gather_nd, 0},
    {"", "Compress", 9, 0, MOVE, MAPS, "MOVE-6", vn_move_compress, NULL, 0},
    {"", "ReverseSequence", 10, 0, MOVE, MAPS, "MOVE-6", vn_move_reverse_sequence, vn_infer_reverse_sequence, 0},
    {"", "Scatter", 9, 10, MOVE, PROP, "MOVE-7", vn_move_scatter_elements, vn_infer_scatter_elements, 0},
    {"", "ScatterElements", 11, 0, MOVE, PROP, "MOVE-7", vn_move_scatter_elements, vn_infer_scatter_elements, 0},
    {"", "ScatterND", 11, 0, MOVE, PROP, "MOVE-7", vn_move_scatter_nd, vn_infer_scatter_nd, 0},
    {"", "TensorScatter", 24, 0, MOVE, MAPS, "MOVE-7", vn_move_tensor_scatter, vn_infer_tensor_scatter, 0},
    {"", "Constant", 1, 0, MOVE, 0, "MOVE-8", vn_move_constant, vn_infer_constant, 0},
    {"", "ConstantOfShape", 9, 0, MOVE, S0, "MOVE-8", vn_move_constant_of_shape, vn_infer_constant_of_shape, 0},
    {"", "EyeLike", 9, 0, MOVE, PROP, "MOVE-8", vn_move_eye_like, vn_infer_eye_like, 0},
    {"", "OneHot", 9, 0, MOVE, S1, "MOVE-8", vn_move_one_hot, vn_infer_one_hot, 0},
    {"", "Shape", 1, 0, EXACT, PROP, "MOVE-8", vn_move_shape, vn_infer_shape, 0},
    {"", "Size", 1, 0, EXACT, PROP, "MOVE-8", vn_move_size, vn_infer_size, 0},
    {"", "Range", 11, 0, VN_CLASS_ROUNDED, S0 | S1 | S2, "MOVE-9", vn_move_range, vn_infer_range, 0},
    {"", "NonZero", 9, 0, EXACT, 0, "MOVE-10", vn_move_non_zero, NULL, 0},
    {"", "Unique", 11, 0, EXACT, 0, "MOVE-10", vn_move_unique, NULL, 0},
    {"", "Col2Im", 18, 0, VN_CLASS_REDUCTION, PROP | S1 | S2, "MOVE-11", vn_move_col2im, vn_infer_col2im, 0},
    {"", "SequenceConstruct", 11, 0, MOVE, 0, "MOVE-12", vn_move_sequence_construct, NULL, 0},
    {"", "SequenceAt", 11, 0, MOVE, S1, "MOVE-12", vn_move_sequence_at, NULL, 0},
    {"", "SequenceEmpty", 11, 0, MOVE, 0, "MOVE-12", vn_move_sequence_empty, NULL, 0},
    {"", "SequenceInsert", 11, 0, MOVE, S2, "MOVE-12", vn_move_sequence_insert, NULL, 0},
    {"", "SequenceErase", 11, 0, MOVE, S1, "MOVE-12", vn_move_sequence_erase, NULL, 0},
    {"", "SequenceLength", 11, 0, EXACT, 0, "MOVE-12", vn_move_sequence_length, NULL, 0},
    {"", "SplitToSequence", 11, 0, MOVE, S1, "MOVE-12", vn_move_split_to_sequence, NULL, 0},
    {"", "ConcatFromSequence", 11, 0, MOVE, 0, "MOVE-12", vn_move_concat_from_sequence, NULL, 0},
    {"", "Optional", 15, 0, MOVE, 0, "MOVE-12", vn_move_optional, NULL, 0},
    {"", "OptionalHasElement", 15, 0, EXACT, PROP, "MOVE-12", vn_move_optional_has, NULL, 0},
    {"", "OptionalGetElement", 15, 0, MOVE, MAPS, "MOVE-12", vn_move_optional_get, NULL, 0},
};

const vn_family_t vn_family_movement = {"movement", rows, sizeof rows / sizeof *rows};
