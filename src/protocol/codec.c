/* codec.c -- tensor descriptors to and from JSON, strings to and from bytes. Both ends distrust what they read. */
#include "protocol/codec.h"

#include <string.h>

const char *vn_json_text(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

bool vn_json_count(const json_t *o, const char *key, int64_t *out) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0) return false;
    *out = json_integer_value(v);
    return true;
}

bool vn_desc_put(json_t *o, const vn_desc_t *d) {
    json_t *dims = json_array();
    for (int i = 0; i < d->rank; ++i) json_array_append_new(dims, json_integer(d->dims[i]));
    return json_object_set_new(o, "dtype", json_string(vn_dtype_name(d->dtype))) == 0 && json_object_set_new(o, "dims", dims) == 0 &&
           json_object_set_new(o, "shm", json_string(d->shm)) == 0 &&
           json_object_set_new(o, "offset", json_integer((json_int_t)d->offset)) == 0 &&
           json_object_set_new(o, "bytes", json_integer((json_int_t)d->bytes)) == 0;
}

static vn_status_t read_dims(const json_t *o, const char *what, vn_desc_t *d, vn_error_t *err) {
    const json_t *dims = json_object_get(o, "dims");
    if (!json_is_array(dims)) return vn_fail(err, VN_ERR_PARSE, "%s: \"dims\" is not an array", what);
    if (json_array_size(dims) > VN_MAX_RANK)
        return vn_fail(err, VN_ERR_PARSE, "%s: rank %zu is above %d", what, json_array_size(dims), VN_MAX_RANK);
    d->rank = (int)json_array_size(dims);
    d->count = 1;
    bool zero = false;
    for (int i = 0; i < d->rank; ++i) {
        const json_t *v = json_array_get(dims, (size_t)i);
        if (!json_is_integer(v) || json_integer_value(v) < 0)
            return vn_fail(err, VN_ERR_PARSE, "%s: \"dims\"[%d] is not an integer >= 0", what, i);
        d->dims[i] = json_integer_value(v);
        if (d->dims[i] == 0) zero = true;
        else if (!vn_i64_mul(d->count, d->dims[i], &d->count))
            return vn_fail(err, VN_ERR_PARSE, "%s: the product of \"dims\" overflows", what);
    }
    if (zero) d->count = 0;
    return VN_OK;
}

vn_status_t vn_desc_read(const json_t *o, const char *what, vn_desc_t *out, vn_error_t *err) {
    *out = (vn_desc_t){0};
    const char *dtype = vn_json_text(o, "dtype"), *shm = vn_json_text(o, "shm");
    if (!dtype) return vn_fail(err, VN_ERR_PARSE, "%s: no \"dtype\"", what);
    out->dtype = vn_dtype_from_name(dtype);
    if (out->dtype == VN_UNDEFINED) return vn_fail(err, VN_ERR_PARSE, "%s: unknown dtype '%.40s'", what, dtype);
    VN_TRY(read_dims(o, what, out, err));
    if (!shm || shm[0] != '/' || strchr(shm + 1, '/') || strlen(shm) >= sizeof out->shm)
        return vn_fail(err, VN_ERR_PARSE, "%s: \"shm\" is not the name of a segment", what);
    strcpy(out->shm, shm);
    int64_t offset, bytes;
    if (!vn_json_count(o, "offset", &offset)) return vn_fail(err, VN_ERR_PARSE, "%s: \"offset\" is not an integer >= 0", what);
    if (!vn_json_count(o, "bytes", &bytes)) return vn_fail(err, VN_ERR_PARSE, "%s: \"bytes\" is not an integer >= 0", what);
    if (offset % VN_OFFSET_ALIGN)
        return vn_fail(err, VN_ERR_PARSE, "%s: offset %lld is not a multiple of %d", what, (long long)offset, VN_OFFSET_ALIGN);
    out->offset = (size_t)offset;
    out->bytes = (size_t)bytes;
    if (out->dtype == VN_STRING) {
        size_t table;
        if (out->count == INT64_MAX || !vn_size_mul((size_t)out->count + 1, sizeof(int64_t), &table) || out->bytes < table)
            return vn_fail(err, VN_ERR_PARSE, "%s: %lld bytes do not hold the offsets of %lld strings", what, (long long)bytes,
                           (long long)out->count);
        return VN_OK;
    }
    size_t need;
    if (!vn_dtype_storage(out->dtype, out->count, &need))
        return vn_fail(err, VN_ERR_PARSE, "%s: the size of %lld elements overflows", what, (long long)out->count);
    if (need != out->bytes)
        return vn_fail(err, VN_ERR_PARSE, "%s: \"bytes\" is %lld, dtype and dims need %zu", what, (long long)bytes, need);
    return VN_OK;
}

vn_status_t vn_packed_size(const vn_tensor_t *t, size_t *bytes, vn_error_t *err) {
    *bytes = 0;
    if (t->dtype != VN_STRING) {
        if (!vn_dtype_storage(t->dtype, t->count, bytes)) return vn_fail(err, VN_ERR_RANGE, "tensor size overflows");
        return VN_OK;
    }
    size_t total;
    if (!vn_size_mul((size_t)t->count, sizeof(int64_t), &total) || !vn_size_add(total, sizeof(int64_t), &total))
        return vn_fail(err, VN_ERR_RANGE, "string tensor size overflows");
    vn_tensor_t *flat;
    VN_TRY(vn_tensor_contiguous(t, &flat, err));
    const vn_string_t *s = flat->data;
    bool fits = true;
    for (int64_t i = 0; i < t->count && fits; ++i) fits = vn_size_add(total, s[i].length, &total);
    vn_tensor_free(flat);
    if (!fits) return vn_fail(err, VN_ERR_RANGE, "string tensor size overflows");
    *bytes = total;
    return VN_OK;
}

vn_status_t vn_packed_put(const vn_tensor_t *t, void *out, vn_error_t *err) {
    vn_tensor_t *flat;
    VN_TRY(vn_tensor_contiguous(t, &flat, err));
    if (t->dtype == VN_STRING) {
        const vn_string_t *s = flat->data;
        unsigned char *table = out, *text = table + ((size_t)t->count + 1) * sizeof(int64_t);
        int64_t at = 0;
        for (int64_t i = 0; i <= t->count; ++i) {
            memcpy(table + (size_t)i * sizeof at, &at, sizeof at);
            if (i == t->count) break;
            if (s[i].length) memcpy(text + at, s[i].text, s[i].length);
            at += (int64_t)s[i].length;
        }
    } else {
        size_t bytes;
        if (vn_dtype_storage(t->dtype, t->count, &bytes) && bytes) memcpy(out, flat->data, bytes);
    }
    vn_tensor_free(flat);
    return VN_OK;
}

vn_status_t vn_packed_strings(const vn_desc_t *d, const void *data, const char *what, vn_tensor_t **out, vn_error_t *err) {
    *out = NULL;
    const unsigned char *table = data;
    const size_t head = ((size_t)d->count + 1) * sizeof(int64_t);
    const char *text = (const char *)data + head;
    const int64_t room = (int64_t)(d->bytes - head);
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(VN_STRING, d->rank, d->dims, &t, err));
    vn_status_t s = VN_OK;
    int64_t from, to = 0;
    memcpy(&from, table, sizeof from);
    if (from != 0) s = vn_fail(err, VN_ERR_PARSE, "%s: the first string offset is %lld, not 0", what, (long long)from);
    for (int64_t i = 0; i < d->count && s == VN_OK; ++i, from = to) {
        memcpy(&to, table + (size_t)(i + 1) * sizeof to, sizeof to);
        if (to < from || to > room)
            s = vn_fail(err, VN_ERR_PARSE, "%s: string %lld ends at %lld, outside [%lld, %lld]", what, (long long)i, (long long)to,
                        (long long)from, (long long)room);
        else s = vn_tensor_set_string(t, i, text + from, (size_t)(to - from), err);
    }
    if (s != VN_OK) {
        vn_tensor_free(t);
        return s;
    }
    *out = t;
    return VN_OK;
}
