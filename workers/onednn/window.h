/* window.h -- strides, dilations, pads and output lengths of convolutions and pools, as the library counts them. */
#ifndef VN_ONEDNN_WINDOW_H
#define VN_ONEDNN_WINDOW_H

#include "onednn.h"

typedef struct window {
    int n;
    dnnl_dims_t kernel, stride, dilation, before, after; /* dilation 0: dense */
    int64_t out[VN_MAX_RANK];
    bool rounded_up; /* ceil_mode made an output longer: `after` has grown */
} window_t;

/**
 * From the attributes kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, output_padding of the node.
 * in, kernel: lengths of the n spatial dimensions.
 * Errors     UNSUPPORTED (output_shape), SHAPE.
 */
vn_status_t window_of(const step_call_t *c, int n, const int64_t *in, const int64_t *kernel, bool transpose, window_t *out);

#endif
