/* Other arithmetics between the nodes of a group (claim ARITH-13): values handed on in 16 bits, casts without effect, folded norms. */
#include <stdio.h>

#include "judge/name_case.h"

static double x[1 << 13], w[1 << 13], y[1 << 13];

static double f32(double v) { return (double)(float)v; }
static double to(vn_format_t f, double v) { return vn_round_to(f, v, VN_RNE, false); }

/* A group under construction; nodes in order, the last gives "y". */
typedef struct group {
    jc_t c;
    int nodes;
} group_t;

static void begin(vn_test_t *t, group_t *g) {
    jc_new(t, &g->c, "ieee");
    g->nodes = 0;
    VN_ASSERT_OK(t, vn_model_set_opset(g->c.model, "", 22, NULL));
}

static vn_node_t *add(vn_test_t *t, group_t *g, const char *op, int n, const char *const *in, const char *out) {
    vn_node_t *node;
    char name[24];
    snprintf(name, sizeof name, "%s_%d", op, g->nodes++);
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(g->c.model->graph, name, op, "", n, in, 1, &out, &node, &g->c.err), g->c.err);
    return node;
}

static void oracle(vn_test_t *t, group_t *g) {
    jc_t *c = &g->c;
    VN_ASSERT_OK(t, vn_graph_add_output(c->model->graph, "y", VN_UNDEFINED, -1, NULL, NULL));
    VN_ASSERT_OK_ERR(t, vn_model_finish(c->model, &c->err), c->err);
    c->n_out = 1;
    c->node = NULL;
    VN_ASSERT_OK_ERR(
        t, vn_oracle_region_values(c->model, (const vn_value_t *const *)c->in, &c->contract, VN_WANT_VARIANCE, c->refs, &c->err), c->err);
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__})

VN_TEST(arith_regions, a_narrow_value_between_two_nodes_is_named) {
    enum { P = 40, F = 6 };
    static const struct {
        vn_format_t format;
        const char *cause;
    } planted[] = {{VN_FMT_BF16, "intermediate-bf16"}, {VN_FMT_F16, "intermediate-f16"}};
    for (int k = 0; k < P; ++k) x[k] = k;
    for (int k = 0; k < F; ++k) w[k] = f32(pow(10000, -k / 6.0));
    for (int p = 0; p < 2; ++p) {
        group_t g;
        begin(t, &g);
        jc_in(t, &g.c, VN_F32, JC_DIMS(P, 1), x);
        jc_in(t, &g.c, VN_F32, JC_DIMS(1, F), w);
        add(t, &g, "Mul", 2, NAMES("a", "b"), "angle");
        add(t, &g, "Sin", 1, NAMES("angle"), "y");
        oracle(t, &g);
        for (int k = 0; k < P * F; ++k) y[k] = f32(sin(to(planted[p].format, f32(x[k / F] * w[k % F]))));
        VN_ASSERT_CAUSE(t, &g.c, y, planted[p].cause);
        VN_ASSERT_HAS(t, g.c.found[0].words, "Mul_0");
        for (int k = 0; k < P * F; ++k) y[k] = f32(sin(x[k / F] * w[k % F]));
        for (int k = 0; k < F; ++k) y[7 * F + k] = 0.5;
        VN_ASSERT_NOT_CAUSE(t, &g.c, y, "intermediate operands cast");
        jc_free(&g.c);
    }
}

VN_TEST(arith_regions, casts_without_effect_are_named) {
    enum { N = 90 };
    vn_rng_t rng = vn_test_rng(t);
    nc_fill(&rng, x, N, 1);
    nc_fill(&rng, w, N, 1);
    group_t g;
    begin(t, &g);
    jc_in(t, &g.c, VN_F32, JC_DIMS(N), x);
    jc_in(t, &g.c, VN_F32, JC_DIMS(N), w);
    VN_ASSERT_OK(t, vn_node_set_int(g.c.model, add(t, &g, "Cast", 1, NAMES("a"), "narrow"), "to", VN_BF16, NULL));
    VN_ASSERT_OK(t, vn_node_set_int(g.c.model, add(t, &g, "Cast", 1, NAMES("narrow"), "wide"), "to", VN_F32, NULL));
    add(t, &g, "Sub", 2, NAMES("wide", "b"), "y");
    oracle(t, &g);
    for (int k = 0; k < N; ++k) y[k] = f32(x[k] - w[k]);
    VN_ASSERT_CAUSE(t, &g.c, y, "cast-dropped");
    VN_ASSERT_HAS(t, g.c.found[0].words, "Cast_0");
    for (int k = 0; k < N; ++k) y[k] = f32(to(VN_FMT_BF16, x[k]) + w[k]); /* another operator, not a missing cast */
    VN_ASSERT_NOT_CAUSE(t, &g.c, y, "cast intermediate");
    jc_free(&g.c);
}

VN_TEST(arith_regions, weights_folded_in_their_own_type_are_named) {
    enum { C = 6, K = 8, H = 5 };
    vn_rng_t rng = vn_test_rng(t);
    nc_fill(&rng, x, C * H * H, 1);
    nc_fill(&rng, w, K * C, 0.5);
    for (int k = 0; k < C * H * H; ++k) x[k] = to(VN_FMT_F16, x[k]);
    for (int k = 0; k < K * C; ++k) w[k] = to(VN_FMT_F16, w[k]);
    double p[4][K], eps = (double)1e-5f;
    for (int k = 0; k < K; ++k) {
        for (int q = 0; q < 3; ++q) p[q][k] = to(VN_FMT_F16, q == 0 ? 1 + vn_rng_uniform(&rng) : vn_rng_normal(&rng));
        p[3][k] = to(VN_FMT_F16, 0.5 + vn_rng_uniform(&rng));
    }
    group_t g;
    begin(t, &g);
    jc_in(t, &g.c, VN_F16, JC_DIMS(1, C, H, H), x);
    jc_in(t, &g.c, VN_F16, JC_DIMS(K, C, 1, 1), w);
    for (int q = 0; q < 4; ++q) jc_in(t, &g.c, VN_F16, JC_DIMS(K), p[q]);
    add(t, &g, "Conv", 2, NAMES("a", "b"), "sum");
    add(t, &g, "BatchNormalization", 5, NAMES("sum", "c", "d", "e", "f"), "y");
    oracle(t, &g);
    for (int k = 0; k < K; ++k) {
        const double scale = p[0][k] / sqrt(p[3][k] + eps), bias = to(VN_FMT_F16, p[1][k] - p[2][k] * scale);
        for (int i = 0; i < H * H; ++i) {
            double s = bias;
            for (int c = 0; c < C; ++c) s += to(VN_FMT_F16, w[k * C + c] * scale) * x[c * H * H + i];
            y[k * H * H + i] = to(VN_FMT_F16, s);
        }
    }
    VN_ASSERT_CAUSE(t, &g.c, y, "bn-fold");
    jc_free(&g.c);
}

VN_TEST_MAIN(VN_CASE(arith_regions, a_narrow_value_between_two_nodes_is_named), VN_CASE(arith_regions, casts_without_effect_are_named),
             VN_CASE(arith_regions, weights_folded_in_their_own_type_are_named))
