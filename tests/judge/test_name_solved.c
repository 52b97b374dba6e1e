/* Claims NAME-EPS-1 and NAME-PARAMETER-1: the number a kernel used in place of an attribute is found from the data, whatever it is. */
#include "judge/name_case.h"
#include "judge/semantic.h"

static double x[NC_MAX], y[NC_MAX], scale[64], bias[64];
enum { ROWS = 6, N = 40 };

static void set_float(vn_test_t *t, jc_t *c, const char *name, double v) {
    VN_ASSERT_OK_ERR(t, vn_node_set_float(c->model, c->node, name, (float)v, &c->err), c->err);
}

static double direct(double v, double eps) { return 1 / sqrt(v + eps); }
static double outside(double v, double eps) { return 1 / (sqrt(v) + eps); }
static double least(double v, double eps) { return 1 / sqrt(fmax(v, eps)); }
static double sample(double v, double eps) { return 1 / sqrt(v * N / (N - 1) + eps); }

/* Rows of N with spreads from 1 down: normalised by this rule. rms: the mean stays. */
static void normalise(bool rms, double eps, double (*root)(double, double)) {
    for (int r = 0; r < ROWS; ++r) {
        double m = 0, v = 0;
        for (int i = 0; i < N; ++i) m += x[r * N + i] / N;
        if (rms) m = 0;
        for (int i = 0; i < N; ++i) v += (x[r * N + i] - m) * (x[r * N + i] - m) / N;
        for (int i = 0; i < N; ++i) y[r * N + i] = (x[r * N + i] - m) * root(v, eps) * scale[i] + (rms ? 0 : bias[i]);
    }
}

static void layer(vn_test_t *t, jc_t *c, vn_rng_t *rng, vn_dtype_t type, bool rms, double eps) {
    jc_new(t, c, "portable");
    for (int r = 0; r < ROWS; ++r) nc_fill(rng, x + r * N, N, ldexp(1, -r));
    nc_fill(rng, scale, N, 1);
    nc_fill(rng, bias, N, 1);
    for (int i = 0; i < ROWS * N; ++i) x[i] = vn_round_to(vn_format_of(type), x[i], VN_RNE, false);
    for (int i = 0; i < N; ++i) scale[i] = vn_round_to(vn_format_of(type), scale[i], VN_RNE, false);
    for (int i = 0; i < N; ++i) bias[i] = vn_round_to(vn_format_of(type), bias[i], VN_RNE, false);
    jc_in(t, c, type, JC_DIMS(ROWS, N), x);
    jc_in(t, c, type, JC_DIMS(N), scale);
    if (!rms) jc_in(t, c, type, JC_DIMS(N), bias);
    jc_op(t, c, rms ? "RMSNormalization" : "LayerNormalization", 23, 1);
    set_float(t, c, "epsilon", eps);
    jc_oracle(t, c);
}

VN_TEST(name_solved, epsilon_of_rows) {
    static const struct {
        double used;
        const char *cause;
    } eps[] = {{0, "eps:0"}, {1e-3, "eps:0.001"}, {0.0078125, "eps:0.0078125"}, {2.5e-2, "eps:0.025"}, {0.03137, "eps:0.03137"}};
    vn_rng_t rng = vn_test_rng(t);
    for (int rms = 0; rms < 2; ++rms) {
        jc_t c;
        layer(t, &c, &rng, VN_F32, rms, 0.3);
        for (size_t k = 0; k < sizeof eps / sizeof *eps; ++k) {
            normalise(rms, eps[k].used, direct);
            VN_ASSERT_CAUSE(t, &c, y, eps[k].cause);
            VN_ASSERT_HAS(t, c.found[0].words, "in place of 0.3");
        }
        jc_free(&c);
    }
}

VN_TEST(name_solved, epsilon_in_sixteen_bits) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    layer(t, &c, &rng, VN_BF16, true, 1e-6);
    normalise(true, 0.1, direct);
    VN_ASSERT_CAUSE(t, &c, y, "eps:0.1");
    jc_free(&c);
    layer(t, &c, &rng, VN_F16, false, 0.05);
    normalise(false, 1e-5, direct);
    const vn_finding_t *f = nc_answer(t, &c, y);
    VN_ASSERT(t, strncmp(f->cause, "eps:", 4) == 0 && fabs(strtod(f->cause + 4, NULL)) < 1e-4); /* 16 bits tell no more */
    jc_free(&c);
}

VN_TEST(name_solved, rules_of_the_root) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    layer(t, &c, &rng, VN_F32, false, 0.01);
    normalise(false, 0.01, outside);
    VN_ASSERT_CAUSE(t, &c, y, "eps-outside-sqrt");
    normalise(false, 0.01, least);
    VN_ASSERT_CAUSE(t, &c, y, "eps-as-floor");
    normalise(false, 0.01, sample);
    VN_ASSERT_CAUSE(t, &c, y, "constant-ratio");
    VN_ASSERT_HAS(t, c.found[0].words, "n - 1");
    jc_free(&c);
}

VN_TEST(name_solved, epsilon_of_channels) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    double mean[4], var[4];
    jc_new(t, &c, "portable");
    nc_fill(&rng, x, 2 * 4 * 9, 1);
    nc_fill(&rng, scale, 4, 1);
    nc_fill(&rng, bias, 4, 1);
    nc_fill(&rng, mean, 4, 1);
    nc_fill(&rng, var, 4, 1);
    for (int i = 0; i < 4; ++i) var[i] = fabs(var[i]);
    jc_in(t, &c, VN_F32, JC_DIMS(2, 4, 9), x);
    const double *const rest[] = {scale, bias, mean, var};
    for (int k = 0; k < 4; ++k) jc_in(t, &c, VN_F32, JC_DIMS(4), rest[k]);
    jc_op(t, &c, "BatchNormalization", 15, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 72; ++i) {
        const int k = i / 9 % 4;
        y[i] = (x[i] - mean[k]) / sqrt(var[k] + 0.05) * scale[k] + bias[k];
    }
    VN_ASSERT_CAUSE(t, &c, y, "eps:0.05");
    jc_free(&c);
}

VN_TEST(name_solved, no_epsilon_explains_other_faults) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    layer(t, &c, &rng, VN_F32, false, 1e-5);
    for (int fault = 0; fault < 4; ++fault) {
        normalise(false, 1e-5, direct);
        if (fault == 0)
            for (int i = 0; i < ROWS * N; ++i) y[i] = 0.9 * y[i];
        if (fault == 1)
            for (int i = 0; i < N; ++i) y[i] = y[N + i];
        if (fault == 2)
            for (int i = 3; i < ROWS * N; i += 11) y[i] += 0.1 * vn_rng_normal(&rng);
        if (fault == 3) {
            normalise(false, 0.2, direct);
            for (int i = 0; i < N; ++i) y[3 * N + i] *= 1.1; /* another epsilon, and one row wrong besides */
        }
        VN_ASSERT_NOT_CAUSE(t, &c, y, "eps attribute-ignored operator:");
    }
    jc_free(&c);
}

static double leaky(double v, double p) { return v < 0 ? p * v : v; }
static double elu(double v, double p) { return v < 0 ? p * expm1(v) : v; }
static double hard_sigmoid(double v, double p) { return fmin(fmax(p * v + 0.5, 0), 1); }
static double thresholded(double v, double p) { return v > p ? v : 0; }

VN_TEST(name_solved, numbers_of_activations) {
    static const struct {
        const char *op;
        double (*f)(double, double);
        double p;
    } cases[] = {
        {"LeakyRelu", leaky, 0.2},
        {"Elu", elu, 0.35},
        {"HardSigmoid", hard_sigmoid, 1.0 / 6},
        {"ThresholdedRelu", thresholded, 0.25},
    };
    vn_rng_t rng = vn_test_rng(t);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
        jc_t c;
        jc_new(t, &c, "portable");
        nc_fill(&rng, x, 400, 1);
        jc_in(t, &c, VN_F32, JC_DIMS(20, 20), x);
        jc_op(t, &c, cases[k].op, 22, 1);
        jc_oracle(t, &c);
        for (int i = 0; i < 400; ++i) y[i] = cases[k].f(x[i], (float)cases[k].p);
        VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:alpha");
        for (int i = 0; i < 400; ++i) y[i] = cases[k].f(x[i], (float)cases[k].p) * (i % 3 ? 1 : 1.3);
        VN_ASSERT_NOT_CAUSE(t, &c, y, "attribute-ignored:alpha operator:");
        jc_free(&c);
    }
}

VN_TEST(name_solved, simple_numbers) {
    double v;
    VN_ASSERT_EQ(t, vn_name_simple(-1e-9, 1e-9, 0, &v), 1);
    VN_ASSERT_DEQ(t, v, 0);
    VN_ASSERT_EQ(t, vn_name_simple(9e-6, 1.1e-5, 0, &v), 1);
    VN_ASSERT_DEQ(t, v, 1e-5);
    VN_ASSERT_EQ(t, vn_name_simple(0.0078, 0.00782, 0, &v), 1);
    VN_ASSERT_DEQ(t, v, 0.0078125);
    VN_ASSERT_EQ(t, vn_name_simple(-0.7501, -0.7499, 0, &v), 2);
    VN_ASSERT(t, fabs(v + 0.75) < 1e-15);
    VN_ASSERT_EQ(t, vn_name_simple(2, 1, 0, &v), 0);
    VN_ASSERT_EQ(t, vn_name_simple(NAN, 1, 0, &v), 0);
    VN_ASSERT_EQ(t, vn_name_simple(1, INFINITY, 1, &v), 0);
}

VN_TEST_MAIN(VN_CASE(name_solved, epsilon_of_rows), VN_CASE(name_solved, epsilon_in_sixteen_bits), VN_CASE(name_solved, rules_of_the_root),
             VN_CASE(name_solved, epsilon_of_channels), VN_CASE(name_solved, no_epsilon_explains_other_faults),
             VN_CASE(name_solved, numbers_of_activations), VN_CASE(name_solved, simple_numbers))
