/* CONTROL-1 and the regions: bodies run as often as the standard says; uncertainty moves with the elements. */
#include <math.h>

#include "move_case.h"

/* A body graph: built as the graph of a model of its own. */
typedef struct body {
    vn_model_t *model;
    vn_graph_t *g;
} body_t;

static body_t body_new(void) {
    body_t b = {NULL, NULL};
    if (vn_model_new(10, &b.model, NULL) != VN_OK || vn_model_set_opset(b.model, "", 16, NULL) != VN_OK) abort();
    b.g = b.model->graph;
    return b;
}
static void body_in(body_t *b, const char *name, vn_dtype_t t) {
    if (vn_graph_add_input(b->g, name, t, 0, NULL, NULL) != VN_OK) abort();
}
static void body_out(body_t *b, const char *name, vn_dtype_t t, int rank, const int64_t *dims) {
    if (vn_graph_add_output(b->g, name, t, rank, dims, NULL) != VN_OK) abort();
}
static void body_op(body_t *b, const char *op, const char *x, const char *y, const char *out) {
    const char *in[2] = {x, y};
    if (vn_graph_add_node(b->g, out, op, "", y ? 2 : 1, in, 1, &out, NULL, NULL) != VN_OK) abort();
}
static void body_init(body_t *b, const char *name, vn_dtype_t t, double v) {
    vn_tensor_t *x = mc_scalar(t, v);
    if (vn_graph_add_init(b->g, name, x, NULL) != VN_OK) abort();
    vn_tensor_free(x);
}
static void body_done(vn_test_t *t, body_t *b) {
    vn_error_t err = {0};
    VN_ASSERT_OK_ERR(t, vn_model_finish(b->model, &err), err);
}

/* sum += i; stop when sum > limit; scan output: the sum before. */
static body_t counting(vn_test_t *t, double limit) {
    body_t b = body_new();
    body_in(&b, "i", VN_I64);
    body_in(&b, "cond", VN_BOOL);
    body_in(&b, "sum", VN_I64);
    body_init(&b, "limit", VN_I64, limit);
    body_op(&b, "Add", "sum", "i", "next");
    body_op(&b, "Less", "next", "limit", "go");
    body_op(&b, "Identity", "sum", NULL, "seen");
    body_out(&b, "go", VN_BOOL, 0, NULL);
    body_out(&b, "next", VN_I64, 0, NULL);
    body_out(&b, "seen", VN_I64, 0, NULL);
    body_done(t, &b);
    return b;
}

VN_TEST(control, loop_forms) {
    static const struct {
        int64_t trips;
        int cond; /* -1: absent */
        int64_t steps, sum;
    } cases[] = {
        {5, 1, 5, 10},   /* trip count ends it */
        {100, 1, 6, 15}, /* the condition: 0+1+2+3+4+5 >= 12 */
        {-1, 1, 6, 15},  /* condition alone */
        {8, -1, 8, 28},  /* trip count alone: the body's condition is ignored */
        {0, 1, 0, 0},    {3, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        body_t b = counting(t, 12);
        mc_t c;
        mc_new(&c, "Loop", 16);
        mc_in(&c, cases[i].trips >= 0 ? mc_scalar(VN_I64, (double)cases[i].trips) : NULL);
        mc_in(&c, cases[i].cond >= 0 ? mc_scalar(VN_BOOL, cases[i].cond) : NULL);
        mc_in(&c, mc_scalar(VN_I64, 0));
        mc_attr(&c, "body", VN_ATTR_GRAPH)->g = b.g;
        c.node.n_outputs = 2;
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), cases[i].sum);
        VN_ASSERT_EQ(t, c.out[1].rank, 1);
        VN_ASSERT_EQ(t, c.out[1].dims[0], cases[i].steps);
        for (int64_t k = 0; k < cases[i].steps; ++k) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].tensor, k), k * (k - 1) / 2);
        mc_free(&c);
        vn_model_free(b.model);
    }
    body_t b = counting(t, 12);
    mc_t c;
    mc_new(&c, "Loop", 16); /* neither: never ends */
    mc_in(&c, NULL);
    mc_in(&c, NULL);
    mc_in(&c, mc_scalar(VN_I64, 0));
    mc_attr(&c, "body", VN_ATTR_GRAPH)->g = b.g;
    c.node.n_outputs = 2;
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_UNSUPPORTED);
    VN_ASSERT_HAS(t, c.err.text, "never ends");
    mc_free(&c);
    vn_model_free(b.model);
}

VN_TEST(control, branches) {
    body_t yes = body_new(), no = body_new();
    body_init(&yes, "one", VN_F32, 1);
    body_op(&yes, "Identity", "one", NULL, "y");
    body_out(&yes, "y", VN_F32, 0, NULL);
    body_done(t, &yes);
    body_init(&no, "two", VN_F32, 2);
    body_op(&no, "SequenceConstruct", "two", "two", "y"); /* another kind of value */
    body_out(&no, "y", VN_F32, 0, NULL);
    body_done(t, &no);
    for (int i = 0; i < 2; ++i) {
        mc_t c;
        mc_new(&c, "If", 16);
        mc_in(&c, mc_scalar(VN_BOOL, i));
        mc_attr(&c, "then_branch", VN_ATTR_GRAPH)->g = yes.g;
        mc_attr(&c, "else_branch", VN_ATTR_GRAPH)->g = no.g;
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        if (i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 0), 1);
        else VN_ASSERT_EQ(t, c.out[0].nested->count, 2);
        mc_free(&c);
    }
    mc_t c;
    mc_new(&c, "If", 16);
    mc_in(&c, mc_tensor(VN_BOOL, MC_DIMS(2)));
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_SHAPE);
    mc_free(&c);
    vn_model_free(yes.model);
    vn_model_free(no.model);
}

/* Running sums; both directions of input and output, axis 1. */
static body_t summing(vn_test_t *t) {
    body_t b = body_new();
    body_in(&b, "state", VN_F32);
    body_in(&b, "x", VN_F32);
    body_op(&b, "Add", "state", "x", "next");
    body_op(&b, "Identity", "next", NULL, "shown");
    body_out(&b, "next", VN_F32, 0, NULL);
    body_out(&b, "shown", VN_F32, 1, (int64_t[]){2});
    body_done(t, &b);
    return b;
}

VN_TEST(control, scan_directions_and_axes) {
    static const double x[] = {1, 2, 3, 10, 20, 30};
    for (int mode = 0; mode < 4; ++mode) {
        const int64_t back_in[] = {mode & 1}, back_out[] = {mode >> 1}, axis[] = {-1};
        body_t b = summing(t);
        mc_t c;
        mc_new(&c, "Scan", 16);
        mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2)));
        mc_in(&c, mc_f32(MC_DIMS(2, 3), x));
        mc_int(&c, "num_scan_inputs", 1);
        mc_attr(&c, "body", VN_ATTR_GRAPH)->g = b.g;
        mc_ints(&c, "scan_input_axes", 1, axis);
        mc_ints(&c, "scan_output_axes", 1, axis);
        mc_ints(&c, "scan_input_directions", 1, back_in);
        mc_ints(&c, "scan_output_directions", 1, back_out);
        c.node.n_outputs = 2;
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT_EQ(t, c.out[1].dims[0], 2);
        VN_ASSERT_EQ(t, c.out[1].dims[1], 3);
        for (int row = 0; row < 2; ++row) {
            double sum = 0;
            for (int i = 0; i < 3; ++i) {
                sum += x[3 * row + (mode & 1 ? 2 - i : i)];
                VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[1].tensor, 3 * row + (mode >> 1 ? 2 - i : i)), sum);
            }
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, row), sum);
        }
        mc_free(&c);
        vn_model_free(b.model);
    }
}

VN_TEST(control, scan_of_opset_8_pads_short_samples) {
    static const double x[] = {1, 2, 3, 10, 20, 30};
    body_t b = summing(t);
    mc_t c;
    mc_new(&c, "Scan", 8);
    mc_in(&c, MC_I64(3, 1));
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2, 1)));
    mc_in(&c, mc_f32(MC_DIMS(2, 3, 1), x));
    mc_int(&c, "num_scan_inputs", 1);
    mc_attr(&c, "body", VN_ATTR_GRAPH)->g = b.g;
    c.node.n_outputs = 2;
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    static const double want[] = {1, 3, 6, 10, 0, 0};
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 1), 10);
    for (int i = 0; i < 6; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[1].tensor, i), want[i]);
    mc_free(&c);
    vn_model_free(b.model);
}

VN_TEST(control, sequence_map) {
    body_t b = body_new();
    body_in(&b, "x", VN_F32);
    body_in(&b, "y", VN_F32);
    body_op(&b, "Add", "x", "y", "sum");
    body_out(&b, "sum", VN_F32, 0, NULL);
    body_done(t, &b);
    vn_value_t *items[3];
    for (int i = 0; i < 3; ++i) items[i] = vn_value_tensor(mc_scalar(VN_F32, i));
    mc_t c;
    mc_new(&c, "SequenceMap", 17);
    mc_in_value(&c, vn_value_list(VN_VALUE_SEQUENCE, VN_F32, items, 3));
    mc_in(&c, mc_scalar(VN_F32, 10));
    mc_attr(&c, "body", VN_ATTR_GRAPH)->g = b.g;
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].nested->count, 3);
    for (int i = 0; i < 3; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].nested->items[i]->tensor, 0), 10 + i);
    mc_free(&c);
    for (int i = 0; i < 3; ++i) vn_value_free(items[i]);
    vn_model_free(b.model);
}

VN_TEST(control, allocation_faults) {
    body_t b = counting(t, 12), s = summing(t);
    mc_t c;
    mc_new(&c, "Loop", 16);
    mc_in(&c, mc_scalar(VN_I64, 3));
    mc_in(&c, mc_scalar(VN_BOOL, 1));
    mc_in(&c, mc_scalar(VN_I64, 0));
    mc_attr(&c, "body", VN_ATTR_GRAPH)->g = b.g;
    c.node.n_outputs = 2;
    VN_ASSERT_GT(t, mc_faults(t, &c), 3);
    mc_free(&c);
    mc_new(&c, "Scan", 8);
    mc_in(&c, MC_I64(2, 1));
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2, 1)));
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2, 2, 1)));
    mc_int(&c, "num_scan_inputs", 1);
    mc_attr(&c, "body", VN_ATTR_GRAPH)->g = s.g;
    c.node.n_outputs = 2;
    VN_ASSERT_GT(t, mc_faults(t, &c), 3);
    mc_free(&c);
    vn_model_free(b.model);
    vn_model_free(s.model);
}

/* ---- regions: x * w, uncertain by one rounding, then an operator of movement or choice ---- */

static void run_region(vn_test_t *t, const char *op, vn_tensor_t *x, double w, int n_extra, vn_tensor_t **extra, int n_out,
                       vn_ref_t *refs) {
    static const char *const names[] = {"p", "e0", "e1", "e2"}, *const outs[] = {"y", "z"};
    body_t b = body_new();
    vn_error_t err = {0};
    vn_bundle_t in = {0};
    vn_contract_t contract;
    vn_contract_builtin("portable", &contract);
    VN_ASSERT_OK(t, vn_graph_add_input(b.g, "x", VN_F32, x->rank, x->dims, NULL));
    body_init(&b, "w", VN_F32, w);
    for (int k = 0; k < n_extra; ++k) {
        VN_ASSERT_OK(t, vn_graph_add_init(b.g, names[k + 1], extra[k], NULL));
        vn_tensor_free(extra[k]);
    }
    body_op(&b, "Mul", "x", "w", "p");
    VN_ASSERT_OK(t, vn_graph_add_node(b.g, op, op, "", 1 + n_extra, names, n_out, outs, NULL, NULL));
    for (int k = 0; k < n_out; ++k) VN_ASSERT_OK(t, vn_graph_add_output(b.g, outs[k], k ? VN_I64 : VN_F32, -1, NULL, NULL));
    body_done(t, &b);
    VN_ASSERT_OK(t, vn_bundle_add(&in, "x", x, NULL));
    VN_ASSERT_OK_ERR(t, vn_oracle_region(b.model, &in, &contract, VN_WANT_VARIANCE, refs, &err), err);
    vn_tensor_free(x);
    vn_bundle_free(&in);
    vn_model_free(b.model);
}

VN_TEST(region, uncertainty_moves_with_the_elements) {
    static const double x[] = {1, -2, 3, 4e3, 5e-3, 6};
    vn_ref_t r[2] = {{0}};
    vn_tensor_t *extra[2] = {MC_I64(2, 0), NULL};
    run_region(t, "Gather", mc_f32(MC_DIMS(3, 2), x), 1.1, 1, extra, 1, r);
    static const int from[] = {4, 5, 0, 1};
    const double w = (double)1.1f;
    for (int i = 0; i < 4; ++i) {
        const double y = (double)(float)x[from[i]] * w;
        VN_ASSERT_DEQ(t, r[0].value[i], y); /* not rounded */
        VN_ASSERT_GT(t, r[0].bound[i], 0);
        VN_ASSERT_LE(t, r[0].bound[i], 0x1p-24 * fabs(y) * 1.01 + 0x1p-148);
    }
    vn_ref_free(&r[0]);
    extra[0] = MC_I64(1, 0);
    extra[1] = mc_scalar(VN_F32, 9);
    run_region(t, "Pad", mc_f32(MC_DIMS(2), x), 1.1, 2, extra, 1, r);
    VN_ASSERT_DEQ(t, r[0].value[0], 9); /* the fill is exact */
    VN_ASSERT_DEQ(t, r[0].bound[0], 0);
    VN_ASSERT_GT(t, r[0].bound[1], 0);
    vn_ref_free(&r[0]);
}

VN_TEST(region, close_values_leave_the_index_open) {
    /* 1 and its neighbour differ by less than two roundings after the product; 5 is far from both */
    const double x[] = {1, 1 + 0x1p-23, 0.25};
    vn_ref_t r[2] = {{0}};
    vn_tensor_t *extra[1] = {MC_I64(2)};
    run_region(t, "TopK", mc_f32(MC_DIMS(3), x), 1.7, 1, extra, 2, r);
    VN_ASSERT_EQ(t, r[1].flags[0] & r[1].flags[1], VN_EL_VOID);
    VN_ASSERT_GT(t, r[0].bound[0], 0);
    vn_ref_free(&r[0]);
    vn_ref_free(&r[1]);
    const double y[] = {1, 5, 0.25};
    extra[0] = MC_I64(2);
    run_region(t, "TopK", mc_f32(MC_DIMS(3), y), 1.7, 1, extra, 2, r);
    VN_ASSERT_EQ(t, r[1].flags[0] | r[1].flags[1], 0);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(r[1].tensor, 0), 1);
    vn_ref_free(&r[0]);
    vn_ref_free(&r[1]);
}

VN_TEST(region, scatter_adds_uncertainties) {
    const double x[] = {3, 4};
    vn_ref_t r[1] = {{0}};
    vn_tensor_t *extra[2] = {MC_I64(0, 0), mc_f32(MC_DIMS(2), (double[]){0.5, 0.25})};
    run_region(t, "ScatterElements", mc_f32(MC_DIMS(2), x), 1.1, 2, extra, 1,
               r); /* reduction none: place 0 is open, place 1 is the product */
    VN_ASSERT_EQ(t, r[0].flags[0], VN_EL_VOID);
    VN_ASSERT_DEQ(t, r[0].value[1], 4 * (double)1.1f);
    VN_ASSERT_GT(t, r[0].bound[1], 0);
    vn_ref_free(&r[0]);
}

VN_TEST_MAIN(VN_CASE(control, allocation_faults), VN_CASE(control, loop_forms), VN_CASE(control, branches),
             VN_CASE(control, scan_directions_and_axes), VN_CASE(control, scan_of_opset_8_pads_short_samples),
             VN_CASE(control, sequence_map), VN_CASE(region, uncertainty_moves_with_the_elements),
             VN_CASE(region, close_values_leave_the_index_open), VN_CASE(region, scatter_adds_uncertainties))
