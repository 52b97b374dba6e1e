/* uninformative.c -- why a check could not have failed, and an input with which it could: the note of an `uninformative` row. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/ladder.h"

/* What all elements of a tensor have in common. */
typedef struct alike {
    bool same, none; /* one value throughout; every value NaN */
    double value;
} alike_t;

static alike_t look(const vn_tensor_t *t) {
    alike_t a = {.same = t->count > 0, .none = t->count > 0};
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    if (t->count == 0 || kind == VN_KIND_STRING || kind == VN_KIND_COMPLEX) return (alike_t){0};
    a.value = vn_tensor_get_f64(t, 0);
    for (int64_t i = 0; i < t->count && (a.same || a.none); ++i) {
        const double x = vn_tensor_get_f64(t, i);
        a.same &= x == a.value;
        a.none &= isnan(x);
    }
    return a;
}

static const char *input_name(const vn_question_t *q, int k) { return q->node ? q->node->inputs[k] : q->model->graph->inputs[k].name; }

/* First operand whose values take the information away. Integers and masks of one value are ordinary. */
static int culprit(const vn_question_t *q, alike_t *how) {
    const int n = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    for (int pass = 0; pass < 2; ++pass) /* zeros, infinities and NaN first; then any single value */
        for (int k = 0; k < n; ++k) {
            if (!q->inputs[k] || q->inputs[k]->kind != VN_VALUE_TENSOR || q->inputs[k]->tensor->count < 2) continue;
            const bool is_float = vn_dtype_is_float(q->inputs[k]->tensor->dtype), is_bool = q->inputs[k]->tensor->dtype == VN_BOOL;
            const alike_t a = look(q->inputs[k]->tensor);
            if (!(is_float || (is_bool && a.same && a.value == 0))) continue;
            if (pass ? a.same : a.none || (a.same && (a.value == 0 || isinf(a.value)))) {
                *how = a;
                return k;
            }
        }
    return -1;
}

void vn_uninformative(const vn_case_t *c, char *out, size_t size) {
    const vn_question_t *q = c->q;
    const alike_t result = look(c->actual);
    alike_t how = {0};
    const int k = culprit(q, &how);
    const bool nothing = c->m.voids == c->m.count;
    char start[120];
    if (nothing) snprintf(start, sizeof start, "the bound makes no statement about any element");
    else snprintf(start, sizeof start, "this check would have caught none of the %d catalogued faults", c->f->detection_of);
    if (k >= 0 && q->inputs[k]->tensor->dtype == VN_BOOL)
        snprintf(out, size, "%s: operand %.60s is false throughout (everything masked); leave some positions unmasked", start,
                 input_name(q, k));
    else if (k >= 0 && how.none)
        snprintf(out, size, "%s: operand %.60s is NaN throughout; give it finite values of either sign", start, input_name(q, k));
    else if (k >= 0)
        snprintf(out, size, "%s: operand %.60s is %.4g throughout; give it different values, random of either sign for instance", start,
                 input_name(q, k), how.value);
    else if (result.none)
        snprintf(out, size, "%s: every element of the result is NaN; give inputs for which some are finite (not all positions masked)",
                 start);
    else if (result.same && result.value != 0)
        snprintf(out, size, "%s: every element of the result is %.6g, the operator is saturated; give smaller inputs, of size 1 or so",
                 start, result.value);
    else if (result.same)
        snprintf(out, size, "%s: every element of the result is 0; give inputs that do not cancel, underflow or fall outside the window",
                 start);
    else if (nothing)
        snprintf(out, size,
                 "%s: the data are too ill-conditioned for this contract; give inputs of one size, shorter sums, or a wider accumulator",
                 start);
    else
        snprintf(out, size,
                 "%s: the noise that the contract allows is larger than each; give inputs that cancel less, or a narrower contract", start);
}
