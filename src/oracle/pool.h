/* pool.h -- pooling windows over channels: geometry, the values that a window holds, and the family's evaluations. */
#ifndef VN_ORACLE_POOL_H
#define VN_ORACLE_POOL_H

#include "oracle/window.h"

typedef struct vn_pool {
    vn_windows_t w;
    int64_t planes; /* N * C */
    int rank;
    int64_t dims[VN_MAX_RANK]; /* of the output */
} vn_pool_t;

typedef enum vn_pool_form { VN_POOL_WINDOWS, VN_POOL_WINDOWS_UNCROPPED, VN_POOL_GLOBAL } vn_pool_form_t;
/** Geometry of operand 0; global: one window over everything; uncropped: negative padding counts as none. Errors: SHAPE, RANGE as vn_windows_read. */
vn_status_t vn_pool_plan(vn_eval_t *e, vn_pool_form_t form, vn_pool_t *out);
/** Output type and shape without data. */
vn_status_t vn_pool_infer(vn_eval_t *e, bool global);
/**
 * Where auto_pad = SAME gives negative padding the text has two readings: windows are shifted (the formula), or there is no padding. Runs
 * `run` with the second and adds its results as reading "no-negative-padding". Nothing where both agree.
 */
vn_status_t vn_pool_unpadded_reading(vn_eval_t *e, vn_status_t (*run)(vn_eval_t *e, vn_pool_form_t form));

/** The taps of one output position that fall on the input: per axis how many, and the distance in elements from one to the next. */
typedef struct vn_pool_span {
    int64_t count[VN_MAX_RANK], step[VN_MAX_RANK];
    int64_t origin;  /* offset in a plane of the first */
    int64_t present; /* product of count: elements on the input */
    int64_t inside;  /* elements on the input or its declared padding; the rest overhangs (ceil_mode) */
} vn_pool_span_t;
void vn_pool_span(const vn_pool_t *p, int64_t position, vn_pool_span_t *out);
/** Offset in a plane of present element i (row-major over the window). */
int64_t vn_pool_offset(const vn_pool_t *p, const vn_pool_span_t *s, int64_t i);
/** Copies the present elements of one window: out[0 .. present). */
void vn_pool_read(const vn_pool_t *p, const vn_pool_span_t *s, const double *plane, double *out);

/** Largest number of elements that one window can hold. */
static inline int64_t vn_pool_capacity(const vn_pool_t *p) {
    int64_t n = 1;
    for (int d = 0; d < p->w.n; ++d) n *= p->w.axis[d].kernel < p->w.axis[d].in ? p->w.axis[d].kernel : p->w.axis[d].in;
    return n;
}

vn_status_t vn_eval_max_pool(vn_eval_t *e);
vn_status_t vn_infer_max_pool(vn_eval_t *e);
vn_status_t vn_eval_global_max_pool(vn_eval_t *e);
vn_status_t vn_eval_max_unpool(vn_eval_t *e);
vn_status_t vn_eval_qlinear_average_pool(vn_eval_t *e);
vn_status_t vn_eval_qlinear_global_average_pool(vn_eval_t *e);
vn_status_t vn_eval_max_roi_pool(vn_eval_t *e);
vn_status_t vn_infer_max_roi_pool(vn_eval_t *e);
vn_status_t vn_eval_roi_align(vn_eval_t *e);
vn_status_t vn_infer_roi_align(vn_eval_t *e);

#endif
