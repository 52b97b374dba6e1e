/* move.h -- what the files of the movement, index and control families share: shapes, sizes, and elements of every width as plain bytes. */
#ifndef VN_ORACLE_MOVE_H
#define VN_ORACLE_MOVE_H

#include "oracle/registry.h"
#include "oracle/strided.h"

/** Results above this many bytes are refused: a hostile shape must not become an allocation. */
#define VN_MOVE_MAX_BYTES ((size_t)1 << 40)

typedef struct vn_shape {
    int rank;
    int64_t d[VN_MAX_RANK];
} vn_shape_t;

vn_shape_t vn_shape_of(const vn_tensor_t *t);
/** Appends a dimension; RANGE when the rank would pass VN_MAX_RANK. */
vn_status_t vn_shape_add(vn_eval_t *e, vn_shape_t *s, int64_t dim);
/** Product of d[from .. to). Only for dims whose full product was checked. */
int64_t vn_shape_product(const int64_t *d, int from, int to);
/** RANGE or SHAPE unless every dim is >= 0 and the result stays below VN_MOVE_MAX_BYTES. */
vn_status_t vn_shape_check(vn_eval_t *e, vn_dtype_t t, const vn_shape_t *s);

/** The whole of an `infer`: checks the shape and writes it to output k. */
vn_status_t vn_move_infer(vn_eval_t *e, int k, vn_dtype_t t, const vn_shape_t *s);
/** Output k is named (not left out by the node). */
bool vn_move_wanted(const vn_eval_t *e, int k);
/** Operand k is there as a tensor, else a SHAPE error that names it. */
vn_status_t vn_move_need(vn_eval_t *e, int k);
/** Operand k (an integer tensor of any shape) as int64; UNSUPPORTED when its data is not known. Release with vn_free. */
vn_status_t vn_move_i64(vn_eval_t *e, int k, int64_t **out);
/** The one element of operand k; SHAPE error unless it has exactly one. */
vn_status_t vn_move_scalar(vn_eval_t *e, int k, int64_t *out);

/**
 * Plain tensors: elements of 1, 2, 4, 8 or 16 whole bytes, whatever they mean. Strings travel as their 16-byte vn_string_t (borrowed text),
 * sub-byte codes as one byte each; all other types as they are (retained, not copied).
 */
vn_dtype_t vn_plain_dtype(vn_dtype_t t);
vn_status_t vn_plain_from(vn_eval_t *e, const vn_tensor_t *t, vn_tensor_t **out);
vn_status_t vn_plain_new(vn_eval_t *e, vn_dtype_t t, const vn_shape_t *s, vn_tensor_t **out); /* zeroed; t: the real type */
/** A plain dense tensor as a tensor of type t. Takes over `plain`, also on failure. */
vn_status_t vn_plain_seal(vn_eval_t *e, vn_dtype_t t, vn_tensor_t *plain, vn_tensor_t **out);
/** A plain dense tensor becomes output k of type t. Takes over `plain`, also on failure. */
vn_status_t vn_plain_out(vn_eval_t *e, int k, vn_dtype_t t, vn_tensor_t *plain);
/** A plain strided view becomes output k, packed. Takes over `view`. */
vn_status_t vn_plain_out_view(vn_eval_t *e, int k, vn_dtype_t t, vn_tensor_t *view);
static inline size_t vn_plain_size(const vn_tensor_t *plain) { return (size_t)vn_dtype_bits(plain->dtype) / 8; }
/** Writes n copies of the element of `size` bytes at `value` (NULL: zero bytes). */
void vn_plain_fill(void *dst, int64_t n, size_t size, const void *value);

/** A value as operand for bodies and sequences (retained). NULL on no memory. */
vn_value_t *vn_move_value(const vn_arg_t *a);
/** A value becomes output k: tensor or nested. Takes over v. */
vn_status_t vn_move_out_value(vn_eval_t *e, int k, vn_value_t *v);
/** Joins tensors along an axis (existing, or new when `stack`) into one fresh tensor; SHAPE or DTYPE errors name the part. */
vn_status_t vn_move_join(vn_eval_t *e, int n, const vn_tensor_t *const *parts, int64_t axis, bool stack, vn_tensor_t **out);

/** Entries [start, start + size) along an axis as a fresh tensor; `drop` removes the axis (size 1). t: contiguous, any type. */
vn_status_t vn_move_part(vn_eval_t *e, const vn_tensor_t *t, int axis, int64_t start, int64_t size, bool drop, vn_tensor_t **out);

/**
 * Order-preserving keys: a < b exactly when key(a) < key(b); -0 and +0 share one key; NaN (floats only) has VN_KEY_NAN.
 * Values come from the f64 plane of operand k where it has one. Release with vn_free.
 */
#define VN_KEY_NAN UINT64_MAX
vn_status_t vn_move_keys(vn_eval_t *e, int k, uint64_t **out);

/* Rows of the movement table, by file. */
#define VN_MOVE_ROW(name)                     \
    vn_status_t vn_move_##name(vn_eval_t *e); \
    vn_status_t vn_infer_##name(vn_eval_t *e)
VN_MOVE_ROW(gather); /* op_gather.c */
VN_MOVE_ROW(gather_elements);
VN_MOVE_ROW(gather_nd);
vn_status_t vn_move_compress(vn_eval_t *e);
VN_MOVE_ROW(reverse_sequence);
VN_MOVE_ROW(scatter_elements); /* op_scatter.c */
VN_MOVE_ROW(scatter_nd);
VN_MOVE_ROW(tensor_scatter);
VN_MOVE_ROW(pad); /* op_pad.c */
VN_MOVE_ROW(center_crop_pad);
VN_MOVE_ROW(trilu);
VN_MOVE_ROW(constant); /* op_generate.c */
VN_MOVE_ROW(constant_of_shape);
VN_MOVE_ROW(shape);
VN_MOVE_ROW(size);
VN_MOVE_ROW(range);
VN_MOVE_ROW(eye_like);
VN_MOVE_ROW(one_hot);
vn_status_t vn_move_non_zero(vn_eval_t *e); /* op_unique.c */
vn_status_t vn_move_unique(vn_eval_t *e);
VN_MOVE_ROW(col2im);                                  /* op_col2im.c */
vn_status_t vn_move_sequence_construct(vn_eval_t *e); /* op_sequence.c */
vn_status_t vn_move_sequence_at(vn_eval_t *e);
vn_status_t vn_move_sequence_empty(vn_eval_t *e);
vn_status_t vn_move_sequence_insert(vn_eval_t *e);
vn_status_t vn_move_sequence_erase(vn_eval_t *e);
vn_status_t vn_move_sequence_length(vn_eval_t *e);
vn_status_t vn_move_split_to_sequence(vn_eval_t *e);
vn_status_t vn_move_concat_from_sequence(vn_eval_t *e);
vn_status_t vn_move_optional(vn_eval_t *e);
vn_status_t vn_move_optional_has(vn_eval_t *e);
vn_status_t vn_move_optional_get(vn_eval_t *e);
/* Rows of the index table. */
vn_status_t vn_move_non_max_suppression(vn_eval_t *e); /* op_nms.c */
VN_MOVE_ROW(random_shape);                             /* op_random.c: RandomNormal, RandomUniform */
VN_MOVE_ROW(random_like);                              /* RandomNormalLike, RandomUniformLike */
VN_MOVE_ROW(bernoulli);
VN_MOVE_ROW(multinomial);
VN_MOVE_ROW(dropout);
#undef VN_MOVE_ROW

#endif
