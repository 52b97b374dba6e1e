/* structural.c -- faults of coverage, place and scale: what a kernel with a wrong index, bound or stride leaves of a right result. */
#include <math.h>
#include <string.h>

#include "mutant.h"

/* Elements as units of bytes: rows of columns, the last axis being the columns. */
typedef struct grid {
    int64_t rows, columns, count;
    size_t unit;
    unsigned char *to;
    const unsigned char *from;
} grid_t;

static void move(const grid_t *g, int64_t to, int64_t from) {
    memcpy(g->to + (size_t)to * g->unit, g->from + (size_t)from * g->unit, g->unit);
}
static void blank(const grid_t *g, int64_t i) { memset(g->to + (size_t)i * g->unit, 0, g->unit); }

static bool tail_unwritten(call_t *c, const grid_t *g) {
    const int64_t n = (int64_t)fault_number(c, (double)((g->columns + 9) / 10));
    if (n < 1 || n >= g->columns) return false;
    for (int64_t i = 0; i < g->count; ++i)
        if (i % g->columns >= g->columns - n) blank(g, i);
    return true;
}

static bool lane_unwritten(call_t *c, const grid_t *g) {
    const int64_t period = (int64_t)fault_number(c, 4);
    if (period < 2 || g->columns < period) return false;
    for (int64_t i = 0; i < g->count; ++i)
        if (i % g->columns % period == period - 1) blank(g, i);
    return true;
}

static bool row_wrong(call_t *c, const grid_t *g) {
    const int64_t row = (int64_t)fault_number(c, (double)(g->rows / 2));
    if (row < 1 || row >= g->rows) return false;
    for (int64_t i = 0; i < g->columns; ++i) move(g, row * g->columns + i, (row - 1) * g->columns + i);
    return true;
}

static bool permuted(call_t *c, const grid_t *g) {
    (void)c;
    for (int64_t i = 0; i < g->count; ++i) {
        const int64_t column = i % g->columns;
        if (column / 4 * 4 + 4 <= g->columns && column % 4 == 1) move(g, i, i + 1), move(g, i + 1, i);
    }
    return g->columns >= 4;
}

/* Written by columns, read by rows. */
static bool transposed(call_t *c, const grid_t *g) {
    const vn_tensor_t *t = c->out[0];
    if (t->rank < 2) return false;
    const int64_t m = t->dims[t->rank - 2], n = t->dims[t->rank - 1];
    for (int64_t i = 0; i < g->count; ++i) {
        const int64_t at = i % (m * n), base = i - at;
        move(g, base + at % n * m + at / n, i);
    }
    return m > 1 && n > 1;
}

/* A block in the middle holds what lay there before: the beginning of the first operand, or of an older result. */
static bool stale(call_t *c, const grid_t *g) {
    const vn_tensor_t *old = given(c, 0) && c->in[0]->dtype == c->out[0]->dtype ? c->in[0] : c->out[0];
    int64_t n = g->count < 64 ? (g->count + 3) / 4 : 16;
    const int64_t at = g->count / 2;
    if (n > g->count - at) n = g->count - at;
    if (n > old->count) n = old->count;
    memcpy(g->to + (size_t)at * g->unit, old->data, (size_t)n * g->unit);
    return true;
}

static bool zeros(call_t *c, const grid_t *g) {
    for (int64_t i = c->fault->value[0] ? 0 : g->count / 2; i < g->count; ++i) blank(g, i);
    return true;
}

/* Every run loses the block of another writer. */
static bool race(call_t *c, const grid_t *g) {
    const int64_t blocks = 4, size = (g->count + blocks - 1) / blocks, lost = c->turn % blocks;
    for (int64_t i = lost * size; i < g->count && i < (lost + 1) * size; ++i) blank(g, i);
    return g->count >= blocks;
}

static const struct {
    fault_id_t id;
    bool (*apply)(call_t *c, const grid_t *g);
} movers[] = {
    {F_TAIL_UNWRITTEN, tail_unwritten},
    {F_LANE_UNWRITTEN, lane_unwritten},
    {F_ROW_WRONG, row_wrong},
    {F_PERMUTED, permuted},
    {F_TRANSPOSED, transposed},
    {F_STALE, stale},
    {F_ZEROS, zeros},
    {F_RACE, race},
};

/* Faults that change numbers: x becomes the result's new element. */
static bool change_number(call_t *c, double *x, int64_t n) {
    int64_t largest = 0;
    for (int64_t i = 1; i < n; ++i)
        if (fabs(x[i]) > fabs(x[largest])) largest = i;
    const double factor = fault_number(c, 2);
    switch (c->fault->row->id) {
    case F_CONSTANT_RATIO:
        for (int64_t i = 0; i < n; ++i) x[i] *= factor;
        return true;
    case F_SIGN_FLIPPED:
        for (int64_t i = 0; i < n; ++i) x[i] = -x[i];
        return true;
    case F_SIGN_LOST:
        for (int64_t i = 0; i < n; ++i) x[i] = fabs(x[i]);
        return true;
    case F_NAN_PRODUCED: x[largest] = NAN; return true;
    case F_INF_PRODUCED: x[largest] = copysign(INFINITY, x[largest]); return true;
    default: return false;
    }
}

static bool change_numbers(call_t *c, vn_tensor_t *t) {
    const fault_id_t id = c->fault->row->id;
    const vn_kind_t kind = vn_dtype_kind(t->dtype);
    const bool ints = vn_dtype_is_int(t->dtype) && id == F_CONSTANT_RATIO;
    if (t->count == 0 || (kind != VN_KIND_FLOAT && !ints && !(kind == VN_KIND_SIGNED && (id == F_SIGN_FLIPPED || id == F_SIGN_LOST))))
        return false;
    double *x = room_for(c, t->count);
    if (!x) return false;
    vn_tensor_to_f64(t, x);
    const bool done = change_number(c, x, t->count);
    for (int64_t i = 0; done && i < t->count; ++i) vn_tensor_set_f64(t, i, x[i]);
    vn_free(x);
    return done;
}

vn_status_t structural(call_t *c, const vn_tensor_t *clean, vn_tensor_t **out) {
    *out = NULL;
    const int bits = vn_dtype_bits(clean->dtype);
    if (bits < 8 || clean->count == 0 || clean->rank == 0) return VN_OK;
    VN_TRY(vn_tensor_copy(clean, out, c->err));
    const int64_t columns = clean->dims[clean->rank - 1];
    const grid_t g = {clean->count / columns, columns, clean->count, (size_t)bits / 8, (*out)->data, clean->data};
    bool done = false, moves = false;
    for (size_t i = 0; i < sizeof movers / sizeof *movers; ++i)
        if (movers[i].id == c->fault->row->id) moves = true, done = movers[i].apply(c, &g);
    if (!moves) done = change_numbers(c, *out);
    if (!done) {
        vn_tensor_free(*out);
        *out = NULL;
    }
    return VN_OK;
}
