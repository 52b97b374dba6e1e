/* vernier/oracle.h -- the float64 evaluation of every operator, with its bound, its variance and its own error. */
#ifndef VERNIER_ORACLE_H
#define VERNIER_ORACLE_H

#include "vernier/base.h"
#include "vernier/contract.h"
#include "vernier/graph.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Decides the judge's floor (design 3). Stored in reports by name. */
typedef enum vn_op_class {
    VN_CLASS_MOVEMENT,
    VN_CLASS_EXACT,
    VN_CLASS_ROUNDED,
    VN_CLASS_ELEMENTARY,
    VN_CLASS_CONTRACTION,
    VN_CLASS_REDUCTION,
    VN_CLASS_NORMALISATION,
    VN_CLASS_SOFTMAX,
    VN_CLASS_SCAN,
    VN_CLASS_QUANTISE,
    VN_CLASS_COMPOSITE,
    VN_CLASS_RANDOM,
    VN_CLASS_CONTROL
} vn_op_class_t;
VN_API const char *vn_op_class_name(vn_op_class_t c);

/**
 * Another reading of the standard's text; a result that follows it throughout is `spec-open`.
 * Planes     exact and bound (both or neither, `count` elements): the reading rounds too, and a result follows it within bound of exact.
 *            NULL: bit by bit.
 */
typedef struct vn_reading {
    const char *name; /* static text */
    vn_tensor_t *value;
    double *exact, *bound;
} vn_reading_t;
enum { VN_MAX_READINGS = 4 };
/** Every element of a result follows the reading; NaNs are alike whatever they carry. */
VN_API bool vn_reading_holds(const vn_reading_t *r, const vn_tensor_t *actual);

/**
 * The law behind a random output (claims DRAW-1 to DRAW-5).
 * kind       NORMAL: mean a, deviation b. UNIFORM: [a, b). BERNOULLI: 1 with probability weight[i], or a where weight is NULL.
 *            CHOICE: row r of the result draws class c with probability weight[r * classes + c]. DROPOUT: element i is weight[i] (within
 *            b |weight[i]| + c) with probability a, else 0.
 */
typedef enum vn_law_kind { VN_LAW_NONE, VN_LAW_NORMAL, VN_LAW_UNIFORM, VN_LAW_BERNOULLI, VN_LAW_CHOICE, VN_LAW_DROPOUT } vn_law_kind_t;
typedef struct vn_law {
    vn_law_kind_t kind;
    double a, b, c;
    int64_t classes, n_weights;
    double *weight;
} vn_law_t;

/** Per-element permissions in vn_ref_t.flags. */
enum {
    VN_EL_INF_OK = 1,  /* an infinity of either sign is explainable (overflow of an allowed intermediate) */
    VN_EL_NAN_OK = 2,  /* a NaN is explainable */
    VN_EL_ZERO_OK = 4, /* a zero of either sign is explainable */
    VN_EL_VOID = 8     /* the bound says nothing here */
};

/**
 * Reference of one output (or the state of one edge): exact value, what may lie around it, and why.
 * Shapes     every plane has `count` elements in row-major order.
 * Units      absolute, in units of the output.
 * Planes     Floats: value (f64, not rounded), lo (value + lo is the value to about 2^-100 relative; NULL: 0), bound (sound: every
 *            execution under the contract, stored to the declared type, is within bound of value; +Inf = no statement), var (variance of
 *            its error; NULL until asked for), own (the oracle's own error, NULL: own_abs + own_rel |value|, see vn_ref_own).
 *            `wide` is the second tier of a budget; an element outside bound and inside wide passes with `wide_note`.
 *            `either` (float or not) is a second acceptable value per element (tie windows); equal to the first where there is no choice.
 *            Not floats: `tensor` holds the exact result and value is NULL. Integers that a standard fixes up to a few steps only (lossy
 *            pictures) have a bound too: every accepted result is within it of tensor.
 *            tensor: the correctly rounded result in the declared type; always there after vn_oracle_node. Elements that value and own
 *            did not decide were evaluated again (`escalated`); those still open (`undecided`) have their other neighbour in `either`.
 * Specials   value NaN or Inf: demanded, unless flags or readings say otherwise.
 */
typedef struct vn_ref {
    vn_dtype_t dtype;
    int rank;
    int64_t dims[VN_MAX_RANK];
    int64_t count;
    double *value, *lo, *bound, *var, *own, *wide;
    const char *wide_note;
    const char *nan_reading; /* static: what a NaN follows that VN_EL_NAN_OK permits, a reading of the text (`spec-open`); NULL: overflow */
    uint8_t *flags;
    vn_tensor_t *tensor;
    vn_tensor_t *either;
    int n_readings;
    vn_reading_t readings[VN_MAX_READINGS];
    vn_value_t *nested; /* sequences and optionals: exact values; all planes NULL */
    bool nested_open;   /* some element inside nested is uncertain (in a region): it is the oracle's value, rounded, without a bound */
    bool is_random;     /* bits cannot be judged; type, shape, range and distribution can */
    double range_lo, range_hi;
    vn_law_t law;
    bool bound_final;  /* the row's bound includes the store; set by vn_out_final */
    bool demand_equal; /* bound is one rounding: bits must equal `tensor` unless flags or the contract allow more */
    int64_t terms;     /* largest number of terms in a sum behind one element; 0 = none */
    double own_rel, own_abs;
    int64_t escalated, undecided;
} vn_ref_t;
/** The oracle's own error of element i. Without a plane and numbers of the row it is 2^-52 |value|, one rounding with room. */
static inline double vn_ref_own(const vn_ref_t *r, int64_t i) {
    if (r->own) return r->own[i];
    const double y = r->value[i] < 0 ? -r->value[i] : r->value[i];
    return r->own_abs + (r->own_rel > 0 ? r->own_rel : 0x1p-52) * y;
}
VN_API void vn_ref_free(vn_ref_t *r); /* releases the planes, zeroes the struct */

enum { VN_WANT_VALUE = 0, VN_WANT_BOUND = 1, VN_WANT_VARIANCE = 2 /* VARIANCE implies BOUND */ };
/** Added to a want: `tensor` is the f64 value rounded as it is; elements that it does not decide are not evaluated again, nor counted. */
enum { VN_WANT_PLAIN = 16 };

/** Operator row as seen from outside. */
typedef struct vn_op_info {
    const char *domain, *name, *claim;
    int since, until; /* opset versions, inclusive; until 0 = still current */
    vn_op_class_t cls;
    unsigned shape_like; /* bit k: input k is shape-like (a shape, axes, sizes, pads ...), frozen to its value in isolated runs */
} vn_op_info_t;
VN_API int vn_oracle_ops(const vn_op_info_t **out);                                       /* static table, sorted by domain and name */
VN_API bool vn_oracle_knows(const vn_model_t *m, const vn_node_t *n, vn_op_info_t *info); /* functions: info of the expansion */

/**
 * One node on given inputs (bits), isolated: fills refs[0 .. n_outputs). Absent outputs stay zeroed.
 * inputs     n->n_inputs values, NULL where absent. outer: values that bodies read from outside (may be NULL).
 * Errors     UNSUPPORTED names operator, domain and version; SHAPE, DTYPE, RANGE name node and input; NOMEM.
 * Ownership  the caller releases each ref.
 */
VN_API vn_status_t vn_oracle_node(const vn_model_t *m, const vn_node_t *n, const vn_value_t *const *inputs, const vn_bundle_t *outer,
                                  const vn_contract_t *c, int want, vn_ref_t *refs, vn_error_t *err);

/**
 * As vn_oracle_node, for an operator that carries a state from step to step (RNN, GRU, LSTM): step t starts from the state of step t - 1 that
 * was returned in given[] (one value per output, NULL where none), not from the oracle's own. Each step is then judged by itself, and
 * the bound does not grow with the number of steps (claim RNN-3). given NULL: vn_oracle_node.
 * Errors     UNSUPPORTED: the operator has no such states, or they were not returned. Else as vn_oracle_node.
 */
VN_API vn_status_t vn_oracle_steps(const vn_model_t *m, const vn_node_t *n, const vn_value_t *const *inputs, const vn_bundle_t *outer,
                                   const vn_contract_t *c, int want, const vn_value_t *const *given, vn_ref_t *refs, vn_error_t *err);

/**
 * A whole graph judged as one operator: values stay unrounded between nodes (casts and integer results excepted), bounds are composed.
 * `inputs` by graph input name. refs[k] belongs to graph output k.
 */
VN_API vn_status_t vn_oracle_region(const vn_model_t *m, const vn_bundle_t *inputs, const vn_contract_t *c, int want, vn_ref_t *refs,
                                    vn_error_t *err);
/** The same with inputs that may be sequences or optionals: values[i] belongs to graph input i; NULL: not given, its initialiser is used. */
VN_API vn_status_t vn_oracle_region_values(const vn_model_t *m, const vn_value_t *const *values, const vn_contract_t *c, int want,
                                           vn_ref_t *refs, vn_error_t *err);

/**
 * The summands behind elements of output k, in natural order: for twins (the same sum in other orders), schedules and lost terms.
 * Session     open once per node and inputs, ask for many elements, close. open: UNSUPPORTED where the operator is no sum.
 */
typedef struct vn_terms vn_terms_t;
VN_API vn_status_t vn_terms_open(const vn_model_t *m, const vn_node_t *n, const vn_value_t *const *inputs, const vn_contract_t *c,
                                 vn_terms_t **out, vn_error_t *err);
VN_API vn_status_t vn_terms_get(vn_terms_t *t, int k, int64_t element, double *out, int64_t max, int64_t *n, vn_error_t *err);
/** What becomes of the sum: itself up to a factor that all elements share (1/n of a mean), its square root, its logarithm. */
typedef enum vn_terms_after { VN_AFTER_FACTOR, VN_AFTER_ROOT, VN_AFTER_LOG } vn_terms_after_t;
VN_API vn_terms_after_t vn_terms_after(const vn_terms_t *t);
VN_API void vn_terms_close(vn_terms_t *t);

/** What vn_oracle_trajectory shows of each node that runs, bodies included, in order of execution. Borrowed for the call. */
typedef struct vn_step {
    const vn_node_t *node;
    const char *path; /* row id with iteration numbers, If_3/then/Add_5 or Loop_2/body[4]/Mul_1 */
    const vn_graph_t *graph;
    const vn_value_t *const *inputs; /* trajectory values */
    const vn_bundle_t *outer;
    vn_ref_t *refs;     /* planes as asked by want; the callback may move planes out, `tensor` and `nested` must stay */
    vn_status_t status; /* UNSUPPORTED etc.: refs are empty, dependants are not run */
    const vn_error_t *error;
    bool top; /* in the main graph */
} vn_step_t;
typedef vn_status_t (*vn_step_fn)(void *ctx, const vn_step_t *step, vn_error_t *err);

/**
 * The reference trajectory: each operator's oracle value rounded once to its declared type and passed on. Tensors die after their last
 * use. Graph outputs come back in *out (tensors only; out may be NULL). A failing callback ends the run.
 */
VN_API vn_status_t vn_oracle_trajectory(const vn_model_t *m, const vn_bundle_t *inputs, const vn_contract_t *c, int want, vn_step_fn fn,
                                        void *ctx, vn_bundle_t *out, vn_error_t *err);

/**
 * Types and shapes without running the graph: what is known of one value.
 * kind       TENSOR, SEQUENCE, OPTIONAL; NONE: not even that is known.
 * dtype      element type; UNDEFINED: not known. Of sequences and optionals: of every element.
 * rank       -1: not known. dims[k] -1: not known. Of sequences: what all elements agree on.
 * length     of sequences: how many elements; of optionals: 0 or 1; -1: not known. 1 for tensors.
 * value      the elements, where the inputs and constants decide them and they are few (all initialisers, else up to 65536); NULL: not known.
 * declared   something of it is only the file's own statement (value_info, typed output), not derived.
 * reason     why kind, dtype, rank, a dimension or a length is open, naming the node where it began; NULL: nothing is open.
 */
typedef struct vn_inferred_value {
    const char *name; /* the model's */
    vn_type_kind_t kind;
    vn_dtype_t dtype;
    int rank;
    int64_t dims[VN_MAX_RANK];
    int64_t length;
    vn_value_t *value;
    bool declared;
    const char *reason;
} vn_inferred_value_t;

/** All values of the top graph: inputs, initialisers, node outputs in order. */
typedef struct vn_inferred {
    int count, known; /* known: those with nothing open */
    vn_inferred_value_t *values;
    const vn_inferred_value_t **by_name; /* private, as is the next */
    vn_arena_t *arena;
} vn_inferred_t;

/**
 * Walks the graph in order. Shapes come from the operators' rules; where data decide them (Shape, Gather, Concat, Reshape ...) small tensors
 * are evaluated, integer vectors also where only some of their elements are known. Function calls are inferred through their body; loops are
 * followed while their count and condition are known; branches by the condition, or by what both agree on.
 * inputs     by graph input name; a tensor with data NULL gives type and shape only (dims -1: open); see vn_infer_input. Those not given are
 *            typed as declared, symbolic dimensions by the value that a given input has for the same name. May be NULL. A tensor that
 *            is named as an initialiser replaces it.
 * Errors     SHAPE, DTYPE, RANGE name the node (or the input that contradicts its declaration): the graph cannot run on such inputs. NOMEM.
 *            What cannot be known is no error, see reason: operators without oracle, data that decide, branches that differ.
 * Ownership  vn_inferred_free; names are the model's, which must outlive it.
 */
VN_API vn_status_t vn_oracle_infer(const vn_model_t *m, const vn_bundle_t *inputs, vn_inferred_t *out, vn_error_t *err);
VN_API const vn_inferred_value_t *vn_inferred_find(const vn_inferred_t *r, const char *name); /* NULL: no value of the top graph */
VN_API void vn_inferred_free(vn_inferred_t *r);
/** Adds an input of which only type and shape are known (dims NULL: all open). Errors: DTYPE, RANGE, NOMEM. */
VN_API vn_status_t vn_infer_input(vn_bundle_t *inputs, const char *name, vn_dtype_t t, int rank, const int64_t *dims, vn_error_t *err);

/**
 * What is differentiated with respect to what.
 * ys          values of the graph, any number; a vector-Jacobian product is taken with one cotangent each.
 * cotangents  names that the cotangents get as inputs of the new graph, one per y; NULL: each is all ones (the gradient of the sum of y).
 * xs, zs      independent values, differentiated and not. They cut the graph: what computes them is not looked at. open_zs: other inputs
 *             of the graph that the ys need become inputs too; without it such an input is an error.
 */
typedef struct vn_gradient_ask {
    int n_ys, n_xs, n_zs;
    const char *const *ys, *const *cotangents, *const *xs, *const *zs;
    bool open_zs;
} vn_gradient_ask_t;

/**
 * Builds the gradient of `g` as a model of its own: inputs are xs, zs (then open ones, then cotangents); its nodes are the forward nodes that
 * the ys need, then the backward ones; output k, "gradient/of/" + xs[k], is the cotangent of xs[k], of its type and shape (all zeros where no
 * y depends on it). Evaluate it with vn_oracle_region: bounds are composed over the very nodes of the graph (claim GRAD-1).
 * inputs      by name of xs, zs and open inputs; types and shapes are needed (data may be NULL, see vn_infer_input), values only where they
 *             decide a shape. Initialisers are taken from the graph and from those that enclose it.
 * Specials    at points where an operator has no derivative the convention of claim GRAD-2 holds (Relu' (0) = 0, ties share evenly, ...).
 * Nested      Gradient nodes inside the forward part are expanded first: higher derivatives.
 * Errors      UNSUPPORTED names the operator without a rule, or a shape that is not known; USAGE: a y depends on an input that is in
 *             neither list; NOTFOUND names a value that the graph does not hold; SHAPE, DTYPE, RANGE, NOMEM.
 * Ownership   *out is the caller's: vn_model_free. It shares tensors with g's model, which may be freed before it.
 * Threads     no shared state.
 */
VN_API vn_status_t vn_oracle_gradient(const vn_graph_t *g, const vn_gradient_ask_t *ask, const vn_bundle_t *inputs, vn_model_t **out,
                                      vn_error_t *err);
VN_API bool vn_gradient_knows(const char *op); /* operator `op` of ai.onnx has a rule of differentiation */

/** Name and version of the BLAS behind contractions, and whether its self-check passed; for doctor and reports. */
VN_API void vn_oracle_blas(char *out, size_t size);

#ifdef __cplusplus
}
#endif
#endif
