/* twin_case.h -- one element against its MPFR twin: the value inside the oracle's own error, an execution inside the bound and near it. */
#ifndef VN_TEST_TWIN_CASE_H
#define VN_TEST_TWIN_CASE_H

#include "oracle/one_node.h"
#include "support/mpfr_twin.h"

/** The oracle's own error as vn_ref_t states it; a subnormal value has an absolute one. */
static inline double twin_own(const vn_ref_t *r, int64_t i) { return vn_ref_own(r, i) + 0x1p-1074; }

/** Value: |value + lo - exact| <= own. Returns the ratio. */
static inline double twin_value(vn_test_t *t, const char *what, const vn_ref_t *r, int64_t i, const mpfr_t exact) {
    const double off = tw_off(exact, r->value[i], r->lo ? r->lo[i] : 0), own = twin_own(r, i);
    if (!(off <= own))
        vn_test_fail(t, __FILE__, __LINE__, "%s, element %lld: value %a is off by %a, own error %a, ratio %.3g", what, (long long)i,
                     r->value[i], off, own, off / own);
    return off / own;
}

/** Execution: `computed`, a member of the type, lies within bound + own of the exact value. Returns |error| / bound. */
static inline double twin_inside(vn_test_t *t, const char *what, const vn_ref_t *r, int64_t i, double computed, const mpfr_t exact) {
    const double off = tw_off(exact, computed, 0), bound = r->bound[i];
    if (!(off <= bound + twin_own(r, i)))
        vn_test_fail(t, __FILE__, __LINE__, "%s, element %lld: computed %a is off by %a, bound %a, ratio %.6g", what, (long long)i,
                     computed, off, bound, off / bound);
    return bound > 0 && isfinite(bound) ? off / bound : 0;
}

/** A bound that is attained: true, and a constant of half its size would not be (least >= 0.5 says so). */
static inline void twin_attained(vn_test_t *t, const char *what, const vn_ref_t *r, int64_t i, double computed, const mpfr_t exact,
                                 double least) {
    twin_value(t, what, r, i, exact);
    const double ratio = twin_inside(t, what, r, i, computed, exact);
    if (!(ratio >= least)) vn_test_fail(t, __FILE__, __LINE__, "%s: %.4g of the bound is attained, %.4g is possible", what, ratio, least);
}

static inline vn_tensor_t *twin_tensor(vn_test_t *t, vn_dtype_t type, int rank, const int64_t *dims, const double *x) {
    vn_tensor_t *v = one_tensor(t, type, rank, dims);
    vn_tensor_from_f64(v, x, VN_RNE, false);
    return v;
}
#define TWIN_DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

/* ---- data: random, structured, and at the edges of the format ---- */

typedef enum twin_data {
    TWIN_RANDOM,
    TWIN_POSITIVE,
    TWIN_WIDE,       /* magnitudes over e^12 */
    TWIN_CANCELLING, /* pairs that nearly cancel */
    TWIN_CONSTANT,
    TWIN_ALTERNATING, /* one magnitude, both signs */
    TWIN_GEOMETRIC,   /* 1, -2^-1/2, 1/2, ... */
    TWIN_OFFSET,      /* mean of 100 deviations */
    TWIN_SUBNORMAL,
    TWIN_HUGE, /* near the largest finite number, scaled down so that n of them do not pass it */
    TWIN_DATA
} twin_data_t;
static const char *const twin_data_names[TWIN_DATA] = {"random",      "positive",  "wide",   "cancelling", "constant",
                                                       "alternating", "geometric", "offset", "subnormal",  "huge"};

/** Members of f (f16, bf16, f32 or f64). */
static inline void twin_fill(vn_rng_t *rng, twin_data_t kind, vn_format_t f, double *x, int64_t n) {
    const vn_format_info_t *i = vn_format_info(f);
    const double level = vn_rng_normal(rng);
    for (int64_t k = 0; k < n; ++k) {
        const double g = vn_rng_normal(rng);
        double v = g;
        switch (kind) {
        case TWIN_POSITIVE: v = fabs(g) + 0.01; break;
        case TWIN_WIDE: v = g * exp(f == VN_FMT_F16 ? vn_rng_normal(rng) : 3 * vn_rng_normal(rng)); break;
        case TWIN_CANCELLING: v = k % 2 ? -x[k - 1] * (1 + 0x1p-9 * vn_rng_uniform(rng)) : g; break;
        case TWIN_CONSTANT: v = level; break;
        case TWIN_ALTERNATING: v = k % 2 ? -level : level; break;
        case TWIN_GEOMETRIC: v = level * pow(-0.70710678, (double)(k % 40)); break;
        case TWIN_OFFSET: v = 100 + g; break;
        case TWIN_SUBNORMAL: v = g * i->tau / 4; break;
        case TWIN_HUGE: v = (0.5 + vn_rng_uniform(rng) / 2) * (g < 0 ? -1 : 1) * i->max / (double)(n > 1 ? n : 1); break;
        default: break;
        }
        x[k] = vn_round_to(f, v, VN_RNE, true);
    }
}

#endif
