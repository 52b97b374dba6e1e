/* arithmetic.c -- what happens at the leaves and nodes of a tree, as canonical text and back. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vernier/schedule.h"

static const char *const roundings[] = {[VN_RNE] = "rne", [VN_RNA] = "rna", [VN_RZ] = "rz", [VN_RU] = "ru", [VN_RD] = "rd"};

vn_arithmetic_t vn_arithmetic_default(vn_format_t accumulator) { return (vn_arithmetic_t){.accumulator = accumulator}; }

static const char *format_name(vn_format_t f) {
    const vn_format_info_t *info = vn_format_info(f);
    return info ? info->name : "none";
}

/* One word of the text; the first word has no blank before it. */
static void VN_PRINTF(3, 4) word(char *out, size_t size, const char *fmt, ...) {
    const size_t at = strlen(out);
    va_list args;
    if (at + 1 >= size) return;
    if (at) out[at] = ' ';
    va_start(args, fmt);
    vsnprintf(out + at + (at > 0), size - at - (at > 0), fmt, args);
    va_end(args);
}

void vn_arithmetic_text(const vn_arithmetic_t *a, char *out, size_t size) {
    static const char *const sides[] = {"operand-a", "operand-b"};
    *out = '\0';
    word(out, size, a->fma ? "fma" : "mul+add");
    word(out, size, "acc=%s", format_name(a->accumulator));
    if (a->rounding != VN_RNE) word(out, size, "round=%s", roundings[a->rounding]);
    const bool alike = a->operand[0] == a->operand[1] && a->operand_rounding[0] == a->operand_rounding[1];
    for (int k = 0; k < (alike ? 1 : 2); ++k)
        if (a->operand[k] != VN_FMT_NONE)
            word(out, size, "%s=%s-%s", alike ? "operands" : sides[k], format_name(a->operand[k]), roundings[a->operand_rounding[k]]);
    if (a->fused_bits) word(out, size, "fused=%d-%s", a->fused_bits, roundings[a->fused_rounding]);
    if (a->fused_result != VN_FMT_NONE) word(out, size, "fused-result=%s", format_name(a->fused_result));
    if (a->narrow_every) word(out, size, "narrow=%s/%d", format_name(a->narrow_format), a->narrow_every);
    if (a->initial != VN_FMT_NONE) word(out, size, "initial=%s", format_name(a->initial));
    if (a->store != VN_FMT_NONE) word(out, size, "store=%s-%s", format_name(a->store), roundings[a->store_rounding]);
    if (a->daz) word(out, size, "daz");
    if (a->ftz) word(out, size, "ftz");
    if (a->zero_start) word(out, size, "zero-start");
}

/* ---- reading ---- */

static bool read_format(const char *text, vn_format_t *out) { return (*out = vn_format_from_name(text)) != VN_FMT_NONE; }

/* "bf16-rne" */
static bool read_rounded(const char *text, vn_format_t *f, vn_rounding_t *r) {
    char name[24];
    const char *dash = strrchr(text, '-');
    if (!dash || (size_t)(dash - text) >= sizeof name) return false;
    memcpy(name, text, (size_t)(dash - text));
    name[dash - text] = '\0';
    for (size_t k = 0; k < sizeof roundings / sizeof *roundings; ++k)
        if (strcmp(dash + 1, roundings[k]) == 0) {
            *r = (vn_rounding_t)k;
            return !f || read_format(name, f);
        }
    return false;
}

static bool read_count(const char *text, int most, int *out) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (end == text || (*end && *end != '-') || value < 1 || value > most) return false;
    *out = (int)value;
    return true;
}

static bool read_word(const char *key, const char *value, vn_arithmetic_t *a) {
    if (!value) {
        if (strcmp(key, "fma") == 0) return a->fma = true;
        if (strcmp(key, "mul+add") == 0) return !a->fma;
        if (strcmp(key, "daz") == 0) return a->daz = true;
        if (strcmp(key, "ftz") == 0) return a->ftz = true;
        if (strcmp(key, "zero-start") == 0) return a->zero_start = true;
        return false;
    }
    if (strcmp(key, "acc") == 0) return read_format(value, &a->accumulator);
    if (strcmp(key, "round") == 0) {
        char text[16];
        snprintf(text, sizeof text, "x-%.10s", value);
        return read_rounded(text, NULL, &a->rounding);
    }
    if (strcmp(key, "operand-a") == 0) return read_rounded(value, &a->operand[0], &a->operand_rounding[0]);
    if (strcmp(key, "operand-b") == 0) return read_rounded(value, &a->operand[1], &a->operand_rounding[1]);
    if (strcmp(key, "operands") == 0)
        return read_rounded(value, &a->operand[0], &a->operand_rounding[0]) && read_rounded(value, &a->operand[1], &a->operand_rounding[1]);
    if (strcmp(key, "fused") == 0) return read_count(value, 64, &a->fused_bits) && read_rounded(value, NULL, &a->fused_rounding);
    if (strcmp(key, "fused-result") == 0) return read_format(value, &a->fused_result);
    if (strcmp(key, "initial") == 0) return read_format(value, &a->initial);
    if (strcmp(key, "store") == 0) return read_rounded(value, &a->store, &a->store_rounding);
    if (strcmp(key, "narrow") == 0) {
        char name[16];
        const char *slash = strchr(value, '/');
        if (!slash || (size_t)(slash - value) >= sizeof name) return false;
        memcpy(name, value, (size_t)(slash - value));
        name[slash - value] = '\0';
        return read_format(name, &a->narrow_format) && read_count(slash + 1, 1 << 20, &a->narrow_every);
    }
    return false;
}

vn_status_t vn_arithmetic_parse(const char *text, vn_arithmetic_t *out, vn_error_t *err) {
    *out = vn_arithmetic_default(VN_FMT_F32);
    for (const char *at = text; *at;) {
        char one[64];
        const size_t n = strcspn(at, " ");
        if (n == 0 || n >= sizeof one) return vn_fail(err, VN_ERR_PARSE, "arithmetic, offset %zu: a word is expected", (size_t)(at - text));
        memcpy(one, at, n);
        one[n] = '\0';
        char *equal = strchr(one, '=');
        if (equal) *equal = '\0';
        if (!read_word(one, equal ? equal + 1 : NULL, out))
            return vn_fail(err, VN_ERR_PARSE, "arithmetic, offset %zu: '%.*s' is not understood", (size_t)(at - text), (int)n, at);
        at += n + (at[n] == ' ');
    }
    return VN_OK;
}
