/* elementwise.h -- what the elementwise files share: spacing of a format, uncertain operands, the table of functions, the rows' entry points. */
#ifndef VN_ORACLE_ELEMENTWISE_H
#define VN_ORACLE_ELEMENTWISE_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle/bcast.h"
#include "oracle/frame.h"
#include "oracle/sums.h"

/* ---- spacing ---- */

/** Spacing of a format without a call per element: ulp(y) = max(binade(y) * step, eta). */
typedef struct vn_spacing {
    double step, eta;
} vn_spacing_t;

static inline vn_spacing_t vn_spacing(vn_format_t f) {
    const vn_format_info_t *i = vn_format_info(f);
    return (vn_spacing_t){.step = 2 * i->u, .eta = i->eta};
}

/** ulp(y) as vn_ulp gives it; 0 for NaN and Inf, whose values are demanded. */
static inline double vn_spacing_at(vn_spacing_t s, double y) {
    uint64_t bits;
    memcpy(&bits, &y, sizeof bits);
    bits &= 0x7ff0000000000000u;
    double binade;
    memcpy(&binade, &bits, sizeof binade);
    const double ulp = binade * s.step;
    return binade > DBL_MAX ? 0 : ulp > s.eta ? ulp : s.eta;
}

/** out[i] = factor ulp(y[i]) + add. */
void vn_spacing_row(vn_spacing_t s, const double *y, int64_t n, double factor, double add, double *out);
/** out[i] = factor ulp(y[i])^2. */
void vn_spacing_square_row(vn_spacing_t s, const double *y, int64_t n, double factor, double *out);

/* ---- uncertain operands ---- */

/** The working format holds the members of type t: an operation on them is one rounding into t. Else it rounds to the working format first. */
static inline bool vn_one_rounding(const vn_eval_t *e, vn_dtype_t t) {
    const vn_format_info_t *a = vn_format_info(e->contract->accumulator), *o = vn_format_info(vn_format_of(t));
    return o && a->p >= o->p && a->emin <= o->emin;
}

/** In a region values are unrounded and bounds are composed. */
static inline bool vn_in_region(const vn_eval_t *e) { return e->run && e->run->region; }
static inline bool vn_uncertain(const vn_eval_t *e, int k) { return k < e->n_in && e->in[k].err != NULL; }

/**
 * Uncertainty of operand k at element i: what flows in, and under daz the operand itself where the working format holds it as a
 * subnormal (it may be read as zero).
 */
typedef struct vn_doubt {
    const double *err, *var;
    double tau; /* 0 without daz */
} vn_doubt_t;
vn_doubt_t vn_doubt(const vn_eval_t *e, int k);
static inline bool vn_doubt_any(const vn_doubt_t *d) { return d->err != NULL || d->tau > 0; }
static inline double vn_doubt_at(const vn_doubt_t *d, int64_t i, double x) {
    const double e = d->err ? d->err[i] : 0;
    return fabs(x) < d->tau ? e + fabs(x) : e;
}

/**
 * Sets flag bits of element i of output k. The plane is made by the first call; a failed allocation is remembered in *failed.
 * Threads: pieces may call concurrently.
 */
typedef struct vn_flagger {
    vn_eval_t *e;
    int k;
    int failed;
} vn_flagger_t;
void vn_flag(vn_flagger_t *f, int64_t i, int bits);

/* Types and shapes without data: the `infer` of the rows. */
vn_status_t vn_infer_same(vn_eval_t *e);      /* type and shape of operand 0 */
vn_status_t vn_infer_same_bool(vn_eval_t *e); /* shape of operand 0, bool */
vn_status_t vn_infer_broadcast(vn_eval_t *e); /* broadcast of all operands, type of operand 0 */
vn_status_t vn_infer_broadcast_bool(vn_eval_t *e);

/* ---- functions of one argument ---- */

typedef enum vn_fn_kind {
    VN_FN_EXACT,      /* no rounding: the result is a member of the type */
    VN_FN_ROUNDED,    /* one rounding of an exact value */
    VN_FN_ELEMENTARY, /* t ulp (+ body allowance) */
    VN_FN_ARITHMETIC, /* a few roundings: `arith` counts them */
} vn_fn_kind_t;

/** What multiplies c u in the body allowance, as a function of argument x and result y. */
typedef enum vn_fn_scale {
    VN_SCALE_ONE,
    VN_SCALE_X,
    VN_SCALE_XY,
    VN_SCALE_TAN /* 1 + y^2 */,
    VN_SCALE_ALPHA /* |p[0]| */,
    VN_SCALE_SELU /* |p[0] p[1]| */
} vn_fn_scale_t;

/** Zero results whose sign the text leaves open. */
typedef enum vn_fn_zero {
    VN_ZERO_FIXED,
    VN_ZERO_AT_ZERO /* of a zero argument */,
    VN_ZERO_ELSEWHERE /* of any other argument */,
    VN_ZERO_FREE
} vn_fn_zero_t;

enum { VN_FN_PARAMS = 4, VN_FN_BREAKS = 3 };

typedef struct vn_fn {
    const char *budget; /* name in the budget table; "" if arithmetic */
    vn_fn_kind_t kind;
    /** y[i] = f(x[i]) in f64, stable in every tail. */
    void (*row)(const double *x, double *y, int64_t n, const double *p);
    /** The same in long double, for f64 tensors; NULL where row is exact or rounded once. */
    long double (*wide)(long double x, const double *p);
    /** ROUNDED on f64 tensors: y + rest is the exact value to 2^-100. */
    double (*rest)(double x, double y, const double *p);
    /**
     * ARITHMETIC: sound error of the result for unit roundoff u and smallest subnormal eta; reciprocal: a quotient may be x (1/y). NaN: the
     * formula carried out at this infinity gives NaN.
     */
    double (*arith)(double x, double y, const double *p, double u, double eta, bool reciprocal);
    /** Points at which f jumps or stops being monotone; between them it is monotone. NULL: none. Returns how many. */
    int (*breaks)(const double *p, double *at);
    double lo, hi;    /* domain; outside it the result is NaN */
    double lipschitz; /* > 0: f is not piecewise monotone with few breaks; |f'| <= lipschitz and f stays within [-1, 1] */
    bool poles;       /* tan: a pole inside the interval is seen by the order of the end values */
    vn_fn_zero_t zero;
    vn_fn_scale_t scale;
    const char *note;                               /* name of the second tier */
    bool steady;                                    /* `row` keeps to own alone: `amplified` speaks of the wide form only */
    double own;                                     /* claim ELEM-OWN: |row(x) - f(x)| <= own 2^-52 |y|; long double: own 2^-63 |y| */
    double (*amplified)(double x, const double *p); /* added to own: how rounding inside the argument grows; NULL: 0 */
    /** Change of y per unit of relative change of the attributes (16-bit tensors whose attributes are cast to the type). NULL: none. */
    double (*attribute)(double x, double y, const double *p);
} vn_fn_t;

typedef enum vn_fn_id {
    VN_F_NEG,
    VN_F_ABS,
    VN_F_SIGN,
    VN_F_FLOOR,
    VN_F_CEIL,
    VN_F_ROUND,
    VN_F_RELU,
    VN_F_THRESHOLDED,
    VN_F_SHRINK,
    VN_F_SQRT,
    VN_F_RECIPROCAL,
    VN_F_LEAKY,
    VN_F_EXP,
    VN_F_LOG,
    VN_F_SIN,
    VN_F_COS,
    VN_F_TAN,
    VN_F_ASIN,
    VN_F_ACOS,
    VN_F_ATAN,
    VN_F_SINH,
    VN_F_COSH,
    VN_F_TANH,
    VN_F_ASINH,
    VN_F_ACOSH,
    VN_F_ATANH,
    VN_F_ERF,
    VN_F_SIGMOID,
    VN_F_SOFTPLUS,
    VN_F_ELU,
    VN_F_SELU,
    VN_F_CELU,
    VN_F_GELU,
    VN_F_GELU_TANH,
    VN_F_MISH,
    VN_F_SWISH,
    VN_F_HARD_SIGMOID,
    VN_F_HARD_SWISH,
    VN_F_SOFTSIGN,
    VN_F_COUNT
} vn_fn_id_t;
extern const vn_fn_t vn_functions[VN_F_COUNT];

/** A plane with its doubt, e.g. x + bias before BiasGelu. */
typedef struct vn_plane {
    const double *value;       /* or NULL: */
    const vn_tensor_t *source; /* the operand itself, contiguous, of a float type */
    const double *lo;          /* what value leaves behind, NULL: nothing or not asked for */
    vn_doubt_t doubt;
} vn_plane_t;

/** Answers e->refine for f(x) (refine_elementwise.c). */
vn_status_t vn_refine_function(vn_eval_t *e, const vn_fn_t *f, const double *p, vn_plane_t x);
/** The same for a^b with broadcasting. */
vn_status_t vn_refine_pow(vn_eval_t *e, const double *a, const double *b, const vn_bcast_t *plan);

/** Output k = f(x), given type and shape. p: VN_FN_PARAMS parameters. */
vn_status_t vn_apply(vn_eval_t *e, int k, const vn_fn_t *f, const double *p, vn_plane_t x, vn_dtype_t t, int rank, const int64_t *dims);

/* ---- operations on two operands ---- */

typedef enum vn_pair_op {
    VN_PAIR_ADD,
    VN_PAIR_SUB,
    VN_PAIR_MUL,
    VN_PAIR_DIV,
    VN_PAIR_POW,
    VN_PAIR_FMOD,
    VN_PAIR_FLOOR_MOD,
    VN_PAIR_PRELU
} vn_pair_op_t;

/* ---- integers as int64 planes (u64 by bit pattern) ---- */

/** Operand k as int64 (bool as 0 and 1), to be released with vn_free; NULL on no memory (err set). */
int64_t *vn_ints_of(vn_eval_t *e, const vn_tensor_t *t);
/** Stores the low bits of v[0..n) into a fresh contiguous tensor of an integer type or bool (v != 0). */
void vn_ints_store(vn_tensor_t *t, const int64_t *v);
/** x reduced to the low bits of the type, with its sign. */
int64_t vn_wrap(vn_dtype_t t, int64_t x);
/** Smallest and largest member; u64: as unsigned bit pattern 0 and ~0. */
int64_t vn_int_min(vn_dtype_t t);
int64_t vn_int_max(vn_dtype_t t);

/* ---- entry points of the rows ---- */
vn_status_t vn_eval_unary(vn_eval_t *e); /* param: vn_fn_id_t */
vn_status_t vn_eval_unary_int(vn_eval_t *e, vn_fn_id_t id);
vn_status_t vn_eval_shrink_int(vn_eval_t *e, double lambd, double bias);
vn_status_t vn_eval_activation(vn_eval_t *e); /* param as above, attributes read by name */
vn_status_t vn_eval_gelu(vn_eval_t *e);       /* ai.onnx Gelu */
vn_status_t vn_eval_ms_gelu(vn_eval_t *e);    /* com.microsoft: Gelu FastGelu QuickGelu BiasGelu */
vn_status_t vn_eval_binary(vn_eval_t *e);     /* Add Sub Mul Div */
vn_status_t vn_eval_pow(vn_eval_t *e);
vn_status_t vn_eval_mod(vn_eval_t *e);
vn_status_t vn_eval_prelu(vn_eval_t *e);
vn_status_t vn_eval_pair_int(vn_eval_t *e, vn_pair_op_t op);
vn_status_t vn_eval_pow_int(vn_eval_t *e);
vn_status_t vn_eval_nary(vn_eval_t *e); /* Max Min Sum Mean */
vn_status_t vn_eval_clip(vn_eval_t *e);
vn_status_t vn_eval_class(vn_eval_t *e);   /* IsNaN IsInf */
vn_status_t vn_eval_logic(vn_eval_t *e);   /* And Or Xor Not */
vn_status_t vn_eval_bitwise(vn_eval_t *e); /* BitwiseAnd BitwiseOr BitwiseXor BitwiseNot */
vn_status_t vn_eval_shift(vn_eval_t *e);

#endif
