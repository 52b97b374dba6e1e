/* sim.h -- simulated back ends for the reveal: kernels with a known order and arithmetic, in plain scalar loops of their own. */
#ifndef VN_TEST_SIM_H
#define VN_TEST_SIM_H

#include "vernier/schedule.h"

typedef enum sim_kernel {
    SIM_CHAIN,         /* one chain from term 0 */
    SIM_LANES,         /* `width` interleaved chains, folded by halves */
    SIM_BLOCKS,        /* chains over `width` terms, block sums added in order; a block starts with its first product, rounded */
    SIM_TWO_CLASSES,   /* columns from the last multiple of 8 on: even and odd terms apart; else SIM_BLOCKS */
    SIM_LAST_ROUNDED,  /* one chain; before the last multiple of 8 of the columns the last product is rounded */
    SIM_INNER_ROUNDED, /* one chain; there the product of term 17 is rounded, which no pair of masks shows */
    SIM_FUSED,         /* groups of `width` terms and the running value: aligned, cut at `bits` bits, rounded toward zero */
    SIM_SPLIT_K,       /* `width` slices, each a chain; their sums added in a new random order each time */
    SIM_ODD_FIRST,     /* pairs of terms, the odd one first, in one chain */
    SIM_SPLIT_BF16,    /* each operand as two bf16 parts, three products */
    SIM_PARTS,         /* each operand as three bf16 parts; the `width` largest products (1, 3, 6, 9) are one fused term of a chain */
    SIM_DYNAMIC,       /* activations as int8 with a scale of each row */
    SIM_STRASSEN,      /* one level, then chains */
    SIM_EXACT          /* an accumulator that rounds nothing: sums in 2^-200 steps */
} sim_kernel_t;

/** Where alpha is multiplied in: after the sum with one rounding or two, or into an operand. */
typedef enum sim_alpha { SIM_ALPHA_FUSED, SIM_ALPHA_ROUNDED, SIM_ALPHA_IN_A, SIM_ALPHA_IN_B } sim_alpha_t;

/** bias: 0 first (the chain starts from it), 1 last. */
typedef struct sim {
    sim_kernel_t kernel;
    int width, bits;
    bool fma;
    vn_format_t operand; /* NONE: as they are */
    vn_rounding_t operand_rounding;
    vn_format_t accumulator; /* NONE: f32 */
    vn_format_t narrow;      /* with every: the running value of a chain goes through it */
    int every;
    bool daz, ftz, zero_start;
    int bias;
    int carry;              /* SIM_FUSED: a sum of 2^(bits + 1 + carry) or more loses its low bits; 0: never */
    vn_format_t partial;    /* SIM_BLOCKS: block sums go through it */
    vn_format_t before;     /* bias last: the sum goes through it first */
    sim_alpha_t alpha_form; /* Gemm */
    double alpha;           /* 0: 1 */
    vn_rounding_t rounding; /* of a chain's additions */
    /* the operator */
    vn_sum_op_t op;
    /* state */
    uint64_t state;
    int64_t calls;
} sim_t;

vn_call_t sim_call(sim_t *s);
vn_sum_op_t sim_product(vn_dtype_t t, int64_t m, int64_t k, int64_t n);

#endif
