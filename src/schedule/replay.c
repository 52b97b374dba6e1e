/* replay.c -- programs over whole matrices: blocks of columns, threads, packing, the store. Claim SCHED-2. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "schedule/program.h"

enum { W = VN_BLOCK_WIDTH, ROWS = 64, FEW_COLUMNS = 16 };

/* One replay. The columns of `vector` run along a block; `scalar` gives one value a row and term. Products only: pairs have no scalar. */
typedef struct job {
    const vn_replay_t *r;
    bool plain, pairs;
    int64_t rows, columns;
    vn_plane_t scalar; /* [row, term] */
    vn_plane_t vector; /* [term, column] */
    vn_plane_t second; /* pairs: the other factor; at NULL: values */
    vn_plane_t start;  /* [row, column] */
    int scalar_side;   /* which operand's rounding `scalar` gets */
    float *out;
    int64_t out_row, out_column;
    int64_t blocks; /* of columns */
    atomic_bool failed;
} job_t;

/* Rounds operands as the arithmetic says. Few are rounded at all, so a scalar function serves. */
static void round_operands(const vn_arithmetic_t *a, int side, float *x, int64_t n) {
    if (a->operand[side] == VN_FMT_NONE) return;
    double row[256];
    for (int64_t k = 0; k < n; k += 256) {
        const int64_t m = n - k < 256 ? n - k : 256;
        for (int64_t c = 0; c < m; ++c) row[c] = x[k + c];
        vn_round_array(a->operand[side], a->operand_rounding[side], row, m);
        for (int64_t c = 0; c < m; ++c) x[k + c] = (float)row[c];
    }
}

/* A block of columns, [n][W], zeros where there is no column. */
static void pack(const job_t *j, vn_plane_t p, int side, int64_t column, int width, float *out) {
    for (int64_t k = 0; k < j->r->n; ++k) {
        const float *from = p.at + k * p.row + column * p.column;
        float *to = out + k * W;
        if (p.column == 1) memcpy(to, from, (size_t)width * sizeof *to);
        else
            for (int c = 0; c < width; ++c) to[c] = from[c * p.column];
        memset(to + width, 0, (size_t)(W - width) * sizeof *to);
    }
    round_operands(&j->r->arithmetic, side, out, (int64_t)j->r->n * W);
}

static float stored(const vn_arithmetic_t *a, float x) {
    return a->store == VN_FMT_NONE ? x : (float)vn_round_to(a->store, x, a->store_rounding, false);
}

/* Factors of one output row, rounded as the arithmetic says: where they lie, or a copy in `room`. */
static const float *factors_of(const job_t *j, int64_t r, float *room) {
    const vn_arithmetic_t *a = &j->r->arithmetic;
    const float *x = j->scalar.at + r * j->scalar.row;
    if (j->scalar.column == 1 && a->operand[j->scalar_side] == VN_FMT_NONE) return x;
    for (int64_t k = 0; k < j->r->n; ++k) room[k] = x[k * j->scalar.column];
    round_operands(a, j->scalar_side, room, j->r->n);
    return room;
}

static void start_of(const job_t *j, int64_t r, int64_t column, int width, float *start) {
    const vn_arithmetic_t *a = &j->r->arithmetic;
    for (int c = 0; c < width; ++c) {
        start[c] = j->start.at[r * j->start.row + (column + c) * j->start.column];
        if (a->initial != VN_FMT_NONE) start[c] = (float)vn_round_to(a->initial, start[c], VN_RNE, false);
    }
}

static void run_rows(job_t *j, vn_block_t *b, float *room, float *start, int64_t column, int64_t from, int64_t to) {
    const vn_arithmetic_t *a = &j->r->arithmetic;
    const bool product = !j->pairs && j->scalar.at;
    for (int64_t r = from; r < to; r += b->rows) {
        b->rows = j->plain && product && to - r >= VN_BLOCK_ROWS ? VN_BLOCK_ROWS : 1;
        for (int k = 0; k < b->rows; ++k) {
            if (product) b->a[k] = factors_of(j, r + k, room + (int64_t)k * j->r->n);
            if (j->start.at) start_of(j, r + k, column, b->width, start + (int64_t)k * W);
        }
        b->start = j->start.at ? start : NULL;
        if (j->plain) vn_program_run(j->r, b);
        else vn_program_run_exactly(j->r, b);
        for (int k = 0; k < b->rows; ++k)
            for (int c = 0; c < b->width; ++c)
                j->out[(r + k) * j->out_row + (column + c) * j->out_column] = stored(a, b->stack[(int64_t)k * W + c]);
    }
}

static void run_tasks(void *ctx, int64_t begin, int64_t end) {
    job_t *j = ctx;
    const int64_t n = j->r->n;
    float *packed = vn_alloc((size_t)n * W, sizeof *packed),
          *second = j->pairs && j->second.at ? vn_alloc((size_t)n * W, sizeof *second) : NULL;
    float *row = vn_alloc((size_t)n * VN_BLOCK_ROWS, sizeof *row),
          *stack = vn_alloc((size_t)(j->r->depth + 1) * VN_BLOCK_ROWS * W, sizeof *stack);
    int64_t ready = -1;
    if (!packed || !row || !stack || (j->pairs && j->second.at && !second)) atomic_store(&j->failed, true);
    else
        for (int64_t t = begin; t < end; ++t) {
            float start[VN_BLOCK_ROWS * W] = {0};
            const int64_t block = t % j->blocks, column = block * W, from = t / j->blocks * ROWS;
            const int width = (int)(j->columns - column < W ? j->columns - column : W);
            vn_block_t b = {.width = width, .rows = 1, .b = packed, .pairs = second != NULL, .a = {second}, .stack = stack};
            if (block != ready) {
                pack(j, j->vector, 1 - j->scalar_side, column, width, packed);
                if (second) pack(j, j->second, 0, column, width, second);
            }
            ready = block;
            run_rows(j, &b, row, start, column, from, from + ROWS < j->rows ? from + ROWS : j->rows);
        }
    vn_free(packed);
    vn_free(second);
    vn_free(row);
    vn_free(stack);
}

static vn_status_t run(job_t *j, vn_error_t *err) {
    bool fused_nodes = false;
    if (j->rows == 0 || j->columns == 0) return VN_OK;
    if (j->r->arithmetic.accumulator == VN_FMT_F64)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "replay: f64 sums of f32 planes; use the f64 form");
    for (int32_t k = 0; k < j->r->steps; ++k) fused_nodes |= j->r->step[k].kind == VN_STEP_FUSED;
    j->plain = vn_program_is_plain(&j->r->arithmetic, fused_nodes);
    j->blocks = (j->columns + W - 1) / W;
    const int64_t tasks = j->blocks * ((j->rows + ROWS - 1) / ROWS);
    vn_parallel(tasks, 1, run_tasks, j);
    return atomic_load(&j->failed) ? vn_fail(err, VN_ERR_NOMEM, "no memory to replay a sum of %d terms", j->r->n) : VN_OK;
}

static vn_plane_t turned(vn_plane_t p) { return (vn_plane_t){p.at, p.column, p.row}; }

vn_status_t vn_replay_product(const vn_replay_t *r, int64_t rows, int64_t columns, vn_plane_t a, vn_plane_t b, vn_plane_t start, float *out,
                              int64_t ld, vn_error_t *err) {
    job_t j = {
        .r = r, .rows = rows, .columns = columns, .scalar = a, .vector = b, .start = start, .out = out, .out_row = ld, .out_column = 1};
    if (columns < FEW_COLUMNS && rows > columns) { /* factors commute: the rows run along the blocks */
        j = (job_t){.r = r,
                    .rows = columns,
                    .columns = rows,
                    .scalar = turned(b),
                    .vector = turned(a),
                    .start = turned(start),
                    .scalar_side = 1,
                    .out = out,
                    .out_row = 1,
                    .out_column = ld};
    }
    return run(&j, err);
}

vn_status_t vn_replay_terms(const vn_replay_t *r, int64_t columns, vn_plane_t x, vn_plane_t y, vn_plane_t start, float *out,
                            vn_error_t *err) {
    job_t j = {.r = r, .pairs = true, .rows = 1, .columns = columns, .vector = y.at ? y : x, .start = start, .out = out, .out_column = 1};
    if (y.at) j.second = x;
    return run(&j, err);
}

/* ---- f64 ---- */

vn_status_t vn_replay_terms_f64(const vn_replay_t *r, int64_t columns, const double *x, const double *y, int64_t row, int64_t column,
                                double *out, vn_error_t *err) {
    if (r->arithmetic.accumulator != VN_FMT_F64) return vn_fail(err, VN_ERR_USAGE, "replay: this program's accumulator is not f64");
    double *stack = vn_alloc((size_t)r->depth + 1, sizeof *stack);
    if (!stack) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int64_t c = 0; c < columns; ++c) {
        double *top = stack - 1;
        for (int32_t k = 0; k < r->steps; ++k) {
            const vn_program_step_t *s = &r->step[k];
            const int64_t at = s->leaf * row + c * column;
            if (s->kind == VN_STEP_TERM) {
                *++top = y ? x[at] * y[at] : x[at];
            } else if (s->kind == VN_STEP_CHAIN) {
                for (int32_t m = 0; m < s->count; ++m) {
                    const int64_t p = at + (int64_t)m * s->stride * row;
                    if (!y) *top = *top + x[p];
                    else if (s->fused) *top = fma(x[p], y[p], *top);
                    else {
                        const double product = x[p] * y[p];
                        *top = *top + product;
                    }
                }
            } else if (s->kind == VN_STEP_ADD) {
                --top;
                *top = *top + top[1];
            } else if (s->kind == VN_STEP_START) {
                *++top = 0;
            }
        }
        out[c] = *top;
    }
    vn_free(stack);
    return VN_OK;
}
