/* Sums inside softmax, logsumexp and norms, read off simulated kernels that are plain loops. Claims REVEAL-9 to REVEAL-14. */
#include <math.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

typedef enum order { CHAIN, REVERSED, LANES4, BLOCKS8, PAIRWISE, WIDE } order_t;

/* square: terms are squares, fused onto the running sum if `fused`. fickle: the order is another one for rows without large numbers. */
typedef struct kernel {
    order_t order, mean_order;
    bool fused, own_exp, division, online, one_pass, welford, wide_mean, share, apart, plain_log, fickle;
    float epsilon;
    vn_sum_kind_t kind;
} kernel_t;

typedef struct terms {
    const float *x;
    bool square, fused;
} terms_t;
static float first(const terms_t *t, int k) { return t->square ? t->x[k] * t->x[k] : t->x[k]; }
static float step(const terms_t *t, float acc, int k) {
    if (t->fused) return fmaf(t->x[k], t->x[k], acc);
    const float term = first(t, k);
    return acc + term;
}
static float chain(const terms_t *t, int from, int end, int stride) {
    float acc = first(t, from);
    for (int k = from + stride; k < end; k += stride) acc = step(t, acc, k);
    return acc;
}
static float pairwise(const terms_t *t, int from, int n) {
    return n == 1 ? first(t, from) : pairwise(t, from, n / 2) + pairwise(t, from + n / 2, n - n / 2);
}
static float sum_of(order_t o, const terms_t *t, int n) {
    float lane[4], acc;
    double wide = 0;
    switch (o) {
    case REVERSED:
        acc = first(t, n - 1);
        for (int k = n - 2; k >= 0; --k) acc = step(t, acc, k);
        return acc;
    case LANES4:
        for (int l = 0; l < 4; ++l) lane[l] = chain(t, l, n, 4);
        return (lane[0] + lane[1]) + (lane[2] + lane[3]);
    case BLOCKS8:
        acc = chain(t, 0, n < 8 ? n : 8, 1);
        for (int k = 8; k < n; k += 8) acc = acc + chain(t, k, n < k + 8 ? n : k + 8, 1);
        return acc;
    case PAIRWISE: return pairwise(t, 0, n);
    case WIDE:
        for (int k = 0; k < n; ++k) wide += t->square ? (double)t->x[k] * t->x[k] : t->x[k];
        return (float)wide;
    default: return chain(t, 0, n, 1);
    }
}

/* An exp of its own: up to three ulp off, by the bits of its argument. */
static float own_exp(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const float e = expf(x);
    if (x == 0 || e == 0) return e;
    return e * (1 + (float)(int)((bits * 2654435761u) >> 30) * 0x1p-23F);
}
static float exp_of(const kernel_t *k, float x) { return k->own_exp ? own_exp(x) : expf(x); }

static void exponentials(const kernel_t *k, const float *x, int n, float *y) {
    float e[512], most = x[0], sum;
    order_t order = k->order;
    bool questions = false;
    for (int c = 1; c < n; ++c) most = x[c] > most ? x[c] : most;
    for (int c = 0; c < n; ++c) {
        e[c] = exp_of(k, x[c] - most);
        questions |= x[c] < -100;
    }
    if (k->fickle && !questions) order = REVERSED;
    const terms_t t = {.x = e};
    if (k->online) { /* the sum so far is scaled when a larger term comes */
        float top = x[0];
        sum = 1;
        for (int c = 1; c < n; ++c) {
            const float larger = x[c] > top ? x[c] : top;
            sum = sum * exp_of(k, top - larger) + exp_of(k, x[c] - larger);
            top = larger;
        }
    } else {
        sum = sum_of(order, &t, n);
    }
    if (k->kind == VN_SUM_LOG_SUM_EXP) *y = logf(sum) + most;
    else
        for (int c = 0; c < n; ++c) y[c] = k->division ? e[c] / sum : e[c] * (1 / sum);
}

static void norm(const kernel_t *k, const float *x, const float *w, const float *b, int n, float *y) {
    float d[512], mean = 0, large = 0, v;
    const float share = 1 / (float)n;
    order_t order = k->order;
    const terms_t plain = {.x = x}, squares = {.x = k->one_pass ? x : d, .square = true, .fused = k->fused};
    for (int c = 0; c < n; ++c) large = fmaxf(large, fabsf(x[c]));
    if (k->fickle && large < 100) order = REVERSED;
    if (b && k->wide_mean) {
        double total = 0;
        for (int c = 0; c < n; ++c) total += x[c];
        mean = (float)(total / n);
    } else if (b) {
        mean = sum_of(k->mean_order, &plain, n);
        mean = k->share ? mean * share : mean / (float)n;
    }
    for (int c = 0; c < n; ++c) d[c] = x[c] - mean;
    if (k->welford) {
        float m = x[0], s = 0;
        for (int c = 1; c < n; ++c) {
            const float delta = x[c] - m;
            m = m + delta / (float)(c + 1);
            s = s + delta * (x[c] - m);
        }
        v = s / (float)n;
    } else {
        const float sum = sum_of(order, &squares, n);
        v = k->share ? sum * share : sum / (float)n;
        if (k->one_pass) v = v - mean * mean;
    }
    const float root = sqrtf(v + k->epsilon), inverse = 1 / root;
    for (int c = 0; c < n; ++c) {
        const float scaled = k->division ? d[c] / root : d[c] * inverse, product = scaled * w[c];
        y[c] = !b ? product : k->apart ? product + b[c] : fmaf(scaled, w[c], b[c]);
    }
}

static vn_status_t run(void *context, const vn_tensor_t *const *in, vn_tensor_t **out, vn_error_t *err) {
    const kernel_t *k = context;
    const int64_t m = in[0]->dims[0], n = in[0]->dims[1];
    const bool one = k->kind == VN_SUM_LOG_SUM_EXP;
    VN_TRY(vn_tensor_new(VN_F32, one ? 1 : 2, in[0]->dims, out, err));
    for (int64_t r = 0; r < m; ++r) {
        const float *x = (const float *)in[0]->data + r * n;
        float *y = (float *)(*out)->data + (one ? r : r * n);
        if (one || k->kind == VN_SUM_SOFTMAX) exponentials(k, x, (int)n, y);
        else norm(k, x, in[1]->data, k->kind == VN_SUM_LAYER_NORM ? in[2]->data : NULL, (int)n, y);
    }
    return VN_OK;
}

static vn_schedule_t *read_off(vn_test_t *t, kernel_t *k, int64_t m, int64_t n) {
    k->epsilon = 1e-5F;
    const vn_call_t call = {.run = run, .context = k};
    const vn_sum_op_t op = {.kind = k->kind, .dtype = VN_F32, .m = m, .n = n, .epsilon = 1e-5F};
    const vn_reveal_options_t o = {.seed = t->seed};
    vn_schedule_t *s;
    vn_error_t err = {0};
    if (vn_reveal(&call, &op, &o, &s, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s", err.text);
    return s;
}

/* Tree, form and coverage 1. mean: of layer norms. */
static void expect(vn_test_t *t, kernel_t k, int64_t m, int64_t n, const char *text, const char *mean, const char *form) {
    vn_schedule_t *s = read_off(t, &k, m, n);
    const char *got = s->classes[0].text ? s->classes[0].text : "no tree", *got_mean = s->classes[0].mean_text;
    if (s->n_classes != 1 || strcmp(got, text) != 0 || s->replayed != s->elements || s->elements == 0 || *s->reason ||
        s->arithmetic.fma != k.fused || strcmp(s->form, form) != 0 || strlen(s->sha256) != 64)
        vn_test_fail(t, __FILE__, __LINE__,
                     "seed %llu, kind %d, order %d: '%s' is due, '%s' came; '%s' is due, '%s' came; %lld of %lld; %s; %s %s",
                     (unsigned long long)t->seed, (int)k.kind, (int)k.order, text, got, form, s->form, (long long)s->replayed,
                     (long long)s->elements, s->arithmetic_text, s->reason, s->classes[0].violation.what);
    if (mean && (!got_mean || strcmp(got_mean, mean) != 0))
        vn_test_fail(t, __FILE__, __LINE__, "mean of order %d: '%s' is due, '%s' came", (int)k.mean_order, mean,
                     got_mean ? got_mean : "none");
    if (mean) VN_ASSERT_EQ(t, s->mean_arithmetic.accumulator, k.wide_mean ? VN_FMT_F64 : VN_FMT_F32);
    VN_ASSERT(t, mean != NULL || got_mean == NULL);
    vn_schedule_free(s);
}

#define K(...) ((kernel_t){__VA_ARGS__})
static const char few_lanes[] = "12|0+3*4+4*1|U", lanes[] = "40|0+10*4+4*1|A<10{S}", blocks[] = "40||S<8{S}", halves[] = "40||H";

VN_TEST(norms, softmax) {
    const char *const product = "y = e*(1/S)", *const quotient = "y = e/S";
    expect(t, K(.kind = VN_SUM_SOFTMAX, .order = CHAIN), 32, 40, "40||S", NULL, product);
    expect(t, K(.kind = VN_SUM_SOFTMAX, .order = LANES4, .own_exp = true), 32, 40, lanes, NULL, product);
    expect(t, K(.kind = VN_SUM_SOFTMAX, .order = BLOCKS8, .own_exp = true, .division = true), 32, 40, blocks, NULL, quotient);
    expect(t, K(.kind = VN_SUM_SOFTMAX, .order = PAIRWISE, .division = true), 32, 40, halves, NULL, quotient);
    expect(t, K(.kind = VN_SUM_SOFTMAX, .order = REVERSED, .own_exp = true), 16, 3, "3||H", NULL, product);
}

VN_TEST(norms, log_sum_exp) {
    const char *const form = "y = log(S) + max";
    expect(t, K(.kind = VN_SUM_LOG_SUM_EXP, .order = CHAIN), 64, 12, "12||S", NULL, form);
    expect(t, K(.kind = VN_SUM_LOG_SUM_EXP, .order = LANES4), 64, 12, few_lanes, NULL, form);
    expect(t, K(.kind = VN_SUM_LOG_SUM_EXP, .order = PAIRWISE), 64, 12, "12||H", NULL, form);
    /* an exp that is none of the known ones: the order is read, and the replay says what differs */
    kernel_t own = {.kind = VN_SUM_LOG_SUM_EXP, .order = LANES4, .own_exp = true};
    vn_schedule_t *s = read_off(t, &own, 64, 12);
    VN_ASSERT(t, s->classes[0].text && strcmp(s->classes[0].text, few_lanes) == 0);
    VN_ASSERT(t, s->replayed < s->elements && strstr(s->reason, "differ from the replay"));
    vn_schedule_free(s);
}

VN_TEST(norms, rms) {
    const char *const form = "v = S/n + eps; r = 1/sqrt(v); y = (d*r)*w";
    expect(t, K(.kind = VN_SUM_RMS_NORM, .order = CHAIN), 32, 40, "40||S", NULL, form);
    expect(t, K(.kind = VN_SUM_RMS_NORM, .order = LANES4, .fused = true), 32, 40, lanes, NULL, form);
    expect(t, K(.kind = VN_SUM_RMS_NORM, .order = BLOCKS8, .fused = true, .share = true), 32, 40, blocks, NULL,
           "v = S*(1/n) + eps; r = 1/sqrt(v); y = (d*r)*w");
    expect(t, K(.kind = VN_SUM_RMS_NORM, .order = PAIRWISE, .division = true), 32, 40, halves, NULL, "v = S/n + eps; y = (d/sqrt(v))*w");
    expect(t, K(.kind = VN_SUM_RMS_NORM, .order = CHAIN), 4, 1, "1||.", NULL, form);
}

VN_TEST(norms, layer) {
    expect(t, K(.kind = VN_SUM_LAYER_NORM, .order = CHAIN, .mean_order = LANES4), 32, 40, "40||S", lanes,
           "mean = T/n; d = x - mean; v = S/n + eps; r = 1/sqrt(v); y = fma(d*r, w, b)");
    expect(t, K(.kind = VN_SUM_LAYER_NORM, .order = LANES4, .mean_order = BLOCKS8, .fused = true, .share = true, .apart = true), 32, 40,
           lanes, blocks, "mean = T*(1/n); d = x - mean; v = S*(1/n) + eps; r = 1/sqrt(v); y = (d*r)*w + b");
    expect(t, K(.kind = VN_SUM_LAYER_NORM, .order = PAIRWISE, .mean_order = CHAIN, .wide_mean = true, .division = true, .apart = true), 32,
           40, halves, "40||S", "mean = T/n in f64, rounded; d = x - mean; v = S/n + eps; y = (d/sqrt(v))*w + b");
    expect(t, K(.kind = VN_SUM_LAYER_NORM, .order = BLOCKS8, .mean_order = PAIRWISE, .one_pass = true), 32, 40, blocks, halves,
           "mean = T/n; d = x - mean; v less mean^2: one pass; v = S/n + eps; r = 1/sqrt(v); y = fma(d*r, w, b)");
    expect(t, K(.kind = VN_SUM_LAYER_NORM, .order = LANES4, .mean_order = CHAIN, .fused = true), 9, 8, "8|0+2*4+4*1|A", "8||S",
           "mean = T/n; d = x - mean; v = S/n + eps; r = 1/sqrt(v); y = fma(d*r, w, b)");
}

/* What is something else is not forced into a tree, or is read and fails its replay. */
VN_TEST(norms, others) {
    static const struct {
        kernel_t kernel;
        bool tree;
    } rows[] = {
        {{.kind = VN_SUM_SOFTMAX, .order = CHAIN, .online = true}, true},
        {{.kind = VN_SUM_SOFTMAX, .order = LANES4, .fickle = true}, true},
        {{.kind = VN_SUM_SOFTMAX, .order = WIDE}, false},
        {{.kind = VN_SUM_LOG_SUM_EXP, .order = LANES4, .fickle = true}, true},
        {{.kind = VN_SUM_LOG_SUM_EXP, .order = WIDE}, false},
        {{.kind = VN_SUM_RMS_NORM, .order = LANES4, .fickle = true}, true},
        {{.kind = VN_SUM_RMS_NORM, .order = WIDE}, false},
        {{.kind = VN_SUM_LAYER_NORM, .order = LANES4, .fickle = true}, true},
        {{.kind = VN_SUM_LAYER_NORM, .order = WIDE}, false},
        {{.kind = VN_SUM_LAYER_NORM, .welford = true}, false},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        kernel_t kernel = rows[k].kernel;
        vn_schedule_t *s = read_off(t, &kernel, 32, 40);
        if ((s->replayed == s->elements && s->elements > 0) || !*s->reason || (s->classes[0].tree != NULL) != rows[k].tree ||
            (*s->sha256 != '\0') != rows[k].tree)
            vn_test_fail(t, __FILE__, __LINE__, "row %zu: %lld of %lld, '%s', %s", k, (long long)s->replayed, (long long)s->elements,
                         s->classes[0].text ? s->classes[0].text : "no tree", s->reason);
        vn_schedule_free(s);
    }
}

VN_TEST(norms, limits) {
    kernel_t k = {.kind = VN_SUM_LAYER_NORM};
    const vn_call_t call = {.run = run, .context = &k};
    const vn_sum_op_t few = {.kind = VN_SUM_LAYER_NORM, .dtype = VN_F32, .m = 2, .n = 7},
                      half = {.kind = VN_SUM_SOFTMAX, .dtype = VN_F16, .m = 2, .n = 8},
                      two = {.kind = VN_SUM_SOFTMAX, .dtype = VN_F32, .m = 2, .n = 2}, none = {.kind = VN_SUM_RMS_NORM, .dtype = VN_F32};
    vn_schedule_t *s;
    vn_error_t err = {0};
    VN_ASSERT(t, vn_reveal(&call, &few, NULL, &s, &err) == VN_ERR_UNSUPPORTED && !s && strstr(err.text, "8 terms"));
    VN_ASSERT(t, vn_reveal(&call, &half, NULL, &s, &err) == VN_ERR_UNSUPPORTED && strstr(err.text, "f16"));
    VN_ASSERT(t, vn_reveal(&call, &two, NULL, &s, &err) == VN_ERR_UNSUPPORTED && strstr(err.text, "3 terms"));
    VN_ASSERT(t, vn_reveal(&call, &none, NULL, &s, &err) == VN_ERR_RANGE && !s);
}

VN_TEST_MAIN(VN_CASE(norms, softmax), VN_CASE(norms, log_sum_exp), VN_CASE(norms, rms), VN_CASE(norms, layer), VN_CASE(norms, others),
             VN_CASE(norms, limits))
