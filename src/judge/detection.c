/* detection.c -- what would this very check have caught? A catalogue of faults is injected into the actual output and judged again by the
 * cheap rungs (equality, classes, bound). A fault that changes nothing (a swap of equal elements, zeros into zeros) is not caught.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge/ladder.h"

typedef struct stage {
    const vn_ref_t *ref;
    const double *x;       /* actual */
    int64_t n, last, rows; /* last: size of the last axis, rows: the rest */
    int64_t mid;           /* an element that is not zero, from the middle on */
} stage_t;

/* The faulty output's element i. */
typedef double (*fault_fn)(const stage_t *s, int64_t i);

static int64_t middle(const stage_t *s) {
    for (int64_t k = 0; k < s->n; ++k) {
        const int64_t i = (s->n / 2 + k) % s->n;
        if (s->x[i] != 0 && isfinite(s->x[i])) return i;
    }
    return s->n / 2;
}

static double element_ratio(const stage_t *s, int64_t i) { return i == s->mid ? s->x[i] * (1 + 0x1p-6) : s->x[i]; }
static double element_sign(const stage_t *s, int64_t i) { return i == s->mid ? -s->x[i] : s->x[i]; }
static double element_zero(const stage_t *s, int64_t i) { return i == s->mid ? 0 : s->x[i]; }
static double row_zero(const stage_t *s, int64_t i) { return i / s->last == s->rows / 2 ? 0 : s->x[i]; }
static double row_repeated(const stage_t *s, int64_t i) {
    const int64_t r = i / s->last;
    return r == s->rows / 2 ? s->x[((r + 1) % s->rows) * s->last + i % s->last] : s->x[i];
}
static double tail_zero(const stage_t *s, int64_t i) { return i % s->last >= s->last - (s->last + 7) / 8 ? 0 : s->x[i]; }
static double all_zero(const stage_t *s, int64_t i) { return (void)s, (void)i, 0.0; }
static double pair_swapped(const stage_t *s, int64_t i) {
    const int64_t m = s->mid, o = m + 1 < s->n ? m + 1 : m - 1;
    return o < 0 ? s->x[i] : i == m ? s->x[o] : i == o ? s->x[m] : s->x[i];
}
static double shifted(const stage_t *s, int64_t i) { return s->x[(i + 1) % s->n]; }
static double reversed_rows(const stage_t *s, int64_t i) { return s->x[i - i % s->last + (s->last - 1 - i % s->last)]; }
static double ratio_fine(const stage_t *s, int64_t i) { return s->x[i] * (1 + 0x1p-10); }
static double ratio_two(const stage_t *s, int64_t i) { return 2 * s->x[i]; }
static double rounded_bf16(const stage_t *s, int64_t i) {
    return vn_round_to(s->ref->dtype == VN_BF16 ? VN_FMT_F8E5M2 : VN_FMT_BF16, s->x[i], VN_RNE, true);
}
static double stale_tile(const stage_t *s, int64_t i) { return i % s->last < 8 && i / s->last < 8 ? s->x[s->n - 1 - i] : s->x[i]; }

/* local: the fault touches the middle element and its neighbours only */
static const struct {
    const char *name;
    fault_fn fault;
    bool local;
} catalogue[] = {
    {"one element x (1 + 2^-6)", element_ratio, true},
    {"sign of one element", element_sign, true},
    {"one element zero", element_zero, true},
    {"one row zero", row_zero, false},
    {"one row repeated", row_repeated, false},
    {"tail of the last axis zero", tail_zero, false},
    {"all zero", all_zero, false},
    {"two neighbours swapped", pair_swapped, true},
    {"shifted by one", shifted, false},
    {"last axis reversed", reversed_rows, false},
    {"all x (1 + 2^-10)", ratio_fine, false},
    {"all x 2", ratio_two, false},
    {"rounded to bf16", rounded_bf16, false},
    {"stale 8 x 8 tile", stale_tile, false},
};
enum { FAULTS = sizeof catalogue / sizeof *catalogue };

double vn_room(const vn_ref_t *r, int64_t i) {
    if (r->flags && (r->flags[i] & VN_EL_VOID)) return INFINITY;
    if (!r->bound || r->demand_equal) return -1;
    double b = r->bound[i];
    if (!r->value) return vn_dtype_is_float(r->dtype) || b == 0 ? -1 : b; /* integers that are fixed up to a few steps */
    if (r->wide && r->wide[i] > b) b = r->wide[i];
    return b + vn_ref_own(r, i);
}

static bool caught(const stage_t *s, const vn_dtype_t t, fault_fn fault, bool local) {
    const vn_format_t f = vn_format_of(t);
    const int64_t begin = local && s->mid > 0 ? s->mid - 1 : 0, end = local && s->mid + 2 < s->n ? s->mid + 2 : s->n;
    for (int64_t i = begin; i < end; ++i) {
        double x = fault(s, i);
        if (f == VN_FMT_F32) x = (float)x;
        else if (f != VN_FMT_NONE) x = vn_round_to(f, x, VN_RNE, false);
        if (x == s->x[i] || (isnan(x) && isnan(s->x[i]))) continue;
        const double limit = vn_room(s->ref, i);
        if (limit < 0) return true;
        if (isinf(limit)) continue;
        const double y = s->ref->value ? s->ref->value[i] : vn_tensor_get_f64(s->ref->tensor, i);
        if (!isfinite(x) || !isfinite(y)) return true;
        if (fabs(x - y) > limit) return true;
    }
    return false;
}

/* Lost terms of a sum, from the bound itself: E = n u T, so an average term is E / (n^2 u) and an eighth of them, of random signs,
 * E / (n u) sqrt(n / 8) / n. A loss is caught where it exceeds the room of some element. */
static int lost_terms(const vn_case_t *c, int64_t count) {
    const vn_contract_t k = vn_contract_resolve(c->q->contract, c->ref->dtype);
    const double n = (double)c->ref->terms, u = vn_format_info(k.accumulator)->u;
    bool one = false, many = false;
    for (int64_t i = 0; i < count && !(one && many); ++i) {
        const double limit = vn_room(c->ref, i), e = c->ref->bound[i];
        if (limit <= 0 || isinf(limit)) continue;
        const double total = e / (n * u);
        one |= total / n > limit;
        many |= total * sqrt(n / 8) / n > limit;
    }
    return one + many;
}

/* Would another operand have been noticed? All floats x (1 + 2^-6), the oracle again, against the room of this judgement. */
static vn_status_t operand_fault(const vn_case_t *c, bool *noticed, vn_error_t *err) {
    const vn_question_t *q = c->q;
    const int n = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    *noticed = false;
    if (!c->ref->value || !c->ref->bound) return VN_OK;
    for (int k = 0; k < n && !*noticed; ++k) {
        const vn_value_t *v = q->inputs[k];
        if (!v || v->kind != VN_VALUE_TENSOR || !vn_dtype_is_float(v->tensor->dtype)) continue;
        vn_tensor_t *t;
        VN_TRY(vn_tensor_copy(v->tensor, &t, err));
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_f64(t, i, vn_tensor_get_f64(t, i) * (1 + 0x1p-6));
        vn_value_t *changed = vn_value_tensor(t);
        const vn_value_t **in = vn_alloc((size_t)n + 1, sizeof *in);
        vn_ref_t *refs = vn_alloc((size_t)q->n_outputs + 1, sizeof *refs);
        vn_status_t s = changed && in && refs ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
        if (s == VN_OK) {
            vn_error_t why;
            for (int j = 0; j < n; ++j) in[j] = j == k ? changed : q->inputs[j];
            vn_question_t other = *q;
            other.inputs = in;
            if (vn_question_oracle(&other, q->contract, VN_WANT_VALUE, refs, &why) == VN_OK && refs[c->k].value &&
                refs[c->k].count == c->ref->count)
                for (int64_t i = 0; i < c->ref->count && !*noticed; ++i) {
                    const double limit = vn_room(c->ref, i), shift = fabs(refs[c->k].value[i] - c->ref->value[i]);
                    *noticed = limit < 0 ? shift > 0 : shift > 2 * limit;
                }
        }
        for (int j = 0; refs && j < q->n_outputs; ++j) vn_ref_free(&refs[j]);
        vn_free(refs);
        vn_free(in);
        vn_value_free(changed);
        VN_TRY(s);
    }
    return VN_OK;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median over elements of (bound + own) / |y|: the relative change of one element from which this check speaks. */
static double smallest(const vn_ref_t *r, int64_t n) {
    enum { SAMPLE = 2048 };
    double *v = vn_alloc(SAMPLE, sizeof *v), m = NAN;
    int64_t used = 0, step = n / SAMPLE + 1;
    if (!v || !r->value) {
        vn_free(v);
        return NAN;
    }
    for (int64_t i = 0; i < n && used < SAMPLE; i += step) {
        if (!isfinite(r->value[i]) || r->value[i] == 0) continue;
        double b = vn_room(r, i);
        if (b < 0) b = vn_format_of(r->dtype) != VN_FMT_NONE ? vn_ulp(vn_format_of(r->dtype), r->value[i]) : 0;
        v[used++] = b / fabs(r->value[i]);
    }
    if (used) {
        qsort(v, (size_t)used, sizeof *v, by_value);
        m = v[used / 2];
    }
    vn_free(v);
    return m;
}

vn_status_t vn_detection(vn_case_t *c, vn_error_t *err) {
    const vn_tensor_t *t = c->actual;
    const int64_t n = t->count;
    c->f->detection_of = FAULTS;
    c->f->detection_caught = 0;
    c->f->detection_smallest = smallest(c->ref, n);
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    if (n == 0 || kind == VN_KIND_STRING || kind == VN_KIND_COMPLEX) {
        c->f->detection_of = 0;
        return VN_OK;
    }
    double *x = vn_alloc((size_t)n, sizeof *x);
    if (!x) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)n);
    vn_tensor_to_f64(t, x);
    stage_t s = {.ref = c->ref, .x = x, .n = n, .last = t->rank && t->dims[t->rank - 1] ? t->dims[t->rank - 1] : 1};
    s.rows = n / s.last;
    s.mid = middle(&s);
    for (int k = 0; k < FAULTS; ++k) c->f->detection_caught += caught(&s, t->dtype, catalogue[k].fault, catalogue[k].local);
    vn_free(x);
    if (c->ref->terms > 1 && c->ref->bound) {
        c->f->detection_of += 2;
        c->f->detection_caught += lost_terms(c, n);
    }
    if (c->f->detection_caught == 0 &&
        c->ref->value) { /* all of the result may be cancellation: ask for the operands before saying uninformative */
        bool noticed;
        VN_TRY(operand_fault(c, &noticed, err));
        c->f->detection_of += 1;
        c->f->detection_caught += noticed;
    }
    return VN_OK;
}
