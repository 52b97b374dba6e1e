/* infer_contrib.c -- shapes of normalisation and attention operators whose rows have no `infer`, mostly of com.microsoft. */
#include <string.h>

#include "oracle/infer_rules.h"

vn_status_t vn_rule_batch_norm(vn_infer_node_t *n, int param) {
    (void)param;
    VN_TRY(vn_rule_same(n, 1));
    int64_t channels = vn_rule_dim(n, 0, 1);
    for (int k = 1; k < 5 && channels < 0; ++k) channels = vn_rule_dim(n, k, 0);
    for (int k = 1; k < n->n_out; ++k) vn_rule_out(n, k, vn_infer_has(n, 3) ? n->in[3]->v.dtype : VN_UNDEFINED, 1, &channels);
    return VN_OK;
}

/* Outputs: the result, mean and inverse deviation (f32, last dimension 1), the sum. */
vn_status_t vn_rule_skip_norm(vn_infer_node_t *n, int param) {
    (void)param;
    if (!vn_infer_has(n, 0)) return VN_ERR_UNSUPPORTED;
    const int rank = vn_rule_rank(n, 0);
    int64_t d[VN_MAX_RANK];
    memcpy(d, n->in[0]->v.dims, sizeof d);
    vn_rule_out(n, 0, VN_UNDEFINED, rank, d);
    vn_rule_out(n, 3, VN_UNDEFINED, rank, d);
    if (rank > 0) d[rank - 1] = 1;
    vn_rule_out(n, 1, VN_F32, rank, d);
    vn_rule_out(n, 2, VN_F32, rank, d);
    return VN_OK;
}

vn_status_t vn_rule_embed_norm(vn_infer_node_t *n, int param) {
    (void)param;
    const vn_dtype_t t = vn_infer_has(n, 2) ? n->in[2]->v.dtype : VN_UNDEFINED;
    const int64_t d[3] = {vn_rule_dim(n, 0, 0), vn_rule_dim(n, 0, 1), vn_rule_dim(n, 2, 1)};
    if (t == VN_UNDEFINED) return VN_ERR_UNSUPPORTED;
    vn_rule_out(n, 0, t, 3, d);
    vn_rule_out(n, 1, VN_I32, 1, d);
    vn_rule_out(n, 2, t, 3, d);
    return VN_OK;
}

static int64_t plus(int64_t a, int64_t b) {
    int64_t sum;
    return a >= 0 && b >= 0 && vn_i64_add(a, b, &sum) ? sum : -1;
}

static int64_t share(int64_t whole, int64_t parts) { return whole >= 0 && parts > 0 && whole % parts == 0 ? whole / parts : -1; }

/* input [B, S, in], weights [in, Q + K + V], past [2, B, heads, P, size]. */
vn_status_t vn_rule_ms_attention(vn_infer_node_t *n, int param) {
    (void)param;
    enum { INPUT, WEIGHTS, PAST = 4 };
    int64_t count;
    const int64_t *sizes = vn_node_ints(n->node, "qkv_hidden_sizes", &count), heads = vn_node_int(n->node, "num_heads", 0);
    const int64_t values = sizes && count == 3 ? sizes[2] : share(vn_rule_dim(n, WEIGHTS, 1), 3), batch = vn_rule_dim(n, INPUT, 0);
    const int64_t length = vn_rule_dim(n, INPUT, 1), out[3] = {batch, length, values};
    const bool has_past = n->n_in > PAST && n->in[PAST];
    const int64_t keys = has_past ? plus(vn_rule_dim(n, PAST, 3), length) : length;
    const int64_t present[5] = {2, batch, heads > 0 ? heads : -1,
                                vn_node_int(n->node, "past_present_share_buffer", 0) ? vn_rule_dim(n, PAST, 3) : keys,
                                share(sizes && count == 3 ? sizes[1] : values, heads)};
    if (!vn_infer_has(n, INPUT)) return VN_ERR_UNSUPPORTED;
    vn_rule_out(n, 0, VN_UNDEFINED, 3, out);
    vn_rule_out(n, 1, VN_UNDEFINED, 5, present);
    return VN_OK;
}

/* query [B, S, D] or packed [B, S, heads, 3, size]; key [B, L, D], packed [B, L, heads, 2, size] or [B, heads, L, size]. */
vn_status_t vn_rule_multi_head(vn_infer_node_t *n, int param) {
    (void)param;
    enum { QUERY, KEY, VALUE, PAST_KEY = 6, PAST_VALUE };
    const int64_t heads = vn_node_int(n->node, "num_heads", 0), batch = vn_rule_dim(n, QUERY, 0), length = vn_rule_dim(n, QUERY, 1);
    if (!vn_infer_has(n, QUERY) || heads < 1) return VN_ERR_UNSUPPORTED;
    int64_t size = vn_rule_rank(n, QUERY) == 5 ? vn_rule_dim(n, QUERY, 4) : share(vn_rule_dim(n, QUERY, 2), heads), v_size = size,
            fresh = length;
    const int key_rank = vn_rule_rank(n, KEY);
    if (vn_rule_rank(n, QUERY) != 5) {
        fresh = key_rank == 4 ? vn_rule_dim(n, KEY, 2) : vn_rule_dim(n, KEY, 1);
        if (key_rank == 4) v_size = vn_rule_dim(n, VALUE, 3);
        if (key_rank == 3) v_size = share(vn_rule_dim(n, VALUE, 2), heads);
    }
    const bool has_past = n->n_in > PAST_KEY && n->in[PAST_KEY];
    const int64_t keys = has_past ? plus(vn_rule_dim(n, PAST_KEY, 2), fresh) : fresh;
    int64_t out[3] = {batch, length, -1};
    if (v_size < 0 || !vn_i64_mul(v_size, heads, &out[2])) out[2] = -1;
    const int64_t key[4] = {batch, heads, keys, size}, value[4] = {batch, heads, keys, v_size}, scores[4] = {batch, heads, length, keys};
    vn_rule_out(n, 0, VN_UNDEFINED, 3, out);
    vn_rule_out(n, 1, VN_UNDEFINED, 4, key);
    vn_rule_out(n, 2, VN_UNDEFINED, 4, value);
    vn_rule_out(n, 3, VN_UNDEFINED, 4, scores);
    return VN_OK;
}

/* query [B, S, heads * size], or with key and value inside; the caches have room for total_sequence_length at least. */
vn_status_t vn_rule_group_query(vn_infer_node_t *n, int param) {
    (void)param;
    enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LENGTHS, TOTAL };
    const int64_t heads = vn_node_int(n->node, "num_heads", 0), kv = vn_node_int(n->node, "kv_num_heads", 0),
                  batch = vn_rule_dim(n, QUERY, 0);
    if (!vn_infer_has(n, QUERY) || heads < 1 || kv < 1) return VN_ERR_UNSUPPORTED;
    const bool packed = n->n_in <= KEY || !n->in[KEY];
    const int64_t size = share(vn_rule_dim(n, QUERY, 2), packed ? heads + 2 * kv : heads);
    int64_t out[3] = {batch, vn_rule_dim(n, QUERY, 1), -1}, keys = -1, total;
    if (size < 0 || !vn_i64_mul(size, heads, &out[2])) out[2] = -1;
    if (vn_infer_has(n, TOTAL) && vn_fact_int(n->in[TOTAL], &total)) {
        const int64_t buffer = n->n_in > PAST_KEY && n->in[PAST_KEY] ? vn_rule_dim(n, PAST_KEY, 2) : 0;
        keys = buffer < 0 ? -1 : buffer > total ? buffer : total;
    }
    const int64_t cache[4] = {batch, kv, keys, size};
    vn_rule_out(n, 0, VN_UNDEFINED, 3, out);
    vn_rule_out(n, 1, VN_UNDEFINED, 4, cache);
    vn_rule_out(n, 2, VN_UNDEFINED, 4, cache);
    return VN_OK;
}
