/* functions.c -- elementary functions and division of a back end, measured on given results: largest error, order, symmetry, hash (P25, P26). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "vernier/schedule.h"

/* Arguments of the table's intervals are f32 numbers inside the true ones: 0x1.921fb4p+0 is below pi/2, Gelu's least value lies at -0.7518. */
static const vn_elementary_t table[] = {
    {"exp", "Exp", NULL, 13, 0, 104, false, 1, -INFINITY, INFINITY, 0},
    {"log", "Log", NULL, 13, 0.5, 2, true, 1, 0, INFINITY, 0},
    {"tanh", "Tanh", NULL, 13, 0, 10, false, 1, -INFINITY, INFINITY, -1},
    {"erf", "Erf", NULL, 13, 0, 4.5, false, 1, -INFINITY, INFINITY, -1},
    {"sigmoid", "Sigmoid", NULL, 13, 0, 90, false, 1, -INFINITY, INFINITY, 0},
    {"sqrt", "Sqrt", NULL, 13, 1, 4, true, 1, 0, INFINITY, 0},
    {"reciprocal", "Reciprocal", NULL, 13, 1, 2, false, -1, 0x1p-149, INFINITY, -1},
    {"rsqrt", "Sqrt", "Reciprocal", 13, 1, 4, true, -1, 0x1p-149, INFINITY, 0},
    {"sin", "Sin", NULL, 13, 0, 100, false, 1, -0x1.921fb4p+0, 0x1.921fb4p+0, -1},
    {"cos", "Cos", NULL, 13, 0, 100, false, -1, 0, 0x1.921fb4p+1, 1},
    {"gelu", "Gelu", NULL, 20, 0, 6, false, 1, -0.75, INFINITY, 0},
};

int vn_elementaries(const vn_elementary_t **out) {
    *out = table;
    return (int)(sizeof table / sizeof *table);
}

/* ---- arguments ---- */

enum { SAMPLE = 1 << 20, RUN = 16, PATTERNS = 1 << 16 };
static const uint32_t infinity_bits = 0x7f800000u;

static uint32_t bits_of(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static float float_of(uint32_t b) {
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* `count` ascending magnitudes: stratum k of the patterns, or of the values from low to high, gives one run of neighbours. The first run of the
 * patterns begins at 0, the last ends with infinity. */
static void ascending(vn_rng_t *g, bool by_value, double low, double high, float *out, int64_t count) {
    const int64_t runs = count / RUN;
    uint32_t next = 0;
    for (int64_t k = 0; k < runs; ++k) {
        const double place = (double)k + vn_rng_uniform(g);
        uint32_t begin = by_value ? bits_of((float)(low + (high - low) * place / (double)runs))
                                  : (uint32_t)((double)(infinity_bits - RUN + 1) * (place / (double)runs));
        if (!by_value && k == 0) begin = 0;
        if (!by_value && k == runs - 1) begin = infinity_bits - RUN + 1;
        if (begin < next) begin = next; /* strata of values may be closer than a run is long */
        for (uint32_t j = 0; j < RUN; ++j) out[k * RUN + j] = float_of(begin + j);
        next = begin + RUN;
    }
}

vn_status_t vn_elementary_inputs(const vn_elementary_t *f, vn_dtype_t t, uint64_t seed, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    if (t != VN_F32 && t != VN_F16 && t != VN_BF16)
        return vn_fail(err, VN_ERR_DTYPE, "functions are measured in f32, f16 and bf16, not %s", vn_dtype_name(t));
    const int64_t count = t == VN_F32 ? SAMPLE : PATTERNS;
    VN_TRY(vn_tensor_new(t, 1, &count, out, err));
    if (t != VN_F32) {
        uint16_t *at = (*out)->data;
        for (int64_t k = 0; k < PATTERNS; ++k) at[k] = (uint16_t)k;
        return VN_OK;
    }
    vn_rng_t g;
    vn_rng_seed(&g, seed);
    float *at = (*out)->data;
    const int64_t magnitudes = f->positive ? SAMPLE : SAMPLE / 2;
    ascending(&g, false, 0, 0, at, magnitudes / 2);
    ascending(&g, true, f->low, f->high, at + magnitudes / 2, magnitudes / 2);
    for (int64_t k = magnitudes; k < SAMPLE; ++k) at[k] = -at[k - magnitudes];
    return VN_OK;
}

/* ---- results ---- */

typedef struct table_of {
    const vn_elementary_t *f;
    vn_format_t format;
    int64_t count;
    const double *x, *y; /* arguments, results */
    const double *exact, *low;
    const uint8_t *free;
} table_of_t;

/* In ulp at the exact value; an infinity stands one ulp beyond the largest number. Inf: a NaN, or an infinity, where none is due, or none where
 * one is. */
static double error_at(const table_of_t *q, int64_t k) {
    const vn_format_info_t *info = vn_format_info(q->format);
    const double exact = q->exact[k], unit = vn_ulp(q->format, fmin(fabs(exact), info->max));
    if (q->free && q->free[k] && !isfinite(q->y[k])) return 0;
    if (isnan(exact) || isnan(q->y[k])) return isnan(exact) && isnan(q->y[k]) ? 0 : INFINITY;
    if (isinf(exact)) return q->y[k] == exact ? 0 : INFINITY;
    if (!isinf(q->y[k])) return fabs((q->y[k] - exact) - (q->low ? q->low[k] : 0)) / unit;
    const double beyond = copysign(info->max + vn_ulp(q->format, info->max), q->y[k]);
    if (fabs(exact) >= info->max && (exact > 0) == (beyond > 0)) return exact / beyond >= 1 ? 0 : fabs(beyond - exact) / unit;
    return INFINITY;
}

static void worst(const table_of_t *q, vn_elementary_row_t *row) {
    const vn_format_info_t *info = vn_format_info(q->format);
    row->all = row->normal = (vn_worst_t){.ulp = -1, .at = NAN};
    for (int64_t k = 0; k < q->count; ++k) {
        const double e = error_at(q, k), x = fabs(q->x[k]), y = fabs(q->exact[k]);
        if (e > row->all.ulp) row->all = (vn_worst_t){e, q->x[k]};
        if (e > row->normal.ulp && x >= info->tau && x <= info->max && y >= info->tau && y <= info->max)
            row->normal = (vn_worst_t){e, q->x[k]};
    }
}

/* Neighbours in the table, where their arguments ascend or descend inside the interval. */
static void order(const table_of_t *q, vn_elementary_row_t *row) {
    const vn_elementary_t *f = q->f;
    row->monotone = f->direction ? 1 : -1;
    for (int64_t k = 0; k + 1 < q->count && row->monotone == 1; ++k) {
        const double a = q->x[k], b = q->x[k + 1];
        if (!(a >= f->from && a <= f->to && b >= f->from && b <= f->to) || a == b) continue;
        const double rise = (b > a ? q->y[k + 1] - q->y[k] : q->y[k] - q->y[k + 1]) * f->direction;
        if (rise >= 0 || q->y[k] == q->y[k + 1]) continue; /* equal: of infinities, too */
        row->monotone = 0;                                 /* a NaN breaks it as well */
        row->broken = b;
    }
}

static void symmetry(const table_of_t *q, vn_dtype_t t, vn_elementary_row_t *row) {
    row->symmetric = q->f->symmetry ? 1 : -1;
    for (int64_t k = 0; k < q->count / 2 && row->symmetric == 1; ++k) {
        const int64_t other = t == VN_F32 ? k + q->count / 2 : k ^ 0x8000;
        const double a = q->y[k], b = q->f->symmetry * q->y[other];
        if (isnan(q->x[k]) || (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b))) continue;
        row->symmetric = 0;
        row->uneven = q->x[k];
    }
}

vn_status_t vn_elementary_measure(const vn_elementary_t *f, const vn_tensor_t *in, const vn_tensor_t *out, const double *exact,
                                  const double *low, const uint8_t *free, vn_elementary_row_t *row, vn_error_t *err) {
    const vn_format_t format = vn_format_of(in->dtype);
    *row = (vn_elementary_row_t){.function = f, .dtype = in->dtype, .inputs = in->count, .monotone = -1, .symmetric = -1};
    if (in->count != out->count)
        return vn_fail(err, VN_ERR_SHAPE, "%s: %lld results for %lld arguments", f->name, (long long)out->count, (long long)in->count);
    if (out->dtype != in->dtype || (in->dtype != VN_F32 && in->dtype != VN_F16 && in->dtype != VN_BF16))
        return vn_fail(err, VN_ERR_DTYPE, "%s: %s of %s", f->name, vn_dtype_name(out->dtype), vn_dtype_name(in->dtype));
    vn_tensor_t *flat = NULL;
    double *x = vn_alloc((size_t)in->count + 1, sizeof *x), *y = vn_alloc((size_t)in->count + 1, sizeof *y);
    vn_status_t st = x && y ? vn_tensor_contiguous(out, &flat, err) : vn_fail(err, VN_ERR_NOMEM, "no memory for %s", f->name);
    if (st == VN_OK) {
        size_t bytes = 0;
        vn_tensor_to_f64(in, x);
        vn_tensor_to_f64(flat, y);
        vn_dtype_storage(flat->dtype, flat->count, &bytes);
        vn_sha256_hex(flat->data, bytes, row->sha256);
        const table_of_t q = {.f = f, .format = format, .count = in->count, .x = x, .y = y, .exact = exact, .low = low, .free = free};
        worst(&q, row);
        order(&q, row);
        symmetry(&q, in->dtype, row);
    }
    vn_tensor_free(flat);
    vn_free(x);
    vn_free(y);
    return st;
}

/* ---- division (P25) ---- */

vn_status_t vn_division_measure(float divisor, const vn_tensor_t *in, const vn_tensor_t *out, vn_card_row_t *row, vn_error_t *err) {
    if (in->dtype != VN_F32 || out->dtype != VN_F32) return vn_fail(err, VN_ERR_DTYPE, "division is measured in f32");
    if (in->count != out->count)
        return vn_fail(err, VN_ERR_SHAPE, "division: %lld results for %lld", (long long)out->count, (long long)in->count);
    const float inverse = 1 / divisor;
    int64_t wrong = 0, other = 0, n = 0, first = -1;
    for (int64_t k = 0; k < in->count; ++k) { /* subnormal numbers are a matter of P12 and P13 */
        const float x = (float)vn_tensor_get_f64(in, k), y = (float)vn_tensor_get_f64(out, k);
        if (!isnormal(x) || !isnormal(x / divisor)) continue;
        ++n;
        const bool divided = bits_of(y) == bits_of(x / divisor);
        if (!divided && first < 0) first = k;
        wrong += !divided;
        other += bits_of(y) != bits_of(x * inverse);
    }
    *row = (vn_card_row_t){.id = "P25"};
    if (wrong == 0) snprintf(row->finding, sizeof row->finding, "the rounded quotient, all of %lld", (long long)n);
    else if (other == 0)
        snprintf(row->finding, sizeof row->finding, "x times 1/%g: %lld of %lld are not the rounded quotient", (double)divisor,
                 (long long)wrong, (long long)n);
    else
        snprintf(row->finding, sizeof row->finding, "%lld of %lld are not the rounded quotient, %lld not x times 1/%g", (long long)wrong,
                 (long long)n, (long long)other, (double)divisor);
    if (first >= 0)
        snprintf(row->numbers, sizeof row->numbers, "x=%a out=%a quotient=%a", vn_tensor_get_f64(in, first), vn_tensor_get_f64(out, first),
                 (double)((float)vn_tensor_get_f64(in, first) / divisor));
    return VN_OK;
}
