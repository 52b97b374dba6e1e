/* cmd_check.c -- vernier check MODEL -b SPEC ... */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "vernier/study.h"

static void progress(void *ctx, const char *phase, int64_t done, int64_t total) {
    (void)ctx;
    fprintf(stderr, "\r\033[K%.60s %lld of %lld", phase, (long long)done, (long long)total);
    fflush(stderr);
}

int vn_cmd_check(int argc, char **argv) {
    vn_common_t c = {0};
    vn_list_t backends = {0}, shapes = {0}, rest = {0};
    vn_check_options_t o = {0};
    int64_t seed = 1, jobs = 0;
    const char *contract = "portable", *inputs = NULL;
    const vn_opt_t opts[] = {
        {"--backend", "-b", VN_OPT_LIST, &backends, "SPEC", "back end name[:device][@environment][,key=value...]; may be repeated"},
        {"--inputs", NULL, VN_OPT_TEXT, &inputs, "FILE", "tensors by input name: .npz, .npy, .safetensors, .pb"},
        {"--seed", NULL, VN_OPT_COUNT, &seed, "N", "seed of generated inputs (default 1)"},
        {"--shape", NULL, VN_OPT_LIST, &shapes, "NAME=DIMS", "shape of a generated input, e.g. x=1x3x48x320; may be repeated"},
        {"--contract", NULL, VN_OPT_TEXT, &contract, "C", "ieee | portable | fast, or operand=f32,accumulator=f32,... (default portable)"},
        {"--no-in-situ", NULL, VN_OPT_FLAG, &o.skip_in_situ, NULL, "leave out the judgement on captured intermediates"},
        {"--no-graph", NULL, VN_OPT_FLAG, &o.skip_graph, NULL, "leave out the unobserved run of the whole graph"},
        {"--jobs", NULL, VN_OPT_COUNT, &jobs, "N", "threads of the oracle (default: processors); verdicts do not depend on it"},
        {"--timeout", NULL, VN_OPT_NUMBER, &o.timeout_s, "SECONDS", "limit of one request to a back end (default 300)"},
        {"--memory", NULL, VN_OPT_SIZE, &o.memory_bytes, "SIZE", "resident limit of one back end, e.g. 4G (default none)"},
        VN_COMMON_OPTIONS(&c),
    };
    const int n = sizeof opts / sizeof *opts;
    vn_error_t err = {0};
    if (vn_cli_parse(argc, argv, opts, n, &rest, &err) != VN_OK) return vn_cli_error(&err);
    if (c.help) {
        vn_cli_help("check MODEL.onnx -b SPEC [-b SPEC ...]",
                    "Judges every operator of the model on each back end: isolated, in situ, and the whole graph.", opts, n);
        return VN_EXIT_PASS;
    }
    int effort;
    if (vn_cli_common(&c, &effort, &err) != VN_OK) return vn_cli_error(&err);
    if (rest.count != 1) return vn_fail(&err, VN_ERR_USAGE, "check: exactly one model is needed, %d given", rest.count), vn_cli_error(&err);
    vn_shape_arg_t args[VN_OPT_MAX_LIST];
    char names[VN_OPT_MAX_LIST][128];
    for (int i = 0; i < shapes.count; ++i)
        if (vn_shape_parse(shapes.items[i], &args[i], names[i], sizeof names[i], &err) != VN_OK) return vn_cli_error(&err);
    if (inputs && shapes.count)
        return vn_fail(&err, VN_ERR_USAGE, "--shape belongs to generated inputs; with --inputs the file decides"), vn_cli_error(&err);
    if (vn_contract_parse(contract, &o.contract, &err) != VN_OK) return vn_cli_error(&err);
    if (jobs) vn_threads_set((int)(jobs > 64 ? 64 : jobs));
    o.model_path = rest.items[0];
    o.n_backends = backends.count;
    o.backends = backends.items;
    o.inputs_path = inputs;
    o.seed = (uint64_t)seed;
    o.n_shapes = shapes.count;
    o.shapes = args;
    o.effort = (vn_effort_t)effort;
    const bool terminal = isatty(STDERR_FILENO) && !c.quiet;
    if (terminal) o.progress = progress;
    vn_record_t *r;
    const vn_status_t s = vn_check(&o, &r, &err);
    if (terminal) fprintf(stderr, "\r\033[K");
    if (s != VN_OK) return vn_cli_error(&err);
    const int code = vn_cli_report(r, &c);
    vn_record_free(r);
    return code;
}
