/* text.c -- schedules as text: compress, expand, words. Claim SCHED-1: the text is a function of the canonical tree, and gives it back.
 *
 * Compressing names a shape: a base letter if one fits; else the shortest of blocks J<b{E}>, lists along the left or right spine, and a list of the
 * root's children, where length counts 6 for each level of brackets and the first wins. Names are kept by shape, so equal parts are named once.
 * What nests deeper than the grammar allows is written out in brackets after '='.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/shapes.h"

enum { DEEPEST = 24, SPINE_CUTS = 12, BLOCK_TRIES = 64, LONGEST = 4000 };

typedef struct namer {
    vn_shapes_t s;
    char **name; /* by shape; NULL: not named yet */
    int32_t names;
    int depth;
    bool too_deep, failed;
    const vn_runs_t *runs; /* of the whole tree, while its root is named */
    int32_t whole;
    int32_t *leaf; /* [n] raw leaves */
} namer_t;

static const char *name_of(namer_t *w, int32_t id);

/* ---- candidates ---- */

typedef struct best {
    char *text;
    int64_t cost;
} best_t;

static void offer(best_t *b, vn_text_t *t) {
    int depth = 0, deepest = 0;
    for (size_t k = 0; k < t->length; ++k) {
        depth += (t->data[k] == '{' || t->data[k] == '[') - (t->data[k] == '}' || t->data[k] == ']');
        if (depth > deepest) deepest = depth;
    }
    const int64_t cost = (int64_t)t->length + 6 * deepest;
    if (!t->failed && t->data && t->length < LONGEST && (!b->text || cost < b->cost)) {
        vn_free(b->text);
        b->text = t->data;
        b->cost = cost;
        *t = (vn_text_t){0};
    }
    vn_text_free(t);
}

/* Shape of the subtree on positions [begin, begin + size) of `id`; NONE if no node has just these. */
static int32_t part_of(const vn_shapes_t *s, int32_t id, int32_t begin, int32_t size) {
    while (id >= 0) {
        if (begin == 0 && s->size[id] == size) return id;
        const int32_t *child = vn_shapes_children(s, id), n = vn_shapes_arity(s, id);
        int32_t k = 0;
        for (; k < n && begin >= s->size[child[k]]; ++k) begin -= s->size[child[k]];
        if (k == n || begin + size > s->size[child[k]]) return VN_SHAPE_NONE;
        id = child[k];
    }
    return VN_SHAPE_NONE;
}

/* A walk over the shape's own tree: which child comes next. */
typedef struct visit {
    int32_t id, child, node; /* node: of the draft that is built, where one is */
} visit_t;

/* Replaces the blocks between `bounds` by leaves. blocks[t]: their shapes. NONE if a node cuts across a border. */
static int32_t quotient(namer_t *w, int32_t id, const int32_t *bounds, int32_t count, int32_t *blocks) {
    vn_shapes_t *s = &w->s;
    const int32_t m = s->size[id];
    visit_t *stack = vn_alloc((size_t)m + 1, sizeof *stack);
    int32_t *value = vn_alloc((size_t)m + 1, sizeof *value), depth = 0, values = 0, block = 0, result = VN_SHAPE_NONE;
    if (!stack || !value) w->failed = true;
    else stack[depth++] = (visit_t){.id = id};
    while (depth > 0) {
        visit_t *v = &stack[depth - 1];
        if (v->child == 0) { /* a node begins where the last block ended */
            const int32_t room = block < count ? bounds[block + 1] - bounds[block] : 0;
            if (s->size[v->id] < room || room == 0) break;
            if (s->size[v->id] == room) {
                blocks[block++] = v->id;
                value[values++] = VN_SHAPE_LEAF;
                --depth;
                continue;
            }
        }
        const int32_t n = vn_shapes_arity(s, v->id);
        if (v->child < n) {
            const int32_t next = vn_shapes_children(s, v->id)[v->child++];
            stack[depth++] = (visit_t){.id = next};
            continue;
        }
        const int32_t joined = vn_shapes_of(s, value + values - n, n);
        values -= n;
        value[values++] = joined;
        --depth;
    }
    if (stack && value && depth == 0 && values == 1 && block == count) result = value[0];
    vn_free(stack);
    vn_free(value);
    return result;
}

/* The shape that `text` gives a block of m raw leaves; NONE if it gives none. */
static int32_t as_block(namer_t *w, const char *text, int32_t m) {
    int32_t id;
    if (m == 1) return strcmp(text, ".") == 0 ? VN_SHAPE_LEAF : VN_SHAPE_ROUNDED;
    return vn_shape_build(&w->s, text, 0, strlen(text), w->leaf, m, NULL, &id, NULL) == VN_OK ? id : VN_SHAPE_NONE;
}

static void try_blocks(namer_t *w, int32_t id, best_t *b) {
    vn_shapes_t *s = &w->s;
    const int32_t m = s->size[id];
    int32_t *bounds = vn_alloc((size_t)m + 2, sizeof *bounds), *blocks = vn_alloc((size_t)m + 2, sizeof *blocks), tries = 0;
    if (!bounds || !blocks) w->failed = true;
    for (int32_t left = id; !w->failed && left >= 2 && tries < BLOCK_TRIES;) {
        left = vn_shapes_children(s, left)[0];
        const int32_t size = s->size[left];
        if (size < 2) break;
        const int32_t next = m - size < size ? m - size : size;
        const int32_t second = part_of(s, id, size, next);
        if (second < 0 || (next == size && m >= 2 * size && second != left)) continue;
        const int32_t count = (m + size - 1) / size;
        for (int32_t k = 0; k <= count; ++k) bounds[k] = k * size < m ? k * size : m;
        ++tries;
        const int32_t q = quotient(w, id, bounds, count, blocks);
        bool alike = q >= 0;
        for (int32_t k = 1; k < count - 1 && alike; ++k) alike = blocks[k] == left;
        if (alike && m % size == 0) alike = blocks[count - 1] == left;
        if (!alike) continue;
        const char *join = name_of(w, q), *each = join ? name_of(w, left) : NULL;
        if (!each) continue;
        vn_text_t t = {0};
        vn_text_printf(&t, "%s<%d{%s", join, size, each);
        if (m % size && as_block(w, each, m % size) != blocks[count - 1]) {
            const char *last = name_of(w, blocks[count - 1]);
            if (!last) {
                vn_text_free(&t);
                continue;
            }
            vn_text_printf(&t, ";%s", last);
        }
        vn_text_add(&t, "}");
        offer(b, &t);
    }
    vn_free(bounds);
    vn_free(blocks);
}

/* Blocks that are the runs of a loop level of the order. */
static void try_levels(namer_t *w, int32_t id, best_t *b) {
    if (!w->runs || id != w->whole) return;
    const int32_t m = w->s.size[id];
    int32_t *blocks = vn_alloc((size_t)m + 2, sizeof *blocks);
    if (!blocks) w->failed = true;
    for (int level = 0; level < w->runs->levels && !w->failed; ++level) {
        const int32_t count = w->runs->count[level], *at = w->runs->at[level];
        if (count < 2 || at[count] != m) continue;
        bool equal = true; /* runs of one length are blocks already */
        for (int32_t k = 1; k < count; ++k) equal &= at[k + 1] - at[k] == at[1] || k == count - 1;
        if (equal) continue;
        const int32_t q = quotient(w, id, at, count, blocks);
        const char *join = q >= 0 ? name_of(w, q) : NULL, *each = join ? name_of(w, blocks[0]) : NULL;
        bool alike = each != NULL;
        for (int32_t k = 0; k < count && alike; ++k) alike = as_block(w, each, at[k + 1] - at[k]) == blocks[k];
        if (!alike) continue;
        vn_text_t t = {0};
        vn_text_printf(&t, "%s<@%d{%s}", join, level + 1, each);
        offer(b, &t);
    }
    vn_free(blocks);
}

/* S[...], R[...], N[...]: equal neighbours are counted. */
static void offer_list(namer_t *w, char letter, const int32_t *item, int32_t n, best_t *b) {
    vn_text_t t = {0};
    vn_text_printf(&t, "%c[", letter);
    for (int32_t k = 0; k < n && t.length < LONGEST;) {
        int32_t run = 1;
        while (k + run < n && item[k + run] == item[k]) ++run;
        if (k) vn_text_add(&t, ",");
        if (run > 1) vn_text_printf(&t, "%d*", run);
        vn_text_printf(&t, "%d", w->s.size[item[k]]);
        if (item[k] != VN_SHAPE_LEAF) {
            const char *name = name_of(w, item[k]);
            if (!name) {
                vn_text_free(&t);
                return;
            }
            vn_text_printf(&t, ":%s", name);
        }
        k += run;
    }
    vn_text_add(&t, "]");
    offer(b, &t);
}

/* Items along a spine: what is joined step by step, and what is left at the end. Cut where the items change. */
static void try_spine(namer_t *w, int32_t id, bool left, best_t *b) {
    vn_shapes_t *s = &w->s;
    const int32_t m = s->size[id];
    int32_t *item = vn_alloc((size_t)m + 1, sizeof *item), n = 0, cuts = 0;
    if (!item) {
        w->failed = true;
        return;
    }
    /* item[m - 1 - k] (left) or item[k] (right) is the k-th one from the root */
    int32_t at = id, previous = VN_SHAPE_NONE;
    while (vn_shapes_arity(s, at) == 2) {
        const int32_t *child = vn_shapes_children(s, at), side = child[left], rest = child[!left];
        if (n > 0 && side != previous && cuts < SPINE_CUTS) { /* the border of a run: `at` as one item */
            ++cuts;
            if (left) {
                item[m - 1 - n] = at;
                offer_list(w, 'S', item + (m - 1 - n), n + 1, b);
            } else {
                item[n] = at;
                offer_list(w, 'R', item, n + 1, b);
            }
        }
        item[left ? m - 1 - n : n] = side;
        ++n;
        previous = side;
        at = rest;
    }
    if (n > 1 || (n == 1 && left)) {
        item[left ? m - 1 - n : n] = at;
        offer_list(w, left ? 'S' : 'R', left ? item + (m - 1 - n) : item, n + 1, b);
    }
    vn_free(item);
}

static void try_children(namer_t *w, int32_t id, best_t *b) {
    const int32_t n = vn_shapes_arity(&w->s, id);
    int32_t *item = vn_alloc((size_t)n + 1, sizeof *item);
    if (!item) {
        w->failed = true;
        return;
    }
    memcpy(item, vn_shapes_children(&w->s, id), (size_t)n * sizeof *item); /* naming may move the table */
    offer_list(w, 'N', item, n, b);
    vn_free(item);
}

static bool try_base(namer_t *w, int32_t id, best_t *b) {
    static const char letters[] = "SAHURFG";
    const int32_t m = w->s.size[id], arity = vn_shapes_arity(&w->s, id);
    int32_t group = arity - 1;
    if (arity > 2) { /* the first fused node tells the group */
        int32_t inner = id;
        while (vn_shapes_arity(&w->s, inner) > 0 && vn_shapes_children(&w->s, inner)[0] >= 2) inner = vn_shapes_children(&w->s, inner)[0];
        group = vn_shapes_arity(&w->s, inner);
    }
    for (const char *l = letters; *l && !b->text; ++l) {
        if ((*l == 'F' || *l == 'G') != (arity > 2)) continue;
        if (vn_shape_base(&w->s, *l, group, w->leaf, m) != id) continue;
        vn_text_t t = {0};
        if (*l == 'G') vn_text_printf(&t, "G%d", group);
        else vn_text_addn(&t, l, 1);
        offer(b, &t);
    }
    return b->text != NULL;
}

static const char *name_of(namer_t *w, int32_t id) {
    best_t b = {0};
    if (id == VN_SHAPE_LEAF) return ".";
    if (id == VN_SHAPE_ROUNDED) return "P";
    if (id < 0 || w->failed || w->s.failed) return NULL;
    if (id < w->names && w->name[id]) return w->name[id];
    if (w->depth >= DEEPEST) {
        w->too_deep = true;
        return NULL;
    }
    w->depth++;
    if (!try_base(w, id, &b)) {
        try_blocks(w, id, &b);
        try_levels(w, id, &b);
        if (vn_shapes_arity(&w->s, id) == 2) {
            try_spine(w, id, true, &b);
            try_spine(w, id, false, &b);
        }
        try_children(w, id, &b);
    }
    w->depth--;
    if (!b.text || w->failed) {
        vn_free(b.text);
        return NULL;
    }
    if (id >= w->names) {
        const int32_t more = w->s.count + 64;
        char **name = vn_realloc(w->name, (size_t)more, sizeof *name);
        if (!name) {
            vn_free(b.text);
            w->failed = true;
            return NULL;
        }
        memset(name + w->names, 0, (size_t)(more - w->names) * sizeof *name);
        w->name = name;
        w->names = more;
    }
    return w->name[id] = b.text;
}

/* ---- the whole text ---- */

/* Shapes bottom-up, and the leaves in depth-first order. */
static vn_status_t shape_of(namer_t *w, const vn_tree_t *t, int32_t *sequence, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *id = vn_alloc((size_t)leaves + (size_t)t->nodes, sizeof *id), *tuple = vn_alloc((size_t)leaves + 1, sizeof *tuple);
    int32_t *stack = vn_alloc((size_t)leaves + (size_t)t->nodes + 1, sizeof *stack), depth = 0, at = 0;
    vn_status_t st = id && tuple && stack ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    for (int32_t k = 0; st == VN_OK && k < leaves; ++k) id[k] = t->rounded && t->rounded[k] ? VN_SHAPE_ROUNDED : VN_SHAPE_LEAF;
    for (int32_t k = 0; st == VN_OK && k < t->nodes; ++k) {
        const int32_t n = t->first[k + 1] - t->first[k];
        for (int32_t c = 0; c < n; ++c) tuple[c] = id[t->child[t->first[k] + c]];
        id[leaves + k] = vn_shapes_of(&w->s, tuple, n);
        if (id[leaves + k] < 0) st = vn_fail(err, VN_ERR_NOMEM, "no memory for the shapes of a tree of %d leaves", t->n);
    }
    if (st == VN_OK) {
        w->whole = id[leaves + t->nodes - 1];
        stack[depth++] = leaves + t->nodes - 1;
    }
    while (depth > 0) {
        const int32_t here = stack[--depth];
        if (here < leaves) sequence[at++] = here;
        else
            for (int32_t c = t->first[here - leaves + 1] - 1; c >= t->first[here - leaves]; --c) stack[depth++] = t->child[c];
    }
    vn_free(id);
    vn_free(tuple);
    vn_free(stack);
    return st;
}

static void namer_clear(namer_t *w) {
    for (int32_t k = 0; k < w->names; ++k) vn_free(w->name[k]);
    vn_free(w->name);
    vn_free(w->leaf);
    vn_shapes_clear(&w->s);
}

static vn_status_t written_out(const vn_tree_t *t, vn_text_t *out, vn_error_t *err) {
    char *brackets;
    VN_TRY(vn_tree_to_brackets(t, &brackets, err));
    vn_text_add(out, "|=");
    vn_text_add(out, brackets);
    vn_free(brackets);
    return VN_OK;
}

static vn_status_t named(namer_t *w, const vn_tree_t *t, vn_text_t *out, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *sequence = vn_alloc((size_t)leaves + 1, sizeof *sequence), *terms = vn_alloc((size_t)leaves + 1, sizeof *terms), n = 0;
    vn_runs_t runs = {0};
    vn_text_t order = {0};
    w->leaf = vn_alloc((size_t)leaves + 1, sizeof *w->leaf);
    vn_status_t st =
        sequence && terms && w->leaf ? vn_shapes_begin(&w->s, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    if (st == VN_OK) st = shape_of(w, t, sequence, err);
    for (int32_t k = 0; st == VN_OK && k < leaves; ++k)
        if (sequence[k] != t->n) terms[n++] = sequence[k];
    /* the initial value stands first, or second in its pair */
    const bool second = t->initial && leaves > 1 && sequence[0] != t->n;
    if (st == VN_OK && second && sequence[1] != t->n)
        st = vn_fail(err, VN_ERR_INTERNAL, "the initial value is not at the front of its tree");
    if (st == VN_OK) st = vn_order_compress(terms, t->n, &order, err);
    if (st == VN_OK && order.length && !t->initial) {
        st = vn_order_expand(order.data, order.length, t->n, terms, &runs, err);
        w->runs = &runs;
    }
    if (st == VN_OK) {
        const char *shape = name_of(w, w->whole);
        vn_text_printf(out, "%d%s%s", t->n, t->initial ? "+c" : "", second ? "'" : "");
        if (w->failed || w->s.failed) st = vn_fail(err, VN_ERR_NOMEM, "no memory for the text of a tree");
        else if (shape) vn_text_printf(out, "|%s|%s", order.data ? order.data : "", shape);
        else st = written_out(t, out, err);
    }
    vn_runs_clear(&runs);
    vn_text_free(&order);
    vn_free(sequence);
    vn_free(terms);
    return st;
}

vn_status_t vn_schedule_compress(const vn_tree_t *tree, char **out, vn_error_t *err) {
    vn_tree_t *t;
    namer_t w = {0};
    vn_text_t text = {0};
    *out = NULL;
    VN_TRY(vn_tree_copy(tree, &t, err));
    vn_status_t st = named(&w, t, &text, err);
    namer_clear(&w);
    vn_tree_free(t);
    if (st == VN_OK && (text.failed || !(*out = vn_strdup(text.data)))) st = vn_fail(err, VN_ERR_NOMEM, "no memory for the text of a tree");
    vn_text_free(&text);
    return st;
}

/* ---- back ---- */

static vn_status_t tree_of(const vn_shapes_t *s, int32_t whole, int32_t n, bool initial, const int32_t *sequence, vn_tree_t **out,
                           vn_error_t *err) {
    vn_draft_t d;
    VN_TRY(vn_draft_begin(&d, n, initial, n, err));
    visit_t *stack = vn_alloc((size_t)d.leaves + 1, sizeof *stack);
    int32_t depth = 0, at = 0, root = sequence[0];
    vn_status_t st = stack ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    if (st == VN_OK && whole >= 2) {
        st = vn_draft_node(&d, &root, err);
        stack[depth++] = (visit_t){.id = whole, .node = root};
    } else if (st == VN_OK && whole == VN_SHAPE_ROUNDED) {
        st = vn_draft_mark_rounded(&d, root, err);
    }
    while (st == VN_OK && depth > 0) {
        visit_t *v = &stack[depth - 1];
        if (v->child == vn_shapes_arity(s, v->id)) {
            --depth;
            continue;
        }
        const int32_t child = vn_shapes_children(s, v->id)[v->child++], parent = v->node;
        int32_t id;
        if (child < 2) {
            id = sequence[at++];
            if (child == VN_SHAPE_ROUNDED) st = vn_draft_mark_rounded(&d, id, err);
        } else {
            st = vn_draft_node(&d, &id, err);
            stack[depth++] = (visit_t){.id = child, .node = id};
        }
        if (st == VN_OK) vn_draft_attach(&d, parent, id);
    }
    vn_free(stack);
    if (st != VN_OK) {
        vn_draft_clear(&d);
        return st;
    }
    return vn_draft_finish(&d, root, true, out, err);
}

static vn_status_t expand(const char *text, size_t at, int32_t n, bool initial, bool second, vn_tree_t **out, vn_error_t *err) {
    const char *bar = strchr(text + at, '|');
    vn_shapes_t s;
    vn_runs_t runs = {0};
    int32_t whole;
    if (!bar) return vn_fail(err, VN_ERR_PARSE, "schedule, offset %zu: expected '|' after the order", strlen(text));
    const int32_t leaves = n + initial;
    VN_TRY(vn_shapes_begin(&s, err));
    int32_t *sequence = vn_alloc((size_t)leaves + 2, sizeof *sequence), *leaf = vn_alloc((size_t)leaves, sizeof *leaf);
    vn_status_t st = sequence && leaf ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    if (st == VN_OK) st = vn_order_expand(text + at, (size_t)(bar - text) - at, n, sequence + initial, &runs, err);
    if (st == VN_OK && initial) {
        sequence[0] = n;
        if (second) {
            sequence[0] = sequence[1];
            sequence[1] = n;
        }
    }
    const size_t shape = (size_t)(bar - text) + 1;
    if (st == VN_OK) st = vn_shape_build(&s, text, shape, strlen(text), leaf, leaves, initial ? NULL : &runs, &whole, err);
    if (st == VN_OK) st = tree_of(&s, whole, n, initial, sequence, out, err);
    vn_runs_clear(&runs);
    vn_free(sequence);
    vn_free(leaf);
    vn_shapes_clear(&s);
    return st;
}

vn_status_t vn_schedule_expand(const char *text, vn_tree_t **out, vn_error_t *err) {
    size_t at = 0;
    int64_t n = 0;
    *out = NULL;
    while (text[at] >= '0' && text[at] <= '9' && n <= VN_TREE_MAX_LEAVES) n = n * 10 + (text[at++] - '0');
    if (at == 0 || n < 1 || n > VN_TREE_MAX_LEAVES)
        return vn_fail(err, VN_ERR_PARSE, "schedule, offset 0: a number of terms from 1 to %d", VN_TREE_MAX_LEAVES);
    const bool initial = strncmp(text + at, "+c", 2) == 0;
    at += initial ? 2 : 0;
    const bool second = initial && text[at] == '\'';
    at += second;
    if (text[at] != '|') return vn_fail(err, VN_ERR_PARSE, "schedule, offset %zu: expected '|'", at);
    ++at;
    if (text[at] == '=') {
        VN_TRY(vn_tree_from_brackets(text + at + 1, out, err));
        if ((*out)->n == n && (*out)->initial == initial) return VN_OK;
        vn_tree_free(*out);
        *out = NULL;
        return vn_fail(err, VN_ERR_PARSE, "schedule, offset %zu: the brackets do not hold %lld terms", at, (long long)n);
    }
    return expand(text, at, (int32_t)n, initial, second, out, err);
}
