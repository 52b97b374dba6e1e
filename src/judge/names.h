/* names.h -- the families that explain.c asks, in this order: of equal offers the earlier one stays. */
#ifndef VN_JUDGE_NAMES_H
#define VN_JUDGE_NAMES_H

#include "judge/explain.h"

typedef struct vn_name_family {
    const char *name;
    vn_explain_fn fn;
} vn_name_family_t;
/** Ends with fn NULL. */
extern const vn_name_family_t vn_name_families[];

vn_status_t vn_name_attributes(vn_explain_t *e, vn_error_t *err); /* semantic_attributes.c */

#endif
