/* shapes.c -- interned shapes, and shapes built from text. */
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
    s->size[VN_SHAPE_LEAF] = s->size[VN_SHAPE_ROUNDED] = 1;
    s->count = 2;
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
    for (int32_t id = 2; id < s->count; ++id) {
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
static int32_t adjacent(vn_shapes_t *s, const int32_t *leaf, int32_t m) {
    int32_t *row = vn_alloc((size_t)m, sizeof *row);
    if (!row) return s->failed = true, VN_SHAPE_NONE;
    memcpy(row, leaf, (size_t)m * sizeof *row);
    while (m > 1) {
        int32_t to = 0;
        for (int32_t k = 0; k < m; k += 2) row[to++] = k + 1 < m ? vn_shapes_pair(s, row[k], row[k + 1]) : row[k];
        m = to;
    }
    const int32_t id = row[0];
    vn_free(row);
    return id;
}

static int32_t halves(vn_shapes_t *s, const int32_t *leaf, int32_t m, bool ceiling) {
    if (m == 1) return leaf[0];
    const int32_t left = ceiling ? m - m / 2 : m / 2;
    const int32_t a = halves(s, leaf, left, ceiling), b = halves(s, leaf + left, m - left, ceiling); /* depth log2 m */
    return vn_shapes_pair(s, a, b);
}

static int32_t groups(vn_shapes_t *s, const int32_t *leaf, int32_t m, int32_t group) {
    if (group < 2) return VN_SHAPE_NONE;
    int32_t id = vn_shapes_of(s, leaf, m < group ? m : group), *tuple = vn_alloc((size_t)group + 1, sizeof *tuple);
    if (!tuple) return s->failed = true, VN_SHAPE_NONE;
    for (int32_t k = group; k < m && id >= 0; k += group) {
        const int32_t n = m - k < group ? m - k : group;
        tuple[0] = id;
        memcpy(tuple + 1, leaf + k, (size_t)n * sizeof *tuple);
        id = vn_shapes_of(s, tuple, n + 1);
    }
    vn_free(tuple);
    return id;
}

int32_t vn_shape_base(vn_shapes_t *s, char letter, int32_t group, const int32_t *leaf, int32_t m) {
    int32_t id;
    switch (letter) {
    case '.': return m == 1 ? leaf[0] : VN_SHAPE_NONE;
    case 'P': return m == 1 && leaf[0] == VN_SHAPE_LEAF ? VN_SHAPE_ROUNDED : VN_SHAPE_NONE;
    case 'S':
        id = leaf[0];
        for (int32_t k = 1; k < m; ++k) id = vn_shapes_pair(s, id, leaf[k]);
        return id;
    case 'R':
        id = leaf[m - 1];
        for (int32_t k = m - 2; k >= 0; --k) id = vn_shapes_pair(s, leaf[k], id);
        return id;
    case 'A': return adjacent(s, leaf, m);
    case 'H': return halves(s, leaf, m, false);
    case 'U': return halves(s, leaf, m, true);
    case 'F': return vn_shapes_of(s, leaf, m);
    case 'G': return groups(s, leaf, m, group);
    default: return VN_SHAPE_NONE;
    }
}

/* ---- from text ---- */

enum { NESTING = 64 };

typedef struct builder {
    vn_shapes_t *s;
    const char *text;
    const vn_runs_t *runs;
    int depth;
    vn_error_t *err;
} builder_t;

static vn_status_t syntax(const builder_t *b, size_t at, const char *expected) {
    return vn_fail(b->err, VN_ERR_PARSE, "schedule, offset %zu: expected %s", at, expected);
}

static bool digit(char c) { return c >= '0' && c <= '9'; }

static vn_status_t number(const builder_t *b, size_t *at, size_t end, int32_t *out) {
    int64_t value = 0;
    const size_t begin = *at;
    while (*at < end && digit(b->text[*at]) && value <= VN_TREE_MAX_LEAVES) value = value * 10 + (b->text[(*at)++] - '0');
    if (*at == begin) return syntax(b, begin, "a number");
    if (value < 1 || value > VN_TREE_MAX_LEAVES)
        return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: a size from 1 to %d", begin, VN_TREE_MAX_LEAVES);
    *out = (int32_t)value;
    return VN_OK;
}

/* End of the bracket that opens at `open`. */
static vn_status_t matching(const builder_t *b, size_t open, size_t end, size_t *close) {
    int depth = 0;
    for (size_t at = open; at < end; ++at) {
        const char c = b->text[at];
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        if (depth == 0) {
            *close = at;
            return (b->text[open] == '{') == (c == '}') ? VN_OK : syntax(b, at, "the bracket that was opened");
        }
    }
    return syntax(b, end, "a closing bracket");
}

static vn_status_t build(builder_t *b, size_t at, size_t end, const int32_t *leaf, int32_t m, int32_t *id);

/* One block: a lone raw leaf under any shape but '.' is a rounded product. */
static vn_status_t block(builder_t *b, size_t at, size_t end, const int32_t *leaf, int32_t m, int32_t *id) {
    if (m == 1 && leaf[0] == VN_SHAPE_LEAF && !(end - at == 1 && b->text[at] == '.')) {
        *id = VN_SHAPE_ROUNDED;
        return VN_OK;
    }
    return build(b, at, end, leaf, m, id);
}

/* J<size{E;E'}: `at` stands on '<'; J is text[from..at). */
static vn_status_t blocks(builder_t *b, size_t from, size_t at, size_t end, const int32_t *leaf, int32_t m, int32_t *id) {
    size_t p = at + 1, open, close;
    int32_t size = 0, level = -1;
    if (p < end && b->text[p] == '@') {
        ++p;
        VN_TRY(number(b, &p, end, &level));
        if (!b->runs || level > b->runs->levels)
            return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: the order has no such loop level", at);
    } else {
        VN_TRY(number(b, &p, end, &size));
    }
    if (p >= end || b->text[p] != '{') return syntax(b, p, "'{'");
    open = p;
    VN_TRY(matching(b, open, end, &close));
    if (close + 1 != end) return syntax(b, close + 1, "'<' or the end");
    size_t middle = close; /* the ';' of this level, if there is one */
    int depth = 0;
    for (size_t k = open + 1; k < close; ++k) {
        const char c = b->text[k];
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth == 0 && c == ';' && middle == close) middle = k;
    }
    const int32_t *run = level > 0 ? b->runs->at[level - 1] : NULL, count = level > 0 ? b->runs->count[level - 1] : (m + size - 1) / size;
    if (level > 0 && run[count] != m) return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: '@' only over all terms", at);
    int32_t *part = vn_alloc((size_t)count + 1, sizeof *part), uniform = VN_SHAPE_NONE;
    vn_status_t st = part ? VN_OK : vn_fail(b->err, VN_ERR_NOMEM, "no memory for %d blocks", count);
    bool raw = true; /* equal raw blocks are built once */
    for (int32_t k = 0; k < m && raw; ++k) raw = leaf[k] == leaf[0];
    for (int32_t k = 0; st == VN_OK && k < count; ++k) {
        const int32_t begin = run ? run[k] : k * size, stop = run ? run[k + 1] : (k + 1) * size < m ? (k + 1) * size : m;
        const bool last = k == count - 1 && middle != close;
        if (!run && raw && !last && stop - begin == size && uniform >= 0) {
            part[k] = uniform;
            continue;
        }
        st = last ? block(b, middle + 1, close, leaf + begin, stop - begin, &part[k])
                  : block(b, open + 1, middle, leaf + begin, stop - begin, &part[k]);
        if (!run && stop - begin == size) uniform = part[k];
    }
    if (st == VN_OK) st = build(b, from, at, part, count, id);
    vn_free(part);
    return st;
}

/* S[...], R[...], N[...] */
static vn_status_t list(builder_t *b, size_t at, size_t end, const int32_t *leaf, int32_t m, int32_t *id) {
    size_t close, p = at + 2;
    int32_t used = 0, n = 0, *part = vn_alloc((size_t)m + 1, sizeof *part);
    vn_status_t st = part ? matching(b, at + 1, end, &close) : vn_fail(b->err, VN_ERR_NOMEM, "no memory for a list");
    if (st == VN_OK && close + 1 != end) st = syntax(b, close + 1, "'<' or the end");
    while (st == VN_OK && p < close) {
        int32_t count = 1, size;
        size_t shape, stop;
        st = number(b, &p, close, &size);
        if (st == VN_OK && p < close && b->text[p] == '*') {
            count = size;
            ++p;
            st = number(b, &p, close, &size);
        }
        shape = stop = p;
        if (st == VN_OK && p < close && b->text[p] == ':') {
            int depth = 0;
            shape = stop = p + 1;
            for (; stop < close && !(depth == 0 && b->text[stop] == ','); ++stop)
                depth += (b->text[stop] == '{' || b->text[stop] == '[') - (b->text[stop] == '}' || b->text[stop] == ']');
        } else if (st == VN_OK && size != 1) {
            st = syntax(b, p, "':' and a shape");
        }
        for (int32_t k = 0; st == VN_OK && k < count; ++k) {
            if (size > m - used)
                st = vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: the list needs more than its %d positions", p, m);
            else if (shape == stop) part[n++] = leaf[used];
            else st = build(b, shape, stop, leaf + used, size, &part[n++]);
            used += size;
        }
        p = stop;
        if (st == VN_OK && p < close && (b->text[p] != ',' || p + 1 == close)) st = syntax(b, p, "',' and an item, or ']'");
        p += p < close;
    }
    if (st == VN_OK && (used != m || n == 0))
        st = vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: the list has %d positions, not %d", at, used, m);
    if (st == VN_OK) *id = vn_shape_base(b->s, b->text[at] == 'N' ? 'F' : b->text[at], 0, part, n);
    vn_free(part);
    return st;
}

static vn_status_t build(builder_t *b, size_t at, size_t end, const int32_t *leaf, int32_t m, int32_t *id) {
    if (at >= end) return syntax(b, at, "a shape");
    if (b->depth >= NESTING) return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: nested deeper than %d", at, NESTING);
    b->depth++;
    /* the last '<' of this level belongs to the outermost blocks */
    size_t angle = end;
    int depth = 0;
    for (size_t k = at; k < end; ++k) {
        const char c = b->text[k];
        if (depth == 0 && c == '<') angle = k;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    }
    vn_status_t st;
    if (angle != end) {
        st = blocks(b, at, angle, end, leaf, m, id);
    } else if (end - at > 1 && b->text[at + 1] == '[' && strchr("SRN", b->text[at])) {
        st = list(b, at, end, leaf, m, id);
    } else {
        int32_t group = 0;
        size_t p = at + 1;
        st = strchr(".PSRAHUFG", b->text[at]) ? VN_OK : syntax(b, at, "one of . P S R A H U F G, or a list");
        if (st == VN_OK && b->text[at] == 'G') st = number(b, &p, end, &group);
        if (st == VN_OK && p != end) st = syntax(b, p, "'<' or the end");
        if (st == VN_OK) {
            *id = vn_shape_base(b->s, b->text[at], group, leaf, m);
            if (*id < 0 && !b->s->failed)
                st = vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: '%c' does not go with %d positions", at, b->text[at], m);
        }
    }
    b->depth--;
    if (st == VN_OK && b->s->failed) st = vn_fail(b->err, VN_ERR_NOMEM, "no memory for the shapes of a tree");
    if (st == VN_OK && *id < 0) st = vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: too many leaves", at);
    return st;
}

vn_status_t vn_shape_build(vn_shapes_t *s, const char *from, size_t offset, size_t end, const int32_t *leaf, int32_t m,
                           const vn_runs_t *runs, int32_t *id, vn_error_t *err) {
    builder_t b = {.s = s, .text = from, .runs = runs, .err = err};
    *id = VN_SHAPE_NONE;
    if (m < 1) return vn_fail(err, VN_ERR_RANGE, "schedule: a shape over no positions");
    return build(&b, offset, end, leaf, m, id);
}
