/* pattern.c -- structural names: what the wrong elements have in common, seen from both values alone (docs/claims-names-pattern.md). */
#include "judge/pattern.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge/names.h"

enum { MAX_POOL = 1 << 18, MAX_SAMPLE = 4096, CHANCE = 1 << 10 /* PATTERN-1 */ };

double vn_pattern_limit(double log_tried) { return log(CHANCE) + log_tried; }

double vn_pattern_room(const vn_pattern_t *p, int64_t j) {
    const vn_ref_t *r = p->e->c->ref;
    if (p->exact) return 0;
    const double room = vn_room(r, j), y = p->e->y[j];
    if (room > 0) return room;
    return r->value && isfinite(y) ? vn_ulp(vn_format_of(r->dtype), y) / 2 : 0; /* one rounding is due, and y is not rounded */
}

bool vn_pattern_holds(const vn_pattern_t *p, int64_t i, int64_t j) {
    const vn_tensor_t *either = p->e->c->ref->either;
    if (!p->exact) return vn_explain_moved(p->e, i, j);
    return vn_same_bits(p->got, i, p->want, j) || (either && vn_same_bits(p->got, i, either, j));
}

/* 52 bits of a hash, as a number. */
static double hash(const void *bytes, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; ++i) h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
    return (double)(h >> 12);
}

double vn_pattern_key(const vn_pattern_t *p, const vn_tensor_t *t, int64_t i) {
    if (!p->exact) return t == p->got ? p->e->x[i] : p->e->y[i];
    const int bits = vn_dtype_bits(t->dtype);
    if (bits == 0) {
        const vn_string_t *s = (const vn_string_t *)t->data + i;
        return hash(s->text, s->length);
    }
    if (bits == 128) return hash((const char *)t->data + 16 * i, 16);
    const uint64_t b = vn_tensor_bits(t, i);
    return b < (uint64_t)1 << 53 ? (double)b : hash(&b, sizeof b);
}

static int by_number(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* First place of the sorted numbers that is not below x. */
static int64_t lower(const double *v, int64_t n, double x) {
    int64_t a = 0, b = n;
    while (a < b) {
        const int64_t mid = a + (b - a) / 2;
        if (v[mid] < x) a = mid + 1;
        else b = mid;
    }
    return a;
}

double vn_pattern_share(const vn_pattern_t *p, int64_t i, double room) {
    const double x = vn_pattern_key(p, p->got, i);
    if (isnan(x) || p->n_pool == 0) return 1;
    const int64_t end = lower(p->pool, p->n_pool, nextafter(x + room, INFINITY));
    return (double)(end - lower(p->pool, p->n_pool, x - room) + 1) / (double)(p->n_pool + 1);
}

double vn_pattern_accident(const vn_pattern_t *p, double x, double room) {
    const vn_format_t f = vn_format_of(p->got->dtype);
    if (!isfinite(x) || x == 0) return 0;
    const double step = f == VN_FMT_NONE ? 1 : vn_ulp(f, x);
    double width = 2 * (room > step ? room : step);
    if (width < p->grid) width = p->grid;
    return width < fabs(x) ? log(fabs(x) / width) : 0;
}

/* ln of the number of ways to choose m of n. */
static double log_choices(int64_t n, int64_t m) { return lgamma((double)n + 1) - lgamma((double)m + 1) - lgamma((double)(n - m) + 1); }

bool vn_pattern_surprising(const vn_pattern_t *p, const vn_move_t *v, int64_t whole, double log_tried) {
    double accident = 0, pick = 0, before = NAN;
    for (int64_t s = 0; s < p->n_sample; ++s) {
        const int64_t i = p->sample[s], j = v->from(v, i);
        if (j < 0) continue;
        const double room = vn_pattern_room(p, j), x = vn_pattern_key(p, p->got, i);
        if (x - before <= room) continue; /* the same value again proves nothing more */
        before = x;
        const double chance = -log(vn_pattern_share(p, i, room));
        pick += chance;
        accident += p->exact ? chance : vn_pattern_accident(p, x, room);
    }
    if (accident > vn_pattern_limit(log_tried) && pick > log_tried) return true;
    return p->exact && whole > p->m && log_choices(whole, p->m) > vn_pattern_limit(log_tried);
}

vn_status_t vn_pattern_where(vn_pattern_t *p, bool (*look)(const vn_pattern_t *p, const void *ctx, int64_t i), const void *ctx,
                             vn_places_t *out, vn_error_t *err) {
    for (int64_t i = 0; i < p->n; ++i)
        p->mark[i] = p->e->wrong[i] ? VN_PLACE_MARKED : look && look(p, ctx, i) ? VN_PLACE_EITHER : VN_PLACE_NOT;
    return vn_places_find(p->mark, p->got->rank, p->got->dims, out, err);
}

/* ---- beginning and end ---- */

typedef struct keyed {
    double key;
    int64_t at;
} keyed_t;
static int by_key(const void *a, const void *b) {
    const keyed_t *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Wrong elements spread over all of them, one for each actual value, in order of value. */
static vn_status_t sample(vn_pattern_t *p, vn_error_t *err) {
    const int64_t take = p->m < MAX_SAMPLE ? p->m : MAX_SAMPLE;
    keyed_t *v = vn_alloc((size_t)take, sizeof *v);
    p->sample = vn_alloc((size_t)take, sizeof *p->sample);
    if (!v || !p->sample) {
        vn_free(v);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)take);
    }
    int64_t used = 0;
    for (int64_t s = 0; s < take; ++s) {
        const int64_t i = p->at[(int64_t)((double)s * (double)p->m / (double)take)];
        const double key = vn_pattern_key(p, p->got, i);
        if (!isnan(key)) v[used++] = (keyed_t){key, i};
    }
    qsort(v, (size_t)used, sizeof *v, by_key);
    for (int64_t s = 0; s < used; ++s)
        if (s == 0 || v[s].key != v[s - 1].key) p->sample[p->n_sample++] = v[s].at;
    vn_free(v);
    return VN_OK;
}

static vn_status_t pool(vn_pattern_t *p, vn_error_t *err) {
    const int64_t step = p->n / MAX_POOL + 1;
    p->pool = vn_alloc((size_t)(p->n / step + 1), sizeof *p->pool);
    if (!p->pool) return vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)p->n);
    for (int64_t i = 0; i < p->n; i += step) {
        const double key = vn_pattern_key(p, p->want, i);
        if (!isnan(key)) p->pool[p->n_pool++] = key;
    }
    qsort(p->pool, (size_t)p->n_pool, sizeof *p->pool, by_number);
    p->grid = INFINITY;
    for (int64_t k = 0; k < p->n_pool; ++k) {
        if (p->pool[k] == 0 || !isfinite(p->pool[k])) continue;
        int e;
        const int64_t bits = (int64_t)ldexp(frexp(fabs(p->pool[k]), &e), 53);
        const double last = ldexp((double)(bits & -bits), e - 53);
        if (last < p->grid) p->grid = last;
    }
    return VN_OK;
}

/* Most wrong elements differ by one or two steps of their type: a question of rounding, whatever other places hold. */
static bool rounding(const vn_pattern_t *p) {
    const vn_kind_t kind = vn_dtype_kind(p->got->dtype);
    const vn_format_t f = vn_format_of(p->got->dtype);
    if (!p->e->x || kind == VN_KIND_BOOL) return false;
    int64_t near = 0;
    for (int64_t k = 0; k < p->m; ++k) {
        const double x = p->e->x[p->at[k]], y = p->e->y[p->at[k]];
        near += isfinite(x) && isfinite(y) && fabs(x - y) <= (f == VN_FMT_NONE ? 1 : 2 * vn_ulp(f, y));
    }
    return 2 * near > p->m;
}

/* The node that makes the judged output. */
static vn_node_t *maker(const vn_question_t *q, int k) {
    if (q->node) return (vn_node_t *)q->node;
    const vn_graph_t *g = q->model->graph;
    const int at = k < g->n_outputs ? vn_graph_producer(g, g->outputs[k].name) : -1;
    return at >= 0 ? &g->nodes[at] : NULL;
}

static bool counts_places(const vn_node_t *node, const vn_question_t *q, int k) {
    static const struct {
        const char *op;
        int first; /* output from which on indices are returned */
    } table[] = {{"ArgMax", 0}, {"ArgMin", 0}, {"TopK", 1}, {"NonZero", 0}, {"Unique", 1}, {"MaxPool", 1}, {"NonMaxSuppression", 0}};
    if (!node || *node->domain) return false;
    int out = k;
    if (!q->node)
        for (out = 0; out < node->n_outputs && strcmp(node->outputs[out], q->model->graph->outputs[k].name) != 0;) ++out;
    for (size_t t = 0; t < sizeof table / sizeof *table; ++t)
        if (strcmp(node->op, table[t].op) == 0) return out >= table[t].first;
    return false;
}

typedef vn_status_t (*sub_family_t)(vn_pattern_t *p, vn_error_t *err);

static vn_status_t run(vn_explain_t *e, const sub_family_t *asked, size_t n, vn_error_t *err) {
    vn_case_t *c = e->c;
    const vn_kind_t kind = vn_dtype_kind(c->actual->dtype);
    vn_pattern_t p = {.e = e,
                      .got = c->actual,
                      .want = c->ref->tensor,
                      .n = e->n,
                      .m = e->n_wrong,
                      .exact = kind != VN_KIND_FLOAT,
                      .node = maker(c->q, c->k)};
    p.index = counts_places(p.node, c->q, c->k);
    p.at = vn_alloc((size_t)p.m, sizeof *p.at);
    p.mark = vn_alloc((size_t)p.n, 1);
    vn_status_t s = p.at && p.mark ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)p.n);
    for (int64_t i = 0, k = 0; s == VN_OK && i < p.n; ++i)
        if (e->wrong[i]) p.at[k++] = i;
    if (s == VN_OK) s = sample(&p, err);
    if (s == VN_OK) s = pool(&p, err);
    p.near = s == VN_OK && rounding(&p);
    if (s == VN_OK) s = vn_pattern_where(&p, NULL, NULL, &p.where, err);
    for (size_t k = 0; k < n && s == VN_OK; ++k) {
        if (k > 1 && !p.exact && p.m > 1 && p.n_sample < 2) break; /* one value everywhere: what it is has been said */
        if (vn_spent() > e->deadline) {
            e->cut = true;
            break;
        }
        s = asked[k](&p, err);
    }
    vn_free(p.at);
    vn_free(p.mark);
    vn_free(p.pool);
    vn_free(p.sample);
    return s;
}

vn_status_t vn_name_patterns(vn_explain_t *e, vn_error_t *err) {
    static const sub_family_t asked[] = {vn_pattern_values, vn_pattern_integers, vn_pattern_ratio, vn_pattern_moved, vn_pattern_stale};
    return run(e, asked, sizeof asked / sizeof *asked, err);
}

vn_status_t vn_name_guesses(vn_explain_t *e, vn_error_t *err) {
    static const sub_family_t asked[] = {vn_pattern_guess};
    return e->level == VN_NAME_NONE ? run(e, asked, 1, err) : VN_OK;
}
