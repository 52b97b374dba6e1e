/* shapes.c -- interned shapes, and those of the base letters. */
#include "schedule/shapes.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

vn_status_t vn_shapes_begin(vn_shapes_t *s, vn_error_t *err) {
    *s = (vn_shapes_t){.capacity = 64, .child_capacity = 128, .slots = 256};
    s->first = vn_alloc((size_t)s->capacity + 1, sizeof *s->first);
    s->size = vn_alloc((size_t)s->capacity, sizeof *s->size);
    s->child = vn_alloc((size_t)s->child_capacity, sizeof *s->child);
    s->table = vn_alloc((size_t)s->slots, sizeof *s->table);
    if (!s->first || !s->size || !s->child || !s->table) {
        vn_shapes_clear(s);
        return vn_fail(err, VN_ERR_NOMEM, "no memory for the shapes of a tree");
    }
    memset(s->table, 0xff, (size_t)s->slots * sizeof *s->table);
    for (int k = 0; k < VN_SHAPE_ATOMS; ++k) s->size[k] = 1;
    s->count = VN_SHAPE_ATOMS;
    return VN_OK;
}

void vn_shapes_clear(vn_shapes_t *s) {
    vn_free(s->first);
    vn_free(s->size);
    vn_free(s->child);
    vn_free(s->table);
    *s = (vn_shapes_t){0};
}

static uint32_t hash(const int32_t *v, int32_t n) {
    uint64_t h = 0x9e3779b97f4a7c15u ^ (uint64_t)n;
    for (int32_t k = 0; k < n; ++k) {
        h = (h ^ (uint32_t)v[k]) * 0xff51afd7ed558ccdu;
        h ^= h >> 29;
    }
    return (uint32_t)(h >> 32);
}

static bool grow_shapes(vn_shapes_t *s) {
    const int32_t more = s->capacity * 2, slots = more * 4;
    int32_t *first = vn_realloc(s->first, (size_t)more + 1, sizeof *first);
    if (first) s->first = first;
    int32_t *size = vn_realloc(s->size, (size_t)more, sizeof *size);
    if (size) s->size = size;
    int32_t *table = vn_realloc(s->table, (size_t)slots, sizeof *table);
    if (table) s->table = table;
    if (!first || !size || !table) return false;
    s->capacity = more;
    s->slots = slots;
    memset(table, 0xff, (size_t)slots * sizeof *table);
    for (int32_t id = VN_SHAPE_ATOMS; id < s->count; ++id) {
        uint32_t at = hash(s->child + first[id], first[id + 1] - first[id]) & (uint32_t)(slots - 1);
        while (table[at] >= 0) at = (at + 1) & (uint32_t)(slots - 1);
        table[at] = id;
    }
    return true;
}

int32_t vn_shapes_of(vn_shapes_t *s, const int32_t *children, int32_t n) {
    int64_t leaves = 0;
    if (n == 1) return children[0];
    for (int32_t k = 0; k < n; ++k) {
        if (children[k] < 0) return VN_SHAPE_NONE;
        leaves += s->size[children[k]];
    }
    if (s->failed || leaves > 2 * (int64_t)VN_TREE_MAX_LEAVES) return VN_SHAPE_NONE;
    uint32_t at = hash(children, n) & (uint32_t)(s->slots - 1);
    for (; s->table[at] >= 0; at = (at + 1) & (uint32_t)(s->slots - 1)) {
        const int32_t id = s->table[at];
        if (s->first[id + 1] - s->first[id] == n && memcmp(s->child + s->first[id], children, (size_t)n * sizeof *children) == 0) return id;
    }
    if (s->n_child + n > s->child_capacity) {
        const int32_t more = 2 * s->child_capacity + n;
        int32_t *child = vn_realloc(s->child, (size_t)more, sizeof *child);
        if (!child) return s->failed = true, VN_SHAPE_NONE;
        s->child = child;
        s->child_capacity = more;
    }
    const int32_t id = s->count++;
    memcpy(s->child + s->n_child, children, (size_t)n * sizeof *children);
    s->first[id] = s->n_child;
    s->n_child += n;
    s->first[id + 1] = s->n_child;
    s->size[id] = (int32_t)leaves;
    s->table[at] = id;
    if (s->count == s->capacity && !grow_shapes(s)) s->failed = true;
    return id;
}

/* ---- base letters ---- */

/* Neighbours pair up level by level; an odd last one moves up. */
static int32_t adjacent(vn_shapes_t *s, const int32_t *part, int32_t m) {
    int32_t *row = vn_alloc((size_t)m, sizeof *row);
    if (!row) return s->failed = true, VN_SHAPE_NONE;
    memcpy(row, part, (size_t)m * sizeof *row);
    while (m > 1) {
        int32_t to = 0;
        for (int32_t k = 0; k < m; k += 2) row[to++] = k + 1 < m ? vn_shapes_pair(s, row[k], row[k + 1]) : row[k];
        m = to;
    }
    const int32_t id = row[0];
    vn_free(row);
    return id;
}

static int32_t halves(vn_shapes_t *s, const int32_t *part, int32_t m, bool ceiling) {
    if (m == 1) return part[0];
    const int32_t left = ceiling ? m - m / 2 : m / 2;
    const int32_t a = halves(s, part, left, ceiling), b = halves(s, part + left, m - left, ceiling); /* depth log2 m */
    return vn_shapes_pair(s, a, b);
}

static int32_t groups(vn_shapes_t *s, const int32_t *part, int32_t m, int32_t group) {
    if (group < 2) return VN_SHAPE_NONE;
    int32_t id = vn_shapes_of(s, part, m < group ? m : group), *tuple = vn_alloc((size_t)group + 1, sizeof *tuple);
    if (!tuple) return s->failed = true, VN_SHAPE_NONE;
    for (int32_t k = group; k < m && id >= 0; k += group) {
        const int32_t n = m - k < group ? m - k : group;
        tuple[0] = id;
        memcpy(tuple + 1, part + k, (size_t)n * sizeof *tuple);
        id = vn_shapes_of(s, tuple, n + 1);
    }
    vn_free(tuple);
    return id;
}

int32_t vn_shape_base(vn_shapes_t *s, char letter, int32_t group, const int32_t *part, int32_t m) {
    int32_t id;
    switch (letter) {
    case '.': return m == 1 ? part[0] : VN_SHAPE_NONE;
    case 'S':
        id = part[0];
        for (int32_t k = 1; k < m; ++k) id = vn_shapes_pair(s, id, part[k]);
        return id;
    case 'R':
        id = part[m - 1];
        for (int32_t k = m - 2; k >= 0; --k) id = vn_shapes_pair(s, part[k], id);
        return id;
    case 'A': return adjacent(s, part, m);
    case 'H': return halves(s, part, m, false);
    case 'U': return halves(s, part, m, true);
    case 'F': return vn_shapes_of(s, part, m);
    case 'G': return groups(s, part, m, group);
    default: return VN_SHAPE_NONE;
    }
}
