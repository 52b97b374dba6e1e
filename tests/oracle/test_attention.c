/* Claims ATTN-1 to ATTN-3: exact twin in extended precision, direct and blocked (flash) executions, masks, caches, rotary embedding. */
#include <stdio.h>

#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { B = 2, H = 4, HK = 2, Q = 5, K = 19, D = 8, DV = 6 };

typedef struct heads {
    double q[B * H * Q * D], k[B * HK * K * D], v[B * HK * K * DV], mask[Q * K];
    bool seen[B][Q][K];
    double scale, softcap;
} heads_t;

static void fill(vn_rng_t *rng, vn_format_t f, heads_t *h, double spread, bool masked) {
    for (int i = 0; i < B * H * Q * D; ++i) h->q[i] = sim(f, vn_rng_normal(rng) * spread);
    for (int i = 0; i < B * HK * K * D; ++i) h->k[i] = sim(f, vn_rng_normal(rng) * spread);
    for (int i = 0; i < B * HK * K * DV; ++i) h->v[i] = sim(f, vn_rng_normal(rng));
    for (int i = 0; i < Q * K; ++i) h->mask[i] = masked ? (vn_rng_below(rng, 4) == 0 ? -INFINITY : sim(f, vn_rng_normal(rng))) : 0;
    for (int b = 0; b < B; ++b)
        for (int i = 0; i < Q; ++i)
            for (int j = 0; j < K; ++j) h->seen[b][i][j] = h->mask[i * K + j] > -INFINITY;
    h->scale = 1 / sqrt((double)D);
    h->softcap = 0;
}

static void exact(const heads_t *x, double *out) {
    for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h)
            for (int i = 0; i < Q; ++i) {
                long double s[K], top = -INFINITY, l = 0, o[DV] = {0};
                for (int j = 0; j < K; ++j) {
                    long double dot = 0;
                    for (int c = 0; c < D; ++c)
                        dot += (long double)x->q[((b * H + h) * Q + i) * D + c] * x->k[((b * HK + h / (H / HK)) * K + j) * D + c];
                    s[j] = dot * x->scale;
                    if (x->softcap > 0) s[j] = x->softcap * tanhl(s[j] / x->softcap);
                    s[j] += x->mask[i * K + j];
                    if (!x->seen[b][i][j]) s[j] = -INFINITY;
                    if (s[j] > top) top = s[j];
                }
                for (int j = 0; j < K && top > -INFINITY; ++j) {
                    const long double p = expl(s[j] - top);
                    l += p;
                    for (int c = 0; c < DV; ++c) o[c] += p * x->v[((b * HK + h / (H / HK)) * K + j) * DV + c];
                }
                for (int c = 0; c < DV; ++c) out[((b * H + h) * Q + i) * DV + c] = top > -INFINITY ? (double)(o[c] / l) : 0;
            }
}

/* Every operation in f; weights stored in fp; block = keys per step of the online form, 0 = whole rows. */
static void execute(vn_format_t f, vn_format_t fp, int block, const heads_t *x, double *out) {
    for (int b = 0; b < B; ++b)
        for (int h = 0; h < H; ++h)
            for (int i = 0; i < Q; ++i) {
                double s[K], m = -INFINITY, l = 0, o[DV] = {0};
                for (int j = 0; j < K; ++j) {
                    double dot = 0;
                    for (int c = 0; c < D; ++c)
                        dot = sim(f, dot + sim(f, x->q[((b * H + h) * Q + i) * D + c] * x->k[((b * HK + h / (H / HK)) * K + j) * D + c]));
                    s[j] = sim(f, dot * sim(f, x->scale));
                    if (x->softcap > 0) s[j] = sim(f, x->softcap * sim(f, tanh(sim(f, s[j] / x->softcap))));
                    s[j] = sim(f, s[j] + x->mask[i * K + j]);
                    if (!x->seen[b][i][j]) s[j] = -INFINITY;
                }
                const int step = block ? block : K;
                for (int j0 = 0; j0 < K; j0 += step) {
                    double top = m;
                    const int end = j0 + step < K ? j0 + step : K;
                    for (int j = j0; j < end; ++j) top = fmax(top, s[j]);
                    if (top == -INFINITY) continue;
                    if (top > m) {
                        const double r = m == -INFINITY ? 0 : sim(f, exp(sim(f, m - top)));
                        l = sim(f, l * r);
                        for (int c = 0; c < DV; ++c) o[c] = sim(f, o[c] * r);
                        m = top;
                    }
                    for (int j = j0; j < end; ++j) {
                        const double p = sim(f, exp(sim(f, s[j] - m))), stored = sim(fp, p);
                        l = sim(f, l + p);
                        for (int c = 0; c < DV; ++c)
                            o[c] = sim(f, o[c] + sim(f, stored * x->v[((b * HK + h / (H / HK)) * K + j) * DV + c]));
                    }
                }
                for (int c = 0; c < DV; ++c) out[((b * H + h) * Q + i) * DV + c] = m > -INFINITY ? sim(f, o[c] / l) : 0;
            }
}

static one_node_t node(vn_test_t *t, vn_dtype_t type, const heads_t *x, bool masked, const char *contract) {
    one_node_t c = {.op = "Attention", .version = 24, .n_in = masked ? 4 : 3, .contract = contract, .want = VN_WANT_VARIANCE};
    c.in[0] = one_tensor(t, type, 4, (int64_t[]){B, H, Q, D});
    c.in[1] = one_tensor(t, type, 4, (int64_t[]){B, HK, K, D});
    c.in[2] = one_tensor(t, type, 4, (int64_t[]){B, HK, K, DV});
    vn_tensor_from_f64(c.in[0], x->q, VN_RNE, false);
    vn_tensor_from_f64(c.in[1], x->k, VN_RNE, false);
    vn_tensor_from_f64(c.in[2], x->v, VN_RNE, false);
    if (masked) {
        c.in[3] = one_tensor(t, type, 2, (int64_t[]){Q, K});
        vn_tensor_from_f64(c.in[3], x->mask, VN_RNE, false);
    }
    return c;
}

/* output_f: type that the result is stored in after f. */
static double hold(vn_test_t *t, vn_format_t data_f, vn_format_t f, vn_format_t fp, vn_format_t output_f, vn_dtype_t type,
                   const char *contract, bool wide) {
    vn_rng_t rng = vn_test_rng(t);
    double worst = 0, y[B * H * Q * DV], z[B * H * Q * DV];
    for (int i = 0; i < 12; ++i) {
        heads_t x;
        fill(&rng, data_f, &x, i % 3 == 2 ? 2 : 0.7, i % 2);
        one_node_t c = node(t, type, &x, i % 2, contract);
        if (i % 4 == 3) {
            x.softcap = 1.5;
            c.attrs[0] = (one_attr_t){"softcap", ONE_FLOAT, 1.5, NULL};
        }
        one_run(t, &c);
        exact(&x, z);
        for (int e = 0; e < B * H * Q * DV; ++e) VN_ASSERT_LE(t, fabs(z[e] - c.out[0].value[e]), 1e-13);
        for (int block = 0; block < 9; block += 4) {
            execute(f, fp, block, &x, y);
            for (int e = 0; e < B * H * Q * DV; ++e) {
                const double b = wide ? c.out[0].wide[e] : c.out[0].bound[e], q = sim_ratio(sim(output_f, y[e]), z[e], b);
                if (q > 1)
                    vn_test_fail(t, __FILE__, __LINE__, "case %d, block %d, element %d: %a for %a, bound %a, ratio %g", i, block, e, y[e],
                                 z[e], b, q);
                if (b < INFINITY) worst = fmax(worst, q);
                VN_ASSERT(t, c.out[0].var[e] >= 0);
            }
        }
        one_free(&c);
    }
    return worst;
}

VN_TEST(attention, direct_and_flash_hold_in_f32) {
    VN_ASSERT_GE(t, hold(t, VN_FMT_F32, VN_FMT_F32, VN_FMT_F32, VN_FMT_F32, VN_F32, "operand=f32,accumulator=f32", false), 0.02);
}
VN_TEST(attention, f16_storage_with_f16_weights) {
    VN_ASSERT_GE(t, hold(t, VN_FMT_F16, VN_FMT_F32, VN_FMT_F16, VN_FMT_F16, VN_F16, "operand=f16,accumulator=f32,intermediate=f16", false),
                 0.2);
}
VN_TEST(attention, bf16_weights_need_their_contract) {
    hold(t, VN_FMT_F32, VN_FMT_F32, VN_FMT_BF16, VN_FMT_F32, VN_F32, "operand=f32,accumulator=f32,intermediate=bf16", false);
    vn_rng_t rng = vn_test_rng(t);
    heads_t x;
    double y[B * H * Q * DV];
    int outside = 0;
    fill(&rng, VN_FMT_F32, &x, 1, false);
    one_node_t c = node(t, VN_F32, &x, false, "operand=f32,accumulator=f32");
    one_run(t, &c);
    execute(VN_FMT_F32, VN_FMT_BF16, 0, &x, y);
    for (int e = 0; e < B * H * Q * DV; ++e) outside += fabs(y[e] - c.out[0].value[e]) > c.out[0].bound[e];
    VN_ASSERT_GT(t, outside, B * H * Q * DV / 2);
    one_free(&c);
}
VN_TEST(attention, f16_everywhere_holds) {
    hold(t, VN_FMT_F16, VN_FMT_F16, VN_FMT_F16, VN_FMT_F16, VN_F16, "operand=f16,accumulator=f16", false);
}

VN_TEST(attention, scale_or_mask_left_out_is_outside) {
    vn_rng_t rng = vn_test_rng(t);
    heads_t x;
    double y[B * H * Q * DV];
    fill(&rng, VN_FMT_F32, &x, 1, true);
    one_node_t c = node(t, VN_F32, &x, true, "operand=f32,accumulator=f32");
    one_run(t, &c);
    for (int fault = 0; fault < 2; ++fault) {
        heads_t bad = x;
        int outside = 0;
        if (fault)
            for (int i = 0; i < Q * K; ++i) bad.mask[i] = 0, bad.seen[0][i / K][i % K] = bad.seen[1][i / K][i % K] = true;
        else bad.scale = 1;
        execute(VN_FMT_F32, VN_FMT_F32, 0, &bad, y);
        for (int e = 0; e < B * H * Q * DV; ++e) outside += fabs(y[e] - c.out[0].value[e]) > c.out[0].bound[e];
        VN_ASSERT_GT(t, outside, B * H * Q * DV * 9 / 10);
    }
    one_free(&c);
}

/* Causal corner with a cache, window and padded lengths against the rule written out. */
VN_TEST(attention, masks_stand_at_the_bottom_right) {
    vn_rng_t rng = vn_test_rng(t);
    heads_t x;
    double z[B * H * Q * DV];
    static const int64_t valid[B] = {K, 3};
    for (int kind = 0; kind < 3; ++kind) { /* plain causal, padded lengths, window */
        fill(&rng, VN_FMT_F32, &x, 1, false);
        one_node_t c = node(t, VN_F32, &x, false, "portable");
        c.attrs[0] = (one_attr_t){"is_causal", ONE_INT, kind < 2, NULL};
        if (kind == 1) {
            c.n_in = 7;
            c.in[6] = one_ints(t, VN_I64, B, valid);
        }
        if (kind == 2) {
            c.version = 25;
            c.attrs[1] = (one_attr_t){"left_window_size", ONE_INT, 2, NULL};
            c.attrs[2] = (one_attr_t){"right_window_size", ONE_INT, 1, NULL};
        }
        one_run(t, &c);
        for (int b = 0; b < B; ++b)
            for (int i = 0; i < Q; ++i)
                for (int j = 0; j < K; ++j) {
                    const int64_t at = i + (kind == 1 ? valid[b] - Q : 0);
                    x.seen[b][i][j] = kind == 2 ? at - j <= 2 && j - at <= 1 : j <= at && (kind == 0 || j < valid[b]);
                }
        exact(&x, z);
        for (int e = 0; e < B * H * Q * DV; ++e) VN_ASSERT_LE(t, fabs(z[e] - c.out[0].value[e]), 1e-13);
        if (kind == 1) VN_ASSERT_DEQ(t, c.out[0].value[H * Q * DV], 0); /* sample 1, query 0: no key, a zero row */
        one_free(&c);
    }
}

VN_TEST(attention, scores_are_an_output) {
    vn_rng_t rng = vn_test_rng(t);
    heads_t x;
    for (int mode = 0; mode < 4; ++mode) {
        fill(&rng, VN_FMT_F32, &x, 1, true);
        one_node_t c = node(t, VN_F32, &x, true, "portable");
        c.n_out = 4;
        c.attrs[0] = (one_attr_t){"qk_matmul_output_mode", ONE_INT, mode, NULL};
        c.attrs[1] = (one_attr_t){"softcap", ONE_FLOAT, 2, NULL};
        one_run(t, &c);
        const vn_ref_t *r = &c.out[3];
        VN_ASSERT_EQ(t, r->count, B * H * Q * K);
        double dot = 0, sum = 0;
        for (int k = 0; k < D; ++k) dot += x.q[k] * x.k[k] * x.scale;
        const double capped = 2 * tanh(dot / 2);
        if (mode == 0) VN_ASSERT_LE(t, fabs(r->value[0] - dot), 1e-13);
        if (mode == 0) VN_ASSERT_STR(t, r->readings[0].name, "after-softcap");
        if (mode == 1) VN_ASSERT_LE(t, fabs(r->value[0] - capped), 1e-13);
        if (mode == 2) VN_ASSERT(t, x.mask[0] == -INFINITY ? r->value[0] == -INFINITY : fabs(r->value[0] - capped - x.mask[0]) < 1e-13);
        for (int j = 0; j < K; ++j) sum += r->value[j];
        if (mode == 3) VN_ASSERT_LE(t, fabs(sum - 1), 1e-13);
        if (mode != 2) VN_ASSERT_GT(t, r->bound[1], 0);
        one_free(&c);
    }
}

VN_TEST(attention, nan_in_a_forbidden_key_has_two_readings) {
    vn_rng_t rng = vn_test_rng(t);
    heads_t x;
    fill(&rng, VN_FMT_F32, &x, 1, true);
    for (int i = 0; i < Q; ++i) x.mask[i * K + 3] = -INFINITY;
    x.k[3 * D] = NAN;
    one_node_t c = node(t, VN_F32, &x, true, "portable");
    one_run(t, &c);
    VN_ASSERT(t, isfinite(c.out[0].value[0]));
    VN_ASSERT_EQ(t, c.out[0].n_readings, 1);
    VN_ASSERT_STR(t, c.out[0].readings[0].name, "masked-nan");
    VN_ASSERT(t, isnan(vn_tensor_get_f64(c.out[0].readings[0].value, 0)));
    one_free(&c);
}

/* Two keys, scores 0 and d, values a and the next number of f32: the result is the midpoint moved by d/4 of their distance, so that its rounding is
 * known by the sign of d. The distances chosen are too small for one evaluation in f64 and large enough for weights in f64 (claim PREC-8),
 * or too small for those as well. */
VN_TEST(attention, weights_in_f64_agree_with_113_bits) {
    enum { N = 64, W = 4 };
    vn_rng_t rng = vn_test_rng(t);
    for (int tiny = 0; tiny < 2; ++tiny) {
        one_node_t c = {.op = "Attention", .version = 23, .n_in = 3, .n_out = 1, .contract = "portable", .want = VN_WANT_BOUND};
        c.attrs[0] = (one_attr_t){"scale", ONE_FLOAT, 1, NULL};
        const int64_t q[4] = {1, 1, N, 1}, k[4] = {1, 1, 2, 1}, v[4] = {1, 1, 2, W};
        c.in[0] = one_tensor(t, VN_F32, 4, q);
        c.in[1] = one_tensor(t, VN_F32, 4, k);
        c.in[2] = one_tensor(t, VN_F32, 4, v);
        double d[N], a[W];
        for (int i = 0; i < N; ++i) {
            d[i] = (tiny ? 1e-13 : 1.6e-7) * (1 + vn_rng_uniform(&rng)) * (i % 2 ? 1 : -1);
            vn_tensor_set_f64(c.in[0], i, d[i]);
        }
        vn_tensor_set_f64(c.in[1], 0, 0);
        vn_tensor_set_f64(c.in[1], 1, 1);
        for (int j = 0; j < W; ++j) {
            a[j] = (float)(1 + vn_rng_uniform(&rng));
            vn_tensor_set_f64(c.in[2], j, a[j]);
            vn_tensor_set_f64(c.in[2], W + j, nextafterf((float)a[j], INFINITY));
        }
        one_run(t, &c);
        VN_ASSERT_EQ(t, c.out[0].undecided, 0);
        VN_ASSERT_EQ(t, c.out[0].escalated, N * W);
        for (int i = 0; i < N; ++i)
            for (int j = 0; j < W; ++j)
                VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i * W + j), d[i] > 0 ? nextafterf((float)a[j], INFINITY) : (float)a[j]);
        one_free(&c);
    }
}

VN_TEST(attention, rotary_pairs) {
    vn_rng_t rng = vn_test_rng(t);
    enum { T = 3, S = 8, R = 4 };
    double x[T * S], cosine[10 * R / 2], sine[10 * R / 2], worst = 0;
    for (int i = 0; i < 10 * R / 2; ++i) cosine[i] = sim(VN_FMT_F32, cos(i * 0.7)), sine[i] = sim(VN_FMT_F32, sin(i * 0.7));
    for (int i = 0; i < 60; ++i) {
        const bool pairs = i % 2;
        for (int k = 0; k < T * S; ++k) x[k] = sim(VN_FMT_F32, vn_rng_normal(&rng));
        one_node_t c = {.op = "RotaryEmbedding",
                        .version = 23,
                        .n_in = 4,
                        .contract = "operand=f32,accumulator=f32",
                        .want = VN_WANT_VARIANCE,
                        .attrs = {{"interleaved", ONE_INT, pairs, NULL}, {"rotary_embedding_dim", ONE_INT, R, NULL}}};
        c.in[0] = one_tensor(t, VN_F32, 4, (int64_t[]){1, 1, T, S});
        vn_tensor_from_f64(c.in[0], x, VN_RNE, false);
        c.in[1] = one_tensor(t, VN_F32, 2, (int64_t[]){10, R / 2});
        c.in[2] = one_tensor(t, VN_F32, 2, (int64_t[]){10, R / 2});
        vn_tensor_from_f64(c.in[1], cosine, VN_RNE, false);
        vn_tensor_from_f64(c.in[2], sine, VN_RNE, false);
        c.in[3] = one_tensor(t, VN_I64, 2, (int64_t[]){1, T});
        for (int k = 0; k < T; ++k) vn_tensor_set_i64(c.in[3], k, 2 * k + 1);
        one_run(t, &c);
        for (int k = 0; k < T; ++k)
            for (int p = 0; p < R / 2; ++p) {
                const int a = k * S + (pairs ? 2 * p : p), b = k * S + (pairs ? 2 * p + 1 : R / 2 + p), at = (2 * k + 1) * R / 2 + p;
                const float plain = (float)(cosine[at] * x[a]) - (float)(sine[at] * x[b]),
                            fused = fmaf((float)sine[at], (float)x[a], (float)(cosine[at] * x[b]));
                worst = fmax(worst, sim_ratio(plain, cosine[at] * x[a] - sine[at] * x[b], c.out[0].bound[a]));
                worst = fmax(worst, sim_ratio(fused, sine[at] * x[a] + cosine[at] * x[b], c.out[0].bound[b]));
                VN_ASSERT_LE(t, fabs(c.out[0].value[b] - sine[at] * x[a] - cosine[at] * x[b]), 1e-15);
            }
        VN_ASSERT_DEQ(t, c.out[0].value[S - 1], x[S - 1]);
        VN_ASSERT_DEQ(t, c.out[0].bound[S - 1], 0);
        one_free(&c);
    }
    VN_ASSERT_LE(t, worst, 1);
    VN_ASSERT_GE(t, worst, 0.5);
}

VN_TEST_MAIN(VN_CASE(attention, weights_in_f64_agree_with_113_bits), VN_CASE(attention, direct_and_flash_hold_in_f32),
             VN_CASE(attention, f16_storage_with_f16_weights), VN_CASE(attention, bf16_weights_need_their_contract),
             VN_CASE(attention, f16_everywhere_holds), VN_CASE(attention, scale_or_mask_left_out_is_outside),
             VN_CASE(attention, masks_stand_at_the_bottom_right), VN_CASE(attention, scores_are_an_output),
             VN_CASE(attention, nan_in_a_forbidden_key_has_two_readings), VN_CASE(attention, rotary_pairs))
