/* text.c -- UTF-8, white space and letter case.
 *
 * Claim TEXT-1: letter case follows Unicode: simple mappings by the C library's UTF-8 locale, which is the same for every language but the
 * Turkic ones (dotless i, dotted I, written out here); full mappings add SpecialCasing. The process's own locale is never read or set.
 */
#include "oracle/text.h"

#include <locale.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>
#include <wctype.h>

bool vn_utf8_next(const char *s, size_t n, size_t *at, uint32_t *point) {
    static const struct {
        unsigned char mask, lead;
        int more;
        uint32_t least;
    } forms[] = {{0x80, 0x00, 0, 0}, {0xE0, 0xC0, 1, 0x80}, {0xF0, 0xE0, 2, 0x800}, {0xF8, 0xF0, 3, 0x10000}};
    const unsigned char first = (unsigned char)s[*at];
    for (size_t f = 0; f < sizeof forms / sizeof *forms; ++f) {
        if ((first & forms[f].mask) != forms[f].lead) continue;
        if (n - *at <= (size_t)forms[f].more) return false;
        uint32_t v = first & (unsigned char)~forms[f].mask;
        for (int k = 1; k <= forms[f].more; ++k) {
            const unsigned char c = (unsigned char)s[*at + (size_t)k];
            if ((c & 0xC0) != 0x80) return false;
            v = v << 6 | (c & 0x3F);
        }
        if (v < forms[f].least || v > 0x10FFFF || (v >= 0xD800 && v < 0xE000)) return false;
        *point = v;
        *at += 1 + (size_t)forms[f].more;
        return true;
    }
    return false;
}

void vn_utf8_add(vn_text_t *out, uint32_t p) {
    char b[4];
    size_t n = 0;
    if (p < 0x80) {
        b[n++] = (char)p;
    } else if (p < 0x800) {
        b[n++] = (char)(0xC0 | p >> 6);
        b[n++] = (char)(0x80 | (p & 0x3F));
    } else if (p < 0x10000) {
        b[n++] = (char)(0xE0 | p >> 12);
        b[n++] = (char)(0x80 | (p >> 6 & 0x3F));
        b[n++] = (char)(0x80 | (p & 0x3F));
    } else {
        b[n++] = (char)(0xF0 | p >> 18);
        b[n++] = (char)(0x80 | (p >> 12 & 0x3F));
        b[n++] = (char)(0x80 | (p >> 6 & 0x3F));
        b[n++] = (char)(0x80 | (p & 0x3F));
    }
    vn_text_addn(out, b, n);
}

size_t vn_utf8_valid(const char *s, size_t n) {
    size_t at = 0;
    uint32_t point;
    while (at < n)
        if (!vn_utf8_next(s, n, &at, &point)) return at;
    return n;
}

int vn_text_order(const void *a, const void *b) {
    const vn_string_t *x = a, *y = b;
    const size_t n = x->length < y->length ? x->length : y->length;
    const int c = n ? memcmp(x->text, y->text, n) : 0;
    return c ? c : (x->length > y->length) - (x->length < y->length);
}

bool vn_is_blank(vn_blank_t which, uint32_t p) {
    if ((p >= 0x09 && p <= 0x0D) || p == ' ') return true;
    if (which == VN_BLANK_ASCII) return false;
    if (p >= 0x1C && p <= 0x1F) return which == VN_BLANK_PYTHON;
    return p == 0x85 || p == 0xA0 || p == 0x1680 || (p >= 0x2000 && p <= 0x200A) || p == 0x2028 || p == 0x2029 || p == 0x202F ||
           p == 0x205F || p == 0x3000;
}

/* ---- letter case ---- */

/* Made once, never changed, kept for the life of the process. */
static locale_t letters;
static pthread_once_t letters_once = PTHREAD_ONCE_INIT;

static void find_letters(void) {
    static const char *const names[] = {"C.UTF-8", "C.utf8", "en_US.UTF-8", "en_US.utf8"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !letters; ++i) letters = newlocale(LC_CTYPE_MASK, names[i], (locale_t)0);
}

bool vn_case_ready(void) {
    pthread_once(&letters_once, find_letters);
    return letters != (locale_t)0;
}

vn_case_law_t vn_case_law(const char *locale) {
    static const struct {
        const char *language;
        vn_case_law_t law;
    } own[] = {
        {"tr", VN_CASE_TURKIC},  {"tur", VN_CASE_TURKIC},  {"turkish", VN_CASE_TURKIC}, {"az", VN_CASE_TURKIC},  {"aze", VN_CASE_TURKIC},
        {"lt", VN_CASE_UNKNOWN}, {"lit", VN_CASE_UNKNOWN}, {"crh", VN_CASE_UNKNOWN},    {"ku", VN_CASE_UNKNOWN}, {"tt", VN_CASE_UNKNOWN},
    }; /* the last three: dotless i in some of their locales, not in Unicode's table */
    const size_t n = strcspn(locale, "_-.@");
    for (size_t i = 0; i < sizeof own / sizeof *own; ++i)
        if (strlen(own[i].language) == n && strncasecmp(own[i].language, locale, n) == 0) return own[i].law;
    return VN_CASE_ROOT;
}

uint32_t vn_case_simple(vn_case_law_t law, bool upper, uint32_t p) {
    if (law == VN_CASE_TURKIC) {
        if (upper && p == 'i') return 0x130;
        if (!upper && p == 'I') return 0x131;
    }
    return (uint32_t)(upper ? towupper_l((wint_t)p, letters) : towlower_l((wint_t)p, letters));
}

static bool is_cased(uint32_t p) { return iswupper_l((wint_t)p, letters) || iswlower_l((wint_t)p, letters); }

/* Marks and signs that a final sigma looks through (property Case_Ignorable, as far as they stand in cased scripts). */
static bool is_looked_through(uint32_t p) {
    static const uint32_t spans[][2] = {
        {0x27, 0x27},     {0x2E, 0x2E},     {0x3A, 0x3A},     {0x5E, 0x5E},     {0x60, 0x60},     {0xA8, 0xA8},     {0xAD, 0xAD},
        {0xAF, 0xAF},     {0xB4, 0xB4},     {0xB7, 0xB8},     {0x2B0, 0x36F},   {0x374, 0x375},   {0x384, 0x385},   {0x387, 0x387},
        {0x483, 0x489},   {0x1AB0, 0x1ACE}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x2018, 0x2019}, {0x2024, 0x2024}, {0x2027, 0x2027},
        {0x202A, 0x202E}, {0x2060, 0x206F}, {0x20D0, 0x20F0}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; ++i)
        if (p >= spans[i][0] && p <= spans[i][1]) return true;
    return false;
}

/* Does the word go on behind s[at]? */
static bool goes_on(const char *s, size_t n, size_t at) {
    uint32_t p;
    while (at < n && vn_utf8_next(s, n, &at, &p))
        if (!is_looked_through(p)) return is_cased(p);
    return false;
}

bool vn_case_add(vn_text_t *out, vn_case_law_t law, bool upper, bool full, const char *s, size_t n) {
    size_t at = 0;
    bool in_word = false; /* a cased letter stands before, maybe with marks */
    while (at < n) {
        uint32_t p, many[3];
        if (!vn_utf8_next(s, n, &at, &p)) return false;
        const int k = full && upper ? vn_case_expansion(p, many) : 0;
        if (k) {
            for (int i = 0; i < k; ++i) vn_utf8_add(out, many[i]);
        } else if (full && !upper && p == 0x3A3) {
            vn_utf8_add(out, in_word && !goes_on(s, n, at) ? 0x3C2 : 0x3C3);
        } else if (!upper && p == 0x130) {
            vn_utf8_add(out, 'i');
            if (full && law != VN_CASE_TURKIC) vn_utf8_add(out, 0x307);
        } else {
            vn_utf8_add(out, vn_case_simple(law, upper, p));
        }
        if (!is_looked_through(p)) in_word = is_cased(p);
    }
    return true;
}
