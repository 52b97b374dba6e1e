/* op_pad.c -- Pad (all modes), CenterCropPad and Trilu: the operand's elements at shifted places, and a fill.
 *
 * Claim MOVE-5: every element of a result is an element of the operand or the fill value, bit for bit. Reflect, edge and wrap repeat as
 * often as the pads ask (a pad may be longer than the axis). Negative pads cut first, so that the other side pads what is left.
 * Uncertainty: the frame moves planes by running these rows on f64 operands; an absent fill is then 0, which is the right error.
 */
#include <string.h>

#include "oracle/move.h"

typedef enum mode { MODE_CONSTANT, MODE_REFLECT, MODE_EDGE, MODE_WRAP } padding_t;

typedef struct pads {
    padding_t mode;
    int64_t begin[VN_MAX_RANK], end[VN_MAX_RANK];
    vn_shape_t out;
} pads_t;

static vn_status_t mode_of(vn_eval_t *e, padding_t *mode) {
    static const struct {
        const char *name;
        int since;
    } known[] = {{"constant", 1}, {"reflect", 1}, {"edge", 1}, {"wrap", 19}};
    const char *name = vn_node_string(e->node, "mode", "constant");
    for (int i = 0; i < 4; ++i)
        if (!strcmp(name, known[i].name) && e->version >= known[i].since) {
            *mode = (padding_t)i;
            return VN_OK;
        }
    return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "mode '%s' is not part of opset %lld", name, (long long)e->version);
}

static vn_status_t pads_of(vn_eval_t *e, pads_t *p) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t list[2 * VN_MAX_RANK], axes[VN_MAX_RANK];
    int n = 0, n_axes = t->rank;
    bool seen[VN_MAX_RANK] = {false};
    *p = (pads_t){.out = vn_shape_of(t)};
    VN_TRY(mode_of(e, &p->mode));
    if (e->version >= 11) {
        VN_TRY(vn_move_need(e, 1));
        VN_TRY(vn_arg_ints(e, 1, list, 2 * VN_MAX_RANK, &n));
    } else {
        int64_t count;
        const int64_t *v = vn_node_ints(e->node, "pads", &count);
        if (!v || count > 2 * VN_MAX_RANK)
            return vn_eval_fail(e, VN_ERR_SHAPE, "attribute pads is missing or has %lld entries", (long long)count);
        for (int k = 0; k < count; ++k) list[k] = v[k];
        n = (int)count;
    }
    for (int k = 0; k < t->rank; ++k) axes[k] = k;
    if (e->version >= 18 && vn_has(e, 3)) VN_TRY(vn_arg_ints(e, 3, axes, VN_MAX_RANK, &n_axes));
    if (n != 2 * n_axes) return vn_eval_fail(e, VN_ERR_SHAPE, "pads has %d entries for %d axes", n, n_axes);
    for (int i = 0; i < n_axes; ++i) {
        int k;
        VN_TRY(vn_eval_axis(e, axes[i], t->rank, &k));
        if (seen[k]) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "axis %d is named twice, which the standard leaves undefined", k);
        seen[k] = true;
        p->begin[k] = list[i];
        p->end[k] = list[n_axes + i];
        int64_t sum;
        if (p->begin[k] < -t->dims[k] || p->end[k] < -t->dims[k] || !vn_i64_add(p->begin[k], p->end[k], &sum) ||
            !vn_i64_add(sum, t->dims[k], &p->out.d[k]) || p->out.d[k] < 0)
            return vn_eval_fail(e, VN_ERR_RANGE, "pads %lld and %lld on axis %d of %lld entries", (long long)list[i],
                                (long long)list[n_axes + i], k, (long long)t->dims[k]);
    }
    return vn_shape_check(e, t->dtype, &p->out);
}

/* Where entry i of the result lies in an axis of n entries that starts `begin` entries later, or -1 for the fill. */
static int64_t source(padding_t mode, int64_t i, int64_t begin, int64_t end, int64_t n) {
    const int64_t first = begin < 0 ? -begin : 0, left = n - first - (end < 0 ? -end : 0); /* what negative pads leave */
    int64_t x = i - (begin > 0 ? begin : 0);
    if (x >= 0 && x < left) return first + x;
    switch (mode) {
    case MODE_CONSTANT: return -1;
    case MODE_EDGE: return first + (x < 0 ? 0 : left - 1);
    case MODE_WRAP: x %= left; return first + (x < 0 ? x + left : x);
    case MODE_REFLECT: {
        if (left == 1) return first;
        const int64_t period = 2 * (left - 1);
        x %= period;
        if (x < 0) x += period;
        return first + (x < left ? x : period - x);
    }
    }
    return -1;
}

/* The elements that an axis-aligned window of the operand shares with the result; everything else is the fill. */
static void copy_window(const vn_tensor_t *plain, const vn_tensor_t *all, const int64_t *begin) {
    vn_strided_t c = {.size = vn_plain_size(plain)};
    int64_t from = 0, to = 0;
    for (int k = 0; k < plain->rank; ++k) {
        const int64_t skip = begin[k] < 0 ? -begin[k] : 0, at = begin[k] > 0 ? begin[k] : 0;
        int64_t n = plain->dims[k] - skip;
        if (n > all->dims[k] - at) n = all->dims[k] - at;
        if (n <= 0) return;
        from += skip * plain->strides[k];
        to += at * all->strides[k];
        vn_strided_axis(&c, n, plain->strides[k], all->strides[k]);
    }
    vn_strided_copy(&c, (const char *)plain->data + (size_t)from * c.size, (char *)all->data + (size_t)to * c.size);
}

/* Copies through one table of places per axis; the innermost axis goes element by element. */
static vn_status_t copy_mapped(vn_eval_t *e, const vn_tensor_t *plain, const vn_tensor_t *all, const pads_t *p) {
    int64_t *map[VN_MAX_RANK] = {NULL}, c[VN_MAX_RANK] = {0};
    const int rank = plain->rank, last = rank - 1;
    const size_t size = vn_plain_size(plain);
    vn_status_t s = VN_OK;
    for (int k = 0; k < rank && s == VN_OK; ++k) {
        map[k] = vn_alloc((size_t)all->dims[k], sizeof **map);
        if (!map[k]) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        for (int64_t i = 0; s == VN_OK && i < all->dims[k]; ++i)
            map[k][i] = source(p->mode, i, p->begin[k], p->end[k], plain->dims[k]) * plain->strides[k];
    }
    const int64_t rows = s == VN_OK ? vn_shape_product(all->dims, 0, last) : 0;
    char *to = all->data;
    for (int64_t row = 0; row < rows; ++row) {
        const char *from = plain->data;
        for (int k = 0; k < last; ++k) from += (size_t)map[k][c[k]] * size;
        for (int64_t i = 0; i < all->dims[last]; ++i, to += size) memcpy(to, from + (size_t)map[last][i] * size, size);
        for (int k = last - 1; k >= 0 && ++c[k] == all->dims[k]; --k) c[k] = 0;
    }
    for (int k = 0; k < rank; ++k) vn_free(map[k]);
    return s;
}

/* The fill as one plain element; *value NULL: zero bytes. `hold` keeps it alive. */
static vn_status_t fill_value(vn_eval_t *e, vn_tensor_t **hold, const void **value) {
    const vn_dtype_t t = e->in[0].t->dtype;
    *hold = NULL;
    *value = NULL;
    if (e->version >= 11) {
        if (!vn_has(e, 2)) return VN_OK;
        VN_TRY(vn_move_need(e, 2));
        const vn_tensor_t *c = e->in[2].t;
        if (c->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "constant_value has %lld elements", (long long)c->count);
        if (c->dtype != t)
            return vn_eval_fail(e, VN_ERR_DTYPE, "constant_value is %s, data are %s", vn_dtype_name(c->dtype), vn_dtype_name(t));
        VN_TRY(vn_plain_from(e, c, hold));
    } else {
        const double v = vn_node_float(e->node, "value", 0);
        if (v == 0 || !vn_dtype_is_float(t)) return VN_OK;
        VN_TRY(vn_tensor_new(t, 0, NULL, hold, e->err));
        vn_tensor_set_f64(*hold, 0, v);
    }
    *value = (*hold)->data;
    return VN_OK;
}

vn_status_t vn_infer_pad(vn_eval_t *e) {
    pads_t p;
    VN_TRY(pads_of(e, &p));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &p.out);
}

vn_status_t vn_move_pad(vn_eval_t *e) {
    pads_t p;
    vn_tensor_t *plain = NULL, *all = NULL, *hold = NULL;
    const void *fill;
    VN_TRY(pads_of(e, &p));
    const vn_tensor_t *t = e->in[0].t;
    for (int k = 0; k < t->rank; ++k) /* nothing is left to repeat */
        if (p.mode != MODE_CONSTANT && p.out.d[k] > 0 &&
            t->dims[k] + (p.begin[k] < 0 ? p.begin[k] : 0) + (p.end[k] < 0 ? p.end[k] : 0) <= 0)
            return vn_eval_fail(e, VN_ERR_RANGE, "axis %d has no entries to repeat", k);
    VN_TRY(fill_value(e, &hold, &fill));
    vn_status_t s = vn_plain_from(e, t, &plain);
    if (s == VN_OK) s = vn_plain_new(e, t->dtype, &p.out, &all);
    if (s == VN_OK && all->count) {
        if (p.mode == MODE_CONSTANT || t->rank == 0) {
            if (fill) vn_plain_fill(all->data, all->count, vn_plain_size(all), fill);
            copy_window(plain, all, p.begin);
        } else {
            s = copy_mapped(e, plain, all, &p);
        }
    }
    if (s == VN_OK) {
        s = vn_plain_out(e, 0, t->dtype, all);
        all = NULL;
    }
    vn_tensor_free(plain);
    vn_tensor_free(all);
    vn_tensor_free(hold);
    return s;
}

/* ---- CenterCropPad ---- */

/* begin: entries added (or, negative, removed) in front. Cropping rounds the start down; padding puts the odd one behind. */
static vn_status_t crop_shape(vn_eval_t *e, vn_shape_t *s, int64_t *begin) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *t = e->in[0].t;
    int64_t want[VN_MAX_RANK], n_axes;
    const int64_t *axes = vn_node_ints(e->node, "axes", &n_axes);
    int n;
    bool seen[VN_MAX_RANK] = {false};
    *s = vn_shape_of(t);
    VN_TRY(vn_arg_ints(e, 1, want, VN_MAX_RANK, &n));
    if (n != (axes ? n_axes : t->rank))
        return vn_eval_fail(e, VN_ERR_SHAPE, "shape has %d entries for %lld axes", n, axes ? (long long)n_axes : (long long)t->rank);
    for (int i = 0; i < n; ++i) {
        int k;
        VN_TRY(vn_eval_axis(e, axes ? axes[i] : i, t->rank, &k));
        if (seen[k]) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "axis %d is named twice, which the standard leaves undefined", k);
        seen[k] = true;
        if (want[i] < 0) return vn_eval_fail(e, VN_ERR_RANGE, "shape[%d] is %lld", i, (long long)want[i]);
        s->d[k] = want[i];
    }
    for (int k = 0; k < t->rank; ++k) {
        const int64_t more = s->d[k] - t->dims[k];
        begin[k] = more >= 0 ? more / 2 : -(-more / 2);
    }
    return VN_OK;
}

vn_status_t vn_infer_center_crop_pad(vn_eval_t *e) {
    vn_shape_t s;
    int64_t begin[VN_MAX_RANK];
    VN_TRY(crop_shape(e, &s, begin));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

vn_status_t vn_move_center_crop_pad(vn_eval_t *e) {
    vn_shape_t shape;
    int64_t begin[VN_MAX_RANK];
    vn_tensor_t *plain, *all;
    VN_TRY(crop_shape(e, &shape, begin));
    VN_TRY(vn_plain_from(e, e->in[0].t, &plain));
    vn_status_t s = vn_plain_new(e, e->in[0].t->dtype, &shape, &all);
    if (s == VN_OK && all->count) copy_window(plain, all, begin);
    if (s == VN_OK) s = vn_plain_out(e, 0, e->in[0].t->dtype, all);
    vn_tensor_free(plain);
    return s;
}

/* ---- Trilu ---- */

vn_status_t vn_infer_trilu(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_shape_t s = vn_shape_of(e->in[0].t);
    return vn_move_infer(e, 0, e->in[0].t->dtype, &s);
}

vn_status_t vn_move_trilu(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t k = 0;
    const bool upper = vn_node_int(e->node, "upper", 1) != 0;
    if (t->rank < 2) return vn_eval_fail(e, VN_ERR_SHAPE, "needs rank 2 or more, not %d", t->rank);
    if (vn_has(e, 1)) VN_TRY(vn_move_scalar(e, 1, &k));
    const int64_t n = t->dims[t->rank - 2], m = t->dims[t->rank - 1];
    const int64_t lo = -n - 1, hi = m + 1;
    k = k < lo ? lo : k > hi ? hi : k; /* further diagonals lie outside as well */
    const vn_shape_t shape = vn_shape_of(t);
    vn_tensor_t *plain, *all;
    VN_TRY(vn_plain_from(e, t, &plain));
    vn_status_t s = vn_plain_new(e, t->dtype, &shape, &all);
    const size_t size = vn_plain_size(plain);
    const int64_t rows = s == VN_OK && all->count ? all->count / m : 0;
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t diagonal = r % n + k; /* upper keeps columns >= diagonal, lower keeps <= */
        int64_t from = upper ? diagonal : 0, to = upper ? m : diagonal + 1;
        from = from < 0 ? 0 : from;
        to = to > m ? m : to;
        if (from < to)
            memcpy((char *)all->data + (size_t)(r * m + from) * size, (const char *)plain->data + (size_t)(r * m + from) * size,
                   (size_t)(to - from) * size);
    }
    if (s == VN_OK) s = vn_plain_out(e, 0, t->dtype, all);
    vn_tensor_free(plain);
    return s;
}
