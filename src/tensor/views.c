/* views.c -- reshape, permute, slice, broadcast: other shapes over the same elements; packed types are copied where order changes. */
#include <inttypes.h>
#include <string.h>

#include "tensor/buffer.h"
#include "tensor/walk.h"

/* Ends a view whose first element is `origin`. Packed elements have no address of their own, so theirs are copied into a dense tensor. */
static vn_status_t finish(vn_tensor_t *view, int64_t origin, vn_tensor_t **out, vn_error_t *err) {
    const int bits = vn_dtype_bits(view->dtype);
    const size_t size = vn_element_size(view->dtype);
    if (size) {
        if (view->count) view->data = (unsigned char *)view->data + origin * (int64_t)size;
        *out = view;
        return VN_OK;
    }
    const vn_status_t s = vn_tensor_new(view->dtype, view->rank, view->dims, out, err);
    if (s == VN_OK) {
        vn_walk_t walk;
        vn_walk_init(&walk, view);
        for (int64_t i = 0; i < view->count; ++i)
            vn_packed_set((*out)->data, bits, i, vn_packed_get(view->data, bits, origin + vn_walk_offset(&walk, i)));
    }
    vn_tensor_free(view);
    return s;
}

vn_status_t vn_tensor_reshape(const vn_tensor_t *t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err) {
    size_t bytes;
    vn_tensor_t *shape;
    char from[400], to[400];
    *out = NULL;
    VN_TRY(vn_tensor_header(t->dtype, rank, dims, &shape, &bytes, err));
    vn_tensor_describe(t, from, sizeof from);
    vn_tensor_describe(shape, to, sizeof to);
    vn_status_t s = VN_OK;
    if (shape->count != t->count) s = vn_fail(err, VN_ERR_SHAPE, "reshape: %s does not have the element count of %s", from, to);
    else if (!vn_tensor_is_contiguous(t)) s = vn_fail(err, VN_ERR_USAGE, "reshape: %s is a strided view; make it contiguous first", from);
    if (s != VN_OK) {
        vn_tensor_free(shape);
        return s;
    }
    shape->data = t->data;
    shape->buffer = t->buffer;
    __atomic_add_fetch(&t->buffer->refs, 1, __ATOMIC_RELAXED);
    *out = shape;
    return VN_OK;
}

vn_status_t vn_tensor_permute(const vn_tensor_t *t, const int *axes, vn_tensor_t **out, vn_error_t *err) {
    vn_tensor_t *view;
    *out = NULL;
    unsigned seen = 0;
    for (int k = 0; k < t->rank; ++k) {
        if (axes[k] < 0 || axes[k] >= t->rank || (seen >> axes[k] & 1u))
            return vn_fail(err, VN_ERR_SHAPE, "permute: axis %d at place %d; each axis 0 .. %d must occur once", axes[k], k, t->rank - 1);
        seen |= 1u << axes[k];
    }
    VN_TRY(vn_tensor_view(t, &view, err));
    for (int k = 0; k < t->rank; ++k) {
        view->dims[k] = t->dims[axes[k]];
        view->strides[k] = t->strides[axes[k]];
    }
    return finish(view, 0, out, err);
}

vn_status_t vn_tensor_slice(const vn_tensor_t *t, const int64_t *start, const int64_t *length, const int64_t *step, vn_tensor_t **out,
                            vn_error_t *err) {
    vn_tensor_t *view;
    int64_t origin = 0, count = 1;
    *out = NULL;
    for (int k = 0; k < t->rank; ++k) {
        int64_t span = 0, last = 0; /* index of the last element taken */
        const bool fits =
            length[k] >= 0 && (length[k] == 0 || (vn_i64_mul(length[k] - 1, step[k], &span) && vn_i64_add(start[k], span, &last) &&
                                                  start[k] >= 0 && start[k] < t->dims[k] && last >= 0 && last < t->dims[k]));
        if (!fits || !vn_i64_mul(count, length[k], &count))
            return vn_fail(err, VN_ERR_RANGE,
                           "slice: axis %d: start %" PRId64 ", length %" PRId64 ", step %" PRId64 " leaves 0 .. %" PRId64, k, start[k],
                           length[k], step[k], t->dims[k] - 1);
    }
    VN_TRY(vn_tensor_view(t, &view, err));
    for (int k = 0; k < t->rank; ++k) {
        view->dims[k] = length[k];
        view->strides[k] = length[k] > 1 ? t->strides[k] * step[k] : t->strides[k];
        origin += length[k] ? start[k] * t->strides[k] : 0;
    }
    view->count = count;
    return finish(view, origin, out, err);
}

vn_status_t vn_broadcast_shape(int ra, const int64_t *a, int rb, const int64_t *b, int *rank, int64_t *out, vn_error_t *err) {
    const int r = ra > rb ? ra : rb;
    *rank = 0;
    if (ra < 0 || rb < 0 || r > VN_MAX_RANK) return vn_fail(err, VN_ERR_RANGE, "broadcast: ranks %d and %d", ra, rb);
    for (int k = 0; k < r; ++k) { /* k counts from the last axis */
        const int64_t x = k < ra ? a[ra - 1 - k] : 1, y = k < rb ? b[rb - 1 - k] : 1;
        if (x != y && x != 1 && y != 1)
            return vn_fail(err, VN_ERR_SHAPE, "broadcast: dimension %" PRId64 " against %" PRId64 " at axis %d of %d", x, y, r - 1 - k, r);
        out[r - 1 - k] = x == 1 ? y : x;
    }
    *rank = r;
    return VN_OK;
}

vn_status_t vn_tensor_broadcast(const vn_tensor_t *t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err) {
    vn_tensor_t *view, *shape;
    size_t bytes;
    *out = NULL;
    VN_TRY(vn_tensor_header(t->dtype, rank, dims, &shape, &bytes, err)); /* checks dims and their product */
    const int64_t count = shape->count;
    vn_tensor_free(shape);
    for (int k = 0; k < t->rank; ++k) {
        const int64_t have = t->dims[t->rank - 1 - k], want = k < rank ? dims[rank - 1 - k] : -1;
        if (have != want && !(have == 1 && want >= 0)) {
            char text[400];
            vn_tensor_describe(t, text, sizeof text);
            return vn_fail(err, VN_ERR_SHAPE, "broadcast: axis %d of %s does not fit dimension %" PRId64 " (rank %d)", t->rank - 1 - k,
                           text, want, rank);
        }
    }
    VN_TRY(vn_tensor_view(t, &view, err));
    view->rank = rank;
    view->count = count;
    for (int k = 0; k < rank; ++k) {
        const int from = k - (rank - t->rank);
        view->dims[k] = dims[k];
        view->strides[k] = from < 0 || (t->dims[from] == 1 && dims[k] != 1) ? 0 : t->strides[from];
    }
    return finish(view, 0, out, err);
}
