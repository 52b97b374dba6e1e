/* ml_couple.h -- class probabilities from pairwise ones: the coupling of Wu, Lin and Weng (2004), second method, as libsvm iterates it. */
#ifndef VN_ORACLE_ML_COUPLE_H
#define VN_ORACLE_ML_COUPLE_H

#include "vernier/tensor.h"

/** A number and how far a computed one may be from it. */
typedef struct vn_ball {
    double m, r;
} vn_ball_t;

/** Scratch for k classes: this many balls. */
static inline int64_t vn_couple_scratch(int64_t k) { return k * k + 2 * k; }

/**
 * Claim ML-COUPLE: p[t] = class probability, r[i * k + j] = probability of i against j. The iteration ends when no residual of Q p = (p Q p) is
 * above 0.005/k, at the latest after max(100, k) rounds.
 * Bound      the smaller of two: balls carried through every operation in roundoff u (only while the computed test for the end is decided), and
 *            what the residual allows: |p - p*| <= |M^-1| residual, M the bordered matrix, doubled for two runs that may end elsewhere.
 *            p[t].r = +Inf where neither says anything.
 */
void vn_couple(int64_t k, const vn_ball_t *r, double u, vn_ball_t *p, vn_ball_t *scratch);

#endif
