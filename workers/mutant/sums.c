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

enum { TILE = 256, BLOCK = 128, MAX_LANES = 16, MAX_DEPTH = 64, GROUP = 16 };

typedef struct lanes lanes_t;
struct lanes {
    size_t size; /* of an element */
    vn_format_t format;
    vn_rounding_t mode;
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
    if (l->format != VN_FMT_F64) vn_round_array(l->format, l->mode, y, n);
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

static void any_add(const lanes_t *l, void *d, const void *b, int64_t n) {
    double *y = d;
    const double *x = b;
    if (l->mode == VN_RNE)
        for (int64_t i = 0; i < n; ++i) y[i] += x[i];
    else
        for (int64_t i = 0; i < n; ++i) y[i] = odd_sum(x[i], y[i]); /* a first rounding to nearest would show in a cut */
    any_round(l, y, n);
}

static void any_mac(const lanes_t *l, void *d, double a, const void *b, int64_t n) {
    double t[TILE];
    any_mul(l, t, a, b, n);
    any_add(l, d, t, n);
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
    const vn_rounding_t mode = a->accumulator.format ? a->accumulator.mode : VN_RNE;
    lanes_t l = {sizeof(double), f, mode, a->ftz, vn_format_info(f)->tau, any_mul, any_add, any_mac, any_fma};
    if (f == VN_FMT_F32 && mode == VN_RNE && !a->ftz && !wide && a->association != ADDER16)
        l = (lanes_t){.size = sizeof(float), .format = f, .mul = f32_mul, f32_add, f32_mac, f32_fma};
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

static void lanes(const tile_t *t, int64_t n, int count, void *acc) {
    for (int i = 0; i < count; ++i) chain(t, i, n, count, scratch_row(t, i));
    for (int step = 1; step < count; step *= 2)
        for (int i = 0; i < count; i += 2 * step) t->l->add(t->l, scratch_row(t, i), scratch_row(t, i + step), t->n);
    memcpy(acc, scratch_row(t, 0), (size_t)t->n * t->l->size);
}
static void lanes8(const tile_t *t, int64_t n, void *acc) { lanes(t, n, 8, acc); }
static void lanes16(const tile_t *t, int64_t n, void *acc) { lanes(t, n, MAX_LANES, acc); }

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

/* The adder of a matrix unit: sixteen products and the running sum, each cut at 2^-24 of the largest one's binade, added exactly, cut to 24 bits. */
static double group_sum(const double *p, int n, double acc) {
    double largest = fabs(acc);
    for (int i = 0; i < n; ++i) largest = fabs(p[i]) > largest ? fabs(p[i]) : largest;
    if (!(largest > 0) || isinf(largest) || isnan(acc)) {
        for (int i = 0; i < n; ++i) acc += p[i];
        return acc;
    }
    int exponent;
    frexp(largest, &exponent);
    const double quantum = ldexp(1, exponent - 25);
    double sum = trunc(acc / quantum);
    for (int i = 0; i < n; ++i) sum += trunc(p[i] / quantum);
    return vn_round_to(VN_FMT_F32, sum * quantum, VN_RZ, false);
}

static void adder16(const tile_t *t, int64_t k, void *acc) {
    double *y = acc, p[GROUP];
    clear(t, acc);
    for (int64_t c = 0; c < t->n; ++c)
        for (int64_t from = 0; from < k; from += GROUP) {
            const int n = k - from < GROUP ? (int)(k - from) : GROUP;
            for (int i = 0; i < n; ++i) p[i] = t->a[from + i] * ((const double *)b_row(t, from + i))[c];
            y[c] = group_sum(p, n, y[c]);
        }
}

static void (*const orders[])(const tile_t *t, int64_t k, void *acc) = {
    [SEQUENTIAL] = sequential, [REVERSED] = reversed,   [PAIRWISE] = pairwise, [LANES8] = lanes8,
    [LANES16] = lanes16,       [BLOCKS128] = blocks128, [FUSED] = fused,       [ADDER16] = adder16,
};

/* Equal parts of the terms, each in the chosen order and stored as a partial sum; the partial sums are chained. */
static void in_parts(const arithmetic_t *a, const tile_t *t, int64_t k, void *acc, void *part) {
    const int64_t length = (k + a->split - 1) / a->split;
    clear(t, acc);
    for (int64_t from = 0; from < k; from += length) {
        tile_t sub = *t;
        sub.a += from;
        sub.b += (size_t)from * t->stride;
        orders[a->association](&sub, k - from < length ? k - from : length, part);
        if (a->partials.format && t->l->size == sizeof(double)) vn_round_array(a->partials.format, a->partials.mode, part, t->n);
        else if (a->partials.format)
            for (int64_t i = 0; i < t->n; ++i) {
                float *y = (float *)part + i;
                *y = (float)vn_round_to(a->partials.format, (double)*y, a->partials.mode, false);
            }
        t->l->add(t->l, acc, part, t->n);
    }
}

/* ---- products of matrices ---- */

typedef struct job {
    const arithmetic_t *arithmetic;
    lanes_t l;
    int64_t k, terms, n, tiles; /* k: from row to row of A; terms: those that are summed */
    const double *a;
    const unsigned char *b;
    double *out;
    atomic_bool failed;
} job_t;

static void run_tiles(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    unsigned char *memory = vn_alloc((size_t)(MAX_DEPTH + 2) * TILE, j->l.size);
    if (!memory) {
        atomic_store(&j->failed, true);
        return;
    }
    unsigned char *acc = memory + (size_t)MAX_DEPTH * TILE * j->l.size, *part = acc + (size_t)TILE * j->l.size;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / j->tiles, col = i % j->tiles * TILE;
        const tile_t t = {.l = &j->l,
                          .a = j->a + row * j->k,
                          .b = j->b + (size_t)col * j->l.size,
                          .stride = (size_t)j->n * j->l.size,
                          .n = j->n - col < TILE ? j->n - col : TILE,
                          .scratch = memory};
        double *out = j->out + row * j->n + col;
        if (j->arithmetic->split > 1 && j->terms > 1) in_parts(j->arithmetic, &t, j->terms, acc, part);
        else orders[j->arithmetic->association](&t, j->terms, acc);
        if (j->l.size == sizeof(float))
            for (int64_t c = 0; c < t.n; ++c) out[c] = ((const float *)(const void *)acc)[c];
        else memcpy(out, acc, (size_t)t.n * sizeof(double));
        if (j->arithmetic->result.format) vn_round_array(j->arithmetic->result.format, j->arithmetic->result.mode, out, t.n);
    }
    vn_free(memory);
}

static vn_status_t sum_terms(const call_t *c, bool wide, int64_t m, int64_t k, int64_t terms, int64_t n, const double *a, const double *b,
                             double *out) {
    job_t j = {
        .arithmetic = c->a, .l = choose(c->a, wide), .k = k, .terms = terms, .n = n, .tiles = (n + TILE - 1) / TILE, .a = a, .out = out};
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

/* Terms that a faulty kernel leaves out count as zero: from <= k < to. */
static vn_status_t without(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, int64_t from, int64_t to, const double *a,
                           const double *b, double *out) {
    double *some = vn_alloc((size_t)(m * k), sizeof *some);
    if (!some) return no_memory(c);
    for (int64_t i = 0; i < m * k; ++i) some[i] = i % k >= from && i % k < to ? 0 : a[i];
    vn_status_t s = sum_terms(c, wide, m, k, k, n, some, b, out);
    vn_free(some);
    return s;
}

vn_status_t contract(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, const double *a, const double *b, double *out) {
    if (faulty(c, F_K_TAIL)) {
        const int64_t tail = (int64_t)fault_number(c, 1);
        if (tail < 1 || tail >= k) return refuse(c, "fewer terms than the fault drops");
        return sum_terms(c, wide, m, k, k - tail, n, a, b, out);
    }
    if (faulty(c, F_TERM_DROPPED) && k > 1) return without(c, wide, m, k, n, k / 2, k / 2 + 1, a, b, out);
    if (faulty(c, F_BLOCK_MERGE)) { /* the last block alone */
        const int64_t block = (int64_t)fault_number(c, (double)((k + 1) / 2));
        if (block < 1 || block >= k) return refuse(c, "no second block of terms");
        return without(c, wide, m, k, n, 0, (k - 1) / block * block, a, b, out);
    }
    return sum_terms(c, wide, m, k, k, n, a, b, out);
}

vn_status_t sum_each(const call_t *c, bool wide, int64_t rows, int64_t k, const double *x, double *out) {
    double *turned = vn_alloc((size_t)(rows * k), sizeof *turned);
    if (!turned) return no_memory(c);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < k; ++i) turned[i * rows + r] = x[r * k + i];
    vn_status_t s = sum_rows(c, wide, k, rows, turned, out);
    vn_free(turned);
    return s;
}

vn_status_t sum_rows(const call_t *c, bool wide, int64_t k, int64_t n, const double *x, double *out) {
    double *ones = vn_alloc((size_t)k, sizeof *ones);
    if (!ones) return no_memory(c);
    for (int64_t i = 0; i < k; ++i) ones[i] = 1;
    vn_status_t s = contract(c, wide, 1, k, n, ones, x, out);
    vn_free(ones);
    return s;
}
