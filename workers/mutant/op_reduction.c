/* op_reduction.c -- ReduceSum, ReduceMean, ReduceMax, ReduceMin over any axes. Sums and means follow the chosen order and accumulator. */
#include <math.h>
#include <string.h>

#include "mutant.h"

enum { SUM, MEAN, MAX, MIN };

typedef struct reduced {
    bool axis[VN_MAX_RANK];
    int rank; /* of the result */
    int64_t dims[VN_MAX_RANK], terms, kept;
    vn_tensor_t *front; /* reduced axes first, contiguous */
} reduced_t;

/* Axes are an attribute (before opset 18, ReduceSum 13) or input 1; none: all, or with noop_with_empty_axes none. */
static vn_status_t read_axes(call_t *c, reduced_t *r, bool *noop) {
    int64_t *axes, n;
    const int rank = c->in[0]->rank;
    VN_TRY(int_list(c, 1, "axes", &axes, &n));
    vn_status_t s = VN_OK;
    for (int64_t i = 0; i < n && s == VN_OK; ++i) {
        s = fix_axis(c, &axes[i], rank);
        if (s == VN_OK && rank > 0) r->axis[axes[i]] = true;
    }
    *noop = n <= 0 && vn_node_int(c->node, "noop_with_empty_axes", 0) != 0;
    for (int d = 0; d < rank && n <= 0; ++d) r->axis[d] = true;
    vn_free(axes);
    return s;
}

static vn_status_t arrange(call_t *c, reduced_t *r) {
    const vn_tensor_t *x = c->in[0];
    const bool keep = vn_node_int(c->node, "keepdims", 1) != 0;
    int order[VN_MAX_RANK], n = 0;
    r->terms = r->kept = 1;
    for (int d = 0; d < x->rank; ++d)
        if (r->axis[d]) order[n++] = d, r->terms *= x->dims[d];
    for (int d = 0; d < x->rank; ++d) {
        if (!r->axis[d]) order[n++] = d, r->kept *= x->dims[d];
        if (!r->axis[d]) r->dims[r->rank++] = x->dims[d];
        else if (keep) r->dims[r->rank++] = 1;
    }
    vn_tensor_t *view;
    VN_TRY(vn_tensor_permute(x, order, &view, c->err));
    vn_status_t s = vn_tensor_contiguous(view, &r->front, c->err);
    vn_tensor_free(view);
    return s;
}

static void extremes(const reduced_t *r, bool want_max, const double *x, double *y) {
    for (int64_t i = 0; i < r->kept; ++i) y[i] = want_max ? -INFINITY : INFINITY;
    for (int64_t k = 0; k < r->terms; ++k)
        for (int64_t i = 0; i < r->kept; ++i) {
            const double v = x[k * r->kept + i];
            if (isnan(v) || (want_max ? v > y[i] : v < y[i])) y[i] = v; /* NaN never compares: once in, it stays */
        }
}

static vn_status_t reduce_floats(call_t *c, const reduced_t *r) {
    const vn_dtype_t t = c->in[0]->dtype;
    const bool wide = is_wide(t);
    double *x = plane(c, r->front), *y = vn_alloc((size_t)r->kept, sizeof *y);
    vn_status_t s = x && y ? VN_OK : no_memory(c);
    if (s == VN_OK && (c->param == MAX || c->param == MIN)) extremes(r, c->param == MAX, x, y);
    else if (s == VN_OK) s = sum_rows(c, wide, r->terms, r->kept, x, y);
    for (int64_t i = 0; s == VN_OK && c->param == MEAN && i < r->kept; ++i) y[i] = settle(wide, y[i] / (double)r->terms);
    vn_free(x);
    if (s == VN_OK) return put_plane(c, 0, t, r->rank, r->dims, y);
    vn_free(y);
    return s;
}

static vn_status_t reduce_ints(call_t *c, const reduced_t *r) {
    const vn_dtype_t t = c->in[0]->dtype;
    int64_t *x = int_plane(c, r->front), *y = vn_alloc((size_t)r->kept, sizeof *y);
    if (!x || !y) {
        vn_free(x);
        vn_free(y);
        return no_memory(c);
    }
    for (int64_t k = 0; k < r->terms; ++k)
        for (int64_t i = 0; i < r->kept; ++i) {
            const int64_t v = x[k * r->kept + i];
            if (c->param == SUM || c->param == MEAN) y[i] = (int64_t)((uint64_t)y[i] + (uint64_t)v);
            else if (k == 0 || (c->param == MAX ? v > y[i] : v < y[i])) y[i] = v;
        }
    for (int64_t i = 0; c->param == MEAN && r->terms > 0 && i < r->kept; ++i) y[i] /= r->terms;
    vn_free(x);
    return put_ints(c, 0, t, r->rank, r->dims, y);
}

static vn_status_t run_reduce(call_t *c) {
    VN_TRY(need(c, 0));
    reduced_t r = {0};
    bool noop;
    if (c->in[0]->dtype == VN_STRING || c->in[0]->dtype == VN_U64 || vn_dtype_kind(c->in[0]->dtype) == VN_KIND_COMPLEX)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s (%s): element type %s", c->node->path, c->node->op, vn_dtype_name(c->in[0]->dtype));
    VN_TRY(read_axes(c, &r, &noop));
    if (noop) {
        c->out[0] = vn_tensor_retain(c->in[0]);
        return VN_OK;
    }
    VN_TRY(arrange(c, &r));
    vn_status_t s = vn_dtype_is_float(c->in[0]->dtype) ? reduce_floats(c, &r) : reduce_ints(c, &r);
    vn_tensor_free(r.front);
    return s;
}

static const op_row_t rows[] = {
    {"ReduceSum", run_reduce, SUM},
    {"ReduceMean", run_reduce, MEAN},
    {"ReduceMax", run_reduce, MAX},
    {"ReduceMin", run_reduce, MIN},
};
const op_table_t reduction_ops = {rows, sizeof rows / sizeof *rows};
