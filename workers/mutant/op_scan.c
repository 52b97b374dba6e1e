/* op_scan.c -- CumSum: sequential, or in blocks of 128 whose sums are carried; integers wrap. */
#include "mutant.h"

/* The running sum's format: the accumulator option, else the working format. */
static double step(const call_t *c, bool wide, double x) {
    const rounding_choice_t r = c->a->accumulator;
    if (r.format == VN_FMT_NONE) return settle(wide, x);
    return vn_round_to(r.format, x, r.mode, false);
}

typedef struct line {
    int64_t n, stride, block; /* block: the sum starts anew after so many */
    bool reverse, exclusive, carry;
} line_t;

static void run_line(const call_t *c, const line_t *l, bool wide, const double *x, double *y) {
    double before = 0, sum = 0;
    for (int64_t i = 0; i < l->n; ++i) {
        const int64_t at = (l->reverse ? l->n - 1 - i : i) * l->stride;
        if (i && i % l->block == 0) {
            if (l->carry) before = step(c, wide, before + sum);
            sum = 0;
        }
        if (l->exclusive) y[at] = step(c, wide, before + sum);
        sum = step(c, wide, sum + x[at]);
        if (!l->exclusive) y[at] = step(c, wide, before + sum);
    }
}

static vn_status_t run_cumsum(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need(c, 1));
    const vn_tensor_t *x = c->in[0];
    if (c->in[1]->count != 1 || x->rank == 0) return refuse(c, "a scalar, or an axis that is not one number");
    int64_t axis = vn_tensor_get_i64(c->in[1], 0);
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    const int64_t n = x->dims[axis], inner = product_of(x->dims + axis + 1, x->rank - (int)axis - 1);
    const bool blocks = faulty(c, F_BLOCK_MERGE), wide = is_wide(x->dtype) || !vn_dtype_is_float(x->dtype);
    line_t l = {.n = n,
                .stride = inner,
                .reverse = attr_int(c, "reverse", 0) != 0,
                .exclusive = attr_int(c, "exclusive", 0) != 0,
                .carry = !blocks,
                .block = blocks                           ? (int64_t)fault_number(c, (double)((n + 1) / 2))
                         : c->a->association == BLOCKS128 ? 128
                                                          : n + 1};
    if (l.block < 1) return refuse(c, "blocks of this size");
    double *v = plane(c, x), *y = room_for(c, x->count);
    vn_status_t s = v && y ? VN_OK : VN_ERR_NOMEM;
    for (int64_t i = 0; s == VN_OK && n && i < x->count / n; ++i) {
        const int64_t base = i / inner * n * inner + i % inner;
        run_line(c, &l, wide, v + base, y + base);
    }
    vn_free(v);
    if (s == VN_OK) return put_plane(c, 0, x->dtype, x->rank, x->dims, y);
    vn_free(y);
    return s;
}

static const op_row_t rows[] = {{"CumSum", run_cumsum, 0}};
const op_table_t scan_ops = {rows, sizeof rows / sizeof *rows};
