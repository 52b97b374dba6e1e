/* op_index.c -- the index family: its table, ArgMax, ArgMin and TopK.
 *
 * Claim INDEX-1: ArgMax and ArgMin are exact on the given bits; among equal elements (-0 equals +0) the first, or with select_last_index
 * the last. The text is silent about NaN: the tensor takes a NaN as the extreme; readings "nan-ignored" (skipped) and "nan-unordered"
 * (every comparison with NaN is false, so that a NaN counts only in the first place).
 * Claim INDEX-2: TopK is exact: values in order, the lower index first among equals. NaN is greater than every number; reading "nan-least".
 * With sorted = 0 the order is open: readings "topk-index-order" and "topk-reversed".
 * Claim INDEX-3 (uncertain operands): an index is open where another element can take its place within the uncertainties; k-th values move
 * by at most the largest uncertainty of their row, because order statistics are 1-Lipschitz in the largest change of an element.
 */
#include <math.h>
#include <string.h>

#include "oracle/move.h"

/* A tensor as lines along one axis: element d of line (o, i) is (o * dim + d) * inner + i. */
typedef struct lines {
    int axis;
    int64_t outer, dim, inner;
} lines_t;

static vn_status_t lines_of(vn_eval_t *e, int64_t axis, lines_t *l) {
    const vn_tensor_t *t = e->in[0].t;
    VN_TRY(vn_eval_axis(e, axis, t->rank, &l->axis));
    l->outer = vn_shape_product(t->dims, 0, l->axis);
    l->dim = t->dims[l->axis];
    l->inner = vn_shape_product(t->dims, l->axis + 1, t->rank);
    return VN_OK;
}

/* ---- ArgMax, ArgMin ---- */

typedef enum nan_rule { NAN_WINS, NAN_IGNORED, NAN_UNORDERED } nan_rule_t;

typedef struct arg_rule {
    bool least, last, is_float;
    nan_rule_t nan;
} arg_rule_t;

static bool better(const arg_rule_t *r, uint64_t fresh, uint64_t best) {
    if (r->is_float && (fresh == VN_KEY_NAN || best == VN_KEY_NAN)) {
        const bool fresh_nan = fresh == VN_KEY_NAN, best_nan = best == VN_KEY_NAN;
        switch (r->nan) {
        case NAN_WINS: return fresh_nan && (!best_nan || r->last);
        case NAN_IGNORED: return best_nan && !fresh_nan;
        case NAN_UNORDERED: return false;
        }
    }
    if (fresh == best) return r->last;
    return r->least ? fresh < best : fresh > best;
}

static void arg_scan(const lines_t *l, const arg_rule_t *r, const uint64_t *key, int64_t *out) {
    for (int64_t o = 0; o < l->outer; ++o) {
        const uint64_t *base = key + o * l->dim * l->inner;
        int64_t *best = out + o * l->inner;
        for (int64_t d = 1; d < l->dim; ++d)
            for (int64_t i = 0; i < l->inner; ++i)
                if (better(r, base[d * l->inner + i], base[best[i] * l->inner + i])) best[i] = d;
    }
}

static vn_status_t arg_shape(vn_eval_t *e, lines_t *l, vn_shape_t *s) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(lines_of(e, vn_node_int(e->node, "axis", 0), l));
    *s = vn_shape_of(e->in[0].t);
    s->d[l->axis] = 1;
    if (vn_node_int(e->node, "keepdims", 1) == 0) {
        --s->rank;
        for (int k = l->axis; k < s->rank; ++k) s->d[k] = s->d[k + 1];
    }
    return VN_OK;
}

static vn_status_t infer_arg(vn_eval_t *e) {
    lines_t l;
    vn_shape_t s;
    VN_TRY(arg_shape(e, &l, &s));
    return vn_move_infer(e, 0, VN_I64, &s);
}

/* Marks lines in which another element may be the extreme: two candidates -> either, more -> void. */
static vn_status_t open_lines(vn_eval_t *e, const lines_t *l, bool least) {
    const double *x = vn_arg_f64(e, 0), *err = e->in[0].err;
    const int64_t *best = e->out[0].tensor->data;
    if (!x) return VN_ERR_NOMEM;
    VN_TRY(vn_out_either(e, 0));
    VN_TRY(vn_out_flags(e, 0));
    int64_t *either = e->out[0].either->data;
    for (int64_t o = 0; o < l->outer; ++o)
        for (int64_t i = 0; i < l->inner; ++i) {
            const int64_t line = o * l->inner + i;
            double floor = -INFINITY; /* the extreme is at least this */
            int64_t others = 0;
            either[line] = best[line];
            for (int64_t d = 0; d < l->dim; ++d) {
                const int64_t at = (o * l->dim + d) * l->inner + i;
                floor = fmax(floor, (least ? -x[at] : x[at]) - err[at]);
            }
            for (int64_t d = 0; d < l->dim; ++d) {
                const int64_t at = (o * l->dim + d) * l->inner + i;
                if (d == best[line] || (least ? -x[at] : x[at]) + err[at] < floor) continue;
                if (err[at] == 0 && err[(o * l->dim + best[line]) * l->inner + i] == 0) continue; /* an exact tie is settled */
                either[line] = d;
                ++others;
            }
            if (others > 1) e->out[0].flags[line] = VN_EL_VOID;
        }
    return VN_OK;
}

static vn_status_t eval_arg(vn_eval_t *e, bool least) {
    static const char *const names[] = {NULL, "nan-ignored", "nan-unordered"};
    lines_t l;
    vn_shape_t shape;
    uint64_t *key;
    VN_TRY(arg_shape(e, &l, &shape));
    arg_rule_t r = {.least = least, .is_float = vn_dtype_is_float(e->in[0].t->dtype)};
    r.last = e->version >= 12 && vn_node_int(e->node, "select_last_index", 0) != 0;
    if (l.dim == 0 && l.outer * l.inner > 0) return vn_eval_fail(e, VN_ERR_RANGE, "axis %d has no entries", l.axis);
    VN_TRY(vn_move_keys(e, 0, &key));
    vn_status_t s = vn_out_exact(e, 0, VN_I64, shape.rank, shape.d);
    if (s == VN_OK) arg_scan(&l, &r, key, e->out[0].tensor->data);
    bool nan = false;
    for (int64_t i = 0; i < e->in[0].t->count && r.is_float && !nan; ++i) nan = key[i] == VN_KEY_NAN;
    for (r.nan = NAN_IGNORED; nan && s == VN_OK && r.nan <= NAN_UNORDERED; ++r.nan) {
        vn_tensor_t *t;
        s = vn_tensor_new(VN_I64, shape.rank, shape.d, &t, e->err);
        if (s != VN_OK) break;
        arg_scan(&l, &r, key, t->data);
        s = vn_out_reading(e, 0, names[r.nan], t);
    }
    vn_free(key);
    if (s == VN_OK && e->in[0].err) s = open_lines(e, &l, least);
    return s;
}
static vn_status_t eval_arg_max(vn_eval_t *e) { return eval_arg(e, false); }
static vn_status_t eval_arg_min(vn_eval_t *e) { return eval_arg(e, true); }

/* ---- TopK ---- */

typedef struct top {
    lines_t l;
    int64_t k;
    bool largest, sorted;
    vn_shape_t out;
} top_t;

static vn_status_t top_shape(vn_eval_t *e, top_t *p) {
    VN_TRY(vn_move_need(e, 0));
    VN_TRY(lines_of(e, vn_node_int(e->node, "axis", -1), &p->l));
    p->largest = e->version < 11 || vn_node_int(e->node, "largest", 1) != 0;
    p->sorted = e->version < 11 || vn_node_int(e->node, "sorted", 1) != 0;
    if (e->version >= 10) VN_TRY(vn_move_scalar(e, 1, &p->k));
    else p->k = vn_node_int(e->node, "k", -1);
    if (p->k < 0 || p->k > p->l.dim)
        return vn_eval_fail(e, VN_ERR_RANGE, "k is %lld, axis %d has %lld entries", (long long)p->k, p->l.axis, (long long)p->l.dim);
    p->out = vn_shape_of(e->in[0].t);
    p->out.d[p->l.axis] = p->k;
    return VN_OK;
}

static vn_status_t infer_top(vn_eval_t *e) {
    top_t p;
    VN_TRY(top_shape(e, &p));
    VN_TRY(vn_move_infer(e, 0, e->in[0].t->dtype, &p.out));
    return vn_move_infer(e, 1, VN_I64, &p.out);
}

/* Smaller rank first, then lower index. */
typedef struct entry {
    uint64_t rank;
    int64_t index;
} entry_t;

static bool before(const entry_t *a, const entry_t *b) { return a->rank != b->rank ? a->rank < b->rank : a->index < b->index; }

/* Heap whose root is the entry that would leave first. */
static void sift(entry_t *h, int64_t n, int64_t i) {
    const entry_t x = h[i];
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && before(&h[child], &h[child + 1])) ++child;
        if (!before(&x, &h[child])) break;
        h[i] = h[child];
        i = child;
    }
    h[i] = x;
}

/* The k best of one line, in order, into best. */
static void select_best(const top_t *p, const uint64_t *key, bool is_float, bool nan_least, entry_t *best) {
    int64_t filled = 0;
    for (int64_t d = 0; d < p->l.dim && p->k; ++d) {
        const uint64_t x = key[d * p->l.inner];
        entry_t fresh = {.rank = p->largest ? ~x : x, .index = d};
        if (is_float && nan_least && x == VN_KEY_NAN) fresh.rank = p->largest ? UINT64_MAX : 0;
        if (filled < p->k) {
            best[filled++] = fresh;
            for (int64_t i = p->k / 2 - 1; filled == p->k && i >= 0; --i) sift(best, p->k, i);
        } else if (before(&fresh, &best[0])) {
            best[0] = fresh;
            sift(best, p->k, 0);
        }
    }
    for (int64_t n = p->k - 1; n > 0; --n) {
        const entry_t last = best[n];
        best[n] = best[0];
        best[0] = last;
        sift(best, n, 0);
    }
}

static void order_by_index(entry_t *best, int64_t k) {
    for (int64_t i = 0; i < k; ++i) best[i].rank = 0; /* equal ranks: the index decides */
    for (int64_t i = k / 2 - 1; i >= 0; --i) sift(best, k, i);
    for (int64_t n = k - 1; n > 0; --n) {
        const entry_t last = best[n];
        best[n] = best[0];
        best[0] = last;
        sift(best, n, 0);
    }
}

typedef enum order { ORDER_RANK, ORDER_INDEX, ORDER_REVERSED } order_t;

/* Indices of the k best of every line under the given rules. */
static vn_status_t choose(vn_eval_t *e, const top_t *p, const uint64_t *key, bool nan_least, order_t order, vn_tensor_t **out) {
    const bool is_float = vn_dtype_is_float(e->in[0].t->dtype);
    VN_TRY(vn_tensor_new(VN_I64, p->out.rank, p->out.d, out, e->err));
    entry_t *best = vn_alloc((size_t)(p->k ? p->k : 1), sizeof *best);
    if (!best) {
        vn_tensor_free(*out);
        *out = NULL;
        return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld entries", (long long)p->k);
    }
    int64_t *index = (*out)->data;
    for (int64_t o = 0; o < p->l.outer && p->k; ++o)
        for (int64_t i = 0; i < p->l.inner; ++i) {
            select_best(p, key + o * p->l.dim * p->l.inner + i, is_float, nan_least, best);
            if (order == ORDER_INDEX) order_by_index(best, p->k);
            for (int64_t n = 0; n < p->k; ++n)
                index[(o * p->k + n) * p->l.inner + i] = best[order == ORDER_REVERSED ? p->k - 1 - n : n].index;
        }
    vn_free(best);
    return VN_OK;
}

static vn_status_t picked(vn_eval_t *e, const top_t *p, const vn_tensor_t *index, vn_tensor_t **out) {
    vn_tensor_t *plain, *all;
    VN_TRY(vn_plain_from(e, e->in[0].t, &plain));
    vn_status_t s = vn_plain_new(e, e->in[0].t->dtype, &p->out, &all);
    const size_t size = vn_plain_size(plain);
    const int64_t *ix = index->data, block = p->k * p->l.inner;
    for (int64_t n = 0; s == VN_OK && block > 0 && n < all->count; ++n) {
        const int64_t from = (n / block * p->l.dim + ix[n]) * p->l.inner + n % p->l.inner;
        memcpy((char *)all->data + (size_t)n * size, (const char *)plain->data + (size_t)from * size, size);
    }
    vn_tensor_free(plain);
    VN_TRY(s);
    return vn_plain_seal(e, e->in[0].t->dtype, all, out);
}

/* One pair of results: the outputs themselves (name NULL), or a reading of both. Takes over index. */
static vn_status_t give_pair(vn_eval_t *e, const top_t *p, vn_tensor_t *index, const char *name) {
    vn_tensor_t *values;
    vn_status_t s = picked(e, p, index, &values);
    if (s == VN_OK && vn_move_wanted(e, 0)) s = name ? vn_out_reading(e, 0, name, values) : vn_out_tensor(e, 0, values);
    else if (s == VN_OK) vn_tensor_free(values);
    if (s == VN_OK && vn_move_wanted(e, 1)) return name ? vn_out_reading(e, 1, name, index) : vn_out_tensor(e, 1, index);
    vn_tensor_free(index);
    return s;
}

/* The farthest reach of the elements seen so far; exact: none of those that attain it is uncertain. */
typedef struct reach {
    double at;
    bool exact;
} reach_t;

static void extend(reach_t *r, double at, bool exact) {
    if (at > r->at) *r = (reach_t){.at = at, .exact = exact};
    else if (at == r->at) r->exact = r->exact && exact;
}

/* An element at x (uncertainty err) cannot change places with what reaches to r. */
static bool apart(double x, double err, const reach_t *r) { return x - err > r->at || (x - err == r->at && err == 0 && r->exact); }

typedef struct doubt {
    const double *x, *err;
    double sign; /* -1: the least elements are wanted */
    const int64_t *ix;
    uint8_t *flags; /* of the indices, NULL: not wanted */
    bool *chosen;
} doubt_t;

/* One line: marks open places, returns the largest uncertainty. line, to: its first element in operand and result. */
static double doubt_line(const top_t *p, const doubt_t *d, int64_t line, int64_t to) {
    const int64_t step = p->l.inner;
    double worst = 0;
    reach_t behind = {.at = -INFINITY, .exact = true}, ahead = behind;
    memset(d->chosen, 0, (size_t)p->l.dim);
    for (int64_t n = 0; n < p->k; ++n) d->chosen[d->ix[to + n * step]] = true;
    for (int64_t i = 0; i < p->l.dim; ++i) {
        const int64_t at = line + i * step;
        worst = fmax(worst, d->err[at]);
        if (!d->chosen[i]) extend(&behind, d->sign * d->x[at] + d->err[at], d->err[at] == 0);
    }
    for (int64_t n = p->k - 1; n >= 0 && d->flags; --n) { /* against everything that comes later */
        const int64_t place = to + n * step, at = line + d->ix[place] * step;
        if (!apart(d->sign * d->x[at], d->err[at], &behind)) d->flags[place] = VN_EL_VOID;
        extend(&behind, d->sign * d->x[at] + d->err[at], d->err[at] == 0);
    }
    for (int64_t n = 0; n < p->k && d->flags; ++n) { /* against everything that comes earlier, seen from below */
        const int64_t place = to + n * step, at = line + d->ix[place] * step;
        if (n && !apart(-d->sign * d->x[at], d->err[at], &ahead)) d->flags[place] = VN_EL_VOID;
        extend(&ahead, -d->sign * d->x[at] + d->err[at], d->err[at] == 0);
    }
    return worst;
}

/* Planes of the values and open places of the indices when the operand is uncertain. */
static vn_status_t uncertain_top(vn_eval_t *e, const top_t *p, const vn_tensor_t *index) {
    const double *x = vn_arg_f64(e, 0), *var = e->in[0].var;
    const int64_t *ix = index->data;
    if (!x) return VN_ERR_NOMEM;
    const bool values = vn_move_wanted(e, 0);
    if (values) VN_TRY(vn_out_float(e, 0, e->in[0].t->dtype, p->out.rank, p->out.d));
    if (vn_move_wanted(e, 1)) VN_TRY(vn_out_flags(e, 1));
    doubt_t d = {
        .x = x, .err = e->in[0].err, .sign = p->largest ? 1 : -1, .ix = ix, .flags = vn_move_wanted(e, 1) ? e->out[1].flags : NULL};
    d.chosen = vn_alloc((size_t)(p->l.dim ? p->l.dim : 1), sizeof *d.chosen);
    if (!d.chosen) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    for (int64_t o = 0; o < p->l.outer && p->k; ++o)
        for (int64_t i = 0; i < p->l.inner; ++i) {
            const int64_t line = o * p->l.dim * p->l.inner + i, to = o * p->k * p->l.inner + i;
            const double worst = doubt_line(p, &d, line, to);
            for (int64_t n = 0; n < p->k && values; ++n) {
                const int64_t place = to + n * p->l.inner, at = line + ix[place] * p->l.inner;
                e->out[0].value[place] = x[at];
                if (e->out[0].bound) e->out[0].bound[place] = worst;
                if (e->out[0].var && var) e->out[0].var[place] = var[at];
            }
        }
    vn_free(d.chosen);
    if (values) vn_out_final(e, 0);
    return VN_OK;
}

static vn_status_t eval_top(vn_eval_t *e) {
    top_t p;
    uint64_t *key;
    vn_tensor_t *index = NULL, *other = NULL;
    VN_TRY(top_shape(e, &p));
    VN_TRY(vn_shape_check(e, VN_I64, &p.out));
    VN_TRY(vn_move_keys(e, 0, &key));
    bool nan = false;
    for (int64_t i = 0; i < e->in[0].t->count && !nan && vn_dtype_is_float(e->in[0].t->dtype); ++i) nan = key[i] == VN_KEY_NAN;
    vn_status_t s = choose(e, &p, key, false, ORDER_RANK, &index);
    if (s == VN_OK) s = give_pair(e, &p, vn_tensor_retain(index), NULL);
    if (s == VN_OK && e->in[0].err) s = uncertain_top(e, &p, index);
    if (s == VN_OK && nan) {
        s = choose(e, &p, key, true, ORDER_RANK, &other);
        if (s == VN_OK) s = give_pair(e, &p, other, "nan-least");
    }
    for (order_t order = ORDER_INDEX; s == VN_OK && !p.sorted && order <= ORDER_REVERSED; ++order) {
        s = choose(e, &p, key, false, order, &other);
        if (s == VN_OK) s = give_pair(e, &p, other, order == ORDER_INDEX ? "topk-index-order" : "topk-reversed");
    }
    vn_tensor_free(index);
    vn_free(key);
    return s;
}

/* ---- the table ---- */

enum { S1 = VN_OP_SHAPE_LIKE_1, S2 = VN_OP_SHAPE_LIKE_2, S3 = VN_OP_SHAPE_LIKE_3, S4 = VN_OP_SHAPE_LIKE_4, PROP = VN_OP_PROPAGATES };

static const vn_op_t rows[] = {
    {"", "ArgMax", 1, 0, VN_CLASS_EXACT, PROP, "INDEX-1", eval_arg_max, infer_arg, 0},
    {"", "ArgMin", 1, 0, VN_CLASS_EXACT, PROP, "INDEX-1", eval_arg_min, infer_arg, 0},
    {"", "TopK", 1, 9, VN_CLASS_MOVEMENT, PROP, "INDEX-2", eval_top, infer_top, 0},
    {"", "TopK", 10, 0, VN_CLASS_MOVEMENT, PROP | S1, "INDEX-2", eval_top, infer_top, 0},
    {"", "NonMaxSuppression", 10, 0, VN_CLASS_EXACT, S2 | S3 | S4, "INDEX-4", vn_move_non_max_suppression, NULL, 0},
    {"", "RandomNormal", 1, 0, VN_CLASS_RANDOM, 0, "INDEX-5", vn_move_random_shape, vn_infer_random_shape, 0},
    {"", "RandomUniform", 1, 0, VN_CLASS_RANDOM, 0, "INDEX-5", vn_move_random_shape, vn_infer_random_shape, 0},
    {"", "RandomNormalLike", 1, 0, VN_CLASS_RANDOM, PROP, "INDEX-5", vn_move_random_like, vn_infer_random_like, 0},
    {"", "RandomUniformLike", 1, 0, VN_CLASS_RANDOM, PROP, "INDEX-5", vn_move_random_like, vn_infer_random_like, 0},
    {"", "Bernoulli", 15, 0, VN_CLASS_RANDOM, PROP, "INDEX-5", vn_move_bernoulli, vn_infer_bernoulli, 0},
    {"", "Multinomial", 7, 0, VN_CLASS_RANDOM, PROP, "INDEX-5", vn_move_multinomial, vn_infer_multinomial, 0},
    {"", "Dropout", 7, 11, VN_CLASS_MOVEMENT, VN_OP_MAPS, "INDEX-6", vn_move_dropout, vn_infer_dropout, 0},
    {"", "Dropout", 12, 0, VN_CLASS_MOVEMENT, VN_OP_MAPS | S1 | S2, "INDEX-6", vn_move_dropout, vn_infer_dropout, 0},
};

const vn_family_t vn_family_index = {"index", rows, sizeof rows / sizeof *rows};
