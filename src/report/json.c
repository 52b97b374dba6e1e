/* json.c -- a record as "vernier-report-1" (docs/report.schema.json). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vernier/report.h"

/* Numbers that do not apply are null; infinities are strings (JSON has none). */
static json_t *number(double x) {
    if (isnan(x)) return json_null();
    if (isinf(x)) return json_string(x > 0 ? "inf" : "-inf");
    return json_real(x);
}

/* A value of a tensor: NaN is a value here, not "does not apply". */
static json_t *value(double x) { return isnan(x) ? json_string("nan") : number(x); }

/* Length of the UTF-8 sequence at s; 0: none begins here. */
static size_t sequence(const char *s) {
    for (size_t n = 1; n <= 4 && s[n - 1]; ++n) {
        json_t *j = json_stringn(s, n);
        json_decref(j);
        if (j) return n;
    }
    return 0;
}

/* Names come from models and may hold any bytes; those that are no UTF-8 are written \xNN, so that no row is lost. */
static json_t *text(const char *s) {
    json_t *j = s ? json_string(s) : json_null();
    vn_text_t t = {0};
    if (j) return j;
    while (*s) {
        const size_t n = sequence(s);
        if (n) vn_text_addn(&t, s, n);
        else vn_text_printf(&t, "\\x%02x", (unsigned char)*s);
        s += n ? n : 1;
    }
    if (!t.failed) j = json_string(t.data);
    vn_text_free(&t);
    return j;
}

static json_t *hex(uint64_t bits) {
    char s[24];
    snprintf(s, sizeof s, "0x%llx", (unsigned long long)bits);
    return json_string(s);
}

static json_t *parsed(const char *s) {
    json_t *j = s ? json_loads(s, 0, NULL) : NULL;
    return j ? j : json_null();
}

static json_t *divergence(const vn_row_t *r) {
    if (r->first_index < 0) return json_null();
    return json_pack("{s:I, s:o, s:o, s:o, s:[o, o]}", "index", (json_int_t)r->first_index, "at", text(r->first_at), "expected",
                     value(r->first_expected), "actual", value(r->first_actual), "bits", hex(r->first_expected_bits),
                     hex(r->first_actual_bits));
}

static json_t *detection(const vn_row_t *r) {
    if (!r->detection_of) return json_null();
    return json_pack("{s:i, s:i, s:o, s:o}", "caught", r->detection_caught, "of", r->detection_of, "smallest_relative",
                     number(r->detection_smallest), "smallest_relative_worst", number(r->detection_worst));
}

static json_t *deterministic(int d) { return d < 0 ? json_null() : json_boolean(d); }

static json_t *result(const vn_row_t *r, const vn_policy_t *p) {
    json_t *e =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "error_over_bound",
                  number(r->error_over_bound), "rms_ratio", number(r->rms_ratio), "z_max", number(r->z_max), "sign_bias",
                  number(r->sign_bias), "ulp_max", number(r->ulp_max), "max_abs_error", number(r->max_abs_error), "impact",
                  number(r->impact), "oracle_error_over_bound", number(r->oracle_over_bound), "elements", (json_int_t)r->count, "unequal",
                  (json_int_t)r->unequal, "outside", (json_int_t)r->outside, "first_divergence", divergence(r), "schedule",
                  text(r->schedule), "deterministic", deterministic(r->deterministic), "detection", detection(r), "rungs", text(r->rungs));
    if (e && r->escalated > 0) json_object_set_new(e, "oracle_escalated", json_integer((json_int_t)r->escalated));
    if (e && r->undecided > 0) json_object_set_new(e, "oracle_undecided", json_integer((json_int_t)r->undecided));
    json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:b}", "node", text(r->node), "output",
                          text(r->output), "op", text(r->op), "domain", text(r->domain), "backend", text(r->backend), "mode", text(r->mode),
                          "declared", text(r->declared), "duplicate_of", text(r->duplicate_of), "verdict", vn_verdict_name(r->verdict),
                          "cause", text(r->cause), "note", text(r->note), "words", text(r->words), "allowed", vn_row_allowed(r, p));
    if (j && e) json_object_set_new(j, "evidence", e);
    return j;
}

static json_t *backend(const vn_backend_record_t *b) {
    return json_pack("{s:o, s:o, s:o, s:n, s:o, s:o, s:f, s:I}", "spec", text(b->spec), "identity", parsed(b->identity_json), "environment",
                     parsed(b->environment_json), "measured", "error", text(b->error), "observer",
                     b->observer ? json_pack("{s:o, s:o}", "max_abs", number(b->observer_max), "words", text(b->observer)) : json_null(),
                     "seconds", b->seconds, "peak_bytes", (json_int_t)b->peak_bytes);
}

static json_t *drift(const vn_record_t *r) {
    json_t *all = json_object();
    for (int b = 0; all && b < r->n_backends; ++b) {
        const vn_backend_record_t *k = &r->backends[b];
        if (!k->drift_output) continue;
        json_object_set_new(all, k->spec,
                            json_pack("{s:o, s:o, s:o}", "output", text(k->drift_output), "max_abs", number(k->drift_max), "rms_relative",
                                      number(k->drift_relative)));
    }
    return all;
}

static json_t *summary(const vn_record_t *r, const vn_policy_t *p) {
    json_t *verdicts = json_object();
    int counts[VN_VERDICT_COUNT] = {0};
    for (int i = 0; i < r->n_rows; ++i) counts[r->rows[i].verdict]++;
    for (int v = 0; verdicts && v < VN_VERDICT_COUNT; ++v)
        if (counts[v]) json_object_set_new(verdicts, vn_verdict_name((vn_verdict_t)v), json_integer(counts[v]));
    return json_pack("{s:o, s:i, s:f, s:I}", "verdicts", verdicts, "exit", vn_record_exit(r, p), "seconds", r->seconds, "host_peak_bytes",
                     (json_int_t)r->peak_bytes);
}

vn_status_t vn_report_json(const vn_record_t *r, const vn_policy_t *p, vn_text_t *out, vn_error_t *err) {
    json_t *results = json_array(), *backends = json_array(), *notes = json_array();
    bool whole = true; /* a row that is lost would count as passed */
    for (int i = 0; i < r->n_rows; ++i) whole &= json_array_append_new(results, result(&r->rows[i], p)) == 0;
    for (int b = 0; b < r->n_backends; ++b) whole &= json_array_append_new(backends, backend(&r->backends[b])) == 0;
    for (int n = 0; n < r->n_notes; ++n) whole &= json_array_append_new(notes, text(r->notes[n])) == 0;
    json_t *root =
        json_pack("{s:s, s:s, s:o, s:{s:o, s:o, s:I, s:I, s:I, s:I}, s:{s:o, s:o, s:o}, s:{s:s, s:o, s:o}, s:o, s:o, s:o, s:o, s:o}",
                  "schema", "vernier-report-1", "version", vn_version(), "command", text(r->command), "model", "path", text(r->model_path),
                  "sha256", text(r->model_sha256), "opset", (json_int_t)r->opset, "nodes", (json_int_t)r->nodes, "judged",
                  (json_int_t)r->judged_nodes, "constants", (json_int_t)r->constants, "inputs", "tensors", text(r->inputs), "sha256",
                  text(r->inputs_sha256), "seed", r->seeded ? json_integer((json_int_t)r->seed) : json_null(), "oracle", "arithmetic",
                  "float64", "blas", text(r->oracle_blas), "error_over_bound", number(r->oracle_over_bound), "backends", backends,
                  "results", results, "drift", drift(r), "notes", notes, "summary", summary(r, p));
    char *dump = root && whole ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    if (dump) {
        vn_text_add(out, dump);
        vn_text_add(out, "\n");
    }
    free(dump);
    json_decref(root);
    return dump && !out->failed ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory for the JSON report");
}
