/* op_conv_quant.c -- ConvInteger and QLinearConv.
 *
 * Claim CONV-2: zero points are taken off first and the padding is a real zero; the sums are exact integers below 2^53.
 * Claim CONV-3: code = round((sum + bias) * sx sw / sy) + zy within the requantise window (REQUANT-1).
 */
#include <math.h>
#include <string.h>

#include "oracle/conv.h"
#include "oracle/requant.h"
#include "oracle/require.h"

/* Sums of centred codes, [N, M, P]. Inputs by number; kz < 0: no zero point operand. */
static vn_status_t sums(vn_eval_t *e, int kx, int kzx, int kw, int kzw, vn_conv_t *c, double **out) {
    double *x = NULL, *w = NULL;
    *out = NULL;
    VN_TRY(vn_require(e, (kx > kw ? kx : kw) + 1));
    const vn_tensor_t *xt = e->in[kx].t, *wt = e->in[kw].t;
    for (int i = 0; i < 2; ++i) {
        const vn_tensor_t *t = i ? wt : xt;
        if (!vn_dtype_is_int(t->dtype) || vn_dtype_bits(t->dtype) > 8)
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "operand of type %s; quantised convolutions are done for integers of at most 8 bits",
                                vn_dtype_name(t->dtype));
    }
    VN_TRY(vn_conv_plan(e, kx, kw, false, c));
    int64_t n;
    if (!vn_i64_mul(c->batch * c->maps, c->w.positions, &n)) return vn_eval_fail(e, VN_ERR_RANGE, "too many results");
    x = vn_alloc((size_t)(xt->count ? xt->count : 1), sizeof *x);
    w = vn_alloc((size_t)(wt->count ? wt->count : 1), sizeof *w);
    *out = vn_alloc((size_t)(n ? n : 1), sizeof **out);
    vn_status_t s = x && w && *out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld sums", (long long)n);
    if (s == VN_OK) {
        vn_tensor_to_f64(xt, x);
        vn_tensor_to_f64(wt, w);
    }
    if (s == VN_OK && vn_has(e, kzx)) {
        if (e->in[kzx].t->count != 1) s = vn_eval_fail(e, VN_ERR_SHAPE, "the zero point of the input must be one number");
        for (int64_t i = 0; s == VN_OK && i < xt->count; ++i) x[i] -= (double)vn_arg_int(e, kzx, 0);
    }
    if (s == VN_OK && vn_has(e, kzw)) {
        const int64_t zeros = e->in[kzw].t->count, per = c->maps ? wt->count / c->maps : 0;
        if (zeros != 1 && zeros != c->maps)
            s = vn_eval_fail(e, VN_ERR_SHAPE, "%lld zero points for %lld filters", (long long)zeros, (long long)c->maps);
        for (int64_t m = 0; s == VN_OK && m < c->maps; ++m) {
            const double z = (double)vn_arg_int(e, kzw, zeros == 1 ? 0 : m);
            for (int64_t i = 0; i < per; ++i) w[m * per + i] -= z;
        }
    }
    if (s == VN_OK) s = vn_conv_exact(e, c, x, w, *out);
    vn_free(x);
    vn_free(w);
    return s;
}

static vn_status_t infer(vn_eval_t *e, int kx, int kw, vn_dtype_t t) {
    vn_conv_t c;
    VN_TRY(vn_conv_plan(e, kx, kw, false, &c));
    e->out[0].dtype = t;
    e->out[0].rank = c.rank;
    memcpy(e->out[0].dims, c.dims, sizeof c.dims);
    return VN_OK;
}

vn_status_t vn_infer_conv_integer(vn_eval_t *e) { return infer(e, 0, 1, VN_I32); }

vn_status_t vn_eval_conv_integer(vn_eval_t *e) {
    vn_conv_t c;
    double *y;
    vn_status_t s = sums(e, 0, 2, 1, 3, &c, &y);
    if (s == VN_OK) s = vn_out_exact(e, 0, VN_I32, c.rank, c.dims);
    int32_t *out = s == VN_OK ? e->out[0].tensor->data : NULL;
    for (int64_t i = 0; out && i < e->out[0].count; ++i) out[i] = (int32_t)(uint32_t)(uint64_t)(int64_t)y[i]; /* wraps in 32 bits */
    if (s == VN_OK) e->out[0].terms = c.depth;
    vn_free(y);
    return s;
}

enum { X, X_SCALE, X_ZERO, W, W_SCALE, W_ZERO, Y_SCALE, Y_ZERO, BIAS };

vn_status_t vn_infer_qlinear_conv(vn_eval_t *e) {
    VN_TRY(vn_require(e, Y_ZERO + 1));
    return infer(e, X, W, e->in[Y_ZERO].t->dtype);
}

vn_status_t vn_eval_qlinear_conv(vn_eval_t *e) {
    VN_TRY(vn_require(e, Y_ZERO + 1));
    const vn_dtype_t t = e->in[Y_ZERO].t->dtype;
    if (!vn_dtype_is_int(t) || vn_dtype_bits(t) > 8)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "a result of type %s; quantised convolutions are done for integers of at most 8 bits",
                            vn_dtype_name(t));
    vn_conv_t c;
    double *acc;
    vn_status_t s = sums(e, X, X_ZERO, W, W_ZERO, &c, &acc);
    if (s == VN_OK) s = vn_out_exact(e, 0, t, c.rank, c.dims);
    if (s == VN_OK) s = vn_out_either(e, 0);
    const double *sx = s == VN_OK ? vn_arg_f64(e, X_SCALE) : NULL, *sw = sx ? vn_arg_f64(e, W_SCALE) : NULL,
                 *sy = sw ? vn_arg_f64(e, Y_SCALE) : NULL;
    if (s == VN_OK && !sy) s = VN_ERR_NOMEM;
    const int64_t scales = e->in[W_SCALE].t->count;
    if (s == VN_OK && scales != 1 && scales != c.maps)
        s = vn_eval_fail(e, VN_ERR_SHAPE, "%lld scales for %lld filters", (long long)scales, (long long)c.maps);
    if (s == VN_OK && (e->in[X_SCALE].t->count != 1 || e->in[Y_SCALE].t->count != 1 || e->in[Y_ZERO].t->count != 1))
        s = vn_eval_fail(e, VN_ERR_SHAPE, "scales and zero points of input and output must be one number");
    if (s == VN_OK && vn_has(e, BIAS) && e->in[BIAS].t->count != c.maps)
        s = vn_eval_fail(e, VN_ERR_SHAPE, "bias of %lld elements for %lld filters", (long long)e->in[BIAS].t->count, (long long)c.maps);
    if (s == VN_OK) {
        const double u = vn_u(e), zero = (double)vn_arg_int(e, Y_ZERO, 0);
        double lo, hi;
        vn_code_range(t, &lo, &hi);
        e->out[0].terms = c.depth;
        for (int64_t i = 0; i < e->out[0].count; ++i) {
            const int64_t m = i / c.w.positions % c.maps;
            const double a = acc[i] + (vn_has(e, BIAS) ? (double)vn_arg_int(e, BIAS, m) : 0);
            const double v = a * sx[0] * sw[scales == 1 ? 0 : m] / sy[0];
            double code, other;
            vn_requant(v, (fabs(a) > 1 / u ? 5 : 4) * u * fabs(v), zero, lo, hi, &code, &other);
            vn_tensor_set_i64(e->out[0].tensor, i, (int64_t)code);
            vn_tensor_set_i64(e->out[0].either, i, (int64_t)other);
        }
    }
    vn_free(acc);
    return s;
}
