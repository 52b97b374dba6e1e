/* simulate.h -- arithmetic that rounds after every operation, sums in several orders: the executions that bounds are held against. */
#ifndef VN_TEST_SIMULATE_H
#define VN_TEST_SIMULATE_H

#include <math.h>

#include "support/vn_test.h"

typedef enum sim_order { SIM_FORWARD, SIM_BACKWARD, SIM_PAIRWISE, SIM_LANES, SIM_BLOCKS, SIM_ORDERS } sim_order_t;

static inline double sim(vn_format_t f, double x) {
    return f == VN_FMT_F32 ? (double)(float)x : f == VN_FMT_F64 ? x : vn_round_to(f, x, VN_RNE, false);
}

static inline double sim_pairwise(vn_format_t f, const double *x, int64_t n) {
    if (n == 1) return x[0];
    return sim(f, sim_pairwise(f, x, n / 2) + sim_pairwise(f, x + n / 2, n - n / 2));
}

static inline double sim_run(vn_format_t f, const double *x, int64_t n, int64_t step, double s) {
    for (int64_t i = 0; i < n; i += step) s = sim(f, s + x[i]);
    return s;
}

/* Sum of x[0..n) in `order`, rounded to f after each addition. */
static inline double sim_sum(vn_format_t f, const double *x, int64_t n, sim_order_t order) {
    double s = 0, lane[8] = {0};
    if (n == 0) return 0;
    switch (order) {
    case SIM_FORWARD: return sim_run(f, x, n, 1, 0);
    case SIM_BACKWARD:
        for (int64_t i = n - 1; i >= 0; --i) s = sim(f, s + x[i]);
        return s;
    case SIM_PAIRWISE: return sim_pairwise(f, x, n);
    case SIM_LANES:
        for (int l = 0; l < 8; ++l) lane[l] = l < n ? sim_run(f, x + l, n - l, 8, 0) : 0;
        return sim_pairwise(f, lane, 8);
    default:
        for (int64_t i = 0; i < n; i += 16) s = sim(f, s + sim_run(f, x + i, n - i < 16 ? n - i : 16, 1, 0));
        return s;
    }
}

/* A function within t ulp: the correctly rounded value moved by up to t ulps, in a direction that the generator picks. */
static inline double sim_function(vn_rng_t *rng, vn_format_t f, double exact, double t) {
    const double r = sim(f, exact), ulp = vn_ulp(f, exact), whole = floor(t);
    if (t < 1 || exact == 0) return r;
    const double pick = (double)vn_rng_below(rng, 3) - 1, moved = sim(f, r + pick * (whole - (fabs(r - exact) > 0 ? 1 : 0)) * ulp);
    return moved < 0 && exact > 0 ? 0 : moved;
}

/* ratio |error| / bound; an exact zero over zero is 0, an error over zero is Inf. */
static inline double sim_ratio(double actual, double exact, double bound) {
    if (actual == exact) return 0; /* infinities too */
    const double e = fabs(actual - exact);
    return bound > 0 ? e / bound : INFINITY;
}

#endif
