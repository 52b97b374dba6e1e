/* range.h -- which integers the graph can safely be given. */
#ifndef VN_PROBE_RANGE_H
#define VN_PROBE_RANGE_H

#include "vernier/probe.h"

/**
 * limits[k] for graph input k: integers of [0, limits[k]) are valid wherever the input is used as an index; INT64_MAX: no index use of
 * known size was found.
 */
vn_status_t vn_probe_limits(const vn_model_t *m, int64_t *limits, vn_error_t *err);

#endif
