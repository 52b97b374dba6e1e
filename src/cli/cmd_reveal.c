/* cmd_reveal.c -- vernier reveal: the summation order of one operator on a back end, replayed. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reveal_output.h"

/* What is asked on the command line, by name. */
static const struct {
    const char *name;
    vn_sum_kind_t kind;
    bool addend;
} kinds[] = {
    {"matmul", VN_SUM_MATMUL, false},
    {"gemm", VN_SUM_MATMUL, true},
    {"conv", VN_SUM_CONV, false},
    {"sum", VN_SUM_REDUCE_SUM, false},
    {"mean", VN_SUM_REDUCE_MEAN, false},
    {"l1", VN_SUM_REDUCE_L1, false},
    {"sumsquare", VN_SUM_SQUARE, false},
    {"l2", VN_SUM_L2, false},
    {"logsumexp", VN_SUM_LOG_SUM_EXP, false},
    {"softmax", VN_SUM_SOFTMAX, false},
    {"layernorm", VN_SUM_LAYER_NORM, false},
    {"rmsnorm", VN_SUM_RMS_NORM, false},
    {"cumsum", VN_SUM_CUMSUM, false},
    {"attention", VN_SUM_ATTENTION, false},
    {"averagepool", VN_SUM_AVERAGE_POOL, false},
    {"matmulnbits", VN_SUM_MATMUL_NBITS, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* "3x3", or "3" for both; "1x1x1x1" where four are due, or one or two that stand for all. */
static vn_status_t numbers(const char *option, const char *text, int n, int64_t *out, vn_error_t *err) {
    vn_shape_arg_t shape;
    char name[8], spelled[128];
    if (!text) return VN_OK;
    snprintf(spelled, sizeof spelled, "s=%.100s", text);
    if (vn_shape_parse(spelled, &shape, name, sizeof name, NULL) != VN_OK || shape.rank < 1 || n % shape.rank)
        return vn_fail(err, VN_ERR_USAGE, "%s: '%s' is not of the form 3x3 (%d numbers, or fewer that repeat)", option, text, n);
    for (int i = 0; i < n; ++i) out[i] = shape.dims[i % shape.rank];
    return VN_OK;
}

typedef struct options {
    vn_list_t backends, shapes, rest;
    const char *json, *svg, *dtype, *node, *kernel, *stride, *pad, *dilation, *image, *color;
    int64_t m, k, n, batch, channels, filters, groups, heads, kv_heads, keys, head_size, block, bits, accuracy, seed, calls, memory;
    double timeout, seconds, scale, epsilon;
    bool transpose_a, transpose_b, constant_a, constant_b, bias, full_bias, zero_points, card, help;
} options_t;

static vn_status_t operator_of(const options_t *o, const char *name, vn_reveal_request_t *r, vn_error_t *err) {
    vn_sum_op_t *op = &r->op;
    *op = (vn_sum_op_t){.kind = VN_SUM_KIND_COUNT};
    for (int i = 0; i < KINDS; ++i)
        if (strcmp(kinds[i].name, name) == 0) {
            op->kind = kinds[i].kind;
            op->addend = kinds[i].addend;
        }
    if (op->kind == VN_SUM_KIND_COUNT) {
        if (strchr(name, '.')) return vn_fail(err, VN_ERR_USAGE, "reveal %s: name the node of the model with --node", name);
        return vn_fail(err, VN_ERR_USAGE,
                       "reveal: '%s' is no operator; known: matmul gemm conv sum mean l1 sumsquare l2 logsumexp softmax layernorm "
                       "rmsnorm cumsum attention averagepool matmulnbits, or a MODEL.onnx with --node",
                       name);
    }
    op->dtype = vn_dtype_from_name(o->dtype);
    if (op->dtype == VN_UNDEFINED) return vn_fail(err, VN_ERR_USAGE, "--dtype: '%s' is no element type (f32 f64 f16 bf16 i8 u8)", o->dtype);
    op->m = o->m;
    op->k = o->k;
    op->n = o->n;
    op->batch = o->batch;
    op->transpose_a = o->transpose_a;
    op->transpose_b = o->transpose_b;
    op->addend |= o->bias || o->full_bias;
    op->addend_rows = o->full_bias ? o->m : 1;
    op->channels = o->channels;
    op->filters = o->filters;
    op->groups = o->groups;
    op->heads = o->heads;
    op->kv_heads = o->kv_heads ? o->kv_heads : o->heads;
    op->keys = o->keys;
    op->head_size = o->head_size;
    op->scale = o->scale;
    op->block = o->block;
    op->bits = (int)o->bits;
    op->accuracy = (int)o->accuracy;
    op->zero_points = o->zero_points;
    op->epsilon = o->epsilon;
    for (int d = 0; d < 2; ++d) op->kernel[d] = op->stride[d] = op->dilation[d] = 1;
    VN_TRY(numbers("--kernel", o->kernel, 2, op->kernel, err));
    VN_TRY(numbers("--stride", o->stride, 2, op->stride, err));
    VN_TRY(numbers("--dilation", o->dilation, 2, op->dilation, err));
    VN_TRY(numbers("--pad", o->pad, 4, op->pad, err));
    int64_t image[2] = {0, 0};
    VN_TRY(numbers("--image", o->image, 2, image, err));
    op->height = image[0];
    op->width = image[1];
    if (op->kind == VN_SUM_AVERAGE_POOL && image[0] > 0 && !op->n) op->n = image[0] * image[1];
    r->constant = (o->constant_a ? 1u : 0) | (o->constant_b ? 2u : 0);
    return VN_OK;
}

static vn_status_t each_backend(const options_t *o, vn_reveal_request_t *r, vn_text_t *text, vn_text_t *json, int *status,
                                vn_error_t *err) {
    vn_reveal_json_begin(json);
    for (int b = 0; b < o->backends.count; ++b) {
        vn_reveal_result_t got;
        vn_error_t why = {0};
        r->backend = o->backends.items[b];
        const vn_status_t st = vn_study_reveal(r, &got, &why);
        const bool usage = st == VN_ERR_USAGE || st == VN_ERR_NOTFOUND || st == VN_ERR_PARSE || st == VN_ERR_IO || st == VN_ERR_NOMEM;
        if (usage) {
            vn_reveal_result_free(&got);
            *err = why;
            return st;
        }
        vn_reveal_print(text, r, st == VN_OK ? &got : NULL, &why);
        vn_reveal_json_add(json, r, st == VN_OK ? &got : NULL, &why);
        const bool whole = st == VN_OK && (got.schedule->elements ? got.schedule->replayed == got.schedule->elements
                                                                  : got.schedule->classes[0].violation.kind == VN_TREE_ORDER_FREE);
        if (!whole) *status = VN_EXIT_OPEN;
        vn_status_t written = VN_OK;
        if (st == VN_OK && o->svg) written = vn_reveal_svg(&got, o->svg, err);
        vn_reveal_result_free(&got);
        VN_TRY(written);
    }
    vn_reveal_json_end(json);
    return VN_OK;
}

int vn_cmd_reveal(int argc, char **argv) {
    options_t o = {.dtype = "f32", .batch = 1, .groups = 1, .block = 32, .bits = 4, .epsilon = 1e-5, .seed = 1, .timeout = 300};
    const vn_opt_t opts[] = {
        {"--backend", "-b", VN_OPT_LIST, &o.backends, "SPEC", "back end, as in vernier check; may be given several times"},
        {"--m", NULL, VN_OPT_COUNT, &o.m, "N",
         "rows of the product; rows of a reduction (each is one sum); queries; channels of averagepool"},
        {"--k", NULL, VN_OPT_COUNT, &o.k, "N", "terms of a product"},
        {"--n", NULL, VN_OPT_COUNT, &o.n, "N", "columns of the product; terms of a reduction"},
        {"--batch", NULL, VN_OPT_COUNT, &o.batch, "N", "products side by side; images"},
        {"--dtype", NULL, VN_OPT_TEXT, &o.dtype, "T", "f32 (default), f64, f16, bf16, i8, u8"},
        {"--transpose-a", NULL, VN_OPT_FLAG, &o.transpose_a, NULL, "the first operand is stored transposed (Gemm transA)"},
        {"--transpose-b", NULL, VN_OPT_FLAG, &o.transpose_b, NULL, "the second one (Gemm transB)"},
        {"--constant-a", NULL, VN_OPT_FLAG, &o.constant_a, NULL, "the first operand is a weight of the model"},
        {"--constant-b", NULL, VN_OPT_FLAG, &o.constant_b, NULL, "the second one (the filters of a convolution)"},
        {"--bias", NULL, VN_OPT_FLAG, &o.bias, NULL, "with a bias: C[n] of Gemm, B of Conv"},
        {"--full-bias", NULL, VN_OPT_FLAG, &o.full_bias, NULL, "C[m,n] of Gemm"},
        {"--channels", NULL, VN_OPT_COUNT, &o.channels, "N", "conv: input channels"},
        {"--filters", NULL, VN_OPT_COUNT, &o.filters, "N", "conv: output channels"},
        {"--groups", NULL, VN_OPT_COUNT, &o.groups, "N", "conv: groups"},
        {"--kernel", NULL, VN_OPT_TEXT, &o.kernel, "HxW", "conv: window"},
        {"--stride", NULL, VN_OPT_TEXT, &o.stride, "HxW", "conv"},
        {"--pad", NULL, VN_OPT_TEXT, &o.pad, "TxLxBxR", "conv"},
        {"--dilation", NULL, VN_OPT_TEXT, &o.dilation, "HxW", "conv"},
        {"--image", NULL, VN_OPT_TEXT, &o.image, "HxW", "conv, averagepool: input size"},
        {"--heads", NULL, VN_OPT_COUNT, &o.heads, "N", "attention"},
        {"--kv-heads", NULL, VN_OPT_COUNT, &o.kv_heads, "N", "attention; default: as heads"},
        {"--keys", NULL, VN_OPT_COUNT, &o.keys, "N", "attention: length of keys and values"},
        {"--head-size", NULL, VN_OPT_COUNT, &o.head_size, "N", "attention"},
        {"--block", NULL, VN_OPT_COUNT, &o.block, "N", "matmulnbits: terms that share a scale; default 32"},
        {"--bits", NULL, VN_OPT_COUNT, &o.bits, "N", "matmulnbits: of a weight: 2, 4 (default), 8"},
        {"--accuracy", NULL, VN_OPT_COUNT, &o.accuracy, "N", "matmulnbits: accuracy_level, 0 (default) to 4"},
        {"--zero-points", NULL, VN_OPT_FLAG, &o.zero_points, NULL, "matmulnbits: with a zero point of each block"},
        {"--scale", NULL, VN_OPT_NUMBER, &o.scale, "X", "attention; default 1/sqrt(head size)"},
        {"--epsilon", NULL, VN_OPT_NUMBER, &o.epsilon, "X", "layernorm, rmsnorm; default 1e-5"},
        {"--node", NULL, VN_OPT_TEXT, &o.node, "PATH", "the node of the model that is given"},
        {"--shape", NULL, VN_OPT_LIST, &o.shapes, "NAME=DIMS", "of the model's inputs, as in vernier check"},
        {"--card", NULL, VN_OPT_FLAG, &o.card, NULL, "products: the arithmetic card, too"},
        {"--svg", NULL, VN_OPT_TEXT, &o.svg, "FILE", "picture of the first class's tree, and of the classes over the output"},
        {"--seed", NULL, VN_OPT_COUNT, &o.seed, "N", "of the data of the replay and of random pivots; default 1"},
        {"--calls", NULL, VN_OPT_COUNT, &o.calls, "N", "most runs of the back end; default 5000"},
        {"--seconds", NULL, VN_OPT_NUMBER, &o.seconds, "S", "processor seconds at most; default 60"},
        {"--timeout", NULL, VN_OPT_NUMBER, &o.timeout, "S", "of one run; default 300"},
        {"--memory", NULL, VN_OPT_SIZE, &o.memory, "BYTES", "resident limit of a back end, 4G"},
        {"--json", NULL, VN_OPT_TEXT, &o.json, "FILE", "vernier-reveal-1 (- = standard output)"},
        {"--help", "-h", VN_OPT_FLAG, &o.help, NULL, "this text"},
    };
    enum { OPTIONS = sizeof opts / sizeof *opts };
    vn_error_t err = {0};
    vn_shape_arg_t shapes[VN_OPT_MAX_LIST];
    static char names[VN_OPT_MAX_LIST][256];
    if (vn_cli_parse(argc, argv, opts, OPTIONS, &o.rest, &err) != VN_OK) return vn_cli_error(&err);
    if (o.help) {
        vn_cli_help(
            "reveal matmul|gemm|conv|sum|mean|l1|sumsquare|l2|logsumexp|softmax|layernorm|rmsnorm|cumsum|attention|averagepool|matmulnbits "
            "-b SPEC "
            "--m N ...\n       vernier reveal MODEL.onnx --node PATH -b SPEC",
            "Reads the order of a sum off the results of a back end, and replays it bit for bit on random data (docs/schedules.md).\n"
            "Exit status 0: every element is replayed; 3: not every one, the reason is named.",
            opts, OPTIONS);
        return VN_EXIT_PASS;
    }
    if (o.rest.count != 1)
        return vn_fail(&err, VN_ERR_USAGE, "reveal: name one operator or one model; see vernier reveal --help"), vn_cli_error(&err);
    if (o.backends.count == 0) return vn_fail(&err, VN_ERR_USAGE, "reveal: name a back end with -b"), vn_cli_error(&err);
    vn_reveal_request_t r = {.reveal = {.seed = (uint64_t)o.seed, .max_calls = o.calls, .max_seconds = o.seconds},
                             .card = o.card,
                             .timeout_s = o.timeout,
                             .memory_bytes = o.memory,
                             .n_shapes = o.shapes.count,
                             .shapes = shapes};
    vn_status_t st = VN_OK;
    for (int i = 0; i < o.shapes.count && st == VN_OK; ++i)
        st = vn_shape_parse(o.shapes.items[i], &shapes[i], names[i], sizeof names[i], &err);
    if (st == VN_OK && o.node) {
        r.model_path = o.rest.items[0];
        r.node = o.node;
    } else if (st == VN_OK) {
        st = operator_of(&o, o.rest.items[0], &r, &err);
    }
    vn_text_t text = {0}, json = {0};
    int status = VN_EXIT_PASS;
    if (st == VN_OK) st = each_backend(&o, &r, &text, &json, &status, &err);
    if (st == VN_OK && o.json) st = vn_write_file(o.json, json.data, json.length, &err);
    if (st == VN_OK && !(o.json && strcmp(o.json, "-") == 0)) st = vn_cli_print(text.data ? text.data : "", &err);
    vn_text_free(&text);
    vn_text_free(&json);
    return st == VN_OK ? status : vn_cli_error(&err);
}
