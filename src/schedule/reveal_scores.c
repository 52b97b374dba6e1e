/* reveal_scores.c -- attention: the sum over head_size in Q K^T, read through the softmax.
 *
 * One key (the reference) is zero, so that its score is 0 in every order. The score of another key is s = log(w / w_reference) of their weights, both
 * read with one-hot values; the sum of the weights cancels.
 *
 * Claim REVEAL-23: with units e at one key and +M, -M and ones in the query, s = (d - l(i,j)) e scale.
 * Claim REVEAL-24: scores in [32, 64) are whole multiples of 2^-18. log(w / w_reference) is off by the error of exp and of the weights' roundings, some
 * 2^-22, so that the nearest multiple is the score, to the bit. A reading that is further from a multiple than a quarter of the spacing is refused. Of
 * readings that mean nothing half are; that at most one in eight of N >= 64 are has a probability below exp(-0.316 N) < 2^-29: then all are refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/heads.h"

enum { DRAWS = 3, CHECKS = 100, LARGEST = 1024 }; /* LARGEST: beyond, a unit of the score is less than weights of 8 bits show */
static const double spacing = 0x1p-18;

/* Where the scale is applied. */
typedef enum scaling { SCALED_SUM, SCALED_QUERY, SCALED_BOTH, SCALED_KEY, SCALINGS } scaling_t;
static const char *const scaling_names[SCALINGS] = {"sum", "queries", "queries and keys by its root", "keys"};

typedef struct asker {
    vn_heads_t *p;
    const vn_cell_t *cell;
    int32_t key, reference;
    float unit;  /* e */
    double step; /* e scale */
} asker_t;

static float *query(vn_heads_t *p, int64_t row, int32_t d) { return &p->q[row * p->size + d]; }
static float *key_at(vn_heads_t *p, int64_t plane, int32_t key, int32_t d) { return &p->k[(plane * p->keys + key) * p->size + d]; }

/* Two keys' weights side by side: even columns show the first, odd ones the second. */
static void show(vn_heads_t *p, int32_t first, int32_t second) {
    memset(p->v, 0, (size_t)p->planes * (size_t)p->keys * (size_t)p->size * sizeof *p->v);
    for (int32_t plane = 0; plane < p->planes; ++plane)
        for (int32_t c = 0; c < p->size; ++c) *vn_heads_value(p, plane, c % 2 ? second : first, c) = 1;
}
static double shown(const vn_heads_t *p, int64_t row) { return log(p->out[row * p->size] / p->out[row * p->size + 1]); }

/* ---- pairs ---- */

/* Units in a score: whole, but for the roundings of the sum and of weights that may be bf16. */
static double units(const asker_t *q, double score) {
    const double slack = ((double)(q->p->size + 3) * 64 * 0x1p-24 + 0x1p-7) / q->step, x = score / q->step;
    return slack < 0.5 && fabs(x - rint(x)) <= slack ? rint(x) : x;
}

static vn_status_t ask(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    asker_t *q = context;
    vn_heads_t *p = q->p;
    const float mask = (float)vn_readout_of(VN_F32).mask;
    memset(p->k, 0, (size_t)p->planes * (size_t)p->keys * (size_t)p->size * sizeof *p->k);
    for (int32_t plane = 0; plane < p->planes; ++plane)
        for (int32_t d = 0; d < p->size; ++d) *key_at(p, plane, q->key, d) = q->unit;
    show(p, q->key, q->reference);
    for (int64_t from = 0; from < pairs; from += q->cell->rows) {
        const int32_t count = (int32_t)(pairs - from < q->cell->rows ? pairs - from : q->cell->rows);
        for (int64_t e = 0; e < (int64_t)p->rows * p->size; ++e) p->q[e] = 1;
        for (int32_t x = 0; x < count; ++x) {
            *query(p, q->cell->row[x], i[from + x]) = mask;
            *query(p, q->cell->row[x], j[from + x]) = -mask;
        }
        VN_TRY(vn_heads_run(p, err));
        for (int32_t x = 0; x < count; ++x) l[from + x] = p->size - units(q, shown(p, q->cell->row[x]));
    }
    return VN_OK;
}

/* Largest power of two not above x. */
static double power_below(double x) { return ldexp(1, ilogb(x)); }

/* Masks cancel only if M e is exact after whatever the scale was multiplied into: e a power of two serves a scale on one side, e such that e sqrt(scale)
 * is one serves sqrt(scale) on both. The one that gives a whole number for two pairs is taken. */
static vn_status_t choose_unit(asker_t *q, vn_error_t *err) {
    const vn_heads_t *p = q->p;
    const double most = p->size > 64 ? 64.0 / p->size : 1, root = (double)sqrtf((float)p->scale);
    const double unit[2] = {power_below(most / p->scale), (float)(power_below(most / root) / root)};
    const int32_t i[2] = {0, 0}, j[2] = {p->size - 1, p->size / 2};
    for (int k = 0; k < 2; ++k) {
        double l[2];
        q->unit = (float)unit[k];
        q->step = (double)q->unit * p->scale;
        VN_TRY(ask(q, p->size > 2 ? 2 : 1, i, j, l, err));
        if (l[0] >= 2 && l[0] <= p->size && l[0] == rint(l[0]) && (p->size <= 2 || (l[1] >= 2 && l[1] <= p->size && l[1] == rint(l[1]))))
            break;
    }
    return VN_OK;
}

/* ---- scores to the bit ---- */

/* Products that are all negative, with a sum of about -46 after scaling; the key `reference` is zero. same: one query and one key for all. */
static void draw(vn_heads_t *p, int32_t reference, bool same, vn_rng_t *g) {
    const double most = 46 / (p->scale * p->size);
    for (int32_t d = 0; d < p->size; ++d) {
        const double sign = vn_rng_below(g, 2) ? 1 : -1, one = 0.75 + 0.5 * vn_rng_uniform(g), other = 0.75 + 0.5 * vn_rng_uniform(g);
        for (int64_t row = 0; row < p->rows; ++row) *query(p, row, d) = (float)(sign * (same ? one : 0.75 + 0.5 * vn_rng_uniform(g)));
        for (int64_t plane = 0; plane < p->planes; ++plane)
            for (int32_t k = 0; k < p->keys; ++k)
                *key_at(p, plane, k, d) = k == reference ? 0 : (float)(-sign * most * (same ? other : 0.75 + 0.5 * vn_rng_uniform(g)));
    }
}

/* A score from the two weights; NAN where it cannot be told. */
static double score_of(double weight, double reference) {
    const double s = log(weight / reference), x = rint(s / spacing) * spacing;
    return weight > 0x1p-126 && s > -64 && s < -32 && fabs(s - x) <= spacing / 4 ? x : NAN;
}

/* Scores of the keys [from, to) into s[rows*keys], of the operands in q and k. */
static vn_status_t read_scores(vn_heads_t *p, int32_t reference, int32_t from, int32_t to, double *s, vn_error_t *err) {
    double *base = vn_alloc((size_t)p->rows * (size_t)p->keys, sizeof *base);
    vn_status_t st = base ? vn_heads_weights(p, reference, reference + 1, base, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for scores");
    if (st == VN_OK) st = vn_heads_weights(p, from, to, s, err);
    for (int64_t row = 0; row < p->rows && st == VN_OK; ++row)
        for (int32_t k = from; k < to; ++k)
            s[row * p->keys + k] = k == reference ? 0 : score_of(s[row * p->keys + k], base[row * p->keys + reference]);
    vn_free(base);
    return st;
}

/* One query and one key everywhere: scores with equal bits over several draws are one class. *readable: all of them could be told. */
static vn_status_t classes_of(vn_heads_t *p, vn_classes_t *classes, bool *readable, vn_error_t *err) {
    double *sig[DRAWS] = {0};
    const size_t count = (size_t)p->rows * (size_t)p->keys;
    vn_status_t st = VN_OK;
    *readable = true;
    for (int d = 0; d < DRAWS && st == VN_OK; ++d) {
        vn_rng_t again = p->r->rng;
        if (!(sig[d] = vn_alloc(count, sizeof **sig))) return vn_fail(err, VN_ERR_NOMEM, "no memory for scores");
        draw(p, p->keys - 1, true, &again);
        st = read_scores(p, p->keys - 1, 0, 1, sig[d], err); /* the score of key 0, which is the reference of the others */
        draw(p, 0, true, &p->r->rng);
        double *rest = st == VN_OK ? vn_alloc(count, sizeof *rest) : NULL;
        if (st == VN_OK) st = rest ? read_scores(p, 0, 1, p->keys, rest, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for scores");
        for (int64_t e = 0; st == VN_OK && e < (int64_t)count; ++e) {
            if (e % p->keys) sig[d][e] = rest[e];
            *readable &= !isnan(sig[d][e]);
        }
        vn_free(rest);
    }
    for (size_t e = 0; st == VN_OK && e < count && !*readable; ++e)
        for (int d = 0; d < DRAWS; ++d) sig[d][e] = 0; /* one class */
    if (st == VN_OK) st = vn_classes_of(p->rows, p->keys, DRAWS, sig, classes, err);
    for (int d = 0; d < DRAWS; ++d) vn_free(sig[d]);
    return st;
}

/* ---- replay ---- */

typedef struct trial {
    vn_tree_t *const *tree; /* by class */
    const vn_classes_t *classes;
    bool fma;
    scaling_t scaling;
} trial_t;

/* due[rows*keys]: the scores that a trial gives. */
static vn_status_t replay(vn_heads_t *p, const trial_t *q, double *due, vn_error_t *err) {
    const int32_t each = p->group * p->queries;
    const size_t nq = (size_t)p->rows * (size_t)p->size, nk = (size_t)p->planes * (size_t)p->keys * (size_t)p->size;
    const float scale = (float)p->scale, root = sqrtf(scale);
    const float on_query = q->scaling == SCALED_QUERY ? scale : q->scaling == SCALED_BOTH ? root : 1;
    const float on_key = q->scaling == SCALED_KEY ? scale : q->scaling == SCALED_BOTH ? root : 1;
    float *a = vn_alloc(nq, sizeof *a), *b = vn_alloc(nk, sizeof *b), *out = vn_alloc((size_t)each * (size_t)p->keys, sizeof *out);
    vn_arithmetic_t arithmetic = vn_arithmetic_default(VN_FMT_F32);
    arithmetic.fma = q->fma;
    vn_status_t st = a && b && out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a replay");
    for (size_t e = 0; e < nq && st == VN_OK; ++e) a[e] = p->q[e] * on_query;
    for (size_t e = 0; e < nk && st == VN_OK; ++e) b[e] = p->k[e] * on_key;
    for (int c = 0; c < q->classes->count && st == VN_OK; ++c) {
        vn_replay_t *r;
        if (!q->tree[c]) continue;
        st = vn_replay_compile(q->tree[c], &arithmetic, &r, err);
        if (st != VN_OK) break;
        for (int32_t plane = 0; plane < p->planes && st == VN_OK; ++plane) {
            const int64_t row = (int64_t)plane * each;
            const vn_plane_t pa = {a + row * p->size, p->size, 1}, pb = {b + (int64_t)plane * p->keys * p->size, 1, p->size}, none = {0};
            st = vn_replay_product(r, each, p->keys, pa, pb, none, out, p->keys, err);
            for (int64_t e = 0; e < (int64_t)each * p->keys && st == VN_OK; ++e)
                if (q->classes->of[row * p->keys + e] == c) due[row * p->keys + e] = q->scaling == SCALED_SUM ? out[e] * scale : out[e];
        }
        vn_replay_free(r);
    }
    vn_free(a);
    vn_free(b);
    vn_free(out);
    return st;
}

/* Which scores of the data in q and k lie where they can be read, by their values in double: not by what came out. */
static bool in_range(vn_heads_t *p, int64_t row, int32_t key) {
    double s = 0;
    for (int32_t d = 0; d < p->size; ++d) s += (double)*query(p, row, d) * *key_at(p, vn_heads_plane(p, (int32_t)row), key, d);
    s *= p->scale;
    return s > -63.5 && s < -32.5;
}

enum { TRIALS = 3 * SCALINGS, LEAST = 64 }; /* fused, fused with pairs turned, rounded products; LEAST: scores that are judged */
typedef struct proof {
    vn_heads_t *p;
    const vn_classes_t *classes;
    vn_tree_t *tree[2][64]; /* as read, and with pairs the other way round */
    double *read, *due;     /* [rows*keys] */
    bool *judged;
    int64_t count, unread, equal[TRIALS];
    int best;
} proof_t;
static bool is_fused(int trial) { return trial < 2 * SCALINGS; }
static int is_turned(int trial) { return trial / SCALINGS == 1; }

static vn_status_t try_all(proof_t *q, vn_error_t *err) {
    const int64_t count = (int64_t)q->p->rows * q->p->keys;
    for (int k = 0; k < TRIALS; ++k) {
        const trial_t t = {q->tree[is_turned(k)], q->classes, is_fused(k), (scaling_t)(k % SCALINGS)};
        VN_TRY(replay(q->p, &t, q->due, err));
        for (int64_t e = 0; e < count; ++e) q->equal[k] += q->judged[e] && q->read[e] == q->due[e];
    }
    return VN_OK;
}

/* Random queries and keys: all scores against key 0, which is the reference. */
static vn_status_t read_random(proof_t *q, vn_error_t *err) {
    vn_heads_t *p = q->p;
    draw(p, 0, false, &p->r->rng);
    VN_TRY(read_scores(p, 0, 1, p->keys, q->read, err));
    for (int64_t row = 0; row < p->rows; ++row)
        for (int32_t k = 1; k < p->keys; ++k) {
            const int64_t e = row * p->keys + k;
            if (!(q->judged[e] = in_range(p, row, k))) continue;
            q->count++;
            q->unread += isnan(q->read[e]);
        }
    return VN_OK;
}

/* "fma, scale on the sum or keys": every place of the scale that fits as well as the best. */
static void describe(const proof_t *q, char *how, size_t size) {
    const char *before = "";
    size_t at = (size_t)snprintf(how, size, "%s, scale on the ", is_fused(q->best) ? "fma" : "mul+add");
    for (int k = q->best / SCALINGS * SCALINGS, end = k + SCALINGS; k < end; ++k) {
        if (q->equal[k] < q->equal[q->best] || at >= size) continue;
        at += (size_t)snprintf(how + at, size - at, "%s%s", before, scaling_names[k % SCALINGS]);
        before = " or ";
    }
}

static void conclude(proof_t *q, char *how, size_t size) {
    vn_schedule_t *s = q->p->r->s;
    for (int k = 1; k < TRIALS; ++k)
        if (q->equal[k] > q->equal[q->best]) q->best = k;
    const int64_t equal = q->equal[q->best];
    s->elements += q->count;
    snprintf(how, size, "arithmetic not read");
    if (q->count < LEAST || 8 * q->unread > q->count) {
        q->best = 0;
        vn_reveal_say(s->reason, sizeof s->reason,
                      "scores: %lld of %lld cannot be told to the bit from their weights, and none counts as replayed",
                      (long long)q->unread, (long long)q->count);
        return;
    }
    s->replayed += equal;
    if (8 * (q->count - equal) <= q->count) describe(q, how, size);
    else q->best = 0; /* what fits so few is no finding: the trees stay as they were read */
    if (q->unread)
        vn_reveal_say(s->reason, sizeof s->reason, "scores: %lld of %lld cannot be told to the bit from their weights",
                      (long long)q->unread, (long long)q->count);
    if (equal < q->count - q->unread)
        vn_reveal_say(s->reason, sizeof s->reason, "scores: %lld of %lld differ from the replay", (long long)(q->count - q->unread - equal),
                      (long long)q->count);
    if (equal == q->count)
        vn_reveal_say(s->notes, sizeof s->notes, "scores from -64 to -32 are read to the bit through exp, %lld of them replayed",
                      (long long)equal);
}

static vn_status_t prove(proof_t *q, char *how, size_t size, vn_error_t *err) {
    const size_t count = (size_t)q->p->rows * (size_t)q->p->keys;
    q->read = vn_alloc(count, sizeof *q->read);
    q->due = vn_alloc(count, sizeof *q->due);
    q->judged = vn_alloc(count, sizeof *q->judged);
    vn_status_t st = q->read && q->due && q->judged ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for scores");
    for (int c = 0; c < q->classes->count && st == VN_OK; ++c)
        if (q->tree[0][c]) st = vn_tree_turn_pairs(q->tree[0][c], &q->tree[1][c], err);
    for (int round = 0; round < 2 * LEAST && q->count < LEAST && st == VN_OK; ++round) { /* few scores a run: several runs */
        st = read_random(q, err);
        if (st == VN_OK) st = try_all(q, err);
    }
    if (st == VN_OK) conclude(q, how, size);
    vn_free(q->read);
    vn_free(q->due);
    vn_free(q->judged);
    return st;
}

/* ---- the whole ---- */

static vn_status_t trees(vn_heads_t *p, const vn_classes_t *classes, int first, vn_tree_t **tree, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    for (int c = 0; c < classes->count; ++c) {
        const vn_cell_t *cell = &classes->cell[c];
        vn_schedule_class_t *k;
        char where[160];
        asker_t q = {.p = p, .cell = cell, .key = cell->column[0], .reference = cell->column[0] ? 0 : 1};
        snprintf(where, sizeof where, "scores: %.140s", classes->where[c]);
        VN_TRY(vn_heads_class(s, where, classes->elements[c], &k, err));
        VN_TRY(choose_unit(&q, err));
        VN_TRY(vn_rebuild_pairs(p->size, vn_rng_u64(&p->r->rng), CHECKS, ask, &q, &k->tree, &k->violation, err));
        if (!k->tree)
            vn_reveal_say(s->reason, sizeof s->reason, "%s at %.60s: %s", vn_violation_name(k->violation.kind), k->where,
                          k->violation.what);
    }
    for (int c = 0; c < classes->count; ++c) tree[c] = s->classes[first + c].tree;
    return VN_OK;
}

/* The arithmetic is part of the identity: it stands beside the place. The trees with their pairs the right way round take the place of those read. */
static vn_status_t settle(proof_t *q, int first, const char *how, vn_error_t *err) {
    vn_schedule_t *s = q->p->r->s;
    for (int c = 0; c < q->classes->count; ++c) {
        vn_schedule_class_t *k = &s->classes[first + c];
        char where[300];
        if (!k->tree) continue;
        if (is_turned(q->best)) {
            vn_tree_free(k->tree);
            k->tree = q->tree[1][c];
            q->tree[1][c] = NULL;
        }
        snprintf(where, sizeof where, "%s (%s)", k->where, how);
        vn_free(k->where);
        if (!(k->where = vn_strdup(where))) return vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    }
    return VN_OK;
}

vn_status_t vn_reveal_scores(vn_heads_t *p, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    if (p->keys < 2 || p->size < 2) {
        vn_reveal_say(s->notes, sizeof s->notes, p->keys < 2 ? "one key: scores show in nothing" : "head size 1: a score is one product");
        return VN_OK;
    }
    if (p->size > LARGEST) {
        vn_reveal_say(s->reason, sizeof s->reason, "scores of head sizes above %d cannot be read", LARGEST);
        return VN_OK;
    }
    vn_classes_t classes = {0};
    char how[100] = "";
    bool readable;
    const int first = s->n_classes;
    proof_t q = {.p = p, .classes = &classes};
    vn_status_t st = classes_of(p, &classes, &readable, err);
    if (st == VN_OK) st = trees(p, &classes, first, q.tree[0], err);
    if (st == VN_OK) st = prove(&q, how, sizeof how, err);
    if (st == VN_OK) st = settle(&q, first, how, err);
    if (st == VN_OK && !readable)
        vn_reveal_say(s->notes, sizeof s->notes, "scores are taken as one class: their bits cannot be told from the weights");
    for (int c = 0; c < classes.count; ++c) vn_tree_free(q.tree[1][c]);
    vn_classes_clear(&classes);
    return st;
}
