/* op_col2im.c -- Col2Im: column blocks added back into an image of any number of spatial axes.
 *
 * Claim MOVE-11: a pixel is the sum of the n entries whose window position falls on it, padding cut away. Every order of the n - 1
 * additions is within (n - 1) u sum |x| of the exact sum (SCATTER-1); accumulation into a zeroed image starts with an exact addition.
 * The value is compensated. Integers add modulo 2^bits.
 */
#include <math.h>
#include <string.h>

#include "oracle/move.h"

typedef struct fold {
    int n; /* spatial axes */
    int64_t image[VN_MAX_RANK], block[VN_MAX_RANK], stride[VN_MAX_RANK], dilation[VN_MAX_RANK], begin[VN_MAX_RANK], steps[VN_MAX_RANK];
    int64_t kernel, places, channels;
    vn_shape_t out;
} fold_t;

static vn_status_t list_attr(vn_eval_t *e, const char *name, int n, int64_t fallback, int64_t low, int64_t *out) {
    int64_t count;
    const int64_t *v = vn_node_ints(e->node, name, &count);
    if (v && count != n) return vn_eval_fail(e, VN_ERR_SHAPE, "%s has %lld entries instead of %d", name, (long long)count, n);
    for (int k = 0; k < n; ++k) {
        out[k] = v ? v[k] : fallback;
        if (out[k] < low || out[k] > INT32_MAX) return vn_eval_fail(e, VN_ERR_RANGE, "%s[%d] is %lld", name, k, (long long)out[k]);
    }
    return VN_OK;
}

static vn_status_t fold_shape(vn_eval_t *e, fold_t *f) {
    int64_t pads[2 * VN_MAX_RANK];
    int nb;
    for (int k = 0; k < 3; ++k) VN_TRY(vn_move_need(e, k));
    const vn_tensor_t *t = e->in[0].t;
    if (t->rank != 3) return vn_eval_fail(e, VN_ERR_SHAPE, "input has rank %d instead of 3", t->rank);
    VN_TRY(vn_arg_ints(e, 1, f->image, VN_MAX_RANK - 2, &f->n));
    VN_TRY(vn_arg_ints(e, 2, f->block, VN_MAX_RANK - 2, &nb));
    if (nb != f->n || f->n < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "image_shape has %d entries, block_shape has %d", f->n, nb);
    VN_TRY(list_attr(e, "strides", f->n, 1, 1, f->stride));
    VN_TRY(list_attr(e, "dilations", f->n, 1, 1, f->dilation));
    VN_TRY(list_attr(e, "pads", 2 * f->n, 0, 0, pads));
    f->kernel = f->places = 1;
    for (int k = 0; k < f->n; ++k) {
        if (f->image[k] < 0 || f->image[k] > INT32_MAX || f->block[k] < 1 || f->block[k] > INT32_MAX)
            return vn_eval_fail(e, VN_ERR_RANGE, "axis %d: image %lld, block %lld", k, (long long)f->image[k], (long long)f->block[k]);
        f->begin[k] = pads[k];
        const int64_t room = f->image[k] + pads[k] + pads[f->n + k] - f->dilation[k] * (f->block[k] - 1) - 1;
        f->steps[k] = room < 0 ? 0 : room / f->stride[k] + 1;
        if (!vn_i64_mul(f->kernel, f->block[k], &f->kernel) || !vn_i64_mul(f->places, f->steps[k], &f->places))
            return vn_eval_fail(e, VN_ERR_RANGE, "block or image overflow");
    }
    if (t->dims[1] % f->kernel || t->dims[2] != f->places)
        return vn_eval_fail(e, VN_ERR_SHAPE, "columns are %lld x %lld; blocks of %lld at %lld places are asked for", (long long)t->dims[1],
                            (long long)t->dims[2], (long long)f->kernel, (long long)f->places);
    f->channels = t->dims[1] / f->kernel;
    f->out = (vn_shape_t){.rank = 2, .d = {t->dims[0], f->channels}};
    for (int k = 0; k < f->n; ++k) f->out.d[f->out.rank++] = f->image[k];
    return vn_shape_check(e, t->dtype, &f->out);
}

vn_status_t vn_infer_col2im(vn_eval_t *e) {
    fold_t f = {.n = 0};
    VN_TRY(fold_shape(e, &f));
    return vn_move_infer(e, 0, e->in[0].t->dtype, &f.out);
}

/* Pixel of entry (place, offset in the block) within one image, or -1 in the padding. */
static int64_t pixel(const fold_t *f, int64_t place, int64_t offset) {
    int64_t at = 0, scale = 1;
    for (int k = f->n - 1; k >= 0; --k) {
        const int64_t x = place % f->steps[k] * f->stride[k] + offset % f->block[k] * f->dilation[k] - f->begin[k];
        if (x < 0 || x >= f->image[k]) return -1;
        at += x * scale;
        scale *= f->image[k];
        place /= f->steps[k];
        offset /= f->block[k];
    }
    return at;
}

typedef struct sums {
    const fold_t *f;
    vn_eval_t *e;
    const double *x;
    const int64_t *ix;
    double *size, *squares, *nodes; /* sum |x|, sum x^2, sum of ulp^2 / 12 of the partial sums */
    int64_t *count;
} sums_t;

static void add_integer(sums_t *s, int64_t from, int64_t to) {
    vn_tensor_t *o = s->e->out[0].tensor;
    vn_tensor_set_i64(o, to, (int64_t)((uint64_t)vn_tensor_get_i64(o, to) + (uint64_t)s->ix[from]));
}

static void add_float(sums_t *s, int64_t from, int64_t to) {
    vn_ref_t *r = &s->e->out[0];
    const double *err = s->e->in[0].err, *var = s->e->in[0].var;
    const double old = r->value[to], add = s->x[from], sum = old + add, part = sum - old;
    r->value[to] = sum;
    r->lo[to] += (old - (sum - part)) + (add - part);
    s->size[to] += fabs(add);
    s->squares[to] += add * add;
    if (err && r->bound) r->bound[to] += err[from];
    if (var && r->var) r->var[to] += var[from];
    if (r->var && s->count[to] && isfinite(sum)) {
        const double ulp = vn_ulp(s->e->contract->accumulator, sum);
        s->nodes[to] += ulp * ulp / 12;
    }
    ++s->count[to];
}

/* Calls `add` for every entry of the columns that falls on a pixel. */
static void each_entry(sums_t *s, void (*add)(sums_t *s, int64_t from, int64_t to)) {
    const fold_t *f = s->f;
    const int64_t pixels = vn_shape_product(f->out.d, 2, f->out.rank), images = f->out.d[0] * f->channels;
    for (int64_t offset = 0; offset < f->kernel; ++offset)
        for (int64_t place = 0; place < f->places; ++place) {
            const int64_t at = pixel(f, place, offset);
            for (int64_t i = 0; at >= 0 && i < images; ++i) add(s, (i * f->kernel + offset) * f->places + place, i * pixels + at);
        }
}

static vn_status_t fold_integers(vn_eval_t *e, const fold_t *f) {
    const vn_dtype_t t = e->in[0].t->dtype;
    int64_t *x;
    if (!vn_dtype_is_int(t)) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "sums of %s", vn_dtype_name(t));
    VN_TRY(vn_out_exact(e, 0, t, f->out.rank, f->out.d));
    VN_TRY(vn_move_i64(e, 0, &x));
    sums_t s = {.f = f, .e = e, .ix = x};
    if (e->out[0].count) each_entry(&s, add_integer);
    vn_free(x);
    return VN_OK;
}

static void finish_pixels(vn_eval_t *e, const sums_t *s) {
    vn_ref_t *r = &e->out[0];
    const double u = vn_u(e);
    for (int64_t i = 0; i < r->count; ++i) {
        const double k = (double)s->count[i], q = s->squares[i], y = r->value[i] + r->lo[i];
        if (isfinite(y)) { /* the larger part first */
            r->lo[i] -= y - r->value[i];
            r->value[i] = y;
        } else {
            r->lo[i] = 0;
        }
        if (s->count[i] > r->terms) r->terms = s->count[i];
        if (r->bound && k > 1) r->bound[i] = r->bound[i] * (1 + (k - 1) * u) + (k - 1) * u * s->size[i];
        if (r->var && k > 1) r->var[i] += fmax(s->nodes[i], 0.18 * u * u * ((k + 1) / 2 * q + (k + 1) / 3 * (y * y - q) - q / k));
    }
}

vn_status_t vn_move_col2im(vn_eval_t *e) {
    fold_t f = {.n = 0};
    VN_TRY(fold_shape(e, &f));
    if (!vn_dtype_is_float(e->in[0].t->dtype)) return fold_integers(e, &f);
    const double *x = vn_arg_f64(e, 0);
    if (!x) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, e->in[0].t->dtype, f.out.rank, f.out.d));
    VN_TRY(vn_out_lo(e, 0));
    const size_t n = (size_t)(e->out[0].count ? e->out[0].count : 1);
    sums_t s = {
        .f = &f, .e = e, .x = x, .size = vn_alloc(n, 8), .squares = vn_alloc(n, 8), .nodes = vn_alloc(n, 8), .count = vn_alloc(n, 8)};
    vn_status_t status = s.size && s.squares && s.nodes && s.count ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %zu pixels", n);
    if (status == VN_OK && e->out[0].count) each_entry(&s, add_float);
    if (status == VN_OK) finish_pixels(e, &s);
    vn_free(s.size);
    vn_free(s.squares);
    vn_free(s.nodes);
    vn_free(s.count);
    return status;
}
