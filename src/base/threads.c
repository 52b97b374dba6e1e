/* threads.c -- a parallel loop whose chunks, and so whose results, do not depend on the number of threads. */
#include "vernier/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

static atomic_int wanted;         /* 0 = not set */
static atomic_int online;         /* processors when first asked, 0 = not yet: the system's answer costs more than a small loop */
static _Thread_local bool inside; /* nested loops run in place */

void vn_threads_set(int n) { atomic_store(&wanted, n < 1 ? 0 : n > MAX_THREADS ? MAX_THREADS : n); }

int vn_threads_get(void) {
    int n = atomic_load(&wanted);
    if (n) return n;
    n = atomic_load(&online);
    if (n) return n;
    const long found = sysconf(_SC_NPROCESSORS_ONLN);
    n = found < 1 ? 1 : found > MAX_THREADS ? MAX_THREADS : (int)found;
    atomic_store(&online, n); /* whoever comes first or second: the same number */
    return n;
}

typedef struct job {
    int64_t n, grain;
    vn_range_fn fn;
    void *ctx;
    atomic_llong next;
} job_t;

static void work(job_t *job) {
    inside = true;
    for (;;) {
        int64_t begin = atomic_fetch_add(&job->next, job->grain);
        if (begin >= job->n) break;
        int64_t end = job->n - begin < job->grain ? job->n : begin + job->grain;
        job->fn(job->ctx, begin, end);
    }
    inside = false;
}

static void *thread_main(void *p) {
    work(p);
    return NULL;
}

void vn_parallel(int64_t n, int64_t grain, vn_range_fn fn, void *ctx) {
    if (n <= 0) return;
    if (grain < 1) grain = 1;
    if (grain > n) grain = n;
    int64_t chunks = (n - 1) / grain + 1;
    int threads = vn_threads_get();
    if (threads > chunks) threads = (int)chunks;
    if (inside || threads <= 1) { /* same chunks, in order */
        for (int64_t b = 0; b < n; b += grain) fn(ctx, b, n - b < grain ? n : b + grain);
        return;
    }
    job_t job = {.n = n, .grain = grain, .fn = fn, .ctx = ctx};
    pthread_t ids[MAX_THREADS];
    int started = 0;
    for (; started < threads - 1; ++started)
        if (pthread_create(&ids[started], NULL, thread_main, &job) != 0) break; /* fewer threads, same result */
    work(&job);
    for (int i = 0; i < started; ++i) pthread_join(ids[i], NULL);
}

double vn_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
