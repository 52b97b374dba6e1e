/* shape.h -- concrete shapes for the run inputs of a model. */
#ifndef VN_PROBE_SHAPE_H
#define VN_PROBE_SHAPE_H

#include "vernier/probe.h"

/**
 * One shape for each of the `n` inputs indices[k] of the main graph, by the rules of vn_probe_inputs.
 * Errors     USAGE: an override that names no input, comes twice, or contradicts a declared rank, dimension or another override; an input
 *            of unknown rank without an override. UNSUPPORTED: an input that is not a tensor.
 * Ownership  *out: n entries, vn_free.
 */
vn_status_t vn_probe_shapes(const vn_model_t *m, int n, const int *indices, int n_shapes, const vn_shape_arg_t *shapes,
                            vn_shape_arg_t **out, vn_error_t *err);

#endif
