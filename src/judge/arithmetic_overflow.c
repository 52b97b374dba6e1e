/* arithmetic_overflow.c -- a hidden f16 number overflows although the result is an ordinary one: squares, their sum, a sum, a count.
 *
 * Claim ARITH-8: RN_f16(q) is infinite iff |q| >= 65520. A norm whose variance is infinite gives its bias (or 0), a mean whose count is infinite gives
 * 0, a sum that overflows gives an infinity. So a group that shows this value must have a quantity that can reach 65520 in some order of
 * summation (sum of magnitudes), one whose single square does so surely must show it, and every other group must be what f16 arithmetic gives.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/arithmetic.h"

static const double limit = 65520;  /* rounding threshold of f16 */
static const double slack = 0x1p-6; /* the f16 roundings of deviations before they are squared: a few 2^-11 of the square */

typedef struct outcome {
    int64_t shown;     /* groups that show the value of an overflow */
    int64_t by_square; /* of which a single square overflows */
} outcome_t;

/* The f16 oracle: what may stand in a group that does not overflow. */
static vn_status_t in_f16(const vn_arith_t *a, vn_ref_t *ref, vn_error_t *err) {
    vn_contract_t c = *a->c->q->contract;
    c.accumulator = VN_FMT_F16;
    return vn_arith_oracle(a, a->c->q->inputs, &c, VN_WANT_BOUND | VN_WANT_PLAIN, ref, err);
}

static bool right(const vn_arith_t *a, int64_t i) {
    return isfinite(a->x[i]) && fabs(a->x[i] - a->c->ref->value[i]) <= vn_room(a->c->ref, i);
}

static bool ordinary(const vn_arith_t *a, const vn_ref_t *f16, int64_t i) {
    return f16->value && isfinite(a->x[i]) && fabs(a->x[i] - f16->value[i]) <= vn_room(f16, i);
}

/* ---- norms ---- */

/* The bias alone: the same norm with its scale zero. */
static vn_status_t bias_plane(const vn_arith_t *a, vn_ref_t *ref, vn_error_t *err) {
    const vn_question_t *q = a->c->q;
    const vn_tensor_t *scale = vn_arith_operand(a, 1);
    *ref = (vn_ref_t){0};
    if (!scale) return VN_OK;
    vn_tensor_t *zero;
    VN_TRY(vn_tensor_new(scale->dtype, scale->rank, scale->dims, &zero, err));
    vn_value_t *v = vn_value_tensor(zero);
    const vn_value_t **in = vn_alloc((size_t)q->node->n_inputs + 1, sizeof *in);
    vn_status_t s = v && in ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; s == VN_OK && k < q->node->n_inputs; ++k) in[k] = k == 1 ? v : q->inputs[k];
    if (s == VN_OK) s = vn_arith_oracle(a, in, q->contract, VN_WANT_VALUE | VN_WANT_PLAIN, ref, err);
    vn_value_free(v);
    vn_free(in);
    return s;
}

static bool centred(const char *op) { return !strstr(op, "RMS") && !strstr(op, "Simplified") && !strstr(op, "LpNorm"); }

static bool norm_overflows(const vn_arith_t *a, const vn_groups_t *g, const double *x, const vn_ref_t *bias, const vn_ref_t *f16,
                           outcome_t *o) {
    const bool softmax = strstr(a->c->q->node->op, "oftmax") != NULL, centre = !softmax && centred(a->c->q->node->op);
    for (int64_t k = 0; k < g->count; ++k) {
        double mean = 0, sum = 0, top = 0, most = -INFINITY;
        for (int64_t j = 0; softmax && j < g->size; ++j) most = fmax(most, x[g->base[k] + g->offset[j]]);
        for (int64_t j = 0; centre && j < g->size; ++j) mean += x[g->base[k] + g->offset[j]] / (double)g->size;
        for (int64_t j = 0; j < g->size; ++j) {
            const double d = x[g->base[k] + g->offset[j]] - mean;
            sum += softmax ? exp(x[g->base[k] + g->offset[j]] - most) : d * d;
            top = softmax ? 0 : fmax(top, d * d);
        }
        bool shows = true, fits = true, kept = true;
        for (int64_t j = 0; j < g->size; ++j) {
            const int64_t i = g->base[k] + g->offset[j];
            const double due = bias->value ? vn_tensor_get_f64(bias->tensor, i) : 0;
            shows = shows && a->x[i] == due;
            kept = kept && right(a, i);
            fits = fits && (right(a, i) || ordinary(a, f16, i));
        }
        if (kept && !(top >= limit * (1 + slack))) continue;
        if (!shows || sum < limit * (1 - slack)) {
            if (fits && !(top >= limit * (1 + slack))) continue;
            return false;
        }
        o->shown++;
        o->by_square += top >= limit * (1 - slack);
    }
    return o->shown > 0;
}

/* ---- reductions ---- */

static bool reduction_overflows(const vn_arith_t *a, const vn_groups_t *g, const double *x, const vn_ref_t *f16, outcome_t *o) {
    const char *op = a->c->q->node->op;
    const bool squares = strcmp(op, "ReduceSumSquare") == 0 || strcmp(op, "ReduceL2") == 0;
    const bool mean = strcmp(op, "ReduceMean") == 0 || strcmp(op, "GlobalAveragePool") == 0;
    for (int64_t k = 0; k < g->count && k < a->n; ++k) {
        double sum = 0, top = 0;
        for (int64_t j = 0; j < g->size; ++j) {
            const double v = x[g->base[k] + g->offset[j]], t = squares ? v * v : fabs(v);
            sum += t;
            top = fmax(top, t);
        }
        const bool by_count = mean && a->x[k] == 0 && (double)g->size >= limit, by_sum = !isfinite(a->x[k]) && sum >= limit * (1 - slack);
        if (right(a, k)) continue;
        if (!by_count && !by_sum) {
            if (ordinary(a, f16, k)) continue;
            return false;
        }
        o->shown++;
        o->by_square += squares && by_sum && top >= limit * (1 - slack);
    }
    return o->shown > 0;
}

vn_status_t vn_arith_overflow(vn_arith_t *a, vn_error_t *err) {
    const vn_case_t *c = a->c;
    if (c->actual->dtype != VN_F16 || !c->ref->value || c->m.outside == 0) return VN_OK;
    vn_groups_t g;
    VN_TRY(vn_groups_of(a, &g, err));
    const bool softmax = g.count && vn_arith_is(a, "Softmax"); /* of LogSoftmax the logarithm is infinite, no ordinary number */
    if (g.count == 0 || (!softmax && vn_arith_is(a, "LogSoftmax")) || (g.keeps ? g.count * g.size : g.count) != a->n) {
        vn_groups_free(&g);
        return VN_OK;
    }
    a->tried++;
    double *x = vn_arith_plane(a, 0);
    vn_ref_t bias = {0}, f16 = {0};
    vn_status_t s = x ? in_f16(a, &f16, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK && g.keeps) s = bias_plane(a, &bias, err);
    outcome_t o = {0};
    if (s == VN_OK && (g.keeps ? norm_overflows(a, &g, x, &bias, &f16, &o) : reduction_overflows(a, &g, x, &f16, &o))) {
        const char *what = softmax                                                                       ? "sum of exponentials"
                           : o.by_square == o.shown                                                      ? "squares"
                           : !g.keeps && (double)g.size >= limit && c->m.inf_extra == 0                  ? "count of terms"
                           : g.keeps || strstr(c->q->node->op, "L2") || strstr(c->q->node->op, "Square") ? "sum of squares"
                                                                                                         : "sum";
        vn_arith_exact(a, "intermediate-f16-overflow", VN_ARITH_BUG, c->actual,
                       "overflow of the %s in f16 (65504), in %lld of %lld groups of %lld: they hold %s", what, (long long)o.shown,
                       (long long)g.count, (long long)g.size, g.keeps ? "the bias or zero" : "zero or infinity");
    }
    vn_free(x);
    vn_ref_free(&bias);
    vn_ref_free(&f16);
    vn_groups_free(&g);
    return s;
}
