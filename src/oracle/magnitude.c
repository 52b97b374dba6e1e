/* magnitude.c -- extents, grids and rounded-up f32 magnitudes of operands. */
#include "oracle/magnitude.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/blas.h"

enum { GRAIN = 1 << 15, MAX_CHUNKS = 1 << 12 };

static const int64_t exponent_mask = INT64_C(0x7ff0000000000000);

/* Magnitudes of doubles order like their bits; bits - 1 sends zero to the top. */
VN_CLONES static void extent_bits(const int64_t *x, int64_t n, int64_t *max, int64_t *min) {
    int64_t hi = 0, lo = INT64_MAX;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t b = x[i] & INT64_MAX, c = (b - 1) & INT64_MAX;
        hi = b > hi ? b : hi;
        lo = c < lo ? c : lo;
    }
    *max = hi;
    *min = lo;
}

static double from_bits(int64_t b) {
    double d;
    memcpy(&d, &b, sizeof d);
    return d;
}

static vn_extent_t extent_chunk(const double *x, int64_t n) {
    int64_t hi, lo;
    extent_bits((const int64_t *)x, n, &hi, &lo);
    vn_extent_t e = {.max = 0, .min = INFINITY, .nonfinite = hi >= exponent_mask};
    if (!e.nonfinite) {
        e.max = from_bits(hi);
        if (hi) e.min = from_bits(lo + 1);
        return e;
    }
    for (int64_t i = 0; i < n; ++i) {
        const double m = fabs(x[i]);
        if (!isfinite(m)) continue;
        if (m > e.max) e.max = m;
        if (m != 0 && m < e.min) e.min = m;
    }
    return e;
}

/* The same on f32. */
VN_CLONES static void extent_bits_f32(const int32_t *x, int64_t n, int32_t *max, int32_t *min) {
    int32_t hi = 0, lo = INT32_MAX;
    for (int64_t i = 0; i < n; ++i) {
        const int32_t b = x[i] & INT32_MAX, c = (int32_t)((uint32_t)b - 1) & INT32_MAX;
        hi = b > hi ? b : hi;
        lo = c < lo ? c : lo;
    }
    *max = hi;
    *min = lo;
}

static double from_bits_f32(int32_t b) {
    float f;
    memcpy(&f, &b, sizeof f);
    return (double)f;
}

static vn_extent_t extent_chunk_f32(const float *x, int64_t n) {
    int32_t hi, lo;
    extent_bits_f32((const int32_t *)x, n, &hi, &lo);
    vn_extent_t e = {.max = 0, .min = INFINITY, .nonfinite = hi >= 0x7f800000};
    if (!e.nonfinite) {
        e.max = from_bits_f32(hi);
        if (hi) e.min = from_bits_f32(lo + 1);
        return e;
    }
    for (int64_t i = 0; i < n; ++i) {
        const double m = fabs((double)x[i]);
        if (!isfinite(m)) continue;
        if (m > e.max) e.max = m;
        if (m != 0 && m < e.min) e.min = m;
    }
    return e;
}

typedef struct extent_job {
    const double *x; /* one of the two */
    const float *f;
    int64_t grain;
    vn_extent_t *parts;
} extent_job_t;

static vn_extent_t chunk_of(const double *x, const float *f, int64_t begin, int64_t n) {
    return x ? extent_chunk(x + begin, n) : extent_chunk_f32(f + begin, n);
}

static void extent_range(void *ctx, int64_t begin, int64_t end) {
    extent_job_t *job = ctx;
    job->parts[begin / job->grain] = chunk_of(job->x, job->f, begin, end - begin);
}

static vn_extent_t extent_of(const double *x, const float *f, int64_t n) {
    if (n <= GRAIN) return chunk_of(x, f, 0, n > 0 ? n : 0);
    int64_t grain = GRAIN;
    while ((n - 1) / grain + 1 > MAX_CHUNKS) grain *= 2;
    const int64_t chunks = (n - 1) / grain + 1;
    vn_extent_t *parts = vn_alloc((size_t)chunks, sizeof *parts);
    if (!parts) return chunk_of(x, f, 0, n);
    extent_job_t job = {x, f, grain, parts};
    vn_parallel(n, grain, extent_range, &job);
    vn_extent_t e = parts[0];
    for (int64_t i = 1; i < chunks; ++i) {
        if (parts[i].max > e.max) e.max = parts[i].max;
        if (parts[i].min < e.min) e.min = parts[i].min;
        e.nonfinite = e.nonfinite || parts[i].nonfinite;
    }
    vn_free(parts);
    return e;
}

vn_extent_t vn_extent(const double *x, int64_t n) { return extent_of(x, NULL, n); }
vn_extent_t vn_extent_f32(const float *x, int64_t n) { return extent_of(NULL, x, n); }

/* 2^e of the lowest set bit of a finite nonzero x. */
static int lowest_bit(double x) {
    int64_t b;
    memcpy(&b, &x, sizeof b);
    b &= INT64_MAX;
    const int e = (int)(b >> 52);
    const uint64_t m = ((uint64_t)b & (((uint64_t)1 << 52) - 1)) | (e ? (uint64_t)1 << 52 : 0);
    return (e ? e : 1) - 1075 + __builtin_ctzll(m);
}

double vn_grid(const double *x, int64_t n, int bits) {
    int low = 1000;
    double max = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double m = fabs(x[i]);
        if (m == 0 || !isfinite(m)) continue;
        const int b = lowest_bit(m);
        if (b < low) low = b;
        if (m > max) max = m;
        if (ldexp(max, -bits) > ldexp(1, low)) return 0; /* leaves after a few elements of ordinary data */
    }
    return low < -1022 ? 0 : ldexp(1, low);
}

static double scale_to(double max, int power) {
    if (max == 0) return 1;
    int e;
    frexp(max, &e); /* max = m 2^e, m in [1/2, 1) */
    return ldexp(1, power + 1 - e > 1023 ? 1023 : power + 1 - e < -1022 ? -1022 : power + 1 - e);
}
double vn_mag_scale(const vn_extent_t *e) { return scale_to(e->max, 54); }
double vn_sq_scale(const vn_extent_t *e) { return scale_to(e->max, 26); }

/* Products near the ends of f64 cannot be scaled to the middle of f32 and back without loss. */
static bool scales_back(const vn_extent_t *a, const vn_extent_t *b, int power) {
    int x, y;
    frexp(a->max, &x);
    frexp(b->max, &y);
    return abs(x) <= power && abs(y) <= power && abs(x + y) <= power;
}

bool vn_mag_fits(const vn_extent_t *a, const vn_extent_t *b) {
    if (a->nonfinite || b->nonfinite) return false;
    if (a->max == 0 || b->max == 0) return true;
    const double x = a->min * vn_mag_scale(a), y = b->min * vn_mag_scale(b);
    return x >= 0x1p-126 && y >= 0x1p-126 && x * y >= 0x1p-126 && scales_back(a, b, 800);
}

bool vn_sq_fits(const vn_extent_t *a, const vn_extent_t *b) {
    if (a->nonfinite || b->nonfinite) return false;
    if (a->max == 0 || b->max == 0) return true;
    const double x = a->min * vn_sq_scale(a), y = b->min * vn_sq_scale(b);
    return x >= 0x1p-63 && y >= 0x1p-63 && x * y >= 0x1p-63 && scales_back(a, b, 400);
}

/* ---- magnitudes and squares ---- */

#define MAPS(NAME, TYPE)                                                                         \
    VN_CLONES static void NAME##_mag(const TYPE *x, int64_t n, double scale, float *out) {       \
        for (int64_t i = 0; i < n; ++i) {                                                        \
            const double m = fabs((double)x[i]) * scale;                                         \
            const float f = (float)m;                                                            \
            const float up = f * (1 + 0x1p-23f); /* above the next float: f is normal or zero */ \
            out[i] = (double)f < m ? up : f;                                                     \
        }                                                                                        \
    }                                                                                            \
    VN_CLONES static void NAME##_sq(const TYPE *x, int64_t n, double scale, float *out) {        \
        for (int64_t i = 0; i < n; ++i) {                                                        \
            const double m = (double)x[i] * scale;                                               \
            out[i] = (float)(m * m);                                                             \
        }                                                                                        \
    }                                                                                            \
    typedef struct NAME##_job {                                                                  \
        const TYPE *x;                                                                           \
        double mag_scale, sq_scale;                                                              \
        float *mag, *sq;                                                                         \
    } NAME##_job_t;                                                                              \
    static void NAME##_range(void *ctx, int64_t begin, int64_t end) {                            \
        const NAME##_job_t *job = ctx;                                                           \
        enum { PIECE = 2048 }; /* read once from memory, twice from cache */                     \
        for (int64_t i = begin; i < end; i += PIECE) {                                           \
            const int64_t n = end - i < PIECE ? end - i : PIECE;                                 \
            if (job->mag) NAME##_mag(job->x + i, n, job->mag_scale, job->mag + i);               \
            if (job->sq) NAME##_sq(job->x + i, n, job->sq_scale, job->sq + i);                   \
        }                                                                                        \
    }

MAPS(of_f64, double)
MAPS(of_f32, float)

void vn_mag_sq_f32(const double *x, int64_t n, double mag_scale, float *mag, double sq_scale, float *sq) {
    of_f64_job_t job = {x, mag_scale, sq_scale, mag, sq};
    vn_parallel(n, GRAIN, of_f64_range, &job);
}

void vn_mag_f32(const double *x, int64_t n, double scale, float *out) { vn_mag_sq_f32(x, n, scale, out, 0, NULL); }

void vn_mag_sq_of_f32(const float *x, int64_t n, double mag_scale, float *mag, double sq_scale, float *sq) {
    of_f32_job_t job = {x, mag_scale, sq_scale, mag, sq};
    vn_parallel(n, GRAIN, of_f32_range, &job);
}
