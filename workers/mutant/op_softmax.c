/* op_softmax.c -- Softmax, LogSoftmax: every step rounded to the working format. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* Scores that padding lanes add to a denominator: zeros up to a multiple of eight. */
static double leak(const call_t *c, bool wide, int64_t n, double top) {
    return faulty(c, F_PADDING_LEAKS) ? (double)((8 - n % 8) % 8) * fn_exp(c, wide, -top) : 0;
}

static vn_status_t softmax_rows(const call_t *c, bool wide, int64_t rows, int64_t n, double *x) {
    double *e = room_for(c, rows * n), *sums = room_for(c, rows), *tops = room_for(c, rows);
    vn_status_t s = e && sums && tops ? VN_OK : VN_ERR_NOMEM;
    for (int64_t r = 0; s == VN_OK && r < rows; ++r) {
        double top = -INFINITY;
        for (int64_t k = 0; k < n; ++k)
            if (x[r * n + k] > top) top = x[r * n + k];
        tops[r] = c->a->no_max ? 0 : top;
        for (int64_t k = 0; k < n; ++k) e[r * n + k] = hidden(c, wide, fn_exp(c, wide, settle(wide, x[r * n + k] - tops[r])));
    }
    if (s == VN_OK) s = sum_each(c, wide, rows, n, e, sums);
    for (int64_t r = 0; s == VN_OK && r < rows; ++r) sums[r] = settle(wide, sums[r] + leak(c, wide, n, tops[r]));
    for (int64_t i = 0; s == VN_OK && i < rows * n; ++i) {
        const int64_t r = i / n;
        if (!c->param) x[i] = quotient(c, wide, e[i], sums[r]);
        else if (faulty(c, F_LSE_ROUNDED)) x[i] = settle(wide, x[i] - settle(wide, tops[r] + fn_log(wide, sums[r])));
        else x[i] = settle(wide, settle(wide, x[i] - tops[r]) - fn_log(wide, sums[r]));
    }
    vn_free(e);
    vn_free(sums);
    vn_free(tops);
    return s;
}

/* Before opset 13 the axes from `axis` on are one. */
static vn_status_t run_softmax(call_t *c) {
    VN_TRY(need_float(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = attr_int(c, "axis", c->opset < 13 ? 1 : -1);
    if (c->opset < 13 && axis == x->rank) axis = x->rank ? x->rank - 1 : 0;
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
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

static const op_row_t rows[] = {{"Softmax", run_softmax, 0}, {"LogSoftmax", run_softmax, 1}};
const op_table_t normalisation_ops = {rows, sizeof rows / sizeof *rows};
