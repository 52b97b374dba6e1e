/* What is said where no rule holds: unrelated values in a tail or a tile, one wrong row, old content under a sum; strings and bool, too. */
#include <stdio.h>
#include <string.h>

#include "judge/judge_case.h"

enum { ROWS = 24, COLS = 32, N = ROWS * COLS };

static double a[N], b[N], noise[N], y[N], x[N];

static void product(vn_test_t *t, jc_t *c) {
    vn_rng_t rng;
    vn_rng_seed(&rng, 21);
    for (int i = 0; i < N; ++i) {
        a[i] = vn_rng_normal(&rng);
        b[i] = vn_rng_normal(&rng);
        noise[i] = vn_rng_normal(&rng);
    }
    jc_new(t, c, "portable");
    jc_in(t, c, VN_F32, JC_DIMS(ROWS, 20), a);
    jc_in(t, c, VN_F32, JC_DIMS(20, COLS), b);
    jc_op(t, c, "MatMul", 13, 1);
    jc_oracle(t, c);
    vn_tensor_to_f64(c->refs[0].tensor, y);
    memcpy(x, y, sizeof x);
}

static const vn_finding_t *returns(vn_test_t *t, jc_t *c) {
    jc_gives(c, 0, jc_tensor(t, VN_F32, JC_DIMS(ROWS, COLS), x));
    const vn_finding_t *f = jc_judge(t, c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    return f;
}

VN_TEST(guess, unrelated_values) {
    jc_t c;
    product(t, &c);
    for (int i = 0; i < N; ++i) x[i] = i % COLS >= COLS - 3 ? 3 * noise[i] : y[i];
    const vn_finding_t *f = returns(t, &c);
    VN_ASSERT_STR(t, f->cause, "tail-unwritten");
    VN_ASSERT_HAS(t, f->words, "the last 3 columns");
    for (int i = 0; i < N; ++i) x[i] = i / COLS >= 4 && i / COLS < 12 && i % COLS >= 8 && i % COLS < 16 ? 3 * noise[i] : y[i];
    f = returns(t, &c);
    VN_ASSERT_STR(t, f->cause, "stale-buffer");
    VN_ASSERT_HAS(t, f->words, "rows 4-11, columns 8-15");
    for (int i = 0; i < N; ++i) x[i] = i % COLS >= COLS - 3 ? 0.9 * y[i] + noise[i] / 4 : y[i]; /* a tail, but of related values */
    f = returns(t, &c);
    VN_ASSERT(t, strcmp(f->cause, "tail-unwritten") != 0);
    jc_free(&c);
}

VN_TEST(guess, one_slice) {
    jc_t c;
    product(t, &c);
    for (int i = 0; i < N; ++i) x[i] = i / COLS == 7 ? y[i] + noise[i] / 8 : y[i];
    const vn_finding_t *f = returns(t, &c);
    VN_ASSERT_STR(t, f->cause, "row-wrong");
    VN_ASSERT_HAS(t, f->words, "row 7");
    for (int i = 0; i < N; ++i) x[i] = i / COLS == 7 || i / COLS == 9 ? y[i] + noise[i] / 8 : y[i]; /* two rows: said, but not named */
    f = returns(t, &c);
    VN_ASSERT_STR(t, f->cause, "");
    VN_ASSERT_HAS(t, f->words, "rows 7, 9");
    jc_free(&c);
}

VN_TEST(guess, old_content) {
    jc_t c;
    product(t, &c);
    for (int i = 0; i < N; ++i) x[i] = y[i] + noise[i];
    const vn_finding_t *f = returns(t, &c);
    VN_ASSERT_STR(t, f->cause, "stale-buffer");
    for (int i = 0; i < N; ++i) x[i] = y[i] + noise[i] / 4096; /* as small as narrow arithmetic makes it */
    f = returns(t, &c);
    VN_ASSERT(t, strcmp(f->cause, "stale-buffer") != 0);
    for (int i = 0; i < N; ++i) x[i] = y[i] + noise[i % COLS]; /* common to columns: an addend */
    f = returns(t, &c);
    VN_ASSERT(t, strcmp(f->cause, "stale-buffer") != 0);
    for (int i = 0; i < N; ++i) x[i] = y[i] + 0.4 * y[i] * noise[i]; /* grows with the value */
    f = returns(t, &c);
    VN_ASSERT(t, strcmp(f->cause, "stale-buffer") != 0);
    jc_free(&c);
}

/* Among many values some other one is near: a single wrong element that equals it tells nothing. */
VN_TEST(guess, one_element_among_many) {
    jc_t c;
    product(t, &c);
    x[100] = y[700] * (1 + 0x1p-22); /* no neighbour, no other slice */
    const vn_finding_t *f = returns(t, &c);
    VN_ASSERT_STR(t, f->cause, "");
    VN_ASSERT_HAS(t, f->words, "one element");
    jc_free(&c);
}

/* One number is no evidence for any factor but the simplest. */
VN_TEST(guess, one_number) {
    static const struct {
        double factor;
        const char *cause;
    } cases[] = {{0.25, "constant-ratio"}, {2, "constant-ratio"}, {0.73, ""}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
        jc_t c;
        jc_new(t, &c, "portable");
        for (int i = 0; i < 64; ++i) a[i] = 1 + i % 7 * 0.37;
        jc_in(t, &c, VN_F32, JC_DIMS(64), a);
        jc_op(t, &c, "ReduceL1", 18, 1);
        VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "keepdims", 1, NULL));
        jc_oracle(t, &c);
        const double due = vn_tensor_get_f64(c.refs[0].tensor, 0);
        jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(1), (double[]){due * cases[k].factor}));
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_VERDICT(t, f, VN_BUG);
        if (*cases[k].cause) VN_ASSERT_STR(t, f->cause, cases[k].cause);
        else VN_ASSERT(t, strcmp(f->cause, "constant-ratio") != 0);
        jc_free(&c);
    }
}

/* Texts have no room: equality is the test. */
VN_TEST(guess, strings_are_moved) {
    jc_t c;
    jc_new(t, &c, "portable");
    vn_tensor_t *in, *out;
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 2, (int64_t[]){6, 5}, &in, NULL));
    for (int64_t i = 0; i < 30; ++i) {
        char text[32];
        snprintf(text, sizeof text, "text %lld", (long long)i);
        VN_ASSERT_OK(t, vn_tensor_set_string(in, i, text, strlen(text), NULL));
    }
    VN_ASSERT_OK_ERR(t, vn_graph_add_input(c.model->graph, "a", VN_STRING, 2, in->dims, &c.err), c.err);
    c.in[c.n_in++] = vn_value_tensor(in);
    jc_op(t, &c, "Transpose", 21, 1);
    jc_oracle(t, &c);
    for (int k = 0; k < 2; ++k) { /* reversed rows; a row that holds the one before */
        VN_ASSERT_OK(t, vn_tensor_copy(c.refs[0].tensor, &out, NULL));
        const vn_string_t *s = c.refs[0].tensor->data;
        for (int64_t i = 0; i < 30; ++i) {
            const int64_t j = k ? (i / 6 == 3 ? i - 6 : i) : (4 - i / 6) * 6 + i % 6;
            VN_ASSERT_OK(t, vn_tensor_set_string(out, i, s[j].text, s[j].length, NULL));
        }
        jc_gives(&c, 0, out);
        const vn_finding_t *f = jc_judge(t, &c);
        VN_ASSERT_VERDICT(t, f, VN_BUG);
        VN_ASSERT_STR(t, f->cause, k ? "row-wrong" : "permuted");
    }
    jc_free(&c);
}

/* Two values only: where they are wrong is the evidence. */
VN_TEST(guess, truth_values_are_moved) {
    jc_t c;
    vn_rng_t rng;
    vn_rng_seed(&rng, 22);
    for (int i = 0; i < 256; ++i) {
        a[i] = vn_rng_normal(&rng);
        b[i] = vn_rng_normal(&rng);
    }
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(16, 16), a);
    jc_in(t, &c, VN_F32, JC_DIMS(16, 16), b);
    jc_op(t, &c, "Less", 13, 1);
    jc_oracle(t, &c);
    vn_tensor_to_f64(c.refs[0].tensor, y);
    for (int i = 0; i < 256; ++i) x[i] = y[i % 16 * 16 + i / 16];
    jc_gives(&c, 0, jc_tensor(t, VN_BOOL, JC_DIMS(16, 16), x));
    const vn_finding_t *f = jc_judge(t, &c);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "transposed");
    for (int i = 0; i < 256; ++i) x[i] = vn_rng_below(&rng, 2) ? y[i] : 1 - y[i]; /* coin tosses */
    jc_gives(&c, 0, jc_tensor(t, VN_BOOL, JC_DIMS(16, 16), x));
    f = jc_judge(t, &c);
    VN_ASSERT_STR(t, f->cause, "");
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(guess, unrelated_values), VN_CASE(guess, one_slice), VN_CASE(guess, old_content),
             VN_CASE(guess, one_element_among_many), VN_CASE(guess, one_number), VN_CASE(guess, strings_are_moved),
             VN_CASE(guess, truth_values_are_moved))
