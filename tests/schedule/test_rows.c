/* Sums of rows read off simulated kernels: plain sums, means, sums of squares, scans. Claims REVEAL-1, REVEAL-6, REVEAL-7. The kernels are plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

typedef enum order { CHAIN, REVERSED, LANES4, BLOCKS8, PAIRWISE, FUSED_BODY, WIDE } order_t;

typedef struct kernel {
    order_t order;
    bool square, root, mean, reciprocal, flush, racing;
    int64_t calls;
} kernel_t;

static float flushed(const kernel_t *k, float x) { return k->flush && fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

/* One term onto a running sum. */
static float step(const kernel_t *k, float acc, float x, bool fused) {
    if (!k->square) return flushed(k, acc + flushed(k, x));
    if (fused) return fmaf(x, x, acc);
    const float p = x * x;
    return acc + p;
}
static float term(const kernel_t *k, float x) { return k->square ? x * x : flushed(k, x); }

static float pairwise(const kernel_t *k, const float *x, int n) {
    if (n == 1) return term(k, x[0]);
    return pairwise(k, x, n / 2) + pairwise(k, x + n / 2, n - n / 2);
}

static float chain(const kernel_t *k, const float *x, int n, int stride, int fused) {
    float acc = term(k, x[0]);
    int at = 1;
    for (int i = stride; i < n; i += stride, ++at) acc = step(k, acc, x[i], at < fused);
    return acc;
}

static float sum(const kernel_t *k, const float *x, int n) {
    float lane[4], acc;
    switch (k->order) {
    case REVERSED:
        acc = term(k, x[n - 1]);
        for (int i = n - 2; i >= 0; --i) acc = step(k, acc, x[i], false);
        return acc;
    case LANES4:
        for (int l = 0; l < 4; ++l) lane[l] = chain(k, x + l, n - l, 4, 0);
        return (lane[0] + lane[1]) + (lane[2] + lane[3]);
    case BLOCKS8:
        acc = chain(k, x, n < 8 ? n : 8, 1, 0);
        for (int i = 8; i < n; i += 8) acc = acc + chain(k, x + i, n - i < 8 ? n - i : 8, 1, 0);
        return acc;
    case PAIRWISE: return pairwise(k, x, n);
    case FUSED_BODY: return chain(k, x, n, 1, n - 3); /* the last terms are multiplied, then added */
    case WIDE: {
        double wide = 0;
        for (int i = 0; i < n; ++i) wide += (double)x[i] * (k->square ? (double)x[i] : 1);
        return (float)wide;
    }
    default: return chain(k, x, n, 1, 0);
    }
}

static vn_status_t run(void *context, const vn_tensor_t *const *inputs, vn_tensor_t **output, vn_error_t *err) {
    kernel_t *k = context;
    const vn_tensor_t *x = inputs[0];
    const int64_t m = x->dims[0], n = x->dims[1];
    const vn_status_t st = vn_tensor_new(VN_F32, 1, &m, output, err);
    k->calls++;
    for (int64_t r = 0; r < m && st == VN_OK; ++r) {
        kernel_t now = *k;
        if (k->racing && k->calls % 2) now.order = REVERSED;
        float s = sum(&now, (const float *)x->data + r * n, (int)n);
        if (k->root) s = sqrtf(s);
        if (k->mean) s = k->reciprocal ? s * (1.0f / (float)n) : s / (float)n;
        ((float *)(*output)->data)[r] = s;
    }
    return st;
}

static vn_schedule_t *read_off(vn_test_t *t, kernel_t *k, vn_sum_kind_t kind, int64_t m, int64_t n) {
    const vn_call_t call = {.run = run, .context = k};
    const vn_sum_op_t op = {.kind = kind, .dtype = VN_F32, .m = m, .n = n};
    const vn_reveal_options_t o = {.seed = t->seed};
    vn_schedule_t *s;
    vn_error_t err = {0};
    if (vn_reveal(&call, &op, &o, &s, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s", err.text);
    return s;
}

static void expect(vn_test_t *t, kernel_t k, vn_sum_kind_t kind, int64_t m, int64_t n, const char *text, bool fma_used) {
    vn_schedule_t *s = read_off(t, &k, kind, m, n);
    if (s->n_classes != 1 || !s->classes[0].text || strcmp(s->classes[0].text, text) != 0 || s->replayed != s->elements ||
        s->arithmetic.fma != fma_used)
        vn_test_fail(t, __FILE__, __LINE__, "order %d: '%s' instead of '%s', %s, %lld of %lld replayed: %s", (int)k.order,
                     s->n_classes ? s->classes[0].text : "", text, s->arithmetic_text, (long long)s->replayed, (long long)s->elements,
                     s->reason);
    VN_ASSERT(t, strlen(s->sha256) == 64);
    vn_schedule_free(s);
}

VN_TEST(rows, plain_sums) {
    expect(t, (kernel_t){.order = CHAIN}, VN_SUM_REDUCE_SUM, 20, 37, "37||S", false);
    expect(t, (kernel_t){.order = REVERSED}, VN_SUM_REDUCE_SUM, 20, 37, "37||R", false);
    expect(t, (kernel_t){.order = LANES4}, VN_SUM_REDUCE_SUM, 20, 64, "64|0+16*4+4*1|A<16{S}", false);
    expect(t, (kernel_t){.order = BLOCKS8}, VN_SUM_REDUCE_SUM, 1, 40, "40||S<8{S}", false);
    expect(t, (kernel_t){.order = PAIRWISE}, VN_SUM_REDUCE_SUM, 33, 100, "100||H", false);
    expect(t, (kernel_t){.order = CHAIN, .mean = true}, VN_SUM_REDUCE_MEAN, 20, 37, "37||S", false);
    expect(t, (kernel_t){.order = LANES4, .mean = true, .reciprocal = true}, VN_SUM_REDUCE_MEAN, 20, 100, "100|0+25*4+4*1|A<25{S}", false);
    expect(t, (kernel_t){.order = CHAIN, .flush = true}, VN_SUM_REDUCE_SUM, 20, 12, "12||S", false);
    expect(t, (kernel_t){.order = CHAIN}, VN_SUM_REDUCE_SUM, 3, 1, "1||.", false);
}

VN_TEST(rows, squares) {
    expect(t, (kernel_t){.order = CHAIN, .square = true}, VN_SUM_SQUARE, 20, 37, "37||S", false);
    expect(t, (kernel_t){.order = LANES4, .square = true}, VN_SUM_SQUARE, 64, 64, "64|0+16*4+4*1|A<16{S}", false);
    expect(t, (kernel_t){.order = PAIRWISE, .square = true, .root = true}, VN_SUM_L2, 50, 80, "80||H", false);
    expect(t, (kernel_t){.order = BLOCKS8, .square = true, .root = true}, VN_SUM_L2, 50, 40, "40||S<8{S}", false);
    /* a fused body and a tail of rounded squares: the marks are read leaf by leaf */
    expect(t, (kernel_t){.order = FUSED_BODY, .square = true}, VN_SUM_SQUARE, 50, 20, "20||S[17:S,3*1:P]", true);
    expect(t, (kernel_t){.order = FUSED_BODY, .square = true, .root = true}, VN_SUM_L2, 50, 20, "20||S[17:S,3*1:P]", true);
}

/* ---- scans ---- */

/* kind 0: in order; 1: blocks of 16, totals in order, block prefix first; 2: the second half is summed again from the end of the first (no rule). */
static vn_status_t run_scan(void *context, const vn_tensor_t *const *inputs, vn_tensor_t **output, vn_error_t *err) {
    const int kind = *(const int *)context;
    const vn_tensor_t *x = inputs[0];
    const int64_t m = x->dims[0], n = x->dims[1];
    VN_TRY(vn_tensor_new(VN_F32, 2, x->dims, output, err));
    for (int64_t r = 0; r < m; ++r) {
        const float *v = (const float *)x->data + r * n;
        float *y = (float *)(*output)->data + r * n;
        for (int64_t k = 0; k < n; ++k) {
            if (kind == 0) y[k] = k ? y[k - 1] + v[k] : v[k];
            if (kind == 2) y[k] = k == 0 ? v[0] : k < n / 2 ? y[k - 1] + v[k] : y[n / 2 - 1] + (v[k] + (k > n / 2 ? v[k - 1] : 0));
        }
        if (kind == 1) { /* at most 256 terms: the totals are few, and so in order */
            float total = 0;
            for (int64_t b = 0; b < n; b += 16) {
                float s = v[b];
                for (int64_t k = b; k < n && k < b + 16; ++k) {
                    if (k > b) s = s + v[k];
                    y[k] = b ? total + s : s;
                }
                total = b ? total + s : s;
            }
        }
    }
    return VN_OK;
}

VN_TEST(rows, scans) {
    static const char *const texts[] = {"200||S", "200||S<16{S}"};
    for (int kind = 0; kind < 3; ++kind) {
        const vn_call_t call = {.run = run_scan, .context = &kind};
        const vn_sum_op_t op = {.kind = VN_SUM_CUMSUM, .dtype = VN_F32, .m = 30, .n = 200};
        const vn_reveal_options_t o = {.seed = t->seed};
        vn_schedule_t *s;
        vn_error_t err = {0};
        VN_ASSERT(t, vn_reveal(&call, &op, &o, &s, &err) == VN_OK);
        if (kind < 2) {
            if (!s->classes[0].text || strcmp(s->classes[0].text, texts[kind]) != 0 || s->replayed != s->elements)
                vn_test_fail(t, __FILE__, __LINE__, "scan %d: '%s', %s", kind, s->classes[0].text ? s->classes[0].text : "", s->reason);
            VN_ASSERT(t, strstr(s->notes, kind ? "blocks of 16" : "every prefix in order"));
        } else {
            VN_ASSERT(t, s->replayed < s->elements && *s->reason);
        }
        vn_schedule_free(s);
    }
}

VN_TEST(rows, no_tree) {
    kernel_t racing = {.order = CHAIN, .racing = true}, wide = {.order = WIDE, .square = true}, wide_sum = {.order = WIDE};
    vn_schedule_t *s = read_off(t, &racing, VN_SUM_REDUCE_SUM, 20, 40);
    VN_ASSERT(t, s->replayed < s->elements && *s->reason && !*s->sha256);
    vn_schedule_free(s);
    s = read_off(t, &wide, VN_SUM_SQUARE, 20, 40);
    VN_ASSERT(t, s->classes[0].violation.kind == VN_TREE_WIDE && *s->reason && !*s->sha256);
    vn_schedule_free(s);
    s = read_off(t, &wide_sum, VN_SUM_REDUCE_SUM, 20,
                 40); /* M = 2^60 still swallows units in f64: the tree is right, the arithmetic is not */
    VN_ASSERT(t, s->replayed < s->elements && *s->reason);
    vn_schedule_free(s);
    const vn_call_t call = {.run = run, .context = &racing};
    const vn_sum_op_t f64 = {.kind = VN_SUM_REDUCE_SUM, .dtype = VN_F64, .m = 2, .n = 4},
                      none = {.kind = VN_SUM_REDUCE_SUM, .dtype = VN_F32};
    vn_error_t err = {0};
    VN_ASSERT(t, vn_reveal(&call, &f64, NULL, &s, &err) == VN_ERR_UNSUPPORTED && !s && *err.text);
    VN_ASSERT(t, vn_reveal(&call, &none, NULL, &s, &err) == VN_ERR_RANGE && !s);
}

VN_TEST_MAIN(VN_CASE(rows, plain_sums), VN_CASE(rows, squares), VN_CASE(rows, scans), VN_CASE(rows, no_tree))
