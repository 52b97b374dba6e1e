/* Generated inputs: shapes, ranges, and independence of seed, name and order. */
#include <math.h>
#include <stdio.h>

#include "support/vn_test.h"
#include "vernier/probe.h"

static vn_model_t *new_model(vn_test_t *t) {
    vn_model_t *m;
    VN_ASSERT_OK(t, vn_model_new(10, &m, NULL));
    VN_ASSERT_OK(t, vn_model_set_opset(m, "", 21, NULL));
    return m;
}

static void input(vn_test_t *t, vn_model_t *m, const char *name, vn_dtype_t type, int rank, const int64_t *dims,
                  const char *const *params) {
    vn_dim_t list[VN_MAX_RANK];
    for (int k = 0; k < rank; ++k) list[k] = (vn_dim_t){.value = dims[k], .param = params ? params[k] : NULL};
    vn_type_t v = {.kind = VN_TYPE_TENSOR, .dtype = type, .rank = rank, .dims = list};
    VN_ASSERT_OK(t, vn_graph_add_typed(m->graph, false, name, &v, NULL));
}

static void node(vn_test_t *t, vn_graph_t *g, const char *op, const char *a, const char *b, const char *out, vn_node_t **n) {
    VN_ASSERT_OK(t, vn_graph_add_node(g, "", op, "", b ? 2 : 1, (const char *const[]){a, b}, 1, &out, n, NULL));
}

static vn_bundle_t generate(vn_test_t *t, vn_model_t *m, uint64_t seed, int n, const vn_shape_arg_t *shapes) {
    vn_error_t err = {0};
    vn_bundle_t b;
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_probe_inputs(m, seed, n, shapes, &b, &err), err);
    return b;
}

/* Smallest and largest element. */
static void extent(const vn_tensor_t *x, int64_t *lo, int64_t *hi) {
    *lo = INT64_MAX;
    *hi = INT64_MIN;
    for (int64_t i = 0; i < x->count; ++i) {
        int64_t v = vn_tensor_get_i64(x, i);
        if (v < *lo) *lo = v;
        if (v > *hi) *hi = v;
    }
}

VN_TEST(inputs, shape_text) {
    vn_error_t err = {0};
    vn_shape_arg_t a;
    char name[16];
    VN_ASSERT_OK_ERR(t, vn_shape_parse("x:0=1x3x224", &a, name, sizeof name, &err), err);
    VN_ASSERT_STR(t, a.name, "x:0");
    VN_ASSERT_EQ(t, a.rank, 3);
    VN_ASSERT_EQ(t, a.dims[2], 224);
    VN_ASSERT_OK_ERR(t, vn_shape_parse("a=b=0", &a, name, sizeof name, &err), err);
    VN_ASSERT_STR(t, a.name, "a=b");
    VN_ASSERT_EQ(t, a.rank, 1);
    VN_ASSERT_OK_ERR(t, vn_shape_parse("s=", &a, name, sizeof name, &err), err);
    VN_ASSERT_EQ(t, a.rank, 0);
    static const char *const bad[] = {"x",
                                      "=1",
                                      "x=1x",
                                      "x=x1",
                                      "x=-1",
                                      "x=1x-2",
                                      "x=1,2",
                                      "x= 1",
                                      "x=99999999999999999999",
                                      "x=1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1",
                                      "a-very-long-input-name=1"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k)
        VN_ASSERT_EQ(t, vn_shape_parse(bad[k], &a, name, sizeof name, &err), VN_ERR_USAGE);
}

VN_TEST(inputs, open_dimensions) {
    vn_model_t *m = new_model(t);
    const int64_t dims[] = {-1, 3, -1, -1};
    const char *const a[] = {"batch", NULL, NULL, "width"}, *const b[] = {"width", NULL, "batch", "len"};
    input(t, m, "a", VN_F32, 4, dims, a);
    input(t, m, "b", VN_F32, 4, dims, b);
    vn_bundle_t x = generate(t, m, 1, 0, NULL);
    const int64_t want[2][4] = {{1, 3, 16, 1}, {1, 3, 1, 16}}; /* batch and width are first dimensions somewhere */
    for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 4; ++k) VN_ASSERT_EQ(t, x.items[i].tensor->dims[k], want[i][k]);
    vn_bundle_free(&x);
    const vn_shape_arg_t shape = {.name = "a", .rank = 4, .dims = {2, 3, 5, 7}};
    x = generate(t, m, 1, 1, &shape);
    const int64_t bound[2][4] = {{2, 3, 5, 7}, {7, 3, 2, 16}};
    for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 4; ++k) VN_ASSERT_EQ(t, x.items[i].tensor->dims[k], bound[i][k]);
    vn_bundle_free(&x);
    vn_model_free(m);
}

VN_TEST(inputs, overrides_must_fit) {
    static const struct {
        vn_shape_arg_t shapes[2];
        int n;
        const char *want;
    } rows[] = {
        {{{"z", 1, {1}}}, 1, "no run-time input of that name"},
        {{{"a", 1, {1}}}, 1, "has 1 dimensions; the model declares f32[n,3]"},
        {{{"a", 2, {1, 4}}}, 1, "dimension 1 is 4; the model declares f32[n,3]"},
        {{{"a", 2, {1, 3}}, {"a", 2, {1, 3}}}, 2, "twice"},
        {{{"a", 2, {5, 3}}, {"b", 1, {6}}}, 2, "another override makes 'n' 5"},
        {{{"a", 2, {5, 3}}}, 1, "'open' has no declared rank"},
    };
    const int64_t dims[] = {-1, 3};
    const char *const n[] = {"n", NULL};
    vn_model_t *m = new_model(t);
    input(t, m, "a", VN_F32, 2, dims, n);
    input(t, m, "b", VN_F32, 1, dims, n);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_error_t err = {0};
        vn_bundle_t b;
        if (k == sizeof rows / sizeof *rows - 1) VN_ASSERT_OK(t, vn_graph_add_input(m->graph, "open", VN_F32, -1, NULL, NULL));
        VN_ASSERT_EQ(t, vn_probe_inputs(m, 1, rows[k].n, rows[k].shapes, &b, &err), VN_ERR_USAGE);
        VN_ASSERT_HAS(t, err.text, rows[k].want);
        VN_ASSERT_EQ(t, b.count, 0);
    }
    vn_model_free(m);
}

/* The numbers of an input depend on seed and name, not on what else there is. */
VN_TEST(inputs, independent_of_order) {
    const int64_t dims[] = {50};
    vn_model_t *m = new_model(t), *n = new_model(t);
    input(t, m, "a", VN_F32, 1, dims, NULL);
    input(t, m, "b", VN_F32, 1, dims, NULL);
    input(t, n, "other", VN_I64, 1, dims, NULL);
    input(t, n, "b", VN_F32, 1, dims, NULL);
    input(t, n, "a", VN_F32, 1, dims, NULL);
    vn_bundle_t x = generate(t, m, 7, 0, NULL), y = generate(t, n, 7, 0, NULL), z = generate(t, m, 8, 0, NULL);
    VN_ASSERT(t, vn_tensor_equal_bits(vn_bundle_find(&x, "a"), vn_bundle_find(&y, "a")));
    VN_ASSERT(t, vn_tensor_equal_bits(vn_bundle_find(&x, "b"), vn_bundle_find(&y, "b")));
    VN_ASSERT(t, !vn_tensor_equal_bits(vn_bundle_find(&x, "a"), vn_bundle_find(&x, "b")));
    VN_ASSERT(t, !vn_tensor_equal_bits(vn_bundle_find(&x, "a"), vn_bundle_find(&z, "a")));
    vn_bundle_free(&x);
    vn_bundle_free(&y);
    vn_bundle_free(&z);
    vn_model_free(m);
    vn_model_free(n);
}

/* Every type is filled, with finite floats that vary, integers of [0, 9] within the type, letters. */
VN_TEST(inputs, every_type) {
    const int64_t dims[] = {400};
    for (int type = 1; type < VN_DTYPE_COUNT; ++type) {
        vn_model_t *m = new_model(t);
        input(t, m, "v", (vn_dtype_t)type, 1, dims, NULL);
        vn_bundle_t b = generate(t, m, 3, 0, NULL);
        const vn_tensor_t *x = b.items[0].tensor;
        int64_t lo, hi;
        switch (vn_dtype_kind(x->dtype)) {
        case VN_KIND_SIGNED:
        case VN_KIND_UNSIGNED: {
            const int bits = vn_dtype_bits(x->dtype) - (vn_dtype_kind(x->dtype) == VN_KIND_SIGNED);
            extent(x, &lo, &hi);
            VN_ASSERT_EQ(t, lo, 0);
            VN_ASSERT_EQ(t, hi, bits < 4 ? (1 << bits) - 1 : 9);
            break;
        }
        case VN_KIND_BOOL:
            extent(x, &lo, &hi);
            VN_ASSERT(t, lo == 0 && hi == 1);
            break;
        case VN_KIND_STRING:
            for (int64_t i = 0; i < x->count; ++i) {
                const vn_string_t *s = (const vn_string_t *)x->data + i;
                VN_ASSERT(t, s->length == 1 && s->text[0] >= 'a' && s->text[0] <= 'z');
            }
            break;
        default: {
            double sum = 0, squares = 0;
            for (int64_t i = 0; i < x->count; ++i) {
                double v = vn_tensor_get_f64(x, i);
                VN_ASSERT(t, isfinite(v));
                sum += v;
                squares += v * v;
            }
            /* Six standard deviations of the mean of n draws, and of the mean of their squares (variance 2). Rounding x to the type
             * moves it by at most u|x| + eta/2, so its square by (2u + u^2)x^2 + eta|x|(1 + u) + eta^2/4 on average at most. */
            const vn_format_info_t *f = vn_format_info(vn_format_of(x->dtype));
            const double u = f ? f->u : 0x1p-24, eta = f ? f->eta : 0, n = (double)x->count;
            if (x->dtype != VN_F8E8M0) VN_ASSERT_LE(t, fabs(sum / n), 6 / sqrt(n) + u + eta / 2);
            VN_ASSERT_LE(t, fabs(squares / n - 1), (1 + u) * (1 + u) * 6 * sqrt(2 / n) + 2 * u + u * u + eta * (1 + u) + eta * eta / 4);
            break;
        }
        }
        vn_bundle_free(&b);
        vn_model_free(m);
    }
}

/* ids -> Cast -> Unsqueeze -> Gather(table) in a body of If: [0, 3), all of it used; mask: ones; free: [0, 9]. */
VN_TEST(inputs, indices_stay_inside_their_table) {
    const int64_t dims[] = {200}, table_dims[] = {5, 3};
    vn_error_t err = {0};
    vn_model_t *m = new_model(t), *body = new_model(t);
    vn_tensor_t *table;
    vn_node_t *gather, *choose;
    input(t, m, "ids", VN_I32, 1, dims, NULL);
    input(t, m, "Attention_Mask", VN_I64, 1, dims, NULL);
    input(t, m, "free", VN_I64, 1, dims, NULL);
    input(t, m, "flag", VN_BOOL, 0, NULL, NULL);
    input(t, m, "typed", VN_F32, 2, (const int64_t[]){7, -1}, NULL);
    input(t, m, "positions", VN_I64, 1, dims, NULL);
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 2, table_dims, &table, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "table", table, NULL));
    VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "axes", table, NULL));
    node(t, m->graph, "Cast", "ids", NULL, "c", NULL);
    node(t, m->graph, "Unsqueeze", "c", "axes", "u", NULL);
    node(t, body->graph, "Identity", "table", NULL, "same", NULL);
    node(t, body->graph, "Gather", "same", "u", "r", &gather);
    VN_ASSERT_OK(t, vn_node_set_int(body, gather, "axis", -1, NULL));
    VN_ASSERT_OK(t, vn_graph_add_output(body->graph, "r", VN_F32, -1, NULL, NULL));
    node(t, m->graph, "If", "flag", NULL, "o", &choose);
    vn_attr_t a = {.name = "then_branch", .kind = VN_ATTR_GRAPH, .g = body->graph};
    VN_ASSERT_OK_ERR(t, vn_node_set_attr(m, choose, &a, &err), err);
    node(t, m->graph, "Gather", "typed", "positions", "p", NULL);
    node(t, m->graph, "Gather", "table", "positions", "p2", NULL); /* 5 rows: fewer than 7 */
    vn_bundle_t b = generate(t, m, 5, 0, NULL);
    const struct {
        const char *name;
        int64_t lo, hi;
    } rows[] = {{"ids", 0, 2}, {"Attention_Mask", 1, 1}, {"free", 0, 9}, {"positions", 0, 4}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        int64_t lo, hi;
        extent(vn_bundle_find(&b, rows[k].name), &lo, &hi);
        VN_ASSERT_EQ(t, lo, rows[k].lo);
        VN_ASSERT_EQ(t, hi, rows[k].hi);
    }
    vn_bundle_free(&b);
    vn_tensor_free(table);
    vn_model_free(body);
    vn_model_free(m);
}

VN_TEST(inputs, what_cannot_be_generated_is_named) {
    vn_error_t err = {0};
    vn_bundle_t b;
    vn_model_t *m = new_model(t);
    vn_type_t elem = {.kind = VN_TYPE_TENSOR, .dtype = VN_F32, .rank = -1}, list = {.kind = VN_TYPE_SEQUENCE, .rank = -1, .elem = &elem};
    VN_ASSERT_OK(t, vn_graph_add_typed(m->graph, false, "list", &list, NULL));
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_EQ(t, vn_probe_inputs(m, 1, 0, NULL, &b, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "'list' is sequence(f32[...])");
    vn_model_free(m);
    m = new_model(t);
    input(t, m, "huge", VN_F32, 2, (const int64_t[]){INT64_MAX, 16}, NULL);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_EQ(t, vn_probe_inputs(m, 1, 0, NULL, &b, &err), VN_ERR_RANGE);
    VN_ASSERT_HAS(t, err.text, "input 'huge'");
    vn_model_free(m);
}

VN_TEST_MAIN(VN_CASE(inputs, shape_text), VN_CASE(inputs, open_dimensions), VN_CASE(inputs, overrides_must_fit),
             VN_CASE(inputs, independent_of_order), VN_CASE(inputs, every_type), VN_CASE(inputs, indices_stay_inside_their_table),
             VN_CASE(inputs, what_cannot_be_generated_is_named))
