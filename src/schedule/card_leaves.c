/* card_leaves.c -- leaves of a tree in the order that a probe asks for. Ids: leaves first, then inner nodes; parents come after their children. */
#include <string.h>

#include "schedule/card.h"
#include "schedule/draft.h"

int vn_card_below(const vn_tree_t *t, int32_t id, int want, int32_t *leaf, vn_status_t *st, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *stack = vn_alloc((size_t)leaves + (size_t)t->nodes + 1, sizeof *stack), depth = 0;
    int found = 0;
    if (!stack) {
        *st = vn_fail(err, VN_ERR_NOMEM, "no memory for a card");
        return 0;
    }
    stack[depth++] = id;
    while (depth > 0 && found < want) {
        const int32_t at = stack[--depth];
        if (at < leaves) {
            if (at < t->n) leaf[found++] = at;
            continue;
        }
        for (int32_t c = t->first[at - leaves]; c < t->first[at - leaves + 1]; ++c) stack[depth++] = t->child[c];
    }
    vn_free(stack);
    return found;
}

/* Parent of every id, -1 above the root; terms below every id. Both released by the caller. */
typedef struct above {
    int32_t *parent, *terms;
} above_t;
static void forget(above_t *u) {
    vn_free(u->parent);
    vn_free(u->terms);
}
static vn_status_t look_above(const vn_tree_t *t, above_t *u, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    const size_t ids = (size_t)leaves + (size_t)t->nodes + 1;
    *u = (above_t){vn_alloc(ids, sizeof *u->parent), vn_alloc(ids, sizeof *u->terms)};
    if (!u->parent || !u->terms) {
        forget(u);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for a card");
    }
    for (size_t k = 0; k < ids; ++k) u->parent[k] = -1;
    for (int32_t k = 0; k < t->n; ++k) u->terms[k] = 1;
    for (int32_t k = 0; k < t->nodes; ++k)
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) {
            u->parent[t->child[c]] = leaves + k;
            u->terms[leaves + k] += u->terms[t->child[c]];
        }
    return VN_OK;
}

static int32_t width(const vn_tree_t *t, int32_t k) { return t->first[k + 1] - t->first[k]; }

vn_status_t vn_card_joined(const vn_tree_t *t, int want, int32_t *leaf, bool *found, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    above_t u;
    int32_t last = -1, sum = -1;
    *found = false;
    VN_TRY(look_above(t, &u, err));
    for (int32_t k = 0; k < t->nodes; ++k) {
        if (width(t, k) != 2) continue;
        for (int32_t c = 0; c < 2; ++c) {
            const int32_t x = t->child[t->first[k] + c], other = t->child[t->first[k] + 1 - c];
            if (x >= t->n || other < leaves || u.terms[other] < want) continue;
            if (last >= 0 && !(t->rounded && t->rounded[last] && !t->rounded[x])) continue;
            last = x;
            sum = other;
        }
    }
    forget(&u);
    if (last < 0) return VN_OK;
    vn_status_t st = VN_OK;
    *found = vn_card_below(t, sum, want, leaf, &st, err) == want;
    leaf[want] = last;
    return st;
}

vn_status_t vn_card_run(const vn_tree_t *t, int heads, int steps, int32_t *leaf, bool *found, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t), ids = leaves + t->nodes;
    above_t u;
    int32_t start = -1;
    *found = false;
    int32_t *run = vn_alloc((size_t)ids + 1, sizeof *run), *next = vn_alloc((size_t)ids + 1, sizeof *next);
    vn_status_t st = run && next ? look_above(t, &u, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for a card");
    if (st != VN_OK) {
        vn_free(run);
        vn_free(next);
        return st;
    }
    for (int32_t id = ids - 1; id >= 0; --id) {
        const int32_t p = u.parent[id];
        if (p < 0 || width(t, p - leaves) != 2) continue;
        const int32_t first = t->first[p - leaves];
        next[id] = t->child[first] == id ? t->child[first + 1] : t->child[first];
        if (next[id] < t->n) run[id] = 1 + run[p];
        if (run[id] >= steps && u.terms[id] >= heads && id != t->n) start = id; /* the least id of all */
    }
    if (start >= 0) {
        *found = vn_card_below(t, start, heads, leaf, &st, err) == heads;
        for (int k = 0; k < steps; ++k, start = u.parent[start]) leaf[heads + k] = next[start];
    }
    forget(&u);
    vn_free(run);
    vn_free(next);
    return st;
}

/* Terms that are children of node k. */
static int own_terms(const vn_tree_t *t, int32_t k, int most, int32_t *leaf) {
    int found = 0;
    for (int32_t c = t->first[k]; c < t->first[k + 1] && found < most; ++c)
        if (t->child[c] < t->n) leaf[found++] = t->child[c];
    return found;
}

vn_status_t vn_card_groups(const vn_tree_t *t, int heads, int steps, bool after, int32_t *leaf, bool *found, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    above_t u;
    *found = false;
    VN_TRY(look_above(t, &u, err));
    for (int32_t k = 0; k < t->nodes && !*found; ++k) {
        const int32_t p = u.parent[leaves + k], top = p < 0 ? -1 : u.parent[p];
        if (p < 0 || width(t, k) < 3 || width(t, p - leaves) < 3 || (after && top < 0)) continue;
        if (own_terms(t, k, heads, leaf) < heads || own_terms(t, p - leaves, steps, leaf + heads) < steps) continue;
        *found = !after || own_terms(t, top - leaves, 1, leaf + heads + steps) == 1;
    }
    forget(&u);
    return VN_OK;
}

int vn_card_group(const vn_tree_t *t, int most, int32_t *leaf) {
    int32_t pick = -1, best = 0;
    for (int32_t k = 0; k < t->nodes; ++k) {
        int32_t terms = 0;
        for (int32_t c = t->first[k]; width(t, k) > 2 && c < t->first[k + 1]; ++c) terms += t->child[c] < t->n;
        if (terms <= best) continue;
        best = terms;
        pick = k;
    }
    return pick < 0 ? 0 : own_terms(t, pick, most, leaf);
}

vn_status_t vn_card_slices(const vn_tree_t *t, bool between, int32_t leaf[3], bool *found, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    above_t u;
    vn_status_t st = VN_OK;
    *found = false;
    VN_TRY(look_above(t, &u, err));
    for (int32_t k = t->nodes - 1; k >= 0 && !*found && st == VN_OK; --k) { /* from the root down */
        int32_t slice[2];
        int slices = 0;
        for (int32_t c = t->first[k]; c < t->first[k + 1] && slices < 2; ++c)
            if (t->child[c] >= leaves && u.terms[t->child[c]] > 1) slice[slices++] = t->child[c];
        if (slices < 2) continue;
        if (!between) {
            *found = vn_card_below(t, slice[0], 2, leaf, &st, err) == 2 && vn_card_below(t, slice[1], 1, leaf + 2, &st, err) == 1;
            continue;
        }
        for (int side = 0; side < 2 && !*found && st == VN_OK; ++side) { /* a slice that is itself made of two */
            const int32_t in = slice[side] - leaves;
            int32_t part[2];
            int parts = 0;
            for (int32_t c = t->first[in]; c < t->first[in + 1] && parts < 2; ++c)
                if (t->child[c] >= leaves && u.terms[t->child[c]] > 1) part[parts++] = t->child[c];
            *found = parts == 2 && vn_card_below(t, part[0], 1, leaf, &st, err) == 1 &&
                     vn_card_below(t, part[1], 1, leaf + 1, &st, err) == 1 && vn_card_below(t, slice[1 - side], 1, leaf + 2, &st, err) == 1;
        }
    }
    forget(&u);
    return st;
}
