/* op_ms_qreduce.c -- operators that reduce 8-bit codes along axes: QLinearSoftmax, QLinearReduceMean.
 *
 * Claim MS-6  QLinearSoftmax: p as Softmax of x = (code - zx) sx, E as SOFTMAX-1 with u|x| of uncertainty (the dequantised operand is rounded; a
 *             table of exponentials is at least as good). Window E/sy + g(3) (|p/sy| + |zy|).
 * Claim MS-7  QLinearReduceMean: v = mean(x - zx) sx / sy; kernels dequantise, add and requantise in any order, zero points inside or outside the
 *             sum: window g(n + 5) sx/sy mean(|x - zx| + |x| + |zx|) + u (|v| + |zy|).
 */
#include <math.h>
#include <string.h>

#include "oracle/expsum.h"
#include "oracle/ms.h"
#include "oracle/require.h"

enum { IN, IN_SCALE, IN_ZERO, OUT_SCALE, OUT_ZERO };

static vn_status_t parameters(vn_eval_t *e, vn_codes_t *x, vn_codes_t *y) {
    VN_TRY(vn_require(e, IN + 1));
    VN_TRY(vn_ms_codes(e, IN, IN_SCALE, IN_ZERO, x));
    return vn_ms_codes(e, -1, OUT_SCALE, OUT_ZERO, y);
}

/* ---- QLinearSoftmax ---- */

static vn_status_t softmax_axes(vn_eval_t *e, bool *along) {
    const int rank = e->in[IN].t->rank;
    if (!vn_node_attr(e->node, "opset")) return vn_eval_fail(e, VN_ERR_USAGE, "attribute opset is missing");
    const bool flat = vn_node_int(e->node, "opset", 13) < 13; /* all dimensions from the axis on are one row */
    int axis;
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", -1), rank, &axis));
    for (int d = 0; d < rank; ++d) along[d] = flat ? d >= axis : d == axis;
    return VN_OK;
}

typedef struct softmax {
    vn_rows_t shape;
    vn_codes_t x, y;
    double *row, *err, *weight, *wrong;
    vn_exp_model_t model;
    vn_coded_t out;
} softmax_t;

/* Offset of term k of the row that begins at `base`. */
static int64_t term_at(const vn_rows_t *s, int64_t base, int64_t k) {
    for (int d = s->n_inner - 1; d >= 0; --d) {
        base += k % s->inner_dim[d] * s->inner_step[d];
        k /= s->inner_dim[d];
    }
    return base;
}

static void softmax_row(const vn_eval_t *e, softmax_t *j, int64_t r) {
    const int64_t base = vn_rows_base(&j->shape, r), n = j->shape.n;
    const double u = vn_u(e), sy = j->y.scale;
    for (int64_t k = 0; k < n; ++k) {
        j->row[k] = (j->x.code[term_at(&j->shape, base, k)] - j->x.zero) * j->x.scale;
        j->err[k] = u * fabs(j->row[k]);
    }
    vn_exp_row_t row = vn_exp_row(n, j->row, j->err, j->weight);
    if (row.regular) vn_exp_wrong(&j->model, n, j->row, j->err, j->weight, &row, j->wrong);
    for (int64_t k = 0; k < n; ++k) {
        const int64_t at = term_at(&j->shape, base, k);
        const double p = row.regular ? j->weight[k] / row.total.hi : NAN;
        const double b = p * ((1 + j->wrong[k]) * (1 + u) * (1 + u) / (1 - row.spread) - 1) + 2 * vn_tau(e);
        const bool says = row.regular && row.spread < 1 && b < 1;
        vn_ms_put(&j->out, at, p / sy, says ? b / fabs(sy) + vn_gamma(3, u) * (fabs(p / sy) + fabs(j->y.zero)) : INFINITY);
    }
}

vn_status_t vn_eval_ms_qlinear_softmax(vn_eval_t *e) {
    softmax_t j = {.model = vn_exp_model(e)};
    bool along[VN_MAX_RANK];
    VN_TRY(parameters(e, &j.x, &j.y));
    VN_TRY(softmax_axes(e, along));
    vn_rows_plan(j.x.t->rank, j.x.t->dims, along, &j.shape);
    VN_TRY(vn_ms_out(e, 0, j.x.t->dtype, j.y.zero, j.x.t->rank, j.x.t->dims, &j.out));
    const size_t n = (size_t)j.shape.n + 1;
    double *work = vn_alloc(n, 4 * sizeof *work);
    vn_status_t s = work ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for rows of %lld codes", (long long)j.shape.n);
    if (s == VN_OK) {
        j.row = work;
        j.err = work + n;
        j.weight = work + 2 * n;
        j.wrong = work + 3 * n;
        for (int64_t r = 0; r < j.shape.rows; ++r) softmax_row(e, &j, r);
        s = vn_ms_done(e, &j.out);
    }
    e->out[0].terms = j.shape.n;
    vn_free(work);
    return s;
}

vn_status_t vn_infer_ms_qlinear_softmax(vn_eval_t *e) { return vn_infer_same(e); }

/* ---- QLinearReduceMean ---- */

static vn_status_t mean_shape(vn_eval_t *e, bool *along, int *rank, int64_t *dims) {
    const vn_tensor_t *x = e->in[IN].t;
    int64_t n = 0;
    const int64_t *axes = vn_node_ints(e->node, "axes", &n);
    const bool keep = vn_node_int(e->node, "keepdims", 1) != 0;
    for (int d = 0; d < x->rank; ++d) along[d] = n == 0;
    for (int64_t i = 0; i < n; ++i) {
        int axis;
        VN_TRY(vn_eval_axis(e, axes[i], x->rank, &axis));
        along[axis] = true;
    }
    *rank = 0;
    for (int d = 0; d < x->rank; ++d)
        if (!along[d] || keep) dims[(*rank)++] = along[d] ? 1 : x->dims[d];
    return VN_OK;
}

vn_status_t vn_eval_ms_qlinear_reduce_mean(vn_eval_t *e) {
    vn_codes_t x, y;
    vn_coded_t out;
    bool along[VN_MAX_RANK];
    int rank;
    int64_t dims[VN_MAX_RANK];
    vn_rows_t shape;
    VN_TRY(parameters(e, &x, &y));
    VN_TRY(mean_shape(e, along, &rank, dims));
    vn_rows_plan(x.t->rank, x.t->dims, along, &shape);
    VN_TRY(vn_ms_out(e, 0, x.t->dtype, y.zero, rank, dims, &out));
    const double n = (double)shape.n, u = vn_u(e), ratio = x.scale / y.scale;
    for (int64_t r = 0; r < shape.rows; ++r) {
        const int64_t base = vn_rows_base(&shape, r);
        double sum = 0, size = 0;
        for (int64_t k = 0; k < shape.n; ++k) {
            const double code = x.code[term_at(&shape, base, k)];
            sum += code - x.zero; /* exact: integers */
            size += fabs(code - x.zero) + fabs(code) + fabs(x.zero);
        }
        const double v = sum * ratio / n;
        vn_ms_put(&out, r, v, vn_gamma(n + 5, u) * fabs(ratio) * size / n + u * (fabs(v) + fabs(y.zero)));
    }
    e->out[0].terms = shape.n;
    return vn_ms_done(e, &out);
}

vn_status_t vn_infer_ms_qlinear_reduce_mean(vn_eval_t *e) {
    bool along[VN_MAX_RANK];
    int rank;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(mean_shape(e, along, &rank, dims));
    e->out[0].dtype = e->in[IN].t->dtype;
    e->out[0].rank = rank;
    memcpy(e->out[0].dims, dims, (size_t)rank * sizeof *dims);
    return VN_OK;
}
