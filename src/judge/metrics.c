/* metrics.c -- two tensors compared without an operator: numbers only, no verdict (vernier compare). */
#include <float.h>
#include <math.h>
#include <string.h>

#include "judge/ladder.h"
#include "tensor/clones.h"

static void set(vn_divergence_t *d, const vn_tensor_t *a, const vn_tensor_t *b, int64_t i) {
    *d = (vn_divergence_t){.index = i, .rank = a->rank, .expected = vn_tensor_get_f64(a, i), .actual = vn_tensor_get_f64(b, i)};
    if (vn_dtype_bits(a->dtype) <= 64) d->expected_bits = vn_tensor_bits(a, i);
    if (vn_dtype_bits(b->dtype) <= 64) d->actual_bits = vn_tensor_bits(b, i);
    for (int k = a->rank - 1; k >= 0; --k) {
        d->at[k] = a->dims[k] ? i % a->dims[k] : 0;
        i = a->dims[k] ? i / a->dims[k] : 0;
    }
}

/* ---- two contiguous f32 tensors: one threaded pass, sums added chunk by chunk so that the thread count does not matter ---- */

enum { CHUNK = 1 << 15, BLOCK = 1024, LANES = 16 }; /* lanes: independent accumulators, so vectors need no reordering */

typedef struct part {
    double e2, x2, y2, xy; /* x2, y2 not finite: so is some element, for squares of f32 never overflow */
    float max_abs, max_rel;
    double max_ulp; /* error over the power of two below |x|: may be larger than any f32 */
    int64_t unequal;
} part_t;

typedef struct pass {
    const float *x, *y;
    part_t *parts;
} pass_t;

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* ulp(x) of a finite f32 is 2^(e-23); below the normal range e stays -126. */
static float power_of(float x) {
    const uint32_t e = bits_of(x) & 0x7f800000u, least = e < 0x00800000u ? 0x00800000u : e;
    float p;
    memcpy(&p, &least, sizeof p);
    return p;
}

typedef struct lanes {
    float max_abs[LANES];
    int32_t unequal[LANES];
    uint32_t over[LANES]; /* sign bit: some over_bits */
} lanes_t;

/* Sign bit: the relative error (of an x that is not 0) is larger than rel, or the error over the power of two below |x| than ulp. */
static inline uint32_t over_bits(float x, float y, float rel, float ulp) {
    const float e = fabsf(x - y), ax = fabsf(x);
    return (bits_of(rel * ax - e) & bits_of(0 - ax)) | bits_of(ulp * power_of(ax) - e);
}

VN_CLONES static void sizes(const float *restrict x, const float *restrict y, float rel, float ulp, lanes_t *out) {
    lanes_t t = {0};
    for (int i = 0; i < BLOCK; i += LANES)
        for (int l = 0; l < LANES; ++l) {
            const float e = fabsf(x[i + l] - y[i + l]);
            t.over[l] |= over_bits(x[i + l], y[i + l], rel, ulp);
            t.max_abs[l] = e > t.max_abs[l] ? e : t.max_abs[l];
            t.unequal[l] += bits_of(x[i + l]) != bits_of(y[i + l]);
        }
    *out = t;
}

typedef struct sums {
    double e2[LANES], x2[LANES], y2[LANES], xy[LANES];
} sums_t;

VN_CLONES static void squares(const float *restrict x, const float *restrict y, sums_t *restrict out) {
    sums_t t = {0};
    for (int i = 0; i < BLOCK; i += LANES) {
        __builtin_prefetch(x + i + BLOCK); /* a hint: an address beyond the array does no harm */
        __builtin_prefetch(y + i + BLOCK);
        for (int l = 0; l < LANES; ++l) {
            const double a = x[i + l], b = y[i + l], d = a - b;
            t.e2[l] += d * d;
            t.x2[l] += a * a;
            t.y2[l] += b * b;
            t.xy[l] += a * b;
        }
    }
    *out = t;
}

static double total(const double *v) {
    double t[LANES / 2];
    for (int l = 0; l < LANES / 2; ++l) t[l] = v[l] + v[l + LANES / 2];
    return ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
}

static float known_ulp(const part_t *p) { return p->max_ulp < FLT_MAX ? (float)p->max_ulp : FLT_MAX; }

/* Quotients are slow and records are rare: only a block that holds one comes here, and only where one stands is divided (one that is larger by a
 * rounding may be missed). */
VN_CLONES static void records(const float *restrict x, const float *restrict y, part_t *part) {
    for (int i = 0; i < BLOCK; i += LANES) {
        uint32_t over[LANES], any = 0;
        for (int l = 0; l < LANES; ++l) over[l] = over_bits(x[i + l], y[i + l], part->max_rel, known_ulp(part));
        for (int l = 0; l < LANES; ++l) any |= over[l];
        for (int l = 0; l < LANES && any >> 31; ++l) {
            const float e = fabsf(x[i + l] - y[i + l]), ax = fabsf(x[i + l]);
            if (ax > 0 && e / ax > part->max_rel) part->max_rel = e / ax;
            if ((double)e / power_of(ax) > part->max_ulp) part->max_ulp = (double)e / power_of(ax);
        }
    }
}

static void block(const float *x, const float *y, part_t *part) {
    lanes_t t;
    sums_t s;
    uint32_t over = 0;
    sizes(x, y, part->max_rel, known_ulp(part), &t);
    squares(x, y, &s);
    for (int l = 0; l < LANES; ++l) {
        part->max_abs = t.max_abs[l] > part->max_abs ? t.max_abs[l] : part->max_abs;
        part->unequal += t.unequal[l];
        over |= t.over[l];
    }
    part->e2 += total(s.e2);
    part->x2 += total(s.x2);
    part->y2 += total(s.y2);
    part->xy += total(s.xy);
    if (over >> 31) records(x, y, part);
}

static void f32_range(void *ctx, int64_t begin, int64_t end) {
    pass_t *p = ctx;
    part_t part = {0};
    int64_t i = begin;
    for (; i + BLOCK <= end; i += BLOCK) block(p->x + i, p->y + i, &part);
    if (i < end) { /* zeros on both sides add nothing */
        float x[BLOCK] = {0}, y[BLOCK] = {0};
        memcpy(x, p->x + i, (size_t)(end - i) * sizeof *x);
        memcpy(y, p->y + i, (size_t)(end - i) * sizeof *y);
        block(x, y, &part);
    }
    p->parts[begin / CHUNK] = part;
}

/* False where the general pass must look: a NaN or infinity somewhere, or no memory. */
static bool f32_metrics(const vn_tensor_t *a, const vn_tensor_t *b, vn_metrics_t *out) {
    const int64_t chunks = a->count / CHUNK + 1;
    pass_t p = {.x = a->data, .y = b->data, .parts = vn_alloc((size_t)chunks, sizeof(part_t))};
    if (!p.parts) return false;
    vn_parallel(a->count, CHUNK, f32_range, &p);
    part_t all = {0};
    int64_t worst = -1, first = -1;
    for (int64_t c = 0; c * CHUNK < a->count; ++c) {
        const part_t *q = &p.parts[c];
        if (q->unequal && first < 0) first = c;
        if (q->max_abs > all.max_abs) {
            all.max_abs = q->max_abs;
            worst = c;
        }
        if (q->max_rel > all.max_rel) all.max_rel = q->max_rel;
        if (q->max_ulp > all.max_ulp) all.max_ulp = q->max_ulp;
        all.e2 += q->e2;
        all.x2 += q->x2;
        all.y2 += q->y2;
        all.xy += q->xy;
        all.unequal += q->unequal;
    }
    vn_free(p.parts);
    if (!isfinite(all.x2) || !isfinite(all.y2)) return false;
    out->count = a->count;
    out->unequal = all.unequal;
    out->max_abs = all.max_abs;
    out->max_rel = all.max_rel;
    out->ulp_max = all.max_ulp * 0x1p23;
    out->rms = a->count ? sqrt(all.e2 / (double)a->count) : NAN;
    out->rms_relative = all.x2 > 0 ? sqrt(all.e2 / all.x2) : NAN;
    out->cosine = all.x2 > 0 && all.y2 > 0 ? all.xy / sqrt(all.x2) / sqrt(all.y2) : NAN;
    for (int64_t i = first * CHUNK; first >= 0 && i < a->count; ++i)
        if (memcmp(p.x + i, p.y + i, 4) != 0) {
            set(&out->first, a, b, i);
            break;
        }
    for (int64_t i = worst * CHUNK; worst >= 0 && i < a->count; ++i)
        if (fabsf(p.x[i] - p.y[i]) == all.max_abs) {
            set(&out->worst, a, b, i);
            break;
        }
    return true;
}

vn_status_t vn_metrics(const vn_tensor_t *a, const vn_tensor_t *b, vn_metrics_t *out, vn_error_t *err) {
    *out = (vn_metrics_t){.first.index = -1, .worst.index = -1};
    char ta[200], tb[200];
    vn_tensor_describe(a, ta, sizeof ta);
    vn_tensor_describe(b, tb, sizeof tb);
    if (a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return vn_fail(err, VN_ERR_SHAPE, "shapes differ: %s and %s", ta, tb);
    if (a->dtype == VN_STRING || b->dtype == VN_STRING || vn_dtype_kind(a->dtype) == VN_KIND_COMPLEX ||
        vn_dtype_kind(b->dtype) == VN_KIND_COMPLEX)
        return vn_fail(err, VN_ERR_DTYPE, "only real numbers have metrics: %s and %s", ta, tb);
    if (a->dtype == VN_F32 && b->dtype == VN_F32 && vn_tensor_is_contiguous(a) && vn_tensor_is_contiguous(b) && f32_metrics(a, b, out))
        return VN_OK;
    const size_t n = (size_t)(a->count ? a->count : 1);
    double *x = vn_alloc(n, sizeof *x), *y = vn_alloc(n, sizeof *y);
    if (!x || !y) {
        vn_free(x);
        vn_free(y);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)a->count);
    }
    vn_tensor_to_f64(a, x);
    vn_tensor_to_f64(b, y);
    const vn_format_t f = vn_format_of(a->dtype);
    double e2 = 0, x2 = 0, y2 = 0, xy = 0;
    int64_t finite = 0;
    out->count = a->count;
    for (int64_t i = 0; i < a->count; ++i) {
        const bool same = x[i] == y[i] ? signbit(x[i]) == signbit(y[i]) : isnan(x[i]) && isnan(y[i]);
        out->nan_a += isnan(x[i]);
        out->nan_b += isnan(y[i]);
        out->inf_a += isinf(x[i]);
        out->inf_b += isinf(y[i]);
        if (!same) {
            out->unequal++;
            if (out->first.index < 0) set(&out->first, a, b, i);
        }
        if (!isfinite(x[i]) || !isfinite(y[i])) continue;
        const double e = fabs(x[i] - y[i]);
        if (e > out->max_abs) {
            out->max_abs = e;
            set(&out->worst, a, b, i);
        }
        if (x[i] != 0 && e / fabs(x[i]) > out->max_rel) out->max_rel = e / fabs(x[i]);
        if (f != VN_FMT_NONE && e / vn_ulp(f, x[i]) > out->ulp_max) out->ulp_max = e / vn_ulp(f, x[i]);
        e2 += e * e;
        x2 += x[i] * x[i];
        y2 += y[i] * y[i];
        xy += x[i] * y[i];
        finite++;
    }
    out->rms = finite ? sqrt(e2 / (double)finite) : NAN;
    out->rms_relative = x2 > 0 ? sqrt(e2 / x2) : NAN;
    out->cosine = x2 > 0 && y2 > 0 ? xy / sqrt(x2) / sqrt(y2) : NAN;
    vn_free(x);
    vn_free(y);
    return VN_OK;
}
