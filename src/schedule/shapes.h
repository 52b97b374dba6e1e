/* shapes.h -- tree shapes by number: equal shapes have equal numbers, so that
 * comparing is comparing numbers. Between text and tree. */
#ifndef VN_SCHEDULE_SHAPES_H
#define VN_SCHEDULE_SHAPES_H

#include "schedule/draft.h"

/* BLOCK: a position that stands for a whole block, in the shape of a join over
 * blocks. */
enum { VN_SHAPE_LEAF = 0, VN_SHAPE_ROUNDED = 1, VN_SHAPE_BLOCK = 2, VN_SHAPE_ATOMS = 3, VN_SHAPE_NONE = -1 };

/** Shape k is an atom (below VN_SHAPE_ATOMS) or the tuple
 * child[first[k]..first[k+1]). Ownership: vn_shapes_clear. */
typedef struct vn_shapes {
    int32_t count, capacity;
    int32_t *first, *size; /* size: positions */
    int32_t *child;
    int32_t n_child, child_capacity;
    int32_t *table; /* open addressing by tuple, -1: free */
    int32_t slots;
    bool failed; /* out of memory: every later number is NONE */
} vn_shapes_t;

vn_status_t vn_shapes_begin(vn_shapes_t *s, vn_error_t *err);
void vn_shapes_clear(vn_shapes_t *s);
/** Number of the tuple; one child is the child itself. NONE after a failed
 * allocation, or if a child is NONE. */
int32_t vn_shapes_of(vn_shapes_t *s, const int32_t *children, int32_t n);
static inline int32_t vn_shapes_pair(vn_shapes_t *s, int32_t a, int32_t b) {
    const int32_t both[2] = {a, b};
    return vn_shapes_of(s, both, 2);
}
static inline int32_t vn_shapes_arity(const vn_shapes_t *s, int32_t id) {
    return id < VN_SHAPE_ATOMS ? 0 : s->first[id + 1] - s->first[id];
}
static inline const int32_t *vn_shapes_children(const vn_shapes_t *s, int32_t id) { return s->child + s->first[id]; }

/** Shapes of all leaves and nodes of a tree, by id. Ownership: vn_free(*ids). */
vn_status_t vn_shapes_of_tree(vn_shapes_t *s, const vn_tree_t *t, int32_t **ids, vn_error_t *err);

/** Shape of one of the base letters over m positions that hold the shapes
 * part[0..m); group: of G. NONE where the letter does not apply. */
int32_t vn_shape_base(vn_shapes_t *s, char letter, int32_t group, const int32_t *part, int32_t m);

/** Where the loop levels of an order begin anew: at[level][0..count[level]],
 * ascending from 0 to the number of terms. */
enum { VN_ORDER_LOOPS = 12 };
typedef struct vn_runs {
    int levels;
    int32_t *at[VN_ORDER_LOOPS];
    int32_t count[VN_ORDER_LOOPS];
} vn_runs_t;
void vn_runs_clear(vn_runs_t *r);

/**
 * Builds the shape that text[begin..end) (grammar: docs/schedules.md) names
 * over m positions, each the atom `atom` (LEAF or BLOCK). runs       of the
 * order; NULL: no '@' allowed. Errors     PARSE with the offset into `text`;
 * RANGE when sizes do not fit m, or when the text asks for more work than its
 * length and m justify.
 */
vn_status_t vn_shape_build(vn_shapes_t *s, const char *text, size_t begin, size_t end, int32_t atom, int32_t m, const vn_runs_t *runs,
                           int32_t *id, vn_error_t *err);

/**
 * The shortest name of a shape; a pure function of the shape (and of runs).
 * whole      the shape that covers all terms, whose blocks may be runs of a
 * loop level; runs NULL: none.
 */
vn_status_t vn_shape_name(vn_shapes_t *s, int32_t id, int32_t whole, const vn_runs_t *runs, vn_text_t *out, vn_error_t *err);

/** The order of leaves as text, and back. sequence[0..n): a permutation of
 * 0..n-1. */
vn_status_t vn_order_compress(const int32_t *sequence, int32_t n, vn_text_t *out, vn_error_t *err);
/** runs (may be NULL) are set where the text is one nest. Errors: PARSE; every
 * index must come once. */
vn_status_t vn_order_expand(const char *text, size_t length, int32_t n, int32_t *sequence, vn_runs_t *runs, vn_error_t *err);

#endif
