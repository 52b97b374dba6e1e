/* scan.c -- the one-block prefix scan of a GPU as a schedule on one core: every addition in its place. Claim ARITHM-2. */
#include <string.h>

#include "vernier/arith.h"

enum { READS = 4, WARP = 32, MOST = 4096, THREADS = MOST / READS, WARPS = THREADS / WARP };

/* Inclusive scan of 32 values by offsets 1, 2, 4, 8, 16: each stage reads the one before it. */
static void warp_scan(float *x) {
    for (int offset = 1; offset < WARP; offset *= 2)
        for (int lane = WARP - 1; lane >= offset; --lane) x[lane] = x[lane] + x[lane - offset];
}

/* Inclusive to exclusive: one lane on, zero in front. Returns the last inclusive value that fell out. */
static void shift(float *x) {
    memmove(x + 1, x, (WARP - 1) * sizeof *x);
    x[0] = 0;
}

vn_status_t vn_scan_staged(const float *x, int64_t width, float carry, float *out, vn_error_t *err) {
    float value[MOST] = {0}, thread[THREADS] = {0}, warp[WARP] = {0};
    if (width < 1 || width > MOST)
        return vn_fail(err, VN_ERR_RANGE, "staged scan: a row of %lld values; from 1 to %d", (long long)width, MOST);
    memcpy(value, x, (size_t)width * sizeof *value);
    const int warps = (int)((width + READS * WARP - 1) / (READS * WARP));
    for (int t = 0; t < warps * WARP; ++t) {
        float *v = value + t * READS;
        for (int k = 1; k < READS; ++k) v[k] = v[k] + v[k - 1];
        thread[t] = v[READS - 1];
    }
    for (int w = 0; w < warps; ++w) {
        float *lane = thread + w * WARP;
        const float last = lane[WARP - 1]; /* the thread's own sum, before the scan */
        warp_scan(lane);
        shift(lane);
        warp[w] = lane[WARP - 1] + last; /* an association of its own: not the scan's last value */
    }
    warp_scan(warp);
    shift(warp);
    for (int64_t k = 0; k < width; ++k) {
        const int64_t t = k / READS;
        out[k] = ((value[k] + carry) + warp[t / WARP]) + thread[t];
    }
    return VN_OK;
}
