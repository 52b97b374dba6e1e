/* Claims DRAW-1 to DRAW-5: right generators pass, wrong ones are caught, too few draws prove nothing. */
#include "judge/judge_case.h"

enum { DRAWS = 4096, SEEDS = 1000 };
#define SHAPE(n) JC_DIMS((n) < 16 ? 1 : (n) / 16, (n) < 16 ? (n) : 16)

typedef double (*draw_fn)(vn_rng_t *rng, int64_t i);

static double uniform(vn_rng_t *rng, int64_t i) { return (void)i, vn_rng_uniform(rng); }
static double normal(vn_rng_t *rng, int64_t i) { return (void)i, vn_rng_normal(rng); }
static double coin(vn_rng_t *rng, int64_t i) { return vn_rng_uniform(rng) < 0.25 + 0.5 * (double)(i % 2); }
static double constant(vn_rng_t *rng, int64_t i) { return (void)rng, (void)i, 0.5; }
static double shifted(vn_rng_t *rng, int64_t i) { return 0.25 + normal(rng, i); }
static double wide(vn_rng_t *rng, int64_t i) { return 1.15 * normal(rng, i); }
static double flat(vn_rng_t *rng, int64_t i) { return 3.4641016151377544 * (uniform(rng, i) - 0.5); } /* mean and variance of a normal */
static double sum_of_two(vn_rng_t *rng, int64_t i) { return 0.5 * (uniform(rng, i) + uniform(rng, i)); }
static double half_range(vn_rng_t *rng, int64_t i) { return 0.9 * uniform(rng, i); }
static double fair(vn_rng_t *rng, int64_t i) { return (void)i, vn_rng_uniform(rng) < 0.5; } /* right on average, deaf to p */
static double biased(vn_rng_t *rng, int64_t i) { return vn_rng_uniform(rng) < 0.35 + 0.5 * (double)(i % 2); }
static double again(vn_rng_t *rng, int64_t i) { /* every value twice */
    static double last;
    return i % 2 ? last : (last = uniform(rng, i));
}

/* A case of one operator on DRAWS elements. Odd elements of the operand are 0.75, even ones 0.25: probabilities for Bernoulli. */
static void open_case(vn_test_t *t, jc_t *c, const char *op, vn_dtype_t type, int64_t n) {
    double *p = vn_alloc((size_t)n, sizeof *p);
    for (int64_t i = 0; i < n; ++i) p[i] = 0.25 + 0.5 * (double)(i % 2);
    jc_new(t, c, "portable");
    jc_in(t, c, type, SHAPE(n), p);
    jc_op(t, c, op, 22, 1);
    jc_oracle(t, c);
    vn_free(p);
}

static vn_finding_t *judged(vn_test_t *t, jc_t *c, vn_rng_t *rng, draw_fn draw, vn_dtype_t type, int64_t n) {
    double *x = vn_alloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; ++i) x[i] = draw(rng, i);
    jc_gives(c, 0, jc_tensor(t, type, SHAPE(n), x));
    vn_free(x);
    return jc_judge(t, c);
}

VN_TEST(distribution, right_generators_pass) {
    static const struct {
        const char *op;
        vn_dtype_t type;
        draw_fn draw;
    } kinds[] = {{"RandomUniformLike", VN_F32, uniform}, {"RandomNormalLike", VN_F32, normal},  {"Bernoulli", VN_F32, coin},
                 {"RandomUniformLike", VN_F16, uniform}, {"RandomNormalLike", VN_BF16, normal}, {"RandomNormalLike", VN_F64, normal}};
    vn_rng_t rng = vn_test_rng(t);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
        jc_t c;
        open_case(t, &c, kinds[k].op, kinds[k].type, 128);
        for (int s = 0; s < (k < 3 ? SEEDS : 50) * vn_test_scale(t); ++s) {
            const vn_finding_t *f = judged(t, &c, &rng, kinds[k].draw, kinds[k].type, 128);
            VN_ASSERT_VERDICT(t, f, VN_EXPLAINED);
            VN_ASSERT_HAS(t, f->note, "distribution was tested");
            VN_ASSERT_GT(t, f->detection_caught, 0);
        }
        jc_free(&c);
    }
}

VN_TEST(distribution, wrong_generators_are_caught) {
    static const struct {
        const char *op;
        draw_fn draw;
        const char *why;
    } kinds[] = {
        {"RandomUniformLike", constant, "distribution"},
        {"RandomUniformLike", sum_of_two, "distribution"},
        {"RandomUniformLike", half_range, "distribution"},
        {"RandomUniformLike", again, "correlation"},
        {"RandomNormalLike", shifted, "mean"},
        {"RandomNormalLike", wide, "squares"},
        {"RandomNormalLike", flat, "distribution"},
        {"RandomNormalLike", uniform, "distribution"},
        {"RandomUniformLike", normal, "outside [0, 1]"},
        {"Bernoulli", fair, "probabilities"},
        {"Bernoulli", biased, "ones beyond"},
        {"Bernoulli", uniform, "neither 0 nor 1"},
    };
    vn_rng_t rng = vn_test_rng(t);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
        jc_t c;
        open_case(t, &c, kinds[k].op, VN_F32, DRAWS);
        for (int s = 0; s < 2; ++s) {
            const vn_finding_t *f = judged(t, &c, &rng, kinds[k].draw, VN_F32, DRAWS);
            VN_ASSERT_VERDICT(t, f, VN_BUG);
            VN_ASSERT_HAS(t, f->words, kinds[k].why);
        }
        jc_free(&c);
    }
}

/* The first half of the draws given twice: every element is right, together they are not. */
VN_TEST(distribution, repeated_blocks) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    double *x = vn_alloc(DRAWS, sizeof *x);
    open_case(t, &c, "RandomNormalLike", VN_F32, DRAWS);
    for (int64_t i = 0; i < DRAWS; ++i) x[i] = i < DRAWS / 2 ? vn_rng_normal(&rng) : x[i - DRAWS / 2];
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(DRAWS / 16, 16), x));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    for (int64_t i = 0; i < DRAWS; ++i) x[i] = i < 16 ? vn_rng_normal(&rng) : x[i - 16]; /* one row, over and over */
    jc_gives(&c, 0, jc_tensor(t, VN_F32, JC_DIMS(DRAWS / 16, 16), x));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    VN_ASSERT_STR(t, c.found[0].cause, "distribution");
    vn_free(x);
    jc_free(&c);
}

static double opposite(vn_rng_t *rng, int64_t i) { return vn_rng_uniform(rng) > 0.25 + 0.5 * (double)(i % 2); }

/* The standard's function body of Bernoulli contradicts its text. */
VN_TEST(distribution, bernoulli_by_its_function_body) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    open_case(t, &c, "Bernoulli", VN_F32, DRAWS);
    VN_ASSERT_VERDICT(t, judged(t, &c, &rng, opposite, VN_F32, DRAWS), VN_SPEC_OPEN);
    VN_ASSERT_STR(t, c.found[0].note, "ones-with-probability-1-p");
    jc_free(&c);
}

VN_TEST(distribution, few_draws_prove_nothing) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    open_case(t, &c, "RandomNormalLike", VN_F32, 8);
    VN_ASSERT_VERDICT(t, judged(t, &c, &rng, normal, VN_F32, 8), VN_UNINFORMATIVE);
    VN_ASSERT_HAS(t, c.found[0].note, "too few");
    jc_free(&c);
}

/* ---- Multinomial ---- */

VN_TEST(distribution, choices) {
    const double logits[] = {0, 0, 0, -INFINITY, 1, 2, 0, 0};
    double p[2][4], x[2 * 512];
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(2, 4), logits);
    jc_op(t, &c, "Multinomial", 22, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "sample_size", 512, &c.err));
    jc_oracle(t, &c);
    for (int r = 0; r < 2; ++r) {
        double sum = 0;
        for (int k = 0; k < 4; ++k) sum += exp(logits[4 * r + k]);
        for (int k = 0; k < 4; ++k) p[r][k] = exp(logits[4 * r + k]) / sum;
    }
    for (int s = 0; s < 20 * vn_test_scale(t); ++s) {
        for (int i = 0; i < 1024; ++i) {
            double left = vn_rng_uniform(&rng);
            int k = 0;
            while (k < 3 && (left -= p[i / 512][k]) >= 0) ++k;
            x[i] = k == 3 && i < 512 ? 2 : k; /* class 3 of row 0 has probability 0 */
        }
        jc_gives(&c, 0, jc_tensor(t, VN_I32, JC_DIMS(2, 512), x));
        VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_EXPLAINED);
    }
    for (int i = 0; i < 512; ++i) { /* rows exchanged: each class of row 0 has the numbers of row 1 */
        const double y = x[i];
        x[i] = x[512 + i] == 3 ? 0 : x[512 + i];
        x[512 + i] = y;
    }
    jc_gives(&c, 0, jc_tensor(t, VN_I32, JC_DIMS(2, 512), x));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    VN_ASSERT_HAS(t, c.found[0].words, "beyond its number");
    x[7] = 3;
    jc_gives(&c, 0, jc_tensor(t, VN_I32, JC_DIMS(2, 512), x));
    VN_ASSERT_VERDICT(t, jc_judge(t, &c), VN_BUG);
    VN_ASSERT_HAS(t, c.found[0].words, "probability 0");
    jc_free(&c);
}

/* ---- Dropout ---- */

static void drop(vn_test_t *t, jc_t *c, vn_rng_t *rng, const double *x, double keep, double scale, bool lie) {
    double *y = vn_alloc(DRAWS, sizeof *y), *mask = vn_alloc(DRAWS, sizeof *mask);
    for (int64_t i = 0; i < DRAWS; ++i) {
        mask[i] = vn_rng_uniform(rng) < keep;
        y[i] = mask[i] != 0 ? x[i] * scale : 0;
    }
    if (lie) mask[17] = 1 - mask[17];
    jc_gives(c, 0, jc_tensor(t, VN_F32, JC_DIMS(DRAWS), y));
    jc_gives(c, 1, jc_tensor(t, VN_BOOL, JC_DIMS(DRAWS), mask));
    vn_free(y);
    vn_free(mask);
    jc_judge(t, c);
}

VN_TEST(distribution, dropout) {
    vn_rng_t rng = vn_test_rng(t);
    const double ratio = 0.3125, yes = 1, scale = 1 / (1 - ratio);
    double *x = vn_alloc(DRAWS, sizeof *x);
    jc_t c;
    for (int64_t i = 0; i < DRAWS; ++i) x[i] = (float)vn_rng_normal(&rng);
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(DRAWS), x);
    jc_in(t, &c, VN_F32, JC_DIMS(-1), &ratio);
    jc_in(t, &c, VN_BOOL, JC_DIMS(-1), &yes);
    jc_op(t, &c, "Dropout", 13, 2);
    jc_oracle(t, &c);
    for (int s = 0; s < 20; ++s) {
        drop(t, &c, &rng, x, 1 - ratio, scale, false);
        VN_ASSERT_VERDICT(t, &c.found[0], VN_EXPLAINED);
        VN_ASSERT_VERDICT(t, &c.found[1], VN_EXPLAINED);
    }
    drop(t, &c, &rng, x, 0.5, scale, false); /* another ratio */
    VN_ASSERT_VERDICT(t, &c.found[0], VN_BUG);
    VN_ASSERT_VERDICT(t, &c.found[1], VN_BUG);
    VN_ASSERT_STR(t, c.found[0].cause, "distribution");
    drop(t, &c, &rng, x, 1 - ratio, 1, false); /* not scaled */
    VN_ASSERT_VERDICT(t, &c.found[0], VN_BUG);
    VN_ASSERT_HAS(t, c.found[0].words, "scaled operand");
    drop(t, &c, &rng, x, 1 - ratio, scale, true); /* the mask belongs to another draw */
    VN_ASSERT_VERDICT(t, &c.found[0], VN_BUG);
    VN_ASSERT_STR(t, c.found[0].cause, "dropout-mask");
    vn_free(x);
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(distribution, right_generators_pass), VN_CASE(distribution, wrong_generators_are_caught),
             VN_CASE(distribution, repeated_blocks), VN_CASE(distribution, bernoulli_by_its_function_body),
             VN_CASE(distribution, few_draws_prove_nothing), VN_CASE(distribution, choices), VN_CASE(distribution, dropout))
