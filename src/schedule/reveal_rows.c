/* reveal_rows.c -- ReduceSum, ReduceMean and GlobalAveragePool: every row of the input is a sum of its own, and carries a question of its own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/reveal.h"

enum { CHECKS = 200, DISTRIBUTIONS = 3 };

typedef struct rows {
    vn_reveal_run_t *r;
    int32_t m, n;
    bool mean;
    float *x;           /* [m*n] */
    double *out;        /* [m] */
    const int32_t *row; /* rows of the class that is asked */
    int32_t n_rows;
} rows_t;

static vn_status_t run(rows_t *q, vn_error_t *err) {
    const int64_t dims[2] = {q->m, q->n};
    vn_tensor_t *x;
    VN_TRY(vn_tensor_new(q->r->op->dtype, 2, dims, &x, err));
    if (q->r->op->dtype == VN_F32) memcpy(x->data, q->x, (size_t)q->m * (size_t)q->n * sizeof *q->x);
    else
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) vn_tensor_set_f64(x, e, q->x[e]);
    const vn_tensor_t *in[1] = {x};
    vn_free(q->out);
    const vn_status_t st = vn_reveal_call(q->r, in, q->m, &q->out, err);
    vn_tensor_free(x);
    return st;
}

static double sum_of(const rows_t *q, int32_t row) { return q->mean ? q->out[row] * q->n : q->out[row]; }

/* One pair a row, as many rows as the class has. Means multiply back; a count is a whole number far below 2^24, so rounding puts it right. */
static vn_status_t ask(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    rows_t *q = context;
    const vn_readout_t readout = vn_readout_of(q->r->op->dtype);
    for (int64_t from = 0; from < pairs; from += q->n_rows) {
        const int32_t count = (int32_t)(pairs - from < q->n_rows ? pairs - from : q->n_rows);
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) q->x[e] = 1;
        for (int32_t k = 0; k < count; ++k) {
            q->x[(int64_t)q->row[k] * q->n + i[from + k]] = (float)readout.mask;
            q->x[(int64_t)q->row[k] * q->n + j[from + k]] = (float)-readout.mask;
        }
        VN_TRY(run(q, err));
        for (int32_t k = 0; k < count; ++k) {
            const double units = sum_of(q, q->row[k]);
            l[from + k] = q->n - (q->mean && fabs(units - rint(units)) < 0.01 ? rint(units) : units);
        }
    }
    return VN_OK;
}

/* The same row in all places: rows with equal bits, over several draws, are taken as one class. */
static vn_status_t same_rows(rows_t *q, double **sig, int draws, vn_classes_t *classes, vn_error_t *err) {
    for (int s = 0; s < draws; ++s) {
        for (int32_t k = 0; k < q->n; ++k) {
            const float v = (float)vn_rng_normal(&q->r->rng);
            for (int32_t row = 0; row < q->m; ++row) q->x[(int64_t)row * q->n + k] = v;
        }
        VN_TRY(run(q, err));
        sig[s] = q->out;
        q->out = NULL;
    }
    return vn_classes_of(q->m, 1, draws, sig, classes, err);
}

/* ---- replay ---- */

/* The three ways from a sum to a mean. */
typedef enum final { SUM, QUOTIENT, RECIPROCAL } final_t;
static float finish(final_t f, float s, int32_t n) {
    const float count = (float)n, inverse = 1.0f / count;
    return f == QUOTIENT ? s / count : f == RECIPROCAL ? s * inverse : s;
}

static vn_status_t replay(rows_t *q, const vn_classes_t *classes, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    const float scale[DISTRIBUTIONS] = {1, 1, 0x1p-126f};
    float *sums = vn_alloc((size_t)q->m, sizeof *sums);
    if (!sums) return vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    vn_status_t st = VN_OK;
    final_t form = q->mean ? QUOTIENT : SUM;
    for (int d = 0; d < DISTRIBUTIONS && st == VN_OK; ++d) {
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e)
            q->x[e] = (float)(vn_rng_normal(&q->r->rng) * (d == 1 ? exp2((double)vn_rng_below(&q->r->rng, 25) - 12) : 1)) * scale[d];
        st = run(q, err);
        int64_t best = -1;
        final_t best_form = form;
        bool best_flush = s->arithmetic.ftz;
        for (int flush = 0; flush < 2 && st == VN_OK; ++flush)
            for (final_t f = q->mean ? QUOTIENT : SUM; f <= (q->mean ? RECIPROCAL : SUM) && st == VN_OK; f = (final_t)(f + 1)) {
                int64_t equal = 0;
                vn_arithmetic_t a = s->arithmetic;
                if (flush != s->arithmetic.ftz && d != 2) continue; /* only small data tell */
                a.ftz = a.daz = flush;
                for (int c = 0; c < classes->count && st == VN_OK; ++c) {
                    vn_replay_t *r;
                    const vn_plane_t x = {q->x, 1, q->n}, none = {0};
                    if (!s->classes[c].tree) continue;
                    st = vn_replay_compile(s->classes[c].tree, &a, &r, err);
                    if (st != VN_OK) break;
                    st = vn_replay_terms(r, q->m, x, none, none, sums, err);
                    for (int32_t row = 0; st == VN_OK && row < q->m; ++row) {
                        if (classes->of[row] != c) continue;
                        float due = finish(f, sums[row], q->n);
                        if (flush && fabsf(due) < 0x1p-126f) due = copysignf(0, due);
                        equal += q->out[row] == (double)due && !signbit(q->out[row]) == !signbit(due);
                    }
                    vn_replay_free(r);
                }
                if (equal > best) {
                    best = equal;
                    best_form = f;
                    best_flush = flush;
                }
            }
        form = best_form;
        s->arithmetic.ftz = s->arithmetic.daz = best_flush;
        s->elements += q->m;
        s->replayed += best > 0 ? best : 0;
        if (st == VN_OK && best < q->m)
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %d rows differ from the replay",
                          d == 0   ? "normal data"
                          : d == 1 ? "exponents spread by 12"
                                   : "data near underflow",
                          (long long)(q->m - best), q->m);
    }
    if (st == VN_OK && q->mean) vn_reveal_say(s->notes, sizeof s->notes, form == QUOTIENT ? "mean = sum / n" : "mean = sum * (1/n)");
    vn_free(sums);
    return st;
}

static vn_status_t trees(rows_t *q, vn_classes_t *classes, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    s->classes = vn_alloc((size_t)classes->count, sizeof *s->classes);
    if (!s->classes) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d classes", classes->count);
    s->n_classes = classes->count;
    s->outputs = q->m;
    for (int c = 0; c < classes->count; ++c) {
        vn_schedule_class_t *k = &s->classes[c];
        k->elements = classes->elements[c];
        if (!(k->where = vn_strdup(classes->where[c]))) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        q->row = classes->cell[c].row;
        q->n_rows = classes->cell[c].rows;
        VN_TRY(vn_rebuild_pairs(q->n, vn_rng_u64(&q->r->rng), CHECKS, ask, q, &k->tree, &k->violation, err));
        if (!k->tree)
            vn_reveal_say(s->reason, sizeof s->reason, "%s at %.60s: %s", vn_violation_name(k->violation.kind), k->where,
                          k->violation.what);
    }
    return VN_OK;
}

vn_status_t vn_reveal_rows(vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    enum { DRAWS = 6 };
    double *sig[DRAWS] = {0};
    vn_classes_t classes = {0};
    if (op->dtype != VN_F32)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: reductions of %s cannot be read; f32 can", vn_dtype_name(op->dtype));
    if (op->m < 1 || op->n < 1 || op->m > 1 << 22 || op->n > 1 << 22 || op->m * op->n > (int64_t)1 << 30)
        return vn_fail(err, VN_ERR_RANGE, "reveal: %lld rows of %lld terms", (long long)op->m, (long long)op->n);
    rows_t q = {.r = r, .m = (int32_t)op->m, .n = (int32_t)op->n, .mean = op->kind != VN_SUM_REDUCE_SUM};
    r->s->arithmetic = vn_arithmetic_default(VN_FMT_F32);
    q.x = vn_alloc((size_t)q.m * (size_t)q.n, sizeof *q.x);
    vn_status_t st = q.x ? same_rows(&q, sig, DRAWS, &classes, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for %d rows of %d", q.m, q.n);
    if (st == VN_OK) st = trees(&q, &classes, err);
    if (st == VN_OK) st = replay(&q, &classes, err);
    if (st == VN_OK) st = vn_reveal_identity(r->s, err);
    vn_classes_clear(&classes);
    for (int k = 0; k < DRAWS; ++k) vn_free(sig[k]);
    vn_free(q.x);
    vn_free(q.out);
    return st;
}
