/* vernier/evidence.h -- flat rows of what was judged. Knows nothing of graphs or tensors. */
#ifndef VERNIER_EVIDENCE_H
#define VERNIER_EVIDENCE_H

#include "vernier/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One judgement. Strings are owned by the record's arena; NULL = does not apply. NaN = does not apply. */
typedef struct vn_row {
    const char *node, *output, *op, *domain, *backend, *mode; /* mode: isolated | with-weights | in-situ | graph | gradient */
    const char *declared, *duplicate_of, *cause, *note, *words, *rungs;
    vn_verdict_t verdict;
    int64_t order; /* position of the node in the run, for "first" */
    int64_t count, unequal, outside;
    int64_t escalated, undecided; /* by the oracle, see vn_ref_t */
    double error_over_bound, rms_ratio, z_max, sign_bias, ulp_max, max_abs_error, impact, oracle_over_bound;
    int64_t first_index;
    const char *first_at; /* "[0,56,0,48]" */
    double first_expected, first_actual;
    uint64_t first_expected_bits, first_actual_bits;
    int deterministic, detection_caught, detection_of;
    double detection_smallest, detection_worst; /* relative error of one element that is noticed: median and worst over elements */
    const char *schedule;
} vn_row_t;

typedef struct vn_backend_record {
    const char *spec, *identity_json, *environment_json, *error; /* error: why it could not be started */
    const char *observer;                                        /* what exposing intermediates changed, or NULL */
    double observer_max;
    const char *drift_output; /* graph output with the largest distance from the reference trajectory */
    double drift_max, drift_relative;
    double seconds;
    int64_t peak_bytes;
} vn_backend_record_t;

/** A whole run. */
typedef struct vn_record {
    vn_arena_t *arena;
    const char *command; /* "check", "judge" */
    const char *model_path, *model_sha256;
    int64_t opset, nodes, judged_nodes, constants;
    const char *inputs; /* "x f32[1,3,48,320]" */
    const char *inputs_sha256;
    uint64_t seed;
    bool seeded;
    const char *oracle_blas;
    double oracle_over_bound; /* largest over all rows */
    int n_backends, n_rows, rows_capacity, n_notes;
    vn_backend_record_t *backends;
    vn_row_t *rows;
    const char **notes; /* free lines: what was not covered and why */
    double seconds;
    int64_t peak_bytes; /* host */
} vn_record_t;

VN_API vn_record_t *vn_record_new(void);
VN_API void vn_record_free(vn_record_t *r);
/** New zeroed row (numbers NaN, indices -1) at the end; NULL on no memory. Valid until the next call. */
VN_API vn_row_t *vn_record_row(vn_record_t *r);
VN_API const char *vn_record_string(vn_record_t *r, const char *s); /* copy in the arena; NULL stays NULL */
VN_API vn_status_t vn_record_note(vn_record_t *r, const char *fmt, ...) VN_PRINTF(2, 3);

/** What counts: allow turns a cause or verdict into a pass (listed), fail_on turns a verdict or cause into a failure. Comma lists or NULL. */
typedef struct vn_policy {
    const char *allow, *fail_on;
} vn_policy_t;
VN_API bool vn_row_allowed(const vn_row_t *row, const vn_policy_t *p);
VN_API bool vn_row_fails(const vn_row_t *row, const vn_policy_t *p);
/** 0 every verdict passes; 1 at least one fails; 3 inconclusive. A run without rows, or with a back end that did not start, is 3. */
VN_API int vn_record_exit(const vn_record_t *r, const vn_policy_t *p);

#ifdef __cplusplus
}
#endif
#endif
