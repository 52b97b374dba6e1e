/* Structural names: one fault of each kind on several operators and types, planted into the rounded oracle, and faults that must get no such name. */
#include <stdio.h>
#include <string.h>

#include "judge/judge_case.h"

enum { MAX = 4096 };

typedef struct stage {
    jc_t c;
    int rank;
    int64_t dims[VN_MAX_RANK], n, last, rows;
    double y[MAX], x[MAX];
    const double *operand; /* operand 0 where it has the output's shape */
} stage_t;

static double draws[3][MAX];

static void fill(vn_rng_t *rng) {
    for (int k = 0; k < 3; ++k)
        for (int i = 0; i < MAX; ++i) draws[k][i] = vn_rng_normal(rng);
}

/* ---- the operators: a product, a norm with attributes of its own, one rounding, movement, integers ---- */

static void begin(vn_test_t *t, stage_t *s, int which, vn_dtype_t type) {
    jc_new(t, &s->c, "portable");
    s->operand = NULL;
    switch (which) {
    case 0:
        jc_in(t, &s->c, type, JC_DIMS(24, 20), draws[0]);
        jc_in(t, &s->c, type, JC_DIMS(20, 36), draws[1]);
        jc_op(t, &s->c, "MatMul", 13, 1);
        break;
    case 1:
        jc_in(t, &s->c, type, JC_DIMS(3, 5, 40), draws[0]);
        jc_op(t, &s->c, "Softmax", 13, 1);
        break;
    case 2:
        jc_in(t, &s->c, type, JC_DIMS(2, 3, 7, 16), draws[0]);
        jc_in(t, &s->c, type, JC_DIMS(2, 3, 7, 16), draws[1]);
        jc_op(t, &s->c, "Add", 14, 1);
        s->operand = draws[0];
        break;
    default:
        jc_in(t, &s->c, type, JC_DIMS(18, 32), draws[0]);
        jc_op(t, &s->c, "Transpose", 13, 1);
        break;
    }
    jc_oracle(t, &s->c);
    const vn_tensor_t *y = s->c.refs[0].tensor;
    s->rank = y->rank;
    s->n = y->count;
    for (int k = 0; k < y->rank; ++k) s->dims[k] = y->dims[k];
    s->last = y->dims[y->rank - 1];
    s->rows = s->n / s->last;
    vn_tensor_to_f64(y, s->y);
    memcpy(s->x, s->y, sizeof s->x);
}
enum { OPERATORS = 4 };

static const vn_finding_t *judge(vn_test_t *t, stage_t *s) {
    const vn_tensor_t *y = s->c.refs[0].tensor;
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(y->dtype, y->rank, y->dims, &x, NULL));
    for (int64_t i = 0; i < s->n; ++i)
        if (vn_dtype_is_float(y->dtype)) vn_tensor_set_f64(x, i, s->x[i]);
        else vn_tensor_set_i64(x, i, (int64_t)s->x[i]);
    jc_gives(&s->c, 0, x);
    return jc_judge(t, &s->c);
}

/* ---- the faults ---- */

#define EACH(i) for (int64_t i = 0; i < s->n; ++i)
#define ROW(i) ((i) / s->last)
#define COL(i) ((i) % s->last)

static void reversed(stage_t *s) { EACH(i) s->x[i] = s->y[ROW(i) * s->last + s->last - 1 - COL(i)]; }
static void rotated(stage_t *s) { EACH(i) s->x[i] = s->y[ROW(i) * s->last + (COL(i) + 3) % s->last]; }
static void pairs(stage_t *s) { EACH(i) s->x[i] = s->y[ROW(i) * s->last + (COL(i) ^ 1)]; }
static void interleaved(stage_t *s) { EACH(i) s->x[i] = s->y[ROW(i) * s->last + COL(i) % 2 * s->last / 2 + COL(i) / 2]; }
static void rows_swapped(stage_t *s) { EACH(i) s->x[i] = s->y[(ROW(i) == 1 ? 4 : ROW(i) == 4 ? 1 : ROW(i)) * s->last + COL(i)]; }
static void shuffled(stage_t *s) { EACH(i) s->x[i] = s->y[i * 1009 % s->n]; /* 1009: a prime that divides none of the sizes */ }
static void transposed(stage_t *s) { EACH(i) s->x[i] = s->y[i % s->rows * s->last + i / s->rows]; }
static void shifted(stage_t *s) { EACH(i) s->x[i] = COL(i) < 2 ? 0 : s->y[i - 2]; }
static void row_copied(stage_t *s) { EACH(i) s->x[i] = ROW(i) == 5 ? s->y[i - s->last] : s->y[i]; }
static void all_rows(stage_t *s) { EACH(i) s->x[i] = s->y[COL(i)]; }
static void operand_row(stage_t *s) { EACH(i) s->x[i] = ROW(i) == 5 && s->operand ? s->operand[i] : s->y[i]; }
static void tile(stage_t *s) {
    EACH(i) s->x[i] = ROW(i) >= 2 && ROW(i) < 6 && COL(i) >= 8 && COL(i) < 12 ? s->y[i - 8 + s->last] : s->y[i];
}
static void tail(stage_t *s) { EACH(i) s->x[i] = COL(i) >= s->last - 5 ? 0 : s->y[i]; }
static void flat_tail(stage_t *s) { EACH(i) s->x[i] = i >= s->n - 21 ? 0 : s->y[i]; }
static void constant_tail(stage_t *s) { EACH(i) s->x[i] = COL(i) >= s->last - 5 ? 77 : s->y[i]; }
static void lanes(stage_t *s) { EACH(i) s->x[i] = COL(i) % 4 == 3 ? 0 : s->y[i]; }
static void zeros(stage_t *s) { EACH(i) s->x[i] = 0; }
static void row_zero(stage_t *s) { EACH(i) s->x[i] = ROW(i) == 3 ? 0 : s->y[i]; }
static void doubled(stage_t *s) { EACH(i) s->x[i] = 2 * s->y[i]; }
static void row_factor(stage_t *s) { EACH(i) s->x[i] = s->y[i] * (1.5 + (double)ROW(i)); }
static void negated(stage_t *s) { EACH(i) s->x[i] = -s->y[i]; }
static void unsigned_values(stage_t *s) { EACH(i) s->x[i] = fabs(s->y[i]); }
static void nan_rows(stage_t *s) { EACH(i) s->x[i] = ROW(i) == 2 || ROW(i) == 3 ? NAN : s->y[i]; }
static void running(stage_t *s) { EACH(i) s->x[i] = s->y[i] + (ROW(i) ? s->x[i - s->last] : 0); }

static const struct {
    const char *name;
    void (*plant)(stage_t *s);
    const char *cause, *words;
    unsigned operators; /* bit k: of begin */
} faults[] = {
    {"reversed", reversed, "permuted", "reversed", 15},
    {"rotated", rotated, "permuted", "rotated by", 15},
    {"pairs", pairs, "permuted", "exchanged in pairs", 15},
    {"interleaved", interleaved, "permuted", NULL, 15},
    {"rows swapped", rows_swapped, "permuted", NULL, 15},
    {"shuffled", shuffled, "permuted", NULL, 15},
    {"transposed", transposed, "transposed", NULL, 1 + 8},
    {"shifted", shifted, "permuted", "shifted by 2", 15},
    {"row copied", row_copied, "row-wrong", NULL, 15},
    {"all rows", all_rows, "row-wrong", NULL, 15},
    {"row of the operand", operand_row, "row-wrong", "operand 0", 4},
    {"tile", tile, "stale-buffer", NULL, 1 + 4 + 8},
    {"tail", tail, "tail-unwritten", "the last 5", 15},
    {"flat tail", flat_tail, "tail-unwritten", NULL, 15},
    {"constant tail", constant_tail, "tail-unwritten", "the last 5", 15},
    {"lanes", lanes, "lane-unwritten", "3 of every 4", 15},
    {"zeros", zeros, "zeros", "All elements", 15},
    {"row zero", row_zero, "zeros", NULL, 15},
    {"doubled", doubled, "constant-ratio", "twice", 15},
    {"a factor a row", row_factor, "constant-ratio", "factors from 1.5", 1 + 2 + 8},
    {"negated", negated, "sign-flipped", NULL, 15},
    {"sign lost", unsigned_values, "sign-lost", NULL, 1 + 4 + 8},
    {"NaN", nan_rows, "nan-produced", "NaN in", 15},
    {"running sums", running, "stale-buffer", "not cleared", 1 + 2 + 8},
};

static void every_fault(vn_test_t *t, vn_dtype_t type) {
    vn_rng_t rng;
    vn_rng_seed(&rng, 11);
    fill(&rng);
    for (int which = 0; which < OPERATORS; ++which)
        for (size_t k = 0; k < sizeof faults / sizeof *faults; ++k) {
            if (!(faults[k].operators >> which & 1) || (type == VN_I32 && strcmp(faults[k].cause, "nan-produced") == 0)) continue;
            stage_t s;
            begin(t, &s, which, type);
            faults[k].plant(&s);
            const vn_finding_t *f = judge(t, &s);
            VN_ASSERT_VERDICT(t, f, VN_BUG);
            if (strcmp(f->cause, faults[k].cause) != 0)
                vn_test_fail(t, __FILE__, __LINE__, "operator %d, %s, %s: '%s' instead of '%s': %s", which, vn_dtype_name(type),
                             faults[k].name, f->cause, faults[k].cause, f->words);
            if (faults[k].words) VN_ASSERT_HAS(t, f->words, faults[k].words);
            jc_free(&s.c);
        }
}

VN_TEST(pattern, faults_in_f32) { every_fault(t, VN_F32); }
VN_TEST(pattern, faults_in_f16) { every_fault(t, VN_F16); }

/* ---- what must not get a structural name ---- */

static void some_random(stage_t *s) { EACH(i) s->x[i] = i % 11 == 4 && i % 7 != 2 ? draws[2][i] * 2 : s->y[i]; }
static void one_element(stage_t *s) { s->x[s->n / 2] = 3 * s->y[s->n / 2] + 1; }
static void noise(stage_t *s) { EACH(i) s->x[i] = s->y[i] * (1 + 0.05 * draws[2][i]); }
static void grid(stage_t *s) { EACH(i) s->x[i] = rint(s->y[i] * 16) / 16 + 1.0 / 64; }
static void squared(stage_t *s) { EACH(i) s->x[i] = s->y[i] * fabs(s->y[i]); }
static void biased(stage_t *s) { EACH(i) s->x[i] = s->y[i] + draws[2][COL(i)]; }

VN_TEST(pattern, other_faults_are_not_named) {
    static void (*const plant[])(stage_t *) = {some_random, one_element, noise, grid, squared, biased};
    vn_rng_t rng;
    vn_rng_seed(&rng, 12);
    fill(&rng);
    for (int which = 0; which < OPERATORS; ++which)
        for (size_t k = 0; k < sizeof plant / sizeof *plant; ++k) {
            stage_t s;
            begin(t, &s, which, VN_F32);
            plant[k](&s);
            const vn_finding_t *f = judge(t, &s);
            VN_ASSERT_VERDICT(t, f, VN_BUG);
            static const char *const ours[] = {"permuted",       "transposed", "row-wrong", "stale-buffer", "tail-unwritten",
                                               "lane-unwritten", "zeros",      "sign-lost", "sign-flipped", "constant-ratio"};
            for (size_t o = 0; o < sizeof ours / sizeof *ours; ++o)
                if (strcmp(f->cause, ours[o]) == 0)
                    vn_test_fail(t, __FILE__, __LINE__, "operator %d, fault %d is called %s: %s", which, (int)k, f->cause, f->words);
            jc_free(&s.c);
        }
}

/* Equal values fit any rule; no rule may be read into them. */
VN_TEST(pattern, few_values_prove_nothing) {
    vn_rng_t rng;
    vn_rng_seed(&rng, 13);
    for (int i = 0; i < MAX; ++i) draws[0][i] = 1;
    for (int run = 0; run < 8; ++run) {
        stage_t s;
        begin(t, &s, 3, VN_F32);
        for (int64_t i = 0; i < s.n; ++i) s.x[i] = vn_rng_below(&rng, 3) ? 1 : 2; /* ones are right, twos stand anywhere */
        s.x[0] = 2;
        const vn_finding_t *f = judge(t, &s);
        VN_ASSERT_VERDICT(t, f, VN_BUG);
        VN_ASSERT(t, strcmp(f->cause, "permuted") != 0 && strcmp(f->cause, "row-wrong") != 0 && strcmp(f->cause, "constant-ratio") != 0);
        jc_free(&s.c);
    }
}

/* ---- recurrent layers ---- */

VN_TEST(pattern, steps_in_reverse) {
    vn_rng_t rng;
    vn_rng_seed(&rng, 14);
    fill(&rng);
    stage_t s = {.rank = 0};
    jc_new(t, &s.c, "portable");
    jc_in(t, &s.c, VN_F32, JC_DIMS(9, 2, 3), draws[0]); /* steps, batch, input */
    jc_in(t, &s.c, VN_F32, JC_DIMS(1, 12, 3), draws[1]);
    jc_in(t, &s.c, VN_F32, JC_DIMS(1, 12, 4), draws[2]);
    jc_op(t, &s.c, "GRU", 14, 1);
    VN_ASSERT_OK(t, vn_node_set_int(s.c.model, s.c.node, "hidden_size", 4, NULL));
    VN_ASSERT_OK(t, vn_node_set_string(s.c.model, s.c.node, "direction", "reverse", NULL));
    jc_oracle(t, &s.c);
    s.n = s.c.refs[0].tensor->count;
    vn_tensor_to_f64(s.c.refs[0].tensor, s.y);
    const int64_t step = s.n / 9;
    for (int64_t i = 0; i < s.n; ++i) s.x[i] = s.y[(8 - i / step) * step + i % step];
    const vn_finding_t *f = judge(t, &s);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "time-reversed");
    jc_free(&s.c);
}

/* ---- integers ---- */

static const vn_finding_t *index_case(vn_test_t *t, jc_t *c, const char *op, int out, const double *x, const double *right, int64_t n,
                                      int64_t d, const int64_t *answers) {
    vn_tensor_t *k = NULL;
    jc_new(t, c, "portable");
    jc_in(t, c, VN_F32, JC_DIMS(n, d), x);
    if (strcmp(op, "TopK") == 0) k = jc_in(t, c, VN_I64, JC_DIMS(1), right);
    jc_op(t, c, op, strcmp(op, "TopK") == 0 ? 11 : 13, out + 1);
    VN_ASSERT_OK(t, vn_node_set_int(c->model, c->node, "axis", 1, NULL));
    jc_oracle(t, c);
    (void)k;
    for (int o = 0; o <= out; ++o) {
        vn_tensor_t *v;
        VN_ASSERT_OK(t, vn_tensor_copy(c->refs[o].tensor, &v, NULL));
        for (int64_t i = 0; o == out && i < v->count; ++i) vn_tensor_set_i64(v, i, answers[i]);
        jc_gives(c, o, v);
    }
    return jc_judge(t, c) + out;
}

VN_TEST(pattern, indices) {
    double x[4 * 600];
    jc_t c;
    for (int i = 0; i < 2400; ++i) x[i] = (double)(i * 7 % 600) + (i / 600) * 1000; /* a permutation of each row */
    int64_t top[12], at[4];
    for (int r = 0; r < 4; ++r)
        for (int k = 0; k < 3; ++k)
            for (int i = 0; i < 600; ++i)
                if (x[r * 600 + i] == 599 - k + r * 1000) top[r * 3 + k] = i;
    for (int k = 0; k < 12; ++k) top[k] %= 128;
    const vn_finding_t *f = index_case(t, &c, "TopK", 1, x, (double[]){3}, 4, 600, top);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "chunk-offset");
    jc_free(&c);

    for (int i = 0; i < 2400; ++i) x[i] = i * 7 % 600 / 3; /* every value three times in a row */
    for (int r = 0; r < 4; ++r)
        for (int i = 0; i < 600; ++i)
            if (x[r * 600 + i] == 199) at[r] = i; /* the last one stays */
    f = index_case(t, &c, "ArgMax", 0, x, NULL, 4, 600, at);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "argmax-last");
    jc_free(&c);

    for (int r = 0; r < 4; ++r) { /* the one in the middle: no rule */
        int seen = 0;
        for (int i = 0; i < 600; ++i)
            if (x[r * 600 + i] == 199 && ++seen == 2) at[r] = i;
    }
    f = index_case(t, &c, "ArgMax", 0, x, NULL, 4, 600, at);
    VN_ASSERT_STR(t, f->cause, "tie-order");
    jc_free(&c);

    for (int r = 0; r < 4; ++r) at[r] = 17 + r; /* points at other values: none of these */
    f = index_case(t, &c, "ArgMax", 0, x, NULL, 4, 600, at);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT(t, strcmp(f->cause, "tie-order") != 0 && strcmp(f->cause, "argmax-last") != 0 && strcmp(f->cause, "chunk-offset") != 0);
    jc_free(&c);
}

VN_TEST(pattern, integers_saturate_or_wrap) {
    vn_rng_t rng;
    vn_rng_seed(&rng, 15);
    double a[60], b[60];
    for (int i = 0; i < 60; ++i) {
        a[i] = (double)vn_rng_below(&rng, 256) - 128;
        b[i] = (double)vn_rng_below(&rng, 256) - 128;
    }
    stage_t s;
    for (int i = 0; i < 60; ++i) a[i] *= 30;
    jc_new(t, &s.c, "portable"); /* a narrowing cast keeps the low bits */
    jc_in(t, &s.c, VN_I32, JC_DIMS(6, 10), a);
    jc_op(t, &s.c, "Cast", 21, 1);
    VN_ASSERT_OK(t, vn_node_set_int(s.c.model, s.c.node, "to", VN_I8, NULL));
    jc_oracle(t, &s.c);
    s.n = 60;
    for (int i = 0; i < 60; ++i) s.x[i] = fmin(127, fmax(-128, a[i]));
    const vn_finding_t *f = judge(t, &s);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "saturate-i8");
    jc_free(&s.c);

    jc_new(t, &s.c, "portable"); /* i32 products that went through 16 bits */
    jc_in(t, &s.c, VN_I32, JC_DIMS(6, 10), a);
    for (int i = 0; i < 60; ++i) b[i] = b[i] * 1000 + 77;
    jc_in(t, &s.c, VN_I32, JC_DIMS(6, 10), b);
    jc_op(t, &s.c, "Mul", 14, 1);
    jc_oracle(t, &s.c);
    for (int i = 0; i < 60; ++i) s.x[i] = (int16_t)(uint16_t)(int64_t)(a[i] * b[i]);
    f = judge(t, &s);
    VN_ASSERT_STR(t, f->cause, "wrap-i16");
    for (int i = 0; i < 60; ++i) s.x[i] = fmin(32767, fmax(-32768, a[i] * b[i]));
    f = judge(t, &s);
    VN_ASSERT_STR(t, f->cause, "saturate-i16");
    jc_free(&s.c);

    jc_new(t, &s.c, "portable"); /* a sum of large integers through f32 */
    for (int i = 0; i < 60; ++i) b[i] = (double)vn_rng_below(&rng, 1u << 30) - (1 << 29);
    jc_in(t, &s.c, VN_I32, JC_DIMS(6, 10), b);
    jc_in(t, &s.c, VN_I32, JC_DIMS(6, 10), a);
    jc_op(t, &s.c, "Add", 14, 1);
    jc_oracle(t, &s.c);
    for (int i = 0; i < 60; ++i) s.x[i] = (float)(a[i] + b[i]);
    f = judge(t, &s);
    VN_ASSERT_STR(t, f->cause, "result-rounded-to-f32");
    jc_free(&s.c);
}

/* Values beyond a limit stand at it, whatever the limit. */
VN_TEST(pattern, a_result_saturates) {
    vn_rng_t rng;
    vn_rng_seed(&rng, 16);
    fill(&rng);
    stage_t s;
    begin(t, &s, 0, VN_F32);
    for (int64_t i = 0; i < s.n; ++i) s.x[i] = fmin(5.5, fmax(-5.5, s.y[i]));
    const vn_finding_t *f = judge(t, &s);
    VN_ASSERT_VERDICT(t, f, VN_BUG);
    VN_ASSERT_STR(t, f->cause, "saturated:5.5");
    jc_free(&s.c);
}

VN_TEST_MAIN(VN_CASE(pattern, faults_in_f32), VN_CASE(pattern, faults_in_f16), VN_CASE(pattern, other_faults_are_not_named),
             VN_CASE(pattern, few_values_prove_nothing), VN_CASE(pattern, steps_in_reverse), VN_CASE(pattern, indices),
             VN_CASE(pattern, integers_saturate_or_wrap), VN_CASE(pattern, a_result_saturates))
