/* Uncertain operands: z = a + b is rounded in f32, then reduced or normalised; the region's bound must hold for the rounded execution. */
#include <stdio.h>

#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { ROWS = 6, N = 24, CELLS = ROWS * N };

typedef struct region {
    const char *op;
    int version;
    bool axes, affine; /* a second operand: axes or position; or scale (and bias) */
    one_attr_t attr;
    int64_t out;                                                  /* elements of the result */
    void (*run)(const double *z, const double *gamma, double *y); /* everything in f32 */
} region_t;

static double f32(double x) { return sim(VN_FMT_F32, x); }

static void r_sum(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) y[r] = sim_sum(VN_FMT_F32, z + r * N, N, SIM_LANES);
}
static void r_mean(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) y[r] = f32(sim_sum(VN_FMT_F32, z + r * N, N, SIM_FORWARD) / N);
}
static void r_max(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) {
        y[r] = z[r * N];
        for (int k = 1; k < N; ++k) y[r] = fmax(y[r], z[r * N + k]);
    }
}
static void r_l2(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) {
        double w[N];
        for (int k = 0; k < N; ++k) w[k] = f32(z[r * N + k] * z[r * N + k]);
        y[r] = f32(sqrt(sim_sum(VN_FMT_F32, w, N, SIM_PAIRWISE)));
    }
}
static void weights(const double *z, double *w, double *top, double *sum) {
    *top = -INFINITY;
    for (int k = 0; k < N; ++k) *top = fmax(*top, z[k]);
    for (int k = 0; k < N; ++k) w[k] = f32(exp(f32(z[k] - *top)));
    *sum = sim_sum(VN_FMT_F32, w, N, SIM_FORWARD);
}
static void r_softmax(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) {
        double w[N], top, sum;
        weights(z + r * N, w, &top, &sum);
        for (int k = 0; k < N; ++k) y[r * N + k] = f32(w[k] / sum);
    }
}
static void r_logsoftmax(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) {
        double w[N], top, sum;
        weights(z + r * N, w, &top, &sum);
        for (int k = 0; k < N; ++k) y[r * N + k] = f32(f32(z[r * N + k] - top) - f32(log(sum)));
    }
}
static void r_lse(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) {
        double w[N], top, sum;
        weights(z + r * N, w, &top, &sum);
        y[r] = f32(top + f32(log(sum)));
    }
}
static void norm(const double *z, const double *g, double *y, bool mean) {
    for (int r = 0; r < ROWS; ++r) {
        const double m = mean ? f32(sim_sum(VN_FMT_F32, z + r * N, N, SIM_FORWARD) / N) : 0;
        double w[N];
        for (int k = 0; k < N; ++k) w[k] = f32(f32(z[r * N + k] - m) * f32(z[r * N + k] - m));
        const double s = f32(sqrt(f32(f32(sim_sum(VN_FMT_F32, w, N, SIM_FORWARD) / N) + 1e-5f)));
        for (int k = 0; k < N; ++k) y[r * N + k] = f32(f32(f32(z[r * N + k] - m) / s) * g[k]);
    }
}
static void r_layer(const double *z, const double *g, double *y) { norm(z, g, y, true); }
static void r_rms(const double *z, const double *g, double *y) { norm(z, g, y, false); }
static void r_cumsum(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r)
        for (int k = 0; k < N; ++k) y[r * N + k] = k ? f32(y[r * N + k - 1] + z[r * N + k]) : z[r * N];
}
static void r_lp(const double *z, const double *g, double *y) {
    double s[ROWS];
    r_l2(z, g, s);
    for (int i = 0; i < CELLS; ++i) y[i] = f32(z[i] / s[i / N]);
}
static void r_prod(const double *z, const double *g, double *y) {
    (void)g;
    for (int r = 0; r < ROWS; ++r) {
        y[r] = 1;
        for (int k = 0; k < N; ++k) y[r] = f32(y[r] * z[r * N + k]);
    }
}

static const region_t regions[] = {
    {"ReduceSum", 18, true, false, {0}, ROWS, r_sum},         {"ReduceMean", 18, true, false, {0}, ROWS, r_mean},
    {"ReduceMax", 18, true, false, {0}, ROWS, r_max},         {"ReduceL2", 18, true, false, {0}, ROWS, r_l2},
    {"ReduceProd", 18, true, false, {0}, ROWS, r_prod},       {"ReduceLogSumExp", 18, true, false, {0}, ROWS, r_lse},
    {"Softmax", 18, false, false, {0}, CELLS, r_softmax},     {"LogSoftmax", 18, false, false, {0}, CELLS, r_logsoftmax},
    {"CumSum", 18, true, false, {0}, CELLS, r_cumsum},        {"LayerNormalization", 18, false, true, {0}, CELLS, r_layer},
    {"RMSNormalization", 23, false, true, {0}, CELLS, r_rms}, {"LpNormalization", 22, false, false, {0}, CELLS, r_lp},
};

static void evaluate(vn_test_t *t, const region_t *g, vn_tensor_t *const in[4], vn_ref_t *out) {
    static const char *const names[] = {"a", "b", "c"};
    vn_model_t *m;
    vn_error_t err;
    vn_contract_t contract;
    vn_bundle_t inputs = {0};
    VN_ASSERT(t, vn_contract_builtin("ieee", &contract));
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, "", g->version, &err), err);
    for (int k = 0; k < 3; ++k) {
        if (!in[k]) continue;
        VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, names[k], in[k]->dtype, in[k]->rank, in[k]->dims, &err), err);
        VN_ASSERT_OK_ERR(t, vn_bundle_add(&inputs, names[k], in[k], &err), err);
    }
    const char *const add_in[] = {"a", "b"}, *const add_out[] = {"z"}, *const op_in[] = {"z", "c"}, *const op_out[] = {"y"};
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(m->graph, "add", "Add", "", 2, add_in, 1, add_out, NULL, &err), err);
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(m->graph, "op", g->op, "", in[2] ? 2 : 1, op_in, 1, op_out, NULL, &err), err);
    VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, "y", VN_F32, -1, NULL, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_oracle_region(m, &inputs, &contract, VN_WANT_VARIANCE, out, &err), err);
    vn_bundle_free(&inputs);
    vn_model_free(m);
}

VN_TEST(regions, rounded_operands_stay_inside) {
    vn_rng_t rng = vn_test_rng(t);
    for (size_t i = 0; i < sizeof regions / sizeof *regions; ++i) {
        const region_t *g = &regions[i];
        double worst = 0;
        for (int trial = 0; trial < 20; ++trial) {
            double a[CELLS], b[CELLS], z[CELLS], gamma[N], y[CELLS];
            for (int k = 0; k < CELLS; ++k) {
                a[k] = f32(vn_rng_normal(&rng) * (g->run == r_prod ? 0.1 : 1));
                b[k] = f32(vn_rng_normal(&rng) * (g->run == r_prod ? 0.1
                                                  : trial % 2      ? 1
                                                                   : 1e-3) +
                           (g->run == r_prod ? 1
                            : trial % 3 == 2 ? 20
                                             : 0));
                z[k] = f32(a[k] + b[k]);
            }
            for (int k = 0; k < N; ++k) gamma[k] = f32(vn_rng_normal(&rng));
            vn_tensor_t *in[4] = {one_tensor(t, VN_F32, 2, (int64_t[]){ROWS, N}), one_tensor(t, VN_F32, 2, (int64_t[]){ROWS, N})};
            vn_tensor_from_f64(in[0], a, VN_RNE, false);
            vn_tensor_from_f64(in[1], b, VN_RNE, false);
            if (g->axes) in[2] = strcmp(g->op, "CumSum") ? one_ints(t, VN_I64, 1, (int64_t[]){1}) : one_scalar(t, VN_I64, 1);
            if (g->affine) in[2] = one_vector(t, VN_F32, N, gamma);
            vn_ref_t r = {0};
            evaluate(t, g, in, &r);
            VN_ASSERT_EQ(t, r.count, g->out);
            g->run(z, gamma, y);
            for (int64_t k = 0; k < r.count; ++k) {
                const double q = sim_ratio(y[k], r.value[k], r.bound[k]);
                if (q > 1)
                    vn_test_fail(t, __FILE__, __LINE__, "%s, trial %d, element %lld: %a for %a, bound %a, ratio %g", g->op, trial,
                                 (long long)k, y[k], r.value[k], r.bound[k], q);
                if (isfinite(q)) worst = fmax(worst, q);
                VN_ASSERT(t, r.bound[k] < INFINITY && (!r.var || r.var[k] >= 0));
            }
            vn_ref_free(&r);
            for (int k = 0; k < 3; ++k) vn_tensor_free(in[k]);
        }
        VN_ASSERT_GE(t, worst, 0.02);
    }
}

VN_TEST_MAIN(VN_CASE(regions, rounded_operands_stay_inside))
