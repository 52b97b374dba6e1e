/* Values of reductions, softmax, losses, scans and norms against MPFR: inside the oracle's own error, on random, structured and edge data. */
#include <stdio.h>

#include "twin_case.h"

enum { ROWS = 3, MAX_N = 130 };
static const int64_t sizes[] = {1, 2, 5, 32, 129};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* One run over all data, sizes and both types; `each` builds the node, evaluates and checks ROWS rows of n. */
typedef struct setting {
    vn_test_t *t;
    vn_rng_t *rng;
    vn_dtype_t type;
    int64_t n;
    const char *data;
    double *x;
    mpfr_t *y;
    int row; /* of the family's table */
} setting_t;

static void everywhere(vn_test_t *t, int rows, bool (*fits)(int row, twin_data_t data), void (*each)(const setting_t *s)) {
    static const vn_dtype_t types[] = {VN_F32, VN_F64};
    vn_rng_t rng = vn_test_rng(t);
    double x[ROWS * MAX_N];
    mpfr_t *y = tw_new(ROWS * MAX_N);
    for (int row = 0; row < rows; ++row)
        for (int type = 0; type < 2; ++type)
            for (int d = 0; d < TWIN_DATA; ++d)
                for (int k = 0; k < SIZES; ++k) {
                    if (!fits(row, (twin_data_t)d)) continue;
                    for (int r = 0; r < ROWS; ++r) twin_fill(&rng, (twin_data_t)d, vn_format_of(types[type]), x + r * sizes[k], sizes[k]);
                    const setting_t s = {
                        .t = t, .rng = &rng, .type = types[type], .n = sizes[k], .data = twin_data_names[d], .x = x, .y = y, .row = row};
                    each(&s);
                }
    tw_free(y, ROWS * MAX_N);
}

static void check(const setting_t *s, const char *op, const vn_ref_t *r, int64_t i, const mpfr_t exact) {
    char what[160];
    snprintf(what, sizeof what, "%s, %s, %s data, n %lld", op, vn_dtype_name(s->type), s->data, (long long)s->n);
    twin_value(s->t, what, r, i, exact);
}

/* ---- reductions ---- */

static const char *const reduce_ops[] = {"ReduceSum",  "ReduceMean",   "ReduceL1",        "ReduceL2",  "ReduceSumSquare",
                                         "ReduceProd", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin"};

/* A product of 129 wide numbers leaves f64; squares of the largest f64 too; a logarithm needs a positive sum. */
static bool reduce_fits(int kind, twin_data_t d) {
    if (kind == TW_PROD) return d != TWIN_HUGE && d != TWIN_SUBNORMAL && d != TWIN_OFFSET;
    if (kind == TW_LOGSUM) return d == TWIN_POSITIVE || d == TWIN_OFFSET;
    return true;
}

static void reduce_each(const setting_t *s) {
    const bool squares = s->row == TW_L2 || s->row == TW_SQUARES;
    if (squares && s->type == VN_F64 && (s->data == twin_data_names[TWIN_HUGE] || s->data == twin_data_names[TWIN_SUBNORMAL])) return;
    one_node_t c = {.op = reduce_ops[s->row], .version = 18, .n_in = 2, .want = VN_WANT_BOUND};
    c.in[0] = twin_tensor(s->t, s->type, TWIN_DIMS(ROWS, s->n), s->x);
    c.in[1] = one_ints(s->t, VN_I64, 1, (int64_t[]){1});
    one_run(s->t, &c);
    for (int r = 0; r < ROWS; ++r) {
        tw_reduce(s->y[0], (tw_reduce_t)s->row, s->x + r * s->n, s->n);
        check(s, c.op, &c.out[0], r, s->y[0]);
    }
    one_free(&c);
}

VN_TEST(values, reductions) { everywhere(t, 10, reduce_fits, reduce_each); }

/* ---- softmax and losses ---- */

static bool any_data(int row, twin_data_t d) {
    (void)row;
    (void)d;
    return true;
}
static bool not_huge(int row, twin_data_t d) {
    (void)row;
    return d != TWIN_HUGE;
}

static void softmax_each(const setting_t *s) {
    one_node_t c = {.op = s->row ? "LogSoftmax" : "Softmax", .version = 13, .n_in = 1, .want = VN_WANT_BOUND};
    c.in[0] = twin_tensor(s->t, s->type, TWIN_DIMS(ROWS, s->n), s->x);
    one_run(s->t, &c);
    for (int r = 0; r < ROWS; ++r) {
        tw_load(s->y, s->x + r * s->n, s->n);
        tw_softmax(s->y, s->y, s->n, s->row);
        for (int64_t k = 0; k < s->n; ++k) check(s, c.op, &c.out[0], r * s->n + k, s->y[k]);
    }
    one_free(&c);
}

VN_TEST(values, softmax) { everywhere(t, 2, any_data, softmax_each); }

/* x: n samples of ROWS classes; weights 1/2, 1, 3/2. */
static void loss_each(const setting_t *s) {
    static const char *const reductions[] = {"none", "sum", "mean"};
    const double weights[ROWS] = {0.5, 1, 1.5};
    const bool cross = s->row >= 3;
    one_node_t c = {.op = cross ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
                    .version = 13,
                    .n_in = 3,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"reduction", ONE_TEXT, 0, reductions[s->row % 3]}}};
    int64_t labels[MAX_N];
    mpfr_t sum, part;
    mpfr_inits2(TW_BITS, sum, part, (mpfr_ptr)0);
    mpfr_set_zero(sum, 1);
    double total = 0;
    c.in[0] = twin_tensor(s->t, s->type, TWIN_DIMS(s->n, ROWS), s->x);
    for (int64_t i = 0; i < s->n; ++i) labels[i] = (int64_t)vn_rng_below(s->rng, ROWS);
    c.in[1] = one_ints(s->t, VN_I64, s->n, labels);
    c.in[2] = one_vector(s->t, s->type, ROWS, weights);
    one_run(s->t, &c);
    for (int64_t i = 0; i < s->n; ++i) {
        tw_load(s->y, s->x + i * ROWS, ROWS);
        if (cross) tw_softmax(s->y, s->y, ROWS, true);
        mpfr_mul_d(part, s->y[labels[i]], -weights[labels[i]], MPFR_RNDN);
        mpfr_add(sum, sum, part, MPFR_RNDN);
        total += weights[labels[i]];
        if (s->row % 3 == 0) check(s, c.op, &c.out[0], i, part);
    }
    if (s->row % 3 == 2) mpfr_div_d(sum, sum, total, MPFR_RNDN);
    if (s->row % 3) check(s, c.op, &c.out[0], 0, sum);
    mpfr_clears(sum, part, (mpfr_ptr)0);
    one_free(&c);
}

VN_TEST(values, losses) { everywhere(t, 6, not_huge, loss_each); }

/* ---- scans ---- */

static bool scan_fits(int row, twin_data_t d) { return row < 4 || reduce_fits(TW_PROD, d); }

static void scan_each(const setting_t *s) {
    const bool product = s->row >= 4, exclusive = s->row & 1, reverse = s->row & 2;
    one_node_t c = {.op = product ? "CumProd" : "CumSum",
                    .version = product ? 26 : 14,
                    .n_in = 2,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"exclusive", ONE_INT, exclusive, NULL}, {"reverse", ONE_INT, reverse, NULL}}};
    c.in[0] = twin_tensor(s->t, s->type, TWIN_DIMS(ROWS, s->n), s->x);
    c.in[1] = one_scalar(s->t, VN_I64, 1);
    one_run(s->t, &c);
    for (int r = 0; r < ROWS; ++r) {
        tw_prefix(s->y, s->x + r * s->n, s->n, product, exclusive, reverse);
        for (int64_t k = 0; k < s->n; ++k) check(s, c.op, &c.out[0], r * s->n + k, s->y[k]);
    }
    one_free(&c);
}

VN_TEST(values, scans) { everywhere(t, 8, scan_fits, scan_each); }

/* ---- norms ---- */

static const struct {
    const char *op;
    int version;
    bool centred, channels, groups;
} norms[] = {
    {"LayerNormalization", 17, true, false, false},
    {"RMSNormalization", 23, false, false, false},
    {"InstanceNormalization", 22, true, true, false},
    {"GroupNormalization", 21, true, true, true},
};

/* f64 squares of the largest numbers are no numbers. */
static bool f64_edge(const setting_t *s) {
    return s->type == VN_F64 && (s->data == twin_data_names[TWIN_HUGE] || s->data == twin_data_names[TWIN_SUBNORMAL]);
}

static void norm_each(const setting_t *s) {
    const double eps = 1e-5f;
    double gamma[MAX_N], beta[MAX_N];
    if (f64_edge(s)) return;
    one_node_t c = {.op = norms[s->row].op,
                    .version = norms[s->row].version,
                    .n_in = norms[s->row].centred ? 3 : 2,
                    .want = VN_WANT_BOUND,
                    .attrs = {{norms[s->row].groups ? "num_groups" : NULL, ONE_INT, ROWS, NULL}}};
    const int64_t m = norms[s->row].channels ? ROWS : s->n;
    twin_fill(s->rng, TWIN_RANDOM, vn_format_of(s->type), gamma, m);
    twin_fill(s->rng, TWIN_RANDOM, vn_format_of(s->type), beta, m);
    c.in[0] = norms[s->row].channels ? twin_tensor(s->t, s->type, TWIN_DIMS(1, ROWS, s->n), s->x)
                                     : twin_tensor(s->t, s->type, TWIN_DIMS(ROWS, s->n), s->x);
    c.in[1] = one_vector(s->t, s->type, m, gamma);
    if (norms[s->row].centred) c.in[2] = one_vector(s->t, s->type, m, beta);
    one_run(s->t, &c);
    for (int r = 0; r < ROWS; ++r) {
        double g[MAX_N], b[MAX_N];
        for (int64_t k = 0; k < s->n; ++k) {
            g[k] = gamma[norms[s->row].channels ? r : k];
            b[k] = norms[s->row].centred ? beta[norms[s->row].channels ? r : k] : 0;
        }
        tw_normalise(s->y, s->x + r * s->n, g, b, s->n, eps, norms[s->row].centred);
        for (int64_t k = 0; k < s->n; ++k) check(s, c.op, &c.out[0], r * s->n + k, s->y[k]);
    }
    one_free(&c);
}

VN_TEST(values, norms) { everywhere(t, 4, any_data, norm_each); }

/* gamma (x - mean) / sqrt(var + eps) + beta with given statistics, one set for each of ROWS channels. */
static void batch_each(const setting_t *s) {
    const double eps = 1e-5f;
    double p[4][ROWS];
    if (f64_edge(s)) return;
    for (int k = 0; k < 4; ++k) twin_fill(s->rng, k == 3 ? TWIN_POSITIVE : TWIN_RANDOM, vn_format_of(s->type), p[k], ROWS);
    one_node_t c = {.op = "BatchNormalization", .version = 15, .n_in = 5, .want = VN_WANT_BOUND};
    c.in[0] = twin_tensor(s->t, s->type, TWIN_DIMS(1, ROWS, s->n), s->x);
    for (int k = 0; k < 4; ++k) c.in[1 + k] = one_vector(s->t, s->type, ROWS, p[k]);
    one_run(s->t, &c);
    mpfr_t root;
    mpfr_init2(root, TW_BITS);
    for (int r = 0; r < ROWS; ++r) {
        mpfr_set_d(root, p[3][r], MPFR_RNDN);
        mpfr_add_d(root, root, eps, MPFR_RNDN);
        mpfr_sqrt(root, root, MPFR_RNDN);
        for (int64_t k = 0; k < s->n; ++k) {
            mpfr_set_d(s->y[0], s->x[r * s->n + k], MPFR_RNDN);
            mpfr_sub_d(s->y[0], s->y[0], p[2][r], MPFR_RNDN);
            mpfr_mul_d(s->y[0], s->y[0], p[0][r], MPFR_RNDN);
            mpfr_div(s->y[0], s->y[0], root, MPFR_RNDN);
            mpfr_add_d(s->y[0], s->y[0], p[1][r], MPFR_RNDN);
            check(s, c.op, &c.out[0], r * s->n + k, s->y[0]);
        }
    }
    mpfr_clear(root);
    one_free(&c);
}

VN_TEST(values, batch_norm) { everywhere(t, 1, any_data, batch_each); }

/* x / (sum |x|^p)^(1/p), 0 where the norm is 0. Squares of f64 subnormals are none. */
static void lp_each(const setting_t *s) {
    if (s->type == VN_F64 && s->row && s->data == twin_data_names[TWIN_SUBNORMAL]) return;
    one_node_t c = {.op = "LpNormalization", .version = 22, .n_in = 1, .want = VN_WANT_BOUND, .attrs = {{"p", ONE_INT, 1 + s->row, NULL}}};
    c.in[0] = twin_tensor(s->t, s->type, TWIN_DIMS(ROWS, s->n), s->x);
    one_run(s->t, &c);
    for (int r = 0; r < ROWS; ++r) {
        tw_reduce(s->y[0], s->row ? TW_L2 : TW_L1, s->x + r * s->n, s->n);
        for (int64_t k = 0; k < s->n; ++k) {
            if (mpfr_zero_p(s->y[0])) mpfr_set_zero(s->y[1], 1);
            else mpfr_d_div(s->y[1], s->x[r * s->n + k], s->y[0], MPFR_RNDN);
            check(s, c.op, &c.out[0], r * s->n + k, s->y[1]);
        }
    }
    one_free(&c);
}

VN_TEST(values, vector_norms) { everywhere(t, 2, any_data, lp_each); }

/* x / (bias + alpha/size sum over `size` channels of x^2)^beta, n channels of one element; ROWS samples. */
static void response_each(const setting_t *s) {
    enum { SIZE = 5 };
    const float alpha = 0.3f, beta = 0.75f, bias = 1.5f;
    if (f64_edge(s) || s->n > 32) return; /* SIZE channels are seen at once */
    one_node_t c = {.op = "LRN",
                    .version = 13,
                    .n_in = 1,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"size", ONE_INT, SIZE, NULL},
                              {"alpha", ONE_FLOAT, alpha, NULL},
                              {"beta", ONE_FLOAT, beta, NULL},
                              {"bias", ONE_FLOAT, bias, NULL}}};
    c.in[0] = twin_tensor(s->t, s->type, TWIN_DIMS(ROWS, s->n, 1), s->x);
    one_run(s->t, &c);
    for (int r = 0; r < ROWS; ++r)
        for (int64_t k = 0; k < s->n; ++k) {
            const int64_t from = k > SIZE / 2 ? k - SIZE / 2 : 0, to = k + SIZE / 2 < s->n ? k + SIZE / 2 : s->n - 1;
            tw_reduce(s->y[0], TW_SQUARES, s->x + r * s->n + from, to - from + 1);
            mpfr_mul_d(s->y[0], s->y[0], (double)alpha, MPFR_RNDN);
            mpfr_div_ui(s->y[0], s->y[0], SIZE, MPFR_RNDN);
            mpfr_add_d(s->y[0], s->y[0], (double)bias, MPFR_RNDN);
            mpfr_set_d(s->y[1], -(double)beta, MPFR_RNDN);
            mpfr_pow(s->y[0], s->y[0], s->y[1], MPFR_RNDN);
            mpfr_mul_d(s->y[0], s->y[0], s->x[r * s->n + k], MPFR_RNDN);
            check(s, c.op, &c.out[0], r * s->n + k, s->y[0]);
        }
    one_free(&c);
}

VN_TEST(values, local_response) { everywhere(t, 1, any_data, response_each); }

/* A hidden sum of squares that overflows in f32 makes the result 0: explainable there, and only there. */
VN_TEST(values, hidden_overflow) {
    for (int k = 0; k < 4; ++k) {
        const bool response = k & 1, large = k & 2;
        const double x[2] = {large ? 2e19 : 1e18, large ? -2e19 : 1e18};
        one_node_t c = {.op = response ? "LRN" : "LpNormalization", .version = response ? 13 : 22, .n_in = 1, .want = VN_WANT_BOUND};
        if (response) c.attrs[0] = (one_attr_t){"size", ONE_INT, 3, NULL};
        c.in[0] = response ? twin_tensor(t, VN_F32, TWIN_DIMS(1, 2, 1), x) : one_vector(t, VN_F32, 2, x);
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].flags && c.out[0].flags[0] & VN_EL_ZERO_OK, large);
        VN_ASSERT(t, fabs(c.out[0].value[0]) > 0 && isfinite(c.out[0].bound[0]));
        one_free(&c);
    }
}

/* ---- nothing to do ---- */

VN_TEST(values, empty_tensors) {
    static const char *const ops[] = {"Softmax", "LogSoftmax", "LpNormalization", "ReduceSum"};
    static const int versions[] = {13, 13, 22, 18};
    for (int k = 0; k < 4; ++k) {
        one_node_t c = {.op = ops[k], .version = versions[k], .n_in = k == 3 ? 2 : 1, .want = VN_WANT_VARIANCE};
        c.in[0] = one_tensor(t, VN_F32, 2, (int64_t[]){0, 5});
        if (k == 3) c.in[1] = one_ints(t, VN_I64, 1, (int64_t[]){1});
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].count, 0);
        one_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(values, reductions), VN_CASE(values, softmax), VN_CASE(values, losses), VN_CASE(values, scans), VN_CASE(values, norms),
             VN_CASE(values, batch_norm), VN_CASE(values, vector_norms), VN_CASE(values, local_response), VN_CASE(values, hidden_overflow),
             VN_CASE(values, empty_tensors))
