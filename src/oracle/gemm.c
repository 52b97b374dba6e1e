/* gemm.c -- threaded products over fixed tiles: f64 values, and sound upper bounds of |A||B|. */
#include <math.h>

#include "oracle/blas.h"
#include "oracle/magnitude.h"
#include "oracle/registry.h"
#include "oracle/tiles.h"

vn_tiles_t vn_tiles(int64_t m, int64_t n, int64_t k) {
    enum { SIDE = 512, SMALL = 128, FEW = 4 };
    const double enough = 0x1p22; /* products per tile: well above the cost of a thread */
    vn_tiles_t t = {.m = m, .n = n, .tm = m < SIDE ? m : SIDE, .tn = n < SIDE ? n : SIDE};
    const double depth = k > 0 ? (double)k : 1;
    /* Large tiles pack their operands less often; a result of few tiles is split while there is work enough in each. */
    while ((t.tm > SMALL || t.tn > SMALL) && ((m + t.tm - 1) / t.tm) * ((n + t.tn - 1) / t.tn) < FEW &&
           (double)t.tm * (double)t.tn * depth > 2 * enough)
        *(t.tm >= t.tn ? &t.tm : &t.tn) = ((t.tm >= t.tn ? t.tm : t.tn) + 1) / 2;
    while (t.tm < m && (double)t.tm * (double)t.tn * depth < enough) t.tm = 2 * t.tm < m ? 2 * t.tm : m;
    while (t.tn < n && (double)t.tm * (double)t.tn * depth < enough) t.tn = 2 * t.tn < n ? 2 * t.tn : n;
    if (t.tm < 1) t.tm = 1;
    if (t.tn < 1) t.tn = 1;
    t.across = n > 0 ? (n - 1) / t.tn + 1 : 0;
    t.count = m > 0 && n > 0 ? ((m - 1) / t.tm + 1) * t.across : 0;
    return t;
}

void vn_tile_at(const vn_tiles_t *t, int64_t index, int64_t *i, int64_t *rows, int64_t *j, int64_t *cols) {
    *i = index / t->across * t->tm;
    *j = index % t->across * t->tn;
    *rows = t->m - *i < t->tm ? t->m - *i : t->tm;
    *cols = t->n - *j < t->tn ? t->n - *j : t->tn;
}

typedef struct dgemm_job {
    vn_tiles_t tiles;
    int64_t k, lda, ldb, ldc;
    bool ta, tb, accumulate;
    const double *a, *b;
    double *c;
} dgemm_job_t;

static void dgemm_range(void *ctx, int64_t begin, int64_t end) {
    dgemm_job_t *g = ctx;
    for (int64_t t = begin; t < end; ++t) {
        int64_t i, j, rows, cols;
        vn_tile_at(&g->tiles, t, &i, &rows, &j, &cols);
        vn_dgemm_tile(rows, cols, g->k, g->a + (g->ta ? i : i * g->lda), g->lda, g->ta, g->b + (g->tb ? j * g->ldb : j), g->ldb, g->tb,
                      g->c + i * g->ldc + j, g->ldc, g->accumulate);
    }
}

void vn_dgemm(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb, double *c,
              int64_t ldc, bool accumulate) {
    dgemm_job_t g = {vn_tiles(m, n, k), k, lda, ldb, ldc, ta, tb, accumulate, a, b, c};
    vn_parallel(g.tiles.count, 1, dgemm_range, &g);
}

/* ---- |A||B| ---- */

typedef struct abs_job {
    vn_tiles_t tiles;
    int64_t k, lda, ldb, ldc; /* of the packed copies, which are not transposed */
    const float *a, *b;
    const double *da, *db; /* the f64 path */
    double unscale, lost;
    double *c;
    bool accumulate, failed;
} abs_job_t;

static void add_tile(double *c, int64_t ldc, int64_t rows, int64_t cols, const double *sum, bool accumulate) {
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
            double t = sum[i * cols + j];
            if (isnan(t)) t = INFINITY; /* 0 times infinity, or NaN: no statement */
            if (accumulate) c[i * ldc + j] = (c[i * ldc + j] + t) * (1 + 0x1p-52);
            else c[i * ldc + j] = t;
        }
}

static void abs_range(void *ctx, int64_t begin, int64_t end) {
    abs_job_t *g = ctx;
    const size_t room = (size_t)(g->tiles.tm * g->tiles.tn);
    double *sum = vn_alloc(room, sizeof *sum);
    float *part = g->a ? vn_alloc(room, sizeof *part) : NULL;
    if (!sum || (g->a && !part)) {
        __atomic_store_n(&g->failed, true, __ATOMIC_RELAXED);
    } else {
        for (int64_t t = begin; t < end; ++t) {
            int64_t i, j, rows, cols;
            vn_tile_at(&g->tiles, t, &i, &rows, &j, &cols);
            const int64_t cells = rows * cols;
            if (g->a) {
                vn_mag_product(rows, cols, g->k, g->a + i * g->lda, g->lda, false, g->b + j, g->ldb, false, g->unscale, part, sum);
            } else {
                vn_dgemm_tile(rows, cols, g->k, g->da + i * g->lda, g->lda, false, g->db + j, g->ldb, false, sum, cols, false);
                const double up = 1 + ((double)g->k + 3) * 0x1p-52, tiny = (double)g->k * g->lost;
                for (int64_t x = 0; x < cells; ++x) sum[x] = sum[x] * up + tiny;
            }
            add_tile(g->c + i * g->ldc + j, g->ldc, rows, cols, sum, g->accumulate);
        }
    }
    vn_free(sum);
    vn_free(part);
}

void vn_mag_product(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, bool ta, const float *b, int64_t ldb, bool tb,
                    double unscale, float *part, double *sum) {
    const int64_t cells = m * n;
    if (k == 0)
        for (int64_t x = 0; x < cells; ++x) sum[x] = 0;
    for (int64_t p = 0; p < k; p += VN_MAG_BLOCK) {
        const int64_t kc = k - p < VN_MAG_BLOCK ? k - p : VN_MAG_BLOCK;
        vn_sgemm_tile(m, n, kc, a + (ta ? p * lda : p), lda, ta, b + (tb ? p : p * ldb), ldb, tb, part, n, false);
        const double up = vn_mag_up(kc);
        if (p == 0)
            for (int64_t x = 0; x < cells; ++x) sum[x] = (double)part[x] * up * unscale;
        else
            for (int64_t x = 0; x < cells; ++x) sum[x] = (sum[x] + (double)part[x] * up * unscale) * (1 + 0x1p-52);
    }
}

/* |op(X)| without transposition, [rows, cols]. */
static double *pack_abs(const double *x, int64_t ld, bool t, int64_t rows, int64_t cols) {
    size_t cells;
    if (!vn_size_mul((size_t)rows, (size_t)cols, &cells)) return NULL;
    double *out = vn_alloc(cells ? cells : 1, sizeof *out);
    if (!out) return NULL;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) out[i * cols + j] = fabs(t ? x[j * ld + i] : x[i * ld + j]);
    return out;
}

vn_status_t vn_abs_gemm_upper(int64_t m, int64_t n, int64_t k, const double *a, int64_t lda, bool ta, const double *b, int64_t ldb, bool tb,
                              double *c, int64_t ldc, bool accumulate) {
    if (m <= 0 || n <= 0) return VN_OK;
    abs_job_t g = {.tiles = vn_tiles(m, n, k), .k = k, .lda = k, .ldb = n, .ldc = ldc, .unscale = 1, .c = c, .accumulate = accumulate};
    double *da = pack_abs(a, lda, ta, m, k), *db = pack_abs(b, ldb, tb, k, n);
    float *fa = NULL, *fb = NULL;
    vn_status_t s = VN_ERR_NOMEM;
    if (da && db) {
        const vn_extent_t ea = vn_extent(da, m * k), eb = vn_extent(db, k * n);
        g.lost = vn_mag_lost(&ea, &eb);
        if (vn_mag_fits(&ea, &eb)) {
            fa = vn_alloc((size_t)(m * k > 0 ? m * k : 1), sizeof *fa);
            fb = vn_alloc((size_t)(k * n > 0 ? k * n : 1), sizeof *fb);
            if (!fa || !fb) goto done;
            vn_mag_f32(da, m * k, vn_mag_scale(&ea), fa);
            vn_mag_f32(db, k * n, vn_mag_scale(&eb), fb);
            g.unscale = 1 / vn_mag_scale(&ea) / vn_mag_scale(&eb);
        }
        g.a = fa;
        g.b = fb;
        g.da = da;
        g.db = db;
        vn_parallel(g.tiles.count, 1, abs_range, &g);
        s = g.failed ? VN_ERR_NOMEM : VN_OK;
    }
done:
    vn_free(da);
    vn_free(db);
    vn_free(fa);
    vn_free(fb);
    return s;
}
