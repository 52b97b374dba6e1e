/* ml_post.c -- from scores to outputs: expansion of one score to two, post transforms with bounds, readings (claims ML-1 to ML-4).
 *
 * ML-2  LOGISTIC: E sup f' (1 + 2tu) + 2tu y on [s - E, s + E]; second tier "tail-cancellation": + 3u (1 - f(-s) is the usual code).
 * ML-3  SOFTMAX: SOFTMAX-1 with E as operand uncertainty. SOFTMAX_ZERO: scores of magnitude at most 1e-7 take no part; a score that is so
 *       only within its error gives the hull of both cases; a row without any part, or whose zeros stand 80 above the rest, is void.
 * ML-4  PROBIT: the quantile over [p - E', p + E'], E' = E + u|2p - 1|/2, + 2tu|y|, t of erf; void where that interval leaves (0, 1).
 *       Reading "probit-approximation": sqrt 2 times the elementary inverse of erf by Winitzki (2008), a = 0.147, carried out in the format;
 *       within 4e-3 relative of the quantile.
 */
#include <math.h>
#include <string.h>

#include "oracle/expsum.h"
#include "oracle/ml.h"

/* One row on its way. In: s, err, var; out: y, b (E of y), v, flags; any but s, err, y, b may be NULL. */
typedef struct row {
    int64_t c;
    const double *s, *err, *var;
    double *y, *b, *v;
    uint8_t *flags;
    double *work; /* 4 c */
    bool body;    /* second tier */
} row_t;

static void mark(const row_t *r, int64_t j, int bits) {
    if (r->flags) r->flags[j] |= (uint8_t)bits;
}

static void none(const vn_ml_tier_t *t, const row_t *r) {
    (void)t;
    for (int64_t j = 0; j < r->c; ++j) {
        r->y[j] = r->s[j];
        r->b[j] = r->err[j];
        if (r->v) r->v[j] = r->var[j];
    }
}

static void logistic(const vn_ml_tier_t *t, const row_t *r) {
    const double two_tu = 2 * vn_budget(&t->e, "sigmoid") * t->u, body = r->body ? vn_body_budget(&t->e, "sigmoid") * t->u : 0;
    for (int64_t j = 0; j < r->c; ++j) {
        const double a = exp(-fabs(r->s[j])), y = r->s[j] >= 0 ? 1 / (1 + a) : a / (1 + a);
        const double near = fmax(fabs(r->s[j]) - r->err[j], 0), g = exp(-near), slope = g / ((1 + g) * (1 + g));
        r->y[j] = isnan(r->s[j]) ? NAN : y;
        r->b[j] = fmin(slope * r->err[j] * (1 + two_tu) + two_tu * y + body + t->tau, 1);
        if (r->v) r->v[j] = slope * slope * r->var[j] + 4 * vn_node_variance(t->format, y);
    }
}

/* ---- softmax ---- */

static void all_open(const row_t *r) {
    for (int64_t j = 0; j < r->c; ++j) {
        r->y[j] = NAN;
        r->b[j] = INFINITY;
        mark(r, j, VN_EL_VOID);
        if (r->v) r->v[j] = 0;
    }
}

/* Weights of x (-inf: no part) with operand errors dx; false: irregular. */
static bool soften(const vn_ml_tier_t *t, const row_t *r, const double *x, const double *dx, double *w, double *wrong) {
    vn_exp_model_t m = vn_exp_model(&t->e);
    m.u = t->u;
    m.unfolded = r->body;
    vn_exp_row_t row = vn_exp_row(r->c, x, dx, w);
    if (!row.regular) return false;
    vn_exp_wrong(&m, r->c, x, dx, w, &row, wrong);
    const double common = r->v ? vn_exp_variance(&m, r->c, x, w, &row, NULL) : 0;
    double carried = 0;
    for (int64_t k = 0; r->v && k < r->c; ++k) carried += w[k] / row.total.hi * (w[k] / row.total.hi) * r->var[k];
    for (int64_t k = 0; k < r->c; ++k) {
        const double p = w[k] / row.total.hi, b = p * ((1 + wrong[k]) * (1 + m.u) * (1 + m.u) / (1 - row.spread) - 1) + 2 * t->tau;
        r->y[k] = p;
        r->b[k] = isfinite(row.spread) ? fmin(b, 1) : 1;
        if (r->v) r->v[k] = p * p * (r->var[k] + carried + common + 0.36 * t->u * t->u) + vn_node_variance(t->format, p);
    }
    return true;
}

static void softmax(const vn_ml_tier_t *t, const row_t *r) {
    if (!soften(t, r, r->s, r->err, r->work, r->work + r->c)) {
        bool nan = false;
        for (int64_t j = 0; j < r->c; ++j) nan |= isnan(r->s[j]);
        all_open(r);
        for (int64_t j = 0; nan && j < r->c; ++j) r->b[j] = 0;
    }
}

enum { ZERO_MAIN, ZERO_IN, ZERO_OUT }; /* scores near the limit: as they are, all take part, none does */
static const double zero_limit = 1e-7; /* claim ML-3 */

static bool near_limit(const row_t *r, int64_t j) {
    const double s = fabs(r->s[j]), e = r->err[j];
    return s + e > zero_limit * (1 - 0x1p-20) && s - e <= zero_limit * (1 + 0x1p-20);
}

/* One case of membership into y and b; false: no score takes part, or weights that f32 cannot hold. */
static bool zero_case(const vn_ml_tier_t *t, row_t r, int which) {
    double *x = r.work, *dx = x + r.c, *w = x + 2 * r.c, *wrong = x + 3 * r.c, top = -INFINITY, part = -INFINITY;
    for (int64_t j = 0; j < r.c; ++j) {
        const bool in = near_limit(&r, j) && which != ZERO_MAIN ? which == ZERO_IN : !(fabs(r.s[j]) <= zero_limit);
        x[j] = in ? r.s[j] : -INFINITY;
        top = fmax(top, r.s[j]);
        if (in) part = fmax(part, r.s[j]);
    }
    if (!isfinite(part) || top - part > 80) return false;
    for (int64_t j = 0; j < r.c; ++j) dx[j] = r.err[j] + 3 * t->u * (top - part); /* the shift is by the largest of all */
    if (!soften(t, &r, x, dx, w, wrong)) return false;
    double sum = 0;
    for (int64_t j = 0; j < r.c; ++j) sum += w[j];
    for (int64_t j = 0; j < r.c; ++j) {
        if (x[j] > -INFINITY) {
            r.b[j] += zero_limit * exp(-part) * (double)r.c / sum * r.y[j]; /* an evaluation that adds the zeros up as well */
        } else {                                                            /* s exp(-max) over the sum: 0 for a zero */
            r.y[j] = r.s[j] * exp(-part) / sum;
            r.b[j] = (fabs(r.y[j]) * 0x1p-6 + r.err[j] * exp(-part) / sum) * (r.err[j] > 0 || r.s[j] != 0);
            if (r.v) r.v[j] = 0;
        }
    }
    return true;
}

static void softmax_zero(const vn_ml_tier_t *t, const row_t *r) {
    bool open = false;
    for (int64_t j = 0; j < r->c; ++j) open |= near_limit(r, j);
    if (!zero_case(t, *r, ZERO_MAIN)) {
        all_open(r);
        return;
    }
    if (!open) return;
    double *y = r->work + 4 * r->c, *b = y + r->c;
    for (int which = ZERO_IN; which <= ZERO_OUT; ++which) {
        row_t other = *r;
        other.y = y;
        other.b = b;
        other.v = NULL;
        if (!zero_case(t, other, which)) {
            for (int64_t j = 0; j < r->c; ++j) mark(r, j, VN_EL_VOID);
            return;
        }
        for (int64_t j = 0; j < r->c; ++j) {
            const double alone = which == ZERO_OUT && near_limit(r, j) ? 1 : 0; /* the only one of them that takes part: at most 1 */
            r->b[j] = fmin(fmax(r->b[j], fmax(fabs(y[j] - r->y[j]) + b[j], alone)), 1);
        }
    }
}

/* ---- probit ---- */

/* sqrt 2 times Winitzki's inverse of erf at x = 2p - 1 (claim ML-4). */
static double fitted(double p) {
    const double x = 2 * p - 1, l = log((1 - x) * (1 + x)), a = (double)0.147f, v = 2 / ((double)3.14159f * a) + 0.5 * l;
    const double y = sqrt(2) * sqrt(-v + sqrt(v * v - l / a));
    return x < 0 ? -y : y;
}

double vn_ml_probit(double p) {
    if (!(p >= 0 && p <= 1)) return NAN;
    if (p == 0 || p == 1) return p == 0 ? -INFINITY : INFINITY;
    if (p == 0.5) return 0;
    const bool upper = p > 0.5;
    const double q = upper ? 1 - p : p;
    double x = q < 0x1p-1000 ? -sqrt(-2 * log(q)) : -fabs(fitted(q));
    for (int i = 0; i < 6;
         ++i) { /* Halley's method on the distribution; near 1/2 on its distance from 1/2, which keeps relative accuracy */
        const double f = x > -0.5 ? 0.5 * erf(x * M_SQRT1_2) - (q - 0.5) : 0.5 * erfc(-x * M_SQRT1_2) - q;
        const double step = f * sqrt(2 * M_PI) * exp(0.5 * x * x);
        if (!isfinite(step)) break;
        x -= step / (1 + 0.5 * x * step);
    }
    return upper ? -x : x;
}

static void probit(const vn_ml_tier_t *t, const row_t *r) {
    const double two_tu = 2 * vn_budget(&t->e, "erf") * t->u;
    for (int64_t j = 0; j < r->c; ++j) {
        const double p = r->s[j], y = vn_ml_probit(p), e = r->err[j] + (r->err[j] > 0 ? 0.5 * t->u * fabs(2 * p - 1) : 0);
        const double rounding = vn_round_to(t->format, 2 * p - 1, VN_RNE, false) == 2 * p - 1 ? 0 : 0.5 * t->u * fabs(2 * p - 1);
        const double d = fmax(e, r->err[j] + rounding), lo = p - d, hi = p + d;
        r->y[j] = y;
        r->b[j] = 0;
        if (r->v) r->v[j] = 0;
        if (d > 0 && !(lo > 0 && hi < 1) && (hi >= 0 && lo <= 1)) { /* an end of the interval is no probability, or an infinite quantile */
            r->b[j] = INFINITY;
            mark(r, j, VN_EL_VOID);
        } else if (isfinite(y)) {
            r->b[j] = fmax(vn_ml_probit(hi) - y, y - vn_ml_probit(lo)) + two_tu * fabs(y) + t->tau;
            const double slope = sqrt(2 * M_PI) * exp(0.5 * y * y);
            if (r->v) r->v[j] = slope * slope * (r->var[j] + t->u * t->u / 12) + 4 * vn_node_variance(t->format, y);
        }
    }
}

/* The approximation and what its evaluation may lose, node by node: in f32 at the widest, with its f32 constants, whatever the type. */
static void probit_fit(const vn_ml_tier_t *t, const row_t *r) {
    const double u = fmax(t->u, 0x1p-24), two_tu = 2 * vn_budget(&t->e, "log") * u, a = (double)0.147f;
    for (int64_t j = 0; j < r->c; ++j) {
        const double p = r->s[j], x = 2 * p - 1;
        const bool held = vn_round_to(VN_FMT_F32, x, VN_RNE, false) == x && vn_round_to(VN_FMT_F32, p, VN_RNE, false) == p;
        const bool exact = held && r->err[j] == 0;
        const double dx = exact ? 0 : 2 * r->err[j] + u * (2 * fabs(p) + fabs(x) + 2 * r->err[j]);
        r->y[j] = p < 0 || p > 1 ? NAN : p == 0 ? -INFINITY : p == 1 ? INFINITY : p == 0.5 ? 0 : fitted(p);
        r->b[j] = 0;
        if (isnan(p) || (fabs(x) >= 1 && fabs(x) - dx > 1) || (fabs(x) == 1 && dx == 0)) continue;
        const double part = (1 - fabs(x) - dx), rel = part > 0 ? dx / part + dx / (1 + fabs(x) - dx) + 4 * u : INFINITY;
        const double l = log((1 - x) * (1 + x)), dl = rel < 0.5 ? rel / (1 - rel) + two_tu * fabs(l) + u * 0x1p-3 : INFINITY;
        const double c = 2 / ((double)3.14159f * a), v = c + 0.5 * l, dv = 0.5 * dl + 2 * u * (fabs(v) + c + fabs(l));
        const double v2 = l / a, dv2 = dl / a + 4 * u * fabs(v2), w = v * v - v2,
                     dw = 2 * fabs(v) * dv + dv * dv + dv2 + 2 * u * (v * v + fabs(v2));
        const double root = sqrt(w), droot = fmax(sqrt(w + dw) - root, root - sqrt(fmax(w - dw, 0))) + u * (root + sqrt(dw));
        const double v3 = root - v, d3 = dv + droot + u * (fabs(v3) + dv + droot), y = fabs(r->y[j]);
        double b = M_SQRT2 * fmax(sqrt(fmax(v3, 0) + d3) - sqrt(fmax(v3, 0)), sqrt(fmax(v3, 0)) - sqrt(fmax(v3 - d3, 0)));
        b += 4 * u * (y + b);
        if (fabs(x) <= dx) b += 2 * y + M_SQRT2 * sqrt(d3); /* the sign is open */
        r->b[j] = isnan(b) ? INFINITY : b;
    }
}

static void transform(const vn_ml_tier_t *t, const vn_ml_form_t *f, const row_t *r) {
    static void (*const by_post[])(const vn_ml_tier_t *, const row_t *) = {[VN_ML_NONE] = none,
                                                                           [VN_ML_SOFTMAX] = softmax,
                                                                           [VN_ML_LOGISTIC] = logistic,
                                                                           [VN_ML_SOFTMAX_ZERO] = softmax_zero,
                                                                           [VN_ML_PROBIT] = probit};
    if (f->fit) probit_fit(t, r);
    else by_post[f->post](t, r);
}

/* ---- expansion ---- */

vn_status_t vn_ml_expanded(const vn_ml_t *m, const vn_ml_scores_t *s, vn_ml_expand_t how, vn_ml_scores_t *out) {
    const int64_t c = how == VN_ML_AS_IS ? s->c : 2;
    VN_TRY(vn_ml_scores_new(m, c, out));
    const double *in[] = {s->y, s->err[0], s->err[1], s->var};
    double *to[] = {out->y, out->err[0], out->err[1], out->var};
    for (int p = 0; p < 4; ++p) {
        if (!in[p] || !to[p]) continue;
        if (how == VN_ML_AS_IS) memcpy(to[p], in[p], (size_t)(s->n * c) * sizeof *to[p]);
        for (int64_t i = 0; how != VN_ML_AS_IS && i < s->n; ++i) {
            const double v = in[p][i], y = 1 - s->y[i];
            double *at = to[p] + 2 * i;
            at[how != VN_ML_FIRST] = v;
            if (how == VN_ML_NEGATED) at[0] = p == 0 ? -v : v;
            if (how == VN_ML_ONE_MINUS)
                at[0] = p == 0 ? y : p == 3 ? v + vn_node_variance(m->tier[0].format, y) : v + m->tier[p - 1].u * (fabs(y) + v);
        }
    }
    return VN_OK;
}

/* ---- outputs ---- */

typedef struct emit {
    const vn_ml_t *m;
    const vn_ml_form_t *form;
    const vn_ml_scores_t *s;
    double *y, *bound, *wide, *var; /* y is required */
    uint8_t *flags;
    int failed;
} emit_t;

static void emit_rows(void *ctx, int64_t begin, int64_t end) {
    emit_t *j = ctx;
    const int64_t c = j->s->c;
    double *work = vn_alloc((size_t)(c ? c : 1), 8 * sizeof *work);
    if (!work) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    double *plain = work + 6 * c, *other = work + 7 * c;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i * c;
        row_t r = {.c = c,
                   .s = j->s->y + at,
                   .err = j->s->err[0] + at,
                   .var = j->s->var ? j->s->var + at : NULL,
                   .y = j->y + at,
                   .b = j->bound ? j->bound + at : plain,
                   .v = j->var ? j->var + at : NULL,
                   .flags = j->flags ? j->flags + at : NULL,
                   .work = work};
        transform(&j->m->tier[0], j->form, &r);
        if (!j->wide) continue;
        row_t second = r;
        second.err = (j->m->last ? j->s->err[1] : j->s->err[0]) + at;
        second.y = other;
        second.b = j->wide + at;
        second.v = NULL;
        second.body = true;
        transform(&j->m->tier[j->m->last], j->form, &second);
        for (int64_t k = 0; k < c; ++k) second.b[k] = fmax(second.b[k], r.b[k]);
    }
    vn_free(work);
}

static vn_status_t run(emit_t *j) {
    vn_parallel(j->s->n, 64, emit_rows, j);
    return j->failed ? vn_eval_fail(j->m->e, VN_ERR_NOMEM, "no memory for a row of %lld scores", (long long)j->s->c) : VN_OK;
}

vn_status_t vn_ml_reading(vn_eval_t *e, int k, const char *name, const double *y, const double *err) {
    const vn_ref_t *r = &e->out[k];
    const vn_format_info_t *out = vn_format_info(vn_format_of(r->dtype));
    vn_tensor_t *t;
    const size_t n = (size_t)(r->count ? r->count : 1);
    VN_TRY(vn_tensor_new_raw(r->dtype, r->rank, r->dims, &t, e->err));
    double *exact = vn_alloc(n, sizeof *exact), *bound = vn_alloc(n, sizeof *bound);
    vn_status_t s = exact && bound ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a reading");
    if (s == VN_OK) {
        vn_tensor_from_f64(t, y, VN_RNE, false);
        for (int64_t i = 0; i < r->count; ++i) {
            exact[i] = y[i];
            bound[i] = (1 + out->u) * err[i] + out->u * fabs(y[i]) + out->eta / 2; /* STORE-1 */
        }
        s = vn_out_reading(e, k, name, t);
        t = NULL;
    }
    if (s != VN_OK) {
        vn_tensor_free(t);
        vn_free(exact);
        vn_free(bound);
        return s;
    }
    vn_reading_t *added = &e->out[k].readings[e->out[k].n_readings - 1];
    added->exact = exact;
    added->bound = bound;
    return VN_OK;
}

static vn_status_t add_form(vn_ml_t *m, int k, const vn_ml_scores_t *s, const vn_ml_form_t *f) {
    vn_ml_scores_t x = {0};
    vn_status_t st = vn_ml_expanded(m, s, f->expand, &x);
    const int64_t count = x.n * x.c;
    double *planes = st == VN_OK ? vn_alloc((size_t)(count ? count : 1), 3 * sizeof *planes) : NULL;
    if (st == VN_OK && !planes) st = vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for a reading");
    emit_t j = {.m = m, .form = f, .s = &x, .y = planes, .bound = planes + count, .wide = planes + 2 * count};
    if (st == VN_OK) st = run(&j);
    bool same = st == VN_OK && m->e->out[k].count == count;
    for (int64_t i = 0; same && i < count; ++i) {
        const double y = m->e->out[k].value[i];
        same = j.y[i] == y || (isnan(j.y[i]) && isnan(y));
    }
    if (st == VN_OK && !same) st = vn_ml_reading(m->e, k, f->name, j.y, j.wide);
    vn_free(planes);
    vn_ml_scores_free(&x);
    return st;
}

vn_status_t vn_ml_emit(vn_ml_t *m, int k, vn_dtype_t t, const vn_ml_scores_t *s, const vn_ml_form_t *forms, int n_forms) {
    static const char *const notes[] = {[VN_ML_LOGISTIC] = "tail-cancellation",
                                        [VN_ML_SOFTMAX] = "exp2-unfolded",
                                        [VN_ML_SOFTMAX_ZERO] = "exp2-unfolded",
                                        [VN_ML_PROBIT] = NULL};
    vn_eval_t *e = m->e;
    if (!vn_move_wanted(e, k)) return VN_OK;
    vn_ml_scores_t x = {0};
    vn_status_t st = vn_ml_expanded(m, s, forms[0].expand, &x);
    if (st == VN_OK) st = vn_out_float(e, k, t, 2, (int64_t[]){x.n, x.c});
    vn_ref_t *r = &e->out[k];
    const vn_ml_post_t post = forms[0].post;
    const bool second = e->want >= VN_WANT_BOUND && e->contract->tier != VN_TIER_IEEE && (m->last || notes[post]);
    if (st == VN_OK && second) st = vn_out_wide(e, k, m->last ? "operand-f32" : notes[post]);
    if (st == VN_OK && post != VN_ML_NONE) st = vn_out_flags(e, k);
    if (st == VN_OK && t == VN_F64 && post != VN_ML_NONE && e->want >= VN_WANT_BOUND) st = vn_out_own(e, k);
    if (st == VN_OK) {
        emit_t j = {
            .m = m, .form = &forms[0], .s = &x, .y = r->value, .bound = r->bound, .wide = r->wide, .var = r->var, .flags = r->flags};
        st = run(&j);
        for (int64_t i = 0; r->own && i < r->count; ++i) r->own[i] = 0x1p-48 * fabs(r->value[i]);
    }
    vn_ml_scores_free(&x);
    for (int i = 1; i < n_forms && st == VN_OK && e->want >= VN_WANT_BOUND; ++i) st = add_form(m, k, s, &forms[i]);
    if (st == VN_OK && post == VN_ML_PROBIT && e->want >= VN_WANT_BOUND) {
        vn_ml_form_t fit = forms[0];
        fit.name = "probit-approximation";
        fit.fit = true;
        st = add_form(m, k, s, &fit);
    }
    return st;
}
