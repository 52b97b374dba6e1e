/* bcast.c -- several operands laid over one output shape by the ONNX (NumPy) broadcast rule, walked in rows. */
#include "oracle/bcast.h"

#include <stdio.h>

static vn_status_t misfit(vn_eval_t *e, const vn_tensor_t *t, int rank, const int64_t *dims) {
    char shape[200];
    vn_tensor_describe(t, shape, sizeof shape);
    char other[200] = "";
    size_t at = 0;
    for (int d = 0; d < rank && at < sizeof other - 24; ++d)
        at += (size_t)snprintf(other + at, sizeof other - at, "%s%lld", d ? "," : "", (long long)dims[d]);
    return vn_eval_fail(e, VN_ERR_SHAPE, "%s does not broadcast with [%s]", shape, other);
}

vn_status_t vn_bcast_shape(vn_eval_t *e, int n, const int *operands, int *rank, int64_t *dims) {
    *rank = 0;
    for (int k = 0; k < n; ++k) {
        const vn_tensor_t *t = e->in[operands[k]].t;
        if (!t) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing or not a tensor", operands[k]);
        int64_t merged[VN_MAX_RANK];
        int merged_rank;
        if (vn_broadcast_shape(*rank, dims, t->rank, t->dims, &merged_rank, merged, NULL) != VN_OK) return misfit(e, t, *rank, dims);
        *rank = merged_rank;
        for (int d = 0; d < merged_rank; ++d) dims[d] = merged[d];
    }
    return VN_OK;
}

/* Steps of a contiguous tensor laid over the output; false if it does not fit. */
static bool steps(const vn_tensor_t *t, int rank, const int64_t *dims, int64_t *step) {
    if (t->rank > rank) return false;
    int64_t s = 1;
    for (int d = rank - 1, k = t->rank - 1; d >= 0; --d, --k) {
        step[d] = 0;
        if (k < 0 || (t->dims[k] == 1 && dims[d] != 1)) continue;
        if (t->dims[k] != dims[d]) return false;
        if (dims[d] != 1) step[d] = s;
        s *= t->dims[k];
    }
    return true;
}

/* Drops axes of one element; merges an axis into the one before it where every operand walks both as one. */
static void merge(vn_bcast_t *b) {
    int r = 0;
    for (int d = 0; d < b->rank; ++d) {
        if (b->dims[d] == 1) continue;
        bool joins = r > 0;
        for (int k = 0; k < b->n && joins; ++k) joins = b->step[k][r - 1] == b->step[k][d] * b->dims[d];
        if (joins) {
            b->dims[r - 1] *= b->dims[d];
            for (int k = 0; k < b->n; ++k) b->step[k][r - 1] = b->step[k][d];
        } else {
            b->dims[r] = b->dims[d];
            for (int k = 0; k < b->n; ++k) b->step[k][r] = b->step[k][d];
            ++r;
        }
    }
    b->rank = r;
}

static vn_status_t finish_plan(vn_eval_t *e, vn_bcast_t *b) {
    b->rank = b->out_rank;
    b->count = 1;
    for (int d = 0; d < b->rank; ++d) {
        b->dims[d] = b->out_dims[d];
        if (b->dims[d] == 0) b->count = 0;
    }
    for (int d = 0; d < b->rank && b->count; ++d)
        if (!vn_i64_mul(b->count, b->dims[d], &b->count)) return vn_eval_fail(e, VN_ERR_RANGE, "the broadcast shape has too many elements");
    if (b->count) merge(b);
    return VN_OK;
}

vn_status_t vn_bcast_plan(vn_eval_t *e, int n, const int *operands, vn_bcast_t *b) {
    *b = (vn_bcast_t){.n = n};
    VN_TRY(vn_bcast_shape(e, n, operands, &b->out_rank, b->out_dims));
    for (int k = 0; k < n; ++k)
        if (!steps(e->in[operands[k]].t, b->out_rank, b->out_dims, b->step[k]))
            return misfit(e, e->in[operands[k]].t, b->out_rank, b->out_dims);
    return finish_plan(e, b);
}

vn_status_t vn_bcast_onto(vn_eval_t *e, const vn_tensor_t *t, int rank, const int64_t *dims, vn_bcast_t *b) {
    *b = (vn_bcast_t){.n = 1, .out_rank = rank};
    for (int d = 0; d < rank; ++d) b->out_dims[d] = dims[d];
    if (!steps(t, rank, dims, b->step[0])) return misfit(e, t, rank, dims);
    return finish_plan(e, b);
}

typedef struct walk {
    const vn_bcast_t *b;
    vn_piece_fn fn;
    void *ctx;
} walk_t;

static void walk_range(void *ctx, int64_t begin, int64_t end) {
    const walk_t *w = ctx;
    const vn_bcast_t *b = w->b;
    int64_t index[VN_MAX_RANK] = {0}, rest = begin;
    vn_piece_t p = {.out = begin};
    for (int d = b->rank - 1; d >= 0; --d) {
        index[d] = rest % b->dims[d];
        rest /= b->dims[d];
        for (int k = 0; k < b->n; ++k) p.at[k] += index[d] * b->step[k][d];
    }
    const int last = b->rank - 1;
    for (int k = 0; k < b->n; ++k) p.step[k] = last < 0 ? 0 : b->step[k][last];
    while (p.out < end) {
        const int64_t left = last < 0 ? 1 : b->dims[last] - index[last];
        p.n = end - p.out < left ? end - p.out : left;
        if (p.n > VN_BCAST_ROW) p.n = VN_BCAST_ROW;
        w->fn(w->ctx, &p);
        p.out += p.n;
        if (last < 0) return;
        index[last] += p.n;
        for (int k = 0; k < b->n; ++k) p.at[k] += p.n * p.step[k];
        for (int d = last; d > 0 && index[d] == b->dims[d]; --d) { /* carry */
            index[d] = 0;
            ++index[d - 1];
            for (int k = 0; k < b->n; ++k) p.at[k] += b->step[k][d - 1] - b->dims[d] * b->step[k][d];
        }
    }
}

void vn_bcast_run(const vn_bcast_t *b, vn_piece_fn fn, void *ctx) {
    walk_t w = {.b = b, .fn = fn, .ctx = ctx};
    vn_parallel(b->count, VN_BCAST_GRAIN, walk_range, &w);
}
