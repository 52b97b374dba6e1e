/* product.c -- factors, constants of a product, and the tile that fills value, bound, variance, own error and flags.
 *
 * Claims (docs/claims.md): CONTRACT-1 bound, -2 alpha and beta, -3 exactness, -4 subnormals, -5 variance, -7 uncertain operands, -8 own error.
 */
#include "oracle/product.h"

#include <math.h>
#include <string.h>

#include "oracle/blas.h"
#include "oracle/elementwise.h"
#include "oracle/tiles.h"

/* ---- factors ---- */

static bool narrower(vn_format_t f, vn_format_t than) {
    const vn_format_info_t *a = vn_format_info(f), *b = vn_format_info(than);
    return a && b && (a->p < b->p || a->emin > b->emin || a->emax < b->emax);
}

void vn_factor_plane(const double *x, const double *err, const double *var, int64_t count, vn_format_t format, vn_factor_t *f) {
    *f = (vn_factor_t){.count = count, .x = x, .err = err, .var = var, .format = format};
}

/* Claim CONTRACT-9: rounding is monotone, so an operand known within err becomes a number between the rounded ends; if these agree it is exact
 * again. Where they differ, a deviation of some sigma may choose the other neighbour: its step enters the variance in full when the ends at
 * 8 sigma differ (such flips are rare and large: their mean square would hide what one of them does to an element). */
static vn_status_t uncertain_factor(vn_eval_t *e, vn_factor_t *f, const double *x) {
    enum { SIGMAS = 8 };
    const size_t n = (size_t)(f->count ? f->count : 1);
    double *err = f->owned_err = vn_realloc(NULL, n, sizeof(double)), *lo = vn_realloc(NULL, n, sizeof(double)),
           *hi = vn_realloc(NULL, n, sizeof(double)), *var = NULL;
    if (f->var) var = f->owned_var = vn_realloc(NULL, n, sizeof(double));
    const bool ok = err && lo && hi && (var || !f->var);
    for (int pass = 0; ok && pass < (var ? 2 : 1); ++pass) {
        for (int64_t i = 0; i < f->count; ++i) {
            const double far = pass ? SIGMAS * sqrt(f->var[i]) : INFINITY, d = far < f->err[i] ? far : f->err[i];
            lo[i] = x[i] - d;
            hi[i] = x[i] + d;
        }
        vn_round_array(f->format, e->contract->operand_rounding, lo, f->count);
        vn_round_array(f->format, e->contract->operand_rounding, hi, f->count);
        for (int64_t i = 0; i < f->count; ++i) {
            const double below = f->x[i] - lo[i], above = hi[i] - f->x[i], step = below > above ? below : above;
            if (pass) var[i] = step * step;
            else err[i] = isnan(step) ? INFINITY : step * (1 + 0x1p-50); /* ends beyond the format's largest number are infinite */
        }
    }
    vn_free(lo);
    vn_free(hi);
    if (!ok) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld uncertainties", (long long)f->count);
    f->err = err;
    if (var) f->var = var;
    return VN_OK;
}

vn_status_t vn_factor_input(vn_eval_t *e, int k, int position, vn_factor_t *f) {
    const vn_tensor_t *t = e->in[k].t;
    const vn_contract_t *c = e->contract;
    const vn_format_t own = vn_format_of(t->dtype);
    const double *x = vn_arg_f64(e, k);
    *f = (vn_factor_t){0};
    if (!x) return VN_ERR_NOMEM;
    vn_factor_plane(x, vn_arg_err(e, k), e->in[k].var, t->count, own, f);
    if (t->dtype == VN_F32 && e->in[k].owned && !f->err) f->raw = t->data; /* not in a region, where values are unrounded */
    const bool asked = c->operand_mask == 0 || (c->operand_mask >> position & 1);
    if (!asked || own == VN_FMT_NONE || !narrower(c->operand, own)) return VN_OK;
    f->format = c->operand;
    f->raw = NULL;
    const size_t n = (size_t)(t->count ? t->count : 1);
    f->owned_x = vn_realloc(NULL, n, sizeof(double));
    if (!f->owned_x) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld rounded operands", (long long)t->count);
    memcpy(f->owned_x, x, (size_t)t->count * sizeof(double));
    vn_round_array(c->operand, c->operand_rounding, f->owned_x, t->count);
    f->x = f->owned_x;
    return f->err ? uncertain_factor(e, f, x) : VN_OK;
}

vn_status_t vn_bias_input(vn_eval_t *e, int k, vn_bias_t *out) {
    *out = (vn_bias_t){.c = vn_arg_f64(e, k), .err = vn_arg_err(e, k), .var = e->in[k].var, .count = e->in[k].t->count};
    return out->c ? VN_OK : VN_ERR_NOMEM;
}

vn_bias_t vn_bias_at(const vn_bias_t *b, int64_t offset) {
    vn_bias_t s = *b;
    if (s.c) s.c += offset;
    if (s.err) s.err += offset;
    if (s.var) s.var += offset;
    return s;
}

void vn_factor_free(vn_factor_t *f) {
    vn_free(f->mag);
    vn_free(f->sq);
    vn_free(f->dmag);
    vn_free(f->dsq);
    vn_free(f->sub);
    vn_free(f->owned_x);
    vn_free(f->owned_err);
    vn_free(f->owned_var);
    *f = (vn_factor_t){0};
}

vn_side_t vn_side_at(const vn_factor_t *f, int64_t offset, int64_t ld, bool t) {
#define AT(plane) (f->plane ? f->plane + offset : NULL)
    return (vn_side_t){.x = AT(x),
                       .err = AT(err),
                       .var = AT(var),
                       .dmag = AT(dmag),
                       .dsq = AT(dsq),
                       .sub = AT(sub),
                       .mag = AT(mag),
                       .sq = AT(sq),
                       .ld = ld,
                       .t = t};
#undef AT
}

/* Scratch that is filled before it is read needs no zeros. */
static void *scratch(int64_t n, size_t size) { return vn_realloc(NULL, (size_t)(n > 0 ? n : 1), size); }

static double *new_plane(int64_t n) { return vn_alloc((size_t)(n ? n : 1), sizeof(double)); }

static bool make_dmag(vn_factor_t *f) {
    f->dmag = new_plane(f->count);
    for (int64_t i = 0; f->dmag && i < f->count; ++i) f->dmag[i] = f->err ? (fabs(f->x[i]) + f->err[i]) * (1 + 0x1p-52) : fabs(f->x[i]);
    return f->dmag != NULL;
}

static bool make_dsq(vn_factor_t *f) {
    f->dsq = scratch(f->count, sizeof(double));
    for (int64_t i = 0; f->dsq && i < f->count; ++i) f->dsq[i] = f->x[i] * f->x[i];
    return f->dsq != NULL;
}

/* Magnitudes of operands that a daz kernel may read as zero; no plane if there are none. */
static bool make_sub(vn_factor_t *f) {
    const vn_format_info_t *info = vn_format_info(f->format);
    if (!info || !(f->extent.min < info->tau)) return true;
    f->sub = new_plane(f->count);
    for (int64_t i = 0; f->sub && i < f->count; ++i) f->sub[i] = fabs(f->x[i]) < info->tau ? fabs(f->x[i]) : 0;
    return f->sub != NULL;
}

/* The f32 planes that the product wants. */
static bool make_f32(vn_factor_t *f, bool mag, bool sq) {
    if (mag && !(f->mag = scratch(f->count, sizeof(float)))) return false;
    if (sq && !(f->sq = scratch(f->count, sizeof(float)))) return false;
    if (f->raw) vn_mag_sq_of_f32(f->raw, f->count, f->mag_scale, f->mag, f->sq_scale, f->sq);
    else vn_mag_sq_f32(f->x, f->count, f->mag_scale, f->mag, f->sq_scale, f->sq);
    return true;
}

static vn_extent_t extent_of(const vn_factor_t *f) { return f->raw ? vn_extent_f32(f->raw, f->count) : vn_extent(f->x, f->count); }

/* ---- constants of a product ---- */

/* p bits above the common grid G: T < 2^p G makes every order exact. G below the smallest subnormal (or, under ftz, normal) proves nothing. */
static double exactness_limit(const vn_product_t *p, const vn_bias_t *bias) {
    const vn_contract_t *c = p->e->contract;
    const double zero_only = 0x1p-1074; /* T = 0: all terms are zero */
    if (p->uncertain || p->alpha != 1 || p->beta != 1) return zero_only;
    const int bits = vn_format_info(p->acc)->p;
    double g = p->a.grid * p->b.grid;
    if (bias) {
        const double gb = bias->err ? 0 : vn_grid(bias->c, bias->count, bits);
        if (gb < g) g = gb;
    }
    if (!(g >= (c->ftz ? p->tau : p->eta))) return zero_only;
    const double limit = ldexp(g, bits);
    return limit > p->acc_max ? p->acc_max : limit;
}

vn_status_t vn_product_begin(vn_product_t *p, vn_eval_t *e, vn_factor_t *a, vn_factor_t *b, int64_t depth, double alpha, double beta,
                             const vn_bias_t *bias) {
    if (bias && !bias->c) bias = NULL;
    const vn_contract_t *c = e->contract;
    const vn_format_info_t *acc = vn_format_info(c->accumulator);
    vn_ref_t *out = &e->out[0];
    *p = (vn_product_t){.e = e,
                        .a = *a,
                        .b = *b,
                        .acc = c->accumulator,
                        .u = acc->u,
                        .eta = acc->eta,
                        .tau = acc->tau,
                        .acc_max = acc->max,
                        .alpha = alpha,
                        .beta = beta,
                        .bound = e->want >= VN_WANT_BOUND,
                        .variance = e->want >= VN_WANT_VARIANCE,
                        .has_bias = bias != NULL,
                        .uncertain = a->err || b->err,
                        .mag_unscale = 1,
                        .sq_unscale = 1,
                        .var_scale = 1,
                        .extra_rel =
                            vn_in_region(e) ? 2 : 0, /* a factor after the sum may have been multiplied into either operand: REGION-2 */
                        .depth = depth};
    *a = *b = (vn_factor_t){0};
    out->terms = depth + (bias ? 1 : 0);
    const vn_format_info_t *fa = vn_format_info(p->a.format), *fb = vn_format_info(p->b.format);
    p->compensated = (fa && fa->p > 32) || (fb && fb->p > 32) || acc->p > 32;
    p->exact_products = fa && fb && !p->uncertain && fa->p + fb->p <= acc->p;
    p->no_underflow = p->exact_products && fa->eta * fb->eta >= (c->ftz ? acc->tau : acc->eta);
    p->a.extent = extent_of(&p->a);
    p->b.extent = extent_of(&p->b);
    const vn_extent_t ec = bias ? vn_extent(bias->c, bias->count) : (vn_extent_t){0};
    p->lost = p->uncertain ? 0x1p-1074 : vn_mag_lost(&p->a.extent, &p->b.extent);
    p->nonfinite = p->a.extent.nonfinite || p->b.extent.nonfinite;
    p->value = out->value;
    p->bound_out = out->bound;
    p->var_out = out->var;
    bool good = true;
    if (p->compensated) {
        VN_TRY(vn_out_lo(e, 0));
        p->lo = out->lo;
    }
    if (p->bound) {
        VN_TRY(vn_out_own(e, 0));
        p->own = out->own;
        const int bits = acc->p;
        p->a.grid = vn_grid(p->a.x, p->a.count, bits);
        p->b.grid = p->a.grid > 0 ? vn_grid(p->b.x, p->b.count, bits) : 0;
        p->exact_below = exactness_limit(p, bias);
        p->f32_mag = !p->compensated && !p->uncertain && vn_mag_fits(&p->a.extent, &p->b.extent);
        if (p->f32_mag) {
            p->a.mag_scale = vn_mag_scale(&p->a.extent);
            p->b.mag_scale = vn_mag_scale(&p->b.extent);
            p->mag_unscale = 1 / p->a.mag_scale / p->b.mag_scale;
        } else if (!p->compensated || p->uncertain) {
            good = make_dmag(&p->a) && make_dmag(&p->b);
        }
        if (good && c->daz) good = make_sub(&p->a) && make_sub(&p->b);
        if (good && ((p->a.sub && !p->b.dmag) || (p->b.sub && !p->a.dmag)))
            good = (p->a.dmag || make_dmag(&p->a)) && (p->b.dmag || make_dmag(&p->b));
        /* The largest sum of magnitudes that can occur decides whether overflow needs flags. */
        const double top = fabs(alpha) * (double)depth * p->a.extent.max * p->b.extent.max + fabs(beta) * ec.max;
        if (p->uncertain || p->nonfinite || (bias && (bias->err || ec.nonfinite)) ||
            !(top * (1 + ((double)depth + 2) * p->u) * (1 + 0x1p-40) < acc->max)) {
            VN_TRY(vn_out_flags(e, 0));
            p->flags = out->flags;
        }
    }
    if (good && p->variance) {
        p->f32_sq = !p->compensated && !p->uncertain && vn_sq_fits(&p->a.extent, &p->b.extent);
        if (p->f32_sq) {
            p->a.sq_scale = vn_sq_scale(&p->a.extent);
            p->b.sq_scale = vn_sq_scale(&p->b.extent);
            p->sq_unscale = 1 / (p->a.sq_scale * p->a.sq_scale) / (p->b.sq_scale * p->b.sq_scale);
        }
        if (!p->f32_sq && (!p->compensated || p->a.var || p->b.var)) good = make_dsq(&p->a) && make_dsq(&p->b);
    }
    if (good && (p->f32_mag || p->f32_sq)) good = make_f32(&p->a, p->f32_mag, p->f32_sq) && make_f32(&p->b, p->f32_mag, p->f32_sq);
    return good ? VN_OK
                : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for magnitudes of %lld and %lld operands", (long long)p->a.count,
                               (long long)p->b.count);
}

void vn_product_end(vn_product_t *p) {
    vn_factor_free(&p->a);
    vn_factor_free(&p->b);
}

/* Random order (claim CONTRACT-5), in units of 0.18 u^2: q-factor and s^2-factor. The first node is exact, or n products are rounded too. */
static void order_variance_factors(const vn_product_t *p, double n, double *q, double *s) {
    *q = *s = 0;
    if (n < 1) return;
    *s = (n + 1) / 3;
    *q = (n + 1) / 2 - (n + 1) / 3 + (p->exact_products ? -1 / n : 1 - 1 / n) + p->extra_rel;
    if (n == 1 && p->exact_products) *q = *s = 0;
}

double vn_order_variance(const vn_product_t *p, double n, double s, double q) {
    double fq, fs;
    order_variance_factors(p, n, &fq, &fs);
    return 0.18 * p->u * p->u * (fq * q + fs * s * s);
}

/* ---- tiles ---- */

/* Per column of a tile: factor of T, additive term, factor of the own error; factors of sum x^2 and of y^2 in the variance. */
enum { REL, TINY, OWN, VAR_Q, VAR_S, COLUMN_PLANES };

/* Sums of f32 magnitudes that need one block only are read from f32 directly. */
static bool direct(const vn_product_t *p) { return p->f32_mag && p->depth <= VN_MAG_BLOCK; }

bool vn_tile_scratch_new(const vn_product_t *p, int64_t cells, int64_t columns, vn_tile_scratch_t *s) {
    *s = (vn_tile_scratch_t){0};
    if (!p->bound) return true;
    const bool wants_t = !direct(p), wants_q = p->variance && !p->f32_sq, wants_tmp = p->uncertain || p->a.sub || p->b.sub;
    s->per_column = scratch(COLUMN_PLANES * columns, sizeof(double));
    s->row = scratch(2 * columns, sizeof(double));
    if (p->f32_mag) s->part = scratch(cells, sizeof(float));
    if (wants_t) s->t = scratch(cells, sizeof(double));
    if (p->f32_sq) s->squares = scratch(cells, sizeof(float));
    if (wants_q) s->q = scratch(cells, sizeof(double));
    if (wants_tmp) s->tmp = scratch(cells, sizeof(double));
    return s->per_column && s->row && (s->part || !p->f32_mag) && (s->t || !wants_t) && (s->squares || !p->f32_sq) && (s->q || !wants_q) &&
           (s->tmp || !wants_tmp);
}

void vn_tile_scratch_free(vn_tile_scratch_t *s) {
    vn_free(s->t);
    vn_free(s->q);
    vn_free(s->tmp);
    vn_free(s->per_column);
    vn_free(s->row);
    vn_free(s->part);
    vn_free(s->squares);
    *s = (vn_tile_scratch_t){0};
}

static inline double at(const double *x, const vn_side_t *s, int64_t row, int64_t col) {
    return s->t ? x[col * s->ld + row] : x[row * s->ld + col];
}

/* One element by the definition, IEEE rules for NaN and infinities. Also the sum of the finite magnitudes. */
static double plain_cell(const vn_tile_t *t, int64_t i, int64_t j, double *finite) {
    double s = 0, g = 0;
    for (int64_t k = 0; k < t->k; ++k) {
        const double x = at(t->a.x, &t->a, i, k) * at(t->b.x, &t->b, k, j);
        s += x;
        if (isfinite(x)) g += fabs(x);
    }
    *finite = g;
    return s;
}

/* Rows of A and columns of B that hold a NaN or an infinity are summed again: a library may have skipped its zeros. */
static void repair(const vn_product_t *p, const vn_tile_t *t) {
    for (int64_t i = 0; i < t->m; ++i) {
        bool bad = false;
        for (int64_t k = 0; k < t->k && !bad; ++k) bad = !isfinite(at(t->a.x, &t->a, i, k));
        for (int64_t j = 0; bad && j < t->n; ++j) {
            double g;
            p->value[t->out + i * t->ldc + j] = plain_cell(t, i, j, &g);
        }
    }
    for (int64_t j = 0; j < t->n; ++j) {
        bool bad = false;
        for (int64_t k = 0; k < t->k && !bad; ++k) bad = !isfinite(at(t->b.x, &t->b, k, j));
        for (int64_t i = 0; bad && i < t->m; ++i) {
            double g;
            p->value[t->out + i * t->ldc + j] = plain_cell(t, i, j, &g);
        }
    }
}

/* Nonnegative planes: sum += X Y (or =), rounded up. */
static void add_upper(const vn_tile_t *t, const double *x, const double *y, double *tmp, double *sum) {
    vn_dgemm_tile(t->m, t->n, t->k, x, t->a.ld, t->a.t, y, t->b.ld, t->b.t, tmp, t->n, false);
    const double up = 1 + ((double)t->k + 4) * 0x1p-52;
    for (int64_t c = 0; c < t->m * t->n; ++c) {
        const double v = tmp[c] * up + (double)t->k * 0x1p-1074;
        sum[c] += isnan(v) ? INFINITY : v;
    }
}

/* sum |a||b| of the tile, rounded up: into s->t, or as f32 without its factor into s->part. */
static void magnitudes(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s) {
    const int64_t cells = t->m * t->n;
    if (direct(p)) {
        vn_sgemm_tile(t->m, t->n, t->k, t->a.mag, t->a.ld, t->a.t, t->b.mag, t->b.ld, t->b.t, s->part, t->n, false);
        return;
    }
    if (p->f32_mag) {
        vn_mag_product(t->m, t->n, t->k, t->a.mag, t->a.ld, t->a.t, t->b.mag, t->b.ld, t->b.t, p->mag_unscale, s->part, s->t);
        return;
    }
    vn_dgemm_tile(t->m, t->n, t->k, t->a.dmag, t->a.ld, t->a.t, t->b.dmag, t->b.ld, t->b.t, s->t, t->n, false);
    const double up = 1 + ((double)t->k + 4) * 0x1p-52;
    for (int64_t c = 0; c < cells; ++c) {
        const double v = s->t[c] * up + (double)t->k * p->lost;
        s->t[c] = isnan(v) ? INFINITY : v;
    }
}

/* Sum of squared terms into s->q, or as f32 without its factor into s->squares; only statistics, no direction. */
static void squares(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s) {
    if (p->f32_sq) {
        vn_sgemm_tile(t->m, t->n, t->k, t->a.sq, t->a.ld, t->a.t, t->b.sq, t->b.ld, t->b.t, s->squares, t->n, false);
        return;
    }
    vn_dgemm_tile(t->m, t->n, t->k, t->a.dsq, t->a.ld, t->a.t, t->b.dsq, t->b.ld, t->b.t, s->q, t->n, false);
}

static void column_factors(const vn_product_t *p, const vn_tile_t *t, double *plane[COLUMN_PLANES]) {
    const vn_contract_t *c = p->e->contract;
    const double b = p->has_bias ? 1 : 0, unit = 0.18 * p->u * p->u * p->var_scale;
    const bool split = p->compensated && p->a.extent.max < 0x1p990 && p->b.extent.max < 0x1p990;
    for (int64_t j = 0; j < t->n; ++j) {
        const double n = t->terms ? t->terms[j] : (double)t->k;
        double roundings = n - (p->exact_products ? 1 : 0) + b;
        if (roundings < 0) roundings = 0;
        if (n > 0) roundings += p->extra_rel;
        plane[REL][j] = (roundings * p->u + (n > 0 ? p->extra_format_u : 0)) * (1 + 0x1p-50);
        double tiny = 0;
        if (!p->no_underflow && n > 0) {
            tiny = c->ftz ? (2 * n + b) * p->tau : n * p->eta / 2 * (1 + n * p->u);
            if (p->alpha != 1) tiny += (c->ftz ? p->tau : p->eta) * (n * (p->a.extent.max + p->b.extent.max) + 2);
        }
        if (p->beta != 1) tiny += c->ftz ? p->tau : p->eta;
        plane[TINY][j] = tiny;
        plane[OWN][j] = split ? 4 * (n + 2) * (n + 2) * 0x1p-106 : (n + 4) * 0x1p-53;
        if (!p->variance) continue;
        order_variance_factors(p, n + b, &plane[VAR_Q][j], &plane[VAR_S][j]);
        plane[VAR_Q][j] *= unit;
        plane[VAR_S][j] *= unit;
    }
}

/* Under daz a subnormal operand may count as zero: sum over those terms of |a||b|. */
static bool flushed_operands(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s, double *into) {
    if (!p->a.sub && !p->b.sub) return false;
    if (p->a.sub) add_upper(t, t->a.sub, t->b.dmag, s->tmp, into);
    if (p->b.sub) add_upper(t, t->a.dmag, t->b.sub, s->tmp, into);
    return true;
}

/* Claim CONTRACT-7: |a' b' - a b| <= |a| db + da (|b| + db), summed; variances likewise. */
static void propagate(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s, double *into) {
    (void)p;
    if (t->b.err) add_upper(t, t->a.dmag, t->b.err, s->tmp, into);
    if (t->a.err) add_upper(t, t->a.err, t->b.dmag, s->tmp, into);
}

/* var(a b) = a^2 var b + var a (b^2 + var b) of independent factors, summed over the terms. False: no uncertain term, or no memory. */
static bool propagated_variance(const vn_tile_t *t, double *into) {
    bool any = false;
    const vn_side_t *a = &t->a, *b = &t->b;
    const struct { const double *x, *y; } term[] = {{a->dsq, b->var}, {a->var, b->dsq}, {a->var, b->var}};
    for (size_t i = 0; i < sizeof term / sizeof *term; ++i) {
        if (!term[i].x || !term[i].y) continue;
        vn_dgemm_tile(t->m, t->n, t->k, term[i].x, a->ld, a->t, term[i].y, b->ld, b->t, into, t->n, any);
        any = true;
    }
    return any;
}

/* value = alpha value + beta c, carrying the low part where there is one. */
static void affine(const vn_product_t *p, const vn_tile_t *t) {
    if (p->alpha == 1 && !p->has_bias) return;
    for (int64_t i = 0; i < t->m; ++i)
        for (int64_t j = 0; j < t->n; ++j) {
            const int64_t o = t->out + i * t->ldc + j;
            double hi = p->value[o], lo = p->lo ? p->lo[o] : 0;
            if (p->alpha != 1) {
                const double v = hi * p->alpha;
                lo = p->lo && isfinite(v) ? fma(hi, p->alpha, -v) + lo * p->alpha : 0;
                hi = v;
            }
            if (p->has_bias) {
                const double c = t->bias.c[i * t->bias.rs + j * t->bias.cs], x = p->beta * c, s = hi + x, z = s - hi;
                if (p->lo && isfinite(s)) lo += (hi - (s - z)) + (x - z) + fma(p->beta, c, -x);
                hi = s;
            }
            p->value[o] = hi;
            if (p->lo) p->lo[o] = lo;
        }
}

typedef struct row_in {
    int64_t n;
    const double *t, *extra, *rel, *tiny, *own_rel; /* extra: flushed and propagated parts, NULL if none */
    const double *c, *c_err;
    int64_t cs;
    double alpha, beta, alpha_rel, beta_rel, exact_below;
} row_in_t;

VN_CLONES static void widen(int64_t n, const float *x, double scale, double *out) {
    for (int64_t j = 0; j < n; ++j) out[j] = (double)x[j] * scale;
}

/* The plain case, one row: bound and own error from sums of magnitudes. */
VN_CLONES static void finish_row(const row_in_t *r, double *bound, double *own) {
    const double *t = r->t, *rel = r->rel, *tiny = r->tiny, *own_rel = r->own_rel;
    const double below = r->exact_below;
    for (int64_t j = 0; j < r->n; ++j) {
        const double e = rel[j] * t[j] + tiny[j];
        const bool exact = t[j] < below;
        bound[j] = exact ? 0 : e;
        own[j] = exact ? 0 : own_rel[j] * t[j];
    }
}

/* Row i of the sums of magnitudes and of squares; the row may be changed by its reader. */
static double *row_of_t(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s, int64_t i) {
    if (!direct(p)) return s->t + i * t->n;
    widen(t->n, s->part + i * t->n, vn_mag_up(t->k) * p->mag_unscale, s->row);
    return s->row;
}
static double *row_of_q(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s, int64_t i) {
    if (!p->f32_sq) return s->q + i * t->n;
    widen(t->n, s->squares + i * t->n, p->sq_unscale, s->row + t->n);
    return s->row + t->n;
}

VN_CLONES static void variance_row(int64_t n, const double *fq, const double *fs, const double *q, const double *y, const double *bound,
                                   double *var) {
    for (int64_t j = 0; j < n; ++j) {
        const double v = fq[j] * q[j] + fs[j] * (y[j] * y[j]);
        var[j] = bound[j] == 0 ? 0 : v;
    }
}

/* With bias, alpha, beta or extra terms. t is replaced by the full sum of magnitudes. */
static void finish_row_general(const row_in_t *r, double *t, double *bound, double *own) {
    for (int64_t j = 0; j < r->n; ++j) {
        const double part = r->alpha * t[j], dc = r->c_err ? fabs(r->beta * r->c_err[j * r->cs]) : 0;
        const double c = (r->c ? fabs(r->beta * r->c[j * r->cs]) : 0) + dc;
        const double sum = isnan(part) ? INFINITY : part + (isfinite(c) ? c : 0);
        double e = r->rel[j] * sum + r->tiny[j] + r->alpha_rel * part + r->beta_rel * c;
        const bool exact = sum < r->exact_below && !(r->extra && r->extra[j] > 0);
        e = e + dc + (r->extra ? r->alpha * r->extra[j] : 0);
        bound[j] = exact ? 0 : isnan(e) ? INFINITY : e * (1 + 0x1p-50);
        own[j] = exact ? 0 : r->own_rel[j] * sum + 0x1p-1070;
        t[j] = sum;
    }
}

static void flag_row(const vn_product_t *p, const vn_tile_t *t, int64_t i, const double *sum) {
    for (int64_t j = 0; j < t->n; ++j) {
        const int64_t o = t->out + i * t->ldc + j;
        const double n = t->terms ? t->terms[j] : (double)t->k;
        double top = sum[j];
        if (!isfinite(p->value[o]) && !p->uncertain) {
            plain_cell(t, i, j, &top);
            if (p->bound_out) p->bound_out[o] = 0; /* demanded as it stands */
            if (p->own) p->own[o] = 0;
        }
        top *= 1 + n * p->u;
        if (top >= p->acc_max) p->flags[o] |= VN_EL_INF_OK;
        if (top >= 2 * p->acc_max) p->flags[o] |= VN_EL_NAN_OK;
        if (t->padded && p->nonfinite && n < (double)t->k) { /* a materialised zero of the padding may meet an infinite weight */
            bool bad = false;
            for (int64_t k = 0; k < t->k && !bad; ++k) bad = !isfinite(at(t->a.x, &t->a, i, k));
            if (bad) p->flags[o] |= VN_EL_NAN_OK;
        }
    }
}

void vn_product_tile(const vn_product_t *p, const vn_tile_t *t, vn_tile_scratch_t *s) {
    if (t->m <= 0 || t->n <= 0) return;
    double *value = p->value + t->out;
    if (p->compensated) {
        double *mag = s->t, *local = NULL;
        if (!mag) mag = local = new_plane(t->m * t->n);
        if (mag)
            vn_dot2_tile(t->m, t->n, t->k, t->a.x, t->a.ld, t->a.t, t->b.x, t->b.ld, t->b.t, value, p->lo + t->out, t->ldc, mag, s->q,
                         t->n);
        else /* no memory: plain rounding, the lower part stays 0 */
            vn_own_dgemm(t->m, t->n, t->k, t->a.x, t->a.ld, t->a.t, t->b.x, t->b.ld, t->b.t, value, t->ldc, false);
        vn_free(local);
    } else {
        vn_dgemm_tile(t->m, t->n, t->k, t->a.x, t->a.ld, t->a.t, t->b.x, t->b.ld, t->b.t, value, t->ldc, false);
        if (p->nonfinite) repair(p, t);
    }
    if (p->bound) {
        if (!p->compensated || p->uncertain) magnitudes(p, t, s);
        if (p->variance && !p->compensated) squares(p, t, s);
    }
    affine(p, t);
    if (!p->bound) return;
    double *column[COLUMN_PLANES];
    for (int c = 0; c < COLUMN_PLANES; ++c) column[c] = s->per_column + c * t->n;
    column_factors(p, t, column);
    double *extra = NULL;
    if (p->uncertain || p->a.sub || p->b.sub) {
        extra = new_plane(t->m * t->n);
        if (extra) {
            flushed_operands(p, t, s, extra);
            propagate(p, t, s, extra);
        }
    }
    const bool needs_extra = p->uncertain || p->a.sub || p->b.sub;
    const double *inherited = p->variance && p->uncertain && propagated_variance(t, s->tmp) ? s->tmp : NULL; /* tmp is free from here on */
    /* A separate bias kernel behind a narrow product (claim CONTRACT-15): u_i (|sum| + E) + u_i |bias| + eta_i more. */
    const vn_format_info_t *hidden =
        p->has_bias && p->e->contract->intermediate != VN_FMT_NONE ? vn_format_info(p->e->contract->intermediate) : NULL;
    const bool plain = p->alpha == 1 && !p->has_bias && !needs_extra;
    for (int64_t i = 0; i < t->m; ++i) {
        double *sum = row_of_t(p, t, s, i), *bound = p->bound_out + t->out + i * t->ldc, *own = p->own + t->out + i * t->ldc;
        row_in_t r = {.n = t->n,
                      .t = sum,
                      .extra = extra ? extra + i * t->n : NULL,
                      .rel = column[REL],
                      .tiny = column[TINY],
                      .own_rel = column[OWN],
                      .c = p->has_bias ? t->bias.c + i * t->bias.rs : NULL,
                      .c_err = p->has_bias && t->bias.err ? t->bias.err + i * t->bias.rs : NULL,
                      .cs = t->bias.cs,
                      .alpha = fabs(p->alpha),
                      .beta = p->beta,
                      .alpha_rel = p->alpha != 1 ? 2 * p->u : 0,
                      .beta_rel = p->beta != 1 ? 2 * p->u : 0,
                      .exact_below = p->exact_below};
        if (plain) finish_row(&r, bound, own);
        else finish_row_general(&r, sum, bound, own);
        for (int64_t j = 0; needs_extra && !extra && j < t->n; ++j) bound[j] = INFINITY; /* no memory: no statement */
        if (p->flags) flag_row(p, t, i, sum);
        if (hidden)
            for (int64_t j = 0; j < t->n; ++j) { /* sum and bias each rounded to the hidden type before they meet */
                const double c = fabs(r.beta * r.c[j * r.cs]), sum_abs = fabs(value[i * t->ldc + j]) + c + bound[j];
                bound[j] += hidden->u * (sum_abs + c) + hidden->eta;
            }
        if (!p->variance) continue;
        double *var = p->var_out + t->out + i * t->ldc, *q = row_of_q(p, t, s, i);
        const double *y = value + i * t->ldc, u2 = 0.18 * p->u * p->u;
        if (!plain)
            for (int64_t j = 0; j < t->n; ++j) {
                const double c = p->has_bias ? p->beta * t->bias.c[i * t->bias.rs + j * t->bias.cs] : 0;
                q[j] = p->alpha * p->alpha * q[j] + c * c;
            }
        variance_row(t->n, column[VAR_Q], column[VAR_S], q, y, bound, var);
        for (int64_t j = 0; !plain && j < t->n; ++j) {
            const double c = p->has_bias ? p->beta * t->bias.c[i * t->bias.rs + j * t->bias.cs] : 0;
            if (p->alpha != 1) var[j] += u2 * (y[j] - c) * (y[j] - c);
            if (p->beta != 1) var[j] += u2 * c * c;
            if (inherited) var[j] += p->alpha * p->alpha * inherited[i * t->n + j];
            if (p->has_bias && t->bias.var) var[j] += p->beta * p->beta * t->bias.var[i * t->bias.rs + j * t->bias.cs];
            if (isnan(var[j])) var[j] = 0;
        }
        for (int64_t j = 0; hidden && j < t->n; ++j) {
            const double c = r.beta * r.c[j * r.cs], a = vn_ulp(p->e->contract->intermediate, y[j] - c),
                         b = vn_ulp(p->e->contract->intermediate, c);
            if (isfinite(a) && isfinite(b)) var[j] += (a * a + b * b) / 12;
        }
    }
    vn_free(extra);
}
