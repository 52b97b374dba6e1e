/* steps.h -- a model run node by node: for workers whose library knows operators but no graphs. */
#ifndef VN_STEPS_H
#define VN_STEPS_H

#include "vernier/graph.h"
#include "vernier/protocol.h"

/** One node made ready: its operator, a slot for each value. */
typedef struct step {
    const vn_node_t *node;
    const void *op; /* what `find` gave */
    int64_t opset;
    int *in, *out; /* slots, -1: absent */
} step_t;

/** One run of a node. Inputs are contiguous; NULL: absent. Outputs are NULL before and set by step_output, or by the operator itself. */
typedef struct step_call {
    const step_t *step;
    int n_in, n_out; /* trailing outputs that nobody reads are not counted */
    vn_tensor_t *const *in;
    vn_tensor_t **out;
    vn_io_t **io; /* of an output that the host asked for, else NULL */
    vn_error_t *err;
} step_call_t;

/** The operator of a node, any pointer but NULL. Errors: UNSUPPORTED, naming operator, node and what is not done; PARSE. */
typedef vn_status_t (*step_find_fn)(void *self, const vn_node_t *n, int64_t opset, const void **op, vn_error_t *err);
typedef vn_status_t (*step_run_fn)(void *self, step_call_t *c);

typedef struct steps steps_t;

/**
 * Parses the model and finds the operator of every node.
 * Errors     UNSUPPORTED (another format than "onnx", or what find says), PARSE, NOMEM.
 * Ownership  the caller frees *out with steps_free.
 */
vn_status_t steps_load(const vn_load_request_t *rq, step_find_fn find, void *self, steps_t **out, vn_error_t *err);
void steps_free(steps_t *s);
int steps_count(const steps_t *s);
const step_t *steps_at(const steps_t *s, int i);

/**
 * Answers one request: initialisers and inputs into slots, all nodes in order, outputs by name (intermediate values too).
 * Errors     USAGE (no such value, an input is missing), DTYPE, what `run` says. Threads: several runs of one steps_t may go on at once.
 */
vn_status_t steps_run(const steps_t *s, step_run_fn run, void *self, vn_run_request_t *rq, vn_error_t *err);

/**
 * Output k to be written in full: the host's own memory where it was declared in this form, else a new tensor. Sets c->out[k].
 * Ownership  *out is borrowed.
 */
vn_status_t step_output(step_call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out);

/** UNSUPPORTED: "PATH (OP): what". */
vn_status_t step_refuse(const vn_node_t *n, vn_error_t *err, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
