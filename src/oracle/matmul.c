/* matmul.c -- shapes, broadcasting and offsets of matrix products. */
#include "oracle/matmul.h"

#include <string.h>

#include "oracle/require.h"

typedef struct view {
    int batch_rank;
    int64_t batch[VN_MAX_RANK], step[VN_MAX_RANK]; /* batch dimensions and their element steps */
    int64_t rows, cols, ld;                        /* of op(X) */
    bool t, vector;                                /* vector: one-dimensional operand, its matrix dimension is dropped */
} view_t;

/* Operand as a batch of matrices. left: a vector is a row, else a column. */
static vn_status_t look(vn_eval_t *e, int k, bool t, bool tb, bool left, view_t *v) {
    const vn_tensor_t *x = e->in[k].t;
    *v = (view_t){0};
    if (x->rank < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d is a scalar; a matrix product needs at least one dimension", k);
    if (x->rank == 1) {
        v->vector = true;
        v->rows = left ? 1 : x->dims[0];
        v->cols = left ? x->dims[0] : 1;
        v->ld = left ? x->dims[0] : 1;
        return VN_OK;
    }
    /* Order of dimensions after the optional move of the first behind the batch. */
    int order[VN_MAX_RANK];
    int64_t step[VN_MAX_RANK], s = 1;
    for (int d = x->rank - 1; d >= 0; --d) {
        step[d] = s;
        s *= x->dims[d] > 0 ? x->dims[d] : 1;
    }
    for (int d = 0; d < x->rank; ++d) order[d] = d;
    if (tb)
        for (int d = 0; d < x->rank - 1; ++d) order[d] = d == x->rank - 2 ? 0 : d + 1;
    v->batch_rank = x->rank - 2;
    for (int d = 0; d < v->batch_rank; ++d) {
        v->batch[d] = x->dims[order[d]];
        v->step[d] = step[order[d]];
    }
    const int r = order[x->rank - 2], c = x->rank - 1;
    v->t = t;
    v->rows = t ? x->dims[c] : x->dims[r];
    v->cols = t ? x->dims[r] : x->dims[c];
    v->ld = step[r] > 0 ? step[r] : 1;
    return VN_OK;
}

static void offsets_of(const view_t *v, int rank, const int64_t *dims, int64_t count, int64_t *out) {
    int64_t at[VN_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; ++i) {
        int64_t o = 0;
        for (int d = 0; d < v->batch_rank; ++d) {
            const int64_t x = at[rank - v->batch_rank + d];
            o += (v->batch[d] == 1 ? 0 : x) * v->step[d];
        }
        out[i] = o;
        for (int d = rank - 1; d >= 0; --d) {
            if (++at[d] < dims[d]) break;
            at[d] = 0;
        }
    }
}

/* One right-hand matrix for stacked left-hand ones: a single tall product. */
static void fold(vn_matmul_t *m) {
    vn_batch_t *g = &m->g;
    if (g->ta || g->lda != g->k || g->count < 2) return;
    for (int64_t i = 0; i < g->count; ++i)
        if (m->a_off[i] != i * g->m * g->k || m->b_off[i] != m->b_off[0]) return;
    g->m *= g->count;
    g->count = 1;
}

vn_status_t vn_matmul_plan(vn_eval_t *e, int ka, int kb, vn_matmul_form_t form, bool offsets, vn_matmul_t *out) {
    *out = (vn_matmul_t){0};
    view_t a, b;
    VN_TRY(vn_require(e, (ka > kb ? ka : kb) + 1));
    VN_TRY(look(e, ka, form.ta, form.tba, true, &a));
    VN_TRY(look(e, kb, form.tb, form.tbb, false, &b));
    if (a.cols != b.rows)
        return vn_eval_fail(e, VN_ERR_SHAPE, "inner dimensions %lld and %lld differ", (long long)a.cols, (long long)b.rows);
    VN_TRY(vn_broadcast_shape(a.batch_rank, a.batch, b.batch_rank, b.batch, &out->batch_rank, out->batch_dims, e->err) == VN_OK
               ? VN_OK
               : vn_eval_fail(e, VN_ERR_SHAPE, "batch dimensions do not broadcast"));
    out->rank = 0;
    int64_t count = 1;
    for (int d = 0; d < out->batch_rank; ++d) {
        out->dims[out->rank++] = out->batch_dims[d];
        if (!vn_i64_mul(count, out->batch_dims[d], &count)) return vn_eval_fail(e, VN_ERR_RANGE, "too many matrices");
    }
    if (out->batch_rank + 2 > VN_MAX_RANK) return vn_eval_fail(e, VN_ERR_RANGE, "rank above %d", VN_MAX_RANK);
    if (!a.vector) out->dims[out->rank++] = a.rows;
    if (!b.vector) out->dims[out->rank++] = b.cols;
    out->g = (vn_batch_t){.count = count, .m = a.rows, .n = b.cols, .k = a.cols, .lda = a.ld, .ldb = b.ld, .ta = a.t, .tb = b.t};
    out->matrices = count;
    out->rows = a.rows;
    if (!offsets) return VN_OK;
    out->a_off = vn_alloc((size_t)(count ? count : 1), sizeof *out->a_off);
    out->b_off = vn_alloc((size_t)(count ? count : 1), sizeof *out->b_off);
    if (!out->a_off || !out->b_off) {
        vn_matmul_free(out);
        return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld matrices", (long long)count);
    }
    offsets_of(&a, out->batch_rank, out->batch_dims, count, out->a_off);
    offsets_of(&b, out->batch_rank, out->batch_dims, count, out->b_off);
    fold(out);
    out->g.a_off = out->a_off;
    out->g.b_off = out->b_off;
    return VN_OK;
}

void vn_matmul_free(vn_matmul_t *m) {
    vn_free(m->a_off);
    vn_free(m->b_off);
    m->a_off = m->b_off = NULL;
    m->g.a_off = m->g.b_off = NULL;
}
