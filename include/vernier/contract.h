/* vernier/contract.h -- what one operator instance may do with its numbers. */
#ifndef VERNIER_CONTRACT_H
#define VERNIER_CONTRACT_H

#include "vernier/base.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Budget tiers for elementary functions and composites; `portable` and `fast` take the tables of bounds.md (docs/claims.md, BUDGET-*). */
typedef enum vn_tier { VN_TIER_IEEE = 0, VN_TIER_PORTABLE = 1, VN_TIER_FAST = 2 } vn_tier_t;

/**
 * One contract. VN_FMT_NONE in a format field means "by the tensor's type": operands and result as declared by the graph, accumulator
 * f32 for types of at most 32 bits and f64 for f64.
 */
typedef struct vn_contract {
    vn_format_t operand; /* operands of contractions are rounded to this first */
    vn_rounding_t operand_rounding;
    int operand_mask;         /* bit k: operand k of the contraction is rounded; 0 = all */
    vn_format_t accumulator;  /* running sums and every intermediate of an evaluation */
    vn_format_t result;       /* boundary at which the result is rounded before it is stored as the tensor's type */
    vn_format_t intermediate; /* hidden tensors of fused operators (attention weights, normalised values); NONE: as accumulator */
    bool has_function_ulp;
    double function_ulp; /* promised accuracy of elementary functions, ulp of the result */
    vn_tier_t tier;
    bool ftz;                 /* subnormal results may be flushed */
    bool daz;                 /* subnormal operands may be read as zero */
    bool reciprocal_quotient; /* x/y may be x*(1/y) */
} vn_contract_t;

/** Built-in contracts: "ieee", "portable", "fast" (design 4). False if the name is none of them. */
VN_API bool vn_contract_builtin(const char *name, vn_contract_t *out);
/**
 * "operand=f32,accumulator=f32,result=f32[,function_ulp=2][,intermediate=f16][,subnormals=keep|ftz|daz|flush]". Without function_ulp the
 * tier is ieee. A lone built-in name is accepted too. Integer types, products ("u8xi8") and casts ("f32->u8") are accepted where a format is
 * due and set nothing: their exactness is the operator's own rule. Errors: USAGE names the key.
 */
VN_API vn_status_t vn_contract_parse(const char *text, vn_contract_t *out, vn_error_t *err);
/** Text that vn_contract_parse takes back. */
VN_API void vn_contract_describe(const vn_contract_t *c, char *out, size_t size);
/** The contract with operand and accumulator resolved for a node whose main type is t; result NONE stays: the output's own type. */
VN_API vn_contract_t vn_contract_resolve(const vn_contract_t *c, vn_dtype_t t);

#ifdef __cplusplus
}
#endif
#endif
