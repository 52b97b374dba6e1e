/* arithmetic_fit.c -- an elementary function by an approximation that is too coarse: of too low an order, or with coefficients of 16 bits.
 *
 * Claim ARITH-11: such a result depends on the argument alone and its error is a smooth function of it: between neighbouring arguments it is
 * what a straight line between the errors next to it says, within a quarter of their size and one ulp of the result. Independent
 * errors do that for few elements (a straight line misses independent errors by 1.2 of their size), a fault of places for none.
 * Which of the two: a fit of too low an order swings around the function, or is off at the ends of its interval only; coefficients that were rounded
 * to f16 (11 bits) leave 2^-15 and more of the result, an error of low degree: it changes its sign at most three times, and at a
 * usual argument it is no less than 1/16 of the largest. In f16 itself 2^-9 is more than any fit is made for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge/arithmetic.h"

typedef struct point {
    double x, y, actual, ulp;
    bool wrong;
} point_t;

static int by_argument(const void *a, const void *b) {
    const point_t *p = a, *q = b;
    if (p->x != q->x) return (p->x > q->x) - (p->x < q->x);
    return (p->actual > q->actual) - (p->actual < q->actual);
}

enum { LEAST = 5, FEW = 16, SAMPLE = 1 << 16 };

/* Sorted points, one per argument; *n = 0 where equal arguments gave different results. */
static point_t *points(const vn_arith_t *a, const double *x, int64_t *n) {
    const vn_ref_t *r = a->c->ref;
    const vn_format_t out = vn_format_of(r->dtype);
    const int64_t step = a->n / SAMPLE + 1;
    point_t *p = vn_alloc((size_t)(a->n / step) + 2, sizeof *p);
    int64_t used = 0, kept = 0;
    for (int64_t i = 0; p && i < a->n; i += step) {
        if (!isfinite(x[i]) || !isfinite(r->value[i]) || !isfinite(a->x[i])) continue;
        p[used++] = (point_t){.x = x[i],
                              .y = r->value[i],
                              .actual = a->x[i],
                              .ulp = vn_ulp(out, r->value[i]),
                              .wrong = !(fabs(a->x[i] - r->value[i]) <= vn_room(r, i))};
    }
    if (p) qsort(p, (size_t)used, sizeof *p, by_argument);
    for (int64_t i = 0; i < used; ++i) {
        if (kept && p[kept - 1].x == p[i].x) {
            if (p[kept - 1].actual != p[i].actual) {
                kept = 0;
                break;
            }
            continue;
        }
        p[kept++] = p[i];
    }
    *n = kept;
    return p;
}

typedef struct shape {
    int64_t wrong, smooth, changes;
    double relative;     /* largest |error| / max(|y|, typical |y|) */
    double typical;      /* square of the mean root of |error|, over the largest: what a usual argument sees */
    double ratio_spread; /* of actual / y over wrong points: 0 for a constant factor */
    bool out_of_range;   /* leaves the interval of all values of the function */
} shape_t;

static double error_of(const point_t *p) { return p->actual - p->y; }

static shape_t shape_of(const point_t *p, int64_t n) {
    shape_t s = {0};
    double typical = 0, sum = 0, top = 0, low = INFINITY, high = -INFINITY;
    for (int64_t i = 0; i < n; ++i) typical += fabs(p[i].y) / (double)n;
    int last = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double e = error_of(&p[i]);
        s.relative = fmax(s.relative, fabs(e) / fmax(fabs(p[i].y), typical));
        sum += sqrt(fabs(e));
        top = fmax(top, fabs(e));
        if (!p[i].wrong) continue;
        s.wrong++;
        if (p[i].y != 0) {
            low = fmin(low, p[i].actual / p[i].y);
            high = fmax(high, p[i].actual / p[i].y);
        }
        const int sign = e > 0 ? 1 : -1;
        s.changes += last != 0 && sign != last && fabs(e) > 2 * p[i].ulp;
        if (fabs(e) > 2 * p[i].ulp) last = sign;
        const point_t *b = i ? &p[i - 1] : i + 2 < n ? &p[i + 1] : NULL, *f = i + 1 < n ? &p[i + 1] : i > 1 ? &p[i - 2] : NULL;
        if (!b || !f) continue;
        const double eb = error_of(b), ef = error_of(f), line = eb + (ef - eb) * (p[i].x - b->x) / (f->x - b->x);
        s.smooth += fabs(e - line) <= 0.25 * fmax(fabs(e), fmax(fabs(eb), fabs(ef))) + fmax(p[i].ulp, fmax(b->ulp, f->ulp));
    }
    s.ratio_spread = high - low;
    s.typical = top > 0 && n ? sum / (double)n * sum / (double)n / top : 0;
    return s;
}

/* Functions whose values stay inside an interval, whatever the argument. */
bool vn_arith_leaves_range(const vn_arith_t *a) {
    static const struct {
        const char *op;
        double low, high;
    } range[] = {{"Tanh", -1, 1},
                 {"Erf", -1, 1},
                 {"Sin", -1, 1},
                 {"Cos", -1, 1},
                 {"Sigmoid", 0, 1},
                 {"Exp", 0, INFINITY},
                 {"Softplus", 0, INFINITY},
                 {"Cosh", 1, INFINITY},
                 {"Atan", -1.5707963267948966, 1.5707963267948966},
                 {"Acos", 0, 3.1415926535897932}};
    const double ulp = vn_format_info(vn_format_of(a->c->actual->dtype))->u * 2;
    for (size_t k = 0; k < sizeof range / sizeof *range; ++k) {
        if (!vn_arith_is(a, range[k].op)) continue;
        for (int64_t i = 0; i < a->n; ++i)
            if (a->x[i] > range[k].high * (1 + 2 * ulp) || a->x[i] < range[k].low - 2 * ulp * fabs(range[k].low)) return true;
    }
    return false;
}

vn_status_t vn_arith_fit(vn_arith_t *a, vn_error_t *err) {
    const vn_case_t *c = a->c;
    const vn_tensor_t *in = vn_arith_operand(a, 0);
    if (a->found || !c->q->node || c->cls != VN_CLASS_ELEMENTARY || !c->ref->value || c->m.outside < LEAST || c->m.classes || !in ||
        in->count != a->n || !vn_dtype_is_float(in->dtype) || vn_arith_operand(a, 1))
        return VN_OK;
    double *x = vn_arith_plane(a, 0);
    int64_t n = 0;
    point_t *p = x ? points(a, x, &n) : NULL;
    vn_free(x);
    if (!p) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    a->tried++;
    const shape_t s = shape_of(p, n);
    vn_free(p);
    const bool proportional = s.ratio_spread < 0x1p-6 * s.relative || s.relative > 0.125;
    if (s.wrong < LEAST || 64 * s.wrong < n || proportional) return VN_OK;
    if (10 * s.smooth < 9 * s.wrong || (s.wrong < FEW && s.smooth < s.wrong)) return VN_OK; /* of few, every one must be */
    const bool narrow = c->actual->dtype == VN_F16, low_degree = s.changes <= 3 && s.typical >= 1.0 / 16;
    const bool coefficients = (s.relative >= 0x1p-15 && low_degree) || (narrow && s.relative >= 0x1p-9);
    const bool useless = vn_arith_leaves_range(a);
    vn_arith_exact(
        a, coefficients ? "coefficients-f16" : "low-order-fit", VN_ARITH_WIDE | (useless ? VN_ARITH_BUG : 0), c->actual,
        "%s by an approximation: the error is a smooth function of the argument, at most %.2g relative, with %lld changes of sign%s%s",
        c->q->node->op, s.relative, (long long)s.changes, coefficients ? ", the size of coefficients with 11 bits" : "",
        useless ? "; the result leaves the range of the function" : "");
    return VN_OK;
}
