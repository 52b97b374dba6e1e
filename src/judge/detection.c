/* detection.c -- what would this very check have caught? A catalogue of faults is injected into the actual output and judged again by the
 * cheap rungs (equality, classes, bound; detection_sums.c: also the fingerprint). A fault that changes nothing (a swap of equal elements, zeros
 * into zeros) is not caught.
 *
 * Claim DETECT-1: a fault counts as caught iff an element that it changes would have been flagged. Of a fault that touches many elements at
 * most SAMPLE are looked at, evenly spread, so the count is never too high.
 */
#include <math.h>
#include <string.h>

#include "judge/detection.h"

enum { SAMPLE = 2048, QUICK_SAMPLE = 256 };

typedef struct stage {
    const vn_ref_t *ref;
    const vn_tensor_t *actual; /* contiguous */
    int64_t n, last, rows;     /* last: size of the last axis, rows: the rest */
    int64_t mid;               /* an element that is not zero, from the middle on */
} stage_t;

static double at(const stage_t *s, int64_t i) {
    return s->actual->dtype == VN_F32 ? (double)((const float *)s->actual->data)[i] : vn_tensor_get_f64(s->actual, i);
}

static int64_t middle(const stage_t *s) {
    for (int64_t k = 0; k < s->n; ++k) {
        const int64_t i = (s->n / 2 + k) % s->n;
        const double x = at(s, i);
        if (x != 0 && isfinite(x)) return i;
    }
    return s->n / 2;
}

/* The faulty output's element i. */
typedef double (*fault_fn)(const stage_t *s, int64_t i);

static double element_ratio(const stage_t *s, int64_t i) { return i == s->mid ? at(s, i) * (1 + 0x1p-6) : at(s, i); }
static double element_sign(const stage_t *s, int64_t i) { return i == s->mid ? -at(s, i) : at(s, i); }
static double element_zero(const stage_t *s, int64_t i) { return i == s->mid ? 0 : at(s, i); }
static double row_repeated(const stage_t *s, int64_t i) { return at(s, ((i / s->last + 1) % s->rows) * s->last + i % s->last); }
static double zero(const stage_t *s, int64_t i) { return (void)s, (void)i, 0.0; }
static double pair_swapped(const stage_t *s, int64_t i) {
    const int64_t m = s->mid, o = m + 1 < s->n ? m + 1 : m - 1;
    return o < 0 ? at(s, i) : i == m ? at(s, o) : i == o ? at(s, m) : at(s, i);
}
static double shifted(const stage_t *s, int64_t i) { return at(s, (i + 1) % s->n); }
static double reversed(const stage_t *s, int64_t i) { return at(s, i - i % s->last + (s->last - 1 - i % s->last)); }
static double ratio_fine(const stage_t *s, int64_t i) { return at(s, i) * (1 + 0x1p-10); }
static double ratio_two(const stage_t *s, int64_t i) { return 2 * at(s, i); }
static double rounded_bf16(const stage_t *s, int64_t i) {
    return vn_round_to(s->ref->dtype == VN_BF16 ? VN_FMT_F8E5M2 : VN_FMT_BF16, at(s, i), VN_RNE, true);
}
static double stale(const stage_t *s, int64_t i) { return at(s, s->n - 1 - i); }

/* Which elements a fault changes: `count` of them, the k-th at pick(s, k). */
typedef enum where { ELEMENT, ROW, TAIL, TILE, ALL } where_t;

static int64_t reach(const stage_t *s, where_t w) {
    const int64_t tail = (s->last + 7) / 8, side = s->last < 8 ? s->last : 8;
    switch (w) {
    case ELEMENT: return s->n < 3 ? s->n : 3;
    case ROW: return s->last;
    case TAIL: return tail * s->rows;
    case TILE: return side * (s->rows < 8 ? s->rows : 8);
    default: return s->n;
    }
}

static int64_t pick(const stage_t *s, where_t w, int64_t k) {
    const int64_t tail = (s->last + 7) / 8, side = s->last < 8 ? s->last : 8;
    switch (w) {
    case ELEMENT: return (s->mid > 0 ? s->mid - 1 : 0) + k < s->n ? (s->mid > 0 ? s->mid - 1 : 0) + k : s->n - 1;
    case ROW: return s->rows / 2 * s->last + k;
    case TAIL: return k / tail * s->last + s->last - tail + k % tail;
    case TILE: return k / side * s->last + k % side;
    default: return k;
    }
}

static const struct {
    const char *name;
    fault_fn fault;
    where_t where;
} catalogue[] = {
    {"one element x (1 + 2^-6)", element_ratio, ELEMENT},
    {"sign of one element", element_sign, ELEMENT},
    {"one element zero", element_zero, ELEMENT},
    {"one row zero", zero, ROW},
    {"one row repeated", row_repeated, ROW},
    {"tail of the last axis zero", zero, TAIL},
    {"all zero", zero, ALL},
    {"two neighbours swapped", pair_swapped, ELEMENT},
    {"shifted by one", shifted, ALL},
    {"last axis reversed", reversed, ALL},
    {"all x (1 + 2^-10)", ratio_fine, ALL},
    {"all x 2", ratio_two, ALL},
    {"rounded to bf16", rounded_bf16, ALL},
    {"stale 8 x 8 tile", stale, TILE},
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

bool vn_would_flag(const vn_ref_t *r, int64_t i, double actual, double faulty) {
    const vn_format_t f = vn_format_of(r->dtype);
    double x = faulty;
    if (f == VN_FMT_F32) x = (float)x;
    else if (f != VN_FMT_NONE) x = vn_round_to(f, x, VN_RNE, false);
    if (x == actual || (isnan(x) && isnan(actual))) return false;
    const double limit = vn_room(r, i);
    if (limit < 0) return true;
    if (isinf(limit)) return false;
    const double y = r->value ? r->value[i] : vn_tensor_get_f64(r->tensor, i);
    return !isfinite(x) || !isfinite(y) || fabs(x - y) > limit;
}

static bool caught(const stage_t *s, int f, int64_t sample) {
    const where_t w = catalogue[f].where;
    if (catalogue[f].fault == row_repeated && s->rows == 1) return false; /* by itself: nothing changes */
    const int64_t n = reach(s, w), step = n / sample | 1;                 /* odd: rows of even length do not hide their other half */
    for (int64_t k = 0; k < n; k += step) {
        const int64_t i = pick(s, w, k);
        if (vn_would_flag(s->ref, i, at(s, i), catalogue[f].fault(s, i))) return true;
    }
    return false;
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
            if (vn_question_oracle(&other, q->contract, VN_WANT_VALUE | VN_WANT_PLAIN, refs, &why) == VN_OK && refs[c->k].value &&
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

/* The k-th smallest of n numbers that are not negative (Hoare's selection). Their bits are in the same order, a NaN above all. */
static double select_nth(uint64_t *v, int64_t n, int64_t k) {
    for (int64_t low = 0, high = n - 1; low < high;) {
        const uint64_t pivot = v[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (v[i] < pivot) ++i;
            while (v[j] > pivot) --j;
            if (i > j) break;
            const uint64_t t = v[i];
            v[i++] = v[j];
            v[j--] = t;
        }
        if (k <= j) high = j;
        else if (k >= i) low = i;
        else break;
    }
    double out;
    memcpy(&out, &v[k], sizeof out);
    return out;
}

/* Median over elements of (bound + own) / |y|: the relative change of one element from which this check speaks. */
static double smallest(const vn_ref_t *r, int64_t n) {
    enum { ELEMENTS = 255 };
    uint64_t v[ELEMENTS];
    int64_t used = 0;
    if (!r->value) return NAN;
    const int64_t step = (n / ELEMENTS + 1) | 1;
    for (int64_t i = 0; i < n && used < ELEMENTS; i += step) {
        if (!isfinite(r->value[i]) || r->value[i] == 0) continue;
        double b = vn_room(r, i);
        if (b < 0) b = vn_format_of(r->dtype) != VN_FMT_NONE ? vn_ulp(vn_format_of(r->dtype), r->value[i]) : 0;
        const double ratio = b / fabs(r->value[i]);
        memcpy(&v[used++], &ratio, sizeof ratio);
    }
    if (!used) return NAN;
    return select_nth(v, used, used / 2);
}

/* The same of the element about which the check says least. Where bits must be equal, one ulp of a normal number is at most 2u of it. */
static double worst(const vn_case_t *c) {
    const vn_ref_t *r = c->ref;
    const vn_format_t f = vn_format_of(r->dtype);
    if (!r->value || f == VN_FMT_NONE) return NAN;
    if (!r->bound || r->demand_equal) return 2 * vn_format_info(f)->u;
    return c->m.weakest > 0 ? c->m.weakest : NAN;
}

vn_status_t vn_detection(vn_case_t *c, vn_error_t *err) {
    const vn_tensor_t *t = c->actual;
    vn_finding_t *f = c->f;
    const int64_t n = t->count;
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    f->detection_of = f->detection_caught = 0;
    f->detection_smallest = f->detection_worst = NAN;
    if (n == 0 || kind == VN_KIND_STRING || kind == VN_KIND_COMPLEX) return VN_OK;
    f->detection_smallest = smallest(c->ref, n);
    f->detection_worst = worst(c);
    stage_t s = {.ref = c->ref, .actual = t, .n = n, .last = t->rank && t->dims[t->rank - 1] ? t->dims[t->rank - 1] : 1};
    s.rows = n / s.last;
    s.mid = middle(&s);
    f->detection_of = FAULTS;
    for (int k = 0; k < FAULTS; ++k) f->detection_caught += caught(&s, k, c->q->effort == VN_EFFORT_QUICK ? QUICK_SAMPLE : SAMPLE);
    VN_TRY(vn_detection_sums(c, err));
    if (f->detection_caught == 0 && c->ref->value) { /* all of the result may be cancellation: ask for the operands first */
        bool noticed;
        VN_TRY(operand_fault(c, &noticed, err));
        f->detection_of += 1;
        f->detection_caught += noticed;
    }
    return VN_OK;
}
