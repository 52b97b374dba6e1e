/* regex.c -- RE2's grammar and what it means in PCRE2.
 *
 * Claim REGEX-1: RegexFullMatch asks whether the whole text belongs to the language of the pattern; greediness and captures do not matter.
 * Where the dialects differ, RE2 decides: \s has no vertical tab, \v is one, $ is the very end, word characters are ASCII (and what folds to
 * ASCII under (?i)), [[:name:]] are ASCII, scripts are the property Script without extensions, at most 1000 repetitions, no a** and a++.
 * The Unicode versions of tables (properties, letter case) are those of the libraries, and may differ in letters that are new.
 */
#include "oracle/regex.h"

#include <ctype.h>
#include <string.h>

#include "oracle/regex_class.h"
#include "oracle/text.h"

enum { MAX_REPEAT = 1000, MAX_DEPTH = 200, MAX_NAMES = 64 };

enum { FOLD = 1, MULTI = 2, DOTALL = 4 };

typedef struct group {
    unsigned flags;  /* those outside, back in force behind it */
    size_t atom;     /* where it begins in the output */
    int64_t repeats; /* largest product of counts in the item before it */
} group_t;

typedef struct regex {
    const char *p;
    size_t n, at;
    vn_text_t *out;
    vn_error_t *err;
    unsigned flags;
    group_t groups[MAX_DEPTH];
    int depth;
    int64_t item;   /* product of the counts inside the last atom */
    int64_t widest; /* the same over the group's items */
    bool has_atom;  /* something that can be repeated stands before */
    bool repeated;  /* ... and is repeated already */
    size_t atom;    /* where it begins in the output */
    struct {
        const char *text;
        size_t length;
    } names[MAX_NAMES];
    int n_names;
} regex_t;

static vn_status_t bad(regex_t *r, size_t at, const char *what) { return vn_fail(r->err, VN_ERR_RANGE, "pattern, byte %zu: %s", at, what); }

static vn_status_t lacks(regex_t *r, size_t at, const char *what) {
    return vn_fail(r->err, VN_ERR_UNSUPPORTED, "pattern, byte %zu: %s", at, what);
}

static bool sees(const regex_t *r, const char *text) {
    const size_t n = strlen(text);
    return r->n - r->at >= n && memcmp(r->p + r->at, text, n) == 0;
}

static int peek(const regex_t *r, size_t ahead) { return r->at + ahead < r->n ? (unsigned char)r->p[r->at + ahead] : -1; }

static void put_point(regex_t *r, uint32_t c) { vn_text_printf(r->out, "\\x{%x}", (unsigned)c); }

/* ---- properties ---- */

/* \pN, \p{Name}, \p{^Name}, \P...; r->at stands on the backslash. Writes items for inside brackets. */
static vn_status_t property(regex_t *r) {
    const size_t begin = r->at;
    bool negated = r->p[r->at + 1] == 'P';
    r->at += 2;
    if (r->at >= r->n) return bad(r, begin, "a property without a name");
    size_t from = r->at, to = r->at + 1;
    if (r->p[r->at] == '{') {
        const char *close = memchr(r->p + r->at, '}', r->n - r->at);
        if (!close) return bad(r, begin, "a property without '}'");
        from = r->at + 1;
        to = (size_t)(close - r->p);
        r->at = to + 1;
        if (from < to && r->p[from] == '^') {
            negated = !negated;
            ++from;
        }
    } else {
        ++r->at;
    }
    if (r->flags & FOLD) return lacks(r, begin, "a property under (?i): the libraries fold it differently");
    if (!vn_regex_put_property(r->out, r->p + from, to - from, negated)) return bad(r, begin, "no such property");
    return VN_OK;
}

/* ---- escapes and characters ---- */

static int hex_value(int c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static vn_status_t hex_escape(regex_t *r, size_t begin, uint32_t *point) {
    uint32_t v = 0;
    if (peek(r, 0) == '{') {
        int digits = 0;
        ++r->at;
        for (; peek(r, 0) != '}'; ++r->at, ++digits) {
            const int h = hex_value(peek(r, 0));
            if (h < 0) return bad(r, begin, "hexadecimal digits and '}' are due behind \\x{");
            v = v * 16 + (uint32_t)h;
            if (v > 0x10FFFF) return bad(r, begin, "a code point beyond 10FFFF");
        }
        if (!digits) return bad(r, begin, "\\x{} without digits");
        ++r->at;
    } else {
        for (int k = 0; k < 2; ++k, ++r->at) {
            const int h = hex_value(peek(r, 0));
            if (h < 0) return bad(r, begin, "two hexadecimal digits are due behind \\x");
            v = v * 16 + (uint32_t)h;
        }
    }
    *point = v;
    return VN_OK;
}

/* An escape that is one code point; r->at stands on the backslash. */
static vn_status_t escape(regex_t *r, uint32_t *point) {
    static const struct { char name, value; } letters[] = {{'a', 7}, {'f', 12}, {'n', 10}, {'r', 13}, {'t', 9}, {'v', 11}};
    const size_t begin = r->at++;
    const int c = peek(r, 0);
    if (c < 0) return bad(r, begin, "a backslash at the end");
    if (c >= 0x80) return bad(r, begin, "no such escape");
    ++r->at;
    for (size_t i = 0; i < sizeof letters / sizeof *letters; ++i)
        if (letters[i].name == c) return *point = (uint32_t)letters[i].value, VN_OK;
    if (c == 'x') return hex_escape(r, begin, point);
    if (c >= '0' && c <= '9') {
        const int next = peek(r, 0);
        if (c >= '8' || (c != '0' && (next < '0' || next > '7'))) return lacks(r, begin, "a back reference, which RE2 has not");
        uint32_t v = (uint32_t)(c - '0');
        for (int k = 0; k < 2 && peek(r, 0) >= '0' && peek(r, 0) <= '7'; ++k) v = v * 8 + (uint32_t)(r->p[r->at++] - '0');
        *point = v;
        return VN_OK;
    }
    if (isalpha(c)) return lacks(r, begin, "an escape that RE2 has not");
    *point = (uint32_t)c;
    return VN_OK;
}

/* One code point, escaped or not. */
static vn_status_t character(regex_t *r, uint32_t *point) {
    if (r->p[r->at] == '\\') return escape(r, point);
    const size_t begin = r->at;
    return vn_utf8_next(r->p, r->n, &r->at, point) ? VN_OK : bad(r, begin, "no UTF-8");
}

/* ---- brackets ---- */

/* \d and kin, or a POSIX class; *found says whether one stood there. */
static vn_status_t class_in_brackets(regex_t *r, bool *found) {
    vn_regex_set_t s;
    *found = true;
    if (sees(r, "[:")) {
        for (size_t end = r->at + 2; end + 1 < r->n; ++end) {
            if (r->p[end] != ':' || r->p[end + 1] != ']') continue;
            size_t from = r->at + 2;
            const bool negated = from < end && r->p[from] == '^';
            from += negated;
            if (end - from == 1 || !vn_regex_named_set(r->p + from, end - from, &s)) return bad(r, r->at, "no such class");
            vn_regex_put_set(r->out, s, negated, (r->flags & FOLD) != 0);
            r->at = end + 2;
            return VN_OK;
        }
    }
    if (r->p[r->at] == '\\' && r->at + 1 < r->n) {
        const char c = r->p[r->at + 1], lower = (char)tolower((unsigned char)c);
        if (lower == 'p') return property(r);
        if (lower == 'd' || lower == 's' || lower == 'w') {
            vn_regex_named_set(&lower, 1, &s);
            vn_regex_put_set(r->out, s, c != lower, (r->flags & FOLD) != 0);
            r->at += 2;
            return VN_OK;
        }
    }
    *found = false;
    return VN_OK;
}

static void put_span(regex_t *r, uint32_t lo, uint32_t hi) {
    const bool gap = lo < 0xE000 && hi > 0xD7FF; /* surrogates are in no text, and no pattern may name them */
    if (!gap) {
        vn_text_printf(r->out, "\\x{%x}-\\x{%x}", (unsigned)lo, (unsigned)hi);
        return;
    }
    if (lo < 0xD800) vn_text_printf(r->out, "\\x{%x}-\\x{d7ff}", (unsigned)lo);
    if (hi > 0xDFFF) vn_text_printf(r->out, "\\x{e000}-\\x{%x}", (unsigned)hi);
}

/* r->at stands behind '['. An empty class matches nothing; its complement, everything. */
static vn_status_t brackets(regex_t *r) {
    const size_t begin = r->at - 1;
    const bool negated = peek(r, 0) == '^';
    r->at += negated;
    const size_t open = r->out->length;
    vn_text_add(r->out, negated ? "[^" : "[");
    const size_t empty = r->out->length;
    for (bool first = true;; first = false) {
        if (r->at >= r->n) return bad(r, begin, "a class without ']'");
        if (r->p[r->at] == ']' && !first) break;
        bool found;
        VN_TRY(class_in_brackets(r, &found));
        if (found) continue;
        uint32_t lo, hi;
        const size_t from = r->at;
        VN_TRY(character(r, &lo));
        hi = lo;
        if (peek(r, 0) == '-' && peek(r, 1) >= 0 && peek(r, 1) != ']') {
            ++r->at;
            VN_TRY(character(r, &hi));
            if (hi < lo) return bad(r, from, "a range whose end lies before its beginning");
        }
        put_span(r, lo, hi);
    }
    ++r->at;
    if (r->out->failed || r->out->length > empty) {
        vn_text_add(r->out, "]");
        return VN_OK;
    }
    r->out->length = open; /* e.g. [\P{Any}] */
    vn_text_add(r->out, negated ? "[\\x{0}-\\x{10ffff}]" : "(?:(?!))");
    return VN_OK;
}

/* ---- groups ---- */

static bool is_name(const char *s, size_t n) {
    for (size_t i = 0; i < n; ++i)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_') return false;
    return n > 0;
}

static vn_status_t group_name(regex_t *r, size_t begin, size_t lead) {
    const char *name = r->p + r->at + lead, *close = memchr(name, '>', r->n - r->at - lead);
    if (!close || !is_name(name, (size_t)(close - name))) return bad(r, begin, "a group name is letters, digits and low lines in <>");
    const size_t n = (size_t)(close - name);
    for (int i = 0; i < r->n_names; ++i)
        if (r->names[i].length == n && memcmp(r->names[i].text, name, n) == 0) return bad(r, begin, "a group name for the second time");
    if (r->n_names == MAX_NAMES) return lacks(r, begin, "more than 64 named groups");
    r->names[r->n_names].text = name;
    r->names[r->n_names++].length = n;
    r->at += lead + n + 1;
    return VN_OK;
}

/* Flags behind "(?": *opens says whether a group begins (':') or they hold for the rest of this one (')'). */
static vn_status_t group_flags(regex_t *r, size_t begin, unsigned *flags, bool *opens) {
    bool off = false, seen = true;
    for (;; ++r->at) {
        const int c = peek(r, 0);
        const unsigned bit = c == 'i' ? FOLD : c == 'm' ? MULTI : c == 's' ? DOTALL : 0;
        if (bit || c == 'U') { /* U: greediness, which a full match does not see */
            *flags = off ? *flags & ~bit : *flags | bit;
            seen = true;
        } else if (c == '-' && !off) {
            off = true;
            seen = false;
        } else if ((c == ':' || c == ')') && seen) {
            *opens = c == ':';
            ++r->at;
            return VN_OK;
        } else if (c == '=' || c == '!' || c == '<' || c == '>' || c == '|' || c == '#' || c == 'R' || c == '&' || c == '(' || c == 'x' ||
                   c == '+' || (c >= '0' && c <= '9') || c == 'P') {
            return lacks(r, begin, "look-around and other groups that RE2 has not");
        } else {
            return bad(r, begin, "no such group flag");
        }
    }
}

/* A pattern's part between '(' or '|' and what ends it begins here. */
static void begin_items(regex_t *r) {
    r->has_atom = r->repeated = false;
    r->item = 1;
}

/* Puts the last atom, with its repetition, into a group. */
static void enclose(regex_t *r) {
    const size_t n = r->out->failed ? 0 : r->out->length - r->atom;
    vn_text_add(r->out, "(?:)");
    if (r->out->failed) return;
    char *atom = r->out->data + r->atom;
    memmove(atom + 3, atom, n);
    memcpy(atom, "(?:", 3);
    atom[n + 3] = ')';
}

static vn_status_t open_group(regex_t *r) {
    const size_t begin = r->at++;
    unsigned flags = r->flags;
    if (sees(r, "?P<")) VN_TRY(group_name(r, begin, 3));
    else if (sees(r, "?<") && peek(r, 2) != '=' && peek(r, 2) != '!') VN_TRY(group_name(r, begin, 2));
    else if (sees(r, "?")) {
        bool opens = false;
        ++r->at;
        VN_TRY(group_flags(r, begin, &flags, &opens));
        if (!opens) {
            r->flags = flags; /* until the group ends; what stands before may still be repeated, even again */
            if (r->repeated) enclose(r);
            r->repeated = false;
            return VN_OK;
        }
    }
    if (r->depth == MAX_DEPTH) return lacks(r, begin, "groups more than 200 deep");
    r->groups[r->depth++] = (group_t){.flags = r->flags, .atom = r->out->length, .repeats = r->widest};
    r->flags = flags;
    r->widest = 1;
    vn_text_add(r->out, "(?:");
    begin_items(r);
    return VN_OK;
}

static vn_status_t close_group(regex_t *r) {
    if (!r->depth) return bad(r, r->at, "')' without '('");
    ++r->at;
    const group_t g = r->groups[--r->depth];
    vn_text_add(r->out, ")");
    r->flags = g.flags;
    r->item = r->widest;
    if (g.repeats > r->widest) r->widest = g.repeats;
    r->atom = g.atom;
    r->has_atom = true;
    r->repeated = false;
    return VN_OK;
}

/* ---- repetitions ---- */

/* A decimal number as RE2 reads one in braces: no leading zeros, fewer than nine digits. */
static bool number(const regex_t *r, size_t *at, int64_t *v) {
    const size_t begin = *at;
    *v = 0;
    while (*at < r->n && isdigit((unsigned char)r->p[*at]) && *at - begin < 9) *v = *v * 10 + (r->p[(*at)++] - '0');
    return *at > begin && *v < 100000000 && !(r->p[begin] == '0' && *at - begin > 1);
}

/* {n}, {n,} or {n,m} at r->at: false, then the brace is a plain character. *hi -1: no limit. */
static bool counts(const regex_t *r, size_t *end, int64_t *lo, int64_t *hi) {
    size_t at = r->at + 1;
    if (!number(r, &at, lo)) return false;
    *hi = *lo;
    if (at < r->n && r->p[at] == ',') {
        ++at;
        *hi = -1;
        if (at < r->n && r->p[at] != '}' && !number(r, &at, hi)) return false;
    }
    if (at >= r->n || r->p[at] != '}') return false;
    *end = at + 1;
    return true;
}

static vn_status_t repeat(regex_t *r, size_t end, int64_t lo, int64_t hi) {
    if (!r->has_atom) return bad(r, r->at, "nothing to repeat");
    if (r->repeated) return bad(r, r->at, "a repetition of a repetition");
    if (lo > MAX_REPEAT || hi > MAX_REPEAT || (hi >= 0 && hi < lo))
        return bad(r, r->at, "repetition counts go up to 1000, the smaller first");
    const int64_t times = hi > 1 ? hi : lo > 1 ? lo : 1;
    if (times > 1 && r->item * times > MAX_REPEAT) return bad(r, r->at, "nested repetition counts multiply to more than 1000");
    r->item *= times;
    if (r->item > r->widest) r->widest = r->item;
    r->at = end;
    if (peek(r, 0) == '?') ++r->at; /* lazy: the same language */
    if (hi < 0 && lo < 2) vn_text_add(r->out, lo ? "+" : "*");
    else if (hi < 0) vn_text_printf(r->out, "{%d,}", (int)lo);
    else vn_text_printf(r->out, "{%d,%d}", (int)lo, (int)hi);
    r->repeated = true;
    return VN_OK;
}

/* ---- atoms ---- */

static void begin_atom(regex_t *r) {
    r->atom = r->out->length;
    r->has_atom = true;
    r->repeated = false;
    r->item = 1;
}

/* A literal: under (?i) every case of it. */
static void put_literal(regex_t *r, uint32_t c) {
    begin_atom(r);
    if (c >= 0xD800 && c < 0xE000) { /* in no text */
        vn_text_add(r->out, "(?:(?!))");
        return;
    }
    if (r->flags & FOLD) vn_text_printf(r->out, "(?i:\\x{%x})", (unsigned)c);
    else put_point(r, c);
}

static vn_status_t put_class(regex_t *r, const char *name) {
    vn_regex_set_t s;
    const char lower = (char)tolower((unsigned char)*name);
    begin_atom(r);
    vn_regex_named_set(&lower, 1, &s);
    vn_text_add(r->out, "[");
    vn_regex_put_set(r->out, s, *name != lower, (r->flags & FOLD) != 0);
    vn_text_add(r->out, "]");
    return VN_OK;
}

/* Empty-width things stand in a group of their own: RE2 lets them be repeated. */
static void put_edge(regex_t *r, const char *text) {
    begin_atom(r);
    vn_text_printf(r->out, "(?:%s)", text);
}

static vn_status_t quoted(regex_t *r) {
    r->at += 2; /* \Q ... \E, or to the end */
    while (r->at < r->n && !sees(r, "\\E")) {
        const size_t begin = r->at;
        uint32_t c;
        if (!vn_utf8_next(r->p, r->n, &r->at, &c)) return bad(r, begin, "no UTF-8");
        put_literal(r, c);
    }
    if (r->at < r->n) r->at += 2;
    return VN_OK;
}

static vn_status_t backslash(regex_t *r) {
    const int c = peek(r, 1);
    uint32_t point;
    switch (c) {
    case 'A': put_edge(r, "\\A"); break;
    case 'z': put_edge(r, "\\z"); break;
    case 'b': put_edge(r, "\\b"); break;
    case 'B': put_edge(r, "\\B"); break;
    case 'C': return lacks(r, r->at, "\\C matches single bytes");
    case 'Q': return quoted(r);
    case 'd':
    case 'D':
    case 's':
    case 'S':
    case 'w':
    case 'W': VN_TRY(put_class(r, r->p + r->at + 1)); break;
    case 'p':
    case 'P': {
        begin_atom(r);
        const size_t open = r->out->length;
        vn_text_add(r->out, "[");
        VN_TRY(property(r));
        if (r->out->length > open + 1) {
            vn_text_add(r->out, "]");
        } else if (!r->out->failed) {
            r->out->length = open;
            vn_text_add(r->out, "(?:(?!))");
        }
        return VN_OK;
    }
    default:
        VN_TRY(escape(r, &point));
        put_literal(r, point);
        return VN_OK;
    }
    r->at += 2;
    return VN_OK;
}

static vn_status_t step(regex_t *r) {
    const char c = r->p[r->at];
    int64_t lo, hi;
    size_t end;
    uint32_t point;
    switch (c) {
    case '(': return open_group(r);
    case ')': return close_group(r);
    case '|':
        vn_text_add(r->out, "|");
        begin_items(r);
        break;
    case '*': return repeat(r, r->at + 1, 0, -1);
    case '+': return repeat(r, r->at + 1, 1, -1);
    case '?': return repeat(r, r->at + 1, 0, 1);
    case '{':
        if (counts(r, &end, &lo, &hi)) return repeat(r, end, lo, hi);
        put_literal(r, '{');
        break;
    case '[':
        begin_atom(r);
        if (r->flags & FOLD) vn_text_add(r->out, "(?i:");
        ++r->at;
        VN_TRY(brackets(r));
        if (r->flags & FOLD) vn_text_add(r->out, ")");
        return VN_OK;
    case '.':
        begin_atom(r);
        vn_text_add(r->out, r->flags & DOTALL ? "[\\x{0}-\\x{10ffff}]" : "[^\\x{a}]");
        break;
    case '^': put_edge(r, r->flags & MULTI ? "\\A|(?<=\\x{a})" : "\\A"); break;
    case '$': put_edge(r, r->flags & MULTI ? "\\z|(?=\\x{a})" : "\\z"); break;
    case '\\': return backslash(r);
    default:
        VN_TRY(character(r, &point));
        put_literal(r, point);
        return VN_OK;
    }
    ++r->at;
    return VN_OK;
}

vn_status_t vn_regex_translate(const char *pattern, size_t length, vn_text_t *out, vn_error_t *err) {
    regex_t *r = vn_alloc(1, sizeof *r);
    if (!r) return vn_fail(err, VN_ERR_NOMEM, "no memory for a pattern");
    *r = (regex_t){.p = pattern, .n = length, .out = out, .err = err, .item = 1, .widest = 1};
    vn_text_add(out, "\\A(?:");
    vn_status_t s = VN_OK;
    while (s == VN_OK && r->at < r->n) s = step(r);
    if (s == VN_OK && r->depth) s = bad(r, r->n, "'(' without ')'");
    vn_text_add(out, ")\\z");
    if (s == VN_OK && out->failed) s = vn_fail(err, VN_ERR_NOMEM, "no memory for a pattern");
    vn_free(r);
    return s;
}
