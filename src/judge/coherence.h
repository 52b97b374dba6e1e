/* coherence.h -- errors inside the bound that rows, columns, channels, lanes or tiles have in common. */
#ifndef VN_JUDGE_COHERENCE_H
#define VN_JUDGE_COHERENCE_H

#include "judge/ladder.h"

typedef struct vn_coherence {
    bool tried, found;
    bool accuses;  /* a factor common to the whole output; what single groups share is evidence only (COHERE-3) */
    double margin; /* of the strongest test over the limit, in nats; below 0: no test speaks */
    double log_p;  /* log of the probability of so much agreement by chance, at most */
    double share;  /* of the error that is common, 0..1 */
    double twins;  /* the same in correct orders of this very data */
    char what[200];
} vn_coherence_t;

/**
 * Claims COHERE-1, COHERE-2 (coherence.c). Speaks for plain sums of at least 16 terms and 64 elements that keep their bound.
 * Cost       At effort quick, blocks of rows evenly spread, about 65536 elements; else all.
 * Errors     NOMEM.
 */
vn_status_t vn_coherence(const vn_case_t *c, vn_coherence_t *out, vn_error_t *err);

/** Errors of elements at[0..n) when their terms are summed in the usual orders in the contract's arithmetic. *known false: no terms to try. */
enum { VN_TWIN_ORDERS = 4 };
vn_status_t vn_twin_errors(const vn_case_t *c, const int64_t *at, int64_t n, double (*errors)[VN_TWIN_ORDERS], bool *known,
                           vn_error_t *err);

#endif
