/* card.c -- the arithmetic card of a product: probes by their numbers (docs/schedules.md, Card), each with its finding and its figures. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/card.h"

enum { ROWS = 40 }; /* more than there are probes */

vn_card_row_t *vn_card_row(vn_card_bench_t *b, const char *id, const char *subject) {
    vn_card_row_t *r = &b->card->rows[b->card->n++];
    snprintf(r->id, sizeof r->id, "%s", id);
    snprintf(r->subject, sizeof r->subject, "%s", subject);
    return r;
}

void vn_card_skip(vn_card_row_t *r, const char *fmt, ...) {
    char why[sizeof r->finding];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    snprintf(r->finding, sizeof r->finding, "not measured: %.100s", why);
}

void vn_card_number(vn_card_row_t *r, const char *what, double value) {
    const size_t at = strlen(r->numbers);
    snprintf(r->numbers + at, sizeof r->numbers - at, "%s%s=%a", at ? " " : "", what, value);
}

vn_status_t vn_card_element(vn_card_bench_t *b, int n, const int32_t *leaf, const double *x, const double *y, double start, double *out,
                            vn_error_t *err) {
    vn_gemm_t *p = b->p;
    vn_gemm_fill(p, 0, 0);
    for (int k = 0; k < n; ++k) {
        vn_gemm_put_a(p, leaf[k], x[k]);
        vn_gemm_put_b(p, (int64_t)leaf[k] * p->n, y[k]);
    }
    for (int64_t e = 0; p->c && start != 0 && e < (int64_t)p->m * p->n; ++e) p->c[e] = (float)start;
    const int64_t first = 0;
    return vn_gemm_run_few(p, 1, &first, out, err);
}

bool vn_card_plain(const vn_card_bench_t *b) {
    const vn_arithmetic_t *a = &b->s->arithmetic;
    return b->p->r->op->dtype == VN_F32 && a->operand[0] == VN_FMT_NONE && a->operand[1] == VN_FMT_NONE && a->accumulator == VN_FMT_F32 &&
           a->rounding == VN_RNE;
}

/* The element [0,0] without an addend. */
static vn_status_t element(vn_card_bench_t *b, int n, const int32_t *leaf, const double *x, const double *y, double *out, vn_error_t *err) {
    return vn_card_element(b, n, leaf, x, y, 0, out, err);
}

/* P1, P2: each operand through the product with 1. */
static vn_status_t operands(vn_card_bench_t *b, vn_error_t *err) {
    static const char *const subjects[] = {"first operand", "second operand"}, *const ids[] = {"P1", "P2"};
    static const char *const roundings[] = {"to nearest, ties to even", "to nearest, ties away", "toward zero", "up", "down"};
    const int32_t leaf = 0;
    for (int side = 0; side < 2; ++side) {
        vn_card_row_t *r = vn_card_row(b, ids[side], subjects[side]);
        const vn_format_t f = b->s->arithmetic.operand[side];
        const double x = 1 + (b->p->r->op->dtype == VN_BF16 ? 0x1p-7 : b->p->r->op->dtype == VN_F16 ? 0x1p-10 : 0x1p-23), one = 1;
        double out;
        VN_TRY(element(b, 1, &leaf, side ? &one : &x, side ? &x : &one, &out, err));
        if (f == VN_FMT_NONE) snprintf(r->finding, sizeof r->finding, "enters as it is");
        else
            snprintf(r->finding, sizeof r->finding, "rounded to %s, %s", vn_format_info(f)->name,
                     roundings[b->s->arithmetic.operand_rounding[side]]);
        vn_card_number(r, "in", x);
        vn_card_number(r, "out", out);
    }
    return VN_OK;
}

static vn_status_t accumulator(vn_card_bench_t *b, vn_error_t *err) {
    double out = 0;
    const double ones[3] = {1, 1, 1};
    int last = 0;
    vn_card_row_t *r = vn_card_row(b, "P15", "bits of the running sum"), *r7 = vn_card_row(b, "P7", "rounding of the running sum"),
                  *r8 = vn_card_row(b, "P8", "ties of the running sum");
    if (!b->has_three) {
        vn_card_row_t *const rows[] = {r, r7, r8};
        for (int k = 0; k < 3; ++k) vn_card_skip(rows[k], "no term is added to a sum of two others");
        return VN_OK;
    }
    const int most = b->p->r->op->dtype == VN_F16 ? 24 : 60;
    for (int t = 1; t <= most; ++t) {
        const double x[3] = {1, exp2(-t), -1};
        double got;
        VN_TRY(element(b, 3, b->three, x, ones, &got, err));
        if (got == 0) break;
        last = t;
        out = got;
    }
    snprintf(r->finding, sizeof r->finding, "1 + 2^-%d - 1 is seen, 2^-%d is not: %s", last, last + 1,
             vn_format_info(b->s->arithmetic.accumulator)->name);
    vn_card_number(r, "out", out);
    b->bits = last;
    if (b->p->r->op->dtype != VN_F32) {
        vn_card_skip(r7, "operands of %s do not hold 1.5 u of the sum", vn_dtype_name(b->p->r->op->dtype));
        vn_card_skip(r8, "operands of %s do not hold u of the sum", vn_dtype_name(b->p->r->op->dtype));
        return VN_OK;
    }
    const double up[3] = {1, 1.5 * 0x1p-24, -1}, down[3] = {-1, -1.5 * 0x1p-24, 1};
    double a, c;
    VN_TRY(element(b, 3, b->three, up, ones, &a, err));
    VN_TRY(element(b, 3, b->three, down, ones, &c, err));
    snprintf(r7->finding, sizeof r7->finding, a && c ? "to nearest" : !a && !c ? "toward zero" : a ? "up" : "down");
    vn_card_number(r7, "1+1.5u-1", a);
    vn_card_number(r7, "-1-1.5u+1", c);
    if (b->s->arithmetic.operand[0] != VN_FMT_NONE)
        return vn_card_skip(r8, "operands of %s do not hold 1 + 2^-23", vn_format_info(b->s->arithmetic.operand[0])->name), VN_OK;
    const double tie[3] = {1 + 0x1p-23, 0x1p-24, -1};
    r = r8;
    VN_TRY(element(b, 3, b->three, tie, ones, &a, err));
    snprintf(r->finding, sizeof r->finding, a == 0x1p-22 ? "to even" : a == 0x1p-23 ? "down or toward zero" : "a wider sum");
    vn_card_number(r, "out", a);
    return VN_OK;
}

static vn_status_t fused_products(vn_card_bench_t *b, vn_error_t *err) {
    (void)err;
    const vn_tree_t *t = b->tree;
    int32_t rounded = 0;
    vn_card_row_t *r = vn_card_row(b, "P14", "products");
    for (int32_t k = 0; t->rounded && k < t->n; ++k) rounded += t->rounded[k];
    if (b->s->arithmetic.operand[0] != VN_FMT_NONE || (b->p->r->op->dtype != VN_F32 && b->p->r->op->dtype != VN_F64))
        snprintf(r->finding, sizeof r->finding, "of narrow operands: exact in the running sum");
    else if (!b->s->arithmetic.fma) snprintf(r->finding, sizeof r->finding, "rounded before they are added");
    else if (rounded) snprintf(r->finding, sizeof r->finding, "fused multiply-add, but %d of %d are rounded first", rounded, t->n);
    else snprintf(r->finding, sizeof r->finding, "fused multiply-add");
    snprintf(r->numbers, sizeof r->numbers, "asked for each leaf with x=%a", 1 + 0x1p-12);
    return VN_OK;
}

/* P6, P11, P16: what the reveal measured at the nodes. */
static vn_status_t nodes(vn_card_bench_t *b, vn_error_t *err) {
    (void)err;
    const vn_arithmetic_t *a = &b->s->arithmetic;
    const vn_tree_t *t = b->tree;
    int32_t leaf[8];
    int found;
    vn_card_row_t *r = vn_card_row(b, "P11", "operands of a fused sum"), *r6 = vn_card_row(b, "P6", "alignment bits of a fused sum");
    if (vn_tree_group(t, leaf, &found)) {
        snprintf(r->finding, sizeof r->finding, "%d at most, the running sum among them", vn_tree_widest(t));
        if (a->fused_bits) snprintf(r6->finding, sizeof r6->finding, "%d", a->fused_bits);
        else snprintf(r6->finding, sizeof r6->finding, "none: exact");
        snprintf(r6->numbers, sizeof r6->numbers, "1 + 2^-t - 1 at leaves %d, %d, %d", leaf[0], leaf[1], leaf[2]);
    } else {
        snprintf(r->finding, sizeof r->finding, "none is fused: numbers are added two at a time");
        vn_card_skip(r6, "numbers are added two at a time");
    }
    r = vn_card_row(b, "P16", "narrower stores inside the sum");
    if (a->narrow_every)
        snprintf(r->finding, sizeof r->finding, "through %s after %d terms", vn_format_info(a->narrow_format)->name, a->narrow_every);
    else snprintf(r->finding, sizeof r->finding, "none seen");
    return VN_OK;
}

static vn_status_t subnormals(vn_card_bench_t *b, vn_error_t *err) {
    const int32_t leaf = 0;
    const bool half = b->p->r->op->dtype == VN_F16;
    const double small = half ? 0x1p-24 : 0x1p-130, large = half ? 0x1p10 : 0x1p60;
    double first, second, product;
    vn_card_row_t *r = vn_card_row(b, "P12", "subnormal operands"), *r13 = vn_card_row(b, "P13", "subnormal results");
    if (b->p->r->op->dtype == VN_F64) {
        vn_card_skip(r, "operands of two f32 parts do not reach the subnormal numbers of f64");
        vn_card_skip(r13, "operands of two f32 parts do not reach the subnormal numbers of f64");
        return VN_OK;
    }
    VN_TRY(element(b, 1, &leaf, &small, &large, &first, err));
    VN_TRY(element(b, 1, &leaf, &large, &small, &second, err));
    snprintf(r->finding, sizeof r->finding,
             first && second     ? "kept"
             : !first && !second ? "read as zero"
             : first             ? "the second is read as zero"
                                 : "the first is read as zero");
    vn_card_number(r, "first", first);
    vn_card_number(r, "second", second);
    if (half) return vn_card_skip(r13, "products of f16 are no subnormal numbers of the sum"), VN_OK;
    r = r13;
    const double a = 0x1p-70, c = 0x1p-60;
    VN_TRY(element(b, 1, &leaf, &a, &c, &product, err));
    snprintf(r->finding, sizeof r->finding, product ? "kept" : "flushed to zero");
    vn_card_number(r, "product", product);
    return VN_OK;
}

static vn_status_t specials(vn_card_bench_t *b, vn_error_t *err) {
    const int32_t leaves[2] = {0, b->p->k > 1 ? 1 : 0};
    const int n = b->p->k > 1 ? 2 : 1;
    const double huge = b->p->r->op->dtype == VN_F16 ? 65504 : 0x1.fep127;
    double nan, inf, wrap;
    vn_card_row_t *r = vn_card_row(b, "P22", "NaN and infinity");
    const double x[2] = {INFINITY, 0}, zero[2] = {0, 0}, ones[2] = {1, 1}, both[2] = {huge, huge};
    VN_TRY(element(b, 1, leaves, x, zero, &nan, err));
    VN_TRY(element(b, 1, leaves, x, ones, &inf, err));
    VN_TRY(element(b, n, leaves, both, ones, &wrap, err));
    snprintf(r->finding, sizeof r->finding, "infinity times 0 is %s, infinity %s, the sum of the two largest numbers %s",
             isnan(nan) ? "NaN" : "no NaN", isinf(inf) ? "stays" : "is lost",
             isinf(wrap) ? "infinite"
             : n == 1    ? "not asked"
                         : "finite: it saturates");
    vn_card_number(r, "inf*0", nan);
    vn_card_number(r, "sum", wrap);
    r = vn_card_row(b, "P23", "sign of zero");
    vn_gemm_fill(b->p, -0.0f, 1);
    VN_TRY(vn_gemm_run(b->p, err));
    snprintf(r->finding, sizeof r->finding, signbit(b->p->out[0]) ? "a sum of -0 is -0" : "a sum of -0 is +0: it begins at +0");
    vn_card_number(r, "out", b->p->out[0]);
    return VN_OK;
}

static vn_status_t store(vn_card_bench_t *b, vn_error_t *err) {
    const vn_dtype_t t = b->p->r->op->dtype;
    vn_card_row_t *r = vn_card_row(b, "P21", "rounding of the store");
    if (t != VN_F16 && t != VN_BF16) return vn_card_skip(r, "the output holds the whole sum"), VN_OK;
    if (b->p->k < 2) return vn_card_skip(r, "a sum of one term"), VN_OK;
    const double ulp = t == VN_F16 ? 0x1p-10 : 0x1p-7;
    const int32_t leaves[2] = {0, 1};
    const double even[2] = {1, ulp / 2}, odd[2] = {1 + ulp, ulp / 2}, ones[2] = {1, 1};
    double a, c;
    VN_TRY(element(b, 2, leaves, even, ones, &a, err));
    VN_TRY(element(b, 2, leaves, odd, ones, &c, err));
    snprintf(r->finding, sizeof r->finding,
             a == 1 && c == 1 + 2 * ulp ? "to nearest, ties to even"
             : a == 1                   ? "toward zero"
                                        : "to nearest, ties away");
    vn_card_number(r, "1+ulp/2", a);
    vn_card_number(r, "1+3ulp/2", c);
    return VN_OK;
}

/* P18 has its own entry: it needs another model. P24 was asked before there was a tree. */
static vn_status_t addend(vn_card_bench_t *b, vn_error_t *err) {
    (void)err;
    const vn_tree_t *t = b->tree;
    vn_card_row_t *r = vn_card_row(b, "P18", "alpha * sum + addend");
    vn_card_skip(r, b->p->c ? "asked of Gemm as a model of its own, in f32" : "the operator has no addend");
    r = vn_card_row(b, "P19", "place of the addend");
    if (!t->initial || t->nodes == 0) {
        vn_card_skip(r, "the operator has no addend");
    } else {
        const int32_t root = t->nodes - 1;
        bool last = false;
        for (int32_t c = t->first[root]; c < t->first[root + 1]; ++c) last |= t->child[c] == t->n;
        snprintf(r->finding, sizeof r->finding, last ? "added last" : "inside the sum: where the tree says");
        snprintf(r->numbers, sizeof r->numbers, "%.150s", b->s->classes[0].text);
    }
    r = vn_card_row(b, "P24", "values of other elements");
    if (b->p->m < 2 && b->p->n < 2) vn_card_skip(r, "the product is one element");
    else snprintf(r->finding, sizeof r->finding, "none leaks: a large value in a row or a column stays there");
    return VN_OK;
}

/* Rows in the order of their numbers. */
static void sort(vn_card_t *c) {
    for (int k = 1; k < c->n; ++k) {
        const vn_card_row_t r = c->rows[k];
        int at = k;
        for (; at > 0 && atoi(c->rows[at - 1].id + 1) > atoi(r.id + 1); --at) c->rows[at] = c->rows[at - 1];
        c->rows[at] = r;
    }
}

vn_status_t vn_measure_product(const vn_call_t *call, const vn_sum_op_t *op, const vn_schedule_t *s, vn_card_t **out, vn_error_t *err) {
    vn_schedule_t counted = {0};
    vn_reveal_run_t run = {.call = call, .op = op, .s = &counted, .options = {.max_calls = 1000, .max_seconds = INFINITY}};
    vn_gemm_t p;
    *out = NULL;
    if (s->n_classes == 0 || !s->classes[0].tree)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "card: the product has no tree, and probes need the order of its terms");
    VN_TRY(vn_gemm_begin(&p, &run, err));
    vn_card_bench_t b = {.p = &p, .s = s, .tree = s->classes[0].tree, .card = vn_alloc(1, sizeof *b.card)};
    vn_status_t st =
        b.card && (b.card->rows = vn_alloc(ROWS, sizeof *b.card->rows)) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a card");
    if (st == VN_OK) {
        b.card->arithmetic = s->arithmetic;
        b.has_three = vn_tree_three(b.tree, b.three);
        vn_status_t (*const probes[])(vn_card_bench_t *, vn_error_t *) = {
            operands, vn_card_parts,    accumulator, fused_products,       nodes,   vn_card_normalisation, vn_card_carries, subnormals,
            store,    vn_card_epilogue, addend,      vn_card_partial_sums, specials};
        for (size_t k = 0; k < sizeof probes / sizeof *probes && st == VN_OK; ++k) st = probes[k](&b, err);
    }
    vn_gemm_end(&p);
    if (st == VN_OK) {
        sort(b.card);
        *out = b.card;
    } else {
        vn_card_free(b.card);
    }
    return st;
}

void vn_card_free(vn_card_t *c) {
    if (!c) return;
    vn_free(c->rows);
    vn_free(c);
}

/* ---- alpha (P18) ---- */

/* Claim CARD-4. acc = alpha = 1 + 2^-12: alpha acc - 1 - 2^-11 is 2^-24 unrounded. 1 - (1 - 2^-24), each times alpha before it is added: 2^-23. */
vn_status_t vn_measure_alpha(const vn_call_t *call, const vn_sum_op_t *op, const vn_schedule_t *s, vn_card_t *card, vn_error_t *err) {
    vn_schedule_t counted = {0};
    vn_reveal_run_t run = {.call = call, .op = op, .s = &counted, .options = {.max_calls = 1000, .max_seconds = INFINITY}};
    vn_card_row_t *r = NULL;
    vn_gemm_t p;
    for (int k = 0; k < card->n; ++k)
        if (strcmp(card->rows[k].id, "P18") == 0) r = &card->rows[k];
    if (!r || s->n_classes == 0 || !s->classes[0].tree || !op->addend)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "card: alpha is asked of a product with an addend whose card is there");
    VN_TRY(vn_gemm_begin(&p, &run, err));
    vn_card_bench_t b = {.p = &p, .s = s, .tree = s->classes[0].tree, .card = card};
    const int32_t leaf[2] = {0, op->k > 1 ? (int32_t)op->k - 1 : 0};
    const double acc = VN_CARD_ALPHA, ones[2] = {1, 1}, parts[2] = {1, -(1 - 0x1p-24)};
    double out = 0, inside[2] = {0, 0};
    vn_status_t st = VN_OK;
    if (!vn_card_plain(&b) || op->k < 2) {
        vn_card_skip(r, op->k < 2 ? "a sum of one term" : "operands or sum are not whole f32 numbers");
    } else {
        st = vn_card_element(&b, 1, leaf, &acc, ones, -(1 + 0x1p-11), &out, err);
        if (st == VN_OK) st = vn_card_element(&b, 2, leaf, parts, ones, 0, &inside[0], err);
        if (st == VN_OK) st = vn_card_element(&b, 2, leaf, ones, parts, 0, &inside[1], err);
        const double whole = acc * 0x1p-24;
        r->numbers[0] = '\0';
        snprintf(r->finding, sizeof r->finding,
                 inside[0] != whole && inside[1] != whole ? "an operand, or each product, times alpha"
                 : inside[0] != whole                     ? "the first operand times alpha"
                 : inside[1] != whole                     ? "the second operand times alpha"
                 : out == 0x1p-24                         ? "fused: one rounding"
                 : out == 0                               ? "alpha times the sum is rounded, then the addend is added"
                                                          : "neither fused nor rounded once");
        vn_card_number(r, "alpha*acc+c", out);
        vn_card_number(r, "alpha in a", inside[0]);
        vn_card_number(r, "alpha in b", inside[1]);
    }
    vn_gemm_end(&p);
    return st;
}
