/* Metrics of two f32 arrays against a plain loop in double, at lengths around the blocks and chunks of the fast pass. */
#include "judge/judge_case.h"

static double power_below(double x) { /* of two, at least the smallest normal number's */
    int e;
    frexp(x, &e);
    return x == 0 || e < -125 ? 0x1p-126 : ldexp(1, e - 1);
}

static void compare(vn_test_t *t, int64_t n, vn_rng_t *rng) {
    vn_tensor_t *a, *b;
    vn_metrics_t m, again;
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, &n, &a, NULL));
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, &n, &b, NULL));
    double e2 = 0, x2 = 0, y2 = 0, xy = 0, largest = 0, rel = 0, ulp = 0;
    int64_t unequal = 0, first = -1, worst = -1;
    for (int64_t i = 0; i < n; ++i) {
        const double scale = ldexp(1, (int)vn_rng_below(rng, 40) - 20), zero = (double)(vn_rng_below(rng, 9) != 0);
        const float x = (float)(zero * scale * vn_rng_normal(rng)), y = vn_rng_below(rng, 3) ? x : x + 0x1p-20f * (float)vn_rng_normal(rng);
        ((float *)a->data)[i] = x;
        ((float *)b->data)[i] = y;
        const double p = x, q = y;
        const float e = fabsf(x - y); /* as the metrics form it: one rounding */
        if (memcmp(&x, &y, sizeof x) != 0) {
            unequal++;
            if (first < 0) first = i;
        }
        if (e > largest) {
            largest = e;
            worst = i;
        }
        if (x != 0) rel = fmax(rel, (double)e / fabs(p));
        ulp = fmax(ulp, (double)e / power_below(p) * 0x1p23);
        e2 += (p - q) * (p - q), x2 += p * p, y2 += q * q, xy += p * q;
    }
    const int before = vn_threads_get();
    vn_threads_set(1);
    VN_ASSERT_OK(t, vn_metrics(a, b, &m, NULL));
    vn_threads_set(3);
    memset(&again, 0, sizeof again);
    VN_ASSERT_OK(t, vn_metrics(a, b, &again, NULL));
    vn_threads_set(before);
    VN_ASSERT(t, m.rms == again.rms && m.cosine == again.cosine && m.max_rel == again.max_rel && m.ulp_max == again.ulp_max);
    VN_ASSERT_EQ(t, m.count, n);
    VN_ASSERT_EQ(t, m.unequal, unequal);
    VN_ASSERT_EQ(t, m.first.index, first);
    VN_ASSERT_EQ(t, m.worst.index, worst);
    VN_ASSERT_DEQ(t, m.max_abs, largest);
    VN_ASSERT_LE(t, fabs(m.max_rel - rel), 0x1p-22 * rel); /* quotients of f32, and a record by a rounding may be missed */
    VN_ASSERT_DEQ(t, m.ulp_max, ulp);
    VN_ASSERT_LE(t, fabs(m.rms - sqrt(e2 / (double)n)), 1e-12 * sqrt(e2 / (double)n));
    VN_ASSERT_LE(t, fabs(m.rms_relative - sqrt(e2 / x2)), 1e-12 * sqrt(e2 / x2));
    VN_ASSERT_LE(t, fabs(m.cosine - xy / sqrt(x2) / sqrt(y2)), 1e-12);
    ((float *)b->data)[n - 1] = NAN; /* the general pass takes over */
    VN_ASSERT_OK(t, vn_metrics(a, b, &m, NULL));
    VN_ASSERT_EQ(t, m.nan_b, 1);
    vn_tensor_free(a);
    vn_tensor_free(b);
}

VN_TEST(metrics, those_of_a_plain_loop) {
    static const int64_t lengths[] = {1, 15, 1023, 1024, 1025, 40000};
    vn_rng_t rng = vn_test_rng(t);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; ++l) compare(t, lengths[l], &rng);
}

VN_TEST_MAIN(VN_CASE(metrics, those_of_a_plain_loop))
