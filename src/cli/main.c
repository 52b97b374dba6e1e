/* main.c -- the command: finds the sub-command, nothing else. */
#include <stdio.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "cli/cli.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"check", vn_cmd_check, "judge every operator of a model on one or more back ends"},
    {"judge", vn_cmd_judge, "judge recorded outputs of one node, without a back end"},
    {"compare", vn_cmd_compare, "metrics of two tensor files (no verdict: that needs an operator)"},
    {"reveal", vn_cmd_reveal, "the summation order of an operator on a back end, replayed bit for bit"},
    {"backends", vn_cmd_backends, "what is here, and its identity; --operators oracle lists the oracle"},
    {"models", vn_cmd_models, "list or fetch the real models used in tests and benchmarks"},
    {"doctor", vn_cmd_doctor, "what is missing here, and the command that brings it"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *to) {
    fprintf(to, "usage: vernier COMMAND [OPTIONS]\n\nTwo back ends disagree: does arithmetic explain it, and which arithmetic, or is it a "
                "bug?\n\n");
    for (int i = 0; i < COMMANDS; ++i) fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n  --version  --help   (vernier COMMAND --help explains one)\n\n"
                "exit status: 0 every verdict passes; 1 at least one fails; 2 usage or unreadable input; 3 nothing failed, not everything "
                "was decided\n");
}

/* Planes of tens of megabytes come and go with every node: up to 1 GiB is kept for the next one, whatever the size of a block. Fresh pages would cost more than the
 * arithmetic of an elementwise operator. The library itself leaves the process's memory policy alone. */
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

int main(int argc, char **argv) {
    keep_memory();
    if (argc < 2) {
        help(stderr);
        return VN_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("vernier %s\n", vn_version());
        return VN_EXIT_PASS;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help(stdout);
        return VN_EXIT_PASS;
    }
    for (int i = 0; i < COMMANDS; ++i)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "vernier: unknown command '%s'; commands are", argv[1]);
    for (int i = 0; i < COMMANDS; ++i) fprintf(stderr, " %s", commands[i].name);
    fprintf(stderr, "\n");
    return VN_EXIT_USAGE;
}
