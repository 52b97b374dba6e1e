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

/* ---- where the scale is applied ---- */

/* One term a with a weight of -3 s, random a and s: fl(a fl(-3 s)), or fl(fl(-3 a) s) where the scale comes after the block's sum (REVEAL-25). A zero
 * activation at another term of the block has the weight s, from which the scale is read. Two bits hold no -3, and blocks of one term no scale to tell. */
static vn_status_t scale_place(vn_gemm_t *p, bool *on_sums, vn_error_t *err) {
    enum { TRIES = 8 };
    int64_t weights = 0, sums = 0, count = 0;
    *on_sums = false;
    if (p->r->op->bits < 4 || p->k < 2 || p->r->op->block < 2) return VN_OK;
    for (int k = 0; k < TRIES; ++k) {
        vn_gemm_fill(p, 0, 0);
        for (int32_t row = 0; row < p->m; ++row) vn_gemm_put_a(p, (int64_t)row * p->k, 1 + vn_rng_uniform(&p->r->rng));
        for (int32_t c = 0; c < p->n; ++c) {
            const float scale = (float)(1 + vn_rng_uniform(&p->r->rng));
            vn_gemm_put_b(p, c, -3 * scale);
            vn_gemm_put_b(p, p->n + c, scale);
        }
        VN_TRY(vn_gemm_run(p, err));
        for (int64_t e = 0; e < (int64_t)p->m * p->n; ++e, ++count) {
            const float a = p->a[e / p->n * p->k], scale = p->b[p->n + e % p->n], weight = p->b[e % p->n], three = -3 * a;
            weights += p->out[e] == (double)(a * weight);
            sums += p->out[e] == (double)(three * scale);
        }
    }
    *on_sums = sums == count && weights < count;
    return VN_OK;
}

/* The scale comes after the sum of a block: the tree is read through the activations alone, and nothing is replayed. */
static vn_status_t scaled_sums(vn_gemm_t *p, vn_error_t *err) {
    enum { CHECKS = 200 };
    vn_schedule_t *s = p->r->s;
    int32_t *line = vn_alloc((size_t)p->m + (size_t)p->n, sizeof *line);
    if (!line) return vn_fail(err, VN_ERR_NOMEM, "no memory for questions");
    for (int32_t x = 0; x < p->m; ++x) line[x] = x;
    for (int32_t x = 0; x < p->n; ++x) line[p->m + x] = x;
    vn_asker_t q = {p, {.rows = p->m, .columns = p->n, .row = line, .column = line + p->m}};
    s->classes = vn_alloc(1, sizeof *s->classes);
    vn_status_t st = s->classes && (s->classes->where = vn_strdup("*")) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    s->n_classes = s->classes ? 1 : 0;
    s->outputs = (int64_t)p->m * p->n;
    if (st == VN_OK) {
        vn_schedule_class_t *k = s->classes;
        k->elements = s->outputs;
        st = vn_rebuild_pairs(p->k, vn_rng_u64(&p->r->rng), CHECKS, vn_gemm_ask, &q, &k->tree, &k->violation, err);
        if (st == VN_OK && k->tree) st = vn_schedule_compress(k->tree, &k->text, err);
        if (st == VN_OK && !k->tree)
            vn_reveal_say(s->reason, sizeof s->reason, "%s: %s", vn_violation_name(k->violation.kind), k->violation.what);
        vn_reveal_say(s->reason, sizeof s->reason,
                      "the scale is applied to the sum of a block of codes, not to weights: such sums have no replay here");
    }
    vn_free(line);
    return st;
}

/* Weights first, unless the scale is found after the sums. */
static vn_status_t either(vn_reveal_run_t *inner, vn_error_t *err) {
    vn_gemm_t p;
    vn_violation_t v = {0};
    bool on_sums = false;
    VN_TRY(vn_gemm_begin(&p, inner, err));
    vn_status_t st = vn_gemm_checks(&p, &v, err);
    if (st == VN_OK && v.kind == VN_TREE_OK) st = scale_place(&p, &on_sums, err);
    if (st == VN_OK && on_sums) st = scaled_sums(&p, err);
    vn_gemm_end(&p);
    return st == VN_OK && !on_sums ? vn_reveal_product(inner, err) : st;
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
    const vn_sum_op_t product = {
        .kind = VN_SUM_MATMUL, .dtype = op->dtype, .batch = 1, .m = op->m, .k = op->k, .n = op->n, .block = op->block, .bits = op->bits};
    vn_reveal_run_t inner = *r;
    inner.call = &call;
    inner.op = &product;
    VN_TRY(either(&inner, err));
    r->rng = inner.rng;
    r->s->op = *op;
    if (!r->s->classes[0].tree && r->s->classes[0].violation.kind == VN_TREE_VALUE_DEPENDENT)
        vn_reveal_say(r->s->notes, sizeof r->s->notes, "accuracy_level %d: activations are quantised while the product runs", op->accuracy);
    else if (r->s->elements && r->s->replayed == r->s->elements)
        vn_reveal_say(r->s->notes, sizeof r->s->notes,
                      "accuracy_level %d: weights are (code - zero point) times scale, rounded once, then multiplied", op->accuracy);
    return VN_OK;
}
