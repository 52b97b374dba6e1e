/* vernier/arith.h -- software arithmetics. */
#ifndef VERNIER_ARITH_H
#define VERNIER_ARITH_H

#include "vernier/base.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rounds x[0..n) in place to format f under r (no saturation). Vectorised for f32, tf32, bf16, f16. */
VN_API void vn_round_array(vn_format_t f, vn_rounding_t r, double *x, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
