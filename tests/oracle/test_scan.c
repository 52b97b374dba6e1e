/* Claims SCAN-1, SCAN-2: prefixes in sequential, blocked and subtractive forms. */
#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { N = 100 };

static one_node_t scan(vn_test_t *t, const char *op, int64_t n, const double *x, bool exclusive, bool reverse, const char *contract) {
    one_node_t c = {.op = op,
                    .version = 26,
                    .n_in = 2,
                    .contract = contract,
                    .want = VN_WANT_VARIANCE,
                    .attrs = {{"exclusive", ONE_INT, exclusive, NULL}, {"reverse", ONE_INT, reverse, NULL}}};
    c.in[0] = one_vector(t, VN_F32, n, x);
    c.in[1] = one_scalar(t, VN_I64, 0);
    return c;
}

VN_TEST(scan, values_and_order) {
    const double x[3] = {1, 2, 3}, sums[4][3] = {{1, 3, 6}, {6, 5, 3}, {0, 1, 3}, {5, 3, 0}},
                 products[4][3] = {{1, 2, 6}, {6, 6, 3}, {1, 1, 2}, {6, 3, 1}};
    for (int k = 0; k < 4; ++k)
        for (int p = 0; p < 2; ++p) {
            one_node_t c = scan(t, p ? "CumProd" : "CumSum", 3, x, k / 2, k % 2, "portable");
            one_run(t, &c);
            for (int i = 0; i < 3; ++i) VN_ASSERT_DEQ(t, c.out[0].value[i], p ? products[k][i] : sums[k][i]);
            if (!p)
                for (int i = 0; i < 3; ++i) VN_ASSERT_DEQ(t, c.out[0].bound[i], 0); /* small integers: no order rounds */
            one_free(&c);
        }
}

VN_TEST(scan, bounds_hold_and_bite) {
    vn_rng_t rng = vn_test_rng(t);
    double worst = 0;
    for (int i = 0; i < 200; ++i) {
        double x[N], blocked[N], s = 0, carry = 0;
        for (int k = 0; k < N; ++k) x[k] = sim(VN_FMT_F32, vn_rng_normal(&rng) * (i % 2 ? 1 : exp(3 * vn_rng_normal(&rng))));
        one_node_t c = scan(t, "CumSum", N, x, false, false, "operand=f32,accumulator=f32");
        one_run(t, &c);
        for (int k = 0; k < N; ++k) {
            s = sim(VN_FMT_F32, s + x[k]);
            if (k % 16 == 0) carry = k ? blocked[k - 1] : 0;
            blocked[k] = sim(VN_FMT_F32, carry + sim_sum(VN_FMT_F32, x + k / 16 * 16, k % 16 + 1, SIM_FORWARD));
            worst = fmax(worst, fmax(sim_ratio(s, c.out[0].value[k], c.out[0].bound[k]),
                                     sim_ratio(blocked[k], c.out[0].value[k], c.out[0].bound[k])));
        }
        double exact = 0;
        for (int k = 0; k < N; ++k) exact += x[k];
        VN_ASSERT_LE(t, fabs(exact - c.out[0].value[N - 1]), 1e-9);
        /* a carry left out */
        const double lost = sim_sum(VN_FMT_F32, x + 96, 4, SIM_FORWARD);
        if (i % 2 && fabs(lost - c.out[0].value[N - 1]) > 0.01) VN_ASSERT_GT(t, fabs(lost - c.out[0].value[N - 1]), c.out[0].bound[N - 1]);
        one_free(&c);
    }
    VN_ASSERT_LE(t, worst, 1);
    VN_ASSERT_GE(t, worst, 0.9); /* the first prefixes attain it */
}

VN_TEST(scan, subtraction_is_the_second_tier) {
    vn_rng_t rng = vn_test_rng(t);
    int outside = 0;
    double worst = 0;
    for (int i = 0; i < 100; ++i) {
        double x[N], total, s = 0;
        for (int k = 0; k < N; ++k) x[k] = sim(VN_FMT_F32, vn_rng_normal(&rng) * (k > 90 ? 1e-3 : 1));
        one_node_t c = scan(t, "CumSum", N, x, false, true, "portable");
        one_run(t, &c);
        VN_ASSERT_STR(t, c.out[0].wide_note, "prefix-by-subtraction");
        total = sim_sum(VN_FMT_F32, x, N, SIM_FORWARD);
        for (int k = 0; k < N; ++k) {
            const double y = sim(VN_FMT_F32, total - s); /* reverse prefix as total minus what stands before */
            outside += sim_ratio(y, c.out[0].value[k], c.out[0].bound[k]) > 1;
            worst = fmax(worst, sim_ratio(y, c.out[0].value[k], c.out[0].wide[k]));
            s = sim(VN_FMT_F32, s + x[k]);
        }
        one_free(&c);
    }
    VN_ASSERT_GT(t, outside, 0);
    VN_ASSERT_LE(t, worst, 1);
}

VN_TEST(scan, variance_of_prefixes) {
    vn_rng_t rng = vn_test_rng(t);
    double z2 = 0;
    int count = 0;
    for (int i = 0; i < 200; ++i) {
        double x[N], s = 0;
        for (int k = 0; k < N; ++k) x[k] = sim(VN_FMT_F32, vn_rng_normal(&rng));
        one_node_t c = scan(t, "CumSum", N, x, false, false, "portable");
        one_run(t, &c);
        for (int k = 0; k < N; ++k) {
            s = sim(VN_FMT_F32, s + x[k]);
            if (c.out[0].var[k] > 0) z2 += (s - c.out[0].value[k]) * (s - c.out[0].value[k]) / c.out[0].var[k], ++count;
        }
        one_free(&c);
    }
    VN_ASSERT_LE(t, sqrt(z2 / count), 1.15);
    VN_ASSERT_GE(t, sqrt(z2 / count), 0.85);
}

VN_TEST_MAIN(VN_CASE(scan, values_and_order), VN_CASE(scan, bounds_hold_and_bite), VN_CASE(scan, subtraction_is_the_second_tier),
             VN_CASE(scan, variance_of_prefixes))
