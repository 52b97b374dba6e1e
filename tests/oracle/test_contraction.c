/* test_contraction.c -- claims CONTRACT-1 to CONTRACT-9 and 14: MatMul, Gemm, Einsum against exact sums and simulated executions. */
#include "sum_case.h"

enum { M = 3, N = 4, MAX_K = 300 };

/* ---- CONTRACT-1: true, tight and sharp ---- */

typedef struct tally {
    double worst; /* largest error / bound */
    int64_t outside_after_fault, faults;
} tally_t;

/* All orders, fused or not, of one product in accumulator f32 or f64; results stored to the tensor's type. */
static void check_orders(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type, sc_data_t kind, int64_t k, tally_t *tally) {
    static double a[M * MAX_K], b[MAX_K * N], col[MAX_K], row[MAX_K];
    sc_t c;
    const vn_format_t acc = type == VN_F64 ? VN_FMT_F64 : VN_FMT_F32, store = vn_format_of(type);
    sc_new(t, &c, "", "MatMul", 13, "portable");
    sc_fill(rng, kind, a, M * k);
    sc_fill(rng, kind, b, k * N);
    sc_in(t, &c, type, SC_DIMS(M, k), a);
    sc_in(t, &c, type, SC_DIMS(k, N), b);
    vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
    VN_ASSERT_EQ(t, r->terms, k);
    mpfr_t exact;
    mpfr_init2(exact, 2500);
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            const int at = i * N + j;
            double magnitude = 0;
            for (int64_t p = 0; p < k; ++p) {
                row[p] = sc_get(&c, 0, i * k + p);
                col[p] = sc_get(&c, 1, p * N + j);
                magnitude += fabs(row[p] * col[p]);
            }
            sc_exact(exact, row, 1, col, 1, k, 0);
            VN_ASSERT_LE(t, sc_distance(exact, r->value[at], r->lo ? r->lo[at] : 0), r->own[at]); /* CONTRACT-8 */
            for (int order = 0; order < SC_ORDERS; ++order)
                for (int fused = 0; fused < 2; ++fused) {
                    const double s = sc_dot(rng, acc, row, col, k, (sc_order_t)order, fused, false, 0, false);
                    const double stored = sc_round(store, s, false), e = sc_distance(exact, stored, 0);
                    VN_ASSERT_LE(t, e, r->bound[at] + r->own[at]); /* true */
                    if (r->bound[at] > 0) tally->worst = fmax(tally->worst, e / r->bound[at]);
                }
            const double fault =
                r->value[at] + magnitude * (store == VN_FMT_BF16 ? 0x1p-5 : 0x1p-8); /* sharp: one wrong term of 1/256 of the sum */
            if (magnitude == 0) continue;
            tally->faults++;
            tally->outside_after_fault += fabs(sc_round(store, fault, false) - r->value[at]) > r->bound[at];
        }
    mpfr_clear(exact);
    sc_free(&c);
}

VN_TEST(contraction, bound_true_tight_and_sharp) {
    static const vn_dtype_t types[] = {VN_F32, VN_F16, VN_BF16, VN_F64};
    static const int64_t depths[] = {1, 2, 3, 5, 17, 64, 300};
    vn_rng_t rng = vn_test_rng(t);
    for (int ty = 0; ty < 4; ++ty) {
        tally_t tally = {0};
        for (int kind = 0; kind < SC_DATA; ++kind)
            for (int d = 0; d < 7; ++d) {
                if (types[ty] == VN_F16 && kind == SC_WIDE) continue; /* overflows the type */
                check_orders(t, &rng, types[ty], (sc_data_t)kind, depths[d], &tally);
            }
        VN_ASSERT_GT(t, tally.worst, 0.3); /* tight */
        VN_ASSERT_EQ(t, tally.outside_after_fault, tally.faults);
    }
}

/* ---- CONTRACT-2: alpha, beta, C ---- */

VN_TEST(contraction, gemm_forms_lie_inside) {
    enum { K = 40 };
    static const int64_t c_dims[][3] = {{M, N, -1}, {N, -1}, {1, N, -1}, {M, 1, -1}, {1, -1}};
    static double a[M * K], b[K * N], cc[M * N], row[K], scaled[K], col[K];
    vn_rng_t rng = vn_test_rng(t);
    for (int run = 0; run < 40; ++run) {
        sc_t c;
        const float alpha = run % 3 ? 0.3f : 1, beta = run % 2 ? -1.7f : 1;
        const bool ta = run & 4, tb = run & 8;
        const int shape = run % 5;
        sc_new(t, &c, "", "Gemm", 13, "portable");
        sc_fill(&rng, SC_NORMAL, a, M * K);
        sc_fill(&rng, SC_NORMAL, b, K * N);
        sc_fill(&rng, SC_NORMAL, cc, M * N);
        if (ta) sc_in(t, &c, VN_F32, SC_DIMS(K, M), a);
        else sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
        if (tb) sc_in(t, &c, VN_F32, SC_DIMS(N, K), b);
        else sc_in(t, &c, VN_F32, SC_DIMS(K, N), b);
        sc_in(t, &c, VN_F32, c_dims[shape], cc);
        sc_float(&c, "alpha", alpha);
        sc_float(&c, "beta", beta);
        sc_int(&c, "transA", ta);
        sc_int(&c, "transB", tb);
        vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < N; ++j) {
                const int ci = shape == 0 ? i * N + j : shape == 1 || shape == 2 ? j : shape == 3 ? i : 0;
                const double bias = sc_get(&c, 2, ci), y = r->value[i * N + j], bound = r->bound[i * N + j];
                double exact = (double)beta * bias, magnitude = fabs(exact);
                for (int p = 0; p < K; ++p) {
                    row[p] = sc_get(&c, 0, ta ? p * M + i : i * K + p);
                    col[p] = sc_get(&c, 1, tb ? j * K + p : p * N + j);
                    scaled[p] = (double)((float)row[p] * alpha);
                    exact += (double)alpha * row[p] * col[p];
                    magnitude += fabs((double)alpha * row[p] * col[p]);
                }
                VN_ASSERT_LE(t, fabs(exact - y), 0x1p-45 * magnitude);
                VN_ASSERT_LE(t, bound, (K + 3) * 0x1p-24 * magnitude * 1.001); /* tight */
                const float part = (float)((double)beta * bias);
                for (int order = 0; order < SC_ORDERS; ++order) {
                    const double s = sc_dot(&rng, VN_FMT_F32, row, col, K, (sc_order_t)order, true, false, 0, false);
                    VN_ASSERT_LE(t, fabs((double)((float)s * alpha + part) - y), bound); /* scaled at the end */
                    VN_ASSERT_LE(t, fabs(sc_dot(&rng, VN_FMT_F32, scaled, col, K, (sc_order_t)order, false, false, (double)part, true) - y),
                                 bound); /* scaled first, C first */
                }
            }
        sc_free(&c);
    }
}

/* CONTRACT-15: a separate bias kernel behind a product that was stored narrow */
VN_TEST(contraction, narrow_sum_before_the_bias) {
    enum { K = 50 };
    static double a[M * K], b[K * N], row[K], col[K];
    const double bias[1] = {3.3};
    vn_rng_t rng = vn_test_rng(t);
    bool outside = false;
    for (int run = 0; run < 40; ++run) {
        const bool narrow = run % 2;
        sc_t c;
        sc_new(t, &c, "", "Gemm", 13,
               narrow ? "operand=f16,accumulator=f32,result=f16,intermediate=f16" : "operand=f16,accumulator=f32,result=f16");
        sc_fill(&rng, SC_NORMAL, a, M * K);
        sc_fill(&rng, SC_NORMAL, b, K * N);
        sc_in(t, &c, VN_F16, SC_DIMS(M, K), a);
        sc_in(t, &c, VN_F16, SC_DIMS(K, N), b);
        sc_in(t, &c, VN_F16, SC_DIMS(1), bias);
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
        for (int i = 0; i < M * N; ++i) {
            for (int p = 0; p < K; ++p) {
                row[p] = sc_get(&c, 0, i / N * K + p);
                col[p] = sc_get(&c, 1, p * N + i % N);
            }
            const double s = sc_round(VN_FMT_F16, sc_dot(&rng, VN_FMT_F32, row, col, K, SC_SEQ, true, false, 0, false), false);
            const double e = fabs(sc_round(VN_FMT_F16, s + sc_get(&c, 2, 0), false) - r->value[i]);
            if (narrow) VN_ASSERT_LE(t, e, r->bound[i]);
            outside = outside || (!narrow && e > r->bound[i]);
        }
        sc_free(&c);
    }
    VN_ASSERT(t, outside); /* without the permission some result betrays the second store */
}

/* ---- CONTRACT-3: integers and small grids must be equal ---- */

VN_TEST(contraction, small_grids_demand_equality) {
    enum { K = 100 };
    static double a[M * K], b[K * N];
    vn_rng_t rng = vn_test_rng(t);
    for (int run = 0; run < 4; ++run) {
        sc_t c;
        const double unit = run % 2 ? 0x1p-9 : 1;
        for (int i = 0; i < M * K; ++i) a[i] = unit * ((double)vn_rng_below(&rng, 61) - 30);
        for (int i = 0; i < K * N; ++i) b[i] = (double)vn_rng_below(&rng, 61) - 30;
        if (run == 3) b[5] = 0x1p18; /* sums can pass 2^24 units in one column only */
        sc_new(t, &c, "", "MatMul", 13, "portable");
        sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
        sc_in(t, &c, VN_F32, SC_DIMS(K, N), b);
        vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
        for (int i = 0; i < M * N; ++i) {
            const bool heavy = run == 3 && i % N == 1 && fabs(a[i / N * K + 1]) * 0x1p18 >= unit * 0x1p24;
            if (heavy) {
                VN_ASSERT_GT(t, r->bound[i], 0);
            } else if (run != 3 || i % N != 1) {
                VN_ASSERT_DEQ(t, r->bound[i], 0);
                VN_ASSERT_DEQ(t, r->var[i], 0);
                VN_ASSERT_DEQ(t, r->own[i], 0);
            }
        }
        sc_free(&c);
    }
    sc_t c; /* f16 accumulation has 11 bits only */
    for (int i = 0; i < M * K; ++i) a[i] = (double)(i % 3);
    for (int i = 0; i < K * N; ++i) b[i] = i / N < 50 ? 1 : 60;
    sc_new(t, &c, "", "MatMul", 13, "operand=f16,accumulator=f16,result=f16");
    sc_in(t, &c, VN_F16, SC_DIMS(M, K), a);
    sc_in(t, &c, VN_F16, SC_DIMS(K, N), b);
    vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_GT(t, r->bound[0], 0); /* about 3000 units, more than 2^11 */
    sc_free(&c);
    sc_new(t, &c, "", "MatMul", 13, "portable"); /* a row of zeros */
    for (int i = 0; i < M * K; ++i) a[i] = i < K ? 0 : 0.1 * i;
    for (int i = 0; i < K * N; ++i) b[i] = 0.37 * i;
    sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
    sc_in(t, &c, VN_F32, SC_DIMS(K, N), b);
    r = sc_run(t, &c, VN_WANT_BOUND);
    for (int j = 0; j < N; ++j) VN_ASSERT_DEQ(t, r->bound[j], 0);
    VN_ASSERT_GT(t, r->bound[N], 0);
    sc_free(&c);
}

/* ---- hypotheses: operands of a narrower format ---- */

VN_TEST(contraction, operands_are_rounded_as_the_contract_says) {
    enum { K = 33 };
    static double a[M * K], b[K * N];
    vn_rng_t rng = vn_test_rng(t);
    for (int mask = 0; mask < 4; ++mask) {
        sc_t c;
        sc_new(t, &c, "", "Gemm", 13, "operand=bf16,accumulator=f32,result=f32");
        c.contract.operand_mask = mask;
        sc_fill(&rng, SC_NORMAL, a, M * K);
        sc_fill(&rng, SC_NORMAL, b, K * N);
        const double bias[1] = {0.1};
        sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
        sc_in(t, &c, VN_F32, SC_DIMS(K, N), b);
        sc_in(t, &c, VN_F32, SC_DIMS(1), bias);
        vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        for (int i = 0; i < M * N; ++i) {
            double y = sc_get(&c, 2, 0), magnitude = y; /* the bias is never rounded */
            for (int p = 0; p < K; ++p) {
                double x = sc_get(&c, 0, i / N * K + p), w = sc_get(&c, 1, p * N + i % N);
                if (mask == 0 || mask & 1) x = vn_round_to(VN_FMT_BF16, x, VN_RNE, false);
                if (mask == 0 || mask & 2) w = vn_round_to(VN_FMT_BF16, w, VN_RNE, false);
                y += x * w;
                magnitude += fabs(x * w);
            }
            VN_ASSERT_LE(t, fabs(y - r->value[i]), 1e-13);
            /* both in bf16: products are exact, one rounding less: K - 1 additions and the bias; f32 times bf16 rounds too */
            VN_ASSERT_LE(t, r->bound[i], (K + (mask == 0 || mask == 3 ? 0 : 1)) * 0x1p-24 * magnitude * 1.0001);
            VN_ASSERT_GE(t, r->bound[i], (K + (mask == 0 || mask == 3 ? 0 : 1)) * 0x1p-24 * magnitude * 0.9999);
        }
        sc_free(&c);
    }
}

/* ---- special values ---- */

VN_TEST(contraction, nan_and_infinity_follow_ieee) {
    static double a[4 * 80], b[80 * 70];
    const int k = 80, n = 70;
    vn_rng_t rng = vn_test_rng(t);
    sc_fill(&rng, SC_POSITIVE, a, 4 * k);
    sc_fill(&rng, SC_POSITIVE, b, k * n);
    a[0 * k + 3] = NAN;
    a[1 * k + 5] = INFINITY;
    a[2 * k + 6] = INFINITY;
    a[2 * k + 7] = -INFINITY;
    for (int j = 0; j < n; ++j) b[5 * n + j] = j == 4 ? 0 : b[5 * n + j]; /* Inf times 0 */
    b[9 * n + 8] = -INFINITY;
    sc_t c;
    sc_new(t, &c, "", "MatMul", 13, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(4, k), a);
    sc_in(t, &c, VN_F32, SC_DIMS(k, n), b);
    vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
    for (int j = 0; j < n; ++j) {
        VN_ASSERT(t, isnan(r->value[j]));
        VN_ASSERT(t, j == 4 || j == 8 ? isnan(r->value[n + j]) : r->value[n + j] == INFINITY);
        VN_ASSERT(t, isnan(r->value[2 * n + j]));
        VN_ASSERT(t, j == 8 ? r->value[3 * n + j] == -INFINITY : isfinite(r->value[3 * n + j]));
        VN_ASSERT(t, (r->flags[j] & (VN_EL_NAN_OK | VN_EL_INF_OK)) == 0);
        if (j != 8) VN_ASSERT(t, r->bound[3 * n + j] > 0 && isfinite(r->bound[3 * n + j]));
    }
    sc_free(&c);
}

VN_TEST(contraction, overflow_is_explainable_only_where_it_can_happen) {
    const double a[] = {2e19, 1, 3e19, 3e19}, b[] = {2e19, 2e19, -2e19, 1}; /* [2,2] [2,2] */
    sc_t c;
    sc_new(t, &c, "", "MatMul", 13, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 2), a);
    sc_in(t, &c, VN_F32, SC_DIMS(2, 2), b);
    vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT(t, r->flags[0] & VN_EL_INF_OK); /* 4e38 */
    VN_ASSERT(t, r->flags[2] & VN_EL_INF_OK); /* 6e38 - 6e38: finite, but a partial sum is not */
    VN_ASSERT(t, r->flags[2] & VN_EL_NAN_OK);
    VN_ASSERT_DEQ(t, r->value[2], 0);
    sc_free(&c);
    sc_new(t, &c, "", "MatMul", 13, "operand=f16,accumulator=f16,result=f16");
    const double x[] = {300, 1, 1, 1}, y[] = {300, 1, -300, 1};
    sc_in(t, &c, VN_F16, SC_DIMS(2, 2), x);
    sc_in(t, &c, VN_F16, SC_DIMS(2, 2), y);
    r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT(t, r->flags[0] & VN_EL_INF_OK);
    VN_ASSERT(t, !(r->flags[3] & VN_EL_INF_OK));
    sc_free(&c);
}

/* ---- CONTRACT-4: subnormals, flushed results and operands ---- */

VN_TEST(contraction, flushing_needs_the_contract) {
    enum { K = 24 };
    static double a[K], b[K];
    vn_rng_t rng = vn_test_rng(t);
    for (int run = 0; run < 30; ++run) {
        const bool daz = run & 1, tiny_operands = run & 2;
        for (int i = 0; i < K; ++i) {
            a[i] = vn_rng_normal(&rng) * (tiny_operands ? 1e-39 : 1e-20);
            b[i] = vn_rng_normal(&rng) * (tiny_operands ? 1e20 : 1e-19);
        }
        sc_t c;
        sc_new(t, &c, "", "MatMul", 13, "operand=f32,accumulator=f32,result=f32");
        sc_in(t, &c, VN_F32, SC_DIMS(1, K), a);
        sc_in(t, &c, VN_F32, SC_DIMS(K, 1), b);
        double x[K], y[K];
        for (int i = 0; i < K; ++i) {
            x[i] = sc_get(&c, 0, i);
            y[i] = sc_get(&c, 1, i);
            if (daz && fabs(x[i]) < 0x1p-126) x[i] = 0;
        }
        vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
        const double plain = r->bound[0];
        double e[SC_ORDERS];
        for (int order = 0; order < SC_ORDERS; ++order)
            e[order] = fabs(sc_dot(&rng, VN_FMT_F32, x, y, K, (sc_order_t)order, order & 1, true, 0, false) - r->value[0]);
        for (int order = 0; order < SC_ORDERS; ++order) /* gradual underflow is inside without any permission */
            if (!tiny_operands)
                VN_ASSERT_LE(t, fabs(sc_dot(&rng, VN_FMT_F32, x, y, K, (sc_order_t)order, order & 1, false, 0, false) - r->value[0]),
                             plain);
        if (tiny_operands && daz) VN_ASSERT_GT(t, e[0], plain); /* all operands lost: not this contract */
        sc_clear(&c);
        c.contract.ftz = true;
        c.contract.daz = true;
        r = sc_run(t, &c, VN_WANT_BOUND);
        for (int order = 0; order < SC_ORDERS; ++order) VN_ASSERT_LE(t, e[order], r->bound[0]);
        if (!tiny_operands) VN_ASSERT_LE(t, r->bound[0], 200 * 0x1p-126); /* still tight: one smallest normal per node */
        sc_free(&c);
    }
}

/* ---- CONTRACT-5 and 6: variance ---- */

/* rms of error over predicted deviation of simulated executions, over all elements */
static double rms_ratio(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type, int64_t k, const double *a, const double *b, sc_order_t order) {
    enum { ROWS = 12, COLS = 12 };
    sc_t c;
    double sum = 0, col[MAX_K], row[MAX_K];
    sc_new(t, &c, "", "MatMul", 13, "operand=f32,accumulator=f32,result=f32");
    sc_in(t, &c, type, SC_DIMS(ROWS, k), a);
    sc_in(t, &c, type, SC_DIMS(k, COLS), b);
    vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLS; ++j) {
            for (int64_t p = 0; p < k; ++p) {
                row[p] = sc_get(&c, 0, i * k + p);
                col[p] = sc_get(&c, 1, p * COLS + j);
            }
            const double e = sc_dot(rng, VN_FMT_F32, row, col, k, order, order == SC_RANDOM, false, 0, false) - r->value[i * COLS + j];
            VN_ASSERT_GT(t, r->var[i * COLS + j], 0);
            sum += e * e / r->var[i * COLS + j];
        }
    sc_free(&c);
    return sqrt(sum / (ROWS * COLS));
}

VN_TEST(contraction, variance_predicts_random_and_sequential_sums) {
    enum { K = 256 };
    static double a[12 * K], b[K * 12];
    vn_rng_t rng = vn_test_rng(t);
    for (int kind = SC_NORMAL; kind <= SC_POSITIVE; ++kind) {
        sc_fill(&rng, (sc_data_t)kind, a, 12 * K);
        sc_fill(&rng, (sc_data_t)kind, b, K * 12);
        for (int order = 0; order < SC_ORDERS; ++order) {
            const double ratio = rms_ratio(t, &rng, VN_F32, K, a, b, (sc_order_t)order);
            VN_ASSERT_LT(t, ratio, 1.6);
            if (order == SC_RANDOM || order == SC_SEQ) VN_ASSERT_GT(t, ratio, 0.4);
        }
    }
    /* sorted terms: partial sums of a sequential chain are far larger than those of a random order */
    for (int i = 0; i < 12; ++i)
        for (int k = 0; k < K; ++k) {
            a[i * K + k] = k - K / 2 + 0.5 + vn_rng_uniform(&rng);
            b[k * 12 + i] = 1 + 0.01 * vn_rng_uniform(&rng);
        }
    VN_ASSERT_LT(t, rms_ratio(t, &rng, VN_F32, K, a, b, SC_SEQ), 1.6); /* 4 and more without the sample */
    VN_ASSERT_LT(t, rms_ratio(t, &rng, VN_F32, K, a, b, SC_REV), 1.6);
}

/* ---- CONTRACT-7: uncertain operands ---- */

VN_TEST(contraction, uncertain_operands_widen_the_bound) {
    enum { K = 20 };
    static double a[M * K], b[K * N], da[M * K], db[K * N], row[K], col[K];
    vn_rng_t rng = vn_test_rng(t);
    sc_t c;
    sc_new(t, &c, "", "MatMul", 13, "portable");
    sc_fill(&rng, SC_NORMAL, a, M * K);
    sc_fill(&rng, SC_NORMAL, b, K * N);
    for (int i = 0; i < M * K; ++i) da[i] = fabs(a[i]) * 0x1p-10;
    for (int i = 0; i < K * N; ++i) db[i] = 0x1p-12;
    sc_in(t, &c, VN_F32, SC_DIMS(M, K), a);
    sc_in(t, &c, VN_F32, SC_DIMS(K, N), b);
    const vn_op_t *row_op = vn_registry_find("", "MatMul", 13);
    const vn_contract_t contract = vn_contract_resolve(&c.contract, VN_F32);
    vn_arg_t in[2] = {{.t = c.in[0]->tensor, .err = da}, {.t = c.in[1]->tensor, .err = db, .var = db}};
    vn_eval_t e = {.model = &c.model,
                   .node = &c.node,
                   .version = 13,
                   .contract = &contract,
                   .want = VN_WANT_VARIANCE,
                   .n_in = 2,
                   .n_out = 1,
                   .in = in,
                   .out = c.out,
                   .err = &c.err};
    VN_ASSERT(t, row_op && (row_op->flags & VN_OP_PROPAGATES));
    VN_ASSERT_OK_ERR(t, row_op->eval(&e), c.err);
    const vn_ref_t *r = &c.out[0];
    double worst = 0;
    for (int trial = 0; trial < 50; ++trial)
        for (int i = 0; i < M * N; ++i) {
            for (int p = 0; p < K; ++p) { /* at the ends of the intervals, signs chosen to add up in half of the trials */
                const double x = sc_get(&c, 0, i / N * K + p), w = sc_get(&c, 1, p * N + i % N);
                const double sx = trial % 2 ? (w > 0 ? 1 : -1) : (vn_rng_below(&rng, 2) ? 1 : -1),
                             sw = trial % 2 ? (x > 0 ? 1 : -1) : (vn_rng_below(&rng, 2) ? 1 : -1);
                row[p] = x + sx * da[i / N * K + p];
                col[p] = w + sw * db[p * N + i % N];
            }
            double s = 0;
            for (int p = 0; p < K; ++p) s += row[p] * col[p];
            VN_ASSERT_LE(t, fabs(s - r->value[i]), r->bound[i]);
            worst = fmax(worst, fabs(s - r->value[i]) / r->bound[i]);
        }
    VN_ASSERT_GT(t, worst, 0.9); /* tight: the ends are nearly reached */
    VN_ASSERT_GT(t, r->var[0], 0);
    vn_free(in[0].value);
    vn_free(in[1].value);
    sc_free(&c);
}

/* ---- CONTRACT-9: fused activations ---- */

VN_TEST(contraction, fused_activation_carries_the_bound) {
    static const char *const names[] = {"Relu", "LeakyRelu", "Tanh", "Sigmoid", "HardSigmoid", "Clip"};
    enum { K = 30 };
    static double a[M * K], b[K * N];
    vn_rng_t rng = vn_test_rng(t);
    for (int f = 0; f < 6; ++f) {
        sc_t c, plain;
        sc_fill(&rng, SC_NORMAL, a, M * K);
        sc_fill(&rng, SC_NORMAL, b, K * N);
        sc_new(t, &plain, "", "Gemm", 13, "portable");
        sc_new(t, &c, "com.microsoft", "FusedGemm", 1, "portable");
        sc_text(&c, "activation", names[f]);
        if (f == 5) sc_float(&c, "activation_alpha", -1), sc_float(&c, "activation_beta", 2);
        for (int x = 0; x < 2; ++x) {
            sc_in(t, x ? &c : &plain, VN_F32, SC_DIMS(M, K), a);
            sc_in(t, x ? &c : &plain, VN_F32, SC_DIMS(K, N), b);
        }
        const vn_ref_t *p = sc_run(t, &plain, VN_WANT_BOUND), *r = sc_run(t, &c, VN_WANT_VARIANCE);
        for (int i = 0; i < M * N; ++i) {
            const double v = p->value[i], e = p->bound[i], fifth = (double)0.2f;
            const double fn[][3] = {
                {fmax(v, 0), fmax(v + e, 0), fmax(v - e, 0)},
                {v < 0 ? (double)0.01f * v : v, v + e < 0 ? (double)0.01f * (v + e) : v + e, v - e < 0 ? (double)0.01f * (v - e) : v - e},
                {tanh(v), tanh(v + e), tanh(v - e)},
                {1 / (1 + exp(-v)), 1 / (1 + exp(-v - e)), 1 / (1 + exp(-v + e))},
                {fmin(fmax(fifth * v + 0.5, 0), 1), fmin(fmax(fifth * (v + e) + 0.5, 0), 1), fmin(fmax(fifth * (v - e) + 0.5, 0), 1)},
                {fmin(fmax(v, -1), 2), fmin(fmax(v + e, -1), 2), fmin(fmax(v - e, -1), 2)}};
            VN_ASSERT_LE(t, fabs(r->value[i] - fn[f][0]), 0x1p-50 * (1 + fabs(v)));
            VN_ASSERT_LE(t, fabs((double)(float)fn[f][1] - r->value[i]),
                         r->bound[i] + 0x1p-23 * fabs(v)); /* the end itself is stored in f32 */
            VN_ASSERT_LE(t, fabs((double)(float)fn[f][2] - r->value[i]), r->bound[i] + 0x1p-23 * fabs(v));
            VN_ASSERT_LE(t, r->bound[i], e + 20 * 0x1p-23);
        }
        sc_free(&c);
        sc_free(&plain);
    }
}

/* ---- shapes ---- */

VN_TEST(contraction, batches_broadcast_like_numpy) {
    static double a[2 * 3 * 4], b[5 * 4 * 2];
    sc_t c;
    for (int i = 0; i < 24; ++i) a[i] = i - 11;
    for (int i = 0; i < 40; ++i) b[i] = 2 * i - 7;
    sc_new(t, &c, "", "MatMul", 9, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 1, 3, 4), a);
    sc_in(t, &c, VN_F32, SC_DIMS(5, 4, 2), b);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->rank, 4);
    VN_ASSERT_EQ(t, r->count, 2 * 5 * 3 * 2);
    for (int x = 0; x < 2; ++x)
        for (int y = 0; y < 5; ++y)
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 2; ++j) {
                    double s = 0;
                    for (int k = 0; k < 4; ++k) s += a[(x * 3 + i) * 4 + k] * b[(y * 4 + k) * 2 + j];
                    VN_ASSERT_DEQ(t, r->value[((x * 5 + y) * 3 + i) * 2 + j], s);
                }
    sc_free(&c);
    sc_new(t, &c, "", "MatMul", 9, "portable"); /* vectors lose their dimension */
    sc_in(t, &c, VN_F32, SC_DIMS(4), a);
    sc_in(t, &c, VN_F32, SC_DIMS(5, 4, 2), b);
    r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->rank, 2);
    VN_ASSERT_DEQ(t, r->value[3], a[0] * b[9] + a[1] * b[11] + a[2] * b[13] + a[3] * b[15]);
    sc_free(&c);
    sc_new(t, &c, "", "MatMul", 9, "portable"); /* no terms: zeros, exactly */
    sc_in(t, &c, VN_F32, SC_DIMS(2, 0), a);
    sc_in(t, &c, VN_F32, SC_DIMS(0, 3), b);
    r = sc_run(t, &c, VN_WANT_VARIANCE);
    VN_ASSERT_EQ(t, r->count, 6);
    for (int i = 0; i < 6; ++i) VN_ASSERT(t, r->value[i] == 0 && r->bound[i] == 0 && r->var[i] == 0);
    sc_free(&c);
    sc_new(t, &c, "", "MatMul", 9, "portable"); /* no elements */
    sc_in(t, &c, VN_F32, SC_DIMS(0, 3), a);
    sc_in(t, &c, VN_F32, SC_DIMS(3, 2), b);
    VN_ASSERT_EQ(t, sc_run(t, &c, VN_WANT_VARIANCE)->count, 0);
    sc_free(&c);
    sc_new(t, &c, "", "MatMul", 9, "portable");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 3), a);
    sc_in(t, &c, VN_F32, SC_DIMS(2, 3), b);
    VN_ASSERT_EQ(t, sc_try(&c, VN_WANT_BOUND), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, c.err.text, "inner dimensions 3 and 2");
    sc_free(&c);
    sc_new(t, &c, "", "MatMul", 9, "portable"); /* integers wrap */
    const double big[] = {65536, 3}, other[] = {65536, 5};
    sc_in(t, &c, VN_I32, SC_DIMS(1, 2), big);
    sc_in(t, &c, VN_I32, SC_DIMS(2, 1), other);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(sc_run(t, &c, VN_WANT_BOUND)->tensor, 0), 15);
    sc_free(&c);
}

VN_TEST(contraction, same_bits_for_every_thread_count) {
    enum { R = 270, K = 130, C = 530 };
    double *a = vn_alloc(R * K, 8), *b = vn_alloc(K * C, 8);
    vn_rng_t rng = vn_test_rng(t);
    VN_ASSERT(t, a && b);
    sc_fill(&rng, SC_NORMAL, a, R * K);
    sc_fill(&rng, SC_NORMAL, b, K * C);
    sc_t c[3];
    for (int i = 0; i < 3; ++i) {
        vn_threads_set(i == 0 ? 1 : i == 1 ? 2 : 7);
        sc_new(t, &c[i], "", "MatMul", 13, "portable");
        sc_in(t, &c[i], VN_F32, SC_DIMS(R, K), a);
        sc_in(t, &c[i], VN_F32, SC_DIMS(K, C), b);
        sc_run(t, &c[i], VN_WANT_VARIANCE);
        const size_t bytes = R * C * sizeof(double);
        VN_ASSERT(t, memcmp(c[0].out[0].value, c[i].out[0].value, bytes) == 0);
        VN_ASSERT(t, memcmp(c[0].out[0].bound, c[i].out[0].bound, bytes) == 0);
        VN_ASSERT(t, memcmp(c[0].out[0].var, c[i].out[0].var, bytes) == 0);
        VN_ASSERT(t, memcmp(c[0].out[0].own, c[i].out[0].own, bytes) == 0);
    }
    vn_threads_set(0);
    for (int i = 0; i < 3; ++i) sc_free(&c[i]);
    vn_free(a);
    vn_free(b);
}

/* ---- CONTRACT-14: Einsum ---- */

static double element(const sc_t *c, int k, const int *sizes, const char *term, const int *index) {
    int64_t at = 0;
    for (; *term; ++term) at = at * sizes[*term - 'a'] + index[*term - 'a'];
    return sc_get(c, k, at);
}

VN_TEST(contraction, einsum_equals_its_definition) {
    static const struct {
        const char *equation, *in[4], *out;
    } cases[] = {{"ij,jk->ik", {"ij", "jk"}, "ik"},
                 {"ij,jk", {"ij", "jk"}, "ik"},
                 {"ii->i", {"ii"}, "i"},
                 {"ii", {"ii"}, ""},
                 {"ij->ji", {"ij"}, "ji"},
                 {"ij->j", {"ij"}, "j"},
                 {"bij,bjk->bik", {"bij", "bjk"}, "bik"},
                 {"i,j->ij", {"i", "j"}, "ij"},
                 {"ijk,jk->ki", {"ijk", "jk"}, "ki"},
                 {"ij,ij->", {"ij", "ij"}, ""},
                 {"ij,k->k", {"ij", "k"}, "k"},
                 {"ij,jk,kl->il", {"ij", "jk", "kl"}, "il"},
                 {"iij,jk->ki", {"iij", "jk"}, "ki"},
                 {"b i, b j , b k -> b k j", {"bi", "bj", "bk"}, "bkj"},
                 {"ij,ji", {"ij", "ji"}, ""}};
    static const int sizes[26] = {['b' - 'a'] = 2, ['i' - 'a'] = 3, ['j' - 'a'] = 4, ['k' - 'a'] = 5, ['l' - 'a'] = 2};
    vn_rng_t rng = vn_test_rng(t);
    double data[200];
    for (size_t x = 0; x < sizeof cases / sizeof *cases; ++x) {
        sc_t c;
        int operands = 0, index[26] = {0};
        sc_new(t, &c, "", "Einsum", 12, "portable");
        sc_text(&c, "equation", cases[x].equation);
        for (; operands < 4 && cases[x].in[operands]; ++operands) {
            int64_t dims[8];
            int r = 0;
            for (const char *s = cases[x].in[operands]; *s; ++s) dims[r++] = sizes[*s - 'a'];
            dims[r] = -1;
            sc_fill(&rng, SC_NORMAL, data, 120);
            sc_in(t, &c, VN_F32, dims, data);
        }
        const vn_ref_t *r = sc_run(t, &c, VN_WANT_VARIANCE);
        VN_ASSERT_EQ(t, r->rank, strlen(cases[x].out));
        double want[200] = {0}, magnitude[200] = {0};
        int64_t terms[200] = {0};
        bool used[26] = {0};
        for (int k = 0; k < operands; ++k)
            for (const char *s = cases[x].in[k]; *s; ++s) used[*s - 'a'] = true;
        for (bool more = true; more;) {
            int64_t at = 0;
            double p = 1;
            for (const char *s = cases[x].out; *s; ++s) at = at * sizes[*s - 'a'] + index[*s - 'a'];
            for (int k = 0; k < operands; ++k) p *= element(&c, k, sizes, cases[x].in[k], index);
            want[at] += p;
            magnitude[at] += fabs(p);
            terms[at]++;
            int l = 25;
            for (; l >= 0; --l) {
                if (!used[l]) continue;
                if (++index[l] < sizes[l]) break;
                index[l] = 0;
            }
            more = l >= 0;
        }
        for (int64_t i = 0; i < r->count; ++i) {
            VN_ASSERT_LE(t, fabs(want[i] - r->value[i]), 1e-13 * magnitude[i]);
            const double roundings = (double)terms[i] + operands - 2, limit = roundings * 0x1p-24 * magnitude[i];
            VN_ASSERT_LE(t, r->bound[i], limit * 1.001 + 1e-40);           /* tight */
            if (operands > 1) VN_ASSERT_GE(t, r->bound[i], limit * 0.999); /* not below what n u T asks for */
        }
        sc_free(&c);
    }
}

VN_TEST(contraction, einsum_ellipsis_and_errors) {
    static const double x[24] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};
    sc_t c;
    sc_new(t, &c, "", "Einsum", 12, "portable");
    sc_text(&c, "equation", "...ij,jk->...ik");
    sc_in(t, &c, VN_F32, SC_DIMS(2, 3, 4), x);
    sc_in(t, &c, VN_F32, SC_DIMS(4, 2), x);
    const vn_ref_t *r = sc_run(t, &c, VN_WANT_BOUND);
    VN_ASSERT_EQ(t, r->rank, 3);
    VN_ASSERT_DEQ(t, r->value[6], 13 * 1 + 14 * 3 + 15 * 5 + 16 * 7);
    VN_ASSERT_DEQ(t, r->bound[6], 0); /* integers */
    sc_free(&c);
    sc_new(t, &c, "", "Einsum", 12, "portable"); /* integers, three operands, wrapping */
    sc_text(&c, "equation", "i,i,i->");
    for (int k = 0; k < 3; ++k) sc_in(t, &c, VN_I64, SC_DIMS(3), x);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(sc_run(t, &c, VN_WANT_BOUND)->tensor, 0), 1 + 8 + 27);
    sc_free(&c);
    static const char *const bad[] = {"ij,jk->iz", "ij->i", "i+j,jk", "ij,jk->ii", "ijk,jk->i", "ij,jk-ik"};
    for (int b = 0; b < 6; ++b) {
        sc_new(t, &c, "", "Einsum", 12, "portable");
        sc_text(&c, "equation", bad[b]);
        sc_in(t, &c, VN_F32, SC_DIMS(3, 4), x);
        sc_in(t, &c, VN_F32, SC_DIMS(4, 2), x);
        VN_ASSERT(t, sc_try(&c, VN_WANT_BOUND) != VN_OK);
        VN_ASSERT_HAS(t, c.err.text, "equation");
        sc_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(contraction, bound_true_tight_and_sharp), VN_CASE(contraction, gemm_forms_lie_inside),
             VN_CASE(contraction, narrow_sum_before_the_bias), VN_CASE(contraction, small_grids_demand_equality),
             VN_CASE(contraction, operands_are_rounded_as_the_contract_says), VN_CASE(contraction, nan_and_infinity_follow_ieee),
             VN_CASE(contraction, overflow_is_explainable_only_where_it_can_happen), VN_CASE(contraction, flushing_needs_the_contract),
             VN_CASE(contraction, variance_predicts_random_and_sequential_sums), VN_CASE(contraction, uncertain_operands_widen_the_bound),
             VN_CASE(contraction, fused_activation_carries_the_bound), VN_CASE(contraction, batches_broadcast_like_numpy),
             VN_CASE(contraction, same_bits_for_every_thread_count), VN_CASE(contraction, einsum_equals_its_definition),
             VN_CASE(contraction, einsum_ellipsis_and_errors))
