/* tensor_file.c -- a TensorProto alone in a file, and files of tensors by extension. */
#include <string.h>
#include <strings.h>

#include "tensor/tensor_proto.h"
#include "tensor/wire.h"

static vn_status_t read_proto(vn_proto_origin_t *origin, const char *path, vn_bundle_t *out, vn_error_t *err) {
    vn_wire_scan_t scan;
    VN_TRY(vn_wire_scan(origin->source->data, origin->source->size, VN_WIRE_TENSOR, path, &scan, err));
    Onnx__TensorProto *p = onnx__tensor_proto__unpack(NULL, scan.size, scan.skeleton);
    vn_wire_scan_free(&scan);
    if (!p) return vn_fail(err, VN_ERR_PARSE, "%s: is not an ONNX TensorProto, or memory is out", path);
    vn_tensor_t *t = NULL;
    vn_status_t s = vn_tensor_from_proto(p, origin, path, &t, err);
    if (s == VN_OK) s = vn_bundle_add(out, p->name ? p->name : "", t, err);
    vn_tensor_free(t);
    onnx__tensor_proto__free_unpacked(p, NULL);
    return s;
}

vn_status_t vn_tensorproto_read(const char *path, vn_bundle_t *out, vn_error_t *err) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? vn_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : vn_strdup(".");
    *out = (vn_bundle_t){0};
    if (!folder) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    vn_proto_origin_t origin = {.skeleton = true, .folder = folder};
    vn_status_t s = vn_source_map(path, &origin.source, err);
    if (s == VN_OK) s = read_proto(&origin, path, out, err);
    if (s != VN_OK) vn_bundle_free(out);
    vn_proto_origin_free(&origin);
    vn_free(folder);
    return s;
}

/* The name of the one tensor of an .npy: the file's name without folder and extension. */
static vn_status_t read_npy(const char *path, vn_bundle_t *out, vn_error_t *err) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    char *stem = vn_strndup(base, dot && dot != base ? (size_t)(dot - base) : strlen(base));
    vn_tensor_t *t = NULL;
    *out = (vn_bundle_t){0};
    if (!stem) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    vn_status_t s = vn_npy_read(path, &t, err);
    if (s == VN_OK) s = vn_bundle_add(out, stem, t, err);
    if (s != VN_OK) vn_bundle_free(out);
    vn_tensor_free(t);
    vn_free(stem);
    return s;
}

vn_status_t vn_tensors_read(const char *path, vn_bundle_t *out, vn_error_t *err) {
    static const struct {
        const char *extension;
        vn_status_t (*read)(const char *, vn_bundle_t *, vn_error_t *);
    } rows[] = {
        {".npy", read_npy},
        {".npz", vn_npz_read},
        {".safetensors", vn_safetensors_read},
        {".pb", vn_tensorproto_read},
    };
    *out = (vn_bundle_t){0};
    const char *dot = strrchr(path, '.');
    for (size_t k = 0; dot && k < sizeof rows / sizeof *rows; ++k)
        if (strcasecmp(dot, rows[k].extension) == 0) return rows[k].read(path, out, err);
    return vn_fail(err, VN_ERR_USAGE, "%s: not a file of tensors by its name; .npy, .npz, .safetensors and .pb are known", path);
}
