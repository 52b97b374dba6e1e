/* INDEX-1 .. INDEX-6: places of extremes, ties and NaN; top values; suppression of boxes; random operators. */
#include <math.h>

#include "move_case.h"

static void arg_case(mc_t *c, const char *op, vn_tensor_t *x, int64_t axis, int64_t keep, int64_t last) {
    mc_new(c, op, 13);
    mc_in(c, x);
    mc_int(c, "axis", axis);
    mc_int(c, "keepdims", keep);
    mc_int(c, "select_last_index", last);
}

VN_TEST(arg, is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    static const vn_dtype_t types[] = {VN_F32, VN_I8, VN_U64, VN_F16};
    for (int n = 0; n < 160 * vn_test_scale(t); ++n) {
        int64_t dims[3], c[3];
        for (int k = 0; k < 3; ++k) dims[k] = 1 + (int64_t)vn_rng_below(&rng, 5);
        const int axis = n % 3, last = n / 3 % 2, least = n / 6 % 2;
        vn_tensor_t *x = mc_tensor(types[n % 4], 3, dims);
        for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_i64(x, i, 0);
        for (int64_t i = 0; i < x->count; ++i) { /* few values: many ties */
            const int64_t v = (int64_t)vn_rng_below(&rng, 4) - (x->dtype == VN_U64 ? 0 : 2);
            if (vn_dtype_is_float(x->dtype)) vn_tensor_set_f64(x, i, v == 0 && vn_rng_below(&rng, 2) ? -0.0 : (double)v);
            else vn_tensor_set_i64(x, i, x->dtype == VN_U64 && v == 3 ? -1 : v);
        }
        mc_t a;
        arg_case(&a, least ? "ArgMin" : "ArgMax", x, axis - 3, n % 2, last);
        VN_ASSERT_OK_ERR(t, mc_run(&a), a.err);
        const vn_tensor_t *out = a.out[0].tensor;
        VN_ASSERT_EQ(t, out->rank, n % 2 ? 3 : 2);
        VN_ASSERT_EQ(t, a.out[0].n_readings, 0);
        for (int64_t i = 0; i < out->count; ++i) {
            int64_t flat = i;
            for (int k = 2; k >= 0; --k) {
                if (k == axis) {
                    c[k] = 0;
                    continue;
                }
                c[k] = flat % dims[k];
                flat /= dims[k];
            }
            int64_t best = 0;
            for (int64_t d = 0; d < dims[axis]; ++d) {
                c[axis] = d;
                const int64_t at = mc_flat(x, c);
                c[axis] = best;
                const int64_t old = mc_flat(x, c);
                bool more, equal;
                if (x->dtype == VN_U64) {
                    const uint64_t p = (uint64_t)vn_tensor_get_i64(x, at), q = (uint64_t)vn_tensor_get_i64(x, old);
                    more = least ? p < q : p > q;
                    equal = p == q;
                } else {
                    const double p = vn_tensor_get_f64(x, at), q = vn_tensor_get_f64(x, old);
                    more = least ? p < q : p > q;
                    equal = p == q;
                }
                if (more || (equal && last)) best = d;
            }
            VN_ASSERT_EQ(t, vn_tensor_get_i64(out, i), best);
        }
        mc_free(&a);
    }
}

VN_TEST(arg, readings_of_nan) {
    static const struct {
        double x[4];
        int64_t wins, ignored, unordered;
    } cases[] = {{{1, NAN, 3, 2}, 1, 2, 2}, {{NAN, 5, NAN, 5}, 0, 1, 0}, {{NAN, NAN, NAN, NAN}, 0, 0, 0}, {{7, NAN, 3, 2}, 1, 0, 0}};
    for (int i = 0; i < 4; ++i) {
        mc_t a;
        arg_case(&a, "ArgMax", mc_f32(MC_DIMS(4), cases[i].x), 0, 0, 0);
        VN_ASSERT_OK_ERR(t, mc_run(&a), a.err);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(a.out[0].tensor, 0), cases[i].wins);
        VN_ASSERT_EQ(t, a.out[0].n_readings, 2);
        VN_ASSERT_STR(t, a.out[0].readings[0].name, "nan-ignored");
        VN_ASSERT_EQ(t, vn_tensor_get_i64(a.out[0].readings[0].value, 0), cases[i].ignored);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(a.out[0].readings[1].value, 0), cases[i].unordered);
        mc_free(&a);
    }
    mc_t a;
    arg_case(&a, "ArgMin", mc_tensor(VN_F32, MC_DIMS(2, 0)), 1, 0, 0);
    VN_ASSERT_EQ(t, mc_run(&a), VN_ERR_RANGE);
    mc_free(&a);
    arg_case(&a, "ArgMin", mc_tensor(VN_STRING, MC_DIMS(2)), 0, 0, 0);
    VN_ASSERT_EQ(t, mc_run(&a), VN_ERR_DTYPE);
    mc_free(&a);
}

VN_TEST(top, is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 150 * vn_test_scale(t); ++n) {
        int64_t dims[3], at[3];
        for (int k = 0; k < 3; ++k) dims[k] = 1 + (int64_t)vn_rng_below(&rng, k == 1 ? 12 : 3);
        const int64_t k = (int64_t)vn_rng_below(&rng, (uint64_t)dims[1] + 1);
        const bool largest = n % 2, ints = n / 2 % 2;
        vn_tensor_t *x = mc_tensor(ints ? VN_I64 : VN_BF16, 3, dims);
        for (int64_t i = 0; i < x->count; ++i) {
            const int64_t v = (int64_t)vn_rng_below(&rng, 6) - 3;
            if (ints) vn_tensor_set_i64(x, i, v);
            else vn_tensor_set_f64(x, i, (double)v / 4);
        }
        mc_t c;
        mc_new(&c, "TopK", 11);
        mc_in(&c, x);
        mc_in(&c, MC_I64(k));
        mc_int(&c, "axis", 1);
        mc_int(&c, "largest", largest);
        c.node.n_outputs = 2;
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        for (int64_t i = 0; i < c.out[1].count; ++i) {
            mc_coords(c.out[1].tensor, i, at);
            const int64_t place = at[1];
            /* the twin: the entry that exactly `place` others precede */
            int64_t found = -1;
            for (int64_t d = 0; d < dims[1]; ++d) {
                int64_t ahead = 0;
                at[1] = d;
                const double me = vn_tensor_get_f64(x, mc_flat(x, at));
                for (int64_t o = 0; o < dims[1]; ++o) {
                    at[1] = o;
                    const double other = vn_tensor_get_f64(x, mc_flat(x, at));
                    ahead += (largest ? other > me : other < me) || (other == me && o < d);
                }
                if (ahead == place) found = d;
            }
            VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].tensor, i), found);
            at[1] = found;
            VN_ASSERT(t, mc_same(c.out[0].tensor, i, x, mc_flat(x, at)));
        }
        mc_free(&c);
    }
}

VN_TEST(top, unsorted_nan_and_versions) {
    mc_t c;
    mc_new(&c, "TopK", 11);
    mc_in(&c, mc_f32(MC_DIMS(5), (double[]){1, 4, 2, 5, 3}));
    mc_in(&c, MC_I64(3));
    mc_int(&c, "sorted", 0);
    c.node.n_outputs = 2;
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    static const int64_t sorted[] = {3, 1, 4}, index[] = {1, 3, 4}, reversed[] = {4, 1, 3};
    VN_ASSERT_EQ(t, c.out[0].n_readings, 2);
    VN_ASSERT_STR(t, c.out[1].readings[0].name, "topk-index-order");
    for (int i = 0; i < 3; ++i) {
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].tensor, i), sorted[i]);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].readings[0].value, i), index[i]);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].readings[1].value, i), reversed[i]);
    }
    mc_free(&c);
    mc_new(&c, "TopK", 9); /* k as attribute */
    mc_in(&c, mc_f32(MC_DIMS(3), (double[]){1, NAN, 2}));
    mc_int(&c, "k", 2);
    c.node.n_outputs = 2;
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].tensor, 0), 1);
    VN_ASSERT_STR(t, c.out[1].readings[0].name, "nan-least");
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].readings[0].value, 0), 2);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[1].readings[0].value, 1), 0);
    mc_free(&c);
    for (int i = 0; i < 2; ++i) {
        mc_new(&c, "TopK", 10);
        mc_in(&c, mc_tensor(VN_F32, MC_DIMS(3)));
        mc_in(&c, i ? MC_I64(4) : MC_I64(-1));
        c.node.n_outputs = 2;
        VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_RANGE);
        mc_free(&c);
    }
}

/* ---- NonMaxSuppression ---- */

static void nms_case(mc_t *c, int64_t n, const double *boxes, const double *scores, double overlap, double low) {
    mc_new(c, "NonMaxSuppression", 11);
    mc_in(c, mc_f32(3, (int64_t[]){1, n, 4}, boxes));
    mc_in(c, mc_f32(3, (int64_t[]){1, 1, n}, scores));
    mc_in(c, mc_scalar(VN_I64, 10));
    mc_in(c, mc_scalar(VN_F32, overlap));
    mc_in(c, mc_scalar(VN_F32, low));
}

VN_TEST(boxes, greedy_choice) {
    static const double boxes[] = {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 1, 11, 0, 10, 5, 5, 5, 5};
    static const double scores[] = {.9, .75, .6, .95, .5, .55};
    mc_t c;
    nms_case(&c, 6, boxes, scores, 0.5, 0.0);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    static const int64_t want[] = {3, 0, 5}; /* 1, 2 overlap 0; 4 is 3 with flipped corners; 5 has no area */
    VN_ASSERT_EQ(t, c.out[0].dims[0], 3);
    for (int i = 0; i < 3; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 3 * i + 2), want[i]);
    VN_ASSERT_EQ(t, c.out[0].n_readings, 0);
    mc_free(&c);
    /* overlap exactly at the threshold stays; a score exactly at the threshold stays, the other reading removes it */
    nms_case(&c, 2, (double[]){0, 0, 2, 2, 0, 0, 2, 1}, (double[]){.5, .25}, 0.5, 0.25);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dims[0], 2);
    VN_ASSERT_EQ(t, c.out[0].n_readings, 1);
    VN_ASSERT_STR(t, c.out[0].readings[0].name, "score-equal-removed");
    VN_ASSERT_EQ(t, c.out[0].readings[0].value->dims[0], 1);
    mc_free(&c);
    mc_new(&c, "NonMaxSuppression", 11); /* no limit given: no boxes */
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(1, 2, 4)));
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(1, 1, 2)));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dims[0], 0);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 3);
    mc_free(&c);
}

/* Overlap w / 3 a little above the threshold, which is its own f32 quotient: exactly the box falls, in f32 it stays. */
VN_TEST(boxes, overlap_near_the_threshold) {
    float w = 1;
    while ((double)(w / 3.0f) >= (double)w / 3) w += 0x1p-21f; /* 3 + w stays exact */
    const double boxes[] = {0, 0, 1, 3, 0, 0, 1, (double)w}, threshold = (double)(w / 3.0f);
    mc_t c;
    nms_case(&c, 2, boxes, (double[]){.9, .8}, threshold, 0);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dims[0], 1);
    VN_ASSERT_STR(t, c.out[0].readings[0].name, "overlap-f32");
    VN_ASSERT_EQ(t, c.out[0].readings[0].value->dims[0], 2);
    mc_free(&c);
    nms_case(&c, 2, boxes, (double[]){.9, .8}, threshold * (1 - 0x1p-20), 0); /* far enough: nothing is open */
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].n_readings, 0);
    mc_free(&c);
}

/* ---- random ---- */

VN_TEST(random, draws_keep_their_range) {
    static const int64_t shape[] = {50, 3};
    for (int normal = 0; normal < 2; ++normal) {
        mc_t c;
        mc_new(&c, normal ? "RandomNormal" : "RandomUniform", 22);
        mc_ints(&c, "shape", 2, shape);
        mc_int(&c, "dtype", VN_F16);
        mc_float(&c, normal ? "mean" : "low", 2);
        mc_float(&c, normal ? "scale" : "high", 5);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT(t, c.out[0].is_random && c.out[0].dtype == VN_F16 && c.out[0].count == 150);
        for (int64_t i = 0; i < 150; ++i) {
            VN_ASSERT_LE(t, c.out[0].range_lo, vn_tensor_get_f64(c.out[0].tensor, i));
            VN_ASSERT_LE(t, vn_tensor_get_f64(c.out[0].tensor, i), c.out[0].range_hi);
        }
        if (!normal) VN_ASSERT(t, c.out[0].range_lo == 2 && c.out[0].range_hi == 5);
        mc_free(&c);
    }
    mc_t c;
    mc_new(&c, "Multinomial", 22);
    mc_in(&c, mc_f32(MC_DIMS(1, 3), (double[]){-1000, 0, -1000}));
    mc_int(&c, "sample_size", 20);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dtype, VN_I32);
    VN_ASSERT_DEQ(t, c.out[0].range_hi, 2);
    for (int i = 0; i < 20; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), 1);
    mc_free(&c);
    mc_new(&c, "Bernoulli", 15);
    mc_in(&c, mc_f32(MC_DIMS(2), (double[]){0, 1}));
    mc_int(&c, "dtype", VN_BOOL);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT(t, c.out[0].is_random && c.out[0].dtype == VN_BOOL);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), 0);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 1), 1);
    mc_free(&c);
}

VN_TEST(random, dropout_by_mode_and_version) {
    static const struct {
        int64_t version;
        int training; /* -1: operand absent */
        double ratio;
        bool random;
        vn_dtype_t mask;
    } cases[] = {{7, -1, .5, false, VN_F32},  {10, -1, .5, false, VN_BOOL}, {13, -1, .5, false, VN_BOOL},
                 {13, 0, .5, false, VN_BOOL}, {13, 1, .5, true, VN_BOOL},   {13, 1, 0, false, VN_BOOL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        mc_t c;
        mc_new(&c, "Dropout", cases[i].version);
        mc_in(&c, mc_f32(MC_DIMS(4), (double[]){1, -2, 3, -0.0}));
        if (cases[i].version >= 12) mc_in(&c, mc_scalar(VN_F32, cases[i].ratio));
        if (cases[i].training >= 0) mc_in(&c, mc_scalar(VN_BOOL, cases[i].training));
        c.node.n_outputs = 2;
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT_EQ(t, c.out[0].is_random, cases[i].random);
        VN_ASSERT_EQ(t, c.out[1].dtype, cases[i].mask);
        if (!cases[i].random) VN_ASSERT(t, vn_tensor_equal_bits(c.out[0].tensor, c.in[0]->tensor));
        if (!cases[i].random) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[1].tensor, 3), 1);
        if (cases[i].random) VN_ASSERT_GE(t, c.out[0].range_hi, 6.0);
        mc_free(&c);
    }
    mc_t c;
    mc_new(&c, "Dropout", 13);
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(4)));
    mc_in(&c, mc_scalar(VN_F32, 1));
    mc_in(&c, mc_scalar(VN_BOOL, 1));
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_RANGE);
    mc_free(&c);
}

VN_TEST(arg, allocation_faults) {
    static const double x[] = {1, NAN, 3, 3, 2, 1};
    mc_t c;
    arg_case(&c, "ArgMin", mc_f32(MC_DIMS(2, 3), x), 1, 1, 0);
    VN_ASSERT_GT(t, mc_faults(t, &c), 3);
    mc_free(&c);
    mc_new(&c, "TopK", 11);
    mc_in(&c, mc_f32(MC_DIMS(2, 3), x));
    mc_in(&c, MC_I64(2));
    mc_int(&c, "sorted", 0);
    c.node.n_outputs = 2;
    VN_ASSERT_GT(t, mc_faults(t, &c), 3);
    mc_free(&c);
    nms_case(&c, 1, x, (double[]){.5}, 0.5, 0.5);
    VN_ASSERT_GT(t, mc_faults(t, &c), 3);
    mc_free(&c);
}

VN_TEST_MAIN(VN_CASE(arg, allocation_faults), VN_CASE(arg, is_its_twin), VN_CASE(arg, readings_of_nan), VN_CASE(top, is_its_twin),
             VN_CASE(top, unsorted_nan_and_versions), VN_CASE(boxes, greedy_choice), VN_CASE(boxes, overlap_near_the_threshold),
             VN_CASE(random, draws_keep_their_range), VN_CASE(random, dropout_by_mode_and_version))
