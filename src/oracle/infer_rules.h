/* infer_rules.h -- rules of inference with open dimensions: one function a shape law, chosen by operator name in infer_common.c. */
#ifndef VN_ORACLE_INFER_RULES_H
#define VN_ORACLE_INFER_RULES_H

#include "oracle/infer.h"

/**
 * A rule fills n->out as far as the facts allow. Before it runs, every output whose type the row's `infer` told has that type (kind TENSOR,
 * dims open); it may be wrong about nothing: what it cannot say stays open.
 */
typedef vn_status_t (*vn_rule_fn)(vn_infer_node_t *n, int param);

/** Output k, if the node names it. t UNDEFINED: the type told by the row, else by the table. dims NULL: all open. */
void vn_rule_out(vn_infer_node_t *n, int k, vn_dtype_t t, int rank, const int64_t *dims);
/** Rank of operand k, -1 when absent or open. */
int vn_rule_rank(const vn_infer_node_t *n, int k);
/** Dimension d (negative: from the end) of operand k, -1 when open. */
int64_t vn_rule_dim(const vn_infer_node_t *n, int k, int d);
/** Normalises an axis; RANGE error names it. */
vn_status_t vn_rule_axis(const vn_infer_node_t *n, int64_t axis, int rank, int *out);
/** Product, -1 when open or overflowing. */
int64_t vn_rule_product(const int64_t *d, int from, int to);
/**
 * The row's `infer` with open dimensions replaced by numbers that it accepts (`channels`: open dimension 1 of operand 0, 0 = as the others).
 * False: it accepts none. *out has n_out entries.
 */
bool vn_rule_try(const vn_infer_node_t *n, int64_t channels, vn_ref_t *out);

/* infer_common.c */
vn_status_t vn_rule_same(vn_infer_node_t *n, int outputs);    /* bit k: output k has the shape of operand 0 */
vn_status_t vn_rule_dynamic(vn_infer_node_t *n, int param);   /* DynamicQuantizeLinear: codes, scale, zero point */
vn_status_t vn_rule_broadcast(vn_infer_node_t *n, int first); /* of all operands from `first` on */
/* infer_movement.c */
vn_status_t vn_rule_reshape(vn_infer_node_t *n, int param);
vn_status_t vn_rule_flatten(vn_infer_node_t *n, int param);
vn_status_t vn_rule_squeeze(vn_infer_node_t *n, int param);
vn_status_t vn_rule_unsqueeze(vn_infer_node_t *n, int param);
vn_status_t vn_rule_transpose(vn_infer_node_t *n, int param);
vn_status_t vn_rule_concat(vn_infer_node_t *n, int param);
vn_status_t vn_rule_split(vn_infer_node_t *n, int param);
vn_status_t vn_rule_expand(vn_infer_node_t *n, int param);
vn_status_t vn_rule_gather(vn_infer_node_t *n, int param);
vn_status_t vn_rule_gather_nd(vn_infer_node_t *n, int param);
vn_status_t vn_rule_like(vn_infer_node_t *n, int operand); /* shape of an operand */
vn_status_t vn_rule_shape(vn_infer_node_t *n, int param);
vn_status_t vn_rule_size(vn_infer_node_t *n, int param);
vn_status_t vn_rule_range(vn_infer_node_t *n, int param);
vn_status_t vn_rule_col2im(vn_infer_node_t *n, int param);
vn_status_t vn_rule_filled(vn_infer_node_t *n, int param); /* ConstantOfShape */
vn_status_t vn_rule_compress(vn_infer_node_t *n, int param);
vn_status_t vn_rule_non_zero(vn_infer_node_t *n, int param);
vn_status_t vn_rule_unique(vn_infer_node_t *n, int param);
vn_status_t vn_rule_boxes(vn_infer_node_t *n, int param); /* NonMaxSuppression */
vn_status_t vn_rule_one_hot(vn_infer_node_t *n, int param);
vn_status_t vn_rule_top(vn_infer_node_t *n, int param);
/* infer_numeric.c */
vn_status_t vn_rule_aligned(vn_infer_node_t *n, int param);     /* every dimension of the result depends on the same one of operand 0 */
vn_status_t vn_rule_convolution(vn_infer_node_t *n, int param); /* operand that holds the weights; + 16: transposed */
vn_status_t vn_rule_global(vn_infer_node_t *n, int param);
vn_status_t vn_rule_quantised_pool(vn_infer_node_t *n, int global);
vn_status_t vn_rule_unpool(vn_infer_node_t *n, int param);
vn_status_t vn_rule_matmul(vn_infer_node_t *n, int second);    /* operand that is the right factor */
vn_status_t vn_rule_normalised(vn_infer_node_t *n, int param); /* LayerNormalization and kin: statistics beside the result */
vn_status_t vn_rule_dft(vn_infer_node_t *n, int param);
vn_status_t vn_rule_gemm(vn_infer_node_t *n, int param);
vn_status_t vn_rule_reduce(vn_infer_node_t *n, int single); /* single: ArgMax, ArgMin */
vn_status_t vn_rule_resize(vn_infer_node_t *n, int param);
vn_status_t vn_rule_recurrent(vn_infer_node_t *n, int gates);
vn_status_t vn_rule_window(vn_infer_node_t *n, int param); /* HannWindow and kin */
vn_status_t vn_rule_mel(vn_infer_node_t *n, int param);
vn_status_t vn_rule_stft(vn_infer_node_t *n, int param);
vn_status_t vn_rule_grid_sample(vn_infer_node_t *n, int param);
vn_status_t vn_rule_affine_grid(vn_infer_node_t *n, int param);
/* infer_contrib.c */
vn_status_t vn_rule_batch_norm(vn_infer_node_t *n, int param);
vn_status_t vn_rule_skip_norm(vn_infer_node_t *n, int param);
vn_status_t vn_rule_embed_norm(vn_infer_node_t *n, int param);
vn_status_t vn_rule_ms_attention(vn_infer_node_t *n, int param);
vn_status_t vn_rule_multi_head(vn_infer_node_t *n, int param);
vn_status_t vn_rule_group_query(vn_infer_node_t *n, int param);
/* infer_text.c */
vn_status_t vn_rule_split_text(vn_infer_node_t *n, int param);
vn_status_t vn_rule_normalise_text(vn_infer_node_t *n, int param);
vn_status_t vn_rule_ngrams(vn_infer_node_t *n, int param);
vn_status_t vn_rule_image(vn_infer_node_t *n, int param);
/* infer_ml.c */
enum { VN_ML_COLUMNS_ONE, VN_ML_COLUMNS_TARGETS, VN_ML_COLUMNS_N_TARGETS };
vn_status_t vn_rule_ml_table(vn_infer_node_t *n, int columns); /* [rows, columns], how many by an attribute */
vn_status_t vn_rule_ml_classes(vn_infer_node_t *n, int param); /* labels and scores */
/* infer_sequence.c */
vn_status_t vn_rule_sequence(vn_infer_node_t *n, int param); /* SequenceConstruct */
vn_status_t vn_rule_sequence_empty(vn_infer_node_t *n, int param);
vn_status_t vn_rule_sequence_at(vn_infer_node_t *n, int param);
vn_status_t vn_rule_sequence_length(vn_infer_node_t *n, int param);
vn_status_t vn_rule_sequence_edit(vn_infer_node_t *n, int added); /* 1 insert, -1 erase */
vn_status_t vn_rule_split_to_sequence(vn_infer_node_t *n, int param);
vn_status_t vn_rule_concat_sequence(vn_infer_node_t *n, int param);
vn_status_t vn_rule_identity(vn_infer_node_t *n, int param);
vn_status_t vn_rule_optional(vn_infer_node_t *n, int param);
vn_status_t vn_rule_optional_has(vn_infer_node_t *n, int param);

#endif
