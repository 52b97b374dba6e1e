/* norm.h -- statistics of a group and the output of a normalisation, with bounds. Shared by the files of family "normalisation". */
#ifndef VN_ORACLE_NORM_H
#define VN_ORACLE_NORM_H

#include "oracle/rows.h"
#include "oracle/sums.h"

/** How one normalisation may be evaluated. */
typedef struct vn_norm_rule {
    vn_format_t acc;
    const vn_format_info_t *a, *mid; /* accumulator; mid NULL unless the contract names a narrower format for hidden values */
    double u_store; /* roundoff of the tensor type if narrower than the accumulator, else 0: function bodies that cast early */
    double t_rsqrt;
    double epsilon;
    bool mean;    /* false: root mean square, nothing is subtracted */
    bool outside; /* epsilon is added to the deviation, not under the root */
    bool ftz;
} vn_norm_rule_t;

vn_norm_rule_t vn_norm_rule(const vn_eval_t *e, double epsilon, bool mean);

typedef struct vn_norm_stats {
    double mu, mu_lo, var, square; /* exact mean (hi, lo), variance (about 0 without mean), mean of squares */
    double r;                      /* 1 / sqrt(var + epsilon), or 1 / (sqrt(var) + epsilon) */
    double d_mu, d_var, d_var_one; /* bounds on the computed mean and variance: two passes; one pass */
    double rel, rel_one;           /* R of the sheet; +Inf: void */
    double shift;                  /* mean operand uncertainty */
    double size;                   /* mean |x| */
    double var_mu, var_var;        /* variances of the computed mean and variance */
    bool finite, overflow;         /* overflow: an allowed intermediate may leave its format */
} vn_norm_stats_t;

/** work: n doubles, needed when `variance`. */
vn_norm_stats_t vn_norm_stats(const vn_norm_rule_t *rule, const double *x, const double *err, int64_t n, bool bound, bool variance,
                              double *work);

/** Where scale and bias of element k of row r come from. */
typedef enum vn_norm_layout { VN_NORM_NONE, VN_NORM_ELEMENT, VN_NORM_CHANNEL, VN_NORM_PLANE } vn_norm_layout_t;

/** Rows of a tensor through a normalisation into output 0, and where wanted mean and 1/deviation into outputs k_mean, k_inv (-1: no). */
typedef struct vn_norm_job {
    vn_norm_rule_t rule;
    vn_rows_t rows;
    const double *x, *err, *x_var;
    const vn_tensor_t *source;  /* where x is NULL: the operand itself (vn_rows_operand) */
    const double *x_lo;         /* what x leaves behind, where single elements are asked for in more digits; NULL: nothing */
    bool summed;                /* x is itself a sum, rounded in f64 */
    const double *gamma, *beta; /* NULL: 1, 0 */
    vn_norm_layout_t layout;
    int64_t groups, channels, inner; /* CHANNEL: row r, element k uses (r % groups) * channels + k / inner */
    int k_out, k_mean, k_inv;
    vn_dtype_t stash;
    int stat_rank;
    int64_t stat_dims[VN_MAX_RANK];
    const char *note; /* of the second tier */
} vn_norm_job_t;
vn_status_t vn_norm_run(vn_eval_t *e, vn_norm_job_t *job, vn_dtype_t type, int rank, const int64_t *dims);
/** Answers e->refine (refine_norm.c); vn_norm_run calls it. Scale and bias layouts as above. */
vn_status_t vn_norm_refine(vn_eval_t *e, const vn_norm_job_t *job);

bool vn_out_named(const vn_eval_t *e, int k); /* output k exists and has a name */
/** Scale and bias operands k_gamma, k_beta broadcast to the shape of the normalised tensor where they are not [n] already. */
vn_status_t vn_norm_affine(vn_eval_t *e, vn_norm_job_t *job, int k_gamma, int k_beta, int rank, const int64_t *dims, int axis,
                           double **owned);

vn_status_t vn_eval_batch_norm(vn_eval_t *e);
vn_status_t vn_infer_batch_norm(vn_eval_t *e);
vn_status_t vn_eval_lp_norm(vn_eval_t *e);
vn_status_t vn_eval_lrn(vn_eval_t *e);
vn_status_t vn_eval_skip_norm(vn_eval_t *e);
vn_status_t vn_eval_skip_rms(vn_eval_t *e);
vn_status_t vn_eval_embed_norm(vn_eval_t *e);
vn_status_t vn_infer_skip_norm(vn_eval_t *e);
vn_status_t vn_infer_embed_norm(vn_eval_t *e);

#endif
