/* op_deform_conv.c -- DeformConv: a convolution whose taps read between the grid points.
 *
 * Each tap reads the zero-extended image at c = o stride - pad + t dilation + offset by linear interpolation, times the mask.
 * Claim CONV-4: a kernel computes c in its accumulator's format, |dc| <= 3u (|c| + 1) per axis; interpolation is continuous and changes by
 * at most dc times the range of the values at floor(c)-1 .. floor(c)+2 per axis; weights and their sum round within g(3 axes + 2) max|x|.
 * The read value is then an uncertain operand of the product (CONTRACT-7).
 */
#include <math.h>
#include <string.h>

#include "oracle/conv.h"
#include "oracle/require.h"

enum { IN_X, IN_W, IN_OFFSET, IN_B, IN_MASK, MAX_AXES = 4 };

typedef struct deform {
    vn_conv_t c;
    int64_t offset_groups;
    const double *x, *offset, *mask;
    double u;
    double *value, *err; /* [N, C, taps, P] */
} deform_t;

static vn_status_t plan(vn_eval_t *e, deform_t *d) {
    VN_TRY(vn_require(e, IN_OFFSET + 1));
    *d = (deform_t){.offset_groups = vn_node_int(e->node, "offset_group", 1), .u = vn_u(e)};
    VN_TRY(vn_conv_plan(e, IN_X, IN_W, false, &d->c));
    const vn_conv_t *c = &d->c;
    const int n = c->w.n;
    if (!vn_dtype_is_float(e->in[IN_X].t->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "convolution of %s", vn_dtype_name(e->in[IN_X].t->dtype));
    if (n > MAX_AXES) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "%d spatial axes; up to %d are done", n, MAX_AXES);
    if (d->offset_groups < 1 || c->channels % d->offset_groups)
        return vn_eval_fail(e, VN_ERR_SHAPE, "offset_group %lld does not divide %lld channels", (long long)d->offset_groups,
                            (long long)c->channels);
    const vn_tensor_t *o = e->in[IN_OFFSET].t, *m = vn_has(e, IN_MASK) ? e->in[IN_MASK].t : NULL;
    bool good = o->rank == c->rank && o->dims[0] == c->batch && o->dims[1] == d->offset_groups * c->w.taps * n;
    good = good && (!m || (m->rank == c->rank && m->dims[0] == c->batch && m->dims[1] == d->offset_groups * c->w.taps));
    for (int i = 0; i < n && good; ++i) good = o->dims[2 + i] == c->w.axis[i].out && (!m || m->dims[2 + i] == c->w.axis[i].out);
    return good ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "offset or mask does not fit %lld taps of the output", (long long)c->w.taps);
}

vn_status_t vn_infer_deform_conv(vn_eval_t *e) {
    deform_t d;
    VN_TRY(plan(e, &d));
    e->out[0].dtype = e->in[IN_X].t->dtype;
    e->out[0].rank = d.c.rank;
    memcpy(e->out[0].dims, d.c.dims, sizeof d.c.dims);
    return VN_OK;
}

static double pixel(const vn_windows_t *w, const double *image, const int64_t *at) {
    int64_t o = 0;
    for (int d = 0; d < w->n; ++d) {
        if (at[d] < 0 || at[d] >= w->axis[d].in) return 0;
        o = o * w->axis[d].in + at[d];
    }
    return image[o];
}

/* Interpolated value at `where`, and how far a correct kernel may be from it. */
static void read_between(const deform_t *d, const double *image, const double *where, double *value, double *err) {
    const vn_windows_t *w = &d->c.w;
    int64_t base[MAX_AXES], at[MAX_AXES];
    double fraction[MAX_AXES], moved = 0;
    *value = *err = 0;
    for (int a = 0; a < w->n; ++a) {
        if (!isfinite(where[a])) { /* no pixel is near */
            *err = INFINITY;
            return;
        }
        if (where[a] < -3 || where[a] > (double)w->axis[a].in + 2) return; /* zero around, however c is rounded */
        base[a] = (int64_t)floor(where[a]);
        fraction[a] = where[a] - (double)base[a];
        moved += 3 * d->u * (fabs(where[a]) + 1);
    }
    double lo = INFINITY, hi = -INFINITY, sum = 0;
    int64_t cells = 1, corners = 1;
    for (int a = 0; a < w->n; ++a) cells *= 4, corners *= 2;
    for (int64_t i = 0; i < corners; ++i) {
        double weight = 1;
        for (int a = 0; a < w->n; ++a) {
            at[a] = base[a] + (i >> a & 1);
            weight *= i >> a & 1 ? fraction[a] : 1 - fraction[a];
        }
        if (weight != 0) sum += weight * pixel(w, image, at);
    }
    for (int64_t i = 0; i < cells; ++i) {
        for (int a = 0; a < w->n; ++a) at[a] = base[a] - 1 + (i >> 2 * a & 3);
        const double v = pixel(w, image, at);
        lo = fmin(lo, v);
        hi = fmax(hi, v);
    }
    *value = sum;
    *err = moved * (hi - lo) + vn_gamma(3 * w->n + 2, d->u) * fmax(fabs(lo), fabs(hi));
}

/* One (image, channel): all taps and positions. */
static void read_range(void *ctx, int64_t begin, int64_t end) {
    deform_t *d = ctx;
    const vn_conv_t *c = &d->c;
    const int n = c->w.n;
    const int64_t taps = c->w.taps, positions = c->w.positions;
    for (int64_t ic = begin; ic < end; ++ic) {
        const int64_t image = ic / c->channels, group = ic % c->channels / (c->channels / d->offset_groups);
        int64_t tap[VN_MAX_RANK] = {0};
        for (int64_t t = 0; t < taps; ++t) {
            int64_t at[VN_MAX_RANK] = {0};
            const double *offset = d->offset + ((image * d->offset_groups + group) * taps + t) * n * positions;
            const double *mask = d->mask ? d->mask + ((image * d->offset_groups + group) * taps + t) * positions : NULL;
            double *value = d->value + (ic * taps + t) * positions, *err = d->err + (ic * taps + t) * positions;
            for (int64_t p = 0; p < positions; ++p) {
                double where[MAX_AXES];
                for (int a = 0; a < n; ++a) {
                    const vn_window_t *w = &c->w.axis[a];
                    where[a] = (double)(at[a] * w->stride - w->lo + tap[a] * w->dilation) + offset[a * positions + p];
                }
                read_between(d, d->x + ic * c->w.in_size, where, &value[p], &err[p]);
                if (mask) {
                    err[p] = (err[p] + d->u * fabs(value[p])) * fabs(mask[p]) * (1 + 2 * d->u);
                    value[p] *= mask[p];
                    if (isnan(err[p])) err[p] = INFINITY;
                }
                for (int a = n - 1; a >= 0; --a) {
                    if (++at[a] < c->w.axis[a].out) break;
                    at[a] = 0;
                }
            }
            for (int a = n - 1; a >= 0; --a) {
                if (++tap[a] < c->w.axis[a].kernel) break;
                tap[a] = 0;
            }
        }
    }
}

vn_status_t vn_eval_deform_conv(vn_eval_t *e) {
    deform_t d;
    VN_TRY(plan(e, &d));
    const vn_conv_t *c = &d.c;
    VN_TRY(vn_out_float(e, 0, e->in[IN_X].t->dtype, c->rank, c->dims));
    int64_t cells;
    if (!vn_i64_mul(c->batch * c->channels, c->w.taps, &cells) || !vn_i64_mul(cells, c->w.positions, &cells) || cells > INT64_MAX / 16)
        return vn_eval_fail(e, VN_ERR_RANGE, "too many reads");
    d.x = vn_arg_f64(e, IN_X);
    d.offset = vn_arg_f64(e, IN_OFFSET);
    d.mask = vn_has(e, IN_MASK) ? vn_arg_f64(e, IN_MASK) : NULL;
    d.value = vn_alloc((size_t)(cells ? cells : 1), sizeof *d.value);
    d.err = vn_alloc((size_t)(cells ? cells : 1), sizeof *d.err);
    vn_bias_t bias = {0};
    vn_factor_t w = {0}, x = {0};
    int64_t *a_off = NULL, *b_off = NULL, *c_off = NULL;
    const int64_t pairs = c->batch * c->groups;
    vn_status_t s =
        d.x && d.offset && d.value && d.err ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld reads", (long long)cells);
    if (s == VN_OK && vn_has(e, IN_B)) s = vn_bias_input(e, IN_B, &bias);
    if (s == VN_OK && bias.c && bias.count != c->maps)
        s = vn_eval_fail(e, VN_ERR_SHAPE, "bias of %lld elements for %lld maps", (long long)bias.count, (long long)c->maps);
    if (s == VN_OK) s = vn_factor_input(e, IN_W, 1, &w);
    if (s == VN_OK) {
        vn_parallel(c->batch * c->channels, 1, read_range, &d);
        vn_factor_plane(d.value, d.err, NULL, cells, VN_FMT_NONE, &x);
        a_off = vn_alloc((size_t)(pairs ? pairs : 1), sizeof *a_off);
        b_off = vn_alloc((size_t)(pairs ? pairs : 1), sizeof *b_off);
        c_off = vn_alloc((size_t)(pairs ? pairs : 1), sizeof *c_off);
        if (!a_off || !b_off || !c_off) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    }
    if (s == VN_OK) {
        for (int64_t i = 0; i < pairs; ++i) {
            a_off[i] = i % c->groups * c->mg * c->depth;
            b_off[i] = i * c->depth * c->w.positions;
            c_off[i] = i % c->groups * c->mg;
        }
        vn_product_t p;
        bias.rs = 1;
        const vn_batch_t g = {.count = pairs,
                              .m = c->mg,
                              .n = c->w.positions,
                              .k = c->depth,
                              .a_off = a_off,
                              .b_off = b_off,
                              .lda = c->depth,
                              .ldb = c->w.positions,
                              .bias = bias,
                              .bias_off = c_off};
        s = vn_product_begin(&p, e, &w, &x, c->depth, 1, 1, bias.c ? &bias : NULL);
        if (s == VN_OK) s = vn_product_batch(&p, &g);
        vn_product_end(&p);
    }
    vn_factor_free(&w);
    vn_free(a_off);
    vn_free(b_off);
    vn_free(c_off);
    vn_free(d.value);
    vn_free(d.err);
    return s;
}
