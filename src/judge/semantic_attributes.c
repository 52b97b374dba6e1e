/* semantic_attributes.c -- an attribute without effect: the node without it, that is with its default, or with another of its values.
 *
 * Attributes that change nothing in the values, or whose other value another family asks with a better name (axis, epsilon), are left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/semantic.h"

/* The other values of an attribute. ops: names between blanks. cause: NULL: attribute-ignored:<attr>; ending in a colon: the value follows.
 * only: the one value to be asked under this cause; NULL: every value. */
typedef struct option {
    const char *ops, *attr, *standard, *values, *cause, *only;
    bool number;
    int until; /* last opset version that has these values; 0: all */
} option_t;

#define POOLS "AveragePool MaxPool LpPool"
#define WINDOWS POOLS " Conv ConvTranspose ConvInteger QLinearConv FusedConv NhwcConv"
#define RECURRENT "LSTM GRU RNN DynamicQuantizeLSTM"
#define PRODUCTS "Gemm FusedMatMul TransposeMatMul FusedGemm QGemm"
#define LOSSES "SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss"
#define ML "LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsembleClassifier TreeEnsembleRegressor"

static const option_t options[] = {
    {"Gelu", "approximate", "none", "none tanh", "gelu-tanh", "tanh", false, 0},
    {"Gelu", "approximate", "none", "none tanh", "gelu-erf", "none", false, 0},
    {"Resize RoiAlign", "coordinate_transformation_mode", "half_pixel",
     "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric tf_crop_and_resize output_half_pixel",
     "coordinate-mode:", NULL, false, 0},
    {"Resize", "coordinate_transformation_mode", "half_pixel", "tf_half_pixel_for_nn", "coordinate-mode:", NULL, false, 12},
    {"Resize Upsample", "mode", "nearest", "nearest linear cubic", NULL, NULL, false, 0},
    {"Resize", "nearest_mode", "round_prefer_floor", "round_prefer_floor round_prefer_ceil floor ceil", NULL, NULL, false, 0},
    {"Resize", "exclude_outside", "0", "0 1", NULL, NULL, true, 0},
    {"Resize", "antialias", "0", "0 1", NULL, NULL, true, 0},
    {"Resize", "keep_aspect_ratio_policy", "stretch", "stretch not_larger not_smaller", NULL, NULL, false, 0},
    {"GridSample", "mode", "linear", "linear nearest cubic bilinear bicubic", NULL, NULL, false, 0},
    {"GridSample", "padding_mode", "zeros", "zeros border reflection", NULL, NULL, false, 0},
    {"GridSample AffineGrid", "align_corners", "0", "0 1", NULL, NULL, true, 0},
    {"RoiAlign", "mode", "avg", "avg max", NULL, NULL, false, 0},
    {"Pad", "mode", "constant", "constant reflect edge wrap", NULL, NULL, false, 0},
    {"DepthToSpace SpaceToDepth", "mode", "DCR", "DCR CRD", NULL, NULL, false, 0},
    {"ScatterND ScatterElements", "reduction", "none", "none add mul max min", NULL, NULL, false, 0},
    {"TensorScatter", "mode", "linear", "linear circular", NULL, NULL, false, 0},
    {LOSSES, "reduction", "mean", "mean sum none", NULL, NULL, false, 0},
    {"AveragePool", "count_include_pad", "0", "0 1", "count-include-pad", NULL, true, 0},
    {WINDOWS, "auto_pad", "NOTSET", "SAME_UPPER SAME_LOWER", "pads-swapped", "SAME_UPPER", false, 0},
    {WINDOWS, "auto_pad", "NOTSET", "SAME_UPPER SAME_LOWER", "pads-swapped", "SAME_LOWER", false, 0},
    {POOLS, "ceil_mode", "0", "0 1", NULL, NULL, true, 0},
    {"MaxPool", "storage_order", "0", "0 1", NULL, NULL, true, 0},
    {"CumSum CumProd", "exclusive", "0", "0 1", NULL, NULL, true, 0},
    {"CumSum CumProd", "reverse", "0", "0 1", NULL, NULL, true, 0},
    {"ArgMax ArgMin", "select_last_index", "0", "0 1", "argmax-last", "1", true, 0},
    {"ArgMax ArgMin", "select_last_index", "0", "0 1", NULL, "0", true, 0},
    {"TopK", "largest", "1", "0 1", NULL, NULL, true, 0},
    {"TopK Unique", "sorted", "1", "0 1", NULL, NULL, true, 0},
    {"BatchNormalization", "training_mode", "0", "0 1", NULL, NULL, true, 0},
    {"Cast CastLike QuantizeLinear", "saturate", "1", "0 1", NULL, NULL, true, 0},
    {"Cast CastLike", "round_mode", "up", "up down nearest", NULL, NULL, false, 0},
    {RECURRENT, "direction", "forward", "forward reverse", NULL, NULL, false, 0},
    {RECURRENT, "layout", "0", "0 1", NULL, NULL, true, 0},
    {"GRU", "linear_before_reset", "0", "0 1", NULL, NULL, true, 0},
    {"LSTM", "input_forget", "0", "0 1", NULL, NULL, true, 0},
    {PRODUCTS, "transA", "0", "0 1", NULL, NULL, true, 0},
    {PRODUCTS, "transB", "0", "0 1", NULL, NULL, true, 0},
    {"FusedMatMul", "transBatchA", "0", "0 1", NULL, NULL, true, 0},
    {"FusedMatMul", "transBatchB", "0", "0 1", NULL, NULL, true, 0},
    {"LpPool GlobalLpPool LpNormalization", "p", "2", "1 2 3", NULL, NULL, true, 0},
    {"Mod", "fmod", "0", "0 1", NULL, NULL, true, 0},
    {"BitShift", "direction", "LEFT", "LEFT RIGHT", NULL, NULL, false, 0},
    {"IsInf", "detect_positive", "1", "0 1", NULL, NULL, true, 0},
    {"IsInf", "detect_negative", "1", "0 1", NULL, NULL, true, 0},
    {"Trilu", "upper", "1", "0 1", NULL, NULL, true, 0},
    {"HannWindow HammingWindow BlackmanWindow", "periodic", "1", "0 1", NULL, NULL, true, 0},
    {"DFT", "inverse", "0", "0 1", NULL, NULL, true, 0},
    {"NonMaxSuppression", "center_point_box", "0", "0 1", NULL, NULL, true, 0},
    {"RotaryEmbedding", "interleaved", "0", "0 1", "interleave-ignored", NULL, true, 0},
    {"GatherND", "batch_dims", "0", "0 1 2", NULL, NULL, true, 0},
    {"Attention", "qk_matmul_output_mode", "0", "0 1 2 3", NULL, NULL, true, 0},
    {"StringNormalizer", "case_change_action", "NONE", "NONE LOWER UPPER", NULL, NULL, false, 0},
    {"StringNormalizer", "is_case_sensitive", "0", "0 1", NULL, NULL, true, 0},
    {"ImageDecoder", "pixel_format", "RGB", "RGB BGR Grayscale", NULL, NULL, false, 0},
    {ML, "post_transform", "NONE", "NONE SOFTMAX LOGISTIC SOFTMAX_ZERO PROBIT", NULL, NULL, false, 0},
    {"Normalizer", "norm", "MAX", "MAX L1 L2", NULL, NULL, false, 0},
};

/* Names of an attribute that has no effect, other than attribute-ignored:<attr>. */
static const struct {
    const char *ops, *attr, *cause;
} renamed[] = {
    {"AveragePool", "count_include_pad", "count-include-pad"},
    {"Gelu", "approximate", "gelu-erf"},
    {"Resize RoiAlign", "coordinate_transformation_mode", "coordinate-mode:half_pixel"},
    {"Attention GroupQueryAttention", "softcap", "softcap-missing"},
    {"RotaryEmbedding", "interleaved", "interleave-ignored"},
};

/* Asked by other families, or without influence on values. */
static const char *const elsewhere[] = {"axis",         "axes",      "epsilon",     "stash_type", "kernel_shape",
                                        "to",           "dtype",     "hidden_size", "seed",       "output_datatype",
                                        "output_dtype", "precision", "domain",      "batch_axis", "time_axis"};

static vn_status_t other_values(vn_variant_t *v, const option_t *o, vn_error_t *err) {
    char now[72], value[72], cause[96];
    vn_name_attr_text(v->node, o->attr, o->standard, now, sizeof now);
    for (const char *p = o->values; *p;) {
        const size_t n = strcspn(p, " ");
        snprintf(value, sizeof value, "%.*s", (int)n, p);
        p += n + (p[n] == ' ');
        if (strcmp(value, now) == 0 || (o->only && strcmp(o->only, value) != 0)) continue;
        if (!o->cause) snprintf(cause, sizeof cause, "attribute-ignored:%.60s", o->attr);
        else snprintf(cause, sizeof cause, "%s%s", o->cause, o->cause[strlen(o->cause) - 1] == ':' ? value : "");
        if (o->number) VN_TRY(vn_variant_int(v, o->attr, strtoll(value, NULL, 10), err));
        else VN_TRY(vn_variant_string(v, o->attr, value, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s with %s = %s in place of %s gives the whole result.", v->node->op, o->attr,
                              value, now));
    }
    return VN_OK;
}

static bool skipped(const vn_attr_t *a) {
    if (a->kind == VN_ATTR_GRAPH || a->kind == VN_ATTR_GRAPHS) return true;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; ++i)
        if (strcmp(elsewhere[i], a->name) == 0) return true;
    return false;
}

static vn_status_t ignored(vn_variant_t *v, vn_error_t *err) {
    const vn_node_t *n = v->node;
    for (int k = 0; k < n->n_attrs; ++k) {
        const vn_attr_t a = n->attrs[k];
        if (skipped(&a)) continue;
        char cause[96];
        snprintf(cause, sizeof cause, "attribute-ignored:%.60s", a.name);
        for (size_t i = 0; i < sizeof renamed / sizeof *renamed; ++i)
            if (strcmp(renamed[i].attr, a.name) == 0 && vn_name_in(renamed[i].ops, n->op))
                snprintf(cause, sizeof cause, "%s", renamed[i].cause);
        VN_TRY(vn_variant_drop_attr(v, a.name, err));
        VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s without its attribute %s, that is with its default, gives the whole result.",
                              n->op, a.name));
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; ++i)
        if (vn_name_in(options[i].ops, n->op) && (!options[i].until || vn_variant_version(v) <= options[i].until))
            VN_TRY(other_values(v, &options[i], err));
    return VN_OK;
}

vn_status_t vn_name_attributes(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, ignored, err); }
