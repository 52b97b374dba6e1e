/* infer_parts.c -- integer vectors of which some elements are known: what shape computations make of them, element by element.
 *
 * Claim INFER-3.
 */
#include <string.h>

#include "oracle/infer.h"

/* ---- operators that move elements: the row moves the values, then the marks of what is known ---- */

typedef struct mover {
    const char *op;
    unsigned data; /* bit k: operand k holds elements; the others choose, and must be known */
} mover_t;

static const mover_t movers[] = {
    {"Concat", ~0u}, {"Expand", 1}, {"Flatten", 1}, {"Gather", 1}, {"Identity", 1},  {"Reshape", 1},
    {"Slice", 1},    {"Split", 1},  {"Squeeze", 1}, {"Tile", 1},   {"Unsqueeze", 1},
};

static bool moves_here(const mover_t *m, int k) { return m->data >> (k < 31 ? k : 31) & 1; }

/* Operand k as int64: its elements (1 where unknown), or 1 for known and 0 for unknown. */
static vn_status_t as_integers(const vn_infer_node_t *n, int k, bool marks, vn_tensor_t **out) {
    int64_t v[VN_INFER_PART];
    bool known[VN_INFER_PART];
    int count;
    *out = NULL;
    if (!vn_fact_ints(n->in[k], VN_INFER_PART, v, known, &count)) return VN_ERR_UNSUPPORTED;
    VN_TRY(vn_tensor_new(VN_I64, n->in[k]->v.rank, n->in[k]->v.dims, out, n->err));
    for (int i = 0; i < count; ++i) vn_tensor_set_i64(*out, i, marks ? known[i] : known[i] ? v[i] : 1);
    return VN_OK;
}

static vn_status_t run_mover(const vn_infer_node_t *n, const mover_t *m, bool marks, vn_ref_t *out) {
    const size_t ni = n->n_in ? (size_t)n->n_in : 1;
    vn_arg_t *args = vn_alloc(ni, sizeof *args);
    vn_tensor_t **made = vn_alloc(ni, sizeof *made);
    vn_error_t ignored;
    vn_status_t s = args && made ? VN_OK : vn_fail(n->err, VN_ERR_NOMEM, "node %s: no memory", n->node->path);
    for (int k = 0; k < n->n_in && s == VN_OK; ++k) {
        if (!n->in[k]) continue;
        if (moves_here(m, k)) {
            s = as_integers(n, k, marks, &made[k]);
            args[k].t = made[k];
        } else if (n->in[k]->v.value) {
            args[k].v = n->in[k]->v.value;
            args[k].t = n->in[k]->v.kind == VN_TYPE_TENSOR ? n->in[k]->v.value->tensor : NULL;
        } else {
            s = VN_ERR_UNSUPPORTED;
        }
    }
    if (s == VN_OK) s = vn_frame_node(&n->ctx->run, n->graph, n->node, args, NULL, out, &ignored);
    if (s == VN_ERR_NOMEM) vn_fail(n->err, s, "node %s: no memory", n->node->path);
    for (int k = 0; k < n->n_in; ++k) {
        if (args) vn_arg_clear(&args[k]);
        if (made) vn_tensor_free(made[k]);
    }
    vn_free(args);
    vn_free(made);
    return s;
}

static bool followed(const vn_fact_t *f) {
    return vn_fact_shaped(f) && f->v.rank <= 1 && (f->v.rank == 0 || f->v.dims[0] <= VN_INFER_PART) && !f->v.value && !f->part &&
           (vn_dtype_is_int(f->v.dtype) || f->v.dtype == VN_BOOL);
}

static vn_status_t set(vn_infer_node_t *n, int k, const int64_t *v, const bool *known, int count) {
    vn_fact_t *f = &n->out[k];
    const int64_t have = f->v.rank ? f->v.dims[0] : 1;
    return have == count ? vn_fact_set_part(f, v, known, count, n->err) : VN_OK;
}

static vn_status_t move(vn_infer_node_t *n, const mover_t *m) {
    const size_t no = n->n_out ? (size_t)n->n_out : 1;
    vn_ref_t *values = vn_alloc(no, sizeof *values), *marks = vn_alloc(no, sizeof *marks);
    vn_status_t s = values && marks ? VN_OK : vn_fail(n->err, VN_ERR_NOMEM, "node %s: no memory", n->node->path);
    if (s == VN_OK) s = run_mover(n, m, false, values);
    if (s == VN_OK) s = run_mover(n, m, true, marks);
    for (int k = 0; k < n->n_out && s == VN_OK; ++k) {
        int64_t v[VN_INFER_PART];
        bool known[VN_INFER_PART];
        const vn_tensor_t *a = values[k].tensor, *b = marks[k].tensor;
        if (!a || !b || a->count != b->count || a->count > VN_INFER_PART || !followed(&n->out[k])) continue;
        for (int64_t i = 0; i < a->count; ++i) {
            v[i] = vn_tensor_get_i64(a, i);
            known[i] = vn_tensor_get_i64(b, i) != 0 && !(values[k].flags && (values[k].flags[i] & VN_EL_VOID)); /* index out of range */
        }
        s = set(n, k, v, known, (int)a->count);
    }
    for (int k = 0; k < n->n_out; ++k) {
        if (values) vn_ref_free(&values[k]);
        if (marks) vn_ref_free(&marks[k]);
    }
    vn_free(values);
    vn_free(marks);
    return s == VN_ERR_NOMEM ? s : VN_OK; /* what the row refuses stays unknown here; the node itself was checked before */
}

/* ---- arithmetic ---- */

/* False: no result (overflow, division by zero). */
typedef bool (*pair_fn)(int64_t a, int64_t b, int64_t *y);

static bool add(int64_t a, int64_t b, int64_t *y) { return vn_i64_add(a, b, y); }
static bool sub(int64_t a, int64_t b, int64_t *y) { return b != INT64_MIN && vn_i64_add(a, -b, y); }
static bool mul(int64_t a, int64_t b, int64_t *y) { return vn_i64_mul(a, b, y); }
static bool quotient(int64_t a, int64_t b, int64_t *y) {
    if (b == 0 || (a == INT64_MIN && b == -1)) return false;
    *y = a / b;
    return true;
}
static bool larger(int64_t a, int64_t b, int64_t *y) { return *y = a > b ? a : b, true; }
static bool smaller(int64_t a, int64_t b, int64_t *y) { return *y = a < b ? a : b, true; }
static bool equal(int64_t a, int64_t b, int64_t *y) { return *y = a == b, true; }
static bool less(int64_t a, int64_t b, int64_t *y) { return *y = a < b, true; }
static bool less_equal(int64_t a, int64_t b, int64_t *y) { return *y = a <= b, true; }
static bool greater(int64_t a, int64_t b, int64_t *y) { return *y = a > b, true; }
static bool greater_equal(int64_t a, int64_t b, int64_t *y) { return *y = a >= b, true; }
static bool both(int64_t a, int64_t b, int64_t *y) { return *y = a && b, true; }
static bool any(int64_t a, int64_t b, int64_t *y) { return *y = a || b, true; }

static const struct {
    const char *op;
    pair_fn fn;
} pairs[] = {
    {"Add", add},         {"And", both},
    {"Div", quotient},    {"Equal", equal},
    {"Greater", greater}, {"GreaterOrEqual", greater_equal},
    {"Less", less},       {"LessOrEqual", less_equal},
    {"Max", larger},      {"Min", smaller},
    {"Mul", mul},         {"Or", any},
    {"Sub", sub},
};

/* A number that the output's type holds as it is; otherwise arithmetic wraps, and the element counts as unknown. */
static bool fits(vn_dtype_t t, int64_t x) {
    const int bits = vn_dtype_bits(t);
    if (t == VN_BOOL) return x == 0 || x == 1;
    if (vn_dtype_kind(t) == VN_KIND_UNSIGNED) return x >= 0 && (bits == 64 || x < (int64_t)1 << bits);
    return bits == 64 || (x >= -((int64_t)1 << (bits - 1)) && x < (int64_t)1 << (bits - 1));
}

typedef struct ints {
    int64_t v[VN_INFER_PART];
    bool known[VN_INFER_PART];
    int count;
} ints_t;

static bool read_ints(const vn_infer_node_t *n, int k, ints_t *out) {
    return vn_infer_has(n, k) && vn_fact_ints(n->in[k], VN_INFER_PART, out->v, out->known, &out->count);
}

static vn_status_t pair(vn_infer_node_t *n, pair_fn fn) {
    ints_t a, b, y = {.count = 0};
    if (n->n_in != 2 || !read_ints(n, 0, &a) || !read_ints(n, 1, &b)) return VN_OK;
    y.count = a.count == 1 ? b.count : a.count;
    if (b.count != 1 && b.count != y.count) return VN_OK;
    for (int i = 0; i < y.count; ++i) {
        const int ia = a.count == 1 ? 0 : i, ib = b.count == 1 ? 0 : i;
        y.known[i] = a.known[ia] && b.known[ib] && fn(a.v[ia], b.v[ib], &y.v[i]) && fits(n->out[0].v.dtype, y.v[i]);
    }
    return set(n, 0, y.v, y.known, y.count);
}

static vn_status_t choose(vn_infer_node_t *n) {
    ints_t c, a, b, y = {.count = 1};
    if (n->n_in != 3 || !read_ints(n, 0, &c) || !read_ints(n, 1, &a) || !read_ints(n, 2, &b)) return VN_OK;
    const int counts[3] = {c.count, a.count, b.count};
    for (int k = 0; k < 3; ++k) y.count = counts[k] == 1 ? y.count : counts[k];
    for (int k = 0; k < 3; ++k)
        if (counts[k] != 1 && counts[k] != y.count) return VN_OK;
    for (int i = 0; i < y.count; ++i) {
        const int ic = c.count == 1 ? 0 : i, ia = a.count == 1 ? 0 : i, ib = b.count == 1 ? 0 : i;
        const bool same = a.known[ia] && b.known[ib] && a.v[ia] == b.v[ib];
        y.known[i] = same || (c.known[ic] && (c.v[ic] ? a.known[ia] : b.known[ib]));
        y.v[i] = !y.known[i] ? 0 : same || c.v[ic] ? a.v[ia] : b.v[ib];
    }
    return set(n, 0, y.v, y.known, y.count);
}

static vn_status_t cast(vn_infer_node_t *n) {
    ints_t a;
    const vn_dtype_t t = n->out[0].v.dtype;
    if (!read_ints(n, 0, &a)) return VN_OK;
    for (int i = 0; i < a.count; ++i) {
        if (t == VN_BOOL) a.v[i] = a.v[i] != 0;
        a.known[i] = a.known[i] && fits(t, a.v[i]);
    }
    return set(n, 0, a.v, a.known, a.count);
}

vn_status_t vn_infer_parts(vn_infer_node_t *n) {
    bool some = false, open = false;
    for (int k = 0; k < n->n_in; ++k) some = some || (n->in[k] && (n->in[k]->part || n->in[k]->v.value));
    for (int k = 0; k < n->n_out; ++k) open = open || followed(&n->out[k]);
    if (!some || !open || *n->node->domain) return VN_OK;
    for (size_t i = 0; i < sizeof movers / sizeof *movers; ++i)
        if (strcmp(n->node->op, movers[i].op) == 0) return move(n, &movers[i]);
    if (!followed(&n->out[0])) return VN_OK;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i)
        if (strcmp(n->node->op, pairs[i].op) == 0) return pair(n, pairs[i].fn);
    if (strcmp(n->node->op, "Where") == 0) return choose(n);
    return strcmp(n->node->op, "Cast") == 0 ? cast(n) : VN_OK;
}
