/* fingerprint.c -- rung 6: does the error look like the round-off of this contract?
 *
 * Claim PRINT-1 (extreme): for a sum in unknown order with variance V of a random order, P(|e| > z sqrt V) is at most
 *   2 min over 0 < t < pi of (t / sin t)^1/2 exp(S'^2 / 2 (1 - t cot t) - t z c), c^2 = 1/6 + S'^2 / 3   (bounds.md, calculus 3);
 *   S' = 0 gives the largest z of all, so the limit below holds for every S'. Per element p = alpha / (3 N).
 * Claim PRINT-2 (rms): one-sided; e^2 is clipped at the z of p = 10^-3; limit 3 for unknown order plus the sampling error of N_eff clusters,
 *   sqrt((kappa - 1) / N_eff) / 2 with kappa = 5.4, times the normal quantile of alpha / 3 (calculus 5). Fewer than 64 elements: skipped.
 * Claim PRINT-3 (bias): the mean of the clipped, sign-turned errors over its standard error against the same quantile. Rows of a product
 *   share an operand, so the standard error counts sqrt(N) clusters, not N (calculus 6): a limit too wide, never too narrow.
 */
#include <math.h>

#include "judge/ladder.h"

double vn_chernoff_z(double p, double s2) {
    enum { STEPS = 256 };
    const double c = sqrt(1.0 / 6 + s2 / 3), want = log(p);
    double z = 1e6;
    for (int i = 1; i < STEPS; ++i) { /* for each t the bound reaches p at one z; any t is sound, so the smallest z counts */
        const double t = 3.14159265358979 * i / STEPS;
        const double reached = (log(2) + 0.5 * log(t / sin(t)) + 0.5 * s2 * (1 - t / tan(t)) - want) / (t * c);
        if (reached < z) z = reached;
    }
    return z > 0 ? z : 0;
}

/* Upper quantile of the normal law for a tail of p: P(Z > z) <= exp(-z^2/2), solved; an upper bound of the quantile. */
static double tail_z(double p) { return sqrt(-2 * log(p)); }

/* Classes whose variance model is that of sums of many rounded terms. For the others the bound decides (elementary, rounded, exact). */
static bool has_model(vn_op_class_t cls) {
    return cls == VN_CLASS_CONTRACTION || cls == VN_CLASS_REDUCTION || cls == VN_CLASS_SCAN || cls == VN_CLASS_COMPOSITE;
}

double vn_rms_limit(void) { return 3; } /* bounds.md, calculus 5: unknown order */

vn_fingerprint_t vn_fingerprint(const vn_ref_t *ref, const vn_measure_t *m, vn_op_class_t cls, double alpha) {
    enum { KAPPA_TENTHS = 54, LEAST = 64, LEAST_TERMS = 16 };
    vn_fingerprint_t f = {
        .verdict = VN_PRINT_VOID, .rms = NAN, .rms_limit = NAN, .z_max = NAN, .z_limit = NAN, .bias = NAN, .bias_limit = NAN};
    if (m->sigmas == 0) return f;
    const double n = (double)m->sigmas, clusters = floor(sqrt(n));
    f.rms = sqrt(m->sum_z2 / n);
    f.z_max = m->z_max;
    if (!has_model(cls) || ref->terms < LEAST_TERMS) return f; /* few terms: equality or the bound decides (calculus 4) */
    f.verdict = VN_PRINT_OK;
    f.z_limit = vn_chernoff_z(alpha / (3 * n), 0);
    if (n >= LEAST) {
        const double share = tail_z(alpha / 3), mean = m->sum_signed / n, var = m->sum_signed2 / n - mean * mean;
        f.rms_limit = vn_rms_limit() * (1 + share * sqrt((KAPPA_TENTHS / 10.0 - 1) / clusters) / 2);
        f.bias = mean;
        f.bias_limit = share * sqrt((var > 0 ? var : 0) / clusters);
        if (sqrt(m->sum_clipped / n) > f.rms_limit && f.rms > f.rms_limit) f.verdict = VN_PRINT_RMS;
    }
    if (f.verdict == VN_PRINT_OK && f.z_max > f.z_limit) f.verdict = VN_PRINT_EXTREME;
    return f;
}
