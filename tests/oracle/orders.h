/* orders.h -- real arithmetic in many orders, for tests: what back ends do with a sum. Written apart from the oracle and from the mutant worker.
 *
 * Numbers are floats. With narrow false every operation is the machine's own f32; with narrow true it is rounded to format f after each
 * step, as an accumulator of that format would.
 */
#ifndef VN_TEST_ORDERS_H
#define VN_TEST_ORDERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "vernier/tensor.h"

typedef enum order_kind {
    ORDER_SEQUENTIAL,
    ORDER_REVERSED,
    ORDER_PAIRWISE,
    ORDER_LANES,
    ORDER_BLOCKED,
    ORDER_SPLIT,
    ORDER_KINDS
} order_kind_t;

typedef struct order {
    const char *name;
    order_kind_t kind;
    int size; /* lanes, elements of a block, slices */
    bool fused;
} order_t;

static const order_t orders[] = {
    {"sequential", ORDER_SEQUENTIAL, 0, false},
    {"reversed", ORDER_REVERSED, 0, false},
    {"pairwise", ORDER_PAIRWISE, 0, false},
    {"lanes(4)", ORDER_LANES, 4, false},
    {"lanes(8)", ORDER_LANES, 8, false},
    {"lanes(16)", ORDER_LANES, 16, false},
    {"blocked(64)", ORDER_BLOCKED, 64, false},
    {"blocked(128)", ORDER_BLOCKED, 128, false},
    {"blocked(256)", ORDER_BLOCKED, 256, false},
    {"blocked(512)", ORDER_BLOCKED, 512, false},
    {"fma chain", ORDER_SEQUENTIAL, 0, true},
    {"fma lanes(8)", ORDER_LANES, 8, true},
    {"fma blocked(256)", ORDER_BLOCKED, 256, true},
    {"split-k(2)", ORDER_SPLIT, 2, false},
    {"split-k(7)", ORDER_SPLIT, 7, true},
    {"split-k(16)", ORDER_SPLIT, 16, false},
    {"split-k(64)", ORDER_SPLIT, 64, true},
};
enum { ORDERS = sizeof orders / sizeof *orders, MOST_LANES = 16 };

/** The arithmetic of one execution. */
typedef struct arith {
    vn_format_t f;
    bool narrow;
} arith_t;

static inline __attribute__((always_inline)) float narrowed(vn_format_t f, double x) { return (float)vn_round_to(f, x, VN_RNE, false); }
static inline __attribute__((always_inline)) float op_add(arith_t m, float a, float b) {
    return m.narrow ? narrowed(m.f, (double)a + b) : a + b;
}
static inline __attribute__((always_inline)) float op_sub(arith_t m, float a, float b) { return op_add(m, a, -b); }
static inline __attribute__((always_inline)) float op_mul(arith_t m, float a, float b) {
    return m.narrow ? narrowed(m.f, (double)a * b) : a * b;
}
static inline __attribute__((always_inline)) float op_div(arith_t m, float a, float b) {
    return m.narrow ? narrowed(m.f, (double)a / b) : a / b;
}
static inline float op_sqrt(arith_t m, float a) { return m.narrow ? narrowed(m.f, sqrt((double)a)) : sqrtf(a); }
/* Functions within half an ulp and a little: exact in f64, rounded once. */
static inline float op_exp(arith_t m, float a) { return m.narrow ? narrowed(m.f, exp((double)a)) : (float)exp((double)a); }
static inline float op_log(arith_t m, float a) { return m.narrow ? narrowed(m.f, log((double)a)) : (float)log((double)a); }

/** One more term a b (b NULL: a) into s; fused: one rounding (f32 only: double holds no exact sum of narrower products in all cases). */
static inline __attribute__((always_inline)) float op_term(arith_t m, bool fused, float s, const float *a, const float *b) {
    if (!b) return op_add(m, s, *a);
    if (fused && !m.narrow) return fmaf(*a, *b, s);
    return op_add(m, s, op_mul(m, *a, *b));
}

static inline __attribute__((always_inline)) float chain(arith_t m, bool fused, const float *a, const float *b, int64_t n, int64_t step) {
    float s = 0;
    for (int64_t i = 0; i < n; i += step) s = op_term(m, fused, s, a + i, b ? b + i : NULL);
    return s;
}

static inline float tree(arith_t m, const float *a, const float *b, int64_t n) {
    if (n == 1) return b ? op_mul(m, *a, *b) : *a;
    const int64_t half = n / 2;
    return op_add(m, tree(m, a, b, half), tree(m, a + half, b ? b + half : NULL, n - half));
}

static inline __attribute__((always_inline)) float lanes(arith_t m, bool fused, const float *a, const float *b, int64_t n, int count) {
    float lane[MOST_LANES] = {0};
    int64_t i = 0;
    for (; i + count <= n; i += count)
        for (int l = 0; l < count; ++l) lane[l] = op_term(m, fused, lane[l], a + i + l, b ? b + i + l : NULL);
    for (int l = 0; i < n; ++i, ++l) lane[l] = op_term(m, fused, lane[l], a + i, b ? b + i : NULL);
    for (int width = count / 2; width > 0; width /= 2)
        for (int l = 0; l < width; ++l) lane[l] = op_add(m, lane[l], lane[l + width]);
    return lane[0];
}

static inline __attribute__((always_inline)) float dot_in(arith_t m, const order_t *o, const float *a, const float *b, int64_t n) {
    float s = 0;
    if (n <= 0) return 0;
    switch (o->kind) {
    case ORDER_REVERSED:
        for (int64_t i = n - 1; i >= 0; --i) s = op_term(m, o->fused, s, a + i, b ? b + i : NULL);
        return s;
    case ORDER_PAIRWISE: return tree(m, a, b, n);
    case ORDER_LANES: return lanes(m, o->fused, a, b, n, o->size);
    case ORDER_BLOCKED:
        for (int64_t i = 0; i < n; i += o->size)
            s = op_add(m, s, chain(m, o->fused, a + i, b ? b + i : NULL, n - i < o->size ? n - i : o->size, 1));
        return s;
    case ORDER_SPLIT:
        for (int64_t k = 0; k < o->size; ++k) {
            const int64_t from = n * k / o->size, to = n * (k + 1) / o->size;
            if (to > from) s = op_add(m, s, lanes(m, o->fused, a + from, b ? b + from : NULL, to - from, 8));
        }
        return s;
    default: return chain(m, o->fused, a, b, n, 1);
    }
}

/** Sum of a[i] b[i] (b NULL: of a[i]) in order o. */
static inline float dot(arith_t m, const order_t *o, const float *a, const float *b, int64_t n) {
    return m.narrow ? dot_in((arith_t){m.f, true}, o, a, b, n) : dot_in((arith_t){m.f, false}, o, a, b, n);
}

/** The same for products of all elements. Orders without a meaning of their own run in sequence. */
static inline float product(arith_t m, const order_t *o, const float *a, int64_t n) {
    float s = 1, lane[MOST_LANES];
    if (o->kind == ORDER_PAIRWISE && n > 1) return op_mul(m, product(m, o, a, n / 2), product(m, o, a + n / 2, n - n / 2));
    if (o->kind == ORDER_LANES) {
        for (int l = 0; l < o->size; ++l) lane[l] = 1;
        for (int64_t i = 0; i < n; ++i) lane[i % o->size] = op_mul(m, lane[i % o->size], a[i]);
        for (int l = 0; l < o->size; ++l) s = op_mul(m, s, lane[l]);
        return s;
    }
    for (int64_t i = 0; i < n; ++i) s = op_mul(m, s, a[o->kind == ORDER_REVERSED ? n - 1 - i : i]);
    return s;
}

/** Inclusive prefix sums: in sequence, by doubling distances (pairwise), or slice by slice with a carry (blocked, split). */
static inline void prefix(arith_t m, const order_t *o, const float *a, float *y, int64_t n) {
    if (o->kind == ORDER_PAIRWISE) {
        for (int64_t i = 0; i < n; ++i) y[i] = a[i];
        for (int64_t d = 1; d < n; d *= 2)
            for (int64_t i = n - 1; i >= d; --i) y[i] = op_add(m, y[i], y[i - d]);
        return;
    }
    const int64_t size = o->kind == ORDER_BLOCKED ? o->size : o->kind == ORDER_SPLIT ? (n + o->size - 1) / o->size : n;
    float carry = 0;
    for (int64_t from = 0; from < n; from += size) {
        float s = 0;
        const int64_t to = from + size < n ? from + size : n;
        for (int64_t i = from; i < to; ++i) {
            s = op_add(m, s, a[i]);
            y[i] = from ? op_add(m, carry, s) : s;
        }
        carry = y[to - 1];
    }
}

#endif
