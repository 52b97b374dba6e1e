/* vernier/probe.h -- input generators. */
#ifndef VERNIER_PROBE_H
#define VERNIER_PROBE_H

#include "vernier/base.h"
#include "vernier/graph.h"
#include "vernier/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One shape override, "name=1x3x224x224". */
typedef struct vn_shape_arg {
    const char *name;
    int rank;
    int64_t dims[VN_MAX_RANK];
} vn_shape_arg_t;
VN_API vn_status_t vn_shape_parse(const char *text, vn_shape_arg_t *out, char *name, size_t name_size, vn_error_t *err);

/**
 * Seeded inputs for every run input of the model: floats N(0,1) rounded to the type; bool fair; integers from a range that the graph
 * makes safe (a Gather index: [0, size of the gathered axis), else [0, 9]); strings "a".."z". Symbolic dims: 1 for the first,
 * a shape override where given, else 16 (same parameter, same value).
 * Errors     USAGE: an override names no input, or contradicts a fixed dimension; UNSUPPORTED: a sequence or optional input.
 */
VN_API vn_status_t vn_probe_inputs(const vn_model_t *m, uint64_t seed, int n_shapes, const vn_shape_arg_t *shapes, vn_bundle_t *out,
                                   vn_error_t *err);

#ifdef __cplusplus
}
#endif
#endif
