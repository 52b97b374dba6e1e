/* tree.c -- rounding trees: brackets, canonical form, leaf counts under common ancestors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/draft.h"

void vn_tree_free(vn_tree_t *t) {
    if (!t) return;
    vn_free(t->first);
    vn_free(t->child);
    vn_free(t->rounded);
    vn_free(t);
}

/* Draft with the same nodes; ids stay. */
static vn_status_t draft_of(const vn_tree_t *t, vn_draft_t *d, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    VN_TRY(vn_draft_begin(d, t->n, t->initial, t->nodes + 1, err));
    for (int32_t k = 0; k < t->nodes; ++k) {
        int32_t id;
        VN_TRY(vn_draft_node(d, &id, err));
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) vn_draft_attach(d, id, t->child[c]);
    }
    for (int32_t leaf = 0; t->rounded && leaf < leaves; ++leaf)
        if (t->rounded[leaf]) VN_TRY(vn_draft_mark_rounded(d, leaf, err));
    return VN_OK;
}

static int32_t root_of(const vn_tree_t *t) { return t->nodes ? vn_tree_leaves(t) + t->nodes - 1 : 0; }

vn_status_t vn_tree_copy(const vn_tree_t *t, vn_tree_t **out, vn_error_t *err) {
    vn_draft_t d;
    *out = NULL;
    const vn_status_t st = draft_of(t, &d, err);
    if (st != VN_OK) {
        vn_draft_clear(&d);
        return st;
    }
    return vn_draft_finish(&d, root_of(t), true, out, err);
}

vn_status_t vn_tree_canonical(vn_tree_t *t, vn_error_t *err) {
    vn_tree_t *sorted;
    VN_TRY(vn_tree_copy(t, &sorted, err));
    const vn_tree_t old = *t;
    *t = *sorted;
    *sorted = old;
    vn_tree_free(sorted);
    return VN_OK;
}

bool vn_tree_equal(const vn_tree_t *a, const vn_tree_t *b) {
    vn_tree_t *x = NULL, *y = NULL;
    bool equal = a->n == b->n && a->initial == b->initial && a->nodes == b->nodes;
    if (equal) equal = vn_tree_copy(a, &x, NULL) == VN_OK && vn_tree_copy(b, &y, NULL) == VN_OK && x->nodes == y->nodes;
    if (equal) {
        const int32_t children = x->nodes ? x->first[x->nodes] : 0;
        equal = memcmp(x->first, y->first, ((size_t)x->nodes + 1) * sizeof *x->first) == 0 &&
                memcmp(x->child, y->child, (size_t)children * sizeof *x->child) == 0 && !x->rounded == !y->rounded &&
                (!x->rounded || memcmp(x->rounded, y->rounded, (size_t)vn_tree_leaves(x)) == 0);
    }
    vn_tree_free(x);
    vn_tree_free(y);
    return equal;
}

vn_status_t vn_tree_sizes(const vn_tree_t *t, int32_t **sizes, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *s = vn_alloc((size_t)leaves + (size_t)t->nodes, sizeof *s);
    if (!(*sizes = s)) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    for (int32_t leaf = 0; leaf < leaves; ++leaf) s[leaf] = 1;
    for (int32_t k = 0; k < t->nodes; ++k)
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) s[leaves + k] += s[t->child[c]];
    return VN_OK;
}

int32_t vn_tree_widest(const vn_tree_t *t) {
    int32_t widest = 0;
    for (int32_t k = 0; k < t->nodes; ++k)
        if (t->first[k + 1] - t->first[k] > widest) widest = t->first[k + 1] - t->first[k];
    return widest;
}

int32_t vn_tree_height(const vn_tree_t *t) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *h = vn_alloc((size_t)t->nodes + 1, sizeof *h), height = 0;
    if (!h) return -1;
    for (int32_t k = 0; k < t->nodes; ++k) {
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) {
            const int32_t below = t->child[c] < leaves ? 0 : h[t->child[c] - leaves];
            if (below + 1 > h[k]) h[k] = below + 1;
        }
        height = h[k];
    }
    vn_free(h);
    return height;
}

/* ---- brackets ---- */

typedef struct cursor {
    const char *text;
    size_t at;
} cursor_t;

static vn_status_t syntax(const cursor_t *c, const char *expected, vn_error_t *err) {
    return vn_fail(err, VN_ERR_PARSE, "tree, offset %zu: expected %s", c->at, expected);
}

/* A leaf: number, c, with P before it where its product is rounded. *leaf -1: the initial value. */
static vn_status_t read_leaf(cursor_t *c, int32_t *leaf, bool *rounded, vn_error_t *err) {
    *rounded = c->text[c->at] == 'P';
    c->at += *rounded;
    if (c->text[c->at] == 'c') {
        *leaf = -1;
        c->at++;
        return VN_OK;
    }
    int64_t value = 0;
    const size_t begin = c->at;
    while (c->text[c->at] >= '0' && c->text[c->at] <= '9' && value < VN_TREE_MAX_LEAVES) value = value * 10 + (c->text[c->at++] - '0');
    if (c->at == begin) return syntax(c, "a leaf or an opening bracket", err);
    if (value >= VN_TREE_MAX_LEAVES)
        return vn_fail(err, VN_ERR_RANGE, "tree, offset %zu: leaves go up to %d", begin, VN_TREE_MAX_LEAVES - 1);
    *leaf = (int32_t)value;
    return VN_OK;
}

/* First reading: how many leaves there are, so that the draft can be set up. */
static vn_status_t count_leaves(const char *text, int32_t *n, bool *initial, vn_error_t *err) {
    cursor_t c = {.text = text};
    int64_t leaves = 0;
    *initial = false;
    while (text[c.at]) {
        if (strchr("(),", text[c.at])) {
            c.at++;
            continue;
        }
        int32_t leaf;
        bool rounded;
        VN_TRY(read_leaf(&c, &leaf, &rounded, err));
        if (leaf < 0 && *initial) return syntax(&c, "c once", err);
        if (leaf < 0) *initial = true;
        else if (++leaves > VN_TREE_MAX_LEAVES) return vn_fail(err, VN_ERR_RANGE, "tree: more than %d leaves", VN_TREE_MAX_LEAVES);
    }
    *n = (int32_t)leaves;
    return leaves ? VN_OK : syntax(&c, "a leaf", err);
}

static vn_status_t read_brackets(vn_draft_t *d, cursor_t *c, int32_t *stack, uint8_t *seen, int32_t *root, vn_error_t *err) {
    int32_t depth = 0;
    *root = -1;
    for (;;) {
        int32_t id;
        if (c->text[c->at] == '(') {
            c->at++;
            VN_TRY(vn_draft_node(d, &id, err));
            stack[depth++] = id;
            continue;
        }
        bool rounded;
        const size_t begin = c->at;
        VN_TRY(read_leaf(c, &id, &rounded, err));
        if (id < 0) id = d->n;
        if (id >= d->leaves || seen[id]) {
            c->at = begin;
            return syntax(c, id >= d->leaves ? "leaves numbered without gaps" : "each leaf once", err);
        }
        seen[id] = 1;
        if (rounded) VN_TRY(vn_draft_mark_rounded(d, id, err));
        for (;;) { /* a subtree is complete: attach it, and close what closes after it */
            if (depth == 0) {
                *root = id;
                return c->text[c->at] ? syntax(c, "the end", err) : VN_OK;
            }
            vn_draft_attach(d, stack[depth - 1], id);
            if (c->text[c->at] == ',') {
                c->at++;
                break;
            }
            if (c->text[c->at] != ')') return syntax(c, "a comma or a closing bracket", err);
            c->at++;
            id = stack[--depth];
            if (d->head[id - d->leaves] == d->tail[id - d->leaves]) return syntax(c, "two children or more before it", err);
        }
    }
}

vn_status_t vn_tree_from_brackets(const char *text, vn_tree_t **out, vn_error_t *err) {
    int32_t n, root, *stack = NULL;
    uint8_t *seen = NULL;
    bool initial;
    vn_draft_t d;
    cursor_t c = {.text = text};
    *out = NULL;
    VN_TRY(count_leaves(text, &n, &initial, err));
    const size_t length = strlen(text);
    VN_TRY(vn_draft_begin(&d, n, initial, n, err));
    stack = vn_alloc(length + 1, sizeof *stack); /* an open bracket is a character */
    seen = vn_alloc((size_t)d.leaves, 1);
    vn_status_t st = stack && seen ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    if (st == VN_OK) st = read_brackets(&d, &c, stack, seen, &root, err);
    for (int32_t leaf = 0; st == VN_OK && leaf < d.leaves; ++leaf)
        if (!seen[leaf]) st = vn_fail(err, VN_ERR_PARSE, "tree: leaf %d is missing", leaf);
    vn_free(stack);
    vn_free(seen);
    if (st != VN_OK) {
        vn_draft_clear(&d);
        return st;
    }
    return vn_draft_finish(&d, root, true, out, err);
}

static void write_leaf(vn_text_t *out, const vn_tree_t *t, int32_t leaf) {
    if (t->rounded && t->rounded[leaf]) vn_text_add(out, "P");
    if (leaf == t->n) vn_text_add(out, "c");
    else vn_text_printf(out, "%d", leaf);
}

vn_status_t vn_tree_to_brackets(const vn_tree_t *tree, char **out, vn_error_t *err) {
    vn_tree_t *t;
    vn_text_t text = {0};
    *out = NULL;
    VN_TRY(vn_tree_copy(tree, &t, err));
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *stack = vn_alloc((size_t)t->nodes + 1, sizeof *stack), *at = vn_alloc((size_t)t->nodes + 1, sizeof *at), depth = 0;
    vn_status_t st = stack && at ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    if (st == VN_OK && t->nodes == 0) write_leaf(&text, t, 0);
    if (st == VN_OK && t->nodes) {
        stack[depth++] = t->nodes - 1;
        at[t->nodes - 1] = t->first[t->nodes - 1];
        vn_text_add(&text, "(");
    }
    while (st == VN_OK && depth > 0) {
        const int32_t k = stack[depth - 1];
        if (at[k] == t->first[k + 1]) {
            vn_text_add(&text, ")");
            --depth;
            continue;
        }
        const int32_t child = t->child[at[k]];
        if (at[k]++ > t->first[k]) vn_text_add(&text, ",");
        if (child < leaves) {
            write_leaf(&text, t, child);
        } else {
            stack[depth++] = child - leaves;
            at[child - leaves] = t->first[child - leaves];
            vn_text_add(&text, "(");
        }
    }
    vn_free(stack);
    vn_free(at);
    vn_tree_free(t);
    if (st == VN_OK && (text.failed || !(*out = vn_strdup(text.data)))) st = vn_fail(err, VN_ERR_NOMEM, "no memory for the text of a tree");
    vn_text_free(&text);
    return st;
}

/* ---- leaf counts under lowest common ancestors ----
 *
 * Put the leaves in depth-first order. Between two neighbours stands the size of their ancestor; the ancestor of any two leaves is the largest
 * of those between them, because ancestors of a leaf are nested. */

void vn_tour_clear(vn_tour_t *r) {
    vn_free(r->position);
    vn_free(r->leaf);
    vn_free(r->between);
}

vn_status_t vn_tour_of(const vn_tree_t *t, vn_tour_t *r, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *size = NULL, *begin = vn_alloc((size_t)leaves + (size_t)t->nodes, sizeof *begin);
    *r = (vn_tour_t){.position = vn_alloc((size_t)leaves, sizeof *r->position),
                     .leaf = vn_alloc((size_t)leaves, sizeof *r->leaf),
                     .between = vn_alloc((size_t)leaves, sizeof *r->between)};
    vn_status_t st = begin && r->position && r->leaf && r->between ? vn_tree_sizes(t, &size, err)
                                                                   : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    for (int32_t k = t->nodes - 1; st == VN_OK && k >= 0; --k) { /* parents first: begin[] of the root is 0 */
        int32_t at = begin[leaves + k];
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c) {
            begin[t->child[c]] = at;
            at += size[t->child[c]];
            if (c + 1 < t->first[k + 1]) r->between[at - 1] = (uint32_t)size[leaves + k];
        }
    }
    for (int32_t leaf = 0; st == VN_OK && leaf < leaves; ++leaf) {
        r->position[leaf] = begin[leaf];
        r->leaf[begin[leaf]] = leaf;
    }
    vn_free(begin);
    vn_free(size);
    if (st != VN_OK) vn_tour_clear(r);
    return st;
}

vn_status_t vn_tree_matrix(const vn_tree_t *t, uint32_t *l, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    vn_tour_t r;
    if (leaves > 32768) return vn_fail(err, VN_ERR_RANGE, "the matrix of a tree of %d leaves; up to 32768", leaves);
    VN_TRY(vn_tour_of(t, &r, err));
    for (int32_t p = 0; p < leaves; ++p) {
        const size_t i = (size_t)r.leaf[p];
        uint32_t most = 1;
        l[i * (size_t)leaves + i] = 1;
        for (int32_t q = p + 1; q < leaves; ++q) {
            const size_t j = (size_t)r.leaf[q];
            if (r.between[q - 1] > most) most = r.between[q - 1];
            l[i * (size_t)leaves + j] = l[j * (size_t)leaves + i] = most;
        }
    }
    vn_tour_clear(&r);
    return VN_OK;
}

enum { STEP = 64 };

/* Largest of between[], by blocks of STEP: most[e * blocks + b] over the blocks b .. b + 2^e - 1. */
typedef struct maxima {
    const uint32_t *between;
    uint32_t *most;
    int32_t blocks;
} maxima_t;

static bool maxima_of(const uint32_t *between, int32_t n, maxima_t *m) {
    int levels = 1;
    *m = (maxima_t){.between = between, .blocks = n / STEP + 1};
    while (1 << levels <= m->blocks) ++levels;
    m->most = vn_alloc((size_t)levels * (size_t)m->blocks, sizeof *m->most);
    if (!m->most) return false;
    for (int32_t p = 0; p < n; ++p)
        if (between[p] > m->most[p / STEP]) m->most[p / STEP] = between[p];
    for (int e = 1; e < levels; ++e) {
        const uint32_t *below = m->most + (size_t)(e - 1) * (size_t)m->blocks;
        for (int32_t p = 0; p + (1 << e) <= m->blocks; ++p) {
            const uint32_t left = below[p], right = below[p + (1 << (e - 1))];
            m->most[(size_t)e * (size_t)m->blocks + (size_t)p] = left > right ? left : right;
        }
    }
    return true;
}

/* Over the positions [from, end), not empty. */
static uint32_t largest(const maxima_t *m, int32_t from, int32_t end) {
    uint32_t best = 0;
    const int32_t first = (from + STEP - 1) / STEP, last = end / STEP;
    if (first >= last) {
        for (int32_t p = from; p < end; ++p)
            if (m->between[p] > best) best = m->between[p];
        return best;
    }
    for (int32_t p = from; p < first * STEP; ++p)
        if (m->between[p] > best) best = m->between[p];
    for (int32_t p = last * STEP; p < end; ++p)
        if (m->between[p] > best) best = m->between[p];
    int e = 0;
    while (2 << e <= last - first) ++e;
    const uint32_t *row = m->most + (size_t)e * (size_t)m->blocks, left = row[first], right = row[last - (1 << e)];
    const uint32_t inner = left > right ? left : right;
    return inner > best ? inner : best;
}

vn_status_t vn_tree_pairs(const vn_tree_t *t, int64_t pairs, const int32_t *i, const int32_t *j, uint32_t *out, vn_error_t *err) {
    vn_tour_t r;
    maxima_t m;
    VN_TRY(vn_tour_of(t, &r, err));
    if (!maxima_of(r.between, vn_tree_leaves(t), &m)) {
        vn_tour_clear(&r);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    }
    for (int64_t p = 0; p < pairs; ++p) {
        const int32_t a = r.position[i[p]], b = r.position[j[p]];
        out[p] = a == b ? 1 : a < b ? largest(&m, a, b) : largest(&m, b, a);
    }
    vn_free(m.most);
    vn_tour_clear(&r);
    return VN_OK;
}

vn_status_t vn_tree_restrict(const vn_tree_t *t, const uint8_t *keep, vn_tree_t **out, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t n = 0;
    vn_draft_t d;
    *out = NULL;
    for (int32_t leaf = 0; leaf < t->n; ++leaf) n += keep[leaf] != 0;
    const bool initial = t->initial && keep[t->n];
    VN_TRY(vn_draft_begin(&d, n, initial, t->nodes + 1, err));
    int32_t *to = vn_alloc((size_t)leaves + (size_t)t->nodes, sizeof *to), at = 0; /* id in the draft; -1: nothing is left of it */
    vn_status_t st = to ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    for (int32_t leaf = 0; st == VN_OK && leaf < leaves; ++leaf) {
        to[leaf] = !keep[leaf] ? -1 : leaf == t->n ? d.n : at++;
        if (keep[leaf] && t->rounded && t->rounded[leaf]) st = vn_draft_mark_rounded(&d, to[leaf], err);
    }
    int32_t root = to ? to[0] : -1;
    for (int32_t k = 0; st == VN_OK && k < t->nodes; ++k) {
        int32_t left = 0, id;
        int32_t part[2] = {-1, -1}; /* the first two that are left */
        for (int32_t c = t->first[k]; c < t->first[k + 1]; ++c)
            if (to[t->child[c]] >= 0 && left++ < 2) part[left - 1] = to[t->child[c]];
        root = to[leaves + k] = part[0];
        if (left < 2) continue;
        /* leaves that become a pair only now have no order of their own: the smaller one, or the initial value, goes first */
        const bool was_pair = t->first[k + 1] - t->first[k] == 2 && t->child[t->first[k]] < leaves && t->child[t->first[k] + 1] < leaves;
        const bool fresh_pair = left == 2 && !was_pair && part[0] < d.leaves && part[1] < d.leaves;
        const bool turn = fresh_pair && part[0] != d.n && (part[1] == d.n || part[1] < part[0]);
        st = vn_draft_node(&d, &id, err);
        if (turn) {
            vn_draft_attach(&d, id, part[1]);
            vn_draft_attach(&d, id, part[0]);
        }
        for (int32_t c = t->first[k]; st == VN_OK && !turn && c < t->first[k + 1]; ++c)
            if (to[t->child[c]] >= 0) vn_draft_attach(&d, id, to[t->child[c]]);
        root = to[leaves + k] = id;
    }
    vn_free(to);
    if (st != VN_OK) {
        vn_draft_clear(&d);
        return st;
    }
    return vn_draft_finish(&d, root, true, out, err);
}
