/* test_freivalds.c -- claim GEMM-4: correct products pass in every order, wrong ones are seen, a wrong library is dismissed. */
#include "sum_case.h"

#include <string.h>

#include "oracle/blas.h"
#include "oracle/freivalds.h"

enum { SIDE = 80 };

typedef struct plan {
    int64_t m, n, k;
    bool ta, tb;
} plan_t;

static plan_t draw_plan(vn_rng_t *rng) {
    return (plan_t){1 + (int64_t)vn_rng_below(rng, SIDE - 1), 1 + (int64_t)vn_rng_below(rng, SIDE - 1),
                    1 + (int64_t)vn_rng_below(rng, SIDE - 1), vn_rng_below(rng, 2), vn_rng_below(rng, 2)};
}

/* kind 0 normal, 1 over 60 binades, 2 subnormal products, 3 cancelling rows, 4 integers */
static double entry(vn_rng_t *rng, int kind, int64_t i) {
    const double x = vn_rng_normal(rng);
    return kind == 0   ? x
           : kind == 1 ? ldexp(x, (int)vn_rng_below(rng, 60) - 30)
           : kind == 2 ? ldexp(x, -70)
           : kind == 3 ? (i & 1 ? -1.0 : 1.0) * (1 + 0x1p-20 * x)
                       : (double)vn_rng_below(rng, 200) - 100;
}

static double ad[SIDE * SIDE], bd[SIDE * SIDE], cd[SIDE * SIDE];
static float af[SIDE * SIDE], bf[SIDE * SIDE], cf[SIDE * SIDE];

static void fill(vn_rng_t *rng, int kind) {
    for (int64_t i = 0; i < SIDE * SIDE; ++i) {
        af[i] = (float)(ad[i] = entry(rng, kind, i));
        bf[i] = (float)(bd[i] = entry(rng, kind, i));
    }
}

/* Plain f32 chains, forwards, backwards or fused, independent of the kernels. */
static void chains(const plan_t *p, int order) {
    for (int64_t i = 0; i < p->m; ++i)
        for (int64_t j = 0; j < p->n; ++j) {
            float s = 0;
            for (int64_t q = 0; q < p->k; ++q) {
                const int64_t x = order == 1 ? p->k - 1 - q : q;
                const float a = p->ta ? af[x * SIDE + i] : af[i * SIDE + x], b = p->tb ? bf[j * SIDE + x] : bf[x * SIDE + j];
                s = order == 2 ? fmaf(a, b, s) : s + a * b;
            }
            cf[i * SIDE + j] = s;
        }
}

VN_TEST(freivalds, correct_products_pass) {
    vn_rng_t rng = vn_test_rng(t);
    for (int round = 0; round < 120; ++round) {
        const plan_t p = draw_plan(&rng);
        fill(&rng, round % 5);
        vn_own_dgemm(p.m, p.n, p.k, ad, SIDE, p.ta, bd, SIDE, p.tb, cd, SIDE, false);
        VN_ASSERT(t, vn_plausible_dgemm(p.m, p.n, p.k, ad, SIDE, p.ta, bd, SIDE, p.tb, cd, SIDE));
        chains(&p, round % 3);
        VN_ASSERT(t, vn_plausible_sgemm(p.m, p.n, p.k, af, SIDE, p.ta, bf, SIDE, p.tb, cf, SIDE));
    }
}

/* 2 (2n + 2k + 6) u W bounds twice the tolerance of GEMM-4 for f64. */
static double tolerance(const plan_t *p, int64_t i) {
    double w = 0;
    for (int64_t q = 0; q < p->k; ++q) {
        double b = 0;
        for (int64_t j = 0; j < p->n; ++j) b += fabs(p->tb ? bd[j * SIDE + q] : bd[q * SIDE + j]);
        w += fabs(p->ta ? ad[q * SIDE + i] : ad[i * SIDE + q]) * b;
    }
    return (double)(2 * p->n + 2 * p->k + 6) * 0x1p-53 * w;
}

VN_TEST(freivalds, single_errors_are_seen) {
    vn_rng_t rng = vn_test_rng(t);
    for (int round = 0; round < 100; ++round) {
        const plan_t p = draw_plan(&rng);
        fill(&rng, round % 2);
        vn_own_dgemm(p.m, p.n, p.k, ad, SIDE, p.ta, bd, SIDE, p.tb, cd, SIDE, false);
        const int64_t i = (int64_t)vn_rng_below(&rng, (uint64_t)p.m), j = (int64_t)vn_rng_below(&rng, (uint64_t)p.n);
        cd[i * SIDE + j] += 2.5 * tolerance(&p, i);
        VN_ASSERT(t, !vn_plausible_dgemm(p.m, p.n, p.k, ad, SIDE, p.ta, bd, SIDE, p.tb, cd, SIDE));
        cd[i * SIDE + j] = NAN;
        VN_ASSERT(t, !vn_plausible_dgemm(p.m, p.n, p.k, ad, SIDE, p.ta, bd, SIDE, p.tb, cd, SIDE));
    }
}

/* Two equal errors of opposite effect hide when their signs agree: half of the pairs. 300 fair coins stay within 5 sigma = 44 of 150. */
VN_TEST(freivalds, opposite_errors_half) {
    vn_rng_t rng = vn_test_rng(t);
    int seen = 0;
    for (int round = 0; round < 300; ++round) {
        const plan_t p = {20, 64, 16, false, false};
        if (round == 0) fill(&rng, 0);
        vn_own_dgemm(p.m, p.n, p.k, ad, SIDE, false, bd, SIDE, false, cd, SIDE, false);
        const int64_t i = (int64_t)vn_rng_below(&rng, 20), j = (int64_t)vn_rng_below(&rng, 64),
                      k = (j + 1 + (int64_t)vn_rng_below(&rng, 63)) % 64;
        cd[i * SIDE + j] += 1;
        cd[i * SIDE + k] -= 1;
        seen += !vn_plausible_dgemm(p.m, p.n, p.k, ad, SIDE, false, bd, SIDE, false, cd, SIDE);
    }
    VN_ASSERT(t, seen > 106 && seen < 194);
}

VN_TEST(freivalds, no_statement_on_nonfinite_rows) {
    vn_rng_t rng = vn_test_rng(t);
    const plan_t p = {9, 12, 10, false, false};
    fill(&rng, 0);
    ad[3 * SIDE + 2] = INFINITY;
    ad[5 * SIDE + 1] = NAN;
    vn_own_dgemm(p.m, p.n, p.k, ad, SIDE, false, bd, SIDE, false, cd, SIDE, false);
    VN_ASSERT(t, vn_plausible_dgemm(p.m, p.n, p.k, ad, SIDE, false, bd, SIDE, false, cd, SIDE));
    cd[4 * SIDE] += 1; /* a row beside them is still judged */
    VN_ASSERT(t, !vn_plausible_dgemm(p.m, p.n, p.k, ad, SIDE, false, bd, SIDE, false, cd, SIDE));
}

/* Right for short sums, off by 2^-30 in one element for longer ones: the self-check at first use cannot see it. */
static void wrong_dgemm(const char *tb, const char *ta, const int *n, const int *m, const int *k, const double *alpha, const double *b,
                        const int *ldb, const double *a, const int *lda, const double *beta, double *c, const int *ldc, size_t l1,
                        size_t l2) {
    (void)alpha, (void)l1, (void)l2;
    vn_own_dgemm(*m, *n, *k, a, *lda, *ta == 'T', b, *ldb, *tb == 'T', c, *ldc, *beta != 0);
    if (*k > 50) c[1] *= 1 + 0x1p-20;
}
static void right_sgemm(const char *tb, const char *ta, const int *n, const int *m, const int *k, const float *alpha, const float *b,
                        const int *ldb, const float *a, const int *lda, const float *beta, float *c, const int *ldc, size_t l1, size_t l2) {
    (void)alpha, (void)l1, (void)l2;
    vn_own_sgemm(*m, *n, *k, a, *lda, *ta == 'T', b, *ldb, *tb == 'T', c, *ldc, *beta != 0);
}

VN_TEST(freivalds, wrong_library_is_dismissed) {
    vn_rng_t rng = vn_test_rng(t);
    char text[200];
    double want[SIDE * SIDE];
    vn_blas_substitute(wrong_dgemm, right_sgemm);
    fill(&rng, 0);
    vn_dgemm_tile(64, 64, 40, ad, SIDE, false, bd, SIDE, false, cd, SIDE, false);
    VN_ASSERT(t, vn_blas_is_library());
    for (int accumulate = 0; accumulate < 2; ++accumulate) {
        vn_own_dgemm(64, 64, 70, ad, SIDE, false, bd, SIDE, false, want, SIDE, false);
        for (int64_t i = 0; i < SIDE * SIDE; ++i) cd[i] = accumulate ? 1 : NAN;
        vn_blas_substitute(wrong_dgemm, right_sgemm);
        vn_dgemm_tile(64, 64, 70, ad, SIDE, false, bd, SIDE, false, cd, SIDE, accumulate);
        for (int64_t i = 0; i < 64; ++i)
            for (int64_t j = 0; j < 64; ++j) VN_ASSERT_DEQ(t, cd[i * SIDE + j], want[i * SIDE + j] + accumulate);
        VN_ASSERT(t, !vn_blas_is_library());
        vn_oracle_blas(text, sizeof text);
        VN_ASSERT_HAS(t, text, "own kernel");
        VN_ASSERT_HAS(t, text, "wrong dgemm of 64 x 64 x 70");
    }
    vn_blas_substitute(NULL, NULL);
    vn_oracle_blas(text, sizeof text);
    VN_ASSERT(t, !strstr(text, "wrong"));
}

VN_TEST_MAIN(VN_CASE(freivalds, correct_products_pass), VN_CASE(freivalds, single_errors_are_seen),
             VN_CASE(freivalds, opposite_errors_half), VN_CASE(freivalds, no_statement_on_nonfinite_rows),
             VN_CASE(freivalds, wrong_library_is_dismissed))
