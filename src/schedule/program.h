/* program.h -- a tree as a stack program. Each entry of the stack is a row of values, one for each output column of a block. */
#ifndef VN_SCHEDULE_PROGRAM_H
#define VN_SCHEDULE_PROGRAM_H

#include "vernier/schedule.h"

typedef enum vn_step_kind {
    VN_STEP_TERM,      /* push the rounded term of `leaf` (a product, or the value itself) */
    VN_STEP_START,     /* push the initial value */
    VN_STEP_CHAIN,     /* add the terms leaf, leaf + stride, ... (count of them) to the top, one after the other; fused: unrounded */
    VN_STEP_ADD_START, /* add the initial value to the top */
    VN_STEP_ADD,       /* pop, and add to the new top */
    VN_STEP_FUSED,     /* pop `count` rows; they and the terms of list[leaf..leaf+stride) are one fused sum, which is pushed */
    VN_STEP_NARROW     /* round the top to the narrow format */
} vn_step_kind_t;

typedef struct vn_program_step {
    vn_step_kind_t kind;
    bool fused; /* CHAIN: the product enters unrounded */
    int32_t leaf, count, stride;
} vn_program_step_t;

struct vn_replay {
    vn_arithmetic_t arithmetic;
    int32_t n; /* terms */
    bool initial;
    int32_t steps, capacity, depth; /* depth: rows of the stack */
    vn_program_step_t *step;
    int32_t *list; /* leaves of fused nodes */
    int32_t n_list;
};

/**
 * Where a block's terms come from. b holds n rows of VN_BLOCK_WIDTH values; a: by output row, one value a term (product), or rows of values too
 * (pairs), or NULL (single values).
 * rows       output rows at once: 1, or for products VN_BLOCK_ROWS.
 */
enum { VN_BLOCK_WIDTH = 64, VN_BLOCK_ROWS = 8 };
typedef struct vn_block {
    int width, rows;
    bool pairs;
    const float *a[VN_BLOCK_ROWS], *b;
    const float *start; /* [rows][VN_BLOCK_WIDTH]; NULL: 0 */
    float *stack;       /* [depth][rows][VN_BLOCK_WIDTH] */
} vn_block_t;

/** Runs the program on one block; the result is in stack[0..rows). */
void vn_program_run(const vn_replay_t *r, const vn_block_t *b);
/** The chain `s` of VN_BLOCK_ROWS rows of a product; acc: [VN_BLOCK_ROWS][VN_BLOCK_WIDTH]. */
void vn_chain_tile(float *acc, const float *const *a, const float *b, const vn_program_step_t *s);
/** One row at a time, for accumulators that are no f32, other roundings and fused nodes: every step exact, then rounded. Slow. */
void vn_program_run_exactly(const vn_replay_t *r, const vn_block_t *b);
/** Whether the fast program does what the arithmetic says. */
bool vn_program_is_plain(const vn_arithmetic_t *a, bool fused_nodes);

#endif
