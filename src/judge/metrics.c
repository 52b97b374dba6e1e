/* metrics.c -- two tensors compared without an operator: numbers only, no verdict (vernier compare). */
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

enum { CHUNK = 1 << 15 };

typedef struct part {
    double e2, x2, y2, xy;
    float max_abs, max_rel, max_ulp;
    int64_t unequal, odd; /* odd: not finite on a side */
} part_t;

typedef struct pass {
    const float *x, *y;
    part_t *parts;
} pass_t;

enum { LANES = 16 }; /* independent accumulators: the loop vectorises without reordering anything */

static uint32_t bits_of(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* ulp(x) of a finite f32 is 2^(e-23); below the normal range e stays -126. Dividing by 2^e keeps the loop free of branches. */
static float power_of(float x) {
    const uint32_t e = bits_of(x) & 0x7f800000u, least = e < 0x00800000u ? 0x00800000u : e;
    float p;
    memcpy(&p, &least, sizeof p);
    return p;
}

typedef struct lanes {
    float max_abs[LANES], max_rel[LANES], max_ulp[LANES];
    int32_t unequal[LANES], odd[LANES];
    double e2[LANES], x2[LANES], y2[LANES], xy[LANES];
} lanes_t;

static inline void one(lanes_t *t, int l, float x, float y) {
    const float e = fabsf(x - y), ax = fabsf(x), rel = e / (ax > 0 ? ax : INFINITY), ulp = e / power_of(x);
    t->unequal[l] += bits_of(x) != bits_of(y);
    t->odd[l] += ((bits_of(x) & 0x7f800000u) == 0x7f800000u) + ((bits_of(y) & 0x7f800000u) == 0x7f800000u);
    t->max_abs[l] = e > t->max_abs[l] ? e : t->max_abs[l];
    t->max_rel[l] = rel > t->max_rel[l] ? rel : t->max_rel[l];
    t->max_ulp[l] = ulp > t->max_ulp[l] ? ulp : t->max_ulp[l];
    const double p = x, q = y, d = p - q;
    t->e2[l] += d * d;
    t->x2[l] += p * p;
    t->y2[l] += q * q;
    t->xy[l] += p * q;
}

VN_CLONES static void f32_chunk(const float *restrict x, const float *restrict y, int64_t n, lanes_t *out) {
    lanes_t t = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; ++l) one(&t, l, x[i + l], y[i + l]);
    for (int l = 0; i < n; ++i, ++l) one(&t, l, x[i], y[i]);
    *out = t;
}

static void fold(const lanes_t *t, part_t *out) {
    *out = (part_t){0};
    for (int l = 0; l < LANES; ++l) {
        out->max_abs = t->max_abs[l] > out->max_abs ? t->max_abs[l] : out->max_abs;
        out->max_rel = t->max_rel[l] > out->max_rel ? t->max_rel[l] : out->max_rel;
        out->max_ulp = t->max_ulp[l] * 0x1p23f > out->max_ulp ? t->max_ulp[l] * 0x1p23f : out->max_ulp;
        out->unequal += t->unequal[l];
        out->odd += t->odd[l];
        out->e2 += t->e2[l];
        out->x2 += t->x2[l];
        out->y2 += t->y2[l];
        out->xy += t->xy[l];
    }
}

static void f32_range(void *ctx, int64_t begin, int64_t end) {
    pass_t *p = ctx;
    lanes_t t;
    f32_chunk(p->x + begin, p->y + begin, end - begin, &t);
    fold(&t, &p->parts[begin / CHUNK]);
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
        all.odd += q->odd;
    }
    vn_free(p.parts);
    if (all.odd) return false;
    out->count = a->count;
    out->unequal = all.unequal;
    out->max_abs = all.max_abs;
    out->max_rel = all.max_rel;
    out->ulp_max = all.max_ulp;
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
