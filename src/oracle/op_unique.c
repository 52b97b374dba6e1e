/* op_unique.c -- NonZero and Unique: results whose size the data decide.
 *
 * Claim MOVE-10: both are exact. Unique orders numbers by value, strings by their bytes, complex numbers by real then imaginary part,
 * subtensors element by element; the first occurrence stands for its group. NaN equals NaN and comes last; the reading "nan-distinct"
 * keeps every NaN (the text says neither).
 */
#include <stdlib.h>
#include <string.h>

#include "oracle/move.h"

/* ---- NonZero ---- */

static bool is_zero(const vn_tensor_t *t, int64_t i) {
    if (t->dtype == VN_STRING) return ((const vn_string_t *)t->data)[i].length == 0;
    if (t->dtype == VN_C64) {
        const float *c = (const float *)t->data + 2 * i;
        return c[0] == 0 && c[1] == 0;
    }
    if (t->dtype == VN_C128) {
        const double *c = (const double *)t->data + 2 * i;
        return c[0] == 0 && c[1] == 0;
    }
    if (vn_dtype_is_float(t->dtype)) return vn_tensor_get_f64(t, i) == 0;
    return vn_tensor_get_i64(t, i) == 0;
}

vn_status_t vn_move_non_zero(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *t = e->in[0].t;
    int64_t n = 0, c[VN_MAX_RANK] = {0};
    for (int64_t i = 0; i < t->count; ++i) n += !is_zero(t, i);
    VN_TRY(vn_out_exact(e, 0, VN_I64, 2, (int64_t[]){t->rank, n}));
    int64_t *out = e->out[0].tensor->data, at = 0;
    for (int64_t i = 0; i < t->count && t->rank; ++i) {
        if (!is_zero(t, i)) {
            for (int k = 0; k < t->rank; ++k) out[k * n + at] = c[k];
            ++at;
        }
        for (int k = t->rank - 1; k >= 0 && ++c[k] == t->dims[k]; --k) c[k] = 0;
    }
    return VN_OK;
}

/* ---- Unique ---- */

/* `rows` rows; element (o, i) of row j is at (o * rows + j) * inner + i. Keys: `width` a element; strings: text instead. */
typedef struct table {
    int64_t rows, outer, inner;
    int width;
    const uint64_t *key;
    const vn_string_t *text;
    bool is_float, distinct; /* distinct: NaN differs from every NaN */
} table_t;

static int compare_rows(const table_t *t, int64_t a, int64_t b) {
    for (int64_t o = 0; o < t->outer; ++o)
        for (int64_t i = 0; i < t->inner; ++i) {
            const int64_t x = (o * t->rows + a) * t->inner + i, y = (o * t->rows + b) * t->inner + i;
            if (t->text) {
                const vn_string_t *p = &t->text[x], *q = &t->text[y];
                const size_t n = p->length < q->length ? p->length : q->length;
                const int c = n ? memcmp(p->text, q->text, n) : 0;
                if (c) return c;
                if (p->length != q->length) return p->length < q->length ? -1 : 1;
                continue;
            }
            for (int w = 0; w < t->width; ++w) {
                const uint64_t p = t->key[x * t->width + w], q = t->key[y * t->width + w];
                if (p != q) return p < q ? -1 : 1;
                if (t->distinct && t->is_float && p == VN_KEY_NAN) return a < b ? -1 : a > b;
            }
        }
    return 0;
}

static int by_row(const void *a, const void *b, void *ctx) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    const int c = compare_rows(ctx, x, y);
    return c ? c : x < y ? -1 : x > y;
}

static int by_number(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

typedef struct groups {
    int64_t n;
    int64_t *first, *count, *inverse; /* rows entries each; first and count: n are used */
} groups_t;

static void groups_free(groups_t *g) {
    vn_free(g->first);
    vn_free(g->count);
    vn_free(g->inverse);
}

static vn_status_t group_rows(vn_eval_t *e, const table_t *t, bool sorted, groups_t *g) {
    const size_t n = (size_t)(t->rows ? t->rows : 1);
    *g = (groups_t){.first = vn_alloc(n, 8), .count = vn_alloc(n, 8), .inverse = vn_alloc(n, 8)};
    int64_t *order = vn_alloc(n, 8), *rank = vn_alloc(n, 8); /* rank: group by first row -> place in the result */
    vn_status_t s =
        g->first && g->count && g->inverse && order && rank ? VN_OK : vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %zu rows", n);
    if (s == VN_OK) {
        for (int64_t i = 0; i < t->rows; ++i) order[i] = i;
        qsort_r(order, (size_t)t->rows, sizeof *order, by_row, (void *)(uintptr_t)t);
        for (int64_t i = 0, head = -1; i < t->rows; ++i) { /* equal rows are neighbours, the earliest first */
            if (head < 0 || compare_rows(t, head, order[i]) != 0) {
                head = order[i];
                g->first[g->n++] = head;
            }
            g->inverse[order[i]] = head;
        }
        if (!sorted) qsort(g->first, (size_t)g->n, sizeof *g->first, by_number);
        for (int64_t i = 0; i < g->n; ++i) rank[g->first[i]] = i;
        for (int64_t i = 0; i < t->rows; ++i) {
            g->inverse[i] = rank[g->inverse[i]];
            ++g->count[g->inverse[i]];
        }
    }
    vn_free(order);
    vn_free(rank);
    return s;
}

static vn_status_t int_list(vn_eval_t *e, int64_t n, const int64_t *v, vn_tensor_t **out) {
    VN_TRY(vn_tensor_new(VN_I64, 1, &n, out, e->err));
    if (n) memcpy((*out)->data, v, (size_t)n * sizeof *v);
    return VN_OK;
}

/* All four results of one grouping. axis < 0: of the flattened operand. */
static vn_status_t results(vn_eval_t *e, const table_t *t, const groups_t *g, int axis, vn_tensor_t *out[4]) {
    const vn_tensor_t *x = e->in[0].t;
    vn_shape_t shape = axis < 0 ? (vn_shape_t){.rank = 1} : vn_shape_of(x);
    vn_tensor_t *plain, *all;
    shape.d[axis < 0 ? 0 : axis] = g->n;
    VN_TRY(vn_plain_from(e, x, &plain));
    vn_status_t s = vn_plain_new(e, x->dtype, &shape, &all);
    if (s == VN_OK && all->count) {
        const size_t run = (size_t)t->inner * vn_plain_size(plain);
        for (int64_t o = 0; o < t->outer; ++o)
            for (int64_t i = 0; i < g->n; ++i)
                memcpy((char *)all->data + (size_t)(o * g->n + i) * run,
                       (const char *)plain->data + (size_t)(o * t->rows + g->first[i]) * run, run);
    }
    if (s == VN_OK) s = vn_plain_seal(e, x->dtype, all, &out[0]);
    if (s == VN_OK) s = int_list(e, g->n, g->first, &out[1]);
    if (s == VN_OK) s = int_list(e, t->rows, g->inverse, &out[2]);
    if (s == VN_OK) s = int_list(e, g->n, g->count, &out[3]);
    vn_tensor_free(plain);
    return s;
}

/* Keys of complex numbers: real and imaginary part. */
static vn_status_t complex_keys(vn_eval_t *e, uint64_t **out) {
    const vn_tensor_t *t = e->in[0].t;
    const int64_t n = 2 * t->count;
    vn_tensor_t *parts;
    *out = NULL;
    VN_TRY(vn_tensor_wrap(t->dtype == VN_C64 ? VN_F32 : VN_F64, 1, &n, t->data, (size_t)n * (t->dtype == VN_C64 ? 4 : 8), NULL, NULL,
                          &parts, e->err));
    vn_arg_t arg = {.t = parts};
    vn_eval_t sub = *e;
    sub.in = &arg;
    sub.n_in = 1;
    vn_status_t s = vn_move_keys(&sub, 0, out);
    if (arg.owned) vn_free(arg.value);
    vn_tensor_free(parts);
    return s;
}

static vn_status_t give(vn_eval_t *e, table_t *t, int axis, bool reading) {
    vn_tensor_t *out[4] = {NULL};
    groups_t g;
    vn_status_t s = group_rows(e, t, vn_node_int(e->node, "sorted", 1) != 0, &g);
    if (s == VN_OK) s = results(e, t, &g, axis, out);
    for (int k = 0; k < 4 && s == VN_OK; ++k) {
        if (!vn_move_wanted(e, k)) continue;
        s = reading ? vn_out_reading(e, k, "nan-distinct", out[k]) : vn_out_tensor(e, k, out[k]);
        out[k] = NULL;
    }
    for (int k = 0; k < 4; ++k) vn_tensor_free(out[k]);
    groups_free(&g);
    return s;
}

vn_status_t vn_move_unique(vn_eval_t *e) {
    VN_TRY(vn_move_need(e, 0));
    const vn_tensor_t *x = e->in[0].t;
    const vn_attr_t *attr = vn_node_attr(e->node, "axis");
    table_t t = {.rows = x->count, .outer = 1, .inner = 1, .width = 1, .is_float = vn_dtype_is_float(x->dtype)};
    int axis = -1;
    if (attr) {
        VN_TRY(vn_eval_axis(e, attr->i, x->rank, &axis));
        t.rows = x->dims[axis];
        t.outer = vn_shape_product(x->dims, 0, axis);
        t.inner = vn_shape_product(x->dims, axis + 1, x->rank);
    }
    uint64_t *key = NULL;
    if (x->dtype == VN_STRING) {
        t.text = x->data;
    } else if (vn_dtype_kind(x->dtype) == VN_KIND_COMPLEX) {
        VN_TRY(complex_keys(e, &key));
        t.width = 2;
        t.is_float = true;
    } else {
        VN_TRY(vn_move_keys(e, 0, &key));
    }
    t.key = key;
    vn_status_t s = give(e, &t, axis, false);
    bool nan = false;
    for (int64_t i = 0; i < x->count * t.width && t.is_float; ++i) nan |= key[i] == VN_KEY_NAN;
    if (s == VN_OK && nan) {
        t.distinct = true;
        s = give(e, &t, axis, true);
    }
    vn_free(key);
    return s;
}
