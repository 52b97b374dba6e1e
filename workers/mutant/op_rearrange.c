/* op_rearrange.c -- Pad, Tile, DepthToSpace, SpaceToDepth, Trilu: elements at other places, padding between them. */
#include <string.h>

#include "mutant.h"

/* Element that stands at place x of a padded axis of n; -1: the constant. */
static int64_t padded(const char *mode, int64_t x, int64_t n) {
    if (x >= 0 && x < n) return x;
    if (strcmp(mode, "constant") == 0) return -1;
    if (strcmp(mode, "edge") == 0) return x < 0 ? 0 : n - 1;
    if (strcmp(mode, "wrap") == 0) return ((x % n) + n) % n;
    const int64_t span = 2 * (n - 1); /* reflect */
    if (span == 0) return 0;
    x = ((x % span) + span) % span;
    return x < n ? x : span - x;
}

typedef struct source {
    const vn_tensor_t *x;
    int64_t dims[VN_MAX_RANK], begin[VN_MAX_RANK];
} source_t;

static vn_status_t read_pads(call_t *c, source_t *f) {
    const vn_tensor_t *x = c->in[0];
    int64_t *pads, n, *axes, n_axes;
    VN_TRY(int_list(c, 1, "pads", &pads, &n));
    vn_status_t s = int_list(c, 3, NULL, &axes, &n_axes);
    const int64_t count = n_axes >= 0 ? n_axes : x->rank;
    if (s == VN_OK && n != 2 * count) s = vn_fail(c->err, VN_ERR_SHAPE, "%s: pads do not fit the rank", c->node->path);
    for (int d = 0; d < x->rank; ++d) f->dims[d] = x->dims[d];
    const bool swapped = faulty(c, F_PADS_SWAPPED);
    for (int64_t i = 0; s == VN_OK && i < count; ++i) {
        int64_t axis = n_axes >= 0 ? axes[i] : i;
        s = fix_axis(c, &axis, x->rank);
        if (s != VN_OK) break;
        f->begin[axis] = pads[swapped ? count + i : i];
        f->dims[axis] += pads[i] + pads[count + i];
        if (f->dims[axis] < 0 || (x->dims[axis] == 0 && f->dims[axis])) s = refuse(c, "these pads");
    }
    vn_free(pads);
    vn_free(axes);
    return s;
}

static vn_status_t run_pad(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    if (vn_dtype_bits(x->dtype) < 8) return refuse(c, "elements below a byte");
    source_t f = {.x = x};
    VN_TRY(read_pads(c, &f));
    const char *mode = attr_string(c, "mode", "constant");
    const vn_tensor_t *value = given(c, 2) && c->in[2]->count == 1 ? c->in[2] : NULL;
    VN_TRY(vn_tensor_new(x->dtype, x->rank, f.dims, &c->out[0], c->err));
    const size_t unit = (size_t)vn_dtype_bits(x->dtype) / 8;
    unsigned char *to = c->out[0]->data;
    for (int64_t i = 0; i < c->out[0]->count; ++i, to += unit) {
        int64_t at[VN_MAX_RANK], flat = 0;
        unravel(i, x->rank, f.dims, at);
        for (int d = 0; d < x->rank && flat >= 0; ++d) {
            const int64_t from = padded(mode, at[d] - f.begin[d], x->dims[d]);
            flat = from < 0 ? -1 : flat * x->dims[d] + from;
        }
        if (flat >= 0) memcpy(to, (const unsigned char *)x->data + (size_t)flat * unit, unit);
        else if (value) memcpy(to, value->data, unit);
    }
    return VN_OK;
}

static vn_status_t run_tile(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need(c, 1));
    const vn_tensor_t *x = c->in[0];
    int64_t *repeats, n, dims[VN_MAX_RANK];
    if (vn_dtype_bits(x->dtype) < 8) return refuse(c, "elements below a byte");
    VN_TRY(int_list(c, 1, NULL, &repeats, &n));
    vn_status_t s = n == x->rank ? VN_OK : vn_fail(c->err, VN_ERR_SHAPE, "%s: repeats", c->node->path);
    for (int d = 0; s == VN_OK && d < x->rank; ++d)
        if (!vn_i64_mul(x->dims[d], repeats[d], &dims[d])) s = refuse(c, "a result of this size");
    vn_free(repeats);
    if (s == VN_OK) s = vn_tensor_new(x->dtype, x->rank, dims, &c->out[0], c->err);
    const size_t unit = (size_t)vn_dtype_bits(x->dtype) / 8;
    for (int64_t i = 0; s == VN_OK && i < c->out[0]->count; ++i) {
        int64_t at[VN_MAX_RANK], flat = 0;
        unravel(i, x->rank, dims, at);
        for (int d = 0; d < x->rank; ++d) flat = flat * x->dims[d] + at[d] % x->dims[d];
        memcpy((unsigned char *)c->out[0]->data + (size_t)i * unit, (const unsigned char *)x->data + (size_t)flat * unit, unit);
    }
    return s;
}

enum { TO_SPACE, TO_DEPTH };

/* Channels as [b][b][C], or by mode CRD as [C][b][b]; depth to space by one permutation, space to depth by another. */
static vn_status_t run_depth(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    const int64_t b = vn_node_int(c->node, "blocksize", 1);
    if (x->rank != 4 || b < 1) return vn_fail(c->err, VN_ERR_SHAPE, "%s: rank %d", c->node->path, x->rank);
    const bool crd = strcmp(attr_string(c, "mode", "DCR"), "CRD") == 0;
    const int64_t n = x->dims[0], ch = x->dims[1], h = x->dims[2], w = x->dims[3];
    if (c->param == TO_SPACE ? ch % (b * b) : h % b || w % b) return vn_fail(c->err, VN_ERR_SHAPE, "%s: blocks do not fit", c->node->path);
    const int64_t deep = ch / (b * b);
    const int64_t split_crd[] = {n, deep, b, b, h, w}, split_dcr[] = {n, b, b, deep, h, w}, split_depth[] = {n, ch, h / b, b, w / b, b};
    const int perm_crd[] = {0, 1, 4, 2, 5, 3}, perm_dcr[] = {0, 3, 4, 1, 5, 2}, perm_depth[] = {0, 3, 5, 1, 2, 4};
    const int64_t space[] = {n, deep, h * b, w * b}, depth[] = {n, ch * b * b, h / b, w / b};
    vn_tensor_t *flat, *view = NULL, *whole = NULL;
    VN_TRY(vn_tensor_reshape(x, 6, c->param == TO_DEPTH ? split_depth : crd ? split_crd : split_dcr, &flat, c->err));
    vn_status_t s = vn_tensor_permute(flat, c->param == TO_DEPTH ? perm_depth : crd ? perm_crd : perm_dcr, &view, c->err);
    if (s == VN_OK) s = vn_tensor_contiguous(view, &whole, c->err);
    if (s == VN_OK) s = vn_tensor_reshape(whole, 4, c->param == TO_DEPTH ? depth : space, &c->out[0], c->err);
    vn_tensor_free(flat);
    vn_tensor_free(view);
    vn_tensor_free(whole);
    return s;
}

static vn_status_t run_trilu(call_t *c) {
    VN_TRY(need(c, 0));
    const vn_tensor_t *x = c->in[0];
    const int64_t k = given(c, 1) && c->in[1]->count == 1 ? vn_tensor_get_i64(c->in[1], 0) : 0;
    if (x->rank < 2 || vn_dtype_bits(x->dtype) < 8) return refuse(c, "a vector, or elements below a byte");
    const bool upper = vn_node_int(c->node, "upper", 1) != 0;
    VN_TRY(vn_tensor_copy(x, &c->out[0], c->err));
    const int64_t columns = x->dims[x->rank - 1], rows = x->dims[x->rank - 2];
    const size_t unit = (size_t)vn_dtype_bits(x->dtype) / 8;
    for (int64_t i = 0; i < x->count; ++i) {
        const int64_t row = i / columns % rows, column = i % columns;
        if (upper ? column - row < k : column - row > k) memset((unsigned char *)c->out[0]->data + (size_t)i * unit, 0, unit);
    }
    return VN_OK;
}

static const op_row_t rows[] = {
    {"Pad", run_pad, 0},     {"Tile", run_tile, 0}, {"DepthToSpace", run_depth, TO_SPACE}, {"SpaceToDepth", run_depth, TO_DEPTH},
    {"Trilu", run_trilu, 0},
};
const op_table_t rearrange_ops = {rows, sizeof rows / sizeof *rows};
