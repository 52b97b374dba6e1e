/* Claim NAME-ROUND-1 and the rules that no attribute says: rounding, windows, bounds, signs, sums of Einsum, a sibling operator. */
#include "judge/name_case.h"

static double a[NC_MAX], b[NC_MAX], y[NC_MAX];
#define MINE                                                                                                                         \
    "round- truncation-bias attribute-ignored pads-swapped ceil-window cast-rounds saturate- term-dropped border-clamps clip-order " \
    "operator:"

static void set_int(vn_test_t *t, jc_t *c, const char *name, int64_t v) {
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c->model, c->node, name, v, &c->err), c->err);
}
static void set_text(vn_test_t *t, jc_t *c, const char *name, const char *v) {
    VN_ASSERT_OK_ERR(t, vn_node_set_string(c->model, c->node, name, v, &c->err), c->err);
}
static void set_list(vn_test_t *t, jc_t *c, const char *name, const int64_t *v, int64_t n) {
    VN_ASSERT_OK_ERR(t, vn_node_set_ints(c->model, c->node, name, v, n, &c->err), c->err);
}
static double away(double v) { return v < 0 ? ceil(v - 0.5) : floor(v + 0.5); }
static double up(double v) { return floor(v + 0.5); }
static double keep(double q, double lo, double hi) { return fmin(fmax(q, lo), hi); }

static const struct {
    double (*f)(double);
    const char *cause;
} roundings[] = {{away, "round-half-away"}, {up, "round-half-up"}, {trunc, "truncation-bias"}, {floor, "truncation-bias"}};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

VN_TEST(name_rules, quantisers_round_otherwise) {
    const double steps[4] = {0.25, 0.1, 0.5, 2};
    jc_t c;
    jc_new(t, &c, "portable");
    for (int i = 0; i < 160; ++i) a[i] = (float)((i - 80) * 0.125 + (i % 5 == 0 ? 0.03 : 0)); /* many ties of the powers of two */
    jc_in(t, &c, VN_F32, JC_DIMS(40, 4), a);
    jc_in(t, &c, VN_F32, JC_DIMS(4), steps);
    jc_in(t, &c, VN_I8, JC_DIMS(4), (const double[]){0, 3, -2, 1});
    jc_op(t, &c, "QuantizeLinear", 21, 1);
    set_int(t, &c, "axis", 1);
    jc_oracle(t, &c);
    for (int r = 0; r < ROUNDINGS; ++r) {
        for (int i = 0; i < 160; ++i)
            y[i] = keep(roundings[r].f((double)((float)a[i] / (float)steps[i % 4])) + (const double[]){0, 3, -2, 1}[i % 4], -128, 127);
        VN_ASSERT_CAUSE(t, &c, y, roundings[r].cause);
    }
    for (int i = 0; i < 160; ++i) /* ties alternate for no reason */
        y[i] = keep((i % 3 ? away : rint)((double)((float)a[i] / (float)steps[i % 4])) + (i % 7 == 0), -128, 127);
    VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    jc_free(&c);
}

VN_TEST(name_rules, zero_point_before_the_rounding) {
    jc_t c;
    jc_new(t, &c, "portable");
    for (int i = 0; i < 40; ++i) a[i] = (i - 20) * 0.5;
    jc_in(t, &c, VN_F32, JC_DIMS(40), a);
    jc_in(t, &c, VN_F32, JC_DIMS(-1), (const double[]){1});
    jc_in(t, &c, VN_U8, JC_DIMS(-1), (const double[]){101});
    jc_op(t, &c, "QuantizeLinear", 21, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 40; ++i) y[i] = rint(a[i] + 101);
    VN_ASSERT_CAUSE(t, &c, y, "round-order");
    jc_free(&c);
}

VN_TEST(name_rules, round_and_casts) {
    jc_t c;
    jc_new(t, &c, "ieee");
    for (int i = 0; i < 60; ++i) a[i] = (i - 30) * 0.25;
    jc_in(t, &c, VN_F16, JC_DIMS(60), a);
    jc_op(t, &c, "Round", 22, 1);
    jc_oracle(t, &c);
    for (int r = 0; r < ROUNDINGS; ++r) {
        for (int i = 0; i < 60; ++i) y[i] = roundings[r].f(a[i]);
        VN_ASSERT_CAUSE(t, &c, y, roundings[r].cause);
    }
    jc_free(&c);

    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(60), a);
    jc_op(t, &c, "Cast", 21, 1);
    set_int(t, &c, "to", 6);
    jc_oracle(t, &c);
    for (int i = 0; i < 60; ++i) y[i] = rint(a[i]);
    VN_ASSERT_CAUSE(t, &c, y, "cast-rounds");
    jc_free(&c);

    jc_new(t, &c, "ieee");
    for (int i = 0; i < 60; ++i) a[i] = (i - 30) * 37;
    jc_in(t, &c, VN_I64, JC_DIMS(60), a);
    jc_op(t, &c, "Cast", 21, 1);
    set_int(t, &c, "to", 3);
    jc_oracle(t, &c);
    for (int i = 0; i < 60; ++i) y[i] = keep(a[i], -128, 127);
    VN_ASSERT_CAUSE(t, &c, y, "saturate-i8");
    jc_free(&c);
}

VN_TEST(name_rules, stores_that_cut) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "portable");
    nc_fill(&rng, a, 12 * 16, 1);
    nc_fill(&rng, b, 16 * 12, 1);
    for (int i = 0; i < 192; ++i) a[i] = vn_round_to(VN_FMT_BF16, a[i], VN_RNE, false);
    for (int i = 0; i < 192; ++i) b[i] = vn_round_to(VN_FMT_BF16, b[i], VN_RNE, false);
    jc_in(t, &c, VN_BF16, JC_DIMS(12, 16), a);
    jc_in(t, &c, VN_BF16, JC_DIMS(16, 12), b);
    jc_op(t, &c, "MatMul", 13, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 144; ++i) {
        double s = 0;
        for (int k = 0; k < 16; ++k) s += a[i / 12 * 16 + k] * b[k * 12 + i % 12];
        y[i] = vn_round_to(VN_FMT_BF16, s, VN_RZ, false);
    }
    VN_ASSERT_CAUSE(t, &c, y, "truncation-bias");
    for (int i = 0; i < 144; i += 9) y[i] = 1.5 * y[i];
    VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    jc_free(&c);
}

VN_TEST(name_rules, requantised_products) {
    jc_t c;
    vn_rng_t rng = vn_test_rng(t);
    jc_new(t, &c, "portable");
    double bz[6] = {0}, bs[6] = {0.25, 0.5, 0.25, 0.25, 1, 0.5};
    for (int i = 0; i < 48; ++i) a[i] = (double)vn_rng_below(&rng, 256);
    for (int i = 0; i < 48; ++i) b[i] = (double)vn_rng_below(&rng, 255) - 127;
    jc_in(t, &c, VN_U8, JC_DIMS(6, 8), a);
    jc_in(t, &c, VN_F32, JC_DIMS(-1), (const double[]){0.5});
    jc_in(t, &c, VN_U8, JC_DIMS(-1), (const double[]){120});
    jc_in(t, &c, VN_I8, JC_DIMS(8, 6), b);
    jc_in(t, &c, VN_F32, JC_DIMS(6), bs);
    jc_in(t, &c, VN_I8, JC_DIMS(6), bz);
    const char *const more[] = {"ys", "yz"}; /* judge_case.h names six inputs */
    vn_tensor_t *ys = jc_tensor(t, VN_F32, JC_DIMS(-1), (const double[]){64}),
                *yz = jc_tensor(t, VN_U8, JC_DIMS(-1), (const double[]){100});
    const char *names[8] = {"a", "b", "c", "d", "e", "f", more[0], more[1]};
    VN_ASSERT_OK(t, vn_graph_add_init(c.model->graph, more[0], ys, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(c.model->graph, more[1], yz, NULL));
    VN_ASSERT_OK(t, vn_model_set_opset(c.model, "", 21, NULL));
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(c.model->graph, "n", "QLinearMatMul", "", 8, names, 1, jc_out_names, &c.node, &c.err), c.err);
    VN_ASSERT_OK(t, vn_graph_add_output(c.model->graph, "y", VN_UNDEFINED, -1, NULL, NULL));
    VN_ASSERT_OK_ERR(t, vn_model_finish(c.model, &c.err), c.err);
    c.node = &c.model->graph->nodes[0];
    vn_value_t *in[8] = {c.in[0], c.in[1], c.in[2], c.in[3], c.in[4], c.in[5], vn_value_tensor(ys), vn_value_tensor(yz)};
    c.n_out = 1;
    VN_ASSERT_OK_ERR(t, vn_oracle_node(c.model, c.node, (const vn_value_t *const *)in, NULL, &c.contract, VN_WANT_VARIANCE, c.refs, &c.err),
                     c.err);
    for (int r = 0; r < 3; r += 2) { /* away and cut */
        for (int i = 0; i < 36; ++i) {
            double s = 0;
            for (int k = 0; k < 8; ++k) s += (a[i / 6 * 8 + k] - 120) * b[k * 6 + i % 6];
            y[i] = keep(roundings[r].f(s * 0.5 * bs[i % 6] / 64) + 100, 0, 255);
        }
        jc_gives(&c, 0, jc_tensor(t, VN_U8, JC_DIMS(6, 6), y));
        vn_question_t q = jc_question(&c);
        q.inputs = (const vn_value_t *const *)in;
        VN_ASSERT_OK_ERR(t, vn_judge(&q, c.found, &c.err), c.err);
        if (c.found[0].outside) VN_ASSERT_STR(t, c.found[0].cause, roundings[r].cause); /* no tie among the data: nothing to see */
        if (r == 2) VN_ASSERT(t, c.found[0].outside > 0);
    }
    vn_value_free(in[6]);
    vn_value_free(in[7]);
    jc_free(&c);
}

/* One channel of a padded 1-D window sum: kernel 3 with weights, any dilation, stride and padding before. */
static void conv(const double *x, int n, const double *w, int out, int stride, int dilation, int lo, double *to) {
    for (int o = 0; o < out; ++o) {
        to[o] = 0;
        for (int k = 0; k < 3; ++k) {
            const int at = o * stride + k * dilation - lo;
            if (at >= 0 && at < n) to[o] += x[at] * w[k];
        }
    }
}

VN_TEST(name_rules, windows_put_down_otherwise) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "ieee");
    nc_fill(&rng, a, 20, 1);
    nc_fill(&rng, b, 3, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(1, 1, 20), a);
    jc_in(t, &c, VN_F32, JC_DIMS(1, 1, 3), b);
    jc_op(t, &c, "Conv", 11, 1);
    set_list(t, &c, "dilations", (const int64_t[]){3}, 1);
    set_list(t, &c, "strides", (const int64_t[]){2}, 1);
    set_list(t, &c, "pads", (const int64_t[]){3, 1}, 2);
    jc_oracle(t, &c);
    const int out = (int)c.refs[0].count;
    VN_ASSERT_EQ(t, out, 9);
    conv(a, 20, b, out, 2, 3, 1, y);
    VN_ASSERT_CAUSE(t, &c, y, "pads-swapped");
    conv(a, 20, b, out, 2, 3, 0, y);
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:pads");
    conv(a, 20, b, out, 2, 1, 3, y);
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:dilations");
    conv(a, 20, b, out, 2, 1, 1, y); /* centred where it was */
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:dilations");
    conv(a, 20, b, out, 1, 3, 3, y);
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:strides");
    conv(a, 20, b, out, 2, 3, 2, y);
    y[4] += 0.25;
    VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    jc_free(&c);
}

VN_TEST(name_rules, the_last_window_of_ceil_mode) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "portable");
    nc_fill(&rng, a, 2 * 6, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(1, 2, 6), a);
    jc_op(t, &c, "AveragePool", 19, 1);
    set_list(t, &c, "kernel_shape", (const int64_t[]){3}, 1);
    set_list(t, &c, "strides", (const int64_t[]){2}, 1);
    set_int(t, &c, "ceil_mode", 1);
    jc_oracle(t, &c);
    VN_ASSERT_EQ(t, c.refs[0].count, 6);
    for (int i = 0; i < 6; ++i) {
        y[i] = 0;
        for (int k = 0; k < 3; ++k)
            if (i % 3 * 2 + k < 6) y[i] += a[i / 3 * 6 + i % 3 * 2 + k] / 3;
    }
    VN_ASSERT_CAUSE(t, &c, y, "ceil-window-divisor");
    jc_free(&c);
}

VN_TEST(name_rules, bounds_and_signs) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "ieee");
    nc_fill(&rng, a, 30, 1);
    jc_in(t, &c, VN_F16, JC_DIMS(30), a);
    jc_in(t, &c, VN_F16, JC_DIMS(-1), (const double[]){0.75});
    jc_in(t, &c, VN_F16, JC_DIMS(-1), (const double[]){-0.5});
    jc_op(t, &c, "Clip", 13, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 30; ++i) y[i] = 0.75;
    VN_ASSERT_CAUSE(t, &c, y, "clip-order");
    jc_free(&c);

    jc_new(t, &c, "ieee");
    nc_fill(&rng, a, 12, 5);
    nc_fill(&rng, b, 4, 2);
    jc_in(t, &c, VN_F32, JC_DIMS(3, 4), a);
    jc_in(t, &c, VN_F32, JC_DIMS(4), b);
    jc_op(t, &c, "Mod", 13, 1);
    set_int(t, &c, "fmod", 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 12; ++i) {
        const double r = fmod(a[i], b[i % 4]);
        y[i] = r != 0 && (r < 0) != (b[i % 4] < 0) ? r + b[i % 4] : r;
    }
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:fmod");
    jc_free(&c);
}

VN_TEST(name_rules, einsum_without_a_sum) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "ieee");
    nc_fill(&rng, a, 3 * 4 * 4, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(3, 4, 4), a);
    jc_op(t, &c, "Einsum", 12, 1);
    set_text(t, &c, "equation", "bij -> bj");
    jc_oracle(t, &c);
    for (int i = 0; i < 12; ++i) y[i] = a[i / 4 * 16 + 12 + i % 4]; /* the last of i */
    VN_ASSERT_CAUSE(t, &c, y, "term-dropped");
    jc_free(&c);
}

VN_TEST(name_rules, a_sample_point_that_is_clamped) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c, clamped;
    double grid[24], moved[24];
    nc_fill(&rng, a, 25, 1);
    for (int i = 0; i < 24; ++i) grid[i] = (float)(0.3 * (i - 12) / 3.0);
    for (int i = 0; i < 24; ++i) moved[i] = (float)keep(grid[i], -0.8, 0.8); /* the centres of the outer pixels of 5 */
    for (int k = 0; k < 2; ++k) {
        jc_t *q = k ? &clamped : &c;
        jc_new(t, q, "portable");
        jc_in(t, q, VN_F32, JC_DIMS(1, 1, 5, 5), a);
        jc_in(t, q, VN_F32, JC_DIMS(1, 3, 4, 2), k ? moved : grid);
        jc_op(t, q, "GridSample", 20, 1);
        set_text(t, q, "mode", "cubic");
        set_text(t, q, "padding_mode", "border");
        jc_oracle(t, q);
    }
    VN_ASSERT_CAUSE(t, &c, clamped.refs[0].value, "border-clamps-point");
    jc_free(&c);
    jc_free(&clamped);
}

VN_TEST(name_rules, a_sibling_operator) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "portable");
    nc_fill(&rng, a, 30, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(30), a);
    jc_op(t, &c, "Sin", 22, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 30; ++i) y[i] = cos(a[i]);
    VN_ASSERT_CAUSE(t, &c, y, "operator:Cos");
    for (int i = 0; i < 30; ++i) y[i] = cos(a[i]) + (i == 7);
    VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(name_rules, quantisers_round_otherwise), VN_CASE(name_rules, zero_point_before_the_rounding),
             VN_CASE(name_rules, round_and_casts), VN_CASE(name_rules, stores_that_cut), VN_CASE(name_rules, requantised_products),
             VN_CASE(name_rules, windows_put_down_otherwise), VN_CASE(name_rules, the_last_window_of_ceil_mode),
             VN_CASE(name_rules, bounds_and_signs), VN_CASE(name_rules, einsum_without_a_sum),
             VN_CASE(name_rules, a_sample_point_that_is_clamped), VN_CASE(name_rules, a_sibling_operator))
