/* cli.h -- what the sub-commands share: options, exit status, output. The command uses include/vernier only. */
#ifndef VN_CLI_H
#define VN_CLI_H

#include "vernier/base.h"
#include "vernier/evidence.h"

enum { VN_EXIT_PASS = 0, VN_EXIT_FAIL = 1, VN_EXIT_USAGE = 2, VN_EXIT_OPEN = 3 };

typedef enum vn_opt_kind { VN_OPT_FLAG, VN_OPT_TEXT, VN_OPT_LIST, VN_OPT_COUNT, VN_OPT_NUMBER, VN_OPT_SIZE } vn_opt_kind_t;
enum { VN_OPT_MAX_LIST = 32 };

/** One option; `at` points to bool, const char *, vn_list_t, int64_t, double or int64_t (bytes: 512M, 2G). */
typedef struct vn_opt {
    const char *name;  /* "--seed" */
    const char *brief; /* "-b" or NULL */
    vn_opt_kind_t kind;
    void *at;
    const char *value; /* "SPEC"; NULL for flags */
    const char *help;
} vn_opt_t;

typedef struct vn_list {
    int count;
    const char *items[VN_OPT_MAX_LIST];
} vn_list_t;

/** Parses argv[1..]; positional arguments go to `rest`. Errors: USAGE, one line. */
vn_status_t vn_cli_parse(int argc, char **argv, const vn_opt_t *opts, int n, vn_list_t *rest, vn_error_t *err);
void vn_cli_help(const char *usage, const char *about, const vn_opt_t *opts, int n);
/** "vernier: TEXT" on stderr; returns the exit status of unusable input. */
int vn_cli_error(const vn_error_t *err);

/** Options that every judging command has. */
typedef struct vn_common {
    const char *json, *allow, *fail_on, *color, *effort;
    bool quiet, verbose, help;
} vn_common_t;
#define VN_COMMON_OPTIONS(c)                                                                                                             \
    {"--json", NULL, VN_OPT_TEXT, &(c)->json, "FILE", "write the report as JSON (- = standard output)"},                                 \
        {"--allow", NULL, VN_OPT_TEXT, &(c)->allow, "LIST", "causes or verdicts that do not fail the run; what was allowed is listed"},  \
        {"--fail-on", NULL, VN_OPT_TEXT, &(c)->fail_on, "LIST", "verdicts, causes or notes that fail the run although they would pass"}, \
        {"--effort",                                                                                                                     \
         NULL,                                                                                                                           \
         VN_OPT_TEXT,                                                                                                                    \
         &(c)->effort,                                                                                                                   \
         "E",                                                                                                                            \
         "quick | normal (repeats each run) | deep (integer probes on all plain sums, and their schedules are read and replayed)"},      \
        {"--color", NULL, VN_OPT_TEXT, &(c)->color, "WHEN", "auto | always | never"},                                                    \
        {"--quiet", "-q", VN_OPT_FLAG, &(c)->quiet, NULL, "only the last line"},                                                         \
        {"--verbose", "-v", VN_OPT_FLAG, &(c)->verbose, NULL, "every row"}, {                                                            \
        "--help", "-h", VN_OPT_FLAG, &(c)->help, NULL, "this text"                                                                       \
    }

/** Prints text and JSON of a record (JSON to "-" replaces the text). Returns the exit status. */
int vn_cli_report(const vn_record_t *r, const vn_common_t *c);
/** Checks the words given to --effort and --color. */
vn_status_t vn_cli_common(const vn_common_t *c, int *effort, vn_error_t *err);
/** Writes to standard output; a full disk or closed pipe is an error, not a silent loss. */
vn_status_t vn_cli_print(const char *text, vn_error_t *err);

int vn_cmd_check(int argc, char **argv);
int vn_cmd_judge(int argc, char **argv);
int vn_cmd_compare(int argc, char **argv);
int vn_cmd_backends(int argc, char **argv);
int vn_cmd_reveal(int argc, char **argv);
int vn_cmd_doctor(int argc, char **argv);
int vn_cmd_models(int argc, char **argv);

#endif
