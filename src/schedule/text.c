/* text.c -- schedules as text: compress and expand. Claim SCHED-1: the text is
 * a function of the canonical tree, and gives it back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/shapes.h"

/* ---- from a tree ---- */

vn_status_t vn_shapes_of_tree(vn_shapes_t *s, const vn_tree_t *t, int32_t **ids, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *id = vn_alloc((size_t)leaves + (size_t)t->nodes, sizeof *id), *tuple = vn_alloc((size_t)leaves + 1, sizeof *tuple);
    vn_status_t st = id && tuple ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    for (int32_t k = 0; st == VN_OK && k < leaves; ++k) id[k] = t->rounded && t->rounded[k] ? VN_SHAPE_ROUNDED : VN_SHAPE_LEAF;
    for (int32_t k = 0; st == VN_OK && k < t->nodes; ++k) {
        const int32_t n = t->first[k + 1] - t->first[k];
        for (int32_t c = 0; c < n; ++c) tuple[c] = id[t->child[t->first[k] + c]];
        id[leaves + k] = vn_shapes_of(s, tuple, n);
        if (id[leaves + k] < 0) st = vn_fail(err, VN_ERR_NOMEM, "no memory for the shapes of a tree of %d leaves", t->n);
    }
    vn_free(tuple);
    if (st != VN_OK) {
        vn_free(id);
        id = NULL;
    }
    *ids = id;
    return st;
}

/* The leaves in depth-first order. */
static vn_status_t sequence_of(const vn_tree_t *t, int32_t *sequence, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t *stack = vn_alloc((size_t)leaves + (size_t)t->nodes + 1, sizeof *stack), depth = 0, at = 0;
    if (!stack) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    stack[depth++] = leaves + t->nodes - 1;
    while (depth > 0) {
        const int32_t here = stack[--depth];
        if (here < leaves) sequence[at++] = here;
        else
            for (int32_t c = t->first[here - leaves + 1] - 1; c >= t->first[here - leaves]; --c) stack[depth++] = t->child[c];
    }
    vn_free(stack);
    return VN_OK;
}

/* *whole: shape of the root; *terms: that of all terms without the initial value, if a node has it. */
static vn_status_t shape_of(vn_shapes_t *s, const vn_tree_t *t, int32_t *whole, int32_t *terms, vn_error_t *err) {
    const int32_t root = t->nodes - 1;
    int32_t *id;
    VN_TRY(vn_shapes_of_tree(s, t, &id, err));
    *whole = *terms = id[vn_tree_leaves(t) + root];
    if (t->initial && t->nodes && t->child[t->first[root]] == t->n && t->first[root + 1] - t->first[root] == 2)
        *terms = id[t->child[t->first[root] + 1]];
    vn_free(id);
    return VN_OK;
}

typedef struct compressor {
    vn_shapes_t s;
    vn_runs_t runs;
    vn_text_t order, shape;
    int32_t *sequence, *terms;
} compressor_t;

static vn_status_t compress(compressor_t *w, const vn_tree_t *t, vn_text_t *out, vn_error_t *err) {
    const int32_t leaves = vn_tree_leaves(t);
    int32_t n = 0, whole, of_terms, back;
    w->sequence = vn_alloc((size_t)leaves + 1, sizeof *w->sequence);
    w->terms = vn_alloc((size_t)leaves + 1, sizeof *w->terms);
    if (!w->sequence || !w->terms) return vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    VN_TRY(vn_shapes_begin(&w->s, err));
    VN_TRY(shape_of(&w->s, t, &whole, &of_terms, err));
    VN_TRY(sequence_of(t, w->sequence, err));
    for (int32_t k = 0; k < leaves; ++k)
        if (w->sequence[k] != t->n) w->terms[n++] = w->sequence[k];
    /* the initial value stands first, or second in its pair */
    const bool second = t->initial && w->sequence[0] != t->n;
    if (second && w->sequence[1] != t->n) return vn_fail(err, VN_ERR_INTERNAL, "the initial value is not at the front of its tree");
    VN_TRY(vn_order_compress(w->terms, t->n, &w->order, err));
    const char *order = w->order.data ? w->order.data : "";
    VN_TRY(vn_order_expand(order, w->order.length, t->n, w->sequence, &w->runs, err));
    VN_TRY(vn_shape_name(&w->s, whole, of_terms, &w->runs, &w->shape, err));
    /* an identity rests on this text: it is read back here, always */
    const vn_status_t st = vn_shape_build(&w->s, w->shape.data, 0, w->shape.length, VN_SHAPE_LEAF, leaves, &w->runs, &back, err);
    if (st == VN_ERR_NOMEM) return st;
    if (st != VN_OK || back != whole || memcmp(w->sequence, w->terms, (size_t)t->n * sizeof *w->terms) != 0)
        return vn_fail(err, VN_ERR_INTERNAL, "the text made for a tree of %d leaves does not name it: %.100s", leaves, w->shape.data);
    vn_text_printf(out, "%d%s%s|", t->n, t->initial ? "+c" : "", second ? "'" : "");
    vn_text_add(out, order);
    vn_text_add(out, "|");
    vn_text_add(out, w->shape.data);
    return VN_OK;
}

vn_status_t vn_schedule_compress(const vn_tree_t *tree, char **out, vn_error_t *err) {
    vn_tree_t *t;
    compressor_t w = {0};
    vn_text_t text = {0};
    *out = NULL;
    VN_TRY(vn_tree_copy(tree, &t, err));
    vn_status_t st = compress(&w, t, &text, err);
    vn_shapes_clear(&w.s);
    vn_runs_clear(&w.runs);
    vn_text_free(&w.order);
    vn_text_free(&w.shape);
    vn_free(w.sequence);
    vn_free(w.terms);
    vn_tree_free(t);
    if (st == VN_OK && (text.failed || !(*out = vn_strdup(text.data)))) st = vn_fail(err, VN_ERR_NOMEM, "no memory for the text of a tree");
    vn_text_free(&text);
    return st;
}

/* ---- back ---- */

/* A node of the shape, the next of its children, and what it became. */
typedef struct visit {
    int32_t id, child, node;
} visit_t;

static vn_status_t tree_of(const vn_shapes_t *s, int32_t whole, int32_t n, bool initial, const int32_t *sequence, vn_tree_t **out,
                           vn_error_t *err) {
    vn_draft_t d;
    VN_TRY(vn_draft_begin(&d, n, initial, n, err));
    visit_t *stack = vn_alloc((size_t)d.leaves + 1, sizeof *stack);
    int32_t depth = 0, at = 0, root = sequence[0];
    vn_status_t st = stack ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    if (st == VN_OK && whole >= VN_SHAPE_ATOMS) {
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
        if (child < VN_SHAPE_ATOMS) {
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
    int32_t *sequence = vn_alloc((size_t)leaves + 2, sizeof *sequence);
    vn_status_t st = sequence ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", n);
    if (st == VN_OK) st = vn_order_expand(text + at, (size_t)(bar - text) - at, n, sequence + initial, &runs, err);
    if (st == VN_OK && initial) {
        sequence[0] = n;
        if (second) {
            sequence[0] = sequence[1];
            sequence[1] = n;
        }
    }
    const size_t shape = (size_t)(bar - text) + 1;
    if (st == VN_OK) st = vn_shape_build(&s, text, shape, strlen(text), VN_SHAPE_LEAF, leaves, &runs, &whole, err);
    if (st == VN_OK) st = tree_of(&s, whole, n, initial, sequence, out, err);
    vn_runs_clear(&runs);
    vn_free(sequence);
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
    return expand(text, at, (int32_t)n, initial, second, out, err);
}
