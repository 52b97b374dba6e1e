/* fingerprint.c -- rung 6: does the error look like the round-off of this contract?
 *
 * Claim PRINT-1 (extreme): for a sum in unknown order with variance V of a random order, P(|e| > z sqrt V) is at most
 *   2 min over 0 < t < pi of (t / sin t)^1/2 exp(S'^2 / 2 (1 - t cot t) - t z c), c^2 = 1/6 + S'^2 / 3   (bounds.md, calculus 3);
 *   S' = 0 gives the largest z of all, so the limit below holds for every S'. Per element p = alpha / (3 N).
 * Claim PRINT-2 (rms): one-sided; z^2 is clipped at C^2, C the z of p = 10^-3. An unknown order gives a mean square of at most 9 (calculus 5),
 *   so for N_eff independent clusters Chernoff's bound for variables of [0, C^2] holds exactly, however few they are:
 *   P(mean >= m) <= exp(-N_eff KL(m / C^2, 9 / C^2)), KL(a, b) = a ln(a/b) + (1-a) ln((1-a)/(1-b)). The limit solves it for alpha / 3; where even
 *   m = C^2 is not rare enough the rms does not speak. N_eff: sums with different digits, at least sqrt(N); digits that repeat are one sum.
 * Claim PRINT-3 (bias): the mean of the clipped, sign-turned errors over its standard error against the same quantile. Rows of a product
 *   share an operand, so the standard error counts sqrt(N) clusters, not N (calculus 6): a limit too wide, never too narrow.
 */
#include <math.h>
#include <stdlib.h>

#include "judge/ladder.h"

/* z at which the bound reaches p for one t. */
static double reached(double t, double c, double s2, double want) {
    return (log(2) + 0.5 * log(t / sin(t)) + 0.5 * s2 * (1 - t / tan(t)) - want) / (t * c);
}

/* Any t is sound, so the smallest z counts. The numerator is convex in t and positive, so its quotient by t falls, then rises: the grid is searched
 * by halves. */
double vn_chernoff_z(double p, double s2) {
    enum { STEPS = 256 };
    const double c = sqrt(1.0 / 6 + s2 / 3), want = log(p), step = 3.14159265358979 / STEPS;
    int low = 1, high = STEPS - 1;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (reached(step * mid, c, s2, want) <= reached(step * (mid + 1), c, s2, want)) high = mid;
        else low = mid + 1;
    }
    const double z = reached(step * low, c, s2, want);
    return z > 0 ? z : 0;
}

/* Upper quantile of the normal law for a tail of p: P(Z > z) <= exp(-z^2/2), solved; an upper bound of the quantile. */
static double tail_z(double p) { return sqrt(-2 * log(p)); }

/* Classes whose variance model is that of sums of many rounded terms. For the others the bound decides (elementary, rounded, exact). */
static bool has_model(vn_op_class_t cls) {
    return cls == VN_CLASS_CONTRACTION || cls == VN_CLASS_REDUCTION || cls == VN_CLASS_SCAN || cls == VN_CLASS_COMPOSITE;
}

/* Solves clusters KL(m / C^2, 9 / C^2) = ln(1 / p) for the rms sqrt(m); +Inf where no rms is rare enough. */
static double rms_limit(double clusters, double p) {
    const double top = vn_clip_z() * vn_clip_z(), base = vn_rms_limit() * vn_rms_limit() / top, want = log(1 / p) / clusters;
    double low = base, high = 1;
    if (want >= log(1 / base)) return INFINITY;
    for (int i = 0; i < 32; ++i) { /* to 2^-32 of the interval */
        const double a = (low + high) / 2, kl = a * log(a / base) + (a < 1 ? (1 - a) * log((1 - a) / (1 - base)) : 0);
        if (kl < want) low = a;
        else high = a;
    }
    return sqrt(high * top);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sums with different digits among the elements with a variance (of many, an even sample). */
static double distinct(const vn_ref_t *r) {
    enum { SAMPLE = 4096 };
    double *m = r->value && r->var ? vn_alloc(SAMPLE, sizeof *m) : NULL;
    int64_t n = 0, found = 0;
    for (int64_t i = 0; m && i < r->count && n < SAMPLE; i += (r->count / SAMPLE + 1) | 1) {
        int e;
        if (r->var[i] > 0 && isfinite(r->value[i])) m[n++] = frexp(fabs(r->value[i]), &e);
    }
    if (m) qsort(m, (size_t)n, sizeof *m, by_value);
    for (int64_t i = 0; i < n; ++i) found += i == 0 || m[i] != m[i - 1];
    vn_free(m);
    return (double)found;
}

double vn_rms_limit(void) { return 3; } /* bounds.md, calculus 5: unknown order */

vn_fingerprint_t vn_fingerprint(const vn_ref_t *ref, const vn_measure_t *m, vn_op_class_t cls, double alpha) {
    enum { LEAST_TERMS = 16 };
    vn_fingerprint_t f = {
        .verdict = VN_PRINT_VOID, .rms = NAN, .rms_limit = NAN, .z_max = NAN, .z_limit = NAN, .bias = NAN, .bias_limit = NAN};
    if (m->sigmas == 0) return f;
    const double n = (double)m->sigmas, share = tail_z(alpha / 3), clipped = sqrt(m->sum_clipped / n);
    f.rms = sqrt(m->sum_z2 / n);
    f.z_max = m->z_max;
    if (!has_model(cls) || ref->terms < LEAST_TERMS) return f; /* few terms: equality or the bound decides (calculus 4) */
    f.verdict = VN_PRINT_OK;
    f.z_limit = vn_chernoff_z(alpha / (3 * n), 0);
    double clusters = floor(sqrt(n));
    if (clipped > vn_rms_limit()) { /* only then does their number matter */
        const double sums = distinct(ref);
        if (sums > clusters) clusters = sums < n ? sums : n;
    }
    f.rms_limit = rms_limit(clusters, alpha / 3);
    const double mean = m->sum_signed / n, var = m->sum_signed2 / n - mean * mean;
    f.bias = mean;
    f.bias_limit = share * sqrt((var > 0 ? var : 0) / floor(sqrt(n)));
    if (clipped > f.rms_limit && f.rms > f.rms_limit) f.verdict = VN_PRINT_RMS;
    if (f.verdict == VN_PRINT_OK && f.z_max > f.z_limit) f.verdict = VN_PRINT_EXTREME;
    return f;
}
