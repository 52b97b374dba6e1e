/* card.c -- the arithmetic card of a product: probes by their numbers (docs/schedules.md, Card), each with its finding and its figures. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "schedule/reveal.h"

enum { ROWS = 24 };

typedef struct bench {
    vn_gemm_t *p;
    const vn_schedule_t *s;
    vn_card_t *card;
    int32_t three[3]; /* the first two meet before the third */
    bool has_three;
} bench_t;

static vn_card_row_t *row(bench_t *b, const char *id, const char *subject) {
    if (b->card->n == ROWS) return NULL;
    vn_card_row_t *r = &b->card->rows[b->card->n++];
    snprintf(r->id, sizeof r->id, "%s", id);
    snprintf(r->subject, sizeof r->subject, "%s", subject);
    return r;
}

/* a[k] b[k] at the leaves, 0 elsewhere; the element [0,0]. */
static vn_status_t element(bench_t *b, int n, const int32_t *leaf, const double *x, const double *y, double *out, vn_error_t *err) {
    vn_gemm_t *p = b->p;
    vn_gemm_fill(p, 0, 0);
    for (int k = 0; k < n; ++k) {
        p->a[leaf[k]] = (float)x[k];
        p->b[(int64_t)leaf[k] * p->n] = (float)y[k];
    }
    VN_TRY(vn_gemm_run(p, err));
    *out = p->out[0];
    return VN_OK;
}

static void numbers(vn_card_row_t *r, const char *what, double value) {
    const size_t at = strlen(r->numbers);
    snprintf(r->numbers + at, sizeof r->numbers - at, "%s%s=%a", at ? " " : "", what, value);
}

/* P1, P2: each operand through the product with 1. */
static vn_status_t operands(bench_t *b, vn_error_t *err) {
    static const char *const subjects[] = {"first operand", "second operand"}, *const ids[] = {"P1", "P2"};
    static const char *const roundings[] = {"to nearest, ties to even", "to nearest, ties away", "toward zero", "up", "down"};
    const int32_t leaf = 0;
    for (int side = 0; side < 2; ++side) {
        vn_card_row_t *r = row(b, ids[side], subjects[side]);
        const vn_format_t f = b->s->arithmetic.operand[side];
        const double x = 1 + (b->p->r->op->dtype == VN_BF16 ? 0x1p-7 : b->p->r->op->dtype == VN_F16 ? 0x1p-10 : 0x1p-23), one = 1;
        double out;
        VN_TRY(element(b, 1, &leaf, side ? &one : &x, side ? &x : &one, &out, err));
        if (f == VN_FMT_NONE) snprintf(r->finding, sizeof r->finding, "enters as it is");
        else
            snprintf(r->finding, sizeof r->finding, "rounded to %s, %s", vn_format_info(f)->name,
                     roundings[b->s->arithmetic.operand_rounding[side]]);
        numbers(r, "in", x);
        numbers(r, "out", out);
    }
    return VN_OK;
}

/* P4, P5'': what an emulation by narrow parts drops. */
static vn_status_t splitting(bench_t *b, vn_error_t *err) {
    double out, exact;
    if (b->p->r->op->dtype != VN_F32 || !b->has_three || b->s->arithmetic.operand[0] != VN_FMT_NONE) return VN_OK;
    vn_card_row_t *r = row(b, "P4", "split into narrow parts");
    /* (1 + 2^-9)^2 - 1 - 2^-8 = 2^-18: the product of the middle parts of a split into bfloat16 */
    const double x[3] = {-1, -0x1p-8, 1 + 0x1p-9}, y[3] = {1, 1, 1 + 0x1p-9};
    VN_TRY(element(b, 3, b->three, x, y, &out, err));
    /* (1 + 2^-12)^2 - 1 - 2^-11 = 2^-24: low times low of a split into two TF32; needs a fused product */
    const double u[3] = {-1, -0x1p-11, 1 + 0x1p-12}, v[3] = {1, 1, 1 + 0x1p-12};
    VN_TRY(element(b, 3, b->three, u, v, &exact, err));
    snprintf(r->finding, sizeof r->finding,
             out == 0x1p-18 ? "not seen: the product of the middle parts is there"
             : out == 0     ? "the product of the middle parts is missing (three products of bfloat16)"
                            : "parts are lost");
    numbers(r, "mid*mid", out);
    numbers(r, "low*low", exact);
    return VN_OK;
}

static vn_status_t accumulator(bench_t *b, vn_error_t *err) {
    double out = 0;
    const double ones[3] = {1, 1, 1};
    int last = 0;
    if (!b->has_three) return VN_OK;
    vn_card_row_t *r = row(b, "P15", "bits of the running sum");
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
    numbers(r, "out", out);
    if (b->p->r->op->dtype != VN_F32) return VN_OK;
    r = row(b, "P7", "rounding of the running sum");
    const double up[3] = {1, 1.5 * 0x1p-24, -1}, down[3] = {-1, -1.5 * 0x1p-24, 1};
    double a, c;
    VN_TRY(element(b, 3, b->three, up, ones, &a, err));
    VN_TRY(element(b, 3, b->three, down, ones, &c, err));
    snprintf(r->finding, sizeof r->finding, a && c ? "to nearest" : !a && !c ? "toward zero" : a ? "up" : "down");
    numbers(r, "1+1.5u-1", a);
    numbers(r, "-1-1.5u+1", c);
    if (b->s->arithmetic.operand[0] != VN_FMT_NONE) return VN_OK; /* they do not hold 1 + 2^-23 */
    if (b->s->arithmetic.operand[0] != VN_FMT_NONE) return VN_OK; /* 1 + 2^-23 would not enter */
    const double tie[3] = {1 + 0x1p-23, 0x1p-24, -1};
    r = row(b, "P8", "ties of the running sum");
    VN_TRY(element(b, 3, b->three, tie, ones, &a, err));
    snprintf(r->finding, sizeof r->finding, a == 0x1p-22 ? "to even" : a == 0x1p-23 ? "down or toward zero" : "a wider sum");
    numbers(r, "out", a);
    return VN_OK;
}

static vn_status_t fused_products(bench_t *b, vn_error_t *err) {
    (void)err;
    const vn_tree_t *t = b->s->classes[0].tree;
    int32_t rounded = 0;
    vn_card_row_t *r = row(b, "P14", "products");
    for (int32_t k = 0; t && t->rounded && k < t->n; ++k) rounded += t->rounded[k];
    if (b->s->arithmetic.operand[0] != VN_FMT_NONE || (b->p->r->op->dtype != VN_F32 && b->p->r->op->dtype != VN_F64))
        snprintf(r->finding, sizeof r->finding, "of narrow operands: exact in the running sum");
    else if (!b->s->arithmetic.fma) snprintf(r->finding, sizeof r->finding, "rounded before they are added");
    else if (rounded) snprintf(r->finding, sizeof r->finding, "fused multiply-add, but %d of %d are rounded first", rounded, t->n);
    else snprintf(r->finding, sizeof r->finding, "fused multiply-add");
    snprintf(r->numbers, sizeof r->numbers, "asked for each leaf with x=%a", 1 + 0x1p-12);
    return VN_OK;
}

/* P6, P11, P16: what the reveal measured at the nodes. */
static vn_status_t nodes(bench_t *b, vn_error_t *err) {
    (void)err;
    const vn_arithmetic_t *a = &b->s->arithmetic;
    const vn_tree_t *t = b->s->classes[0].tree;
    int32_t leaf[8];
    int found;
    if (vn_tree_group(t, leaf, &found)) {
        vn_card_row_t *r = row(b, "P11", "operands of a fused sum");
        if (r) snprintf(r->finding, sizeof r->finding, "%d at most, the running sum among them", vn_tree_widest(t));
        r = row(b, "P6", "alignment bits of a fused sum");
        if (r && a->fused_bits) snprintf(r->finding, sizeof r->finding, "%d", a->fused_bits);
        else if (r) snprintf(r->finding, sizeof r->finding, "none: exact");
        if (r) snprintf(r->numbers, sizeof r->numbers, "1 + 2^-t - 1 at leaves %d, %d, %d", leaf[0], leaf[1], leaf[2]);
    }
    vn_card_row_t *r = row(b, "P16", "narrower stores inside the sum");
    if (r && a->narrow_every)
        snprintf(r->finding, sizeof r->finding, "through %s after %d terms", vn_format_info(a->narrow_format)->name, a->narrow_every);
    else if (r) snprintf(r->finding, sizeof r->finding, "none seen");
    return VN_OK;
}

static vn_status_t subnormals(bench_t *b, vn_error_t *err) {
    const int32_t leaf = 0;
    const bool half = b->p->r->op->dtype == VN_F16;
    const double small = half ? 0x1p-24 : 0x1p-130, large = half ? 0x1p10 : 0x1p60;
    double first, second, product;
    if (b->p->r->op->dtype == VN_F64) return VN_OK;
    vn_card_row_t *r = row(b, "P12", "subnormal operands");
    VN_TRY(element(b, 1, &leaf, &small, &large, &first, err));
    VN_TRY(element(b, 1, &leaf, &large, &small, &second, err));
    snprintf(r->finding, sizeof r->finding,
             first && second     ? "kept"
             : !first && !second ? "read as zero"
             : first             ? "the second is read as zero"
                                 : "the first is read as zero");
    numbers(r, "first", first);
    numbers(r, "second", second);
    if (half) return VN_OK;
    r = row(b, "P13", "subnormal results");
    const double a = 0x1p-70, c = 0x1p-60;
    VN_TRY(element(b, 1, &leaf, &a, &c, &product, err));
    snprintf(r->finding, sizeof r->finding, product ? "kept" : "flushed to zero");
    numbers(r, "product", product);
    return VN_OK;
}

static vn_status_t specials(bench_t *b, vn_error_t *err) {
    const int32_t leaves[2] = {0, b->p->k > 1 ? 1 : 0};
    const int n = b->p->k > 1 ? 2 : 1;
    const double huge = b->p->r->op->dtype == VN_F16 ? 65504 : 0x1.fep127;
    double nan, inf, wrap;
    vn_card_row_t *r = row(b, "P22", "NaN and infinity");
    const double x[2] = {INFINITY, 0}, zero[2] = {0, 0}, ones[2] = {1, 1}, both[2] = {huge, huge};
    VN_TRY(element(b, 1, leaves, x, zero, &nan, err));
    VN_TRY(element(b, 1, leaves, x, ones, &inf, err));
    VN_TRY(element(b, n, leaves, both, ones, &wrap, err));
    snprintf(r->finding, sizeof r->finding, "infinity times 0 is %s, infinity %s, the sum of the two largest numbers %s",
             isnan(nan) ? "NaN" : "no NaN", isinf(inf) ? "stays" : "is lost",
             isinf(wrap) ? "infinite"
             : n == 1    ? "not asked"
                         : "finite: it saturates");
    numbers(r, "inf*0", nan);
    numbers(r, "sum", wrap);
    r = row(b, "P23", "sign of zero");
    vn_gemm_fill(b->p, -0.0f, 1);
    VN_TRY(vn_gemm_run(b->p, err));
    snprintf(r->finding, sizeof r->finding, signbit(b->p->out[0]) ? "a sum of -0 is -0" : "a sum of -0 is +0: it begins at +0");
    numbers(r, "out", b->p->out[0]);
    return VN_OK;
}

static vn_status_t store(bench_t *b, vn_error_t *err) {
    const vn_dtype_t t = b->p->r->op->dtype;
    if ((t != VN_F16 && t != VN_BF16) || b->p->k < 2) return VN_OK;
    const double ulp = t == VN_F16 ? 0x1p-10 : 0x1p-7;
    const int32_t leaves[2] = {0, 1};
    const double even[2] = {1, ulp / 2}, odd[2] = {1 + ulp, ulp / 2}, ones[2] = {1, 1};
    double a, c;
    vn_card_row_t *r = row(b, "P21", "rounding of the store");
    VN_TRY(element(b, 2, leaves, even, ones, &a, err));
    VN_TRY(element(b, 2, leaves, odd, ones, &c, err));
    snprintf(r->finding, sizeof r->finding,
             a == 1 && c == 1 + 2 * ulp ? "to nearest, ties to even"
             : a == 1                   ? "toward zero"
                                        : "to nearest, ties away");
    numbers(r, "1+ulp/2", a);
    numbers(r, "1+3ulp/2", c);
    return VN_OK;
}

static vn_status_t bias(bench_t *b, vn_error_t *err) {
    (void)err;
    const vn_tree_t *t = b->s->classes[0].tree;
    if (!t || !t->initial || t->nodes == 0) return VN_OK;
    vn_card_row_t *r = row(b, "P19", "place of the addend");
    const int32_t root = t->nodes - 1;
    bool last = false;
    for (int32_t c = t->first[root]; c < t->first[root + 1]; ++c) last |= t->child[c] == t->n;
    snprintf(r->finding, sizeof r->finding, last ? "added last" : "inside the sum: where the tree says");
    snprintf(r->numbers, sizeof r->numbers, "%.150s", b->s->classes[0].text);
    return VN_OK;
}

vn_status_t vn_measure_product(const vn_call_t *call, const vn_sum_op_t *op, const vn_schedule_t *s, vn_card_t **out, vn_error_t *err) {
    vn_schedule_t counted = {0};
    vn_reveal_run_t run = {.call = call, .op = op, .s = &counted, .options = {.max_calls = 1000, .max_seconds = INFINITY}};
    vn_gemm_t p;
    *out = NULL;
    if (s->n_classes == 0 || !s->classes[0].tree)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "card: the product has no tree, and probes need the order of its terms");
    VN_TRY(vn_gemm_begin(&p, &run, err));
    bench_t b = {.p = &p, .s = s, .card = vn_alloc(1, sizeof *b.card)};
    vn_status_t st =
        b.card && (b.card->rows = vn_alloc(ROWS, sizeof *b.card->rows)) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for a card");
    if (st == VN_OK) {
        b.card->arithmetic = s->arithmetic;
        b.has_three = vn_tree_three(s->classes[0].tree, b.three);
        vn_status_t (*const probes[])(bench_t *, vn_error_t *) = {operands,   splitting, accumulator, fused_products, nodes,
                                                                  subnormals, store,     bias,        specials};
        for (size_t k = 0; k < sizeof probes / sizeof *probes && st == VN_OK; ++k) st = probes[k](&b, err);
    }
    vn_gemm_end(&p);
    if (st == VN_OK) *out = b.card;
    else vn_card_free(b.card);
    return st;
}

void vn_card_free(vn_card_t *c) {
    if (!c) return;
    vn_free(c->rows);
    vn_free(c);
}
