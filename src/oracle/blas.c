/* blas.c -- finds a BLAS library at first use, proves it on exact integer products, and falls back on our own kernels.
 *
 * The library is loaded by dlopen, so that start-up is fast and a machine without one still works. It runs on one thread per call
 * (openblas_set_num_threads(1)): OpenBLAS gives other bits with two. OPENBLAS_* in the environment is left as found.
 * Claim GEMM-1 (docs/claims.md): a library is used only after products of integers below 2^8, over shapes that straddle its register and
 * cache tiles, in all four transpositions, with and without accumulation, came out exact in both precisions and wrote nothing outside C.
 * Claim GEMM-4 (freivalds.c): every product of the library is compared with random signs; at the first that fails our own kernel takes over.
 */
#include "oracle/blas.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "oracle/freivalds.h"
#include "vernier/base.h"
#include "vernier/oracle.h"

static struct {
    vn_dgemm_fn dgemm; /* NULL: our own kernel */
    vn_sgemm_fn sgemm;
    char text[160];
} blas;
static bool forced_own, distrusted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of text and distrusted, once loaded */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A row-major product is the column-major product of the swapped operands. */
#define LIBRARY_GEMM(NAME, TYPE)                                                                                                       \
    static void library_##NAME(vn_##NAME##_fn fn, int64_t m, int64_t n, int64_t k, const TYPE *a, int64_t lda, bool ta, const TYPE *b, \
                               int64_t ldb, bool tb, TYPE *c, int64_t ldc, bool accumulate) {                                          \
        const int im = (int)m, in = (int)n, ik = (int)k, la = (int)(lda > 0 ? lda : 1), lb = (int)(ldb > 0 ? ldb : 1), lc = (int)ldc;  \
        const TYPE one = 1, beta = accumulate ? 1 : 0;                                                                                 \
        fn(tb ? "T" : "N", ta ? "T" : "N", &in, &im, &ik, &one, b, &lb, a, &la, &beta, c, &lc, 1, 1);                                  \
    }
LIBRARY_GEMM(dgemm, double)
LIBRARY_GEMM(sgemm, float)

/* ---- self-check ---- */

enum { CHECK_MAX = 200, CHECK_LD = CHECK_MAX + 3 };
typedef struct check_shape {
    int m, n, k;
} check_shape_t;
static const check_shape_t check_shapes[] = {{1, 1, 1},    {1, 7, 3},    {4, 1, 9},     {3, 5, 7},    {8, 8, 8},     {16, 16, 1},
                                             {17, 33, 65}, {25, 49, 40}, {48, 16, 129}, {64, 65, 63}, {2, 199, 200}, {97, 100, 131}};

typedef struct check_buffers {
    double ad[CHECK_LD * CHECK_LD], bd[CHECK_LD * CHECK_LD], cd[CHECK_LD * CHECK_LD];
    float as[CHECK_LD * CHECK_LD], bs[CHECK_LD * CHECK_LD], cs[CHECK_LD * CHECK_LD];
    int64_t want[CHECK_LD * CHECK_LD];
} check_buffers_t;

/* One shape and transposition. Entries lie in -255..255, so that every partial sum stays below 200 * 2^16 < 2^24: exact in f32 in any order. */
static bool check_one(check_buffers_t *w, vn_dgemm_fn dgemm, vn_sgemm_fn sgemm, check_shape_t s, bool ta, bool tb, bool accumulate,
                      vn_rng_t *rng) {
    const int64_t ld = CHECK_LD;
    for (int64_t i = 0; i < ld * ld; ++i) {
        w->as[i] = (float)(w->ad[i] = (double)vn_rng_below(rng, 511) - 255);
        w->bs[i] = (float)(w->bd[i] = (double)vn_rng_below(rng, 511) - 255);
        w->cd[i] = accumulate ? 3 : NAN; /* without accumulation old contents must not matter */
        w->cs[i] = accumulate ? 3 : NAN;
    }
    for (int i = 0; i < s.m; ++i)
        for (int j = 0; j < s.n; ++j) w->want[i * ld + j] = accumulate ? 3 : 0;
    for (int i = 0; i < s.m; ++i)
        for (int p = 0; p < s.k; ++p) {
            const int64_t x = (int64_t)w->ad[ta ? p * ld + i : i * ld + p];
            for (int j = 0; j < s.n; ++j) w->want[i * ld + j] += x * (int64_t)w->bd[tb ? j * ld + p : p * ld + j];
        }
    library_dgemm(dgemm, s.m, s.n, s.k, w->ad, ld, ta, w->bd, ld, tb, w->cd, ld, accumulate);
    library_sgemm(sgemm, s.m, s.n, s.k, w->as, ld, ta, w->bs, ld, tb, w->cs, ld, accumulate);
    for (int i = 0; i < s.m + 1; ++i)
        for (int j = 0; j < s.n + 1; ++j) {
            const double d = w->cd[i * ld + j], f = (double)w->cs[i * ld + j];
            const bool inside = i < s.m && j < s.n;
            if (inside && (d != (double)w->want[i * ld + j] || f != (double)w->want[i * ld + j])) return false;
            if (!inside && (accumulate ? d != 3 || f != 3 : !isnan(d) || !isnan(f))) return false;
        }
    return true;
}

static bool check_library(vn_dgemm_fn dgemm, vn_sgemm_fn sgemm) {
    check_buffers_t *w = vn_alloc(1, sizeof *w);
    if (!w) return false;
    vn_rng_t rng;
    vn_rng_seed(&rng, 20);
    bool good = true;
    const int shapes = (int)(sizeof check_shapes / sizeof *check_shapes);
    for (int i = 0; good && i < shapes; ++i) { /* small shapes in all forms, larger ones in turn */
        const bool small = i < 6;
        for (int form = small ? 0 : i % 8; good && form < 8; form += small ? 1 : 8)
            good = check_one(w, dgemm, sgemm, check_shapes[i], form & 1, form & 2, form & 4, &rng);
    }
    vn_free(w);
    return good;
}

/* ---- loading ---- */

static bool symbol(void *lib, const char *name, void *fn) {
    void *p = dlsym(lib, name);
    memcpy(fn, &p, sizeof p); /* object to function pointer, as POSIX promises */
    return p != NULL;
}

/* "OpenBLAS 0.3.21 SkylakeX" from the library's own words; the file name for other libraries. */
static void describe(void *lib, const char *file, char *out, size_t size) {
    char *(*config)(void), *(*core)(void);
    if (symbol(lib, "openblas_get_config", &config) && symbol(lib, "openblas_get_corename", &core)) {
        char head[64];
        snprintf(head, sizeof head, "%s", config());
        char *space = strchr(head, ' ');
        if (space && (space = strchr(space + 1, ' '))) *space = 0; /* name and version */
        snprintf(out, size, "%s %s", head, core());
    } else {
        snprintf(out, size, "%s", file);
    }
}

static void load(void) {
    static const char *const files[] = {"libopenblas.so.0", "libblas.so.3", "libcblas.so.3"};
    char refused[96] = "";
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
        void *lib = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (!lib) continue;
        vn_dgemm_fn dgemm;
        vn_sgemm_fn sgemm;
        void (*set_threads)(int);
        char name[96];
        describe(lib, files[i], name, sizeof name);
        if (symbol(lib, "openblas_set_num_threads", &set_threads)) set_threads(1);
        if (symbol(lib, "dgemm_", &dgemm) && symbol(lib, "sgemm_", &sgemm)) {
            if (check_library(dgemm, sgemm)) {
                blas.dgemm = dgemm;
                blas.sgemm = sgemm;
                snprintf(blas.text, sizeof blas.text, "%s dgemm, self-check passed", name);
                return;
            }
            snprintf(refused, sizeof refused, "%s", name);
        } /* the library stays loaded: closing one that started threads is not safe */
    }
    if (refused[0]) snprintf(blas.text, sizeof blas.text, "own kernel: %s failed its self-check", refused);
    else snprintf(blas.text, sizeof blas.text, "own kernel: no BLAS library found");
}

bool vn_blas_is_library(void) {
    pthread_once(&once, load);
    return blas.dgemm && !forced_own && !__atomic_load_n(&distrusted, __ATOMIC_ACQUIRE);
}

void vn_blas_substitute(vn_dgemm_fn dgemm, vn_sgemm_fn sgemm) {
    pthread_once(&once, load);
    if (dgemm) {
        blas.dgemm = dgemm;
        blas.sgemm = sgemm;
        snprintf(blas.text, sizeof blas.text, "substitute, for a test");
    } else {
        load();
    }
    distrusted = false;
}

void vn_blas_force_own(bool own) { forced_own = own; }

void vn_oracle_blas(char *out, size_t size) {
    pthread_once(&once, load);
    pthread_mutex_lock(&lock);
    if (size) snprintf(out, size, "%s", forced_own ? "own kernel: asked for" : blas.text);
    pthread_mutex_unlock(&lock);
}

/* ---- dispatch ---- */

static bool fits(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
    return m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX && ldc <= INT_MAX;
}

/* From here on nothing is left to the library; reports say why. */
static void distrust(const char *what, int64_t m, int64_t n, int64_t k) {
    pthread_mutex_lock(&lock);
    if (!distrusted) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(blas.text, ","), blas.text);
        snprintf(blas.text, sizeof blas.text, "own kernel: %s gave a wrong %s of %lld x %lld x %lld (random signs)", name, what,
                 (long long)m, (long long)n, (long long)k);
        __atomic_store_n(&distrusted, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

#define DISPATCH(NAME, TYPE)                                                                                                             \
    /* C = op(A) op(B) by the library where random signs agree, else by our own kernel */                                                \
    static void proven_##NAME(int64_t m, int64_t n, int64_t k, const TYPE *a, int64_t lda, bool ta, const TYPE *b, int64_t ldb, bool tb, \
                              TYPE *c, int64_t ldc) {                                                                                    \
        library_##NAME(blas.NAME, m, n, k, a, lda, ta, b, ldb, tb, c, ldc, false);                                                       \
        if (vn_plausible_##NAME(m, n, k, a, lda, ta, b, ldb, tb, c, ldc)) return;                                                        \
        vn_own_##NAME(m, n, k, a, lda, ta, b, ldb, tb, c, ldc, false);                                                                   \
        /* where even ours does not pass there was no memory to check: no accusation */                                                  \
        if (vn_plausible_##NAME(m, n, k, a, lda, ta, b, ldb, tb, c, ldc)) distrust(#NAME, m, n, k);                                      \
    }                                                                                                                                    \
    void vn_##NAME##_tile(int64_t m, int64_t n, int64_t k, const TYPE *a, int64_t lda, bool ta, const TYPE *b, int64_t ldb, bool tb,     \
                          TYPE *c, int64_t ldc, bool accumulate) {                                                                       \
        if (m <= 0 || n <= 0) return;                                                                                                    \
        size_t cells;                                                                                                                    \
        TYPE *sum = NULL;                                                                                                                \
        /* tiny products: a call costs more than the work; k = 0 has no library rule */                                                  \
        const bool library = (m * n >= 4096 || m * n * k >= 4096) && k > 0 && vn_blas_is_library() && fits(m, n, k, lda, ldb, ldc);      \
        if (library && accumulate && vn_size_mul((size_t)m, (size_t)n, &cells)) sum = vn_realloc(NULL, cells, sizeof *sum);              \
        if (library && !accumulate) {                                                                                                    \
            proven_##NAME(m, n, k, a, lda, ta, b, ldb, tb, c, ldc);                                                                      \
        } else if (sum) {                                                                                                                \
            proven_##NAME(m, n, k, a, lda, ta, b, ldb, tb, sum, n);                                                                      \
            for (int64_t i = 0; i < m; ++i)                                                                                              \
                for (int64_t j = 0; j < n; ++j) c[i * ldc + j] += sum[i * n + j];                                                        \
        } else {                                                                                                                         \
            vn_own_##NAME(m, n, k, a, lda, ta, b, ldb, tb, c, ldc, accumulate);                                                          \
        }                                                                                                                                \
        vn_free(sum);                                                                                                                    \
    }
DISPATCH(dgemm, double)
DISPATCH(sgemm, float)
