/* op_integer.c -- MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv: products of 8-bit codes, summed exactly, or in 16 bits by a fault. */
#include <math.h>
#include <string.h>

#include "codes.h"
#include "windows.h"

/* An operand of codes: shifted by its zero points, one for all or one an element of an axis. */
static int64_t *codes(const call_t *c, int k, int k_zero, int64_t inner, int64_t length) {
    const vn_tensor_t *x = c->in[k], *z = given(c, k_zero) ? c->in[k_zero] : NULL;
    int64_t *v = int_plane(c, x);
    if (!v) return NULL;
    const bool sign = vn_dtype_kind(x->dtype) == VN_KIND_SIGNED;
    for (int64_t i = 0; i < x->count; ++i) {
        if (faulty(c, F_CLAMP_U8) && !sign && v[i] > 127) v[i] = 127;
        if (faulty(c, F_ZERO_POINT_SIGN)) v[i] = sign ? v[i] & 255 : (int8_t)v[i];
        if (z) v[i] -= vn_tensor_get_i64(z, z->count == 1 ? 0 : i / inner % length);
    }
    return v;
}

static int64_t in_16_bits(const call_t *c, int64_t x) {
    if (faulty(c, F_WRAP_I16)) return (int16_t)(uint16_t)((uint64_t)x & 0xffff);
    return x > 32767 ? 32767 : x < -32768 ? -32768 : x;
}

/* sum of a[k] b[k * stride], k < n; terms that a faulty kernel leaves out; sums of two products in 16 bits if that is the fault. */
static int64_t dot(const call_t *c, const int64_t *a, const int64_t *b, int64_t stride, int64_t n) {
    const bool narrow = faulty(c, F_SATURATE_I16) || faulty(c, F_WRAP_I16);
    const int64_t end = faulty(c, F_K_TAIL) ? n - (int64_t)fault_number(c, 1) : n, skip = faulty(c, F_TERM_DROPPED) ? n / 2 : -1;
    int64_t sum = 0, pair = 0;
    for (int64_t k = 0; k < end; ++k) {
        const int64_t p = k == skip ? 0 : a[k] * b[k * stride];
        pair += p;
        if (k % 2 == 0 && k + 1 < end) continue;
        sum += narrow ? in_16_bits(c, pair) : pair;
        pair = 0;
    }
    return sum;
}

/* What turns a sum into a code of the result. */
typedef struct rescale {
    double x_scale, y_scale, zero, least, most;
    const double *w_scale; /* one, or one a channel */
    int64_t n_scales;
} rescale_t;

static double code_of(const call_t *c, const rescale_t *r, int64_t sum, int64_t channel) {
    if (faulty(c, F_CHANNEL_SCALE)) ++channel;
    const double scale = settle(false, r->x_scale * r->w_scale[r->n_scales == 1 ? 0 : channel % r->n_scales]);
    const double code = round_code(c, settle(false, settle(false, scale * (double)sum) / r->y_scale)) + r->zero;
    return code < r->least ? r->least : code > r->most ? r->most : code;
}

/* Scales and zero point stand at inputs x, w, y and zero. */
static vn_status_t read_rescale(const call_t *c, int x, int w, int y, int zero, double **w_scale, rescale_t *r) {
    if (c->in[x]->count != 1 || c->in[y]->count != 1 || c->in[zero]->count != 1) return refuse(c, "scales of operand or result by row");
    *w_scale = plane(c, c->in[w]);
    if (!*w_scale) return VN_ERR_NOMEM;
    *r = (rescale_t){.x_scale = vn_tensor_get_f64(c->in[x], 0),
                     .y_scale = vn_tensor_get_f64(c->in[y], 0),
                     .zero = vn_tensor_get_f64(c->in[zero], 0),
                     .w_scale = *w_scale,
                     .n_scales = c->in[w]->count};
    code_range(c, c->in[zero]->dtype, &r->least, &r->most);
    return VN_OK;
}

/* ---- products of matrices ---- */

typedef struct places {
    int x, x_zero, w, w_zero; /* inputs */
} places_t;

static vn_status_t multiply(call_t *c, const places_t *at, const rescale_t *r, vn_dtype_t type) {
    const vn_tensor_t *a = c->in[at->x], *b = c->in[at->w];
    if (a->rank < 2 || b->rank < 2) return refuse(c, "vectors");
    int rank;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(vn_broadcast_shape(a->rank - 2, a->dims, b->rank - 2, b->dims, &rank, dims, c->err));
    const int64_t m = a->dims[a->rank - 2], k = a->dims[a->rank - 1], n = b->dims[b->rank - 1], batch = product_of(dims, rank);
    if (b->dims[b->rank - 2] != k) return vn_fail(c->err, VN_ERR_SHAPE, "%s: inner dimensions differ", c->node->path);
    if ((b->rank > 2 && b->count != batch * k * n) || (a->rank > 2 && a->count != batch * m * k))
        return refuse(c, "batches that are broadcast in part");
    dims[rank] = m;
    dims[rank + 1] = n;
    int64_t *x = codes(c, at->x, at->x_zero, k, m), *w = codes(c, at->w, at->w_zero, 1, n),
            *y = vn_alloc((size_t)(batch * m * n), sizeof *y);
    vn_status_t s = x && w && y ? VN_OK : no_memory(c);
    for (int64_t i = 0; s == VN_OK && i < batch * m * n; ++i) {
        const int64_t sample = i / (m * n), row = i / n % m, column = i % n;
        const int64_t sum = dot(c, x + ((a->rank > 2 ? sample : 0) * m + row) * k, w + (b->rank > 2 ? sample : 0) * k * n + column, n, k);
        y[i] = r ? (int64_t)code_of(c, r, sum, column) : (int32_t)(uint32_t)((uint64_t)sum & 0xffffffff);
    }
    vn_free(x);
    vn_free(w);
    if (s == VN_OK) return put_ints(c, 0, type, rank + 2, dims, y);
    vn_free(y);
    return s;
}

static vn_status_t run_matmul_integer(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need(c, 1));
    return multiply(c, &(places_t){0, 2, 1, 3}, NULL, VN_I32);
}

static vn_status_t run_qlinear_matmul(call_t *c) {
    for (int k = 0; k < 8; ++k) VN_TRY(need(c, k));
    rescale_t r;
    double *w_scale;
    VN_TRY(read_rescale(c, 1, 4, 6, 7, &w_scale, &r));
    vn_status_t s = multiply(c, &(places_t){0, 2, 3, 5}, &r, c->in[7]->dtype);
    vn_free(w_scale);
    return s;
}

/* ---- convolutions ---- */

static vn_status_t convolve(call_t *c, const places_t *at, const rescale_t *r, const vn_tensor_t *bias, vn_dtype_t type) {
    const vn_tensor_t *x = c->in[at->x], *w = c->in[at->w];
    if (x->rank < 3 || w->rank != x->rank) return vn_fail(c->err, VN_ERR_SHAPE, "%s: ranks %d and %d", c->node->path, x->rank, w->rank);
    windows_t win;
    VN_TRY(windows_read(c, x, w->dims + 2, &win));
    const int64_t groups = attr_int(c, "group", 1), in_per = w->dims[1], out = w->dims[0], patch = in_per * win.kernel_size;
    if (groups < 1 || out % groups || x->dims[1] != in_per * groups) return vn_fail(c->err, VN_ERR_SHAPE, "%s: groups", c->node->path);
    int64_t dims[VN_MAX_RANK] = {x->dims[0], out};
    memcpy(dims + 2, win.out, (size_t)win.rank * sizeof *dims);
    int64_t *v = codes(c, at->x, at->x_zero, 1, 1), *wv = codes(c, at->w, at->w_zero, patch, out),
            *y = vn_alloc((size_t)product_of(dims, x->rank), sizeof *y), *table = windows_table(c, &win),
            *column = vn_alloc((size_t)patch, sizeof *column), *added = bias ? int_plane(c, bias) : NULL;
    vn_status_t s = v && wv && y && table && column && (added || !bias) ? VN_OK : no_memory(c);
    const int64_t outside = faulty(c, F_ZERO_POINT_PAD) && given(c, at->x_zero) ? -vn_tensor_get_i64(c->in[at->x_zero], 0) : 0;
    const int times = faulty(c, F_BIAS_MISSING) ? 0 : faulty(c, F_BIAS_TWICE) ? 2 : 1;
    const int64_t out_per = out / groups;
    for (int64_t i = 0; s == VN_OK && i < x->dims[0] * groups * win.out_size; ++i) {
        const int64_t place = i % win.out_size, group = i / win.out_size % groups, sample = i / win.out_size / groups,
                      from = faulty(c, F_GROUP_INDEX) ? (group + 1) % groups : group;
        const int64_t *image = v + (sample * groups + from) * in_per * win.in_size;
        for (int64_t e = 0; e < patch; ++e) {
            const int64_t t = table[e % win.kernel_size * win.out_size + place];
            column[e] = t < 0 ? outside : image[e / win.kernel_size * win.in_size + t];
        }
        for (int64_t ch = 0; ch < out_per; ++ch) {
            const int64_t channel = group * out_per + ch;
            int64_t sum = dot(c, wv + channel * patch, column, 1, patch);
            for (int t = 0; added && t < times; ++t) sum += added[channel];
            if (added && faulty(c, F_BIAS_SCALE)) sum += (int64_t)rint((double)added[channel] * (fault_number(c, 0.5) - 1));
            y[(sample * out + channel) * win.out_size + place] =
                r ? (int64_t)code_of(c, r, sum, channel) : (int32_t)(uint32_t)((uint64_t)sum & 0xffffffff);
        }
    }
    vn_free(v);
    vn_free(wv);
    vn_free(table);
    vn_free(column);
    vn_free(added);
    if (s == VN_OK) return put_ints(c, 0, type, x->rank, dims, y);
    vn_free(y);
    return s;
}

static vn_status_t run_conv_integer(call_t *c) {
    VN_TRY(need(c, 0));
    VN_TRY(need(c, 1));
    return convolve(c, &(places_t){0, 2, 1, 3}, NULL, NULL, VN_I32);
}

static vn_status_t run_qlinear_conv(call_t *c) {
    for (int k = 0; k < 8; ++k) VN_TRY(need(c, k));
    rescale_t r;
    double *w_scale;
    VN_TRY(read_rescale(c, 1, 4, 6, 7, &w_scale, &r));
    vn_status_t s = convolve(c, &(places_t){0, 2, 3, 5}, &r, given(c, 8) ? c->in[8] : NULL, c->in[7]->dtype);
    vn_free(w_scale);
    return s;
}

static const op_row_t rows[] = {
    {"MatMulInteger", run_matmul_integer, 0},
    {"ConvInteger", run_conv_integer, 0},
    {"QLinearMatMul", run_qlinear_matmul, 0},
    {"QLinearConv", run_qlinear_conv, 0},
};
const op_table_t integer_ops = {rows, sizeof rows / sizeof *rows};
