/* bench_replay.c -- replay of products and of matrix units: multiply-adds a second of one core.
 *
 *   bench_replay [K]      K x K x K, default 1024; processor seconds, the least of three runs
 * Wanted: 1 GMAC/s for chains in f32, 0.5 for the fused dot-adds of a matrix unit.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vernier/schedule.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static _Noreturn void fail(const char *why) {
    fprintf(stderr, "bench_replay: %s\n", why);
    exit(1);
}

static void line(const char *what, double macs, double seconds, double wanted) {
    printf("%-64s %7.3f s %7.2f GMAC/s  (wanted %.1f)\n", what, seconds, macs / seconds * 1e-9, wanted);
}

/* Rounding of operands and flushing beside the plain chain: what OpenVINO's bfloat16 products need. */
static int products(int k) {
    static const struct {
        const char *text, *arithmetic;
    } cases[] = {{"S", "fma acc=f32"},
                 {"S", "mul+add acc=f32"},
                 {"S<128{S}", "fma acc=f32"},
                 {"A<64{S}", "fma acc=f32"},
                 {"S", "fma acc=f32 operands=bf16-rne daz ftz"}};
    const size_t n = (size_t)k * (size_t)k;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *out = malloc(n * sizeof *out);
    if (!a || !b || !out) fail("no memory");
    for (size_t i = 0; i < n; ++i) {
        a[i] = (float)(i % 97) - 48;
        b[i] = (float)(i % 89) - 44;
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
        char text[80], what[160];
        vn_tree_t *tree;
        vn_replay_t *replay;
        vn_arithmetic_t arithmetic;
        vn_error_t err = {0};
        double best = INFINITY;
        snprintf(text, sizeof text, "%d||%s", k, cases[c].text);
        if (vn_schedule_expand(text, &tree, &err) != VN_OK || vn_arithmetic_parse(cases[c].arithmetic, &arithmetic, &err) != VN_OK ||
            vn_replay_compile(tree, &arithmetic, &replay, &err) != VN_OK)
            fail(err.text);
        const vn_plane_t pa = {a, k, 1}, pb = {b, k, 1}, none = {0};
        for (int run = 0; run < 3; ++run) {
            const double begin = now();
            if (vn_replay_product(replay, k, k, pa, pb, none, out, k, &err) != VN_OK) fail(err.text);
            best = fmin(best, now() - begin);
        }
        snprintf(what, sizeof what, "%s, %s", text, cases[c].arithmetic);
        line(what, (double)n * k, best, 1);
        vn_replay_free(replay);
        vn_tree_free(tree);
    }
    free(a);
    free(b);
    free(out);
    return 0;
}

static int units(int k) {
    static const char *const devices[] = {"V100", "A100", "H100"};
    const int64_t columns = 256, rows = 64;
    double *a = malloc((size_t)k * sizeof *a), *b = malloc((size_t)(k * columns) * sizeof *b), *c = malloc((size_t)columns * sizeof *c);
    if (!a || !b || !c) fail("no memory");
    for (int i = 0; i < k; ++i) a[i] = (i % 31 - 15) / 16.0;
    for (int64_t i = 0; i < k * columns; ++i) b[i] = (double)(i % 29 - 14) / 8;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; ++d) {
        const vn_fused_unit_t *u = vn_fused_unit(devices[d], VN_FMT_F16, VN_FMT_F32);
        double best = INFINITY;
        vn_error_t err = {0};
        for (int run = 0; run < 3; ++run) {
            const double begin = now();
            for (int64_t r = 0; r < rows; ++r) {
                memset(c, 0, (size_t)columns * sizeof *c);
                if (vn_fused_dot(u, k, columns, a, b, columns, c, c, &err) != VN_OK) fail(err.text);
            }
            best = fmin(best, now() - begin);
        }
        char what[80];
        snprintf(what, sizeof what, "%s, groups of %d, %d bits", devices[d], u->group, u->bits);
        line(what, (double)(k * columns * rows), best, 0.5);
    }
    free(a);
    free(b);
    free(c);
    return 0;
}

int main(int argc, char **argv) {
    const int k = argc > 1 ? atoi(argv[1]) : 1024;
    if (k < 1 || k > 8192) return fprintf(stderr, "bench_replay: K from 1 to 8192\n"), 2;
    vn_threads_set(1);
    return products(k) || units(k);
}
