/* escalate.h -- elements that float64 leaves open: what a row gives about them when it is asked again in 113 bits. */
#ifndef VN_ORACLE_ESCALATE_H
#define VN_ORACLE_ESCALATE_H

#include "oracle/quad.h"
#include "oracle/rows.h"

/** One element: the exact value is within own of value + rest. own 0: it is that number; own Inf: nothing was found out. */
typedef struct vn_exact {
    vn_quad_t value, rest, own;
} vn_exact_t;

/**
 * A request to a row with VN_OP_REFINES: its eval is called again with e->refine set, plans as before, and in place of filling planes gives
 * out[i] for element at[i] of output k. vn_out_float then only notes type and shape: value, bound and the other planes are NULL.
 */
typedef struct vn_refine {
    int k;
    vn_format_t format; /* of the result: what decides it is enough */
    int64_t n;
    const int64_t *at; /* ascending */
    vn_exact_t *out;   /* own is Inf until written */
} vn_refine_t;

/** Elements of output k are to be asked about at all: it has values, is no movement, its operands are exact, the run is not plain. */
bool vn_escalate_asks(const vn_eval_t *e, const vn_op_t *row, int k);
/** Elements are remembered as open or not in pieces of this many. */
enum { VN_OPEN_PIECE = 2048 };
/** Some of elements [begin, begin + n) are not decided. Threads: pieces may ask concurrently. */
bool vn_escalate_any(const vn_eval_t *e, int k, int64_t begin, int64_t n);
/**
 * After output k was rounded, if the two above say so (marks: for which pieces, the others are not looked at): finds the elements whose value and own error do not decide that rounding, asks the row again, mends tensor, value,
 * lo and own, and counts (claims PREC-2, PREC-3). Those still open get their other neighbour in `either`.
 * Errors     NOMEM, and what the row's eval returns.
 */
vn_status_t vn_escalate(vn_eval_t *e, const vn_op_t *row, int k, const uint8_t *marks);

/** All of [value + rest - own, value + rest + own] rounds to one number of format f. */
bool vn_exact_decided(vn_format_t f, const vn_exact_t *x);
/** exact + rest in format f, one rounding. */
double vn_exact_round(vn_format_t f, vn_quad_t value, vn_quad_t rest);

/* ---- for the rows ---- */

typedef void (*vn_refine_fn)(void *ctx, int64_t element, vn_exact_t *out);
/** Calls fn for every element asked for, in parallel. */
void vn_refine_each(vn_eval_t *e, vn_refine_fn fn, void *ctx);

/** One row of a tensor (vn_rows_t) and which of its elements are asked for. */
typedef struct vn_refine_row {
    int64_t index, n, count;
    const int64_t *k; /* places in the row */
    vn_exact_t *const *out;
} vn_refine_row_t;
typedef void (*vn_refine_row_fn)(void *ctx, const vn_refine_row_t *row);
/** The elements of the request grouped by rows, rows in parallel. Errors: NOMEM. */
vn_status_t vn_refine_rows(vn_eval_t *e, const vn_rows_t *s, vn_refine_row_fn fn, void *ctx);

/** a / b; exact where a is a single number and the division leaves nothing. */
static inline vn_exact_t vn_exact_quotient(vn_exact_t a, vn_quad_t b) {
    vn_exact_t r = {.value = a.value / b};
    const vn_quad_t left = vn_qfma(-r.value, b, a.value) + a.rest; /* what a division leaves is a number; the sum may round */
    r.rest = left / b;
    r.own = (a.own + vn_qabs(left) * (4 * VN_QUAD_U)) / vn_qabs(b) * (1 + 4 * VN_QUAD_U);
    return r;
}

/** The root of a sum; what is left under it says whether the root is exact. */
static inline vn_exact_t vn_exact_root(const vn_quad_sum_t *s) {
    vn_exact_t r = {.value = vn_qsqrt(s->hi)};
    if (!(r.value > 0)) return (vn_exact_t){.own = s->hi == 0 && s->lo == 0 ? s->lost : (vn_quad_t)INFINITY};
    const vn_quad_t left = vn_qfma(-r.value, r.value, s->hi) + s->lo;
    r.rest = left / (2 * r.value);
    r.own = (s->lost + vn_qabs(left) * (8 * VN_QUAD_U)) / (2 * r.value);
    return r;
}

/** A row of exponentials: others = sum of exp(x - max) but for one term at the maximum, relative its error; log = log(1 + others). */
typedef struct vn_quad_expsum {
    double max; /* not finite: the row has no such sum */
    vn_quad_t others, relative, log, log_own;
} vn_quad_expsum_t;
vn_quad_expsum_t vn_quad_expsum(const double *x, int64_t n);

/** The sum as an element. */
static inline vn_exact_t vn_exact_sum(const vn_quad_sum_t *s) { return (vn_exact_t){.value = s->hi, .rest = s->lo, .own = s->lost}; }

#endif
