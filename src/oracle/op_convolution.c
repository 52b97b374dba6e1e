/* op_convolution.c -- Conv, FusedConv, ConvTranspose; the table of the convolution family.
 *
 * A convolution is W times gathered columns, tile by tile, so CONTRACT-1 to CONTRACT-8 hold with n = terms present: padding adds nothing
 * and neither do the gaps between strides of a transposed convolution (claim CONV-1). A transposed convolution reads W as [M, C, taps].
 */
#include <math.h>
#include <string.h>

#include "oracle/conv.h"
#include "oracle/matmul.h"
#include "oracle/refine_product.h"
#include "oracle/require.h"

enum { IN_X, IN_W, IN_B, IN_SUM };

static vn_status_t infer(vn_eval_t *e, bool transposed) {
    vn_conv_t c;
    VN_TRY(vn_require(e, 2));
    VN_TRY(vn_conv_plan(e, IN_X, IN_W, transposed, &c));
    e->out[0].dtype = e->in[IN_X].t->dtype;
    e->out[0].rank = c.rank;
    memcpy(e->out[0].dims, c.dims, sizeof c.dims);
    return VN_OK;
}
static vn_status_t infer_conv(vn_eval_t *e) { return infer(e, false); }
static vn_status_t infer_transposed(vn_eval_t *e) { return infer(e, true); }

/* [C, M/g, taps] -> [M, C/g, taps]: what a transposed convolution multiplies by. */
static double *turn(const vn_conv_t *c, const double *w, int64_t count) {
    double *out = vn_alloc((size_t)(count ? count : 1), sizeof *out);
    const int64_t taps = c->w.taps;
    for (int64_t m = 0; out && m < c->maps; ++m)
        for (int64_t i = 0; i < c->cg; ++i) {
            const int64_t ch = m / c->mg * c->cg + i;
            memcpy(out + (m * c->cg + i) * taps, w + (ch * c->mg + m % c->mg) * taps, (size_t)taps * sizeof *out);
        }
    return out;
}

static vn_status_t weights(vn_eval_t *e, const vn_conv_t *c, vn_factor_t *f) {
    VN_TRY(vn_factor_input(e, IN_W, 1, f));
    if (!c->transposed) return VN_OK;
    vn_factor_t out;
    double *x = turn(c, f->x, f->count), *err = f->err ? turn(c, f->err, f->count) : NULL;
    const bool good = x && (err || !f->err);
    vn_factor_plane(x, err, NULL, f->count, f->format, &out);
    out.owned_x = x;
    out.owned_err = err;
    vn_factor_free(f);
    *f = out;
    return good ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for turned weights");
}

/* ---- tiles ---- */

typedef struct conv_job {
    const vn_conv_t *c;
    vn_product_t *p;
    vn_bias_t bias;
} conv_job_t;

/* The planes of gathered columns that the product needs; NULL where it has none. */
typedef struct gathered {
    double *x, *err, *var, *dmag, *dsq, *sub;
    float *mag, *sq;
} gathered_t;

/* Filled by every gather: no zeros needed. */
static bool gathered_new(const vn_factor_t *f, int64_t n, gathered_t *g) {
    *g = (gathered_t){0};
    const size_t room = (size_t)(n > 0 ? n : 1);
    bool good = (g->x = vn_realloc(NULL, room, sizeof(double))) != NULL;
    if (f->err) good = good && (g->err = vn_realloc(NULL, room, sizeof(double)));
    if (f->var) good = good && (g->var = vn_realloc(NULL, room, sizeof(double)));
    if (f->dmag) good = good && (g->dmag = vn_realloc(NULL, room, sizeof(double)));
    if (f->dsq) good = good && (g->dsq = vn_realloc(NULL, room, sizeof(double)));
    if (f->sub) good = good && (g->sub = vn_realloc(NULL, room, sizeof(double)));
    if (f->mag) good = good && (g->mag = vn_realloc(NULL, room, sizeof(float)));
    if (f->sq) good = good && (g->sq = vn_realloc(NULL, room, sizeof(float)));
    return good;
}

static void gathered_free(gathered_t *g) {
    vn_free(g->x);
    vn_free(g->err);
    vn_free(g->var);
    vn_free(g->dmag);
    vn_free(g->dsq);
    vn_free(g->sub);
    vn_free(g->mag);
    vn_free(g->sq);
}

static vn_side_t gather(const vn_columns_t *cols, const vn_factor_t *f, int64_t at, gathered_t *g) {
    vn_columns_f64(cols, f->x + at, g->x);
    if (g->err) vn_columns_f64(cols, f->err + at, g->err);
    if (g->var) vn_columns_f64(cols, f->var + at, g->var);
    if (g->dmag) vn_columns_f64(cols, f->dmag + at, g->dmag);
    if (g->dsq) vn_columns_f64(cols, f->dsq + at, g->dsq);
    if (g->sub) vn_columns_f64(cols, f->sub + at, g->sub);
    if (g->mag) vn_columns_f32(cols, f->mag + at, g->mag);
    if (g->sq) vn_columns_f32(cols, f->sq + at, g->sq);
    return (vn_side_t){.x = g->x,
                       .err = g->err,
                       .var = g->var,
                       .dmag = g->dmag,
                       .dsq = g->dsq,
                       .sub = g->sub,
                       .mag = g->mag,
                       .sq = g->sq,
                       .ld = cols->count};
}

static void conv_range(void *ctx, int64_t begin, int64_t end) {
    conv_job_t *job = ctx;
    const vn_conv_t *c = job->c;
    const vn_factor_t *x = &job->p->b;
    vn_columns_t cols;
    vn_tile_scratch_t scratch = {0};
    gathered_t g = {0};
    bool good = vn_columns_new(c, c->tile, &cols);
    good = good && gathered_new(x, c->depth * c->tile, &g) && vn_tile_scratch_new(job->p, c->map_tile * c->tile, c->tile, &scratch);
    for (int64_t i = begin; good && i < end; ++i) {
        const vn_conv_task_t t = vn_conv_task(c, i);
        good = vn_columns_at(&cols, t.first, t.count);
        if (!good) break;
        const int64_t m = t.group * c->mg + t.map;
        vn_tile_t tile = {.m = t.maps,
                          .n = t.count,
                          .k = c->depth,
                          .a = vn_side_at(&job->p->a, m * c->depth, c->depth, false),
                          .b = gather(&cols, x, (t.image * c->channels + t.group * c->cg) * c->w.in_size, &g),
                          .terms = cols.terms,
                          .padded = cols.padded,
                          .out = (t.image * c->maps + m) * c->w.positions + t.first,
                          .ldc = c->w.positions,
                          .bias = vn_bias_at(&job->bias, m)};
        tile.bias.rs = 1;
        tile.bias.cs = 0;
        vn_product_tile(job->p, &tile, &scratch);
    }
    vn_columns_free(&cols);
    gathered_free(&g);
    vn_tile_scratch_free(&scratch);
    if (!good) __atomic_store_n(&job->p->failed, true, __ATOMIC_RELAXED);
}

static int64_t spread(int64_t i, int64_t of, int64_t n) { return of < 2 ? 0 : (int64_t)((double)i * (double)(n - 1) / (double)(of - 1)); }

/* Up to 8 maps by 8 positions of up to 4 (image, group) pairs, in the order channel, tap. */
static void sample(const vn_conv_t *c, vn_product_t *p) {
    enum { PAIRS = 4 };
    const int64_t all = c->batch * c->groups, pairs = all < PAIRS ? all : PAIRS;
    const int64_t rows = c->mg < VN_SAMPLE ? c->mg : VN_SAMPLE, positions = c->w.positions < VN_SAMPLE ? c->w.positions : VN_SAMPLE;
    if (rows < 1 || positions < 1 || c->depth < 2) return;
    double *a = vn_alloc((size_t)(rows * c->depth), sizeof *a), *b = vn_alloc((size_t)(positions * c->depth), sizeof *b);
    vn_columns_t cols;
    bool good = vn_columns_new(c, 1, &cols) && a && b;
    for (int64_t x = 0; good && x < pairs; ++x) {
        const int64_t ig = spread(x, pairs, all), image = ig / c->groups, group = ig % c->groups;
        for (int64_t r = 0; r < rows; ++r)
            memcpy(a + r * c->depth, p->a.x + (group * c->mg + spread(r, rows, c->mg)) * c->depth, (size_t)c->depth * sizeof *a);
        for (int64_t k = 0; good && k < positions; ++k) {
            good = vn_columns_at(&cols, spread(k, positions, c->w.positions), 1);
            if (good) vn_columns_f64(&cols, p->b.x + (image * c->channels + group * c->cg) * c->w.in_size, b + k * c->depth);
        }
        if (good) vn_product_sample(p, (int)rows, (int)positions, c->depth, a, b);
    }
    vn_columns_free(&cols);
    vn_free(a);
    vn_free(b);
}

static vn_status_t run(vn_eval_t *e, bool transposed) {
    vn_conv_t c;
    VN_TRY(vn_require(e, 2));
    const vn_dtype_t t = e->in[IN_X].t->dtype;
    if (!vn_dtype_is_float(t) || e->in[IN_W].t->dtype != t)
        return vn_eval_fail(e, VN_ERR_DTYPE, "convolution of %s with %s", vn_dtype_name(t), vn_dtype_name(e->in[IN_W].t->dtype));
    VN_TRY(vn_conv_plan(e, IN_X, IN_W, transposed, &c));
    VN_TRY(vn_out_float(e, 0, t, c.rank, c.dims));
    vn_factor_t x = {0}, w = {0};
    vn_bias_t bias = {0};
    vn_status_t s = vn_has(e, IN_B) ? vn_bias_input(e, IN_B, &bias) : VN_OK;
    if (s == VN_OK && bias.c && bias.count != c.maps)
        s = vn_eval_fail(e, VN_ERR_SHAPE, "bias of %lld elements for %lld maps", (long long)bias.count, (long long)c.maps);
    if (s == VN_OK) s = vn_factor_input(e, IN_X, 0, &x);
    if (s == VN_OK) s = weights(e, &c, &w);
    if (s == VN_OK && e->refine) {
        s = vn_refine_conv(e, &c, x.x, w.x, bias.c);
    } else if (s == VN_OK) {
        vn_product_t p;
        s = vn_product_begin(&p, e, &w, &x, c.depth, 1, 1, bias.c ? &bias : NULL);
        conv_job_t job = {&c, &p, bias};
        if (s == VN_OK && p.variance) sample(&c, &p);
        if (s == VN_OK) vn_parallel(vn_conv_tasks(&c), vn_conv_grain(&c), conv_range, &job);
        if (s == VN_OK && p.failed) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for columns");
        vn_product_end(&p);
    }
    vn_factor_free(&x);
    vn_factor_free(&w);
    return s;
}

static vn_status_t eval_conv(vn_eval_t *e) { return run(e, false); }
static vn_status_t eval_transposed(vn_eval_t *e) { return run(e, true); }

static vn_status_t refine_fused(vn_eval_t *e) {
    int64_t count;
    const float *params = vn_node_floats(e->node, "activation_params", &count);
    const double *z = vn_has(e, IN_SUM) ? vn_arg_f64(e, IN_SUM) : NULL;
    if (vn_has(e, IN_SUM) && !z) return VN_ERR_NOMEM;
    return vn_refine_activation(e, vn_node_string(e->node, "activation", ""), count > 0 ? (double)params[0] : NAN, z);
}

/*
 * FusedConv: activation(conv + Z). Z is one more term of the sum, wherever it is added: with E = (n' u) T of the convolution, n' >= 1,
 * (n' + 1) u (T + |z|) <= E (1 + 1/n') + (n' + 1) u |z| (claim CONTRACT-9).
 */
static vn_status_t eval_fused(vn_eval_t *e) {
    VN_TRY(run(e, false));
    vn_ref_t *r = &e->out[0];
    if (e->refine) return refine_fused(e);
    if (vn_has(e, IN_SUM)) {
        const double *z = vn_arg_f64(e, IN_SUM), *dz = vn_arg_err(e, IN_SUM), u = vn_u(e), n = (double)r->terms + 1;
        if (!z) return VN_ERR_NOMEM;
        if (e->in[IN_SUM].t->count != r->count)
            return vn_eval_fail(e, VN_ERR_SHAPE, "the added tensor has %lld elements, the result %lld", (long long)e->in[IN_SUM].t->count,
                                (long long)r->count);
        for (int64_t i = 0; i < r->count; ++i) {
            const double y = r->value[i], s = y + z[i], t = s - y;
            if (r->lo && isfinite(s)) r->lo[i] += (y - (s - t)) + (z[i] - t);
            r->value[i] = s;
            if (r->own) r->own[i] += r->lo ? 0x1p-104 * fabs(s) : 0x1p-52 * fabs(s);
            if (r->bound)
                r->bound[i] = (2 * r->bound[i] + n * u * fabs(z[i]) + u * fabs(s)) * (1 + 0x1p-50) + (dz ? dz[i] * (1 + n * u) : 0);
            if (r->var) r->var[i] += 0.18 * u * u * s * s;
        }
    }
    int64_t count;
    const float *params = vn_node_floats(e->node, "activation_params", &count);
    return vn_fused_activation(e, vn_node_string(e->node, "activation", ""), count > 0 ? (double)params[0] : NAN,
                               count > 1 ? (double)params[1] : NAN);
}

enum { PR = VN_OP_PROPAGATES | VN_OP_REFINES };
static const vn_op_t rows[] = {
    {"", "Conv", 1, 0, VN_CLASS_CONTRACTION, PR, "CONV-1", eval_conv, infer_conv, 0},
    {"", "ConvTranspose", 1, 0, VN_CLASS_CONTRACTION, PR, "CONV-1", eval_transposed, infer_transposed, 0},
    {"", "ConvInteger", 10, 0, VN_CLASS_EXACT, 0, "CONV-2", vn_eval_conv_integer, vn_infer_conv_integer, 0},
    {"", "QLinearConv", 10, 0, VN_CLASS_QUANTISE, 0, "CONV-3", vn_eval_qlinear_conv, vn_infer_qlinear_conv, 0},
    {"", "DeformConv", 19, 0, VN_CLASS_CONTRACTION, 0, "CONV-4", vn_eval_deform_conv, vn_infer_deform_conv, 0},
    {"com.microsoft", "FusedConv", 1, 0, VN_CLASS_CONTRACTION, PR, "CONV-1", eval_fused, infer_conv, 0},
};
const vn_family_t vn_family_convolution = {"convolution", rows, sizeof rows / sizeof *rows};
