/* attention_planes.h -- heads as contiguous planes with errors: what the contrib attention operators build before the core runs. */
#ifndef VN_ORACLE_ATTENTION_PLANES_H
#define VN_ORACLE_ATTENTION_PLANES_H

#include "oracle/attention.h"
#include "oracle/escalate.h"

/**
 * [batch, heads, length, size] with an error per element. Where elements are evaluated again (e->refine) v + lo are double-double numbers, and e is what
 * these may be off by (claim PREC-10); else lo is NULL.
 */
typedef struct vn_head_plane {
    int64_t batch, heads, length, size;
    double *v, *e, *lo;
} vn_head_plane_t;

vn_status_t vn_head_plane_new(vn_eval_t *ev, int64_t batch, int64_t heads, int64_t length, int64_t size, vn_head_plane_t *p);
void vn_head_plane_free(vn_head_plane_t *p);
vn_heads_t vn_head_plane_view(const vn_head_plane_t *p);

/**
 * Fills p from operand k: element (b, h, i, c) is at b*sb + h*sh + i*si + c + offset. bias (or NULL): added per (h, c), one rounding.
 * Operand rounding of the contract applies (position). err: uncertainty of the operand or NULL.
 */
typedef struct vn_head_source {
    const double *at, *err, *bias, *lo;
    int64_t sb, sh, si, offset;
} vn_head_source_t;
void vn_head_fill(const vn_eval_t *e, const vn_head_source_t *s, vn_head_plane_t *p);
/** Puts `past` (operand k as [batch, heads, P, size], possibly with a leading offset) before p: p grows. Only `keep[b]` (NULL: all) past rows count. */
vn_status_t vn_head_join(vn_eval_t *e, const double *past, int64_t past_rows, vn_head_plane_t *p);
/** Output k = the plane, shape dims (NULL: [batch, heads, length, size]). */
vn_status_t vn_head_output(vn_eval_t *e, int k, vn_dtype_t type, const vn_head_plane_t *p);

/** Answers e->refine from a plane that is the output; NULL: nothing. */
void vn_head_refine(vn_eval_t *e, const vn_head_plane_t *p);

#endif
