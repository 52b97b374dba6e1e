/* window.h -- sliding windows along spatial axes: attributes, output sizes, and which input a tap reads. Convolution and pooling. */
#ifndef VN_ORACLE_WINDOW_H
#define VN_ORACLE_WINDOW_H

#include "oracle/registry.h"

typedef struct vn_window {
    int64_t in, out, kernel, stride, dilation, lo, hi; /* lo, hi: padding before and after */
} vn_window_t;

typedef struct vn_windows {
    int n;
    vn_window_t axis[VN_MAX_RANK];
    int64_t positions, taps, in_size; /* products of out, kernel, in */
} vn_windows_t;

/**
 * Reads kernel_shape (or `kernel`, if not NULL, which kernel_shape must then repeat), strides, dilations, pads, auto_pad, ceil_mode.
 * crop: SAME with windows shorter than their stride gives negative padding, as the pooling formulas have it; else it counts as none.
 * Output sizes: floor, or ceil where ceil_mode asks, windows that would start in the padding behind the input left out.
 * Errors     SHAPE for lengths that do not fit the rank or a window larger than its padded input; RANGE for values below 1 (pads below 0)
 *            or beyond 2^31; USAGE for an unknown auto_pad.
 */
vn_status_t vn_windows_read(vn_eval_t *e, int spatial, const int64_t *in, const int64_t *kernel, bool crop, vn_windows_t *out);
/** The same for ConvTranspose: output_padding, output_shape; out is what the standard's equations give. */
vn_status_t vn_windows_read_transposed(vn_eval_t *e, int spatial, const int64_t *in, const int64_t *kernel, vn_windows_t *out);

/** Input coordinate that tap t of output o reads on one axis, or -1 (padding, or between strides when transposed). */
static inline int64_t vn_window_tap(const vn_window_t *w, int64_t o, int64_t t) {
    const int64_t i = o * w->stride + t * w->dilation - w->lo;
    return i >= 0 && i < w->in ? i : -1;
}
static inline int64_t vn_window_tap_transposed(const vn_window_t *w, int64_t o, int64_t t) {
    const int64_t i = o + w->lo - t * w->dilation;
    return i >= 0 && i % w->stride == 0 && i / w->stride < w->in ? i / w->stride : -1;
}

#endif
