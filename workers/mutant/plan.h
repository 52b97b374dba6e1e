/* plan.h -- a loaded graph made ready: every value has a slot, every node its operator, every slot its last use. */
#ifndef VN_MUTANT_PLAN_H
#define VN_MUTANT_PLAN_H

#include "mutant.h"

typedef struct step {
    const vn_node_t *node;
    const op_row_t *op;
    int64_t opset;
    int *in, *out; /* slots, -1: absent */
} step_t;

typedef struct plan {
    vn_arena_t *arena;
    const vn_model_t *model;
    int n_slots, n_steps;
    const char **names; /* of the slots, sorted */
    step_t *steps;
    int *last_use; /* step after which the slot may go; n_steps for graph outputs and constants */
} plan_t;

/** Errors: UNSUPPORTED names the first operator that is not known; NOMEM. */
vn_status_t plan_make(const vn_model_t *m, plan_t *p, vn_error_t *err);
void plan_free(plan_t *p);
int plan_slot(const plan_t *p, const char *name); /* -1 if there is no such value */

#endif
