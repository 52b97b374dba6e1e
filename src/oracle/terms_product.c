/* terms_product.c -- summands of MatMul, FusedMatMul, Gemm and Conv. */
#include <string.h>

#include "oracle/terms.h"

double vn_terms_rounded(const vn_eval_t *e, int k, double x) {
    const vn_contract_t *c = e->contract;
    if (c->operand_mask && !(c->operand_mask >> k & 1)) return x;
    if (vn_format_of(e->in[k].t->dtype) == c->operand) return x;
    return vn_round_to(c->operand, x, c->operand_rounding, false);
}

static vn_status_t planes(vn_eval_t *e, const double **a, const double **b) {
    *a = vn_arg_f64(e, 0);
    *b = vn_arg_f64(e, 1);
    return *a && *b ? VN_OK : VN_ERR_NOMEM;
}

vn_status_t vn_terms_matmul(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    const vn_tensor_t *a = e->in[0].t, *b = e->in[1].t;
    const double *x, *y;
    VN_TRY(planes(e, &x, &y));
    if (vn_node_float(e->node, "alpha", 1) != 1 || vn_node_int(e->node, "transBatchA", 0) || vn_node_int(e->node, "transBatchB", 0))
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "no plain sum");
    const bool ta = vn_node_int(e->node, "transA", 0) != 0 && a->rank > 1, tb = vn_node_int(e->node, "transB", 0) != 0 && b->rank > 1;
    const int64_t ra = a->rank > 1 ? a->dims[a->rank - 2] : 1, ca = a->dims[a->rank - 1];
    const int64_t rb = b->rank > 1 ? b->dims[b->rank - 2] : b->dims[0], cb = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    const int64_t depth = ta ? ra : ca, rows = ta ? ca : ra, columns = tb ? rb : cb;
    const int64_t column = i % columns, row = i / columns % rows;
    int64_t batch = i / columns / rows, oa = 0, ob = 0, sa = 1, sb = 1;
    const int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0,
              most = batch_a > batch_b ? batch_a : batch_b;
    for (int d = 1; d <= most; ++d) { /* batch axes from the last: broadcast where the dimension is 1 */
        const int64_t da = d <= batch_a ? a->dims[batch_a - d] : 1, db = d <= batch_b ? b->dims[batch_b - d] : 1, dim = da > db ? da : db;
        const int64_t at = dim ? batch % dim : 0;
        batch = dim ? batch / dim : 0;
        oa += (da == 1 ? 0 : at) * sa;
        ob += (db == 1 ? 0 : at) * sb;
        sa *= da;
        sb *= db;
    }
    const double *pa = x + oa * ra * ca, *pb = y + ob * rb * cb;
    *n = depth;
    for (int64_t t = 0; t < depth && t < max; ++t)
        out[t] = vn_terms_rounded(e, 0, pa[ta ? t * ca + row : row * ca + t]) *
                 vn_terms_rounded(e, 1, pb[tb ? column * cb + t : t * cb + column]);
    return VN_OK;
}

vn_status_t vn_terms_gemm(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    const vn_tensor_t *a = e->in[0].t, *b = e->in[1].t;
    const double *x, *y, *z = NULL;
    VN_TRY(planes(e, &x, &y));
    const double alpha = vn_node_float(e->node, "alpha", 1), beta = vn_node_float(e->node, "beta", 1);
    const bool ta = vn_node_int(e->node, "transA", 0) != 0, tb = vn_node_int(e->node, "transB", 0) != 0;
    const int64_t depth = ta ? a->dims[0] : a->dims[1], columns = tb ? b->dims[0] : b->dims[1], row = i / columns, column = i % columns;
    *n = depth;
    for (int64_t t = 0; t < depth && t < max; ++t)
        out[t] = alpha * vn_terms_rounded(e, 0, x[ta ? t * a->dims[1] + row : row * a->dims[1] + t]) *
                 vn_terms_rounded(e, 1, y[tb ? column * b->dims[1] + t : t * b->dims[1] + column]);
    if (!vn_has(e, 2)) return VN_OK;
    if (!(z = vn_arg_f64(e, 2))) return VN_ERR_NOMEM;
    const vn_tensor_t *c = e->in[2].t;
    const int64_t dc = c->rank > 0 ? c->dims[c->rank - 1] : 1, dr = c->rank > 1 ? c->dims[0] : 1;
    if (*n < max) out[*n] = beta * z[(dr == 1 ? 0 : row) * dc + (dc == 1 ? 0 : column)];
    ++*n;
    return VN_OK;
}

/* Leading padding of spatial axis d by auto_pad and pads; the output size is known from the element count's own decomposition. */
static int64_t leading_pad(const vn_eval_t *e, int d, int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation) {
    const char *mode = vn_node_string(e->node, "auto_pad", "NOTSET");
    int64_t count;
    const int64_t *pads = vn_node_ints(e->node, "pads", &count);
    if (strcmp(mode, "NOTSET") == 0) return pads ? pads[d] : 0;
    if (strcmp(mode, "VALID") == 0) return 0;
    int64_t total = (out - 1) * stride + (kernel - 1) * dilation + 1 - in;
    if (total < 0) total = 0;
    return strcmp(mode, "SAME_UPPER") == 0 ? total / 2 : total - total / 2;
}

static int64_t output_size(const vn_eval_t *e, int d, int spatial, int64_t in, int64_t kernel, int64_t stride, int64_t dilation) {
    const char *mode = vn_node_string(e->node, "auto_pad", "NOTSET");
    int64_t count;
    const int64_t *pads = vn_node_ints(e->node, "pads", &count);
    if (strncmp(mode, "SAME", 4) == 0) return (in + stride - 1) / stride;
    const int64_t pad = strcmp(mode, "VALID") == 0 || !pads ? 0 : pads[d] + pads[d + spatial];
    return (in + pad - (kernel - 1) * dilation - 1) / stride + 1;
}

vn_status_t vn_terms_conv(vn_eval_t *e, int k, int64_t i, double *out, int64_t max, int64_t *n) {
    (void)k;
    const vn_tensor_t *x = e->in[0].t, *w = e->in[1].t;
    const double *v, *f, *bias = NULL;
    VN_TRY(planes(e, &v, &f));
    const int spatial = x->rank - 2;
    if (spatial < 1 || w->rank != x->rank) return vn_eval_fail(e, VN_ERR_SHAPE, "ranks %d and %d", x->rank, w->rank);
    int64_t count, at[VN_MAX_RANK], start[VN_MAX_RANK], step[VN_MAX_RANK];
    const int64_t *strides = vn_node_ints(e->node, "strides", &count), *dilations = vn_node_ints(e->node, "dilations", &count);
    int64_t rest = i;
    for (int d = spatial - 1; d >= 0; --d) {
        const int64_t s = strides ? strides[d] : 1, l = dilations ? dilations[d] : 1, in = x->dims[d + 2], kernel = w->dims[d + 2];
        const int64_t size = output_size(e, d, spatial, in, kernel, s, l);
        if (size < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "no output along axis %d", d + 2);
        start[d] = rest % size * s - leading_pad(e, d, in, size, kernel, s, l);
        step[d] = l;
        rest /= size;
    }
    const int64_t channel = rest % w->dims[0], batch = rest / w->dims[0], groups = vn_node_int(e->node, "group", 1);
    const int64_t depth = w->dims[1], first = channel / (w->dims[0] / groups) * depth;
    int64_t taps = 1;
    for (int d = 0; d < spatial; ++d) taps *= w->dims[d + 2];
    *n = 0;
    for (int64_t c = 0; c < depth; ++c)
        for (int64_t t = 0; t < taps; ++t) {
            int64_t tap = t, offset = 0, stride = 1;
            bool inside = true;
            for (int d = spatial - 1; d >= 0; --d) {
                at[d] = start[d] + tap % w->dims[d + 2] * step[d];
                tap /= w->dims[d + 2];
                inside = inside && at[d] >= 0 && at[d] < x->dims[d + 2];
                offset += at[d] * stride;
                stride *= x->dims[d + 2];
            }
            if (!inside) continue;
            if (*n < max)
                out[*n] = vn_terms_rounded(e, 0, v[(batch * x->dims[1] + first + c) * stride + offset]) *
                          vn_terms_rounded(e, 1, f[(channel * depth + c) * taps + t]);
            ++*n;
        }
    if (!vn_has(e, 2)) return VN_OK;
    if (!(bias = vn_arg_f64(e, 2))) return VN_ERR_NOMEM;
    if (*n < max) out[*n] = bias[channel];
    ++*n;
    return VN_OK;
}
