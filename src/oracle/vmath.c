/* vmath.c -- the array forms of vmath.h. */
#include "oracle/vmath.h"

VN_CLONES void vn_v_exp_array(const double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = vn_v_exp(x[i]);
}

VN_CLONES void vn_v_tanh_array(const double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = vn_v_tanh(x[i]);
}

VN_CLONES void vn_v_logistic_array(const double *x, double *y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = vn_v_logistic(x[i]);
}
