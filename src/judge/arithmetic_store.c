/* arithmetic_store.c -- what happens to numbers where they are read and stored: subnormal operands read as zero, results rounded twice, results
 * cut instead of rounded.
 *
 * Claim ARITH-1 (double rounding): an element tells where RN_out(RN_M(y)) differs from RN_out(y). If it tells anywhere, every telling element
 * holds the twice rounded value and all others keep the contract, the result went through M.
 * Claim ARITH-2 (cut): a computed r with |r - y| <= E, cut to format F, lies in [cut(y - E), cut(y + E)]. Rounding to nearest would put half of the
 * elements on the other side, so the likelihood ratio decides after some twenty elements.
 */
#include <math.h>
#include <string.h>

#include "judge/arithmetic.h"

/* ---- subnormal operands read as zero ---- */

/* The tensor with its subnormal numbers as zeros of their sign; NULL in *out if it has none. */
static vn_status_t flushed(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    if (!vn_dtype_is_float(t->dtype)) return VN_OK;
    const double tau = vn_format_info(vn_format_of(t->dtype))->tau;
    for (int64_t i = 0; i < t->count; ++i) {
        const double x = vn_tensor_get_f64(t, i);
        if (!(x != 0 && fabs(x) < tau)) continue;
        if (!*out) VN_TRY(vn_tensor_copy(t, out, err));
        vn_tensor_set_f64(*out, i, copysign(0, x));
    }
    return VN_OK;
}

/* Every element that leaves the contract is a zero in place of a subnormal number. */
static void flushed_results(vn_arith_t *a) {
    const vn_ref_t *r = a->c->ref;
    const double tau = vn_format_info(vn_format_of(a->c->actual->dtype))->tau;
    int64_t zeros = 0;
    for (int64_t i = 0; i < a->n; ++i) {
        const double y = r->value[i];
        if (a->x[i] == y || a->x[i] == vn_tensor_get_f64(r->tensor, i) || (isnan(y) && isnan(a->x[i])) ||
            fabs(a->x[i] - y) <= vn_room(r, i))
            continue;
        if (a->x[i] != 0 || !(fabs(y) < tau)) return;
        zeros++;
    }
    if (zeros)
        vn_arith_exact(a, "ftz", 0, a->c->actual,
                       "subnormal results flushed to zero: %lld elements are zero where a subnormal number is due", (long long)zeros);
}

vn_status_t vn_arith_flush(vn_arith_t *a, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    if (a->c->m.outside && a->c->ref->value && vn_dtype_is_float(a->c->actual->dtype) && !q->contract->ftz && !vn_has_subnormal(q))
        flushed_results(a);
    if (a->c->m.outside == 0 || q->contract->daz || !vn_has_subnormal(q)) return VN_OK;
    const int n = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    vn_value_t **in = vn_alloc((size_t)n + 1, sizeof *in);
    vn_status_t s = in ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < n && s == VN_OK; ++k) {
        vn_tensor_t *t = NULL;
        const vn_tensor_t *given = vn_arith_operand(a, k);
        if (given) s = flushed(given, &t, err);
        if (s == VN_OK) in[k] = t ? vn_value_tensor(t) : q->inputs[k] ? vn_value_retain(q->inputs[k]) : NULL;
    }
    vn_ref_t ref = {0};
    a->tried++;
    if (s == VN_OK) s = vn_arith_oracle(a, (const vn_value_t *const *)in, q->contract, VN_WANT_VARIANCE, &ref, err);
    static const char words[] = "subnormal operands read as zero";
    if (s == VN_OK && ref.value) s = vn_arith_consider(a, "daz", VN_ARITH_LOCAL, &ref, err, "%s", words);
    else if (s == VN_OK) vn_arith_exact(a, "daz", VN_ARITH_BUG, ref.tensor, "%s", words);
    for (int k = 0; in && k < n; ++k) vn_value_free(in[k]);
    vn_free(in);
    vn_ref_free(&ref);
    return s;
}

/* ---- rounded twice ---- */

static bool finer(vn_format_t a, vn_format_t b) { return vn_format_info(a)->p > vn_format_info(b)->p; }

static void twice(vn_arith_t *a, const double *unrounded, vn_format_t out, vn_format_t through) {
    const vn_ref_t *r = a->c->ref;
    const vn_tensor_t *actual = a->c->actual;
    int64_t telling = 0;
    for (int64_t i = 0; i < a->n; ++i) {
        const double once = vn_tensor_get_f64(r->tensor, i), y = unrounded[i], held = vn_round_to(through, y, VN_RNE, false);
        const double two = isfinite(held) && isfinite(once) ? vn_round_to(out, held, VN_RNE, false) : once;
        const bool same = two == once || isnan(once);
        const bool kept = a->x[i] == once || (isnan(a->x[i]) && isnan(once)) || fabs(a->x[i] - y) <= vn_room(r, i);
        if (same ? !kept : a->x[i] != two) return;
        telling += !same;
    }
    if (telling == 0) return;
    /* The tensor itself is what is foretold: elements that do not tell were compared above. */
    vn_arith_exact(a, "double-rounding", 0, actual, "rounded twice, first to %s, then to %s: %lld elements tell",
                   vn_format_info(through)->name, vn_format_info(out)->name, (long long)telling);
}

/* A Cast of a float to an integer through a narrower float. */
static vn_status_t integer_through_float(vn_arith_t *a, vn_error_t *err) {
    const vn_tensor_t *in = vn_arith_operand(a, 0);
    if (!vn_arith_is(a, "Cast") || !vn_dtype_is_int(a->c->actual->dtype) || !in || in->dtype != VN_F64) return VN_OK;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(a->c->actual->dtype, in->rank, in->dims, &t, err));
    for (int64_t i = 0; i < t->count; ++i) {
        const double x = (double)(float)vn_tensor_get_f64(in, i);
        vn_tensor_set_i64(t, i, fabs(x) < 0x1p62 ? (int64_t)x : vn_tensor_get_i64(a->c->actual, i));
    }
    vn_arith_exact(a, "double-rounding", 0, t, "rounded to f32 before it was cut to %s", vn_dtype_name(t->dtype));
    vn_tensor_free(t);
    return VN_OK;
}

/* ---- cut instead of rounded ---- */

static double cut(vn_format_t f, double x) { return vn_round_to(f, x, VN_RZ, true); }

static vn_status_t truncated(vn_arith_t *a, const double *unrounded, vn_format_t f, vn_error_t *err) {
    int64_t below = 0, above = 0;
    for (int64_t i = 0; i < a->n; ++i) { /* cheap first: some elements cut, and only numbers of the format */
        if (!isfinite(a->x[i]) || !isfinite(unrounded[i])) continue;
        if (cut(f, a->x[i]) != a->x[i]) return VN_OK;
        const double d = fabs(a->x[i]) - fabs(unrounded[i]);
        below += d < 0;
        above += d > 0;
    }
    if (below == 0 || above > below / 4) return VN_OK;
    double *value = vn_alloc((size_t)a->n + 1, sizeof *value), *bound = vn_alloc((size_t)a->n + 1, sizeof *bound),
           *var = vn_alloc((size_t)a->n + 1, sizeof *var);
    if (!value || !bound || !var) {
        vn_free(value);
        vn_free(bound);
        vn_free(var);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int64_t i = 0; i < a->n; ++i) {
        const double y = unrounded[i], e = vn_arith_unstored(a, i);
        value[i] = y;
        if (!isfinite(y)) continue;
        const double low = cut(f, y - e), high = cut(f, y + e);
        value[i] = cut(f, y);
        bound[i] = fmax(fabs(high - value[i]), fabs(low - value[i]));
        /* between the cells the sum's own noise chooses: a uniform share of the spread that is likely, sixths of E on either side */
        const double near = fabs(cut(f, y + e / 6) - cut(f, y - e / 6));
        var[i] = near * near / 3;
    }
    vn_ref_t ref;
    VN_TRY(vn_arith_planes(a, value, bound, var, &ref, err));
    const vn_status_t s =
        vn_arith_consider(a, "truncation-bias", VN_ARITH_SHARP, &ref, err,
                          "the result is cut to %s, not rounded: %lld of %lld elements are too small in magnitude, %lld too large",
                          vn_format_info(f)->name, (long long)below, (long long)a->n, (long long)above);
    vn_ref_free(&ref);
    return s;
}

/* Results before their store: of a Cast its operand (the oracle's value of a Cast is the rounded one), else the oracle's value. */
static const double *before_store(const vn_arith_t *a, double **made) {
    const vn_tensor_t *in = vn_arith_is(a, "Cast") ? vn_arith_operand(a, 0) : NULL;
    *made = in && in->count == a->n && in->dtype != VN_STRING ? vn_arith_plane(a, 0) : NULL;
    return *made ? *made : a->c->ref->value;
}

vn_status_t vn_arith_store(vn_arith_t *a, vn_error_t *err) {
    static const vn_format_t formats[] = {VN_FMT_F32, VN_FMT_TF32, VN_FMT_F16, VN_FMT_BF16};
    const vn_ref_t *r = a->c->ref;
    if (!r->value || !r->tensor) return integer_through_float(a, err);
    const vn_format_t out = vn_format_of(a->c->actual->dtype);
    double *made;
    const double *y = before_store(a, &made);
    vn_status_t s = VN_OK;
    a->tried += 2;
    for (size_t k = 0; k < sizeof formats / sizeof *formats && a->c->m.outside; ++k)
        if (finer(formats[k], out)) twice(a, y, out, formats[k]);
    for (size_t k = 0; k < sizeof formats / sizeof *formats && s == VN_OK; ++k)
        if (finer(out, formats[k])) s = truncated(a, y, formats[k], err);
    if (s == VN_OK) s = truncated(a, y, out, err);
    vn_free(made);
    return s;
}
