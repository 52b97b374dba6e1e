/* session.c -- one compiled model: reading, compiling, running. */
#include "session.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- load ---- */

typedef int (*port_by_index_fn)(const ov_compiled_model_t *, size_t, ov_port_t **);
typedef int (*port_by_name_fn)(const ov_compiled_model_t *, const char *, ov_port_t **);

static vn_status_t port_name(const ov_api_t *api, ov_port_t *port, char **out, vn_error_t *err) {
    char *name = NULL;
    const int code = api->ov_port_get_any_name(port, &name);
    /* A port may have no name: then nothing asks for it by name either. */
    *out = vn_strdup(code == OV_OK && name ? name : "");
    if (code == OV_OK) api->ov_free(name);
    return *out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "out of memory");
}

static vn_status_t list_ports(const ov_api_t *api, const ov_compiled_model_t *m, port_by_index_fn get, size_t n, char ***out,
                              vn_error_t *err) {
    *out = vn_alloc(n, sizeof **out);
    if (!*out && n) return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n; ++i) {
        ov_port_t *port = NULL;
        const int code = get(m, i, &port);
        if (code != OV_OK) return ov_fail(api, err, VN_ERR_WORKER, "port", code);
        const vn_status_t s = port_name(api, port, &(*out)[i], err);
        api->ov_output_const_port_free(port);
        VN_TRY(s);
    }
    return VN_OK;
}

/* OpenVINO looks for the files of external data from the working directory when a model comes from memory. */
static vn_status_t read_model(ov_device_t *d, const vn_load_request_t *rq, ov_model_t **out, vn_error_t *err) {
    int back = -1;
    if (rq->folder && *rq->folder) {
        back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (back < 0 || chdir(rq->folder) != 0) {
            if (back >= 0) close(back);
            return vn_fail(err, VN_ERR_IO, "folder of the model '%s' cannot be entered", rq->folder);
        }
    }
    const int code = d->api.ov_core_read_model_from_memory_buffer(d->core, rq->bytes, rq->size, NULL, out);
    vn_status_t s = code == OV_OK ? VN_OK : ov_fail(&d->api, err, VN_ERR_UNSUPPORTED, "OpenVINO cannot read the model", code);
    if (back >= 0) {
        if (fchdir(back) != 0 && s == VN_OK) s = vn_fail(err, VN_ERR_IO, "cannot return to the working directory");
        close(back);
    }
    return s;
}

static vn_status_t prepare(ov_device_t *d, vn_worker_session_t *s, const ov_model_t *model, vn_error_t *err) {
    const ov_api_t *api = &d->api;
    int code = api->ov_core_compile_model(d->core, model, d->name, 0, &s->compiled);
    if (code != OV_OK) return ov_fail(api, err, VN_ERR_UNSUPPORTED, "OpenVINO cannot compile the model", code);
    code = api->ov_compiled_model_inputs_size(s->compiled, &s->n_inputs);
    if (code == OV_OK) code = api->ov_compiled_model_outputs_size(s->compiled, &s->n_outputs);
    if (code == OV_OK) code = api->ov_compiled_model_create_infer_request(s->compiled, &s->request);
    if (code != OV_OK) return ov_fail(api, err, VN_ERR_WORKER, "OpenVINO", code);
    VN_TRY(list_ports(api, s->compiled, api->ov_compiled_model_input_by_index, s->n_inputs, &s->inputs, err));
    return list_ports(api, s->compiled, api->ov_compiled_model_output_by_index, s->n_outputs, &s->outputs, err);
}

vn_status_t ov_session_load(ov_device_t *d, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    *out = NULL;
    if (strcmp(rq->format, "onnx") != 0) return vn_fail(err, VN_ERR_UNSUPPORTED, "openvino reads onnx, not %s", rq->format);
    vn_worker_session_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    ov_model_t *model = NULL;
    vn_status_t status = read_model(d, rq, &model, err);
    if (status == VN_OK) status = prepare(d, s, model, err);
    if (model) d->api.ov_model_free(model);
    if (status == VN_OK) *out = s;
    else ov_session_free(d, s);
    return status;
}

void ov_session_free(ov_device_t *d, vn_worker_session_t *s) {
    if (!s) return;
    for (size_t i = 0; s->inputs && i < s->n_inputs; ++i) vn_free(s->inputs[i]);
    for (size_t i = 0; s->outputs && i < s->n_outputs; ++i) vn_free(s->outputs[i]);
    vn_free(s->inputs);
    vn_free(s->outputs);
    if (s->request) d->api.ov_infer_request_free(s->request);
    if (s->compiled) d->api.ov_compiled_model_free(s->compiled);
    vn_free(s);
}

/* ---- names to ports ---- */

/* Index of the port that knows `name`, under any of its names; -1: none. */
static int find_port(const ov_api_t *api, const ov_compiled_model_t *m, port_by_name_fn get, char *const *names, size_t n,
                     const char *name) {
    for (size_t i = 0; i < n; ++i)
        if (strcmp(names[i], name) == 0) return (int)i;
    ov_port_t *port = NULL;
    int at = -1;
    if (get(m, name, &port) == OV_OK) {
        char *any = NULL;
        if (api->ov_port_get_any_name(port, &any) == OV_OK) {
            for (size_t i = 0; i < n && at < 0; ++i)
                if (strcmp(names[i], any) == 0) at = (int)i;
            api->ov_free(any);
        }
        api->ov_output_const_port_free(port);
    }
    return at;
}

/*
 * ports[k]: the port of io[k], by name; what is left on both sides in order, if it is equally many; -1: none.
 * *left: ports that nothing was found for.
 */
static vn_status_t pair(const ov_api_t *api, const ov_compiled_model_t *m, port_by_name_fn get, char *const *names, size_t n,
                        const vn_io_t *io, int n_io, int *ports, int *left, vn_error_t *err) {
    bool *taken = vn_alloc(n + 1, sizeof *taken);
    if (!taken) return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    int unnamed = 0;
    for (int k = 0; k < n_io; ++k) {
        ports[k] = find_port(api, m, get, names, n, io[k].name);
        if (ports[k] >= 0) taken[ports[k]] = true;
        else ++unnamed;
    }
    *left = 0;
    for (size_t i = 0; i < n; ++i) *left += !taken[i];
    const bool in_order = *left == unnamed;
    size_t next = 0;
    for (int k = 0; k < n_io && in_order; ++k) {
        if (ports[k] >= 0) continue;
        while (taken[next]) ++next;
        ports[k] = (int)next++;
    }
    if (in_order) *left = 0;
    vn_free(taken);
    return VN_OK;
}

/* ---- run ---- */

static vn_status_t give_input(ov_device_t *d, vn_worker_session_t *s, const vn_io_t *io, int port, vn_error_t *err) {
    const ov_api_t *api = &d->api;
    char what[200];
    snprintf(what, sizeof what, "input '%.150s'", io->name);
    if (!io->tensor) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: OpenVINO has no absent inputs", what);
    const vn_tensor_t *t = io->tensor;
    const int type = ov_type_number(api, t->dtype);
    if (type < 0 || t->dtype == VN_STRING)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: OpenVINO's C interface has no %s tensors", what, vn_dtype_name(t->dtype));
    int64_t dims[VN_MAX_RANK];
    memcpy(dims, t->dims, sizeof dims);
    const ov_shape_t shape = {t->rank, dims};
    ov_tensor_t *tensor = NULL;
    /* The memory is shared, not copied: it stays mapped until the reply is written. */
    int code =
        t->count > 0 ? api->ov_tensor_create_from_host_ptr(type, shape, t->data, &tensor) : api->ov_tensor_create(type, shape, &tensor);
    if (code == OV_OK) code = api->ov_infer_request_set_input_tensor_by_index(s->request, (size_t)port, tensor);
    vn_status_t status = code == OV_OK ? VN_OK : ov_fail(api, err, VN_ERR_WORKER, what, code);
    if (tensor) api->ov_tensor_free(tensor);
    return status;
}

/* Rank and dims of a tensor. The C layer makes no shape of rank 0: then one element without a shape is a scalar. */
static int tensor_shape(const ov_api_t *api, const ov_tensor_t *tensor, int64_t *rank, int64_t dims[VN_MAX_RANK]) {
    ov_shape_t shape = {0};
    size_t count = 0;
    int code = api->ov_tensor_get_shape(tensor, &shape);
    *rank = shape.rank;
    if (code == OV_INVALID_PARAMETER && api->ov_tensor_get_size(tensor, &count) == OV_OK && count == 1) {
        *rank = 0;
        return OV_OK;
    }
    if (code == OV_OK && shape.rank <= VN_MAX_RANK) memcpy(dims, shape.dims, (size_t)shape.rank * sizeof *dims);
    if (code == OV_OK && shape.dims) api->ov_shape_free(&shape);
    return code;
}

static vn_status_t copy_output(const ov_api_t *api, const ov_tensor_t *tensor, vn_io_t *io, const char *what, vn_error_t *err) {
    int type = 0;
    size_t bytes = 0, need = 0;
    int64_t rank = 0, dims[VN_MAX_RANK] = {0};
    void *data = NULL;
    int code = api->ov_tensor_get_element_type(tensor, &type);
    if (code == OV_OK) code = tensor_shape(api, tensor, &rank, dims);
    if (code == OV_OK) code = api->ov_tensor_get_byte_size(tensor, &bytes);
    if (code == OV_OK && bytes > 0) code = api->ov_tensor_data(tensor, &data);
    if (code != OV_OK) return ov_fail(api, err, VN_ERR_WORKER, what, code);
    const vn_dtype_t dtype = type >= 0 && type < api->n_types ? api->types[type] : VN_UNDEFINED;
    if (dtype == VN_UNDEFINED || dtype == VN_STRING)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: element type number %d of OpenVINO cannot be read through its C interface", what,
                       type);
    if (rank > VN_MAX_RANK) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: rank %lld", what, (long long)rank);
    vn_tensor_t *out = NULL;
    VN_TRY(vn_worker_output(io, dtype, (int)rank, dims, &out, err));
    if (!vn_dtype_storage(dtype, out->count, &need) || need != bytes)
        return vn_fail(err, VN_ERR_WORKER, "%s: OpenVINO's tensor has %zu bytes, its type and shape need %zu", what, bytes, need);
    if (bytes > 0) memcpy(out->data, data, bytes);
    /* What lies behind the last element of a packed type is no data. */
    const int tail = (int)((uint64_t)out->count * (uint64_t)vn_dtype_bits(dtype) % 8);
    if (tail) ((unsigned char *)out->data)[bytes - 1] &= (unsigned char)((1 << tail) - 1);
    return VN_OK;
}

static vn_status_t take_output(ov_device_t *d, vn_worker_session_t *s, vn_io_t *io, int port, vn_error_t *err) {
    const ov_api_t *api = &d->api;
    char what[200];
    snprintf(what, sizeof what, "output '%.150s'", io->name);
    ov_tensor_t *tensor = NULL;
    const int code = api->ov_infer_request_get_output_tensor_by_index(s->request, (size_t)port, &tensor);
    if (code != OV_OK) return ov_fail(api, err, VN_ERR_WORKER, what, code);
    const vn_status_t status = copy_output(api, tensor, io, what, err);
    api->ov_tensor_free(tensor);
    return status;
}

static vn_status_t run_paired(ov_device_t *d, vn_worker_session_t *s, vn_run_request_t *rq, int *in, int *out, vn_error_t *err) {
    const ov_api_t *api = &d->api;
    int left, unasked;
    VN_TRY(pair(api, s->compiled, api->ov_compiled_model_input_by_name, s->inputs, s->n_inputs, rq->inputs, rq->n_inputs, in, &left, err));
    VN_TRY(pair(api, s->compiled, api->ov_compiled_model_output_by_name, s->outputs, s->n_outputs, rq->outputs, rq->n_outputs, out,
                &unasked, err));
    if (left > 0)
        return vn_fail(err, VN_ERR_UNSUPPORTED,
                       "OpenVINO's model has %d inputs under names that the model does not have, and others are gone", left);
    for (int k = 0; k < rq->n_inputs; ++k) {
        if (in[k] >= 0) VN_TRY(give_input(d, s, &rq->inputs[k], in[k], err));
        else fprintf(stderr, "input '%s' is not among the compiled model's: OpenVINO dropped it\n", rq->inputs[k].name);
    }
    const int code = api->ov_infer_request_infer(s->request);
    if (code != OV_OK)
        return ov_fail(api, err, code == OV_NOT_IMPLEMENTED ? VN_ERR_UNSUPPORTED : VN_ERR_WORKER, "OpenVINO failed to run", code);
    for (int k = 0; k < rq->n_outputs; ++k) {
        if (out[k] >= 0) {
            VN_TRY(take_output(d, s, &rq->outputs[k], out[k], err));
        } else if (rq->outputs[k].tensor) { /* not returned */
            vn_tensor_free(rq->outputs[k].tensor);
            rq->outputs[k].tensor = NULL;
        }
    }
    return VN_OK;
}

vn_status_t ov_session_run(ov_device_t *d, vn_worker_session_t *s, vn_run_request_t *rq, vn_error_t *err) {
    int *ports = vn_alloc((size_t)rq->n_inputs + (size_t)rq->n_outputs + 1, sizeof *ports);
    if (!ports) return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    const vn_status_t status = run_paired(d, s, rq, ports, ports + rq->n_inputs, err);
    vn_free(ports);
    return status;
}
