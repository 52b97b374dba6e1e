/* Every allocation of an elementwise, cast or quantise row fails once: the answer is an error, nothing leaks (under ASan), nothing is half done. */
#include "oracle/elementwise.h"
#include "oracle/one_node.h"

static void each_failure(vn_test_t *t, one_node_t *c) {
    vn_contract_t contract;
    vn_value_t *values[ONE_MAX] = {0};
    VN_ASSERT(t, vn_contract_builtin("portable", &contract));
    if (c->n_out == 0) c->n_out = 1;
    if (!c->domain) c->domain = "";
    vn_model_t *m = one_model(t, c);
    for (int k = 0; k < c->n_in; ++k)
        if (c->in[k]) VN_ASSERT(t, (values[k] = vn_value_tensor(vn_tensor_retain(c->in[k]))) != NULL);
    /* The registry sorts itself once, at first use: not part of the loop. */
    VN_ASSERT_OK_ERR(
        t, vn_oracle_node(m, &m->graph->nodes[0], (const vn_value_t *const *)values, NULL, &contract, c->want, c->out, &c->err), c->err);
    for (int k = 0; k < c->n_out; ++k) vn_ref_free(&c->out[k]);
    int failures = 0;
    for (int n = 1; n < 200; ++n) {
        vn_alloc_fail_at(n);
        const vn_status_t s =
            vn_oracle_node(m, &m->graph->nodes[0], (const vn_value_t *const *)values, NULL, &contract, c->want, c->out, &c->err);
        vn_alloc_fail_at(0);
        if (s == VN_OK) break;
        ++failures;
        if (s != VN_ERR_NOMEM) vn_test_fail(t, __FILE__, __LINE__, "%s, allocation %d: %s: %s", c->op, n, vn_status_name(s), c->err.text);
        for (int k = 0; k < c->n_out; ++k) VN_ASSERT(t, !c->out[k].value && !c->out[k].tensor && !c->out[k].flags);
    }
    VN_ASSERT(t, failures > 1 && failures < 199);
    for (int k = 0; k < c->n_in; ++k) vn_value_free(values[k]);
    vn_model_free(m);
    one_free(c);
}

VN_TEST(faults, allocations) {
    vn_threads_set(1); /* a failing allocation is counted in order */
    const double v[] = {-0.0, NAN, 1e5, 300, INFINITY, 0.5}, w[] = {0, 2, 3, -1, 1, 0.5};
    static const struct {
        const char *op;
        int version, n_in;
        vn_dtype_t a, b;
        one_attr_t attr;
        int n_out;
    } table[] = {
        {"Relu", 14, 1, VN_F32, VN_F32, {0}, 1},
        {"Gelu", 20, 1, VN_F32, VN_F32, {0}, 1},
        {"Sin", 22, 1, VN_F64, VN_F32, {0}, 1},
        {"Add", 14, 2, VN_F16, VN_F16, {0}, 1},
        {"Div", 14, 2, VN_F32, VN_F32, {0}, 1},
        {"Div", 14, 2, VN_I32, VN_I32, {0}, 1},
        {"Pow", 15, 2, VN_I64, VN_F32, {0}, 1},
        {"Pow", 15, 2, VN_F32, VN_F32, {0}, 1},
        {"Max", 13, 2, VN_F32, VN_F32, {0}, 1},
        {"Max", 13, 2, VN_I32, VN_I32, {0}, 1},
        {"Mean", 13, 2, VN_F32, VN_F32, {0}, 1},
        {"Clip", 13, 1, VN_F32, VN_F32, {0}, 1},
        {"IsInf", 20, 1, VN_F32, VN_F32, {0}, 1},
        {"Equal", 13, 2, VN_F32, VN_F32, {0}, 1},
        {"Less", 13, 2, VN_I8, VN_I8, {0}, 1},
        {"Cast", 21, 1, VN_F32, VN_F32, {"to", ONE_INT, VN_U8, NULL}, 1},
        {"Cast", 21, 1, VN_F32, VN_F32, {"to", ONE_INT, VN_STRING, NULL}, 1},
        {"Cast", 21, 1, VN_F32, VN_F32, {"to", ONE_INT, VN_F8E4M3FNUZ, NULL}, 1},
        {"Cast", 21, 1, VN_I64, VN_F32, {"to", ONE_INT, VN_F16, NULL}, 1},
        {"DynamicQuantizeLinear", 11, 1, VN_F32, VN_F32, {0}, 3},
    };
    for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
        one_node_t c = {.op = table[k].op,
                        .version = table[k].version,
                        .n_in = table[k].n_in,
                        .n_out = table[k].n_out,
                        .want = VN_WANT_VARIANCE,
                        .attrs = {table[k].attr}};
        c.in[0] = vn_dtype_is_int(table[k].a) ? one_vector(t, table[k].a, 6, w) : one_vector(t, table[k].a, 6, v);
        if (c.n_in > 1) c.in[1] = one_vector(t, table[k].b, 6, w);
        each_failure(t, &c);
    }
    one_node_t bias = {.domain = "com.microsoft",
                       .op = "BiasGelu",
                       .version = 1,
                       .n_in = 2,
                       .want = VN_WANT_VARIANCE,
                       .in = {one_vector(t, VN_F32, 6, w), one_scalar(t, VN_F32, 0.1)}};
    each_failure(t, &bias);
    one_node_t quantise = {.op = "QuantizeLinear",
                           .version = 21,
                           .n_in = 2,
                           .want = VN_WANT_BOUND,
                           .in = {one_vector(t, VN_F32, 6, v), one_scalar(t, VN_F32, 0.1)}};
    each_failure(t, &quantise);
    one_node_t back = {.op = "DequantizeLinear",
                       .version = 21,
                       .n_in = 3,
                       .want = VN_WANT_VARIANCE,
                       .in = {one_vector(t, VN_I8, 6, w), one_scalar(t, VN_F32, 0.1), one_scalar(t, VN_I8, 3)}};
    each_failure(t, &back);
    vn_threads_set(0);
}

VN_TEST_MAIN(VN_CASE(faults, allocations))
