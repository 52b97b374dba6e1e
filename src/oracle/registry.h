/* registry.h -- what an operator family implements. One row per operator and semantic version range; a family is one file (or a few). */
#ifndef VN_ORACLE_REGISTRY_H
#define VN_ORACLE_REGISTRY_H

#include "vernier/arith.h"
#include "vernier/oracle.h"

/**
 * One operand of an evaluation: bits, and (inside a region) what is uncertain about them.
 * Isolated nodes have exact operands: err and var are NULL.
 */
typedef struct vn_arg {
    const vn_tensor_t *t; /* contiguous; in a region: the value rounded to the declared type; NULL = absent */
    double *value;        /* f64 plane, made on first use by vn_arg_f64; in a region the unrounded value */
    const double *err;    /* sound absolute uncertainty per element, NULL = exact */
    const double *var;
    bool owned;                /* private: value was made by vn_arg_f64 */
    int64_t terms;             /* in a region: terms of the largest sum behind it */
    bool unknown;              /* in a region: some element is no statement at all; the frame voids what comes of it */
    const vn_value_t *v;       /* sequences, optionals; else a tensor value */
    const vn_tensor_t *either; /* in a region: the other answer of a comparison (bool) that operands leave undecided; NULL = decided */
} vn_arg_t;

typedef struct vn_eval {
    const vn_model_t *model;
    const vn_graph_t *graph; /* where the node stands (bodies: NULL outside control flow) */
    const vn_node_t *node;
    int64_t version;               /* opset version of the node's domain */
    const vn_contract_t *contract; /* resolved: operand and accumulator are never NONE; result NONE = the output type */
    int want;                      /* VN_WANT_* */
    int n_in, n_out;
    vn_arg_t *in;
    vn_ref_t *out; /* zeroed; the row fills it through vn_out_* */
    const vn_bundle_t *outer;
    const vn_value_t *const *given; /* what was returned, one per output, or NULL; rows with VN_OP_STATES take their states from it */
    struct vn_oracle_run *run;      /* executor state, for control flow */
    struct vn_finish *finish;       /* the frame's, one per output; NULL: everything is finished after eval */
    struct vn_refine *refine;       /* NULL; else a row with VN_OP_REFINES gives single elements in more digits (escalate.h) */
    vn_error_t *err;
} vn_eval_t;

/** A registry row. Rows of one (domain, name) must not overlap in versions. */
typedef struct vn_op {
    const char *domain, *name;
    int since, until; /* 0 = open */
    vn_op_class_t cls;
    unsigned flags;    /* VN_OP_* */
    const char *claim; /* id in docs/claims.md, e.g. "CONTRACT-1" */
    /**
     * Value, then (if want asks) bound and variance, in one pass over the data where possible.
     * bound[i] must be E of bounds.md: the error of the computed result *before* the store to the declared type, under e->contract.
     * The frame adds the store ((1+u_o)E + u_o|y| + eta_o/2), flushes (tau) and overflow afterwards. Set vn_ref_t.bound_final via
     * vn_out_final(e, k) when the row's bound includes the store already.
     */
    vn_status_t (*eval)(vn_eval_t *e);
    /**
     * Types and shapes of the outputs without data, where that is possible: e->in[k].t may be a tensor without data (data == NULL).
     * Fills out[k].dtype, rank, dims. Returns VN_ERR_UNSUPPORTED when the data decide (the executor then evaluates). NULL: always data.
     */
    vn_status_t (*infer)(vn_eval_t *e);
    int param; /* the row's own use: index into the family's table of functions */
} vn_op_t;

enum {
    VN_OP_SHAPE_LIKE_1 = 1, /* input 1 (and 2, 3 ... by the flags below) is shape-like: frozen to its value in isolated runs */
    VN_OP_SHAPE_LIKE_2 = 2,
    VN_OP_SHAPE_LIKE_3 = 4,
    VN_OP_SHAPE_LIKE_4 = 8,
    VN_OP_SHAPE_LIKE_0 = 16, /* input 0 too: Range, ConstantOfShape, ... */
    VN_OP_PROPAGATES = 32,   /* handles in[k].err; rows without it get bound +Inf when an operand is uncertain */
    VN_OP_STATES = 128,      /* carries states from step to step that the outputs show: may start each step from e->given */
    VN_OP_REFINES = 256,     /* answers e->refine: elements that f64 does not decide are evaluated again */
    VN_OP_LEAN = 1024,       /* answers e->refine without f64 planes of the operands, or asks for them before its threads start */
    VN_OP_EITHER = 512,      /* handles in[k].either; rows without it make no statement when an operand is undecided */
    VN_OP_MAPS = 64,         /* pure movement: the frame may run eval on err and var planes to carry uncertainty through */
};

typedef struct vn_family {
    const char *name;
    const vn_op_t *rows;
    int count;
} vn_family_t;

extern const vn_family_t vn_family_ml;                    /* ai.onnx.ml */
extern const vn_family_t vn_family_text, vn_family_image; /* text and files */
extern const vn_family_t vn_family_legacy, vn_family_elementwise, vn_family_compare, vn_family_cast, vn_family_quantise, vn_family_movement,
    vn_family_index, vn_family_control, vn_family_contraction, vn_family_convolution, vn_family_pooling, vn_family_reduction,
    vn_family_softmax, vn_family_normalisation, vn_family_scan, vn_family_attention, vn_family_recurrent, vn_family_resample,
    vn_family_spectral, vn_family_microsoft, vn_family_determinant, vn_family_training;

vn_op_info_t vn_op_info(const vn_op_t *row);
const vn_op_t *vn_registry_find(const char *domain, const char *name, int64_t version);

/* ---- reading operands ---- */
/** Dims, rank and count of operand k are those of in[k].t. */
bool vn_has(const vn_eval_t *e, int k);                   /* operand k given */
const double *vn_arg_f64(vn_eval_t *e, int k);            /* f64 plane, cached; NULL on no memory (err set) */
const double *vn_arg_err(const vn_eval_t *e, int k);      /* NULL = exact */
int64_t vn_arg_int(const vn_eval_t *e, int k, int64_t i); /* element i of an integer operand */
/** Integer operand k (1-D or scalar) into out[0..max); *n = how many. Errors: RANGE if longer than max. */
vn_status_t vn_arg_ints(vn_eval_t *e, int k, int64_t *out, int max, int *n);
/** "node Conv_3 (Conv): ..." */
vn_status_t vn_eval_fail(vn_eval_t *e, vn_status_t s, const char *fmt, ...) VN_PRINTF(3, 4);
/** Normalises a possibly negative axis; RANGE error names it. */
vn_status_t vn_eval_axis(vn_eval_t *e, int64_t axis, int rank, int *out);

/* ---- writing outputs ---- */
/** Float output: allocates value, and bound / var as e->want asks (bound and var zeroed). */
vn_status_t vn_out_float(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims);
/**
 * The same for rows that write every element of every plane they get: the planes hold anything (NaN under sanitizers), which saves a pass over
 * memory. Rows that leave elements untouched (a bound that stays 0) must use the zeroing form.
 */
vn_status_t vn_out_float_raw(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims);
/** Such a plane for the row's own use, released with vn_free; NULL: no memory. */
double *vn_plane_raw(int64_t count);
/** Exact output: allocates tensor (zeroed); write its data directly. Used by movement (any dtype), integers, bool. */
vn_status_t vn_out_exact(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims);
/** Gives a ready tensor (takes over t). */
vn_status_t vn_out_tensor(vn_eval_t *e, int k, vn_tensor_t *t);
/** Extra planes on demand (count elements, zeroed). */
vn_status_t vn_out_wide(vn_eval_t *e, int k, const char *note);     /* starts as a copy of nothing: fill all of it, as E before the store */
vn_status_t vn_out_wide_raw(vn_eval_t *e, int k, const char *note); /* not zeroed, see vn_out_float_raw */
vn_status_t vn_out_flags(vn_eval_t *e, int k);
vn_status_t vn_out_own(vn_eval_t *e, int k);
vn_status_t vn_out_own_raw(vn_eval_t *e, int k); /* not zeroed */
vn_status_t vn_out_lo(vn_eval_t *e, int k);
vn_status_t vn_out_either(vn_eval_t *e, int k); /* tensor of the output's dtype, zeroed: fill all of it */
vn_status_t vn_out_reading(vn_eval_t *e, int k, const char *name, vn_tensor_t *t); /* takes over t */
/** The bound of output k is complete: the frame adds no store, flush or overflow terms. */
void vn_out_final(vn_eval_t *e, int k);
/** Output k is one rounding of an exact value: the frame demands equality with RN(value). */
void vn_out_rounded(vn_eval_t *e, int k);

/**
 * Output k will be written in pieces, each of which the frame finishes and rounds while it is in the cache. To be called once all planes are
 * there and terms, own_rel, own_abs, vn_out_final and vn_out_rounded are settled; then vn_out_done for every element exactly once, from
 * any thread. Both are optional: what is never reported is finished after eval. Packed types: begin a multiple of 8.
 */
vn_status_t vn_out_begin(vn_eval_t *e, int k);
void vn_out_done(vn_eval_t *e, int k, int64_t begin, int64_t n);

/* ---- constants of the contract (accumulator a, output o) ---- */
static inline double vn_u(const vn_eval_t *e) { return vn_format_info(e->contract->accumulator)->u; }
static inline double vn_eta(const vn_eval_t *e) { return vn_format_info(e->contract->accumulator)->eta; }
static inline double vn_tau(const vn_eval_t *e) { return vn_format_info(e->contract->accumulator)->tau; }
/** k u / (1 - k u), +Inf when k u >= 1. */
double vn_gamma(double k, double u);
/** ULP budget t of a function under the contract: function_ulp if declared, 1 for ieee, else the default table ("exp" 6, "tanh" 6 ...). */
double vn_budget(const vn_eval_t *e, const char *function);
/** Function-body allowance in units of u times scale (3 for sigmoid, gelu ...), 0 where the tier has none. */
double vn_body_budget(const vn_eval_t *e, const char *function);

/* ---- GEMM (gemm.c): C[m,n] = A[m,k] B[k,n], f64, row-major with leading dimensions; deterministic for every thread count ---- */
void vn_dgemm(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb, double *c,
              int64_t ldc, bool accumulate);
/** |A||B| in f32, rounded up to a sound upper bound of the sum, written as doubles; a and b may be of either sign. */
vn_status_t vn_abs_gemm_upper(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb,
                              double *c, int64_t ldc, bool accumulate);

#endif
