/* op_gradient.c -- the operator Gradient of ai.onnx.preview.training: the enclosing graph differentiated (gradient.c), run as a region. */
#include <string.h>

#include "oracle/move.h"
#include "oracle/vjp.h"

/* An isolated node stands in the top graph or in a body; y says where. */
static vn_status_t differentiated(vn_eval_t *e, const vn_gradient_ask_t *ask, vn_model_t **out) {
    vn_bundle_t inputs = {0};
    vn_status_t s = VN_OK;
    for (int k = 0; k < e->n_in && s == VN_OK; ++k) {
        s = vn_move_need(e, k);
        if (s == VN_OK)
            s = vn_bundle_add(&inputs, k < ask->n_xs ? ask->xs[k] : ask->zs[k - ask->n_xs], (vn_tensor_t *)(uintptr_t)e->in[k].t, e->err);
    }
    if (s == VN_OK) s = vn_oracle_gradient(e->graph ? e->graph : e->model->graph, ask, &inputs, out, e->err);
    vn_bundle_free(&inputs);
    return s;
}

static vn_status_t run(vn_eval_t *e, const vn_gradient_ask_t *ask, vn_model_t *m) {
    const char *inputs[64], *outputs[64];
    if (e->n_in > 64) return vn_eval_fail(e, VN_ERR_UNSUPPORTED, "more than 64 independent variables");
    for (int k = 0; k < e->n_in; ++k) inputs[k] = k < ask->n_xs ? ask->xs[k] : ask->zs[k - ask->n_xs];
    for (int k = 0; k < ask->n_xs; ++k) outputs[k] = m->graph->outputs[k].name;
    const vn_function_t body = {.domain = e->node->domain,
                                .name = e->node->op,
                                .overload = "",
                                .n_inputs = e->n_in,
                                .n_outputs = ask->n_xs,
                                .inputs = inputs,
                                .outputs = outputs,
                                .n_opsets = m->n_opsets,
                                .opsets = m->opsets,
                                .body = m->graph};
    return vn_frame_function(e->run, &body, e->node, e->in, e->out, e->err);
}

vn_status_t vn_eval_gradient(vn_eval_t *e) {
    vn_gradient_ask_t ask;
    vn_model_t *m = NULL;
    vn_arena_t *arena = vn_arena_new();
    vn_status_t s = arena ? vn_gradient_node_ask(e->node, arena, &ask, e->err) : vn_eval_fail(e, VN_ERR_NOMEM, "no memory");
    if (s == VN_OK) s = differentiated(e, &ask, &m);
    if (s == VN_OK) s = run(e, &ask, m);
    vn_model_free(m);
    vn_arena_free(arena);
    return s;
}

vn_status_t vn_infer_gradient(vn_eval_t *e) {
    for (int k = 0; k < e->n_out; ++k) {
        VN_TRY(vn_move_need(e, k));
        const vn_shape_t s = vn_shape_of(e->in[k].t);
        VN_TRY(vn_move_infer(e, k, e->in[k].t->dtype, &s));
    }
    return VN_OK;
}
