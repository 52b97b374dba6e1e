/* Elements that float64 leaves open (claims PREC-1 to PREC-6): hard cases of functions, ties, second terms that break ties, and whole tensors of
 * every class whose rounded result must be the exact value rounded once. The twin is MPFR.
 */
#include "oracle/escalate.h"
#include "oracle/twin_case.h"

static one_node_t node(const char *op, int version, int n_in) {
    return (one_node_t){.domain = "", .op = op, .version = version, .n_in = n_in, .want = VN_WANT_BOUND};
}

/* Every element is the exact value rounded once; nothing stays open. */
static void check_rounded(vn_test_t *t, const char *what, const vn_ref_t *r, const mpfr_t *exact) {
    const vn_format_t f = vn_format_of(r->dtype);
    for (int64_t i = 0; i < r->count; ++i) {
        const double y = tw_round(f, exact[i]), got = vn_tensor_get_f64(r->tensor, i);
        if (got != y && !(isnan(got) && isnan(y)))
            vn_test_fail(t, __FILE__, __LINE__, "%s %s, element %lld: %a, exactly rounded %a (value %a)", what, vn_dtype_name(r->dtype),
                         (long long)i, got, y, r->value[i]);
        if (isfinite(y)) twin_value(t, what, r, i, exact[i]);
    }
    if (r->undecided) vn_test_fail(t, __FILE__, __LINE__, "%s: %lld elements are undecided", what, (long long)r->undecided);
}

/* ---- the rounding itself ---- */

/* value + rest in every format against MPFR, with rests far below the last digit beside ties. */
VN_TEST(escalate, one_rounding_of_a_pair) {
    static const vn_format_t formats[] = {VN_FMT_F64, VN_FMT_F32, VN_FMT_F16, VN_FMT_BF16, VN_FMT_F8E4M3FN, VN_FMT_F8E5M2};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t sum;
    mpfr_init2(sum, 2200);
    for (int i = 0; i < 4000 * vn_test_scale(t); ++i) {
        const vn_format_t f = formats[vn_rng_below(&rng, sizeof formats / sizeof *formats)];
        const double near = vn_round_to(f, vn_rng_normal(&rng) * 4, VN_RNE, true), half = vn_ulp(f, near) / 2;
        const bool tie = vn_rng_below(&rng, 2);
        const double rest = ldexp(vn_rng_normal(&rng), tie ? -60 - (int)vn_rng_below(&rng, 900) : -(int)vn_rng_below(&rng, 40));
        const vn_quad_t value = tie ? (vn_quad_t)near + half : (vn_quad_t)near;
        mpfr_set_d(sum, near, MPFR_RNDN);
        if (tie) mpfr_add_d(sum, sum, half, MPFR_RNDN);
        mpfr_add_d(sum, sum, rest, MPFR_RNDN);
        VN_ASSERT_DEQ(t, vn_exact_round(f, value, rest), tw_round(f, sum));
    }
    mpfr_clear(sum);
}

/* ---- functions ---- */

/* Arguments whose f64 value is so near a midpoint of two f32 numbers that it does not decide: found by trying all of them. */
static const struct {
    const char *op;
    float x;
} hard[] = {
    {"Exp", -0x1.d2259ap+3f},    {"Log", 0x1.b97c7p-14f}, {"Log", 0x1.f0ddep-8f},   {"Log", 0x1.827a74p-7f},
    {"Log", 0x1.2f1fd6p+3f},     {"Sin", 0x1.e35bc6p+7f}, {"Atan", 0x1.1ad646p-4f}, {"Sigmoid", 0x1.437902p-5f},
    {"Sigmoid", -0x1.2082ep-3f}, {"Cosh", 0x1.c12a5p-5f}, {"Asin", 0x1.cbf43cp-4f}, {"Asin", 0x1.107434p-1f},
};

VN_TEST(escalate, hard_cases_of_f32) {
    mpfr_t *exact = tw_new(1), *x = tw_new(1);
    for (size_t i = 0; i < sizeof hard / sizeof *hard; ++i) {
        const tw_function_t *f = tw_function(hard[i].op, NULL);
        one_node_t n = {.domain = f->domain, .op = f->op, .version = f->version, .n_in = 1, .want = VN_WANT_BOUND};
        n.in[0] = one_scalar(t, VN_F32, hard[i].x);
        one_run(t, &n);
        mpfr_set_d(x[0], hard[i].x, MPFR_RNDN);
        f->exact(exact[0], x[0], f->p);
        check_rounded(t, hard[i].op, &n.out[0], (const mpfr_t *)exact);
        VN_ASSERT_EQ(t, n.out[0].escalated, 1);
        one_free(&n);
    }
    tw_free(exact, 1);
    tw_free(x, 1);
}

/* f64: results beside a midpoint by 2^-107 of themselves, where 64 digits see a tie; and arguments so small that only the second term counts. */
VN_TEST(escalate, second_terms_of_f64) {
    static const struct {
        const char *op;
        double x;
    } cases[] = {{"Exp", 0x1p-53},
                 {"Exp", -0x1p-54},
                 {"Cosh", 0x1p-26},
                 {"Cosh", 0x1.8p-25},
                 {"Sigmoid", 0x1p-52},
                 {"Sigmoid", -0x1p-53},
                 {"Gelu", 0x1p-1020},
                 {"Gelu", -0x1p-60},
                 {"Mish", 0x1p-60},
                 {"Elu", -0x1p-54},
                 {"Celu", -0x1p-54},
                 {"Exp", 0x1.9e9cbbfd6080bp-31},
                 {"Log", 0x1.62a88613629b5p+678}};
    mpfr_t *exact = tw_new(1), *x = tw_new(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const tw_function_t *f = tw_function(cases[i].op, NULL);
        one_node_t n = {.domain = f->domain, .op = f->op, .version = f->version, .n_in = 1, .want = VN_WANT_BOUND};
        n.in[0] = one_scalar(t, VN_F64, cases[i].x);
        one_run(t, &n);
        mpfr_set_d(x[0], cases[i].x, MPFR_RNDN);
        f->exact(exact[0], x[0], f->p);
        check_rounded(t, cases[i].op, &n.out[0], (const mpfr_t *)exact);
        one_free(&n);
    }
    tw_free(exact, 1);
    tw_free(x, 1);
}

/* Subnormals of narrow types: half of an odd one is a midpoint, and the sign of the second term decides. */
VN_TEST(escalate, halves_of_subnormals) {
    static const char *const ops[] = {"Gelu", "Swish", "HardSwish"};
    static const vn_dtype_t types[] = {VN_F32, VN_BF16, VN_F16};
    enum { N = 64 };
    mpfr_t *exact = tw_new(N), *x = tw_new(1);
    for (size_t o = 0; o < sizeof ops / sizeof *ops; ++o)
        for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
            const tw_function_t *f = tw_function(ops[o], NULL);
            const double eta = vn_format_info(vn_format_of(types[k]))->eta;
            double v[N];
            for (int i = 0; i < N; ++i) {
                v[i] = (i - N / 2) * eta;
                mpfr_set_d(x[0], v[i], MPFR_RNDN);
                f->exact(exact[i], x[0], f->p);
            }
            one_node_t n = {.domain = f->domain, .op = f->op, .version = f->version, .n_in = 1, .want = VN_WANT_BOUND};
            n.in[0] = one_vector(t, types[k], N, v);
            one_run(t, &n);
            check_rounded(t, ops[o], &n.out[0], (const mpfr_t *)exact);
            if (types[k] != VN_F16) VN_ASSERT_GE(t, n.out[0].escalated, N / 2 - 1); /* f64 sees the second term of 2^-24 */
            one_free(&n);
        }
    tw_free(exact, N);
    tw_free(x, 1);
}

/* Exact powers beside and on ties; roots; powers of two down to half the smallest number. */
VN_TEST(escalate, exact_powers) {
    static const double pairs[][2] = {{4097, 2}, {297 * 297, 1.5}, {2, -150},    {2, -149},  {-2, 3},  {4097, 2.5}, {3, 15},
                                      {-3, 15},  {1.0625, 4.0},    {0.5, 149.5}, {4, -74.5}, {9, 7.5}, {81, 3.25},  {0x1.000002p0, 0.5},
                                      {10, 7},   {10, -3}};
    enum { N = sizeof pairs / sizeof *pairs };
    mpfr_t *exact = tw_new(N), *x = tw_new(2);
    double a[N], b[N];
    for (int i = 0; i < N; ++i) {
        a[i] = pairs[i][0];
        b[i] = pairs[i][1];
        mpfr_set_d(x[0], a[i], MPFR_RNDN);
        mpfr_set_d(x[1], b[i], MPFR_RNDN);
        mpfr_pow(exact[i], x[0], x[1], MPFR_RNDN);
    }
    for (int type = 0; type < 2; ++type) {
        one_node_t n = node("Pow", 15, 2);
        n.in[0] = one_vector(t, type ? VN_F64 : VN_F32, N, a);
        n.in[1] = one_vector(t, type ? VN_F64 : VN_F32, N, b);
        one_run(t, &n);
        check_rounded(t, "Pow", &n.out[0], (const mpfr_t *)exact);
        VN_ASSERT(t, type || n.out[0].escalated > 0); /* 64 digits decide these in f64 */
        one_free(&n);
    }
    tw_free(exact, N);
    tw_free(x, 2);
}

/* ---- whole tensors: few digits make ties common, and a double rounding would show ---- */

enum { ROWS = 48, N = 12 };
static const vn_dtype_t narrow[] = {VN_F32, VN_F16, VN_BF16};

static vn_tensor_t *few_digits(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type, int shift, double *x) {
    const vn_format_t f = vn_format_of(type);
    for (int i = 0; i < ROWS * N; ++i)
        x[i] = vn_round_to(f, ldexp((double)vn_rng_below(rng, 64) - 31, shift - (int)vn_rng_below(rng, (uint64_t)vn_format_info(f)->p)),
                           VN_RNE, true);
    return twin_tensor(t, type, TWIN_DIMS(ROWS, N), x);
}

VN_TEST(escalate, ties_of_sums) {
    static const struct {
        const char *op;
        tw_reduce_t kind;
    } kinds[] = {{"ReduceSum", TW_SUM}, {"ReduceMean", TW_MEAN}, {"ReduceL1", TW_L1}, {"ReduceL2", TW_L2}, {"ReduceSumSquare", TW_SQUARES}};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS);
    int64_t escalated = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
        for (int type = 0; type < 3; ++type) {
            double x[ROWS * N];
            one_node_t n = node(kinds[k].op, 18, 2);
            n.in[0] = few_digits(t, &rng, narrow[type], 0, x);
            n.in[1] = one_ints(t, VN_I64, 1, (const int64_t[]){1});
            one_run(t, &n);
            for (int r = 0; r < ROWS; ++r) tw_reduce(exact[r], kinds[k].kind, x + r * N, N);
            check_rounded(t, kinds[k].op, &n.out[0], (const mpfr_t *)exact);
            escalated += n.out[0].escalated;
            one_free(&n);
        }
    VN_ASSERT(t, escalated > 10);
    tw_free(exact, ROWS);
}

VN_TEST(escalate, ties_of_prefixes_windows_and_means) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS * N);
    int64_t escalated = 0;
    for (int type = 0; type < 3; ++type) {
        double x[ROWS * N], y[ROWS * N];
        one_node_t n = node("CumSum", 14, 2);
        n.in[0] = few_digits(t, &rng, narrow[type], 0, x);
        n.in[1] = one_scalar(t, VN_I64, 1);
        one_run(t, &n);
        for (int r = 0; r < ROWS; ++r) tw_prefix(exact + r * N, x + r * N, N, false, false, false);
        check_rounded(t, n.op, &n.out[0], (const mpfr_t *)exact);
        escalated += n.out[0].escalated;
        one_free(&n);

        n = node("GlobalAveragePool", 1, 1);
        n.in[0] = twin_tensor(t, narrow[type], TWIN_DIMS(1, ROWS, N), x);
        one_run(t, &n);
        for (int r = 0; r < ROWS; ++r) tw_reduce(exact[r], TW_MEAN, x + r * N, N);
        check_rounded(t, n.op, &n.out[0], (const mpfr_t *)exact);
        escalated += n.out[0].escalated;
        one_free(&n);

        n = node("Mean", 13, 3);
        n.in[0] = twin_tensor(t, narrow[type], TWIN_DIMS(ROWS, N), x);
        n.in[1] = few_digits(t, &rng, narrow[type], -2, y);
        n.in[2] = twin_tensor(t, narrow[type], TWIN_DIMS(N), x); /* broadcast */
        one_run(t, &n);
        for (int i = 0; i < ROWS * N; ++i) tw_reduce(exact[i], TW_MEAN, (const double[]){x[i], y[i], x[i % N]}, 3);
        check_rounded(t, n.op, &n.out[0], (const mpfr_t *)exact);
        escalated += n.out[0].escalated;
        one_free(&n);
    }
    VN_ASSERT(t, escalated > 10);
    tw_free(exact, ROWS * N);
}

/* Products that nearly cancel: the value is all rounding error of f64, or lies on a tie. */
VN_TEST(escalate, products) {
    enum { M = 5 };
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS * M);
    int64_t escalated = 0;
    for (int gemm = 0; gemm < 2; ++gemm)
        for (int type = 0; type < 3; ++type)
            for (int wide = 0; wide < 2; ++wide) {
                double a[ROWS * N], b[N * M], c[M];
                one_node_t n = node(gemm ? "Gemm" : "MatMul", 13, gemm ? 3 : 2);
                if (wide) {
                    twin_fill(&rng, TWIN_WIDE, vn_format_of(narrow[type]), a, ROWS * N);
                    n.in[0] = twin_tensor(t, narrow[type], TWIN_DIMS(ROWS, N), a);
                } else {
                    n.in[0] = few_digits(t, &rng, narrow[type], 0, a);
                }
                for (int i = 0; i < N * M; ++i)
                    b[i] = vn_round_to(vn_format_of(narrow[type]), i / M % 2 ? -b[i - M] : vn_rng_normal(&rng), VN_RNE, true);
                for (int i = 0; i < ROWS * N; ++i)
                    if (i % 2 && wide) a[i] = a[i - 1]; /* against weights of the other sign */
                vn_tensor_from_f64(n.in[0], a, VN_RNE, false);
                for (int i = 0; i < M; ++i) c[i] = ldexp(1, -(int)vn_rng_below(&rng, 12));
                n.in[1] = twin_tensor(t, narrow[type], TWIN_DIMS(N, M), b);
                if (gemm) n.in[2] = twin_tensor(t, narrow[type], TWIN_DIMS(M), c);
                one_run(t, &n);
                for (int i = 0; i < ROWS * M; ++i) {
                    mpfr_set_d(exact[i], gemm ? c[i % M] : 0, MPFR_RNDN);
                    tw_dot(exact[i], a + i / M * N, 1, b + i % M, M, N);
                }
                check_rounded(t, n.op, &n.out[0], (const mpfr_t *)exact);
                escalated += n.out[0].escalated;
                one_free(&n);
            }
    VN_ASSERT(t, escalated > 10);
    tw_free(exact, ROWS * M);
}

/* Einsum of one to three operands whose terms nearly cancel; a label that is summed in one operand only. */
VN_TEST(escalate, einsum) {
    enum { I = 4, K = 40, J = 3 };
    static const struct {
        const char *equation;
        int operands;
    } cases[] = {{"ik->i", 1}, {"ik,kj->ij", 2}, {"ik,kj->ji", 2}, {"ik,kj,k->ij", 3}};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(I * J), *term = tw_new(1);
    int64_t escalated = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c)
        for (int type = 0; type < 3; ++type) {
            double a[I * K], b[K * J], v[K];
            one_node_t n = node("Einsum", 12, cases[c].operands);
            n.attrs[0] = (one_attr_t){.name = "equation", .kind = ONE_TEXT, .text = cases[c].equation};
            twin_fill(&rng, TWIN_WIDE, vn_format_of(narrow[type]), a, I * K);
            for (int k = 0; k < K; ++k) {
                for (int i = 0; i < I && k % 2; ++i) a[i * K + k] = cases[c].operands == 1 ? -a[i * K + k - 1] : a[i * K + k - 1];
                for (int j = 0; j < J; ++j)
                    b[k * J + j] = vn_round_to(vn_format_of(narrow[type]), k % 2 ? -b[(k - 1) * J + j] : vn_rng_normal(&rng), VN_RNE, true);
                v[k] = k % 2 ? v[k - 1] : ldexp(1, -(int)vn_rng_below(&rng, 9));
            }
            n.in[0] = twin_tensor(t, narrow[type], TWIN_DIMS(I, K), a);
            if (cases[c].operands > 1) n.in[1] = twin_tensor(t, narrow[type], TWIN_DIMS(K, J), b);
            if (cases[c].operands > 2) n.in[2] = twin_tensor(t, narrow[type], TWIN_DIMS(K), v);
            one_run(t, &n);
            const int columns = cases[c].operands > 1 ? J : 1;
            for (int i = 0; i < I; ++i)
                for (int j = 0; j < columns; ++j) {
                    mpfr_t *to = &exact[strcmp(cases[c].equation, "ik,kj->ji") != 0 ? i * columns + j : j * I + i];
                    mpfr_set_zero(*to, 1);
                    for (int k = 0; k < K; ++k) {
                        mpfr_set_d(term[0], a[i * K + k], MPFR_RNDN);
                        if (cases[c].operands > 1) mpfr_mul_d(term[0], term[0], b[k * J + j], MPFR_RNDN);
                        if (cases[c].operands > 2) mpfr_mul_d(term[0], term[0], v[k], MPFR_RNDN);
                        mpfr_add(*to, *to, term[0], MPFR_RNDN);
                    }
                }
            check_rounded(t, cases[c].equation, &n.out[0], (const mpfr_t *)exact);
            escalated += n.out[0].escalated;
            one_free(&n);
        }
    VN_ASSERT(t, escalated > 10);
    tw_free(exact, I * J);
    tw_free(term, 1);
}

/* Losses: one label's score, weighted, added, divided by the weights; scores of one sample differ by less than f64 sees of their logarithm. */
VN_TEST(escalate, losses) {
    enum { SAMPLES = 24, CLASSES = 5 };
    static const vn_dtype_t types[] = {VN_F64, VN_F32, VN_F16};
    static const char *const reductions[] = {"none", "sum", "mean"};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(SAMPLES), *part = tw_new(3);
    int64_t escalated = 0;
    for (int soft = 0; soft < 2; ++soft)
        for (int how = 0; how < 3; ++how)
            for (int type = 0; type < 3; ++type)
                for (int weighted = 0; weighted < 2; ++weighted) {
                    double x[SAMPLES * CLASSES], w[CLASSES], labels[SAMPLES];
                    const vn_format_t f = vn_format_of(types[type]);
                    one_node_t n = node(soft ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss", 13, weighted ? 3 : 2);
                    n.attrs[0] = (one_attr_t){.name = "reduction", .kind = ONE_TEXT, .text = reductions[how]};
                    for (int i = 0; i < SAMPLES; ++i) {
                        labels[i] = (double)vn_rng_below(&rng, CLASSES);
                        for (int k = 0; k < CLASSES; ++k)
                            x[i * CLASSES + k] =
                                vn_round_to(f, i % 2 ? ldexp(1, -(int)vn_rng_below(&rng, 12)) : vn_rng_normal(&rng), VN_RNE, true);
                    }
                    for (int k = 0; k < CLASSES; ++k) w[k] = vn_round_to(f, k % 2 ? 0.5 : vn_rng_uniform(&rng) + 0.25, VN_RNE, true);
                    n.in[0] = twin_tensor(t, types[type], TWIN_DIMS(SAMPLES, CLASSES), x);
                    n.in[1] = twin_tensor(t, VN_I64, TWIN_DIMS(SAMPLES), labels);
                    if (weighted) n.in[2] = twin_tensor(t, types[type], TWIN_DIMS(CLASSES), w);
                    one_run(t, &n);
                    mpfr_set_zero(exact[0], 1);
                    mpfr_set_zero(part[2], 1); /* the weights */
                    for (int i = 0; i < SAMPLES; ++i) {
                        const double *row = x + i * CLASSES, weight = weighted ? w[(int)labels[i]] : 1;
                        mpfr_set_zero(part[0], 1);
                        for (int k = 0; k < CLASSES && soft; ++k) {
                            mpfr_set_d(part[1], row[k], MPFR_RNDN);
                            mpfr_exp(part[1], part[1], MPFR_RNDN);
                            mpfr_add(part[0], part[0], part[1], MPFR_RNDN);
                        }
                        if (soft) mpfr_log(part[0], part[0], MPFR_RNDN);
                        mpfr_sub_d(part[0], part[0], row[(int)labels[i]], MPFR_RNDN);
                        mpfr_mul_d(part[0], part[0], weight, MPFR_RNDN);
                        mpfr_add_d(part[2], part[2], weight, MPFR_RNDN);
                        if (how == 0) mpfr_set(exact[i], part[0], MPFR_RNDN);
                        else mpfr_add(exact[0], exact[0], part[0], MPFR_RNDN);
                    }
                    if (how == 2) mpfr_div(exact[0], exact[0], part[2], MPFR_RNDN);
                    check_rounded(t, n.op, &n.out[0], (const mpfr_t *)exact);
                    escalated += n.out[0].escalated;
                    one_free(&n);
                }
    VN_ASSERT(t, escalated > 20);
    tw_free(exact, SAMPLES);
    tw_free(part, 3);
}

/* Rows through softmax and the norms; differences that f64 cannot hold; equal rows. */
VN_TEST(escalate, rows) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS * N), *x = tw_new(N);
    for (int type = 0; type < 3; ++type)
        for (int data = 0; data <= TWIN_OFFSET; ++data) {
            const vn_format_t f = vn_format_of(narrow[type]);
            double v[ROWS * N], gamma[N], beta[N];
            for (int r = 0; r < ROWS; ++r) twin_fill(&rng, (twin_data_t)data, f, v + r * N, N);
            for (int log = 0; log < 2; ++log) {
                one_node_t n = node(log ? "LogSoftmax" : "Softmax", 13, 1);
                n.in[0] = twin_tensor(t, narrow[type], TWIN_DIMS(ROWS, N), v);
                one_run(t, &n);
                /* beside a tie the logarithm may be as small as e^-3000, and still decides */
                for (int i = 0; i < ROWS * N; ++i) mpfr_set_prec(exact[i], log && data == TWIN_WIDE ? 5000 : TW_BITS);
                for (int r = 0; r < ROWS; ++r) {
                    tw_load(x, v + r * N, N);
                    tw_softmax(exact + r * N, x, N, log);
                }
                check_rounded(t, n.op, &n.out[0], (const mpfr_t *)exact);
                one_free(&n);
            }
            for (int i = 0; i < ROWS * N; ++i) mpfr_set_prec(exact[i], TW_BITS);
            twin_fill(&rng, TWIN_RANDOM, f, gamma, N);
            for (int i = 0; i < N; ++i) beta[i] = vn_round_to(f, ldexp(vn_rng_normal(&rng), (int)vn_rng_below(&rng, 12)), VN_RNE, true);
            for (int centred = 0; centred < 2; ++centred) {
                one_node_t n = node(centred ? "LayerNormalization" : "RMSNormalization", 23, centred ? 3 : 2);
                n.in[0] = twin_tensor(t, narrow[type], TWIN_DIMS(ROWS, N), v);
                n.in[1] = one_vector(t, narrow[type], N, gamma);
                if (centred) n.in[2] = one_vector(t, narrow[type], N, beta);
                one_run(t, &n);
                for (int r = 0; r < ROWS; ++r)
                    tw_normalise(exact + r * N, v + r * N, gamma, centred ? beta : NULL, N, 1e-5f /* the operator's default */, centred);
                check_rounded(t, n.op, &n.out[0], (const mpfr_t *)exact);
                one_free(&n);
            }
        }
    tw_free(exact, ROWS * N);
    tw_free(x, N);
}

/* A row that gives no more digits: what may be a tie is counted, and the other neighbour is as good. */
VN_TEST(escalate, what_stays_open_is_counted) {
    one_node_t n = node("DeformConv", 19, 3); /* has no second evaluation */
    n.in[0] =
        twin_tensor(t, VN_BF16, TWIN_DIMS(1, 1, 1, 2), (const double[]){256, 262}); /* 259 lies between two members, whose distance is 2 */
    n.in[1] = twin_tensor(t, VN_BF16, TWIN_DIMS(1, 1, 1, 1), (const double[]){1});
    n.in[2] = twin_tensor(t, VN_BF16, TWIN_DIMS(1, 2, 1, 2), (const double[]){0, 0, 0.5, 0});
    one_run(t, &n);
    const vn_ref_t *r = &n.out[0];
    int64_t choices = 0;
    VN_ASSERT(t, r->undecided > 0 && r->escalated == 0 && r->either != NULL);
    for (int64_t i = 0; i < r->count; ++i) {
        const double a = vn_tensor_get_f64(r->tensor, i), b = vn_tensor_get_f64(r->either, i);
        if (a == b) continue;
        ++choices;
        VN_ASSERT_DEQ(t, fabs(a - b), 2);
        VN_ASSERT_DEQ(t, (a + b) / 2, r->value[i]);
    }
    VN_ASSERT_EQ(t, choices, r->undecided);
    one_free(&n);
}

VN_TEST_MAIN(VN_CASE(escalate, one_rounding_of_a_pair), VN_CASE(escalate, hard_cases_of_f32), VN_CASE(escalate, second_terms_of_f64),
             VN_CASE(escalate, halves_of_subnormals), VN_CASE(escalate, exact_powers), VN_CASE(escalate, ties_of_sums),
             VN_CASE(escalate, ties_of_prefixes_windows_and_means), VN_CASE(escalate, products), VN_CASE(escalate, einsum),
             VN_CASE(escalate, losses), VN_CASE(escalate, rows), VN_CASE(escalate, what_stays_open_is_counted))
