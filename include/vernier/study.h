/* vernier/study.h -- the pipeline: plan, run, judge, record. */
#ifndef VERNIER_STUDY_H
#define VERNIER_STUDY_H

#include "vernier/base.h"
#include "vernier/contract.h"
#include "vernier/evidence.h"
#include "vernier/judge.h"
#include "vernier/probe.h"
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

#ifdef __cplusplus
}
#endif
#endif
