/* checks.c -- is it a sum of products at all? What is no summation tree is named before a tree is looked for. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/reveal.h"

/* A large value in one row of a, then in one column of b, reaches that row and that column only (P24). */
static vn_status_t cross_talk(vn_gemm_t *p, vn_violation_t *v, vn_error_t *err) {
    const int64_t count = (int64_t)p->m * p->n;
    double *plain = vn_alloc((size_t)count, sizeof *plain);
    if (!plain) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld results", (long long)count);
    vn_gemm_fill(p, (float)p->readout.unit, 1);
    vn_status_t st = p->m > 1 || p->n > 1 ? vn_gemm_run(p, err) : VN_OK;
    for (int64_t e = 0; st == VN_OK && p->out && e < count; ++e) plain[e] = p->out[e];
    for (int side = 0; side < 2 && st == VN_OK && v->kind == VN_TREE_OK; ++side) {
        const int32_t line = side ? p->n / 2 : p->m / 2;
        if ((side ? p->n : p->m) < 2) continue;
        vn_gemm_fill(p, (float)p->readout.unit, 1);
        for (int32_t k = 0; k < p->k; ++k) {
            if (side) vn_gemm_put_b(p, (int64_t)k * p->n + line, p->readout.mask);
            else vn_gemm_put_a(p, (int64_t)line * p->k + k, p->readout.mask);
        }
        st = vn_gemm_run(p, err);
        for (int64_t e = 0; st == VN_OK && e < count && v->kind == VN_TREE_OK; ++e) {
            if ((side ? e % p->n : e / p->n) == line || plain[e] == p->out[e]) continue;
            *v = (vn_violation_t){
                .kind = VN_TREE_CROSS_TALK, .i = (int32_t)(e / p->n), .j = (int32_t)(e % p->n), .k = line, .value = p->out[e]};
            snprintf(v->what, sizeof v->what, "element [%d,%d] changes with a large value in %s %d: no plain product (Strassen or alike)",
                     v->i, v->j, side ? "column" : "row", line);
        }
    }
    vn_free(plain);
    return st;
}

/* ---- scales taken from the data ---- */

enum { LARGE = 128, FEW = 8 };

/* 128, -128 and up to seven ones of `side`: every order and every format gives their number. A scale of 128/127 does not. The ones are spread, and some
 * of them stand beside the large values: scales may belong to short blocks. */
static vn_status_t value_dependent(vn_gemm_t *p, int side, vn_violation_t *v, vn_error_t *err) {
    const int32_t few = p->k - 2 < FEW - 1 ? p->k - 2 : FEW - 1;
    if (p->k < 3) return VN_OK;
    vn_gemm_fill(p, side ? 1 : 0, side ? 0 : 1);
    for (int32_t line = 0; line < (side ? p->n : p->m); ++line)
        for (int32_t k = 0; k < few + 2; ++k) {
            const double x = k < few ? 1 : k == few ? LARGE : -LARGE;
            const bool beside = k < few && k % 2 && p->k - 2 > 4 * few;
            const int64_t leaf = k >= few ? p->k - 2 + (k - few) : beside ? p->k - 3 - k / 2 : (int64_t)k * (p->k - 2) / few;
            if (side) vn_gemm_put_b(p, leaf * p->n + line, x);
            else vn_gemm_put_a(p, (int64_t)line * p->k + leaf, x);
        }
    VN_TRY(vn_gemm_run(p, err));
    for (int64_t e = 0; e < (int64_t)p->m * p->n && v->kind == VN_TREE_OK; ++e) {
        if (p->out[e] == few) continue;
        *v = (vn_violation_t){
            .kind = VN_TREE_VALUE_DEPENDENT, .i = (int32_t)(e / p->n), .j = (int32_t)(e % p->n), .k = side, .value = p->out[e]};
    }
    return VN_OK;
}

/* How far along the terms one large value changes what a one at leaf 0 gives: the block of the scale. */
static vn_status_t scale_block(vn_gemm_t *p, int side, int32_t *block, vn_error_t *err) {
    int32_t row = 0, column = 0, low = 0, high = p->k;
    const vn_cell_t cell = {.rows = 1, .columns = 1, .row = &row, .column = &column};
    while (high - low > 1) { /* the large value at `low` shares leaf 0's scale, at `high` it does not */
        const int32_t middle = low + (high - low) / 2;
        vn_probe_t q = {0};
        double out;
        vn_probe_add(&q, 0, 1, 1);
        vn_probe_add(&q, middle, side ? 1 : 0x1p12, side ? 0x1p12 : 1);
        VN_TRY(vn_gemm_probe(p, &cell, 1, &q, &out, err));
        if (out == 0x1p12 + 1) high = middle;
        else low = middle;
    }
    *block = high;
    return VN_OK;
}

static vn_status_t scales(vn_gemm_t *p, vn_violation_t *v, vn_error_t *err) {
    const int sides = p->r->op->block ? 1 : 2; /* weights have scales anyway, and theirs are given */
    for (int side = 0; side < sides && v->kind == VN_TREE_OK; ++side) {
        int32_t block = p->k;
        VN_TRY(value_dependent(p, side, v, err));
        if (v->kind == VN_TREE_OK) continue;
        if (p->r->op->dtype == VN_F32) VN_TRY(scale_block(p, side, &block, err));
        snprintf(v->what, sizeof v->what,
                 "%d, -%d and ones sum to %.9g at [%d,%d]: the %s operand is scaled by its largest value, %d terms a scale", LARGE, LARGE,
                 v->value, v->i, v->j, side ? "second" : "first", block);
    }
    return VN_OK;
}

/* ---- repeats ---- */

/* Uniform in (-1, 1): any data with rounding errors will do. */
static double some_value(vn_gemm_t *p, vn_format_t f) {
    const double x = (double)((int64_t)vn_rng_u64(&p->r->rng) >> 11) * 0x1p-52;
    return f == VN_FMT_F32 || f == VN_FMT_F64 ? x : vn_round_to(f, x, VN_RNE, false); /* f32: rounded where it is put */
}

/* Random data a few times: atomics add in another order. */
static vn_status_t repeats(vn_gemm_t *p, vn_violation_t *v, vn_error_t *err) {
    enum { TIMES = 4 };
    const int64_t count = (int64_t)p->m * p->n;
    const vn_format_t f = vn_format_of(p->r->op->dtype);
    double *before = vn_alloc((size_t)count, sizeof *before);
    if (!before) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld results", (long long)count);
    vn_gemm_fill(p, 0, 0);
    for (int64_t e = 0; e < (int64_t)p->m * p->k; ++e) vn_gemm_put_a(p, e, some_value(p, f));
    for (int64_t e = 0; e < (int64_t)p->k * p->n; ++e) vn_gemm_put_b(p, e, some_value(p, f));
    vn_gemm_settle(p, false);
    vn_status_t st = VN_OK;
    for (int times = 0; times < TIMES && st == VN_OK && v->kind == VN_TREE_OK; ++times) {
        st = vn_gemm_run(p, err);
        for (int64_t e = 0; e < count && st == VN_OK && times > 0 && v->kind == VN_TREE_OK; ++e) {
            if (before[e] == p->out[e]) continue;
            *v = (vn_violation_t){
                .kind = VN_TREE_NONDETERMINISTIC, .i = (int32_t)(e / p->n), .j = (int32_t)(e % p->n), .k = -1, .value = p->out[e]};
            snprintf(v->what, sizeof v->what,
                     "element [%d,%d] is %.9g, then %.9g from the same operands: the order changes from run to run", v->i, v->j, before[e],
                     p->out[e]);
        }
        if (st == VN_OK) memcpy(before, p->out, (size_t)count * sizeof *before);
    }
    vn_free(before);
    return st;
}

vn_status_t vn_gemm_checks(vn_gemm_t *p, vn_violation_t *v, vn_error_t *err) {
    VN_TRY(repeats(p, v, err));
    if (v->kind == VN_TREE_OK) VN_TRY(cross_talk(p, v, err));
    if (v->kind == VN_TREE_OK) VN_TRY(scales(p, v, err));
    return VN_OK;
}

/* ---- operands in parts (P3 to P5) ---- */

/* A single product has one rounding where a multiplier makes it; an emulation by narrow parts has several, or drops parts. */
vn_status_t vn_gemm_split(vn_gemm_t *p, const vn_cell_t *cell, const vn_arithmetic_t *a, vn_violation_t *v, vn_error_t *err) {
    enum { TRIES = 64 };
    vn_probe_t probe[TRIES] = {0};
    double out[TRIES];
    int32_t wrong = 0;
    if (p->r->op->dtype != VN_F32 || a->accumulator != VN_FMT_F32 || a->rounding != VN_RNE || vn_format_of(p->r->op->dtype) != VN_FMT_F32)
        return VN_OK;
    if (a->operand[0] != VN_FMT_NONE || a->operand[1] != VN_FMT_NONE || a->store != VN_FMT_NONE) return VN_OK;
    for (int k = 0; k < TRIES; ++k)
        vn_probe_add(&probe[k], (int32_t)vn_rng_below(&p->r->rng, (uint64_t)p->k), (float)(1 + vn_rng_uniform(&p->r->rng)),
                     (float)(1 + vn_rng_uniform(&p->r->rng)));
    VN_TRY(vn_gemm_probe(p, cell, TRIES, probe, out, err));
    for (int k = 0; k < TRIES; ++k) wrong += out[k] != (double)(float)(probe[k].a[0] * probe[k].b[0]);
    if (wrong == 0) return VN_OK;
    /* the parts: which of the small products is there? Each value is a single product, read through its last bits. */
    const double middle = 1 + 0x1p-9, low = 1 + 0x1p-9 + 0x1p-18;
    const double due[3] = {middle * middle, (float)(low * middle), (float)(low * low)};
    vn_probe_t part[3] = {0};
    double got[3];
    vn_probe_add(&part[0], 0, middle, middle);
    vn_probe_add(&part[1], 0, low, middle);
    vn_probe_add(&part[2], 0, low, low);
    VN_TRY(vn_gemm_probe(p, cell, 3, part, got, err));
    const char *name = got[0] != due[0]                       ? "three products of two bfloat16 parts (bf16x3), or fewer"
                       : got[1] != due[1] || got[2] != due[2] ? "six products of three parts (bf16x6)"
                                                              : "nine products of three parts (bf16x9), or alike";
    *v = (vn_violation_t){.kind = VN_TREE_SPLIT, .i = 0, .j = 0, .k = -1, .value = wrong};
    snprintf(v->what, sizeof v->what, "%d of %d single products are not the rounded product; (1+2^-9)^2 = %.9g: %s", wrong, TRIES, got[0],
             name);
    return VN_OK;
}
