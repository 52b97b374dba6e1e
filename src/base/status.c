/* status.c -- names of statuses and verdicts, one-line error texts. */
#include "vernier/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[] = {
    [VN_OK] = "ok",
    [VN_ERR_NOMEM] = "out of memory",
    [VN_ERR_USAGE] = "usage",
    [VN_ERR_IO] = "input/output",
    [VN_ERR_PARSE] = "format",
    [VN_ERR_SHAPE] = "shape",
    [VN_ERR_DTYPE] = "element type",
    [VN_ERR_RANGE] = "range",
    [VN_ERR_UNSUPPORTED] = "unsupported",
    [VN_ERR_NOTFOUND] = "not found",
    [VN_ERR_WORKER] = "worker",
    [VN_ERR_CRASHED] = "crashed",
    [VN_ERR_TIMEOUT] = "timeout",
    [VN_ERR_MEMORY_LIMIT] = "memory limit",
    [VN_ERR_INTERNAL] = "internal",
};

static const char *const verdict_names[VN_VERDICT_COUNT] = {
    [VN_NOT_RUN] = "not-run",
    [VN_EXACT] = "exact",
    [VN_REPLAYED] = "replayed",
    [VN_EXPLAINED] = "explained",
    [VN_SPEC_OPEN] = "spec-open",
    [VN_CONTRACT_MISMATCH] = "contract-mismatch",
    [VN_SUSPECT] = "suspect",
    [VN_BUG] = "bug",
    [VN_NONDETERMINISTIC] = "nondeterministic",
    [VN_UNINFORMATIVE] = "uninformative",
    [VN_UNSUPPORTED] = "unsupported",
    [VN_CRASHED] = "crashed",
    [VN_TIMEOUT] = "timeout",
};

const char *vn_status_name(vn_status_t status) {
    size_t i = (size_t)status;
    return i < sizeof status_names / sizeof *status_names && status_names[i] ? status_names[i] : "unknown status";
}

const char *vn_version(void) { return VN_VERSION; }

const char *vn_verdict_name(vn_verdict_t v) { return (unsigned)v < VN_VERDICT_COUNT ? verdict_names[v] : "unknown"; }

bool vn_verdict_from_name(const char *name, vn_verdict_t *out) {
    for (int v = 0; v < VN_VERDICT_COUNT; ++v)
        if (strcmp(name, verdict_names[v]) == 0) {
            *out = (vn_verdict_t)v;
            return true;
        }
    return false;
}

bool vn_verdict_passes(vn_verdict_t v) { return v >= VN_EXACT && v <= VN_SPEC_OPEN; }
bool vn_verdict_fails(vn_verdict_t v) { return v >= VN_CONTRACT_MISMATCH && v <= VN_NONDETERMINISTIC; }

/* Control characters (line breaks among them) in names from files must not break the one-line promise or a terminal. */
static void one_line(char *s) {
    for (; *s; ++s)
        if ((unsigned char)*s < 0x20 || *s == 0x7f) *s = ' ';
}

vn_status_t vn_fail(vn_error_t *err, vn_status_t status, const char *fmt, ...) {
    if (!err) return status;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    one_line(err->text);
    err->status = status;
    return status;
}

vn_status_t vn_fail_prefix(vn_error_t *err, const char *fmt, ...) {
    if (!err) return VN_ERR_INTERNAL;
    char old[sizeof err->text], prefix[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, fmt);
    vsnprintf(prefix, sizeof prefix, fmt, args);
    va_end(args);
    size_t n = strlen(prefix);
    if (n > sizeof err->text - 3) n = sizeof err->text - 3;
    memcpy(err->text, prefix, n);
    memcpy(err->text + n, ": ", 2);
    size_t room = sizeof err->text - n - 3, m = strnlen(old, room);
    memcpy(err->text + n + 2, old, m);
    err->text[n + 2 + m] = '\0';
    one_line(err->text);
    return err->status;
}
