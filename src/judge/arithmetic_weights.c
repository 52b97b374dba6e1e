/* arithmetic_weights.c -- constants that were converted before the first run, by another rule than the operands; moved values that were stored
 * more narrowly.
 *
 * Claim ARITH-W1 (half a unit to odd): a bfloat16 conversion in use adds half a unit only where the last kept bit is odd and then cuts. Ties go to even,
 * as they should, but numbers above the middle behind an even bit are cut as well: an error of almost one unit instead of a half. It is
 * carried out on the weights, bit by bit; the running operands are rounded to nearest. Seen in recurrent layers of OpenVINO
 * (docs/findings.md).
 * Claim ARITH-W3 (recurrent layers in bfloat16): operands, or operands and each product of a gate, are rounded to bfloat16 and the states stored
 * in it or not; each way is carried out step by step by the oracle (RNN-3, RNN-5), which leaves open only f32 sums and what they flip.
 * Claim ARITH-W4: where such a way explains seven of eight elements or more, with evidence as HYPO-2 asks for, the others are no arithmetic:
 * a wide one, which would hold them, is not accepted.
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

enum { W = 1, R = 2, INITIAL_H = 5, INITIAL_C = 6 };
enum { X_AND_W = 3 /* contract.operand_mask: not the biases */ };

/* One way to carry a recurrent layer out in bfloat16. Claims ARITH-W1, ARITH-W3. */
typedef struct way {
    bool odd;          /* W and R are constants that were converted by the odd rule; else rounded to nearest, as X and h are */
    bool h0, c0;       /* the initial state is kept in bfloat16, as the states after it are (a GRU mixes it into its result as it stands) */
    bool apart;        /* the products of a gate with x and with h are rounded to bfloat16 before they meet */
    bool open;         /* some of these products, of the biases and of their sums are */
    const char *words; /* after "bfloat16 operands (nearest even), f32 accumulation" and the store */
} way_t;

static const char cut[] =
    "; the weights were converted by adding half a unit to odd significands only, which cuts numbers that should round up";
static const way_t ways[] = {
    {.odd = true, .h0 = true, .words = cut},
    {.apart = true, .words = "; the products of each gate with x and with h are rounded to bfloat16 before they meet"},
    {.odd = true, .h0 = true, .c0 = true, .words = cut},
    {.h0 = true, .words = ", step by step"},
    {.h0 = true, .c0 = true, .words = ", step by step"},
    {.open = true, .words = "; products, biases or their sums are rounded to bfloat16 on their way to the gates"},
};

static float to_bf16(float x, bool odd) { return odd ? half_to_odd(x) : (float)vn_round_to(VN_FMT_BF16, x, VN_RNE, false); }

/* The operands under a way. *changed: the way differs from the one without c0 (of those with it), or from rounding to nearest (odd ones). */
static vn_status_t converted(const vn_arith_t *a, const way_t *way, vn_value_t **in, bool *changed, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    *changed = !way->odd && !way->c0;
    for (int k = 0; k < q->node->n_inputs; ++k) {
        vn_tensor_t *t = NULL;
        const bool weights = (k == W || k == R) && way->odd;
        const vn_tensor_t *w = weights || (k == INITIAL_H && way->h0) || (k == INITIAL_C && way->c0) ? vn_arith_operand(a, k) : NULL;
        if (w && w->dtype == VN_F32) {
            VN_TRY(vn_tensor_copy(w, &t, err));
            float *x = t->data;
            for (int64_t i = 0; i < t->count; ++i) {
                const float y = to_bf16(x[i], weights);
                *changed |= way->c0 ? k == INITIAL_C && y != x[i] : weights && y != to_bf16(x[i], false);
                x[i] = y;
            }
        }
        in[k] = t ? vn_value_tensor(t) : q->inputs[k] ? vn_value_retain(q->inputs[k]) : NULL;
        if (!in[k] && q->inputs[k]) return vn_fail(err, VN_ERR_NOMEM, "no memory for weights");
    }
    return VN_OK;
}

static vn_status_t try_way(vn_arith_t *a, const way_t *way, bool narrow, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    vn_value_t **in = vn_alloc((size_t)q->node->n_inputs + 1, sizeof *in);
    bool changed = false;
    vn_status_t s = in ? converted(a, way, in, &changed, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK && changed) {
        vn_contract_t contract = *q->contract;
        contract.operand = VN_FMT_BF16;
        contract.operand_rounding = VN_RNE;
        contract.operand_mask = way->apart ? X_AND_W : 0;
        contract.result = narrow ? VN_FMT_BF16 : VN_FMT_NONE;
        if (way->apart || way->open) contract.intermediate = VN_FMT_BF16;
        if (contract.tier == VN_TIER_PORTABLE) contract.ftz = contract.daz = true;
        vn_ref_t ref;
        a->tried++;
        a->store = narrow ? VN_FMT_BF16 : VN_FMT_NONE; /* results are foretold to a bfloat16 number */
        s = vn_arith_oracle(a, (const vn_value_t *const *)in, &contract, VN_WANT_VARIANCE | VN_WANT_PLAIN, &ref, err);
        const unsigned flags = way->open ? VN_ARITH_WIDE : VN_ARITH_LEADS | (a->typical ? 0 : VN_ARITH_SHARP);
        /* A saturated unit looks alike in every arithmetic, so the typical element need not be off: what differs must be evidence enough. */
        if (s == VN_OK)
            s = vn_arith_consider(a, "operands-bf16", flags, &ref, err, "bfloat16 operands (nearest even), f32 accumulation%s%s",
                                  narrow ? ", bfloat16 result" : "", way->words);
        vn_ref_free(&ref);
    }
    for (int k = 0; in && k < q->node->n_inputs; ++k) vn_value_free(in[k]);
    vn_free(in);
    return s;
}

vn_status_t vn_arith_weights(vn_arith_t *a, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    const vn_contract_t resolved = vn_contract_resolve(q->contract, a->c->actual->dtype);
    if (!q->node || !vn_arith_recurrent(a) || a->c->actual->dtype != VN_F32 || !a->c->ref->value || resolved.operand != VN_FMT_F32)
        return VN_OK;
    const bool narrow = vn_arith_members(a, VN_FMT_BF16);
    vn_status_t s = VN_OK;
    for (size_t k = 0; k < sizeof ways / sizeof *ways && s == VN_OK && vn_arith_time(a); ++k) s = try_way(a, &ways[k], narrow, err);
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
