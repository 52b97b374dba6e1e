/* reveal_softmax.c -- Softmax: the order of its denominator, exp as the kernel itself computes it, and how each output is made of both.
 *
 * Claim REVEAL-9: with 0 at leaf T and the largest value, log(0.4 ulp(1)) at two other leaves and exp = 0 elsewhere, the output at T is below 1 if
 * and only if the two meet before T.
 * Claim REVEAL-10: where the sum is a power of two, 2^k times an output is the kernel's exp of that argument, exactly. Such sums are found by trial:
 * zeros and one further argument fill the row up. So the terms of the replay are numbers that this kernel used in this very column.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/reveal.h"

enum { CHECKS = 200, DISTRIBUTIONS = 3, JUDGED = 1 << 16, TRIES = 40, AGAIN = 10, FEWEST = 3 };
static const float none = -1000; /* exp of it is 0 in every format of f32's range */

static float argument_of(double units) { return (float)log(units * 0x1p-23); }

static vn_status_t ask(void *context, int64_t count, const int32_t *t, const int32_t *i, const int32_t *j, uint8_t *yes, vn_error_t *err) {
    vn_row_sums_t *q = context;
    for (int64_t from = 0; from < count; from += q->n_rows) {
        const int32_t rows = (int32_t)(count - from < q->n_rows ? count - from : q->n_rows);
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) q->x[e] = none;
        for (int32_t k = 0; k < rows; ++k) {
            float *x = vn_row_sums_at(q, k);
            x[t[from + k]] = 0;
            x[i[from + k]] = x[j[from + k]] = argument_of(0.4);
        }
        VN_TRY(vn_row_sums_run(q, err));
        for (int32_t k = 0; k < rows; ++k) yes[from + k] = vn_row_sums_out(q, k)[t[from + k]] != 1;
    }
    return VN_OK;
}

/* One unit of 0.4 ulp must be lost, one of 1.05 must show. */
static vn_status_t shows(vn_row_sums_t *q, bool *found, vn_error_t *err) {
    static const double sizes[2] = {0.4, 1.05};
    bool moved[2];
    for (int s = 0; s < 2; ++s) {
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) q->x[e] = none;
        float *x = vn_row_sums_at(q, 0);
        x[0] = 0;
        x[1] = argument_of(sizes[s]);
        VN_TRY(vn_row_sums_run(q, err));
        moved[s] = vn_row_sums_out(q, 0)[0] != 1;
    }
    *found = !moved[0] && moved[1];
    return VN_OK;
}

static vn_status_t read_class(void *context, vn_schedule_class_t *k, vn_error_t *err) {
    vn_row_sums_t *q = context;
    bool found = true;
    if (q->n > 2) VN_TRY(shows(q, &found, err));
    if (!found) {
        k->violation =
            (vn_violation_t){.kind = VN_TREE_WIDE, .what = "1 ulp of a denominator of 1 does not show, or less does: no f32 sum"};
        return VN_OK;
    }
    return vn_rebuild_triplets(q->n, vn_rng_u64(&q->r->rng), CHECKS, ask, q, &k->tree, &k->violation, err);
}

/* ---- exp, measured ---- */

/* The terms of one row of data: each part of the columns is measured in a row of its own, the others fill the sum up. */
typedef struct filler {
    int32_t first, step; /* the columns that are wanted: first, first + step, ... */
    int copies;          /* of the further argument */
    double extra;        /* what it should give beyond the first guess */
    int32_t tries;
    bool done;
} filler_t;

static bool wanted(const filler_t *f, int32_t column) { return column % f->step == f->first; }

/* Zeros and one further argument in the columns that are not wanted, so that the sum is about 2^*power. False: there is no room. */
static bool fill(const vn_row_sums_t *q, const float *data, filler_t *f, float *x, int *power) {
    double sum = 0;
    int32_t zeros = 0, room = 0;
    for (int32_t c = 0; c < q->n; ++c) {
        if (wanted(f, c)) sum += exp(data[c]);
        else ++room;
    }
    const double least = sum + 1;
    *power = (int)ceil(log2(least));
    double target = ldexp(1, *power);
    if (target > least && target - least < 0x1p-10) target = ldexp(1, ++*power);
    int32_t due = (int32_t)floor(target - sum);
    double rest = target - sum - due;
    f->copies = 1;
    if (rest == 0) f->copies = 0; /* whole numbers only */
    else if (rest < 0x1p-10) { /* too little to be hit exactly: one zero less, and two arguments that share it */ due--;
        rest = (rest + 1) / 2;
        f->copies = 2;
    }
    if (due < 1 || due + f->copies > room) return false;
    int placed = 0;
    const double each = rest + f->extra < 0x1p-20 ? 0x1p-20 : rest + f->extra > 1 ? 1 : rest + f->extra;
    /* The further argument comes last where the order is one chain: a term added after it that ends in half an ulp makes every second sum, by ties to
     * even, one that is never met. Later tries move it. */
    const int32_t shift = f->tries / AGAIN * 7;
    for (int32_t k = 0; k < q->n; ++k) {
        const int32_t c = (q->n - 1 - k + shift) % q->n;
        if (wanted(f, c)) {
            x[c] = data[c];
        } else if (placed < f->copies) {
            x[c] = (float)log(each);
            ++placed;
        } else {
            x[c] = zeros < due ? 0 : none;
            ++zeros;
        }
    }
    return true;
}

typedef struct measure {
    vn_row_sums_t *q;
    const float *data; /* [rows][n], largest 0 */
    int32_t rows, parts;
    float *e;    /* [rows][n] */
    bool *known; /* [rows] */
    filler_t *job;
} measure_t;

static void take(measure_t *w, int32_t id, const float *x, const double *y, int power) {
    vn_row_sums_t *q = w->q;
    filler_t *f = &w->job[id];
    double most = 0;
    for (int32_t c = 0; c < q->n; ++c)
        if (x[c] == 0 && !wanted(f, c) && y[c] > most) most = y[c];
    f->tries++;
    if (most == ldexp(1, -power)) {
        const int32_t row = id / w->parts;
        for (int32_t c = 0; c < q->n; ++c)
            if (wanted(f, c)) w->e[(int64_t)row * q->n + c] = (float)ldexp(y[c], power);
        f->done = true;
        return;
    }
    const double damped = 0.4 + 0.8 * vn_rng_uniform(&q->r->rng);
    if (most > 0) f->extra += damped * (ldexp(1, power) - 1 / most) / f->copies;
}

/* The kernel's exp of every value in its own column. Rows that do not get there are not known. */
static vn_status_t exp_of(measure_t *w, vn_error_t *err) {
    vn_row_sums_t *q = w->q;
    const int32_t jobs = w->rows * w->parts;
    int32_t *asked = vn_alloc((size_t)q->n_rows + 1, sizeof *asked);
    int *power = vn_alloc((size_t)q->n_rows + 1, sizeof *power);
    vn_status_t st = asked && power ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int32_t id = 0; id < jobs; ++id) w->job[id] = (filler_t){.first = id % w->parts, .step = w->parts};
    for (int round = 0; round < TRIES && st == VN_OK; ++round) {
        bool any = false;
        for (int32_t next = 0; next < jobs && st == VN_OK;) {
            int32_t n = 0;
            for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) q->x[e] = 0;
            for (; next < jobs && n < q->n_rows; ++next) {
                if (w->job[next].done || w->job[next].tries > round) continue;
                if (!fill(q, w->data + (int64_t)(next / w->parts) * q->n, &w->job[next], vn_row_sums_at(q, n), &power[n])) {
                    w->job[next].tries = TRIES;
                    continue;
                }
                asked[n++] = next;
            }
            if (n == 0) continue;
            any = true;
            st = vn_row_sums_run(q, err);
            for (int32_t k = 0; k < n && st == VN_OK; ++k) take(w, asked[k], vn_row_sums_at(q, k), vn_row_sums_out(q, k), power[k]);
        }
        if (!any) break;
    }
    for (int32_t row = 0; row < w->rows; ++row) {
        w->known[row] = true;
        for (int32_t p = 0; p < w->parts; ++p) w->known[row] &= w->job[row * w->parts + p].done;
    }
    vn_free(asked);
    vn_free(power);
    return st;
}

/* ---- the proof ---- */

enum { PRODUCT, QUOTIENT, FORMS };

typedef struct tally {
    int64_t judged[DISTRIBUTIONS], equal[DISTRIBUTIONS][FORMS], unknown;
} tally_t;

static double largest(const float *x, int32_t n) {
    double most = x[0];
    for (int32_t k = 1; k < n; ++k) most = x[k] > most ? x[k] : most;
    return most;
}

static void draw(vn_row_sums_t *q, int d) {
    static const double spread[DISTRIBUTIONS] = {1, 1, 8};
    for (int32_t row = 0; row < q->m; ++row) {
        float *x = q->x + (int64_t)row * q->n;
        for (int32_t k = 0; k < q->n; ++k) x[k] = (float)(vn_rng_normal(&q->r->rng) * spread[d]);
        if (d == 0) { /* the largest is 0: exp takes the values as they are */
            const float most = (float)largest(x, q->n);
            for (int32_t k = 0; k < q->n; ++k) x[k] = x[k] - most;
        }
    }
}

/* Data of some batches in the rows of a class: values less the largest, and the outputs. */
static vn_status_t sample(vn_row_sums_t *q, int d, int64_t draws, float *data, double *due, vn_error_t *err) {
    const int32_t n = q->n;
    for (int64_t b = 0; b < draws; ++b) {
        draw(q, d);
        VN_TRY(vn_row_sums_run(q, err));
        for (int32_t k = 0; k < q->n_rows; ++k) {
            const float *x = vn_row_sums_at(q, k);
            const float most = (float)largest(x, n);
            const int64_t to = (b * q->n_rows + k) * n;
            for (int32_t c = 0; c < n; ++c) data[to + c] = x[c] - most;
            memcpy(due + to, vn_row_sums_out(q, k), (size_t)n * sizeof *due);
        }
    }
    return VN_OK;
}

static void compare(const measure_t *w, int d, const double *due, const float *sum, tally_t *tally) {
    const int32_t n = w->q->n;
    for (int32_t k = 0; k < w->rows; ++k) {
        if (!w->known[k]) {
            tally->unknown++;
            continue;
        }
        const float inverse = 1 / sum[k];
        tally->judged[d] += n;
        for (int64_t e = (int64_t)k * n; e < (int64_t)(k + 1) * n; ++e) {
            tally->equal[d][PRODUCT] += due[e] == (double)(w->e[e] * inverse);
            tally->equal[d][QUOTIENT] += due[e] == (double)(w->e[e] / sum[k]);
        }
    }
}

static vn_status_t replay_class(vn_row_sums_t *q, const vn_tree_t *t, tally_t *tally, vn_error_t *err) {
    enum { TRIES_EACH = 12 }; /* calls a part takes, about */
    const int32_t parts = q->n < 8 ? q->n : 2;
    const int64_t draws = vn_row_sums_draws(q, JUDGED / DISTRIBUTIONS, (int64_t)DISTRIBUTIONS * TRIES_EACH * parts);
    const size_t rows = (size_t)draws * (size_t)q->n_rows, all = rows * (size_t)q->n;
    measure_t w = {.q = q, .rows = (int32_t)rows, .parts = parts};
    float *data = vn_alloc(all, sizeof *data), *sum = vn_alloc(rows, sizeof *sum);
    double *due = vn_alloc(all, sizeof *due);
    vn_replay_t *r = NULL;
    w.e = vn_alloc(all, sizeof *w.e);
    w.known = vn_alloc(rows, sizeof *w.known);
    w.job = vn_alloc(rows * (size_t)parts, sizeof *w.job);
    w.data = data;
    vn_status_t st = data && sum && due && w.e && w.known && w.job ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    if (st == VN_OK) st = vn_replay_compile(t, &q->r->s->arithmetic, &r, err);
    for (int d = 0; d < DISTRIBUTIONS && st == VN_OK; ++d) {
        const vn_plane_t e = {w.e, 1, q->n}, nothing = {0};
        st = sample(q, d, draws, data, due, err);
        if (st == VN_OK) st = exp_of(&w, err);
        if (st == VN_OK) st = vn_replay_terms(r, w.rows, e, nothing, nothing, sum, err);
        if (st == VN_OK) compare(&w, d, due, sum, tally);
    }
    vn_replay_free(r);
    vn_free(data);
    vn_free(sum);
    vn_free(due);
    vn_free(w.e);
    vn_free(w.known);
    vn_free(w.job);
    return st;
}

static void conclude(vn_schedule_t *s, const tally_t *t) {
    static const char *const names[DISTRIBUTIONS] = {"rows whose largest is 0", "normal data", "normal data times 8"};
    int64_t by_form[FORMS] = {0};
    for (int d = 0; d < DISTRIBUTIONS; ++d)
        for (int f = 0; f < FORMS; ++f) by_form[f] += t->equal[d][f];
    const int form = by_form[QUOTIENT] > by_form[PRODUCT] ? QUOTIENT : PRODUCT;
    for (int d = 0; d < DISTRIBUTIONS; ++d) {
        s->elements += t->judged[d];
        s->replayed += t->equal[d][form];
        if (t->equal[d][form] < t->judged[d])
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %lld elements differ from the replay%s", names[d],
                          (long long)(t->judged[d] - t->equal[d][form]), (long long)t->judged[d],
                          d == 1 && t->equal[0][form] == t->judged[0] ? "; exp is no function of x - max, or the sum is rescaled (online)"
                                                                      : "");
    }
    if (s->elements) snprintf(s->form, sizeof s->form, form == QUOTIENT ? "y = e/S" : "y = e*(1/S)");
    if (t->unknown)
        vn_reveal_say(s->notes, sizeof s->notes, "%lld rows left out: their exp could not be measured exactly", (long long)t->unknown);
    if (!s->elements) vn_reveal_say(s->reason, sizeof s->reason, "no row's exp could be measured: nothing was replayed");
}

vn_status_t vn_reveal_softmax(vn_reveal_run_t *r, vn_error_t *err) {
    vn_row_sums_t q = {0};
    vn_classes_t classes = {0};
    tally_t tally = {0};
    r->s->arithmetic = vn_arithmetic_default(VN_FMT_F32);
    vn_status_t st = vn_row_sums_begin(&q, r, 0, 0, err);
    if (st == VN_OK && q.n < FEWEST)
        st = vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: exp inside Softmax is measured from %d terms on", FEWEST);
    if (st == VN_OK) st = vn_row_sums_classes(&q, &classes, read_class, &q, err);
    for (int c = 0; c < classes.count && st == VN_OK; ++c) {
        q.row = classes.cell[c].row;
        q.n_rows = classes.cell[c].rows;
        if (r->s->classes[c].tree) st = replay_class(&q, r->s->classes[c].tree, &tally, err);
    }
    if (st == VN_OK) conclude(r->s, &tally);
    if (st == VN_OK) st = vn_reveal_identity(r->s, err);
    vn_classes_clear(&classes);
    vn_row_sums_end(&q);
    return st;
}
