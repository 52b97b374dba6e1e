/* safetensors.c -- safetensors: u64 header length, JSON header, tensor bytes without gaps. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tensor/source.h"
#include "tensor/walk.h"

/* The format's own limit for the header. */
enum { MAX_HEADER = 100 * 1000 * 1000 };

static const struct {
    const char *name;
    vn_dtype_t dtype;
} types[] = {
    {"F64", VN_F64},
    {"F32", VN_F32},
    {"F16", VN_F16},
    {"BF16", VN_BF16},
    {"I64", VN_I64},
    {"I32", VN_I32},
    {"I16", VN_I16},
    {"I8", VN_I8},
    {"U64", VN_U64},
    {"U32", VN_U32},
    {"U16", VN_U16},
    {"U8", VN_U8},
    {"BOOL", VN_BOOL},
    {"C64", VN_C64},
    {"F8_E4M3", VN_F8E4M3FN},
    {"F8_E5M2", VN_F8E5M2},
    {"F8_E8M0", VN_F8E8M0},
    {"F8_E4M3FNUZ", VN_F8E4M3FNUZ},
    {"F8_E5M2FNUZ", VN_F8E5M2FNUZ},
    {"F4", VN_F4E2M1},
};

static vn_dtype_t type_from_name(const char *name) {
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
        if (strcmp(types[k].name, name) == 0) return types[k].dtype;
    return VN_UNDEFINED;
}

static const char *name_of_type(vn_dtype_t t) {
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
        if (types[k].dtype == t) return types[k].name;
    return NULL;
}

/* ---- reading ---- */

typedef struct entry {
    const char *name;
    vn_dtype_t dtype;
    int rank;
    int64_t dims[VN_MAX_RANK];
    uint64_t begin, end; /* within the data */
} entry_t;

static bool read_count(const json_t *v, int64_t *out) {
    *out = json_is_integer(v) ? json_integer_value(v) : -1;
    return *out >= 0;
}

static vn_status_t read_entry(const char *path, const char *name, const json_t *v, entry_t *e, vn_error_t *err) {
    const char *type = json_string_value(json_object_get(v, "dtype"));
    const json_t *shape = json_object_get(v, "shape"), *offsets = json_object_get(v, "data_offsets");
    *e = (entry_t){.name = name};
    if (!type || !json_is_array(shape) || !json_is_array(offsets) || json_array_size(offsets) != 2)
        return vn_fail(err, VN_ERR_PARSE, "%s: tensor %s: dtype, shape or data_offsets are missing", path, name);
    e->dtype = type_from_name(type);
    if (e->dtype == VN_UNDEFINED) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: tensor %s: dtype %s is not supported", path, name, type);
    if (json_array_size(shape) > VN_MAX_RANK)
        return vn_fail(err, VN_ERR_RANGE, "%s: tensor %s: %zu dimensions; at most %d are supported", path, name, json_array_size(shape),
                       (int)VN_MAX_RANK);
    e->rank = (int)json_array_size(shape);
    int64_t begin = -1, end = -1;
    bool good = read_count(json_array_get(offsets, 0), &begin) && read_count(json_array_get(offsets, 1), &end) && begin <= end;
    for (int k = 0; k < e->rank; ++k) good = good && read_count(json_array_get(shape, (size_t)k), &e->dims[k]);
    if (!good) return vn_fail(err, VN_ERR_PARSE, "%s: tensor %s: shape or data_offsets hold something other than sizes", path, name);
    e->begin = (uint64_t)begin;
    e->end = (uint64_t)end;
    return VN_OK;
}

static int by_place(const void *a, const void *b) {
    const entry_t *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1; /* an empty tensor stands before its neighbour */
    return strcmp(x->name, y->name);
}

/* The tensors must cover the data once, without gap or overlap. */
static vn_status_t check_cover(const char *path, const entry_t *e, size_t n, uint64_t size, vn_error_t *err) {
    uint64_t at = 0;
    for (size_t i = 0; i < n; ++i) {
        if (e[i].end > size)
            return vn_fail(err, VN_ERR_PARSE, "%s: tensor %s ends at byte %" PRIu64 " of %" PRIu64 " of data; is the download complete?",
                           path, e[i].name, e[i].end, size);
        if (e[i].begin < at)
            return vn_fail(err, VN_ERR_PARSE, "%s: tensors %s and %s overlap at byte %" PRIu64 " of the data", path, e[i - 1].name,
                           e[i].name, e[i].begin);
        if (e[i].begin > at)
            return vn_fail(err, VN_ERR_PARSE, "%s: bytes %" PRIu64 " to %" PRIu64 " of the data belong to no tensor", path, at, e[i].begin);
        at = e[i].end;
    }
    if (at != size)
        return vn_fail(err, VN_ERR_PARSE, "%s: bytes %" PRIu64 " to %" PRIu64 " of the data belong to no tensor", path, at, size);
    return VN_OK;
}

static vn_status_t read_tensor(const char *path, const entry_t *e, vn_source_t *source, size_t start, vn_bundle_t *out, vn_error_t *err) {
    const unsigned char *data = source->data + start + e->begin;
    const size_t have = (size_t)(e->end - e->begin);
    const int part = e->dtype == VN_C64 ? 4 : vn_dtype_bits(e->dtype) / 8;
    int64_t count = 1;
    size_t need = 0;
    vn_tensor_t *t = NULL;
    bool good = true;
    for (int k = 0; k < e->rank; ++k) good = good && vn_i64_mul(count, e->dims[k], &count);
    if (!good || !vn_dtype_storage(e->dtype, count, &need))
        return vn_fail(err, VN_ERR_RANGE, "%s: tensor %s: its size overflows", path, e->name);
    if (need != have)
        return vn_fail(err, VN_ERR_PARSE, "%s: tensor %s: data_offsets span %zu bytes, dtype and shape need %zu", path, e->name, have,
                       need);
    vn_status_t s;
    if (part < 2 || (uintptr_t)data % (unsigned)part == 0) {
        vn_source_retain(source);
        s = vn_tensor_wrap(e->dtype, e->rank, e->dims, (void *)(uintptr_t)data, have, vn_source_free, source, &t, err);
        if (s != VN_OK) vn_source_free(source);
    } else {
        s = vn_tensor_new_raw(e->dtype, e->rank, e->dims, &t, err);
        if (s == VN_OK && have) memcpy(t->data, data, have);
    }
    if (s == VN_OK) s = vn_bundle_add(out, e->name, t, err);
    vn_tensor_free(t);
    return s;
}

static vn_status_t read_header(const char *path, json_t *root, vn_source_t *source, size_t start, vn_bundle_t *out, vn_error_t *err) {
    entry_t *entries = vn_alloc(json_object_size(root), sizeof *entries);
    if (!entries) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    size_t n = 0;
    const char *name;
    json_t *value;
    vn_status_t s = VN_OK;
    json_object_foreach(root, name, value) {
        if (strcmp(name, "__metadata__") == 0) continue;
        if ((s = read_entry(path, name, value, &entries[n++], err)) != VN_OK) break;
    }
    if (s == VN_OK) {
        qsort(entries, n, sizeof *entries, by_place);
        s = check_cover(path, entries, n, source->size - start, err);
    }
    for (size_t i = 0; i < n && s == VN_OK; ++i) s = read_tensor(path, &entries[i], source, start, out, err);
    vn_free(entries);
    return s;
}

static vn_status_t read_source(const char *path, vn_source_t *source, vn_bundle_t *out, vn_error_t *err) {
    uint64_t length = 0;
    if (source->size < 8) return vn_fail(err, VN_ERR_PARSE, "%s: is not a safetensors file: %zu bytes", path, source->size);
    for (int k = 7; k >= 0; --k) length = length << 8 | source->data[k];
    if (length > MAX_HEADER)
        return vn_fail(err, VN_ERR_PARSE, "%s: is not a safetensors file: its header would take %" PRIu64 " bytes", path, length);
    if (length > source->size - 8)
        return vn_fail(err, VN_ERR_PARSE,
                       "%s: the header of %" PRIu64 " bytes runs past the end of the file (%zu bytes); is the download complete?", path,
                       length, source->size);
    json_error_t why;
    json_t *root = json_loadb((const char *)source->data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &why);
    if (!root) return vn_fail(err, VN_ERR_PARSE, "%s: the header is not JSON: %s (offset %d)", path, why.text, 8 + why.position);
    const vn_status_t s = json_is_object(root) ? read_header(path, root, source, 8 + (size_t)length, out, err)
                                               : vn_fail(err, VN_ERR_PARSE, "%s: the header is not a JSON object", path);
    json_decref(root);
    return s;
}

vn_status_t vn_safetensors_read(const char *path, vn_bundle_t *out, vn_error_t *err) {
    vn_source_t *source;
    *out = (vn_bundle_t){0};
    VN_TRY(vn_source_map(path, &source, err));
    const vn_status_t s = read_source(path, source, out, err);
    vn_source_free(source);
    if (s != VN_OK) vn_bundle_free(out);
    return s;
}

/* ---- writing: wide elements first, so that every tensor is aligned ---- */

typedef struct placed {
    const vn_named_t *item;
    size_t bytes;
    int order; /* in the bundle */
} placed_t;

static int by_width(const void *a, const void *b) {
    const placed_t *x = a, *y = b;
    const int wx = vn_dtype_bits(x->item->tensor->dtype), wy = vn_dtype_bits(y->item->tensor->dtype);
    return wx != wy ? wy - wx : x->order - y->order;
}

/* Adds `"name": {...}` to the header object. */
static bool describe(json_t *root, const placed_t *p, size_t begin) {
    const size_t end = begin + p->bytes;
    const vn_tensor_t *t = p->item->tensor;
    json_t *shape = json_array(), *entry = NULL;
    bool good = shape != NULL;
    for (int k = 0; k < t->rank; ++k) good = good && json_array_append_new(shape, json_integer(t->dims[k])) == 0;
    if (good)
        entry = json_pack("{s:s, s:O, s:[I, I]}", "dtype", name_of_type(t->dtype), "shape", shape, "data_offsets", (json_int_t)begin,
                          (json_int_t)end);
    json_decref(shape);
    return entry && json_object_set_new(root, p->item->name, entry) == 0;
}

static vn_status_t write_header(const char *path, const placed_t *placed, int n, vn_text_t *file, vn_error_t *err) {
    json_t *root = json_object();
    size_t at = 0;
    vn_status_t s = root ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    for (int i = 0; i < n && s == VN_OK; ++i) {
        const char *name = placed[i].item->name;
        if (json_object_get(root, name) || strcmp(name, "__metadata__") == 0)
            s = vn_fail(err, VN_ERR_USAGE, "%s: the name %s occurs twice or is reserved", path, name);
        else if (!describe(root, &placed[i], at))
            s = vn_fail(err, VN_ERR_USAGE, "%s: the name of tensor %d is not UTF-8, or memory is out", path, placed[i].order);
        at += placed[i].bytes;
    }
    char *text = s == VN_OK ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    VN_TRY(s);
    if (!text) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    const size_t length = (strlen(text) + 7) & ~(size_t)7; /* the data starts at a multiple of 8 */
    for (int k = 0; k < 8; ++k) vn_text_addn(file, &(char){(char)(length >> (8 * k))}, 1);
    vn_text_add(file, text);
    while (file->length < 8 + length && !file->failed) vn_text_add(file, " ");
    free(text);
    return VN_OK;
}

static vn_status_t write_all(const char *path, const placed_t *placed, int n, vn_error_t *err) {
    vn_text_t file = {0};
    vn_status_t s = write_header(path, placed, n, &file, err);
    for (int i = 0; i < n && s == VN_OK; ++i) {
        vn_tensor_t *dense;
        s = vn_tensor_contiguous(placed[i].item->tensor, &dense, err);
        if (s != VN_OK) break;
        vn_text_addn(&file, dense->data, placed[i].bytes);
        vn_tensor_free(dense);
    }
    if (s == VN_OK && file.failed) s = vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    if (s == VN_OK) s = vn_write_file(path, file.data, file.length, err);
    vn_text_free(&file);
    return s;
}

vn_status_t vn_safetensors_write(const char *path, const vn_bundle_t *b, vn_error_t *err) {
    placed_t *placed = vn_alloc((size_t)b->count, sizeof *placed);
    if (!placed) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    vn_status_t s = VN_OK;
    for (int i = 0; i < b->count && s == VN_OK; ++i) {
        const vn_tensor_t *t = b->items[i].tensor;
        placed[i] = (placed_t){.item = &b->items[i], .order = i};
        if (!name_of_type(t->dtype))
            s = vn_fail(err, VN_ERR_UNSUPPORTED, "%s: tensor %s: safetensors has no type for %s", path, b->items[i].name,
                        vn_dtype_name(t->dtype));
        else if (!vn_dtype_storage(t->dtype, t->count, &placed[i].bytes))
            s = vn_fail(err, VN_ERR_RANGE, "%s: tensor %s: its size overflows", path, b->items[i].name);
    }
    if (s == VN_OK) {
        qsort(placed, (size_t)b->count, sizeof *placed, by_width);
        s = write_all(path, placed, b->count, err);
    }
    vn_free(placed);
    return s;
}
