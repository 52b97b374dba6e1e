/* strided.c -- the copy engine behind movement: normalise the axes, then runs, blocks or single elements. */
#include "oracle/strided.h"

#include <string.h>

enum {
    LINE = 64,            /* bytes of a cache line: a block is as many lines as elements fit into one */
    BLOCK = 64,           /* pieces into which one big transposition is cut for the threads */
    CHUNK_BYTES = 1 << 18 /* below this a copy is not worth another thread */
};

/* The plan after normalisation; strides in bytes. Axes 0 .. outer-1 are walked by counting, the last one or two by the kernel. */
typedef struct plan {
    int rank, outer;
    size_t size;
    int64_t dims[VN_STRIDED_RANK], src[VN_STRIDED_RANK], dst[VN_STRIDED_RANK];
    bool dense;   /* kernel: one memcpy of `size` bytes */
    bool blocked; /* kernel: block of axes rank-2 (dense source) and rank-1 */
    const char *from;
    char *to;
} plan_t;

void vn_strided_axis(vn_strided_t *s, int64_t dim, int64_t src, int64_t dst) {
    s->dims[s->rank] = dim;
    s->src[s->rank] = src;
    s->dst[s->rank] = dst;
    ++s->rank;
}

#define COPY_LINE(bytes) \
    for (int64_t i = 0; i < n; ++i) memcpy(to + i * ts, from + i * fs, (bytes))

/* n elements, one axis. The constant sizes become single moves. */
static void copy_line(size_t size, int64_t n, const char *from, int64_t fs, char *to, int64_t ts) {
    switch (size) {
    case 1: COPY_LINE(1); break;
    case 2: COPY_LINE(2); break;
    case 4: COPY_LINE(4); break;
    case 8: COPY_LINE(8); break;
    case 16: COPY_LINE(16); break;
    default: COPY_LINE(size); break;
    }
}

/* One block of LINE / bytes elements square. It is collected in a small buffer first: with strides of a power of two its lines would
 * otherwise fall into the same few places of the cache. The counts are constants, so that the loops become plain moves. */
#define FULL_BLOCK(name, bytes)                                                                                       \
    static void name(const char *from, int64_t fs, char *to, int64_t ts) {                                            \
        enum { SIDE = LINE / (bytes) };                                                                               \
        char tile[SIDE * LINE];                                                                                       \
        for (int j = 0; j < SIDE; ++j) memcpy(tile + j * LINE, from + j * fs, LINE);                                  \
        for (int i = 0; i < SIDE; ++i)                                                                                \
            for (int j = 0; j < SIDE; ++j) memcpy(to + i * ts + j * (bytes), tile + j * LINE + i * (bytes), (bytes)); \
    }
FULL_BLOCK(block_1, 1)
FULL_BLOCK(block_2, 2)
FULL_BLOCK(block_4, 4)
FULL_BLOCK(block_8, 8)
FULL_BLOCK(block_16, 16)

static void copy_block(const plan_t *p, const char *from, char *to) {
    static void (*const full[17])(const char *, int64_t, char *,
                                  int64_t) = {[1] = block_1, [2] = block_2, [4] = block_4, [8] = block_8, [16] = block_16};
    const int a = p->rank - 2, b = p->rank - 1; /* a: dense in the source */
    const int64_t size = (int64_t)p->size, side = full[size] ? LINE / size : 16;
    const bool dense = full[size] && p->dst[b] == size;
    for (int64_t i = 0; i < p->dims[a]; i += side) {
        const int64_t ni = p->dims[a] - i < side ? p->dims[a] - i : side;
        for (int64_t j = 0; j < p->dims[b]; j += side) {
            const int64_t nj = p->dims[b] - j < side ? p->dims[b] - j : side;
            const char *source = from + i * size + j * p->src[b];
            char *target = to + i * p->dst[a] + j * p->dst[b];
            if (dense && ni == side && nj == side) {
                full[size](source, p->src[b], target, p->dst[a]);
                continue;
            }
            for (int64_t k = 0; k < ni; ++k) copy_line(p->size, nj, source + k * size, p->src[b], target + k * p->dst[a], p->dst[b]);
        }
    }
}

static void run(void *ctx, int64_t begin, int64_t end) {
    const plan_t *p = ctx;
    int64_t index[VN_STRIDED_RANK] = {0};
    const char *from = p->from;
    char *to = p->to;
    int64_t rest = begin;
    for (int k = p->outer - 1; k >= 0; --k) {
        index[k] = rest % p->dims[k];
        rest /= p->dims[k];
        from += index[k] * p->src[k];
        to += index[k] * p->dst[k];
    }
    const int last = p->rank - 1;
    for (int64_t unit = begin; unit < end; ++unit) {
        if (p->dense) memcpy(to, from, p->size);
        else if (p->blocked) copy_block(p, from, to);
        else copy_line(p->size, p->dims[last], from, p->src[last], to, p->dst[last]);
        for (int k = p->outer - 1; k >= 0; --k) {
            from += p->src[k];
            to += p->dst[k];
            if (++index[k] < p->dims[k]) break;
            index[k] = 0;
            from -= p->src[k] * p->dims[k];
            to -= p->dst[k] * p->dims[k];
        }
    }
}

/* Drops axes of one element, merges neighbours that are one axis on both sides. False: nothing to copy. */
static bool normalise(const vn_strided_t *s, plan_t *p) {
    const int64_t size = (int64_t)s->size;
    for (int k = 0; k < s->rank; ++k) {
        if (s->dims[k] <= 0) return false;
        if (s->dims[k] == 1) continue;
        const int64_t from = s->src[k] * size, to = s->dst[k] * size;
        const int last = p->rank - 1;
        if (last >= 0 && p->src[last] == from * s->dims[k] && p->dst[last] == to * s->dims[k]) {
            p->dims[last] *= s->dims[k];
            p->src[last] = from;
            p->dst[last] = to;
            continue;
        }
        p->dims[p->rank] = s->dims[k];
        p->src[p->rank] = from;
        p->dst[p->rank++] = to;
    }
    p->size = s->size;
    if (p->rank > 0 && p->src[p->rank - 1] == size && p->dst[p->rank - 1] == size)
        p->size *= (size_t)p->dims[--p->rank]; /* a dense run is one larger element */
    return true;
}

/* Moves the axis that is dense in the source next to the innermost one. */
static void choose_kernel(plan_t *p) {
    const int last = p->rank - 1;
    const bool small = p->size <= 16; /* larger elements are runs: memcpy each */
    if (!small || p->rank == 0) {
        p->dense = true;
        p->outer = p->rank;
        return;
    }
    p->outer = last;
    for (int k = last - 1; k >= 0; --k) {
        if (p->src[k] != (int64_t)p->size || p->src[last] == 0) continue;
        const int64_t dim = p->dims[k], from = p->src[k], to = p->dst[k];
        for (int i = k; i < last - 1; ++i) {
            p->dims[i] = p->dims[i + 1];
            p->src[i] = p->src[i + 1];
            p->dst[i] = p->dst[i + 1];
        }
        p->dims[last - 1] = dim;
        p->src[last - 1] = from;
        p->dst[last - 1] = to;
        p->blocked = true;
        p->outer = last - 1;
        return;
    }
}

void vn_strided_copy(const vn_strided_t *s, const void *src, void *dst) {
    plan_t p = {.from = src, .to = dst};
    if (!normalise(s, &p)) return;
    choose_kernel(&p);
    int64_t units = 1, unit_bytes = (int64_t)p.size;
    for (int k = 0; k < p.outer; ++k) units *= p.dims[k];
    for (int k = p.outer; k < p.rank; ++k) unit_bytes *= p.dims[k];
    /* One big transposition would be one unit: cut its dense axis so that threads can share it. */
    if (p.blocked && units < 64 && p.dims[p.rank - 2] % BLOCK == 0 && p.dims[p.rank - 2] > BLOCK && p.rank < VN_STRIDED_RANK) {
        const int a = p.rank - 2;
        p.dims[p.rank] = p.dims[a + 1], p.src[p.rank] = p.src[a + 1], p.dst[p.rank] = p.dst[a + 1];
        p.dims[a + 1] = BLOCK, p.src[a + 1] = p.src[a], p.dst[a + 1] = p.dst[a];
        p.dims[a] /= BLOCK, p.src[a] *= BLOCK, p.dst[a] *= BLOCK;
        ++p.rank, ++p.outer;
        units *= p.dims[a];
        unit_bytes /= p.dims[a];
    }
    vn_parallel(units, unit_bytes >= CHUNK_BYTES ? 1 : CHUNK_BYTES / unit_bytes + 1, run, &p);
}

void vn_strided_pack(const vn_tensor_t *view, void *dst) {
    vn_strided_t s = {.size = (size_t)vn_dtype_bits(view->dtype) / 8};
    int64_t dense[VN_MAX_RANK], step = 1;
    for (int k = view->rank - 1; k >= 0; --k) {
        dense[k] = step;
        step *= view->dims[k];
    }
    for (int k = 0; k < view->rank; ++k) vn_strided_axis(&s, view->dims[k], view->strides[k], dense[k]);
    if (view->count > 0) vn_strided_copy(&s, view->data, dst);
}
