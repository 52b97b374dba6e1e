/* Rebuilding trees of simulated kernels: sums in f32 that are really computed, with masks and units as a back end would get them.
 * Claims SCHED-3, SCHED-4. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/schedule.h"

static float chain(const float *x, int n, int step) {
    float sum = x[0];
    for (int k = step; k < n; k += step) sum += x[k];
    return sum;
}

static float sequential(const float *x, int n) { return chain(x, n, 1); }

static float from_the_right(const float *x, int n) {
    float sum = x[n - 1];
    for (int k = n - 2; k >= 0; --k) sum = x[k] + sum;
    return sum;
}

static float eight_lanes(const float *x, int n) {
    float lane[8];
    for (int l = 0; l < 8; ++l) lane[l] = chain(x + l, n - l, 8);
    for (int width = 4; width; width /= 2)
        for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
    return lane[0];
}

static float split_k(const float *x, int n) { /* four parts, added one after the other */
    float sum = sequential(x, n / 4);
    for (int p = 1; p < 4; ++p) sum += sequential(x + p * (n / 4), n / 4);
    return sum;
}

static float numpy(const float *x, int n) {
    if (n < 8) return sequential(x, n);
    if (n > 128) {
        const int half = n / 2 - n / 2 % 8;
        return numpy(x, half) + numpy(x + half, n - half);
    }
    float lane[8];
    int k = 8;
    for (int l = 0; l < 8; ++l) lane[l] = x[l];
    for (; k + 8 <= n; k += 8)
        for (int l = 0; l < 8; ++l) lane[l] += x[k + l];
    float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; k < n; ++k) sum += x[k];
    return sum;
}

/* A matrix unit: accumulator and 16 terms are cut to 25 bits below the largest, added exactly, and the sum is cut to f32. */
static float matrix_unit(const float *x, int n) {
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        double most = fabs((double)sum), exact = 0;
        for (int p = k; p < k + 16 && p < n; ++p) most = fmax(most, fabs((double)x[p]));
        if (most == 0) continue;
        const double unit = ldexp(1, ilogb(most) - 25);
        exact = trunc((double)sum / unit);
        for (int p = k; p < k + 16 && p < n; ++p) exact += trunc((double)x[p] / unit);
        sum = (float)(exact * unit);
    }
    return sum;
}

/* Blocks of 32 arrive in any order: atomic additions. */
static vn_rng_t arrival;
static float atomics(const float *x, int n) {
    int order[256];
    const int blocks = (n + 31) / 32;
    float sum = 0;
    for (int b = 0; b < blocks; ++b) {
        const int p = (int)vn_rng_below(&arrival, (uint64_t)b + 1);
        order[b] = order[p];
        order[p] = b;
    }
    for (int b = 0; b < blocks; ++b) {
        const int at = order[b] * 32;
        sum += sequential(x + at, n - at < 32 ? n - at : 32);
    }
    return sum;
}

/* Adds what is large first: the order depends on the values. */
static int falling(const void *a, const void *b) {
    const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x < y) - (x > y);
}
static float sorting(const float *x, int n) {
    float copy[4096];
    memcpy(copy, x, (size_t)n * sizeof *copy);
    qsort(copy, (size_t)n, sizeof *copy, falling);
    return sequential(copy, n);
}

static float doubles(const float *x, int n) { /* masks up to 2^53 units do not swamp them */
    double sum = 0;
    for (int k = 0; k < n; ++k) sum += (double)x[k];
    return (float)sum;
}

typedef struct kernel {
    float (*sum)(const float *x, int n);
    float *x;
    int n;
    float mask, unit;
    int64_t asked, calls;
} kernel_t;

static vn_status_t answer(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    kernel_t *k = context;
    (void)err;
    k->calls++;
    k->asked += pairs;
    for (int64_t p = 0; p < pairs; ++p) {
        k->x[i[p]] = k->mask;
        k->x[j[p]] = -k->mask;
        l[p] = k->n - (double)k->sum(k->x, k->n) / (double)k->unit;
        k->x[i[p]] = k->x[j[p]] = k->unit;
    }
    return VN_OK;
}

static kernel_t kernel(float (*sum)(const float *, int), int n) {
    kernel_t k = {.sum = sum, .x = malloc((size_t)n * sizeof(float)), .n = n, .mask = 0x1p60f, .unit = 0x1p-20f};
    for (int m = 0; m < n && k.x; ++m) k.x[m] = k.unit;
    return k;
}

static void expect(vn_test_t *t, float (*sum)(const float *, int), int n, const char *due) {
    kernel_t k = kernel(sum, n);
    vn_tree_t *tree, *all;
    vn_error_t err = {0};
    vn_violation_t v;
    char *text;
    VN_ASSERT(t, k.x);
    VN_ASSERT(t, vn_rebuild_pairs(n, t->seed, 64, answer, &k, &tree, &v, &err) == VN_OK);
    if (!tree) vn_test_fail(t, __FILE__, __LINE__, "%s: %s", due, v.what);
    VN_ASSERT(t, vn_schedule_compress(tree, &text, &err) == VN_OK);
    if (strcmp(text, due) != 0) vn_test_fail(t, __FILE__, __LINE__, "'%s', not '%s'", text, due);
    if (n <= 256) { /* the matrix of really asked answers gives the same tree */
        double *l = malloc((size_t)n * (size_t)n * sizeof *l);
        VN_ASSERT(t, l);
        for (int32_t i = 0; i < n; ++i)
            for (int32_t j = i + 1; j < n; ++j) answer(&k, 1, &i, &j, &l[i * n + j], &err);
        VN_ASSERT(t, vn_rebuild_matrix(n, l, &all, &v, &err) == VN_OK && all && vn_tree_equal(all, tree));
        vn_tree_free(all);
        free(l);
    }
    vn_tree_free(tree);
    vn_free(text);
    free(k.x);
}

VN_TEST(rebuild, simulated_kernels) {
    expect(t, sequential, 1, "1||.");
    expect(t, sequential, 2, "2||S");
    expect(t, sequential, 200, "200||S");
    expect(t, from_the_right, 200, "200||R");
    expect(t, eight_lanes, 200, "200|0+25*8+2*4+2*2+2*1|A<25{S}");
    expect(t, split_k, 256, "256||S<64{S}");
    expect(t, numpy, 100, "100|0+12*8+8*1+2*96|S[96:A<12{S},4*1]");
    expect(t, numpy, 1024, "1024|0+16*8+8*1+8*128|A<16{S}"); /* 8 blocks of 8 lanes, all joined pairwise */
    expect(t, matrix_unit, 256, "256||G16");                 /* the accumulator is aligned with its group */
}

VN_TEST(rebuild, many_terms) {
    const int n = vn_test_full() ? 4096 : 1024;
    kernel_t k = kernel(split_k, n);
    vn_tree_t *tree;
    vn_error_t err = {0};
    vn_violation_t v;
    VN_ASSERT(t, vn_rebuild_pairs(n, t->seed, 64, answer, &k, &tree, &v, &err) == VN_OK && tree);
    VN_ASSERT(t, vn_tree_height(tree) == n / 4 + 2 && k.asked < 8 * n && k.calls < 60);
    vn_tree_free(tree);
    free(k.x);
}

/* One node of all terms: an adder for everything. n(n-1)/2 questions are needed to know, but not n rounds. */
static float at_once(const float *x, int n) {
    double most = 0, exact = 0;
    for (int k = 0; k < n; ++k) most = fmax(most, fabs((double)x[k]));
    const double unit = ldexp(1, ilogb(most) - 25);
    for (int k = 0; k < n; ++k) exact += trunc((double)x[k] / unit);
    return (float)(exact * unit);
}

VN_TEST(rebuild, wide_nodes) {
    static const int sizes[] = {3, 4, 33, 200};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
        const int n = sizes[s];
        kernel_t k = kernel(at_once, n);
        vn_tree_t *tree = NULL;
        vn_error_t err = {0};
        vn_violation_t v;
        VN_ASSERT(t, k.x && vn_rebuild_pairs(n, t->seed, 30, answer, &k, &tree, &v, &err) == VN_OK && tree);
        VN_ASSERT(t, tree->nodes == 1 && vn_tree_widest(tree) == n);
        VN_ASSERT(t, k.calls <= 8 + n / 32 && k.asked <= (int64_t)n * n / 2 + 100);
        vn_tree_free(tree);
        free(k.x);
    }
}

static void refuse(vn_test_t *t, const char *label, float (*sum)(const float *, int), int n, float mask, unsigned kinds) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        kernel_t k = kernel(sum, n);
        vn_tree_t *tree;
        vn_error_t err = {0};
        vn_violation_t v;
        k.mask = mask;
        VN_ASSERT(t, vn_rebuild_pairs(n, seed, 64, answer, &k, &tree, &v, &err) == VN_OK);
        if (tree) vn_test_fail(t, __FILE__, __LINE__, "%s, seed %d: a tree was accepted", label, (int)seed);
        if (!(kinds >> v.kind & 1)) vn_test_fail(t, __FILE__, __LINE__, "%s: '%s', %s", label, vn_violation_name(v.kind), v.what);
        VN_ASSERT(t, *v.what && k.calls < 30); /* seen early: a wrong back end is not asked n^2 questions */
        free(k.x);
    }
}

VN_TEST(rebuild, kernels_without_a_tree) {
    vn_rng_seed(&arrival, t->seed);
    refuse(t, "atomics", atomics, 128, 0x1p60f, 1u << VN_TREE_NONDETERMINISTIC);
    refuse(t, "atomics", atomics, 1024, 0x1p60f, 1u << VN_TREE_NONDETERMINISTIC);
    /* both masks come first wherever they stand: each pair says that it meets first, and no node is that small */
    refuse(t, "sorting", sorting, 100, 0x1p60f, 1u << VN_TREE_ULTRAMETRIC | 1u << VN_TREE_RANGE);
    refuse(t, "doubles", doubles, 100, 0x1p20f, 1u << VN_TREE_ULTRAMETRIC | 1u << VN_TREE_RANGE);
}

/* Terms that cannot be negative: 1 at t, 0.4 ulp at i and j. They round up together, and vanish one by one. */
static vn_status_t answer_triplets(void *context, int64_t count, const int32_t *x, const int32_t *i, const int32_t *j, uint8_t *yes,
                                   vn_error_t *err) {
    kernel_t *k = context;
    (void)err;
    k->calls++;
    k->asked += count;
    for (int64_t p = 0; p < count; ++p) {
        k->x[x[p]] = 1;
        k->x[i[p]] = k->x[j[p]] = 0.4f * 0x1p-23f;
        yes[p] = k->sum(k->x, k->n) > 1;
        k->x[x[p]] = k->x[i[p]] = k->x[j[p]] = 0;
    }
    return VN_OK;
}

VN_TEST(rebuild, sums_without_negative_terms) {
    static const struct {
        float (*sum)(const float *x, int n);
        int n;
        const char *due;
    } cases[] = {{sequential, 64, "64||S"},
                 {from_the_right, 100, "100||R"},
                 {eight_lanes, 256, "256|0+32*8+2*4+2*2+2*1|A<32{S}"},
                 {split_k, 100, "100||S<25{S}"},
                 {numpy, 512, "512|0+16*8+8*1+4*128|A<16{S}"},
                 {sequential, 3, "3||S"},
                 {sequential, 2, "2||S"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
        kernel_t k = kernel(cases[c].sum, cases[c].n);
        vn_tree_t *tree;
        vn_error_t err = {0};
        vn_violation_t v;
        char *text;
        VN_ASSERT(t, k.x);
        for (int m = 0; m < k.n; ++m) k.x[m] = 0;
        VN_ASSERT(t, vn_rebuild_triplets(k.n, t->seed, 100, answer_triplets, &k, &tree, &v, &err) == VN_OK);
        if (!tree) vn_test_fail(t, __FILE__, __LINE__, "%s: %s", cases[c].due, v.what);
        VN_ASSERT(t, vn_schedule_compress(tree, &text, &err) == VN_OK && strcmp(text, cases[c].due) == 0);
        VN_ASSERT(t, k.calls < 60);
        vn_tree_free(tree);
        vn_free(text);
        free(k.x);
    }
}

/* All three pairs meet before the third: a wide accumulator. No pair does: a fused node. */
static vn_status_t always(void *context, int64_t count, const int32_t *x, const int32_t *i, const int32_t *j, uint8_t *yes,
                          vn_error_t *err) {
    (void)x, (void)i, (void)j, (void)err;
    memset(yes, *(const int *)context, (size_t)count);
    return VN_OK;
}

VN_TEST(rebuild, triplets_without_a_tree) {
    vn_tree_t *tree;
    vn_error_t err = {0};
    vn_violation_t v;
    int yes = 1;
    VN_ASSERT(t, vn_rebuild_triplets(40, t->seed, 20, always, &yes, &tree, &v, &err) == VN_OK && !tree && v.kind == VN_TREE_WIDE);
    yes = 0;
    VN_ASSERT(t, vn_rebuild_triplets(40, t->seed, 20, always, &yes, &tree, &v, &err) == VN_OK && !tree && v.kind == VN_TREE_ULTRAMETRIC);
    VN_ASSERT(t, v.k >= 0 && *v.what);
}

static vn_status_t broken(void *context, int64_t pairs, const int32_t *i, const int32_t *j, double *l, vn_error_t *err) {
    (void)context, (void)pairs, (void)i, (void)j, (void)l;
    return vn_fail(err, VN_ERR_CRASHED, "the worker ended");
}

VN_TEST(rebuild, errors_pass_through) {
    vn_tree_t *tree;
    vn_error_t err = {0};
    vn_violation_t v;
    double nan_matrix[9];
    for (int k = 0; k < 9; ++k) nan_matrix[k] = NAN;
    VN_ASSERT(t, vn_rebuild_pairs(9, 1, 4, broken, NULL, &tree, &v, &err) == VN_ERR_CRASHED && !tree);
    VN_ASSERT(t, vn_rebuild_pairs(0, 1, 4, broken, NULL, &tree, &v, &err) == VN_ERR_RANGE && !tree);
    VN_ASSERT(t, vn_rebuild_matrix(3, nan_matrix, &tree, &v, &err) == VN_OK && !tree && v.kind == VN_TREE_RANGE);
}

VN_TEST(rebuild, without_memory) {
    const int n = 40;
    double *l = malloc((size_t)n * (size_t)n * sizeof *l);
    kernel_t k = kernel(split_k, n), plain = kernel(split_k, n);
    vn_error_t err = {0};
    VN_ASSERT(t, k.x && plain.x && l);
    for (int32_t i = 0; i < n; ++i)
        for (int32_t j = i + 1; j < n; ++j) answer(&k, 1, &i, &j, &l[i * n + j], &err);
    for (int m = 0; m < n; ++m) plain.x[m] = 0;
    for (int way = 0; way < 3; ++way) {
        bool done = false;
        for (int64_t at = 1; !done && at < 300; ++at) {
            vn_tree_t *tree = NULL;
            vn_violation_t v;
            vn_alloc_fail_at(at);
            const vn_status_t st = way == 0   ? vn_rebuild_matrix(n, l, &tree, &v, &err)
                                   : way == 1 ? vn_rebuild_pairs(n, 1, 100, answer, &k, &tree, &v, &err)
                                              : vn_rebuild_triplets(n, 1, 100, answer_triplets, &plain, &tree, &v, &err);
            vn_alloc_fail_at(0);
            done = st == VN_OK;
            VN_ASSERT(t, done ? tree != NULL : st == VN_ERR_NOMEM && tree == NULL);
            vn_tree_free(tree);
        }
        VN_ASSERT(t, done);
    }
    free(l);
    free(k.x);
    free(plain.x);
}

VN_TEST_MAIN(VN_CASE(rebuild, simulated_kernels), VN_CASE(rebuild, many_terms), VN_CASE(rebuild, wide_nodes),
             VN_CASE(rebuild, kernels_without_a_tree), VN_CASE(rebuild, sums_without_negative_terms),
             VN_CASE(rebuild, triplets_without_a_tree), VN_CASE(rebuild, errors_pass_through), VN_CASE(rebuild, without_memory))
