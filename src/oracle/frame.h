/* frame.h -- what surrounds a registry row: operands in, planes out, then store, flush and overflow. Shared by eval.c and executor.c. */
#ifndef VN_ORACLE_FRAME_H
#define VN_ORACLE_FRAME_H

#include "oracle/registry.h"

/** A name's value while a graph runs. In a region `ref` carries the unrounded planes. */
typedef struct vn_slot {
    const char *name;
    vn_value_t *value;
    vn_ref_t *ref;
    int uses; /* reads still to come; at 0 the slot is emptied; -1 = keep */
} vn_slot_t;

typedef struct vn_scope {
    struct vn_scope *outer;
    vn_slot_t *slots; /* open addressing */
    size_t capacity, used;
    const vn_bundle_t *bundle; /* names given from outside, looked up last */
} vn_scope_t;

typedef struct vn_oracle_run {
    const vn_model_t *model;
    const vn_contract_t *contract; /* unresolved */
    int want;
    bool region;
    bool plain;               /* VN_WANT_PLAIN */
    const vn_opset_t *opsets; /* of the function body that runs, or the model's */
    int n_opsets;
    vn_step_fn fn;
    void *fn_ctx;
    vn_scope_t *scope;
    const char *prefix;    /* path of the body that runs, "" at the top */
    const vn_node_t *call; /* the function call whose body runs: its attributes stand for ref_attr_name */
    const vn_function_t *function;
    int depth;
    const vn_value_t *const *given; /* returned outputs of the one node that is evaluated, or NULL */
} vn_oracle_run_t;

/** Runs all nodes of a graph in its scope (inputs already there). */
vn_status_t vn_run_graph(vn_oracle_run_t *run, vn_scope_t *scope, const vn_graph_t *g, vn_error_t *err);

int64_t vn_run_version(const vn_oracle_run_t *run, const char *domain);

/**
 * The node as it runs: inside a function body, attributes that refer to the call's are replaced by them, or dropped where the call has none.
 * *copy shares everything with `node` but, where needed, its list of attributes, which lives in *arena (made on demand, the caller's).
 */
vn_status_t vn_run_attrs(const vn_oracle_run_t *run, const vn_node_t *node, vn_arena_t **arena, vn_node_t *copy, vn_error_t *err);

/** Before a row runs: operands that the standard demands are there, and tensors where it has no sequences. Errors: SHAPE, DTYPE. */
vn_status_t vn_operands_check(vn_eval_t *e);
/** One node with slots as operands; fills out[0..n_outputs). The rows' frame. */
vn_status_t vn_frame_node(vn_oracle_run_t *run, const vn_graph_t *graph, const vn_node_t *node, vn_arg_t *in, const vn_bundle_t *outer,
                          vn_ref_t *out, vn_error_t *err);
/** Evaluates a model-local function as a region with the given operands. */
vn_status_t vn_frame_function(vn_oracle_run_t *run, const vn_function_t *f, const vn_node_t *node, vn_arg_t *in, vn_ref_t *out,
                              vn_error_t *err);
/** Every output of e makes no statement any more: something that decides it is uncertain. */
vn_status_t vn_frame_void(vn_eval_t *e);
void vn_arg_clear(vn_arg_t *arg); /* releases planes made on the way */
/** Value of a ref as it flows on: tensor (retained) or nested. */
vn_value_t *vn_ref_value(const vn_ref_t *r);

/* scope */
vn_status_t vn_scope_put(vn_scope_t *s, const char *name, vn_value_t *value, vn_ref_t *ref, int uses,
                         vn_error_t *err); /* takes over both */
vn_slot_t *vn_scope_local(const vn_scope_t *s, const char *name);
/** Looks outwards; *t gets a bundle's tensor where the name is only there. */
vn_slot_t *vn_scope_find(const vn_scope_t *s, const char *name, const vn_tensor_t **t);
void vn_scope_clear(vn_scope_t *s);

#endif
