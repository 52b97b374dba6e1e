/* sums.c -- compensated totals, variance of a rounded sum, and the test for sums that cannot round. */
#include "oracle/sums.h"

#include <math.h>
#include <string.h>

#include "tensor/dense.h"

typedef double lanes_t __attribute__((vector_size(64)));
typedef int64_t bits_t __attribute__((vector_size(64)));
enum { LANES = 8 };

/* Eight running TwoSums side by side; out: sums, compensations, absolute sums. */
VN_CLONES static void sum_lanes(const double *x, int64_t n, double *out) {
    lanes_t s = {0}, c = {0}, a = {0};
    for (int64_t k = 0; k < n; k += LANES) {
        lanes_t v;
        memcpy(&v, x + k, sizeof v);
        const lanes_t t = s + v, z = t - s;
        c += (s - (t - z)) + (v - z);
        s = t;
        a += (lanes_t)((bits_t)v & INT64_MAX);
    }
    memcpy(out, &s, sizeof s);
    memcpy(out + LANES, &c, sizeof c);
    memcpy(out + 2 * LANES, &a, sizeof a);
}

VN_CLONES static void square_lanes(const double *x, int64_t n, double mu_hi, double mu_lo, double *out) {
    lanes_t s = {0}, c = {0};
    for (int64_t k = 0; k < n; k += LANES) {
        lanes_t v;
        memcpy(&v, x + k, sizeof v);
        v = (v - mu_hi) - mu_lo;
        v *= v;
        const lanes_t t = s + v, z = t - s;
        c += (s - (t - z)) + (v - z);
        s = t;
    }
    memcpy(out, &s, sizeof s);
    memcpy(out + LANES, &c, sizeof c);
}

VN_CLONES static void abs_lanes(const double *x, int64_t n, double *out) {
    lanes_t s = {0}, c = {0};
    for (int64_t k = 0; k < n; k += LANES) {
        lanes_t v;
        memcpy(&v, x + k, sizeof v);
        v = (lanes_t)((bits_t)v & INT64_MAX);
        const lanes_t t = s + v, z = t - s;
        c += (s - (t - z)) + (v - z);
        s = t;
    }
    memcpy(out, &s, sizeof s);
    memcpy(out + LANES, &c, sizeof c);
}

static vn_sum2_t merge(const double *s, const double *c) {
    double hi = 0, lo = 0;
    for (int k = 0; k < LANES; ++k) vn_two_sum_add(&hi, &lo, s[k]);
    for (int k = 0; k < LANES; ++k) lo += c[k];
    return (vn_sum2_t){.hi = hi, .lo = lo};
}

static vn_sum2_t normal(double hi, double lo, double abs) {
    const double t = hi + lo;
    return (vn_sum2_t){.hi = t, .lo = lo - (t - hi), .abs = abs};
}

/* Absolute sums overflowed or a term is not finite: the extended format has the exponents, and Inf and NaN follow IEEE addition. */
static vn_sum2_t sum_wide(const double *x, int64_t n, double abs) {
    long double s = 0;
    for (int64_t k = 0; k < n; ++k) s += x[k];
    return (vn_sum2_t){.hi = (double)s, .abs = abs};
}

static vn_sum2_t sum_short(const double *x, int64_t n) {
    double part[3 * LANES], abs = 0;
    const int64_t whole = n - n % LANES;
    sum_lanes(x, whole, part);
    vn_sum2_t r = merge(part, part + LANES);
    for (int k = 0; k < LANES; ++k) abs += part[2 * LANES + k];
    for (int64_t k = whole; k < n; ++k) {
        vn_two_sum_add(&r.hi, &r.lo, x[k]);
        abs += fabs(x[k]);
    }
    r.abs = abs;
    return r;
}

static vn_sum2_t sum_abs_short(const double *x, int64_t n) {
    double part[2 * LANES];
    const int64_t whole = n - n % LANES;
    abs_lanes(x, whole, part);
    vn_sum2_t r = merge(part, part + LANES);
    for (int64_t k = whole; k < n; ++k) vn_two_sum_add(&r.hi, &r.lo, fabs(x[k]));
    return r;
}

static vn_sum2_t squares_short(const double *x, int64_t n, double mu_hi, double mu_lo) {
    double part[2 * LANES];
    const int64_t whole = n - n % LANES;
    square_lanes(x, whole, mu_hi, mu_lo, part);
    vn_sum2_t r = merge(part, part + LANES);
    for (int64_t k = whole; k < n; ++k) {
        const double d = (x[k] - mu_hi) - mu_lo;
        vn_two_sum_add(&r.hi, &r.lo, d * d);
    }
    return r;
}

/* Long sums in parts whose number and size depend on n alone, added up in order. */
enum { PART = 1 << 15, PARTS = 1024 };

typedef struct parts {
    const double *x;           /* or NULL: */
    const vn_tensor_t *source; /* decoded part by part, from `first` on */
    int64_t first;
    int64_t n, size;
    int kind; /* 0 terms, 1 absolute, 2 squares of deviations */
    double mu_hi, mu_lo;
    vn_sum2_t *part;
} parts_t;

/* A part in blocks that stay in the first cache. */
static vn_sum2_t decoded_part(const parts_t *s, int64_t begin, int64_t end) {
    enum { BLOCK = 1 << 12 };
    double block[BLOCK];
    vn_sum2_t r = {0};
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t n = end - at < BLOCK ? end - at : BLOCK;
        vn_tensor_take_f64(s->source, s->first + at, n, block);
        const vn_sum2_t b = sum_short(block, n);
        vn_two_sum_add(&r.hi, &r.lo, b.hi);
        r.lo += b.lo;
        r.abs += b.abs;
    }
    return r;
}

static vn_sum2_t one_part(const parts_t *s, int64_t begin, int64_t end) {
    if (!s->x) return decoded_part(s, begin, end);
    const double *x = s->x + begin;
    const int64_t n = end - begin;
    return s->kind == 0 ? sum_short(x, n) : s->kind == 1 ? sum_abs_short(x, n) : squares_short(x, n, s->mu_hi, s->mu_lo);
}

static void part_range(void *ctx, int64_t begin, int64_t end) {
    parts_t *s = ctx;
    for (int64_t i = begin; i < end; ++i) s->part[i] = one_part(s, i * s->size, s->n < (i + 1) * s->size ? s->n : (i + 1) * s->size);
}

static vn_sum2_t run_parts(parts_t *s) {
    s->size = PART;
    if (s->n <= PART) return one_part(s, 0, s->n);
    vn_sum2_t part[PARTS];
    s->part = part;
    while (s->size * PARTS < s->n) s->size *= 2;
    const int64_t count = (s->n - 1) / s->size + 1;
    vn_parallel(count, 1, part_range, s);
    vn_sum2_t r = {0};
    for (int64_t i = 0; i < count; ++i) {
        vn_two_sum_add(&r.hi, &r.lo, part[i].hi);
        r.lo += part[i].lo;
        r.abs += part[i].abs;
    }
    return r;
}

static vn_sum2_t sum_parts(int kind, const double *x, int64_t n, double mu_hi, double mu_lo) {
    parts_t s = {.x = x, .n = n, .kind = kind, .mu_hi = mu_hi, .mu_lo = mu_lo};
    return run_parts(&s);
}

vn_sum2_t vn_sum2_of(const vn_tensor_t *t, int64_t first, int64_t n) {
    parts_t s = {.source = t, .first = first, .n = n};
    const vn_sum2_t r = run_parts(&s);
    const double abs = r.abs * (1 + ((double)n + 4) * 0x1p-53);
    if (isfinite(abs)) return normal(r.hi, r.lo, abs);
    long double wide = 0; /* as sum_wide */
    for (int64_t k = 0; k < n; ++k) wide += vn_tensor_get_f64(t, first + k);
    return (vn_sum2_t){.hi = (double)wide, .abs = abs};
}

vn_sum2_t vn_sum2(const double *x, int64_t n) {
    const vn_sum2_t r = sum_parts(0, x, n, 0, 0);
    const double abs = r.abs * (1 + ((double)n + 4) * 0x1p-53);
    if (!isfinite(abs)) return sum_wide(x, n, abs);
    return normal(r.hi, r.lo, abs);
}

vn_sum2_t vn_sum2_abs(const double *x, int64_t n) {
    vn_sum2_t r = sum_parts(1, x, n, 0, 0);
    if (!isfinite(r.hi)) {
        long double s = 0;
        for (int64_t k = 0; k < n; ++k) s += fabs(x[k]);
        return (vn_sum2_t){.hi = (double)s, .abs = (double)s};
    }
    r = normal(r.hi, r.lo, 0);
    r.abs = r.hi * (1 + 0x1p-52);
    return r;
}

vn_sum2_t vn_sum2_squares(const double *x, int64_t n, double mu_hi, double mu_lo) {
    vn_sum2_t r = sum_parts(2, x, n, mu_hi, mu_lo);
    if (!isfinite(r.hi)) {
        long double s = 0;
        for (int64_t k = 0; k < n; ++k) {
            const long double d = (long double)x[k] - mu_hi - mu_lo;
            s += d * d;
        }
        return (vn_sum2_t){.hi = (double)s, .abs = (double)s};
    }
    r = normal(r.hi, r.lo, 0);
    r.abs = r.hi * (1 + 0x1p-51);
    return r;
}

vn_sum2_t vn_sum2_over(vn_sum2_t s, double count) {
    const double q = s.hi / count;
    if (!isfinite(q)) return (vn_sum2_t){.hi = q, .abs = s.abs / count};
    const long double rest = (long double)s.hi - (long double)q * count; /* exact for counts below 2^11, else to 2^-64 of q */
    return normal(q, (double)(rest + s.lo) / count, s.abs / count * (1 + 0x1p-52));
}

bool vn_sum_exact(const double *x, int64_t n, double abs, vn_format_t format) {
    const vn_format_info_t *f = vn_format_info(format);
    if (!isfinite(abs) || abs > f->max) return false;
    if (abs == 0) return true;
    int e;
    if (frexp(abs, &e) == 0.5) --e; /* abs <= 2^e */
    int g = e - f->p;
    const int floor_g = (int)lrint(log2(f->eta));
    if (g < floor_g) g = floor_g;
    if (g < -1000 || g > 960) return false; /* the scale below would leave f64; no statement */
    const double inverse = ldexp(1, -g);
    for (int64_t k = 0; k < n;) { /* blocks: general data leave at once */
        const int64_t end = n - k > 64 ? k + 64 : n;
        int bad = 0;
        for (; k < end; ++k) {
            const double v = x[k] * inverse;
            bad |= rint(v) != v;
        }
        if (bad) return false;
    }
    return true;
}

static double binade(double x) { /* 2^floor(log2 |x|), 0 for zero and subnormals of f64 */
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    b &= UINT64_C(0x7ff0000000000000);
    memcpy(&x, &b, sizeof x);
    return x;
}

double vn_node_variance(vn_format_t format, double x) {
    if (!isfinite(x)) return 0;
    const double ulp = vn_ulp(format, x);
    return ulp * ulp / 12;
}

/* What one chain did: squared ulps of its inexact nodes in units of (2 u)^2, their number, and where it ended. */
typedef struct nodes {
    double sum2;
    int64_t inexact;
    double end;
} nodes_t;

/* The model, or where the chain itself ends three deviations off, its own error: equal additions repeat one error, and sums may stall. */
static double twin_variance(double model, double error) { return error * error > 9 * model ? error * error : model; }

/* One addition of a chain in f32 as f64 sees it: t the exact sum (or its rounding to f64, which nothing narrower notices), s its rounding. */
static inline void count_node(nodes_t *r, float s, double t) {
    const double b = (double)s != t ? binade(t) : 0;
    r->inexact += b != 0;
    r->sum2 += b * b;
}

VN_CLONES static bool all_f32(const double *x, int64_t n) {
    int64_t other = 0;
    for (int64_t k = 0; k < n; ++k) other |= (double)(float)x[k] != x[k];
    return other == 0;
}

/* Both chains at once, forwards into r[0] and backwards into r[1]: neither waits for the other. Members of f32 are added in f32, which rounds as
 * f64 followed by f32 would (53 >= 2 * 24 + 2) in one step of three. */
static void walk_both_f32(const double *x, int64_t n, nodes_t *r) {
    float up = (float)x[0], down = (float)x[n - 1];
    nodes_t a = {0}, b = {0};
    if (all_f32(x, n)) {
        for (int64_t k = 1; k < n; ++k) {
            const double v = x[k], w = x[n - 1 - k], t = (double)up + v, d = (double)down + w;
            up += (float)v;
            down += (float)w;
            count_node(&a, up, t);
            count_node(&b, down, d);
        }
    } else {
        for (int64_t k = 1; k < n; ++k) {
            const double t = (double)up + x[k], d = (double)down + x[n - 1 - k];
            up = (float)t;
            down = (float)d;
            count_node(&a, up, t);
            count_node(&b, down, d);
        }
    }
    a.end = up;
    b.end = down;
    r[0] = a;
    r[1] = b;
}

/* One pass over x from `first` in steps of `step`, in the arithmetic itself. prefix, if given, gets the variance after each term. */
static nodes_t walk_f32(const double *x, int64_t n, int64_t first, int64_t step, double *prefix) {
    nodes_t r = {0, 0, 0};
    float s = (float)x[first];
    double exact = x[first];
    for (int64_t k = 1; k < n; ++k) {
        const double v = x[first + k * step], t = (double)s + v;
        s = (float)t;
        exact += v;
        count_node(&r, s, t);
        if (prefix) prefix[k] += twin_variance(r.sum2 * (0x1p-46 / 12), s - exact);
    }
    r.end = s;
    return r;
}

static nodes_t walk_f64(const double *x, int64_t n, int64_t first, int64_t step, double *prefix) {
    nodes_t r = {0, 0, 0};
    double s = x[first], rest = 0;
    for (int64_t k = 1; k < n; ++k) {
        const double v = x[first + k * step], t = s + v, z = t - s, lost = (s - (t - z)) + (v - z);
        const double b = lost != 0 ? binade(t) : 0;
        s = t;
        rest += lost;
        r.inexact += b != 0;
        r.sum2 += b * b;
        if (prefix) prefix[k] += twin_variance(r.sum2 * (0x1p-104 / 12), rest);
    }
    r.end = s;
    return r;
}

static nodes_t walk_any(vn_format_t f, const double *x, int64_t n, int64_t first, int64_t step, double *prefix) {
    nodes_t r = {0, 0, 0};
    const double two_u = 2 * vn_format_info(f)->u;
    double s = x[first], exact = x[first];
    for (int64_t k = 1; k < n; ++k) {
        const double v = x[first + k * step], t = s + v;
        s = vn_round_to(f, t, VN_RNE, true);
        exact += v;
        const double b = s != t ? vn_ulp(f, t) / two_u : 0;
        r.inexact += b != 0;
        r.sum2 += b * b;
        if (prefix) prefix[k] += twin_variance(r.sum2 * two_u * two_u / 12, s - exact);
    }
    r.end = s;
    return r;
}

static nodes_t walk(vn_format_t f, const double *x, int64_t n, int64_t first, int64_t step, double *prefix) {
    if (f == VN_FMT_F32) return walk_f32(x, n, first, step, prefix);
    if (f == VN_FMT_F64) return walk_f64(x, n, first, step, prefix);
    return walk_any(f, x, n, first, step, prefix);
}

double vn_sum_variance(vn_format_t format, const double *x, int64_t n, double sum) {
    if (n < 2 || !isfinite(sum)) return 0;
    const double u = vn_format_info(format)->u;
    nodes_t both[2];
    if (format == VN_FMT_F32) walk_both_f32(x, n, both);
    else both[0] = walk(format, x, n, 0, 1, NULL), both[1] = walk(format, x, n, n - 1, -1, NULL);
    const nodes_t a = both[0], b = both[1];
    const double q = vn_sum2_squares(x, n, 0, 0).hi, count = (double)n;
    double random = 0.18 * u * u * ((count + 1) / 2 * q + (count + 1) / 3 * (sum * sum - q) - q / count);
    random *= (double)(a.inexact > b.inexact ? a.inexact : b.inexact) / (count - 1);
    const double ordered = fmax(a.sum2, b.sum2) * 4 * u * u / 12;
    double v = fmax(ordered, random);
    if (isfinite(a.end) && isfinite(b.end)) v = fmax(twin_variance(v, a.end - sum), twin_variance(v, b.end - sum));
    return isfinite(v) ? v : 0;
}

void vn_prefix_variance(vn_format_t format, const double *x, int64_t n, double *out) {
    if (n > 0) walk(format, x, n, 0, 1, out);
}
