/* bench_gemm.c -- cost of a judged MatMul: oracle value, bound and variance of n^3 against the same library's sgemm, in one run.
 *
 * Usage: bench_gemm [n [repeats]]. Prints milliseconds (best of repeats) and ratios to sgemm on all of the process's threads.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/blas.h"
#include "vernier/oracle.h"

typedef void (*sgemm_fn)(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *,
                         const float *, const int *, const float *, float *, const int *, size_t, size_t);

static double best(double old, double t) { return old == 0 || t < old ? t : old; }

/* sgemm with the library's own threading where it has any, else our tile on one thread. */
typedef struct baseline {
    sgemm_fn sgemm;
    void (*threads)(int);
} baseline_t;

static baseline_t find_baseline(void) {
    baseline_t b = {0};
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void *p = lib ? dlsym(lib, "sgemm_") : NULL, *q = lib ? dlsym(lib, "openblas_set_num_threads") : NULL;
    memcpy(&b.sgemm, &p, sizeof p);
    memcpy(&b.threads, &q, sizeof q);
    return b;
}

static double time_sgemm(const baseline_t *with, int n, const float *a, const float *b, float *c) {
    const float one = 1, zero = 0;
    if (with->threads) with->threads(vn_threads_get());
    const double start = vn_now();
    if (with->sgemm) with->sgemm("N", "N", &n, &n, &n, &one, b, &n, a, &n, &zero, c, &n, 1, 1);
    else vn_sgemm_tile(n, n, n, a, n, false, b, n, false, c, n, false);
    const double t = vn_now() - start;
    if (with->threads) with->threads(1); /* as the oracle uses it */
    return t;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 1024, repeats = argc > 2 ? atoi(argv[2]) : 7;
    if (n < 1 || n > 8192 || repeats < 1) return fprintf(stderr, "usage: bench_gemm [n [repeats]]\n"), 2;
    vn_error_t err = {0};
    vn_model_t *m;
    const int64_t dims[2] = {n, n};
    const char *in[] = {"a", "b"}, *out[] = {"c"};
    vn_tensor_t *a, *b;
    vn_rng_t rng;
    vn_rng_seed(&rng, 1);
    vn_status_t s = vn_model_new(10, &m, &err);
    if (s == VN_OK) s = vn_model_set_opset(m, "", 21, &err);
    if (s == VN_OK) s = vn_graph_add_input(m->graph, "a", VN_F32, 2, dims, &err);
    if (s == VN_OK) s = vn_graph_add_input(m->graph, "b", VN_F32, 2, dims, &err);
    if (s == VN_OK) s = vn_graph_add_node(m->graph, "n", "MatMul", "", 2, in, 1, out, NULL, &err);
    if (s == VN_OK) s = vn_graph_add_output(m->graph, "c", VN_F32, 2, dims, &err);
    if (s == VN_OK) s = vn_model_finish(m, &err);
    if (s == VN_OK) s = vn_tensor_new(VN_F32, 2, dims, &a, &err);
    if (s == VN_OK) s = vn_tensor_new(VN_F32, 2, dims, &b, &err);
    if (s != VN_OK) return fprintf(stderr, "%s\n", err.text), 2;
    for (int64_t i = 0; i < a->count; ++i) {
        ((float *)a->data)[i] = (float)vn_rng_normal(&rng);
        ((float *)b->data)[i] = (float)vn_rng_normal(&rng);
    }
    float *c = vn_alloc((size_t)a->count, sizeof *c);
    if (!c) return 2;
    char blas[200];
    vn_oracle_blas(blas, sizeof blas);
    vn_contract_t contract;
    vn_contract_builtin("portable", &contract);
    vn_value_t *va = vn_value_tensor(a), *vb = vn_value_tensor(b);
    const vn_value_t *values[] = {va, vb};
    static const char *const names[] = {"value", "value + bound", "value + bound + variance"};
    const baseline_t with = find_baseline();
    double base = 0, t[3] = {0};
    for (int r = 0; r < repeats; ++r) { /* in turns, so that a busy machine slows all alike */
        base = best(base, time_sgemm(&with, n, a->data, b->data, c));
        for (int want = VN_WANT_VALUE; want <= VN_WANT_VARIANCE; ++want) {
            vn_ref_t ref = {0};
            const double start = vn_now();
            s = vn_oracle_node(m, &m->graph->nodes[0], values, NULL, &contract, want, &ref, &err);
            t[want] = best(t[want], vn_now() - start);
            vn_ref_free(&ref);
            if (s != VN_OK) return fprintf(stderr, "%s\n", err.text), 2;
        }
    }
    printf("%s, %d threads\nsgemm %d^3: %.2f ms\n", blas, vn_threads_get(), n, 1e3 * base);
    for (int want = VN_WANT_VALUE; want <= VN_WANT_VARIANCE; ++want)
        printf("%-26s %8.2f ms  %.2f x sgemm\n", names[want], 1e3 * t[want], t[want] / base);
    vn_value_free(va);
    vn_value_free(vb);
    vn_model_free(m);
    vn_free(c);
    return 0;
}
