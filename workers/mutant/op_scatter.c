/* op_scatter.c -- GatherElements, GatherND, ScatterElements, ScatterND: elements by index; reductions in index order. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* A checked index on an axis of n; -1 with an error text where it is outside. */
static int64_t place(const call_t *c, int64_t i, int64_t n) {
    if (i < 0) i = faulty(c, F_NEGATIVE_INDEX) && i >= -n ? 0 : i + n;
    if (i >= 0 && i < n) return i;
    vn_fail(c->err, VN_ERR_RANGE, "%s: index outside %lld", c->node->path, (long long)n);
    return -1;
}

static void copy_element(const vn_tensor_t *from, int64_t i, vn_tensor_t *to, int64_t j, int64_t n) {
    const size_t unit = (size_t)vn_dtype_bits(from->dtype) / 8;
    memcpy((unsigned char *)to->data + (size_t)j * unit, (const unsigned char *)from->data + (size_t)i * unit, unit * (size_t)n);
}

/* to[j] = reduction of to[j] and from[i]; `how` is the attribute's word. */
static void combine(const char *how, const vn_tensor_t *from, int64_t i, vn_tensor_t *to, int64_t j) {
    if (strcmp(how, "none") == 0) {
        copy_element(from, i, to, j, 1);
        return;
    }
    const double x = vn_tensor_get_f64(from, i), y = vn_tensor_get_f64(to, j);
    const bool wide = is_wide(to->dtype) || !vn_dtype_is_float(to->dtype);
    const double z = strcmp(how, "add") == 0   ? settle(wide, y + x)
                     : strcmp(how, "mul") == 0 ? settle(wide, y * x)
                     : strcmp(how, "max") == 0 ? (isnan(y) || y > x ? y : x)
                                               : (isnan(y) || y < x ? y : x);
    vn_tensor_set_f64(to, j, z);
}

static vn_status_t check_bytes(const call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need(c, 1));
    return vn_dtype_bits(c->in[0]->dtype) >= 8 ? VN_OK : refuse(c, "elements below a byte");
}

/* Element of x that belongs to element i of the index tensor, whose index replaces the place on the axis. */
static int64_t along_axis(const call_t *c, const vn_tensor_t *x, const vn_tensor_t *index, int64_t i, int64_t axis) {
    int64_t at[VN_MAX_RANK], flat = 0;
    unravel(i, index->rank, index->dims, at);
    at[axis] = place(c, vn_tensor_get_i64(index, i), x->dims[axis]);
    if (at[axis] < 0) return -1;
    for (int d = 0; d < x->rank; ++d) {
        if (at[d] >= x->dims[d]) return -1;
        flat = flat * x->dims[d] + at[d];
    }
    return flat;
}

static vn_status_t run_gather_elements(call_t *c) {
    VN_TRY(check_bytes(c));
    const vn_tensor_t *x = c->in[0], *index = c->in[1];
    int64_t axis = attr_int(c, "axis", 0);
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    if (index->rank != x->rank) return vn_fail(c->err, VN_ERR_SHAPE, "%s: ranks differ", c->node->path);
    VN_TRY(vn_tensor_new(x->dtype, x->rank, index->dims, &c->out[0], c->err));
    for (int64_t i = 0; i < index->count; ++i) {
        const int64_t from = along_axis(c, x, index, i, axis);
        if (from < 0) return vn_fail(c->err, VN_ERR_RANGE, "%s: an index outside", c->node->path);
        copy_element(x, from, c->out[0], i, 1);
    }
    return VN_OK;
}

static vn_status_t run_scatter_elements(call_t *c) {
    VN_TRY(check_bytes(c));
    VN_TRY(need(c, 2));
    const vn_tensor_t *x = c->in[0], *index = c->in[1], *updates = c->in[2];
    int64_t axis = attr_int(c, "axis", 0);
    const char *how = attr_string(c, "reduction", "none");
    VN_TRY(fix_axis(c, &axis, x->rank));
    axis = axis_of(c, axis, x->rank);
    if (index->rank != x->rank || updates->count != index->count) return vn_fail(c->err, VN_ERR_SHAPE, "%s: ranks differ", c->node->path);
    VN_TRY(vn_tensor_copy(x, &c->out[0], c->err));
    for (int64_t i = 0; i < index->count; ++i) {
        const int64_t to = along_axis(c, x, index, i, axis);
        if (to < 0) return vn_fail(c->err, VN_ERR_RANGE, "%s: an index outside", c->node->path);
        if (faulty(c, F_DUPLICATES))
            vn_tensor_set_f64(c->out[0], to, vn_tensor_get_f64(x, to)); /* lost update: starts from the old value */
        combine(how, updates, i, c->out[0], to);
    }
    return VN_OK;
}

/* ---- ND: the last axis of the indices names an element or slice ---- */

typedef struct nd {
    int64_t parts, depth, slice; /* indices, numbers an index, elements a slice */
    int64_t batches;             /* leading axes in common */
} nd_t;

static vn_status_t read_nd(const call_t *c, nd_t *f) {
    const vn_tensor_t *x = c->in[0], *index = c->in[1];
    f->batches = vn_node_int(c->node, "batch_dims", 0);
    if (index->rank < 1 || f->batches < 0 || f->batches >= index->rank || f->batches > x->rank) return refuse(c, "this form of indices");
    f->depth = index->dims[index->rank - 1];
    if (f->depth < 1 || f->batches + f->depth > x->rank) return refuse(c, "this depth of indices");
    f->parts = index->count / f->depth;
    f->slice = product_of(x->dims + f->batches + f->depth, x->rank - (int)(f->batches + f->depth));
    return VN_OK;
}

/* First element of the slice that index p names; -1: outside. */
static int64_t slice_at(const call_t *c, const nd_t *f, int64_t p) {
    const vn_tensor_t *x = c->in[0], *index = c->in[1];
    const int64_t batch = product_of(x->dims, (int)f->batches);
    int64_t flat = f->batches ? p / (f->parts / batch) : 0;
    for (int64_t d = 0; d < f->depth; ++d) {
        const int64_t n = x->dims[f->batches + d], at = place(c, vn_tensor_get_i64(index, p * f->depth + d), n);
        if (at < 0) return -1;
        flat = flat * n + at;
    }
    return flat * f->slice;
}

static vn_status_t run_gather_nd(call_t *c) {
    VN_TRY(check_bytes(c));
    nd_t f;
    VN_TRY(read_nd(c, &f));
    const vn_tensor_t *x = c->in[0], *index = c->in[1];
    int64_t dims[2 * VN_MAX_RANK];
    const int tail = x->rank - (int)(f.batches + f.depth), rank = index->rank - 1 + tail;
    if (rank > VN_MAX_RANK) return refuse(c, "a result of this rank");
    memcpy(dims, index->dims, (size_t)(index->rank - 1) * sizeof *dims);
    memcpy(dims + index->rank - 1, x->dims + x->rank - tail, (size_t)tail * sizeof *dims);
    VN_TRY(vn_tensor_new(x->dtype, rank, dims, &c->out[0], c->err));
    for (int64_t p = 0; p < f.parts; ++p) {
        const int64_t from = slice_at(c, &f, p);
        if (from < 0) return vn_fail(c->err, VN_ERR_RANGE, "%s: an index outside", c->node->path);
        copy_element(x, from, c->out[0], p * f.slice, f.slice);
    }
    return VN_OK;
}

static vn_status_t run_scatter_nd(call_t *c) {
    VN_TRY(check_bytes(c));
    VN_TRY(need(c, 2));
    nd_t f;
    VN_TRY(read_nd(c, &f));
    const char *how = attr_string(c, "reduction", "none");
    if (f.batches || c->in[2]->count != f.parts * f.slice) return vn_fail(c->err, VN_ERR_SHAPE, "%s: updates do not fit", c->node->path);
    VN_TRY(vn_tensor_copy(c->in[0], &c->out[0], c->err));
    for (int64_t p = 0; p < f.parts; ++p) {
        const int64_t to = slice_at(c, &f, p);
        if (to < 0) return vn_fail(c->err, VN_ERR_RANGE, "%s: an index outside", c->node->path);
        for (int64_t i = 0; i < f.slice; ++i) {
            if (faulty(c, F_DUPLICATES)) copy_element(c->in[0], to + i, c->out[0], to + i, 1);
            combine(how, c->in[2], p * f.slice + i, c->out[0], to + i);
        }
    }
    return VN_OK;
}

static const op_row_t rows[] = {
    {"GatherElements", run_gather_elements, 0},
    {"GatherND", run_gather_nd, 0},
    {"ScatterElements", run_scatter_elements, 0},
    {"ScatterND", run_scatter_nd, 0},
};
const op_table_t scatter_ops = {rows, sizeof rows / sizeof *rows};
