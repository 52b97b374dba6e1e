/* edit.c -- changed copies of operands. */
#include "judge/edit.h"

#include <math.h>
#include <string.h>

static vn_status_t nomem(vn_error_t *err) { return vn_fail(err, VN_ERR_NOMEM, "no memory for a changed operand"); }

vn_status_t vn_edit_gather(const vn_tensor_t *t, int rank, const int64_t *dims, const int64_t *index, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    const int bits = vn_dtype_bits(t->dtype);
    if (bits == 0) return vn_fail(err, VN_ERR_UNSUPPORTED, "operands of type %s are not edited", vn_dtype_name(t->dtype));
    vn_tensor_t *flat = NULL;
    VN_TRY(vn_tensor_contiguous(t, &flat, err));
    vn_status_t s = vn_tensor_new(t->dtype, rank, dims, out, err);
    const size_t size = (size_t)bits / 8;
    for (int64_t i = 0; s == VN_OK && i < (*out)->count; ++i) {
        if (bits >= 8) memcpy((char *)(*out)->data + (size_t)i * size, (const char *)flat->data + (size_t)index[i] * size, size);
        else if (vn_dtype_is_float(t->dtype)) vn_tensor_set_f64(*out, i, vn_tensor_get_f64(flat, index[i]));
        else vn_tensor_set_i64(*out, i, vn_tensor_get_i64(flat, index[i]));
    }
    vn_tensor_free(flat);
    return s;
}

vn_status_t vn_edit_layout(const vn_tensor_t *t, const int *axes, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    int64_t *index = vn_alloc((size_t)t->count + 1, sizeof *index), step[VN_MAX_RANK] = {0}, at[VN_MAX_RANK] = {0}, s = 1;
    if (!index) return nomem(err);
    for (int k = t->rank - 1; k >= 0; --k) { /* stride of t's axis axes[k] in the buffer as it is read */
        step[axes[k]] = s;
        s *= t->dims[axes[k]];
    }
    for (int64_t i = 0, from = 0; i < t->count; ++i) {
        index[i] = from;
        for (int k = t->rank - 1; k >= 0; --k) {
            from += step[k];
            if (++at[k] < t->dims[k]) break;
            from -= step[k] * t->dims[k];
            at[k] = 0;
        }
    }
    const vn_status_t st = vn_edit_gather(t, t->rank, t->dims, index, out, err);
    vn_free(index);
    return st;
}

vn_status_t vn_edit_shape(const vn_tensor_t *t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err) {
    vn_tensor_t *flat = NULL;
    *out = NULL;
    VN_TRY(vn_tensor_contiguous(t, &flat, err));
    const vn_status_t s = vn_tensor_reshape(flat, rank, dims, out, err);
    vn_tensor_free(flat);
    return s;
}

vn_status_t vn_edit_lines(const vn_tensor_t *t, int axis, const int64_t *from, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    int64_t *index = vn_alloc((size_t)t->count + 1, sizeof *index), inner = 1;
    if (!index) return nomem(err);
    for (int k = axis + 1; k < t->rank; ++k) inner *= t->dims[k];
    const int64_t length = t->dims[axis];
    for (int64_t i = 0; i < t->count; ++i) {
        const int64_t at = i / inner % length;
        index[i] = i + (from[at] - at) * inner;
    }
    const vn_status_t s = vn_edit_gather(t, t->rank, t->dims, index, out, err);
    vn_free(index);
    return s;
}

/* Integers keep within their type; sub-byte and narrow types by their bits. */
static double limited(vn_dtype_t t, double x) {
    const vn_kind_t kind = vn_dtype_kind(t);
    const int bits = vn_dtype_bits(t);
    if (kind != VN_KIND_SIGNED && kind != VN_KIND_UNSIGNED) return x;
    const double lo = kind == VN_KIND_SIGNED ? -ldexp(1, bits - 1) : 0, hi = ldexp(1, kind == VN_KIND_SIGNED ? bits - 1 : bits) - 1;
    return fmin(fmax(rint(x), lo), hi);
}

static vn_status_t mapped(const vn_tensor_t *t, bool fill, double x, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    if (vn_dtype_bits(t->dtype) == 0 || vn_dtype_kind(t->dtype) == VN_KIND_COMPLEX)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "operands of type %s are not edited", vn_dtype_name(t->dtype));
    VN_TRY(vn_tensor_new(t->dtype, t->rank, t->dims, out, err));
    for (int64_t i = 0; i < t->count; ++i) {
        const double y = limited(t->dtype, fill ? x : x * vn_tensor_get_f64(t, i));
        if (vn_dtype_is_float(t->dtype)) vn_tensor_set_f64(*out, i, y);
        else vn_tensor_set_i64(*out, i, (int64_t)y);
    }
    return VN_OK;
}
vn_status_t vn_edit_scale(const vn_tensor_t *t, double factor, vn_tensor_t **out, vn_error_t *err) {
    return mapped(t, false, factor, out, err);
}
vn_status_t vn_edit_fill(const vn_tensor_t *t, double x, vn_tensor_t **out, vn_error_t *err) { return mapped(t, true, x, out, err); }

vn_status_t vn_edit_resign(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    static const vn_dtype_t pairs[][2] = {{VN_I8, VN_U8},   {VN_I16, VN_U16}, {VN_I32, VN_U32},
                                          {VN_I64, VN_U64}, {VN_I4, VN_U4},   {VN_I2, VN_U2}};
    *out = NULL;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k) {
        if (t->dtype != pairs[k][0] && t->dtype != pairs[k][1]) continue;
        const vn_dtype_t other = t->dtype == pairs[k][0] ? pairs[k][1] : pairs[k][0];
        VN_TRY(vn_tensor_new(other, t->rank, t->dims, out, err));
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_i64(*out, i, vn_tensor_get_i64(t, i)); /* the low bits */
        return VN_OK;
    }
    return vn_fail(err, VN_ERR_UNSUPPORTED, "%s has no partner of the other sign", vn_dtype_name(t->dtype));
}

bool vn_edit_refused(vn_variant_t *v, vn_status_t *s) {
    if (*s == VN_OK) return false;
    vn_variant_reset(v);
    if (*s != VN_ERR_NOMEM) *s = VN_OK;
    return true;
}

double vn_edit_exact_gain(const vn_explain_t *e) {
    const vn_ref_t met = {.value = (double *)(uintptr_t)e->x};
    return vn_explain_gain(e, &met);
}
