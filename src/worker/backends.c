/* backends.c -- the table of back ends: names, options, devices, what brings them. A new back end is a row here and a folder in workers/. */
#include <string.h>

#include "worker/internal.h"

#define OPTIONS(t) .options = (t), .n_options = (int)(sizeof(t) / sizeof *(t))

static const vn_option_row_t onnxruntime_options[] = {
    {"provider", VN_OPTION_CHOICE, "cpu cuda tensorrt rocm openvino dnnl xnnpack coreml webgpu"},
    {"optimisation", VN_OPTION_CHOICE, "all extended basic none"},
    {"threads", VN_OPTION_COUNT, NULL},
    {"deterministic", VN_OPTION_FLAG, NULL},
};

static const vn_option_row_t openvino_options[] = {
    {"precision", VN_OPTION_CHOICE, "f32 bf16 f16 default"},
    {"execution", VN_OPTION_CHOICE, "performance accuracy"},
    {"threads", VN_OPTION_COUNT, NULL},
};

static const vn_option_row_t blas_options[] = {
    {"lib", VN_OPTION_TEXT, NULL},
    {"gemv", VN_OPTION_CHOICE, "auto never"},
    {"threads", VN_OPTION_COUNT, NULL},
};

static const vn_option_row_t onednn_options[] = {
    {"math_mode", VN_OPTION_CHOICE, "strict bf16 f16 any"},
    {"layout", VN_OPTION_CHOICE, "any plain"},
    {"threads", VN_OPTION_COUNT, NULL},
};

static const vn_option_row_t mutant_options[] = {
    {"operands", VN_OPTION_CHOICE, "f32 tf32-rn tf32-rz tf32-rna bf16 f16 bf16x3 bf16x6"},
    {"activations", VN_OPTION_CHOICE,
     "int8-tensor int8-row int8-16 int8-32 int8-64 int8-128 uint8-tensor uint8-row uint8-16 uint8-32 uint8-64 uint8-128"},
    {"accumulator", VN_OPTION_CHOICE, "f32 f64 f16 bf16 f32-rz f16-rz bf16-rz"},
    {"result", VN_OPTION_CHOICE, "f32 tf32-rn tf32-rz tf32-rna bf16 f16 bf16-rz f16-rz"},
    {"intermediate", VN_OPTION_CHOICE, "f32 bf16 f16"},
    {"association", VN_OPTION_CHOICE, "sequential reversed pairwise lanes8 lanes16 blocks128 fma adder16"},
    {"split", VN_OPTION_CHOICE, "2 4 8 16 32 64"},
    {"partials", VN_OPTION_CHOICE, "f32 bf16 f16"},
    {"winograd", VN_OPTION_CHOICE, "2 4 6"},
    {"variance", VN_OPTION_CHOICE, "two-pass one-pass"},
    {"softmax", VN_OPTION_CHOICE, "max no-max"},
    {"quotient", VN_OPTION_CHOICE, "divide reciprocal"},
    {"functions", VN_OPTION_CHOICE, "libm fast"},
    {"fault", VN_OPTION_TEXT, NULL},
    {"node", VN_OPTION_TEXT, NULL},
    {"ftz", VN_OPTION_FLAG, NULL},
    {"daz", VN_OPTION_FLAG, NULL},
    {"threads", VN_OPTION_COUNT, NULL},
};

static const vn_option_row_t null_options[] = {
    {"exit", VN_OPTION_NUMBER, NULL},
    {"signal", VN_OPTION_CHOICE, "SEGV ABRT FPE BUS ILL KILL TERM"},
    {"hang", VN_OPTION_FLAG, NULL},
    {"silent", VN_OPTION_FLAG, NULL},
    {"slow", VN_OPTION_NUMBER, NULL},
    {"hugememory", VN_OPTION_COUNT, NULL},
    {"few", VN_OPTION_FLAG, NULL},
    {"misshapen", VN_OPTION_FLAG, NULL},
    {"wrongtype", VN_OPTION_FLAG, NULL},
    {"overrun", VN_OPTION_FLAG, NULL},
    {"underrun", VN_OPTION_FLAG, NULL},
    {"poison", VN_OPTION_FLAG, NULL},
    {"refuse", VN_OPTION_CHOICE, "unsupported error notfound memory"},
    {"garbage", VN_OPTION_CHOICE,
     "text array truncated cut binary deep long id noid ok error kindless outputs many duplicate noname kind hostopen nodtype dtype dims "
     "rank negative overflow bytes offset foreign seconds twice"},
    {"at", VN_OPTION_CHOICE, "hello load run"},
};

enum { ONNXRUNTIME, OPENVINO, MLX, IREE, XLA, ONEDNN, BLAS, GGML, OPENCL, CUDA, TORCH, MUTANT, NULL_WORKER, N_BACKENDS };

/* The order is that of every list a user sees. */
static const vn_backend_info_t infos[N_BACKENDS] = {
    [ONNXRUNTIME] = {.name = "onnxruntime",
                     .alias = "ort",
                     .summary = "ONNX Runtime",
                     .packages = "onnxruntime numpy",
                     .options = "provider=cpu|cuda|tensorrt|rocm|openvino|dnnl|xnnpack|coreml|webgpu "
                                "optimisation=all|extended|basic|none threads=N deterministic"},
    [OPENVINO] = {.name = "openvino",
                  .summary = "OpenVINO",
                  .packages = "openvino",
                  .options = "precision=f32|bf16|f16|default execution=performance|accuracy threads=N PROPERTY=VALUE"},
    [MLX] = {.name = "mlx", .summary = "MLX", .options = "", .packages = "mlx mlx-cpu", .optional = true},
    [IREE] = {.name = "iree",
              .summary = "IREE, compiled from StableHLO",
              .options = "",
              .packages = "iree-base-compiler iree-base-runtime",
              .optional = true},
    [XLA] = {.name = "xla", .summary = "XLA through JAX", .options = "", .packages = "jax jaxlib", .optional = true},
    [ONEDNN] = {.name = "onednn",
                .summary = "oneDNN primitives",
                .options = "math_mode=strict|bf16|f16|any layout=any|plain threads=N",
                .optional = true},
    [BLAS] = {.name = "blas",
              .summary = "BLAS libraries: products by xGEMM and xGEMV",
              .options = "lib=openblas|blis|mkl|netlib|PATH gemv=auto|never threads=N"},
    [GGML] = {.name = "ggml", .summary = "ggml", .options = "", .optional = true},
    [OPENCL] = {.name = "opencl", .summary = "OpenCL kernels", .options = "", .optional = true},
    [CUDA] = {.name = "cuda", .summary = "cuBLAS and cuDNN", .options = "", .optional = true},
    [TORCH] = {.name = "torch", .summary = "PyTorch", .options = "", .packages = "torch", .optional = true},
    [MUTANT] = {.name = "mutant",
                .summary = "the judge's test animal: a CPU back end with a chosen arithmetic, schedule and fault",
                .options = "operands=f32|tf32-rn|tf32-rz|tf32-rna|bf16|f16|bf16x3|bf16x6 activations=[u]int8-tensor|row|16|32|64|128 "
                           "accumulator=f32|f64|f16|bf16|f32-rz|f16-rz|bf16-rz result=f32|tf32-rn|tf32-rz|tf32-rna|bf16|f16|bf16-rz|f16-rz "
                           "intermediate=f32|bf16|f16 association=sequential|reversed|pairwise|lanes8|lanes16|blocks128|fma|adder16 "
                           "split=2..64 partials=f32|bf16|f16 winograd=2|4|6 variance=one-pass softmax=no-max quotient=reciprocal "
                           "functions=fast fault=ID[:VALUE] node=PATH ftz daz threads=N"},
    [NULL_WORKER] = {.name = "null",
                     .summary = "the smallest complete worker: every output is zero; switches for every way to fail",
                     .options = "exit=STATUS signal=NAME hang silent slow=MS hugememory=MiB few misshapen wrongtype overrun underrun "
                                "poison refuse=KIND garbage=KIND at=hello|load|run"},
};

/* VN_FORM_MISSING: known by name; what runs them is not part of this build. */
static const vn_backend_row_t rows[N_BACKENDS] = {
    [ONNXRUNTIME] = {.info = &infos[ONNXRUNTIME],
                     .form = VN_FORM_SCRIPT,
                     .file = "onnxruntime_worker.py",
                     .module = "onnxruntime",
                     OPTIONS(onnxruntime_options)},
    [OPENVINO] = {.info = &infos[OPENVINO],
                  .form = VN_FORM_PROGRAM,
                  .file = "vernier-worker-openvino",
                  .module = "openvino",
                  .properties = true,
                  OPTIONS(openvino_options)},
    [MLX] = {.info = &infos[MLX]},
    [IREE] = {.info = &infos[IREE]},
    [XLA] = {.info = &infos[XLA]},
    [ONEDNN] =
        {.info = &infos[ONEDNN], .form = VN_FORM_PROGRAM, .file = "vernier-worker-onednn", .devices = "cpu", OPTIONS(onednn_options)},
    [BLAS] = {.info = &infos[BLAS], .form = VN_FORM_PROGRAM, .file = "vernier-worker-blas", .devices = "cpu", OPTIONS(blas_options)},
    [GGML] = {.info = &infos[GGML]},
    [OPENCL] = {.info = &infos[OPENCL]},
    [CUDA] = {.info = &infos[CUDA]},
    [TORCH] = {.info = &infos[TORCH]},
    [MUTANT] = {.info = &infos[MUTANT],
                .form = VN_FORM_PROGRAM,
                .file = "vernier-worker-mutant",
                .devices = "cpu",
                .own_code = true,
                OPTIONS(mutant_options)},
    [NULL_WORKER] = {.info = &infos[NULL_WORKER],
                     .form = VN_FORM_PROGRAM,
                     .file = "vernier-worker-null",
                     .devices = "cpu",
                     .own_code = true,
                     OPTIONS(null_options)},
};

int vn_backends(const vn_backend_info_t **out) {
    *out = infos;
    return N_BACKENDS;
}

const vn_backend_row_t *vn_backend_row(const char *name) {
    for (int i = 0; i < N_BACKENDS; ++i)
        if (strcmp(infos[i].name, name) == 0 || (infos[i].alias && strcmp(infos[i].alias, name) == 0)) return &rows[i];
    return NULL;
}
