/* Operators of the mutant on small integers, results known by hand: windows, slices, axes, old and new forms of attributes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "worker/models.h"

enum { MAX_ELEMENTS = 64 };

typedef struct op_input {
    vn_dtype_t dtype; /* VN_UNDEFINED: no such input */
    int rank;
    int64_t dims[4];
    double v[MAX_ELEMENTS];
} op_input_t;

typedef struct op_attr {
    const char *name;
    vn_attr_kind_t kind;
    int64_t n;
    int64_t v[8];
    float f;
    const char *s;
} op_attr_t;

typedef struct op_case {
    const char *op;
    int64_t opset;
    op_input_t in[4];
    op_attr_t attrs[6];
    int rank;
    int64_t dims[4];
    double y[MAX_ELEMENTS];
} op_case_t;

#define RAMP4X4 \
    { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }

#define INT(key, value)                                  \
    {                                                    \
        .name = key, .kind = VN_ATTR_INT, .v = { value } \
    }
#define INTS(key, count, ...)                                               \
    {                                                                       \
        .name = key, .kind = VN_ATTR_INTS, .n = count, .v = { __VA_ARGS__ } \
    }
#define FLOAT(key, value) \
    { .name = key, .kind = VN_ATTR_FLOAT, .f = value }
#define TEXT(key, value) \
    { .name = key, .kind = VN_ATTR_STRING, .s = value }
#define NONE \
    { .name = NULL }

static const op_case_t cases[] = {
    {"ConvTranspose",
     11,
     {{VN_F32, 3, {1, 1, 3}, {1, 2, 3}}, {VN_F32, 3, {1, 2, 2}, {1, 10, 100, 1000}}, {VN_F32, 1, {2}, {0, 5}}},
     {INTS("strides", 1, 2), INTS("pads", 2, 1, 0), INTS("output_padding", 1, 1)},
     3,
     {1, 2, 6},
     {10, 2, 20, 3, 30, 0, 1005, 205, 2005, 305, 3005, 5}},
    {"CumSum",
     14,
     {{VN_F32, 2, {2, 4}, {1, 2, 3, 4, 10, 20, 30, 40}}, {VN_I64, 0, {0}, {1}}},
     {INT("exclusive", 1), INT("reverse", 1)},
     2,
     {2, 4},
     {9, 7, 4, 0, 90, 70, 40, 0}},
    {"Pad", 13, {{VN_F32, 1, {4}, {1, 2, 3, 4}}, {VN_I64, 1, {2}, {2, 1}}}, {TEXT("mode", "reflect")}, 1, {7}, {3, 2, 1, 2, 3, 4, 3}},
    {"Pad",
     13,
     {{VN_F32, 2, {2, 2}, {1, 2, 3, 4}}, {VN_I64, 1, {4}, {0, 1, 1, 0}}, {VN_F32, 0, {0}, {7}}},
     {NONE},
     2,
     {3, 3},
     {7, 1, 2, 7, 3, 4, 7, 7, 7}},
    {"DepthToSpace",
     13,
     {{VN_F32, 4, {1, 8, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8}}},
     {INT("blocksize", 2)},
     4,
     {1, 2, 2, 2},
     {1, 3, 5, 7, 2, 4, 6, 8}},
    {"DepthToSpace",
     13,
     {{VN_F32, 4, {1, 8, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8}}},
     {INT("blocksize", 2), TEXT("mode", "CRD")},
     4,
     {1, 2, 2, 2},
     {1, 2, 3, 4, 5, 6, 7, 8}},
    {"SpaceToDepth",
     13,
     {{VN_F32, 4, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}},
     {INT("blocksize", 2)},
     4,
     {1, 4, 1, 2},
     {1, 3, 2, 4, 5, 7, 6, 8}},
    {"ScatterElements",
     18,
     {{VN_F32, 1, {4}, {1, 2, 3, 4}}, {VN_I64, 1, {3}, {1, -1, 1}}, {VN_F32, 1, {3}, {10, 20, 30}}},
     {TEXT("reduction", "add")},
     1,
     {4},
     {1, 42, 3, 24}},
    {"ScatterND",
     18,
     {{VN_F32, 2, {3, 2}, {1, 2, 3, 4, 5, 6}}, {VN_I64, 2, {2, 1}, {2, 0}}, {VN_F32, 2, {2, 2}, {10, 20, 30, 40}}},
     {NONE},
     2,
     {3, 2},
     {30, 40, 3, 4, 10, 20}},
    {"GatherND",
     13,
     {{VN_F32, 3, {2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}}, {VN_I64, 2, {2, 2}, {0, 1, -1, 0}}},
     {NONE},
     2,
     {2, 2},
     {2, 3, 4, 5}},
    {"GatherElements",
     13,
     {{VN_F32, 2, {2, 3}, {1, 2, 3, 4, 5, 6}}, {VN_I64, 2, {2, 2}, {2, 0, -1, -3}}},
     {INT("axis", 1)},
     2,
     {2, 2},
     {3, 1, 6, 4}},
    {"TopK", 11, {{VN_F32, 1, {5}, {3, 9, 1, 9, 5}}, {VN_I64, 1, {1}, {3}}}, {NONE}, 1, {3}, {9, 9, 5}},
    {"Einsum",
     12,
     {{VN_F32, 2, {2, 3}, {1, 2, 3, 4, 5, 6}}, {VN_F32, 2, {2, 3}, {1, 1, 1, 2, 2, 2}}},
     {TEXT("equation", "ik,jk->ji")},
     2,
     {2, 2},
     {6, 15, 12, 30}},
    {"PRelu", 16, {{VN_F32, 2, {2, 2}, {-1, 2, -3, 4}}, {VN_F32, 1, {2}, {10, 20}}}, {NONE}, 2, {2, 2}, {-10, 2, -30, 4}},
    {"Mod", 13, {{VN_I32, 1, {4}, {7, -7, 7, -7}}, {VN_I32, 1, {4}, {3, 3, -3, -3}}}, {NONE}, 1, {4}, {1, 2, -2, -1}},
    {"Mod", 13, {{VN_I32, 1, {4}, {7, -7, 7, -7}}, {VN_I32, 1, {4}, {3, 3, -3, -3}}}, {INT("fmod", 1)}, 1, {4}, {1, -1, 1, -1}},
    {"Round", 11, {{VN_F32, 1, {5}, {0.5, 1.5, 2.5, -0.5, -1.5}}}, {NONE}, 1, {5}, {0, 2, 2, 0, -2}},
    {"Tile", 13, {{VN_F32, 2, {1, 2}, {1, 2}}, {VN_I64, 1, {2}, {2, 2}}}, {NONE}, 2, {2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}},
    {"Trilu", 14, {{VN_F32, 2, {2, 3}, {1, 2, 3, 4, 5, 6}}}, {INT("upper", 0)}, 2, {2, 3}, {1, 0, 0, 4, 5, 0}},
    {"ReduceL1", 18, {{VN_F32, 2, {2, 2}, {-1, 2, -3, 4}}, {VN_I64, 1, {1}, {0}}}, {INT("keepdims", 0)}, 1, {2}, {4, 6}},
    {"ReduceSumSquare", 18, {{VN_F32, 2, {2, 2}, {-1, 2, -3, 4}}}, {INT("keepdims", 0)}, 0, {0}, {30}},
    {"GlobalAveragePool", 1, {{VN_F32, 3, {1, 2, 2}, {1, 3, 10, 20}}}, {NONE}, 3, {1, 2, 1}, {2, 15}},
    {"Conv",
     11,
     {{VN_F32, 4, {1, 1, 4, 4}, RAMP4X4}, {VN_F32, 4, {1, 1, 2, 2}, {1, 10, 100, 1000}}, {VN_F32, 1, {1}, {5}}},
     {INTS("strides", 2, 2, 2)},
     4,
     {1, 1, 2, 2},
     {6526, 8748, 15414, 17636}},
    {"Conv",
     11,
     {{VN_F32, 4, {1, 1, 4, 4}, RAMP4X4}, {VN_F32, 4, {1, 1, 2, 2}, {1, 1, 1, 1}}},
     {INTS("dilations", 2, 2, 2), INTS("pads", 4, 1, 0, 0, 0)},
     4,
     {1, 1, 3, 2},
     {12, 14, 24, 28, 40, 44}},
    {"Conv",
     11,
     {{VN_F32, 3, {1, 2, 3}, {1, 2, 3, 4, 5, 6}}, {VN_F32, 3, {4, 1, 1}, {1, 2, 3, 4}}},
     {INT("group", 2)},
     3,
     {1, 4, 3},
     {1, 2, 3, 2, 4, 6, 12, 15, 18, 16, 20, 24}},
    {"Conv",
     11,
     {{VN_F32, 3, {1, 1, 5}, {1, 2, 3, 4, 5}}, {VN_F32, 3, {1, 1, 2}, {1, 1}}},
     {TEXT("auto_pad", "SAME_UPPER"), INTS("strides", 1, 2)},
     3,
     {1, 1, 3},
     {3, 7, 5}},
    {"Conv",
     11,
     {{VN_F32, 3, {1, 1, 4}, {1, 2, 3, 4}}, {VN_F32, 3, {1, 1, 2}, {1, 1}}},
     {TEXT("auto_pad", "SAME_LOWER")},
     3,
     {1, 1, 4},
     {1, 3, 5, 7}},
    {"MaxPool",
     12,
     {{VN_F32, 3, {1, 1, 6}, {1, 9, 3, 4, 5, 6}}},
     {INTS("kernel_shape", 1, 3), INTS("strides", 1, 2), INT("ceil_mode", 1)},
     3,
     {1, 1, 3},
     {9, 5, 6}},
    {"AveragePool",
     11,
     {{VN_F32, 3, {1, 1, 4}, {2, 4, 6, 8}}},
     {INTS("kernel_shape", 1, 2), INTS("pads", 2, 1, 1)},
     3,
     {1, 1, 5},
     {2, 3, 5, 7, 8}},
    {"AveragePool",
     11,
     {{VN_F32, 3, {1, 1, 4}, {2, 4, 6, 8}}},
     {INTS("kernel_shape", 1, 2), INTS("pads", 2, 1, 1), INT("count_include_pad", 1)},
     3,
     {1, 1, 5},
     {1, 3, 5, 7, 4}},
    {"GlobalAveragePool", 1, {{VN_F32, 4, {1, 2, 2, 2}, {1, 2, 3, 6, 10, 20, 30, 60}}}, {NONE}, 4, {1, 2, 1, 1}, {3, 30}},
    {"Gemm",
     13,
     {{VN_F32, 2, {2, 2}, {1, 2, 3, 4}}, {VN_F32, 2, {1, 2}, {5, 6}}, {VN_F32, 1, {1}, {7}}},
     {INT("transA", 1), INT("transB", 0), FLOAT("alpha", 1), FLOAT("beta", 1)},
     -1,
     {0},
     {0}}, /* shapes do not fit */
    {"Gemm",
     13,
     {{VN_F32, 2, {2, 2}, {1, 2, 3, 4}}, {VN_F32, 2, {1, 2}, {5, 6}}, {VN_F32, 1, {1}, {7}}},
     {INT("transB", 1), FLOAT("alpha", 2), FLOAT("beta", 3)},
     2,
     {2, 1},
     {55, 99}},
    {"MatMul", 13, {{VN_F32, 3, {2, 1, 2}, {1, 2, 3, 4}}, {VN_F32, 1, {2}, {10, 1}}}, {NONE}, 2, {2, 1}, {12, 34}},
    {"Slice",
     13,
     {{VN_F32, 2, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {VN_I64, 1, {2}, {-1, 3}},
      {VN_I64, 1, {2}, {-4, 0}},
      {VN_I64, 1, {2}, {0, 1}}},
     {NONE},
     2,
     {0, 0},
     {0}},
    {"Slice",
     1,
     {{VN_F32, 2, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},
     {INTS("starts", 2, 1, -3), INTS("ends", 2, 1000, -1), INTS("axes", 2, 0, 1)},
     2,
     {2, 2},
     {5, 6, 9, 10}},
    {"Gather", 13, {{VN_F32, 2, {2, 3}, {1, 2, 3, 4, 5, 6}}, {VN_I64, 1, {2}, {-1, 0}}}, {INT("axis", 1)}, 2, {2, 2}, {3, 1, 6, 4}},
    {"Concat", 13, {{VN_F32, 2, {2, 1}, {1, 2}}, {VN_F32, 2, {2, 2}, {3, 4, 5, 6}}}, {INT("axis", -1)}, 2, {2, 3}, {1, 3, 4, 2, 5, 6}},
    {"Transpose", 13, {{VN_I32, 3, {1, 2, 3}, {1, 2, 3, 4, 5, 6}}}, {INTS("perm", 3, 2, 0, 1)}, 3, {3, 1, 2}, {1, 4, 2, 5, 3, 6}},
    {"Reshape", 13, {{VN_F32, 2, {2, 3}, {1, 2, 3, 4, 5, 6}}, {VN_I64, 1, {3}, {0, -1, 1}}}, {NONE}, 3, {2, 3, 1}, {1, 2, 3, 4, 5, 6}},
    {"Squeeze", 11, {{VN_F32, 3, {1, 2, 1}, {1, 2}}}, {INTS("axes", 1, -1)}, 2, {1, 2}, {1, 2}},
    {"Unsqueeze", 13, {{VN_F32, 1, {2}, {1, 2}}, {VN_I64, 1, {2}, {0, -1}}}, {NONE}, 3, {1, 2, 1}, {1, 2}},
    {"Expand", 13, {{VN_F32, 2, {2, 1}, {1, 2}}, {VN_I64, 1, {3}, {2, 1, 2}}}, {NONE}, 3, {2, 2, 2}, {1, 1, 2, 2, 1, 1, 2, 2}},
    {"Flatten", 13, {{VN_F32, 3, {2, 1, 2}, {1, 2, 3, 4}}}, {INT("axis", 0)}, 2, {1, 4}, {1, 2, 3, 4}},
    {"Shape", 15, {{VN_F32, 3, {2, 1, 3}, {0}}}, {INT("start", -2)}, 1, {2}, {1, 3}},
    {"ReduceSum", 13, {{VN_F32, 2, {2, 3}, {1, 2, 3, 4, 5, 6}}, {VN_I64, 1, {1}, {-1}}}, {INT("keepdims", 0)}, 1, {2}, {6, 15}},
    {"ReduceMean", 13, {{VN_F32, 3, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}}}, {INTS("axes", 2, 0, 2)}, 3, {1, 2, 1}, {3.5, 5.5}},
    {"ReduceMax", 13, {{VN_I32, 2, {2, 2}, {-5, -7, -3, -9}}}, {INTS("axes", 1, 0), INT("keepdims", 0)}, 1, {2}, {-3, -7}},
    {"Softmax", 13, {{VN_F32, 2, {2, 2}, {7, 1, 7, 1}}}, {INT("axis", 0)}, 2, {2, 2}, {0.5, 0.5, 0.5, 0.5}},
    {"Softmax", 11, {{VN_F32, 3, {1, 2, 2}, {3, 3, 3, 3}}}, {INT("axis", 1)}, 3, {1, 2, 2}, {0.25, 0.25, 0.25, 0.25}},
    {"LayerNormalization",
     17,
     {{VN_F32, 2, {1, 2}, {1, 3}}, {VN_F32, 1, {2}, {10, 20}}, {VN_F32, 1, {2}, {1, 2}}},
     {FLOAT("epsilon", 0)},
     2,
     {1, 2},
     {-9, 22}},
    {"BatchNormalization",
     15,
     {{VN_F32, 2, {1, 2}, {5, 7}}, {VN_F32, 1, {2}, {2, 3}}, {VN_F32, 1, {2}, {1, 1}}, {VN_F32, 1, {2}, {1, 3}}},
     {FLOAT("epsilon", 0)},
     -1,
     {0},
     {0}}, /* the variance is missing */
    {"Where", 16, {{VN_BOOL, 1, {2}, {1, 0}}, {VN_I64, 2, {2, 1}, {1, 2}}, {VN_I64, 1, {1}, {9}}}, {NONE}, 2, {2, 2}, {1, 9, 2, 9}},
    {"Clip", 6, {{VN_F32, 1, {3}, {-3, 0.5, 3}}}, {FLOAT("min", -1), FLOAT("max", 1)}, 1, {3}, {-1, 0.5, 1}},
    {"Cast", 13, {{VN_F32, 1, {4}, {-1.75, 1.75, 0, 3}}}, {INT("to", VN_I8)}, 1, {4}, {-1, 1, 0, 3}},
    {"Cast", 13, {{VN_F32, 1, {2}, {0.25, 0}}}, {INT("to", VN_BOOL)}, 1, {2}, {1, 0}},
    {"Div", 14, {{VN_I32, 1, {3}, {-7, 7, 5}}, {VN_I32, 1, {3}, {2, -2, 0}}}, {NONE}, 1, {3}, {-3, -3, 0}},
    {"HardSwish", 14, {{VN_F32, 1, {3}, {-4, 3, 6}}}, {NONE}, 1, {3}, {0, 3, 6}},
    {"LeakyRelu", 16, {{VN_F32, 1, {2}, {-8, 4}}}, {FLOAT("alpha", 0.25f)}, 1, {2}, {-2, 4}},
    {"Max", 13, {{VN_F32, 1, {2}, {1, 5}}, {VN_F32, 1, {1}, {3}}, {VN_F32, 1, {2}, {2, 9}}}, {NONE}, 1, {2}, {3, 9}},
};

static vn_status_t set_attr(vn_model_t *m, vn_node_t *n, const op_attr_t *a, vn_error_t *err) {
    if (a->kind == VN_ATTR_INT) return vn_node_set_int(m, n, a->name, a->v[0], err);
    if (a->kind == VN_ATTR_FLOAT) return vn_node_set_float(m, n, a->name, a->f, err);
    if (a->kind == VN_ATTR_STRING) return vn_node_set_string(m, n, a->name, a->s, err);
    return vn_node_set_ints(m, n, a->name, a->v, a->n, err);
}

static vn_status_t build(const op_case_t *c, vn_test_model_t *out, vn_bundle_t *in, vn_error_t *err) {
    static const char *const names[] = {"a", "b", "c", "d"}, *const outputs[] = {"y"};
    vn_model_t *m;
    vn_node_t *node;
    int n = 0;
    VN_TRY(vn_model_new(8, &m, err));
    VN_TRY(vn_model_set_opset(m, "", c->opset, err));
    for (; n < 4 && c->in[n].dtype != VN_UNDEFINED; ++n) {
        vn_tensor_t *t;
        VN_TRY(vn_graph_add_input(m->graph, names[n], c->in[n].dtype, c->in[n].rank, c->in[n].dims, err));
        VN_TRY(vn_tensor_new(c->in[n].dtype, c->in[n].rank, c->in[n].dims, &t, err));
        for (int64_t i = 0; i < t->count; ++i) vn_tensor_set_f64(t, i, c->in[n].v[i]);
        VN_TRY(vn_bundle_add(in, names[n], t, err));
        vn_tensor_free(t);
    }
    VN_TRY(vn_graph_add_node(m->graph, "node", c->op, "", n, names, 1, outputs, &node, err));
    for (int i = 0; i < 6 && c->attrs[i].name; ++i) VN_TRY(set_attr(m, node, &c->attrs[i], err));
    VN_TRY(vn_graph_add_output(m->graph, "y", c->in[0].dtype, -1, NULL, err));
    VN_TRY(vn_model_finish(m, err));
    VN_TRY(vn_model_bytes(m, &out->bytes, &out->size, err));
    vn_model_free(m);
    return VN_OK;
}

static void check(vn_test_t *t, int k, const vn_output_t *out) {
    const op_case_t *c = &cases[k];
    const vn_tensor_t *y = out->value ? out->value->tensor : NULL;
    bool same = y && y->rank == c->rank;
    for (int d = 0; same && d < c->rank; ++d) same = y->dims[d] == c->dims[d];
    if (!same) {
        char what[100] = "nothing";
        if (y) vn_tensor_describe(y, what, sizeof what);
        vn_test_fail(t, __FILE__, __LINE__, "case %d, %s: returned %s", k, c->op, what);
        return;
    }
    for (int64_t i = 0; i < y->count; ++i)
        if (vn_tensor_get_f64(y, i) != c->y[i])
            vn_test_fail(t, __FILE__, __LINE__, "case %d, %s: element %d is %a, not %a", k, c->op, (int)i, vn_tensor_get_f64(y, i),
                         c->y[i]);
}

VN_TEST(mutant_ops, table) {
    vn_spec_t spec;
    vn_worker_t *w;
    vn_error_t err;
    VN_ASSERT_OK(t, vn_spec_parse("mutant", &spec, NULL));
    VN_ASSERT_OK_ERR(t, vn_worker_start(&spec, NULL, &w, &err), err);
    for (int k = 0; k < (int)(sizeof cases / sizeof *cases); ++k) {
        vn_test_model_t m;
        vn_bundle_t in = {0};
        int64_t session;
        vn_output_t y = {0};
        const vn_output_spec_t out = {.name = "y", .rank = -1};
        VN_ASSERT_OK_ERR(t, build(&cases[k], &m, &in, &err), err);
        VN_ASSERT_OK_ERR(t, vn_worker_load(w, m.bytes, m.size, "onnx", NULL, &session, &err), err);
        const vn_status_t s = vn_worker_run(w, session, &in, 1, &out, &y, NULL, &err);
        if (cases[k].rank < 0) {
            VN_ASSERT_EQ(t, s, VN_ERR_WORKER);
        } else {
            if (s != VN_OK) vn_test_fail(t, __FILE__, __LINE__, "case %d, %s: %s", k, cases[k].op, err.text);
            check(t, k, &y);
        }
        vn_output_free(&y);
        vn_bundle_free(&in);
        vn_worker_unload(w, session);
        vn_free(m.bytes);
    }
    VN_ASSERT_EQ(t, vn_worker_restarts(w), 0);
    vn_worker_stop(w);
}

VN_TEST_MAIN(VN_CASE(mutant_ops, table))
