/* rows.h -- an operator along axes as many independent rows: layout, blocked gather and scatter, threads. */
#ifndef VN_ORACLE_ROWS_H
#define VN_ORACLE_ROWS_H

#include "oracle/registry.h"

/**
 * A tensor seen as `rows` rows of `n` elements: the axes marked `along` form the row, the others number it, both in row-major order.
 * Adjacent axes of one kind are merged. Row r of a reduction is element r of the result.
 */
typedef struct vn_rows {
    int64_t rows, n;
    int n_outer, n_inner;
    int64_t outer_dim[VN_MAX_RANK], outer_step[VN_MAX_RANK];
    int64_t inner_dim[VN_MAX_RANK], inner_step[VN_MAX_RANK];
    bool contiguous; /* row r is x[r*n .. r*n + n) */
} vn_rows_t;

void vn_rows_plan(int rank, const int64_t *dims, const bool *along, vn_rows_t *out);
/** Copies `count` rows from `row` on: block[i*n + k]. */
void vn_rows_read(const vn_rows_t *s, const double *plane, int64_t row, int64_t count, double *block);
void vn_rows_write(const vn_rows_t *s, double *plane, int64_t row, int64_t count, const double *block);
/** One row of the plane, or where that is NULL of the tensor itself (contiguous rows of a float type). */
void vn_rows_read_one(const vn_rows_t *s, const double *plane, const vn_tensor_t *source, int64_t row, double *block);
/** Offset of the first element of a row. */
int64_t vn_rows_base(const vn_rows_t *s, int64_t row);

enum { VN_ROW_PLANES = 8 };

/** One row as a kernel sees it. Absent planes are NULL. */
typedef struct vn_row {
    int64_t index, n;
    const double *in[VN_ROW_PLANES];
    double *out[VN_ROW_PLANES]; /* rows of result planes: fill all n */
    double *work;               /* job.work * n doubles, not cleared */
} vn_row_t;

typedef struct vn_row_job {
    const vn_rows_t *shape;
    const vn_tensor_t *source; /* NULL; else row->in[0] is decoded from it, a few rows at a time, and in[0] is NULL (vn_rows_operand) */
    const double *in[VN_ROW_PLANES];
    double *out[VN_ROW_PLANES];
    int work;
    void (*fn)(void *ctx, const vn_row_t *row);
    void *ctx;
    vn_eval_t
        *report; /* NULL; else rows are runs of output `reported`, which vn_out_begin has announced: pieces are reported as they are done */
    int reported;
} vn_row_job_t;

/**
 * Operand k as in[0] of a job: its plane where there is one or rows are no runs of memory, else the tensor itself, so that no plane is written
 * that each row would read once. Errors: NOMEM.
 */
vn_status_t vn_rows_operand(vn_eval_t *e, int k, vn_row_job_t *job);
/** Output k consists of the rows of this job: the frame may finish it piece by piece, where rows are runs of memory. See vn_out_begin. */
vn_status_t vn_rows_report(vn_eval_t *e, int k, vn_row_job_t *job);
/** Runs fn on every row, rows in parallel. Errors: NOMEM. */
vn_status_t vn_rows_run(vn_eval_t *e, const vn_row_job_t *job);

/** For infer: output k (if the node has it) is of this type and shape. */
void vn_infer_put(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims);

/** Removes the flags plane of output k if no element has a flag. */
void vn_flags_settle(vn_eval_t *e, int k);

/** Working format of hidden values: the contract's intermediate, else its accumulator. */
static inline vn_format_t vn_mid_format(const vn_eval_t *e) {
    return e->contract->intermediate != VN_FMT_NONE ? e->contract->intermediate : e->contract->accumulator;
}
/** What flushing may add to a value made by `nodes` operations on `operands` operands of the accumulator's format; 0 without ftz and daz. */
static inline double vn_flushed(const vn_eval_t *e, double nodes, double operands) {
    return ((e->contract->ftz ? nodes : 0) + (e->contract->daz ? operands : 0)) * vn_tau(e);
}

/**
 * A matrix operand as the contract reads it: `plane` itself, or a copy rounded to contract.operand if that is narrower than `type` and
 * operand_mask includes `position`. *out is borrowed if *owned is NULL; else release *owned.
 */
vn_status_t vn_read_operand(vn_eval_t *e, int position, const double *plane, int64_t count, vn_dtype_t type, const double **out,
                            double **owned);
/** The format that vn_read_operand rounds to, NONE if it does not round. */
vn_format_t vn_read_format(const vn_eval_t *e, int position, vn_dtype_t type);

#endif
