/* op_order.c -- ArgMax, ArgMin, TopK: places of extremes. */
#include <math.h>
#include <stdlib.h>

#include "mutant.h"

enum { ARG_MAX, ARG_MIN };

static int64_t chunked(const call_t *c, int64_t at, int64_t n) {
    const int64_t chunk = (int64_t)fault_number(c, (double)((n + 1) / 2));
    return faulty(c, F_CHUNK_OFFSET) && chunk > 0 ? at % chunk : at;
}

static int64_t extreme(const call_t *c, const double *x, int64_t n, int64_t stride, bool last) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) {
        const double v = x[i * stride], b = x[best * stride];
        const bool nan = isnan(v) || isnan(b);
        if (nan && faulty(c, F_NAN_IGNORED)) {
            if (isnan(b) && !isnan(v)) best = i;
            continue;
        }
        if (nan ? isnan(v) && (!isnan(b) || last) : c->param == ARG_MAX ? v > b || (last && v == b) : v < b || (last && v == b)) best = i;
    }
    return best;
}

static vn_status_t run_arg(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = attr_int(c, "axis", 0), dims[VN_MAX_RANK];
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    const bool keep = vn_node_int(c->node, "keepdims", 1) != 0,
               last = (vn_node_int(c->node, "select_last_index", 0) != 0) != faulty(c, F_ARGMAX_LAST);
    int rank = 0;
    for (int d = 0; d < x->rank; ++d)
        if (d != axis || keep) dims[rank++] = d == axis ? 1 : x->dims[d];
    const int64_t n = x->rank ? x->dims[axis] : 1, inner = x->rank ? product_of(x->dims + axis + 1, x->rank - (int)axis - 1) : 1;
    if (n < 1) return refuse(c, "an empty axis");
    double *v = plane(c, x);
    int64_t *y = vn_alloc((size_t)(x->count / n), sizeof *y);
    vn_status_t s = v && y ? VN_OK : no_memory(c);
    for (int64_t i = 0; s == VN_OK && i < x->count / n; ++i)
        y[i] = chunked(c, extreme(c, v + i / inner * n * inner + i % inner, n, inner, last), n);
    vn_free(v);
    if (s == VN_OK) return put_ints(c, 0, VN_I64, rank, dims, y);
    vn_free(y);
    return s;
}

/* ---- TopK ---- */

typedef struct item {
    double value;
    int64_t at;
    bool largest, late; /* late: of equal values the one with the higher index first */
} item_t;

static int by_rank(const void *a, const void *b) {
    const item_t *x = a, *y = b;
    if (x->value != y->value) return (x->value > y->value) == x->largest ? -1 : 1;
    return (x->at > y->at) == x->late ? -1 : 1;
}

/* The best k of an axis; of repeated values only the first under duplicates-dropped, which leaves the last one found in the free places. */
static void best_of(const call_t *c, item_t *items, int64_t n, int64_t k) {
    qsort(items, (size_t)n, sizeof *items, by_rank);
    if (!faulty(c, F_DUPLICATES)) return;
    int64_t kept = 0;
    for (int64_t i = 0; i < n && kept < k; ++i)
        if (!kept || items[i].value != items[kept - 1].value) items[kept++] = items[i];
    for (; kept < k; ++kept) items[kept] = items[kept - 1];
}

static vn_status_t run_topk(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need(c, 1));
    const vn_tensor_t *x = c->in[0];
    int64_t axis = attr_int(c, "axis", -1), dims[VN_MAX_RANK];
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    const int64_t k = c->in[1]->count == 1 ? vn_tensor_get_i64(c->in[1], 0) : -1, n = x->rank ? x->dims[axis] : 0;
    if (k < 1 || k > n) return refuse(c, "this k");
    for (int d = 0; d < x->rank; ++d) dims[d] = d == axis ? k : x->dims[d];
    const int64_t inner = product_of(x->dims + axis + 1, x->rank - (int)axis - 1), lines = x->count / n;
    const bool largest = attr_int(c, "largest", 1) != 0;
    double *v = plane(c, x), *y = room_for(c, lines * k);
    int64_t *at = vn_alloc((size_t)(lines * k), sizeof *at);
    item_t *items = vn_alloc((size_t)n, sizeof *items);
    vn_status_t s = v && y && at && items ? VN_OK : no_memory(c);
    for (int64_t i = 0; s == VN_OK && i < lines; ++i) {
        const double *from = v + i / inner * n * inner + i % inner;
        for (int64_t e = 0; e < n; ++e) items[e] = (item_t){from[e * inner], e, largest, faulty(c, F_TIE_ORDER)};
        best_of(c, items, n, k);
        for (int64_t e = 0; e < k; ++e) {
            const int64_t to = i / inner * k * inner + e * inner + i % inner;
            y[to] = items[e].value;
            at[to] = chunked(c, items[e].at, n);
        }
    }
    vn_free(v);
    vn_free(items);
    if (s == VN_OK) s = put_plane(c, 0, x->dtype, x->rank, dims, y);
    else vn_free(y);
    if (s == VN_OK && c->n_out > 1) return put_ints(c, 1, VN_I64, x->rank, dims, at);
    vn_free(at);
    return s;
}

static const op_row_t rows[] = {{"ArgMax", run_arg, ARG_MAX}, {"ArgMin", run_arg, ARG_MIN}, {"TopK", run_topk, 0}};
const op_table_t order_ops = {rows, sizeof rows / sizeof *rows};
