/* dot.h -- which operand elements meet in the sum behind an output element: products, convolutions, sums, averages, as one kind of index map.
 *
 * An output coordinate and a coordinate along the summed axes give one element of operand A and one of operand B, by strides; along windowed
 * axes the place follows from stride, dilation and padding, and may lie outside. Nothing here depends on the oracle's own loops.
 */
#ifndef VN_JUDGE_DOT_H
#define VN_JUDGE_DOT_H

#include "judge/explain.h"

/** One windowed axis: output axis `out`, summed axis `tap`; the input coordinate is o stride + k dilation - pad, or its inverse (transposed). */
typedef struct vn_dot_window {
    int out, tap;
    int64_t stride, dilation, pad, size, step; /* size of the input axis, elements between its coordinates in A */
    bool transposed;
} vn_dot_window_t;

/** How the result follows from the sum S. */
typedef enum vn_dot_form {
    VN_DOT_LINEAR, /* y = gain S + what is not in the sum */
    VN_DOT_ROOT,   /* y = sqrt(S) */
    VN_DOT_LOG,    /* y = log S */
    VN_DOT_INT32,  /* y = S modulo 2^32 */
    VN_DOT_CODE    /* y = clamp(round(gain (S + bias)) + zero) */
} vn_dot_form_t;
typedef enum vn_dot_term { VN_DOT_PRODUCT, VN_DOT_PLAIN, VN_DOT_ABS, VN_DOT_SQUARE, VN_DOT_EXP } vn_dot_term_t;

typedef struct vn_dot {
    vn_dot_form_t form;
    vn_dot_term_t term;
    int operand_a, operand_b;             /* numbers of the operands; b -1: none */
    double *a, *b;                        /* as stored */
    double *a0, *b0;                      /* zero points per element, or NULL */
    const vn_tensor_t *ta, *tb;           /* borrowed */
    int rank, axes;                       /* of the output; summed */
    int64_t dims[VN_MAX_RANK + 2], count; /* of the output, groups split */
    int64_t length[VN_MAX_RANK], depth;   /* of the summed axes, the last one fastest */
    int64_t out_a[VN_MAX_RANK + 2], out_b[VN_MAX_RANK + 2], sum_a[VN_MAX_RANK], sum_b[VN_MAX_RANK];
    int windows;
    vn_dot_window_t window[VN_MAX_RANK];
    double gain, *gains, *bias; /* gains, bias: per channel, or NULL */
    int64_t channels, inner;    /* channel of element i: i / inner % channels */
    double zero, lo, hi;        /* CODE */
    bool maximum;               /* no sum: the largest of the terms (pooling); sums of it mean nothing */
    bool average;               /* gain is 1 / terms present */
    char what[VN_MAX_RANK][16]; /* of the summed axes, for words */
} vn_dot_t;

/** The sum behind the variant's node, operands known. *known false: not such an operator, or something of it is not known. */
vn_status_t vn_dot_open(const vn_variant_t *v, vn_dot_t *out, bool *known, vn_error_t *err);
void vn_dot_close(vn_dot_t *d);
/** Places of the `depth` terms of element i; ia[t] -1: padding. ib unused without operand B. */
void vn_dot_places(const vn_dot_t *d, int64_t i, int64_t *ia, int64_t *ib);
/** Terms by places, zero points taken off; padding gives 0. */
void vn_dot_terms(const vn_dot_t *d, const int64_t *ia, const int64_t *ib, double *out);
double vn_dot_gain(const vn_dot_t *d, int64_t i, const int64_t *ia);
/** order[k]: the term that comes k-th when summed axis `axis` is outermost. */
void vn_dot_order(const vn_dot_t *d, int axis, int64_t *order);

/**
 * What the sum of element i lacks against the exact one: the actual result fits any M in [*lo, *hi]. False: nothing can be said (saturated on
 * both sides, not finite). sum: the exact sum (CODE alone reads it). tight: the room is that of honest noise, where the model knows it.
 */
bool vn_dot_missing(const vn_dot_t *d, const vn_explain_t *e, int64_t i, double sum, double gain, bool tight, double *lo, double *hi);

#endif
