/* softmax.h -- what the files of family "softmax" share. */
#ifndef VN_ORACLE_SOFTMAX_H
#define VN_ORACLE_SOFTMAX_H

#include "oracle/expsum.h"

typedef enum vn_softmax_kind { VN_SOFTMAX, VN_LOG_SOFTMAX } vn_softmax_kind_t;

/**
 * Rows of x (shape s) through softmax or log-softmax into planes of x's shape: y, and where not NULL bound, wide, var, own.
 * source (or NULL) stands for x as in vn_row_job_t. err, x_var may be NULL. *open is set to 1 if a row of minus infinities was met.
 */
typedef struct vn_softmax_planes {
    const vn_tensor_t *source;
    const double *x, *err, *x_var;
    double *y, *bound, *wide, *var, *own;
    bool reported; /* the planes are those of output 0, all settings made */
    int open;
} vn_softmax_planes_t;
vn_status_t vn_softmax_rows(vn_eval_t *e, vn_softmax_kind_t kind, const vn_rows_t *s, vn_softmax_planes_t *planes);

vn_status_t vn_eval_nll_loss(vn_eval_t *e);
vn_status_t vn_eval_softmax_loss(vn_eval_t *e);
vn_status_t vn_infer_loss(vn_eval_t *e);

#endif
