/* round_array.c -- rounding of arrays to a format. */
#include "vernier/arith.h"

#include "tensor/round_kernel.h"

void vn_round_array(vn_format_t f, vn_rounding_t r, double *x, int64_t n) { vn_round_bulk(f, r, false, x, x, n); }
