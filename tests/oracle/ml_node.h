/* ml_node.h -- one operator of ai.onnx.ml with lists as attributes and maps as operands, for tests: builds the model, runs it. */
#ifndef VN_TEST_ML_NODE_H
#define VN_TEST_ML_NODE_H

#include "oracle/one_node.h"

enum { ML_MOST = 24, ML_STRINGS_MOST = 400 };

typedef enum ml_kind {
    ML_END,
    ML_INT_KIND,
    ML_TEXT_KIND,
    ML_FLOAT_KIND,
    ML_INTS_KIND,
    ML_FLOATS_KIND,
    ML_STRINGS_KIND,
    ML_TENSOR_KIND
} ml_kind_t;

typedef struct ml_attr {
    const char *name; /* NULL ends the list */
    ml_kind_t kind;
    int64_t n;
    const void *data;
    double number;
} ml_attr_t;

#define ML_COUNT(type, ...) (int64_t)(sizeof((type[]){__VA_ARGS__}) / sizeof(type))
#define ML_INT(attr, v) \
    { attr, ML_INT_KIND, 0, NULL, (double)(v) }
#define ML_REAL(attr, v) \
    { attr, ML_FLOAT_KIND, 0, NULL, v }
#define ML_TEXT(attr, v) \
    { attr, ML_TEXT_KIND, 0, v, 0 }
#define ML_INTS(attr, ...) \
    { attr, ML_INTS_KIND, ML_COUNT(int64_t, __VA_ARGS__), (const int64_t[]){__VA_ARGS__}, 0 }
#define ML_FLOATS(attr, ...) \
    { attr, ML_FLOATS_KIND, ML_COUNT(float, __VA_ARGS__), (const float[]){__VA_ARGS__}, 0 }
#define ML_STRINGS(attr, ...) \
    { attr, ML_STRINGS_KIND, ML_COUNT(const char *, __VA_ARGS__), (const char *const[]){__VA_ARGS__}, 0 }
#define ML_LIST(attr, list_kind, count, p) \
    { attr, list_kind, count, p, 0 }

typedef struct ml_node {
    const char *op;
    int version, n_in, n_out;
    vn_value_t *in[4]; /* taken over */
    ml_attr_t attrs[ML_MOST];
    const char *contract;
    vn_ref_t out[2];
    vn_error_t err;
} ml_node_t;

static inline vn_value_t *ml_value(vn_test_t *t, vn_tensor_t *x) {
    vn_value_t *v = vn_value_tensor(x);
    VN_ASSERT(t, v != NULL);
    return v;
}

static inline vn_value_t *ml_matrix(vn_test_t *t, vn_dtype_t type, int64_t rows, int64_t columns, const double *v) {
    vn_tensor_t *x = one_tensor(t, type, 2, (int64_t[]){rows, columns});
    for (int64_t i = 0; i < rows * columns; ++i)
        if (vn_dtype_is_float(type)) vn_tensor_set_f64(x, i, v[i]);
        else vn_tensor_set_i64(x, i, (int64_t)v[i]);
    return ml_value(t, x);
}

static inline vn_tensor_t *ml_strings(vn_test_t *t, int64_t n, const char *const *text) {
    vn_tensor_t *x = one_tensor(t, VN_STRING, 1, &n);
    for (int64_t i = 0; i < n; ++i) VN_ASSERT_OK(t, vn_tensor_set_string(x, i, text[i], strlen(text[i]), NULL));
    return x;
}

/** A map; takes over both. */
static inline vn_value_t *ml_map(vn_test_t *t, vn_tensor_t *keys, vn_tensor_t *values) {
    vn_value_t *items[] = {ml_value(t, keys), ml_value(t, values)};
    vn_value_t *map = vn_value_list(VN_VALUE_MAP, values->dtype, items, 2);
    VN_ASSERT(t, map != NULL);
    vn_value_free(items[0]);
    vn_value_free(items[1]);
    return map;
}

static inline void ml_set(vn_test_t *t, vn_model_t *m, vn_node_t *node, const ml_attr_t *a) {
    vn_string_t strings[ML_STRINGS_MOST];
    vn_attr_t list = {.name = a->name, .kind = VN_ATTR_STRINGS, .count = a->n, .strings = strings};
    switch (a->kind) {
    case ML_INT_KIND: VN_ASSERT_OK(t, vn_node_set_int(m, node, a->name, (int64_t)a->number, NULL)); break;
    case ML_FLOAT_KIND: VN_ASSERT_OK(t, vn_node_set_float(m, node, a->name, (float)a->number, NULL)); break;
    case ML_TEXT_KIND: VN_ASSERT_OK(t, vn_node_set_string(m, node, a->name, a->data, NULL)); break;
    case ML_INTS_KIND: VN_ASSERT_OK(t, vn_node_set_ints(m, node, a->name, a->data, a->n, NULL)); break;
    case ML_FLOATS_KIND: VN_ASSERT_OK(t, vn_node_set_floats(m, node, a->name, a->data, a->n, NULL)); break;
    case ML_TENSOR_KIND: VN_ASSERT_OK(t, vn_node_set_tensor(m, node, a->name, a->data, NULL)); break;
    case ML_STRINGS_KIND:
        VN_ASSERT(t, a->n <= ML_STRINGS_MOST);
        for (int64_t i = 0; i < a->n; ++i) {
            const char *text = ((const char *const *)a->data)[i];
            strings[i] = (vn_string_t){.text = (char *)(uintptr_t)text, .length = strlen(text)};
        }
        VN_ASSERT_OK(t, vn_node_set_attr(m, node, &list, NULL));
        break;
    case ML_END: break;
    }
}

static inline vn_model_t *ml_model(vn_test_t *t, ml_node_t *c, vn_contract_t *contract) {
    static const char *const names[] = {"a", "b", "c", "d"}, *const outs[] = {"y", "z"};
    vn_model_t *m;
    vn_node_t *node;
    VN_ASSERT_OK_ERR(t, vn_contract_parse(c->contract ? c->contract : "portable", contract, &c->err), c->err);
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &c->err), c->err);
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, "ai.onnx.ml", c->version ? c->version : 1, &c->err), c->err);
    for (int k = 0; k < c->n_in; ++k) /* of a map the model says nothing true, and nothing reads it */
        VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, names[k], VN_F32, -1, NULL, &c->err), c->err);
    if (!c->n_out) c->n_out = 1;
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(m->graph, "n", c->op, "ai.onnx.ml", c->n_in, names, c->n_out, outs, &node, &c->err), c->err);
    for (const ml_attr_t *a = c->attrs; a->name; ++a) ml_set(t, m, node, a);
    for (int k = 0; k < c->n_out; ++k) VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, outs[k], VN_F32, -1, NULL, &c->err), c->err);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &c->err), c->err);
    return m;
}

/** Runs with bound and variance; returns the status, references in c->out. Releases the operands. */
static inline vn_status_t ml_try(vn_test_t *t, ml_node_t *c) {
    vn_contract_t contract;
    vn_model_t *m = ml_model(t, c, &contract);
    const vn_status_t s =
        vn_oracle_node(m, &m->graph->nodes[0], (const vn_value_t *const *)c->in, NULL, &contract, VN_WANT_VARIANCE, c->out, &c->err);
    for (int k = 0; k < c->n_in; ++k) vn_value_free(c->in[k]);
    vn_model_free(m);
    return s;
}

/** Fails allocation 1, 2, 3 ... until the node succeeds; every failure must say NOMEM. Returns how many there were. Releases the operands. */
static inline int ml_faults(vn_test_t *t, ml_node_t *c) {
    vn_contract_t contract;
    vn_model_t *m = ml_model(t, c, &contract);
    int n = 0;
    for (vn_status_t s = VN_ERR_NOMEM; s != VN_OK; ++n) {
        vn_alloc_fail_at(n + 1);
        s = vn_oracle_node(m, &m->graph->nodes[0], (const vn_value_t *const *)c->in, NULL, &contract, VN_WANT_VARIANCE, c->out, &c->err);
        vn_alloc_fail_at(0);
        VN_ASSERT(t, s == VN_OK || s == VN_ERR_NOMEM);
    }
    for (int k = 0; k < c->n_out; ++k) vn_ref_free(&c->out[k]);
    for (int k = 0; k < c->n_in; ++k) vn_value_free(c->in[k]);
    vn_model_free(m);
    return n - 1;
}

static inline void ml_run(vn_test_t *t, ml_node_t *c) { VN_ASSERT_OK_ERR(t, ml_try(t, c), c->err); }

static inline void ml_free(ml_node_t *c) {
    for (int k = 0; k < c->n_out; ++k) vn_ref_free(&c->out[k]);
}

static inline double ml_room(const vn_ref_t *r, int64_t i) { return r->bound[i] + vn_ref_own(r, i); }

static inline const vn_reading_t *ml_reading(const vn_ref_t *r, const char *name) {
    for (int k = 0; k < r->n_readings; ++k)
        if (strcmp(r->readings[k].name, name) == 0) return &r->readings[k];
    return NULL;
}

#endif
