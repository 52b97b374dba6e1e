/* steps.c -- from a model to steps over slots, and one run of them. */
#include "steps.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct steps {
    vn_model_t *model;
    vn_arena_t *arena;
    int n_slots, n_steps;
    const char **names; /* of the slots, sorted */
    step_t *steps;
    int *last_use; /* step after which the slot may go; n_steps for graph outputs */
};

enum { MAX_ARITY = 256 };

vn_status_t step_refuse(const vn_node_t *n, vn_error_t *err, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return vn_fail(err, VN_ERR_UNSUPPORTED, "%s (%s): %s", n->path, n->op, text);
}

/* ---- load ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* -1 if there is no such value. */
static int slot_of(const steps_t *p, const char *name) {
    const char **at = p->n_slots ? bsearch(&name, p->names, (size_t)p->n_slots, sizeof *p->names, by_name) : NULL;
    return at ? (int)(at - p->names) : -1;
}

/* Every name that the graph gives a value: inputs, initialisers, outputs of nodes. */
static vn_status_t collect(const vn_graph_t *g, steps_t *p, vn_error_t *err) {
    size_t n = (size_t)g->n_inputs + (size_t)g->n_inits;
    for (int i = 0; i < g->n_nodes; ++i) n += (size_t)g->nodes[i].n_outputs;
    p->names = vn_arena_alloc(p->arena, n, sizeof *p->names);
    if (!p->names) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    size_t k = 0;
    for (int i = 0; i < g->n_inputs; ++i) p->names[k++] = g->inputs[i].name;
    for (int i = 0; i < g->n_inits; ++i) p->names[k++] = g->inits[i].name;
    for (int i = 0; i < g->n_nodes; ++i)
        for (int o = 0; o < g->nodes[i].n_outputs; ++o)
            if (g->nodes[i].outputs[o][0]) p->names[k++] = g->nodes[i].outputs[o];
    qsort(p->names, k, sizeof *p->names, by_name);
    for (size_t i = 0; i < k; ++i) /* an initialiser may also be an input */
        if (p->n_slots == 0 || strcmp(p->names[p->n_slots - 1], p->names[i]) != 0) p->names[p->n_slots++] = p->names[i];
    return VN_OK;
}

static vn_status_t make_step(const steps_t *p, const vn_node_t *n, step_t *s, vn_error_t *err) {
    s->node = n;
    s->in = vn_arena_alloc(p->arena, (size_t)n->n_inputs, sizeof *s->in);
    s->out = vn_arena_alloc(p->arena, (size_t)n->n_outputs, sizeof *s->out);
    if (!s->in || !s->out) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    if (n->n_inputs > MAX_ARITY || n->n_outputs > MAX_ARITY) return step_refuse(n, err, "more than %d inputs or outputs", MAX_ARITY);
    for (int i = 0; i < n->n_inputs; ++i) {
        s->in[i] = n->inputs[i][0] ? slot_of(p, n->inputs[i]) : -1;
        if (n->inputs[i][0] && s->in[i] < 0) return vn_fail(err, VN_ERR_PARSE, "%s: nothing gives '%.100s'", n->path, n->inputs[i]);
    }
    for (int i = 0; i < n->n_outputs; ++i) s->out[i] = n->outputs[i][0] ? slot_of(p, n->outputs[i]) : -1;
    return VN_OK;
}

static void note_uses(const vn_graph_t *g, steps_t *p) {
    for (int i = 0; i < p->n_steps; ++i) {
        const step_t *s = &p->steps[i];
        for (int k = 0; k < s->node->n_inputs; ++k)
            if (s->in[k] >= 0) p->last_use[s->in[k]] = i;
        for (int k = 0; k < s->node->n_outputs; ++k)
            if (s->out[k] >= 0) p->last_use[s->out[k]] = i;
    }
    for (int i = 0; i < g->n_outputs; ++i) {
        const int slot = slot_of(p, g->outputs[i].name);
        if (slot >= 0) p->last_use[slot] = p->n_steps;
    }
}

static vn_status_t make(steps_t *p, step_find_fn find, void *self, vn_error_t *err) {
    const vn_graph_t *g = p->model->graph;
    VN_TRY(collect(g, p, err));
    p->n_steps = g->n_nodes;
    p->steps = vn_arena_alloc(p->arena, (size_t)g->n_nodes, sizeof *p->steps);
    p->last_use = vn_arena_alloc(p->arena, (size_t)p->n_slots, sizeof *p->last_use);
    if (!p->steps || !p->last_use) return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    for (int i = 0; i < g->n_nodes; ++i) {
        step_t *s = &p->steps[i];
        s->opset = vn_model_opset(p->model, g->nodes[i].domain);
        VN_TRY(find(self, &g->nodes[i], s->opset, &s->op, err));
        VN_TRY(make_step(p, &g->nodes[i], s, err));
    }
    note_uses(g, p);
    return VN_OK;
}

vn_status_t steps_load(const vn_load_request_t *rq, step_find_fn find, void *self, steps_t **out, vn_error_t *err) {
    if (strcmp(rq->format, "onnx") != 0) return vn_fail(err, VN_ERR_UNSUPPORTED, "model format '%s'", rq->format);
    steps_t *p = vn_alloc(1, sizeof *p);
    if (!p || !(p->arena = vn_arena_new())) {
        vn_free(p);
        return vn_fail(err, VN_ERR_NOMEM, "load: out of memory");
    }
    vn_status_t s = vn_model_parse(rq->bytes, rq->size, "model", rq->folder, &p->model, err);
    if (s == VN_OK) s = make(p, find, self, err);
    if (s == VN_OK) *out = p;
    else steps_free(p);
    return s;
}

void steps_free(steps_t *s) {
    if (!s) return;
    vn_arena_free(s->arena);
    vn_model_free(s->model);
    vn_free(s);
}

int steps_count(const steps_t *s) { return s->n_steps; }
const step_t *steps_at(const steps_t *s, int i) { return &s->steps[i]; }

/* ---- run ---- */

typedef struct execution {
    const steps_t *p;
    step_run_fn run;
    void *self;
    vn_tensor_t **slots;
    vn_io_t **asked; /* by slot: what the host asked for, kept to the end */
    vn_error_t *err;
} execution_t;

static vn_status_t give(execution_t *e, const char *name, const vn_tensor_t *t) {
    const int slot = slot_of(e->p, name);
    if (slot < 0) return vn_fail(e->err, VN_ERR_USAGE, "the model has no value '%.100s'", name);
    vn_tensor_free(e->slots[slot]);
    return vn_tensor_contiguous(t, &e->slots[slot], e->err);
}

static vn_status_t give_inputs(execution_t *e, const vn_run_request_t *rq) {
    const vn_graph_t *g = e->p->model->graph;
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
        const int slot = slot_of(e->p, g->inputs[i].name);
        if (!e->slots[slot] && g->inputs[i].type.kind == VN_TYPE_TENSOR)
            return vn_fail(e->err, VN_ERR_USAGE, "input '%.100s' is not given", g->inputs[i].name);
    }
    return VN_OK;
}

vn_status_t step_output(step_call_t *c, int k, vn_dtype_t t, int rank, const int64_t *dims, vn_tensor_t **out) {
    vn_tensor_t *to;
    if (c->io[k]) {
        VN_TRY(vn_worker_output(c->io[k], t, rank, dims, &to, c->err));
        to = vn_tensor_retain(to);
    } else {
        VN_TRY(vn_tensor_new_raw(t, rank, dims, &to, c->err));
    }
    vn_tensor_free(c->out[k]);
    c->out[k] = *out = to;
    return VN_OK;
}

static void let_go(execution_t *e, int index) { /* what is never read again goes */
    const step_t *s = &e->p->steps[index];
    const int n_in = s->node->n_inputs;
    for (int i = 0; i < n_in + s->node->n_outputs; ++i) {
        const int slot = i < n_in ? s->in[i] : s->out[i - n_in];
        if (slot < 0 || e->p->last_use[slot] != index || e->asked[slot]) continue;
        vn_tensor_free(e->slots[slot]);
        e->slots[slot] = NULL;
    }
}

static vn_status_t run_step(execution_t *e, int index) {
    const step_t *s = &e->p->steps[index];
    const vn_node_t *n = s->node;
    vn_tensor_t *in[MAX_ARITY] = {0}, *out[MAX_ARITY] = {0};
    vn_io_t *io[MAX_ARITY] = {0};
    for (int i = 0; i < n->n_inputs; ++i) in[i] = s->in[i] < 0 ? NULL : e->slots[s->in[i]];
    for (int i = 0; i < n->n_outputs; ++i) io[i] = s->out[i] < 0 ? NULL : e->asked[s->out[i]];
    step_call_t c = {.step = s, .n_in = n->n_inputs, .n_out = n->n_outputs, .in = in, .out = out, .io = io, .err = e->err};
    while (c.n_out > 1 && s->out[c.n_out - 1] < 0) --c.n_out;
    const vn_status_t status = e->run(e->self, &c);
    for (int i = 0; i < n->n_outputs; ++i) {
        if (status == VN_OK && s->out[i] >= 0) {
            vn_tensor_free(e->slots[s->out[i]]);
            e->slots[s->out[i]] = out[i];
        } else {
            vn_tensor_free(out[i]);
        }
    }
    if (status == VN_OK) let_go(e, index);
    return status;
}

static vn_status_t take_output(execution_t *e, vn_io_t *io) {
    const vn_tensor_t *t = e->slots[slot_of(e->p, io->name)];
    vn_tensor_t *to;
    size_t bytes;
    if (!t) return vn_fail(e->err, VN_ERR_INTERNAL, "output '%.100s' was not computed", io->name);
    if (t == io->tensor) return VN_OK; /* written in place */
    VN_TRY(vn_worker_output(io, t->dtype, t->rank, t->dims, &to, e->err));
    if (t->dtype == VN_STRING) {
        const vn_string_t *text = t->data;
        for (int64_t k = 0; k < t->count; ++k) VN_TRY(vn_tensor_set_string(to, k, text[k].text, text[k].length, e->err));
    } else if (vn_dtype_storage(t->dtype, t->count, &bytes) && bytes) {
        memcpy(to->data, t->data, bytes);
    }
    return VN_OK;
}

static vn_status_t execute(execution_t *e, vn_run_request_t *rq) {
    for (int i = 0; i < rq->n_outputs; ++i) {
        const int slot = slot_of(e->p, rq->outputs[i].name);
        if (slot < 0) return vn_fail(e->err, VN_ERR_USAGE, "the model has no value '%.100s'", rq->outputs[i].name);
        e->asked[slot] = &rq->outputs[i];
    }
    VN_TRY(give_inputs(e, rq));
    for (int i = 0; i < e->p->n_steps; ++i) VN_TRY(run_step(e, i));
    for (int i = 0; i < rq->n_outputs; ++i) VN_TRY(take_output(e, &rq->outputs[i]));
    return VN_OK;
}

vn_status_t steps_run(const steps_t *s, step_run_fn run, void *self, vn_run_request_t *rq, vn_error_t *err) {
    execution_t e = {.p = s, .run = run, .self = self, .err = err};
    e.slots = vn_alloc((size_t)s->n_slots, sizeof *e.slots);
    e.asked = vn_alloc((size_t)s->n_slots, sizeof *e.asked);
    const vn_status_t status = e.slots && e.asked ? execute(&e, rq) : vn_fail(err, VN_ERR_NOMEM, "run: out of memory");
    for (int i = 0; e.slots && i < s->n_slots; ++i) vn_tensor_free(e.slots[i]);
    vn_free(e.slots);
    vn_free(e.asked);
    return status;
}
