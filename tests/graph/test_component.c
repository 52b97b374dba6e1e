/* Nodes as disjoint components of one model. */
#include <stdio.h>

#include "made.h"
#include "protos.h"
#include "same.h"

/* made_if, finished, and tensors for its values. */
typedef struct scene {
    vn_model_t *from, *into;
    vn_tensor_t *x, *flag;
    vn_bundle_t outer;
} scene_t;

static scene_t open_scene(vn_test_t *t) {
    const int64_t dims[] = {2, 3};
    vn_error_t err = {0};
    scene_t s = {.from = made_if(t), .x = made_f32(t, 2, dims, 1), .flag = made_bool(t, true)};
    VN_ASSERT_OK_ERR(t, vn_model_finish(s.from, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_new(10, &s.into, &err), err);
    return s;
}

static void close_scene(scene_t *s) {
    vn_model_free(s->from);
    vn_model_free(s->into);
    vn_tensor_free(s->x);
    vn_tensor_free(s->flag);
    vn_bundle_free(&s->outer);
}

/* What is in `into` is a model: it can be finished, written and read. */
static void check(vn_test_t *t, vn_model_t *into) {
    vn_error_t err = {0};
    vn_model_t *back;
    void *data;
    size_t size;
    VN_ASSERT_OK_ERR(t, vn_model_finish(into, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_bytes(into, &data, &size, &err), err);
    VN_ASSERT_OK_ERR(t, vn_model_parse(data, size, "component", NULL, &back, &err), err);
    VN_ASSERT(t, same_model(into, back));
    vn_free(data);
    vn_model_free(back);
}

VN_TEST(component, one_name_read_twice_is_one_input) {
    vn_error_t err = {0};
    scene_t s = open_scene(t);
    const vn_tensor_t *in[] = {s.x, s.x};
    vn_dim_t dims[] = {{.value = 2}, {.value = 3}};
    vn_type_t type = {.kind = VN_TYPE_TENSOR, .dtype = VN_F32, .rank = 2, .dims = dims};
    vn_component_t c = {.prefix = "p_", .node = &s.from->graph->nodes[0], .inputs = in, .out_types = &type};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    vn_graph_t *g = s.into->graph;
    VN_ASSERT_EQ(t, g->n_inputs, 1);
    VN_ASSERT_STR(t, g->inputs[0].name, "p_x");
    VN_ASSERT_EQ(t, g->inputs[0].type.dims[1].value, 3);
    VN_ASSERT_STR(t, g->nodes[0].inputs[0], "p_x");
    VN_ASSERT_STR(t, g->nodes[0].inputs[1], "p_x");
    VN_ASSERT_STR(t, g->outputs[0].name, "p_xx");
    VN_ASSERT_EQ(t, g->outputs[0].type.rank, 2);
    VN_ASSERT_STR(t, g->nodes[0].name, "p_square");
    VN_ASSERT_EQ(t, vn_model_opset(s.into, ""), 21);
    check(t, s.into);
    close_scene(&s);
}

VN_TEST(component, frozen_inputs_are_initialisers) {
    vn_error_t err = {0};
    scene_t s = open_scene(t);
    const vn_tensor_t *in[] = {s.x, vn_graph_init(s.from->graph, "w")}, *twice[] = {s.x, s.x};
    const bool second[] = {false, true}, first[] = {true, false}, both[] = {true, true};
    vn_component_t c = {.prefix = "a/", .node = &s.from->graph->nodes[1], .inputs = in, .frozen = second};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    vn_graph_t *g = s.into->graph;
    VN_ASSERT_EQ(t, g->n_inputs, 1);
    VN_ASSERT(t, vn_graph_init(g, "a/w") == vn_graph_init(s.from->graph, "w")); /* shared, not copied */
    VN_ASSERT_STR(t, g->nodes[0].name, "a/Add_1");
    /* One name frozen and not: the run-time input keeps the name. */
    c = (vn_component_t){.prefix = "b/", .node = &s.from->graph->nodes[0], .inputs = twice, .frozen = first};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    VN_ASSERT_STR(t, g->nodes[1].inputs[0], "b/x/frozen");
    VN_ASSERT_STR(t, g->nodes[1].inputs[1], "b/x");
    VN_ASSERT(t, vn_graph_init(g, "b/x/frozen") && vn_graph_input(g, "b/x"));
    c = (vn_component_t){.prefix = "c/", .node = &s.from->graph->nodes[0], .inputs = twice, .frozen = both};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    VN_ASSERT_STR(t, g->nodes[2].inputs[0], "c/x");
    VN_ASSERT_STR(t, g->nodes[2].inputs[1], "c/x");
    VN_ASSERT_EQ(t, vn_graph_run_inputs(g, NULL), 2);
    check(t, s.into);
    close_scene(&s);
}

VN_TEST(component, captures_become_inputs_or_stay_initialisers) {
    vn_error_t err = {0};
    scene_t s = open_scene(t);
    const vn_tensor_t *in[] = {s.flag};
    vn_component_t c = {.prefix = "q.", .node = &s.from->graph->nodes[2], .inputs = in, .outer = &s.outer};
    VN_ASSERT_EQ(t, vn_model_add_component(s.into, s.from, &c, &err), VN_ERR_USAGE); /* `sum` is missing */
    VN_ASSERT_HAS(t, err.text, "'sum'");
    VN_ASSERT_EQ(t, s.into->graph->n_inputs + s.into->graph->n_nodes + s.into->n_opsets, 0); /* as before */
    VN_ASSERT_OK(t, vn_bundle_add(&s.outer, "sum", s.x, NULL));
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    vn_graph_t *g = s.into->graph;
    VN_ASSERT_EQ(t, g->n_inputs, 2);
    VN_ASSERT(t, vn_graph_input(g, "q.flag") && vn_graph_input(g, "q.sum") && vn_graph_init(g, "q.k"));
    const vn_graph_t *then = vn_node_attr(&g->nodes[0], "then_branch")->g, *otherwise = vn_node_attr(&g->nodes[0], "else_branch")->g;
    VN_ASSERT_STR(t, then->nodes[0].inputs[0], "q.sum");
    VN_ASSERT_STR(t, then->outputs[0].name, "q.r");
    VN_ASSERT_STR(t, otherwise->nodes[0].inputs[1], "q.k");
    /* A node of a body, and the same node once more. */
    const vn_tensor_t *neg[] = {s.x};
    c = (vn_component_t){.prefix = "r.", .node = &s.from->graph->nodes[2].attrs[0].g->nodes[0], .inputs = neg};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    c.prefix = "s.";
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    check(t, s.into);
    VN_ASSERT_STR(t, g->nodes[1].path, "r.choose/then/Neg_0");
    VN_ASSERT_STR(t, g->nodes[2].path, "s.choose/then/Neg_0");
    close_scene(&s);
}

/* Shadowing: a body may reuse an outer name; prefixing all names keeps what hides what. */
VN_TEST(component, bodies_that_hide_outer_names) {
    vn_error_t err = {0};
    scene_t s = open_scene(t);
    vn_graph_t *body = s.from->graph->nodes[2].attrs[0].g;
    body->nodes[0].outputs[0] = "w"; /* hides the initialiser */
    NODE(body, "", "Abs", IN("w"), "r");
    VN_ASSERT_OK_ERR(t, vn_model_finish(s.from, &err), err);
    const vn_tensor_t *in[] = {s.flag};
    VN_ASSERT_OK(t, vn_bundle_add(&s.outer, "sum", s.x, NULL));
    vn_component_t c = {.prefix = "q.", .node = &s.from->graph->nodes[2], .inputs = in, .outer = &s.outer};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    VN_ASSERT(t, !vn_graph_init(s.into->graph, "q.w") && !vn_graph_input(s.into->graph, "q.w"));
    check(t, s.into);
    close_scene(&s);
}

VN_TEST(component, optional_inputs_and_outputs_stay_absent) {
    vn_error_t err = {0};
    vn_model_t *from = made_model(t), *into;
    const int64_t none[] = {0, 3};
    vn_tensor_t *x = made_f32(t, 2, none, 0); /* no elements */
    VN_ASSERT_OK(t, vn_graph_add_input(from->graph, "x", VN_F32, 2, none, NULL));
    NODE(from->graph, "n", "Op", IN("x", "", "x"), "", "y");
    VN_ASSERT_OK_ERR(t, vn_model_finish(from, &err), err);
    VN_ASSERT_OK(t, vn_model_new(10, &into, NULL));
    const vn_tensor_t *in[] = {x, NULL, x}, *missing[] = {x, NULL, NULL}, *extra[] = {x, x, x};
    vn_component_t c = {.prefix = "p", .node = &from->graph->nodes[0], .inputs = missing};
    VN_ASSERT_EQ(t, vn_model_add_component(into, from, &c, &err), VN_ERR_USAGE);
    c.inputs = extra;
    VN_ASSERT_EQ(t, vn_model_add_component(into, from, &c, &err), VN_ERR_USAGE);
    c.inputs = in;
    VN_ASSERT_OK_ERR(t, vn_model_add_component(into, from, &c, &err), err);
    VN_ASSERT_STR(t, into->graph->nodes[0].inputs[1], "");
    VN_ASSERT_STR(t, into->graph->nodes[0].outputs[0], "");
    VN_ASSERT_EQ(t, into->graph->n_outputs, 1);
    VN_ASSERT_EQ(t, into->graph->inputs[0].type.dims[0].value, 0);
    check(t, into);
    vn_tensor_free(x);
    vn_model_free(from);
    vn_model_free(into);
}

/* y = F(x); F calls G; both come along once, with their opsets, and the IR version that has functions. */
static vn_model_t *with_functions(vn_test_t *t) {
    vn_error_t err = {0};
    vn_model_t *m;
    protos_t p = proto_model(t);
    p.model->ir_version = 8;
    PUSH(&p, p.model, opset_import, proto_opset(&p, "local", 1));
    for (int k = 0; k < 3; ++k) { /* H is not needed */
        static const char *const names[] = {"F", "G", "H"}, *const ops[] = {"G", "Abs", "Abs"};
        Onnx__FunctionProto *f = PROTO(&p, FunctionProto, ONNX__FUNCTION_PROTO__INIT);
        Onnx__NodeProto *n = proto_node(&p, ops[k], "a", "b");
        f->name = proto_text(&p, names[k]);
        f->domain = proto_text(&p, "local");
        if (k == 0) n->domain = proto_text(&p, "local");
        if (k == 1) proto_attr(&p, n, "alpha", 1)->ref_attr_name = proto_text(&p, "alpha");
        PUSH(&p, f, input, proto_text(&p, "a"));
        PUSH(&p, f, output, proto_text(&p, "b"));
        PUSH(&p, f, node, n);
        PUSH(&p, f, opset_import, proto_opset(&p, "", 18));
        PUSH(&p, f, opset_import, proto_opset(&p, "local", 1));
        PUSH(&p, p.model, functions, f);
    }
    Onnx__NodeProto *call = proto_node(&p, "F", "x", "z");
    call->domain = proto_text(&p, "local");
    PUSH(&p, p.graph, node, call);
    VN_ASSERT_OK_ERR(t, proto_parse(&p, NULL, &m, &err), err);
    return m;
}

VN_TEST(component, functions_come_along_once) {
    vn_error_t err = {0};
    vn_model_t *from = with_functions(t), *into, *body;
    vn_tensor_t *x = made_f32(t, 0, NULL, 1);
    const vn_tensor_t *in[] = {x};
    VN_ASSERT_OK(t, vn_model_new(3, &into, NULL));
    vn_component_t c = {.prefix = "p", .node = &from->graph->nodes[1], .inputs = in};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(into, from, &c, &err), err);
    c.prefix = "q";
    VN_ASSERT_OK_ERR(t, vn_model_add_component(into, from, &c, &err), err);
    VN_ASSERT_EQ(t, into->n_functions, 2);
    VN_ASSERT_EQ(t, into->ir_version, 8);
    VN_ASSERT_EQ(t, vn_model_function(into, "local", "G", "")->opsets[0].version, 18);
    VN_ASSERT_EQ(t, into->n_opsets, 2);
    check(t, into);
    /* A node that stands in a function has that function's opsets; one with a caller's attribute cannot stand alone. */
    VN_ASSERT_OK(t, vn_model_new(8, &body, NULL));
    c = (vn_component_t){.prefix = "p", .node = &vn_model_function(from, "local", "H", "")->body->nodes[0], .inputs = in};
    VN_ASSERT_OK_ERR(t, vn_model_add_component(body, from, &c, &err), err);
    VN_ASSERT_EQ(t, vn_model_opset(body, ""), 18);
    VN_ASSERT_EQ(t, vn_model_add_component(into, from, &c, &err), VN_ERR_USAGE); /* 21 there */
    VN_ASSERT_HAS(t, err.text, "opset '' is 18 there and 21");
    c.node = &vn_model_function(from, "local", "G", "")->body->nodes[0];
    VN_ASSERT_EQ(t, vn_model_add_component(body, from, &c, &err), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, err.text, "'alpha'");
    check(t, body);
    vn_tensor_free(x);
    vn_model_free(body);
    vn_model_free(into);
    vn_model_free(from);
}

VN_TEST(component, many_are_cheap) {
    vn_error_t err = {0};
    scene_t s = open_scene(t);
    const vn_tensor_t *in[] = {s.x, s.x};
    for (int k = 0; k < 2000; ++k) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "%d_", k);
        vn_component_t c = {.prefix = prefix, .node = &s.from->graph->nodes[0], .inputs = in};
        VN_ASSERT_OK_ERR(t, vn_model_add_component(s.into, s.from, &c, &err), err);
    }
    VN_ASSERT_OK_ERR(t, vn_model_finish(s.into, &err), err);
    VN_ASSERT_EQ(t, vn_graph_producer(s.into->graph, "1999_xx"), 1999);
    close_scene(&s);
}

VN_TEST_MAIN(VN_CASE(component, one_name_read_twice_is_one_input), VN_CASE(component, frozen_inputs_are_initialisers),
             VN_CASE(component, captures_become_inputs_or_stay_initialisers), VN_CASE(component, bodies_that_hide_outer_names),
             VN_CASE(component, optional_inputs_and_outputs_stay_absent), VN_CASE(component, functions_come_along_once),
             VN_CASE(component, many_are_cheap))
