/* Values of products, convolutions, pooling, attention and recurrent layers against MPFR: inside the oracle's own error, f32 and f64. */
#include <stdio.h>

#include "twin_case.h"

static const vn_dtype_t types[] = {VN_F32, VN_F64};

/* Products of the largest f64 numbers are none, and those of its subnormals leave the 2^-1074 grid. */
static bool out_of_range(vn_dtype_t type, int data) { return type == VN_F64 && (data == TWIN_HUGE || data == TWIN_SUBNORMAL); }

static void named(char *what, size_t size, const char *op, vn_dtype_t type, int data) {
    snprintf(what, size, "%s, %s, %s data", op, vn_dtype_name(type), twin_data_names[data]);
}

/* ---- products ---- */

enum { M = 3, K = 37, N = 4 };

VN_TEST(layers, matrix_products) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    for (int run = 0; run < 2 * TWIN_DATA; ++run) {
        const vn_dtype_t type = types[run % 2];
        const int data = run / 2;
        const vn_format_t f = vn_format_of(type);
        double a[M * K], b[K * N], bias[N];
        char what[120];
        if (out_of_range(type, data)) continue;
        twin_fill(&rng, (twin_data_t)data, f, a, M * K);
        twin_fill(&rng, (twin_data_t)data, f, b, K * N);
        twin_fill(&rng, TWIN_RANDOM, f, bias, N);
        for (int form = 0; form < 3; ++form) {
            static const char *const ops[] = {"MatMul", "Gemm", "Einsum"};
            const float alpha = 0.3f, beta = -1.7f;
            one_node_t c = {.op = ops[form], .version = form == 2 ? 12 : 13, .n_in = form == 1 ? 3 : 2, .want = VN_WANT_BOUND};
            if (form == 1) {
                c.attrs[0] = (one_attr_t){"alpha", ONE_FLOAT, alpha, NULL};
                c.attrs[1] = (one_attr_t){"beta", ONE_FLOAT, beta, NULL};
                c.in[2] = one_vector(t, type, N, bias);
            }
            if (form == 2) c.attrs[0] = (one_attr_t){"equation", ONE_TEXT, 0, "ik,kj->ij"};
            c.in[0] = twin_tensor(t, type, TWIN_DIMS(M, K), a);
            c.in[1] = twin_tensor(t, type, TWIN_DIMS(K, N), b);
            one_run(t, &c);
            named(what, sizeof what, ops[form], type, data);
            for (int i = 0; i < M * N; ++i) {
                mpfr_set_zero(y, 1);
                tw_dot(y, a + i / N * K, 1, b + i % N, N, K);
                if (form == 1) {
                    mpfr_t part;
                    mpfr_init2(part, 120);
                    mpfr_set_d(part, bias[i % N], MPFR_RNDN);
                    mpfr_mul_d(part, part, (double)beta, MPFR_RNDN);
                    mpfr_mul_d(y, y, (double)alpha, MPFR_RNDN);
                    mpfr_add(y, y, part, MPFR_RNDN);
                    mpfr_clear(part);
                }
                twin_value(t, what, &c.out[0], i, y);
            }
            one_free(&c);
        }
    }
    mpfr_clear(y);
}

/* Three operands in one term. */
VN_TEST(layers, products_of_three) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t y, p;
    mpfr_inits2(TW_BITS, y, p, (mpfr_ptr)0);
    for (int run = 0; run < 2 * TWIN_DATA; ++run) {
        const vn_dtype_t type = types[run % 2];
        const int data = run / 2;
        double x[3][K];
        char what[120];
        if (data == TWIN_HUGE || data == TWIN_SUBNORMAL) continue;
        one_node_t c = {.op = "Einsum", .version = 12, .n_in = 3, .want = VN_WANT_BOUND, .attrs = {{"equation", ONE_TEXT, 0, "i,i,i->"}}};
        for (int k = 0; k < 3; ++k) {
            twin_fill(&rng, (twin_data_t)data, vn_format_of(type), x[k], K);
            c.in[k] = one_vector(t, type, K, x[k]);
        }
        one_run(t, &c);
        mpfr_set_zero(y, 1);
        for (int i = 0; i < K; ++i) {
            mpfr_set_d(p, x[0][i], MPFR_RNDN);
            mpfr_mul_d(p, p, x[1][i], MPFR_RNDN);
            mpfr_mul_d(p, p, x[2][i], MPFR_RNDN);
            mpfr_add(y, y, p, MPFR_RNDN);
        }
        named(what, sizeof what, "Einsum of three", type, data);
        twin_value(t, what, &c.out[0], 0, y);
        one_free(&c);
    }
    mpfr_clears(y, p, (mpfr_ptr)0);
}

/* ---- convolutions and pooling over a plane: CH channels of H x W, 3 x 3 taps, padding so that sizes stay ---- */

enum { CH = 3, H = 5, W = 6, TAPS = 3, OUT = 2 };

static bool tap(int at, int p, int size, int *i) {
    *i = at + p - 1;
    return *i >= 0 && *i < size;
}

static void convolve(mpfr_t y, const double *x, const double *w, int o, int r, int q, bool transposed) {
    mpfr_t p;
    mpfr_init2(p, 120);
    for (int c = 0; c < CH; ++c)
        for (int k = 0; k < TAPS * TAPS; ++k) {
            int i, j; /* the transposed form is the same sum with the taps mirrored and the first axes of w exchanged */
            if (!tap(r, k / TAPS, H, &i) || !tap(q, k % TAPS, W, &j)) continue;
            mpfr_set_d(p, x[(c * H + i) * W + j], MPFR_RNDN);
            mpfr_mul_d(p, p, transposed ? w[(c * OUT + o) * TAPS * TAPS + TAPS * TAPS - 1 - k] : w[(o * CH + c) * TAPS * TAPS + k],
                       MPFR_RNDN);
            mpfr_add(y, y, p, MPFR_RNDN);
        }
    mpfr_clear(p);
}

VN_TEST(layers, convolutions) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    for (int run = 0; run < 4 * TWIN_DATA; ++run) {
        const vn_dtype_t type = types[run % 2];
        const bool transposed = run / 2 % 2;
        const int data = run / 4;
        double x[CH * H * W], w[OUT * CH * TAPS * TAPS], bias[OUT];
        char what[120];
        if (out_of_range(type, data)) continue;
        twin_fill(&rng, (twin_data_t)data, vn_format_of(type), x, CH * H * W);
        twin_fill(&rng, (twin_data_t)data, vn_format_of(type), w, OUT * CH * TAPS * TAPS);
        twin_fill(&rng, (twin_data_t)data, vn_format_of(type), bias, OUT);
        one_node_t c = {.op = transposed ? "ConvTranspose" : "Conv",
                        .version = 22,
                        .n_in = 3,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"auto_pad", ONE_TEXT, 0, "SAME_UPPER"}}};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, CH, H, W), x);
        c.in[1] =
            transposed ? twin_tensor(t, type, TWIN_DIMS(CH, OUT, TAPS, TAPS), w) : twin_tensor(t, type, TWIN_DIMS(OUT, CH, TAPS, TAPS), w);
        c.in[2] = one_vector(t, type, OUT, bias);
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].count, OUT * H * W);
        named(what, sizeof what, c.op, type, data);
        for (int i = 0; i < OUT * H * W; ++i) {
            mpfr_set_d(y, bias[i / (H * W)], MPFR_RNDN);
            convolve(y, x, w, i / (H * W), i / W % H, i % W, transposed);
            twin_value(t, what, &c.out[0], i, y);
        }
        one_free(&c);
    }
    mpfr_clear(y);
}

VN_TEST(layers, pooling) {
    vn_rng_t rng = vn_test_rng(t);
    static const char *const ops[] = {"GlobalAveragePool", "GlobalLpPool", "GlobalLpPool"};
    static const tw_reduce_t kinds[] = {TW_MEAN, TW_L2, TW_L1};
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    for (int run = 0; run < 6 * TWIN_DATA; ++run) {
        const vn_dtype_t type = types[run % 2];
        const int data = run / 6, form = run / 2 % 3;
        double x[CH * H * W];
        char what[120];
        if (out_of_range(type, data)) continue;
        for (int c = 0; c < CH; ++c) twin_fill(&rng, (twin_data_t)data, vn_format_of(type), x + c * H * W, H * W);
        one_node_t c = {.op = ops[form], .version = form ? 2 : 1, .n_in = 1, .want = VN_WANT_BOUND};
        if (form) c.attrs[0] = (one_attr_t){"p", ONE_INT, form == 1 ? 2 : 1, NULL};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, CH, H, W), x);
        one_run(t, &c);
        named(what, sizeof what, ops[form], type, data);
        for (int k = 0; k < CH; ++k) {
            tw_reduce(y, kinds[form], x + k * H * W, H * W);
            twin_value(t, what, &c.out[0], k, y);
        }
        one_free(&c);
    }
    mpfr_clear(y);
}

/* ---- attention ---- */

enum { QUERIES = 3, KEYS = 21, SIZE = 8, VALUE = 5 };

VN_TEST(layers, attention) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *y = tw_new(VALUE);
    for (int run = 0; run < 4 * TWIN_DATA; ++run) {
        const vn_dtype_t type = types[run % 2];
        const vn_format_t f = vn_format_of(type);
        const bool rich = run / 2 % 2; /* mask and softcap */
        const int data = run / 4;
        double q[QUERIES * SIZE], k[KEYS * SIZE], v[KEYS * VALUE], mask[QUERIES * KEYS];
        char what[120];
        if (data == TWIN_HUGE || (data == TWIN_SUBNORMAL && type == VN_F64)) continue; /* scores beyond every number */
        twin_fill(&rng, (twin_data_t)data, f, q, QUERIES * SIZE);
        twin_fill(&rng, TWIN_RANDOM, f, k, KEYS * SIZE);
        twin_fill(&rng, (twin_data_t)data, f, v, KEYS * VALUE);
        for (int i = 0; i < QUERIES * KEYS; ++i)
            mask[i] = vn_rng_below(&rng, 4) ? vn_round_to(f, vn_rng_normal(&rng), VN_RNE, false) : -INFINITY;
        one_node_t c = {
            .op = "Attention", .version = 23, .n_in = rich ? 4 : 3, .want = VN_WANT_BOUND, .attrs = {{"scale", ONE_FLOAT, 0.375, NULL}}};
        if (rich) c.attrs[1] = (one_attr_t){"softcap", ONE_FLOAT, 1.5, NULL};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, 1, QUERIES, SIZE), q);
        c.in[1] = twin_tensor(t, type, TWIN_DIMS(1, 1, KEYS, SIZE), k);
        c.in[2] = twin_tensor(t, type, TWIN_DIMS(1, 1, KEYS, VALUE), v);
        if (rich) c.in[3] = twin_tensor(t, type, TWIN_DIMS(QUERIES, KEYS), mask);
        one_run(t, &c);
        named(what, sizeof what, rich ? "Attention with mask and softcap" : "Attention", type, data);
        for (int i = 0; i < QUERIES; ++i) {
            tw_attend(y, &(tw_query_t){.q = q + i * SIZE,
                                       .k = k,
                                       .v = v,
                                       .mask = rich ? mask + i * KEYS : NULL,
                                       .keys = KEYS,
                                       .size = SIZE,
                                       .value_size = VALUE,
                                       .scale = 0.375,
                                       .softcap = rich ? 1.5 : 0});
            for (int p = 0; p < VALUE; ++p) twin_value(t, what, &c.out[0], i * VALUE + p, y[p]);
        }
        one_free(&c);
    }
    tw_free(y, VALUE);
}

/* ---- recurrent layers: STEPS steps, I inputs, U units ---- */

enum { STEPS = 4, I = 5, U = 3, MAX_GATES = 4 };

typedef struct net {
    char kind; /* R, G, L */
    int gates;
    bool reset_after;
    double x[STEPS * I], w[MAX_GATES * U * I], r[MAX_GATES * U * U], b[2 * MAX_GATES * U];
} net_t;

/* y = W_g x + b (part 1) + R_g h + b' (part 2), unit k of gate g. */
static void argument(mpfr_t y, const net_t *n, int g, int k, const double *x, mpfr_t *h, int part) {
    mpfr_t p;
    mpfr_init2(p, TW_BITS);
    mpfr_set_zero(y, 1);
    if (part & 1) {
        tw_dot(y, n->w + (g * U + k) * I, 1, x, 1, I);
        mpfr_add_d(y, y, n->b[g * U + k], MPFR_RNDN);
    }
    for (int i = 0; i < U && part & 2; ++i) {
        mpfr_mul_d(p, h[i], n->r[(g * U + k) * U + i], MPFR_RNDN);
        mpfr_add(y, y, p, MPFR_RNDN);
    }
    if (part & 2) mpfr_add_d(y, y, n->b[(n->gates + g) * U + k], MPFR_RNDN);
    mpfr_clear(p);
}

static void gate(mpfr_t y, const net_t *n, int g, int k, const double *x, mpfr_t *h) {
    argument(y, n, g, k, x, h, 3);
    tw_function("Sigmoid", NULL)->exact(y, y, NULL);
}

/* next: U numbers for the new state, s: scratch. */
static void step(const net_t *n, const double *x, mpfr_t *h, mpfr_t *c, mpfr_t *next, mpfr_t *s) {
    for (int k = 0; k < U; ++k) {
        if (n->kind == 'R') {
            argument(next[k], n, 0, k, x, h, 3);
            mpfr_tanh(next[k], next[k], MPFR_RNDN);
        } else if (n->kind == 'L') { /* gates i, o, f, c */
            gate(s[0], n, 0, k, x, h);
            gate(s[1], n, 2, k, x, h);
            argument(s[2], n, 3, k, x, h, 3);
            mpfr_tanh(s[2], s[2], MPFR_RNDN);
            mpfr_mul(s[0], s[0], s[2], MPFR_RNDN);
            mpfr_mul(c[k], c[k], s[1], MPFR_RNDN);
            mpfr_add(c[k], c[k], s[0], MPFR_RNDN);
            gate(s[1], n, 1, k, x, h);
            mpfr_tanh(s[2], c[k], MPFR_RNDN);
            mpfr_mul(next[k], s[1], s[2], MPFR_RNDN);
        } else { /* gates z, r, h */
            if (n->reset_after) {
                gate(s[0], n, 1, k, x, h);
                argument(s[1], n, 2, k, x, h, 2);
                mpfr_mul(s[1], s[1], s[0], MPFR_RNDN);
            } else {
                for (int i = 0; i < U; ++i) {
                    gate(s[0], n, 1, i, x, h);
                    mpfr_mul(s[3 + i], s[0], h[i], MPFR_RNDN);
                }
                argument(s[1], n, 2, k, x, s + 3, 2);
            }
            argument(s[2], n, 2, k, x, h, 1);
            mpfr_add(s[1], s[1], s[2], MPFR_RNDN);
            mpfr_tanh(s[1], s[1], MPFR_RNDN);
            gate(s[0], n, 0, k, x, h);
            mpfr_mul(s[2], s[0], h[k], MPFR_RNDN);
            mpfr_ui_sub(s[0], 1, s[0], MPFR_RNDN);
            mpfr_mul(s[0], s[0], s[1], MPFR_RNDN);
            mpfr_add(next[k], s[0], s[2], MPFR_RNDN);
        }
    }
    for (int k = 0; k < U; ++k) mpfr_set(h[k], next[k], MPFR_RNDN);
}

VN_TEST(layers, recurrent) {
    static const struct {
        const char *op;
        char kind;
        int gates;
        bool reset_after;
    } table[] = {{"RNN", 'R', 1, false}, {"GRU", 'G', 3, false}, {"GRU", 'G', 3, true}, {"LSTM", 'L', 4, false}};
    static const twin_data_t data[] = {TWIN_RANDOM, TWIN_CANCELLING, TWIN_CONSTANT, TWIN_WIDE, TWIN_SUBNORMAL};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *h = tw_new(U), *c = tw_new(U), *next = tw_new(U), *s = tw_new(3 + U);
    for (int run = 0; run < 4 * 2 * 5; ++run) {
        const vn_dtype_t type = types[run % 2];
        const vn_format_t f = vn_format_of(type);
        const int row = run / 2 % 4, d = run / 8;
        net_t n = {.kind = table[row].kind, .gates = table[row].gates, .reset_after = table[row].reset_after};
        char what[120];
        if (out_of_range(type, (int)data[d])) continue;
        twin_fill(&rng, data[d], f, n.x, STEPS * I);
        twin_fill(&rng, TWIN_RANDOM, f, n.w, n.gates * U * I);
        twin_fill(&rng, TWIN_RANDOM, f, n.r, n.gates * U * U);
        twin_fill(&rng, TWIN_RANDOM, f, n.b, 2 * n.gates * U);
        one_node_t e = {
            .op = table[row].op,
            .version = 22,
            .n_in = 4,
            .want = VN_WANT_BOUND,
            .attrs = {{"hidden_size", ONE_INT, U, NULL}, {n.kind == 'G' ? "linear_before_reset" : NULL, ONE_INT, n.reset_after, NULL}}};
        e.in[0] = twin_tensor(t, type, TWIN_DIMS(STEPS, 1, I), n.x);
        e.in[1] = twin_tensor(t, type, TWIN_DIMS(1, n.gates * U, I), n.w);
        e.in[2] = twin_tensor(t, type, TWIN_DIMS(1, n.gates * U, U), n.r);
        e.in[3] = twin_tensor(t, type, TWIN_DIMS(1, 2 * n.gates * U), n.b);
        one_run(t, &e);
        for (int k = 0; k < U; ++k) mpfr_set_zero(h[k], 1), mpfr_set_zero(c[k], 1);
        named(what, sizeof what, table[row].op, type, (int)data[d]);
        for (int at = 0; at < STEPS; ++at) {
            step(&n, n.x + at * I, h, c, next, s);
            for (int k = 0; k < U; ++k) twin_value(t, what, &e.out[0], at * U + k, h[k]);
        }
        one_free(&e);
    }
    tw_free(h, U);
    tw_free(c, U);
    tw_free(next, U);
    tw_free(s, 3 + U);
}

VN_TEST_MAIN(VN_CASE(layers, matrix_products), VN_CASE(layers, products_of_three), VN_CASE(layers, convolutions), VN_CASE(layers, pooling),
             VN_CASE(layers, attention), VN_CASE(layers, recurrent))
