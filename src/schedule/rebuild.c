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

/* ---- from all pairs: single linkage ---- */

typedef struct edge {
    double l;
    int32_t a, b;
} edge_t;

static int by_length(const void *x, const void *y) {
    const edge_t *a = x, *b = y;
    if (a->l != b->l) return a->l < b->l ? -1 : 1;
    if (a->a != b->a) return a->a < b->a ? -1 : 1;
    return (a->b > b->b) - (a->b < b->b);
}

/* Minimum spanning tree by Prim: n - 1 edges, O(n^2), reading the upper triangle only. */
static vn_status_t spanning(int32_t n, const double *l, edge_t *edges, vn_violation_t *v, vn_error_t *err) {
    edge_t *near = vn_alloc((size_t)n, sizeof *near);
    if (!near) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    int32_t last = 0;
    for (int32_t j = 0; j < n; ++j) near[j] = (edge_t){INFINITY, 0, j};
    near[0].a = -1; /* in the tree */
    for (int32_t count = 0; count < n - 1; ++count) {
        int32_t best = -1;
        for (int32_t j = 0; j < n; ++j) {
            if (near[j].a < 0) continue;
            const int32_t p = last < j ? last : j, q = last < j ? j : last;
            const double x = l[(size_t)p * (size_t)n + (size_t)q];
            if (!(x >= 2 && x <= n && x == floor(x))) {
                (void)in_range(n, p, q, x, v);
                vn_free(near);
                return VN_OK;
            }
            if (x < near[j].l) near[j] = (edge_t){x, last, j};
            if (best < 0 || near[j].l < near[best].l) best = j;
        }
        edges[count] = near[best];
        near[best].a = -1;
        last = best;
    }
    vn_free(near);
    return VN_OK;
}

static int32_t find(int32_t *up, int32_t x) {
    while (up[x] != x) x = up[x] = up[up[x]];
    return x;
}

/* Joins clusters by ascending l; equal l of neighbours is one node of many children. */
static vn_status_t link_edges(int32_t n, const edge_t *edges, vn_draft_t *d, int32_t *root, vn_violation_t *v, vn_error_t *err) {
    int32_t *up = vn_alloc((size_t)n, sizeof *up), *top = vn_alloc((size_t)n, sizeof *top), *size = vn_alloc((size_t)n, sizeof *size);
    double *label = vn_alloc((size_t)n, sizeof *label);
    vn_status_t st = up && top && size && label ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    for (int32_t i = 0; st == VN_OK && i < n; ++i) {
        up[i] = top[i] = i;
        size[i] = 1;
        label[i] = 1;
    }
    *root = 0;
    for (int32_t e = 0; st == VN_OK && e < n - 1; ++e) {
        int32_t a = find(up, edges[e].a), b = find(up, edges[e].b);
        const double l = edges[e].l;
        if (label[b] == l && label[a] != l) {
            const int32_t swap = a;
            a = b;
            b = swap;
        }
        if (label[a] == l && label[b] == l) {
            vn_draft_splice(d, top[a], top[b]);
        } else if (label[a] == l) {
            vn_draft_attach(d, top[a], top[b]);
        } else {
            int32_t id;
            /* a finished cluster must hold as many leaves as its l says */
            for (int side = 0; side < 2 && v->kind == VN_TREE_OK; ++side) {
                const int32_t c = side ? b : a;
                if (label[c] != size[c])
                    violate(v, VN_TREE_ULTRAMETRIC, edges[e].a, edges[e].b, label[c], "not the size of any set of leaves");
            }
            st = vn_draft_node(d, &id, err);
            if (st != VN_OK) break;
            vn_draft_attach(d, id, top[a]);
            vn_draft_attach(d, id, top[b]);
            top[a] = id;
            label[a] = l;
        }
        up[b] = a;
        size[a] += size[b];
        *root = top[a];
        if (e == n - 2 && label[a] != size[a] && v->kind == VN_TREE_OK)
            violate(v, VN_TREE_ULTRAMETRIC, edges[e].a, edges[e].b, label[a], "not the size of any set of leaves");
    }
    vn_free(up);
    vn_free(top);
    vn_free(size);
    vn_free(label);
    return st;
}

static vn_status_t compare_matrix(const vn_tree_t *t, const double *l, vn_violation_t *v, vn_error_t *err) {
    const int32_t n = t->n;
    uint32_t *due = vn_alloc((size_t)n * (size_t)n, sizeof *due);
    if (!due) return vn_fail(err, VN_ERR_NOMEM, "no memory for a matrix of %d leaves", n);
    const vn_status_t st = vn_tree_matrix(t, due, err);
    for (int32_t i = 0; st == VN_OK && i < n && v->kind == VN_TREE_OK; ++i)
        for (int32_t j = i + 1; j < n; ++j) {
            const size_t at = (size_t)i * (size_t)n + (size_t)j;
            char why[80];
            if (l[at] == due[at]) continue;
            if (!in_range(n, i, j, l[at], v)) break;
            snprintf(why, sizeof why, "the tree of the other answers says %u", due[at]);
            violate(v, VN_TREE_ULTRAMETRIC, i, j, l[at], why);
            break;
        }
    vn_free(due);
    return st;
}

vn_status_t vn_rebuild_matrix(int32_t n, const double *l, vn_tree_t **out, vn_violation_t *v, vn_error_t *err) {
    vn_draft_t d;
    int32_t root = 0;
    *out = NULL;
    *v = (vn_violation_t){.i = -1, .j = -1, .k = -1};
    VN_TRY(vn_draft_begin(&d, n, false, n, err));
    edge_t *edges = vn_alloc((size_t)n, sizeof *edges);
    vn_status_t st = edges ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    if (st == VN_OK) st = spanning(n, l, edges, v, err);
    if (st == VN_OK && v->kind == VN_TREE_OK) {
        qsort(edges, (size_t)(n - 1), sizeof *edges, by_length);
        st = link_edges(n, edges, &d, &root, v, err);
    }
    vn_free(edges);
    if (st != VN_OK || v->kind != VN_TREE_OK) {
        vn_draft_clear(&d);
        return st;
    }
    VN_TRY(vn_draft_finish(&d, root, false, out, err));
    st = compare_matrix(*out, l, v, err);
    if (st != VN_OK || v->kind != VN_TREE_OK) {
        vn_tree_free(*out);
        *out = NULL;
    }
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
} set_t;

typedef struct forest {
    int32_t n;
    vn_rng_t rng;
    int32_t *leaves; /* permuted: sets are runs of it */
    set_t *open, *later;
    int32_t n_open, n_later;
    int32_t *up;   /* parent of inner node k; -1 */
    int32_t *hang; /* [n] inner node that a leaf hangs under */
    double *label; /* [inner] */
    int32_t inner;
    int32_t *i, *j; /* questions of a round */
    double *l;
    edge_t *sorted; /* answers of one set: l, leaf */
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
}

static vn_status_t forest_new(forest_t *f, int32_t n, uint64_t seed, vn_error_t *err) {
    const size_t m = (size_t)n + 1;
    *f = (forest_t){.n = n};
    vn_rng_seed(&f->rng, seed);
    f->leaves = vn_alloc(m, sizeof *f->leaves);
    f->open = vn_alloc(m, sizeof *f->open);
    f->later = vn_alloc(m, sizeof *f->later);
    f->up = vn_alloc(2 * m, sizeof *f->up);
    f->hang = vn_alloc(m, sizeof *f->hang);
    f->label = vn_alloc(2 * m, sizeof *f->label);
    f->i = vn_alloc(m, sizeof *f->i);
    f->j = vn_alloc(m, sizeof *f->j);
    f->l = vn_alloc(m, sizeof *f->l);
    f->sorted = vn_alloc(m, sizeof *f->sorted);
    if (f->leaves && f->open && f->later && f->up && f->hang && f->label && f->i && f->j && f->l && f->sorted) return VN_OK;
    forest_free(f);
    return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
}

/* The answers of one set: the ancestors of its pivot become nodes, groups of equal answers the sets of the next round. */
static bool split(forest_t *f, const set_t *s, const double *l, vn_violation_t *v) {
    int32_t *leaf = f->leaves + s->begin;
    const int32_t pivot = leaf[0], others = s->count - 1;
    bool sorted = true;
    for (int32_t k = 0; k < others; ++k) {
        if (!in_range(f->n, pivot, leaf[k + 1], l[k], v)) return false;
        f->sorted[k] = (edge_t){l[k], leaf[k + 1], 0};
        sorted &= k == 0 || l[k - 1] <= l[k];
    }
    if (!sorted) qsort(f->sorted, (size_t)others, sizeof *f->sorted, by_length);
    if (s->parent >= 0 && f->sorted[others - 1].l > f->label[s->parent]) {
        violate(v, VN_TREE_ULTRAMETRIC, pivot, f->sorted[others - 1].a, f->sorted[others - 1].l, "larger than the set that both are in");
        return false;
    }
    int32_t below = -1; /* node of the previous value */
    for (int32_t k = 0; k < others;) {
        int32_t end = k;
        while (end < others && f->sorted[end].l == f->sorted[k].l) ++end;
        const int32_t node = f->inner++;
        f->label[node] = f->sorted[k].l;
        if (below >= 0) f->up[below] = node;
        else f->hang[pivot] = node;
        for (int32_t m = k; m < end; ++m) leaf[1 + m] = f->sorted[m].a;
        if (end - k == 1) f->hang[leaf[1 + k]] = node;
        else f->later[f->n_later++] = (set_t){s->begin + 1 + k, end - k, node};
        below = node;
        k = end;
    }
    f->up[below] = s->parent;
    return true;
}

static vn_status_t rounds(forest_t *f, vn_ask_pairs_fn ask, void *context, vn_violation_t *v, vn_error_t *err) {
    for (int32_t k = 0; k < f->n; ++k) f->leaves[k] = k;
    f->open[f->n_open++] = (set_t){0, f->n, -1};
    while (f->n_open > 0) {
        int64_t pairs = 0;
        for (int32_t s = 0; s < f->n_open; ++s) {
            int32_t *leaf = f->leaves + f->open[s].begin;
            const int32_t pick = (int32_t)(vn_rng_u64(&f->rng) % (uint64_t)f->open[s].count), pivot = leaf[pick];
            leaf[pick] = leaf[0];
            leaf[0] = pivot;
            for (int32_t k = 1; k < f->open[s].count; ++k, ++pairs) {
                f->i[pairs] = pivot;
                f->j[pairs] = leaf[k];
            }
        }
        VN_TRY(ask(context, pairs, f->i, f->j, f->l, err));
        const double *l = f->l;
        f->n_later = 0;
        for (int32_t s = 0; s < f->n_open; ++s) {
            if (!split(f, &f->open[s], l, v)) return VN_OK;
            l += f->open[s].count - 1;
        }
        set_t *swap = f->open;
        f->open = f->later;
        f->later = swap;
        f->n_open = f->n_later;
    }
    return VN_OK;
}

/* A node whose label is its parent's is the same node. */
static int32_t settle(const forest_t *f, int32_t node) {
    while (f->up[node] >= 0 && f->label[f->up[node]] == f->label[node]) node = f->up[node];
    return node;
}

static vn_status_t assemble(forest_t *f, vn_draft_t *d, int32_t *root, vn_error_t *err) {
    int32_t *id = vn_alloc((size_t)f->inner + 1, sizeof *id);
    if (!id) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", f->n);
    vn_status_t st = VN_OK;
    *root = 0;
    for (int32_t k = 0; k < f->inner && st == VN_OK; ++k)
        if (settle(f, k) == k) st = vn_draft_node(d, &id[k], err);
    for (int32_t leaf = 0; leaf < f->n && st == VN_OK && f->n > 1; ++leaf) vn_draft_attach(d, id[settle(f, f->hang[leaf])], leaf);
    for (int32_t k = 0; k < f->inner && st == VN_OK; ++k) {
        if (settle(f, k) != k) continue;
        if (f->up[k] < 0) *root = id[k];
        else vn_draft_attach(d, id[settle(f, f->up[k])], id[k]);
    }
    vn_free(id);
    return st;
}

/* Each node must hold as many leaves as its label says. Labels grow upwards, so ascending order adds children before their parents. */
static vn_status_t check_labels(const forest_t *f, vn_violation_t *v, vn_error_t *err) {
    int32_t *size = vn_alloc((size_t)f->inner + 1, sizeof *size), nodes = 0;
    if (!size) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", f->n);
    for (int32_t leaf = 0; leaf < f->n; ++leaf) size[settle(f, f->hang[leaf])]++;
    for (int32_t k = 0; k < f->inner; ++k)
        if (settle(f, k) == k) f->sorted[nodes++] = (edge_t){f->label[k], k, 0};
    qsort(f->sorted, (size_t)nodes, sizeof *f->sorted, by_length);
    for (int32_t k = 0; k < nodes && v->kind == VN_TREE_OK; ++k) {
        const int32_t node = f->sorted[k].a;
        if (f->label[node] != size[node])
            violate(v, VN_TREE_ULTRAMETRIC, -1, -1, f->label[node], "not the size of the set that answered it");
        else if (f->up[node] >= 0) size[settle(f, f->up[node])] += size[node];
    }
    vn_free(size);
    return VN_OK;
}

vn_status_t vn_rebuild_pairs(int32_t n, uint64_t seed, int64_t checks, vn_ask_pairs_fn ask, void *context, vn_tree_t **out,
                             vn_violation_t *v, vn_error_t *err) {
    forest_t f;
    vn_draft_t d;
    int32_t root = 0;
    *out = NULL;
    *v = (vn_violation_t){.i = -1, .j = -1, .k = -1};
    VN_TRY(vn_draft_begin(&d, n, false, n, err));
    vn_status_t st = forest_new(&f, n, seed, err);
    if (st != VN_OK) {
        vn_draft_clear(&d);
        return st;
    }
    if (n > 1) st = rounds(&f, ask, context, v, err);
    if (st == VN_OK && v->kind == VN_TREE_OK && n > 1) st = check_labels(&f, v, err);
    if (st == VN_OK && v->kind == VN_TREE_OK) st = assemble(&f, &d, &root, err);
    if (st == VN_OK && v->kind == VN_TREE_OK) st = vn_draft_finish(&d, root, false, out, err);
    vn_draft_clear(&d);
    for (int64_t done = 0; st == VN_OK && *out && n > 1 && v->kind == VN_TREE_OK && done < checks;) {
        const int64_t count = checks - done < n ? checks - done : n;
        for (int64_t p = 0; p < count; ++p) {
            f.i[p] = (int32_t)(vn_rng_u64(&f.rng) % (uint64_t)n);
            f.j[p] = (int32_t)(vn_rng_u64(&f.rng) % (uint64_t)(n - 1));
            f.j[p] += f.j[p] >= f.i[p];
        }
        st = ask(context, count, f.i, f.j, f.l, err);
        if (st == VN_OK) st = compare(*out, count, f.i, f.j, f.l, v, err);
        done += count;
    }
    forest_free(&f);
    if (st != VN_OK || v->kind != VN_TREE_OK) {
        vn_tree_free(*out);
        *out = NULL;
    }
    return st;
}
