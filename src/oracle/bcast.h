/* bcast.h -- several operands laid over one output shape by the ONNX (NumPy) broadcast rule, walked in rows. */
#ifndef VN_ORACLE_BCAST_H
#define VN_ORACLE_BCAST_H

#include "oracle/registry.h"

enum { VN_BCAST_MAX = 3, VN_BCAST_GRAIN = 1 << 14, VN_BCAST_ROW = 512 };

/**
 * Output shape and, per operand, the step of each axis in elements (0 where the operand is repeated). Axes that all operands walk alike
 * are merged, so equal shapes are one row and a trailing vector is two axes.
 */
typedef struct vn_bcast {
    int rank, n;
    int64_t dims[VN_MAX_RANK];
    int64_t step[VN_BCAST_MAX][VN_MAX_RANK];
    int64_t count;
    /* before merging: what the output is given */
    int out_rank;
    int64_t out_dims[VN_MAX_RANK];
} vn_bcast_t;

/** Shape of the operands' common broadcast. Errors: SHAPE names node and shapes. operands[i] are input indices that are given. */
vn_status_t vn_bcast_shape(vn_eval_t *e, int n, const int *operands, int *rank, int64_t *dims);
/** Plan of n <= VN_BCAST_MAX operands over the output shape they span. */
vn_status_t vn_bcast_plan(vn_eval_t *e, int n, const int *operands, vn_bcast_t *out);
/** One operand laid over a given output shape. Errors: SHAPE. */
vn_status_t vn_bcast_onto(vn_eval_t *e, const vn_tensor_t *t, int rank, const int64_t *dims, vn_bcast_t *out);

/**
 * One piece of an output row: elements out .. out+n-1 (n <= VN_BCAST_ROW); operand k stands at at[k] and advances by step[k], which is 0
 * or 1 (an operand whose innermost axis is repeated or walked).
 */
typedef struct vn_piece {
    int64_t out, n;
    int64_t at[VN_BCAST_MAX], step[VN_BCAST_MAX];
} vn_piece_t;
typedef void (*vn_piece_fn)(void *ctx, const vn_piece_t *piece);
/** Calls fn over the whole output, pieces in parallel; their borders do not depend on the number of threads. */
void vn_bcast_run(const vn_bcast_t *b, vn_piece_fn fn, void *ctx);

/** The piece of operand k as a dense run: the plane itself where it advances, else its value repeated in buffer (VN_BCAST_ROW entries). */
static inline const double *vn_piece_read(const vn_piece_t *p, int k, const double *plane, double *buffer) {
    if (p->step[k]) return plane + p->at[k];
    const double v = plane[p->at[k]];
    for (int64_t i = 0; i < p->n; ++i) buffer[i] = v;
    return buffer;
}

#endif
