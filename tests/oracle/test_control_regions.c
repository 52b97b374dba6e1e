/* Claims CONTROL-2, REGION-3, LEGACY-1: what is uncertain passes through bodies; masks of -inf absorb it; broadcasting before opset 7. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/graph.h"
#include "vernier/oracle.h"

enum { OPSET = 17, WIDTH = 5, STEPS = 6 };

/* ---- small graphs, written as lines ---- */

static vn_model_t *model_new(int64_t opset) {
    vn_model_t *m;
    if (vn_model_new(10, &m, NULL) != VN_OK || vn_model_set_opset(m, "", opset, NULL) != VN_OK) abort();
    return m;
}

static void input(vn_model_t *m, const char *name, vn_dtype_t t) {
    if (vn_graph_add_input(m->graph, name, t, -1, NULL, NULL) != VN_OK) abort();
}

static void output(vn_model_t *m, const char *name, vn_dtype_t t) {
    if (vn_graph_add_output(m->graph, name, t, -1, NULL, NULL) != VN_OK) abort();
}

static void scalar(vn_model_t *m, const char *name, vn_dtype_t t, double v) {
    vn_tensor_t *x;
    if (vn_tensor_new(t, 0, NULL, &x, NULL) != VN_OK) abort();
    vn_tensor_set_f64(x, 0, v);
    if (vn_graph_add_init(m->graph, name, x, NULL) != VN_OK) abort();
    vn_tensor_free(x);
}

/* in, out: up to four names each, separated by single spaces. */
static vn_node_t *node(vn_model_t *m, const char *op, const char *in, const char *out) {
    char text[2][200], *names[2][4], *save;
    int n[2] = {0, 0};
    vn_node_t *made;
    for (int side = 0; side < 2; ++side) {
        snprintf(text[side], sizeof text[side], "%s", side ? out : in);
        for (char *p = strtok_r(text[side], " ", &save); p && n[side] < 4; p = strtok_r(NULL, " ", &save)) names[side][n[side]++] = p;
    }
    if (vn_graph_add_node(m->graph, names[1][0], op, "", n[0], (const char *const *)names[0], n[1], (const char *const *)names[1], &made,
                          NULL) != VN_OK)
        abort();
    return made;
}

static void body(vn_model_t *m, vn_node_t *n, const char *name, vn_model_t *inner) {
    if (vn_node_set_attr(m, n, &(vn_attr_t){.name = name, .kind = VN_ATTR_GRAPH, .g = inner->graph}, NULL) != VN_OK) abort();
    vn_model_free(inner);
}

static vn_tensor_t *normals(vn_rng_t *rng, int rank, const int64_t *dims) {
    vn_tensor_t *x;
    if (vn_tensor_new(VN_F32, rank, dims, &x, NULL) != VN_OK) abort();
    for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_f64(x, i, vn_rng_normal(rng));
    return x;
}

static void give(vn_bundle_t *b, const char *name, vn_tensor_t *x) {
    if (vn_bundle_add(b, name, x, NULL) != VN_OK) abort();
    vn_tensor_free(x);
}

static void region(vn_test_t *t, vn_model_t *m, const vn_bundle_t *in, vn_ref_t *refs) {
    vn_error_t err = {0};
    vn_contract_t c;
    vn_contract_builtin("portable", &c);
    VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
    VN_ASSERT_OK_ERR(t, vn_oracle_region(m, in, &c, VN_WANT_VARIANCE, refs, &err), err);
}

static void same_planes(vn_test_t *t, const vn_ref_t *a, const vn_ref_t *b) {
    VN_ASSERT_EQ(t, a->count, b->count);
    VN_ASSERT(t, a->value && b->value && a->bound && b->bound && a->var && b->var);
    for (int64_t i = 0; i < a->count; ++i) {
        VN_ASSERT(t, a->value[i] == b->value[i]);
        VN_ASSERT(t, a->bound[i] == b->bound[i]);
        VN_ASSERT(t, a->var[i] == b->var[i]);
        VN_ASSERT(t, a->bound[i] > 0 && a->bound[i] < INFINITY);
    }
    VN_ASSERT(t, vn_tensor_equal_bits(a->tensor, b->tensor));
}

static bool all_void(const vn_ref_t *r) {
    for (int64_t i = 0; i < r->count; ++i)
        if (!r->flags || !(r->flags[i] & VN_EL_VOID)) return false;
    return r->count > 0;
}

/* ---- bodies against the same nodes written out ---- */

/* s <- s x_t + x_t; y_t = exp(s). */
static vn_model_t *scan_body(void) {
    vn_model_t *b = model_new(OPSET);
    input(b, "s", VN_F32);
    input(b, "x", VN_F32);
    node(b, "Mul", "s x", "p");
    node(b, "Add", "p x", "next");
    node(b, "Exp", "next", "out");
    output(b, "next", VN_F32);
    output(b, "out", VN_F32);
    return b;
}

VN_TEST(control_regions, scan_is_its_steps) {
    vn_rng_t rng = vn_test_rng(t);
    vn_bundle_t in = {0};
    give(&in, "s0", normals(&rng, 1, (int64_t[]){WIDTH}));
    give(&in, "x", normals(&rng, 2, (int64_t[]){STEPS, WIDTH}));
    vn_model_t *m = model_new(OPSET), *steps = model_new(OPSET);
    input(m, "s0", VN_F32);
    input(m, "x", VN_F32);
    vn_node_t *scan = node(m, "Scan", "s0 x", "last all");
    VN_ASSERT_OK(t, vn_node_set_int(m, scan, "num_scan_inputs", 1, NULL));
    body(m, scan, "body", scan_body());
    output(m, "last", VN_F32);
    output(m, "all", VN_F32);

    input(steps, "s0", VN_F32);
    input(steps, "x", VN_F32);
    char joined[200] = "";
    for (int k = 0; k < STEPS; ++k) {
        char index[16], row[16], a[40], p[16], s[16], y[16];
        snprintf(index, sizeof index, "i%d", k);
        snprintf(row, sizeof row, "r%d", k);
        snprintf(p, sizeof p, "p%d", k);
        snprintf(s, sizeof s, "s%d", k + 1);
        snprintf(y, sizeof y, "y%d", k);
        scalar(steps, index, VN_I64, k);
        snprintf(a, sizeof a, "x %s", index);
        node(steps, "Gather", a, row);
        snprintf(a, sizeof a, "s%d %s", k, row);
        node(steps, "Mul", a, p);
        snprintf(a, sizeof a, "%s %s", p, row);
        node(steps, "Add", a, s);
        node(steps, "Exp", s, y);
        if (k == STEPS - 1) snprintf(joined, sizeof joined, "%s", y);
    }
    char last[16];
    snprintf(last, sizeof last, "s%d", STEPS);
    output(steps, last, VN_F32);
    output(steps, joined, VN_F32);

    vn_ref_t a[2], b[2];
    region(t, m, &in, a);
    region(t, steps, &in, b);
    same_planes(t, &a[0], &b[0]);
    VN_ASSERT_EQ(t, a[1].rank, 2);
    for (int64_t i = 0; i < WIDTH; ++i) { /* the last row of what the scan collects */
        const int64_t at = (STEPS - 1) * WIDTH + i;
        VN_ASSERT(t, a[1].value[at] == b[1].value[i] && a[1].bound[at] == b[1].bound[i] && a[1].var[at] == b[1].var[i]);
    }
    /* true: f32, step by step; sharp: without the carried part the bound would not hold */
    const vn_tensor_t *x = vn_bundle_find(&in, "x"), *s0 = vn_bundle_find(&in, "s0");
    for (int64_t i = 0; i < WIDTH; ++i) {
        volatile float s = (float)vn_tensor_get_f64(s0, i);
        double grown =
            0; /* tight: each step's roundings, at most 2 + 2 ulps of u of what it adds and carries, times the factors after it */
        for (int k = 0; k < STEPS; ++k) {
            const float v = (float)vn_tensor_get_f64(x, k * WIDTH + i);
            volatile float p = s * v;
            s = p + v;
            grown = grown * fabs(v) + 8 * (fabs(p) + fabs(v) + fabs(s));
        }
        VN_ASSERT_LE(t, fabs((double)s - a[0].value[i]), a[0].bound[i]);
        VN_ASSERT_GT(t, a[0].bound[i], 0x1p-25 * fabs(a[0].value[i]));
        VN_ASSERT_LE(t, a[0].bound[i], 0x1p-24 * grown);
    }
    for (int k = 0; k < 2; ++k) {
        vn_ref_free(&a[k]);
        vn_ref_free(&b[k]);
    }
    vn_bundle_free(&in);
    vn_model_free(m);
    vn_model_free(steps);
}

/* If over z = a + b with a condition that is known: the branch's planes. A captured value is as uncertain inside as outside. */
VN_TEST(control_regions, if_is_its_branch) {
    vn_rng_t rng = vn_test_rng(t);
    vn_bundle_t in = {0};
    give(&in, "a", normals(&rng, 1, (int64_t[]){WIDTH}));
    give(&in, "b", normals(&rng, 1, (int64_t[]){WIDTH}));
    for (int yes = 0; yes < 2; ++yes) {
        vn_model_t *m = model_new(OPSET), *plain = model_new(OPSET), *then = model_new(OPSET), *other = model_new(OPSET);
        node(then, "Exp", "z", "r");
        output(then, "r", VN_F32);
        node(other, "Mul", "z z", "r");
        output(other, "r", VN_F32);
        for (int k = 0; k < 2; ++k) {
            input(k ? plain : m, "a", VN_F32);
            input(k ? plain : m, "b", VN_F32);
            node(k ? plain : m, "Add", "a b", "z");
        }
        scalar(m, "c", VN_BOOL, yes);
        vn_node_t *n = node(m, "If", "c", "y");
        body(m, n, "then_branch", then);
        body(m, n, "else_branch", other);
        output(m, "y", VN_F32);
        node(plain, yes ? "Exp" : "Mul", yes ? "z" : "z z", "y");
        output(plain, "y", VN_F32);
        vn_ref_t a, b;
        region(t, m, &in, &a);
        region(t, plain, &in, &b);
        same_planes(t, &a, &b);
        vn_ref_free(&a);
        vn_ref_free(&b);
        vn_model_free(m);
        vn_model_free(plain);
    }
    vn_bundle_free(&in);
}

/* ---- what nobody can foresee ---- */

/* sum = x + y as a scalar; limit next to it or far off. */
static vn_bundle_t sum_inputs(double limit) {
    vn_bundle_t in = {0};
    const double v[] = {0.1f, 0.2f, limit};
    const char *const names[] = {"x", "y", "limit"};
    for (int k = 0; k < 3; ++k) {
        vn_tensor_t *x;
        if (vn_tensor_new(VN_F32, 0, NULL, &x, NULL) != VN_OK) abort();
        vn_tensor_set_f64(x, 0, v[k]);
        give(&in, names[k], x);
    }
    return in;
}

static vn_model_t *sum_model(void) {
    vn_model_t *m = model_new(OPSET);
    input(m, "x", VN_F32);
    input(m, "y", VN_F32);
    input(m, "limit", VN_F32);
    node(m, "Add", "x y", "z");
    return m;
}

VN_TEST(control_regions, an_undecided_comparison_decides_nothing) {
    for (int near = 0; near < 2; ++near) {
        vn_bundle_t in = sum_inputs(near ? 0.3f : 0.5f);
        vn_ref_t r;
        /* through a cast */
        vn_model_t *m = sum_model();
        node(m, "Less", "z limit", "less");
        vn_node_t *cast = node(m, "Cast", "less", "out");
        VN_ASSERT_OK(t, vn_node_set_int(m, cast, "to", VN_F32, NULL));
        output(m, "out", VN_F32);
        region(t, m, &in, &r);
        VN_ASSERT_EQ(t, all_void(&r), near);
        vn_ref_free(&r);
        vn_model_free(m);
        /* as the condition of an If, of a Loop's next step */
        m = sum_model();
        vn_model_t *then = model_new(OPSET), *other = model_new(OPSET), *step = model_new(OPSET);
        node(then, "Exp", "z", "r");
        output(then, "r", VN_F32);
        node(other, "Neg", "z", "r");
        output(other, "r", VN_F32);
        node(m, "Less", "z limit", "less");
        vn_node_t *n = node(m, "If", "less", "out");
        body(m, n, "then_branch", then);
        body(m, n, "else_branch", other);
        output(m, "out", VN_F32);
        region(t, m, &in, &r);
        VN_ASSERT_EQ(t, all_void(&r), near);
        vn_ref_free(&r);
        vn_model_free(m);

        m = sum_model();
        input(step, "i", VN_I64);
        input(step, "go", VN_BOOL);
        input(step, "v", VN_F32);
        node(step, "Less", "v limit", "on");
        node(step, "Add", "v x", "next");
        output(step, "on", VN_BOOL);
        output(step, "next", VN_F32);
        scalar(m, "trips", VN_I64, 2); /* far off: 0.3 and 0.4 are below 0.5 */
        scalar(m, "yes", VN_BOOL, 1);
        n = node(m, "Loop", "trips yes z", "out");
        body(m, n, "body", step);
        output(m, "out", VN_F32);
        region(t, m, &in, &r);
        VN_ASSERT_EQ(t, all_void(&r), near);
        vn_ref_free(&r);
        vn_model_free(m);
        vn_bundle_free(&in);
    }
}

/* Sequences hold rounded values without planes: what is taken out of an uncertain one makes no statement. */
VN_TEST(control_regions, sequences_of_uncertain_values_are_open) {
    vn_bundle_t in = sum_inputs(1);
    vn_model_t *m = sum_model();
    scalar(m, "zero", VN_I64, 0);
    node(m, "SequenceConstruct", "z limit", "list");
    node(m, "SequenceAt", "list zero", "out");
    output(m, "out", VN_F32);
    output(m, "list", VN_F32);
    vn_ref_t r[2];
    region(t, m, &in, r);
    VN_ASSERT(t, all_void(&r[0]));
    VN_ASSERT(t, r[1].nested && r[1].nested_open);
    vn_ref_free(&r[0]);
    vn_ref_free(&r[1]);
    vn_model_free(m);
    vn_bundle_free(&in);
}

/* REGION-3: scores + mask, softmax: masked places are 0 exactly, the others have the bound that they have without the masked places. */
VN_TEST(control_regions, a_mask_absorbs) {
    vn_rng_t rng = vn_test_rng(t);
    vn_bundle_t in = {0};
    vn_tensor_t *mask = normals(&rng, 1, (int64_t[]){WIDTH});
    for (int64_t i = 0; i < WIDTH; ++i) vn_tensor_set_f64(mask, i, i % 2 ? -INFINITY : 0);
    give(&in, "a", normals(&rng, 2, (int64_t[]){3, WIDTH}));
    give(&in, "b", normals(&rng, 2, (int64_t[]){3, WIDTH}));
    give(&in, "mask", mask);
    vn_model_t *m = model_new(OPSET);
    input(m, "a", VN_F32);
    input(m, "b", VN_F32);
    input(m, "mask", VN_F32);
    node(m, "Add", "a b", "z");
    node(m, "Add", "z mask", "s");
    node(m, "Softmax", "s", "p");
    output(m, "s", VN_F32);
    output(m, "p", VN_F32);
    vn_ref_t r[2];
    region(t, m, &in, r);
    for (int64_t i = 0; i < r[1].count; ++i) {
        const bool masked = i % WIDTH % 2;
        VN_ASSERT_EQ(t, isinf(r[0].value[i]) != 0, masked);
        VN_ASSERT(t, !r[1].flags || !(r[1].flags[i] & VN_EL_VOID));
        VN_ASSERT_LE(t, r[1].bound[i], 0x1p-15); /* scores up to 8 carry 4 u |s| into the exponential, far from 1 */
        if (masked) VN_ASSERT(t, r[1].value[i] == 0 && r[0].bound[i] == 0);
        else VN_ASSERT_GT(t, r[1].bound[i], 0x1p-25 * r[1].value[i]);
    }
    vn_ref_free(&r[0]);
    vn_ref_free(&r[1]);
    vn_model_free(m);
    vn_bundle_free(&in);
}

/* ---- LEGACY-1 ---- */

VN_TEST(control_regions, broadcast_before_opset_7) {
    static const struct {
        int axis; /* -1: no attribute */
        int broadcast, rank;
        int64_t dims[3];
        int first; /* axis of a (2 x 3 x 4) on which b's first dimension lies; -1: refused */
    } cases[] = {
        {1, 1, 1, {3}, 1},  {0, 1, 2, {2, 3}, 0},     {-1, 1, 1, {4}, 2},  {-1, 1, 2, {3, 4}, 1}, {0, 1, 1, {2}, 0},
        {-1, 1, 1, {1}, 2}, {-1, 0, 3, {2, 3, 4}, 0}, {-1, 0, 1, {4}, -1}, {1, 1, 1, {4}, -1},    {2, 1, 2, {4, 2}, -1},
    };
    vn_rng_t rng = vn_test_rng(t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        static const int64_t dims[] = {2, 3, 4};
        vn_bundle_t in = {0};
        vn_error_t err = {0};
        vn_contract_t c;
        vn_ref_t r = {0};
        vn_contract_builtin("portable", &c);
        give(&in, "a", normals(&rng, 3, dims));
        give(&in, "b", normals(&rng, cases[i].rank, cases[i].dims));
        vn_model_t *m = model_new(6);
        input(m, "a", VN_F32);
        input(m, "b", VN_F32);
        vn_node_t *n = node(m, "Sub", "a b", "y");
        VN_ASSERT_OK(t, vn_node_set_int(m, n, "broadcast", cases[i].broadcast, NULL));
        if (cases[i].axis >= 0) VN_ASSERT_OK(t, vn_node_set_int(m, n, "axis", cases[i].axis, NULL));
        output(m, "y", VN_F32);
        VN_ASSERT_OK_ERR(t, vn_model_finish(m, &err), err);
        const vn_status_t s = vn_oracle_region(m, &in, &c, VN_WANT_BOUND, &r, &err);
        VN_ASSERT_EQ(t, s, cases[i].first < 0 ? VN_ERR_SHAPE : VN_OK);
        const vn_tensor_t *a = vn_bundle_find(&in, "a"), *b = vn_bundle_find(&in, "b");
        for (int64_t k = 0; s == VN_OK && k < r.count; ++k) {
            const int64_t at[] = {k / 12, k / 4 % 3, k % 4};
            int64_t place = 0;
            for (int d = 0; d < cases[i].rank; ++d) place = place * cases[i].dims[d] + (b->count == 1 ? 0 : at[cases[i].first + d]);
            const float want = (float)vn_tensor_get_f64(a, k) - (float)vn_tensor_get_f64(b, place);
            VN_ASSERT(t, vn_tensor_get_f64(r.tensor, k) == (double)want);
        }
        vn_ref_free(&r);
        vn_model_free(m);
        vn_bundle_free(&in);
    }
}

VN_TEST_MAIN(VN_CASE(control_regions, scan_is_its_steps), VN_CASE(control_regions, if_is_its_branch),
             VN_CASE(control_regions, an_undecided_comparison_decides_nothing),
             VN_CASE(control_regions, sequences_of_uncertain_values_are_open), VN_CASE(control_regions, a_mask_absorbs),
             VN_CASE(control_regions, broadcast_before_opset_7))
