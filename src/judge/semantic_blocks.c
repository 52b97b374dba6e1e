/* semantic_blocks.c -- attention in blocks of keys that are not merged as they must: parts lost, running maxima that grow without rescaling.
 *
 * With running maximum M_b up to the block of key j, a kernel that forgets to rescale gives key j the weight exp(s_j - M_b) where exp(s_j - M) is
 * due, M the maximum of the whole row: the same as adding M - M_b to its score. So each of these faults is one more mask, with the operator's own bound.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/attention_scene.h"
#include "judge/names.h"

typedef struct block {
    int64_t from, to; /* keys */
} block_t;

static double in_block(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const block_t *k = r->ctx;
    return j < k->from || j >= k->to ? -INFINITY : vn_scene_mask(r->scene, b, h, i, j);
}

static double from_plane(const vn_rule_t *r, int64_t b, int64_t h, int64_t i, int64_t j) {
    const vn_scene_t *s = r->scene;
    return ((const double *)r->ctx)[((b * s->heads + h) * s->queries + i) * s->keys + j];
}

/* One block alone. */
static vn_status_t alone(const vn_scene_t *s, int64_t size, bool last, bool *held, vn_error_t *err) {
    const int64_t start = (s->keys - 1) / size * size;
    const block_t block = last ? (block_t){start, s->keys} : (block_t){0, size};
    vn_rule_t r = vn_scene_rule(s);
    r.mask = in_block;
    r.ctx = &block;
    return vn_rule_ask(s->v, &r, "block-merge-missing", held, err,
                       "The whole result comes out of keys %lld to %lld alone: the other blocks of %lld keys are lost in the merge.",
                       (long long)block.from, (long long)(block.to - 1), (long long)size);
}

/* Sum of the maxima that were missed, per pair; all scores as given. */
static void missed(const vn_scene_t *s, const vn_rule_t *due, const double *score, int64_t size, double *out) {
    int64_t row = 0;
    for (int64_t b = 0; b < s->batch; ++b)
        for (int64_t h = 0; h < s->heads; ++h)
            for (int64_t i = 0; i < s->queries; ++i, row += s->keys) {
                double top = -INFINITY, running = -INFINITY;
                for (int64_t j = 0; j < s->keys; ++j) {
                    const double m = vn_rule_at(due, b, h, i, j);
                    if (m != -INFINITY) top = fmax(top, score[row + j] + m);
                }
                for (int64_t from = 0; from < s->keys; from += size) {
                    const int64_t to = from + size < s->keys ? from + size : s->keys;
                    for (int64_t j = from; j < to; ++j) {
                        out[row + j] = vn_rule_at(due, b, h, i, j);
                        if (out[row + j] != -INFINITY) running = fmax(running, score[row + j] + out[row + j]);
                    }
                    for (int64_t j = from; j < to; ++j)
                        if (out[row + j] != -INFINITY) out[row + j] += top - running;
                }
            }
}

static vn_status_t unscaled(const vn_scene_t *s, const double *score, int64_t size, double *plane, bool *held, vn_error_t *err) {
    const vn_rule_t due = vn_scene_rule(s);
    missed(s, &due, score, size, plane);
    const vn_rule_t r = {.scene = s, .masked = true, .left = -1, .right = -1, .mask = from_plane, .ctx = plane};
    return vn_rule_ask(
        s->v, &r, "block-merge-missing", held, err,
        "The whole result comes out if the running maximum over blocks of %lld keys grows without rescaling what was summed before.",
        (long long)size);
}

/* Results of the single blocks, each with its own divisor, added up or averaged. */
static vn_status_t added(const vn_scene_t *s, int64_t size, bool *held, vn_error_t *err) {
    vn_explain_t *e = s->v->e;
    const int64_t many = (s->keys + size - 1) / size;
    double *sum = vn_alloc((size_t)e->n, sizeof *sum), *room = vn_alloc((size_t)e->n, sizeof *room);
    bool can = sum && room;
    vn_status_t st = can ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)e->n);
    for (int64_t k = 0; k < many && st == VN_OK && can; ++k) {
        const block_t block = {k * size, (k + 1) * size < s->keys ? (k + 1) * size : s->keys};
        vn_rule_t r = vn_scene_rule(s);
        vn_ref_t ref = {0};
        r.mask = in_block;
        r.ctx = &block;
        st = vn_rule_edit(s->v, &r, &can, err);
        if (st == VN_OK && can) st = vn_variant_eval(s->v, VN_WANT_BOUND | VN_WANT_PLAIN, &ref, err);
        vn_variant_reset(s->v);
        can = can && ref.value && ref.count == e->n;
        for (int64_t i = 0; can && i < e->n; ++i) {
            sum[i] += ref.value[i];
            room[i] += vn_room(&ref, i);
        }
        vn_ref_free(&ref);
    }
    for (int mean = 0; mean < 2 && can && st == VN_OK && !*held; ++mean) {
        for (int64_t i = 0; mean && i < e->n; ++i) sum[i] /= (double)many, room[i] = room[i] / (double)many + fabs(sum[i]) * 0x1p-52;
        vn_explain_plane(
            e, sum, room, VN_BUG, "block-merge-missing", held,
            "The whole result is the %s of %lld blocks of %lld keys, each divided by its own sum: weights of the blocks are lost.",
            mean ? "mean" : "sum", (long long)many, (long long)size);
    }
    vn_free(sum);
    vn_free(room);
    return st;
}

static vn_status_t one_size(const vn_scene_t *s, const double *score, double *plane, int64_t size, bool *held, vn_error_t *err) {
    VN_TRY(alone(s, size, false, held, err));
    if (!*held) VN_TRY(alone(s, size, true, held, err));
    if (!*held && score && plane) VN_TRY(unscaled(s, score, size, plane, held, err));
    if (!*held && (s->keys + size - 1) / size <= 16) VN_TRY(added(s, size, held, err));
    return VN_OK;
}

static vn_status_t blocks(vn_variant_t *v, vn_error_t *err) {
    vn_scene_t s;
    bool is, held = false;
    vn_status_t st = vn_scene_open(v, &s, &is, err);
    if (st == VN_OK && is && v->e->c->k == 0 && v->e->x && v->e->c->q->node && s.keys > 2) {
        double *score = vn_scene_scores(&s),
               *plane = score ? vn_alloc((size_t)(s.batch * s.heads * s.queries * s.keys), sizeof *plane) : NULL;
        for (int64_t size = 4; st == VN_OK && !held && size < s.keys; size *= 2) st = one_size(&s, score, plane, size, &held, err);
        const int64_t half = (s.keys + 1) / 2; /* keys split over two or four workers */
        if (st == VN_OK && !held && (half & (half - 1))) st = one_size(&s, score, plane, half, &held, err);
        if (st == VN_OK && !held && s.keys >= 8) st = one_size(&s, score, plane, (s.keys + 3) / 4, &held, err);
        vn_free(score);
        vn_free(plane);
    }
    vn_scene_free(&s);
    return st;
}

vn_status_t vn_name_blocks(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, blocks, err); }
