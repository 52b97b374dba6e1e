/* Names for scans, softmax and maxima in blocks, padding lanes, recurrent layers (claims NAME-1, NAME-BLOCK-1, NAME-BLOCK-2). */
#include "judge/name_case.h"

#define OURS "block-merge padding-leaks k-tail term-dropped mask-ignored state-ignored gate-order group-index bias-missing time-reversed"

static double x[NC_MAX], y[NC_MAX], z[NC_MAX];

static void noise(vn_rng_t *rng, double *out, int n, double spread) {
    for (int i = 0; i < n; ++i) out[i] = spread * vn_rng_normal(rng);
}

/* A scan of 90 along the first of two axes; blocks of 28. */
VN_TEST(scan, carries) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 90, W = 3, BLOCK = 28 };
    const double axis[1] = {0};
    for (int mode = 0; mode < 4; ++mode) { /* exclusive, reverse */
        jc_t c;
        nc_fill(&rng, x, N * W, 1);
        jc_new(t, &c, "portable");
        jc_in(t, &c, VN_F32, JC_DIMS(N, W), x);
        jc_in(t, &c, VN_I64, JC_DIMS(1), axis);
        jc_op(t, &c, "CumSum", 14, 1);
        VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "exclusive", mode & 1, &c.err), c.err);
        VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "reverse", mode >> 1, &c.err), c.err);
        jc_oracle(t, &c);
        for (int way = 0; way < 4; ++way) { /* right; no carry; the last block's alone; one total lost */
            for (int w = 0; w < W; ++w) {
                double carry = 0, total = 0;
                for (int i = 0; i < N; ++i) {
                    const int at = (mode >> 1 ? N - 1 - i : i) * W + w;
                    if (i % BLOCK == 0 && i) {
                        carry = way == 0 ? carry + total : way == 1 ? 0 : way == 2 ? total : carry + (i == 2 * BLOCK ? 0 : total);
                        total = 0;
                    }
                    y[at] = carry + total + (mode & 1 ? 0 : x[at]);
                    total += x[at];
                }
            }
            if (way == 0) VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
            else VN_ASSERT_CAUSE(t, &c, y, "block-merge-missing");
        }
        for (int i = 0; i < N * W; ++i) y[i] += 0.01 * vn_rng_normal(&rng);
        VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
        jc_free(&c);
    }
}

/* Softmax of 50 along the first axis, its divisor wrong in several ways. */
VN_TEST(scan, softmax_divisors) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 50, W = 3, BLOCK = 16 };
    for (int log = 0; log < 2; ++log) {
        jc_t c;
        nc_fill(&rng, x, N * W, 1.5);
        jc_new(t, &c, "portable");
        jc_in(t, &c, VN_F32, JC_DIMS(N, W), x);
        jc_op(t, &c, log ? "LogSoftmax" : "Softmax", 13, 1);
        VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "axis", 0, &c.err), c.err);
        jc_oracle(t, &c);
        for (int way = 0; way < 5; ++way) { /* right; own blocks; first block's sum; 40 zeros more; never rescaled */
            for (int w = 0; w < W; ++w) {
                double all = 0, block[N / BLOCK + 1] = {0}, running = -INFINITY, unscaled = 0, top = -INFINITY;
                for (int i = 0; i < N; ++i) {
                    all += exp(x[i * W + w]), block[i / BLOCK] += exp(x[i * W + w]);
                    top = fmax(top, x[i * W + w]);
                    for (int j = i; i % BLOCK == 0 && j < i + BLOCK && j < N; ++j) running = fmax(running, x[j * W + w]);
                    unscaled += exp(x[i * W + w] - running);
                }
                for (int i = 0; i < N; ++i) {
                    const double by = way == 0   ? all
                                      : way == 1 ? block[i / BLOCK]
                                      : way == 2 ? block[0]
                                      : way == 3 ? all + 40
                                                 : unscaled * exp(top),
                                 p = exp(x[i * W + w]) / by;
                    y[i * W + w] = log ? (float)x[i * W + w] - (double)logl((long double)by) : p;
                }
            }
            if (way == 0) VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
            else VN_ASSERT_CAUSE(t, &c, y, way == 3 ? "padding-leaks" : "block-merge-missing");
        }
        noise(&rng, y, N * W, 0.1);
        VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
        jc_free(&c);
    }
}

VN_TEST(scan, maxima) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 40, W = 12 };
    jc_t c;
    nc_fill(&rng, x, N * W, 1);
    for (int i = 0; i < N * W; ++i) x[i] = (float)(-fabs(x[i]) - 0.5);
    x[23 * W + 1] = x[24 * W + 5] = -0.25; /* the cut at 24 decides */
    const double axes[1] = {0};
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(N, W), x);
    jc_in(t, &c, VN_I64, JC_DIMS(1), axes);
    jc_op(t, &c, "ReduceMax", 20, 1);
    jc_oracle(t, &c);
    for (int way = 0; way < 3; ++way) { /* with a zero lane; the first 24 of 40; the last 16 */
        for (int w = 0; w < W; ++w) {
            y[w] = way ? -INFINITY : 0;
            for (int i = way == 2 ? 24 : 0; i < (way == 1 ? 24 : N); ++i) y[w] = fmax(y[w], x[i * W + w]);
        }
        VN_ASSERT_CAUSE(t, &c, y, way == 0 ? "padding-leaks" : way == 1 ? "k-tail-dropped:16" : "block-merge-missing");
    }
    noise(&rng, y, W, 1);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

/* ---- GRU, both directions, reset after the product ---- */

enum { T = 6, B = 2, I = 3, H = 4, DIR = 2 };
static double w[DIR * 3 * H * I], r[DIR * 3 * H * H], bias[DIR * 6 * H], start[DIR * B * H];

typedef struct gru {
    bool no_start, no_length, processing;
    int order[3]; /* block of gate g is taken from order[g] */
    double recurrent_bias;
    int direction; /* weights of this direction for both; -1: its own */
} gru_t;

static const double lengths[B] = {6, 4};

static void run(const gru_t *g, double *out) {
    for (int n = 0; n < T * DIR * B * H; ++n) out[n] = 0;
    for (int d = 0; d < DIR; ++d)
        for (int b = 0; b < B; ++b) {
            const int steps = g->no_length ? T : (int)lengths[b], from = g->direction < 0 ? d : g->direction;
            double h[H];
            for (int k = 0; k < H; ++k) h[k] = g->no_start ? 0 : start[(d * B + b) * H + k];
            for (int n = 0; n < steps; ++n) {
                const int at = d ? steps - 1 - n : n, to = g->processing ? n : at;
                double gate[3][H], back[H], next[H];
                for (int k = 0; k < 3 * H; ++k) {
                    const int row = from * 3 * H + g->order[k / H] * H + k % H, wb = from * 6 * H + g->order[k / H] * H + k % H;
                    double a = bias[wb], s = g->recurrent_bias * bias[wb + 3 * H];
                    for (int i = 0; i < I; ++i) a += w[row * I + i] * x[(at * B + b) * I + i];
                    for (int i = 0; i < H; ++i) s += r[row * H + i] * h[i];
                    gate[k / H][k % H] = a;
                    if (k / H == 2) back[k % H] = s;
                    else gate[k / H][k % H] += s;
                }
                for (int k = 0; k < H; ++k) {
                    const double zg = 1 / (1 + exp(-gate[0][k])), rg = 1 / (1 + exp(-gate[1][k]));
                    next[k] = (1 - zg) * tanh(gate[2][k] + rg * back[k]) + zg * h[k];
                }
                for (int k = 0; k < H; ++k) out[((to * DIR + d) * B + b) * H + k] = h[k] = next[k];
            }
        }
}

VN_TEST(recurrent, states_lengths_gates) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    nc_fill(&rng, x, T * B * I, 1);
    nc_fill(&rng, w, DIR * 3 * H * I, 0.7);
    nc_fill(&rng, r, DIR * 3 * H * H, 0.5);
    nc_fill(&rng, bias, DIR * 6 * H, 0.5);
    nc_fill(&rng, start, DIR * B * H, 0.8);
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(T, B, I), x);
    jc_in(t, &c, VN_F32, JC_DIMS(DIR, 3 * H, I), w);
    jc_in(t, &c, VN_F32, JC_DIMS(DIR, 3 * H, H), r);
    jc_in(t, &c, VN_F32, JC_DIMS(DIR, 6 * H), bias);
    jc_in(t, &c, VN_I32, JC_DIMS(B), lengths);
    jc_in(t, &c, VN_F32, JC_DIMS(DIR, B, H), start);
    jc_op(t, &c, "GRU", 22, 1);
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "hidden_size", H, &c.err), c.err);
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c.model, c.node, "linear_before_reset", 1, &c.err), c.err);
    VN_ASSERT_OK_ERR(t, vn_node_set_string(c.model, c.node, "direction", "bidirectional", &c.err), c.err);
    jc_oracle(t, &c);
    const gru_t due = {.order = {0, 1, 2}, .recurrent_bias = 1, .direction = -1};
    run(&due, y);
    VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
    gru_t g = due;
    g.no_start = true;
    run(&g, y);
    VN_ASSERT_CAUSE(t, &c, y, "state-ignored");
    g = due, g.no_length = true;
    run(&g, y);
    VN_ASSERT_CAUSE(t, &c, y, "mask-ignored");
    g = due, g.order[0] = 1, g.order[1] = 0;
    run(&g, y);
    VN_ASSERT_CAUSE(t, &c, y, "gate-order");
    g = due, g.recurrent_bias = 0;
    run(&g, y);
    VN_ASSERT_CAUSE(t, &c, y, "bias-missing");
    g = due, g.direction = 0;
    run(&g, y);
    VN_ASSERT_CAUSE(t, &c, y, "group-index");
    g = due, g.processing = true;
    run(&g, y);
    VN_ASSERT_CAUSE(t, &c, y, "time-reversed");
    run(&due, z);
    for (int n = 0; n < T * DIR * B * H; ++n) y[n] = z[n] + 0.02 * vn_rng_normal(&rng);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(scan, carries), VN_CASE(scan, softmax_divisors), VN_CASE(scan, maxima), VN_CASE(recurrent, states_lengths_gates))
