/* models.h -- the few models that tests of workers run: built in memory, results known by hand. */
#ifndef VN_TEST_WORKER_MODELS_H
#define VN_TEST_WORKER_MODELS_H

#include "vernier/graph.h"
#include "vernier/worker.h"

typedef struct vn_test_model {
    void *bytes;
    size_t size;
} vn_test_model_t;

/** y = Relu(x[2,3] @ w[3,2] + b[2]), w = {{1,2},{3,4},{5,6}}, b = {-30, 1}. All f32, small integers: exact in any order. */
static inline vn_status_t vn_test_affine(vn_test_model_t *out, vn_error_t *err) {
    const int64_t x[] = {2, 3}, w[] = {3, 2}, b[] = {2}, y[] = {2, 2};
    vn_model_t *m;
    vn_tensor_t *wt, *bt;
    VN_TRY(vn_model_new(8, &m, err));
    VN_TRY(vn_model_set_opset(m, "", 13, err));
    VN_TRY(vn_tensor_new(VN_F32, 2, w, &wt, err));
    VN_TRY(vn_tensor_new(VN_F32, 1, b, &bt, err));
    for (int i = 0; i < 6; ++i) vn_tensor_set_f64(wt, i, i + 1);
    vn_tensor_set_f64(bt, 0, -30);
    vn_tensor_set_f64(bt, 1, 1);
    VN_TRY(vn_graph_add_input(m->graph, "x", VN_F32, 2, x, err));
    VN_TRY(vn_graph_add_init(m->graph, "w", wt, err));
    VN_TRY(vn_graph_add_init(m->graph, "b", bt, err));
    vn_tensor_free(wt);
    vn_tensor_free(bt);
    VN_TRY(vn_graph_add_node(m->graph, "mm", "MatMul", "", 2, (const char *[]){"x", "w"}, 1, (const char *[]){"p"}, NULL, err));
    VN_TRY(vn_graph_add_node(m->graph, "add", "Add", "", 2, (const char *[]){"p", "b"}, 1, (const char *[]){"q"}, NULL, err));
    VN_TRY(vn_graph_add_node(m->graph, "relu", "Relu", "", 1, (const char *[]){"q"}, 1, (const char *[]){"y"}, NULL, err));
    VN_TRY(vn_graph_add_output(m->graph, "y", VN_F32, 2, y, err));
    VN_TRY(vn_model_finish(m, err));
    VN_TRY(vn_model_bytes(m, &out->bytes, &out->size, err));
    vn_model_free(m);
    return VN_OK;
}

/** One node, one or two inputs, one output, all of one type each. Output rank -1: open. */
typedef struct vn_test_node {
    const char *op, *domain;
    int64_t opset;
    int n_inputs;
    vn_dtype_t in;
    int rank;
    const int64_t *dims;
    vn_dtype_t out;
    int out_rank;
    const int64_t *out_dims;
} vn_test_node_t;
static inline vn_status_t vn_test_one_node(const vn_test_node_t *n, vn_test_model_t *out, vn_error_t *err) {
    static const char *const inputs[] = {"x", "x2"}, *const outputs[] = {"y"};
    vn_model_t *m;
    VN_TRY(vn_model_new(8, &m, err));
    VN_TRY(vn_model_set_opset(m, "", n->opset, err));
    if (n->domain[0]) VN_TRY(vn_model_set_opset(m, n->domain, 1, err));
    for (int i = 0; i < n->n_inputs; ++i) VN_TRY(vn_graph_add_input(m->graph, inputs[i], n->in, n->rank, n->dims, err));
    VN_TRY(vn_graph_add_node(m->graph, "node", n->op, n->domain, n->n_inputs, inputs, 1, outputs, NULL, err));
    VN_TRY(vn_graph_add_output(m->graph, "y", n->out, n->out_rank, n->out_dims, err));
    VN_TRY(vn_model_finish(m, err));
    VN_TRY(vn_model_bytes(m, &out->bytes, &out->size, err));
    vn_model_free(m);
    return VN_OK;
}

/** A tensor of f32 values in a bundle. */
static inline vn_status_t vn_test_input(vn_bundle_t *b, const char *name, int rank, const int64_t *dims, const double *v, vn_error_t *err) {
    vn_tensor_t *t;
    VN_TRY(vn_tensor_new(VN_F32, rank, dims, &t, err));
    for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_f64(t, i, v[i]);
    vn_status_t s = vn_bundle_add(b, name, t, err);
    vn_tensor_free(t);
    return s;
}

#endif
