/* session.h -- one compiled model: reading, compiling, running. */
#ifndef VN_OPENVINO_SESSION_H
#define VN_OPENVINO_SESSION_H

#include "api.h"
#include "vernier/protocol.h"

typedef struct ov_device {
    ov_api_t api;
    ov_core_t *core;
    char name[64]; /* "CPU" */
} ov_device_t;

struct vn_worker_session {
    ov_compiled_model_t *compiled;
    ov_infer_request_t *request;
    size_t n_inputs, n_outputs;
    char **inputs, **outputs; /* one name of each port */
};

/** Errors: UNSUPPORTED with OpenVINO's words when it cannot read or compile the model; NOMEM. */
vn_status_t ov_session_load(ov_device_t *device, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err);

/**
 * Inputs go to the port of their name. What then is left on both sides is paired in order, if it is equally many (OpenVINO renames inputs
 * of a graph without operators); inputs that are left alone were dropped by OpenVINO and are not given to it.
 * Outputs come back with the element type and shape that OpenVINO gives them, nothing is converted.
 * Errors     UNSUPPORTED: an element type without a counterpart; WORKER: OpenVINO's words.
 */
vn_status_t ov_session_run(ov_device_t *device, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err);
void ov_session_free(ov_device_t *device, vn_worker_session_t *s);

#endif
