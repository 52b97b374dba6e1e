/* vernier/probe.h -- input generators. */
#ifndef VERNIER_PROBE_H
#define VERNIER_PROBE_H

#include "vernier/base.h"
#include "vernier/graph.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One shape override, "name=1x3x224x224". */
typedef struct vn_shape_arg {
    const char *name;
    int rank;
    int64_t dims[VN_MAX_RANK];
} vn_shape_arg_t;
/**
 * Splits at the last '=' ("x:0=1x4"); "name=" is a scalar. The name goes into the caller's buffer, and out->name points there.
 * Errors     USAGE: no name, a dimension that is not a number, more than VN_MAX_RANK of them, a name longer than the buffer.
 */
VN_API vn_status_t vn_shape_parse(const char *text, vn_shape_arg_t *out, char *name, size_t name_size, vn_error_t *err);

/**
 * Seeded inputs for every run input of the model (graph inputs that are not initialisers).
 * Shapes     An override where given; else fixed dimensions as declared, an open first dimension 1, every other open one 16. The same
 *            symbolic name gets the same value everywhere: overrides decide first, then first dimensions, then the rest.
 * Values     floats N(0,1) rounded to the type (f8e8m0: |N(0,1)|, it has no sign); complex: both parts so; bool fair; strings "a".."z".
 *            Integers: uniform in [0, 9], or, if the value reaches an index operand of Gather, GatherElements, GatherND, Scatter*,
 *            GatherBlockQuantized or EmbedLayerNormalization (through Identity, Cast, Unsqueeze, Squeeze, Reshape, Flatten, Slice,
 *            Transpose, Expand, Tile, Concat; bodies included), in [0, size of the indexed axis) when that size is known from an
 *            initialiser, a Constant or a declared shape; the smallest size counts, and the type's own range.
 *            Integers and bools whose name contains "mask" are all 1. Other uses (shapes of Reshape, bounds of Slice, lengths) are not
 *            analysed: give such inputs in a file.
 *            Each input depends on `seed` and its own name only, not on the other inputs or their order.
 * Errors     USAGE: an override names no input, comes twice, or contradicts a declared rank, a fixed dimension or another override; an
 *            input of unknown rank has none. UNSUPPORTED: a sequence, optional, map or sparse input. NOMEM, RANGE (size overflows).
 * Ownership  vn_bundle_free(out); empty after an error.
 */
VN_API vn_status_t vn_probe_inputs(const vn_model_t *m, uint64_t seed, int n_shapes, const vn_shape_arg_t *shapes, vn_bundle_t *out,
                                   vn_error_t *err);

/* ---- integer ladders (claim LADDER-1): inputs on which every order of summation is exact ---- */

/**
 * How an operator sums: which operands its terms are made of, and in which unit the result counts.
 * unit       every term and every partial sum of integers is a multiple of it: 1, alpha (a power of two), 1/terms of a mean.
 */
typedef struct vn_ladder_op {
    int n_factors; /* 1 or 2 operands are multiplied in a term */
    int factor[2]; /* their inputs */
    int addend;    /* input that is added, -1: none */
    bool mean;
    double unit;
} vn_ladder_op_t;
/** False: the node has no exact form of this kind (*why says so, static text). terms: number of terms behind an element. */
VN_API bool vn_ladder_of(const vn_node_t *n, int64_t terms, vn_ladder_op_t *out, const char **why);

/**
 * One rung. operand -1: the running sum, sums of magnitudes up to about 2^bits of numbers with at most 7 significant bits; 0 or 1: that
 * factor needs exactly `bits` significant bits, the rest is so sparse that most sums have a single term.
 */
typedef struct vn_ladder {
    int bits, operand;
    int64_t terms;
    uint64_t seed;
} vn_ladder_t;
/**
 * Values for input k of the node, of the type and shape of `like`; *out NULL: this input stays as it is.
 * Errors     UNSUPPORTED: the type does not hold numbers of so many bits; NOMEM. Ownership: vn_tensor_free.
 */
VN_API vn_status_t vn_ladder_fill(const vn_ladder_op_t *op, const vn_ladder_t *rung, int k, const vn_tensor_t *like, vn_tensor_t **out,
                                  vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
