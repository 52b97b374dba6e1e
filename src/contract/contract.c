/* contract.c -- built-in contracts and the text form "operand=f32,accumulator=f32,...". */
#include "vernier/contract.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool vn_contract_builtin(const char *name, vn_contract_t *out) {
    *out = (vn_contract_t){.tier = VN_TIER_IEEE};
    if (strcmp(name, "ieee") == 0) return true;
    if (strcmp(name, "portable") == 0) {
        out->tier = VN_TIER_PORTABLE;
        out->reciprocal_quotient = true;
        return true;
    }
    if (strcmp(name, "fast") == 0) {
        out->tier = VN_TIER_FAST;
        out->reciprocal_quotient = out->ftz = out->daz = true;
        return true;
    }
    return false;
}

static const struct {
    const char *name;
    vn_format_t format;
    vn_rounding_t rounding;
} operand_names[] = {
    {"tf32-rn", VN_FMT_TF32, VN_RNE},
    {"tf32-rna", VN_FMT_TF32, VN_RNA},
    {"tf32-rz", VN_FMT_TF32, VN_RZ},
    {"bf16-rz", VN_FMT_BF16, VN_RZ},
};

/* Integer types, and pairs such as "u8xi8" (operands) or "f32->u8" (a cast), are exact by the operator's own rule: they are checked for
 * being types at all and set nothing. */
static bool is_type(const char *name, size_t n) {
    static const struct {
        const char *spelling, *name;
    } also[] = {{"e4m3fn", "f8e4m3fn"}, {"e4m3fnuz", "f8e4m3fnuz"}, {"e5m2", "f8e5m2"}, {"e5m2fnuz", "f8e5m2fnuz"}};
    char text[24];
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, name, n);
    text[n] = '\0';
    for (size_t i = 0; i < sizeof also / sizeof *also; ++i)
        if (strcmp(text, also[i].spelling) == 0) return true;
    if (strncmp(text, "uint", 4) == 0) memmove(text + 1, text + 4, strlen(text + 4) + 1);
    if (strncmp(text, "int", 3) == 0) memmove(text + 1, text + 3, strlen(text + 3) + 1);
    return vn_dtype_from_name(text) != VN_UNDEFINED;
}

static bool set_format(const char *value, vn_format_t *f) {
    const char *arrow = strstr(value, "->"), *times = strchr(value, 'x');
    *f = vn_format_from_name(value);
    if (*f != VN_FMT_NONE) return true;
    if (arrow) return is_type(value, (size_t)(arrow - value)) && is_type(arrow + 2, strlen(arrow + 2));
    if (times) return is_type(value, (size_t)(times - value)) && is_type(times + 1, strlen(times + 1));
    return is_type(value, strlen(value));
}

static bool set_key(vn_contract_t *c, const char *key, const char *value) {
    if (strcmp(key, "operand") == 0) {
        for (size_t i = 0; i < sizeof operand_names / sizeof *operand_names; ++i)
            if (strcmp(operand_names[i].name, value) == 0) {
                c->operand = operand_names[i].format;
                c->operand_rounding = operand_names[i].rounding;
                return true;
            }
        return set_format(value, &c->operand);
    }
    if (strcmp(key, "accumulator") == 0) return set_format(value, &c->accumulator);
    if (strcmp(key, "result") == 0) return set_format(value, &c->result);
    if (strcmp(key, "intermediate") == 0) return set_format(value, &c->intermediate);
    if (strcmp(key, "function_ulp") == 0) {
        char *end;
        c->function_ulp = strtod(value, &end);
        c->has_function_ulp = end != value && !*end && isfinite(c->function_ulp) && c->function_ulp >= 0;
        return c->has_function_ulp;
    }
    if (strcmp(key, "subnormals") == 0) {
        c->ftz = strcmp(value, "ftz") == 0 || strcmp(value, "flush") == 0;
        c->daz = strcmp(value, "daz") == 0 || strcmp(value, "flush") == 0;
        return c->ftz || c->daz || strcmp(value, "keep") == 0;
    }
    return false;
}

vn_status_t vn_contract_parse(const char *text, vn_contract_t *out, vn_error_t *err) {
    static const char keys[] = "operand accumulator result intermediate function_ulp subnormals";
    if (vn_contract_builtin(text, out)) return VN_OK;
    *out = (vn_contract_t){.tier = VN_TIER_IEEE};
    char pair[128];
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ",");
        if (n == 0 || n >= sizeof pair) return vn_fail(err, VN_ERR_USAGE, "contract '%.80s': expected KEY=VALUE, keys are %s", text, keys);
        memcpy(pair, p, n);
        pair[n] = '\0';
        char *eq = strchr(pair, '=');
        if (!eq) return vn_fail(err, VN_ERR_USAGE, "contract: '%s' is no KEY=VALUE and no built-in contract (ieee, portable, fast)", pair);
        *eq = '\0';
        if (!strstr(keys, pair)) return vn_fail(err, VN_ERR_USAGE, "contract: unknown key '%s'; keys are %s", pair, keys);
        if (!set_key(out, pair, eq + 1)) return vn_fail(err, VN_ERR_USAGE, "contract: '%s' is no value for '%s'", eq + 1, pair);
        p += n;
        if (*p == ',') ++p;
    }
    return VN_OK;
}

void vn_contract_describe(const vn_contract_t *c, char *out, size_t size) {
    static const char *const tiers[] = {"ieee", "portable", "fast"};
    const bool plain = !c->operand && !c->accumulator && !c->result && !c->intermediate && !c->has_function_ulp &&
                       (c->tier == VN_TIER_FAST) == (c->ftz || c->daz);
    if (plain) {
        snprintf(out, size, "%s", tiers[c->tier]);
        return;
    }
    size_t n = 0;
    const struct {
        const char *key;
        vn_format_t f;
    } parts[] = {{"operand", c->operand}, {"accumulator", c->accumulator}, {"result", c->result}, {"intermediate", c->intermediate}};
    out[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
        if (!parts[i].f || n >= size) continue;
        const char *name = vn_format_info(parts[i].f)->name;
        if (i == 0)
            for (size_t k = 0; k < sizeof operand_names / sizeof *operand_names; ++k)
                if (operand_names[k].format == c->operand && operand_names[k].rounding == c->operand_rounding) name = operand_names[k].name;
        n += (size_t)snprintf(out + n, size - n, "%s%s=%s", n ? "," : "", parts[i].key, name);
    }
    if (c->has_function_ulp && n < size) n += (size_t)snprintf(out + n, size - n, "%sfunction_ulp=%.17g", n ? "," : "", c->function_ulp);
    if ((c->ftz || c->daz) && n < size)
        snprintf(out + n, size - n, "%ssubnormals=%s", n ? "," : "", c->ftz && c->daz ? "flush" : c->ftz ? "ftz" : "daz");
}

vn_contract_t vn_contract_resolve(const vn_contract_t *c, vn_dtype_t t) {
    vn_contract_t r = *c;
    const vn_format_t own = vn_format_of(t);
    if (!r.operand) r.operand = own ? own : VN_FMT_F32;
    if (!r.accumulator) r.accumulator = t == VN_F64 ? VN_FMT_F64 : VN_FMT_F32;
    return r;
}
