/* names.c -- hash table from names to small numbers: the index of a graph, and sets of names while checking. */
#include "names.h"

#include <string.h>

/* The seed differs from run to run (address randomisation), so that a file cannot choose names which all collide. Nothing visible
 * depends on the order of the table. */
static uint64_t hash_name(uint64_t seed, const char *s) {
    uint64_t h = seed;
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, s + i, n - i < 8 ? n - i : 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    h = (h ^ n) * 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 32);
}

static vn_name_entry_t *new_entries(vn_arena_t *arena, size_t n) {
    return arena ? vn_arena_alloc(arena, n, sizeof(vn_name_entry_t)) : vn_alloc(n, sizeof(vn_name_entry_t));
}

bool vn_names_init(vn_names_t *names, size_t expected, vn_arena_t *arena) {
    size_t places = 16, wanted;
    *names = (vn_names_t){.arena = arena};
    if (!vn_size_mul(expected, 2, &wanted)) return false;
    while (places < wanted)
        if (!vn_size_mul(places, 2, &places)) return false;
    names->entries = new_entries(arena, places);
    if (!names->entries) return false;
    names->mask = places - 1;
    names->seed = ((uint64_t)(uintptr_t)names->entries ^ (uint64_t)(uintptr_t)&names) * 0x94d049bb133111ebu;
    return true;
}

static vn_name_entry_t *place_of(const vn_names_t *names, uint64_t hash, const char *name) {
    size_t i = (size_t)hash & names->mask;
    for (;; i = (i + 1) & names->mask) {
        vn_name_entry_t *e = &names->entries[i];
        if (!e->name || (e->hash == hash && strcmp(e->name, name) == 0)) return e;
    }
}

static bool grow(vn_names_t *names) {
    size_t places;
    if (!vn_size_mul(names->mask + 1, 2, &places)) return false;
    vn_names_t bigger = *names;
    bigger.entries = new_entries(names->arena, places);
    if (!bigger.entries) return false;
    bigger.mask = places - 1;
    for (size_t i = 0; i <= names->mask; ++i)
        if (names->entries[i].name) *place_of(&bigger, names->entries[i].hash, names->entries[i].name) = names->entries[i];
    if (!names->arena) vn_free(names->entries);
    *names = bigger;
    return true;
}

vn_name_entry_t *vn_names_put(vn_names_t *names, const char *name, bool *fresh) {
    uint64_t hash = hash_name(names->seed, name);
    vn_name_entry_t *e = place_of(names, hash, name);
    if (fresh) *fresh = !e->name;
    if (e->name) return e;
    if ((names->used + 1) * 2 > names->mask + 1) {
        if (!grow(names)) return NULL;
        e = place_of(names, hash, name);
    }
    e->name = name;
    e->hash = hash;
    for (int k = 0; k < VN_SLOTS; ++k) e->slot[k] = -1;
    names->used++;
    return e;
}

const vn_name_entry_t *vn_names_find(const vn_names_t *names, const char *name) {
    if (!names->entries) return NULL;
    const vn_name_entry_t *e = place_of(names, hash_name(names->seed, name), name);
    return e->name ? e : NULL;
}

void vn_names_free(vn_names_t *names) {
    if (!names->arena) vn_free(names->entries);
    *names = (vn_names_t){0};
}
