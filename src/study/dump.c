/* dump.c -- `vernier judge`: recorded outputs of one node, or of a small graph judged as one operator. */
#include <stdio.h>
#include <string.h>

#include "study/study_internal.h"

typedef struct dump {
    vn_model_t *model;
    vn_bundle_t inputs, actual[2];
    vn_node_t node; /* copy of the single node, outputs that the graph does not give blanked */
    const char **outputs;
    const vn_node_t *single; /* NULL: a region */
    int n_in, n_out;
    vn_value_t **in, **out[2];
    vn_ref_t *refs;
    vn_finding_t *findings;
} dump_t;

static vn_status_t value_of(const vn_tensor_t *t, vn_value_t **out, vn_error_t *err) {
    if (!t) return VN_OK;
    *out = vn_value_tensor(vn_tensor_retain(t));
    return *out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
}

static vn_status_t prepare(dump_t *d, vn_error_t *err) {
    const vn_graph_t *g = d->model->graph;
    d->single = g->n_nodes == 1 ? &g->nodes[0] : NULL;
    d->n_in = d->single ? d->single->n_inputs : g->n_inputs;
    d->n_out = d->single ? d->single->n_outputs : g->n_outputs;
    const size_t ni = (size_t)d->n_in + 1, no = (size_t)d->n_out + 1;
    d->in = vn_alloc(ni, sizeof *d->in);
    d->out[0] = vn_alloc(no, sizeof **d->out);
    d->out[1] = vn_alloc(no, sizeof **d->out);
    d->refs = vn_alloc(no, sizeof *d->refs);
    d->findings = vn_alloc(no, sizeof *d->findings);
    d->outputs = vn_alloc(no, sizeof *d->outputs);
    if (!d->in || !d->out[0] || !d->out[1] || !d->refs || !d->findings || !d->outputs) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < d->n_in; ++k) {
        const char *name = d->single ? d->single->inputs[k] : g->inputs[k].name;
        const vn_tensor_t *t = *name ? vn_bundle_find(&d->inputs, name) : NULL;
        if (!t && *name) t = vn_graph_init(g, name);
        VN_TRY(value_of(t, &d->in[k], err));
    }
    for (int k = 0; k < d->n_out; ++k) {
        const char *name = d->single ? d->single->outputs[k] : g->outputs[k].name;
        d->outputs[k] = vn_graph_is_output(g, name) ? name : "";
        for (int run = 0; run < 2; ++run) VN_TRY(value_of(vn_bundle_find(&d->actual[run], name), &d->out[run][k], err));
    }
    if (d->single) {
        d->node = *d->single;
        d->node.outputs = d->outputs;
        d->single = &d->node;
    }
    return VN_OK;
}

static vn_status_t rows_of_failure(dump_t *d, vn_record_t *r, const vn_error_t *why, vn_error_t *err) {
    for (int k = 0; k < d->n_out; ++k) {
        if (!*d->outputs[k]) continue;
        const vn_node_t region = {.op = "graph", .domain = "", .n_outputs = d->n_out, .outputs = d->outputs};
        VN_TRY(vn_row_plain(r, vn_verdict_of_status(why->status), why->text, d->single ? d->single->path : d->model->graph->name,
                            d->single ? d->single : &region, k, "dump", d->single ? "isolated" : "graph", 0, err));
    }
    return VN_OK;
}

static vn_status_t judge_it(dump_t *d, const vn_judge_options_t *o, vn_record_t *r, vn_error_t *err) {
    vn_question_t q = {.model = d->model,
                       .node = d->single,
                       .inputs = (const vn_value_t *const *)d->in,
                       .contract = &o->contract,
                       .refs = d->refs,
                       .n_outputs = d->n_out,
                       .actual = (const vn_value_t *const *)d->out[0],
                       .actual2 = o->n_actual > 1 ? (const vn_value_t *const *)d->out[1] : NULL,
                       .alpha = VN_RUN_ALPHA / (3.0 * (d->n_out + 1)),
                       .effort = o->effort};
    vn_error_t why = {0};
    vn_status_t s = d->single ? vn_oracle_node(d->model, d->single, q.inputs, NULL, &o->contract, VN_WANT_VARIANCE, d->refs, &why)
                              : vn_oracle_region(d->model, &d->inputs, &o->contract, VN_WANT_VARIANCE, d->refs, &why);
    if (s == VN_ERR_UNSUPPORTED) return rows_of_failure(d, r, &why, err);
    if (s != VN_OK) return vn_fail(err, s, "%s", why.text);
    VN_TRY(vn_judge(&q, d->findings, err));
    for (int k = 0; k < d->n_out; ++k) {
        if (!*d->outputs[k]) continue;
        const vn_node_t region = {.op = "graph", .domain = "", .n_outputs = d->n_out, .outputs = d->outputs};
        VN_TRY(vn_row_from(r, &d->findings[k], d->single ? d->single->path : d->model->graph->name, d->single ? d->single : &region, k,
                           "dump", d->single ? "isolated" : "graph", k, err));
        r->judged_nodes = d->single ? 1 : r->nodes - r->constants;
    }
    return VN_OK;
}

static void release(dump_t *d) {
    for (int k = 0; d->in && k < d->n_in; ++k) vn_value_free(d->in[k]);
    for (int k = 0; k < d->n_out; ++k) {
        if (d->out[0]) vn_value_free(d->out[0][k]);
        if (d->out[1]) vn_value_free(d->out[1][k]);
        if (d->refs) vn_ref_free(&d->refs[k]);
    }
    vn_free(d->in);
    vn_free(d->out[0]);
    vn_free(d->out[1]);
    vn_free(d->refs);
    vn_free(d->findings);
    vn_free(d->outputs);
    vn_bundle_free(&d->inputs);
    vn_bundle_free(&d->actual[0]);
    vn_bundle_free(&d->actual[1]);
    vn_model_free(d->model);
}

vn_status_t vn_judge_dump(const vn_judge_options_t *o, vn_record_t **out, vn_error_t *err) {
    *out = NULL;
    dump_t d = {0};
    const double start = vn_now();
    vn_record_t *r = vn_record_new();
    vn_status_t s = r ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = vn_model_read(o->model_path, &d.model, err);
    if (s == VN_OK && d.model->graph->n_nodes == 0) s = vn_fail(err, VN_ERR_USAGE, "%s: the graph has no node to judge", o->model_path);
    if (s == VN_OK) s = vn_tensors_read(o->inputs_path, &d.inputs, err);
    if (s == VN_OK) s = vn_check_inputs(d.model, &d.inputs, o->inputs_path, err);
    for (int i = 0; i < o->n_actual && s == VN_OK; ++i) s = vn_tensors_read(o->actual_paths[i], &d.actual[i], err);
    if (s == VN_OK) s = prepare(&d, err);
    if (s == VN_OK) s = vn_record_model(r, d.model, &d.inputs, err);
    if (s == VN_OK) {
        r->command = "judge";
        for (int i = 0; i < o->n_actual && s == VN_OK; ++i)
            for (int k = 0; k < d.actual[i].count && s == VN_OK; ++k)
                if (!vn_graph_is_output(d.model->graph, d.actual[i].items[k].name))
                    s = vn_record_note(r, "%s: '%s' is no output of the model and was not judged", o->actual_paths[i],
                                       d.actual[i].items[k].name);
    }
    if (s == VN_OK) s = judge_it(&d, o, r, err);
    if (s == VN_OK) {
        r->seconds = vn_now() - start;
        r->peak_bytes = vn_peak_resident();
        char blas[160];
        vn_oracle_blas(blas, sizeof blas);
        r->oracle_blas = vn_record_string(r, blas);
        *out = r;
    } else {
        vn_record_free(r);
    }
    release(&d);
    return s;
}
