/* op_ms.c -- family "microsoft": the rows of com.microsoft that have no family among the standard operators. */
#include "oracle/ms.h"

enum {
    S1 = VN_OP_SHAPE_LIKE_1,
    S2 = VN_OP_SHAPE_LIKE_2,
    MAPS = VN_OP_MAPS,
    PROP = VN_OP_PROPAGATES,
};
#define MS(name, cls, flags, claim, row) \
    { "com.microsoft", name, 1, 0, cls, flags, claim, vn_eval_ms_##row, vn_infer_ms_##row, 0 }

static const vn_op_t rows[] = {
    MS("QuantizeLinear", VN_CLASS_QUANTISE, PROP, "MS-1", quantize),
    MS("DequantizeLinear", VN_CLASS_ROUNDED, PROP, "MS-1", dequantize),
    MS("Pad", VN_CLASS_MOVEMENT, MAPS | S1, "MS-1", pad),
    MS("Range", VN_CLASS_ROUNDED, VN_OP_SHAPE_LIKE_0 | S1 | S2, "MS-1", range),
    MS("Trilu", VN_CLASS_MOVEMENT, MAPS | S1, "MS-1", trilu),
    MS("GatherND", VN_CLASS_MOVEMENT, MAPS, "MS-1", gather_nd),
    MS("ExpandDims", VN_CLASS_MOVEMENT, MAPS | S1, "MS-1", expand_dims),
    MS("GridSample", VN_CLASS_COMPOSITE, 0, "MS-1", grid_sample),
    {"com.microsoft", "Unique", 1, 0, VN_CLASS_EXACT, 0, "MS-1", vn_eval_ms_unique, NULL, 0},
    MS("QLinearConv", VN_CLASS_QUANTISE, 0, "MS-1", qlinear_conv),
    MS("NhwcMaxPool", VN_CLASS_MOVEMENT, 0, "MS-1", nhwc_max_pool),
    MS("QLinearAdd", VN_CLASS_QUANTISE, 0, "MS-2", qlinear_add),
    MS("QLinearMul", VN_CLASS_QUANTISE, 0, "MS-3", qlinear_mul),
    MS("QLinearSigmoid", VN_CLASS_QUANTISE, 0, "MS-4", qlinear_table),
    MS("QLinearLeakyRelu", VN_CLASS_QUANTISE, 0, "MS-4", qlinear_table),
    MS("QLinearWhere", VN_CLASS_QUANTISE, 0, "MS-5", qlinear_where),
    MS("QLinearConcat", VN_CLASS_QUANTISE, 0, "MS-5", qlinear_concat),
    MS("QLinearSoftmax", VN_CLASS_QUANTISE, 0, "MS-6", qlinear_softmax),
    MS("QLinearReduceMean", VN_CLASS_QUANTISE, 0, "MS-7", qlinear_reduce_mean),
    MS("QGemm", VN_CLASS_QUANTISE, 0, "MS-8", qgemm),
    MS("MatMulInteger16", VN_CLASS_EXACT, 0, "MS-9", matmul_integer16),
    MS("GatherBlockQuantized", VN_CLASS_ROUNDED, 0, "MS-10", gather_block),
    MS("Inverse", VN_CLASS_COMPOSITE, 0, "MS-13", inverse),
    MS("QAttention", VN_CLASS_COMPOSITE, VN_OP_REFINES, "MS-11", qattention),
};

const vn_family_t vn_family_microsoft = {.name = "microsoft", .rows = rows, .count = sizeof rows / sizeof *rows};
