/* rebuild_triplets.c -- binary trees from rooted triplets: of three leaves, which two meet before the third joins them.
 *
 * Claim SCHED-4: the rooted triplets of a binary tree determine it. Two items I and Q of a set part the others into those that meet I first, those that
 * meet Q first, and those that join after both: the children of their common ancestor, and what stands above it. All open sets of a round are asked
 * together. The third question of a triplet is the check: exactly one of the three is true in a tree whose sums are rounded.
 */
#include <stdio.h>
#include <string.h>

#include "schedule/draft.h"

/* A leaf, or a finished subtree that one of its leaves speaks for. */
typedef struct item {
    int32_t speaker, id;
} item_t;
typedef struct open_set {
    int32_t begin, count, parent; /* parent: draft node that its root hangs under, -1: it is the whole */
} open_set_t;

typedef struct work {
    int32_t n;
    vn_rng_t rng;
    vn_draft_t d;
    int32_t root;
    item_t *items, *fresh; /* of this round, of the next */
    open_set_t *open, *later;
    int32_t n_open, n_later, n_fresh;
    int32_t *t, *i, *j; /* three questions for each item that is not a pivot */
    uint8_t *yes;
} work_t;

static void clear(work_t *w) {
    vn_draft_clear(&w->d);
    vn_free(w->items);
    vn_free(w->fresh);
    vn_free(w->open);
    vn_free(w->later);
    vn_free(w->t);
    vn_free(w->i);
    vn_free(w->j);
    vn_free(w->yes);
}

static void set_violation(vn_violation_t *v, vn_violation_kind_t kind, int32_t i, int32_t q, int32_t x, const char *why) {
    *v = (vn_violation_t){.kind = kind, .i = i, .j = q, .k = x};
    snprintf(v->what, sizeof v->what, "leaves %d, %d, %d: %s", i, q, x, why);
}

static void hang(work_t *w, int32_t parent, int32_t id) {
    if (parent < 0) w->root = id;
    else vn_draft_attach(&w->d, parent, id);
}

/* A set for the next round; sets of one item are done. Its items were appended to fresh[begin..). */
static void push(work_t *w, int32_t begin, int32_t parent) {
    const int32_t count = w->n_fresh - begin;
    if (count == 1) hang(w, parent, w->fresh[begin].id);
    if (count > 1) w->later[w->n_later++] = (open_set_t){begin, count, parent};
    else w->n_fresh = begin;
}

/* Which group a third item is in: 1 with I, 2 with Q, 3 above both; 0: the answers are no tree's. */
static int place(const uint8_t *yes, int32_t i, int32_t q, int32_t x, vn_violation_t *v) {
    const int count = yes[0] + yes[1] + yes[2];
    if (count == 1) return yes[0] ? 1 : yes[1] ? 2 : 3;
    if (count == 3) set_violation(v, VN_TREE_WIDE, i, q, x, "each pair meets before the third: the sum is wider than the terms' units");
    else if (count == 0) set_violation(v, VN_TREE_ULTRAMETRIC, i, q, x, "no pair meets before the third: three or more are added at once");
    else set_violation(v, VN_TREE_ULTRAMETRIC, i, q, x, "two pairs meet before the third");
    return 0;
}

static vn_status_t split(work_t *w, const open_set_t *s, const uint8_t *yes, vn_violation_t *v, vn_error_t *err) {
    const item_t *item = w->items + s->begin;
    const item_t one = item[0], two = item[1];
    int32_t node, counts[4] = {0};
    VN_TRY(vn_draft_node(&w->d, &node, err));
    for (int32_t k = 2; k < s->count; ++k) {
        const int group = place(yes + 3 * (k - 2), one.speaker, two.speaker, item[k].speaker, v);
        if (!group) return VN_OK;
        counts[group]++;
    }
    for (int group = 1; group <= 3; ++group) {
        const int32_t begin = w->n_fresh;
        if (group == 1) w->fresh[w->n_fresh++] = one;
        if (group == 2) w->fresh[w->n_fresh++] = two;
        if (group == 3) w->fresh[w->n_fresh++] = (item_t){one.speaker, node};
        for (int32_t k = 2; k < s->count && counts[group]; ++k)
            if (place(yes + 3 * (k - 2), one.speaker, two.speaker, item[k].speaker, v) == group) w->fresh[w->n_fresh++] = item[k];
        push(w, begin, group == 3 ? s->parent : node);
    }
    return VN_OK;
}

static vn_status_t one_round(work_t *w, vn_ask_triplets_fn ask, void *context, vn_violation_t *v, vn_error_t *err) {
    int64_t questions = 0;
    for (int32_t s = 0; s < w->n_open; ++s) {
        item_t *item = w->items + w->open[s].begin;
        const int32_t count = w->open[s].count;
        for (int32_t k = 0; k < 2; ++k) { /* two random pivots to the front */
            const int32_t pick = k + (int32_t)(vn_rng_u64(&w->rng) % (uint64_t)(count - k));
            const item_t swap = item[k];
            item[k] = item[pick];
            item[pick] = swap;
        }
        const int32_t i = item[0].speaker, q = item[1].speaker;
        for (int32_t k = 2; k < count; ++k) {
            const int32_t x = item[k].speaker, apart[3] = {q, i, x}, first[3] = {i, q, i}, second[3] = {x, x, q};
            for (int p = 0; p < 3; ++p, ++questions) {
                w->t[questions] = apart[p];
                w->i[questions] = first[p];
                w->j[questions] = second[p];
            }
        }
    }
    if (questions) VN_TRY(ask(context, questions, w->t, w->i, w->j, w->yes, err));
    const uint8_t *yes = w->yes;
    w->n_later = w->n_fresh = 0;
    for (int32_t s = 0; s < w->n_open && v->kind == VN_TREE_OK; ++s) {
        VN_TRY(split(w, &w->open[s], yes, v, err));
        yes += 3 * (w->open[s].count - 2);
    }
    item_t *items = w->items;
    w->items = w->fresh;
    w->fresh = items;
    open_set_t *open = w->open;
    w->open = w->later;
    w->later = open;
    w->n_open = w->n_later;
    return VN_OK;
}

/* Random triplets against the finished tree. */
static vn_status_t check(work_t *w, const vn_tree_t *t, int64_t checks, vn_ask_triplets_fn ask, void *context, vn_violation_t *v,
                         vn_error_t *err) {
    for (int64_t done = 0; done < checks && v->kind == VN_TREE_OK;) {
        const int64_t count = checks - done < w->n ? checks - done : w->n;
        uint32_t *l = vn_alloc(2 * (size_t)count, sizeof *l);
        if (!l) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld triplets", (long long)count);
        for (int64_t p = 0; p < count; ++p) {
            int32_t x[3];
            do {
                for (int k = 0; k < 3; ++k) x[k] = (int32_t)(vn_rng_u64(&w->rng) % (uint64_t)w->n);
            } while (x[0] == x[1] || x[0] == x[2] || x[1] == x[2]);
            w->t[p] = x[0];
            w->i[p] = x[1];
            w->j[p] = x[2];
        }
        vn_status_t st = ask(context, count, w->t, w->i, w->j, w->yes, err);
        if (st == VN_OK) st = vn_tree_pairs(t, count, w->i, w->j, l, err);
        if (st == VN_OK) st = vn_tree_pairs(t, count, w->t, w->i, l + count, err);
        for (int64_t p = 0; st == VN_OK && p < count && v->kind == VN_TREE_OK; ++p)
            if ((l[p] < l[count + p]) != (w->yes[p] != 0))
                set_violation(v, VN_TREE_ULTRAMETRIC, w->t[p], w->i[p], w->j[p], "the tree of the other answers says otherwise");
        vn_free(l);
        VN_TRY(st);
        done += count;
    }
    return VN_OK;
}

vn_status_t vn_rebuild_triplets(int32_t n, uint64_t seed, int64_t checks, vn_ask_triplets_fn ask, void *context, vn_tree_t **out,
                                vn_violation_t *v, vn_error_t *err) {
    const size_t m = (size_t)n + 1;
    work_t w = {.n = n};
    *out = NULL;
    *v = (vn_violation_t){.i = -1, .j = -1, .k = -1};
    VN_TRY(vn_draft_begin(&w.d, n, false, n, err));
    vn_rng_seed(&w.rng, seed);
    /* A set of c items stands for c - 1 nodes still to be found, and no two sets for the same: so there are at most 2n items in all. */
    w.items = vn_alloc(2 * m, sizeof *w.items);
    w.fresh = vn_alloc(2 * m, sizeof *w.fresh);
    w.open = vn_alloc(m, sizeof *w.open);
    w.later = vn_alloc(m, sizeof *w.later);
    w.t = vn_alloc(3 * m, sizeof *w.t);
    w.i = vn_alloc(3 * m, sizeof *w.i);
    w.j = vn_alloc(3 * m, sizeof *w.j);
    w.yes = vn_alloc(3 * m, 1);
    vn_status_t st = w.items && w.fresh && w.open && w.later && w.t && w.i && w.j && w.yes
                         ? VN_OK
                         : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    for (int32_t k = 0; st == VN_OK && k < n; ++k) w.items[k] = (item_t){k, k};
    if (st == VN_OK && n > 1) w.open[w.n_open++] = (open_set_t){0, n, -1};
    while (st == VN_OK && w.n_open > 0 && v->kind == VN_TREE_OK) st = one_round(&w, ask, context, v, err);
    if (st == VN_OK && v->kind == VN_TREE_OK) st = vn_draft_finish(&w.d, w.root, false, out, err);
    if (st == VN_OK && *out && n > 2) st = check(&w, *out, checks, ask, context, v, err);
    clear(&w);
    if (st != VN_OK || v->kind != VN_TREE_OK) {
        vn_tree_free(*out);
        *out = NULL;
    }
    return st;
}
