/* rows.c -- findings become flat rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "study/study_internal.h"

int64_t vn_peak_resident(void) {
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : 0;
}

vn_verdict_t vn_verdict_of_status(vn_status_t s) {
    switch (s) {
    case VN_ERR_UNSUPPORTED: return VN_UNSUPPORTED;
    case VN_ERR_CRASHED:
    case VN_ERR_MEMORY_LIMIT:
    case VN_ERR_PARSE: return VN_CRASHED;
    case VN_ERR_TIMEOUT: return VN_TIMEOUT;
    case VN_ERR_WORKER: return VN_UNSUPPORTED;
    default: return VN_NOT_RUN;
    }
}

static vn_row_t *start(vn_record_t *r, const char *path, const vn_node_t *node, int k, const char *backend, const char *mode,
                       int64_t order) {
    vn_row_t *row = vn_record_row(r);
    if (!row) return NULL;
    row->node = vn_record_string(r, path);
    row->op = vn_record_string(r, node ? node->op : "");
    row->domain = vn_record_string(r, node ? node->domain : "");
    row->output = vn_record_string(r, node && k < node->n_outputs ? node->outputs[k] : "");
    row->backend = backend; /* specs outlive the record's use: they are copied into its arena by check */
    row->mode = mode;
    row->order = order;
    return row->node && row->op && row->domain && row->output ? row : NULL;
}

static const char *or_null(vn_record_t *r, const char *s) { return *s ? vn_record_string(r, s) : NULL; }

vn_status_t vn_row_from(vn_record_t *r, const vn_finding_t *f, const char *path, const vn_node_t *node, int k, const char *backend,
                        const char *mode, int64_t order, vn_error_t *err) {
    vn_row_t *row = start(r, path, node, k, backend, mode, order);
    if (!row) return vn_fail(err, VN_ERR_NOMEM, "no memory for a row");
    row->verdict = f->verdict;
    row->cause = or_null(r, f->cause);
    row->note = or_null(r, f->note);
    row->words = or_null(r, f->words);
    row->rungs = or_null(r, f->rungs);
    row->declared = or_null(r, f->declared);
    row->schedule = or_null(r, f->schedule);
    row->count = f->count;
    row->unequal = f->unequal;
    row->outside = f->outside;
    row->escalated = f->escalated;
    row->undecided = f->undecided;
    row->error_over_bound = f->error_over_bound;
    row->rms_ratio = f->rms_ratio;
    row->z_max = f->z_max;
    row->sign_bias = f->sign_bias;
    row->ulp_max = f->ulp_max;
    row->max_abs_error = f->max_abs_error;
    row->impact = f->impact;
    row->oracle_over_bound = f->oracle_over_bound;
    row->first_index = f->first.index;
    if (f->first.index >= 0) {
        char at[200] = "[";
        for (int d = 0; d < f->first.rank && strlen(at) + 24 < sizeof at; ++d)
            snprintf(at + strlen(at), sizeof at - strlen(at), "%s%lld", d ? "," : "", (long long)f->first.at[d]);
        snprintf(at + strlen(at), sizeof at - strlen(at), "]");
        row->first_at = vn_record_string(r, at);
        row->first_expected = f->first.expected;
        row->first_actual = f->first.actual;
        row->first_expected_bits = f->first.expected_bits;
        row->first_actual_bits = f->first.actual_bits;
    }
    row->deterministic = f->deterministic;
    row->detection_caught = f->detection_caught;
    row->detection_of = f->detection_of;
    row->detection_smallest = f->detection_smallest;
    row->detection_worst = f->detection_worst;
    if (isfinite(f->oracle_over_bound) && f->oracle_over_bound > r->oracle_over_bound) r->oracle_over_bound = f->oracle_over_bound;
    return VN_OK;
}

vn_status_t vn_row_plain(vn_record_t *r, vn_verdict_t v, const char *words, const char *path, const vn_node_t *node, int k,
                         const char *backend, const char *mode, int64_t order, vn_error_t *err) {
    vn_row_t *row = start(r, path, node, k, backend, mode, order);
    if (!row) return vn_fail(err, VN_ERR_NOMEM, "no memory for a row");
    row->verdict = v;
    row->words = vn_record_string(r, words);
    return VN_OK;
}

vn_status_t vn_record_model(vn_record_t *r, const vn_model_t *m, const vn_bundle_t *inputs, vn_error_t *err) {
    vn_text_t text = {0};
    char one[256], hex[65];
    vn_sha256_t *h = vn_sha256_new();
    r->model_path = vn_record_string(r, m->path ? m->path : "");
    r->model_sha256 = vn_record_string(r, m->sha256);
    r->opset = vn_model_opset(m, "");
    r->nodes = m->graph->n_nodes;
    r->constants = 0;
    for (int i = 0; i < m->graph->n_nodes; ++i)
        r->constants += !*m->graph->nodes[i].domain && strcmp(m->graph->nodes[i].op, "Constant") == 0;
    for (int i = 0; i < inputs->count; ++i) {
        vn_tensor_describe(inputs->items[i].tensor, one, sizeof one);
        vn_text_printf(&text, "%s%s %s", i ? "  " : "", inputs->items[i].name, one);
        if (h && vn_tensor_sha256(inputs->items[i].tensor, hex, NULL) == VN_OK) {
            vn_sha256_add(h, inputs->items[i].name, strlen(inputs->items[i].name) + 1);
            vn_sha256_add(h, hex, 64);
        }
    }
    if (h) {
        vn_sha256_finish(h, hex);
        r->inputs_sha256 = vn_record_string(r, hex);
    }
    r->inputs = vn_record_string(r, text.data ? text.data : "");
    const bool bad = text.failed || !r->inputs || !r->model_path;
    vn_text_free(&text);
    return bad ? vn_fail(err, VN_ERR_NOMEM, "no memory") : VN_OK;
}
