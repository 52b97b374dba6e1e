/* attention.c -- scaled dot-product attention over heads, by blocks of queries.
 *
 * Claim ATTN-1 (bounds.md "attention"; d components, n keys, p the exact weights, A and D of SOFTMAX-1 with operand uncertainty Ds):
 *   Ds = g(d+3) scale sum|q||k| + 2 d eta; softcap c: slope Ds + (2 t + 3) u |s'|; a float mask adds u |s' + m|;
 *   O within [sum p A |v| + g(n+3) sum p (1+A) |v| + 1.01 (2 tau + eta_P/2) sum|v| + n eta + D |O|]/(1-D) (1+2u) + 2u |O|.
 *   Weights kept in a narrower type (contract.intermediate) of roundoff u_P: a factor 1 + u_P in A.
 * Second tier of 16-bit types, "16-bit-scores": scaled operands and scores rounded to the type, + (4 u_T sum|q||k| scale + u_T |s|) (1 + 4 u_T),
 * and u_P = u_T.
 * Specials: a forbidden key has weight 0 whatever it holds (0 * inf = 0 here; NaN in a forbidden key: see op_attention.c). A query
 * without keys gives zeros.
 * Variance: first order, sum p^2 s^2 (v - O)^2 + random order of the two sums.
 */
#include "oracle/attention.h"

#include <math.h>
#include <string.h>

typedef struct work {
    vn_attention_t *a;
    double *k_abs, *k_sq, *v_abs, *v_sq, *v_err; /* contiguous [batch, kv_heads, keys, size] */
    double *v_column;                            /* [batch, kv_heads, v_size]: sum of |v| */
    int64_t block, blocks;
    double u, eta;
    vn_exp_model_t model;
    const vn_format_info_t *type16; /* of the second tier, or NULL */
    bool bound, variance;
    bool plain; /* scores: nothing but the scale and a run of visible keys */
    int failed; /* atomic */
} work_t;

/* Scratch of one task: rows x keys planes, rows x size planes. */
typedef struct scratch {
    double *s, *t, *sq, *err, *err16, *w, *wrong, *weights, *second, *p2s2;
    double *qa, *qs, *o, *o_err, *o_second, *o_q, *o_m1, *o_m2, *o_m3;
    void *all;
} scratch_t;

static bool scratch_new(const work_t *w, scratch_t *s) {
    const vn_attention_t *a = w->a;
    size_t wide, deep, long_rows, total;
    if (!vn_size_mul((size_t)w->block, (size_t)a->keys, &wide) || !vn_size_mul((size_t)w->block, (size_t)a->v_size, &deep) ||
        !vn_size_mul((size_t)w->block, (size_t)a->size, &long_rows) || !vn_size_mul(wide, 10, &total) ||
        !vn_size_add(total, 7 * deep + 2 * long_rows, &total))
        return false;
    if (total > INT64_MAX / 16) return false;
    double *p = vn_plane_raw((int64_t)total + 1); /* every part is written before it is read */
    s->all = p;
    if (!p) return false;
    double **planes[] = {&s->s, &s->t, &s->sq, &s->err, &s->err16, &s->w, &s->wrong, &s->weights, &s->second, &s->p2s2};
    for (int i = 0; i < 10; ++i) *planes[i] = p, p += wide;
    double **outs[] = {&s->o, &s->o_err, &s->o_second, &s->o_q, &s->o_m1, &s->o_m2, &s->o_m3};
    for (int i = 0; i < 7; ++i) *outs[i] = p, p += deep;
    s->qa = p;
    s->qs = p + long_rows;
    return true;
}

static bool visible(const vn_attention_t *a, int64_t b, int64_t i, int64_t j) {
    const int64_t at = i + (a->offset ? a->offset[b] : 0);
    if (a->causal && j > at) return false;
    if (a->left >= 0 && at - j > a->left) return false;
    if (a->right >= 0 && j - at > a->right) return false;
    return !a->valid || j < a->valid[b];
}

/* Score, its bound and its bias of one row; values -inf where the key is forbidden. Returns whether any key is left. */
typedef struct row {
    int64_t b, h, i;
    double *s, *t, *sq, *err, *err16;
} row_t;

/* Scores and errors of one row where nothing but the scale touches them. */
typedef struct score_model {
    double size, g, floor_;     /* |scale|, g(d + 3) with its roundings, 2 d eta */
    double u16, grown16, eta16; /* of the second tier's scores */
} score_model_t;

VN_CLONES static void plain_scores(int64_t n, double scale, double *s) {
    for (int64_t j = 0; j < n; ++j) s[j] *= scale;
}

VN_CLONES static void plain_errors(const score_model_t *m, int64_t n, const double *restrict t, double *restrict err) {
    for (int64_t j = 0; j < n; ++j) err[j] = (m->g * t[j] + err[j]) * m->size + m->floor_;
}

VN_CLONES static void plain_errors_16(const score_model_t *m, int64_t n, const double *restrict s, const double *restrict t,
                                      const double *restrict err, double *restrict err16) {
    for (int64_t j = 0; j < n; ++j) err16[j] = err[j] + (4 * m->u16 * t[j] * m->size + m->u16 * fabs(s[j])) * m->grown16 + m->eta16;
}

VN_CLONES static void plain_variances(double factor, double q, double p, int64_t n, const double *restrict s, double *restrict sq) {
    for (int64_t j = 0; j < n; ++j) sq[j] = factor * (q * sq[j] + p * (s[j] * s[j]));
}

static bool is_plain(const vn_attention_t *a) {
    return a->softcap <= 0 && !a->bias[0].at && !a->bias[1].at && (a->k_tap < 0 || a->tap == VN_TAP_WEIGHTS);
}

/* The keys that a query sees without a bias are a run; the others get -inf. */
static bool plain_row(const work_t *w, const row_t *r) {
    const vn_attention_t *a = w->a;
    const double u = w->u, d = (double)a->size;
    const int64_t n = a->keys, at = r->i + (a->offset ? a->offset[r->b] : 0);
    int64_t from = 0, to = n;
    if (a->causal && at + 1 < to) to = at + 1;
    if (a->right >= 0 && at + a->right + 1 < to) to = at + a->right + 1;
    if (a->left >= 0 && at - a->left > from) from = at - a->left;
    if (a->valid && a->valid[r->b] < to) to = a->valid[r->b];
    from = from < n ? from : n;
    to = to > from ? to : from;
    if (w->variance) plain_variances(0.18 * u * u * (a->scale * a->scale), (d + 1) / 6 + 2, (d + 1) / 3, n, r->s, r->sq);
    plain_scores(n, a->scale, r->s);
    if (w->bound) {
        score_model_t m = {.size = fabs(a->scale), .g = vn_gamma(d + 3, u) * (1 + d * 0x1p-51), .floor_ = 2 * d * w->eta};
        plain_errors(&m, n, r->t, r->err);
        if (w->type16) {
            m.u16 = w->type16->u, m.grown16 = 1 + 4 * w->type16->u, m.eta16 = w->type16->eta * d;
            plain_errors_16(&m, n, r->s, r->t, r->err, r->err16);
        }
    }
    for (int part = 0; part < 2; ++part)
        for (int64_t j = part ? to : 0; j < (part ? n : from); ++j) {
            r->s[j] = -INFINITY;
            if (w->bound) r->err[j] = 0;
            if (w->bound && w->type16) r->err16[j] = 0;
            if (w->variance) r->sq[j] = 0;
        }
    return to > from;
}

static bool score_row(const work_t *w, const row_t *r) {
    const vn_attention_t *a = w->a;
    if (w->plain) return plain_row(w, r);
    const double u = w->u, d = (double)a->size, g = vn_gamma(d + 3, u), t_tanh = vn_budget(a->e, "tanh"), scale = fabs(a->scale);
    vn_ref_t *tap = a->k_tap >= 0 ? &a->e->out[a->k_tap] : NULL;
    const int64_t tap_at = ((r->b * a->heads + r->h) * a->queries + r->i) * a->keys;
    bool any = false;
    for (int64_t j = 0; j < a->keys; ++j) {
        double s = r->s[j] * a->scale, e = 0, e16 = 0, var = 0;
        if (w->bound) {
            e = (g * r->t[j] * (1 + d * 0x1p-51) + r->err[j]) * scale + 2 * d * w->eta; /* err: what uncertain operands move */
            if (w->type16)
                e16 = e + (4 * w->type16->u * r->t[j] * scale + w->type16->u * fabs(s)) * (1 + 4 * w->type16->u) + w->type16->eta * d;
        }
        if (w->variance) var = 0.18 * u * u * (a->scale * a->scale) * ((d + 1) * (r->sq[j] / 6 + r->s[j] * r->s[j] / 3) + 2 * r->sq[j]);
        double shown = s, shown_e = e, shown_16 = e16;
        if (a->softcap > 0) {
            const double z = s / a->softcap, y = tanh(z), near = fmax(fabs(z) - e / a->softcap, 0), c = 1 / cosh(near), slope = c * c;
            const double near16 = fmax(fabs(z) - e16 / a->softcap, 0), c16 = 1 / cosh(near16);
            s = a->softcap * y;
            e = slope * e * (1 + 2 * t_tanh * u) + (2 * t_tanh + 3) * u * fabs(s);
            e16 = c16 * c16 * e16 * (1 + 2 * t_tanh * u) + (2 * t_tanh + 3) * u * fabs(s) + (w->type16 ? 2 * w->type16->u * fabs(s) : 0);
            var = (1 - y * y) * (1 - y * y) * var + 0.5 * u * u * s * s;
            if (a->tap >= VN_TAP_CAPPED) shown = s, shown_e = e, shown_16 = e16;
        }
        bool seen = visible(a, r->b, r->i, j);
        for (int k = 0; k < 2; ++k) {
            const vn_score_bias_t *m = &a->bias[k];
            if (!m->at) continue;
            const double v = j < m->keys ? m->at[r->b * m->sb + r->h * m->sh + r->i * m->si + j * m->sj] : -INFINITY;
            if (v == -INFINITY) {
                seen = false;
            } else if (m->adds) {
                s += v;
                e += u * fabs(s);
                e16 += (u + (w->type16 ? w->type16->u : 0)) * fabs(s);
                var += v != 0 ? vn_node_variance(w->model.acc, s) : 0;
            }
        }
        if (!seen) s = -INFINITY, e = e16 = var = 0;
        if (a->tap == VN_TAP_BIASED) shown = s, shown_e = e, shown_16 = e16;
        any |= seen;
        r->s[j] = s;
        if (w->bound) r->err[j] = e, r->err16[j] = e16;
        if (w->variance) r->sq[j] = var;
        if (tap && a->tap != VN_TAP_WEIGHTS) {
            tap->value[tap_at + j] = shown;
            if (tap->bound) tap->bound[tap_at + j] = isfinite(shown) ? shown_e : 0;
            if (tap->wide) tap->wide[tap_at + j] = isfinite(shown) ? shown_16 : 0;
            if (tap->var) tap->var[tap_at + j] = isfinite(shown) ? var : 0;
        }
    }
    return any;
}

static void tap_weights(const work_t *w, int64_t at, const double *p, const double *wrong, const vn_exp_row_t *x, bool second) {
    vn_ref_t *r = &w->a->e->out[w->a->k_tap];
    double *to = second ? r->wide : r->bound;
    for (int64_t j = 0; j < w->a->keys; ++j) {
        if (!second) r->value[at + j] = p[j];
        if (!to) continue;
        const double b = isfinite(x->spread)
                             ? p[j] * ((1 + wrong[j]) * (1 + w->u) * (1 + w->u) / (1 - x->spread) - 1) + 2 * w->model.tau + w->model.eta_mid
                             : INFINITY;
        to[at + j] = b < 1 ? b : INFINITY;
        if (second) to[at + j] = fmax(to[at + j], r->bound[at + j]);
    }
}

VN_CLONES static void shares(int64_t n, double inverse, double g, const double *restrict wrong, double *restrict p,
                             double *restrict weights) {
    for (int64_t j = 0; j < n; ++j) {
        p[j] *= inverse;
        weights[j] = p[j] * (wrong[j] + g * (1 + wrong[j]));
    }
}

/* One row through the exponentials: s becomes p, weights the matrix row that multiplies |v| in the bound. Returns D. */
static double weigh(const work_t *w, const row_t *r, double *p, double *wrong, double *weights, double *second, double *p2s2,
                    double *spread16) {
    const vn_attention_t *a = w->a;
    const int64_t n = a->keys, at = ((r->b * a->heads + r->h) * a->queries + r->i) * n;
    const double sink = a->sinks ? a->sinks[r->h] : a->sink;
    *spread16 = 0;
    vn_exp_row_t x = vn_exp_row(n, r->s, w->bound ? r->err : NULL, p);
    if (!x.regular) {
        for (int64_t j = 0; j < n; ++j) {
            p[j] = NAN;
            if (w->bound) weights[j] = 0;
            if (w->type16 && w->bound) second[j] = 0;
            if (w->variance) p2s2[j] = 0;
        }
        if (a->k_tap >= 0 && a->tap == VN_TAP_WEIGHTS) tap_weights(w, at, p, wrong, &x, false);
        return 0;
    }
    double sink_distance = 0;
    if (sink > -INFINITY) { /* exp(sink - max) joins the denominator, as one more term of the row; it may be the largest */
        sink_distance = fabs(sink - x.max);
        if (sink > x.max) {
            const double factor = exp(x.max - sink);
            for (int64_t j = 0; j < n; ++j) p[j] *= factor;
            x.total.hi *= factor;
            x.total.lo *= factor;
            x.max = sink;
        }
        vn_two_sum_add(&x.total.hi, &x.total.lo, exp(sink - x.max));
    }
    const double inverse = 1 / (x.total.hi + x.total.lo);
    if (!w->bound) {
        plain_scores(n, inverse, p);
        if (a->k_tap >= 0 && a->tap == VN_TAP_WEIGHTS) tap_weights(w, at, p, wrong, &x, false);
        return 0;
    }
    const double g = vn_gamma((double)n + 3, w->u);
    double d16 = 0;
    if (w->type16) { /* wrong[] is free until the first tier is computed */
        vn_exp_model_t m = w->model;
        m.u_mid = fmax(m.u_mid, w->type16->u);
        m.eta_mid = fmax(m.eta_mid, w->type16->eta);
        vn_exp_row_t y = x;
        y.shift = 0;
        for (int64_t j = 0; j < n; ++j) y.shift = fmax(y.shift, r->err16[j]);
        vn_exp_wrong(&m, n, r->s, r->err16, p, &y, wrong);
        for (int64_t j = 0; j < n; ++j) second[j] = p[j] * inverse * (wrong[j] + g * (1 + wrong[j]));
        d16 = y.spread;
    }
    vn_exp_wrong(&w->model, n, r->s, r->err, p, &x, wrong);
    if (sink > -INFINITY)
        x.spread += exp(sink - x.max) * inverse * ((w->model.slope * sink_distance + 2 * w->model.t + 2) * w->u + x.shift);
    if (w->variance) {
        vn_exp_variance(&w->model, n, r->s, p, &x, p2s2);
        for (int64_t j = 0; j < n; ++j) p2s2[j] = p[j] * inverse * p[j] * inverse * (p2s2[j] + r->sq[j]);
    }
    shares(n, inverse, g, wrong, p, weights);
    if (a->k_tap >= 0 && a->tap == VN_TAP_WEIGHTS) tap_weights(w, at, p, wrong, &x, false);
    *spread16 = d16;
    return x.spread;
}

static double finish(const work_t *w, double part, double doubt, double column, double spread, double o, double eta_p) {
    if (!(spread < 1)) return INFINITY;
    const double n = (double)w->a->keys, u = w->u;
    const double b =
        (part + doubt + 1.01 * (2 * w->model.tau + eta_p / 2) * column + n * w->eta + spread * fabs(o)) / (1 - spread) * (1 + 2 * u) +
        2 * u * fabs(o);
    return isnan(b) ? INFINITY : b * (1 + n * 0x1p-51);
}

static void store_rows(const work_t *w, const scratch_t *s, int64_t b, int64_t h, int64_t first, int64_t rows, const double *spread,
                       const double *spread16, const bool *any) {
    const vn_attention_t *a = w->a;
    const int64_t kv = h / (a->heads / a->kv_heads), m = a->v_size;
    vn_ref_t *r = &a->e->out[a->k_out];
    const double *column = w->v_column ? w->v_column + (b * a->kv_heads + kv) * m : NULL, u = w->u, n = (double)a->keys;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < m; ++c) {
            const int64_t at = b * a->ob + h * a->oh + (first + i) * a->oi + c, k = i * m + c;
            const double o = any[i] ? s->o[k] : 0;
            r->value[at] = o;
            if (!r->bound || !any[i] || !isfinite(o)) continue;
            const double doubt = w->v_err ? s->o_m1[k] : 0;
            r->bound[at] = finish(w, s->o_err[k], doubt, column[c], spread[i], o, w->model.eta_mid);
            if (r->wide)
                r->wide[at] = w->type16 ? fmax(r->bound[at], finish(w, s->o_second[k], doubt, column[c], spread16[i], o, w->type16->eta))
                                        : r->bound[at];
            if (r->own) r->own[at] = (isfinite(r->bound[at]) ? r->bound[at] * (0x1p-53 / u) : 0) + 0x1p-52 * fabs(o);
            if (r->var) {
                const double q = s->o_q[k], order = 0.18 * u * u * ((n + 1) * (q / 6 + o * o / 3) + q);
                const double v = fmax(s->o_m2[k], 0) + order + 0.36 * u * u * o * o;
                r->var[at] = isfinite(v) ? v : 0;
            }
        }
}

/* o_q = sum (p v)^2, o_m2 = sum p^2 s^2 (v - o)^2, expanded into products of matrices; t is free by now. */
static void moments(const work_t *w, const scratch_t *s, int64_t rows, const double *v, int64_t ldv, const double *v_sq) {
    const int64_t m = w->a->v_size, n = w->a->keys;
    for (int64_t i = 0; i < rows * n; ++i) s->t[i] = s->w[i] * s->w[i];
    vn_dgemm(rows, m, n, s->t, n, false, v_sq, m, false, s->o_q, m, false);
    vn_dgemm(rows, m, n, s->p2s2, n, false, v_sq, m, false, s->o_m2, m, false);
    vn_dgemm(rows, m, n, s->p2s2, n, false, v, ldv, false, s->o_m3, m, false);
    for (int64_t i = 0; i < rows; ++i) {
        double total = 0;
        for (int64_t j = 0; j < n; ++j) total += s->p2s2[i * n + j];
        for (int64_t c = 0; c < m; ++c) {
            const double o = s->o[i * m + c];
            s->o_m2[i * m + c] += o * (o * total - 2 * s->o_m3[i * m + c]);
        }
    }
}

static void block_scores(const work_t *w, const scratch_t *s, int64_t b, int64_t h, int64_t first, int64_t rows) {
    const vn_attention_t *a = w->a;
    const int64_t kv = h / (a->heads / a->kv_heads), n = a->keys, d = a->size, k_at = (b * a->kv_heads + kv) * n * d;
    const double *q = a->q.at + b * a->q.sb + h * a->q.sh + first * a->q.si, *k = a->k.at + b * a->k.sb + kv * a->k.sh;
    vn_dgemm(rows, n, d, q, a->q.si, false, k, a->k.si, true, s->s, n, false);
    if (!w->bound) return;
    const double *qe = a->q.err ? a->q.err + b * a->q.sb + h * a->q.sh + first * a->q.si : NULL;
    memset(s->err, 0, (size_t)(rows * n) * sizeof *s->err);
    if (qe) { /* what moves: qe (|k| + ke) here, |q| ke below; k_abs holds |k| + ke */
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t c = 0; c < d; ++c) s->qs[i * d + c] = qe[i * a->q.si + c];
        vn_dgemm(rows, n, d, s->qs, d, false, w->k_abs + k_at, d, true, s->err, n, false);
    }
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t c = 0; c < d; ++c) s->qa[i * d + c] = fabs(q[i * a->q.si + c]);
    if (a->k.err) vn_dgemm(rows, n, d, s->qa, d, false, a->k.err + b * a->k.sb + kv * a->k.sh, a->k.si, true, s->err, n, qe != NULL);
    for (int64_t i = 0; qe && i < rows; ++i)
        for (int64_t c = 0; c < d; ++c) s->qa[i * d + c] += qe[i * a->q.si + c];
    vn_dgemm(rows, n, d, s->qa, d, false, w->k_abs + k_at, d, true, s->t, n, false);
    if (!w->variance) return;
    for (int64_t i = 0; i < rows * d; ++i) s->qs[i] = s->qa[i] * s->qa[i];
    vn_dgemm(rows, n, d, s->qs, d, false, w->k_sq + k_at, d, true, s->sq, n, false);
}

static void one_block(const work_t *w, const scratch_t *s, int64_t b, int64_t h, int64_t first, int64_t rows) {
    const vn_attention_t *a = w->a;
    const int64_t kv = h / (a->heads / a->kv_heads), n = a->keys, m = a->v_size, v_at = (b * a->kv_heads + kv) * n * m;
    double spread[64], spread16[64];
    bool any[64];
    block_scores(w, s, b, h, first, rows);
    for (int64_t i = 0; i < rows; ++i) {
        const row_t r = {.b = b,
                         .h = h,
                         .i = first + i,
                         .s = s->s + i * n,
                         .t = s->t + i * n,
                         .sq = s->sq + i * n,
                         .err = s->err + i * n,
                         .err16 = s->err16 + i * n};
        any[i] = score_row(w, &r);
        spread[i] = spread16[i] = 0;
        double *p = s->w + i * n, *weights = s->weights + i * n, *second = s->second + i * n;
        if (any[i]) {
            spread[i] = weigh(w, &r, p, s->wrong + i * n, weights, second, s->p2s2 + i * n, &spread16[i]);
            continue;
        }
        memset(p, 0, (size_t)n * sizeof *p); /* no key: zeros */
        memset(weights, 0, (size_t)n * sizeof *weights);
        memset(second, 0, (size_t)n * sizeof *second);
        memset(s->p2s2 + i * n, 0, (size_t)n * sizeof *p);
        if (a->k_tap >= 0 && a->tap == VN_TAP_WEIGHTS)
            memset(&a->e->out[a->k_tap].value[((b * a->heads + h) * a->queries + first + i) * n], 0, (size_t)n * sizeof *p);
    }
    const double *v = a->v.at + b * a->v.sb + kv * a->v.sh;
    vn_dgemm(rows, m, n, s->w, n, false, v, a->v.si, false, s->o, m, false);
    for (int64_t i = 0; i < rows; ++i) /* 0 * inf of a key without weight is 0, not NaN */
        for (int64_t c = 0; c < m; ++c) {
            if (isfinite(s->o[i * m + c])) continue;
            double o = 0;
            for (int64_t j = 0; j < n; ++j)
                if (s->w[i * n + j] != 0) o += s->w[i * n + j] * v[j * a->v.si + c];
            s->o[i * m + c] = o;
        }
    if (w->bound) {
        vn_dgemm(rows, m, n, s->weights, n, false, w->v_abs + v_at, m, false, s->o_err, m, false);
        if (w->type16) vn_dgemm(rows, m, n, s->second, n, false, w->v_abs + v_at, m, false, s->o_second, m, false);
        if (w->variance) moments(w, s, rows, v, a->v.si, w->v_sq + v_at);
        if (w->v_err) { /* sum p (1+A) e_v; weights <= p (1+A) (1+g) - p, so p + weights covers it */
            for (int64_t i = 0; i < rows * n; ++i) s->weights[i] += s->w[i];
            vn_dgemm(rows, m, n, s->weights, n, false, w->v_err + v_at, m, false, s->o_m1, m, false);
        }
    }
    store_rows(w, s, b, h, first, rows, spread, spread16, any);
}

static void chunk(void *ctx, int64_t begin, int64_t end) {
    work_t *w = ctx;
    const vn_attention_t *a = w->a;
    scratch_t s;
    if (!scratch_new(w, &s)) {
        __atomic_store_n(&w->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t t = begin; t < end; ++t) {
        const int64_t first = t % w->blocks * w->block, head = t / w->blocks,
                      rows = a->queries - first < w->block ? a->queries - first : w->block;
        one_block(w, &s, head / a->heads, head % a->heads, first, rows);
    }
    vn_free(s.all);
}

/* Contiguous [batch, kv_heads, keys, size] plane of |x| + err, x^2, or err. */
static double *flat(const vn_attention_t *a, const vn_heads_t *x, int64_t size, int what) {
    double *p = vn_alloc((size_t)(a->batch * a->kv_heads * a->keys * size) + 1, sizeof *p), *to = p;
    if (!p) return NULL;
    for (int64_t b = 0; b < a->batch; ++b)
        for (int64_t h = 0; h < a->kv_heads; ++h)
            for (int64_t i = 0; i < a->keys; ++i) {
                const int64_t at = b * x->sb + h * x->sh + i * x->si;
                for (int64_t c = 0; c < size; ++c) {
                    const double e = x->err ? x->err[at + c] : 0, v = fabs(x->at[at + c]) + e;
                    *to++ = what == 2 ? e : what == 1 ? v * v : isfinite(v) ? v : 0;
                }
            }
    return p;
}

/* The oracle is one such evaluation, in f64. */
static vn_status_t tap_own(const work_t *w) {
    vn_ref_t *r = &w->a->e->out[w->a->k_tap];
    VN_TRY(vn_out_own(w->a->e, w->a->k_tap));
    for (int64_t i = 0; i < r->count; ++i)
        r->own[i] =
            (isfinite(r->bound[i]) ? r->bound[i] * (0x1p-53 / w->u) : 0) + (isfinite(r->value[i]) ? 0x1p-52 * fabs(r->value[i]) : 0);
    return VN_OK;
}

vn_status_t vn_attention_run(vn_attention_t *a) {
    vn_eval_t *e = a->e;
    int64_t cells, kv_cells;
    if (a->kv_heads < 1 || a->heads % a->kv_heads)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld query heads over %lld key heads", (long long)a->heads, (long long)a->kv_heads);
    if (!vn_i64_mul(a->batch * a->kv_heads, a->keys, &kv_cells) || !vn_i64_mul(kv_cells, a->size > a->v_size ? a->size : a->v_size, &cells))
        return vn_eval_fail(e, VN_ERR_RANGE, "too many keys");
    work_t w = {.a = a,
                .u = vn_u(e),
                .eta = vn_eta(e),
                .model = vn_exp_model(e),
                .plain = is_plain(a),
                .bound = e->want >= VN_WANT_BOUND,
                .variance = e->want >= VN_WANT_VARIANCE};
    const vn_format_info_t *t = vn_format_info(vn_format_of(e->out[a->k_out].dtype));
    if (!t || vn_dtype_bits(e->out[a->k_out].dtype) < 16)
        return vn_eval_fail(e, VN_ERR_DTYPE, "attention over %s", vn_dtype_name(e->out[a->k_out].dtype));
    const bool narrow = t->p < vn_format_info(w.model.acc)->p, body64 = t->p == 53 && vn_node_attr(e->node, "scale");
    if (a->body16 && w.bound && e->contract->tier != VN_TIER_IEEE && (narrow || body64)) {
        /* f64 with a scale attribute: the body takes its root in f32 */
        const char *note = narrow ? "16-bit-scores" : "f32-scale";
        w.type16 = narrow ? t : vn_format_info(VN_FMT_F32);
        VN_TRY(vn_out_wide(e, a->k_out, note));
        if (a->k_tap >= 0 && a->tap != VN_TAP_WEIGHTS) VN_TRY(vn_out_wide(e, a->k_tap, note));
    }
    if (w.bound) VN_TRY(vn_out_own(e, a->k_out));
    e->out[a->k_out].terms = a->keys;
    if (a->k_tap >= 0) e->out[a->k_tap].terms = a->size;
    const int64_t n = a->keys > 0 ? a->keys : 1;
    w.block = (1 << 16) / n < 1 ? 1 : (1 << 16) / n > 64 ? 64 : (1 << 16) / n;
    w.blocks = (a->queries + w.block - 1) / w.block;
    bool good = true;
    if (w.bound) {
        good = (w.k_abs = flat(a, &a->k, a->size, 0)) && (w.v_abs = flat(a, &a->v, a->v_size, 0));
        w.v_column = vn_alloc((size_t)(a->batch * a->kv_heads * a->v_size) + 1, sizeof *w.v_column);
        good = good && w.v_column;
        for (int64_t g = 0; good && g < a->batch * a->kv_heads; ++g)
            for (int64_t j = 0; j < a->keys; ++j)
                for (int64_t c = 0; c < a->v_size; ++c) w.v_column[g * a->v_size + c] += w.v_abs[(g * a->keys + j) * a->v_size + c];
        if (good && a->v.err) good = (w.v_err = flat(a, &a->v, a->v_size, 2)) != NULL;
        if (good && w.variance) good = (w.k_sq = flat(a, &a->k, a->size, 1)) && (w.v_sq = flat(a, &a->v, a->v_size, 1));
    }
    if (good) vn_parallel(a->batch * a->heads * w.blocks, 1, chunk, &w);
    vn_free(w.k_abs);
    vn_free(w.k_sq);
    vn_free(w.v_abs);
    vn_free(w.v_sq);
    vn_free(w.v_err);
    vn_free(w.v_column);
    if (w.bound && a->k_tap >= 0 && good && !w.failed) VN_TRY(tap_own(&w));
    return good && !w.failed ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for blocks of %lld keys", (long long)a->keys);
}
