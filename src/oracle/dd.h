/* dd.h -- double-double numbers: about 106 bits as an unevaluated sum hi + lo, from additions and multiplications of binary64 alone.
 *
 * Claim DD-1: for operands and results within 2^-900 .. 2^900 (or zero) each operation below has a relative error of at most
 * VN_DD_U = 2^-102. Sum 3 v^2, product 5 v^2, quotient 10 v^2 with v = 2^-53 (Joldes, Muller, Popescu 2017, theorems 3.1, 5.1 and 6.1 are
 * sharper); 2^-102 = 16 v^2 covers them. Where a partial product underflows, an absolute error of at most 2^-1070 is added.
 */
#ifndef VN_ORACLE_DD_H
#define VN_ORACLE_DD_H

#include <stdint.h>

/* A form that is not inlined keeps its loop from being vectorised. */
#if defined(__GNUC__)
#define VN_DD_FORM static inline __attribute__((always_inline))
#else
#define VN_DD_FORM static inline
#endif

#define VN_DD_U 0x1p-102

typedef struct vn_dd {
    double hi, lo;
} vn_dd_t;

/** s + *e is exactly a + b. */
VN_DD_FORM double vn_dd_two_sum(double a, double b, double *e) {
    const double s = a + b, z = s - a;
    *e = (a - (s - z)) + (b - z);
    return s;
}

/** The same where |a| >= |b| or a is 0. */
VN_DD_FORM double vn_dd_fast_sum(double a, double b, double *e) {
    const double s = a + b;
    *e = b - (s - a);
    return s;
}

/** p + *e is exactly a b (Veltkamp split: no fused multiply-add is needed, so loops vectorise on every processor). */
VN_DD_FORM double vn_dd_two_prod(double a, double b, double *e) {
    const double split = 134217729.0, p = a * b, ca = split * a, cb = split * b;
    const double ah = ca - (ca - a), al = a - ah, bh = cb - (cb - b), bl = b - bh;
    *e = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    return p;
}

/**
 * sum + *lost += a b, and *magnitude += |a b|: a dot product in twice the working precision (Dot2; Ogita, Rump, Oishi 2005). After n of them
 * sum + lost is within vn_dd_dot_own of the exact sum; magnitudes from 2^960 on, or NaN, say nothing.
 */
VN_DD_FORM void vn_dd_add_product(double a, double b, double *sum, double *lost, double *magnitude) {
    double e, f;
    const double p = vn_dd_two_prod(a, b, &e);
    *sum = vn_dd_two_sum(*sum, p, &f);
    *lost += e + f;
    *magnitude += p < 0 ? -p : p;
}
VN_DD_FORM double vn_dd_dot_own(int64_t n, double magnitude) {
    return 4 * ((double)n + 2) * ((double)n + 2) * 0x1p-106 * (magnitude * (1 + 0x1p-20)) + ((double)n + 1) * 0x1p-1069;
}

VN_DD_FORM vn_dd_t vn_dd_add(vn_dd_t a, vn_dd_t b) {
    double e, f, g;
    const double s = vn_dd_two_sum(a.hi, b.hi, &e), t = vn_dd_two_sum(a.lo, b.lo, &f);
    const double m = vn_dd_fast_sum(s, e + t, &g);
    vn_dd_t r;
    r.hi = vn_dd_fast_sum(m, g + f, &r.lo);
    return r;
}

VN_DD_FORM vn_dd_t vn_dd_neg(vn_dd_t a) { return (vn_dd_t){-a.hi, -a.lo}; }

VN_DD_FORM vn_dd_t vn_dd_mul(vn_dd_t a, vn_dd_t b) {
    double e;
    const double p = vn_dd_two_prod(a.hi, b.hi, &e);
    vn_dd_t r;
    r.hi = vn_dd_fast_sum(p, e + (a.hi * b.lo + a.lo * b.hi), &r.lo);
    return r;
}

/** a / b by two corrections; b must not be 0. */
VN_DD_FORM vn_dd_t vn_dd_div(vn_dd_t a, vn_dd_t b) {
    const double q = a.hi / b.hi;
    const vn_dd_t r = vn_dd_add(a, vn_dd_neg(vn_dd_mul(b, (vn_dd_t){q, 0})));
    const double q2 = r.hi / b.hi;
    const vn_dd_t s = vn_dd_add(r, vn_dd_neg(vn_dd_mul(b, (vn_dd_t){q2, 0})));
    const double q3 = s.hi / b.hi;
    double e;
    const double h = vn_dd_fast_sum(q, q2, &e);
    vn_dd_t out;
    out.hi = vn_dd_fast_sum(h, e + q3, &out.lo);
    return out;
}

#endif
