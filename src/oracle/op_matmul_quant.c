/* op_matmul_quant.c -- products of quantised matrices: MatMulInteger, QLinearMatMul, MatMulIntegerToFloat, DynamicQuantizeMatMul.
 *
 * The integer sums are exact: |a - za| < 2^9, |b - zb| < 2^9 and K < 2^35, so every partial sum is an integer below 2^53 whatever the
 * order (claim CONTRACT-10). CONTRACT-11: requantised codes; CONTRACT-12: sums scaled back to floating point.
 */
#include <math.h>
#include <string.h>

#include "oracle/matmul.h"
#include "oracle/requant.h"
#include "oracle/require.h"

/* ---- integer sums ---- */

typedef struct sums {
    vn_matmul_t m;
    double *a, *b, *c; /* operands less their zero points; exact sums [count, m, n] */
} sums_t;

static void sums_free(sums_t *s) {
    vn_matmul_free(&s->m);
    vn_free(s->a);
    vn_free(s->b);
    vn_free(s->c);
    *s = (sums_t){0};
}

typedef struct product_job {
    const vn_batch_t *g;
    const double *a, *b;
    double *c;
} product_job_t;

static void product_range(void *ctx, int64_t begin, int64_t end) {
    const product_job_t *j = ctx;
    const vn_batch_t *g = j->g;
    for (int64_t z = begin; z < end; ++z)
        vn_dgemm(g->m, g->n, g->k, j->a + g->a_off[z], g->lda, g->ta, j->b + g->b_off[z], g->ldb, g->tb, j->c + z * g->m * g->n, g->n,
                 false);
}

/* Element number of a per-row (left) or per-column parameter that belongs to element i of operand x; -1 if the shapes do not fit. */
static int64_t parameter_index(const vn_tensor_t *p, const vn_tensor_t *x, bool left, int64_t i) {
    if (p->count == 1) return 0;
    const int64_t cols = x->rank > 1 ? x->dims[x->rank - 1] : left ? x->dims[0] : 1;
    const int64_t rows = x->rank > 1 ? x->dims[x->rank - 2] : left ? 1 : x->dims[0];
    const int64_t row = i / cols % rows, col = i % cols;
    if (p->rank == 1) return p->count != (left ? rows : cols) ? -1 : left ? row : col;
    if (p->rank != x->rank) return -1;
    int64_t index = 0, step = 1, rest = i;
    for (int d = x->rank - 1; d >= 0; --d) {
        const int64_t at = rest % x->dims[d];
        rest /= x->dims[d];
        if (p->dims[d] != 1 && p->dims[d] != x->dims[d]) return -1;
        if (p->dims[d] != 1) index += at * step;
        step *= p->dims[d];
    }
    return index;
}

/* Plane of operand k with zero point kz (absent: 0) taken off. */
static vn_status_t centred(vn_eval_t *e, int k, int kz, bool left, double **out) {
    const vn_tensor_t *x = e->in[k].t;
    if (!vn_dtype_is_int(x->dtype) || vn_dtype_bits(x->dtype) > 8)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "input %d is %s; quantised products are done for integers of at most 8 bits", k,
                            vn_dtype_name(x->dtype));
    *out = vn_alloc((size_t)(x->count ? x->count : 1), sizeof **out);
    if (!*out) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld operands", (long long)x->count);
    vn_tensor_to_f64(x, *out);
    if (!vn_has(e, kz)) return VN_OK;
    const vn_tensor_t *z = e->in[kz].t;
    const double *zero = vn_arg_f64(e, kz);
    if (!zero) return VN_ERR_NOMEM;
    for (int64_t i = 0; i < x->count; ++i) {
        const int64_t at = parameter_index(z, x, left, i);
        if (at < 0)
            return vn_eval_fail(e, VN_ERR_SHAPE, "the zero point (input %d) fits neither the whole, nor the %s of input %d", kz,
                                left ? "rows" : "columns", k);
        (*out)[i] -= zero[at];
    }
    return VN_OK;
}

static vn_status_t exact_sums(vn_eval_t *e, int ka, int kza, int kb, int kzb, sums_t *s) {
    *s = (sums_t){0};
    VN_TRY(vn_require(e, (ka > kb ? ka : kb) + 1));
    vn_status_t st = vn_matmul_plan(e, ka, kb, (vn_matmul_form_t){0}, true, &s->m);
    const vn_batch_t *g = &s->m.g;
    if (st == VN_OK && g->k >= INT64_C(1) << 35) st = vn_eval_fail(e, VN_ERR_RANGE, "%lld terms", (long long)g->k);
    if (st == VN_OK) st = centred(e, ka, kza, true, &s->a);
    if (st == VN_OK) st = centred(e, kb, kzb, false, &s->b);
    if (st == VN_OK) {
        const int64_t n = g->count * g->m * g->n;
        s->c = vn_alloc((size_t)(n ? n : 1), sizeof *s->c);
        if (!s->c) st = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld sums", (long long)n);
    }
    if (st == VN_OK) {
        product_job_t job = {g, s->a, s->b, s->c};
        if (g->count == 1) product_range(&job, 0, 1);
        else vn_parallel(g->count, 1 + (int64_t)(0x1p20 / ((double)g->m * (double)g->n * (double)g->k + 1)), product_range, &job);
    }
    if (st != VN_OK) sums_free(s);
    return st;
}

static vn_status_t infer_plan(vn_eval_t *e, int ka, int kb, vn_dtype_t t) {
    vn_matmul_t m;
    VN_TRY(vn_matmul_plan(e, ka, kb, (vn_matmul_form_t){0}, false, &m));
    e->out[0].dtype = t;
    e->out[0].rank = m.rank;
    memcpy(e->out[0].dims, m.dims, sizeof m.dims);
    return VN_OK;
}

vn_status_t vn_infer_matmul_integer(vn_eval_t *e) { return infer_plan(e, 0, 1, VN_I32); }

vn_status_t vn_eval_matmul_integer(vn_eval_t *e) {
    sums_t s;
    VN_TRY(exact_sums(e, 0, 2, 1, 3, &s));
    vn_status_t st = vn_out_exact(e, 0, VN_I32, s.m.rank, s.m.dims);
    int32_t *out = st == VN_OK ? e->out[0].tensor->data : NULL;
    for (int64_t i = 0; out && i < e->out[0].count; ++i) out[i] = (int32_t)(uint32_t)(uint64_t)(int64_t)s.c[i]; /* wraps in 32 bits */
    e->out[0].terms = s.m.g.k;
    sums_free(&s);
    return st;
}

/* ---- scales ---- */

/* Scale that belongs to result row / column: scalar, per row (left) or per column, or an array of the result's rank. */
static vn_status_t scale_at(vn_eval_t *e, int k, bool left, const vn_matmul_t *m, int64_t i, double *out) {
    const vn_tensor_t *p = e->in[k].t;
    const double *v = vn_arg_f64(e, k);
    if (!v) return VN_ERR_NOMEM;
    const int64_t rows = m->rows, cols = m->g.n, row = i / cols % rows, col = i % cols;
    int64_t index = -1;
    if (p->count == 1) index = 0;
    else if (p->rank == 1 && p->count == (left ? rows : cols)) index = left ? row : col;
    else if (p->rank >= 2 && left && p->dims[p->rank - 1] == 1 && p->count == m->matrices * rows) index = i / cols;
    else if (p->rank >= 2 && left && p->dims[p->rank - 1] == 1 && p->count == p->dims[p->rank - 2]) index = row % p->count;
    else if (p->rank >= 2 && !left && p->dims[p->rank - 2] == 1 && p->count == cols) index = col;
    else if (p->rank >= 2 && !left && p->dims[p->rank - 2] == 1 && p->count == m->matrices * cols) index = i / (rows * cols) * cols + col;
    if (index < 0)
        return vn_eval_fail(e, VN_ERR_SHAPE, "the scale or zero point of input %d fits neither the whole nor the %s", k,
                            left ? "rows" : "columns");
    *out = v[index];
    return VN_OK;
}

vn_status_t vn_infer_qlinear_matmul(vn_eval_t *e) {
    VN_TRY(vn_require(e, 8));
    return infer_plan(e, 0, 3, e->in[7].t->dtype);
}

vn_status_t vn_eval_qlinear_matmul(vn_eval_t *e) {
    VN_TRY(vn_require(e, 8));
    const vn_dtype_t t = e->in[7].t->dtype;
    if (!vn_dtype_is_int(t) || vn_dtype_bits(t) > 8)
        return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "a result of type %s; quantised products are done for integers of at most 8 bits",
                            vn_dtype_name(t));
    sums_t s;
    VN_TRY(exact_sums(e, 0, 2, 3, 5, &s));
    const double u = vn_u(e);
    double lo, hi;
    vn_code_range(t, &lo, &hi);
    vn_status_t st = vn_out_exact(e, 0, t, s.m.rank, s.m.dims);
    if (st == VN_OK) st = vn_out_either(e, 0);
    for (int64_t i = 0; st == VN_OK && i < e->out[0].count; ++i) {
        double sa, sb, sy, zy, code, other;
        if ((st = scale_at(e, 1, true, &s.m, i, &sa)) != VN_OK || (st = scale_at(e, 4, false, &s.m, i, &sb)) != VN_OK) break;
        if ((st = scale_at(e, 6, true, &s.m, i, &sy)) != VN_OK || (st = scale_at(e, 7, true, &s.m, i, &zy)) != VN_OK) break;
        const double v = s.c[i] * sa * sb / sy;
        vn_requant(v, (fabs(s.c[i]) > 1 / u ? 5 : 4) * u * fabs(v), zy, lo, hi, &code, &other);
        vn_tensor_set_i64(e->out[0].tensor, i, (int64_t)code);
        vn_tensor_set_i64(e->out[0].either, i, (int64_t)other);
    }
    e->out[0].terms = s.m.g.k;
    sums_free(&s);
    return st;
}

/* ---- back to floating point ---- */

vn_status_t vn_infer_matmul_integer_to_float(vn_eval_t *e) {
    VN_TRY(vn_require(e, 4));
    return infer_plan(e, 0, 1, e->in[2].t->dtype);
}

/*
 * y = sum * (sa sb) + bias. Claim CONTRACT-12: the sum is converted (u if |sum| > 2^p), the scales are multiplied in either order (2u),
 * the bias is added (u of the result): E = g(k) |v| + u (|v| (1+g) + |bias|) + eta, k = 2 or 3, and `more` where scales are
 * rounded themselves. uncertain: sums of sa |b - zb| over codes in doubt.
 */
static vn_status_t scale_back(vn_eval_t *e, const sums_t *s, int k_sa, const double *sa_given, int k_sb, int k_bias, int more,
                              const double *uncertain, vn_dtype_t t) {
    VN_TRY(vn_out_float(e, 0, t, s->m.rank, s->m.dims));
    vn_ref_t *r = &e->out[0];
    const double u = vn_u(e), eta = e->contract->ftz ? vn_tau(e) : vn_eta(e);
    const double *bias = vn_has(e, k_bias) ? vn_arg_f64(e, k_bias) : NULL;
    if (bias && e->in[k_bias].t->count != s->m.g.n)
        return vn_eval_fail(e, VN_ERR_SHAPE, "bias of %lld elements for %lld columns", (long long)e->in[k_bias].t->count,
                            (long long)s->m.g.n);
    r->terms = s->m.g.k;
    for (int64_t i = 0; i < r->count; ++i) {
        double sa, sb;
        if (sa_given) sa = *sa_given;
        else VN_TRY(scale_at(e, k_sa, true, &s->m, i, &sa));
        VN_TRY(scale_at(e, k_sb, false, &s->m, i, &sb));
        const double v = s->c[i] * sa * sb, c = bias ? bias[i % s->m.g.n] : 0;
        r->value[i] = v + c;
        const double g = vn_gamma((fabs(s->c[i]) > 1 / u ? 3 : 2) + more, u);
        if (r->bound) {
            r->bound[i] =
                v == 0 && !uncertain
                    ? 0
                    : (g * fabs(v) + (bias ? u * (fabs(v) * (1 + g) + fabs(c)) : 0) + 2 * eta * (1 + fabs(s->c[i]))) * (1 + 0x1p-50);
            if (uncertain) r->bound[i] += uncertain[i] * fabs(sb) * (1 + 8 * u);
        }
        if (r->var)
            r->var[i] =
                0.18 * u * u * (2 * v * v + (bias ? (v + c) * (v + c) : 0)) + (uncertain ? uncertain[i] * uncertain[i] * sb * sb / 3 : 0);
    }
    return VN_OK;
}

vn_status_t vn_eval_matmul_integer_to_float(vn_eval_t *e) {
    VN_TRY(vn_require(e, 4));
    if (!vn_dtype_is_float(e->in[2].t->dtype)) return vn_eval_fail(e, VN_ERR_DTYPE, "a scale of type %s", vn_dtype_name(e->in[2].t->dtype));
    sums_t s;
    VN_TRY(exact_sums(e, 0, 4, 1, 5, &s));
    const vn_status_t st = scale_back(e, &s, 2, NULL, 3, 6, 0, NULL, e->in[2].t->dtype);
    sums_free(&s);
    return st;
}

vn_status_t vn_infer_dynamic_quantize_matmul(vn_eval_t *e) { return infer_plan(e, 0, 1, VN_F32); }

typedef struct quantised {
    double scale;
    vn_tensor_t *codes; /* u8, less nothing */
    double zero;
    double *doubt; /* 1 where the code may be its neighbour, else 0 */
} quantised_t;

/*
 * DynamicQuantizeLinear of A in f32: scale = (max - min) / 255 over a range widened to hold 0; zero = round(-min / scale). A code whose
 * quotient lies within 2u of a tie may be its neighbour; where clipping may act under the neighbouring zero point it may be, too.
 */
static vn_status_t quantise_dynamic(vn_eval_t *e, quantised_t *q) {
    const vn_tensor_t *a = e->in[0].t;
    *q = (quantised_t){0};
    if (a->dtype != VN_F32) return vn_eval_fail(e, VN_ERR_DTYPE, "dynamic quantisation of %s", vn_dtype_name(a->dtype));
    const double *x = vn_arg_f64(e, 0), u = 0x1p-24;
    if (!x) return VN_ERR_NOMEM;
    double min = 0, max = 0;
    for (int64_t i = 0; i < a->count; ++i) {
        if (!isfinite(x[i]))
            return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "dynamic quantisation of NaN or infinity: the standard gives no codes");
        min = fmin(min, x[i]);
        max = fmax(max, x[i]);
    }
    const float range = (float)max - (float)min;
    q->scale = max == min ? 1 : (double)(range / 255.0f);
    const double exact_zero = -min / q->scale;
    q->zero = fmin(fmax(rint((double)((float)-min / (float)q->scale)), 0), 255);
    const bool open_zero = fabs(exact_zero - floor(exact_zero) - 0.5) <= 4 * u * fabs(exact_zero);
    VN_TRY(vn_tensor_new(VN_U8, a->rank, a->dims, &q->codes, e->err));
    q->doubt = vn_alloc((size_t)(a->count ? a->count : 1), sizeof *q->doubt);
    if (!q->doubt) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t i = 0; i < a->count; ++i) {
        const double v = x[i] / q->scale;
        double code, other;
        vn_requant(v, 4 * u * fabs(v), q->zero, 0, 255, &code, &other);
        vn_tensor_set_i64(q->codes, i, (int64_t)code);
        const double wide = rint(v) + q->zero;
        q->doubt[i] = code != other || (open_zero && (wide <= 0 || wide >= 255));
    }
    return VN_OK;
}

vn_status_t vn_eval_dynamic_quantize_matmul(vn_eval_t *e) {
    VN_TRY(vn_require(e, 3));
    quantised_t q;
    sums_t s = {0};
    vn_status_t st = quantise_dynamic(e, &q);
    if (st == VN_OK) { /* the codes take the place of operand 0 */
        vn_tensor_t zero_t = {.dtype = VN_U8, .rank = 0, .count = 1, .data = &(uint8_t){(uint8_t)q.zero}, .refs = 1};
        const int nb = 3; /* b_zero_point */
        vn_arg_t in[4] = {{.t = q.codes}, e->in[1], {.t = &zero_t}, vn_has(e, nb) ? e->in[nb] : (vn_arg_t){0}};
        vn_eval_t sub = *e;
        sub.in = in;
        sub.n_in = 4;
        st = exact_sums(&sub, 0, 2, 1, 3, &s);
        if (in[2].owned) vn_free(in[2].value);
        if (vn_has(e, nb)) e->in[nb] = in[3]; /* a plane made on the way stays with its operand */
    }
    double *doubt = NULL;
    if (st == VN_OK && e->want >= VN_WANT_BOUND) { /* sum over doubtful codes of sa |b - zb| */
        const vn_batch_t *g = &s.m.g;
        const int64_t n = g->count * g->m * g->n;
        doubt = vn_alloc((size_t)(n ? n : 1), sizeof *doubt);
        if (!doubt) st = vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
        for (int64_t z = 0; st == VN_OK && z < g->count; ++z)
            st = vn_abs_gemm_upper(g->m, g->n, g->k, q.doubt + g->a_off[z], g->lda, g->ta, s.b + g->b_off[z], g->ldb, g->tb,
                                   doubt + z * g->m * g->n, g->n, false);
        for (int64_t i = 0; st == VN_OK && i < n; ++i) doubt[i] *= q.scale;
    }
    /* The scale itself may differ by its last bits (a reciprocal instead of a quotient): 2u more. */
    if (st == VN_OK) st = scale_back(e, &s, -1, &q.scale, 2, 4, 2, doubt, VN_F32);
    sums_free(&s);
    vn_free(doubt);
    vn_free(q.doubt);
    vn_tensor_free(q.codes);
    return st;
}
