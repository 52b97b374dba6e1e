/* conv.h -- a convolution as products of weights with gathered columns: geometry, columns, exact integer sums. */
#ifndef VN_ORACLE_CONV_H
#define VN_ORACLE_CONV_H

#include "oracle/product.h"
#include "oracle/window.h"

typedef struct vn_conv {
    vn_windows_t w;
    bool transposed;
    int64_t batch, channels, maps; /* N, C, M */
    int64_t groups, cg, mg;        /* channels and maps of a group */
    int64_t depth;                 /* cg * taps: inner dimension */
    int64_t tile;                  /* positions gathered at a time: depth * tile elements stay below 2^20 */
    int64_t map_tile, map_tiles;   /* maps of a group are split where there are few tiles of positions */
    int rank;
    int64_t dims[VN_MAX_RANK]; /* of the output */
} vn_conv_t;

/** Geometry of X (operand kx) with weights kw: [M, C/g, k...], transposed: [C, M/g, k...]. Errors: SHAPE names what does not fit. */
vn_status_t vn_conv_plan(vn_eval_t *e, int kx, int kw, bool transposed, vn_conv_t *out);

/** Which input elements the taps of positions [first, first + count) read: runs of constant step per tap, shared by all channels. */
typedef struct vn_run {
    int64_t to, length, from, step; /* from < 0: padding */
} vn_run_t;
typedef struct vn_columns {
    const vn_conv_t *c;
    int64_t first, count;
    bool planned;
    vn_run_t *runs; /* those of tap t: runs[start[t] .. start[t+1]) */
    int64_t *start;
    double *terms; /* present terms per position */
    bool padded;
    int64_t *offset; /* scratch, one tap */
    int64_t capacity;
} vn_columns_t;
bool vn_columns_new(const vn_conv_t *c, int64_t max_count, vn_columns_t *out);
void vn_columns_free(vn_columns_t *c);
/** Plans the runs, unless they are those of the last call. False: no memory. */
bool vn_columns_at(vn_columns_t *c, int64_t first, int64_t count);
/** Gathers [depth, count] from one image and group: x points at its first channel. */
void vn_columns_f64(const vn_columns_t *c, const double *x, double *out);
void vn_columns_f32(const vn_columns_t *c, const float *x, float *out);

/** Tasks of a convolution: (image, group, tile of positions, tile of maps). */
typedef struct vn_conv_task {
    int64_t image, group, first, count, map, maps;
} vn_conv_task_t;
int64_t vn_conv_tasks(const vn_conv_t *c);
vn_conv_task_t vn_conv_task(const vn_conv_t *c, int64_t index);
/** Tasks that are worth a thread together. */
int64_t vn_conv_grain(const vn_conv_t *c);

/** out[N, M, P] = exact f64 sums of x and w ([M, cg, taps]), both integers small enough. Errors: NOMEM. */
vn_status_t vn_conv_exact(vn_eval_t *e, const vn_conv_t *c, const double *x, const double *w, double *out);

/* Evaluations of the quantised and deformed rows. */
vn_status_t vn_eval_conv_integer(vn_eval_t *e);
vn_status_t vn_infer_conv_integer(vn_eval_t *e);
vn_status_t vn_eval_qlinear_conv(vn_eval_t *e);
vn_status_t vn_infer_qlinear_conv(vn_eval_t *e);
vn_status_t vn_eval_deform_conv(vn_eval_t *e);
vn_status_t vn_infer_deform_conv(vn_eval_t *e);

#endif
