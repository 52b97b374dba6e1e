/* twins.c -- is the variance model fit for this data? The same sums in the contract's own arithmetic, in a few usual orders, on a sample.
 *
 * Independence of roundings fails for few distinct values, exact products, stagnation (bounds.md, calculus 4 and findings 21-24): then the
 * errors of *correct* orders exceed the model. Claim TWIN-1: sigma is taken as max(model, twin rms), so an output that a correct order of
 * this very data would produce is not called odd. What follows the sum (a factor, a root, a logarithm) is carried in first order.
 */
#include <math.h>
#include <string.h>

#include "judge/coherence.h"

enum { SAMPLE = 48, MAX_TERMS = 1 << 21 };

static double add(vn_format_t f, double a, double b) {
    return f == VN_FMT_F32 ? (double)((float)a + (float)b) : f == VN_FMT_F64 ? a + b : vn_round_to(f, a + b, VN_RNE, false);
}

static double chain(vn_format_t f, const double *x, int64_t n, int64_t step) {
    double s = 0;
    for (int64_t i = 0; i < n; i += step) s = add(f, s, x[i]);
    return s;
}

/* fma: the product is not rounded before it is added: with f32 operands a_i b_i is exact in f64, and s + x rounded to f64 then f32 differs
 * from one rounding only in ties beyond 2^-53, which does not change an rms. */
static double sequential(vn_format_t f, const double *x, int64_t n) {
    double s = 0;
    for (int64_t i = 0; i < n; ++i) s = f == VN_FMT_F32 ? (double)(float)(s + x[i]) : vn_round_to(f, s + x[i], VN_RNE, false);
    return s;
}
static double reversed(vn_format_t f, const double *x, int64_t n) {
    double s = 0;
    for (int64_t i = n - 1; i >= 0; --i) s = f == VN_FMT_F32 ? (double)(float)(s + x[i]) : vn_round_to(f, s + x[i], VN_RNE, false);
    return s;
}
static double lanes(vn_format_t f, const double *x, int64_t n) {
    enum { L = 8 };
    double part[L];
    for (int64_t l = 0; l < L; ++l) part[l] = l < n ? chain(f, x + l, n - l, L) : 0;
    return chain(f, part, L, 1);
}
static double blocks(vn_format_t f, const double *x, int64_t n) {
    double s = 0;
    for (int64_t b = 0; b < n; b += 128) s = add(f, s, sequential(f, x + b, n - b < 128 ? n - b : 128));
    return s;
}

/* What the operator multiplies its sums with (1/n of a mean, alpha): the ratio of result and sum, if it is the same for all elements. */
static double factor_of(const vn_ref_t *r, const int64_t *at, int64_t n, const double *sums, const double *sizes) {
    int64_t most = -1;
    for (int64_t i = 0; i < n; ++i)
        if (most < 0 || fabs(sums[i]) > fabs(sums[most])) most = i;
    if (most < 0 || sums[most] == 0) return 1;
    const double factor = r->value[at[most]] / sums[most];
    for (int64_t i = 0; i < n; ++i) /* both sides are oracle values of f32 operands or wider sums: far closer than 2^-30 of their terms */
        if (!(fabs(r->value[at[i]] - factor * sums[i]) <= 0x1p-30 * fabs(factor) * sizes[i])) return 1;
    return fabs(factor);
}

/* Errors of the sums -> errors of the results, by the slope of what follows: 1/(2y) of a root, 1/sum of a logarithm. */
static void carry(const vn_ref_t *r, vn_terms_after_t after, const int64_t *at, int64_t n, const double *sums, const double *sizes,
                  double (*errors)[VN_TWIN_ORDERS]) {
    const double factor = after == VN_AFTER_FACTOR ? factor_of(r, at, n, sums, sizes) : 1;
    for (int64_t i = 0; i < n; ++i) {
        const double y = r->value[at[i]], slope = after == VN_AFTER_ROOT ? 0.5 / y : after == VN_AFTER_LOG ? 1 / sums[i] : factor;
        for (int o = 0; o < VN_TWIN_ORDERS; ++o) errors[i][o] = isfinite(slope) ? errors[i][o] * slope : 0;
    }
}

vn_status_t vn_twin_errors(const vn_case_t *c, const int64_t *at, int64_t n, double (*errors)[VN_TWIN_ORDERS], bool *known,
                           vn_error_t *err) {
    static double (*const orders[VN_TWIN_ORDERS])(vn_format_t, const double *, int64_t) = {sequential, reversed, lanes, blocks};
    const vn_question_t *q = c->q;
    vn_terms_t *t;
    vn_error_t why;
    *known = false;
    const vn_status_t opened = vn_terms_open(q->model, q->node, q->inputs, q->contract, &t, &why);
    if (opened == VN_ERR_NOMEM) return vn_fail(err, opened, "no memory");
    if (opened != VN_OK) return VN_OK;
    const vn_format_t f = vn_contract_resolve(q->contract, c->ref->dtype).accumulator;
    double *x = vn_alloc(MAX_TERMS, sizeof *x), *sums = vn_alloc((size_t)n + 1, sizeof *sums),
           *sizes = vn_alloc((size_t)n + 1, sizeof *sizes);
    vn_status_t s = x && sums && sizes ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    *known = s == VN_OK;
    for (int64_t i = 0; i < n && s == VN_OK; ++i) {
        int64_t terms;
        s = vn_terms_get(t, c->k, at[i], x, MAX_TERMS, &terms, &why);
        if (s == VN_ERR_NOMEM) {
            vn_fail(err, s, "no memory");
            break;
        }
        if (s != VN_OK || terms > MAX_TERMS) {
            s = VN_OK;
            *known = false;
            break;
        }
        double exact = 0, lost = 0; /* compensated: the terms' own sum, whatever the operator does with it afterwards */
        sizes[i] = 0;
        for (int64_t k = 0; k < terms; ++k) {
            const double sum = exact + x[k], z = sum - exact;
            lost += (exact - (sum - z)) + (x[k] - z);
            exact = sum;
            sizes[i] += fabs(x[k]);
        }
        exact += lost;
        sums[i] = exact;
        for (int o = 0; o < VN_TWIN_ORDERS; ++o) errors[i][o] = orders[o](f, x, terms) - exact;
    }
    *known = *known && s == VN_OK;
    if (*known) carry(c->ref, vn_terms_after(t), at, n, sums, sizes, errors);
    vn_free(sums);
    vn_free(sizes);
    vn_free(x);
    vn_terms_close(t);
    return s;
}

vn_status_t vn_twin_scale(vn_case_t *c, double *scale, vn_error_t *err) {
    *scale = 1;
    if (!c->q->node || !c->ref->var || !c->ref->value) return VN_OK;
    int64_t at[SAMPLE] = {0}, used = 0;
    double errors[SAMPLE][VN_TWIN_ORDERS], sum2[VN_TWIN_ORDERS] = {0};
    const int64_t n = c->ref->count, step = n / SAMPLE + 1;
    for (int64_t i = 0; i < n; i += step)
        if (c->ref->var[i] > 0) at[used++] = i;
    bool known;
    VN_TRY(vn_twin_errors(c, at, used, errors, &known, err));
    if (!known || !used) {
        *scale = INFINITY; /* nothing to compare with: the fingerprint is void, the bound decides */
        return VN_OK;
    }
    for (int o = 0; o < VN_TWIN_ORDERS; ++o) {
        for (int64_t i = 0; i < used; ++i) sum2[o] += errors[i][o] * errors[i][o] / c->ref->var[at[i]];
        const double r = sqrt(sum2[o] / (double)used);
        if (r > *scale) *scale = r;
    }
    return VN_OK;
}
