/* Order, names, paths and lookups of a finished model. */
#include "made.h"

#include <stdio.h>

VN_TEST(finish, keeps_a_valid_order_and_sorts_another) {
    vn_error_t err = {0};
    vn_model_t *m = made_model(t);
    vn_graph_t *g = m->graph;
    VN_ASSERT_OK(t, vn_graph_add_input(g, "x", VN_F32, 0, NULL, NULL));
    VN_ASSERT_OK(t, vn_graph_add_output(g, "d", VN_F32, 0, NULL, NULL));
    NODE(g, "D", "Add", IN("b", "c"), "d");
    NODE(g, "C", "Neg", IN("b"), "c");
    NODE(g, "free", "Abs", IN("x"), "f");
    NODE(g, "B", "Neg", IN("x"), "b");
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    const char *const want[] = {"free", "B", "C", "D"};
    for (int i = 0; i < 4; ++i) VN_ASSERT_STR(t, g->nodes[i].name, want[i]);
    VN_ASSERT_EQ(t, vn_graph_producer(g, "d"), 3);
    VN_ASSERT_EQ(t, vn_graph_producer(g, "b"), 1);
    VN_ASSERT_EQ(t, vn_graph_producer(g, "x"), -1);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err); /* again: nothing moves */
    for (int i = 0; i < 4; ++i) VN_ASSERT_STR(t, g->nodes[i].name, want[i]);
    vn_model_free(m);
}

/* Random graphs, shuffled: every order that comes out is topological; a chain of file order that was valid stays. */
VN_TEST(finish, any_shuffle_becomes_topological) {
    vn_rng_t rng = vn_test_rng(t);
    for (int round = 0; round < 20 * vn_test_scale(t); ++round) {
        enum { N = 60 };
        int place[N];
        char in[2][16], out[16];
        vn_model_t *m = made_model(t);
        VN_ASSERT_OK(t, vn_graph_add_input(m->graph, "v-1", VN_F32, 0, NULL, NULL));
        for (int i = 0; i < N; ++i) place[i] = i;
        for (int i = N - 1; i > 0; --i) {
            int j = (int)vn_rng_below(&rng, (uint64_t)i + 1), k = place[i];
            place[i] = place[j];
            place[j] = k;
        }
        for (int p = 0; p < N; ++p) {
            int i = place[p];
            for (int k = 0; k < 2; ++k) snprintf(in[k], sizeof in[k], "v%d", (int)vn_rng_below(&rng, (uint64_t)i + 1) - 1);
            snprintf(out, sizeof out, "v%d", i);
            NODE(m->graph, out, "Add", IN(in[0], in[1]), out);
        }
        vn_error_t err = {0};
        VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
        for (int i = 0; i < N; ++i)
            for (int k = 0; k < 2; ++k) {
                VN_ASSERT(t, vn_graph_producer(m->graph, m->graph->nodes[i].inputs[k]) < i);
                VN_ASSERT_EQ(t, vn_graph_producer(m->graph, m->graph->nodes[i].outputs[0]), i);
            }
        vn_model_free(m);
    }
}

VN_TEST(finish, a_cycle_names_its_nodes) {
    vn_error_t err = {0};
    vn_model_t *m = made_model(t);
    vn_graph_t *g = m->graph;
    VN_ASSERT_OK(t, vn_graph_add_input(g, "x", VN_F32, 0, NULL, NULL));
    NODE(g, "start", "Neg", IN("x"), "s");
    NODE(g, "first", "Add", IN("s", "c"), "a");
    NODE(g, "second", "Neg", IN("a"), "b");
    NODE(g, "", "Abs", IN("b"), "c");
    NODE(g, "after", "Neg", IN("c"), "d");
    VN_ASSERT_EQ(t, vn_model_finish(m, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "cycle");
    VN_ASSERT_HAS(t, err.text, "'first' (Add)");
    VN_ASSERT_HAS(t, err.text, "'second' (Neg)");
    VN_ASSERT_HAS(t, err.text, "node number 3 (Abs)");
    VN_ASSERT(t, !strstr(err.text, "start") && !strstr(err.text, "after"));
    vn_model_free(m);
    m = made_if(t); /* a body that reads what its own node writes */
    vn_graph_t *body = m->graph->nodes[2].attrs[0].g;
    body->nodes[0].inputs[0] = "y";
    VN_ASSERT_EQ(t, vn_model_finish(m, &err), VN_ERR_PARSE);
    VN_ASSERT_HAS(t, err.text, "cycle: node 'choose' (If)");
    vn_model_free(m);
}

VN_TEST(finish, names_are_checked) {
    static const struct {
        const char *name, *op, *in, *out, *attr, *want;
    } rows[] = {
        {"bad", "Neg", "nowhere", "z", NULL, "node 'bad' (Neg) reads 'nowhere'"},
        {"bad", "Neg", "x", "s", NULL, "node 'bad' (Neg) writes 's', which node 'good' (Neg) writes too"},
        {"bad", "Neg", "x", "x", NULL, "node 'bad' (Neg) writes 'x', which is also an input"},
        {"bad", "Neg", "x", "w", NULL, "which is also an initialiser"},
        {"bad", "", "x", "z", NULL, "no op_type"},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_error_t err = {0};
        vn_model_t *m = made_model(t);
        vn_tensor_t *w = made_f32(t, 0, NULL, 1);
        VN_ASSERT_OK(t, vn_graph_add_input(m->graph, "x", VN_F32, 0, NULL, NULL));
        VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "w", w, NULL));
        NODE(m->graph, "good", "Neg", IN("x"), "s");
        NODE(m->graph, rows[k].name, rows[k].op, IN(rows[k].in), rows[k].out);
        VN_ASSERT_EQ(t, vn_model_finish(m, &err), VN_ERR_PARSE);
        VN_ASSERT_HAS(t, err.text, rows[k].want);
        vn_tensor_free(w);
        vn_model_free(m);
    }
}

VN_TEST(finish, graph_level_names_are_checked) {
    for (int k = 0; k < 5; ++k) {
        static const char *const want[] = {"input 'x' is there twice", "initialiser 'w' is there twice", "output 's' is there twice",
                                           "output 'none' is produced by no node", "no opset_import for the default domain"};
        vn_error_t err = {0};
        vn_model_t *m = made_model(t);
        vn_tensor_t *w = made_f32(t, 0, NULL, 1);
        for (int i = 0; i < (k == 0 ? 2 : 1); ++i) VN_ASSERT_OK(t, vn_graph_add_input(m->graph, "x", VN_F32, 0, NULL, NULL));
        for (int i = 0; i < (k == 1 ? 2 : 1); ++i) VN_ASSERT_OK(t, vn_graph_add_init(m->graph, "w", w, NULL));
        for (int i = 0; i < (k == 2 ? 2 : 1); ++i)
            VN_ASSERT_OK(t, vn_graph_add_output(m->graph, k == 3 ? "none" : "s", VN_F32, -1, NULL, NULL));
        NODE(m->graph, "n", "Add", IN("x", "w"), "s");
        if (k == 4) m->n_opsets = 0;
        VN_ASSERT_EQ(t, vn_model_finish(m, &err), VN_ERR_PARSE);
        VN_ASSERT_HAS(t, err.text, want[k]);
        vn_tensor_free(w);
        vn_model_free(m);
    }
}

VN_TEST(finish, paths_are_unique) {
    vn_error_t err = {0};
    vn_model_t *m = made_if(t);
    vn_graph_t *g = m->graph;
    NODE(g, "twin", "Neg", IN("x"), "t1");
    NODE(g, "twin", "Neg", IN("x"), "t2");
    NODE(g, "Add_1", "Neg", IN("x"), "t3");             /* the path that node 1 would get */
    NODE(g, "choose/then/Neg_0", "Neg", IN("x"), "t4"); /* and the one of the body's node */
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    const char *const want[] = {"square", "Add_1.2", "choose", "Neg_3", "Neg_4", "Add_1", "choose/then/Neg_0"};
    for (int i = 0; i < g->n_nodes; ++i) VN_ASSERT_STR(t, g->nodes[i].path, want[i]);
    VN_ASSERT_STR(t, g->nodes[2].attrs[0].g->nodes[0].path, "choose/then/Neg_0.2");
    VN_ASSERT_STR(t, g->nodes[2].attrs[1].g->nodes[0].path, "choose/else/Add_0");
    VN_ASSERT(t, g->nodes[2].attrs[0].g->outer == g);
    vn_model_free(m);
}

VN_TEST(finish, lookups_agree_before_and_after) {
    vn_error_t err = {0};
    vn_model_t *m = made_if(t);
    vn_graph_t *g = m->graph;
    for (int round = 0; round < 2; ++round) {
        VN_ASSERT_EQ(t, vn_graph_producer(g, "sum"), 1);
        VN_ASSERT_EQ(t, vn_graph_producer(g, ""), -1);
        VN_ASSERT(t, vn_graph_init(g, "w") && !vn_graph_init(g, "x") && !vn_graph_init(g, "nothing"));
        VN_ASSERT(t, vn_graph_input(g, "flag") && !vn_graph_input(g, "w"));
        VN_ASSERT(t, vn_graph_is_output(g, "y") && !vn_graph_is_output(g, "sum"));
        VN_ASSERT_EQ(t, vn_graph_info(g, "y")->type.dims[1].value, 3);
        VN_ASSERT(t, !vn_graph_info(g, "sum"));
        VN_ASSERT_EQ(t, vn_graph_run_inputs(g, NULL), 2);
        VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    }
    VN_ASSERT_OK(t, vn_graph_add_input(g, "w", VN_F32, -1, NULL, NULL)); /* an initialiser with an input of its name is a default */
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    int indices[3];
    VN_ASSERT_EQ(t, vn_graph_run_inputs(g, indices), 2);
    VN_ASSERT_EQ(t, indices[1], 1);
    vn_model_free(m);
}

VN_TEST(finish, captures_are_what_bodies_read_from_outside) {
    vn_model_t *m = made_if(t);
    const char **names;
    int n;
    VN_ASSERT_OK(t, vn_graph_captures(m->graph, &names, &n, NULL));
    VN_ASSERT_EQ(t, n, 0);
    vn_free(names);
    VN_ASSERT_OK(t, vn_graph_captures(m->graph->nodes[2].attrs[1].g, &names, &n, NULL));
    VN_ASSERT_EQ(t, n, 2);
    VN_ASSERT_STR(t, names[0], "sum");
    VN_ASSERT_STR(t, names[1], "k");
    vn_free(names);
    vn_model_free(m);
}

VN_TEST(finish, outputs_are_marked_once) {
    vn_error_t err = {0};
    vn_model_t *m = made_if(t);
    const char *const names[] = {"sum", "xx", "y", "x", "w", "sum"};
    vn_dim_t list[] = {{.value = 2}, {.value = 3}};
    vn_type_t types[6] = {[1] = {.kind = VN_TYPE_TENSOR, .dtype = VN_F32, .rank = 2, .dims = list}};
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_mark_outputs(m, 6, names, types, &err), err);
    VN_ASSERT_EQ(t, m->graph->n_outputs, 3);
    VN_ASSERT_EQ(t, m->graph->outputs[1].type.kind, VN_TYPE_NONE);
    VN_ASSERT_EQ(t, m->graph->outputs[2].type.rank, 2);
    VN_ASSERT(t, vn_graph_is_output(m->graph, "xx"));
    VN_ASSERT_EQ(t, vn_model_mark_outputs(m, 1, (const char *const[]){"r"}, NULL, &err), VN_ERR_NOTFOUND);
    VN_ASSERT_HAS(t, err.text, "'r'");
    VN_ASSERT_EQ(t, m->graph->n_outputs, 3);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    vn_model_free(m);
}

VN_TEST(finish, attributes_are_read_by_kind) {
    vn_model_t *m = made_model(t);
    vn_node_t *n = NODE(m->graph, "n", "Op", IN("x"), "y");
    const int64_t ints[] = {3, -1};
    const float floats[] = {0.5f};
    int64_t count;
    VN_ASSERT_OK(t, vn_node_set_int(m, n, "i", 7, NULL));
    VN_ASSERT_OK(t, vn_node_set_int(m, n, "i", 8, NULL));
    VN_ASSERT_OK(t, vn_node_set_float(m, n, "f", 0.1f, NULL));
    VN_ASSERT_OK(t, vn_node_set_string(m, n, "s", "text", NULL));
    VN_ASSERT_OK(t, vn_node_set_ints(m, n, "is", ints, 2, NULL));
    VN_ASSERT_OK(t, vn_node_set_floats(m, n, "fs", floats, 1, NULL));
    VN_ASSERT_OK(t, vn_node_set_ints(m, n, "none", NULL, 0, NULL));
    VN_ASSERT_EQ(t, n->n_attrs, 6);
    VN_ASSERT_EQ(t, vn_node_int(n, "i", 0), 8);
    VN_ASSERT_EQ(t, vn_node_int(n, "f", 5), 5);
    VN_ASSERT_EQ(t, vn_node_int(n, "absent", 4), 4);
    VN_ASSERT_DEQ(t, vn_node_float(n, "f", 0), (double)0.1f);
    VN_ASSERT_STR(t, vn_node_string(n, "s", ""), "text");
    VN_ASSERT_EQ(t, vn_node_ints(n, "is", &count)[1], -1);
    VN_ASSERT_EQ(t, count, 2);
    VN_ASSERT_DEQ(t, vn_node_floats(n, "fs", &count)[0], 0.5);
    VN_ASSERT(t, vn_node_ints(n, "none", &count) != NULL && count == 0); /* empty is not absent */
    VN_ASSERT(t, vn_node_ints(n, "absent", &count) == NULL && count == 0);
    vn_model_free(m);
}

VN_TEST(finish, types_are_described) {
    vn_dim_t dims[] = {{.value = -1, .param = "n"}, {.value = 3}, {.value = -1}};
    vn_type_t tensor = {.kind = VN_TYPE_TENSOR, .dtype = VN_F32, .rank = 3, .dims = dims},
              open = {.kind = VN_TYPE_TENSOR, .dtype = VN_I64, .rank = -1};
    vn_type_t list = {.kind = VN_TYPE_SEQUENCE, .elem = &tensor}, maybe = {.kind = VN_TYPE_OPTIONAL, .elem = &list};
    vn_type_t map = {.kind = VN_TYPE_MAP, .dtype = VN_STRING, .elem = &open}, none = {0};
    char text[80];
    vn_type_describe(&maybe, text, sizeof text);
    VN_ASSERT_STR(t, text, "optional(sequence(f32[n,3,?]))");
    vn_type_describe(&map, text, sizeof text);
    VN_ASSERT_STR(t, text, "map(string, i64[...])");
    vn_type_describe(&none, text, sizeof text);
    VN_ASSERT_STR(t, text, "?");
    vn_type_describe(&maybe, text, 12);
    VN_ASSERT_STR(t, text, "optional(se");
}

VN_TEST_MAIN(VN_CASE(finish, keeps_a_valid_order_and_sorts_another), VN_CASE(finish, any_shuffle_becomes_topological),
             VN_CASE(finish, a_cycle_names_its_nodes), VN_CASE(finish, names_are_checked), VN_CASE(finish, graph_level_names_are_checked),
             VN_CASE(finish, paths_are_unique), VN_CASE(finish, lookups_agree_before_and_after),
             VN_CASE(finish, captures_are_what_bodies_read_from_outside), VN_CASE(finish, outputs_are_marked_once),
             VN_CASE(finish, attributes_are_read_by_kind), VN_CASE(finish, types_are_described))
