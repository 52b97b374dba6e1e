/* mutant.h -- what the files of this worker share: the chosen arithmetic, a call of an operator, tables of operators. */
#ifndef VN_MUTANT_H
#define VN_MUTANT_H

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
    BLOCKS128,  /* chains over 128 terms each, their results chained */
    FUSED       /* sequential with fused multiply-add: one rounding a term */
} association_t;

typedef struct rounding_choice {
    vn_format_t format; /* NONE: as the type is */
    vn_rounding_t mode;
} rounding_choice_t;

/** Sums: every contraction, reduction, mean, softmax denominator. operands: contractions only. */
typedef struct arithmetic {
    rounding_choice_t operands, accumulator, result;
    association_t association;
    bool ftz, daz; /* results, operands below the smallest normal number of f32 (f64 for f64) become signed zeros */
} arithmetic_t;

/** Takes "key=value"; false: not an option of the arithmetic, or no value of it. */
bool mutant_option(arithmetic_t *a, const char *text);
/** Adds the settings as members of a JSON object, no braces. */
void mutant_describe(const arithmetic_t *a, vn_text_t *json);

/* ---- operators ---- */

typedef struct call {
    const arithmetic_t *a;
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
extern const op_table_t contraction_ops, elementwise_ops, reduction_ops, normalisation_ops, pooling_ops, movement_ops, index_ops;
const op_row_t *mutant_find(const char *domain, const char *name); /* NULL: not known */

/* ---- values.c: operands as doubles, results back in their type ---- */

bool is_wide(vn_dtype_t t); /* f64: computed in f64; every other float in f32 */
/** x as the working format holds it. */
static inline double settle(bool wide, double x) { return wide ? x : (double)(float)x; }
/** Input k must be there and of a real float type. */
vn_status_t need_float(const call_t *c, int k);
vn_status_t need(const call_t *c, int k);
/** All elements as doubles, subnormals flushed under daz; release with vn_free. NULL: no memory (err is set). */
double *plane(const call_t *c, const vn_tensor_t *t);
int64_t *int_plane(const call_t *c, const vn_tensor_t *t);
/** Rounds into a new tensor, flushes under ftz, sets out[k]. Takes v over. */
vn_status_t put_plane(call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, double *v);
vn_status_t put_ints(call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, int64_t *v);
vn_status_t no_memory(const call_t *c);
/** A list of integers from input k, else from attribute `name`; *n = -1 when neither is there. Release with vn_free. */
vn_status_t int_list(const call_t *c, int k, const char *name, int64_t **v, int64_t *n);
/** Brings a negative axis into 0 .. rank-1. */
vn_status_t fix_axis(const call_t *c, int64_t *axis, int rank);
int64_t product_of(const int64_t *dims, int n);

/* ---- sums.c ---- */

/** C[m][n] = sum over k of A[m][k] B[k][n] under the chosen accumulator, association and result; operands are rounded already. */
vn_status_t contract(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, const double *a, const double *b, double *out);
/** out[i] = sum over k of x[k][i]. */
vn_status_t sum_rows(const call_t *c, bool wide, int64_t k, int64_t n, const double *x, double *out);
/** Rounds the operands of a contraction in place. */
void round_operands(const call_t *c, double *x, int64_t n);

#endif
