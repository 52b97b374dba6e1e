/* A hand-made record as text (a snapshot) and as JSON: what is said, in which order, and how numbers that are none are spelled. */
#include "vernier/report.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"

static vn_row_t *row(vn_test_t *t, vn_record_t *r, const char *node, const char *op, const char *backend, const char *mode, vn_verdict_t v,
                     int64_t order) {
    vn_row_t *w = vn_record_row(r);
    VN_ASSERT(t, w != NULL);
    w->node = node;
    w->output = "y";
    w->op = op;
    w->domain = "";
    w->backend = backend;
    w->mode = mode;
    w->verdict = v;
    w->order = order;
    return w;
}

/* Two back ends: one right, one with two kinds of failure, a note, and something not decided. */
static vn_record_t *made(vn_test_t *t) {
    vn_record_t *r = vn_record_new();
    VN_ASSERT(t, r != NULL);
    r->command = "check";
    r->model_path = "models/small.onnx";
    r->model_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    r->opset = 17;
    r->nodes = 5;
    r->judged_nodes = 4;
    r->constants = 1;
    r->inputs = "x f32[2,8]";
    r->inputs_sha256 = "aa";
    r->seed = 7;
    r->seeded = true;
    r->oracle_blas = "plain loops";
    r->oracle_over_bound = 0x1p-20;
    r->seconds = 1.25;
    r->peak_bytes = 12000000;
    r->n_backends = 2;
    r->backends = vn_arena_alloc(r->arena, 2, sizeof *r->backends);
    r->backends[0] = (vn_backend_record_t){.spec = "good",
                                           .identity_json = "{\"framework\":\"good\",\"version\":\"1.2\",\"device\":\"cpu\",\"threads\":2}",
                                           .environment_json = "{}",
                                           .observer_max = NAN,
                                           .drift_output = "y",
                                           .drift_max = 1e-6,
                                           .drift_relative = 2e-7,
                                           .seconds = 0.5,
                                           .peak_bytes = 3000000};
    r->backends[1] = (vn_backend_record_t){.spec = "bad",
                                           .identity_json = "{\"framework\":\"bad\",\"version\":\"0.1\"}",
                                           .environment_json = "{}",
                                           .observer = "exposing intermediates changed 3 elements",
                                           .observer_max = INFINITY,
                                           .drift_max = NAN,
                                           .drift_relative = NAN};
    row(t, r, "Relu_0", "Relu", "good", "isolated", VN_EXACT, 1)->impact = 0;
    vn_row_t *w = row(t, r, "MatMul_1", "MatMul", "good", "isolated", VN_EXPLAINED, 2);
    w->detection_caught = 15;
    w->detection_of = 16;
    w->detection_smallest = 1.5e-5;
    w = row(t, r, "Gelu_2", "Gelu", "good", "isolated", VN_EXPLAINED, 3);
    w->note = "tail-cancellation";
    row(t, r, "Relu_0", "Relu", "bad", "isolated", VN_EXACT, 1);
    w = row(t, r, "MatMul_1", "MatMul", "bad", "isolated", VN_CONTRACT_MISMATCH, 2);
    w->cause = "operands-bf16";
    w->words = "bfloat16 operands, f32 accumulation: the residual is 0.9 of its own noise.";
    w->impact = 0.004;
    w->error_over_bound = 812.5;
    w = row(t, r, "MatMul_3", "MatMul", "bad", "isolated", VN_CONTRACT_MISMATCH, 4);
    w->cause = "operands-bf16";
    w->words = "bfloat16 operands, f32 accumulation: the residual is 0.8 of its own noise.";
    w->impact = 0.002;
    w = row(t, r, "Concat_4", "Concat", "bad", "isolated", VN_BUG, 5);
    w->words = "2 of 32 elements outside the bound";
    w->impact = INFINITY;
    w->error_over_bound = INFINITY;
    w->first_index = 3;
    w->first_at = "[0,3]";
    w->first_expected = -INFINITY;
    w->first_actual = NAN;
    w->first_expected_bits = 0xff800000u;
    w->first_actual_bits = 0x7fc00000u;
    w->deterministic = 0;
    w = row(t, r, "Gelu_2", "Gelu", "bad", "isolated", VN_UNSUPPORTED, 3);
    w->words = "no kernel for Gelu";
    VN_ASSERT_OK(t, vn_record_note(r, "If_9 (If): control flow, judged by the operators of the bodies that ran"));
    return r;
}

static const char screen[] =
    "model     small.onnx  sha256 01234567…  opset 17  5 nodes, 4 judged (1 constants)\n"
    "inputs    x f32[2,8]  seed 7, floats N(0,1)\n"
    "oracle    float64, own error ≤ 9.5e-07 of the bounds used; plain loops\n"
    "back ends good           good 1.2, cpu, threads 2\n"
    "          bad            bad 0.1\n"
    "\n"
    "                                  exact  replayed  explained  mismatch  suspect   bug not decided   caught, one element from "
    "(median)\n"
    "good                   isolated       1         0          2         0        0     0           0   15 of 16, 1.5e-05\n"
    "bad                    isolated       1         0          0         2        0     1           1\n"
    "\n"
    "bad  1 output isolated   bug   Concat\n"
    "  2 of 32 elements outside the bound\n"
    "  First: Concat_4 (Concat).\n"
    "\n"
    "bad  2 outputs isolated   contract-mismatch   operands-bf16\n"
    "  bfloat16 operands, f32 accumulation: the residual is 0.9 of its own noise.\n"
    "  First: MatMul_1 (MatMul). Worst impact: MatMul_1, largest error 0.4 % of the output's rms.\n"
    "\n"
    "good  1 output isolated   explained   tail-cancellation\n"
    "  tail-cancellation\n"
    "\n"
    "bad  1 output isolated   unsupported   Gelu\n"
    "  no kernel for Gelu\n"
    "\n"
    "drift      good: output y is 1e-06 from the reference trajectory (2e-07 of its rms); no verdict without an envelope\n"
    "observing  bad: exposing intermediates changed 3 elements\n"
    "note       If_9 (If): control flow, judged by the operators of the bodies that ran\n"
    "\n"
    "1 of 2 back ends outside its contract\n"
    "exit 1 (at least one verdict fails) in 1.2 s, peak 12 MB (host), 3 MB (good)\n";

VN_TEST(text, first_screen) {
    vn_record_t *r = made(t);
    vn_text_t out = {0};
    const vn_report_options_t o = {.color = false};
    VN_ASSERT_OK(t, vn_report_text(r, &o, &out, NULL));
    if (strcmp(out.data, screen) != 0) {
        size_t k = 0;
        while (out.data[k] && out.data[k] == screen[k]) ++k;
        vn_test_fail(t, __FILE__, __LINE__, "the screen differs from byte %zu, at: %.60s\n%s", k, screen + k, out.data);
    }
    vn_text_free(&out);
    vn_record_free(r);
}

static char *shown(vn_test_t *t, const vn_record_t *r, vn_report_options_t o) {
    vn_text_t out = {0};
    VN_ASSERT_OK(t, vn_report_text(r, &o, &out, NULL));
    return out.data;
}

VN_TEST(text, options) {
    vn_record_t *r = made(t);
    char *quiet = shown(t, r, (vn_report_options_t){.verbose = -1});
    VN_ASSERT(t, strstr(quiet, "exit 1 (") && !strstr(quiet, "model ") && !strstr(quiet, "\033"));
    vn_free(quiet);
    char *every = shown(t, r, (vn_report_options_t){.verbose = 1});
    VN_ASSERT_HAS(t, every, "Relu_0");
    VN_ASSERT_HAS(t, every, "error/bound 812");
    vn_free(every);
    char *color = shown(t, r, (vn_report_options_t){.color = true});
    VN_ASSERT_HAS(t, color, "\033[31mbug\033[0m");
    VN_ASSERT_HAS(t, color, "\033[33munsupported\033[0m");
    VN_ASSERT_HAS(t, color, "\033[31mexit 1\033[0m");
    vn_free(color);
    char *allowed = shown(t, r, (vn_report_options_t){.policy = {.allow = "operands-bf16,bug,unsupported"}});
    VN_ASSERT_HAS(t, allowed, "operands-bf16   (allowed)"); /* never silently */
    VN_ASSERT_HAS(t, allowed, "exit 0 (every verdict passes)");
    VN_ASSERT_HAS(t, allowed, "0 of 2 back ends outside");
    vn_free(allowed);
    r->backends[0].error = "not installed; tools/setup good brings it";
    char *missing = shown(t, r, (vn_report_options_t){0});
    VN_ASSERT_HAS(t, missing, "good           not started: not installed; tools/setup good brings it");
    VN_ASSERT_HAS(t, missing, ", and not all could be started");
    vn_free(missing);
    vn_record_free(r);
}

VN_TEST(text, long_words_are_wrapped) {
    vn_record_t *r = made(t);
    char words[400] = "";
    for (int i = 0; i < 60; ++i) strcat(words, i % 7 ? "word " : "longerword ");
    r->rows[6].words = words;
    char *out = shown(t, r, (vn_report_options_t){.width = 60});
    const char *at = strstr(out, "  longerword");
    VN_ASSERT(t, at != NULL);
    for (const char *end = strchr(at, '\n'); end && at[0] == ' '; at = end + 1, end = strchr(at, '\n'))
        VN_ASSERT_LE(t, (double)(end - at), 61);
    vn_free(out);
    vn_record_free(r);
}

/* ---- JSON ---- */

static json_t *dumped(vn_test_t *t, const vn_record_t *r, const vn_policy_t *p) {
    vn_text_t out = {0};
    vn_error_t err = {0};
    json_error_t why;
    VN_ASSERT_OK_ERR(t, vn_report_json(r, p, &out, &err), err);
    json_t *j = json_loads(out.data, 0, &why);
    if (!j) vn_test_fail(t, __FILE__, __LINE__, "no JSON: %s at line %d", why.text, why.line);
    vn_text_free(&out);
    return j;
}

static const char *word(json_t *j, const char *key) { return json_string_value(json_object_get(j, key)); }

VN_TEST(json, spells_what_is_no_number) {
    vn_record_t *r = made(t);
    json_t *j = dumped(t, r, NULL), *bug = json_array_get(json_object_get(j, "results"), 6), *e = json_object_get(bug, "evidence");
    VN_ASSERT_STR(t, word(j, "schema"), "vernier-report-1");
    VN_ASSERT_STR(t, word(bug, "verdict"), "bug");
    VN_ASSERT_STR(t, word(e, "error_over_bound"), "inf");
    VN_ASSERT_STR(t, word(e, "impact"), "inf");
    VN_ASSERT(t, json_is_null(json_object_get(e, "rms_ratio")));
    VN_ASSERT(t, json_is_false(json_object_get(e, "deterministic")));
    json_t *first = json_object_get(e, "first_divergence");
    VN_ASSERT_STR(t, word(first, "expected"), "-inf");
    VN_ASSERT_STR(t, word(first, "actual"), "nan"); /* a value, not "does not apply" */
    VN_ASSERT_STR(t, json_string_value(json_array_get(json_object_get(first, "bits"), 1)), "0x7fc00000");
    json_t *fine = json_array_get(json_object_get(j, "results"), 0);
    VN_ASSERT(t, json_is_null(json_object_get(fine, "cause")));
    VN_ASSERT(t, json_is_null(json_object_get(json_object_get(fine, "evidence"), "first_divergence")));
    VN_ASSERT(t, json_is_null(json_object_get(json_object_get(fine, "evidence"), "detection")));
    VN_ASSERT_EQ(t, json_integer_value(json_object_get(json_object_get(j, "inputs"), "seed")), 7);
    VN_ASSERT_STR(t, word(json_object_get(json_array_get(json_object_get(j, "backends"), 1), "observer"), "max_abs"), "inf");
    VN_ASSERT_EQ(t, json_object_size(json_object_get(j, "drift")), 1);
    json_decref(j);
    r->seeded = false;
    j = dumped(t, r, NULL);
    VN_ASSERT(t, json_is_null(json_object_get(json_object_get(j, "inputs"), "seed")));
    json_decref(j);
    vn_record_free(r);
}

VN_TEST(json, summary_counts_and_policy) {
    vn_record_t *r = made(t);
    const vn_policy_t p = {.allow = "operands-bf16"};
    json_t *j = dumped(t, r, &p), *s = json_object_get(j, "summary"), *v = json_object_get(s, "verdicts"),
           *results = json_object_get(j, "results");
    int64_t total = 0;
    const char *key;
    json_t *count;
    json_object_foreach(v, key, count) total += json_integer_value(count);
    VN_ASSERT_EQ(t, total, r->n_rows);
    VN_ASSERT_EQ(t, json_array_size(results), r->n_rows);
    VN_ASSERT_EQ(t, json_integer_value(json_object_get(v, "contract-mismatch")), 2);
    VN_ASSERT_EQ(t, json_integer_value(json_object_get(s, "exit")), 1);
    VN_ASSERT(t, json_is_true(json_object_get(json_array_get(results, 4), "allowed")));
    VN_ASSERT(t, json_is_false(json_object_get(json_array_get(results, 6), "allowed")));
    json_decref(j);
    vn_record_free(r);
}

/* Names come out of models: bytes that are no UTF-8 must neither lose a row nor the report. */
VN_TEST(json, names_that_are_no_utf8) {
    vn_record_t *r = made(t);
    r->rows[0].node = "bad\xff\xc3name";
    r->rows[1].node = "gr\xc3\xbc\xc3\x9f";
    r->rows[2].words = "cut in the middle \xe2\x80";
    r->backends[0].drift_output = "\xfe";
    json_t *j = dumped(t, r, NULL), *results = json_object_get(j, "results");
    VN_ASSERT_EQ(t, json_array_size(results), r->n_rows);
    VN_ASSERT_STR(t, word(json_array_get(results, 0), "node"), "bad\\xff\\xc3name");
    VN_ASSERT_STR(t, word(json_array_get(results, 1), "node"), "gr\xc3\xbc\xc3\x9f");
    VN_ASSERT_STR(t, word(json_array_get(results, 2), "words"), "cut in the middle \\xe2\\x80");
    VN_ASSERT_STR(t, word(json_object_get(json_object_get(j, "drift"), "good"), "output"), "\\xfe");
    json_decref(j);
    vn_record_free(r);
}

VN_TEST(text, allocations_that_fail_are_errors) {
    vn_record_t *r = made(t);
    const vn_report_options_t o = {.verbose = 1};
    vn_status_t s = VN_ERR_NOMEM;
    int n = 0;
    while (s != VN_OK && n < 200) {
        vn_text_t out = {0};
        vn_alloc_fail_at(++n);
        s = vn_report_text(r, &o, &out, NULL);
        vn_alloc_fail_at(0);
        vn_text_free(&out);
        if (s != VN_OK) VN_ASSERT_EQ(t, s, VN_ERR_NOMEM);
    }
    VN_ASSERT_OK(t, s);
    VN_ASSERT_GT(t, n, 2);
    vn_record_free(r);
}

VN_TEST_MAIN(VN_CASE(text, first_screen), VN_CASE(text, options), VN_CASE(text, long_words_are_wrapped),
             VN_CASE(json, spells_what_is_no_number), VN_CASE(json, summary_counts_and_policy), VN_CASE(json, names_that_are_no_utf8),
             VN_CASE(text, allocations_that_fail_are_errors))
