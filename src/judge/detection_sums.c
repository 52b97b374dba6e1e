/* detection_sums.c -- faults behind an element: a term lost, operands or accumulator of fewer bits, another epsilon.
 *
 * Claim DETECT-2: the bound of a sum is E = n u T, so T = E / (n u) without asking the operands. An average term is T / n, an eighth of the terms,
 * of random signs, sqrt(n / 8) T / n. Operands rounded to a format of unit roundoff w leave an error of variance 0.18 w^2 sum x^2 for each operand,
 * and sum x^2 >= T^2 / n (Cauchy-Schwarz): 0.6 w T / sqrt n is its deviation at least. A running sum in a format of unit roundoff w has
 * (w / u)^2 times the variance of the contract's. Such errors are added to a sample of the actual output, drawn from a normal law with a fixed
 * seed, and judged by bound and fingerprint.
 */
#include <math.h>
#include <string.h>

#include "judge/detection.h"

enum { SAMPLE = 192 };

static bool is_sum(const vn_case_t *c) {
    return c->ref->terms > 1 && c->ref->bound && c->ref->value &&
           (c->cls == VN_CLASS_CONTRACTION || c->cls == VN_CLASS_REDUCTION || c->cls == VN_CLASS_SCAN);
}

/* T of element i; 0 where the bound says nothing. The store of a narrower result is taken out of the bound first. */
static double total(const vn_case_t *c, const vn_contract_t *k, int64_t i) {
    const vn_ref_t *r = c->ref;
    const vn_format_info_t *acc = vn_format_info(k->accumulator), *out = vn_format_info(vn_format_of(r->dtype));
    double e = r->bound[i];
    if (!isfinite(e) || !isfinite(r->value[i])) return 0;
    if (out && out->u > acc->u) e = (e - out->u * fabs(r->value[i]) - out->eta / 2) / (1 + out->u);
    return e > 0 ? e / ((double)r->terms * acc->u) : 0;
}

static int lost_terms(const vn_case_t *c, const vn_contract_t *k) {
    const double n = (double)c->ref->terms;
    const int64_t count = c->ref->count, step = count / SAMPLE | 1;
    bool one = false, many = false;
    for (int64_t i = 0; i < count && !(one && many); i += step) {
        const double limit = vn_room(c->ref, i), t = total(c, k, i);
        if (limit <= 0 || isinf(limit)) continue;
        one |= t / n > limit;
        many |= t * sqrt(n / 8) / n > limit;
    }
    return one + many;
}

/* Noise of the given deviation, element by element: does the bound or the fingerprint speak? */
static bool noise_is_caught(const vn_case_t *c, const vn_contract_t *k, vn_format_t operand, vn_format_t accumulator) {
    const vn_ref_t *r = c->ref;
    const vn_format_info_t *acc = vn_format_info(k->accumulator), *out = vn_format_info(vn_format_of(r->dtype));
    const double root = sqrt((double)r->terms), clip = vn_clip_z(), store = out && out->u > acc->u ? 1.0 / 12 : 0;
    vn_measure_t m = {0};
    vn_rng_t rng;
    vn_rng_seed(&rng, 7);
    const int64_t step = r->count / SAMPLE | 1;
    for (int64_t i = 0; i < r->count; i += step) {
        const double x = vn_tensor_get_f64(c->actual, i), y = r->value[i], v = r->var ? r->var[i] : 0;
        const double draw = vn_rng_normal(&rng);
        if (!isfinite(x) || !isfinite(y)) continue;
        double deviation = 0;
        if (operand) deviation = 0.6 * vn_format_info(operand)->u * total(c, k, i) / root;
        if (accumulator) { /* the variance without the store, in the narrower format */
            const double ulp = store > 0 ? vn_ulp(vn_format_of(r->dtype), y) : 0, inner = v - store * ulp * ulp;
            deviation = inner > 0 ? sqrt(inner) * vn_format_info(accumulator)->u / acc->u : 0;
        }
        const double faulty = x + draw * deviation;
        if (vn_would_flag(r, i, x, faulty)) return true;
        if (!(v > 0)) continue;
        const double z = (faulty - y) / sqrt(v), cut = fabs(z) > clip ? clip : fabs(z);
        m.sigmas++;
        m.sum_z2 += z * z;
        m.sum_clipped += cut * cut;
        if (fabs(z) > m.z_max) m.z_max = fabs(z);
    }
    m.count = r->count;
    const vn_fingerprint_t print = vn_fingerprint(r, &m, c->cls, c->q->alpha);
    return print.verdict == VN_PRINT_RMS || print.verdict == VN_PRINT_EXTREME;
}

static int precision(vn_format_t f) { return vn_format_info(f) ? vn_format_info(f)->p : 0; }

static void narrower(const vn_case_t *c, const vn_contract_t *k) {
    static const vn_format_t operands[] = {VN_FMT_BF16, VN_FMT_TF32};
    const bool products = c->cls == VN_CLASS_CONTRACTION;
    for (size_t f = 0; f < sizeof operands / sizeof *operands && products; ++f) {
        if (precision(operands[f]) >= precision(k->operand)) continue;
        c->f->detection_of++;
        c->f->detection_caught += noise_is_caught(c, k, operands[f], VN_FMT_NONE);
    }
    if (precision(VN_FMT_F16) >= precision(k->accumulator)) return;
    c->f->detection_of++;
    c->f->detection_caught += noise_is_caught(c, k, VN_FMT_NONE, VN_FMT_F16);
}

/* ---- another epsilon: the oracle on one slice of the batch ---- */

static vn_status_t slice(const vn_value_t *v, vn_value_t **out, vn_error_t *err) {
    int64_t start[VN_MAX_RANK] = {0}, length[VN_MAX_RANK], step[VN_MAX_RANK];
    vn_tensor_t *view;
    for (int d = 0; d < v->tensor->rank; ++d) {
        length[d] = d ? v->tensor->dims[d] : 1;
        step[d] = 1;
    }
    VN_TRY(vn_tensor_slice(v->tensor, start, length, step, &view, err));
    *out = vn_value_tensor(view);
    return *out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
}

/* Faults of an attribute are asked where they cost little: an eighth of the batch at most, or few elements. */
enum { SMALL = 4096, SLICES = 8, MAX_INPUTS = 16 };

static vn_status_t other_epsilon(vn_case_t *c, vn_error_t *err) {
    const vn_question_t *q = c->q;
    const vn_value_t *x = q->node && q->node->n_inputs > 0 ? q->inputs[0] : NULL;
    if (!q->node || c->cls != VN_CLASS_NORMALISATION || !c->ref->value || !c->ref->bound || q->n_outputs != 1 || !x ||
        x->kind != VN_VALUE_TENSOR || x->tensor->rank < 2 || q->node->n_inputs > MAX_INPUTS || !vn_node_attr(q->node, "epsilon"))
        return VN_OK;
    const int64_t batch = x->tensor->dims[0];
    if (batch < 1 || c->ref->rank < 1 || c->ref->dims[0] != batch || (batch < SLICES && c->ref->count > SMALL)) return VN_OK;
    const double eps = vn_node_float(q->node, "epsilon", 0);
    vn_model_t *scratch;
    vn_node_t node = *q->node;
    vn_value_t *first = NULL;
    const vn_value_t *in[MAX_INPUTS];
    vn_ref_t ref = {0};
    vn_error_t why = {0};
    VN_TRY(vn_model_new(10, &scratch, err));
    vn_status_t s = VN_OK;
    node.attrs = vn_arena_alloc(scratch->arena, (size_t)node.n_attrs + 1, sizeof *node.attrs);
    if (node.attrs) memcpy(node.attrs, q->node->attrs, (size_t)node.n_attrs * sizeof *node.attrs);
    else s = vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = vn_node_set_float(scratch, &node, "epsilon", eps > 0 ? (float)(eps / 10) : 1e-6f, err);
    if (s == VN_OK) s = slice(x, &first, err);
    if (s == VN_OK) {
        memcpy(in, q->inputs, (size_t)node.n_inputs * sizeof *in);
        in[0] = first;
        const vn_status_t asked = vn_oracle_node(q->model, &node, in, q->outer, q->contract, VN_WANT_VALUE | VN_WANT_PLAIN, &ref, &why);
        if (asked == VN_ERR_NOMEM) s = vn_fail(err, asked, "no memory");
    }
    if (s == VN_OK && ref.value && ref.count * batch == c->ref->count) {
        bool noticed = false;
        for (int64_t i = 0; i < ref.count && !noticed; ++i) {
            const double actual = vn_tensor_get_f64(c->actual, i);
            noticed = vn_would_flag(c->ref, i, actual, actual + (ref.value[i] - c->ref->value[i]));
        }
        c->f->detection_of++;
        c->f->detection_caught += noticed;
    }
    vn_ref_free(&ref);
    vn_value_free(first);
    vn_model_free(scratch);
    return s;
}

vn_status_t vn_detection_sums(vn_case_t *c, vn_error_t *err) {
    if (is_sum(c)) {
        const vn_contract_t k = vn_contract_resolve(c->q->contract, c->ref->dtype);
        c->f->detection_of += 2;
        c->f->detection_caught += lost_terms(c, &k);
        narrower(c, &k);
    }
    return other_epsilon(c, err);
}
