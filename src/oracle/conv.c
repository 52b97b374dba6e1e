/* conv.c -- geometry of convolutions, gathered columns, exact sums. */
#include "oracle/conv.h"

#include <string.h>

#include "oracle/blas.h"
#include "oracle/require.h"

vn_status_t vn_conv_plan(vn_eval_t *e, int kx, int kw, bool transposed, vn_conv_t *c) {
    VN_TRY(vn_require(e, (kx > kw ? kx : kw) + 1));
    const vn_tensor_t *x = e->in[kx].t, *w = e->in[kw].t;
    *c = (vn_conv_t){.transposed = transposed, .groups = vn_node_int(e->node, "group", 1), .rank = x->rank};
    if (x->rank < 3 || w->rank != x->rank)
        return vn_eval_fail(e, VN_ERR_SHAPE, "input of rank %d with weights of rank %d", x->rank, w->rank);
    c->batch = x->dims[0];
    c->channels = x->dims[1];
    if (c->groups < 1 || c->channels % c->groups || w->dims[0] % c->groups)
        return vn_eval_fail(e, VN_ERR_SHAPE, "group %lld does not divide %lld channels and %lld filters", (long long)c->groups,
                            (long long)c->channels, (long long)w->dims[0]);
    c->cg = c->channels / c->groups;
    const int64_t want = transposed ? w->dims[0] : w->dims[1] * c->groups;
    if (want != c->channels)
        return vn_eval_fail(e, VN_ERR_SHAPE, "%lld channels, the weights take %lld", (long long)c->channels, (long long)want);
    if (!vn_i64_mul(transposed ? w->dims[1] : w->dims[0], transposed ? c->groups : 1, &c->maps))
        return vn_eval_fail(e, VN_ERR_RANGE, "too many filters");
    c->mg = c->maps / c->groups;
    VN_TRY(transposed ? vn_windows_read_transposed(e, x->rank - 2, x->dims + 2, w->dims + 2, &c->w)
                      : vn_windows_read(e, x->rank - 2, x->dims + 2, w->dims + 2, false, &c->w));
    if (!vn_i64_mul(c->cg, c->w.taps, &c->depth)) return vn_eval_fail(e, VN_ERR_RANGE, "too many taps");
    c->dims[0] = c->batch;
    c->dims[1] = c->maps;
    for (int d = 0; d < c->w.n; ++d) c->dims[2 + d] = c->w.axis[d].out;
    const int64_t room = (INT64_C(1) << 20) / (c->depth > 0 ? c->depth : 1);
    c->tile = room < 8 ? 8 : room > 1024 ? 1024 : room;
    if (c->tile > c->w.positions) c->tile = c->w.positions > 0 ? c->w.positions : 1;
    c->map_tile = c->mg > 256 ? 256 : c->mg > 0 ? c->mg : 1;
    /* Few tasks: smaller tiles of positions first (columns are gathered once), then of maps. By sizes only. */
    const double pairs = (double)c->batch * (double)c->groups;
    while (c->tile > 128 && pairs * (double)((c->w.positions + c->tile - 1) / c->tile) < 8) c->tile = (c->tile + 1) / 2;
    const double tiles = pairs * (double)((c->w.positions + c->tile - 1) / c->tile);
    while (c->map_tile > 32 && tiles * (double)((c->mg + c->map_tile - 1) / c->map_tile) < 8) c->map_tile = (c->map_tile + 1) / 2;
    c->map_tiles = (c->mg + c->map_tile - 1) / c->map_tile;
    return VN_OK;
}

/* ---- columns ---- */

bool vn_columns_new(const vn_conv_t *c, int64_t max_count, vn_columns_t *out) {
    *out = (vn_columns_t){.c = c};
    out->start = vn_alloc((size_t)c->w.taps + 1, sizeof *out->start);
    out->terms = vn_alloc((size_t)(max_count ? max_count : 1), sizeof *out->terms);
    out->offset = vn_alloc((size_t)(max_count ? max_count : 1), sizeof *out->offset);
    return out->start && out->terms && out->offset;
}

void vn_columns_free(vn_columns_t *c) {
    vn_free(c->runs);
    vn_free(c->start);
    vn_free(c->terms);
    vn_free(c->offset);
    *c = (vn_columns_t){0};
}

/* Element of an image's channel that tap `tap` of each position reads, -1 for none. */
static void offsets(const vn_conv_t *c, const int64_t *tap, int64_t first, int64_t count, int64_t *out) {
    int64_t at[VN_MAX_RANK], rest = first;
    const int n = c->w.n;
    for (int d = n - 1; d >= 0; --d) {
        at[d] = rest % c->w.axis[d].out;
        rest /= c->w.axis[d].out;
    }
    for (int64_t p = 0; p < count; ++p) {
        int64_t o = 0;
        for (int d = 0; d < n && o >= 0; ++d) {
            const vn_window_t *w = &c->w.axis[d];
            const int64_t i = c->transposed ? vn_window_tap_transposed(w, at[d], tap[d]) : vn_window_tap(w, at[d], tap[d]);
            o = i < 0 ? -1 : o * w->in + i;
        }
        out[p] = o;
        for (int d = n - 1; d >= 0; --d) {
            if (++at[d] < c->w.axis[d].out) break;
            at[d] = 0;
        }
    }
}

static bool add_run(vn_columns_t *c, int64_t *used, vn_run_t r) {
    if (*used == c->capacity) {
        const int64_t more = c->capacity ? 2 * c->capacity : 64;
        vn_run_t *grown = vn_realloc(c->runs, (size_t)more, sizeof *grown);
        if (!grown) return false;
        c->runs = grown;
        c->capacity = more;
    }
    c->runs[(*used)++] = r;
    return true;
}

bool vn_columns_at(vn_columns_t *c, int64_t first, int64_t count) {
    const vn_conv_t *g = c->c;
    if (c->planned && c->first == first && c->count == count) return true;
    c->planned = false;
    c->first = first;
    int64_t tap[VN_MAX_RANK] = {0}, used = 0;
    c->count = count;
    c->padded = false;
    for (int64_t p = 0; p < count; ++p) c->terms[p] = 0;
    for (int64_t t = 0; t < g->w.taps; ++t) {
        c->start[t] = used;
        offsets(g, tap, first, count, c->offset);
        for (int64_t p = 0; p < count;) {
            const int64_t from = c->offset[p];
            int64_t q = p + 1, step = 0;
            if (from < 0) {
                while (q < count && c->offset[q] < 0) ++q;
                c->padded = true;
            } else {
                if (q < count && c->offset[q] >= 0) step = c->offset[q] - from;
                while (q < count && c->offset[q] >= 0 && c->offset[q] - c->offset[q - 1] == step) ++q;
                for (int64_t x = p; x < q; ++x) c->terms[x] += (double)g->cg;
            }
            if (!add_run(c, &used, (vn_run_t){p, q - p, from, step})) return false;
            p = q;
        }
        for (int d = g->w.n - 1; d >= 0; --d) {
            if (++tap[d] < g->w.axis[d].kernel) break;
            tap[d] = 0;
        }
    }
    c->start[g->w.taps] = used;
    c->planned = true;
    return true;
}

#define GATHER(NAME, TYPE)                                                                                  \
    void vn_columns_##NAME(const vn_columns_t *c, const TYPE *x, TYPE *out) {                               \
        const vn_conv_t *g = c->c;                                                                          \
        for (int64_t ch = 0; ch < g->cg; ++ch) {                                                            \
            const TYPE *src = x + ch * g->w.in_size;                                                        \
            for (int64_t t = 0; t < g->w.taps; ++t) {                                                       \
                TYPE *row = out + (ch * g->w.taps + t) * c->count;                                          \
                for (int64_t i = c->start[t]; i < c->start[t + 1]; ++i) {                                   \
                    const vn_run_t r = c->runs[i];                                                          \
                    if (r.from < 0) memset(row + r.to, 0, (size_t)r.length * sizeof *row);                  \
                    else if (r.step == 1) memcpy(row + r.to, src + r.from, (size_t)r.length * sizeof *row); \
                    else                                                                                    \
                        for (int64_t k = 0; k < r.length; ++k) row[r.to + k] = src[r.from + k * r.step];    \
                }                                                                                           \
            }                                                                                               \
        }                                                                                                   \
    }
GATHER(f64, double)
GATHER(f32, float)

/* ---- tasks ---- */

int64_t vn_conv_tasks(const vn_conv_t *c) {
    if (c->w.positions == 0 || c->mg == 0) return 0;
    return c->batch * c->groups * ((c->w.positions - 1) / c->tile + 1) * c->map_tiles;
}

/* Consecutive tasks share a tile of positions, so that its columns are planned once. */
vn_conv_task_t vn_conv_task(const vn_conv_t *c, int64_t index) {
    const int64_t pairs = c->batch * c->groups, per_tile = pairs * c->map_tiles, tile = index / per_tile;
    const int64_t ig = index % per_tile / c->map_tiles, map = index % c->map_tiles;
    vn_conv_task_t t = {.image = ig / c->groups, .group = ig % c->groups, .first = tile * c->tile, .map = map * c->map_tile};
    t.count = c->w.positions - t.first < c->tile ? c->w.positions - t.first : c->tile;
    t.maps = c->mg - t.map < c->map_tile ? c->mg - t.map : c->map_tile;
    return t;
}

int64_t vn_conv_grain(const vn_conv_t *c) {
    const double enough = 0x1p21, each = (double)c->map_tile * (double)c->tile * (double)(c->depth > 0 ? c->depth : 1);
    return each >= enough ? 1 : (int64_t)(enough / each) + 1;
}

typedef struct exact_job {
    const vn_conv_t *c;
    const double *x, *w;
    double *out;
    bool failed;
} exact_job_t;

static void exact_range(void *ctx, int64_t begin, int64_t end) {
    exact_job_t *job = ctx;
    const vn_conv_t *c = job->c;
    vn_columns_t cols;
    double *packed = vn_realloc(NULL, (size_t)(c->depth * c->tile > 0 ? c->depth * c->tile : 1), sizeof *packed);
    bool good = vn_columns_new(c, c->tile, &cols) && packed;
    for (int64_t i = begin; good && i < end; ++i) {
        const vn_conv_task_t t = vn_conv_task(c, i);
        good = vn_columns_at(&cols, t.first, t.count);
        if (!good) break;
        vn_columns_f64(&cols, job->x + (t.image * c->channels + t.group * c->cg) * c->w.in_size, packed);
        const int64_t m = t.group * c->mg + t.map;
        vn_dgemm_tile(t.maps, t.count, c->depth, job->w + m * c->depth, c->depth, false, packed, t.count, false,
                      job->out + (t.image * c->maps + m) * c->w.positions + t.first, c->w.positions, false);
    }
    vn_columns_free(&cols);
    vn_free(packed);
    if (!good) __atomic_store_n(&job->failed, true, __ATOMIC_RELAXED);
}

vn_status_t vn_conv_exact(vn_eval_t *e, const vn_conv_t *c, const double *x, const double *w, double *out) {
    exact_job_t job = {c, x, w, out, false};
    vn_parallel(vn_conv_tasks(c), vn_conv_grain(c), exact_range, &job);
    return job.failed ? vn_eval_fail(e, VN_ERR_NOMEM, "no memory for columns") : VN_OK;
}
