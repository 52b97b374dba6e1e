/* Claims NORM-1 to NORM-7: layer, group, instance, batch and root-mean-square normalisation in two-pass, one-pass, merged and folded forms. */
#include <stdio.h>

#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { ROWS = 24, MAX_N = 64 };
typedef enum form { TWO_PASS, MERGED, ONE_PASS, FOLDED, RMS, FORMS } form_t;

typedef struct row {
    const double *x, *gamma, *beta;
    int64_t n;
    double eps;
} row_t;

/* Chan's merge of blocks of 8: mean and sum of squared deviations of each, combined one after the other. */
static void merged(vn_format_t f, const double *x, int64_t n, double *mean, double *m2) {
    double count = 0;
    *mean = *m2 = 0;
    for (int64_t k = 0; k < n; k += 8) {
        const int64_t m = n - k < 8 ? n - k : 8;
        double d[8], bm, b2;
        bm = sim(f, sim_sum(f, x + k, m, SIM_FORWARD) / (double)m);
        for (int64_t i = 0; i < m; ++i) d[i] = sim(f, sim(f, x[k + i] - bm) * sim(f, x[k + i] - bm));
        b2 = sim_sum(f, d, m, SIM_FORWARD);
        const double total = count + (double)m, delta = sim(f, bm - *mean), part = sim(f, (double)m / total);
        *m2 = sim(f, sim(f, *m2 + b2) + sim(f, sim(f, delta * delta) * sim(f, count * part)));
        *mean = sim(f, *mean + sim(f, delta * part));
        count = total;
    }
}

static void execute(vn_format_t f, form_t form, const row_t *r, sim_order_t order, double *y) {
    double w[MAX_N], mean = 0, var;
    const double n = (double)r->n;
    if (form == MERGED) {
        merged(f, r->x, r->n, &mean, &var);
        var = sim(f, var / n);
    } else if (form == ONE_PASS || form == FOLDED) {
        mean = sim(f, sim_sum(f, r->x, r->n, order) / n);
        for (int64_t k = 0; k < r->n; ++k) w[k] = sim(f, r->x[k] * r->x[k]);
        var = sim(f, sim(f, sim_sum(f, w, r->n, order) / n) - sim(f, mean * mean));
    } else {
        if (form != RMS) mean = sim(f, sim_sum(f, r->x, r->n, order) / n);
        for (int64_t k = 0; k < r->n; ++k) {
            const double d = sim(f, r->x[k] - mean);
            w[k] = sim(f, d * d);
        }
        var = sim(f, sim_sum(f, w, r->n, order) / n);
    }
    const double root = sim(f, sqrt(sim(f, var + sim(f, r->eps)))), inv = sim(f, 1 / root);
    for (int64_t k = 0; k < r->n; ++k) {
        const double g = r->gamma ? r->gamma[k] : 1, b = r->beta ? r->beta[k] : 0;
        if (form == FOLDED) {
            const double s = sim(f, g * inv);
            y[k] = sim(f, sim(f, r->x[k] * s) + sim(f, b - sim(f, mean * s)));
        } else {
            y[k] = sim(f, sim(f, sim(f, sim(f, r->x[k] - mean) * inv) * g) + b);
        }
    }
}

static void exact_row(const row_t *r, bool mean, double *y) {
    long double m = 0, v = 0;
    for (int64_t k = 0; k < r->n && mean; ++k) m += r->x[k];
    m /= r->n;
    for (int64_t k = 0; k < r->n; ++k) v += (r->x[k] - m) * (r->x[k] - m);
    const long double inv = 1 / sqrtl(v / r->n + (float)r->eps);
    for (int64_t k = 0; k < r->n; ++k) y[k] = (double)((r->x[k] - m) * inv * (r->gamma ? r->gamma[k] : 1) + (r->beta ? r->beta[k] : 0));
}

static void fill(vn_rng_t *rng, vn_format_t f, int data, double *x, int n) {
    for (int i = 0; i < n; ++i) {
        const double g = vn_rng_normal(rng);
        x[i] = sim(f, data == 0 ? g : data == 1 ? 30 + g : data == 2 ? g * exp(2 * vn_rng_normal(rng)) : data == 3 ? 5 : 1e-3 * g);
    }
}

static one_node_t layer(vn_test_t *t, const char *op, vn_dtype_t type, int64_t rows, int64_t n, const double *x, const double *gamma,
                        const double *beta, const char *contract, int want) {
    one_node_t c = {.op = op, .version = 23, .n_in = beta ? 3 : 2, .contract = contract, .want = want};
    if (strcmp(op, "LayerNormalization") == 0) c.n_out = 3;
    c.in[0] = one_tensor(t, type, 2, (int64_t[]){rows, n});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    c.in[1] = one_vector(t, type, n, gamma);
    if (beta) c.in[2] = one_vector(t, type, n, beta);
    return c;
}

/* first..last: forms that must be inside the bound (wide == false) or the second tier. */
static void hold(vn_test_t *t, vn_format_t f, const char *contract, form_t first, form_t last, bool wide, double least) {
    vn_rng_t rng = vn_test_rng(t);
    static const int sizes[] = {1, 3, 17, 64};
    double worst = 0;
    for (int data = 0; data < 5; ++data)
        for (int si = 0; si < 4; ++si) {
            const int n = sizes[si];
            double x[ROWS * MAX_N], gamma[MAX_N], beta[MAX_N], y[MAX_N], z[MAX_N];
            fill(&rng, f, data, x, ROWS * n);
            fill(&rng, f, 0, gamma, n);
            fill(&rng, f, 0, beta, n);
            const bool rms = first == RMS;
            one_node_t c = layer(t, rms ? "RMSNormalization" : "LayerNormalization", f == VN_FMT_F16 ? VN_F16 : VN_F32, ROWS, n, x, gamma,
                                 rms ? NULL : beta, contract, VN_WANT_VARIANCE);
            one_run(t, &c);
            const vn_ref_t *r = &c.out[0];
            for (int i = 0; i < ROWS; ++i) {
                const row_t row = {.x = x + i * n, .gamma = gamma, .beta = rms ? NULL : beta, .n = n, .eps = 1e-5f};
                exact_row(&row, !rms, z);
                for (int k = 0; k < n; ++k) VN_ASSERT_LE(t, fabs(z[k] - r->value[i * n + k]), 1e-12 * (1 + fabs(z[k])));
                for (int form = (int)first; form <= (int)last; ++form)
                    for (int order = 0; order < SIM_ORDERS; ++order) {
                        execute(f, (form_t)form, &row, (sim_order_t)order, y);
                        for (int k = 0; k < n; ++k) {
                            const double b = wide ? r->wide[i * n + k] : r->bound[i * n + k], q = isfinite(y[k])  ? sim_ratio(y[k], z[k], b)
                                                                                                  : b == INFINITY ? 0
                                                                                                                  : INFINITY;
                            if (q > 1)
                                vn_test_fail(t, __FILE__, __LINE__, "form %d, data %d, n %d: %a for %a, bound %a, ratio %g", form, data, n,
                                             y[k], z[k], b, q);
                            worst = fmax(worst, q);
                            VN_ASSERT(t, r->var[i * n + k] >= 0);
                        }
                    }
            }
            one_free(&c);
        }
    VN_ASSERT_GE(t, worst, least);
}

VN_TEST(norm, two_pass_and_merged_hold_in_f32) { hold(t, VN_FMT_F32, "operand=f32,accumulator=f32", TWO_PASS, MERGED, false, 0.3); }
VN_TEST(norm, one_pass_and_folded_are_the_second_tier) { hold(t, VN_FMT_F32, "portable", TWO_PASS, FOLDED, true, 0.3); }
VN_TEST(norm, root_mean_square_holds) { hold(t, VN_FMT_F32, "operand=f32,accumulator=f32", RMS, RMS, false, 0.3); }
VN_TEST(norm, f16_arithmetic_holds) { hold(t, VN_FMT_F16, "operand=f16,accumulator=f16", TWO_PASS, TWO_PASS, false, 0.3); }

VN_TEST(norm, one_pass_with_an_offset_is_outside_the_bound) {
    vn_rng_t rng = vn_test_rng(t);
    double x[MAX_N], gamma[MAX_N], beta[MAX_N] = {0}, y[MAX_N];
    int outside = 0;
    for (int i = 0; i < MAX_N; ++i) gamma[i] = 1, x[i] = sim(VN_FMT_F32, 4000 + vn_rng_normal(&rng));
    one_node_t c = layer(t, "LayerNormalization", VN_F32, 1, MAX_N, x, gamma, beta, "portable", VN_WANT_BOUND);
    one_run(t, &c);
    const row_t row = {.x = x, .gamma = gamma, .beta = beta, .n = MAX_N, .eps = 1e-5f};
    execute(VN_FMT_F32, ONE_PASS, &row, SIM_FORWARD, y);
    for (int k = 0; k < MAX_N; ++k) outside += fabs(y[k] - c.out[0].value[k]) > c.out[0].bound[k];
    VN_ASSERT_GT(t, outside, MAX_N / 4);
    VN_ASSERT_STR(t, c.out[0].wide_note, "one-pass-variance");
    one_free(&c);
}

/* A wrong epsilon and a row taken from its neighbour leave the bound. */
VN_TEST(norm, faults_are_outside) {
    vn_rng_t rng = vn_test_rng(t);
    double x[MAX_N], gamma[MAX_N], beta[MAX_N] = {0}, y[MAX_N];
    fill(&rng, VN_FMT_F32, 0, x, MAX_N);
    for (int i = 0; i < MAX_N; ++i) gamma[i] = 1;
    one_node_t c = layer(t, "LayerNormalization", VN_F32, 1, MAX_N, x, gamma, beta, "operand=f32,accumulator=f32", VN_WANT_BOUND);
    one_run(t, &c);
    const row_t row = {.x = x, .gamma = gamma, .beta = beta, .n = MAX_N, .eps = 1e-3};
    execute(VN_FMT_F32, TWO_PASS, &row, SIM_FORWARD, y);
    for (int k = 0; k < MAX_N; ++k)
        if (fabs(y[k]) > 0.1) VN_ASSERT_GT(t, fabs(y[k] - c.out[0].value[k]), c.out[0].bound[k]);
    one_free(&c);
}

VN_TEST(norm, statistics_are_outputs) {
    const double x[4] = {1, 2, 3, 6}, gamma[4] = {1, 1, 1, 1}, beta[4] = {0};
    one_node_t c = layer(t, "LayerNormalization", VN_F16, 1, 4, x, gamma, beta, "operand=f16,accumulator=f32", VN_WANT_BOUND);
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[1].dtype, VN_F32);
    VN_ASSERT_DEQ(t, c.out[1].value[0], 3);
    VN_ASSERT_LE(t, fabs(c.out[2].value[0] - 1 / sqrt(3.5 + (double)1e-5f)), 1e-15);
    VN_ASSERT_GT(t, c.out[2].bound[0], 0);
    one_free(&c);
}

/* A hidden f16 square overflows: zeros and infinities become explainable, only then. */
VN_TEST(norm, hidden_overflow) {
    double x[8], gamma[8];
    for (int i = 0; i < 8; ++i) x[i] = i % 2 ? 400 : -400, gamma[i] = 1;
    for (int k = 0; k < 2; ++k) {
        one_node_t c = layer(t, "RMSNormalization", VN_F16, 1, 8, x, gamma, NULL,
                             k ? "operand=f16,accumulator=f32,intermediate=f16" : "operand=f16,accumulator=f32", VN_WANT_BOUND);
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].flags && (c.out[0].flags[0] & VN_EL_ZERO_OK) != 0, k);
        one_free(&c);
    }
}

typedef struct batch {
    double eps, mu, var, gamma, beta;
} batch_t;

static double batch_form(bool fold, const batch_t *b, double x) {
    const vn_format_t f = VN_FMT_F32;
    const double s = sim(f, b->gamma / sim(f, sqrt(sim(f, b->var + b->eps))));
    if (fold) return sim(f, sim(f, x * s) + sim(f, b->beta - sim(f, b->mu * s)));
    return sim(f, sim(f, sim(f, x - b->mu) * s) + b->beta);
}

VN_TEST(norm, batch_normalisation) {
    vn_rng_t rng = vn_test_rng(t);
    double worst = 0, worst_fold = 0;
    int folded_outside = 0;
    for (int i = 0; i < 300; ++i) {
        const double off = i % 3 ? 0 : 1000;
        const batch_t b = {1e-5f, sim(VN_FMT_F32, off + vn_rng_normal(&rng)), sim(VN_FMT_F32, fabs(vn_rng_normal(&rng))),
                           sim(VN_FMT_F32, vn_rng_normal(&rng)), sim(VN_FMT_F32, vn_rng_normal(&rng))};
        double x[5];
        for (int k = 0; k < 5; ++k) x[k] = sim(VN_FMT_F32, off + vn_rng_normal(&rng));
        one_node_t c = {.op = "BatchNormalization", .version = 15, .n_in = 5, .contract = "portable", .want = VN_WANT_VARIANCE};
        c.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){1, 1, 5});
        vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
        c.in[1] = one_vector(t, VN_F32, 1, &b.gamma);
        c.in[2] = one_vector(t, VN_F32, 1, &b.beta);
        c.in[3] = one_vector(t, VN_F32, 1, &b.mu);
        c.in[4] = one_vector(t, VN_F32, 1, &b.var);
        one_run(t, &c);
        for (int k = 0; k < 5; ++k) {
            const double y = (x[k] - b.mu) / sqrt(b.var + b.eps) * b.gamma + b.beta;
            VN_ASSERT_LE(t, fabs(y - c.out[0].value[k]), 1e-13 * (1 + fabs(y)));
            worst = fmax(worst, sim_ratio(batch_form(false, &b, x[k]), y, c.out[0].bound[k]));
            worst_fold = fmax(worst_fold, sim_ratio(batch_form(true, &b, x[k]), y, c.out[0].wide[k]));
            folded_outside += sim_ratio(batch_form(true, &b, x[k]), y, c.out[0].bound[k]) > 1;
        }
        one_free(&c);
    }
    VN_ASSERT_LE(t, worst, 1);
    VN_ASSERT_GE(t, worst, 0.3);
    VN_ASSERT_LE(t, worst_fold, 1);
    VN_ASSERT_GT(t, folded_outside, 100);
}

VN_TEST(norm, batch_statistics_in_training) {
    one_node_t c = {.op = "BatchNormalization",
                    .version = 15,
                    .n_in = 5,
                    .n_out = 3,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"training_mode", ONE_INT, 1, NULL}, {"momentum", ONE_FLOAT, 0.5, NULL}}};
    const double x[4] = {1, 2, 3, 4}, one[2] = {1, 1}, zero[2] = {0, 0}, old[2] = {10, 20};
    c.in[0] = one_tensor(t, VN_F32, 2, (int64_t[]){2, 2});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    c.in[1] = one_vector(t, VN_F32, 2, one);
    c.in[2] = one_vector(t, VN_F32, 2, zero);
    c.in[3] = one_vector(t, VN_F32, 2, old);
    c.in[4] = one_vector(t, VN_F32, 2, old);
    one_run(t, &c);
    VN_ASSERT_LE(t, fabs(c.out[0].value[0] + 1 / sqrt(1 + (double)1e-5f)), 1e-14);
    VN_ASSERT_DEQ(t, c.out[1].value[0], 6); /* (10 + 2) / 2 */
    VN_ASSERT_DEQ(t, c.out[1].value[1], 11.5);
    VN_ASSERT_DEQ(t, c.out[2].value[1], 10.5);
    one_free(&c);
}

VN_TEST(norm, groups_and_instances) {
    vn_rng_t rng = vn_test_rng(t);
    double x[2 * 4 * 6], gamma[4], beta[4], y[12];
    fill(&rng, VN_FMT_F32, 1, x, 48);
    fill(&rng, VN_FMT_F32, 0, gamma, 4);
    fill(&rng, VN_FMT_F32, 0, beta, 4);
    for (int version = 18; version <= 21; version += 3) {
        one_node_t c = {
            .op = "GroupNormalization", .version = version, .n_in = 3, .want = VN_WANT_BOUND, .attrs = {{"num_groups", ONE_INT, 2, NULL}}};
        c.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){2, 4, 6});
        vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
        c.in[1] = one_vector(t, VN_F32, version == 18 ? 2 : 4, gamma);
        c.in[2] = one_vector(t, VN_F32, version == 18 ? 2 : 4, beta);
        one_run(t, &c);
        for (int g = 0; g < 4; ++g) {
            double gs[12], bs[12];
            for (int k = 0; k < 12; ++k) {
                const int at = version == 18 ? g % 2 : g % 2 * 2 + k / 6;
                gs[k] = gamma[at], bs[k] = beta[at];
            }
            const row_t row = {.x = x + g * 12, .gamma = gs, .beta = bs, .n = 12, .eps = 1e-5f};
            exact_row(&row, true, y);
            for (int k = 0; k < 12; ++k) VN_ASSERT_LE(t, fabs(y[k] - c.out[0].value[g * 12 + k]), 1e-12 * (1 + fabs(y[k])));
        }
        one_free(&c);
    }
}

VN_TEST(norm, lp_and_local_response) {
    const double x[6] = {3, 4, 0, 0, -1, 2};
    one_node_t c = {.op = "LpNormalization", .version = 22, .n_in = 1, .want = VN_WANT_VARIANCE};
    c.in[0] = one_tensor(t, VN_F32, 2, (int64_t[]){3, 2});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    one_run(t, &c);
    VN_ASSERT_LE(t, fabs(c.out[0].value[0] - 0.6), 1e-15);
    VN_ASSERT_DEQ(t, c.out[0].value[2], 0); /* a norm of zero */
    VN_ASSERT_LE(t, fabs((double)(float)(3 / 5.0f) - 0.6), c.out[0].bound[0]);
    VN_ASSERT_LE(t, c.out[0].bound[0], 8 * 0x1p-24);
    one_free(&c);
    c = (one_node_t){.op = "LRN",
                     .version = 13,
                     .n_in = 1,
                     .want = VN_WANT_BOUND,
                     .attrs = {{"size", ONE_INT, 2, NULL}, {"alpha", ONE_FLOAT, 0.5, NULL}, {"beta", ONE_FLOAT, 0.75, NULL}}};
    c.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){1, 3, 1});
    vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
    one_run(t, &c); /* windows {0,1}, {1,2}, {2}: size 2 reaches one channel up */
    VN_ASSERT_LE(t, fabs(c.out[0].value[0] - 3 * pow(1 + 0.25 * 25, -0.75)), 1e-14);
    VN_ASSERT_LE(t, fabs(c.out[0].value[1] - 4 * pow(1 + 0.25 * 16, -0.75)), 1e-14);
    one_free(&c);
}

VN_TEST(norm, sums_before_a_norm_carry_their_error) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 32 };
    double x[N], s[N], b[N], gamma[N], beta[N], sum[N], y[N], worst = 0;
    for (int i = 0; i < 200; ++i) {
        fill(&rng, VN_FMT_F32, 1, x, N);
        fill(&rng, VN_FMT_F32, 1, s, N);
        fill(&rng, VN_FMT_F32, 0, b, N);
        fill(&rng, VN_FMT_F32, 0, gamma, N);
        fill(&rng, VN_FMT_F32, 0, beta, N);
        one_node_t c = {.domain = "com.microsoft",
                        .op = "SkipLayerNormalization",
                        .version = 1,
                        .n_in = 5,
                        .contract = "operand=f32,accumulator=f32",
                        .want = VN_WANT_BOUND};
        double *planes[] = {x, s, gamma, beta, b};
        for (int k = 0; k < 5; ++k) {
            c.in[k] = one_tensor(t, VN_F32, k < 2 ? 2 : 1, k < 2 ? (int64_t[]){1, N} : (int64_t[]){N});
            vn_tensor_from_f64(c.in[k], planes[k], VN_RNE, false);
        }
        one_run(t, &c);
        for (int k = 0; k < N; ++k) sum[k] = sim(VN_FMT_F32, sim(VN_FMT_F32, x[k] + s[k]) + b[k]);
        const row_t row = {.x = sum, .gamma = gamma, .beta = beta, .n = N, .eps = 1e-12f};
        execute(VN_FMT_F32, TWO_PASS, &row, SIM_FORWARD, y);
        for (int k = 0; k < N; ++k) worst = fmax(worst, sim_ratio(y[k], c.out[0].value[k], c.out[0].bound[k]));
        one_free(&c);
    }
    VN_ASSERT_LE(t, worst, 1);
    VN_ASSERT_GE(t, worst, 0.1);
}

VN_TEST_MAIN(VN_CASE(norm, two_pass_and_merged_hold_in_f32), VN_CASE(norm, one_pass_and_folded_are_the_second_tier),
             VN_CASE(norm, root_mean_square_holds), VN_CASE(norm, f16_arithmetic_holds),
             VN_CASE(norm, one_pass_with_an_offset_is_outside_the_bound), VN_CASE(norm, faults_are_outside),
             VN_CASE(norm, statistics_are_outputs), VN_CASE(norm, hidden_overflow), VN_CASE(norm, batch_normalisation),
             VN_CASE(norm, batch_statistics_in_training), VN_CASE(norm, groups_and_instances), VN_CASE(norm, lp_and_local_response),
             VN_CASE(norm, sums_before_a_norm_carry_their_error))
