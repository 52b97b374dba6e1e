/* hypotheses.c -- rung 7, first half: the engine that asks named other arithmetics and accepts the likeliest.
 *
 * Claim HYPO-1: a hypothesis H1 with parameters fixed beforehand is accepted iff no element leaves its own bound, its own fingerprint
 * passes, and log L(H1) - max over 0 < s <= 1 of log L(H0 with s sigma) > ln(1 / alpha) (bounds.md, calculus 8); H1 has
 * its own sigma as it stands. Further, the typical element must be off under H0 (median |z| beyond the limit of p = 1/2): an arithmetic acts on all
 * elements, a local fault on some, and a wide bound must not swallow it. Duplicated rows make the likelihoods too sharp for both sides.
 * Claim HYPO-2: sources that carry an arithmetic out (VN_ARITH_SHARP) need no typical element: their bound is that of the few roundings they
 * leave open, and the likelihood ratio alone decides, an element counting for an eighth of the needed evidence at most. Where parameters are chosen among m by the data, ln m is taken off their likelihood.
 * Claim HYPO-3: of two accepted hypotheses the later wins only with a likelihood 1 / alpha times larger, so a wide one never displaces a
 * tighter one, which puts more mass on the same numbers.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"
#include "judge/explain.h"

enum { EVIDENCE = 32768, SAMPLE = 4096 };

static double log_mass(vn_format_t f, double x, double y, double v, double s2) {
    const double e = x - y, ulp = vn_ulp(f, x), all = s2 * v + ulp * ulp / 12;
    const double mass = log(ulp) - 0.5 * log(2 * 3.14159265358979 * all) - 0.5 * e * e / all;
    return mass < 0 ? mass : 0;
}

double vn_arith_log_mass(vn_format_t f, double x, double y, double v) { return log_mass(f, x, y, v, 1); }

/* Scale s^2 <= 1 of the contract's variance under which x is likeliest. */
static double best_scale(const vn_ref_t *r, const double *x, int64_t n) {
    const vn_format_t f = vn_format_of(r->dtype);
    const int64_t step = n / EVIDENCE + 1;
    double z2 = 0;
    int64_t used = 0;
    for (int64_t i = 0; i < n; i += step) {
        if (!isfinite(x[i]) || !isfinite(r->value[i])) continue;
        const double e = x[i] - r->value[i], ulp = vn_ulp(f, x[i]);
        z2 += e * e / ((r->var ? r->var[i] : 0) + ulp * ulp / 12);
        used++;
    }
    return used && z2 < (double)used ? z2 / (double)used : 1;
}

/* Log likelihood of the stored numbers x: per element the mass of the cell that rounds to x, min(1, ulp / sqrt(2 pi v) exp(-z^2 / 2)) with
 * v = s^2 sigma^2 + ulp^2 / 12 (bounds.md, calculus 9): a hypothesis that predicts the very bits gains, one that is merely wide does not.
 * `free_scale`: s <= 1 chosen best for H0, else s = 1 (a hypothesis is fixed beforehand). Of large outputs an even sample, chosen by count
 * alone and so the same for all that are compared, is evidence enough: each element adds log(1 / wrongness) of its own. */
static double log_likelihood(const vn_ref_t *r, vn_format_t f, const double *x, int64_t n, bool free_scale) {
    const int64_t step = n / EVIDENCE + 1;
    const double s2 = free_scale ? best_scale(r, x, n) : 1;
    double sum = 0;
    bool any = false;
    for (int64_t i = 0; i < n; i += step) {
        if (!isfinite(x[i]) || !isfinite(r->value[i])) continue;
        sum += log_mass(f, x[i], r->value[i], r->var ? r->var[i] : 0, s2);
        any = true;
    }
    return any ? sum : -INFINITY;
}

/* The cells that an arithmetic leaves its results in. */
static vn_format_t stored_as(const vn_arith_t *a) { return a->store != VN_FMT_NONE ? a->store : vn_format_of(a->c->ref->dtype); }

/* The evidence of `ref` against the contract, of elements inside its bound (or all of them), where no element may give more than an eighth of what is needed (a quarter of them, of few): a fault of
 * few places is no arithmetic however far off it is. */
static double spread_evidence(const vn_arith_t *a, const vn_ref_t *ref, bool inside) {
    const vn_ref_t *r = a->c->ref;
    const vn_format_t f = vn_format_of(r->dtype), store = stored_as(a);
    const int64_t step = a->n / EVIDENCE + 1;
    const double s2 = best_scale(r, a->x, a->n), shares = fmin(8, fmax(1, (double)a->n / 4)), most = 1.01 * a->margin / shares;
    double sum = 0;
    for (int64_t i = 0; i < a->n; i += step) {
        if (!isfinite(a->x[i]) || !isfinite(ref->value[i]) || !isfinite(r->value[i])) continue;
        if (inside && ref->bound && fabs(a->x[i] - ref->value[i]) > ref->bound[i] + vn_ref_own(ref, i)) continue;
        const double gain = log_mass(store, a->x[i], ref->value[i], ref->var ? ref->var[i] : 0, 1) -
                            log_mass(f, a->x[i], r->value[i], r->var ? r->var[i] : 0, s2);
        sum += fmin(gain, most);
    }
    return sum;
}

/* Elements that are off, over an even sample: |z| beyond the limit of p = 1/2, and of p = 1/4 in each eighth of the sample and each residue of 8. */
typedef struct deviants {
    int64_t used, half, quarter;
    int64_t by_place[8], by_residue[8];
} deviants_t;

static deviants_t count_off(const vn_ref_t *r, const double *x, int64_t n) {
    const int64_t step = n / SAMPLE + 1;
    const double half = vn_chernoff_z(0.5, 0), quarter = vn_chernoff_z(0.25, 0);
    deviants_t o = {0};
    for (int64_t i = 0; i < n && o.used < SAMPLE; i += step) {
        if (!isfinite(x[i]) || !isfinite(r->value[i]) || !r->var) continue;
        const double ulp = vn_ulp(vn_format_of(r->dtype), x[i]), z = fabs(x[i] - r->value[i]) / sqrt(r->var[i] + ulp * ulp / 12);
        o.used++;
        o.half += z > half;
        if (!(z > quarter)) continue;
        o.quarter++;
        o.by_place[i * 8 / n]++;
        o.by_residue[i % 8]++;
    }
    return o;
}

/* The typical element is off: more than half of them. Where the store to 16 bits hides half of all errors, a quarter, if no part of the output
 * and no lane is spared. */
static bool typical_off(const vn_arith_t *a) {
    const vn_ref_t *r = a->c->ref;
    const deviants_t o = count_off(r, a->x, a->n);
    if (2 * o.half > o.used) return true;
    const int acc = vn_format_info(vn_contract_resolve(a->c->q->contract, r->dtype).accumulator)->p;
    if (vn_format_info(vn_format_of(r->dtype))->p >= acc || 4 * o.quarter < o.used || o.used < 64) return false;
    for (int k = 0; k < 8; ++k)
        if (32 * o.by_place[k] < o.quarter || (a->n / SAMPLE == 0 && 32 * o.by_residue[k] < o.quarter)) return false;
    return true;
}

/* A narrower result, or a running sum that ends in a narrower format, leaves only numbers of that format behind: some that are not zero. */
bool vn_arith_members(const vn_arith_t *a, vn_format_t f) {
    int64_t numbers = 0;
    for (int64_t i = 0; i < a->n; ++i) {
        if (!isfinite(a->x[i])) continue;
        if (vn_round_to(f, a->x[i], VN_RNE, false) != a->x[i]) return false;
        numbers += a->x[i] != 0;
    }
    return numbers >= 8 || 2 * numbers >= a->n;
}

/* A flush acts on few elements: it needs a subnormal operand or an unexpected zero as its cause. */
static bool flush_possible(const vn_case_t *c) { return c->m.outside > 0 && (c->m.zero_extra > 0 || vn_has_subnormal(c->q)); }

static bool possible(const vn_arith_t *a, const vn_arith_row_t *h) {
    if ((h->ftz || h->daz) && !flush_possible(a->c)) return false;
    if (h->result && !vn_arith_members(a, h->result)) return false;
    return !h->accumulator || h->accumulator == VN_FMT_F32 || vn_arith_members(a, h->accumulator);
}

bool vn_arith_time(vn_arith_t *a) {
    if (vn_spent() > a->deadline) a->cut = true;
    return !a->cut;
}

static void keep(vn_arith_t *a, const char *id, unsigned flags, double log_l, double rms, const char *fmt, va_list args) {
    /* one that was asked earlier is displaced only by a clearly better one: TF32 and f16 operands differ in subnormals alone */
    if (a->found && !(log_l > a->log_l + a->margin)) return;
    if (a->found && !a->wide && (flags & VN_ARITH_WIDE)) return; /* nor by one that much fits into */
    a->found = true;
    a->wide = (flags & VN_ARITH_WIDE) != 0;
    a->bug = (flags & VN_ARITH_BUG) != 0;
    a->has_rms = !(flags & VN_ARITH_LOCAL) && isfinite(rms);
    a->held = a->source;
    a->log_l = log_l;
    a->rms = rms;
    snprintf(a->id, sizeof a->id, "%s", id);
    vsnprintf(a->words, sizeof a->words, fmt, args);
}

/* One factor on the whole output explains what a wide arithmetic would: all but a sixteenth of the squared error under its own variance. */
static bool common_factor(const vn_arith_t *a, const vn_ref_t *ref) {
    const vn_format_t f = vn_format_of(ref->dtype);
    double ey = 0, yy = 0, before = 0;
    for (int64_t i = 0; i < a->n; ++i) {
        const double y = ref->value[i], e = a->x[i] - y;
        if (!isfinite(e)) continue;
        const double ulp = vn_ulp(f, a->x[i]), v = (ref->var ? ref->var[i] : 0) + ulp * ulp / 12;
        ey += e * y / v;
        yy += y * y / v;
        before += e * e / v;
    }
    return a->n >= 16 && yy > 0 && 16 * (before - ey * ey / yy) < before;
}

vn_status_t vn_arith_consider(vn_arith_t *a, const char *id, unsigned flags, const vn_ref_t *ref, vn_error_t *err, const char *fmt, ...) {
    const vn_case_t *c = a->c;
    if (!ref->value || ref->count != a->n || ref->dtype != c->actual->dtype) return VN_OK;
    vn_measure_t m;
    VN_TRY(vn_measure(ref, c->actual, &m, err));
    if (m.outside) {
        const bool few = (flags & VN_ARITH_LEADS) && 8 * m.outside <= a->n && spread_evidence(a, ref, true) - a->choices > a->margin;
        if (few && (!a->almost || m.outside < a->almost)) a->almost = m.outside;
        return VN_OK;
    }
    if (a->almost && (flags & VN_ARITH_WIDE)) return VN_OK;
    const vn_fingerprint_t print = vn_fingerprint(ref, &m, c->cls, c->q->alpha);
    const double log_l = log_likelihood(ref, stored_as(a), a->x, a->n, false) - a->choices,
                 rms = m.sigmas ? sqrt(m.sum_z2 / (double)m.sigmas) : NAN;
    const double clipped = m.sigmas ? sqrt(m.sum_clipped / (double)m.sigmas) : 0;
    bool accept = log_l - a->h0 > a->margin;
    if (flags & VN_ARITH_LOCAL) accept = true;
    else if (flags & VN_ARITH_SHARP)
        accept = accept && clipped <= vn_rms_limit() && spread_evidence(a, ref, false) - a->choices > a->margin;
    else accept = accept && print.verdict != VN_PRINT_RMS && print.verdict != VN_PRINT_EXTREME && clipped <= vn_rms_limit() && a->typical;
    /* not of norms and sums: a factor is what a stalled statistic leaves; a stalled softmax is carried out (ARITH-16) */
    const bool factors = c->cls == VN_CLASS_CONTRACTION || c->cls == VN_CLASS_SOFTMAX;
    if (accept && (flags & VN_ARITH_WIDE) && !(flags & VN_ARITH_LOCAL) && factors) accept = !common_factor(a, ref);
    if (!accept) return VN_OK;
    va_list args;
    va_start(args, fmt);
    keep(a, id, flags, log_l, rms, fmt, args);
    va_end(args);
    return VN_OK;
}

void vn_arith_exact(vn_arith_t *a, const char *id, unsigned flags, const vn_tensor_t *foretold, const char *fmt, ...) {
    const vn_tensor_t *x = a->c->actual;
    if (!foretold || foretold->dtype != x->dtype || foretold->count != x->count) return;
    for (int64_t i = 0; i < x->count; ++i)
        if (!vn_same_bits(x, i, foretold, i)) return;
    va_list args;
    va_start(args, fmt);
    keep(a, id, flags | VN_ARITH_LOCAL, 0, NAN, fmt, args);
    va_end(args);
}

void vn_arith_sampled(vn_arith_t *a, const char *id, unsigned flags, int64_t sample, double log_l, double h0, double rms, const char *fmt,
                      ...) {
    log_l -= a->choices;
    if (sample < 1 || !(log_l - h0 > a->margin)) return;
    const int64_t step = a->n / EVIDENCE + 1, evidence = (a->n + step - 1) / step;
    va_list args;
    va_start(args, fmt);
    keep(a, id, flags, log_l * (double)evidence / (double)sample, rms, fmt, args);
    va_end(args);
}

vn_status_t vn_arith_planes(const vn_arith_t *a, double *value, double *bound, double *var, vn_ref_t *ref, vn_error_t *err) {
    const vn_ref_t *r = a->c->ref;
    *ref = (vn_ref_t){.dtype = r->dtype, .rank = r->rank, .count = r->count, .value = value, .bound = bound, .var = var};
    memcpy(ref->dims, r->dims, sizeof ref->dims);
    vn_status_t s = vn_tensor_new_raw(r->dtype, r->rank, r->dims, &ref->tensor, err);
    if (s == VN_OK) vn_tensor_from_f64(ref->tensor, value, VN_RNE, false);
    else vn_ref_free(ref);
    return s;
}

bool vn_arith_recurrent(const vn_arith_t *a) { return vn_arith_is(a, "LSTM") || vn_arith_is(a, "GRU") || vn_arith_is(a, "RNN"); }

vn_status_t vn_arith_oracle(const vn_arith_t *a, const vn_value_t *const *inputs, const vn_contract_t *contract, int want, vn_ref_t *ref,
                            vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    *ref = (vn_ref_t){0};
    vn_ref_t *refs = vn_alloc((size_t)q->n_outputs + 1, sizeof *refs);
    if (!refs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_question_t other = *q;
    other.inputs = inputs;
    other.stepwise |= vn_arith_recurrent(a);
    vn_error_t why;
    vn_status_t s = vn_question_oracle(&other, contract, want, refs, &why);
    if (s != VN_OK && s != VN_ERR_NOMEM && other.stepwise && !q->stepwise) {
        other.stepwise = false;
        s = vn_question_oracle(&other, contract, want, refs, &why);
    }
    if (s == VN_OK) {
        *ref = refs[a->c->k];
        refs[a->c->k] = (vn_ref_t){0};
    }
    for (int k = 0; k < q->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(refs);
    return s == VN_ERR_NOMEM ? vn_fail(err, s, "no memory") : VN_OK; /* the operator does not know this contract: not this hypothesis */
}

const vn_tensor_t *vn_arith_operand(const vn_arith_t *a, int k) {
    const vn_question_t *q = a->c->q;
    const int n = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    return k < n && q->inputs[k] && q->inputs[k]->kind == VN_VALUE_TENSOR ? q->inputs[k]->tensor : NULL;
}

double *vn_arith_plane(const vn_arith_t *a, int k) {
    const vn_tensor_t *t = vn_arith_operand(a, k);
    double *p = t ? vn_alloc((size_t)t->count + 1, sizeof *p) : NULL;
    if (p) vn_tensor_to_f64(t, p);
    return p;
}

bool vn_arith_is(const vn_arith_t *a, const char *op) {
    const vn_node_t *n = a->c->q->node;
    return n && !*n->domain && strcmp(n->op, op) == 0;
}

double vn_arith_unstored(const vn_arith_t *a, int64_t i) {
    const vn_ref_t *r = a->c->ref;
    const vn_format_info_t *o = vn_format_info(vn_format_of(r->dtype)),
                           *acc = vn_format_info(vn_contract_resolve(a->c->q->contract, r->dtype).accumulator);
    if (!r->bound || r->demand_equal) return r->demand_equal ? vn_ref_own(r, i) : 0;
    if (acc->p <= o->p) return r->bound[i] + vn_ref_own(r, i);
    const double e = (r->bound[i] - o->u * fabs(r->value[i]) - o->eta / 2) / (1 + o->u);
    return (e > 0 ? e : 0) + vn_ref_own(r, i);
}

/* ---- contracts of the table ---- */

/* Operators that are no products have no operands in a contract: what they read is itself rounded. */
static vn_status_t rounded_operands(const vn_arith_t *a, const vn_contract_t *contract, vn_ref_t *ref, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    const size_t n = (size_t)q->node->n_inputs + 1;
    vn_value_t **in = vn_alloc(n, sizeof *in);
    vn_status_t s = in ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < q->node->n_inputs && s == VN_OK; ++k) {
        const vn_value_t *v = q->inputs[k];
        vn_tensor_t *t = NULL;
        if (!v) continue;
        if (v->kind != VN_VALUE_TENSOR || !vn_dtype_is_float(v->tensor->dtype)) {
            in[k] = vn_value_retain(v);
            continue;
        }
        s = vn_tensor_copy(v->tensor, &t, err);
        for (int64_t i = 0; s == VN_OK && i < t->count; ++i)
            vn_tensor_set_f64(t, i, vn_round_to(contract->operand, vn_tensor_get_f64(t, i), contract->operand_rounding, false));
        if (s == VN_OK && !(in[k] = vn_value_tensor(t))) s = vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    vn_contract_t plain = *contract;
    plain.operand = VN_FMT_NONE;
    if (s == VN_OK) s = vn_arith_oracle(a, (const vn_value_t *const *)in, &plain, VN_WANT_VARIANCE | VN_WANT_PLAIN, ref, err);
    for (int k = 0; in && k < q->node->n_inputs; ++k) vn_value_free(in[k]);
    vn_free(in);
    return s;
}

static vn_status_t try_row(vn_arith_t *a, int h, vn_error_t *err) {
    const vn_case_t *c = a->c;
    const vn_question_t *q = c->q;
    const vn_arith_row_t *row = &vn_arith_rows[h];
    const vn_contract_t resolved = vn_contract_resolve(q->contract, c->actual->dtype);
    if (!vn_arith_applies(row, &resolved, c->cls, c->actual->dtype)) return VN_OK;
    if (row->operand && row->intermediate && vn_arith_recurrent(a)) return VN_OK; /* asked by vn_arith_weights */
    a->tried++;
    if (!possible(a, row)) return VN_OK;
    vn_contract_t contract = vn_arith_changed(row, q->contract);
    const bool flush = row->ftz || row->daz, product = c->cls == VN_CLASS_CONTRACTION || c->cls == VN_CLASS_COMPOSITE;
    if (contract.tier == VN_TIER_PORTABLE && !flush)
        contract.ftz = contract.daz = true; /* narrow units often flush; that is not the news */
    if (contract.tier == VN_TIER_PORTABLE && row->operand && !q->node && !contract.has_function_ulp)
        contract.tier = VN_TIER_FAST; /* nor are fast functions in the epilogue of a narrow product */
    vn_ref_t ref = {0};
    vn_status_t s = row->operand && !product && q->node
                        ? rounded_operands(a, &contract, &ref, err)
                        : vn_arith_oracle(a, q->inputs, &contract, VN_WANT_VARIANCE | VN_WANT_PLAIN, &ref, err);
    const unsigned flags = (row->accumulator && row->accumulator != VN_FMT_F32) || (row->intermediate && !row->operand) ? VN_ARITH_WIDE : 0;
    if (s == VN_OK) s = vn_arith_consider(a, row->id, flush ? VN_ARITH_LOCAL : flags, &ref, err, "%s", row->words);
    vn_ref_free(&ref);
    return s;
}

/* ---- wider budgets ---- */

/* Second tiers that say what an arithmetic of the table says have its name as a cause. */
static const struct {
    const char *note, *cause;
    bool typed; /* the tensor's type is added */
} tier_names[] = {
    {"16-bit-scores", "accumulator-", true},
    {"16-bit-function-body", "accumulator-", true},
    {"partial results in the tensor's type", "accumulator-", true},
    {"quantised-activations", "activations-int8", false},
    {"int8-activations", "activations-int8", false},
    {"f16-activations", "operands-f16", false},
    {"bf16-activations", "operands-bf16", false},
};

static void tier_cause(const char *note, vn_dtype_t t, char *cause, size_t size) {
    const bool narrow = t == VN_F16 || t == VN_BF16;
    for (size_t k = 0; k < sizeof tier_names / sizeof *tier_names; ++k) {
        if (strcmp(note, tier_names[k].note) != 0 || (tier_names[k].typed && !narrow)) continue;
        snprintf(cause, size, "%s%s", tier_names[k].cause, tier_names[k].typed ? vn_dtype_name(t) : "");
        return;
    }
    snprintf(cause, size, "%s", note);
}

/* The wider budgets are hypotheses with a name: the second tier of `portable` (reciprocal quotient, folded or one-pass statistics, a function
 * body that cancels in its tail), then the approximations that `fast` allows. A quarter of the budget stands for their sigma. */
static vn_status_t one_tier(vn_arith_t *a, const char *tier, bool *held, vn_error_t *err) {
    vn_case_t *c = a->c;
    const vn_question_t *q = c->q;
    vn_contract_t contract = *q->contract, wider;
    if (!vn_contract_builtin(tier, &wider)) return vn_fail(err, VN_ERR_INTERNAL, "no tier %s", tier);
    const bool fast = wider.tier == VN_TIER_FAST;
    contract.tier = wider.tier;
    contract.reciprocal_quotient = wider.reciprocal_quotient;
    if (!fast) contract.has_function_ulp = false; /* a promised accuracy allows no function body; its loss has a name */
    vn_ref_t r;
    VN_TRY(vn_arith_oracle(a, q->inputs, &contract, VN_WANT_BOUND | VN_WANT_PLAIN, &r, err));
    vn_status_t s = VN_OK;
    if (r.value) {
        vn_measure_t m;
        s = vn_measure(&r, c->actual, &m, err);
        const char *name = m.wide_used && r.wide_note      ? r.wide_note
                           : !fast                         ? NULL
                           : c->cls == VN_CLASS_ELEMENTARY ? "low-order-fit"
                           : q->node == NULL               ? "native-approximation" /* some function inside a region */
                                                           : NULL;
        if (s == VN_OK && m.outside == 0 && name) {
            vn_free(r.var);
            r.var = vn_alloc((size_t)a->n + 1, sizeof *r.var);
            if (!r.var) s = vn_fail(err, VN_ERR_NOMEM, "no memory");
            for (int64_t i = 0; s == VN_OK && i < a->n; ++i) {
                const double e = (r.wide && r.wide[i] > r.bound[i] ? r.wide[i] : r.bound[i]) / 4;
                r.var[i] = isfinite(e) ? e * e : 0;
            }
            *held = true;
            const unsigned flags = VN_ARITH_LOCAL | (fast || vn_dtype_bits(c->actual->dtype) <= 16 ? VN_ARITH_WIDE : 0) |
                                   (vn_arith_leaves_range(a) ? VN_ARITH_BUG : 0);
            char cause[sizeof a->id];
            tier_cause(name, c->actual->dtype, cause, sizeof cause);
            if (s == VN_OK)
                s = vn_arith_consider(
                    a, cause, flags, &r, err,
                    "%s: %lld of %lld elements are outside the declared contract (largest absolute error %.3g) and inside "
                    "the '%s' budget",
                    name, (long long)c->m.outside, (long long)c->m.count, c->m.max_abs_outside, tier);
        }
    }
    vn_ref_free(&r);
    return s;
}

static vn_status_t wider_tier(vn_arith_t *a, vn_error_t *err) {
    const vn_case_t *c = a->c;
    bool held = false;
    if (c->m.outside == 0) return VN_OK;
    if (c->cls == VN_CLASS_CONTRACTION && !c->ref->wide) return VN_OK; /* a plain product has one budget in every tier */
    if (c->q->contract->tier == VN_TIER_IEEE || c->q->contract->has_function_ulp) VN_TRY(one_tier(a, "portable", &held, err));
    if (!held && c->q->contract->tier != VN_TIER_FAST && !c->q->contract->has_function_ulp) VN_TRY(one_tier(a, "fast", &held, err));
    return VN_OK;
}

/* ---- the order of the questions: cheapest first ---- */

static const vn_arith_fn sources[] = {
    vn_arith_flush,      vn_arith_weights,    vn_arith_cancellation, vn_arith_overflow,   vn_arith_store,
    vn_arith_quotient,   vn_arith_no_maximum, vn_arith_denominator,  vn_arith_split,      vn_arith_fast_exp,
    vn_arith_fit,        vn_arith_partials,   vn_arith_running,      vn_arith_truncating, vn_arith_winograd,
    vn_arith_statistics, vn_arith_region,     vn_arith_activations,  vn_arith_moved,
};
enum { SOURCES = sizeof sources / sizeof *sources, FIRST = 2 /* sources asked before the table */ };

/* Numbers of the hint: rows of the table, then sources. */
static vn_status_t ask(vn_arith_t *a, int number, vn_error_t *err) {
    if (!vn_arith_time(a)) return VN_OK;
    a->source = number;
    a->choices = 0;
    a->store = VN_FMT_NONE;
    if (number >= vn_arith_row_count) return number - vn_arith_row_count < SOURCES ? sources[number - vn_arith_row_count](a, err) : VN_OK;
    return a->c->ref->value && a->x ? try_row(a, number, err) : VN_OK;
}

static void remember(vn_hint_t *hint, int h) {
    if (!hint || h < 0) return;
    int at = 0;
    while (at < hint->count && hint->held[at] != h) ++at;
    if (at == hint->count && hint->count < VN_HINTS) hint->count++;
    if (at == VN_HINTS) at = VN_HINTS - 1;
    for (; at > 0; --at) hint->held[at] = hint->held[at - 1];
    hint->held[0] = h;
}

static void say(const vn_arith_t *a) {
    vn_finding_t *f = a->c->f;
    const vn_measure_t *m = &a->c->m;
    f->verdict = a->bug ? VN_BUG : VN_CONTRACT_MISMATCH;
    snprintf(f->cause, sizeof f->cause, "%s", a->id);
    const double before = m->sigmas ? sqrt(m->sum_z2 / (double)m->sigmas) : NAN;
    if (a->has_rms && isfinite(before))
        snprintf(f->words, sizeof f->words,
                 "%.310s: the residual is %.2g of its own noise. The declared contract would have left 1/%.3g of this error.", a->words,
                 a->rms, before);
    else snprintf(f->words, sizeof f->words, "%.310s: this explains all %lld elements outside the bound.", a->words, (long long)m->outside);
}

static double seconds(vn_effort_t effort) { return effort == VN_EFFORT_DEEP ? 60 : effort == VN_EFFORT_NORMAL ? 6 : 2; }

vn_status_t vn_hypotheses(vn_case_t *c, bool *explained, vn_error_t *err) {
    *explained = false;
    const int64_t n = c->actual->count;
    const vn_kind_t kind = vn_dtype_kind(c->actual->dtype);
    if (n == 0 || kind == VN_KIND_STRING || kind == VN_KIND_COMPLEX) return VN_OK;
    double *x = vn_alloc((size_t)n, sizeof *x);
    if (!x) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_tensor_to_f64(c->actual, x);
    vn_arith_t a = {.c = c,
                    .x = x,
                    .n = n,
                    .h0 = c->ref->value ? log_likelihood(c->ref, vn_format_of(c->ref->dtype), x, n, true) : 0,

                    .margin = log(1 / c->q->alpha),
                    .deadline = vn_spent() + seconds(c->q->effort),
                    .held = -1,
                    .source = -1};
    a.typical = c->ref->value && typical_off(&a);
    vn_status_t s = VN_OK;
    /* What held for an earlier operator of this back end and holds here is the answer; the others are not asked. */
    for (int i = 0; c->q->hint && i < c->q->hint->count && s == VN_OK && !a.found; ++i) s = ask(&a, c->q->hint->held[i], err);
    if ((!a.found || a.wide) && c->q->ask != VN_ASK_HINTED) {
        a.source = -1; /* a budget is no arithmetic to look for elsewhere */
        /* flushes foretell every element: before anything that has room for them; recurrent layers are too costly to ask them all the rest */
        for (int h = 0; h < FIRST && s == VN_OK; ++h) s = ask(&a, vn_arith_row_count + h, err);
        a.source = -1;
        if (c->ref->value && s == VN_OK) s = wider_tier(&a, err);
        for (int h = 0; h < vn_arith_row_count + SOURCES && s == VN_OK; ++h)
            if (h < vn_arith_row_count || h >= vn_arith_row_count + FIRST) s = ask(&a, h, err);
    }
    vn_free(x);
    vn_rung(c->f, "hypotheses %d tried%s", a.tried, a.cut ? ", cut by time" : "");
    if (a.almost && !a.found) vn_rung(c->f, "one fits all but %lld elements", (long long)a.almost);
    if (s != VN_OK || !a.found) return s;
    *explained = true;
    if (a.wide && c->q->ask == VN_ASK_ALL) { /* much fits into a wide arithmetic: another computation in the contract's own says more */
        bool named = false;
        VN_TRY(vn_explain_variant(c, &named, err));
        if (named) return VN_OK;
    }
    remember(c->q->hint, a.held);
    say(&a);
    return VN_OK;
}
