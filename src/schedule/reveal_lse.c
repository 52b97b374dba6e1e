/* reveal_lse.c -- ReduceLogSumExp: the order of its sum of exp. The output is a logarithm, so the terms cannot be read back as those of Softmax can.
 *
 * Claim REVEAL-11: with 0 at leaf T, log(0.4 ulp(1)) at two other leaves and exp = 0 elsewhere, the output is above 0 if and only if the two meet before T.
 * For the replay exp and log are taken to be those of the C library, or the correctly rounded ones; what fits none of the four pairs is said to differ.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/reveal.h"

enum { CHECKS = 200, DISTRIBUTIONS = 3, JUDGED = 1 << 16, VARIANTS = 4 };
static const float none = -1000;

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
        for (int32_t k = 0; k < rows; ++k) yes[from + k] = vn_row_sums_out(q, k)[0] != 0;
    }
    return VN_OK;
}

static vn_status_t shows(vn_row_sums_t *q, bool *found, vn_error_t *err) {
    static const double sizes[2] = {0.4, 1.05};
    bool moved[2];
    for (int s = 0; s < 2; ++s) {
        for (int64_t e = 0; e < (int64_t)q->m * q->n; ++e) q->x[e] = none;
        float *x = vn_row_sums_at(q, 0);
        x[0] = 0;
        x[1] = argument_of(sizes[s]);
        VN_TRY(vn_row_sums_run(q, err));
        moved[s] = vn_row_sums_out(q, 0)[0] != 0;
    }
    *found = !moved[0] && moved[1];
    return VN_OK;
}

static vn_status_t read_class(void *context, vn_schedule_class_t *k, vn_error_t *err) {
    vn_row_sums_t *q = context;
    bool found = true;
    if (q->n > 2) VN_TRY(shows(q, &found, err));
    if (!found) {
        k->violation = (vn_violation_t){.kind = VN_TREE_WIDE, .what = "1 ulp of a sum of 1 does not show, or less does: no f32 sum"};
        return VN_OK;
    }
    return vn_rebuild_triplets(q->n, vn_rng_u64(&q->r->rng), CHECKS, ask, q, &k->tree, &k->violation, err);
}

/* Variant bit 0: exp correctly rounded (but for 2^-29 of the arguments), else the library's; bit 1: log alike. */
static float exp_by(int variant, float x) { return variant & 1 ? (float)exp((double)x) : expf(x); }
static float log_by(int variant, float x) { return variant & 2 ? (float)log((double)x) : logf(x); }

typedef struct tally {
    int64_t judged[DISTRIBUTIONS], equal[DISTRIBUTIONS][VARIANTS];
} tally_t;

static void draw(vn_row_sums_t *q, int d) {
    for (int32_t row = 0; row < q->m; ++row) {
        float *x = q->x + (int64_t)row * q->n, most = -INFINITY;
        for (int32_t k = 0; k < q->n; ++k) x[k] = (float)(vn_rng_normal(&q->r->rng) * (d == 2 ? 8 : 1));
        for (int32_t k = 0; k < q->n; ++k) most = x[k] > most ? x[k] : most;
        for (int32_t k = 0; k < q->n && d == 0; ++k) x[k] = x[k] - most;
    }
}

static vn_status_t prove(vn_row_sums_t *q, const vn_classes_t *classes, vn_replay_t *const *programs, int d, float *e, float *sum,
                         tally_t *t, vn_error_t *err) {
    const vn_plane_t terms = {e, 1, q->n}, nothing = {0};
    draw(q, d);
    VN_TRY(vn_row_sums_run(q, err));
    for (int exps = 0; exps < 2; ++exps) {
        for (int32_t row = 0; row < q->m; ++row) {
            const float *x = q->x + (int64_t)row * q->n;
            float most = x[0];
            for (int32_t k = 1; k < q->n; ++k) most = x[k] > most ? x[k] : most;
            for (int32_t k = 0; k < q->n; ++k) e[(int64_t)row * q->n + k] = exp_by(exps, x[k] - most);
        }
        for (int c = 0; c < classes->count; ++c) {
            if (!programs[c]) continue;
            VN_TRY(vn_replay_terms(programs[c], q->m, terms, nothing, nothing, sum, err));
            for (int32_t row = 0; row < q->m; ++row) {
                const float *x = q->x + (int64_t)row * q->n;
                float most = x[0];
                if (classes->of[row] != c) continue;
                for (int32_t k = 1; k < q->n; ++k) most = x[k] > most ? x[k] : most;
                t->judged[d] += exps == 0;
                for (int logs = 0; logs < 2; ++logs)
                    t->equal[d][2 * logs + exps] += q->out[row] == (double)(log_by(2 * logs, sum[row]) + most);
            }
        }
    }
    return VN_OK;
}

static void conclude(vn_schedule_t *s, const tally_t *t) {
    static const char *const names[DISTRIBUTIONS] = {"rows whose largest is 0", "normal data", "normal data times 8"};
    static const char *const functions[VARIANTS] = {"exp and log of the C library", "exp correctly rounded, log of the C library",
                                                    "exp of the C library, log correctly rounded", "exp and log correctly rounded"};
    int best = 0;
    int64_t most = -1;
    for (int v = 0; v < VARIANTS; ++v) {
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
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %lld of %lld rows differ from the replay with %s", names[d],
                          (long long)(t->judged[d] - t->equal[d][best]), (long long)t->judged[d], functions[best]);
    }
    snprintf(s->form, sizeof s->form, "y = log(S) + max");
    vn_reveal_say(s->notes, sizeof s->notes, "replayed with %s", functions[best]);
}

static vn_status_t replay(vn_row_sums_t *q, const vn_classes_t *classes, vn_error_t *err) {
    vn_schedule_t *s = q->r->s;
    tally_t tally = {0};
    vn_replay_t **programs = vn_alloc((size_t)classes->count, sizeof(vn_replay_t *));
    float *e = vn_alloc((size_t)q->m * (size_t)q->n, sizeof *e), *sum = vn_alloc((size_t)q->m, sizeof *sum);
    vn_status_t st = programs && e && sum ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    for (int c = 0; c < classes->count && st == VN_OK; ++c)
        if (s->classes[c].tree) st = vn_replay_compile(s->classes[c].tree, &s->arithmetic, &programs[c], err);
    const int64_t draws = vn_row_sums_draws(q, JUDGED / DISTRIBUTIONS, DISTRIBUTIONS);
    for (int d = 0; d < DISTRIBUTIONS && st == VN_OK; ++d)
        for (int64_t k = 0; k < draws && st == VN_OK; ++k) st = prove(q, classes, programs, d, e, sum, &tally, err);
    for (int c = 0; programs && c < classes->count; ++c) vn_replay_free(programs[c]);
    if (st == VN_OK) conclude(s, &tally);
    vn_free(programs);
    vn_free(e);
    vn_free(sum);
    return st;
}

vn_status_t vn_reveal_log_sum_exp(vn_reveal_run_t *r, vn_error_t *err) {
    vn_row_sums_t q = {0};
    vn_classes_t classes = {0};
    r->s->arithmetic = vn_arithmetic_default(VN_FMT_F32);
    vn_status_t st = vn_row_sums_begin(&q, r, 1, 0, err);
    if (st == VN_OK) st = vn_row_sums_classes(&q, &classes, read_class, &q, err);
    if (st == VN_OK) st = replay(&q, &classes, err);
    if (st == VN_OK) st = vn_reveal_identity(r->s, err);
    vn_classes_clear(&classes);
    vn_row_sums_end(&q);
    return st;
}
