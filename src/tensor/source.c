/* source.c -- counted bytes that tensors may point into. */
#include "tensor/source.h"

#include <string.h>

vn_status_t vn_source_map(const char *path, vn_source_t **out, vn_error_t *err) {
    *out = NULL;
    vn_source_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "%s: out of memory", path);
    const vn_status_t status = vn_map_file(path, &s->map, err);
    if (status != VN_OK) {
        vn_free(s);
        return status;
    }
    s->data = s->map.data;
    s->size = s->map.size;
    s->refs = 1;
    *out = s;
    return VN_OK;
}

vn_status_t vn_source_adopt(unsigned char *data, size_t size, vn_source_t **out, vn_error_t *err) {
    *out = NULL;
    vn_source_t *s = vn_alloc(1, sizeof *s);
    if (!s) {
        vn_free(data);
        return vn_fail(err, VN_ERR_NOMEM, "out of memory");
    }
    *s = (vn_source_t){.data = data, .size = size, .copy = data, .refs = 1};
    *out = s;
    return VN_OK;
}

vn_status_t vn_source_copy(const void *data, size_t size, vn_source_t **out, vn_error_t *err) {
    *out = NULL;
    unsigned char *copy = vn_realloc(NULL, size, 1);
    if (!copy) return vn_fail(err, VN_ERR_NOMEM, "no memory for %zu bytes", size);
    if (size) memcpy(copy, data, size);
    return vn_source_adopt(copy, size, out, err);
}

vn_source_t *vn_source_retain(vn_source_t *s) {
    if (s) __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void vn_source_free(void *source) {
    vn_source_t *s = source;
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) != 0) return;
    if (s->copy) vn_free(s->copy);
    else vn_unmap(&s->map);
    vn_free(s);
}
