/* output.c -- reports to the terminal and to files. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "vernier/judge.h"
#include "vernier/report.h"

vn_status_t vn_cli_print(const char *text, vn_error_t *err) {
    if (fputs(text, stdout) == EOF || fflush(stdout) != 0)
        return vn_fail(err, VN_ERR_IO, "standard output: cannot write: %s", strerror(errno));
    return VN_OK;
}

vn_status_t vn_cli_common(const vn_common_t *c, int *effort, vn_error_t *err) {
    static const char *const efforts[] = {"quick", "normal", "deep"};
    *effort = VN_EFFORT_NORMAL;
    for (int i = 0; c->effort && i < 4; ++i) {
        if (i == 3) return vn_fail(err, VN_ERR_USAGE, "--effort: '%s' is none of quick, normal, deep", c->effort);
        if (strcmp(c->effort, efforts[i]) == 0) {
            *effort = i;
            break;
        }
    }
    if (c->color && strcmp(c->color, "auto") && strcmp(c->color, "always") && strcmp(c->color, "never"))
        return vn_fail(err, VN_ERR_USAGE, "--color: '%s' is none of auto, always, never", c->color);
    return VN_OK;
}

static bool colored(const vn_common_t *c) {
    if (c->color && strcmp(c->color, "auto") != 0) return strcmp(c->color, "always") == 0;
    return isatty(STDOUT_FILENO);
}

int vn_cli_report(const vn_record_t *r, const vn_common_t *c) {
    const vn_report_options_t o = {.color = colored(c),
                                   .verbose = c->quiet     ? -1
                                              : c->verbose ? 1
                                                           : 0,
                                   .policy = {.allow = c->allow, .fail_on = c->fail_on}};
    vn_text_t text = {0}, json = {0};
    vn_error_t err = {0};
    vn_status_t s = VN_OK;
    const bool to_stdout = c->json && strcmp(c->json, "-") == 0;
    if (c->json) s = vn_report_json(r, &o.policy, &json, &err);
    if (s == VN_OK && c->json) s = vn_write_file(c->json, json.data, json.length, &err);
    if (s == VN_OK && !to_stdout) s = vn_report_text(r, &o, &text, &err);
    if (s == VN_OK && !to_stdout) s = vn_cli_print(text.data, &err);
    vn_text_free(&text);
    vn_text_free(&json);
    return s == VN_OK ? vn_record_exit(r, &o.policy) : vn_cli_error(&err);
}
