/* matmul.h -- shapes of matrix products: batch broadcasting, transpositions, offsets. Shared by the float and the quantised products. */
#ifndef VN_ORACLE_MATMUL_H
#define VN_ORACLE_MATMUL_H

#include "oracle/product.h"

typedef struct vn_matmul_form {
    bool ta, tb;   /* last two dimensions swapped */
    bool tba, tbb; /* the first dimension is the matrix row: [M, batch..., K], contrib FusedMatMul */
} vn_matmul_form_t;

/** Result shape and, with offsets asked for, the batch. Ownership: vn_matmul_free. */
typedef struct vn_matmul {
    int rank;
    int64_t dims[VN_MAX_RANK];
    int batch_rank;
    int64_t batch_dims[VN_MAX_RANK]; /* of the broadcast result */
    int64_t matrices, rows;          /* before stacked matrices were folded into one tall product */
    vn_batch_t g;
    int64_t *a_off, *b_off;
} vn_matmul_t;

/** NumPy matmul rules for operands ka and kb of the node. Errors: SHAPE names the dimensions; NOMEM. */
vn_status_t vn_matmul_plan(vn_eval_t *e, int ka, int kb, vn_matmul_form_t form, bool offsets, vn_matmul_t *out);
void vn_matmul_free(vn_matmul_t *m);

/** value of output 0 = activation(value), bounds and variances carried (claim CONTRACT-9). params: up to 2, NaN = default. */
vn_status_t vn_fused_activation(vn_eval_t *e, const char *name, double first, double second);

/* Evaluations of the quantised rows (op_matmul_quant.c, op_matmul_nbits.c). */
vn_status_t vn_eval_matmul_integer(vn_eval_t *e);
vn_status_t vn_infer_matmul_integer(vn_eval_t *e);
vn_status_t vn_eval_qlinear_matmul(vn_eval_t *e);
vn_status_t vn_infer_qlinear_matmul(vn_eval_t *e);
vn_status_t vn_eval_matmul_integer_to_float(vn_eval_t *e);
vn_status_t vn_infer_matmul_integer_to_float(vn_eval_t *e);
vn_status_t vn_eval_dynamic_quantize_matmul(vn_eval_t *e);
vn_status_t vn_infer_dynamic_quantize_matmul(vn_eval_t *e);
vn_status_t vn_eval_matmul_nbits(vn_eval_t *e);
vn_status_t vn_infer_matmul_nbits(vn_eval_t *e);
vn_status_t vn_eval_einsum(vn_eval_t *e);
vn_status_t vn_infer_einsum(vn_eval_t *e);

#endif
