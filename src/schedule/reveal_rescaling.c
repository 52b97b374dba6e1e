/* reveal_rescaling.c -- attention: whether weights are computed against a running maximum, block by block, and where the first block ends.
 *
 * Claim REVEAL-26: key 0 has the score 0, key 1 a score s, key m the score t > s + 20, all others none. The sum of the weights is 1 in every order, so that
 * the output is the weight of key 0 alone: exp(-t) where the maximum is known before, exp(-s) exp(s - t) where key m comes in a later block than keys 0 and
 * 1. Both have the same value but for roundings: the bits change at the end of the block, and nowhere if there are no blocks.
 */
#include <math.h>
#include <string.h>

#include "schedule/heads.h"

enum { DIMENSIONS = 8, ROUNDS = 4 };

/* Scores of keys 1 and m by dimension: a query picks one. */
typedef struct scores {
    int dimensions;
    double low[DIMENSIONS], high[DIMENSIONS];
} scores_t;

/* weight[rows]: of key 0 with the maximum at key m. */
static vn_status_t weights_at(vn_heads_t *p, const scores_t *s, int32_t m, double *weight, vn_error_t *err) {
    const float none = ldexpf(-1, 10 - ilogb(p->scale));
    memset(p->q, 0, (size_t)p->rows * (size_t)p->size * sizeof *p->q);
    memset(p->k, 0, (size_t)p->planes * (size_t)p->keys * (size_t)p->size * sizeof *p->k);
    memset(p->v, 0, (size_t)p->planes * (size_t)p->keys * (size_t)p->size * sizeof *p->v);
    for (int64_t row = 0; row < p->rows; ++row) p->q[row * p->size + row % s->dimensions] = 1;
    for (int32_t plane = 0; plane < p->planes; ++plane) {
        *vn_heads_value(p, plane, 0, 0) = 1;
        for (int64_t k = 1; k < p->keys; ++k)
            for (int d = 0; d < s->dimensions; ++d)
                p->k[((int64_t)plane * p->keys + k) * p->size + d] = k == m   ? (float)(s->high[d] / p->scale)
                                                                     : k == 1 ? (float)(s->low[d] / p->scale)
                                                                              : none;
    }
    VN_TRY(vn_heads_run(p, err));
    for (int64_t row = 0; row < p->rows; ++row) weight[row] = p->out[row * p->size];
    return VN_OK;
}

/* The first m at which the weight in `row` is not what it is at m = 2, when it is another at the last key. */
static vn_status_t bisect(vn_heads_t *p, const scores_t *s, int32_t row, double before, double *weight, int32_t *at, vn_error_t *err) {
    int32_t low = 2, high = p->keys - 1;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        VN_TRY(weights_at(p, s, middle, weight, err));
        if (weight[row] == before) low = middle;
        else high = middle;
    }
    *at = high;
    return VN_OK;
}

static vn_status_t search(vn_heads_t *p, double *first, double *last, int32_t *at, vn_error_t *err) {
    *at = 0;
    for (int round = 0; round < ROUNDS && *at == 0; ++round) {
        scores_t s = {.dimensions = p->size < DIMENSIONS ? p->size : DIMENSIONS};
        for (int d = 0; d < s.dimensions; ++d) {
            s.low[d] = 2 + 2 * vn_rng_uniform(&p->r->rng);
            s.high[d] = s.low[d] + 20 + 2 * vn_rng_uniform(&p->r->rng);
        }
        VN_TRY(weights_at(p, &s, 2, first, err));
        VN_TRY(weights_at(p, &s, p->keys - 1, last, err));
        for (int32_t row = 0; row < p->rows; ++row) {
            if (first[row] == last[row]) continue;
            return bisect(p, &s, row, first[row], last, at, err);
        }
    }
    return VN_OK;
}

vn_status_t vn_reveal_rescaling(vn_heads_t *p, vn_error_t *err) {
    vn_schedule_t *s = p->r->s;
    int32_t at = 0;
    if (p->keys < 4) return VN_OK; /* no later key to compare */
    double *first = vn_alloc((size_t)p->rows, sizeof *first), *last = vn_alloc((size_t)p->rows, sizeof *last);
    vn_status_t st = first && last ? search(p, first, last, &at, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for %d rows", p->rows);
    if (st == VN_OK && at)
        vn_reveal_say(s->notes, sizeof s->notes, "online softmax: a maximum at key %d or later rescales the weights before it", at);
    else if (st == VN_OK) vn_reveal_say(s->notes, sizeof s->notes, "one softmax over all keys: no rescaling seen");
    vn_free(first);
    vn_free(last);
    return st;
}
