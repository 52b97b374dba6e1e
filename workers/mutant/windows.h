/* windows.h -- sliding windows of convolutions and pools: kernel, strides, dilations, pads, and where each lands. */
#ifndef VN_MUTANT_WINDOWS_H
#define VN_MUTANT_WINDOWS_H

#include "mutant.h"

enum { MAX_SPATIAL = VN_MAX_RANK - 2 };

typedef struct windows {
    int rank; /* spatial */
    int64_t in[MAX_SPATIAL], out[MAX_SPATIAL], kernel[MAX_SPATIAL], strides[MAX_SPATIAL], dilations[MAX_SPATIAL], begin[MAX_SPATIAL],
        end[MAX_SPATIAL];
    int64_t in_size, out_size, kernel_size;
    bool skip_border; /* the fault border-taps */
} windows_t;

/** Reads the attributes of c->node for image x [N, C, spatial...] and the given kernel; ceil_mode is honoured. */
vn_status_t windows_read(const call_t *c, const vn_tensor_t *x, const int64_t *kernel, windows_t *w);
/** table[k * out_size + p]: element of the image under kernel position k of place p, -1 in the padding. vn_free; NULL: err is set. */
int64_t *windows_table(const call_t *c, const windows_t *w);

#endif
