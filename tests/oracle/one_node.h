/* one_node.h -- one operator on given tensors against the oracle, for tests: builds the model, runs it, keeps the references. */
#ifndef VN_TEST_ONE_NODE_H
#define VN_TEST_ONE_NODE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/graph.h"
#include "vernier/oracle.h"

enum { ONE_MAX = 10 };

typedef struct one_attr {
    const char *name; /* NULL ends the list */
    enum { ONE_INT, ONE_FLOAT, ONE_TEXT } kind;
    double number;
    const char *text;
} one_attr_t;

typedef struct one_node {
    const char *domain, *op;
    int version, n_in, n_out;
    vn_tensor_t *in[ONE_MAX]; /* NULL: absent */
    one_attr_t attrs[6];
    const char *contract; /* text of vn_contract_parse */
    int want;
    /* filled by one_run */
    vn_ref_t out[4];
    vn_error_t err;
} one_node_t;

static inline vn_model_t *one_model(vn_test_t *t, const one_node_t *c) {
    static const char *const names[ONE_MAX] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, *const outs[] = {"y", "z", "w", "v"};
    vn_model_t *m;
    vn_error_t err;
    const char *inputs[ONE_MAX];
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, c->domain, c->version, &err), err);
    for (int k = 0; k < c->n_in; ++k) {
        inputs[k] = c->in[k] ? names[k] : "";
        if (c->in[k])
            VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, names[k], c->in[k]->dtype, c->in[k]->rank, c->in[k]->dims, &err), err);
    }
    vn_node_t *node;
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(m->graph, "n", c->op, c->domain, c->n_in, inputs, c->n_out, outs, &node, &err), err);
    for (const one_attr_t *a = c->attrs; a->name; ++a) {
        if (a->kind == ONE_INT) VN_ASSERT_OK_ERR(t, vn_node_set_int(m, node, a->name, (int64_t)a->number, &err), err);
        if (a->kind == ONE_FLOAT) VN_ASSERT_OK_ERR(t, vn_node_set_float(m, node, a->name, (float)a->number, &err), err);
        if (a->kind == ONE_TEXT) VN_ASSERT_OK_ERR(t, vn_node_set_string(m, node, a->name, a->text, &err), err);
    }
    for (int k = 0; k < c->n_out; ++k) VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, outs[k], VN_F32, -1, NULL, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    return m;
}

/** Runs; returns the status, references in c->out. */
static inline vn_status_t one_try(vn_test_t *t, one_node_t *c) {
    vn_contract_t contract;
    VN_ASSERT_OK_ERR(t, vn_contract_parse(c->contract ? c->contract : "portable", &contract, &c->err), c->err);
    if (c->n_out == 0) c->n_out = 1;
    if (!c->domain) c->domain = "";
    vn_model_t *m = one_model(t, c);
    vn_value_t *values[ONE_MAX] = {0};
    for (int k = 0; k < c->n_in; ++k)
        if (c->in[k]) VN_ASSERT(t, (values[k] = vn_value_tensor(vn_tensor_retain(c->in[k]))) != NULL);
    const vn_status_t s =
        vn_oracle_node(m, &m->graph->nodes[0], (const vn_value_t *const *)values, NULL, &contract, c->want, c->out, &c->err);
    for (int k = 0; k < c->n_in; ++k) vn_value_free(values[k]);
    vn_model_free(m);
    return s;
}

static inline void one_run(vn_test_t *t, one_node_t *c) { VN_ASSERT_OK_ERR(t, one_try(t, c), c->err); }

static inline void one_free(one_node_t *c) {
    for (int k = 0; k < c->n_out; ++k) vn_ref_free(&c->out[k]);
    for (int k = 0; k < c->n_in; ++k) vn_tensor_free(c->in[k]);
}

static inline vn_tensor_t *one_tensor(vn_test_t *t, vn_dtype_t type, int rank, const int64_t *dims) {
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(type, rank, dims, &x, NULL));
    return x;
}

/** A vector of floats (rounded to the type) or integers from doubles. */
static inline vn_tensor_t *one_vector(vn_test_t *t, vn_dtype_t type, int64_t n, const double *v) {
    vn_tensor_t *x = one_tensor(t, type, 1, &n);
    for (int64_t i = 0; i < n; ++i)
        if (vn_dtype_is_float(type)) vn_tensor_set_f64(x, i, v[i]);
        else vn_tensor_set_i64(x, i, (int64_t)v[i]);
    return x;
}

static inline vn_tensor_t *one_ints(vn_test_t *t, vn_dtype_t type, int64_t n, const int64_t *v) {
    vn_tensor_t *x = one_tensor(t, type, 1, &n);
    for (int64_t i = 0; i < n; ++i) vn_tensor_set_i64(x, i, v[i]);
    return x;
}

static inline vn_tensor_t *one_scalar(vn_test_t *t, vn_dtype_t type, double v) {
    vn_tensor_t *x = one_tensor(t, type, 0, NULL);
    if (vn_dtype_is_float(type)) vn_tensor_set_f64(x, 0, v);
    else vn_tensor_set_i64(x, 0, (int64_t)v);
    return x;
}

/** Numbers that bite: zeros, units, ends of formats, neighbours of powers of two. */
static const double one_edges[] = {
    0.0,
    -0.0,
    1,
    -1,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3,
    -3,
    6,
    0x1p-149,
    -0x1p-149,
    0x1p-126,
    0x1.fffffep-127,
    0x1.fffffep127,
    -0x1.fffffep127,
    0x1.000002p0,
    0x1.fffffep-1,
    65504,
    65520,
    0x1p-24,
    0x1p-14,
    88.72284,
    -88.72284,
    -103.9721,
    1e4,
    -1e4,
    2e5,
    3.14159265,
    1.57079633,
    0.785398163,
    1e-4,
    -1e-4,
    1e-8,
    -1e-8,
    10,
    -10,
    30,
    -30,
    -5.5,
    -9.25,
    -13,
    0.99999,
    -0.99999,
    1.00001,
    INFINITY,
    -INFINITY,
    NAN,
};
enum { ONE_EDGES = sizeof one_edges / sizeof *one_edges };

#endif
