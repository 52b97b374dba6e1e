/* text_node.h -- one text operator against the oracle, for tests: attributes of every kind, tensors of strings, and their comparison. */
#ifndef VN_TEST_TEXT_NODE_H
#define VN_TEST_TEXT_NODE_H

#include <string.h>

#include "support/vn_test.h"
#include "vernier/graph.h"
#include "vernier/oracle.h"

typedef struct text_node {
    const char *op;
    int version, n_in, n_out;
    vn_tensor_t *in[2];
    vn_attr_t attrs[12]; /* name NULL ends */
    int64_t fail_at;     /* the n-th allocation of the oracle fails; 0: none */
    vn_ref_t out[2];     /* filled by text_try */
    vn_error_t err;
} text_node_t;

static inline vn_attr_t attr_text(const char *name, const char *v) {
    return (vn_attr_t){.name = name, .kind = VN_ATTR_STRING, .s = {.text = (char *)(uintptr_t)v, .length = strlen(v)}};
}
static inline vn_attr_t attr_int(const char *name, int64_t v) { return (vn_attr_t){.name = name, .kind = VN_ATTR_INT, .i = v}; }
static inline vn_attr_t attr_ints(const char *name, int64_t n, const int64_t *v) {
    return (vn_attr_t){.name = name, .kind = VN_ATTR_INTS, .count = n, .ints = v};
}
static inline vn_attr_t attr_floats(const char *name, int64_t n, const float *v) {
    return (vn_attr_t){.name = name, .kind = VN_ATTR_FLOATS, .count = n, .floats = v};
}
static inline vn_attr_t attr_texts(const char *name, int64_t n, const vn_string_t *v) {
    return (vn_attr_t){.name = name, .kind = VN_ATTR_STRINGS, .count = n, .strings = v};
}
#define TEXT(literal) ((vn_string_t){(char *)(uintptr_t)(literal), sizeof(literal) - 1})

static inline vn_tensor_t *text_tensor(vn_test_t *t, int rank, const int64_t *dims, const vn_string_t *v) {
    vn_tensor_t *x;
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, rank, dims, &x, NULL));
    for (int64_t i = 0; i < x->count; ++i) VN_ASSERT_OK(t, vn_tensor_set_string(x, i, v[i].text, v[i].length, NULL));
    return x;
}
static inline vn_tensor_t *text_vector(vn_test_t *t, int64_t n, const vn_string_t *v) { return text_tensor(t, 1, &n, v); }

static inline vn_status_t text_try(vn_test_t *t, text_node_t *c) {
    static const char *const names[] = {"a", "b"}, *const outs[] = {"y", "z"};
    vn_contract_t contract;
    vn_model_t *m;
    vn_node_t *node;
    vn_value_t *values[2] = {0};
    vn_error_t err;
    if (!c->n_out) c->n_out = 1;
    VN_ASSERT_OK_ERR(t, vn_contract_parse("portable", &contract, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, "", c->version, &err), err);
    for (int k = 0; k < c->n_in; ++k) {
        VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, names[k], c->in[k]->dtype, c->in[k]->rank, c->in[k]->dims, &err), err);
        VN_ASSERT(t, (values[k] = vn_value_tensor(vn_tensor_retain(c->in[k]))) != NULL);
    }
    const char *inputs[] = {"a", "b"};
    VN_ASSERT_OK_ERR(t, vn_graph_add_node(m->graph, "n", c->op, "", c->n_in, inputs, c->n_out, outs, &node, &err), err);
    for (const vn_attr_t *a = c->attrs; a->name; ++a) VN_ASSERT_OK_ERR(t, vn_node_set_attr(m, node, a, &err), err);
    for (int k = 0; k < c->n_out; ++k) VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, outs[k], VN_STRING, -1, NULL, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    vn_alloc_fail_at(c->fail_at);
    const vn_status_t s =
        vn_oracle_node(m, &m->graph->nodes[0], (const vn_value_t *const *)values, NULL, &contract, VN_WANT_VARIANCE, c->out, &c->err);
    vn_alloc_fail_at(0);
    for (int k = 0; k < c->n_in; ++k) vn_value_free(values[k]);
    vn_model_free(m);
    return s;
}

static inline void text_run(vn_test_t *t, text_node_t *c) { VN_ASSERT_OK_ERR(t, text_try(t, c), c->err); }

static inline void text_free(text_node_t *c) {
    for (int k = 0; k < c->n_out; ++k) vn_ref_free(&c->out[k]);
    for (int k = 0; k < c->n_in; ++k) vn_tensor_free(c->in[k]);
}

/** Lets the 1st, 2nd, 3rd ... allocation fail until all succeed: each time a clean NOMEM, and nothing leaks (under the sanitizers). Releases c. */
static inline void text_survives(vn_test_t *t, text_node_t *c) {
    (void)text_try(t, c); /* tables that are made once, and stay */
    for (int k = 0; k < c->n_out; ++k) vn_ref_free(&c->out[k]);
    for (c->fail_at = 1;; ++c->fail_at) {
        const vn_status_t s = text_try(t, c);
        if (s == VN_OK) break;
        if (s == VN_ERR_UNSUPPORTED && strstr(c->err.text, "install Debian package")) break;
        if (s != VN_ERR_NOMEM)
            vn_test_fail(t, __FILE__, __LINE__, "allocation %lld: %s: %s", (long long)c->fail_at, vn_status_name(s), c->err.text);
        VN_ASSERT(t, c->fail_at < 2000);
    }
    VN_ASSERT(t, c->fail_at > 1);
    text_free(c);
}

/** x holds exactly these texts in this shape. */
static inline void text_is(vn_test_t *t, const vn_tensor_t *x, int rank, const int64_t *dims, const vn_string_t *want) {
    vn_tensor_t *due = text_tensor(t, rank, dims, want);
    if (!vn_tensor_equal_bits(x, due)) {
        char a[200], b[200];
        vn_tensor_describe(x, a, sizeof a);
        vn_tensor_describe(due, b, sizeof b);
        int64_t at = 0;
        const vn_string_t *got = x->data;
        while (x->count == due->count && at < x->count && got[at].length == want[at].length &&
               memcmp(got[at].text, want[at].text, want[at].length) == 0)
            ++at;
        vn_test_fail(t, __FILE__, __LINE__, "%s is not %s; element %lld: '%s' is not '%s'", a, b, (long long)at,
                     at < x->count ? got[at].text : "", at < due->count ? want[at].text : "");
    }
    vn_tensor_free(due);
}

static inline const vn_tensor_t *text_reading(const vn_ref_t *r, const char *name) {
    for (int i = 0; i < r->n_readings; ++i)
        if (strcmp(r->readings[i].name, name) == 0) return r->readings[i].value;
    return NULL;
}

#endif
