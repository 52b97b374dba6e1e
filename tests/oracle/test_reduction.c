/* Claims SUM-1 to SUM-6: values against exact arithmetic, bounds true, tight and sharp in several orders, special values, integers. */
#include <stdio.h>

#include <mpfr.h>

#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { ROWS = 40, MAX_N = 300 };
typedef enum data { NORMAL, POSITIVE, OFFSET, WIDE, CANCELLING, DATA } data_t;
static const char *const kinds[] = {"Sum", "Mean", "L1", "L2", "SumSquare", "Prod", "LogSum", "LogSumExp", "Max", "Min"};
enum { SUM, MEAN, L1, L2, SQUARES, PROD, LOGSUM, LSE, MAX, MIN, KINDS };

static void fill(vn_rng_t *rng, data_t d, int kind, double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        const double g = vn_rng_normal(rng);
        x[i] = d == POSITIVE              ? fabs(g)
               : d == OFFSET              ? 100 + g
               : d == WIDE                ? g * exp(3 * vn_rng_normal(rng))
               : d == CANCELLING && i % 2 ? -x[i - 1] * 1.001
                                          : g;
        if (kind == PROD) x[i] = 1 + 0.05 * g;
        if (kind == LOGSUM) x[i] = fabs(x[i]) + 0.01;
        if (kind == LSE && d == OFFSET) x[i] += 300;
        x[i] = (double)(float)x[i];
    }
}

static double exact(int kind, const double *x, int64_t n) {
    mpfr_t s, t;
    mpfr_inits2(400, s, t, (mpfr_ptr)0);
    mpfr_set_d(s, kind == PROD ? 1 : kind == MAX ? -INFINITY : kind == MIN ? INFINITY : 0, MPFR_RNDN);
    for (int64_t i = 0; i < n; ++i) {
        mpfr_set_d(t, x[i], MPFR_RNDN);
        if (kind == L1) mpfr_abs(t, t, MPFR_RNDN);
        if (kind == L2 || kind == SQUARES) mpfr_sqr(t, t, MPFR_RNDN);
        if (kind == LSE) mpfr_exp(t, t, MPFR_RNDN);
        if (kind == PROD) mpfr_mul(s, s, t, MPFR_RNDN);
        else if (kind == MAX) mpfr_max(s, s, t, MPFR_RNDN);
        else if (kind == MIN) mpfr_min(s, s, t, MPFR_RNDN);
        else mpfr_add(s, s, t, MPFR_RNDN);
    }
    if (kind == MEAN) mpfr_div_si(s, s, (long)n, MPFR_RNDN);
    if (kind == L2) mpfr_sqrt(s, s, MPFR_RNDN);
    if (kind == LOGSUM || kind == LSE) mpfr_log(s, s, MPFR_RNDN);
    const double y = mpfr_get_d(s, MPFR_RNDN);
    mpfr_clears(s, t, (mpfr_ptr)0);
    return y;
}

/* An execution in format f; variant 1 scales or takes reciprocals instead of dividing. */
static double execute(vn_rng_t *rng, vn_format_t f, int kind, const double *x, int64_t n, sim_order_t order, int variant, double t_exp,
                      double t_log) {
    double w[MAX_N], top = -INFINITY;
    for (int64_t i = 0; i < n; ++i) {
        top = fmax(top, x[i]);
        w[i] = kind == L1                      ? fabs(x[i])
               : kind == L2 || kind == SQUARES ? sim(f, x[i] * x[i])
               : kind == MEAN && variant       ? sim(f, x[i] * sim(f, 1 / (double)n))
                                               : x[i];
    }
    if (kind == LSE)
        for (int64_t i = 0; i < n; ++i) w[i] = sim_function(rng, f, exp(sim(f, x[i] - top)), t_exp);
    if (kind == PROD) {
        double p = 1;
        for (int64_t i = 0; i < n; ++i) p = sim(f, p * x[order == SIM_BACKWARD ? n - 1 - i : i]);
        return p;
    }
    const double s = sim_sum(f, w, n, order);
    switch (kind) {
    case MEAN: return variant ? s : sim(f, s / (double)n);
    case L2: return sim(f, sqrt(s));
    case LOGSUM: return sim_function(rng, f, log(s), t_log);
    case LSE: return sim(f, top + sim_function(rng, f, log(s), t_log));
    default: return s;
    }
}

static one_node_t reduce(vn_test_t *t, const char *op, vn_dtype_t type, int64_t rows, int64_t n, const double *x, const char *contract,
                         int want) {
    static char names[KINDS][32];
    one_node_t c = {.version = 18, .n_in = 2, .contract = contract, .want = want};
    int k = 0;
    while (strcmp(kinds[k], op)) ++k;
    snprintf(names[k], sizeof names[k], "Reduce%s", op);
    c.op = names[k];
    c.in[0] = one_tensor(t, type, 2, (int64_t[]){rows, n});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    c.in[1] = one_ints(t, VN_I64, 1, (int64_t[]){1});
    return c;
}

VN_TEST(reduction, value_is_exact) {
    vn_rng_t rng = vn_test_rng(t);
    for (int kind = 0; kind < KINDS; ++kind)
        for (int d = 0; d < DATA; ++d)
            for (int n = 1; n <= 257; n = n * 4 + 1) {
                double x[4 * 257];
                fill(&rng, (data_t)d, kind, x, 4 * n);
                one_node_t c = reduce(t, kinds[kind], VN_F32, 4, n, x, "portable", VN_WANT_BOUND);
                one_run(t, &c);
                for (int r = 0; r < 4; ++r) {
                    const double y = exact(kind, x + r * n, n), own = c.out[0].own ? c.out[0].own[r] : 0x1p-52 * fabs(y);
                    VN_ASSERT_LE(t, fabs(c.out[0].value[r] - y), own);
                }
                one_free(&c);
            }
}

/* True in f32 and with every operation in f16; the largest ratio must come near 1 somewhere, or the bound is too wide to be of use. */
static void hold(vn_test_t *t, vn_format_t f, const char *contract, double t_exp, double t_log, double least[KINDS]) {
    vn_rng_t rng = vn_test_rng(t);
    static const int sizes[] = {1, 2, 3, 17, 64};
    for (int kind = 0; kind <= LSE; ++kind) {
        double worst = 0;
        for (int d = 0; d < DATA; ++d)
            for (int si = 0; si < 5; ++si) {
                const int n = sizes[si];
                double x[ROWS * 64];
                fill(&rng, (data_t)d, kind, x, ROWS * n);
                if (f == VN_FMT_F16)
                    for (int i = 0; i < ROWS * n; ++i) x[i] = vn_round_to(f, kind == LSE && d == OFFSET ? x[i] - 350 : x[i], VN_RNE, true);
                one_node_t c = reduce(t, kinds[kind], f == VN_FMT_F16 ? VN_F16 : VN_F32, ROWS, n, x, contract, VN_WANT_VARIANCE);
                one_run(t, &c);
                const vn_ref_t *r = &c.out[0];
                VN_ASSERT_EQ(t, r->terms, n);
                for (int i = 0; i < ROWS * SIM_ORDERS * 2; ++i) {
                    const int row = i % ROWS;
                    const double y =
                        execute(&rng, f, kind, x + row * n, n, (sim_order_t)(i / ROWS % SIM_ORDERS), i / ROWS / SIM_ORDERS, t_exp, t_log);
                    if (!isfinite(y)) {
                        VN_ASSERT(t, r->bound[row] == INFINITY || (r->flags && r->flags[row] & VN_EL_INF_OK));
                        continue;
                    }
                    const double q = sim_ratio(y, r->value[row], r->bound[row]);
                    if (q > 1)
                        vn_test_fail(t, __FILE__, __LINE__, "%s, data %d, n %d: %a for %a, bound %a, ratio %g", kinds[kind], d, n, y,
                                     r->value[row], r->bound[row], q);
                    if (isfinite(q)) worst = fmax(worst, q);
                    if (n > 1 && !(r->var[row] >= 0))
                        vn_test_fail(t, __FILE__, __LINE__, "%s, data %d, n %d: variance %g", kinds[kind], d, n, r->var[row]);
                }
                one_free(&c);
            }
        VN_ASSERT_GE(t, worst, least[kind]);
    }
}

VN_TEST(reduction, bound_holds_in_f32) {
    /* what the sheet's own verification saw is at most 1; these are floors against vacuous bounds */
    double least[KINDS] = {0.5, 0.4, 0.5, 0.4, 0.4, 0.4, 0.3, 0.05, 0, 0};
    hold(t, VN_FMT_F32, "operand=f32,accumulator=f32", 1, 1, least);
}
VN_TEST(reduction, bound_holds_with_everything_in_f16) {
    double least[KINDS] = {0.5, 0.4, 0.5, 0.4, 0.4, 0.4, 0.2, 0.05, 0, 0};
    hold(t, VN_FMT_F16, "operand=f16,accumulator=f16", 1, 1, least);
}
VN_TEST(reduction, portable_budgets_hold_worse_functions) {
    double least[KINDS] = {0};
    hold(t, VN_FMT_F32, "portable", 6, 4, least);
}

VN_TEST(reduction, a_dropped_term_is_outside) {
    vn_rng_t rng = vn_test_rng(t);
    for (int kind = 0; kind <= SQUARES; ++kind)
        for (int i = 0; i < 50; ++i) {
            double x[64];
            fill(&rng, POSITIVE, kind, x, 64);
            one_node_t c = reduce(t, kinds[kind], VN_F32, 1, 64, x, "operand=f32,accumulator=f32", VN_WANT_BOUND);
            one_run(t, &c);
            const double y = execute(&rng, VN_FMT_F32, kind, x, 63, SIM_FORWARD, 0, 1, 1);
            if (x[63] > 0.5) VN_ASSERT_GT(t, fabs(y - c.out[0].value[0]), c.out[0].bound[0]);
            one_free(&c);
        }
}

VN_TEST(reduction, sums_on_a_grid_are_exact) {
    double x[256], wide[256];
    for (int i = 0; i < 256; ++i) x[i] = (double)((i * 37) % 29 - 14) * 0.25, wide[i] = x[i] * (i % 2 ? 1 : 0x1p-20);
    static const char *const exact_kinds[] = {"Sum", "Mean", "L1", "SumSquare"};
    for (int k = 0; k < 4; ++k) {
        one_node_t c = reduce(t, exact_kinds[k], VN_F32, 1, 256, x, "operand=f32,accumulator=f32", VN_WANT_VARIANCE);
        one_run(t, &c);
        if (k != 3) VN_ASSERT_DEQ(t, c.out[0].bound[0], 0);
        if (k != 3) VN_ASSERT_DEQ(t, c.out[0].var[0], 0);
        one_free(&c);
    }
    one_node_t c = reduce(t, "Sum", VN_F32, 1, 256, wide, "operand=f32,accumulator=f32", VN_WANT_BOUND);
    one_run(t, &c);
    VN_ASSERT_GT(t, c.out[0].bound[0], 0); /* the grid is finer than 2^-24 of the sum */
    one_free(&c);
}

/* The predicted variance of a sequential sum against its own errors. */
VN_TEST(reduction, variance_fits_sequential_errors) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 256, R = 400 };
    double *x = vn_alloc(N * R, sizeof *x), z2 = 0;
    fill(&rng, NORMAL, SUM, x, N * R);
    one_node_t c = reduce(t, "Sum", VN_F32, R, N, x, "operand=f32,accumulator=f32", VN_WANT_VARIANCE);
    one_run(t, &c);
    for (int i = 0; i < R; ++i) {
        const double e = sim_sum(VN_FMT_F32, x + i * N, N, SIM_FORWARD) - c.out[0].value[i];
        z2 += e * e / c.out[0].var[i];
    }
    VN_ASSERT_LE(t, sqrt(z2 / R), 1.15); /* the envelope is at least the sequential one */
    VN_ASSERT_GE(t, sqrt(z2 / R), 0.3);
    one_free(&c);
    vn_free(x);
}

VN_TEST(reduction, special_values) {
    static const struct {
        const char *op;
        double x[3], y;
    } table[] = {
        {"Sum", {1, INFINITY, 2}, INFINITY},
        {"Sum", {INFINITY, -INFINITY, 0}, NAN},
        {"Sum", {1, NAN, 2}, NAN},
        {"Mean", {-INFINITY, 1, 2}, -INFINITY},
        {"Max", {1, -INFINITY, 3}, 3},
        {"Max", {-INFINITY, -INFINITY, -INFINITY}, -INFINITY},
        {"Max", {1, NAN, 3}, NAN},
        {"Min", {0.0, -0.0, 1}, 0},
        {"Prod", {0, 5, 7}, 0},
        {"Prod", {0, INFINITY, 1}, NAN},
        {"Prod", {INFINITY, -1, 2}, -INFINITY},
        {"L1", {-INFINITY, 1, 1}, INFINITY},
        {"L2", {3, 4, 0}, 5},
        {"L2", {INFINITY, 1, 1}, INFINITY},
        {"LogSum", {0, 0, 0}, -INFINITY},
        {"LogSum", {-1, 0, 0}, NAN},
        {"LogSumExp", {-INFINITY, -INFINITY, -INFINITY}, -INFINITY},
        {"LogSumExp", {INFINITY, 0, 0}, INFINITY},
        {"LogSumExp", {1000, -INFINITY, -INFINITY}, 1000},
        {"LogSumExp", {NAN, 0, 0}, NAN},
        {"SumSquare", {1, 2, 3}, 14},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        one_node_t c = reduce(t, table[i].op, VN_F32, 1, 3, table[i].x, "portable", VN_WANT_VARIANCE);
        one_run(t, &c);
        const double y = c.out[0].value[0];
        if (!(y == table[i].y || (isnan(y) && isnan(table[i].y))))
            vn_test_fail(t, __FILE__, __LINE__, "%s, row %zu: %g, expected %g", table[i].op, i, y, table[i].y);
        if (strcmp(table[i].op, "Max") == 0 && isnan(y)) {
            VN_ASSERT_EQ(t, c.out[0].n_readings, 1);
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].readings[0].value, 0), 3);
        }
        one_free(&c);
    }
}

VN_TEST(reduction, empty_sets) {
    static const struct {
        const char *op;
        double y;
    } table[] = {{"Sum", 0}, {"Prod", 1},           {"Max", -INFINITY},       {"Min", INFINITY},
                 {"L2", 0},  {"LogSum", -INFINITY}, {"LogSumExp", -INFINITY}, {"Mean", NAN}};
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        one_node_t c = reduce(t, table[i].op, VN_F32, 2, 0, NULL, "portable", VN_WANT_BOUND);
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].count, 2);
        VN_ASSERT(t, c.out[0].value[1] == table[i].y || (isnan(c.out[0].value[1]) && isnan(table[i].y)));
        VN_ASSERT_EQ(t, c.out[0].n_readings, isnan(table[i].y) ? 1 : 0);
        one_free(&c);
    }
    const double none = 0;
    one_node_t c = reduce(t, "Max", VN_I32, 1, 0, &none, "portable", VN_WANT_BOUND);
    one_run(t, &c);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), INT32_MIN);
    one_free(&c);
}

VN_TEST(reduction, integers_wrap) {
    static const int64_t x[4] = {INT32_MAX, 1, -7, 3};
    static const struct {
        const char *op;
        int64_t y;
    } table[] = {{"Sum", (int32_t)((uint32_t)INT32_MAX - 3)},
                 {"Max", INT32_MAX},
                 {"Min", -7},
                 {"L1", (int32_t)((uint32_t)INT32_MAX + 11u)},
                 {"Mean", 536870911}};
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        const double none[4] = {0};
        one_node_t c = reduce(t, table[i].op, VN_I32, 1, 4, none, "portable", VN_WANT_BOUND);
        for (int k = 0; k < 4; ++k) vn_tensor_set_i64(c.in[0], k, x[k]);
        one_run(t, &c);
        if (strcmp(table[i].op, "Mean")) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), table[i].y);
        one_free(&c);
    }
}

VN_TEST(reduction, any_axes_agree_with_rows) {
    vn_rng_t rng = vn_test_rng(t);
    double x[2 * 3 * 4 * 5];
    fill(&rng, NORMAL, SUM, x, 120);
    for (int mask = 1; mask < 16; ++mask) {
        one_node_t c = {.op = "ReduceSum", .version = 13, .n_in = 2, .want = VN_WANT_BOUND, .attrs = {{"keepdims", ONE_INT, 0, NULL}}};
        int64_t axes[4], n = 0;
        for (int d = 0; d < 4; ++d)
            if (mask >> d & 1) axes[n++] = d % 2 ? d - 4 : d;
        c.in[0] = one_tensor(t, VN_F32, 4, (int64_t[]){2, 3, 4, 5});
        vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
        c.in[1] = one_ints(t, VN_I64, n, axes);
        one_run(t, &c);
        double expected[120] = {0};
        for (int i = 0; i < 120; ++i) {
            const int index[4] = {i / 60, i / 20 % 3, i / 5 % 4, i % 5}, dims[4] = {2, 3, 4, 5};
            int at = 0;
            for (int d = 0; d < 4; ++d)
                if (!(mask >> d & 1)) at = at * dims[d] + index[d];
            expected[at] += x[i];
        }
        for (int64_t i = 0; i < c.out[0].count; ++i) VN_ASSERT_LE(t, fabs(c.out[0].value[i] - expected[i]), 1e-12);
        one_free(&c);
    }
}

VN_TEST_MAIN(VN_CASE(reduction, value_is_exact), VN_CASE(reduction, bound_holds_in_f32),
             VN_CASE(reduction, bound_holds_with_everything_in_f16), VN_CASE(reduction, portable_budgets_hold_worse_functions),
             VN_CASE(reduction, a_dropped_term_is_outside), VN_CASE(reduction, sums_on_a_grid_are_exact),
             VN_CASE(reduction, variance_fits_sequential_errors), VN_CASE(reduction, special_values), VN_CASE(reduction, empty_sets),
             VN_CASE(reduction, integers_wrap), VN_CASE(reduction, any_axes_agree_with_rows))
