/* INFER-2: branches, loops, functions and sequences under inference; every allocation that can fail. */
#include "infer_net.h"

/* A body: the graph of a model of its own, copied into a node. */
static net_t body_new(vn_test_t *t) { return net_new(t, "", 17); }

static void body_in(net_t *b, const char *name, vn_dtype_t type) { net_ok(b, vn_graph_add_input(b->g, name, type, -1, NULL, &b->err)); }

static void body_put(net_t *n, vn_node_t *node, const char *attr, net_t *b) {
    const vn_attr_t a = {.name = attr, .kind = VN_ATTR_GRAPH, .g = b->g};
    net_ok(n, vn_node_set_attr(n->m, node, &a, &n->err));
    net_free(b);
}

/* ---- If ---- */

/* cond ? Reshape(x, yes) : Reshape(x, no) */
static net_t branching(vn_test_t *t, const char *cond, const char *x, const char *yes, const char *no) {
    net_t n = net_new(t, "", 17);
    net_in(&n, "cond", cond);
    net_in(&n, "x", x);
    vn_node_t *node = net_op(&n, "", "If", "cond", "y", NULL);
    const char *const names[] = {"then_branch", "else_branch"}, *const shapes[] = {yes, no};
    for (int i = 0; i < 2; ++i) {
        net_t b = body_new(t);
        net_init(&b, "s", shapes[i]);
        net_op(&b, "", "Reshape", "x,s", "r", NULL);
        net_out(&b, "r");
        body_put(&n, node, names[i], &b);
    }
    net_out(&n, "y");
    return n;
}

VN_TEST(infer, branches) {
    static const struct {
        const char *cond, *x, *yes, *no, *want, *why;
    } cases[] = {
        {"bool[]=1", "f32[12]", "i64[2]=3,4", "i64[1]=12", "f32[3,4]", NULL},
        {"bool[]=0", "f32[12]", "i64[2]=3,4", "i64[1]=12", "f32[12]", NULL},
        {"bool[]=1", "f32[12]", "i64[2]=3,4", "i64[1]=7", "f32[3,4]", NULL}, /* the other branch could not run, and does not */
        {"bool[]", "f32[12]", "i64[2]=3,4", "i64[2]=3,4", "f32[3,4]", NULL},
        {"bool[]", "f32[12]", "i64[2]=3,4", "i64[2]=6,2", "f32[?,?]", "node If_0 (If): the branches differ in output 0"},
        {"bool[]", "f32[12]", "i64[2]=3,4", "i64[2]=3,-1", "f32[3,4]", NULL},
        {"bool[]", "f32[12]", "i64[2]=3,4", "i64[1]=12", "f32?", "the branches differ"},
        {"bool[]", "f32[12]", "i64[2]=3,4", "i64[1]=7", "f32[3,4]", NULL}, /* it can only be the first */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        net_t n = branching(t, cases[i].cond, cases[i].x, cases[i].yes, cases[i].no);
        net_run(&n);
        NET_IS(&n, "y", cases[i].want);
        const char *why = vn_inferred_find(&n.out, "y")->reason;
        VN_ASSERT_EQ(t, why != NULL, cases[i].why != NULL);
        if (why) VN_ASSERT_HAS(t, why, cases[i].why);
        net_free(&n);
    }
    net_t n = branching(t, "bool[]", "f32[12]", "i64[1]=5", "i64[1]=7");
    VN_ASSERT_EQ(t, net_try(&n), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, n.err.text, "node If_0 (If): neither branch can run");
    net_free(&n);
    n = branching(t, "bool[]=1", "f32[12]", "i64[1]=5", "i64[1]=12");
    VN_ASSERT_EQ(t, net_try(&n), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, n.err.text, "node If_0/then/Reshape_0 (Reshape)");
    net_free(&n);
}

/* ---- Loop ---- */

/* grown = Concat(grown, x); kept stays; seen: the iteration number; goes on while i < limit. */
static net_t growing(vn_test_t *t, const char *trips, const char *cond, const char *limit) {
    net_t n = net_new(t, "", 17);
    net_in(&n, "x", "f32[2,3]");
    net_in(&n, "limit", limit);
    if (*trips) net_in(&n, "trips", trips);
    if (*cond) net_in(&n, "cond", cond);
    char inputs[64];
    snprintf(inputs, sizeof inputs, "%s,%s,x,x", *trips ? "trips" : "-", *cond ? "cond" : "-");
    vn_node_t *node = net_op(&n, "", "Loop", inputs, "grown,kept,seen", NULL);
    net_t b = body_new(t);
    body_in(&b, "i", VN_I64);
    body_in(&b, "go", VN_BOOL);
    body_in(&b, "grown_in", VN_F32);
    body_in(&b, "kept_in", VN_F32);
    net_op(&b, "", "Less", "i,limit", "go_on", NULL);
    net_op(&b, "", "Concat", "grown_in,x", "grown_out", "axis=0");
    net_op(&b, "", "Relu", "kept_in", "kept_out", NULL);
    net_op(&b, "", "Identity", "i", "index", NULL);
    const char *const outs[] = {"go_on", "grown_out", "kept_out", "index"};
    for (int k = 0; k < 4; ++k) net_out(&b, outs[k]);
    body_put(&n, node, "body", &b);
    for (int k = 0; k < 3; ++k) net_out(&n, k == 0 ? "grown" : k == 1 ? "kept" : "seen");
    return n;
}

VN_TEST(infer, loops) {
    static const struct {
        const char *trips, *cond, *limit, *grown, *seen;
    } cases[] = {
        {"i64[]=3", "bool[]=1", "i64[]=9", "f32[8,3]", "i64[3]"},
        {"i64[]=9", "bool[]=1", "i64[]=3", "f32[10,3]", "i64[4]"}, /* the condition ends it: 0, 1, 2 go on, 3 does not */
        {"", "bool[]=1", "i64[]=3", "f32[10,3]", "i64[4]"},
        {"i64[]=2", "", "i64[]=0", "f32[6,3]", "i64[2]"}, /* without cond the body's is ignored */
        {"i64[]=0", "bool[]=1", "i64[]=9", "f32[2,3]", "i64[0]"},
        {"i64[]=5", "bool[]=0", "i64[]=9", "f32[2,3]", "i64[0]"},
        {"i64[]", "", "i64[]=9", "f32[?,3]", "i64[?]"},
        {"i64[]=5", "bool[]", "i64[]=9", "f32[?,3]", "i64[?]"},
        {"i64[]=5", "bool[]=1", "i64[]", "f32[?,3]", "i64[?]"},
        {"i64[]=100000", "", "i64[]=9", "f32[?,3]", "i64[100000]"}, /* too many to follow, their number is known all the same */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        net_t n = growing(t, cases[i].trips, cases[i].cond, cases[i].limit);
        net_run(&n);
        NET_IS(&n, "grown", cases[i].grown);
        NET_IS(&n, "kept", "f32[2,3]");
        NET_IS(&n, "seen", cases[i].seen);
        net_free(&n);
    }
    net_t n = growing(t, "i64[]", "", "i64[]=9");
    net_run(&n);
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "grown")->reason, "node Loop_0 (Loop): value 0 changes with the iterations");
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "seen")->reason, "the number of iterations is not known");
    net_free(&n);
}

/* A body that cannot run is an error where it is certain to run, a reason where it may not. */
VN_TEST(infer, loops_whose_body_cannot_run) {
    for (int known = 0; known < 2; ++known) {
        net_t n = net_new(t, "", 17);
        net_in(&n, "trips", known ? "i64[]=1" : "i64[]");
        net_in(&n, "x", "f32[2,3]");
        net_in(&n, "w", "f32[4]");
        vn_node_t *node = net_op(&n, "", "Loop", "trips,-,x", "y", NULL);
        net_t b = body_new(t);
        body_in(&b, "i", VN_I64);
        body_in(&b, "go", VN_BOOL);
        body_in(&b, "s", VN_F32);
        net_op(&b, "", "Identity", "go", "on", NULL);
        net_op(&b, "", "Add", "s,w", "r", NULL);
        net_out(&b, "on");
        net_out(&b, "r");
        body_put(&n, node, "body", &b);
        net_out(&n, "y");
        VN_ASSERT_EQ(t, net_try(&n), known ? VN_ERR_SHAPE : VN_OK);
        if (known) VN_ASSERT_HAS(t, n.err.text, "node Loop_0/body/Add_1 (Add)");
        else VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "y")->reason, "a body cannot run on these shapes (node Loop_0/body/Add_1 (Add)");
        net_free(&n);
    }
}

/* ---- Scan, SequenceMap ---- */

static net_t scanning(vn_test_t *t, const char *x, const char *attrs) {
    net_t n = net_new(t, "", 17);
    net_in(&n, "s", "f32[4]");
    net_in(&n, "x", x);
    vn_node_t *node = net_op(&n, "", "Scan", "s,x", "last,all", attrs);
    net_t b = body_new(t);
    body_in(&b, "state", VN_F32);
    body_in(&b, "row", VN_F32);
    net_op(&b, "", "Add", "state,row", "next", NULL);
    net_op(&b, "", "Cast", "next", "shown", "to=10");
    net_out(&b, "next");
    net_out(&b, "shown");
    body_put(&n, node, "body", &b);
    net_out(&n, "last");
    net_out(&n, "all");
    return n;
}

VN_TEST(infer, scans) {
    net_t n = scanning(t, "f32[7,4]", "num_scan_inputs=1");
    net_run(&n);
    NET_IS(&n, "last", "f32[4]");
    NET_IS(&n, "all", "f16[7,4]");
    net_free(&n);
    n = scanning(t, "f32[4,?]", "num_scan_inputs=1 scan_input_axes=-1, scan_output_axes=1,");
    net_run(&n);
    NET_IS(&n, "all", "f16[4,?]");
    net_free(&n);
    n = scanning(t, "f32[7,3]", "num_scan_inputs=1");
    VN_ASSERT_EQ(t, net_try(&n), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, n.err.text, "node Scan_0/body/Add_0 (Add)");
    net_free(&n);
    n = scanning(t, "f32[7,4]", "num_scan_inputs=3");
    VN_ASSERT_EQ(t, net_try(&n), VN_ERR_RANGE);
    net_free(&n);
}

VN_TEST(infer, sequences) {
    net_t n = net_new(t, "", 17);
    net_in(&n, "x", "f32[2,5]");
    net_in(&n, "z", "f32[2,7]");
    net_init(&n, "two", "i64[]=2");
    net_op(&n, "", "SequenceConstruct", "x,z", "pair", NULL);
    net_op(&n, "", "SequenceLength", "pair", "length", NULL);
    net_op(&n, "", "SequenceAt", "pair,length", "any", NULL);
    net_op(&n, "", "ConcatFromSequence", "pair", "joined", "axis=0");
    net_op(&n, "", "SequenceInsert", "pair,x", "more", NULL);
    net_op(&n, "", "SequenceErase", "more", "less", NULL);
    net_op(&n, "", "SplitToSequence", "x,two", "parts", "axis=1");
    net_op(&n, "", "SplitToSequence", "x", "rows", "axis=0 keepdims=0");
    net_op(&n, "", "ConcatFromSequence", "rows", "stacked", "axis=0 new_axis=1");
    net_op(&n, "", "Optional", "x", "maybe", NULL);
    net_op(&n, "", "OptionalHasElement", "maybe", "has", NULL);
    net_op(&n, "", "OptionalGetElement", "maybe", "got", NULL);
    vn_node_t *node = net_op(&n, "", "SequenceMap", "rows,two", "mapped", NULL);
    net_t b = body_new(t);
    body_in(&b, "row", VN_F32);
    body_in(&b, "factor", VN_I64);
    net_op(&b, "", "Shape", "row", "size", NULL);
    net_out(&b, "size");
    body_put(&n, node, "body", &b);
    net_op(&n, "", "SequenceEmpty", "", "none", "dtype=6");
    const char *const outs[] = {"any", "joined", "less", "parts", "stacked", "has", "got", "mapped", "none"};
    for (size_t k = 0; k < sizeof outs / sizeof *outs; ++k) net_out(&n, outs[k]);
    net_run(&n);
    NET_IS(&n, "pair", "seq f32[2,?] x2");
    VN_ASSERT(t, vn_inferred_find(&n.out, "length")->value != NULL);
    NET_IS(&n, "any", "f32[2,?]");
    NET_IS(&n, "joined", "f32[4,?]");
    NET_IS(&n, "more", "seq f32[2,?] x3");
    NET_IS(&n, "less", "seq f32[2,?] x2");
    NET_IS(&n, "parts", "seq f32[2,?] x3");
    NET_IS(&n, "rows", "seq f32[5] x2");
    NET_IS(&n, "stacked", "f32[2,5]");
    NET_IS(&n, "maybe", "opt f32[2,5] x1");
    NET_IS(&n, "has", "bool[]");
    NET_IS(&n, "got", "f32[2,5]");
    NET_IS(&n, "mapped", "seq i64[1] x2");
    NET_IS(&n, "none", "seq i32? x0");
    net_free(&n);
}

/* ---- functions ---- */

/* F(x; axis) = Softmax(Concat(x, x; axis = the call's, 1 if it has none)), of opset 13 though the model has 17. */
VN_TEST(infer, functions_through_their_body) {
    net_t f = net_new(t, "", 13);
    body_in(&f, "x", VN_F32);
    vn_node_t *node = net_op(&f, "", "Concat", "x,x", "c", "axis=7");
    node->attrs[0].ref = "axis";
    net_op(&f, "", "Softmax", "c", "y", NULL);
    net_out(&f, "y");
    net_ok(&f, vn_model_finish(f.m, &f.err));
    const char *ins[] = {"x"}, *outs[] = {"y"}, *attrs[] = {"axis"};
    vn_attr_t fallback = {.name = "axis", .kind = VN_ATTR_INT, .i = 1};
    vn_function_t function = {.domain = "local",
                              .name = "F",
                              .overload = "",
                              .n_inputs = 1,
                              .n_outputs = 1,
                              .n_opsets = 1,
                              .n_attr_names = 1,
                              .n_attr_defaults = 1,
                              .inputs = ins,
                              .outputs = outs,
                              .attr_names = attrs,
                              .attr_defaults = &fallback,
                              .opsets = f.m->opsets,
                              .body = f.g};
    net_t n = net_new(t, "", 17);
    net_ok(&n, vn_model_set_opset(n.m, "local", 1, &n.err));
    net_in(&n, "x", "f32[2,?]");
    net_op(&n, "local", "F", "x", "a", "axis=0");
    net_op(&n, "local", "F", "x", "b", NULL);
    net_out(&n, "a");
    net_out(&n, "b");
    net_ok(&n, vn_model_finish(n.m, &n.err));
    n.m->functions = &function;
    n.m->n_functions = 1;
    net_ok(&n, vn_oracle_infer(n.m, &n.in, &n.out, &n.err));
    NET_IS(&n, "a", "f32[4,?]");
    NET_IS(&n, "b", "f32[2,?]");
    vn_inferred_free(&n.out);
    fallback.i = 5;
    VN_ASSERT_EQ(t, vn_oracle_infer(n.m, &n.in, &n.out, &n.err), VN_ERR_RANGE);
    VN_ASSERT_HAS(t, n.err.text, "in function F called by node F_1");
    n.m->n_functions = 0;
    net_free(&n);
    net_free(&f);
}

/* F0(x) = Relu(x), Fk(x) = Fk-1(Fk-1(x)): 2^24 nodes when followed to the end, which it is not. */
VN_TEST(infer, functions_that_multiply) {
    enum { LEVELS = 25 };
    static vn_function_t functions[LEVELS];
    static char names[LEVELS][24];
    net_t bodies[LEVELS];
    const char *ins[] = {"x"}, *outs[] = {"y"};
    for (int k = 0; k < LEVELS; ++k) {
        bodies[k] = body_new(t);
        net_ok(&bodies[k], vn_model_set_opset(bodies[k].m, "local", 1, &bodies[k].err));
        body_in(&bodies[k], "x", VN_F32);
        snprintf(names[k], sizeof names[k], "F%d", k);
        net_op(&bodies[k], k ? "local" : "", k ? names[k - 1] : "Relu", "x", "m", NULL);
        net_op(&bodies[k], k ? "local" : "", k ? names[k - 1] : "Relu", "m", "y", NULL);
        net_out(&bodies[k], "y");
        net_ok(&bodies[k], vn_model_finish(bodies[k].m, &bodies[k].err));
        functions[k] = (vn_function_t){.domain = "local",
                                       .name = names[k],
                                       .overload = "",
                                       .n_inputs = 1,
                                       .n_outputs = 1,
                                       .inputs = ins,
                                       .outputs = outs,
                                       .n_opsets = bodies[k].m->n_opsets,
                                       .opsets = bodies[k].m->opsets,
                                       .body = bodies[k].g};
    }
    net_t n = net_new(t, "", 17);
    net_ok(&n, vn_model_set_opset(n.m, "local", 1, &n.err));
    net_in(&n, "x", "f32[2,?]");
    net_op(&n, "local", "F3", "x", "few", NULL);
    net_op(&n, "local", names[LEVELS - 1], "x", "many", NULL);
    net_out(&n, "few");
    net_out(&n, "many");
    net_ok(&n, vn_model_finish(n.m, &n.err));
    n.m->functions = functions;
    n.m->n_functions = LEVELS;
    net_ok(&n, vn_oracle_infer(n.m, &n.in, &n.out, &n.err));
    NET_IS(&n, "few", "f32[2,?]");
    NET_IS(&n, "many", "unknown");
    VN_ASSERT_HAS(t, vn_inferred_find(&n.out, "many")->reason, "nodes were followed");
    n.m->n_functions = 0;
    net_free(&n);
    for (int k = 0; k < LEVELS; ++k) net_free(&bodies[k]);
}

/* ---- allocations ---- */

static int faults(vn_test_t *t, net_t *n) {
    net_ok(n, vn_model_finish(n->m, &n->err));
    for (int at = 1;; ++at) {
        vn_error_t err = {0};
        vn_alloc_fail_at(at);
        const vn_status_t s = vn_oracle_infer(n->m, &n->in, &n->out, &err);
        vn_alloc_fail_at(0);
        if (s == VN_OK) return at; /* a missing reason is not a failure */
        VN_ASSERT_EQ(t, s, VN_ERR_NOMEM);
        VN_ASSERT_EQ(t, n->out.count, 0);
        VN_ASSERT(t, at < 20000);
    }
}

VN_TEST(infer, allocation_faults) {
    net_t n = growing(t, "i64[]=2", "bool[]=1", "i64[]");
    VN_ASSERT_GT(t, faults(t, &n), 30);
    net_free(&n);
    n = branching(t, "bool[]", "f32[?]", "i64[2]=3,-1", "i64[1]=-1");
    VN_ASSERT_GT(t, faults(t, &n), 10);
    net_free(&n);
    n = scanning(t, "f32[7,?]", "num_scan_inputs=1");
    VN_ASSERT_GT(t, faults(t, &n), 10);
    net_free(&n);
    n = net_new(t, "", 17);
    net_in(&n, "x", "f32[?,3,?]");
    net_init(&n, "tail", "i64[1]=-1");
    net_init(&n, "axis", "i64[]=1");
    net_op(&n, "", "Shape", "x", "shape", NULL);
    net_op(&n, "", "Gather", "shape,tail", "one", NULL);
    net_op(&n, "", "Concat", "one,shape,tail", "all", "axis=0");
    net_op(&n, "", "SequenceConstruct", "all,all", "pair", NULL);
    net_op(&n, "", "SequenceAt", "pair,axis", "at", NULL);
    net_op(&n, "", "MaxPool", "x", "pooled", "kernel_shape=2,");
    net_out(&n, "at");
    net_out(&n, "pooled");
    VN_ASSERT_GT(t, faults(t, &n), 30);
    NET_IS(&n, "at", "i64[5]");
    net_free(&n);
}

VN_TEST_MAIN(VN_CASE(infer, branches), VN_CASE(infer, loops), VN_CASE(infer, loops_whose_body_cannot_run), VN_CASE(infer, scans),
             VN_CASE(infer, sequences), VN_CASE(infer, functions_through_their_body), VN_CASE(infer, functions_that_multiply),
             VN_CASE(infer, allocation_faults))
