/* vjp.h -- what the rules of reverse-mode differentiation share: the node under differentiation, and how its backward nodes are written.
 *
 * A rule turns cotangents of a node's outputs into cotangents of its inputs, as ONNX nodes. It never computes: values, bounds and
 * variances of a gradient are those that the oracle gives to the nodes.
 * Errors are sticky: after the first failure every function here does nothing and returns "".
 */
#ifndef VN_ORACLE_VJP_H
#define VN_ORACLE_VJP_H

#include "oracle/frame.h"

enum { VN_VJP_MAX = 16 }; /* inputs of an emitted node, outputs of a differentiated one */

typedef struct vn_vjp {
    vn_model_t *model; /* under construction: forward nodes, then backward ones */
    vn_graph_t *graph;
    vn_arena_t *arena;
    const vn_inferred_t *facts; /* types and shapes of the forward values */
    int64_t version;            /* of ai.onnx */
    int fresh;
    vn_status_t status;
    vn_error_t *err;
    /* the node whose rule runs */
    vn_node_t node;
    const char *cot[VN_VJP_MAX]; /* cotangent of output k; NULL: none, it counts as zero */
    const vn_scope_t *active;    /* names that depend on an x */
    void *sums;                  /* private to gradient.c */
} vn_vjp_t;

typedef void (*vn_vjp_fn)(vn_vjp_t *v, int param);
typedef struct vn_vjp_rule {
    const char *names; /* operators of ai.onnx, separated by spaces */
    vn_vjp_fn rule;    /* NULL: the derivative is zero wherever it exists */
    int param;
} vn_vjp_rule_t;
typedef struct vn_vjp_table {
    const vn_vjp_rule_t *rules;
    int count;
} vn_vjp_table_t;
extern const vn_vjp_table_t vn_vjp_elementwise, vn_vjp_shapes, vn_vjp_sums, vn_vjp_fused;

/* ---- the operator Gradient ---- */
/** What a Gradient node asks for; names live in the node's model and in `arena`. Errors: USAGE. */
vn_status_t vn_gradient_node_ask(const vn_node_t *node, vn_arena_t *arena, vn_gradient_ask_t *ask, vn_error_t *err);
vn_status_t vn_eval_gradient(vn_eval_t *e);
vn_status_t vn_infer_gradient(vn_eval_t *e);

/* ---- the node (gradient.c) ---- */
const char *vn_vjp_in(const vn_vjp_t *v, int k);                                    /* name of input k, "" if absent */
const char *vn_vjp_out(const vn_vjp_t *v, int k);                                   /* name of output k; SHAPE-like use needs it named */
const vn_inferred_value_t *vn_vjp_fact(vn_vjp_t *v, const char *name);              /* fully known type and shape, else a failure */
bool vn_vjp_needs(const vn_vjp_t *v, int k);                                        /* input k is given, a float, and depends on an x */
void vn_vjp_give(vn_vjp_t *v, int k, const char *cotangent);                        /* adds to the cotangent of input k */
void vn_vjp_fail(vn_vjp_t *v, vn_status_t s, const char *fmt, ...) VN_PRINTF(3, 4); /* names the node */
/** Values of an integer input that the forward graph fixes. False: not known (a failure is set) or absent (n = 0, no failure). */
bool vn_vjp_known_ints(vn_vjp_t *v, int k, int64_t *out, int max, int *n);

/* ---- writing nodes (vjp_emit.c) ---- */
/** Appends a node with one output and returns the output's name. *node, if given, may get attributes until the next node. */
const char *vn_vjp_emit(vn_vjp_t *v, const char *op, int n, const char *const *inputs, vn_node_t **node);
const char *vn_vjp_1(vn_vjp_t *v, const char *op, const char *a);
const char *vn_vjp_2(vn_vjp_t *v, const char *op, const char *a, const char *b);
const char *vn_vjp_3(vn_vjp_t *v, const char *op, const char *a, const char *b, const char *c);
static inline const char *vn_vjp_mul(vn_vjp_t *v, const char *a, const char *b) { return vn_vjp_2(v, "Mul", a, b); }
static inline const char *vn_vjp_add(vn_vjp_t *v, const char *a, const char *b) { return vn_vjp_2(v, "Add", a, b); }
static inline const char *vn_vjp_sub(vn_vjp_t *v, const char *a, const char *b) { return vn_vjp_2(v, "Sub", a, b); }
static inline const char *vn_vjp_div(vn_vjp_t *v, const char *a, const char *b) { return vn_vjp_2(v, "Div", a, b); }
void vn_vjp_int(vn_vjp_t *v, vn_node_t *n, const char *name, int64_t x);
void vn_vjp_ints(vn_vjp_t *v, vn_node_t *n, const char *name, const int64_t *x, int64_t count);
/** A scalar constant of type t, rounded to it. */
const char *vn_vjp_scalar(vn_vjp_t *v, vn_dtype_t t, double x);
/** A one-dimensional int64 constant. */
const char *vn_vjp_list(vn_vjp_t *v, const int64_t *x, int n);
const char *vn_vjp_filled(vn_vjp_t *v, const vn_inferred_value_t *like, double x); /* constant of that type and shape */
const char *vn_vjp_reshape(vn_vjp_t *v, const char *x, int rank, const int64_t *dims);
const char *vn_vjp_expand(vn_vjp_t *v, const char *x, int rank, const int64_t *dims);
const char *vn_vjp_transpose(vn_vjp_t *v, const char *x, int rank, const int64_t *perm);
const char *vn_vjp_slice(vn_vjp_t *v, const char *x, int n, const int64_t *starts, const int64_t *ends, const int64_t *axes,
                         const int64_t *steps);
/** Sum over the axes marked; keep: they stay with length 1. */
const char *vn_vjp_sum(vn_vjp_t *v, const char *x, int rank, const bool *along, bool keep);
/** x of shape `from` summed over the axes along which `to` was broadcast. */
const char *vn_vjp_unbroadcast(vn_vjp_t *v, const char *x, int rank, const int64_t *from, const vn_inferred_value_t *to);
/** Axis attribute or a default, made non-negative. */
int vn_vjp_axis(vn_vjp_t *v, const char *name, int64_t fallback, int rank);

#endif
