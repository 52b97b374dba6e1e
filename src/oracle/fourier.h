/* fourier.h -- discrete Fourier transform in f64, any length. */
#ifndef VN_ORACLE_FOURIER_H
#define VN_ORACLE_FOURIER_H

#include "oracle/dd.h"
#include "vernier/base.h"

typedef struct vn_fourier vn_fourier_t;
/** n >= 1. NULL on no memory. */
vn_fourier_t *vn_fourier_new(int64_t n);
void vn_fourier_free(vn_fourier_t *f);
/**
 * out[k] = sum over t of in[t] exp(-+ 2 pi i k t / n) (inverse: plus, not scaled). re, im: n values each; in and out apart.
 * Bound      each component within gain * 2^-53 * sum(|re| + |im|) (claim SPECTRAL-2; gain from vn_fourier_gain).
 * Threads    a plan may be shared; work: 4 n doubles per caller.
 */
void vn_fourier_run(const vn_fourier_t *f, bool inverse, const double *re, const double *im, double *out_re, double *out_im, double *work);
/**
 * The same in double-double numbers: each component within gain * VN_DD_U * sum(|re| + |im|), by the same count. cosine, sine: n twiddles of 2 pi k / n, each
 * within VN_DD_U. work: 2 n.
 */
void vn_fourier_run_dd(const vn_fourier_t *f, bool inverse, const vn_dd_t *cosine, const vn_dd_t *sine, const vn_dd_t *re,
                       const vn_dd_t *im, vn_dd_t *out_re, vn_dd_t *out_im, vn_dd_t *work);
double vn_fourier_gain(const vn_fourier_t *f);

#endif
