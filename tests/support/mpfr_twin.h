/* mpfr_twin.h -- slow exact values of operators by MPFR, for tests: what the oracle itself is held against. No code is shared with it.
 *
 * Every function works at the precision of its result, carries out the formula of the operator's text as it stands, and takes operands as
 * doubles (members of the tensor's type). With 640 bits a sum of f32 products is exact, cancellation included.
 */
#ifndef VN_TEST_MPFR_TWIN_H
#define VN_TEST_MPFR_TWIN_H

#include <math.h>

#include <mpfr.h>

#include "vernier/tensor.h"

enum { TW_BITS = 640 };

/* ---- numbers ---- */

/** n numbers of TW_BITS, all zero. NULL on no memory. Release with tw_free. */
mpfr_t *tw_new(int64_t n);
void tw_free(mpfr_t *v, int64_t n);
void tw_load(mpfr_t *v, const double *x, int64_t n);
/** |value + lo - exact|, rounded up; 0 where both are the same infinity or both NaN; Inf where only one of them is special. */
double tw_off(const mpfr_t exact, double value, double lo);
/** The member of f nearest to y, ties to even, rounded once; overflow as vn_round_to gives it. */
double tw_round(vn_format_t f, const mpfr_t y);

/* ---- functions of one argument, by operator ---- */

typedef void (*tw_fn_t)(mpfr_t y, const mpfr_t x, const double *p);
typedef struct tw_function {
    const char *op;
    int version;
    tw_fn_t exact;
    double p[2];      /* the operator's default attributes, as f32 */
    const char *form; /* Gelu: approximate */
    double lo, hi;    /* where random arguments are worth while */
    const char *domain;
} tw_function_t;
extern const tw_function_t tw_functions[];
extern const int tw_function_count;
/** The row of an operator; NULL if there is none. form NULL: the first one. */
const tw_function_t *tw_function(const char *op, const char *form);

/* ---- rows of n elements ---- */

typedef enum tw_reduce { TW_SUM, TW_MEAN, TW_L1, TW_L2, TW_SQUARES, TW_PROD, TW_LOGSUM, TW_LOGSUMEXP, TW_MAX, TW_MIN } tw_reduce_t;
void tw_reduce(mpfr_t y, tw_reduce_t kind, const double *x, int64_t n);
/** y += sum of a[i sa] b[i sb]. */
void tw_dot(mpfr_t y, const double *a, int64_t sa, const double *b, int64_t sb, int64_t n);
/** Softmax or its logarithm of x; -Inf entries allowed as long as one is finite. */
void tw_softmax(mpfr_t *y, mpfr_t *x, int64_t n, bool logarithm);
/**
 * gamma (x - mean) / sqrt(variance + eps) + beta; centred false: the root mean square of x in place of the deviation, no mean. gamma and beta
 * may be NULL.
 */
void tw_normalise(mpfr_t *y, const double *x, const double *gamma, const double *beta, int64_t n, double eps, bool centred);
/** y[k] = sum (product) of x[0..k], or of the elements before k; reverse: from the end. */
void tw_prefix(mpfr_t *y, const double *x, int64_t n, bool product, bool exclusive, bool reverse);
/** Plane k of the transform of n complex numbers (im may be NULL), divided by n if inverse. */
void tw_fourier(mpfr_t re_out, mpfr_t im_out, const double *re, const double *im, int64_t n, int64_t k, bool inverse);
/**
 * One query of attention: scores scale q.k_j (softcap if > 0) + mask_j, weights by softmax, out[c] = sum of weights times v_j[c]. mask may be
 * NULL; -Inf forbids a key; a query without keys gives 0.
 */
typedef struct tw_query {
    const double *q, *k, *v, *mask;
    int64_t keys, size, value_size;
    double scale, softcap;
} tw_query_t;
void tw_attend(mpfr_t *out, const tw_query_t *a);

#endif
