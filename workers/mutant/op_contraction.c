/* op_contraction.c -- MatMul, Gemm, Conv: products of matrices by sums.c, biases added in the working format afterwards. */
#include <string.h>

#include "mutant.h"
#include "windows.h"

/* Operand k as a rounded plane. */
static double *operand(const call_t *c, const vn_tensor_t *t) {
    double *v = plane(c, t);
    if (v) round_operands(c, v, t->count);
    return v;
}

/* ---- MatMul ---- */

typedef struct matmul_form {
    int rank;                  /* of the batch */
    int64_t dims[VN_MAX_RANK]; /* batch of the result */
    int64_t m, k, n;
    vn_tensor_t *a, *b; /* broadcast over the batch */
} matmul_form_t;

/* [k] counts as [1,k] on the left and [k,1] on the right. */
static vn_status_t as_matrix(const call_t *c, vn_tensor_t *t, bool left, vn_tensor_t **out) {
    if (t->rank == 0) return vn_fail(c->err, VN_ERR_SHAPE, "%s: a scalar operand", c->node->path);
    if (t->rank > 1) {
        *out = vn_tensor_retain(t);
        return VN_OK;
    }
    return vn_tensor_reshape(t, 2, left ? (int64_t[]){1, t->dims[0]} : (int64_t[]){t->dims[0], 1}, out, c->err);
}

static vn_status_t spread(const call_t *c, vn_tensor_t *t, const matmul_form_t *f, vn_tensor_t **out) {
    int64_t dims[VN_MAX_RANK];
    vn_tensor_t *view;
    memcpy(dims, f->dims, (size_t)f->rank * sizeof *dims);
    dims[f->rank] = t->dims[t->rank - 2];
    dims[f->rank + 1] = t->dims[t->rank - 1];
    VN_TRY(vn_tensor_broadcast(t, f->rank + 2, dims, &view, c->err));
    vn_status_t s = vn_tensor_contiguous(view, out, c->err);
    vn_tensor_free(view);
    return s;
}

static vn_status_t match(const call_t *c, vn_tensor_t *a, vn_tensor_t *b, matmul_form_t *f) {
    if (a->dims[a->rank - 1] != b->dims[b->rank - 2])
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: inner dimensions %lld and %lld differ", c->node->path, (long long)a->dims[a->rank - 1],
                       (long long)b->dims[b->rank - 2]);
    VN_TRY(vn_broadcast_shape(a->rank - 2, a->dims, b->rank - 2, b->dims, &f->rank, f->dims, c->err));
    f->m = a->dims[a->rank - 2];
    f->k = a->dims[a->rank - 1];
    f->n = b->dims[b->rank - 1];
    VN_TRY(spread(c, a, f, &f->a));
    return spread(c, b, f, &f->b);
}

static vn_status_t multiply(call_t *c, const matmul_form_t *f, int rank, const int64_t *dims) {
    const bool wide = is_wide(c->in[0]->dtype);
    const int64_t batch = product_of(f->dims, f->rank);
    double *a = operand(c, f->a), *b = operand(c, f->b), *y = vn_alloc((size_t)product_of(dims, rank), sizeof *y);
    vn_status_t s = a && b && y ? VN_OK : no_memory(c);
    for (int64_t i = 0; i < batch && s == VN_OK; ++i)
        s = contract(c, wide, f->m, f->k, f->n, a + i * f->m * f->k, b + i * f->k * f->n, y + i * f->m * f->n);
    vn_free(a);
    vn_free(b);
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, rank, dims, y);
    vn_free(y);
    return s;
}

static vn_status_t run_matmul(call_t *c) {
    VN_TRY(need_float(c, 0));
    VN_TRY(need_float(c, 1));
    matmul_form_t f = {0};
    vn_tensor_t *a = NULL, *b = NULL;
    vn_status_t s = as_matrix(c, c->in[0], true, &a);
    if (s == VN_OK) s = as_matrix(c, c->in[1], false, &b);
    if (s == VN_OK) s = match(c, a, b, &f);
    int64_t dims[VN_MAX_RANK];
    int rank = f.rank;
    memcpy(dims, f.dims, sizeof dims);
    if (c->in[0]->rank > 1) dims[rank++] = f.m;
    if (c->in[1]->rank > 1) dims[rank++] = f.n;
    if (s == VN_OK) s = multiply(c, &f, rank, dims);
    vn_tensor_free(a);
    vn_tensor_free(b);
    vn_tensor_free(f.a);
    vn_tensor_free(f.b);
    return s;
}

/* ---- Gemm: alpha (A B) + beta C, each step rounded to the working format ---- */

static vn_status_t oriented(const call_t *c, vn_tensor_t *t, bool transpose, vn_tensor_t **out) {
    if (t->rank != 2) return vn_fail(c->err, VN_ERR_SHAPE, "%s: operands must have rank 2", c->node->path);
    if (!transpose) {
        *out = vn_tensor_retain(t);
        return VN_OK;
    }
    vn_tensor_t *view;
    VN_TRY(vn_tensor_permute(t, (int[]){1, 0}, &view, c->err));
    vn_status_t s = vn_tensor_contiguous(view, out, c->err);
    vn_tensor_free(view);
    return s;
}

static vn_status_t add_scaled(call_t *c, bool wide, const int64_t *dims, double *y) {
    const double alpha = vn_node_float(c->node, "alpha", 1), beta = vn_node_float(c->node, "beta", 1);
    const int64_t n = dims[0] * dims[1];
    for (int64_t i = 0; i < n; ++i) y[i] = settle(wide, alpha * y[i]);
    if (c->n_in < 3 || !c->in[2]) return VN_OK;
    vn_tensor_t *view;
    VN_TRY(vn_tensor_broadcast(c->in[2], 2, dims, &view, c->err));
    double *z = plane(c, view);
    vn_tensor_free(view);
    if (!z) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < n; ++i) y[i] = settle(wide, y[i] + settle(wide, beta * z[i]));
    vn_free(z);
    return VN_OK;
}

static vn_status_t run_gemm(call_t *c) {
    VN_TRY(need_float(c, 0));
    VN_TRY(need_float(c, 1));
    const bool wide = is_wide(c->in[0]->dtype);
    vn_tensor_t *a = NULL, *b = NULL;
    vn_status_t s = oriented(c, c->in[0], vn_node_int(c->node, "transA", 0) != 0, &a);
    if (s == VN_OK) s = oriented(c, c->in[1], vn_node_int(c->node, "transB", 0) != 0, &b);
    if (s == VN_OK && a->dims[1] != b->dims[0]) s = vn_fail(c->err, VN_ERR_SHAPE, "%s: inner dimensions differ", c->node->path);
    double *pa = NULL, *pb = NULL, *y = NULL;
    if (s == VN_OK) {
        pa = operand(c, a);
        pb = operand(c, b);
        y = vn_alloc((size_t)(a->dims[0] * b->dims[1]), sizeof *y);
        if (!pa || !pb || !y) s = no_memory(c);
    }
    const int64_t dims[2] = {s == VN_OK ? a->dims[0] : 0, s == VN_OK ? b->dims[1] : 0};
    if (s == VN_OK) s = contract(c, wide, dims[0], a->dims[1], dims[1], pa, pb, y);
    if (s == VN_OK) s = add_scaled(c, wide, dims, y);
    vn_free(pa);
    vn_free(pb);
    vn_tensor_free(a);
    vn_tensor_free(b);
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, 2, dims, y);
    vn_free(y);
    return s;
}

/* ---- Conv: per image and group, W[out channels][channel, kernel] times columns of the padded image; padding is a term of value 0 ---- */

typedef struct conv_form {
    windows_t w;
    int64_t groups, in_per_group, out_per_group, patch, places; /* patch = channels of a group times kernel size */
} conv_form_t;

static void fill_columns(const conv_form_t *f, const int64_t *table, const double *image, double *columns) {
    const int64_t n = f->w.kernel_size * f->places;
    for (int64_t ch = 0; ch < f->in_per_group; ++ch, image += f->w.in_size, columns += n)
        for (int64_t i = 0; i < n; ++i) columns[i] = table[i] < 0 ? 0 : image[table[i]];
}

static vn_status_t conv_form(call_t *c, conv_form_t *f) {
    const vn_tensor_t *x = c->in[0], *w = c->in[1];
    if (x->rank < 3 || w->rank != x->rank) return vn_fail(c->err, VN_ERR_SHAPE, "%s: ranks %d and %d", c->node->path, x->rank, w->rank);
    VN_TRY(windows_read(c, x, w->dims + 2, &f->w));
    f->groups = vn_node_int(c->node, "group", 1);
    f->in_per_group = w->dims[1];
    if (f->groups < 1 || w->dims[0] % f->groups || x->dims[1] != f->in_per_group * f->groups)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: %lld channels, %lld groups, weights for %lld", c->node->path, (long long)x->dims[1],
                       (long long)f->groups, (long long)f->in_per_group);
    f->out_per_group = w->dims[0] / f->groups;
    f->patch = f->in_per_group * f->w.kernel_size;
    f->places = f->w.out_size;
    return VN_OK;
}

static vn_status_t convolve(const call_t *c, const conv_form_t *f, const double *x, const double *w, double *y) {
    const bool wide = is_wide(c->in[0]->dtype);
    size_t n;
    double *columns = vn_size_mul((size_t)f->patch, (size_t)f->places, &n) ? vn_alloc(n, sizeof *columns) : NULL;
    int64_t *table = windows_table(c, &f->w);
    vn_status_t s = columns && table ? VN_OK : no_memory(c);
    for (int64_t i = 0; i < c->in[0]->dims[0] * f->groups && s == VN_OK; ++i) {
        fill_columns(f, table, x + i * f->in_per_group * f->w.in_size, columns);
        s = contract(c, wide, f->out_per_group, f->patch, f->places, w + i % f->groups * f->out_per_group * f->patch, columns,
                     y + i * f->out_per_group * f->places);
    }
    vn_free(columns);
    vn_free(table);
    return s;
}

static vn_status_t add_bias(const call_t *c, int64_t channels, int64_t places, double *y) {
    if (c->n_in < 3 || !c->in[2]) return VN_OK;
    const bool wide = is_wide(c->in[0]->dtype);
    if (c->in[2]->count != channels)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: the bias does not have %lld elements", c->node->path, (long long)channels);
    double *b = plane(c, c->in[2]);
    if (!b) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < c->in[0]->dims[0] * channels; ++i)
        for (int64_t p = 0; p < places; ++p) y[i * places + p] = settle(wide, y[i * places + p] + b[i % channels]);
    vn_free(b);
    return VN_OK;
}

static vn_status_t run_conv(call_t *c) {
    VN_TRY(need_float(c, 0));
    VN_TRY(need_float(c, 1));
    conv_form_t f = {0};
    VN_TRY(conv_form(c, &f));
    int64_t dims[VN_MAX_RANK] = {c->in[0]->dims[0], c->in[1]->dims[0]};
    memcpy(dims + 2, f.w.out, (size_t)f.w.rank * sizeof *dims);
    double *x = operand(c, c->in[0]), *w = operand(c, c->in[1]), *y = vn_alloc((size_t)product_of(dims, f.w.rank + 2), sizeof *y);
    vn_status_t s = x && w && y ? convolve(c, &f, x, w, y) : no_memory(c);
    if (s == VN_OK) s = add_bias(c, dims[1], f.places, y);
    vn_free(x);
    vn_free(w);
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, f.w.rank + 2, dims, y);
    vn_free(y);
    return s;
}

static const op_row_t rows[] = {{"MatMul", run_matmul, 0}, {"Gemm", run_gemm, 0}, {"Conv", run_conv, 0}};
const op_table_t contraction_ops = {rows, sizeof rows / sizeof *rows};
