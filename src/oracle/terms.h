/* terms.h -- per operator: the summands behind one element, in natural order.
 *
 * Contractions give products of the operands as the contract rounds them (exact in f64 for formats of at most 26 significant bits), a bias
 * last; Gemm's are multiplied by alpha and beta. Means give the sum before the division. At most max are written; *n is how many there are.
 * VN_ERR_UNSUPPORTED where the element is no plain sum.
 */
#ifndef VN_ORACLE_TERMS_H
#define VN_ORACLE_TERMS_H

#include "oracle/frame.h"

typedef vn_status_t (*vn_terms_fn)(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
/** x of operand k as the contract rounds it: bit k of operand_mask, all when the mask is 0. */
double vn_terms_rounded(const vn_eval_t *e, int k, double x);
vn_status_t vn_terms_matmul(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
vn_status_t vn_terms_gemm(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
vn_status_t vn_terms_conv(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
vn_status_t vn_terms_reduce(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
vn_status_t vn_terms_global_pool(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
vn_status_t vn_terms_einsum(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
vn_status_t vn_terms_conv_transpose(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);
vn_status_t vn_terms_cumsum(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n);

#endif
