/* gemm_kernel.c -- our own product kernels: plain ones for machines without a BLAS library, and the compensated one for binary64. */
#include "oracle/blas.h"

#include <math.h>
#include <string.h>

/* Register tile of MR rows and one vector row of B; KC terms of B are packed at a time, so that strides never reach the inner loop. */
enum { MR = 4, DN = 8, SN = 16, KC = 256, CN = 8 };

typedef double vd_t __attribute__((vector_size(DN * sizeof(double))));
typedef float vs_t __attribute__((vector_size(SN * sizeof(float))));

#define OWN_GEMM(NAME, TYPE, VEC, NR)                                                                                                      \
    VN_CLONES static void NAME##_block(int64_t rows, int64_t kc, const TYPE *a, int64_t rs, int64_t cs, const TYPE *panel, TYPE *out) {    \
        VEC acc[MR];                                                                                                                       \
        memset(acc, 0, sizeof acc);                                                                                                        \
        if (rows == MR) {                                                                                                                  \
            const TYPE *a0 = a, *a1 = a + rs, *a2 = a + 2 * rs, *a3 = a + 3 * rs;                                                          \
            for (int64_t p = 0; p < kc; ++p) {                                                                                             \
                VEC b;                                                                                                                     \
                memcpy(&b, panel + p * (NR), sizeof b);                                                                                    \
                acc[0] += a0[p * cs] * b;                                                                                                  \
                acc[1] += a1[p * cs] * b;                                                                                                  \
                acc[2] += a2[p * cs] * b;                                                                                                  \
                acc[3] += a3[p * cs] * b;                                                                                                  \
            }                                                                                                                              \
        } else {                                                                                                                           \
            for (int64_t i = 0; i < rows; ++i)                                                                                             \
                for (int64_t p = 0; p < kc; ++p) {                                                                                         \
                    VEC b;                                                                                                                 \
                    memcpy(&b, panel + p * (NR), sizeof b);                                                                                \
                    acc[i] += a[i * rs + p * cs] * b;                                                                                      \
                }                                                                                                                          \
        }                                                                                                                                  \
        memcpy(out, acc, sizeof acc);                                                                                                      \
    }                                                                                                                                      \
    void vn_own_##NAME(int64_t m, int64_t n, int64_t k, const TYPE *a, int64_t lda, bool ta, const TYPE *b, int64_t ldb, bool tb, TYPE *c, \
                       int64_t ldc, bool accumulate) {                                                                                     \
        const int64_t rs = ta ? 1 : lda, cs = ta ? lda : 1;                                                                                \
        TYPE panel[KC * (NR)], out[MR * (NR)];                                                                                             \
        for (int64_t j = 0; j < n; j += (NR)) {                                                                                            \
            const int64_t cols = n - j < (NR) ? n - j : (NR);                                                                              \
            if (k == 0 && !accumulate)                                                                                                     \
                for (int64_t i = 0; i < m; ++i) memset(c + i * ldc + j, 0, (size_t)cols * sizeof *c);                                      \
            for (int64_t q = 0; q < k; q += KC) {                                                                                          \
                const int64_t kc = k - q < KC ? k - q : KC;                                                                                \
                if (cols < (NR)) memset(panel, 0, sizeof panel);                                                                           \
                for (int64_t p = 0; p < kc; ++p)                                                                                           \
                    for (int64_t x = 0; x < cols; ++x) panel[p * (NR) + x] = tb ? b[(j + x) * ldb + q + p] : b[(q + p) * ldb + j + x];     \
                for (int64_t i = 0; i < m; i += MR) {                                                                                      \
                    const int64_t rows = m - i < MR ? m - i : MR;                                                                          \
                    NAME##_block(rows, kc, a + i * rs + q * cs, rs, cs, panel, out);                                                       \
                    for (int64_t y = 0; y < rows; ++y) {                                                                                   \
                        TYPE *row = c + (i + y) * ldc + j;                                                                                 \
                        const TYPE *o = out + y * (NR);                                                                                    \
                        if (q == 0 && !accumulate)                                                                                         \
                            for (int64_t x = 0; x < cols; ++x) row[x] = o[x];                                                              \
                        else                                                                                                               \
                            for (int64_t x = 0; x < cols; ++x) row[x] += o[x];                                                             \
                    }                                                                                                                      \
                }                                                                                                                          \
            }                                                                                                                              \
        }                                                                                                                                  \
    }

OWN_GEMM(dgemm, double, vd_t, DN)
OWN_GEMM(sgemm, float, vs_t, SN)

/* ---- compensated ---- */

/* Operands are split into 26-bit halves (Dekker): the four partial products are exact, and so is the error of the full product. */
static const double splitter = 0x1p27 + 1;

typedef int64_t vm_t __attribute__((vector_size(CN * sizeof(int64_t))));
typedef struct lanes {
    vd_t hi, lo, mag, sq;
} lanes_t;

VN_CLONES static void dot2_block(int64_t kc, const double *a, int64_t cs, const double *b, const double *bh, lanes_t *io) {
    const vm_t sign_off = INT64_MAX - (vm_t){0};
    vd_t s = io->hi, c = io->lo, g = io->mag, q = io->sq;
    for (int64_t p = 0; p < kc; ++p) {
        const double x = a[p * cs], w = splitter * x, xh = w - (w - x), xl = x - xh;
        vd_t y, yh;
        memcpy(&y, b + p * DN, sizeof y);
        memcpy(&yh, bh + p * DN, sizeof yh);
        const vd_t yl = y - yh;
        const vd_t prod = x * y;
        const vd_t err = ((xh * yh - prod) + xh * yl + xl * yh) + xl * yl; /* x y - prod, exactly */
        const vd_t t = s + prod, z = t - s;
        c += ((s - (t - z)) + (prod - z)) + err; /* the error of t, exactly, and that of the product */
        s = t;
        g += (vd_t)((vm_t)prod & sign_off);
        q += prod * prod;
    }
    io->hi = s;
    io->lo = c;
    io->mag = g;
    io->sq = q;
}

/* Operands too large to split: plain sums, whose error the caller's `own` covers through lo = 0 and the plain bound. */
static void plain_cell(int64_t k, const double *a, int64_t as, const double *b, int64_t bs, double *hi, double *mag, double *sq) {
    double s = 0, g = 0, q = 0;
    for (int64_t p = 0; p < k; ++p) {
        const double v = a[p * as] * b[p * bs];
        s += v;
        g += fabs(v);
        q += v * v;
    }
    *hi = s;
    *mag = g;
    *sq = q;
}

void vn_dot2_tile(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb, double *hi,
                  double *lo, int64_t ldc, double *mag, double *sq, int64_t ldm) {
    const int64_t rs = ta ? 1 : lda, cs = ta ? lda : 1, bk = tb ? 1 : ldb, bj = tb ? ldb : 1;
    const double up = 1 + ((double)k + 4) * 0x1p-52;
    double panel[KC * CN], high[KC * CN];
    for (int64_t j = 0; j < n; j += CN) {
        const int64_t cols = n - j < CN ? n - j : CN;
        for (int64_t i = 0; i < m; ++i)
            for (int64_t x = 0; x < cols; ++x) {
                hi[i * ldc + j + x] = lo[i * ldc + j + x] = 0;
                mag[i * ldm + j + x] = 0;
                if (sq) sq[i * ldm + j + x] = 0;
            }
        for (int64_t p0 = 0; p0 < k; p0 += KC) {
            const int64_t kc = k - p0 < KC ? k - p0 : KC;
            memset(panel, 0, sizeof panel);
            for (int64_t p = 0; p < kc; ++p)
                for (int64_t x = 0; x < cols; ++x) panel[p * CN + x] = b[(p0 + p) * bk + (j + x) * bj];
            for (int64_t p = 0; p < kc * CN; ++p) {
                const double w = splitter * panel[p];
                high[p] = w - (w - panel[p]);
            }
            for (int64_t i = 0; i < m; ++i) {
                lanes_t io;
                memset(&io, 0, sizeof io);
                double *fields[4] = {hi + i * ldc, lo + i * ldc, mag + i * ldm, sq ? sq + i * ldm : NULL};
                double *lane = (double *)&io;
                for (int f = 0; f < 4; ++f)
                    for (int64_t x = 0; x < cols && fields[f]; ++x) lane[f * CN + x] = fields[f][j + x];
                dot2_block(kc, a + i * rs + p0 * cs, cs, panel, high, &io);
                for (int f = 0; f < 4; ++f)
                    for (int64_t x = 0; x < cols && fields[f]; ++x) fields[f][j + x] = lane[f * CN + x];
            }
        }
        for (int64_t i = 0; i < m; ++i)
            for (int64_t x = 0; x < cols; ++x) {
                const int64_t at = i * ldc + j + x, am = i * ldm + j + x;
                if (!isfinite(hi[at] + lo[at])) { /* overflow of a split, or a non-finite operand */
                    double q;
                    plain_cell(k, a + i * rs, cs, b + (j + x) * bj, bk, &hi[at], &mag[am], sq ? &sq[am] : &q);
                    lo[at] = 0;
                } else {
                    const double s = hi[at] + lo[at], z = s - hi[at]; /* exact: hi becomes the nearest double */
                    lo[at] = (hi[at] - (s - z)) + (lo[at] - z);
                    hi[at] = s;
                }
                mag[am] *= up;
            }
    }
}
