/* arithmetic_winograd.c -- convolutions with kernels of 3 (along one or two axes) by the minimal filtering F(m, 3), m = 2, 4, 6.
 *
 * Claim ARITH-12: y = A'[(G g G') .* (B' d B)]A summed over channels. Sound bound (bounds.md, Winograd): count u |A|'(|G||g||G'| .* |B|'|d||B|)|A|, with
 * a = m + 2 and count = 2(a + 2) + 2(3 + 2) + 2(a + 2) + C. The variance is k q, q = (A.A)'(sum over c of U^2 V^2)(A.A), and k
 * is measured on this very data: the algorithm is carried out in the arithmetic in question. Where the actual result follows what was
 * carried out closer than half of its own error, the carried out result is the reference, with what is left as its variance.
 * A direct sum of other precision has another q: the likelihood decides between them (HYPO-3).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"
#include "vernier/arith.h"

enum { KERNEL = 3, MAX_A = 8, TILES = 3 };

static const double bt2[] = {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1};
static const double g2[] = {1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1};
static const double at2[] = {1, 1, 1, 0, 0, 1, -1, -1};
static const double bt4[] = {4, 0,  -5, 0, 1, 0, 0, -4, -4, 1,  1, 0, 0, 4, -4, -1, 1, 0,
                             0, -2, -1, 2, 1, 0, 0, 2,  -1, -2, 1, 0, 0, 4, 0,  -5, 0, 1};
static const double g4[] = {1. / 4,  0,       0,      -1. / 6, -1. / 6,  -1. / 6, -1. / 6, 1. / 6, -1. / 6,
                            1. / 24, 1. / 12, 1. / 6, 1. / 24, -1. / 12, 1. / 6,  0,       0,      1};
static const double at4[] = {1, 1, 1, 1, 1, 0, 0, 1, -1, 2, -2, 0, 0, 1, 1, 4, 4, 0, 0, 1, -1, 8, -8, 1};
static const double bt6[] = {1, 0,    -5.25, 0,    5.25,  0,    -1, 0, 0, 1,   1,    -4.25, -4.25, 1,     1, 0,
                             0, -1,   1,     4.25, -4.25, -1,   1,  0, 0, 0.5, 0.25, -2.5,  -1.25, 2,     1, 0,
                             0, -0.5, 0.25,  2.5,  -1.25, -2,   1,  0, 0, 2,   4,    -2.5,  -5,    0.5,   1, 0,
                             0, -2,   4,     2.5,  -5,    -0.5, 1,  0, 0, -1,  0,    5.25,  0,     -5.25, 0, 1};
static const double g6[] = {1,        0,       0,        -2. / 9,   -2. / 9, -2. / 9,  -2. / 9, 2. / 9,
                            -2. / 9,  1. / 90, 1. / 45,  2. / 45,   1. / 90, -1. / 45, 2. / 45, 32. / 45,
                            16. / 45, 8. / 45, 32. / 45, -16. / 45, 8. / 45, 0,        0,       1};
static const double at6[] = {1, 1, 1, 1,  1,  1,      1,      0, 0, 1, -1, 2,  -2,  0.5,     -0.5,     0,
                             0, 1, 1, 4,  4,  0.25,   0.25,   0, 0, 1, -1, 8,  -8,  0.125,   -0.125,   0,
                             0, 1, 1, 16, 16, 0.0625, 0.0625, 0, 0, 1, -1, 32, -32, 0.03125, -0.03125, 1};

static const struct {
    int m;
    const double *bt, *g, *at;
} algorithms[TILES] = {{2, bt2, g2, at2}, {4, bt4, g4, at4}, {6, bt6, g6, at6}};

/* The convolution as [batch, group, channel, height, width]; height 1 and kernel height 1 for one axis. */
typedef struct conv {
    int64_t batch, groups, depth, outs, h, w, kh, oh, ow, top, left; /* depth: channels per group; outs: kernels per group */
    const double *x, *f, *bias;
} conv_t;

/* The arithmetic: of the transforms, of the transformed operands as they are kept, of the sums over channels. */
typedef struct mode {
    vn_format_t transform, kept, sum;
    const char *words;
} mode_t;

static double rounded(vn_format_t f, double x) {
    return f == VN_FMT_F32 ? (double)(float)x : f == VN_FMT_F64 ? x : vn_round_to(f, x, VN_RNE, false);
}

/* out (rows x cols) = L (rows x n) in (n x cols), every product and addition rounded; magnitude: absolute values throughout. */
static void transform(vn_format_t f, const double *l, int rows, int n, const double *in, int cols, double *out) {
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < cols; ++j) {
            double s = 0;
            for (int k = 0; k < n; ++k)
                if (l[i * n + k] != 0) s = rounded(f, s + rounded(f, l[i * n + k] * in[k * cols + j]));
            out[i * cols + j] = s;
        }
}

static void transpose(const double *in, int rows, int cols, double *out) {
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < cols; ++j) out[j * rows + i] = in[i * cols + j];
}

/* out = L in L', in (ih x iw): along the second axis only where the first has kernel 1. */
static void both_sides(vn_format_t f, const double *l, int rows, int n, const double *in, bool plane, double *out) {
    double a[MAX_A * MAX_A] = {0}, b[MAX_A * MAX_A] = {0};
    if (!plane) { /* in is a row of n numbers */
        transform(f, l, rows, n, in, 1, out);
        return;
    }
    transform(f, l, rows, n, in, n, a); /* rows x n */
    transpose(a, rows, n, b);           /* n x rows */
    transform(f, l, rows, n, b, rows, a);
    transpose(a, rows, rows, out);
}

static void magnitudes(const double *x, int n, double *out) {
    for (int i = 0; i < n; ++i) out[i] = fabs(x[i]);
}

typedef struct planes {
    double *value, *bound, *q; /* over the whole output */
} planes_t;

/* Transformed kernels or tiles of one group: a^2 planes of [count][depth]. */
static void gather_tile(const conv_t *c, int64_t n, int64_t channel, int64_t y0, int64_t x0, int a, bool plane, double *d) {
    const double *x = c->x + (n * c->groups * c->depth + channel) * c->h * c->w;
    for (int i = 0; i < (plane ? a : 1); ++i)
        for (int j = 0; j < a; ++j) {
            const int64_t y = plane ? y0 + i - c->top : y0, k = x0 + j - c->left;
            d[i * a + j] = y >= 0 && y < c->h && k >= 0 && k < c->w ? x[y * c->w + k] : 0;
        }
}

/* One group of one image: fills the planes of its outputs. u: transformed kernels [out][cells][depth], ua: of magnitudes. */
typedef struct job {
    const conv_t *c;
    const mode_t *mode;
    int m, a, cells;
    bool plane;
    const double *bt, *at, *abt, *aat, *at_sq;
    const double *u, *ua; /* [group * outs][depth][cells] */
    double count_u;
    planes_t out;
} job_t;

static double sum_channels(vn_format_t f, const double *u, const double *v, int64_t depth, int cells, int cell) {
    double s = 0;
    for (int64_t c = 0; c < depth; ++c) s = rounded(f, s + u[c * cells + cell] * v[c * cells + cell]);
    return s;
}

static bool one_tile(const job_t *j, int64_t n, int64_t g, int64_t ty, int64_t tx, double *v, double *va) {
    const conv_t *c = j->c;
    const int a = j->a, m = j->m, cells = j->cells;
    double d[MAX_A * MAX_A], mag[MAX_A * MAX_A], s[MAX_A * MAX_A], t[MAX_A * MAX_A], q[MAX_A * MAX_A], y[MAX_A * MAX_A], b[MAX_A * MAX_A],
        z[MAX_A * MAX_A];
    for (int64_t k = 0; k < c->depth; ++k) {
        gather_tile(c, n, g * c->depth + k, ty * (j->plane ? m : 1), tx * m, a, j->plane, d);
        both_sides(j->mode->transform, j->bt, a, a, d, j->plane, v + k * cells);
        for (int i = 0; i < cells; ++i) v[k * cells + i] = rounded(j->mode->kept, v[k * cells + i]);
        magnitudes(d, cells, mag);
        both_sides(VN_FMT_F64, j->abt, a, a, mag, j->plane, va + k * cells);
    }
    for (int64_t o = 0; o < c->outs; ++o) {
        const int64_t filter = g * c->outs + o;
        const double *u = j->u + filter * c->depth * cells, *ua = j->ua + filter * c->depth * cells;
        for (int i = 0; i < cells; ++i) {
            s[i] = sum_channels(j->mode->sum, u, v, c->depth, cells, i);
            t[i] = sum_channels(VN_FMT_F64, ua, va, c->depth, cells, i);
            q[i] = 0;
            for (int64_t k = 0; k < c->depth; ++k) q[i] += u[k * cells + i] * u[k * cells + i] * v[k * cells + i] * v[k * cells + i];
        }
        both_sides(j->mode->transform, j->at, m, a, s, j->plane, y);
        both_sides(VN_FMT_F64, j->aat, m, a, t, j->plane, b);
        both_sides(VN_FMT_F64, j->at_sq, m, a, q, j->plane, z);
        for (int i = 0; i < (j->plane ? m : 1); ++i)
            for (int k = 0; k < m; ++k) {
                const int64_t row = j->plane ? ty * m + i : ty, col = tx * m + k;
                if (row >= c->oh || col >= c->ow) continue;
                const int64_t at = ((n * c->groups * c->outs + filter) * c->oh + row) * c->ow + col;
                const double bias = c->bias ? c->bias[filter] : 0;
                j->out.value[at] = rounded(j->mode->transform, y[i * m + k] + bias);
                j->out.bound[at] = j->count_u * (b[i * m + k] + fabs(bias));
                j->out.q[at] = z[i * m + k];
            }
    }
    return true;
}

static void run_rows(void *ctx, int64_t begin, int64_t end) {
    const job_t *j = ctx;
    const conv_t *c = j->c;
    const int64_t rows = j->plane ? (c->oh + j->m - 1) / j->m : c->oh, columns = (c->ow + j->m - 1) / j->m;
    double *v = vn_alloc((size_t)(2 * c->depth * j->cells) + 1, sizeof *v);
    if (!v) { /* no memory: the bound stays as it was, infinite */
        return;
    }
    for (int64_t k = begin; k < end; ++k) {
        const int64_t ty = k % rows, g = k / rows % c->groups, n = k / rows / c->groups;
        for (int64_t tx = 0; tx < columns; ++tx) one_tile(j, n, g, ty, tx, v, v + c->depth * j->cells);
    }
    vn_free(v);
}

static vn_status_t carry_out(const conv_t *c, int algorithm, const mode_t *mode, planes_t *out, vn_error_t *err) {
    const int m = algorithms[algorithm].m, a = m + KERNEL - 1;
    const bool plane = c->kh == KERNEL;
    const int cells = plane ? a * a : a;
    const int64_t filters = c->groups * c->outs, taps = plane ? KERNEL * KERNEL : KERNEL;
    double abt[MAX_A * MAX_A], aat[MAX_A * MAX_A], at_sq[MAX_A * MAX_A], ag[MAX_A * KERNEL], mag[KERNEL * KERNEL];
    double *u = vn_alloc((size_t)(2 * filters * c->depth * cells) + 1, sizeof *u);
    if (!u) return vn_fail(err, VN_ERR_NOMEM, "no memory for transformed kernels");
    double *ua = u + filters * c->depth * cells;
    magnitudes(algorithms[algorithm].bt, a * a, abt);
    magnitudes(algorithms[algorithm].at, m * a, aat);
    magnitudes(algorithms[algorithm].g, a * KERNEL, ag);
    for (int i = 0; i < m * a; ++i) at_sq[i] = aat[i] * aat[i];
    for (int64_t k = 0; k < filters * c->depth; ++k) {
        double *to = u + k * cells;
        both_sides(mode->transform, algorithms[algorithm].g, a, KERNEL, c->f + k * taps, plane, to);
        for (int i = 0; i < cells; ++i) to[i] = rounded(mode->kept, to[i]);
        magnitudes(c->f + k * taps, (int)taps, mag);
        both_sides(VN_FMT_F64, ag, a, KERNEL, mag, plane, ua + k * cells);
    }
    const int sides = plane ? 2 : 1, per_side = (a + 2) + (KERNEL + 2) + (a + 2);
    const double u_transform = vn_format_info(mode->transform)->u, u_kept = vn_format_info(mode->kept)->u,
                 u_sum = vn_format_info(mode->sum)->u;
    const job_t j = {.c = c,
                     .mode = mode,
                     .m = m,
                     .a = a,
                     .cells = cells,
                     .plane = plane,
                     .bt = algorithms[algorithm].bt,
                     .at = algorithms[algorithm].at,
                     .abt = abt,
                     .aat = aat,
                     .at_sq = at_sq,
                     .u = u,
                     .ua = ua,
                     .count_u = 1.01 * ((sides * per_side + 1) * u_transform + 2 * u_kept + (double)c->depth * u_sum),
                     .out = *out};
    const int64_t rows = plane ? (c->oh + m - 1) / m : c->oh;
    vn_parallel(c->batch * c->groups * rows, 1, run_rows, (void *)(uintptr_t)&j);
    vn_free(u);
    return VN_OK;
}

/* The convolution, if it is one that minimal filtering serves. */
static bool plan(const vn_arith_t *a, const vn_tensor_t *x, const vn_tensor_t *w, conv_t *c) {
    const vn_node_t *n = a->c->q->node;
    const vn_tensor_t *y = a->c->actual;
    int64_t count;
    const int spatial = x->rank - 2;
    if (spatial < 1 || spatial > 2 || w->rank != x->rank || y->rank != x->rank || w->dims[w->rank - 1] != KERNEL) return false;
    const int64_t *strides = vn_node_ints(n, "strides", &count), *dilations = vn_node_ints(n, "dilations", &count);
    for (int d = 0; d < spatial; ++d)
        if ((strides && strides[d] != 1) || (dilations && dilations[d] != 1)) return false;
    const bool two = spatial == 2;
    *c = (conv_t){.batch = x->dims[0],
                  .groups = vn_node_int(n, "group", 1),
                  .depth = w->dims[1],
                  .h = two ? x->dims[2] : 1,
                  .w = x->dims[x->rank - 1],
                  .kh = two ? w->dims[2] : 1,
                  .oh = two ? y->dims[2] : 1,
                  .ow = y->dims[y->rank - 1]};
    if ((c->kh != KERNEL && c->kh != 1) || c->groups < 1 || w->dims[0] % c->groups || x->dims[1] != c->groups * c->depth) return false;
    c->outs = w->dims[0] / c->groups;
    const char *mode = vn_node_string(n, "auto_pad", "NOTSET");
    const int64_t *pads = vn_node_ints(n, "pads", &count);
    if (strcmp(mode, "NOTSET") == 0) {
        if (pads && count != 2 * spatial) return false;
        c->left = pads ? pads[spatial - 1] : 0;
        c->top = pads && two ? pads[0] : 0;
    } else if (strncmp(mode, "SAME", 4) == 0) {
        c->left = KERNEL / 2;
        c->top = c->kh / 2;
    }
    if (c->kh == 1 && two && (c->top || c->oh != c->h)) return false;
    return c->left >= 0 && c->top >= 0;
}

/* Three numbers that decide: the algorithm's own typical error, and how far the actual result is from what was carried out, in units of q. */
static vn_status_t consider(vn_arith_t *a, const conv_t *c, int algorithm, const mode_t *mode, vn_error_t *err) {
    const vn_ref_t *r = a->c->ref;
    const size_t n = (size_t)a->n + 1;
    planes_t p = {vn_alloc(n, sizeof(double)), vn_alloc(n, sizeof(double)), vn_alloc(n, sizeof(double))};
    vn_status_t s = p.value && p.bound && p.q ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)a->n);
    for (int64_t i = 0; s == VN_OK && i < a->n; ++i) p.bound[i] = INFINITY;
    if (s == VN_OK) s = carry_out(c, algorithm, mode, &p, err);
    double own = 0, near = 0, used = 0;
    for (int64_t i = 0; s == VN_OK && i < a->n; ++i) {
        if (!(p.q[i] > 0) || !isfinite(a->x[i]) || !isfinite(r->value[i])) continue;
        own += (p.value[i] - r->value[i]) * (p.value[i] - r->value[i]) / p.q[i];
        near += (a->x[i] - p.value[i]) * (a->x[i] - p.value[i]) / p.q[i];
        used++;
    }
    if (s != VN_OK || !(used > 0) || !(own > 0)) {
        vn_free(p.value);
        vn_free(p.bound);
        vn_free(p.q);
        return s;
    }
    const vn_format_info_t *out = vn_format_info(vn_format_of(r->dtype));
    const bool follows = near < own / 4;
    const double k = (follows ? near : own) / used;
    double seen = 0;
    for (int64_t i = 0; i < a->n && !follows; ++i)
        if (p.q[i] > 0 && isfinite(a->x[i]) && isfinite(r->value[i]))
            seen += (a->x[i] - r->value[i]) * (a->x[i] - r->value[i]) / p.q[i] / used;
    const bool alike = follows || (9 * seen > k && seen < 9 * k); /* errors of the size that the algorithm makes on this data */
    for (int64_t i = 0; i < a->n; ++i) {
        if (!follows) p.value[i] = r->value[i];
        p.bound[i] = (1 + out->u) * (p.bound[i] + vn_ref_own(r, i)) * (follows ? 2 : 1) + out->u * fabs(p.value[i]) + out->eta;
        p.q[i] *= k;
    }
    vn_ref_t ref;
    VN_TRY(vn_arith_planes(a, p.value, p.bound, p.q, &ref, err));
    char id[24];
    snprintf(id, sizeof id, "winograd-f%d", algorithms[algorithm].m);
    a->choices = log(16);
    if (alike)
        s = vn_arith_consider(a, id, VN_ARITH_SHARP, &ref, err, "convolution by Winograd F(%d,3)%s, %s%s", algorithms[algorithm].m,
                              c->kh == KERNEL ? " in two axes" : "", mode->words,
                              follows ? "; carried out here it gives nearly the same numbers" : "");
    vn_ref_free(&ref);
    return s;
}

/* Seconds that one algorithm takes, from its products: a rounding to 16 bits is a call, one to f32 an instruction. */
static double cost(const conv_t *c, int algorithm, const mode_t *mode) {
    const double m = algorithms[algorithm].m, along = (m + KERNEL - 1) / m, spread = c->kh == KERNEL ? along * along : along;
    const double products = (double)(c->batch * c->groups * c->outs) * (double)(c->depth * c->oh) * (double)c->ow * spread;
    const double per_second = mode->sum == VN_FMT_F32 ? 0x1p27 : 0x1p24; /* slow machines included */
    return products / per_second / vn_threads_get();
}

vn_status_t vn_arith_winograd(vn_arith_t *a, vn_error_t *err) {
    static const mode_t modes_f32[] = {{VN_FMT_F32, VN_FMT_F32, VN_FMT_F32, "all in f32"}};
    static const mode_t modes_f16[] = {{VN_FMT_F32, VN_FMT_F16, VN_FMT_F32, "transformed operands kept in f16"},
                                       {VN_FMT_F16, VN_FMT_F16, VN_FMT_F32, "transforms in f16, sums in f32"},
                                       {VN_FMT_F16, VN_FMT_F16, VN_FMT_F16, "all in f16"}};
    static const mode_t modes_bf16[] = {{VN_FMT_F32, VN_FMT_BF16, VN_FMT_F32, "transformed operands kept in bfloat16"},
                                        {VN_FMT_BF16, VN_FMT_BF16, VN_FMT_F32, "transforms in bfloat16, sums in f32"}};
    const vn_tensor_t *x = vn_arith_operand(a, 0), *w = vn_arith_operand(a, 1), *b = vn_arith_operand(a, 2);
    conv_t c;
    if (!vn_arith_is(a, "Conv") || !a->c->ref->value || !x || !w || !plan(a, x, w, &c)) return VN_OK;
    const mode_t *modes = x->dtype == VN_F16 ? modes_f16 : x->dtype == VN_BF16 ? modes_bf16 : modes_f32;
    const int count = x->dtype == VN_F16 ? 3 : x->dtype == VN_BF16 ? 2 : x->dtype == VN_F32 ? 1 : 0;
    double *px = vn_arith_plane(a, 0), *pw = vn_arith_plane(a, 1), *pb = b ? vn_arith_plane(a, 2) : NULL;
    vn_status_t s = px && pw && (pb || !b) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    c.x = px;
    c.f = pw;
    c.bias = pb;
    for (int k = 0; k < TILES * count && s == VN_OK && vn_arith_time(a); ++k) {
        if (vn_spent() + cost(&c, k / count, &modes[k % count]) > a->deadline) {
            a->cut = true;
            break;
        }
        a->tried++;
        s = consider(a, &c, k / count, &modes[k % count], err);
    }
    vn_free(px);
    vn_free(pw);
    vn_free(pb);
    return s;
}
