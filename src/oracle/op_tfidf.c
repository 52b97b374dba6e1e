/* op_tfidf.c -- TfIdfVectorizer: how often the n-grams of a pool occur in rows of tokens.
 *
 * An n-gram is looked for at every start and every distance 1 .. max_skip_count + 1 between its items; single tokens, which have no distance,
 * once. TF gives counts c, IDF min(c, 1) w, TFIDF c w, with the weight w of the n-gram.
 *
 * Claim NGRAM-1: counts are exact integers. An element with one n-gram of its own is one rounding of c w. Where k n-grams share an element
 *   the sum of their products is within g(k + 1) sum |c w| + k eta / 2 of the result, in any order: k roundings of products, k - 1 of
 *   sums, one more for counts beyond 1/u. Reading weights-by-element: the weight stands at the element's place, not at the n-gram's.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/rows.h"
#include "oracle/text.h"

enum { MODE_TF, MODE_IDF, MODE_TFIDF };

/* N-grams of one size, as the numbers of their tokens, sorted. */
typedef struct grams {
    int64_t size, count;
    const int32_t **sorted; /* each points to `size` token numbers in plan.tokens */
} grams_t;

typedef struct plan {
    int mode;
    int64_t rows, columns, width; /* width: of the result */
    int64_t distances;            /* 1 .. distances */
    int64_t n_indexes, total, n_starts;
    const int64_t *indexes, *starts, *pool_ints;
    const vn_string_t *pool_texts;
    const float *weights; /* NULL: ones */
    int64_t shortest, longest;
    /* made by index_pool */
    int64_t vocabulary;
    int64_t *ints;      /* the pool's tokens, sorted, each once */
    vn_string_t *texts; /* the same of a pool of texts */
    int32_t *tokens;    /* the pool as numbers of tokens */
    int64_t *gram_of;   /* by position in the pool: number of the n-gram that begins there */
    grams_t *sizes;     /* one for each entry of starts */
} plan_t;

static int by_int(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- attributes ---- */

static vn_status_t read_int(vn_eval_t *e, const char *name, int64_t least, int64_t *out) {
    const vn_attr_t *a = vn_node_attr(e->node, name);
    if (!a || a->kind != VN_ATTR_INT) return vn_eval_fail(e, VN_ERR_USAGE, "attribute %s is missing", name);
    *out = a->i;
    return a->i >= least ? VN_OK
                         : vn_eval_fail(e, VN_ERR_RANGE, "%s is %lld, at least %lld is due", name, (long long)a->i, (long long)least);
}

static vn_status_t read_pool(vn_eval_t *e, plan_t *p) {
    const vn_attr_t *texts = vn_node_attr(e->node, "pool_strings");
    int64_t n_ints;
    p->pool_ints = vn_node_ints(e->node, "pool_int64s", &n_ints);
    const bool has_texts = texts && texts->kind == VN_ATTR_STRINGS && texts->count > 0, has_ints = p->pool_ints && n_ints > 0;
    if (has_texts == has_ints) return vn_eval_fail(e, VN_ERR_USAGE, "exactly one of pool_strings and pool_int64s must be given");
    p->pool_texts = has_texts ? texts->strings : NULL;
    p->total = has_texts ? texts->count : n_ints;
    if (p->total > INT32_MAX) return vn_eval_fail(e, VN_ERR_RANGE, "a pool of %lld tokens", (long long)p->total);
    const vn_tensor_t *x = e->in[0].t;
    if (has_texts ? x->dtype != VN_STRING : x->dtype != VN_I32 && x->dtype != VN_I64)
        return vn_eval_fail(e, VN_ERR_DTYPE, "%s looked up in a pool of %s", vn_dtype_name(x->dtype), has_texts ? "strings" : "integers");
    int64_t grams = 0;
    for (int64_t i = 0; i < p->n_starts; ++i) {
        const int64_t from = p->starts[i], to = i + 1 < p->n_starts ? p->starts[i + 1] : p->total;
        if (from < 0 || to < from || to > p->total || (i == 0 && from != 0))
            return vn_eval_fail(e, VN_ERR_RANGE, "ngram_counts do not cut a pool of %lld tokens into parts", (long long)p->total);
        if ((to - from) % (i + 1))
            return vn_eval_fail(e, VN_ERR_RANGE, "%lld tokens of the pool are no whole number of %lld-grams", (long long)(to - from),
                                (long long)(i + 1));
        grams += (to - from) / (i + 1);
    }
    if (grams != p->n_indexes)
        return vn_eval_fail(e, VN_ERR_RANGE, "ngram_indexes has %lld entries for %lld n-grams", (long long)p->n_indexes, (long long)grams);
    return VN_OK;
}

static vn_status_t read_plan(vn_eval_t *e, plan_t *p) {
    static const char *const modes[] = {[MODE_TF] = "TF", [MODE_IDF] = "IDF", [MODE_TFIDF] = "TFIDF"};
    const char *mode = vn_node_string(e->node, "mode", "");
    int64_t skips, n_weights;
    *p = (plan_t){0};
    if (e->n_in < 1 || !e->in[0].t) return vn_eval_fail(e, VN_ERR_USAGE, "input 0 is missing or no tensor");
    const vn_tensor_t *x = e->in[0].t;
    if (x->rank != 1 && x->rank != 2) return vn_eval_fail(e, VN_ERR_SHAPE, "the input must be of shape [C] or [N, C]");
    while (p->mode < 3 && strcmp(mode, modes[p->mode]) != 0) ++p->mode;
    if (p->mode == 3) return vn_eval_fail(e, VN_ERR_RANGE, "mode is '%s': TF, IDF or TFIDF", mode);
    VN_TRY(read_int(e, "max_skip_count", 0, &skips));
    VN_TRY(read_int(e, "min_gram_length", 1, &p->shortest));
    VN_TRY(read_int(e, "max_gram_length", p->shortest, &p->longest));
    p->indexes = vn_node_ints(e->node, "ngram_indexes", &p->n_indexes);
    p->starts = vn_node_ints(e->node, "ngram_counts", &p->n_starts);
    if (!p->indexes || !p->starts || p->n_indexes < 1 || p->n_starts < 1)
        return vn_eval_fail(e, VN_ERR_USAGE, "attributes ngram_counts and ngram_indexes must not be empty");
    for (int64_t i = 0; i < p->n_indexes; ++i) {
        if (p->indexes[i] < 0 || p->indexes[i] >= INT32_MAX)
            return vn_eval_fail(e, VN_ERR_RANGE, "ngram_indexes[%lld] is %lld", (long long)i, (long long)p->indexes[i]);
        if (p->indexes[i] >= p->width) p->width = p->indexes[i] + 1;
    }
    VN_TRY(read_pool(e, p));
    p->weights = vn_node_floats(e->node, "weights", &n_weights);
    if (p->weights && n_weights == 0) p->weights = NULL;
    if (p->weights && n_weights != p->n_indexes)
        return vn_eval_fail(e, VN_ERR_RANGE, "%lld weights for %lld n-grams", (long long)n_weights, (long long)p->n_indexes);
    p->rows = x->rank == 2 ? x->dims[0] : 1;
    p->columns = x->dims[x->rank - 1];
    p->distances = skips < p->columns ? skips + 1 : p->columns; /* a longer one finds nothing */
    return VN_OK;
}

/* ---- the pool, prepared for looking up ---- */

static int32_t token_of_text(const plan_t *p, const vn_string_t *s) {
    const vn_string_t *at = bsearch(s, p->texts, (size_t)p->vocabulary, sizeof *s, vn_text_order);
    return at ? (int32_t)(at - p->texts) : -1;
}

static int32_t token_of_int(const plan_t *p, int64_t v) {
    const int64_t *at = bsearch(&v, p->ints, (size_t)p->vocabulary, sizeof v, by_int);
    return at ? (int32_t)(at - p->ints) : -1;
}

static int compare_grams(const int32_t *a, const int32_t *b, int64_t size) {
    for (int64_t k = 0; k < size; ++k)
        if (a[k] != b[k]) return a[k] < b[k] ? -1 : 1;
    return 0;
}

typedef struct sorter {
    int64_t size;
} sorter_t;

static int by_gram(const void *a, const void *b, void *ctx) {
    return compare_grams(*(const int32_t *const *)a, *(const int32_t *const *)b, ((const sorter_t *)ctx)->size);
}

static vn_status_t index_tokens(vn_eval_t *e, plan_t *p) {
    const size_t n = (size_t)p->total, size = p->pool_texts ? sizeof *p->texts : sizeof *p->ints;
    int (*order)(const void *, const void *) = p->pool_texts ? vn_text_order : by_int;
    void *all = vn_alloc(n, size);
    p->tokens = vn_alloc(n, sizeof *p->tokens);
    p->gram_of = vn_alloc(n, sizeof *p->gram_of);
    p->sizes = vn_alloc((size_t)p->n_starts, sizeof *p->sizes);
    if (p->pool_texts) p->texts = all;
    else p->ints = all;
    if (!all || !p->tokens || !p->gram_of || !p->sizes) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for a pool of %zu tokens", n);
    memcpy(all, p->pool_texts ? (const void *)p->pool_texts : (const void *)p->pool_ints, n * size);
    qsort(all, n, size, order);
    for (size_t i = 0; i < n; ++i) {
        const char *here = (const char *)all + i * size;
        if (i && order(here, here - size) == 0) continue;
        memmove((char *)all + (size_t)p->vocabulary++ * size, here, size);
    }
    for (int64_t i = 0; i < p->total; ++i)
        p->tokens[i] = p->pool_texts ? token_of_text(p, &p->pool_texts[i]) : token_of_int(p, p->pool_ints[i]);
    return VN_OK;
}

static vn_status_t index_pool(vn_eval_t *e, plan_t *p) {
    VN_TRY(index_tokens(e, p));
    int64_t number = 0;
    for (int64_t i = 0; i < p->n_starts; ++i) {
        const int64_t from = p->starts[i], to = i + 1 < p->n_starts ? p->starts[i + 1] : p->total;
        grams_t *g = &p->sizes[i];
        *g = (grams_t){.size = i + 1, .count = (to - from) / (i + 1)};
        g->sorted = vn_alloc((size_t)(g->count ? g->count : 1), sizeof *g->sorted);
        if (!g->sorted) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld n-grams", (long long)g->count);
        for (int64_t k = 0; k < g->count; ++k) {
            g->sorted[k] = p->tokens + from + k * g->size;
            p->gram_of[from + k * g->size] = number++;
        }
        qsort_r(g->sorted, (size_t)g->count, sizeof *g->sorted, by_gram, &(sorter_t){g->size});
        for (int64_t k = 1; k < g->count; ++k)
            if (compare_grams(g->sorted[k - 1], g->sorted[k], g->size) == 0)
                return vn_eval_fail(e, VN_ERR_UNSUPPORTED,
                                    "the pool holds a %lld-gram twice, and the standard does not say which entry counts",
                                    (long long)g->size);
    }
    return VN_OK;
}

static void plan_free(plan_t *p) {
    for (int64_t i = 0; p->sizes && i < p->n_starts; ++i) vn_free(p->sizes[i].sorted);
    vn_free(p->sizes);
    vn_free(p->gram_of);
    vn_free(p->tokens);
    vn_free(p->texts);
    vn_free(p->ints);
}

/* ---- counting ---- */

/* Number of the n-gram whose items stand at row[0], row[step], ...; -1: not in the pool. */
static int64_t find(const plan_t *p, const grams_t *g, const int32_t *row, int64_t step) {
    int64_t lo = 0, hi = g->count;
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        const int32_t *gram = g->sorted[mid];
        int64_t k = 0;
        while (k < g->size && gram[k] == row[k * step]) ++k;
        if (k == g->size) return p->gram_of[gram - p->tokens];
        if (gram[k] < row[k * step]) lo = mid + 1;
        else hi = mid;
    }
    return -1;
}

/* counts: one an n-gram, zeroed. */
static void count_row(const plan_t *p, const int32_t *row, int64_t *counts) {
    for (int64_t i = p->shortest - 1; i < p->n_starts && i < p->longest; ++i) {
        const grams_t *g = &p->sizes[i];
        const int64_t distances = g->size == 1 && p->distances > 1 ? 1 : p->distances;
        for (int64_t step = 1; step <= distances && g->count && (g->size - 1) <= (p->columns - 1) / step; ++step)
            for (int64_t at = 0; at + (g->size - 1) * step < p->columns; ++at) {
                const int64_t n = row[at] < 0 ? -1 : find(p, g, row + at, step);
                if (n >= 0) ++counts[n];
            }
    }
}

static double scaled(const plan_t *p, int64_t count, double weight) {
    return p->mode == MODE_TF ? (double)count : (double)(p->mode == MODE_IDF && count > 1 ? 1 : count) * weight;
}

typedef struct results {
    double *value, *bound, *var;
    uint8_t *flags;
    float *by_element; /* the reading, NULL: there is none */
    int64_t *joined;   /* counts of one row by element, for the reading */
    int32_t *sharing;  /* n-grams of each element */
    bool one_rounding; /* of every element */
} results_t;

static void put_row(const vn_eval_t *e, const plan_t *p, int64_t r, const int64_t *counts, results_t *o) {
    const double u = vn_u(e), eta = vn_eta(e);
    const bool weighted = p->weights && p->mode != MODE_TF;
    for (int64_t n = 0; n < p->n_indexes; ++n) {
        const int64_t at = p->indexes[n], i = r * p->width + at;
        const double w = weighted ? (double)p->weights[n] : 1, v = scaled(p, counts[n], w), k = o->sharing[at];
        if (counts[n] == 0 && !isfinite(w) && o->flags) o->flags[i] |= VN_EL_NAN_OK; /* "has no effect", though 0 times Inf is NaN */
        if (counts[n] == 0) continue;
        o->value[i] += v;
        const bool small = (double)counts[n] <= 1 / u; /* the count itself is a number of the accumulator */
        o->one_rounding &= small && (k == 1 || !weighted);
        if (!o->bound || (!weighted && small)) continue;
        o->bound[i] += vn_gamma(k + 1, u) * fabs(v) + eta / 2;
        if (o->var) o->var[i] += k * u * u * v * v / 3;
    }
    if (!o->by_element) return;
    memset(o->joined, 0, (size_t)p->width * sizeof *o->joined);
    for (int64_t n = 0; n < p->n_indexes; ++n) o->joined[p->indexes[n]] += counts[n];
    for (int64_t at = 0; at < p->width; ++at)
        o->by_element[r * p->width + at] = (float)scaled(p, o->joined[at], o->joined[at] || p->mode == MODE_TFIDF ? p->weights[at] : 0);
}

/* One row of operand 0 as token numbers, -1 for tokens that the pool has not. */
static void read_row(const vn_eval_t *e, const plan_t *p, int64_t r, int32_t *row) {
    for (int64_t c = 0; c < p->columns; ++c)
        row[c] =
            p->pool_texts ? token_of_text(p, vn_text_at(e, 0, r * p->columns + c)) : token_of_int(p, vn_arg_int(e, 0, r * p->columns + c));
}

static bool any_infinite(const plan_t *p) {
    for (int64_t n = 0; p->weights && p->mode != MODE_TF && n < p->n_indexes; ++n)
        if (!isfinite(p->weights[n])) return true;
    return false;
}

static vn_status_t fill(vn_eval_t *e, const plan_t *p) {
    vn_ref_t *r = &e->out[0];
    vn_tensor_t *reading = NULL;
    if (p->weights && p->mode != MODE_TF && p->width <= p->n_indexes) VN_TRY(vn_tensor_new(VN_F32, r->rank, r->dims, &reading, e->err));
    int32_t *row = vn_alloc((size_t)p->columns + 1, sizeof *row);
    int64_t *counts = vn_alloc((size_t)p->n_indexes, sizeof *counts);
    results_t o = {.value = r->value,
                   .bound = r->bound,
                   .var = r->var,
                   .flags = r->flags,
                   .by_element = reading ? reading->data : NULL,
                   .joined = vn_alloc((size_t)p->width, sizeof *o.joined),
                   .sharing = vn_alloc((size_t)p->width, sizeof *o.sharing),
                   .one_rounding = true};
    vn_status_t s = row && counts && o.joined && o.sharing ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory to count in");
    for (int64_t n = 0; s == VN_OK && n < p->n_indexes; ++n) ++o.sharing[p->indexes[n]];
    for (int64_t k = 0; s == VN_OK && k < p->rows; ++k) {
        read_row(e, p, k, row);
        memset(counts, 0, (size_t)p->n_indexes * sizeof *counts);
        if (p->columns) count_row(p, row, counts);
        put_row(e, p, k, counts, &o);
    }
    if (s == VN_OK && o.one_rounding) {
        if (r->bound) memset(r->bound, 0, (size_t)r->count * sizeof *r->bound); /* the store is the rounding */
        if (r->var) memset(r->var, 0, (size_t)r->count * sizeof *r->var);
        vn_out_rounded(e, 0);
    }
    vn_free(row);
    vn_free(counts);
    vn_free(o.joined);
    vn_free(o.sharing);
    if (s != VN_OK || !reading) {
        vn_tensor_free(reading);
        return s;
    }
    bool differs = false;
    for (int64_t i = 0; i < r->count && !differs; ++i) {
        const float main = (float)r->value[i];
        differs = main != o.by_element[i] && !(isnan(main) && isnan(o.by_element[i]));
    }
    if (differs) return vn_out_reading(e, 0, "weights-by-element", reading);
    vn_tensor_free(reading);
    return VN_OK;
}

vn_status_t vn_text_ngrams(vn_eval_t *e) {
    plan_t p;
    VN_TRY(read_plan(e, &p));
    const int64_t dims[2] = {p.rows, p.width};
    const int rank = e->in[0].t->rank;
    VN_TRY(vn_out_float(e, 0, VN_F32, rank, dims + 2 - rank));
    if (any_infinite(&p)) VN_TRY(vn_out_flags(e, 0));
    vn_status_t s = index_pool(e, &p);
    if (s == VN_OK) s = fill(e, &p);
    plan_free(&p);
    if (s == VN_OK) vn_flags_settle(e, 0);
    return s;
}

vn_status_t vn_infer_ngrams(vn_eval_t *e) {
    plan_t p;
    VN_TRY(read_plan(e, &p));
    const int64_t dims[2] = {p.rows, p.width};
    const int rank = e->in[0].t->rank;
    vn_infer_put(e, 0, VN_F32, rank, dims + 2 - rank);
    return VN_OK;
}
