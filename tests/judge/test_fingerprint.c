/* Rung 6 (claims PRINT-1, PRINT-2, TWIN-1): limits, no alarm on correct sums, an alarm on rounded operands, and data that breaks the model. */
#include "judge/judge_case.h"

/* bounds.md, false-alarm calculus 3; given there with two figures (one decimal below 10 and for 13.5). */
VN_TEST(fingerprint, chernoff_limits) {
    static const struct {
        double s, p, z, digits;
    } table[] = {{0, 1e-6, 13, .5},    {0, 1e-9, 19, .5},   {0, 1e-12, 24, .5},  {1, 1e-6, 9.8, .05},
                 {1, 1e-9, 13.5, .05}, {1, 1e-12, 17, .5},  {2, 1e-6, 7.5, .05}, {2, 1e-9, 10, .5},
                 {2, 1e-12, 12, .5},   {5, 1e-6, 5.9, .05}, {5, 1e-9, 7.4, .05}, {5, 1e-12, 8.8, .05}};
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        VN_ASSERT_LE(t, fabs(vn_chernoff_z(table[i].p, table[i].s * table[i].s) - table[i].z), table[i].digits);
    /* the limit of clipping: z of p = 10^-3 in unknown order */
    VN_ASSERT_DEQ(t, vn_clip_z(), vn_chernoff_z(1e-3, 0));
    VN_ASSERT_LE(t, fabs(vn_clip_z() - 7.5), 0.5);
    for (int digits = 3; digits < 15; ++digits) {
        const double p = pow(10, -digits);
        VN_ASSERT_GT(t, vn_chernoff_z(p / 10, 0), vn_chernoff_z(p, 0));
        VN_ASSERT_GE(t, vn_chernoff_z(p, 0), vn_chernoff_z(p, 1));   /* S' = 0 is the largest of all */
        VN_ASSERT_GT(t, vn_chernoff_z(p, 25), sqrt(2 * log(1 / p))); /* never below the normal tail's own Chernoff bound */
    }
}

static double a[64 * 4096], b[64 * 4096], y[512];

VN_TEST(fingerprint, no_alarm_on_correct_sums) {
    enum { M = 8, K = 96, N = 8, RUNS = 50 };
    vn_rng_t rng = vn_test_rng(t);
    double largest = 0;
    for (int run = 0; run < RUNS * vn_test_scale(t); ++run) {
        jc_fill(&rng, JC_NORMAL, a, M * K);
        jc_fill(&rng, JC_NORMAL, b, K * N);
        jc_t c;
        jc_matmul(t, &c, "ieee", M, K, N, a, b);
        for (int order = 0; order < JC_ORDERS; ++order) {
            const jc_arithmetic_t right = {.acc = VN_FMT_F32, .order = (jc_order_t)order};
            vn_tensor_t *x;
            vn_measure_t m;
            jc_product(&right, M, K, N, a, b, y);
            x = jc_tensor(t, VN_F32, JC_DIMS(M, N), y);
            VN_ASSERT_OK(t, vn_measure(&c.refs[0], x, &m, NULL));
            vn_tensor_free(x);
            const vn_fingerprint_t f = vn_fingerprint(&c.refs[0], &m, VN_CLASS_CONTRACTION, 1e-6 / 6);
            VN_ASSERT_EQ(t, m.outside, 0);
            if (f.verdict != VN_PRINT_OK)
                vn_test_fail(t, __FILE__, __LINE__, "run %d order %d: rms %g (limit %g), z %g (limit %g)", run, order, f.rms, f.rms_limit,
                             f.z_max, f.z_limit);
            if (order == JC_SEQUENTIAL) largest = fmax(largest, f.rms);
        }
        jc_free(&c);
    }
    VN_ASSERT_GT(t, largest, 0.7); /* the model is no mere upper bound: a sequential sum comes close to it */
}

/* Where n u T is far above the error of rounded operands, only the fingerprint is left, and it must speak. */
VN_TEST(fingerprint, rounded_operands_inside_the_bound) {
    enum { M = 8, K = 4096, N = 64 }; /* enough elements that the limit of the rms lies below the clip */
    static const jc_arithmetic_t modes[] = {{.operand = VN_FMT_BF16, .acc = VN_FMT_F32},
                                            {.operand = VN_FMT_TF32, .acc = VN_FMT_F32},
                                            {.operand = VN_FMT_TF32, .rounding = VN_RZ, .acc = VN_FMT_F32}};
    vn_rng_t rng = vn_test_rng(t);
    jc_fill(&rng, JC_NORMAL, a, M * K);
    jc_fill(&rng, JC_NORMAL, b, K * N);
    jc_t c;
    jc_matmul(t, &c, "ieee", M, K, N, a, b);
    for (size_t k = 0; k < sizeof modes / sizeof *modes; ++k) {
        vn_measure_t m;
        jc_product(&modes[k], M, K, N, a, b, y);
        vn_tensor_t *x = jc_tensor(t, VN_F32, JC_DIMS(M, N), y);
        VN_ASSERT_OK(t, vn_measure(&c.refs[0], x, &m, NULL));
        vn_tensor_free(x);
        VN_ASSERT_EQ(t, m.outside, 0);
        const vn_fingerprint_t f = vn_fingerprint(&c.refs[0], &m, VN_CLASS_CONTRACTION, 1e-6 / 6);
        VN_ASSERT_EQ(t, f.verdict, VN_PRINT_RMS);
        VN_ASSERT_GT(t, f.rms, 5 * f.rms_limit);
    }
    jc_free(&c);
}

VN_TEST(fingerprint, speaks_only_where_it_has_a_model) {
    vn_ref_t r = {.terms = 100};
    vn_measure_t m = {.sigmas = 100, .sum_z2 = 1e6, .sum_clipped = 1e4, .z_max = 1e3};
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, 1e-6).verdict, VN_PRINT_RMS);
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_ELEMENTARY, 1e-6).verdict, VN_PRINT_VOID);
    r.terms = 8; /* few terms: too few roundings for a law of many */
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, 1e-6).verdict, VN_PRINT_VOID);
    r.terms = 100;
    m.sigmas = 0;
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, 1e-6).verdict, VN_PRINT_VOID);
    m = (vn_measure_t){
        .sigmas = 10, .sum_z2 = 1000, .sum_clipped = 560, .z_max = 12}; /* too few for an rms, and inside the extreme's limit */
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, 1e-6).verdict, VN_PRINT_OK);
    m.z_max = 100;
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, 1e-6).verdict, VN_PRINT_EXTREME);
    /* one wild element does not make the rms wild: squares are clipped */
    m = (vn_measure_t){.sigmas = 10000, .sum_z2 = 10000 + 1e10, .sum_clipped = 10000 + 56, .z_max = 1e5};
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, 1e-6).verdict, VN_PRINT_EXTREME);
}

/* The rms of few elements: the limit is Chernoff's bound for squares clipped to [0, C^2] with a mean of 9, by bisection and by hand. */
VN_TEST(fingerprint, rms_of_few_elements) {
    enum { FEW = 12 };
    double value[FEW], var[FEW];
    for (int i = 0; i < FEW; ++i) {
        value[i] = 1 + 0.37 * i;
        var[i] = 1;
    }
    const double top = vn_clip_z() * vn_clip_z();
    vn_ref_t r = {.terms = 100, .count = FEW, .value = value, .var = var};
    vn_measure_t m = {.sigmas = FEW, .sum_z2 = FEW * 1e4, .sum_clipped = FEW * top, .z_max = 12};
    const double alpha = 1e-6;
    const vn_fingerprint_t f = vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, alpha);
    const double x = f.rms_limit * f.rms_limit / top, base = 9 / top;
    VN_ASSERT_EQ(t, f.verdict, VN_PRINT_RMS); /* all of twelve different sums far out: no order gives that */
    VN_ASSERT_LT(t, x, 1);
    VN_ASSERT_LE(t, fabs(FEW * (x * log(x / base) + (1 - x) * log((1 - x) / (1 - base))) - log(3 / alpha)), 1e-6);
    for (int i = 0; i < FEW; ++i) value[i] = ldexp(i & 1 ? -1.5 : 1.5, i); /* one sum, turned and scaled: no twelve witnesses */
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, alpha).verdict, VN_PRINT_OK);
    for (int i = 0; i < FEW; ++i) value[i] = 1 + 0.37 * i;
    m.sum_clipped = FEW * 0.5 * top; /* half of them */
    VN_ASSERT_EQ(t, vn_fingerprint(&r, &m, VN_CLASS_CONTRACTION, alpha).verdict, VN_PRINT_OK);
}

/* ---- data for which independence of roundings fails: correct sequential sums must pass nevertheless ---- */

static void correct_sum_passes(vn_test_t *t, const double *x, int64_t rows, int64_t n, const char *what) {
    jc_t c;
    double sums[64];
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(rows, n), x);
    const double axis[] = {1};
    jc_in(t, &c, VN_I64, JC_DIMS(1), axis);
    jc_op(t, &c, "ReduceSum", 13, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "keepdims", 0, NULL));
    jc_oracle(t, &c);
    for (int order = 0; order < JC_ORDERS; ++order) {
        for (int64_t r = 0; r < rows; ++r) sums[r] = jc_sum(VN_FMT_F32, x + r * n, n, (jc_order_t)order);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(rows), sums));
        const vn_finding_t *f = jc_judge(t, &c);
        if (!vn_verdict_passes(f->verdict))
            vn_test_fail(t, __FILE__, __LINE__, "%s, order %d: %s\n    %s\n    %s", what, order, vn_verdict_name(f->verdict), f->words,
                         f->rungs);
    }
    jc_free(&c);
}

VN_TEST(twins, few_values_constant_rows_and_stagnation_are_no_suspects) {
    enum { ROWS = 64, LONG = 1000000 };
    vn_rng_t rng = vn_test_rng(t);
    jc_fill(&rng, JC_FEW, a, 8 * 4096);
    correct_sum_passes(t, a, 8, 4096, "two values");
    correct_sum_passes(t, a, ROWS, 512, "two values, many rows");
    for (int64_t i = 0; i < ROWS * 512; ++i) a[i] = (float)(0.1 * (double)(i / 512 + 1));
    correct_sum_passes(t, a, ROWS, 512, "constant rows");
    jc_fill(&rng, JC_SORTED, a, ROWS * 512);
    correct_sum_passes(t, a, ROWS, 512, "a trend");
    double *ones = vn_alloc(LONG, sizeof *ones);
    VN_ASSERT(t, ones != NULL);
    for (int64_t i = 0; i < LONG; ++i) ones[i] = 0.1f;
    correct_sum_passes(t, ones, 1, LONG, "a million times 0.1");
    vn_free(ones);
}

/* The twins excuse what a correct order gives, and nothing more. */
VN_TEST(twins, do_not_excuse_a_fault) {
    enum { ROWS = 64, LONG = 512 };
    vn_rng_t rng = vn_test_rng(t);
    double sums[ROWS];
    jc_fill(&rng, JC_FEW, a, ROWS * LONG);
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(ROWS, LONG), a);
    const double axis[] = {1};
    jc_in(t, &c, VN_I64, JC_DIMS(1), axis);
    jc_op(t, &c, "ReduceSum", 13, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "keepdims", 0, NULL));
    jc_oracle(t, &c);
    for (int64_t r = 0; r < ROWS; ++r) sums[r] = jc_sum(VN_FMT_F32, a + r * LONG, LONG - 1, JC_SEQUENTIAL); /* the last term is lost */
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(ROWS), sums));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    jc_free(&c);
}

/* One element, a root after the sum: the error of the sum shows through the slope of the root (few terms lost, far inside the bound). */
VN_TEST(twins, speak_through_a_root) {
    enum { LONG = 4096 };
    vn_rng_t rng = vn_test_rng(t);
    static const bool lost[2] = {false, true};
    for (int k = 0; k < 2; ++k) {
        jc_fill(&rng, JC_NORMAL, a, LONG);
        a[LONG - 1] = 0.5; /* 200 deviations of the sum's round-off, half of its bound */
        for (int64_t i = 0; i < LONG; ++i) b[i] = (double)(float)(a[i] * a[i]);
        jc_t c;
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(1, LONG), a);
        const double axis[] = {1};
        jc_in(t, &c, VN_I64, JC_DIMS(1), axis);
        jc_op(t, &c, "ReduceL2", 18, 1);
        VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "keepdims", 0, NULL));
        jc_oracle(t, &c);
        const double norm = (double)sqrtf((float)jc_sum(VN_FMT_F32, b, lost[k] ? LONG - 1 : LONG, JC_SEQUENTIAL));
        VN_ASSERT_LE(t, fabs(norm - c.refs[0].value[0]), c.refs[0].bound[0]); /* the bound alone would pass both */
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(1), &norm));
        const vn_finding_t *f = jc_judge(t, &c);
        if (!lost[k]) VN_ASSERT_PASSES(t, f);
        else VN_ASSERT(t, !vn_verdict_passes(f->verdict)); /* what one element lacks has several names */
        jc_free(&c);
    }
}

VN_TEST(twins, scale_is_one_where_the_model_holds) {
    enum { M = 8, K = 200, N = 8 };
    vn_rng_t rng = vn_test_rng(t);
    jc_fill(&rng, JC_NORMAL, a, M * K);
    jc_fill(&rng, JC_NORMAL, b, K * N);
    jc_t c;
    double scale;
    jc_matmul(t, &c, "ieee", M, K, N, a, b);
    const vn_question_t q = jc_question(&c);
    vn_case_t k = {.q = &q, .ref = &c.refs[0], .cls = VN_CLASS_CONTRACTION, .f = &c.found[0]};
    VN_ASSERT_OK(t, vn_twin_scale(&k, &scale, NULL));
    VN_ASSERT_GE(t, scale, 1);
    VN_ASSERT_LT(t, scale, 1.5);
    jc_free(&c);
    for (int64_t i = 0; i < M * K; ++i) a[i] = 0.1f;
    for (int64_t i = 0; i < K * N; ++i) b[i] = 0.3f;
    jc_matmul(t, &c, "ieee", M, K, N, a, b);
    const vn_question_t few = jc_question(&c);
    k = (vn_case_t){.q = &few, .ref = &c.refs[0], .cls = VN_CLASS_CONTRACTION, .f = &c.found[0]};
    VN_ASSERT_OK(t, vn_twin_scale(&k, &scale, NULL));
    VN_ASSERT_GT(t, scale, 1.5); /* one and the same addition repeated: errors add up instead of averaging out */
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(fingerprint, chernoff_limits), VN_CASE(fingerprint, no_alarm_on_correct_sums),
             VN_CASE(fingerprint, rounded_operands_inside_the_bound), VN_CASE(fingerprint, speaks_only_where_it_has_a_model),
             VN_CASE(fingerprint, rms_of_few_elements), VN_CASE(twins, few_values_constant_rows_and_stagnation_are_no_suspects),
             VN_CASE(twins, do_not_excuse_a_fault), VN_CASE(twins, speak_through_a_root),
             VN_CASE(twins, scale_is_one_where_the_model_holds))
