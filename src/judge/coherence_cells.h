/* coherence_cells.h -- sums of errors by row, column and tile, the material of coherence.c. */
#ifndef VN_JUDGE_COHERENCE_CELLS_H
#define VN_JUDGE_COHERENCE_CELLS_H

#include "judge/ladder.h"

/** Sums over a group of elements: their number, then z, z^2, z q, (z q)^2, q^2 and |q|; z: clipped error, q: value, both over sigma. */
enum { VN_CELL_N, VN_CELL_S, VN_CELL_S2, VN_CELL_P, VN_CELL_P2, VN_CELL_Q2, VN_CELL_QA, VN_CELL_SUMS };
typedef struct vn_cell {
    double sum[VN_CELL_SUMS];
} vn_cell_t;

static inline void vn_cell_add(vn_cell_t *a, const vn_cell_t *b) {
    for (int k = 0; k < VN_CELL_SUMS; ++k) a->sum[k] += b->sum[k];
}

/** Columns of a tile, and rows of a strip of tiles. */
enum { VN_CELL_SIDE = 8 };

/** z and q of one element; false where there is no variance (of a normal number), or a side is not finite: it counts nowhere. */
bool vn_cell_element(double actual, double value, double variance, double *z, double *q);

/**
 * Adds `rows` (at most VN_CELL_SIDE) rows of `cols` elements from flat index `begin` on.
 * x          those elements of the actual output.
 * room       vn_cell_room(cols) doubles, zeros before the first strip: the columns' sums so far, and scratch.
 * row        one cell a row. tile: one cell for each VN_CELL_SIDE columns.
 */
void vn_cells_strip(const vn_ref_t *ref, int64_t begin, int64_t rows, int64_t cols, const double *x, double *room, vn_cell_t *row,
                    vn_cell_t *tile);
/** The columns' sums of all strips, one cell a column. */
void vn_cells_columns(const double *room, int64_t cols, vn_cell_t *col);
size_t vn_cell_room(int64_t cols);

#endif
