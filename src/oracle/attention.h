/* attention.h -- scaled dot-product attention over heads: the core that every attention operator prepares operands for. */
#ifndef VN_ORACLE_ATTENTION_H
#define VN_ORACLE_ATTENTION_H

#include "oracle/expsum.h"

/**
 * A plane of vectors: element c of vector i of head h of sample b is at[b*sb + h*sh + i*si + c]. err (or NULL) has the same layout, and so has lo, the
 * second half of double-double numbers where elements are evaluated again.
 */
typedef struct vn_heads {
    const double *at, *err;
    int64_t sb, sh, si;
    const double *lo;
} vn_heads_t;

/** Added to the scores: at[b*sb + h*sh + i*si + j*sj]; -inf forbids. Keys from `keys` on are forbidden. */
typedef struct vn_score_bias {
    const double *at;
    int64_t sb, sh, si, sj, keys;
    bool adds; /* false: holds only 0 and -inf, nothing is rounded */
} vn_score_bias_t;

typedef enum vn_score_tap { VN_TAP_NONE = -1, VN_TAP_RAW, VN_TAP_CAPPED, VN_TAP_BIASED, VN_TAP_WEIGHTS } vn_score_tap_t;

typedef struct vn_attention {
    vn_eval_t *e;
    int64_t batch, heads, kv_heads, queries, keys, size, v_size;
    vn_heads_t q, k, v;
    double scale, softcap;   /* softcap 0: none */
    bool root_scale;         /* scale is 1 / sqrt(size) */
    vn_score_bias_t bias[2]; /* at NULL: none */
    bool causal;
    const int64_t *offset; /* per sample: query i stands at position i + offset */
    const int64_t *valid;  /* per sample: keys present; NULL: all */
    int64_t left, right;   /* window, -1: open */
    double sink;           /* a further exponential in the denominator; -inf: none */
    const double *sinks;   /* per head, or NULL */
    int k_out;             /* output of the result */
    int64_t ob, oh, oi;    /* its layout */
    int k_tap;             /* output of the scores [batch, heads, queries, keys], or -1 */
    vn_score_tap_t tap;
    bool body16; /* second tier for 16-bit types: scores and weights stored in the type */
} vn_attention_t;

/** Outputs must have been created by vn_out_float. Errors: NOMEM, SHAPE. */
vn_status_t vn_attention_run(vn_attention_t *a);
/** Answers e->refine (refine_attention.c): err of q, k, v is what their double-double numbers may be off by. */
vn_status_t vn_refine_attention(const vn_attention_t *a);

vn_status_t vn_eval_attention(vn_eval_t *e);
vn_status_t vn_infer_attention(vn_eval_t *e);
vn_status_t vn_eval_rotary(vn_eval_t *e);
vn_status_t vn_infer_rotary(vn_eval_t *e);
vn_status_t vn_eval_rotary_contrib(vn_eval_t *e);
vn_status_t vn_eval_multi_head(vn_eval_t *e);
vn_status_t vn_eval_packed_attention(vn_eval_t *e);
vn_status_t vn_eval_group_query(vn_eval_t *e);
vn_status_t vn_infer_multi_head(vn_eval_t *e);
vn_status_t vn_infer_packed_attention(vn_eval_t *e);
vn_status_t vn_infer_group_query(vn_eval_t *e);
vn_status_t vn_eval_linear_attention(vn_eval_t *e);
vn_status_t vn_infer_linear_attention(vn_eval_t *e);
vn_status_t vn_eval_causal_conv(vn_eval_t *e);
vn_status_t vn_infer_causal_conv(vn_eval_t *e);
vn_status_t vn_eval_swiglu(vn_eval_t *e);
vn_status_t vn_infer_swiglu(vn_eval_t *e);
vn_status_t vn_eval_flex(vn_eval_t *e);
vn_status_t vn_infer_flex(vn_eval_t *e);

#endif
