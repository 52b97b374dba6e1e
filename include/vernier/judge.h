/* vernier/judge.h -- from numbers to a verdict: the ladder of docs/judge.md. */
#ifndef VERNIER_JUDGE_H
#define VERNIER_JUDGE_H

#include "vernier/base.h"
#include "vernier/contract.h"
#include "vernier/graph.h"
#include "vernier/oracle.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum vn_effort { VN_EFFORT_QUICK, VN_EFFORT_NORMAL, VN_EFFORT_DEEP } vn_effort_t;

/** Where the first wrong element stands and what it holds. index -1: none. */
typedef struct vn_divergence {
    int64_t index; /* flat, row-major */
    int rank;
    int64_t at[VN_MAX_RANK];
    double expected, actual;
    uint64_t expected_bits, actual_bits;
} vn_divergence_t;

/** Everything one judgement found about one output. Numbers that do not apply are NaN. */
typedef struct vn_finding {
    vn_verdict_t verdict;
    char cause[96];               /* id of docs/causes.md, "" if none */
    char note[256];               /* named note of a pass by the second tier, reading of a spec-open, reason of uninformative */
    char words[512];              /* the cause line: location, arithmetic, figures */
    int64_t count;                /* elements */
    int64_t unequal;              /* not equal to the correctly rounded oracle */
    int64_t outside;              /* outside the bound */
    int64_t escalated, undecided; /* of the oracle: elements evaluated again; those that more digits did not decide (vn_ref_t) */
    double error_over_bound, rms_ratio, z_max, sign_bias, ulp_max, max_abs_error;
    double impact;            /* largest error over the rms of the output */
    double oracle_over_bound; /* the oracle's own error over the bound, largest */
    vn_divergence_t first;
    int deterministic; /* 1 yes, 0 no, -1 not tried */
    int detection_caught, detection_of;
    double detection_smallest; /* smallest relative single-element error that this check flags (median over elements); NaN if none */
    double detection_worst;    /* the same of the element about which it says least */
    char rungs[768];           /* what each rung said: "form ok; repeat -; equality 188/400; ..." */
    char declared[160];        /* the contract in force */
    char schedule[320];        /* rung 9: text, arithmetic and identity of the observed schedule, "" if none was read */
} vn_finding_t;

/** Memory between the questions about one back end: its last few hypotheses that held, newest first. Zero-initialised by the caller. */
enum { VN_HINTS = 4 };
typedef struct vn_hint {
    int count;
    int held[VN_HINTS]; /* private numbers of rung 7 */
} vn_hint_t;

/** Which hypotheses rung 7 asks where the contract does not explain a result. */
typedef enum vn_ask {
    VN_ASK_ALL,         /* those that held before (see hint), then all others */
    VN_ASK_HINTED,      /* only those that held before: the caller has more to try first */
    VN_ASK_NONE,        /* none: the caller only asks whether the contract explains it */
    VN_ASK_ARITHMETICS, /* as ALL, but wrong results get no names of their own (semantic, structural): there is more to try first */
    VN_ASK_NAMES        /* only such names */
} vn_ask_t;

/**
 * One question: node (or, node == NULL, the whole top graph) on `inputs` gave `actual`.
 * inputs: node->n_inputs values, or one value per graph input. refs: of vn_oracle_node / vn_oracle_region under `contract` with
 * VN_WANT_VARIANCE, one per output. actual2 may be NULL (no repeated run).
 */
typedef struct vn_question {
    const vn_model_t *model;
    const vn_node_t *node;
    const vn_value_t *const *inputs;
    const vn_bundle_t *outer;
    const vn_contract_t *contract;
    const vn_ref_t *refs;
    int n_outputs;
    const vn_value_t *const *actual;
    const vn_value_t *const *actual2;
    const int64_t *poison_left;    /* per output, or NULL */
    const bool *guard_broken;      /* per output, or NULL */
    const char *const *form_error; /* per output, "" fine, or NULL */
    double alpha;                  /* false-alarm probability left for this question (bounds.md, false-alarm calculus 1) */
    vn_effort_t effort;
    struct vn_hint *hint; /* NULL, or what explained earlier outputs of the same back end: tried first */
    vn_ask_t ask;
    bool stepwise; /* refs are of vn_oracle_steps with `actual` as the given states */
} vn_question_t;

/** Fills findings[0 .. n_outputs). Errors: NOMEM, INTERNAL; anything about the data is a verdict, not an error. */
VN_API vn_status_t vn_judge(const vn_question_t *q, vn_finding_t *findings, vn_error_t *err);

/** Metrics without an operator: no verdict is possible. */
typedef struct vn_metrics {
    int64_t count, unequal, nan_a, nan_b, inf_a, inf_b;
    double max_abs, max_rel, rms, rms_relative, cosine, ulp_max;
    vn_divergence_t first, worst;
} vn_metrics_t;
VN_API vn_status_t vn_metrics(const vn_tensor_t *a, const vn_tensor_t *b, vn_metrics_t *out, vn_error_t *err);

/** A fixed criterion, for those who have one: bits equal, or |candidate - reference| <= absolute + relative |reference|, both finite. */
typedef struct vn_compare_rule {
    bool exact;
    double absolute, relative;
} vn_compare_rule_t;
/**
 * What a criterion says, element by element (format "element comparison semantics, version 1").
 * Units      max_relative: error over max(|reference|, smallest normal number of its type). rms: over all elements, those that are not finite
 *            on a side count as 0 in the sum. Maxima run over elements finite on both sides, failed or not. first: flat index of the first
 *            failure, -1 none; its errors are NaN where a side is not finite.
 */
typedef struct vn_comparison {
    int64_t count, failures, non_finite_failures, first;
    double max_absolute, max_relative, rms, first_absolute, first_relative;
} vn_comparison_t;
/** Errors: SHAPE, DTYPE (real floating-point types only, the same on both sides); NOMEM. */
VN_API vn_status_t vn_compare(const vn_tensor_t *reference, const vn_tensor_t *candidate, const vn_compare_rule_t *rule,
                              vn_comparison_t *out, vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
