/* shapes.h -- tree shapes by number: equal shapes have equal numbers, so that comparing is comparing numbers. */
#ifndef VN_SCHEDULE_SHAPES_H
#define VN_SCHEDULE_SHAPES_H

#include "schedule/draft.h"

enum { VN_SHAPE_LEAF = 0, VN_SHAPE_ROUNDED = 1, VN_SHAPE_NONE = -1 };

/** Shape k is a leaf (0, 1) or the tuple child[first[k]..first[k+1]). Ownership: vn_shapes_clear. */
typedef struct vn_shapes {
    int32_t count, capacity;
    int32_t *first, *size; /* size: leaves */
    int32_t *child;
    int32_t n_child, child_capacity;
    int32_t *table; /* open addressing by tuple, -1: free */
    int32_t slots;
    bool failed; /* out of memory: every later number is NONE */
} vn_shapes_t;

vn_status_t vn_shapes_begin(vn_shapes_t *s, vn_error_t *err);
void vn_shapes_clear(vn_shapes_t *s);
/** Number of the tuple; one child is the child itself. NONE after a failed allocation, or if a child is NONE. */
int32_t vn_shapes_of(vn_shapes_t *s, const int32_t *children, int32_t n);
static inline int32_t vn_shapes_pair(vn_shapes_t *s, int32_t a, int32_t b) {
    const int32_t both[2] = {a, b};
    return vn_shapes_of(s, both, 2);
}
static inline int32_t vn_shapes_arity(const vn_shapes_t *s, int32_t id) { return id < 2 ? 0 : s->first[id + 1] - s->first[id]; }
static inline const int32_t *vn_shapes_children(const vn_shapes_t *s, int32_t id) { return s->child + s->first[id]; }

/**
 * Builds the shape that `text` (grammar: docs/schedules.md) names over `m` positions holding the shapes leaf[0..m).
 * runs       boundaries of loop levels of the order: runs[level] ascending positions, n_runs[level] of them; NULL: no '@' allowed.
 * Errors     PARSE with the offset into the whole text `from`; RANGE when sizes do not fit m.
 */
typedef struct vn_runs {
    int levels;
    int32_t *at[8];
    int32_t count[8];
} vn_runs_t;
vn_status_t vn_shape_build(vn_shapes_t *s, const char *from, size_t offset, size_t end, const int32_t *leaf, int32_t m,
                           const vn_runs_t *runs, int32_t *id, vn_error_t *err);
/** Shape of one of the base letters over m positions; group: of G. NONE where the letter does not apply to m. */
int32_t vn_shape_base(vn_shapes_t *s, char letter, int32_t group, const int32_t *leaf, int32_t m);

/** The order of leaves as text, and back. sequence[0..n): a permutation of 0..n-1. */
vn_status_t vn_order_compress(const int32_t *sequence, int32_t n, vn_text_t *out, vn_error_t *err);
/** runs (may be NULL) are set where the text is one nest. Errors: PARSE; every index must come once. */
vn_status_t vn_order_expand(const char *text, size_t length, int32_t n, int32_t *sequence, vn_runs_t *runs, vn_error_t *err);
void vn_runs_clear(vn_runs_t *r);

#endif
