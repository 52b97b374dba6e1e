/* main.c -- the back end `mutant`: plain kernels in C with a chosen arithmetic and a chosen fault; runs graphs node by node on vn_worker_main.
 * Called with --list it prints its operators and its faults instead, one a line, fields separated by tabs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "vernier/protocol.h"

typedef struct mutant {
    animal_t animal;
    int threads;
} mutant_t;

struct vn_worker_session {
    vn_model_t *model;
    plan_t plan;
    int runs;
};

static vn_status_t mutant_start(int argc, char **argv, void **self, vn_error_t *err) {
    mutant_t *m = vn_alloc(1, sizeof *m);
    if (!m) return vn_fail(err, VN_ERR_NOMEM, "hello: out of memory");
    m->threads = 1;
    for (int i = 0; i < argc; ++i) {
        if (strncmp(argv[i], "threads=", 8) == 0) m->threads = atoi(argv[i] + 8);
        else if (strcmp(argv[i], "device=cpu") != 0 && strncmp(argv[i], "cache=", 6) != 0) {
            vn_status_t s = animal_option(&m->animal, argv[i], err);
            if (s == VN_OK) continue;
            vn_free(m);
            return s;
        }
    }
    vn_threads_set(m->threads); /* rows and tiles are shared out; no result depends on it */
    *self = m;
    return VN_OK;
}

static vn_status_t mutant_identity(void *self, vn_text_t *json, vn_error_t *err) {
    const mutant_t *m = self;
    vn_text_printf(json, "{\"framework\":\"mutant\",\"version\":\"%s\",\"device\":\"cpu\",\"threads\":%d,\"settings\":{", vn_version(),
                   m->threads);
    mutant_describe(&m->animal.arithmetic, json);
    const fault_t *f = &m->animal.fault;
    if (f->row) vn_text_printf(json, ",\"fault\":\"%s%s%s\"", f->row->name, f->value[0] ? ":" : "", f->value);
    vn_text_add(json, "},\"capabilities\":{\"intermediates\":true,\"strings\":true},");
    vn_worker_library(json, "/proc/self/exe");
    vn_text_add(json, ",\"cpu_features\":");
    vn_worker_cpu_features(json);
    vn_text_add(json, "}");
    return json->failed ? vn_fail(err, VN_ERR_NOMEM, "identity: out of memory") : VN_OK;
}

/* Some node must be of an operator that shows the fault. */
static vn_status_t check_fault(const mutant_t *m, const plan_t *p, vn_error_t *err) {
    bool fits = !m->animal.fault.row;
    for (int i = 0; i < p->n_steps && !fits; ++i)
        fits = fault_for(&m->animal.fault, p->steps[i].op->name).row &&
               (!m->animal.node[0] || !strcmp(m->animal.node, p->steps[i].node->path));
    if (fits) return VN_OK;
    return vn_fail(err, VN_ERR_UNSUPPORTED, "fault %s: no operator of this model can show it", m->animal.fault.row->name);
}

static vn_status_t mutant_load(void *self, const vn_load_request_t *rq, vn_worker_session_t **out, vn_error_t *err) {
    if (strcmp(rq->format, "onnx") != 0) return vn_fail(err, VN_ERR_UNSUPPORTED, "model format '%s'", rq->format);
    vn_worker_session_t *s = vn_alloc(1, sizeof *s);
    if (!s) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    vn_status_t status = vn_model_parse(rq->bytes, rq->size, "model", rq->folder, &s->model, err);
    if (status == VN_OK) status = plan_make(s->model, &s->plan, err);
    if (status == VN_OK) {
        status = check_fault(self, &s->plan, err);
        if (status == VN_OK) {
            *out = s;
            return VN_OK;
        }
        plan_free(&s->plan);
    }
    vn_model_free(s->model);
    vn_free(s);
    return status;
}

/* ---- run ---- */

typedef struct execution {
    const mutant_t *m;
    const plan_t *plan;
    vn_tensor_t **slots;
    bool *wanted; /* asked for by the host: kept to the end */
    int turn;
    int64_t changed; /* elements that the fault has changed */
    vn_error_t *err;
} execution_t;

static vn_status_t give(execution_t *e, const char *name, const vn_tensor_t *t) {
    const int slot = plan_slot(e->plan, name);
    if (slot < 0) return vn_fail(e->err, VN_ERR_USAGE, "the model has no value '%.100s'", name);
    vn_tensor_free(e->slots[slot]);
    return vn_tensor_contiguous(t, &e->slots[slot], e->err);
}

static vn_status_t give_inputs(execution_t *e, const vn_run_request_t *rq) {
    const vn_graph_t *g = e->plan->model->graph;
    for (int i = 0; i < g->n_inits; ++i) VN_TRY(give(e, g->inits[i].name, g->inits[i].tensor));
    for (int i = 0; i < rq->n_inputs; ++i) {
        const vn_io_t *in = &rq->inputs[i];
        const vn_value_info_t *info = vn_graph_input(g, in->name);
        if (!info) return vn_fail(e->err, VN_ERR_USAGE, "the model has no input '%.100s'", in->name);
        if (!in->tensor) continue;
        if (info->type.kind == VN_TYPE_TENSOR && info->type.dtype != VN_UNDEFINED && info->type.dtype != in->tensor->dtype)
            return vn_fail(e->err, VN_ERR_DTYPE, "input '%.100s' is %s, the model wants %s", in->name, vn_dtype_name(in->tensor->dtype),
                           vn_dtype_name(info->type.dtype));
        VN_TRY(give(e, in->name, in->tensor));
    }
    for (int i = 0; i < g->n_inputs; ++i) {
        const int slot = plan_slot(e->plan, g->inputs[i].name);
        if (!e->slots[slot] && g->inputs[i].type.kind == VN_TYPE_TENSOR)
            return vn_fail(e->err, VN_ERR_USAGE, "input '%.100s' is not given", g->inputs[i].name);
    }
    return VN_OK;
}

enum { MAX_ARITY = 256 };

static vn_status_t run_step(execution_t *e, int index) {
    const step_t *s = &e->plan->steps[index];
    const vn_node_t *n = s->node;
    vn_tensor_t *in[MAX_ARITY] = {0}, *out[MAX_ARITY] = {0};
    if (n->n_inputs > MAX_ARITY || n->n_outputs > MAX_ARITY)
        return vn_fail(e->err, VN_ERR_UNSUPPORTED, "%s: more than %d inputs or outputs", n->path, MAX_ARITY);
    for (int i = 0; i < n->n_inputs; ++i) in[i] = s->in[i] < 0 ? NULL : e->slots[s->in[i]];
    int n_out = n->n_outputs;
    while (n_out > 1 && s->out[n_out - 1] < 0) --n_out; /* unused trailing outputs are not asked for */
    int64_t changed = 0;
    call_t c = {.turn = e->turn, .node = n, .opset = s->opset, .n_in = n->n_inputs, .n_out = n_out, .in = in, .out = out, .err = e->err};
    vn_status_t status = animal_run(&e->m->animal, s->op, &c, &changed);
    e->changed += changed;
    for (int i = 0; i < n->n_outputs; ++i) {
        if (status == VN_OK && s->out[i] >= 0) {
            vn_tensor_free(e->slots[s->out[i]]);
            e->slots[s->out[i]] = out[i];
        } else {
            vn_tensor_free(out[i]);
        }
    }
    if (status != VN_OK) return status;
    for (int i = 0; i < n->n_inputs + n->n_outputs; ++i) { /* what is never read again goes */
        const int slot = i < n->n_inputs ? s->in[i] : s->out[i - n->n_inputs];
        if (slot < 0 || e->plan->last_use[slot] != index || e->wanted[slot]) continue;
        vn_tensor_free(e->slots[slot]);
        e->slots[slot] = NULL;
    }
    return VN_OK;
}

static vn_status_t take_outputs(execution_t *e, vn_run_request_t *rq) {
    for (int i = 0; i < rq->n_outputs; ++i) {
        const vn_tensor_t *t = e->slots[plan_slot(e->plan, rq->outputs[i].name)];
        if (!t) return vn_fail(e->err, VN_ERR_INTERNAL, "output '%.100s' was not computed", rq->outputs[i].name);
        vn_tensor_t *to;
        size_t bytes;
        VN_TRY(vn_worker_output(&rq->outputs[i], t->dtype, t->rank, t->dims, &to, e->err));
        if (t->dtype == VN_STRING) {
            const vn_string_t *text = t->data;
            for (int64_t k = 0; k < t->count; ++k) VN_TRY(vn_tensor_set_string(to, k, text[k].text, text[k].length, e->err));
        } else if (vn_dtype_storage(t->dtype, t->count, &bytes) && bytes) {
            memcpy(to->data, t->data, bytes);
        }
    }
    return VN_OK;
}

static vn_status_t mutant_run(void *self, vn_worker_session_t *session, vn_run_request_t *rq, vn_error_t *err) {
    const plan_t *p = &session->plan;
    execution_t e = {.m = self, .plan = p, .turn = session->runs++, .err = err};
    e.slots = vn_alloc((size_t)p->n_slots, sizeof *e.slots);
    e.wanted = vn_alloc((size_t)p->n_slots, sizeof *e.wanted);
    vn_status_t s = e.slots && e.wanted ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "run: out of memory");
    for (int i = 0; i < rq->n_outputs && s == VN_OK; ++i) {
        const int slot = plan_slot(p, rq->outputs[i].name);
        if (slot < 0) s = vn_fail(err, VN_ERR_USAGE, "the model has no value '%.100s'", rq->outputs[i].name);
        else e.wanted[slot] = true;
    }
    if (s == VN_OK) s = give_inputs(&e, rq);
    for (int i = 0; i < p->n_steps && s == VN_OK; ++i) s = run_step(&e, i);
    if (s == VN_OK && e.m->animal.fault.row && e.changed == 0)
        s = vn_fail(err, VN_ERR_UNSUPPORTED, "fault %s: it changes no element of this model on these operands",
                    e.m->animal.fault.row->name);
    if (s == VN_OK) s = take_outputs(&e, rq);
    for (int i = 0; e.slots && i < p->n_slots; ++i) vn_tensor_free(e.slots[i]);
    vn_free(e.slots);
    vn_free(e.wanted);
    return s;
}

static void mutant_unload(void *self, vn_worker_session_t *s) {
    (void)self;
    plan_free(&s->plan);
    vn_model_free(s->model);
    vn_free(s);
}

static void mutant_stop(void *self) { vn_free(self); }

static int list(void) {
    for (int i = 0; mutant_op(i); ++i) printf("operator\t%s\n", mutant_op(i)->name);
    for (int i = 0; fault_row(i); ++i) {
        const fault_row_t *f = fault_row(i);
        printf("fault\t%s\t%s\t%s\t%s\t%s\n", f->name, fault_kind_name(f->kind), f->operators, f->value ? f->value : "-", f->words);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
    const vn_worker_ops_t ops = {"mutant", mutant_start, mutant_identity, mutant_load, mutant_run, mutant_unload, mutant_stop};
    return vn_worker_main(argc, argv, &ops);
}
