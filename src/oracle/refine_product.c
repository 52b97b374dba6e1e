/* refine_product.c -- single elements of products, convolutions and fused activations in 113 bits (claim PREC-3).
 *
 * A product of two doubles is one number of 106 bits, so that a sum of products loses something only where its terms span more than 226 bits;
 * then `own` says how much.
 */
#include "oracle/refine_product.h"

#include "oracle/dd.h"

/* Twice the working precision decides most elements, at a hundredth of the cost. */
static bool decided(vn_format_t f, int64_t n, double sum, double lost, double magnitude, vn_exact_t *out) {
    *out = (vn_exact_t){.value = sum, .rest = lost, .own = vn_dd_dot_own(n, magnitude)};
    return f != VN_FMT_F64 && magnitude < 0x1p960 && vn_exact_decided(f, out);
}

typedef struct batch_job {
    vn_format_t format;
    const double *a, *b;
    const vn_batch_t *g;
    double alpha, beta;
} batch_job_t;

/* alpha s, without loss but for what falls below 226 bits. */
static vn_quad_sum_t scaled(const vn_quad_sum_t *s, double alpha) {
    vn_quad_sum_t r = {.lost = s->lost * fabs(alpha)};
    vn_quad_add_product(&r, s->hi, alpha);
    vn_quad_add_product(&r, s->lo, alpha);
    return r;
}

static void batch_cell(void *ctx, int64_t at, vn_exact_t *out) {
    const batch_job_t *j = ctx;
    const vn_batch_t *g = j->g;
    const int64_t col = at % g->n, row = at / g->n % g->m, z = at / g->n / g->m;
    const double *a = j->a + g->a_off[z] + (g->ta ? row : row * g->lda), *b = j->b + g->b_off[z] + (g->tb ? col * g->ldb : col);
    const int64_t sa = g->ta ? g->lda : 1, sb = g->tb ? 1 : g->ldb;
    const double c = g->bias.c ? g->bias.c[(g->bias_off ? g->bias_off[z] : 0) + row * g->bias.rs + col * g->bias.cs] : 0;
    if (j->alpha == 1) {
        double sum = 0, lost = 0, magnitude = 0;
        for (int64_t k = 0; k < g->k; ++k) vn_dd_add_product(a[k * sa], b[k * sb], &sum, &lost, &magnitude);
        if (g->bias.c) vn_dd_add_product(j->beta, c, &sum, &lost, &magnitude);
        if (decided(j->format, g->k + 1, sum, lost, magnitude, out)) return;
    }
    vn_quad_sum_t s = {0};
    for (int64_t k = 0; k < g->k; ++k) vn_quad_add(&s, (vn_quad_t)a[k * sa] * b[k * sb]);
    if (j->alpha != 1) s = scaled(&s, j->alpha);
    if (g->bias.c) vn_quad_add(&s, (vn_quad_t)j->beta * c);
    *out = vn_exact_sum(&s);
}

vn_status_t vn_refine_batch(vn_eval_t *e, const double *a, const double *b, const vn_batch_t *g, double alpha, double beta) {
    vn_refine_each(e, batch_cell, &(batch_job_t){.format = e->refine->format, .a = a, .b = b, .g = g, .alpha = alpha, .beta = beta});
    return VN_OK;
}

typedef struct conv_job {
    vn_format_t format;
    const vn_conv_t *c;
    const double *x, *w, *bias;
} conv_job_t;

static void conv_cell(void *ctx, int64_t at, vn_exact_t *out) {
    const conv_job_t *j = ctx;
    const vn_conv_t *c = j->c;
    const int64_t position = at % c->w.positions, m = at / c->w.positions % c->maps, image = at / c->w.positions / c->maps,
                  group = m / c->mg;
    vn_columns_t cols;
    double *column = vn_alloc((size_t)(c->depth ? c->depth : 1), sizeof *column);
    if (vn_columns_new(c, 1, &cols) && column && vn_columns_at(&cols, position, 1)) { /* else not refined: counted as undecided */
        vn_columns_f64(&cols, j->x + (image * c->channels + group * c->cg) * c->w.in_size, column);
        double sum = 0, lost = 0, magnitude = 0;
        for (int64_t k = 0; k < c->depth; ++k)
            if (column[k] != 0) vn_dd_add_product(column[k], j->w[m * c->depth + k], &sum, &lost, &magnitude);
        if (j->bias) vn_dd_add_product(j->bias[m], 1, &sum, &lost, &magnitude);
        if (!decided(j->format, c->depth + 1, sum, lost, magnitude, out)) {
            vn_quad_sum_t s = {0};
            for (int64_t k = 0; k < c->depth; ++k)
                if (column[k] != 0) vn_quad_add(&s, (vn_quad_t)column[k] * j->w[m * c->depth + k]);
            if (j->bias) vn_quad_add(&s, j->bias[m]);
            *out = vn_exact_sum(&s);
        }
    }
    vn_columns_free(&cols);
    vn_free(column);
}

vn_status_t vn_refine_conv(vn_eval_t *e, const vn_conv_t *c, const double *x, const double *w, const double *bias) {
    vn_refine_each(e, conv_cell, &(conv_job_t){.format = e->refine->format, .c = c, .x = x, .w = w, .bias = bias});
    return VN_OK;
}

vn_status_t vn_refine_activation(vn_eval_t *e, const char *name, double first, const double *added) {
    const vn_refine_t *q = e->refine;
    const bool none = !*name, relu = strcmp(name, "Relu") == 0, leaky = strcmp(name, "LeakyRelu") == 0;
    const double slope = relu ? 0 : isnan(first) ? 0.01f : first; /* the activation's own default */
    for (int64_t i = 0; i < q->n; ++i) {
        vn_exact_t *x = &q->out[i];
        if (!none && !relu && !leaky) {
            x->own = INFINITY;
            continue;
        }
        vn_quad_sum_t s = {.hi = x->value, .lost = x->own};
        vn_quad_add(&s, x->rest);
        if (added) vn_quad_add(&s, added[q->at[i]]);
        if (!none && s.hi + s.lo < 0) {
            if (relu) s.lost = s.hi + s.lo + s.lost < 0 ? 0 : s.lost;
            s = slope == 0 ? (vn_quad_sum_t){.lost = s.lost} : scaled(&s, slope);
        }
        *x = vn_exact_sum(&s);
    }
    return VN_OK;
}
