/* bench_schedule.c -- rebuilding summation trees: time of the host apart from that of the sums which are asked, processor seconds of one thread.
 *
 * Usage: bench_schedule [repeats]. The sums run here, in C: a chain, 16 lanes folded by neighbours, and what NumPy does (8 accumulators up to 128
 * terms, halves above). A question (i, j) is one sum of n terms: +2^60 at i, -2^60 at j, 2^-20 elsewhere. `all pairs` is the full matrix, asked of
 * the tree. Best of the repeats. Every tree is compared with the one that its text names.
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

static float chain(const float *x, int n) {
    float sum = x[0];
    for (int k = 1; k < n; ++k) sum += x[k];
    return sum;
}

static float lanes(const float *x, int n) {
    float lane[16];
    for (int l = 0; l < 16; ++l) lane[l] = x[l];
    for (int k = 16; k < n; k += 16)
        for (int l = 0; l < 16; ++l) lane[l] += x[k + l];
    for (int width = 8; width; width /= 2)
        for (int l = 0; l < width; ++l) lane[l] = lane[2 * l] + lane[2 * l + 1];
    return lane[0];
}

static float numpy(const float *x, int n) {
    if (n < 8) return chain(x, n);
    if (n > 128) {
        const int half = n / 2 - n / 2 % 8;
        return numpy(x, half) + numpy(x + half, n - half); /* depth log2 n */
    }
    float lane[8];
    for (int l = 0; l < 8; ++l) lane[l] = x[l];
    int k = 8;
    for (; k + 8 <= n; k += 8)
        for (int l = 0; l < 8; ++l) lane[l] += x[k + l];
    float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; k < n; ++k) sum += x[k];
    return sum;
}

typedef struct kernel {
    const char *name;
    float (*sum)(const float *x, int n);
} kernel_t;
static const kernel_t kernels[] = {{"chain", chain}, {"16 lanes", lanes}, {"NumPy's sum", numpy}};

typedef struct asked {
    float (*sum)(const float *x, int n);
    float *x;
    int n;
    int64_t questions, calls;
    double seconds;
} asked_t;

static vn_status_t answer(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    asked_t *a = context;
    const double start = now();
    (void)err;
    for (int64_t p = 0; p < pairs; ++p) {
        a->x[i[p]] = 0x1p60f;
        a->x[j[p]] = -0x1p60f;
        l[p] = a->n - (double)a->sum(a->x, a->n) * 0x1p20;
        a->x[i[p]] = a->x[j[p]] = 0x1p-20f;
    }
    a->questions += pairs;
    a->calls++;
    a->seconds += now() - start;
    return VN_OK;
}

static _Noreturn void fail(const char *what, const char *why) {
    fprintf(stderr, "bench_schedule: %s: %s\n", what, why);
    exit(2);
}

static int by_pairs(const kernel_t *k, int n, int repeats) {
    double host = INFINITY, callback = 0;
    asked_t a = {.sum = k->sum, .x = malloc((size_t)n * sizeof(float)), .n = n};
    vn_tree_t *tree = NULL;
    vn_error_t err = {0};
    vn_violation_t v;
    if (!a.x) fail(k->name, "no memory");
    for (int m = 0; m < n; ++m) a.x[m] = 0x1p-20f;
    for (int r = 0; r < repeats; ++r) {
        a.questions = a.calls = 0;
        a.seconds = 0;
        vn_tree_free(tree);
        const double start = now();
        if (vn_rebuild_pairs(n, 1 + (uint64_t)r, 64, answer, &a, &tree, &v, &err) != VN_OK || !tree)
            fail(k->name, tree ? err.text : v.what);
        const double spent = now() - start - a.seconds;
        if (spent < host) {
            host = spent;
            callback = a.seconds;
        }
    }
    double start = now();
    char *text;
    if (vn_schedule_compress(tree, &text, &err) != VN_OK) fail(k->name, err.text);
    const double compress = now() - start;
    vn_tree_t *back;
    if (vn_schedule_expand(text, &back, &err) != VN_OK || !vn_tree_equal(tree, back)) fail(k->name, "the text names another tree");
    printf("%-12s %6d terms  %8lld questions %4lld rounds  host %8.3f ms  sums %9.2f ms  text %6.3f ms  %.48s\n", k->name, n,
           (long long)a.questions, (long long)a.calls, 1e3 * host, 1e3 * callback, 1e3 * compress, text);
    vn_tree_free(back);
    vn_tree_free(tree);
    vn_free(text);
    free(a.x);
    return 0;
}

static int all_pairs(const char *text, int repeats) {
    vn_tree_t *tree, *again = NULL;
    vn_error_t err = {0};
    vn_violation_t v;
    if (vn_schedule_expand(text, &tree, &err) != VN_OK) fail(text, err.text);
    const size_t n = (size_t)tree->n;
    uint32_t *l = malloc(n * n * sizeof *l);
    double *asked = malloc(n * n * sizeof *asked), best = INFINITY;
    if (!l || !asked || vn_tree_matrix(tree, l, &err) != VN_OK) fail(text, "no memory");
    for (size_t k = 0; k < n * n; ++k) asked[k] = l[k];
    for (int r = 0; r < repeats; ++r) {
        vn_tree_free(again);
        const double start = now();
        if (vn_rebuild_matrix(tree->n, asked, &again, &v, &err) != VN_OK || !again) fail(text, again ? err.text : v.what);
        if (now() - start < best) best = now() - start;
    }
    if (!vn_tree_equal(tree, again)) fail(text, "another tree came back");
    printf("all pairs    %6zu terms  %8zu answers   host %8.3f ms  %s\n", n, n * (n - 1) / 2, 1e3 * best, text);
    vn_tree_free(again);
    vn_tree_free(tree);
    free(l);
    free(asked);
    return 0;
}

int main(int argc, char **argv) {
    static const int sizes[] = {1024, 4096, 8192, 16384, 32768};
    static const char *const matrices[] = {"256||S", "1024||S", "1024|0+64*16+16*1|A<64{S}", "1024||S<16{F}", "4096||S<128{S}"};
    const int repeats = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
    if (repeats < 1) return fprintf(stderr, "usage: bench_schedule [repeats]\n"), 2;
    for (size_t k = 0; k < sizeof matrices / sizeof *matrices; ++k)
        if (all_pairs(matrices[k], repeats)) return 2;
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; ++k)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
            if (by_pairs(&kernels[k], sizes[s], s < 3 ? repeats : 1)) return 2;
    return 0;
}
