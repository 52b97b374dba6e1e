/* test_gemm.c -- claims GEMM-1 (library proven or own kernel), GEMM-2 (magnitudes rounded up), GEMM-3 (compensated products). */
#include "sum_case.h"

#include "oracle/blas.h"
#include "oracle/magnitude.h"

enum { BIG = 96 };

static void integers(vn_rng_t *rng, double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) x[i] = (double)vn_rng_below(rng, 255) - 127;
}

/* op(A)(i,k) of a matrix with leading dimension ld */
static double at(const double *x, int64_t ld, bool t, int64_t i, int64_t k) { return t ? x[k * ld + i] : x[i * ld + k]; }

static void check_integers(vn_test_t *t, vn_rng_t *rng) {
    static const int64_t shapes[][3] = {{1, 1, 1},    {1, 9, 4},    {7, 1, 300},  {3, 5, 0},   {5, 7, 33},
                                        {16, 64, 17}, {65, 63, 96}, {96, 96, 96}, {2, 96, 257}};
    static double a[BIG * 300], b[BIG * 300], c[BIG * (BIG + 5)];
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s)
        for (int form = 0; form < 8; ++form) {
            const int64_t m = shapes[s][0], n = shapes[s][1], k = shapes[s][2], ldc = n + 5;
            const bool ta = form & 1, tb = form & 2, add = form & 4;
            const int64_t lda = (ta ? m : k) + 2, ldb = (tb ? k : n) + 3;
            integers(rng, a, (ta ? k : m) * lda);
            integers(rng, b, (tb ? n : k) * ldb);
            for (int64_t i = 0; i < m * ldc; ++i) c[i] = add || i % ldc >= n ? 5 : NAN;
            vn_dgemm(m, n, k, a, lda, ta, b, ldb, tb, c, ldc, add);
            for (int64_t i = 0; i < m; ++i) {
                for (int64_t j = 0; j < n; ++j) {
                    double want = add ? 5 : 0;
                    for (int64_t p = 0; p < k; ++p) want += at(a, lda, ta, i, p) * at(b, ldb, tb, p, j);
                    VN_ASSERT_DEQ(t, c[i * ldc + j], want);
                }
                for (int64_t j = n; j < ldc; ++j) VN_ASSERT_DEQ(t, c[i * ldc + j], 5);
            }
        }
}

VN_TEST(gemm, integer_products_are_exact) {
    vn_rng_t rng = vn_test_rng(t);
    check_integers(t, &rng);
    vn_blas_force_own(true);
    check_integers(t, &rng);
    vn_blas_force_own(false);
}

VN_TEST(gemm, says_what_it_uses) {
    char text[200];
    vn_oracle_blas(text, sizeof text);
    if (vn_blas_is_library()) {
        VN_ASSERT_HAS(t, text, "self-check passed");
    } else {
        VN_ASSERT_HAS(t, text, "own kernel");
    }
    vn_blas_force_own(true);
    vn_oracle_blas(text, sizeof text);
    VN_ASSERT_HAS(t, text, "own kernel");
    vn_blas_force_own(false);
}

/* Claim GEMM-2: T <= upper <= T (1 + small), for data that f32 holds and for data that it cannot. */
static void check_upper(vn_test_t *t, vn_rng_t *rng, double scale_a, double scale_b, bool wide, double slack) {
    enum { M = 9, N = 11, K = 70 };
    static double a[M * K], b[K * N], c[M * N];
    for (int i = 0; i < M * K; ++i) a[i] = vn_rng_normal(rng) * scale_a * (wide ? exp(30 * vn_rng_normal(rng)) : 1);
    for (int i = 0; i < K * N; ++i) b[i] = vn_rng_normal(rng) * scale_b * (wide ? exp(30 * vn_rng_normal(rng)) : 1);
    VN_ASSERT_OK(t, vn_abs_gemm_upper(M, N, K, a, K, false, b, N, false, c, N, false));
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            long double sum = 0;
            for (int k = 0; k < K; ++k) sum += fabsl((long double)a[i * K + k] * (long double)b[k * N + j]);
            VN_ASSERT(t, (long double)c[i * N + j] >= sum);                                             /* true */
            VN_ASSERT(t, (long double)c[i * N + j] <= sum * (1 + (long double)slack) + K * 0x1p-1060L); /* tight */
        }
}

VN_TEST(gemm, magnitudes_are_upper_bounds) {
    vn_rng_t rng = vn_test_rng(t);
    check_upper(t, &rng, 1, 1, false, 80 * 0x1p-24 + 4 * 0x1p-23);
    check_upper(t, &rng, 1e30, 1e25, false, 80 * 0x1p-24 + 4 * 0x1p-23); /* beyond f32 unless scaled */
    check_upper(t, &rng, 1e-44, 1e-40, false, 80 * 0x1p-24 + 4 * 0x1p-23);
    check_upper(t, &rng, 1e-150, 1e-170, false, 1e-3);            /* products near the end of f64 */
    check_upper(t, &rng, 1, 1, true, 80 * 0x1p-24 + 4 * 0x1p-23); /* spread over hundreds of binades: the f64 path */
}

VN_TEST(gemm, magnitudes_of_zeros_and_infinities) {
    const double a[4] = {0, 0, 1, INFINITY}, b[2] = {3, 4};
    double c[2] = {9, 9};
    VN_ASSERT_OK(t, vn_abs_gemm_upper(2, 1, 2, a, 2, false, b, 1, false, c, 1, false));
    VN_ASSERT_DEQ(t, c[0], 0); /* zeros stay zero: equality can be demanded there */
    VN_ASSERT(t, isinf(c[1]));
    VN_ASSERT_OK(t, vn_abs_gemm_upper(2, 1, 2, a, 2, false, b, 1, false, c, 1, true));
    VN_ASSERT_DEQ(t, c[0], 0);
    VN_ASSERT_OK(t, vn_abs_gemm_upper(2, 1, 0, a, 0, false, b, 1, false, c, 1, false));
    VN_ASSERT_DEQ(t, c[1], 0);
}

/* Claim GEMM-3: hi + lo within 4 (k u)^2 mag of the exact sum, also where everything cancels. */
VN_TEST(gemm, compensated_products) {
    enum { M = 5, N = 19, K = 301 };
    static double a[M * K], b[K * N], hi[M * N], lo[M * N], mag[M * N];
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t exact;
    mpfr_init2(exact, 2500);
    for (int kind = 0; kind < SC_DATA; ++kind) {
        sc_fill(&rng, (sc_data_t)kind, a, M * K);
        sc_fill(&rng, (sc_data_t)kind, b, K * N);
        vn_dot2_tile(M, N, K, a, K, false, b, N, false, hi, lo, N, mag, NULL, N);
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < N; ++j) {
                sc_exact(exact, a + i * K, 1, b + j, N, K, 0);
                VN_ASSERT_LE(t, sc_distance(exact, hi[i * N + j], lo[i * N + j]), 4.0 * K * K * 0x1p-106 * mag[i * N + j] + 0x1p-1060);
                VN_ASSERT_LE(t, fabs(lo[i * N + j]), vn_ulp(VN_FMT_F64, hi[i * N + j]));
            }
    }
    a[0] = 1e300; /* too large to split: the plain sum */
    b[0] = 1e5;
    vn_dot2_tile(1, 1, 1, a, K, false, b, N, false, hi, lo, N, mag, NULL, N);
    VN_ASSERT_DEQ(t, hi[0], 1e300 * 1e5);
    mpfr_clear(exact);
}

static void run_all(double *out, int64_t m, int64_t n, int64_t k, const double *a, const double *b) {
    vn_dgemm(m, n, k, a, k, false, b, n, false, out, n, false);
    vn_abs_gemm_upper(m, n, k, a, k, false, b, n, false, out + m * n, n, false);
}

VN_TEST(gemm, same_bits_for_every_thread_count) {
    enum { M = 300, N = 530, K = 120 };
    double *a = vn_alloc(M * K, 8), *b = vn_alloc(K * N, 8), *first = vn_alloc(2 * M * N, 8), *again = vn_alloc(2 * M * N, 8);
    vn_rng_t rng = vn_test_rng(t);
    VN_ASSERT(t, a && b && first && again);
    sc_fill(&rng, SC_NORMAL, a, M * K);
    sc_fill(&rng, SC_NORMAL, b, K * N);
    for (int own = 0; own < 2; ++own) {
        vn_blas_force_own(own);
        vn_threads_set(1);
        run_all(first, M, N, K, a, b);
        for (int threads = 2; threads <= 7; threads += 5) {
            vn_threads_set(threads);
            run_all(again, M, N, K, a, b);
            VN_ASSERT(t, memcmp(first, again, 2 * M * N * sizeof *first) == 0);
        }
    }
    vn_blas_force_own(false);
    vn_threads_set(0);
    vn_free(a);
    vn_free(b);
    vn_free(first);
    vn_free(again);
}

VN_TEST(gemm, grids_and_extents) {
    const double x[] = {0, 1.5, -0.25, 96};
    VN_ASSERT_DEQ(t, vn_grid(x, 4, 24), 0.25);
    VN_ASSERT_DEQ(t, vn_grid(x, 4, 8), 0); /* 96 needs more than 8 bits above 1/4 */
    VN_ASSERT_DEQ(t, vn_grid(x, 1, 24), 0x1p1000);
    const double y[] = {0, -3, NAN, 0x1p-1074, INFINITY};
    const vn_extent_t e = vn_extent(y, 5);
    VN_ASSERT_DEQ(t, e.max, 3);
    VN_ASSERT_DEQ(t, e.min, 0x1p-1074);
    VN_ASSERT(t, e.nonfinite);
    const vn_extent_t z = vn_extent(y, 1);
    VN_ASSERT(t, z.max == 0 && isinf(z.min) && !z.nonfinite);
}

VN_TEST_MAIN(VN_CASE(gemm, integer_products_are_exact), VN_CASE(gemm, says_what_it_uses), VN_CASE(gemm, magnitudes_are_upper_bounds),
             VN_CASE(gemm, magnitudes_of_zeros_and_infinities), VN_CASE(gemm, compensated_products),
             VN_CASE(gemm, same_bits_for_every_thread_count), VN_CASE(gemm, grids_and_extents))
