/* regex.h -- RE2 syntax, read strictly, and written anew for a matcher with other rules. */
#ifndef VN_ORACLE_REGEX_H
#define VN_ORACLE_REGEX_H

#include "vernier/base.h"

/**
 * Reads `pattern` by RE2's grammar (its usual flags: UTF-8, Perl classes, Perl groups, one line) and adds to *out a PCRE2 pattern that
 * matches the same texts from beginning to end. Only explicit things are written: code points, ranges, plain groups, counted
 * repetitions, \A and \z; whatever the two dialects read differently never reaches PCRE2.
 * Errors     RANGE: RE2 refuses the pattern too, with the offset. UNSUPPORTED: look-around, back references and other things that RE2
 *            has not, \C (single bytes), properties under (?i). NOMEM.
 */
vn_status_t vn_regex_translate(const char *pattern, size_t length, vn_text_t *out, vn_error_t *err);

#endif
