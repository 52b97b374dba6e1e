/* Rungs 1 to 5 and 2 end to end: form, repeat, classes, bound, readings; an injected fault is a bug with its documented cause, at its place. */
#include "judge/judge_case.h"

enum { M = 6, K = 40, N = 8, COUNT = M * N };
static double a[M * K], b[K * N], y[COUNT], z[COUNT];

/* MatMul on normal data; y is a correct sequential result. */
static void product(vn_test_t *t, jc_t *c) {
    static const jc_arithmetic_t right = {.acc = VN_FMT_F32};
    vn_rng_t rng = vn_test_rng(t);
    jc_fill(&rng, JC_NORMAL, a, M * K);
    jc_fill(&rng, JC_NORMAL, b, K * N);
    jc_matmul(t, c, "portable", M, K, N, a, b);
    jc_product(&right, M, K, N, a, b, y);
    memcpy(z, y, sizeof z);
}

static const vn_finding_t *judged(vn_test_t *t, jc_t *c, const double *values) {
    jc_gives(c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), values));
    return jc_judge(t, c);
}

VN_TEST(ladder, correct_results_pass_and_say_what_was_tried) {
    jc_t c;
    product(t, &c);
    const vn_finding_t *f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_EXPLAINED);
    VN_ASSERT_EQ(t, f->count, COUNT);
    VN_ASSERT_EQ(t, f->outside, 0);
    VN_ASSERT_EQ(t, f->deterministic, -1);
    VN_ASSERT_LE(t, f->error_over_bound, 1);
    VN_ASSERT_STR(t, f->cause, "");
    VN_ASSERT_HAS(t, f->rungs, "form ok; equality ");
    VN_ASSERT_HAS(t, f->rungs, "classes ok; bound kept, ");
    VN_ASSERT_HAS(t, f->rungs, "fingerprint rms ");
    VN_ASSERT_HAS(t, f->declared, "portable");
    jc_gives(&c, 0, vn_tensor_retain(c.refs[0].tensor)); /* the correctly rounded oracle */
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_EXACT);
    VN_ASSERT_EQ(t, f->unequal, 0);
    VN_ASSERT_EQ(t, f->first.index, -1);
    jc_free(&c);
}

/* ---- rung 1 ---- */

VN_TEST(ladder, form) {
    jc_t c;
    product(t, &c);
    jc_gives(&c, 0, NULL);
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "output-missing");
    VN_ASSERT_STR(t, f->rungs, "form broken");

    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(N, M), y));
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "shape");
    VN_ASSERT_HAS(t, f->words, "f32[8,6]");
    VN_ASSERT_HAS(t, f->words, "f32[6,8]");
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(1, M, N), y));
    VN_ASSERT_STR(t, jc_judge(t, &c)->cause, "shape");

    c.poison[0] = 5;
    f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "tail-unwritten");
    VN_ASSERT_HAS(t, f->words, "5 of 48 elements still hold");
    c.guard[0] = true; /* written beyond the buffer outranks all that is inside it */
    f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "memory-overrun");
    c.poison[0] = 0;
    c.guard[0] = false;

    vn_value_t *item = vn_value_tensor(jc_tensor(t, VN_F32, JC_DIMS(M, N), y)), *items[] = {item};
    vn_value_free(c.actual[0]);
    c.actual[0] = vn_value_list(VN_VALUE_SEQUENCE, VN_F32, items, 1);
    vn_value_free(item);
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_HAS(t, f->words, "A sequence was returned where a tensor is due");
    jc_free(&c);
}

VN_TEST(ladder, another_element_type_is_never_a_silent_pass) {
    jc_t c;
    product(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_F64, JC_DIMS(M, N), y));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_CONTRACT_MISMATCH);
    VN_ASSERT_STR(t, f->cause, "result-type:f64");
    VN_ASSERT_HAS(t, f->words, "f64[6,8] was returned, f32[6,8] is due");
    z[5] += 1; /* wrong values in a wrong type: the values decide */
    jc_gives(&c, 0, jc_tensor(t, VN_F64, JC_DIMS(M, N), z));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    const int64_t dims[] = {M, N};
    vn_tensor_t *text;
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 2, dims, &text, NULL));
    jc_gives(&c, 0, text);
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "result-type:string");
    jc_free(&c);
}

/* A wider type holds what the due type cannot: 1e10 is no i32, 1.5 no integer, 1e300 no f32. */
VN_TEST(ladder, another_element_type_is_judged_without_wrapping) {
    jc_t c;
    const double x[] = {7, 8, 9, 2};
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_I32, JC_DIMS(4), x);
    jc_op(t, &c, "Identity", 13, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_I64, JC_DIMS(4), x));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_CONTRACT_MISMATCH);
    const double wrapped[] = {7, 8, 9 + 0x1p32, 2};
    jc_gives(&c, 0, jc_tensor(t, VN_I64, JC_DIMS(4), wrapped));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    const double fraction[] = {7, 8.5, 9, 2};
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), fraction));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    jc_free(&c);
}

/* ---- rung 2 ---- */

VN_TEST(ladder, repeat) {
    static const jc_arithmetic_t other = {.acc = VN_FMT_F32, .order = JC_REVERSED};
    jc_t c;
    product(t, &c);
    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), y));
    const vn_finding_t *f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_EXPLAINED);
    VN_ASSERT_EQ(t, f->deterministic, 1);
    VN_ASSERT_HAS(t, f->rungs, "repeat equal");

    jc_product(&other, M, K, N, a, b, z); /* both runs are right: only the order of summation varies */
    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), z));
    f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_NONDETERMINISTIC);
    VN_ASSERT_STR(t, f->cause, "order-nondeterminism");
    VN_ASSERT_EQ(t, f->deterministic, 0);
    VN_ASSERT_HAS(t, f->words, "both are inside the bound");

    z[3] = 0; /* in the second run */
    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), z));
    f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_NONDETERMINISTIC);
    VN_ASSERT_STR(t, f->cause, "race");
    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), y)); /* in the first */
    VN_ASSERT_STR(t, judged(t, &c, z)->cause, "race");

    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(N, M), y)); /* another shape the second time */
    f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_NONDETERMINISTIC);
    VN_ASSERT_STR(t, f->cause, "race");
    jc_gives_again(&c, 0, NULL); /* nothing the second time */
    f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_NONDETERMINISTIC);
    VN_ASSERT_STR(t, f->cause, "race");

    z[3] = NAN; /* equal in both runs, NaN included: wrong, but the same */
    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), z));
    f = judged(t, &c, z);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_EQ(t, f->deterministic, 1);
    jc_free(&c);
}

/* ---- rungs 4 and 5: faults ---- */

typedef struct fault {
    const char *what, *cause;
    void (*inject)(double *x);
    int64_t first; /* -1: not checked */
} fault_t;

static void drop_term(double *x) { x[13] = (float)(x[13] - (double)(float)(a[1 * K + 7] * b[7 * N + 5])); }
static void swap_rows(double *x) {
    for (int j = 0; j < N; ++j) {
        const double s = x[2 * N + j];
        x[2 * N + j] = x[3 * N + j];
        x[3 * N + j] = s;
    }
}
static void zero_tile(double *x) {
    for (int i = 2; i < 5; ++i)
        for (int j = 4; j < 8; ++j) x[i * N + j] = 0;
}
static void one_nan(double *x) { x[17] = NAN; }
static void one_inf(double *x) { x[17] = -INFINITY; }
static void sign(double *x) { x[30] = -x[30]; }
static void ratio(double *x) {
    for (int i = 0; i < COUNT; ++i) x[i] = (float)(x[i] * (1 + 0x1p-10));
}
static void transposed(double *x) {
    double old[COUNT];
    memcpy(old, x, sizeof old);
    for (int i = 0; i < COUNT; ++i) x[i] = old[i % M * N + i / M];
}
static void all_zero(double *x) { memset(x, 0, COUNT * sizeof *x); }

static const fault_t faults[] = {
    {"dropped term", "term-dropped", drop_term, 13},
    {"swapped rows", "permuted", swap_rows, 16},
    {"zero tile", "zeros", zero_tile, 20},
    {"NaN", "nan-produced", one_nan, 17},
    {"infinity", "inf-produced", one_inf, 17},
    {"sign of one element", "", sign, 30},
    {"constant ratio", "constant-ratio", ratio, -1},
    {"transposed", "transposed", transposed, -1},
    {"all zero", "zeros", all_zero, 0},
};

VN_TEST(ladder, injected_faults_are_bugs_with_their_cause) {
    jc_t c;
    product(t, &c);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) {
        memcpy(z, y, sizeof z);
        faults[i].inject(z);
        const vn_finding_t *f = judged(t, &c, z);
        if (f->verdict != VN_BUG || strcmp(f->cause, faults[i].cause) != 0)
            vn_test_fail(t, __FILE__, __LINE__, "%s: %s '%s'; %s; %s", faults[i].what, vn_verdict_name(f->verdict), f->cause, f->words,
                         f->rungs);
        VN_ASSERT_GT(t, f->outside, 0);
        VN_ASSERT_GT(t, f->error_over_bound, 1);
        VN_ASSERT_GT(t, f->impact, 0);
        VN_ASSERT_HAS(t, f->words, "first at [");
        if (faults[i].first >= 0) {
            VN_ASSERT_EQ(t, f->first.index, faults[i].first);
            VN_ASSERT_EQ(t, f->first.at[0], faults[i].first / N);
            VN_ASSERT_EQ(t, f->first.at[1], faults[i].first % N);
            VN_ASSERT(t, f->first.actual == z[f->first.index] || isnan(z[f->first.index]));
        }
    }
    jc_free(&c);
}

/* A result that is not even a number outweighs every wrong one. */
VN_TEST(ladder, impact_of_nan_is_infinite) {
    jc_t c;
    product(t, &c);
    one_nan(z);
    VN_ASSERT(t, isinf(judged(t, &c, z)->impact));
    memcpy(z, y, sizeof z);
    z[0] += 1;
    const double finite = judged(t, &c, z)->impact;
    VN_ASSERT(t, isfinite(finite));
    double rms = 0;
    for (int i = 0; i < COUNT; ++i) rms += c.refs[0].value[i] * c.refs[0].value[i];
    VN_ASSERT_LE(t, fabs(finite - (double)(float)(y[0] + 1) / sqrt(rms / COUNT) + c.refs[0].value[0] / sqrt(rms / COUNT)), 1e-12);
    jc_free(&c);
}

VN_TEST(ladder, nan_operands_demand_nan) {
    double x[] = {1, NAN, 3, INFINITY}, right[] = {1, NAN, 3, INFINITY}, wrong[] = {1, 0, 3, INFINITY};
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(4), x);
    jc_op(t, &c, "Neg", 13, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 4; ++i) {
        right[i] = -right[i];
        wrong[i] = -wrong[i];
    }
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), right));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_EXACT);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), wrong));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    VN_ASSERT_STR(t, c.found[0].cause, "nan-ignored");
    jc_free(&c);
}

/* Integers and moved bits have no room at all. */
VN_TEST(ladder, exact_classes_demand_every_bit) {
    jc_t c;
    const double x[] = {3, -4, 0, 7, 1, 9}, turned[] = {3, 7, -4, 1, 0, 9};
    double wrong[6];
    for (int floats = 0; floats < 2; ++floats) {
        const vn_dtype_t type = floats ? VN_F32 : VN_I32;
        jc_new(t, &c, "fast");
        jc_in(t, &c, type, JC_DIMS(2, 3), x);
        jc_op(t, &c, "Transpose", 13, 1);
        jc_oracle(t, &c);
        jc_gives(&c, 0, jc_tensor(t, type, JC_DIMS(3, 2), turned));
        VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_EXACT);
        memcpy(wrong, turned, sizeof wrong);
        wrong[3] = floats ? 1 + 0x1p-23 : 2;
        jc_gives(&c, 0, jc_tensor(t, type, JC_DIMS(3, 2), wrong));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_VERDICT(t, f, VN_BUG);
        VN_ASSERT_EQ(t, f->outside, 1);
        VN_ASSERT_EQ(t, f->first.index, 3);
        VN_ASSERT_GT(t, f->error_over_bound, 1);
        VN_ASSERT(t, isfinite(f->impact));
        jc_free(&c);
    }
}

VN_TEST(ladder, integers_of_half_the_width_are_named) {
    static const double left[4] = {-0x1p63, 0x1p40, 5, -0x1p33}, right[4] = {8, 3, 7, -1}, half[4] = {8, 3, 12, -1},
                        other[4] = {8, 3, 13, -1};
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_I64, JC_DIMS(4), left);
    jc_in(t, &c, VN_I64, JC_DIMS(4), right);
    jc_op(t, &c, "Add", 14, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_I64, JC_DIMS(4), half));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "i64-as-i32");
    jc_gives(&c, 0, jc_tensor(t, VN_I64, JC_DIMS(4), other));
    f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "");
    jc_free(&c);
}

/* Integers may hold the byte that fills buffers by right: it is news only where values are wrong as well. */
VN_TEST(ladder, the_fill_pattern_in_integers_is_no_fault_by_itself) {
    static const double x[4] = {165, 1, 165, 7}, wrong[4] = {165, 1, 165, 165};
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_U8, JC_DIMS(4), x);
    jc_op(t, &c, "Identity", 16, 1);
    jc_oracle(t, &c);
    c.poison[0] = 2;
    jc_gives(&c, 0, jc_tensor(t, VN_U8, JC_DIMS(4), x));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_EXACT);
    c.poison[0] = 3;
    jc_gives(&c, 0, jc_tensor(t, VN_U8, JC_DIMS(4), wrong));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "tail-unwritten");
    VN_ASSERT_HAS(t, f->words, "1 of 4 elements are wrong, and 3 hold");
    jc_free(&c);
}

VN_TEST(ladder, several_outputs_are_judged_apart) {
    const double x[] = {5, 1, 4, 2}, k[] = {2}, values[] = {5, 4}, index[] = {0, 2}, wrong[] = {0, 3};
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(4), x);
    jc_in(t, &c, VN_I64, JC_DIMS(1), k);
    jc_op(t, &c, "TopK", 11, 2);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(2), values));
    jc_gives(&c, 1, jc_tensor(t, VN_I64, JC_DIMS(2), wrong));
    jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, &c.found[0], VN_EXACT);
    VN_ASSERT_VERDICT(t, &c.found[1], VN_BUG);
    jc_gives(&c, 1, jc_tensor(t, VN_I64, JC_DIMS(2), index));
    jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, &c.found[1], VN_EXACT);
    jc_free(&c);
}

/* ---- readings ---- */

VN_TEST(ladder, a_reading_of_an_open_text_is_named) {
    const double x[] = {1, NAN, 5, 2, 8, 3}, ignored[] = {2, 1}, mixed[] = {2, 0};
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(2, 3), x);
    jc_op(t, &c, "ArgMax", 13, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "axis", 1, NULL));
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "keepdims", 0, NULL));
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_I64, JC_DIMS(2), ignored));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_SPEC_OPEN);
    VN_ASSERT_STR(t, f->note, "nan-ignored");
    VN_ASSERT_HAS(t, f->words, "leaves this open");
    jc_gives(&c, 0, jc_tensor(t, VN_I64, JC_DIMS(2), mixed)); /* one element of no reading */
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    jc_free(&c);
}

/* ---- nothing learned ---- */

VN_TEST(ladder, a_check_that_could_not_fail_is_uninformative) {
    jc_t c;
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    jc_matmul(t, &c, "portable", M, K, N, a, b);
    memset(y, 0, sizeof y);
    const vn_finding_t *f = judged(t, &c, y);
    VN_ASSERT_VERDICT(t, f, VN_UNINFORMATIVE);
    VN_ASSERT_HAS(t, f->note, "caught none");
    VN_ASSERT_EQ(t, f->detection_caught, 0);
    y[3] = 1e-30; /* zeros in, anything but zero out */
    VN_ASSERT_VERDICT(t, judged(t, &c, y), VN_BUG);
    jc_free(&c);
}

VN_TEST(ladder, random_operators_are_judged_by_form_and_range) {
    const double shape[] = {0.5, 0.25, 0.75, 0.125};
    double outside[] = {0.5, 0.25, 7, 0.125};
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(4), shape);
    jc_op(t, &c, "RandomUniformLike", 1, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), shape));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_UNINFORMATIVE);
    VN_ASSERT_HAS(t, c.found[0].note, "random operator");
    const double another[] = {0.75, 0.5, 0.25, 0.5}; /* a second draw differs, and may */
    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), another));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_UNINFORMATIVE);
    VN_ASSERT_EQ(t, c.found[0].deterministic, -1);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), outside));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    VN_ASSERT_HAS(t, c.found[0].words, "outside [0, 1]");
    outside[2] = NAN;
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(4), outside));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    jc_free(&c);
}

VN_TEST(ladder, empty_outputs_are_exact) {
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(0, 3), y);
    jc_op(t, &c, "Relu", 14, 1);
    jc_oracle(t, &c);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(0, 3), y));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_EXACT);
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(3, 0), y));
    VN_ASSERT_STR(t, jc_judge(t, &c)->cause, "shape");
    jc_free(&c);
}

VN_TEST(ladder, allocations_that_fail_are_errors) {
    jc_t c;
    product(t, &c);
    z[9] += 1; /* a failing case climbs to the top */
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), z));
    jc_gives_again(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(M, N), z));
    const vn_question_t q = jc_question(&c);
    const vn_finding_t whole = *jc_judge(t, &c);
    const int before = vn_threads_get();
    int failed = 0;
    vn_threads_set(1);
    for (int n = 1; n < 400; n += n < 24 ? 1 : 29) {
        vn_alloc_fail_at(n);
        const vn_status_t s = vn_judge(&q, c.found, &c.err);
        vn_alloc_fail_at(0);
        if (s == VN_OK) { /* none was due, or it was only a figure that may be missing: never another verdict */
            VN_ASSERT_VERDICT(t, &c.found[0], whole.verdict);
            continue;
        }
        ++failed;
        VN_ASSERT_EQ(t, s, VN_ERR_NOMEM);
    }
    VN_ASSERT_GT(t, failed, 10);
    vn_threads_set(before);
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(ladder, correct_results_pass_and_say_what_was_tried), VN_CASE(ladder, form),
             VN_CASE(ladder, another_element_type_is_never_a_silent_pass), VN_CASE(ladder, another_element_type_is_judged_without_wrapping),
             VN_CASE(ladder, repeat), VN_CASE(ladder, injected_faults_are_bugs_with_their_cause),
             VN_CASE(ladder, impact_of_nan_is_infinite), VN_CASE(ladder, nan_operands_demand_nan),
             VN_CASE(ladder, exact_classes_demand_every_bit), VN_CASE(ladder, the_fill_pattern_in_integers_is_no_fault_by_itself),
             VN_CASE(ladder, integers_of_half_the_width_are_named), VN_CASE(ladder, several_outputs_are_judged_apart),
             VN_CASE(ladder, a_reading_of_an_open_text_is_named), VN_CASE(ladder, a_check_that_could_not_fail_is_uninformative),
             VN_CASE(ladder, random_operators_are_judged_by_form_and_range), VN_CASE(ladder, empty_outputs_are_exact),
             VN_CASE(ladder, allocations_that_fail_are_errors))
