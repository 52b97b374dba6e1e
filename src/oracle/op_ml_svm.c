/* op_ml_svm.c -- SVMClassifier and SVMRegressor: kernels, weighted sums, votes, Platt's probabilities.
 *
 * Claim ML-KERNEL (x operand with uncertainty dx, v a support vector, F features):
 *   dot      D = F u T + F eta/2 + sum dx |v|, T = sum (|x| + dx)|v|
 *   LINEAR   K = x v, E = D
 *   POLY     z = gamma x v + c, E_z = (|gamma| D + u |gamma x v|)(1 + u) + u |z|; K = z^degree: hull over [z - E_z, z + E_z] (0 included where
 *            it lies inside) + 2tu |K|, t of pow
 *   SIGMOID  K = tanh z: E_z sup(1 - tanh^2) + 2tu |K|
 *   RBF      q = sum (x - v)^2, E_q = g(F+2) q + F eta/2 + sum (2|x - v| dx + dx^2)(1 + 3u); K = exp(-gamma q) within
 *            K (exp(|gamma| E_q + u |gamma q|) (1 + 2tu) - 1) + tau
 * Claim ML-SVM: s = sum a K + rho: sum |a| E_K + g(n+1)(sum |a|(|K| + E_K) + |rho|), n support vectors.
 * Claim ML-PLATT: pairwise 1/(1 + exp(a s + b)), cut to [1e-7, 1 - 1e-7]; error sup f' (|a| E + u(|a s| + |as + b|)) + (2t + 3)u; then ML-COUPLE.
 * Claim ML-VOTE: the class with most pairwise wins (s > 0: the first of the pair); a pair within its error counts for either; equal votes: either.
 * Open: two classes without probabilities: scores -s, s (as all implementations do), reading "one-minus-untransformed" where a softmax is
 * left out. Without support vectors the model is linear, kernel_type is not read, and rho[0] belongs to every class.
 */
#include <math.h>
#include <string.h>

#include "oracle/ml.h"
#include "oracle/ml_couple.h"

typedef enum kernel { KERNEL_LINEAR, KERNEL_POLY, KERNEL_RBF, KERNEL_SIGMOID } kernel_t;

typedef struct svm {
    kernel_t kernel;
    double gamma, coef0, degree;
    vn_ml_post_t post;
    vn_ml_labels_t labels;
    const int64_t *per_class;
    double *coefficients, *rho, *vectors, *prob_a, *prob_b;
    int64_t classes, vectors_n, pairs; /* vectors_n 0: linear */
    bool one_class;
} svm_t;

static void svm_free(svm_t *v) {
    vn_free(v->coefficients);
    vn_free(v->rho);
    vn_free(v->vectors);
    vn_free(v->prob_a);
    vn_free(v->prob_b);
}

static vn_status_t expect(vn_eval_t *e, const char *name, int64_t n, int64_t a, int64_t b) {
    int64_t due;
    if (vn_i64_mul(a, b, &due) && n == due) return VN_OK;
    return vn_eval_fail(e, VN_ERR_SHAPE, "%s has %lld entries, %lld x %lld are due", name, (long long)n, (long long)a, (long long)b);
}

/* What both operators share; counts into n[]: coefficients, rho, support vectors. */
static vn_status_t common(vn_eval_t *e, svm_t *v, int64_t n[3]) {
    static const char *const kernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID", NULL};
    int kernel;
    int64_t count;
    const float *p = vn_node_floats(e->node, "kernel_params", &count);
    VN_TRY(vn_ml_choice(e, "kernel_type", "LINEAR", kernels, &kernel));
    v->kernel = (kernel_t)kernel;
    if (p && count != 0 && count != 3) return vn_eval_fail(e, VN_ERR_SHAPE, "kernel_params has %lld entries, 3 are due", (long long)count);
    if (p && count == 3) {
        v->gamma = (double)p[0];
        v->coef0 = (double)p[1];
        v->degree = (double)p[2];
    }
    VN_TRY(vn_ml_post_of(e, &v->post));
    VN_TRY(vn_ml_numbers(e, "coefficients", NULL, &v->coefficients, &n[0]));
    VN_TRY(vn_ml_numbers(e, "rho", NULL, &v->rho, &n[1]));
    VN_TRY(vn_ml_numbers(e, "support_vectors", NULL, &v->vectors, &n[2]));
    return n[1] ? VN_OK : vn_eval_fail(e, VN_ERR_SHAPE, "rho is missing");
}

static vn_status_t classifier(vn_eval_t *e, svm_t *v) {
    int64_t rows, f, n[3], per_class, a, b;
    *v = (svm_t){0};
    VN_TRY(vn_ml_matrix(e, false, &rows, &f));
    VN_TRY(common(e, v, n));
    VN_TRY(vn_ml_labels_of(e, "classlabels_ints", "classlabels_strings", &v->labels));
    v->classes = v->labels.count;
    if (v->classes < 1) return vn_eval_fail(e, VN_ERR_SHAPE, "no class labels are given");
    v->per_class = vn_ml_ints(e, "vectors_per_class", &per_class);
    for (int64_t i = 0; i < per_class; ++i)
        if (v->per_class[i] < 0 || !vn_i64_add(v->vectors_n, v->per_class[i], &v->vectors_n))
            return vn_eval_fail(e, VN_ERR_RANGE, "vectors_per_class[%lld] is %lld", (long long)i, (long long)v->per_class[i]);
    if (!v->vectors_n) {
        v->kernel = KERNEL_LINEAR;
        return expect(e, "coefficients", n[0], v->classes, f);
    }
    if (v->classes < 2 || !vn_i64_mul(v->classes, v->classes - 1, &v->pairs))
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld class labels for a machine with support vectors", (long long)v->classes);
    v->pairs /= 2;
    VN_TRY(expect(e, "vectors_per_class", per_class, v->classes, 1));
    VN_TRY(expect(e, "support_vectors", n[2], v->vectors_n, f));
    VN_TRY(expect(e, "coefficients", n[0], v->classes - 1, v->vectors_n));
    VN_TRY(expect(e, "rho", n[1], v->pairs, 1));
    VN_TRY(vn_ml_numbers(e, "prob_a", NULL, &v->prob_a, &a));
    VN_TRY(vn_ml_numbers(e, "prob_b", NULL, &v->prob_b, &b));
    if (!a && !b) return VN_OK;
    VN_TRY(expect(e, "prob_a", a, v->pairs, 1));
    return expect(e, "prob_b", b, v->pairs, 1);
}

/* Columns of the scores. */
static int64_t columns(const svm_t *v) { return !v->vectors_n || v->prob_a || v->classes == 2 ? v->classes : v->pairs; }

static vn_status_t regressor(vn_eval_t *e, svm_t *v) {
    int64_t rows, f, n[3];
    *v = (svm_t){0};
    VN_TRY(vn_ml_matrix(e, false, &rows, &f));
    VN_TRY(common(e, v, n));
    v->one_class = vn_node_int(e->node, "one_class", 0) != 0;
    v->vectors_n = vn_node_int(e->node, "n_supports", 0);
    if (v->vectors_n < 0) return vn_eval_fail(e, VN_ERR_RANGE, "n_supports is %lld", (long long)v->vectors_n);
    if (v->vectors_n) VN_TRY(expect(e, "support_vectors", n[2], v->vectors_n, f));
    else v->kernel = KERNEL_LINEAR;
    return expect(e, "coefficients", n[0], v->vectors_n ? v->vectors_n : f, 1);
}

/* ---- kernels ---- */

typedef struct estimate {
    double y, e;
} estimate_t;

static estimate_t dot(const vn_ml_tier_t *t, const double *x, const double *dx, const double *v, int64_t n) {
    double y = 0, total = 0, carried = 0, read = 0;
    for (int64_t k = 0; k < n; ++k) {
        const double d = dx ? dx[k] : 0, a = fabs(v[k]);
        y += x[k] * v[k];
        total += (fabs(x[k]) + d) * a;
        carried += d * a;
        read += fabs(x[k]) + a;
    }
    if (t->contract.daz || t->contract.ftz) carried += t->tau * (read + (double)n);
    return (estimate_t){y, vn_ml_sum_error(t, (double)n, total, (double)n) + carried};
}

static estimate_t squares(const vn_ml_tier_t *t, const double *x, const double *dx, const double *v, int64_t n) {
    double q = 0, carried = 0;
    for (int64_t k = 0; k < n; ++k) {
        const double d = dx ? dx[k] : 0, a = fabs(x[k] - v[k]);
        q += a * a;
        carried += 2 * a * d + d * d;
        if (t->contract.daz || t->contract.ftz) carried += 2 * t->tau * (a + t->tau + 1);
    }
    return (estimate_t){q, vn_ml_sum_error(t, (double)n + 2, q + carried, (double)n) + carried * (1 + 3 * t->u)};
}

static double power_error(const vn_ml_tier_t *t, double z, double e, double degree, double y) {
    const double lo = pow(z - e, degree), hi = pow(z + e, degree);
    double b = fmax(fabs(lo - y), fabs(hi - y));
    if (z - e < 0 && z + e > 0) b = fmax(b, fabs(pow(0, degree) - y));
    if (isnan(lo) || isnan(hi)) b = INFINITY; /* a base below zero has no root */
    return b + 2 * vn_budget(&t->e, "pow") * t->u * (fabs(y) + b) + t->tau;
}

static estimate_t kernel_of(const svm_t *s, const vn_ml_tier_t *t, const double *x, const double *dx, const double *v, int64_t n) {
    const double u = t->u;
    if (s->kernel == KERNEL_RBF) {
        const estimate_t q = squares(t, x, dx, v, n);
        const double y = exp(-s->gamma * q.y), d = fabs(s->gamma) * (q.e * (1 + u) + u * q.y) + t->eta;
        const double two_tu = 2 * vn_budget(&t->e, "exp") * u;
        return (estimate_t){y, y * (expm1(d) * (1 + two_tu) + two_tu) + t->tau};
    }
    const estimate_t p = dot(t, x, dx, v, n);
    if (s->kernel == KERNEL_LINEAR) return p;
    const double z = s->gamma * p.y + s->coef0;
    const double e = (fabs(s->gamma) * p.e + u * fabs(s->gamma * p.y)) * (1 + u) + u * fabs(z) + t->eta;
    if (s->kernel == KERNEL_POLY) {
        const double y = pow(z, s->degree);
        return (estimate_t){y, isfinite(y) ? power_error(t, z, e, s->degree, y) : 0};
    }
    const double y = tanh(z), near = tanh(fmax(fabs(z) - e, 0)), two_tu = 2 * vn_budget(&t->e, "tanh") * u;
    return (estimate_t){y, (1 - near * near) * e * (1 + two_tu) + two_tu * fabs(y) + t->tau};
}

/* ---- sums ---- */

typedef struct part {
    const double *a, *k, *e; /* weights, kernels, their errors */
    int64_t n;
} part_t;

/* rho + the sums of up to two parts. terms: room for all and one. */
static estimate_t weighted(const vn_ml_tier_t *t, const part_t *parts, int n_parts, double rho, double *terms, double *var) {
    double total = fabs(rho), carried = 0, spread = 0;
    int64_t n = 0;
    for (int p = 0; p < n_parts; ++p)
        for (int64_t i = 0; i < parts[p].n; ++i) {
            const double a = fabs(parts[p].a[i]), e = parts[p].e[i];
            terms[n++] = parts[p].a[i] * parts[p].k[i];
            total += a * (fabs(parts[p].k[i]) + e);
            carried += a * e;
            spread += a * a * e * e / 3; /* as if uniform over its bound: too much rather than too little */
        }
    terms[n++] = rho;
    const double y = vn_sum2(terms, n).hi;
    if (var) *var = vn_sum_variance(t->format, terms, n, y) + spread + t->u * t->u * y * y;
    return (estimate_t){y, vn_ml_sum_error(t, (double)n, total, (double)n) + carried};
}

typedef struct job {
    const vn_ml_t *m;
    const svm_t *v;
    vn_ml_scores_t *s; /* pairs, or classes, or one */
    int failed;
} job_t;

static const double *errors_of(const vn_ml_t *m, int t, int64_t i) { return m->tier[t].err ? m->tier[t].err + i * m->f : NULL; }

/* Without support vectors: one product per class. */
static void linear_row(const job_t *j, int64_t i, double *terms) {
    const vn_ml_t *m = j->m;
    const double one = 1;
    for (int64_t c = 0; c < j->s->c; ++c)
        for (int t = 0; t <= m->last; ++t) {
            const estimate_t d = dot(&m->tier[t], m->x + i * m->f, errors_of(m, t, i), j->v->coefficients + c * m->f, m->f);
            const part_t p = {.a = &one, .k = &d.y, .e = &d.e, .n = 1};
            double var = 0;
            const estimate_t r = weighted(&m->tier[t], &p, 1, j->v->rho[0], terms, t == 0 && j->s->var ? &var : NULL);
            const int64_t at = i * j->s->c + c;
            if (t == 0) j->s->y[at] = r.y;
            j->s->err[t][at] = r.e;
            if (t == 0 && j->s->var) j->s->var[at] = var;
        }
}

static void one_score(const job_t *j, int64_t at, int t, const part_t *parts, int n, double rho, double *terms) {
    double var = 0;
    const estimate_t r = weighted(&j->m->tier[t], parts, n, rho, terms, t == 0 && j->s->var ? &var : NULL);
    if (t == 0) j->s->y[at] = r.y;
    j->s->err[t][at] = isfinite(r.y) ? r.e : 0;
    if (t == 0 && j->s->var) j->s->var[at] = isfinite(var) ? var : 0;
}

static void vector_row(const job_t *j, int64_t i, double *k, double *e, double *terms) {
    const vn_ml_t *m = j->m;
    const svm_t *v = j->v;
    for (int t = 0; t <= m->last; ++t) {
        for (int64_t n = 0; n < v->vectors_n; ++n) {
            const estimate_t r = kernel_of(v, &m->tier[t], m->x + i * m->f, errors_of(m, t, i), v->vectors + n * m->f, m->f);
            k[n] = r.y;
            e[n] = r.e;
        }
        if (!v->pairs) {
            const part_t all = {v->coefficients, k, e, v->vectors_n};
            one_score(j, i, t, &all, 1, v->rho[0], terms);
            continue;
        }
        int64_t at = 0, from = 0;
        for (int64_t a = 0; a < v->classes; ++a) {
            int64_t to = from + v->per_class[a];
            for (int64_t b = a + 1; b < v->classes; ++b, ++at) {
                const part_t parts[] = {{v->coefficients + (b - 1) * v->vectors_n + from, k + from, e + from, v->per_class[a]},
                                        {v->coefficients + a * v->vectors_n + to, k + to, e + to, v->per_class[b]}};
                one_score(j, i * v->pairs + at, t, parts, 2, v->rho[at], terms);
                to += v->per_class[b];
            }
            from += v->per_class[a];
        }
    }
}

static void score_rows(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    const int64_t n = j->v->vectors_n;
    double *k = vn_alloc((size_t)(n + 1), 4 * sizeof *k);
    if (!k) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = begin; i < end; ++i) {
        if (n) vector_row(j, i, k, k + n + 1, k + 2 * (n + 1));
        else linear_row(j, i, k);
    }
    vn_free(k);
}

static vn_status_t score(vn_ml_t *m, const svm_t *v, int64_t c, vn_ml_scores_t *s) {
    VN_TRY(vn_ml_scores_new(m, c, s));
    job_t j = {.m = m, .v = v, .s = s};
    vn_parallel(m->n, 4, score_rows, &j);
    return j.failed ? vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for %lld kernels", (long long)v->vectors_n) : VN_OK;
}

/* ---- SVMRegressor ---- */

vn_status_t vn_infer_ml_svm_regressor(vn_eval_t *e) {
    svm_t v;
    int64_t n = 0, f;
    vn_status_t s = regressor(e, &v);
    svm_free(&v);
    if (s == VN_OK) s = vn_ml_matrix(e, false, &n, &f);
    const vn_shape_t shape = {.rank = 2, .d = {n, 1}};
    return s == VN_OK ? vn_move_infer(e, 0, VN_F32, &shape) : s;
}

/* 1 for inliers, -1 for outliers; within the error of 0 either. */
static vn_status_t inliers(vn_ml_t *m, const vn_ml_scores_t *s) {
    VN_TRY(vn_out_exact(m->e, 0, VN_F32, 2, (int64_t[]){s->n, 1}));
    VN_TRY(vn_out_either(m->e, 0));
    float *y = m->e->out[0].tensor->data, *either = m->e->out[0].either->data;
    for (int64_t i = 0; i < s->n; ++i) {
        y[i] = s->y[i] > 0 ? 1 : -1;
        either[i] = fabs(s->y[i]) <= s->err[m->last][i] ? -y[i] : y[i];
    }
    return VN_OK;
}

vn_status_t vn_ml_svm_regressor(vn_eval_t *e) {
    svm_t v;
    vn_ml_t m = {.e = e};
    vn_ml_scores_t s = {0};
    vn_status_t st = regressor(e, &v);
    if (st == VN_OK) st = vn_ml_open(e, false, &m);
    if (st == VN_OK) st = score(&m, &v, 1, &s);
    const vn_ml_form_t form = {.post = v.post};
    if (st == VN_OK && v.one_class) st = inliers(&m, &s);
    else if (st == VN_OK) st = vn_ml_emit(&m, 0, VN_F32, &s, &form, 1);
    vn_ml_scores_free(&s);
    vn_ml_close(&m);
    svm_free(&v);
    return st;
}

/* ---- SVMClassifier ---- */

vn_status_t vn_infer_ml_svm_classifier(vn_eval_t *e) {
    svm_t v;
    vn_status_t s = classifier(e, &v);
    if (s == VN_OK) s = vn_ml_infer_classes(e, &v.labels, columns(&v));
    svm_free(&v);
    return s;
}

/* Pairwise probability with its error. */
static vn_ball_t platt(const vn_ml_tier_t *t, double s, double e, double a, double b) {
    const double z = a * s + b, d = fabs(a) * e + t->u * (fabs(a * s) + fabs(a) * e + fabs(z)) + t->eta;
    const double w = exp(-fabs(z)), near = exp(-fmax(fabs(z) - d, 0)), slope = near / ((1 + near) * (1 + near));
    const double p = z >= 0 ? w / (1 + w) : 1 / (1 + w);
    const double least = 1e-7; /* claim ML-PLATT */
    return (vn_ball_t){fmin(fmax(p, least), 1 - least), slope * d + (2 * vn_budget(&t->e, "sigmoid") + 3) * t->u};
}

static vn_status_t probabilities(vn_ml_t *m, const svm_t *v, const vn_ml_scores_t *pairs, vn_ml_scores_t *out) {
    const int64_t c = v->classes;
    int64_t room;
    VN_TRY(vn_ml_scores_new(m, c, out));
    vn_ball_t *r = vn_i64_mul(c, c, &room) ? vn_alloc((size_t)room * 2 + (size_t)c * 3, sizeof *r) : NULL;
    if (!r) return vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for %lld classes", (long long)c);
    vn_ball_t *p = r + room, *scratch = p + c;
    for (int64_t i = 0; i < pairs->n; ++i)
        for (int t = 0; t <= m->last; ++t) {
            int64_t at = i * v->pairs, pair = 0;
            for (int64_t a = 0; a < c; ++a)
                for (int64_t b = a + 1; b < c; ++b, ++at, ++pair) {
                    r[a * c + b] = platt(&m->tier[t], pairs->y[at], pairs->err[t][at], v->prob_a[pair], v->prob_b[pair]);
                    r[b * c + a] = (vn_ball_t){1 - r[a * c + b].m, r[a * c + b].r + m->tier[t].u};
                }
            vn_couple(c, r, m->tier[t].u, p, scratch);
            for (int64_t k = 0; k < c; ++k) {
                if (t == 0) out->y[i * c + k] = p[k].m;
                out->err[t][i * c + k] = fmin(p[k].r, 1);
                if (t == 0 && out->var) out->var[i * c + k] = out->err[0][i * c + k] * out->err[0][i * c + k] / 3;
            }
        }
    vn_free(r);
    return VN_OK;
}

/* Claim ML-VOTE: sure wins and possible ones. */
static void votes(const vn_ml_t *m, const svm_t *v, const vn_ml_scores_t *pairs, int64_t *sure, vn_ml_choices_t *pick) {
    const int64_t c = v->classes;
    int64_t *maybe = sure + c, *won = maybe + c;
    for (int64_t i = 0; i < pairs->n; ++i) {
        int64_t at = i * v->pairs, best = 0, least = 0, others = 0;
        bool nan = false;
        memset(sure, 0, (size_t)c * 3 * sizeof *sure);
        for (int64_t a = 0; a < c; ++a)
            for (int64_t b = a + 1; b < c; ++b, ++at) {
                const double s = pairs->y[at];
                const int64_t winner = s > 0 ? a : b;
                nan |= isnan(s);
                ++won[winner];
                if (fabs(s) > pairs->err[m->last][at]) ++sure[winner];
                else ++maybe[a], ++maybe[b];
            }
        for (int64_t k = 0; k < c; ++k) {
            if (won[k] > won[best]) best = k;
            if (sure[k] > least) least = sure[k];
        }
        pick->best[i] = pick->other[i] = best;
        for (int64_t k = 0; k < c; ++k)
            if (k != best && sure[k] + maybe[k] >= least) {
                pick->other[i] = k;
                ++others;
            }
        pick->open[i] = nan || others > 1;
    }
}

static vn_status_t decide(vn_ml_t *m, const svm_t *v, const vn_ml_scores_t *s, vn_ml_choices_t *pick) {
    VN_TRY(vn_ml_choices_new(m->e, s->n, pick));
    if (!v->vectors_n) {
        vn_ml_top(m, s, pick);
        return VN_OK;
    }
    int64_t *count = vn_alloc((size_t)v->classes, 3 * sizeof *count);
    if (!count) return vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for %lld classes", (long long)v->classes);
    votes(m, v, s, count, pick);
    vn_free(count);
    return VN_OK;
}

static vn_status_t emit_scores(vn_ml_t *m, const svm_t *v, const vn_ml_scores_t *s) {
    vn_ml_scores_t p = {0};
    const bool two = v->vectors_n && v->classes == 2 && !v->prob_a;
    const vn_ml_form_t forms[] = {{.expand = two ? VN_ML_NEGATED : VN_ML_AS_IS, .post = v->post},
                                  {.name = "one-minus-untransformed", .expand = VN_ML_ONE_MINUS, .post = VN_ML_NONE}};
    vn_status_t st = v->prob_a ? probabilities(m, v, s, &p) : VN_OK;
    const bool soft = v->post == VN_ML_SOFTMAX || v->post == VN_ML_SOFTMAX_ZERO;
    if (st == VN_OK) st = vn_ml_emit(m, 1, VN_F32, v->prob_a ? &p : s, forms, two && soft ? 2 : 1);
    vn_ml_scores_free(&p);
    return st;
}

vn_status_t vn_ml_svm_classifier(vn_eval_t *e) {
    svm_t v;
    vn_ml_t m = {.e = e};
    vn_ml_scores_t s = {0};
    vn_ml_choices_t pick = {0};
    vn_status_t st = classifier(e, &v);
    if (st == VN_OK) st = vn_ml_open(e, false, &m);
    if (st == VN_OK) st = score(&m, &v, v.vectors_n ? v.pairs : v.classes, &s);
    if (st == VN_OK && vn_move_wanted(e, 1)) st = emit_scores(&m, &v, &s);
    if (st == VN_OK) st = decide(&m, &v, &s, &pick);
    if (st == VN_OK) st = vn_ml_label_out(e, 0, &v.labels, &pick);
    if (st == VN_OK && v.prob_a) st = vn_ml_label_transformed(e, 0, &v.labels, 1);
    vn_ml_choices_free(&pick);
    vn_ml_scores_free(&s);
    vn_ml_close(&m);
    svm_free(&v);
    return st;
}
