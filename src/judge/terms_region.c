/* terms_region.c -- lost terms where the sum itself is not seen: products inside a region, means, attention over fewer keys.
 *
 * Variants with operands whose last entries along the summed axis are zero (or left out), for the counts that kernels lose: remainders of vector
 * and tile widths, halves. Claim NAME-1 decides.
 */
#include <stdio.h>
#include <string.h>

#include "judge/edit.h"
#include "judge/names.h"

enum { MOST_COUNTS = 24 };

/* Counts that may be lost of `length`, each once: remainders, a few, whole slices. */
static int counts(int64_t length, int64_t *out) {
    int n = 0;
    int64_t all[3 * MOST_COUNTS];
    int m = 0;
    for (int64_t width = 2; width <= 512; width *= 2) all[m++] = length % width;
    for (int64_t few = 1; few <= 4; ++few) all[m++] = few;
    for (int64_t parts = 2; parts <= 16; parts *= 2) {
        all[m++] = length / parts;
        all[m++] = length - length / parts;
    }
    for (int k = 0; k < m && n < MOST_COUNTS; ++k) {
        bool seen = all[k] <= 0 || all[k] >= length;
        for (int j = 0; j < n && !seen; ++j) seen = out[j] == all[k];
        if (!seen) out[n++] = all[k];
    }
    return n;
}

/* t with its last n entries along `axis` zero. */
static vn_status_t zero_tail(const vn_tensor_t *t, int axis, int64_t n, vn_tensor_t **out, vn_error_t *err) {
    VN_TRY(vn_tensor_copy(t, out, err));
    int64_t inner = 1;
    for (int d = axis + 1; d < t->rank; ++d) inner *= t->dims[d];
    for (int64_t i = 0; i < t->count; ++i) {
        if (i / inner % t->dims[axis] < t->dims[axis] - n) continue;
        if (vn_dtype_is_float(t->dtype)) vn_tensor_set_f64(*out, i, 0);
        else vn_tensor_set_i64(*out, i, 0);
    }
    return VN_OK;
}

static vn_status_t cut(vn_variant_t *v, int k, int axis, int64_t per, vn_error_t *err) {
    const vn_tensor_t *t = vn_variant_operand(v, k);
    int64_t n[MOST_COUNTS];
    if (axis < 0 || axis >= t->rank || t->count > VN_EDIT_MOST || !vn_dtype_is_float(t->dtype)) return VN_OK;
    const int many = counts(t->dims[axis], n);
    bool held = false;
    for (int i = 0; i < many && !held; ++i) {
        vn_tensor_t *copy;
        char cause[64];
        snprintf(cause, sizeof cause, "k-tail-dropped:%lld", (long long)(n[i] * per));
        VN_TRY(zero_tail(t, axis, n[i], &copy, err));
        VN_TRY(vn_variant_input(v, k, copy, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, &held, err,
                              "%s without the last %lld of %lld entries along axis %d of its operand %d gives the whole result.",
                              v->node->op, (long long)n[i], (long long)t->dims[axis], axis, k));
    }
    return VN_OK;
}

/* One operand of the product that is known is enough: where it is zero, nothing is added. */
static vn_status_t products(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *a = vn_variant_operand(v, 0), *b = vn_variant_operand(v, 1);
    const bool matmul = vn_variant_is(v, "", "MatMul"), gemm = vn_variant_is(v, "", "Gemm");
    if (matmul && b) return cut(v, 1, b->rank > 1 ? b->rank - 2 : 0, 1, err);
    if (matmul && a) return cut(v, 0, a->rank - 1, 1, err);
    if (gemm && b) return cut(v, 1, vn_node_int(v->node, "transB", 0) ? 1 : 0, 1, err);
    if (gemm && a) return cut(v, 0, vn_node_int(v->node, "transA", 0) ? 0 : 1, 1, err);
    if (vn_variant_is(v, "", "Conv") && b) {
        int64_t taps = 1;
        for (int d = 2; d < b->rank; ++d) taps *= b->dims[d];
        return cut(v, 1, 1, taps, err);
    }
    return VN_OK;
}

/* A mean divided by another count: that of a padded row. */
static vn_status_t divisor(vn_variant_t *v, vn_error_t *err) {
    vn_explain_t *e = v->e;
    const vn_tensor_t *x = vn_variant_operand(v, 0);
    if (!e->x || !x || (!vn_variant_is(v, "", "ReduceMean") && !vn_variant_is(v, "", "GlobalAveragePool")) || e->n == 0 || x->count % e->n)
        return VN_OK;
    const int64_t n = x->count / e->n;
    double *y2 = vn_alloc((size_t)e->n, sizeof *y2);
    if (!y2) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)e->n);
    bool held = false;
    for (int64_t width = 2; width <= 1024 && !held; width *= 2) {
        const int64_t padded = (n + width - 1) / width * width;
        if (padded == n) continue;
        for (int64_t i = 0; i < e->n; ++i) y2[i] = e->y[i] * (double)n / (double)padded;
        vn_explain_plane(e, y2, NULL, VN_BUG, "padding-leaks", &held,
                         "%s divided by %lld, its %lld terms padded to a multiple of %lld, gives the whole result.", v->node->op,
                         (long long)padded, (long long)n, (long long)width);
    }
    vn_free(y2);
    return VN_OK;
}

/* Attention that does not look at the last keys: keys, values and the mask's columns are cut. */
static vn_status_t keys(vn_variant_t *v, vn_error_t *err) {
    const vn_tensor_t *k = vn_variant_operand(v, 1), *w = vn_variant_operand(v, 2), *mask = vn_variant_operand(v, 3);
    const bool has_mask = v->node->n_inputs > 3 && *v->node->inputs[3], past = v->node->n_inputs > 4;
    if (!vn_variant_is(v, "", "Attention") || !k || !w || past || (has_mask && !mask) || k->rank != w->rank || k->rank < 3) return VN_OK;
    const int axis = k->rank - 2;
    const int64_t length = k->dims[axis];
    int64_t n[MOST_COUNTS];
    if (w->dims[axis] != length || vn_node_int(v->node, "is_causal", 0)) return VN_OK;
    const int many = counts(length, n);
    bool held = false;
    for (int i = 0; i < many && !held; ++i) {
        char cause[64];
        vn_status_t s = VN_OK;
        for (int operand = 1; operand < (has_mask ? 4 : 3) && s == VN_OK; ++operand) {
            const vn_tensor_t *t = vn_variant_operand(v, operand);
            const int along = operand == 3 ? t->rank - 1 : axis;
            if (operand == 3 && (t->rank < 1 || t->dims[along] != length)) continue;
            int64_t start[VN_MAX_RANK] = {0}, step[VN_MAX_RANK], size[VN_MAX_RANK];
            for (int d = 0; d < t->rank; ++d) {
                step[d] = 1;
                size[d] = t->dims[d] - (d == along ? n[i] : 0);
            }
            vn_tensor_t *view = NULL, *flat = NULL;
            s = vn_tensor_slice(t, start, size, step, &view, err);
            if (s == VN_OK) s = vn_tensor_contiguous(view, &flat, err);
            vn_tensor_free(view);
            if (s == VN_OK) s = vn_variant_input(v, operand, flat, err);
        }
        VN_TRY(s);
        snprintf(cause, sizeof cause, "k-tail-dropped:%lld", (long long)n[i]);
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, &held, err, "Attention over all keys but the last %lld of %lld gives the whole result.",
                              (long long)n[i], (long long)length));
    }
    return VN_OK;
}

static vn_status_t regions(vn_variant_t *v, vn_error_t *err) {
    if (v->index >= 0) VN_TRY(products(v, err));
    VN_TRY(divisor(v, err));
    return keys(v, err);
}

vn_status_t vn_name_tails(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, regions, err); }
