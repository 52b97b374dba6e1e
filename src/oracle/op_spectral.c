/* op_spectral.c -- family "spectral": DFT 17 and 20, STFT; windows and the mel matrix stand in op_window.c.
 *
 * Claim SPECTRAL-1. Whatever the algorithm (direct sum, Cooley-Tukey, chirp): with S = sum(|re| + |im|) and Q = sum of squares of a signal of
 * N samples, each component is within g(N+5) S + 16 ceil(log2 4N) u sqrt(N Q): the first part is a direct sum in any order with correctly
 * rounded twiddles (any factorisation is one), the second a convolution of length at most 4 N by fast transforms. A window: one more
 * product per sample (in the 5); the inverse is divided by N: + u |y|.
 * Variance: random order of N products.
 */
#include "oracle/spectral.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct spectrum {
    vn_eval_t *e;
    const vn_fourier_t *f;
    const double *x, *window;
    int64_t n;     /* transform length */
    int64_t given; /* samples present */
    int64_t step;  /* between samples, in complex units */
    int in_parts, out_parts;
    bool inverse, half_in;
    int64_t bins; /* outputs kept */
    int64_t out_step;
    int failed; /* atomic */
    int64_t (*source)(const struct spectrum *s, int64_t row);
    int64_t (*target)(const struct spectrum *s, int64_t row);
    int64_t inner, rows_per_sample, hop, length; /* for source and target */
} spectrum_t;

static void load(const spectrum_t *s, int64_t base, double *re, double *im) {
    memset(re, 0, (size_t)s->n * sizeof *re);
    memset(im, 0, (size_t)s->n * sizeof *im);
    const int64_t kept = s->half_in ? s->n / 2 + 1 : s->n, m = s->given < kept ? s->given : kept;
    for (int64_t t = 0; t < m; ++t) {
        const int64_t at = (base + t * s->step) * s->in_parts;
        const double w = s->window ? s->window[t] : 1;
        re[t] = s->x[at] * w;
        im[t] = s->in_parts == 2 ? s->x[at + 1] * w : 0;
    }
    if (!s->half_in) return;
    im[0] = 0; /* a real signal's spectrum: mirrored, its own mirror points real */
    if (s->n % 2 == 0) im[s->n / 2] = 0;
    for (int64_t t = 1; t < (s->n + 1) / 2; ++t) re[s->n - t] = re[t], im[s->n - t] = -im[t];
}

static void put(const spectrum_t *s, int64_t at, double y, double S, double Q, double energy) {
    vn_ref_t *r = &s->e->out[0];
    const double u = vn_u(s->e), n = (double)s->n, scale = s->inverse ? 1 / n : 1;
    r->value[at] = y * scale;
    if (!r->bound || !isfinite(y)) return;
    r->bound[at] = (vn_gamma(n + 5, u) * S + 16 * ceil(log2(4 * n)) * u * sqrt(n * Q) + n * vn_eta(s->e)) * scale +
                   (s->inverse ? 2 * u * fabs(y * scale) : 0);
    if (r->own) r->own[at] = (vn_fourier_gain(s->f) + 2) * 0x1p-53 * S * scale;
    if (r->var) r->var[at] = scale * scale * (0.18 * u * u * ((n + 1) * (Q / 6 + energy / 3) + 2 * Q));
}

static void run_range(void *ctx, int64_t begin, int64_t end) {
    spectrum_t *s = ctx;
    double *room = vn_alloc((size_t)s->n, 8 * sizeof *room);
    if (!room) {
        __atomic_store_n(&s->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    double *re = room, *im = room + s->n, *yr = room + 2 * s->n, *yi = room + 3 * s->n;
    for (int64_t row = begin; row < end; ++row) {
        load(s, s->source(s, row), re, im);
        double S = 0, Q = 0;
        for (int64_t t = 0; t < s->n; ++t) S += fabs(re[t]) + fabs(im[t]), Q += re[t] * re[t] + im[t] * im[t];
        vn_fourier_run(s->f, s->inverse, re, im, yr, yi, room + 4 * s->n);
        const int64_t base = s->target(s, row);
        for (int64_t k = 0; k < s->bins; ++k) {
            const int64_t at = (base + k * s->out_step) * s->out_parts;
            put(s, at, yr[k], S, Q, yr[k] * yr[k]);
            if (s->out_parts == 2) put(s, at + 1, yi[k], S, Q, yi[k] * yi[k]);
        }
    }
    vn_free(room);
}

/* ---- single elements in more digits ----
 *
 * Claim SPECTRAL-5. First whole rows are transformed in double-double numbers (gain VN_DD_U S, as SPECTRAL-2): that decides nearly all. What it does not decide
 * is summed by its definition in tracked numbers (PREC-9), as many elements as MOST_TERMS terms allow.
 */

enum { LONGEST = 1 << 20, MOST_TERMS = 1 << 16 };

typedef struct part {
    int64_t row, i; /* of the request */
} part_t;

typedef struct refine {
    const spectrum_t *s;
    const vn_refine_t *q;
    vn_tracked_t *cosine, *sine; /* [n], of 2 pi k / n */
    vn_dd_t *cosine_dd, *sine_dd;
    const part_t *parts;  /* by rows */
    const int64_t *first; /* of group g: parts[first[g]] .. */
    int64_t *left;        /* [q->n]: elements that are not decided, gathered by `open` */
    int64_t open;         /* atomic */
    int failed;           /* atomic */
} refine_t;

static int64_t row_of(const spectrum_t *s, int64_t at, int64_t *k, int64_t *part) {
    const int64_t cell = at / s->out_parts;
    *part = at % s->out_parts;
    *k = cell / s->inner % s->bins;
    return cell / (s->inner * s->bins) * s->inner + cell % s->inner;
}

/* Sample t of a row: real and imaginary part, not windowed, and the window. */
static void sample(const spectrum_t *s, int64_t base, int64_t t, double *re, double *im, double *w) {
    const bool mirrored = s->half_in && t > s->n / 2;
    const int64_t at = mirrored ? s->n - t : t, where = (base + at * s->step) * s->in_parts;
    *re = *im = 0;
    *w = s->window ? s->window[t] : 1;
    if (at >= s->given) return;
    *re = s->x[where];
    if (s->in_parts < 2 || (s->half_in && (at == 0 || 2 * at == s->n)))
        return; /* a real signal's spectrum: its own mirror points are real */
    *im = mirrored ? -s->x[where + 1] : s->x[where + 1];
}

/* One element by its definition. */
static void element(const refine_t *j, int64_t i) {
    const spectrum_t *s = j->s;
    int64_t k, part;
    const int64_t row = row_of(s, j->q->at[i], &k, &part), base = s->source(s, row);
    vn_tracked_t sum = vn_tk(0);
    for (int64_t t = 0, turn = 0; t < s->n; ++t, turn = (turn + k) % s->n) { /* (a + ib)(c -+ is) */
        double re, im, w;
        sample(s, base, t, &re, &im, &w);
        const vn_tracked_t c = j->cosine[turn], d = j->sine[turn], weight = vn_tk(w), a = vn_tk_mul(vn_tk(re), weight),
                           b = vn_tk_mul(vn_tk(im), weight);
        const vn_tracked_t first = vn_tk_mul(part ? b : a, c), second = vn_tk_mul(part ? a : b, d);
        sum = vn_tk_add(sum, first);
        sum = (part != 0) == s->inverse ? vn_tk_add(sum, second) : vn_tk_sub(sum, second);
    }
    if (s->inverse) sum = vn_tk_div(sum, vn_tk((double)s->n));
    if (vn_quad_finite(sum.v)) j->q->out[i] = vn_tk_exact(sum);
}

static void elements(void *ctx, int64_t begin, int64_t end) {
    const refine_t *j = ctx;
    for (int64_t k = begin; k < end; ++k) element(j, j->left[k]);
}

/* Rows in double-double. */
static void rows_range(void *ctx, int64_t begin, int64_t end) {
    refine_t *j = ctx;
    const spectrum_t *s = j->s;
    vn_dd_t *room = vn_alloc((size_t)s->n, 6 * sizeof *room);
    if (!room) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    vn_dd_t *re = room, *im = room + s->n, *yr = room + 2 * s->n, *yi = room + 3 * s->n;
    for (int64_t g = begin; g < end; ++g) {
        const int64_t base = s->source(s, j->parts[j->first[g]].row);
        double S = 0;
        for (int64_t t = 0; t < s->n; ++t) {
            double a, b, w;
            sample(s, base, t, &a, &b, &w);
            re[t].hi = vn_dd_two_prod(a, w, &re[t].lo);
            im[t].hi = vn_dd_two_prod(b, w, &im[t].lo);
            S += fabs(re[t].hi) + fabs(im[t].hi);
        }
        vn_fourier_run_dd(s->f, s->inverse, j->cosine_dd, j->sine_dd, re, im, yr, yi, room + 4 * s->n);
        const double own = S < 0x1p900 ? vn_fourier_gain(s->f) * VN_DD_U * S * (1 + 0x1p-30) + (double)s->n * 0x1p-1060 : INFINITY;
        for (int64_t p = j->first[g]; p < j->first[g + 1]; ++p) {
            const int64_t i = j->parts[p].i;
            int64_t k, part;
            row_of(s, j->q->at[i], &k, &part);
            const vn_dd_t y = part ? yi[k] : yr[k];
            vn_exact_t x = {.value = (vn_quad_t)y.hi + y.lo, .own = own};
            if (s->inverse) x = vn_exact_quotient(x, (vn_quad_t)s->n);
            if (vn_quad_finite(x.value)) j->q->out[i] = x;
            if (!vn_exact_decided(j->q->format, &j->q->out[i])) j->left[__atomic_fetch_add(&j->open, 1, __ATOMIC_RELAXED)] = i;
        }
    }
    vn_free(room);
}

static int by_row(const void *a, const void *b) {
    const part_t *x = a, *y = b;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

static int by_index(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static vn_status_t again(refine_t *j) {
    const spectrum_t *s = j->s;
    const int64_t n = j->q->n;
    part_t *parts = vn_alloc((size_t)n + 1, sizeof *parts);
    int64_t *first = vn_alloc((size_t)n + 1, sizeof *first), groups = 0, k, part;
    j->left = vn_alloc((size_t)n + 1, sizeof *j->left);
    if (parts && first && j->left) {
        for (int64_t i = 0; i < n; ++i) parts[i] = (part_t){row_of(s, j->q->at[i], &k, &part), i};
        qsort(parts, (size_t)n, sizeof *parts, by_row);
        for (int64_t i = 0; i < n; ++i)
            if (i == 0 || parts[i].row != parts[i - 1].row) first[groups++] = i;
        first[groups] = n;
        j->parts = parts;
        j->first = first;
        vn_parallel(groups, 1 + 256 / s->n, rows_range, j);
        qsort(j->left, (size_t)j->open, sizeof *j->left, by_index); /* the same ones for every number of threads */
        if (!j->failed) vn_parallel(j->open < MOST_TERMS / s->n ? j->open : MOST_TERMS / s->n, 1, elements, j);
    }
    const bool good = parts && first && j->left && !j->failed;
    vn_free(parts);
    vn_free(first);
    vn_free(j->left);
    return good ? VN_OK : VN_ERR_NOMEM;
}

static vn_status_t refined(vn_eval_t *e, spectrum_t *s) {
    if (s->n > LONGEST) return VN_OK; /* left open */
    refine_t j = {.s = s, .q = e->refine};
    vn_fourier_t *f = vn_fourier_new(s->n);
    s->f = f;
    j.cosine = vn_alloc((size_t)s->n, 2 * sizeof *j.cosine);
    j.cosine_dd = vn_alloc((size_t)s->n, 2 * sizeof *j.cosine_dd);
    vn_status_t st = f && j.cosine && j.cosine_dd ? VN_OK : VN_ERR_NOMEM;
    for (int64_t k = 0; st == VN_OK && k < s->n; ++k) {
        j.sine = j.cosine + s->n;
        j.sine_dd = j.cosine_dd + s->n;
        vn_tk_turn(k, s->n, &j.cosine[k], &j.sine[k]);
        j.cosine_dd[k].hi = (double)j.cosine[k].v;
        j.cosine_dd[k].lo = (double)(j.cosine[k].v - j.cosine_dd[k].hi);
        j.sine_dd[k].hi = (double)j.sine[k].v;
        j.sine_dd[k].lo = (double)(j.sine[k].v - j.sine_dd[k].hi);
    }
    if (st == VN_OK) st = again(&j);
    vn_fourier_free(f);
    vn_free(j.cosine);
    vn_free(j.cosine_dd);
    return st == VN_OK ? VN_OK : vn_eval_fail(e, st, "no memory for a transform of length %lld", (long long)s->n);
}

static vn_status_t transform(vn_eval_t *e, spectrum_t *s, int64_t rows) {
    if (e->refine) return refined(e, s);
    vn_fourier_t *f = vn_fourier_new(s->n);
    if (!f) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a transform of length %lld", (long long)s->n);
    s->e = e;
    s->f = f;
    e->out[0].terms = s->n;
    vn_status_t st = e->want >= VN_WANT_BOUND ? vn_out_own(e, 0) : VN_OK;
    if (st == VN_OK) vn_parallel(rows, 1 + 4096 / s->n, run_range, s);
    vn_fourier_free(f);
    return st == VN_OK && s->failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory") : st;
}

/* ---- DFT ---- */

typedef struct dft {
    int axis;
    int64_t n, bins;
    bool inverse, onesided;
    int parts, out_parts;
    int64_t dims[VN_MAX_RANK];
} dft_t;

static vn_status_t scalar(vn_eval_t *e, int k, int64_t *out) {
    int n;
    VN_TRY(vn_arg_ints(e, k, out, 1, &n));
    return n == 1 ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "input %d is empty", k);
}

static vn_status_t plan(vn_eval_t *e, dft_t *d) {
    const vn_tensor_t *x = e->in[0].t;
    int64_t axis = e->version < 20 ? vn_node_int(e->node, "axis", 1) : -2;
    if (e->version >= 20 && vn_has(e, 2)) VN_TRY(scalar(e, 2, &axis));
    VN_TRY(vn_eval_axis(e, axis, x->rank, &d->axis));
    if (x->rank < 2 || d->axis == x->rank - 1)
        return vn_eval_fail(e, VN_ERR_RANGE, "axis %lld is the axis of real and imaginary parts", (long long)axis);
    d->parts = (int)x->dims[x->rank - 1];
    if (d->parts != 1 && d->parts != 2)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the last dimension is %d, not 1 (real) or 2 (complex)", d->parts);
    d->inverse = vn_node_int(e->node, "inverse", 0) != 0;
    d->onesided = vn_node_int(e->node, "onesided", 0) != 0;
    const bool to_real = d->inverse && d->onesided;
    d->n = to_real ? 2 * (x->dims[d->axis] - 1) : x->dims[d->axis];
    if (vn_has(e, 1)) VN_TRY(scalar(e, 1, &d->n));
    if (d->n < 1 || d->n > INT64_C(1) << 31) return vn_eval_fail(e, VN_ERR_RANGE, "a transform of length %lld", (long long)d->n);
    if (d->onesided && !d->inverse && d->parts == 2) return vn_eval_fail(e, VN_ERR_SHAPE, "onesided needs a real signal");
    d->bins = d->onesided && !d->inverse ? d->n / 2 + 1 : d->n;
    d->out_parts = to_real ? 1 : 2;
    memcpy(d->dims, x->dims, sizeof d->dims);
    d->dims[d->axis] = d->bins;
    d->dims[x->rank - 1] = d->out_parts;
    return VN_OK;
}

vn_status_t vn_infer_dft(vn_eval_t *e) {
    dft_t d;
    VN_TRY(plan(e, &d));
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = e->in[0].t->rank;
    memcpy(e->out[0].dims, d.dims, sizeof d.dims);
    return VN_OK;
}

static int64_t dft_source(const spectrum_t *s, int64_t row) { return row / s->inner * s->length * s->inner + row % s->inner; }
static int64_t dft_target(const spectrum_t *s, int64_t row) { return row / s->inner * s->bins * s->inner + row % s->inner; }

vn_status_t vn_eval_dft(vn_eval_t *e) {
    dft_t d;
    const vn_tensor_t *x = e->in[0].t;
    VN_TRY(plan(e, &d));
    VN_TRY(vn_out_float(e, 0, x->dtype, x->rank, d.dims));
    spectrum_t s = {.x = vn_arg_f64(e, 0),
                    .n = d.n,
                    .given = x->dims[d.axis],
                    .in_parts = d.parts,
                    .out_parts = d.out_parts,
                    .inverse = d.inverse,
                    .half_in = d.inverse && d.onesided,
                    .bins = d.bins,
                    .inner = 1,
                    .length = x->dims[d.axis],
                    .source = dft_source,
                    .target = dft_target};
    if (!s.x) return VN_ERR_NOMEM;
    int64_t rows = 1;
    for (int k = 0; k < x->rank - 1; ++k) {
        if (k == d.axis) continue;
        rows *= x->dims[k];
        if (k > d.axis) s.inner *= x->dims[k];
    }
    s.step = s.out_step = s.inner;
    return transform(e, &s, rows);
}

/* ---- STFT ---- */

static int64_t stft_source(const spectrum_t *s, int64_t row) {
    return row / s->rows_per_sample * s->length + row % s->rows_per_sample * s->hop;
}
static int64_t stft_target(const spectrum_t *s, int64_t row) { return row * s->bins; }

typedef struct stft {
    int64_t hop, n, frames, bins, dims[4];
    int parts;
} stft_t;

static vn_status_t stft_plan(vn_eval_t *e, stft_t *p) {
    const vn_tensor_t *x = e->in[0].t;
    p->parts = x->rank == 3 && x->dims[2] < 3 ? (int)x->dims[2] : x->rank == 2 ? 1 : 0;
    if ((x->rank != 3 && x->rank != 2) || (p->parts != 1 && p->parts != 2))
        return vn_eval_fail(e, VN_ERR_SHAPE, "the signal must be [batch, length, 1 or 2]");
    const bool onesided = vn_node_int(e->node, "onesided", 1) != 0;
    p->n = x->dims[1];
    VN_TRY(scalar(e, 1, &p->hop));
    if (vn_has(e, 2)) p->n = e->in[2].t->count;
    if (vn_has(e, 3)) VN_TRY(scalar(e, 3, &p->n));
    if (vn_has(e, 2) && e->in[2].t->count != p->n)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the window has %lld samples, a frame %lld", (long long)e->in[2].t->count, (long long)p->n);
    if (p->hop < 1 || p->n < 1 || p->n > x->dims[1])
        return vn_eval_fail(e, VN_ERR_RANGE, "frames of %lld every %lld of a signal of %lld", (long long)p->n, (long long)p->hop,
                            (long long)x->dims[1]);
    if (onesided && p->parts == 2) return vn_eval_fail(e, VN_ERR_SHAPE, "onesided needs a real signal");
    p->frames = (x->dims[1] - p->n) / p->hop + 1;
    p->bins = onesided ? p->n / 2 + 1 : p->n;
    const int64_t dims[4] = {x->dims[0], p->frames, p->bins, 2};
    memcpy(p->dims, dims, sizeof dims);
    return VN_OK;
}

vn_status_t vn_infer_stft(vn_eval_t *e) {
    stft_t p;
    VN_TRY(stft_plan(e, &p));
    vn_infer_put(e, 0, e->in[0].t->dtype, 4, p.dims);
    return VN_OK;
}

vn_status_t vn_eval_stft(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t;
    stft_t p;
    VN_TRY(stft_plan(e, &p));
    VN_TRY(vn_out_float(e, 0, x->dtype, 4, p.dims));
    spectrum_t s = {.x = vn_arg_f64(e, 0),
                    .window = vn_has(e, 2) ? vn_arg_f64(e, 2) : NULL,
                    .n = p.n,
                    .given = p.n,
                    .step = 1,
                    .in_parts = p.parts,
                    .out_parts = 2,
                    .bins = p.bins,
                    .out_step = 1,
                    .inner = 1,
                    .rows_per_sample = p.frames,
                    .hop = p.hop,
                    .length = x->dims[1],
                    .source = stft_source,
                    .target = stft_target};
    if (!s.x || (vn_has(e, 2) && !s.window)) return VN_ERR_NOMEM;
    return transform(e, &s, x->dims[0] * p.frames);
}

enum {
    S1 = VN_OP_SHAPE_LIKE_1,
    S12 = VN_OP_SHAPE_LIKE_1 | VN_OP_SHAPE_LIKE_2,
    S13 = VN_OP_SHAPE_LIKE_1 | VN_OP_SHAPE_LIKE_3,
    S0 = VN_OP_SHAPE_LIKE_0,
    ALL = VN_OP_SHAPE_LIKE_0 | VN_OP_SHAPE_LIKE_1 | VN_OP_SHAPE_LIKE_2 | VN_OP_SHAPE_LIKE_3 | VN_OP_SHAPE_LIKE_4
};
static const vn_op_t rows[] = {
    {"", "DFT", 17, 19, VN_CLASS_COMPOSITE, S1 | VN_OP_REFINES, "SPECTRAL-1", vn_eval_dft, vn_infer_dft, 0},
    {"", "DFT", 20, 0, VN_CLASS_COMPOSITE, S12 | VN_OP_REFINES, "SPECTRAL-1", vn_eval_dft, vn_infer_dft, 0},
    {"", "STFT", 17, 0, VN_CLASS_COMPOSITE, S13 | VN_OP_REFINES, "SPECTRAL-1", vn_eval_stft, vn_infer_stft, 0},
    {"", "HannWindow", 17, 0, VN_CLASS_ELEMENTARY, S0 | VN_OP_REFINES, "SPECTRAL-3", vn_eval_window, vn_infer_window, 0},
    {"", "HammingWindow", 17, 0, VN_CLASS_ELEMENTARY, S0 | VN_OP_REFINES, "SPECTRAL-3", vn_eval_window, vn_infer_window, 0},
    {"", "BlackmanWindow", 17, 0, VN_CLASS_ELEMENTARY, S0 | VN_OP_REFINES, "SPECTRAL-3", vn_eval_window, vn_infer_window, 0},
    {"", "MelWeightMatrix", 17, 0, VN_CLASS_COMPOSITE, ALL, "SPECTRAL-4", vn_eval_mel, vn_infer_mel, 0},
};

const vn_family_t vn_family_spectral = {"spectral", rows, sizeof rows / sizeof *rows};
