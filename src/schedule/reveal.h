/* reveal.h -- what the methods of src/schedule/reveal_*.c share: counted calls, the product under study, its questions, its classes. */
#ifndef VN_SCHEDULE_REVEAL_H
#define VN_SCHEDULE_REVEAL_H

#include "vernier/schedule.h"

/** One reveal at work. */
typedef struct vn_reveal_run {
    const vn_call_t *call;
    const vn_sum_op_t *op;
    vn_reveal_options_t options;
    vn_schedule_t *s;
    vn_rng_t rng;
    double began; /* processor seconds of this process at the start */
} vn_reveal_run_t;

/** Runs the operation once. *output: vn_tensor_free. Errors as below. */
vn_status_t vn_reveal_output(vn_reveal_run_t *r, const vn_tensor_t *const *inputs, int64_t count, vn_tensor_t **output, vn_error_t *err);
/** Runs the operation once. *values: the output in row-major order, `count` of them, vn_free. Errors: of run; RANGE when calls or seconds are used up. */
vn_status_t vn_reveal_call(vn_reveal_run_t *r, const vn_tensor_t *const *inputs, int64_t count, double **values, vn_error_t *err);
/** Adds a sentence to reason or notes if there is room. */
void vn_reveal_say(char *text, size_t size, const char *fmt, ...) VN_PRINTF(3, 4);

vn_status_t vn_reveal_product(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_rows(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_squares(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_scan(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_conv(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_nbits(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_attention(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_softmax(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_log_sum_exp(vn_reveal_run_t *r, vn_error_t *err);
vn_status_t vn_reveal_norm(vn_reveal_run_t *r, vn_error_t *err);

/* ---- products ---- */

/**
 * How a count of leaves is read off the output.
 * mask       the large term; unit: the small ones, 1 unless the type's range is narrow.
 * most       units that may be counted at once; more leaves take several calls.
 * one_side   both masks in one operand: the type's range does not hold masks made of two factors.
 */
typedef struct vn_readout {
    double mask, unit, filler;
    int32_t most;
    bool one_side;
    double modulo; /* > 0: masks lose or gain multiples of this under directed rounding; a count is read modulo it */
} vn_readout_t;
vn_readout_t vn_readout_of(vn_dtype_t t);

/** Logical operands of one call: a[m*k], b[k*n], c[m*n] or NULL (0), and the outputs of the first batch [m*n]. */
typedef struct vn_gemm {
    vn_reveal_run_t *r;
    int32_t m, k, n;
    vn_readout_t readout;
    float *a, *b, *c;
    float *low_a, *low_b; /* f64: what the values have beyond f32; else NULL */
    vn_tensor_t *own[2];  /* f32 stored as the operator takes it: a and b are the data of these */
    double *out;          /* [m*n], of the last call */
    bool batches_differ;
} vn_gemm_t;
vn_status_t vn_gemm_begin(vn_gemm_t *p, vn_reveal_run_t *r, vn_error_t *err);
void vn_gemm_end(vn_gemm_t *p);
/** One value of an operand: a[at] or b[at], both parts. */
static inline void vn_gemm_put_a(vn_gemm_t *p, int64_t at, double x) {
    p->a[at] = (float)x;
    if (p->low_a) p->low_a[at] = (float)(x - p->a[at]);
}
static inline void vn_gemm_put_b(vn_gemm_t *p, int64_t at, double x) {
    p->b[at] = (float)x;
    if (p->low_b) p->low_b[at] = (float)(x - p->b[at]);
}
/** Fills a and b with one value each, c with 0. */
void vn_gemm_fill(vn_gemm_t *p, float a, float b);
/**
 * Weights that are codes times a scale (op->block > 0; else nothing is done): each block of a column of b becomes whole multiples of its first
 * value's magnitude, once or minus once at least at one place, so that the scale is the least magnitude. powers: the scales become powers of two.
 */
void vn_gemm_settle(vn_gemm_t *p, bool powers);
/** Runs on a, b, c; p->out holds the result. Batches get the same operands; one that differs is noted. */
vn_status_t vn_gemm_run(vn_gemm_t *p, vn_error_t *err);

/** The same where only n elements matter: value[k] is that of element[k] of the first batch; p->out may stay as it was. */
vn_status_t vn_gemm_run_few(vn_gemm_t *p, int32_t n, const int64_t *element, double *value, vn_error_t *err);

/** Rows and columns that hold one class: any of the rows with any of the columns. */
typedef struct vn_cell {
    int32_t rows, columns;
    const int32_t *row, *column;
} vn_cell_t;

/** Terms at a few leaves, nothing (0) at all others: what one element is asked. */
enum { VN_PROBE_TERMS = 8 };
typedef struct vn_probe {
    int n;
    int32_t leaf[VN_PROBE_TERMS];
    double a[VN_PROBE_TERMS], b[VN_PROBE_TERMS];
    double start; /* the addend, where there is one */
} vn_probe_t;
void vn_probe_add(vn_probe_t *q, int32_t leaf, double a, double b);
/** out[k] = the answer to probe k, each on some element of the cell; in as few calls as the values allow. */
vn_status_t vn_gemm_probe(vn_gemm_t *p, const vn_cell_t *cell, int64_t count, const vn_probe_t *probe, double *out, vn_error_t *err);

/** The same pair for all elements: l[m*n]. */
vn_status_t vn_gemm_signature(vn_gemm_t *p, int32_t i, int32_t j, double *l, vn_error_t *err);
/** vn_ask_pairs_fn over a cell; context: vn_asker_t. */
typedef struct vn_asker {
    vn_gemm_t *p;
    vn_cell_t cell;
} vn_asker_t;
vn_status_t vn_gemm_ask(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err);

/** l[j] = terms under the lowest common ancestor of the addend and leaf j, for all j. */
vn_status_t vn_gemm_ask_start(vn_asker_t *q, double *l, vn_error_t *err);

/** All pairs of the leaves row.. with the leaves column.., into the matrix l[k*k]; the cell must have as many rows and columns. */
vn_status_t vn_gemm_ask_block(vn_asker_t *q, int32_t row, int32_t rows, int32_t column, int32_t columns, double *l, vn_error_t *err);

/** Classes of elements by signatures. */
typedef struct vn_classes {
    int count;
    int32_t *of;           /* [m*n] */
    int32_t *row, *column; /* lists of the cells, owned */
    vn_cell_t *cell;       /* [count] largest block of each class */
    int64_t *elements;
    char **where; /* class maps, owned */
} vn_classes_t;
/** signatures: n of them, each [m*n]. Errors: NOMEM; RANGE: more than 64 classes. */
vn_status_t vn_classes_of(int32_t m, int32_t n, int signatures, double *const *signature, vn_classes_t *out, vn_error_t *err);
void vn_classes_clear(vn_classes_t *c);

/* ---- sums of rows inside a larger operator (row_sums.c) ---- */

/** m rows of n terms, of each of which `width` outputs come. */
typedef struct vn_row_sums {
    vn_reveal_run_t *r;
    int32_t m, n, width;
    float *x;           /* [m*n] */
    float *weight[2];   /* [n] each: the second and the third input; NULL: there is none */
    double *out;        /* [m*width], of the last call */
    const int32_t *row; /* rows of the class that is asked */
    int32_t n_rows;
} vn_row_sums_t;
/** Errors: UNSUPPORTED: another type than f32; RANGE. weights: further inputs, of ones (the first) and zeros. */
vn_status_t vn_row_sums_begin(vn_row_sums_t *q, vn_reveal_run_t *r, int32_t width, int weights, vn_error_t *err);
void vn_row_sums_end(vn_row_sums_t *q);
vn_status_t vn_row_sums_run(vn_row_sums_t *q, vn_error_t *err);
static inline float *vn_row_sums_at(vn_row_sums_t *q, int32_t k) { return q->x + (int64_t)q->row[k] * q->n; }
static inline const double *vn_row_sums_out(const vn_row_sums_t *q, int32_t k) { return q->out + (int64_t)q->row[k] * q->width; }
/** Rows that give the same bits for the same terms are a class; `read` is called for each, with q->row set. What has no tree is the reason. */
typedef vn_status_t (*vn_read_class_fn)(void *context, vn_schedule_class_t *k, vn_error_t *err);
vn_status_t vn_row_sums_classes(vn_row_sums_t *q, vn_classes_t *classes, vn_read_class_fn read, void *context, vn_error_t *err);
/** How often a batch of all rows is drawn so that `elements` are judged, with at most a quarter of the calls that are left for `calls` a draw. */
int64_t vn_row_sums_draws(const vn_row_sums_t *q, int64_t elements, int64_t calls);

/** fused [n]: 1: the square of the leaf is fused onto its sibling's sum. Marks and pair orders are put into the tree. */
vn_status_t vn_tree_mark_squares(vn_tree_t **tree, const uint8_t *fused, bool *fma_used, vn_error_t *err);

/** Arithmetic of the leaves and nodes, measured on a cell with its tree; marks and pair orders are put into the tree. */
vn_status_t vn_gemm_measure(vn_gemm_t *p, const vn_cell_t *cell, vn_tree_t **tree, vn_arithmetic_t *a, vn_error_t *err);
/** Tree and bias: attaches the initial value. */
vn_status_t vn_gemm_attach_bias(vn_gemm_t *p, const vn_cell_t *cell, const vn_arithmetic_t *a, vn_tree_t **tree, vn_violation_t *v,
                                vn_error_t *err);

/** Results that change from run to run, leaks between elements, scales taken from the data (checks.c). v: OK, or what was found. */
vn_status_t vn_gemm_checks(vn_gemm_t *p, vn_violation_t *v, vn_error_t *err);
/** Whether single products come out correctly rounded; if not, v names the emulation by parts. */
vn_status_t vn_gemm_split(vn_gemm_t *p, const vn_cell_t *cell, const vn_arithmetic_t *a, vn_violation_t *v, vn_error_t *err);

/** Nodes of more than two children: alignment bits and rounding. Nothing to do where there is none (sums.c). */
vn_status_t vn_gemm_groups(vn_gemm_t *p, const vn_cell_t *cell, const vn_tree_t *t, vn_arithmetic_t *a, vn_error_t *err);
/** Whether running values pass through a narrower format, and after how many terms. */
vn_status_t vn_gemm_narrow(vn_gemm_t *p, const vn_cell_t *cell, const vn_tree_t *t, vn_arithmetic_t *a, vn_error_t *err);
/** Whether sums of -0 are +0. */
vn_status_t vn_gemm_zero(vn_gemm_t *p, const vn_cell_t *cell, vn_arithmetic_t *a, vn_error_t *err);
/** Up to 8 leaves of one node of more than two children. False: no such node with three leaves. */
bool vn_tree_group(const vn_tree_t *t, int32_t leaf[8], int *found);

/** Three leaves: the first two meet before the third joins them. False: no such three. */
bool vn_tree_three(const vn_tree_t *t, int32_t leaf[3]);
/** Class c of the schedule has fused products where the others have not, or the other way round: marks make one arithmetic of both. */
vn_status_t vn_gemm_unify(vn_schedule_t *s, int c, const vn_arithmetic_t *a, vn_error_t *err);
/** For each leaf a leaf of its sibling's subtree; -1 where the parent has more than two children or the sibling is the bias. pair: both are leaves. */
vn_status_t vn_tree_partners(const vn_tree_t *t, int32_t *partner, bool *pair, vn_error_t *err);
/** Puts marks and pair orders into a new tree. answer[leaf] > 0: fused, 0: its product is rounded, < 0: the partner is fused onto it. */
vn_status_t vn_tree_mark(vn_tree_t **tree, const double *answer, const int32_t *partner, const bool *pair, bool fma, vn_error_t *err);
/** Every pair of two leaves with its children the other way round. */
vn_status_t vn_tree_turn_pairs(const vn_tree_t *t, vn_tree_t **out, vn_error_t *err);
/**
 * Replays all classes on several distributions (verify.c): elements, replayed and reason of the schedule. differs: NULL, or [m*n], 1 is put
 * where an element differed.
 */
vn_status_t vn_gemm_replay(vn_gemm_t *p, const vn_classes_t *classes, uint8_t *differs, vn_error_t *err);
/** Text, hash: call when classes and arithmetic stand. */
vn_status_t vn_reveal_identity(vn_schedule_t *s, vn_error_t *err);

#endif
