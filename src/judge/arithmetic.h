/* arithmetic.h -- rung 7, first half: other arithmetics with a name. What the engine (hypotheses.c) and its sources (arithmetic_*.c) share.
 *
 * A source computes what an arithmetic gives on this very data, as a reference of its own (value, bound, variance), and lets the engine consider
 * it; the engine accepts by claim HYPO-1 and keeps the likeliest. A source that the operator does not concern does nothing.
 */
#ifndef VN_JUDGE_ARITHMETIC_H
#define VN_JUDGE_ARITHMETIC_H

#include "judge/ladder.h"

enum {
    VN_ARITH_WIDE = 1,   /* its bound holds much else: a variant of the computation that fits the contract's own bound is the better name */
    VN_ARITH_LOCAL = 2,  /* acts on few elements (flush, overflow): must explain every element, needs no typical one to be off */
    VN_ARITH_BUG = 8,    /* it leaves the result useless (NaN, out of range, off by whole steps): the verdict is bug, the name stays */
    VN_ARITH_LEADS = 16, /* if it explains all but a few elements, these are faults: what is merely wide must not swallow them (ARITH-W4) */
    VN_ARITH_SHARP = 4,  /* the reference is the arithmetic itself, carried out: every element near it is evidence, typical or not */
};

/** One failing output under the arithmetics. x: the actual numbers, NULL for strings and complex numbers. */
typedef struct vn_arith {
    vn_case_t *c;
    const double *x;
    int64_t n;
    double h0;         /* log likelihood of the contract at its best scale */
    bool typical;      /* the typical element is off under the contract */
    double margin;     /* ln(1 / alpha) */
    double choices;    /* ln of the number of parameters among which the source in question let the data choose; taken off its likelihood */
    vn_format_t store; /* narrower format that the source in question sees every result in; NONE: the tensor's (claim ARITH-W3) */
    double deadline;   /* vn_spent() after which no further source is asked */
    int source;        /* number of the one that is asked, for the hint */
    int tried;
    bool cut;
    bool found, wide, bug, has_rms;
    int64_t almost; /* a leading arithmetic explains all but so many elements; 0: none does */
    int held;
    double log_l, rms;
    char id[64], words[320];
} vn_arith_t;

typedef vn_status_t (*vn_arith_fn)(vn_arith_t *a, vn_error_t *err);

/**
 * Considers one arithmetic. ref: of the judged output under it (value, bound; var where it has one, tensor). fmt: words for the reader.
 * Errors: NOMEM. The caller keeps ref.
 */
vn_status_t vn_arith_consider(vn_arith_t *a, const char *id, unsigned flags, const vn_ref_t *ref, vn_error_t *err, const char *fmt, ...)
    VN_PRINTF(6, 7);
/** The same for a result of which every bit is foretold (integers, comparisons, moved values): accepted iff all bits agree. */
void vn_arith_exact(vn_arith_t *a, const char *id, unsigned flags, const vn_tensor_t *foretold, const char *fmt, ...) VN_PRINTF(5, 6);
/**
 * Of a sample of elements only: log_l and h0 are sums over it, scaled by the engine to the evidence of the whole output. The caller has checked
 * that every element of the sample is within the arithmetic's own bound.
 */
void vn_arith_sampled(vn_arith_t *a, const char *id, unsigned flags, int64_t sample, double log_l, double h0, double rms, const char *fmt,
                      ...) VN_PRINTF(8, 9);

/** A reference like the judged output's, with these planes (n elements each, taken over; var may be NULL). Errors: NOMEM; ref is zeroed then. */
vn_status_t vn_arith_planes(const vn_arith_t *a, double *value, double *bound, double *var, vn_ref_t *ref, vn_error_t *err);
/** Log mass of the cell that rounds to x, for a value y with variance v of its error (bounds.md, calculus 9). */
double vn_arith_log_mass(vn_format_t f, double x, double y, double v);
/** All finite results are numbers of the format, and enough of them are not zero to tell. */
bool vn_arith_members(const vn_arith_t *a, vn_format_t f);
/** Some result lies outside the interval of all values of the function (tanh above 1, a negative exponential): useless whatever explains it. */
bool vn_arith_leaves_range(const vn_arith_t *a);
/** Whether time is left; notes the cut. */
bool vn_arith_time(vn_arith_t *a);
/**
 * Oracle of the judged output with other operands (one value per input of the node, or of the region's graph). *ref is zeroed where it refuses.
 * Recurrent layers: each step from the state that was returned before it (claim JUDGE-3), where all states are; else the whole.
 */
vn_status_t vn_arith_oracle(const vn_arith_t *a, const vn_value_t *const *inputs, const vn_contract_t *contract, int want, vn_ref_t *ref,
                            vn_error_t *err);
/** The question is about one recurrent layer of ai.onnx. */
bool vn_arith_recurrent(const vn_arith_t *a);
/** Operand k of the question as a tensor; NULL if absent or no tensor. */
const vn_tensor_t *vn_arith_operand(const vn_arith_t *a, int k);
/** f64 plane of operand k, to be released with vn_free; NULL on no memory. */
double *vn_arith_plane(const vn_arith_t *a, int k);
/** The node's operator is ai.onnx `op`. */
bool vn_arith_is(const vn_arith_t *a, const char *op);
/** Error of element i before the store to the output's type, from the bound after it (claim STORE-1 solved for E). */
double vn_arith_unstored(const vn_arith_t *a, int64_t i);

/* ---- contracts: arithmetic_table.c ---- */
typedef struct vn_arith_row {
    const char *id, *words;
    vn_format_t operand;
    vn_rounding_t rounding;
    vn_format_t accumulator, result, intermediate;
    int mask; /* which operand is rounded; 0 = all */
    bool ftz, daz;
} vn_arith_row_t;
extern const vn_arith_row_t vn_arith_rows[];
extern const int vn_arith_row_count;
/** A hypothesis must ask for less than the contract gives, else it is the contract. */
bool vn_arith_applies(const vn_arith_row_t *h, const vn_contract_t *c, vn_op_class_t cls, vn_dtype_t out);
vn_contract_t vn_arith_changed(const vn_arith_row_t *h, const vn_contract_t *base);

/* ---- sources ---- */
vn_status_t vn_arith_flush(vn_arith_t *a, vn_error_t *err);        /* arithmetic_store.c: subnormal operands read as zero, any output */
vn_status_t vn_arith_store(vn_arith_t *a, vn_error_t *err);        /* arithmetic_store.c: rounded twice, cut at the store */
vn_status_t vn_arith_quotient(vn_arith_t *a, vn_error_t *err);     /* arithmetic_quotient.c */
vn_status_t vn_arith_split(vn_arith_t *a, vn_error_t *err);        /* arithmetic_operands.c: bf16x3 */
vn_status_t vn_arith_activations(vn_arith_t *a, vn_error_t *err);  /* arithmetic_operands.c: int8 on the fly */
vn_status_t vn_arith_partials(vn_arith_t *a, vn_error_t *err);     /* arithmetic_adders.c: partial sums in 16 bits */
vn_status_t vn_arith_running(vn_arith_t *a, vn_error_t *err);      /* arithmetic_adders.c: running sums in 16 bits, carried out */
vn_status_t vn_arith_truncating(vn_arith_t *a, vn_error_t *err);   /* arithmetic_adders.c: adders that cut */
vn_status_t vn_arith_winograd(vn_arith_t *a, vn_error_t *err);     /* arithmetic_winograd.c */
vn_status_t vn_arith_no_maximum(vn_arith_t *a, vn_error_t *err);   /* arithmetic_exponential.c */
vn_status_t vn_arith_denominator(vn_arith_t *a, vn_error_t *err);  /* arithmetic_exponential.c: softmax sums in 16 bits */
vn_status_t vn_arith_fast_exp(vn_arith_t *a, vn_error_t *err);     /* arithmetic_exponential.c */
vn_status_t vn_arith_cancellation(vn_arith_t *a, vn_error_t *err); /* arithmetic_exponential.c: differences of exponentials near zero */
vn_status_t vn_arith_overflow(vn_arith_t *a, vn_error_t *err);     /* arithmetic_overflow.c */
vn_status_t vn_arith_fit(vn_arith_t *a, vn_error_t *err);          /* arithmetic_fit.c */
vn_status_t vn_arith_statistics(vn_arith_t *a, vn_error_t *err);   /* arithmetic_statistics.c: squares and roots in 16 bits */
vn_status_t vn_arith_region(vn_arith_t *a, vn_error_t *err);       /* arithmetic_region.c: values between nodes, casts, folds */
vn_status_t vn_arith_weights(vn_arith_t *a, vn_error_t *err);      /* arithmetic_weights.c: weights converted by another rule */
vn_status_t vn_arith_moved(vn_arith_t *a, vn_error_t *err);        /* arithmetic_weights.c: moved values stored more narrowly */

/* ---- groups of elements that one reduction, softmax or norm takes together: arithmetic_groups.c ---- */
/**
 * Element j of group g of an operand of the given dims stands at base[g] + offset[j].
 * keeps: output elements correspond to operand elements (softmax, norms); else one output element per group, in order.
 */
typedef struct vn_groups {
    int64_t count, size;
    int64_t *base, *offset;
    bool keeps;
} vn_groups_t;
/** Groups of the question's node; count 0 where it has none of these. Errors: NOMEM. Release with vn_groups_free. */
vn_status_t vn_groups_of(const vn_arith_t *a, vn_groups_t *out, vn_error_t *err);
void vn_groups_free(vn_groups_t *g);

#endif
