/* terms.c -- the summands behind single elements, for whoever wants to add them up in another order. */
#include <string.h>

#include "oracle/terms.h"

static const struct {
    const char *domain, *name;
    vn_terms_fn fn;
    vn_terms_after_t after;
} table[] = {
    {"", "MatMul", vn_terms_matmul, VN_AFTER_FACTOR},
    {"com.microsoft", "FusedMatMul", vn_terms_matmul, VN_AFTER_FACTOR},
    {"", "Gemm", vn_terms_gemm, VN_AFTER_FACTOR},
    {"", "Conv", vn_terms_conv, VN_AFTER_FACTOR},
    {"", "ConvTranspose", vn_terms_conv_transpose, VN_AFTER_FACTOR},
    {"", "Einsum", vn_terms_einsum, VN_AFTER_FACTOR},
    {"", "ReduceSum", vn_terms_reduce, VN_AFTER_FACTOR},
    {"", "ReduceL1", vn_terms_reduce, VN_AFTER_FACTOR},
    {"", "ReduceSumSquare", vn_terms_reduce, VN_AFTER_FACTOR},
    {"", "ReduceMean", vn_terms_reduce, VN_AFTER_FACTOR},
    {"", "ReduceL2", vn_terms_reduce, VN_AFTER_ROOT},
    {"", "ReduceLogSum", vn_terms_reduce, VN_AFTER_LOG},
    {"", "GlobalAveragePool", vn_terms_global_pool, VN_AFTER_FACTOR},
    {"", "CumSum", vn_terms_cumsum, VN_AFTER_FACTOR},
};

/* -1: no plain sum. */
static int find(const vn_node_t *n) {
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        if (strcmp(table[i].domain, n->domain) == 0 && strcmp(table[i].name, n->op) == 0) return (int)i;
    return -1;
}

struct vn_terms {
    vn_oracle_run_t run;
    vn_eval_t e;
    vn_contract_t contract, resolved;
    vn_terms_fn fn;
    vn_terms_after_t after;
    vn_arg_t *in;
    vn_tensor_t **contiguous;
    vn_ref_t *out;
};

vn_status_t vn_terms_open(const vn_model_t *m, const vn_node_t *n, const vn_value_t *const *inputs, const vn_contract_t *c,
                          vn_terms_t **out, vn_error_t *err) {
    *out = NULL;
    const int64_t version = vn_model_opset(m, n->domain);
    const int row = find(n);
    if (row < 0) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s is no plain sum", n->op);
    vn_terms_t *t = vn_alloc(1, sizeof *t);
    const size_t ni = (size_t)n->n_inputs + 1;
    if (!t || !(t->in = vn_alloc(ni, sizeof *t->in)) || !(t->contiguous = vn_alloc(ni, sizeof *t->contiguous)) ||
        !(t->out = vn_alloc((size_t)n->n_outputs + 1, sizeof *t->out))) {
        vn_terms_close(t);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    t->fn = table[row].fn;
    t->after = table[row].after;
    t->contract = *c;
    t->run = (vn_oracle_run_t){.model = m, .contract = &t->contract, .opsets = m->opsets, .n_opsets = m->n_opsets, .prefix = ""};
    t->e = (vn_eval_t){.model = m,
                       .node = n,
                       .version = version,
                       .contract = &t->resolved,
                       .n_in = n->n_inputs,
                       .n_out = n->n_outputs,
                       .in = t->in,
                       .out = t->out,
                       .run = &t->run};
    vn_dtype_t main_type = VN_F32;
    vn_status_t s = VN_OK;
    for (int k = 0; k < n->n_inputs && s == VN_OK; ++k) {
        if (!inputs[k] || inputs[k]->kind != VN_VALUE_TENSOR) continue;
        s = vn_tensor_contiguous(inputs[k]->tensor, &t->contiguous[k], err);
        t->in[k].t = t->contiguous[k];
        t->in[k].v = inputs[k];
    }
    for (int k = n->n_inputs - 1; k >= 0; --k)
        if (t->in[k].t && vn_dtype_is_float(t->in[k].t->dtype)) main_type = t->in[k].t->dtype;
    t->resolved = vn_contract_resolve(c, main_type);
    if (s != VN_OK) {
        vn_terms_close(t);
        return s;
    }
    *out = t;
    return VN_OK;
}

vn_status_t vn_terms_get(vn_terms_t *t, int k, int64_t element, double *out, int64_t max, int64_t *n, vn_error_t *err) {
    t->e.err = err;
    *n = 0;
    return t->fn(&t->e, k, element, out, max, n);
}

vn_terms_after_t vn_terms_after(const vn_terms_t *t) { return t->after; }

void vn_terms_close(vn_terms_t *t) {
    if (!t) return;
    for (int k = 0; t->in && k < t->e.n_in; ++k) {
        vn_arg_clear(&t->in[k]);
        if (t->contiguous) vn_tensor_free(t->contiguous[k]);
    }
    for (int k = 0; t->out && k < t->e.n_out; ++k) vn_ref_free(&t->out[k]);
    vn_free(t->in);
    vn_free(t->contiguous);
    vn_free(t->out);
    vn_free(t);
}
