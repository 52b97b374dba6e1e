/* judge.c -- the ladder for each output of one question: form, repeat, equality, classes, bound, fingerprint, hypotheses. */
#include "vernier/judge.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "judge/coherence.h"
#include "judge/explain.h"

double vn_spent(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void vn_rung(vn_finding_t *f, const char *fmt, ...) {
    const size_t n = strlen(f->rungs);
    if (n + 3 >= sizeof f->rungs) return;
    if (n) memcpy(f->rungs + n, "; ", 3);
    va_list args;
    va_start(args, fmt);
    vsnprintf(f->rungs + strlen(f->rungs), sizeof f->rungs - strlen(f->rungs), fmt, args);
    va_end(args);
}

void vn_index_text(const vn_tensor_t *t, int64_t flat, char *out, size_t size) {
    int64_t at[VN_MAX_RANK];
    for (int k = t->rank - 1; k >= 0; --k) {
        at[k] = t->dims[k] ? flat % t->dims[k] : 0;
        flat = t->dims[k] ? flat / t->dims[k] : 0;
    }
    size_t n = (size_t)snprintf(out, size, "[");
    for (int k = 0; k < t->rank && n < size; ++k) n += (size_t)snprintf(out + n, size - n, "%s%lld", k ? "," : "", (long long)at[k]);
    if (n < size) snprintf(out + n, size - n, "]");
}

void vn_set_divergence(const vn_ref_t *ref, const vn_tensor_t *actual, int64_t flat, vn_divergence_t *d) {
    *d = (vn_divergence_t){.index = flat, .rank = actual->rank, .expected = NAN, .actual = NAN};
    if (flat < 0) return;
    int64_t rest = flat;
    for (int k = actual->rank - 1; k >= 0; --k) {
        d->at[k] = actual->dims[k] ? rest % actual->dims[k] : 0;
        rest = actual->dims[k] ? rest / actual->dims[k] : 0;
    }
    const int bits = vn_dtype_bits(actual->dtype);
    if (bits == 0 || bits > 64 || actual->dtype == VN_C64) return;
    d->expected = ref->value ? ref->value[flat] : vn_tensor_get_f64(ref->tensor, flat);
    d->actual = vn_tensor_get_f64(actual, flat);
    d->expected_bits = vn_tensor_bits(ref->tensor, flat);
    d->actual_bits = vn_tensor_bits(actual, flat);
}

/* ---- the class of a question ---- */

static int rank_of(vn_op_class_t c) { /* which class decides for a region */
    static const int order[] = {
        [VN_CLASS_MOVEMENT] = 0,   [VN_CLASS_CONTROL] = 1,       [VN_CLASS_EXACT] = 2,        [VN_CLASS_ROUNDED] = 3,
        [VN_CLASS_ELEMENTARY] = 4, [VN_CLASS_QUANTISE] = 5,      [VN_CLASS_SCAN] = 6,         [VN_CLASS_REDUCTION] = 7,
        [VN_CLASS_SOFTMAX] = 8,    [VN_CLASS_NORMALISATION] = 9, [VN_CLASS_CONTRACTION] = 10, [VN_CLASS_COMPOSITE] = 11,
        [VN_CLASS_RANDOM] = 12,
    };
    return (unsigned)c < sizeof order / sizeof *order ? order[c] : 0;
}

vn_op_class_t vn_question_class(const vn_question_t *q) {
    vn_op_info_t info;
    if (q->node) return vn_oracle_knows(q->model, q->node, &info) ? info.cls : VN_CLASS_COMPOSITE;
    vn_op_class_t best = VN_CLASS_MOVEMENT;
    for (int i = 0; i < q->model->graph->n_nodes; ++i)
        if (vn_oracle_knows(q->model, &q->model->graph->nodes[i], &info) && rank_of(info.cls) > rank_of(best)) best = info.cls;
    return best;
}

vn_status_t vn_question_oracle(const vn_question_t *q, const vn_contract_t *c, int want, vn_ref_t *refs, vn_error_t *err) {
    if (q->node) return vn_oracle_steps(q->model, q->node, q->inputs, q->outer, c, want, q->stepwise ? q->actual : NULL, refs, err);
    const vn_graph_t *g = q->model->graph;
    vn_bundle_t in = {0};
    vn_status_t s = VN_OK;
    for (int k = 0; k < g->n_inputs && s == VN_OK; ++k)
        if (q->inputs[k] && q->inputs[k]->kind == VN_VALUE_TENSOR) s = vn_bundle_add(&in, g->inputs[k].name, q->inputs[k]->tensor, err);
    if (s == VN_OK) s = vn_oracle_region(q->model, &in, c, want, refs, err);
    vn_bundle_free(&in);
    return s;
}

/* ---- rung 1: form ---- */

static bool form(vn_case_t *c, const vn_value_t *v, vn_tensor_t **converted, vn_error_t *err) {
    const vn_question_t *q = c->q;
    vn_finding_t *f = c->f;
    *converted = NULL;
    f->verdict = VN_BUG;
    if (!v || v->kind == VN_VALUE_ABSENT) {
        snprintf(f->cause, sizeof f->cause, "output-missing");
        snprintf(f->words, sizeof f->words, "The output was not returned.");
        return false;
    }
    if (q->guard_broken && q->guard_broken[c->k]) {
        snprintf(f->cause, sizeof f->cause, "memory-overrun");
        snprintf(f->words, sizeof f->words, "Bytes before or after the output were overwritten.");
        return false;
    }
    if (v->kind != VN_VALUE_TENSOR) {
        snprintf(f->words, sizeof f->words, "A %s was returned where a tensor is due.",
                 v->kind == VN_VALUE_SEQUENCE ? "sequence" : "optional");
        return false;
    }
    const vn_tensor_t *a = v->tensor, *r = c->ref->tensor;
    char got[200], want[200];
    vn_tensor_describe(a, got, sizeof got);
    vn_tensor_describe(r, want, sizeof want);
    if (a->rank != r->rank || memcmp(a->dims, r->dims, (size_t)a->rank * sizeof *a->dims) != 0) {
        snprintf(f->cause, sizeof f->cause, "shape");
        snprintf(f->words, sizeof f->words, "Shape %s was returned, %s is due.", got, want);
        return false;
    }
    const vn_kind_t kind = vn_dtype_kind(a->dtype);
    const bool surely =
        (kind == VN_KIND_FLOAT || kind == VN_KIND_COMPLEX) && vn_dtype_bits(a->dtype) >= 16; /* no arithmetic returns that pattern */
    if (surely && q->poison_left && q->poison_left[c->k] > 0 && a->count > 0) {
        snprintf(f->cause, sizeof f->cause, "tail-unwritten");
        snprintf(f->words, sizeof f->words, "%lld of %lld elements still hold the pattern that filled the buffer.",
                 (long long)q->poison_left[c->k], (long long)a->count);
        return false;
    }
    if (a->dtype != r->dtype) {
        /* Another element type: judged on its values, and never a silent pass. */
        snprintf(f->cause, sizeof f->cause, "result-type:%s", vn_dtype_name(a->dtype));
        snprintf(f->words, sizeof f->words, "%s was returned, %s is due.", got, want);
        const vn_kind_t ka = vn_dtype_kind(a->dtype), kr = vn_dtype_kind(r->dtype);
        if (ka == VN_KIND_STRING || kr == VN_KIND_STRING || ka == VN_KIND_COMPLEX || kr == VN_KIND_COMPLEX) return false;
        if (vn_tensor_new(r->dtype, r->rank, r->dims, converted, err) != VN_OK) return false;
        for (int64_t i = 0; i < a->count; ++i) {
            if (vn_dtype_is_float(r->dtype)) vn_tensor_set_f64(*converted, i, vn_tensor_get_f64(a, i));
            else vn_tensor_set_i64(*converted, i, vn_tensor_get_i64(a, i));
            if (vn_dtype_is_float(r->dtype) || vn_tensor_get_f64(*converted, i) == vn_tensor_get_f64(a, i)) continue;
            char where[160];
            vn_index_text(a, i, where, sizeof where);
            snprintf(f->words, sizeof f->words, "%.150s was returned, %.150s is due, and %.9g at %.120s is no value of that type.", got,
                     want, vn_tensor_get_f64(a, i), where);
            vn_tensor_free(*converted);
            *converted = NULL;
            return false;
        }
    }
    return true;
}

/* ---- values that are no tensors ---- */

static bool nested_equal(const vn_value_t *a, const vn_value_t *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind) return false;
    if (a->kind == VN_VALUE_TENSOR) return vn_tensor_equal_bits(a->tensor, b->tensor);
    if (a->count != b->count) return false;
    for (int64_t i = 0; i < a->count; ++i)
        if (!nested_equal(a->items[i], b->items[i])) return false;
    return true;
}

static void judge_nested(vn_case_t *c, const vn_value_t *v) {
    const bool equal = nested_equal(c->ref->nested, v);
    c->f->verdict = equal ? VN_EXACT : VN_BUG;
    c->f->count = c->ref->nested->count;
    vn_rung(c->f, "sequence or optional compared bit by bit: %s", equal ? "equal" : "differs");
    if (!equal) snprintf(c->f->words, sizeof c->f->words, "The sequence or optional differs from the oracle's.");
}

/* ---- rungs 3 to 6 on the numbers ---- */

static void report_numbers(vn_case_t *c) {
    vn_finding_t *f = c->f;
    const vn_measure_t *m = &c->m;
    f->count = m->count;
    f->unequal = m->unequal;
    f->outside = m->outside;
    f->escalated = c->ref->escalated;
    f->undecided = c->ref->undecided;
    if (f->undecided) vn_rung(f, "oracle undecided %lld", (long long)f->undecided);
    f->error_over_bound = c->ref->bound || m->outside ? m->worst_ratio : NAN;
    f->rms_ratio = m->sigmas ? sqrt(m->sum_z2 / (double)m->sigmas) : NAN;
    f->z_max = m->sigmas ? m->z_max : NAN;
    f->sign_bias = m->sigmas ? m->sum_signed / (double)m->sigmas : NAN;
    f->max_abs_error = m->max_abs;
    f->oracle_over_bound = m->oracle_ratio;
    const double rms = m->count ? sqrt(m->sum_y2 / (double)m->count) : 0;
    f->impact = m->classes ? INFINITY : rms > 0 ? m->max_abs / rms : m->max_abs > 0 ? INFINITY : 0; /* a NaN outweighs every wrong number */
    f->ulp_max = NAN;
    const int64_t at = m->first_outside >= 0 ? m->first_outside : m->first_unequal;
    vn_set_divergence(c->ref, c->actual, at, &f->first);
    const vn_format_t fmt = vn_format_of(c->ref->dtype);
    if (fmt != VN_FMT_NONE && m->worst >= 0 && c->ref->value && isfinite(c->ref->value[m->worst]))
        f->ulp_max = fabs(vn_tensor_get_f64(c->actual, m->worst) - c->ref->value[m->worst]) / vn_ulp(fmt, c->ref->value[m->worst]);
}

static bool follows_reading(vn_case_t *c) {
    for (int r = 0; r < c->ref->n_readings; ++r) {
        if (!vn_reading_holds(&c->ref->readings[r], c->actual)) continue;
        c->f->verdict = VN_SPEC_OPEN;
        snprintf(c->f->note, sizeof c->f->note, "%s", c->ref->readings[r].name);
        if (!strchr(c->ref->readings[r].name, ' ')) snprintf(c->f->cause, sizeof c->f->cause, "%s", c->ref->readings[r].name); /* an id */
        snprintf(c->f->words, sizeof c->f->words, "The operator's text leaves this open; the result follows the reading '%s'.",
                 c->ref->readings[r].name);
        return true;
    }
    return false;
}

/* Every wrong element is the low half of the right one, read as a 32-bit number. */
static bool halved(const vn_case_t *c) {
    const vn_tensor_t *want = c->ref->tensor;
    if (!want || want->dtype != VN_I64 || c->actual->dtype != VN_I64 || want->count != c->actual->count) return false;
    for (int64_t i = 0; i < want->count; ++i) {
        const int64_t w = vn_tensor_get_i64(want, i), a = vn_tensor_get_i64(c->actual, i);
        if (a != w && a != (int64_t)(int32_t)(uint32_t)((uint64_t)w & 0xffffffffu)) return false;
    }
    return true;
}

static void describe_failure(vn_case_t *c) {
    const vn_measure_t *m = &c->m;
    char where[160];
    vn_index_text(c->actual, m->first_outside, where, sizeof where);
    const vn_divergence_t *d = &c->f->first;
    if (m->nan_extra) snprintf(c->f->cause, sizeof c->f->cause, "nan-produced");
    else if (m->nan_missing) snprintf(c->f->cause, sizeof c->f->cause, "nan-ignored");
    else if (m->inf_extra) snprintf(c->f->cause, sizeof c->f->cause, "inf-produced");
    else if (m->zero_extra == m->outside && c->ref->value) snprintf(c->f->cause, sizeof c->f->cause, "zeros");
    else if (halved(c)) snprintf(c->f->cause, sizeof c->f->cause, "i64-as-i32");
    snprintf(c->f->words, sizeof c->f->words,
             "%lld of %lld elements outside the bound; first at %s: expected %.9g (0x%llx), got %.9g (0x%llx); largest error %.3g x bound.",
             (long long)m->outside, (long long)m->count, where, d->expected, (unsigned long long)d->expected_bits, d->actual,
             (unsigned long long)d->actual_bits, m->worst_ratio);
}

static bool subnormal_in(const vn_value_t *v) {
    if (!v || v->kind != VN_VALUE_TENSOR || !vn_dtype_is_float(v->tensor->dtype)) return false;
    const double tau = vn_format_info(vn_format_of(v->tensor->dtype))->tau;
    for (int64_t i = 0; i < v->tensor->count; ++i) {
        const double x = fabs(vn_tensor_get_f64(v->tensor, i));
        if (x > 0 && x < tau) return true;
    }
    return false;
}

bool vn_has_subnormal(const vn_question_t *q) {
    const int n = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    for (int k = 0; k < n; ++k)
        if (subnormal_in(q->inputs[k])) return true;
    return false;
}

/* Claim JUDGE-2: the portable contract lets subnormal operands and results count as zero where that moves no element by more than u times the
 * output's rms (a normwise error of one rounding); such an output passes with a note. Larger effects, and operators of one
 * rounding, are a named mismatch (ftz, daz). */
static vn_status_t flushes(vn_case_t *c, bool *passes, vn_error_t *err) {
    const vn_question_t *q = c->q;
    *passes = false;
    if (c->cls <= VN_CLASS_ROUNDED || !c->ref->value || q->contract->tier != VN_TIER_PORTABLE || (q->contract->ftz && q->contract->daz) ||
        !c->m.outside || c->m.classes)
        return VN_OK;
    const double rms = sqrt(c->m.sum_y2 / (double)c->m.count), u = vn_format_info(vn_format_of(c->ref->dtype))->u;
    if (!(c->m.max_abs_outside <= u * rms)) return VN_OK;
    if (c->m.zero_extra == 0 && !vn_has_subnormal(q)) return VN_OK;
    vn_contract_t contract = *q->contract;
    contract.ftz = contract.daz = true;
    vn_ref_t *refs = vn_alloc((size_t)q->n_outputs, sizeof *refs);
    if (!refs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    vn_error_t why;
    vn_measure_t m;
    vn_status_t s = vn_question_oracle(q, &contract, VN_WANT_BOUND, refs, &why);
    if (s == VN_OK) {
        s = vn_measure(&refs[c->k], c->actual, &m, err);
        *passes = s == VN_OK && m.outside == 0;
    } else if (s != VN_ERR_NOMEM) {
        s = VN_OK;
    }
    for (int k = 0; k < q->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(refs);
    if (*passes) {
        c->f->verdict = VN_EXPLAINED;
        snprintf(c->f->note, sizeof c->f->note, "subnormals-flushed");
        snprintf(c->f->words, sizeof c->f->words,
                 "%lld elements are explained only by subnormal operands or results counted as zero, each by less than one rounding of the "
                 "output's rms.",
                 (long long)c->m.outside);
    }
    return s;
}

static vn_status_t numbers(vn_case_t *c, vn_error_t *err) {
    vn_finding_t *f = c->f;
    if (c->ref->is_random) return vn_judge_draw(c, err);
    VN_TRY(vn_measure(c->ref, c->actual, &c->m, err));
    const vn_measure_t *m = &c->m;
    report_numbers(c);
    vn_rung(f, "equality %lld of %lld", (long long)(m->count - m->unequal), (long long)m->count);
    VN_TRY(vn_detection(c, err));
    const bool floats = c->ref->value != NULL;
    c->print = vn_fingerprint(c->ref, m, c->cls, c->q->alpha);
    vn_rung(f, "classes %s", m->classes ? "broken" : "ok");
    vn_rung(f, "bound %s, %.3g", m->outside ? "left" : "kept", m->worst_ratio);
    if (c->print.verdict != VN_PRINT_VOID)
        vn_rung(f, "fingerprint rms %.3g (limit %.3g) z %.3g (limit %.3g)", c->print.rms, c->print.rms_limit, c->print.z_max,
                c->print.z_limit);
    bool odd = c->print.verdict == VN_PRINT_RMS || c->print.verdict == VN_PRINT_EXTREME;
    if (odd && m->outside == 0) { /* only then does the model alone accuse: it must hold for this very data */
        double scale;
        VN_TRY(vn_twin_scale(c, &scale, err));
        odd = c->print.verdict == VN_PRINT_RMS ? c->print.rms > scale * c->print.rms_limit : c->print.z_max > scale * c->print.z_limit;
        vn_rung(f, "twins x %.3g", scale);
    }
    vn_coherence_t together = {0};
    if (!odd && m->outside == 0 && m->unequal) {
        VN_TRY(vn_coherence(c, &together, err));
        if (together.tried && !together.found) vn_rung(f, "coherence none");
        if (together.found)
            vn_rung(f, "%s: %.2g of the error, p < e^%.0f, twins %.2g", together.what, together.share, together.log_p, together.twins);
        odd = together.accuses;
    }
    if (m->outside == 0 && m->unequal && !floats && follows_reading(c)) return VN_OK;
    if (m->outside == 0 && !odd) {
        if (floats && m->voids == m->count && m->count > 0 && m->unequal) {
            f->verdict = VN_UNINFORMATIVE;
            vn_uninformative(c, f->note, sizeof f->note);
        } else if (!floats && m->voids && m->unequal) {
            f->verdict = VN_SPEC_OPEN;
            snprintf(f->note, sizeof f->note, "the standard gives no value for %lld elements", (long long)m->voids);
        } else if (m->nan_allowed && c->ref->nan_reading) {
            f->verdict = VN_SPEC_OPEN;
            snprintf(f->note, sizeof f->note, "%s", c->ref->nan_reading);
            snprintf(f->words, sizeof f->words, "The operator's text leaves this open; %lld elements are NaN by the reading '%s'.",
                     (long long)m->nan_allowed, c->ref->nan_reading);
        } else {
            f->verdict = m->unequal ? VN_EXPLAINED : VN_EXACT;
            if (m->wide_used) snprintf(f->note, sizeof f->note, "%s", c->ref->wide_note);
            else if (together.found)
                snprintf(f->note, sizeof f->note, "coherent-errors: %s (%.0f %% of it)", together.what, 100 * together.share);
            else if (f->verdict == VN_EXACT && f->undecided)
                snprintf(f->note, sizeof f->note,
                         "%lld elements lie on a rounding boundary within the oracle's own error: either neighbour counts",
                         (long long)f->undecided);
        }
        if (floats && f->detection_of && f->detection_caught == 0 && m->count > 0 && vn_verdict_passes(f->verdict)) {
            f->verdict = VN_UNINFORMATIVE;
            vn_uninformative(c, f->note, sizeof f->note);
        }
        vn_note_step(c);
        return VN_OK;
    }
    if (follows_reading(c)) return VN_OK;
    bool explained = false;
    VN_TRY(flushes(c, &explained, err));
    if (explained) return VN_OK;
    if (c->q->ask != VN_ASK_NONE && c->q->ask != VN_ASK_NAMES) VN_TRY(vn_hypotheses(c, &explained, err));
    if (explained) return VN_OK;
    if (m->outside) {
        f->verdict = VN_BUG;
        describe_failure(c);
    } else if (together.accuses) {
        f->verdict = VN_SUSPECT;
        snprintf(
            f->words, sizeof f->words,
            "Inside the bound (%.3g of it), yet %s: %.0f %% of the error is common (correct orders on this data: %.0f %%), by chance with "
            "a probability below 1e%.0f; no hypothesis fits.",
            m->worst_ratio, together.what, 100 * together.share, 100 * together.twins, together.log_p / log(10));
    } else {
        f->verdict = VN_SUSPECT;
        snprintf(f->words, sizeof f->words, "Inside the bound (%.3g of it), yet %s: %.3g against a limit of %.3g; no hypothesis fits.",
                 m->worst_ratio,
                 c->print.verdict == VN_PRINT_RMS ? "the rms over the predicted noise is too large" : "one element is too far out",
                 c->print.verdict == VN_PRINT_RMS ? c->print.rms : c->print.z_max,
                 c->print.verdict == VN_PRINT_RMS ? c->print.rms_limit : c->print.z_limit);
    }
    return c->q->ask == VN_ASK_ALL || c->q->ask == VN_ASK_NAMES ? vn_explain(c, err) : VN_OK;
}

/* ---- rung 2: repeat ---- */

static vn_status_t repeated(vn_case_t *c, const vn_value_t *second, vn_error_t *err) {
    vn_finding_t *f = c->f;
    f->deterministic = c->q->actual2 ? 0 : -1;
    if (!c->q->actual2) return VN_OK;
    if (c->ref->is_random) { /* two draws differ, and may */
        f->deterministic = -1;
        return VN_OK;
    }
    if (!second || second->kind != VN_VALUE_TENSOR) {
        vn_rung(f, "repeat without a tensor");
        f->verdict = VN_NONDETERMINISTIC;
        snprintf(f->cause, sizeof f->cause, "race");
        snprintf(f->words, sizeof f->words, "The second run with identical settings did not return this output as a tensor.");
        return VN_OK;
    }
    if (vn_tensor_equal_bits(c->actual, second->tensor)) {
        f->deterministic = 1;
        vn_rung(f, "repeat equal");
        return VN_OK;
    }
    int64_t differ = 0;
    const vn_tensor_t *b = second->tensor;
    const bool same_form = b->dtype == c->actual->dtype && b->rank == c->actual->rank &&
                           memcmp(b->dims, c->actual->dims, (size_t)b->rank * sizeof *b->dims) == 0;
    if (!same_form) differ = c->actual->count;
    for (int64_t i = 0; same_form && i < c->actual->count; ++i) differ += vn_tensor_bits(c->actual, i) != vn_tensor_bits(second->tensor, i);
    vn_rung(f, "repeat differs in %lld elements", (long long)differ);
    vn_measure_t m = {.outside = 1};
    if (same_form) VN_TRY(vn_measure(c->ref, second->tensor, &m, err));
    const bool both = c->m.outside == 0 && m.outside == 0;
    f->verdict = VN_NONDETERMINISTIC;
    snprintf(f->cause, sizeof f->cause, "%s", both ? "order-nondeterminism" : "race");
    snprintf(f->words, sizeof f->words, "Two runs with identical settings differ in %lld of %lld elements; %s.", (long long)differ,
             (long long)c->actual->count,
             both ? "both are inside the bound: the order of summation varies" : "at least one is outside the bound");
    return VN_OK;
}

static vn_status_t judge_one(const vn_question_t *q, int k, vn_op_class_t cls, vn_finding_t *f, vn_error_t *err) {
    *f = (vn_finding_t){.verdict = VN_NOT_RUN,
                        .first.index = -1,
                        .deterministic = -1,
                        .error_over_bound = NAN,
                        .rms_ratio = NAN,
                        .z_max = NAN,
                        .sign_bias = NAN,
                        .ulp_max = NAN,
                        .max_abs_error = NAN,
                        .impact = NAN,
                        .oracle_over_bound = NAN,
                        .detection_smallest = NAN,
                        .detection_worst = NAN};
    f->first.expected = f->first.actual = NAN;
    vn_contract_describe(q->contract, f->declared, sizeof f->declared);
    vn_case_t c = {.q = q, .k = k, .ref = &q->refs[k], .cls = cls, .f = f};
    const vn_value_t *v = q->actual[k];
    if (c.ref->nested) {
        judge_nested(&c, v);
        return VN_OK;
    }
    vn_tensor_t *converted = NULL, *flat = NULL;
    if (!form(&c, v, &converted, err)) {
        c.actual = v && v->kind == VN_VALUE_TENSOR ? v->tensor : NULL;
        if (c.actual && strcmp(f->cause, "shape") == 0 && follows_reading(&c)) { /* where the text is open, so may be the shape */
            vn_rung(f, "form of a reading");
            f->cause[0] = '\0';
            f->count = c.actual->count;
            return VN_OK;
        }
        vn_rung(f, "form broken");
        return VN_OK;
    }
    vn_rung(f, "form %s", converted ? "another element type" : "ok");
    char cause[sizeof f->cause], words[sizeof f->words];
    memcpy(cause, f->cause, sizeof cause);
    memcpy(words, f->words, sizeof words);
    f->cause[0] = f->words[0] = '\0';
    vn_status_t s = vn_tensor_contiguous(converted ? converted : v->tensor, &flat, err);
    c.actual = flat;
    if (s == VN_OK) s = numbers(&c, err);
    const int64_t left = q->poison_left ? q->poison_left[k] : 0;
    if (s == VN_OK && f->verdict == VN_BUG &&
        left > 0) { /* integers may hold the pattern by right; wrong values and the pattern together do not */
        snprintf(f->cause, sizeof f->cause, "tail-unwritten");
        snprintf(f->words, sizeof f->words, "%lld of %lld elements are wrong, and %lld hold the pattern that filled the buffer.",
                 (long long)f->outside, (long long)f->count, (long long)left);
    }
    if (s == VN_OK && !converted) s = repeated(&c, q->actual2 ? q->actual2[k] : NULL, err);
    if (s == VN_OK && converted && vn_verdict_fails(f->verdict) && !*f->note)
        memcpy(f->note, cause, sizeof cause); /* wrong values in a wrong type */
    if (s == VN_OK && converted && !vn_verdict_fails(f->verdict)) {
        f->verdict = VN_CONTRACT_MISMATCH;
        memcpy(f->cause, cause, sizeof cause);
        memcpy(f->words, words, sizeof words);
    }
    vn_tensor_free(converted);
    vn_tensor_free(flat);
    return s;
}

vn_status_t vn_judge(const vn_question_t *q, vn_finding_t *findings, vn_error_t *err) {
    const vn_op_class_t cls = vn_question_class(q);
    for (int k = 0; k < q->n_outputs; ++k) {
        if (q->node && !*q->node->outputs[k]) {
            findings[k] = (vn_finding_t){.verdict = VN_NOT_RUN, .first.index = -1};
            continue;
        }
        VN_TRY(judge_one(q, k, cls, &findings[k], err));
    }
    return q->node && !q->stepwise && cls == VN_CLASS_COMPOSITE ? vn_judge_steps(q, findings, err) : VN_OK;
}
