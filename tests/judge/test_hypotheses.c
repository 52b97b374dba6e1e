/* Rung 7 (claim HYPO-1): a planted arithmetic is named, a correct result in any order is not, and a local fault is never mistaken for one. */
#include "judge/judge_case.h"

typedef struct planted {
    const char *cause;
    jc_arithmetic_t arithmetic;
} planted_t;

static const planted_t planted[] = {
    {"operands-bf16", {.operand = VN_FMT_BF16, .acc = VN_FMT_F32}},
    {"operands-tf32-rn", {.operand = VN_FMT_TF32, .rounding = VN_RNE, .acc = VN_FMT_F32}},
    {"operands-tf32-rna", {.operand = VN_FMT_TF32, .rounding = VN_RNA, .acc = VN_FMT_F32}},
    {"operands-tf32-rz", {.operand = VN_FMT_TF32, .rounding = VN_RZ, .acc = VN_FMT_F32}},
    {"operands-f16", {.operand = VN_FMT_F16, .acc = VN_FMT_F32}},
    {"accumulator-f16", {.acc = VN_FMT_F16}},
    {"accumulator-bf16", {.acc = VN_FMT_BF16}},
    {"result-rounded-to-bf16", {.acc = VN_FMT_F32, .result = VN_FMT_BF16}},
    {"result-rounded-to-f16", {.acc = VN_FMT_F32, .result = VN_FMT_F16}},
};
enum { PLANTED = sizeof planted / sizeof *planted };

static const struct { int64_t m, k, n; } shapes[] = {{8, 64, 8}, {1, 96, 40}, {5, 31, 7}, {3, 513, 5}};
enum { SHAPES = sizeof shapes / sizeof *shapes, MAX_OPERAND = 8192, MAX_OUT = 256 };

static double a[MAX_OPERAND], b[MAX_OPERAND], y[MAX_OUT];

/* Every 16th operand lies half way between two numbers of TF32: only there do ties to even and ties away differ. */
static void fill_with_ties(vn_rng_t *rng, double *x, int64_t n) {
    jc_fill(rng, JC_NORMAL, x, n);
    for (int64_t i = 0; i < n; i += 16) x[i] = vn_round_to(VN_FMT_TF32, x[i], VN_RZ, false) + vn_ulp(VN_FMT_TF32, x[i]) / 2;
}

/* f16 and TF32 have the same 11 bits: on numbers that f16 holds without overflow or subnormals the two roundings agree, and TF32 is named first. */
static bool named(const char *cause, const planted_t *p) {
    if (strcmp(p->cause, "operands-f16") == 0 && strcmp(cause, "operands-tf32-rn") == 0) return true;
    return strcmp(cause, p->cause) == 0;
}

VN_TEST(hypotheses, planted_arithmetics_are_named) {
    vn_rng_t rng = vn_test_rng(t);
    for (int s = 0; s < SHAPES * vn_test_scale(t); ++s) {
        const int64_t m = shapes[s % SHAPES].m, k = shapes[s % SHAPES].k, n = shapes[s % SHAPES].n;
        fill_with_ties(&rng, a, m * k);
        fill_with_ties(&rng, b, k * n);
        jc_t c;
        jc_matmul(t, &c, "ieee", m, k, n, a, b);
        for (int p = 0; p < PLANTED; ++p) {
            jc_product(&planted[p].arithmetic, m, k, n, a, b, y);
            jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), y));
            const vn_finding_t *f = jc_judge(t, &c);
            if (f->verdict != VN_CONTRACT_MISMATCH || !named(f->cause, &planted[p]))
                vn_test_fail(t, __FILE__, __LINE__, "%s at [%lld,%lld,%lld]: %s '%s'\n    %s\n    %s", planted[p].cause, (long long)m,
                             (long long)k, (long long)n, vn_verdict_name(f->verdict), f->cause, f->words, f->rungs);
            VN_ASSERT_HAS(t, f->words, "residual");
            VN_ASSERT_HAS(t, f->rungs, "hypotheses");
        }
        jc_free(&c);
    }
}

VN_TEST(hypotheses, a_declared_arithmetic_is_no_mismatch) {
    static const struct {
        const char *contract;
        int planted;
    } declared[] = {{"operand=bf16,accumulator=f32,result=f32", 0},
                    {"operand=tf32-rn,accumulator=f32,result=f32", 1},
                    {"operand=tf32-rna,accumulator=f32,result=f32", 2},
                    {"operand=f32,accumulator=f16,result=f32", 5},
                    {"operand=f32,accumulator=f32,result=bf16", 7}};
    vn_rng_t rng = vn_test_rng(t);
    const int64_t m = 8, k = 64, n = 8;
    jc_fill(&rng, JC_NORMAL, a, m * k);
    jc_fill(&rng, JC_NORMAL, b, k * n);
    for (size_t d = 0; d < sizeof declared / sizeof *declared; ++d) {
        jc_t c;
        jc_matmul(t, &c, declared[d].contract, m, k, n, a, b);
        jc_product(&planted[declared[d].planted].arithmetic, m, k, n, a, b, y);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), y));
        VN_ASSERT_PASSES(t, jc_judge(t, &c));
        jc_free(&c);
    }
}

VN_TEST(hypotheses, correct_orders_pass_on_every_kind_of_data) {
    vn_rng_t rng = vn_test_rng(t);
    for (int s = 0; s < SHAPES; ++s)
        for (int kind = 0; kind < JC_DATA; ++kind) {
            const int64_t m = shapes[s].m, k = shapes[s].k, n = shapes[s].n;
            jc_fill(&rng, (jc_data_t)kind, a, m * k);
            jc_fill(&rng, (jc_data_t)kind, b, k * n);
            jc_t c;
            jc_matmul(t, &c, "ieee", m, k, n, a, b);
            for (int order = 0; order < JC_ORDERS; ++order) {
                const jc_arithmetic_t right = {.acc = VN_FMT_F32, .order = (jc_order_t)order};
                jc_product(&right, m, k, n, a, b, y);
                jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), y));
                const vn_finding_t *f = jc_judge(t, &c);
                VN_ASSERT_PASSES(t, f);
                VN_ASSERT_LE(t, f->error_over_bound, 1);
            }
            jc_free(&c);
        }
}

/* Inside the bound at this length (an injected operand rounding is small against n u T), so only the fingerprint can see it. */
VN_TEST(hypotheses, operand_rounding_inside_the_bound_is_named) {
    enum { M = 4, K = 4096, N = 16 };
    static double p[M * K], q[K * N];
    vn_rng_t rng = vn_test_rng(t);
    fill_with_ties(&rng, p, M * K);
    fill_with_ties(&rng, q, K * N);
    jc_t c;
    jc_matmul(t, &c, "ieee", M, K, N, p, q);
    for (int h = 0; h < 4; ++h) {
        jc_product(&planted[h].arithmetic, M, K, N, p, q, y);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), y));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_EQ(t, f->outside, 0);
        VN_ASSERT_LT(t, f->error_over_bound, 1);
        VN_ASSERT_VERDICT(t, f, VN_CONTRACT_MISMATCH);
        if (!named(f->cause, &planted[h])) vn_test_fail(t, __FILE__, __LINE__, "%s is called %s", planted[h].cause, f->cause);
    }
    jc_free(&c);
}

VN_TEST(hypotheses, gemm_and_conv_name_theirs) {
    vn_rng_t rng = vn_test_rng(t);
    for (int h = 0; h < PLANTED; ++h) {
        /* Gemm: the second operand transposed, a bias added in the accumulator after the sum */
        const int64_t m = 6, k = 48, n = 9;
        double bias[9], bt[48 * 9];
        fill_with_ties(&rng, a, m * k);
        fill_with_ties(&rng, b, k * n);
        jc_fill(&rng, JC_NORMAL, bias, n);
        for (int64_t i = 0; i < k; ++i)
            for (int64_t j = 0; j < n; ++j) bt[j * k + i] = b[i * n + j];
        jc_t c;
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(m, k), a);
        jc_in(t, &c, VN_F32, JC_DIMS(n, k), bt);
        jc_in(t, &c, VN_F32, JC_DIMS(n), bias);
        jc_op(t, &c, "Gemm", 13, 1);
        VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "transB", 1, NULL));
        jc_oracle(t, &c);
        jc_arithmetic_t sums = planted[h].arithmetic;
        sums.result = VN_FMT_NONE;
        jc_product(&sums, m, k, n, a, b, y);
        for (int64_t i = 0; i < m * n; ++i)
            y[i] = jc_round(planted[h].arithmetic.result,
                            jc_round(sums.acc, y[i] + jc_round(sums.acc == VN_FMT_F32 ? VN_FMT_NONE : sums.acc, bias[i % n])));
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), y));
        const vn_finding_t *f = jc_judge(t, &c);
        if (f->verdict != VN_CONTRACT_MISMATCH || !named(f->cause, &planted[h]))
            vn_test_fail(t, __FILE__, __LINE__, "Gemm %s: %s '%s'\n    %s\n    %s", planted[h].cause, vn_verdict_name(f->verdict), f->cause,
                         f->words, f->rungs);
        jc_free(&c);

        /* Conv: 3 channels, 3 x 3, no padding, as the product of weights [5,27] and columns [27,25] */
        enum { CI = 3, CO = 5, SIDE = 7, OUT = 5, TAPS = CI * 9 };
        double image[CI * SIDE * SIDE], weight[CO * TAPS], columns[TAPS * OUT * OUT];
        fill_with_ties(&rng, image, CI * SIDE * SIDE);
        fill_with_ties(&rng, weight, CO * TAPS);
        for (int r = 0; r < TAPS; ++r)
            for (int p = 0; p < OUT * OUT; ++p)
                columns[r * OUT * OUT + p] = image[r / 9 * SIDE * SIDE + (p / OUT + r % 9 / 3) * SIDE + p % OUT + r % 3];
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(1, CI, SIDE, SIDE), image);
        jc_in(t, &c, VN_F32, JC_DIMS(CO, CI, 3, 3), weight);
        jc_op(t, &c, "Conv", 11, 1);
        jc_oracle(t, &c);
        jc_product(&planted[h].arithmetic, CO, TAPS, OUT * OUT, weight, columns, y);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(1, CO, OUT, OUT), y));
        f = jc_judge(t, &c);
        if (f->verdict != VN_CONTRACT_MISMATCH || !named(f->cause, &planted[h]))
            vn_test_fail(t, __FILE__, __LINE__, "Conv %s: %s '%s'\n    %s\n    %s", planted[h].cause, vn_verdict_name(f->verdict), f->cause,
                         f->words, f->rungs);
        jc_free(&c);
    }
}

/* A wide bound must not swallow a local fault: most elements are right, so no arithmetic may be accepted. */
VN_TEST(hypotheses, a_local_fault_is_never_an_arithmetic) {
    vn_rng_t rng = vn_test_rng(t);
    const int64_t m = 8, k = 64, n = 8;
    const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    for (int round = 0; round < 12; ++round) {
        jc_fill(&rng, JC_NORMAL, a, m * k);
        jc_fill(&rng, JC_NORMAL, b, k * n);
        jc_t c;
        jc_matmul(t, &c, "ieee", m, k, n, a, b);
        jc_product(&right, m, k, n, a, b, y);
        const int64_t at = (int64_t)vn_rng_below(&rng, (uint64_t)(m * n));
        y[at] = (float)(y[at] * (1 + 0x1p-7) + 0x1p-8); /* as small as a bf16 rounding */
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), y));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_VERDICT(t, f, VN_BUG);
        VN_ASSERT_EQ(t, f->outside, 1);
        VN_ASSERT_EQ(t, f->first.index, at);
        jc_free(&c);
    }
}

VN_TEST(hypotheses, flushes_are_named_where_only_zeros_are_wrong) {
    const double x[] = {1e-20, 1e-20, 2, -3e-20, 0.5, 1e-30}, w[] = {1e-20, 3e-20, 3, 1e-20, 4, 1};
    double product[6];
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(6), x);
    jc_in(t, &c, VN_F32, JC_DIMS(6), w);
    jc_op(t, &c, "Mul", 14, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 6; ++i) {
        product[i] = (float)((double)(float)x[i] * (double)(float)w[i]);
        if (fabs(product[i]) < 0x1p-126) product[i] = 0;
    }
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(6), product));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_CONTRACT_MISMATCH);
    VN_ASSERT_STR(t, f->cause, "ftz");
    VN_ASSERT_HAS(t, f->words, "this explains all 3 elements outside the bound");
    product[4] = 0; /* not subnormal: no flush explains this one */
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(6), product));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    jc_free(&c);

    const double tiny[] = {0x1p-130, 1.1, -0x1p-140, 2}, big[] = {0x1p20, 1, 0x1p30, 2}, flushed[] = {0, 1.1, 0, 4};
    jc_new(t, &c, "ieee"); /* subnormal operands, normal results: only reading them as zero explains the zeros */
    jc_in(t, &c, VN_F32, JC_DIMS(4), tiny);
    jc_in(t, &c, VN_F32, JC_DIMS(4), big);
    jc_op(t, &c, "Mul", 14, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), flushed));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_CONTRACT_MISMATCH);
    VN_ASSERT_STR(t, c.found[0].cause, "daz");
    jc_free(&c);
}

/* Under `ieee` the second tier of a budget is a named deviation; under `portable` it passes with the same name as its note. */
VN_TEST(hypotheses, the_second_tier_has_a_name) {
    double x[64], s[64];
    for (int i = 0; i < 64; ++i) {
        x[i] = (float)(-6 + 0.2 * i);
        s[i] = (float)(0.5 * x[i] * (double)(float)(1 + (double)(float)erf(x[i] / sqrt(2)))); /* 1 + erf cancels in the tail */
    }
    for (int portable = 0; portable < 2; ++portable) {
        jc_t c;
        jc_new(t, &c, portable ? "portable" : "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(64), x);
        jc_op(t, &c, "Gelu", 20, 1);
        jc_oracle(t, &c);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(64), s));
        const vn_finding_t *f = jc_judge(t, &c);
        if (portable) {
            VN_ASSERT_VERDICT(t, f, VN_EXPLAINED);
            VN_ASSERT_STR(t, f->note, "tail-cancellation");
        } else {
            VN_ASSERT_VERDICT(t, f, VN_CONTRACT_MISMATCH);
            VN_ASSERT_STR(t, f->cause, "tail-cancellation");
        }
        jc_free(&c);
    }
}

/* Where f16 has subnormals and TF32 has not, the two are told apart. */
VN_TEST(hypotheses, f16_and_tf32_differ_below_the_normal_range) {
    const int64_t m = 8, k = 64, n = 8;
    vn_rng_t rng = vn_test_rng(t);
    for (int p = 0; p < PLANTED; ++p) {
        if (strcmp(planted[p].cause, "operands-f16") != 0 && strcmp(planted[p].cause, "operands-tf32-rn") != 0) continue;
        jc_t c;
        jc_fill(&rng, JC_NORMAL, a, m * k);
        jc_fill(&rng, JC_NORMAL, b, k * n);
        for (int64_t i = 0; i < k * n; ++i) b[i] = (float)(b[i] * 0x1p-17);
        jc_matmul(t, &c, "ieee", m, k, n, a, b);
        jc_product(&planted[p].arithmetic, m, k, n, a, b, y);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), y));
        VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_CONTRACT_MISMATCH);
        VN_ASSERT_STR(t, c.found[0].cause, planted[p].cause);
        jc_free(&c);
    }
}

/* One operand kept in a narrow type, as compressed weights are. */
VN_TEST(hypotheses, one_rounded_operand_is_told_from_two) {
    static const struct {
        vn_format_t format;
        bool left;
        const char *cause, *words;
    } rows[] = {{VN_FMT_BF16, true, "operands-bf16", "left operand"},
                {VN_FMT_BF16, false, "operands-bf16", "right operand"},
                {VN_FMT_F16, true, "operands-f16", "left operand"},
                {VN_FMT_F16, false, "operands-f16", "right operand"}};
    static const jc_arithmetic_t f32 = {.acc = VN_FMT_F32};
    const int64_t m = 8, k = 64, n = 8;
    vn_rng_t rng = vn_test_rng(t);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
        jc_t c;
        jc_fill(&rng, JC_NORMAL, a, m * k);
        jc_fill(&rng, JC_NORMAL, b, k * n);
        jc_matmul(t, &c, "portable", m, k, n, a, b);
        for (int64_t i = 0; i < (rows[r].left ? m * k : k * n); ++i) {
            double *x = rows[r].left ? &a[i] : &b[i];
            *x = vn_round_to(rows[r].format, *x, VN_RNE, false);
        }
        jc_product(&f32, m, k, n, a, b, y);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(m, n), y));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_VERDICT(t, f, VN_CONTRACT_MISMATCH);
        VN_ASSERT_STR(t, f->cause, rows[r].cause);
        VN_ASSERT_HAS(t, f->words, rows[r].words);
        jc_free(&c);
    }
}

VN_TEST(hypotheses, a_rounded_argument_is_named) {
    enum { N = 200 };
    static const struct {
        vn_format_t format;
        planted_t p;
    } rows[] = {{VN_FMT_BF16, {.cause = "operands-bf16"}}, {VN_FMT_F16, {.cause = "operands-f16"}}};
    vn_rng_t rng = vn_test_rng(t);
    for (int r = 0; r < 2; ++r) {
        jc_t c;
        jc_fill(&rng, JC_NORMAL, a, N);
        for (int i = 0; i < N; ++i) y[i] = (float)exp(vn_round_to(rows[r].format, a[i], VN_RNE, false));
        jc_new(t, &c, "portable");
        jc_in(t, &c, VN_F32, JC_DIMS(N), a);
        jc_op(t, &c, "Exp", 13, 1);
        jc_oracle(t, &c);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(N), y));
        VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_CONTRACT_MISMATCH);
        VN_ASSERT(t, named(c.found[0].cause, &rows[r].p));
        jc_free(&c);
    }
}

/* Claim JUDGE-2: a flush that is lost in the rounding of the output's rms passes with a note; a larger one is named. */
VN_TEST(hypotheses, a_small_flush_is_a_note_and_a_large_one_a_cause) {
    const double p[] = {0, 1.1f, 2.3f, 3.7f, 0x1p-130, 0, 0, 0}, flushed[] = {(double)(1.1f + 2.3f + 3.7f), 0};
    for (int large = 0; large < 2; ++large) {
        const double q[] = {large ? 0x1p115 : 0x1p100, 1, 1, 1}; /* 2^-15 or 2^-30 beside 7.1: u times the rms is 2^-22 */
        jc_t c;
        jc_matmul(t, &c, "portable", 2, 4, 1, p, q);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(2, 1), flushed));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_VERDICT(t, f, large ? VN_CONTRACT_MISMATCH : VN_EXPLAINED);
        VN_ASSERT_STR(t, large ? f->cause : f->note, large ? "daz" : "subnormals-flushed");
        jc_free(&c);
        jc_matmul(t, &c, "ieee", 2, 4, 1, p, q); /* the strict contract lets neither pass */
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(2, 1), flushed));
        VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_CONTRACT_MISMATCH);
        jc_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(hypotheses, planted_arithmetics_are_named), VN_CASE(hypotheses, a_declared_arithmetic_is_no_mismatch),
             VN_CASE(hypotheses, correct_orders_pass_on_every_kind_of_data),
             VN_CASE(hypotheses, operand_rounding_inside_the_bound_is_named), VN_CASE(hypotheses, gemm_and_conv_name_theirs),
             VN_CASE(hypotheses, a_local_fault_is_never_an_arithmetic), VN_CASE(hypotheses, flushes_are_named_where_only_zeros_are_wrong),
             VN_CASE(hypotheses, the_second_tier_has_a_name), VN_CASE(hypotheses, f16_and_tf32_differ_below_the_normal_range),
             VN_CASE(hypotheses, one_rounded_operand_is_told_from_two), VN_CASE(hypotheses, a_rounded_argument_is_named),
             VN_CASE(hypotheses, a_small_flush_is_a_note_and_a_large_one_a_cause))
