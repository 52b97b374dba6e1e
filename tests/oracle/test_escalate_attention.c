/* MultiHeadAttention, GroupQueryAttention, Attention and QAttention of com.microsoft in more digits (claims PREC-3, PREC-10): every element is the exact value
 * rounded once, own errors are true, and small against the bound in f64. The twin is MPFR.
 */
#include <stdio.h>

#include "oracle/twin_case.h"

enum { BITS = 400, B = 2, S = 3, N = 2, D = 4, HIDDEN = N * D, IN = 5, PAST = 2, MAX_T = S + PAST };

static const vn_dtype_t types[] = {VN_F32, VN_F64, VN_F16};

static void fill(vn_rng_t *rng, vn_format_t f, double *x, int n) {
    for (int i = 0; i < n; ++i) x[i] = vn_round_to(f, vn_rng_normal(rng), VN_RNE, false);
}

/* Exact operands: q[b][h][i][c], k and v[b][h][j][c] of up to MAX_T keys. */
typedef struct exact {
    mpfr_t *q, *k, *v;
} exact_t;

static int at(int b, int h, int i, int c) { return ((b * N + h) * MAX_T + i) * D + c; }
static exact_t exact_new(void) {
    exact_t x = {tw_new(B * N * MAX_T * D), tw_new(B * N * MAX_T * D), tw_new(B * N * MAX_T * D)};
    mpfr_t *const all[] = {x.q, x.k, x.v};
    for (int p = 0; p < 3; ++p)
        for (int i = 0; i < B * N * MAX_T * D; ++i) mpfr_set_prec(all[p][i], BITS);
    return x;
}
static void exact_free(exact_t *x) {
    tw_free(x->q, B * N * MAX_T * D);
    tw_free(x->k, B * N * MAX_T * D);
    tw_free(x->v, B * N * MAX_T * D);
}

/* o = sum over the keys j < keys of softmax(q k / sqrt D) v; head h reads keys of head kv. */
static void attend(mpfr_t o, const exact_t *x, int b, int h, int kv, int i, int c, int keys) {
    mpfr_t s, p, total;
    mpfr_inits2(BITS, s, p, total, (mpfr_ptr)0);
    mpfr_set_zero(o, 1);
    mpfr_set_zero(total, 1);
    for (int j = 0; j < keys; ++j) {
        mpfr_set_zero(s, 1);
        for (int d = 0; d < D; ++d) {
            mpfr_mul(p, x->q[at(b, h, i, d)], x->k[at(b, kv, j, d)], MPFR_RNDN);
            mpfr_add(s, s, p, MPFR_RNDN);
        }
        mpfr_sqrt_ui(p, D, MPFR_RNDN);
        mpfr_div(s, s, p, MPFR_RNDN);
        mpfr_exp(s, s, MPFR_RNDN);
        mpfr_add(total, total, s, MPFR_RNDN);
        mpfr_mul(s, s, x->v[at(b, kv, j, c)], MPFR_RNDN);
        mpfr_add(o, o, s, MPFR_RNDN);
    }
    mpfr_div(o, o, total, MPFR_RNDN);
    mpfr_clears(s, p, total, (mpfr_ptr)0);
}

static void check(vn_test_t *t, const char *what, const vn_ref_t *r, int64_t i, const mpfr_t exact) {
    twin_value(t, what, r, i, exact);
    const double due = tw_round(vn_format_of(r->dtype), exact), got = vn_tensor_get_f64(r->tensor, i);
    if (r->undecided) vn_test_fail(t, __FILE__, __LINE__, "%s: %lld elements are undecided", what, (long long)r->undecided);
    if (got != due) vn_test_fail(t, __FILE__, __LINE__, "%s: element %lld is %a, exactly %a", what, (long long)i, got, due);
    if (r->dtype == VN_F64 && r->bound[i] > 0 && !r->demand_equal) VN_ASSERT_LE(t, vn_ref_own(r, i), 0x1p-10 * r->bound[i]);
}

/* Results [B, S, HIDDEN]; sees(i): the number of keys of query i. */
static void check_results(vn_test_t *t, const char *what, const one_node_t *c, const exact_t *x, int group, int past, bool causal) {
    mpfr_t o;
    mpfr_init2(o, BITS);
    for (int b = 0; b < B; ++b)
        for (int i = 0; i < S; ++i)
            for (int h = 0; h < N; ++h)
                for (int d = 0; d < D; ++d) {
                    attend(o, x, b, h, h / group, i, d, causal ? past + i + 1 : past + S);
                    check(t, what, &c->out[0], ((b * S + i) * N + h) * D + d, o);
                }
    mpfr_clear(o);
}

VN_TEST(escalate_attention, multi_head_with_bias) {
    vn_rng_t rng = vn_test_rng(t);
    exact_t x = exact_new();
    int64_t again = 0;
    for (int run = 0; run < 24; ++run) {
        const vn_dtype_t type = types[run % 3];
        const vn_format_t f = vn_format_of(type);
        const bool biased = run / 3 % 2;
        double in[3][B * S * HIDDEN], bias[3 * HIDDEN];
        one_node_t c = {.domain = "com.microsoft",
                        .op = "MultiHeadAttention",
                        .version = 1,
                        .n_in = biased ? 4 : 3,
                        .n_out = 3,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"num_heads", ONE_INT, N, NULL}}};
        fill(&rng, f, bias, 3 * HIDDEN);
        for (int p = 0; p < 3; ++p) {
            fill(&rng, f, in[p], B * S * HIDDEN);
            c.in[p] = twin_tensor(t, type, TWIN_DIMS(B, S, HIDDEN), in[p]);
        }
        if (biased) c.in[3] = twin_tensor(t, type, TWIN_DIMS(3 * HIDDEN), bias);
        for (int p = 0; p < 3; ++p)
            for (int k = 0; k < B * S * HIDDEN; ++k) {
                mpfr_t *to = (p == 0 ? x.q : p == 1 ? x.k : x.v) + at(k / (S * HIDDEN), k % HIDDEN / D, k / HIDDEN % S, k % D);
                mpfr_set_d(*to, in[p][k], MPFR_RNDN);
                if (biased) mpfr_add_d(*to, *to, bias[p * HIDDEN + k % HIDDEN], MPFR_RNDN);
            }
        one_run(t, &c);
        check_results(t, biased ? "with a bias" : "plain", &c, &x, 1, 0, false);
        for (int k = 0; k < B * N * S * D; ++k) /* present keys and values, [B, N, S, D] */
            for (int o = 1; o < 3; ++o)
                check(t, "present", &c.out[o], k, (o == 1 ? x.k : x.v)[at(k / (N * S * D), k / (S * D) % N, k / D % S, k % D)]);
        again += c.out[0].escalated + c.out[1].escalated;
        one_free(&c);
    }
    VN_ASSERT_GT(t, again, 100);
    exact_free(&x);
}

VN_TEST(escalate_attention, group_query_with_rotation_and_cache) {
    enum { KV = 1, T = PAST + S };
    vn_rng_t rng = vn_test_rng(t);
    exact_t x = exact_new();
    mpfr_t p;
    mpfr_init2(p, BITS);
    int64_t again = 0;
    for (int run = 0; run < 24; ++run) {
        const vn_dtype_t type = types[run % 3];
        const vn_format_t f = vn_format_of(type);
        const bool interleaved = run / 3 % 2;
        double q[B * S * HIDDEN], kv[2][B * S * KV * D], past[2][B * KV * PAST * D], turn[2][T * D / 2];
        one_node_t c = {.domain = "com.microsoft",
                        .op = "GroupQueryAttention",
                        .version = 1,
                        .n_in = 9,
                        .n_out = 3,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"num_heads", ONE_INT, N, NULL},
                                  {"kv_num_heads", ONE_INT, KV, NULL},
                                  {"do_rotary", ONE_INT, 1, NULL},
                                  {"rotary_interleaved", ONE_INT, interleaved, NULL}}};
        fill(&rng, f, q, B * S * HIDDEN);
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(B, S, HIDDEN), q);
        for (int k = 0; k < 2; ++k) {
            fill(&rng, f, kv[k], B * S * KV * D);
            fill(&rng, f, past[k], B * KV * PAST * D);
            fill(&rng, f, turn[k], T * D / 2);
            c.in[1 + k] = twin_tensor(t, type, TWIN_DIMS(B, S, KV * D), kv[k]);
            c.in[3 + k] = twin_tensor(t, type, TWIN_DIMS(B, KV, PAST, D), past[k]);
            c.in[7 + k] = twin_tensor(t, type, TWIN_DIMS(T, D / 2), turn[k]);
        }
        c.in[5] = one_ints(t, VN_I32, B, (int64_t[B]){T - 1, T - 1});
        c.in[6] = one_ints(t, VN_I32, 1, (int64_t[1]){T});
        for (int b = 0; b < B; ++b)
            for (int h = 0; h <= N; ++h) /* the last: the keys */
                for (int i = 0; i < S; ++i)
                    for (int d = 0; d < D / 2; ++d) {
                        const int a = interleaved ? 2 * d : d, z = interleaved ? 2 * d + 1 : D / 2 + d;
                        const double *from = h < N ? q + (b * S + i) * HIDDEN + h * D : kv[0] + (b * S + i) * D;
                        const double cs = turn[0][(PAST + i) * D / 2 + d], sn = turn[1][(PAST + i) * D / 2 + d];
                        mpfr_t *to = h < N ? x.q + at(b, h, i, 0) : x.k + at(b, 0, PAST + i, 0);
                        mpfr_set_d(to[a], from[a], MPFR_RNDN);
                        mpfr_mul_d(to[a], to[a], cs, MPFR_RNDN);
                        mpfr_set_d(p, from[z], MPFR_RNDN);
                        mpfr_mul_d(p, p, sn, MPFR_RNDN);
                        mpfr_sub(to[a], to[a], p, MPFR_RNDN);
                        mpfr_set_d(to[z], from[a], MPFR_RNDN);
                        mpfr_mul_d(to[z], to[z], sn, MPFR_RNDN);
                        mpfr_set_d(p, from[z], MPFR_RNDN);
                        mpfr_mul_d(p, p, cs, MPFR_RNDN);
                        mpfr_add(to[z], to[z], p, MPFR_RNDN);
                    }
        for (int b = 0; b < B; ++b)
            for (int j = 0; j < T; ++j)
                for (int d = 0; d < D; ++d) {
                    if (j < PAST) mpfr_set_d(x.k[at(b, 0, j, d)], past[0][(b * PAST + j) * D + d], MPFR_RNDN);
                    mpfr_set_d(x.v[at(b, 0, j, d)], j < PAST ? past[1][(b * PAST + j) * D + d] : kv[1][(b * S + j - PAST) * D + d],
                               MPFR_RNDN);
                }
        one_run(t, &c);
        check_results(t, interleaved ? "interleaved" : "halves", &c, &x, N, PAST, true);
        for (int k = 0; k < B * KV * T * D; ++k)
            for (int o = 1; o < 3; ++o) check(t, "present", &c.out[o], k, (o == 1 ? x.k : x.v)[at(k / (T * D), 0, k / D % T, k % D)]);
        again += c.out[0].escalated + c.out[1].escalated;
        one_free(&c);
    }
    VN_ASSERT_GT(t, again, 100);
    mpfr_clear(p);
    exact_free(&x);
}

/* q, k, v = input (codes less zero point, scaled) times weights, and bias. */
static void projected(exact_t *x, const double *in, const double *w, const double *bias, double scale) {
    mpfr_t p;
    mpfr_init2(p, BITS);
    for (int row = 0; row < B * S; ++row)
        for (int col = 0; col < 3 * HIDDEN; ++col) {
            mpfr_t *to = (col / HIDDEN == 0 ? x->q : col / HIDDEN == 1 ? x->k : x->v) + at(row / S, col % HIDDEN / D, row % S, col % D);
            mpfr_set_zero(*to, 1);
            for (int k = 0; k < IN; ++k) {
                mpfr_set_d(p, in[row * IN + k], MPFR_RNDN);
                mpfr_mul_d(p, p, w[k * 3 * HIDDEN + col], MPFR_RNDN);
                mpfr_add(*to, *to, p, MPFR_RNDN);
            }
            mpfr_mul_d(*to, *to, scale, MPFR_RNDN); /* a product of two f32 numbers: exact in f64 */
            mpfr_add_d(*to, *to, bias[col], MPFR_RNDN);
        }
    mpfr_clear(p);
}

static void check_packed(vn_test_t *t, const char *what, const one_node_t *c, const exact_t *x, int64_t *again) {
    check_results(t, what, c, x, 1, 0, false);
    for (int k = 0; k < 2 * B * N * S * D; ++k) { /* [2, B, N, S, D] */
        const int of = k % (B * N * S * D);
        check(t, "present", &c->out[1], k, (of == k ? x->k : x->v)[at(of / (N * S * D), of / (S * D) % N, of / D % S, of % D)]);
    }
    *again += c->out[0].escalated + c->out[1].escalated;
}

VN_TEST(escalate_attention, projections_inside) {
    vn_rng_t rng = vn_test_rng(t);
    exact_t x = exact_new();
    int64_t again = 0;
    for (int run = 0; run < 12; ++run) {
        const vn_dtype_t type = types[run % 3];
        const vn_format_t f = vn_format_of(type);
        double in[B * S * IN], w[IN * 3 * HIDDEN], bias[3 * HIDDEN];
        one_node_t c = {.domain = "com.microsoft",
                        .op = "Attention",
                        .version = 1,
                        .n_in = 3,
                        .n_out = 2,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"num_heads", ONE_INT, N, NULL}}};
        fill(&rng, f, in, B * S * IN);
        fill(&rng, f, w, IN * 3 * HIDDEN);
        fill(&rng, f, bias, 3 * HIDDEN);
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(B, S, IN), in);
        c.in[1] = twin_tensor(t, type, TWIN_DIMS(IN, 3 * HIDDEN), w);
        c.in[2] = twin_tensor(t, type, TWIN_DIMS(3 * HIDDEN), bias);
        projected(&x, in, w, bias, 1);
        one_run(t, &c);
        check_packed(t, vn_dtype_name(type), &c, &x, &again);
        one_free(&c);
    }
    VN_ASSERT_GT(t, again, 50);
    exact_free(&x);
}

VN_TEST(escalate_attention, projections_of_codes) {
    vn_rng_t rng = vn_test_rng(t);
    exact_t x = exact_new();
    int64_t again = 0;
    for (int run = 0; run < 40; ++run) {
        double in[B * S * IN], w[IN * 3 * HIDDEN], bias[3 * HIDDEN], scale[2];
        one_node_t c = {.domain = "com.microsoft",
                        .op = "QAttention",
                        .version = 1,
                        .n_in = 5,
                        .n_out = 2,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"num_heads", ONE_INT, N, NULL}}};
        for (int k = 0; k < B * S * IN; ++k) in[k] = (double)vn_rng_below(&rng, 256);
        for (int k = 0; k < IN * 3 * HIDDEN; ++k) w[k] = (double)vn_rng_below(&rng, 256) - 128;
        fill(&rng, VN_FMT_F32, bias, 3 * HIDDEN);
        for (int k = 0; k < 2; ++k) scale[k] = (double)(float)(0.01 * (0.5 + vn_rng_uniform(&rng)));
        c.in[0] = twin_tensor(t, VN_U8, TWIN_DIMS(B, S, IN), in);
        c.in[1] = twin_tensor(t, VN_I8, TWIN_DIMS(IN, 3 * HIDDEN), w);
        c.in[2] = twin_tensor(t, VN_F32, TWIN_DIMS(3 * HIDDEN), bias);
        c.in[3] = twin_tensor(t, VN_F32, TWIN_DIMS(1), &scale[0]);
        c.in[4] = twin_tensor(t, VN_F32, TWIN_DIMS(1), &scale[1]);
        projected(&x, in, w, bias, scale[0] * scale[1]);
        one_run(t, &c);
        check_packed(t, "codes", &c, &x, &again);
        one_free(&c);
    }
    exact_free(&x);
}

VN_TEST_MAIN(VN_CASE(escalate_attention, multi_head_with_bias), VN_CASE(escalate_attention, group_query_with_rotation_and_cache),
             VN_CASE(escalate_attention, projections_inside), VN_CASE(escalate_attention, projections_of_codes))
