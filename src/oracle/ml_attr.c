/* ml_attr.c -- attributes and operands of domain ai.onnx.ml, and the tiers of arithmetic that its outputs may follow. */
#include <math.h>
#include <string.h>

#include "oracle/elementwise.h"
#include "oracle/ml.h"

const vn_string_t *vn_ml_strings(const vn_eval_t *e, const char *name, int64_t *n) {
    const vn_attr_t *a = vn_node_attr(e->node, name);
    const bool there = a && a->kind == VN_ATTR_STRINGS && a->count > 0;
    *n = there ? a->count : 0;
    return there ? a->strings : NULL;
}

const int64_t *vn_ml_ints(const vn_eval_t *e, const char *name, int64_t *n) {
    const vn_attr_t *a = vn_node_attr(e->node, name);
    const bool there = a && a->kind == VN_ATTR_INTS && a->count > 0;
    *n = there ? a->count : 0;
    return there ? a->ints : NULL;
}

vn_status_t vn_ml_numbers(vn_eval_t *e, const char *name, const char *tensor, double **out, int64_t *n) {
    const vn_attr_t *a = vn_node_attr(e->node, name), *b = tensor ? vn_node_attr(e->node, tensor) : NULL;
    const bool floats = a && a->kind == VN_ATTR_FLOATS && a->count > 0;
    *out = NULL;
    *n = 0;
    if (!floats && !(b && b->kind == VN_ATTR_TENSOR && b->t && b->t->count > 0)) return VN_OK;
    if (!floats && !vn_dtype_is_float(b->t->dtype) && !vn_dtype_is_int(b->t->dtype))
        return vn_eval_fail(e, VN_ERR_DTYPE, "attribute %s holds %s, not numbers", tensor, vn_dtype_name(b->t->dtype));
    *n = floats ? a->count : b->t->count;
    *out = vn_alloc((size_t)*n, sizeof **out);
    if (!*out) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld numbers", (long long)*n);
    for (int64_t i = 0; i < *n; ++i) (*out)[i] = floats ? (double)a->floats[i] : vn_tensor_get_f64(b->t, i);
    return VN_OK;
}

vn_status_t vn_ml_labels_of(vn_eval_t *e, const char *ints, const char *strings, vn_ml_labels_t *out) {
    int64_t n, m;
    *out = (vn_ml_labels_t){.ints = vn_ml_ints(e, ints, &n), .text = vn_ml_strings(e, strings, &m)};
    if (n && m) return vn_eval_fail(e, VN_ERR_RANGE, "both %s and %s are given; the standard allows one", ints, strings);
    out->count = n ? n : m;
    return VN_OK;
}

vn_status_t vn_ml_choice(vn_eval_t *e, const char *name, const char *fallback, const char *const *list, int *out) {
    const char *given = vn_node_string(e->node, name, fallback);
    for (*out = 0; list[*out]; ++*out)
        if (strcmp(list[*out], given) == 0) return VN_OK;
    return vn_eval_fail(e, VN_ERR_RANGE, "%s is '%.60s', which the standard does not know", name, given);
}

vn_status_t vn_ml_post_of(vn_eval_t *e, vn_ml_post_t *out) {
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT", NULL};
    int at;
    VN_TRY(vn_ml_choice(e, "post_transform", "NONE", names, &at));
    *out = (vn_ml_post_t)at;
    return VN_OK;
}

vn_status_t vn_ml_number_type(vn_eval_t *e, int k, bool f16) {
    VN_TRY(vn_move_need(e, k));
    const vn_dtype_t t = e->in[k].t->dtype;
    if (t == VN_F32 || t == VN_F64 || t == VN_I32 || t == VN_I64 || (f16 && t == VN_F16)) return VN_OK;
    return vn_eval_fail(e, VN_ERR_DTYPE, "input %d is %s, not f32, f64, i32 or i64", k, vn_dtype_name(t));
}

vn_status_t vn_ml_matrix(vn_eval_t *e, bool f16, int64_t *n, int64_t *f) {
    VN_TRY(vn_ml_number_type(e, 0, f16));
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank < 1 || x->rank > 2) return vn_eval_fail(e, VN_ERR_SHAPE, "input 0 has rank %d, not [N, F] or [F]", x->rank);
    *n = x->rank == 2 ? x->dims[0] : 1;
    *f = x->dims[x->rank - 1];
    return VN_OK;
}

/* ---- tiers ---- */

/* What element i may be read as under a format: the distance to its rounding, what flows in, what daz may drop. */
static double operand_error(const vn_ml_t *m, const vn_ml_tier_t *t, int64_t i) {
    const double x = m->x[i], in = m->e->in[0].err ? m->e->in[0].err[i] : 0;
    if (!isfinite(x)) return in;
    double e = fabs(x - vn_round_to(t->format, x, VN_RNE, false));
    if (m->e->in[0].t->dtype == VN_I64 && fabs(x) >= 0x1p53) e += 0x1p-53 * fabs(x); /* the plane itself is rounded */
    if (t->contract.daz && fabs(x) < t->tau) e += fabs(x);
    return e + in;
}

static vn_status_t open_tier(vn_ml_t *m, int at, vn_format_t accumulator) {
    vn_ml_tier_t *t = &m->tier[at];
    t->contract = *m->e->contract;
    t->contract.accumulator = accumulator;
    t->e = *m->e;
    t->e.contract = &t->contract;
    t->format = accumulator;
    const vn_format_info_t *info = vn_format_info(accumulator);
    t->u = info->u + 0x1p-53;
    t->eta = info->eta;
    t->tau = info->tau;
    const int64_t n = m->e->in[0].t->count;
    bool any = false;
    t->err = vn_alloc((size_t)(n ? n : 1), sizeof *t->err);
    if (!t->err) return vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for %lld elements", (long long)n);
    for (int64_t i = 0; i < n; ++i) any |= (t->err[i] = operand_error(m, t, i)) != 0;
    if (!any) {
        vn_free(t->err);
        t->err = NULL;
    }
    return VN_OK;
}

vn_status_t vn_ml_open(vn_eval_t *e, bool f16, vn_ml_t *m) {
    *m = (vn_ml_t){.e = e};
    VN_TRY(vn_ml_matrix(e, f16, &m->n, &m->f));
    m->x = vn_arg_f64(e, 0);
    if (!m->x) return VN_ERR_NOMEM;
    const vn_format_t acc = e->contract->accumulator;
    VN_TRY(open_tier(m, 0, acc));
    const bool narrower = vn_format_info(acc)->p > 24, integer = vn_dtype_is_int(e->in[0].t->dtype) && m->tier[0].err;
    if (f16 || e->contract->tier == VN_TIER_IEEE || e->want < VN_WANT_BOUND || !(narrower || integer)) return VN_OK;
    m->last = 1;
    return open_tier(m, 1, narrower ? VN_FMT_F32 : acc);
}

void vn_ml_close(vn_ml_t *m) {
    vn_free(m->tier[0].err);
    vn_free(m->tier[1].err);
}

/* ---- scores ---- */

vn_status_t vn_ml_scores_new(const vn_ml_t *m, int64_t c, vn_ml_scores_t *s) {
    int64_t count;
    *s = (vn_ml_scores_t){.n = m->n, .c = c};
    if (!vn_i64_mul(m->n, c, &count)) return vn_eval_fail(m->e, VN_ERR_RANGE, "%lld scores a row are too many", (long long)c);
    double **planes[] = {&s->y, &s->err[0], &s->err[1], &s->var};
    const bool wanted[] = {true, true, m->last > 0, m->e->want >= VN_WANT_VARIANCE};
    for (int k = 0; k < 4; ++k) {
        if (!wanted[k]) continue;
        *planes[k] = vn_alloc((size_t)(count ? count : 1), sizeof(double));
        if (!*planes[k]) return vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for %lld scores", (long long)count);
    }
    return VN_OK;
}

void vn_ml_scores_free(vn_ml_scores_t *s) {
    vn_free(s->y);
    vn_free(s->err[0]);
    vn_free(s->err[1]);
    vn_free(s->var);
    *s = (vn_ml_scores_t){0};
}
