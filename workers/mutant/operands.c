/* operands.c -- what a back end does to the operands of a product first: rounding, sums of bf16 numbers, 8-bit codes of activations. */
#include <math.h>
#include <string.h>

#include "mutant.h"

void round_operands(const call_t *c, double *x, int64_t n) {
    if (c->a->operands.format) vn_round_array(c->a->operands.format, c->a->operands.mode, x, n);
}

/* One group of terms under one scale: x becomes scale * (code - zero). */
static void quantise_group(bool symmetric, double *x, int64_t n) {
    double low = 0, high = 0; /* the range holds zero */
    for (int64_t i = 0; i < n; ++i) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    const double top = high > -low ? high : -low, span = high - low;
    const double scale = symmetric ? (double)(float)(top / 127) : (double)(float)(span / 255);
    if (!(scale > 0)) return;
    const double zero = symmetric ? 0 : rint(-low / scale), least = symmetric ? -127 : 0, most = symmetric ? 127 : 255;
    for (int64_t i = 0; i < n; ++i) {
        double code = rint(x[i] / scale) + zero;
        code = code < least ? least : code > most ? most : code;
        x[i] = (double)(float)(scale * (code - zero));
    }
}

void quantise_activations(const call_t *c, int64_t rows, int64_t k, double *x) {
    const activations_t *q = &c->a->activations;
    if (!q->on) return;
    if (q->group < 0) {
        quantise_group(q->symmetric, x, rows * k);
        return;
    }
    const int64_t group = q->group ? q->group : k;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < k; i += group) quantise_group(q->symmetric, x + r * k + i, k - i < group ? k - i : group);
}

/* x = the sum of `pieces` bf16 numbers and a rest that is given up. */
static double *pieces_of(const call_t *c, int pieces, const double *x, int64_t n) {
    double *p = room_for(c, n * pieces);
    for (int64_t i = 0; p && i < n; ++i) {
        double rest = x[i];
        for (int k = 0; k < pieces; ++k) {
            p[k * n + i] = vn_round_to(VN_FMT_BF16, rest, VN_RNE, false);
            rest = (double)(float)(rest - p[k * n + i]);
        }
    }
    return p;
}

/* Products of pieces i and j with i + j < pieces; the small ones first, each a sum of its own. */
static vn_status_t split_product(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, const double *a, const double *b,
                                 double *out) {
    const int pieces = c->a->pieces;
    double *pa = pieces_of(c, pieces, a, m * k), *pb = pieces_of(c, pieces, b, k * n), *part = room_for(c, m * n);
    vn_status_t s = pa && pb && part ? VN_OK : VN_ERR_NOMEM;
    if (s == VN_OK) memset(out, 0, (size_t)(m * n) * sizeof *out);
    for (int sum = pieces - 1; s == VN_OK && sum >= 0; --sum)
        for (int i = 0; i <= sum && s == VN_OK; ++i) {
            s = contract(c, wide, m, k, n, pa + i * m * k, pb + (sum - i) * k * n, part);
            for (int64_t e = 0; s == VN_OK && e < m * n; ++e) out[e] = settle(wide, out[e] + part[e]);
        }
    vn_free(pa);
    vn_free(pb);
    vn_free(part);
    return s;
}

vn_status_t plain_product(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, double *a, double *b, double *out) {
    if (c->a->pieces) return split_product(c, wide, m, k, n, a, b, out);
    round_operands(c, a, m * k);
    round_operands(c, b, k * n);
    return contract(c, wide, m, k, n, a, b, out);
}

vn_status_t product(const call_t *c, bool wide, int64_t m, int64_t k, int64_t n, double *a, double *b, double *out) {
    quantise_activations(c, m, k, a);
    return plain_product(c, wide, m, k, n, a, b, out);
}
