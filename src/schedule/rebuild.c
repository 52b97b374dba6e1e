/* rebuild.c -- trees from leaf counts under common ancestors: from all pairs, or from pairs chosen as the tree shows itself.
 *
 * Claim SCHED-3: l(i,j), the number of leaves under the lowest common ancestor, is an ultrametric and determines the rooted tree. Both ways end in
 * a check: every node must hold as many leaves as its l says, and the finished tree must give back the answers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/draft.h"

static const char *const names[] = {
    [VN_TREE_OK] = "",
    [VN_TREE_RANGE] = "no-summation-tree",
    [VN_TREE_ULTRAMETRIC] = "no-summation-tree",
    [VN_TREE_NONDETERMINISTIC] = "nondeterministic",
    [VN_TREE_VALUE_DEPENDENT] = "value-dependent",
    [VN_TREE_CROSS_TALK] = "cross-talk",
    [VN_TREE_SPLIT] = "split-operands",
    [VN_TREE_WIDE] = "order-invisible",
    [VN_TREE_ORDER_FREE] = "order-free",
};
const char *vn_violation_name(vn_violation_kind_t k) { return (size_t)k < sizeof names / sizeof *names ? names[k] : "no-summation-tree"; }

static void violate(vn_violation_t *v, vn_violation_kind_t kind, int32_t i, int32_t j, double value, const char *why) {
    *v = (vn_violation_t){.kind = kind, .i = i, .j = j, .k = -1, .value = value};
    snprintf(v->what, sizeof v->what, "leaves %d and %d answer %.9g: %s", i, j, value, why);
}

/* An answer must be a whole number of leaves. */
static bool in_range(int32_t n, int32_t i, int32_t j, double l, vn_violation_t *v) {
    if (l >= 2 && l <= n && l == floor(l)) return true;
    char why[80];
    snprintf(why, sizeof why, l == floor(l) ? "outside [2, %d]" : "no whole number of leaves in [2, %d]", n);
    violate(v, VN_TREE_RANGE, i, j, l, why);
    return false;
}

/* Sizes of the finished tree against the labels that the answers gave are checked through this: l of a pair of the tree against the answer. */
static vn_status_t compare(const vn_tree_t *t, int64_t pairs, const int32_t *i, const int32_t *j, const double *l, vn_violation_t *v,
                           vn_error_t *err) {
    uint32_t *due = vn_alloc((size_t)pairs + 1, sizeof *due);
    if (!due) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld answers", (long long)pairs);
    const vn_status_t st = vn_tree_pairs(t, pairs, i, j, due, err);
    for (int64_t p = 0; st == VN_OK && p < pairs && v->kind == VN_TREE_OK; ++p) {
        char why[80];
        if (l[p] == due[p]) continue;
        snprintf(why, sizeof why, "the tree of the other answers says %u", due[p]);
        violate(v, VN_TREE_ULTRAMETRIC, i[p], j[p], l[p], why);
    }
    vn_free(due);
    return st;
}

/* ---- from chosen pairs: random pivots, all open sets of a round in one question ----
 *
 * A pivot i splits its set S by the values l(i,j): ascending values are the ancestors of i, the leaves of one value hang together below that
 * ancestor. A set of one value v becomes an open set of the next round under the node of v. If v shows again as the largest value inside it, its
 * pieces are children of that very node: such nodes are dissolved into their parent at the end. */

typedef struct set {
    int32_t begin, count; /* in the array of leaves */
    int32_t parent;       /* inner node that it hangs under; -1: the whole */
    int32_t flat;         /* rounds in a row that found nothing but leaves of the parent */
} set_t;

enum { KEPT = 64, MOST_PIVOTS = 32 };

typedef struct forest {
    int32_t n;
    vn_rng_t rng;
    int32_t *leaves; /* permuted: sets are runs of it */
    set_t *open, *later;
    int32_t n_open, n_later;
    int32_t *up;    /* parent of inner node k; -1 */
    int32_t *hang;  /* [n] inner node that a leaf hangs under */
    int32_t *label; /* [inner] */
    int32_t inner;
    int32_t *i, *j; /* questions of a round */
    double *l;
    int64_t room;                             /* for so many */
    uint64_t *sorted, *other;                 /* answers of one set: l in the high half, the leaf in the low one */
    int32_t *split, splits;                   /* first inner node of each set that was split */
    int32_t kept_i[KEPT], kept_j[KEPT], kept; /* questions of the first round, to be asked once more */
    double kept_l[KEPT];
} forest_t;

static void forest_free(forest_t *f) {
    vn_free(f->leaves);
    vn_free(f->open);
    vn_free(f->later);
    vn_free(f->up);
    vn_free(f->hang);
    vn_free(f->label);
    vn_free(f->i);
    vn_free(f->j);
    vn_free(f->l);
    vn_free(f->sorted);
    vn_free(f->other);
    vn_free(f->split);
}

static vn_status_t forest_new(forest_t *f, int32_t n, uint64_t seed, vn_error_t *err) {
    const size_t m = (size_t)n + 1;
    *f = (forest_t){.n = n, .room = (int64_t)m + KEPT};
    vn_rng_seed(&f->rng, seed);
    f->leaves = vn_alloc(m, sizeof *f->leaves);
    f->open = vn_alloc(m, sizeof *f->open);
    f->later = vn_alloc(m, sizeof *f->later);
    f->up = vn_alloc(2 * m, sizeof *f->up);
    f->hang = vn_alloc(m, sizeof *f->hang);
    f->label = vn_alloc(2 * m, sizeof *f->label);
    f->i = vn_alloc(m + 2 * KEPT, sizeof *f->i);
    f->j = vn_alloc(m + 2 * KEPT, sizeof *f->j);
    f->l = vn_alloc(m + 2 * KEPT, sizeof *f->l);
    f->sorted = vn_alloc(m, sizeof *f->sorted);
    f->other = vn_alloc(m, sizeof *f->other);
    f->split = vn_alloc(m, sizeof *f->split);
    if (f->leaves && f->open && f->later && f->up && f->hang && f->label && f->i && f->j && f->l && f->sorted && f->other && f->split)
        return VN_OK;
    forest_free(f);
    return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
}

enum { FEW = 48, DIGIT = 256 };

/* Ascending by l, equal l as they stood: insertion for few, digit by digit for many. Whole numbers up to n. */
static void sort_answers(forest_t *f, int32_t count) {
    uint64_t *from = f->sorted, *to = f->other;
    if (count <= FEW) {
        for (int32_t k = 1; k < count; ++k) {
            const uint64_t x = from[k];
            int32_t at = k;
            for (; at > 0 && from[at - 1] >> 32 > x >> 32; --at) from[at] = from[at - 1];
            from[at] = x;
        }
        return;
    }
    for (int shift = 32; (int64_t)f->n >> (shift - 32) > 0; shift += 8) {
        int32_t begin[DIGIT] = {0}, sum = 0;
        for (int32_t k = 0; k < count; ++k) begin[from[k] >> shift & (DIGIT - 1)]++;
        for (int d = 0; d < DIGIT; ++d) {
            const int32_t of_digit = begin[d];
            begin[d] = sum;
            sum += of_digit;
        }
        for (int32_t k = 0; k < count; ++k) to[begin[from[k] >> shift & (DIGIT - 1)]++] = from[k];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    f->sorted = from;
    f->other = to;
}

static int32_t value_of(uint64_t answer) { return (int32_t)(answer >> 32); }
static int32_t leaf_of(uint64_t answer) { return (int32_t)(answer & UINT32_MAX); }

/* The answers of one pivot: its ancestors become nodes, groups of equal answers the sets of the next round. */
static bool split(forest_t *f, const set_t *s, const double *l, vn_violation_t *v) {
    int32_t *leaf = f->leaves + s->begin;
    const int32_t pivot = leaf[0], others = s->count - 1;
    bool sorted = true;
    for (int32_t k = 0; k < others; ++k) {
        if (!in_range(f->n, pivot, leaf[k + 1], l[k], v)) return false;
        f->sorted[k] = (uint64_t)l[k] << 32 | (uint32_t)leaf[k + 1];
        sorted &= k == 0 || l[k - 1] <= l[k];
    }
    if (!sorted) sort_answers(f, others);
    const uint64_t *answer = f->sorted;
    if (s->parent >= 0 && value_of(answer[others - 1]) > f->label[s->parent]) {
        violate(v, VN_TREE_ULTRAMETRIC, pivot, leaf_of(answer[others - 1]), value_of(answer[others - 1]),
                "larger than the set that both are in");
        return false;
    }
    int32_t below = -1; /* node of the previous value */
    f->split[f->splits++] = f->inner;
    for (int32_t k = 0; k < others;) {
        int32_t end = k;
        while (end < others && value_of(answer[end]) == value_of(answer[k])) ++end;
        /* all leaves below an ancestor of the pivot are in the set, unless it is the node that the set hangs under */
        if (value_of(answer[k]) != end + 1 && (s->parent < 0 || value_of(answer[k]) < f->label[s->parent])) {
            char why[80];
            snprintf(why, sizeof why, "but leaf %d answers that or less with %d others", pivot, end);
            violate(v, VN_TREE_ULTRAMETRIC, pivot, leaf_of(answer[k]), value_of(answer[k]), why);
            return false;
        }
        const int32_t node = f->inner++;
        f->label[node] = value_of(answer[k]);
        if (below >= 0) f->up[below] = node;
        else f->hang[pivot] = node;
        for (int32_t m = k; m < end; ++m) leaf[1 + m] = leaf_of(answer[m]);
        if (end - k == 1) f->hang[leaf[1 + k]] = node;
        else f->later[f->n_later++] = (set_t){s->begin + 1 + k, end - k, node, 0};
        below = node;
        k = end;
    }
    f->up[below] = s->parent;
    return true;
}

/* Pivots of a set in one round. A node of many children shows one leaf a pivot: where nothing else comes, the pivots double. */
static int32_t pivots_of(const set_t *s) {
    int32_t pivots = 1;
    while (pivots < MOST_PIVOTS && pivots < 1 << s->flat) pivots *= 2;
    return pivots < s->count ? pivots : s->count - 1;
}
static int64_t questions_of(const set_t *s) {
    const int64_t p = pivots_of(s);
    return p * (s->count - 1) - p * (p - 1) / 2;
}

/* All answers of a set, pivot after pivot, as long as they are flat: leaves of the node that the set hangs under. What comes after is dropped. */
static bool take_answers(forest_t *f, const set_t *s, const double *l, vn_violation_t *v) {
    const int32_t *leaf = f->leaves + s->begin, pivots = pivots_of(s);
    for (int32_t q = 0; q < pivots; ++q) {
        const int32_t others = s->count - 1 - q;
        bool flat = s->parent >= 0;
        for (int32_t k = 0; k < others && flat; ++k) flat = l[k] == f->label[s->parent];
        if (!flat) return split(f, &(set_t){s->begin + q, s->count - q, s->parent, 0}, l, v);
        f->hang[leaf[q]] = s->parent;
        l += others;
        if (others == 1) f->hang[leaf[q + 1]] = s->parent;
    }
    if (s->count - pivots > 1) f->later[f->n_later++] = (set_t){s->begin + pivots, s->count - pivots, s->parent, s->flat + 1};
    return true;
}

static vn_status_t make_room(forest_t *f, vn_error_t *err) {
    int64_t questions = 0;
    for (int32_t s = 0; s < f->n_open; ++s) questions += questions_of(&f->open[s]);
    if (questions <= f->room) return VN_OK;
    const size_t more = (size_t)questions + KEPT;
    int32_t *i = vn_realloc(f->i, more, sizeof *i);
    if (i) f->i = i;
    int32_t *j = vn_realloc(f->j, more, sizeof *j);
    if (j) f->j = j;
    double *l = vn_realloc(f->l, more, sizeof *l);
    if (l) f->l = l;
    if (!i || !j || !l) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld questions", (long long)questions);
    f->room = questions;
    return VN_OK;
}

/* Some questions of the whole set, evenly spread. */
static void keep_questions(forest_t *f, int64_t pairs) {
    f->kept = pairs < KEPT ? (int32_t)pairs : KEPT;
    for (int32_t k = 0; k < f->kept; ++k) {
        const int64_t p = k * pairs / f->kept;
        f->kept_i[k] = f->i[p];
        f->kept_j[k] = f->j[p];
        f->kept_l[k] = f->l[p];
    }
}

/* Puts the kept questions behind `count` others; compares their answers. Another answer than before outweighs what else was found. */
static int64_t add_kept(forest_t *f, int64_t count) {
    for (int32_t k = 0; k < f->kept; ++k) {
        f->i[count + k] = f->kept_i[k];
        f->j[count + k] = f->kept_j[k];
    }
    return count + f->kept;
}
static void compare_kept(const forest_t *f, int64_t from, vn_violation_t *v) {
    for (int32_t k = 0; k < f->kept; ++k) {
        const double now = f->l[from + k];
        char why[80];
        if (now == f->kept_l[k] || (isnan(now) && isnan(f->kept_l[k]))) continue;
        snprintf(why, sizeof why, "and %.9g when asked again", now);
        violate(v, VN_TREE_NONDETERMINISTIC, f->kept_i[k], f->kept_j[k], f->kept_l[k], why);
        return;
    }
}

static vn_status_t rounds(forest_t *f, vn_ask_pairs_fn ask, void *context, vn_violation_t *v, vn_error_t *err) {
    for (int32_t k = 0; k < f->n; ++k) f->leaves[k] = k;
    f->open[f->n_open++] = (set_t){0, f->n, -1, 0};
    while (f->n_open > 0) {
        int64_t pairs = 0;
        VN_TRY(make_room(f, err));
        for (int32_t s = 0; s < f->n_open; ++s) {
            int32_t *leaf = f->leaves + f->open[s].begin;
            const int32_t count = f->open[s].count, pivots = pivots_of(&f->open[s]);
            for (int32_t q = 0; q < pivots; ++q) {
                const int32_t pick = q + (int32_t)vn_rng_below(&f->rng, (uint64_t)(count - q)), pivot = leaf[pick];
                leaf[pick] = leaf[q];
                leaf[q] = pivot;
            }
            for (int32_t q = 0; q < pivots; ++q)
                for (int32_t k = q + 1; k < count; ++k, ++pairs) {
                    f->i[pairs] = leaf[q];
                    f->j[pairs] = leaf[k];
                }
        }
        VN_TRY(ask(context, pairs, f->i, f->j, f->l, err));
        if (f->splits == 0) keep_questions(f, pairs);
        const double *l = f->l;
        f->n_later = 0;
        for (int32_t s = 0; s < f->n_open; ++s) {
            if (!take_answers(f, &f->open[s], l, v)) return VN_OK;
            l += questions_of(&f->open[s]);
        }
        set_t *swap = f->open;
        f->open = f->later;
        f->later = swap;
        f->n_open = f->n_later;
    }
    return VN_OK;
}

/* A node whose label is its parent's is the same node, and such a parent was made before it. settled[k]: the node that stands for k. */
static void settle(const forest_t *f, int32_t *settled) {
    for (int32_t k = 0; k < f->inner; ++k) {
        const int32_t up = f->up[k];
        settled[k] = up >= 0 && f->label[up] == f->label[k] ? settled[up] : k;
    }
}

/* Each node must hold as many leaves as its label says. Children come before parents: later sets first, in a set from the pivot upwards. */
static void check_labels(const forest_t *f, const int32_t *settled, int32_t *size, vn_violation_t *v) {
    memset(size, 0, (size_t)f->inner * sizeof *size);
    for (int32_t leaf = 0; leaf < f->n; ++leaf) size[f->hang[leaf]]++;
    for (int32_t s = f->splits - 1; s >= 0; --s) {
        const int32_t end = s + 1 < f->splits ? f->split[s + 1] : f->inner;
        for (int32_t k = f->split[s]; k < end; ++k) {
            if (settled[k] == k && f->label[k] != size[k] && v->kind == VN_TREE_OK) {
                int32_t leaf = 0; /* one that hangs there, if any, to name the place */
                while (leaf < f->n && settled[f->hang[leaf]] != k) ++leaf;
                violate(v, VN_TREE_ULTRAMETRIC, leaf < f->n ? leaf : -1, -1, f->label[k], "");
                snprintf(v->what, sizeof v->what, "%d leaves answer %d to each other or to leaf %d: the set of %d has %d leaves", size[k],
                         f->label[k], v->i, f->label[k], size[k]);
            }
            if (f->up[k] >= 0) size[f->up[k]] += size[k];
        }
    }
}

static vn_status_t assemble(const forest_t *f, const int32_t *settled, int32_t *id, vn_draft_t *d, int32_t *root, vn_error_t *err) {
    *root = 0;
    for (int32_t k = 0; k < f->inner; ++k)
        if (settled[k] == k) VN_TRY(vn_draft_node(d, &id[k], err));
    for (int32_t leaf = 0; leaf < f->n; ++leaf) vn_draft_attach(d, id[settled[f->hang[leaf]]], leaf);
    for (int32_t k = 0; k < f->inner; ++k) {
        if (settled[k] != k) continue;
        if (f->up[k] < 0) *root = id[k];
        else vn_draft_attach(d, id[settled[f->up[k]]], id[k]);
    }
    return VN_OK;
}

/* The tree that the answers gave, if they gave one. */
static vn_status_t grow_tree(forest_t *f, vn_ask_pairs_fn ask, void *context, vn_tree_t **out, vn_violation_t *v, vn_error_t *err) {
    vn_draft_t d;
    int32_t root = 0;
    VN_TRY(rounds(f, ask, context, v, err));
    if (v->kind != VN_TREE_OK) return VN_OK;
    int32_t *settled = vn_alloc((size_t)f->inner + 1, sizeof *settled), *scratch = vn_alloc((size_t)f->inner + 1, sizeof *scratch);
    vn_status_t st = settled && scratch ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", f->n);
    if (st == VN_OK) {
        settle(f, settled);
        check_labels(f, settled, scratch, v);
    }
    if (st == VN_OK && v->kind == VN_TREE_OK) {
        st = vn_draft_begin(&d, f->n, false, f->inner + 1, err);
        if (st == VN_OK) st = assemble(f, settled, scratch, &d, &root, err);
        if (st == VN_OK) st = vn_draft_finish(&d, root, false, out, err);
        else vn_draft_clear(&d);
    }
    vn_free(settled);
    vn_free(scratch);
    return st;
}

/* Random pairs against the finished tree, and the kept questions once more. */
static vn_status_t check_pairs(forest_t *f, int64_t checks, vn_ask_pairs_fn ask, void *context, const vn_tree_t *t, vn_violation_t *v,
                               vn_error_t *err) {
    const int32_t n = f->n;
    for (int64_t done = 0; n > 1 && v->kind == VN_TREE_OK && done < checks;) {
        const int64_t count = checks - done < f->room ? checks - done : f->room;
        for (int64_t p = 0; p < count; ++p) {
            f->i[p] = (int32_t)vn_rng_below(&f->rng, (uint64_t)n);
            f->j[p] = (int32_t)vn_rng_below(&f->rng, (uint64_t)(n - 1));
            f->j[p] += f->j[p] >= f->i[p];
        }
        VN_TRY(ask(context, done ? count : add_kept(f, count), f->i, f->j, f->l, err));
        VN_TRY(compare(t, count, f->i, f->j, f->l, v, err));
        if (done == 0) compare_kept(f, count, v);
        done += count;
    }
    return VN_OK;
}

/* Answers that are no tree's: are they the same when asked again? */
static vn_status_t ask_again(forest_t *f, vn_ask_pairs_fn ask, void *context, vn_violation_t *v, vn_error_t *err) {
    VN_TRY(ask(context, add_kept(f, 0), f->i, f->j, f->l, err));
    compare_kept(f, 0, v);
    return VN_OK;
}

static vn_status_t single_leaf(vn_tree_t **out, vn_error_t *err) {
    vn_draft_t d;
    VN_TRY(vn_draft_begin(&d, 1, false, 0, err));
    return vn_draft_finish(&d, 0, false, out, err);
}

static vn_status_t begin(forest_t *f, int32_t n, uint64_t seed, vn_tree_t **out, vn_violation_t *v, vn_error_t *err) {
    *out = NULL;
    *v = (vn_violation_t){.i = -1, .j = -1, .k = -1};
    if (n < 1 || n > VN_TREE_MAX_LEAVES) return vn_fail(err, VN_ERR_RANGE, "a tree of %d leaves; from 1 to %d", n, VN_TREE_MAX_LEAVES);
    return forest_new(f, n, seed, err);
}

static vn_status_t end(forest_t *f, vn_status_t st, vn_tree_t **out, const vn_violation_t *v) {
    forest_free(f);
    if (st != VN_OK || v->kind != VN_TREE_OK) {
        vn_tree_free(*out);
        *out = NULL;
    }
    return st;
}

vn_status_t vn_rebuild_pairs(int32_t n, uint64_t seed, int64_t checks, vn_ask_pairs_fn ask, void *context, vn_tree_t **out,
                             vn_violation_t *v, vn_error_t *err) {
    forest_t f;
    VN_TRY(begin(&f, n, seed, out, v, err));
    vn_status_t st = n > 1 ? grow_tree(&f, ask, context, out, v, err) : single_leaf(out, err);
    if (st == VN_OK && *out) st = check_pairs(&f, checks, ask, context, *out, v, err);
    else if (st == VN_OK && f.kept) st = ask_again(&f, ask, context, v, err);
    return end(&f, st, out, v);
}

/* ---- from all pairs: the same questions, read from the matrix; then every entry is compared ---- */

typedef struct matrix {
    int32_t n;
    const double *l;
} matrix_t;

static vn_status_t look_up(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    const matrix_t *m = context;
    (void)err;
    for (int64_t p = 0; p < pairs; ++p) {
        const int32_t low = i[p] < j[p] ? i[p] : j[p], high = i[p] < j[p] ? j[p] : i[p];
        l[p] = m->l[(size_t)low * (size_t)m->n + (size_t)high];
    }
    return VN_OK;
}

/* Row by row: leaves in depth-first order, where l(i, .) rises to both sides of i. */
static vn_status_t compare_matrix(const vn_tree_t *t, const double *l, vn_violation_t *v, vn_error_t *err) {
    const int32_t n = t->n;
    vn_tour_t r;
    VN_TRY(vn_tour_of(t, &r, err));
    double *due = vn_alloc((size_t)n, sizeof *due);
    vn_status_t st = due ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    for (int32_t i = 0; st == VN_OK && i < n && v->kind == VN_TREE_OK; ++i) {
        const int32_t at = r.position[i];
        const double *row = l + (size_t)i * (size_t)n;
        uint32_t most = 1;
        for (int32_t p = at + 1; p < n; ++p) due[r.leaf[p]] = most = r.between[p - 1] > most ? r.between[p - 1] : most;
        most = 1;
        for (int32_t p = at - 1; p >= 0; --p) due[r.leaf[p]] = most = r.between[p] > most ? r.between[p] : most;
        int32_t wrong = 0;
        for (int32_t j = i + 1; j < n; ++j) wrong += row[j] != due[j];
        for (int32_t j = i + 1; wrong && j < n; ++j) {
            char why[80];
            if (row[j] == due[j]) continue;
            wrong = 0;
            if (!in_range(n, i, j, row[j], v)) break;
            snprintf(why, sizeof why, "the tree of the other answers says %.0f", due[j]);
            violate(v, VN_TREE_ULTRAMETRIC, i, j, row[j], why);
        }
    }
    vn_free(due);
    vn_tour_clear(&r);
    return st;
}

vn_status_t vn_rebuild_matrix(int32_t n, const double *l, vn_tree_t **out, vn_violation_t *v, vn_error_t *err) {
    forest_t f;
    matrix_t m = {n, l};
    VN_TRY(begin(&f, n, 1, out, v, err));
    vn_status_t st = n > 1 ? grow_tree(&f, look_up, &m, out, v, err) : single_leaf(out, err);
    if (st == VN_OK && *out) st = compare_matrix(*out, l, v, err);
    return end(&f, st, out, v);
}
