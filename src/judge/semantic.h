/* semantic.h -- small readers shared by the semantic families. */
#ifndef VN_JUDGE_SEMANTIC_H
#define VN_JUDGE_SEMANTIC_H

#include "judge/names.h"

/** `word` is one of the names between blanks of `list`. */
bool vn_name_in(const char *list, const char *word);
/** Value of a number or string attribute as text; `standard` where it is absent. */
void vn_name_attr_text(const vn_node_t *n, const char *attr, const char *standard, char *out, size_t size);
/** Value of an INT or FLOAT attribute as a number; `standard` where it is absent. */
double vn_name_attr_number(const vn_node_t *n, const char *attr, double standard);
/** Element of `t` that broadcasting puts at place `flat` of a tensor of shape dims. */
int64_t vn_name_spread(const vn_tensor_t *t, int rank, const int64_t *dims, int64_t flat);
/** Element of a scale (or zero point) of t for place `flat`: one for all, one per index of `axis`, or one per block of `block` along it; -1: no such form. */
int64_t vn_name_scale_at(const vn_tensor_t *t, int rank, const int64_t *dims, int64_t axis, int64_t block, int64_t flat);
/** The output under judgement is one of the node's; of k >= 0: its output k. */
bool vn_name_judged(const vn_variant_t *v, int k);
/** A copy of t from index `from` on along `axis`, `length` long, zeros behind its end. *out NULL: not of whole bytes. */
vn_status_t vn_name_resize(const vn_tensor_t *t, int axis, int64_t from, int64_t length, vn_tensor_t **out, vn_error_t *err);

/**
 * The simplest numbers in [lo, hi], as a human would have written them: 0, powers of ten, one digit, powers of two, then ever more digits.
 * `step` 0, 1, 2 ... gives the next less simple one. Returns the digits it takes (1 for 0 and powers); 0: no more.
 */
int vn_name_simple(double lo, double hi, int step, double *out);

#endif
