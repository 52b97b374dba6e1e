/* op_convolution.c -- Conv, ConvTranspose: primitives convolution (direct) and deconvolution. */
#include <string.h>

#include "onednn.h"
#include "window.h"

enum { MAX_SPATIAL = 3 };

/* Operands as the library counts them: weights [groups][out][in][kernel], whatever their order in memory. */
typedef struct form {
    window_t w;
    int64_t groups, batch, in, out; /* channels */
    int64_t y_dims[VN_MAX_RANK];
    dnnl_memory_desc_t x, weights, bias, y;
} form_t;

static vn_status_t weights_desc(const step_call_t *c, bool transpose, form_t *f) {
    const vn_tensor_t *w = c->in[1];
    const int64_t out = f->out / f->groups, in = f->in / f->groups;
    int64_t dims[5 + 1], strides[5 + 1], kernel = 1;
    for (int i = 0; i < f->w.n; ++i) kernel *= w->dims[2 + i];
    dims[0] = f->groups;
    dims[1] = out;
    dims[2] = in;
    strides[0] = out * in * kernel;
    strides[1] = transpose ? kernel : in * kernel;
    strides[2] = transpose ? out * kernel : kernel;
    int64_t step = 1;
    for (int i = f->w.n - 1; i >= 0; --i) {
        dims[3 + i] = w->dims[2 + i];
        strides[3 + i] = step;
        step *= w->dims[2 + i];
    }
    if (f->groups == 1) return dnn_desc_strided(c, w->dtype, 2 + f->w.n, dims + 1, strides + 1, &f->weights);
    return dnn_desc_strided(c, w->dtype, 3 + f->w.n, dims, strides, &f->weights);
}

static vn_status_t shapes(const step_call_t *c, bool transpose, form_t *f) {
    const vn_node_t *node = c->step->node;
    const vn_tensor_t *x = c->in[0], *w = c->in[1];
    const int n = x->rank - 2;
    if (n < 1 || n > MAX_SPATIAL || w->rank != x->rank)
        return step_refuse(node, c->err, "rank %d: oneDNN convolves in one to %d dimensions", x->rank, MAX_SPATIAL);
    f->groups = vn_node_int(node, "group", 1);
    f->batch = x->dims[0];
    f->in = x->dims[1];
    f->out = transpose ? w->dims[1] * f->groups : w->dims[0];
    const int64_t of_weights = transpose ? w->dims[0] : w->dims[1] * f->groups;
    if (f->groups < 1 || f->in != of_weights || f->in % f->groups || f->out % f->groups)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s (%s): channels, groups and weights do not fit", node->path, node->op);
    VN_TRY(window_of(c, n, x->dims + 2, w->dims + 2, transpose, &f->w));
    f->y_dims[0] = f->batch;
    f->y_dims[1] = f->out;
    memcpy(f->y_dims + 2, f->w.out, (size_t)n * sizeof *f->w.out);
    VN_TRY(dnn_desc(c, x->dtype, x->rank, x->dims, &f->x));
    VN_TRY(dnn_desc(c, x->dtype, x->rank, f->y_dims, &f->y));
    VN_TRY(dnn_desc(c, x->dtype, 1, &f->out, &f->bias));
    return weights_desc(c, transpose, f);
}

static vn_status_t convolve(const dnn_t *d, step_call_t *c, int transpose) {
    form_t f = {.groups = 1};
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    VN_TRY(dnn_need(c, 1, c->in[0]->dtype));
    const bool biased = dnn_given(c, 2);
    if (biased) VN_TRY(dnn_need(c, 2, c->in[0]->dtype));
    VN_TRY(shapes(c, transpose != 0, &f));
    vn_tensor_t *y;
    VN_TRY(step_output(c, 0, c->in[0]->dtype, c->in[0]->rank, f.y_dims, &y));
    if (y->count == 0) return VN_OK;
    if (c->in[1]->count == 0) return step_refuse(c->step->node, c->err, "a sum of no terms");
    const dnnl_memory_desc_t x = dnn_any(d, &f.x), w = dnn_any(d, &f.weights), out = dnn_any(d, &f.y), *bias = biased ? &f.bias : NULL;
    union {
        dnnl_convolution_desc_t convolution;
        dnnl_deconvolution_desc_t deconvolution;
    } op;
    const dnnl_status_t s =
        transpose ? dnnl_dilated_deconvolution_forward_desc_init(&op.deconvolution, dnnl_forward_inference, dnnl_deconvolution_direct, &x,
                                                                 &w, bias, &out, f.w.stride, f.w.dilation, f.w.before, f.w.after)
                  : dnnl_dilated_convolution_forward_desc_init(&op.convolution, dnnl_forward_inference, dnnl_convolution_direct, &x, &w,
                                                               bias, &out, f.w.stride, f.w.dilation, f.w.before, f.w.after);
    VN_TRY(dnn_check(c, s, "convolution"));
    const dnn_arg_t args[] = {{DNNL_ARG_SRC, &f.x, c->in[0]->data},
                              {DNNL_ARG_WEIGHTS, &f.weights, c->in[1]->data},
                              {DNNL_ARG_DST, &f.y, y->data},
                              {DNNL_ARG_BIAS, &f.bias, biased ? c->in[2]->data : NULL}};
    return dnn_run(d, c, &op, NULL, biased ? 4 : 3, args);
}

static const op_row_t rows[] = {{"", "Conv", convolve, 0}, {"", "ConvTranspose", convolve, 1}};
const op_table_t convolution_ops = {rows, sizeof rows / sizeof *rows};
