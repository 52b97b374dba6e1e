/* card_sums.c -- probes that need terms in a certain order: parts of products, normalisation, carries, epilogues, partial sums. Claims CARD-1 to
 * CARD-5 have the derivations. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/card.h"

/* ---- parts of split operands (P3 to P5) ---- */

/* Terms -x one by one, then the product a b: what is left of it. */
static vn_status_t left_over(vn_card_bench_t *b, int n, const int32_t *leaf, const double *taken, double x, double y, double *out,
                             vn_error_t *err) {
    double a[8], c[8];
    for (int k = 0; k < n; ++k) {
        a[k] = -taken[k];
        c[k] = 1;
    }
    a[n] = x;
    c[n] = y;
    return vn_card_element(b, n + 1, leaf, a, c, 0, out, err);
}

/* hi + mid + lo in bfloat16: 1, 2^-9, 2^-18. Claim CARD-1. */
vn_status_t vn_card_parts(vn_card_bench_t *b, vn_error_t *err) {
    static const double taken[4] = {1, 0x1p-8, 0x1p-17, 0x1p-18};
    const double middle = 1 + 0x1p-9, low = 1 + 0x1p-9 + 0x1p-18;
    vn_card_row_t *presence = vn_card_row(b, "P3", "operands in parts"), *r4 = vn_card_row(b, "P4", "middle part times middle part"),
                  *r5 = vn_card_row(b, "P5", "middle part times low part");
    if (!vn_card_plain(b)) {
        vn_card_row_t *const rows[] = {presence, r4, r5};
        for (int k = 0; k < 3; ++k) vn_card_skip(rows[k], "operands or sum are not whole f32 numbers");
        return VN_OK;
    }
    int32_t leaf[5];
    const int32_t first = 0;
    bool found;
    double out, lost;
    const double one = 1;
    VN_TRY(vn_card_element(b, 1, &first, &middle, &one, 0, &out, err));
    snprintf(presence->finding, sizeof presence->finding,
             out == 1 ? "one part of bfloat16: 1 + 2^-9 is 1" : "more than one part of bfloat16, or none");
    vn_card_number(presence, "out", out);
    VN_TRY(vn_card_joined(b->tree, 2, leaf, &found, err));
    if (!found) {
        vn_card_skip(r4, "no term is added to a sum of two others");
        vn_card_skip(r5, "no term is added to a sum of three others");
        return VN_OK;
    }
    VN_TRY(left_over(b, 2, leaf, taken, middle, middle, &out, err));
    /* (1 + 2^-12)^2 - 1 - 2^-11 = 2^-24: low times low of a split into two TF32; needs a fused product */
    const double tf32[2] = {1, 0x1p-11};
    VN_TRY(left_over(b, 2, leaf, tf32, 1 + 0x1p-12, 1 + 0x1p-12, &lost, err));
    snprintf(r4->finding, sizeof r4->finding,
             out == 0x1p-18 ? "there"
             : out == 0     ? "missing: three products of bfloat16 (bf16x3)"
                            : "parts are lost");
    vn_card_number(r4, "mid*mid", out);
    vn_card_number(r4, "low*low of two", lost);
    VN_TRY(vn_card_joined(b->tree, 4, leaf, &found, err));
    if (!found) {
        vn_card_skip(r5, "no term is added to a sum of four others");
        return VN_OK;
    }
    const bool fused = b->s->arithmetic.fma && !(b->tree->rounded && b->tree->rounded[leaf[4]]);
    VN_TRY(left_over(b, 3, (const int32_t[]){leaf[0], leaf[1], leaf[2], leaf[4]}, taken, middle, low, &out, err));
    VN_TRY(left_over(b, 4, leaf, taken, low, low, &lost, err));
    snprintf(r5->finding, sizeof r5->finding,
             out == 0x1p-27 ? "there: nine products of bfloat16 (bf16x9), or whole numbers fused"
             : out != 0     ? "parts are lost"
             : fused        ? "missing: six products of bfloat16 (bf16x6), or less"
                            : "cannot be seen: the product is rounded before it is added");
    vn_card_number(r5, "mid*low", out);
    vn_card_number(r5, "2mid*low+low*low", lost);
    return VN_OK;
}

/* ---- late normalisation (P9) ---- */

/* A value as a product of two factors that narrow types hold. */
static void factors(const vn_card_bench_t *b, double value, double *x, double *y) {
    *y = b->p->r->op->dtype == VN_F16 ? ldexp(1, ilogb(value) / 2) : 1;
    *x = value / *y;
}

/* 1 - 2^-24 as a sum of products of numbers of p bits, none above 1/2: their exact sum in any order has 24 bits. Returns how many. */
enum { PIECES = 8 };
static int below_one(int p, double *piece) {
    int n = 0, e = 1;
    piece[n++] = 0.5;
    while (n < PIECES - 1 && 24 - e > p) {
        piece[n++] = ldexp(1, -e) - ldexp(1, -e - p + 1);
        e += p - 1;
    }
    piece[n++] = ldexp(1, -e) - 0x1p-24;
    return n;
}

vn_status_t vn_card_normalisation(vn_card_bench_t *b, vn_error_t *err) {
    enum { STEPS = 4, MOST = PIECES + STEPS + 1 };
    vn_card_row_t *r = vn_card_row(b, "P9", "normalisation of a fused sum");
    const vn_arithmetic_t *a = &b->s->arithmetic;
    const vn_dtype_t t = b->p->r->op->dtype;
    const bool narrow = t == VN_F16 || t == VN_BF16, wide = vn_tree_widest(b->tree) > 2; /* narrow outputs: 1 is taken away at the end */
    double piece[PIECES], x[MOST], y[MOST], out;
    int32_t leaf[MOST];
    bool found;
    if (wide && a->fused_bits > 0 && a->fused_bits < 23)
        return vn_card_skip(r, "the group's grid of %d bits does not hold 1 - 2^-24", a->fused_bits), VN_OK;
    if (t == VN_F64 || a->accumulator != VN_FMT_F32) return vn_card_skip(r, "the running sum is not f32"), VN_OK;
    int bits = vn_format_info(vn_format_of(t))->p;
    for (int side = 0; side < 2; ++side)
        if (a->operand[side] != VN_FMT_NONE && vn_format_info(a->operand[side])->p < bits) bits = vn_format_info(a->operand[side])->p;
    const int heads = below_one(bits, piece);
    if (wide) VN_TRY(vn_card_groups(b->tree, heads, STEPS, narrow, leaf, &found, err));
    else VN_TRY(vn_card_run(b->tree, heads, STEPS + narrow, leaf, &found, err));
    if (!found) {
        if (wide) vn_card_skip(r, "no fused group of %d terms is followed by one of %d", heads, STEPS);
        else vn_card_skip(r, "no %d terms are added one after the other to a sum of %d", STEPS + narrow, heads);
        return VN_OK;
    }
    for (int k = 0; k < heads + STEPS + narrow; ++k) factors(b, k < heads ? piece[k] : k < heads + STEPS ? 0x1p-24 : -1, &x[k], &y[k]);
    VN_TRY(vn_card_element(b, heads + STEPS + narrow, leaf, x, y, 0, &out, err));
    const double last = narrow ? out : out - 1;
    snprintf(r->finding, sizeof r->finding,
             last == 0         ? "after every addition: 1 - 2^-24 + 4 * 2^-24 is 1"
             : last == 0x1p-23 ? "late: the terms of a group are added before the sum is normalised"
                               : "a wider sum");
    vn_card_number(r, "out", out);
    return VN_OK;
}

/* ---- carry bits (P10) ---- */

vn_status_t vn_card_carries(vn_card_bench_t *b, vn_error_t *err) {
    enum { MOST = 32, TRIES = 4 };
    static const int positive[TRIES] = {2, 3, 5, 9}; /* sums just below 4, 6, 10, 18: beyond 2, 4, 8, 16 */
    const vn_arithmetic_t *a = &b->s->arithmetic;
    vn_card_row_t *r = vn_card_row(b, "P10", "carry bits of a fused sum");
    int32_t leaf[MOST];
    double x[MOST], y[MOST], out = 0;
    const int terms = vn_card_group(b->tree, MOST, leaf);
    if (vn_tree_widest(b->tree) <= 2) return vn_card_skip(r, "numbers are added two at a time, each sum is rounded"), VN_OK;
    if (a->fused_bits == 0) return vn_card_skip(r, "the fused sum is exact"), VN_OK;
    if (terms < 2 * positive[0] + 1)
        return vn_card_skip(r, "a group of %d terms has no room for carries and their opposites", terms), VN_OK;
    const double scale = b->p->r->op->dtype == VN_F16 ? 0x1p4 : 1; /* of each factor: f16 ends at 2^-24 */
    const int half = a->fused_bits / 2;
    int kept = 0, lost = 0;
    for (int k = 0; k < TRIES && 2 * positive[k] + 1 <= terms && !lost; ++k) {
        const int n = 2 * positive[k] + 1;
        x[0] = ldexp(scale, -half);
        y[0] = ldexp(scale, half - a->fused_bits);
        for (int i = 1; i < n; ++i) {
            x[i] = (i <= positive[k] ? 1 : -1) * (2 - 0x1p-6) * scale;
            y[i] = scale;
        }
        VN_TRY(vn_card_element(b, n, leaf, x, y, 0, &out, err));
        if (out == ldexp(scale * scale, -a->fused_bits)) kept = k + 1;
        else lost = k + 1;
    }
    if (lost) snprintf(r->finding, sizeof r->finding, "%d: the last of %d bits is lost in sums beyond %d", kept, a->fused_bits, 1 << lost);
    else
        snprintf(r->finding, sizeof r->finding, "%d or more: the last of %d bits is kept in sums beyond %d", kept, a->fused_bits,
                 1 << kept);
    vn_card_number(r, "out", out);
    return VN_OK;
}

/* ---- epilogue (P17) ---- */

vn_status_t vn_card_epilogue(vn_card_bench_t *b, vn_error_t *err) {
    static const struct {
        int bits;
        vn_format_t format; /* that has fewer */
    } formats[] = {{9, VN_FMT_BF16}, {12, VN_FMT_F16}};
    vn_card_row_t *r = vn_card_row(b, "P17", "addend and store");
    const vn_dtype_t t = b->p->r->op->dtype;
    const int32_t leaf[2] = {0, b->p->k - 1};
    const double ones[2] = {1, 1};
    if (!b->p->c) return vn_card_skip(r, "the operator has no addend"), VN_OK;
    if (b->p->k < 2) return vn_card_skip(r, "a sum of one term"), VN_OK;
    if (b->s->arithmetic.accumulator == VN_FMT_BF16 || b->s->arithmetic.accumulator == VN_FMT_F16)
        return vn_card_skip(r, "the running sum is %s itself", vn_format_info(b->s->arithmetic.accumulator)->name), VN_OK;
    for (int f = 0; f < 2; ++f) {
        const double x[2] = {1, ldexp(1, -formats[f].bits)};
        double out;
        char name[24];
        if ((t == VN_BF16 && f == 1) || (t == VN_F16 && f == 0)) continue; /* what the store itself is: its own format decides */
        VN_TRY(vn_card_element(b, 2, leaf, x, ones, -1, &out, err));
        snprintf(name, sizeof name, "1+2^-%d-1", formats[f].bits);
        vn_card_number(r, name, out);
        if (*r->finding) continue;
        if (out == 0)
            snprintf(r->finding, sizeof r->finding, "the sum is rounded to %s, then the addend is added",
                     vn_format_info(formats[f].format)->name);
        else if (out != x[1]) snprintf(r->finding, sizeof r->finding, "neither the sum's last bits nor 0 come back");
    }
    if (!*r->finding) snprintf(r->finding, sizeof r->finding, "the addend joins the sum before it is stored");
    return VN_OK;
}

/* ---- partial sums (P20) ---- */

/* The largest t for which 2^-t of 1 + 2^-t - 1 comes back. */
static vn_status_t bits_between(vn_card_bench_t *b, const int32_t leaf[3], int *bits, double *out, vn_error_t *err) {
    const vn_dtype_t t = b->p->r->op->dtype;
    const double ones[3] = {1, 1, 1};
    const int most = t == VN_F16 ? 24 : 60;
    *bits = 0;
    *out = 0;
    for (int k = 1; k <= most; ++k) {
        const double x[3] = {1, ldexp(1, -k), -1};
        double got;
        VN_TRY(vn_card_element(b, 3, leaf, x, ones, 0, &got, err));
        if (got == 0) break;
        *bits = k;
        *out = got;
    }
    return VN_OK;
}

static const char *format_of_bits(int bits) {
    return bits == 7 ? " (bf16)" : bits == 10 ? " (f16 or tf32)" : bits == 23 ? " (f32)" : bits == 52 ? " (f64)" : "";
}

vn_status_t vn_card_partial_sums(vn_card_bench_t *b, vn_error_t *err) {
    vn_card_row_t *r = vn_card_row(b, "P20", "partial sums");
    int32_t leaf[3];
    bool found;
    int bits, joined;
    double out;
    VN_TRY(vn_card_slices(b->tree, false, leaf, &found, err));
    if (!found) return vn_card_skip(r, "no two partial sums meet: terms are added one by one"), VN_OK;
    VN_TRY(bits_between(b, leaf, &bits, &out, err));
    vn_card_number(r, "inside", out);
    if (bits < b->bits)
        snprintf(r->finding, sizeof r->finding, "handed on with %d bits%s; the running sum has %d", bits, format_of_bits(bits), b->bits);
    else snprintf(r->finding, sizeof r->finding, "handed on with %d bits%s, those of the running sum", bits, format_of_bits(bits));
    VN_TRY(vn_card_slices(b->tree, true, leaf, &found, err));
    if (!found) return VN_OK;
    VN_TRY(bits_between(b, leaf, &joined, &out, err));
    vn_card_number(r, "between", out);
    const size_t at = strlen(r->finding);
    snprintf(r->finding + at, sizeof r->finding - at, "; added with %d bits%s", joined, format_of_bits(joined));
    return VN_OK;
}
