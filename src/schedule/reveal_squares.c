/* reveal_squares.c -- ReduceSumSquare, ReduceL2 and ReduceL1: sums of non-negative terms, whose order no mask can show.
 *
 * Claim REVEAL-6: a row holds a term t at leaf T, whose square is exact, and units of 0.4 ulp(t^2) at two other leaves. If these meet before T they make 0.8 ulp
 * and round t^2 up, else each is lost by itself: the rooted triplet (T; i, j). One ulp of the sum must show in the output: t is chosen by
 * trial so that a single unit of 0.3 ulp moves nothing and one of 1.05 ulp does. ReduceL1 is the same with |t| in place of t^2.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/reveal.h"

enum { CHECKS = 200, DRAWS = 6, PAIRS = 16, CANDIDATES = 64, DISTRIBUTIONS = 2 };

typedef struct squares {
    vn_reveal_run_t *r;
    int32_t m, n;
    bool plain;  /* ReduceL1: the terms are magnitudes */
    float *x;    /* [m*n] */
    double *out; /* [m] */
    const int32_t *row;
    int32_t n_rows;
    float term, unit; /* t, and the unit of a question */
    double still;     /* the output when nothing moves */
} squares_t;

static vn_status_t run(squares_t *q, vn_error_t *err) {
    const int64_t dims[2] = {q->m, q->n};
    vn_tensor_t *x;
    VN_TRY(vn_tensor_new(VN_F32, 2, dims, &x, err));
    memcpy(x->data, q->x, (size_t)q->m * (size_t)q->n * sizeof *q->x);
    const vn_tensor_t *in[1] = {x};
    vn_free(q->out);
    q->out = NULL;
    const vn_status_t st = vn_reveal_call(q->r, in, q->m, &q->out, err);
    vn_tensor_free(x);
    return st;
}

static float *row_of(squares_t *q, int32_t k) { return q->x + (int64_t)q->row[k] * q->n; }
static void clear(squares_t *q) { memset(q->x, 0, (size_t)q->m * (size_t)q->n * sizeof *q->x); }
/* The number whose term is `size` ulp of the term of t. */
static float unit_of(const squares_t *q, float t, double size) {
    return q->plain ? (float)(size * vn_ulp(VN_FMT_F32, t)) : (float)sqrt(size * vn_ulp(VN_FMT_F32, (double)t * t));
}

/* A term that shows one ulp of its square, tried on leaves 0 and 1 of single rows. *found false: none does. */
static vn_status_t calibrate(squares_t *q, bool *found, vn_error_t *err) {
    static const double sizes[3] = {0, 0.3, 1.05};
    *found = false;
    for (int k = 0; k < CANDIDATES && !*found; ++k) {
        double got[3];
        const float t = 1 + (float)(k * 37 % 2048) / 2048 * 2; /* 12 bits in [1, 3) */
        for (int s = 0; s < 3; ++s) {
            clear(q);
            row_of(q, 0)[0] = t;
            row_of(q, 0)[1] = unit_of(q, t, sizes[s]);
            VN_TRY(run(q, err));
            got[s] = q->out[q->row[0]];
        }
        if (got[1] != got[0] || got[2] == got[0]) continue;
        q->term = t;
        q->unit = unit_of(q, t, 0.4);
        q->still = got[0];
        *found = true;
    }
    return VN_OK;
}

static vn_status_t ask(void *context, int64_t count, const int32_t *t, const int32_t *i, const int32_t *j, uint8_t *yes, vn_error_t *err) {
    squares_t *q = context;
    for (int64_t from = 0; from < count; from += q->n_rows) {
        const int32_t rows = (int32_t)(count - from < q->n_rows ? count - from : q->n_rows);
        clear(q);
        for (int32_t k = 0; k < rows; ++k) {
            row_of(q, k)[t[from + k]] = q->term;
            row_of(q, k)[i[from + k]] = row_of(q, k)[j[from + k]] = q->unit;
        }
        VN_TRY(run(q, err));
        for (int32_t k = 0; k < rows; ++k) yes[from + k] = q->out[q->row[k]] != q->still;
    }
    return VN_OK;
}

static vn_status_t same_rows(squares_t *q, double **sig, vn_classes_t *classes, vn_error_t *err) {
    for (int s = 0; s < DRAWS; ++s) {
        for (int32_t k = 0; k < q->n; ++k) {
            const float v = (float)vn_rng_normal(&q->r->rng);
            for (int32_t row = 0; row < q->m; ++row) q->x[(int64_t)row * q->n + k] = v;
        }
        VN_TRY(run(q, err));
        sig[s] = q->out;
        q->out = NULL;
    }
    return vn_classes_of(q->m, 1, DRAWS, sig, classes, err);
}

/* ---- is the square of a leaf fused onto its sibling's sum? ---- */

static float finish(const squares_t *q, float sum) { return q->r->op->kind == VN_SUM_L2 ? sqrtf(sum) : sum; }

/* Numbers b whose square, fused onto a^2 or rounded first, give different outputs. */
static int tell_apart(squares_t *q, float a, float *b, float *fused, float *apart) {
    int n = 0;
    for (int tries = 0; tries < 100000 && n < PAIRS; ++tries) {
        const float v = (float)(1 + vn_rng_uniform(&q->r->rng));
        const float square = v * v, base = a * a;
        const float one = finish(q, fmaf(v, v, base)), two = finish(q, base + square);
        if (one == two) continue;
        b[n] = v;
        fused[n] = one;
        apart[n++] = two;
    }
    return n;
}

/* A leaf of each leaf's sibling; -1: none. */
static vn_status_t siblings(const vn_tree_t *t, int32_t *of, vn_error_t *err) {
    int32_t *some = vn_alloc((size_t)t->nodes + 1, sizeof *some);
    if (!some) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int32_t k = 0; k < t->n; ++k) of[k] = -1;
    for (int32_t k = 0; k < t->nodes; ++k) {
        const int32_t a = t->child[t->first[k]], b = t->child[t->first[k] + 1];
        const int32_t la = a < t->n ? a : some[a - t->n], lb = b < t->n ? b : some[b - t->n];
        some[k] = la;
        if (a < t->n) of[a] = lb;
        if (b < t->n) of[b] = la;
    }
    vn_free(some);
    return VN_OK;
}

/* fused[leaf]: the share of questions that were answered as a fused square would; most: how many each leaf is asked. */
static vn_status_t ask_fused(squares_t *q, const vn_tree_t *t, const int32_t *sibling, uint8_t *fused, vn_error_t *err) {
    float b[PAIRS], one[PAIRS], two[PAIRS];
    const float a = 1.25f; /* its square is exact */
    const int pairs = tell_apart(q, a, b, one, two);
    int32_t *votes = vn_alloc((size_t)t->n + 1, sizeof *votes);
    if (!votes) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    const int64_t questions = (int64_t)t->n * pairs;
    vn_status_t st = VN_OK;
    for (int64_t from = 0; from < questions && st == VN_OK; from += q->n_rows) {
        const int32_t rows = (int32_t)(questions - from < q->n_rows ? questions - from : q->n_rows);
        clear(q);
        for (int32_t k = 0; k < rows; ++k) {
            const int32_t leaf = (int32_t)((from + k) / pairs), p = (int32_t)((from + k) % pairs);
            if (sibling[leaf] < 0) continue;
            row_of(q, k)[leaf] = b[p];
            row_of(q, k)[sibling[leaf]] = a;
        }
        st = run(q, err);
        for (int32_t k = 0; k < rows && st == VN_OK; ++k) {
            const int32_t leaf = (int32_t)((from + k) / pairs), p = (int32_t)((from + k) % pairs);
            const double got = q->out[q->row[k]];
            votes[leaf] += got == (double)one[p] ? 1 : got == (double)two[p] ? -1 : 0;
        }
    }
    for (int32_t k = 0; k < t->n; ++k) fused[k] = votes[k] > 0;
    vn_free(votes);
    return st;
}

static vn_status_t marks(squares_t *q, vn_tree_t **tree, bool *fma_used, vn_error_t *err) {
    const vn_tree_t *t = *tree;
    int32_t *sibling = vn_alloc((size_t)t->n + 1, sizeof *sibling);
    uint8_t *fused = vn_alloc((size_t)t->n + 1, 1);
    vn_status_t st = sibling && fused ? siblings(t, sibling, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) st = ask_fused(q, t, sibling, fused, err);
    if (st == VN_OK) st = vn_tree_mark_squares(tree, fused, fma_used, err);
    vn_free(sibling);
    vn_free(fused);
    return st;
}

/* ---- the proof ---- */

static vn_status_t replay(squares_t *q, const vn_classes_t *classes, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    float *sums = vn_alloc((size_t)q->m, sizeof *sums);
    vn_status_t st = sums ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    for (int d = 0; d < DISTRIBUTIONS && st == VN_OK; ++d) {
        int64_t equal = 0;
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e)
            q->x[e] = (float)(vn_rng_normal(&q->r->rng) * (d ? exp2((double)vn_rng_below(&q->r->rng, 25) - 12) : 1));
        st = run(q, err);
        for (int64_t e = 0; q->plain && e < (int64_t)q->m * q->n; ++e) q->x[e] = fabsf(q->x[e]);
        for (int c = 0; c < classes->count && st == VN_OK; ++c) {
            vn_replay_t *r;
            const vn_plane_t x = {q->x, 1, q->n}, none = {0};
            if (!s->classes[c].tree) continue;
            st = vn_replay_compile(s->classes[c].tree, &s->arithmetic, &r, err);
            if (st != VN_OK) break;
            st = vn_replay_terms(r, q->m, x, q->plain ? none : x, none, sums, err);
            for (int32_t row = 0; row < q->m && st == VN_OK; ++row)
                equal += classes->of[row] == c && q->out[row] == (double)finish(q, sums[row]);
            vn_replay_free(r);
        }
        s->elements += q->m;
        s->replayed += equal;
        if (st == VN_OK && equal < q->m)
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %d rows differ from the replay",
                          d ? "exponents spread by 12" : "normal data", (long long)(q->m - equal), q->m);
    }
    vn_free(sums);
    return st;
}

static vn_status_t trees(squares_t *q, vn_classes_t *classes, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    bool measured = false;
    s->classes = vn_alloc((size_t)classes->count, sizeof *s->classes);
    if (!s->classes) return vn_fail(err, VN_ERR_NOMEM, "no memory for %d classes", classes->count);
    s->n_classes = classes->count;
    s->outputs = q->m;
    for (int c = 0; c < classes->count; ++c) {
        vn_schedule_class_t *k = &s->classes[c];
        bool found = true, fma_used = false;
        k->elements = classes->elements[c];
        if (!(k->where = vn_strdup(classes->where[c]))) return vn_fail(err, VN_ERR_NOMEM, "no memory");
        q->row = classes->cell[c].row;
        q->n_rows = classes->cell[c].rows;
        if (q->n > 2) VN_TRY(calibrate(q, &found, err));
        if (!found) {
            k->violation =
                (vn_violation_t){.kind = VN_TREE_WIDE, .what = "no term shows one ulp of its square: the running sum is wider than f32"};
        } else {
            VN_TRY(vn_rebuild_triplets(q->n, vn_rng_u64(&q->r->rng), CHECKS, ask, q, &k->tree, &k->violation, err));
        }
        if (!k->tree) {
            vn_reveal_say(s->reason, sizeof s->reason, "%s at %.60s: %s", vn_violation_name(k->violation.kind), k->where,
                          k->violation.what);
            continue;
        }
        if (q->n > 1 && !q->plain) VN_TRY(marks(q, &k->tree, &fma_used, err));
        if (measured && fma_used != s->arithmetic.fma)
            vn_reveal_say(s->notes, sizeof s->notes, "class %d differs in its arithmetic", c + 1);
        if (!measured) s->arithmetic.fma = fma_used;
        measured = true;
    }
    return VN_OK;
}

vn_status_t vn_reveal_squares(vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    double *sig[DRAWS] = {0};
    vn_classes_t classes = {0};
    if (op->dtype != VN_F32)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: sums of squares of %s cannot be read; f32 can", vn_dtype_name(op->dtype));
    if (op->m < 1 || op->n < 1 || op->m > 1 << 22 || op->n > 1 << 22 || op->m * op->n > (int64_t)1 << 30)
        return vn_fail(err, VN_ERR_RANGE, "reveal: %lld rows of %lld terms", (long long)op->m, (long long)op->n);
    squares_t q = {.r = r, .m = (int32_t)op->m, .n = (int32_t)op->n, .plain = op->kind == VN_SUM_REDUCE_L1};
    r->s->arithmetic = vn_arithmetic_default(VN_FMT_F32);
    q.x = vn_alloc((size_t)q.m * (size_t)q.n, sizeof *q.x);
    vn_status_t st = q.x ? same_rows(&q, sig, &classes, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for %d rows of %d", q.m, q.n);
    if (st == VN_OK) st = trees(&q, &classes, err);
    if (st == VN_OK) st = replay(&q, &classes, err);
    if (st == VN_OK) st = vn_reveal_identity(r->s, err);
    vn_classes_clear(&classes);
    for (int k = 0; k < DRAWS; ++k) vn_free(sig[k]);
    vn_free(q.x);
    vn_free(q.out);
    return st;
}
