/* names.h -- a hash table from names to five small numbers (rooms: graph, probe). */
#ifndef VN_GRAPH_NAMES_H
#define VN_GRAPH_NAMES_H

#include "vernier/base.h"

enum { VN_SLOT_INPUT, VN_SLOT_OUTPUT, VN_SLOT_INIT, VN_SLOT_INFO, VN_SLOT_NODE, VN_SLOTS };

typedef struct vn_name_entry {
    const char *name; /* borrowed; NULL = free place */
    uint64_t hash;
    int32_t slot[VN_SLOTS]; /* -1 = nothing */
} vn_name_entry_t;

typedef struct vn_names {
    vn_name_entry_t *entries;
    size_t mask, used;
    uint64_t seed;
    vn_arena_t *arena; /* NULL: heap */
} vn_names_t;

/** Room for `expected` names without growing. False: no memory. */
bool vn_names_init(vn_names_t *names, size_t expected, vn_arena_t *arena);
/** The entry of `name`, added with empty slots if new (*fresh may be NULL). NULL: no memory. Valid until the next put. */
vn_name_entry_t *vn_names_put(vn_names_t *names, const char *name, bool *fresh);
const vn_name_entry_t *vn_names_find(const vn_names_t *names, const char *name);
void vn_names_free(vn_names_t *names); /* zeroes; arena memory stays with the arena */

#endif
