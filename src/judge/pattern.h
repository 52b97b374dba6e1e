/* pattern.h -- what the pattern families share: the wrong elements of one output, and how surprising it is that a rule fits them.
 *
 * A pattern is a rule about the actual and the expected values alone. Claim PATTERN-1: it is offered only if it holds for every wrong element
 * and chance would make it hold in at most one of 2^10 failing outputs, whatever number of rules was tried.
 */
#ifndef VN_JUDGE_PATTERN_H
#define VN_JUDGE_PATTERN_H

#include "judge/explain.h"
#include "judge/places.h"

typedef struct vn_pattern {
    vn_explain_t *e;
    const vn_tensor_t *got, *want;
    int64_t n, m;      /* elements; wrong ones */
    int64_t *at;       /* the wrong ones, ascending */
    bool exact;        /* equality is the test: integers, bool, strings, complex */
    bool near;         /* most wrong values are rounding steps away from those due: nothing was moved */
    bool index;        /* the output counts places of an operand (ArgMax, TopK, NonZero ...) */
    vn_node_t *node;   /* the node that made the output; NULL inside a larger region */
    uint8_t *mark;     /* scratch of n for vn_places_find */
    vn_places_t where; /* of the wrong elements */
    /* private: values of the expected output, sorted; of the wrong elements a sample with different actual values */
    double *pool;
    int64_t n_pool;
    double grid; /* of floats: a power of two that divides every expected value */
    int64_t *sample, n_sample;
} vn_pattern_t;

/** Sources of the wrong elements: the expected element that is said to be in place i; -1: nothing is said about i. */
typedef struct vn_move {
    int64_t (*from)(const struct vn_move *v, int64_t i);
    int64_t d, inner, k; /* axis: its size, elements behind one of its indices; parameter */
    int axis;
    const int64_t *table;
    int rank;
    int64_t dims[VN_MAX_RANK], strides[VN_MAX_RANK];
} vn_move_t;

/** Room of element j for a value that belongs there; 0 where equality is due. */
double vn_pattern_room(const vn_pattern_t *p, int64_t j);
/** Actual element i is what is expected at j. */
bool vn_pattern_holds(const vn_pattern_t *p, int64_t i, int64_t j);
/** Actual element i as a number that can be sorted and compared for equality: its value, or of exact types a hash of its bits. */
double vn_pattern_key(const vn_pattern_t *p, const vn_tensor_t *t, int64_t i);
/** Share of the expected elements that actual element i could stand for. */
double vn_pattern_share(const vn_pattern_t *p, int64_t i, double room);
/** -ln of the chance that a value of this size lies within `room` by accident. */
double vn_pattern_accident(const vn_pattern_t *p, double x, double room);
/** What evidence must exceed after exp(log_tried) rules. */
double vn_pattern_limit(double log_tried);
/**
 * Whether the move is more than chance: the wrong elements with different values must be unlikely accidents, and unlikely picks from the expected
 * values. Where few values occur, the places of the wrong elements count instead, among the `whole` elements that the move takes from elsewhere,
 * if it explains the right ones of these too (else whole is 0).
 */
bool vn_pattern_surprising(const vn_pattern_t *p, const vn_move_t *v, int64_t whole, double log_tried);
/** Marks the wrong elements, and as EITHER those right ones for which look(ctx, i) is true; describes them. */
vn_status_t vn_pattern_where(vn_pattern_t *p, bool (*look)(const vn_pattern_t *p, const void *ctx, int64_t i), const void *ctx,
                             vn_places_t *out, vn_error_t *err);

/* The sub-families, in the order of asking. */
vn_status_t vn_pattern_values(vn_pattern_t *p, vn_error_t *err);   /* pattern_values.c: zeros, constants, NaN, limits */
vn_status_t vn_pattern_integers(vn_pattern_t *p, vn_error_t *err); /* pattern_index.c: indices, wrapping, saturation */
vn_status_t vn_pattern_ratio(vn_pattern_t *p, vn_error_t *err);    /* pattern_ratio.c: constant factors, signs */
vn_status_t vn_pattern_moved(vn_pattern_t *p, vn_error_t *err);    /* pattern_moved.c: right values at wrong places */
vn_status_t vn_pattern_stale(vn_pattern_t *p, vn_error_t *err);    /* pattern_stale.c: operands, sums that were not cleared */
vn_status_t vn_pattern_guess(vn_pattern_t *p, vn_error_t *err);    /* pattern_guess.c: asked after all other families */

#endif
