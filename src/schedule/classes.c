/* classes.c -- output elements with equal answers share a tree. Every class is a union of row groups times column groups. */
#include <stdlib.h>
#include <string.h>

#include "schedule/reveal.h"

enum { MOST_CLASSES = 64 };

void vn_classes_clear(vn_classes_t *c) {
    vn_free(c->of);
    vn_free(c->row);
    vn_free(c->column);
    vn_free(c->cell);
    vn_free(c->elements);
    for (int k = 0; c->where && k < c->count; ++k) vn_free(c->where[k]);
    vn_free(c->where);
    *c = (vn_classes_t){0};
}

/* Numbers the distinct signatures in order of first element. */
static vn_status_t number(int64_t count, int signatures, double *const *sig, vn_classes_t *c, vn_error_t *err) {
    int64_t first[MOST_CLASSES];
    for (int64_t e = 0; e < count; ++e) {
        int k = e > 0 ? c->of[e - 1] : 0; /* neighbours are mostly alike */
        for (int tried = 0;; ++tried) {
            if (tried > c->count || c->count == 0) {
                if (c->count == MOST_CLASSES)
                    return vn_fail(err, VN_ERR_RANGE, "reveal: more than %d classes of output elements", MOST_CLASSES);
                first[k = c->count++] = e;
                break;
            }
            bool same = true;
            for (int s = 0; s < signatures && same; ++s) same = sig[s][e] == sig[s][first[k]];
            if (same) break;
            k = (k + 1) % c->count;
        }
        c->of[e] = k;
    }
    return VN_OK;
}

/* group[x] of n lines: lines with equal class numbers. stride: of the class map along and across. Returns how many groups. */
static int32_t group_lines(const int32_t *of, int32_t lines, int32_t length, int64_t line_stride, int64_t stride, int32_t *group,
                           int32_t *first) {
    int32_t groups = 0;
    for (int32_t x = 0; x < lines; ++x) {
        int32_t g = 0;
        for (; g < groups; ++g) {
            bool same = true;
            for (int32_t y = 0; y < length && same; ++y) same = of[x * line_stride + y * stride] == of[first[g] * line_stride + y * stride];
            if (same) break;
        }
        if (g == groups) first[groups++] = x;
        group[x] = g;
    }
    return groups;
}

/* "0-3,7" or "*" or "1+2%4" of the lines in a set. */
static void write_set(vn_text_t *t, const bool *in, int32_t n) {
    int32_t count = 0, first = -1, second = -1, last = -1;
    for (int32_t x = 0; x < n; ++x)
        if (in[x]) {
            if (first < 0) first = x;
            else if (second < 0) second = x;
            last = x;
            ++count;
        }
    if (count == n) {
        vn_text_add(t, "*");
        return;
    }
    const int32_t period = second - first;
    bool periodic = count > 2 && period > 1;
    for (int32_t x = first; x < n && periodic; ++x) periodic = in[x] == ((x - first) % period == 0 && x <= last);
    if (periodic) {
        vn_text_printf(t, "%d+1%%%d", first, period);
        if (last + period < n) vn_text_printf(t, "<%d", last + 1);
        return;
    }
    bool comma = false;
    for (int32_t x = 0; x < n; ++x) {
        if (!in[x]) continue;
        int32_t end = x;
        while (end + 1 < n && in[end + 1]) ++end;
        vn_text_printf(t, end > x ? "%s%d-%d" : "%s%d", comma ? "," : "", x, end);
        comma = true;
        x = end;
    }
}

typedef struct lines {
    int32_t groups, *group, *first;
} lines_t;

static void describe(const vn_classes_t *c, int k, int32_t m, int32_t n, const lines_t *rows, const lines_t *columns, bool *in,
                     vn_text_t *t) {
    for (int32_t g = 0; g < rows->groups; ++g) { /* row groups with the same columns are told together: the first of them speaks */
        bool any = false, earlier = false;
        for (int32_t y = 0; y < n; ++y) any |= c->of[(int64_t)rows->first[g] * n + y] == k;
        for (int32_t h = 0; h < g && any; ++h) {
            bool same = true;
            for (int32_t y = 0; y < n && same; ++y)
                same = (c->of[(int64_t)rows->first[h] * n + y] == k) == (c->of[(int64_t)rows->first[g] * n + y] == k);
            earlier |= same;
        }
        if (!any || earlier) continue;
        if (t->length) vn_text_add(t, "; ");
        vn_text_add(t, "r");
        for (int32_t x = 0; x < m; ++x) {
            bool same = true;
            for (int32_t y = 0; y < columns->groups && same; ++y) {
                const int32_t at = columns->first[y];
                same = (c->of[(int64_t)x * n + at] == k) == (c->of[(int64_t)rows->first[g] * n + at] == k);
            }
            in[x] = same;
        }
        write_set(t, in, m);
        vn_text_add(t, " c");
        for (int32_t y = 0; y < n; ++y) in[y] = c->of[(int64_t)rows->first[g] * n + y] == k;
        write_set(t, in, n);
    }
}

/* The largest block of class k: all rows of one row group times the columns of the groups that are of the class there. */
static void largest_cell(vn_classes_t *c, int k, int32_t m, int32_t n, const lines_t *rows, int32_t *row, int32_t *column) {
    int64_t best = 0;
    int32_t pick = -1;
    for (int32_t g = 0; g < rows->groups; ++g) {
        int64_t r = 0, y = 0;
        for (int32_t x = 0; x < m; ++x) r += rows->group[x] == g;
        for (int32_t x = 0; x < n; ++x) y += c->of[(int64_t)rows->first[g] * n + x] == k;
        if (r * y > best) {
            best = r * y;
            pick = g;
        }
    }
    vn_cell_t *cell = &c->cell[k];
    *cell = (vn_cell_t){.row = row, .column = column};
    for (int32_t x = 0; x < m; ++x)
        if (rows->group[x] == pick) row[cell->rows++] = x;
    for (int32_t y = 0; y < n; ++y)
        if (c->of[(int64_t)rows->first[pick] * n + y] == k) column[cell->columns++] = y;
}

static vn_status_t arrange(vn_classes_t *c, int32_t m, int32_t n, lines_t *rows, lines_t *columns, bool *in, vn_error_t *err) {
    rows->groups = group_lines(c->of, m, n, n, 1, rows->group, rows->first);
    columns->groups = group_lines(c->of, n, m, 1, n, columns->group, columns->first);
    c->row = vn_alloc((size_t)c->count * (size_t)m + 1, sizeof *c->row);
    c->column = vn_alloc((size_t)c->count * (size_t)n + 1, sizeof *c->column);
    c->cell = vn_alloc((size_t)c->count, sizeof *c->cell);
    c->elements = vn_alloc((size_t)c->count, sizeof *c->elements);
    c->where = vn_alloc((size_t)c->count, sizeof *c->where);
    if (!c->row || !c->column || !c->cell || !c->elements || !c->where)
        return vn_fail(err, VN_ERR_NOMEM, "no memory for %d classes", c->count);
    for (int64_t e = 0; e < (int64_t)m * n; ++e) c->elements[c->of[e]]++;
    for (int k = 0; k < c->count; ++k) {
        vn_text_t t = {0};
        largest_cell(c, k, m, n, rows, c->row + (int64_t)k * m, c->column + (int64_t)k * n);
        if (c->count == 1) vn_text_add(&t, "*");
        else describe(c, k, m, n, rows, columns, in, &t);
        if (t.failed || !(c->where[k] = vn_strdup(t.data))) {
            vn_text_free(&t);
            return vn_fail(err, VN_ERR_NOMEM, "no memory for %d classes", c->count);
        }
        vn_text_free(&t);
    }
    return VN_OK;
}

vn_status_t vn_classes_of(int32_t m, int32_t n, int signatures, double *const *sig, vn_classes_t *out, vn_error_t *err) {
    const size_t most = (size_t)(m > n ? m : n) + 1;
    lines_t rows = {.group = vn_alloc(most, sizeof(int32_t)), .first = vn_alloc(most, sizeof(int32_t))};
    lines_t columns = {.group = vn_alloc(most, sizeof(int32_t)), .first = vn_alloc(most, sizeof(int32_t))};
    bool *in = vn_alloc(most, sizeof *in);
    *out = (vn_classes_t){.of = vn_alloc((size_t)m * (size_t)n, sizeof *out->of)};
    vn_status_t st = out->of && rows.group && rows.first && columns.group && columns.first && in
                         ? VN_OK
                         : vn_fail(err, VN_ERR_NOMEM, "no memory for classes");
    if (st == VN_OK) st = number((int64_t)m * n, signatures, sig, out, err);
    if (st == VN_OK) st = arrange(out, m, n, &rows, &columns, in, err);
    vn_free(rows.group);
    vn_free(rows.first);
    vn_free(columns.group);
    vn_free(columns.first);
    vn_free(in);
    if (st != VN_OK) vn_classes_clear(out);
    return st;
}
