/* move.c -- shapes under a size limit, and elements of every type as plain bytes. */
#include "oracle/move.h"

#include <string.h>

vn_shape_t vn_shape_of(const vn_tensor_t *t) {
    vn_shape_t s = {.rank = t->rank};
    memcpy(s.d, t->dims, (size_t)t->rank * sizeof *s.d);
    return s;
}

vn_status_t vn_shape_add(vn_eval_t *e, vn_shape_t *s, int64_t dim) {
    if (s->rank >= VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "the result would have more than %d dimensions", VN_MAX_RANK);
    s->d[s->rank++] = dim;
    return VN_OK;
}

int64_t vn_shape_product(const int64_t *d, int from, int to) {
    int64_t n = 1;
    for (int k = from; k < to; ++k) n *= d[k];
    return n;
}

vn_status_t vn_shape_check(vn_eval_t *e, vn_dtype_t t, const vn_shape_t *s) {
    int64_t n = 1;
    bool empty = false;
    for (int k = 0; k < s->rank; ++k) {
        if (s->d[k] < 0) return vn_eval_fail(e, VN_ERR_SHAPE, "dimension %d of the result would be %lld", k, (long long)s->d[k]);
        empty |= s->d[k] == 0;
    }
    for (int k = 0; k < s->rank; ++k) /* without the zeros: partial products must stay numbers too */
        if (s->d[k] && !vn_i64_mul(n, s->d[k], &n)) return vn_eval_fail(e, VN_ERR_RANGE, "the number of elements of the result overflows");
    size_t bytes;
    if (!empty && (!vn_dtype_storage(t, n, &bytes) || bytes > VN_MOVE_MAX_BYTES))
        return vn_eval_fail(e, VN_ERR_RANGE, "a result of %lld elements is larger than 2^40 bytes", (long long)n);
    return VN_OK;
}

vn_status_t vn_move_infer(vn_eval_t *e, int k, vn_dtype_t t, const vn_shape_t *s) {
    VN_TRY(vn_shape_check(e, t, s));
    if (!vn_move_wanted(e, k)) return VN_OK;
    vn_ref_t *r = &e->out[k];
    r->dtype = t;
    r->rank = s->rank;
    memcpy(r->dims, s->d, (size_t)s->rank * sizeof *s->d);
    r->count = 1;
    bool empty = false;
    for (int i = 0; i < s->rank; ++i) empty |= s->d[i] == 0;
    r->count = empty ? 0 : vn_shape_product(s->d, 0, s->rank);
    return VN_OK;
}

bool vn_move_wanted(const vn_eval_t *e, int k) { return k < e->n_out && e->node->outputs[k][0] != '\0'; }

vn_status_t vn_move_need(vn_eval_t *e, int k) {
    if (k < e->n_in && e->in[k].t) return VN_OK;
    return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is missing or not a tensor", k);
}

vn_status_t vn_move_i64(vn_eval_t *e, int k, int64_t **out) {
    *out = NULL;
    VN_TRY(vn_move_need(e, k));
    const vn_tensor_t *t = e->in[k].t;
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    if (kind != VN_KIND_SIGNED && kind != VN_KIND_UNSIGNED && kind != VN_KIND_BOOL)
        return vn_eval_fail(e, VN_ERR_DTYPE, "input %d must hold integers, not %s", k, vn_dtype_name(t->dtype));
    if (!t->data && t->count) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "the data of input %d decide the result and are not known", k);
    int64_t *v = vn_alloc((size_t)(t->count ? t->count : 1), sizeof *v);
    if (!v) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld integers", (long long)t->count);
    if (t->count) vn_tensor_to_i64(t, v);
    *out = v;
    return VN_OK;
}

vn_status_t vn_move_scalar(vn_eval_t *e, int k, int64_t *out) {
    int64_t *v;
    VN_TRY(vn_move_i64(e, k, &v));
    const int64_t n = e->in[k].t->count;
    *out = n == 1 ? v[0] : 0;
    vn_free(v);
    return n == 1 ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "input %d must hold one value, not %lld", k, (long long)n);
}

/* ---- plain elements ---- */

vn_dtype_t vn_plain_dtype(vn_dtype_t t) {
    if (t == VN_STRING) return VN_C128;
    return vn_dtype_bits(t) < 8 ? VN_U8 : t;
}

_Static_assert(sizeof(vn_string_t) == 16, "strings travel as elements of 16 bytes");

vn_status_t vn_plain_from(vn_eval_t *e, const vn_tensor_t *t, vn_tensor_t **out) {
    *out = NULL;
    if (t->dtype == VN_STRING)
        return vn_tensor_wrap(VN_C128, t->rank, t->dims, t->data, (size_t)t->count * sizeof(vn_string_t), NULL, NULL, out, e->err);
    if (vn_dtype_bits(t->dtype) >= 8) {
        *out = vn_tensor_retain(t);
        return VN_OK;
    }
    VN_TRY(vn_tensor_new_raw(VN_U8, t->rank, t->dims, out, e->err));
    const int bits = vn_dtype_bits(t->dtype), per = 8 / bits;
    const unsigned char *from = t->data;
    unsigned char *to = (*out)->data;
    for (int64_t i = 0; i < t->count; ++i) to[i] = (unsigned char)((from[i / per] >> (i % per * bits)) & ((1 << bits) - 1));
    return VN_OK;
}

vn_status_t vn_plain_new(vn_eval_t *e, vn_dtype_t t, const vn_shape_t *s, vn_tensor_t **out) {
    *out = NULL;
    VN_TRY(vn_shape_check(e, vn_plain_dtype(t), s)); /* the wider of the two */
    return vn_tensor_new(vn_plain_dtype(t), s->rank, s->d, out, e->err);
}

vn_status_t vn_plain_seal(vn_eval_t *e, vn_dtype_t t, vn_tensor_t *plain, vn_tensor_t **out) {
    *out = NULL;
    if (vn_plain_dtype(t) == t) {
        *out = plain;
        return VN_OK;
    }
    vn_tensor_t *real = NULL;
    vn_status_t s = vn_tensor_new(t, plain->rank, plain->dims, &real, e->err);
    if (s == VN_OK && t == VN_STRING) {
        const vn_string_t *from = plain->data;
        for (int64_t i = 0; i < plain->count && s == VN_OK; ++i)
            s = vn_tensor_set_string(real, i, from[i].text ? from[i].text : "", from[i].length, e->err);
    } else if (s == VN_OK) {
        const int bits = vn_dtype_bits(t), per = 8 / bits;
        const unsigned char *from = plain->data;
        unsigned char *to = real->data;
        for (int64_t i = 0; i < plain->count; ++i) to[i / per] |= (unsigned char)(from[i] << (i % per * bits));
    }
    vn_tensor_free(plain);
    if (s != VN_OK) {
        vn_tensor_free(real);
        return s;
    }
    *out = real;
    return VN_OK;
}

vn_status_t vn_plain_out(vn_eval_t *e, int k, vn_dtype_t t, vn_tensor_t *plain) {
    vn_tensor_t *real;
    VN_TRY(vn_plain_seal(e, t, plain, &real));
    return vn_out_tensor(e, k, real);
}

vn_status_t vn_plain_out_view(vn_eval_t *e, int k, vn_dtype_t t, vn_tensor_t *view) {
    if (vn_tensor_is_contiguous(view)) return vn_plain_out(e, k, t, view);
    vn_tensor_t *dense = NULL;
    vn_status_t s = vn_tensor_new_raw(view->dtype, view->rank, view->dims, &dense, e->err);
    if (s == VN_OK) vn_strided_pack(view, dense->data);
    vn_tensor_free(view);
    VN_TRY(s);
    return vn_plain_out(e, k, t, dense);
}

void vn_plain_fill(void *dst, int64_t n, size_t size, const void *value) {
    char *to = dst;
    if (n <= 0) return;
    if (!value) {
        memset(to, 0, (size_t)n * size);
        return;
    }
    memcpy(to, value, size);
    for (int64_t done = 1; done < n;) { /* doubling: the copied part grows with every step */
        const int64_t more = done < n - done ? done : n - done;
        memcpy(to + (size_t)done * size, to, (size_t)more * size);
        done += more;
    }
}

/* ---- values ---- */

vn_value_t *vn_move_value(const vn_arg_t *a) {
    if (a->v) return vn_value_retain(a->v);
    return a->t ? vn_value_tensor(vn_tensor_retain(a->t)) : NULL;
}

vn_status_t vn_move_out_value(vn_eval_t *e, int k, vn_value_t *v) {
    if (!v) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for output %d", k);
    vn_status_t s = VN_OK;
    if (v->kind == VN_VALUE_TENSOR) {
        vn_tensor_t *t;
        s = vn_tensor_contiguous(v->tensor, &t, e->err);
        if (s == VN_OK) s = vn_out_tensor(e, k, t);
    } else {
        vn_ref_free(&e->out[k]);
        e->out[k].dtype = v->elem;
        e->out[k].nested = vn_value_retain(v);
    }
    vn_value_free(v);
    return s;
}

static vn_status_t join_shape(vn_eval_t *e, int n, const vn_tensor_t *const *parts, int64_t axis, bool stack, vn_shape_t *s, int *at) {
    if (n < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "nothing to concatenate");
    *s = vn_shape_of(parts[0]);
    VN_TRY(vn_eval_axis(e, axis, s->rank + (stack ? 1 : 0), at));
    int64_t total = 0;
    for (int i = 0; i < n; ++i) {
        const vn_tensor_t *t = parts[i];
        if (t->dtype != parts[0]->dtype)
            return vn_eval_fail(e, VN_ERR_DTYPE, "part %d is %s, part 0 is %s", i, vn_dtype_name(t->dtype), vn_dtype_name(parts[0]->dtype));
        bool fits = t->rank == s->rank;
        for (int k = 0; k < s->rank && fits; ++k) fits = t->dims[k] == s->d[k] || (k == *at && !stack);
        if (!fits) return vn_eval_fail(e, VN_ERR_SHAPE, "part %d has another shape than part 0", i);
        if (!vn_i64_add(total, stack ? 1 : t->dims[*at], &total)) return vn_eval_fail(e, VN_ERR_RANGE, "the joined dimension overflows");
    }
    if (stack) {
        VN_TRY(vn_shape_add(e, s, 0));
        for (int k = s->rank - 1; k > *at; --k) s->d[k] = s->d[k - 1];
    }
    s->d[*at] = total;
    return vn_shape_check(e, parts[0]->dtype, s);
}

vn_status_t vn_move_join(vn_eval_t *e, int n, const vn_tensor_t *const *parts, int64_t axis, bool stack, vn_tensor_t **out) {
    vn_shape_t s;
    int at;
    vn_tensor_t *all;
    *out = NULL;
    VN_TRY(join_shape(e, n, parts, axis, stack, &s, &at));
    const vn_dtype_t t = parts[0]->dtype;
    VN_TRY(vn_plain_new(e, t, &s, &all));
    const int64_t outer = vn_shape_product(s.d, 0, at), inner = vn_shape_product(s.d, at + 1, s.rank);
    const size_t size = vn_plain_size(all);
    vn_status_t status = VN_OK;
    char *to = all->data;
    for (int i = 0; i < n && status == VN_OK && all->count; ++i) {
        const int64_t run = inner * (stack ? 1 : parts[i]->dims[at]);
        vn_tensor_t *part;
        status = vn_plain_from(e, parts[i], &part);
        if (status != VN_OK) break;
        vn_strided_t c = {.size = size};
        vn_strided_axis(&c, outer, run, inner * s.d[at]);
        vn_strided_axis(&c, run, 1, 1);
        vn_strided_copy(&c, part->data, to);
        to += (size_t)run * size;
        vn_tensor_free(part); /* strings stay borrowed from parts[i], which the caller keeps */
    }
    if (status != VN_OK) {
        vn_tensor_free(all);
        return status;
    }
    return vn_plain_seal(e, t, all, out);
}

vn_status_t vn_move_part(vn_eval_t *e, const vn_tensor_t *t, int axis, int64_t start, int64_t size, bool drop, vn_tensor_t **out) {
    vn_shape_t shape = vn_shape_of(t);
    vn_tensor_t *plain, *part;
    *out = NULL;
    shape.d[axis] = size;
    const int64_t outer = vn_shape_product(shape.d, 0, axis), inner = vn_shape_product(shape.d, axis + 1, shape.rank);
    if (drop) {
        --shape.rank;
        for (int k = axis; k < shape.rank; ++k) shape.d[k] = shape.d[k + 1];
    }
    VN_TRY(vn_plain_from(e, t, &plain));
    vn_status_t s = vn_plain_new(e, t->dtype, &shape, &part);
    if (s == VN_OK && part->count) {
        vn_strided_t c = {.size = vn_plain_size(plain)};
        vn_strided_axis(&c, outer, inner * plain->dims[axis], inner * size);
        vn_strided_axis(&c, inner * size, 1, 1);
        vn_strided_copy(&c, (const char *)plain->data + (size_t)(start * inner) * c.size, part->data);
    }
    if (s == VN_OK) s = vn_plain_seal(e, t->dtype, part, out);
    vn_tensor_free(plain);
    return s;
}

/* ---- keys ---- */

static uint64_t float_key(double x) {
    if (x != x) return VN_KEY_NAN;
    const double y = x == 0 ? 0 : x;
    uint64_t b;
    memcpy(&b, &y, sizeof b);
    return b >> 63 ? ~b : b | UINT64_C(1) << 63;
}

vn_status_t vn_move_keys(vn_eval_t *e, int k, uint64_t **out) {
    *out = NULL;
    VN_TRY(vn_move_need(e, k));
    const vn_tensor_t *t = e->in[k].t;
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    if (kind == VN_KIND_STRING || kind == VN_KIND_COMPLEX || kind == VN_KIND_NONE)
        return vn_eval_fail(e, VN_ERR_DTYPE, "elements of type %s have no order", vn_dtype_name(t->dtype));
    uint64_t *key = vn_alloc((size_t)(t->count ? t->count : 1), sizeof *key);
    if (!key) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld keys", (long long)t->count);
    if (kind == VN_KIND_FLOAT) {
        const double *x = vn_arg_f64(e, k);
        if (!x) {
            vn_free(key);
            return VN_ERR_NOMEM;
        }
        for (int64_t i = 0; i < t->count; ++i) key[i] = float_key(x[i]);
    } else {
        vn_tensor_to_i64(t, (int64_t *)key);
        if (kind == VN_KIND_SIGNED)
            for (int64_t i = 0; i < t->count; ++i) key[i] ^= UINT64_C(1) << 63;
    }
    *out = key;
    return VN_OK;
}
