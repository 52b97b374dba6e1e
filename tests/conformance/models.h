/* models.h -- models of the conformance suite beyond those of tests/worker/models.h. */
#ifndef VN_CONFORMANCE_MODELS_H
#define VN_CONFORMANCE_MODELS_H

#include "worker/models.h"

/** y = Gemm(x[2,3], w, b): vn_test_affine without its Relu. */
vn_status_t cf_gemm(vn_test_model_t *out, vn_error_t *err);
/** y[rows,2] = x[rows,3] @ w; rows may be 0. w as in vn_test_affine. */
vn_status_t cf_rows(int64_t rows, vn_test_model_t *out, vn_error_t *err);
typedef vn_status_t (*cf_model_fn)(vn_test_model_t *out, vn_error_t *err);
/** One of the two above with w as external data: written to `folder`/weights.bin. */
vn_status_t cf_external(const char *folder, cf_model_fn model, vn_test_model_t *out, vn_error_t *err);
/** s (sequence of f32) = SplitToSequence(x[n,2]), one row each. */
vn_status_t cf_sequence(int64_t n, vn_test_model_t *out, vn_error_t *err);

#endif
