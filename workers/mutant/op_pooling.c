/* op_pooling.c -- AveragePool, MaxPool, GlobalAveragePool, GlobalMaxPool. Averages are sums in the chosen order, then one division. */
#include <math.h>
#include <string.h>

#include "mutant.h"
#include "windows.h"

enum { AVERAGE, MAXIMUM };

/* What an average divides by: elements inside the image, or with count_include_pad inside image and declared pads. */
static void count_terms(const windows_t *w, bool include_pad, bool whole, double *counts) {
    int64_t at[MAX_SPATIAL];
    for (int64_t p = 0; p < w->out_size; ++p) {
        unravel(p, w->rank, w->out, at);
        counts[p] = 1;
        if (whole) counts[p] = (double)w->kernel_size;
        for (int d = 0; d < w->rank && !whole; ++d) {
            int64_t n = 0;
            for (int64_t k = 0; k < w->kernel[d]; ++k) {
                const int64_t x = at[d] * w->strides[d] + k * w->dilations[d] - w->begin[d];
                n += include_pad ? x < w->in[d] + w->end[d] : x >= 0 && x < w->in[d];
            }
            counts[p] *= (double)n;
        }
    }
}

typedef struct pool_form {
    const windows_t *w;
    bool wide;
    int64_t *table;         /* of windows_table */
    double *counts, *terms; /* terms[kernel][place] of one channel; padding counts as 0, or as -Inf under a maximum */
} pool_form_t;

static vn_status_t pool_channel(const call_t *c, const pool_form_t *f, const double *image, double *y) {
    const windows_t *w = f->w;
    const double outside = c->param == AVERAGE || faulty(c, F_PADDING_LEAKS) ? 0 : -INFINITY;
    for (int64_t i = 0; i < w->kernel_size * w->out_size; ++i) f->terms[i] = f->table[i] < 0 ? outside : image[f->table[i]];
    if (c->param == AVERAGE) {
        VN_TRY(sum_rows(c, f->wide, w->kernel_size, w->out_size, f->terms, y));
        for (int64_t p = 0; p < w->out_size; ++p) y[p] = quotient(c, f->wide, y[p], f->counts[p]);
        return VN_OK;
    }
    for (int64_t p = 0; p < w->out_size; ++p) {
        y[p] = -INFINITY;
        for (int64_t k = 0; k < w->kernel_size; ++k) {
            const double v = f->terms[k * w->out_size + p];
            if (isnan(v) ? !faulty(c, F_NAN_IGNORED) : v > y[p]) y[p] = v;
        }
    }
    return VN_OK;
}

static vn_status_t pool(call_t *c, const windows_t *w) {
    const vn_tensor_t *x = c->in[0];
    int64_t dims[VN_MAX_RANK] = {x->dims[0], x->dims[1]};
    memcpy(dims + 2, w->out, (size_t)w->rank * sizeof *dims);
    pool_form_t f = {.w = w, .wide = is_wide(x->dtype), .table = windows_table(c, w)};
    double *v = plane(c, x), *y = vn_alloc((size_t)product_of(dims, x->rank), sizeof *y);
    f.terms = vn_alloc((size_t)(w->kernel_size * w->out_size), sizeof *f.terms); /* the product was checked for the table */
    f.counts = vn_alloc((size_t)w->out_size, sizeof *f.counts);
    vn_status_t s = v && y && f.table && f.terms && f.counts ? VN_OK : no_memory(c);
    if (s == VN_OK) {
        const bool include = attr_int(c, "count_include_pad", 0) != 0;
        count_terms(w, include != faulty(c, F_COUNT_INCLUDE_PAD), faulty(c, F_CEIL_DIVISOR), f.counts);
    }
    for (int64_t i = 0; s == VN_OK && i < dims[0] * dims[1]; ++i) s = pool_channel(c, &f, v + i * w->in_size, y + i * w->out_size);
    vn_free(v);
    vn_free(f.table);
    vn_free(f.terms);
    vn_free(f.counts);
    if (s == VN_OK) return put_plane(c, 0, x->dtype, x->rank, dims, y);
    vn_free(y);
    return s;
}

static vn_status_t run_pool(call_t *c) {
    VN_TRY(need_float(c, 0));
    if (c->n_out > 1) return vn_fail(c->err, VN_ERR_UNSUPPORTED, "%s: MaxPool with indices", c->node->path);
    if (c->in[0]->rank < 3) return vn_fail(c->err, VN_ERR_SHAPE, "%s: rank %d", c->node->path, c->in[0]->rank);
    int64_t n;
    const int64_t *kernel = vn_node_ints(c->node, "kernel_shape", &n);
    if (!kernel || n != c->in[0]->rank - 2)
        return vn_fail(c->err, VN_ERR_PARSE, "%s: kernel_shape does not have %d entries", c->node->path, c->in[0]->rank - 2);
    windows_t w;
    VN_TRY(windows_read(c, c->in[0], kernel, &w));
    return pool(c, &w);
}

static vn_status_t run_global_pool(call_t *c) {
    VN_TRY(need_float(c, 0));
    if (c->in[0]->rank < 3) return vn_fail(c->err, VN_ERR_SHAPE, "%s: rank %d", c->node->path, c->in[0]->rank);
    windows_t w = {.rank = c->in[0]->rank - 2, .in_size = product_of(c->in[0]->dims + 2, c->in[0]->rank - 2), .out_size = 1};
    w.kernel_size = w.in_size;
    for (int d = 0; d < w.rank; ++d) {
        w.in[d] = w.kernel[d] = c->in[0]->dims[d + 2];
        w.out[d] = w.strides[d] = w.dilations[d] = 1;
    }
    return pool(c, &w);
}

static const op_row_t rows[] = {
    {"AveragePool", run_pool, AVERAGE},
    {"MaxPool", run_pool, MAXIMUM},
    {"GlobalAveragePool", run_global_pool, AVERAGE},
    {"GlobalMaxPool", run_global_pool, MAXIMUM},
};
const op_table_t pooling_ops = {rows, sizeof rows / sizeof *rows};
