/* infer_text.c -- shapes of text and image operators whose operands have open dimensions, or whose texts and bytes decide (claim INFER-1). */
#include <string.h>

#include "oracle/infer_rules.h"

vn_status_t vn_rule_split_text(vn_infer_node_t *n, int param) {
    (void)param;
    if (!vn_infer_has(n, 0)) return VN_ERR_UNSUPPORTED;
    const vn_inferred_value_t *x = &n->in[0]->v;
    int64_t d[VN_MAX_RANK];
    if (x->rank >= 0 && x->rank < VN_MAX_RANK) {
        memcpy(d, x->dims, (size_t)x->rank * sizeof *d);
        d[x->rank] = -1;
        vn_rule_out(n, 0, VN_STRING, x->rank + 1, d);
    } else {
        vn_rule_out(n, 0, VN_STRING, -1, NULL);
    }
    n->fallback = VN_I64;
    vn_rule_out(n, 1, VN_I64, x->rank, x->dims);
    return VN_OK;
}

/* [C] or [1, C]: stop words shorten the last dimension, and nothing left is one empty text. */
vn_status_t vn_rule_normalise_text(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    if (rank < 1 || rank > 2) {
        vn_rule_out(n, 0, VN_STRING, -1, NULL);
        return VN_OK;
    }
    const vn_attr_t *stops = vn_node_attr(n->node, "stopwords");
    int64_t d[2] = {1, -1};
    const int64_t last = vn_rule_dim(n, 0, -1);
    if (!stops || stops->count == 0) d[1] = last == 0 ? 1 : last;
    vn_rule_out(n, 0, VN_STRING, rank, d + 2 - rank);
    return VN_OK;
}

vn_status_t vn_rule_ngrams(vn_infer_node_t *n, int param) {
    (void)param;
    const int rank = vn_rule_rank(n, 0);
    int64_t count, width = 0;
    const int64_t *at = vn_node_ints(n->node, "ngram_indexes", &count);
    for (int64_t i = 0; at && i < count; ++i)
        if (at[i] >= width && at[i] < INT32_MAX) width = at[i] + 1;
    int64_t d[2] = {rank == 2 ? vn_rule_dim(n, 0, 0) : 1, width ? width : -1};
    if (rank == 1 || rank == 2) vn_rule_out(n, 0, VN_F32, rank, d + 2 - rank);
    else vn_rule_out(n, 0, VN_F32, -1, NULL);
    return VN_OK;
}

/* Height and width stand in the bytes; a stream that cannot be decoded gives an empty matrix. */
vn_status_t vn_rule_image(vn_infer_node_t *n, int param) {
    (void)param;
    const int64_t d[3] = {-1, -1, -1};
    vn_rule_out(n, 0, VN_U8, 3, d);
    return VN_OK;
}
