/* op_product.c -- MatMul, Gemm, FusedMatMul: primitive matmul. */
#include <string.h>

#include "onednn.h"

/* dims of both operands with as many leading ones as the other has more. */
static void pad_left(const vn_tensor_t *t, int rank, int64_t *dims) {
    for (int i = 0; i < rank - t->rank; ++i) dims[i] = 1;
    memcpy(dims + (rank - t->rank), t->dims, (size_t)t->rank * sizeof *dims);
}

/* Row-major strides of dims, the last two exchanged where the matrix lies transposed. */
static void matrix_strides(int rank, int64_t *dims, bool transposed, int64_t *strides) {
    int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
        strides[i] = step;
        step *= dims[i] > 0 ? dims[i] : 1;
    }
    if (!transposed) return;
    const int64_t d = dims[rank - 1], s = strides[rank - 1];
    dims[rank - 1] = dims[rank - 2];
    dims[rank - 2] = d;
    strides[rank - 1] = strides[rank - 2];
    strides[rank - 2] = s;
}

static vn_status_t multiply(const dnn_t *d, step_call_t *c, bool trans_a, bool trans_b, const dnn_after_t *after, const vn_tensor_t *bias,
                            const dnnl_memory_desc_t *bias_md, vn_tensor_t *y, int rank, const int64_t *y_dims) {
    int64_t a_dims[VN_MAX_RANK], b_dims[VN_MAX_RANK], strides[VN_MAX_RANK];
    dnnl_memory_desc_t a, b, out;
    dnnl_matmul_desc_t op;
    pad_left(c->in[0], rank, a_dims);
    pad_left(c->in[1], rank, b_dims);
    matrix_strides(rank, a_dims, trans_a, strides);
    VN_TRY(dnn_desc_strided(c, y->dtype, rank, a_dims, strides, &a));
    matrix_strides(rank, b_dims, trans_b, strides);
    VN_TRY(dnn_desc_strided(c, y->dtype, rank, b_dims, strides, &b));
    VN_TRY(dnn_desc(c, y->dtype, rank, y_dims, &out));
    if (y->count == 0) return VN_OK;
    if (a_dims[rank - 1] == 0) return step_refuse(c->step->node, c->err, "a sum of no terms");
    const dnnl_memory_desc_t any_a = dnn_any(d, &a), any_b = dnn_any(d, &b);
    VN_TRY(dnn_check(c, dnnl_matmul_desc_init(&op, &any_a, &any_b, bias_md, &out), "matmul"));
    const dnn_arg_t args[] = {{DNNL_ARG_SRC, &a, c->in[0]->data},
                              {DNNL_ARG_WEIGHTS, &b, c->in[1]->data},
                              {DNNL_ARG_DST, &out, y->data},
                              {DNNL_ARG_BIAS, bias_md, bias ? bias->data : NULL}};
    return dnn_run(d, c, &op, after, bias ? 4 : 3, args);
}

/* ---- MatMul: vectors are matrices with a side of 1 ---- */

static vn_status_t as_matrix(const step_call_t *c, int k, vn_tensor_t **out) {
    const vn_tensor_t *t = c->in[k];
    if (t->rank == 0) return vn_fail(c->err, VN_ERR_SHAPE, "%s (MatMul): a scalar operand", c->step->node->path);
    if (t->rank > 1) {
        *out = vn_tensor_retain(c->in[k]);
        return VN_OK;
    }
    return vn_tensor_reshape(t, 2, k == 0 ? (int64_t[]){1, t->dims[0]} : (int64_t[]){t->dims[0], 1}, out, c->err);
}

static vn_status_t matmul_of(const dnn_t *d, step_call_t *c, vn_tensor_t *const *m, bool fused) {
    const vn_node_t *node = c->step->node;
    const vn_tensor_t *a = m[0], *b = m[1];
    const bool ta = fused && vn_node_int(node, "transA", 0), tb = fused && vn_node_int(node, "transB", 0);
    if (fused && (vn_node_int(node, "transBatchA", 0) || vn_node_int(node, "transBatchB", 0)))
        return step_refuse(node, c->err, "transBatchA, transBatchB");
    const int64_t k = a->dims[a->rank - (ta ? 2 : 1)], rows = a->dims[a->rank - (ta ? 1 : 2)], columns = b->dims[b->rank - (tb ? 2 : 1)];
    if (k != b->dims[b->rank - (tb ? 1 : 2)])
        return vn_fail(c->err, VN_ERR_SHAPE, "%s (%s): inner dimensions differ", node->path, node->op);
    int64_t dims[VN_MAX_RANK], full[VN_MAX_RANK];
    int batch, rank;
    VN_TRY(vn_broadcast_shape(a->rank - 2, a->dims, b->rank - 2, b->dims, &batch, dims, c->err));
    memcpy(full, dims, sizeof full);
    full[batch] = rows;
    full[batch + 1] = columns;
    rank = batch;
    if (c->in[0]->rank > 1) dims[rank++] = rows;
    if (c->in[1]->rank > 1) dims[rank++] = columns;
    vn_tensor_t *y;
    VN_TRY(step_output(c, 0, a->dtype, rank, dims, &y));
    step_call_t matrices = *c;
    matrices.in = m;
    const dnn_after_t after = {.scale = fused ? (float)vn_node_float(node, "alpha", 1) : 1};
    return multiply(d, &matrices, ta, tb, &after, NULL, NULL, y, batch + 2, full);
}

static vn_status_t matmul(const dnn_t *d, step_call_t *c, int fused) {
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    VN_TRY(dnn_need(c, 1, c->in[0]->dtype));
    vn_tensor_t *m[2] = {NULL, NULL};
    vn_status_t s = as_matrix(c, 0, &m[0]);
    if (s == VN_OK) s = as_matrix(c, 1, &m[1]);
    if (s == VN_OK) s = matmul_of(d, c, m, fused != 0);
    vn_tensor_free(m[0]);
    vn_tensor_free(m[1]);
    return s;
}

/* ---- Gemm: a bias along columns goes in as one where nothing is scaled; else C lies in the output and the product is added ---- */

static vn_status_t spread(step_call_t *c, const int64_t *dims, vn_tensor_t *y) {
    vn_tensor_t *view, *full;
    size_t bytes;
    VN_TRY(vn_tensor_broadcast(c->in[2], 2, dims, &view, c->err));
    const vn_status_t s = vn_tensor_contiguous(view, &full, c->err);
    vn_tensor_free(view);
    if (s != VN_OK) return s;
    if (vn_dtype_storage(full->dtype, full->count, &bytes)) memcpy(y->data, full->data, bytes);
    vn_tensor_free(full);
    return VN_OK;
}

static vn_status_t gemm(const dnn_t *d, step_call_t *c, int param) {
    (void)param;
    const vn_node_t *node = c->step->node;
    VN_TRY(dnn_need(c, 0, VN_UNDEFINED));
    const vn_dtype_t t = c->in[0]->dtype;
    VN_TRY(dnn_need(c, 1, t));
    const bool ta = vn_node_int(node, "transA", 0) != 0, tb = vn_node_int(node, "transB", 0) != 0, has_c = dnn_given(c, 2);
    const float beta = has_c ? (float)vn_node_float(node, "beta", 1) : 0;
    if (c->in[0]->rank != 2 || c->in[1]->rank != 2)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s (Gemm): operands must have rank 2", node->path);
    const int64_t dims[2] = {c->in[0]->dims[ta], c->in[1]->dims[!tb]};
    if (c->in[0]->dims[!ta] != c->in[1]->dims[tb]) return vn_fail(c->err, VN_ERR_SHAPE, "%s (Gemm): inner dimensions differ", node->path);
    if (has_c) VN_TRY(dnn_need(c, 2, t));
    vn_tensor_t *y;
    VN_TRY(step_output(c, 0, t, 2, dims, &y));
    dnn_after_t after = {.scale = (float)vn_node_float(node, "alpha", 1)};
    const vn_tensor_t *z = has_c ? c->in[2] : NULL;
    const bool along = z && z->rank >= 1 && z->rank <= 2 && z->dims[z->rank - 1] == dims[1] && z->count == dims[1];
    if (along && beta == 1 && after.scale == 1) {
        dnnl_memory_desc_t bias;
        VN_TRY(dnn_desc(c, t, 2, (int64_t[]){1, dims[1]}, &bias));
        return multiply(d, c, ta, tb, &after, z, &bias, y, 2, dims);
    }
    if (beta != 0) VN_TRY(spread(c, dims, y));
    after.sum = beta;
    return multiply(d, c, ta, tb, &after, NULL, NULL, y, 2, dims);
}

static const op_row_t rows[] = {{"", "MatMul", matmul, 0}, {"com.microsoft", "FusedMatMul", matmul, 1}, {"", "Gemm", gemm, 0}};
const op_table_t product_ops = {rows, sizeof rows / sizeof *rows};
