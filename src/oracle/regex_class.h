/* regex_class.h -- sets of characters in RE2's dialect, written as items for inside PCRE2's brackets. */
#ifndef VN_ORACLE_REGEX_CLASS_H
#define VN_ORACLE_REGEX_CLASS_H

#include "vernier/base.h"

typedef struct vn_regex_set {
    bool has[128]; /* ASCII */
} vn_regex_set_t;

/** Members of a Perl class (d, s, w) or a POSIX class by name; false: no such class. */
bool vn_regex_named_set(const char *name, size_t n, vn_regex_set_t *s);
/** The set, or all other code points. fold adds the other case, the long s and the Kelvin sign. */
void vn_regex_put_set(vn_text_t *out, vn_regex_set_t s, bool negated, bool fold);
/** A category or a script by its name (nothing for "not Any"); false: RE2 spells none so. */
bool vn_regex_put_property(vn_text_t *out, const char *name, size_t n, bool negated);

#endif
