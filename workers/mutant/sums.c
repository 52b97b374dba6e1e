/* sums.c -- sums of products in a chosen format and order: the one place where this back end's arithmetic is made.
 *
 * A row of C is computed as a vector: every element has its own chain over k, in the chosen order, and elements lie side by side. Two kinds of
 * lanes do the steps: f32 lanes in native floats (the default, fast), and lanes in doubles that are rounded to any format after
 * every product and every addition. Products and sums of two numbers of p <= 24 bits are correctly rounded by way of double: 53 >= 2p+2.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "mutant.h"

enum { TILE = 256, BLOCK = 128, LANES = 8, MAX_DEPTH = 64 };

typedef struct lanes lanes_t;
struct lanes {
    size_t size; /* of an element */
    vn_format_t format;
    bool ftz;
    double tau;                                                                 /* smallest normal number */
    void (*mul)(const lanes_t *l, void *d, double a, const void *b, int64_t n); /* d = a b */
    void (*add)(const lanes_t *l, void *d, const void *x, int64_t n);           /* d = d + x */
    void (*mac)(const lanes_t *l, void *d, double a, const void *b, int64_t n); /* d = d + a b, two roundings */
    void (*fma)(const lanes_t *l, void *d, double a, const void *b, int64_t n); /* d = d + a b, one rounding */
};

/* ---- f32 lanes ---- */

CLONES static void f32_mul(const lanes_t *l, void *d, double a, const void *b, int64_t n) {
    (void)l;
    float *restrict y = d;
    const float *restrict x = b, f = (float)a;
    for (int64_t i = 0; i < n; ++i) y[i] = f * x[i];
}

CLONES static void f32_add(const lanes_t *l, void *d, const void *b, int64_t n) {
    (void)l;
    float *restrict y = d;
    const float *restrict x = b;
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

CLONES static void f32_mac(const lanes_t *l, void *d, double a, const void *b, int64_t n) {
    (void)l;
    float *restrict y = d;
    const float *restrict x = b, f = (float)a;
    for (int64_t i = 0; i < n; ++i) y[i] += f * x[i]; /* -ffp-contract=off: two roundings */
}

FMA_CLONES static void f32_fma(const lanes_t *l, void *d, double a, const void *b, int64_t n) {
    (void)l;
    float *restrict y = d;
    const float *restrict x = b, f = (float)a;
    for (int64_t i = 0; i < n; ++i) y[i] = fmaf(f, x[i], y[i]);
}

/* ---- lanes of any format, in doubles ---- */

static void any_round(const lanes_t *l, double *y, int64_t n) {
    if (l->format != VN_FMT_F64) vn_round_array(l->format, VN_RNE, y, n);
    if (!l->ftz) return;
    for (int64_t i = 0; i < n; ++i)
        if (fabs(y[i]) < l->tau) y[i] = copysign(0.0, y[i]);
}

static void any_mul(const lanes_t *l, void *d, double a, const void *b, int64_t n) {
    double *y = d;
    const double *x = b;
    for (int64_t i = 0; i < n; ++i) y[i] = a * x[i];
    any_round(l, y, n);
}

static void any_add(const lanes_t *l, void *d, const void *b, int64_t n) {
    double *y = d;
    const double *x = b;
    for (int64_t i = 0; i < n; ++i) y[i] += x[i];
    any_round(l, y, n);
}

static void any_mac(const lanes_t *l, void *d, double a, const void *b, int64_t n) {
    double t[TILE];
    any_mul(l, t, a, b, n);
    any_add(l, d, t, n);
}

/* One rounding. f64: the function itself. Else a b is exact in double (2p <= 53) and the sum is taken with an odd last bit where it is inexact,
 * so that the second rounding to p <= 24 bits is the only one that counts (round to odd). */
static double odd_sum(double p, double c) {
    const double s = p + c, t = s - p, e = (p - (s - t)) + (c - t); /* s + e = p + c exactly */
    if (e == 0 || !isfinite(s) || isnan(e)) return s;
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if (!(bits & 1)) bits += (e > 0) == (s > 0) ? 1 : (uint64_t)-1;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

static void any_fma(const lanes_t *l, void *d, double a, const void *b, int64_t n) {
    double *y = d;
    const double *x = b;
    if (l->format == VN_FMT_F64)
        for (int64_t i = 0; i < n; ++i) y[i] = fma(a, x[i], y[i]);
    else
        for (int64_t i = 0; i < n; ++i) y[i] = odd_sum(a * x[i], y[i]);
    any_round(l, y, n);
}

static lanes_t choose(const arithmetic_t *a, bool wide) {
    const vn_format_t natural = wide ? VN_FMT_F64 : VN_FMT_F32, f = a->accumulator.format ? a->accumulator.format : natural;
    lanes_t l = {.size = sizeof(double), .format = f, .ftz = a->ftz, .tau = vn_format_info(f)->tau, any_mul, any_add, any_mac, any_fma};
    if (f == VN_FMT_F32 && !a->ftz && !wide) l = (lanes_t){.size = sizeof(float), .format = f, .mul = f32_mul, f32_add, f32_mac, f32_fma};
    return l;
}

/* ---- orders ---- */

typedef struct tile {
    const lanes_t *l;
    const double *a;        /* row of A: a[k] */
    const unsigned char *b; /* B from the tile's first column */
    size_t stride;          /* bytes from B[k] to B[k+1] */
    int64_t n;              /* columns */
    unsigned char *scratch; /* rows of n elements */
} tile_t;

static const void *b_row(const tile_t *t, int64_t k) { return t->b + (size_t)k * t->stride; }
static unsigned char *scratch_row(const tile_t *t, int i) { return t->scratch + (size_t)i * TILE * t->l->size; }
static void clear(const tile_t *t, void *row) { memset(row, 0, (size_t)t->n * t->l->size); }

static void chain(const tile_t *t, int64_t from, int64_t to, int64_t step, void *acc) {
    clear(t, acc);
    for (int64_t k = from; step > 0 ? k < to : k > to; k += step) t->l->mac(t->l, acc, t->a[k], b_row(t, k), t->n);
}

static void sequential(const tile_t *t, int64_t k, void *acc) { chain(t, 0, k, 1, acc); }
static void reversed(const tile_t *t, int64_t k, void *acc) { chain(t, k - 1, -1, -1, acc); }

static void fused(const tile_t *t, int64_t n, void *acc) {
    clear(t, acc);
    for (int64_t k = 0; k < n; ++k) t->l->fma(t->l, acc, t->a[k], b_row(t, k), t->n);
}

static void lanes8(const tile_t *t, int64_t n, void *acc) {
    for (int i = 0; i < LANES; ++i) chain(t, i, n, LANES, scratch_row(t, i));
    for (int step = 1; step < LANES; step *= 2)
        for (int i = 0; i < LANES; i += 2 * step) t->l->add(t->l, scratch_row(t, i), scratch_row(t, i + step), t->n);
    memcpy(acc, scratch_row(t, 0), (size_t)t->n * t->l->size);
}

static void blocks128(const tile_t *t, int64_t n, void *acc) {
    clear(t, acc);
    for (int64_t k = 0; k < n; k += BLOCK) {
        chain(t, k, k + BLOCK < n ? k + BLOCK : n, 1, scratch_row(t, 0));
        t->l->add(t->l, acc, scratch_row(t, 0), t->n);
    }
}

static void tree(const tile_t *t, int64_t from, int64_t n, int depth, void *acc) {
    if (n == 1) {
        t->l->mul(t->l, acc, t->a[from], b_row(t, from), t->n);
        return;
    }
    int64_t left = 1;
    while (2 * left < n) left *= 2;
    tree(t, from, left, depth + 1, acc);
    tree(t, from + left, n - left, depth + 1, scratch_row(t, depth));
    t->l->add(t->l, acc, scratch_row(t, depth), t->n);
}

static void pairwise(const tile_t *t, int64_t n, void *acc) {
    if (n == 0) clear(t, acc);
    else tree(t, 0, n, 0, acc);
}

static void (*const orders[])(const tile_t *t, int64_t k, void *acc) = {
    [SEQUENTIAL] = sequential, [REVERSED] = reversed, [PAIRWISE] = pairwise, [LANES8] = lanes8, [BLOCKS128] = blocks128, [FUSED] = fused,
};

/* ---- products of matrices ---- */

typedef struct job {
    const arithmetic_t *arithmetic;
    lanes_t l;
    int64_t k, n, tiles;
    const double *a;
    const unsigned char *b;
    double *out;
    atomic_bool failed;
} job_t;

static void run_tiles(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    unsigned char *memory = vn_alloc((size_t)(MAX_DEPTH + 1) * TILE, j->l.size);
    if (!memory) {
        atomic_store(&j->failed, true);
        return;
    }
    unsigned char *acc = memory + (size_t)MAX_DEPTH * TILE * j->l.size;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / j->tiles, col = i % j->tiles * TILE;
        const tile_t t = {.l = &j->l,
                          .a = j->a + row * j->k,
                          .b = j->b + (size_t)col * j->l.size,
                          .stride = (size_t)j->n * j->l.size,
                          .n = j->n - col < TILE ? j->n - col : TILE,
                          .scratch = memory};
        double *out = j->out + row * j->n + col;
        orders[j->arithmetic->association](&t, j->k, acc);
        if (j->l.size == sizeof(float))
            for (int64_t c = 0; c < t.n; ++c) out[c] = ((const float *)(const void *)acc)[c];
        else memcpy(out, acc, (size_t)t.n * sizeof(double));
        if (j->arithmetic->result.format) vn_round_array(j->arithmetic->result.format, j->arithmetic->result.mode, out, t.n);
    }
    vn_free(memory);
}

vn_status_t contract(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, const double *a, const double *b, double *out) {
    job_t j = {.arithmetic = c->a, .l = choose(c->a, wide), .k = k, .n = n, .tiles = (n + TILE - 1) / TILE, .a = a, .out = out};
    float *narrow = NULL;
    j.b = (const unsigned char *)b;
    if (j.l.size == sizeof(float)) {
        size_t count;
        narrow = vn_size_mul((size_t)k, (size_t)n, &count) ? vn_alloc(count, sizeof *narrow) : NULL;
        if (!narrow) return no_memory(c);
        for (size_t i = 0; i < count; ++i) narrow[i] = (float)b[i];
        j.b = (const unsigned char *)narrow;
    }
    vn_parallel(m * j.tiles, 4, run_tiles, &j);
    vn_free(narrow);
    return atomic_load(&j.failed) ? no_memory(c) : VN_OK;
}

vn_status_t sum_rows(const call_t *c, bool wide, int64_t k, int64_t n, const double *x, double *out) {
    double *ones = vn_alloc((size_t)k, sizeof *ones);
    if (!ones) return no_memory(c);
    for (int64_t i = 0; i < k; ++i) ones[i] = 1;
    vn_status_t s = contract(c, wide, 1, k, n, ones, x, out);
    vn_free(ones);
    return s;
}

void round_operands(const call_t *c, double *x, int64_t n) {
    if (c->a->operands.format) vn_round_array(c->a->operands.format, c->a->operands.mode, x, n);
}
