/* bundle.c -- lists of named tensors. */
#include "vernier/tensor.h"

#include <string.h>

vn_status_t vn_bundle_add(vn_bundle_t *b, const char *name, vn_tensor_t *t, vn_error_t *err) {
    if (b->count == b->capacity) {
        if (b->capacity > (1 << 29)) return vn_fail(err, VN_ERR_RANGE, "bundle: too many tensors");
        const int room = b->capacity ? 2 * b->capacity : 8;
        vn_named_t *items = vn_realloc(b->items, (size_t)room, sizeof *items);
        if (!items) return vn_fail(err, VN_ERR_NOMEM, "bundle: no memory for %d names", room);
        b->items = items;
        b->capacity = room;
    }
    char *copy = vn_strdup(name);
    if (!copy) return vn_fail(err, VN_ERR_NOMEM, "bundle: no memory for a name");
    b->items[b->count++] = (vn_named_t){.name = copy, .tensor = vn_tensor_retain(t)};
    return VN_OK;
}

const vn_tensor_t *vn_bundle_find(const vn_bundle_t *b, const char *name) {
    for (int i = 0; i < b->count; ++i)
        if (strcmp(b->items[i].name, name) == 0) return b->items[i].tensor;
    return NULL;
}

void vn_bundle_free(vn_bundle_t *b) {
    for (int i = 0; i < b->count; ++i) {
        vn_free(b->items[i].name);
        vn_tensor_free(b->items[i].tensor);
    }
    vn_free(b->items);
    *b = (vn_bundle_t){0};
}
