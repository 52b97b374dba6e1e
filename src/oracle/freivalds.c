/* freivalds.c -- products of a library are compared with random signs: C r against A (B r), O(n^2) for an O(n^3) product.
 *
 * Claim GEMM-4. With W = |A| (|B| 1 ), u = 2^-53 and u_c the unit roundoff of C, in any order of summation and fused or not:
 *   |fl(A fl(B r)) - A B r| <= g(k + n, u) W,   |fl(C r) - C r| <= g(n, u) (1 + g(k, u_c)) W,   |C - A B| 1 <= g(k, u_c) W + n k eta_c,
 * and the computed W is at least (1 - g(k + n, u)) W. So a row of a correct product differs by at most
 *   t = [(2 n + k + 4) u + (k + 2) u_c] W / (1 - x) + 2 n k eta_c, x = 4 (n + k) (u + u_c), which must be below 1/2.
 * An error matrix E has |E r|_i >= max_j |E_ij| for at least half of all r:
 * r and r with sign j flipped differ by 2 |E_ij| in row i, so they cannot both be below.
 */
#include "oracle/freivalds.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle/blas.h"
#include "vernier/base.h"

enum { LANES = 16 }; /* two or more registers: sums wait for each other's latency */

typedef double lanes_t __attribute__((vector_size(LANES * sizeof(double))));

typedef int64_t bits_t __attribute__((vector_size(LANES * sizeof(int64_t))));

#define SIGN INT64_MIN

/* Sum of the lanes. */
static double total(const double *v) {
    double s = 0;
    for (int i = 0; i < LANES; ++i) s += v[i];
    return s;
}

/* Signs by shape alone. */
static void signs(int64_t n, int64_t m, int64_t k, double *r) {
    vn_rng_t rng;
    vn_rng_seed(&rng, (uint64_t)m * 0x9e3779b97f4a7c15u ^ (uint64_t)k * 0xc2b2ae3d27d4eb4fu ^ (uint64_t)n);
    for (int64_t j = 0; j < n; j += 32) {
        const uint64_t bits = vn_rng_below(&rng, (uint64_t)1 << 32);
        for (int64_t i = j; i < n && i < j + 32; ++i) r[i] = bits >> (i - j) & 1 ? 1 : -1;
    }
}

#define FREIVALDS(NAME, TYPE, VEC, U, ETA, MAX)                                                                                            \
    typedef TYPE VEC __attribute__((vector_size(LANES * sizeof(TYPE))));                                                                   \
    /* sum += x y and magnitude += |x| w over one row */                                                                                   \
    VN_CLONES static void NAME##_row(int64_t n, const TYPE *x, const double *y, const double *w, double *sum, double *magnitude) {         \
        lanes_t s = {0}, g = {0};                                                                                                          \
        int64_t j = 0;                                                                                                                     \
        for (; j + LANES <= n; j += LANES) {                                                                                               \
            VEC narrow;                                                                                                                    \
            lanes_t yv, wv;                                                                                                                \
            memcpy(&narrow, x + j, sizeof narrow);                                                                                         \
            memcpy(&yv, y + j, sizeof yv);                                                                                                 \
            const lanes_t xv = __builtin_convertvector(narrow, lanes_t), abs = (lanes_t)((bits_t)xv & ~SIGN);                              \
            s += xv * yv;                                                                                                                  \
            if (w) {                                                                                                                       \
                memcpy(&wv, w + j, sizeof wv);                                                                                             \
                g += abs * wv;                                                                                                             \
            } else {                                                                                                                       \
                g += abs;                                                                                                                  \
            }                                                                                                                              \
        }                                                                                                                                  \
        double st = total((const double *)&s), gt = total((const double *)&g);                                                             \
        for (; j < n; ++j) {                                                                                                               \
            st += (double)x[j] * y[j];                                                                                                     \
            gt += fabs((double)x[j]) * (w ? w[j] : 1);                                                                                     \
        }                                                                                                                                  \
        *sum = st;                                                                                                                         \
        *magnitude = gt;                                                                                                                   \
    }                                                                                                                                      \
    /* sum[] += x[] y and magnitude[] += |x[]| w: one row of a transposed operand */                                                       \
    VN_CLONES static void NAME##_column(int64_t n, const TYPE *x, double y, double w, double *sum, double *magnitude) {                    \
        for (int64_t j = 0; j < n; ++j) {                                                                                                  \
            sum[j] += (double)x[j] * y;                                                                                                    \
            magnitude[j] += fabs((double)x[j]) * w;                                                                                        \
        }                                                                                                                                  \
    }                                                                                                                                      \
    /* X y and |X| w (w NULL: ones) of op(X)[rows, cols] */                                                                                \
    static void NAME##_times(int64_t rows, int64_t cols, const TYPE *x, int64_t ld, bool t, const double *y, const double *w, double *sum, \
                             double *magnitude) {                                                                                          \
        if (!t) {                                                                                                                          \
            for (int64_t i = 0; i < rows; ++i) NAME##_row(cols, x + i * ld, y, w, sum + i, magnitude + i);                                 \
            return;                                                                                                                        \
        }                                                                                                                                  \
        memset(sum, 0, (size_t)rows * sizeof *sum);                                                                                        \
        memset(magnitude, 0, (size_t)rows * sizeof *magnitude);                                                                            \
        for (int64_t j = 0; j < cols; ++j) NAME##_column(rows, x + j * ld, y[j], w ? w[j] : 1, sum, magnitude);                            \
    }                                                                                                                                      \
    bool vn_plausible_##NAME(int64_t m, int64_t n, int64_t k, const TYPE *a, int64_t lda, bool ta, const TYPE *b, int64_t ldb, bool tb,    \
                             const TYPE *c, int64_t ldc) {                                                                                 \
        const double x = 4 * (double)(n + k) * (0x1p-53 + (U));                                                                            \
        double *r = vn_realloc(NULL, (size_t)(n + 2 * k + 4 * m) + 1, sizeof *r);                                                          \
        if (!r || !(x < 0.5)) {                                                                                                            \
            vn_free(r);                                                                                                                    \
            return false;                                                                                                                  \
        }                                                                                                                                  \
        double *br = r + n, *bw = br + k, *ar = bw + k, *aw = ar + m, *cr = aw + m, *cw = cr + m;                                          \
        signs(n, m, k, r);                                                                                                                 \
        NAME##_times(k, n, b, ldb, tb, r, NULL, br, bw);                                                                                   \
        NAME##_times(m, k, a, lda, ta, br, bw, ar, aw);                                                                                    \
        NAME##_times(m, n, c, ldc, false, r, NULL, cr, cw);                                                                                \
        const double rel = ((2 * (double)n + (double)k + 4) * 0x1p-53 + ((double)k + 2) * (U)) / (1 - x);                                  \
        bool good = true;                                                                                                                  \
        for (int64_t i = 0; i < m && good; ++i) {                                                                                          \
            const double w = aw[i];                                                                                                        \
            if (!(w < (MAX))) continue;                                                                                                    \
            good = fabs(cr[i] - ar[i]) <= rel * w + 2 * (double)n * (double)k * (ETA);                                                     \
        }                                                                                                                                  \
        vn_free(r);                                                                                                                        \
        return good;                                                                                                                       \
    }

FREIVALDS(dgemm, double, wide_t, 0x1p-53, 0x1p-1074, DBL_MAX / 4)
FREIVALDS(sgemm, float, narrow_t, 0x1p-24, 0x1p-149, FLT_MAX / 4)
