/* probe.c -- questions that name a few terms each, packed into as few calls as their values allow. */
#include <math.h>

#include "schedule/reveal.h"

void vn_probe_add(vn_probe_t *q, int32_t leaf, double a, double b) {
    if (q->n == VN_PROBE_TERMS) return;
    q->leaf[q->n] = leaf;
    q->a[q->n] = a;
    q->b[q->n++] = b;
}

/* Which lines carry the probes: rows if all of them have the same factor in b, columns if in a, else one element of the diagonal each. */
typedef enum packing { BY_ROW, BY_COLUMN, BY_DIAGONAL } packing_t;

static bool same_bits(double x, double y) { return x == y && !signbit(x) == !signbit(y); }

static packing_t packing_of(const vn_gemm_t *p, const vn_cell_t *cell, int64_t count, const vn_probe_t *probe) {
    bool a = true, b = true, start = true;
    for (int64_t k = 0; k < count; ++k) {
        for (int t = 0; t < probe[k].n; ++t) {
            a &= same_bits(probe[k].a[t], probe[0].a[0]);
            b &= same_bits(probe[k].b[t], probe[0].b[0]);
        }
        start &= same_bits(probe[k].start, probe[0].start);
    }
    b &= !p->c || start || p->r->op->addend_rows > 1;   /* one row of addends serves all rows */
    if (b && (p->r->call->constant & 2)) return BY_ROW; /* a weight that stays is not loaded again */
    if (a && (!b || cell->columns >= cell->rows)) return BY_COLUMN;
    return b ? BY_ROW : BY_DIAGONAL;
}

static void place(vn_gemm_t *p, packing_t how, int32_t row, int32_t column, const vn_probe_t *q) {
    for (int t = 0; t < q->n; ++t) {
        if (how != BY_COLUMN) vn_gemm_put_a(p, (int64_t)row * p->k + q->leaf[t], q->a[t]);
        if (how != BY_ROW) vn_gemm_put_b(p, (int64_t)q->leaf[t] * p->n + column, q->b[t]);
    }
    if (!p->c) return;
    if (p->r->op->addend_rows > 1) p->c[(int64_t)row * p->n + column] = (float)q->start;
    else
        for (int32_t r = 0; r < p->m; ++r) p->c[(int64_t)r * p->n + column] = (float)q->start;
}

vn_status_t vn_gemm_probe(vn_gemm_t *p, const vn_cell_t *cell, int64_t count, const vn_probe_t *probe, double *out, vn_error_t *err) {
    if (count == 0) return VN_OK;
    const packing_t how = packing_of(p, cell, count, probe);
    const int32_t least = cell->rows < cell->columns ? cell->rows : cell->columns;
    const int32_t lines = how == BY_ROW ? cell->rows : how == BY_COLUMN ? cell->columns : least;
    int64_t *element = vn_alloc((size_t)lines + 1, sizeof *element);
    vn_status_t st = element ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld probes", (long long)count);
    for (int64_t from = 0; from < count && st == VN_OK; from += lines) {
        const int32_t some = (int32_t)(count - from < lines ? count - from : lines);
        const double a = how == BY_COLUMN ? probe[0].a[0] : 0, b = how == BY_ROW ? probe[0].b[0] : 0;
        vn_gemm_fill(p, (float)a, (float)b);
        for (int64_t e = 0; b != (float)b && e < (int64_t)p->k * p->n; ++e) vn_gemm_put_b(p, e, b); /* f64: both parts */
        for (int64_t e = 0; a != (float)a && e < (int64_t)p->m * p->k; ++e) vn_gemm_put_a(p, e, a);
        for (int32_t x = 0; x < some; ++x)
            place(p, how, cell->row[how == BY_COLUMN ? 0 : x], cell->column[how == BY_ROW ? 0 : x], &probe[from + x]);
        for (int32_t x = 0; x < some; ++x)
            element[x] = (int64_t)cell->row[how == BY_COLUMN ? 0 : x] * p->n + cell->column[how == BY_ROW ? 0 : x];
        st = vn_gemm_run_few(p, some, element, out + from, err);
    }
    vn_free(element);
    return st;
}
