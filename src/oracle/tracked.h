/* tracked.h -- numbers of 113 bits that know how far they may be off: for formulas whose single elements are evaluated again.
 *
 * Claim PREC-9: |exact - v| <= e, and e is 0 where every step gave a number of 113 bits: what a sum, a product or a quotient rounds off is
 * itself computed (TwoSum, fused multiply-add), not bounded by a unit roundoff. So ties stay ties. The sums of e round as well: whoever hands a result
 * on multiplies by VN_TRACKED_ROOM.
 */
#ifndef VN_ORACLE_TRACKED_H
#define VN_ORACLE_TRACKED_H

#include "oracle/escalate.h"

#define VN_TRACKED_ROOM (1 + (vn_quad_t)0x1p-40)

typedef struct vn_tracked {
    vn_quad_t v, e;
} vn_tracked_t;

static inline vn_tracked_t vn_tk(vn_quad_t v) { return (vn_tracked_t){v, 0}; }

static inline vn_tracked_t vn_tk_add(vn_tracked_t a, vn_tracked_t b) {
    vn_quad_t rest;
    const vn_quad_t s = vn_quad_two_sum(a.v, b.v, &rest);
    return (vn_tracked_t){s, a.e + b.e + vn_qabs(rest)};
}
static inline vn_tracked_t vn_tk_sub(vn_tracked_t a, vn_tracked_t b) { return vn_tk_add(a, (vn_tracked_t){-b.v, b.e}); }

static inline vn_tracked_t vn_tk_mul(vn_tracked_t a, vn_tracked_t b) {
    const vn_quad_t p = a.v * b.v, rest = vn_qfma(a.v, b.v, -p);
    return (vn_tracked_t){p, vn_qabs(rest) + vn_qabs(a.v) * b.e + vn_qabs(b.v) * a.e + a.e * b.e};
}

/** a / b; b.e >= |b.v|: Inf. */
static inline vn_tracked_t vn_tk_div(vn_tracked_t a, vn_tracked_t b) {
    const vn_quad_t least = vn_qabs(b.v) - b.e;
    if (!(least > 0)) return (vn_tracked_t){0, (vn_quad_t)INFINITY};
    const vn_quad_t t = a.v / b.v, rest = vn_qfma(-t, b.v, a.v);
    return (vn_tracked_t){t, (vn_qabs(rest) + a.e + vn_qabs(t) * b.e) / least};
}

/** Surely below, surely above, or not known. */
static inline bool vn_tk_below(vn_tracked_t a, vn_quad_t b) { return a.e == 0 ? a.v < b : a.v + a.e * VN_TRACKED_ROOM < b; }
static inline bool vn_tk_above(vn_tracked_t a, vn_quad_t b) { return a.e == 0 ? a.v > b : a.v - a.e * VN_TRACKED_ROOM > b; }

/** Held in [low, high]. */
static inline vn_tracked_t vn_tk_held(vn_tracked_t a, vn_quad_t low, vn_quad_t high) {
    if (a.v > high) return (vn_tracked_t){high, vn_tk_above(a, high) ? 0 : a.e};
    if (a.v < low) return (vn_tracked_t){low, vn_tk_below(a, low) ? 0 : a.e};
    return a;
}

/** n / d, d > 0, not divided: a quotient that is no number of 113 bits would lose ties. */
typedef struct vn_tk_fraction {
    vn_tracked_t n, d;
} vn_tk_fraction_t;

/** The largest integer k that is not above; *rest = n - k d, in [0, d). False where errors leave it open. |n| < 2^62 d. */
static inline bool vn_tk_floor(vn_tk_fraction_t a, int64_t *k, vn_tracked_t *rest) {
    const vn_quad_t quotient = a.n.v / a.d.v;
    if (!(vn_qabs(quotient) < 0x1p62)) return false;
    *k = (int64_t)quotient;
    for (int tries = 0; tries < 3; ++tries) { /* the quotient may have been rounded across an integer */
        *rest = vn_tk_sub(a.n, vn_tk_mul(vn_tk((vn_quad_t)*k), a.d));
        if (rest->v < 0) --*k;
        else if (rest->v >= a.d.v) ++*k;
        else break;
    }
    if (rest->e == 0 && a.d.e == 0) return rest->v >= 0 && rest->v < a.d.v;
    return vn_tk_above(*rest, 0) && rest->v + (rest->e + a.d.e) * VN_TRACKED_ROOM < a.d.v;
}

/** As the answer to a request. */
static inline vn_exact_t vn_tk_exact(vn_tracked_t a) { return (vn_exact_t){.value = a.v, .own = a.e * VN_TRACKED_ROOM}; }

/**
 * cos and sin of 2 pi k / n, 0 <= k < n < 2^59: the angle is taken from the nearest quarter of the circle, so that it stays below pi/4 and multiples of a
 * quarter are numbers, and so are the halves: cos and sin of rational angles are rational only there (Niven). The angle is off by 4 units of itself,
 * the functions by 8 of theirs (PREC-1).
 */
static inline void vn_tk_turn(int64_t k, int64_t n, vn_tracked_t *c, vn_tracked_t *s) {
    const vn_quad_t pi2 = 2 * VN_QUAD_PI;
    const int64_t eighth = 8 * k / n, quarter = (eighth + 1) / 2;
    const vn_quad_t angle = pi2 * (vn_quad_t)(4 * k - quarter * n) / (4 * (vn_quad_t)n);
    const vn_quad_t x = vn_qcos(angle), y = vn_qsin(angle), off = 4 * VN_QUAD_U * vn_qabs(angle);
    vn_tracked_t near = {x, angle == 0 ? 0 : VN_QUAD_ERROR(1) * vn_qabs(x) + off * vn_qabs(y)}; /* a second order is below the room */
    vn_tracked_t across = {y, angle == 0 ? 0 : VN_QUAD_ERROR(1) * vn_qabs(y) + off};
    const int64_t twelfths = 3 * (4 * k - quarter * n); /* of the circle, times n: a twelfth from the quarter has a sine of a half */
    if (twelfths == n || twelfths == -n) across = vn_tk(twelfths > 0 ? (vn_quad_t)0.5 : -(vn_quad_t)0.5);
    const vn_tracked_t less = {-near.v, near.e}, under = {-across.v, across.e};
    switch (quarter % 4) {
    case 0: *c = near, *s = across; break;
    case 1: *c = under, *s = near; break;
    case 2: *c = less, *s = under; break;
    default: *c = across, *s = less; break;
    }
}

/* ---- interpolation ---- */

/** Keys' kernel at distance x / d >= 0, times d^3. */
static inline vn_tracked_t vn_tk_cubic(double a, vn_tracked_t x, vn_tracked_t d) {
    const vn_tracked_t A = vn_tk(a), d2 = vn_tk_mul(d, d);
    if (x.v <= d.v) { /* ((a + 2) x - (a + 3) d) x^2 + d^3 */
        const vn_tracked_t inner = vn_tk_sub(vn_tk_mul(vn_tk_add(A, vn_tk(2)), x), vn_tk_mul(vn_tk_add(A, vn_tk(3)), d));
        return vn_tk_add(vn_tk_mul(inner, vn_tk_mul(x, x)), vn_tk_mul(d2, d));
    }
    if (x.v >= 2 * d.v) { /* 0; its slope beside 2 is below 4 |a| */
        const vn_quad_t doubt = x.e + 2 * d.e;
        return (vn_tracked_t){0, x.v - doubt < 2 * d.v ? 4 * vn_qabs(A.v) * doubt * vn_qabs(d2.v) * VN_TRACKED_ROOM : 0};
    }
    vn_tracked_t y = vn_tk_mul(A, vn_tk_sub(x, vn_tk_mul(vn_tk(5), d))); /* ((a x - 5 a d) x + 8 a d^2) x - 4 a d^3 */
    y = vn_tk_add(vn_tk_mul(y, x), vn_tk_mul(vn_tk(8 * A.v), d2));
    return vn_tk_sub(vn_tk_mul(y, x), vn_tk_mul(vn_tk(4 * A.v), vn_tk_mul(d2, d)));
}

/**
 * Weights of the samples floor(c) - 1 + k (cubic, 4) or floor(c) + k (linear, 2) at floor(c) + rest / d, times *total: d^3 or d. Returns
 * their number.
 */
static inline int vn_tk_weights(bool cubic, double a, vn_tracked_t rest, vn_tracked_t d, vn_tracked_t w[4], vn_tracked_t *total) {
    const vn_tracked_t other = vn_tk_sub(d, rest);
    *total = d;
    if (!cubic) {
        w[0] = other;
        w[1] = rest;
        return 2;
    }
    *total = vn_tk_mul(vn_tk_mul(d, d), d);
    w[0] = vn_tk_cubic(a, vn_tk_add(rest, d), d);
    w[1] = vn_tk_cubic(a, rest, d);
    w[2] = vn_tk_cubic(a, other, d);
    w[3] = vn_tk_cubic(a, vn_tk_add(other, d), d);
    return 4;
}

#endif
