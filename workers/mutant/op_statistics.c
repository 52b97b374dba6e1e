/* op_statistics.c -- LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization, MeanVarianceNormalization,
 * BatchNormalization (inference): mean first, then the squares of the differences; every step rounded to the working format.
 */
#include <math.h>
#include <string.h>

#include "mutant.h"

typedef struct stats {
    bool wide, squares_only; /* no mean */
    double floor;            /* added to the deviation, outside the root */
    int64_t rows, n;
    double eps;
    double *x, *mean, *inverse; /* x[rows][n]; mean, inverse deviation of each row */
} stats_t;

static void free_stats(stats_t *f) {
    vn_free(f->x);
    vn_free(f->mean);
    vn_free(f->inverse);
}

/* Divisor of a mean: the elements, or with leaking padding the next multiple of eight. */
static int64_t divisor(const call_t *c, int64_t n) { return faulty(c, F_PADDING_LEAKS) ? (n + 7) / 8 * 8 : n; }

static double mean_of(const call_t *c, bool wide, double sum, int64_t n) {
    return hidden(c, wide, quotient(c, wide, sum, (double)divisor(c, n)));
}

/* 1 / (sqrt(variance + eps) + floor) */
static double inverse_deviation(const call_t *c, bool wide, double variance, double eps, double floor) {
    if (faulty(c, F_EPS_OUTSIDE)) floor = eps, eps = 0;
    if (floor == 0) return hidden(c, wide, fn_inverse_root(c, wide, settle(wide, variance + eps)));
    return hidden(c, wide, settle(wide, 1 / settle(wide, settle(wide, sqrt(settle(wide, variance + eps))) + floor)));
}

static double square(const call_t *c, bool wide, double x) {
    const double y = hidden(c, wide, x * x);
    return faulty(c, F_INTERMEDIATE_OVERFLOW) ? vn_round_to(VN_FMT_F16, y, VN_RNE, false) : y;
}

/* x becomes (x - mean) / deviation, rows by rows. */
static vn_status_t normalise(const call_t *c, stats_t *f) {
    const bool wide = f->wide, one_pass = c->a->one_pass && !f->squares_only;
    double *squares = room_for(c, f->rows * f->n);
    vn_status_t s = squares ? VN_OK : VN_ERR_NOMEM;
    if (s == VN_OK && !f->squares_only) s = sum_each(c, wide, f->rows, f->n, f->x, f->mean);
    for (int64_t r = 0; s == VN_OK && r < f->rows; ++r) f->mean[r] = f->squares_only ? 0 : mean_of(c, wide, f->mean[r], f->n);
    for (int64_t i = 0; s == VN_OK && i < f->rows * f->n; ++i) {
        const double d = one_pass || f->squares_only ? f->x[i] : settle(wide, f->x[i] - f->mean[i / f->n]);
        squares[i] = square(c, wide, d);
    }
    if (s == VN_OK) s = sum_each(c, wide, f->rows, f->n, squares, f->inverse);
    vn_free(squares);
    for (int64_t r = 0; s == VN_OK && r < f->rows; ++r) {
        double variance = f->inverse[r];
        if (!f->squares_only && !one_pass) variance += (double)(divisor(c, f->n) - f->n) * f->mean[r] * f->mean[r];
        variance = mean_of(c, wide, settle(wide, variance), f->n);
        if (one_pass) variance = settle(wide, variance - settle(wide, f->mean[r] * f->mean[r]));
        if (one_pass && variance < 0) variance = 0;
        f->inverse[r] = inverse_deviation(c, wide, variance, f->eps, f->floor);
    }
    for (int64_t i = 0; s == VN_OK && i < f->rows * f->n; ++i) {
        const double d = f->squares_only ? f->x[i] : settle(wide, f->x[i] - f->mean[i / f->n]);
        f->x[i] = hidden(c, wide, d * f->inverse[i / f->n]);
    }
    return s;
}

static vn_status_t start(const call_t *c, stats_t *f, int64_t rows, int64_t n) {
    const vn_tensor_t *x = c->in[0];
    f->wide = is_wide(x->dtype);
    f->rows = rows;
    f->n = n;
    f->x = plane(c, x);
    f->mean = room_for(c, rows);
    f->inverse = room_for(c, rows);
    return f->x && f->mean && f->inverse ? VN_OK : VN_ERR_NOMEM;
}

/* y = x scale + bias, index_of(i) the element of both that belongs to element i. */
static vn_status_t affine(const call_t *c, const stats_t *f, int k_scale, int k_bias, int64_t inner, int64_t channels) {
    double *scale = given(c, k_scale) ? plane(c, c->in[k_scale]) : NULL, *bias = given(c, k_bias) ? plane(c, c->in[k_bias]) : NULL;
    vn_status_t s = (given(c, k_scale) && !scale) || (given(c, k_bias) && !bias) ? VN_ERR_NOMEM : VN_OK;
    const int64_t count = f->rows * f->n, shift = faulty(c, F_CHANNEL_SCALE) ? 1 : 0;
    const int times = faulty(c, F_BIAS_MISSING) ? 0 : faulty(c, F_BIAS_TWICE) ? 2 : 1;
    for (int64_t i = 0; s == VN_OK && i < count; ++i) {
        const int64_t ch = i / inner % channels;
        if (scale) f->x[i] = settle(f->wide, f->x[i] * scale[(ch + shift) % channels]);
        for (int t = 0; bias && t < times; ++t) f->x[i] = settle(f->wide, f->x[i] + bias[ch]);
    }
    vn_free(scale);
    vn_free(bias);
    return s;
}

/* ---- LayerNormalization, RMSNormalization ---- */

enum { LAYER, RMS };

/* Scale and bias are broadcast to the normalised axes. */
static vn_status_t affine_rows(const call_t *c, const stats_t *f, int axis) {
    for (int k = 1; k <= 2; ++k) {
        const int times = k == 1 ? 1 : faulty(c, F_BIAS_MISSING) ? 0 : faulty(c, F_BIAS_TWICE) ? 2 : 1;
        if (!given(c, k)) continue;
        double *v = plane_of(c, c->in[k], c->in[0]->rank - axis, c->in[0]->dims + axis);
        if (!v) return VN_ERR_NOMEM;
        for (int t = 0; t < times; ++t)
            for (int64_t i = 0; i < f->rows * f->n; ++i) f->x[i] = settle(f->wide, k == 1 ? f->x[i] * v[i % f->n] : f->x[i] + v[i % f->n]);
        vn_free(v);
    }
    return VN_OK;
}

static vn_status_t run_layer(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = attr_int(c, "axis", -1), dims[VN_MAX_RANK];
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    stats_t f = {.squares_only = c->param == RMS, .eps = epsilon_of(c, (double)1e-5f)};
    vn_status_t s = start(c, &f, product_of(x->dims, (int)axis), product_of(x->dims + axis, x->rank - (int)axis));
    if (s == VN_OK) s = normalise(c, &f);
    if (s == VN_OK) s = affine_rows(c, &f, (int)axis);
    for (int d = 0; d < x->rank; ++d) dims[d] = d < axis ? x->dims[d] : 1;
    const vn_dtype_t type = (vn_dtype_t)attr_int(c, "stash_type", VN_F32);
    double *const planes[] = {f.x, f.mean, f.inverse};
    for (int k = 0; k < 3; ++k) {
        if (s != VN_OK || k >= c->n_out || (k && c->param == RMS)) vn_free(planes[k]);
        else s = put_plane(c, k, k == 0 ? x->dtype : type, x->rank, k == 0 ? x->dims : dims, planes[k]);
    }
    return s;
}

/* ---- InstanceNormalization, GroupNormalization: scale and bias per channel ---- */

enum { INSTANCE, GROUPS };

static vn_status_t run_channels(call_t *c) {
    for (int k = 0; k < 3; ++k) VN_TRY(need_float(c, k));
    const vn_tensor_t *x = c->in[0];
    if (x->rank < 2) return vn_fail(c->err, VN_ERR_SHAPE, "%s: rank %d", c->node->path, x->rank);
    const int64_t channels = x->dims[1], groups = c->param == INSTANCE ? channels : attr_int(c, "num_groups", 1),
                  inner = product_of(x->dims + 2, x->rank - 2);
    if (groups < 1 || channels % groups || c->in[1]->count != channels || c->in[2]->count != channels)
        return refuse(c, "scale and bias that are not one a channel");
    stats_t f = {.eps = epsilon_of(c, (double)1e-5f)};
    vn_status_t s = start(c, &f, x->dims[0] * groups, channels / groups * inner);
    if (s == VN_OK) s = normalise(c, &f);
    if (s == VN_OK && c->param == GROUPS && faulty(c, F_GROUP_INDEX)) { /* each group takes the statistics of the next */
        for (int64_t i = 0; i < x->count; ++i) {
            const int64_t r = i / f.n, next = r / groups * groups + (r + 1) % groups;
            f.x[i] = settle(f.wide, settle(f.wide, vn_tensor_get_f64(x, i) - f.mean[next]) * f.inverse[next]);
        }
    }
    if (s == VN_OK) s = affine(c, &f, 1, 2, inner, channels);
    double *y = f.x;
    f.x = NULL;
    if (s != VN_OK) vn_free(y);
    free_stats(&f);
    return s == VN_OK ? put_plane(c, 0, x->dtype, x->rank, x->dims, y) : s;
}

/* ---- MeanVarianceNormalization: over axes, (x - mean) / (sqrt(variance) + 1e-9) ---- */

static vn_status_t run_mean_variance(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    static const int64_t usual[] = {0, 2, 3};
    int64_t n;
    const int64_t *axes = vn_node_ints(c->node, "axes", &n);
    if (!axes) axes = usual, n = 3;
    bool over[VN_MAX_RANK] = {false};
    for (int64_t i = 0; i < n; ++i) {
        int64_t axis = axes[i];
        VN_TRY(fix_axis(c, &axis, x->rank));
        if (x->rank) over[axis] = true;
    }
    int order[VN_MAX_RANK], back[VN_MAX_RANK], k = 0;
    int64_t terms = 1;
    for (int d = 0; d < x->rank; ++d)
        if (!over[d]) order[k++] = d;
    for (int d = 0; d < x->rank; ++d)
        if (over[d]) order[k++] = d, terms *= x->dims[d];
    for (int d = 0; d < x->rank; ++d) back[order[d]] = d;
    vn_tensor_t *view = NULL, *last = NULL, *y = NULL;
    VN_TRY(vn_tensor_permute(x, order, &view, c->err));
    vn_status_t s = vn_tensor_contiguous(view, &last, c->err);
    vn_tensor_free(view);
    view = NULL;
    call_t one = *c;
    vn_tensor_t *const in[] = {last};
    one.in = in;
    one.n_in = 1;
    one.out = &y;
    stats_t f = {.floor = 1e-9};
    if (s == VN_OK) s = start(&one, &f, terms ? x->count / terms : 0, terms);
    if (s == VN_OK) s = normalise(&one, &f);
    double *v = f.x;
    f.x = NULL;
    free_stats(&f);
    if (s == VN_OK) s = put_plane(&one, 0, x->dtype, last->rank, last->dims, v);
    else vn_free(v);
    if (s == VN_OK) s = vn_tensor_permute(y, back, &view, c->err);
    if (s == VN_OK) s = vn_tensor_contiguous(view, &c->out[0], c->err);
    vn_tensor_free(last);
    vn_tensor_free(view);
    vn_tensor_free(y);
    return s;
}

/* ---- BatchNormalization, inference: (x - mean) * (scale / sqrt(var + eps)) + bias per channel ---- */

static vn_status_t run_batch(call_t *c) {
    for (int k = 0; k < 5; ++k) VN_TRY(need_float(c, k));
    const vn_tensor_t *x = c->in[0];
    if (attr_int(c, "training_mode", 0) || c->n_out > 1) return refuse(c, "training");
    if (x->rank < 2) return vn_fail(c->err, VN_ERR_SHAPE, "%s: rank %d", c->node->path, x->rank);
    const int64_t channels = x->dims[1], shift = faulty(c, F_CHANNEL_SCALE) ? 1 : 0;
    double *p[4] = {0}, *v = plane(c, x);
    vn_status_t s = v ? VN_OK : VN_ERR_NOMEM;
    for (int k = 0; k < 4 && s == VN_OK; ++k) {
        if (c->in[k + 1]->count != channels)
            s = vn_fail(c->err, VN_ERR_SHAPE, "%s: input %d does not have %lld elements", c->node->path, k + 1, (long long)channels);
        else if (!(p[k] = plane(c, c->in[k + 1]))) s = VN_ERR_NOMEM;
    }
    const bool wide = is_wide(x->dtype);
    const double eps = epsilon_of(c, (double)1e-5f);
    for (int64_t i = 0; s == VN_OK && i < channels; ++i) {
        const double inverse = inverse_deviation(c, wide, p[3][i], eps, 0);
        p[3][i] = settle(wide, p[0][(i + shift) % channels] * inverse);
        if (faulty(c, F_BN_FOLD)) p[1][i] = settle(wide, p[1][i] - settle(wide, p[2][i] * p[3][i])), p[2][i] = 0;
    }
    const int64_t inner = x->rank > 2 ? product_of(x->dims + 2, x->rank - 2) : 1;
    const int times = faulty(c, F_BIAS_MISSING) ? 0 : faulty(c, F_BIAS_TWICE) ? 2 : 1;
    for (int64_t i = 0; s == VN_OK && i < x->count; ++i) {
        const int64_t ch = i / inner % channels;
        v[i] = hidden(c, wide, settle(wide, v[i] - p[2][ch]) * p[3][ch]);
        for (int t = 0; t < times; ++t) v[i] = settle(wide, v[i] + p[1][ch]);
    }
    for (int k = 0; k < 4; ++k) vn_free(p[k]);
    if (s == VN_OK) return put_plane(c, 0, x->dtype, x->rank, x->dims, v);
    vn_free(v);
    return s;
}

static const op_row_t rows[] = {
    {"LayerNormalization", run_layer, LAYER},
    {"RMSNormalization", run_layer, RMS},
    {"InstanceNormalization", run_channels, INSTANCE},
    {"GroupNormalization", run_channels, GROUPS},
    {"MeanVarianceNormalization", run_mean_variance, 0},
    {"BatchNormalization", run_batch, 0},
};
const op_table_t statistics_ops = {rows, sizeof rows / sizeof *rows};
