/* reveal.h -- the model behind a reveal: one operator, synthesised or taken from the user's model, and how its tensors map to the rows of a sum. */
#ifndef VN_STUDY_REVEAL_H
#define VN_STUDY_REVEAL_H

#include "vernier/graph.h"
#include "vernier/schedule.h"
#include "vernier/study.h"

enum { VN_REVEAL_INPUTS = 4 };

/** How a tensor of the sum becomes the operator's: reshaped to dims, axes permuted, and reshaped to `stored` if the operator merges axes (stored_rank > 0). */
typedef struct vn_layout {
    int rank;
    int64_t dims[VN_MAX_RANK];
    int permutation[VN_MAX_RANK];
    int stored_rank;
    int64_t stored[VN_MAX_RANK];
} vn_layout_t;

/**
 * One operator as reveal sees it. Input k of the sum is input slot[k] of the node; inputs that are no operands of the sum are fixed.
 * Ownership  vn_reveal_model_clear. `model` holds the node and is never run itself: each session is a component of it.
 */
typedef struct vn_reveal_model {
    const vn_model_t *model;
    vn_model_t *owned; /* NULL: the model is somebody else's */
    const vn_node_t *node;
    int n_inputs, n_slots;
    int slot[VN_REVEAL_INPUTS];
    vn_layout_t in[VN_REVEAL_INPUTS], out;
    unsigned constant;   /* bit k: input k of the sum is a weight */
    vn_tensor_t **fixed; /* [n_slots] */
    vn_dtype_t dtype;    /* of the output */
    int64_t out_dims[VN_MAX_RANK];
    int out_rank;
} vn_reveal_model_t;
void vn_reveal_model_clear(vn_reveal_model_t *m);

/** The operator instance as a model of its own. Errors: USAGE names the field of `op` that is out of range. */
vn_status_t vn_reveal_model_of(const vn_sum_op_t *op, unsigned constant, vn_reveal_model_t *out, vn_error_t *err);
/**
 * The node of a user's model and the sum it is. Shapes from the oracle, which evaluates the model on seeded inputs.
 * Errors     NOTFOUND: no such node; UNSUPPORTED names the operator or the attribute that makes it no sum known here.
 */
vn_status_t vn_reveal_model_node(const char *path, const char *node, int n_shapes, const vn_shape_arg_t *shapes, uint64_t seed,
                                 vn_sum_op_t *op, vn_reveal_model_t *out, vn_error_t *err);

/**
 * The same of a node whose inputs are there: an isolated task; frozen[k]: input k is a weight. model, node and inputs are borrowed. Errors: UNSUPPORTED: no sum known here.
 */
vn_status_t vn_reveal_model_task(const vn_model_t *model, const vn_node_t *node, const vn_value_t *const *inputs, const bool *frozen,
                                 vn_sum_op_t *op, vn_reveal_model_t *out, vn_error_t *err);

/** There is a method for such operators, whatever their attributes. */
bool vn_reveal_reads(const vn_node_t *n);

/** Reveals on a worker that runs. *loads: models that were loaded, may be NULL. card: NULL, or where to put the arithmetic card of a product. */
vn_status_t vn_reveal_on(vn_worker_t *w, const vn_reveal_model_t *m, const vn_sum_op_t *op, const vn_reveal_options_t *o,
                         vn_schedule_t **out, vn_card_t **card, int64_t *loads, vn_error_t *err);
/** A tensor of the operator in the sum's layout: the way back of vn_layout_t. */
vn_status_t vn_layout_undo(const vn_layout_t *l, const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err);

#endif
