/* reveal_nbits.c -- MatMulNBits: a product whose second operand is codes times a scale of each block, read as a product of activations with weights.
 *
 * Claim REVEAL-20: a block of weights is written as codes and one scale if its values are whole multiples n s of their least magnitude s with
 * -2^(bits-1) <= n < 2^(bits-1), n s rounded once. All questions of a product are of that kind: equal weights, one value and its negative, zeros; the
 * data of the replay are drawn so.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "schedule/reveal.h"

typedef struct nbits {
    vn_reveal_run_t *r; /* of MatMulNBits */
    int64_t blocks, blob, zero_bytes;
} nbits_t;

static void put_code(uint8_t *bytes, int bits, int64_t i, int code) {
    const int64_t bit = i * bits;
    bytes[bit / 8] = (uint8_t)(bytes[bit / 8] | (unsigned)code << bit % 8);
}

/* The scale of one block: the least magnitude that is not 0; n[i] = weight / scale. False: no whole multiples, or too large ones. */
static bool multiples(const float *w, int64_t stride, int64_t count, int bits, float *scale, int *n, int *least, int *most) {
    const int half = 1 << (bits - 1);
    *scale = 0;
    *least = *most = 0;
    for (int64_t i = 0; i < count; ++i) {
        const float x = fabsf(w[i * stride]);
        if (x != 0 && (*scale == 0 || x < *scale)) *scale = x;
    }
    if (*scale == 0) *scale = 1;
    for (int64_t i = 0; i < count; ++i) {
        const double x = rint((double)w[i * stride] / *scale);
        if (!(x >= -half && x < half) || (float)x * *scale != w[i * stride]) return false;
        n[i] = (int)x;
        if (n[i] < *least) *least = n[i];
        if (n[i] > *most) *most = n[i];
    }
    return true;
}

/* Weights [k, n] as codes [n, blocks, blob], scales [n, blocks] and zero points: the lowest that fit, then the highest, in turn. */
static vn_status_t encode(const nbits_t *q, const float *w, uint8_t *codes, float *scales, uint8_t *zeros, vn_error_t *err) {
    const vn_sum_op_t *op = q->r->op;
    int *n = vn_alloc((size_t)op->block, sizeof *n);
    if (!n) return vn_fail(err, VN_ERR_NOMEM, "no memory for weights");
    vn_status_t st = VN_OK;
    for (int64_t c = 0; c < op->n && st == VN_OK; ++c)
        for (int64_t g = 0; g < q->blocks; ++g) {
            const int64_t from = g * op->block, count = op->k - from < op->block ? op->k - from : op->block;
            const int top = (1 << op->bits) - 1;
            int least, most, zero = 1 << (op->bits - 1);
            if (!multiples(w + from * op->n + c, op->n, count, op->bits, &scales[c * q->blocks + g], n, &least, &most)) {
                st = vn_fail(err, VN_ERR_INTERNAL, "reveal: weights %lld.. of column %lld are no codes of %d bits", (long long)from,
                             (long long)c, op->bits);
                break;
            }
            if (zeros) {
                zero = (c + g) % 2 ? -least : top - most;
                put_code(zeros + c * q->zero_bytes, op->bits, g, zero);
            }
            for (int64_t i = 0; i < count; ++i) put_code(codes + (c * q->blocks + g) * q->blob, op->bits, i, n[i] + zero);
        }
    vn_free(n);
    return st;
}

/* The product's call: activations [m, k], weights [k, n]. */
static vn_status_t run(void *context, const vn_tensor_t *const *inputs, vn_tensor_t **output, vn_error_t *err) {
    const nbits_t *q = context;
    const vn_sum_op_t *op = q->r->op;
    const int64_t codes[3] = {op->n, q->blocks, q->blob}, scales[2] = {op->n, q->blocks}, zeros[2] = {op->n, q->zero_bytes};
    vn_tensor_t *in[4] = {vn_tensor_retain(inputs[0])};
    vn_status_t st = vn_tensor_new(VN_U8, 3, codes, &in[1], err);
    if (st == VN_OK) st = vn_tensor_new(VN_F32, 2, scales, &in[2], err);
    if (st == VN_OK && op->zero_points) st = vn_tensor_new(VN_U8, 2, zeros, &in[3], err);
    if (st == VN_OK) st = encode(q, inputs[1]->data, in[1]->data, in[2]->data, in[3] ? in[3]->data : NULL, err);
    if (st == VN_OK) st = q->r->call->run(q->r->call->context, (const vn_tensor_t *const *)in, output, err);
    for (int k = 0; k < 4; ++k) vn_tensor_free(in[k]);
    return st;
}

vn_status_t vn_reveal_nbits(vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    if (op->dtype != VN_F32)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: MatMulNBits with activations of %s cannot be read; f32 can",
                       vn_dtype_name(op->dtype));
    if (op->bits != 2 && op->bits != 4 && op->bits != 8)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "reveal: weights of %d bits; 2, 4 and 8 can be read", op->bits);
    if (op->block < 1 || op->block > 1 << 20 || op->block * op->bits % 8 || op->n < 1 || op->n > 1 << 20 || op->k < 1 || op->k > 1 << 20)
        return vn_fail(err, VN_ERR_RANGE, "reveal: %lld columns of %lld weights in blocks of %lld", (long long)op->n, (long long)op->k,
                       (long long)op->block);
    nbits_t q = {.r = r, .blocks = (op->k + op->block - 1) / op->block, .blob = op->block * op->bits / 8};
    q.zero_bytes = (q.blocks * op->bits + 7) / 8;
    /* weights stay where they can: a question is put into the activations, where masks and units of any size may stand */
    const vn_call_t call = {.run = run, .context = &q, .constant = (r->call->constant & 1) | 2};
    const vn_sum_op_t product = {.kind = VN_SUM_MATMUL, .dtype = op->dtype, .batch = 1, .m = op->m, .k = op->k, .n = op->n, .block = op->block,
                                 .bits = op->bits};
    vn_reveal_run_t inner = *r;
    inner.call = &call;
    inner.op = &product;
    VN_TRY(vn_reveal_product(&inner, err));
    r->rng = inner.rng;
    r->s->op = *op;
    if (!r->s->classes[0].tree && r->s->classes[0].violation.kind == VN_TREE_VALUE_DEPENDENT)
        vn_reveal_say(r->s->notes, sizeof r->s->notes, "accuracy_level %d: activations are quantised while the product runs", op->accuracy);
    else if (r->s->replayed)
        vn_reveal_say(r->s->notes, sizeof r->s->notes, "accuracy_level %d: weights are (code - zero point) times scale, rounded once, then multiplied",
                      op->accuracy);
    return VN_OK;
}
