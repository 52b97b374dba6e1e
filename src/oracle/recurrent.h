/* recurrent.h -- one direction of a recurrent layer: operands in a common layout, states with error and variance. */
#ifndef VN_ORACLE_RECURRENT_H
#define VN_ORACLE_RECURRENT_H

#include "oracle/quad.h"
#include "oracle/rows.h"

/** Value, sound error, variance of one hidden quantity. */
typedef struct vn_tri {
    double v, e, s;
} vn_tri_t;

/** What an activation may cost under the contract. */
typedef struct vn_gate_rule {
    double u, eta, t_tanh, t_sigmoid, t_exp;
    double log_max; /* logarithm of the largest number of the accumulator */
} vn_gate_rule_t;

typedef enum vn_gate_kind {
    VN_GATE_RELU,
    VN_GATE_TANH,
    VN_GATE_SIGMOID,
    VN_GATE_AFFINE,
    VN_GATE_LEAKY,
    VN_GATE_THRESHOLDED,
    VN_GATE_SCALED_TANH,
    VN_GATE_HARD_SIGMOID,
    VN_GATE_ELU,
    VN_GATE_SOFTSIGN,
    VN_GATE_SOFTPLUS
} vn_gate_kind_t;

typedef struct vn_gate {
    vn_gate_kind_t kind;
    double alpha, beta;
    double clip; /* +Inf: none */
} vn_gate_t;

/** Name as in the standard (any case) with its defaults; false if unknown. */
bool vn_gate_find(const char *name, vn_gate_t *out);
/** f(clip(z)) with error and variance carried. Claim RNN-1. */
vn_tri_t vn_gate_apply(const vn_gate_t *g, const vn_gate_rule_t *r, vn_tri_t z);
/** Sigmoid or tanh without clipping: the gates that vn_gate_row knows. */
bool vn_gate_is_plain(const vn_gate_t *g);
/**
 * The same for n arguments at once, as planes and without variance: y = f(z), and where ze is not NULL ye its error. In place is allowed.
 * Values are those of vn_gate_apply, bit by bit.
 */
void vn_gate_row(const vn_gate_t *g, const vn_gate_rule_t *r, int64_t n, const double *z, const double *ze, double *y, double *ye);
/** a * b and a + b with one rounding each, errors carried with all second-order terms. */
vn_tri_t vn_tri_mul(double u, double eta, vn_tri_t a, vn_tri_t b);
vn_tri_t vn_tri_add(double u, vn_tri_t a, vn_tri_t b);
/** z rounded to a format: between the rounded ends of its doubt, exact again where these agree. Claim RNN-4. */
vn_tri_t vn_tri_round(vn_format_t f, vn_rounding_t r, vn_tri_t z);

enum { VN_RNN_GATES = 4 };

/** One direction. Planes are f64, in the standard's layout 0. */
typedef struct vn_rnn_layer {
    vn_eval_t *e;
    char kind; /* 'R', 'G', 'L' */
    int gates; /* 1, 3, 4 */
    int64_t steps, batch, in, hidden;
    const double *x, *x_err;   /* [steps, batch, in] */
    const double *w, *r;       /* [gates*hidden, in], [gates*hidden, hidden] */
    bool w_turned;             /* w, r stored as [in, gates*hidden], [hidden, gates*hidden] */
    const double *wb, *rb;     /* [gates*hidden] each, or NULL */
    const double *peep;        /* [3*hidden] i o f, or NULL */
    const double *h0, *c0;     /* [batch, hidden] or NULL */
    const double *given;       /* [steps, batch, hidden] states that were returned, or NULL: each step starts from them (claim RNN-3) */
    double u_given, eta_given; /* rounding that stands between a returned state and the one that was used, 0 if none */
    const int64_t *lens;       /* [batch] */
    bool reverse, linear_before_reset, input_forget;
    vn_gate_t gate[3]; /* f, g, h */
    vn_gate_rule_t rule;
    double u_state, eta_state;       /* rounding of a stored hidden state, 0 if it is kept in the accumulator */
    vn_format_t h_format;            /* operands are rounded to it; NONE: not */
    vn_format_t mid_format;          /* each product of a gate, with x and with h, is rounded to it before they meet; NONE: not */
    bool mid_open;                   /* where the rounding to it happens is open: products, biases, the sums of them */
    vn_format_t given_format;        /* type of the store behind u_given, NONE if there is none */
    double quantised_x, quantised_h; /* half steps of dynamic quantisation of operands (second tier); 0 = none */
    bool bound, variance;
    double most; /* largest error of a gate's argument that was met */
    /* results, filled: y[t*batch*hidden..] in original time order (may be NULL), last h and c */
    vn_tri_t *y, *h, *c;
} vn_rnn_layer_t;
/** h and c: [batch*hidden], given by the caller; y: [steps*batch*hidden], zeroed. Errors: NOMEM. */
vn_status_t vn_rnn_run(vn_rnn_layer_t *l);

/** One hidden quantity in 113 bits, and a bound of its error. */
typedef struct vn_sharp {
    vn_quad_t v;
    double e;
} vn_sharp_t;
/**
 * The first steps[b] steps of each sample again, in twice the working precision (claims RNN-6, RNN-7); roundings to formats are not carried out.
 * y is zeroed; h and c are the states after these steps. hopeless: a relative error that decides nothing; where all states of a sample have at
 * least that, its later steps are not carried out and have an error of Inf. Errors: NOMEM.
 */
vn_status_t vn_rnn_exact(const vn_rnn_layer_t *l, const int64_t *steps, double hopeless, vn_sharp_t *y, vn_sharp_t *h, vn_sharp_t *c);

#endif
