/* weights.c -- a product together with the operators that make its weights out of packed constants, unobserved, as a model of its own.
 *
 * Isolated, a product gets its dequantised weights as numbers, and in situ they are exposed; either way a back end no longer sees that they
 * are compressed, and so does not take the kernel that it takes in the whole model (OpenVINO then quantises the activations on the fly). Here the
 * chain from the constants to the product stays inside, and only the activations come from outside. Judged as one region.
 */
#include <stdio.h>
#include <string.h>

#include "study/study_internal.h"

enum { MAX_CHAIN = 12 };

typedef struct chain {
    int nodes[MAX_CHAIN + 1]; /* in graph order, the product last */
    int count;
    bool packed; /* some constant has fewer than 32 bits an element */
} chain_t;

static bool is_constant(const vn_node_t *n) { return !*n->domain && strcmp(n->op, "Constant") == 0; }

static const vn_tensor_t *constant(const vn_study_t *s, const char *name) {
    const vn_tensor_t *t = vn_graph_init(s->model->graph, name);
    return t ? t : vn_bundle_find(&s->constants, name);
}

static bool has(const chain_t *c, int node) {
    for (int i = 0; i < c->count; ++i)
        if (c->nodes[i] == node) return true;
    return false;
}

/* The value depends on constants alone, by few plain operators, which are added to the chain. */
static bool from_constants(const vn_study_t *s, const char *name, chain_t *c) {
    const vn_graph_t *g = s->model->graph;
    const vn_tensor_t *t = constant(s, name);
    if (t) {
        c->packed |= t->count > 1 && vn_dtype_bits(t->dtype) > 1 && vn_dtype_bits(t->dtype) < 32 && t->dtype != VN_BOOL;
        return true;
    }
    const int p = vn_graph_producer(g, name);
    if (p < 0) return false;
    const vn_node_t *n = &g->nodes[p];
    vn_op_info_t info;
    if (has(c, p)) return true;
    if (is_constant(n) || n->n_outputs != 1 || !vn_oracle_knows(s->model, n, &info)) return false;
    if (info.cls == VN_CLASS_CONTROL || info.cls == VN_CLASS_RANDOM || vn_model_function(s->model, n->domain, n->op, n->overload))
        return false;
    for (int k = 0; k < n->n_inputs; ++k)
        if (*n->inputs[k] && !from_constants(s, n->inputs[k], c)) return false;
    if (c->count == MAX_CHAIN) return false;
    c->nodes[c->count++] = p;
    return true;
}

/* Chains to every operand that is made of constants; false if there is none, or nothing packed in it. */
static bool find(const vn_study_t *s, int node, chain_t *c) {
    const vn_node_t *n = &s->model->graph->nodes[node];
    *c = (chain_t){0};
    for (int k = 0; k < n->n_inputs; ++k) {
        chain_t with = *c;
        if (*n->inputs[k] && !constant(s, n->inputs[k]) && from_constants(s, n->inputs[k], &with)) *c = with;
    }
    if (c->count == 0 || !c->packed) return false;
    for (int i = 1; i < c->count; ++i) /* graph order is topological */
        for (int j = i; j > 0 && c->nodes[j] < c->nodes[j - 1]; --j) {
            const int t = c->nodes[j];
            c->nodes[j] = c->nodes[j - 1];
            c->nodes[j - 1] = t;
        }
    c->nodes[c->count++] = node;
    return true;
}

static bool made_inside(const vn_study_t *s, const chain_t *c, const char *name) {
    const int p = vn_graph_producer(s->model->graph, name);
    return p >= 0 && has(c, p);
}

static vn_status_t build(const vn_study_t *s, const chain_t *c, const vn_step_t *step, vn_model_t **out, vn_bundle_t *in, vn_error_t *err) {
    const vn_graph_t *from = s->model->graph;
    VN_TRY(vn_model_new(s->model->ir_version, out, err));
    vn_graph_t *g = (*out)->graph;
    for (int i = 0; i < s->model->n_opsets; ++i)
        VN_TRY(vn_model_set_opset(*out, s->model->opsets[i].domain, s->model->opsets[i].version, err));
    for (int i = 0; i < c->count; ++i) {
        const vn_node_t *n = &from->nodes[c->nodes[i]];
        vn_node_t *copy;
        VN_TRY(vn_graph_add_node(g, n->name, n->op, n->domain, n->n_inputs, n->inputs, n->n_outputs, n->outputs, &copy, err));
        for (int a = 0; a < n->n_attrs; ++a) VN_TRY(vn_node_set_attr(*out, copy, &n->attrs[a], err));
        for (int k = 0; k < n->n_inputs; ++k) {
            const char *name = n->inputs[k];
            if (!*name || made_inside(s, c, name) || vn_graph_init(g, name) || vn_bundle_find(in, name)) continue;
            const vn_tensor_t *t = constant(s, name);
            if (t) {
                VN_TRY(vn_graph_add_init(g, name, t, err));
                continue;
            }
            if (i + 1 != c->count || !step->inputs[k] || step->inputs[k]->kind != VN_VALUE_TENSOR)
                return vn_fail(err, VN_ERR_INTERNAL, "operand %s of %s has no value", name, n->path);
            t = step->inputs[k]->tensor;
            VN_TRY(vn_graph_add_input(g, name, t->dtype, t->rank, t->dims, err));
            VN_TRY(vn_bundle_add(in, name, step->inputs[k]->tensor, err));
        }
    }
    const vn_ref_t *r = &step->refs[0];
    VN_TRY(vn_graph_add_output(g, step->node->outputs[0], r->dtype, r->rank, r->dims, err));
    return vn_model_finish(*out, err);
}

static void names(const vn_study_t *s, const chain_t *c, char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "As one with its weights (");
    for (int i = 0; i < c->count && n < size; ++i)
        n += (size_t)snprintf(out + n, size - n, "%s%.24s", i ? "+" : "", s->model->graph->nodes[c->nodes[i]].op);
    if (n < size) snprintf(out + n, size - n, "): ");
}

static vn_status_t judge(vn_study_t *s, vn_backend_t *b, const chain_t *c, const vn_step_t *step, const char *path, const vn_model_t *m,
                         const vn_value_t *const *inputs, const vn_ref_t *ref, const vn_output_t *got, vn_error_t *err) {
    const vn_value_t *actual[1] = {got->value};
    const int64_t poison[1] = {got->poison_left};
    const bool guard[1] = {got->guard_broken};
    vn_finding_t *f = vn_alloc(1, sizeof *f);
    if (!f) return vn_fail(err, VN_ERR_NOMEM, "no memory");
    const vn_question_t q = {.model = m,
                             .inputs = inputs,
                             .contract = &s->o->contract,
                             .refs = ref,
                             .n_outputs = 1,
                             .actual = actual,
                             .poison_left = poison,
                             .guard_broken = guard,
                             .alpha = s->alpha,
                             .effort = s->o->effort,
                             .hint = &b->hint};
    vn_status_t st = vn_judge(&q, f, err);
    if (st == VN_OK && *f->words) {
        char words[sizeof f->words];
        names(s, c, words, 200);
        snprintf(words + strlen(words), sizeof words - strlen(words), "%.300s", f->words);
        memcpy(f->words, words, sizeof words);
    }
    if (st == VN_OK) st = vn_row_from(s->record, f, path, step->node, 0, b->text, "with-weights", s->steps, err);
    vn_free(f);
    return st;
}

static vn_status_t ask(vn_study_t *s, vn_backend_t *b, const chain_t *c, const vn_step_t *step, const char *path, const vn_model_t *m,
                       const vn_bundle_t *in, const vn_value_t *const *inputs, const vn_ref_t *ref, vn_error_t *err) {
    vn_output_spec_t spec = {.name = step->node->outputs[0], .dtype = ref->dtype, .rank = ref->rank};
    memcpy(spec.dims, ref->dims, sizeof spec.dims);
    vn_output_t got = {0};
    vn_error_t why = {0};
    int64_t session = 0;
    double seconds = 0;
    vn_status_t run = vn_worker_load_model(b->worker, m, s->model->folder, &session, &why);
    if (run == VN_OK) run = vn_worker_run(b->worker, session, in, 1, &spec, &got, &seconds, &why);
    if (session) vn_worker_unload(b->worker, session);
    s->record->backends[b->index].seconds += seconds;
    vn_status_t st = VN_OK;
    if (run == VN_OK) st = judge(s, b, c, step, path, m, inputs, ref, &got, err);
    else if (run == VN_ERR_NOMEM || run == VN_ERR_INTERNAL) st = vn_fail(err, run, "%s", why.text);
    else st = vn_row_plain(s->record, vn_verdict_of_status(run), why.text, path, step->node, 0, b->text, "with-weights", s->steps, err);
    vn_output_free(&got);
    return st;
}

vn_status_t vn_study_weights(vn_study_t *s, const vn_step_t *step, const char *path, vn_error_t *err) {
    chain_t c;
    if (!step->top || step->node->n_outputs != 1 || step->status != VN_OK || !step->refs[0].value) return VN_OK;
    const int node = vn_graph_producer(s->model->graph, step->node->outputs[0]); /* the step's node may be a copy */
    if (node < 0 || !find(s, node, &c)) return VN_OK;
    vn_model_t *m = NULL;
    vn_bundle_t in = {0};
    vn_ref_t ref = {0};
    vn_error_t why = {0};
    vn_value_t **inputs = NULL;
    vn_status_t st = build(s, &c, step, &m, &in, err);
    vn_status_t eval = VN_OK;
    if (st == VN_OK) eval = vn_oracle_region(m, &in, &s->o->contract, VN_WANT_VARIANCE, &ref, &why);
    if (eval == VN_ERR_NOMEM) st = vn_fail(err, eval, "%s", why.text);
    if (st == VN_OK && eval == VN_OK) {
        const int n = m->graph->n_inputs;
        inputs = vn_alloc((size_t)n + 1, sizeof *inputs);
        if (!inputs) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
        for (int k = 0; k < n && st == VN_OK; ++k) {
            inputs[k] = vn_value_tensor(vn_tensor_retain(vn_bundle_find(&in, m->graph->inputs[k].name)));
            if (!inputs[k]) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
        }
        for (int b = 0; b < s->n_backends && st == VN_OK; ++b)
            if (s->backends[b].worker) st = ask(s, &s->backends[b], &c, step, path, m, &in, (const vn_value_t *const *)inputs, &ref, err);
        for (int k = 0; inputs && k < n; ++k) vn_value_free(inputs[k]);
        vn_free(inputs);
    }
    vn_ref_free(&ref);
    vn_bundle_free(&in);
    vn_model_free(m);
    return st;
}
