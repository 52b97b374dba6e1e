/* draft.h -- a tree under construction: children in linked lists, any order of ids. Becomes a vn_tree_t in canonical form. */
#ifndef VN_SCHEDULE_DRAFT_H
#define VN_SCHEDULE_DRAFT_H

#include "vernier/schedule.h"

/**
 * Ids as in vn_tree_t: leaves first, then the inner nodes in the order of vn_draft_node.
 * Ownership  vn_draft_clear. Threads: one.
 */
typedef struct vn_draft {
    int32_t n, leaves;
    bool initial;
    int32_t nodes, capacity; /* inner nodes */
    int32_t *head, *tail;    /* [capacity] first and last child of inner node k; -1: none */
    int32_t *next;           /* [leaves + capacity] following sibling, -1: none */
    uint8_t *rounded;        /* [leaves] or NULL */
} vn_draft_t;

/** capacity: inner nodes expected; grows when more come. Errors: RANGE (n), NOMEM. */
vn_status_t vn_draft_begin(vn_draft_t *d, int32_t n, bool initial, int32_t capacity, vn_error_t *err);
void vn_draft_clear(vn_draft_t *d);
/** A new inner node without children. */
vn_status_t vn_draft_node(vn_draft_t *d, int32_t *id, vn_error_t *err);
/** Appends child (leaf or inner) to inner node `id`. */
void vn_draft_attach(vn_draft_t *d, int32_t id, int32_t child);
/** Appends all children of inner node `from` to `id`; `from` is empty afterwards and must not be used. */
void vn_draft_splice(vn_draft_t *d, int32_t id, int32_t from);
vn_status_t vn_draft_mark_rounded(vn_draft_t *d, int32_t leaf, vn_error_t *err);
/**
 * The canonical tree under `root` (which must hold every leaf once; nodes with one child stand for it). Clears the draft, also after an error.
 * keep_pairs: a node of two leaves keeps its children's order; false: every node is sorted.
 */
vn_status_t vn_draft_finish(vn_draft_t *d, int32_t root, bool keep_pairs, vn_tree_t **out, vn_error_t *err);

/** Leaf counts of all ids, [leaves + nodes]. Ownership: vn_free. */
vn_status_t vn_tree_sizes(const vn_tree_t *t, int32_t **sizes, vn_error_t *err);

/** The leaves in depth-first order: where each stands, and the size of the ancestor of neighbours. Ownership: vn_tour_clear. */
typedef struct vn_tour {
    int32_t *position; /* [leaves] */
    int32_t *leaf;     /* [leaves] at a position */
    uint32_t *between; /* [leaves] size of the lowest common ancestor of positions p and p + 1 */
} vn_tour_t;
vn_status_t vn_tour_of(const vn_tree_t *t, vn_tour_t *r, vn_error_t *err);
void vn_tour_clear(vn_tour_t *r);

#endif
