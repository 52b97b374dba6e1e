/* whole.c -- the whole graph on one back end: unobserved, then with every intermediate exposed; each operator judged in situ, on the
 * inputs the back end itself captured; end outputs against each other (the observer effect) and against the reference trajectory (drift).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/study_internal.h"

typedef struct whole {
    vn_study_t *s;
    vn_backend_t *b;
    int n_ends;        /* graph outputs */
    vn_output_t *ends; /* unobserved */
    int n_captured;
    vn_output_spec_t *specs;
    vn_output_t *captured; /* observed: graph outputs and intermediates, sorted by name */
} whole_t;

static int by_spec_name(const void *a, const void *b) {
    return strcmp(((const vn_output_spec_t *)a)->name, ((const vn_output_spec_t *)b)->name);
}

static const vn_output_t *captured(const whole_t *w, const char *name) {
    const vn_output_spec_t key = {.name = name};
    const vn_output_spec_t *hit = w->n_captured ? bsearch(&key, w->specs, (size_t)w->n_captured, sizeof key, by_spec_name) : NULL;
    return hit ? &w->captured[hit - w->specs] : NULL;
}

/* A failure stays in *why: it is the back end's, and becomes a row. */
static void run_model(whole_t *w, const vn_model_t *m, int n, const vn_output_spec_t *specs, vn_output_t *out, vn_error_t *why) {
    int64_t session = 0;
    double seconds = 0;
    why->status = vn_worker_load_model(w->b->worker, m, w->s->model->folder, &session, why);
    if (why->status == VN_OK) {
        why->status = vn_worker_run(w->b->worker, session, &w->s->inputs, n, specs, out, &seconds, why);
        vn_worker_unload(w->b->worker, session);
    }
    w->s->record->backends[w->b->index].seconds += seconds;
}

/* The dimensions of the given inputs written into the model; *open: some were not there before. */
static vn_status_t concrete(const whole_t *w, const vn_model_t *m, vn_model_t **out, bool *open, vn_error_t *err) {
    *open = false;
    VN_TRY(vn_model_clone(m, out, err));
    vn_graph_t *g = (*out)->graph;
    for (int i = 0; i < g->n_inputs; ++i) {
        const vn_tensor_t *t = vn_bundle_find(&w->s->inputs, g->inputs[i].name);
        vn_type_t *type = &g->inputs[i].type;
        if (!t || type->kind != VN_TYPE_TENSOR) continue;
        if (type->rank != t->rank) {
            type->dims = vn_arena_alloc((*out)->arena, (size_t)t->rank + 1, sizeof *type->dims);
            if (!type->dims) return vn_fail(err, VN_ERR_NOMEM, "no memory");
            type->rank = t->rank;
            for (int d = 0; d < t->rank; ++d) type->dims[d].value = -1;
        }
        for (int d = 0; d < t->rank; ++d) {
            *open |= type->dims[d].value != t->dims[d];
            type->dims[d] = (vn_dim_t){.value = t->dims[d]};
        }
    }
    return VN_OK;
}

/* A back end may refuse a model whose dimensions are open and take it when they are known: said in a note, and judged all the same. */
static vn_status_t run_either(whole_t *w, const vn_model_t *m, int n, const vn_output_spec_t *specs, vn_output_t *out, const char *what,
                              vn_error_t *why, vn_error_t *err) {
    run_model(w, m, n, specs, out, why);
    if (why->status != VN_ERR_UNSUPPORTED && why->status != VN_ERR_WORKER) return VN_OK;
    vn_model_t *fixed = NULL;
    bool open;
    vn_error_t again = {0};
    vn_status_t st = concrete(w, m, &fixed, &open, err);
    if (st == VN_OK && open) run_model(w, fixed, n, specs, out, &again);
    if (st == VN_OK && open && again.status == VN_OK) {
        st = vn_record_note(w->s->record, "%s: %s: run with the dimensions of the given inputs, because with open ones it answered: %s",
                            w->b->text, what, why->text);
        *why = again;
    }
    vn_model_free(fixed);
    return st;
}

static vn_status_t graph_row(whole_t *w, const vn_error_t *why, const char *what, vn_error_t *err) {
    char words[700];
    snprintf(words, sizeof words, "%s: %s", what, why->text);
    return vn_row_plain(w->s->record, vn_verdict_of_status(why->status), words, what, NULL, 0, w->b->text, "graph", w->s->steps + 1, err);
}

/* ---- unobserved run and drift ---- */

static vn_status_t unobserved(whole_t *w, bool *ran, vn_error_t *err) {
    const vn_graph_t *g = w->s->model->graph;
    *ran = false;
    w->n_ends = g->n_outputs;
    w->ends = vn_alloc((size_t)g->n_outputs + 1, sizeof *w->ends);
    vn_output_spec_t *specs = vn_alloc((size_t)g->n_outputs + 1, sizeof *specs);
    if (!w->ends || !specs) {
        vn_free(specs);
        return vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int k = 0; k < g->n_outputs; ++k) specs[k] = (vn_output_spec_t){.name = g->outputs[k].name, .rank = -1};
    vn_error_t why = {0};
    const vn_status_t st = run_either(w, w->s->model, g->n_outputs, specs, w->ends, "whole graph", &why, err);
    vn_free(specs);
    VN_TRY(st);
    if (why.status != VN_OK) return graph_row(w, &why, "whole graph", err);
    *ran = true;
    vn_backend_record_t *rec = &w->s->record->backends[w->b->index];
    rec->drift_max = rec->drift_relative = NAN;
    for (int k = 0; k < g->n_outputs; ++k) {
        const vn_tensor_t *want = vn_bundle_find(&w->s->ends, g->outputs[k].name);
        const vn_value_t *got = w->ends[k].value;
        vn_metrics_t m;
        vn_error_t differs = {0};
        if (got && got->kind == VN_VALUE_TENSOR) VN_TRY(vn_bundle_add(&w->b->ends, g->outputs[k].name, got->tensor, err));
        if (!want || !got || got->kind != VN_VALUE_TENSOR || vn_dtype_kind(want->dtype) == VN_KIND_STRING) continue;
        if (vn_metrics(want, got->tensor, &m, &differs) != VN_OK) {
            VN_TRY(vn_record_note(w->s->record, "%s: output %s differs in form from the reference trajectory: %s", w->b->text,
                                  g->outputs[k].name, differs.text));
            continue;
        }
        if (isnan(rec->drift_relative) || m.rms_relative > rec->drift_relative) {
            rec->drift_output = vn_record_string(w->s->record, g->outputs[k].name);
            rec->drift_max = m.max_abs;
            rec->drift_relative = m.rms_relative;
        }
    }
    return VN_OK;
}

/* ---- observed run ---- */

static vn_status_t observe(whole_t *w, bool *ran, vn_error_t *err) {
    vn_study_t *s = w->s;
    vn_model_t *marked = NULL;
    const char **names = vn_alloc((size_t)s->n_values + 1, sizeof *names);
    vn_type_t *types = vn_alloc((size_t)s->n_values + 1, sizeof *types);
    vn_status_t st = names && types ? vn_model_clone(s->model, &marked, err) : vn_fail(err, VN_ERR_NOMEM, "no memory");
    *ran = false;
    for (int i = 0; i < s->n_values && st == VN_OK; ++i) {
        names[i] = s->values[i].name;
        types[i] = (vn_type_t){.kind = VN_TYPE_TENSOR, .dtype = s->values[i].dtype, .rank = -1};
    }
    if (st == VN_OK) st = vn_model_mark_outputs(marked, s->n_values, names, types, err);
    if (st == VN_OK) {
        w->n_captured = marked->graph->n_outputs;
        w->specs = vn_alloc((size_t)w->n_captured + 1, sizeof *w->specs);
        w->captured = vn_alloc((size_t)w->n_captured + 1, sizeof *w->captured);
        if (!w->specs || !w->captured) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    for (int k = 0; k < w->n_captured && st == VN_OK; ++k)
        w->specs[k] = (vn_output_spec_t){.name = marked->graph->outputs[k].name, .rank = -1};
    vn_error_t why = {0};
    if (st == VN_OK) {
        qsort(w->specs, (size_t)w->n_captured, sizeof *w->specs, by_spec_name);
        st = run_either(w, marked, w->n_captured, w->specs, w->captured, "whole graph with every intermediate exposed", &why, err);
    }
    if (st == VN_OK && why.status != VN_OK) {
        st = graph_row(w, &why, "whole graph with every intermediate exposed", err);
    } else if (st == VN_OK) {
        *ran = true;
        /* names in specs point into the clone: turn them into the study's own strings before it goes */
        for (int k = 0; k < w->n_captured && st == VN_OK; ++k) {
            const char *name = vn_record_string(s->record, w->specs[k].name);
            if (!name) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
            w->specs[k].name = name;
        }
    }
    if (st != VN_OK || !*ran) {
        for (int k = 0; w->captured && k < w->n_captured; ++k) vn_output_free(&w->captured[k]);
        w->n_captured = 0;
    }
    vn_model_free(marked);
    vn_free(names);
    vn_free(types);
    return st;
}

static vn_status_t compare_ends(whole_t *w, vn_error_t *err) {
    const vn_graph_t *g = w->s->model->graph;
    vn_backend_record_t *rec = &w->s->record->backends[w->b->index];
    int64_t differ = 0;
    double largest = 0;
    const char *which = NULL;
    for (int k = 0; k < g->n_outputs; ++k) {
        const vn_output_t *o = captured(w, g->outputs[k].name);
        const vn_value_t *a = w->ends[k].value, *b = o ? o->value : NULL;
        if (!a || !b || a->kind != VN_VALUE_TENSOR || b->kind != VN_VALUE_TENSOR || vn_tensor_equal_bits(a->tensor, b->tensor)) continue;
        vn_metrics_t m;
        vn_error_t why = {0};
        if (vn_metrics(a->tensor, b->tensor, &m, &why) != VN_OK) {
            m = (vn_metrics_t){.max_abs = INFINITY, .unequal = a->tensor->count};
        }
        differ += m.unequal;
        if (!which || m.max_abs > largest) {
            largest = m.max_abs;
            which = g->outputs[k].name;
        }
    }
    if (!which) return VN_OK;
    char text[300];
    snprintf(text, sizeof text,
             "exposing intermediates changed %lld elements of the end outputs, most in %s (max %.3g): it fuses differently when watched",
             (long long)differ, which, largest);
    rec->observer = vn_record_string(w->s->record, text);
    rec->observer_max = largest;
    return rec->observer ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
}

/* ---- in situ ---- */

static vn_status_t operand(const void *ctx, const char *name, vn_value_t **out, vn_error_t *err) {
    const whole_t *w = ctx;
    const vn_study_t *s = w->s;
    const vn_tensor_t *t = vn_bundle_find(&s->inputs, name);
    if (!t) t = vn_graph_init(s->model->graph, name);
    if (!t) t = vn_bundle_find(&s->constants, name);
    *out = NULL;
    if (t) {
        *out = vn_value_tensor(vn_tensor_retain(t));
        return *out ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    const vn_output_t *o = captured(w, name);
    if (o && o->value) *out = vn_value_retain(o->value);
    return VN_OK;
}

static bool is_odd(const vn_finding_t *findings, int n) {
    for (int k = 0; k < n; ++k)
        if (findings[k].verdict == VN_BUG || findings[k].verdict == VN_SUSPECT) return true;
    return false;
}

/* From the cheap and likely to the costly: the node by its contract or an arithmetic that this back end has shown before; groups by the contract,
 * then by such an arithmetic; all other arithmetics, of the node and of the groups; last, what a wrong result of the node may come from. */
static vn_status_t explain(const whole_t *w, vn_question_t *q, vn_finding_t *findings, vn_error_t *err) {
    const vn_study_t *s = w->s;
    const int node = (int)(q->node - s->model->graph->nodes);
    static const struct {
        bool group;
        vn_ask_t ask;
    } steps[] = {{false, VN_ASK_HINTED},      {true, VN_ASK_NONE},        {true, VN_ASK_HINTED},
                 {false, VN_ASK_ARITHMETICS}, {true, VN_ASK_ARITHMETICS}, {false, VN_ASK_NAMES}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
        bool explained = false;
        q->ask = steps[i].ask;
        if (steps[i].group) VN_TRY(vn_study_fused(s, w->b, node, operand, w, q->ask, q->actual, findings, &explained, err));
        else VN_TRY(vn_judge(q, findings, err));
        if (explained || (!steps[i].group && !is_odd(findings, q->n_outputs))) return VN_OK;
    }
    return VN_OK;
}

static vn_status_t in_situ_node(whole_t *w, const vn_node_t *n, int64_t order, vn_error_t *err) {
    vn_study_t *s = w->s;
    const size_t ni = (size_t)n->n_inputs + 1, no = (size_t)n->n_outputs + 1;
    vn_value_t **in = vn_alloc(ni, sizeof *in);
    const vn_value_t **got = vn_alloc(no, sizeof *got);
    vn_ref_t *refs = vn_alloc(no, sizeof *refs);
    vn_finding_t *findings = vn_alloc(no, sizeof *findings);
    vn_error_t why = {0};
    bool missing = false;
    vn_status_t st = in && got && refs && findings ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < n->n_inputs && st == VN_OK; ++k) {
        if (!*n->inputs[k]) continue;
        st = operand(w, n->inputs[k], &in[k], err);
        if (st == VN_OK && !in[k]) {
            missing = true;
            vn_fail(&why, VN_ERR_NOTFOUND, "the back end did not give input %s", n->inputs[k]);
        }
    }
    for (int k = 0; k < n->n_outputs && st == VN_OK; ++k) {
        const vn_output_t *o = *n->outputs[k] ? captured(w, n->outputs[k]) : NULL;
        got[k] = o ? o->value : NULL;
    }
    vn_status_t eval = VN_ERR_NOTFOUND;
    if (st == VN_OK && !missing)
        eval = vn_oracle_node(s->model, n, (const vn_value_t *const *)in, NULL, &s->o->contract, VN_WANT_VARIANCE, refs, &why);
    if (st == VN_OK && eval == VN_ERR_NOMEM) st = vn_fail(err, eval, "%s", why.text);
    if (st == VN_OK && eval == VN_OK) {
        vn_question_t q = {.model = s->model,
                           .node = n,
                           .inputs = (const vn_value_t *const *)in,
                           .contract = &s->o->contract,
                           .refs = refs,
                           .n_outputs = n->n_outputs,
                           .actual = got,
                           .alpha = s->alpha,
                           .effort = VN_EFFORT_QUICK,
                           .hint = &w->b->hint};
        st = explain(w, &q, findings, err);
    }
    for (int k = 0; k < n->n_outputs && st == VN_OK; ++k) {
        if (!*n->outputs[k]) continue;
        if (eval == VN_OK && !captured(w, n->outputs[k])) /* never asked for: only tensors are exposed */
            st = vn_row_plain(s->record, VN_NOT_RUN, "a sequence or an optional: not captured", n->path, n, k, w->b->text, "in-situ", order,
                              err);
        else if (eval == VN_OK) st = vn_row_from(s->record, &findings[k], n->path, n, k, w->b->text, "in-situ", order, err);
        else
            st = vn_row_plain(s->record, eval == VN_ERR_UNSUPPORTED ? VN_UNSUPPORTED : VN_NOT_RUN, why.text, n->path, n, k, w->b->text,
                              "in-situ", order, err);
    }
    for (int k = 0; in && k < n->n_inputs; ++k) vn_value_free(in[k]);
    for (int k = 0; refs && k < n->n_outputs; ++k) vn_ref_free(&refs[k]);
    vn_free(in);
    vn_free(got);
    vn_free(refs);
    vn_free(findings);
    return st;
}

/* Captures leave our resident memory after their last reader; a later group of fused operators may still look at them. */
static void rest(const whole_t *w, const int *last_use, int node) {
    for (int k = 0; k < w->n_captured; ++k)
        if (last_use[k] == node) vn_output_idle(&w->captured[k]);
}

static vn_status_t in_situ(whole_t *w, vn_error_t *err) {
    const vn_graph_t *g = w->s->model->graph;
    int *last = vn_alloc((size_t)w->n_captured + 1, sizeof *last);
    if (!last) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int i = 0; i < g->n_nodes; ++i) {
        for (int k = 0; k < g->nodes[i].n_inputs; ++k) {
            const vn_output_t *o = captured(w, g->nodes[i].inputs[k]);
            if (o) last[o - w->captured] = i;
        }
        for (int k = 0; k < g->nodes[i].n_outputs; ++k) {
            const vn_output_t *o = captured(w, g->nodes[i].outputs[k]);
            if (o && last[o - w->captured] < i) last[o - w->captured] = i;
        }
    }
    vn_status_t st = VN_OK;
    for (int i = 0; i < g->n_nodes && st == VN_OK; ++i) {
        const vn_node_t *n = &g->nodes[i];
        vn_op_info_t info;
        if (!*n->domain && strcmp(n->op, "Constant") == 0) continue;
        if (vn_oracle_knows(w->s->model, n, &info) && info.cls == VN_CLASS_CONTROL) {
            for (int k = 0; k < n->n_outputs && st == VN_OK; ++k)
                if (*n->outputs[k])
                    st = vn_row_plain(w->s->record, VN_NOT_RUN, "control flow: the bodies' intermediates are not captured", n->path, n, k,
                                      w->b->text, "in-situ", w->s->steps + 2 + i, err);
        } else {
            st = in_situ_node(w, n, w->s->steps + 2 + i, err);
        }
        rest(w, last, i);
        if (w->s->o->progress) w->s->o->progress(w->s->o->progress_ctx, "in situ", i + 1, g->n_nodes);
    }
    vn_free(last);
    return st;
}

vn_status_t vn_study_whole(vn_study_t *s, vn_backend_t *b, vn_error_t *err) {
    whole_t w = {.s = s, .b = b};
    bool plain = false, watched = false;
    vn_status_t st = s->o->skip_graph ? VN_OK : unobserved(&w, &plain, err);
    if (st == VN_OK && !s->o->skip_in_situ) st = observe(&w, &watched, err);
    if (st == VN_OK && plain && watched) st = compare_ends(&w, err);
    for (int k = 0; w.ends && k < w.n_ends; ++k) vn_output_free(&w.ends[k]);
    vn_free(w.ends);
    if (st == VN_OK && watched) st = in_situ(&w, err);
    for (int k = 0; w.captured && k < w.n_captured; ++k) vn_output_free(&w.captured[k]);
    vn_free(w.captured);
    vn_free(w.specs);
    return st;
}
