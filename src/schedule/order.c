/* order.c -- the order of leaves as nested loops: "0+8*16+16*1" is 16 lanes,
 * each with every 16th term. */
#include <stdlib.h>
#include <string.h>

#include "schedule/shapes.h"

enum { STARTS = 16, LOOPS = VN_ORDER_LOOPS, SLACK = 64 };

/* One piece: some starts, then loops from the inside out. values: all that the
 * loops give, also those outside the range, which are skipped. */
typedef struct nest {
    int32_t starts[STARTS];
    int n_starts, loops;
    int32_t count[LOOPS], stride[LOOPS];
    int32_t cover; /* entries of the sequence that it gives */
} nest_t;

/* ---- from a sequence ---- */

typedef struct scratch {
    int32_t *value; /* values of the nest so far */
    int64_t n_value, capacity;
} scratch_t;

/* How often the values so far repeat at `stride`, each repetition matching the
 * sequence; *matched grows with them. clip: values outside the range are
 * skipped, as the text's reader does, but never the first one of a repetition;
 * only where one nest of one start gives everything. */
static int32_t repeat(const int32_t *seq, int32_t n, int32_t left, const scratch_t *s, int32_t stride, bool clip, int32_t *matched) {
    int32_t count = 1;
    for (;; ++count) {
        int32_t at = *matched;
        for (int64_t k = 0; k < s->n_value; ++k) {
            const int64_t v = (int64_t)s->value[k] + (int64_t)count * stride;
            const bool outside = v < 0 || v >= n;
            if (outside && clip && k > 0) continue;
            if (outside || at >= left || seq[at] != v) return count;
            ++at;
        }
        *matched = at;
    }
}

static void find_nest(const int32_t *seq, int32_t n, int32_t left, int starts, bool clip, scratch_t *s, nest_t *out) {
    *out = (nest_t){.n_starts = starts, .cover = starts};
    for (int k = 0; k < starts; ++k) out->starts[k] = s->value[k] = seq[k];
    s->n_value = starts;
    while (out->cover < left && out->loops < LOOPS) {
        const int64_t stride = (int64_t)seq[out->cover] - seq[0];
        int32_t matched = out->cover;
        const int32_t count = repeat(seq, n, left, s, (int32_t)stride, clip && starts == 1, &matched);
        if (count < 2 || s->n_value * count > s->capacity) return;
        for (int32_t r = 1; r < count; ++r)
            for (int64_t k = 0; k < s->n_value; ++k) s->value[r * s->n_value + k] = (int32_t)(s->value[k] + r * stride);
        s->n_value *= count;
        out->count[out->loops] = count;
        out->stride[out->loops++] = (int32_t)stride;
        out->cover = matched;
    }
}

static void write_nest(const nest_t *p, vn_text_t *out) {
    for (int k = 0; k < p->n_starts; ++k) vn_text_printf(out, "%s%d", k ? ";" : "", p->starts[k]);
    for (int k = 0; k < p->loops; ++k) vn_text_printf(out, "+%d*%d", p->count[k], p->stride[k]);
}

vn_status_t vn_order_compress(const int32_t *seq, int32_t n, vn_text_t *out, vn_error_t *err) {
    bool identity = true;
    nest_t p;
    scratch_t s = {.capacity = (int64_t)SLACK * n + SLACK};
    for (int32_t k = 0; k < n && identity; ++k) identity = seq[k] == k;
    if (identity) return VN_OK;
    if (s.capacity > 8 * (int64_t)n + (1 << 20)) s.capacity = 8 * (int64_t)n + (1 << 20);
    if (!(s.value = vn_alloc((size_t)s.capacity, sizeof *s.value)))
        return vn_fail(err, VN_ERR_NOMEM, "no memory for an order of %d leaves", n);
    bool whole = false;
    for (int m = 1; m <= STARTS && m <= n && !whole; ++m) {
        find_nest(seq, n, n, m, true, &s, &p);
        whole = p.cover == n && (p.loops > 0 || n == 1);
    }
    if (whole) write_nest(&p, out);
    for (int32_t at = 0; at < n && !whole;) {
        nest_t best = {0};
        for (int m = 1; m <= STARTS && m <= n - at; ++m) {
            find_nest(seq + at, n, n - at, m, false, &s, &p);
            if (best.cover == 0 || (p.loops > 0 && p.cover > 2 * best.cover)) best = p;
        }
        if (at) vn_text_add(out, ",");
        write_nest(&best, out);
        at += best.cover;
    }
    vn_free(s.value);
    return out->failed ? vn_fail(err, VN_ERR_NOMEM, "no memory for the text of an order") : VN_OK;
}

/* ---- from text ---- */

void vn_runs_clear(vn_runs_t *r) {
    for (int k = 0; k < r->levels; ++k) vn_free(r->at[k]);
    *r = (vn_runs_t){0};
}

static vn_status_t integer(const char *text, size_t *at, size_t end, bool sign, int32_t *out, vn_error_t *err) {
    const size_t begin = *at;
    const bool negative = sign && begin < end && text[begin] == '-';
    int64_t value = 0;
    *at += negative;
    const size_t digits = *at;
    while (*at < end && text[*at] >= '0' && text[*at] <= '9' && value <= VN_TREE_MAX_LEAVES) value = value * 10 + (text[(*at)++] - '0');
    if (*at == digits || value > VN_TREE_MAX_LEAVES)
        return vn_fail(err, VN_ERR_PARSE, "schedule's order, offset %zu: expected a number up to %d", begin, VN_TREE_MAX_LEAVES);
    *out = (int32_t)(negative ? -value : value);
    return VN_OK;
}

static vn_status_t read_nest(const char *text, size_t *at, size_t end, int32_t n, nest_t *p, vn_error_t *err) {
    int64_t total;
    *p = (nest_t){0};
    for (;;) {
        if (p->n_starts == STARTS) return vn_fail(err, VN_ERR_PARSE, "schedule's order, offset %zu: more than %d starts", *at, STARTS);
        VN_TRY(integer(text, at, end, false, &p->starts[p->n_starts++], err));
        if (*at >= end || text[*at] != ';') break;
        ++*at;
    }
    total = p->n_starts;
    while (*at < end && text[*at] == '+') {
        const size_t loop = (*at)++;
        if (p->loops == LOOPS) return vn_fail(err, VN_ERR_PARSE, "schedule's order, offset %zu: more than %d loops", loop, LOOPS);
        VN_TRY(integer(text, at, end, false, &p->count[p->loops], err));
        if (p->count[p->loops] < 1) return vn_fail(err, VN_ERR_RANGE, "schedule's order, offset %zu: a loop of no rounds", loop);
        if (*at >= end || text[*at] != '*') return vn_fail(err, VN_ERR_PARSE, "schedule's order, offset %zu: expected '*'", *at);
        ++*at;
        VN_TRY(integer(text, at, end, true, &p->stride[p->loops], err));
        total *= p->count[p->loops++];
        if (total > (int64_t)SLACK * n + SLACK)
            return vn_fail(err, VN_ERR_RANGE, "schedule's order, offset %zu: loops of more than %d terms", loop, n);
    }
    return VN_OK;
}

/* Writes the values inside the range; notes where each loop level begins anew.
 */
static vn_status_t run_nest(const nest_t *p, int32_t n, int32_t *seq, int32_t *at, uint8_t *seen, vn_runs_t *runs, vn_error_t *err) {
    int32_t index[LOOPS] = {0};
    for (;;) {
        int64_t base = 0;
        for (int k = 0; k < p->loops; ++k) base += (int64_t)index[k] * p->stride[k];
        for (int k = 0; k < p->n_starts; ++k) {
            const int64_t v = base + p->starts[k];
            if (v < 0 || v >= n) continue;
            if (seen[v]) return vn_fail(err, VN_ERR_PARSE, "schedule's order gives leaf %lld twice", (long long)v);
            seen[v] = 1;
            seq[(*at)++] = (int32_t)v;
        }
        int level = 0;
        while (level < p->loops && ++index[level] == p->count[level]) {
            index[level++] = 0;
            /* the runs of this level end here; empty ones are none */
            if (runs && *at > runs->at[level - 1][runs->count[level - 1]]) runs->at[level - 1][++runs->count[level - 1]] = *at;
        }
        if (level == p->loops) return VN_OK;
    }
}

vn_status_t vn_order_expand(const char *text, size_t length, int32_t n, int32_t *seq, vn_runs_t *runs, vn_error_t *err) {
    int32_t got = 0;
    vn_status_t st = VN_OK;
    if (runs) *runs = (vn_runs_t){0};
    if (length == 0) {
        for (int32_t k = 0; k < n; ++k) seq[k] = k;
        return VN_OK;
    }
    uint8_t *seen = vn_alloc((size_t)n, 1);
    if (!seen) return vn_fail(err, VN_ERR_NOMEM, "no memory for an order of %d leaves", n);
    for (size_t at = 0; st == VN_OK && at < length;) {
        nest_t p;
        const bool first = at == 0;
        st = read_nest(text, &at, length, n, &p, err);
        const bool alone = first && at == length;
        for (int k = 0; st == VN_OK && runs && alone && k < p.loops; ++k) {
            runs->at[k] = vn_alloc((size_t)n + 2, sizeof *runs->at[k]);
            runs->levels = k + 1;
            if (!runs->at[k]) st = vn_fail(err, VN_ERR_NOMEM, "no memory for an order of %d leaves", n);
        }
        if (st == VN_OK) st = run_nest(&p, n, seq, &got, seen, runs && alone ? runs : NULL, err);
        if (st == VN_OK && at < length && (text[at++] != ',' || at == length))
            st = vn_fail(err, VN_ERR_PARSE, "schedule's order, offset %zu: expected ',' and a further piece", at - 1);
    }
    if (st == VN_OK && got != n) st = vn_fail(err, VN_ERR_PARSE, "schedule's order gives %d of %d leaves", got, n);
    vn_free(seen);
    if (st != VN_OK && runs) vn_runs_clear(runs);
    return st;
}
