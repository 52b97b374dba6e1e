/* scope.c -- names and their values while a graph runs: a small open-addressing table, nested like the graphs. */
#include <string.h>

#include "oracle/frame.h"

static uint64_t hash(const char *s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; ++s) h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h;
}

static vn_slot_t *place(vn_slot_t *slots, size_t capacity, const char *name) {
    size_t i = (size_t)hash(name) & (capacity - 1);
    while (slots[i].name && strcmp(slots[i].name, name) != 0) i = (i + 1) & (capacity - 1);
    return &slots[i];
}

static void empty(vn_slot_t *slot) {
    vn_value_free(slot->value);
    slot->value = NULL;
    if (slot->ref) {
        vn_ref_free(slot->ref);
        vn_free(slot->ref);
        slot->ref = NULL;
    }
}

vn_status_t vn_scope_put(vn_scope_t *s, const char *name, vn_value_t *value, vn_ref_t *ref, int uses, vn_error_t *err) {
    if ((s->used + 1) * 2 > s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : 64;
        vn_slot_t *fresh = vn_alloc(capacity, sizeof *fresh);
        if (!fresh) {
            vn_value_free(value);
            if (ref) vn_ref_free(ref);
            vn_free(ref);
            return vn_fail(err, VN_ERR_NOMEM, "no memory for %zu names", capacity);
        }
        for (size_t i = 0; i < s->capacity; ++i)
            if (s->slots[i].name) *place(fresh, capacity, s->slots[i].name) = s->slots[i];
        vn_free(s->slots);
        s->slots = fresh;
        s->capacity = capacity;
    }
    vn_slot_t *slot = place(s->slots, s->capacity, name);
    if (!slot->name) s->used++;
    empty(slot);
    *slot = (vn_slot_t){.name = name, .value = value, .ref = ref, .uses = uses};
    return VN_OK;
}

vn_slot_t *vn_scope_local(const vn_scope_t *s, const char *name) {
    if (!s->capacity) return NULL;
    vn_slot_t *slot = place(s->slots, s->capacity, name);
    return slot->name ? slot : NULL;
}

vn_slot_t *vn_scope_find(const vn_scope_t *s, const char *name, const vn_tensor_t **t) {
    *t = NULL;
    for (; s; s = s->outer) {
        vn_slot_t *slot = vn_scope_local(s, name);
        if (slot) return slot;
        if (s->bundle && (*t = vn_bundle_find(s->bundle, name)) != NULL) return NULL;
    }
    return NULL;
}

void vn_scope_clear(vn_scope_t *s) {
    for (size_t i = 0; i < s->capacity; ++i) empty(&s->slots[i]);
    vn_free(s->slots);
    *s = (vn_scope_t){0};
}
