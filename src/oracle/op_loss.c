/* op_loss.c -- NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
 *
 * Claim SOFTMAX-4. A sample's loss is l = -x w[c] with |error| <= |w| E_x (1+u) + u |l| (no product, no rounding, without weights).
 * Sum: sum of those + g(n-1) sum(|l| + error). Mean: S/W with W the sum of the applied weights,
 * (E_S + |S/W| E_W) / (W - E_W) (1+2u) + 2u |S/W|, E_W = g(n-1) W.
 * Own error: the same with u = 2^-53, except that sums are compensated (SUM-0) and only their last rounding counts.
 * The mean leaves ignored samples out of both sums. n = samples that are not ignored; no such sample makes 0/0.
 */
#include <math.h>
#include <string.h>

#include "oracle/escalate.h"
#include "oracle/softmax.h"

enum { NONE, SUM, MEAN };

static int reduction_of(const vn_eval_t *e) {
    const char *r = vn_node_string(e->node, "reduction", "mean");
    return strcmp(r, "none") == 0 ? NONE : strcmp(r, "sum") == 0 ? SUM : MEAN;
}

static vn_status_t check(vn_eval_t *e) {
    const vn_tensor_t *x = e->in[0].t, *c = e->in[1].t;
    bool fits = x->rank >= 2 && c->rank == x->rank - 1 && x->dims[0] == c->dims[0];
    for (int d = 2; fits && d < x->rank; ++d) fits = x->dims[d] == c->dims[d - 1];
    if (fits && vn_has(e, 2)) fits = e->in[2].t->rank == 1 && e->in[2].t->dims[0] == x->dims[1];
    return fits ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "scores [N, C, ...], labels [N, ...] and weights [C] do not fit");
}

static bool softmax_loss(const vn_eval_t *e) { return e->node->op[0] == 'S'; }

vn_status_t vn_infer_loss(vn_eval_t *e) {
    VN_TRY(check(e));
    const bool none = reduction_of(e) == NONE;
    e->out[0].dtype = e->in[0].t->dtype;
    e->out[0].rank = none ? e->in[1].t->rank : 0;
    if (none) memcpy(e->out[0].dims, e->in[1].t->dims, sizeof e->out[0].dims);
    if (e->n_out > 1 && softmax_loss(e)) {
        e->out[1].dtype = e->in[0].t->dtype;
        e->out[1].rank = e->in[0].t->rank;
        memcpy(e->out[1].dims, e->in[0].t->dims, sizeof e->out[1].dims);
    }
    return VN_OK;
}

typedef struct sums {
    double loss, loss_lo, size, err, var, weight, own;
    int64_t n;
} sums_t;

/* ---- single elements again, in 113 bits (claim PREC-3) ---- */

enum { MOST_AGAIN = 1 << 20 }; /* scores that a request may read through exponentials; more stay undecided */

typedef struct again {
    const vn_tensor_t *labels;
    const double *x, *w; /* w NULL: all 1 */
    bool softmax, ignores;
    int64_t ignored, classes, inner;
    double *row; /* [classes] */
} again_t;

/* Adds -w log p of sample i to s, its weight to `weight`. False: a score is not finite. */
static bool add_sample(const again_t *j, int64_t i, vn_quad_sum_t *s, vn_quad_sum_t *weight) {
    const int64_t c = vn_tensor_get_i64(j->labels, i);
    if (j->ignores && c == j->ignored) return true;
    const double w = j->w ? j->w[c] : 1, *x = j->x + i / j->inner * j->classes * j->inner + i % j->inner;
    vn_quad_add(weight, w);
    if (!j->softmax) {
        vn_quad_add_product(s, -x[c * j->inner], w);
        return isfinite(x[c * j->inner]);
    }
    for (int64_t k = 0; k < j->classes; ++k) j->row[k] = x[k * j->inner];
    const vn_quad_expsum_t e = vn_quad_expsum(j->row, j->classes);
    if (!isfinite(e.max)) return false;
    vn_quad_add_product(s, e.log, w);
    vn_quad_add_product(s, e.max, w);
    vn_quad_add_product(s, -x[c * j->inner], w);
    s->lost += e.log_own * fabs(w);
    return true;
}

static vn_status_t refine(vn_eval_t *e, int how) {
    const vn_tensor_t *t = e->in[0].t, *labels = e->in[1].t;
    const vn_attr_t *ignore = vn_node_attr(e->node, "ignore_index");
    const int64_t classes = t->dims[1], inner = t->dims[0] && classes ? t->count / t->dims[0] / classes : 0;
    again_t j = {.labels = labels,
                 .x = vn_arg_f64(e, 0),
                 .w = vn_has(e, 2) ? vn_arg_f64(e, 2) : NULL,
                 .softmax = softmax_loss(e),
                 .classes = classes,
                 .inner = inner};
    if (ignore) {
        j.ignores = true;
        j.ignored = ignore->i;
    }
    if (!j.x || (vn_has(e, 2) && !j.w)) return VN_ERR_NOMEM;
    const int64_t samples = how == NONE ? e->refine->n : labels->count;
    if (e->refine->k != 0 || inner == 0 || (j.softmax && samples > MOST_AGAIN / (classes ? classes : 1))) return VN_OK;
    if (!(j.row = vn_alloc((size_t)classes + 1, sizeof *j.row))) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a row of scores");
    for (int64_t at = 0; at < e->refine->n; ++at) {
        vn_quad_sum_t sum = {0}, weight = {0};
        bool known = true;
        const int64_t first = how == NONE ? e->refine->at[at] : 0, last = how == NONE ? first + 1 : labels->count;
        for (int64_t i = first; i < last && known; ++i) known = add_sample(&j, i, &sum, &weight);
        if (!known) continue;
        vn_exact_t loss = vn_exact_sum(&sum);
        if (how == MEAN) {
            if (!(weight.hi != 0)) continue;
            /* the sum of the weights as one number; what that leaves is relative to it */
            const vn_quad_t left = vn_qabs(weight.lo) + weight.lost, total = weight.hi;
            loss = vn_exact_quotient(loss, total);
            if (left > 0) loss.own += vn_qabs(loss.value) * (2 * left / vn_qabs(total));
        }
        e->refine->out[at] = loss;
    }
    vn_free(j.row);
    return VN_OK;
}

/* x: log-probabilities with errors ex, variances vx and own errors ox (NULL: exact). */
static vn_status_t reduce(vn_eval_t *e, const double *x, const double *ex, const double *vx, const double *ox) {
    const vn_tensor_t *t = e->in[0].t, *labels = e->in[1].t;
    const int how = reduction_of(e);
    const bool weighted = vn_has(e, 2), want = e->want >= VN_WANT_BOUND;
    const vn_attr_t *ignore = vn_node_attr(e->node, "ignore_index");
    const double *w = weighted ? vn_arg_f64(e, 2) : NULL, u = vn_u(e), eta = vn_eta(e);
    if (weighted && !w) return VN_ERR_NOMEM;
    VN_TRY(vn_out_float(e, 0, t->dtype, how == NONE ? labels->rank : 0, labels->dims));
    if (want) VN_TRY(vn_out_own(e, 0));
    vn_ref_t *r = &e->out[0];
    const int64_t classes = t->dims[1], inner = t->dims[0] && classes ? t->count / t->dims[0] / classes : 0;
    sums_t s = {0};
    for (int64_t i = 0; i < labels->count; ++i) {
        const int64_t c = vn_tensor_get_i64(labels, i);
        double l = 0, le = 0, lv = 0, lo = 0, weight = 0;
        if (!(ignore && c == ignore->i)) {
            if (c < 0 || c >= classes || inner == 0)
                return vn_eval_fail(e, VN_ERR_RANGE, "label %lld of sample %lld is not one of %lld classes", (long long)c, (long long)i,
                                    (long long)classes);
            const int64_t at = (i / inner * classes + c) * inner + i % inner;
            weight = w ? w[c] : 1;
            l = weight == 0 && isfinite(x[at]) ? 0 : -x[at] * weight;
            le = (ex ? ex[at] * fabs(weight) * (1 + u) : 0) + (w ? u * fabs(l) + eta / 2 : 0);
            lv = (vx ? vx[at] * weight * weight : 0) + (w ? vn_node_variance(e->contract->accumulator, l) : 0);
            lo = (ox ? ox[at] * fabs(weight) : 0) + (w ? 0x1p-53 * fabs(l) + 0x1p-1074 : 0);
            s.n++;
            vn_two_sum_add(&s.loss, &s.loss_lo, l);
            s.size += fabs(l);
            s.err += le;
            s.var += lv;
            s.own += lo;
            s.weight += weight;
        }
        if (how != NONE) continue;
        r->value[i] = l;
        if (want) r->bound[i] = isfinite(l) ? le : 0;
        if (want) r->own[i] = isfinite(l) ? lo : 0;
        if (r->var) r->var[i] = lv;
    }
    if (how == NONE) return VN_OK;
    const double n = (double)s.n, g = vn_gamma(s.n > 0 ? n - 1 : 0, u), S = isfinite(s.size) ? s.loss + s.loss_lo : s.loss;
    double y = S, E = s.err + g * (s.size + s.err), v = s.var + 0.18 * u * u * n / 2 * s.size * s.size / (n > 0 ? n : 1) * n / 3;
    double own = s.own + n * n * 0x1p-104 * s.size + 0x1p-52 * fabs(S);
    if (how == MEAN) {
        const double ew = w ? g * fabs(s.weight) : 0;
        y = S / s.weight;
        E = ew < fabs(s.weight) ? (E + fabs(y) * ew) / (fabs(s.weight) - ew) * (1 + 2 * u) + 2 * u * fabs(y) + eta : INFINITY;
        const double own_w = w ? vn_gamma(s.n > 0 ? n - 1 : 0, 0x1p-53) * fabs(s.weight) : 0;
        own = own_w < fabs(s.weight) ? (own + fabs(y) * own_w) / (fabs(s.weight) - own_w) * (1 + 0x1p-50) + 0x1p-52 * fabs(y) : INFINITY;
        v = v / (s.weight * s.weight) + vn_node_variance(e->contract->accumulator, y);
    }
    r->value[0] = y;
    if (want) r->bound[0] = isfinite(y) ? E : 0;
    if (want) r->own[0] = isfinite(y) ? own : 0;
    if (r->var) r->var[0] = isfinite(v) ? v : 0;
    r->terms = s.n;
    return VN_OK;
}

/* Output types and shapes, which a request wants noted, then the elements. */
static vn_status_t ask_again(vn_eval_t *e) {
    const vn_tensor_t *t = e->in[0].t, *labels = e->in[1].t;
    const int how = reduction_of(e);
    VN_TRY(vn_out_float(e, 0, t->dtype, how == NONE ? labels->rank : 0, labels->dims));
    if (softmax_loss(e) && e->n_out > 1 && *e->node->outputs[1]) VN_TRY(vn_out_float(e, 1, t->dtype, t->rank, t->dims));
    return refine(e, how);
}

vn_status_t vn_eval_nll_loss(vn_eval_t *e) {
    VN_TRY(check(e));
    if (e->refine) return ask_again(e);
    const double *x = vn_arg_f64(e, 0);
    if (!x) return VN_ERR_NOMEM;
    return reduce(e, x, vn_arg_err(e, 0), e->in[0].var, NULL);
}

vn_status_t vn_eval_softmax_loss(vn_eval_t *e) {
    VN_TRY(check(e));
    if (e->refine) return ask_again(e);
    const vn_tensor_t *t = e->in[0].t;
    const double *x = vn_arg_f64(e, 0);
    if (!x) return VN_ERR_NOMEM;
    bool along[VN_MAX_RANK] = {false, true};
    vn_rows_t s;
    vn_rows_plan(t->rank, t->dims, along, &s);
    const size_t n = (size_t)(t->count ? t->count : 1);
    const bool want = e->want >= VN_WANT_BOUND, vars = e->want >= VN_WANT_VARIANCE;
    double *y = vn_alloc(n, sizeof *y), *b = want ? vn_alloc(n, sizeof *b) : NULL, *v = vars ? vn_alloc(n, sizeof *v) : NULL,
           *own = want ? vn_alloc(n, sizeof *own) : NULL;
    vn_status_t st = y && ((b && own) || !want) && (v || !vars) ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    vn_softmax_planes_t p = {.x = x, .err = vn_arg_err(e, 0), .x_var = e->in[0].var, .y = y, .bound = b, .var = v, .own = own};
    if (st == VN_OK) st = vn_softmax_rows(e, VN_LOG_SOFTMAX, &s, &p);
    if (st == VN_OK) st = reduce(e, y, b, v, own);
    if (st == VN_OK && e->n_out > 1 && *e->node->outputs[1]) {
        st = vn_out_float(e, 1, t->dtype, t->rank, t->dims);
        if (st == VN_OK) {
            vn_ref_t *r = &e->out[1];
            memcpy(r->value, y, (size_t)t->count * sizeof *y);
            if (b) memcpy(r->bound, b, (size_t)t->count * sizeof *b);
            if (v) memcpy(r->var, v, (size_t)t->count * sizeof *v);
            if (own) st = vn_out_own(e, 1);
            if (own && st == VN_OK) memcpy(r->own, own, (size_t)t->count * sizeof *own);
            r->terms = s.n;
        }
    }
    vn_free(y);
    vn_free(b);
    vn_free(v);
    vn_free(own);
    return st;
}
