/* pattern_ratio.c -- the wrong elements are a constant times what is due, one constant for all or one for each row, column or channel.
 *
 * Claim PATTERN-5: with y within b of the contract's result y', a kernel that returns round(c y') leaves x with |x - c y| <= |c| b + ulp(x). Each wrong
 * element so gives an interval of |c|; they must meet. Evidence: the first element of each factor fixes it, every other one with another value

 * due has the chance (width of its interval / the smaller of c and |c - 1|): rounding errors are no factor.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/pattern.h"

typedef struct factor {
    double low, high; /* of |c| */
    double evidence;
    bool negative, open, broken; /* open: no element has said anything */
} factor_t;

/* What |x| and |y| may each be off by. */
static void rooms(const vn_pattern_t *p, int64_t i, double *b, double *s) {
    const double x = p->e->x[i], y = p->e->y[i];
    const vn_format_t f = vn_format_of(p->got->dtype);
    if (f == VN_FMT_NONE) {
        *b = 0;
        *s = 0.5;
        return;
    }
    *b = vn_pattern_room(p, i);
    if (*b < vn_ulp(f, y)) *b = vn_ulp(f, y);
    *s = vn_ulp(f, x);
}

static void narrow(const vn_pattern_t *p, int64_t i, factor_t *f) {
    const double x = fabs(p->e->x[i]), y = fabs(p->e->y[i]);
    if (f->broken) return;
    if (!isfinite(x) || !isfinite(y)) {
        f->broken = true;
        return;
    }
    double b, s;
    rooms(p, i, &b, &s);
    if (y <= b) { /* the sign and size of c are open here; a large x is not c y */
        if (!f->open && x > f->high * (y + b) + s) f->broken = true;
        return;
    }
    if (x <= s) { /* no factor but zero */
        f->broken = true;
        return;
    }
    const bool negative = signbit(p->e->x[i]) != signbit(p->e->y[i]);
    const double low = (x - s) / (y + b), high = (x + s) / (y - b);
    if (f->open) {
        *f = (factor_t){.low = low, .high = high, .negative = negative};
        return;
    }
    if (negative != f->negative || low > f->high || high < f->low) {
        f->broken = true;
        return;
    }
    if (low > f->low) f->low = low;
    if (high < f->high) f->high = high;
}

/* ---- what a factor equals ---- */

typedef struct known {
    double best;
    const factor_t *f;
    char *out;
    size_t size;
} known_t;

static bool known(known_t *k, double value, const char *fmt, ...) VN_PRINTF(3, 4);
static bool known(known_t *k, double value, const char *fmt, ...) {
    if (!(value >= k->f->low && value <= k->f->high) || k->best > 0) return false;
    k->best = value;
    va_list args;
    va_start(args, fmt);
    vsnprintf(k->out, k->size, fmt, args);
    va_end(args);
    return true;
}

static void known_sizes(known_t *k, const char *name, int64_t n) {
    if (n < 2) return;
    const double d = (double)n;
    known(k, d, ", %s %lld", name, (long long)n);
    known(k, 1 / d, ", one over %s %lld", name, (long long)n);
    known(k, sqrt(d), ", the root of %s %lld", name, (long long)n);
    known(k, 1 / sqrt(d), ", one over the root of %s %lld", name, (long long)n);
    known(k, d / (d - 1), ", n/(n-1) of %s %lld", name, (long long)n);
    known(k, (d - 1) / d, ", (n-1)/n of %s %lld", name, (long long)n);
    known(k, sqrt(d / (d - 1)), ", the root of n/(n-1) of %s %lld", name, (long long)n);
    known(k, sqrt((d - 1) / d), ", the root of (n-1)/n of %s %lld", name, (long long)n);
}

/* In words; the simplest number inside the interval comes first. Returns it, or the middle of the interval. */
static double what(const vn_pattern_t *p, const factor_t *f, char *out, size_t size) {
    known_t k = {.f = f, .out = out, .size = size};
    const vn_question_t *q = p->e->c->q;
    out[0] = '\0';
    int e;
    frexp(f->high, &e);
    if (known(&k, ldexp(1, e - 1), ", a power of two") && k.best == 2) snprintf(out, size, ", twice");
    const vn_node_t *node = p->node;
    for (int a = 0; node && a < node->n_attrs; ++a)
        if (node->attrs[a].kind == VN_ATTR_FLOAT && node->attrs[a].f != 0) {
            known(&k, fabs((double)node->attrs[a].f), ", the attribute %.40s", node->attrs[a].name);
            known(&k, fabs(1 / (double)node->attrs[a].f), ", one over the attribute %.40s", node->attrs[a].name);
        }
    const int n_in = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    for (int i = 0; i < n_in; ++i) {
        const vn_tensor_t *t = q->inputs[i] && q->inputs[i]->kind == VN_VALUE_TENSOR ? q->inputs[i]->tensor : NULL;
        if (!t || t->count != 1 || !vn_dtype_is_float(t->dtype)) continue;
        const double v = fabs(vn_tensor_get_f64(t, 0));
        if (v > 0) {
            known(&k, v, ", operand %d", i);
            known(&k, 1 / v, ", one over operand %d", i);
        }
    }
    for (int a = 0; a < p->got->rank; ++a) known_sizes(&k, "the output's size", p->got->dims[a]);
    for (int i = 0; i < n_in; ++i) {
        const vn_tensor_t *t = q->inputs[i] && q->inputs[i]->kind == VN_VALUE_TENSOR ? q->inputs[i]->tensor : NULL;
        for (int a = 0; t && a < t->rank; ++a) known_sizes(&k, "an operand's size", t->dims[a]);
    }
    known(&k, M_LN2, ", ln 2");
    known(&k, M_LOG2E, ", 1 / ln 2: base 2 and base e");
    known(&k, M_PI / 180, ", degrees and radians");
    known(&k, 180 / M_PI, ", degrees and radians");
    known(&k, 127.0 / 128, ", 127/128");
    known(&k, 128.0 / 127, ", 128/127");
    known(&k, 255.0 / 256, ", 255/256");
    known(&k, 256.0 / 255, ", 256/255");
    const double c = k.best > 0 ? k.best : f->low + (f->high - f->low) / 2;
    return f->negative ? -c : c;
}

/* ---- groups ---- */

typedef struct group {
    int64_t d, inner;
} group_t;

static int64_t group_of(const group_t *g, int64_t i) { return i / g->inner % g->d; }

/* Factors of all groups; evidence of those elements that the others leave no choice. */
static double fit(const vn_pattern_t *p, const group_t *g, factor_t *f, double *before) {
    double sum = 0;
    for (int64_t k = 0; k < g->d; ++k) {
        f[k] = (factor_t){.open = true};
        before[k] = NAN;
    }
    for (int64_t k = 0; k < p->m; ++k) {
        factor_t *mine = &f[group_of(g, p->at[k])];
        narrow(p, p->at[k], mine);
        if (mine->broken) return -1;
    }
    for (int64_t s = 0; s < p->n_sample; ++s) {
        const int64_t i = p->sample[s], at = group_of(g, i);
        double b, r;
        const double x = fabs(p->e->x[i]), y = fabs(p->e->y[i]);
        rooms(p, i, &b, &r);
        if (y <= b || x <= r) continue;
        const double width = (x + r) / (y - b) - (x - r) / (y + b), c = (f[at].low + f[at].high) / 2;
        if (isnan(before[at])) {
            before[at] = y;
            continue;
        }
        if (fabs(y - before[at]) <= 2 * b) continue; /* the same value again */
        before[at] = y;
        double scale = f[at].negative ? c : fabs(c - 1); /* a deviation of this size would have fallen into the interval by accident */
        if (scale > c) scale = c;
        if (width < scale) sum += log(scale / width);
    }
    return sum;
}

static bool scaled(const vn_pattern_t *p, const group_t *g,
                   const factor_t *f) { /* right elements of a group with a factor are near zero, too */
    for (int64_t i = 0; i < p->n; ++i) {
        const factor_t *mine = &f[group_of(g, i)];
        if (p->e->wrong[i] || mine->open) continue;
        factor_t again = *mine;
        narrow(p, i, &again);
        if (again.broken) return false;
    }
    return true;
}

/* A factor changes nothing there. */
static bool near_zero(const vn_pattern_t *p, const void *ctx, int64_t i) {
    double b, s;
    (void)ctx;
    rooms(p, i, &b, &s);
    return fabs(p->e->y[i]) <= b;
}

static void offer_one(vn_pattern_t *p, const factor_t *f, const char *where) {
    char is[96];
    const double c = what(p, f, is, sizeof is);
    if (c == -1) {
        bool all = true, lost = true; /* lost: whatever is due negative is positive, and nothing positive is wrong */
        for (int64_t i = 0; i < p->n; ++i) {
            const double y = p->e->y[i], room = vn_pattern_room(p, i);
            if (fabs(y) <= room || y == 0) continue;
            all = all && p->e->wrong[i];
            lost = lost && p->e->wrong[i] == (y < 0);
        }
        if (lost && !all)
            vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "sign-lost", "All negative values came out positive: the sign is lost.");
        else
            vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "sign-flipped", "%s: the sign is reversed in %s.",
                             "The result is -1 times what is due", where);
        return;
    }
    vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "constant-ratio", "The result is %.7g times what is due%s, in %s.", c, is, where);
}

static void offer_groups(vn_pattern_t *p, const group_t *g, const factor_t *f, int axis, const char *where) {
    double least = INFINITY, most = -INFINITY;
    int64_t groups = 0;
    char is[96];
    for (int64_t k = 0; k < g->d; ++k) {
        if (f[k].open) continue;
        const double c = what(p, &f[k], is, sizeof is);
        if (c < least) least = c;
        if (c > most) most = c;
        groups++;
    }
    char each[48];
    if (axis < 0) snprintf(each, sizeof each, "line along the last axis");
    else if (p->got->rank == 2) snprintf(each, sizeof each, "%s", axis ? "column" : "row");
    else snprintf(each, sizeof each, "index of axis %d", axis);
    vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "constant-ratio",
                     "Each %s is a constant times what is due: %lld factors from %.7g to %.7g, in %s.", each, (long long)groups, least,
                     most, where);
}

/* A sign bit alone: -0 where 0 is due, or the reverse. */
static bool zero_signs(vn_pattern_t *p) {
    bool lost = true;
    for (int64_t k = 0; k < p->m; ++k) {
        const double x = p->e->x[p->at[k]], y = p->e->y[p->at[k]];
        if (x != 0 || y != 0 || signbit(x) == signbit(y)) return false;
        lost = lost && signbit(y);
    }
    vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, lost ? "sign-lost" : "sign-flipped", "%s in %s: only the sign of zero is wrong.",
                     lost ? "+0 where -0 is due" : "Zeros of the other sign", p->where.text);
    return true;
}

vn_status_t vn_pattern_ratio(vn_pattern_t *p, vn_error_t *err) {
    const vn_tensor_t *t = p->got;
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    if (p->e->c->m.outside == 0 || !p->e->x || p->index || kind == VN_KIND_BOOL || zero_signs(p)) return VN_OK;
    const int64_t last = t->rank && t->dims[t->rank - 1] ? t->dims[t->rank - 1] : 1, lines = p->n / last;
    int64_t most = lines;
    for (int a = 0; a < t->rank; ++a)
        if (t->dims[a] > most) most = t->dims[a];
    factor_t *f = vn_alloc((size_t)most + 1, sizeof *f);
    double *before = vn_alloc((size_t)most + 1, sizeof *before);
    if (!f || !before) {
        vn_free(f);
        vn_free(before);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld factors", (long long)most);
    }
    const double log_tried = log(t->rank + 2);
    vn_places_t where;
    const vn_status_t s = vn_pattern_where(p, near_zero, NULL, &where, err);
    if (s != VN_OK) {
        vn_free(f);
        vn_free(before);
        return s;
    }
    group_t g = {.d = 1, .inner = p->n};
    if (fit(p, &g, f, before) > vn_pattern_limit(log_tried)) {
        offer_one(p, f, where.text);
    } else {
        for (int a = -1; a < t->rank && vn_spent() < p->e->deadline; ++a) { /* -1: every line along the last axis by itself */
            int64_t inner = a < 0 ? last : 1;
            for (int k = a + 1; a >= 0 && k < t->rank; ++k) inner *= t->dims[k];
            g = (group_t){.d = a < 0 ? lines : t->dims[a], .inner = inner};
            if (g.d < 2 || (a == t->rank - 2 && a == 0)) continue; /* rows are lines when there are two axes */
            if (fit(p, &g, f, before) > vn_pattern_limit(log_tried) && scaled(p, &g, f)) {
                offer_groups(p, &g, f, a < 0 && t->rank == 2 ? 0 : a, where.text);
                break;
            }
        }
    }
    vn_free(f);
    vn_free(before);
    return VN_OK;
}
