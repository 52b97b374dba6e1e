/* op_ml_linear.c -- LinearClassifier and LinearRegressor: x w + b per class or target, then the post transform.
 *
 * Claim ML-LINEAR: E = (F + b) u T + F eta/2 + sum dx |w|, T = sum (|x| + dx)|w| + |b|, F features, b = 1 with an intercept (CONTRACT-1; dx:
 * what the operand loses when it is read in the accumulator's format). The coefficients of a class are contiguous.
 * Open in the text: how one row of coefficients serves two labels. Here the scores are -s and s and label 1 is chosen where s > 0; readings
 * "one-minus" (1 - s, s) and "one-minus-untransformed" (the same, without the post transform).
 */
#include <math.h>
#include <string.h>

#include "oracle/ml.h"

typedef struct linear {
    int64_t rows, classes; /* rows of coefficients, scores in the output */
    double *w, *b;         /* [rows, f], [rows] or NULL */
    vn_ml_labels_t labels;
    vn_ml_post_t post;
} linear_t;

static void linear_free(linear_t *l) {
    vn_free(l->w);
    vn_free(l->b);
}

/* rows 0: as many as the coefficients hold. */
static vn_status_t read_model(vn_eval_t *e, int64_t rows, linear_t *l) {
    int64_t n, f, count, intercepts;
    *l = (linear_t){.rows = rows};
    VN_TRY(vn_ml_matrix(e, false, &n, &f));
    VN_TRY(vn_ml_post_of(e, &l->post));
    VN_TRY(vn_ml_numbers(e, "coefficients", NULL, &l->w, &count));
    VN_TRY(vn_ml_numbers(e, "intercepts", NULL, &l->b, &intercepts));
    if (f < 1 || count < f || count % f)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld coefficients for %lld features", (long long)count, (long long)f);
    if (rows && count / f != rows)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld coefficients are not %lld targets of %lld features", (long long)count, (long long)rows,
                            (long long)f);
    l->rows = count / f;
    if (intercepts && intercepts != l->rows)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld intercepts for %lld rows of coefficients", (long long)intercepts, (long long)l->rows);
    return VN_OK;
}

typedef struct job {
    const vn_ml_t *m;
    const linear_t *l;
    vn_ml_scores_t *s;
    int failed;
} job_t;

static double row_error(const vn_ml_t *m, const vn_ml_tier_t *t, const double *x, const double *err, const double *w, double b,
                        double added) {
    double total = fabs(b), carried = 0, read = 0;
    for (int64_t k = 0; k < m->f; ++k) {
        const double dx = err ? err[k] : 0, a = fabs(w[k]);
        total += (fabs(x[k]) + dx) * a;
        carried += dx * a;
        read += fabs(x[k]) + a;
    }
    const double e = vn_ml_sum_error(t, (double)m->f + added, total, (double)m->f) + carried;
    return (t->contract.daz || t->contract.ftz ? e + t->tau * (read + (double)m->f) : e) * (1 + 0x1p-40);
}

static void score_rows(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    const vn_ml_t *m = j->m;
    double *terms = vn_alloc((size_t)m->f + 1, sizeof *terms);
    if (!terms) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < j->l->rows; ++c) {
            const double *x = m->x + i * m->f, *w = j->l->w + c * m->f, b = j->l->b ? j->l->b[c] : 0;
            const int64_t at = i * j->l->rows + c;
            for (int64_t k = 0; k < m->f; ++k) terms[k] = x[k] * w[k];
            terms[m->f] = b;
            const int64_t n = m->f + (j->l->b ? 1 : 0);
            j->s->y[at] = vn_sum2(terms, n).hi;
            for (int t = 0; t <= m->last; ++t) {
                const double *err = m->tier[t].err ? m->tier[t].err + i * m->f : NULL;
                j->s->err[t][at] = row_error(m, &m->tier[t], x, err, w, b, j->l->b ? 1 : 0);
            }
            if (!j->s->var) continue;
            double v = vn_sum_variance(m->tier[0].format, terms, n, j->s->y[at]);
            for (int64_t k = 0; k < m->f; ++k) {
                v += vn_node_variance(m->tier[0].format, terms[k]);
                if (m->e->in[0].var) v += w[k] * w[k] * m->e->in[0].var[i * m->f + k];
            }
            j->s->var[at] = v;
        }
    vn_free(terms);
}

static vn_status_t score(vn_ml_t *m, const linear_t *l, vn_ml_scores_t *s) {
    VN_TRY(vn_ml_scores_new(m, l->rows, s));
    job_t j = {.m = m, .l = l, .s = s};
    vn_parallel(m->n, 16, score_rows, &j);
    return j.failed ? vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for %lld features", (long long)m->f) : VN_OK;
}

/* ---- LinearRegressor ---- */

static vn_status_t regressor(vn_eval_t *e, linear_t *l) {
    const int64_t targets = vn_node_int(e->node, "targets", 1);
    *l = (linear_t){0};
    if (targets < 1) return vn_eval_fail(e, VN_ERR_RANGE, "targets is %lld", (long long)targets);
    return read_model(e, targets, l);
}

vn_status_t vn_infer_ml_linear_regressor(vn_eval_t *e) {
    linear_t l;
    int64_t n = 0, f;
    vn_status_t s = regressor(e, &l);
    if (s == VN_OK) s = vn_ml_matrix(e, false, &n, &f);
    const vn_shape_t shape = {.rank = 2, .d = {n, l.rows}};
    linear_free(&l);
    return s == VN_OK ? vn_move_infer(e, 0, VN_F32, &shape) : s;
}

vn_status_t vn_ml_linear_regressor(vn_eval_t *e) {
    linear_t l;
    vn_ml_t m = {.e = e};
    vn_ml_scores_t s = {0};
    vn_status_t st = regressor(e, &l);
    if (st == VN_OK) st = vn_ml_open(e, false, &m);
    if (st == VN_OK) st = score(&m, &l, &s);
    const vn_ml_form_t form = {.post = l.post};
    if (st == VN_OK) st = vn_ml_emit(&m, 0, VN_F32, &s, &form, 1);
    if (st == VN_OK) e->out[0].terms = m.f + 1;
    vn_ml_scores_free(&s);
    vn_ml_close(&m);
    linear_free(&l);
    return st;
}

/* ---- LinearClassifier ---- */

static vn_status_t classifier(vn_eval_t *e, linear_t *l) {
    vn_ml_labels_t labels = {0};
    *l = (linear_t){0};
    VN_TRY(vn_ml_labels_of(e, "classlabels_ints", "classlabels_strings", &labels));
    VN_TRY(read_model(e, 0, l));
    l->labels = labels;
    l->classes = l->rows == 1 && labels.count == 2 ? 2 : l->rows;
    if (labels.count && labels.count != l->classes)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld labels for %lld rows of coefficients", (long long)labels.count, (long long)l->rows);
    return VN_OK;
}

vn_status_t vn_infer_ml_linear_classifier(vn_eval_t *e) {
    linear_t l;
    vn_status_t s = classifier(e, &l);
    if (s == VN_OK) s = vn_ml_infer_classes(e, &l.labels, l.classes);
    linear_free(&l);
    return s;
}

static vn_status_t classify(vn_ml_t *m, const linear_t *l, const vn_ml_scores_t *s) {
    vn_eval_t *e = m->e;
    const bool two = l->rows == 1 && l->classes == 2, threshold = two || (l->rows == 1 && l->labels.count == 0);
    const vn_ml_form_t forms[] = {{.expand = two ? VN_ML_NEGATED : VN_ML_AS_IS, .post = l->post},
                                  {.name = "one-minus", .expand = VN_ML_ONE_MINUS, .post = l->post},
                                  {.name = "one-minus-untransformed", .expand = VN_ML_ONE_MINUS, .post = VN_ML_NONE}};
    VN_TRY(vn_ml_emit(m, 1, VN_F32, s, forms, !two ? 1 : l->post == VN_ML_NONE ? 2 : 3));
    if (vn_move_wanted(e, 1)) e->out[1].terms = m->f + 1;
    vn_ml_choices_t c;
    vn_status_t st = vn_ml_choices_new(e, s->n, &c);
    if (st == VN_OK && threshold) vn_ml_beyond(m, s, 0, &c);
    else if (st == VN_OK) vn_ml_top(m, s, &c);
    if (st == VN_OK) st = vn_ml_label_out(e, 0, &l->labels, &c);
    vn_ml_choices_free(&c);
    if (st == VN_OK && (l->post == VN_ML_SOFTMAX_ZERO || l->post == VN_ML_PROBIT)) st = vn_ml_label_transformed(e, 0, &l->labels, 1);
    return st;
}

vn_status_t vn_ml_linear_classifier(vn_eval_t *e) {
    linear_t l;
    vn_ml_t m = {.e = e};
    vn_ml_scores_t s = {0};
    vn_status_t st = classifier(e, &l);
    if (st == VN_OK) st = vn_ml_open(e, false, &m);
    if (st == VN_OK) st = score(&m, &l, &s);
    if (st == VN_OK) st = classify(&m, &l, &s);
    vn_ml_scores_free(&s);
    vn_ml_close(&m);
    linear_free(&l);
    return st;
}
