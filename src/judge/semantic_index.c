/* semantic_index.c -- operators that read or write by index: indices that are negative, off by one, cut to a chunk; updates of one place that are lost.
 *
 * Other indices are asked as variants. What a scatter becomes when updates are lost is computed here (sums of a few terms in f64) and compared with
 * the contract's room of each element.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/names.h"

/** How an operator uses the indices in operand 1. */
typedef enum use { USE_GATHER, USE_ELEMENTS, USE_ND, USE_SCATTER_ELEMENTS, USE_SCATTER_ND } use_t;
static const struct {
    const char *op;
    use_t use;
} operators[] = {
    {"Gather", USE_GATHER},
    {"GatherElements", USE_ELEMENTS},
    {"GatherND", USE_ND},
    {"ScatterElements", USE_SCATTER_ELEMENTS},
    {"Scatter", USE_SCATTER_ELEMENTS},
    {"ScatterND", USE_SCATTER_ND},
};

typedef struct indexing {
    vn_variant_t *v;
    use_t use;
    const vn_tensor_t *ids;
    int rank, axis, batch; /* of the data */
    int64_t dims[VN_MAX_RANK];
    int64_t width; /* ND: components of one index; else 1 */
} indexing_t;

static bool read_node(vn_variant_t *v, indexing_t *x) {
    *x = (indexing_t){.v = v, .width = 1};
    bool known = false;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i)
        if (vn_variant_is(v, "", operators[i].op)) x->use = operators[i].use, known = true;
    vn_dtype_t type;
    x->ids = known ? vn_variant_operand(v, 1) : NULL;
    if (!x->ids || !vn_dtype_is_int(x->ids->dtype) || !vn_variant_shape(v, 0, &type, &x->rank, x->dims) || x->rank < 1) return false;
    x->axis = (int)vn_node_int(v->node, "axis", 0);
    if (x->axis < 0) x->axis += x->rank;
    x->batch = (int)vn_node_int(v->node, "batch_dims", 0);
    if (x->use == USE_ND || x->use == USE_SCATTER_ND) {
        if (x->ids->rank < 1) return false;
        x->width = x->ids->dims[x->ids->rank - 1];
        return x->batch >= 0 && x->width >= 1 && x->batch + x->width <= x->rank;
    }
    return x->axis >= 0 && x->axis < x->rank;
}

/* Length of the dimension that entry i of the indices selects from. */
static int64_t extent(const indexing_t *x, int64_t i) {
    if (x->use == USE_ND || x->use == USE_SCATTER_ND) return x->dims[x->batch + (int)(i % x->width)];
    return x->dims[x->axis];
}

/* ---- other indices ---- */

typedef int64_t (*remap_fn)(int64_t id, int64_t extent, int64_t by);
static int64_t clamp(int64_t id, int64_t n) { return id < 0 ? 0 : id < n ? id : n - 1; }
static int64_t to_first(int64_t id, int64_t n, int64_t by) { return (void)n, (void)by, id < 0 ? 0 : id; }
static int64_t to_last(int64_t id, int64_t n, int64_t by) { return (void)by, id < 0 ? n - 1 : id; }
static int64_t mirrored(int64_t id, int64_t n, int64_t by) { return (void)by, id < 0 ? clamp(-id - 1, n) : id; }
static int64_t magnitude(int64_t id, int64_t n, int64_t by) { return (void)by, id < 0 ? clamp(-id, n) : id; }
static int64_t wrapped_off(int64_t id, int64_t n, int64_t by) { return id < 0 ? clamp(id + n + by, n) : id; }
static int64_t moved(int64_t id, int64_t n, int64_t by) { return clamp((id < 0 ? id + n : id) + by, n); }
static int64_t inside_chunk(int64_t id, int64_t n, int64_t by) { return (id < 0 ? id + n : id) % by; }

static vn_status_t remap(const indexing_t *x, remap_fn fn, int64_t by, const char *cause, const char *words, vn_error_t *err) {
    vn_tensor_t *t;
    bool other = false;
    int64_t first = -1;
    VN_TRY(vn_tensor_copy(x->ids, &t, err));
    for (int64_t i = 0; i < t->count; ++i) {
        const int64_t n = extent(x, i), id = vn_tensor_get_i64(x->ids, i), to = n > 0 ? fn(id, n, by) : id;
        vn_tensor_set_i64(t, i, to);
        if (to == id || to == id + n || other) continue;
        other = true;
        first = id;
    }
    if (!other) {
        vn_tensor_free(t);
        return VN_OK;
    }
    VN_TRY(vn_variant_input(x->v, 1, t, err));
    return vn_variant_ask(x->v, VN_BUG, cause, NULL, err, "The whole result comes out if %s (%lld is the first such index).", words,
                          (long long)first);
}

static vn_status_t reversed_components(const indexing_t *x, vn_error_t *err) {
    vn_tensor_t *t;
    VN_TRY(vn_tensor_copy(x->ids, &t, err));
    for (int64_t i = 0; i < t->count; ++i)
        vn_tensor_set_i64(t, i, vn_tensor_get_i64(x->ids, i - i % x->width + x->width - 1 - i % x->width));
    VN_TRY(vn_variant_input(x->v, 1, t, err));
    return vn_variant_ask(x->v, VN_BUG, "permuted", NULL, err,
                          "The whole result comes out if the %lld components of each index are read in reverse order.",
                          (long long)x->width);
}

static vn_status_t others(const indexing_t *x, vn_error_t *err) {
    static const struct {
        remap_fn fn;
        int64_t by;
        const char *cause, *words;
    } table[] = {
        {to_first, 0, "negative-index", "negative indices are read as 0"},
        {to_last, 0, "negative-index", "every negative index means the last place"},
        {mirrored, 0, "negative-index", "index -i means i - 1 from the front"},
        {magnitude, 0, "negative-index", "the sign of negative indices is dropped"},
        {wrapped_off, -1, "negative-index", "negative indices count one place too far from the end"},
        {wrapped_off, 1, "negative-index", "negative indices count one place too few from the end"},
        {moved, 1, "position-offset", "every index is one too large, cut off at the end"},
        {moved, -1, "position-offset", "every index is one too small, cut off at 0"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i)
        VN_TRY(remap(x, table[i].fn, table[i].by, table[i].cause, table[i].words, err));
    int64_t largest = 0;
    for (int64_t i = 0; i < x->ids->count; ++i) {
        const int64_t id = vn_tensor_get_i64(x->ids, i), at = id < 0 ? id + extent(x, i) : id;
        if (at > largest) largest = at;
    }
    for (int64_t chunk = 4; chunk > 0 && chunk <= largest; chunk *= 2) {
        char words[120];
        snprintf(words, sizeof words, "indices are taken modulo %lld, without the start of their chunk", (long long)chunk);
        VN_TRY(remap(x, inside_chunk, chunk, "chunk-offset", words, err));
    }
    return x->width > 1 ? reversed_components(x, err) : VN_OK;
}

/* ---- places that an index entry touches ---- */

static int64_t inner_of(const indexing_t *x, int from) {
    int64_t n = 1;
    for (int d = from; d < x->rank; ++d) n *= x->dims[d];
    return n;
}

/* Element of the output that belongs to run `run` of a gather: which entries of the indices decide it. */
static int64_t entry_of(const indexing_t *x, int64_t element) {
    switch (x->use) {
    case USE_GATHER: return element / inner_of(x, x->axis + 1) % x->ids->count;
    case USE_ND: return element / inner_of(x, x->batch + (int)x->width) * x->width;
    default: return element;
    }
}

static bool negative(const indexing_t *x, int64_t entry) {
    for (int64_t c = 0; c < x->width; ++c)
        if (vn_tensor_get_i64(x->ids, entry + c) < 0) return true;
    return false;
}

/* All wrong elements of a gather come from negative indices, and (chance aside) all that come from them are wrong. */
static void only_negative(const indexing_t *x) {
    vn_explain_t *e = x->v->e;
    int64_t from_negative = 0, zeros = 0, right = 0;
    for (int64_t i = 0; i < e->n; ++i) {
        const bool touched = negative(x, entry_of(x, i));
        if (e->wrong[i] && !touched) return;
        from_negative += touched;
        right += touched && !e->wrong[i];
        zeros += e->wrong[i] && e->x && e->x[i] == 0;
    }
    if (from_negative == e->n && zeros < e->n_wrong) return; /* nothing tells negative indices from any other fault */
    if (right * 8 > from_negative) return;
    vn_explain_offer(e, VN_NAME_SOURCE, (double)e->n_wrong / (double)from_negative, VN_BUG, "negative-index",
                     "Exactly the elements that negative indices select are wrong (%lld); %s: the index is not counted from the end.",
                     (long long)e->n_wrong, zeros == e->n_wrong ? "they hold zeros" : "they hold values from elsewhere");
}

/* ---- scatters ---- */

typedef enum how { HOW_NONE, HOW_ADD, HOW_MUL, HOW_MAX, HOW_MIN } how_t;

typedef struct scatter {
    const indexing_t *x;
    how_t how;
    int64_t n, runs, run;
    int64_t *at; /* first element of the data that run i updates */
    bool *minus; /* its index is negative */
    double *data, *update, *y2;
    int64_t *count, *first, *last; /* per element of the data: updates, and the first and last of them */
} scatter_t;

static double join(how_t how, double a, double b) {
    switch (how) {
    case HOW_ADD: return a + b;
    case HOW_MUL: return a * b;
    case HOW_MAX: return a > b || isnan(a) ? a : b;
    case HOW_MIN: return a < b || isnan(a) ? a : b;
    default: return b;
    }
}

static bool find_targets(scatter_t *s) {
    const indexing_t *x = s->x;
    for (int64_t r = 0; r < s->runs; ++r) {
        int64_t at = 0;
        if (x->use == USE_SCATTER_ND) {
            for (int64_t c = 0; c < x->width; ++c) {
                const int64_t id = vn_tensor_get_i64(x->ids, r * x->width + c), n = x->dims[c];
                s->minus[r] |= id < 0;
                if (id < -n || id >= n) return false;
                at = at * n + (id < 0 ? id + n : id);
            }
            at *= s->run;
        } else {
            int64_t rest = r, place[VN_MAX_RANK];
            for (int d = x->rank - 1; d >= 0; --d) {
                place[d] = rest % x->ids->dims[d];
                rest /= x->ids->dims[d];
            }
            const int64_t id = vn_tensor_get_i64(x->ids, r), n = x->dims[x->axis];
            s->minus[r] = id < 0;
            if (id < -n || id >= n) return false;
            place[x->axis] = id < 0 ? id + n : id;
            for (int d = 0; d < x->rank; ++d) at = at * x->dims[d] + place[d];
        }
        s->at[r] = at;
        if (at + s->run > s->n) return false;
    }
    return true;
}

/* Which updates a faulty scatter keeps. */
typedef enum keep { KEEP_LAST, KEEP_FIRST, KEEP_POSITIVE, KEEP_WITHOUT_DATA } keep_t;

static void apply(scatter_t *s, keep_t keep) {
    memcpy(s->y2, s->data, (size_t)s->n * sizeof *s->y2);
    for (int64_t r = 0; r < s->runs; ++r)
        for (int64_t k = 0; k < s->run; ++k) {
            const int64_t i = s->at[r] + k, u = r * s->run + k;
            const bool fresh = s->first[i] == u;
            if ((keep == KEEP_LAST && s->last[i] != u) || (keep == KEEP_FIRST && !fresh) || (keep == KEEP_POSITIVE && s->minus[r]))
                continue;
            s->y2[i] = keep == KEEP_WITHOUT_DATA && fresh ? s->update[u] : join(s->how, s->y2[i], s->update[u]);
        }
}

static void lost(scatter_t *s) {
    static const struct {
        keep_t keep;
        const char *cause, *words;
    } table[] = {
        {KEEP_LAST, "duplicates-dropped", "of several updates of one element only the last is applied"},
        {KEEP_FIRST, "duplicates-dropped", "of several updates of one element only the first is applied"},
        {KEEP_POSITIVE, "negative-index", "updates with a negative index are dropped"},
        {KEEP_WITHOUT_DATA, "term-dropped", "updated elements do not start from the data"},
    };
    vn_explain_t *e = s->x->v->e;
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        apply(s, table[i].keep);
        vn_explain_plane(e, s->y2, NULL, VN_BUG, table[i].cause, NULL, "The whole result comes out if %s.", table[i].words);
    }
}

/* Every wrong element is its data with one of its updates, or with all but one: updates that raced. */
static void raced(scatter_t *s) {
    vn_explain_t *e = s->x->v->e;
    uint8_t *fits = vn_alloc((size_t)s->n, 1);
    bool all = fits != NULL;
    int64_t several = 0;
    if (s->how == HOW_NONE || s->how == HOW_MUL) all = false;
    for (int64_t i = 0; all && i < s->n; ++i) all = !e->wrong[i] || s->count[i] > 0;
    for (int64_t r = 0; all && r < s->runs; ++r)
        for (int64_t k = 0; k < s->run; ++k) {
            const int64_t i = s->at[r] + k;
            const double u = s->update[r * s->run + k], x = e->x[i], y = e->y[i], room = vn_room(e->c->ref, i);
            if (!e->wrong[i] || fits[i]) continue;
            const double one = join(s->how, s->data[i], u), width = fmax(room, 0); /* negative: equality */
            fits[i] = fabs(x - one) <= width || (s->how == HOW_ADD && fabs(x - (y - u)) <= width);
        }
    for (int64_t i = 0; all && i < s->n; ++i) {
        all = !e->wrong[i] || fits[i];
        several += e->wrong[i] && s->count[i] > 1;
    }
    vn_free(fits);
    if (!all) return;
    vn_explain_offer(e, VN_NAME_SOURCE, 1, VN_BUG, several == e->n_wrong ? "duplicates-dropped" : "term-dropped",
                     "Every wrong element lacks updates: it holds its data and one update, or all but one (%lld of %lld have several).",
                     (long long)several, (long long)e->n_wrong);
}

static bool fill_scatter(scatter_t *s, const vn_tensor_t *data, const vn_tensor_t *update) {
    const size_t n = (size_t)s->n;
    s->at = vn_alloc((size_t)s->runs, sizeof *s->at), s->minus = vn_alloc((size_t)s->runs, sizeof *s->minus);
    s->data = vn_alloc(n, sizeof *s->data), s->y2 = vn_alloc(n, sizeof *s->y2),
    s->update = vn_alloc((size_t)update->count, sizeof *s->update);
    s->count = vn_alloc(n, sizeof *s->count), s->first = vn_alloc(n, sizeof *s->first), s->last = vn_alloc(n, sizeof *s->last);
    if (!s->at || !s->minus || !s->data || !s->y2 || !s->update || !s->count || !s->first || !s->last) return false;
    vn_tensor_to_f64(data, s->data);
    vn_tensor_to_f64(update, s->update);
    return true;
}

static vn_status_t scatters(const indexing_t *x, vn_error_t *err) {
    static const char *const names[] = {"none", "add", "mul", "max", "min"};
    const vn_tensor_t *data = vn_variant_operand(x->v, 0), *update = vn_variant_operand(x->v, 2);
    const char *reduction = vn_node_string(x->v->node, "reduction", "none");
    vn_explain_t *e = x->v->e;
    if (!data || !update || !e->x || data->count != e->n || update->count == 0) return VN_OK;
    scatter_t s = {.x = x, .n = data->count, .run = 1, .runs = x->ids->count};
    for (int k = 0; k < 5; ++k)
        if (strcmp(reduction, names[k]) == 0) s.how = (how_t)k;
    if (x->use == USE_SCATTER_ND) {
        s.runs /= x->width;
        s.run = inner_of(x, (int)x->width);
    }
    if (s.runs * s.run != update->count || (x->use == USE_SCATTER_ELEMENTS && x->ids->rank != x->rank)) return VN_OK;
    vn_status_t st = fill_scatter(&s, data, update) ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)s.n);
    if (st == VN_OK && find_targets(&s)) {
        for (int64_t u = 0; u < s.runs * s.run; ++u) {
            const int64_t i = s.at[u / s.run] + u % s.run;
            if (!s.count[i]++) s.first[i] = u;
            s.last[i] = u;
        }
        lost(&s);
        raced(&s);
    }
    vn_free(s.at), vn_free(s.minus), vn_free(s.data), vn_free(s.y2), vn_free(s.update);
    vn_free(s.count), vn_free(s.first), vn_free(s.last);
    return st;
}

static vn_status_t indices(vn_variant_t *v, vn_error_t *err) {
    indexing_t x;
    if (!read_node(v, &x)) return VN_OK;
    VN_TRY(others(&x, err));
    if (!v->e->c->q->node) return VN_OK; /* elements of a region's output do not belong to this node */
    if (x.use >= USE_SCATTER_ELEMENTS) return scatters(&x, err);
    only_negative(&x);
    return VN_OK;
}

vn_status_t vn_name_index(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, indices, err); }
