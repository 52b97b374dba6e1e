/* quad.h -- arithmetic of 113 bits for the few elements that float64 leaves open: the type, its functions, sums without loss.
 *
 * On x86-64 the type is the compiler's __float128 with the C library's functions; where long double has 113 bits it is that. Elsewhere
 * it is long double with its own, larger unit: fewer elements are decided, and they are counted (claim PREC-2).
 * Claim PREC-1: each function below is within 8 units of the exact value, VN_QUAD_U the unit: 2^-113 for 113 bits.
 */
#ifndef VN_ORACLE_QUAD_H
#define VN_ORACLE_QUAD_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if LDBL_MANT_DIG < 113 && defined(__SIZEOF_FLOAT128__) && defined(__GLIBC__)
typedef __float128 vn_quad_t;
#define VN_QUAD_U 0x1p-113
#define VN_QUAD_FN(name) name##f128
#ifdef __clang__ /* the C library's headers show these to gcc only */
vn_quad_t expf128(vn_quad_t);
vn_quad_t expm1f128(vn_quad_t);
vn_quad_t logf128(vn_quad_t);
vn_quad_t log1pf128(vn_quad_t);
vn_quad_t sinf128(vn_quad_t);
vn_quad_t cosf128(vn_quad_t);
vn_quad_t tanf128(vn_quad_t);
vn_quad_t asinf128(vn_quad_t);
vn_quad_t acosf128(vn_quad_t);
vn_quad_t atanf128(vn_quad_t);
vn_quad_t sinhf128(vn_quad_t);
vn_quad_t coshf128(vn_quad_t);
vn_quad_t tanhf128(vn_quad_t);
vn_quad_t asinhf128(vn_quad_t);
vn_quad_t acoshf128(vn_quad_t);
vn_quad_t atanhf128(vn_quad_t);
vn_quad_t erff128(vn_quad_t);
vn_quad_t erfcf128(vn_quad_t);
vn_quad_t sqrtf128(vn_quad_t);
vn_quad_t powf128(vn_quad_t, vn_quad_t);
vn_quad_t fmaf128(vn_quad_t, vn_quad_t, vn_quad_t);
vn_quad_t fabsf128(vn_quad_t);
vn_quad_t nextafterf128(vn_quad_t, vn_quad_t);
#endif
#else
typedef long double vn_quad_t;
#define VN_QUAD_U (LDBL_EPSILON / 2)
#define VN_QUAD_FN(name) name##l
#endif

#define vn_qexp VN_QUAD_FN(exp)
#define vn_qexpm1 VN_QUAD_FN(expm1)
#define vn_qlog VN_QUAD_FN(log)
#define vn_qlog1p VN_QUAD_FN(log1p)
#define vn_qsin VN_QUAD_FN(sin)
#define vn_qcos VN_QUAD_FN(cos)
#define vn_qtan VN_QUAD_FN(tan)
#define vn_qasin VN_QUAD_FN(asin)
#define vn_qacos VN_QUAD_FN(acos)
#define vn_qatan VN_QUAD_FN(atan)
#define vn_qsinh VN_QUAD_FN(sinh)
#define vn_qcosh VN_QUAD_FN(cosh)
#define vn_qtanh VN_QUAD_FN(tanh)
#define vn_qasinh VN_QUAD_FN(asinh)
#define vn_qacosh VN_QUAD_FN(acosh)
#define vn_qatanh VN_QUAD_FN(atanh)
#define vn_qerf VN_QUAD_FN(erf)
#define vn_qerfc VN_QUAD_FN(erfc)
#define vn_qsqrt VN_QUAD_FN(sqrt)
#define vn_qpow VN_QUAD_FN(pow)
#define vn_qfma VN_QUAD_FN(fma)
#define vn_qabs VN_QUAD_FN(fabs)
#define vn_qnext VN_QUAD_FN(nextafter)

/** pi, rounded once: three numbers of 53 bits, of which the last two add up without loss. */
#define VN_QUAD_PI ((vn_quad_t)0x1.921fb54442d18p+1 + ((vn_quad_t)0x1.1a62633145c07p-53 - (vn_quad_t)0x1.f1976b7ed8fbcp-109))

/** A function's relative error, one that is within `units` of its base functions' errors. */
#define VN_QUAD_ERROR(units) (8 * (units)*VN_QUAD_U)

/** A running sum: hi + lo is the sum of what was added but for what `lost` bounds; `lost` stays 0 while nothing was rounded off. */
typedef struct vn_quad_sum {
    vn_quad_t hi, lo, lost;
} vn_quad_sum_t;

static inline vn_quad_t vn_quad_two_sum(vn_quad_t a, vn_quad_t b, vn_quad_t *rest) {
    const vn_quad_t s = a + b, z = s - a;
    *rest = (a - (s - z)) + (b - z);
    return s;
}

static inline void vn_quad_add(vn_quad_sum_t *s, vn_quad_t x) {
    vn_quad_t rest, rounded;
    s->hi = vn_quad_two_sum(s->hi, x, &rest);
    s->lo = vn_quad_two_sum(s->lo, rest, &rounded);
    s->lost += vn_qabs(rounded);
}

/** s + a b; the product's own rounding goes into the sum. Exact for products of doubles. */
static inline void vn_quad_add_product(vn_quad_sum_t *s, vn_quad_t a, vn_quad_t b) {
    const vn_quad_t p = a * b, rest = vn_qfma(a, b, -p);
    vn_quad_add(s, p);
    if (rest != 0) vn_quad_add(s, rest);
}

static inline bool vn_quad_finite(vn_quad_t q) { return q - q == 0; }

#endif
