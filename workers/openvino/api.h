/* api.h -- OpenVINO's C interface, loaded at run time from the Python package that ships it.
 *
 * Only what this worker calls is declared, in our own words, so that the build needs no OpenVINO. Functions are found by name in
 * libopenvino_c; the numbers of element types changed between releases and are read from the header of the package that is loaded.
 */
#ifndef VN_OPENVINO_API_H
#define VN_OPENVINO_API_H

#include "vernier/base.h"
#include "vernier/tensor.h"

typedef struct ov_core ov_core_t;
typedef struct ov_model ov_model_t;
typedef struct ov_compiled_model ov_compiled_model_t;
typedef struct ov_infer_request ov_infer_request_t;
typedef struct ov_output_const_port ov_port_t;
typedef struct ov_tensor ov_tensor_t;
typedef struct ov_shape { /* passed by value */
    int64_t rank;
    int64_t *dims;
} ov_shape_t;
typedef struct ov_version {
    const char *build, *description;
} ov_version_t;

/* Of its status codes, those that mean something here. From INVALID_PARAMETER down they are the C layer's own, which sets no text. */
enum { OV_OK = 0, OV_NOT_IMPLEMENTED = -2, OV_INVALID_PARAMETER = -14 };

/* X(result, name, parameters): every function of the interface that is used. */
#define OV_FUNCTIONS(X)                                                                                                         \
    X(const char *, ov_get_last_err_msg, (void))                                                                                \
    X(const char *, ov_get_error_info, (int status))                                                                            \
    X(void, ov_free, (const char *content))                                                                                     \
    X(int, ov_get_openvino_version, (ov_version_t * out))                                                                       \
    X(void, ov_version_free, (ov_version_t * version))                                                                          \
    X(int, ov_core_create, (ov_core_t * *out))                                                                                  \
    X(void, ov_core_free, (ov_core_t * core))                                                                                   \
    X(int, ov_core_set_property, (const ov_core_t *core, const char *device, ...))                                              \
    X(int, ov_core_get_property, (const ov_core_t *core, const char *device, const char *key, char **value))                    \
    X(int, ov_core_read_model_from_memory_buffer,                                                                               \
      (const ov_core_t *core, const char *model, size_t size, const ov_tensor_t *weights, ov_model_t **out))                    \
    X(void, ov_model_free, (ov_model_t * model))                                                                                \
    X(int, ov_core_compile_model,                                                                                               \
      (const ov_core_t *core, const ov_model_t *model, const char *device, size_t n, ov_compiled_model_t **out, ...))           \
    X(void, ov_compiled_model_free, (ov_compiled_model_t * compiled))                                                           \
    X(int, ov_compiled_model_get_property, (const ov_compiled_model_t *compiled, const char *key, char **value))                \
    X(int, ov_compiled_model_inputs_size, (const ov_compiled_model_t *compiled, size_t *size))                                  \
    X(int, ov_compiled_model_outputs_size, (const ov_compiled_model_t *compiled, size_t *size))                                 \
    X(int, ov_compiled_model_input_by_index, (const ov_compiled_model_t *compiled, size_t index, ov_port_t **out))              \
    X(int, ov_compiled_model_output_by_index, (const ov_compiled_model_t *compiled, size_t index, ov_port_t **out))             \
    X(int, ov_compiled_model_input_by_name, (const ov_compiled_model_t *compiled, const char *name, ov_port_t **out))           \
    X(int, ov_compiled_model_output_by_name, (const ov_compiled_model_t *compiled, const char *name, ov_port_t **out))          \
    X(int, ov_port_get_any_name, (const ov_port_t *port, char **name))                                                          \
    X(void, ov_output_const_port_free, (ov_port_t * port))                                                                      \
    X(int, ov_compiled_model_create_infer_request, (const ov_compiled_model_t *compiled, ov_infer_request_t **out))             \
    X(void, ov_infer_request_free, (ov_infer_request_t * request))                                                              \
    X(int, ov_infer_request_set_input_tensor_by_index, (ov_infer_request_t * request, size_t index, const ov_tensor_t *tensor)) \
    X(int, ov_infer_request_get_output_tensor_by_index, (const ov_infer_request_t *request, size_t index, ov_tensor_t **out))   \
    X(int, ov_infer_request_infer, (ov_infer_request_t * request))                                                              \
    X(int, ov_tensor_create, (int type, ov_shape_t shape, ov_tensor_t **out))                                                   \
    X(int, ov_tensor_create_from_host_ptr, (int type, ov_shape_t shape, void *data, ov_tensor_t **out))                         \
    X(int, ov_tensor_get_shape, (const ov_tensor_t *tensor, ov_shape_t *out))                                                   \
    X(int, ov_shape_free, (ov_shape_t * shape))                                                                                 \
    X(int, ov_tensor_get_element_type, (const ov_tensor_t *tensor, int *out))                                                   \
    X(int, ov_tensor_get_size, (const ov_tensor_t *tensor, size_t *out))                                                        \
    X(int, ov_tensor_get_byte_size, (const ov_tensor_t *tensor, size_t *out))                                                   \
    X(int, ov_tensor_data, (const ov_tensor_t *tensor, void **out))                                                             \
    X(void, ov_tensor_free, (ov_tensor_t * tensor))

enum { OV_MAX_TYPES = 64 };

typedef struct ov_api {
#define OV_MEMBER(result, name, parameters) result(*name) parameters;
    OV_FUNCTIONS(OV_MEMBER)
#undef OV_MEMBER
    void *library;
    char folder[4096];              /* the package's libs/ */
    vn_dtype_t types[OV_MAX_TYPES]; /* element type number -> ours; VN_UNDEFINED where ONNX has no such type */
    int n_types;
} ov_api_t;

/**
 * Loads the library of the Python environment whose root is `environment`.
 * Errors     NOTFOUND: no package there (the text says which command brings it), or a function or the header is missing from it.
 * Ownership  ov_api_close. `out` holds function pointers into the library.
 */
vn_status_t ov_api_open(const char *environment, ov_api_t *out, vn_error_t *err);
void ov_api_close(ov_api_t *api);

/** Number of an element type in this release; -1 if it has none. */
int ov_type_number(const ov_api_t *api, vn_dtype_t t);

/** Fails with `status` and "what: " + the library's own last words, without its source positions. */
vn_status_t ov_fail(const ov_api_t *api, vn_error_t *err, vn_status_t status, const char *what, int code);

#endif
