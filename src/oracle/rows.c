/* rows.c -- an operator along axes as many independent rows: layout, blocked gather and scatter, threads. */
#include "oracle/rows.h"

#include <string.h>

#include "tensor/dense.h"

void vn_rows_plan(int rank, const int64_t *dims, const bool *along, vn_rows_t *out) {
    *out = (vn_rows_t){.rows = 1, .n = 1};
    int64_t step[VN_MAX_RANK], s = 1;
    for (int d = rank - 1; d >= 0; --d) {
        step[d] = s;
        s *= dims[d];
    }
    int last = -1; /* kind of the axis before: 1 along, 0 not */
    for (int d = 0; d < rank; ++d) {
        *(along[d] ? &out->n : &out->rows) *= dims[d];
        if (dims[d] == 1) continue;
        const int kind = along[d];
        int *n = kind ? &out->n_inner : &out->n_outer;
        int64_t *dim = kind ? out->inner_dim : out->outer_dim, *st = kind ? out->inner_step : out->outer_step;
        if (kind == last) dim[*n - 1] *= dims[d], st[*n - 1] = step[d];
        else dim[*n] = dims[d], st[*n] = step[d], ++*n;
        last = kind;
    }
    const bool inner_flat = out->n_inner == 0 || (out->n_inner == 1 && out->inner_step[0] == 1);
    out->contiguous = inner_flat && (out->n_outer == 0 || (out->n_outer == 1 && out->outer_step[0] == out->n));
}

static int64_t offset(int n, const int64_t *dim, const int64_t *step, int64_t index) {
    int64_t at = 0;
    for (int d = n - 1; d >= 0; --d) {
        at += index % dim[d] * step[d];
        index /= dim[d];
    }
    return at;
}

int64_t vn_rows_base(const vn_rows_t *s, int64_t row) { return offset(s->n_outer, s->outer_dim, s->outer_step, row); }

/* Calls copy(run of the innermost merged axis) so that neighbouring rows are moved together: cache lines are used whole. */
static void move(const vn_rows_t *s, double *plane, int64_t row, int64_t count, double *block, bool read) {
    if (s->contiguous) {
        const size_t bytes = (size_t)(count * s->n) * sizeof *block;
        if (read) memcpy(block, plane + row * s->n, bytes);
        else memcpy(plane + row * s->n, block, bytes);
        return;
    }
    const int64_t run = s->n_inner ? s->inner_dim[s->n_inner - 1] : 1, step = s->n_inner ? s->inner_step[s->n_inner - 1] : 0;
    const int64_t runs = run ? s->n / run : 0;
    int64_t base[64];
    for (int64_t first = 0; first < count; first += 64) {
        const int64_t rows = count - first < 64 ? count - first : 64;
        for (int64_t i = 0; i < rows; ++i) base[i] = vn_rows_base(s, row + first + i);
        for (int64_t j = 0; j < runs; ++j) {
            const int64_t at = s->n_inner ? offset(s->n_inner - 1, s->inner_dim, s->inner_step, j) : 0;
            double *b = block + first * s->n + j * run;
            for (int64_t k = 0; k < run; ++k)
                for (int64_t i = 0; i < rows; ++i) {
                    double *p = plane + base[i] + at + k * step;
                    if (read) b[i * s->n + k] = *p;
                    else *p = b[i * s->n + k];
                }
        }
    }
}

void vn_rows_read(const vn_rows_t *s, const double *plane, int64_t row, int64_t count, double *block) {
    move(s, (double *)(uintptr_t)plane, row, count, block, true);
}

void vn_rows_write(const vn_rows_t *s, double *plane, int64_t row, int64_t count, const double *block) {
    move(s, plane, row, count, (double *)(uintptr_t)block, false);
}

static void decode_rows(const vn_rows_t *s, const vn_tensor_t *source, int64_t row, int64_t count, double *block) {
    const size_t size = (size_t)vn_dtype_bits(source->dtype) / 8;
    vn_decoders[source->dtype]((const unsigned char *)source->data + (size_t)(row * s->n) * size, block, count * s->n);
}

void vn_rows_read_one(const vn_rows_t *s, const double *plane, const vn_tensor_t *source, int64_t row, double *block) {
    if (plane) vn_rows_read(s, plane, row, 1, block);
    else decode_rows(s, source, row, 1, block);
}

typedef struct run {
    const vn_row_job_t *job;
    int64_t block; /* rows gathered at once */
    int failed;    /* atomic */
} run_t;

static void run_chunk(void *ctx, int64_t begin, int64_t end) {
    run_t *r = ctx;
    const vn_row_job_t *job = r->job;
    const vn_rows_t *s = job->shape;
    int planes = job->source != NULL;
    if (!s->contiguous)
        for (int p = 0; p < VN_ROW_PLANES; ++p) planes += (job->in[p] != NULL) + (job->out[p] != NULL);
    const int64_t block = s->contiguous && !job->source ? 1 : r->block;
    size_t room;
    double *scratch = NULL;
    if (!vn_size_mul((size_t)(planes * block + job->work), (size_t)(s->n ? s->n : 1), &room) || room > INT64_MAX / 16 ||
        !(scratch = vn_plane_raw((int64_t)room))) {
        __atomic_store_n(&r->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    enum { REPORT = 1 << 12 };
    int64_t told = begin;
    for (int64_t at = begin; at < end; at += block) {
        const int64_t count = end - at < block ? end - at : block;
        double *next = scratch + (int64_t)job->work * s->n;
        double *in[VN_ROW_PLANES] = {0}, *out[VN_ROW_PLANES] = {0};
        if (job->source) {
            in[0] = next;
            next += block * s->n;
            decode_rows(s, job->source, at, count, in[0]);
        }
        for (int p = 0; p < VN_ROW_PLANES && !s->contiguous; ++p) {
            if (job->in[p]) {
                in[p] = next;
                next += block * s->n;
                vn_rows_read(s, job->in[p], at, count, in[p]);
            }
            if (job->out[p]) {
                out[p] = next;
                next += block * s->n;
            }
        }
        for (int64_t i = 0; i < count; ++i) {
            vn_row_t row = {.index = at + i, .n = s->n, .work = scratch};
            for (int p = 0; p < VN_ROW_PLANES; ++p) {
                if (job->in[p]) row.in[p] = s->contiguous ? job->in[p] + (at + i) * s->n : in[p] + i * s->n;
                if (job->out[p]) row.out[p] = s->contiguous ? job->out[p] + (at + i) * s->n : out[p] + i * s->n;
            }
            if (job->source) row.in[0] = in[0] + i * s->n;
            job->fn(job->ctx, &row);
        }
        for (int p = 0; p < VN_ROW_PLANES && !s->contiguous; ++p)
            if (job->out[p]) vn_rows_write(s, job->out[p], at, count, out[p]);
        if (job->report && ((at + count - told) * s->n >= REPORT || at + count == end)) {
            vn_out_done(job->report, job->reported, told * s->n, (at + count - told) * s->n);
            told = at + count;
        }
    }
    vn_free(scratch);
}

vn_status_t vn_rows_operand(vn_eval_t *e, int k, vn_row_job_t *job) {
    const vn_arg_t *a = &e->in[k];
    const vn_rows_t *s = job->shape;
    enum { LONG = 1 << 16 }; /* a row of this many is better converted by all threads at once */
    if (!a->value && s->contiguous && s->n < LONG && a->t->dtype != VN_F64 && vn_dtype_bits(a->t->dtype) % 8 == 0) {
        job->source = a->t;
        return VN_OK;
    }
    job->in[0] = vn_arg_f64(e, k);
    return job->in[0] ? VN_OK : VN_ERR_NOMEM;
}

vn_status_t vn_rows_report(vn_eval_t *e, int k, vn_row_job_t *job) {
    if (!job->shape->contiguous || vn_dtype_bits(e->out[k].dtype) % 8) return VN_OK;
    job->report = e;
    job->reported = k;
    return vn_out_begin(e, k);
}

vn_status_t vn_rows_run(vn_eval_t *e, const vn_row_job_t *job) {
    const vn_rows_t *s = job->shape;
    const int64_t n = s->n > 0 ? s->n : 1;
    run_t r = {.job = job, .block = (job->source ? 1 << 11 : 1 << 18) / n}; /* decoded rows stay in the first cache */
    if (r.block < 1) r.block = 1;
    if (r.block > 64) r.block = 64;
    int64_t grain = (1 << 15) / n;
    if (!s->contiguous) grain = (grain + r.block - 1) / r.block * r.block;
    vn_parallel(s->rows, grain < 1 ? 1 : grain, run_chunk, &r);
    return r.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for rows of %lld elements", (long long)s->n) : VN_OK;
}

void vn_flags_settle(vn_eval_t *e, int k) {
    vn_ref_t *r = &e->out[k];
    if (!r->flags) return;
    for (int64_t i = 0; i < r->count; ++i)
        if (r->flags[i]) return;
    vn_free(r->flags);
    r->flags = NULL;
}

vn_format_t vn_read_format(const vn_eval_t *e, int position, vn_dtype_t type) {
    const vn_contract_t *c = e->contract;
    const vn_format_info_t *named = vn_format_info(c->operand), *own = vn_format_info(vn_format_of(type));
    if (!named || !own || (c->operand_mask && !(c->operand_mask >> position & 1))) return VN_FMT_NONE;
    return named->p < own->p || named->emax < own->emax ? c->operand : VN_FMT_NONE;
}

vn_status_t vn_read_operand(vn_eval_t *e, int position, const double *plane, int64_t count, vn_dtype_t type, const double **out,
                            double **owned) {
    const vn_format_t f = vn_read_format(e, position, type);
    *out = plane;
    *owned = NULL;
    if (!plane) return VN_ERR_NOMEM;
    if (f == VN_FMT_NONE) return VN_OK;
    *owned = vn_alloc((size_t)(count ? count : 1), sizeof **owned);
    if (!*owned) return vn_eval_fail(e, VN_ERR_NOMEM, "no memory for %lld elements", (long long)count);
    memcpy(*owned, plane, (size_t)count * sizeof **owned);
    vn_round_array(f, e->contract->operand_rounding, *owned, count);
    *out = *owned;
    return VN_OK;
}

void vn_infer_put(vn_eval_t *e, int k, vn_dtype_t t, int rank, const int64_t *dims) {
    if (k >= e->n_out) return;
    e->out[k].dtype = t;
    e->out[k].rank = rank;
    if (rank > 0) memcpy(e->out[k].dims, dims, (size_t)rank * sizeof *dims);
}
