/* Sharpness: for each class an f32 execution on constructed data that attains the bound, measured by MPFR. Half the constant would be false.
 *
 * The construction: a first term of 1 and n - 1 terms just below half a unit of its last place. A sequential sum loses every one of them, all
 * in the same direction, which is the (n-1) u of the claims; whatever follows the sum (root, quotient, logarithm, weights) inherits it.
 */
#include "twin_case.h"

enum { N = 1000 };
static const double tiny = 0x1.fcp-25;        /* below u */
static const double tiny_root = 0x1.fcp-13;   /* its square is below u */
static const double tiny_logarithm = -16.64f; /* exp of it is below u */
static const char *const contract = "operand=f32,accumulator=f32";

static void lossy(double *x, int64_t n, double first, double rest) {
    for (int64_t i = 0; i < n; ++i) x[i] = i ? rest : first;
}

static float sum32(const float *x, int64_t n) {
    float s = 0;
    for (int64_t i = 0; i < n; ++i) s += x[i];
    return s;
}

/* Factors that each round the running product by nearly +u: the best of many, one after the other. */
static void lossy_factors(vn_rng_t *rng, double *x, int64_t n) {
    float p = 1;
    for (int64_t i = 0; i < n; ++i) {
        double best = -1;
        for (int k = 0; k < 500; ++k) {
            const float c = (float)(0.9 + 0.2 * vn_rng_uniform(rng));
            const double exact = (double)p * c, loss = ((double)(p * c) - exact) / exact;
            if (loss > best) best = loss, x[i] = c;
        }
        p *= (float)x[i];
    }
}

/* ---- reductions ---- */

static float reduce32(tw_reduce_t kind, const double *x, int64_t n) {
    float w[N], p = 1;
    for (int64_t i = 0; i < n; ++i) {
        const float v = (float)x[i];
        w[i] = kind == TW_L1 ? fabsf(v) : kind == TW_L2 || kind == TW_SQUARES ? v * v : kind == TW_LOGSUMEXP ? (float)exp(v) : v;
        p *= v;
    }
    const float s = sum32(w, n);
    switch (kind) {
    case TW_MEAN: return s / (float)n;
    case TW_L2: return sqrtf(s);
    case TW_PROD: return p;
    case TW_LOGSUM:
    case TW_LOGSUMEXP: return (float)log(s); /* the maximum is 0 */
    default: return s;
    }
}

VN_TEST(attained, reductions) {
    static const struct {
        const char *op;
        tw_reduce_t kind;
        const double first, *rest;
        double least;
    } table[] = {
        {"ReduceSum", TW_SUM, 1, &tiny, 0.95},
        {"ReduceMean", TW_MEAN, 1, &tiny, 0.95},
        {"ReduceL1", TW_L1, -1, &tiny, 0.95},
        {"ReduceL2", TW_L2, 1, &tiny_root, 0.95},
        {"ReduceSumSquare", TW_SQUARES, 1, &tiny_root, 0.95},
        {"ReduceLogSum", TW_LOGSUM, 1, &tiny, 0.95},
        {"ReduceLogSumExp", TW_LOGSUMEXP, 0, &tiny_logarithm, 0.9},
        {"ReduceProd", TW_PROD, 0, NULL, 0.7},
    };
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        double x[N];
        const int64_t n = table[k].rest ? N : 24;
        if (table[k].rest) lossy(x, n, table[k].first, *table[k].rest);
        else lossy_factors(&rng, x, n);
        one_node_t c = {.op = table[k].op, .version = 18, .n_in = 2, .contract = contract, .want = VN_WANT_BOUND};
        c.in[0] = one_vector(t, VN_F32, n, x);
        c.in[1] = one_ints(t, VN_I64, 1, (int64_t[]){0});
        one_run(t, &c);
        for (int64_t i = 0; i < n; ++i) x[i] = vn_tensor_get_f64(c.in[0], i);
        tw_reduce(y, table[k].kind, x, n);
        twin_attained(t, table[k].op, &c.out[0], 0, reduce32(table[k].kind, x, n), y, table[k].least);
        one_free(&c);
    }
    mpfr_clear(y);
}

/* ---- products: MatMul, Gemm, Einsum, Conv, ConvTranspose, pooling ---- */

VN_TEST(attained, contractions) {
    static const struct {
        const char *op;
        int version, ra, rb;
        int64_t a[4], b[4];
        const char *equation;
        bool bias;
    } table[] = {
        {"MatMul", 13, 2, 2, {1, N}, {N, 1}, NULL, false},
        {"Gemm", 13, 2, 2, {1, N}, {N, 1}, NULL, true},
        {"Einsum", 12, 2, 2, {1, N}, {N, 1}, "ij,jk->ik", false},
        {"Conv", 22, 4, 4, {1, N, 1, 1}, {1, N, 1, 1}, NULL, true},
        {"ConvTranspose", 22, 4, 4, {1, N, 1, 1}, {N, 1, 1, 1}, NULL, false},
    };
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        double a[N], b[N];
        const double bias = tiny;
        lossy(a, N, 1, tiny_root);
        lossy(b, N, 1, tiny_root);
        one_node_t c = {
            .op = table[k].op, .version = table[k].version, .n_in = table[k].bias ? 3 : 2, .contract = contract, .want = VN_WANT_BOUND};
        if (table[k].equation) c.attrs[0] = (one_attr_t){"equation", ONE_TEXT, 0, table[k].equation};
        c.in[0] = twin_tensor(t, VN_F32, table[k].ra, table[k].a, a);
        c.in[1] = twin_tensor(t, VN_F32, table[k].rb, table[k].b, b);
        if (table[k].bias) c.in[2] = one_vector(t, VN_F32, 1, &bias);
        one_run(t, &c);
        float s = 0;
        for (int i = 0; i < N; ++i) s += (float)a[i] * (float)b[i];
        if (table[k].bias) s += (float)bias;
        mpfr_set_d(y, table[k].bias ? bias : 0, MPFR_RNDN);
        tw_dot(y, a, 1, b, 1, N);
        twin_attained(t, table[k].op, &c.out[0], 0, s, y, 0.95);
        one_free(&c);
    }
    mpfr_clear(y);
}

VN_TEST(attained, pooling) {
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    for (int lp = 0; lp < 2; ++lp) {
        double x[N];
        lossy(x, N, 1, lp ? tiny_root : tiny);
        one_node_t c = {
            .op = lp ? "GlobalLpPool" : "GlobalAveragePool", .version = lp ? 2 : 1, .n_in = 1, .contract = contract, .want = VN_WANT_BOUND};
        c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, 1, N), x);
        one_run(t, &c);
        tw_reduce(y, lp ? TW_L2 : TW_MEAN, x, N);
        twin_attained(t, c.op, &c.out[0], 0, reduce32(lp ? TW_L2 : TW_MEAN, x, N), y, 0.9);
        one_free(&c);
    }
    mpfr_clear(y);
}

/* ---- scans ---- */

VN_TEST(attained, scans) {
    vn_rng_t rng = vn_test_rng(t);
    for (int product = 0; product < 2; ++product) {
        const int64_t n = product ? 24 : N;
        double x[N];
        if (product) lossy_factors(&rng, x, n);
        else lossy(x, n, 1, tiny);
        one_node_t c = {
            .op = product ? "CumProd" : "CumSum", .version = product ? 26 : 14, .n_in = 2, .contract = contract, .want = VN_WANT_BOUND};
        c.in[0] = one_vector(t, VN_F32, n, x);
        c.in[1] = one_scalar(t, VN_I64, 0);
        one_run(t, &c);
        mpfr_t *y = tw_new(n);
        tw_prefix(y, x, n, product, false, false);
        float s = product;
        for (int64_t i = 0; i < n; ++i) {
            s = product ? s * (float)x[i] : s + (float)x[i];
            twin_attained(t, c.op, &c.out[0], i, s, y[i], i == 0 ? 0 : product ? 0.5 : 0.95);
        }
        tw_free(y, n);
        one_free(&c);
    }
}

/* ---- softmax and losses ---- */

VN_TEST(attained, softmax) {
    static const char *const ops[] = {"Softmax", "LogSoftmax", "SoftmaxCrossEntropyLoss"};
    for (int k = 0; k < 3; ++k) {
        double x[N];
        lossy(x, N, 0, tiny_logarithm);
        one_node_t c = {.op = ops[k], .version = 13, .n_in = k == 2 ? 2 : 1, .contract = contract, .want = VN_WANT_BOUND};
        c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, N), x);
        if (k == 2) c.in[1] = one_ints(t, VN_I64, 1, (int64_t[]){0});
        one_run(t, &c);
        mpfr_t *y = tw_new(N);
        tw_load(y, x, N);
        tw_softmax(y, y, N, k > 0);
        if (k == 2) mpfr_neg(y[0], y[0], MPFR_RNDN);
        float w[N];
        for (int i = 0; i < N; ++i) w[i] = (float)exp(x[i]);
        const float l = sum32(w, N), got = k == 0 ? w[0] / l : k == 1 ? 0 - (float)log(l) : (float)log(l);
        twin_attained(t, ops[k], &c.out[0], 0, got, y[0], 0.9);
        tw_free(y, N);
        one_free(&c);
    }
}

VN_TEST(attained, loss_of_many_samples) {
    double x[N];
    lossy(x, N, -1, -tiny);
    for (int mean = 0; mean < 2; ++mean) {
        one_node_t c = {.op = "NegativeLogLikelihoodLoss",
                        .version = 22,
                        .n_in = 2,
                        .contract = contract,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"reduction", ONE_TEXT, 0, mean ? "mean" : "sum"}}};
        c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(N, 1), x);
        c.in[1] = one_tensor(t, VN_I64, 1, (int64_t[]){N});
        one_run(t, &c);
        mpfr_t y;
        mpfr_init2(y, TW_BITS);
        tw_reduce(y, mean ? TW_MEAN : TW_SUM, x, N);
        mpfr_neg(y, y, MPFR_RNDN);
        twin_attained(t, mean ? "NLL, mean" : "NLL, sum", &c.out[0], 0, -reduce32(mean ? TW_MEAN : TW_SUM, x, N), y, 0.9);
        mpfr_clear(y);
        one_free(&c);
    }
}

/* ---- norms ---- */

/* The statistics sum in order; then (x - mean) / sqrt(var + eps). */
static float norm32(const double *x, int64_t n, bool centred, float eps) {
    float w[N], mean = 0;
    for (int64_t i = 0; i < n; ++i) w[i] = (float)x[i];
    if (centred) mean = sum32(w, n) / (float)n;
    for (int64_t i = 0; i < n; ++i) w[i] = ((float)x[i] - mean) * ((float)x[i] - mean);
    return ((float)x[0] - mean) * (1 / sqrtf(sum32(w, n) / (float)n + eps));
}

VN_TEST(attained, norms) {
    static const struct {
        const char *op;
        int version, rank;
        int64_t dims[3];
        bool centred, per_channel;
        const char *groups;
    } table[] = {
        {"LayerNormalization", 17, 2, {1, N}, true, false, NULL},
        {"RMSNormalization", 23, 2, {1, N}, false, false, NULL},
        {"InstanceNormalization", 22, 3, {1, 1, N}, true, true, NULL},
        {"GroupNormalization", 21, 3, {1, 1, N}, true, true, "num_groups"},
    };
    static const float eps = 1e-12f;
    mpfr_t *y = tw_new(N);
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        double x[N], ones[N], zeros[N] = {0};
        for (int i = 0; i < N; ++i) { /* the mean is exactly 0, the squares are 1/2 (rounded up), 1/2, and what is lost */
            x[i] = (i < 2 ? 0x1.6a09e8p-1 : tiny_root) * (i % 2 ? -1 : 1);
            ones[i] = 1;
        }
        if (!table[k].centred) lossy(x, N, 1, tiny_root);
        one_node_t c = {.op = table[k].op,
                        .version = table[k].version,
                        .n_in = table[k].centred ? 3 : 2,
                        .contract = contract,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"epsilon", ONE_FLOAT, eps, NULL}, {table[k].groups, ONE_INT, 1, NULL}}};
        const int64_t channels = table[k].per_channel ? 1 : N;
        c.in[0] = twin_tensor(t, VN_F32, table[k].rank, table[k].dims, x);
        c.in[1] = one_vector(t, VN_F32, channels, ones);
        if (table[k].centred) c.in[2] = one_vector(t, VN_F32, channels, zeros);
        one_run(t, &c);
        tw_normalise(y, x, NULL, NULL, N, (double)eps, table[k].centred);
        twin_attained(t, table[k].op, &c.out[0], 0, norm32(x, N, table[k].centred, eps), y[0], 0.9);
        one_free(&c);
    }
    tw_free(y, N);
}

VN_TEST(attained, vector_norms) {
    double x[N];
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    for (int p = 1; p <= 2; ++p) {
        lossy(x, N, 1, p == 1 ? tiny : tiny_root);
        one_node_t c = {.op = "LpNormalization",
                        .version = 22,
                        .n_in = 1,
                        .contract = contract,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"p", ONE_INT, p, NULL}}};
        c.in[0] = one_vector(t, VN_F32, N, x);
        one_run(t, &c);
        tw_reduce(y, p == 1 ? TW_L1 : TW_L2, x, N);
        mpfr_ui_div(y, 1, y, MPFR_RNDN);
        twin_attained(t, p == 1 ? "LpNormalization 1" : "LpNormalization 2", &c.out[0], 0, 1 / reduce32(p == 1 ? TW_L1 : TW_L2, x, N), y,
                      0.9);
        one_free(&c);
    }
    lossy(x, N, 1, tiny_root); /* local response over all channels; alpha / size = 1, no bias: the sum of squares alone */
    one_node_t c = {.op = "LRN",
                    .version = 13,
                    .n_in = 1,
                    .contract = contract,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"size", ONE_INT, 2 * N - 1, NULL},
                              {"alpha", ONE_FLOAT, 2 * N - 1, NULL},
                              {"beta", ONE_FLOAT, 0.75, NULL},
                              {"bias", ONE_FLOAT, 0, NULL}}};
    c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, N, 1), x);
    one_run(t, &c);
    tw_reduce(y, TW_SQUARES, x, N);
    mpfr_log(y, y, MPFR_RNDN);
    mpfr_mul_d(y, y, -0.75, MPFR_RNDN);
    mpfr_exp(y, y, MPFR_RNDN);
    twin_attained(t, "LRN", &c.out[0], 0, 1 / (float)pow(reduce32(TW_SQUARES, x, N), 0.75), y, 0.9);
    one_free(&c);
    mpfr_clear(y);
}

/* Batch norm counts a handful of roundings: the largest of many random elements. */
VN_TEST(attained, batch_norm) {
    enum { M = 20000 };
    static double x[M];
    static const float eps = 1e-5f;
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t y, s;
    mpfr_inits2(TW_BITS, y, s, (mpfr_ptr)0);
    double worst = 0;
    for (int run = 0; run < 4; ++run) {
        const double p[4] = {(float)vn_rng_normal(&rng), (float)vn_rng_normal(&rng), (float)vn_rng_normal(&rng),
                             (float)fabs(vn_rng_normal(&rng))};
        one_node_t c = {.op = "BatchNormalization", .version = 15, .n_in = 5, .contract = contract, .want = VN_WANT_BOUND};
        for (int i = 0; i < M; ++i) x[i] = (float)(p[2] + (run % 2 ? 0.01 : 1) * vn_rng_normal(&rng));
        c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, 1, M), x);
        for (int k = 0; k < 4; ++k) c.in[1 + k] = one_vector(t, VN_F32, 1, &p[k]);
        one_run(t, &c);
        const float scale = (float)p[0] * (1 / sqrtf((float)p[3] + eps)), root = sqrtf((float)p[3] + eps);
        for (int i = 0; i < M; ++i) {
            const float d = (float)x[i] - (float)p[2], got = i % 2 ? d * scale + (float)p[1] : d / root * (float)p[0] + (float)p[1];
            if (fabs((double)got - c.out[0].value[i]) < 0.999 * worst * c.out[0].bound[i]) continue; /* only what may be the largest */
            mpfr_set_d(s, p[3], MPFR_RNDN);
            mpfr_add_d(s, s, (double)eps, MPFR_RNDN);
            mpfr_sqrt(s, s, MPFR_RNDN);
            mpfr_set_d(y, x[i], MPFR_RNDN);
            mpfr_sub_d(y, y, p[2], MPFR_RNDN);
            mpfr_mul_d(y, y, p[0], MPFR_RNDN);
            mpfr_div(y, y, s, MPFR_RNDN);
            mpfr_add_d(y, y, p[1], MPFR_RNDN);
            worst = fmax(worst, twin_inside(t, "BatchNormalization", &c.out[0], i, got, y));
        }
        one_free(&c);
    }
    VN_ASSERT_GE(t, worst, 0.55);
    mpfr_clears(y, s, (mpfr_ptr)0);
}

/* ---- attention and recurrent steps ---- */

/* The sum of weights and the weighted sum both lose all terms but the first, in opposite directions. */
VN_TEST(attained, attention) {
    static const int64_t one[4] = {1, 1, 1, 1}, many[4] = {1, 1, N, 1};
    const double q[1] = {1};
    double k[N], v[N];
    lossy(k, N, 0, tiny_logarithm);
    lossy(v, N, 1 + 0x1p-22, -0.99f);
    one_node_t c = {
        .op = "Attention", .version = 23, .n_in = 3, .contract = contract, .want = VN_WANT_BOUND, .attrs = {{"scale", ONE_FLOAT, 1, NULL}}};
    c.in[0] = twin_tensor(t, VN_F32, 4, one, q);
    c.in[1] = twin_tensor(t, VN_F32, 4, many, k);
    c.in[2] = twin_tensor(t, VN_F32, 4, many, v);
    for (int i = 0; i < N; ++i) v[i] = vn_tensor_get_f64(c.in[2], i);
    one_run(t, &c);
    float l = 0, o = 0;
    for (int i = 0; i < N; ++i) {
        const float p = (float)exp(k[i]);
        l += p;
        o += p * (float)v[i];
    }
    mpfr_t *y = tw_new(1);
    tw_attend(y, &(tw_query_t){.q = q, .k = k, .v = v, .keys = N, .size = 1, .value_size = 1, .scale = 1});
    twin_attained(t, "Attention", &c.out[0], 0, o / l, y[0], 0.9);
    tw_free(y, 1);
    one_free(&c);
}

/* One step, one unit, N inputs; gates other than the candidate are pinned by their bias. */
VN_TEST(attained, recurrent_steps) {
    static const struct {
        const char *op;
        int gates, candidate;
        double bias[4];
    } table[] = {{"RNN", 1, 0, {0}}, {"GRU", 3, 2, {-20, 0, 0}}, {"LSTM", 4, 3, {20, 20, -20, 0}}};
    mpfr_t y, z;
    mpfr_inits2(TW_BITS, y, z, (mpfr_ptr)0);
    for (int k = 0; k < 3; ++k) {
        const int64_t G = table[k].gates;
        double x[N], w[4 * N] = {0}, r[4] = {0}, b[8] = {0};
        lossy(x, N, 0x1p-5, tiny * 0x1p-5);
        for (int i = 0; i < N; ++i) w[table[k].candidate * N + i] = 1;
        for (int g = 0; g < G; ++g) b[g] = table[k].bias[g];
        one_node_t c = {.op = table[k].op,
                        .version = 22,
                        .n_in = 4,
                        .contract = contract,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"hidden_size", ONE_INT, 1, NULL}}};
        c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, 1, N), x);
        c.in[1] = twin_tensor(t, VN_F32, TWIN_DIMS(1, G, N), w);
        c.in[2] = twin_tensor(t, VN_F32, TWIN_DIMS(1, G, 1), r);
        c.in[3] = twin_tensor(t, VN_F32, TWIN_DIMS(1, 2 * G), b);
        one_run(t, &c);
        float s = 0;
        for (int i = 0; i < N; ++i) s += (float)x[i];
        const float gate = (float)(1 / (1 + exp(-20.0))), shut = (float)(1 / (1 + exp(20.0))), g = (float)tanh(s);
        const float got = k == 0 ? g : k == 1 ? (1 - shut) * g : gate * (float)tanh((double)(gate * g));
        tw_reduce(y, TW_SUM, x, N);
        mpfr_tanh(y, y, MPFR_RNDN);
        mpfr_set_d(z, 20, MPFR_RNDN);
        tw_function("Sigmoid", NULL)->exact(z, z, NULL);
        if (k > 0) mpfr_mul(y, y, z, MPFR_RNDN); /* 1 - sigmoid(-20) = sigmoid(20) */
        if (k == 2) {
            mpfr_tanh(y, y, MPFR_RNDN);
            mpfr_mul(y, y, z, MPFR_RNDN);
        }
        twin_attained(t, table[k].op, &c.out[0], 0, got, y, k == 0 ? 0.9 : 0.5);
        one_free(&c);
    }
    mpfr_clears(y, z, (mpfr_ptr)0);
}

/* ---- spectra: the zero frequency of a long signal ---- */

VN_TEST(attained, spectra) {
    enum { LONG = 1 << 17 };
    double *x = vn_alloc(LONG, sizeof *x);
    float s = 0;
    VN_ASSERT(t, x != NULL);
    lossy(x, LONG, 1, tiny);
    one_node_t c = {.op = "DFT", .version = 20, .n_in = 1, .contract = contract, .want = VN_WANT_BOUND};
    c.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, LONG, 1), x);
    one_run(t, &c);
    for (int i = 0; i < LONG; ++i) s += (float)x[i];
    mpfr_t y;
    mpfr_init2(y, TW_BITS);
    tw_reduce(y, TW_SUM, x, LONG);
    twin_attained(t, "DFT", &c.out[0], 0, s, y, 0.5);
    mpfr_clear(y);
    one_free(&c);
    vn_free(x);
}

/* ---- interpolation: alternating samples of a long line, where an error of the coordinate shows most ---- */

static float tap32(const double *x, int64_t n, float k) { return (float)x[k < 0 ? 0 : k >= (float)n ? n - 1 : (int64_t)k]; }
static float cubic32(float d) {
    const float a = -0.75f;
    d = fabsf(d);
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}
static float interpolate32(const double *x, int64_t n, float c, bool cubic) {
    const float k = floorf(c), f = c - k;
    float y = 0;
    if (!cubic) return tap32(x, n, k) * (1 - f) + tap32(x, n, k + 1) * f;
    for (int i = -1; i <= 2; ++i) y += tap32(x, n, k + (float)i) * cubic32(f - (float)i);
    return y;
}

/* The same from an exact coordinate. */
static void interpolate(mpfr_t y, const double *x, int64_t n, const mpfr_t c, bool cubic) {
    mpfr_t f, d, w;
    mpfr_inits2(TW_BITS, f, d, w, (mpfr_ptr)0);
    mpfr_floor(f, c);
    const int64_t k = mpfr_get_si(f, MPFR_RNDN);
    mpfr_sub(f, c, f, MPFR_RNDN);
    mpfr_set_zero(y, 1);
    for (int i = cubic ? -1 : 0; i <= (cubic ? 2 : 1); ++i) {
        mpfr_sub_si(d, f, i, MPFR_RNDN);
        mpfr_abs(d, d, MPFR_RNDN);
        if (!cubic) {
            mpfr_ui_sub(w, 1, d, MPFR_RNDN);
        } else {
            const double inner[4] = {1.25, -2.25, 0, 1}, outer[4] = {-0.75, 3.75, -6, 3};
            const double *p = mpfr_cmp_ui(d, 1) <= 0 ? inner : outer;
            mpfr_set_d(w, p[0], MPFR_RNDN);
            for (int q = 1; q < 4; ++q) {
                mpfr_mul(w, w, d, MPFR_RNDN);
                mpfr_add_d(w, w, p[q], MPFR_RNDN);
            }
        }
        const int64_t at = k + i < 0 ? 0 : k + i >= n ? n - 1 : k + i;
        mpfr_mul_d(w, w, x[at], MPFR_RNDN);
        mpfr_add(y, y, w, MPFR_RNDN);
    }
    mpfr_clears(f, d, w, (mpfr_ptr)0);
}

/* form: 0 linear resize, 1 cubic resize, 2 linear grid sample. Returns the largest share seen. */
static double interpolated(vn_test_t *t, vn_rng_t *rng, int form) {
    enum { MOST = 3000 };
    static double x[MOST], g[2 * MOST];
    double worst = 0;
    mpfr_t y, c;
    mpfr_inits2(TW_BITS, y, c, (mpfr_ptr)0);
    for (int run = 0; run < 12; ++run) {
        const int64_t n = 1000 + (int64_t)vn_rng_below(rng, MOST - 1000), m = 1000 + (int64_t)vn_rng_below(rng, MOST - 1000);
        one_node_t e = {
            .op = form == 2 ? "GridSample" : "Resize", .version = form == 2 ? 20 : 19, .contract = contract, .want = VN_WANT_BOUND};
        for (int64_t i = 0; i < n; ++i) x[i] = i % 2 ? 1 : -1;
        for (int64_t i = 0; i < m; ++i) g[2 * i] = (float)vn_rng_uniform(rng) * 0.99f, g[2 * i + 1] = 0;
        e.attrs[0] = (one_attr_t){"mode", ONE_TEXT, 0, form == 1 ? "cubic" : "linear"};
        if (form == 2) {
            e.n_in = 2;
            e.in[0] = twin_tensor(t, VN_F32, TWIN_DIMS(1, 1, 1, n), x);
            e.in[1] = twin_tensor(t, VN_F32, TWIN_DIMS(1, 1, m, 2), g);
        } else {
            e.n_in = 4;
            e.in[0] = one_vector(t, VN_F32, n, x);
            e.in[3] = one_ints(t, VN_I64, 1, &m);
        }
        one_run(t, &e);
        const float scale = (float)m / (float)n;
        for (int64_t i = 0; i < m; ++i) {
            const float at = form == 2 ? (((float)g[2 * i] + 1) * (float)n - 1) / 2 : ((float)i + 0.5f) / scale - 0.5f;
            const float got = interpolate32(x, n, at, form == 1);
            if (fabs((double)got - e.out[0].value[i]) < 0.999 * worst * e.out[0].bound[i]) continue;
            mpfr_set_d(c, form == 2 ? g[2 * i] : (double)i + 0.5, MPFR_RNDN);
            if (form == 2) mpfr_add_ui(c, c, 1, MPFR_RNDN);
            mpfr_mul_si(c, c, (long)n, MPFR_RNDN);
            if (form == 2) mpfr_div_ui(c, c, 2, MPFR_RNDN);
            else mpfr_div_si(c, c, (long)m, MPFR_RNDN);
            mpfr_sub_d(c, c, 0.5, MPFR_RNDN);
            interpolate(y, x, n, c, form == 1);
            twin_value(t, e.op, &e.out[0], i, y);
            worst = fmax(worst, twin_inside(t, e.op, &e.out[0], i, got, y));
        }
        one_free(&e);
    }
    mpfr_clears(y, c, (mpfr_ptr)0);
    return worst;
}

VN_TEST(attained, interpolation) {
    vn_rng_t rng = vn_test_rng(t);
    VN_ASSERT_GE(t, interpolated(t, &rng, 0), 0.5);
    VN_ASSERT_GE(t, interpolated(t, &rng, 1), 0.3);
    VN_ASSERT_GE(t, interpolated(t, &rng, 2), 0.3);
}

VN_TEST_MAIN(VN_CASE(attained, reductions), VN_CASE(attained, contractions), VN_CASE(attained, pooling), VN_CASE(attained, scans),
             VN_CASE(attained, softmax), VN_CASE(attained, loss_of_many_samples), VN_CASE(attained, norms), VN_CASE(attained, vector_norms),
             VN_CASE(attained, batch_norm), VN_CASE(attained, attention), VN_CASE(attained, recurrent_steps), VN_CASE(attained, spectra),
             VN_CASE(attained, interpolation))
