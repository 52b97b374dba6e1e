/* edit.h -- changed copies of operands, for variants: elements taken from other places, read with another type, scaled. */
#ifndef VN_JUDGE_EDIT_H
#define VN_JUDGE_EDIT_H

#include "judge/explain.h"

#define VN_NAME_ACCIDENT 1e-6 /* largest probability that a name fits by accident: claims NAME-TERMS-1, NAME-BORDER-1, NAME-CODE-1 */
#define VN_NAME_NOISE 1e-9    /* round-off beyond the z of this probability is none: claim NAME-TERMS-2 */

enum { VN_EDIT_MOST = 1 << 24 }; /* operands beyond that many elements are left as they are */

/** A tensor of t's type whose element i is element index[i] of t, bit by bit; dims may be another shape. Strings: UNSUPPORTED. */
vn_status_t vn_edit_gather(const vn_tensor_t *t, int rank, const int64_t *dims, const int64_t *index, vn_tensor_t **out, vn_error_t *err);
/** t's buffer read as a tensor whose axes are t's in the order axes[], brought back to t's shape. axes is its own inverse where dims agree. */
vn_status_t vn_edit_layout(const vn_tensor_t *t, const int *axes, vn_tensor_t **out, vn_error_t *err);
/** The same data under other dims (counts are equal). */
vn_status_t vn_edit_shape(const vn_tensor_t *t, int rank, const int64_t *dims, vn_tensor_t **out, vn_error_t *err);
/** Element j along `axis` is element from[j]. */
vn_status_t vn_edit_lines(const vn_tensor_t *t, int axis, const int64_t *from, vn_tensor_t **out, vn_error_t *err);
/** Every element times `factor`, rounded or cut to the type; integers saturate. */
vn_status_t vn_edit_scale(const vn_tensor_t *t, double factor, vn_tensor_t **out, vn_error_t *err);
/** Every element the same number. */
vn_status_t vn_edit_fill(const vn_tensor_t *t, double x, vn_tensor_t **out, vn_error_t *err);
/** The same bits as an integer of the other signedness; UNSUPPORTED where there is no such type. */
vn_status_t vn_edit_resign(const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err);

/**
 * Whether the edits of a variant failed. A failed edit (anything but NOMEM) is no variant: all edits are taken back and *s becomes OK.
 */
bool vn_edit_refused(vn_variant_t *v, vn_status_t *s);

/** vn_explain_gain of a computation that meets every wrong element. */
double vn_edit_exact_gain(const vn_explain_t *e);

#endif
