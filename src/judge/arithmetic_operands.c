/* arithmetic_operands.c -- operands that are changed before the product in a way no single rounding says: split into bfloat16 parts, or
 * quantised to eight bits on the fly.
 *
 * Claim ARITH-4 (split): with a = h + l + rest in bf16 parts, three products instead of one give f(h + l, h' + l') - [f(l, l') - f(0, l')] for a map f that is
 * linear in either operand up to a bias; f is asked of the oracle. Three terms for each one of the plain product: three times its bound and
 * its variance are enough (sum |terms| grows by less than 2^-7, which the store's own rounding covers).
 * Claim ARITH-5 (int8): activations become s round(x / s), s = max|x| / 127 of a group (symmetric), or s (round(x / s) + z - z) with
 * s = (max - min) / 255, 0 inside the range. The product of what is left is asked of the oracle; its bound is the contract's. The grouping that
 * leaves the smallest error of all those tried is considered.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"

/* ---- one operand replaced ---- */

static vn_status_t with_operands(vn_arith_t *a, int k0, const vn_tensor_t *t0, int k1, const vn_tensor_t *t1, int want, vn_ref_t *ref,
                                 vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    const int n = q->node ? q->node->n_inputs : q->model->graph->n_inputs;
    const vn_value_t **in = vn_alloc((size_t)n + 1, sizeof *in);
    vn_value_t *v0 = t0 ? vn_value_tensor(vn_tensor_retain(t0)) : NULL, *v1 = t1 ? vn_value_tensor(vn_tensor_retain(t1)) : NULL;
    *ref = (vn_ref_t){0};
    vn_status_t s = in && (v0 || !t0) && (v1 || !t1) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < n && s == VN_OK; ++k) in[k] = v0 && k == k0 ? v0 : v1 && k == k1 ? v1 : q->inputs[k];
    if (s == VN_OK) s = vn_arith_oracle(a, in, q->contract, want | VN_WANT_PLAIN, ref, err);
    vn_value_free(v0);
    vn_value_free(v1);
    vn_free(in);
    return s;
}

/* ---- three products of bfloat16 parts ---- */

typedef struct parts {
    vn_tensor_t *high, *low, *both, *none;
} parts_t;

static void parts_free(parts_t *p) {
    vn_tensor_free(p->high);
    vn_tensor_free(p->low);
    vn_tensor_free(p->both);
    vn_tensor_free(p->none);
    *p = (parts_t){0};
}

static vn_status_t split(const vn_tensor_t *t, vn_rounding_t rounding, parts_t *p, vn_error_t *err) {
    *p = (parts_t){0};
    vn_status_t s = vn_tensor_new(t->dtype, t->rank, t->dims, &p->none, err);
    if (s == VN_OK) s = vn_tensor_copy(p->none, &p->high, err);
    if (s == VN_OK) s = vn_tensor_copy(p->none, &p->low, err);
    if (s == VN_OK) s = vn_tensor_copy(p->none, &p->both, err);
    for (int64_t i = 0; s == VN_OK && i < t->count; ++i) {
        const double x = vn_tensor_get_f64(t, i), h = vn_round_to(VN_FMT_BF16, x, rounding, false);
        const double l = isfinite(h) ? vn_round_to(VN_FMT_BF16, x - h, rounding, false) : 0;
        vn_tensor_set_f64(p->high, i, h);
        vn_tensor_set_f64(p->low, i, l);
        vn_tensor_set_f64(p->both, i, h + l);
    }
    if (s != VN_OK) parts_free(p);
    return s;
}

static vn_status_t three_products(vn_arith_t *a, const parts_t *x, const parts_t *y, const char *how, vn_error_t *err) {
    vn_ref_t all, low, bias;
    VN_TRY(with_operands(a, 0, x->both, 1, y->both, VN_WANT_VARIANCE, &all, err));
    vn_status_t s = all.value && all.bound && all.var && all.count == a->n ? VN_OK : VN_ERR_UNSUPPORTED;
    low = bias = (vn_ref_t){0};
    if (s == VN_OK) s = with_operands(a, 0, x->low, 1, y->low, VN_WANT_VALUE, &low, err);
    if (s == VN_OK) s = with_operands(a, 0, x->none, 1, y->low, VN_WANT_VALUE, &bias, err);
    if (s == VN_OK && low.value && bias.value) {
        for (int64_t i = 0; i < a->n; ++i) {
            all.value[i] -= low.value[i] - bias.value[i];
            all.bound[i] *= 3;
            all.var[i] *= 3;
        }
        s = vn_arith_consider(a, "operands-bf16x3", 0, &all, err,
                              "operands split into two bfloat16 parts each (%s), three products, the product of the low parts is missing",
                              how);
    }
    vn_ref_free(&all);
    vn_ref_free(&low);
    vn_ref_free(&bias);
    return s == VN_ERR_UNSUPPORTED ? VN_OK : s;
}

/* One operand split in two, the other rounded once: two products. */
static vn_status_t two_products(vn_arith_t *a, const vn_tensor_t *x, const vn_tensor_t *y, const char *which, vn_error_t *err) {
    vn_ref_t r;
    VN_TRY(with_operands(a, 0, x, 1, y, VN_WANT_VARIANCE, &r, err));
    vn_status_t s = VN_OK;
    if (r.value && r.bound && r.var) {
        for (int64_t i = 0; i < r.count; ++i) {
            r.bound[i] *= 2;
            r.var[i] *= 2;
        }
        s = vn_arith_consider(a, "operands-bf16", 0, &r, err, "%s operand split into two bfloat16 parts, the other rounded to bfloat16",
                              which);
    }
    vn_ref_free(&r);
    return s;
}

vn_status_t vn_arith_split(vn_arith_t *a, vn_error_t *err) {
    const vn_tensor_t *x = vn_arith_operand(a, 0), *y = vn_arith_operand(a, 1);
    const vn_question_t *q = a->c->q;
    if (!q->node || !a->c->ref->value || a->c->cls != VN_CLASS_CONTRACTION || !x || !y || x->dtype != VN_F32 || y->dtype != VN_F32 ||
        vn_contract_resolve(q->contract, VN_F32).operand != VN_FMT_F32)
        return VN_OK;
    static const struct {
        vn_rounding_t rounding;
        const char *words;
    } how[] = {{VN_RNE, "rounded"}, {VN_RZ, "cut"}};
    vn_status_t s = VN_OK;
    for (size_t k = 0; k < sizeof how / sizeof *how && s == VN_OK; ++k) {
        parts_t p, r;
        a->tried++;
        s = split(x, how[k].rounding, &p, err);
        if (s == VN_OK && (s = split(y, how[k].rounding, &r, err)) != VN_OK) parts_free(&p);
        if (s != VN_OK) break;
        s = three_products(a, &p, &r, how[k].words, err);
        if (s == VN_OK && k == 0) s = two_products(a, p.both, r.high, "left", err);
        if (s == VN_OK && k == 0) s = two_products(a, p.high, r.both, "right", err);
        parts_free(&p);
        parts_free(&r);
    }
    return s;
}

/* ---- activations quantised to eight bits ---- */

typedef enum scheme { SYMMETRIC, SYMMETRIC_RECIPROCAL, SYMMETRIC_F16_SCALE, ASYMMETRIC, SCHEMES } scheme_t;
static const char *const scheme_words[SCHEMES] = {"symmetric", "symmetric, by the reciprocal of the scale",
                                                  "symmetric, scale stored in f16", "asymmetric with a zero point"};

static void quantise(scheme_t scheme, double *x, int64_t n) {
    float low = 0, high = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (!isfinite(x[i])) return;
        low = fminf(low, (float)x[i]);
        high = fmaxf(high, (float)x[i]);
    }
    if (scheme == ASYMMETRIC) {
        const float scale = (high - low) / 255;
        if (!(scale > 0)) return;
        const double zero = fmin(255, fmax(0, rint(-(double)low / (double)scale)));
        for (int64_t i = 0; i < n; ++i) {
            const double code = rint((double)((float)x[i] / scale)) + zero;
            x[i] = (fmin(255, fmax(0, code)) - zero) * (double)scale;
        }
        return;
    }
    const float top = fmaxf(-low, high), scale = top / 127, inverse = scheme == SYMMETRIC_F16_SCALE ? 1 / scale : 127 / top;
    if (!(scale > 0)) return;
    const double used = scheme == SYMMETRIC_F16_SCALE ? vn_round_to(VN_FMT_F16, (double)scale, VN_RNE, false) : (double)scale;
    for (int64_t i = 0; i < n; ++i) {
        const float code = scheme == SYMMETRIC ? (float)x[i] / scale : (float)x[i] * inverse;
        x[i] = fmin(127, fmax(-128, rint((double)code))) * used;
    }
}

/* group 0: the whole tensor; else runs of `group` along the last axis, each row on its own. */
static void quantise_groups(scheme_t scheme, int64_t group, double *x, int64_t count, int64_t row) {
    if (group == 0) quantise(scheme, x, count);
    for (int64_t r = 0; group > 0 && r < count; r += row)
        for (int64_t g = 0; g < row; g += group) quantise(scheme, x + r + g, row - g < group ? row - g : group);
}

static double squared_error(const vn_arith_t *a, const double *y) {
    double sum = 0;
    for (int64_t i = 0; i < a->n; ++i)
        if (isfinite(a->x[i]) && isfinite(y[i])) sum += (a->x[i] - y[i]) * (a->x[i] - y[i]);
    return sum;
}

/* The operand as a tensor of its own type. */
static vn_status_t same_type(vn_arith_t *a, int k, const double *plane, int want, vn_ref_t *ref, vn_error_t *err) {
    const vn_tensor_t *t = vn_arith_operand(a, k);
    vn_tensor_t *fresh;
    VN_TRY(vn_tensor_new_raw(t->dtype, t->rank, t->dims, &fresh, err));
    vn_tensor_from_f64(fresh, plane, VN_RNE, false);
    const vn_status_t s = with_operands(a, k, fresh, -1, NULL, want, ref, err);
    vn_tensor_free(fresh);
    return s;
}

/* Codes times scales need not be numbers of a 16-bit type: every operand of that type is widened to f32, the result stored as before. */
static vn_status_t widened(vn_arith_t *a, int k, const double *plane, int want, vn_ref_t *ref, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    const vn_dtype_t type = vn_arith_operand(a, k)->dtype;
    const int n = q->node->n_inputs;
    vn_contract_t contract = *q->contract;
    vn_value_t **in = vn_alloc((size_t)n + 1, sizeof *in);
    vn_status_t s = in ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int i = 0; i < n && s == VN_OK; ++i) {
        const vn_tensor_t *t = vn_arith_operand(a, i);
        vn_tensor_t *wide = NULL;
        double *x = t && t->dtype == type ? vn_arith_plane(a, i) : NULL;
        if (t && t->dtype == type)
            s = x ? vn_tensor_new_raw(VN_F32, t->rank, t->dims, &wide, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
        if (wide) vn_tensor_from_f64(wide, i == k ? plane : x, VN_RNE, false);
        vn_free(x);
        if (s == VN_OK) in[i] = wide ? vn_value_tensor(wide) : q->inputs[i] ? vn_value_retain(q->inputs[i]) : NULL;
    }
    contract.operand = VN_FMT_NONE;
    if (!contract.result) contract.result = vn_format_of(type);
    vn_ref_t r = {0};
    if (s == VN_OK) s = vn_arith_oracle(a, (const vn_value_t *const *)in, &contract, want | VN_WANT_PLAIN, &r, err);
    if (s == VN_OK && r.value && r.count == a->n) {
        s = vn_arith_planes(a, r.value, r.bound, r.var, ref, err);
        r.value = r.bound = r.var = NULL;
    }
    vn_ref_free(&r);
    for (int i = 0; in && i < n; ++i) vn_value_free(in[i]);
    vn_free(in);
    return s;
}

static vn_status_t replaced(vn_arith_t *a, int k, const double *plane, int want, vn_ref_t *ref, vn_error_t *err) {
    *ref = (vn_ref_t){0};
    const bool narrow = a->c->q->node && vn_dtype_bits(vn_arith_operand(a, k)->dtype) <= 16;
    return narrow ? widened(a, k, plane, want, ref, err) : same_type(a, k, plane, want, ref, err);
}

static vn_status_t one_operand(vn_arith_t *a, int k, bool rows, vn_error_t *err) {
    static const int64_t sizes[] = {0, -1, 16, 32, 64, 128, 256}; /* 0: tensor, -1: row */
    enum { SIZES = sizeof sizes / sizeof *sizes };
    const vn_tensor_t *t = vn_arith_operand(a, k);
    const int64_t row = t->rank ? t->dims[t->rank - 1] : 1;
    double *plain = vn_arith_plane(a, k), *x = vn_alloc((size_t)t->count + 1, sizeof *x);
    const double plain_error = a->c->ref->value ? squared_error(a, a->c->ref->value) : 0;
    double best = plain_error / 4; /* a fake quantisation that explains less than three quarters of the error is none */
    int best_size = -1, tried = 0;
    scheme_t best_scheme = SYMMETRIC;
    vn_status_t s = plain && x ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int z = 0; z < SIZES && s == VN_OK; ++z) {
        if ((sizes[z] != 0 && !rows) || sizes[z] >= row) continue;
        for (int scheme = 0; scheme < SCHEMES && s == VN_OK && vn_arith_time(a); ++scheme) {
            vn_ref_t ref;
            memcpy(x, plain, (size_t)t->count * sizeof *x);
            quantise_groups((scheme_t)scheme, sizes[z] < 0 ? row : sizes[z], x, t->count, row > 0 ? row : 1);
            s = replaced(a, k, x, VN_WANT_VALUE, &ref, err);
            tried++;
            if (s == VN_OK && ref.value && ref.count == a->n) {
                const double e = squared_error(a, ref.value);
                if (e < best) {
                    best = e;
                    best_size = z;
                    best_scheme = (scheme_t)scheme;
                }
            }
            vn_ref_free(&ref);
        }
    }
    a->tried += tried;
    if (s == VN_OK && best_size >= 0) {
        vn_ref_t ref;
        char group[48];
        if (sizes[best_size] > 0) snprintf(group, sizeof group, "in groups of %lld along a row", (long long)sizes[best_size]);
        else snprintf(group, sizeof group, "%s", sizes[best_size] == 0 ? "per tensor" : "per row");
        memcpy(x, plain, (size_t)t->count * sizeof *x);
        quantise_groups(best_scheme, sizes[best_size] < 0 ? row : sizes[best_size], x, t->count, row > 0 ? row : 1);
        s = replaced(a, k, x, VN_WANT_VARIANCE, &ref, err);
        a->choices = log(tried);
        if (s == VN_OK && ref.value)
            s = vn_arith_consider(a, "activations-int8", VN_ARITH_SHARP, &ref, err, "operand %d quantised to 8 bits on the fly, %s, %s", k,
                                  group, scheme_words[best_scheme]);
        vn_ref_free(&ref);
    }
    vn_free(plain);
    vn_free(x);
    return s;
}

/* Which operands of a node are activations, and whether a row along the last axis is a row of the product. */
static bool takes_activations(const vn_node_t *n, bool *rows) {
    static const char *const ops[] = {"MatMul", "Gemm", "MatMulNBits", "FusedMatMul", "FusedGemm", "Conv", "Einsum"};
    *rows = strcmp(n->op, "Conv") != 0 && strcmp(n->op, "Einsum") != 0 && vn_node_int(n, "transA", 0) == 0;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; ++i)
        if (strcmp(n->op, ops[i]) == 0) return n->n_inputs > 0;
    return false;
}

vn_status_t vn_arith_activations(vn_arith_t *a, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    bool rows;
    if (!a->c->ref->value || (a->c->cls != VN_CLASS_CONTRACTION && q->node)) return VN_OK;
    if (q->node) {
        const vn_tensor_t *t = vn_arith_operand(a, 0);
        return t && vn_dtype_is_float(t->dtype) && takes_activations(q->node, &rows) ? one_operand(a, 0, rows, err) : VN_OK;
    }
    const vn_graph_t *g = q->model->graph;
    for (int k = 0; k < g->n_inputs; ++k) {
        const vn_tensor_t *t = vn_arith_operand(a, k);
        for (int i = 0; t && vn_dtype_is_float(t->dtype) && i < g->n_nodes; ++i)
            if (takes_activations(&g->nodes[i], &rows) && strcmp(g->nodes[i].inputs[0], g->inputs[k].name) == 0) {
                VN_TRY(one_operand(a, k, rows, err));
                break;
            }
    }
    return VN_OK;
}
