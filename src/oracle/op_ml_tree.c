/* op_ml_tree.c -- TreeEnsemble, TreeEnsembleClassifier, TreeEnsembleRegressor: votes of the leaves, aggregated per target.
 *
 * Claim ML-TREE: the way through a tree is exact comparisons of the operand with f32 (or tensor) thresholds. SUM: E = (n-1) u T over the n votes
 * and the base value, 0 where SUM-EXACT holds; AVERAGE: g(n+1) T / trees + eta, then u|y| for the base; MIN and MAX exact, u|y| for the base;
 * plus what weights lose that the accumulator does not hold. Where an operand that f32 does not hold takes another way once it is rounded, the
 * second tier "operand-f32" reaches to the sum of that way.
 * Claim ML-BINARY: two labels and votes for class 0 only (the common form of two-class models; open in the text): the sum s is the score of
 * label 1. Scores 1 - s, s (weights without sign) or -s, s; label 1 where s > 1/2, or s > 0. Readings: "one-minus", "untransformed" (a softmax
 * left out), "second-class-zero" (s and 0, as the ids say), "top-of-transformed". With one label: "one-label-binary" (1 where s > 0, else 0).
 * A target without votes has 0 under MIN and MAX (reading "no-vote-extreme").
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "oracle/ml_tree.h"

typedef enum aggregate { AGG_AVERAGE, AGG_SUM, AGG_MIN, AGG_MAX } aggregate_t;

typedef struct job {
    const vn_ml_t *m;
    const vn_forest_t *f;
    aggregate_t how;
    vn_ml_scores_t *s;
    uint8_t *voted; /* [n, targets]; NULL: not wanted */
    int failed;
} job_t;

/* Scratch of one thread: votes of one row, grouped by target. */
typedef struct scratch {
    int64_t *leaf, *other, *first; /* [trees], [trees], [targets + 1] */
    double *terms, *rounded;       /* all votes of a row; a row as f32 */
} scratch_t;

static void scratch_free(scratch_t *s) {
    vn_free(s->leaf);
    vn_free(s->other);
    vn_free(s->first);
    vn_free(s->terms);
    vn_free(s->rounded);
}

static bool scratch_new(const vn_ml_t *m, const vn_forest_t *f, scratch_t *s) {
    int64_t widest = 0, votes;
    for (int64_t i = 0; i < f->n_leaves; ++i) {
        const int64_t w = f->leaf_first[i + 1] - f->leaf_first[i];
        widest = w > widest ? w : widest;
    }
    *s = (scratch_t){0};
    if (!vn_i64_mul(widest, f->n_trees, &votes) || !vn_i64_add(votes, f->targets + 1, &votes)) return false;
    s->leaf = vn_alloc((size_t)(f->n_trees + 1), sizeof *s->leaf);
    s->other = vn_alloc((size_t)(f->n_trees + 1), sizeof *s->other);
    s->first = vn_alloc((size_t)(f->targets + 2), sizeof *s->first);
    s->terms = vn_alloc((size_t)votes, sizeof *s->terms);
    s->rounded = vn_alloc((size_t)(m->f + 1), sizeof *s->rounded);
    return s->leaf && s->other && s->first && s->terms && s->rounded;
}

static bool has_base(const vn_forest_t *f, int64_t t) { return t < f->n_base; }

/* Votes of the leaves, one target after the other, its base value last (sums only). */
static void gather(const job_t *j, const int64_t *leaf, scratch_t *s) {
    const vn_forest_t *f = j->f;
    memset(s->first, 0, (size_t)(f->targets + 2) * sizeof *s->first);
    for (int64_t t = 0; t < f->n_trees; ++t)
        for (int64_t v = f->leaf_first[leaf[t]]; v < f->leaf_first[leaf[t] + 1]; ++v) ++s->first[f->votes[v].target + 2];
    for (int64_t t = 0; j->how == AGG_SUM && t < f->targets; ++t) s->first[t + 2] += has_base(f, t);
    for (int64_t t = 0; t < f->targets; ++t) s->first[t + 2] += s->first[t + 1];
    for (int64_t t = 0; t < f->n_trees; ++t)
        for (int64_t v = f->leaf_first[leaf[t]]; v < f->leaf_first[leaf[t] + 1]; ++v)
            s->terms[s->first[f->votes[v].target + 1]++] = f->votes[v].weight;
    for (int64_t t = 0; j->how == AGG_SUM && t < f->targets; ++t)
        if (has_base(f, t)) s->terms[s->first[t + 1]++] = f->base[t];
    /* first[t + 1] is now the end of target t, first[t] its beginning */
}

typedef struct total {
    double y, err[2], var;
} total_t;

/* What the weights lose that the accumulator does not hold. */
static double unheld(vn_format_t f, const double *x, int64_t n) {
    double e = 0;
    for (int64_t i = 0; i < n; ++i)
        if (isfinite(x[i])) e += fabs(x[i] - vn_round_to(f, x[i], VN_RNE, false));
    return e;
}

static double sum_error(const job_t *j, const vn_ml_tier_t *t, const double *x, int64_t n, double abs) {
    const double lost = unheld(t->format, x, n), flush = t->contract.ftz || t->contract.daz ? 2 * (double)n * t->tau : 0;
    if (n == 0) return 0;
    if (j->how == AGG_AVERAGE) return (vn_gamma((double)n + 1, t->u) * abs + lost) / (double)j->f->n_trees + t->eta + flush;
    if (lost == 0 && flush == 0 && (n == 1 || vn_sum_exact(x, n, abs, t->format))) return 0;
    return vn_gamma((double)(n - 1), t->u) * (abs + lost) + lost + flush;
}

static total_t totalled(const job_t *j, const double *x, int64_t n, int64_t target) {
    const vn_ml_t *m = j->m;
    total_t r = {0};
    const bool sum = j->how == AGG_SUM || j->how == AGG_AVERAGE, base = j->how != AGG_SUM && has_base(j->f, target);
    if (sum) {
        const vn_sum2_t s = vn_sum2(x, n);
        const double scale = j->how == AGG_AVERAGE ? (double)j->f->n_trees : 1;
        r.y = j->how == AGG_AVERAGE ? vn_sum2_over(s, scale).hi : s.hi;
        for (int t = 0; t <= m->last; ++t) r.err[t] = sum_error(j, &m->tier[t], x, n, s.abs);
        if (j->s->var && n > 0 && r.err[0] > 0) r.var = vn_sum_variance(m->tier[0].format, x, n, s.hi) / (scale * scale);
        if (j->how == AGG_AVERAGE && j->s->var && n > 0) r.var += vn_node_variance(m->tier[0].format, r.y);
    } else if (n > 0) {
        r.y = x[0];
        for (int64_t i = 1; i < n; ++i) r.y = (j->how == AGG_MIN ? x[i] < r.y : x[i] > r.y) ? x[i] : r.y;
        for (int t = 0; t <= m->last; ++t) r.err[t] = unheld(m->tier[t].format, &r.y, 1);
    }
    if (!base) return r;
    r.y += j->f->base[target];
    for (int t = 0; t <= m->last; ++t)
        r.err[t] += m->tier[t].u * (fabs(r.y) + r.err[t]) + unheld(m->tier[t].format, &j->f->base[target], 1);
    if (j->s->var) r.var += vn_node_variance(m->tier[0].format, r.y);
    return r;
}

/* The row with operands rounded to f32: do its trees end elsewhere? */
static bool other_way(const job_t *j, const double *x, scratch_t *s) {
    bool differs = false;
    for (int64_t k = 0; k < j->m->f; ++k) s->rounded[k] = vn_round_to(VN_FMT_F32, x[k], VN_RNE, false);
    for (int64_t t = 0; t < j->f->n_trees; ++t) {
        s->other[t] = vn_forest_leaf(j->f, t, s->rounded);
        differs |= s->other[t] != s->leaf[t];
    }
    return differs;
}

static void rows(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    const vn_forest_t *f = j->f;
    scratch_t s;
    if (!scratch_new(j->m, f, &s)) {
        __atomic_store_n(&j->failed, 1, __ATOMIC_RELAXED);
        end = begin;
    }
    for (int64_t i = begin; i < end; ++i) {
        const double *x = j->m->x + i * j->m->f;
        for (int64_t t = 0; t < f->n_trees; ++t) s.leaf[t] = vn_forest_leaf(f, t, x);
        gather(j, s.leaf, &s);
        for (int64_t t = 0; t < f->targets; ++t) {
            const int64_t at = i * f->targets + t, n = s.first[t + 1] - s.first[t];
            const total_t r = totalled(j, s.terms + s.first[t], n, t);
            j->s->y[at] = r.y;
            for (int k = 0; k <= j->m->last; ++k) j->s->err[k][at] = r.err[k];
            if (j->s->var) j->s->var[at] = r.var;
            if (j->voted) j->voted[at] = n > 0;
        }
        if (!j->m->last || !other_way(j, x, &s)) continue;
        gather(j, s.other, &s);
        for (int64_t t = 0; t < f->targets; ++t) {
            const int64_t at = i * f->targets + t;
            const total_t r = totalled(j, s.terms + s.first[t], s.first[t + 1] - s.first[t], t);
            j->s->err[1][at] = fmax(j->s->err[1][at], fabs(r.y - j->s->y[at]) + r.err[1]);
        }
    }
    scratch_free(&s);
}

static vn_status_t aggregate(vn_ml_t *m, const vn_forest_t *f, aggregate_t how, vn_ml_scores_t *s, uint8_t *voted) {
    VN_TRY(vn_ml_scores_new(m, f->targets, s));
    job_t j = {.m = m, .f = f, .how = how, .s = s, .voted = voted};
    vn_parallel(m->n, 64, rows, &j);
    return j.failed ? vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for the votes of %lld trees", (long long)f->n_trees) : VN_OK;
}

/* ---- TreeEnsemble and TreeEnsembleRegressor ---- */

typedef struct plan {
    vn_forest_t f;
    aggregate_t how;
    vn_ml_post_t post;
    vn_dtype_t type;
} plan_t;

static vn_status_t choice(vn_eval_t *e, const char *name, int64_t fallback, int64_t last, int *out) {
    const int64_t v = vn_node_int(e->node, name, fallback);
    *out = (int)v;
    return v >= 0 && v <= last ? VN_OK : vn_eval_fail(e, VN_ERR_RANGE, "%s is %lld", name, (long long)v);
}

static vn_status_t ensemble(vn_eval_t *e, bool old, plan_t *p) {
    static const char *const names[] = {"AVERAGE", "SUM", "MIN", "MAX", NULL};
    int64_t n, f;
    int how, post = 0;
    *p = (plan_t){.type = VN_F32};
    VN_TRY(vn_ml_matrix(e, !old, &n, &f));
    if (old) {
        VN_TRY(vn_ml_choice(e, "aggregate_function", "SUM", names, &how));
        VN_TRY(vn_ml_post_of(e, &p->post));
        VN_TRY(vn_forest_old(e, "target", f, 0, &p->f));
        if (p->f.n_base && p->f.n_base != p->f.targets)
            return vn_eval_fail(e, VN_ERR_SHAPE, "%lld base_values for %lld targets", (long long)p->f.n_base, (long long)p->f.targets);
    } else {
        p->type = e->in[0].t->dtype;
        if (!vn_dtype_is_float(p->type)) return vn_eval_fail(e, VN_ERR_DTYPE, "input 0 is %s, not a float type", vn_dtype_name(p->type));
        VN_TRY(choice(e, "aggregate_function", AGG_SUM, AGG_MAX, &how));
        VN_TRY(choice(e, "post_transform", VN_ML_NONE, VN_ML_PROBIT, &post));
        p->post = (vn_ml_post_t)post;
        VN_TRY(vn_forest_new(e, f, 0, &p->f));
    }
    p->how = (aggregate_t)how;
    return VN_OK;
}

static vn_status_t infer_ensemble(vn_eval_t *e, bool old) {
    plan_t p;
    int64_t n = 0, f;
    vn_status_t s = ensemble(e, old, &p);
    if (s == VN_OK) s = vn_ml_matrix(e, !old, &n, &f);
    const vn_shape_t shape = {.rank = 2, .d = {n, p.f.targets}};
    vn_forest_free(&p.f);
    return s == VN_OK ? vn_move_infer(e, 0, p.type, &shape) : s;
}

/* MIN and MAX of no votes as the largest or smallest number. */
static vn_status_t extreme_reading(vn_ml_t *m, const plan_t *p, const vn_ml_scores_t *s, const uint8_t *voted) {
    const int64_t count = s->n * s->c;
    bool any = false;
    for (int64_t i = 0; i < count; ++i) any |= !voted[i];
    if (!any) return VN_OK;
    double *y = vn_alloc((size_t)count, sizeof *y);
    if (!y) return vn_eval_fail(m->e, VN_ERR_NOMEM, "no memory for a reading");
    const double most = vn_format_info(vn_format_of(p->type))->max;
    for (int64_t i = 0; i < count; ++i) y[i] = voted[i] ? s->y[i] : s->y[i] + (p->how == AGG_MIN ? most : -most);
    const vn_status_t st = vn_ml_reading(m->e, 0, "no-vote-extreme", y, s->err[m->last]);
    vn_free(y);
    return st;
}

static vn_status_t eval_ensemble(vn_eval_t *e, bool old) {
    plan_t p;
    vn_ml_t m = {.e = e};
    vn_ml_scores_t s = {0};
    uint8_t *voted = NULL;
    int64_t cells = 0;
    vn_status_t st = ensemble(e, old, &p);
    if (st == VN_OK) st = vn_ml_open(e, !old, &m);
    if (st == VN_OK && !vn_i64_mul(m.n, p.f.targets, &cells)) st = vn_eval_fail(e, VN_ERR_RANGE, "too many targets");
    if (st == VN_OK && !(voted = vn_alloc((size_t)(cells ? cells : 1), 1))) st = vn_eval_fail(e, VN_ERR_NOMEM, "no memory for votes");
    if (st == VN_OK) st = aggregate(&m, &p.f, p.how, &s, voted);
    const vn_ml_form_t form = {.post = p.post};
    if (st == VN_OK) st = vn_ml_emit(&m, 0, p.type, &s, &form, 1);
    if (st == VN_OK) e->out[0].terms = p.how == AGG_SUM || p.how == AGG_AVERAGE ? p.f.n_trees + 1 : 0;
    if (st == VN_OK && (p.how == AGG_MIN || p.how == AGG_MAX) && p.post == VN_ML_NONE) st = extreme_reading(&m, &p, &s, voted);
    vn_free(voted);
    vn_ml_scores_free(&s);
    vn_ml_close(&m);
    vn_forest_free(&p.f);
    return st;
}

vn_status_t vn_ml_tree_ensemble(vn_eval_t *e) { return eval_ensemble(e, false); }
vn_status_t vn_infer_ml_tree_ensemble(vn_eval_t *e) { return infer_ensemble(e, false); }
vn_status_t vn_ml_tree_regressor(vn_eval_t *e) { return eval_ensemble(e, true); }
vn_status_t vn_infer_ml_tree_regressor(vn_eval_t *e) { return infer_ensemble(e, true); }

/* ---- TreeEnsembleClassifier ---- */

typedef struct classifier {
    vn_forest_t f;
    vn_ml_labels_t labels;
    vn_ml_post_t post;
    int64_t only; /* the one class that all votes are for, -1: several */
    bool binary, positive;
} classifier_t;

static vn_status_t classifier(vn_eval_t *e, classifier_t *c) {
    int64_t n, f;
    *c = (classifier_t){.only = -1, .positive = true};
    VN_TRY(vn_ml_matrix(e, false, &n, &f));
    VN_TRY(vn_ml_post_of(e, &c->post));
    VN_TRY(vn_ml_labels_of(e, "classlabels_int64s", "classlabels_strings", &c->labels));
    if (!c->labels.count) return vn_eval_fail(e, VN_ERR_SHAPE, "no class labels are given");
    VN_TRY(vn_forest_old(e, "class", f, c->labels.count, &c->f));
    for (int64_t i = 0; i < c->f.n_votes; ++i) {
        c->positive &= !(c->f.votes[i].weight < 0);
        if (i == 0) c->only = c->f.votes[i].target;
        else if (c->f.votes[i].target != c->only) c->only = -1;
    }
    c->binary = c->labels.count == 2 && c->only == 0 && c->f.n_base < 2;
    if (c->f.n_base && c->f.n_base != c->labels.count && !c->binary)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld base_values for %lld classes", (long long)c->f.n_base, (long long)c->labels.count);
    if (c->binary) c->f.targets = 1;
    return VN_OK;
}

vn_status_t vn_infer_ml_tree_classifier(vn_eval_t *e) {
    classifier_t c;
    vn_status_t s = classifier(e, &c);
    if (s == VN_OK) s = vn_ml_infer_classes(e, &c.labels, c.labels.count);
    vn_forest_free(&c.f);
    return s;
}

static vn_status_t emit_scores(vn_ml_t *m, const classifier_t *c, const vn_ml_scores_t *s) {
    const vn_ml_post_t post = c->post;
    if (!c->binary) return vn_ml_emit(m, 1, VN_F32, s, &(vn_ml_form_t){.post = post}, 1);
    const vn_ml_expand_t plain = c->positive ? VN_ML_ONE_MINUS : VN_ML_NEGATED;
    const bool soft = post == VN_ML_SOFTMAX || post == VN_ML_SOFTMAX_ZERO;
    vn_ml_form_t forms[3] = {{.expand = post == VN_ML_NONE     ? plain
                                        : post == VN_ML_PROBIT ? VN_ML_ONE_MINUS
                                                               : VN_ML_NEGATED,
                              .post = post},
                             {.name = "second-class-zero", .expand = VN_ML_FIRST, .post = post},
                             {.name = "untransformed", .expand = plain, .post = VN_ML_NONE}};
    if (post == VN_ML_NONE && !c->positive) forms[2] = (vn_ml_form_t){.name = "one-minus", .expand = VN_ML_ONE_MINUS};
    return vn_ml_emit(m, 1, VN_F32, s, forms, soft || (post == VN_ML_NONE && !c->positive) ? 3 : 2);
}

/* Readings of the labels. */
static vn_status_t other_labels(vn_ml_t *m, const classifier_t *c, const vn_ml_scores_t *s, vn_ml_choices_t *pick) {
    vn_eval_t *e = m->e;
    if (c->binary) {
        vn_ml_beyond(m, s, 0, pick);
        for (int64_t i = 0; i < s->n; ++i) pick->best[i] = !pick->best[i]; /* s against 0: class 0 where s is larger */
        VN_TRY(vn_ml_label_reading(e, 0, &c->labels, pick, "second-class-zero"));
        return vn_ml_label_transformed(e, 0, &c->labels, 1);
    }
    if (c->labels.count == 1 && !c->labels.text) {
        const vn_ml_labels_t places = {0};
        vn_ml_beyond(m, s, 0, pick);
        VN_TRY(vn_ml_label_reading(e, 0, &places, pick, "one-label-binary"));
    }
    if (c->labels.count == 2 && c->only == 1) {
        for (int64_t i = 0; i < s->n; ++i) pick->best[i] = s->y[2 * i + 1] > (c->positive ? 0.5 : 0);
        VN_TRY(vn_ml_label_reading(e, 0, &c->labels, pick, "threshold"));
    }
    if (c->post == VN_ML_SOFTMAX_ZERO || c->post == VN_ML_PROBIT) return vn_ml_label_transformed(e, 0, &c->labels, 1);
    return VN_OK;
}

vn_status_t vn_ml_tree_classifier(vn_eval_t *e) {
    classifier_t c;
    vn_ml_t m = {.e = e};
    vn_ml_scores_t s = {0};
    vn_ml_choices_t pick = {0};
    vn_status_t st = classifier(e, &c);
    if (st == VN_OK) st = vn_ml_open(e, false, &m);
    if (st == VN_OK) st = aggregate(&m, &c.f, AGG_SUM, &s, NULL);
    if (st == VN_OK) st = emit_scores(&m, &c, &s);
    if (st == VN_OK && vn_move_wanted(e, 1)) e->out[1].terms = c.f.n_trees + 1;
    if (st == VN_OK) st = vn_ml_choices_new(e, s.n, &pick);
    if (st == VN_OK && c.binary) vn_ml_beyond(&m, &s, c.positive ? 0.5 : 0, &pick);
    else if (st == VN_OK) vn_ml_top(&m, &s, &pick);
    if (st == VN_OK) st = vn_ml_label_out(e, 0, &c.labels, &pick);
    if (st == VN_OK && vn_move_wanted(e, 0)) st = other_labels(&m, &c, &s, &pick);
    vn_ml_choices_free(&pick);
    vn_ml_scores_free(&s);
    vn_ml_close(&m);
    vn_forest_free(&c.f);
    return st;
}
