/* vernier/study.h -- the pipeline: plan, run, judge, record. */
#ifndef VERNIER_STUDY_H
#define VERNIER_STUDY_H

#include "vernier/base.h"
#include "vernier/contract.h"
#include "vernier/evidence.h"
#include "vernier/judge.h"
#include "vernier/probe.h"
#include "vernier/schedule.h"
#include "vernier/tensor.h"
#include "vernier/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*vn_progress_fn)(void *ctx, const char *phase, int64_t done, int64_t total);

typedef struct vn_check_options {
    const char *model_path;
    int n_backends;
    const char *const *backends; /* specs */
    const char *inputs_path;     /* NULL: seeded */
    uint64_t seed;
    int n_shapes;
    const vn_shape_arg_t *shapes;
    vn_contract_t contract;
    vn_effort_t effort;
    bool skip_in_situ, skip_graph;
    double timeout_s;
    int64_t memory_bytes;
    const char *cache;
    vn_progress_fn progress;
    void *progress_ctx;
} vn_check_options_t;

/**
 * The main job. Errors are those of unreadable input (USAGE, IO, PARSE, ...); a back end that fails is a row or a record entry.
 * Ownership  *out is the caller's (vn_record_free), also when VN_OK is not returned it is NULL.
 */
VN_API vn_status_t vn_check(const vn_check_options_t *o, vn_record_t **out, vn_error_t *err);

typedef struct vn_judge_options {
    const char *model_path, *inputs_path;
    int n_actual; /* 1 or 2 */
    const char *actual_paths[2];
    vn_contract_t contract;
    vn_effort_t effort;
} vn_judge_options_t;
/** A dump judged without a back end: one row per graph output, backend "dump", mode "isolated" (one node) or "graph". */
VN_API vn_status_t vn_judge_dump(const vn_judge_options_t *o, vn_record_t **out, vn_error_t *err);

/** One back end and one sum: of `op`, or of a node of a model. */
typedef struct vn_reveal_request {
    const char *backend;    /* spec */
    vn_sum_op_t op;         /* read when model_path is NULL */
    unsigned constant;      /* bit k: input k of op is a weight of the model */
    const char *model_path; /* NULL: the operator of op, alone in a model */
    const char *node;       /* its path in the model */
    int n_shapes;
    const vn_shape_arg_t *shapes; /* of the model's inputs */
    vn_reveal_options_t reveal;
    bool card; /* products: the probes of the arithmetic card, too */
    double timeout_s;
    int64_t memory_bytes;
} vn_reveal_request_t;
typedef struct vn_reveal_result {
    vn_schedule_t *schedule;
    vn_card_t *card;              /* NULL: not asked, or no product */
    char *identity, *environment; /* JSON of the back end */
    int64_t loads;                /* models that were loaded */
} vn_reveal_result_t;
/**
 * Starts the back end, reads the schedule of one operator instance off it, and stops it.
 * Errors     USAGE and NOTFOUND of the request, UNSUPPORTED of method or back end, CRASHED, TIMEOUT, MEMORY_LIMIT, WORKER of the back end.
 * Ownership  vn_reveal_result_free, also after an error.
 */
VN_API vn_status_t vn_study_reveal(const vn_reveal_request_t *r, vn_reveal_result_t *out, vn_error_t *err);
VN_API void vn_reveal_result_free(vn_reveal_result_t *r);

/** Elementary functions and division of one back end: probes P25 and P26. */
typedef struct vn_functions_request {
    const char *backend; /* spec */
    uint64_t seed;       /* of the f32 samples: equal seeds give equal arguments on every machine, so that hashes can be compared */
    double timeout_s;
    int64_t memory_bytes;
} vn_functions_request_t;
typedef struct vn_functions_result {
    int n_rows;
    vn_elementary_row_t *rows; /* every function of vn_elementaries in f32, f16, bf16; an operator that is not there has its reason */
    int n_divisions;
    vn_card_row_t *divisions; /* by 3 and by 10, as a weight and as an input */
} vn_functions_result_t;
/**
 * Starts the back end, runs each function on all its arguments in one call, compares with the oracle, and stops it.
 * Errors     of the request and of the start, as vn_study_reveal; a function that fails is a row.
 * Ownership  vn_functions_result_free, also after an error.
 */
VN_API vn_status_t vn_study_functions(const vn_functions_request_t *r, vn_functions_result_t *out, vn_error_t *err);
VN_API void vn_functions_result_free(vn_functions_result_t *r);

#ifdef __cplusplus
}
#endif
#endif
