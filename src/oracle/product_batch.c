/* product_batch.c -- the variance sample of a product, and many products of one size over all threads. */
#include <math.h>
#include <string.h>

#include "oracle/blas.h"
#include "oracle/product.h"
#include "oracle/tiles.h"

/* ---- claim CONTRACT-6: exact chains on a sample ---- */

typedef float lf_t __attribute__((vector_size(VN_SAMPLE * sizeof(float))));
typedef int32_t li_t __attribute__((vector_size(VN_SAMPLE * sizeof(int32_t))));
typedef double ld_t __attribute__((vector_size(VN_SAMPLE * sizeof(double))));
typedef int64_t lm_t __attribute__((vector_size(VN_SAMPLE * sizeof(int64_t))));

/* Rounds `exact` to f32 and adds (2^e)^2 of the result's binade where that lost something. */
#define ROUND_NODE(exact, rounded, sum)                                                       \
    do {                                                                                      \
        (rounded) = __builtin_convertvector(exact, lf_t);                                     \
        const ld_t back_ = __builtin_convertvector(rounded, ld_t);                            \
        const ld_t size_ = __builtin_convertvector((lf_t)((li_t)(rounded)&0x7f800000), ld_t); \
        (sum) += (ld_t)((lm_t)(size_ * size_) & (back_ != (exact)));                          \
    } while (0)

/* Sequential (step 1) or reversed (step -1) f32 chains of one row against VN_SAMPLE columns: adds sum of ulp^2 / 12 per lane. */
VN_CLONES static void chains_f32(int64_t k, int64_t first, int64_t step, const double *a, const double *cols, bool exact_products,
                                 double *out) {
    ld_t v = {0};
    lf_t s = {0};
    for (int64_t i = 0, p = first; i < k; ++i, p += step) {
        ld_t x;
        memcpy(&x, cols + p * VN_SAMPLE, sizeof x);
        x *= a[p];
        if (!exact_products) {
            lf_t r;
            ROUND_NODE(x, r, v);
            x = __builtin_convertvector(r, ld_t);
        }
        const ld_t t = __builtin_convertvector(s, ld_t) + x;
        ROUND_NODE(t, s, v);
    }
    v *= 0x1p-46 / 12; /* ulp = 2^(e-23) */
    memcpy(out, &v, sizeof v);
}

/* Any accumulator; the exact value of a sum is kept by TwoSum, so that binary64 works too. */
static double chain_any(vn_format_t f, int64_t k, int64_t first, int64_t step, const double *a, const double *col, int64_t stride) {
    double s = 0, v = 0;
    for (int64_t i = 0, p = first; i < k; ++i, p += step) {
        const double exact = a[p] * col[p * stride];
        const double x = vn_round_to(f, exact, VN_RNE, false);
        if (x != exact || fma(a[p], col[p * stride], -exact) != 0) v += vn_ulp(f, x) * vn_ulp(f, x);
        const double t = s + x, z = t - s, lost = (s - (t - z)) + (x - z), r = vn_round_to(f, t, VN_RNE, false);
        if (!isfinite(r)) return 0;
        if (r != t || lost != 0) v += vn_ulp(f, r) * vn_ulp(f, r);
        s = r;
    }
    return v / 12;
}

typedef struct sample_job {
    const vn_product_t *p;
    int cols;
    int64_t k;
    const double *a, *packed, *bias;
    double chain[2][VN_SAMPLE][VN_SAMPLE], model[VN_SAMPLE][VN_SAMPLE]; /* [direction][row][column] */
} sample_job_t;

static void sample_range(void *ctx, int64_t begin, int64_t end) {
    sample_job_t *j = ctx;
    for (int64_t r = begin; r < end; ++r) {
        const double *a = j->a + r * j->k;
        for (int dir = 0; dir < 2; ++dir) {
            const int64_t first = dir ? j->k - 1 : 0, step = dir ? -1 : 1;
            if (j->p->acc == VN_FMT_F32) chains_f32(j->k, first, step, a, j->packed, j->p->exact_products, j->chain[dir][r]);
            else
                for (int c = 0; c < j->cols; ++c)
                    j->chain[dir][r][c] = chain_any(j->p->acc, j->k, first, step, a, j->packed + c, VN_SAMPLE);
        }
        double s[VN_SAMPLE] = {0}, q[VN_SAMPLE] = {0};
        for (int64_t p = 0; p < j->k; ++p)
            for (int c = 0; c < VN_SAMPLE; ++c) {
                const double x = a[p] * j->packed[p * VN_SAMPLE + c];
                s[c] += x;
                q[c] += x * x;
            }
        for (int c = 0; c < j->cols; ++c) j->model[r][c] = vn_order_variance(j->p, (double)j->k, s[c], q[c]);
    }
}

static double worse(double scale, double chain, double model) {
    const double ratio = model > 0 ? chain / model : 1;
    return isfinite(ratio) && ratio > scale ? ratio : scale;
}

void vn_product_sample(vn_product_t *p, int rows, int cols, int64_t k, const double *a, const double *b) {
    if (rows < 1 || cols < 1 || k < 2) return;
    double *packed = vn_alloc((size_t)k * VN_SAMPLE, sizeof *packed);
    sample_job_t *job = packed ? vn_alloc(1, sizeof *job) : NULL;
    if (job) {
        for (int c = 0; c < cols; ++c)
            for (int64_t i = 0; i < k; ++i) packed[i * VN_SAMPLE + c] = b[c * k + i];
        job->p = p;
        job->cols = cols;
        job->k = k;
        job->a = a;
        job->packed = packed;
        vn_parallel(rows, k >= 1024 ? 1 : VN_SAMPLE, sample_range, job);
        /* Pooled over a row, over a column, and over all: one element alone has no expectation to compare with. */
        for (int dir = 0; dir < 2; ++dir) {
            double all = 0, model = 0;
            for (int r = 0; r < rows; ++r) {
                double x = 0, m = 0;
                for (int c = 0; c < cols; ++c) x += job->chain[dir][r][c], m += job->model[r][c];
                p->var_scale = worse(p->var_scale, x, m);
                all += x;
                model += m;
            }
            for (int c = 0; c < cols; ++c) {
                double x = 0, m = 0;
                for (int r = 0; r < rows; ++r) x += job->chain[dir][r][c], m += job->model[r][c];
                p->var_scale = worse(p->var_scale, x, m);
            }
            p->var_scale = worse(p->var_scale, all, model);
        }
    }
    vn_free(packed);
    vn_free(job);
}

/* Evenly spread index number i of `of` in [0, n). */
static int64_t spread(int64_t i, int64_t of, int64_t n) { return of < 2 ? 0 : (int64_t)((double)i * (double)(n - 1) / (double)(of - 1)); }

/* Up to 8 by 8 elements of up to 8 matrices, fewer where k is long: about a thousandth of the products of a large matrix. */
static void sample_batch(vn_product_t *p, const vn_batch_t *g) {
    enum { MATRICES = 8 };
    const int64_t rows = g->m < VN_SAMPLE ? g->m : VN_SAMPLE, cols = g->n < VN_SAMPLE ? g->n : VN_SAMPLE;
    const int64_t matrices = g->count < MATRICES ? g->count : MATRICES;
    if (g->k < 2) return;
    double *a = vn_alloc((size_t)(rows * g->k), sizeof *a), *b = vn_alloc((size_t)(cols * g->k), sizeof *b);
    for (int64_t x = 0; a && b && x < matrices; ++x) {
        const int64_t z = spread(x, matrices, g->count);
        const double *pa = p->a.x + g->a_off[z], *pb = p->b.x + g->b_off[z];
        for (int64_t r = 0; r < rows; ++r) {
            const int64_t i = spread(r, rows, g->m);
            for (int64_t k = 0; k < g->k; ++k) a[r * g->k + k] = g->ta ? pa[k * g->lda + i] : pa[i * g->lda + k];
        }
        for (int64_t c = 0; c < cols; ++c) {
            const int64_t j = spread(c, cols, g->n);
            for (int64_t k = 0; k < g->k; ++k) b[c * g->k + k] = g->tb ? pb[j * g->ldb + k] : pb[k * g->ldb + j];
        }
        vn_product_sample(p, (int)rows, (int)cols, g->k, a, b);
    }
    vn_free(a);
    vn_free(b);
}

/* ---- many matrices ---- */

typedef struct batch_job {
    vn_product_t *p;
    const vn_batch_t *g;
    vn_tiles_t tiles;
} batch_job_t;

static void batch_range(void *ctx, int64_t begin, int64_t end) {
    batch_job_t *job = ctx;
    const vn_batch_t *g = job->g;
    vn_tile_scratch_t scratch;
    if (!vn_tile_scratch_new(job->p, job->tiles.tm * job->tiles.tn, job->tiles.tn, &scratch)) {
        __atomic_store_n(&job->p->failed, true, __ATOMIC_RELAXED);
        vn_tile_scratch_free(&scratch);
        return;
    }
    for (int64_t x = begin; x < end; ++x) {
        const int64_t z = x / job->tiles.count;
        int64_t i, j, rows, cols;
        vn_tile_at(&job->tiles, x % job->tiles.count, &i, &rows, &j, &cols);
        vn_tile_t t = {.m = rows,
                       .n = cols,
                       .k = g->k,
                       .out = (z * g->m + i) * g->n + j,
                       .ldc = g->n,
                       .a = vn_side_at(&job->p->a, g->a_off[z] + (g->ta ? i : i * g->lda), g->lda, g->ta),
                       .b = vn_side_at(&job->p->b, g->b_off[z] + (g->tb ? j * g->ldb : j), g->ldb, g->tb),
                       .bias = vn_bias_at(&g->bias, (g->bias_off ? g->bias_off[z] : 0) + i * g->bias.rs + j * g->bias.cs)};
        vn_product_tile(job->p, &t, &scratch);
    }
    vn_tile_scratch_free(&scratch);
}

/* Chunk of tiles that is worth a thread: small matrices are taken together. */
static int64_t grain_of(double per_tile) {
    const double enough = 0x1p22, g = per_tile > 0 ? enough / per_tile : enough;
    return g < 1 ? 1 : g > 65536 ? 65536 : (int64_t)g;
}

vn_status_t vn_product_batch(vn_product_t *p, const vn_batch_t *g) {
    if (p->variance && g->count > 0 && g->m > 0 && g->n > 0) sample_batch(p, g);
    batch_job_t job = {p, g, vn_tiles(g->m, g->n, g->k)};
    if (job.tiles.count == 0 || g->count == 0) return VN_OK;
    vn_parallel(job.tiles.count * g->count, grain_of((double)job.tiles.tm * (double)job.tiles.tn * ((double)g->k + 8)), batch_range, &job);
    return p->failed ? vn_eval_fail(p->e, VN_ERR_NOMEM, "no memory for tiles") : VN_OK;
}

/* ---- integers ---- */

typedef struct integer_job {
    const vn_batch_t *g;
    const int64_t *a, *b;
    int64_t *c;
} integer_job_t;

/* Rows of all matrices; unsigned arithmetic wraps as two's complement does. */
static void integer_range(void *ctx, int64_t begin, int64_t end) {
    integer_job_t *job = ctx;
    const vn_batch_t *g = job->g;
    for (int64_t x = begin; x < end; ++x) {
        const int64_t z = x / g->m, i = x % g->m;
        const int64_t *a = job->a + g->a_off[z], *b = job->b + g->b_off[z];
        uint64_t *c = (uint64_t *)job->c + x * g->n;
        memset(c, 0, (size_t)g->n * sizeof *c);
        for (int64_t k = 0; k < g->k; ++k) {
            const uint64_t v = (uint64_t)(g->ta ? a[k * g->lda + i] : a[i * g->lda + k]);
            if (!v) continue;
            if (g->tb)
                for (int64_t j = 0; j < g->n; ++j) c[j] += v * (uint64_t)b[j * g->ldb + k];
            else
                for (int64_t j = 0; j < g->n; ++j) c[j] += v * (uint64_t)b[k * g->ldb + j];
        }
    }
}

void vn_integer_batch(const vn_batch_t *g, const int64_t *a, const int64_t *b, int64_t *c) {
    integer_job_t job = {g, a, b, c};
    if (g->n <= 0) return;
    vn_parallel(g->count * g->m, grain_of((double)g->n * ((double)g->k + 8)), integer_range, &job);
}
