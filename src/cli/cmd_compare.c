/* cmd_compare.c -- vernier compare A B: metrics of tensors with equal names. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "vernier/judge.h"
#include "vernier/tensor.h"

/* A criterion that the caller brings: element by element, its own figures. */
static void by_rule(vn_text_t *out, const char *name, const vn_tensor_t *a, const vn_tensor_t *b, const vn_compare_rule_t *rule,
                    bool *fails) {
    vn_comparison_t c;
    vn_error_t err = {0};
    char type[200];
    vn_tensor_describe(a, type, sizeof type);
    if (vn_compare(a, b, rule, &c, &err) != VN_OK) {
        vn_text_printf(out, "%s  %s\n", name, err.text);
        *fails = true;
        return;
    }
    *fails |= c.failures > 0;
    vn_text_printf(out, "%s  %s  failures %lld of %lld (not finite %lld)  max abs %.17g  max rel %.17g  rms %.17g\n", name, type,
                   (long long)c.failures, (long long)c.count, (long long)c.non_finite_failures, c.max_absolute, c.max_relative, c.rms);
    if (c.first >= 0)
        vn_text_printf(out, "    first at %lld: abs %.17g  rel %.17g\n", (long long)c.first, c.first_absolute, c.first_relative);
}

static void one(vn_text_t *out, const char *name, const vn_tensor_t *a, const vn_tensor_t *b, bool *differ) {
    vn_metrics_t m;
    vn_error_t err = {0};
    char type[200];
    vn_tensor_describe(a, type, sizeof type);
    if (a->dtype == VN_STRING && b->dtype == VN_STRING) {
        const bool equal = vn_tensor_equal_bits(a, b);
        vn_text_printf(out, "%s  %s  %s\n", name, type, equal ? "equal" : "differs");
        *differ |= !equal;
        return;
    }
    if (vn_metrics(a, b, &m, &err) != VN_OK) {
        vn_text_printf(out, "%s  %s\n", name, err.text);
        *differ = true;
        return;
    }
    *differ |= m.unequal > 0;
    vn_text_printf(out, "%s  %s  unequal %lld of %lld  max abs %.9g  max rel %.3g  rms %.3g (%.3g of A's)  cosine %.9f", name, type,
                   (long long)m.unequal, (long long)m.count, m.max_abs, m.max_rel, m.rms, m.rms_relative, m.cosine);
    if (vn_dtype_is_float(a->dtype)) vn_text_printf(out, "  max ulp %.3g", m.ulp_max);
    if (m.nan_a || m.nan_b || m.inf_a || m.inf_b)
        vn_text_printf(out, "  NaN %lld|%lld  Inf %lld|%lld", (long long)m.nan_a, (long long)m.nan_b, (long long)m.inf_a,
                       (long long)m.inf_b);
    if (m.first.index >= 0)
        vn_text_printf(out, "\n    first at %lld: %.9g (0x%llx) | %.9g (0x%llx)", (long long)m.first.index, m.first.expected,
                       (unsigned long long)m.first.expected_bits, m.first.actual, (unsigned long long)m.first.actual_bits);
    if (m.worst.index >= 0)
        vn_text_printf(out, "\n    worst at %lld: %.9g | %.9g", (long long)m.worst.index, m.worst.expected, m.worst.actual);
    vn_text_add(out, "\n");
}

int vn_cmd_compare(int argc, char **argv) {
    bool help = false, differ = false;
    vn_compare_rule_t rule = {.absolute = -1, .relative = -1};
    vn_list_t rest = {0};
    const vn_opt_t opts[] = {
        {"--exact", NULL, VN_OPT_FLAG, &rule.exact, NULL, "count elements whose bits differ as failures"},
        {"--atol", NULL, VN_OPT_NUMBER, &rule.absolute, "X", "count elements with |B - A| > X + Y |A|, or not finite, as failures"},
        {"--rtol", NULL, VN_OPT_NUMBER, &rule.relative, "Y", "see --atol"},
        {"--help", "-h", VN_OPT_FLAG, &help, NULL, "this text"},
    };
    enum { OPTIONS = sizeof opts / sizeof *opts };
    vn_error_t err = {0};
    if (vn_cli_parse(argc, argv, opts, OPTIONS, &rest, &err) != VN_OK) return vn_cli_error(&err);
    if (help) {
        vn_cli_help(
            "compare A B",
            "Metrics of two tensor files (.npy, .npz, .safetensors, .pb). Exit 0: all bits equal; 3: they differ, and without an\n"
            "operator nobody can say whether that is right (vernier judge can). With a criterion of yours (--exact, --atol, --rtol):\n"
            "exit 0 if every element meets it, else 1.",
            opts, OPTIONS);
        return VN_EXIT_PASS;
    }
    if (rest.count != 2) return vn_fail(&err, VN_ERR_USAGE, "compare needs two files, %d given", rest.count), vn_cli_error(&err);
    const bool ruled = rule.exact || rule.absolute >= 0 || rule.relative >= 0;
    if (rule.exact && (rule.absolute >= 0 || rule.relative >= 0))
        return vn_fail(&err, VN_ERR_USAGE, "--exact and a tolerance exclude each other"), vn_cli_error(&err);
    if (rule.absolute < 0) rule.absolute = 0;
    if (rule.relative < 0) rule.relative = 0;
    vn_bundle_t a = {0}, b = {0};
    vn_text_t out = {0};
    vn_status_t s = vn_tensors_read(rest.items[0], &a, &err);
    if (s == VN_OK) s = vn_tensors_read(rest.items[1], &b, &err);
    /* single tensors are compared whatever they are called */
    const bool single = a.count == 1 && b.count == 1;
    for (int i = 0; i < a.count && s == VN_OK; ++i) {
        const vn_tensor_t *t = single ? b.items[0].tensor : vn_bundle_find(&b, a.items[i].name);
        if (t && ruled) {
            by_rule(&out, a.items[i].name, a.items[i].tensor, t, &rule, &differ);
        } else if (t) {
            one(&out, a.items[i].name, a.items[i].tensor, t, &differ);
        } else {
            vn_text_printf(&out, "%s  only in %s\n", a.items[i].name, rest.items[0]);
            differ = true;
        }
    }
    for (int i = 0; i < b.count && s == VN_OK && !single; ++i)
        if (!vn_bundle_find(&a, b.items[i].name)) {
            vn_text_printf(&out, "%s  only in %s\n", b.items[i].name, rest.items[1]);
            differ = true;
        }
    if (ruled)
        vn_text_add(&out, differ ? "the criterion is not met; whether it fits the operator is another question (vernier judge)\n"
                                 : "the criterion is met\n");
    else
        vn_text_add(&out, differ
                              ? "no verdict: without the operator, its inputs and a contract nobody can say who is right (vernier judge)\n"
                              : "all bits equal\n");
    if (s == VN_OK) s = out.failed ? vn_fail(&err, VN_ERR_NOMEM, "no memory") : vn_cli_print(out.data, &err);
    vn_text_free(&out);
    vn_bundle_free(&a);
    vn_bundle_free(&b);
    if (s != VN_OK) return vn_cli_error(&err);
    return !differ ? VN_EXIT_PASS : ruled ? VN_EXIT_FAIL : VN_EXIT_OPEN;
}
