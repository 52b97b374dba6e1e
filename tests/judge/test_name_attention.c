/* Names for attention: scale, cap, masks, windows, heads, caches, blocks (claims NAME-1, NAME-MASK-1). Expected values come from a plain twin. */
#include "judge/name_case.h"

enum { B = 2, H = 4, G = 2, S = 5, K = 8, D = 4, DV = 3, OUT = B * H * S * DV };
#define OURS \
    "scale softcap causal window mask padding k-tail term broadcast head state permuted block transposed bias attribute-ignored:qk sign"

/* What a back end does, right or wrong. Zero-initialised: plain attention. */
typedef struct rule {
    double scale, cap; /* scale 0: 1/sqrt(D) */
    bool causal, cap_last;
    int offset, left, keys, block; /* left -1, keys 0, block 0: none */
    const double *bias;            /* [B, H, S, K], may hold -Inf */
    int map;                       /* heads: 0 h / 2, 1 h mod 2, 2 head 0 */
} rule_t;

static double q[B * H * S * D], k[B * G * K * D], v[B * G * K * DV], bias[B * H * S * K], other[B * H * S * K], y[OUT];

static int head(int h, int map) { return map == 1 ? h % G : map == 2 ? 0 : h / (H / G); }

static void attend(const rule_t *r, double *out) {
    for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h)
            for (int i = 0; i < S; ++i) {
                double s[K], top = -INFINITY, sum = 0, acc[DV] = {0}, running = -INFINITY;
                const int g = head(h, r->map), at = i + r->offset;
                for (int j = 0; j < K; ++j) {
                    s[j] = 0;
                    for (int c = 0; c < D; ++c) s[j] += q[((b * H + h) * S + i) * D + c] * k[((b * G + g) * K + j) * D + c];
                    s[j] *= r->scale ? r->scale : 1 / sqrt(D);
                    double m = r->bias ? r->bias[((b * H + h) * S + i) * K + j] : 0;
                    if ((r->causal && j > at) || (r->left >= 0 && at - j > r->left) || (r->keys && j >= r->keys)) m = -INFINITY;
                    if (r->cap && !r->cap_last) s[j] = r->cap * tanh(s[j] / r->cap);
                    s[j] += m;
                    if (r->cap && r->cap_last) s[j] = r->cap * tanh(s[j] / r->cap);
                    top = fmax(top, s[j]);
                }
                for (int j = 0; j < K; ++j) {
                    if (r->block && j % r->block == 0)
                        for (int n = j; n < j + r->block && n < K; ++n) running = fmax(running, s[n]);
                    const double w = top == -INFINITY ? 0 : exp(s[j] - (r->block ? running : top));
                    sum += w;
                    for (int c = 0; c < DV; ++c) acc[c] += w * v[((b * G + g) * K + j) * DV + c];
                }
                for (int c = 0; c < DV; ++c) out[((b * H + h) * S + i) * DV + c] = sum > 0 ? acc[c] / sum : 0;
            }
}

static void fill(vn_rng_t *rng) {
    nc_fill(rng, q, B * H * S * D, 1.5);
    nc_fill(rng, k, B * G * K * D, 1);
    nc_fill(rng, v, B * G * K * DV, 1);
    nc_fill(rng, bias, B * H * S * K, 1);
}

/* Attention on Q, K, V, and a float mask or none. */
static void begin(vn_test_t *t, jc_t *c, const double *mask) {
    jc_new(t, c, "portable");
    jc_in(t, c, VN_F32, JC_DIMS(B, H, S, D), q);
    jc_in(t, c, VN_F32, JC_DIMS(B, G, K, D), k);
    jc_in(t, c, VN_F32, JC_DIMS(B, G, K, DV), v);
    if (mask) jc_in(t, c, VN_F32, JC_DIMS(B, H, S, K), mask);
    jc_op(t, c, "Attention", 24, 1);
}

static void set_int(vn_test_t *t, jc_t *c, const char *name, int64_t x) {
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c->model, c->node, name, x, &c->err), c->err);
}

static void noise(vn_rng_t *rng, double *out) {
    for (int i = 0; i < OUT; ++i) out[i] = 0.3 * vn_rng_normal(rng);
}

VN_TEST(attention, scale_and_cap) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    fill(&rng);
    begin(t, &c, NULL);
    VN_ASSERT_OK_ERR(t, vn_node_set_float(c.model, c.node, "softcap", 1.25f, &c.err), c.err);
    jc_oracle(t, &c);
    attend(&(rule_t){.cap = 1.25, .left = -1}, y);
    VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
    attend(&(rule_t){.cap = 1.25, .left = -1, .scale = 1}, y);
    VN_ASSERT_CAUSE(t, &c, y, "scale-missing");
    attend(&(rule_t){.cap = 1.25, .left = -1, .scale = 1.0 / D}, y);
    VN_ASSERT_CAUSE(t, &c, y, "scale-twice");
    attend(&(rule_t){.left = -1}, y);
    VN_ASSERT_CAUSE(t, &c, y, "softcap-missing");
    noise(&rng, y);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(attention, causal_alignment) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    fill(&rng);
    begin(t, &c, NULL);
    set_int(t, &c, "is_causal", 1);
    VN_ASSERT_OK_ERR(t, vn_node_set_float(c.model, c.node, "softcap", 2.0f, &c.err), c.err);
    jc_oracle(t, &c);
    const rule_t due = {.causal = true, .left = -1, .cap = 2};
    attend(&due, y);
    VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
    rule_t r = due;
    r.offset = K - S;
    attend(&r, y);
    VN_ASSERT_CAUSE(t, &c, y, "causal-corner");
    r.offset = 1;
    attend(&r, y);
    VN_ASSERT_CAUSE(t, &c, y, "causal-off-by-one");
    r.offset = -1; /* the first query sees nothing: zeros */
    attend(&r, y);
    VN_ASSERT_CAUSE(t, &c, y, "causal-off-by-one");
    r = due;
    r.cap_last = true;
    attend(&r, y);
    VN_ASSERT_CAUSE(t, &c, y, "mask-finite");
    attend(&due, y);
    y[7] += 0.5; /* one element */
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    memset(y, 0, sizeof y); /* zeros are no mask that forbids everything */
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(attention, mask_operand) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    fill(&rng);
    begin(t, &c, bias);
    jc_oracle(t, &c);
    attend(&(rule_t){.left = -1, .bias = bias}, y);
    VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
    attend(&(rule_t){.left = -1}, y);
    VN_ASSERT_CAUSE(t, &c, y, "mask-ignored");
    for (int i = 0; i < B * H * S * K; ++i) other[i] = bias[i / (H * S * K) * (H * S * K) + i % (S * K)];
    attend(&(rule_t){.left = -1, .bias = other}, y);
    VN_ASSERT_CAUSE(t, &c, y, "broadcast-axis");
    for (int i = 0; i < B * H * S * K; ++i) {
        const int b = i / (H * S * K), h = i / (S * K) % H;
        other[i] = bias[(b * H + (h + 1) % H) * S * K + i % (S * K)];
    }
    attend(&(rule_t){.left = -1, .bias = other}, y);
    VN_ASSERT_CAUSE(t, &c, y, "head-index");
    for (int i = 0; i < B * H * S * K; ++i) other[i] = bias[i] / sqrt(D);
    attend(&(rule_t){.left = -1, .bias = other}, y);
    VN_ASSERT_CAUSE(t, &c, y, "bias-scale");
    for (int i = 0; i < B * H * S * K; ++i) other[i] = 2 * bias[i];
    attend(&(rule_t){.left = -1, .bias = other}, y);
    VN_ASSERT_CAUSE(t, &c, y, "bias-twice");
    noise(&rng, y);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

/* A band of `width` + 1 keys that ends at i + ahead. */
static void band(double *m, int width, int ahead) {
    for (int i = 0; i < B * H * S * K; ++i) {
        const int row = i / K % S, j = i % K;
        m[i] = j <= row + ahead && j >= row + ahead - width ? 0 : -INFINITY;
    }
}

VN_TEST(attention, windows) {
    vn_rng_t rng = vn_test_rng(t);
    for (int by = -1; by < 2; by += 2) {
        jc_t c;
        fill(&rng);
        band(bias, 2, K - S);
        begin(t, &c, bias);
        jc_oracle(t, &c);
        attend(&(rule_t){.left = -1, .bias = bias}, y);
        VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
        band(other, 2 + by, K - S);
        attend(&(rule_t){.left = -1, .bias = other}, y);
        VN_ASSERT_CAUSE(t, &c, y, "window-off-by-one");
        jc_free(&c);
        begin(t, &c, NULL); /* the same as attributes */
        set_int(t, &c, "is_causal", 1);
        set_int(t, &c, "left_window_size", 2);
        jc_oracle(t, &c);
        attend(&(rule_t){.causal = true, .left = 2}, y);
        VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
        attend(&(rule_t){.causal = true, .left = 2 + by}, y);
        VN_ASSERT_CAUSE(t, &c, y, "window-off-by-one");
        jc_free(&c);
    }
}

/* Fully masked queries: a large negative number gives the mean, or what all keys give. */
VN_TEST(attention, rows_without_keys) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    fill(&rng);
    for (int i = 0; i < B * H * S * K; ++i) bias[i] = i / K % S == 1 ? -INFINITY : bias[i];
    begin(t, &c, bias);
    jc_oracle(t, &c);
    attend(&(rule_t){.left = -1, .bias = bias}, y);
    VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
    for (int n = 0; n < OUT; ++n) {
        const int b = n / (H * S * DV), h = n / (S * DV) % H;
        if (n / DV % S != 1) continue;
        y[n] = 0;
        for (int j = 0; j < K; ++j) y[n] += v[((b * G + h / 2) * K + j) * DV + n % DV] / K;
    }
    VN_ASSERT_CAUSE(t, &c, y, "mask-finite");
    for (int i = 0; i < B * H * S * K; ++i) other[i] = i / K % S == 1 ? 0 : bias[i];
    attend(&(rule_t){.left = -1, .bias = other}, y);
    VN_ASSERT_CAUSE(t, &c, y, "mask-finite");
    jc_free(&c);
}

VN_TEST(attention, heads_and_blocks) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    fill(&rng);
    begin(t, &c, NULL);
    jc_oracle(t, &c);
    attend(&(rule_t){.left = -1, .map = 1}, y);
    VN_ASSERT_CAUSE(t, &c, y, "head-index");
    attend(&(rule_t){.left = -1, .map = 2}, y);
    VN_ASSERT_CAUSE(t, &c, y, "head-index");
    attend(&(rule_t){.left = -1, .block = 4}, y);
    VN_ASSERT_CAUSE(t, &c, y, "block-merge-missing");
    noise(&rng, y);
    VN_ASSERT_NOT_CAUSE(t, &c, y, OURS);
    jc_free(&c);
}

VN_TEST(attention, padding_length) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    fill(&rng);
    const double lengths[B] = {6, 6};
    jc_new(t, &c, "portable");
    jc_in(t, &c, VN_F32, JC_DIMS(B, H, S, D), q);
    jc_in(t, &c, VN_F32, JC_DIMS(B, G, K, D), k);
    jc_in(t, &c, VN_F32, JC_DIMS(B, G, K, DV), v);
    c.n_in = 6; /* mask and cache are absent */
    jc_in(t, &c, VN_I64, JC_DIMS(B), lengths);
    jc_op(t, &c, "Attention", 24, 1);
    for (int n = 3; n < 6; ++n) c.node->inputs[n] = "";
    jc_oracle(t, &c);
    attend(&(rule_t){.left = -1, .keys = 6}, y);
    VN_ASSERT_PASSES(t, nc_answer(t, &c, y));
    attend(&(rule_t){.left = -1}, y);
    VN_ASSERT_CAUSE(t, &c, y, "mask-ignored");
    attend(&(rule_t){.left = -1, .keys = 7}, y);
    VN_ASSERT_CAUSE(t, &c, y, "padding-leaks");
    attend(&(rule_t){.left = -1, .keys = 5}, y);
    VN_ASSERT_CAUSE(t, &c, y, "k-tail-dropped:1");
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(attention, scale_and_cap), VN_CASE(attention, causal_alignment), VN_CASE(attention, mask_operand),
             VN_CASE(attention, windows), VN_CASE(attention, rows_without_keys), VN_CASE(attention, heads_and_blocks),
             VN_CASE(attention, padding_length))
