/* spec.c -- back-end specs: name[:device][@environment][,key=value...], checked against the table. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/internal.h"

/* True if word w[0..n) is one of the blank-separated words. */
static bool among(const char *words, const char *w, size_t n) {
    for (const char *p = words; *p;) {
        const size_t k = strcspn(p, " ");
        if (k == n && strncmp(p, w, n) == 0) return true;
        p += k + strspn(p + k, " ");
    }
    return false;
}

static bool is_number(const char *v, long least) {
    char *end;
    errno = 0;
    const long n = strtol(v, &end, 10);
    return isdigit((unsigned char)v[0]) && *end == '\0' && errno == 0 && n >= least && n <= 1L << 40;
}

const char *vn_spec_option(const vn_spec_t *spec, const char *key) {
    for (int i = 0; i < spec->n_options; ++i)
        if (strcmp(spec->options[i].key, key) == 0) return spec->options[i].value;
    return NULL;
}

static void known_names(char *out, size_t size) {
    const vn_backend_info_t *infos;
    const int n = vn_backends(&infos);
    size_t at = 0;
    for (int i = 0; i < n; ++i) {
        const char *name = infos[i].alias ? infos[i].alias : infos[i].name;
        const size_t k = strlen(name);
        if (at + k + 2 > size) break;
        if (at) out[at++] = ' ';
        memcpy(out + at, name, k);
        at += k;
    }
    out[at] = '\0';
}

/* KEY of a property: capitals, digits, underscores. */
static bool is_capitals(const char *key) {
    if (!isupper((unsigned char)key[0])) return false;
    for (; *key; ++key)
        if (!isupper((unsigned char)*key) && !isdigit((unsigned char)*key) && *key != '_') return false;
    return true;
}

static bool value_fits(const vn_option_row_t *o, const char *value) {
    switch (o->kind) {
    case VN_OPTION_CHOICE: return among(o->choices, value, strlen(value));
    case VN_OPTION_COUNT: return is_number(value, 1);
    case VN_OPTION_NUMBER: return is_number(value, 0);
    case VN_OPTION_FLAG: return strcmp(value, "1") == 0 || strcmp(value, "0") == 0;
    case VN_OPTION_TEXT: return value[0] != '\0';
    }
    return false;
}

static const char *what_fits(const vn_option_row_t *o) {
    switch (o->kind) {
    case VN_OPTION_CHOICE: return o->choices;
    case VN_OPTION_COUNT: return "an integer of 1 or more";
    case VN_OPTION_NUMBER: return "an integer of 0 or more";
    case VN_OPTION_FLAG: return "nothing, 1 or 0";
    case VN_OPTION_TEXT: return "a text";
    }
    return "";
}

static vn_status_t check_option(const vn_backend_row_t *row, const char *key, const char *value, bool bare, vn_error_t *err) {
    const char *name = row->info->name;
    if (strncmp(key, "env.", 4) == 0) { /* any back end: a variable of the worker's environment, against the policy if need be */
        if (!is_capitals(key + 4) || bare) return vn_fail(err, VN_ERR_USAGE, "back end %s: option '%s' is not env.NAME=VALUE", name, key);
        return VN_OK;
    }
    if (row->form == VN_FORM_MISSING) return VN_OK; /* nothing here knows its options; vn_backend_available refuses it */
    for (int i = 0; i < row->n_options; ++i) {
        const vn_option_row_t *o = &row->options[i];
        if (strcmp(o->key, key) != 0) continue;
        if (bare && o->kind != VN_OPTION_FLAG)
            return vn_fail(err, VN_ERR_USAGE, "back end %s: option %s needs a value: %s", name, key, what_fits(o));
        if (!value_fits(o, value))
            return vn_fail(err, VN_ERR_USAGE, "back end %s: option %s=%.60s: the value must be %s%s", name, key, value,
                           o->choices ? "one of: " : "", what_fits(o));
        return VN_OK;
    }
    if (row->properties && is_capitals(key)) {
        if (bare || !value[0]) return vn_fail(err, VN_ERR_USAGE, "back end %s: property %s needs a value", name, key);
        return VN_OK;
    }
    return vn_fail(err, VN_ERR_USAGE, "back end %s has no option '%.60s'; it has: %s env.NAME=VALUE", name, key, row->info->options);
}

static bool take(char *out, size_t size, const char *from, size_t n) {
    if (n >= size) return false;
    memcpy(out, from, n);
    out[n] = '\0';
    return true;
}

static vn_status_t parse_option(const vn_backend_row_t *row, const char *p, size_t n, vn_spec_t *s, vn_error_t *err) {
    if (s->n_options == VN_MAX_SPEC_OPTIONS)
        return vn_fail(err, VN_ERR_USAGE, "'%.80s': more than %d options", s->text, VN_MAX_SPEC_OPTIONS);
    const char *eq = memchr(p, '=', n);
    const size_t k = eq ? (size_t)(eq - p) : n;
    char *key = s->options[s->n_options].key, *value = s->options[s->n_options].value;
    if (k == 0) return vn_fail(err, VN_ERR_USAGE, "'%.80s': an option without a name", s->text);
    if (!take(key, sizeof s->options[0].key, p, k) || (eq && !take(value, sizeof s->options[0].value, eq + 1, n - k - 1)))
        return vn_fail(err, VN_ERR_USAGE, "back end %s: option '%.60s' is too long", row->info->name, p);
    if (!eq) strcpy(value, "1");
    if (vn_spec_option(s, key)) return vn_fail(err, VN_ERR_USAGE, "back end %s: option %s is given twice", row->info->name, key);
    VN_TRY(check_option(row, key, value, !eq, err));
    ++s->n_options;
    return VN_OK;
}

static vn_status_t parse(const char *text, vn_spec_t *s, vn_error_t *err) {
    const size_t length = strlen(text);
    if (!take(s->text, sizeof s->text, text, length))
        return vn_fail(err, VN_ERR_USAGE, "back end '%.60s...': longer than %zu characters", text, sizeof s->text - 1);
    const size_t head = strcspn(text, ","), n = strcspn(text, ":@,");
    const vn_backend_row_t *row = take(s->name, sizeof s->name, text, n) ? vn_backend_row(s->name) : NULL;
    if (!row) {
        char known[256];
        known_names(known, sizeof known);
        return vn_fail(err, VN_ERR_USAGE, "unknown back end '%.*s'; known: %s (vernier backends)", n > 60 ? 60 : (int)n, text, known);
    }
    strcpy(s->name, row->info->name);
    size_t at = n;
    if (text[at] == ':') {
        const size_t k = strcspn(text + at + 1, "@,");
        if (k == 0 || !take(s->device, sizeof s->device, text + at + 1, k))
            return vn_fail(err, VN_ERR_USAGE, "'%.80s': the device after ':' is empty or too long", text);
        if (row->devices && !among(row->devices, s->device, k))
            return vn_fail(err, VN_ERR_USAGE, "back end %s has no device '%s'; it has: %s", s->name, s->device, row->devices);
        at += 1 + k;
    }
    if (text[at] == '@') {
        const size_t k = head - at - 1;
        if (k == 0 || !take(s->environment, sizeof s->environment, text + at + 1, k))
            return vn_fail(err, VN_ERR_USAGE, "'%.80s': the environment after '@' is empty or too long", text);
        if (row->form == VN_FORM_PROGRAM && !row->module)
            return vn_fail(err, VN_ERR_USAGE, "back end %s uses no Python environment: leave '@%s' out", s->name, s->environment);
    }
    for (at = head; at < length;) {
        const size_t k = strcspn(text + at + 1, ",");
        VN_TRY(parse_option(row, text + at + 1, k, s, err));
        at += 1 + k;
    }
    return VN_OK;
}

vn_status_t vn_spec_parse(const char *text, vn_spec_t *out, vn_error_t *err) {
    memset(out, 0, sizeof *out);
    vn_status_t s = parse(text, out, err);
    if (s != VN_OK) memset(out, 0, sizeof *out);
    return s;
}
