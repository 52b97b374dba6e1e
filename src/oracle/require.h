/* require.h -- the operands a row cannot do without. Nodes come from files: counts and kinds are checked before anything is read. */
#ifndef VN_ORACLE_REQUIRE_H
#define VN_ORACLE_REQUIRE_H

#include "oracle/registry.h"

/** The first `inputs` operands are there, every operand given is a tensor of numbers, and there is an output. Errors: USAGE, DTYPE. */
static inline vn_status_t vn_require(vn_eval_t *e, int inputs) {
    if (e->n_out < 1) return vn_eval_fail(e, VN_ERR_USAGE, "a node without outputs");
    for (int k = 0; k < inputs; ++k)
        if (k >= e->n_in || (!e->in[k].t && !e->in[k].v)) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing", k);
    for (int k = 0; k < e->n_in; ++k) {
        const vn_tensor_t *t = e->in[k].t;
        if (!t && !e->in[k].v) continue;
        const vn_kind_t kind = t ? vn_dtype_kind(t->dtype) : VN_KIND_NONE;
        if (kind != VN_KIND_FLOAT && kind != VN_KIND_SIGNED && kind != VN_KIND_UNSIGNED)
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s, not a tensor of numbers", k,
                                t ? vn_dtype_name(t->dtype) : "a sequence or optional");
    }
    return VN_OK;
}

#endif
