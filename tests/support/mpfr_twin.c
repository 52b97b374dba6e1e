#include "support/mpfr_twin.h"

#include <float.h>
#include <string.h>

/* ---- numbers ---- */

mpfr_t *tw_new(int64_t n) {
    mpfr_t *v = vn_alloc((size_t)(n ? n : 1), sizeof *v);
    for (int64_t i = 0; v && i < n; ++i) {
        mpfr_init2(v[i], TW_BITS);
        mpfr_set_zero(v[i], 1);
    }
    return v;
}

void tw_free(mpfr_t *v, int64_t n) {
    for (int64_t i = 0; v && i < n; ++i) mpfr_clear(v[i]);
    vn_free(v);
}

void tw_load(mpfr_t *v, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) mpfr_set_d(v[i], x[i], MPFR_RNDN);
}

double tw_off(const mpfr_t exact, double value, double lo) {
    if (mpfr_nan_p(exact)) return isnan(value) ? 0 : INFINITY;
    if (mpfr_inf_p(exact)) return isinf(value) && (value > 0) == (mpfr_sgn(exact) > 0) ? 0 : INFINITY;
    if (!isfinite(value)) return INFINITY;
    mpfr_t d;
    mpfr_init2(d, 2500); /* differences of doubles and a number of TW_BITS are exact */
    mpfr_sub_d(d, exact, value, MPFR_RNDN);
    mpfr_sub_d(d, d, lo, MPFR_RNDN);
    const double off = fabs(mpfr_get_d(d, MPFR_RNDA));
    mpfr_clear(d);
    return off;
}

/* Rounded to odd: rounding the result again to a format of at most 51 bits rounds y once. */
static double to_odd(const mpfr_t y) {
    double d = mpfr_get_d(y, MPFR_RNDZ);
    if (isinf(d) || isnan(d) || mpfr_cmp_d(y, d) == 0) return d;
    if (d == 0) return mpfr_sgn(y) > 0 ? 0x1p-1074 : -0x1p-1074;
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    bits |= 1;
    memcpy(&d, &bits, sizeof d);
    return d;
}

double tw_round(vn_format_t f, const mpfr_t y) {
    return f == VN_FMT_F64 ? mpfr_get_d(y, MPFR_RNDN) : vn_round_to(f, to_odd(y), VN_RNE, false);
}

/* ---- rows ---- */

static void reduce_term(mpfr_t s, mpfr_t t, tw_reduce_t kind, double x, double top) {
    mpfr_set_d(t, x, MPFR_RNDN);
    if (kind == TW_LOGSUMEXP) mpfr_sub_d(t, t, top, MPFR_RNDN); /* exp of the numbers themselves may leave even MPFR's range */
    if (kind == TW_L1) mpfr_abs(t, t, MPFR_RNDN);
    if (kind == TW_L2 || kind == TW_SQUARES) mpfr_sqr(t, t, MPFR_RNDN);
    if (kind == TW_LOGSUMEXP) mpfr_exp(t, t, MPFR_RNDN);
    if (kind == TW_PROD) mpfr_mul(s, s, t, MPFR_RNDN);
    else if (kind == TW_MAX) mpfr_max(s, s, t, MPFR_RNDN);
    else if (kind == TW_MIN) mpfr_min(s, s, t, MPFR_RNDN);
    else mpfr_add(s, s, t, MPFR_RNDN);
}

void tw_reduce(mpfr_t y, tw_reduce_t kind, const double *x, int64_t n) {
    mpfr_t t;
    mpfr_init2(t, mpfr_get_prec(y));
    mpfr_set_d(y, kind == TW_PROD ? 1 : kind == TW_MAX ? -INFINITY : kind == TW_MIN ? INFINITY : 0, MPFR_RNDN);
    double top = -INFINITY;
    for (int64_t i = 0; i < n; ++i) top = fmax(top, x[i]);
    if (isinf(top)) top = 0;
    for (int64_t i = 0; i < n; ++i) reduce_term(y, t, kind, x[i], top);
    if (kind == TW_MEAN) mpfr_div_si(y, y, (long)n, MPFR_RNDN);
    if (kind == TW_L2) mpfr_sqrt(y, y, MPFR_RNDN);
    if (kind == TW_LOGSUM || kind == TW_LOGSUMEXP) mpfr_log(y, y, MPFR_RNDN);
    if (kind == TW_LOGSUMEXP) mpfr_add_d(y, y, top, MPFR_RNDN);
    mpfr_clear(t);
}

void tw_dot(mpfr_t y, const double *a, int64_t sa, const double *b, int64_t sb, int64_t n) {
    mpfr_t p;
    mpfr_init2(p, 106);
    for (int64_t i = 0; i < n; ++i) {
        mpfr_set_d(p, a[i * sa], MPFR_RNDN);
        mpfr_mul_d(p, p, b[i * sb], MPFR_RNDN);
        mpfr_add(y, y, p, MPFR_RNDN);
    }
    mpfr_clear(p);
}

void tw_softmax(mpfr_t *y, mpfr_t *x, int64_t n, bool logarithm) {
    mpfr_t top, sum, t;
    mpfr_inits2(TW_BITS, top, sum, t, (mpfr_ptr)0);
    int64_t first = 0;
    for (int64_t i = 0; i < n; ++i)
        if (mpfr_greater_p(x[i], x[first])) first = i;
    mpfr_set(top, x[first], MPFR_RNDN);
    mpfr_set_zero(sum, 1); /* of all but the largest, whose 1 might swallow them */
    for (int64_t i = 0; i < n; ++i) {
        mpfr_sub(t, x[i], top, MPFR_RNDN);
        mpfr_exp(y[i], t, MPFR_RNDN);
        if (i != first) mpfr_add(sum, sum, y[i], MPFR_RNDN);
        if (logarithm) mpfr_set(y[i], t, MPFR_RNDN);
    }
    if (logarithm) mpfr_log1p(sum, sum, MPFR_RNDN);
    else mpfr_add_ui(sum, sum, 1, MPFR_RNDN);
    for (int64_t i = 0; i < n; ++i)
        if (logarithm) mpfr_sub(y[i], y[i], sum, MPFR_RNDN);
        else mpfr_div(y[i], y[i], sum, MPFR_RNDN);
    mpfr_clears(top, sum, t, (mpfr_ptr)0);
}

void tw_normalise(mpfr_t *y, const double *x, const double *gamma, const double *beta, int64_t n, double eps, bool centred) {
    mpfr_t mean, var, t;
    mpfr_inits2(TW_BITS, mean, var, t, (mpfr_ptr)0);
    mpfr_set_zero(var, 1);
    if (centred) tw_reduce(mean, TW_MEAN, x, n);
    else mpfr_set_zero(mean, 1);
    for (int64_t i = 0; i < n; ++i) {
        mpfr_d_sub(y[i], x[i], mean, MPFR_RNDN);
        mpfr_sqr(t, y[i], MPFR_RNDN);
        mpfr_add(var, var, t, MPFR_RNDN);
    }
    mpfr_div_si(var, var, (long)n, MPFR_RNDN);
    mpfr_add_d(var, var, eps, MPFR_RNDN);
    mpfr_sqrt(var, var, MPFR_RNDN);
    for (int64_t i = 0; i < n; ++i) {
        mpfr_div(y[i], y[i], var, MPFR_RNDN);
        if (gamma) mpfr_mul_d(y[i], y[i], gamma[i], MPFR_RNDN);
        if (beta) mpfr_add_d(y[i], y[i], beta[i], MPFR_RNDN);
    }
    mpfr_clears(mean, var, t, (mpfr_ptr)0);
}

void tw_prefix(mpfr_t *y, const double *x, int64_t n, bool product, bool exclusive, bool reverse) {
    mpfr_t s;
    mpfr_init2(s, TW_BITS);
    mpfr_set_ui(s, product, MPFR_RNDN);
    for (int64_t i = 0; i < n; ++i) {
        const int64_t at = reverse ? n - 1 - i : i;
        if (exclusive) mpfr_set(y[at], s, MPFR_RNDN);
        if (product) mpfr_mul_d(s, s, x[at], MPFR_RNDN);
        else mpfr_add_d(s, s, x[at], MPFR_RNDN);
        if (!exclusive) mpfr_set(y[at], s, MPFR_RNDN);
    }
    mpfr_clear(s);
}

void tw_fourier(mpfr_t re_out, mpfr_t im_out, const double *re, const double *im, int64_t n, int64_t k, bool inverse) {
    mpfr_t w, s, c, t;
    const mpfr_prec_t bits = mpfr_get_prec(re_out);
    mpfr_inits2(bits, w, s, c, t, (mpfr_ptr)0);
    mpfr_set_zero(re_out, 1);
    mpfr_set_zero(im_out, 1);
    for (int64_t i = 0; i < n; ++i) {
        mpfr_const_pi(w, MPFR_RNDN);
        mpfr_mul_si(w, w, (long)(k * i % n) * 2, MPFR_RNDN);
        mpfr_div_si(w, w, (long)(inverse ? n : -n), MPFR_RNDN);
        mpfr_sin_cos(s, c, w, MPFR_RNDN);
        mpfr_mul_d(t, c, re[i], MPFR_RNDN);
        mpfr_add(re_out, re_out, t, MPFR_RNDN);
        mpfr_mul_d(t, s, re[i], MPFR_RNDN);
        mpfr_add(im_out, im_out, t, MPFR_RNDN);
        if (!im) continue;
        mpfr_mul_d(t, s, im[i], MPFR_RNDN);
        mpfr_sub(re_out, re_out, t, MPFR_RNDN);
        mpfr_mul_d(t, c, im[i], MPFR_RNDN);
        mpfr_add(im_out, im_out, t, MPFR_RNDN);
    }
    if (inverse) {
        mpfr_div_si(re_out, re_out, (long)n, MPFR_RNDN);
        mpfr_div_si(im_out, im_out, (long)n, MPFR_RNDN);
    }
    mpfr_clears(w, s, c, t, (mpfr_ptr)0);
}

void tw_attend(mpfr_t *out, const tw_query_t *a) {
    mpfr_t *s = tw_new(a->keys), t;
    bool any = false;
    mpfr_init2(t, TW_BITS);
    for (int64_t j = 0; s && j < a->keys; ++j) {
        tw_dot(s[j], a->q, 1, a->k + j * a->size, 1, a->size);
        mpfr_mul_d(s[j], s[j], a->scale, MPFR_RNDN);
        if (a->softcap > 0) {
            mpfr_div_d(s[j], s[j], a->softcap, MPFR_RNDN);
            mpfr_tanh(s[j], s[j], MPFR_RNDN);
            mpfr_mul_d(s[j], s[j], a->softcap, MPFR_RNDN);
        }
        if (a->mask) mpfr_add_d(s[j], s[j], a->mask[j], MPFR_RNDN);
        any = any || !mpfr_inf_p(s[j]);
    }
    for (int64_t c = 0; c < a->value_size; ++c) mpfr_set_zero(out[c], 1);
    if (s && any) {
        tw_softmax(s, s, a->keys, false);
        for (int64_t j = 0; j < a->keys; ++j)
            for (int64_t c = 0; c < a->value_size; ++c) {
                mpfr_mul_d(t, s[j], a->v[j * a->value_size + c], MPFR_RNDN);
                mpfr_add(out[c], out[c], t, MPFR_RNDN);
            }
    }
    mpfr_clear(t);
    tw_free(s, a->keys);
}
