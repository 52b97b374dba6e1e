/* op_nms.c -- NonMaxSuppression: greedy choice of boxes by score, without those that overlap a chosen one too much.
 *
 * Claim INDEX-4: the result is the greedy choice with overlap inter / union in f64, a box falling when it is strictly greater than the
 * threshold; equal scores in order of index; scores below the threshold are removed. Readings where they give another list: "overlap-f32"
 * and "overlap-f32-product" (the comparison in f32, as a quotient or as inter > threshold * union), "score-equal-removed" (a score equal to
 * the threshold falls too), "score-tie-last-first". A box without area overlaps nothing; NaN scores are removed.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/move.h"

typedef struct rule {
    bool f32, product, equal_removed, last_first;
} rule_t;

typedef struct nms {
    const float *boxes, *scores;
    int64_t batches, classes, n, most;
    bool center, has_score;
    float overlap, score;
} nms_t;

typedef struct box {
    double x0, y0, x1, y1;
} box_t;

static box_t box_of(const nms_t *p, const float *b) {
    if (p->center)
        return (box_t){(double)b[0] - (double)b[2] / 2, (double)b[1] - (double)b[3] / 2, (double)b[0] + (double)b[2] / 2,
                       (double)b[1] + (double)b[3] / 2};
    return (box_t){fmin(b[1], b[3]), fmin(b[0], b[2]), fmax(b[1], b[3]), fmax(b[0], b[2])};
}

static bool overlaps(const nms_t *p, const float *a, const float *b, const rule_t *r) {
    const box_t s = box_of(p, a), t = box_of(p, b);
    const double w = fmin(s.x1, t.x1) - fmax(s.x0, t.x0), h = fmin(s.y1, t.y1) - fmax(s.y0, t.y0);
    if (!(w > 0) || !(h > 0)) return false;
    if (!r->f32) {
        const double inter = w * h, all = (s.x1 - s.x0) * (s.y1 - s.y0) + (t.x1 - t.x0) * (t.y1 - t.y0) - inter;
        return all > 0 && inter / all > p->overlap;
    }
    /* one rounding to f32 after every operation; corners first */
    const float sx0 = (float)s.x0, sx1 = (float)s.x1, sy0 = (float)s.y0, sy1 = (float)s.y1;
    const float tx0 = (float)t.x0, tx1 = (float)t.x1, ty0 = (float)t.y0, ty1 = (float)t.y1;
    const float fw = fminf(sx1, tx1) - fmaxf(sx0, tx0), fh = fminf(sy1, ty1) - fmaxf(sy0, ty0), inter = fw * fh;
    const float area_s = (sx1 - sx0) * (sy1 - sy0), area_t = (tx1 - tx0) * (ty1 - ty0), both = area_s + area_t, all = both - inter;
    if (r->product) return inter > p->overlap * all;
    return all > 0 && inter / all > p->overlap;
}

typedef struct candidate {
    float score;
    int64_t index;
} candidate_t;

static int first_index(const void *a, const void *b) {
    const candidate_t *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int last_index(const void *a, const void *b) {
    const candidate_t *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->index > y->index ? -1 : x->index < y->index;
}

/* Boxes of one class in the order chosen; returns how many. kept: min(n, most) entries. */
static int64_t choose(const nms_t *p, const float *boxes, const float *scores, const rule_t *r, candidate_t *list, int64_t *kept) {
    int64_t n = 0, chosen = 0;
    for (int64_t i = 0; i < p->n; ++i) {
        const bool low = p->has_score && (r->equal_removed ? scores[i] <= p->score : scores[i] < p->score);
        if (!low && !isnan(scores[i])) list[n++] = (candidate_t){.score = scores[i], .index = i};
    }
    qsort(list, (size_t)n, sizeof *list, r->last_first ? last_index : first_index);
    for (int64_t i = 0; i < n && chosen < p->most; ++i) {
        bool falls = false;
        for (int64_t k = 0; k < chosen && !falls; ++k) falls = overlaps(p, boxes + 4 * kept[k], boxes + 4 * list[i].index, r);
        if (!falls) kept[chosen++] = list[i].index;
    }
    return chosen;
}

/* The whole list as an [m, 3] tensor of (batch, class, box). */
static vn_status_t select_boxes(vn_eval_t *e, const nms_t *p, const rule_t *r, vn_tensor_t **out) {
    const size_t n = (size_t)(p->n ? p->n : 1);
    candidate_t *list = vn_alloc(n, sizeof *list);
    int64_t *kept = vn_alloc(n, sizeof *kept), *all = NULL, rows = 0, room = 0;
    vn_status_t s = list && kept ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %zu boxes", n);
    for (int64_t b = 0; b < p->batches && s == VN_OK; ++b)
        for (int64_t c = 0; c < p->classes && s == VN_OK; ++c) {
            const int64_t m = choose(p, p->boxes + b * p->n * 4, p->scores + (b * p->classes + c) * p->n, r, list, kept);
            if (rows + m > room) {
                room = 2 * (rows + m);
                int64_t *more = vn_realloc(all, (size_t)room, 3 * sizeof *all);
                if (!more) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld rows", (long long)room);
                else all = more;
            }
            for (int64_t i = 0; i < m && s == VN_OK; ++i, ++rows) memcpy(all + 3 * rows, (int64_t[]){b, c, kept[i]}, 3 * sizeof *all);
        }
    if (s == VN_OK) s = vn_tensor_new(VN_I64, 2, (int64_t[]){rows, 3}, out, e->err);
    if (s == VN_OK && rows) memcpy((*out)->data, all, (size_t)rows * 3 * sizeof *all);
    vn_free(list);
    vn_free(kept);
    vn_free(all);
    return s;
}

static vn_status_t float_scalar(vn_eval_t *e, int k, float *out) {
    if (!e->in[k].t || e->in[k].t->dtype != VN_F32 || e->in[k].t->count != 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input %d must be one f32 value", k);
    memcpy(out, e->in[k].t->data, sizeof *out);
    return VN_OK;
}

vn_status_t vn_move_non_max_suppression(vn_eval_t *e) {
    static const struct {
        const char *name;
        rule_t rule;
    } readings[] = {{"overlap-f32", {.f32 = true}},
                    {"overlap-f32-product", {.f32 = true, .product = true}},
                    {"score-equal-removed", {.equal_removed = true}},
                    {"score-tie-last-first", {.last_first = true}}};
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(vn_move_need(e, 1));
    const vn_tensor_t *b = e->in[0].t, *c = e->in[1].t;
    if (b->dtype != VN_F32 || c->dtype != VN_F32) return vn_eval_fail(e, VN_ERR_DTYPE, "boxes and scores must be f32");
    if (b->rank != 3 || c->rank != 3 || b->dims[2] != 4 || b->dims[0] != c->dims[0] || b->dims[1] != c->dims[2])
        return vn_eval_fail(e, VN_ERR_SHAPE, "boxes must be [batch, n, 4] and scores [batch, class, n]");
    nms_t p = {.boxes = b->data,
               .scores = c->data,
               .batches = c->dims[0],
               .classes = c->dims[1],
               .n = c->dims[2],
               .center = vn_node_int(e->node, "center_point_box", 0) != 0,
               .has_score = vn_has(e, 4)};
    if (vn_has(e, 2)) VN_TRY(vn_move_scalar(e, 2, &p.most));
    if (vn_has(e, 3)) VN_TRY(float_scalar(e, 3, &p.overlap));
    if (vn_has(e, 4)) VN_TRY(float_scalar(e, 4, &p.score));
    vn_tensor_t *main_list = NULL;
    const rule_t plain = {.f32 = false};
    VN_TRY(select_boxes(e, &p, &plain, &main_list));
    vn_status_t s = vn_out_tensor(e, 0, vn_tensor_retain(main_list));
    for (size_t i = 0; i < sizeof readings / sizeof *readings && s == VN_OK; ++i) {
        vn_tensor_t *list;
        s = select_boxes(e, &p, &readings[i].rule, &list);
        if (s != VN_OK) break;
        if (vn_tensor_equal_bits(list, main_list)) vn_tensor_free(list);
        else s = vn_out_reading(e, 0, readings[i].name, list);
    }
    vn_tensor_free(main_list);
    return s;
}
