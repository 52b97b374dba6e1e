/* infer.h -- what the files of shape and type inference share: a fact about one value, names in scope, one node under inference. */
#ifndef VN_ORACLE_INFER_H
#define VN_ORACLE_INFER_H

#include "oracle/frame.h"

enum {
    VN_INFER_SMALL = 1 << 16, /* values of at most this many elements are computed where their inputs are known */
    VN_INFER_PART = 256,      /* integer vectors of at most this many elements are followed element by element */
    VN_INFER_UNROLL = 1024,   /* iterations of a loop that are followed one by one */
};
#define VN_INFER_WORK ((int64_t)1 << 26) /* elements read and written by all evaluations of one call; afterwards shapes only */

/**
 * What is known about a value. `part` and `mask` (both int64, of the value's shape) follow integer vectors of which only some elements are
 * known: mask 1 = part holds the element. Both NULL where v.value is set or nothing is known.
 */
typedef struct vn_fact {
    vn_inferred_value_t v;
    vn_tensor_t *part, *mask;
} vn_fact_t;

void vn_fact_clear(vn_fact_t *f);
void vn_fact_copy(vn_fact_t *to, const vn_fact_t *from); /* `to` holds nothing; shares data, keeps to's name */
/** A tensor of this type; dims NULL: rank known, dimensions not (-1 each); rank -1: not even that. */
void vn_fact_tensor(vn_fact_t *f, vn_dtype_t t, int rank, const int64_t *dims);
/** Takes over v (NULL: no memory). */
vn_status_t vn_fact_value(vn_fact_t *f, vn_value_t *v, vn_error_t *err);
/** A tensor whose type and every dimension are known. */
bool vn_fact_shaped(const vn_fact_t *f);
bool vn_fact_known(const vn_fact_t *f); /* nothing is left open: type, shape, and length of sequences */
/** a becomes what holds for a and for b; *changed (never reset) when a lost something. */
void vn_fact_join(vn_fact_t *a, const vn_fact_t *b, bool *changed);
/** Drops the elements, keeps type and shape. */
void vn_fact_forget(vn_fact_t *f);
/** Integers of a scalar or vector: v[i] where known[i]. False unless their number is known and at most max. */
bool vn_fact_ints(const vn_fact_t *f, int max, int64_t *v, bool *known, int *n);
/** All of them; false where one is unknown. */
bool vn_fact_all_ints(const vn_fact_t *f, int max, int64_t *v, int *n);
/** The one integer or bool of a one-element tensor. */
bool vn_fact_int(const vn_fact_t *f, int64_t *v);
/** Gives f (type and shape set) elements of which some are known. */
vn_status_t vn_fact_set_part(vn_fact_t *f, const int64_t *v, const bool *known, int n, vn_error_t *err);

typedef struct vn_fact_scope {
    const struct vn_fact_scope *outer;
    vn_fact_t **facts; /* in order of definition; each has its name */
    int count, capacity;
    int *slots; /* open addressing into facts, -1 = free */
    size_t n_slots;
} vn_fact_scope_t;
/** A new fact under `name` (which must outlive the scope), empty; a second definition replaces the first. */
vn_status_t vn_facts_put(vn_fact_scope_t *s, const char *name, vn_fact_t **out, vn_error_t *err);
const vn_fact_t *vn_facts_find(const vn_fact_scope_t *s, const char *name);
void vn_facts_clear(vn_fact_scope_t *s);

/** Nodes of bodies and functions that one call looks at: unrolling stops after the first half, bodies and functions stay closed after the whole. */
#define VN_INFER_STEPS ((int64_t)1 << 17)

/** State of one call of vn_oracle_infer. `run` is what rows are evaluated under; it follows functions down. */
typedef struct vn_infer {
    vn_oracle_run_t run;
    vn_arena_t *arena; /* reasons; lives as long as the result */
    const vn_graph_t *top;
    const vn_bundle_t *inputs;
    int64_t work;  /* elements that evaluations may still touch */
    int64_t steps; /* nodes of bodies and functions looked at */
    int depth;
    bool starved; /* an allocation failed where only a reason or a finer result was at stake: the call fails in the end */
} vn_infer_t;

/** One node: facts in, facts out. `in[k]` NULL = absent. */
typedef struct vn_infer_node {
    vn_infer_t *ctx;
    const vn_graph_t *graph;
    const vn_fact_scope_t *scope;
    const vn_node_t *node;
    const vn_op_t *row;
    int64_t version;
    int n_in, n_out;
    const vn_fact_t **in;
    vn_fact_t *out;      /* named, empty */
    vn_dtype_t fallback; /* type of results where the row could not be asked; for rules */
    const char *why;     /* what the row misses, where it said so; in the arena */
    vn_error_t *err;     /* never NULL */
} vn_infer_node_t;

/** "node Conv_3 (Conv): ..." */
vn_status_t vn_infer_fail(const vn_infer_node_t *n, vn_status_t s, const char *fmt, ...) VN_PRINTF(3, 4);
/** A reason for what stays open, kept with the result. */
const char *vn_infer_why(const vn_infer_node_t *n, const char *fmt, ...) VN_PRINTF(2, 3);
/** True: bodies and functions are too many to be followed further; the outputs have that as reason. */
bool vn_infer_spent(vn_infer_node_t *n);
/** Input k given and a tensor. */
bool vn_infer_has(const vn_infer_node_t *n, int k);

/** Nodes of g in order; inputs are in `scope` already. */
vn_status_t vn_infer_graph(vn_infer_t *ctx, vn_fact_scope_t *scope, const vn_graph_t *g, vn_error_t *err);

/** Operands as rows see them. */
typedef struct vn_operands {
    vn_arg_t *args;
    vn_tensor_t *bare; /* headers without elements, one an operand */
    vn_ref_t *out;
    bool shaped, known; /* all operands: type and shape; elements */
    int64_t touched;    /* elements of all operands */
} vn_operands_t;
vn_status_t vn_operands_open(const vn_infer_node_t *n, vn_operands_t *o); /* vn_operands_close also after a failure */
void vn_operands_close(const vn_infer_node_t *n, vn_operands_t *o);
/** Runs the row's `infer` on given operands. */
vn_status_t vn_infer_row(const vn_infer_node_t *n, vn_arg_t *args, vn_ref_t *out, vn_error_t *err);
vn_status_t vn_infer_operator(vn_infer_node_t *n);

/** infer_body.c: If, Loop, Scan, SequenceMap. False: not one of them. */
bool vn_infer_is_control(const vn_node_t *node);
vn_status_t vn_infer_control(vn_infer_node_t *n);

/** infer_common.c: rules by operator name for what rows leave open: unknown dimensions, missing `infer`. UNSUPPORTED: no rule. */
vn_status_t vn_infer_by_rule(vn_infer_node_t *n);
/** infer_parts.c: elements of integer vectors that are known although others are not. */
vn_status_t vn_infer_parts(vn_infer_node_t *n);

#endif
