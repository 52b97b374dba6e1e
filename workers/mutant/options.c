/* options.c -- the choice of arithmetic: one table of words per option. A new arithmetic is a row. */
#include <string.h>

#include "mutant.h"

typedef struct format_word {
    const char *word;
    rounding_choice_t choice;
} format_word_t;

static const format_word_t format_words[] = {
    {"f32", {VN_FMT_F32, VN_RNE}},     {"f64", {VN_FMT_F64, VN_RNE}},       {"tf32-rn", {VN_FMT_TF32, VN_RNE}},
    {"tf32-rz", {VN_FMT_TF32, VN_RZ}}, {"tf32-rna", {VN_FMT_TF32, VN_RNA}}, {"bf16", {VN_FMT_BF16, VN_RNE}},
    {"f16", {VN_FMT_F16, VN_RNE}},
};

static const char *const association_words[] = {
    [SEQUENTIAL] = "sequential", [REVERSED] = "reversed",   [PAIRWISE] = "pairwise",
    [LANES8] = "lanes8",         [BLOCKS128] = "blocks128", [FUSED] = "fma",
};

static bool take_format(rounding_choice_t *out, const char *word) {
    for (size_t i = 0; i < sizeof format_words / sizeof *format_words; ++i)
        if (strcmp(format_words[i].word, word) == 0) {
            *out = format_words[i].choice;
            return true;
        }
    return false;
}

static const char *format_word(rounding_choice_t c) {
    for (size_t i = 0; i < sizeof format_words / sizeof *format_words; ++i)
        if (format_words[i].choice.format == c.format && format_words[i].choice.mode == c.mode) return format_words[i].word;
    return "declared";
}

static bool take_flag(bool *out, const char *word) {
    *out = strcmp(word, "1") == 0;
    return *out || strcmp(word, "0") == 0;
}

bool mutant_option(arithmetic_t *a, const char *text) {
    const char *eq = strchr(text, '=');
    if (!eq) return false;
    const size_t k = (size_t)(eq - text);
    const struct {
        const char *key;
        rounding_choice_t *format;
        bool *flag;
    } options[] = {
        {"operands", &a->operands, NULL}, {"accumulator", &a->accumulator, NULL}, {"result", &a->result, NULL}, {"ftz", NULL, &a->ftz},
        {"daz", NULL, &a->daz},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; ++i)
        if (strlen(options[i].key) == k && strncmp(text, options[i].key, k) == 0)
            return options[i].format ? take_format(options[i].format, eq + 1) : take_flag(options[i].flag, eq + 1);
    if (k != strlen("association") || strncmp(text, "association", k) != 0) return false;
    for (size_t i = 0; i < sizeof association_words / sizeof *association_words; ++i)
        if (strcmp(association_words[i], eq + 1) == 0) {
            a->association = (association_t)i;
            return true;
        }
    return false;
}

void mutant_describe(const arithmetic_t *a, vn_text_t *json) {
    vn_text_printf(json, "\"operands\":\"%s\",\"accumulator\":\"%s\",\"result\":\"%s\",\"association\":\"%s\",\"ftz\":%s,\"daz\":%s",
                   format_word(a->operands), format_word(a->accumulator), format_word(a->result), association_words[a->association],
                   a->ftz ? "true" : "false", a->daz ? "true" : "false");
}
