/* Recurrent layers again in twice the precision (claim RNN-6): every element is the exact value rounded once, its own error is true and small
 * against the bound. The twin is MPFR.
 */
#include <stdio.h>

#include "oracle/twin_case.h"

enum { T = 5, B = 2, I = 4, H = 3, MAX_D = 2, MAX_G = 4, MAX_T = 60, BITS = 400 };

typedef struct net {
    char kind; /* R, G, L */
    int gates, dirs, steps;
    bool reset_after, reverse, batch_first, couple, plain; /* couple: input_forget; plain: an LSTM without peepholes */
    const char *activation;                                /* of an RNN; NULL: Tanh */
    double alpha, beta, clip;                              /* clip 0: none */
    double x[MAX_T * B * I], w[MAX_D * MAX_G * H * I], r[MAX_D * MAX_G * H * H], b[MAX_D * 2 * MAX_G * H], h0[MAX_D * B * H],
        c0[MAX_D * B * H], p[MAX_D * 3 * H];
    int64_t len[B];
} net_t;

static void fill(vn_rng_t *rng, vn_format_t f, double scale, net_t *n) {
    double *const planes[] = {n->x, n->w, n->r, n->b, n->h0, n->c0, n->p};
    const int sizes[] = {MAX_T * B * I, MAX_D * MAX_G * H * I, MAX_D * MAX_G * H * H, MAX_D * 2 * MAX_G * H,
                         MAX_D * B * H, MAX_D * B * H,         MAX_D * 3 * H};
    for (int k = 0; k < 7; ++k)
        for (int i = 0; i < sizes[k]; ++i) planes[k][i] = vn_round_to(f, vn_rng_normal(rng) * (k == 2 ? scale : 0.7), VN_RNE, false);
    if (n->steps == 0) n->steps = T;
    n->len[0] = n->steps, n->len[1] = n->steps - 2;
}

/* ---- the twin ---- */

static void sigmoid(mpfr_t y) {
    mpfr_neg(y, y, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    mpfr_add_ui(y, y, 1, MPFR_RNDN);
    mpfr_ui_div(y, 1, y, MPFR_RNDN);
}

/* The activation of an RNN by its name. */
static void activation(const net_t *n, mpfr_t y) {
    const char *f = n->activation ? n->activation : "Tanh";
    const float a = (float)n->alpha, b = (float)n->beta;
    mpfr_t s;
    mpfr_init2(s, BITS);
    if (!strcmp(f, "Tanh")) mpfr_tanh(y, y, MPFR_RNDN);
    if (!strcmp(f, "Sigmoid")) sigmoid(y);
    if (!strcmp(f, "Relu") && mpfr_sgn(y) < 0) mpfr_set_zero(y, 1);
    if (!strcmp(f, "LeakyRelu") && mpfr_sgn(y) < 0) mpfr_mul_d(y, y, a, MPFR_RNDN);
    if (!strcmp(f, "ThresholdedRelu") && mpfr_cmp_d(y, a) <= 0) mpfr_set_zero(y, 1);
    if (!strcmp(f, "ScaledTanh")) mpfr_mul_d(y, y, b, MPFR_RNDN), mpfr_tanh(y, y, MPFR_RNDN), mpfr_mul_d(y, y, a, MPFR_RNDN);
    if (!strcmp(f, "Affine") || !strcmp(f, "HardSigmoid")) mpfr_mul_d(y, y, a, MPFR_RNDN), mpfr_add_d(y, y, b, MPFR_RNDN);
    if (!strcmp(f, "HardSigmoid") && mpfr_sgn(y) < 0) mpfr_set_zero(y, 1);
    if (!strcmp(f, "HardSigmoid") && mpfr_cmp_ui(y, 1) > 0) mpfr_set_ui(y, 1, MPFR_RNDN);
    if (!strcmp(f, "Elu") && mpfr_sgn(y) < 0) mpfr_expm1(y, y, MPFR_RNDN), mpfr_mul_d(y, y, a, MPFR_RNDN);
    if (!strcmp(f, "Softsign")) mpfr_abs(s, y, MPFR_RNDN), mpfr_add_ui(s, s, 1, MPFR_RNDN), mpfr_div(y, y, s, MPFR_RNDN);
    if (!strcmp(f, "Softplus")) mpfr_exp(y, y, MPFR_RNDN), mpfr_log1p(y, y, MPFR_RNDN);
    mpfr_clear(s);
}

static void clip(const net_t *n, mpfr_t y) {
    if (n->clip > 0 && mpfr_cmp_d(y, n->clip) > 0) mpfr_set_d(y, n->clip, MPFR_RNDN);
    if (n->clip > 0 && mpfr_cmp_d(y, -n->clip) < 0) mpfr_set_d(y, -n->clip, MPFR_RNDN);
}

/* y = W_g x + b (part 1) + R_g h + b' (part 2) + p c (where c is given). */
static void argument(mpfr_t y, const net_t *n, int d, int g, int k, const double *x, mpfr_t *h, int part, const mpfr_t *c) {
    const int row = (d * n->gates + g) * H + k, bias = d * 2 * n->gates * H + g * H + k;
    static const int peep[] = {0, 1, 2, 0};
    mpfr_t p;
    mpfr_init2(p, BITS);
    mpfr_set_zero(y, 1);
    for (int i = 0; i < I && part & 1; ++i) {
        mpfr_set_d(p, x[i], MPFR_RNDN);
        mpfr_mul_d(p, p, n->w[row * I + i], MPFR_RNDN);
        mpfr_add(y, y, p, MPFR_RNDN);
    }
    for (int i = 0; i < H && part & 2; ++i) {
        mpfr_mul_d(p, h[i], n->r[row * H + i], MPFR_RNDN);
        mpfr_add(y, y, p, MPFR_RNDN);
    }
    if (part & 1) mpfr_add_d(y, y, n->b[bias], MPFR_RNDN);
    if (part & 2) mpfr_add_d(y, y, n->b[bias + n->gates * H], MPFR_RNDN);
    if (c) {
        mpfr_mul_d(p, *c, n->p[d * 3 * H + peep[g] * H + k], MPFR_RNDN);
        mpfr_add(y, y, p, MPFR_RNDN);
    }
    mpfr_clear(p);
}

static void gate(mpfr_t y, const net_t *n, int d, int g, int k, const double *x, mpfr_t *h, const mpfr_t *c) {
    argument(y, n, d, g, k, x, h, 3, c);
    clip(n, y);
    sigmoid(y);
}

static void lstm(const net_t *n, int d, int k, const double *x, mpfr_t *h, mpfr_t c, mpfr_t y, mpfr_t *s) {
    const mpfr_t *peep = n->plain ? NULL : (const mpfr_t *)(const void *)c;
    gate(s[0], n, d, 0, k, x, h, peep);
    if (n->couple) mpfr_ui_sub(s[1], 1, s[0], MPFR_RNDN);
    else gate(s[1], n, d, 2, k, x, h, peep);
    argument(s[2], n, d, 3, k, x, h, 3, NULL);
    clip(n, s[2]);
    mpfr_tanh(s[2], s[2], MPFR_RNDN);
    mpfr_mul(s[0], s[0], s[2], MPFR_RNDN);
    mpfr_mul(c, c, s[1], MPFR_RNDN);
    mpfr_add(c, c, s[0], MPFR_RNDN);
    gate(s[1], n, d, 1, k, x, h, peep);
    mpfr_tanh(s[2], c, MPFR_RNDN);
    mpfr_mul(y, s[1], s[2], MPFR_RNDN);
}

static void gru(const net_t *n, int d, int k, const double *x, mpfr_t *h, mpfr_t y, mpfr_t *s) {
    gate(s[0], n, d, 1, k, x, h, NULL);
    if (n->reset_after) {
        argument(s[1], n, d, 2, k, x, h, 2, NULL);
        mpfr_mul(s[1], s[1], s[0], MPFR_RNDN);
    } else {
        for (int i = 0; i < H; ++i) {
            gate(s[0], n, d, 1, i, x, h, NULL);
            mpfr_mul(s[3 + i], s[0], h[i], MPFR_RNDN);
        }
        argument(s[1], n, d, 2, k, x, s + 3, 2, NULL);
    }
    argument(s[2], n, d, 2, k, x, h, 1, NULL);
    mpfr_add(s[1], s[1], s[2], MPFR_RNDN);
    clip(n, s[1]);
    mpfr_tanh(s[1], s[1], MPFR_RNDN);
    gate(s[0], n, d, 0, k, x, h, NULL);
    mpfr_mul(s[2], s[0], h[k], MPFR_RNDN);
    mpfr_ui_sub(s[0], 1, s[0], MPFR_RNDN);
    mpfr_mul(s[0], s[0], s[1], MPFR_RNDN);
    mpfr_add(y, s[0], s[2], MPFR_RNDN);
}

typedef struct twin {
    mpfr_t *y, *h, *c, *state, *cell, *next, *s; /* results, and scratch */
} twin_t;

static int of_y(const net_t *n, int t, int d, int b) {
    return (n->batch_first ? (b * n->steps + t) * n->dirs + d : (t * n->dirs + d) * B + b) * H;
}
static int of_state(const net_t *n, int d, int b) { return (n->batch_first ? b * n->dirs + d : d * B + b) * H; }
static int of_x(const net_t *n, int t, int b) { return (n->batch_first ? b * n->steps + t : t * B + b) * I; }

/* given: states that were returned, or NULL. */
static void twin(const net_t *n, const double *given, twin_t *w) {
    for (int d = 0; d < n->dirs; ++d)
        for (int b = 0; b < B; ++b) {
            const int state = of_state(n, d, b);
            for (int k = 0; k < H; ++k)
                mpfr_set_d(w->state[k], n->h0[state + k], MPFR_RNDN), mpfr_set_d(w->cell[k], n->c0[state + k], MPFR_RNDN);
            for (int step = 0, last = -1; step < n->len[b]; ++step) {
                const int t = d == 1 || n->reverse ? (int)n->len[b] - 1 - step : step;
                for (int k = 0; k < H && given && last >= 0; ++k) mpfr_set_d(w->state[k], given[of_y(n, last, d, b) + k], MPFR_RNDN);
                const double *x = n->x + of_x(n, t, b);
                for (int k = 0; k < H; ++k) {
                    if (n->kind == 'L') lstm(n, d, k, x, w->state, w->cell[k], w->next[k], w->s);
                    if (n->kind == 'G') gru(n, d, k, x, w->state, w->next[k], w->s);
                    if (n->kind == 'R') {
                        argument(w->next[k], n, d, 0, k, x, w->state, 3, NULL);
                        clip(n, w->next[k]);
                        activation(n, w->next[k]);
                    }
                }
                for (int k = 0; k < H; ++k)
                    mpfr_set(w->state[k], w->next[k], MPFR_RNDN), mpfr_set(w->y[of_y(n, t, d, b) + k], w->next[k], MPFR_RNDN);
                last = t;
            }
            for (int k = 0; k < H; ++k) mpfr_set(w->h[state + k], w->state[k], MPFR_RNDN), mpfr_set(w->c[state + k], w->cell[k], MPFR_RNDN);
            for (int t = (int)n->len[b]; t < n->steps; ++t)
                for (int k = 0; k < H; ++k) mpfr_set_zero(w->y[of_y(n, t, d, b) + k], 1);
        }
}

static twin_t twin_new(void) {
    return (twin_t){.y = tw_new(MAX_T * MAX_D * B * H),
                    .h = tw_new(MAX_D * B * H),
                    .c = tw_new(MAX_D * B * H),
                    .state = tw_new(H),
                    .cell = tw_new(H),
                    .next = tw_new(H),
                    .s = tw_new(3 + H)};
}

static void twin_free(twin_t *w) {
    tw_free(w->y, MAX_T * MAX_D * B * H);
    tw_free(w->h, MAX_D * B * H);
    tw_free(w->c, MAX_D * B * H);
    tw_free(w->state, H);
    tw_free(w->cell, H);
    tw_free(w->next, H);
    tw_free(w->s, 3 + H);
}

/* ---- the node ---- */

static vn_model_t *model(vn_test_t *t, const net_t *n, vn_dtype_t type, one_node_t *c) {
    const int64_t D = n->dirs, G = n->gates, S = n->steps;
    *c = (one_node_t){.domain = "",
                      .op = n->kind == 'R'   ? "RNN"
                            : n->kind == 'G' ? "GRU"
                                             : "LSTM",
                      .version = 14,
                      .n_in = n->kind != 'L' ? 6
                              : n->plain     ? 7
                                             : 8,
                      .n_out = n->kind == 'L' ? 3 : 2,
                      .want = VN_WANT_BOUND,
                      .attrs = {{"direction", ONE_TEXT, 0,
                                 D == 2       ? "bidirectional"
                                 : n->reverse ? "reverse"
                                              : "forward"},
                                {"hidden_size", ONE_INT, H, NULL},
                                {"layout", ONE_INT, n->batch_first, NULL},
                                {n->kind == 'G' ? "linear_before_reset"
                                 : n->couple    ? "input_forget"
                                                : NULL,
                                 ONE_INT, n->kind == 'G' ? n->reset_after : 1, NULL}}};
    const int64_t first = n->batch_first ? B : S, second = n->batch_first ? S : B, s0 = n->batch_first ? B : D, s1 = n->batch_first ? D : B;
    c->in[0] = twin_tensor(t, type, TWIN_DIMS(first, second, I), n->x);
    c->in[1] = twin_tensor(t, type, TWIN_DIMS(D, G * H, I), n->w);
    c->in[2] = twin_tensor(t, type, TWIN_DIMS(D, G * H, H), n->r);
    c->in[3] = twin_tensor(t, type, TWIN_DIMS(D, 2 * G * H), n->b);
    c->in[4] = one_ints(t, VN_I32, B, n->len);
    c->in[5] = twin_tensor(t, type, TWIN_DIMS(s0, s1, H), n->h0);
    if (n->kind == 'L') c->in[6] = twin_tensor(t, type, TWIN_DIMS(s0, s1, H), n->c0);
    if (c->n_in == 8) c->in[7] = twin_tensor(t, type, TWIN_DIMS(D, 3 * H), n->p);
    vn_model_t *m = one_model(t, c);
    vn_node_t *node = &m->graph->nodes[0];
    const vn_string_t text[2] = {{.text = (char *)(uintptr_t)n->activation, .length = n->activation ? strlen(n->activation) : 0},
                                 {.text = (char *)(uintptr_t)n->activation, .length = n->activation ? strlen(n->activation) : 0}};
    const vn_attr_t list = {.name = "activations", .kind = VN_ATTR_STRINGS, .count = D, .strings = text};
    const float alpha[2] = {(float)n->alpha, (float)n->alpha}, beta[2] = {(float)n->beta, (float)n->beta};
    if (n->activation) {
        VN_ASSERT_OK(t, vn_node_set_attr(m, node, &list, NULL));
        VN_ASSERT_OK(t, vn_node_set_floats(m, node, "activation_alpha", alpha, D, NULL));
        VN_ASSERT_OK(t, vn_node_set_floats(m, node, "activation_beta", beta, D, NULL));
    }
    if (n->clip > 0) VN_ASSERT_OK(t, vn_node_set_float(m, node, "clip", (float)n->clip, NULL));
    return m;
}

/* given: the states from which the steps start, or NULL. */
static void run(vn_test_t *t, const net_t *n, vn_dtype_t type, const double *given, one_node_t *c) {
    vn_model_t *m = model(t, n, type, c);
    vn_contract_t contract;
    vn_value_t *in[ONE_MAX] = {0}, *out[4] = {0};
    VN_ASSERT_OK(t, vn_contract_parse("portable", &contract, NULL));
    for (int k = 0; k < c->n_in; ++k) in[k] = vn_value_tensor(vn_tensor_retain(c->in[k]));
    if (given) out[0] = vn_value_tensor(twin_tensor(t, type, TWIN_DIMS(n->steps, n->dirs, B, H), given));
    VN_ASSERT_OK_ERR(t,
                     vn_oracle_steps(m, &m->graph->nodes[0], (const vn_value_t *const *)in, NULL, &contract, c->want,
                                     given ? (const vn_value_t *const *)out : NULL, c->out, &c->err),
                     c->err);
    for (int k = 0; k < c->n_in; ++k) vn_value_free(in[k]);
    vn_value_free(out[0]);
    vn_model_free(m);
}

/* Every element is the exact one rounded once, own errors hold, and where float64 was not enough they are below 2^-10 of the bound. */
static void check(vn_test_t *t, const char *what, const one_node_t *c, const twin_t *w) {
    mpfr_t *const exact[] = {w->y, w->h, w->c};
    for (int o = 0; o < c->n_out; ++o) {
        const vn_ref_t *r = &c->out[o];
        if (r->undecided)
            vn_test_fail(t, __FILE__, __LINE__, "%s: %lld elements of output %d are undecided", what, (long long)r->undecided, o);
        for (int64_t i = 0; i < r->count; ++i) {
            twin_value(t, what, r, i, exact[o][i]);
            const double due = tw_round(vn_format_of(r->dtype), exact[o][i]), got = vn_tensor_get_f64(r->tensor, i);
            if (got != due)
                vn_test_fail(t, __FILE__, __LINE__, "%s: output %d, element %lld is %a, exactly %a", what, o, (long long)i, got, due);
            if (r->bound[i] > 0) VN_ASSERT_LE(t, vn_ref_own(r, i), 0x1p-10 * r->bound[i]);
        }
    }
}

static void hold(vn_test_t *t, vn_rng_t *rng, net_t n, vn_dtype_t type, double scale, twin_t *w, int64_t *again) {
    one_node_t c;
    char what[120];
    fill(rng, vn_format_of(type), scale, &n);
    run(t, &n, type, NULL, &c);
    twin(&n, NULL, w);
    snprintf(what, sizeof what, "%s %s, %d directions, %d steps, %s", c.op, vn_dtype_name(type), n.dirs, n.steps,
             n.activation ? n.activation : "");
    check(t, what, &c, w);
    for (int k = 0; k < c.n_out && again; ++k) *again += c.out[k].escalated;
    one_free(&c);
}

static net_t layer(int i) {
    return (net_t){.kind = "RGL"[i % 3],
                   .gates = (const int[]){1, 3, 4}[i % 3],
                   .dirs = 1 + i / 3 % 2,
                   .reverse = i / 3 % 2 == 0 && i % 2,
                   .reset_after = i / 6 % 2,
                   .batch_first = i / 6 % 2,
                   .couple = i % 3 == 2 && i / 6 % 2,
                   .plain = i % 4 < 2,
                   .clip = i / 3 % 4 == 3 ? 1.5 : 0};
}

VN_TEST(recurrent_exact, f64_is_rounded_once) {
    vn_rng_t rng = vn_test_rng(t);
    twin_t w = twin_new();
    int64_t again = 0;
    for (int i = 0; i < 12; ++i) hold(t, &rng, layer(i), VN_F64, 0.5, &w, &again);
    VN_ASSERT_GT(t, again, 500);
    twin_free(&w);
}

/* Gates of sigmoid and tanh only go a row at a time (claim RNN-7). */
VN_TEST(recurrent_exact, rows_of_plain_gates) {
    static const char *const functions[] = {NULL, "Sigmoid"};
    vn_rng_t rng = vn_test_rng(t);
    twin_t w = twin_new();
    int64_t again = 0;
    for (int i = 0; i < 12; ++i) {
        net_t n = layer(i);
        n.plain = true;
        n.couple = false;
        n.clip = 0;
        if (n.kind == 'R') n.activation = functions[i / 3 % 2];
        hold(t, &rng, n, VN_F64, i < 6 ? 0.5 : 8, &w, &again);
        n.steps = 40;
        hold(t, &rng, n, VN_F32, i < 6 ? 0.5 : 12, &w, NULL);
    }
    VN_ASSERT_GT(t, again, 500);
    twin_free(&w);
}

VN_TEST(recurrent_exact, activations) {
    static const struct {
        const char *name;
        double alpha, beta;
    } all[] = {{"Relu", 0, 0},           {"Tanh", 0, 0},
               {"Sigmoid", 0, 0},        {"Affine", 0.3, 0.1},
               {"LeakyRelu", 0.2, 0},    {"ThresholdedRelu", 0.4, 0},
               {"ScaledTanh", 1.2, 0.7}, {"HardSigmoid", 0.3, 0.4},
               {"Elu", 0.8, 0},          {"Softsign", 0, 0},
               {"Softplus", 0, 0}};
    vn_rng_t rng = vn_test_rng(t);
    twin_t w = twin_new();
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        hold(t, &rng, (net_t){.kind = 'R', .gates = 1, .dirs = 1, .activation = all[i].name, .alpha = all[i].alpha, .beta = all[i].beta},
             VN_F64, 0.4, &w, NULL);
    twin_free(&w);
}

/* Large recurrent weights: an error grows from step to step until float64 knows nothing of an f32 result any more. */
VN_TEST(recurrent_exact, long_unstable_sequences_of_f32) {
    vn_rng_t rng = vn_test_rng(t);
    twin_t w = twin_new();
    int64_t again = 0;
    for (int i = 0; i < 6; ++i) {
        net_t n = layer(i);
        n.steps = 40;
        hold(t, &rng, n, VN_F32, i < 3 ? 3 : 12, &w, &again); /* the larger ones saturate */
    }
    VN_ASSERT_GT(t, again, 10);
    twin_free(&w);
}

VN_TEST(recurrent_exact, steps_from_returned_states) {
    vn_rng_t rng = vn_test_rng(t);
    twin_t w = twin_new();
    double given[T * MAX_D * B * H];
    for (int i = 0; i < 6; ++i) {
        net_t n = layer(i);
        one_node_t c;
        fill(&rng, VN_FMT_F64, 0.5, &n);
        for (int k = 0; k < T * n.dirs * B * H; ++k) given[k] = vn_rng_normal(&rng) * 0.4;
        run(t, &n, VN_F64, given, &c);
        twin(&n, given, &w);
        check(t, c.op, &c, &w);
        one_free(&c);
    }
    twin_free(&w);
}

VN_TEST_MAIN(VN_CASE(recurrent_exact, f64_is_rounded_once), VN_CASE(recurrent_exact, rows_of_plain_gates),
             VN_CASE(recurrent_exact, activations), VN_CASE(recurrent_exact, long_unstable_sequences_of_f32),
             VN_CASE(recurrent_exact, steps_from_returned_states))
