/* pattern_moved.c -- right values at wrong places: axes exchanged, an axis reversed, rotated, interleaved, slices that hold another slice, moved tiles.
 *
 * A rule gives each element the place whose value it is said to hold; it is taken if every wrong element holds that value within the room of the
 * value's own place (claim PATTERN-1). Names (claim PATTERN-7):
 *   transposed      the buffer is the expected one with axes exchanged
 *   time-reversed   a recurrent operator's steps stand in reverse
 *   permuted        another rearrangement: what is missing in one place stands in another
 *   row-wrong       a whole row or slice holds a copy of another one
 *   stale-buffer    a part that is no whole slice holds what is due elsewhere
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/pattern.h"

enum { LOOK = 48, MAX_SOURCES = 8, MAX_FLAT_RULES = 1 << 17, WORK = 1 << 23 };

/* ---- moves ---- */

static int64_t index_along(const vn_move_t *v, int64_t i) { return i / v->inner % v->d; }
static int64_t at_index(const vn_move_t *v, int64_t i, int64_t t) { return i + (t - index_along(v, i)) * v->inner; }

static int64_t reversed(const vn_move_t *v, int64_t i) { return at_index(v, i, v->d - 1 - index_along(v, i)); }
static int64_t rotated(const vn_move_t *v, int64_t i) { return at_index(v, i, (index_along(v, i) + v->k) % v->d); }
static int64_t shifted(const vn_move_t *v, int64_t i) {
    const int64_t t = index_along(v, i) + v->k;
    return t >= 0 && t < v->d ? at_index(v, i, t) : -1;
}
static int64_t exchanged(const vn_move_t *v, int64_t i) {
    const int64_t t = index_along(v, i) ^ v->k;
    return t < v->d ? at_index(v, i, t) : i;
}
static int64_t blocks_reversed(const vn_move_t *v, int64_t i) {
    const int64_t t = index_along(v, i), begin = t - t % v->k, end = begin + v->k < v->d ? begin + v->k : v->d;
    return at_index(v, i, begin + end - 1 - t);
}
static int64_t table(const vn_move_t *v, int64_t i) { return at_index(v, i, v->table[index_along(v, i)]); }
/* d = P x k indices, read column by column. */
static int64_t interleaved(const vn_move_t *v, int64_t i) {
    const int64_t t = index_along(v, i), p = v->d / v->k;
    return at_index(v, i, t % p * v->k + t / p);
}
/* Place i of a buffer of the dims given, whose axes have the strides given in the expected tensor. */
static int64_t axes_exchanged(const vn_move_t *v, int64_t i) {
    int64_t j = 0;
    for (int k = v->rank - 1; k >= 0; --k) {
        j += i % v->dims[k] * v->strides[k];
        i /= v->dims[k];
    }
    return j;
}
/* Reversed within the first lens[b] steps: table holds the length of each batch element, k the batch's stride. */
static int64_t reversed_to_length(const vn_move_t *v, int64_t i) {
    const int64_t t = index_along(v, i), n = v->table[i / v->k % v->rank];
    return t < n ? at_index(v, i, n - 1 - t) : i;
}

/* ---- testing ---- */

typedef struct search {
    vn_pattern_t *p;
    double tried; /* rules; those of slices count apart */
    bool found;
} search_t;

static bool explains(const vn_pattern_t *p, const vn_move_t *v) {
    const int64_t look = p->m < LOOK ? p->m : LOOK;
    int64_t said = 0;
    for (int64_t s = 0; s < look; ++s) { /* most rules end here */
        const int64_t i = p->at[(int64_t)((double)s * (double)p->m / (double)look)], j = v->from(v, i);
        if (j >= 0 && !vn_pattern_holds(p, i, j)) return false;
    }
    for (int64_t k = 0; k < p->m; ++k) {
        const int64_t j = v->from(v, p->at[k]);
        if (j < 0) continue;
        if (!vn_pattern_holds(p, p->at[k], j)) return false;
        said++;
    }
    return 2 * said > p->m;
}

/* A right element that the move takes from elsewhere as well. */
static bool same_either_way(const vn_pattern_t *p, const void *ctx, int64_t i) {
    const vn_move_t *v = ctx;
    const int64_t j = v->from(v, i);
    return j < 0 || (j != i && vn_pattern_holds(p, i, j));
}

/* How many elements the move takes from elsewhere; 0 if some right element contradicts it. Marks are those of vn_pattern_where. */
static int64_t reach(const vn_pattern_t *p, const vn_move_t *v) {
    int64_t n = 0;
    for (int64_t i = 0; i < p->n; ++i) {
        const int64_t j = v->from(v, i);
        if (j == i) continue;
        if (p->mark[i] == VN_PLACE_NOT) return 0;
        n++;
    }
    return n;
}

/* The places read are the places written: nothing is lost. */
static vn_status_t closed(const vn_pattern_t *p, const vn_move_t *v, bool *yes, vn_error_t *err) {
    uint8_t *read = vn_alloc((size_t)p->n, 1);
    if (!read) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)p->n);
    *yes = true;
    for (int64_t k = 0; k < p->m && *yes; ++k) {
        const int64_t j = v->from(v, p->at[k]);
        if (j < 0) continue;
        *yes = !read[j] && p->mark[j] != VN_PLACE_NOT && v->from(v, j) >= 0; /* marks of this move, by vn_pattern_where */
        read[j] = 1;
    }
    vn_free(read);
    return VN_OK;
}

/* ---- any rearrangement ---- */

typedef struct pick {
    double key;
    int64_t at;
} pick_t;
static int by_key(const void *a, const void *b) {
    const pick_t *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Claim PATTERN-8: sorted, the wrong values are those due at the wrong places, one by one. Chance: the k-th of m sorted numbers of the same law strays by
 * about sqrt(m) / 2 ranks, so one that lies within a room that holds c of the m numbers does so with probability at most c / sqrt(m). */
static vn_status_t same_values(const vn_pattern_t *p, bool *same, double *evidence, vn_error_t *err) {
    enum { MAX_SORT = 1 << 22 };
    *same = false;
    *evidence = 0;
    if (p->m > MAX_SORT) return VN_OK;
    pick_t *x = vn_alloc((size_t)p->m, sizeof *x), *y = vn_alloc((size_t)p->m, sizeof *y);
    bool all = x && y;
    const vn_status_t st = all ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)p->m);
    for (int64_t k = 0; k < p->m && all; ++k) {
        x[k] = (pick_t){vn_pattern_key(p, p->got, p->at[k]), p->at[k]};
        y[k] = (pick_t){vn_pattern_key(p, p->want, p->at[k]), p->at[k]};
        all = !isnan(x[k].key) && !isnan(y[k].key);
    }
    if (all) {
        qsort(x, (size_t)p->m, sizeof *x, by_key);
        qsort(y, (size_t)p->m, sizeof *y, by_key);
        for (int64_t k = 0; k < p->m && all; ++k) all = vn_pattern_holds(p, x[k].at, y[k].at);
    }
    double before = NAN;
    int64_t low = 0, high = 0;
    for (int64_t k = 0; k < p->m && all; ++k) {
        const double room = vn_pattern_room(p, y[k].at);
        if (x[k].key - before <= room) continue;
        before = x[k].key;
        while (low < p->m && y[low].key < x[k].key - room) ++low;
        while (high < p->m && y[high].key <= x[k].key + room) ++high;
        const double chance = (double)(high - low) / sqrt((double)p->m);
        if (high > low && chance < 1) *evidence -= log(chance);
    }
    *same = all;
    vn_free(x);
    vn_free(y);
    return st;
}

static bool recurrent(const vn_pattern_t *p, int axis) {
    static const char *const ops[] = {"LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"};
    if (!p->node || p->got->rank != 4) return false; /* Y; the last states have no axis of time */
    bool yes = false;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; ++k) yes = yes || strcmp(p->node->op, ops[k]) == 0;
    return yes && axis == (vn_node_int(p->node, "layout", 0) ? 1 : 0);
}

/* Offers the move if it explains the wrong elements and is no accident. more: ln of the rules that were tried besides s->tried. */
static vn_status_t ask(search_t *s, const vn_move_t *v, double more, const char *whole_name, const char *rule, vn_error_t *err) {
    vn_pattern_t *p = s->p;
    s->tried++;
    if (vn_spent() > p->e->deadline) p->e->cut = true;
    if (s->found || p->e->cut || !explains(p, v)) return VN_OK;
    vn_places_t where;
    VN_TRY(vn_pattern_where(p, same_either_way, v, &where, err));
    const int64_t whole = reach(p, v);
    if (!vn_pattern_surprising(p, v, whole, log(s->tried) + more)) return VN_OK;
    bool all_there = false;
    double unused;
    VN_TRY(closed(p, v, &all_there, err));
    if (!all_there && v->from == table) VN_TRY(same_values(p, &all_there, &unused, err)); /* equal slices: either could be the source */
    s->found = true;
    const char *const place = where.kind == VN_PLACES_ALL || (whole && v->from != table) ? "the whole output" : where.text;
    if (v->from == reversed && recurrent(p, v->axis) && (all_there || whole)) {
        vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, "time-reversed", "The steps stand in reverse order, in %s.", place);
    } else if (all_there || (whole && v->from == shifted)) {
        vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, whole_name, "Right values at wrong places in %s: %s.", place, rule);
    } else {
        char at[96], from[96];
        vn_index_text(p->want, p->at[0], at, sizeof at);
        vn_index_text(p->want, v->from(v, p->at[0]), from, sizeof from);
        const bool slice = v->from == table || vn_places_slices(&where) || (where.kind == VN_PLACES_ONE && where.rank == 1);
        vn_explain_offer(p->e, VN_NAME_SOURCE, 1, VN_BUG, slice ? "row-wrong" : "stale-buffer",
                         "What stands in %s is due elsewhere: %s holds the value of %s%s%s.", where.text, at, from,
                         v->from == table ? ", " : "", v->from == table ? rule : "");
    }
    return VN_OK;
}

/* ---- axes exchanged ---- */

static void exchange(int rank, const int64_t *dims, const int *order, vn_move_t *v) {
    int64_t strides[VN_MAX_RANK], step = 1;
    for (int k = rank - 1; k >= 0; --k) {
        strides[k] = step;
        step *= dims[k];
    }
    *v = (vn_move_t){.from = axes_exchanged, .axis = -1, .rank = rank};
    for (int k = 0; k < rank; ++k) {
        v->dims[k] = dims[order[k]];
        v->strides[k] = strides[order[k]];
    }
}

/* Next order of `n` numbers in lexicographic sequence. */
static bool next_order(int *o, int n) {
    int a = n - 2;
    while (a >= 0 && o[a] > o[a + 1]) --a;
    if (a < 0) return false;
    int b = n - 1;
    while (o[b] < o[a]) --b;
    int t = o[a];
    o[a] = o[b];
    o[b] = t;
    for (int l = a + 1, r = n - 1; l < r; ++l, --r) {
        t = o[l];
        o[l] = o[r];
        o[r] = t;
    }
    return true;
}

static vn_status_t transposed(search_t *s, vn_error_t *err) {
    enum { MAX_AXES = 6 };
    const vn_tensor_t *t = s->p->got;
    int real[VN_MAX_RANK], rank = 0, order[MAX_AXES];
    int64_t dims[VN_MAX_RANK];
    for (int k = 0; k < t->rank; ++k)
        if (t->dims[k] > 1) {
            real[rank] = k;
            dims[rank++] = t->dims[k];
        }
    if (rank < 2 || rank > MAX_AXES) return VN_OK;
    for (int k = 0; k < rank; ++k) order[k] = k;
    while (!s->found && next_order(order, rank)) {
        vn_move_t v;
        exchange(rank, dims, order, &v);
        char rule[128] = "axes in the order";
        for (int k = 0; k < rank; ++k) {
            const size_t n = strlen(rule);
            snprintf(rule + n, sizeof rule - n, " %d", real[order[k]]);
        }
        VN_TRY(ask(s, &v, 0, "transposed", rule, err));
    }
    return VN_OK;
}

/* The buffer cut in P x Q blocks of C elements, inside each of A parts, and written block column by block column; it covers wrong head layouts,
 * interleaved channels and every exchange of neighbouring groups of axes. */
static vn_status_t regrouped(search_t *s, vn_error_t *err) {
    const vn_pattern_t *p = s->p;
    int64_t n_div = 0, div[2048];
    for (int64_t d = 1; d <= p->n / d && n_div < 1024; ++d)
        if (p->n % d == 0) div[n_div++] = d;
    for (int64_t k = n_div - 1; k >= 0 && n_div < 2048; --k)
        if (p->n / div[k] != div[k]) div[n_div++] = p->n / div[k];
    int64_t rules = 0;
    const double before = s->tried;
    for (int64_t c = 0; c < n_div && !s->found; ++c)
        for (int64_t a = 0; a < n_div && !s->found; ++a) {
            if (div[a] > p->n / div[c] || p->n / div[c] % div[a]) continue;
            const int64_t rest = p->n / div[c] / div[a];
            for (int64_t k = 1; k < n_div && div[k] < rest && !s->found; ++k) {
                if (rest % div[k]) continue;
                if (++rules > MAX_FLAT_RULES) return VN_OK;
                const int64_t rows = div[k], columns = rest / div[k], inner = div[c];
                vn_move_t v = {.from = interleaved, .axis = -1, .d = rest, .inner = inner, .k = columns};
                int64_t behind = 1;
                char rule[128];
                snprintf(rule, sizeof rule, "%lld x %lld groups of %lld elements, written in the other order", (long long)rows,
                         (long long)columns, (long long)inner);
                for (int x = p->got->rank - 1; x >= 0; behind *= p->got->dims[x--])
                    if (behind == inner && p->got->dims[x] == rest)
                        snprintf(rule, sizeof rule, "axis %d read as %lld x %lld and transposed (interleaved)", x, (long long)rows,
                                 (long long)columns);
                VN_TRY(ask(s, &v, 0, "permuted", rule, err));
            }
        }
    s->tried =
        before + 16; /* most of these rules are not what anybody would write: they pay as a family (MAX_FLAT_RULES inside, here a few) */
    return VN_OK;
}

/* ---- one axis ---- */

static void axis_name(const vn_pattern_t *p, int axis, char *out, size_t size) {
    if (axis < 0) snprintf(out, size, "the elements in memory order");
    else if (p->got->rank == 2) snprintf(out, size, "%s", axis ? "the columns" : "the rows");
    else if (p->got->rank == 1) snprintf(out, size, "the elements");
    else snprintf(out, size, "the indices of axis %d", axis);
}

/* Expected elements that actual element i could be, the nearest first. */
static int sources(const vn_pattern_t *p, int64_t i, int64_t *out) {
    int n = 0;
    for (int64_t far = 1; n < MAX_SOURCES && (i - far >= 0 || i + far < p->n); ++far) {
        if (i - far >= 0 && vn_pattern_holds(p, i, i - far)) out[n++] = i - far;
        if (n < MAX_SOURCES && i + far < p->n && vn_pattern_holds(p, i, i + far)) out[n++] = i + far;
    }
    return n;
}

/* A wrong element with few possible sources, and these; -1 if none has any. */
static int64_t telling(const vn_pattern_t *p, int64_t *from, int *n) {
    enum { CANDIDATES = 8 };
    int64_t best = -1;
    *n = MAX_SOURCES + 1;
    for (int64_t s = 0; s < CANDIDATES && s<p->n_sample && * n> 1; ++s) {
        int64_t found[MAX_SOURCES];
        const int64_t i = p->sample[(2 * s + 1) * p->n_sample / (2 * (p->n_sample < CANDIDATES ? p->n_sample : CANDIDATES))];
        const int many = sources(p, i, found);
        if (many == 0 || many >= *n) continue;
        best = i;
        *n = many;
        memcpy(from, found, (size_t)many * sizeof *from);
    }
    if (best < 0) *n = 0;
    return best;
}

static vn_status_t along(search_t *s, int axis, int64_t d, int64_t inner, int64_t i, const int64_t *from, int n, vn_error_t *err) {
    const vn_pattern_t *p = s->p;
    char name[64], rule[128];
    axis_name(p, axis, name, sizeof name);
    vn_move_t v = {.from = reversed, .axis = axis, .d = d, .inner = inner};
    snprintf(rule, sizeof rule, "%s are reversed", name);
    VN_TRY(ask(s, &v, 0, "permuted", rule, err));
    for (int64_t k = 1; k < d && k <= 64; k *= 2) {
        v.from = exchanged;
        v.k = k;
        snprintf(rule, sizeof rule, k == 1 ? "%s are exchanged in pairs" : "%s are exchanged in neighbouring groups of %lld", name,
                 (long long)k);
        VN_TRY(ask(s, &v, 0, "permuted", rule, err));
    }
    for (int64_t k = 4; k < d && k <= 64; k *= 2) {
        v.from = blocks_reversed;
        v.k = k;
        snprintf(rule, sizeof rule, "%s are reversed in blocks of %lld", name, (long long)k);
        VN_TRY(ask(s, &v, 0, "permuted", rule, err));
    }
    static const int64_t small[] = {1, -1, 2, -2, 3, -3, 4, -4};
    const int few = n == MAX_SOURCES ? (int)(sizeof small / sizeof *small) : 0; /* too many sources say nothing: small steps are tried */
    for (int k = 0; k < few && !s->found; ++k) {
        if (small[k] <= -d || small[k] >= d) continue;
        v.k = axis >= 0 ? (small[k] + d) % d : small[k];
        v.from = axis >= 0 ? rotated : shifted;
        snprintf(rule, sizeof rule, axis >= 0 ? "%s are rotated by %lld" : "%s are shifted by %lld", name, (long long)-small[k]);
        VN_TRY(ask(s, &v, 0, "permuted", rule, err));
        v.from = shifted;
        v.k = small[k];
        snprintf(rule, sizeof rule, "%s are shifted by %lld", name, (long long)-small[k]);
        VN_TRY(ask(s, &v, 0, "permuted", rule, err));
    }
    for (int k = 0; k < n && !s->found; ++k) { /* the step was looked for among d */
        if (axis >= 0 && (from[k] / inner / d != i / inner / d || from[k] % inner != i % inner)) continue;
        const int64_t step = from[k] / inner % d - i / inner % d;
        if (axis >= 0) {
            v.from = rotated;
            v.k = (step + d) % d;
            snprintf(rule, sizeof rule, "%s are rotated by %lld", name, (long long)-step);
            VN_TRY(ask(s, &v, log((double)d), "permuted", rule, err));
        }
        v.from = shifted;
        v.k = step;
        snprintf(rule, sizeof rule, "%s are shifted by %lld", name, (long long)-step);
        VN_TRY(ask(s, &v, log((double)d), "permuted", rule, err));
    }
    return VN_OK;
}

/* ---- slices that hold other slices ---- */

static bool slice_holds(const vn_pattern_t *p, int64_t d, int64_t inner, int64_t t, int64_t from, int64_t first) {
    if (!vn_pattern_holds(p, first, first + (from - t) * inner)) return false;
    for (int64_t o = 0; o < p->n / d / inner; ++o)
        for (int64_t r = 0; r < inner; ++r) {
            const int64_t i = (o * d + t) * inner + r;
            if (!vn_pattern_holds(p, i, i + (from - t) * inner)) return false;
        }
    return true;
}

/* For each index with wrong elements the nearest index whose expected slice it holds, whole. */
static vn_status_t slices(search_t *s, int axis, int64_t d, int64_t inner, vn_error_t *err) {
    const vn_pattern_t *p = s->p;
    int64_t *map = vn_alloc((size_t)d, sizeof *map), *first = vn_alloc((size_t)d, sizeof *first), work = 0, step = 0, same = -1;
    vn_status_t st = map && first ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld slices", (long long)d);
    bool all = st == VN_OK;
    double more = 0; /* each slice whose source had to be looked for could have found one of d */
    for (int64_t t = 0; all && t < d; ++t) {
        map[t] = t;
        first[t] = -1;
    }
    for (int64_t k = p->m - 1; all && k >= 0; --k) first[p->at[k] / inner % d] = p->at[k];
    for (int64_t t = 0; all && t < d; ++t) {
        if (first[t] < 0) continue;
        map[t] = -1;
        if (t + step >= 0 && t + step < d && step && slice_holds(p, d, inner, t, t + step, first[t])) map[t] = t + step;
        if (map[t] < 0 && same >= 0 && same != t && slice_holds(p, d, inner, t, same, first[t])) map[t] = same;
        if (map[t] < 0) more += log((double)d);
        for (int64_t far = 1; map[t] < 0 && far < d && work < WORK; ++far) {
            work += 2;
            if (t - far >= 0 && slice_holds(p, d, inner, t, t - far, first[t])) map[t] = t - far;
            else if (t + far < d && slice_holds(p, d, inner, t, t + far, first[t])) map[t] = t + far;
        }
        all = map[t] >= 0;
        step = map[t] - t;
        same = map[t];
    }
    if (all) {
        char rule[128] = "", name[64];
        int shown = 0;
        axis_name(p, axis, name, sizeof name);
        snprintf(rule, sizeof rule, "of %s", name);
        for (int64_t t = 0; t < d && shown < 4; ++t) {
            if (map[t] == t) continue;
            const size_t n = strlen(rule);
            snprintf(rule + n, sizeof rule - n, "%s %lld holds %lld", shown++ ? "," : "", (long long)t, (long long)map[t]);
        }
        const vn_move_t v = {.from = table, .axis = axis, .d = d, .inner = inner, .table = map};
        st = ask(s, &v, more, "permuted", rule, err);
    }
    vn_free(map);
    vn_free(first);
    return st;
}

/* ---- recurrent layers with lengths ---- */

static vn_status_t lengths(search_t *s, vn_error_t *err) {
    const vn_pattern_t *p = s->p;
    const vn_question_t *q = p->e->c->q;
    if (!p->node || !q->node || p->node->n_inputs < 5 || !q->inputs[4] || q->inputs[4]->kind != VN_VALUE_TENSOR || p->got->rank != 4)
        return VN_OK;
    const bool batch_first = vn_node_int(p->node, "layout", 0) != 0;
    const int time = batch_first ? 1 : 0, batch = batch_first ? 0 : 2;
    const vn_tensor_t *lens = q->inputs[4]->tensor;
    if (!recurrent(p, time) || lens->count != p->got->dims[batch] || lens->count > INT32_MAX) return VN_OK;
    int64_t stride[4] = {0, 0, 0, 1}, *len = vn_alloc((size_t)lens->count + 1, sizeof *len);
    if (!len) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld lengths", (long long)lens->count);
    for (int k = 2; k >= 0; --k) stride[k] = stride[k + 1] * p->got->dims[k + 1];
    bool fit = true;
    for (int64_t b = 0; b < lens->count; ++b) {
        len[b] = vn_tensor_get_i64(lens, b);
        fit = fit && len[b] >= 0 && len[b] <= p->got->dims[time];
    }
    const vn_move_t v = {.from = reversed_to_length,
                         .axis = time,
                         .d = p->got->dims[time],
                         .inner = stride[time],
                         .k = stride[batch],
                         .rank = (int)lens->count,
                         .table = len};
    const vn_status_t st =
        fit ? ask(s, &v, 0, "time-reversed", "the steps stand in reverse order within each sequence's length", err) : VN_OK;
    vn_free(len);
    return st;
}

static vn_status_t rearranged(search_t *s, vn_error_t *err) {
    const vn_pattern_t *p = s->p;
    bool same;
    double evidence;
    if (s->found || p->m < 4) return VN_OK;
    VN_TRY(same_values(p, &same, &evidence, err));
    if (!same || evidence <= vn_pattern_limit(log(s->tried))) return VN_OK;
    s->found = true;
    vn_explain_offer(p->e, VN_NAME_SOURCE, 0.9, VN_BUG, "permuted",
                     "Right values at wrong places: sorted, the values in %s are those due there, in no order that has a name here.",
                     p->where.text);
    return VN_OK;
}

vn_status_t vn_pattern_moved(vn_pattern_t *p, vn_error_t *err) {
    const vn_tensor_t *t = p->got;
    if (p->e->c->m.outside == 0 || p->index || p->near || p->n < 4) return VN_OK;
    for (int64_t k = 0; p->e->x && k < p->m; ++k)
        if (isnan(p->e->x[p->at[k]]) != isnan(p->e->y[p->at[k]]) && isfinite(p->e->y[p->at[k]])) return VN_OK; /* NaN was not moved there */
    search_t s = {.p = p};
    VN_TRY(transposed(&s, err));
    int64_t inner[VN_MAX_RANK], step = 1, from[MAX_SOURCES];
    for (int k = t->rank - 1; k >= 0; --k) {
        inner[k] = step;
        step *= t->dims[k];
    }
    int n;
    const int64_t i = telling(p, from, &n);
    for (int k = 0; k < t->rank && !s.found; ++k)
        if (t->dims[k] > 1) VN_TRY(along(&s, k, t->dims[k], inner[k], i, from, n, err));
    VN_TRY(lengths(&s, err));
    for (int k = 0; k < t->rank && !s.found; ++k) { /* one axis; then all axes up to it as one */
        if (t->dims[k] > 1) VN_TRY(slices(&s, k, t->dims[k], inner[k], err));
        if (k > 0 && k < t->rank - 1 && !s.found) VN_TRY(slices(&s, -1, p->n / inner[k], inner[k], err));
    }
    if (!s.found) VN_TRY(regrouped(&s, err));
    if (!s.found && t->rank > 1) VN_TRY(along(&s, -1, p->n, 1, i, from, n, err));
    return rearranged(&s, err);
}
