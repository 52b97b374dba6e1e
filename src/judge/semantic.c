/* semantic.c -- small readers shared by the semantic families. */
#include "judge/semantic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool vn_name_in(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *p = list; n && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

void vn_name_attr_text(const vn_node_t *n, const char *attr, const char *standard, char *out, size_t size) {
    const vn_attr_t *a = vn_node_attr(n, attr);
    if (a && a->kind == VN_ATTR_INT) snprintf(out, size, "%lld", (long long)a->i);
    else if (a && a->kind == VN_ATTR_FLOAT) snprintf(out, size, "%.7g", (double)a->f);
    else if (a && a->kind == VN_ATTR_STRING)
        snprintf(out, size, "%.*s", (int)(a->s.length < 64 ? a->s.length : 64), a->s.text ? a->s.text : "");
    else snprintf(out, size, "%s", standard);
}

double vn_name_attr_number(const vn_node_t *n, const char *attr, double standard) {
    const vn_attr_t *a = vn_node_attr(n, attr);
    return !a ? standard : a->kind == VN_ATTR_FLOAT ? (double)a->f : a->kind == VN_ATTR_INT ? (double)a->i : standard;
}

bool vn_name_judged(const vn_variant_t *v, int k) {
    const vn_question_t *q = v->e->c->q;
    const char *name = q->node ? q->node->outputs[v->e->c->k] : q->model->graph->outputs[v->e->c->k].name;
    for (int i = 0; i < v->node->n_outputs; ++i)
        if ((k < 0 || i == k) && strcmp(v->node->outputs[i], name) == 0) return true;
    return false;
}

int64_t vn_name_spread(const vn_tensor_t *t, int rank, const int64_t *dims, int64_t flat) {
    int64_t at = 0, stride = 1;
    for (int k = rank - 1, j = t->rank - 1; k >= 0 && j >= 0; --k, --j) {
        const int64_t i = dims[k] ? flat % dims[k] : 0;
        flat = dims[k] ? flat / dims[k] : 0;
        if (t->dims[j] != 1) at += stride * (i < t->dims[j] ? i : t->dims[j] - 1);
        stride *= t->dims[j];
    }
    return at;
}

int64_t vn_name_scale_at(const vn_tensor_t *t, int rank, const int64_t *dims, int64_t axis, int64_t block, int64_t flat) {
    if (t->count == 1) return 0;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return -1;
    if (t->rank == 1 && block <= 0) {
        for (int k = rank - 1; k > axis; --k) flat = dims[k] ? flat / dims[k] : 0;
        const int64_t i = dims[axis] ? flat % dims[axis] : 0;
        return i < t->count ? i : -1;
    }
    if (t->rank != rank || block <= 0) return -1;
    int64_t at = 0, stride = 1;
    for (int k = rank - 1; k >= 0; --k) {
        int64_t i = dims[k] ? flat % dims[k] : 0;
        flat = dims[k] ? flat / dims[k] : 0;
        if (k == axis) i /= block;
        if (i >= t->dims[k]) return -1;
        at += i * stride;
        stride *= t->dims[k];
    }
    return at;
}

vn_status_t vn_name_resize(const vn_tensor_t *t, int axis, int64_t from, int64_t length, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    if (axis < 0 || axis >= t->rank || from < 0 || vn_dtype_bits(t->dtype) < 8 || vn_dtype_bits(t->dtype) > 64) return VN_OK;
    int64_t dims[VN_MAX_RANK];
    memcpy(dims, t->dims, sizeof dims);
    dims[axis] = length;
    vn_tensor_t *flat;
    VN_TRY(vn_tensor_contiguous(t, &flat, err));
    vn_status_t s = vn_tensor_new(t->dtype, t->rank, dims, out, err);
    size_t inner = (size_t)vn_dtype_bits(t->dtype) / 8;
    int64_t outer = 1, here = t->dims[axis] - from;
    for (int k = 0; k < axis; ++k) outer *= t->dims[k];
    for (int k = axis + 1; k < t->rank; ++k) inner *= (size_t)t->dims[k];
    if (here > length) here = length;
    for (int64_t o = 0; s == VN_OK && here > 0 && o < outer; ++o)
        memcpy((char *)(*out)->data + (size_t)(o * length) * inner, (const char *)flat->data + (size_t)(o * t->dims[axis] + from) * inner,
               (size_t)here * inner);
    vn_tensor_free(flat);
    return s;
}

/* Nearest to the middle of [lo, hi] among multiples of `unit`; false: none inside. */
static bool multiple(double lo, double hi, double unit, double *out) {
    *out = rint((lo + hi) / 2 / unit) * unit;
    return *out >= lo && *out <= hi;
}

int vn_name_simple(double lo, double hi, int step, double *out) {
    if (!(lo <= hi)) return 0;
    if (lo <= 0 && hi >= 0 && step-- == 0) return *out = 0, 1;
    const double middle = (lo + hi) / 2, size = fmax(fabs(lo), fabs(hi)), sign = middle < 0 ? -1 : 1;
    if (!(size > 0) || !isfinite(size)) return 0;
    const int top = (int)floor(log10(size));
    const double ten = sign * pow(10, top), two = sign * exp2(rint(log2(fabs(middle) > 0 ? fabs(middle) : size)));
    double last = NAN, digit;
    if (ten >= lo && ten <= hi) {
        if (step-- == 0) return *out = ten, 1;
        last = ten;
    }
    if (multiple(lo, hi, pow(10, top), &digit) && digit != 0 && digit != last) { /* 2e-5, 5e-3 */
        if (step-- == 0) return *out = digit, 1;
        last = digit;
    }
    if (two >= lo && two <= hi && two != last && two != ten && step-- == 0) return *out = two, 1;
    for (int digits = 1; digits < 9; ++digits) {
        if (!multiple(lo, hi, pow(10, top - digits), &digit) || digit == last || digit == two || digit == 0) continue;
        if (step-- == 0) return *out = digit, digits + 1;
        last = digit;
    }
    return step == 0 ? (*out = middle, 17) : 0;
}
