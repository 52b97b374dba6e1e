/* hypotheses.c -- rung 7: named arithmetics, evaluated by the oracle on the same data.
 *
 * Claim HYPO-1: a hypothesis H1 with parameters fixed beforehand is accepted iff no element leaves its own bound, its own fingerprint
 * passes, and log L(H1) - max over 0 < s <= 1 of log L(H0 with s sigma) > ln(1 / alpha) (bounds.md, calculus 8); H1 has
 * its own sigma as it stands. Further, the typical element must be off under H0 (median |z| beyond the limit of p = 1/2): an arithmetic acts on all
 * elements, a local fault on some, and a wide bound must not swallow it. Duplicated rows make the likelihoods too sharp for both sides.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/ladder.h"

typedef struct hypothesis {
    const char *id;
    const char *words;
    vn_format_t operand;
    vn_rounding_t rounding;
    vn_format_t accumulator, result, intermediate;
    int mask; /* which operand is rounded; 0 = all */
    bool ftz, daz;
} hypothesis_t;

static const hypothesis_t table[] = {
    {.id = "operands-bf16", .words = "bfloat16 operands (nearest even), f32 accumulation", .operand = VN_FMT_BF16},
    {.id = "operands-tf32-rn", .words = "TF32 operands (nearest even), f32 accumulation", .operand = VN_FMT_TF32},
    {.id = "operands-tf32-rna", .words = "TF32 operands (ties away), f32 accumulation", .operand = VN_FMT_TF32, .rounding = VN_RNA},
    {.id = "operands-tf32-rz", .words = "TF32 operands (truncated), f32 accumulation", .operand = VN_FMT_TF32, .rounding = VN_RZ},
    {.id = "operands-f16", .words = "f16 operands, f32 accumulation", .operand = VN_FMT_F16},
    {.id = "result-rounded-to-bf16", .words = "result rounded to bfloat16", .result = VN_FMT_BF16},
    {.id = "result-rounded-to-f16", .words = "result rounded to f16", .result = VN_FMT_F16},
    {.id = "intermediate-bf16", .words = "a hidden intermediate rounded to bfloat16", .intermediate = VN_FMT_BF16},
    {.id = "intermediate-f16", .words = "a hidden intermediate rounded to f16", .intermediate = VN_FMT_F16},
    {.id = "accumulator-f16", .words = "running sum in f16", .accumulator = VN_FMT_F16},
    {.id = "accumulator-bf16", .words = "running sum in bfloat16", .accumulator = VN_FMT_BF16},
    {.id = "operands-bf16", .words = "bfloat16 operands, f32 accumulation, bfloat16 result", .operand = VN_FMT_BF16, .result = VN_FMT_BF16},
    {.id = "operands-bf16",
     .words = "bfloat16 operands, f32 accumulation, sum and bias rounded to bfloat16 before they meet, bfloat16 result",
     .operand = VN_FMT_BF16,
     .result = VN_FMT_BF16,
     .intermediate = VN_FMT_BF16},
    {.id = "operands-f16", .words = "f16 operands, f32 accumulation, f16 result", .operand = VN_FMT_F16, .result = VN_FMT_F16},
    {.id = "operands-f16", .words = "right operand rounded to f16, f32 accumulation", .operand = VN_FMT_F16, .mask = 2},
    {.id = "operands-f16", .words = "left operand rounded to f16, f32 accumulation", .operand = VN_FMT_F16, .mask = 1},
    {.id = "operands-bf16", .words = "right operand rounded to bfloat16, f32 accumulation", .operand = VN_FMT_BF16, .mask = 2},
    {.id = "operands-bf16", .words = "left operand rounded to bfloat16, f32 accumulation", .operand = VN_FMT_BF16, .mask = 1},
    {.id = "ftz", .words = "subnormal results flushed to zero", .ftz = true},
    {.id = "daz", .words = "subnormal operands read as zero", .daz = true},
};

static int precision(vn_format_t f) { return f == VN_FMT_NONE ? 0 : vn_format_info(f)->p; }

/* A hypothesis must ask for less than the contract gives, else it is the contract. */
static bool applies(const hypothesis_t *h, const vn_contract_t *c, vn_op_class_t cls, vn_dtype_t out) {
    const bool sums = cls == VN_CLASS_CONTRACTION || cls == VN_CLASS_REDUCTION || cls == VN_CLASS_SCAN || cls == VN_CLASS_COMPOSITE ||
                      cls == VN_CLASS_SOFTMAX || cls == VN_CLASS_NORMALISATION;
    if (!vn_dtype_is_float(out)) return false;
    if (h->operand && (precision(h->operand) >= precision(c->operand) ||
                       (cls != VN_CLASS_CONTRACTION && cls != VN_CLASS_COMPOSITE && cls != VN_CLASS_ELEMENTARY)))
        return false;
    if (h->operand && cls == VN_CLASS_ELEMENTARY && (h->mask || h->intermediate)) return false;
    if (h->accumulator && (precision(h->accumulator) >= precision(c->accumulator) || !sums)) return false;
    if (h->result && precision(h->result) >= precision(vn_format_of(out))) return false;
    if (h->intermediate && (precision(h->intermediate) >= precision(c->accumulator) ||
                            (!h->operand && cls != VN_CLASS_COMPOSITE && cls != VN_CLASS_NORMALISATION && cls != VN_CLASS_SOFTMAX)))
        return false;
    if (h->ftz && c->ftz) return false;
    if (h->daz && c->daz) return false;
    return true;
}

static vn_contract_t changed(const hypothesis_t *h, const vn_contract_t *base) {
    vn_contract_t c = *base;
    if (h->operand) {
        c.operand = h->operand;
        c.operand_rounding = h->rounding;
        c.operand_mask = h->mask;
    }
    if (h->accumulator) c.accumulator = h->accumulator;
    if (h->result) c.result = h->result;
    if (h->intermediate) c.intermediate = h->intermediate;
    c.ftz |= h->ftz;
    c.daz |= h->daz;
    return c;
}

enum { EVIDENCE = 32768 };

/* Log likelihood of the stored numbers x: per element the mass of the cell that rounds to x, min(1, ulp / sqrt(2 pi v) exp(-z^2 / 2)) with
 * v = s^2 sigma^2 + ulp^2 / 12 (bounds.md, calculus 9): a hypothesis that predicts the very bits gains, one that is merely wide does not.
 * `free_scale`: s <= 1 chosen best for H0, else s = 1 (a hypothesis is fixed beforehand). Of large outputs an even sample, chosen by count
 * alone and so the same for all that are compared, is evidence enough: each element adds log(1 / wrongness) of its own. */
static double log_likelihood(const vn_ref_t *r, const double *x, int64_t n, bool free_scale) {
    const vn_format_t f = vn_format_of(r->dtype);
    const int64_t step = n / EVIDENCE + 1;
    double z2 = 0, best = -INFINITY;
    int64_t used = 0;
    for (int64_t i = 0; i < n; i += step) {
        if (!isfinite(x[i]) || !isfinite(r->value[i])) continue;
        const double e = x[i] - r->value[i], ulp = vn_ulp(f, x[i]), v = (r->var ? r->var[i] : 0) + ulp * ulp / 12;
        z2 += e * e / v;
        used++;
    }
    if (!used) return -INFINITY;
    const double mean = z2 / (double)used, s2 = free_scale && mean < 1 ? mean : 1;
    best = 0;
    for (int64_t i = 0; i < n; i += step) {
        if (!isfinite(x[i]) || !isfinite(r->value[i])) continue;
        const double e = x[i] - r->value[i], ulp = vn_ulp(f, x[i]), v = s2 * (r->var ? r->var[i] : 0) + ulp * ulp / 12;
        const double log_mass = log(ulp) - 0.5 * log(2 * 3.14159265358979 * v) - 0.5 * e * e / v;
        best += log_mass < 0 ? log_mass : 0;
    }
    return best;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { SAMPLE = 4096 };

/* Median |z| over an even sample of the elements; NaN without variance. */
static double median_z(const vn_ref_t *r, const double *x, int64_t n) {
    double *z = vn_alloc(SAMPLE, sizeof *z), m = NAN;
    int64_t used = 0, step = n / SAMPLE + 1;
    if (!z) return NAN;
    for (int64_t i = 0; i < n && used < SAMPLE; i += step) {
        if (!isfinite(x[i]) || !isfinite(r->value[i]) || !r->var) continue;
        const double ulp = vn_ulp(vn_format_of(r->dtype), x[i]);
        z[used++] = fabs(x[i] - r->value[i]) / sqrt(r->var[i] + ulp * ulp / 12);
    }
    if (used) {
        qsort(z, (size_t)used, sizeof *z, by_value);
        m = z[used / 2];
    }
    vn_free(z);
    return m;
}

/* A narrower result, or a running sum that ends in a narrower format, leaves only numbers of that format behind. */
static bool representable(vn_format_t f, const double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        if (isfinite(x[i]) && vn_round_to(f, x[i], VN_RNE, false) != x[i]) return false;
    return true;
}

static bool possible(const vn_case_t *c, const hypothesis_t *h, const double *x) {
    if (h->result && !representable(h->result, x, c->actual->count)) return false;
    return !h->accumulator || representable(h->accumulator, x, c->actual->count);
}

typedef struct best {
    int h;
    double log_l, rms, first_rms;
} best_t;

/* A flush acts on few elements: it needs a subnormal operand or an unexpected zero as its cause, and must then explain everything. */
static bool flush_possible(const vn_case_t *c) { return c->m.outside > 0 && (c->m.zero_extra > 0 || vn_has_subnormal(c->q)); }

/* The oracle under a hypothesis. An elementary function has no operands of a contraction: its argument itself is rounded. */
static vn_status_t evaluate(const vn_case_t *c, const vn_contract_t *contract, vn_ref_t *refs, vn_error_t *why) {
    const vn_question_t *q = c->q;
    if (c->cls != VN_CLASS_ELEMENTARY || !q->node || contract->operand == q->contract->operand || contract->operand == VN_FMT_NONE)
        return vn_question_oracle(q, contract, VN_WANT_VARIANCE | VN_WANT_PLAIN, refs, why);
    const size_t n = (size_t)q->node->n_inputs + 1;
    vn_value_t **in = vn_alloc(n, sizeof *in);
    vn_status_t s = in ? VN_OK : vn_fail(why, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < q->node->n_inputs && s == VN_OK; ++k) {
        const vn_value_t *v = q->inputs[k];
        vn_tensor_t *t = NULL;
        if (!v) continue;
        if (v->kind != VN_VALUE_TENSOR || !vn_dtype_is_float(v->tensor->dtype)) {
            in[k] = vn_value_retain(v);
            continue;
        }
        s = vn_tensor_copy(v->tensor, &t, why);
        for (int64_t i = 0; s == VN_OK && i < t->count; ++i)
            vn_tensor_set_f64(t, i, vn_round_to(contract->operand, vn_tensor_get_f64(t, i), contract->operand_rounding, false));
        if (s == VN_OK && !(in[k] = vn_value_tensor(t))) s = vn_fail(why, VN_ERR_NOMEM, "no memory");
    }
    if (s == VN_OK)
        s = vn_oracle_node(q->model, q->node, (const vn_value_t *const *)in, q->outer, contract, VN_WANT_VARIANCE | VN_WANT_PLAIN, refs,
                           why);
    for (int k = 0; in && k < q->node->n_inputs; ++k) vn_value_free(in[k]);
    vn_free(in);
    return s;
}

static vn_status_t try_one(vn_case_t *c, int h, const double *x, double h0, double med0, best_t *best, vn_error_t *err) {
    const vn_question_t *q = c->q;
    vn_contract_t contract = changed(&table[h], q->contract);
    const bool flush = table[h].ftz || table[h].daz;
    if (contract.tier == VN_TIER_PORTABLE && !flush)
        contract.ftz = contract.daz = true; /* narrow units often flush; that is not the news */
    if (contract.tier == VN_TIER_PORTABLE && table[h].operand && !q->node && !contract.has_function_ulp)
        contract.tier = VN_TIER_FAST; /* nor are fast functions in the epilogue of a narrow product */
    vn_ref_t *refs = vn_alloc((size_t)q->n_outputs, sizeof *refs);
    if (!refs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_error_t why;
    vn_status_t s = evaluate(c, &contract, refs, &why);
    if (s == VN_OK && refs[c->k].value) {
        vn_measure_t m;
        s = vn_measure(&refs[c->k], c->actual, &m, err);
        const vn_fingerprint_t print = vn_fingerprint(&refs[c->k], &m, c->cls, q->alpha);
        const double log_l = log_likelihood(&refs[c->k], x, c->actual->count, false);
        const double rms = m.sigmas ? sqrt(m.sum_clipped / (double)m.sigmas) : 0;
        const bool fits =
            s == VN_OK && m.outside == 0 && print.verdict != VN_PRINT_RMS && print.verdict != VN_PRINT_EXTREME && rms <= vn_rms_limit();
        bool accept = fits;
        if (flush) accept = s == VN_OK && m.outside == 0 && flush_possible(c);
        else accept = fits && med0 > vn_chernoff_z(0.5, 0) && log_l - h0 > log(1 / q->alpha);
        /* one that stands earlier in the table is displaced only by a clearly better one: TF32 and f16 operands differ in subnormals alone */
        if (accept && (best->h < 0 || log_l > best->log_l + log(1 / q->alpha))) {
            best->h = h;
            best->log_l = log_l;
            best->rms = m.sigmas ? sqrt(m.sum_z2 / (double)m.sigmas) : NAN;
        }
    } else if (s == VN_ERR_NOMEM) {
        vn_fail(err, s, "no memory");
    } else {
        s = VN_OK; /* the operator does not know this contract: not this hypothesis */
    }
    for (int k = 0; k < q->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(refs);
    return s;
}

/* The wider budgets are hypotheses with a name: the second tier of `portable` (reciprocal quotient, folded or one-pass statistics, a function
 * body that cancels in its tail), then the approximations that `fast` allows. */
static vn_status_t one_tier(vn_case_t *c, const char *tier, bool *explained, vn_error_t *err) {
    const vn_question_t *q = c->q;
    vn_contract_t contract = *q->contract, wider;
    if (!vn_contract_builtin(tier, &wider)) return vn_fail(err, VN_ERR_INTERNAL, "no tier %s", tier);
    contract.tier = wider.tier;
    contract.reciprocal_quotient = wider.reciprocal_quotient;
    vn_ref_t *refs = vn_alloc((size_t)q->n_outputs, sizeof *refs);
    if (!refs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_error_t why;
    vn_measure_t m;
    vn_status_t s = vn_question_oracle(q, &contract, VN_WANT_BOUND | VN_WANT_PLAIN, refs, &why);
    if (s == VN_OK && refs[c->k].value) {
        const vn_ref_t *r = &refs[c->k];
        s = vn_measure(r, c->actual, &m, err);
        const char *name = m.wide_used && r->wide_note     ? r->wide_note
                           : wider.tier != VN_TIER_FAST    ? NULL
                           : c->cls == VN_CLASS_ELEMENTARY ? "low-order-fit"
                           : q->node == NULL               ? "native-approximation" /* some function inside a region */
                                                           : NULL;
        if (s == VN_OK && m.outside == 0 && name) {
            *explained = true;
            c->f->verdict = VN_CONTRACT_MISMATCH;
            snprintf(c->f->cause, sizeof c->f->cause, "%s", name);
            snprintf(
                c->f->words, sizeof c->f->words,
                "%s: %lld of %lld elements are outside the declared contract (largest absolute error %.3g) and inside the '%s' budget.",
                name, (long long)c->m.outside, (long long)c->m.count, c->m.max_abs_outside, tier);
        }
    } else if (s != VN_ERR_NOMEM) {
        s = VN_OK;
    }
    for (int k = 0; k < q->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(refs);
    return s;
}

static vn_status_t wider_tier(vn_case_t *c, bool *explained, vn_error_t *err) {
    if (c->m.outside == 0) return VN_OK;
    if (c->cls == VN_CLASS_CONTRACTION && !c->ref->wide) return VN_OK; /* a plain product has one budget in every tier */
    if (c->q->contract->tier == VN_TIER_IEEE) VN_TRY(one_tier(c, "portable", explained, err));
    if (!*explained && c->q->contract->tier != VN_TIER_FAST && !c->q->contract->has_function_ulp)
        VN_TRY(one_tier(c, "fast", explained, err));
    return VN_OK;
}

static void remember(vn_hint_t *hint, int h) {
    if (!hint) return;
    int at = 0;
    while (at < hint->count && hint->held[at] != h) ++at;
    if (at == hint->count && hint->count < VN_HINTS) hint->count++;
    if (at == VN_HINTS) at = VN_HINTS - 1;
    for (; at > 0; --at) hint->held[at] = hint->held[at - 1];
    hint->held[0] = h;
}

vn_status_t vn_hypotheses(vn_case_t *c, bool *explained, vn_error_t *err) {
    *explained = false;
    VN_TRY(wider_tier(c, explained, err));
    if (*explained) return VN_OK;
    const int64_t n = c->actual->count;
    if (!c->ref->value || n == 0) return VN_OK;
    double *x = vn_alloc((size_t)n, sizeof *x);
    if (!x) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_tensor_to_f64(c->actual, x);
    const double h0 = log_likelihood(c->ref, x, n, true), med0 = median_z(c->ref, x, n);
    best_t best = {.h = -1};
    int tried = 0;
    vn_status_t s = VN_OK;
    const vn_contract_t resolved = vn_contract_resolve(c->q->contract, c->actual->dtype);
    /* What held for an earlier operator of this back end and holds here is the answer; the others are not asked. */
    for (int i = 0; c->q->hint && i < c->q->hint->count && s == VN_OK && best.h < 0; ++i) {
        const int h = c->q->hint->held[i];
        if (!applies(&table[h], &resolved, c->cls, c->actual->dtype) || !possible(c, &table[h], x)) continue;
        tried++;
        s = try_one(c, h, x, h0, med0, &best, err);
    }
    const bool done = best.h >= 0 || c->q->ask == VN_ASK_HINTED;
    for (int h = 0; !done && h < (int)(sizeof table / sizeof *table) && s == VN_OK; ++h) {
        if (!applies(&table[h], &resolved, c->cls, c->actual->dtype)) continue;
        tried++;
        if (!possible(c, &table[h], x)) continue;
        s = try_one(c, h, x, h0, med0, &best, err);
    }
    vn_free(x);
    vn_rung(c->f, "hypotheses %d tried", tried);
    if (s != VN_OK || best.h < 0) return s;
    remember(c->q->hint, best.h);
    *explained = true;
    c->f->verdict = VN_CONTRACT_MISMATCH;
    snprintf(c->f->cause, sizeof c->f->cause, "%s", table[best.h].id);
    const double before = c->m.sigmas ? sqrt(c->m.sum_z2 / (double)c->m.sigmas) : NAN;
    if (table[best.h].ftz || table[best.h].daz)
        snprintf(c->f->words, sizeof c->f->words, "%s: this explains all %lld elements outside the bound.", table[best.h].words,
                 (long long)c->m.outside);
    else
        snprintf(c->f->words, sizeof c->f->words,
                 "%s: the residual is %.2g of its own noise. The declared contract would have left 1/%.3g of this error.",
                 table[best.h].words, best.rms, before);
    return VN_OK;
}
