/* infer_ml.c -- rules of ai.onnx.ml where the number of rows is open: the columns follow from the attributes (claim INFER-1). */
#include "oracle/infer_rules.h"

/* Rows of operand 0; a vector is one row. -1: open. */
static int64_t rows(const vn_infer_node_t *n) {
    const int rank = vn_rule_rank(n, 0);
    return rank == 2 ? vn_rule_dim(n, 0, 0) : rank == 1 ? 1 : -1;
}

vn_status_t vn_rule_ml_table(vn_infer_node_t *n, int columns) {
    static const char *const counts[] = {[VN_ML_COLUMNS_TARGETS] = "targets", [VN_ML_COLUMNS_N_TARGETS] = "n_targets"};
    const int64_t c = columns == VN_ML_COLUMNS_ONE ? 1 : vn_node_int(n->node, counts[columns], columns == VN_ML_COLUMNS_TARGETS ? 1 : -1);
    vn_rule_out(n, 0, VN_UNDEFINED, 2, (int64_t[]){rows(n), c < 1 ? -1 : c});
    return VN_OK;
}

vn_status_t vn_rule_ml_classes(vn_infer_node_t *n, int param) {
    (void)param;
    const vn_attr_t *text = vn_node_attr(n->node, "classlabels_strings");
    vn_rule_out(n, 0, text && text->count > 0 ? VN_STRING : VN_I64, 1, (int64_t[]){rows(n)});
    vn_rule_out(n, 1, VN_F32, 2, (int64_t[]){rows(n), -1});
    return VN_OK;
}
