/* Claims SOFTMAX-1 to SOFTMAX-4 and the exponential behind them: two-pass, online and exp2 evaluations, special rows, losses. */
#include <stdio.h>

#include "oracle/expsum.h"
#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { ROWS = 30, MAX_N = 64 };

VN_TEST(softmax, exponential_of_arrays) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 20001 };
    double *x = vn_alloc(N, sizeof *x), *y = vn_alloc(N, sizeof *y);
    for (int i = 0; i < N; ++i)
        y[i] = x[i] = i < 100   ? -(double)i * 0x1p-40
                      : i < 200 ? -700 - (i - 100) * 0.5
                                : -745 * vn_rng_uniform(&rng) * vn_rng_uniform(&rng);
    x[7] = y[7] = -INFINITY;
    x[9] = y[9] = NAN;
    vn_exp_array(y, N);
    for (int i = 0; i < N; ++i) {
        const long double e = expl(x[i]);
        if (i == 7) VN_ASSERT_DEQ(t, y[i], 0);
        if (i == 9) VN_ASSERT(t, isnan(y[i]));
        if (i == 7 || i == 9) continue;
        VN_ASSERT_LE(t, fabs((double)(y[i] - e)), 0x1p-51 * (double)e + 0x1p-1074);
    }
    vn_free(x);
    vn_free(y);
}

typedef enum form { TWO_PASS, ONLINE, EXP2, FORMS } form_t;

/* One row in format f; out: softmax or log-softmax. */
static void execute(vn_rng_t *rng, vn_format_t f, form_t form, bool logs, double te, double tl, const double *x, int64_t n,
                    sim_order_t order, double *out) {
    double w[MAX_N], top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; ++k) top = fmax(top, x[k]);
    for (int64_t k = 0; k < n; ++k) {
        const double d = sim(f, x[k] - top);
        w[k] = form == EXP2 ? sim_function(rng, f, exp2(sim(f, d * sim(f, 1.4426950408889634))), te) : sim_function(rng, f, exp(d), te);
    }
    if (form == ONLINE) {
        double m = -INFINITY;
        for (int64_t k = 0; k < n; ++k) {
            if (x[k] > m) {
                sum = k ? sim(f, sum * sim_function(rng, f, exp(sim(f, m - x[k])), te)) : 0;
                m = x[k];
            }
            sum = sim(f, sum + sim_function(rng, f, exp(sim(f, x[k] - m)), te));
        }
    } else {
        sum = sim_sum(f, w, n, order);
    }
    const double log_sum = logs ? sim_function(rng, f, log(sum), tl) : 0, inverse = sim(f, 1 / sum);
    for (int64_t k = 0; k < n; ++k)
        out[k] = logs ? sim(f, sim(f, x[k] - top) - log_sum) : order == SIM_LANES ? sim(f, w[k] * inverse) : sim(f, w[k] / sum);
}

static one_node_t node(vn_test_t *t, const char *op, vn_dtype_t type, int64_t rows, int64_t n, const double *x, const char *contract,
                       int want) {
    one_node_t c = {.op = op, .version = 13, .n_in = 1, .contract = contract, .want = want};
    c.in[0] = one_tensor(t, type, 2, (int64_t[]){rows, n});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    return c;
}

static void exact_row(bool logs, const double *x, int64_t n, long double *p) {
    long double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; ++k) top = fmaxl(top, x[k]);
    for (int64_t k = 0; k < n; ++k) sum += expl(x[k] - top);
    for (int64_t k = 0; k < n; ++k) p[k] = logs ? x[k] - top - logl(sum) : expl(x[k] - top) / sum;
}

static void hold(vn_test_t *t, vn_format_t f, const char *contract, double te, double tl, int forms, bool logs, double least) {
    vn_rng_t rng = vn_test_rng(t);
    static const int sizes[] = {1, 2, 17, 64};
    double worst = 0;
    for (int data = 0; data < 5; ++data)
        for (int si = 0; si < 4; ++si) {
            const int n = sizes[si];
            double x[ROWS * MAX_N], y[MAX_N];
            for (int i = 0; i < ROWS * n; ++i) {
                const double g = vn_rng_normal(&rng);
                x[i] = sim(f, data == 0   ? g
                              : data == 1 ? g + 50
                              : data == 2 ? 8 * g
                              : data == 3 ? (double)vn_rng_below(&rng, 3)
                                          : 0.01 * g);
                if (data == 2 && i % 5 == 0 && i % n) x[i] = -INFINITY;
            }
            one_node_t c =
                node(t, logs ? "LogSoftmax" : "Softmax", f == VN_FMT_F16 ? VN_F16 : VN_F32, ROWS, n, x, contract, VN_WANT_VARIANCE);
            one_run(t, &c);
            const vn_ref_t *r = &c.out[0];
            for (int i = 0; i < ROWS; ++i) {
                long double p[MAX_N];
                exact_row(logs, x + i * n, n, p);
                for (int k = 0; k < n; ++k)
                    if (isfinite((double)p[k]))
                        VN_ASSERT_LE(t, fabs((double)(r->value[i * n + k] - p[k])),
                                     0x1p-49 * (1 + fabs((double)p[k])) * (logs ? 30 : (double)p[k]) + 1e-300);
                for (int form = 0; form < forms; ++form)
                    for (int order = 0; order < SIM_ORDERS; ++order) {
                        execute(&rng, f, (form_t)form, logs, te, tl, x + i * n, n, (sim_order_t)order, y);
                        for (int k = 0; k < n; ++k) {
                            const double q = sim_ratio(y[k], r->value[i * n + k], r->bound[i * n + k]);
                            if (q > 1)
                                vn_test_fail(t, __FILE__, __LINE__, "form %d, data %d, n %d: %a for %a, bound %a, ratio %g", form, data, n,
                                             y[k], r->value[i * n + k], r->bound[i * n + k], q);
                            if (isfinite(q) && n > 1) worst = fmax(worst, q);
                            VN_ASSERT(t, r->var[i * n + k] >= 0);
                        }
                    }
            }
            one_free(&c);
        }
    VN_ASSERT_GE(t, worst, least);
}

VN_TEST(softmax, ieee_holds_two_pass_and_online) { hold(t, VN_FMT_F32, "operand=f32,accumulator=f32", 1, 1, EXP2, false, 0.2); }
VN_TEST(softmax, portable_holds_exp2_and_worse_functions) { hold(t, VN_FMT_F32, "portable", 6, 4, FORMS, false, 0.2); }
VN_TEST(softmax, f16_arithmetic_holds) { hold(t, VN_FMT_F16, "operand=f16,accumulator=f16", 1, 1, EXP2, false, 0.2); }
VN_TEST(softmax, logarithms_hold) {
    hold(t, VN_FMT_F32, "operand=f32,accumulator=f32", 1, 1, EXP2, true, 0.3);
    hold(t, VN_FMT_F16, "operand=f16,accumulator=f16", 1, 1, EXP2, true, 0.3);
    hold(t, VN_FMT_F32, "portable", 6, 4, EXP2, true, 0.2);
}

/* A weight that another row's denominator divides, a dropped term: outside. */
VN_TEST(softmax, faults_are_outside) {
    vn_rng_t rng = vn_test_rng(t);
    double x[MAX_N], y[MAX_N];
    for (int i = 0; i < MAX_N; ++i) x[i] = sim(VN_FMT_F32, vn_rng_normal(&rng));
    one_node_t c = node(t, "Softmax", VN_F32, 1, MAX_N, x, "operand=f32,accumulator=f32", VN_WANT_BOUND);
    one_run(t, &c);
    execute(&rng, VN_FMT_F32, TWO_PASS, false, 1, 1, x, MAX_N - 1, SIM_FORWARD, y);
    for (int k = 0; k < MAX_N - 1; ++k) VN_ASSERT_GT(t, fabs(y[k] - c.out[0].value[k]), c.out[0].bound[k]);
    one_free(&c);
}

VN_TEST(softmax, second_tiers) {
    const double x[2] = {-100000.5, -100000};
    one_node_t c = node(t, "LogSoftmax", VN_F32, 1, 2, x, "portable", VN_WANT_BOUND);
    one_run(t, &c);
    VN_ASSERT_STR(t, c.out[0].wide_note, "lse-rounded");
    const double lse = sim(VN_FMT_F32, -100000 + 0.4740769841801067), y = sim(VN_FMT_F32, x[0] - lse); /* max + log(1 + exp(-1/2)) */
    VN_ASSERT_GT(t, fabs(y - c.out[0].value[0]), c.out[0].bound[0]);
    VN_ASSERT_LE(t, fabs(y - c.out[0].value[0]), c.out[0].wide[0]);
    one_free(&c);
    c = node(t, "LogSoftmax", VN_F32, 1, 2, x, "operand=f32,accumulator=f32", VN_WANT_BOUND);
    one_run(t, &c);
    VN_ASSERT(t, c.out[0].wide == NULL);
    one_free(&c);
}

VN_TEST(softmax, special_rows) {
    const double x[4][3] = {{-INFINITY, -INFINITY, -INFINITY}, {NAN, 0, 1}, {INFINITY, 0, 1}, {-INFINITY, 0, -INFINITY}};
    one_node_t c = node(t, "Softmax", VN_F32, 4, 3, x[0], "portable", VN_WANT_VARIANCE);
    one_run(t, &c);
    for (int i = 0; i < 9; ++i) VN_ASSERT(t, isnan(c.out[0].value[i]));
    VN_ASSERT_DEQ(t, c.out[0].value[9], 0);
    VN_ASSERT_DEQ(t, c.out[0].value[10], 1);
    VN_ASSERT_EQ(t, c.out[0].n_readings, 1);
    VN_ASSERT_STR(t, c.out[0].readings[0].name, "zeros");
    for (int i = 0; i < 3; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].readings[0].value, i), 0);
    VN_ASSERT(t, isnan(vn_tensor_get_f64(c.out[0].readings[0].value, 3)));
    one_free(&c);
}

VN_TEST(softmax, before_13_all_trailing_axes_form_the_row) {
    vn_rng_t rng = vn_test_rng(t);
    one_node_t c = {.op = "Softmax", .version = 11, .n_in = 1, .want = VN_WANT_BOUND};
    c.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){2, 3, 4});
    for (int i = 0; i < 24; ++i) vn_tensor_set_f64(c.in[0], i, vn_rng_normal(&rng));
    one_run(t, &c);
    for (int r = 0; r < 2; ++r) {
        double s = 0;
        for (int k = 0; k < 12; ++k) s += c.out[0].value[r * 12 + k];
        VN_ASSERT_LE(t, fabs(s - 1), 1e-14);
    }
    one_free(&c);
}

VN_TEST(softmax, hardmax_takes_the_first_maximum) {
    const double x[6] = {1, 3, 3, -1, -1, -2};
    one_node_t c = node(t, "Hardmax", VN_F32, 2, 3, x, "portable", VN_WANT_BOUND);
    one_run(t, &c);
    const double y[6] = {0, 1, 0, 1, 0, 0};
    for (int i = 0; i < 6; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), y[i]);
    one_free(&c);
}

VN_TEST(softmax, losses) {
    const double x[6] = {1, 2, 3, 0, -1, 4}, w[3] = {0.5, 1, 2};
    static const char *const how[] = {"none", "sum", "mean"};
    for (int k = 0; k < 3; ++k) {
        one_node_t c = {.op = "SoftmaxCrossEntropyLoss",
                        .version = 13,
                        .n_in = 3,
                        .n_out = 2,
                        .want = VN_WANT_VARIANCE,
                        .attrs = {{"reduction", ONE_TEXT, 0, how[k]}, {"ignore_index", ONE_INT, 7, NULL}}};
        c.in[0] = one_tensor(t, VN_F32, 2, (int64_t[]){2, 3});
        vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
        c.in[1] = one_ints(t, VN_I64, 2, k == 0 ? (int64_t[]){2, 7} : (int64_t[]){2, 0});
        c.in[2] = one_vector(t, VN_F32, 3, w);
        one_run(t, &c);
        const double a = -(3 - 3 - log(exp(-2) + exp(-1) + 1)) * 2, b = -(0 - 4 - log(exp(-4) + exp(-5) + 1)) * 0.5;
        const double y = k == 0 ? a : k == 1 ? a + b : (a + b) / 2.5;
        VN_ASSERT_LE(t, fabs(c.out[0].value[0] - y), 1e-14);
        VN_ASSERT_GT(t, c.out[0].bound[0], 0x1p-24 * fabs(y));
        VN_ASSERT_LE(t, c.out[0].bound[0], 200 * 0x1p-24);
        if (k == 0) VN_ASSERT_DEQ(t, c.out[0].value[1], 0);
        VN_ASSERT_EQ(t, c.out[1].count, 6);
        one_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(softmax, exponential_of_arrays), VN_CASE(softmax, ieee_holds_two_pass_and_online),
             VN_CASE(softmax, portable_holds_exp2_and_worse_functions), VN_CASE(softmax, f16_arithmetic_holds),
             VN_CASE(softmax, logarithms_hold), VN_CASE(softmax, faults_are_outside), VN_CASE(softmax, second_tiers),
             VN_CASE(softmax, special_rows), VN_CASE(softmax, before_13_all_trailing_axes_form_the_row),
             VN_CASE(softmax, hardmax_takes_the_first_maximum), VN_CASE(softmax, losses))
