/* values.c -- operands as doubles or integers, results back in their declared type, lists of integers that are inputs or attributes. */
#include <math.h>
#include <string.h>

#include "mutant.h"

vn_status_t refuse(const call_t *c, const char *what) {
    return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (%s): %s", c->node->path, c->node->op, what);
}

double hidden(const call_t *c, bool wide, double x) {
    x = settle(wide, x);
    const rounding_choice_t r = c->a->intermediate;
    return r.format ? vn_round_to(r.format, x, r.mode, false) : x;
}

double quotient(const call_t *c, bool wide, double x, double y) {
    return c->a->reciprocal ? settle(wide, x * settle(wide, 1 / y)) : settle(wide, x / y);
}

double *room_for(const call_t *c, int64_t n) {
    double *v = vn_alloc((size_t)n, sizeof *v);
    if (!v) no_memory(c);
    return v;
}

bool is_wide(vn_dtype_t t) { return t == VN_F64; }

vn_status_t no_memory(const call_t *c) { return vn_fail(c->err, VN_ERR_NOMEM, "%s: out of memory", c->node->path); }

vn_status_t need(const call_t *c, int k) {
    if (k < c->n_in && c->in[k]) return VN_OK;
    return vn_fail(c->err, VN_ERR_PARSE, "%s (%s): input %d is missing", c->node->path, c->node->op, k);
}

vn_status_t need_float(const call_t *c, int k) {
    VN_TRY(need(c, k));
    if (vn_dtype_is_float(c->in[k]->dtype)) return VN_OK;
    return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (%s): element type %s", c->node->path, c->node->op, vn_dtype_name(c->in[k]->dtype));
}

/* Smallest normal number of the format that the hardware computes in. */
static double smallest_normal(vn_dtype_t t) { return is_wide(t) ? 0x1p-1022 : 0x1p-126; }

static void flush(double *v, int64_t n, double tau) {
    for (int64_t i = 0; i < n; ++i)
        if (fabs(v[i]) < tau) v[i] = copysign(0.0, v[i]);
}

double *plane(const call_t *c, const vn_tensor_t *t) {
    double *v = t->dtype == VN_STRING ? NULL : vn_alloc((size_t)t->count, sizeof *v);
    if (!v) {
        no_memory(c);
        return NULL;
    }
    vn_tensor_to_f64(t, v);
    if (c->a->daz && vn_dtype_is_float(t->dtype)) flush(v, t->count, smallest_normal(t->dtype));
    return v;
}

double *plane_of(const call_t *c, const vn_tensor_t *t, int rank, const int64_t *dims) {
    vn_tensor_t *view;
    if (vn_tensor_broadcast(t, rank, dims, &view, c->err) != VN_OK) return NULL;
    double *v = plane(c, view);
    vn_tensor_free(view);
    return v;
}

int64_t *int_plane(const call_t *c, const vn_tensor_t *t) {
    int64_t *v = vn_alloc((size_t)t->count, sizeof *v);
    if (!v) no_memory(c);
    else vn_tensor_to_i64(t, v);
    return v;
}

vn_status_t put_plane(call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, double *v) {
    vn_tensor_t *out;
    vn_status_t s = vn_tensor_new_raw(t, rank, dims, &out, c->err);
    if (s == VN_OK) {
        if (vn_dtype_is_float(t)) {
            const rounding_choice_t r = c->a->result;
            if (r.format) vn_round_array(r.format, r.mode, v, out->count);
            if (c->a->ftz) {
                for (int64_t i = 0; i < out->count; ++i) v[i] = settle(is_wide(t), v[i]);
                flush(v, out->count, smallest_normal(t));
            }
            vn_tensor_from_f64(out, v, VN_RNE, false);
        } else {
            for (int64_t i = 0; i < out->count; ++i) vn_tensor_set_f64(out, i, v[i]);
        }
        c->out[k] = out;
    }
    vn_free(v);
    return s;
}

vn_status_t put_ints(call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, int64_t *v) {
    vn_tensor_t *out;
    vn_status_t s = vn_tensor_new(t, rank, dims, &out, c->err);
    if (s == VN_OK) {
        for (int64_t i = 0; i < out->count; ++i) vn_tensor_set_i64(out, i, v[i]);
        c->out[k] = out;
    }
    vn_free(v);
    return s;
}

vn_status_t int_list(const call_t *c, int k, const char *name, int64_t **v, int64_t *n) {
    *v = NULL;
    *n = -1;
    const int64_t *attr = name ? vn_node_ints(c->node, name, n) : NULL;
    if (k >= 0 && k < c->n_in && c->in[k]) {
        if (!(*v = int_plane(c, c->in[k]))) return VN_ERR_NOMEM;
        *n = c->in[k]->count;
        return VN_OK;
    }
    if (!name || !vn_node_attr(c->node, name)) {
        *n = -1;
        return VN_OK;
    }
    *v = vn_alloc((size_t)*n, sizeof **v);
    if (!*v) return no_memory(c);
    if (*n) memcpy(*v, attr, (size_t)*n * sizeof **v);
    return VN_OK;
}

vn_status_t fix_axis(const call_t *c, int64_t *axis, int rank) {
    if (*axis < -rank || *axis >= (rank ? rank : 1))
        return vn_fail(c->err, VN_ERR_RANGE, "%s (%s): axis %lld is outside rank %d", c->node->path, c->node->op, (long long)*axis, rank);
    if (*axis < 0) *axis += rank;
    return VN_OK;
}

void unravel(int64_t i, int rank, const int64_t *dims, int64_t *at) {
    for (int d = rank - 1; d >= 0; --d) {
        at[d] = i % dims[d];
        i /= dims[d];
    }
}

int64_t product_of(const int64_t *dims, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; ++i) p *= dims[i];
    return p;
}
