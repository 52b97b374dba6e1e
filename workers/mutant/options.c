/* options.c -- the choice of arithmetic: tables of words per option. A new arithmetic is a row. */
#include <stdlib.h>
#include <string.h>

#include "mutant.h"

typedef struct format_word {
    const char *word;
    rounding_choice_t choice;
} format_word_t;

static const format_word_t format_words[] = {
    {"f32", {VN_FMT_F32, VN_RNE}},     {"f64", {VN_FMT_F64, VN_RNE}},       {"tf32-rn", {VN_FMT_TF32, VN_RNE}},
    {"tf32-rz", {VN_FMT_TF32, VN_RZ}}, {"tf32-rna", {VN_FMT_TF32, VN_RNA}}, {"bf16", {VN_FMT_BF16, VN_RNE}},
    {"f16", {VN_FMT_F16, VN_RNE}},     {"f32-rz", {VN_FMT_F32, VN_RZ}},     {"bf16-rz", {VN_FMT_BF16, VN_RZ}},
    {"f16-rz", {VN_FMT_F16, VN_RZ}},
};

static const char *const association_words[] = {
    [SEQUENTIAL] = "sequential", [REVERSED] = "reversed",   [PAIRWISE] = "pairwise", [LANES8] = "lanes8",
    [LANES16] = "lanes16",       [BLOCKS128] = "blocks128", [FUSED] = "fma",         [ADDER16] = "adder16",
};

/* Options of two words: the second sets the flag. */
typedef struct flag_word {
    const char *key, *off, *on;
    size_t offset;
} flag_word_t;
static const flag_word_t flag_words[] = {
    {"ftz", "0", "1", offsetof(arithmetic_t, ftz)},
    {"daz", "0", "1", offsetof(arithmetic_t, daz)},
    {"variance", "two-pass", "one-pass", offsetof(arithmetic_t, one_pass)},
    {"softmax", "max", "no-max", offsetof(arithmetic_t, no_max)},
    {"quotient", "divide", "reciprocal", offsetof(arithmetic_t, reciprocal)},
    {"functions", "libm", "fast", offsetof(arithmetic_t, fast)},
};

typedef struct number_word {
    const char *key;
    int words[8]; /* 0 ends */
    size_t offset;
} number_word_t;
static const number_word_t number_words[] = {
    {"split", {2, 4, 8, 16, 32, 64}, offsetof(arithmetic_t, split)},
    {"winograd", {2, 4, 6}, offsetof(arithmetic_t, winograd)},
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

/* Formats, or bf16x3 and bf16x6: sums of bf16 numbers. */
static bool take_operands(arithmetic_t *a, const char *word) {
    if (strcmp(word, "bf16x3") != 0 && strcmp(word, "bf16x6") != 0) return take_format(&a->operands, word);
    a->pieces = word[5] == '3' ? 2 : 3;
    return true;
}

/* int8-tensor, int8-row, int8-16 ... int8-128: symmetric codes; uint8-...: with a zero point. */
static bool take_activations(activations_t *a, const char *word) {
    static const struct {
        const char *word;
        int group;
    } groups[] = {{"tensor", -1}, {"row", 0}, {"16", 16}, {"32", 32}, {"64", 64}, {"128", 128}};
    const char *dash = strchr(word, '-');
    const bool symmetric = strncmp(word, "int8-", 5) == 0;
    if (!dash || (!symmetric && strncmp(word, "uint8-", 6) != 0)) return false;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; ++i)
        if (strcmp(groups[i].word, dash + 1) == 0) {
            *a = (activations_t){true, symmetric, groups[i].group};
            return true;
        }
    return false;
}

static bool take_flag(arithmetic_t *a, const char *key, const char *word) {
    for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; ++i) {
        const flag_word_t *w = &flag_words[i];
        if (strcmp(w->key, key) != 0) continue;
        const bool on = strcmp(word, w->on) == 0;
        *(bool *)((char *)a + w->offset) = on;
        return on || strcmp(word, w->off) == 0;
    }
    return false;
}

static bool take_number(arithmetic_t *a, const char *key, const char *word) {
    char *end;
    const long n = strtol(word, &end, 10);
    for (size_t i = 0; i < sizeof number_words / sizeof *number_words; ++i)
        for (int k = 0; strcmp(number_words[i].key, key) == 0 && !*end && number_words[i].words[k]; ++k)
            if (number_words[i].words[k] == n) {
                *(int *)((char *)a + number_words[i].offset) = (int)n;
                return true;
            }
    return false;
}

bool mutant_option(arithmetic_t *a, const char *text) {
    const char *eq = strchr(text, '=');
    char key[24];
    if (!eq || (size_t)(eq - text) >= sizeof key) return false;
    memcpy(key, text, (size_t)(eq - text));
    key[eq - text] = '\0';
    const struct {
        const char *key;
        rounding_choice_t *format;
    } formats[] = {
        {"accumulator", &a->accumulator}, {"result", &a->result}, {"intermediate", &a->intermediate}, {"partials", &a->partials}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i)
        if (strcmp(formats[i].key, key) == 0) return take_format(formats[i].format, eq + 1);
    if (strcmp(key, "operands") == 0) return take_operands(a, eq + 1);
    if (strcmp(key, "activations") == 0) return take_activations(&a->activations, eq + 1);
    for (size_t i = 0; strcmp(key, "association") == 0 && i < sizeof association_words / sizeof *association_words; ++i)
        if (strcmp(association_words[i], eq + 1) == 0) {
            a->association = (association_t)i;
            return true;
        }
    return take_number(a, key, eq + 1) || take_flag(a, key, eq + 1);
}

void mutant_describe(const arithmetic_t *a, vn_text_t *json) {
    vn_text_printf(json, "\"operands\":\"%s\",\"accumulator\":\"%s\",\"result\":\"%s\",\"association\":\"%s\"",
                   a->pieces == 2   ? "bf16x3"
                   : a->pieces == 3 ? "bf16x6"
                                    : format_word(a->operands),
                   format_word(a->accumulator), format_word(a->result), association_words[a->association]);
    if (a->intermediate.format) vn_text_printf(json, ",\"intermediate\":\"%s\"", format_word(a->intermediate));
    if (a->partials.format) vn_text_printf(json, ",\"partials\":\"%s\"", format_word(a->partials));
    for (size_t i = 0; i < sizeof number_words / sizeof *number_words; ++i) {
        const int n = *(const int *)((const char *)a + number_words[i].offset);
        if (n) vn_text_printf(json, ",\"%s\":%d", number_words[i].key, n);
    }
    if (a->activations.on) {
        vn_text_printf(json, ",\"activations\":\"%s-", a->activations.symmetric ? "int8" : "uint8");
        if (a->activations.group > 0) vn_text_printf(json, "%d\"", a->activations.group);
        else vn_text_printf(json, "%s\"", a->activations.group ? "tensor" : "row");
    }
    for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; ++i) {
        const bool on = *(const bool *)((const char *)a + flag_words[i].offset);
        if (i < 2) vn_text_printf(json, ",\"%s\":%s", flag_words[i].key, on ? "true" : "false");
        else if (on) vn_text_printf(json, ",\"%s\":\"%s\"", flag_words[i].key, flag_words[i].on);
    }
}
