/* Claims ML-FEATURE, ML-LABEL, ML-MAP: look-ups, features and maps are exact, their open points are readings, and lists that lie are refused. */
#include "oracle/ml_node.h"

static int64_t at(const ml_node_t *c, int64_t i) { return vn_tensor_get_i64(c->out[0].tensor, i); }
static double num(const vn_tensor_t *x, int64_t i) { return vn_tensor_get_f64(x, i); }
static const char *text(const ml_node_t *c, int64_t i) { return ((const vn_string_t *)c->out[0].tensor->data)[i].text; }

VN_TEST(label, repeated_keys_by_version) {
    for (int version = 2; version <= 4; version += 2) {
        ml_node_t c = {.op = "LabelEncoder",
                       .version = version,
                       .n_in = 1,
                       .in = {ml_value(t, one_ints(t, VN_I64, 3, (int64_t[]){1, 2, 3}))},
                       .attrs = {ML_INTS("keys_int64s", 1, 2, 1), ML_INTS("values_int64s", 10, 20, 30), ML_INT("default_int64", -5)}};
        ml_run(t, &c);
        VN_ASSERT_EQ(t, at(&c, 0), 30);
        VN_ASSERT_EQ(t, at(&c, 1), 20);
        VN_ASSERT_EQ(t, at(&c, 2), -5);
        VN_ASSERT(t, (ml_reading(&c.out[0], "first-of-duplicates") != NULL) == (version == 2));
        ml_free(&c);
    }
}

VN_TEST(label, floats_by_bits_or_by_value) {
    const double x[] = {0, -0.0, NAN, 1};
    static const int64_t due[2][4] = {{1, -1, 2, -1}, {1, 1, 2, -1}};
    for (int k = 0; k < 2; ++k) {
        ml_node_t c = {.op = "LabelEncoder",
                       .version = k ? 4 : 2,
                       .n_in = 1,
                       .in = {ml_value(t, one_vector(t, VN_F32, 4, x))},
                       .attrs = {ML_FLOATS("keys_floats", 0.0f, NAN), ML_INTS("values_int64s", 1, 2)}};
        ml_run(t, &c);
        for (int i = 0; i < 4; ++i) VN_ASSERT_EQ(t, at(&c, i), due[k][i]);
        VN_ASSERT(t, (ml_reading(&c.out[0], "zeros-by-bits") != NULL) == (k == 1));
        ml_free(&c);
    }
}

VN_TEST(label, tensors_and_texts) {
    const char *const words[] = {"b", "", "zz", "a"};
    vn_tensor_t *keys = ml_strings(t, 3, (const char *const[]){"a", "b", ""}), *values = one_ints(t, VN_I16, 3, (int64_t[]){7, -8, 9}),
                *fallback = one_ints(t, VN_I16, 1, (int64_t[]){42});
    ml_node_t c = {.op = "LabelEncoder",
                   .version = 4,
                   .n_in = 1,
                   .in = {ml_value(t, ml_strings(t, 4, words))},
                   .attrs = {ML_LIST("keys_tensor", ML_TENSOR_KIND, 0, keys), ML_LIST("values_tensor", ML_TENSOR_KIND, 0, values),
                             ML_LIST("default_tensor", ML_TENSOR_KIND, 0, fallback)}};
    ml_run(t, &c);
    VN_ASSERT(t, c.out[0].dtype == VN_I16);
    for (int i = 0; i < 4; ++i) VN_ASSERT_EQ(t, at(&c, i), ((int64_t[]){-8, 9, 42, 7})[i]);
    ml_free(&c);
    ml_node_t back = {.op = "LabelEncoder",
                      .n_in = 1,
                      .in = {ml_value(t, one_ints(t, VN_I64, 3, (int64_t[]){1, 2, -1}))},
                      .attrs = {ML_STRINGS("classes_strings", "x", "y")}};
    ml_run(t, &back);
    VN_ASSERT_STR(t, text(&back, 0), "y");
    VN_ASSERT_STR(t, text(&back, 1), "_Unused");
    VN_ASSERT_STR(t, text(&back, 2), "_Unused");
    ml_free(&back);
    vn_tensor_free(keys);
    vn_tensor_free(values);
    vn_tensor_free(fallback);
}

VN_TEST(label, categories_both_ways) {
    ml_node_t c = {.op = "CategoryMapper",
                   .n_in = 1,
                   .in = {ml_value(t, one_ints(t, VN_I64, 3, (int64_t[]){1, 2, 9}))},
                   .attrs = {ML_STRINGS("cats_strings", "z", "b", "q"), ML_INTS("cats_int64s", 1, 2, 1)}};
    ml_run(t, &c);
    VN_ASSERT_STR(t, text(&c, 0), "q");
    VN_ASSERT_STR(t, text(&c, 1), "b");
    VN_ASSERT_STR(t, text(&c, 2), "_Unused");
    VN_ASSERT(t, ml_reading(&c.out[0], "first-of-duplicates") != NULL);
    ml_free(&c);
}

VN_TEST(feature, comparisons_are_exact) {
    /* 0.1f is more than 0.1; 2^53 + 1 is no double */
    ml_node_t c = {.op = "Binarizer",
                   .n_in = 1,
                   .in = {ml_value(t, one_vector(t, VN_F64, 4, (double[]){0.1, (double)0.1f, 0.2, NAN}))},
                   .attrs = {ML_REAL("threshold", 0.1)}};
    ml_run(t, &c);
    for (int i = 0; i < 4; ++i) VN_ASSERT_DEQ(t, num(c.out[0].tensor, i), i == 2);
    ml_free(&c);
    const int64_t big = (int64_t)1 << 53;
    ml_node_t d = {.op = "Binarizer",
                   .n_in = 1,
                   .in = {ml_value(t, one_ints(t, VN_I64, 3, (int64_t[]){big, big + 1, big - 1}))},
                   .attrs = {ML_REAL("threshold", 0x1p53)}};
    ml_run(t, &d);
    for (int i = 0; i < 3; ++i) VN_ASSERT_EQ(t, at(&d, i), i == 1);
    ml_free(&d);
}

VN_TEST(feature, vectorizer_cuts_fills_and_rounds_once) {
    const int64_t x[] = {((int64_t)1 << 54) + ((int64_t)1 << 30) + 1, 3}; /* just above a tie of f32: through f64 it would go down */
    ml_node_t c = {.op = "FeatureVectorizer",
                   .n_in = 2,
                   .in = {ml_value(t, one_ints(t, VN_I64, 2, x)), ml_value(t, one_ints(t, VN_I64, 2, (int64_t[]){5, 6}))},
                   .attrs = {ML_INTS("inputdimensions", 1, 3)}};
    ml_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 4);
    VN_ASSERT_DEQ(t, num(c.out[0].tensor, 0), 0x1p54 + 0x1p31);
    VN_ASSERT_DEQ(t, num(c.out[0].tensor, 2), 6);
    VN_ASSERT_DEQ(t, num(c.out[0].tensor, 3), 0);
    ml_free(&c);
}

VN_TEST(feature, imputer_and_extractor) {
    ml_node_t c = {.op = "Imputer",
                   .n_in = 1,
                   .in = {ml_matrix(t, VN_F32, 2, 2, (double[]){1, NAN, NAN, 2})},
                   .attrs = {ML_FLOATS("imputed_value_floats", 7, 8), ML_REAL("replaced_value_float", NAN)}};
    ml_run(t, &c);
    for (int i = 0; i < 4; ++i) VN_ASSERT_DEQ(t, num(c.out[0].tensor, i), ((double[]){1, 8, 7, 2})[i]);
    ml_free(&c);
    ml_node_t d = {.op = "ArrayFeatureExtractor",
                   .n_in = 2,
                   .in = {ml_value(t, ml_strings(t, 3, (const char *const[]){"a", "b", "c"})),
                          ml_value(t, one_ints(t, VN_I64, 2, (int64_t[]){2, 0}))}};
    ml_run(t, &d);
    VN_ASSERT_EQ(t, d.out[0].rank, 2);
    VN_ASSERT_STR(t, text(&d, 0), "c");
    VN_ASSERT_STR(t, text(&d, 1), "a");
    ml_free(&d);
}

VN_TEST(feature, one_hot) {
    ml_node_t c = {.op = "OneHotEncoder",
                   .n_in = 1,
                   .in = {ml_value(t, one_vector(t, VN_F32, 4, (double[]){1.7, -1.5, 9, INFINITY}))},
                   .attrs = {ML_INTS("cats_int64s", 1, 2, -1, 1)}};
    ml_run(t, &c);
    static const double due[] = {0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0};
    for (int i = 0; i < 12; ++i) VN_ASSERT_DEQ(t, num(c.out[0].tensor, i), due[i]);
    VN_ASSERT(t, (c.out[0].flags[12] & VN_EL_VOID) && !c.out[0].flags[11]);
    const vn_reading_t *first = ml_reading(&c.out[0], "first-of-duplicates");
    VN_ASSERT(t, first && num(first->value, 0) == 1);
    ml_free(&c);
}

/* ---- maps ---- */

static vn_value_t *numbers(vn_test_t *t) {
    return ml_map(t, one_ints(t, VN_I64, 3, (int64_t[]){4, 0, 2}), one_vector(t, VN_F32, 3, (double[]){1.5, -2.75, 3}));
}

VN_TEST(map, cast_in_order_of_the_keys) {
    ml_node_t c = {.op = "CastMap", .n_in = 1, .in = {numbers(t)}};
    ml_run(t, &c);
    for (int i = 0; i < 3; ++i) VN_ASSERT_DEQ(t, num(c.out[0].tensor, i), ((double[]){-2.75, 3, 1.5})[i]);
    ml_free(&c);
    ml_node_t sparse = {.op = "CastMap",
                        .n_in = 1,
                        .in = {numbers(t)},
                        .attrs = {ML_TEXT("map_form", "SPARSE"), ML_INT("max_map", 6), ML_TEXT("cast_to", "TO_INT64")}};
    ml_run(t, &sparse);
    for (int i = 0; i < 6; ++i) VN_ASSERT_EQ(t, at(&sparse, i), ((int64_t[]){-2, 0, 3, 0, 1, 0})[i]);
    ml_free(&sparse);
    ml_node_t texts = {
        .op = "CastMap",
        .n_in = 1,
        .in = {ml_map(t, one_ints(t, VN_I64, 3, (int64_t[]){2, 1, 3}), ml_strings(t, 3, (const char *const[]){"-17", "0.5", "x"}))}};
    ml_run(t, &texts);
    VN_ASSERT_DEQ(t, num(texts.out[0].tensor, 0), 0.5);
    VN_ASSERT_DEQ(t, num(texts.out[0].tensor, 1), -17);
    VN_ASSERT(t, texts.out[0].flags[2] & VN_EL_VOID);
    ml_free(&texts);
    ml_node_t spelled = {.op = "CastMap", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_TEXT("cast_to", "TO_STRING")}};
    ml_run(t, &spelled);
    VN_ASSERT_STR(t, text(&spelled, 0), "-2.75");
    ml_free(&spelled);
}

VN_TEST(map, dictionary_becomes_a_row) {
    ml_node_t c = {.op = "DictVectorizer",
                   .n_in = 1,
                   .in = {ml_map(t, ml_strings(t, 2, (const char *const[]){"a", "c"}), one_ints(t, VN_I64, 2, (int64_t[]){4, 8}))},
                   .attrs = {ML_STRINGS("string_vocabulary", "a", "c", "b", "z")}};
    ml_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].rank, 1);
    for (int i = 0; i < 4; ++i) VN_ASSERT_EQ(t, at(&c, i), ((int64_t[]){4, 8, 0, 0})[i]);
    VN_ASSERT(t, ml_reading(&c.out[0], "one-row") && ml_reading(&c.out[0], "one-row")->value->rank == 2);
    ml_free(&c);
}

VN_TEST(map, zip) {
    ml_node_t c = {.op = "ZipMap",
                   .n_in = 1,
                   .in = {ml_matrix(t, VN_F32, 2, 3, (double[]){1, 2, 3, 4, 5, 6})},
                   .attrs = {ML_STRINGS("classlabels_strings", "x", "y", "z")}};
    ml_run(t, &c);
    VN_ASSERT(t, c.out[0].nested && c.out[0].nested->kind == VN_VALUE_SEQUENCE && c.out[0].nested->count == 2);
    const vn_value_t *second = c.out[0].nested->items[1];
    VN_ASSERT(t, second->kind == VN_VALUE_MAP);
    VN_ASSERT_STR(t, ((const vn_string_t *)second->items[0]->tensor->data)[2].text, "z");
    VN_ASSERT_DEQ(t, num(second->items[1]->tensor, 0), 4);
    ml_free(&c);
}

/* ---- inference ---- */

VN_TEST(infer, open_number_of_rows) {
    vn_model_t *m;
    vn_node_t *node;
    vn_inferred_t r;
    vn_error_t err;
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_set_opset(m, "ai.onnx.ml", 3, &err), err);
    VN_ASSERT_OK_ERR(t, vn_graph_add_input(m->graph, "a", VN_F64, 2, (int64_t[]){-1, 2}, &err), err);
    const ml_attr_t scaler[] = {ML_FLOATS("scale", 1), ML_FLOATS("offset", 2)},
                    linear[] = {ML_FLOATS("coefficients", 1, 2, 3, 4), ML_STRINGS("classlabels_strings", "x", "y")},
                    regressor[] = {ML_FLOATS("coefficients", 1, 2, 3, 4, 5, 6), ML_INT("targets", 3)};
    VN_ASSERT_OK_ERR(
        t,
        vn_graph_add_node(m->graph, "s", "Scaler", "ai.onnx.ml", 1, (const char *const[]){"a"}, 1, (const char *const[]){"b"}, &node, &err),
        err);
    for (int k = 0; k < 2; ++k) ml_set(t, m, node, &scaler[k]);
    VN_ASSERT_OK_ERR(t,
                     vn_graph_add_node(m->graph, "c", "LinearClassifier", "ai.onnx.ml", 1, (const char *const[]){"b"}, 2,
                                       (const char *const[]){"l", "z"}, &node, &err),
                     err);
    for (int k = 0; k < 2; ++k) ml_set(t, m, node, &linear[k]);
    VN_ASSERT_OK_ERR(t,
                     vn_graph_add_node(m->graph, "r", "LinearRegressor", "ai.onnx.ml", 1, (const char *const[]){"b"}, 1,
                                       (const char *const[]){"y"}, &node, &err),
                     err);
    for (int k = 0; k < 2; ++k) ml_set(t, m, node, &regressor[k]);
    VN_ASSERT_OK_ERR(t, vn_graph_add_output(m->graph, "y", VN_F32, -1, NULL, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_oracle_infer(m, NULL, &r, &err), err);
    const vn_inferred_value_t *b = vn_inferred_find(&r, "b"), *l = vn_inferred_find(&r, "l"), *y = vn_inferred_find(&r, "y");
    VN_ASSERT(t, b->dtype == VN_F32 && b->rank == 2 && b->dims[0] == -1 && b->dims[1] == 2);
    VN_ASSERT(t, l->dtype == VN_STRING && l->rank == 1 && l->dims[0] == -1);
    VN_ASSERT(t, y->dtype == VN_F32 && y->rank == 2 && y->dims[0] == -1 && y->dims[1] == 3);
    vn_inferred_free(&r);
    vn_model_free(m);
}

/* ---- what is refused ---- */

typedef struct bad {
    ml_node_t node;
    vn_status_t due;
    const char *says;
} bad_t;

VN_TEST(refused, lists_that_lie) {
#define I64(...) ml_value(t, one_ints(t, VN_I64, ML_COUNT(int64_t, __VA_ARGS__), (int64_t[]){__VA_ARGS__}))
#define F32(...) ml_value(t, one_vector(t, VN_F32, ML_COUNT(double, __VA_ARGS__), (double[]){__VA_ARGS__}))
    bad_t bad[] = {
        {{.op = "ArrayFeatureExtractor", .n_in = 2, .in = {F32(1, 2), I64(2)}}, VN_ERR_RANGE, "index 2 outside 2"},
        {{.op = "ArrayFeatureExtractor", .n_in = 2, .in = {F32(1, 2), I64(-1)}}, VN_ERR_RANGE, "index -1"},
        {{.op = "ArrayFeatureExtractor", .n_in = 2, .in = {F32(1, 2), F32(1)}}, VN_ERR_DTYPE, "not i64"},
        {{.op = "ArrayFeatureExtractor", .n_in = 1, .in = {F32(1, 2)}}, VN_ERR_SHAPE, "input 1"},
        {{.op = "FeatureVectorizer", .n_in = 1, .in = {F32(1)}, .attrs = {ML_INTS("inputdimensions", 1, 2)}},
         VN_ERR_SHAPE,
         "2 inputdimensions"},
        {{.op = "FeatureVectorizer", .n_in = 1, .in = {F32(1)}, .attrs = {ML_INTS("inputdimensions", -4)}}, VN_ERR_RANGE, "is -4"},
        {{.op = "FeatureVectorizer", .n_in = 1, .in = {F32(1)}, .attrs = {ML_INTS("inputdimensions", INT64_MAX)}}, VN_ERR_RANGE, ""},
        {{.op = "FeatureVectorizer", .n_in = 2, .in = {F32(1), I64(1)}}, VN_ERR_DTYPE, "another type"},
        {{.op = "Imputer", .n_in = 1, .in = {F32(1, 2, 3)}, .attrs = {ML_FLOATS("imputed_value_floats", 1, 2)}},
         VN_ERR_SHAPE,
         "2 values for 3"},
        {{.op = "Imputer", .n_in = 1, .in = {I64(1)}, .attrs = {ML_FLOATS("imputed_value_floats", 1)}},
         VN_ERR_SHAPE,
         "imputed_value_int64s"},
        {{.op = "OneHotEncoder", .n_in = 1, .in = {I64(1)}}, VN_ERR_SHAPE, "no categories"},
        {{.op = "OneHotEncoder", .n_in = 1, .in = {I64(1)}, .attrs = {ML_STRINGS("cats_strings", "a")}},
         VN_ERR_DTYPE,
         "strings for an input"},
        {{.op = "OneHotEncoder", .n_in = 1, .in = {I64(1)}, .attrs = {ML_INTS("cats_int64s", 5), ML_INT("zeros", 0)}},
         VN_ERR_RANGE,
         "no category"},
        {{.op = "CategoryMapper", .n_in = 1, .in = {I64(1)}, .attrs = {ML_INTS("cats_int64s", 5, 6), ML_STRINGS("cats_strings", "a")}},
         VN_ERR_SHAPE,
         "cats_strings has 1"},
        {{.op = "LabelEncoder", .version = 2, .n_in = 1, .in = {I64(1)}, .attrs = {ML_INTS("values_int64s", 1)}},
         VN_ERR_SHAPE,
         "none of keys_*"},
        {{.op = "LabelEncoder",
          .version = 2,
          .n_in = 1,
          .in = {I64(1)},
          .attrs = {ML_INTS("keys_int64s", 1), ML_INTS("values_int64s", 1, 2)}},
         VN_ERR_SHAPE,
         "1 keys and 2 values"},
        {{.op = "LabelEncoder", .version = 2, .n_in = 1, .in = {F32(1)}, .attrs = {ML_INTS("keys_int64s", 1), ML_INTS("values_int64s", 1)}},
         VN_ERR_DTYPE,
         "the keys are i64"},
        {{.op = "LabelEncoder",
          .version = 4,
          .n_in = 1,
          .in = {I64(1)},
          .attrs = {ML_INTS("keys_int64s", 1), ML_FLOATS("keys_floats", 1), ML_INTS("values_int64s", 1)}},
         VN_ERR_RANGE,
         "more than one"},
        {{.op = "CastMap", .n_in = 1, .in = {F32(1)}}, VN_ERR_DTYPE, "not a map"},
        {{.op = "CastMap", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_TEXT("map_form", "SPARSE"), ML_INT("max_map", 4)}},
         VN_ERR_RANGE,
         "key 4"},
        {{.op = "CastMap", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_TEXT("cast_to", "TO_WORDS")}}, VN_ERR_RANGE, "TO_WORDS"},
        {{.op = "DictVectorizer", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_INTS("int64_vocabulary", 0, 2)}},
         VN_ERR_RANGE,
         "not in the vocabulary"},
        {{.op = "DictVectorizer", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_STRINGS("string_vocabulary", "a")}},
         VN_ERR_DTYPE,
         "keys of i64"},
        {{.op = "Scaler", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_FLOATS("scale", 1), ML_FLOATS("offset", 1)}}, VN_ERR_DTYPE, "tensor"},
        {{.op = "Scaler", .n_in = 1, .in = {F32(1, 2, 3)}, .attrs = {ML_FLOATS("scale", 1, 2), ML_FLOATS("offset", 1, 2)}},
         VN_ERR_SHAPE,
         "2 scales"},
        {{.op = "ZipMap", .n_in = 1, .in = {F32(1, 2)}, .attrs = {ML_INTS("classlabels_int64s", 1)}}, VN_ERR_SHAPE, "as many columns"},
        {{.op = "ZipMap",
          .n_in = 1,
          .in = {F32(1, 2)},
          .attrs = {ML_INTS("classlabels_int64s", 1, 2), ML_STRINGS("classlabels_strings", "a", "b")}},
         VN_ERR_RANGE,
         "both"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k) {
        const vn_status_t got = ml_try(t, &bad[k].node);
        VN_ASSERT_EQ(t, got, bad[k].due);
        VN_ASSERT_HAS(t, bad[k].node.err.text, bad[k].says);
    }
}

VN_TEST(refused, allocation_faults) {
    ml_node_t c[] = {{.op = "CastMap", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_TEXT("cast_to", "TO_STRING")}},
                     {.op = "DictVectorizer", .n_in = 1, .in = {numbers(t)}, .attrs = {ML_INTS("int64_vocabulary", 0, 2, 4)}},
                     {.op = "ZipMap",
                      .n_in = 1,
                      .in = {ml_matrix(t, VN_F32, 2, 2, (double[]){1, 2, 3, 4})},
                      .attrs = {ML_STRINGS("classlabels_strings", "x", "y")}},
                     {.op = "LabelEncoder",
                      .version = 2,
                      .n_in = 1,
                      .in = {I64(1, 2)},
                      .attrs = {ML_INTS("keys_int64s", 1, 1), ML_STRINGS("values_strings", "x", "y")}},
                     {.op = "OneHotEncoder", .n_in = 1, .in = {F32(1, NAN)}, .attrs = {ML_INTS("cats_int64s", 1, 1)}},
                     {.op = "Imputer", .n_in = 1, .in = {F32(1)}, .attrs = {ML_FLOATS("imputed_value_floats", 1)}}};
    for (size_t k = 0; k < sizeof c / sizeof *c; ++k) VN_ASSERT_GT(t, ml_faults(t, &c[k]), 2);
}

VN_TEST_MAIN(VN_CASE(label, repeated_keys_by_version), VN_CASE(label, floats_by_bits_or_by_value), VN_CASE(label, tensors_and_texts),
             VN_CASE(label, categories_both_ways), VN_CASE(feature, comparisons_are_exact),
             VN_CASE(feature, vectorizer_cuts_fills_and_rounds_once), VN_CASE(feature, imputer_and_extractor), VN_CASE(feature, one_hot),
             VN_CASE(map, cast_in_order_of_the_keys), VN_CASE(map, dictionary_becomes_a_row), VN_CASE(map, zip),
             VN_CASE(infer, open_number_of_rows), VN_CASE(refused, lists_that_lie), VN_CASE(refused, allocation_faults))
