/* op_convolution.c -- Conv by columns and products, or by Winograd's form; ConvTranspose by products and scattering; biases afterwards. */
#include <string.h>

#include "mutant.h"
#include "windows.h"
#include "winograd.h"

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
    f->groups = attr_int(c, "group", 1);
    f->in_per_group = w->dims[1];
    if (f->groups < 1 || w->dims[0] % f->groups || x->dims[1] != f->in_per_group * f->groups)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: %lld channels, %lld groups, weights for %lld", c->node->path, (long long)x->dims[1],
                       (long long)f->groups, (long long)f->in_per_group);
    f->out_per_group = w->dims[0] / f->groups;
    f->patch = f->in_per_group * f->w.kernel_size;
    f->places = f->w.out_size;
    return VN_OK;
}

static vn_status_t convolve(const call_t *c, const conv_form_t *f, const double *x, double *w, double *y) {
    const bool wide = is_wide(c->in[0]->dtype);
    size_t n;
    double *columns = vn_size_mul((size_t)f->patch, (size_t)f->places, &n) ? vn_alloc(n, sizeof *columns) : NULL;
    int64_t *table = windows_table(c, &f->w);
    vn_status_t s = columns && table ? VN_OK : no_memory(c);
    for (int64_t i = 0; i < c->in[0]->dims[0] * f->groups && s == VN_OK; ++i) {
        const int64_t group = i % f->groups, from = faulty(c, F_GROUP_INDEX) ? i - group + (group + 1) % f->groups : i;
        const double *image = x + from * f->in_per_group * f->w.in_size;
        if (c->a->winograd && winograd_fits(&f->w)) {
            s = winograd(c, &f->w, f->out_per_group, f->in_per_group, w + group * f->out_per_group * f->patch, image,
                         y + i * f->out_per_group * f->places);
            continue;
        }
        fill_columns(f, table, image, columns);
        s = plain_product(c, wide, f->out_per_group, f->patch, f->places, w + group * f->out_per_group * f->patch, columns,
                          y + i * f->out_per_group * f->places);
    }
    vn_free(columns);
    vn_free(table);
    return s;
}

static vn_status_t add_bias(const call_t *c, int64_t channels, int64_t places, double *y) {
    if (!given(c, 2) || faulty(c, F_BIAS_MISSING)) return VN_OK;
    const double factor = faulty(c, F_BIAS_SCALE) ? fault_number(c, 0.5) : 1;
    const bool wide = is_wide(c->in[0]->dtype);
    if (c->in[2]->count != channels)
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: the bias does not have %lld elements", c->node->path, (long long)channels);
    double *b = plane(c, c->in[2]);
    if (!b) return VN_ERR_NOMEM;
    for (int times = faulty(c, F_BIAS_TWICE) ? 2 : 1; times > 0; --times)
        for (int64_t i = 0; i < c->in[0]->dims[0] * channels; ++i)
            for (int64_t p = 0; p < places; ++p)
                y[i * places + p] = settle(wide, y[i * places + p] + settle(wide, b[i % channels] * factor));
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
    double *x = plane(c, c->in[0]), *w = plane(c, c->in[1]), *y = vn_alloc((size_t)product_of(dims, f.w.rank + 2), sizeof *y);
    vn_status_t s = x && w && y ? VN_OK : no_memory(c);
    if (s == VN_OK) quantise_activations(c, dims[0], c->in[0]->count / (dims[0] ? dims[0] : 1), x);
    if (s == VN_OK) s = convolve(c, &f, x, w, y);
    if (s == VN_OK) s = add_bias(c, dims[1], f.places, y);
    vn_free(x);
    vn_free(w);
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, f.w.rank + 2, dims, y);
    vn_free(y);
    return s;
}

/* ---- ConvTranspose: every input place spreads W^T x over its window ---- */

typedef struct spread {
    windows_t w; /* in and out exchanged: its places are those of x, its image is y */
    int64_t groups, in_per_group, out_per_group;
} spread_t;

static vn_status_t spread_form(call_t *c, spread_t *f) {
    const vn_tensor_t *x = c->in[0], *w = c->in[1];
    if (x->rank < 3 || w->rank != x->rank) return vn_fail(c->err, VN_ERR_SHAPE, "%s: ranks %d and %d", c->node->path, x->rank, w->rank);
    const char *pad = vn_node_string(c->node, "auto_pad", "NOTSET");
    if (vn_node_attr(c->node, "output_shape") || (strcmp(pad, "NOTSET") != 0 && strcmp(pad, "VALID") != 0))
        return refuse(c, "output_shape, or padding that is worked out");
    VN_TRY(windows_read(c, x, w->dims + 2, &f->w));
    int64_t n;
    const int64_t *extra = vn_node_ints(c->node, "output_padding", &n);
    if (extra && n != f->w.rank) return vn_fail(c->err, VN_ERR_SHAPE, "%s: output_padding has %lld entries", c->node->path, (long long)n);
    f->w.in_size = 1;
    for (int d = 0; d < f->w.rank; ++d) {
        windows_t *o = &f->w;
        const int64_t places = o->in[d];
        o->out[d] = places;
        /* the size of the result is counted with what the node says, whatever the fault does to the windows */
        int64_t m;
        const int64_t *dilations = vn_node_ints(c->node, "dilations", &m);
        o->in[d] = (places - 1) * o->strides[d] + (extra ? extra[d] : 0) + (o->kernel[d] - 1) * (dilations ? dilations[d] : 1) + 1 -
                   o->begin[d] - o->end[d];
        if (ignored(c, "strides")) o->strides[d] = 1;
        if (o->in[d] < 1 || !vn_i64_mul(o->in_size, o->in[d], &o->in_size)) return refuse(c, "a result of this size");
    }
    f->w.out_size = product_of(x->dims + 2, f->w.rank);
    f->groups = attr_int(c, "group", 1);
    if (f->groups < 1 || x->dims[1] % f->groups || w->dims[0] != x->dims[1])
        return vn_fail(c->err, VN_ERR_SHAPE, "%s: groups", c->node->path);
    f->in_per_group = x->dims[1] / f->groups;
    f->out_per_group = w->dims[1];
    return VN_OK;
}

/* W [in][rows] -> [rows][in], rows = channels of the result times the kernel. */
static void turn(const double *w, int64_t in, int64_t rows, double *out) {
    for (int64_t i = 0; i < in; ++i)
        for (int64_t r = 0; r < rows; ++r) out[r * in + i] = w[i * rows + r];
}

static vn_status_t scatter(const call_t *c, const spread_t *f, const double *x, const double *w, double *y) {
    const bool wide = is_wide(c->in[0]->dtype);
    const int64_t rows = f->out_per_group * f->w.kernel_size, places = f->w.out_size, n = f->w.kernel_size * places;
    int64_t *table = windows_table(c, &f->w);
    double *turned = room_for(c, rows * f->in_per_group), *columns = room_for(c, rows * places),
           *copy = room_for(c, f->in_per_group * places);
    vn_status_t s = table && turned && columns && copy ? VN_OK : VN_ERR_NOMEM;
    for (int64_t i = 0; s == VN_OK && i < c->in[0]->dims[0] * f->groups; ++i) {
        const int64_t group = i % f->groups, from = faulty(c, F_GROUP_INDEX) ? i - group + (group + 1) % f->groups : i;
        turn(w + group * f->in_per_group * rows, f->in_per_group, rows, turned);
        memcpy(copy, x + from * f->in_per_group * places, (size_t)(f->in_per_group * places) * sizeof *copy);
        s = plain_product(c, wide, rows, f->in_per_group, places, turned, copy, columns);
        double *image = y + i * f->out_per_group * f->w.in_size;
        for (int64_t ch = 0; s == VN_OK && ch < f->out_per_group; ++ch)
            for (int64_t e = 0; e < n; ++e) {
                if (table[e] < 0) continue;
                double *at = image + ch * f->w.in_size + table[e];
                *at = settle(wide, *at + columns[ch * n + e]);
            }
    }
    vn_free(table);
    vn_free(turned);
    vn_free(columns);
    vn_free(copy);
    return s;
}

static vn_status_t run_conv_transpose(call_t *c) {
    VN_TRY(need_float(c, 0));
    VN_TRY(need_float(c, 1));
    spread_t f = {0};
    VN_TRY(spread_form(c, &f));
    int64_t dims[VN_MAX_RANK] = {c->in[0]->dims[0], f.out_per_group * f.groups};
    memcpy(dims + 2, f.w.in, (size_t)f.w.rank * sizeof *dims);
    double *x = plane(c, c->in[0]), *w = plane(c, c->in[1]), *y = room_for(c, product_of(dims, f.w.rank + 2));
    vn_status_t s = x && w && y ? scatter(c, &f, x, w, y) : VN_ERR_NOMEM;
    if (s == VN_OK) s = add_bias(c, dims[1], f.w.in_size, y);
    vn_free(x);
    vn_free(w);
    if (s == VN_OK) return put_plane(c, 0, c->in[0]->dtype, f.w.rank + 2, dims, y);
    vn_free(y);
    return s;
}

static const op_row_t rows[] = {{"Conv", run_conv, 0}, {"ConvTranspose", run_conv_transpose, 0}};
const op_table_t convolution_ops = {rows, sizeof rows / sizeof *rows};
