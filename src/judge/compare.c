/* compare.c -- two tensors under a fixed criterion of the caller's: what it counts, and nothing about right or wrong. */
#include <math.h>
#include <string.h>

#include "judge/ladder.h"

static bool fails(const vn_compare_rule_t *rule, bool bits_equal, bool finite, double error, double reference) {
    if (rule->exact) return !bits_equal;
    return !finite || error > rule->absolute + rule->relative * fabs(reference);
}

vn_status_t vn_compare(const vn_tensor_t *reference, const vn_tensor_t *candidate, const vn_compare_rule_t *rule, vn_comparison_t *out,
                       vn_error_t *err) {
    *out = (vn_comparison_t){.first = -1, .first_absolute = NAN, .first_relative = NAN};
    char a[200], b[200];
    vn_tensor_describe(reference, a, sizeof a);
    vn_tensor_describe(candidate, b, sizeof b);
    if (reference->dtype != candidate->dtype || !vn_dtype_is_float(reference->dtype))
        return vn_fail(err, VN_ERR_DTYPE, "a criterion needs one floating-point type on both sides, not %s and %s", a, b);
    if (reference->rank != candidate->rank ||
        memcmp(reference->dims, candidate->dims, (size_t)reference->rank * sizeof *reference->dims) != 0)
        return vn_fail(err, VN_ERR_SHAPE, "shapes differ: %s and %s", a, b);
    const double least = vn_format_info(vn_format_of(reference->dtype))->tau;
    double squares = 0;
    out->count = reference->count;
    for (int64_t i = 0; i < reference->count; ++i) {
        const double r = vn_tensor_get_f64(reference, i), c = vn_tensor_get_f64(candidate, i);
        const bool finite = isfinite(r) && isfinite(c);
        const double error = finite ? fabs(c - r) : NAN, relative = finite ? error / (fabs(r) > least ? fabs(r) : least) : NAN;
        if (finite) {
            squares += error * error;
            if (error > out->max_absolute) out->max_absolute = error;
            if (relative > out->max_relative) out->max_relative = relative;
        }
        if (!fails(rule, vn_tensor_bits(reference, i) == vn_tensor_bits(candidate, i), finite, error, r)) continue;
        out->failures++;
        out->non_finite_failures += !finite;
        if (out->first >= 0) continue;
        out->first = i;
        out->first_absolute = error;
        out->first_relative = relative;
    }
    out->rms = out->count ? sqrt(squares / (double)out->count) : 0;
    return VN_OK;
}
