/* tensor_proto.c -- TensorProto to a tensor: raw data, the typed data fields, strings; and back. External data: external.c. */
#include "tensor/tensor_proto.h"

#include <inttypes.h>
#include <string.h>

#include "tensor/buffer.h"
#include "tensor/external.h"
#include "tensor/walk.h"
#include "tensor/wire.h"

static bool little_endian(void) {
    const uint16_t one = 1;
    return *(const unsigned char *)&one == 1;
}

/* The typed field that may hold values of a dtype, and how many of its entries n elements take. */
typedef enum typed { TYPED_NONE, TYPED_FLOAT, TYPED_DOUBLE, TYPED_INT32, TYPED_INT64, TYPED_UINT64, TYPED_STRING } typed_t;

static typed_t typed_of(vn_dtype_t t) {
    switch (t) {
    case VN_F32:
    case VN_C64: return TYPED_FLOAT;
    case VN_F64:
    case VN_C128: return TYPED_DOUBLE;
    case VN_I64: return TYPED_INT64;
    case VN_U32:
    case VN_U64: return TYPED_UINT64;
    case VN_STRING: return TYPED_STRING;
    case VN_UNDEFINED: return TYPED_NONE;
    default: return TYPED_INT32;
    }
}

static const char *const typed_names[] = {
    [TYPED_FLOAT] = "float_data", [TYPED_DOUBLE] = "double_data", [TYPED_INT32] = "int32_data",
    [TYPED_INT64] = "int64_data", [TYPED_UINT64] = "uint64_data", [TYPED_STRING] = "string_data",
};

static size_t typed_count(const Onnx__TensorProto *p, typed_t which) {
    switch (which) {
    case TYPED_FLOAT: return p->n_float_data;
    case TYPED_DOUBLE: return p->n_double_data;
    case TYPED_INT32: return p->n_int32_data;
    case TYPED_INT64: return p->n_int64_data;
    case TYPED_UINT64: return p->n_uint64_data;
    case TYPED_STRING: return p->n_string_data;
    default: return 0;
    }
}

/* int32_data: one element an entry from 8 bits up, else one byte of packed elements an entry. */
static size_t typed_need(vn_dtype_t t, int64_t n) {
    size_t bytes;
    if (t == VN_C64 || t == VN_C128) return 2 * (size_t)n;
    if (vn_dtype_bits(t) > 0 && vn_dtype_bits(t) < 8 && vn_dtype_storage(t, n, &bytes)) return bytes;
    return (size_t)n;
}

static vn_status_t store_int32(const Onnx__TensorProto *p, const char *label, vn_tensor_t *x, vn_error_t *err) {
    const int bits = vn_dtype_bits(x->dtype), width = bits < 8 ? 8 : bits;
    for (size_t i = 0; i < p->n_int32_data; ++i) {
        const int64_t v = p->int32_data[i];
        if (v < -(INT64_C(1) << (width - 1)) || v >= INT64_C(1) << width)
            return vn_fail(err, VN_ERR_PARSE, "%s: int32_data[%zu] = %" PRId64 " does not fit %d bits of %s", label, i, v, width,
                           vn_dtype_name(x->dtype));
        switch (width) {
        case 8: ((uint8_t *)x->data)[i] = (uint8_t)v; break;
        case 16: ((uint16_t *)x->data)[i] = (uint16_t)v; break;
        default: ((uint32_t *)x->data)[i] = (uint32_t)v; break;
        }
    }
    return VN_OK;
}

static vn_status_t store_typed(const Onnx__TensorProto *p, const char *label, vn_tensor_t *x, vn_error_t *err) {
    size_t bytes;
    if (!vn_dtype_storage(x->dtype, x->count, &bytes) || x->count == 0) return VN_OK;
    switch (typed_of(x->dtype)) {
    case TYPED_FLOAT: memcpy(x->data, p->float_data, bytes); break;
    case TYPED_DOUBLE: memcpy(x->data, p->double_data, bytes); break;
    case TYPED_INT64: memcpy(x->data, p->int64_data, bytes); break;
    case TYPED_INT32: return store_int32(p, label, x, err);
    case TYPED_STRING:
        for (int64_t i = 0; i < x->count; ++i)
            VN_TRY(vn_tensor_set_string(x, i, (const char *)p->string_data[i].data, p->string_data[i].len, err));
        break;
    case TYPED_UINT64:
        if (x->dtype == VN_U64) {
            memcpy(x->data, p->uint64_data, bytes);
            break;
        }
        for (int64_t i = 0; i < x->count; ++i) {
            if (p->uint64_data[i] > UINT32_MAX)
                return vn_fail(err, VN_ERR_PARSE, "%s: uint64_data[%" PRId64 "] does not fit u32", label, i);
            ((uint32_t *)x->data)[i] = (uint32_t)p->uint64_data[i];
        }
        break;
    default: break;
    }
    return VN_OK;
}

/* What type and dims of a proto ask for. */
typedef struct shape {
    vn_dtype_t type;
    int rank;
    int64_t dims[VN_MAX_RANK], count;
    size_t bytes;
    char text[400]; /* "f32[2,3]" */
} shape_t;

static vn_status_t check_shape(const Onnx__TensorProto *p, const char *label, shape_t *out, vn_error_t *err) {
    static const char *const six[] = {"FLOAT6E2M3", "FLOAT6E3M2"};
    const int t = p->has_data_type ? p->data_type : 0;
    *out = (shape_t){0};
    if (t == 27 || t == 28) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: element type %s is not supported", label, six[t - 27]);
    if (t <= 0 || t >= VN_DTYPE_COUNT) return vn_fail(err, VN_ERR_PARSE, "%s: data_type %d is not an element type", label, t);
    if (p->segment) return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: segmented tensors are not supported", label);
    if (p->n_dims > VN_MAX_RANK)
        return vn_fail(err, VN_ERR_RANGE, "%s: %zu dimensions; at most %d are supported", label, p->n_dims, (int)VN_MAX_RANK);
    out->type = (vn_dtype_t)t;
    out->rank = (int)p->n_dims;
    for (size_t k = 0; k < p->n_dims; ++k) out->dims[k] = p->dims[k];
    vn_tensor_t *head;
    const vn_status_t s = vn_tensor_header(out->type, out->rank, out->dims, &head, &out->bytes, err);
    if (s != VN_OK) {
        vn_fail_prefix(err, "%s", label);
        return s;
    }
    out->count = head->count;
    vn_tensor_describe(head, out->text, sizeof out->text);
    vn_free(head);
    return VN_OK;
}

/* A tensor over `data`: in place if it lies in the source, aligned, and is long enough to be worth it; else copied. */
static vn_status_t wrap_or_copy(const shape_t *h, const unsigned char *data, vn_source_t *source, vn_tensor_t **out, vn_error_t *err) {
    const int part = h->type == VN_C64 ? 4 : h->type == VN_C128 ? 8 : vn_dtype_bits(h->type) / 8;
    const bool aligned = part < 2 || (uintptr_t)data % (unsigned)part == 0;
    if (!little_endian()) return vn_fail(err, VN_ERR_UNSUPPORTED, "raw data on a big-endian machine");
    if (source && aligned && h->bytes > VN_WIRE_INLINE) {
        vn_source_retain(source);
        const vn_status_t s =
            vn_tensor_wrap(h->type, h->rank, h->dims, (void *)(uintptr_t)data, h->bytes, vn_source_free, source, out, err);
        if (s != VN_OK) vn_source_free(source);
        return s;
    }
    VN_TRY(vn_tensor_new_raw(h->type, h->rank, h->dims, out, err));
    if (h->bytes) memcpy((*out)->data, data, h->bytes);
    return VN_OK;
}

static vn_status_t from_raw(const Onnx__TensorProto *p, const shape_t *h, vn_proto_origin_t *origin, const char *label, vn_tensor_t **out,
                            vn_error_t *err) {
    const unsigned char *data = p->raw_data.data;
    size_t have = p->raw_data.len;
    vn_source_t *source = NULL;
    if (h->type == VN_STRING) return vn_fail(err, VN_ERR_PARSE, "%s: strings cannot be raw_data", label);
    if (origin && origin->skeleton) {
        vn_source_t *from = origin->source;
        if (!vn_wire_raw(p->raw_data.data, p->raw_data.len, from ? from->data : NULL, from ? from->size : 0, &data, &have))
            return vn_fail(err, VN_ERR_INTERNAL, "%s: raw_data was not prepared by the scanner", label);
        source = p->raw_data.data[0] == 0 ? NULL : from; /* inline data dies with the proto */
    }
    if (have != h->bytes) return vn_fail(err, VN_ERR_PARSE, "%s: raw_data has %zu bytes, %s needs %zu", label, have, h->text, h->bytes);
    const vn_status_t s = wrap_or_copy(h, data, source, out, err);
    if (s != VN_OK) vn_fail_prefix(err, "%s", label);
    return s;
}

static vn_status_t from_external(const Onnx__TensorProto *p, const shape_t *h, vn_proto_origin_t *origin, const char *label,
                                 vn_tensor_t **out, vn_error_t *err) {
    const unsigned char *data;
    vn_source_t *source;
    if (h->type == VN_STRING) return vn_fail(err, VN_ERR_PARSE, "%s: strings cannot be external data", label);
    VN_TRY(vn_external_find(p, origin, label, h->bytes, &source, &data, err));
    const vn_status_t s = wrap_or_copy(h, data, source, out, err);
    if (s != VN_OK) vn_fail_prefix(err, "%s", label);
    return s;
}

static vn_status_t from_typed(const Onnx__TensorProto *p, const shape_t *h, size_t filled, const char *label, vn_tensor_t **out,
                              vn_error_t *err) {
    const typed_t which = typed_of(h->type);
    const size_t want = typed_need(h->type, h->count), got = typed_count(p, which);
    if (filled == 0 && want) return vn_fail(err, VN_ERR_PARSE, "%s: %s holds no data", label, h->text);
    if (filled != got)
        return vn_fail(err, VN_ERR_PARSE, "%s: %s belongs into %s, but other data fields are filled", label, h->text, typed_names[which]);
    if (got != want)
        return vn_fail(err, VN_ERR_PARSE, "%s: %s has %zu entries, %s needs %zu", label, typed_names[which], got, h->text, want);
    vn_status_t s = vn_tensor_new(h->type, h->rank, h->dims, out, err);
    if (s != VN_OK) {
        vn_fail_prefix(err, "%s", label);
        return s;
    }
    s = store_typed(p, label, *out, err);
    if (s != VN_OK) {
        vn_tensor_free(*out);
        *out = NULL;
    }
    return s;
}

vn_status_t vn_tensor_from_proto(const Onnx__TensorProto *p, vn_proto_origin_t *origin, const char *label, vn_tensor_t **out,
                                 vn_error_t *err) {
    shape_t h;
    *out = NULL;
    VN_TRY(check_shape(p, label, &h, err));
    size_t filled = 0;
    for (int w = TYPED_FLOAT; w <= TYPED_STRING; ++w) filled += typed_count(p, (typed_t)w);
    const bool external = p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    /* Some exporters write an empty raw_data beside the typed field that counts. */
    const bool empty_raw = p->has_raw_data && p->raw_data.len == (origin && origin->skeleton ? 1 : 0), raw = p->has_raw_data && !empty_raw;
    if ((external && (filled || raw)) || (filled && raw))
        return vn_fail(err, VN_ERR_PARSE, "%s: holds its data in more than one field", label);
    if (external) return from_external(p, &h, origin, label, out, err);
    if (raw) return from_raw(p, &h, origin, label, out, err);
    return from_typed(p, &h, filled, label, out, err);
}

/* ---- sparse ---- */

enum { SPARSE_MAX_LOG2 = 32 };

/* Row-major place of stored element i: a linear index, or one index a dimension. */
static bool sparse_place(const vn_tensor_t *dense, const vn_tensor_t *indices, int64_t i, int64_t *place) {
    if (indices->rank == 1) {
        *place = vn_tensor_get_i64(indices, i);
        return *place >= 0 && *place < dense->count;
    }
    *place = 0;
    for (int k = 0; k < dense->rank; ++k) {
        const int64_t at = vn_tensor_get_i64(indices, i * dense->rank + k);
        if (at < 0 || at >= dense->dims[k]) return false;
        *place += at * dense->strides[k];
    }
    return true;
}

static vn_status_t scatter(vn_tensor_t *dense, const vn_tensor_t *values, const vn_tensor_t *indices, const char *label, vn_error_t *err) {
    const size_t size = vn_element_size(dense->dtype);
    const int bits = vn_dtype_bits(dense->dtype);
    for (int64_t i = 0; i < values->count; ++i) {
        int64_t place;
        if (!sparse_place(dense, indices, i, &place))
            return vn_fail(err, VN_ERR_PARSE, "%s: sparse index %" PRId64 " lies outside the dims", label, i);
        if (dense->dtype == VN_STRING) {
            const vn_string_t *s = (const vn_string_t *)values->data + i;
            VN_TRY(vn_tensor_set_string(dense, place, s->text, s->length, err));
        } else if (size) {
            memcpy((unsigned char *)dense->data + (size_t)place * size, (const unsigned char *)values->data + (size_t)i * size, size);
        } else {
            vn_packed_set(dense->data, bits, place, vn_packed_get(values->data, bits, i));
        }
    }
    return VN_OK;
}

static vn_status_t sparse_dense(const Onnx__SparseTensorProto *p, const vn_tensor_t *values, const vn_tensor_t *indices, const char *label,
                                vn_tensor_t **out, vn_error_t *err) {
    const int64_t n = values->count;
    size_t bytes;
    vn_tensor_t *shape;
    if (values->rank != 1) return vn_fail(err, VN_ERR_PARSE, "%s: sparse values have rank %d, not 1", label, values->rank);
    if (indices->dtype != VN_I64)
        return vn_fail(err, VN_ERR_PARSE, "%s: sparse indices are %s, not i64", label, vn_dtype_name(indices->dtype));
    if (p->n_dims > VN_MAX_RANK) return vn_fail(err, VN_ERR_RANGE, "%s: %zu dimensions", label, p->n_dims);
    const bool linear = indices->rank == 1 && indices->dims[0] == n;
    const bool full = indices->rank == 2 && indices->dims[0] == n && indices->dims[1] == (int64_t)p->n_dims;
    if (!linear && !full)
        return vn_fail(err, VN_ERR_PARSE, "%s: sparse indices fit neither [%" PRId64 "] nor [%" PRId64 ", %zu]", label, n, n, p->n_dims);
    VN_TRY(vn_tensor_header(values->dtype, (int)p->n_dims, p->dims, &shape, &bytes, err));
    vn_free(shape);
    if (bytes > (size_t)1 << SPARSE_MAX_LOG2)
        return vn_fail(err, VN_ERR_UNSUPPORTED, "%s: the dense form would take %zu bytes", label, bytes);
    VN_TRY(vn_tensor_new(values->dtype, (int)p->n_dims, p->dims, out, err));
    const vn_status_t s = scatter(*out, values, indices, label, err);
    if (s != VN_OK) {
        vn_tensor_free(*out);
        *out = NULL;
    }
    return s;
}

vn_status_t vn_sparse_from_proto(const Onnx__SparseTensorProto *p, vn_proto_origin_t *origin, const char *label, vn_tensor_t **out,
                                 vn_error_t *err) {
    vn_tensor_t *values = NULL, *indices = NULL;
    *out = NULL;
    if (!p->values || !p->indices) return vn_fail(err, VN_ERR_PARSE, "%s: a sparse tensor needs values and indices", label);
    vn_status_t s = vn_tensor_from_proto(p->values, origin, label, &values, err);
    if (s == VN_OK) s = vn_tensor_from_proto(p->indices, origin, label, &indices, err);
    if (s == VN_OK) s = sparse_dense(p, values, indices, label, out, err);
    vn_tensor_free(values);
    vn_tensor_free(indices);
    return s;
}

/* ---- writing ---- */

static vn_status_t no_memory(vn_error_t *err, const char *name) {
    return vn_fail(err, VN_ERR_NOMEM, "tensor %s: out of memory", name ? name : "");
}

vn_status_t vn_tensor_to_proto(const vn_tensor_t *t, const char *name, vn_arena_t *arena, Onnx__TensorProto *out, vn_error_t *err) {
    onnx__tensor_proto__init(out);
    out->has_data_type = 1;
    out->data_type = (int32_t)t->dtype;
    out->n_dims = (size_t)t->rank;
    out->dims = vn_arena_alloc(arena, (size_t)t->rank, sizeof *out->dims);
    if (!out->dims) return no_memory(err, name);
    memcpy(out->dims, t->dims, (size_t)t->rank * sizeof *out->dims);
    if (name && !(out->name = vn_arena_strdup(arena, name))) return no_memory(err, name);
    vn_walk_t walk;
    vn_walk_init(&walk, t);
    if (t->dtype == VN_STRING) {
        out->n_string_data = (size_t)t->count;
        out->string_data = vn_arena_alloc(arena, (size_t)t->count, sizeof *out->string_data);
        if (!out->string_data) return no_memory(err, name);
        for (int64_t i = 0; i < t->count; ++i) {
            const vn_string_t *s = (const vn_string_t *)t->data + vn_walk_offset(&walk, i);
            out->string_data[i].len = s->length;
            out->string_data[i].data = s->length ? vn_arena_alloc(arena, s->length, 1) : NULL;
            if (s->length && !out->string_data[i].data) return no_memory(err, name);
            if (s->length) memcpy(out->string_data[i].data, s->text, s->length);
        }
        return VN_OK;
    }
    size_t bytes;
    if (!vn_dtype_storage(t->dtype, t->count, &bytes)) return vn_fail(err, VN_ERR_RANGE, "tensor %s: its size overflows", name ? name : "");
    if (!little_endian()) return vn_fail(err, VN_ERR_UNSUPPORTED, "tensor %s: raw data on a big-endian machine", name ? name : "");
    out->has_raw_data = 1;
    out->raw_data.len = bytes;
    out->raw_data.data = t->data;
    if (!vn_tensor_is_contiguous(t)) {
        out->raw_data.data = vn_arena_alloc(arena, bytes, 1);
        if (!out->raw_data.data) return no_memory(err, name);
        vn_walk_gather(&walk, t, 0, t->count, out->raw_data.data);
    }
    return VN_OK;
}
