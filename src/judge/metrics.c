/* metrics.c -- two tensors compared without an operator: numbers only, no verdict (vernier compare). */
#include <math.h>
#include <string.h>

#include "judge/ladder.h"

static void set(vn_divergence_t *d, const vn_tensor_t *a, const vn_tensor_t *b, int64_t i) {
    *d = (vn_divergence_t){.index = i, .rank = a->rank, .expected = vn_tensor_get_f64(a, i), .actual = vn_tensor_get_f64(b, i)};
    if (vn_dtype_bits(a->dtype) <= 64) d->expected_bits = vn_tensor_bits(a, i);
    if (vn_dtype_bits(b->dtype) <= 64) d->actual_bits = vn_tensor_bits(b, i);
    for (int k = a->rank - 1; k >= 0; --k) {
        d->at[k] = a->dims[k] ? i % a->dims[k] : 0;
        i = a->dims[k] ? i / a->dims[k] : 0;
    }
}

vn_status_t vn_metrics(const vn_tensor_t *a, const vn_tensor_t *b, vn_metrics_t *out, vn_error_t *err) {
    *out = (vn_metrics_t){.first.index = -1, .worst.index = -1};
    char ta[200], tb[200];
    vn_tensor_describe(a, ta, sizeof ta);
    vn_tensor_describe(b, tb, sizeof tb);
    if (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return vn_fail(err, VN_ERR_SHAPE, "shapes differ: %s and %s", ta, tb);
    if (a->dtype == VN_STRING || b->dtype == VN_STRING || vn_dtype_kind(a->dtype) == VN_KIND_COMPLEX || vn_dtype_kind(b->dtype) == VN_KIND_COMPLEX)
        return vn_fail(err, VN_ERR_DTYPE, "only real numbers have metrics: %s and %s", ta, tb);
    const size_t n = (size_t)(a->count ? a->count : 1);
    double *x = vn_alloc(n, sizeof *x), *y = vn_alloc(n, sizeof *y);
    if (!x || !y) {
        vn_free(x);
        vn_free(y);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)a->count);
    }
    vn_tensor_to_f64(a, x);
    vn_tensor_to_f64(b, y);
    const vn_format_t f = vn_format_of(a->dtype);
    double e2 = 0, x2 = 0, y2 = 0, xy = 0;
    int64_t finite = 0;
    out->count = a->count;
    for (int64_t i = 0; i < a->count; ++i) {
        const bool same = x[i] == y[i] ? signbit(x[i]) == signbit(y[i]) : isnan(x[i]) && isnan(y[i]);
        out->nan_a += isnan(x[i]);
        out->nan_b += isnan(y[i]);
        out->inf_a += isinf(x[i]);
        out->inf_b += isinf(y[i]);
        if (!same) {
            out->unequal++;
            if (out->first.index < 0) set(&out->first, a, b, i);
        }
        if (!isfinite(x[i]) || !isfinite(y[i])) continue;
        const double e = fabs(x[i] - y[i]);
        if (e > out->max_abs) {
            out->max_abs = e;
            set(&out->worst, a, b, i);
        }
        if (x[i] != 0 && e / fabs(x[i]) > out->max_rel) out->max_rel = e / fabs(x[i]);
        if (f != VN_FMT_NONE && e / vn_ulp(f, x[i]) > out->ulp_max) out->ulp_max = e / vn_ulp(f, x[i]);
        e2 += e * e;
        x2 += x[i] * x[i];
        y2 += y[i] * y[i];
        xy += x[i] * y[i];
        finite++;
    }
    out->rms = finite ? sqrt(e2 / (double)finite) : NAN;
    out->rms_relative = x2 > 0 ? sqrt(e2 / x2) : NAN;
    out->cosine = x2 > 0 && y2 > 0 ? xy / sqrt(x2) / sqrt(y2) : NAN;
    vn_free(x);
    vn_free(y);
    return VN_OK;
}
