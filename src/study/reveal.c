/* reveal.c -- a sum on a real back end as the callback that src/schedule asks: tensors in, one tensor out. */
#include <string.h>

#include "study/reveal.h"

#define PREFIX "r_"

/* What is loaded now, and with which weights. */
typedef struct session {
    vn_worker_t *worker;
    const vn_reveal_model_t *m;
    int64_t id;                             /* 0: nothing */
    vn_tensor_t *weights[VN_REVEAL_INPUTS]; /* in the operator's layout */
    vn_arena_t *arena;                      /* of the names */
    const char *names[VN_REVEAL_INPUTS];    /* run inputs of the component */
    const char *output;
    int64_t loads;
} session_t;

static void unload(session_t *s) {
    if (s->id > 0) vn_worker_unload(s->worker, s->id);
    s->id = 0;
    for (int k = 0; k < VN_REVEAL_INPUTS; ++k) {
        vn_tensor_free(s->weights[k]);
        s->weights[k] = NULL;
    }
}

static bool plain(const vn_layout_t *l) {
    for (int d = 0; d < l->rank; ++d)
        if (l->permutation[d] != d) return false;
    return true;
}

/* Axes as the operator has them, unmerged. */
static vn_status_t turn(const vn_layout_t *l, const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    vn_tensor_t *shaped = NULL, *turned = NULL;
    vn_status_t st = vn_tensor_reshape(t, l->rank, l->dims, &shaped, err);
    if (st == VN_OK && plain(l)) {
        *out = shaped;
        return VN_OK;
    }
    if (st == VN_OK) st = vn_tensor_permute(shaped, l->permutation, &turned, err);
    if (st == VN_OK) st = vn_tensor_contiguous(turned, out, err);
    vn_tensor_free(shaped);
    vn_tensor_free(turned);
    return st;
}

/* The tensor of the sum, seen as the operator's input. */
static vn_status_t arrange(const vn_layout_t *l, const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    vn_tensor_t *turned;
    if (!l->stored_rank) return turn(l, t, out, err);
    VN_TRY(turn(l, t, &turned, err));
    const vn_status_t st = vn_tensor_reshape(turned, l->stored_rank, l->stored, out, err);
    vn_tensor_free(turned);
    return st;
}

static vn_status_t load(session_t *s, vn_tensor_t *const *given, vn_error_t *err) {
    const vn_reveal_model_t *m = s->m;
    const vn_tensor_t **in = vn_alloc((size_t)m->n_slots + 1, sizeof *in);
    bool *frozen = vn_alloc((size_t)m->n_slots + 1, sizeof *frozen);
    vn_model_t *model = NULL;
    vn_dim_t dims[VN_MAX_RANK] = {0};
    vn_type_t type = {.kind = VN_TYPE_TENSOR, .dtype = m->dtype, .rank = m->out_rank, .dims = dims};
    for (int d = 0; d < m->out_rank; ++d) dims[d].value = m->out_dims[d];
    vn_status_t st = in && frozen ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
    for (int k = 0; k < m->n_slots && st == VN_OK; ++k) {
        in[k] = m->fixed[k];
        frozen[k] = true;
    }
    for (int k = 0; k < m->n_inputs && st == VN_OK; ++k) {
        in[m->slot[k]] = given[k];
        frozen[m->slot[k]] = (m->constant >> k & 1) != 0;
    }
    const vn_component_t c = {.prefix = PREFIX, .node = m->node, .inputs = in, .frozen = frozen, .out_types = &type};
    if (st == VN_OK) st = vn_model_new(m->model->ir_version, &model, err);
    if (st == VN_OK) st = vn_model_add_component(model, m->model, &c, err);
    if (st == VN_OK) st = vn_model_finish(model, err);
    if (st == VN_OK) st = vn_worker_load_model(s->worker, model, NULL, &s->id, err);
    if (st == VN_OK) {
        s->loads++;
        for (int k = 0; k < m->n_inputs; ++k)
            if (m->constant >> k & 1) s->weights[k] = vn_tensor_retain(given[k]);
    }
    vn_model_free(model);
    vn_free(in);
    vn_free(frozen);
    return st;
}

/* Names of the component's values, for all sessions. */
static vn_status_t name_values(session_t *s, vn_error_t *err) {
    const vn_reveal_model_t *m = s->m;
    bool complete = (s->arena = vn_arena_new()) != NULL;
    for (int k = 0; k < m->n_inputs && complete; ++k)
        complete = (s->names[k] = vn_arena_printf(s->arena, PREFIX "%s", m->node->inputs[m->slot[k]])) != NULL;
    if (complete) complete = (s->output = vn_arena_printf(s->arena, PREFIX "%s", m->node->outputs[0])) != NULL;
    return complete ? VN_OK : vn_fail(err, VN_ERR_NOMEM, "no memory");
}

static bool same_weights(const session_t *s, vn_tensor_t *const *given) {
    for (int k = 0; k < s->m->n_inputs; ++k)
        if ((s->m->constant >> k & 1) && !(s->weights[k] && vn_tensor_equal_bits(s->weights[k], given[k]))) return false;
    return true;
}

vn_status_t vn_layout_undo(const vn_layout_t *l, const vn_tensor_t *t, vn_tensor_t **out, vn_error_t *err) {
    int inverse[VN_MAX_RANK] = {0};
    int64_t dims[VN_MAX_RANK] = {0};
    vn_tensor_t *parted = NULL, *turned = NULL;
    if (plain(l)) return vn_tensor_copy(t, out, err);
    for (int d = 0; d < l->rank; ++d) {
        inverse[l->permutation[d]] = d;
        dims[d] = l->dims[l->permutation[d]];
    }
    vn_status_t st = l->stored_rank ? vn_tensor_reshape(t, l->rank, dims, &parted, err) : VN_OK;
    if (st == VN_OK) st = vn_tensor_permute(parted ? parted : t, inverse, &turned, err);
    if (st == VN_OK) st = vn_tensor_copy(turned, out, err);
    vn_tensor_free(turned);
    vn_tensor_free(parted);
    return st;
}

static vn_status_t take(const session_t *s, vn_output_t *o, vn_tensor_t **output, vn_error_t *err) {
    if (!o->value || o->value->kind != VN_VALUE_TENSOR || o->form_error[0])
        return vn_fail(err, VN_ERR_WORKER, "the result of %s is %s", s->m->node->op, o->form_error[0] ? o->form_error : "missing");
    return vn_layout_undo(&s->m->out, o->value->tensor, output, err);
}

static vn_status_t run(void *context, const vn_tensor_t *const *inputs, vn_tensor_t **output, vn_error_t *err) {
    session_t *s = context;
    const vn_reveal_model_t *m = s->m;
    vn_tensor_t *given[VN_REVEAL_INPUTS] = {0};
    vn_bundle_t bundle = {0};
    vn_status_t st = VN_OK;
    *output = NULL;
    for (int k = 0; k < m->n_inputs && st == VN_OK; ++k) st = arrange(&m->in[k], inputs[k], &given[k], err);
    if (st == VN_OK && s->id > 0 && !same_weights(s, given)) unload(s);
    if (st == VN_OK && s->id <= 0) st = load(s, given, err);
    for (int k = 0; k < m->n_inputs && st == VN_OK; ++k)
        if (!(m->constant >> k & 1)) st = vn_bundle_add(&bundle, s->names[k], given[k], err);
    vn_output_spec_t spec = {.name = s->output, .dtype = m->dtype, .rank = m->out_rank};
    memcpy(spec.dims, m->out_dims, sizeof spec.dims);
    vn_output_t got = {0};
    double seconds;
    if (st == VN_OK) st = vn_worker_run(s->worker, s->id, &bundle, 1, &spec, &got, &seconds, err);
    if (st == VN_OK) st = take(s, &got, output, err);
    vn_output_free(&got);
    vn_bundle_free(&bundle);
    for (int k = 0; k < m->n_inputs; ++k) vn_tensor_free(given[k]);
    return st;
}

static char *copy_text(const char *text) {
    const size_t n = strlen(text) + 1;
    char *copy = vn_alloc(n, 1);
    if (copy) memcpy(copy, text, n);
    return copy;
}

/* Gemm with another alpha is another model. */
static vn_status_t measure_alpha(vn_worker_t *w, const vn_sum_op_t *op, const vn_schedule_t *s, unsigned constant, vn_card_t *card,
                                 vn_error_t *err) {
    vn_reveal_model_t m = {0};
    VN_TRY(vn_reveal_model_of(op, constant, &m, err));
    session_t session = {.worker = w, .m = &m};
    const vn_call_t call = {.run = run, .context = &session, .constant = constant};
    vn_status_t st = vn_node_set_float(m.owned, &m.owned->graph->nodes[0], "alpha", (float)VN_CARD_ALPHA, err);
    if (st == VN_OK) st = name_values(&session, err);
    if (st == VN_OK) st = vn_measure_alpha(&call, op, s, card, err);
    unload(&session);
    vn_arena_free(session.arena);
    vn_reveal_model_clear(&m);
    return st;
}

vn_status_t vn_reveal_on(vn_worker_t *w, const vn_reveal_model_t *m, const vn_sum_op_t *op, const vn_reveal_options_t *o,
                         vn_schedule_t **out, vn_card_t **card, int64_t *loads, vn_error_t *err) {
    session_t s = {.worker = w, .m = m};
    const vn_call_t call = {.run = run, .context = &s, .constant = m->constant};
    *out = NULL;
    vn_status_t st = name_values(&s, err);
    if (st == VN_OK) st = vn_reveal(&call, op, o, out, err);
    if (st == VN_OK && card && op->kind == VN_SUM_MATMUL && (*out)->n_classes > 0 && (*out)->classes[0].tree)
        st = vn_measure_product(&call, op, *out, card, err);
    unload(&s);
    if (st == VN_OK && card && *card && op->addend && op->dtype == VN_F32 && m->owned)
        st = measure_alpha(w, op, *out, m->constant, *card, err);
    vn_arena_free(s.arena);
    if (loads) *loads = s.loads;
    return st;
}

vn_status_t vn_study_reveal(const vn_reveal_request_t *r, vn_reveal_result_t *out, vn_error_t *err) {
    *out = (vn_reveal_result_t){0};
    vn_spec_t spec;
    vn_sum_op_t op = r->op;
    vn_reveal_model_t m = {0};
    vn_worker_t *w = NULL;
    const vn_worker_options_t wo = {.timeout_s = r->timeout_s, .memory_bytes = r->memory_bytes};
    vn_status_t st = vn_spec_parse(r->backend, &spec, err);
    if (st == VN_OK)
        st = r->model_path ? vn_reveal_model_node(r->model_path, r->node, r->n_shapes, r->shapes, r->reveal.seed, &op, &m, err)
                           : vn_reveal_model_of(&op, r->constant, &m, err);
    if (st == VN_OK) st = vn_backend_available(&spec, err);
    if (st == VN_OK) st = vn_worker_start(&spec, &wo, &w, err);
    if (st == VN_OK) {
        out->identity = copy_text(vn_worker_identity(w));
        out->environment = copy_text(vn_worker_environment(w));
        if (!out->identity || !out->environment) st = vn_fail(err, VN_ERR_NOMEM, "no memory");
    }
    if (st == VN_OK) st = vn_reveal_on(w, &m, &op, &r->reveal, &out->schedule, r->card ? &out->card : NULL, &out->loads, err);
    vn_worker_stop(w);
    vn_reveal_model_clear(&m);
    return st;
}

void vn_reveal_result_free(vn_reveal_result_t *r) {
    vn_schedule_free(r->schedule);
    vn_card_free(r->card);
    vn_free(r->identity);
    vn_free(r->environment);
    *r = (vn_reveal_result_t){0};
}
