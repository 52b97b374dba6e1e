/* Claims RNN-1 to RNN-5: twin in extended precision, f32, f16 and bf16 executions, directions, lengths, layouts, activations. */
#include <stdio.h>

#include "oracle/one_node.h"
#include "oracle/recurrent.h"
#include "oracle/simulate.h"

enum { T = 6, B = 3, I = 5, H = 4, MAX_D = 2 };

typedef struct net {
    char kind;
    int gates, dirs;
    bool reset_after, reverse;
    double x[T * B * I], w[MAX_D * 4 * H * I], r[MAX_D * 4 * H * H], b[MAX_D * 8 * H], h0[MAX_D * B * H], c0[MAX_D * B * H],
        p[MAX_D * 3 * H];
    int64_t len[B];
} net_t;

static void fill(vn_rng_t *rng, vn_format_t f, net_t *n) {
    double *planes[] = {n->x, n->w, n->r, n->b, n->h0, n->c0, n->p};
    const int sizes[] = {T * B * I, MAX_D * 4 * H * I, MAX_D * 4 * H * H, MAX_D * 8 * H, MAX_D * B * H, MAX_D * B * H, MAX_D * 3 * H};
    for (int k = 0; k < 7; ++k)
        for (int i = 0; i < sizes[k]; ++i) planes[k][i] = sim(f, vn_rng_normal(rng) * (k == 2 ? 0.4 : 0.7));
    n->len[0] = T, n->len[1] = 3, n->len[2] = 1;
}

/* The arithmetic of one step: long double when f is NONE, else every operation in f. */
typedef struct ops {
    vn_format_t f;
    vn_rng_t *rng;
    double t; /* budget of functions */
    bool backward;
    bool mixed; /* bf16 operands; products, biases and their sums are rounded to bf16 here and there */
} ops_t;

static long double op(const ops_t *o, long double x) { return o->f == VN_FMT_NONE ? x : sim(o->f, (double)x); }
static long double fn(const ops_t *o, bool sigmoid, long double z) {
    const long double y = sigmoid ? 1 / (1 + expl(-z)) : tanhl(z);
    return o->f == VN_FMT_NONE ? y : sim_function(o->rng, o->f, (double)y, o->t);
}

static long double narrow(const ops_t *o, long double x) { return vn_rng_below(o->rng, 2) ? sim(VN_FMT_BF16, (double)x) : x; }

/* The same with bf16 operands; rounded here and there. */
static long double mixed_argument(const ops_t *o, const net_t *n, int d, int g, int k, const double *x, const long double *h, int part) {
    const int G = n->gates;
    long double with_x = 0, with_h = 0;
    for (int i = 0; i < I && (part & 1); ++i) with_x = op(o, with_x + op(o, (long double)n->w[(d * G * H + g * H + k) * I + i] * x[i]));
    for (int i = 0; i < H && (part & 2); ++i)
        with_h = op(o, with_h + op(o, n->r[(d * G * H + g * H + k) * H + i] * sim(VN_FMT_BF16, (double)h[i])));
    long double s = part & 1 ? narrow(o, op(o, narrow(o, with_x) + narrow(o, n->b[d * 2 * G * H + g * H + k]))) : 0;
    if (part & 2) s = narrow(o, op(o, s + narrow(o, op(o, narrow(o, with_h) + narrow(o, n->b[d * 2 * G * H + (G + g) * H + k])))));
    return s;
}

static long double argument(const ops_t *o, const net_t *n, int d, int g, int k, const double *x, const long double *h, int part) {
    const int G = n->gates;
    long double s = 0;
    if (o->mixed) return mixed_argument(o, n, d, g, k, x, h, part);
    if (part & 1) {
        for (int q = 0; q < I; ++q) {
            const int i = o->backward ? I - 1 - q : q;
            s = op(o, s + op(o, (long double)n->w[(d * G * H + g * H + k) * I + i] * x[i]));
        }
        s = op(o, s + n->b[d * 2 * G * H + g * H + k]);
    }
    if (part & 2) {
        for (int i = 0; i < H; ++i) s = op(o, s + op(o, n->r[(d * G * H + g * H + k) * H + i] * h[i]));
        s = op(o, s + n->b[d * 2 * G * H + (G + g) * H + k]);
    }
    return s;
}

static void cell(const ops_t *o, const net_t *n, int d, const double *x, long double *h, long double *c) {
    long double next[H], old[H];
    memcpy(old, h, sizeof old);
    for (int k = 0; k < H; ++k) {
        if (n->kind == 'R') {
            next[k] = fn(o, false, argument(o, n, d, 0, k, x, old, 3));
        } else if (n->kind == 'L') {
            const double *p = n->p + d * 3 * H;
            const long double i = fn(o, true, op(o, argument(o, n, d, 0, k, x, old, 3) + op(o, p[k] * c[k])));
            const long double f = fn(o, true, op(o, argument(o, n, d, 2, k, x, old, 3) + op(o, p[2 * H + k] * c[k])));
            const long double g = fn(o, false, argument(o, n, d, 3, k, x, old, 3));
            c[k] = op(o, op(o, f * c[k]) + op(o, i * g));
            const long double out = fn(o, true, op(o, argument(o, n, d, 1, k, x, old, 3) + op(o, p[H + k] * c[k])));
            next[k] = op(o, out * fn(o, false, c[k]));
        } else {
            const long double z = fn(o, true, argument(o, n, d, 0, k, x, old, 3));
            long double cand;
            if (n->reset_after) {
                const long double r = fn(o, true, argument(o, n, d, 1, k, x, old, 3));
                cand = fn(o, false, op(o, argument(o, n, d, 2, k, x, old, 1) + op(o, r * argument(o, n, d, 2, k, x, old, 2))));
            } else {
                long double scaled[H];
                for (int i = 0; i < H; ++i) scaled[i] = op(o, fn(o, true, argument(o, n, d, 1, i, x, old, 3)) * old[i]);
                cand = fn(o, false, op(o, argument(o, n, d, 2, k, x, old, 1) + argument(o, n, d, 2, k, x, scaled, 2)));
            }
            next[k] = op(o, op(o, op(o, 1 - z) * cand) + op(o, z * old[k]));
        }
    }
    memcpy(h, next, sizeof next);
}

/* y [T, dirs, B, H], last [dirs, B, H]. */
static void run(const ops_t *o, const net_t *n, double *y, double *last, double *last_c) {
    memset(y, 0, sizeof(double) * (size_t)(T * n->dirs * B * H));
    for (int d = 0; d < n->dirs; ++d)
        for (int b = 0; b < B; ++b) {
            long double h[H], c[H];
            for (int k = 0; k < H; ++k) h[k] = n->h0[(d * B + b) * H + k], c[k] = n->c0[(d * B + b) * H + k];
            for (int s = 0; s < n->len[b]; ++s) {
                const int at = d == 1 || n->reverse ? (int)n->len[b] - 1 - s : s;
                cell(o, n, d, n->x + (at * B + b) * I, h, c);
                for (int k = 0; k < H; ++k) y[((at * n->dirs + d) * B + b) * H + k] = (double)h[k];
            }
            for (int k = 0; k < H; ++k) last[(d * B + b) * H + k] = (double)h[k], last_c[(d * B + b) * H + k] = (double)c[k];
        }
}

static vn_tensor_t *tensor(vn_test_t *t, vn_dtype_t type, int rank, const int64_t *dims, const double *x) {
    vn_tensor_t *v = one_tensor(t, type, rank, dims);
    vn_tensor_from_f64(v, x, VN_RNE, false);
    return v;
}

static one_node_t node(vn_test_t *t, const net_t *n, vn_dtype_t type, const char *contract) {
    const int64_t D = n->dirs, G = n->gates;
    one_node_t c = {.op = n->kind == 'R'   ? "RNN"
                          : n->kind == 'G' ? "GRU"
                                           : "LSTM",
                    .version = 14,
                    .n_in = n->kind == 'L' ? 8 : 6,
                    .n_out = n->kind == 'L' ? 3 : 2,
                    .contract = contract,
                    .want = VN_WANT_VARIANCE,
                    .attrs = {{"direction", ONE_TEXT, 0,
                               D == 2       ? "bidirectional"
                               : n->reverse ? "reverse"
                                            : "forward"},
                              {"hidden_size", ONE_INT, H, NULL},
                              {"linear_before_reset", ONE_INT, n->reset_after, NULL}}};
    if (n->kind != 'G') c.attrs[2].name = NULL;
    c.in[0] = tensor(t, type, 3, (int64_t[]){T, B, I}, n->x);
    c.in[1] = tensor(t, type, 3, (int64_t[]){D, G * H, I}, n->w);
    c.in[2] = tensor(t, type, 3, (int64_t[]){D, G * H, H}, n->r);
    c.in[3] = tensor(t, type, 2, (int64_t[]){D, 2 * G * H}, n->b);
    c.in[4] = one_ints(t, VN_I32, B, n->len);
    c.in[5] = tensor(t, type, 3, (int64_t[]){D, B, H}, n->h0);
    if (n->kind == 'L') {
        c.in[6] = tensor(t, type, 3, (int64_t[]){D, B, H}, n->c0);
        c.in[7] = tensor(t, type, 2, (int64_t[]){D, 3 * H}, n->p);
    }
    return c;
}

static double hold(vn_test_t *t, char kind, vn_format_t f, vn_dtype_t type, const char *contract, double budget) {
    vn_rng_t rng = vn_test_rng(t);
    double worst = 0, y[T * MAX_D * B * H], z[T * MAX_D * B * H], h[MAX_D * B * H], hz[MAX_D * B * H], c[MAX_D * B * H], cz[MAX_D * B * H];
    for (int i = 0; i < 12; ++i) {
        net_t n = {.kind = kind,
                   .gates = kind == 'R'   ? 1
                            : kind == 'G' ? 3
                                          : 4,
                   .dirs = 1 + i % 2,
                   .reset_after = i / 2 % 2,
                   .reverse = i % 4 == 2};
        fill(&rng, f, &n);
        one_node_t e = node(t, &n, type, contract);
        one_run(t, &e);
        const ops_t exact = {.f = VN_FMT_NONE}, low = {.f = f, .rng = &rng, .t = budget, .backward = i % 3 == 0};
        run(&exact, &n, z, hz, cz);
        run(&low, &n, y, h, c);
        for (int k = 0; k < T * n.dirs * B * H; ++k) {
            VN_ASSERT_LE(t, fabs(z[k] - e.out[0].value[k]), 1e-13);
            const double q = sim_ratio(y[k], z[k], e.out[0].bound[k]);
            if (q > 1)
                vn_test_fail(t, __FILE__, __LINE__, "%c case %d, element %d: %a for %a, bound %a, ratio %g", kind, i, k, y[k], z[k],
                             e.out[0].bound[k], q);
            worst = fmax(worst, q);
            VN_ASSERT(t, e.out[0].var[k] >= 0);
        }
        for (int k = 0; k < n.dirs * B * H; ++k) {
            VN_ASSERT_LE(t, sim_ratio(h[k], hz[k], e.out[1].bound[k]), 1);
            if (kind == 'L') VN_ASSERT_LE(t, sim_ratio(c[k], cz[k], e.out[2].bound[k]), 1);
        }
        one_free(&e);
    }
    return worst;
}

VN_TEST(recurrent, f32_holds) {
    for (int k = 0; k < 3; ++k) VN_ASSERT_GE(t, hold(t, "RGL"[k], VN_FMT_F32, VN_F32, "operand=f32,accumulator=f32", 1), 0.03);
}
VN_TEST(recurrent, f16_everywhere_holds) {
    for (int k = 0; k < 3; ++k) VN_ASSERT_GE(t, hold(t, "RGL"[k], VN_FMT_F16, VN_F16, "operand=f16,accumulator=f16", 1), 0.03);
}
VN_TEST(recurrent, portable_holds_worse_functions) {
    for (int k = 0; k < 3; ++k) hold(t, "RGL"[k], VN_FMT_F32, VN_F32, "portable", 4);
}

/* Claim RNN-4: what lies within E of z is rounded to a number within the new error, which some of it attains; 0 where no end leaves the cell. */
VN_TEST(recurrent, a_rounded_doubt) {
    static const vn_format_t formats[] = {VN_FMT_BF16, VN_FMT_F16, VN_FMT_TF32};
    vn_rng_t rng = vn_test_rng(t);
    int exact = 0, doubtful = 0;
    for (int i = 0; i < 3000; ++i) {
        const vn_format_t f = formats[i % 3];
        const double v = vn_rng_normal(&rng), e = vn_ulp(f, v) * ldexp(vn_rng_uniform(&rng), -(int)vn_rng_below(&rng, 12));
        const vn_tri_t y = vn_tri_round(f, VN_RNE, (vn_tri_t){v, e, e * e / 400});
        double most = 0;
        for (int k = 0; k <= 20; ++k) most = fmax(most, fabs(vn_round_to(f, v + e * (k - 10) / 10, VN_RNE, false) - y.v));
        VN_ASSERT_LE(t, most, y.e);
        VN_ASSERT_LE(t, y.e, most * (1 + 0x1p-40));
        VN_ASSERT(t, y.s == 0 || y.e > 0);
        exact += y.e == 0;
        doubtful += y.e > 0;
    }
    VN_ASSERT_GT(t, exact, 300);
    VN_ASSERT_GT(t, doubtful, 300);
}

/* Claim RNN-5, roundings left open: executions that round here and there are inside. */
VN_TEST(recurrent, bf16_on_the_way_to_the_gates_holds) {
    vn_rng_t rng = vn_test_rng(t);
    double y[T * MAX_D * B * H], h[MAX_D * B * H], c[MAX_D * B * H], worst = 0;
    for (int i = 0; i < 36; ++i) {
        net_t n = {.kind = "RGL"[i % 3], .gates = (const int[]){1, 3, 4}[i % 3], .dirs = 1 + i % 2, .reset_after = i / 6 % 2};
        fill(&rng, VN_FMT_BF16, &n);
        one_node_t e = node(t, &n, VN_F32, "operand=bf16,accumulator=f32,intermediate=bf16");
        one_run(t, &e);
        const ops_t low = {.f = VN_FMT_F32, .rng = &rng, .t = 1, .mixed = true};
        run(&low, &n, y, h, c);
        for (int k = 0; k < T * n.dirs * B * H; ++k) {
            const double q = sim_ratio(y[k], e.out[0].value[k], e.out[0].bound[k]);
            VN_ASSERT_LE(t, q, 1);
            worst = fmax(worst, q);
        }
        one_free(&e);
    }
    VN_ASSERT_GE(t, worst, 0.05);
}

VN_TEST(recurrent, faults_are_outside) {
    vn_rng_t rng = vn_test_rng(t);
    double y[T * B * H], h[B * H], c[B * H];
    net_t n = {.kind = 'G', .gates = 3, .dirs = 1, .reset_after = true}, m = {.kind = 'L', .gates = 4, .dirs = 1, .reverse = true};
    fill(&rng, VN_FMT_F32, &n);
    one_node_t e = node(t, &n, VN_F32, "operand=f32,accumulator=f32");
    one_run(t, &e);
    n.reset_after = false;
    const ops_t exact = {.f = VN_FMT_NONE};
    run(&exact, &n, y, h, c);
    int outside = 0;
    for (int k = 0; k < T * B * H; ++k) outside += fabs(y[k] - e.out[0].value[k]) > e.out[0].bound[k];
    VN_ASSERT_GT(t, outside, 25);
    one_free(&e);
    fill(&rng, VN_FMT_F32, &m);
    e = node(t, &m, VN_F32, "operand=f32,accumulator=f32");
    one_run(t, &e);
    m.reverse = false;
    run(&exact, &m, y, h, c);
    outside = 0;
    for (int k = 0; k < T * B * H; ++k) outside += fabs(y[k] - e.out[0].value[k]) > e.out[0].bound[k];
    VN_ASSERT_GT(t, outside, 25);
    one_free(&e);
}

/* The node again, each step from the states in `given`; NULL: the oracle's own. */
static vn_status_t stepwise(vn_test_t *t, one_node_t *e, vn_tensor_t *given) {
    vn_contract_t contract;
    VN_ASSERT_OK_ERR(t, vn_contract_parse(e->contract, &contract, &e->err), e->err);
    e->domain = "";
    vn_model_t *m = one_model(t, e);
    vn_value_t *in[ONE_MAX] = {0}, *out[4] = {0};
    for (int k = 0; k < e->n_in; ++k) in[k] = vn_value_tensor(vn_tensor_retain(e->in[k]));
    if (given) out[0] = vn_value_tensor(vn_tensor_retain(given));
    const vn_status_t s = vn_oracle_steps(m, &m->graph->nodes[0], (const vn_value_t *const *)in, NULL, &contract, e->want,
                                          (const vn_value_t *const *)out, e->out, &e->err);
    for (int k = 0; k < e->n_in; ++k) vn_value_free(in[k]);
    vn_value_free(out[0]);
    vn_model_free(m);
    return s;
}

/* Claim RNN-3: the states of an f32 execution are within the bounds of the single steps, these are tighter than the carried ones, and one
 * changed state is seen at its own step. */
VN_TEST(recurrent, steps_from_returned_states) {
    static const char kinds[] = "RGL";
    vn_rng_t rng = vn_test_rng(t);
    double y[T * MAX_D * B * H], h[MAX_D * B * H], c[MAX_D * B * H];
    for (int i = 0; i < 6; ++i) {
        net_t n = {.kind = kinds[i % 3], .gates = i % 3 == 0 ? 1 : i % 3 == 1 ? 3 : 4, .dirs = 1 + i / 3, .reset_after = i > 3};
        fill(&rng, VN_FMT_F32, &n);
        const ops_t f32 = {.f = VN_FMT_F32, .rng = &rng, .t = 1};
        run(&f32, &n, y, h, c);
        const int64_t count = T * n.dirs * B * H;
        vn_tensor_t *given = tensor(t, VN_F32, 4, (int64_t[]){T, n.dirs, B, H}, y);
        one_node_t plain = node(t, &n, VN_F32, "portable"), steps = node(t, &n, VN_F32, "portable");
        one_run(t, &plain);
        VN_ASSERT_OK_ERR(t, stepwise(t, &steps, given), steps.err);
        double carried = 0, single = 0;
        for (int64_t k = 0; k < count; ++k) {
            VN_ASSERT_LE(t, fabs(y[k] - steps.out[0].value[k]), steps.out[0].bound[k]);
            carried = fmax(carried, plain.out[0].bound[k]);
            single = fmax(single, steps.out[0].bound[k]);
        }
        VN_ASSERT_LT(t, single, carried);
        const int64_t changed = (2 * n.dirs * B) * H + 1; /* step 2 of the first sample */
        vn_tensor_set_f64(given, changed, y[changed] + 0x1p-12);
        for (int k = 0; k < steps.n_out; ++k) vn_ref_free(&steps.out[k]);
        VN_ASSERT_OK_ERR(t, stepwise(t, &steps, given), steps.err);
        VN_ASSERT_GT(t, fabs(vn_tensor_get_f64(given, changed) - steps.out[0].value[changed]), steps.out[0].bound[changed]);
        for (int k = 0; k < steps.n_out; ++k) vn_ref_free(&steps.out[k]);
        VN_ASSERT_EQ(t, stepwise(t, &steps, NULL), VN_ERR_UNSUPPORTED);
        vn_tensor_free(given);
        one_free(&plain);
        one_free(&steps);
    }
}

/* layout = 1 is layout 0 with batch and time exchanged. */
VN_TEST(recurrent, batch_first_layout) {
    vn_rng_t rng = vn_test_rng(t);
    net_t n = {.kind = 'R', .gates = 1, .dirs = 1};
    fill(&rng, VN_FMT_F32, &n);
    one_node_t a = node(t, &n, VN_F32, "portable"), b = node(t, &n, VN_F32, "portable");
    vn_tensor_free(b.in[0]);
    vn_tensor_free(b.in[5]);
    b.in[0] = one_tensor(t, VN_F32, 3, (int64_t[]){B, T, I});
    for (int i = 0; i < T * B * I; ++i) vn_tensor_set_f64(b.in[0], (i / I % B * T + i / I / B) * I + i % I, n.x[i]);
    b.in[5] = tensor(t, VN_F32, 3, (int64_t[]){B, 1, H}, n.h0);
    b.attrs[2] = (one_attr_t){"layout", ONE_INT, 1, NULL};
    one_run(t, &a);
    one_run(t, &b);
    for (int s = 0; s < T; ++s)
        for (int k = 0; k < B; ++k)
            for (int i = 0; i < H; ++i) VN_ASSERT_DEQ(t, a.out[0].value[(s * B + k) * H + i], b.out[0].value[(k * T + s) * H + i]);
    one_free(&a);
    one_free(&b);
}

VN_TEST(recurrent, shapes_are_checked) {
    vn_rng_t rng = vn_test_rng(t);
    net_t n = {.kind = 'L', .gates = 4, .dirs = 1};
    fill(&rng, VN_FMT_F32, &n);
    n.len[1] = T + 1;
    one_node_t e = node(t, &n, VN_F32, "portable");
    VN_ASSERT_EQ(t, one_try(t, &e), VN_ERR_RANGE);
    VN_ASSERT_HAS(t, e.err.text, "sequence length 7");
    one_free(&e);
    n.len[1] = 1;
    e = node(t, &n, VN_F32, "portable");
    vn_tensor_free(e.in[2]);
    e.in[2] = one_tensor(t, VN_F32, 3, (int64_t[]){1, 4 * H, H + 1});
    VN_ASSERT_EQ(t, one_try(t, &e), VN_ERR_SHAPE);
    one_free(&e);
}

VN_TEST_MAIN(VN_CASE(recurrent, f32_holds), VN_CASE(recurrent, f16_everywhere_holds), VN_CASE(recurrent, portable_holds_worse_functions),
             VN_CASE(recurrent, faults_are_outside), VN_CASE(recurrent, batch_first_layout), VN_CASE(recurrent, shapes_are_checked),
             VN_CASE(recurrent, steps_from_returned_states), VN_CASE(recurrent, a_rounded_doubt),
             VN_CASE(recurrent, bf16_on_the_way_to_the_gates_holds))
