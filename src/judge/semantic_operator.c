/* semantic_operator.c -- a sibling operator in place of the one asked for, offered only where nothing else has a name. */
#include <stdio.h>
#include <string.h>

#include "judge/semantic.h"

/* Operators of one form. */
static const char *const siblings[] = {
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare",
    "Max Min Sum Mean",
    "ArgMax ArgMin",
    "Floor Ceil Round Identity",
    "And Or Xor",
    "BitwiseAnd BitwiseOr BitwiseXor",
    "Greater GreaterOrEqual Less LessOrEqual Equal",
    "Add Sub Mul Div Pow",
    "Sin Cos Tan",
    "Sinh Cosh Tanh Sigmoid HardSigmoid Softsign Erf",
    "Asin Acos Atan Asinh Acosh Atanh",
    "Exp Log Sqrt Reciprocal Abs Neg Identity",
    "Relu LeakyRelu Elu Selu Celu Softplus ThresholdedRelu Identity",
    "Gelu Mish HardSwish Swish Relu",
    "Softmax LogSoftmax Hardmax",
    "MaxPool AveragePool",
    "GlobalAveragePool GlobalMaxPool",
    "CumSum CumProd",
    "IsNaN IsInf",
};

static vn_status_t other(vn_variant_t *v, vn_error_t *err) {
    for (size_t i = 0; i < sizeof siblings / sizeof *siblings; ++i) {
        if (strcmp(v->node->domain, "") != 0 || !vn_name_in(siblings[i], v->node->op)) continue;
        for (const char *p = siblings[i]; *p;) {
            char op[48], cause[96];
            const size_t n = strcspn(p, " ");
            snprintf(op, sizeof op, "%.*s", (int)n, p);
            p += n + (p[n] == ' ');
            if (strcmp(op, v->node->op) == 0) continue;
            snprintf(cause, sizeof cause, "operator:%s", op);
            VN_TRY(vn_variant_op(v, "", op, err));
            VN_TRY(vn_variant_ask(v, VN_BUG, cause, NULL, err, "%s in place of %s gives the whole result.", op, v->node->op));
        }
    }
    return VN_OK;
}

vn_status_t vn_name_operator(vn_explain_t *e, vn_error_t *err) { return e->level == VN_NAME_NONE ? vn_variants(e, other, err) : VN_OK; }
