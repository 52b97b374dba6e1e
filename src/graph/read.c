/* read.c -- model files and bytes: the bounded scanner, protobuf-c on its skeleton, conversion, finishing. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "tensor/tensor_proto.h"
#include "tensor/wire.h"

/* ---- a bounded allocator: what a file may make protobuf-c allocate is a multiple of what the file holds ----
 * The dearest things that real models have many of are dimensions (4 bytes in the file, some 100 here) and unpacked integers (2 bytes
 * there, 48 here). */

enum { BYTES_PER_BYTE = 64, BYTES_FREE = 1 << 24 };

typedef struct budget {
    size_t live, limit;
    bool exceeded;
} budget_t;

typedef union block_head {
    size_t size;
    max_align_t align;
} block_head_t;

static void *budget_alloc(void *ctx, size_t size) {
    budget_t *b = ctx;
    size_t total;
    if (!vn_size_add(size, sizeof(block_head_t), &total) || total > b->limit - b->live) {
        b->exceeded = true;
        return NULL;
    }
    block_head_t *head = vn_realloc(NULL, total, 1);
    if (!head) return NULL;
    head->size = total;
    b->live += total;
    return head + 1;
}

static void budget_free(void *ctx, void *p) {
    budget_t *b = ctx;
    if (!p) return;
    block_head_t *head = (block_head_t *)p - 1;
    b->live -= head->size;
    vn_free(head);
}

/* ---- tensors of a skeleton ---- */

static vn_status_t dense(void *ctx, const Onnx__TensorProto *p, const char *label, vn_tensor_t **out, vn_error_t *err) {
    return vn_tensor_from_proto(p, ctx, label, out, err);
}

static vn_status_t sparse(void *ctx, const Onnx__SparseTensorProto *p, const char *label, vn_tensor_t **out, vn_error_t *err) {
    return vn_sparse_from_proto(p, ctx, label, out, err);
}

static vn_status_t unpack(const vn_wire_scan_t *scan, vn_proto_origin_t *origin, const char *label, vn_model_t *m, vn_error_t *err) {
    budget_t budget = {0};
    if (!vn_size_mul(scan->size, BYTES_PER_BYTE, &budget.limit) || !vn_size_add(budget.limit, BYTES_FREE, &budget.limit))
        budget.limit = SIZE_MAX;
    ProtobufCAllocator allocator = {.alloc = budget_alloc, .free = budget_free, .allocator_data = &budget};
    Onnx__ModelProto *p = onnx__model_proto__unpack(&allocator, scan->size, scan->skeleton);
    if (!p && budget.exceeded)
        return vn_fail(err, VN_ERR_RANGE, "%s: its %zu bytes of structure unfold to more than %zu bytes; no real model does that", label,
                       scan->size, budget.limit);
    if (!p) return vn_fail(err, VN_ERR_NOMEM, "%s: cannot unpack %zu bytes of structure; out of memory?", label, scan->size);
    const vn_tensor_source_t tensors = {.dense = dense, .sparse = sparse, .ctx = origin};
    vn_status_t s = vn_convert_model(p, &tensors, m, err);
    onnx__model_proto__free_unpacked(p, &allocator);
    if (s != VN_OK) vn_fail_prefix(err, "%s", label);
    return s;
}

static vn_status_t parse(vn_source_t *source, const char *label, const char *path, const char *folder, vn_model_t *m, vn_error_t *err) {
    vn_wire_scan_t scan;
    vn_proto_origin_t origin = {.source = vn_source_retain(source), .skeleton = true, .folder = folder};
    vn_sha256_hex(source->data, source->size, m->sha256);
    if (path) m->path = vn_arena_strdup(m->arena, path);
    if (folder) m->folder = vn_arena_strdup(m->arena, folder);
    vn_status_t s = !m->sha256[0] || (path && !m->path) || (folder && !m->folder) ? vn_no_memory(err, "reading a model") : VN_OK;
    if (s == VN_OK) s = vn_wire_scan(source->data, source->size, VN_WIRE_MODEL, label, &scan, err);
    if (s == VN_OK) {
        s = unpack(&scan, &origin, label, m, err);
        vn_wire_scan_free(&scan);
    }
    vn_proto_origin_free(&origin);
    if (s == VN_OK) {
        s = vn_model_finish(m, err);
        if (s != VN_OK) vn_fail_prefix(err, "%s", label);
    }
    return s;
}

static vn_status_t read_source(vn_source_t *source, const char *label, const char *path, const char *folder, vn_model_t **out,
                               vn_error_t *err) {
    vn_model_t *m = NULL;
    vn_status_t s = vn_model_empty(&m, err);
    if (s == VN_OK) s = parse(source, label, path, folder, m, err);
    vn_source_free(source);
    if (s == VN_OK) *out = m;
    else vn_model_free(m);
    return s;
}

vn_status_t vn_model_read(const char *path, vn_model_t **out, vn_error_t *err) {
    vn_source_t *source;
    *out = NULL;
    VN_TRY(vn_source_map(path, &source, err));
    const char *slash = strrchr(path, '/');
    char *folder = !slash ? vn_strdup(".") : slash == path ? vn_strdup("/") : vn_strndup(path, (size_t)(slash - path));
    if (!folder) {
        vn_source_free(source);
        return vn_no_memory(err, "reading a model");
    }
    vn_status_t s = read_source(source, path, path, folder, out, err);
    vn_free(folder);
    return s;
}

vn_status_t vn_model_parse(const void *data, size_t size, const char *label, const char *folder, vn_model_t **out, vn_error_t *err) {
    vn_source_t *source;
    *out = NULL;
    vn_status_t s = vn_source_copy(data, size, &source, err);
    if (s != VN_OK) {
        vn_fail_prefix(err, "%s", label);
        return s;
    }
    return read_source(source, label, NULL, folder, out, err);
}
