/* made.h -- small models for the tests of the graph room, made by the builder. */
#ifndef VN_TEST_GRAPH_MADE_H
#define VN_TEST_GRAPH_MADE_H

#include <string.h>

#include "support/vn_test.h"
#include "vernier/graph.h"

static inline vn_tensor_t *made_f32(vn_test_t *t, int rank, const int64_t *dims, float first) {
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, rank, dims, &x, NULL));
    for (int64_t i = 0; i < x->count; ++i) ((float *)x->data)[i] = first + (float)i;
    return x;
}

static inline vn_tensor_t *made_bool(vn_test_t *t, bool value) {
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(VN_BOOL, 0, NULL, &x, NULL));
    *(unsigned char *)x->data = value;
    return x;
}

static inline vn_model_t *made_model(vn_test_t *t) {
    vn_model_t *m;
    VN_ASSERT_OK(t, vn_model_new(10, &m, NULL));
    VN_ASSERT_OK(t, vn_model_set_opset(m, "", 21, NULL));
    return m;
}

/* NULL-terminated lists of names, at most 8. */
typedef const char *made_names_t[9];
static inline vn_node_t *made_node(vn_test_t *t, vn_graph_t *g, const char *name, const char *op, made_names_t in, made_names_t out) {
    int n_in = 0, n_out = 0;
    vn_node_t *n;
    while (in[n_in]) ++n_in;
    while (out[n_out]) ++n_out;
    VN_ASSERT_OK(t, vn_graph_add_node(g, name, op, "", n_in, in, n_out, out, &n, NULL));
    return n;
}
#define NODE(g, name, op, in, ...) made_node(t, g, name, op, (made_names_t)in, (made_names_t){__VA_ARGS__})
#define IN(...) \
    { __VA_ARGS__ }

/* x: f32[2,3] -> Mul(x,x) -> Add(w) -> If(flag){ Neg(sum) | Add(sum, k) } -> y. w, k initialisers. */
static inline vn_model_t *made_if(vn_test_t *t) {
    const int64_t dims[] = {2, 3};
    vn_model_t *m = made_model(t), *bodies[2];
    vn_graph_t *g = m->graph;
    vn_tensor_t *w = made_f32(t, 2, dims, 1), *k = made_f32(t, 0, NULL, 5);
    VN_ASSERT_OK(t, vn_graph_add_input(g, "x", VN_F32, 2, dims, NULL));
    VN_ASSERT_OK(t, vn_graph_add_input(g, "flag", VN_BOOL, 0, NULL, NULL));
    VN_ASSERT_OK(t, vn_graph_add_output(g, "y", VN_F32, 2, dims, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(g, "w", w, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(g, "k", k, NULL));
    NODE(g, "square", "Mul", IN("x", "x"), "xx");
    NODE(g, "", "Add", IN("xx", "w"), "sum");
    vn_node_t *n = NODE(g, "choose", "If", IN("flag"), "y");
    for (int b = 0; b < 2; ++b) {
        bodies[b] = made_model(t);
        VN_ASSERT_OK(t, vn_graph_add_output(bodies[b]->graph, "r", VN_F32, 2, dims, NULL));
        if (b == 0) NODE(bodies[b]->graph, "", "Neg", IN("sum"), "r");
        else NODE(bodies[b]->graph, "", "Add", IN("sum", "k"), "r");
        vn_attr_t a = {.name = b == 0 ? "then_branch" : "else_branch", .kind = VN_ATTR_GRAPH, .g = bodies[b]->graph};
        VN_ASSERT_OK(t, vn_node_set_attr(m, n, &a, NULL));
        vn_model_free(bodies[b]);
    }
    vn_tensor_free(w);
    vn_tensor_free(k);
    return m;
}

#endif
