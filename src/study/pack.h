/* pack.h -- several isolated operators as disjoint components of one model. */
#ifndef VN_STUDY_PACK_H
#define VN_STUDY_PACK_H

#include "study/study_internal.h"

/** Tasks begin..end-1 on one back end, and what came back: outputs of all tasks in order, absent ones left out. */
typedef struct vn_pack {
    vn_study_t *s;
    vn_backend_t *b;
    const vn_task_t *tasks;
    int begin, end;
    int n_specs;
    vn_output_spec_t *specs;
    vn_arena_t *names;
    vn_output_t *first, *second; /* second: of the repeated run, empty without one */
} vn_pack_t;

/**
 * Builds, loads, runs once or twice, unloads. Refs give types and shapes of the outputs.
 * Errors     of ours (NOMEM, ...): returned, the pack is cleared. Of the back end: VN_OK with *run and why set, the caller clears.
 */
vn_status_t vn_pack_run(vn_pack_t *p, bool twice, vn_status_t *run, vn_error_t *why, vn_error_t *err);
void vn_pack_clear(vn_pack_t *p);

#endif
