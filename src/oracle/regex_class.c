/* regex_class.c -- sets of characters in RE2's dialect, written as explicit ranges and properties for PCRE2 (claim REGEX-1). */
#include "oracle/regex_class.h"

#include <ctype.h>
#include <string.h>

static void put_point(vn_text_t *out, uint32_t c) { vn_text_printf(out, "\\x{%x}", (unsigned)c); }

/* ---- classes of ASCII characters ---- */

static void add_span(vn_regex_set_t *s, int from, int to) {
    for (int c = from; c <= to; ++c) s->has[c] = true;
}

/* Members of a Perl class (d, s, w) or a POSIX class by name; false: no such class. */
bool vn_regex_named_set(const char *name, size_t n, vn_regex_set_t *s) {
    static const struct {
        const char *name;
        const char *spans; /* pairs: from, to */
    } sets[] = {
        {"d", "09"},           {"s", "\t\n\f\r  "}, {"w", "09AZ__az"}, {"alnum", "09AZaz"},  {"alpha", "AZaz"},
        {"blank", "\t\t  "},   {"digit", "09"},     {"graph", "!~"},   {"lower", "az"},      {"print", " ~"},
        {"punct", "!/:@[`{~"}, {"space", "\t\r  "}, {"upper", "AZ"},   {"word", "09AZ__az"}, {"xdigit", "09AFaf"},
    };
    *s = (vn_regex_set_t){0};
    if (n == 5 && (memcmp(name, "ascii", n) == 0 || memcmp(name, "cntrl", n) == 0)) {
        add_span(s, 0, name[0] == 'a' ? 0x7F : 0x1F);
        s->has[0x7F] = true;
        return true;
    }
    for (size_t i = 0; i < sizeof sets / sizeof *sets; ++i) {
        if (strlen(sets[i].name) != n || memcmp(sets[i].name, name, n) != 0) continue;
        for (const char *q = sets[i].spans; *q; q += 2) add_span(s, q[0], q[1]);
        return true;
    }
    return false;
}

/* Writes the set, or all other code points, as ranges for inside brackets. Folding adds the other case, the long s and the Kelvin sign. */
void vn_regex_put_set(vn_text_t *out, vn_regex_set_t s, bool negated, bool fold) {
    if (fold)
        for (int c = 'a'; c <= 'z'; ++c) s.has[c] = s.has[c - 32] = s.has[c] || s.has[c - 32];
    for (int c = 0; c < 128; ++c) {
        if (s.has[c] == negated) continue;
        const int from = c;
        while (c < 127 && s.has[c + 1] != negated) ++c;
        vn_text_printf(out, "\\x{%x}-\\x{%x}", (unsigned)from, (unsigned)c);
    }
    const bool long_s = fold && s.has['s'], kelvin = fold && s.has['k'];
    if (!negated) {
        if (long_s) put_point(out, 0x17F);
        if (kelvin) put_point(out, 0x212A);
        return;
    }
    uint32_t from = 0x80;
    if (long_s) {
        vn_text_printf(out, "\\x{80}-\\x{17e}");
        from = 0x180;
    }
    if (kelvin) {
        vn_text_printf(out, "\\x{%x}-\\x{2129}", (unsigned)from);
        from = 0x212B;
    }
    vn_text_printf(out, "\\x{%x}-\\x{d7ff}\\x{e000}-\\x{10ffff}", (unsigned)from);
}

/* ---- Unicode properties ---- */

static bool is_category(const char *name, size_t n) {
    static const char *const all[] = {"Cc", "Cf", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc",
                                      "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
                                      "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        if (strlen(all[i]) == n && memcmp(all[i], name, n) == 0) return true;
    return false;
}

/* Words that begin with a capital, joined by low lines: how RE2 spells scripts. */
static bool looks_like_script(const char *name, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        const bool first = i == 0 || name[i - 1] == '_';
        if (name[i] == '_' ? first : !isalpha((unsigned char)name[i]) || (first && !isupper((unsigned char)name[i]))) return false;
    }
    return n > 0 && name[n - 1] != '_';
}

bool vn_regex_put_property(vn_text_t *out, const char *name, size_t n, bool negated) {
    if (n == 3 && memcmp(name, "Any", n) == 0) {
        if (!negated) vn_text_add(out, "\\x{0}-\\x{10ffff}");
        return true; /* else nothing to add: the class may be empty */
    }
    if (n == 1 && *name == 'C') { /* RE2's C has no unassigned code points */
        vn_text_add(out, negated ? "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{Cn}" : "\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}");
        return true;
    }
    const bool category = is_category(name, n);
    if (!category && !looks_like_script(name, n)) return false;
    vn_text_printf(out, "\\%c{%s%.*s}", negated ? 'P' : 'p', category ? "" : "sc:", (int)n, name);
    return true;
}
