/* Claims ML-TREE, ML-BINARY, ML-5: trees against a slow twin, sums in f32 of several orders, ties, and lists that lie. */
#include "oracle/ml_node.h"

enum { DEPTH = 3, NODES = 15, FEATURES = 4, TREES = 21, CLASSES = 3, ROWS = 9 };

/* A forest of full binary trees: nodes 0..6 branch, 7..14 are leaves that vote for every class. */
typedef struct forest {
    int64_t tree[TREES * NODES], id[TREES * NODES], feature[TREES * NODES], yes[TREES * NODES], no[TREES * NODES], missing[TREES * NODES];
    const char *mode[TREES * NODES];
    float split[TREES * NODES];
    int64_t vote_tree[TREES * 8 * CLASSES], vote_id[TREES * 8 * CLASSES], vote_class[TREES * 8 * CLASSES];
    float weight[TREES * 8 * CLASSES];
    int64_t trees, classes, votes;
} forest_t;

static const char *const modes[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};

static void grow(vn_rng_t *rng, forest_t *f, int64_t trees, int64_t classes) {
    *f = (forest_t){.trees = trees, .classes = classes};
    for (int64_t t = 0; t < trees; ++t)
        for (int64_t i = 0; i < NODES; ++i) {
            const int64_t at = t * NODES + i;
            const bool leaf = i >= 7;
            f->tree[at] = 5 * t; /* ids of trees need not be dense */
            f->id[at] = i;
            f->feature[at] = (int64_t)vn_rng_below(rng, FEATURES);
            f->mode[at] = leaf ? "LEAF" : modes[vn_rng_below(rng, 6)];
            f->split[at] = (float)((int)vn_rng_below(rng, 5) - 2);
            f->yes[at] = leaf ? 0 : 2 * i + 1;
            f->no[at] = leaf ? 0 : 2 * i + 2;
            f->missing[at] = (int64_t)vn_rng_below(rng, 2);
            for (int64_t c = 0; leaf && c < classes; ++c, ++f->votes) {
                f->vote_tree[f->votes] = 5 * t;
                f->vote_id[f->votes] = i;
                f->vote_class[f->votes] = c;
                f->weight[f->votes] = (float)vn_rng_normal(rng);
            }
        }
}

/* The twin: one comparison after the other, by names. */
static int64_t twin_leaf(const forest_t *f, int64_t t, const double *x) {
    int64_t i = 0;
    while (i < 7) {
        const int64_t at = t * NODES + i;
        const double v = x[f->feature[at]], s = (double)f->split[at];
        const char *m = f->mode[at] + 7;
        bool yes = !strcmp(m, "LEQ")   ? v <= s
                   : !strcmp(m, "LT")  ? v < s
                   : !strcmp(m, "GTE") ? v >= s
                   : !strcmp(m, "GT")  ? v > s
                   : !strcmp(m, "EQ")  ? v == s
                                       : v != s;
        if (isnan(v)) yes = f->missing[at];
        i = yes ? f->yes[at] : f->no[at];
    }
    return i;
}

#define FOREST(f, prefix)                                                                          \
    ML_LIST("nodes_treeids", ML_INTS_KIND, (f)->trees *NODES, (f)->tree),                          \
        ML_LIST("nodes_nodeids", ML_INTS_KIND, (f)->trees *NODES, (f)->id),                        \
        ML_LIST("nodes_featureids", ML_INTS_KIND, (f)->trees *NODES, (f)->feature),                \
        ML_LIST("nodes_truenodeids", ML_INTS_KIND, (f)->trees *NODES, (f)->yes),                   \
        ML_LIST("nodes_falsenodeids", ML_INTS_KIND, (f)->trees *NODES, (f)->no),                   \
        ML_LIST("nodes_missing_value_tracks_true", ML_INTS_KIND, (f)->trees *NODES, (f)->missing), \
        ML_LIST("nodes_values", ML_FLOATS_KIND, (f)->trees *NODES, (f)->split),                    \
        ML_LIST("nodes_modes", ML_STRINGS_KIND, (f)->trees *NODES, (f)->mode),                     \
        ML_LIST(prefix "_treeids", ML_INTS_KIND, (f)->votes, (f)->vote_tree),                      \
        ML_LIST(prefix "_nodeids", ML_INTS_KIND, (f)->votes, (f)->vote_id),                        \
        ML_LIST(prefix "_ids", ML_INTS_KIND, (f)->votes, (f)->vote_class),                         \
        ML_LIST(prefix "_weights", ML_FLOATS_KIND, (f)->votes, (f)->weight)

static void rows_of(vn_rng_t *rng, double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        x[i] = vn_rng_below(rng, 9) == 0 ? NAN : (double)((int)vn_rng_below(rng, 7) - 3) + 0.5 * (double)vn_rng_below(rng, 2);
}

/* f32 sum of the votes of class c, forwards, backwards, or in pairs of halves; *exact in long double. */
static float sum_votes(const forest_t *f, const double *x, int64_t c, int order, long double *exact) {
    float part[2] = {0, 0};
    *exact = 0;
    for (int64_t k = 0; k < f->trees; ++k) {
        const int64_t t = order == 1 ? f->trees - 1 - k : k, leaf = twin_leaf(f, t, x);
        const float w = f->weight[(t * 8 + leaf - 7) * f->classes + c];
        part[order == 2 ? t % 2 : 0] += w;
        *exact += (long double)w;
    }
    return part[0] + part[1];
}

VN_TEST(tree, sums_of_any_order_are_inside) {
    vn_rng_t rng = vn_test_rng(t);
    static forest_t f;
    double tightest = 0;
    for (int round = 0; round < 20 * vn_test_scale(t); ++round) {
        double x[ROWS * FEATURES];
        grow(&rng, &f, 1 + (int64_t)vn_rng_below(&rng, TREES), CLASSES);
        rows_of(&rng, x, ROWS * FEATURES);
        ml_node_t c = {.op = "TreeEnsembleRegressor",
                       .n_in = 1,
                       .in = {ml_matrix(t, VN_F32, ROWS, FEATURES, x)},
                       .attrs = {FOREST(&f, "target"), ML_INT("n_targets", CLASSES)}};
        ml_run(t, &c);
        for (int64_t i = 0; i < ROWS * CLASSES; ++i)
            for (int order = 0; order < 3; ++order) {
                long double exact;
                const float got = sum_votes(&f, x + i / CLASSES * FEATURES, i % CLASSES, order, &exact);
                VN_ASSERT_LE(t, fabs((double)(exact - (long double)c.out[0].value[i])), 0x1p-52 * fabs((double)exact) + 0x1p-70);
                VN_ASSERT_LE(t, fabs((double)got - c.out[0].value[i]), ml_room(&c.out[0], i));
                if (c.out[0].bound[i] > 0) tightest = fmax(tightest, fabs((double)got - c.out[0].value[i]) / c.out[0].bound[i]);
                VN_ASSERT_LE(t, c.out[0].bound[i], 1e-4); /* a vote of the smallest usual size cannot hide */
            }
        ml_free(&c);
    }
    VN_ASSERT_GT(t, tightest, 0.05);
}

VN_TEST(tree, classes_are_the_largest_sums) {
    vn_rng_t rng = vn_test_rng(t);
    static forest_t f;
    for (int round = 0; round < 10 * vn_test_scale(t); ++round) {
        double x[ROWS * FEATURES];
        grow(&rng, &f, 7, CLASSES);
        rows_of(&rng, x, ROWS * FEATURES);
        ml_node_t c = {.op = "TreeEnsembleClassifier",
                       .version = 3,
                       .n_in = 1,
                       .n_out = 2,
                       .in = {ml_matrix(t, VN_F32, ROWS, FEATURES, x)},
                       .attrs = {FOREST(&f, "class"), ML_INTS("classlabels_int64s", 40, -7, 13)}};
        ml_run(t, &c);
        for (int64_t i = 0; i < ROWS; ++i) {
            long double y[CLASSES];
            int best = 0;
            for (int k = 0; k < CLASSES; ++k) {
                sum_votes(&f, x + i * FEATURES, k, 0, &y[k]);
                if (y[k] > y[best]) best = k;
            }
            VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), ((int64_t[]){40, -7, 13})[best]);
        }
        VN_ASSERT(t, c.out[0].either == NULL); /* random sums do not meet: a wrong label is seen */
        ml_free(&c);
    }
}

/* A stump: x0 <= 0.5 goes to leaf 1, else to leaf 2. */
#define STUMP                                                                                                                 \
    ML_INTS("nodes_treeids", 0, 0, 0), ML_INTS("nodes_nodeids", 0, 1, 2), ML_INTS("nodes_featureids", 0, 0, 0),               \
        ML_FLOATS("nodes_values", 0.5f, 0, 0), ML_INTS("nodes_truenodeids", 1, 0, 0), ML_INTS("nodes_falsenodeids", 2, 0, 0), \
        ML_STRINGS("nodes_modes", "BRANCH_LEQ", "LEAF", "LEAF")

VN_TEST(tree, equal_sums_leave_two_labels) {
    const double x[] = {0, 1};
    ml_node_t c = {.op = "TreeEnsembleClassifier",
                   .n_in = 1,
                   .n_out = 2,
                   .in = {ml_matrix(t, VN_F32, 2, 1, x)},
                   .attrs = {STUMP, ML_INTS("class_treeids", 0, 0, 0, 0), ML_INTS("class_nodeids", 1, 1, 2, 2),
                             ML_INTS("class_ids", 1, 2, 0, 1), ML_FLOATS("class_weights", 0.25f, 0.25f, 0.5f, 0.25f),
                             ML_STRINGS("classlabels_strings", "a", "b", "c")}};
    ml_run(t, &c);
    const vn_string_t *best = c.out[0].tensor->data, *other = c.out[0].either->data;
    VN_ASSERT_STR(t, best[0].text, "b");
    VN_ASSERT_STR(t, other[0].text, "c");
    VN_ASSERT_STR(t, best[1].text, "a");
    VN_ASSERT_STR(t, other[1].text, "a");
    VN_ASSERT_DEQ(t, c.out[1].bound[0], 0); /* single votes do not round */
    ml_free(&c);
}

VN_TEST(tree, two_classes_by_one_sum) {
    const double x[] = {0, 1};
    for (int sign = 0; sign < 2; ++sign) {
        const float w[] = {sign ? -0.25f : 0.25f, 0.75f};
        ml_node_t c = {.op = "TreeEnsembleClassifier",
                       .n_in = 1,
                       .n_out = 2,
                       .in = {ml_matrix(t, VN_F32, 2, 1, x)},
                       .attrs = {STUMP, ML_INTS("class_treeids", 0, 0), ML_INTS("class_nodeids", 1, 2), ML_INTS("class_ids", 0, 0),
                                 ML_LIST("class_weights", ML_FLOATS_KIND, 2, w), ML_INTS("classlabels_int64s", 5, 7)}};
        ml_run(t, &c);
        VN_ASSERT_DEQ(t, c.out[1].value[0], sign ? 0.25 : 0.75);
        VN_ASSERT_DEQ(t, c.out[1].value[1], sign ? -0.25 : 0.25);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), 5);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 1), 7);
        VN_ASSERT(t, ml_reading(&c.out[1], "second-class-zero") != NULL);
        VN_ASSERT((t), (ml_reading(&c.out[1], "one-minus") != NULL) == (sign == 1));
        ml_free(&c);
    }
}

VN_TEST(tree, operands_beyond_f32_may_take_another_way) {
    const double x[] = {0.5 + 0x1p-40, 3}; /* as f32 it is 0.5 */
    ml_node_t c = {.op = "TreeEnsembleRegressor",
                   .n_in = 1,
                   .in = {ml_matrix(t, VN_F64, 2, 1, x)},
                   .attrs = {STUMP, ML_INTS("target_treeids", 0, 0), ML_INTS("target_nodeids", 1, 2), ML_INTS("target_ids", 0, 0),
                             ML_FLOATS("target_weights", 4, 9), ML_INT("n_targets", 1)}};
    ml_run(t, &c);
    VN_ASSERT_DEQ(t, c.out[0].value[0], 9);
    VN_ASSERT_LT(t, c.out[0].bound[0], 1e-5);
    VN_ASSERT_GE(t, c.out[0].wide[0], 5);
    VN_ASSERT_LT(t, c.out[0].wide[1], 1e-5);
    VN_ASSERT_STR(t, c.out[0].wide_note, "operand-f32");
    ml_free(&c);
}

VN_TEST(tree, aggregates) {
    static const struct {
        const char *how;
        double y[2];
    } want[] = {{"SUM", {3.5, 0.5}}, {"AVERAGE", {2, 0.5}}, {"MIN", {1.5, 0.5}}, {"MAX", {2.5, 0.5}}};
    for (int k = 0; k < 4; ++k) { /* two stumps; target 1 has no votes at all, base values 0.5 */
        ml_node_t c = {.op = "TreeEnsembleRegressor",
                       .n_in = 1,
                       .in = {ml_matrix(t, VN_F32, 1, 1, (double[]){0})},
                       .attrs = {ML_INTS("nodes_treeids", 0, 0, 0, 1), ML_INTS("nodes_nodeids", 0, 1, 2, 0),
                                 ML_INTS("nodes_featureids", 0, 0, 0, 0), ML_FLOATS("nodes_values", 0.5f, 0, 0, 0),
                                 ML_INTS("nodes_truenodeids", 1, 0, 0, 0), ML_INTS("nodes_falsenodeids", 2, 0, 0, 0),
                                 ML_STRINGS("nodes_modes", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"), ML_INTS("target_treeids", 0, 1),
                                 ML_INTS("target_nodeids", 1, 0), ML_INTS("target_ids", 0, 0), ML_FLOATS("target_weights", 1, 2),
                                 ML_INT("n_targets", 2), ML_TEXT("aggregate_function", want[k].how), ML_FLOATS("base_values", 0.5f, 0.5f)}};
        ml_run(t, &c);
        for (int i = 0; i < 2; ++i) VN_ASSERT_DEQ(t, c.out[0].value[i], want[k].y[i]);
        VN_ASSERT(t, (ml_reading(&c.out[0], "no-vote-extreme") != NULL) == (k >= 2));
        ml_free(&c);
    }
}

/* ---- TreeEnsemble 5 ---- */

static vn_tensor_t *list(vn_test_t *t, vn_dtype_t type, int64_t n, const double *v) { return one_vector(t, type, n, v); }

VN_TEST(tree, members_in_order_of_the_nodes) {
    const double splits[] = {2, 0, 0}, node_modes[] = {0, 6, 6}, sets[] = {1, 4, NAN, 5, NAN}, weights[] = {10, 11, 12, 13},
                 x[] = {1, 2, 4, 7, NAN, 2.5};
    vn_tensor_t *s = list(t, VN_F64, 3, splits), *m = list(t, VN_U8, 3, node_modes), *v = list(t, VN_F64, 5, sets),
                *w = list(t, VN_F64, 4, weights);
    ml_node_t c = {.op = "TreeEnsemble",
                   .version = 5,
                   .n_in = 1,
                   .in = {ml_matrix(t, VN_F64, 6, 1, x)},
                   .attrs = {ML_LIST("nodes_splits", ML_TENSOR_KIND, 0, s), ML_LIST("nodes_modes", ML_TENSOR_KIND, 0, m),
                             ML_LIST("membership_values", ML_TENSOR_KIND, 0, v), ML_LIST("leaf_weights", ML_TENSOR_KIND, 0, w),
                             ML_INT("n_targets", 1), ML_INTS("tree_roots", 0), ML_INTS("nodes_featureids", 0, 0, 0),
                             ML_INTS("nodes_truenodeids", 2, 0, 2), ML_INTS("nodes_falsenodeids", 1, 1, 3),
                             ML_INTS("nodes_trueleafs", 0, 1, 1), ML_INTS("nodes_falseleafs", 0, 1, 1),
                             ML_INTS("leaf_targetids", 0, 0, 0, 0), ML_INTS("nodes_missing_value_tracks_true", 1, 0, 1)}};
    ml_run(t, &c); /* x <= 2: node 2, the set {5}; else node 1, the set {1, 4} */
    const double due[] = {13, 13, 10, 11, 12, 11};
    for (int i = 0; i < 6; ++i) VN_ASSERT_DEQ(t, c.out[0].value[i], due[i]);
    VN_ASSERT(t, c.out[0].dtype == VN_F64 && c.out[0].wide == NULL);
    ml_free(&c);
    vn_tensor_free(s);
    vn_tensor_free(m);
    vn_tensor_free(v);
    vn_tensor_free(w);
}

/* ---- lists that lie ---- */

typedef struct lie {
    ml_attr_t attr;
    vn_status_t due;
    const char *says;
} lie_t;

#define HONEST                                                                                            \
    STUMP, ML_INTS("target_treeids", 0, 0), ML_INTS("target_nodeids", 1, 2), ML_INTS("target_ids", 0, 0), \
        ML_FLOATS("target_weights", 4, 9), ML_INT("n_targets", 1)

VN_TEST(tree, hostile_lists_are_refused) {
    const lie_t lies[] = {
        {ML_INTS("nodes_truenodeids", 0, 0, 0), VN_ERR_RANGE, "cycle"},
        {ML_INTS("nodes_truenodeids", 9, 0, 0), VN_ERR_RANGE, "nodes_truenodeids[0] is 9"},
        {ML_INTS("nodes_falsenodeids", -1, 0, 0), VN_ERR_RANGE, "nodes_falsenodeids[0] is -1"},
        {ML_INTS("nodes_falsenodeids", 1, 0, 0), VN_ERR_RANGE, "two nodes to which no branch leads"},
        {ML_INTS("nodes_featureids", 1, 0, 0), VN_ERR_RANGE, "nodes_featureids[0] is 1"},
        {ML_INTS("nodes_featureids", -1, 0, 0), VN_ERR_RANGE, "nodes_featureids[0] is -1"},
        {ML_INTS("nodes_featureids", 0, 0), VN_ERR_SHAPE, "nodes_featureids has 2 entries"},
        {ML_INTS("nodes_nodeids", 0, 1, 1), VN_ERR_RANGE, "stands twice"},
        {ML_FLOATS("nodes_values", 1), VN_ERR_SHAPE, "nodes_values has 1"},
        {ML_STRINGS("nodes_modes", "BRANCH_ABOUT", "LEAF", "LEAF"), VN_ERR_RANGE, "BRANCH_ABOUT"},
        {ML_STRINGS("nodes_modes", "LEAF"), VN_ERR_SHAPE, "nodes_modes has 1"},
        {ML_INTS("target_nodeids", 0, 2), VN_ERR_RANGE, "no leaf of tree 0"},
        {ML_INTS("target_nodeids", 1), VN_ERR_SHAPE, "target_nodeids has 1"},
        {ML_INTS("target_ids", 0, 1), VN_ERR_RANGE, "target 1 of 1"},
        {ML_INTS("target_ids", 0, -1), VN_ERR_RANGE, "target -1"},
        {ML_FLOATS("target_weights", 1, 2, 3), VN_ERR_SHAPE, "target_weights has 3"},
        {ML_INT("n_targets", 0), VN_ERR_RANGE, "n_targets is 0"},
        {ML_FLOATS("base_values", 1, 2), VN_ERR_SHAPE, "2 base_values"},
        {ML_TEXT("aggregate_function", "MODE"), VN_ERR_RANGE, "'MODE'"},
        {ML_TEXT("post_transform", "TANH"), VN_ERR_RANGE, "'TANH'"},
        {ML_INTS("nodes_missing_value_tracks_true", 1), VN_ERR_SHAPE, "tracks_true has 1"},
    };
    for (size_t k = 0; k < sizeof lies / sizeof *lies; ++k) {
        ml_node_t c = {.op = "TreeEnsembleRegressor", .n_in = 1, .in = {ml_matrix(t, VN_F32, 1, 1, (double[]){0})}, .attrs = {HONEST}};
        int at = 0;
        while (c.attrs[at].name && strcmp(c.attrs[at].name, lies[k].attr.name) != 0) ++at;
        c.attrs[at] = lies[k].attr;
        VN_ASSERT_EQ(t, ml_try(t, &c), lies[k].due);
        VN_ASSERT_HAS(t, c.err.text, lies[k].says);
    }
}

VN_TEST(tree, hostile_ensembles_are_refused) {
    const lie_t lies[] = {{ML_INTS("nodes_truenodeids", 0, 0), VN_ERR_RANGE, "cycle"},
                          {ML_INTS("nodes_truenodeids", 2, 0), VN_ERR_RANGE, "node 2 of 2"},
                          {ML_INTS("nodes_falsenodeids", 7, 1), VN_ERR_RANGE, "leaf 7 of 2"},
                          {ML_INTS("tree_roots", 2), VN_ERR_RANGE, "node 2 of 2"},
                          {ML_INTS("tree_roots", -1), VN_ERR_RANGE, "node -1"},
                          {ML_INTS("leaf_targetids", 0, 5), VN_ERR_RANGE, "target 5"},
                          {ML_INTS("nodes_falseleafs", 1), VN_ERR_SHAPE, "nodes_falseleafs has 1"},
                          {ML_INT("aggregate_function", 4), VN_ERR_RANGE, "aggregate_function is 4"},
                          {ML_INT("post_transform", -1), VN_ERR_RANGE, "post_transform is -1"}};
    vn_tensor_t *s = list(t, VN_F32, 2, (double[]){1, 2}), *m = list(t, VN_U8, 2, (double[]){0, 1}),
                *bad = list(t, VN_U8, 2, (double[]){0, 9}), *w = list(t, VN_F32, 2, (double[]){1, 2}),
                *set = list(t, VN_U8, 2, (double[]){0, 6});
    for (size_t k = 0; k < sizeof lies / sizeof *lies + 2; ++k) {
        ml_node_t c = {.op = "TreeEnsemble",
                       .version = 5,
                       .n_in = 1,
                       .in = {ml_matrix(t, VN_F32, 1, 1, (double[]){0})},
                       .attrs = {ML_LIST("nodes_splits", ML_TENSOR_KIND, 0, s), ML_LIST("nodes_modes", ML_TENSOR_KIND, 0, m),
                                 ML_LIST("leaf_weights", ML_TENSOR_KIND, 0, w), ML_INT("n_targets", 1), ML_INTS("tree_roots", 0),
                                 ML_INTS("nodes_featureids", 0, 0), ML_INTS("nodes_truenodeids", 1, 0), ML_INTS("nodes_falsenodeids", 1, 1),
                                 ML_INTS("nodes_trueleafs", 0, 1), ML_INTS("nodes_falseleafs", 1, 1), ML_INTS("leaf_targetids", 0, 0)}};
        const bool listed = k < sizeof lies / sizeof *lies;
        int at = 0;
        while (listed && c.attrs[at].name && strcmp(c.attrs[at].name, lies[k].attr.name) != 0) ++at;
        if (listed) c.attrs[at] = lies[k].attr;
        else c.attrs[1].data = k % 2 ? bad : set;
        const vn_status_t got = ml_try(t, &c);
        if (listed) VN_ASSERT_HAS(t, c.err.text, lies[k].says);
        VN_ASSERT(t, listed ? got == lies[k].due : got == VN_ERR_RANGE || got == VN_ERR_SHAPE);
    }
    vn_tensor_free(s);
    vn_tensor_free(m);
    vn_tensor_free(bad);
    vn_tensor_free(w);
    vn_tensor_free(set);
}

VN_TEST(tree, allocation_faults) {
    vn_rng_t rng = vn_test_rng(t);
    static forest_t f;
    double x[2 * FEATURES];
    grow(&rng, &f, 2, 2);
    rows_of(&rng, x, 2 * FEATURES);
    ml_node_t c = {.op = "TreeEnsembleClassifier",
                   .n_in = 1,
                   .n_out = 2,
                   .in = {ml_matrix(t, VN_F64, 2, FEATURES, x)},
                   .attrs = {FOREST(&f, "class"), ML_STRINGS("classlabels_strings", "a", "b"), ML_TEXT("post_transform", "PROBIT")}};
    VN_ASSERT_GT(t, ml_faults(t, &c), 20);
}

VN_TEST_MAIN(VN_CASE(tree, sums_of_any_order_are_inside), VN_CASE(tree, classes_are_the_largest_sums),
             VN_CASE(tree, equal_sums_leave_two_labels), VN_CASE(tree, two_classes_by_one_sum),
             VN_CASE(tree, operands_beyond_f32_may_take_another_way), VN_CASE(tree, aggregates),
             VN_CASE(tree, members_in_order_of_the_nodes), VN_CASE(tree, hostile_lists_are_refused),
             VN_CASE(tree, hostile_ensembles_are_refused), VN_CASE(tree, allocation_faults))
