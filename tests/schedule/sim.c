/* sim.c -- simulated back ends: one element at a time, no part of the code under test. */
#include "sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

vn_sum_op_t sim_product(vn_dtype_t t, int64_t m, int64_t k, int64_t n) {
    return (vn_sum_op_t){.kind = VN_SUM_MATMUL, .dtype = t, .batch = 1, .m = m, .k = k, .n = n};
}

/* ---- steps ---- */

static double flush(bool on, double x) { return on && x != 0 && fabs(x) < 0x1p-126 ? copysign(0, x) : x; }

static double settle(const sim_t *s, double x) {
    const vn_format_t f = s->accumulator != VN_FMT_NONE ? s->accumulator : VN_FMT_F32;
    return flush(s->ftz, f == VN_FMT_F64 ? x : vn_round_to(f, x, s->rounding, false));
}
static double add(const sim_t *s, double x, double y) {
    x = flush(s->daz, x);
    y = flush(s->daz, y);
    if (s->accumulator == VN_FMT_NONE && s->rounding == VN_RNE) return flush(s->ftz, (float)x + (float)y);
    if (s->accumulator == VN_FMT_F64) return x + y;
    return settle(s, (double)((long double)x + y)); /* simulated data keep such sums within 64 bits */
}
static double multiply(const sim_t *s, double x, double y) { return settle(s, flush(s->daz, x) * flush(s->daz, y)); }
static double fuse(const sim_t *s, double acc, double x, double y) {
    x = flush(s->daz, x);
    y = flush(s->daz, y);
    acc = flush(s->daz, acc);
    if (s->accumulator == VN_FMT_NONE && s->rounding == VN_RNE) return flush(s->ftz, fmaf((float)x, (float)y, (float)acc));
    if (s->accumulator == VN_FMT_F64) return fma(x, y, acc);
    return settle(s, (double)((long double)x * y + acc));
}

/* One element's terms. */
typedef struct dot {
    const sim_t *s;
    const double *a, *b;
    int64_t stride; /* of b */
} dot_t;
static double step(const dot_t *d, double acc, int64_t k) {
    const double x = d->a[k], y = d->b[k * d->stride];
    return d->s->fma ? fuse(d->s, acc, x, y) : add(d->s, acc, multiply(d->s, x, y));
}
static double first(const dot_t *d, int64_t k) {
    const double x = multiply(d->s, d->a[k], d->b[k * d->stride]);
    return d->s->zero_start ? x + 0.0 : x;
}

/* Terms from, from + stride, ... below end. */
static double chain(const dot_t *d, int64_t from, int64_t end, int64_t stride) {
    double acc = first(d, from);
    int64_t count = 1;
    for (int64_t k = from + stride; k < end; k += stride) {
        acc = step(d, acc, k);
        if (d->s->every && ++count % d->s->every == 0) acc = vn_round_to(d->s->narrow, acc, VN_RNE, false);
    }
    return acc;
}

static double handed(const sim_t *s, double x) { return s->partial ? vn_round_to(s->partial, x, VN_RNE, false) : x; }

static double blocks(const dot_t *d, int64_t n, int width) {
    double acc = chain(d, 0, n < width ? n : width, 1);
    acc = handed(d->s, acc);
    for (int64_t from = width; from < n; from += width)
        acc = add(d->s, acc, handed(d->s, chain(d, from, from + width < n ? from + width : n, 1)));
    return acc;
}

static double lanes(const dot_t *d, int64_t n, int width) {
    double lane[64];
    for (int k = 0; k < width; ++k) lane[k] = chain(d, k, n, width);
    for (int half = width / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) lane[k] = add(d->s, lane[k], lane[k + half]);
    return lane[0];
}

/* An adder whose sums have `carry` bits above those of the largest addend. */
static double kept(const sim_t *s, double total, int bits) {
    const int over = s->carry > 0 && total != 0 && isfinite(total) ? ilogb(total) + 1 - (bits + 1 + s->carry) : 0;
    return over > 0 ? ldexp(trunc(ldexp(total, -over)), over) : total;
}

static double fused(const dot_t *d, int64_t n, int width, int bits) {
    double acc = 0;
    for (int64_t from = 0; from < n; from += width) {
        int largest = -10000, e;
        double total = 0;
        for (int64_t k = from; k < n && k < from + width; ++k) {
            const double x = d->a[k], y = d->b[k * d->stride];
            if (x * y == 0) continue;
            const int sum = ilogb(x) + ilogb(y);
            if (sum > largest) largest = sum;
        }
        if (acc != 0 && (e = ilogb(acc)) > largest) largest = e;
        if (largest == -10000) continue;
        for (int64_t k = from; k < n && k < from + width; ++k)
            total = kept(d->s, total + trunc(ldexp(d->a[k] * d->b[k * d->stride], bits - largest)), bits);
        total += trunc(ldexp(acc, bits - largest));
        acc = vn_round_to(VN_FMT_F32, ldexp(total, largest - bits), VN_RZ, false);
    }
    return acc;
}

static double split_k(sim_t *s, const dot_t *d, int64_t n, int width) {
    double part[64];
    int left = 0;
    const int64_t size = (n + width - 1) / width;
    for (int64_t from = 0; from < n; from += size) part[left++] = chain(d, from, from + size < n ? from + size : n, 1);
    double acc = 0;
    for (bool begun = false; left > 0; begun = true) {
        s->state = s->state * 6364136223846793005u + 1442695040888963407u;
        const int k = (int)((s->state >> 33) % (uint64_t)left);
        acc = begun ? add(s, acc, part[k]) : part[k];
        part[k] = part[--left];
    }
    return acc;
}

static double split_bf16(const dot_t *d, int64_t n) {
    float acc = 0;
    for (int64_t k = 0; k < n; ++k) {
        const float x = (float)d->a[k], y = (float)d->b[k * d->stride];
        const float xh = (float)vn_round_to(VN_FMT_BF16, x, VN_RNE, false), yh = (float)vn_round_to(VN_FMT_BF16, y, VN_RNE, false);
        const float xl = (float)vn_round_to(VN_FMT_BF16, x - xh, VN_RNE, false),
                    yl = (float)vn_round_to(VN_FMT_BF16, y - yh, VN_RNE, false);
        acc = fmaf(xl, yh, acc);
        acc = fmaf(xh, yl, acc);
        acc = fmaf(xh, yh, acc);
    }
    return acc;
}

static double parts(const dot_t *d, int64_t n, int products) {
    static const int order[9][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {2, 0}, {1, 2}, {2, 1}, {2, 2}};
    float acc = 0;
    for (int64_t k = 0; k < n; ++k) {
        double x[3], y[3], left[2] = {d->a[k], d->b[k * d->stride]};
        for (int p = 0; p < 3; ++p) {
            x[p] = vn_round_to(VN_FMT_BF16, left[0], VN_RNE, false);
            y[p] = vn_round_to(VN_FMT_BF16, left[1], VN_RNE, false);
            left[0] -= x[p];
            left[1] -= y[p];
        }
        long double term = 0;
        for (int p = 0; p < products; ++p) term += (long double)x[order[p][0]] * y[order[p][1]];
        acc = (float)(acc + term); /* the data of the tests keep such sums within 64 bits */
    }
    return acc;
}

static double dynamic(const dot_t *d, int64_t n) {
    double most = 0, total = 0;
    for (int64_t k = 0; k < n; ++k) most = fmax(most, fabs(d->a[k]));
    const float scale = most > 0 ? (float)most / 127 : 1;
    for (int64_t k = 0; k < n; ++k) total += rint((float)d->a[k] / scale) * d->b[k * d->stride];
    return (float)total * scale;
}

/* Kulisch-like: long double sums of scaled values serve for the data of the tests. */
static double exact(const dot_t *d, int64_t n) {
    double hi = 0, lo = 0;
    for (int64_t k = 0; k < n; ++k) {
        const double x = d->a[k] * d->b[k * d->stride], t = hi + x, z = t - hi;
        lo += (hi - (t - z)) + (x - z);
        hi = t;
    }
    return hi + lo;
}

static double odd_first(const dot_t *d, int64_t n) {
    double acc = 0;
    for (int64_t k = 0; k < n; k += 2) {
        if (k + 1 < n) acc = k ? step(d, acc, k + 1) : multiply(d->s, d->a[1], d->b[d->stride]);
        acc = k || n > 1 ? step(d, acc, k) : first(d, k);
    }
    return acc;
}

static double element(sim_t *s, const double *a, const double *b, int64_t stride, int64_t column) {
    const dot_t d = {s, a, b, stride};
    const int64_t n = s->op.k;
    switch (s->kernel) {
    case SIM_CHAIN: return chain(&d, 0, n, 1);
    case SIM_LANES: return lanes(&d, n, s->width);
    case SIM_BLOCKS: return blocks(&d, n, s->width);
    case SIM_TWO_CLASSES:
        if (column < s->op.n / 8 * 8) return blocks(&d, n, s->width);
        return add(s, chain(&d, 0, n, 2), chain(&d, 1, n, 2));
    case SIM_LAST_ROUNDED:
        if (column >= s->op.n / 8 * 8) return chain(&d, 0, n, 1);
        return add(s, chain(&d, 0, n - 1, 1), chain(&d, n - 1, n, 1));
    case SIM_INNER_ROUNDED: {
        double acc = chain(&d, 0, 17, 1);
        acc = column < s->op.n / 8 * 8 ? add(s, acc, first(&d, 17)) : step(&d, acc, 17);
        for (int64_t k = 18; k < n; ++k) acc = step(&d, acc, k);
        return acc;
    }
    case SIM_FUSED: return fused(&d, n, s->width, s->bits);
    case SIM_SPLIT_K: return split_k(s, &d, n, s->width);
    case SIM_ODD_FIRST: return odd_first(&d, n);
    case SIM_SPLIT_BF16: return split_bf16(&d, n);
    case SIM_PARTS: return parts(&d, n, s->width);
    case SIM_DYNAMIC: return dynamic(&d, n);
    case SIM_EXACT: return exact(&d, n);
    case SIM_STRASSEN: break;
    }
    return 0;
}

/* ---- Strassen, one level; even sizes ---- */

static void block(const double *x, int64_t ld, int64_t r, int64_t c, int64_t rows, int64_t columns, float scale, float *out) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) out[i * columns + j] += scale * (float)x[(r * rows + i) * ld + c * columns + j];
}
static void strassen(const sim_t *s, const double *a, const double *b, double *out) {
    static const int left[7][4] = {{1, 0, 0, 1}, {0, 0, 1, 1}, {1, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 0, 0}, {-1, 0, 1, 0}, {0, 1, 0, -1}};
    static const int right[7][4] = {{1, 0, 0, 1}, {1, 0, 0, 0}, {0, 1, 0, -1}, {-1, 0, 1, 0}, {0, 0, 0, 1}, {1, 1, 0, 0}, {0, 0, 1, 1}};
    static const int join[7][4] = {{1, 0, 0, 1}, {0, 0, 1, -1}, {0, 1, 0, 1}, {1, 0, 1, 0}, {-1, 1, 0, 0}, {0, 0, 0, 1}, {1, 0, 0, 0}};
    const int64_t m = s->op.m / 2, k = s->op.k / 2, n = s->op.n / 2;
    float *x = calloc((size_t)(m * k), sizeof *x), *y = calloc((size_t)(k * n), sizeof *y);
    for (int64_t e = 0; e < 4 * m * n; ++e) out[e] = 0;
    for (int p = 0; p < 7; ++p) {
        memset(x, 0, (size_t)(m * k) * sizeof *x);
        memset(y, 0, (size_t)(k * n) * sizeof *y);
        for (int q = 0; q < 4; ++q) {
            if (left[p][q]) block(a, 2 * k, q / 2, q % 2, m, k, (float)left[p][q], x);
            if (right[p][q]) block(b, 2 * n, q / 2, q % 2, k, n, (float)right[p][q], y);
        }
        for (int64_t r = 0; r < m; ++r)
            for (int64_t c = 0; c < n; ++c) {
                float acc = 0;
                for (int64_t t = 0; t < k; ++t) acc = fmaf(x[r * k + t], y[t * n + c], acc);
                for (int q = 0; q < 4; ++q) {
                    double *to = &out[(q / 2 * m + r) * 2 * n + q % 2 * n + c];
                    *to = (float)*to + (float)join[p][q] * acc;
                }
            }
    }
    free(x);
    free(y);
}

/* ---- a call ---- */

static double *values_of(const sim_t *s, const vn_tensor_t *t) {
    double *v = malloc((size_t)t->count * sizeof *v);
    vn_tensor_to_f64(t, v);
    for (int64_t e = 0; e < t->count; ++e)
        if (s->operand != VN_FMT_NONE) v[e] = vn_round_to(s->operand, v[e], s->operand_rounding, false);
    return v;
}

static double *turned(double *v, int64_t rows, int64_t columns, bool turn) { /* stored [columns][rows] */
    if (!turn) return v;
    double *out = malloc((size_t)(rows * columns) * sizeof *out);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = v[c * rows + r];
    free(v);
    return out;
}

/* The bias is a first running value, or added at the end. */
static double with_bias(sim_t *s, const double *a, const double *b, int64_t stride, int64_t column, double c) {
    const int64_t n = s->op.k;
    if (s->bias) {
        const double sum = element(s, a, b, stride, column), kept = s->before ? vn_round_to(s->before, sum, VN_RNE, false) : sum;
        if (s->alpha == 0 || s->alpha_form == SIM_ALPHA_IN_A || s->alpha_form == SIM_ALPHA_IN_B) return add(s, kept, c);
        return s->alpha_form == SIM_ALPHA_FUSED ? fuse(s, c, s->alpha, kept) : add(s, multiply(s, s->alpha, kept), c);
    }
    const dot_t d = {s, a, b, stride};
    double acc = c;
    for (int64_t k = 0; k < n; ++k) acc = step(&d, acc, k);
    return acc;
}

static vn_status_t run(void *context, const vn_tensor_t *const *in, vn_tensor_t **output, vn_error_t *err) {
    sim_t *s = context;
    const vn_sum_op_t *op = &s->op;
    const int64_t batch = op->batch > 1 ? op->batch : 1, m = op->m, k = op->k, n = op->n;
    const int64_t dims[3] = {batch, m, n};
    s->calls++;
    if (in[0]->dtype == VN_U8 || in[0]->dtype == VN_I8) { /* integers */
        VN_TRY(vn_tensor_new(VN_I32, 2, dims + 1, output, err));
        for (int64_t e = 0; e < m * n; ++e) {
            int64_t total = 0;
            for (int64_t t = 0; t < k; ++t) total += vn_tensor_get_i64(in[0], e / n * k + t) * vn_tensor_get_i64(in[1], t * n + e % n);
            vn_tensor_set_i64(*output, e, total);
        }
        return VN_OK;
    }
    VN_TRY(vn_tensor_new(op->dtype, batch > 1 ? 3 : 2, batch > 1 ? dims : dims + 1, output, err));
    double *a = values_of(s, in[0]), *b = values_of(s, in[1]), *c = NULL, *out = malloc((size_t)(m * n) * sizeof *out);
    for (int64_t e = 0; s->alpha != 0 && s->alpha_form == SIM_ALPHA_IN_A && e < in[0]->count; ++e) a[e] = multiply(s, s->alpha, a[e]);
    for (int64_t e = 0; s->alpha != 0 && s->alpha_form == SIM_ALPHA_IN_B && e < in[1]->count; ++e) b[e] = multiply(s, s->alpha, b[e]);
    if (op->addend) {
        c = malloc((size_t)in[2]->count * sizeof *c);
        vn_tensor_to_f64(in[2], c);
    }
    if (batch == 1) {
        a = turned(a, m, k, op->transpose_a);
        b = turned(b, k, n, op->transpose_b);
    }
    for (int64_t p = 0; p < batch; ++p) {
        if (s->kernel == SIM_STRASSEN) strassen(s, a, b, out);
        for (int64_t e = 0; e < m * n; ++e) {
            const double *row = a + (p * m + e / n) * k, *column = b + p * k * n + e % n;
            if (s->kernel == SIM_STRASSEN) continue;
            out[e] = c ? with_bias(s, row, column, n, e % n, c[op->addend_rows > 1 ? e : e % n]) : element(s, row, column, n, e % n);
        }
        for (int64_t e = 0; e < m * n; ++e) vn_tensor_set_f64(*output, p * m * n + e, out[e]);
    }
    free(a);
    free(b);
    free(c);
    free(out);
    return VN_OK;
}

vn_call_t sim_call(sim_t *s) { return (vn_call_t){.run = run, .context = s}; }
