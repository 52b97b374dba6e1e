/* operands.c -- what a row reads and writes: f64 planes of operands, planes of outputs. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "oracle/frame.h"

bool vn_has(const vn_eval_t *e, int k) { return k < e->n_in && (e->in[k].t != NULL || e->in[k].v != NULL); }

/* A plane of tens of megabytes is written once from end to end: in pages of 2 MiB that costs a third of what 4 KiB pages do. */
static void large_pages(double *p, size_t bytes) {
#ifdef MADV_HUGEPAGE
    enum { LARGE = 1 << 21 };
    const uintptr_t begin = ((uintptr_t)p + 4095) & ~(uintptr_t)4095, end = ((uintptr_t)p + bytes) & ~(uintptr_t)4095;
    if (bytes >= 4 * (size_t)LARGE) (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* advice: refusal changes nothing */
#else
    (void)p;
    (void)bytes;
#endif
}

double *vn_plane_raw(int64_t count) {
    const size_t n = (size_t)(count > 0 ? count : 1);
    double *p = vn_realloc(NULL, n, sizeof *p);
    if (p) large_pages(p, n * sizeof *p);
#ifdef VN_SANITIZE
    if (p) memset(p, 0xff, n * sizeof *p); /* an element that is not written shows as NaN */
#endif
    return p;
}

const double *vn_arg_f64(vn_eval_t *e, int k) {
    vn_arg_t *a = &e->in[k];
    if (a->value) return a->value;
    if (a->t->dtype == VN_F64) return a->t->data; /* operands are contiguous */
    double *p = vn_plane_raw(a->t->count);
    if (!p) {
        vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld elements", (long long)a->t->count);
        return NULL;
    }
    vn_tensor_to_f64(a->t, p);
    a->value = p;
    a->owned = true;
    return p;
}

const double *vn_arg_err(const vn_eval_t *e, int k) { return k < e->n_in ? e->in[k].err : NULL; }

int64_t vn_arg_int(const vn_eval_t *e, int k, int64_t i) { return vn_tensor_get_i64(e->in[k].t, i); }

vn_status_t vn_arg_ints(vn_eval_t *e, int k, int64_t *out, int max, int *n) {
    const vn_tensor_t *t = e->in[k].t;
    *n = 0;
    if (!t || !t->data) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "input %d decides the shape and is not known", k);
    if (t->rank > 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d must be a scalar or one-dimensional", k);
    if (t->count > max)
        return vn_eval_fail(e, VN_ERR_RANGE, "input %d has %lld entries, at most %d make sense", k, (long long)t->count, max);
    for (int64_t i = 0; i < t->count; ++i) out[i] = vn_tensor_get_i64(t, i);
    *n = (int)t->count;
    return VN_OK;
}

vn_status_t vn_eval_fail(vn_eval_t *e, vn_status_t s, const char *fmt, ...) {
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *where = e->node->path ? e->node->path : e->node->name;
    return vn_fail(e->err, s, "node %s (%s%s%s): %s", where ? where : "?", e->node->domain, *e->node->domain ? "." : "", e->node->op, text);
}

vn_status_t vn_eval_axis(vn_eval_t *e, int64_t axis, int rank, int *out) {
    if (axis < -(int64_t)rank || axis >= rank)
        return vn_eval_fail(e, VN_ERR_RANGE, "axis %lld outside a tensor of rank %d", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return VN_OK;
}

static vn_status_t shape_out(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims, vn_ref_t **ref) {
    if (k >= e->n_out) return vn_eval_fail(e, VN_ERR_INTERNAL, "output %d of %d", k, e->n_out);
    if (rank < 0 || rank > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "output %d would have rank %d", k, rank);
    vn_ref_t *r = &e->out[k];
    vn_ref_free(r);
    r->dtype = t;
    r->rank = rank;
    r->count = 1;
    for (int d = 0; d < rank; ++d) {
        if (dims[d] < 0) return vn_eval_fail(e, VN_ERR_SHAPE, "output %d would have dimension %lld", k, (long long)dims[d]);
        r->dims[d] = dims[d];
    }
    for (int d = 0; d < rank; ++d)
        if (!vn_i64_mul(r->count, dims[d], &r->count) || r->count > INT64_MAX / 16)
            return vn_eval_fail(e, VN_ERR_RANGE, "output %d has too many elements", k);
    *ref = r;
    return VN_OK;
}

static vn_status_t plane(vn_eval_t *e, int k, double **p, bool zeroed) {
    if (*p) return VN_OK;
    int64_t n = e->out[k].count;
    *p = zeroed ? vn_alloc((size_t)(n ? n : 1), sizeof **p) : vn_plane_raw(n);
    return *p ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a plane of %lld elements", (long long)n);
}

static vn_status_t float_planes(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims, bool zeroed) {
    vn_ref_t *r;
    VN_TRY(shape_out(e, k, t, rank, dims, &r));
    if (e->refine) return VN_OK; /* type and shape are enough */
    VN_TRY(plane(e, k, &r->value, zeroed));
    if (e->want >= VN_WANT_BOUND) VN_TRY(plane(e, k, &r->bound, zeroed));
    if (e->want >= VN_WANT_VARIANCE) VN_TRY(plane(e, k, &r->var, zeroed));
    return VN_OK;
}

vn_status_t vn_out_float(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims) {
    return float_planes(e, k, t, rank, dims, true);
}

vn_status_t vn_out_float_raw(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims) {
    return float_planes(e, k, t, rank, dims, false);
}

vn_status_t vn_out_exact(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims) {
    vn_ref_t *r;
    VN_TRY(shape_out(e, k, t, rank, dims, &r));
    return vn_tensor_new(t, rank, dims, &r->tensor, e->err);
}

vn_status_t vn_out_tensor(vn_eval_t *e, int k, vn_tensor_t *t) {
    vn_ref_t *r;
    vn_status_t s = shape_out(e, k, t->dtype, t->rank, t->dims, &r);
    if (s != VN_OK) {
        vn_tensor_free(t);
        return s;
    }
    r->tensor = t;
    return VN_OK;
}

vn_status_t vn_out_wide(vn_eval_t *e, int k, const char *note) {
    e->out[k].wide_note = note;
    return plane(e, k, &e->out[k].wide, true);
}

vn_status_t vn_out_wide_raw(vn_eval_t *e, int k, const char *note) {
    e->out[k].wide_note = note;
    return plane(e, k, &e->out[k].wide, false);
}

vn_status_t vn_out_flags(vn_eval_t *e, int k) {
    vn_ref_t *r = &e->out[k];
    if (r->flags) return VN_OK;
    r->flags = vn_alloc((size_t)(r->count ? r->count : 1), 1);
    return r->flags ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags");
}

vn_status_t vn_out_own(vn_eval_t *e, int k) { return plane(e, k, &e->out[k].own, true); }
vn_status_t vn_out_own_raw(vn_eval_t *e, int k) { return plane(e, k, &e->out[k].own, false); }
vn_status_t vn_out_lo(vn_eval_t *e, int k) { return plane(e, k, &e->out[k].lo, true); }

vn_status_t vn_out_either(vn_eval_t *e, int k) {
    vn_ref_t *r = &e->out[k];
    if (r->either) return VN_OK;
    return vn_tensor_new(r->dtype, r->rank, r->dims, &r->either, e->err);
}

vn_status_t vn_out_reading(vn_eval_t *e, int k, const char *name, vn_tensor_t *t) {
    vn_ref_t *r = &e->out[k];
    if (r->n_readings >= VN_MAX_READINGS) {
        vn_tensor_free(t);
        return vn_eval_fail(e, VN_ERR_INTERNAL, "more than %d readings", VN_MAX_READINGS);
    }
    r->readings[r->n_readings++] = (vn_reading_t){.name = name, .value = t};
    return VN_OK;
}

void vn_out_final(vn_eval_t *e, int k) { e->out[k].bound_final = true; }
void vn_out_rounded(vn_eval_t *e, int k) { e->out[k].demand_equal = true; }

double vn_gamma(double k, double u) {
    double x = k * u;
    return x >= 1 ? INFINITY : x / (1 - x);
}

/* Element i of a result against a reading that rounds. */
static bool within_reading(const vn_reading_t *r, const vn_tensor_t *actual, int64_t i) {
    const double x = vn_tensor_get_f64(actual, i), y = r->exact[i];
    if (isnan(y) || isnan(x)) return isnan(y) && isnan(x);
    return x == y || fabs(x - y) <= r->bound[i];
}

bool vn_reading_holds(const vn_reading_t *r, const vn_tensor_t *actual) {
    const vn_tensor_t *t = r->value;
    if (t->dtype != actual->dtype || t->rank != actual->rank || memcmp(t->dims, actual->dims, (size_t)t->rank * sizeof *t->dims) != 0)
        return false;
    if (vn_tensor_equal_bits(t, actual)) return true;
    if (t->dtype == VN_STRING || vn_dtype_kind(t->dtype) == VN_KIND_COMPLEX) return false;
    for (int64_t i = 0; i < t->count; ++i) {
        if (vn_tensor_bits(t, i) == vn_tensor_bits(actual, i)) continue;
        if (r->bound ? !within_reading(r, actual, i)
                     : !vn_dtype_is_float(t->dtype) || !isnan(vn_tensor_get_f64(t, i)) || !isnan(vn_tensor_get_f64(actual, i)))
            return false;
    }
    return true;
}

void vn_ref_free(vn_ref_t *r) {
    vn_free(r->value);
    vn_free(r->lo);
    vn_free(r->bound);
    vn_free(r->var);
    vn_free(r->own);
    vn_free(r->wide);
    vn_free(r->flags);
    vn_free(r->law.weight);
    vn_tensor_free(r->tensor);
    vn_tensor_free(r->either);
    for (int i = 0; i < r->n_readings; ++i) {
        vn_tensor_free(r->readings[i].value);
        vn_free(r->readings[i].exact);
        vn_free(r->readings[i].bound);
    }
    vn_value_free(r->nested);
    *r = (vn_ref_t){0};
}

void vn_arg_clear(vn_arg_t *a) {
    if (a->owned) vn_free(a->value);
    *a = (vn_arg_t){0};
}

vn_value_t *vn_ref_value(const vn_ref_t *r) {
    if (r->nested) return vn_value_retain(r->nested);
    return r->tensor ? vn_value_tensor(vn_tensor_retain(r->tensor)) : NULL;
}
