/* resample.h -- interpolation along one axis, with error: shared by Resize, Upsample and GridSample. */
#ifndef VN_ORACLE_RESAMPLE_H
#define VN_ORACLE_RESAMPLE_H

#include "oracle/rows.h"
#include "oracle/tracked.h"

/** Value, sound error, variance, error of the oracle's own evaluation. */
typedef struct vn_sample {
    double v, e, s, o;
} vn_sample_t;

/** Values that an interpolation at floor(c) + f reads: linear -1..2, cubic -2..3, relative to floor(c); outer ones only for the bound. */
enum { VN_LINEAR_WINDOW = 4, VN_CUBIC_WINDOW = 6 };

typedef struct vn_resample_rule {
    double u, eta;       /* accumulator */
    double a;            /* cubic coefficient */
    double u_coordinate; /* of the format that coordinates are evaluated in */
} vn_resample_rule_t;

/** dc: how far the coordinate may be off. Claim RESIZE-1. */
vn_sample_t vn_sample_linear(const vn_resample_rule_t *r, double f, double dc, const vn_sample_t w[VN_LINEAR_WINDOW]);
/** Claim RESIZE-2. */
vn_sample_t vn_sample_cubic(const vn_resample_rule_t *r, double f, double dc, const vn_sample_t w[VN_CUBIC_WINDOW]);
double vn_cubic_weight(double a, double x); /* Keys' kernel at distance x */

/** A weighted sum with normalised weights: n taps, raw weights with Lipschitz constant `slope` in the coordinate and error `raw_u` u each. */
vn_sample_t vn_sample_weighted(const vn_resample_rule_t *r, int64_t n, const double *weights, double raw_total, double slope, double raw_u,
                               double dc, const vn_sample_t *taps);

vn_status_t vn_eval_resize(vn_eval_t *e);
vn_status_t vn_eval_grid_sample(vn_eval_t *e);
vn_status_t vn_eval_affine_grid(vn_eval_t *e);
vn_status_t vn_infer_grid_sample(vn_eval_t *e);
vn_status_t vn_infer_affine_grid(vn_eval_t *e);

/* ---- Resize: the geometry of one axis ---- */

typedef enum vn_resize_mode { VN_RESIZE_NEAREST, VN_RESIZE_LINEAR, VN_RESIZE_CUBIC } vn_resize_mode_t;
typedef enum vn_coordinates {
    VN_HALF_PIXEL,
    VN_HALF_PIXEL_SYMMETRIC,
    VN_PYTORCH_HALF_PIXEL,
    VN_ALIGN_CORNERS,
    VN_ASYMMETRIC,
    VN_TF_HALF_PIXEL,
    VN_TF_CROP
} vn_coordinates_t;

typedef struct vn_resize_axis {
    int64_t in, out;
    double scale;      /* as given, or out / in */
    double num, den;   /* it is num / den, exactly */
    double start, end; /* roi */
    bool identity;     /* nothing happens along this axis */
} vn_resize_axis_t;

typedef struct vn_resize_plan {
    vn_resize_mode_t mode;
    vn_coordinates_t coordinates;
    int nearest; /* 0 round_prefer_floor, 1 round_prefer_ceil, 2 floor, 3 ceil, 4 ceil where the scale is below 1, else floor */
    bool exclude, antialias;
    bool whole_lengths; /* align_corners and the like divide by the integer output length; else by scale * in */
    bool simple;        /* before opset 11: nearest is floor, reading "ceil-when-shrinking" */
    double a, extrapolation, u_coordinate;
    int rank;
    int64_t dims[VN_MAX_RANK];
    vn_resize_axis_t axis[VN_MAX_RANK];
} vn_resize_plan_t;
vn_status_t vn_resize_planned(vn_eval_t *e, vn_resize_plan_t *p);
/** Source coordinate of output i, and how far an f32 evaluation may be off (0 where every step is exact). */
double vn_resize_coordinate(const vn_resize_plan_t *p, const vn_resize_axis_t *a, int64_t i, double *dc);
/** The same coordinate in 113 bits (claim RESIZE-8). */
vn_tk_fraction_t vn_resize_exact(const vn_resize_plan_t *p, const vn_resize_axis_t *a, int64_t i);
/** Answers e->refine for linear and cubic (refine_resample.c). Errors: NOMEM. */
vn_status_t vn_resize_refine(vn_eval_t *e, const vn_resize_plan_t *p);
/** Index that the nearest mode takes for coordinate c (not clamped). */
double vn_resize_nearest(const vn_resize_plan_t *p, const vn_resize_axis_t *a, double c);

#endif
