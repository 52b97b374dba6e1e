/* op_ms_qgemm.c -- integer products of com.microsoft with other frames than the standard's: QGemm, MatMulInteger16.
 *
 * Claim MS-8  QGemm: acc = sum (a - za)(b - zb) + c is an exact integer (below 2^53 for K < 2^35). Without y_scale the result is acc alpha sa sb:
 *             E = g(k)|y| + eta, k = 4 (two products of scales, conversion of acc, product); with it, code = round(v) + zy, v = acc alpha sa sb /
 *             sy, window g(6) (|v| + |zy|). A kernel sums in 32 bits: an acc beyond them says nothing (void).
 * Claim MS-9  MatMulInteger16: sums of 16-bit products, exact, modulo 2^32.
 */
#include <math.h>
#include <string.h>

#include "oracle/matmul.h"
#include "oracle/ms.h"
#include "oracle/require.h"

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C, Y_SCALE, Y_ZERO };

typedef struct qgemm {
    int64_t m, n, k;
    bool ta, tb, coded;
    int64_t c_row, c_col; /* steps of C */
    double *a, *b, *acc;
} qgemm_t;

static vn_status_t plan(vn_eval_t *e, qgemm_t *g) {
    *g = (qgemm_t){.ta = vn_node_int(e->node, "transA", 0) != 0, .tb = vn_node_int(e->node, "transB", 0) != 0};
    VN_TRY(vn_require(e, B_ZERO + 1));
    const vn_tensor_t *a = e->in[A].t, *b = e->in[B].t;
    if (a->rank != 2 || b->rank != 2) return vn_eval_fail(e, VN_ERR_SHAPE, "matrices are needed, not ranks %d and %d", a->rank, b->rank);
    g->m = a->dims[g->ta];
    g->k = a->dims[!g->ta];
    g->n = b->dims[!g->tb];
    if (b->dims[g->tb] != g->k)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld columns of A meet %lld rows of B", (long long)g->k, (long long)b->dims[g->tb]);
    if (g->k >= INT64_C(1) << 35) return vn_eval_fail(e, VN_ERR_RANGE, "%lld terms", (long long)g->k);
    g->coded = vn_has(e, Y_SCALE);
    if (g->coded != vn_has(e, Y_ZERO)) return vn_eval_fail(e, VN_ERR_USAGE, "y_scale and y_zero_point belong together");
    for (int x = 0; x < 2; ++x) {
        const vn_tensor_t *t = x ? b : a;
        if (!vn_dtype_is_int(t->dtype) || vn_dtype_bits(t->dtype) > 8)
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s; 8-bit codes are needed", x ? (int)B : (int)A, vn_dtype_name(t->dtype));
    }
    if (!vn_has(e, C)) return VN_OK;
    const vn_tensor_t *c = e->in[C].t;
    const int64_t rows = c->rank > 1 ? c->dims[c->rank - 2] : 1, cols = c->rank > 0 ? c->dims[c->rank - 1] : 1;
    if (c->dtype != VN_I32 || c->rank > 2 || (rows != 1 && rows != g->m) || (cols != 1 && cols != g->n))
        return vn_eval_fail(e, VN_ERR_SHAPE, "C must be 32-bit integers that broadcast to %lld x %lld", (long long)g->m, (long long)g->n);
    g->c_row = rows == 1 ? 0 : cols;
    g->c_col = cols == 1 ? 0 : 1;
    return VN_OK;
}

/* Entry of a scalar, or of one that every column has. */
static vn_status_t per_column(vn_eval_t *e, int k, int64_t n, const double **at, int64_t *step) {
    const int64_t count = e->in[k].t->count;
    if (count != 1 && (count != n || k == A_SCALE || k == A_ZERO))
        return vn_eval_fail(e, VN_ERR_SHAPE, "input %d has %lld entries for %lld columns", k, (long long)count, (long long)n);
    *step = count == 1 ? 0 : 1;
    *at = vn_arg_f64(e, k);
    return *at ? VN_OK : VN_ERR_NOMEM;
}

static vn_status_t sums(vn_eval_t *e, qgemm_t *g) {
    int64_t cells, step, none;
    const double *zb, *za, *a = vn_arg_f64(e, A), *b = vn_arg_f64(e, B);
    VN_TRY(per_column(e, B_ZERO, g->n, &zb, &step));
    VN_TRY(per_column(e, A_ZERO, 1, &za, &none));
    if (!a || !b) return VN_ERR_NOMEM;
    if (!vn_i64_mul(g->m, g->n, &cells)) return vn_eval_fail(e, VN_ERR_RANGE, "too many results");
    const int64_t na = e->in[A].t->count, nb = e->in[B].t->count;
    g->a = vn_alloc((size_t)na + 1, sizeof *g->a);
    g->b = vn_alloc((size_t)nb + 1, sizeof *g->b);
    g->acc = vn_alloc((size_t)cells + 1, sizeof *g->acc);
    if (!g->a || !g->b || !g->acc) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld sums", (long long)cells);
    for (int64_t i = 0; i < na; ++i) g->a[i] = a[i] - za[0];
    for (int64_t i = 0; g->k > 0 && g->n > 0 && i < nb; ++i) g->b[i] = b[i] - zb[step * (g->tb ? i / g->k : i % g->n)];
    if (cells && g->k) vn_dgemm(g->m, g->n, g->k, g->a, g->ta ? g->m : g->k, g->ta, g->b, g->tb ? g->k : g->n, g->tb, g->acc, g->n, false);
    for (int64_t i = 0; vn_has(e, C) && g->n > 0 && i < cells; ++i)
        g->acc[i] += (double)vn_arg_int(e, C, i / g->n * g->c_row + i % g->n * g->c_col);
    return VN_OK;
}

static vn_status_t results(vn_eval_t *e, const qgemm_t *g) {
    const int64_t dims[2] = {g->m, g->n};
    const double *sa, *sb, alpha = vn_node_float(e->node, "alpha", 1), u = vn_u(e);
    int64_t step, none;
    VN_TRY(per_column(e, A_SCALE, 1, &sa, &none));
    VN_TRY(per_column(e, B_SCALE, g->n, &sb, &step));
    vn_coded_t out = {0};
    vn_codes_t y = {.scale = 1};
    if (g->coded) {
        VN_TRY(vn_ms_codes(e, -1, Y_SCALE, Y_ZERO, &y));
        VN_TRY(vn_ms_out(e, 0, e->in[Y_ZERO].t->dtype, y.zero, 2, dims, &out));
    } else {
        VN_TRY(vn_out_float(e, 0, VN_F32, 2, dims));
        out.flags = (vn_flagger_t){.e = e, .k = 0};
    }
    vn_ref_t *r = &e->out[0];
    r->terms = g->k;
    for (int64_t i = 0; i < r->count; ++i) {
        const double v = g->acc[i] * (alpha * sa[0] * sb[step * (i % g->n)]) / y.scale;
        const bool fits = fabs(g->acc[i]) < 0x1p31;
        if (g->coded) {
            vn_ms_put(&out, i, v, fits ? vn_gamma(6, u) * (fabs(v) + fabs(y.zero)) : INFINITY);
            continue;
        }
        r->value[i] = v;
        if (r->bound) r->bound[i] = v == 0 ? 0 : vn_gamma(4, u) * fabs(v) + vn_eta(e) * (1 + fabs(g->acc[i]));
        if (r->var) r->var[i] = 0.18 * u * u * 4 * v * v;
        if (!fits) vn_flag(&out.flags, i, VN_EL_VOID);
    }
    return vn_ms_done(e, &out);
}

vn_status_t vn_eval_ms_qgemm(vn_eval_t *e) {
    qgemm_t g;
    VN_TRY(plan(e, &g));
    vn_status_t s = sums(e, &g);
    if (s == VN_OK) s = results(e, &g);
    vn_free(g.a);
    vn_free(g.b);
    vn_free(g.acc);
    return s;
}

vn_status_t vn_infer_ms_qgemm(vn_eval_t *e) {
    qgemm_t g;
    VN_TRY(plan(e, &g));
    e->out[0].dtype = g.coded ? e->in[Y_ZERO].t->dtype : VN_F32;
    e->out[0].rank = 2;
    e->out[0].dims[0] = g.m;
    e->out[0].dims[1] = g.n;
    return VN_OK;
}

/* ---- MatMulInteger16 ---- */

static vn_status_t check16(vn_eval_t *e) {
    VN_TRY(vn_require(e, 2));
    for (int k = 0; k < 2; ++k)
        if (e->in[k].t->dtype != VN_I16 && e->in[k].t->dtype != VN_U16)
            return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s; 16-bit integers are needed", k, vn_dtype_name(e->in[k].t->dtype));
    return VN_OK;
}

vn_status_t vn_eval_ms_matmul_integer16(vn_eval_t *e) {
    vn_matmul_t m;
    VN_TRY(check16(e));
    VN_TRY(vn_matmul_plan(e, 0, 1, (vn_matmul_form_t){0}, true, &m));
    const vn_tensor_t *ta = e->in[0].t, *tb = e->in[1].t;
    const bool is_unsigned = ta->dtype == VN_U16 && tb->dtype == VN_U16;
    int64_t n;
    vn_status_t s = vn_i64_mul(m.g.count * m.g.m, m.g.n, &n) ? VN_OK : vn_eval_fail(e, VN_ERR_RANGE, "too many results");
    int64_t *a = NULL, *b = NULL, *c = NULL;
    if (s == VN_OK) {
        a = vn_alloc((size_t)ta->count + 1, sizeof *a);
        b = vn_alloc((size_t)tb->count + 1, sizeof *b);
        c = vn_alloc((size_t)n + 1, sizeof *c);
        if (!a || !b || !c) s = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld sums", (long long)n);
    }
    if (s == VN_OK) {
        vn_tensor_to_i64(ta, a);
        vn_tensor_to_i64(tb, b);
        vn_integer_batch(&m.g, a, b, c);
        s = vn_out_exact(e, 0, is_unsigned ? VN_U32 : VN_I32, m.rank, m.dims);
    }
    int32_t *out = s == VN_OK ? e->out[0].tensor->data : NULL;
    for (int64_t i = 0; out && i < e->out[0].count; ++i) out[i] = (int32_t)(uint32_t)(uint64_t)c[i]; /* wraps in 32 bits */
    e->out[0].terms = m.g.k;
    vn_free(a);
    vn_free(b);
    vn_free(c);
    vn_matmul_free(&m);
    return s;
}

vn_status_t vn_infer_ms_matmul_integer16(vn_eval_t *e) {
    vn_matmul_t m;
    VN_TRY(check16(e));
    VN_TRY(vn_matmul_plan(e, 0, 1, (vn_matmul_form_t){0}, false, &m));
    e->out[0].dtype = e->in[0].t->dtype == VN_U16 && e->in[1].t->dtype == VN_U16 ? VN_U32 : VN_I32;
    e->out[0].rank = m.rank;
    memcpy(e->out[0].dims, m.dims, sizeof m.dims);
    return VN_OK;
}
