/* recurrent_exact.h -- the engine of the second evaluation of recurrent layers: products in double-double, shared by its two forms of a step. */
#ifndef VN_ORACLE_RECURRENT_EXACT_H
#define VN_ORACLE_RECURRENT_EXACT_H

#include "oracle/dd.h"
#include "oracle/recurrent.h"

/** What a rounding of a carried error in f64 may lose, per step. */
#define VN_SHARP_ROOM (1 + 0x1p-40)

/** Running sums of products, one per column: sum + lost in double-double, absolute sum, carried error. */
typedef struct vn_sharp_sums {
    double *sum, *lost, *size, *err;
} vn_sharp_sums_t;

/** Double-double numbers with errors, in planes. */
typedef struct vn_sharp_plane {
    double *hi, *lo, *err;
} vn_sharp_plane_t;

typedef struct vn_sharp_layer {
    const vn_rnn_layer_t *l;
    int64_t width;                /* gates * hidden */
    double *w, *r;                /* [in, width], [hidden, width] */
    vn_sharp_plane_t v;           /* a vector as it enters a product: [max(in, hidden)] */
    vn_sharp_sums_t x, h, scaled; /* [width] each, scaled: [hidden] of a GRU that resets before the product */
} vn_sharp_layer_t;

/** The vector in x->v times columns [first, first + n) of weights [terms, width]. */
void vn_sharp_multiply(const vn_sharp_layer_t *x, const double *turned, int64_t terms, int64_t first, int64_t n,
                       const vn_sharp_sums_t *out);

/** Sigmoid and tanh only, no clips, peepholes and coupled gates: steps can go a row at a time, in double-double. */
bool vn_sharp_is_plain(const vn_rnn_layer_t *l);
/** Doubles that the scratch of a step needs, per hidden unit. */
enum { VN_SHARP_ROWS = 19 };
/** One step: the product with the step's input stands in x->x. h, c: the states, replaced. scratch: VN_SHARP_ROWS * hidden doubles. */
void vn_sharp_plain_step(vn_sharp_layer_t *x, double *scratch, vn_sharp_plane_t h, vn_sharp_plane_t c);

#endif
