/* terms_sum.c -- summands of ReduceSum, ReduceL1, ReduceSumSquare, ReduceMean, ReduceL2, ReduceLogSum, GlobalAveragePool, CumSum. */
#include <math.h>
#include <string.h>

#include "oracle/terms.h"

/* Which axes are reduced: attribute, input 1, or all. */
static vn_status_t reduced_axes(vn_eval_t *e, bool *reduced) {
    const int rank = e->in[0].t->rank;
    int64_t axes[VN_MAX_RANK], count = 0;
    const int64_t *given = vn_node_ints(e->node, "axes", &count);
    if (count > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "more axes than dimensions");
    for (int64_t a = 0; a < count; ++a) axes[a] = given[a];
    if (!given && vn_has(e, 1)) {
        int n;
        VN_TRY(vn_arg_ints(e, 1, axes, VN_MAX_RANK, &n));
        count = n;
    }
    memset(reduced, 0, VN_MAX_RANK * sizeof *reduced);
    for (int64_t a = 0; a < count; ++a) {
        int axis;
        VN_TRY(vn_eval_axis(e, axes[a], rank, &axis));
        reduced[axis] = true;
    }
    for (int d = 0; count == 0 && d < rank; ++d) reduced[d] = vn_node_int(e->node, "noop_with_empty_axes", 0) == 0;
    return VN_OK;
}

vn_status_t vn_terms_reduce(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    bool reduced[VN_MAX_RANK];
    VN_TRY(reduced_axes(e, reduced));
    const bool squares = strcmp(e->node->op, "ReduceSumSquare") == 0 || strcmp(e->node->op, "ReduceL2") == 0,
               sizes = strcmp(e->node->op, "ReduceL1") == 0;
    const vn_tensor_t *x = e->in[0].t;
    const double *v = vn_arg_f64(e, 0);
    if (!v) return VN_ERR_NOMEM;
    int64_t at[VN_MAX_RANK] = {0}, strides[VN_MAX_RANK], stride = 1, base = 0;
    for (int d = x->rank - 1; d >= 0; --d) {
        strides[d] = stride;
        stride *= x->dims[d];
        if (!reduced[d] && x->dims[d]) {
            base += i % x->dims[d] * strides[d];
            i /= x->dims[d];
        }
    }
    *n = 0;
    if (x->count == 0) return VN_OK;
    for (;;) { /* an odometer over the reduced axes, last axis fastest */
        int64_t offset = base;
        for (int d = 0; d < x->rank; ++d) offset += at[d] * strides[d];
        if (*n < max) out[*n] = squares ? v[offset] * v[offset] : sizes ? fabs(v[offset]) : v[offset];
        ++*n;
        int d = x->rank - 1;
        for (; d >= 0; --d) {
            if (!reduced[d]) continue;
            if (++at[d] < x->dims[d]) break;
            at[d] = 0;
        }
        if (d < 0) return VN_OK;
    }
}

vn_status_t vn_terms_global_pool(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    const vn_tensor_t *x = e->in[0].t;
    const double *v = vn_arg_f64(e, 0);
    if (!v) return VN_ERR_NOMEM;
    *n = 1;
    for (int d = 2; d < x->rank; ++d) *n *= x->dims[d];
    for (int64_t t = 0; t < *n && t < max; ++t) out[t] = v[i * *n + t];
    return VN_OK;
}

vn_status_t vn_terms_cumsum(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    const vn_tensor_t *x = e->in[0].t;
    const double *v = vn_arg_f64(e, 0);
    int64_t axis64;
    int count, axis;
    if (!v) return VN_ERR_NOMEM;
    VN_TRY(vn_arg_ints(e, 1, &axis64, 1, &count));
    if (count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "axis must be one number");
    VN_TRY(vn_eval_axis(e, axis64, x->rank, &axis));
    int64_t stride = 1;
    for (int d = axis + 1; d < x->rank; ++d) stride *= x->dims[d];
    const bool reverse = vn_node_int(e->node, "reverse", 0) != 0, exclusive = vn_node_int(e->node, "exclusive", 0) != 0;
    const int64_t at = i / stride % x->dims[axis], last = x->dims[axis] - 1, first = i - at * stride;
    *n = (reverse ? last - at : at) + !exclusive;
    for (int64_t t = 0; t < *n && t < max; ++t) out[t] = v[first + (reverse ? last - t : t) * stride];
    return VN_OK;
}
