/* value_file.c -- one value in a .pb file: TensorProto, SequenceProto, OptionalProto. The outer messages are walked here, within bounds;
 * every tensor inside goes through the scanner of wire.h like any other. */
#include <stdio.h>
#include <string.h>

#include "tensor/tensor_proto.h"
#include "tensor/wire.h"

typedef struct walk {
    const char *label;
    const char *folder;
    vn_dtype_t elem;
    vn_error_t *err;
} walk_t;

/* A piece of the file, and where it begins there. */
typedef struct piece {
    const unsigned char *data;
    size_t size, at;
} piece_t;

static bool take_varint(piece_t *p, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && p->size; shift += 7) {
        const unsigned char byte = *p->data++;
        --p->size;
        ++p->at;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool take_bytes(piece_t *p, uint64_t n, piece_t *out) {
    if (n > p->size) return false;
    *out = (piece_t){p->data, (size_t)n, p->at};
    p->data += n;
    p->size -= (size_t)n;
    p->at += (size_t)n;
    return true;
}

static vn_status_t read_tensor(const walk_t *w, piece_t p, vn_value_t **out) {
    vn_wire_scan_t scan;
    vn_proto_origin_t origin = {.skeleton = true, .folder = w->folder};
    char label[300];
    *out = NULL;
    snprintf(label, sizeof label, "%.240s: tensor at offset %zu", w->label, p.at);
    VN_TRY(vn_wire_scan(p.data, p.size, VN_WIRE_TENSOR, label, &scan, w->err));
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, scan.size, scan.skeleton);
    vn_wire_scan_free(&scan);
    if (!proto) return vn_fail(w->err, VN_ERR_PARSE, "%s: is not an ONNX TensorProto, or memory is out", label);
    vn_tensor_t *t = NULL;
    vn_status_t s = vn_source_copy(p.data, p.size, &origin.source, w->err);
    if (s == VN_OK) s = vn_tensor_from_proto(proto, &origin, label, &t, w->err);
    if (s == VN_OK && !(*out = vn_value_tensor(t))) s = vn_fail(w->err, VN_ERR_NOMEM, "%s: out of memory", label);
    onnx__tensor_proto__free_unpacked(proto, NULL);
    vn_proto_origin_free(&origin);
    return s;
}

/* Fields of SequenceProto and of OptionalProto have the same numbers; only the tensors, sequences and optionals are held here. */
enum { FIELD_TENSOR = 3, FIELD_SPARSE = 4, FIELD_SEQUENCE = 5, FIELD_MAP = 6, FIELD_OPTIONAL = 7 };

static vn_status_t read_list(const walk_t *w, vn_value_kind_t kind, piece_t p, int depth, vn_value_t **out);

static vn_status_t read_item(const walk_t *w, unsigned field, piece_t p, int depth, vn_value_t **out) {
    if (field == FIELD_TENSOR) return read_tensor(w, p, out);
    return read_list(w, field == FIELD_SEQUENCE ? VN_VALUE_SEQUENCE : VN_VALUE_OPTIONAL, p, depth + 1, out);
}

typedef struct items {
    vn_value_t **v;
    int64_t count, capacity;
} items_t;

static vn_status_t add_item(const walk_t *w, items_t *l, vn_value_t *v) {
    if (l->count == l->capacity) {
        const int64_t more = l->capacity ? 2 * l->capacity : 8;
        vn_value_t **grown = vn_realloc(l->v, (size_t)more, sizeof *grown);
        if (!grown) {
            vn_value_free(v);
            return vn_fail(w->err, VN_ERR_NOMEM, "%s: out of memory", w->label);
        }
        l->v = grown;
        l->capacity = more;
    }
    l->v[l->count++] = v;
    return VN_OK;
}

static vn_status_t read_field(const walk_t *w, vn_value_kind_t kind, piece_t *p, int depth, items_t *l) {
    const size_t at = p->at;
    uint64_t tag, n;
    piece_t inside;
    vn_value_t *v = NULL;
    if (!take_varint(p, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return vn_fail(w->err, VN_ERR_PARSE, "%s: a field's tag is broken (offset %zu)", w->label, at);
    const unsigned wire = (unsigned)(tag & 7);
    const uint64_t field = tag >> 3;
    bool good = false;
    if (wire == 0) good = take_varint(p, &n);
    else if (wire == 1 || wire == 5) good = take_bytes(p, wire == 1 ? 8 : 4, &inside);
    else if (wire == 2) good = take_varint(p, &n) && take_bytes(p, n, &inside);
    if (!good) return vn_fail(w->err, VN_ERR_PARSE, "%s: a field is broken or runs past its message (offset %zu)", w->label, at);
    if (field < FIELD_TENSOR || field > FIELD_OPTIONAL) return VN_OK; /* name, elem_type, and what later versions add */
    if (wire != 2) return vn_fail(w->err, VN_ERR_PARSE, "%s: a value has the wrong wire type (offset %zu)", w->label, at);
    if (field == FIELD_SPARSE || field == FIELD_MAP)
        return vn_fail(w->err, VN_ERR_UNSUPPORTED, "%s: %s inside a sequence or an optional are not supported (offset %zu)", w->label,
                       field == FIELD_MAP ? "maps" : "sparse tensors", at);
    if (kind == VN_VALUE_OPTIONAL && l->count)
        return vn_fail(w->err, VN_ERR_PARSE, "%s: an optional holds two values (offset %zu)", w->label, at);
    VN_TRY(read_item(w, (unsigned)field, inside, depth, &v));
    return add_item(w, l, v);
}

static vn_dtype_t common_elem(const walk_t *w, const items_t *l) {
    for (int64_t i = 0; i < l->count; ++i)
        if (l->v[i]->elem != VN_UNDEFINED) return l->v[i]->elem;
    return w->elem;
}

static vn_status_t read_list(const walk_t *w, vn_value_kind_t kind, piece_t p, int depth, vn_value_t **out) {
    items_t l = {0};
    vn_status_t s = VN_OK;
    *out = NULL;
    if (depth > VN_WIRE_MAX_NESTING)
        return vn_fail(w->err, VN_ERR_PARSE, "%s: nested deeper than %d (offset %zu)", w->label, (int)VN_WIRE_MAX_NESTING, p.at);
    while (p.size && s == VN_OK) s = read_field(w, kind, &p, depth, &l);
    if (s == VN_OK && !(*out = vn_value_list(kind, common_elem(w, &l), l.v, l.count)))
        s = vn_fail(w->err, VN_ERR_NOMEM, "%s: out of memory", w->label);
    for (int64_t i = 0; i < l.count; ++i) vn_value_free(l.v[i]);
    vn_free(l.v);
    return s;
}

vn_status_t vn_value_parse(const void *data, size_t size, const char *label, const char *folder, vn_value_kind_t kind, vn_dtype_t elem,
                           vn_value_t **out, vn_error_t *err) {
    const walk_t w = {label, folder, elem, err};
    const piece_t p = {data, size, 0};
    *out = NULL;
    switch (kind) {
    case VN_VALUE_TENSOR: return read_tensor(&w, p, out);
    case VN_VALUE_SEQUENCE:
    case VN_VALUE_OPTIONAL: return read_list(&w, kind, p, 0, out);
    default: return vn_fail(err, VN_ERR_USAGE, "%s: a file holds a tensor, a sequence or an optional", label);
    }
}

vn_status_t vn_value_read(const char *path, vn_value_kind_t kind, vn_dtype_t elem, vn_value_t **out, vn_error_t *err) {
    const char *slash = strrchr(path, '/');
    vn_map_t map;
    *out = NULL;
    char *folder = slash ? vn_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : vn_strdup(".");
    if (!folder) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    vn_status_t s = vn_map_file(path, &map, err);
    if (s == VN_OK) {
        s = vn_value_parse(map.data, map.size, path, folder, kind, elem, out, err);
        vn_unmap(&map);
    }
    vn_free(folder);
    return s;
}
