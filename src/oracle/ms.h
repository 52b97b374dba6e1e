/* ms.h -- rows of com.microsoft that no standard family holds: evaluations by file, and what they share. The table is in op_ms.c. */
#ifndef VN_ORACLE_MS_H
#define VN_ORACLE_MS_H

#include "oracle/elementwise.h"

#define VN_MS_ROW(name)                          \
    vn_status_t vn_eval_ms_##name(vn_eval_t *e); \
    vn_status_t vn_infer_ms_##name(vn_eval_t *e)
VN_MS_ROW(quantize); /* op_ms_standard.c */
VN_MS_ROW(dequantize);
VN_MS_ROW(pad);
VN_MS_ROW(range);
VN_MS_ROW(trilu);
VN_MS_ROW(gather_nd);
VN_MS_ROW(expand_dims);
VN_MS_ROW(grid_sample);
VN_MS_ROW(qlinear_conv);
VN_MS_ROW(nhwc_max_pool);
vn_status_t vn_eval_ms_unique(vn_eval_t *e);
VN_MS_ROW(qlinear_add); /* op_ms_qlinear.c */
VN_MS_ROW(qlinear_mul);
VN_MS_ROW(qlinear_where);
VN_MS_ROW(qlinear_concat);
VN_MS_ROW(qlinear_table);   /* QLinearSigmoid, QLinearLeakyRelu */
VN_MS_ROW(qlinear_softmax); /* op_ms_qreduce.c */
VN_MS_ROW(qlinear_reduce_mean);
VN_MS_ROW(qgemm); /* op_ms_qgemm.c */
VN_MS_ROW(matmul_integer16);
VN_MS_ROW(gather_block); /* op_ms_gather_block.c */
VN_MS_ROW(inverse);      /* op_ms_inverse.c */
VN_MS_ROW(qattention);   /* op_attention_contrib.c */
#undef VN_MS_ROW

/** An 8-bit tensor with one scale and one zero point (absent: 0), seen as numbers: real = (code - zero) * scale. */
typedef struct vn_codes {
    const vn_tensor_t *t; /* NULL where only scale and zero are of interest */
    const double *code;
    double scale, zero;
} vn_codes_t;
/** Operands k (codes; -1: none), k_scale and k_zero. Errors: USAGE, DTYPE, SHAPE (more than one scale). */
vn_status_t vn_ms_codes(vn_eval_t *e, int k, int k_scale, int k_zero, vn_codes_t *out);
/** Codes of output k being written; made by vn_ms_out. */
typedef struct vn_coded {
    vn_ref_t *r;
    double zero, lo, hi;
    vn_flagger_t flags;
} vn_coded_t;
/** Output k of an 8-bit type, with its second codes. */
vn_status_t vn_ms_out(vn_eval_t *e, int k, vn_dtype_t t, double zero, int rank, const int64_t *dims, vn_coded_t *out);
/**
 * Element i: the computed value lies within `window` of v, in units of codes and before the zero point is added (claim REQUANT-1). More than
 * two codes within the window, or a v that is no number: void. Threads: elements may be put concurrently.
 */
void vn_ms_put(vn_coded_t *c, int64_t i, double v, double window);
/** NOMEM if a flag found no memory. */
vn_status_t vn_ms_done(vn_eval_t *e, const vn_coded_t *c);

#endif
