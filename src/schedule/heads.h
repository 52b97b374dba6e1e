/* heads.h -- attention under study: its operands, one run, and weights read through one-hot values. */
#ifndef VN_SCHEDULE_HEADS_H
#define VN_SCHEDULE_HEADS_H

#include "schedule/reveal.h"

/**
 * Operands and the last result of softmax(scale Q K^T) V.
 * Shapes     q [planes, group, queries, size], k and v [planes, keys, size], out [planes, group, queries, size]: a plane is one head of one batch of K
 *            and V, a group the query heads that share it. rows = planes * group * queries: the rows of the matrix of weights [rows, keys].
 */
typedef struct vn_heads {
    vn_reveal_run_t *r;
    int32_t planes, group, queries, keys, size, rows;
    double scale;
    float *q, *k, *v;
    double *out;
} vn_heads_t;
vn_status_t vn_heads_begin(vn_heads_t *p, vn_reveal_run_t *r, vn_error_t *err);
void vn_heads_end(vn_heads_t *p);
vn_status_t vn_heads_run(vn_heads_t *p, vn_error_t *err);
static inline int32_t vn_heads_plane(const vn_heads_t *p, int32_t row) { return row / (p->group * p->queries); }
static inline float *vn_heads_value(vn_heads_t *p, int32_t plane, int32_t key, int32_t column) {
    return &p->v[((int64_t)plane * p->keys + key) * p->size + column];
}
/** Scores that are 0 where active[key], and so low elsewhere that nothing is left of their weight. active NULL: all are 0. */
void vn_heads_equal(vn_heads_t *p, const uint8_t *active);
/** w[rows*keys], or those of the keys [from, to) only: with V one at one key and zero at the others the output is the weight of this key (REVEAL-22). */
vn_status_t vn_heads_weights(vn_heads_t *p, int32_t from, int32_t to, double *w, vn_error_t *err);

/** The sums over head_size in Q K^T: classes, trees and replay of the scores, added to the schedule. */
vn_status_t vn_reveal_scores(vn_heads_t *p, vn_error_t *err);
/** Whether weights are rescaled when the maximum rises, and from which key on: a note. */
vn_status_t vn_reveal_rescaling(vn_heads_t *p, vn_error_t *err);
/** One more class at the end of the schedule's list; *out stays valid until the next. where: copied. */
vn_status_t vn_heads_class(vn_schedule_t *s, const char *where, int64_t elements, vn_schedule_class_t **out, vn_error_t *err);

#endif
