/* explain.h -- rung 7, second half: a name for a result that the contract does not give and no other arithmetic explains.
 *
 * Families look at one failing output and offer names; the best offer becomes the cause. A name never changes whether a row fails. Two kinds:
 *   variants   the same actual result, asked under a changed computation (an attribute, an operand, another rule): a variant explains the
 *              output iff every element keeps the variant's own bound (claim NAME-1);
 *   patterns   what the wrong elements have in common, seen from the expected values alone (moved, lost, scaled, stale).
 * Families: pattern_*.c, semantic_*.c, terms_*.c; each has one function of type vn_explain_fn in the table of explain.c.
 */
#ifndef VN_JUDGE_EXPLAIN_H
#define VN_JUDGE_EXPLAIN_H

#include "judge/ladder.h"

/** How much an offer says; a higher level wins whatever the weights. */
typedef enum vn_name_level {
    VN_NAME_NONE,
    VN_NAME_PATTERN, /* says where the wrong elements are or what they hold: zeros, a tail, a lane */
    VN_NAME_SOURCE,  /* says where every wrong value comes from: another place of the output, an operand, a constant factor */
    VN_NAME_VARIANT, /* another computation gives the whole result */
} vn_name_level_t;

/** One failing output under explanation. Planes have `n` elements; x and y are NULL for strings and complex numbers. */
typedef struct vn_explain {
    vn_case_t *c;
    int64_t n, n_wrong;
    const uint8_t *wrong; /* 1: outside what the contract allows (of a suspect: beyond the limit of its z) */
    const double *x, *y;  /* actual and expected as f64; integers beyond 2^53 are compared by bits elsewhere */
    double deadline;      /* vn_spent() after which no further variant is asked */
    int variants;         /* asked so far */
    bool cut;             /* the deadline stopped a family */
    vn_name_level_t level;
    double weight;
    vn_verdict_t verdict;
    char cause[96], words[400];
} vn_explain_t;

/** Looks at e and offers names. Errors: NOMEM, INTERNAL; "nothing found" is no error. */
typedef vn_status_t (*vn_explain_fn)(vn_explain_t *e, vn_error_t *err);

/**
 * Offers a name. Kept if its level is higher than the best so far, or equal and its weight larger by more than 2^-30 relative: of equals the first
 * stays. weight: mean log closeness of vn_explain_gain for variants, share of wrong elements explained (0..1) for patterns.
 * fmt gives the words, one or two plain sentences for the reader with places and figures.
 */
void vn_explain_offer(vn_explain_t *e, vn_name_level_t level, double weight, vn_verdict_t verdict, const char *cause, const char *fmt, ...)
    VN_PRINTF(6, 7);

/** Whether x is acceptable as element i of the expected output: the contract's room (bound, second tier, own error, either), or equality. */
bool vn_explain_fits(const vn_explain_t *e, int64_t i, double x);
/** Expected element j, put at place i, gives the actual element i: moved values are compared with the room of their source. */
bool vn_explain_moved(const vn_explain_t *e, int64_t i, int64_t j);

/**
 * Offers (VN_NAME_VARIANT) a result that was computed apart from the oracle: y2[i] must fit every actual element, and some wrong element must
 * say something. room[i]: largest distance of element i; NULL: the contract's room of the element, widened by the store of a larger number.
 * Equality where the contract demands it. *held may be NULL. Not for strings and complex numbers (then nothing is offered).
 */
void vn_explain_plane(vn_explain_t *e, const double *y2, const double *room, vn_verdict_t verdict, const char *cause, bool *held,
                      const char *fmt, ...) VN_PRINTF(7, 8);

/** Every question that fails rung 7's arithmetics. Sets cause and words of c->f if a name was found; the verdict of the offer is used. */
vn_status_t vn_explain(vn_case_t *c, vn_error_t *err);
/** The same, but only another computation that gives the whole result is good enough (VN_NAME_VARIANT): for rung 7, beside a wide arithmetic. */
vn_status_t vn_explain_variant(vn_case_t *c, bool *named, vn_error_t *err);

/** A pass of a region that differs by whole steps of a step function inside: cause, note and words say so (discrete-step); the verdict stays. */
void vn_note_step(vn_case_t *c);

/* ---- variants: the same question with another computation ---- */

/**
 * A node of the question that can be changed, and changed back. Of a node question: the node. Of a region: each node in turn.
 * Ownership  node is a private copy; every edit lives until vn_variant_reset.
 */
typedef struct vn_variant {
    vn_explain_t *e;
    vn_model_t *model; /* of a region: a private clone; NULL: a node question */
    vn_node_t *node;   /* of the clone, or a copy of the question's */
    int index;         /* of the node in the clone's graph; -1: a node question */
    const vn_value_t *
        *given; /* VN_VARIANT_INPUTS operands as they stand now, borrowed; NULL: absent, or (region) computed by another node */
    const vn_contract_t *contract; /* the question's, or that of vn_variant_contract */
    vn_contract_t changed;         /* private, as the rest */
    bool edited;
    void *saved;
} vn_variant_t;

/** Names what generators may change on one node; returns after asking all its variants. */
typedef vn_status_t (*vn_variant_fn)(vn_variant_t *v, vn_error_t *err);

/** Calls fn for the question's node, or for each node of a region (not inside bodies). */
vn_status_t vn_variants(vn_explain_t *e, vn_variant_fn fn, vn_error_t *err);

bool vn_variant_is(const vn_variant_t *v, const char *domain, const char *op);
/** Opset version of the node's domain. */
int64_t vn_variant_version(const vn_variant_t *v);
/** Operand k if its values are known: given inputs and initialisers. NULL else. */
const vn_tensor_t *vn_variant_operand(const vn_variant_t *v, int k);
/** Type and shape of operand k, also where another node of a region computes it. False: absent, not a tensor, or not known. dims: VN_MAX_RANK. */
bool vn_variant_shape(vn_variant_t *v, int k, vn_dtype_t *type, int *rank, int64_t *dims);

/* Edits. Errors: NOMEM, INTERNAL. */
vn_status_t vn_variant_int(vn_variant_t *v, const char *attr, int64_t x, vn_error_t *err);
vn_status_t vn_variant_float(vn_variant_t *v, const char *attr, double x, vn_error_t *err);
vn_status_t vn_variant_string(vn_variant_t *v, const char *attr, const char *x, vn_error_t *err);
vn_status_t vn_variant_ints(vn_variant_t *v, const char *attr, const int64_t *x, int64_t n, vn_error_t *err);
vn_status_t vn_variant_drop_attr(vn_variant_t *v, const char *attr, vn_error_t *err); /* back to its default */
vn_status_t vn_variant_drop_input(vn_variant_t *v, int k, vn_error_t *err);           /* absent */
/** Operand k becomes t (taken over, also on failure). k may be n_inputs .. VN_VARIANT_INPUTS - 1: the node gets more operands. */
vn_status_t vn_variant_input(vn_variant_t *v, int k, vn_tensor_t *t, vn_error_t *err);
enum { VN_VARIANT_INPUTS = 16 };
/** The node becomes another operator (of ai.onnx, or domain). */
vn_status_t vn_variant_op(vn_variant_t *v, const char *domain, const char *op, vn_error_t *err);
/** The node's only output becomes its operand k as it is: the node is left out of the computation. */
vn_status_t vn_variant_bypass(vn_variant_t *v, int k, vn_error_t *err);
/** Evaluate under another contract than the question's. */
void vn_variant_contract(vn_variant_t *v, const vn_contract_t *c);
/** Takes all edits back. */
void vn_variant_reset(vn_variant_t *v);

/**
 * Evaluates the changed question, offers (VN_NAME_VARIANT, verdict, cause, words) if every element of the actual output is inside the variant's
 * bound and at least one wrong element says something there, and takes all edits back. An operator that refuses the edit is no error.
 * *held (may be NULL): whether it explains the output. words: printf format.
 */
vn_status_t vn_variant_ask(vn_variant_t *v, vn_verdict_t verdict, const char *cause, bool *held, vn_error_t *err, const char *words, ...)
    VN_PRINTF(6, 7);
/**
 * As vn_variant_ask, but hands out the reference of the judged output instead of comparing it (for families that change the result further: a
 * wrong part only, a solved parameter). *out is zeroed where the operator refuses. Edits stay; call vn_variant_reset. Release with vn_ref_free.
 */
vn_status_t vn_variant_eval(vn_variant_t *v, int want, vn_ref_t *out, vn_error_t *err);
/** Mean over wrong elements of ln((|x - y| + ulp) / (|x - y'| + ulp)), y' the variant's value: how much nearer the variant is. */
double vn_explain_gain(const vn_explain_t *e, const vn_ref_t *variant);

#endif
