/* dot.c -- the index maps of dot.h for each operator that sums products of operand elements, or operand elements. */
#include "judge/dot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/edit.h"

enum { MAX_DEPTH = 1 << 22 };

static vn_status_t nomem(vn_error_t *err) { return vn_fail(err, VN_ERR_NOMEM, "no memory for the terms of a sum"); }

void vn_dot_close(vn_dot_t *d) {
    vn_free(d->a);
    vn_free(d->b);
    vn_free(d->a0);
    vn_free(d->b0);
    vn_free(d->gains);
    vn_free(d->bias);
    *d = (vn_dot_t){0};
}

/* ---- places ---- */

/* Place a of the unwindowed axes, moved to where the windowed ones look; -1: outside. */
static int64_t windowed(const vn_dot_t *d, const int64_t *at, const int64_t *k, int64_t a) {
    for (int w = 0; w < d->windows; ++w) {
        const vn_dot_window_t *v = &d->window[w];
        int64_t h =
            v->transposed ? at[v->out] + v->pad - k[v->tap] * v->dilation : at[v->out] * v->stride + k[v->tap] * v->dilation - v->pad;
        if (v->transposed) h = h < 0 || h % v->stride ? -1 : h / v->stride;
        if (h < 0 || h >= v->size) return -1;
        a += h * v->step;
    }
    return a;
}

void vn_dot_places(const vn_dot_t *d, int64_t i, int64_t *ia, int64_t *ib) {
    int64_t at[VN_MAX_RANK + 2], k[VN_MAX_RANK] = {0}, base_a = 0, base_b = 0;
    for (int r = d->rank - 1; r >= 0; --r) {
        at[r] = i % d->dims[r];
        i /= d->dims[r];
        base_a += at[r] * d->out_a[r];
        base_b += at[r] * d->out_b[r];
    }
    const int last = d->axes - 1;
    for (int64_t t = 0; t < d->depth; t += d->length[last]) { /* the last summed axis is a line */
        int64_t a = base_a, b = base_b;
        for (int x = 0; x < last; ++x) {
            a += k[x] * d->sum_a[x];
            b += k[x] * d->sum_b[x];
        }
        for (int64_t l = 0; l < d->length[last]; ++l) {
            ia[t + l] = a + l * d->sum_a[last];
            ib[t + l] = b + l * d->sum_b[last];
            k[last] = l;
            if (d->windows) ia[t + l] = windowed(d, at, k, ia[t + l]);
        }
        for (int x = last - 1; x >= 0; --x) {
            if (++k[x] < d->length[x]) break;
            k[x] = 0;
        }
    }
}

void vn_dot_terms(const vn_dot_t *d, const int64_t *ia, const int64_t *ib, double *out) {
    for (int64_t t = 0; t < d->depth; ++t) {
        if (ia[t] < 0) {
            out[t] = 0;
            continue;
        }
        const double a = d->a[ia[t]] - (d->a0 ? d->a0[ia[t]] : 0);
        switch (d->term) {
        case VN_DOT_PRODUCT: out[t] = a * (d->b[ib[t]] - (d->b0 ? d->b0[ib[t]] : 0)); break;
        case VN_DOT_PLAIN: out[t] = a; break;
        case VN_DOT_ABS: out[t] = fabs(a); break;
        case VN_DOT_SQUARE: out[t] = a * a; break;
        case VN_DOT_EXP: out[t] = exp(a); break;
        }
    }
}

double vn_dot_gain(const vn_dot_t *d, int64_t i, const int64_t *ia) {
    if (d->average) {
        int64_t n = 0;
        for (int64_t t = 0; t < d->depth; ++t) n += ia[t] >= 0;
        return n ? 1.0 / (double)n : 1;
    }
    return d->gain * (d->gains ? d->gains[i / d->inner % d->channels] : 1);
}

void vn_dot_order(const vn_dot_t *d, int axis, int64_t *order) {
    int64_t inner = 1, n = 0;
    for (int x = axis + 1; x < d->axes; ++x) inner *= d->length[x];
    const int64_t length = d->length[axis], outer = d->depth / inner / length;
    for (int64_t k = 0; k < length; ++k)
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t i = 0; i < inner; ++i) order[n++] = (o * length + k) * inner + i;
}

static double ulp_of(const vn_explain_t *e, double x) {
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    return f == VN_FMT_NONE ? 0 : vn_ulp(f, x);
}

bool vn_dot_missing(const vn_dot_t *d, const vn_explain_t *e, int64_t i, double sum, double gain, bool tight, double *lo, double *hi) {
    const double x = e->x[i], y = e->y[i];
    const vn_ref_t *r = e->c->ref;
    if (!isfinite(x) || !isfinite(y) || gain == 0) return false;
    if (d->form == VN_DOT_INT32) {
        *lo = *hi = (double)(int32_t)(uint32_t)(uint64_t)((int64_t)y - (int64_t)x);
        return true;
    }
    if (d->form == VN_DOT_CODE) {
        const double v = gain * (sum + (d->bias ? d->bias[i / d->inner % d->channels] : 0)), window = 0.5 + 0x1p-20 * (1 + fabs(v));
        const double most = (v - (x - d->zero) + window) / gain, least = (v - (x - d->zero) - window) / gain;
        *lo = x >= d->hi ? -INFINITY : least; /* a saturated code bounds the sum on one side */
        *hi = x <= d->lo ? INFINITY : most;
        return isfinite(*lo) || isfinite(*hi);
    }
    double room = vn_room(r, i);
    const vn_format_t f = vn_format_of(e->c->actual->dtype);
    if (room < 0) room = ulp_of(e, y); /* one rounding: another sum is rounded elsewhere */
    else if (f != VN_FMT_NONE) room += 2 * vn_format_info(f)->u * fmax(0, fabs(x) - fabs(y)); /* the store of a larger number */
    if (tight && r->var && r->var[i] > 0) {
        const double noise = vn_chernoff_z(VN_NAME_NOISE, 0) * sqrt(r->var[i]) + ulp_of(e, x);
        room = room < noise ? room : noise;
    }
    if (!isfinite(room)) return false;
    double t = y - x;
    if (d->form == VN_DOT_ROOT) {
        t = y * y - x * x;
        room *= 2 * fmax(fabs(x), fabs(y)) + room;
    } else if (d->form == VN_DOT_LOG) {
        t = exp(y) - exp(x);
        room *= fmax(exp(x), exp(y));
    }
    const double a = (t - room) / gain, b = (t + room) / gain;
    *lo = a < b ? a : b;
    *hi = a < b ? b : a;
    return true;
}

/* ---- operators ---- */

static vn_status_t plane(const vn_tensor_t *t, double **out, vn_error_t *err) {
    *out = vn_alloc((size_t)t->count + 1, sizeof **out);
    if (!*out) return nomem(err);
    vn_tensor_to_f64(t, *out);
    return VN_OK;
}

static void add_out(vn_dot_t *d, int64_t dim, int64_t a, int64_t b) {
    d->dims[d->rank] = dim;
    d->out_a[d->rank] = a;
    d->out_b[d->rank++] = b;
}
static void add_sum(vn_dot_t *d, const char *what, int64_t length, int64_t a, int64_t b) {
    snprintf(d->what[d->axes], sizeof d->what[0], "%s", what);
    d->length[d->axes] = length;
    d->sum_a[d->axes] = a;
    d->sum_b[d->axes++] = b;
}

/* Strides of the output's batch axes into t, whose last two axes are the matrix; broadcast where the dimension is 1. */
static void batch(const vn_tensor_t *t, int batches, const int64_t *dims, int64_t *step) {
    int64_t stride = t->rank > 1 ? t->dims[t->rank - 1] * t->dims[t->rank - 2] : 0;
    for (int k = batches - 1; k >= 0; --k) {
        const int axis = t->rank - 2 - (batches - k);
        const int64_t dim = axis >= 0 ? t->dims[axis] : 1;
        step[k] = dim == 1 || dim != dims[k] ? 0 : stride;
        stride *= dim;
    }
}

static bool matmul(vn_dot_t *d, const vn_tensor_t *a, const vn_tensor_t *b, const vn_tensor_t *y, bool ta, bool tb) {
    if (a->rank < 1 || b->rank < 1) return false;
    ta = ta && a->rank > 1;
    tb = tb && b->rank > 1;
    const int64_t ra = a->rank > 1 ? a->dims[a->rank - 2] : 1, ca = a->dims[a->rank - 1];
    const int64_t rb = b->rank > 1 ? b->dims[b->rank - 2] : b->dims[0], cb = b->rank > 1 ? b->dims[b->rank - 1] : 1;
    const int64_t depth = ta ? ra : ca;
    if (depth != (tb ? cb : rb)) return false;
    const int matrix = (a->rank > 1) + (b->rank > 1), batches = y->rank - matrix;
    if (batches < 0) return false;
    int64_t sa[VN_MAX_RANK], sb[VN_MAX_RANK];
    batch(a, batches, y->dims, sa);
    batch(b, batches, y->dims, sb);
    for (int k = 0; k < batches; ++k) add_out(d, y->dims[k], sa[k], sb[k]);
    if (a->rank > 1) add_out(d, ta ? ca : ra, ta ? 1 : ca, 0);
    if (b->rank > 1) add_out(d, tb ? rb : cb, 0, tb ? cb : 1);
    add_sum(d, "K", depth, ta ? ca : 1, tb ? 1 : cb);
    return true;
}

/* Windows over the spatial axes of x ([N, C, ...]); output axis of spatial axis s is first + s, its tap the summed axis tap + s. */
static bool windows(vn_dot_t *d, const vn_variant_t *v, const vn_tensor_t *x, const int64_t *out, const int64_t *kernel, int first, int tap,
                    bool transposed) {
    const int spatial = x->rank - 2;
    const char *mode = vn_node_string(v->node, "auto_pad", "NOTSET");
    int64_t np, ns, nd;
    const int64_t *pads = vn_node_ints(v->node, "pads", &np), *strides = vn_node_ints(v->node, "strides", &ns),
                  *dilations = vn_node_ints(v->node, "dilations", &nd);
    if ((pads && np != 2 * spatial) || (strides && ns != spatial) || (dilations && nd != spatial)) return false;
    if (transposed && (strncmp(mode, "SAME", 4) == 0 || vn_node_attr(v->node, "output_shape"))) return false;
    int64_t step = 1;
    for (int s = spatial - 1; s >= 0; --s) {
        vn_dot_window_t *w = &d->window[s];
        *w = (vn_dot_window_t){.out = first + s,
                               .tap = tap + s,
                               .stride = strides ? strides[s] : 1,
                               .dilation = dilations ? dilations[s] : 1,
                               .size = x->dims[2 + s],
                               .step = step,
                               .transposed = transposed};
        step *= x->dims[2 + s];
        if (w->stride < 1 || w->dilation < 1) return false;
        if (strcmp(mode, "NOTSET") == 0) w->pad = pads ? pads[s] : 0;
        if (strncmp(mode, "SAME", 4) == 0) {
            const int64_t total = (out[s] - 1) * w->stride + (kernel[s] - 1) * w->dilation + 1 - w->size;
            if (total > 0) w->pad = strcmp(mode, "SAME_UPPER") == 0 ? total / 2 : total - total / 2;
        }
    }
    d->windows = spatial;
    return true;
}

static bool conv(vn_dot_t *d, const vn_variant_t *v, const vn_tensor_t *x, const vn_tensor_t *w, const vn_tensor_t *y, bool transposed) {
    if (x->rank < 3 || w->rank != x->rank || y->rank != x->rank) return false;
    const int spatial = x->rank - 2;
    const int64_t groups = vn_node_int(v->node, "group", 1), channels = x->dims[1], maps = y->dims[1];
    if (groups < 1 || channels % groups || maps % groups || channels == 0) return false;
    const int64_t cg = channels / groups, mg = maps / groups;
    if (transposed ? w->dims[0] != channels || w->dims[1] != mg : w->dims[0] != maps || w->dims[1] != cg) return false;
    int64_t image = 1, taps = 1;
    for (int s = 0; s < spatial; ++s) {
        image *= x->dims[2 + s];
        taps *= w->dims[2 + s];
    }
    add_out(d, x->dims[0], channels * image, 0);
    add_out(d, groups, cg * image, transposed ? cg * mg * taps : mg * cg * taps);
    add_out(d, mg, 0, transposed ? taps : cg * taps);
    for (int s = 0; s < spatial; ++s) add_out(d, y->dims[2 + s], 0, 0);
    add_sum(d, "channels", cg, image, transposed ? mg * taps : taps);
    int64_t step = taps;
    for (int s = 0; s < spatial; ++s) {
        step /= w->dims[2 + s] ? w->dims[2 + s] : 1;
        char what[16];
        snprintf(what, sizeof what, "kernel axis %d", s);
        add_sum(d, what, w->dims[2 + s], 0, step);
    }
    d->channels = maps;
    d->inner = 1;
    for (int s = 0; s < spatial; ++s) d->inner *= y->dims[2 + s];
    return windows(d, v, x, y->dims + 2, w->dims + 2, 3, 1, transposed);
}

static bool pool(vn_dot_t *d, const vn_variant_t *v, const vn_tensor_t *x, const vn_tensor_t *y) {
    int64_t n, kernel[VN_MAX_RANK], image = 1;
    const int64_t *shape = vn_node_ints(v->node, "kernel_shape", &n);
    if (x->rank < 3 || y->rank != x->rank || !shape || n != x->rank - 2 || vn_node_int(v->node, "ceil_mode", 0)) return false;
    for (int s = 0; s < x->rank - 2; ++s) image *= x->dims[2 + s];
    add_out(d, x->dims[0], x->dims[1] * image, 0);
    add_out(d, x->dims[1], image, 0);
    for (int s = 0; s < n; ++s) {
        add_out(d, y->dims[2 + s], 0, 0);
        kernel[s] = shape[s];
        char what[16];
        snprintf(what, sizeof what, "kernel axis %d", s);
        add_sum(d, what, shape[s], 0, 0);
    }
    d->maximum = vn_variant_is(v, "", "MaxPool");
    d->average = !d->maximum && !vn_node_int(v->node, "count_include_pad", 0);
    for (int s = 0; s < n && !d->maximum; ++s) d->gain /= (double)kernel[s];
    return windows(d, v, x, y->dims + 2, kernel, 2, 0, false);
}

static bool reduce(vn_dot_t *d, const vn_variant_t *v, const vn_tensor_t *x) {
    int64_t given = 0, stride[VN_MAX_RANK], s = 1;
    const int64_t *axes = vn_node_ints(v->node, "axes", &given);
    bool reduced[VN_MAX_RANK] = {false};
    const bool operand = v->node->n_inputs > 1 && *v->node->inputs[1];
    const vn_tensor_t *list = operand ? vn_variant_operand(v, 1) : NULL;
    if (operand && !list) return false;
    for (int64_t k = 0; k < (axes ? given : list ? list->count : 0); ++k) {
        const int64_t axis = axes ? axes[k] : vn_tensor_get_i64(list, k);
        if (axis < -x->rank || axis >= x->rank) return false;
        reduced[axis < 0 ? axis + x->rank : axis] = true;
    }
    if (axes ? given == 0 : !list || list->count == 0) {
        if (vn_node_int(v->node, "noop_with_empty_axes", 0)) return false;
        for (int k = 0; k < x->rank; ++k) reduced[k] = true;
    }
    for (int k = x->rank - 1; k >= 0; --k) {
        stride[k] = s;
        s *= x->dims[k];
    }
    for (int k = 0; k < x->rank; ++k) {
        char what[16];
        snprintf(what, sizeof what, "axis %d", k);
        if (reduced[k]) add_sum(d, what, x->dims[k], stride[k], 0);
        else add_out(d, x->dims[k], stride[k], 0);
    }
    return d->axes > 0;
}

static bool global_pool(vn_dot_t *d, const vn_tensor_t *x) {
    if (x->rank < 3) return false;
    int64_t stride[VN_MAX_RANK], s = 1;
    for (int k = x->rank - 1; k >= 0; --k) {
        stride[k] = s;
        s *= x->dims[k];
    }
    for (int k = 0; k < x->rank; ++k) {
        char what[16];
        snprintf(what, sizeof what, "axis %d", k);
        if (k > 1) add_sum(d, what, x->dims[k], stride[k], 0);
        else add_out(d, x->dims[k], stride[k], 0);
    }
    return true;
}

/* Two letters for the axes of each operand, or one operand; no ellipsis, no letter twice in one operand. */
static bool einsum(vn_dot_t *d, const vn_variant_t *v, const vn_tensor_t *a, const vn_tensor_t *b) {
    char text[128];
    size_t n = 0;
    for (const char *s = vn_node_string(v->node, "equation", ""); *s && n + 1 < sizeof text; ++s)
        if (*s != ' ') text[n++] = *s;
    text[n] = '\0';
    const char *arrow = strstr(text, "->"), *comma = strchr(text, ',');
    if (!arrow || strchr(text, '.') || (b && (!comma || comma > arrow)) || (!b && comma)) return false;
    const char *end_a = b ? comma : arrow, *start_b = b ? comma + 1 : arrow;
    if (end_a - text != a->rank || (b && arrow - start_b != b->rank)) return false;
    int64_t sa[256] = {0}, sb[256] = {0}, dim[256] = {0}, step = 1;
    for (int k = a->rank - 1; k >= 0; --k) {
        const unsigned char c = (unsigned char)text[k];
        if (dim[c]) return false;
        dim[c] = a->dims[k];
        sa[c] = step;
        step *= a->dims[k];
    }
    step = 1;
    for (int k = b ? b->rank - 1 : -1; k >= 0; --k) {
        const unsigned char c = (unsigned char)start_b[k];
        if (sb[c] || (dim[c] && dim[c] != b->dims[k])) return false;
        dim[c] = b->dims[k];
        sb[c] = step;
        step *= b->dims[k];
    }
    bool kept[256] = {false};
    for (const char *s = arrow + 2; *s; ++s) {
        const unsigned char c = (unsigned char)*s;
        if (kept[c] || !dim[c]) return false;
        kept[c] = true;
        add_out(d, dim[c], sa[c], sb[c]);
    }
    for (const char *s = text; s < arrow; ++s) {
        const unsigned char c = (unsigned char)*s;
        if (c == ',' || kept[c]) continue;
        kept[c] = true;
        char what[16];
        snprintf(what, sizeof what, "index %c", c);
        add_sum(d, what, dim[c], sa[c], sb[c]);
    }
    return d->axes > 0;
}

/* A [.., K] times the transpose of weights [N, blocks of K]. */
static bool nbits(vn_dot_t *d, const vn_variant_t *v, const vn_tensor_t *a, const vn_tensor_t *y) {
    const int64_t k = vn_node_int(v->node, "K", -1), n = vn_node_int(v->node, "N", -1), block = vn_node_int(v->node, "block_size", -1);
    if (k < 1 || n < 1 || block < 1 || a->rank < 1 || a->dims[a->rank - 1] != k || y->count != a->count / k * n) return false;
    add_out(d, a->count / k, k, 0);
    add_out(d, n, 0, (k + block - 1) / block * block);
    add_sum(d, "K", k, 1, 1);
    return true;
}

/* The weights of MatMulNBits as numbers, [N, blocks * block_size]. */
static vn_status_t nbits_plane(vn_dot_t *d, const vn_variant_t *v, bool *known, vn_error_t *err) {
    const int64_t k = vn_node_int(v->node, "K", 0), n = vn_node_int(v->node, "N", 0), block = vn_node_int(v->node, "block_size", 1),
                  bits = vn_node_int(v->node, "bits", 4), blocks = (k + block - 1) / block, zero_row = (blocks * bits + 7) / 8;
    const vn_tensor_t *s = vn_variant_operand(v, 2), *z = vn_variant_operand(v, 3);
    const bool has_z = v->node->n_inputs > 3 && *v->node->inputs[3];
    *known = s && (!has_z || z) && (bits == 2 || bits == 4 || bits == 8) && block * bits % 8 == 0 && d->tb->dtype == VN_U8 &&
             d->tb->count == n * blocks * (block * bits / 8) && s->count == n * blocks &&
             (!z || z->count == (z->dtype == VN_U8 ? n * zero_row : n * blocks)) && n * blocks * block <= INT64_C(1) << 26;
    if (!*known) return VN_OK;
    d->b = vn_alloc((size_t)(n * blocks * block), sizeof *d->b);
    if (!d->b) return nomem(err);
    const int64_t mask = (1 << bits) - 1, per = 8 / bits;
    for (int64_t row = 0; row < n; ++row)
        for (int64_t g = 0; g < blocks; ++g) {
            double zero = (double)(1 << (bits - 1));
            if (z && z->dtype == VN_U8) zero = (double)(vn_tensor_get_i64(z, row * zero_row + g / per) >> (g % per * bits) & mask);
            else if (z) zero = vn_tensor_get_f64(z, row * blocks + g);
            const double scale = vn_tensor_get_f64(s, row * blocks + g);
            for (int64_t i = 0; i < block; ++i) {
                const int64_t at = (row * blocks + g) * block + i;
                d->b[at] = ((double)(vn_tensor_get_i64(d->tb, at / per) >> (at % per * bits) & mask) - zero) * scale;
            }
        }
    return VN_OK;
}

/* Zero point operand k of operand x as a plane: one number, or along `axis` of x. */
static vn_status_t zeros(const vn_variant_t *v, int k, const vn_tensor_t *x, int axis, double **out, bool *known, vn_error_t *err) {
    *out = NULL;
    if (k >= v->node->n_inputs || !*v->node->inputs[k]) return VN_OK;
    const vn_tensor_t *z = vn_variant_operand(v, k);
    if (!z || (z->count != 1 && (axis < 0 || axis >= x->rank || z->count != x->dims[axis]))) {
        *known = false;
        return VN_OK;
    }
    *out = vn_alloc((size_t)x->count + 1, sizeof **out);
    if (!*out) return nomem(err);
    int64_t inner = 1;
    for (int d = axis + 1; axis >= 0 && d < x->rank; ++d) inner *= x->dims[d];
    for (int64_t i = 0; i < x->count; ++i) (*out)[i] = vn_tensor_get_f64(z, z->count == 1 ? 0 : i / inner % z->count);
    return VN_OK;
}

typedef enum shape { MATMUL, GEMM, CONV, CONV_TRANSPOSED, POOL, GLOBAL_POOL, REDUCE, EINSUM, NBITS } shape_t;
static const struct operator{
    const char *domain, *op;
    shape_t shape;
    int a, b, za, zb; /* operands; -1: none */
    vn_dot_form_t form;
    vn_dot_term_t term;
    int sa, sb, sy, zy, bias; /* of CODE */
}
table[] = {
    {"", "MatMul", MATMUL, 0, 1, -1, -1, VN_DOT_LINEAR, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"com.microsoft", "FusedMatMul", MATMUL, 0, 1, -1, -1, VN_DOT_LINEAR, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"com.microsoft", "MatMulNBits", NBITS, 0, 1, -1, -1, VN_DOT_LINEAR, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"", "Gemm", GEMM, 0, 1, -1, -1, VN_DOT_LINEAR, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"", "Conv", CONV, 0, 1, -1, -1, VN_DOT_LINEAR, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"", "ConvTranspose", CONV_TRANSPOSED, 0, 1, -1, -1, VN_DOT_LINEAR, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"", "Einsum", EINSUM, 0, 1, -1, -1, VN_DOT_LINEAR, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"", "AveragePool", POOL, 0, -1, -1, -1, VN_DOT_LINEAR, VN_DOT_PLAIN, 0, 0, 0, 0, 0},
    {"", "MaxPool", POOL, 0, -1, -1, -1, VN_DOT_LINEAR, VN_DOT_PLAIN, 0, 0, 0, 0, 0},
    {"", "GlobalAveragePool", GLOBAL_POOL, 0, -1, -1, -1, VN_DOT_LINEAR, VN_DOT_PLAIN, 0, 0, 0, 0, 0},
    {"", "ReduceSum", REDUCE, 0, -1, -1, -1, VN_DOT_LINEAR, VN_DOT_PLAIN, 0, 0, 0, 0, 0},
    {"", "ReduceMean", REDUCE, 0, -1, -1, -1, VN_DOT_LINEAR, VN_DOT_PLAIN, 0, 0, 0, 0, 0},
    {"", "ReduceL1", REDUCE, 0, -1, -1, -1, VN_DOT_LINEAR, VN_DOT_ABS, 0, 0, 0, 0, 0},
    {"", "ReduceSumSquare", REDUCE, 0, -1, -1, -1, VN_DOT_LINEAR, VN_DOT_SQUARE, 0, 0, 0, 0, 0},
    {"", "ReduceL2", REDUCE, 0, -1, -1, -1, VN_DOT_ROOT, VN_DOT_SQUARE, 0, 0, 0, 0, 0},
    {"", "ReduceLogSum", REDUCE, 0, -1, -1, -1, VN_DOT_LOG, VN_DOT_PLAIN, 0, 0, 0, 0, 0},
    {"", "ReduceLogSumExp", REDUCE, 0, -1, -1, -1, VN_DOT_LOG, VN_DOT_EXP, 0, 0, 0, 0, 0},
    {"", "MatMulInteger", MATMUL, 0, 1, 2, 3, VN_DOT_INT32, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"", "ConvInteger", CONV, 0, 1, 2, 3, VN_DOT_INT32, VN_DOT_PRODUCT, 0, 0, 0, 0, 0},
    {"", "QLinearMatMul", MATMUL, 0, 3, 2, 5, VN_DOT_CODE, VN_DOT_PRODUCT, 1, 4, 6, 7, -1},
    {"", "QLinearConv", CONV, 0, 3, 2, 5, VN_DOT_CODE, VN_DOT_PRODUCT, 1, 4, 6, 7, 8},
};

/* Scales of a requantised product: one number each, or the weight's per channel (CONV) or column (MATMUL). */
static vn_status_t code(const vn_variant_t *v, const struct operator* o, const vn_tensor_t *y, vn_dot_t *d, bool *known, vn_error_t *err) {
    const vn_tensor_t *sa = vn_variant_operand(v, o->sa), *sb = vn_variant_operand(v, o->sb), *sy = vn_variant_operand(v, o->sy),
                      *zy = vn_variant_operand(v, o->zy);
    if (o->shape == MATMUL) {
        d->channels = y->rank ? y->dims[y->rank - 1] : 1;
        d->inner = 1;
    }
    if (!sa || !sb || !sy || !zy || sa->count != 1 || sy->count != 1 || zy->count != 1 || (sb->count != 1 && sb->count != d->channels) ||
        vn_dtype_bits(y->dtype) > 8) {
        *known = false;
        return VN_OK;
    }
    d->gains = vn_alloc((size_t)d->channels + 1, sizeof *d->gains);
    if (!d->gains) return nomem(err);
    for (int64_t k = 0; k < d->channels; ++k)
        d->gains[k] = vn_tensor_get_f64(sa, 0) * vn_tensor_get_f64(sb, sb->count == 1 ? 0 : k) / vn_tensor_get_f64(sy, 0);
    d->zero = vn_tensor_get_f64(zy, 0);
    const bool is_signed = vn_dtype_kind(y->dtype) == VN_KIND_SIGNED;
    d->lo = is_signed ? -ldexp(1, vn_dtype_bits(y->dtype) - 1) : 0;
    d->hi = ldexp(1, vn_dtype_bits(y->dtype) - is_signed) - 1;
    if (o->bias < 0 || o->bias >= v->node->n_inputs || !*v->node->inputs[o->bias]) return VN_OK;
    const vn_tensor_t *bias = vn_variant_operand(v, o->bias);
    *known = bias && bias->count == d->channels;
    return *known ? plane(bias, &d->bias, err) : VN_OK;
}

static bool shaped(vn_dot_t *d, const vn_variant_t *v, const struct operator* o, const vn_tensor_t *y) {
    const vn_tensor_t *a = d->ta, *b = d->tb;
    switch (o->shape) {
    case MATMUL:
        if (vn_node_int(v->node, "transBatchA", 0) || vn_node_int(v->node, "transBatchB", 0)) return false;
        d->gain = vn_node_float(v->node, "alpha", 1);
        return matmul(d, a, b, y, vn_node_int(v->node, "transA", 0) != 0, vn_node_int(v->node, "transB", 0) != 0);
    case GEMM:
        d->gain = vn_node_float(v->node, "alpha", 1);
        return a->rank == 2 && b->rank == 2 &&
               matmul(d, a, b, y, vn_node_int(v->node, "transA", 0) != 0, vn_node_int(v->node, "transB", 0) != 0);
    case CONV: return conv(d, v, a, b, y, false);
    case CONV_TRANSPOSED: return conv(d, v, a, b, y, true);
    case POOL: return pool(d, v, a, y);
    case GLOBAL_POOL: return global_pool(d, a);
    case REDUCE: return reduce(d, v, a);
    case NBITS: return nbits(d, v, a, y);
    case EINSUM: return v->node->n_inputs <= 2 && einsum(d, v, a, b);
    }
    return false;
}

vn_status_t vn_dot_open(const vn_variant_t *v, vn_dot_t *d, bool *known, vn_error_t *err) {
    *d = (vn_dot_t){.gain = 1, .operand_b = -1};
    *known = false;
    const struct operator* o = NULL;
    const vn_tensor_t *y = v->e->c->actual;
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k)
        if (vn_variant_is(v, table[k].domain, table[k].op)) o = &table[k];
    if (!o || !v->e->c->q->node || !v->e->x || v->node->n_inputs < 1) return VN_OK;
    d->form = o->form;
    d->term = o->term;
    d->operand_a = o->a;
    d->ta = vn_variant_operand(v, o->a);
    if (o->b >= 0 && !(o->shape == EINSUM && v->node->n_inputs < 2)) {
        d->operand_b = o->b;
        if (!(d->tb = vn_variant_operand(v, o->b))) return VN_OK;
    } else if (o->b >= 0) {
        d->term = VN_DOT_PLAIN;
    }
    if (!d->ta || d->ta->count == 0 || (d->tb && d->tb->count == 0) || !shaped(d, v, o, y)) return VN_OK;
    d->depth = d->count = 1;
    for (int k = 0; k < d->axes; ++k)
        if (!vn_i64_mul(d->depth, d->length[k], &d->depth)) return VN_OK;
    for (int k = 0; k < d->rank; ++k)
        if (!vn_i64_mul(d->count, d->dims[k], &d->count)) return VN_OK;
    if (d->count != v->e->n || d->depth < 1 || d->depth > MAX_DEPTH) return VN_OK;
    if ((o->shape == REDUCE && strcmp(o->op, "ReduceMean") == 0) || o->shape == GLOBAL_POOL) d->gain = 1.0 / (double)d->depth;
    *known = true;
    vn_status_t s = plane(d->ta, &d->a, err);
    if (s == VN_OK && o->shape == NBITS) s = nbits_plane(d, v, known, err);
    else if (s == VN_OK && d->tb) s = plane(d->tb, &d->b, err);
    const bool is_conv = o->shape == CONV;
    if (s == VN_OK && o->za >= 0) s = zeros(v, o->za, d->ta, is_conv ? -1 : d->ta->rank - 2, &d->a0, known, err);
    if (s == VN_OK && o->zb >= 0) s = zeros(v, o->zb, d->tb, is_conv ? 0 : d->tb->rank - 1, &d->b0, known, err);
    if (s == VN_OK && o->form == VN_DOT_CODE) s = code(v, o, y, d, known, err);
    if (s != VN_OK || !*known) {
        vn_dot_close(d);
        *known = false;
    }
    return s;
}
