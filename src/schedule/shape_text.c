/* shape_text.c -- the shape that a text names: blocks, lists, letters, trees
 * written out.
 *
 * Positions hold shapes; the innermost text stands over atoms, the text of a
 * join over the shapes of its blocks. They are kept in one growing array (the
 * parts), so that deep texts cost no more than what they join. Nesting is
 * limited, and so is the work a text may ask for.
 */
#include <stdlib.h>
#include <string.h>

#include "schedule/shapes.h"

enum { NESTING = 64, WORK_PER_UNIT = 64 };

typedef struct builder {
    vn_shapes_t *s;
    const char *text;
    const vn_runs_t *runs;
    int32_t *part; /* positions of all texts that are open, the innermost last */
    int64_t parts, capacity;
    int64_t work, most;
    int depth;
    vn_error_t *err;
} builder_t;

/* m positions from part[base]; raw: they are leaves, and a block of a single
 * one is a rounded product. */
typedef struct span {
    int64_t base;
    int32_t m;
    bool raw;
} span_t;

static vn_status_t build(builder_t *b, size_t at, size_t end, span_t over, int32_t *id);

static vn_status_t syntax(const builder_t *b, size_t at, const char *expected) {
    return vn_fail(b->err, VN_ERR_PARSE, "schedule, offset %zu: expected %s", at, expected);
}

static vn_status_t spend(builder_t *b, int64_t work, size_t at) {
    b->work += work;
    if (b->work <= b->most) return VN_OK;
    return vn_fail(b->err, VN_ERR_RANGE,
                   "schedule, offset %zu: blocks and lists repeat far more than "
                   "the terms are",
                   at);
}

static vn_status_t push(builder_t *b, int32_t id) {
    if (b->parts == b->capacity) {
        const int64_t more = b->capacity * 2 + 64;
        int32_t *part = vn_realloc(b->part, (size_t)more, sizeof *part);
        if (!part) return vn_fail(b->err, VN_ERR_NOMEM, "no memory for the parts of a schedule");
        b->part = part;
        b->capacity = more;
    }
    b->part[b->parts++] = id;
    return VN_OK;
}

static vn_status_t number(const builder_t *b, size_t *at, size_t end, int32_t *out) {
    int64_t value = 0;
    const size_t begin = *at;
    while (*at < end && b->text[*at] >= '0' && b->text[*at] <= '9' && value <= VN_TREE_MAX_LEAVES)
        value = value * 10 + (b->text[(*at)++] - '0');
    if (*at == begin) return syntax(b, begin, "a number");
    if (value < 1 || value > VN_TREE_MAX_LEAVES)
        return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: a size from 1 to %d", begin, VN_TREE_MAX_LEAVES);
    *out = (int32_t)value;
    return VN_OK;
}

static int opens(char c) { return (c == '{' || c == '[') - (c == '}' || c == ']'); }

/* End of the bracket that opens at `open`. */
static vn_status_t matching(const builder_t *b, size_t open, size_t end, size_t *close) {
    int depth = 0;
    for (size_t at = open; at < end; ++at) {
        depth += opens(b->text[at]);
        if (depth > 0) continue;
        *close = at;
        return (b->text[open] == '{') == (b->text[at] == '}') ? VN_OK : syntax(b, at, "the bracket that was opened");
    }
    return syntax(b, end, "a closing bracket");
}

/* First `c` outside brackets in [at, end); end if there is none. */
static size_t outside(const builder_t *b, size_t at, size_t end, char c) {
    for (int depth = 0; at < end && !(depth == 0 && b->text[at] == c); ++at) depth += opens(b->text[at]);
    return at;
}

/* ---- blocks ---- */

/* J<size{E;E'}: J is text[from..angle). */
typedef struct blocks {
    size_t each, each_end, last, last_end;
    int32_t size, level;
} blocks_t;

static vn_status_t read_blocks(const builder_t *b, size_t angle, size_t end, blocks_t *out) {
    size_t p = angle + 1, close;
    *out = (blocks_t){0};
    if (p < end && b->text[p] == '@') {
        ++p;
        VN_TRY(number(b, &p, end, &out->level));
        if (!b->runs || out->level > b->runs->levels)
            return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: the order has no such loop level", angle);
    } else {
        VN_TRY(number(b, &p, end, &out->size));
    }
    if (p >= end || b->text[p] != '{') return syntax(b, p, "'{'");
    VN_TRY(matching(b, p, end, &close));
    if (close + 1 != end) return syntax(b, close + 1, "'<' or the end");
    out->each = p + 1;
    out->each_end = outside(b, p + 1, close, ';');
    if (out->each_end < close) {
        out->last = out->each_end + 1;
        out->last_end = close;
    }
    return VN_OK;
}

/* A lone leaf under any text but '.' is a rounded product. */
static vn_status_t block(builder_t *b, size_t at, size_t end, span_t over, int32_t *id) {
    if (over.raw && over.m == 1 && b->part[over.base] == VN_SHAPE_LEAF && !(end - at == 1 && b->text[at] == '.')) {
        *id = VN_SHAPE_ROUNDED;
        return VN_OK;
    }
    return build(b, at, end, over, id);
}

static vn_status_t build_blocks(builder_t *b, size_t from, size_t angle, size_t end, span_t over, int32_t *id) {
    blocks_t k;
    VN_TRY(read_blocks(b, angle, end, &k));
    const int32_t *run = k.level ? b->runs->at[k.level - 1] : NULL;
    const int32_t count = run ? b->runs->count[k.level - 1] : (over.m + k.size - 1) / k.size;
    if (run && (run[count] != over.m || !over.raw))
        return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: '@' divides all terms, and only them", angle);
    /* blocks over equal positions are equal: each size is built once */
    int32_t alike = 1, known = 0, known_id = VN_SHAPE_NONE;
    while (alike < over.m && b->part[over.base + alike] == b->part[over.base]) ++alike;
    VN_TRY(spend(b, (int64_t)alike + count, angle));
    const int64_t begin = b->parts;
    for (int32_t t = 0; t < count; ++t) {
        const int32_t at = run ? run[t] : t * k.size;
        const int32_t stop = run ? run[t + 1] : over.m - at < k.size ? over.m : at + k.size;
        const span_t part = {over.base + at, stop - at, over.raw};
        int32_t made = known_id;
        if (t == count - 1 && k.last) VN_TRY(block(b, k.last, k.last_end, part, &made));
        else if (stop > alike || part.m != known) VN_TRY(block(b, k.each, k.each_end, part, &made));
        if (stop <= alike && !(t == count - 1 && k.last)) {
            known = part.m;
            known_id = made;
        }
        VN_TRY(push(b, made));
    }
    const vn_status_t st = build(b, from, angle, (span_t){begin, count, false}, id);
    b->parts = begin;
    return st;
}

/* ---- lists ---- */

static vn_status_t build_list(builder_t *b, size_t at, size_t end, span_t over, int32_t *id) {
    const int64_t begin = b->parts;
    size_t close, p = at + 2;
    int32_t used = 0;
    VN_TRY(matching(b, at + 1, end, &close));
    if (close + 1 != end) return syntax(b, close + 1, "'<' or the end");
    while (p < close) {
        int32_t count = 1, size, made = VN_SHAPE_NONE;
        VN_TRY(number(b, &p, close, &size));
        if (p < close && b->text[p] == '*') {
            count = size;
            ++p;
            VN_TRY(number(b, &p, close, &size));
        }
        const bool shaped = p < close && b->text[p] == ':';
        const size_t shape = p + 1, stop = shaped ? outside(b, shape, close, ',') : p;
        if (!shaped && size != 1) return syntax(b, p, "':' and a shape");
        if ((int64_t)count * size > over.m - used)
            return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: the list needs more than its %d positions", p, over.m);
        VN_TRY(spend(b, (int64_t)count * size, p));
        for (int32_t k = 0; k < count; ++k, used += size) {
            const int32_t *part = b->part + over.base + used;
            bool again = k > 0;
            for (int32_t q = 0; q < size && again; ++q) again = part[q] == part[q - size];
            if (!shaped) made = *part;
            else if (!again) VN_TRY(build(b, shape, stop, (span_t){over.base + used, size, over.raw}, &made));
            VN_TRY(push(b, made));
        }
        p = stop;
        if (p < close && (b->text[p] != ',' || ++p == close)) return syntax(b, p, "',' and an item, or ']'");
    }
    if (used != over.m) return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: the list has %d positions, not %d", at, used, over.m);
    *id = vn_shape_base(b->s, b->text[at] == 'N' ? 'F' : b->text[at], 0, b->part + begin, (int32_t)(b->parts - begin));
    b->parts = begin;
    return VN_OK;
}

/* ---- trees written out: T(.(.P)) ---- */

static vn_status_t build_literal(builder_t *b, size_t at, size_t end, span_t over, int32_t *id) {
    const int64_t begin = b->parts;
    int32_t used = 0, depth = 0;
    for (size_t p = at + 1; p < end; ++p) {
        const char c = b->text[p];
        if (p > at + 1 && depth == 0) return syntax(b, p, "the end");
        if (c == '(') { /* the count of positions is never negative: the mark of an
                       open bracket is */
            VN_TRY(push(b, -1));
            ++depth;
            continue;
        }
        if (c == ')') {
            int64_t open = b->parts;
            while (open > begin && b->part[open - 1] >= 0) --open;
            if (depth == 0 || b->parts - open < 2) return syntax(b, p, "two parts or more in each bracket");
            const int32_t made = vn_shapes_of(b->s, b->part + open, (int32_t)(b->parts - open));
            b->parts = open;
            b->part[open - 1] = made;
            --depth;
            if (made < 0) break;
            continue;
        }
        if (c != '.' && c != 'P') return syntax(b, p, "one of ( ) . P");
        if (used == over.m) return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: more than %d positions", p, over.m);
        int32_t leaf = b->part[over.base + used++];
        if (c == 'P' && !(over.raw && leaf == VN_SHAPE_LEAF)) return syntax(b, p, "P only for a term");
        if (c == 'P') leaf = VN_SHAPE_ROUNDED;
        VN_TRY(push(b, leaf));
    }
    if (b->s->failed) return vn_fail(b->err, VN_ERR_NOMEM, "no memory for the shapes of a tree");
    if (depth != 0 || b->parts != begin + 1) return syntax(b, end, "a complete tree");
    if (used != over.m) return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: the tree has %d positions, not %d", at, used, over.m);
    *id = b->part[begin];
    b->parts = begin;
    return spend(b, (int64_t)(end - at), at);
}

/* ---- letters ---- */

static vn_status_t build_letter(builder_t *b, size_t at, size_t end, span_t over, int32_t *id) {
    int32_t group = 0;
    size_t p = at + 1;
    const char letter = b->text[at];
    if (!letter || !strchr(".PSRAHUFG", letter)) return syntax(b, at, "one of . P S R A H U F G T, or a list");
    if (letter == 'G') VN_TRY(number(b, &p, end, &group));
    if (p != end) return syntax(b, p, "'<' or the end");
    VN_TRY(spend(b, over.m, at));
    if (letter == 'P') *id = over.raw && over.m == 1 && b->part[over.base] == VN_SHAPE_LEAF ? VN_SHAPE_ROUNDED : VN_SHAPE_NONE;
    else *id = vn_shape_base(b->s, letter, group, b->part + over.base, over.m);
    if (*id < 0 && !b->s->failed)
        return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: '%c' does not go with %d positions", at, letter, over.m);
    return VN_OK;
}

static vn_status_t build_any(builder_t *b, size_t at, size_t end, span_t over, int32_t *id) {
    size_t angle = end;
    int depth = 0;
    VN_TRY(spend(b, (int64_t)(end - at) + 1, at));
    for (size_t k = at; k < end; ++k) { /* the last '<' of this level belongs to the outermost blocks */
        if (depth == 0 && b->text[k] == '<') angle = k;
        depth += opens(b->text[k]);
    }
    if (angle != end) return build_blocks(b, at, angle, end, over, id);
    if (b->text[at] == 'T') return build_literal(b, at, end, over, id);
    if (end - at > 1 && b->text[at + 1] == '[' && strchr("SRN", b->text[at])) return build_list(b, at, end, over, id);
    return build_letter(b, at, end, over, id);
}

/* Depth is bounded by NESTING: texts that nest deeper are refused, and the
 * namer writes none. */
static vn_status_t build(builder_t *b, size_t at, size_t end, span_t over, int32_t *id) {
    if (at >= end) return syntax(b, at, "a shape");
    if (b->depth == NESTING) return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: nested deeper than %d", at, NESTING);
    b->depth++;
    const vn_status_t st = build_any(b, at, end, over, id);
    b->depth--;
    if (st == VN_OK && b->s->failed) return vn_fail(b->err, VN_ERR_NOMEM, "no memory for the shapes of a tree");
    if (st == VN_OK && *id < 0) return vn_fail(b->err, VN_ERR_RANGE, "schedule, offset %zu: too many leaves", at);
    return st;
}

vn_status_t vn_shape_build(vn_shapes_t *s, const char *text, size_t begin, size_t end, int32_t atom, int32_t m, const vn_runs_t *runs,
                           int32_t *id, vn_error_t *err) {
    builder_t b = {.s = s, .text = text, .runs = runs, .err = err, .most = WORK_PER_UNIT * ((int64_t)m + (int64_t)(end - begin) + 1)};
    *id = VN_SHAPE_NONE;
    if (m < 1 || m > VN_TREE_MAX_LEAVES + 1) return vn_fail(err, VN_ERR_RANGE, "schedule: a shape over %d positions", m);
    b.capacity = 2 * (int64_t)m + 16;
    b.part = vn_alloc((size_t)b.capacity, sizeof *b.part);
    if (!b.part) return vn_fail(err, VN_ERR_NOMEM, "no memory for the parts of a schedule");
    b.parts = m;
    for (int32_t k = 0; k < m; ++k) b.part[k] = atom;
    const vn_status_t st = build(&b, begin, end, (span_t){0, m, atom == VN_SHAPE_LEAF}, id);
    vn_free(b.part);
    return st;
}
