/* op_spatial.c -- primitives pooling, resampling, batch normalisation and local response normalisation. */
#include <math.h>
#include <string.h>

#include "onednn.h"
#include "window.h"

enum { MAX_SPATIAL = 3 };

static vn_status_t spatial(const step_call_t *c, int *n) {
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    *n = c->in[0]->rank - 2;
    if (*n >= 1 && *n <= MAX_SPATIAL) return VN_OK;
    return step_refuse(c->step->node, c->err, "rank %d: one to %d spatial dimensions", c->in[0]->rank, MAX_SPATIAL);
}

/* ---- pools ---- */

static vn_status_t pool_with(const dnn_t *d, step_call_t *c, dnnl_alg_kind_t algorithm, const window_t *w) {
    const vn_tensor_t *x = c->in[0];
    int64_t dims[VN_MAX_RANK];
    vn_tensor_t *y;
    dnnl_memory_desc_t from, to;
    dnnl_pooling_v2_desc_t op;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    memcpy(dims + 2, w->out, (size_t)w->n * sizeof *dims);
    VN_TRY(step_output(c, 0, x->dtype, x->rank, dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, x->dtype, x->rank, x->dims, &from));
    VN_TRY(dnn_desc(c, x->dtype, x->rank, dims, &to));
    VN_TRY(dnn_check(c,
                     dnnl_pooling_v2_forward_desc_init(&op, dnnl_forward_inference, algorithm, &from, &to, w->stride, w->kernel,
                                                       w->dilation, w->before, w->after),
                     "pooling"));
    return dnn_run(d, c, &op, NULL, 2, (const dnn_arg_t[]){{DNNL_ARG_SRC, &from, x->data}, {DNNL_ARG_DST, &to, y->data}});
}

static vn_status_t pool(const dnn_t *d, step_call_t *c, int average) {
    const vn_node_t *node = c->step->node;
    int n;
    int64_t count = 0;
    window_t w;
    VN_TRY(spatial(c, &n));
    VN_TRY(dnn_one_output(c));
    const int64_t *kernel = vn_node_ints(node, "kernel_shape", &count);
    if (!kernel || count != n) return vn_fail(c->err, VN_ERR_PARSE, "%s (%s): kernel_shape", node->path, node->op);
    VN_TRY(window_of(c, n, c->in[0]->dims + 2, kernel, false, &w));
    const bool pads_count = average && vn_node_int(node, "count_include_pad", 0) != 0;
    if (pads_count && w.rounded_up) return step_refuse(node, c->err, "ceil_mode with count_include_pad");
    return pool_with(d, c,
                     !average     ? dnnl_pooling_max
                     : pads_count ? dnnl_pooling_avg_include_padding
                                  : dnnl_pooling_avg_exclude_padding,
                     &w);
}

static vn_status_t global_pool(const dnn_t *d, step_call_t *c, int average) {
    int n;
    window_t w = {0};
    VN_TRY(spatial(c, &n));
    if (c->in[0]->count == 0) return step_refuse(c->step->node, c->err, "an empty window");
    w.n = n;
    for (int i = 0; i < n; ++i) {
        w.kernel[i] = c->in[0]->dims[2 + i];
        w.stride[i] = w.out[i] = 1;
    }
    return pool_with(d, c, average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max, &w);
}

/* ---- resampling: coordinates of half pixels, by the quotient of the lengths ---- */

static vn_status_t lengths(const step_call_t *c, int64_t *dims) {
    const vn_node_t *node = c->step->node;
    const vn_tensor_t *x = c->in[0];
    const bool sizes = dnn_given(c, 3) && c->in[3]->count > 0;
    const vn_tensor_t *given = sizes ? c->in[3] : dnn_given(c, 2) ? c->in[2] : NULL;
    if (!given || given->count != x->rank) return step_refuse(node, c->err, "scales or sizes of some axes only");
    for (int i = 0; i < x->rank; ++i) {
        const double v = vn_tensor_get_f64(given, i), length = sizes ? v : v * (double)x->dims[i];
        if (length != floor(length) || !(length >= 0 && length < 0x1p31))
            return step_refuse(node, c->err, "a length that is no integer: the primitive goes by lengths");
        dims[i] = (int64_t)length;
    }
    if (dims[0] != x->dims[0] || dims[1] != x->dims[1]) return step_refuse(node, c->err, "resizing of batch or channels");
    return VN_OK;
}

static vn_status_t resize(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    const vn_node_t *node = c->step->node;
    int n;
    int64_t dims[VN_MAX_RANK];
    vn_tensor_t *y;
    dnnl_memory_desc_t from, to;
    dnnl_resampling_desc_t op;
    VN_TRY(spatial(c, &n));
    if (c->step->opset < 11 || strcmp(vn_node_string(node, "mode", "nearest"), "linear") != 0)
        return step_refuse(node, c->err, "another mode than linear of opset 11");
    if (strcmp(vn_node_string(node, "coordinate_transformation_mode", "half_pixel"), "half_pixel") != 0)
        return step_refuse(node, c->err, "another coordinate_transformation_mode than half_pixel");
    if (vn_node_int(node, "antialias", 0) || vn_node_int(node, "exclude_outside", 0) || vn_node_attr(node, "axes") ||
        strcmp(vn_node_string(node, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return step_refuse(node, c->err, "antialias, exclude_outside, axes or keep_aspect_ratio_policy");
    VN_TRY(lengths(c, dims));
    VN_TRY(step_output(c, 0, c->in[0]->dtype, c->in[0]->rank, dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, y->dtype, y->rank, c->in[0]->dims, &from));
    VN_TRY(dnn_desc(c, y->dtype, y->rank, dims, &to));
    VN_TRY(dnn_check(c, dnnl_resampling_forward_desc_init(&op, dnnl_forward_inference, dnnl_resampling_linear, NULL, &from, &to),
                     "resampling"));
    return dnn_run(d, c, &op, NULL, 2, (const dnn_arg_t[]){{DNNL_ARG_SRC, &from, c->in[0]->data}, {DNNL_ARG_DST, &to, y->data}});
}

/* ---- normalisations with given statistics, or over neighbouring channels ---- */

static vn_status_t batch_norm(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    const vn_node_t *node = c->step->node;
    VN_TRY(dnn_one_output(c));
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    for (int k = 1; k < 5; ++k) VN_TRY(dnn_need(c, k, VN_F32));
    if (vn_node_int(node, "training_mode", 0)) return step_refuse(node, c->err, "training_mode");
    const vn_tensor_t *x = c->in[0];
    if (x->rank < 2 || c->step->opset < 9) return step_refuse(node, c->err, "rank %d or opset %lld", x->rank, (long long)c->step->opset);
    vn_tensor_t *y;
    dnnl_memory_desc_t md, each;
    dnnl_batch_normalization_desc_t op;
    VN_TRY(step_output(c, 0, x->dtype, x->rank, x->dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, x->dtype, x->rank, x->dims, &md));
    VN_TRY(dnn_desc(c, VN_F32, 1, &x->dims[1], &each));
    const unsigned flags = (unsigned)dnnl_use_global_stats | (unsigned)dnnl_use_scale | (unsigned)dnnl_use_shift;
    const float epsilon = (float)vn_node_float(node, "epsilon", 1e-5F);
    VN_TRY(
        dnn_check(c, dnnl_batch_normalization_forward_desc_init(&op, dnnl_forward_inference, &md, epsilon, flags), "batch normalisation"));
    const dnn_arg_t args[] = {
        {DNNL_ARG_SRC, &md, x->data},           {DNNL_ARG_SCALE, &each, c->in[1]->data},    {DNNL_ARG_SHIFT, &each, c->in[2]->data},
        {DNNL_ARG_MEAN, &each, c->in[3]->data}, {DNNL_ARG_VARIANCE, &each, c->in[4]->data}, {DNNL_ARG_DST, &md, y->data}};
    return dnn_run(d, c, &op, NULL, 6, args);
}

static vn_status_t lrn(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    const vn_node_t *node = c->step->node;
    int n;
    vn_tensor_t *y;
    dnnl_memory_desc_t md;
    dnnl_lrn_desc_t op;
    VN_TRY(spatial(c, &n));
    const int64_t size = vn_node_int(node, "size", 0);
    if (size < 1 || size % 2 == 0) return step_refuse(node, c->err, "an even size");
    VN_TRY(step_output(c, 0, c->in[0]->dtype, c->in[0]->rank, c->in[0]->dims, &y));
    if (y->count == 0) return VN_OK;
    VN_TRY(dnn_desc(c, y->dtype, y->rank, y->dims, &md));
    VN_TRY(dnn_check(c,
                     dnnl_lrn_forward_desc_init(&op, dnnl_forward_inference, dnnl_lrn_across_channels, &md, size,
                                                (float)vn_node_float(node, "alpha", 1e-4F), (float)vn_node_float(node, "beta", 0.75F),
                                                (float)vn_node_float(node, "bias", 1)),
                     "local response normalisation"));
    return dnn_run(d, c, &op, NULL, 2, (const dnn_arg_t[]){{DNNL_ARG_SRC, &md, c->in[0]->data}, {DNNL_ARG_DST, &md, y->data}});
}

static const op_row_t rows[] = {
    {"", "MaxPool", pool, 0},
    {"", "AveragePool", pool, 1},
    {"", "GlobalMaxPool", global_pool, 0},
    {"", "GlobalAveragePool", global_pool, 1},
    {"", "Resize", resize, 0},
    {"", "BatchNormalization", batch_norm, 0},
    {"", "LRN", lrn, 0},
};
const op_table_t spatial_ops = {rows, sizeof rows / sizeof *rows};
