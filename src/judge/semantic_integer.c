/* semantic_integer.c -- products of small integers: pair sums that saturate or wrap in 16 bits, operands clamped or read with the wrong sign,
 * zero points of the wrong sign or left out, padding that does not stand for the zero point.
 *
 * Claim NAME-INTEGER-1: integer sums are exact, so each of these rules gives one value per element; a rule is named iff the actual output is
 * that value everywhere (requantised: the code of that sum, either neighbour of a tie within 2^-20 of it).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/dot.h"
#include "judge/edit.h"
#include "judge/names.h"

typedef enum sign { AS_IS, OTHER_SIGN, CLAMP_127 } sign_t;
typedef enum zero { ZERO_OWN, ZERO_OTHER_SIGN, ZERO_NEGATED, ZERO_NONE, ZERO_EXCHANGED } zero_t;
typedef enum limit { LIMIT_NONE, LIMIT_SATURATE, LIMIT_WRAP } limit_t;

/** How a sum is computed. */
typedef struct rule {
    sign_t a, b;
    zero_t za, zb;
    bool raw_padding; /* padding is the code 0 instead of the zero point */
    limit_t limit;    /* partial sums of `group` products are held in 16 bits, then added up exactly */
    int64_t group;    /* products per 16-bit sum; 0: all */
    bool centred;     /* zero points are taken off before the products, not from the sum */
    bool shifted;     /* a signed left operand is moved up by 128 for the products */
    bool late;        /* only the finished sum of a group is brought into 16 bits, not each step */
    int axis;         /* summed axis that is outermost in the order of the products */
} rule_t;

typedef struct engine {
    vn_explain_t *e;
    const vn_dot_t *d;
    int64_t *ia, *ib, *order;
    int axis; /* that `order` is for; -1: none */
    bool signed_a, signed_b;
} engine_t;

static double read_as(double x, sign_t how, bool is_signed) {
    if (how == CLAMP_127) return x > 127 ? 127 : x;
    if (how == OTHER_SIGN) return is_signed ? x < 0 ? x + 256 : x : x > 127 ? x - 256 : x;
    return x;
}

static double zero_of(const double *own, int64_t at, const double *other, int64_t other_at, zero_t how, bool is_signed) {
    const double z = own ? own[at] : 0;
    switch (how) {
    case ZERO_OWN: return z;
    case ZERO_OTHER_SIGN: return read_as(z, OTHER_SIGN, is_signed);
    case ZERO_NEGATED: return -z;
    case ZERO_NONE: return 0;
    case ZERO_EXCHANGED: return other ? other[other_at] : 0;
    }
    return z;
}

static double held_in_16(double x, limit_t limit) {
    if (limit == LIMIT_SATURATE) return fmin(fmax(x, -32768), 32767);
    return (double)(int16_t)(uint16_t)(uint64_t)(int64_t)x;
}

/* The sum of element i by the rule: exact integers in f64. */
static double sum_by(engine_t *g, int64_t i, const rule_t *r) {
    const vn_dot_t *d = g->d;
    if (g->axis != r->axis) vn_dot_order(d, g->axis = r->axis, g->order);
    vn_dot_places(d, i, g->ia, g->ib);
    const int64_t group = r->group ? r->group : d->depth;
    const double shift = r->shifted ? 128 : 0;
    double total = 0, part = 0, correction = 0;
    for (int64_t t = 0; t < d->depth; ++t) {
        const int64_t k = g->order[t], ia = g->ia[k], ib = g->ib[k];
        const double zb = zero_of(d->b0, ib, d->a0, ia < 0 ? 0 : ia, r->zb, g->signed_b), b = read_as(d->b[ib], r->b, g->signed_b);
        /* padding stands for the zero point: a - za is 0 there */
        const double za = zero_of(d->a0, ia < 0 ? 0 : ia, d->b0, ib, r->za, g->signed_a);
        const double a = ia < 0 ? r->raw_padding ? 0 : za : read_as(d->a[ia], r->a, g->signed_a);
        if (r->limit == LIMIT_NONE) {
            total += (a - za) * (b - zb);
            continue;
        }
        if (r->centred) {
            part += (a - za) * (b - zb);
        } else {
            part += (a + shift) * b;
            correction += (a - za) * (b - zb) - (a + shift) * b;
        }
        const bool done = (t + 1) % group == 0 || t + 1 == d->depth;
        if (done || !r->late) part = held_in_16(part, r->limit);
        if (done) {
            total += part;
            part = 0;
        }
    }
    return total + correction;
}

static bool gives(const engine_t *g, int64_t i, double sum) {
    const vn_dot_t *d = g->d;
    const double x = g->e->x[i];
    if (d->form == VN_DOT_INT32) return x == (double)(int32_t)(uint32_t)(uint64_t)(int64_t)sum;
    const int64_t c = i / d->inner % d->channels;
    const double v = d->gains[c] * (sum + (d->bias ? d->bias[c] : 0)), window = 0x1p-20 * (1 + fabs(v));
    const double least = fmin(fmax(rint(v - window) + d->zero, d->lo), d->hi), most = fmin(fmax(rint(v + window) + d->zero, d->lo), d->hi);
    return x >= least && x <= most;
}

/* Wrong elements first, a few of them; then all. */
static bool holds(engine_t *g, const rule_t *r) {
    const vn_explain_t *e = g->e;
    int64_t tried = 0;
    for (int64_t i = 0; i < e->n && tried < 16; ++i) {
        if (!e->wrong[i]) continue;
        tried++;
        if (!gives(g, i, sum_by(g, i, r))) return false;
    }
    for (int64_t i = 0; i < e->n; ++i) {
        if ((i & 255) == 0 && vn_spent() > e->deadline) {
            g->e->cut = true;
            return false;
        }
        if (!gives(g, i, sum_by(g, i, r))) return false;
    }
    return true;
}

static bool ask(engine_t *g, const rule_t *r, const char *cause, const char *words) {
    if (!holds(g, r)) return false;
    vn_explain_t *e = g->e;
    vn_explain_offer(e, VN_NAME_VARIANT, vn_edit_exact_gain(e), VN_BUG, cause, "%s with %s gives the whole result.", e->c->q->node->op,
                     words);
    return true;
}

static bool any_zero(const double *z, int64_t n) {
    for (int64_t i = 0; z && i < n; ++i)
        if (z[i] != 0) return true;
    return false;
}

static bool clamped(engine_t *g) {
    static const struct {
        rule_t r;
        const char *words;
    } rules[] = {
        {{.a = CLAMP_127}, "the left operand clamped to 127"},
        {{.b = CLAMP_127}, "the right operand clamped to 127"},
        {{.a = CLAMP_127, .b = CLAMP_127}, "both operands clamped to 127"},
    };
    for (size_t k = 0; k < sizeof rules / sizeof *rules; ++k)
        if (ask(g, &rules[k].r, "clamp-u8", rules[k].words)) return true;
    return false;
}

static bool signs(engine_t *g) {
    static const sign_t as[] = {AS_IS, OTHER_SIGN};
    static const struct {
        zero_t z;
        const char *words;
    } zeros[] = {{ZERO_OWN, "its own zero point"},
                 {ZERO_OTHER_SIGN, "a zero point read with the other sign bit rule"},
                 {ZERO_NEGATED, "a zero point of the other sign"},
                 {ZERO_NONE, "no zero point"},
                 {ZERO_EXCHANGED, "the other operand's zero point"}};
    const bool za = any_zero(g->d->a0, g->d->ta->count), zb = any_zero(g->d->b0, g->d->tb->count);
    for (int both = 1; both <= 4; ++both) /* the fewest changes first */
        for (int a = 0; a < 2; ++a)
            for (int b = 0; b < 2; ++b)
                for (int p = 0; p < 5; ++p)
                    for (int q = 0; q < 5; ++q) {
                        if (a + b + (p > 0) + (q > 0) != both) continue;
                        if ((p && !za && !(p == ZERO_EXCHANGED && zb)) || (q && !zb && !(q == ZERO_EXCHANGED && za))) continue;
                        const rule_t r = {.a = as[a], .b = as[b], .za = zeros[p].z, .zb = zeros[q].z};
                        char words[200];
                        snprintf(words, sizeof words, "the left operand %s, with %s, the right operand %s, with %s",
                                 a ? "read as if it were of the other signedness" : "as it is", zeros[p].words,
                                 b ? "read as if it were of the other signedness" : "as it is", zeros[q].words);
                        const bool ignored = !a && !b && (p == ZERO_NONE || q == ZERO_NONE) && p != ZERO_NEGATED && q != ZERO_NEGATED;
                        const bool swapped = !a && !b && (p == ZERO_EXCHANGED || q == ZERO_EXCHANGED);
                        if (ask(g, &r, swapped ? "zero-point-exchanged" : ignored ? "zero-point-ignored" : "zero-point-sign", words))
                            return true;
                    }
    return false;
}

static bool sixteen_bits(engine_t *g) {
    const vn_dot_t *d = g->d;
    for (int limit = LIMIT_SATURATE; limit <= LIMIT_WRAP; ++limit)
        for (int axis = 0; axis < d->axes; ++axis) {
            if (axis > 0 && d->length[axis] == 1) continue;
            for (int way = 0; way < 4; ++way) {
                if (way == 1 && !d->a0 && !d->b0) continue;
                if (way == 2 && !g->signed_a) continue;
                if (way == 3 && limit == LIMIT_WRAP) continue; /* the same in the end */
                for (int64_t k = 0, group = 2; k <= 11; ++k, group = k == 1 ? 1 : k == 2 ? 4 : k == 11 ? 0 : group * 2) {
                    const rule_t r = {
                        .limit = (limit_t)limit, .group = group, .axis = axis, .centred = way == 1, .shifted = way == 2, .late = way == 3};
                    if (group > d->depth && k > 1) continue;
                    char words[160], many[48];
                    if (group) snprintf(many, sizeof many, "%lld products", (long long)group);
                    else snprintf(many, sizeof many, "all products");
                    snprintf(words, sizeof words, "the sum of %s each held in 16 bits (%s)%s%s", group == 1 ? "single products" : many,
                             limit == LIMIT_SATURATE ? "saturating" : "wrapping", d->axes > 1 ? ", in the order of " : "",
                             d->axes > 1 ? d->what[axis] : "");
                    if (ask(g, &r, limit == LIMIT_SATURATE ? "saturate-i16" : "wrap-i16", words)) return true;
                }
            }
        }
    return false;
}

/* ---- the addend in another unit ---- */

/* Factors c for which gain (S + c bias) (relative) or gain S + c bias (absolute) gives every code: an interval. False: none. */
static bool factor(engine_t *g, bool relative, double *lo, double *hi, int64_t *used) {
    const vn_dot_t *d = g->d;
    const vn_explain_t *e = g->e;
    const rule_t plain = {0};
    *lo = -INFINITY;
    *hi = INFINITY;
    *used = 0;
    for (int64_t i = 0; i < e->n && *lo <= *hi; ++i) {
        if ((i & 255) == 0 && vn_spent() > e->deadline) {
            g->e->cut = true;
            return false;
        }
        const int64_t c = i / d->inner % d->channels;
        const double x = e->x[i], v = d->gains[c] * sum_by(g, i, &plain), window = 0.5 + 0x1p-20 * (1 + fabs(v)),
                     unit = relative ? d->gains[c] * d->bias[c] : d->bias[c];
        const double least = x <= d->lo ? -INFINITY : x - d->zero - window - v, most = x >= d->hi ? INFINITY : x - d->zero + window - v;
        if (unit == 0) {
            if (least > 0 || most < 0) return false;
            continue;
        }
        *lo = fmax(*lo, fmin(least / unit, most / unit));
        *hi = fmin(*hi, fmax(least / unit, most / unit));
        *used += isfinite(least) && isfinite(most);
    }
    return *lo <= *hi && *used >= 4 && isfinite(*lo) && isfinite(*hi);
}

static bool addend(engine_t *g) {
    for (int relative = 1; relative >= 0; --relative) {
        double lo, hi;
        int64_t used;
        if (!factor(g, relative, &lo, &hi, &used)) continue;
        const double c = (lo + hi) / 2, off = relative ? fabs(c - 1) : fabs(c);
        if (hi - lo > off / 4 || (relative && lo <= 1 && hi >= 1)) continue;
        vn_explain_t *e = g->e;
        vn_explain_offer(e, VN_NAME_VARIANT, vn_edit_exact_gain(e), VN_BUG, "bias-scale",
                         relative ? "%s with the addend multiplied by %.4g more than due gives the whole result (%.4g to %.4g fit)."
                                  : "%s with an addend of %.4g output steps per unit gives the whole result (%.4g to %.4g fit).",
                         e->c->q->node->op, c, lo, hi);
        return true;
    }
    return false;
}

static vn_status_t integers(vn_variant_t *v, vn_error_t *err) {
    vn_dot_t d;
    bool known;
    VN_TRY(vn_dot_open(v, &d, &known, err));
    if (!known) return VN_OK;
    engine_t g = {.e = v->e, .d = &d, .axis = -1};
    vn_status_t s = VN_OK;
    if ((d.form == VN_DOT_INT32 || d.form == VN_DOT_CODE) && d.tb && vn_dtype_bits(d.ta->dtype) == 8 && vn_dtype_bits(d.tb->dtype) == 8) {
        g.signed_a = vn_dtype_kind(d.ta->dtype) == VN_KIND_SIGNED;
        g.signed_b = vn_dtype_kind(d.tb->dtype) == VN_KIND_SIGNED;
        g.ia = vn_alloc((size_t)d.depth, sizeof *g.ia);
        g.ib = vn_alloc((size_t)d.depth, sizeof *g.ib);
        g.order = vn_alloc((size_t)d.depth, sizeof *g.order);
        s = g.ia && g.ib && g.order ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for the terms of a sum");
        const rule_t padded = {.raw_padding = true};
        bool found = s != VN_OK || clamped(&g) || signs(&g);
        if (!found && d.windows && any_zero(d.a0, d.ta->count))
            found = ask(&g, &padded, "zero-point-pad", "padding of code 0 instead of the input's zero point");
        if (!found && v->e->level < VN_NAME_VARIANT && d.form == VN_DOT_CODE && d.bias) found = addend(&g);
        if (!found) sixteen_bits(&g);
        vn_free(g.ia);
        vn_free(g.ib);
        vn_free(g.order);
    }
    vn_dot_close(&d);
    return s;
}

vn_status_t vn_name_integers(vn_explain_t *e, vn_error_t *err) { return e->x ? vn_variants(e, integers, err) : VN_OK; }
