/* Specs: what is taken apart, what is refused and with which words; where workers are looked for; the environment policy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/vn_test.h"
#include "worker/internal.h"

VN_TEST(spec, parts) {
    vn_spec_t s;
    vn_error_t err;
    VN_ASSERT_OK_ERR(t, vn_spec_parse("ort:cuda@/opt/venvs/ort-1.20,optimisation=none,threads=3,deterministic", &s, &err), err);
    VN_ASSERT_STR(t, s.name, "onnxruntime");
    VN_ASSERT_STR(t, s.device, "cuda");
    VN_ASSERT_STR(t, s.environment, "/opt/venvs/ort-1.20");
    VN_ASSERT_EQ(t, s.n_options, 3);
    VN_ASSERT_STR(t, vn_spec_option(&s, "optimisation"), "none");
    VN_ASSERT_STR(t, vn_spec_option(&s, "deterministic"), "1");
    VN_ASSERT(t, vn_spec_option(&s, "provider") == NULL);
    VN_ASSERT_STR(t, s.text, "ort:cuda@/opt/venvs/ort-1.20,optimisation=none,threads=3,deterministic");
    VN_ASSERT_OK(t, vn_spec_parse("mutant,operands=tf32-rna,accumulator=f16,association=lanes8,ftz,daz=0", &s, NULL));
    VN_ASSERT_OK(t, vn_spec_parse("openvino,precision=f32,DYNAMIC_QUANTIZATION_GROUP_SIZE=0", &s, NULL));
    VN_ASSERT_STR(t, vn_spec_option(&s, "DYNAMIC_QUANTIZATION_GROUP_SIZE"), "0");
    VN_ASSERT_OK(t, vn_spec_parse("ort@/opt/x", &s, NULL));
    VN_ASSERT_STR(t, s.device, "");
    VN_ASSERT_OK(t, vn_spec_parse("mlx:cpu,env.MLX_ENABLE_TF32=1", &s, NULL));
    VN_ASSERT_OK(t, vn_spec_parse("null", &s, NULL));
}

VN_TEST(spec, refusals) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"tensorrt",
         "unknown back end 'tensorrt'; known: ort openvino mlx iree xla onednn blas ggml opencl cuda torch mutant null (vernier backends)"},
        {"", "unknown back end ''"},
        {":cpu", "unknown back end ''"},
        {"a-name-that-is-far-too-long-for-a-back-end", "unknown back end 'a-name-that"},
        {"ort,foo=1", "back end onnxruntime has no option 'foo'; it has: provider=cpu|cuda"},
        {"ort,provider=abacus", "option provider=abacus: the value must be one of: cpu cuda"},
        {"ort,provider", "option provider needs a value"},
        {"ort,threads=0", "option threads=0: the value must be an integer of 1 or more"},
        {"ort,threads=two", "option threads=two"},
        {"ort,threads=99999999999999999999", "option threads=9999"},
        {"ort,threads=1,threads=2", "option threads is given twice"},
        {"ort,=1", "an option without a name"},
        {"ort,,", "an option without a name"},
        {"ort,", "an option without a name"},
        {"ort:", "the device after ':' is empty"},
        {"ort@", "the environment after '@' is empty"},
        {"ort,DYNAMIC_QUANTIZATION_GROUP_SIZE=0", "has no option 'DYNAMIC_QUANTIZATION_GROUP_SIZE'"},
        {"openvino,PROPERTY", "property PROPERTY needs a value"},
        {"openvino,precision=f64", "one of: f32 bf16 f16 default"},
        {"mutant:gpu", "back end mutant has no device 'gpu'; it has: cpu"},
        {"mutant@/opt/x", "uses no Python environment"},
        {"mutant,operands=f64", "one of: f32 tf32-rn tf32-rz tf32-rna bf16 f16"},
        {"mutant,ftz=2", "nothing, 1 or 0"},
        {"null,env.lower=1", "is not env.NAME=VALUE"},
        {"null,env.X", "is not env.NAME=VALUE"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        vn_spec_t s;
        vn_error_t err = {0};
        VN_ASSERT_EQ(t, vn_spec_parse(cases[i].text, &s, &err), VN_ERR_USAGE);
        VN_ASSERT_HAS(t, err.text, cases[i].why);
        VN_ASSERT_STR(t, s.name, "");
    }
    char text[700];
    vn_spec_t s;
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    VN_ASSERT_EQ(t, vn_spec_parse(text, &s, NULL), VN_ERR_USAGE);
    memcpy(text, "openvino", 8);
    int n = 8;
    for (int i = 0; i < VN_MAX_SPEC_OPTIONS + 1; ++i) n += sprintf(text + n, ",P%d=1", i);
    vn_error_t err;
    VN_ASSERT_EQ(t, vn_spec_parse(text, &s, &err), VN_ERR_USAGE);
    VN_ASSERT_HAS(t, err.text, "more than 32 options");
}

/* Every row of the table can be named, and every back end that is part of this build has its options in its summary text. */
VN_TEST(spec, table) {
    const vn_backend_info_t *infos;
    const int n = vn_backends(&infos);
    VN_ASSERT_EQ(t, n, 13);
    for (int i = 0; i < n; ++i) {
        vn_spec_t s;
        vn_error_t err = {0};
        VN_ASSERT_OK(t, vn_spec_parse(infos[i].name, &s, NULL));
        VN_ASSERT_STR(t, s.name, infos[i].name);
        const vn_backend_row_t *row = vn_backend_row(infos[i].name);
        for (int k = 0; k < row->n_options; ++k) VN_ASSERT_HAS(t, infos[i].options, row->options[k].key);
        if (row->form != VN_FORM_MISSING) continue;
        VN_ASSERT_EQ(t, vn_backend_available(&s, &err), VN_ERR_UNSUPPORTED);
        VN_ASSERT_HAS(t, err.text, "is not part of this build");
    }
}

static void make_folders(const char *path) {
    char part[512];
    for (const char *p = path + 1; (p = strchr(p, '/')); ++p) {
        snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        mkdir(part, 0777);
    }
}

/* A package is looked for by its folder; the message is the command that brings it. */
VN_TEST(spec, missing_packages_are_named) {
    char root[256], path[400], text[800];
    vn_spec_t s;
    vn_error_t err = {0};
    snprintf(root, sizeof root, "%s/venv", vn_test_tmp());
    snprintf(text, sizeof text, "ort@%s", root);
    VN_ASSERT_OK(t, vn_spec_parse(text, &s, NULL));
    VN_ASSERT_EQ(t, vn_backend_available(&s, &err), VN_ERR_NOTFOUND);
    VN_ASSERT_HAS(t, err.text, "make one with: python3 -m venv ");
    snprintf(path, sizeof path, "%s/bin/python", root);
    make_folders(path);
    VN_ASSERT_OK(t, vn_write_file(path, "", 0, NULL));
    VN_ASSERT_OK_ERR(t, vn_backend_available(&s, &err), err); /* no folder of packages in sight: only a start can tell */
    snprintf(path, sizeof path, "%s/lib/python3.11/site-packages/other/", root);
    make_folders(path);
    VN_ASSERT_EQ(t, vn_backend_available(&s, &err), VN_ERR_NOTFOUND);
    snprintf(text, sizeof text,
             "back end onnxruntime: Python package 'onnxruntime' is not in %s; install it with: %s/bin/pip install onnxruntime numpy", root,
             root);
    VN_ASSERT_STR(t, err.text, text);
    snprintf(path, sizeof path, "%s/pyvenv.cfg", root);
    VN_ASSERT_OK(t, vn_write_file(path, "include-system-site-packages = true\n", 36, NULL));
    VN_ASSERT_OK(t, vn_backend_available(&s, &err));
    VN_ASSERT_OK(t, vn_write_file(path, "include-system-site-packages = false\n", 37, NULL));
    VN_ASSERT_EQ(t, vn_backend_available(&s, &err), VN_ERR_NOTFOUND);
    snprintf(path, sizeof path, "%s/lib/python3.11/site-packages/onnxruntime/", root);
    make_folders(path);
    VN_ASSERT_OK_ERR(t, vn_backend_available(&s, &err), err);
}

static const char *value_in(char **envp, const char *name) {
    const size_t k = strlen(name);
    for (; *envp; ++envp)
        if (strncmp(*envp, name, k) == 0 && (*envp)[k] == '=') return *envp + k + 1;
    return NULL;
}

static const char *told(json_t *o, const char *name, const char *field) {
    const char *v = json_string_value(json_object_get(json_object_get(o, name), field));
    return v ? v : "(none)";
}

VN_TEST(policy, asserted_inherited_removed) {
    vn_spec_t s;
    char **envp, *text;
    json_error_t why;
    setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    setenv("LD_PRELOAD", "", 1);
    setenv("ASAN_OPTIONS", getenv("ASAN_OPTIONS") ? getenv("ASAN_OPTIONS") : "", 1);
    setenv("PYTHONPATH", "/nowhere", 1);
    setenv("VN_TEST_ORDINARY", "kept", 1);
    VN_ASSERT_OK(t, vn_spec_parse("ort,env.ORT_TEST_SWITCH=on,env.ONEDNN_DEFAULT_FPMATH_MODE=BF16", &s, NULL));
    VN_ASSERT_OK(t, vn_policy_build(&s, vn_backend_row("ort"), 3, &envp, &text, NULL));
    json_t *o = json_loads(text, 0, &why);
    VN_ASSERT(t, o != NULL);
    VN_ASSERT_STR(t, value_in(envp, "NVIDIA_TF32_OVERRIDE"), "0");
    VN_ASSERT_STR(t, told(o, "NVIDIA_TF32_OVERRIDE", "source"), "asserted");
    VN_ASSERT_STR(t, told(o, "NVIDIA_TF32_OVERRIDE", "was"), "1");
    VN_ASSERT_STR(t, value_in(envp, "OPENBLAS_CORETYPE"), "Haswell");
    VN_ASSERT_STR(t, told(o, "OPENBLAS_CORETYPE", "source"), "inherited");
    VN_ASSERT_STR(t, value_in(envp, "OMP_NUM_THREADS"), "3");
    VN_ASSERT_STR(t, value_in(envp, "ORT_TEST_SWITCH"), "on");
    VN_ASSERT_STR(t, value_in(envp, "ONEDNN_DEFAULT_FPMATH_MODE"), "BF16"); /* the spec says otherwise */
    VN_ASSERT_STR(t, told(o, "ONEDNN_DEFAULT_FPMATH_MODE", "source"), "spec");
    VN_ASSERT_STR(t, told(o, "ONEDNN_DEFAULT_FPMATH_MODE", "was"), "STRICT");
    VN_ASSERT(t, !value_in(envp, "LD_PRELOAD") && !value_in(envp, "ASAN_OPTIONS") && !value_in(envp, "PYTHONPATH"));
    VN_ASSERT_STR(t, told(o, "ASAN_OPTIONS", "source"), "removed");
    VN_ASSERT_STR(t, value_in(envp, "VN_TEST_ORDINARY"), "kept");
    VN_ASSERT(t, !json_object_get(o, "VN_TEST_ORDINARY"));
    json_decref(o);
    vn_policy_free(envp);
    vn_free(text);
    VN_ASSERT_OK(t, vn_spec_parse("mutant", &s, NULL));
    VN_ASSERT_OK(t, vn_policy_build(&s, vn_backend_row("mutant"), 0, &envp, &text, NULL));
    VN_ASSERT(t, value_in(envp, "ASAN_OPTIONS") && !value_in(envp, "MLX_ENABLE_TF32")); /* our own code: instruments pass */
    vn_policy_free(envp);
    vn_free(text);
    unsetenv("LD_PRELOAD");
    unsetenv("PYTHONPATH");
    unsetenv("OPENBLAS_CORETYPE");
}

VN_TEST_MAIN(VN_CASE(spec, parts), VN_CASE(spec, refusals), VN_CASE(spec, table), VN_CASE(spec, missing_packages_are_named),
             VN_CASE(policy, asserted_inherited_removed))
