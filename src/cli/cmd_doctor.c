/* cmd_doctor.c -- vernier doctor: what is missing here and which command brings it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "vernier/oracle.h"
#include "vernier/worker.h"

int vn_cmd_doctor(int argc, char **argv) {
    bool help = false, required_missing = false;
    vn_list_t rest = {0};
    const vn_opt_t opts[] = {{"--help", "-h", VN_OPT_FLAG, &help, NULL, "this text"}};
    vn_error_t err = {0};
    if (vn_cli_parse(argc, argv, opts, 1, &rest, &err) != VN_OK) return vn_cli_error(&err);
    if (help) {
        vn_cli_help("doctor", "Exit 0: all that is not optional is here; 3: something is missing.", opts, 1);
        return VN_EXIT_PASS;
    }
    vn_text_t out = {0};
    char blas[200];
    vn_oracle_blas(blas, sizeof blas);
    vn_text_printf(&out, "vernier     %s, %d threads\n", vn_version(), vn_threads_get());
    vn_text_printf(&out, "oracle      %s\n", blas);
    extern char **environ;
    for (char **e = environ; *e; ++e)
        if (strncmp(*e, "OPENBLAS_", 9) == 0)
            vn_text_printf(&out, "            inherited %s: kept as found; a forced core type can make the oracle slower\n", *e);
    const vn_backend_info_t *all;
    const int n = vn_backends(&all);
    for (int i = 0; i < n; ++i) {
        vn_spec_t spec;
        err = (vn_error_t){0};
        const bool here = vn_spec_parse(all[i].name, &spec, &err) == VN_OK && vn_backend_available(&spec, &err) == VN_OK;
        vn_text_printf(&out, "%-11s %s%s\n", all[i].alias ? all[i].alias : all[i].name, here ? "ready" : err.text,
                       !here && all[i].optional ? " (optional)" : "");
        required_missing |= !here && !all[i].optional;
    }
    const vn_status_t s = out.failed ? vn_fail(&err, VN_ERR_NOMEM, "no memory") : vn_cli_print(out.data, &err);
    vn_text_free(&out);
    if (s != VN_OK) return vn_cli_error(&err);
    return required_missing ? VN_EXIT_OPEN : VN_EXIT_PASS;
}
