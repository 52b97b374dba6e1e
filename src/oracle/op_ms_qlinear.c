/* op_ms_qlinear.c -- elementwise operators on 8-bit codes: QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu, QLinearWhere, QLinearConcat.
 *
 * Codes stand for real = (code - zero) scale. The exact real result over the scale of the output is v; the code is round(v) + zero within the
 * requantise window (REQUANT-1). Kernels fold scales and zero points into constants, or go through tables of 256 results, so each
 * window counts the roundings of the worst of these forms, magnitudes of codes and zero points included:
 * Claim MS-2  QLinearAdd   g(6) [sa/sc (|a| + |za|) + sb/sc (|b| + |zb|) + |zc|]: ratio, product, four sums.
 * Claim MS-3  QLinearMul   g(5) (|v| + |zc|): two operations on the scales, product, sum; the product of the differences is exact.
 * Claim MS-4  QLinearSigmoid, QLinearLeakyRelu, by table: x = (code - zx) sx is off by u|x|, f by its budget (t ulp + c u), so
 *             E = sup|f'| u|x| + 2 t u |f| + c u, and the window is E/sy + g(3) (|v| + |zy|).
 * Claim MS-5  QLinearWhere, QLinearConcat: v = (x - zx) sx / sy, window g(4) (|v| + |zy|); equal scales and zero points change nothing.
 */
#include <math.h>
#include <string.h>

#include "oracle/ms.h"
#include "oracle/requant.h"
#include "oracle/require.h"

static bool is_code(vn_dtype_t t) { return t == VN_U8 || t == VN_I8; }

static vn_status_t one_number(vn_eval_t *e, int k, double *out) {
    if (!vn_has(e, k)) {
        *out = 0;
        return VN_OK;
    }
    const vn_tensor_t *t = e->in[k].t;
    if (!t || t->count != 1)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input %d must be one number: codes have one scale and one zero point", k);
    *out = vn_tensor_get_f64(t, 0);
    return VN_OK;
}

vn_status_t vn_ms_codes(vn_eval_t *e, int k, int k_scale, int k_zero, vn_codes_t *out) {
    *out = (vn_codes_t){0};
    if (!vn_has(e, k_scale)) return vn_eval_fail(e, VN_ERR_USAGE, "input %d, a scale, is missing", k_scale);
    VN_TRY(one_number(e, k_scale, &out->scale));
    VN_TRY(one_number(e, k_zero, &out->zero));
    if (k < 0) return VN_OK;
    if (!vn_has(e, k)) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing", k);
    out->t = e->in[k].t;
    if (!is_code(out->t->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s; 8-bit codes are needed", k, vn_dtype_name(out->t->dtype));
    out->code = vn_arg_f64(e, k);
    return out->code ? VN_OK : VN_ERR_NOMEM;
}

vn_status_t vn_ms_out(vn_eval_t *e, int k, vn_dtype_t t, double zero, int rank, const int64_t *dims, vn_coded_t *out) {
    VN_TRY(vn_out_exact(e, k, t, rank, dims));
    VN_TRY(vn_out_either(e, k));
    *out = (vn_coded_t){.r = &e->out[k], .zero = zero, .flags = {.e = e, .k = k}};
    vn_code_range(t, &out->lo, &out->hi);
    return VN_OK;
}

void vn_ms_put(vn_coded_t *c, int64_t i, double v, double window) {
    double code, other;
    vn_requant(v, window, c->zero, c->lo, c->hi, &code, &other);
    const double down = fmin(fmax(rint(v - window) + c->zero, c->lo), c->hi);
    const double third = fmin(fmax(rint(v + window) + c->zero, c->lo), c->hi);
    const bool many = (down != code && third != code && down != third) || fabs(third - down) > 1;
    if (many || !(window < INFINITY) || isnan(v)) vn_flag(&c->flags, i, VN_EL_VOID);
    vn_tensor_set_i64(c->r->tensor, i, (int64_t)code);
    vn_tensor_set_i64(c->r->either, i, (int64_t)other);
}

vn_status_t vn_ms_done(vn_eval_t *e, const vn_coded_t *c) {
    return c->flags.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for flags") : VN_OK;
}

/* ---- two operands ---- */

enum { A, A_SCALE, A_ZERO, B, B_SCALE, B_ZERO, C_SCALE, C_ZERO };

typedef struct pair {
    vn_codes_t a, b, c;
    bool product;
    double u;
    vn_coded_t out;
} pair_t;

static void pair_piece(void *ctx, const vn_piece_t *p) {
    pair_t *j = ctx;
    const double ra = j->a.scale / j->c.scale, rb = j->b.scale / j->c.scale, zc = fabs(j->c.zero);
    const double all = j->a.scale * j->b.scale / j->c.scale, g_add = vn_gamma(6, j->u), g_mul = vn_gamma(5, j->u);
    for (int64_t i = 0; i < p->n; ++i) {
        const double a = j->a.code[p->at[0] + i * p->step[0]], b = j->b.code[p->at[1] + i * p->step[1]], da = a - j->a.zero,
                     db = b - j->b.zero;
        if (j->product) {
            const double v = da * db * all;
            vn_ms_put(&j->out, p->out + i, v, g_mul * (fabs(v) + zc));
        } else {
            const double size = fabs(ra) * (fabs(a) + fabs(j->a.zero)) + fabs(rb) * (fabs(b) + fabs(j->b.zero)) + zc;
            vn_ms_put(&j->out, p->out + i, ra * da + rb * db, g_add * size);
        }
    }
}

static vn_status_t pair(vn_eval_t *e, bool product) {
    static const int operands[2] = {A, B};
    pair_t j = {.product = product, .u = vn_u(e)};
    VN_TRY(vn_require(e, A + 1));
    VN_TRY(vn_ms_codes(e, A, A_SCALE, A_ZERO, &j.a));
    VN_TRY(vn_ms_codes(e, B, B_SCALE, B_ZERO, &j.b));
    VN_TRY(vn_ms_codes(e, -1, C_SCALE, C_ZERO, &j.c));
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, 2, operands, &plan));
    VN_TRY(vn_ms_out(e, 0, j.a.t->dtype, j.c.zero, plan.out_rank, plan.out_dims, &j.out));
    vn_bcast_run(&plan, pair_piece, &j);
    return vn_ms_done(e, &j.out);
}

static vn_status_t infer_over(vn_eval_t *e, int n, const int *operands, vn_dtype_t t) {
    int rank;
    int64_t dims[VN_MAX_RANK];
    for (int i = 0; i < n; ++i)
        if (!vn_has(e, operands[i])) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing", operands[i]);
    VN_TRY(vn_bcast_shape(e, n, operands, &rank, dims));
    e->out[0].dtype = t;
    e->out[0].rank = rank;
    memcpy(e->out[0].dims, dims, sizeof dims);
    return VN_OK;
}

static vn_status_t infer_pair(vn_eval_t *e) {
    static const int operands[2] = {A, B};
    return infer_over(e, 2, operands, e->in[A].t->dtype);
}

vn_status_t vn_eval_ms_qlinear_add(vn_eval_t *e) { return pair(e, false); }
vn_status_t vn_infer_ms_qlinear_add(vn_eval_t *e) { return infer_pair(e); }
vn_status_t vn_eval_ms_qlinear_mul(vn_eval_t *e) { return pair(e, true); }
vn_status_t vn_infer_ms_qlinear_mul(vn_eval_t *e) { return infer_pair(e); }

/* ---- a code as a code of another scale ---- */

static void requantised(vn_coded_t *out, int64_t i, const vn_codes_t *x, double code, double scale, double u) {
    const double v = (code - x->zero) * x->scale / scale;
    vn_ms_put(out, i, v, vn_gamma(4, u) * (fabs(v) + fabs(out->zero)));
}

enum { CONDITION, X, X_SCALE, X_ZERO, Y, Y_SCALE, Y_ZERO, Z_SCALE, Z_ZERO };

typedef struct where {
    const uint8_t *yes;
    vn_codes_t x, y, z;
    double u;
    vn_coded_t out;
} where_t;

static void where_piece(void *ctx, const vn_piece_t *p) {
    where_t *j = ctx;
    for (int64_t i = 0; i < p->n; ++i) {
        const bool yes = j->yes[p->at[0] + i * p->step[0]] != 0;
        const vn_codes_t *from = yes ? &j->x : &j->y;
        requantised(&j->out, p->out + i, from, from->code[yes ? p->at[1] + i * p->step[1] : p->at[2] + i * p->step[2]], j->z.scale, j->u);
    }
}

vn_status_t vn_eval_ms_qlinear_where(vn_eval_t *e) {
    static const int operands[3] = {CONDITION, X, Y};
    where_t j = {.u = vn_u(e)};
    for (int k = 0; k <= Z_SCALE; ++k)
        if (!vn_has(e, k)) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing", k);
    if (e->in[CONDITION].t->dtype != VN_BOOL)
        return vn_eval_fail(e, VN_ERR_DTYPE, "the condition is %s", vn_dtype_name(e->in[CONDITION].t->dtype));
    VN_TRY(vn_ms_codes(e, X, X_SCALE, X_ZERO, &j.x));
    VN_TRY(vn_ms_codes(e, Y, Y_SCALE, Y_ZERO, &j.y));
    VN_TRY(vn_ms_codes(e, -1, Z_SCALE, Z_ZERO, &j.z));
    j.yes = e->in[CONDITION].t->data;
    vn_bcast_t plan;
    VN_TRY(vn_bcast_plan(e, 3, operands, &plan));
    VN_TRY(vn_ms_out(e, 0, j.x.t->dtype, j.z.zero, plan.out_rank, plan.out_dims, &j.out));
    vn_bcast_run(&plan, where_piece, &j);
    return vn_ms_done(e, &j.out);
}

vn_status_t vn_infer_ms_qlinear_where(vn_eval_t *e) {
    static const int operands[3] = {CONDITION, X, Y};
    if (!vn_has(e, X)) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing", X);
    return infer_over(e, 3, operands, e->in[X].t->dtype);
}

/* ---- QLinearConcat: scale, zero point, then (codes, scale, zero point) for each part ---- */

enum { OUT_SCALE, OUT_ZERO, FIRST_PART, PER_PART = 3 };

static vn_status_t concat_shape(vn_eval_t *e, int *axis, int *rank, int64_t *dims) {
    if (!vn_node_attr(e->node, "axis")) return vn_eval_fail(e, VN_ERR_USAGE, "attribute axis is missing");
    if (e->n_in < FIRST_PART + PER_PART || (e->n_in - FIRST_PART) % PER_PART)
        return vn_eval_fail(e, VN_ERR_USAGE, "%d inputs; a scale, a zero point and three for each part are needed", e->n_in);
    for (int k = 0; k < e->n_in; ++k)
        if (!vn_has(e, k)) return vn_eval_fail(e, VN_ERR_USAGE, "input %d is missing", k);
    const vn_tensor_t *first = e->in[FIRST_PART].t;
    *rank = first->rank;
    memcpy(dims, first->dims, sizeof first->dims);
    VN_TRY(vn_eval_axis(e, vn_node_int(e->node, "axis", 0), *rank, axis));
    for (int k = FIRST_PART + PER_PART; k < e->n_in; k += PER_PART) {
        const vn_tensor_t *t = e->in[k].t;
        bool fits = t->rank == *rank && t->dtype == first->dtype;
        for (int d = 0; d < *rank && fits; ++d) fits = d == *axis || t->dims[d] == dims[d];
        if (!fits || !vn_i64_add(dims[*axis], t->dims[*axis], &dims[*axis]))
            return vn_eval_fail(e, VN_ERR_SHAPE, "input %d does not fit input %d along axis %d", k, (int)FIRST_PART, *axis);
    }
    return VN_OK;
}

vn_status_t vn_eval_ms_qlinear_concat(vn_eval_t *e) {
    int axis, rank;
    int64_t dims[VN_MAX_RANK], outer = 1, inner = 1, before = 0;
    VN_TRY(concat_shape(e, &axis, &rank, dims));
    vn_codes_t y;
    vn_coded_t out;
    VN_TRY(vn_ms_codes(e, -1, OUT_SCALE, OUT_ZERO, &y));
    VN_TRY(vn_ms_out(e, 0, e->in[FIRST_PART].t->dtype, y.zero, rank, dims, &out));
    for (int d = 0; d < rank; ++d) *(d < axis ? &outer : &inner) *= d == axis ? 1 : dims[d];
    for (int k = FIRST_PART; k < e->n_in; k += PER_PART) {
        vn_codes_t x;
        VN_TRY(vn_ms_codes(e, k, k + 1, k + 2, &x));
        const int64_t run = x.t->dims[axis] * inner;
        for (int64_t o = 0; o < outer; ++o)
            for (int64_t i = 0; i < run; ++i)
                requantised(&out, (o * dims[axis] + before) * inner + i, &x, x.code[o * run + i], y.scale, vn_u(e));
        before += x.t->dims[axis];
    }
    return vn_ms_done(e, &out);
}

vn_status_t vn_infer_ms_qlinear_concat(vn_eval_t *e) {
    int axis, rank;
    int64_t dims[VN_MAX_RANK];
    VN_TRY(concat_shape(e, &axis, &rank, dims));
    e->out[0].dtype = e->in[FIRST_PART].t->dtype;
    e->out[0].rank = rank;
    memcpy(e->out[0].dims, dims, sizeof dims);
    return VN_OK;
}

/* ---- functions of one operand: 256 results at most ---- */

typedef struct entry {
    double v, window;
} entry_t;

static entry_t table_entry(const vn_eval_t *e, double x, double sy, double zy) {
    const double u = vn_u(e), dx = u * fabs(x);
    double f, err;
    if (strcmp(e->node->op, "QLinearSigmoid") == 0) {
        const double w = exp(-fabs(x)), slope = w / ((1 + w) * (1 + w));
        f = x >= 0 ? 1 / (1 + w) : w / (1 + w);
        /* sup of the slope over the interval: it grows by at most e^dx */
        err = dx * slope * exp(dx) + 2 * vn_budget(e, "sigmoid") * u * f + vn_body_budget(e, "sigmoid") * u;
    } else {
        const double alpha = vn_node_float(e->node, "alpha", 0.01f);
        f = x < 0 ? alpha * x : x;
        err = vn_gamma(2, u) * fabs(f);
    }
    return (entry_t){.v = f / sy, .window = err / sy + vn_gamma(3, u) * (fabs(f / sy) + fabs(zy))};
}

vn_status_t vn_eval_ms_qlinear_table(vn_eval_t *e) {
    enum { IN, IN_SCALE, IN_ZERO, RESULT_SCALE, RESULT_ZERO };
    vn_codes_t x, y;
    vn_coded_t out;
    entry_t table[256];
    VN_TRY(vn_ms_codes(e, IN, IN_SCALE, IN_ZERO, &x));
    VN_TRY(vn_ms_codes(e, -1, RESULT_SCALE, RESULT_ZERO, &y));
    VN_TRY(vn_ms_out(e, 0, x.t->dtype, y.zero, x.t->rank, x.t->dims, &out));
    for (int i = 0; i < 256; ++i) table[i] = table_entry(e, (i + out.lo - x.zero) * x.scale, y.scale, y.zero);
    for (int64_t i = 0; i < x.t->count; ++i) {
        const entry_t *t = &table[(int)(x.code[i] - out.lo)];
        vn_ms_put(&out, i, t->v, t->window);
    }
    return vn_ms_done(e, &out);
}

vn_status_t vn_infer_ms_qlinear_table(vn_eval_t *e) { return vn_infer_same(e); }
