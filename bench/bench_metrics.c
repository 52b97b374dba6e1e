/* bench_metrics.c -- metrics of two f32 arrays, and the cheap rungs of the judge, against copying, in one run on the same threads.
 *
 * Usage: bench_metrics [MiB per f32 array [repeats]]. Bandwidth counts every byte that must cross the memory bus: metrics read two arrays; the
 * rungs (equality, classes, bound, fingerprint, given the oracle's planes) read the actual and the rounded result and three planes of f64; a
 * copy reads one array and writes one. The arrays should be much larger than the caches. Best of the repeats, taken in turns.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge/ladder.h"

typedef struct copy {
    unsigned char *to;
    const unsigned char *from;
} copy_t;

static void copy_range(void *ctx, int64_t begin, int64_t end) {
    const copy_t *c = ctx;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

static double best(double old, double t) { return old == 0 || t < old ? t : old; }

static vn_tensor_t *tensor(vn_dtype_t t, int64_t n) {
    vn_tensor_t *x = NULL;
    vn_error_t err;
    if (vn_tensor_new(t, 1, &n, &x, &err) == VN_OK) return x;
    fprintf(stderr, "%s\n", err.text);
    exit(2);
}

/* Two results of one type, every third element of the second a little off, and the planes of an oracle around the first. */
typedef struct pair {
    vn_tensor_t *due, *actual, *planes[3];
    vn_ref_t ref;
} pair_t;

static pair_t pair_of(vn_dtype_t t, int64_t n) {
    pair_t p = {.due = tensor(t, n), .actual = tensor(t, n)};
    vn_rng_t rng;
    vn_rng_seed(&rng, 1);
    const double u = vn_format_info(vn_format_of(t))->u;
    for (int k = 0; k < 3; ++k) p.planes[k] = tensor(VN_F64, n);
    p.ref = (vn_ref_t){.dtype = t, .rank = 1, .dims = {n}, .count = n, .tensor = p.due, .terms = 64};
    p.ref.value = p.planes[0]->data;
    p.ref.bound = p.planes[1]->data;
    p.ref.var = p.planes[2]->data;
    for (int64_t i = 0; i < n; ++i) {
        const double x = vn_rng_uniform(&rng) - 0.5;
        vn_tensor_set_f64(p.due, i, x);
        vn_tensor_set_f64(p.actual, i, i % 3 ? x : x * (1 + 2 * u));
        p.ref.value[i] = x;
        p.ref.bound[i] = 64 * u * fabs(x);
        p.ref.var[i] = u * u * x * x;
    }
    return p;
}

static void pair_free(pair_t *p) {
    vn_tensor_free(p->due);
    vn_tensor_free(p->actual);
    for (int k = 0; k < 3; ++k) vn_tensor_free(p->planes[k]);
}

static double copying(pair_t *p) {
    copy_t c = {p->planes[1]->data, p->planes[0]->data};
    const double start = vn_now();
    vn_parallel(p->ref.count * 8, 1 << 20, copy_range, &c);
    return vn_now() - start;
}

int main(int argc, char **argv) {
    const int64_t mib = argc > 1 ? strtol(argv[1], NULL, 10) : 128;
    const int repeats = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 9;
    if (mib < 1 || mib > 8192 || repeats < 1) return fprintf(stderr, "usage: bench_metrics [MiB [repeats]]\n"), 2;
    const int64_t n = mib * (1 << 20) / 4;
    vn_error_t err = {0};
    printf("%d threads, %lld million elements\n", vn_threads_get(), (long long)(n >> 20));
    for (int kind = 0; kind < 2; ++kind) {
        const vn_dtype_t t = kind ? VN_BF16 : VN_F32;
        const double size = vn_dtype_bits(t) / 8.0;
        pair_t p = pair_of(t, n);
        double metrics = 0, rungs = 0, copy = 0;
        vn_metrics_t both;
        vn_measure_t m;
        for (int r = 0; r < repeats; ++r) {
            double start = vn_now();
            if (t == VN_F32 && vn_metrics(p.due, p.actual, &both, &err) != VN_OK) return fprintf(stderr, "%s\n", err.text), 2;
            metrics = best(metrics, vn_now() - start);
            start = vn_now();
            if (vn_measure(&p.ref, p.actual, &m, &err) != VN_OK) return fprintf(stderr, "%s\n", err.text), 2;
            const vn_fingerprint_t f = vn_fingerprint(&p.ref, &m, VN_CLASS_CONTRACTION, 1e-6);
            rungs = best(rungs, vn_now() - start);
            if (m.outside || f.verdict == VN_PRINT_VOID) return fprintf(stderr, "the rungs do not see what they should\n"), 2;
        }
        /* the copy writes a plane: after all that reads it */
        for (int r = 0; r < repeats; ++r) copy = best(copy, copying(&p));
        const double speed = 16.0 * (double)n / copy;
        printf("%-5s copy                      %6.2f GB/s\n", vn_dtype_name(t), 1e-9 * speed);
        if (t == VN_F32)
            printf("%-5s metrics                   %6.2f GB/s  %3.0f %% of the copy\n", vn_dtype_name(t),
                   1e-9 * 2 * size * (double)n / metrics, 100 * 2 * size * (double)n / metrics / speed);
        printf("%-5s equality to fingerprint   %6.2f GB/s  %3.0f %% of the copy\n", vn_dtype_name(t),
               1e-9 * (2 * size + 24) * (double)n / rungs, 100 * (2 * size + 24) * (double)n / rungs / speed);
        pair_free(&p);
    }
    return 0;
}
