/* bench_metrics.c -- metrics of two f32 arrays against copying one, in one run, on the same threads.
 *
 * Usage: bench_metrics [MiB per array [repeats]]. Bandwidth counts every byte that must cross the memory bus: metrics read two arrays, a
 * copy reads one and writes one. The arrays should be much larger than the caches.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vernier/judge.h"

typedef struct copy {
    unsigned char *to;
    const unsigned char *from;
} copy_t;

static void copy_range(void *ctx, int64_t begin, int64_t end) {
    const copy_t *c = ctx;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static double best(double old, double t) { return old == 0 || t < old ? t : old; }

int main(int argc, char **argv) {
    const int64_t mib = argc > 1 ? strtol(argv[1], NULL, 10) : 256;
    const int repeats = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 7;
    if (mib < 1 || mib > 8192 || repeats < 1) return fprintf(stderr, "usage: bench_metrics [MiB [repeats]]\n"), 2;
    const int64_t n = mib * (1 << 20) / 4;
    vn_error_t err = {0};
    vn_tensor_t *a = NULL, *b = NULL;
    if (vn_tensor_new(VN_F32, 1, &n, &a, &err) != VN_OK || vn_tensor_new(VN_F32, 1, &n, &b, &err) != VN_OK)
        return fprintf(stderr, "%s\n", err.text), 2;
    vn_rng_t rng;
    vn_rng_seed(&rng, 1);
    for (int64_t i = 0; i < n; ++i) {
        const float x = (float)(vn_rng_uniform(&rng) - 0.5);
        ((float *)a->data)[i] = x;
        ((float *)b->data)[i] = i % 3 ? x : x * (1 + 0x1p-22f);
    }
    double metrics = 0, copy = 0;
    vn_metrics_t m;
    for (int r = 0; r < repeats; ++r) {
        double start = vn_now();
        if (vn_metrics(a, b, &m, &err) != VN_OK) return fprintf(stderr, "%s\n", err.text), 2;
        metrics = best(metrics, vn_now() - start);
    }
    for (int r = 0; r < repeats; ++r) {
        copy_t c = {b->data, a->data};
        double start = vn_now();
        vn_parallel(n * 4, 1 << 20, copy_range, &c);
        copy = best(copy, vn_now() - start);
    }
    const double bytes = 8.0 * (double)n;
    printf("%d threads, %lld MiB per array, %lld unequal\n", vn_threads_get(), (long long)mib, (long long)m.unequal);
    printf("copy     %7.2f GB/s\nmetrics  %7.2f GB/s  %.0f %% of the copy\n", 1e-9 * bytes / copy, 1e-9 * bytes / metrics,
           100 * copy / metrics);
    vn_tensor_free(a);
    vn_tensor_free(b);
    return 0;
}
