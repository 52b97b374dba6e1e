/* kernels.c -- the fast execution of a program: f32, to nearest, one block of columns at a time. Real fused multiply-adds, none of the compiler's. */
#include <math.h>
#include <string.h>

#include "schedule/program.h"

#if defined(__x86_64__) && defined(__has_attribute) && !defined(VN_SANITIZE) && !defined(__SANITIZE_ADDRESS__)
#if __has_attribute(target_clones)
#define VN_FMA_CLONES __attribute__((target_clones("default", "fma", "avx512f")))
#endif
#endif
#ifndef VN_FMA_CLONES
#define VN_FMA_CLONES
#endif

enum { W = VN_BLOCK_WIDTH };

/* fma() is one instruction where the clone's target has it, else the library's correctly rounded function: the same bits. */
VN_FMA_CLONES
static void chain_product_fused(float *acc, const float *a, const float *b, int32_t leaf, int32_t count, int32_t stride) {
    for (int32_t m = 0; m < count; ++m, leaf += stride) {
        const float s = a[leaf];
        const float *row = b + (int64_t)leaf * W;
        for (int c = 0; c < W; ++c) acc[c] = __builtin_fmaf(s, row[c], acc[c]);
    }
}

VN_FMA_CLONES
static void chain_product(float *acc, const float *a, const float *b, int32_t leaf, int32_t count, int32_t stride) {
    for (int32_t m = 0; m < count; ++m, leaf += stride) {
        const float s = a[leaf];
        const float *row = b + (int64_t)leaf * W;
        for (int c = 0; c < W; ++c) {
            const float p = s * row[c];
            acc[c] = acc[c] + p;
        }
    }
}

VN_FMA_CLONES
static void chain_pairs(float *acc, const float *a, const float *b, int32_t leaf, int32_t count, int32_t stride, bool fused) {
    for (int32_t m = 0; m < count; ++m, leaf += stride) {
        const float *x = a + (int64_t)leaf * W, *y = b + (int64_t)leaf * W;
        if (fused) {
            for (int c = 0; c < W; ++c) acc[c] = __builtin_fmaf(x[c], y[c], acc[c]);
        } else {
            for (int c = 0; c < W; ++c) {
                const float p = x[c] * y[c];
                acc[c] = acc[c] + p;
            }
        }
    }
}

VN_FMA_CLONES
static void chain_values(float *acc, const float *b, int32_t leaf, int32_t count, int32_t stride) {
    for (int32_t m = 0; m < count; ++m, leaf += stride) {
        const float *x = b + (int64_t)leaf * W;
        for (int c = 0; c < W; ++c) acc[c] = acc[c] + x[c];
    }
}

static void chain(const vn_block_t *b, float *acc, const vn_program_step_t *s) {
    const float *a = b->a[0];
    if (b->rows == VN_BLOCK_ROWS) vn_chain_tile(acc, b->a, b->b, s);
    else if (!a) chain_values(acc, b->b, s->leaf, s->count, s->stride);
    else if (b->pairs) chain_pairs(acc, a, b->b, s->leaf, s->count, s->stride, s->fused);
    else if (s->fused) chain_product_fused(acc, a, b->b, s->leaf, s->count, s->stride);
    else chain_product(acc, a, b->b, s->leaf, s->count, s->stride);
}

VN_FMA_CLONES
static void term(const vn_block_t *b, const float *a, float *out, int32_t leaf, bool zero_start) {
    const float *row = b->b + (int64_t)leaf * W, *pair = b->pairs ? a + (int64_t)leaf * W : NULL;
    const float s = a && !b->pairs ? a[leaf] : 1;
    for (int c = 0; c < W; ++c) out[c] = pair ? pair[c] * row[c] : a ? s * row[c] : row[c];
    if (zero_start)
        for (int c = 0; c < W; ++c) out[c] = out[c] + 0.0f;
}

VN_FMA_CLONES
static void add(float *to, const float *more, int n) {
    for (int c = 0; c < n; ++c) to[c] = to[c] + more[c];
}

static void narrow(float *row, vn_format_t f, int n) {
    for (int c = 0; c < n; ++c) row[c] = (float)vn_round_to(f, row[c], VN_RNE, false);
}

bool vn_program_is_plain(const vn_arithmetic_t *a, bool fused_nodes) {
    if (a->accumulator != VN_FMT_F32 || a->rounding != VN_RNE || fused_nodes) return false;
    if (!a->daz && !a->ftz) return true;
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma"); /* the processor flushes; the library's fma would not */
#else
    return false;
#endif
}

#if defined(__x86_64__)
/* The control word of SSE arithmetic; bits 6 and 15 read subnormals as zero and flush them. */
static unsigned flush_on(const vn_arithmetic_t *a) {
    const unsigned old = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(old | (a->daz ? 1u << 6 : 0) | (a->ftz ? 1u << 15 : 0));
    return old;
}
static void flush_off(unsigned old) { __builtin_ia32_ldmxcsr(old); }
#else
static unsigned flush_on(const vn_arithmetic_t *a) { return a->daz; }
static void flush_off(unsigned old) { (void)old; }
#endif

void vn_program_run(const vn_replay_t *r, const vn_block_t *b) {
    const int n = b->rows * W;
    float *top = b->stack - n;
    const unsigned control = flush_on(&r->arithmetic);
    for (int32_t k = 0; k < r->steps; ++k) {
        const vn_program_step_t *s = &r->step[k];
        switch (s->kind) {
        case VN_STEP_TERM:
            top += n;
            for (int row = 0; row < b->rows; ++row) term(b, b->a[row], top + (int64_t)row * W, s->leaf, r->arithmetic.zero_start);
            break;
        case VN_STEP_START:
            top += n;
            if (b->start) memcpy(top, b->start, (size_t)n * sizeof *top);
            else memset(top, 0, (size_t)n * sizeof *top);
            break;
        case VN_STEP_CHAIN: chain(b, top, s); break;
        case VN_STEP_ADD_START:
            if (b->start) add(top, b->start, n);
            break;
        case VN_STEP_ADD:
            top -= n;
            add(top, top + n, n);
            break;
        case VN_STEP_NARROW: narrow(top, r->arithmetic.narrow_format, n); break;
        case VN_STEP_FUSED: break; /* never in a plain program */
        }
    }
    flush_off(control);
}
