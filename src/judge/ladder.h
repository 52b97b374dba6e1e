/* ladder.h -- what the rungs share: one output under judgement, and what one pass over its elements found. */
#ifndef VN_JUDGE_LADDER_H
#define VN_JUDGE_LADDER_H

#include "vernier/judge.h"

/** Counts and extremes of actual against one reference. Deterministic for every thread count. */
typedef struct vn_measure {
    int64_t count;
    int64_t unequal;     /* bits differ from the rounded oracle (NaN equals NaN) */
    int64_t outside;     /* beyond bound (and either, flags, wide), class violations included */
    int64_t wide_used;   /* inside only by the second tier */
    int64_t classes;     /* NaN or infinity on one side only, without permission */
    int64_t nan_allowed; /* NaN where the oracle has none, with permission */
    int64_t nan_extra, nan_missing, inf_extra, inf_missing, zero_extra;
    int64_t voids;                               /* elements about which the bound says nothing */
    int64_t first_unequal, first_outside, worst; /* flat indices or -1 */
    double worst_ratio;                          /* largest error / (bound + own error) over judged elements */
    double max_abs, max_abs_outside, sum_y2;
    double oracle_ratio; /* largest own error / bound */
    double weakest;      /* largest (bound + own) / |value| over values that are not zero: the element about which the check says least */
    /* fingerprint material, over elements with a variance */
    int64_t sigmas;
    double sum_z2, sum_clipped, sum_signed, sum_signed2, z_max;
} vn_measure_t;

/** z above which e^2 is clipped in the rms (bounds.md, false-alarm calculus 5: z of p = 10^-3 for unknown order, about 7.5). */
double vn_clip_z(void);

vn_status_t vn_measure(const vn_ref_t *ref, const vn_tensor_t *actual, vn_measure_t *out, vn_error_t *err);

typedef enum vn_print { VN_PRINT_OK, VN_PRINT_VOID, VN_PRINT_RMS, VN_PRINT_EXTREME } vn_print_t;
/** Fingerprint of a measure against the variance model at error probability alpha (docs/judge.md, rung 6). */
typedef struct vn_fingerprint {
    vn_print_t verdict;
    double rms, rms_limit, z_max, z_limit, bias, bias_limit;
} vn_fingerprint_t;
vn_fingerprint_t vn_fingerprint(const vn_ref_t *ref, const vn_measure_t *m, vn_op_class_t cls, double alpha);
/** Limit of rms error over the model's sigma for unknown order, before sampling error. */
double vn_rms_limit(void);
/** Solves 2 min_t (t/sin t)^1/2 exp(-t z c + S2/2 (1 - t cot t)) <= p for z, S2 = S'^2 (false-alarm calculus 3). */
double vn_chernoff_z(double p, double s2);

struct vn_case;
/** Factor by which correct orders of this very data exceed the variance model (>= 1); +Inf: no terms to try, the model is unproven here. */
vn_status_t vn_twin_scale(struct vn_case *c, double *scale, vn_error_t *err);

/** Some operand of the question holds a subnormal number. */
bool vn_has_subnormal(const vn_question_t *q);

/** One output under judgement. */
typedef struct vn_case {
    const vn_question_t *q;
    int k;
    const vn_ref_t *ref;
    const vn_tensor_t *actual;
    vn_op_class_t cls;
    vn_measure_t m;
    vn_fingerprint_t print;
    vn_finding_t *f;
} vn_case_t;

/** Rung 7. Sets verdict, cause and words if some hypothesis explains the output; *explained tells. */
vn_status_t vn_hypotheses(vn_case_t *c, bool *explained, vn_error_t *err);
/** Element i of a and element j of b, tensors of one type, contiguous, hold the same bits. */
bool vn_same_bits(const vn_tensor_t *a, int64_t i, const vn_tensor_t *b, int64_t j);
/** Largest acceptable distance of element i from the value; negative: the bits must be equal; +Inf: nothing is said about it. */
double vn_room(const vn_ref_t *r, int64_t i);
/** Injected faults against the cheap rungs: caught of tried, smallest relative single-element error. */
vn_status_t vn_detection(vn_case_t *c, vn_error_t *err);

/** The note of a check that could not have failed: the reason, and an input that would inform. */
void vn_uninformative(const vn_case_t *c, char *out, size_t size);

/** Recurrent layers: findings that are open or pass are replaced by those of the single steps (claim JUDGE-3). */
vn_status_t vn_judge_steps(const vn_question_t *q, vn_finding_t *findings, vn_error_t *err);

/** A random output: range, values and distribution (claims DRAW-1 to DRAW-5); sets verdict, cause, note and words. */
vn_status_t vn_judge_draw(vn_case_t *c, vn_error_t *err);

/** Class of the question: the node's, or for a region the strongest of its nodes. */
vn_op_class_t vn_question_class(const vn_question_t *q);
/** Oracle of the question under another contract; refs as in vn_question_t. */
vn_status_t vn_question_oracle(const vn_question_t *q, const vn_contract_t *c, int want, vn_ref_t *refs, vn_error_t *err);

/** Processor seconds of this process so far: budgets in it do not depend on what else the machine does. */
double vn_spent(void);
void vn_rung(vn_finding_t *f, const char *fmt, ...) VN_PRINTF(2, 3);
void vn_index_text(const vn_tensor_t *t, int64_t flat, char *out, size_t size);
void vn_set_divergence(const vn_ref_t *ref, const vn_tensor_t *actual, int64_t flat, vn_divergence_t *d);

#endif
