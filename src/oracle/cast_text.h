/* cast_text.h -- numbers as strings and back, for Cast. */
#ifndef VN_ORACLE_CAST_TEXT_H
#define VN_ORACLE_CAST_TEXT_H

#include "vernier/tensor.h"

enum { VN_CAST_TEXT_MAX = 400 }; /* f64 in plain notation: sign, 309 digits, point, 17 digits */

/** How back ends spell a float. */
typedef enum vn_spelling {
    VN_SPELL_PLAIN, /* fewest digits that read back, never an exponent, ".0" behind integers: the text's "plain floating-point representation" */
    VN_SPELL_REPR,    /* the same digits, exponent outside 1e-4 .. 1e16 (NumPy, Python) */
    VN_SPELL_GENERAL, /* %.8g, %.17g for f64 (C++ streams) */
} vn_spelling_t;

/** Writes x, a member of type t (float). Returns the length. */
int vn_spell_float(vn_dtype_t t, double x, vn_spelling_t how, char out[VN_CAST_TEXT_MAX]);

/**
 * Reads a decimal literal: optional sign, digits with optional point and exponent, or inf / nan in any case ("+INF", "INF", "-INF", "NaN").
 * False: no numerical literal; the text calls the conversion undefined.
 */
bool vn_read_float(const char *text, size_t length, double *out);
/** Whole number with optional sign. *whole false: a float literal, truncated into *out. False: no literal, or outside 64 bits. */
bool vn_read_int(const char *text, size_t length, bool is_unsigned, int64_t *out, bool *whole);

#endif
