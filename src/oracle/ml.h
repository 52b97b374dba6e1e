/* ml.h -- what the files of domain ai.onnx.ml share: attributes, tiers of arithmetic, class scores and how they become outputs.
 *
 * Scores are computed in f64 with an error per tier (claims ML-1 to ML-4 in docs/claims-ml.md); ml_post.c turns them into an output with bound,
 * second tier, variance and named readings; ml_label.c turns them into labels that stay open where two scores lie within their errors.
 */
#ifndef VN_ORACLE_ML_H
#define VN_ORACLE_ML_H

#include "oracle/move.h"
#include "oracle/sums.h"

/* ---- attributes ---- */

/** Attribute of strings; NULL when absent or of another kind. *n is then 0. */
const vn_string_t *vn_ml_strings(const vn_eval_t *e, const char *name, int64_t *n);
/** Integers; NULL when absent or empty. */
const int64_t *vn_ml_ints(const vn_eval_t *e, const char *name, int64_t *n);
/**
 * Numbers of attribute `name` (floats), or of tensor attribute `tensor` (may be NULL) where the first is absent or empty, as doubles.
 * *out NULL and *n 0: neither is there. Ownership: vn_free. Errors: DTYPE: the tensor holds no numbers; NOMEM.
 */
vn_status_t vn_ml_numbers(vn_eval_t *e, const char *name, const char *tensor, double **out, int64_t *n);

/** Keys or class labels: strings or integers, borrowed from the node. count 0: neither is given. */
typedef struct vn_ml_labels {
    const vn_string_t *text;
    const int64_t *ints;
    int64_t count;
} vn_ml_labels_t;
/** RANGE when both are given. */
vn_status_t vn_ml_labels_of(vn_eval_t *e, const char *ints, const char *strings, vn_ml_labels_t *out);

/** Place of a named choice in a NULL-terminated list; RANGE names attribute and value. */
vn_status_t vn_ml_choice(vn_eval_t *e, const char *name, const char *fallback, const char *const *list, int *out);

/** Type of operand k is one of f32, f64, i32, i64 (and f16 or string where allowed), else DTYPE. */
vn_status_t vn_ml_number_type(vn_eval_t *e, int k, bool f16);
/** Operand 0 as n rows of f features; a vector is one row. Errors: SHAPE, DTYPE. */
vn_status_t vn_ml_matrix(vn_eval_t *e, bool f16, int64_t *n, int64_t *f);

/* ---- tiers ---- */

/** One arithmetic that an evaluation may use. u counts the f64 rounding of the oracle's own evaluation in the same formulas. */
typedef struct vn_ml_tier {
    vn_eval_t e; /* the evaluation under `contract`, for budgets */
    vn_contract_t contract;
    vn_format_t format;
    double u, eta, tau;
    double *err; /* uncertainty of operand 0, NULL: exact */
} vn_ml_tier_t;

/**
 * Operand 0 as a matrix, with its tiers: [0] the contract; [1], where there is one, every operand cast to f32 first ("operand-f32": outputs of
 * the domain are f32 even for f64 and 64-bit integer operands). `last` is the wider one.
 */
typedef struct vn_ml {
    vn_eval_t *e;
    int64_t n, f;
    const double *x;
    int last;
    vn_ml_tier_t tier[2];
} vn_ml_t;
/** f16: TreeEnsemble, which takes f16 too and whose output has the operand's type: one tier. vn_ml_close also after a failure. */
vn_status_t vn_ml_open(vn_eval_t *e, bool f16, vn_ml_t *m);
void vn_ml_close(vn_ml_t *m);

/* ---- scores ---- */

/** n rows of c scores; err[t] is E of tier t; planes of NULL are not wanted. */
typedef struct vn_ml_scores {
    int64_t n, c;
    double *y, *err[2], *var;
} vn_ml_scores_t;
vn_status_t vn_ml_scores_new(const vn_ml_t *m, int64_t c, vn_ml_scores_t *s);
void vn_ml_scores_free(vn_ml_scores_t *s);

/**
 * Error of a sum of n products or terms (CONTRACT-1, SUM-1): rounded = roundings that each term may meet; total = sum of |terms|, operand
 * uncertainty included.
 */
static inline double vn_ml_sum_error(const vn_ml_tier_t *t, double rounded, double total, double products) {
    const double g = vn_gamma(rounded, t->u);
    return g * total + products * t->eta / 2 * (1 + g);
}

typedef enum vn_ml_post {
    VN_ML_NONE,
    VN_ML_SOFTMAX,
    VN_ML_LOGISTIC,
    VN_ML_SOFTMAX_ZERO,
    VN_ML_PROBIT,
} vn_ml_post_t;
/** Attribute post_transform of the node; RANGE for another name. */
vn_status_t vn_ml_post_of(vn_eval_t *e, vn_ml_post_t *out);

/** How one score becomes two. */
typedef enum vn_ml_expand { VN_ML_AS_IS, VN_ML_NEGATED /* -s, s */, VN_ML_ONE_MINUS /* 1 - s, s */, VN_ML_FIRST /* s, 0 */ } vn_ml_expand_t;

/** One way from scores to an output. name NULL: the output itself, else a reading. */
typedef struct vn_ml_form {
    const char *name;
    vn_ml_expand_t expand;
    vn_ml_post_t post;
    bool fit; /* PROBIT by the elementary approximation of the inverse error function, "probit-approximation" */
} vn_ml_form_t;

/**
 * Writes output k of type t from scores: forms[0] is the output, the others become readings where they differ from it. Adds the reading
 * "probit-approximation" by itself. Errors: NOMEM.
 */
vn_status_t vn_ml_emit(vn_ml_t *m, int k, vn_dtype_t t, const vn_ml_scores_t *s, const vn_ml_form_t *forms, int n_forms);
/** Scores of a form before its post transform (new planes); NULL planes stay NULL. */
vn_status_t vn_ml_expanded(const vn_ml_t *m, const vn_ml_scores_t *s, vn_ml_expand_t expand, vn_ml_scores_t *out);
/** A reading of float output k from values and errors before the store. Takes over nothing. */
vn_status_t vn_ml_reading(vn_eval_t *e, int k, const char *name, const double *y, const double *err);

/** y = quantile of the standard normal distribution; NaN outside [0, 1]. Relative error below 2^-48. */
double vn_ml_probit(double p);

/* ---- labels ---- */

/** What was decided for each row: best index, another that may be it too (or best again), and whether even more may be. */
typedef struct vn_ml_choice_plane {
    int64_t n;
    int64_t *best, *other;
    uint8_t *open;
} vn_ml_choices_t;
vn_status_t vn_ml_choices_new(vn_eval_t *e, int64_t n, vn_ml_choices_t *c);
void vn_ml_choices_free(vn_ml_choices_t *c);
/** Claim ML-5: the first of the largest; another within both errors is `other`; two and more others, or a NaN: open. */
void vn_ml_top(const vn_ml_t *m, const vn_ml_scores_t *s, vn_ml_choices_t *c);
/** best = column 0 of s beyond `threshold` ? 1 : 0; within its error of it: either. */
void vn_ml_beyond(const vn_ml_t *m, const vn_ml_scores_t *s, double threshold, vn_ml_choices_t *c);
/** Output k of labels; an index outside the labels is the integer itself. */
vn_status_t vn_ml_label_out(vn_eval_t *e, int k, const vn_ml_labels_t *l, const vn_ml_choices_t *c);
/** The same choices as a reading, where they give other labels. */
vn_status_t vn_ml_label_reading(vn_eval_t *e, int k, const vn_ml_labels_t *l, const vn_ml_choices_t *c, const char *name);
/** Reading "top-of-transformed": the largest of output k_scores as stored; only after vn_ml_emit. */
vn_status_t vn_ml_label_transformed(vn_eval_t *e, int k, const vn_ml_labels_t *l, int k_scores);
/** Types and shapes of a classifier: labels [n] and scores [n, c]. */
vn_status_t vn_ml_infer_classes(vn_eval_t *e, const vn_ml_labels_t *l, int64_t c);

/* ---- rows by file ---- */
#define VN_ML_ROW(name)                     \
    vn_status_t vn_ml_##name(vn_eval_t *e); \
    vn_status_t vn_infer_ml_##name(vn_eval_t *e)
VN_ML_ROW(array_feature_extractor); /* op_ml_feature.c */
VN_ML_ROW(binarizer);
VN_ML_ROW(feature_vectorizer);
VN_ML_ROW(imputer);
VN_ML_ROW(one_hot_encoder);
VN_ML_ROW(category_mapper); /* op_ml_map.c */
VN_ML_ROW(label_encoder);
VN_ML_ROW(cast_map); /* op_ml_dict.c */
VN_ML_ROW(dict_vectorizer);
vn_status_t vn_ml_zip_map(vn_eval_t *e);
VN_ML_ROW(scaler); /* op_ml_scale.c */
VN_ML_ROW(normalizer);
VN_ML_ROW(linear_classifier); /* op_ml_linear.c */
VN_ML_ROW(linear_regressor);
VN_ML_ROW(svm_classifier); /* op_ml_svm.c */
VN_ML_ROW(svm_regressor);
VN_ML_ROW(tree_ensemble); /* op_ml_tree.c */
VN_ML_ROW(tree_classifier);
VN_ML_ROW(tree_regressor);
#undef VN_ML_ROW

#endif
