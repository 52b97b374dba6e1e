/* fourier.c -- discrete Fourier transform in f64, any length: mixed radix over the prime factors, direct sums for each prime.
 *
 * Claim SPECTRAL-2. A stage of radix p adds p terms, each the product with a correctly rounded twiddle: it multiplies the error by at most
 * 1 + g(p + 4); twiddles are unit vectors, so all partial sums of one output stay within sum(|re| + |im|). Over all stages:
 * gain = 2 sum over factors of (p + 4).
 */
#include "oracle/fourier.h"

#include <math.h>
#include <string.h>

struct vn_fourier {
    int64_t n;
    int factors;
    int64_t factor[64];
    double *cosine, *sine; /* 2 pi k / n */
};

/* cos and sin of 2 pi k / n by the nearest eighth of the circle, so that the argument stays below pi/4. */
static void turn(int64_t k, int64_t n, double *c, double *s) {
    const long double pi2 = 6.283185307179586476925286766559005768L;
    const int64_t eighth = 8 * k / n; /* k < n <= 2^59 */
    const int64_t quarter = (eighth + 1) / 2 % 4;
    const long double angle = pi2 * ((long double)(4 * k - ((eighth + 1) / 2) * n) / (4 * (long double)n));
    const double x = (double)cosl(angle), y = (double)sinl(angle);
    switch (quarter) {
    case 0: *c = x, *s = y; break;
    case 1: *c = -y, *s = x; break;
    case 2: *c = -x, *s = -y; break;
    default: *c = y, *s = -x; break;
    }
}

vn_fourier_t *vn_fourier_new(int64_t n) {
    if (n < 1 || n > INT64_C(1) << 40) return NULL;
    vn_fourier_t *f = vn_alloc(1, sizeof *f);
    if (!f) return NULL;
    f->n = n;
    f->cosine = vn_alloc((size_t)n, sizeof *f->cosine);
    f->sine = vn_alloc((size_t)n, sizeof *f->sine);
    if (!f->cosine || !f->sine) {
        vn_fourier_free(f);
        return NULL;
    }
    for (int64_t k = 0; k < n; ++k) turn(k, n, &f->cosine[k], &f->sine[k]);
    int64_t rest = n;
    for (int64_t p = 2; p * p <= rest; ++p)
        while (rest % p == 0) f->factor[f->factors++] = p, rest /= p;
    if (rest > 1) f->factor[f->factors++] = rest;
    return f;
}

void vn_fourier_free(vn_fourier_t *f) {
    if (!f) return;
    vn_free(f->cosine);
    vn_free(f->sine);
    vn_free(f);
}

double vn_fourier_gain(const vn_fourier_t *f) {
    double g = 1;
    for (int i = 0; i < f->factors; ++i) g += 2 * ((double)f->factor[i] + 4);
    return g;
}

typedef struct pair {
    double *re, *im;
} pair_t;

/* n values at in[0], in[step], ... to out[0..n); stage: index of the factor to split off; spare: room for n values. */
static void transform(const vn_fourier_t *f, double sign, int64_t n, int64_t step, int stage, const double *re, const double *im,
                      pair_t out, pair_t spare) {
    if (n == 1) {
        out.re[0] = re[0];
        out.im[0] = im[0];
        return;
    }
    const int64_t p = f->factor[stage], m = n / p, unit = f->n / n;
    for (int64_t r = 0; r < p; ++r) { /* each residue class, transformed into spare, with out as its own room */
        const pair_t to = {spare.re + r * m, spare.im + r * m}, room = {out.re + r * m, out.im + r * m};
        transform(f, sign, m, step * p, stage + 1, re + r * step, im + r * step, to, room);
    }
    for (int64_t k = 0; k < n; ++k) {
        double sr = 0, si = 0;
        for (int64_t r = 0; r < p; ++r) {
            const int64_t at = (int64_t)((__int128)k * r % n) * unit;
            const double c = f->cosine[at], s = sign * f->sine[at], a = spare.re[r * m + k % m], b = spare.im[r * m + k % m];
            sr += a * c - b * s;
            si += a * s + b * c;
        }
        out.re[k] = sr;
        out.im[k] = si;
    }
}

void vn_fourier_run(const vn_fourier_t *f, bool inverse, const double *re, const double *im, double *out_re, double *out_im, double *work) {
    const pair_t out = {out_re, out_im}, spare = {work, work + f->n};
    transform(f, inverse ? 1 : -1, f->n, 1, 0, re, im, out, spare);
}

/* ---- in double-double ---- */

typedef struct transform_dd {
    const vn_fourier_t *f;
    const vn_dd_t *cosine, *sine;
    bool inverse;
} transform_dd_t;

static void transform_dd(const transform_dd_t *j, int64_t n, int64_t step, int stage, const vn_dd_t *re, const vn_dd_t *im, vn_dd_t *out_re,
                         vn_dd_t *out_im, vn_dd_t *spare_re, vn_dd_t *spare_im) {
    if (n == 1) {
        out_re[0] = re[0];
        out_im[0] = im[0];
        return;
    }
    const int64_t p = j->f->factor[stage], m = n / p, unit = j->f->n / n;
    for (int64_t r = 0; r < p; ++r)
        transform_dd(j, m, step * p, stage + 1, re + r * step, im + r * step, spare_re + r * m, spare_im + r * m, out_re + r * m,
                     out_im + r * m);
    for (int64_t k = 0; k < n; ++k) {
        vn_dd_t sr = {0, 0}, si = {0, 0};
        for (int64_t r = 0; r < p; ++r) {
            const int64_t at = (int64_t)((__int128)k * r % n) * unit;
            const vn_dd_t c = j->cosine[at], s = j->inverse ? j->sine[at] : vn_dd_neg(j->sine[at]), a = spare_re[r * m + k % m],
                          b = spare_im[r * m + k % m];
            sr = vn_dd_add(sr, vn_dd_add(vn_dd_mul(a, c), vn_dd_neg(vn_dd_mul(b, s))));
            si = vn_dd_add(si, vn_dd_add(vn_dd_mul(a, s), vn_dd_mul(b, c)));
        }
        out_re[k] = sr;
        out_im[k] = si;
    }
}

void vn_fourier_run_dd(const vn_fourier_t *f, bool inverse, const vn_dd_t *cosine, const vn_dd_t *sine, const vn_dd_t *re,
                       const vn_dd_t *im, vn_dd_t *out_re, vn_dd_t *out_im, vn_dd_t *work) {
    const transform_dd_t j = {.f = f, .cosine = cosine, .sine = sine, .inverse = inverse};
    transform_dd(&j, f->n, 1, 0, re, im, out_re, out_im, work, work + f->n);
}
