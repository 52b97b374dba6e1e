/* bias.c -- where the initial value or bias enters the tree of the terms.
 *
 * Claim REVEAL-3: C = +M and -M at j leave the terms outside the lowest common ancestor of the two. The terms S with the fewest are those that the
 * value meets first: a subtree of the terms' tree. It becomes the sibling of that subtree, or a further child where that is one fused sum.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/draft.h"
#include "schedule/reveal.h"

typedef struct place {
    const vn_tree_t *t;
    int32_t *size, *parent, *owner; /* by id */
    int32_t s;                      /* id of the subtree that the value joins */
    bool inside;                    /* as a child of its root */
} place_t;

/* The subtree of the leaves with the least l; v tells why there is none. */
static vn_status_t find(place_t *q, const double *l, vn_violation_t *v, vn_error_t *err) {
    const vn_tree_t *t = q->t;
    const int32_t n = t->n, ids = n + t->nodes;
    int32_t least = 0;
    int64_t set = 0;
    VN_TRY(vn_tree_sizes(t, &q->size, err));
    q->parent = vn_alloc((size_t)ids, sizeof *q->parent);
    q->owner = vn_alloc((size_t)ids, sizeof *q->owner);
    if (!q->parent || !q->owner) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    for (int32_t k = 0; k < ids; ++k) q->parent[k] = q->owner[k] = -1;
    for (int32_t k = 0; k < t->nodes; ++k)
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) q->parent[t->child[c]] = n + k;
    for (int32_t j = 0; j < n; ++j)
        if (l[j] < l[least]) least = j;
    for (int32_t j = 0; j < n; ++j) set += l[j] == l[least];
    q->s = least;
    while (q->size[q->s] < set && q->parent[q->s] >= 0) q->s = q->parent[q->s];
    for (int32_t id = q->s; id >= 0; id = q->parent[id]) q->owner[id] = id;
    for (int32_t id = ids - 1; id >= 0; --id) /* parents have larger ids */
        if (q->owner[id] < 0) q->owner[id] = q->owner[q->parent[id]];
    for (int32_t j = 0; j < n; ++j) {
        if (l[j] == q->size[q->owner[j]]) continue;
        *v = (vn_violation_t){.kind = VN_TREE_ULTRAMETRIC, .i = n, .j = j, .k = -1, .value = l[j]};
        snprintf(v->what, sizeof v->what, "the addend and leaf %d answer %.9g: the tree of the terms says %d", j, l[j],
                 q->size[q->owner[j]]);
        return VN_OK;
    }
    return VN_OK;
}

static int32_t leaf_below(const vn_tree_t *t, int32_t id) {
    while (id >= t->n) id = t->child[t->first[id - t->n]];
    return id;
}

/* Of a fused sum: is the value one of its operands? Then a mask pair across it takes the value's unit, too. */
static vn_status_t is_inside(vn_gemm_t *p, const vn_cell_t *cell, place_t *q, vn_error_t *err) {
    const vn_tree_t *t = q->t;
    const int32_t node = q->s - t->n;
    double seen[2];
    if (node < 0 || t->first[node + 1] - t->first[node] < 3) return VN_OK;
    for (int with = 0; with < 2; ++with) {
        vn_probe_t probe = {.start = with ? p->readout.unit : 0};
        vn_probe_add(&probe, leaf_below(t, t->child[t->first[node]]), p->readout.mask, 1);
        vn_probe_add(&probe, leaf_below(t, t->child[t->first[node] + 1]), -p->readout.mask, 1);
        VN_TRY(vn_gemm_probe(p, cell, 1, &probe, &seen[with], err));
    }
    q->inside = seen[0] == seen[1];
    return VN_OK;
}

/* Of a single leaf: is its product rounded before the value is added? */
static vn_status_t is_rounded(vn_gemm_t *p, const vn_cell_t *cell, int32_t leaf, const vn_arithmetic_t *a, bool *rounded, vn_error_t *err) {
    const int bits = vn_format_info(a->accumulator)->p;
    const double x = 1 + ldexp(1, -((bits + 1) / 2));
    vn_probe_t probe = {.start = -vn_round_to(a->accumulator, x * x, VN_RNE, false)};
    double out;
    vn_probe_add(&probe, leaf, x, x);
    VN_TRY(vn_gemm_probe(p, cell, 1, &probe, &out, err));
    *rounded = out == 0;
    return VN_OK;
}

static vn_status_t rebuild(const place_t *q, bool mark, vn_tree_t **out, vn_error_t *err) {
    const vn_tree_t *t = q->t;
    const int32_t n = t->n, after = q->inside ? t->nodes : q->s - n; /* nodes after this index move by one */
    vn_draft_t d;
    int32_t id = 0;
    VN_TRY(vn_draft_begin(&d, n, true, t->nodes + 2, err));
    vn_status_t st = VN_OK;
    for (int32_t k = q->s < n && !q->inside ? -1 : 0; k < t->nodes && st == VN_OK; ++k) {
        if (k >= 0) {
            st = vn_draft_node(&d, &id, err);
            for (int32_t c = t->first[k]; c < t->first[k + 1] && st == VN_OK; ++c) {
                const int32_t child = t->child[c];
                const int32_t moved = child < n ? child : q->inside || child - n <= (q->s < n ? -1 : after) ? child + 1 : child + 2;
                const int32_t joined = q->s < n ? n + 1 : q->s + 2; /* id of the new node */
                vn_draft_attach(&d, id, child == q->s && !q->inside ? joined : moved);
            }
            if (q->inside && k == q->s - n) vn_draft_attach(&d, id, n);
        }
        if (st == VN_OK && !q->inside && k == (q->s < n ? -1 : after)) {
            st = vn_draft_node(&d, &id, err);
            if (st == VN_OK) {
                vn_draft_attach(&d, id, n);
                vn_draft_attach(&d, id, q->s < n ? q->s : q->s + 1);
            }
        }
    }
    for (int32_t leaf = 0; leaf < n && st == VN_OK && t->rounded; ++leaf)
        if (t->rounded[leaf]) st = vn_draft_mark_rounded(&d, leaf, err);
    if (st == VN_OK && mark) st = vn_draft_mark_rounded(&d, q->s, err);
    if (st == VN_OK) return vn_draft_finish(&d, id, true, out, err);
    vn_draft_clear(&d);
    return st;
}

vn_status_t vn_gemm_attach_bias(vn_gemm_t *p, const vn_cell_t *cell, const vn_arithmetic_t *a, vn_tree_t **tree, vn_violation_t *v,
                                vn_error_t *err) {
    vn_asker_t ask = {p, *cell};
    place_t q = {.t = *tree};
    vn_tree_t *joined = NULL;
    bool rounded = false;
    double *l = vn_alloc((size_t)p->k, sizeof *l);
    vn_status_t st = l ? vn_gemm_ask_start(&ask, l, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) st = find(&q, l, v, err);
    if (st == VN_OK && v->kind == VN_TREE_OK) {
        st = is_inside(p, cell, &q, err);
        if (st == VN_OK && q.s < p->k && a->fma) st = is_rounded(p, cell, q.s, a, &rounded, err);
        if (st == VN_OK) st = rebuild(&q, rounded, &joined, err);
    }
    if (joined || (st == VN_OK && v->kind != VN_TREE_OK)) {
        vn_tree_free(*tree);
        *tree = joined;
    }
    vn_free(l);
    vn_free(q.size);
    vn_free(q.parent);
    vn_free(q.owner);
    return st;
}
