/* op_contraction.c -- MatMul, Gemm: products of matrices by sums.c, biases added in the working format afterwards. */
#include <string.h>

#include "mutant.h"

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

/* Matrices [rows][columns] whose memory is taken for [columns][rows]. */
static vn_status_t read_by_columns(const call_t *c, int64_t batch, int64_t rows, int64_t columns, double *x) {
    double *old = room_for(c, rows * columns);
    if (!old) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < batch; ++i, x += rows * columns) {
        memcpy(old, x, (size_t)(rows * columns) * sizeof *old);
        for (int64_t e = 0; e < rows * columns; ++e) x[e] = old[e % columns * rows + e / columns];
    }
    vn_free(old);
    return VN_OK;
}

static vn_status_t multiply(call_t *c, const matmul_form_t *f, int rank, const int64_t *dims) {
    const bool wide = is_wide(c->in[0]->dtype);
    const int64_t batch = product_of(f->dims, f->rank);
    double *a = plane(c, f->a), *b = plane(c, f->b), *y = vn_alloc((size_t)product_of(dims, rank), sizeof *y);
    vn_status_t s = a && b && y ? VN_OK : no_memory(c);
    if (s == VN_OK && faulty(c, F_OPERAND_TRANSPOSED)) s = read_by_columns(c, batch, f->m, f->k, a);
    for (int64_t i = 0; i < batch && s == VN_OK; ++i)
        s = product(c, wide, f->m, f->k, f->n, a + i * f->m * f->k, b + i * f->k * f->n, y + i * f->m * f->n);
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

static vn_status_t oriented(const call_t *c, vn_tensor_t *t, const char *name, bool other_way, vn_tensor_t **out) {
    if (t->rank != 2) return vn_fail(c->err, VN_ERR_SHAPE, "%s: operands must have rank 2", c->node->path);
    const bool transpose = vn_node_int(c->node, name, 0) != 0;
    const int64_t dims[2] = {t->dims[1], t->dims[0]};
    if (other_way) { /* the memory read in the wrong order, the shape as it should be */
        if (transpose) return vn_tensor_reshape(t, 2, dims, out, c->err);
        vn_tensor_t *flat, *view;
        VN_TRY(vn_tensor_reshape(t, 2, dims, &flat, c->err));
        vn_status_t s = vn_tensor_permute(flat, (int[]){1, 0}, &view, c->err);
        vn_tensor_free(flat);
        if (s != VN_OK) return s;
        s = vn_tensor_contiguous(view, out, c->err);
        vn_tensor_free(view);
        return s;
    }
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
    const double alpha = attr_float(c, "alpha", 1), beta = attr_float(c, "beta", 1),
                 factor = faulty(c, F_BIAS_SCALE) ? fault_number(c, 0.5) : 1;
    const int64_t n = dims[0] * dims[1];
    for (int times = faulty(c, F_ALPHA_TWICE) ? 2 : 1; times > 0; --times)
        for (int64_t i = 0; i < n; ++i) y[i] = settle(wide, alpha * y[i]);
    if (!given(c, 2) || faulty(c, F_BIAS_MISSING)) return VN_OK;
    double *z = plane_of(c, c->in[2], 2, dims);
    if (!z) return VN_ERR_NOMEM;
    if (faulty(c, F_BROADCAST_AXIS))
        for (int64_t i = 0; i < n; ++i) z[i] = vn_tensor_get_f64(c->in[2], i / dims[1] % c->in[2]->count);
    for (int times = faulty(c, F_BIAS_TWICE) ? 2 : 1; times > 0; --times)
        for (int64_t i = 0; i < n; ++i) y[i] = settle(wide, y[i] + settle(wide, settle(wide, beta * z[i]) * factor));
    vn_free(z);
    return VN_OK;
}

static vn_status_t run_gemm(call_t *c) {
    VN_TRY(need_float(c, 0));
    VN_TRY(need_float(c, 1));
    const bool wide = is_wide(c->in[0]->dtype);
    vn_tensor_t *a = NULL, *b = NULL;
    vn_status_t s = oriented(c, c->in[0], "transA", ignored(c, "transA") || faulty(c, F_OPERAND_TRANSPOSED), &a);
    if (s == VN_OK) s = oriented(c, c->in[1], "transB", ignored(c, "transB"), &b);
    if (s == VN_OK && a->dims[1] != b->dims[0]) s = vn_fail(c->err, VN_ERR_SHAPE, "%s: inner dimensions differ", c->node->path);
    double *pa = NULL, *pb = NULL, *y = NULL;
    if (s == VN_OK) {
        pa = plane(c, a);
        pb = plane(c, b);
        y = vn_alloc((size_t)(a->dims[0] * b->dims[1]), sizeof *y);
        if (!pa || !pb || !y) s = no_memory(c);
    }
    const int64_t dims[2] = {s == VN_OK ? a->dims[0] : 0, s == VN_OK ? b->dims[1] : 0};
    if (s == VN_OK) s = product(c, wide, dims[0], a->dims[1], dims[1], pa, pb, y);
    if (s == VN_OK) s = add_scaled(c, wide, dims, y);
    vn_free(pa);
    vn_free(pb);
    vn_tensor_free(a);
    vn_tensor_free(b);
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, 2, dims, y);
    vn_free(y);
    return s;
}

static const op_row_t rows[] = {{"MatMul", run_matmul, 0}, {"Gemm", run_gemm, 0}};
const op_table_t contraction_ops = {rows, sizeof rows / sizeof *rows};
