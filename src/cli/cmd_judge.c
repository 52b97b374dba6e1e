/* cmd_judge.c -- vernier judge --model NODE.onnx --inputs IN.npz --actual OUT.npz */
#include "cli/cli.h"
#include "vernier/study.h"

int vn_cmd_judge(int argc, char **argv) {
    vn_common_t c = {0};
    vn_list_t actual = {0}, rest = {0};
    const char *model = NULL, *inputs = NULL, *declared = NULL;
    const vn_opt_t opts[] = {
        {"--model", NULL, VN_OPT_TEXT, &model, "FILE", "ONNX model of one node, or of a few judged as one operator"},
        {"--inputs", NULL, VN_OPT_TEXT, &inputs, "FILE", "what the node was given: .npz, .npy, .safetensors, .pb"},
        {"--actual", NULL, VN_OPT_LIST, &actual, "FILE", "what the back end returned; a second one is a repeated run"},
        {"--declared", NULL, VN_OPT_TEXT, &declared, "C",
         "operand=f32,accumulator=f32,result=f32[,function_ulp=2][,intermediate=f16]; without it: portable"},
        VN_COMMON_OPTIONS(&c),
    };
    const int n = sizeof opts / sizeof *opts;
    vn_error_t err = {0};
    vn_judge_options_t o = {0};
    if (vn_cli_parse(argc, argv, opts, n, &rest, &err) != VN_OK) return vn_cli_error(&err);
    if (c.help) {
        vn_cli_help("judge --model NODE.onnx --inputs IN.npz --actual OUT.npz", "Judges recorded outputs. No back end runs.", opts, n);
        return VN_EXIT_PASS;
    }
    int effort;
    if (vn_cli_common(&c, &effort, &err) != VN_OK) return vn_cli_error(&err);
    if (rest.count) return vn_fail(&err, VN_ERR_USAGE, "judge: unexpected argument '%s'", rest.items[0]), vn_cli_error(&err);
    if (!model || !inputs || actual.count < 1 || actual.count > 2)
        return vn_fail(&err, VN_ERR_USAGE, "judge needs --model, --inputs and one or two --actual"), vn_cli_error(&err);
    if (vn_contract_parse(declared ? declared : "portable", &o.contract, &err) != VN_OK) return vn_cli_error(&err);
    o.model_path = model;
    o.inputs_path = inputs;
    o.n_actual = actual.count;
    for (int i = 0; i < actual.count; ++i) o.actual_paths[i] = actual.items[i];
    o.effort = (vn_effort_t)effort;
    vn_record_t *r;
    if (vn_judge_dump(&o, &r, &err) != VN_OK) return vn_cli_error(&err);
    const int code = vn_cli_report(r, &c);
    vn_record_free(r);
    return code;
}
