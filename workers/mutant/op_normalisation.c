/* op_normalisation.c -- Softmax, LogSoftmax, LayerNormalization, BatchNormalization (inference): every step rounded to the working format. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* x[rows][n] -> t[n][rows], the form in which sum_rows adds up. */
static void turn(const double *x, int64_t rows, int64_t n, double *t) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t k = 0; k < n; ++k) t[k * rows + r] = x[r * n + k];
}

/* sums[r] = sum of x[r][0..n) in the chosen order; `work` holds rows * n doubles. */
static vn_status_t row_sums(const call_t *c, bool wide, int64_t rows, int64_t n, const double *x, double *work, double *sums) {
    turn(x, rows, n, work);
    return sum_rows(c, wide, n, rows, work, sums);
}

/* ---- Softmax ---- */

static double exponential(bool wide, double x) { return wide ? exp(x) : (double)expf((float)x); }
static double logarithm(bool wide, double x) { return wide ? log(x) : (double)logf((float)x); }

static vn_status_t softmax_rows(const call_t *c, bool wide, int64_t rows, int64_t n, double *x) {
    double *e = vn_alloc((size_t)(rows * n), sizeof *e), *work = vn_alloc((size_t)(rows * n), sizeof *work),
           *sums = vn_alloc((size_t)rows, sizeof *sums);
    vn_status_t s = e && work && sums ? VN_OK : no_memory(c);
    for (int64_t r = 0; s == VN_OK && r < rows; ++r) {
        double top = -INFINITY;
        for (int64_t k = 0; k < n; ++k)
            if (x[r * n + k] > top) top = x[r * n + k];
        for (int64_t k = 0; k < n; ++k) {
            x[r * n + k] = settle(wide, x[r * n + k] - top);
            e[r * n + k] = exponential(wide, x[r * n + k]);
        }
    }
    if (s == VN_OK) s = row_sums(c, wide, rows, n, e, work, sums);
    for (int64_t i = 0; s == VN_OK && i < rows * n; ++i)
        x[i] = c->param ? settle(wide, x[i] - logarithm(wide, sums[i / n])) : settle(wide, e[i] / sums[i / n]);
    vn_free(e);
    vn_free(work);
    vn_free(sums);
    return s;
}

/* Before opset 13 the axes from `axis` on are one. */
static vn_status_t run_softmax(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = vn_node_int(c->node, "axis", c->opset < 13 ? 1 : -1);
    if (c->opset < 13 && axis == x->rank) axis = x->rank ? x->rank - 1 : 0;
    VN_TRY(fix_axis(c, &axis, x->rank));
    int order[VN_MAX_RANK], back[VN_MAX_RANK], n = 0;
    int64_t terms = 1;
    for (int d = 0; d < x->rank; ++d)
        if (c->opset < 13 || d != axis) order[n++] = d;
    if (c->opset >= 13 && x->rank) order[n++] = (int)axis;
    for (int d = 0; d < x->rank; ++d) back[order[d]] = d;
    if (c->opset < 13) terms = product_of(x->dims + axis, x->rank - (int)axis);
    else if (x->rank) terms = x->dims[axis];
    vn_tensor_t *last = NULL, *y = NULL, *view = NULL;
    VN_TRY(vn_tensor_permute(x, order, &last, c->err));
    double *v = plane(c, last);
    call_t one = *c;
    one.out = &y;
    vn_status_t s = v ? VN_OK : VN_ERR_NOMEM;
    if (s == VN_OK && x->count) s = softmax_rows(c, is_wide(x->dtype), x->count / terms, terms, v);
    if (s == VN_OK) s = put_plane(&one, 0, x->dtype, last->rank, last->dims, v);
    else vn_free(v);
    if (s == VN_OK) s = vn_tensor_permute(y, back, &view, c->err);
    if (s == VN_OK) s = vn_tensor_contiguous(view, &c->out[0], c->err);
    vn_tensor_free(last);
    vn_tensor_free(view);
    vn_tensor_free(y);
    return s;
}

/* ---- LayerNormalization: two passes, mean first ---- */

typedef struct layer_form {
    bool wide;
    int64_t rows, n;
    double *x, *work, *mean, *inverse;
} layer_form_t;

static vn_status_t normalise_rows(const call_t *c, layer_form_t *f) {
    const double eps = vn_node_float(c->node, "epsilon", (double)1e-5f);
    VN_TRY(row_sums(c, f->wide, f->rows, f->n, f->x, f->work, f->mean));
    for (int64_t r = 0; r < f->rows; ++r) f->mean[r] = settle(f->wide, f->mean[r] / (double)f->n);
    double *squares = vn_alloc((size_t)(f->rows * f->n), sizeof *squares);
    if (!squares) return no_memory(c);
    for (int64_t i = 0; i < f->rows * f->n; ++i) {
        f->x[i] = settle(f->wide, f->x[i] - f->mean[i / f->n]);
        squares[i] = settle(f->wide, f->x[i] * f->x[i]);
    }
    vn_status_t s = row_sums(c, f->wide, f->rows, f->n, squares, f->work, f->inverse);
    vn_free(squares);
    for (int64_t r = 0; s == VN_OK && r < f->rows; ++r) {
        const double variance = settle(f->wide, f->inverse[r] / (double)f->n);
        f->inverse[r] = settle(f->wide, 1 / settle(f->wide, sqrt(settle(f->wide, variance + eps))));
    }
    for (int64_t i = 0; s == VN_OK && i < f->rows * f->n; ++i) f->x[i] = settle(f->wide, f->x[i] * f->inverse[i / f->n]);
    return s;
}

/* Scale and bias are broadcast to the normalised axes. */
static vn_status_t affine_rows(const call_t *c, const layer_form_t *f, int axis) {
    for (int k = 1; k <= 2; ++k) {
        if (k >= c->n_in || !c->in[k]) continue;
        vn_tensor_t *view;
        VN_TRY(vn_tensor_broadcast(c->in[k], c->in[0]->rank - axis, c->in[0]->dims + axis, &view, c->err));
        double *v = plane(c, view);
        vn_tensor_free(view);
        if (!v) return VN_ERR_NOMEM;
        for (int64_t i = 0; i < f->rows * f->n; ++i) f->x[i] = settle(f->wide, k == 1 ? f->x[i] * v[i % f->n] : f->x[i] + v[i % f->n]);
        vn_free(v);
    }
    return VN_OK;
}

static vn_status_t run_layer_normalization(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = vn_node_int(c->node, "axis", -1), dims[VN_MAX_RANK];
    VN_TRY(fix_axis(c, &axis, x->rank));
    layer_form_t f = {
        .wide = is_wide(x->dtype), .rows = product_of(x->dims, (int)axis), .n = product_of(x->dims + axis, x->rank - (int)axis)};
    f.x = plane(c, x);
    f.work = vn_alloc((size_t)x->count, sizeof *f.work);
    f.mean = vn_alloc((size_t)f.rows, sizeof *f.mean);
    f.inverse = vn_alloc((size_t)f.rows, sizeof *f.inverse);
    vn_status_t s = f.x && f.work && f.mean && f.inverse ? VN_OK : no_memory(c);
    if (s == VN_OK) s = normalise_rows(c, &f);
    if (s == VN_OK) s = affine_rows(c, &f, (int)axis);
    for (int d = 0; d < x->rank; ++d) dims[d] = d < axis ? x->dims[d] : 1;
    const vn_dtype_t stats = (vn_dtype_t)vn_node_int(c->node, "stash_type", VN_F32);
    double *const planes[] = {f.x, f.mean, f.inverse};
    for (int k = 0; k < 3; ++k) {
        if (s != VN_OK || k >= c->n_out) vn_free(planes[k]);
        else s = put_plane(c, k, k == 0 ? x->dtype : stats, x->rank, k == 0 ? x->dims : dims, planes[k]);
    }
    vn_free(f.work);
    return s;
}

/* ---- BatchNormalization, inference: (x - mean) * (scale / sqrt(var + eps)) + bias per channel ---- */

static vn_status_t run_batch_normalization(call_t *c) {
    for (int k = 0; k < 5; ++k) VN_TRY(need_float(c, k));
    const vn_tensor_t *x = c->in[0];
    const int64_t channels = x->rank > 1 ? x->dims[1] : 1;
    if (vn_node_int(c->node, "training_mode", 0) != 0 || c->n_out > 1)
        return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s: BatchNormalization in training mode", c->node->path);
    double *p[4] = {0}, *v = plane(c, x); /* scale, bias, mean, variance */
    vn_status_t s = v ? VN_OK : VN_ERR_NOMEM;
    for (int k = 0; k < 4 && s == VN_OK; ++k) {
        if (c->in[k + 1]->count != channels)
            s = vn_fail(c->err, VN_ERR_SHAPE, "%s: input %d does not have %lld elements", c->node->path, k + 1, (long long)channels);
        else if (!(p[k] = plane(c, c->in[k + 1]))) s = VN_ERR_NOMEM;
    }
    const bool wide = is_wide(x->dtype);
    const double eps = vn_node_float(c->node, "epsilon", (double)1e-5f);
    for (int64_t i = 0; s == VN_OK && i < channels; ++i) {
        const double deviation = settle(wide, sqrt(settle(wide, settle(wide, p[3][i]) + eps)));
        p[3][i] = settle(wide, p[0][i] / deviation);
    }
    const int64_t inner = x->rank > 2 ? product_of(x->dims + 2, x->rank - 2) : 1;
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        const int64_t ch = i / inner % channels;
        v[i] = settle(wide, settle(wide, settle(wide, v[i] - p[2][ch]) * p[3][ch]) + p[1][ch]);
    }
    for (int k = 0; k < 4; ++k) vn_free(p[k]);
    if (s == VN_OK) return put_plane(c, 0, x->dtype, x->rank, x->dims, v);
    vn_free(v);
    return s;
}

static const op_row_t rows[] = {
    {"Softmax", run_softmax, 0},
    {"LogSoftmax", run_softmax, 1},
    {"LayerNormalization", run_layer_normalization, 0},
    {"BatchNormalization", run_batch_normalization, 0},
};
const op_table_t normalisation_ops = {rows, sizeof rows / sizeof *rows};
