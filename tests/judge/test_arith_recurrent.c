/* Recurrent layers in bfloat16 (claims ARITH-W1, ARITH-W3, ARITH-W4): each way is named on every kind of layer, a fault inside it stays a bug. */
#include "judge/judge_case.h"

enum { T = 5, B = 2, I = 6, H = 8, MAX_D = 2, MAX_G = 4, Y = T * MAX_D * B * H };

typedef enum way { CONSTANT, APART } way_t;
typedef enum fault { NONE, GATES, NO_BIAS, DIRECTION, STALE, ELEMENT, FAULTS } fault_t;

typedef struct net {
    char kind; /* R, G, L */
    int gates, dirs;
    bool reset_after, reverse, peep;
    float x[T * B * I], w[MAX_D * MAX_G * H * I], r[MAX_D * MAX_G * H * H], b[MAX_D * 2 * MAX_G * H], h0[MAX_D * B * H], c0[MAX_D * B * H],
        p[MAX_D * 3 * H];
    double len[B];
} net_t;

static float bf16(float x) { return (float)vn_round_to(VN_FMT_BF16, x, VN_RNE, false); }

/* Half a unit to odd significands only, then cut. */
static float odd(float x) {
    const float cut = (float)vn_round_to(VN_FMT_BF16, x, VN_RZ, false), unit = (float)vn_ulp(VN_FMT_BF16, x);
    return fmodf(fabsf(cut) / unit, 2) == 1 && fabsf(x - cut) >= unit / 2 ? cut + copysignf(unit, x) : cut;
}

static void fill(vn_rng_t *rng, net_t *n) {
    float *const planes[] = {n->x, n->w, n->r, n->b, n->h0, n->c0, n->p};
    const int sizes[] = {T * B * I,     MAX_D * MAX_G * H * I, MAX_D * MAX_G * H * H, MAX_D * 2 * MAX_G * H,
                         MAX_D * B * H, MAX_D * B * H,         MAX_D * 3 * H};
    for (int k = 0; k < 7; ++k)
        for (int i = 0; i < sizes[k]; ++i) planes[k][i] = (float)(vn_rng_normal(rng) * (k == 0 ? 1 : 0.4));
    n->len[0] = T;
    n->len[1] = 3;
}

static float sigmoid(float z) { return 1 / (1 + expf(-z)); }

/* One row of weights times x, in f32. */
static float product(way_t way, int n, const float *w, const float *x) {
    float s = 0;
    for (int i = 0; i < n; ++i) s += (way == CONSTANT ? odd(w[i]) : bf16(w[i])) * bf16(x[i]);
    return way == APART ? bf16(s) : s;
}

/* The two halves of the argument of gate g, unit k, of direction d: products and biases. */
typedef struct halves {
    float x, h, wb, rb;
} halves_t;

static halves_t halves(const net_t *n, way_t way, int d, int g, int k, const float *x, const float *h) {
    const int row = (d * n->gates + g) * H + k, bias = d * 2 * n->gates * H + g * H + k;
    return (halves_t){product(way, I, n->w + row * I, x), product(way, H, n->r + row * H, h), n->b[bias], n->b[bias + n->gates * H]};
}

static float all(halves_t z) { return z.x + z.h + (z.wb + z.rb); }

static void cell(const net_t *n, way_t way, int d, const float *x, float *h, float *c) {
    float next[H], scaled[H];
    for (int k = 0; k < H && n->kind == 'G' && !n->reset_after; ++k) {
        const halves_t z = halves(n, way, d, 1, k, x, h);
        scaled[k] = sigmoid(way == APART ? z.x + bf16(z.h + bf16(z.wb + z.rb)) : all(z)) * h[k];
    }
    for (int k = 0; k < H; ++k) {
        const float *p = n->p + d * 3 * H + k;
        if (n->kind == 'R') next[k] = tanhf(all(halves(n, way, d, 0, k, x, h)));
        if (n->kind == 'L') {
            const float i = sigmoid(all(halves(n, way, d, 0, k, x, h)) + (n->peep ? p[0] * c[k] : 0)),
                        f = sigmoid(all(halves(n, way, d, 2, k, x, h)) + (n->peep ? p[2 * H] * c[k] : 0));
            c[k] = f * c[k] + i * tanhf(all(halves(n, way, d, 3, k, x, h)));
            next[k] = sigmoid(all(halves(n, way, d, 1, k, x, h)) + (n->peep ? p[H] * c[k] : 0)) * tanhf(c[k]);
        }
        if (n->kind == 'G') {
            const float z = sigmoid(all(halves(n, way, d, 0, k, x, h)));
            halves_t q = halves(n, way, d, 2, k, x, n->reset_after ? h : scaled);
            const float rest = q.h + q.rb, gate = n->reset_after ? sigmoid(all(halves(n, way, d, 1, k, x, h))) : 1;
            next[k] = (1 - z) * tanhf(q.x + q.wb + gate * rest) + z * h[k];
        }
    }
    for (int k = 0; k < H; ++k) h[k] = way == CONSTANT ? bf16(next[k]) : next[k];
}

static void run(const net_t *n, way_t way, double *y, double *last, double *last_c) {
    memset(y, 0, sizeof(double) * Y);
    for (int d = 0; d < n->dirs; ++d)
        for (int b = 0; b < B; ++b) {
            float h[H], c[H];
            for (int k = 0; k < H; ++k) {
                h[k] = n->h0[(d * B + b) * H + k], c[k] = n->c0[(d * B + b) * H + k];
                if (way == CONSTANT) h[k] = bf16(h[k]), c[k] = bf16(c[k]);
            }
            for (int s = 0; s < (int)n->len[b]; ++s) {
                const int at = d == 1 || n->reverse ? (int)n->len[b] - 1 - s : s;
                cell(n, way, d, n->x + (at * B + b) * I, h, c);
                for (int k = 0; k < H; ++k) y[((at * n->dirs + d) * B + b) * H + k] = h[k];
            }
            for (int k = 0; k < H; ++k) last[(d * B + b) * H + k] = h[k], last_c[(d * B + b) * H + k] = c[k];
        }
}

/* The result with a fault in it. False: the fault is none of this layer's. */
static bool faulty(const net_t *n, way_t way, fault_t fault, double *y, double *h, double *c) {
    net_t m = *n;
    const int block = H * I, square = H * H;
    if ((fault == GATES && n->gates == 1) || (fault == DIRECTION && n->dirs == 2)) return false;
    for (int d = 0; d < n->dirs && fault == GATES; ++d) { /* the first two gates exchanged */
        const int at = d * n->gates;
        memcpy(m.w + at * block, n->w + (at + 1) * block, sizeof(float) * (size_t)block);
        memcpy(m.w + (at + 1) * block, n->w + at * block, sizeof(float) * (size_t)block);
        memcpy(m.r + at * square, n->r + (at + 1) * square, sizeof(float) * (size_t)square);
        memcpy(m.r + (at + 1) * square, n->r + at * square, sizeof(float) * (size_t)square);
    }
    if (fault == NO_BIAS) memset(m.b, 0, sizeof m.b);
    if (fault == DIRECTION) m.reverse = !m.reverse;
    run(&m, way, y, h, c);
    const int step = n->dirs * B * H;
    if (fault == STALE) memcpy(y + 2 * step, y + step, sizeof(double) * (size_t)step);
    if (fault == ELEMENT) y[step + 3] = bf16((float)(y[step + 3] * 1.25 + 0.06));
    return true;
}

static void put(const float *from, int n, double *to) {
    for (int i = 0; i < n; ++i) to[i] = from[i];
}

static void question(vn_test_t *t, jc_t *c, const net_t *n) {
    const int D = n->dirs, G = n->gates;
    double x[MAX_D * MAX_G * H * H];
    jc_new(t, c, "portable");
    put(n->x, T * B * I, x), jc_in(t, c, VN_F32, JC_DIMS(T, B, I), x);
    put(n->w, D * G * H * I, x), jc_in(t, c, VN_F32, JC_DIMS(D, G * H, I), x);
    put(n->r, D * G * H * H, x), jc_in(t, c, VN_F32, JC_DIMS(D, G * H, H), x);
    put(n->b, D * 2 * G * H, x), jc_in(t, c, VN_F32, JC_DIMS(D, 2 * G * H), x);
    jc_in(t, c, VN_I32, JC_DIMS(B), n->len);
    put(n->h0, D * B * H, x), jc_in(t, c, VN_F32, JC_DIMS(D, B, H), x);
    if (n->kind == 'L') put(n->c0, D * B * H, x), jc_in(t, c, VN_F32, JC_DIMS(D, B, H), x);
    if (n->peep) put(n->p, D * 3 * H, x), jc_in(t, c, VN_F32, JC_DIMS(D, 3 * H), x);
    jc_op(t, c, n->kind == 'R' ? "RNN" : n->kind == 'G' ? "GRU" : "LSTM", 14, n->kind == 'L' ? 3 : 2);
    VN_ASSERT_OK(t, vn_node_set_int(c->model, c->node, "hidden_size", H, NULL));
    if (n->kind == 'G') VN_ASSERT_OK(t, vn_node_set_int(c->model, c->node, "linear_before_reset", n->reset_after, NULL));
    VN_ASSERT_OK(t, vn_node_set_string(c->model, c->node, "direction",
                                       D == 2       ? "bidirectional"
                                       : n->reverse ? "reverse"
                                                    : "forward",
                                       NULL));
    jc_oracle(t, c);
}

static const vn_finding_t *answer(vn_test_t *t, jc_t *c, const net_t *n, const double *y, const double *h, const double *cell_state) {
    jc_gives(c, 0, jc_tensor(t, VN_F32, JC_DIMS(T, n->dirs, B, H), y));
    jc_gives(c, 1, jc_tensor(t, VN_F32, JC_DIMS(n->dirs, B, H), h));
    if (n->kind == 'L') jc_gives(c, 2, jc_tensor(t, VN_F32, JC_DIMS(n->dirs, B, H), cell_state));
    return jc_judge(t, c);
}

static net_t layer(int kind, int direction) {
    return (net_t){.kind = "RGGLL"[kind],
                   .gates = (const int[]){1, 3, 3, 4, 4}[kind],
                   .dirs = direction == 2 ? 2 : 1,
                   .reverse = direction == 1,
                   .reset_after = kind == 2,
                   .peep = kind == 4};
}

static void named(vn_test_t *t, way_t way, const char *words) {
    vn_rng_t rng = vn_test_rng(t);
    double y[Y], h[MAX_D * B * H], c[MAX_D * B * H];
    for (int i = 0; i < 15; ++i) {
        net_t n = layer(i % 5, i / 5);
        jc_t q;
        fill(&rng, &n);
        question(t, &q, &n);
        run(&n, way, y, h, c);
        answer(t, &q, &n, y, h, c);
        for (int k = 0; k < q.n_out; ++k) {
            VN_ASSERT_VERDICT(t, &q.found[k], VN_CONTRACT_MISMATCH);
            VN_ASSERT_STR(t, q.found[k].cause, "operands-bf16");
            VN_ASSERT_HAS(t, q.found[k].words, words);
        }
        jc_free(&q);
    }
}

VN_TEST(arith_recurrent, weights_converted_by_the_odd_rule) { named(t, CONSTANT, "odd significands"); }
VN_TEST(arith_recurrent, products_rounded_apart) { named(t, APART, "before they meet"); }

/* Each fault, in both ways, somewhere among the layers and directions. */
VN_TEST(arith_recurrent, faults_inside_stay_bugs) {
    vn_rng_t rng = vn_test_rng(t);
    double y[Y], h[MAX_D * B * H], c[MAX_D * B * H];
    int seen[FAULTS] = {0};
    for (int i = 0; i < 30; ++i) {
        net_t n = layer(i % 5, i / 5 % 3);
        jc_t q;
        fill(&rng, &n);
        const way_t way = i / 15 ? APART : CONSTANT;
        const fault_t fault = (fault_t)(1 + (i + i / 5 + i / 15) % (FAULTS - 1));
        if (!faulty(&n, way, fault, y, h, c)) continue;
        question(t, &q, &n);
        const vn_finding_t *f = answer(t, &q, &n, y, h, c);
        if (f->verdict != VN_BUG)
            vn_test_fail(t, __FILE__, __LINE__, "layer %d, fault %d: %s '%s': %s", i, (int)fault, vn_verdict_name(f->verdict), f->cause,
                         f->words);
        seen[fault]++;
        jc_free(&q);
    }
    for (int k = GATES; k < FAULTS; ++k) VN_ASSERT_GE(t, seen[k], 2);
}

/* The f32 layer itself is none of these. */
VN_TEST(arith_recurrent, f32_with_one_wrong_element_is_no_bfloat16) {
    vn_rng_t rng = vn_test_rng(t);
    net_t n = layer(1, 2);
    jc_t q;
    fill(&rng, &n);
    question(t, &q, &n);
    double y[Y], h[MAX_D * B * H];
    for (int k = 0; k < T * n.dirs * B * H; ++k) y[k] = (float)q.refs[0].value[k];
    for (int k = 0; k < n.dirs * B * H; ++k) h[k] = (float)q.refs[1].value[k];
    VN_ASSERT_PASSES(t, answer(t, &q, &n, y, h, NULL));
    y[37] += 0.004;
    VN_ASSERT_VERDICT(t, answer(t, &q, &n, y, h, NULL), VN_BUG);
    jc_free(&q);
}

VN_TEST_MAIN(VN_CASE(arith_recurrent, weights_converted_by_the_odd_rule), VN_CASE(arith_recurrent, products_rounded_apart),
             VN_CASE(arith_recurrent, faults_inside_stay_bugs), VN_CASE(arith_recurrent, f32_with_one_wrong_element_is_no_bfloat16))
