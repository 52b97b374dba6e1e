/* The summands of an element add up to the oracle's value, exactly on small integers: what is summed, and where alpha, beta and bias go. */
#include <math.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/graph.h"
#include "vernier/oracle.h"

enum { MAX_IN = 3, MAX_TERMS = 256 };

typedef struct ints_attr {
    const char *name; /* NULL ends */
    int64_t n, v[4];  /* n 0: one integer v[0]; n -1: a number v[0] / 4 */
} ints_attr_t;

typedef struct sum_case {
    const char *op, *equation;
    int n_in;
    struct {
        vn_dtype_t type;
        int rank;
        int64_t dims[4], first; /* first: of an i64 operand, its only value */
    } in[MAX_IN];
    ints_attr_t attrs[4];
} sum_case_t;

static const sum_case_t cases[] = {
    {"Einsum", "bk,bk->b", 2, {{VN_F32, 2, {4, 9}, 0}, {VN_F32, 2, {4, 9}, 0}}, {{NULL, 0, {0}}}},
    {"Einsum", "bij,bjk->kib", 2, {{VN_F32, 3, {2, 3, 5}, 0}, {VN_F32, 3, {2, 5, 4}, 0}}, {{NULL, 0, {0}}}},
    {"Einsum", "ij,jk", 2, {{VN_F32, 2, {3, 6}, 0}, {VN_F32, 2, {6, 2}, 0}}, {{NULL, 0, {0}}}},
    {"Einsum", "iij->j", 1, {{VN_F32, 3, {3, 3, 4}, 0}}, {{NULL, 0, {0}}}},
    {"ConvTranspose",
     NULL,
     3,
     {{VN_F32, 4, {2, 4, 3, 4}, 0}, {VN_F32, 4, {4, 3, 3, 2}, 0}, {VN_F32, 1, {6}, 0}},
     {{"strides", 2, {2, 1}}, {"pads", 4, {1, 0, 0, 1}}, {"group", 0, {2}}, {NULL, 0, {0}}}},
    {"ConvTranspose",
     NULL,
     2,
     {{VN_F32, 3, {1, 3, 5}, 0}, {VN_F32, 3, {3, 2, 3}, 0}},
     {{"strides", 1, {3}}, {"dilations", 1, {2}}, {"output_padding", 1, {1}}, {NULL, 0, {0}}}},
    {"Gemm",
     NULL,
     3,
     {{VN_F32, 2, {7, 3}, 0}, {VN_F32, 2, {4, 7}, 0}, {VN_F32, 1, {4}, 0}},
     {{"transA", 0, {1}}, {"transB", 0, {1}}, {"alpha", -1, {6}}, {"beta", -1, {2}}}},
    {"ReduceL1", NULL, 2, {{VN_F32, 3, {3, 4, 5}, 0}, {VN_I64, 1, {1}, 1}}, {{NULL, 0, {0}}}},
    {"ReduceSumSquare", NULL, 2, {{VN_F32, 2, {6, 11}, 0}, {VN_I64, 1, {1}, -1}}, {{NULL, 0, {0}}}},
    {"ReduceL2", NULL, 2, {{VN_F32, 2, {6, 11}, 0}, {VN_I64, 1, {1}, -1}}, {{NULL, 0, {0}}}},
};

static void set_attr(vn_test_t *t, vn_model_t *m, vn_node_t *node, const ints_attr_t *a) {
    if (a->n > 0) VN_ASSERT_OK(t, vn_node_set_ints(m, node, a->name, a->v, a->n, NULL));
    else if (a->n == 0) VN_ASSERT_OK(t, vn_node_set_int(m, node, a->name, a->v[0], NULL));
    else VN_ASSERT_OK(t, vn_node_set_float(m, node, a->name, (float)a->v[0] / 4, NULL));
}

static void check(vn_test_t *t, int index, vn_rng_t *rng) {
    static const char *const names[] = {"a", "b", "c"}, *const outs[] = {"y"};
    const sum_case_t *c = &cases[index];
    vn_model_t *m;
    vn_node_t *node;
    vn_value_t *in[MAX_IN] = {NULL};
    vn_contract_t contract;
    vn_ref_t ref;
    vn_error_t err;
    VN_ASSERT_OK(t, vn_model_new(10, &m, NULL));
    VN_ASSERT_OK(t, vn_model_set_opset(m, "", 18, NULL));
    for (int k = 0; k < c->n_in; ++k) {
        vn_tensor_t *x;
        VN_ASSERT_OK(t, vn_tensor_new(c->in[k].type, c->in[k].rank, c->in[k].dims, &x, NULL));
        for (int64_t i = 0; i < x->count; ++i)
            if (c->in[k].type == VN_I64) vn_tensor_set_i64(x, i, c->in[k].first);
            else vn_tensor_set_f64(x, i, (double)vn_rng_below(rng, 17) - 8);
        VN_ASSERT_OK(t, vn_graph_add_input(m->graph, names[k], x->dtype, x->rank, x->dims, NULL));
        in[k] = vn_value_tensor(x);
    }
    VN_ASSERT_OK(t, vn_graph_add_node(m->graph, "n", c->op, "", c->n_in, names, 1, outs, &node, NULL));
    if (c->equation) VN_ASSERT_OK(t, vn_node_set_string(m, node, "equation", c->equation, NULL));
    for (int k = 0; k < 4 && c->attrs[k].name; ++k) set_attr(t, m, node, &c->attrs[k]);
    VN_ASSERT_OK(t, vn_graph_add_output(m->graph, "y", VN_F32, -1, NULL, NULL));
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT(t, vn_contract_builtin("ieee", &contract));
    node = &m->graph->nodes[0];
    VN_ASSERT_OK_ERR(t, vn_oracle_node(m, node, (const vn_value_t *const *)in, NULL, &contract, VN_WANT_BOUND, &ref, &err), err);
    vn_terms_t *terms;
    VN_ASSERT_OK_ERR(t, vn_terms_open(m, node, (const vn_value_t *const *)in, &contract, &terms, &err), err);
    for (int64_t i = 0; i < ref.count; ++i) {
        double x[MAX_TERMS], sum = 0;
        int64_t n;
        VN_ASSERT_OK_ERR(t, vn_terms_get(terms, 0, i, x, MAX_TERMS, &n, &err), err);
        VN_ASSERT(t, n <= MAX_TERMS);
        for (int64_t k = 0; k < n; ++k) sum += x[k];
        if (vn_terms_after(terms) == VN_AFTER_ROOT) sum = sqrt(sum); /* of an integer below 2^53: one rounding, as the oracle's */
        if (sum != ref.value[i])
            vn_test_fail(t, __FILE__, __LINE__, "case %d, %s: element %d: summands give %a, the oracle %a", index, c->op, (int)i, sum,
                         ref.value[i]);
    }
    vn_terms_close(terms);
    vn_ref_free(&ref);
    for (int k = 0; k < c->n_in; ++k) vn_value_free(in[k]);
    vn_model_free(m);
}

VN_TEST(terms, add_up) {
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); ++i) check(t, i, &rng);
}

/* What is no sum of products of one or two operands, or whose padding other shapes decide, says so. */
VN_TEST(terms, refusals) {
    static const char *const equations[] = {"...k,k->...", "i,i,i->"};
    for (size_t q = 0; q < 2; ++q) {
        vn_model_t *m;
        vn_node_t *node;
        vn_value_t *in[3];
        vn_contract_t contract;
        vn_terms_t *terms = NULL;
        vn_error_t err = {0};
        const int n_in = q ? 3 : 2;
        static const char *const names[] = {"a", "b", "c"}, *const outs[] = {"y"};
        VN_ASSERT_OK(t, vn_model_new(10, &m, NULL));
        VN_ASSERT_OK(t, vn_model_set_opset(m, "", 18, NULL));
        for (int k = 0; k < n_in; ++k) {
            vn_tensor_t *x;
            VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, (int64_t[]){3}, &x, NULL));
            VN_ASSERT_OK(t, vn_graph_add_input(m->graph, names[k], VN_F32, 1, x->dims, NULL));
            in[k] = vn_value_tensor(x);
        }
        VN_ASSERT_OK(t, vn_graph_add_node(m->graph, "n", "Einsum", "", n_in, names, 1, outs, &node, NULL));
        VN_ASSERT_OK(t, vn_node_set_string(m, node, "equation", equations[q], NULL));
        VN_ASSERT_OK(t, vn_graph_add_output(m->graph, "y", VN_F32, -1, NULL, NULL));
        VN_ASSERT_OK(t, vn_model_finish(m, NULL));
        VN_ASSERT(t, vn_contract_builtin("ieee", &contract));
        double x[4];
        int64_t n;
        VN_ASSERT_OK(t, vn_terms_open(m, &m->graph->nodes[0], (const vn_value_t *const *)in, &contract, &terms, &err));
        VN_ASSERT_EQ(t, vn_terms_get(terms, 0, 0, x, 4, &n, &err), VN_ERR_UNSUPPORTED);
        vn_terms_close(terms);
        for (int k = 0; k < n_in; ++k) vn_value_free(in[k]);
        vn_model_free(m);
    }
}

VN_TEST_MAIN(VN_CASE(terms, add_up), VN_CASE(terms, refusals))
