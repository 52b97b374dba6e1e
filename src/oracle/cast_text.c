/* cast_text.c -- numbers as strings and back, for Cast. */
#include "oracle/cast_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Fewest significant digits (at most 17) after which the literal rounds back to x in its own type. */
static int digits_needed(vn_dtype_t t, double x, char *scientific, size_t size) {
    const vn_format_t f = vn_format_of(t);
    for (int digits = 1; digits <= 17; ++digits) {
        snprintf(scientific, size, "%.*e", digits - 1, x);
        const double back = strtod(scientific, NULL);
        if ((f == VN_FMT_NONE ? back : vn_round_to(f, back, VN_RNE, false)) == x) return digits;
    }
    return 17;
}

static int spell_special(double x, char *out) { return snprintf(out, VN_CAST_TEXT_MAX, "%s", isnan(x) ? "NaN" : x < 0 ? "-INF" : "INF"); }

int vn_spell_float(vn_dtype_t t, double x, vn_spelling_t how, char out[VN_CAST_TEXT_MAX]) {
    if (!isfinite(x))
        return how == VN_SPELL_REPR ? snprintf(out, VN_CAST_TEXT_MAX, "%s",
                                               isnan(x) ? "nan"
                                               : x < 0  ? "-inf"
                                                        : "inf")
                                    : spell_special(x, out);
    if (how == VN_SPELL_GENERAL) return snprintf(out, VN_CAST_TEXT_MAX, "%.*g", t == VN_F64 ? 17 : 8, x);
    char sci[64];
    const int digits = digits_needed(t, x, sci, sizeof sci);
    const int exponent = x == 0 ? 0 : atoi(strchr(sci, 'e') + 1);
    if (how == VN_SPELL_REPR && (exponent < -4 || exponent >= 16)) return snprintf(out, VN_CAST_TEXT_MAX, "%s", sci);
    /* Plain: the digits at their places; integers get ".0". */
    char mantissa[32];
    int n = 0;
    for (const char *p = sci; *p != 'e'; ++p)
        if (isdigit((unsigned char)*p)) mantissa[n++] = *p;
    char *o = out;
    if (signbit(x)) *o++ = '-';
    if (exponent < 0) {
        *o++ = '0';
        *o++ = '.';
        for (int k = -1; k > exponent; --k) *o++ = '0';
        for (int k = 0; k < n; ++k) *o++ = mantissa[k];
    } else {
        for (int k = 0; k <= exponent; ++k) *o++ = k < n ? mantissa[k] : '0';
        *o++ = '.';
        if (n <= exponent + 1) *o++ = '0';
        for (int k = exponent + 1; k < digits && k < n; ++k) *o++ = mantissa[k];
    }
    *o = '\0';
    return (int)(o - out);
}

/* The literal as a NUL-terminated copy without anything strtod would take and the text does not name (hexadecimal, blanks, names). */
static bool literal(const char *text, size_t length, char *copy, size_t size) {
    if (length == 0 || length >= size) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (strlen(copy) != length) return false;
    bool digit = false;
    for (const char *p = copy; *p; ++p) {
        if (!strchr("0123456789+-.eE", *p)) return false;
        digit |= isdigit((unsigned char)*p) != 0;
    }
    return digit;
}

bool vn_read_float(const char *text, size_t length, double *out) {
    char copy[1100];
    if (literal(text, length, copy, sizeof copy)) {
        char *end;
        *out = strtod(copy, &end);
        return *end == '\0';
    }
    static const struct {
        const char *name;
        double value;
    } names[] = {{"inf", INFINITY}, {"+inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (strlen(names[i].name) == length && strncasecmp(names[i].name, text, length) == 0) {
            *out = names[i].value;
            return true;
        }
    return false;
}

bool vn_read_int(const char *text, size_t length, bool is_unsigned, int64_t *out, bool *whole) {
    char copy[1100];
    *whole = true;
    if (!literal(text, length, copy, sizeof copy)) return false;
    if (!strpbrk(copy, ".eE")) {
        char *end;
        errno = 0;
        *out = is_unsigned && copy[0] != '-' ? (int64_t)strtoull(copy, &end, 10) : (int64_t)strtoll(copy, &end, 10);
        return *end == '\0' && errno == 0;
    }
    double d;
    if (!vn_read_float(text, length, &d)) return false;
    *whole = d == trunc(d);
    if (!(fabs(d) < 0x1p63)) return false;
    *out = (int64_t)d;
    return true;
}
