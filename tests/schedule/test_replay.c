/* Replay against a slow twin: the tree walked by recursion, every operation by MPFR at the accumulator's precision. Claim SCHED-2. */
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

/* ---- the twin ---- */

typedef struct twin {
    const vn_tree_t *tree;
    const vn_arithmetic_t *a;
    const float *x, *y; /* factors of this element; y NULL: x are the terms */
    float start;
} twin_t;

static mpfr_rnd_t direction(vn_rounding_t r) { return r == VN_RZ ? MPFR_RNDZ : MPFR_RNDN; }
static mpfr_prec_t precision(vn_format_t f) { return vn_format_info(f)->p; }

static void leaf_value(const twin_t *w, int32_t leaf, mpfr_t out) {
    if (leaf == w->tree->n) {
        mpfr_set_d(out, w->start, MPFR_RNDN);
        return;
    }
    mpfr_set_d(out, w->x[leaf], MPFR_RNDN);
    if (w->y) mpfr_mul_d(out, out, w->y[leaf], direction(w->a->rounding));
}

static bool enters_exactly(const twin_t *w, int32_t leaf) {
    return leaf < w->tree->n && w->y && w->a->fma && !(w->tree->rounded && w->tree->rounded[leaf]);
}

static void walk(const twin_t *w, int32_t id, mpfr_t out);

static void fused(const twin_t *w, int32_t node, mpfr_t out) {
    mpfr_t part, exact;
    long largest = LONG_MIN;
    mpfr_init2(part, 200);
    mpfr_init2(exact, 2000);
    mpfr_set_zero(exact, 1);
    for (int pass = 0; pass < 2; ++pass)
        for (int32_t c = w->tree->first[node]; c < w->tree->first[node + 1]; ++c) {
            const int32_t child = w->tree->child[c];
            long e;
            if (child < w->tree->n) {
                mpfr_t f;
                mpfr_init2(f, 24);
                mpfr_set_d(f, w->x[child], MPFR_RNDN);
                e = (long)mpfr_get_exp(f) - 1;
                mpfr_set(part, f, MPFR_RNDN);
                mpfr_set_d(f, w->y[child], MPFR_RNDN);
                e += (long)mpfr_get_exp(f) - 1;
                mpfr_mul(part, part, f, MPFR_RNDN); /* 48 bits: exact */
                mpfr_clear(f);
            } else {
                mpfr_t v;
                mpfr_init2(v, 24);
                walk(w, child, v);
                mpfr_set(part, v, MPFR_RNDN);
                e = mpfr_zero_p(v) ? LONG_MIN : (long)mpfr_get_exp(v) - 1;
                mpfr_clear(v);
            }
            if (mpfr_zero_p(part)) continue;
            if (pass == 0) {
                if (e > largest) largest = e;
                continue;
            }
            mpfr_mul_2si(part, part, w->a->fused_bits - largest, MPFR_RNDN);
            mpfr_rint_trunc(part, part, MPFR_RNDZ);
            mpfr_mul_2si(part, part, largest - w->a->fused_bits, MPFR_RNDN);
            mpfr_add(exact, exact, part, MPFR_RNDN);
        }
    mpfr_set(out, exact, direction(w->a->fused_rounding));
    mpfr_clear(part);
    mpfr_clear(exact);
}

static void walk(const twin_t *w, int32_t id, mpfr_t out) {
    const int32_t leaves = vn_tree_leaves(w->tree);
    if (id < leaves) {
        leaf_value(w, id, out);
        return;
    }
    const int32_t k = id - leaves, a = w->tree->child[w->tree->first[k]], b = w->tree->child[w->tree->first[k] + 1];
    if (w->tree->first[k + 1] - w->tree->first[k] > 2) {
        fused(w, k, out);
        return;
    }
    mpfr_t other;
    mpfr_init2(other, mpfr_get_prec(out));
    const bool both = a < leaves && b < leaves;
    if (!both && a < leaves && enters_exactly(w, a)) { /* the leaf is fused onto the value of the other child */
        walk(w, b, other);
        mpfr_set_d(out, w->x[a], MPFR_RNDN);
        mpfr_t y;
        mpfr_init2(y, 24);
        mpfr_set_d(y, w->y[a], MPFR_RNDN);
        mpfr_fma(out, out, y, other, direction(w->a->rounding));
        mpfr_clear(y);
    } else if (b < leaves && enters_exactly(w, b)) { /* in a pair the second one is */
        walk(w, a, other);
        mpfr_t y;
        mpfr_init2(y, 24);
        mpfr_set_d(out, w->x[b], MPFR_RNDN);
        mpfr_set_d(y, w->y[b], MPFR_RNDN);
        mpfr_fma(out, out, y, other, direction(w->a->rounding));
        mpfr_clear(y);
    } else {
        walk(w, a, out);
        walk(w, b, other);
        mpfr_add(out, out, other, direction(w->a->rounding));
    }
    mpfr_clear(other);
}

static float twin_value(const twin_t *w) {
    mpfr_t out;
    mpfr_init2(out, precision(w->a->accumulator));
    walk(w, w->tree->nodes ? vn_tree_leaves(w->tree) + w->tree->nodes - 1 : 0, out);
    const float value = mpfr_get_flt(out, MPFR_RNDN);
    mpfr_clear(out);
    return value;
}

/* ---- random trees and data ---- */

static void brackets(vn_text_t *out, vn_rng_t *rng, const char (*leaf)[16], int n, int widest) {
    if (n == 1) {
        vn_text_add(out, leaf[0]);
        return;
    }
    int parts = 2 + (int)(vn_rng_u64(rng) % (uint64_t)(widest - 1)), at = 0;
    if (parts > n) parts = n;
    vn_text_add(out, "(");
    for (int p = 0; p < parts; ++p) {
        const int room = n - at - (parts - p - 1), chain = vn_rng_u64(rng) % 3 == 0;
        const int size = p == parts - 1 ? room : chain ? 1 : 1 + (int)(vn_rng_u64(rng) % (uint64_t)room);
        if (p) vn_text_add(out, ",");
        brackets(out, rng, leaf + at, size, widest);
        at += size;
    }
    vn_text_add(out, ")");
}

static vn_tree_t *random_tree(vn_rng_t *rng, int n, bool initial, bool marks, int widest) {
    char leaf[80][16];
    vn_text_t text = {0};
    vn_tree_t *tree = NULL;
    const int leaves = n + initial;
    for (int k = 0; k < leaves; ++k) {
        const int p = (int)(vn_rng_u64(rng) % (uint64_t)(k + 1));
        char name[16];
        if (k == n) snprintf(name, sizeof name, "c");
        else snprintf(name, sizeof name, "%s%d", marks && vn_rng_u64(rng) % 4 == 0 ? "P" : "", k % 1000);
        memcpy(leaf[k], leaf[p], sizeof leaf[k]);
        memcpy(leaf[p], name, sizeof leaf[p]);
    }
    brackets(&text, rng, (const char(*)[16])leaf, leaves, widest);
    if (vn_tree_from_brackets(text.data, &tree, NULL) != VN_OK) tree = NULL;
    vn_text_free(&text);
    return tree;
}

static float draw(vn_rng_t *rng, vn_format_t f) {
    const double x = (double)(int64_t)vn_rng_u64(rng) * 0x1p-62 * exp2((double)(vn_rng_u64(rng) % 12) - 6);
    return (float)vn_round_to(f, x, VN_RNE, false);
}

static const struct {
    const char *text;
    vn_format_t operands;
    int widest;
    bool marks;
} cases[] = {
    {"mul+add acc=f32", VN_FMT_F32, 2, false},
    {"fma acc=f32", VN_FMT_F32, 2, true},
    {"fma acc=f32 round=rz", VN_FMT_F32, 2, true},
    {"mul+add acc=bf16", VN_FMT_BF16, 2, false},
    {"fma acc=f16", VN_FMT_F16, 2, true},
    {"fma acc=f32 operands=bf16-rne", VN_FMT_BF16, 2, true},
    {"fma acc=f32 fused=24-rz", VN_FMT_F16, 6, false},
    {"fma acc=f32 fused=25-rne", VN_FMT_BF16, 9, false},
};

VN_TEST(replay, equals_the_twin) {
    enum { N = 60, R = 11, C = 7 }; /* eight rows at once, and three alone */
    vn_rng_t rng = vn_test_rng(t);
    for (int round = 0; round < 96 * vn_test_scale(t); ++round) {
        const size_t k = (size_t)round % (sizeof cases / sizeof *cases);
        const int n = 1 + (int)(vn_rng_u64(&rng) % N);
        const bool initial = vn_rng_u64(&rng) % 2, turned = vn_rng_u64(&rng) % 2, few = vn_rng_u64(&rng) % 4 == 0;
        const int rows = few ? 2 * C : R, columns = few ? 2 : C;
        float a[N * 2 * C], b[N * C], start[2 * C * C], out[2 * C * C];
        vn_arithmetic_t arithmetic;
        vn_replay_t *r;
        vn_error_t err = {0};
        vn_tree_t *tree = random_tree(&rng, n, initial, cases[k].marks, cases[k].widest);
        VN_ASSERT(t, tree && vn_arithmetic_parse(cases[k].text, &arithmetic, &err) == VN_OK);
        for (int i = 0; i < n * rows; ++i) a[i] = draw(&rng, cases[k].operands);
        for (int i = 0; i < n * columns; ++i) b[i] = draw(&rng, cases[k].operands);
        for (int i = 0; i < rows * columns; ++i) start[i] = draw(&rng, arithmetic.accumulator);
        VN_ASSERT(t, vn_replay_compile(tree, &arithmetic, &r, &err) == VN_OK);
        const vn_plane_t pa = {a, turned ? 1 : n, turned ? rows : 1}, pb = {b, turned ? 1 : columns, turned ? n : 1},
                         pc = {start, columns, 1};
        VN_ASSERT(t, vn_replay_product(r, rows, columns, pa, pb, pc, out, columns, &err) == VN_OK);
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) {
                float x[N], y[N];
                for (int m = 0; m < n; ++m) {
                    x[m] = a[i * pa.row + m * pa.column];
                    y[m] = b[m * pb.row + j * pb.column];
                }
                const twin_t w = {.tree = tree, .a = &arithmetic, .x = x, .y = y, .start = start[i * columns + j]};
                const float due = twin_value(&w), got = out[i * columns + j];
                if (memcmp(&due, &got, sizeof due) != 0 && !(due == 0 && got == 0))
                    vn_test_fail(t, __FILE__, __LINE__, "%s, %d terms, element %d,%d: %a, twin %a", cases[k].text, n, i, j, (double)got,
                                 (double)due);
            }
        vn_replay_free(r);
        vn_tree_free(tree);
    }
}

VN_TEST(replay, terms_and_squares) {
    enum { N = 40, C = 70 };
    vn_rng_t rng = vn_test_rng(t);
    for (int round = 0; round < 20 * vn_test_scale(t); ++round) {
        const bool squares = round % 2, fma_used = round % 4 == 3;
        const int n = 2 + (int)(vn_rng_u64(&rng) % (N - 1));
        float x[N * C], out[C];
        vn_replay_t *r;
        vn_error_t err = {0};
        vn_arithmetic_t arithmetic = vn_arithmetic_default(VN_FMT_F32);
        arithmetic.fma = fma_used;
        vn_tree_t *tree = random_tree(&rng, n, false, fma_used, 2);
        for (int i = 0; i < n * C; ++i) x[i] = draw(&rng, VN_FMT_F32);
        VN_ASSERT(t, tree && vn_replay_compile(tree, &arithmetic, &r, &err) == VN_OK);
        const vn_plane_t plane = {x, C, 1}, none = {0};
        VN_ASSERT(t, vn_replay_terms(r, C, plane, squares ? plane : none, none, out, &err) == VN_OK);
        for (int c = 0; c < C; ++c) {
            float v[N];
            for (int m = 0; m < n; ++m) v[m] = x[m * C + c];
            const twin_t w = {.tree = tree, .a = &arithmetic, .x = v, .y = squares ? v : NULL};
            const float due = twin_value(&w);
            if (memcmp(&due, &out[c], sizeof due) != 0 && !(due == 0 && out[c] == 0))
                vn_test_fail(t, __FILE__, __LINE__, "%d terms, column %d: %a, twin %a", n, c, (double)out[c], (double)due);
        }
        vn_replay_free(r);
        vn_tree_free(tree);
    }
}

/* One, two and many threads give the same bits; a chain of many terms, a block order, and flushing of subnormals. */
VN_TEST(replay, threads_and_subnormals) {
    enum { M = 130, K = 300, N = 150 };
    vn_rng_t rng = vn_test_rng(t);
    float *a = malloc(sizeof *a * M * K), *b = malloc(sizeof *b * K * N), *one = malloc(sizeof *one * M * N),
          *many = malloc(sizeof *many * M * N);
    vn_text_t text = {0};
    vn_tree_t *tree;
    vn_replay_t *r;
    vn_error_t err = {0};
    for (int k = 1; k < K; ++k) vn_text_add(&text, "(");
    vn_text_add(&text, "0");
    for (int k = 1; k < K; ++k) vn_text_printf(&text, ",%d)", k);
    for (int i = 0; i < M * K; ++i) a[i] = draw(&rng, VN_FMT_F32) * 0x1p-63f;
    for (int i = 0; i < K * N; ++i) b[i] = draw(&rng, VN_FMT_F32) * 0x1p-63f;
    VN_ASSERT(t, vn_tree_from_brackets(text.data, &tree, &err) == VN_OK);
    for (int flush = 0; flush < 2; ++flush) {
        vn_arithmetic_t arithmetic = vn_arithmetic_default(VN_FMT_F32);
        arithmetic.fma = true;
        arithmetic.daz = arithmetic.ftz = flush;
        VN_ASSERT(t, vn_replay_compile(tree, &arithmetic, &r, &err) == VN_OK);
        const vn_plane_t pa = {a, K, 1}, pb = {b, N, 1}, none = {0};
        const int threads = vn_threads_get();
        vn_threads_set(1);
        VN_ASSERT(t, vn_replay_product(r, M, N, pa, pb, none, one, N, &err) == VN_OK);
        vn_threads_set(5);
        VN_ASSERT(t, vn_replay_product(r, M, N, pa, pb, none, many, N, &err) == VN_OK);
        vn_threads_set(threads);
        VN_ASSERT(t, memcmp(one, many, sizeof *one * M * N) == 0);
        for (int i = 0; i < M; i += 13)
            for (int j = 0; j < N; j += 7) {
                float acc = a[i * K] * b[j];
                if (flush && fabsf(acc) < 0x1p-126f) acc = copysignf(0, acc);
                for (int k = 1; k < K; ++k) {
                    acc = fmaf(a[i * K + k], b[k * N + j], acc);
                    if (flush && fabsf(acc) < 0x1p-126f) acc = copysignf(0, acc);
                }
                if (one[i * N + j] != acc)
                    vn_test_fail(t, __FILE__, __LINE__, "flush %d: %a, scalar %a", flush, (double)one[i * N + j], (double)acc);
            }
        vn_replay_free(r);
    }
    vn_tree_free(tree);
    vn_text_free(&text);
    free(a);
    free(b);
    free(one);
    free(many);
}

VN_TEST(replay, arithmetic_text) {
    static const char *const texts[] = {"mul+add acc=f32",
                                        "fma acc=f32",
                                        "fma acc=f32 operands=bf16-rne daz ftz",
                                        "mul+add acc=f16 round=rz",
                                        "fma acc=f32 operand-a=tf32-rz operand-b=bf16-rna fused=25-rz fused-result=f16",
                                        "fma acc=f32 narrow=bf16/16 initial=bf16 store=bf16-rne zero-start",
                                        "fma acc=f64"};
    static const char *const bad[] = {"fma  acc=f32",  "fast",       "acc=f99",       "narrow=bf16",
                                      "narrow=bf16/0", "fused=0-rz", "operands=bf16", "round=up"};
    for (size_t k = 0; k < sizeof texts / sizeof *texts; ++k) {
        vn_arithmetic_t a;
        vn_error_t err = {0};
        char back[200];
        VN_ASSERT(t, vn_arithmetic_parse(texts[k], &a, &err) == VN_OK);
        vn_arithmetic_text(&a, back, sizeof back);
        if (strcmp(back, texts[k]) != 0) vn_test_fail(t, __FILE__, __LINE__, "'%s' comes back as '%s'", texts[k], back);
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k) {
        vn_arithmetic_t a;
        vn_error_t err = {0};
        if (vn_arithmetic_parse(bad[k], &a, &err) == VN_OK || !*err.text) vn_test_fail(t, __FILE__, __LINE__, "'%s' was taken", bad[k]);
    }
}

VN_TEST_MAIN(VN_CASE(replay, equals_the_twin), VN_CASE(replay, terms_and_squares), VN_CASE(replay, threads_and_subnormals),
             VN_CASE(replay, arithmetic_text))
