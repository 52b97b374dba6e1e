/* product.h -- sums of products under a contract: one tile of C = alpha A B + beta bias with value, bound, variance and own error.
 *
 * Everything that contracts (MatMul, Gemm, Einsum, Conv, ConvTranspose, ...) prepares two factors once, samples the variance model, and
 * then fills tiles. The formulas are claims CONTRACT-1 to CONTRACT-8 in docs/claims.md.
 */
#ifndef VN_ORACLE_PRODUCT_H
#define VN_ORACLE_PRODUCT_H

#include "oracle/magnitude.h"
#include "oracle/registry.h"

/** One operand, prepared once per evaluation. Planes share the operand's layout; those not needed stay NULL. */
typedef struct vn_factor {
    int64_t count;
    const double *x;   /* values as the contract reads them */
    const float *raw;  /* the same as f32, where the tensor holds them so; NULL otherwise */
    const double *err; /* sound uncertainty, NULL = exact */
    const double *var;
    float *mag, *sq; /* |x| and x^2, scaled, for the f32 path */
    double *dmag;    /* |x| + err, for the f64 path and for uncertain operands */
    double *dsq;     /* x^2, for the variance of what f32 cannot hold and of uncertain operands */
    double *sub;     /* |x| where subnormal in `format`, else 0; only under daz and only if there are any */
    double mag_scale, sq_scale;
    vn_extent_t extent; /* of |x| */
    double grid;        /* every element is a multiple of this power of two; 0 = no small grid */
    vn_format_t format; /* narrowest format that holds every element; NONE: integers */
    double *owned_x, *owned_err, *owned_var;
} vn_factor_t;

/** Operand k of the node as position `position` of the contraction (bit of contract->operand_mask); rounds it where the contract says so. */
vn_status_t vn_factor_input(vn_eval_t *e, int k, int position, vn_factor_t *f);
/** A plane made by the caller, borrowed (err and var may be NULL). format NONE: integers or arbitrary doubles. */
void vn_factor_plane(const double *x, const double *err, const double *var, int64_t count, vn_format_t format, vn_factor_t *f);
void vn_factor_free(vn_factor_t *f);

/** The added term beta * c: element (i, j) of a tile is c[i*rs + j*cs]; the whole plane has `count` elements. c NULL: none. */
typedef struct vn_bias {
    const double *c, *err, *var;
    int64_t count, rs, cs;
} vn_bias_t;
/** Input k as bias, strides 0. Errors: NOMEM. */
vn_status_t vn_bias_input(vn_eval_t *e, int k, vn_bias_t *out);
/** The same bias seen from another element. */
vn_bias_t vn_bias_at(const vn_bias_t *b, int64_t offset);

typedef struct vn_product {
    vn_eval_t *e;
    vn_factor_t a, b;
    vn_format_t acc;
    double u, eta, tau, acc_max;
    double alpha, beta; /* 1 where absent */
    bool bound, variance;
    bool compensated;    /* binary64 operands: twice the working precision */
    bool exact_products; /* 2 p_in <= p_acc */
    bool no_underflow;   /* products and sums cannot leave the normal range of the accumulator */
    int64_t depth;       /* largest number of terms */
    bool f32_mag, f32_sq, has_bias, uncertain, nonfinite;
    double mag_unscale, sq_unscale;
    double lost;           /* per term, to underflow of the f64 magnitudes */
    double exact_below;    /* sums of magnitudes below this are exact in every order (claim CONTRACT-3) */
    double var_scale;      /* from the sample, >= 1 (claim CONTRACT-6) */
    double extra_rel;      /* further roundings of each term, in units of u (dequantised weights ...) */
    double extra_format_u; /* further relative error of each term, absolute number */
    bool failed;           /* a tile found no memory */
    double *value, *lo, *bound_out, *var_out, *own;
    uint8_t *flags;
} vn_product_t;

/**
 * Takes over both factors (released by vn_product_end, also after an error) and makes the planes that tiles of at most `depth` terms need.
 * bias: its plane (strides do not matter here), NULL if absent. Output 0 of the node must have been created by vn_out_float: the
 * planes own, lo and flags are added here as needed.
 */
vn_status_t vn_product_begin(vn_product_t *p, vn_eval_t *e, vn_factor_t *a, vn_factor_t *b, int64_t depth, double alpha, double beta,
                             const vn_bias_t *bias);
void vn_product_end(vn_product_t *p);

/** A factor's planes at an offset, as a matrix. t: stored transposed. */
typedef struct vn_side {
    const double *x, *err, *var, *dmag, *dsq, *sub;
    const float *mag, *sq;
    int64_t ld;
    bool t;
} vn_side_t;
vn_side_t vn_side_at(const vn_factor_t *f, int64_t offset, int64_t ld, bool t);

typedef struct vn_tile {
    int64_t m, n, k;
    vn_side_t a, b;
    const double *terms; /* terms present per column, NULL: k each */
    bool padded;         /* some terms are absent: 0 * Inf there is the back end's choice */
    int64_t out, ldc;    /* element (0,0) of the output planes, and their row length */
    vn_bias_t bias;
} vn_tile_t;

/** Scratch of one thread for tiles of at most `cells` elements and `columns` columns. False: no memory. */
typedef struct vn_tile_scratch {
    double *t, *q, *tmp, *per_column, *row;
    float *part, *squares;
} vn_tile_scratch_t;
bool vn_tile_scratch_new(const vn_product_t *p, int64_t cells, int64_t columns, vn_tile_scratch_t *s);
void vn_tile_scratch_free(vn_tile_scratch_t *s);
/** Threads: any number, each with its own scratch and its own tile. */
void vn_product_tile(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s);

/**
 * Compares the random-order variance with the exact sequential and reversed chains on a sample and raises p->var_scale if they are worse.
 * Shapes     a: rows x k, b: cols x k (each vector contiguous); rows, cols <= VN_SAMPLE.
 */
enum { VN_SAMPLE = 8 };
void vn_product_sample(vn_product_t *p, int rows, int cols, int64_t k, const double *a, const double *b);
/** Random-order variance of n rounded terms with sum s and sum of squares q, before scaling (claim CONTRACT-5). */
double vn_order_variance(const vn_product_t *p, double n, double s, double q);

/** Many products of one size: matrix i is A[a_off[i]..] B[b_off[i]..] -> out i*m*n. */
typedef struct vn_batch {
    int64_t count, m, n, k;
    const int64_t *a_off, *b_off;
    int64_t lda, ldb;
    bool ta, tb;
    vn_bias_t bias;          /* at matrix 0 */
    const int64_t *bias_off; /* per matrix, NULL: 0 */
} vn_batch_t;
/** Samples, then fills every tile on all threads. Errors: NOMEM. */
vn_status_t vn_product_batch(vn_product_t *p, const vn_batch_t *b);

/** Exact products modulo 2^64, for integer types; c[count*m*n]. a, b as 64-bit planes. */
void vn_integer_batch(const vn_batch_t *g, const int64_t *a, const int64_t *b, int64_t *c);

#endif
