/* arithmetic_statistics.c -- norms and roots whose statistics pass through 16 bits: the squares, their mean, the reciprocal root.
 *
 * Claim ARITH-15: with scale s and bias b, y = b + s d r, so another reciprocal root r' gives b + (y - b) r'/r on the whole group: the same bound times r'/r. r' is
 * carried out from squares (or their mean, or r itself) rounded to f16 or bfloat16.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"

typedef enum place { SQUARES, MEAN_OF_SQUARES, RECIPROCAL_ROOT, PLACES } place_t;
static const char *const place_words[PLACES] = {"the squares are", "the mean of squares is", "the reciprocal root is"};

/* What one operator does with the squares of its deviations; eps: the standard's default (claim ARITH-15). */
static const struct {
    const char *op;
    bool centred, root, scaled; /* root: the result is the root of the sum; scaled: operand 1 is a scale */
    double eps;
} table[] = {
    {"LayerNormalization", true, false, true, 1e-5},            /* claim ARITH-15 */
    {"RMSNormalization", false, false, true, 1e-5},             /* claim ARITH-15 */
    {"SimplifiedLayerNormalization", false, false, true, 1e-5}, /* claim ARITH-15 */
    {"GroupNormalization", true, false, true, 1e-5},            /* claim ARITH-15 */
    {"InstanceNormalization", true, false, true, 1e-5},         /* claim ARITH-15 */
    {"MeanVarianceNormalization", true, false, false, 1e-9},    /* claim ARITH-15 */
    {"LpNormalization", false, false, false, 0},
    {"ReduceL2", false, true, false, 0},
    {"ReduceSumSquare", false, false, false, 0},
};

static double narrow(vn_format_t f, double x) { return vn_round_to(f, x, VN_RNE, false); }

/* Factor by which the group's result changes. */
static double factor_of(size_t row, const vn_groups_t *g, int64_t k, const double *x, double eps, place_t place, vn_format_t f) {
    double mean = 0, exact = 0, other = 0;
    const double n = (double)g->size;
    for (int64_t j = 0; table[row].centred && j < g->size; ++j) mean += x[g->base[k] + g->offset[j]] / n;
    for (int64_t j = 0; j < g->size; ++j) {
        const double d = x[g->base[k] + g->offset[j]] - mean, q = d * d;
        exact += q;
        other += place == SQUARES ? narrow(f, q) : q;
    }
    if (!g->keeps) return table[row].root ? sqrt(other / exact) : other / exact;
    const bool lp = strcmp(table[row].op, "LpNormalization") == 0;
    if (lp)
        return place == SQUARES           ? sqrt(exact / other)
               : place == MEAN_OF_SQUARES ? sqrt(exact / narrow(f, exact))
                                          : narrow(f, 1 / sqrt(exact)) * sqrt(exact);
    const double v = exact / n + eps, w = (place == MEAN_OF_SQUARES ? narrow(f, other / n) : other / n) + eps;
    return place == RECIPROCAL_ROOT ? narrow(f, 1 / sqrt(v)) * sqrt(v) : sqrt(v / w);
}

/* y with the scale at zero: the bias alone. */
static vn_status_t bias_of(const vn_arith_t *a, bool scaled, double *bias, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    const vn_tensor_t *scale = scaled ? vn_arith_operand(a, 1) : NULL;
    if (!scale) return VN_OK;
    vn_tensor_t *zero;
    VN_TRY(vn_tensor_new(scale->dtype, scale->rank, scale->dims, &zero, err));
    vn_value_t *v = vn_value_tensor(zero);
    const vn_value_t **in = vn_alloc((size_t)q->node->n_inputs + 1, sizeof *in);
    vn_ref_t ref = {0};
    vn_status_t s = v && in ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; s == VN_OK && k < q->node->n_inputs; ++k) in[k] = k == 1 ? v : q->inputs[k];
    if (s == VN_OK) s = vn_arith_oracle(a, in, q->contract, VN_WANT_VALUE | VN_WANT_PLAIN, &ref, err);
    if (s == VN_OK && ref.value && ref.count == a->n) memcpy(bias, ref.value, (size_t)a->n * sizeof *bias);
    vn_ref_free(&ref);
    vn_value_free(v);
    vn_free(in);
    return s;
}

typedef struct scene {
    size_t row;
    const vn_groups_t *g;
    const double *x, *bias;
    double eps;
} scene_t;

static vn_status_t one(vn_arith_t *a, const scene_t *s, place_t place, vn_format_t f, vn_error_t *err) {
    const vn_ref_t *r = a->c->ref;
    const size_t n = (size_t)a->n + 1;
    double *value = vn_alloc(n, sizeof *value), *bound = vn_alloc(n, sizeof *bound), *var = vn_alloc(n, sizeof *var);
    if (!value || !bound || !var) {
        vn_free(value);
        vn_free(bound);
        vn_free(var);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int64_t k = 0; k < s->g->count; ++k) {
        const double factor = factor_of(s->row, s->g, k, s->x, s->eps, place, f);
        for (int64_t j = 0; j < (s->g->keeps ? s->g->size : 1); ++j) {
            const int64_t i = s->g->keeps ? s->g->base[k] + s->g->offset[j] : k;
            value[i] = s->bias[i] + (r->value[i] - s->bias[i]) * factor;
            bound[i] = (r->bound ? r->bound[i] : 0) * fmax(1, factor) * 1.01;
            var[i] = r->var ? r->var[i] * factor * factor : 0;
        }
    }
    vn_ref_t ref;
    VN_TRY(vn_arith_planes(a, value, bound, var, &ref, err));
    char id[40];
    snprintf(id, sizeof id, "intermediate-%s", vn_format_info(f)->name);
    a->choices = log(2 * PLACES);
    a->tried++;
    const vn_status_t st =
        vn_arith_consider(a, id, VN_ARITH_SHARP, &ref, err, "%s rounded to %s", place_words[place], vn_format_info(f)->name);
    vn_ref_free(&ref);
    return st;
}

vn_status_t vn_arith_statistics(vn_arith_t *a, vn_error_t *err) {
    static const vn_format_t formats[] = {VN_FMT_BF16, VN_FMT_F16};
    const vn_node_t *node = a->c->q->node;
    const vn_tensor_t *in = vn_arith_operand(a, 0);
    size_t row = 0;
    while (node && row < sizeof table / sizeof *table && strcmp(table[row].op, node->op) != 0) ++row;
    if (!node || row == sizeof table / sizeof *table || !a->c->ref->value || !in || !vn_dtype_is_float(in->dtype)) return VN_OK;
    if (strcmp(node->op, "LpNormalization") == 0 && vn_node_int(node, "p", 2) != 2) return VN_OK;
    vn_groups_t g;
    VN_TRY(vn_groups_of(a, &g, err));
    double *x = NULL, *bias = NULL;
    vn_status_t s = VN_OK;
    if (g.count && (g.keeps ? g.count * g.size : g.count) == a->n) {
        x = vn_arith_plane(a, 0);
        bias = vn_alloc((size_t)a->n + 1, sizeof *bias);
        s = x && bias ? bias_of(a, table[row].scaled, bias, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
        const double eps = vn_node_float(node, "epsilon", table[row].eps);
        const scene_t scene = {.row = row, .g = &g, .x = x, .bias = bias, .eps = eps};
        for (int f = 0; f < 2 && s == VN_OK; ++f)
            for (int place = 0; place < (g.keeps ? PLACES : 1) && s == VN_OK; ++place) s = one(a, &scene, (place_t)place, formats[f], err);
    }
    vn_free(x);
    vn_free(bias);
    vn_groups_free(&g);
    return s;
}
