/* exact_steps.c -- the slow execution of a program: every step is computed exactly enough and rounded once, in any format and direction.
 *
 * Claim SCHED-2: operands have at most 24 significant bits, so a product is exact in double. A sum of two doubles is rounded to odd (its last bit is
 * set when it is not exact); rounding that to a format of at most 51 bits is rounding the exact sum.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "schedule/program.h"

enum { W = VN_BLOCK_WIDTH };

static double to_odd(double x, double y) {
    const double s = x + y;
    if (!isfinite(s)) return s;
    const double t = s - x, error = (x - (s - t)) + (y - t);
    uint64_t bits;
    if (error == 0) return s;
    memcpy(&bits, &s, sizeof bits);
    if (bits & 1) return s;
    /* the exact sum lies between s and a neighbour: step toward it, to an odd last bit */
    bits += (error > 0) == (s > 0) ? 1u : UINT64_MAX;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

typedef struct rules {
    const vn_arithmetic_t *a;
    double tau; /* smallest normal of the accumulator */
} rules_t;

static double flushed(double x, double tau) { return x != 0 && fabs(x) < tau ? copysign(0, x) : x; }

static double settle(const rules_t *k, double x) {
    const double y = vn_round_to(k->a->accumulator, x, k->a->rounding, false);
    return k->a->ftz ? flushed(y, k->tau) : y;
}
static double in(const rules_t *k, double x) { return k->a->daz ? flushed(x, 0x1p-126) : x; }

/* An exact zero from operands of both signs is +0, except when rounding down. */
static double sum(const rules_t *k, double x, double y) {
    const double a = in(k, x), b = in(k, y), s = to_odd(a, b);
    if (s == 0 && k->a->rounding == VN_RD && !signbit(a) != !signbit(b)) return -0.0;
    return settle(k, s);
}

static double factor(const rules_t *k, const vn_block_t *b, int32_t leaf, int c, int which) {
    if (which) return in(k, b->b[(int64_t)leaf * W + c]);
    return !b->a[0] ? 1 : in(k, b->pairs ? b->a[0][(int64_t)leaf * W + c] : b->a[0][leaf]);
}
static double product(const rules_t *k, const vn_block_t *b, int32_t leaf, int c) {
    return factor(k, b, leaf, c, 0) * factor(k, b, leaf, c, 1);
}

static double add_term(const rules_t *k, const vn_block_t *b, double acc, int32_t leaf, int c, bool fused) {
    const double p = product(k, b, leaf, c);
    if (!b->a[0]) return sum(k, acc, p);
    if (!fused) return sum(k, acc, settle(k, p));
    const double base = in(k, acc), s = to_odd(base, p);
    if (s == 0 && k->a->rounding == VN_RD && !signbit(base) != !signbit(p)) return -0.0;
    return settle(k, s);
}

/* ---- fused sums: aligned to the largest exponent, cut at F bits, added exactly, rounded once (docs/schedules.md) ---- */

static int exponent(double x, int emin) {
    int e;
    frexp(x, &e);
    return e - 1 < emin ? emin : e - 1;
}

/* floor(log2) of the operands, added: the exponent of a product is not normalised. */
static int product_exponent(const rules_t *k, double x, double y) {
    int e = 0;
    const double v[2] = {x, y};
    for (int i = 0; i < 2; ++i) {
        const vn_format_info_t *f = vn_format_info(k->a->operand[i]);
        e += exponent(v[i], f ? f->emin : -126);
    }
    return e;
}

static double fused_sum(const rules_t *k, const vn_block_t *b, const int32_t *leaves, int32_t n, const float *rows, int32_t n_rows, int c) {
    int largest = INT_MIN;
    bool special = false;
    double plain = 0;
    for (int32_t i = 0; i < n; ++i) {
        const double x = factor(k, b, leaves[i], c, 0), y = factor(k, b, leaves[i], c, 1);
        special |= !isfinite(x * y);
        plain += x * y;
        if (x * y != 0 && !special) {
            const int e = product_exponent(k, x, y);
            if (e > largest) largest = e;
        }
    }
    for (int32_t i = 0; i < n_rows; ++i) {
        const double x = in(k, rows[(int64_t)i * W + c]);
        special |= !isfinite(x);
        plain += x;
        if (x != 0 && !special && exponent(x, -126) > largest) largest = exponent(x, -126);
    }
    if (special) return plain; /* NaN and infinities as any addition gives them */
    if (largest == INT_MIN) return 0;
    const int grid = largest - k->a->fused_bits;
    double total = 0; /* whole numbers of grid units below 2^(F + 2 + log2 of the terms): exact */
    for (int32_t i = 0; i < n; ++i) total += trunc(ldexp(product(k, b, leaves[i], c), -grid));
    for (int32_t i = 0; i < n_rows; ++i) total += trunc(ldexp(in(k, rows[(int64_t)i * W + c]), -grid));
    const vn_format_t f = k->a->fused_result != VN_FMT_NONE ? k->a->fused_result : k->a->accumulator;
    const double y = vn_round_to(f, ldexp(total, grid), k->a->fused_rounding, false);
    return k->a->ftz ? flushed(y, k->tau) : y;
}

void vn_program_run_exactly(const vn_replay_t *r, const vn_block_t *b) {
    float *top = b->stack - W;
    const rules_t k = {.a = &r->arithmetic, .tau = vn_format_info(r->arithmetic.accumulator)->tau};
    for (int32_t i = 0; i < r->steps; ++i) {
        const vn_program_step_t *s = &r->step[i];
        const float zero = 0;
        switch (s->kind) {
        case VN_STEP_TERM:
            top += W;
            for (int c = 0; c < b->width; ++c) {
                top[c] = (float)settle(&k, product(&k, b, s->leaf, c));
                if (r->arithmetic.zero_start) top[c] = top[c] + 0.0f;
            }
            break;
        case VN_STEP_START:
            top += W;
            for (int c = 0; c < b->width; ++c) top[c] = b->start ? b->start[c] : 0;
            break;
        case VN_STEP_CHAIN:
            for (int c = 0; c < b->width; ++c)
                for (int32_t m = 0; m < s->count; ++m) top[c] = (float)add_term(&k, b, top[c], s->leaf + m * s->stride, c, s->fused);
            break;
        case VN_STEP_ADD_START:
            for (int c = 0; c < b->width; ++c) top[c] = (float)sum(&k, top[c], b->start ? b->start[c] : zero);
            break;
        case VN_STEP_ADD:
            top -= W;
            for (int c = 0; c < b->width; ++c) top[c] = (float)sum(&k, top[c], top[c + W]);
            break;
        case VN_STEP_NARROW:
            for (int c = 0; c < b->width; ++c) top[c] = (float)vn_round_to(r->arithmetic.narrow_format, top[c], VN_RNE, false);
            break;
        case VN_STEP_FUSED:
            top += (int64_t)(1 - s->count) * W;
            for (int c = 0; c < b->width; ++c) top[c] = (float)fused_sum(&k, b, r->list + s->leaf, s->stride, top, s->count, c);
            break;
        }
    }
}
