/* semantic_parameter.c -- another number in place of an attribute of an elementwise or resampling operator, solved from the data.
 *
 * Claim NAME-PARAMETER-1: near p the result is y(p) + s (p' - p), s by a difference quotient of two oracle evaluations. Every wrong element
 * with s != 0 says p' = p + (x - y) / s within room / |s|; the middle of the sharpest ones is taken as the next p, until it stays. The simplest
 * number inside their spread is then asked of the oracle. A number that no human would have written is not offered: any fault that scales the
 * result gives some number.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/semantic.h"

enum { SAYS = 4096, BEST = 256, ROUNDS = 6, ENOUGH = 4, PLAIN_DIGITS = 3, LARGEST_PART = 64 };

static const struct {
    const char *ops, *attr;
    double standard;
    bool step; /* a threshold: the result jumps */
} parameters[] = {
    {"LeakyRelu", "alpha", 0.01, false},
    {"Elu Celu Swish", "alpha", 1, false},
    {"QuickGelu", "alpha", 1.702, false},
    {"Selu", "alpha", 1.67326319217681884765625, false},
    {"Selu", "gamma", 1.05070102214813232421875, false},
    {"HardSigmoid", "alpha", 0.2, false},
    {"HardSigmoid", "beta", 0.5, false},
    {"Shrink", "bias", 0, false},
    {"Shrink", "lambd", 0.5, true},
    {"ThresholdedRelu", "alpha", 1, true},
    {"LRN", "alpha", 0.0001, false},
    {"LRN", "beta", 0.75, false},
    {"LRN", "bias", 1, false},
    {"Resize", "cubic_coeff_a", -0.75, false},
    {"Resize", "extrapolation_value", 0, false},
    {"RoiAlign MaxRoiPool", "spatial_scale", 1, false},
    {"Gemm", "beta", 1, false},
};

typedef struct say {
    double width, p;
} say_t;

static int by_width(const void *a, const void *b) {
    const say_t *x = a, *y = b;
    return x->width != y->width ? (x->width > y->width) - (x->width < y->width) : (x->p > y->p) - (x->p < y->p);
}
static int by_p(const void *a, const void *b) {
    const say_t *x = a, *y = b;
    return (x->p > y->p) - (x->p < y->p);
}

static vn_status_t plane(vn_variant_t *v, const char *attr, double p, vn_ref_t *out, vn_error_t *err) {
    VN_TRY(vn_variant_float(v, attr, p, err));
    const vn_status_t s = vn_variant_eval(v, VN_WANT_BOUND | VN_WANT_PLAIN, out, err);
    vn_variant_reset(v);
    return s;
}

/* One round: what the elements say at p. *n: how many do; [lo, hi]: from the sharpest. */
static vn_status_t round_at(vn_variant_t *v, const char *attr, double p, say_t *says, int64_t *n, double *lo, double *hi, vn_error_t *err) {
    const vn_explain_t *e = v->e;
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    const double h = (double)(float)(0x1p-8 * fmax(fabs(p), 0x1p-6)), q = (double)(float)(p + h);
    vn_ref_t a, b;
    *n = 0;
    VN_TRY(plane(v, attr, p, &a, err));
    vn_status_t s = plane(v, attr, q, &b, err);
    if (s == VN_OK && a.value && b.value && a.count == e->n && b.count == e->n) {
        for (int64_t i = 0; i < e->n && *n < SAYS; ++i) {
            const double slope = (b.value[i] - a.value[i]) / (q - p), room = vn_room(&a, i);
            if (!e->wrong[i] || !isfinite(slope) || slope == 0 || !isfinite(e->x[i]) || !isfinite(room)) continue;
            const double step = f == VN_FMT_NONE ? 1 : vn_ulp(f, e->x[i]); /* one rounding at least */
            says[(*n)++] = (say_t){fmax(room, step) / fabs(slope), p + (e->x[i] - a.value[i]) / slope};
        }
    }
    vn_ref_free(&a);
    vn_ref_free(&b);
    if (*n >= ENOUGH) {
        qsort(says, (size_t)*n, sizeof *says, by_width);
        const int64_t m = *n < BEST ? *n : BEST;
        const double width = says[m / 2].width;
        qsort(says, (size_t)m, sizeof *says, by_p);
        *lo = says[m / 2].p - width;
        *hi = says[m / 2].p + width;
    }
    return s;
}

/* Asks the simplest numbers of [lo, hi]. */
static vn_status_t propose(vn_variant_t *v, const char *attr, double now, double lo, double hi, bool *held, vn_error_t *err) {
    char cause[96];
    double p;
    snprintf(cause, sizeof cause, "attribute-ignored:%.60s", attr);
    for (int step = 0; step < 4 && !*held; ++step) {
        const int digits = step < 3 ? vn_name_simple(lo, hi, step, &p) : 1;
        if (step == 3) { /* one over a small whole number */
            const double k = rint(2 / (lo + hi));
            if (!(fabs(k) >= 1 && fabs(k) <= LARGEST_PART && 1 / k >= lo && 1 / k <= hi)) return VN_OK;
            p = 1 / k;
        }
        if (!digits || digits > PLAIN_DIGITS || p * now < 0) continue; /* a lost sign is no other number */
        VN_TRY(vn_variant_float(v, attr, p, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, held, err,
                              "%s with %s %.7g in place of %.7g gives the whole result (the data put it between %.6g and %.6g).",
                              v->node->op, attr, p, now, lo, hi));
    }
    return VN_OK;
}

static vn_status_t smooth(vn_variant_t *v, const char *attr, double now, vn_error_t *err) {
    double p = now, lo = 0, hi = 0;
    int64_t n = 0;
    bool held = false;
    say_t *says = vn_alloc(SAYS, sizeof *says);
    if (!says) return vn_fail(err, VN_ERR_NOMEM, "no memory for a sample");
    vn_status_t s = VN_OK;
    for (int r = 0; r < ROUNDS && s == VN_OK; ++r) {
        s = round_at(v, attr, p, says, &n, &lo, &hi, err);
        if (s != VN_OK || n < ENOUGH || !isfinite(lo) || !isfinite(hi)) break;
        const double next = (lo + hi) / 2, moved = fabs(next - p);
        p = (double)(float)next;
        if (moved <= (hi - lo) / 2) break;
    }
    vn_free(says);
    if (s == VN_OK && n >= ENOUGH && isfinite(lo) && isfinite(hi) && !(now >= lo && now <= hi))
        s = propose(v, attr, now, lo, hi, &held, err);
    return s;
}

/* Between the largest operand that gave zero and the smallest that did not. */
static vn_status_t threshold(vn_variant_t *v, const char *attr, double now, vn_error_t *err) {
    const vn_explain_t *e = v->e;
    const vn_tensor_t *t = vn_variant_operand(v, 0);
    const bool both = vn_name_in("Shrink", v->node->op);
    double lo = -INFINITY, hi = INFINITY;
    bool held = false;
    if (!t || t->count != e->n) return VN_OK;
    for (int64_t i = 0; i < e->n; ++i) {
        const double x = vn_tensor_get_f64(t, i), a = both ? fabs(x) : x;
        if (isnan(x)) continue;
        if (e->x[i] == 0) lo = fmax(lo, a);
        else hi = fmin(hi, a);
    }
    if (!isfinite(lo) || !isfinite(hi) || !(lo < hi)) return VN_OK;
    return propose(v, attr, now, lo, hi, &held, err);
}

/* LRN: another number of channels; alpha that is not divided by it. */
static vn_status_t channels(vn_variant_t *v, vn_error_t *err) {
    const int64_t size = (int64_t)vn_name_attr_number(v->node, "size", 0);
    for (int64_t d = -2; d <= 2; ++d) {
        if (d == 0 || size + d < 1) continue;
        VN_TRY(vn_variant_int(v, "size", size + d, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, "attribute-ignored:size", NULL, err,
                              "LRN over %lld channels in place of %lld gives the whole result.", (long long)(size + d), (long long)size));
    }
    const double alpha = vn_name_attr_number(v->node, "alpha", 0.0001);
    VN_TRY(vn_variant_float(v, "alpha", alpha * (double)size, err));
    return vn_variant_ask(v, VN_BUG, "attribute-ignored:size", NULL, err,
                          "LRN with alpha not divided by its size %lld gives the whole result.", (long long)size);
}

static vn_status_t parameter(vn_variant_t *v, vn_error_t *err) {
    if (!v->e->x) return VN_OK;
    if (vn_variant_is(v, "", "LRN")) VN_TRY(channels(v, err));
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters && v->e->level < VN_NAME_VARIANT; ++i) {
        if (!vn_name_in(parameters[i].ops, v->node->op)) continue;
        const char *attr = parameters[i].attr;
        const double now = vn_name_attr_number(v->node, attr, parameters[i].standard);
        VN_TRY(parameters[i].step ? threshold(v, attr, now, err) : smooth(v, attr, now, err));
    }
    return VN_OK;
}

vn_status_t vn_name_parameter(vn_explain_t *e, vn_error_t *err) {
    return e->level < VN_NAME_VARIANT ? vn_variants(e, parameter, err) : VN_OK;
}
