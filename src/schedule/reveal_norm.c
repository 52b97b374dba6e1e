/* reveal_norm.c -- RMSNormalization and LayerNormalization: the sum of squares, the sum of the mean, and what is made of them.
 *
 * Claim REVEAL-12 (RMS): as sums of squares (REVEAL-6), read at the output of leaf T. All numbers are large, so that epsilon is lost or known.
 * Claim REVEAL-13 (variance): deviations sum to 0, so there are two large ones: +a at i, -a at p, u with u^2 = 0.72 ulp(a^2) at j, and -u in whole steps of
 * 2^-22 over the others; every partial sum of the mean is exact. a^2 is odd in its ulps. If j meets i or p before these meet, 0.72 becomes 1, and the
 * tie at 2 a^2 + 1 goes up; else u^2 is below half an ulp of 2 a^2. So the output at i moves unless i and p meet before j.
 * Claim REVEAL-14 (mean): with +M, -M and units e, a unit leaf's output is e l / n / sqrt(2 M^2 / n).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/norm_form.h"
#include "schedule/reveal.h"

enum { CHECKS = 200, DISTRIBUTIONS = 3, JUDGED = 1 << 16, CANDIDATES = 96, SAMPLES = 768, FEWEST = 8, MEANS = 4, BODIES = 4 };

typedef struct norm {
    vn_row_sums_t q;
    bool layer, one_pass, formed; /* formed: the form was read, in the first class with a tree */
    float epsilon;
    float term;      /* a or t */
    double *still;   /* [n] the output at each leaf when nothing moves */
    float *own[2];   /* [n] random scale and bias, for forms and replays */
    float *plain[2]; /* ones and zeros, for trees */
    vn_norm_form_t form;
} norm_t;

static const float large = 0x1p12F; /* all terms of a question times this: epsilon is small beside their squares */

static void weights(norm_t *w, bool random) {
    for (int k = 0; k < 2; ++k)
        if (w->q.weight[k]) memcpy(w->q.weight[k], random ? w->own[k] : w->plain[k], (size_t)w->q.n * sizeof(float));
}
static void clear(norm_t *w) { memset(w->q.x, 0, (size_t)w->q.m * (size_t)w->q.n * sizeof *w->q.x); }

/* ---- order of the squares ---- */

/* 12 bits. Of a layer norm: in [sqrt 2, 2), odd, so that its square is odd in units of its ulp. */
static float candidate(const norm_t *w, int k) {
    return w->layer ? (float)(2899 + 2 * (k * 37 % 598)) / 2048 : 1 + (float)(k * 37 % 2048) / 2048 * 2;
}

/* A row: +a at i, for a layer norm -a at p, and what is `size` ulp of a^2 at j; other: RMS only, the same at p (-1: nothing there). */
static void put(const norm_t *w, float a, int32_t i, int32_t p, int32_t j, double size, float *x) {
    const int32_t n = w->q.n;
    x[i] = a * large;
    if (!w->layer) {
        const float unit = (float)sqrt(size * vn_ulp(VN_FMT_F32, (double)a * a));
        x[j] = unit * large;
        if (p >= 0) x[p] = unit * large;
        return;
    }
    const int32_t steps = (int32_t)rint(sqrt(size * vn_ulp(VN_FMT_F32, (double)a * a)) * 0x1p22), others = n - 3;
    x[p] = -a * large;
    x[j] = (float)steps * 0x1p-22F * large;
    int32_t at = 0;
    for (int32_t k = 0; k < n; ++k) {
        const int32_t leaf = (j + k) % n;
        if (leaf == i || leaf == p || leaf == j) continue;
        const int32_t share = steps / others + (at++ < steps % others);
        x[leaf] = -(float)share * 0x1p-22F * large;
    }
}

/* Leaf k is the large one: the output there for no, too small and large enough units. */
static vn_status_t sizes_at(norm_t *w, float a, int32_t from, int32_t count, double *got, vn_error_t *err) {
    vn_row_sums_t *q = &w->q;
    const double sizes[3] = {0, w->layer ? 0.25 : 0.3, w->layer ? 2.2 : 1.05};
    for (int32_t done = 0; done < 3 * count; done += q->n_rows) {
        const int32_t rows = 3 * count - done < q->n_rows ? 3 * count - done : q->n_rows;
        clear(w);
        for (int32_t k = 0; k < rows; ++k) {
            const int32_t leaf = from + (done + k) / 3, p = (leaf + 1) % q->n, j = (leaf + 2) % q->n;
            put(w, a, leaf, w->layer ? p : -1, w->layer ? j : p, sizes[(done + k) % 3], vn_row_sums_at(q, k));
        }
        VN_TRY(vn_row_sums_run(q, err));
        for (int32_t k = 0; k < rows; ++k) got[done + k] = vn_row_sums_out(q, k)[from + (done + k) / 3];
    }
    return VN_OK;
}

static vn_status_t calibrate(norm_t *w, bool *found, vn_error_t *err) {
    const int32_t n = w->q.n;
    double *got = vn_alloc(3 * (size_t)n, sizeof *got);
    vn_status_t st = got ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    *found = false;
    for (int k = 0; k < CANDIDATES && !*found && st == VN_OK; ++k) {
        const float a = candidate(w, k);
        bool good = true;
        st = sizes_at(w, a, 0, 1, got, err);
        if (st != VN_OK || got[1] != got[0] || got[2] == got[0]) continue;
        st = sizes_at(w, a, 0, n, got, err);
        for (int32_t leaf = 0; leaf < n && st == VN_OK; ++leaf) {
            good &= got[3 * leaf + 1] == got[3 * leaf] && got[3 * leaf + 2] != got[3 * leaf];
            w->still[leaf] = got[3 * leaf];
        }
        w->term = a;
        *found = good;
    }
    vn_free(got);
    return st;
}

static vn_status_t ask(void *context, int64_t count, const int32_t *t, const int32_t *i, const int32_t *j, uint8_t *yes, vn_error_t *err) {
    norm_t *w = context;
    vn_row_sums_t *q = &w->q;
    for (int64_t from = 0; from < count; from += q->n_rows) {
        const int32_t rows = (int32_t)(count - from < q->n_rows ? count - from : q->n_rows);
        clear(w);
        for (int32_t k = 0; k < rows; ++k) {
            const int64_t at = from + k;
            if (w->layer) put(w, w->term, i[at], j[at], t[at], 0.72, vn_row_sums_at(q, k));
            else put(w, w->term, t[at], i[at], j[at], 0.4, vn_row_sums_at(q, k));
        }
        VN_TRY(vn_row_sums_run(q, err));
        for (int32_t k = 0; k < rows; ++k) {
            const int32_t leaf = w->layer ? i[from + k] : t[from + k];
            yes[from + k] = (vn_row_sums_out(q, k)[leaf] == w->still[leaf]) == w->layer;
        }
    }
    return VN_OK;
}

/* ---- order of the mean ---- */

static vn_status_t ask_mean(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    norm_t *w = context;
    vn_row_sums_t *q = &w->q;
    const double mask = 0x1p60, unit = 0x1p-20, root = sqrt(2.0 / q->n) * mask;
    for (int64_t from = 0; from < pairs; from += q->n_rows) {
        const int32_t rows = (int32_t)(pairs - from < q->n_rows ? pairs - from : q->n_rows);
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) q->x[e] = (float)unit;
        for (int32_t k = 0; k < rows; ++k) {
            vn_row_sums_at(q, k)[i[from + k]] = (float)mask;
            vn_row_sums_at(q, k)[j[from + k]] = (float)-mask;
        }
        VN_TRY(vn_row_sums_run(q, err));
        for (int32_t k = 0; k < rows; ++k) {
            int32_t leaf = 0;
            while (leaf == i[from + k] || leaf == j[from + k]) ++leaf;
            const double units = vn_row_sums_out(q, k)[leaf] * root * q->n / unit;
            l[from + k] = fabs(units - rint(units)) < 0.25 ? rint(units) : units; /* the roundings before it: some n u */
        }
    }
    return VN_OK;
}

/* Large +-1, in turn: a mean square less the square of the mean keeps nothing of the variance, deviations from the mean keep all of it. Every partial sum
 * of the terms is exact, n * large <= 2^24. A mean of S*(1/n) may be off by half an ulp, e <= 2^-10: that cancels in y[1] - y[0], and adds e^2 to the
 * variance, 2^-20 at most, so that two passes are within 2^-21 and some u. */
static vn_status_t passes(norm_t *w, vn_schedule_class_t *k, vn_error_t *err) {
    vn_row_sums_t *q = &w->q;
    float *x = vn_row_sums_at(q, 0);
    const bool decisive = q->n <= 1024; /* beyond, squares of smaller terms may be exact: the replay judges */
    const float size = decisive ? 0x1p14F : ldexpf(1, 24 - (int)ceil(log2(q->n)));
    clear(w);
    for (int32_t c = 0; c < q->n; ++c) x[c] = size + (c < q->n / 2 * 2 ? (c % 2 ? 1.0F : -1.0F) : 0.0F);
    VN_TRY(vn_row_sums_run(q, err));
    const double *y = vn_row_sums_out(q, 0), got = (y[1] - y[0]) / 2;
    const double due = 1 / sqrt((double)(q->n / 2 * 2) / q->n + w->epsilon), off = fabs(got - due);
    w->one_pass = !(off < 0x1p-19);
    if (w->one_pass && decisive && off < 0.5) {
        k->violation = (vn_violation_t){.kind = VN_TREE_ULTRAMETRIC, .value = off};
        snprintf(k->violation.what, sizeof k->violation.what,
                 "2^14 +-1 gives %.9g instead of %.9g: neither one nor two passes (Welford, or merged parts)", got, due);
    }
    return VN_OK;
}

/* ---- forms ---- */

/* One element (RMS), or +a and -a (layer): the sum is known whatever its order. */
static vn_status_t read_form(norm_t *w, vn_error_t *err) {
    vn_row_sums_t *q = &w->q;
    vn_schedule_t *s = q->r->s;
    int64_t equal[VN_NORM_FORMS] = {0}, judged = 0;
    const int32_t n = q->n;
    int best = 0;
    weights(w, true);
    for (int call = 0; call < 256 && judged < SAMPLES; ++call) {
        clear(w);
        for (int32_t k = 0; k < q->n_rows; ++k) {
            const int32_t leaf = (int32_t)vn_rng_below(&q->r->rng, (uint64_t)n);
            const double size = exp2((double)vn_rng_below(&q->r->rng, 9) - 6);
            float *x = vn_row_sums_at(q, k);
            const float some = (float)(1 + vn_rng_uniform(&q->r->rng));
            x[leaf] = (w->layer ? rintf(some * 2048) / 2048 : some) * (float)size; /* 12 bits: the square is exact */
            if (w->layer) x[(leaf + 1) % n] = -x[leaf];
        }
        VN_TRY(vn_row_sums_run(q, err));
        for (int32_t k = 0; k < q->n_rows && judged < SAMPLES; ++k) {
            const float *x = vn_row_sums_at(q, k);
            int32_t leaf = 0;
            while (x[leaf] == 0) ++leaf;
            const float square = x[leaf] * x[leaf], sum = w->layer ? 2 * square : square;
            for (int f = 0; f < VN_NORM_FORMS; ++f) {
                vn_norm_form_t form;
                if (!vn_norm_form_of(f, w->layer, &form)) continue;
                const vn_norm_row_t row = vn_norm_row_of(form, sum, n, w->epsilon, 0);
                const float b = w->layer ? w->own[1][leaf] : 0;
                equal[f] += vn_row_sums_out(q, k)[leaf] == (double)vn_norm_output(form, row, x[leaf], w->own[0][leaf], b, w->layer);
            }
            ++judged;
        }
    }
    for (int f = 1; f < VN_NORM_FORMS; ++f)
        if (equal[f] > equal[best]) best = f;
    vn_norm_form_of(best, w->layer, &w->form);
    vn_norm_form_text(w->form, w->layer, s->form, sizeof s->form);
    if (equal[best] < judged)
        vn_reveal_say(s->reason, sizeof s->reason, "no form known here fits: %lld of %lld single outputs differ from the best",
                      (long long)(judged - equal[best]), (long long)judged);
    return VN_OK;
}

/* ---- fused squares: one leaf holds a number whose square is not exact, all others numbers whose squares are ---- */

enum { TRIALS = 32, ROUNDS = 16, ENOUGH = 3 };

static void trial(norm_t *w, int32_t z, float *x) {
    const int32_t n = w->q.n;
    vn_rng_t *rng = &w->q.r->rng;
    int32_t rest = 0;
    for (int32_t k = 0; k < n; ++k) {
        const int32_t v = k == z ? 4097 + 2 * (int32_t)vn_rng_below(rng, 2048) : 1 + (int32_t)vn_rng_below(rng, 64);
        x[k] = (float)(vn_rng_below(rng, 2) && k != z ? -v : v);
        rest -= (int32_t)x[k];
    }
    for (int tries = 0; w->layer && rest != 0 && tries < 1000; ++tries) { /* a mean of 0 */
        const int32_t k = (int32_t)vn_rng_below(rng, (uint64_t)n);
        if (k == z) continue;
        const int32_t room = rest > 0 ? 4095 - (int32_t)x[k] : -4095 - (int32_t)x[k];
        const int32_t part = abs(rest) < abs(room) ? rest : room;
        x[k] += (float)part;
        rest -= part;
    }
}

typedef struct fuse {
    norm_t *w;
    vn_replay_t *fused[2], *apart; /* fused: pairs as they stand, pairs turned */
    const bool *first;             /* [n] the leaf stands first in a pair */
    float *x, *sums[2];            /* [TRIALS*n], [TRIALS] */
    int32_t *votes, *asked;        /* [n] */
    int32_t *leaf, *column;        /* of each row that is filled: who is asked, and where it shows */
    float *due[2];
    int32_t filled;
} fuse_t;

static vn_status_t flush(fuse_t *f, vn_error_t *err) {
    vn_row_sums_t *q = &f->w->q;
    if (f->filled == 0) return VN_OK;
    VN_TRY(vn_row_sums_run(q, err));
    for (int32_t k = 0; k < f->filled; ++k) {
        const double got = vn_row_sums_out(q, k)[f->column[k]];
        f->votes[f->leaf[k]] += got == (double)f->due[0][k] ? 1 : got == (double)f->due[1][k] ? -1 : 0;
    }
    f->filled = 0;
    return VN_OK;
}

static vn_status_t vote(fuse_t *f, int32_t z, vn_error_t *err) {
    norm_t *w = f->w;
    vn_row_sums_t *q = &w->q;
    const int32_t n = q->n;
    const vn_plane_t x = {f->x, 1, n}, none = {0};
    for (int32_t k = 0; k < TRIALS; ++k) trial(w, z, f->x + (int64_t)k * n);
    VN_TRY(vn_replay_terms(f->fused[f->first[z]], TRIALS, x, x, none, f->sums[0], err));
    VN_TRY(vn_replay_terms(f->apart, TRIALS, x, x, none, f->sums[1], err));
    for (int32_t k = 0; k < TRIALS && f->asked[z] < ENOUGH; ++k) {
        const float *row = f->x + (int64_t)k * n;
        float due[2] = {0};
        int32_t c = 0;
        for (; c < n && due[0] == due[1]; ++c)
            for (int p = 0; p < 2; ++p)
                due[p] = vn_norm_output(w->form, vn_norm_row_of(w->form, f->sums[p][k], n, w->epsilon, 0), row[c], w->own[0][c],
                                        w->layer ? w->own[1][c] : 0, w->layer);
        if (due[0] == due[1]) continue;
        memcpy(vn_row_sums_at(q, f->filled), row, (size_t)n * sizeof *row);
        f->leaf[f->filled] = z;
        f->column[f->filled] = c - 1;
        f->due[0][f->filled] = due[0];
        f->due[1][f->filled++] = due[1];
        f->asked[z]++;
        if (f->filled == q->n_rows) VN_TRY(flush(f, err));
    }
    return VN_OK;
}

static vn_status_t compile_both(fuse_t *f, const vn_tree_t *t, vn_error_t *err) {
    vn_arithmetic_t a = vn_arithmetic_default(VN_FMT_F32);
    vn_tree_t *turned = NULL;
    VN_TRY(vn_replay_compile(t, &a, &f->apart, err));
    a.fma = true;
    VN_TRY(vn_replay_compile(t, &a, &f->fused[0], err));
    VN_TRY(vn_tree_turn_pairs(t, &turned, err));
    const vn_status_t st = vn_replay_compile(turned, &a, &f->fused[1], err);
    vn_tree_free(turned);
    return st;
}

static vn_status_t marks(norm_t *w, vn_tree_t **tree, bool *fma_used, vn_error_t *err) {
    const vn_tree_t *t = *tree;
    const size_t n = (size_t)t->n, rows = (size_t)w->q.n_rows;
    bool *first = vn_alloc(n, sizeof *first);
    uint8_t *is_fused = vn_alloc(n, 1);
    fuse_t f = {.w = w, .first = first};
    f.x = vn_alloc(TRIALS * n, sizeof *f.x);
    f.votes = vn_alloc(n, sizeof *f.votes);
    f.asked = vn_alloc(n, sizeof *f.asked);
    f.leaf = vn_alloc(rows, sizeof *f.leaf);
    f.column = vn_alloc(rows, sizeof *f.column);
    bool complete = first && is_fused && f.x && f.votes && f.asked && f.leaf && f.column;
    for (int p = 0; p < 2; ++p) {
        f.sums[p] = vn_alloc(TRIALS, sizeof *f.sums[p]);
        f.due[p] = vn_alloc(rows, sizeof *f.due[p]);
        complete = complete && f.sums[p] && f.due[p];
    }
    for (int32_t k = 0; complete && k < t->nodes; ++k) {
        const int32_t a = t->child[t->first[k]], b = t->child[t->first[k] + 1];
        if (a < t->n && b < t->n) first[a] = true;
    }
    vn_status_t st = complete ? compile_both(&f, t, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    weights(w, true);
    if (st == VN_OK) clear(w);
    for (int round = 0; round < ROUNDS && st == VN_OK; ++round)
        for (int32_t z = 0; z < t->n && st == VN_OK; ++z)
            if (f.asked[z] < ENOUGH) st = vote(&f, z, err);
    if (st == VN_OK) st = flush(&f, err);
    for (int32_t k = 0; st == VN_OK && k < t->n; ++k) is_fused[k] = f.votes[k] > 0;
    if (st == VN_OK) st = vn_tree_mark_squares(tree, is_fused, fma_used, err);
    for (int p = 0; p < 2; ++p) {
        vn_replay_free(f.fused[p]);
        vn_free(f.sums[p]);
        vn_free(f.due[p]);
    }
    vn_replay_free(f.apart);
    vn_free(first);
    vn_free(is_fused);
    vn_free(f.x);
    vn_free(f.votes);
    vn_free(f.asked);
    vn_free(f.leaf);
    vn_free(f.column);
    return st;
}

/* ---- a class ---- */

static vn_status_t read_class(void *context, vn_schedule_class_t *k, vn_error_t *err) {
    norm_t *w = context;
    vn_schedule_t *s = w->q.r->s;
    const int32_t n = w->q.n;
    const bool begun = w->formed;
    bool found = true, fma_used = false;
    weights(w, false);
    if (w->layer) {
        VN_TRY(passes(w, k, err));
        if (k->violation.kind != VN_TREE_OK) return VN_OK;
        VN_TRY(vn_rebuild_pairs(n, vn_rng_u64(&w->q.r->rng), CHECKS, ask_mean, w, &k->mean, &k->violation, err));
        if (!k->mean) return VN_OK;
    }
    if (n > 2) VN_TRY(calibrate(w, &found, err));
    if (!found)
        k->violation =
            (vn_violation_t){.kind = VN_TREE_WIDE, .what = "no term shows one ulp of its square: the running sum is wider than f32"};
    else VN_TRY(vn_rebuild_triplets(n, vn_rng_u64(&w->q.r->rng), CHECKS, ask, w, &k->tree, &k->violation, err));
    if (!k->tree) return VN_OK;
    if (!begun) VN_TRY(read_form(w, err));
    w->formed = true;
    if (n > 1) VN_TRY(marks(w, &k->tree, &fma_used, err));
    if (begun && fma_used != s->arithmetic.fma)
        vn_reveal_say(s->notes, sizeof s->notes, "class %d differs in its arithmetic", (int)(k - s->classes) + 1);
    if (!begun) s->arithmetic.fma = fma_used;
    return VN_OK;
}

/* ---- the proof ---- */

/* How the mean is made of the sum of the terms. Layer norms only. */
typedef struct tally {
    int64_t judged[DISTRIBUTIONS], equal[DISTRIBUTIONS][MEANS];
} tally_t;

typedef struct proof {
    norm_t *w;
    const vn_classes_t *classes;
    vn_replay_t **squares, **means[2]; /* by class; means in f32, f64 */
    float *d, *mean, *sum;             /* [m*n], [m], [m] */
    double *wide, *wide_sum;           /* [m*n], [m] */
} proof_t;

static vn_status_t mean_of(const proof_t *p, int c, int variant, vn_error_t *err) {
    const vn_row_sums_t *q = &p->w->q;
    const vn_plane_t x = {q->x, 1, q->n}, none = {0};
    const float share = 1 / (float)q->n;
    if (variant < 2) {
        VN_TRY(vn_replay_terms(p->means[0][c], q->m, x, none, none, p->mean, err));
        for (int32_t k = 0; k < q->m; ++k) p->mean[k] = variant ? p->mean[k] * share : p->mean[k] / (float)q->n;
        return VN_OK;
    }
    VN_TRY(vn_replay_terms_f64(p->means[1][c], q->m, p->wide, NULL, 1, q->n, p->wide_sum, err));
    for (int32_t k = 0; k < q->m; ++k) p->mean[k] = variant == 2 ? (float)(p->wide_sum[k] / q->n) : (float)p->wide_sum[k] / (float)q->n;
    return VN_OK;
}

/* Rows of class c by one way to the mean. */
static vn_status_t rows_of(const proof_t *p, int c, int variant, int d, tally_t *t, vn_error_t *err) {
    const norm_t *w = p->w;
    const vn_row_sums_t *q = &w->q;
    const int32_t n = q->n;
    const vn_plane_t x = {w->one_pass ? q->x : p->d, 1, n}, none = {0};
    if (w->layer) VN_TRY(mean_of(p, c, variant, err));
    for (int64_t e = 0; e < (int64_t)q->m * n; ++e) p->d[e] = w->layer ? q->x[e] - p->mean[e / n] : q->x[e];
    VN_TRY(vn_replay_terms(p->squares[c], q->m, x, x, none, p->sum, err));
    for (int32_t row = 0; row < q->m; ++row) {
        if (p->classes->of[row] != c) continue;
        const float less = w->one_pass ? p->mean[row] * p->mean[row] : 0;
        const vn_norm_row_t shared = vn_norm_row_of(w->form, p->sum[row], n, w->epsilon, less);
        if (variant == 0) t->judged[d] += n;
        for (int32_t k = 0; k < n; ++k) {
            const int64_t e = (int64_t)row * n + k;
            const float due = vn_norm_output(w->form, shared, p->d[e], w->own[0][k], w->layer ? w->own[1][k] : 0, w->layer);
            t->equal[d][variant] += q->out[e] == (double)due || (isnan(q->out[e]) && isnan(due));
        }
    }
    return VN_OK;
}

static vn_status_t prove(const proof_t *p, int d, tally_t *t, vn_error_t *err) {
    norm_t *w = p->w;
    vn_row_sums_t *q = &w->q;
    for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) {
        const double z = vn_rng_normal(&q->r->rng);
        q->x[e] = d == 0   ? (float)z
                  : d == 1 ? (float)(z * exp2((double)vn_rng_below(&q->r->rng, 25) - 12))
                           : (float)((z + (w->layer && !w->one_pass ? 4 : 0)) * 0x1p-8);
        if (w->layer) p->wide[e] = q->x[e];
    }
    VN_TRY(vn_row_sums_run(q, err));
    for (int c = 0; c < p->classes->count; ++c)
        for (int v = 0; v < (w->layer ? MEANS : 1) && p->squares[c]; ++v) VN_TRY(rows_of(p, c, v, d, t, err));
    return VN_OK;
}

static void conclude(const norm_t *w, const tally_t *t) {
    static const char *const names[DISTRIBUTIONS] = {"normal data", "exponents spread by 12", "small data, of the size of epsilon"};
    static const char *const means[MEANS] = {"mean = T/n", "mean = T*(1/n)", "mean = T/n in f64, rounded", "mean = T/n, T rounded to f32"};
    vn_schedule_t *s = w->q.r->s;
    int best = 0;
    int64_t most = -1;
    for (int v = 0; v < (w->layer ? MEANS : 1); ++v) {
        int64_t equal = 0;
        for (int d = 0; d < DISTRIBUTIONS; ++d) equal += t->equal[d][v];
        if (equal <= most) continue;
        most = equal;
        best = v;
    }
    for (int d = 0; d < DISTRIBUTIONS; ++d) {
        s->elements += t->judged[d];
        s->replayed += t->equal[d][best];
        if (t->equal[d][best] < t->judged[d])
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %lld elements differ from the replay", names[d],
                          (long long)(t->judged[d] - t->equal[d][best]), (long long)t->judged[d]);
    }
    if (!w->layer || s->elements == 0) return;
    char form[sizeof s->form];
    snprintf(form, sizeof form, "%s", s->form);
    snprintf(s->form, sizeof s->form, "%s; d = x - mean; %s%.90s", means[best], w->one_pass ? "v less mean^2: one pass; " : "", form);
    s->mean_arithmetic = vn_arithmetic_default(best < 2 ? VN_FMT_F32 : VN_FMT_F64);
}

static vn_status_t compile_all(proof_t *p, vn_error_t *err) {
    const vn_schedule_t *s = p->w->q.r->s;
    const vn_arithmetic_t narrow = vn_arithmetic_default(VN_FMT_F32), wide = vn_arithmetic_default(VN_FMT_F64);
    for (int c = 0; c < s->n_classes; ++c) {
        if (!s->classes[c].tree) continue;
        VN_TRY(vn_replay_compile(s->classes[c].tree, &s->arithmetic, &p->squares[c], err));
        if (!s->classes[c].mean) continue;
        VN_TRY(vn_replay_compile(s->classes[c].mean, &narrow, &p->means[0][c], err));
        VN_TRY(vn_replay_compile(s->classes[c].mean, &wide, &p->means[1][c], err));
    }
    return VN_OK;
}

static vn_status_t replay(norm_t *w, const vn_classes_t *classes, vn_error_t *err) {
    const size_t all = (size_t)w->q.m * (size_t)w->q.n, rows = (size_t)w->q.m, count = (size_t)classes->count;
    tally_t tally = {0};
    proof_t p = {.w = w, .classes = classes};
    p.squares = vn_alloc(count, sizeof(vn_replay_t *));
    p.d = vn_alloc(all, sizeof *p.d);
    p.mean = vn_alloc(rows, sizeof *p.mean);
    p.sum = vn_alloc(rows, sizeof *p.sum);
    p.wide = vn_alloc(all, sizeof *p.wide);
    p.wide_sum = vn_alloc(rows, sizeof *p.wide_sum);
    for (int k = 0; k < 2; ++k) p.means[k] = vn_alloc(count, sizeof(vn_replay_t *));
    vn_status_t st = p.squares && p.d && p.mean && p.sum && p.wide && p.wide_sum && p.means[0] && p.means[1]
                         ? compile_all(&p, err)
                         : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    weights(w, true);
    const int64_t draws = vn_row_sums_draws(&w->q, JUDGED / DISTRIBUTIONS, DISTRIBUTIONS);
    for (int d = 0; d < DISTRIBUTIONS && st == VN_OK; ++d)
        for (int64_t k = 0; k < draws && st == VN_OK; ++k) st = prove(&p, d, &tally, err);
    if (st == VN_OK) conclude(w, &tally);
    for (int c = 0; c < classes->count; ++c) {
        if (p.squares) vn_replay_free(p.squares[c]);
        for (int k = 0; k < 2; ++k)
            if (p.means[k]) vn_replay_free(p.means[k][c]);
    }
    vn_free(p.squares);
    vn_free(p.d);
    vn_free(p.mean);
    vn_free(p.sum);
    vn_free(p.wide);
    vn_free(p.wide_sum);
    vn_free(p.means[0]);
    vn_free(p.means[1]);
    return st;
}

static vn_status_t prepare(norm_t *w, vn_error_t *err) {
    const size_t n = (size_t)w->q.n;
    bool complete = (w->still = vn_alloc(n, sizeof *w->still)) != NULL;
    for (int k = 0; k < 2 && complete; ++k) {
        w->own[k] = vn_alloc(n, sizeof *w->own[k]);
        w->plain[k] = vn_alloc(n, sizeof *w->plain[k]);
        complete = w->own[k] && w->plain[k];
        for (size_t e = 0; e < n && complete; ++e) {
            w->own[k][e] = (float)vn_rng_normal(&w->q.r->rng);
            w->plain[k][e] = k == 0;
        }
    }
    return complete ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for weights of %d", w->q.n);
}

vn_status_t vn_reveal_norm(vn_reveal_run_t *r, vn_error_t *err) {
    norm_t w = {.layer = r->op->kind == VN_SUM_LAYER_NORM, .epsilon = (float)r->op->epsilon};
    vn_classes_t classes = {0};
    r->s->arithmetic = r->s->mean_arithmetic = vn_arithmetic_default(VN_FMT_F32);
    vn_status_t st = vn_row_sums_begin(&w.q, r, 0, w.layer ? 2 : 1, err);
    if (st == VN_OK && w.layer && w.q.n < FEWEST)
        st = vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: the variance of LayerNormalization is read from %d terms on", FEWEST);
    if (st == VN_OK) st = prepare(&w, err);
    if (st == VN_OK) st = vn_row_sums_classes(&w.q, &classes, read_class, &w, err);
    if (st == VN_OK) st = replay(&w, &classes, err);
    if (st == VN_OK) st = vn_reveal_identity(r->s, err);
    vn_classes_clear(&classes);
    for (int k = 0; k < 2; ++k) {
        vn_free(w.own[k]);
        vn_free(w.plain[k]);
    }
    vn_free(w.still);
    vn_row_sums_end(&w.q);
    return st;
}
