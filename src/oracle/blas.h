/* blas.h -- products of one tile on one thread: a BLAS library where one is found and passes its self-check, else our own kernel. */
#ifndef VN_ORACLE_BLAS_H
#define VN_ORACLE_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Functions that get a copy for wider vectors; the arithmetic is the same in each, so results are bit-identical. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(VN_SANITIZE)
#define VN_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define VN_CLONES
#endif

/**
 * C[m,n] = op(A)[m,k] op(B)[k,n] (+ C if accumulate), row-major; ta: A is stored [k,m]; tb: B is stored [n,k].
 * Bound      each element is a sum of k products rounded in any order, fused or not: within k u |A||B| of the exact sum. A library's are
 *            checked (freivalds.h); at the first wrong one our own kernel takes over for good, and vn_oracle_blas says so.
 * Specials   non-finite operands: unspecified where a zero meets them (a library may skip zeros); the caller repairs such rows.
 * Threads    any number of callers; each call runs on the calling thread.
 */
void vn_dgemm_tile(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb, double *c,
                   int64_t ldc, bool accumulate);
void vn_sgemm_tile(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, bool ta, const float *b, int64_t ldb, bool tb, float *c,
                   int64_t ldc, bool accumulate);

/** Fortran interface: every BLAS has it. The two lengths of the character arguments are passed as gfortran expects them. */
typedef void (*vn_dgemm_fn)(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
                            const double *, const int *, const double *, double *, const int *, size_t, size_t);
typedef void (*vn_sgemm_fn)(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *,
                            const float *, const int *, const float *, float *, const int *, size_t, size_t);
/** Puts other functions in the library's place (tests of what a wrong library does); NULL, NULL returns to what is found. Threads: none
 * concurrently. */
void vn_blas_substitute(vn_dgemm_fn dgemm, vn_sgemm_fn sgemm);

/** Forces our own kernel (tests); false returns to what was found. Threads: none concurrently. */
void vn_blas_force_own(bool own);
/** True when a library does the work. */
bool vn_blas_is_library(void);

/* Our own kernels (gemm_kernel.c), same contract. */
void vn_own_dgemm(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb, double *c,
                  int64_t ldc, bool accumulate);
void vn_own_sgemm(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, bool ta, const float *b, int64_t ldb, bool tb, float *c,
                  int64_t ldc, bool accumulate);

/**
 * Compensated product (twice the working precision) for binary64 operands: hi + lo = sum of the k products.
 * Bound      |hi + lo - exact| <= 4 (k 2^-53)^2 mag + k 2^-1070, mag >= sum |a||b| (Ogita, Rump, Oishi 2005, Dot2), for
 *            operands below 2^990 in magnitude; beyond, hi is the plain sum and lo 0.
 * Shapes     hi, lo: [m,n] with leading dimension ldc; mag, sq: ldm. mag is rounded up; sq (may be NULL) is about sum a^2 b^2.
 */
void vn_dot2_tile(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb, double *hi,
                  double *lo, int64_t ldc, double *mag, double *sq, int64_t ldm);

#endif
