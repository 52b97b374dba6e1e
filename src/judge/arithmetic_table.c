/* arithmetic_table.c -- the arithmetics that a contract can say: formats of operands, accumulator, result and hidden intermediates, flushes. */
#include "judge/arithmetic.h"

const vn_arith_row_t vn_arith_rows[] = {
    {.id = "ftz", .words = "subnormal results flushed to zero", .ftz = true},
    {.id = "daz", .words = "subnormal operands read as zero", .daz = true},
    {.id = "operands-bf16", .words = "bfloat16 operands (nearest even), f32 accumulation", .operand = VN_FMT_BF16},
    {.id = "operands-tf32-rn", .words = "TF32 operands (nearest even), f32 accumulation", .operand = VN_FMT_TF32},
    {.id = "operands-tf32-rna", .words = "TF32 operands (ties away), f32 accumulation", .operand = VN_FMT_TF32, .rounding = VN_RNA},
    {.id = "operands-tf32-rz", .words = "TF32 operands (truncated), f32 accumulation", .operand = VN_FMT_TF32, .rounding = VN_RZ},
    {.id = "operands-f16", .words = "f16 operands, f32 accumulation", .operand = VN_FMT_F16},
    {.id = "operands-f32", .words = "f32 operands for f64", .operand = VN_FMT_F32},
    {.id = "operands-f32", .words = "f32 operands and f32 accumulation for f64", .operand = VN_FMT_F32, .accumulator = VN_FMT_F32},
    {.id = "accumulator-f32", .words = "f32 accumulation for f64", .accumulator = VN_FMT_F32},
    {.id = "result-rounded-to-f32", .words = "result rounded to f32", .result = VN_FMT_F32},
    {.id = "result-rounded-to-bf16", .words = "result rounded to bfloat16", .result = VN_FMT_BF16},
    {.id = "result-rounded-to-f16", .words = "result rounded to f16", .result = VN_FMT_F16},
    {.id = "result-rounded-to-tf32", .words = "result rounded to TF32", .result = VN_FMT_TF32},
    {.id = "result-rounded-to-f8e4m3fn", .words = "result rounded to f8e4m3fn", .result = VN_FMT_F8E4M3FN},
    {.id = "result-rounded-to-f8e5m2", .words = "result rounded to f8e5m2", .result = VN_FMT_F8E5M2},
    {.id = "intermediate-bf16", .words = "a hidden intermediate rounded to bfloat16", .intermediate = VN_FMT_BF16},
    {.id = "intermediate-f16", .words = "a hidden intermediate rounded to f16", .intermediate = VN_FMT_F16},
    {.id = "accumulator-f16", .words = "running sum in f16", .accumulator = VN_FMT_F16},
    {.id = "accumulator-bf16", .words = "running sum in bfloat16", .accumulator = VN_FMT_BF16},
    {.id = "operands-bf16", .words = "bfloat16 operands, f32 accumulation, bfloat16 result", .operand = VN_FMT_BF16, .result = VN_FMT_BF16},
    {.id = "operands-bf16",
     .words = "bfloat16 operands, f32 accumulation, sum and bias rounded to bfloat16 before they meet, bfloat16 result",
     .operand = VN_FMT_BF16,
     .result = VN_FMT_BF16,
     .intermediate = VN_FMT_BF16},
    {.id = "operands-bf16",
     .words = "bfloat16 operands, f32 accumulation, sum and bias rounded to bfloat16 before they meet",
     .operand = VN_FMT_BF16,
     .intermediate = VN_FMT_BF16},
    {.id = "operands-f16", .words = "f16 operands, f32 accumulation, f16 result", .operand = VN_FMT_F16, .result = VN_FMT_F16},
    {.id = "operands-f16", .words = "right operand rounded to f16, f32 accumulation", .operand = VN_FMT_F16, .mask = 2},
    {.id = "operands-f16", .words = "left operand rounded to f16, f32 accumulation", .operand = VN_FMT_F16, .mask = 1},
    {.id = "operands-bf16", .words = "right operand rounded to bfloat16, f32 accumulation", .operand = VN_FMT_BF16, .mask = 2},
    {.id = "operands-bf16", .words = "left operand rounded to bfloat16, f32 accumulation", .operand = VN_FMT_BF16, .mask = 1},
    {.id = "operands-tf32-rn",
     .words = "right operand rounded to TF32 (nearest even), f32 accumulation",
     .operand = VN_FMT_TF32,
     .mask = 2},
    {.id = "operands-tf32-rn", .words = "left operand rounded to TF32 (nearest even), f32 accumulation", .operand = VN_FMT_TF32, .mask = 1},
    {.id = "operands-tf32-rna",
     .words = "right operand rounded to TF32 (ties away), f32 accumulation",
     .operand = VN_FMT_TF32,
     .rounding = VN_RNA,
     .mask = 2},
    {.id = "operands-tf32-rna",
     .words = "left operand rounded to TF32 (ties away), f32 accumulation",
     .operand = VN_FMT_TF32,
     .rounding = VN_RNA,
     .mask = 1},
    {.id = "operands-tf32-rz",
     .words = "right operand cut to TF32, f32 accumulation",
     .operand = VN_FMT_TF32,
     .rounding = VN_RZ,
     .mask = 2},
    {.id = "operands-tf32-rz", .words = "left operand cut to TF32, f32 accumulation", .operand = VN_FMT_TF32, .rounding = VN_RZ, .mask = 1},
};
const int vn_arith_row_count = sizeof vn_arith_rows / sizeof *vn_arith_rows;

static int precision(vn_format_t f) { return f == VN_FMT_NONE ? 0 : vn_format_info(f)->p; }

static bool sums(vn_op_class_t cls) {
    return cls == VN_CLASS_CONTRACTION || cls == VN_CLASS_REDUCTION || cls == VN_CLASS_SCAN || cls == VN_CLASS_COMPOSITE ||
           cls == VN_CLASS_SOFTMAX || cls == VN_CLASS_NORMALISATION;
}

bool vn_arith_applies(const vn_arith_row_t *h, const vn_contract_t *c, vn_op_class_t cls, vn_dtype_t out) {
    const bool product = cls == VN_CLASS_CONTRACTION || cls == VN_CLASS_COMPOSITE;
    if (!vn_dtype_is_float(out)) return false;
    if (h->operand && precision(h->operand) >= precision(c->operand)) return false;
    if (h->operand && !product && (h->mask || h->intermediate || cls == VN_CLASS_MOVEMENT || cls == VN_CLASS_EXACT)) return false;
    if (h->accumulator && (precision(h->accumulator) >= precision(c->accumulator) || !sums(cls))) return false;
    /* f32 sums of f64 are news of f64 only, and the other way about */
    if (h->accumulator && h->accumulator != VN_FMT_F32 && c->accumulator == VN_FMT_F64) return false;
    if (h->result && precision(h->result) >= precision(vn_format_of(out))) return false;
    if (h->intermediate && (precision(h->intermediate) >= precision(c->accumulator) ||
                            (!h->operand && cls != VN_CLASS_COMPOSITE && cls != VN_CLASS_NORMALISATION && cls != VN_CLASS_SOFTMAX)))
        return false;
    if (h->ftz && c->ftz) return false;
    return !(h->daz && c->daz);
}

vn_contract_t vn_arith_changed(const vn_arith_row_t *h, const vn_contract_t *base) {
    vn_contract_t c = *base;
    if (h->operand) {
        c.operand = h->operand;
        c.operand_rounding = h->rounding;
        c.operand_mask = h->mask;
    }
    if (h->accumulator) c.accumulator = h->accumulator;
    if (h->result) c.result = h->result;
    if (h->intermediate) c.intermediate = h->intermediate;
    c.ftz |= h->ftz;
    c.daz |= h->daz;
    return c;
}
