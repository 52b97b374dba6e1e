/* options.c -- long and short options from a table. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const vn_opt_t *find(const char *arg, size_t n, const vn_opt_t *opts, int count) {
    for (int i = 0; i < count; ++i) {
        if (strlen(opts[i].name) == n && strncmp(opts[i].name, arg, n) == 0) return &opts[i];
        if (opts[i].brief && strlen(opts[i].brief) == n && strncmp(opts[i].brief, arg, n) == 0) return &opts[i];
    }
    return NULL;
}

static bool parse_size(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    const double x = strtod(text, &end);
    double unit = 1;
    if (*end == 'K' || *end == 'k') unit = 0x1p10;
    if (*end == 'M' || *end == 'm') unit = 0x1p20;
    if (*end == 'G' || *end == 'g') unit = 0x1p30;
    if (unit > 1) ++end;
    if (end == text || *end || errno || !(x >= 0) || x * unit > 0x1p60) return false;
    *out = (int64_t)(x * unit);
    return true;
}

static vn_status_t set(const vn_opt_t *o, const char *value, vn_error_t *err) {
    char *end;
    errno = 0;
    switch (o->kind) {
    case VN_OPT_FLAG: *(bool *)o->at = true; return VN_OK;
    case VN_OPT_TEXT: *(const char **)o->at = value; return VN_OK;
    case VN_OPT_LIST: {
        vn_list_t *list = o->at;
        if (list->count == VN_OPT_MAX_LIST) return vn_fail(err, VN_ERR_USAGE, "%s is given more than %d times", o->name, VN_OPT_MAX_LIST);
        list->items[list->count++] = value;
        return VN_OK;
    }
    case VN_OPT_COUNT: {
        const long long x = strtoll(value, &end, 0);
        if (end == value || *end || errno || x < 0) return vn_fail(err, VN_ERR_USAGE, "%s: '%s' is no number from 0 up", o->name, value);
        *(int64_t *)o->at = x;
        return VN_OK;
    }
    case VN_OPT_NUMBER: {
        const double x = strtod(value, &end);
        if (end == value || *end || !isfinite(x) || x < 0)
            return vn_fail(err, VN_ERR_USAGE, "%s: '%s' is no number from 0 up", o->name, value);
        *(double *)o->at = x;
        return VN_OK;
    }
    case VN_OPT_SIZE:
        if (!parse_size(value, o->at)) return vn_fail(err, VN_ERR_USAGE, "%s: '%s' is no size (examples: 800M, 2G)", o->name, value);
        return VN_OK;
    }
    return VN_ERR_INTERNAL;
}

vn_status_t vn_cli_parse(int argc, char **argv, const vn_opt_t *opts, int n, vn_list_t *rest, vn_error_t *err) {
    bool only_rest = false;
    for (int i = 1; i < argc; ++i) {
        const char *arg = argv[i];
        if (only_rest || arg[0] != '-' || !arg[1]) {
            if (rest->count == VN_OPT_MAX_LIST) return vn_fail(err, VN_ERR_USAGE, "too many arguments");
            rest->items[rest->count++] = arg;
            continue;
        }
        if (strcmp(arg, "--") == 0) {
            only_rest = true;
            continue;
        }
        const char *eq = strncmp(arg, "--", 2) == 0 ? strchr(arg, '=') : NULL;
        const vn_opt_t *o = find(arg, eq ? (size_t)(eq - arg) : strlen(arg), opts, n);
        if (!o) return vn_fail(err, VN_ERR_USAGE, "unknown option '%s'; see vernier %s --help", arg, argv[0]);
        const char *value = eq ? eq + 1 : NULL;
        if (o->kind == VN_OPT_FLAG && value) return vn_fail(err, VN_ERR_USAGE, "%s takes no value", o->name);
        if (o->kind != VN_OPT_FLAG && !value) {
            if (i + 1 >= argc) return vn_fail(err, VN_ERR_USAGE, "%s needs a value (%s)", arg, o->value);
            value = argv[++i];
        }
        VN_TRY(set(o, value, err));
    }
    return VN_OK;
}

void vn_cli_help(const char *usage, const char *about, const vn_opt_t *opts, int n) {
    printf("usage: vernier %s\n\n%s\n\n", usage, about);
    for (int i = 0; i < n; ++i) {
        char left[64];
        snprintf(left, sizeof left, "%s%s%s%s%s", opts[i].brief ? opts[i].brief : "", opts[i].brief ? ", " : "", opts[i].name,
                 opts[i].value ? " " : "", opts[i].value ? opts[i].value : "");
        printf("  %-26s %s\n", left, opts[i].help);
    }
}

int vn_cli_error(const vn_error_t *err) {
    fprintf(stderr, "vernier: %s\n", err->text);
    return VN_EXIT_USAGE;
}
