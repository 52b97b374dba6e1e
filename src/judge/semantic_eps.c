/* semantic_eps.c -- another epsilon in a normalisation, solved from the data; epsilon after the root; the variance of a sample (n - 1).
 *
 * Claim NAME-EPS-1: every normalisation gives y = b + k / sqrt(v + eps) with b, k, v of the element's own. The oracle's values at eps = (nearly) 0,
 * at some E and at infinity give b = y(inf), v = E / (r^2 - 1) with r = (y(0) - b) / (y(E) - b), and an actual x then says
 * eps = v ((y(0) - b)^2 / (x - b)^2 - 1), within 2 (v + eps) room / |x - b|. The middle of the best of these is rounded to the simplest number
 * inside their spread, and that number is asked of the oracle as any variant is: the fit proposes, the bound decides.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/semantic.h"

#define NORMS                                                                                                                 \
    "BatchNormalization InstanceNormalization GroupNormalization LayerNormalization RMSNormalization SkipLayerNormalization " \
    "SkipSimplifiedLayerNormalization SimplifiedLayerNormalization EmbedLayerNormalization GroupNorm SkipGroupNorm"

enum { BEST = 256, GRID = 4096 };

/* The three planes of claim NAME-EPS-1 and the room at eps = 0. */
typedef struct planes {
    double *zero, *at, *rest, *room;
    double e; /* of `at` */
} planes_t;

static void planes_free(planes_t *p) {
    vn_free(p->zero);
    vn_free(p->at);
    vn_free(p->rest);
    vn_free(p->room);
}

/* Where the epsilon stands: an attribute, or operand k of an Add in front of a root. */
typedef struct place {
    int operand;
    double now;
} place_t;

static vn_status_t set(vn_variant_t *v, const place_t *p, double eps, vn_error_t *err) {
    if (p->operand < 0) return vn_variant_float(v, "epsilon", eps, err);
    const vn_tensor_t *old = vn_variant_operand(v, p->operand);
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(old->dtype, old->rank, old->dims, &t, err));
    vn_tensor_set_f64(t, 0, eps);
    return vn_variant_input(v, p->operand, t, err);
}

/* Value plane with this epsilon; *out NULL where the operator refuses. */
static vn_status_t values(vn_variant_t *v, const place_t *p, double eps, double **out, double **room, vn_error_t *err) {
    vn_ref_t r;
    *out = NULL;
    VN_TRY(set(v, p, eps, err));
    vn_status_t s = vn_variant_eval(v, (room ? VN_WANT_BOUND : VN_WANT_VALUE) | VN_WANT_PLAIN, &r, err);
    vn_variant_reset(v);
    if (s == VN_OK && r.value && r.count == v->e->n) {
        if (room && (*room = vn_alloc((size_t)r.count, sizeof **room)) == NULL) s = vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
        for (int64_t i = 0; s == VN_OK && room && i < r.count; ++i) (*room)[i] = vn_room(&r, i);
        *out = r.value;
        r.value = NULL;
    }
    vn_ref_free(&r);
    return s;
}

/* v of element i; NaN: it says nothing. */
static double spread(const planes_t *p, int64_t i) {
    const double a = p->zero[i] - p->rest[i], b = p->at[i] - p->rest[i], r = a / b;
    if (!isfinite(r) || !(r > 1)) return NAN;
    return p->e / (r * r - 1);
}

/* The three planes say what the value is at the epsilon asked for: not where another operator behind, a Relu, bends the curve. */
static bool obeys(const vn_explain_t *e, const planes_t *p, double now, int64_t i) {
    const double w = spread(p, i), size = fabs(p->zero[i]) + fabs(p->rest[i]);
    if (!(w > 0)) return p->zero[i] == p->rest[i] || !isfinite(p->zero[i]);
    return fabs(p->rest[i] + (p->zero[i] - p->rest[i]) * sqrt(w / (w + now)) - e->y[i]) <=
           0x1p-40 * size + 4 * vn_ref_own(e->c->ref, i); /* differences of four values of the oracle */
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int64_t n) {
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static vn_status_t open_planes(vn_variant_t *v, const place_t *place, planes_t *p, bool *usable, vn_error_t *err) {
    const vn_explain_t *e = v->e;
    *usable = false;
    VN_TRY(values(v, place, 0x1p-100, &p->zero, &p->room, err));
    if (p->zero) VN_TRY(values(v, place, 0x1p100, &p->rest, NULL, err));
    double *some = vn_alloc(GRID, sizeof *some);
    if (!some) return vn_fail(err, VN_ERR_NOMEM, "no memory for a sample");
    vn_status_t s = VN_OK;
    p->e = 1;
    /* the second E is near the variances themselves, where their difference is seen best */
    for (int turn = 0; turn < 2 && p->rest && s == VN_OK; ++turn) {
        vn_free(p->at);
        s = values(v, place, p->e, &p->at, NULL, err);
        if (s != VN_OK || !p->at) break;
        int64_t n = 0;
        for (int64_t i = 0; i < e->n && n < GRID; i += e->n / GRID + 1) {
            const double w = spread(p, i);
            if (w > 0) some[n++] = w;
        }
        *usable = n > 0;
        if (!n) break;
        if (turn == 0) p->e = (double)(float)fmin(fmax(median(some, n), 0x1p-60), 0x1p60);
    }
    vn_free(some);
    if (!p->at) *usable = false;
    return s;
}

typedef struct say {
    double width, eps;
} say_t;

static int by_width(const void *a, const void *b) {
    const say_t *x = a, *y = b;
    return x->width != y->width ? (x->width > y->width) - (x->width < y->width) : (x->eps > y->eps) - (x->eps < y->eps);
}

/* What the wrong elements say of epsilon: the middle of the sharpest, how far apart they are for chance alone, how far each may be off. */
typedef struct opinion {
    double eps, chance, width;
    bool usable;
} opinion_t;

static vn_status_t listen(const vn_explain_t *e, const planes_t *p, double now, opinion_t *o, vn_error_t *err) {
    const int64_t stride = e->n / (1 << 16) + 1;
    say_t *says = vn_alloc((size_t)(e->n / stride + 1), sizeof *says);
    double middle[BEST];
    int64_t n = 0;
    *o = (opinion_t){.usable = false};
    if (!says) return vn_fail(err, VN_ERR_NOMEM, "no memory for a sample");
    for (int64_t i = 0; i < e->n; i += stride) {
        const double w = spread(p, i), d = e->x[i] - p->rest[i], a = p->zero[i] - p->rest[i], room = vn_room(e->c->ref, i);
        if (!e->wrong[i] || !(w > 0) || !isfinite(d) || d == 0 || d * a <= 0 || !isfinite(room) || !obeys(e, p, now, i)) continue;
        const double eps = w * (a * a / (d * d) - 1);
        says[n++] = (say_t){2 * (w + fmax(eps, 0)) * fmax(room, 0) / fabs(d), eps};
    }
    if (n) {
        qsort(says, (size_t)n, sizeof *says, by_width);
        const int64_t m = n < BEST ? n : BEST;
        for (int64_t i = 0; i < m; ++i) middle[i] = says[i].eps;
        o->eps = median(middle, m);
        for (int64_t i = 0; i < m; ++i) middle[i] = fabs(says[i].eps - o->eps);
        o->chance = median(middle, m) / sqrt((double)m);
        o->width = says[m / 4].width;
        o->usable = isfinite(o->eps) && isfinite(o->width) && o->eps + o->width >= 0;
    }
    vn_free(says);
    return VN_OK;
}

static vn_status_t ask_eps(vn_variant_t *v, const place_t *place, const opinion_t *o, double eps, bool *held, vn_error_t *err) {
    char cause[96];
    snprintf(cause, sizeof cause, "eps:%.7g", eps);
    VN_TRY(set(v, place, eps, err));
    return vn_variant_ask(v, VN_BUG, cause, held, err,
                          "%s with epsilon %.7g in place of %.7g gives the whole result (the data say %.6g, give or take %.2g).",
                          v->node->op, eps, place->now, o->eps, o->width);
}

/* A simple number near the middle is taken before one that is only as near as the bound allows; only then one with more digits. */
static vn_status_t solved(vn_variant_t *v, const place_t *place, const planes_t *p, vn_error_t *err) {
    enum { PLAIN_DIGITS = 2, WIDER = 4 };
    opinion_t o;
    double eps;
    bool held = false;
    VN_TRY(listen(v->e, p, place->now, &o, err));
    if (!o.usable) return VN_OK;
    const double narrow = fmax(WIDER * o.chance, 0x1p-23 * fabs(o.eps));
    if (fabs(o.eps) < o.width / WIDER) VN_TRY(ask_eps(v, place, &o, 0, &held, err)); /* left out: by far the commonest */
    double w = narrow;
    while (!held && w < WIDER * o.width) {
        const double reach = fmin(w, o.width);
        w *= WIDER;
        const int digits = vn_name_simple(o.eps - reach, o.eps + reach, 0, &eps);
        if (digits && digits <= PLAIN_DIGITS && eps >= 0) VN_TRY(ask_eps(v, place, &o, eps, &held, err));
    }
    for (int step = 0; !held && step < 4 && vn_name_simple(o.eps - narrow, o.eps + narrow, step, &eps); ++step)
        if (eps >= 0) VN_TRY(ask_eps(v, place, &o, eps, &held, err));
    return VN_OK;
}

/* y2 = rest + (zero - rest) sqrt(v) / f(v): a rule about the root that no attribute says. */
static double after_root(double v, double eps, double n) {
    (void)n;
    return sqrt(v) + eps;
}
static double of_sample(double v, double eps, double n) { return sqrt(v * n / (n - 1) + eps); }
static double at_least(double v, double eps, double n) {
    (void)n;
    return sqrt(v > eps ? v : eps);
}

static vn_status_t rule(vn_explain_t *e, const planes_t *p, double eps, double n, double (*f)(double, double, double), const char *cause,
                        const char *op, const char *words, vn_error_t *err) {
    double *y2 = vn_alloc((size_t)e->n, 2 * sizeof *y2);
    if (!y2) return vn_fail(err, VN_ERR_NOMEM, "no memory for a plane");
    double *room = y2 + e->n;
    bool all = true;
    for (int64_t i = 0; i < e->n && all; ++i) {
        const double w = spread(p, i);
        all = obeys(e, p, eps, i);
        y2[i] = w > 0 ? p->rest[i] + (p->zero[i] - p->rest[i]) * sqrt(w) / f(w, eps, n) : p->rest[i];
        /* at eps = 0 the bound is the largest; where it says nothing, the contract's own */
        room[i] = vn_room(e->c->ref, i);
        if (w > 0 && isfinite(p->room[i]) && p->room[i] > room[i]) room[i] = p->room[i];
        room[i] += 0x1p-44 * (fabs(p->zero[i]) + fabs(p->rest[i])); /* v from a difference of values */
        if (!isfinite(room[i])) room[i] = INFINITY;
    }
    if (all) vn_explain_plane(e, y2, room, VN_BUG, cause, NULL, "%s %s gives the whole result (epsilon %.7g).", op, words, eps);
    vn_free(y2);
    return VN_OK;
}

/* Numbers behind one variance; 0: not known, or no variance is taken. */
static double sample_size(vn_variant_t *v) {
    vn_dtype_t type;
    int rank;
    int64_t d[VN_MAX_RANK];
    double n = 1;
    if (!vn_variant_shape(v, 0, &type, &rank, d) || rank < 1) return 0;
    int from = 2;
    if (vn_name_in("LayerNormalization SkipLayerNormalization", v->node->op)) {
        const int64_t axis = (int64_t)vn_name_attr_number(v->node, "axis", -1);
        from = (int)(axis < 0 ? axis + rank : axis);
        if (vn_name_in("SkipLayerNormalization", v->node->op)) from = rank - 1;
    } else if (vn_name_in("GroupNormalization", v->node->op)) {
        const double groups = vn_name_attr_number(v->node, "num_groups", 0);
        if (rank < 2 || groups < 1) return 0;
        n = (double)d[1] / groups;
    } else if (vn_name_in("BatchNormalization", v->node->op)) {
        if (rank < 2 || vn_name_attr_number(v->node, "training_mode", 0) == 0) return 0;
        n = (double)d[0];
    } else if (!vn_name_in("InstanceNormalization", v->node->op)) {
        return 0;
    }
    if (from < 0) return 0;
    for (int k = from; k < rank; ++k) n *= (double)d[k];
    return n;
}

/* An Add of one small number whose result goes into a root (or its reciprocal). */
static bool stands_before_root(const vn_variant_t *v, place_t *p) {
    if (!v->model || !vn_variant_is(v, "", "Add") || v->node->n_inputs != 2) return false;
    for (int k = 0; k < 2; ++k) {
        const vn_tensor_t *t = vn_variant_operand(v, k);
        if (!t || t->count != 1 || !vn_dtype_is_float(t->dtype) || v->given[1 - k]) continue;
        for (int i = 0; i < v->model->graph->n_nodes; ++i) {
            const vn_node_t *n = &v->model->graph->nodes[i];
            if (!vn_name_in("Sqrt Pow", n->op) || n->n_inputs < 1 || strcmp(n->inputs[0], v->node->outputs[0]) != 0) continue;
            *p = (place_t){k, vn_tensor_get_f64(t, 0)};
            return true;
        }
    }
    return false;
}

static vn_status_t epsilon(vn_variant_t *v, vn_error_t *err) {
    place_t place = {-1, 0};
    if (vn_name_in(NORMS, v->node->op)) {
        const bool contrib = vn_name_in("SkipLayerNormalization SkipSimplifiedLayerNormalization EmbedLayerNormalization", v->node->op);
        place.now = vn_name_attr_number(v->node, "epsilon",
                                        contrib ? (double)1e-12F : (double)1e-5F); /* defaults of the text; see claim NAME-EPS-1 */
    } else if (!stands_before_root(v, &place)) {
        return VN_OK;
    }
    if (!v->e->x || !v->e->c->ref->value) return VN_OK;
    planes_t p = {0};
    bool usable;
    vn_status_t s = open_planes(v, &place, &p, &usable, err);
    if (s == VN_OK && usable) {
        const double n = sample_size(v);
        const char *op = place.operand < 0 ? v->node->op : "The root of a variance";
        s = solved(v, &place, &p, err);
        if (s == VN_OK) s = rule(v->e, &p, place.now, 0, after_root, "eps-outside-sqrt", op, "with epsilon added after the root", err);
        if (s == VN_OK)
            s = rule(v->e, &p, place.now, 0, at_least, "eps-as-floor", op, "with epsilon as the least variance in place of a summand", err);
        if (s == VN_OK && n > 1)
            s = rule(v->e, &p, place.now, n, of_sample, "constant-ratio", op, "with the squared distances divided by n - 1 in place of n",
                     err);
    }
    planes_free(&p);
    return s;
}

vn_status_t vn_name_eps(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, epsilon, err); }
