/* Compensated sums, SUM-EXACT, variance of a rounded sum, and the row layout under them. */
#include <stdlib.h>
#include <string.h>

#include <mpfr.h>

#include "oracle/rows.h"
#include "oracle/simulate.h"
#include "oracle/sums.h"

enum { MAX_N = 5000 };

VN_TEST(sums, totals_beyond_f64) {
    vn_rng_t rng = vn_test_rng(t);
    double *x = vn_alloc(MAX_N, sizeof *x);
    mpfr_t s, d;
    mpfr_inits2(2300, s, d, (mpfr_ptr)0);
    for (int n = 1; n < MAX_N; n = n * 3 + 1)
        for (int kind = 0; kind < 3; ++kind) {
            for (int i = 0; i < n; ++i)
                x[i] = kind == 0   ? vn_rng_normal(&rng)
                       : kind == 1 ? vn_rng_normal(&rng) * exp(20 * vn_rng_normal(&rng))
                       : i % 2     ? -x[i - 1] * (1 + 0x1p-50)
                                   : vn_rng_normal(&rng) * 1e10;
            double abs = 0;
            mpfr_set_zero(s, 1);
            for (int i = 0; i < n; ++i) mpfr_add_d(s, s, x[i], MPFR_RNDN), abs += fabs(x[i]);
            const vn_sum2_t r = vn_sum2(x, n);
            VN_ASSERT_GE(t, r.abs, abs * (1 - n * 0x1p-53));
            VN_ASSERT_LE(t, r.abs, abs * (1 + n * 0x1p-51));
            mpfr_sub_d(d, s, r.hi, MPFR_RNDN);
            mpfr_sub_d(d, d, r.lo, MPFR_RNDN);
            VN_ASSERT_LE(t, fabs(mpfr_get_d(d, MPFR_RNDN)), (double)n * (double)n * 0x1p-104 * abs + 0x1p-53 * fabs(r.lo));
            VN_ASSERT_LE(t, fabs(r.lo), 0x1p-53 * fabs(r.hi) + 0x1p-1074);
            mpfr_div_ui(s, s, (unsigned)n, MPFR_RNDN);
            const vn_sum2_t m = vn_sum2_over(r, n);
            mpfr_sub_d(d, s, m.hi, MPFR_RNDN);
            mpfr_sub_d(d, d, m.lo, MPFR_RNDN);
            VN_ASSERT_LE(t, fabs(mpfr_get_d(d, MPFR_RNDN)), 0x1p-62 * fabs(m.hi) + (double)n * 0x1p-104 * abs + 0x1p-53 * fabs(r.lo));
        }
    mpfr_clears(s, d, (mpfr_ptr)0);
    vn_free(x);
}

/* Long sums are formed in parts: the same bits for any number of threads, and from a tensor the same sum as from a plane. */
VN_TEST(sums, long_sums_in_parts) {
    enum { N = 100003 };
    vn_rng_t rng = vn_test_rng(t);
    const int64_t dims[1] = {N};
    double *x = vn_alloc(N, sizeof *x);
    vn_tensor_t *from = NULL;
    mpfr_t s, d;
    mpfr_inits2(600, s, d, (mpfr_ptr)0);
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, dims, &from, NULL));
    mpfr_set_zero(s, 1);
    double abs = 0;
    for (int i = 0; i < N; ++i) {
        x[i] = i % 3 == 2 ? -x[i - 1] : (float)(vn_rng_normal(&rng) * exp2((int)vn_rng_below(&rng, 30)));
        vn_tensor_set_f64(from, i, x[i]);
        mpfr_add_d(s, s, x[i], MPFR_RNDN);
        abs += fabs(x[i]);
    }
    const int before = vn_threads_get();
    vn_sum2_t one[3], two[3];
    vn_threads_set(1);
    one[0] = vn_sum2(x, N), one[1] = vn_sum2_abs(x, N), one[2] = vn_sum2_squares(x, N, 1, 0);
    const vn_sum2_t of = vn_sum2_of(from, 0, N);
    vn_threads_set(3);
    two[0] = vn_sum2(x, N), two[1] = vn_sum2_abs(x, N), two[2] = vn_sum2_squares(x, N, 1, 0);
    vn_threads_set(before);
    VN_ASSERT(t, memcmp(one, two, sizeof one) == 0);
    const vn_sum2_t both[2] = {one[0], of};
    for (int k = 0; k < 2; ++k) {
        mpfr_sub_d(d, s, both[k].hi, MPFR_RNDN);
        mpfr_sub_d(d, d, both[k].lo, MPFR_RNDN);
        VN_ASSERT_LE(t, fabs(mpfr_get_d(d, MPFR_RNDA)), (double)N * (double)N * 0x1p-104 * abs + 0x1p-53 * fabs(both[k].lo));
        VN_ASSERT_GE(t, both[k].abs, abs * (1 - N * 0x1p-53));
        VN_ASSERT_LE(t, both[k].abs, abs * (1 + N * 0x1p-51));
    }
    mpfr_clears(s, d, (mpfr_ptr)0);
    vn_tensor_free(from);
    vn_free(x);
}

VN_TEST(sums, special_terms) {
    const double x[4] = {1, INFINITY, 2, 3}, y[3] = {INFINITY, -INFINITY, 1}, z[2] = {0x1.fp1023, 0x1.fp1023},
                 w[3] = {0x1.fp1023, 0x1.fp1023, -0x1.fp1023};
    VN_ASSERT_DEQ(t, vn_sum2(x, 4).hi, INFINITY);
    VN_ASSERT(t, isnan(vn_sum2(y, 3).hi));
    VN_ASSERT_DEQ(t, vn_sum2(z, 2).hi, INFINITY);
    VN_ASSERT_DEQ(t, vn_sum2(w, 3).hi, 0x1.fp1023); /* the order of f64 would overflow */
    VN_ASSERT_DEQ(t, vn_sum2(x, 0).hi, 0);
    VN_ASSERT_DEQ(t, vn_sum2_abs(y, 3).hi, INFINITY);
    VN_ASSERT_DEQ(t, vn_sum2_squares(x, 1, 3, 0).hi, 4);
}

VN_TEST(sums, exactness_is_a_proof) {
    vn_rng_t rng = vn_test_rng(t);
    int claimed = 0;
    for (int i = 0; i < 3000; ++i) {
        const vn_format_t f = i % 3 == 0 ? VN_FMT_F16 : i % 3 == 1 ? VN_FMT_BF16 : VN_FMT_F32;
        double x[40];
        const int n = 1 + (int)vn_rng_below(&rng, 40), scale = (int)vn_rng_below(&rng, 20) - 10, span = 1 << vn_rng_below(&rng, 12);
        for (int k = 0; k < n; ++k) x[k] = ldexp((double)vn_rng_below(&rng, (uint64_t)span) - span / 2, scale);
        const vn_sum2_t s = vn_sum2(x, n);
        if (!vn_sum_exact(x, n, s.abs, f)) continue;
        ++claimed;
        for (int order = 0; order < SIM_ORDERS; ++order) VN_ASSERT_DEQ(t, sim_sum(f, x, n, (sim_order_t)order), s.hi);
    }
    VN_ASSERT_GT(t, claimed, 500);
    const double fine[2] = {1, 0x1p-24};
    VN_ASSERT(t, !vn_sum_exact(fine, 2, 1 + 0x1p-24, VN_FMT_F32));
    const double fits[2] = {1, 0x1p-23};
    VN_ASSERT(t, !vn_sum_exact(fits, 2, 1 + 0x1p-23, VN_FMT_BF16));
    VN_ASSERT(t, vn_sum_exact(fits, 2, 1 + 0x1p-23, VN_FMT_F32));
}

/* Rows of every pattern of axes: read and write are inverse and address what the definition says. */
VN_TEST(sums, rows_of_any_axes) {
    const int64_t dims[4] = {2, 3, 1, 5};
    double x[30], block[30], back[30];
    for (int i = 0; i < 30; ++i) x[i] = i;
    for (int mask = 0; mask < 16; ++mask) {
        bool along[4];
        vn_rows_t s;
        for (int d = 0; d < 4; ++d) along[d] = mask >> d & 1;
        vn_rows_plan(4, dims, along, &s);
        VN_ASSERT_EQ(t, s.rows * s.n, 30);
        vn_rows_read(&s, x, 0, s.rows, block);
        int64_t at[4] = {0};
        for (int i = 0; i < 30; ++i) {
            int64_t rest = i, row = 0, k = 0;
            for (int d = 3; d >= 0; --d) at[d] = rest % dims[d], rest /= dims[d];
            for (int d = 0; d < 4; ++d) {
                if (along[d]) k = k * dims[d] + at[d];
                else row = row * dims[d] + at[d];
            }
            VN_ASSERT_DEQ(t, block[row * s.n + k], i);
        }
        memset(back, 0, sizeof back);
        vn_rows_write(&s, back, 0, s.rows, block);
        for (int i = 0; i < 30; ++i) VN_ASSERT_DEQ(t, back[i], i);
    }
}

VN_TEST(sums, variance_of_known_orders) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 64, R = 2000 };
    static const vn_format_t formats[] = {VN_FMT_F32, VN_FMT_F16};
    for (int f = 0; f < 2; ++f) {
        double z2 = 0;
        for (int i = 0; i < R; ++i) {
            double x[N], var[N] = {0};
            for (int k = 0; k < N; ++k) x[k] = sim(formats[f], vn_rng_normal(&rng));
            vn_prefix_variance(formats[f], x, N, var);
            const double e = sim_sum(formats[f], x, N, SIM_FORWARD) - vn_sum2(x, N).hi;
            z2 += e * e / var[N - 1];
        }
        VN_ASSERT_LE(t, fabs(sqrt(z2 / R) - 1), f ? 0.3 : 0.2); /* few lost bits make ties, half an ulp rather than uniform */
    }
}

VN_TEST_MAIN(VN_CASE(sums, totals_beyond_f64), VN_CASE(sums, long_sums_in_parts), VN_CASE(sums, special_terms),
             VN_CASE(sums, exactness_is_a_proof), VN_CASE(sums, rows_of_any_axes), VN_CASE(sums, variance_of_known_orders))
