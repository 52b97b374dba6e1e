/* winograd.h -- F(n x n, 3 x 3): the convolution of tiles by interpolation at points. */
#ifndef VN_MUTANT_WINOGRAD_H
#define VN_MUTANT_WINOGRAD_H

#include "windows.h"

/** Two spatial axes, a kernel of 3 x 3, strides and dilations of 1. */
bool winograd_fits(const windows_t *w);
/** y[out_channels][places] of one image [in_channels][in] and weights [out_channels][in_channels][9]; every step rounded to the working format. */
vn_status_t winograd(const call_t *c, const windows_t *w, int64_t out_channels, int64_t in_channels, const double *weights,
                     const double *image, double *y);

#endif
