/* items.h -- values on their way through bodies of control flow; inside a region with the planes of their uncertainty. */
#ifndef VN_ORACLE_ITEMS_H
#define VN_ORACLE_ITEMS_H

#include "oracle/registry.h"

enum { VN_ITEM_VALUE, VN_ITEM_BOUND, VN_ITEM_VAR, VN_ITEM_MARKS, VN_ITEM_PLANES };

/**
 * plane      of tensors, shaped like the value: the unrounded value, its bound and variance (f64; value and bound stand together), and
 *            marks (u8, 1: nothing is known of this element). NULL: exact, known.
 * open       of sequences and optionals: some element inside is uncertain.
 * Ownership  an item owns one count of each part; vn_item_clear.
 */
typedef struct vn_item {
    vn_value_t *value;
    vn_tensor_t *plane[VN_ITEM_PLANES];
    bool open;
} vn_item_t;

void vn_item_clear(vn_item_t *i);
vn_item_t vn_item_copy(const vn_item_t *i); /* one more count of each part */
void vn_items_free(vn_item_t *v, int64_t n);
vn_status_t vn_items_new(vn_eval_t *e, int64_t n, vn_item_t **out);

/** Operand k as an item; it must be there. */
vn_status_t vn_item_of_arg(vn_eval_t *e, int k, vn_item_t *out);
/** Entry `at` along `axis`, which goes away. */
vn_status_t vn_item_part(vn_eval_t *e, const vn_item_t *i, int axis, int64_t at, vn_item_t *out);
/** The item becomes output k. Takes it over, also on failure. */
vn_status_t vn_item_out(vn_eval_t *e, int k, vn_item_t *i);
/** From and to what an executor's slot holds. */
vn_status_t vn_item_of_ref(vn_error_t *err, const vn_value_t *v, const vn_ref_t *r, vn_item_t *out);
vn_status_t vn_item_ref(vn_error_t *err, const vn_item_t *i, vn_ref_t **out); /* *out NULL: exact */
/** Something of the item is not known for certain. */
bool vn_item_uncertain(const vn_item_t *i);

/** Tensor items of one output, iteration by iteration. */
typedef struct vn_series {
    vn_item_t *parts;
    int64_t n, room;
} vn_series_t;
vn_status_t vn_series_add(vn_eval_t *e, vn_series_t *s, const vn_item_t *i);
void vn_series_free(vn_series_t *s);
void vn_series_reverse(vn_series_t *s);
/** All parts (at least one) joined along a new axis. */
vn_status_t vn_series_join(vn_eval_t *e, const vn_series_t *s, int64_t axis, vn_item_t *out);

/**
 * Runs a body graph: inputs by position; outputs by position, released by the caller. In a region the planes go in and come out, otherwise
 * there are none. `where` is the path part, e.g. "then", "body[3]".
 */
vn_status_t vn_run_items(vn_eval_t *e, const vn_graph_t *body, const char *where, int n_in, const vn_item_t *in, int n_out, vn_item_t *out);

#endif
