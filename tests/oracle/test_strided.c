/* strided.h against a twin that visits one element at a time: any strides, sizes of one to sixteen bytes, merged axes, blocks, threads. */
#include "oracle/strided.h"

#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"

/* Copies element by element through coordinates got by division. */
static void twin(const vn_strided_t *s, const unsigned char *src, unsigned char *dst) {
    int64_t n = 1;
    for (int k = 0; k < s->rank; ++k) n *= s->dims[k];
    for (int64_t i = 0; i < n; ++i) {
        int64_t rest = i, from = 0, to = 0;
        for (int k = s->rank - 1; k >= 0; --k) {
            const int64_t c = rest % s->dims[k];
            rest /= s->dims[k];
            from += c * s->src[k];
            to += c * s->dst[k];
        }
        memcpy(dst + to * (int64_t)s->size, src + from * (int64_t)s->size, s->size);
    }
}

/* A random layout: the target dense in some order of axes, the source with gaps, repeats and reversals. */
static int64_t layout(vn_rng_t *rng, vn_strided_t *s, int64_t limit, int64_t *offset, int64_t *room) {
    const int rank = (int)vn_rng_below(rng, 6);
    int order[6];
    int64_t total = 1, reach = 1;
    *offset = 0;
    *s = (vn_strided_t){.size = (size_t[]){1, 2, 3, 4, 8, 16, 24}[vn_rng_below(rng, 7)]};
    for (int k = 0; k < rank; ++k) order[k] = k;
    for (int k = rank - 1; k > 0; --k) {
        const int j = (int)vn_rng_below(rng, (uint64_t)k + 1), swap = order[k];
        order[k] = order[j];
        order[j] = swap;
    }
    int64_t dims[6], src[6], dst[6];
    for (int k = 0; k < rank; ++k) {
        const int64_t most = limit / total;
        dims[k] = 1 + (int64_t)vn_rng_below(rng, (uint64_t)(most < 1 ? 1 : most < 70 ? most : 70));
        total *= dims[k];
    }
    for (int i = rank - 1, step = 1; i >= 0; --i) { /* the source: another order of the axes, sometimes wider, 0 or backwards */
        const int k = order[i];
        const int kind = (int)vn_rng_below(rng, 8);
        src[k] = kind == 0 ? 0 : step;
        if (kind == 1) src[k] = -src[k];
        if (src[k] < 0) *offset += -src[k] * (dims[k] - 1);
        reach += (dims[k] - 1) * step;
        step = (int)(step * dims[k] + (kind == 2));
    }
    int64_t step = 1;
    for (int k = rank - 1; k >= 0; --k) {
        dst[k] = step;
        step *= dims[k];
    }
    for (int k = 0; k < rank; ++k) vn_strided_axis(s, dims[k], src[k], dst[k]);
    *room = reach + *offset;
    return total;
}

VN_TEST(strided, is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 250 * vn_test_scale(t); ++n) {
        vn_strided_t s;
        int64_t offset, room;
        const int64_t total = layout(&rng, &s, n % 25 ? 2000 : 40000, &offset, &room);
        const size_t bytes = (size_t)total * s.size;
        unsigned char *src = malloc((size_t)room * s.size), *a = calloc(bytes, 1), *b = calloc(bytes, 1);
        VN_ASSERT(t, src && a && b);
        for (size_t i = 0; i < (size_t)room * s.size; ++i) src[i] = (unsigned char)vn_rng_u64(&rng);
        const unsigned char *first = src + offset * (int64_t)s.size;
        vn_strided_copy(&s, first, a);
        twin(&s, first, b);
        const bool same = memcmp(a, b, bytes) == 0;
        free(src);
        free(a);
        free(b);
        if (!same) vn_test_fail(t, __FILE__, __LINE__, "copy %d differs: rank %d, %zu bytes an element", n, s.rank, s.size);
    }
}

/* A plane large enough for several threads: the result does not depend on their number. */
VN_TEST(strided, large_transposition_with_threads) {
    const int64_t n = 576, m = 1088;
    uint32_t *src = malloc((size_t)(n * m) * 4), *out = malloc((size_t)(n * m) * 4);
    VN_ASSERT(t, src && out);
    for (int64_t i = 0; i < n * m; ++i) src[i] = (uint32_t)i * 2654435761u;
    vn_strided_t s = {.size = 4};
    vn_strided_axis(&s, m, 1, n);
    vn_strided_axis(&s, n, m, 1);
    const int threads = vn_threads_get();
    for (int k = 1; k <= 4; k += 3) {
        vn_threads_set(k);
        memset(out, 0, (size_t)(n * m) * 4);
        vn_strided_copy(&s, src, out);
        for (int64_t i = 0; i < n * m; ++i)
            if (out[i] != src[i % n * m + i / n]) vn_test_fail(t, __FILE__, __LINE__, "element %lld with %d threads", (long long)i, k);
    }
    vn_threads_set(threads);
    free(src);
    free(out);
}

VN_TEST(strided, nothing_to_copy) {
    unsigned char byte = 7;
    vn_strided_t s = {.size = 1};
    vn_strided_axis(&s, 5, 1, 1);
    vn_strided_axis(&s, 0, 1, 1);
    vn_strided_copy(&s, NULL, &byte); /* an empty axis: neither side is touched */
    VN_ASSERT_EQ(t, byte, 7);
    s = (vn_strided_t){.size = 1};
    vn_strided_copy(&s, &(unsigned char){9}, &byte); /* rank 0: one element */
    VN_ASSERT_EQ(t, byte, 9);
}

VN_TEST_MAIN(VN_CASE(strided, is_its_twin), VN_CASE(strided, large_transposition_with_threads), VN_CASE(strided, nothing_to_copy))
