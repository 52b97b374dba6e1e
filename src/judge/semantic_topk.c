/* semantic_topk.c -- TopK by another rule: the first that reach the threshold, distinct values only, another order of equals, a part of the line.
 *
 * Each rule selects places of the line; both outputs follow from them, so values and indices are compared bit by bit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/names.h"

typedef enum rule { FIRST_TO_REACH, DISTINCT, LAST_OF_EQUALS, IN_PLACE_ORDER, BY_MAGNITUDE, FIRST_HALF, LAST_HALF, RULES } rule_t;
static const struct {
    const char *cause, *words;
} rules[RULES] = {
    {"duplicates-dropped", "the first k places that reach the k-th value are taken, whatever larger ones come behind them"},
    {"duplicates-dropped", "equal values are taken once only"},
    {"argmax-last", "of equal values the one with the higher index comes first"},
    {"attribute-ignored:sorted", "the right elements stand in the order of their places, not of their values"},
    {"sign-lost", "elements are ordered by magnitude: the sign is dropped"},
    {"block-merge-missing", "only the first half of the line was looked at"},
    {"block-merge-missing", "only the second half of the line was looked at"},
};

typedef struct item {
    double key; /* larger is better */
    int64_t at;
    int64_t tie; /* smaller is better */
} item_t;

static int better(const void *a, const void *b) {
    const item_t *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    return (x->tie > y->tie) - (x->tie < y->tie);
}
static int by_place(const void *a, const void *b) {
    const item_t *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* The k chosen places of one line in items[0 .. k). False: the rule does not give k of them. */
static bool choose(rule_t rule, const double *line, int64_t n, int64_t k, bool largest, item_t *items) {
    const int64_t from = rule == LAST_HALF ? (n + 1) / 2 : 0, to = rule == FIRST_HALF ? (n + 1) / 2 : n;
    int64_t m = 0;
    for (int64_t i = from; i < to; ++i) {
        const double x = rule == BY_MAGNITUDE ? fabs(line[i]) : line[i];
        items[m++] = (item_t){.key = largest ? x : -x, .at = i, .tie = rule == LAST_OF_EQUALS ? -i : i};
    }
    if (m < k) return false;
    qsort(items, (size_t)m, sizeof *items, better);
    if (rule == FIRST_TO_REACH) {
        const double threshold = items[k - 1].key;
        while (m > k && items[m - 1].key < threshold) --m; /* those that do not reach it */
        qsort(items, (size_t)m, sizeof *items, by_place);
    } else if (rule == IN_PLACE_ORDER) {
        qsort(items, (size_t)k, sizeof *items, by_place);
    } else if (rule == DISTINCT) {
        int64_t kept = 0;
        for (int64_t i = 0; i < m; ++i)
            if (!kept || items[i].key != items[kept - 1].key) items[kept++] = items[i];
        return kept >= k;
    }
    return true;
}

static vn_status_t topk(vn_variant_t *v, vn_error_t *err) {
    vn_explain_t *e = v->e;
    const vn_tensor_t *x = vn_variant_operand(v, 0), *got = e->c->actual;
    if (!vn_variant_is(v, "", "TopK") || !e->c->q->node || !e->x || !x || x->rank < 1 || got->rank != x->rank || e->c->k > 1) return VN_OK;
    int64_t axis = vn_node_int(v->node, "axis", -1), step = 1;
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank) return VN_OK;
    for (int d = (int)axis + 1; d < x->rank; ++d) step *= x->dims[d];
    const int64_t n = x->dims[axis], k = got->dims[axis], lines = k ? e->n / k : 0;
    const bool largest = vn_node_int(v->node, "largest", 1) != 0;
    if (n < 1 || k < 1 || k > n || lines * n != x->count) return VN_OK;
    double *all = vn_alloc((size_t)x->count, sizeof *all), *line = vn_alloc((size_t)n, sizeof *line),
           *y2 = vn_alloc((size_t)e->n, sizeof *y2);
    item_t *items = vn_alloc((size_t)n, sizeof *items);
    vn_status_t s = all && line && y2 && items ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld elements", (long long)x->count);
    bool numbers = s == VN_OK;
    if (s == VN_OK) vn_tensor_to_f64(x, all);
    for (int64_t i = 0; numbers && i < x->count; ++i) numbers = !isnan(all[i]); /* the order of NaNs is open */
    for (rule_t rule = 0; numbers && rule < RULES && vn_spent() < e->deadline; ++rule) {
        bool can = true;
        for (int64_t l = 0; l < lines && can; ++l) {
            const int64_t base = l / step * step * n + l % step, to = l / step * step * k + l % step;
            for (int64_t i = 0; i < n; ++i) line[i] = all[base + i * step];
            can = choose(rule, line, n, k, largest, items);
            for (int64_t i = 0; i < k && can; ++i) y2[to + i * step] = e->c->k ? (double)items[i].at : line[items[i].at];
        }
        if (can) vn_explain_plane(e, y2, NULL, VN_BUG, rules[rule].cause, NULL, "The whole output comes out if %s.", rules[rule].words);
    }
    vn_free(all);
    vn_free(line);
    vn_free(y2);
    vn_free(items);
    return s;
}

vn_status_t vn_name_topk(vn_explain_t *e, vn_error_t *err) { return vn_variants(e, topk, err); }
