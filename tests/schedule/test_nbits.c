/* MatMulNBits of simulated kernels: order and arithmetic come back, codes and zero points are what the operator says. Claim REVEAL-20. Plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

typedef enum form {
    WEIGHTS,     /* dequantised to f32, then a product */
    BLOCK_SCALE, /* codes are summed, each block's sum is scaled */
    INT8         /* activations of a block as 8-bit integers with a scale of their own */
} form_t;

typedef struct kernel {
    form_t form;
    int width; /* chains over so many terms, added in order; 0: one chain */
    bool fma;
    vn_sum_op_t op;
    int64_t calls, zeros_seen; /* zero points that are not the middle */
} kernel_t;

/* One code at a time, by its place in the byte. */
static int code_of(const vn_tensor_t *t, int64_t row, int64_t row_bytes, int bits, int64_t i) {
    const int each = 8 / bits, radix = bits == 2 ? 4 : bits == 4 ? 16 : 256;
    int byte = (int)vn_tensor_get_i64(t, row * row_bytes + i / each);
    for (int64_t skip = i % each; skip > 0; --skip) byte /= radix;
    return byte % radix;
}

static float step(const kernel_t *k, float acc, float x, float y) {
    if (k->fma) return fmaf(x, y, acc);
    const float p = x * y;
    return acc + p;
}

static float element(kernel_t *k, const float *a, const vn_tensor_t *const *in, int64_t column) {
    const vn_sum_op_t *op = &k->op;
    const int64_t blocks = (op->k + op->block - 1) / op->block, blob = op->block * op->bits / 8, zero_bytes = (blocks * op->bits + 7) / 8;
    const int64_t width = k->form == WEIGHTS ? (k->width ? k->width : op->k) : op->block;
    float acc = 0, part = 0;
    for (int64_t t = 0; t < op->k; ++t) {
        const int64_t g = t / op->block;
        const float scale = (float)vn_tensor_get_f64(in[2], column * blocks + g);
        const int middle = op->bits == 2 ? 2 : op->bits == 4 ? 8 : 128;
        const int zero = op->zero_points ? code_of(in[3], column, zero_bytes, op->bits, g) : middle;
        const int code = code_of(in[1], column * blocks + g, blob, op->bits, t % op->block) - zero;
        float x = a[t], y = (float)code;
        k->zeros_seen += zero != middle;
        if (k->form == WEIGHTS) y = y * scale;
        if (k->form == INT8) {
            float most = 0;
            for (int64_t i = g * op->block; i < (g + 1) * op->block && i < op->k; ++i) most = fmaxf(most, fabsf(a[i]));
            x = most > 0 ? rintf(x / (most / 127)) * (most / 127) : 0;
        }
        part = t % width == 0 ? x * y : step(k, part, x, y);
        if (t % width == width - 1 || t == op->k - 1) {
            const float whole = k->form == WEIGHTS ? part : part * scale;
            acc = t < width ? whole : acc + whole;
        }
    }
    return acc;
}

static vn_status_t run(void *context, const vn_tensor_t *const *in, vn_tensor_t **out, vn_error_t *err) {
    kernel_t *k = context;
    const int64_t dims[2] = {k->op.m, k->op.n};
    VN_TRY(vn_tensor_new(VN_F32, 2, dims, out, err));
    k->calls++;
    for (int64_t e = 0; e < k->op.m * k->op.n; ++e)
        ((float *)(*out)->data)[e] = element(k, (const float *)in[0]->data + e / k->op.n * k->op.k, in, e % k->op.n);
    return VN_OK;
}

static vn_schedule_t *read_off(vn_test_t *t, kernel_t *k) {
    const vn_call_t call = {.run = run, .context = k, .constant = k->op.zero_points ? 14 : 6};
    const vn_reveal_options_t o = {.seed = t->seed};
    vn_schedule_t *s = NULL;
    vn_error_t err = {0};
    if (vn_reveal(&call, &k->op, &o, &s, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s", err.text);
    VN_ASSERT_EQ(t, s->calls, k->calls);
    return s;
}

#define OP(rows, terms, columns, size, width, ...) \
    { .kind = VN_SUM_MATMUL_NBITS, .dtype = VN_F32, .m = rows, .k = terms, .n = columns, .block = size, .bits = width, __VA_ARGS__ }

VN_TEST(nbits, orders) {
    static const struct {
        kernel_t kernel;
        const char *text;
    } rows[] = {
        {{.form = WEIGHTS, .fma = true, .op = OP(6, 96, 5, 32, 4)}, "96||S"},
        {{.form = WEIGHTS, .op = OP(6, 96, 5, 32, 4, .zero_points = true)}, "96||S"},
        {{.form = WEIGHTS, .fma = true, .width = 24, .op = OP(6, 96, 7, 32, 4, .zero_points = true)}, "96||S<24{S}"},
        {{.form = WEIGHTS, .width = 16, .op = OP(1, 70, 9, 32, 4, .zero_points = true)}, "70||S<16{S}"}, /* a last block of six */
        {{.form = WEIGHTS, .fma = true, .width = 16, .op = OP(5, 64, 6, 16, 8, .zero_points = true)}, "64||S<16{S}"},
        {{.form = WEIGHTS, .fma = true, .width = 32, .op = OP(5, 64, 6, 16, 2)}, "64||S<32{S}"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
        kernel_t k = rows[r].kernel;
        vn_schedule_t *s = read_off(t, &k);
        if (s->n_classes != 1 || !s->classes[0].text || strcmp(s->classes[0].text, rows[r].text) != 0 || s->replayed != s->elements ||
            s->elements != 3 * k.op.m * k.op.n || s->arithmetic.fma != k.fma)
            vn_test_fail(t, __FILE__, __LINE__, "kernel %d: '%s' instead of '%s', %s, %lld of %lld: %s", (int)r,
                         s->classes[0].text ? s->classes[0].text : "", rows[r].text, s->arithmetic_text, (long long)s->replayed,
                         (long long)s->elements, s->reason);
        VN_ASSERT(t, (k.zeros_seen > 0) == k.op.zero_points);
        VN_ASSERT_EQ(t, s->op.kind, VN_SUM_MATMUL_NBITS);
        VN_ASSERT_EQ(t, strlen(s->sha256), 64);
        vn_schedule_free(s);
    }
}

VN_TEST(nbits, no_weights) {
    /* a scale on the block's sum is no product with a weight: the tree is read, and the reason why it has no replay */
    kernel_t k = {.form = BLOCK_SCALE, .fma = true, .op = OP(6, 96, 5, 32, 4)};
    vn_schedule_t *s = read_off(t, &k);
    VN_ASSERT(t, s->classes[0].text && strcmp(s->classes[0].text, "96||S<32{S}") == 0);
    VN_ASSERT(t, strstr(s->reason, "not to weights") && s->replayed == 0 && !*s->sha256);
    vn_schedule_free(s);
    kernel_t q = {.form = INT8, .fma = true, .op = OP(6, 96, 5, 32, 4)};
    s = read_off(t, &q);
    VN_ASSERT_EQ(t, s->classes[0].violation.kind, VN_TREE_VALUE_DEPENDENT);
    VN_ASSERT(t, strstr(s->reason, "32 terms a scale") && s->replayed == 0 && !*s->sha256);
    vn_schedule_free(s);
}

/* The schedule that was read gives the kernel's results on inputs of any kind. */
VN_TEST(nbits, applied) {
    kernel_t k = {.form = WEIGHTS, .fma = true, .width = 16, .op = OP(3, 70, 4, 32, 4, .zero_points = true)};
    vn_schedule_t *s = read_off(t, &k);
    const int64_t dims[4][3] = {{3, 70}, {4, 3, 16}, {4, 3}, {4, 2}};
    const int rank[4] = {2, 3, 2, 2};
    vn_tensor_t *in[4], *out;
    vn_rng_t g;
    vn_error_t err = {0};
    vn_rng_seed(&g, t->seed);
    for (int i = 0; i < 4; ++i) {
        VN_ASSERT_OK_ERR(t, vn_tensor_new(i % 2 ? VN_U8 : VN_F32, rank[i], dims[i], &in[i], &err), err);
        for (int64_t e = 0; e < in[i]->count; ++e) {
            if (i % 2) vn_tensor_set_i64(in[i], e, (int64_t)vn_rng_below(&g, 256));
            else vn_tensor_set_f64(in[i], e, vn_rng_normal(&g));
        }
    }
    float due[12];
    bool known[12];
    VN_ASSERT_OK_ERR(t, vn_schedule_apply(s, 4, (const vn_tensor_t *const *)in, due, known, &err), err);
    VN_ASSERT_OK_ERR(t, run(&k, (const vn_tensor_t *const *)in, &out, &err), err);
    for (int e = 0; e < 12; ++e)
        if (!known[e] || due[e] != ((float *)out->data)[e])
            vn_test_fail(t, __FILE__, __LINE__, "element %d: %a, not %a", e, (double)due[e], (double)((float *)out->data)[e]);
    VN_ASSERT_EQ(t, vn_schedule_apply(s, 3, (const vn_tensor_t *const *)in, due, known, &err), VN_ERR_USAGE);
    for (int i = 0; i < 4; ++i) vn_tensor_free(in[i]);
    vn_tensor_free(out);
    vn_schedule_free(s);
}

VN_TEST(nbits, limits) {
    kernel_t k = {.op = OP(2, 32, 2, 32, 3)};
    const vn_call_t call = {.run = run, .context = &k};
    vn_schedule_t *s = NULL;
    vn_error_t err = {0};
    VN_ASSERT(t, vn_reveal(&call, &k.op, NULL, &s, &err) == VN_ERR_UNSUPPORTED && !s && strstr(err.text, "3 bits"));
    k.op.bits = 4;
    k.op.dtype = VN_F16;
    VN_ASSERT(t, vn_reveal(&call, &k.op, NULL, &s, &err) == VN_ERR_UNSUPPORTED && strstr(err.text, "f16"));
    k.op.dtype = VN_F32;
    k.op.block = 0;
    VN_ASSERT_EQ(t, vn_reveal(&call, &k.op, NULL, &s, &err), VN_ERR_RANGE);
    VN_ASSERT_EQ(t, k.calls, 0);
}

VN_TEST_MAIN(VN_CASE(nbits, orders), VN_CASE(nbits, no_weights), VN_CASE(nbits, applied), VN_CASE(nbits, limits))
