/* gemm.c -- operands of a product's questions, and the leaf counts read off its results (docs/schedules.md, Reveal). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/reveal.h"

/* Claim REVEAL-1: M + k e rounds to M for every k that may be counted: k e is at most a quarter of an ulp of M in the accumulator. */
vn_readout_t vn_readout_of(vn_dtype_t t) {
    switch (t) {
    case VN_F64: return (vn_readout_t){.mask = 0x1p120, .unit = 1, .most = INT32_MAX};
    case VN_BF16: return (vn_readout_t){.mask = 0x1p60, .unit = 1, .filler = 0x1p-40, .most = 254}; /* 8 bits of the output count to 256 */
    case VN_F16: return (vn_readout_t){.mask = 0x1.8p15, .unit = 0x1p-14, .most = 16, .one_side = true};
    default: return (vn_readout_t){.mask = 0x1p60, .unit = 1, .most = INT32_MAX};
    }
}

/* Values of one operand. f32, not transposed, one batch: written in place, so that a call copies nothing. Weights of a model are new tensors each
 * time: whoever runs the model keeps them, to see whether they changed. */
static vn_status_t operand(vn_gemm_t *p, int side, bool transposed, float **at, int64_t rows, int64_t columns, vn_error_t *err) {
    const int64_t dims[2] = {rows, columns};
    if (p->r->op->dtype == VN_F32 && !transposed && p->r->op->batch <= 1 && !(p->r->call->constant >> side & 1)) {
        VN_TRY(vn_tensor_new(VN_F32, 2, dims, &p->own[side], err));
        *at = p->own[side]->data;
        return VN_OK;
    }
    *at = vn_alloc((size_t)rows * (size_t)columns, sizeof **at);
    return *at ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for an operand of %lldx%lld", (long long)rows, (long long)columns);
}

vn_status_t vn_gemm_begin(vn_gemm_t *p, vn_reveal_run_t *r, vn_error_t *err) {
    const vn_sum_op_t *op = r->op;
    const size_t m = (size_t)op->m, k = (size_t)op->k, n = (size_t)op->n;
    *p = (vn_gemm_t){.r = r, .m = (int32_t)op->m, .k = (int32_t)op->k, .n = (int32_t)op->n, .readout = vn_readout_of(op->dtype)};
    if (r->call->constant & 2) p->readout.one_side = true; /* questions that leave b as it is */
    const bool wide = op->dtype == VN_F64;
    VN_TRY(operand(p, 0, op->transpose_a, &p->a, (int64_t)m, (int64_t)k, err));
    vn_status_t st = operand(p, 1, op->transpose_b, &p->b, (int64_t)k, (int64_t)n, err);
    p->c = op->addend ? vn_alloc(m * n, sizeof *p->c) : NULL;
    p->out = vn_alloc(m * n * (size_t)(op->batch > 1 ? op->batch : 1), sizeof *p->out);
    if (wide) {
        p->low_a = vn_alloc(m * k, sizeof *p->low_a);
        p->low_b = vn_alloc(k * n, sizeof *p->low_b);
    }
    if (st == VN_OK && p->out && (p->c || !op->addend) && (!wide || (p->low_a && p->low_b))) return VN_OK;
    vn_gemm_end(p);
    return st != VN_OK ? st
                       : vn_fail(err, VN_ERR_NOMEM, "no memory for a product of %lldx%lldx%lld", (long long)op->m, (long long)op->k,
                                 (long long)op->n);
}

void vn_gemm_end(vn_gemm_t *p) {
    if (!p->own[0]) vn_free(p->a);
    if (!p->own[1]) vn_free(p->b);
    vn_tensor_free(p->own[0]);
    vn_tensor_free(p->own[1]);
    vn_free(p->c);
    vn_free(p->low_a);
    vn_free(p->low_b);
    vn_free(p->out);
    *p = (vn_gemm_t){.r = p->r};
}

static void clear_low(vn_gemm_t *p) {
    if (p->low_a) memset(p->low_a, 0, (size_t)p->m * (size_t)p->k * sizeof *p->low_a);
    if (p->low_b) memset(p->low_b, 0, (size_t)p->k * (size_t)p->n * sizeof *p->low_b);
}

void vn_gemm_fill(vn_gemm_t *p, float a, float b) {
    for (int64_t e = 0; e < (int64_t)p->m * p->k; ++e) p->a[e] = a;
    for (int64_t e = 0; e < (int64_t)p->k * p->n; ++e) p->b[e] = b;
    if (p->c) memset(p->c, 0, (size_t)p->m * (size_t)p->n * sizeof *p->c);
    clear_low(p);
}

void vn_gemm_settle(vn_gemm_t *p, bool powers) {
    const vn_sum_op_t *op = p->r->op;
    const int half = op->bits ? 1 << (op->bits - 1) : 0;
    if (!op->block) return;
    for (int32_t c = 0; c < p->n; ++c)
        for (int64_t from = 0; from < p->k; from += op->block) {
            const int64_t end = from + op->block < p->k ? from + op->block : p->k;
            const int64_t once = from + (int64_t)vn_rng_below(&p->r->rng, (uint64_t)(end - from));
            float scale = fabsf(p->b[from * p->n + c]);
            if (scale == 0) scale = 1;
            if (powers) scale = ldexpf(1, ilogbf(scale));
            for (int64_t k = from; k < end; ++k) {
                int code = (int)vn_rng_below(&p->r->rng, 2 * (uint64_t)half) - half;
                if (k == once) code = code < 0 ? -1 : 1;
                p->b[k * p->n + c] = (float)code * scale;
            }
        }
}

/* Values of one operand as a tensor: `batch` copies, stored transposed if the operator wants it so. */
static vn_status_t tensor_of(vn_dtype_t t, const float *v, const float *low, int64_t rows, int64_t columns, int64_t batch, bool transposed,
                             int rank, vn_tensor_t **out, vn_error_t *err) {
    const int64_t dims[3] = {batch, transposed ? columns : rows, transposed ? rows : columns};
    VN_TRY(vn_tensor_new(t, rank, rank == 3 ? dims : rank == 2 ? dims + 1 : &columns, out, err));
    const int64_t count = rows * columns;
    double *wide = t == VN_F32 && !transposed ? NULL : vn_alloc((size_t)count, sizeof *wide);
    if (!wide && !(t == VN_F32 && !transposed)) {
        vn_tensor_free(*out);
        *out = NULL;
        return vn_fail(err, VN_ERR_NOMEM, "no memory for an operand");
    }
    if (!wide) {
        for (int64_t k = 0; k < batch; ++k) memcpy((float *)(*out)->data + k * count, v, (size_t)count * sizeof *v);
        return VN_OK;
    }
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
            wide[transposed ? c * rows + r : r * columns + c] =
                low && low[r * columns + c] != 0 ? (double)v[r * columns + c] + low[r * columns + c] : v[r * columns + c];
    vn_tensor_t *whole = *out;
    if (batch == 1) {
        vn_tensor_from_f64(whole, wide, VN_RNE, false);
    } else {
        for (int64_t k = 0; k < batch; ++k)
            for (int64_t e = 0; e < count; ++e) vn_tensor_set_f64(whole, k * count + e, wide[e]);
    }
    vn_free(wide);
    return VN_OK;
}

/* One call on a, b, c: the result as it came. */
static vn_status_t call(vn_gemm_t *p, vn_tensor_t **out, vn_error_t *err) {
    const vn_sum_op_t *op = p->r->op;
    const int64_t batch = op->batch > 1 ? op->batch : 1, count = (int64_t)p->m * p->n;
    const int rank = batch > 1 ? 3 : 2;
    vn_tensor_t *in[3] = {0};
    vn_status_t st = VN_OK;
    if (p->own[0]) in[0] = vn_tensor_retain(p->own[0]);
    else st = tensor_of(op->dtype, p->a, p->low_a, p->m, p->k, batch, op->transpose_a, rank, &in[0], err);
    if (p->own[1]) in[1] = vn_tensor_retain(p->own[1]);
    else if (st == VN_OK) st = tensor_of(op->dtype, p->b, p->low_b, p->k, p->n, batch, op->transpose_b, rank, &in[1], err);
    if (st == VN_OK && op->addend)
        st = tensor_of(op->dtype, p->c, NULL, op->addend_rows > 1 ? p->m : 1, p->n, 1, false, op->addend_rows > 1 ? 2 : 1, &in[2], err);
    if (st == VN_OK) st = vn_reveal_output(p->r, (const vn_tensor_t *const *)in, batch * count, out, err);
    for (int k = 0; k < 3; ++k) vn_tensor_free(in[k]);
    return st;
}

vn_status_t vn_gemm_run(vn_gemm_t *p, vn_error_t *err) {
    const int64_t batch = p->r->op->batch > 1 ? p->r->op->batch : 1, count = (int64_t)p->m * p->n;
    vn_tensor_t *out = NULL;
    VN_TRY(call(p, &out, err));
    vn_tensor_to_f64(out, p->out);
    vn_tensor_free(out);
    for (int64_t b = 1; b < batch && !p->batches_differ; ++b)
        p->batches_differ = memcmp(p->out, p->out + b * count, (size_t)count * sizeof *p->out) != 0;
    return VN_OK;
}

vn_status_t vn_gemm_run_few(vn_gemm_t *p, int32_t n, const int64_t *element, double *value, vn_error_t *err) {
    vn_tensor_t *out = NULL;
    if (p->r->op->batch > 1) {
        VN_TRY(vn_gemm_run(p, err));
        for (int32_t k = 0; k < n; ++k) value[k] = p->out[element[k]];
        return VN_OK;
    }
    VN_TRY(call(p, &out, err));
    for (int32_t k = 0; k < n; ++k) value[k] = vn_tensor_get_f64(out, element[k]);
    vn_tensor_free(out);
    return VN_OK;
}

/* ---- questions ---- */

/* Which leaves are counted in a call: [from, to) of the leaves, the others get the filler (or 0, where masks share a side). */
typedef struct part {
    int32_t from, to;
} part_t;
static int32_t part_size(const vn_gemm_t *p) { return p->readout.most < p->k ? p->readout.most : p->k; }
static int32_t parts_of(const vn_gemm_t *p) { return (p->k + part_size(p) - 1) / part_size(p); }
static part_t part_at(const vn_gemm_t *p, int32_t at) {
    const int32_t size = part_size(p), from = at * size;
    return (part_t){from, p->k - from < size ? p->k : from + size};
}
static bool counted(part_t c, int32_t leaf) { return leaf >= c.from && leaf < c.to; }

static float base_value(const vn_gemm_t *p, part_t c, int32_t leaf) {
    return (float)(counted(c, leaf) ? p->readout.unit : p->readout.filler);
}
/* The partner's mask in b: the product with a's value at that leaf must be the mask. */
static float partner_mask(const vn_gemm_t *p, part_t c, int32_t leaf) {
    return (float)(-p->readout.mask / (counted(c, leaf) ? 1 : p->readout.filler));
}

static void fill_units(vn_gemm_t *p, part_t c) {
    for (int32_t k = 0; k < p->k; ++k) p->a[k] = base_value(p, c, k);
    for (int32_t r = 1; r < p->m; ++r) memcpy(p->a + (int64_t)r * p->k, p->a, (size_t)p->k * sizeof *p->a);
    for (int64_t e = 0; e < (int64_t)p->k * p->n; ++e) p->b[e] = 1;
    if (p->c) memset(p->c, 0, (size_t)p->m * (size_t)p->n * sizeof *p->c);
    clear_low(p);
}

/* Units in a result. Fillers add up to less than a thousandth of one: 2^20 terms of 2^-40. */
static double units(const vn_gemm_t *p, double out) {
    const double value = out / p->readout.unit, m = p->readout.modulo;
    const double x = p->readout.filler > 0 && fabs(value - rint(value)) < 0x1p-10 ? rint(value) : value;
    return m > 0 ? x - m * floor(x / m) : x;
}

/* The result is the number of units itself. */
static bool plain_units(const vn_gemm_t *p) { return p->readout.unit == 1 && p->readout.filler == 0 && p->readout.modulo == 0; }

vn_status_t vn_gemm_signature(vn_gemm_t *p, int32_t i, int32_t j, double *l, vn_error_t *err) {
    const int64_t count = (int64_t)p->m * p->n;
    const bool at_once = plain_units(p) && parts_of(p) == 1;
    for (int64_t e = 0; !at_once && e < count; ++e) l[e] = p->k;
    for (int32_t at = 0; at < parts_of(p); ++at) {
        const part_t c = part_at(p, at);
        fill_units(p, c);
        for (int32_t r = 0; r < p->m; ++r) {
            p->a[(int64_t)r * p->k + i] = (float)p->readout.mask;
            if (p->readout.one_side) p->a[(int64_t)r * p->k + j] = (float)-p->readout.mask;
        }
        if (!p->readout.one_side)
            for (int32_t q = 0; q < p->n; ++q) p->b[(int64_t)j * p->n + q] = partner_mask(p, c, j);
        VN_TRY(vn_gemm_run(p, err));
        if (at_once)
            for (int64_t e = 0; e < count; ++e) l[e] = p->k - p->out[e];
        else
            for (int64_t e = 0; e < count; ++e) l[e] -= units(p, p->out[e]);
    }
    return VN_OK;
}

/* Units of a call whose questions lie on lines: in a's rows, or in b's columns. */
static void fill_lines(vn_gemm_t *p, bool by_row, part_t c) {
    fill_units(p, c);
    if (by_row) return;
    for (int64_t e = 0; e < (int64_t)p->m * p->k; ++e) p->a[e] = 1;
    for (int32_t k = 0; k < p->k; ++k)
        for (int32_t y = 0; y < p->n; ++y) p->b[(int64_t)k * p->n + y] = base_value(p, c, k);
}
static float *line_at(const vn_asker_t *q, bool by_row, int32_t x, int32_t leaf) {
    return by_row ? &q->p->a[(int64_t)q->cell.row[x] * q->p->k + leaf] : &q->p->b[(int64_t)leaf * q->p->n + q->cell.column[x]];
}
static int64_t element_at(const vn_asker_t *q, bool by_row, int32_t x) {
    return by_row ? (int64_t)q->cell.row[x] * q->p->n + q->cell.column[0] : (int64_t)q->cell.row[0] * q->p->n + q->cell.column[x];
}

/* Pairs [begin, end) one a row (or a column): both masks on one side. */
static vn_status_t ask_lines(vn_asker_t *q, bool by_row, int64_t begin, int64_t end, const int32_t *i, const int32_t *j, double *l,
                             vn_error_t *err) {
    vn_gemm_t *p = q->p;
    const int32_t lines = by_row ? q->cell.rows : q->cell.columns;
    for (int64_t from = begin; from < end; from += lines) {
        const int32_t count = (int32_t)(end - from < lines ? end - from : lines);
        for (int32_t x = 0; x < count; ++x) l[from + x] = p->k;
        for (int32_t at = 0; at < parts_of(p); ++at) {
            fill_lines(p, by_row, part_at(p, at));
            for (int32_t x = 0; x < count; ++x) {
                *line_at(q, by_row, x, i[from + x]) = (float)p->readout.mask;
                *line_at(q, by_row, x, j[from + x]) = (float)-p->readout.mask;
            }
            VN_TRY(vn_gemm_run(p, err));
            for (int32_t x = 0; x < count; ++x) l[from + x] -= units(p, p->out[element_at(q, by_row, x)]);
        }
    }
    return VN_OK;
}

vn_status_t vn_gemm_ask_start(vn_asker_t *q, double *l, vn_error_t *err) {
    vn_gemm_t *p = q->p;
    const bool by_row = q->cell.rows > q->cell.columns;
    const int32_t lines = by_row ? q->cell.rows : q->cell.columns;
    for (int32_t j = 0; j < p->k; ++j) l[j] = p->k;
    for (int32_t from = 0; from < p->k; from += lines) {
        const int32_t count = p->k - from < lines ? p->k - from : lines;
        for (int32_t at = 0; at < parts_of(p); ++at) {
            fill_lines(p, by_row, part_at(p, at));
            for (int64_t e = 0; e < (int64_t)p->m * p->n; ++e) p->c[e] = (float)p->readout.mask;
            for (int32_t x = 0; x < count; ++x) *line_at(q, by_row, x, from + x) = (float)-p->readout.mask;
            VN_TRY(vn_gemm_run(p, err));
            for (int32_t x = 0; x < count; ++x) l[from + x] -= units(p, p->out[element_at(q, by_row, x)]);
        }
    }
    return VN_OK;
}

/* A grid: rows carry +M at first[], columns -M at second[]. l of pair p is read at (its row, its column). */
static vn_status_t ask_grid(vn_asker_t *q, int32_t rows, const int32_t *first, int32_t columns, const int32_t *second, double *grid,
                            vn_error_t *err) {
    vn_gemm_t *p = q->p;
    for (int64_t e = 0; e < (int64_t)rows * columns; ++e) grid[e] = p->k;
    for (int32_t at = 0; at < parts_of(p); ++at) {
        const part_t c = part_at(p, at);
        fill_units(p, c);
        for (int32_t x = 0; x < rows; ++x) p->a[(int64_t)q->cell.row[x] * p->k + first[x]] = (float)p->readout.mask;
        for (int32_t y = 0; y < columns; ++y) p->b[(int64_t)second[y] * p->n + q->cell.column[y]] = partner_mask(p, c, second[y]);
        VN_TRY(vn_gemm_run(p, err));
        for (int32_t x = 0; x < rows; ++x)
            for (int32_t y = 0; y < columns; ++y)
                grid[(int64_t)x * columns + y] -= units(p, p->out[(int64_t)q->cell.row[x] * p->n + q->cell.column[y]]);
    }
    return VN_OK;
}

/* Pairs come in runs of one pivot. Calls that a grid takes: columns chunked, pivots of a chunk chunked by rows. */
static int64_t grid_calls(const vn_cell_t *cell, int64_t pairs, const int32_t *i) {
    int64_t calls = 0;
    for (int64_t from = 0; from < pairs; from += cell->columns) {
        const int64_t end = from + cell->columns < pairs ? from + cell->columns : pairs;
        int64_t pivots = 1;
        for (int64_t p = from + 1; p < end; ++p) pivots += i[p] != i[p - 1];
        calls += (pivots + cell->rows - 1) / cell->rows;
    }
    return calls;
}

static vn_status_t ask_by_grid(vn_asker_t *q, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    const vn_cell_t *cell = &q->cell;
    int32_t *pivot = vn_alloc((size_t)cell->rows + 1, sizeof *pivot);
    double *grid = vn_alloc((size_t)cell->rows * (size_t)cell->columns, sizeof *grid);
    vn_status_t st = pivot && grid ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %lld questions", (long long)pairs);
    for (int64_t from = 0; st == VN_OK && from < pairs;) {
        int32_t rows = 0;
        int64_t end = from;
        while (end < pairs && end - from < cell->columns) { /* as many pairs as rows and columns hold */
            if (end == from || i[end] != i[end - 1]) {
                if (rows == cell->rows) break;
                pivot[rows++] = i[end];
            }
            ++end;
        }
        st = ask_grid(q, rows, pivot, (int32_t)(end - from), j + from, grid, err);
        int32_t row = -1;
        for (int64_t p = from; st == VN_OK && p < end; ++p) {
            if (p == from || i[p] != i[p - 1]) ++row;
            l[p] = grid[(int64_t)row * (end - from) + (p - from)];
        }
        from = end;
    }
    vn_free(pivot);
    vn_free(grid);
    return st;
}

vn_status_t vn_gemm_ask(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    vn_asker_t *q = context;
    const int64_t by_row = (pairs + q->cell.rows - 1) / q->cell.rows, by_column = (pairs + q->cell.columns - 1) / q->cell.columns;
    if (q->p->r->call->constant & 2) return ask_lines(q, true, 0, pairs, i, j, l, err); /* b stays: nothing is loaded again */
    const int64_t by_grid = q->p->readout.one_side ? INT64_MAX : grid_calls(&q->cell, pairs, i);
    if (by_grid <= by_row && by_grid <= by_column) return ask_by_grid(q, pairs, i, j, l, err);
    return ask_lines(q, by_row <= by_column, 0, pairs, i, j, l, err);
}

vn_status_t vn_gemm_ask_block(vn_asker_t *q, int32_t row, int32_t rows, int32_t column, int32_t columns, double *l, vn_error_t *err) {
    int32_t *first = vn_alloc((size_t)rows + (size_t)columns, sizeof *first);
    double *grid = vn_alloc((size_t)rows * (size_t)columns, sizeof *grid);
    vn_status_t st = first && grid ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for %d x %d questions", rows, columns);
    for (int32_t x = 0; st == VN_OK && x < rows; ++x) first[x] = row + x;
    for (int32_t y = 0; st == VN_OK && y < columns; ++y) first[rows + y] = column + y;
    if (st == VN_OK) st = ask_grid(q, rows, first, columns, first + rows, grid, err);
    for (int32_t x = 0; st == VN_OK && x < rows; ++x)
        memcpy(l + (int64_t)(row + x) * q->p->k + column, grid + (int64_t)x * columns, (size_t)columns * sizeof *l);
    vn_free(first);
    vn_free(grid);
    return st;
}
