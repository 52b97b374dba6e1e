/* Attention of simulated kernels: both of its sums come back as they were built, or the named reason. Claims REVEAL-21 to REVEAL-24. Plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

typedef enum order { CHAIN, LANES4, LANES8, BLOCKS16, BACKWARD, TAIL_BACKWARD } order_t;
typedef enum norm { BEFORE, TIMES_INVERSE, AFTER, AFTER_INVERSE } norm_t; /* of the weights */
typedef enum scaling { ON_SUM, ON_QUERY, ON_KEY, ON_BOTH } scaling_t;

/* block > 0: flash attention, blocks of so many keys, weights rescaled when the maximum rises. parts > 1: each part of the keys so, then joined. */
typedef struct kernel {
    order_t keys, head;
    bool fma, head_fma, narrow, wide, two, racing;
    norm_t norm;
    scaling_t scaling;
    int block, parts;
    /* shape */
    int64_t batch, heads, kv_heads, queries, n_keys, size;
    int64_t calls;
} kernel_t;

static float term(bool fma_used, float acc, float x, float y) {
    if (fma_used) return fmaf(x, y, acc);
    const float p = x * y;
    return acc + p;
}

/* Sum of x[k] y[k stride] over k = from, from + step, ..; y in strides. */
static float chain(bool fma_used, const float *x, const float *y, int64_t stride, int64_t from, int64_t n, int64_t step) {
    float acc = x[from] * y[from * stride];
    for (int64_t k = from + step; k < n; k += step) acc = term(fma_used, acc, x[k], y[k * stride]);
    return acc;
}

static float sum(order_t o, bool fma_used, const float *x, const float *y, int64_t stride, int64_t n) {
    float lane[8], acc;
    const int lanes = o == LANES8 ? 8 : 4;
    switch (o) {
    case LANES4:
    case LANES8:
        for (int l = 0; l < lanes; ++l) lane[l] = chain(fma_used, x, y, stride, l, n, lanes);
        for (int half = lanes / 2; half > 0; half /= 2)
            for (int l = 0; l < half; ++l) lane[l] = lane[l] + lane[l + half];
        return lane[0];
    case BLOCKS16:
        acc = chain(fma_used, x, y, stride, 0, n < 16 ? n : 16, 1);
        for (int64_t from = 16; from < n; from += 16) acc = acc + chain(fma_used, x, y, stride, from, from + 16 < n ? from + 16 : n, 1);
        return acc;
    case BACKWARD:
        acc = x[n - 1] * y[(n - 1) * stride];
        for (int64_t k = n - 2; k >= 0; --k) acc = term(fma_used, acc, x[k], y[k * stride]);
        return acc;
    default: return chain(fma_used, x, y, stride, 0, n, 1);
    }
}

static float bf16(float x) { return (float)vn_round_to(VN_FMT_BF16, x, VN_RNE, false); }

typedef struct state {
    float most, total, acc;
} state_t;

/* Keys [from, to) of one output, block by block. */
static state_t flash(const kernel_t *k, const float *s, const float *v, int64_t stride, int64_t from, int64_t to) {
    state_t t = {-INFINITY, 0, 0};
    float e[512];
    for (int64_t at = from; at < to; at += k->block) {
        const int64_t n = to - at < k->block ? to - at : k->block;
        float most = t.most, total = 0;
        for (int64_t i = 0; i < n; ++i) most = fmaxf(most, s[at + i]);
        for (int64_t i = 0; i < n; ++i) total += e[i] = expf(s[at + i] - most);
        const float fade = expf(t.most - most), part = sum(k->keys, k->fma, e, v + at * stride, stride, n);
        t.acc = at == from ? part : t.acc * fade + part;
        t.total = at == from ? total : t.total * fade + total;
        t.most = most;
    }
    return t;
}

static float output(const kernel_t *k, const float *s, const float *v, int64_t stride, int64_t column) {
    const int64_t n = k->n_keys;
    float w[512], most = -INFINITY, total = 0;
    if (k->block) {
        const int64_t part = (n + k->parts - 1) / k->parts;
        state_t t = flash(k, s, v, stride, 0, part < n ? part : n);
        for (int64_t from = part; from < n; from += part) {
            const state_t u = flash(k, s, v, stride, from, from + part < n ? from + part : n);
            const float m = fmaxf(t.most, u.most), a = expf(t.most - m), b = expf(u.most - m);
            t = (state_t){m, t.total * a + u.total * b, t.acc * a + u.acc * b};
        }
        return k->norm == AFTER_INVERSE ? t.acc * (1 / t.total) : t.acc / t.total;
    }
    for (int64_t i = 0; i < n; ++i) most = fmaxf(most, s[i]);
    for (int64_t i = 0; i < n; ++i) total += w[i] = expf(s[i] - most);
    const float inverse = 1 / total;
    for (int64_t i = 0; i < n; ++i) {
        if (k->norm == BEFORE) w[i] = w[i] / total;
        if (k->norm == TIMES_INVERSE) w[i] = w[i] * inverse;
        if (k->narrow) w[i] = bf16(w[i]);
    }
    order_t o = k->keys;
    if (o == TAIL_BACKWARD) o = column >= k->size / 8 * 8 ? BACKWARD : CHAIN;
    if (k->racing && k->calls % 2) o = BACKWARD;
    if (k->wide) { /* products are exact, sums are double */
        double whole = 0;
        for (int64_t i = 0; i < n; ++i) whole += (double)w[i] * v[i * stride];
        return (float)whole;
    }
    const float acc = sum(o, k->fma, w, v, stride, n);
    return k->norm == AFTER ? acc / total : k->norm == AFTER_INVERSE ? acc * inverse : acc;
}

static float score(const kernel_t *k, const float *q, const float *key) {
    float a[256], b[256];
    const float scale = 1 / sqrtf((float)k->size), root = sqrtf(scale);
    for (int64_t d = 0; d < k->size; ++d) {
        a[d] = q[d] * (k->scaling == ON_QUERY ? scale : k->scaling == ON_BOTH ? root : 1);
        b[d] = key[d] * (k->scaling == ON_KEY ? scale : k->scaling == ON_BOTH ? root : 1);
    }
    const float s = sum(k->head, k->head_fma, a, b, 1, k->size);
    if (k->two) return s * (scale * 1.44269504f); /* for exp2: no score is seen whole */
    return k->scaling == ON_SUM ? s * scale : s;
}

static vn_status_t run(void *context, const vn_tensor_t *const *in, vn_tensor_t **out, vn_error_t *err) {
    kernel_t *k = context;
    VN_TRY(vn_tensor_new(VN_F32, 4, in[0]->dims, out, err));
    k->calls++;
    const float *q = in[0]->data, *key = in[1]->data, *v = in[2]->data;
    for (int64_t z = 0; z < k->batch * k->heads; ++z) {
        const int64_t plane = z / k->heads * k->kv_heads + z % k->heads / (k->heads / k->kv_heads), at = plane * k->n_keys * k->size;
        for (int64_t i = 0; i < k->queries; ++i) {
            float s[512];
            for (int64_t j = 0; j < k->n_keys; ++j) s[j] = score(k, q + (z * k->queries + i) * k->size, key + at + j * k->size);
            for (int64_t j = 0; k->two && j < k->n_keys; ++j) s[j] = (float)(s[j] * 0.69314718055994531); /* exp2 by way of expf */
            for (int64_t c = 0; c < k->size; ++c)
                ((float *)(*out)->data)[(z * k->queries + i) * k->size + c] = output(k, s, v + at + c, k->size, c);
        }
    }
    return VN_OK;
}

static vn_schedule_t *read_off(vn_test_t *t, kernel_t *k) {
    const vn_call_t call = {.run = run, .context = k};
    const vn_sum_op_t op = {.kind = VN_SUM_ATTENTION,
                            .dtype = VN_F32,
                            .batch = k->batch,
                            .heads = k->heads,
                            .kv_heads = k->kv_heads,
                            .m = k->queries,
                            .keys = k->n_keys,
                            .head_size = k->size};
    const vn_reveal_options_t o = {.seed = t->seed};
    vn_schedule_t *s = NULL;
    vn_error_t err = {0};
    if (vn_reveal(&call, &op, &o, &s, &err) != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "%s", err.text);
    VN_ASSERT_EQ(t, s->calls, k->calls);
    return s;
}

/* texts: of the sums over keys, then over the head size; places: parts of their `where`. whole: every element is replayed. */
typedef struct due {
    kernel_t kernel;
    const char *text[3], *place[3], *note;
    bool fma;
    const char *reason; /* NULL: every element is replayed */
} due_t;

static vn_schedule_t *expect(vn_test_t *t, const due_t *d) {
    kernel_t k = d->kernel;
    vn_schedule_t *s = read_off(t, &k);
    int n = 0;
    for (; n < 3 && d->text[n]; ++n) {
        const vn_schedule_class_t *c = n < s->n_classes ? &s->classes[n] : NULL;
        if (!c || !c->text || strcmp(c->text, d->text[n]) != 0 || !strstr(c->where, d->place[n]))
            vn_test_fail(t, __FILE__, __LINE__, "class %d of keys %d, head %d: '%s' at '%s' instead of '%s' at '%s': %s", n, (int)k.keys,
                         (int)k.head, c && c->text ? c->text : "", c ? c->where : "", d->text[n], d->place[n], s->reason);
    }
    VN_ASSERT_EQ(t, s->n_classes, n);
    if (d->reason ? s->replayed >= s->elements || !strstr(s->reason, d->reason) : s->replayed != s->elements || *s->reason)
        vn_test_fail(t, __FILE__, __LINE__, "keys %d, head %d: %lld of %lld replayed: '%s'", (int)k.keys, (int)k.head,
                     (long long)s->replayed, (long long)s->elements, s->reason);
    if (s->arithmetic.fma != d->fma || (d->note && !strstr(s->notes, d->note)))
        vn_test_fail(t, __FILE__, __LINE__, "keys %d, head %d: %s; %s", (int)k.keys, (int)k.head, s->arithmetic_text, s->notes);
    VN_ASSERT_EQ(t, strlen(s->sha256), 64);
    return s;
}
static void check_all(vn_test_t *t, const due_t *rows, size_t n) {
    for (size_t k = 0; k < n; ++k) vn_schedule_free(expect(t, &rows[k]));
}
#define CHECK_ALL(t, rows) check_all(t, rows, sizeof rows / sizeof *rows)
#define KERNEL(...) .kernel = {.batch = 1, .heads = 2, .kv_heads = 2, .queries = 3, __VA_ARGS__}

VN_TEST(attention, weights_normalised_first) {
    static const due_t rows[] = {
        {KERNEL(.n_keys = 32, .size = 16, .fma = true, .head_fma = true), .text = {"32||S", "16||S"},
         .place = {"keys: *", "scores: * (fma"}, .fma = true, .note = "normalised before"},
        {KERNEL(.n_keys = 40, .size = 32, .keys = LANES4, .head = LANES8, .scaling = ON_QUERY),
         .text = {"40|0+10*4+2*2+2*1|A<10{S}", "32|0+4*8+2*4+2*2+2*1|A<4{S}"}, .place = {"keys: *", "(mul+add, scale on the queries)"},
         .note = "normalised before"},
        {KERNEL(.n_keys = 33, .size = 32, .keys = BLOCKS16, .fma = true, .head_fma = true, .scaling = ON_BOTH, .norm = TIMES_INVERSE),
         .text = {"33||S<16{S}", "32||S"}, .place = {"keys: *", "(fma, scale on the queries and keys by its root)"}, .fma = true},
        {KERNEL(.n_keys = 20, .size = 8, .keys = BACKWARD, .head = BACKWARD, .head_fma = true, .scaling = ON_KEY),
         .text = {"20||R", "8|0+6*1,7+2*-1|R"}, .place = {"keys: *", "(fma, scale on the keys)"}, .note = "no rescaling seen"},
        {KERNEL(.n_keys = 24, .size = 8, .wide = true, .head_fma = true), .text = {"24||S", "8||S"}, .place = {"keys: *", "(fma"},
         .fma = true},
        /* weights of 8 bits are measured as they enter the sum */
        {KERNEL(.n_keys = 24, .size = 16, .fma = true, .narrow = true), .text = {"24||S", "16||S"},
         .place = {"keys: *", "(arithmetic not read)"}, .fma = true, .reason = "cannot be told"},
    };
    CHECK_ALL(t, rows);
}

VN_TEST(attention, flash_and_split_keys) {
    static const due_t rows[] = {
        {KERNEL(.n_keys = 64, .size = 16, .block = 16, .parts = 1, .fma = true, .head_fma = true, .norm = AFTER),
         .text = {"64||S<16{S}", "16||S"}, .place = {"keys: *", "(fma"}, .reason = "random scores: 96 of 96",
         .note = "divided by the sum of weights; online softmax: a maximum at key 16"},
        {KERNEL(.n_keys = 96, .size = 16, .block = 32, .parts = 1, .norm = AFTER_INVERSE), .text = {"96||S<32{S}", "16||S"},
         .place = {"keys: *", "(mul+add"}, .reason = "random scores",
         .note = "multiplied by 1 / sum of weights; online softmax: a maximum at key 32"},
        {KERNEL(.n_keys = 96, .size = 16, .block = 16, .parts = 2, .norm = AFTER), .text = {"96||U<16{S}", "16||S"},
         .place = {"keys: *", "(mul+add"}, .reason = "random scores",
         .note = "divided by the sum of weights; online softmax: a maximum at key 16"},
        {KERNEL(.n_keys = 96, .size = 16, .block = 48, .parts = 2, .norm = AFTER), .text = {"96||S<48{S}", "16||S"},
         .place = {"keys: *", "(mul+add"}, .reason = "random scores", .note = "online softmax: a maximum at key 48"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_schedule_t *s = expect(t, &rows[k]);
        VN_ASSERT_EQ(t, s->elements - s->replayed, s->outputs); /* nothing but the random scores is open */
        vn_schedule_free(s);
    }
}

VN_TEST(attention, classes_and_groups) {
    static const due_t rows[] = {
        {KERNEL(.n_keys = 32, .size = 20, .keys = TAIL_BACKWARD, .fma = true, .head_fma = true),
         .text = {"32||S", "32|0+30*1,31+2*-1|R", "20||S"}, .place = {"keys: r* c0-15", "keys: r* c16-19", "scores: *"}, .fma = true},
        {.kernel =
             {.batch = 2, .heads = 6, .kv_heads = 2, .queries = 1, .n_keys = 20, .size = 8, .fma = true, .head_fma = true, .head = LANES4},
         .text = {"20||S", "8|0+2*4+2*2+2*1|A"},
         .place = {"keys: *", "scores: *"},
         .fma = true},
    };
    CHECK_ALL(t, rows);
}

VN_TEST(attention, what_does_not_show) {
    static const due_t rows[] = {
        {KERNEL(.n_keys = 1, .size = 8), .text = {"1||."}, .place = {"keys: *"}, .note = "one key"},
        {KERNEL(.n_keys = 2, .size = 8, .head_fma = true), .text = {"2||S", "8||S"}, .place = {"keys: *", "(fma"}, .note = "does not show"},
        {KERNEL(.n_keys = 12, .size = 1, .fma = true), .text = {"12||S"}, .place = {"keys: *"}, .note = "head size 1", .fma = true},
        {KERNEL(.n_keys = 12, .size = 8, .fma = true, .head_fma = true, .two = true), .text = {"12||S", "8||S"},
         .place = {"keys: *", "(arithmetic not read)"}, .fma = true, .reason = "scores:"},
    };
    CHECK_ALL(t, rows);
}

VN_TEST(attention, no_trees) {
    kernel_t k = {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 2, .n_keys = 20, .size = 8, .racing = true};
    vn_schedule_t *s = read_off(t, &k);
    VN_ASSERT_EQ(t, s->classes[0].violation.kind, VN_TREE_NONDETERMINISTIC);
    VN_ASSERT(t, *s->reason && !*s->sha256);
    vn_schedule_free(s);
    const vn_call_t call = {.run = run, .context = &k};
    vn_sum_op_t op = {.kind = VN_SUM_ATTENTION, .dtype = VN_F16, .batch = 1, .heads = 1, .kv_heads = 1, .m = 2, .keys = 4, .head_size = 8};
    vn_error_t err = {0};
    VN_ASSERT(t, vn_reveal(&call, &op, NULL, &s, &err) == VN_ERR_UNSUPPORTED && !s && strstr(err.text, "f16"));
    op.dtype = VN_F32;
    op.kv_heads = 0;
    VN_ASSERT(t, vn_reveal(&call, &op, NULL, &s, &err) == VN_ERR_RANGE && !s);
}

VN_TEST_MAIN(VN_CASE(attention, weights_normalised_first), VN_CASE(attention, flash_and_split_keys), VN_CASE(attention, classes_and_groups),
             VN_CASE(attention, what_does_not_show), VN_CASE(attention, no_trees))
