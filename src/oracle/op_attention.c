/* op_attention.c -- family "attention": Attention of ai.onnx 23 to 25; the rows of the contrib operators and of RotaryEmbedding.
 *
 * Claims ATTN-1 (attention.c), ATTN-2 (op_rotary.c). Rules of the text, release 1.23:
 *   causal and window masks stand at the bottom right: query i is at position i + offset, offset = past length, or valid keys - queries per
 *   sample with nonpad_kv_seqlen, else 0; masks are composed; a query without keys gives a zero row.
 *   The scale is applied to the scores; the order of its application is inside the bound.
 * Readings: "masked-nan" where a forbidden key holds NaN or an infinite score: the body's NaN + -inf is NaN, a kernel that skips forbidden
 * keys is not touched. "after-softcap" for output 3 in mode 0 with a cap: the text says raw scores, the reference returns capped ones.
 */
#include <math.h>
#include <string.h>

#include "oracle/attention.h"

typedef struct plan {
    bool flat; /* 3-D operands */
    int64_t batch, heads, kv_heads, queries, fresh, past, keys, size, v_size;
} plan_t;

static bool named(const vn_eval_t *e, int k) { return k < e->n_out && *e->node->outputs[k]; }

static vn_status_t plan(vn_eval_t *e, plan_t *p) {
    const vn_tensor_t *q = e->in[0].t, *k = e->in[1].t, *v = e->in[2].t;
    *p = (plan_t){.flat = q->rank == 3};
    if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank)
        return vn_eval_fail(e, VN_ERR_SHAPE, "Q, K and V must all have rank 3 or all rank 4");
    const int seq = p->flat ? 1 : 2;
    p->batch = q->dims[0];
    p->heads = p->flat ? vn_node_int(e->node, "q_num_heads", 0) : q->dims[1];
    p->kv_heads = p->flat ? vn_node_int(e->node, "kv_num_heads", 0) : k->dims[1];
    if (p->heads < 1 || p->kv_heads < 1 || p->heads % p->kv_heads)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld query heads over %lld key heads", (long long)p->heads, (long long)p->kv_heads);
    if (p->flat && (q->dims[2] % p->heads || k->dims[2] % p->kv_heads || v->dims[2] % p->kv_heads))
        return vn_eval_fail(e, VN_ERR_SHAPE, "the hidden size is not a multiple of the number of heads");
    p->queries = q->dims[seq];
    p->fresh = k->dims[seq];
    p->size = p->flat ? q->dims[2] / p->heads : q->dims[3];
    p->v_size = p->flat ? v->dims[2] / p->kv_heads : v->dims[3];
    const int64_t k_size = p->flat ? k->dims[2] / p->kv_heads : k->dims[3];
    if (k->dims[0] != p->batch || v->dims[0] != p->batch || k_size != p->size || v->dims[seq] != p->fresh ||
        (!p->flat && v->dims[1] != p->kv_heads))
        return vn_eval_fail(e, VN_ERR_SHAPE, "Q, K and V do not fit");
    if (vn_has(e, 4) != vn_has(e, 5)) return vn_eval_fail(e, VN_ERR_SHAPE, "past_key and past_value belong together");
    if (vn_has(e, 4)) {
        const vn_tensor_t *pk = e->in[4].t, *pv = e->in[5].t;
        bool fits = pk->rank == 4 && pv->rank == 4 && pk->dims[0] == p->batch && pk->dims[1] == p->kv_heads && pk->dims[3] == p->size &&
                    pv->dims[0] == p->batch && pv->dims[1] == p->kv_heads && pv->dims[2] == pk->dims[2] && pv->dims[3] == p->v_size;
        if (!fits) return vn_eval_fail(e, VN_ERR_SHAPE, "past_key or past_value does not fit");
        p->past = pk->dims[2];
    }
    p->keys = p->past + p->fresh;
    return VN_OK;
}

static void output_dims(const plan_t *p, int k, int *rank, int64_t *d) {
    *rank = 4;
    const int64_t dims[4][4] = {{p->batch, p->heads, p->queries, p->v_size},
                                {p->batch, p->kv_heads, p->keys, p->size},
                                {p->batch, p->kv_heads, p->keys, p->v_size},
                                {p->batch, p->heads, p->queries, p->keys}};
    memcpy(d, dims[k], sizeof dims[k]);
    if (k == 0 && p->flat) *rank = 3, d[1] = p->queries, d[2] = p->heads * p->v_size;
}

vn_status_t vn_infer_attention(vn_eval_t *e) {
    plan_t p;
    VN_TRY(plan(e, &p));
    for (int k = 0; k < e->n_out && k < 4; ++k) {
        e->out[k].dtype = e->in[k == 2 ? 2 : 0].t->dtype;
        output_dims(&p, k, &e->out[k].rank, e->out[k].dims);
    }
    return VN_OK;
}

/* present = past followed by the fresh keys, bits as they are. */
static vn_status_t present(vn_eval_t *e, const plan_t *p, int k_out, int k_past, int k_fresh, int64_t size) {
    if (!named(e, k_out)) return VN_OK;
    const vn_tensor_t *fresh = e->in[k_fresh].t;
    const int64_t dims[4] = {p->batch, p->kv_heads, p->keys, size};
    VN_TRY(vn_out_exact(e, k_out, fresh->dtype, 4, dims));
    const size_t unit = (size_t)vn_dtype_bits(fresh->dtype) / 8, line = unit * (size_t)size;
    for (int64_t b = 0; b < p->batch; ++b)
        for (int64_t h = 0; h < p->kv_heads; ++h) {
            char *to = (char *)e->out[k_out].tensor->data + (size_t)((b * p->kv_heads + h) * p->keys) * line;
            if (p->past)
                memcpy(to, (const char *)e->in[k_past].t->data + (size_t)((b * p->kv_heads + h) * p->past) * line, (size_t)p->past * line);
            for (int64_t i = 0; i < p->fresh; ++i) {
                const int64_t at = p->flat ? (b * p->fresh + i) * p->kv_heads + h : (b * p->kv_heads + h) * p->fresh + i;
                memcpy(to + (size_t)(p->past + i) * line, (const char *)fresh->data + (size_t)at * line, line);
            }
        }
    return VN_OK;
}

typedef struct bag {
    void *items[24];
    int n;
} bag_t;

static void *keep(bag_t *b, void *p) {
    if (p && b->n < 24) b->items[b->n++] = p;
    return p;
}

static vn_heads_t layout(const plan_t *p, const double *x, const double *err, int64_t heads, int64_t length, int64_t size) {
    vn_heads_t h = {.at = x, .err = err, .sb = heads * length * size, .sh = length * size, .si = size};
    if (p->flat) h.sh = size, h.si = heads * size;
    return h;
}

/* Past and fresh planes as one [batch, kv_heads, keys, size] plane. */
static const double *joined(bag_t *bag, const plan_t *p, const double *past, vn_heads_t fresh, const double *from, int64_t size) {
    double *y = keep(bag, vn_alloc((size_t)(p->batch * p->kv_heads * p->keys * size) + 1, sizeof *y));
    for (int64_t b = 0; y && b < p->batch; ++b)
        for (int64_t h = 0; h < p->kv_heads; ++h) {
            double *to = y + (b * p->kv_heads + h) * p->keys * size;
            if (past) memcpy(to, past + (b * p->kv_heads + h) * p->past * size, (size_t)(p->past * size) * sizeof *to);
            for (int64_t i = 0; from && i < p->fresh; ++i)
                memcpy(to + (p->past + i) * size, from + b * fresh.sb + h * fresh.sh + i * fresh.si, (size_t)size * sizeof *to);
        }
    return y;
}

static vn_status_t keys_or_values(vn_eval_t *e, bag_t *bag, const plan_t *p, int k, int k_past, int64_t size, vn_heads_t *out) {
    double *owned;
    const double *x, *past = NULL;
    const double *err = vn_arg_err(e, k), *past_err = vn_arg_err(e, k_past);
    vn_status_t s = vn_read_operand(e, 1, vn_arg_f64(e, k), e->in[k].t->count, e->in[k].t->dtype, &x, &owned);
    keep(bag, owned);
    VN_TRY(s);
    *out = layout(p, x, err, p->kv_heads, p->fresh, size);
    if (!vn_has(e, k_past)) return VN_OK;
    s = vn_read_operand(e, 1, vn_arg_f64(e, k_past), e->in[k_past].t->count, e->in[k_past].t->dtype, &past, &owned);
    keep(bag, owned);
    VN_TRY(s);
    const vn_heads_t fresh = *out;
    out->at = joined(bag, p, past, fresh, x, size);
    out->err = err || past_err ? joined(bag, p, past_err, fresh, err, size) : NULL;
    if (!out->at || ((err || past_err) && !out->err)) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    out->sb = p->kv_heads * p->keys * size;
    out->sh = p->keys * size;
    out->si = size;
    return VN_OK;
}

static vn_status_t mask(vn_eval_t *e, bag_t *bag, const plan_t *p, vn_score_bias_t *m) {
    if (!vn_has(e, 3)) return VN_OK;
    const vn_tensor_t *t = e->in[3].t;
    const double *x = vn_arg_f64(e, 3);
    if (!x) return VN_ERR_NOMEM;
    if (t->rank < 1 || t->rank > 4) return vn_eval_fail(e, VN_ERR_SHAPE, "attn_mask of rank %d", t->rank);
    const int64_t full[4] = {p->batch, p->heads, p->queries, p->keys};
    int64_t step[4] = {0}, s = 1;
    for (int d = t->rank - 1; d >= 0; --d) {
        const int to = d + 4 - t->rank;
        if (to == 3 ? t->dims[d] > full[3] : t->dims[d] != 1 && t->dims[d] != full[to])
            return vn_eval_fail(e, VN_ERR_SHAPE, "dimension %d of attn_mask is %lld, %lld or 1 would fit", d, (long long)t->dims[d],
                                (long long)full[to]);
        step[to] = t->dims[d] == 1 ? 0 : s;
        s *= t->dims[d];
    }
    const int64_t last = t->dims[t->rank - 1];
    *m = (vn_score_bias_t){
        .at = x, .sb = step[0], .sh = step[1], .si = step[2], .sj = step[3], .keys = last == 1 ? p->keys : last, .adds = true};
    /* A last dimension of 1 broadcasts; since 24 shorter ones are padded with -inf, and there 1 of several keys is such a one only by its
     * rank-4 shape: broadcasting is the general rule and is kept. */
    if (vn_dtype_is_float(t->dtype)) return VN_OK;
    const bool is_bool = t->dtype == VN_BOOL;
    double *y = keep(bag, vn_alloc((size_t)t->count + 1, sizeof *y));
    if (!y) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < t->count; ++i) y[i] = is_bool ? (x[i] != 0 ? 0 : -INFINITY) : x[i];
    m->at = y;
    m->adds = !is_bool;
    return VN_OK;
}

static vn_status_t positions(vn_eval_t *e, bag_t *bag, const plan_t *p, vn_attention_t *a) {
    int64_t *offset = keep(bag, vn_alloc((size_t)p->batch + 1, sizeof *offset)),
            *valid = keep(bag, vn_alloc((size_t)p->batch + 1, sizeof *valid));
    if (!offset || !valid) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    const bool padded = vn_has(e, 6);
    if (padded && e->in[6].t->count != p->batch)
        return vn_eval_fail(e, VN_ERR_SHAPE, "nonpad_kv_seqlen has %lld entries for %lld samples", (long long)e->in[6].t->count,
                            (long long)p->batch);
    for (int64_t b = 0; b < p->batch; ++b) {
        valid[b] = padded ? vn_arg_int(e, 6, b) : p->keys;
        offset[b] = padded && !vn_has(e, 4) ? valid[b] - p->queries : p->past;
    }
    a->offset = offset;
    a->valid = padded ? valid : NULL;
    a->causal = vn_node_int(e->node, "is_causal", 0) != 0;
    a->left = vn_node_int(e->node, "left_window_size", -1);
    a->right = vn_node_int(e->node, "right_window_size", -1);
    return a->left < -1 || a->right < -1
               ? vn_eval_fail(e, VN_ERR_RANGE, "window sizes %lld and %lld", (long long)a->left, (long long)a->right)
               : VN_OK;
}

static bool has_nonfinite(const double *x, int64_t n) {
    bool bad = false;
    for (int64_t i = 0; i < n && !bad; ++i) bad = !isfinite(x[i]);
    return bad;
}

/* The body adds -inf to NaN: a forbidden key with a NaN score makes its query NaN. Rows without any key stay zero. */
static vn_status_t masked_nan(vn_attention_t *a) {
    vn_eval_t *e = a->e;
    vn_ref_t *r = &e->out[0];
    vn_tensor_t *t = NULL;
    double *row = vn_alloc((size_t)r->count + 1, sizeof *row);
    if (!row) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    memcpy(row, r->value, (size_t)r->count * sizeof *row);
    bool changed = false;
    for (int64_t b = 0; b < a->batch; ++b)
        for (int64_t h = 0; h < a->heads; ++h)
            for (int64_t i = 0; i < a->queries; ++i) {
                const int64_t kv = h / (a->heads / a->kv_heads);
                bool nan = false, key = false;
                for (int64_t j = 0; j < a->keys; ++j) {
                    double s = 0, bias = 0;
                    for (int64_t c = 0; c < a->size; ++c)
                        s += a->q.at[b * a->q.sb + h * a->q.sh + i * a->q.si + c] * a->k.at[b * a->k.sb + kv * a->k.sh + j * a->k.si + c];
                    const int64_t at = i + a->offset[b];
                    bool seen = !(a->causal && j > at) && !(a->left >= 0 && at - j > a->left) && !(a->right >= 0 && j - at > a->right) &&
                                (!a->valid || j < a->valid[b]);
                    if (a->bias[0].at)
                        bias = j < a->bias[0].keys
                                   ? a->bias[0].at[b * a->bias[0].sb + h * a->bias[0].sh + i * a->bias[0].si + j * a->bias[0].sj]
                                   : -INFINITY;
                    seen &= bias != -INFINITY;
                    key |= seen;
                    nan |= isnan(s) || (!seen && s == INFINITY);
                }
                for (int64_t c = 0; c < a->v_size; ++c) {
                    double o = 0; /* weights of forbidden keys are 0, and 0 times NaN or Inf of V is NaN in a plain product */
                    for (int64_t j = 0; j < a->keys; ++j) o += 0 * a->v.at[b * a->v.sb + kv * a->v.sh + j * a->v.si + c];
                    double *y = &row[b * a->ob + h * a->oh + i * a->oi + c];
                    if (isnan(*y) || !(nan ? key : isnan(o))) continue;
                    *y = NAN;
                    changed = true;
                }
            }
    vn_status_t s = changed ? vn_tensor_new_raw(r->dtype, r->rank, r->dims, &t, e->err) : VN_OK;
    if (s == VN_OK && changed) {
        vn_tensor_from_f64(t, row, VN_RNE, false);
        s = vn_out_reading(e, 0, "masked-nan", t);
    }
    vn_free(row);
    return s;
}

static vn_status_t after_softcap(vn_attention_t *a) {
    vn_ref_t *r = &a->e->out[3];
    vn_tensor_t *t;
    double *y = vn_alloc((size_t)r->count + 1, sizeof *y);
    if (!y) return vn_eval_fail(a->e, VN_ERR_NOMEM, "no memory");
    vn_status_t s = vn_tensor_new_raw(r->dtype, r->rank, r->dims, &t, a->e->err);
    if (s == VN_OK) {
        for (int64_t i = 0; i < r->count; ++i) y[i] = a->softcap * tanh(r->value[i] / a->softcap);
        vn_tensor_from_f64(t, y, VN_RNE, false);
        s = vn_out_reading(a->e, 3, "after-softcap", t);
    }
    vn_free(y);
    return s;
}

static vn_status_t run(vn_eval_t *e, bag_t *bag, const plan_t *p) {
    vn_attention_t a = {.e = e,
                        .batch = p->batch,
                        .heads = p->heads,
                        .kv_heads = p->kv_heads,
                        .queries = p->queries,
                        .keys = p->keys,
                        .size = p->size,
                        .v_size = p->v_size,
                        .softcap = vn_node_float(e->node, "softcap", 0),
                        .sink = -INFINITY,
                        .k_out = 0,
                        .k_tap = named(e, 3) ? 3 : -1,
                        .tap = named(e, 3) ? (vn_score_tap_t)vn_node_int(e->node, "qk_matmul_output_mode", 0) : VN_TAP_NONE,
                        .body16 = true};
    if (a.tap < VN_TAP_NONE || a.tap > VN_TAP_WEIGHTS) return vn_eval_fail(e, VN_ERR_RANGE, "qk_matmul_output_mode %d", (int)a.tap);
    a.root_scale = !vn_node_attr(e->node, "scale");
    a.scale = vn_node_attr(e->node, "scale") ? vn_node_float(e->node, "scale", 1) : 1 / sqrt((double)p->size);
    double *owned;
    const double *q;
    vn_status_t s = vn_read_operand(e, 0, vn_arg_f64(e, 0), e->in[0].t->count, e->in[0].t->dtype, &q, &owned);
    keep(bag, owned);
    VN_TRY(s);
    a.q = layout(p, q, vn_arg_err(e, 0), p->heads, p->queries, p->size);
    VN_TRY(keys_or_values(e, bag, p, 1, 4, p->size, &a.k));
    VN_TRY(keys_or_values(e, bag, p, 2, 5, p->v_size, &a.v));
    VN_TRY(mask(e, bag, p, &a.bias[0]));
    VN_TRY(positions(e, bag, p, &a));
    int rank;
    int64_t dims[4];
    output_dims(p, 0, &rank, dims);
    VN_TRY(vn_out_float(e, 0, e->in[0].t->dtype, rank, dims));
    a.ob = p->heads * p->queries * p->v_size;
    a.oh = p->flat ? p->v_size : p->queries * p->v_size;
    a.oi = p->flat ? p->heads * p->v_size : p->v_size;
    if (a.k_tap == 3) {
        output_dims(p, 3, &rank, dims);
        VN_TRY(vn_out_float(e, 3, e->in[0].t->dtype, rank, dims));
    }
    if (e->refine) return vn_refine_attention(&a);
    VN_TRY(vn_attention_run(&a));
    VN_TRY(present(e, p, 1, 4, 1, p->size));
    VN_TRY(present(e, p, 2, 5, 2, p->v_size));
    bool doubt = vn_arg_err(e, 3) ||
                 ((named(e, 1) || named(e, 2)) && (vn_arg_err(e, 1) || vn_arg_err(e, 2) || vn_arg_err(e, 4) || vn_arg_err(e, 5)));
    if (vn_arg_err(e, 3)) /* an uncertain mask: no statement */
        for (int64_t i = 0; e->out[0].bound && i < e->out[0].count; ++i) e->out[0].bound[i] = INFINITY;
    if (doubt && (named(e, 1) || named(e, 2))) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "present keys of uncertain keys inside a region");
    if (has_nonfinite(a.k.at, p->batch * p->kv_heads * p->keys * p->size) ||
        has_nonfinite(a.v.at, p->batch * p->kv_heads * p->keys * p->v_size))
        VN_TRY(masked_nan(&a));
    if (a.k_tap == 3 && a.tap == VN_TAP_RAW && a.softcap > 0) VN_TRY(after_softcap(&a));
    return VN_OK;
}

vn_status_t vn_eval_attention(vn_eval_t *e) {
    plan_t p;
    bag_t bag = {.n = 0};
    if (!vn_dtype_is_float(e->in[0].t->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "Q is %s, not a float type", vn_dtype_name(e->in[0].t->dtype));
    VN_TRY(plan(e, &p));
    vn_status_t s = run(e, &bag, &p);
    for (int i = 0; i < bag.n; ++i) vn_free(bag.items[i]);
    return s;
}

enum { P = VN_OP_PROPAGATES };
static const vn_op_t rows[] = {
    {"", "Attention", 23, 23, VN_CLASS_COMPOSITE, P | VN_OP_REFINES, "ATTN-1", vn_eval_attention, vn_infer_attention, 0},
    {"", "Attention", 24, 24, VN_CLASS_COMPOSITE, P | VN_OP_REFINES, "ATTN-1", vn_eval_attention, vn_infer_attention, 0},
    {"", "Attention", 25, 0, VN_CLASS_COMPOSITE, P | VN_OP_REFINES, "ATTN-1", vn_eval_attention, vn_infer_attention, 0},
    {"", "RotaryEmbedding", 23, 0, VN_CLASS_COMPOSITE, P, "ATTN-2", vn_eval_rotary, vn_infer_rotary, 0},
    {"", "LinearAttention", 27, 0, VN_CLASS_COMPOSITE, 0, "ATTN-4", vn_eval_linear_attention, vn_infer_linear_attention, 0},
    {"", "CausalConvWithState", 27, 0, VN_CLASS_CONTRACTION, 0, "ATTN-5", vn_eval_causal_conv, vn_infer_causal_conv, 0},
    {"", "SwiGLU", 28, 0, VN_CLASS_ELEMENTARY, 0, "ATTN-6", vn_eval_swiglu, vn_infer_swiglu, 0},
    {"ai.onnx.preview", "FlexAttention", 1, 0, VN_CLASS_COMPOSITE, P, "ATTN-1", vn_eval_flex, vn_infer_flex, 0},
    {"com.microsoft", "RotaryEmbedding", 1, 0, VN_CLASS_COMPOSITE, P, "ATTN-2", vn_eval_rotary_contrib, vn_infer_rotary, 0},
    {"com.microsoft", "MultiHeadAttention", 1, 0, VN_CLASS_COMPOSITE, P | VN_OP_REFINES, "ATTN-1", vn_eval_multi_head, vn_infer_multi_head,
     0},
    {"com.microsoft", "Attention", 1, 0, VN_CLASS_COMPOSITE, VN_OP_REFINES, "ATTN-3", vn_eval_packed_attention, vn_infer_packed_attention,
     0},
    {"com.microsoft", "GroupQueryAttention", 1, 0, VN_CLASS_COMPOSITE, VN_OP_REFINES, "ATTN-3", vn_eval_group_query, vn_infer_group_query,
     0},
};

const vn_family_t vn_family_attention = {"attention", rows, sizeof rows / sizeof *rows};
