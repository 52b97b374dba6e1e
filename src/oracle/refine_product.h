/* refine_product.h -- single elements of products, convolutions and fused activations in 113 bits. */
#ifndef VN_ORACLE_REFINE_PRODUCT_H
#define VN_ORACLE_REFINE_PRODUCT_H

#include "oracle/conv.h"
#include "oracle/escalate.h"
#include "oracle/product.h"

/** alpha A B + beta bias, operands as the contract rounds them; g holds sizes, offsets and bias. */
vn_status_t vn_refine_batch(vn_eval_t *e, const double *a, const double *b, const vn_batch_t *g, double alpha, double beta);
/** Convolution: w as [maps, depth]; bias NULL: none. */
vn_status_t vn_refine_conv(vn_eval_t *e, const vn_conv_t *c, const double *x, const double *w, const double *bias);
/** What was just given, plus `added` (a plane of the output's shape, or NULL), through an activation; only those that are linear in pieces. */
vn_status_t vn_refine_activation(vn_eval_t *e, const char *name, double first, const double *added);

#endif
