/* detection.h -- what the files of the fault catalogue share. */
#ifndef VN_JUDGE_DETECTION_H
#define VN_JUDGE_DETECTION_H

#include "judge/ladder.h"

/** Element i, changed from `actual` to `faulty` (rounded to the output's type first), would leave what the contract allows. */
bool vn_would_flag(const vn_ref_t *r, int64_t i, double actual, double faulty);

/** Faults inside a sum or a statistic: lost terms, narrower operands and accumulators (with the fingerprint), another epsilon. Adds to
 *  detection_of and detection_caught those that apply. Errors: NOMEM. */
vn_status_t vn_detection_sums(vn_case_t *c, vn_error_t *err);

#endif
