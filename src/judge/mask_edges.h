/* mask_edges.h -- a mask whose rows are intervals of keys, with one diagonal or one column more or less. */
#ifndef VN_JUDGE_MASK_EDGES_H
#define VN_JUDGE_MASK_EDGES_H

#include "judge/explain.h"

typedef struct vn_mask_move {
    bool low;        /* the low side of the rows (the oldest key), else the high side */
    int slope, flat; /* moves the sloped part of the side, and its limit */
    const char *cause, *words;
} vn_mask_move_t;
enum { VN_MASK_MOVES = 8 };
extern const vn_mask_move_t vn_mask_moves[VN_MASK_MOVES];

/**
 * mask: bool or float, [..., queries, keys]; a pair is allowed where a bool is `allows`, where a float is above -10^4. The copy allows what the
 * moved side allows: new pairs get `allows`, or 0; pairs that leave get its opposite, or -Inf.
 * *out NULL: rows with holes, a side that is neither straight nor sloped, or nothing changes. *cause: of the move; a sloped high side ahead of the
 * query is a window's, not the causal rule's. Errors: NOMEM.
 */
vn_status_t vn_mask_move(const vn_tensor_t *mask, bool allows, const vn_mask_move_t *how, vn_tensor_t **out, const char **cause,
                         vn_error_t *err);

#endif
