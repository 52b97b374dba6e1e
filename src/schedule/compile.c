/* compile.c -- from a tree to its stack program: the larger subtree first, so that the stack stays logarithmic; chains in one step. */
#include <string.h>

#include "schedule/draft.h"
#include "schedule/program.h"

static vn_status_t emit(vn_replay_t *r, vn_program_step_t s, vn_error_t *err) {
    vn_program_step_t *last = r->steps ? &r->step[r->steps - 1] : NULL;
    if (last && s.kind == VN_STEP_CHAIN && last->kind == VN_STEP_CHAIN && last->fused == s.fused) {
        const int32_t gap = s.leaf - (last->leaf + (last->count - 1) * last->stride);
        if (last->count == 1 || gap == last->stride) {
            last->stride = gap;
            last->count++;
            return VN_OK;
        }
    }
    if (r->steps == r->capacity) {
        const int32_t more = r->capacity * 2 + 64;
        vn_program_step_t *step = vn_realloc(r->step, (size_t)more, sizeof *step);
        if (!step) return vn_fail(err, VN_ERR_NOMEM, "no memory for a program of %d steps", more);
        r->step = step;
        r->capacity = more;
    }
    r->step[r->steps++] = s;
    return VN_OK;
}

/* A node that is being walked: which inner children are left. */
typedef struct frame {
    int32_t node, done, terms; /* done: inner children finished; terms: terms of a chain since the last narrow store */
} frame_t;

typedef struct walk {
    const vn_tree_t *t;
    const int32_t *size;
    vn_replay_t *r;
    int32_t leaves, depth;
    int32_t *terms; /* by node: terms in its chain since the value was last rounded to the narrow format */
} walk_t;

static bool is_fused_leaf(const walk_t *w, int32_t leaf) { return w->r->arithmetic.fma && !(w->t->rounded && w->t->rounded[leaf]); }

/* The inner child of a node that is walked `at`-th: by falling size. -1: none. */
static int32_t inner_child(const walk_t *w, int32_t k, int32_t at) {
    int32_t best = -1, rank = 0;
    const int32_t begin = w->t->first[k], end = w->t->first[k + 1];
    if (end - begin == 2) { /* the common case, without the search below */
        const int32_t a = w->t->child[begin], b = w->t->child[begin + 1];
        const bool ia = a >= w->leaves, ib = b >= w->leaves;
        if (ia && ib) return at > 1 ? -1 : (w->size[a] >= w->size[b]) == (at == 0) ? a : b;
        return at > 0 ? -1 : ia ? a : ib ? b : -1;
    }
    /* nodes of many children: as they stand; the order of a fused sum's operands does not matter */
    for (int32_t c = begin; c < end; ++c)
        if (w->t->child[c] >= w->leaves && rank++ == at) best = w->t->child[c];
    return best;
}

static void raise_depth(walk_t *w, int32_t by) {
    w->depth += by;
    if (w->depth > w->r->depth) w->r->depth = w->depth;
}

/* Adds one leaf to the value on top. */
static vn_status_t add_leaf(walk_t *w, int32_t leaf, vn_error_t *err) {
    if (leaf == w->t->n) { /* a sum that is stored narrow as a whole is so before the initial value comes */
        if (w->r->arithmetic.narrow_every == w->t->n) VN_TRY(emit(w->r, (vn_program_step_t){.kind = VN_STEP_NARROW}, err));
        return emit(w->r, (vn_program_step_t){.kind = VN_STEP_ADD_START}, err);
    }
    return emit(w->r, (vn_program_step_t){.kind = VN_STEP_CHAIN, .fused = is_fused_leaf(w, leaf), .leaf = leaf, .count = 1, .stride = 1},
                err);
}

static vn_status_t push_leaf(walk_t *w, int32_t leaf, vn_error_t *err) {
    raise_depth(w, 1);
    return emit(w->r, (vn_program_step_t){.kind = leaf == w->t->n ? VN_STEP_START : VN_STEP_TERM, .leaf = leaf}, err);
}

/* After `narrow_every` terms of a chain its value goes through the narrow format. */
static vn_status_t count_terms(walk_t *w, int32_t k, int32_t from, int32_t more, vn_error_t *err) {
    const int every = w->r->arithmetic.narrow_every;
    w->terms[k] = from + more;
    if (!every || w->terms[k] < every) return VN_OK;
    w->terms[k] = 0;
    return emit(w->r, (vn_program_step_t){.kind = VN_STEP_NARROW}, err);
}

/* All inner children of node k are on the stack. */
static vn_status_t finish_binary(walk_t *w, int32_t k, vn_error_t *err) {
    const int32_t a = w->t->child[w->t->first[k]], b = w->t->child[w->t->first[k] + 1];
    const bool la = a < w->leaves, lb = b < w->leaves;
    if (la && lb) {
        VN_TRY(push_leaf(w, a, err));
        VN_TRY(add_leaf(w, b, err));
        return count_terms(w, k, 0, (a != w->t->n) + (b != w->t->n), err);
    }
    if (la || lb) {
        const int32_t inner = la ? b : a;
        VN_TRY(add_leaf(w, la ? a : b, err));
        return count_terms(w, k, w->terms[inner - w->leaves], (la ? a : b) != w->t->n, err);
    }
    w->depth--;
    return emit(w->r, (vn_program_step_t){.kind = VN_STEP_ADD}, err);
}

static vn_status_t finish_fused(walk_t *w, int32_t k, vn_error_t *err) {
    int32_t rows = 0;
    const int32_t begin = w->r->n_list;
    for (int32_t c = w->t->first[k]; c < w->t->first[k + 1]; ++c) {
        const int32_t child = w->t->child[c];
        if (child >= w->leaves) ++rows;
        else if (child == w->t->n) {
            VN_TRY(push_leaf(w, child, err));
            ++rows;
        } else {
            w->r->list[w->r->n_list++] = child;
        }
    }
    if (rows == 0) raise_depth(w, 1);
    else w->depth -= rows - 1;
    return emit(w->r, (vn_program_step_t){.kind = VN_STEP_FUSED, .leaf = begin, .count = rows, .stride = w->r->n_list - begin}, err);
}

static vn_status_t walk(walk_t *w, vn_error_t *err) {
    const vn_tree_t *t = w->t;
    frame_t *stack = vn_alloc((size_t)t->nodes + 1, sizeof *stack);
    int32_t depth = 0;
    vn_status_t st = stack ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    if (st == VN_OK && t->nodes == 0) st = push_leaf(w, 0, err);
    if (st == VN_OK && t->nodes) stack[depth++] = (frame_t){.node = t->nodes - 1};
    while (st == VN_OK && depth > 0) {
        frame_t *f = &stack[depth - 1];
        const int32_t inner = inner_child(w, f->node, f->done++);
        if (inner >= 0) {
            stack[depth++] = (frame_t){.node = inner - w->leaves};
            continue;
        }
        --depth;
        st = t->first[f->node + 1] - t->first[f->node] == 2 ? finish_binary(w, f->node, err) : finish_fused(w, f->node, err);
    }
    vn_free(stack);
    return st;
}

vn_status_t vn_replay_compile(const vn_tree_t *t, const vn_arithmetic_t *a, vn_replay_t **out, vn_error_t *err) {
    const vn_format_info_t *info = vn_format_info(a->accumulator);
    const bool fused_nodes = vn_tree_widest(t) > 2;
    int32_t *size = NULL;
    *out = NULL;
    if (!info) return vn_fail(err, VN_ERR_USAGE, "replay: no accumulator format");
    if (fused_nodes && !a->fused_bits)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "replay: fused sums without alignment bits (exact sums of a node)");
    if (a->accumulator == VN_FMT_F64 && (fused_nodes || a->narrow_every || a->rounding != VN_RNE || a->ftz || a->daz))
        return vn_fail(err, VN_ERR_UNSUPPORTED, "replay: f64 accumulators only as plain sums, to nearest, with gradual underflow");
    vn_replay_t *r = vn_alloc(1, sizeof *r);
    walk_t w = {.t = t, .r = r, .leaves = vn_tree_leaves(t)};
    vn_status_t st = r ? vn_tree_sizes(t, &size, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (st == VN_OK) {
        *r = (vn_replay_t){.arithmetic = *a, .n = t->n, .initial = t->initial};
        w.size = size;
        r->list = vn_alloc((size_t)t->n + 1, sizeof *r->list);
        w.terms = vn_alloc((size_t)t->nodes + 1, sizeof *w.terms);
        if (!r->list || !w.terms) st = vn_fail(err, VN_ERR_NOMEM, "no memory for a tree of %d leaves", t->n);
    }
    if (st == VN_OK) st = walk(&w, err);
    vn_free(w.terms);
    vn_free(size);
    if (st == VN_OK) *out = r;
    else vn_replay_free(r);
    return st;
}

void vn_replay_free(vn_replay_t *r) {
    if (!r) return;
    vn_free(r->step);
    vn_free(r->list);
    vn_free(r);
}
