/* expsum.h -- rows of exponentials: weights, denominators and what each may be wrong by. Used by softmax, log-sum-exp and attention. */
#ifndef VN_ORACLE_EXPSUM_H
#define VN_ORACLE_EXPSUM_H

#include "oracle/rows.h"
#include "oracle/sums.h"

/** How a kernel under the contract may evaluate exp(x - max) and add the results up. */
typedef struct vn_exp_model {
    vn_format_t acc;
    double u, tau, t;      /* accumulator; t: ULP budget of exp */
    double u_mid, eta_mid; /* hidden weights stored in a narrower format: its roundoff, else 0 */
    double slope;          /* roundings of the argument, in u |d|: 1 for exp, 2 for exp2 with a folded constant, +1 for online rescaling */
    bool unfolded;         /* exp2(x log2 e - max log2 e): the products round before the difference */
} vn_exp_model_t;

vn_exp_model_t vn_exp_model(const vn_eval_t *e);

typedef struct vn_exp_row {
    double max;      /* of the row; NaN if any term is NaN */
    vn_sum2_t total; /* sum of exp(x - max), >= 1 for a regular row */
    double spread;   /* D of the sheet: relative error of the computed denominator; +Inf: void */
    double rescales; /* of an online evaluation, */
    bool counted;    /* once it is known: vn_exp_wrong may be asked twice about a row */
    double shift;    /* largest operand uncertainty */
    bool regular;    /* max is finite */
} vn_exp_row_t;

/** x <- exp(x), relative error at most 2^-52 for results above 2^-1022 (claim VMATH-1). */
void vn_exp_array(double *x, int64_t n);

/**
 * w[k] = exp(x[k] - max) and their sum. err (operand uncertainty) may be NULL. Of an irregular row (NaN, +inf, all -inf, n = 0) only
 * max and regular are set and w is not written.
 */
vn_exp_row_t vn_exp_row(int64_t n, const double *x, const double *err, double *w);

/**
 * Claim SOFTMAX-1: wrong[k] = A_k of the sheet (a computed weight is within the factor 1 +- A_k of w[k]), row->spread = D.
 * Only for regular rows.
 */
void vn_exp_wrong(const vn_exp_model_t *m, int64_t n, const double *x, const double *err, const double *w, vn_exp_row_t *row,
                  double *wrong);

/** Variance of log(denominator) from weights w (not normalised): sum p^2 s^2 + V(sum)/l^2. s2 (NULL ok) gets each s_k^2. */
double vn_exp_variance(const vn_exp_model_t *m, int64_t n, const double *x, const double *w, const vn_exp_row_t *row, double *s2);

#endif
