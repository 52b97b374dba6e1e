/* text.h -- UTF-8, white space and letter case: what the text operators stand on. No global state but one read-only locale object. */
#ifndef VN_ORACLE_TEXT_H
#define VN_ORACLE_TEXT_H

#include "oracle/registry.h"

/** The code point at s[*at] (*at < n); *at moves behind it. False: no UTF-8 (overlong, surrogate, beyond 10FFFF, cut off). */
bool vn_utf8_next(const char *s, size_t n, size_t *at, uint32_t *point);
/** Appends the code point. */
void vn_utf8_add(vn_text_t *out, uint32_t point);
/** Offset of the first byte that begins no UTF-8 sequence; n if there is none. */
size_t vn_utf8_valid(const char *s, size_t n);

/** What counts as white space where a text says only "whitespace". */
typedef enum vn_blank {
    VN_BLANK_UNICODE, /* property White_Space */
    VN_BLANK_PYTHON,  /* the same and the four separators 1C to 1F */
    VN_BLANK_ASCII    /* isspace of the C locale */
} vn_blank_t;
bool vn_is_blank(vn_blank_t which, uint32_t point);

/** Letter case of a language. Unicode (SpecialCasing) knows own laws for Turkish, Azeri and Lithuanian only; all others share the root's. */
typedef enum vn_case_law { VN_CASE_ROOT, VN_CASE_TURKIC, VN_CASE_UNKNOWN } vn_case_law_t;
/** By the language of a locale name: "tr_TR.UTF-8" is TURKIC, "" and "de" are ROOT, "lt" is UNKNOWN. */
vn_case_law_t vn_case_law(const char *locale);
/** The tables of letter case are there (a UTF-8 locale of the C library). */
bool vn_case_ready(void);
/** One code point for one; those without a partner stay. vn_case_ready must be true. */
uint32_t vn_case_simple(vn_case_law_t law, bool upper, uint32_t point);
/** Appends s mapped. full: by SpecialCasing, where one letter may become several (sharp s, ligatures) and a sigma looks at its neighbours. */
bool vn_case_add(vn_text_t *out, vn_case_law_t law, bool upper, bool full, const char *s, size_t n);
/** Upper case of a letter that has several letters there: their number and they, 0 if it has not (text_case.c). */
int vn_case_expansion(uint32_t point, uint32_t out[3]);

/** Operand 0 is a string tensor whose data is known; SHAPE, DTYPE name it. */
vn_status_t vn_text_need(vn_eval_t *e, int k);
static inline const vn_string_t *vn_text_at(const vn_eval_t *e, int k, int64_t i) { return (const vn_string_t *)e->in[k].t->data + i; }

/** Order of two vn_string_t by their bytes, for qsort and bsearch. */
int vn_text_order(const void *a, const void *b);

/* Rows of the text table, by file. */
vn_status_t vn_text_regex(vn_eval_t *e);  /* op_regex.c */
vn_status_t vn_text_ngrams(vn_eval_t *e); /* op_tfidf.c */
vn_status_t vn_infer_ngrams(vn_eval_t *e);

#endif
