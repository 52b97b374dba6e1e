/* reveal_output.h -- how a revealed schedule is shown: text, JSON (vernier-reveal-1), SVG. */
#ifndef VN_CLI_REVEAL_OUTPUT_H
#define VN_CLI_REVEAL_OUTPUT_H

#include "vernier/study.h"

/** got NULL: it failed, why holds the reason. */
void vn_reveal_print(vn_text_t *out, const vn_reveal_request_t *r, const vn_reveal_result_t *got, const vn_error_t *why);
void vn_reveal_json_begin(vn_text_t *out);
void vn_reveal_json_add(vn_text_t *out, const vn_reveal_request_t *r, const vn_reveal_result_t *got, const vn_error_t *why);
void vn_reveal_json_end(vn_text_t *out);
/** One result alone, as an object. */
void vn_reveal_json_object(vn_text_t *out, const vn_reveal_request_t *r, const vn_reveal_result_t *got, const vn_error_t *why);
/** The card as lines of text; with_addend: NULL, or the card from which the probes of an addend (P17 to P19) are taken. */
void vn_reveal_print_card(vn_text_t *out, const vn_card_t *card, const vn_card_t *with_addend);
/** Functions and divisions of a back end: lines of a card; JSON as two arrays, `"functions": [..], "divisions": [..]`. */
void vn_functions_print(vn_text_t *out, const vn_functions_result_t *got);
void vn_functions_json(vn_text_t *out, const vn_functions_result_t *got);
/** Tree of the first class that has one, and the map of the classes. Errors: IO; UNSUPPORTED: no class has a tree. */
vn_status_t vn_reveal_svg(const vn_reveal_result_t *got, const char *path, vn_error_t *err);

#endif
