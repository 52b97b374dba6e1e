/* cmd_backends.c -- vernier backends: what can be started here and what it says it is; --operators oracle. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/reveal_output.h"
#include "vernier/oracle.h"
#include "vernier/worker.h"

/* One operator a line: name with its domain, opset versions (open: "13-"), class, claim. Columns are as wide as their longest entry. */
static void operators(vn_text_t *out) {
    const vn_op_info_t *ops;
    const int n = vn_oracle_ops(&ops);
    char name[160], versions[40];
    int width = 0, version_width = 0;
    for (int pass = 0; pass < 2; ++pass)
        for (int i = 0; i < n; ++i) {
            snprintf(name, sizeof name, "%s%s%s", ops[i].domain, *ops[i].domain ? "." : "", ops[i].name);
            if (ops[i].until) snprintf(versions, sizeof versions, "%d-%d", ops[i].since, ops[i].until);
            else snprintf(versions, sizeof versions, "%d-", ops[i].since);
            if (pass == 0) {
                width = (int)strlen(name) > width ? (int)strlen(name) : width;
                version_width = (int)strlen(versions) > version_width ? (int)strlen(versions) : version_width;
            } else {
                vn_text_printf(out, "%-*s  %-*s  %-14s  %s\n", width, name, version_width, versions, vn_op_class_name(ops[i].cls),
                               ops[i].claim);
            }
        }
}

/* Probes P25 and P26. */
static void functions(const char *name, vn_text_t *text, vn_text_t *json) {
    const vn_functions_request_t r = {.backend = name, .seed = 1, .timeout_s = 60};
    vn_functions_result_t got;
    vn_error_t err = {0};
    if (vn_study_functions(&r, &got, &err) != VN_OK) vn_text_printf(text, "  P25, P26: not measured: %s\n", err.text);
    else vn_functions_print(text, &got);
    vn_text_add(json, ", ");
    vn_functions_json(json, &got);
    vn_functions_result_free(&got);
}

/* The arithmetic of a back end as its product of 32 x 64 x 32 shows it, the same with an addend (P17 to P19), and its functions. */
static void measured(const char *name, vn_text_t *text, vn_text_t *json) {
    static const char *const fields[] = {"measured", "measured_addend"};
    vn_reveal_result_t got[2];
    vn_error_t err[2] = {{0}};
    bool revealed[2];
    for (int k = 0; k < 2; ++k) {
        const vn_reveal_request_t r = {
            .backend = name,
            .op = {.kind = VN_SUM_MATMUL, .dtype = VN_F32, .m = 32, .k = 64, .n = 32, .addend = k > 0, .addend_rows = 1},
            .reveal = {.seed = 1},
            .card = true,
            .timeout_s = 60};
        revealed[k] = vn_study_reveal(&r, &got[k], &err[k]) == VN_OK;
        vn_text_printf(json, ", \"%s\": ", fields[k]);
        vn_reveal_json_object(json, &r, revealed[k] ? &got[k] : NULL, &err[k]);
    }
    if (!revealed[0]) {
        vn_text_printf(text, "  not measured: %s\n", err[0].text);
    } else {
        const vn_schedule_t *s = got[0].schedule;
        vn_text_printf(text, "  product 32x64x32: %s, %s; %lld of %lld elements replayed%s%s\n",
                       s->n_classes && s->classes[0].text ? s->classes[0].text : "no tree", s->arithmetic_text, (long long)s->replayed,
                       (long long)s->elements, *s->reason ? "; " : "", s->reason);
        if (got[0].card) vn_reveal_print_card(text, got[0].card, revealed[1] ? got[1].card : NULL);
        else vn_text_add(text, "  P1 to P24 not measured: the product has no tree, and probes need the order of its terms\n");
    }
    for (int k = 0; k < 2; ++k) vn_reveal_result_free(&got[k]);
    functions(name, text, json);
}

static void identities(vn_text_t *text, vn_text_t *json, bool measure) {
    const vn_backend_info_t *all;
    const int n = vn_backends(&all);
    vn_text_add(json, "{\"schema\": \"vernier-backends-1\", \"backends\": [");
    for (int i = 0; i < n; ++i) {
        vn_spec_t spec;
        vn_error_t err = {0};
        vn_worker_t *w = NULL;
        const vn_worker_options_t wo = {.timeout_s = 60};
        vn_text_printf(json, "%s\n {\"name\": \"%s\", ", i ? "," : "", all[i].name);
        vn_text_printf(text, "%-12s ", all[i].alias ? all[i].alias : all[i].name);
        if (vn_spec_parse(all[i].name, &spec, &err) == VN_OK && vn_backend_available(&spec, &err) == VN_OK &&
            vn_worker_start(&spec, &wo, &w, &err) == VN_OK) {
            vn_text_printf(json, "\"available\": true, \"identity\": %s, \"environment\": %s", vn_worker_identity(w),
                           vn_worker_environment(w));
            vn_text_printf(text, "ready    %s  (options: %s)\n", all[i].summary,
                           all[i].options && *all[i].options ? all[i].options : "none");
            if (measure) measured(all[i].name, text, json);
            vn_text_add(json, "}");
        } else {
            vn_text_printf(text, "missing  %s\n", err.text);
            vn_text_add(json, "\"available\": false, \"why\": \"");
            for (const char *p = err.text; *p; ++p) vn_text_printf(json, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
            vn_text_add(json, "\"}");
        }
        vn_worker_stop(w);
    }
    vn_text_add(json, "\n]}\n");
}

int vn_cmd_backends(int argc, char **argv) {
    bool help = false, measure = false;
    const char *list = NULL, *json = NULL;
    vn_list_t rest = {0};
    const vn_opt_t opts[] = {
        {"--operators", NULL, VN_OPT_TEXT, &list, "oracle", "operators that the oracle evaluates: versions, class, claim"},
        {"--measure", NULL, VN_OPT_FLAG, &measure, NULL,
         "the arithmetic card of each: operands, running sum, products, subnormals, special values, addend, division, functions"},
        {"--json", NULL, VN_OPT_TEXT, &json, "FILE", "identities as JSON (- = standard output)"},
        {"--help", "-h", VN_OPT_FLAG, &help, NULL, "this text"},
    };
    const int n = sizeof opts / sizeof *opts;
    vn_error_t err = {0};
    if (vn_cli_parse(argc, argv, opts, n, &rest, &err) != VN_OK) return vn_cli_error(&err);
    if (help) {
        vn_cli_help("backends [--measure] [--json FILE] | backends --operators oracle",
                    "Starts every back end that is here and shows its identity.", opts, n);
        return VN_EXIT_PASS;
    }
    if (rest.count) return vn_fail(&err, VN_ERR_USAGE, "backends: unexpected argument '%s'", rest.items[0]), vn_cli_error(&err);
    vn_text_t text = {0}, out = {0};
    vn_status_t s = VN_OK;
    if (list && strcmp(list, "oracle") != 0)
        s = vn_fail(&err, VN_ERR_USAGE, "--operators: only the oracle's table is known here, not '%s'", list);
    else if (list) operators(&text);
    else identities(&text, &out, measure);
    if (s == VN_OK && json && !list) s = vn_write_file(json, out.data, out.length, &err);
    if (s == VN_OK && !(json && strcmp(json, "-") == 0)) s = vn_cli_print(text.data ? text.data : "", &err);
    vn_text_free(&text);
    vn_text_free(&out);
    return s == VN_OK ? VN_EXIT_PASS : vn_cli_error(&err);
}
