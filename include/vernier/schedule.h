/* vernier/schedule.h -- the order of a kernel's sum: as a tree, as text, read off results, and replayed to the bit. */
#ifndef VERNIER_SCHEDULE_H
#define VERNIER_SCHEDULE_H

#include "vernier/arith.h"
#include "vernier/base.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- trees ---- */

enum { VN_TREE_MAX_LEAVES = 1 << 22 };

/**
 * The rounding tree of a sum of n terms. Ids: leaves 0..n-1 are the terms, leaf n is the initial value or bias (if `initial`), then the inner
 * nodes in the order of `first`. Children stand before their parents; the last node is the root (no node: the single leaf is).
 * Shapes     node k (id leaves+k) has the children child[first[k]..first[k+1]), two or more; more than two: one fused sum.
 * Planar     canonical order of children: by smallest leaf, the initial value first of all; only a node of two leaves may have them the
 *            other way round: the first one's product is rounded and the second's is fused onto it (vn_tree_canonical keeps that).
 * rounded    [leaves] 1: the product of this leaf is rounded before it is added although others of the tree are fused; NULL: none.
 * Ownership  vn_tree_free.
 */
typedef struct vn_tree {
    int32_t n;
    bool initial;
    int32_t nodes;
    int32_t *first;
    int32_t *child;
    uint8_t *rounded;
} vn_tree_t;

VN_API void vn_tree_free(vn_tree_t *t);
VN_API vn_status_t vn_tree_copy(const vn_tree_t *t, vn_tree_t **out, vn_error_t *err);
static inline int32_t vn_tree_leaves(const vn_tree_t *t) { return t->n + (t->initial ? 1 : 0); }
/**
 * Nested brackets "((0,1),2)"; a leaf is its index, `c` the initial value, `P7` a leaf with a rounded product. *n terms, every leaf once.
 * Errors     PARSE with the offset. Bounds: at most VN_TREE_MAX_LEAVES leaves, any depth (no recursion).
 */
VN_API vn_status_t vn_tree_from_brackets(const char *text, vn_tree_t **out, vn_error_t *err);
/** The same text back, children in planar order. Ownership: free(*out). */
VN_API vn_status_t vn_tree_to_brackets(const vn_tree_t *t, char **out, vn_error_t *err);
/** Sorts children and nodes into the canonical planar form, in place. */
VN_API vn_status_t vn_tree_canonical(vn_tree_t *t, vn_error_t *err);
/** Same leaves, same sets under every node, same marks; the order of children does not matter but in a node of two leaves (see Planar). */
VN_API bool vn_tree_equal(const vn_tree_t *a, const vn_tree_t *b);
VN_API int32_t vn_tree_height(const vn_tree_t *t);
VN_API int32_t vn_tree_widest(const vn_tree_t *t); /* most children of a node; 0 without nodes */
/** l[i*leaves+j] = leaves under the lowest common ancestor of i and j; 1 on the diagonal. leaves <= 32768. */
VN_API vn_status_t vn_tree_matrix(const vn_tree_t *t, uint32_t *l, vn_error_t *err);
/** For many pairs: O(log n) each after O(n log n). out[p] = l(i[p], j[p]). */
VN_API vn_status_t vn_tree_pairs(const vn_tree_t *t, int64_t pairs, const int32_t *i, const int32_t *j, uint32_t *out, vn_error_t *err);
/** The tree on the leaves with keep[leaf] != 0, renumbered in order (absent taps of a convolution's border). */
VN_API vn_status_t vn_tree_restrict(const vn_tree_t *t, const uint8_t *keep, vn_tree_t **out, vn_error_t *err);
/** Picture of the tree (large regular trees: by their text, blocks drawn once). Ownership: free(*svg). */
VN_API vn_status_t vn_tree_svg(const vn_tree_t *t, char **svg, vn_error_t *err);

/* ---- text: docs/schedules.md, grammar; claim SCHED-1: a pure function of the canonical tree, and expands back to it ---- */

/** "200||S<128{S}". Ownership: free(*out). */
VN_API vn_status_t vn_schedule_compress(const vn_tree_t *t, char **out, vn_error_t *err);
/** Errors: PARSE with the offset and what was expected; hostile sizes are refused before anything is allocated. */
VN_API vn_status_t vn_schedule_expand(const char *text, vn_tree_t **out, vn_error_t *err);
/** In words: "chain(128) >> chain(72)", as far as there are words; else the text itself. */
VN_API void vn_schedule_words(const char *text, char *out, size_t size);

/* ---- rebuilding a tree from answers ---- */

typedef enum vn_violation_kind {
    VN_TREE_OK = 0,
    VN_TREE_RANGE,            /* an answer outside [2, n], or not a whole number */
    VN_TREE_ULTRAMETRIC,      /* answers that no tree gives */
    VN_TREE_NONDETERMINISTIC, /* the same question, two answers: atomics */
    VN_TREE_VALUE_DEPENDENT,  /* the order depends on the values: dynamic quantisation, zero skipping, sorting */
    VN_TREE_CROSS_TALK,       /* terms reach other elements: Strassen, Winograd, FFT */
    VN_TREE_SPLIT,            /* the operands are split into narrow parts: bf16x3, bf16x9 */
    VN_TREE_WIDE,             /* the accumulator is so wide that order is invisible */
    VN_TREE_ORDER_FREE        /* exact: integers */
} vn_violation_kind_t;
/** Why the answers are no tree. what: one line with leaves and figures. */
typedef struct vn_violation {
    vn_violation_kind_t kind;
    int32_t i, j, k;
    double value;
    char what[200];
} vn_violation_t;
VN_API const char *vn_violation_name(vn_violation_kind_t k); /* "nondeterministic"; OK: "" */

/** From all pairs: l[i*n+j] (only i < j is read, others may hold anything). *out NULL and v->kind set if they are no tree's. O(n^2). */
VN_API vn_status_t vn_rebuild_matrix(int32_t n, const double *l, vn_tree_t **out, vn_violation_t *v, vn_error_t *err);

/** Questions l(i[p], j[p]); the answers need not be whole or in range: the caller hands on what it read. */
typedef vn_status_t (*vn_ask_pairs_fn)(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err);
/**
 * From chosen pairs: recursion with random pivots, all open sets of a round asked in one call. Expected O(n log n) pairs for balanced trees,
 * 2n for chains, with `checks` further random pairs compared with the finished tree (a difference is ULTRAMETRIC). Up to 64 pairs of the first
 * round are asked again, with the checks or where the answers are no tree's: another answer is NONDETERMINISTIC.
 */
VN_API vn_status_t vn_rebuild_pairs(int32_t n, uint64_t seed, int64_t checks, vn_ask_pairs_fn ask, void *context, vn_tree_t **out,
                                    vn_violation_t *v, vn_error_t *err);

/** Questions (t; i, j): do i and j meet before t? */
typedef vn_status_t (*vn_ask_triplets_fn)(void *context, int64_t count, const int32_t *t, const int32_t *i, const int32_t *j, uint8_t *yes,
                                          vn_error_t *err);
/** From rooted triplets (non-negative terms): all three true everywhere: WIDE; none or mixed: ULTRAMETRIC. Binary trees, expected O(n log n). */
VN_API vn_status_t vn_rebuild_triplets(int32_t n, uint64_t seed, int64_t checks, vn_ask_triplets_fn ask, void *context, vn_tree_t **out,
                                       vn_violation_t *v, vn_error_t *err);

/* ---- arithmetic of a schedule ---- */

/** What happens at the leaves and nodes of a tree. Formats NONE: nothing is rounded there. */
typedef struct vn_arithmetic {
    vn_format_t operand[2]; /* the factors are rounded to this first */
    vn_rounding_t operand_rounding[2];
    bool fma;                /* unmarked products enter the sum unrounded; false: each is rounded to the accumulator */
    vn_format_t accumulator; /* f32, f64, f16, bf16 */
    vn_rounding_t rounding;  /* of the accumulator */
    int fused_bits;          /* nodes of more than two children: alignment bits F; 0: the sum is exact and rounded once */
    vn_rounding_t fused_rounding;
    vn_format_t fused_result; /* NONE: as accumulator */
    int narrow_every;         /* the running value is rounded to narrow_format after this many terms of a chain; all of them: the whole sum,
                                 before the initial value; 0: never */
    vn_format_t narrow_format;
    vn_format_t initial; /* the bias is rounded to this first */
    vn_format_t store;   /* the sum is rounded to this, then to the output's type */
    vn_rounding_t store_rounding;
    bool daz, ftz;   /* subnormal operands read as zero, subnormal results (of each step) flushed */
    bool zero_start; /* chains begin at +0, so that a sum of -0 is +0 */
} vn_arithmetic_t;
VN_API vn_arithmetic_t vn_arithmetic_default(vn_format_t accumulator); /* mul+add, nearest even, gradual underflow */
/** Canonical: "fma acc=f32", "mul+add acc=f32 operands=bf16 daz ftz". Default fields are left out. */
VN_API void vn_arithmetic_text(const vn_arithmetic_t *a, char *out, size_t size);
VN_API vn_status_t vn_arithmetic_parse(const char *text, vn_arithmetic_t *out, vn_error_t *err);

/* ---- replay: claim SCHED-2 ---- */

typedef struct vn_replay vn_replay_t; /* compiled: a stack program over rows of output columns */
/** Errors: UNSUPPORTED names what of the arithmetic has no program. Ownership: vn_replay_free. Threads: one program, any number of runs. */
VN_API vn_status_t vn_replay_compile(const vn_tree_t *t, const vn_arithmetic_t *a, vn_replay_t **out, vn_error_t *err);
VN_API void vn_replay_free(vn_replay_t *r);

/** A matrix of f32 values (every narrower operand is exact in them); strides in elements, 0 repeats. */
typedef struct vn_plane {
    const float *at;
    int64_t row, column;
} vn_plane_t;
/**
 * out[r*ld+c] = tree over k of a[r,k]*b[k,c], with start[r,c] as initial value where the tree has one (start.at NULL: 0).
 * Bits       those of a scalar execution of the tree, for every thread count. The result is after `store`, as f32.
 */
VN_API vn_status_t vn_replay_product(const vn_replay_t *r, int64_t rows, int64_t columns, vn_plane_t a, vn_plane_t b, vn_plane_t start,
                                     float *out, int64_t ld, vn_error_t *err);
/** out[c] = tree over k of x[k,c]*y[k,c] (y.at NULL: x itself is the term, nothing is multiplied), e.g. sums of squares with y = x. */
VN_API vn_status_t vn_replay_terms(const vn_replay_t *r, int64_t columns, vn_plane_t x, vn_plane_t y, vn_plane_t start, float *out,
                                   vn_error_t *err);
/** The same in f64 (accumulator f64), strides as above. */
VN_API vn_status_t vn_replay_terms_f64(const vn_replay_t *r, int64_t columns, const double *x, const double *y, int64_t row, int64_t column,
                                       double *out, vn_error_t *err);

/* ---- reveal ---- */

/**
 * The operation under study, run by the caller: a worker, or a simulation in a test.
 * run        inputs[0..n_inputs) in the operator's order; *output a new tensor that the caller of run frees (a copy: back ends reuse arrays).
 * constant   bit k: input k is a weight of the model; a call with another value of it is another program and costs a load.
 */
typedef struct vn_call {
    vn_status_t (*run)(void *context, const vn_tensor_t *const *inputs, vn_tensor_t **output, vn_error_t *err);
    void *context;
    unsigned constant;
} vn_call_t;

typedef enum vn_sum_kind {
    VN_SUM_MATMUL, /* A[batch.., m, k] x B[batch.., k, n] (+ C) */
    VN_SUM_CONV,
    VN_SUM_REDUCE_SUM,
    VN_SUM_REDUCE_MEAN,
    VN_SUM_REDUCE_L1,
    VN_SUM_SQUARE,
    VN_SUM_L2,
    VN_SUM_LOG_SUM_EXP,
    VN_SUM_SOFTMAX,
    VN_SUM_LAYER_NORM,
    VN_SUM_RMS_NORM,
    VN_SUM_CUMSUM,
    VN_SUM_ATTENTION,
    VN_SUM_AVERAGE_POOL,
    VN_SUM_MATMUL_NBITS, /* A[m, k] x dequantised weights [k, n] (com.microsoft) */
    VN_SUM_KIND_COUNT
} vn_sum_kind_t;
VN_API const char *vn_sum_kind_name(vn_sum_kind_t k); /* "MatMul" */

/** The operator instance. Which fields count, by kind: the comment of its reveal function in docs/schedules.md. */
typedef struct vn_sum_op {
    vn_sum_kind_t kind;
    vn_dtype_t dtype;       /* of operands and output */
    int64_t batch, m, k, n; /* MatMul; reductions: m rows of n terms; CumSum the same */
    bool transpose_a, transpose_b;
    bool addend;         /* MatMul: a third input C[n] or [m,n]; Conv: a bias */
    int64_t addend_rows; /* rows of C: 1 or m */
    int64_t channels, filters, groups, kernel[2], stride[2], pad[4], dilation[2], height, width; /* Conv, NCHW, batch images */
    int64_t heads, kv_heads, keys, head_size;                                                    /* Attention: m queries */
    double scale;                                                                                /* Attention; 0: 1/sqrt(head_size) */
    double epsilon;                                                                              /* norms */
    int64_t block;                                                                               /* MatMulNBits: terms that share a scale */
    int bits;                                                                                    /* of a weight's code: 2, 4, 8 */
    int accuracy;                                                                                /* accuracy_level, 0 to 4 */
    bool zero_points;                                                                            /* one for each block; else 2^(bits-1) */
} vn_sum_op_t;

typedef struct vn_reveal_options {
    uint64_t seed;
    int64_t max_calls;  /* 0: 5000; a reveal that needs more says so and ends with what it has */
    double max_seconds; /* processor seconds; 0: 60 */
    int threads;        /* of the replay; 0: all */
} vn_reveal_options_t;

/** Output elements that share a tree. mean: LayerNormalization sums twice, the terms for their mean, then squares; NULL elsewhere. */
typedef struct vn_schedule_class {
    vn_tree_t *tree; /* NULL: not revealed (violation) */
    char *text;      /* canonical */
    vn_tree_t *mean;
    char *mean_text;
    char *where; /* class map "r* c0+1%2", "*" */
    int64_t elements;
    vn_violation_t violation;
} vn_schedule_class_t;
/**
 * What was read off. Coverage = replayed/elements over the random data of several distributions: 1 means each element is bit-equal.
 * reason     named when coverage is below 1 or a class has no tree; never empty then.
 * form       what is made of the sum where that is more than a store: "y = e*(1/S)"; "" elsewhere.
 * sha256     of every class's text and map, of the arithmetic, and of mean and form where there are some: the observed algorithm identity.
 *            "" when nothing was revealed.
 */
typedef struct vn_schedule {
    vn_sum_op_t op;
    int n_classes;
    vn_schedule_class_t *classes;
    int32_t *class_of; /* [elements of one output], NULL with one class */
    int64_t outputs;
    vn_arithmetic_t arithmetic;
    char arithmetic_text[200];
    vn_arithmetic_t mean_arithmetic; /* with a mean: of its sum */
    char mean_arithmetic_text[200];
    char form[160];
    char sha256[65];
    int64_t elements, replayed; /* judged over all distributions */
    char reason[300];
    char notes[400]; /* further facts: "same in every batch; boundary classes 8 of 8 = interior tree" */
    int64_t calls;
    double backend_seconds;  /* from handing over the operands to having the result, by the clock */
    double transfer_seconds; /* processor seconds of this process therein: copying operands and results, waiting for the back end */
    double host_seconds;     /* all other processor seconds of this process */
} vn_schedule_t;
VN_API void vn_schedule_free(vn_schedule_t *s);
/**
 * Picture of the first class's tree, and below it the classes of the output elements: at most 100 cells a side (black: several classes in one
 * cell), and a line for each class with its map and its text. Errors: UNSUPPORTED: no class has a tree. Ownership: free(*svg).
 */
VN_API vn_status_t vn_schedule_svg(const vn_schedule_t *s, char **svg, vn_error_t *err);
static inline double vn_schedule_coverage(const vn_schedule_t *s) {
    return s->elements > 0 ? (double)s->replayed / (double)s->elements : 0;
}

/**
 * Reads classes, trees and arithmetic of the operation and replays it.
 * Errors     those of run; UNSUPPORTED: the kind or type has no method here, named. Not being a tree is a result, not an error.
 * Threads    calls of run come one at a time.
 */
VN_API vn_status_t vn_reveal(const vn_call_t *call, const vn_sum_op_t *op, const vn_reveal_options_t *o, vn_schedule_t **out,
                             vn_error_t *err);

/**
 * What the operation must return on these inputs (in the layout that reveal gives to call->run) if the schedule is right: products (convolutions and MatMulNBits, too) and ReduceSum.
 * out, known [s->outputs]: known is false where the element's class has no tree. Values as f32, after the store.
 * Errors     UNSUPPORTED: the kind or the type; USAGE; NOMEM.
 */
VN_API vn_status_t vn_schedule_apply(const vn_schedule_t *s, int n_inputs, const vn_tensor_t *const *inputs, float *out, bool *known,
                                     vn_error_t *err);

/* ---- arithmetic card: probes P1 to P26 (docs/schedules.md) ---- */

/** One answer: id "P14", what it measures, what came out in words, and the numbers it rests on. */
typedef struct vn_card_row {
    char id[8];
    char subject[48];
    char finding[120];
    char numbers[160]; /* hexadecimal floats, inputs and results */
} vn_card_row_t;
typedef struct vn_card {
    int n;
    vn_card_row_t *rows;
    vn_arithmetic_t arithmetic; /* what the rows add up to */
} vn_card_t;
/** Of a product revealed before (s: its tree orders the probes). Ownership: vn_card_free. */
VN_API vn_status_t vn_measure_product(const vn_call_t *call, const vn_sum_op_t *op, const vn_schedule_t *s, vn_card_t **out,
                                      vn_error_t *err);
/** The factor alpha with which Gemm runs for P18. */
#define VN_CARD_ALPHA (1 + 0x1p-12)
/** Fills row P18 of a card of the same product; call runs it with alpha = VN_CARD_ALPHA, beta = 1. Errors: UNSUPPORTED: no addend or no tree. */
VN_API vn_status_t vn_measure_alpha(const vn_call_t *call, const vn_sum_op_t *op, const vn_schedule_t *s, vn_card_t *card, vn_error_t *err);
VN_API void vn_card_free(vn_card_t *c);

/* ---- elementary functions and division of a back end: probes P26, P25 (claims CARD-6, CARD-7) ---- */

/**
 * One function. Compared are its results on every value of a 16-bit type, or on a seeded sample of f32 (vn_elementary_inputs).
 * op, then   operators, the second one on the first one's result, or NULL; opset: of the standard operators.
 * low, high  magnitudes among which half of the f32 sample lies; positive: only positive arguments are sampled.
 * direction  1 rising, -1 falling between from and to, 0: neither is asked. symmetry: 1 even, -1 odd, 0: neither.
 */
typedef struct vn_elementary {
    const char *name, *op, *then;
    int64_t opset;
    double low, high;
    bool positive;
    int direction;
    double from, to;
    int symmetry;
} vn_elementary_t;
/** The table. Returns how many. */
VN_API int vn_elementaries(const vn_elementary_t **out);

/**
 * Arguments [count]: f16 and bf16: all 65536 patterns in order. f32: 2^20, half of them spread over all magnitudes from 0 to infinity, half over
 * [low, high], in runs of 16 neighbours, ascending; where negative arguments have results, the second half is the first one negated.
 * Errors     DTYPE: another type; NOMEM.
 */
VN_API vn_status_t vn_elementary_inputs(const vn_elementary_t *f, vn_dtype_t t, uint64_t seed, vn_tensor_t **out, vn_error_t *err);

/** A largest error, in ulp of the output type at the exact result, and the argument that has it. */
typedef struct vn_worst {
    double ulp, at;
} vn_worst_t;
/**
 * What was found.
 * all        over all arguments; normal: over arguments and results in the type's normal range. Inf: a special value is wrong.
 * monotone   -1 not asked, 0 no: the result at `broken` goes back from that at its neighbour, 1 yes. symmetric, uneven: the same.
 * sha256     of the result's bytes as they are.
 * why        "": measured; else why nothing was.
 */
typedef struct vn_elementary_row {
    const vn_elementary_t *function;
    vn_dtype_t dtype;
    int64_t inputs;
    vn_worst_t all, normal;
    int monotone, symmetric;
    double broken, uneven;
    char sha256[65];
    char why[200];
} vn_elementary_row_t;
/**
 * Compares out with exact + low (low NULL: 0) at the arguments `in`. free: [count] or NULL: not 0 where a NaN or an infinity is as good.
 * Bound      ulp is off by at most the reference's own error, 2^-24 ulp of f32 for one of 2^-48 relative; NaN is due where exact is NaN.
 * Errors     SHAPE: counts differ; DTYPE; NOMEM.
 */
VN_API vn_status_t vn_elementary_measure(const vn_elementary_t *f, const vn_tensor_t *in, const vn_tensor_t *out, const double *exact,
                                         const double *low, const uint8_t *free, vn_elementary_row_t *row, vn_error_t *err);

/** x / divisor of f32 against IEEE division and against x * (1 / divisor): the finding and its figures, probe P25. in, out: f32. */
VN_API vn_status_t vn_division_measure(float divisor, const vn_tensor_t *in, const vn_tensor_t *out, vn_card_row_t *row, vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
