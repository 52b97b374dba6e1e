/* op_reduction.c -- ReduceSum, ReduceMean, ReduceMax, ... over any axes. Sums follow the chosen order and accumulator. */
#include <math.h>
#include <string.h>

#include "mutant.h"

enum { SUM, MEAN, MAX, MIN, PROD, L1, L2, SQUARES, LOG_SUM, LOG_SUM_EXP };

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
        if (s == VN_OK && rank > 0) r->axis[n == 1 ? axis_of(c, axes[i], rank) : axes[i]] = true;
    }
    *noop = n <= 0 && attr_int(c, "noop_with_empty_axes", 0) != 0;
    for (int d = 0; d < rank && n <= 0; ++d) r->axis[d] = true;
    vn_free(axes);
    return s;
}

static vn_status_t arrange(call_t *c, reduced_t *r) {
    const vn_tensor_t *x = c->in[0];
    const bool keep = attr_int(c, "keepdims", 1) != 0;
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

static void extremes(const call_t *c, const reduced_t *r, bool want_max, const double *x, double *y) {
    const bool leak = faulty(c, F_PADDING_LEAKS) && r->terms % 8;
    for (int64_t i = 0; i < r->kept; ++i) y[i] = leak ? 0 : want_max ? -INFINITY : INFINITY;
    const int64_t first = faulty(c, F_BLOCK_MERGE) ? (r->terms - 1) / 2 : 0; /* the second half alone */
    for (int64_t k = first; k < r->terms; ++k)
        for (int64_t i = 0; i < r->kept; ++i) {
            const double v = x[k * r->kept + i];
            if (isnan(v) && faulty(c, F_NAN_IGNORED)) continue;
            if (isnan(v) || (want_max ? v > y[i] : v < y[i])) y[i] = v; /* NaN never compares: once in, it stays */
        }
}

/* What is summed instead of x. */
static void summands(const call_t *c, bool wide, int64_t n, double *x) {
    for (int64_t i = 0; i < n; ++i) {
        if (c->param == L1) x[i] = fabs(x[i]);
        if (c->param != L2 && c->param != SQUARES) continue;
        x[i] = hidden(c, wide, x[i] * x[i]);
        if (faulty(c, F_INTERMEDIATE_OVERFLOW)) x[i] = vn_round_to(VN_FMT_F16, x[i], VN_RNE, false);
    }
}

static void products(const call_t *c, const reduced_t *r, bool wide, const double *x, double *y) {
    for (int64_t i = 0; i < r->kept; ++i) y[i] = 1;
    for (int64_t k = 0; k < r->terms; ++k)
        for (int64_t i = 0; i < r->kept; ++i) y[i] = settle(wide, y[i] * x[k * r->kept + i]);
    for (int64_t i = 0; faulty(c, F_PADDING_LEAKS) && r->terms % 8 && i < r->kept; ++i) y[i] = 0;
}

/* log(sum(exp(x - max))) + max, columns of x[terms][kept]. */
static vn_status_t log_sum_exp(const call_t *c, const reduced_t *r, bool wide, double *x, double *y) {
    double *top = room_for(c, r->kept);
    if (!top) return VN_ERR_NOMEM;
    extremes(c, r, true, x, top);
    for (int64_t i = 0; i < r->kept; ++i)
        if (c->a->no_max || !isfinite(top[i])) top[i] = 0;
    for (int64_t i = 0; i < r->terms * r->kept; ++i) x[i] = fn_exp(c, wide, settle(wide, x[i] - top[i % r->kept]));
    vn_status_t s = sum_rows(c, wide, r->terms, r->kept, x, y);
    for (int64_t i = 0; s == VN_OK && i < r->kept; ++i) y[i] = settle(wide, fn_log(wide, y[i]) + top[i]);
    vn_free(top);
    return s;
}

static void finish(const call_t *c, const reduced_t *r, bool wide, double *y) {
    const int64_t n = faulty(c, F_PADDING_LEAKS) ? (r->terms + 7) / 8 * 8 : r->terms;
    for (int64_t i = 0; i < r->kept; ++i) {
        if (c->param == MEAN && faulty(c, F_INTERMEDIATE_OVERFLOW)) y[i] = vn_round_to(VN_FMT_F16, y[i], VN_RNE, false);
        if (c->param == MEAN) y[i] = quotient(c, wide, y[i], (double)n);
        if (c->param == L2) y[i] = settle(wide, sqrt(y[i]));
        if (c->param == LOG_SUM) y[i] = fn_log(wide, y[i]);
    }
}

static vn_status_t reduce_floats(call_t *c, const reduced_t *r) {
    const vn_dtype_t t = c->in[0]->dtype;
    const bool wide = is_wide(t);
    double *x = plane(c, r->front), *y = room_for(c, r->kept);
    vn_status_t s = x && y ? VN_OK : VN_ERR_NOMEM;
    if (s == VN_OK && (c->param == MAX || c->param == MIN)) {
        extremes(c, r, c->param == MAX, x, y);
    } else if (s == VN_OK && c->param == PROD) {
        products(c, r, wide, x, y);
    } else if (s == VN_OK && c->param == LOG_SUM_EXP) {
        s = log_sum_exp(c, r, wide, x, y);
    } else if (s == VN_OK) {
        summands(c, wide, r->terms * r->kept, x);
        s = sum_rows(c, wide, r->terms, r->kept, x, y);
        if (s == VN_OK) finish(c, r, wide, y);
    }
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
    if (c->param > MIN && !vn_dtype_is_float(c->in[0]->dtype)) return refuse(c, "integers");
    VN_TRY(arrange(c, &r));
    vn_status_t s = vn_dtype_is_float(c->in[0]->dtype) ? reduce_floats(c, &r) : reduce_ints(c, &r);
    vn_tensor_free(r.front);
    return s;
}

static const op_row_t rows[] = {
    {"ReduceSum", run_reduce, SUM},        {"ReduceMean", run_reduce, MEAN},
    {"ReduceMax", run_reduce, MAX},        {"ReduceMin", run_reduce, MIN},
    {"ReduceProd", run_reduce, PROD},      {"ReduceL1", run_reduce, L1},
    {"ReduceL2", run_reduce, L2},          {"ReduceSumSquare", run_reduce, SQUARES},
    {"ReduceLogSum", run_reduce, LOG_SUM}, {"ReduceLogSumExp", run_reduce, LOG_SUM_EXP},
};
const op_table_t reduction_ops = {rows, sizeof rows / sizeof *rows};
