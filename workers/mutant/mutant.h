/* mutant.h -- what the files of this worker share: the chosen arithmetic, the injected fault, a call of an operator, tables of operators. */
#ifndef VN_MUTANT_H
#define VN_MUTANT_H

#include "faults.h"
#include "vernier/arith.h"
#include "vernier/graph.h"
#include "vernier/tensor.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(VN_SANITIZE)
#define CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#define FMA_CLONES __attribute__((target_clones("default", "fma")))
#else
#define CLONES
#define FMA_CLONES
#endif

/* ---- arithmetic: options.c ---- */

typedef enum association {
    SEQUENTIAL, /* ((0 + t0) + t1) + t2 ... */
    REVERSED,   /* the same from the last term to the first */
    PAIRWISE,   /* left part: the largest power of two below the number of terms; both parts alike */
    LANES8,     /* term k goes to chain k mod 8; then ((0+1)+(2+3)) + ((4+5)+(6+7)) */
    LANES16,    /* the same with 16 chains */
    BLOCKS128,  /* chains over 128 terms each, their results chained */
    FUSED,      /* sequential with fused multiply-add: one rounding a term */
    ADDER16     /* groups of 16 products and the running sum: aligned to the largest exponent, cut to 25 bits, added, cut to 24 */
} association_t;

typedef struct rounding_choice {
    vn_format_t format; /* NONE: as the type is */
    vn_rounding_t mode;
} rounding_choice_t;

/** Activations that are quantised to 8 bits in front of a product. group: terms that share a scale; 0: a row; -1: the whole tensor. */
typedef struct activations {
    bool on, symmetric;
    int group;
} activations_t;

/** Sums: every contraction, reduction, mean, softmax denominator. operands, activations, pieces, winograd: contractions only. */
typedef struct arithmetic {
    rounding_choice_t operands, accumulator, result, intermediate, partials;
    association_t association;
    int split;    /* parts of a sum, each summed by itself; 0: one */
    int pieces;   /* 2, 3: operands as sums of so many bf16 numbers, with 3 or 6 products; 0: whole */
    int winograd; /* 2, 4, 6: F(n x n, 3 x 3); 0: direct */
    activations_t activations;
    bool one_pass, no_max, reciprocal, fast; /* variance, softmax, quotients, functions */
    bool ftz, daz; /* results, operands below the smallest normal number of f32 (f64 for f64) become signed zeros */
} arithmetic_t;

/** Takes "key=value"; false: not an option of the arithmetic, or no value of it. */
bool mutant_option(arithmetic_t *a, const char *text);
/** Adds the settings as members of a JSON object, no braces. */
void mutant_describe(const arithmetic_t *a, vn_text_t *json);

/* ---- operators ---- */

typedef struct call {
    const arithmetic_t *a;
    const fault_t *fault; /* NULL: none */
    int turn;             /* number of the run: what differs from run to run asks it */
    const vn_node_t *node;
    int64_t opset;
    int n_in, n_out;
    vn_tensor_t *const *in; /* contiguous; NULL: absent */
    vn_tensor_t **out;      /* to be set by the operator, NULL before */
    vn_error_t *err;
    int param; /* of the row */
} call_t;

typedef struct op_row {
    const char *name;
    vn_status_t (*run)(call_t *c);
    int param; /* the row's own use */
} op_row_t;

typedef struct op_table {
    const op_row_t *rows;
    int count;
} op_table_t;
extern const op_table_t contraction_ops, convolution_ops, unary_ops, elementwise_ops, reduction_ops, normalisation_ops, pooling_ops,
    movement_ops, index_ops, attention_ops, quantise_ops, integer_ops, resample_ops, recurrent_ops, scan_ops, scatter_ops, order_ops,
    einsum_ops, statistics_ops, rearrange_ops;
const op_row_t *mutant_find(const char *domain, const char *name); /* NULL: not known */
/** Operator i of all tables; NULL past the last. */
const op_row_t *mutant_op(int i);

/* ---- node.c: one operator, clean or with the fault ---- */

/** What a back end was told to be. */
typedef struct animal {
    arithmetic_t arithmetic;
    fault_t fault; /* fault.row NULL: none */
    char node[96]; /* only the node of this path shows the fault; "": every one that can */
} animal_t;

/** Takes any "key=value" of the arithmetic, fault=ID[:VALUE], node=PATH. Errors: USAGE names the option; an unknown fault lists all. */
vn_status_t animal_option(animal_t *m, const char *text, vn_error_t *err);

/**
 * Runs c->node through `op`: c->a, c->fault and c->param are set here. *changed (may be NULL) counts elements that the fault changed in
 * output bits; 0: this node cannot show it, and its outputs are the clean ones.
 */
vn_status_t animal_run(const animal_t *m, const op_row_t *op, call_t *c, int64_t *changed);

/* ---- structural.c: faults of coverage, place and scale, made from a right result ---- */

/** out becomes a changed copy of `clean`, or NULL where it cannot. Errors: NOMEM. */
vn_status_t structural(call_t *c, const vn_tensor_t *clean, vn_tensor_t **out);

/* ---- values.c: attributes, operands as doubles, results back in their type ---- */

/** Attributes; under attribute-ignored:NAME the default, or where it is the default, another value. */
int64_t attr_int(const call_t *c, const char *name, int64_t fallback);
double attr_float(const call_t *c, const char *name, double fallback);
const char *attr_string(const call_t *c, const char *name, const char *fallback);
/** The fault is attribute-ignored and means this attribute. */
bool ignored(const call_t *c, const char *name);
bool faulty(const call_t *c, fault_id_t id);
/** The fault's number, or fallback where none was given. */
double fault_number(const call_t *c, double fallback);
/** Epsilon of a normalisation; another one under the fault eps. */
double epsilon_of(const call_t *c, double fallback);
/** axis, or under the fault `axis` another one that keeps the shape. */
int64_t axis_of(const call_t *c, int64_t axis, int rank);

bool is_wide(vn_dtype_t t); /* f64: computed in f64; every other float in f32 */
/** x as the working format holds it. */
static inline double settle(bool wide, double x) { return wide ? x : (double)(float)x; }
/** A hidden intermediate: settled, then rounded as the option says. */
double hidden(const call_t *c, bool wide, double x);
/** x / y, or x times the rounded reciprocal of y. */
double quotient(const call_t *c, bool wide, double x, double y);
/** Input k must be there and of a real float type. */
vn_status_t need_float(const call_t *c, int k);
vn_status_t need(const call_t *c, int k);
static inline bool given(const call_t *c, int k) { return k < c->n_in && c->in[k]; }
vn_status_t refuse(const call_t *c, const char *what); /* UNSUPPORTED */
/** All elements as doubles, subnormals flushed under daz; release with vn_free. NULL: no memory (err is set). */
double *plane(const call_t *c, const vn_tensor_t *t);
/** The same, broadcast to dims first. */
double *plane_of(const call_t *c, const vn_tensor_t *t, int rank, const int64_t *dims);
int64_t *int_plane(const call_t *c, const vn_tensor_t *t);
double *room_for(const call_t *c, int64_t n); /* zeroed */
/** Rounds into a new tensor, flushes under ftz, sets out[k]. Takes v over. */
vn_status_t put_plane(call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, double *v);
vn_status_t put_ints(call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, int64_t *v);
vn_status_t no_memory(const call_t *c);
/** A list of integers from input k, else from attribute `name`; *n = -1 when neither is there. Release with vn_free. */
vn_status_t int_list(const call_t *c, int k, const char *name, int64_t **v, int64_t *n);
/** Brings a negative axis into 0 .. rank-1. */
vn_status_t fix_axis(const call_t *c, int64_t *axis, int rank);
int64_t product_of(const int64_t *dims, int n);
void unravel(int64_t i, int rank, const int64_t *dims, int64_t *at);

/* ---- functions.c ---- */

double fn_exp(const call_t *c, bool wide, double x);
double fn_log(bool wide, double x);
double fn_tanh(const call_t *c, bool wide, double x);
double fn_erf(const call_t *c, bool wide, double x);
double fn_sigmoid(const call_t *c, bool wide, double x);
double fn_inverse_root(const call_t *c, bool wide, double x); /* 1 / sqrt(x) */

/* ---- sums.c ---- */

/** C[m][n] = sum over k of A[m][k] B[k][n] under the chosen accumulator, association and result; operands are rounded already. */
vn_status_t contract(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, const double *a, const double *b, double *out);
/** out[i] = sum over k of x[k][i]. */
vn_status_t sum_rows(const call_t *c, bool wide, int64_t k, int64_t n, const double *x, double *out);
/** out[r] = sum over k of x[r][k], r < rows; the same sums by rows. */
vn_status_t sum_each(const call_t *c, bool wide, int64_t rows, int64_t k, const double *x, double *out);

/* ---- operands.c: what happens to the operands of a product before it ---- */

/** Rounds the operands of a contraction in place. */
void round_operands(const call_t *c, double *x, int64_t n);
/** Activations [rows][k] become the values of their 8-bit codes. */
void quantise_activations(const call_t *c, int64_t rows, int64_t k, double *x);
/** contract after operand rounding, splitting into bf16 pieces and quantisation of `a`. Changes a and b. */
vn_status_t product(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, double *a, double *b, double *out);
/** The same, no operand quantised: for those whose activations are not `a`. */
vn_status_t plain_product(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, double *a, double *b, double *out);

#endif
