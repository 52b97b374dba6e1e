/* Claim NAME-1 for attributes and axes: a result by another value of an attribute, or over another axis, is named; others are not. */
#include "judge/name_case.h"

static double a[NC_MAX], y[NC_MAX];
#define MINE "attribute-ignored axis: eps gelu coordinate-mode count-include-pad pads-swapped argmax-last operator: clip-order"

static void set_int(vn_test_t *t, jc_t *c, const char *name, int64_t v) {
    VN_ASSERT_OK_ERR(t, vn_node_set_int(c->model, c->node, name, v, &c->err), c->err);
}
static void set_text(vn_test_t *t, jc_t *c, const char *name, const char *v) {
    VN_ASSERT_OK_ERR(t, vn_node_set_string(c->model, c->node, name, v, &c->err), c->err);
}
static void set_list(vn_test_t *t, jc_t *c, const char *name, const int64_t *v, int64_t n) {
    VN_ASSERT_OK_ERR(t, vn_node_set_ints(c->model, c->node, name, v, n, &c->err), c->err);
}

/* Running sums of rows of 7, by exclusive and reverse. */
static void prefix(const double *x, int rows, bool exclusive, bool reverse, double *out) {
    for (int r = 0; r < rows; ++r) {
        float s = 0;
        for (int i = 0; i < 7; ++i) {
            const int at = r * 7 + (reverse ? 6 - i : i);
            if (exclusive) out[at] = s;
            s += (float)x[at];
            if (!exclusive) out[at] = s;
        }
    }
}

VN_TEST(name_attributes, cumsum_in_both_directions) {
    vn_rng_t rng = vn_test_rng(t);
    for (int given = 0; given < 4; ++given)
        for (int used = 0; used < 4; ++used) {
            const int changed = given ^ used;
            if (changed != 1 && changed != 2) continue;
            jc_t c;
            jc_new(t, &c, "ieee");
            nc_fill(&rng, a, 21, 1);
            jc_in(t, &c, VN_F32, JC_DIMS(3, 7), a);
            jc_in(t, &c, VN_I64, JC_DIMS(-1), (const double[]){1});
            jc_op(t, &c, "CumSum", 14, 1);
            if (given & 1) set_int(t, &c, "exclusive", 1);
            if (given & 2) set_int(t, &c, "reverse", 1);
            jc_oracle(t, &c);
            prefix(a, 3, used & 1, used & 2, y);
            VN_ASSERT_CAUSE(t, &c, y, changed == 1 ? "attribute-ignored:exclusive" : "attribute-ignored:reverse");
            VN_ASSERT_HAS(t, c.found[0].words, "gives the whole result");
            jc_free(&c);
        }
}

VN_TEST(name_attributes, depth_to_space_by_the_other_order) {
    jc_t c;
    jc_new(t, &c, "ieee");
    enum { B = 2, C = 3, H = 2, W = 3 };
    for (int i = 0; i < B * B * C * H * W; ++i) a[i] = i;
    jc_in(t, &c, VN_I32, JC_DIMS(1, B * B * C, H, W), a);
    jc_op(t, &c, "DepthToSpace", 13, 1);
    set_int(t, &c, "blocksize", B);
    jc_oracle(t, &c);
    for (int ch = 0; ch < C; ++ch) /* column, row, depth */
        for (int h = 0; h < H * B; ++h)
            for (int w = 0; w < W * B; ++w) y[(ch * H * B + h) * W * B + w] = a[((ch * B + h % B) * B + w % B) * H * W + h / B * W + w / B];
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:mode");
    VN_ASSERT_HAS(t, c.found[0].words, "CRD");
    jc_free(&c);
}

VN_TEST(name_attributes, pad_by_another_mode_and_exchanged) {
    jc_t c;
    jc_new(t, &c, "ieee");
    vn_rng_t rng = vn_test_rng(t);
    nc_fill(&rng, a, 9, 1);
    jc_in(t, &c, VN_F16, JC_DIMS(9), a);
    jc_in(t, &c, VN_I64, JC_DIMS(2), (const double[]){3, 1});
    jc_op(t, &c, "Pad", 18, 1);
    set_text(t, &c, "mode", "edge");
    jc_oracle(t, &c);
    for (int i = 0; i < 13; ++i) y[i] = a[i < 3 ? 3 - i : i > 11 ? 7 : i - 3]; /* reflected */
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:mode");
    for (int i = 0; i < 13; ++i) y[i] = a[i < 1 ? 0 : i > 9 ? 8 : i - 1];
    VN_ASSERT_CAUSE(t, &c, y, "pads-swapped");
    for (int i = 0; i < 13; ++i) y[i] = a[(i * 5 + 2) % 9]; /* nothing of the kind */
    VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    jc_free(&c);
}

VN_TEST(name_attributes, last_of_equals_in_arg_min) {
    jc_t c;
    jc_new(t, &c, "ieee");
    const double x[] = {3, 1, 2, 1, 5, 4, 4, 4, 0, 7, 0, 0};
    jc_in(t, &c, VN_F32, JC_DIMS(2, 6), x);
    jc_op(t, &c, "ArgMin", 13, 1);
    set_int(t, &c, "axis", 1);
    jc_oracle(t, &c);
    VN_ASSERT_CAUSE(t, &c, ((const double[]){3, 5}), "argmax-last");
    jc_free(&c);
}

VN_TEST(name_attributes, gelu_both_ways) {
    vn_rng_t rng = vn_test_rng(t);
    for (int tanh_asked = 0; tanh_asked < 2; ++tanh_asked) {
        jc_t c;
        jc_new(t, &c, "portable");
        nc_fill(&rng, a, 60, 1);
        jc_in(t, &c, VN_F32, JC_DIMS(5, 12), a);
        jc_op(t, &c, "Gelu", 20, 1);
        if (tanh_asked) set_text(t, &c, "approximate", "tanh");
        jc_oracle(t, &c);
        for (int i = 0; i < 60; ++i)
            y[i] = tanh_asked ? 0.5 * a[i] * erfc(-a[i] * sqrt(0.5))
                              : 0.5 * a[i] * (1 + tanh(0.7978845608028654 * (a[i] + 0.044715 * a[i] * a[i] * a[i])));
        VN_ASSERT_CAUSE(t, &c, y, tanh_asked ? "gelu-erf" : "gelu-tanh");
        jc_free(&c);
    }
}

/* Softmax of [3,4,5] over this axis. */
static void softmax(const double *x, int axis, double *out) {
    const int dims[3] = {3, 4, 5}, stride[3] = {20, 5, 1};
    for (int i = 0; i < 60; ++i) {
        const int first = i - i / stride[axis] % dims[axis] * stride[axis];
        double s = 0;
        for (int k = 0; k < dims[axis]; ++k) s += exp(x[first + k * stride[axis]]);
        out[i] = exp(x[i]) / s;
    }
}

VN_TEST(name_attributes, softmax_over_every_other_axis) {
    vn_rng_t rng = vn_test_rng(t);
    nc_fill(&rng, a, 60, 1);
    for (int given = 0; given < 3; ++given)
        for (int used = 0; used < 3; ++used) {
            if (given == used) continue;
            jc_t c;
            jc_new(t, &c, "portable");
            jc_in(t, &c, VN_F32, JC_DIMS(3, 4, 5), a);
            jc_op(t, &c, "Softmax", 13, 1);
            set_int(t, &c, "axis", given);
            jc_oracle(t, &c);
            softmax(a, used, y);
            const char *const names[] = {"axis:0", "axis:1", "axis:2"};
            VN_ASSERT_CAUSE(t, &c, y, names[used]);
            jc_free(&c);
        }
}

VN_TEST(name_attributes, reduction_over_another_pair_of_axes) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "ieee");
    nc_fill(&rng, a, 64, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(4, 4, 4), a);
    jc_in(t, &c, VN_I64, JC_DIMS(2), (const double[]){0, 1});
    jc_op(t, &c, "ReduceMax", 18, 1);
    set_int(t, &c, "keepdims", 0);
    jc_oracle(t, &c);
    for (int i = 0; i < 4; ++i) {
        y[i] = a[i * 4];
        for (int k = 0; k < 4; ++k)
            for (int j = 0; j < 4; ++j) y[i] = fmax(y[i], a[k * 16 + i * 4 + j]);
    }
    VN_ASSERT_CAUSE(t, &c, y, "axis:0,2");
    jc_free(&c);
}

VN_TEST(name_attributes, resize_by_another_coordinate) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "portable");
    nc_fill(&rng, a, 7, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(7), a);
    jc_in(t, &c, VN_F32, JC_DIMS(0), a);
    jc_in(t, &c, VN_F32, JC_DIMS(0), a);
    jc_in(t, &c, VN_I64, JC_DIMS(1), (const double[]){16});
    jc_op(t, &c, "Resize", 19, 1);
    set_text(t, &c, "mode", "linear");
    jc_oracle(t, &c);
    for (int i = 0; i < 16; ++i) { /* align_corners */
        const double at = i * 6.0 / 15;
        const int k = at < 6 ? (int)at : 5;
        y[i] = a[k] + (at - k) * (a[k + 1] - a[k]);
    }
    VN_ASSERT_CAUSE(t, &c, y, "coordinate-mode:align_corners");
    jc_free(&c);
}

VN_TEST(name_attributes, other_faults_have_other_names) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "portable");
    nc_fill(&rng, a, 60, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(3, 4, 5), a);
    jc_op(t, &c, "Softmax", 13, 1);
    jc_oracle(t, &c);
    for (int fault = 0; fault < 4; ++fault) {
        softmax(a, 2, y);
        for (int i = 0; i < 60; ++i)
            if (fault == 0) y[i] *= 1.01;
            else if (fault == 1 && i % 7 == 3) y[i] += 0.01 * vn_rng_normal(&rng);
            else if (fault == 2 && i >= 40) y[i] = 0;
        if (fault == 3) {
            softmax(a, 1, y);
            y[17] = 0.5; /* one element more is wrong: the other axis is not the whole story */
        }
        VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    }
    jc_free(&c);
}

VN_TEST(name_attributes, transposed_product_of_memory_order) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    double b[20];
    jc_new(t, &c, "ieee");
    nc_fill(&rng, a, 24, 1);
    nc_fill(&rng, b, 20, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(4, 6), a);
    jc_in(t, &c, VN_F32, JC_DIMS(4, 5), b);
    jc_op(t, &c, "Gemm", 13, 1);
    set_int(t, &c, "transA", 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 5; ++j) {
            y[i * 5 + j] = 0;
            for (int k = 0; k < 4; ++k) y[i * 5 + j] += a[i * 4 + k] * b[k * 5 + j];
        }
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:transA");
    jc_free(&c);
}

VN_TEST(name_attributes, a_list_attribute) {
    jc_t c;
    jc_new(t, &c, "ieee");
    for (int i = 0; i < 27; ++i) a[i] = i * i;
    jc_in(t, &c, VN_I32, JC_DIMS(3, 3, 3), a);
    jc_op(t, &c, "Transpose", 13, 1);
    set_list(t, &c, "perm", (const int64_t[]){1, 2, 0}, 3);
    jc_oracle(t, &c);
    for (int i = 0; i < 27; ++i) y[i] = a[i / 3 % 3 + i % 3 * 3 + i / 9 * 9]; /* neither the inverse nor the identity */
    VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            for (int k = 0; k < 3; ++k) y[i * 9 + j * 3 + k] = a[j * 9 + k * 3 + i];
    VN_ASSERT_CAUSE(t, &c, y, "attribute-ignored:perm");
    jc_free(&c);
}

VN_TEST(name_attributes, softmax_over_joined_axes) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    jc_new(t, &c, "portable");
    nc_fill(&rng, a, 60, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(3, 4, 5), a);
    jc_op(t, &c, "Softmax", 13, 1);
    set_int(t, &c, "axis", 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 60; ++i) {
        double s = 0;
        for (int k = 0; k < 20; ++k) s += exp(a[i / 20 * 20 + k]);
        y[i] = exp(a[i]) / s;
    }
    VN_ASSERT_CAUSE(t, &c, y, "axis:1,2");
    jc_free(&c);
}

VN_TEST(name_attributes, a_norm_over_another_axis) {
    vn_rng_t rng = vn_test_rng(t);
    jc_t c;
    double g[5], b[5];
    jc_new(t, &c, "portable");
    nc_fill(&rng, a, 60, 1);
    nc_fill(&rng, g, 5, 1);
    nc_fill(&rng, b, 5, 1);
    jc_in(t, &c, VN_F32, JC_DIMS(3, 4, 5), a);
    jc_in(t, &c, VN_F32, JC_DIMS(5), g);
    jc_in(t, &c, VN_F32, JC_DIMS(5), b);
    jc_op(t, &c, "LayerNormalization", 17, 1);
    jc_oracle(t, &c);
    for (int i = 0; i < 60; ++i) { /* over axis 1, scale and bias along the last */
        const double *x = a + i / 20 * 20 + i % 5;
        double m = 0, v = 0;
        for (int k = 0; k < 4; ++k) m += x[k * 5] / 4;
        for (int k = 0; k < 4; ++k) v += (x[k * 5] - m) * (x[k * 5] - m) / 4;
        y[i] = (a[i] - m) / sqrt(v + (double)1e-5f) * g[i % 5] + b[i % 5];
    }
    VN_ASSERT_CAUSE(t, &c, y, "axis:1");
    y[33] += 1;
    VN_ASSERT_NOT_CAUSE(t, &c, y, MINE);
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(name_attributes, cumsum_in_both_directions), VN_CASE(name_attributes, depth_to_space_by_the_other_order),
             VN_CASE(name_attributes, pad_by_another_mode_and_exchanged), VN_CASE(name_attributes, last_of_equals_in_arg_min),
             VN_CASE(name_attributes, gelu_both_ways), VN_CASE(name_attributes, softmax_over_every_other_axis),
             VN_CASE(name_attributes, reduction_over_another_pair_of_axes), VN_CASE(name_attributes, resize_by_another_coordinate),
             VN_CASE(name_attributes, other_faults_have_other_names), VN_CASE(name_attributes, transposed_product_of_memory_order),
             VN_CASE(name_attributes, a_list_attribute), VN_CASE(name_attributes, softmax_over_joined_axes),
             VN_CASE(name_attributes, a_norm_over_another_axis))
