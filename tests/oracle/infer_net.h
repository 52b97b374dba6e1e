/* infer_net.h -- small graphs written as text, for tests of inference: "f32[2,?]" types, "i64[2]=3,4" values, "axis=1 perm=1,0" attributes. */
#ifndef VN_TEST_INFER_NET_H
#define VN_TEST_INFER_NET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/graph.h"
#include "vernier/oracle.h"

typedef struct net {
    vn_test_t *t;
    vn_model_t *m;
    vn_graph_t *g;
    vn_bundle_t in;
    vn_inferred_t out;
    vn_error_t err;
} net_t;

static inline void net_ok(net_t *n, vn_status_t s) {
    if (s != VN_OK) vn_test_fail(n->t, __FILE__, __LINE__, "%s: %s", vn_status_name(s), n->err.text);
}

static inline net_t net_new(vn_test_t *t, const char *domain, int64_t version) {
    net_t n = {.t = t};
    net_ok(&n, vn_model_new(10, &n.m, &n.err));
    n.g = n.m->graph;
    if (*domain) net_ok(&n, vn_model_set_opset(n.m, "", 22, &n.err));
    net_ok(&n, vn_model_set_opset(n.m, domain, version, &n.err));
    return n;
}

static inline void net_free(net_t *n) {
    vn_inferred_free(&n->out);
    vn_bundle_free(&n->in);
    vn_model_free(n->m);
}

/* Words separated by `by`; returns how many. Changes text. */
static inline int net_split(char *text, char by, char **out, int max) {
    int n = 0;
    for (char *at = text; at && *at && n < max;) {
        out[n++] = at;
        at = strchr(at, by);
        if (at) *at++ = '\0';
    }
    return n;
}

typedef struct net_type {
    vn_dtype_t dtype;
    int rank;
    int64_t dims[VN_MAX_RANK];
    int count; /* values */
    double values[64];
} net_type_t;

/* "f32[2,?]", "f32?" (rank open), "i64[2]=3,4". */
static inline net_type_t net_type(const char *text) {
    net_type_t y = {.rank = -1};
    char name[32];
    const size_t head = strcspn(text, "[?");
    snprintf(name, sizeof name, "%.*s", (int)head, text);
    y.dtype = vn_dtype_from_name(name);
    const char *at = text + head;
    if (*at == '[') {
        y.rank = 0;
        for (++at; *at != ']'; at += *at == ',') {
            char *end = NULL;
            y.dims[y.rank++] = *at == '?' ? -1 : strtoll(at, &end, 10);
            at = *at == '?' ? at + 1 : end;
        }
    }
    at = strchr(text, '=');
    for (char *end; at && *at; at = end) y.values[y.count++] = strtod(at + 1, &end);
    return y;
}

static inline vn_tensor_t *net_tensor(net_t *n, const net_type_t *y) {
    vn_tensor_t *x;
    net_ok(n, vn_tensor_new(y->dtype, y->rank, y->dims, &x, &n->err));
    for (int i = 0; i < y->count; ++i)
        if (vn_dtype_is_float(y->dtype)) vn_tensor_set_f64(x, i, y->values[i]);
        else vn_tensor_set_i64(x, i, (int64_t)y->values[i]);
    return x;
}

/* A graph input that is given: its type, or its elements. */
static inline void net_in(net_t *n, const char *name, const char *text) {
    const net_type_t y = net_type(text);
    net_ok(n, vn_graph_add_input(n->g, name, y.dtype, -1, NULL, &n->err));
    if (!y.count) {
        net_ok(n, vn_infer_input(&n->in, name, y.dtype, y.rank, y.dims, &n->err));
        return;
    }
    vn_tensor_t *x = net_tensor(n, &y);
    net_ok(n, vn_bundle_add(&n->in, name, x, &n->err));
    vn_tensor_free(x);
}

static inline void net_init(net_t *n, const char *name, const char *text) {
    const net_type_t y = net_type(text);
    vn_tensor_t *x = net_tensor(n, &y);
    net_ok(n, vn_graph_add_init(n->g, name, x, &n->err));
    vn_tensor_free(x);
}

/* "axis=1 perm=1,0 mode=linear": one integer, several (or one followed by a comma), else text. */
static inline void net_attrs(net_t *n, vn_node_t *node, const char *text) {
    char copy[512], *words[16];
    snprintf(copy, sizeof copy, "%s", text ? text : "");
    const int count = net_split(copy, ' ', words, 16);
    for (int i = 0; i < count; ++i) {
        char *value = strchr(words[i], '='), *end;
        *value++ = '\0';
        const int64_t first = strtoll(value, &end, 10);
        if (end == value) {
            net_ok(n, vn_node_set_string(n->m, node, words[i], value, &n->err));
        } else if (!*end) {
            net_ok(n, vn_node_set_int(n->m, node, words[i], first, &n->err));
        } else {
            int64_t v[16];
            int k = 0;
            for (char *at = value; *at; at = *end ? end + 1 : end) v[k++] = strtoll(at, &end, 10);
            net_ok(n, vn_node_set_ints(n->m, node, words[i], v, k, &n->err));
        }
    }
}

/* net_op(n, "", "Add", "a,b", "y", "axis=1"): "-" is an absent input. The node is valid until the next one. */
static inline vn_node_t *net_op(net_t *n, const char *domain, const char *op, const char *inputs, const char *outputs, const char *attrs) {
    char a[256], b[256], *in[16], *out[16];
    vn_node_t *node;
    snprintf(a, sizeof a, "%s", inputs);
    snprintf(b, sizeof b, "%s", outputs);
    const int ni = net_split(a, ',', in, 16), no = net_split(b, ',', out, 16);
    for (int k = 0; k < ni; ++k)
        if (!strcmp(in[k], "-")) in[k] = a + strlen(a);
    net_ok(n, vn_graph_add_node(n->g, "", op, domain, ni, (const char *const *)in, no, (const char *const *)out, &node, &n->err));
    net_attrs(n, node, attrs);
    return node;
}

static inline void net_out(net_t *n, const char *name) {
    const vn_type_t open = {.kind = VN_TYPE_NONE};
    net_ok(n, vn_graph_add_typed(n->g, true, name, &open, &n->err));
}

static inline vn_status_t net_try(net_t *n) {
    net_ok(n, vn_model_finish(n->m, &n->err));
    return vn_oracle_infer(n->m, &n->in, &n->out, &n->err);
}
static inline void net_run(net_t *n) { net_ok(n, net_try(n)); }

static inline void net_text(const vn_inferred_value_t *v, char *out, size_t size) {
    const char *open[] = {"unknown", "", "", "seq ", "opt ", "map"};
    size_t at = (size_t)snprintf(out, size, "%s", open[v->kind]);
    if (v->kind == VN_TYPE_NONE) return;
    at += (size_t)snprintf(out + at, size - at, "%s%s", vn_dtype_name(v->dtype), v->rank < 0 ? "?" : "[");
    for (int k = 0; k < v->rank; ++k)
        at += v->dims[k] < 0 ? (size_t)snprintf(out + at, size - at, "%s?", k ? "," : "")
                             : (size_t)snprintf(out + at, size - at, "%s%lld", k ? "," : "", (long long)v->dims[k]);
    if (v->rank >= 0) at += (size_t)snprintf(out + at, size - at, "]");
    if (v->kind == VN_TYPE_TENSOR || v->length < 0) return;
    snprintf(out + at, size - at, " x%lld", (long long)v->length);
}

/* The value is described as `want`; a fact is open exactly when it has a reason. */
#define NET_IS(n, name, want)                                                                                          \
    do {                                                                                                               \
        char text_[200];                                                                                               \
        const vn_inferred_value_t *v_ = vn_inferred_find(&(n)->out, name);                                             \
        VN_ASSERT((n)->t, v_ != NULL);                                                                                 \
        net_text(v_, text_, sizeof text_);                                                                             \
        if (strcmp(text_, want)) vn_test_fail((n)->t, __FILE__, __LINE__, "%s is %s, expected %s", name, text_, want); \
    } while (0)

#endif
