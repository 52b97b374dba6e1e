/* norm_form.c -- the forms of norm_form.h. */
#include "schedule/norm_form.h"

#include <math.h>
#include <stdio.h>

enum { VARIANCES = 3, ROOTS = 2, SCALES = 5 };

bool vn_norm_form_of(int k, bool bias, vn_norm_form_t *out) {
    *out = (vn_norm_form_t){.variance = k % VARIANCES,
                            .scale = k / VARIANCES % SCALES,
                            .root = k / (VARIANCES * SCALES) % ROOTS,
                            .fused = k / (VARIANCES * SCALES * ROOTS) != 0};
    const bool divides = out->scale == 2 || out->scale == 4; /* no reciprocal in it */
    if (out->fused && (!bias || out->scale == 4)) return false;
    return !(out->root && divides);
}

void vn_norm_form_text(vn_norm_form_t f, bool bias, char *out, size_t size) {
    static const char *const variances[VARIANCES] = {"S/n + eps", "S*(1/n) + eps", "fma(S, 1/n, eps)"};
    static const char *const factors[SCALES][2] = {{"d*r", "w"}, {"d", "(r*w)"}, {"d/sqrt(v)", "w"}, {"(d*w)", "r"}, {"(d*w)/sqrt(v)", ""}};
    const char *a = factors[f.scale][0], *b = factors[f.scale][1];
    const bool divides = f.scale == 2 || f.scale == 4;
    char product[64];
    if (!*b) snprintf(product, sizeof product, "%s", a);
    else snprintf(product, sizeof product, f.scale == 0 || f.scale == 2 ? "(%s)*%s" : "%s*%s", a, b);
    const int at = snprintf(out, size, "v = %s%s; y = ", variances[f.variance],
                            divides  ? ""
                            : f.root ? "; r = 1/sqrt(v), rounded once"
                                     : "; r = 1/sqrt(v)");
    if (f.fused) snprintf(out + at, size - (size_t)at, "fma(%s, %s, b)", a, b);
    else snprintf(out + at, size - (size_t)at, "%s%s", product, bias ? " + b" : "");
}

vn_norm_row_t vn_norm_row_of(vn_norm_form_t f, float sum, int n, float epsilon, float less) {
    const float count = (float)n, share = 1 / count;
    const float square = f.variance == 0 ? sum / count : sum * share;
    const float v = f.variance == 2 && less == 0 ? fmaf(sum, share, epsilon) : (square - less) + epsilon;
    const float root = sqrtf(v);
    return (vn_norm_row_t){.root = root, .inverse = f.root ? (float)(1 / sqrt((double)v)) : 1 / root};
}

float vn_norm_output(vn_norm_form_t f, vn_norm_row_t r, float d, float w, float b, bool bias) {
    float x, y;
    switch (f.scale) {
    case 0: x = d * r.inverse, y = w; break;
    case 1: x = d, y = r.inverse * w; break;
    case 2: x = d / r.root, y = w; break;
    case 3: x = d * w, y = r.inverse; break;
    default: x = d * w, x = x / r.root, y = 1; break;
    }
    if (f.fused) return fmaf(x, y, b);
    const float product = x * y;
    return bias ? product + b : product;
}
