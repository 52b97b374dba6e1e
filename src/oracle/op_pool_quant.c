/* op_pool_quant.c -- contrib QLinearAveragePool and QLinearGlobalAveragePool.
 *
 * Claim POOL-8: code = round(sx / sy * sum(x - zx) / d) + zy; kernels dequantise, average and requantise in f32, in any order, so the window
 * around a tie is g(n + 5) sx / sy sum|x - zx| / d. With zx added back at the end the terms are |x|: these count in the window too.
 */
#include <math.h>
#include <string.h>

#include "oracle/pool.h"
#include "oracle/requant.h"
#include "oracle/require.h"

enum { X, X_SCALE, X_ZERO, Y_SCALE, Y_ZERO };

/* Moves the channels of [N, spatial..., C] to the front (forth) or back. Planes of doubles. */
static double *turn(const double *x, int64_t batch, int64_t channels, int64_t size, bool forth) {
    const int64_t n = batch * channels * size;
    double *out = vn_alloc((size_t)(n ? n : 1), sizeof *out);
    for (int64_t b = 0; out && b < batch; ++b)
        for (int64_t c = 0; c < channels; ++c)
            for (int64_t i = 0; i < size; ++i) {
                const int64_t front = (b * channels + c) * size + i, back = (b * size + i) * channels + c;
                if (forth) out[front] = x[back];
                else out[back] = x[front];
            }
    return out;
}

static vn_status_t run(vn_eval_t *e, bool global) {
    VN_TRY(vn_require(e, Y_SCALE + 1));
    const vn_tensor_t *x = e->in[X].t;
    const bool last = vn_node_int(e->node, "channels_last", 0) != 0, include = vn_node_int(e->node, "count_include_pad", 0) != 0;
    if (!vn_dtype_is_int(x->dtype) || vn_dtype_bits(x->dtype) > 8)
        return vn_eval_fail(e, VN_ERR_DTYPE, "quantised pooling of %s", vn_dtype_name(x->dtype));
    for (int k = X_SCALE; k <= Y_ZERO; ++k)
        if (vn_has(e, k) && e->in[k].t->count != 1) return vn_eval_fail(e, VN_ERR_SHAPE, "scales and zero points must be one number");
    if (x->rank < 3) return vn_eval_fail(e, VN_ERR_SHAPE, "an input of rank %d", x->rank);
    /* The pooling code knows channels first: show it such a tensor. */
    vn_tensor_t front = *x;
    if (last) {
        front.dims[1] = x->dims[x->rank - 1];
        for (int d = 2; d < x->rank; ++d) front.dims[d] = x->dims[d - 1];
    }
    vn_arg_t first = {.t = &front};
    vn_eval_t sub = *e;
    sub.in = &first;
    sub.n_in = 1;
    vn_pool_t p;
    VN_TRY(vn_pool_plan(&sub, global ? VN_POOL_GLOBAL : VN_POOL_WINDOWS_UNCROPPED, &p));
    int64_t dims[VN_MAX_RANK];
    memcpy(dims, p.dims, sizeof dims);
    if (last) {
        for (int d = 1; d < p.rank - 1; ++d) dims[d] = p.dims[d + 1];
        dims[p.rank - 1] = p.dims[1];
    }
    VN_TRY(vn_out_exact(e, 0, x->dtype, p.rank, dims));
    VN_TRY(vn_out_either(e, 0));
    const double *codes = vn_arg_f64(e, X);
    if (!codes) return VN_ERR_NOMEM;
    const double sx = vn_tensor_get_f64(e->in[X_SCALE].t, 0), sy = vn_tensor_get_f64(e->in[Y_SCALE].t, 0), u = vn_u(e);
    const double zx = vn_has(e, X_ZERO) ? (double)vn_arg_int(e, X_ZERO, 0) : 0,
                 zy = vn_has(e, Y_ZERO) ? (double)vn_arg_int(e, Y_ZERO, 0) : 0;
    const int64_t room = vn_pool_capacity(&p), out_count = e->out[0].count;
    double *turned = last ? turn(codes, x->dims[0], p.dims[1], p.w.in_size, true) : NULL;
    double *buffer = vn_alloc((size_t)(room ? room : 1), sizeof *buffer);
    double *pair = vn_alloc((size_t)(out_count ? 2 * out_count : 1), sizeof *pair);
    vn_status_t s = buffer && pair && (turned || !last) ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for windows");
    double lo, hi;
    vn_code_range(x->dtype, &lo, &hi);
    for (int64_t at = 0; s == VN_OK && at < out_count; ++at) {
        vn_pool_span_t span;
        vn_pool_span(&p, at % p.w.positions, &span);
        vn_pool_read(&p, &span, (last ? turned : codes) + at / p.w.positions * p.w.in_size, buffer);
        double sum = 0, magnitude = 0;
        for (int64_t i = 0; i < span.present; ++i) {
            sum += buffer[i] - zx;
            magnitude += fabs(buffer[i] - zx) + fabs(buffer[i]) + fabs(zx);
        }
        const double d = (double)(include && !global ? span.inside : span.present), v = d > 0 ? sum * sx / sy / d : 0;
        vn_requant(v, d > 0 ? vn_gamma((double)span.present + 5, u) * magnitude * sx / sy / d : 0, zy, lo, hi, &pair[at],
                   &pair[out_count + at]);
    }
    if (s == VN_OK && last)
        for (int k = 0; k < 2 && s == VN_OK; ++k) {
            double *back = turn(pair + k * out_count, x->dims[0], p.dims[1], p.w.positions, false);
            if (back) memcpy(pair + k * out_count, back, (size_t)out_count * sizeof *back);
            else s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
            vn_free(back);
        }
    for (int64_t at = 0; s == VN_OK && at < out_count; ++at) {
        vn_tensor_set_i64(e->out[0].tensor, at, (int64_t)pair[at]);
        vn_tensor_set_i64(e->out[0].either, at, (int64_t)pair[out_count + at]);
    }
    vn_free(turned);
    vn_free(buffer);
    vn_free(pair);
    return s;
}

vn_status_t vn_eval_qlinear_average_pool(vn_eval_t *e) { return run(e, false); }
vn_status_t vn_eval_qlinear_global_average_pool(vn_eval_t *e) { return run(e, true); }
