/* op_contraction.c -- MatMul and Gemm with their fused forms; the table of the contraction family.
 *
 * Claims CONTRACT-1 to CONTRACT-9 (docs/claims.md); the arithmetic stands in product.c.
 */
#include <math.h>
#include <string.h>

#include "oracle/matmul.h"
#include "oracle/refine_product.h"
#include "oracle/require.h"

static vn_status_t infer_as(vn_eval_t *e, vn_dtype_t t, const vn_matmul_t *m) {
    e->out[0].dtype = t;
    e->out[0].rank = m->rank;
    memcpy(e->out[0].dims, m->dims, sizeof m->dims);
    return VN_OK;
}

static bool is_float(const vn_eval_t *e, int k) { return vn_dtype_is_float(e->in[k].t->dtype); }

static vn_matmul_form_t form_of(const vn_eval_t *e) {
    return (vn_matmul_form_t){.ta = vn_node_int(e->node, "transA", 0) != 0,
                              .tb = vn_node_int(e->node, "transB", 0) != 0,
                              .tba = vn_node_int(e->node, "transBatchA", 0) != 0,
                              .tbb = vn_node_int(e->node, "transBatchB", 0) != 0};
}

/* Exact products of an integer type, modulo 2^bits, as a plane of 64-bit integers. */
static vn_status_t integer_product(vn_eval_t *e, const vn_matmul_t *m, int64_t **out) {
    const vn_tensor_t *a = e->in[0].t, *b = e->in[1].t;
    const int64_t n = m->g.count * m->g.m * m->g.n;
    int64_t *x = vn_alloc((size_t)(a->count ? a->count : 1), sizeof *x), *y = vn_alloc((size_t)(b->count ? b->count : 1), sizeof *y);
    *out = vn_alloc((size_t)(n ? n : 1), sizeof **out);
    vn_status_t s = x && y && *out ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for integer planes");
    if (s == VN_OK) {
        vn_tensor_to_i64(a, x);
        vn_tensor_to_i64(b, y);
        vn_integer_batch(&m->g, x, y, *out);
    }
    vn_free(x);
    vn_free(y);
    return s;
}

static vn_status_t same_type(vn_eval_t *e) {
    VN_TRY(vn_require(e, 2));
    if (e->in[0].t->dtype != e->in[1].t->dtype)
        return vn_eval_fail(e, VN_ERR_DTYPE, "operands are %s and %s", vn_dtype_name(e->in[0].t->dtype), vn_dtype_name(e->in[1].t->dtype));
    if (!is_float(e, 0) && !vn_dtype_is_int(e->in[0].t->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "no products of %s", vn_dtype_name(e->in[0].t->dtype));
    return VN_OK;
}

/* ---- MatMul, FusedMatMul ---- */

static vn_status_t infer_matmul(vn_eval_t *e) {
    vn_matmul_t m;
    VN_TRY(vn_matmul_plan(e, 0, 1, form_of(e), false, &m));
    return infer_as(e, e->in[0].t->dtype, &m);
}

static vn_status_t float_product(vn_eval_t *e, const vn_matmul_t *m, double alpha, double beta, vn_bias_t *bias) {
    vn_factor_t a = {0}, b = {0};
    vn_product_t p;
    VN_TRY(vn_out_float(e, 0, e->in[0].t->dtype, m->rank, m->dims));
    vn_status_t s = vn_factor_input(e, 0, 0, &a);
    if (s == VN_OK) s = vn_factor_input(e, 1, 1, &b);
    if (s != VN_OK) {
        vn_factor_free(&a);
        vn_factor_free(&b);
        return s;
    }
    vn_batch_t g = m->g;
    if (bias) g.bias = *bias;
    if (e->refine) {
        s = vn_refine_batch(e, a.x, b.x, &g, alpha, beta);
        vn_factor_free(&a);
        vn_factor_free(&b);
        return s;
    }
    s = vn_product_begin(&p, e, &a, &b, m->g.k, alpha, beta, bias);
    if (s == VN_OK) s = vn_product_batch(&p, &g);
    vn_product_end(&p);
    return s;
}

static vn_status_t eval_matmul(vn_eval_t *e) {
    VN_TRY(same_type(e));
    vn_matmul_t m;
    VN_TRY(vn_matmul_plan(e, 0, 1, form_of(e), true, &m));
    vn_status_t s;
    if (is_float(e, 0)) {
        s = float_product(e, &m, vn_node_float(e->node, "alpha", 1), 1, NULL);
    } else {
        int64_t *c = NULL;
        s = integer_product(e, &m, &c);
        if (s == VN_OK) s = vn_out_exact(e, 0, e->in[0].t->dtype, m.rank, m.dims);
        for (int64_t i = 0; s == VN_OK && i < e->out[0].count; ++i) vn_tensor_set_i64(e->out[0].tensor, i, c[i]);
        vn_free(c);
    }
    vn_matmul_free(&m);
    return s;
}

/* ---- Gemm, FusedGemm ---- */

static vn_status_t gemm_plan(vn_eval_t *e, bool offsets, vn_matmul_t *m) {
    VN_TRY(vn_require(e, 2));
    for (int k = 0; k < 2; ++k)
        if (e->in[k].t->rank != 2) return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has rank %d, Gemm takes matrices", k, e->in[k].t->rank);
    vn_matmul_form_t f = form_of(e);
    f.tba = f.tbb = false;
    return vn_matmul_plan(e, 0, 1, f, offsets, m);
}

static vn_status_t infer_gemm(vn_eval_t *e) {
    vn_matmul_t m;
    VN_TRY(gemm_plan(e, false, &m));
    return infer_as(e, e->in[0].t->dtype, &m);
}

/* C broadcasts to [M, N] from one side only: strides of its rows and columns. */
static vn_status_t bias_strides(vn_eval_t *e, const vn_matmul_t *m, int64_t *rs, int64_t *cs) {
    const vn_tensor_t *c = e->in[2].t;
    const int64_t rows = c->rank > 1 ? c->dims[c->rank - 2] : 1, cols = c->rank > 0 ? c->dims[c->rank - 1] : 1;
    if (c->rank > 2 || (rows != 1 && rows != m->g.m) || (cols != 1 && cols != m->g.n)) {
        char text[96];
        vn_tensor_describe(c, text, sizeof text);
        return vn_eval_fail(e, VN_ERR_SHAPE, "C %s does not broadcast to [%lld,%lld]", text, (long long)m->g.m, (long long)m->g.n);
    }
    *rs = rows == 1 ? 0 : cols;
    *cs = cols == 1 ? 0 : 1;
    return VN_OK;
}

static vn_status_t integer_gemm(vn_eval_t *e, const vn_matmul_t *m, double alpha, double beta, int64_t rs, int64_t cs) {
    if (alpha != rint(alpha) || beta != rint(beta) || fabs(alpha) > 0x1p53 || fabs(beta) > 0x1p53)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "alpha %g and beta %g with integer matrices: the standard does not say how to round",
                            alpha, beta);
    int64_t *c = NULL;
    vn_status_t s = integer_product(e, m, &c);
    if (s == VN_OK) s = vn_out_exact(e, 0, e->in[0].t->dtype, m->rank, m->dims);
    for (int64_t i = 0; s == VN_OK && i < e->out[0].count; ++i) {
        uint64_t v = (uint64_t)(int64_t)alpha * (uint64_t)c[i];
        if (vn_has(e, 2) && beta != 0) v += (uint64_t)(int64_t)beta * (uint64_t)vn_arg_int(e, 2, i / m->g.n * rs + i % m->g.n * cs);
        vn_tensor_set_i64(e->out[0].tensor, i, (int64_t)v);
    }
    vn_free(c);
    return s;
}

/*
 * The text multiplies by alpha and by beta; BLAS does not read what a zero would multiply. They differ where it is not finite: with beta = 0
 * the value is BLAS's and a NaN is explainable, with alpha = 0 the value is NaN and beta C a reading.
 */
static vn_status_t gemm_zero_factors(vn_eval_t *e, int64_t n, double alpha, double beta, int64_t rs, int64_t cs) {
    vn_ref_t *r = &e->out[0];
    const double *c = vn_has(e, 2) ? vn_arg_f64(e, 2) : NULL;
    bool any = false;
    if (e->want < VN_WANT_BOUND) return VN_OK;
    if (vn_has(e, 2) && !c) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < r->count; ++i) {
        any |= alpha == 0 && isnan(r->value[i]);
        if (!c || beta != 0 || isfinite(c[i / n * rs + i % n * cs])) continue;
        VN_TRY(vn_out_flags(e, 0));
        r->flags[i] |= VN_EL_NAN_OK;
    }
    if (!any) return VN_OK;
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(r->dtype, r->rank, r->dims, &t, e->err));
    for (int64_t i = 0; i < r->count; ++i) vn_tensor_set_f64(t, i, c && beta != 0 ? beta * c[i / n * rs + i % n * cs] : 0);
    return vn_out_reading(e, 0, "alpha-zero-skips-product", t);
}

static vn_status_t eval_gemm(vn_eval_t *e) {
    VN_TRY(same_type(e));
    vn_matmul_t m;
    VN_TRY(gemm_plan(e, true, &m));
    const double alpha = vn_node_float(e->node, "alpha", 1), beta = vn_node_float(e->node, "beta", 1);
    int64_t rs = 0, cs = 0;
    vn_status_t s = vn_has(e, 2) ? bias_strides(e, &m, &rs, &cs) : VN_OK;
    if (s == VN_OK && !is_float(e, 0)) s = integer_gemm(e, &m, alpha, beta, rs, cs);
    if (s == VN_OK && is_float(e, 0)) {
        vn_bias_t bias = {0};
        const bool has = vn_has(e, 2) && beta != 0; /* beta = 0: C is not read */
        if (has) s = vn_bias_input(e, 2, &bias);
        bias.rs = rs;
        bias.cs = cs;
        if (s == VN_OK) s = float_product(e, &m, alpha, has ? beta : 1, has ? &bias : NULL);
        if (s == VN_OK && (alpha == 0 || beta == 0) && !e->refine) s = gemm_zero_factors(e, m.g.n, alpha, beta, rs, cs);
    }
    vn_matmul_free(&m);
    return s;
}

static vn_status_t eval_fused_gemm(vn_eval_t *e) {
    VN_TRY(eval_gemm(e));
    if (e->refine)
        return vn_refine_activation(e, vn_node_string(e->node, "activation", ""), vn_node_float(e->node, "activation_alpha", NAN), NULL);
    if (!e->out[0].value) return vn_eval_fail(e, VN_ERR_DTYPE, "FusedGemm of %s", vn_dtype_name(e->in[0].t->dtype));
    return vn_fused_activation(e, vn_node_string(e->node, "activation", ""), vn_node_float(e->node, "activation_alpha", NAN),
                               vn_node_float(e->node, "activation_beta", NAN));
}

/* ---- the family ---- */

enum { PR = VN_OP_PROPAGATES | VN_OP_REFINES };
static const vn_op_t rows[] = {
    {"", "MatMul", 1, 0, VN_CLASS_CONTRACTION, PR, "CONTRACT-1", eval_matmul, infer_matmul, 0},
    {"", "Gemm", 7, 0, VN_CLASS_CONTRACTION, PR, "CONTRACT-2", eval_gemm, infer_gemm, 0},
    {"", "MatMulInteger", 10, 0, VN_CLASS_EXACT, 0, "CONTRACT-10", vn_eval_matmul_integer, vn_infer_matmul_integer, 0},
    {"", "QLinearMatMul", 10, 0, VN_CLASS_QUANTISE, 0, "CONTRACT-11", vn_eval_qlinear_matmul, vn_infer_qlinear_matmul, 0},
    {"", "Einsum", 12, 0, VN_CLASS_CONTRACTION, VN_OP_PROPAGATES | VN_OP_REFINES, "CONTRACT-14", vn_eval_einsum, vn_infer_einsum, 0},
    {"com.microsoft", "FusedMatMul", 1, 0, VN_CLASS_CONTRACTION, PR, "CONTRACT-2", eval_matmul, infer_matmul, 0},
    {"com.microsoft", "TransposeMatMul", 1, 0, VN_CLASS_CONTRACTION, PR, "CONTRACT-2", eval_matmul, infer_matmul, 0},
    {"com.microsoft", "FusedGemm", 1, 0, VN_CLASS_CONTRACTION, PR, "CONTRACT-9", eval_fused_gemm, infer_gemm, 0},
    {"com.microsoft", "MatMulNBits", 1, 0, VN_CLASS_CONTRACTION, 0, "CONTRACT-13", vn_eval_matmul_nbits, vn_infer_matmul_nbits, 0},
    {"com.microsoft", "MatMulIntegerToFloat", 1, 0, VN_CLASS_CONTRACTION, 0, "CONTRACT-12", vn_eval_matmul_integer_to_float,
     vn_infer_matmul_integer_to_float, 0},
    {"com.microsoft", "DynamicQuantizeMatMul", 1, 0, VN_CLASS_CONTRACTION, 0, "CONTRACT-12", vn_eval_dynamic_quantize_matmul,
     vn_infer_dynamic_quantize_matmul, 0},
};
const vn_family_t vn_family_contraction = {"contraction", rows, sizeof rows / sizeof *rows};
