/* arithmetic_weights.c -- constants that were converted before the first run, by another rule than the operands; moved values that were stored
 * more narrowly.
 *
 * Claim ARITH-W1 (half a unit to odd): a bfloat16 conversion in use adds half a unit only where the last kept bit is odd and then cuts. Ties go to even,
 * as they should, but numbers above the middle behind an even bit are cut as well: an error of almost one unit instead of a half. It is
 * carried out on the weights, bit by bit; the running operands are rounded to nearest. Seen in recurrent layers of OpenVINO
 * (docs/findings.md).
 * Claim ARITH-W2: a moved value has no error of its own, so a narrower store foretells every bit.
 */
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"

static float half_to_odd(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    if ((b & 0x7f800000u) == 0x7f800000u) return x;
    b = (b + ((b & 0x10000u) >> 1)) & 0xffff0000u;
    memcpy(&x, &b, sizeof x);
    return x;
}

static bool recurrent(const vn_arith_t *a) { return vn_arith_is(a, "LSTM") || vn_arith_is(a, "GRU") || vn_arith_is(a, "RNN"); }

enum { W = 1, R = 2, INITIAL_H = 5 };

/* Weights by the odd rule; the initial state as the states after it are kept, in bfloat16 (a GRU mixes it into its result as it stands). */
static vn_status_t converted(const vn_arith_t *a, vn_value_t **in, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    for (int k = 0; k < q->node->n_inputs; ++k) {
        vn_tensor_t *t = NULL;
        const vn_tensor_t *w = k == W || k == R || k == INITIAL_H ? vn_arith_operand(a, k) : NULL;
        if (w && w->dtype == VN_F32) {
            VN_TRY(vn_tensor_copy(w, &t, err));
            float *x = t->data;
            for (int64_t i = 0; i < t->count; ++i)
                x[i] = k == INITIAL_H ? (float)vn_round_to(VN_FMT_BF16, x[i], VN_RNE, false) : half_to_odd(x[i]);
        }
        in[k] = t ? vn_value_tensor(t) : q->inputs[k] ? vn_value_retain(q->inputs[k]) : NULL;
        if (!in[k] && q->inputs[k]) return vn_fail(err, VN_ERR_NOMEM, "no memory for weights");
    }
    return VN_OK;
}

/* Each step from the state that was returned before it (claim JUDGE-3), where all states are: a state that is rounded at every step leaves a carried
 * bound nothing to say. Else the whole. */
static vn_status_t steps(const vn_arith_t *a, const vn_value_t *const *in, const vn_contract_t *contract, vn_ref_t *ref, vn_error_t *err) {
    vn_question_t q = *a->c->q;
    vn_case_t c = *a->c;
    vn_arith_t each = *a;
    q.stepwise = true;
    c.q = &q;
    each.c = &c;
    VN_TRY(vn_arith_oracle(&each, in, contract, VN_WANT_VARIANCE | VN_WANT_PLAIN, ref, err));
    return ref->value ? VN_OK : vn_arith_oracle(a, in, contract, VN_WANT_VARIANCE | VN_WANT_PLAIN, ref, err);
}

vn_status_t vn_arith_weights(vn_arith_t *a, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    const vn_contract_t resolved = vn_contract_resolve(q->contract, a->c->actual->dtype);
    if (!q->node || !recurrent(a) || a->c->actual->dtype != VN_F32 || !a->c->ref->value || resolved.operand != VN_FMT_F32) return VN_OK;
    vn_value_t **in = vn_alloc((size_t)q->node->n_inputs + 1, sizeof *in);
    vn_status_t s = in ? converted(a, in, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    static const struct {
        vn_format_t result;
        const char *words;
    } stores[] = {{VN_FMT_NONE, ""}, {VN_FMT_BF16, ", bfloat16 result"}};
    for (size_t k = 0; k < sizeof stores / sizeof *stores && s == VN_OK && vn_arith_time(a); ++k) {
        vn_contract_t contract = *q->contract;
        contract.operand = VN_FMT_BF16;
        contract.operand_rounding = VN_RNE;
        contract.operand_mask = 0;
        contract.result = stores[k].result;
        if (contract.tier == VN_TIER_PORTABLE) contract.ftz = contract.daz = true;
        vn_ref_t ref;
        a->tried++;
        s = steps(a, (const vn_value_t *const *)in, &contract, &ref, err);
        if (s == VN_OK)
            s = vn_arith_consider(
                a, "operands-bf16", 0, &ref, err,
                "bfloat16 operands (nearest even), f32 accumulation%s; the weights were converted by adding half a unit to odd "
                "significands only, which cuts numbers that should round up",
                stores[k].words);
        vn_ref_free(&ref);
    }
    for (int k = 0; in && k < q->node->n_inputs; ++k) vn_value_free(in[k]);
    vn_free(in);
    return s;
}

vn_status_t vn_arith_moved(vn_arith_t *a, vn_error_t *err) {
    static const vn_format_t formats[] = {VN_FMT_BF16, VN_FMT_F16};
    const vn_tensor_t *due = a->c->ref->tensor;
    if (a->c->ref->value || !a->x || !due || !vn_dtype_is_float(due->dtype) || due->count != a->n) return VN_OK;
    const vn_format_t own = vn_format_of(due->dtype);
    for (size_t k = 0; k < sizeof formats / sizeof *formats; ++k) {
        if (vn_format_info(formats[k])->p >= vn_format_info(own)->p) continue;
        vn_tensor_t *t;
        a->tried++;
        VN_TRY(vn_tensor_copy(due, &t, err));
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_f64(t, i, vn_round_to(formats[k], vn_tensor_get_f64(t, i), VN_RNE, false));
        char id[40];
        snprintf(id, sizeof id, "result-rounded-to-%s", vn_format_info(formats[k])->name);
        vn_arith_exact(a, id, 0, t, "moved values rounded to %s (nearest even), bit by bit", vn_format_info(formats[k])->name);
        vn_tensor_free(t);
    }
    return VN_OK;
}
