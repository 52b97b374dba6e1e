/* draft.c -- from linked lists of children to the canonical arrays of a tree. No recursion: chains are as deep as they are long. */
#include "schedule/draft.h"

#include <stdlib.h>
#include <string.h>

vn_status_t vn_draft_begin(vn_draft_t *d, int32_t n, bool initial, int32_t capacity, vn_error_t *err) {
    *d = (vn_draft_t){.n = n, .leaves = n + (initial ? 1 : 0), .initial = initial};
    if (n < 1 || n > VN_TREE_MAX_LEAVES) return vn_fail(err, VN_ERR_RANGE, "a tree of %d leaves; from 1 to %d", n, VN_TREE_MAX_LEAVES);
    d->capacity = capacity > 4 ? capacity : 4;
    d->head = vn_alloc((size_t)d->capacity, sizeof *d->head);
    d->tail = vn_alloc((size_t)d->capacity, sizeof *d->tail);
    d->next = vn_alloc((size_t)d->leaves + (size_t)d->capacity, sizeof *d->next);
    if (!d->head || !d->tail || !d->next) {
        vn_draft_clear(d);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    }
    memset(d->next, 0xff, ((size_t)d->leaves + (size_t)d->capacity) * sizeof *d->next);
    return VN_OK;
}

void vn_draft_clear(vn_draft_t *d) {
    vn_free(d->head);
    vn_free(d->tail);
    vn_free(d->next);
    vn_free(d->rounded);
    *d = (vn_draft_t){0};
}

static vn_status_t grow(vn_draft_t *d, vn_error_t *err) {
    const int32_t more = d->capacity * 2;
    int32_t *head = vn_realloc(d->head, (size_t)more, sizeof *head);
    if (head) d->head = head;
    int32_t *tail = vn_realloc(d->tail, (size_t)more, sizeof *tail);
    if (tail) d->tail = tail;
    int32_t *next = vn_realloc(d->next, (size_t)d->leaves + (size_t)more, sizeof *next);
    if (next) d->next = next;
    if (!head || !tail || !next) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", d->n);
    memset(next + d->leaves + d->capacity, 0xff, (size_t)(more - d->capacity) * sizeof *next);
    d->capacity = more;
    return VN_OK;
}

vn_status_t vn_draft_node(vn_draft_t *d, int32_t *id, vn_error_t *err) {
    if (d->nodes == d->capacity) VN_TRY(grow(d, err));
    d->head[d->nodes] = d->tail[d->nodes] = -1;
    *id = d->leaves + d->nodes++;
    return VN_OK;
}

void vn_draft_attach(vn_draft_t *d, int32_t id, int32_t child) {
    const int32_t k = id - d->leaves;
    d->next[child] = -1;
    if (d->head[k] < 0) d->head[k] = child;
    else d->next[d->tail[k]] = child;
    d->tail[k] = child;
}

void vn_draft_splice(vn_draft_t *d, int32_t id, int32_t from) {
    const int32_t k = id - d->leaves, f = from - d->leaves;
    if (d->head[f] < 0) return;
    if (d->head[k] < 0) d->head[k] = d->head[f];
    else d->next[d->tail[k]] = d->head[f];
    d->tail[k] = d->tail[f];
    d->head[f] = d->tail[f] = -1;
}

vn_status_t vn_draft_mark_rounded(vn_draft_t *d, int32_t leaf, vn_error_t *err) {
    if (!d->rounded && !(d->rounded = vn_alloc((size_t)d->leaves, 1)))
        return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", d->n);
    d->rounded[leaf] = 1;
    return VN_OK;
}

/* ---- canonical order ---- */

/* Work of vn_draft_finish, by id of the draft. */
typedef struct order {
    const vn_draft_t *d;
    int32_t *key;   /* smallest leaf below; the initial value counts as -1 */
    int32_t *stack; /* ids; a negative entry ~id: its children are done */
    int32_t *list;  /* children of one node, sorted */
    int32_t *made;  /* id in the new tree */
} order_t;

static int32_t leaf_key(const vn_draft_t *d, int32_t leaf) { return leaf == d->n ? -1 : leaf; }

/* Nodes with a single child stand for it. */
static int32_t through(const vn_draft_t *d, int32_t id) {
    while (id >= d->leaves && d->head[id - d->leaves] >= 0 && d->head[id - d->leaves] == d->tail[id - d->leaves])
        id = d->head[id - d->leaves];
    return id;
}

/* Keys bottom up; *count: leaves met, which shows a leaf that is missing or met twice. */
static void keys(order_t *o, int32_t root, int64_t *count) {
    const vn_draft_t *d = o->d;
    int64_t depth = 0;
    o->stack[depth++] = root;
    while (depth > 0) {
        const int32_t at = o->stack[depth - 1];
        if (at < 0) {
            const int32_t id = ~at;
            int32_t least = INT32_MAX;
            for (int32_t c = d->head[id - d->leaves]; c >= 0; c = d->next[c]) {
                const int32_t k = o->key[through(d, c)];
                if (k < least) least = k;
            }
            o->key[id] = least;
            --depth;
        } else if (at < d->leaves) {
            o->key[at] = leaf_key(d, at);
            ++*count;
            --depth;
        } else {
            o->stack[depth - 1] = ~at;
            for (int32_t c = d->head[at - d->leaves]; c >= 0; c = d->next[c]) o->stack[depth++] = through(d, c);
        }
    }
}

typedef struct keyed {
    int32_t key, id;
} keyed_t;
static int by_key(const void *a, const void *b) {
    const int32_t x = ((const keyed_t *)a)->key, y = ((const keyed_t *)b)->key;
    return (x > y) - (x < y);
}

/* Children of a draft node in planar order. */
static int32_t sorted_children(const order_t *o, int32_t id, bool keep_pairs, keyed_t *out) {
    const vn_draft_t *d = o->d;
    int32_t n = 0;
    bool leaves = true, ascending = true;
    for (int32_t c = d->head[id - d->leaves]; c >= 0; c = d->next[c]) {
        const int32_t t = through(d, c);
        leaves &= t < d->leaves;
        out[n] = (keyed_t){o->key[t], t};
        if (n) ascending &= out[n - 1].key < out[n].key;
        ++n;
    }
    if (ascending || (keep_pairs && n == 2 && leaves)) return n;
    if (n == 2) {
        const keyed_t swap = out[0];
        out[0] = out[1];
        out[1] = swap;
    } else {
        qsort(out, (size_t)n, sizeof *out, by_key);
    }
    return n;
}

/* Post-order over the sorted children: numbers the nodes and writes the arrays. */
static void write_nodes(order_t *o, int32_t root, bool keep_pairs, keyed_t *scratch, vn_tree_t *t) {
    const vn_draft_t *d = o->d;
    int64_t depth = 0;
    int32_t at_child = 0;
    if (root < d->leaves) return;
    o->stack[depth++] = root;
    while (depth > 0) {
        const int32_t at = o->stack[depth - 1];
        if (at >= 0) {
            o->stack[depth - 1] = ~at;
            const int32_t n = sorted_children(o, at, keep_pairs, scratch);
            for (int32_t c = n - 1; c >= 0; --c)
                if (scratch[c].id >= d->leaves) o->stack[depth++] = scratch[c].id;
            continue;
        }
        const int32_t id = ~at, n = sorted_children(o, id, keep_pairs, scratch);
        --depth;
        t->first[t->nodes] = at_child;
        for (int32_t c = 0; c < n; ++c) t->child[at_child++] = scratch[c].id < d->leaves ? scratch[c].id : o->made[scratch[c].id];
        o->made[id] = d->leaves + t->nodes++;
    }
    t->first[t->nodes] = at_child;
}

static vn_status_t finish(vn_draft_t *d, int32_t root, bool keep_pairs, vn_tree_t *t, vn_error_t *err) {
    const size_t ids = (size_t)d->leaves + (size_t)d->nodes;
    order_t o = {.d = d};
    keyed_t *scratch = vn_alloc(ids + 1, sizeof *scratch);
    int64_t count = 0;
    vn_status_t st = VN_OK;
    o.key = vn_alloc(ids, sizeof *o.key);
    o.stack = vn_alloc(2 * ids + 1, sizeof *o.stack);
    o.made = vn_alloc(ids, sizeof *o.made);
    t->first = vn_alloc((size_t)d->nodes + 1, sizeof *t->first);
    t->child = vn_alloc(ids + 1, sizeof *t->child);
    if (!scratch || !o.key || !o.stack || !o.made || !t->first || !t->child) {
        st = vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", d->n);
    } else {
        root = through(d, root);
        keys(&o, root, &count);
        if (count != d->leaves) st = vn_fail(err, VN_ERR_INTERNAL, "a tree of %d leaves holds %lld", d->leaves, (long long)count);
        else write_nodes(&o, root, keep_pairs, scratch, t);
    }
    vn_free(scratch);
    vn_free(o.key);
    vn_free(o.stack);
    vn_free(o.made);
    return st;
}

vn_status_t vn_draft_finish(vn_draft_t *d, int32_t root, bool keep_pairs, vn_tree_t **out, vn_error_t *err) {
    vn_tree_t *t = vn_alloc(1, sizeof *t);
    vn_status_t st = t ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree");
    *out = NULL;
    if (t) {
        t->n = d->n;
        t->initial = d->initial;
        st = finish(d, root, keep_pairs, t, err);
        for (int32_t leaf = 0; d->rounded && leaf < d->leaves && !t->rounded; ++leaf) {
            if (!d->rounded[leaf]) continue;
            t->rounded = d->rounded; /* at least one mark: the array moves over */
            d->rounded = NULL;
            break;
        }
    }
    vn_draft_clear(d);
    if (st == VN_OK) *out = t;
    else vn_tree_free(t);
    return st;
}
