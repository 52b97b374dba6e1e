/* MOVE-7, SCATTER-1, SCATTER-2, MOVE-11: updates, their open order, and the bounds of sums. */
#include <math.h>

#include "move_case.h"

static void scatter_case(mc_t *c, const char *op, vn_tensor_t *data, vn_tensor_t *index, vn_tensor_t *updates, const char *reduction) {
    mc_new(c, op, 18);
    mc_in(c, data);
    mc_in(c, index);
    mc_in(c, updates);
    if (reduction) mc_string(c, "reduction", reduction);
}

VN_TEST(scatter, elements_is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 120 * vn_test_scale(t); ++n) {
        const int64_t dims[2] = {4, 5};
        const int axis = n % 2;
        const vn_dtype_t type = mc_types[n % MC_TYPES];
        int64_t udims[2] = {4, 5}, used[5], c[2];
        udims[axis] = 1 + (int64_t)vn_rng_below(&rng, (uint64_t)dims[axis]);
        udims[1 - axis] = (int64_t)vn_rng_below(&rng, (uint64_t)dims[1 - axis] + 1);
        vn_tensor_t *index = mc_tensor(VN_I64, 2, udims);
        for (int64_t i = 0; i < dims[axis]; ++i) used[i] = i;
        for (int64_t i = dims[axis] - 1; i > 0; --i) { /* one permutation: no index twice */
            const int64_t j = (int64_t)vn_rng_below(&rng, (uint64_t)i + 1), swap = used[i];
            used[i] = used[j];
            used[j] = swap;
        }
        for (int64_t i = 0; i < index->count; ++i) {
            mc_coords(index, i, c);
            vn_tensor_set_i64(index, i, used[c[axis]] - (vn_rng_below(&rng, 2) ? dims[axis] : 0));
        }
        mc_t s;
        scatter_case(&s, "ScatterElements", mc_random(&rng, type, 2, dims), index, mc_random(&rng, type, 2, udims), NULL);
        mc_int(&s, "axis", axis);
        VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
        VN_ASSERT(t, s.out[0].n_readings == 0 && s.out[0].either == NULL && s.out[0].flags == NULL);
        const vn_tensor_t *out = s.out[0].tensor, *updates = s.in[2]->tensor;
        for (int64_t i = 0; i < out->count; ++i) {
            int64_t from = -1; /* the update of this element: search them all */
            for (int64_t k = 0; k < index->count; ++k) {
                mc_coords(index, k, c);
                const int64_t at = vn_tensor_get_i64(index, k);
                c[axis] = at < 0 ? at + dims[axis] : at;
                if (mc_flat(out, c) == i) from = k;
            }
            VN_ASSERT(t, from < 0 ? mc_same(out, i, s.in[0]->tensor, i) : mc_same(out, i, updates, from));
        }
        mc_free(&s);
    }
}

VN_TEST(scatter, nd_writes_slices) {
    mc_t s;
    vn_tensor_t *index = mc_tensor(VN_I64, MC_DIMS(2, 1));
    vn_tensor_set_i64(index, 0, -1);
    scatter_case(&s, "ScatterND", mc_f32(MC_DIMS(3, 2), (double[]){1, 2, 3, 4, 5, 6}), index,
                 mc_f32(MC_DIMS(2, 2), (double[]){7, 8, 9, 10}), NULL);
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    static const double want[] = {9, 10, 3, 4, 7, 8};
    for (int i = 0; i < 6; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].tensor, i), want[i]);
    mc_free(&s);
}

/* Two candidates: either, and a reading; a third one: void; agreeing duplicates: nothing is open. */
VN_TEST(scatter, order_of_duplicates_is_open) {
    mc_t s;
    scatter_case(&s, "ScatterElements", mc_f32(MC_DIMS(4), (double[]){0, 0, 0, 0}), MC_I64(1, 2, 1, 2, 2, 3, 3),
                 mc_f32(MC_DIMS(7), (double[]){10, 20, 11, 21, 22, 5, 5}), NULL);
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    static const double last[] = {0, 11, 22, 5}, first[] = {0, 10, 20, 5};
    static const int flags[] = {0, 0, VN_EL_VOID, 0};
    VN_ASSERT_STR(t, s.out[0].readings[0].name, "first-update-wins");
    for (int i = 0; i < 4; ++i) {
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].tensor, i), last[i]);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].either, i), first[i]);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].readings[0].value, i), first[i]);
        VN_ASSERT_EQ(t, s.out[0].flags[i], flags[i]);
    }
    mc_free(&s);
    scatter_case(&s, "ScatterElements", mc_f32(MC_DIMS(2), (double[]){0, 0}), MC_I64(1, 1), mc_f32(MC_DIMS(2), (double[]){5, 5}), NULL);
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    VN_ASSERT(t, s.out[0].n_readings == 0 && s.out[0].either == NULL);
    mc_free(&s);
}

VN_TEST(scatter, index_out_of_range_is_void) {
    mc_t s;
    scatter_case(&s, "ScatterElements", mc_f32(MC_DIMS(3), (double[]){1, 2, 3}), MC_I64(0, 7), mc_f32(MC_DIMS(2), (double[]){8, 9}), NULL);
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].tensor, 0), 8);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].tensor, 2), 3);
    VN_ASSERT_EQ(t, s.out[0].flags[2], VN_EL_VOID);
    VN_ASSERT_EQ(t, s.out[0].flags[0], 0);
    mc_free(&s);
}

/* SCATTER-1 in f32: any order of the additions is inside; one dropped term is not; untouched elements are exact. */
VN_TEST(scatter, add_bound_true_tight_sharp) {
    enum { M = 64 };
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 40 * vn_test_scale(t); ++n) {
        const int64_t dim = 2, count = M;
        vn_tensor_t *data = mc_tensor(VN_F32, 1, &dim), *index = mc_tensor(VN_I64, 1, &count), *updates = mc_tensor(VN_F32, 1, &count);
        vn_tensor_set_f64(data, 0, vn_rng_normal(&rng));
        vn_tensor_set_f64(data, 1, vn_rng_normal(&rng));
        for (int i = 0; i < M; ++i) vn_tensor_set_f64(updates, i, vn_rng_normal(&rng) * ldexp(1, (int)vn_rng_below(&rng, 12)));
        mc_t s;
        scatter_case(&s, "ScatterElements", data, index, updates, "add");
        VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
        const vn_ref_t *r = &s.out[0];
        VN_ASSERT_DEQ(t, r->bound[1], 0);
        VN_ASSERT_DEQ(t, r->value[1], vn_tensor_get_f64(data, 1));
        VN_ASSERT_EQ(t, r->terms, M + 1);
        long double exact = (long double)vn_tensor_get_f64(data, 0), size = fabsl(exact);
        for (int i = 0; i < M; ++i) {
            exact += (long double)vn_tensor_get_f64(updates, i);
            size += fabsl((long double)vn_tensor_get_f64(updates, i));
        }
        VN_ASSERT_LE(t, fabs((double)((long double)r->value[0] - exact)), r->own[0] + (double)(M * size * 0x1p-63L));
        VN_ASSERT_LE(t, r->bound[0], M * 0x1p-24 * (double)size * (1 + 0x1p-20));
        double square = 0;
        int order[M], runs = 50, dropped = 0;
        for (int i = 0; i < M; ++i) order[i] = i;
        for (int trial = 0; trial < runs; ++trial) {
            for (int i = M - 1; i > 0; --i) {
                const int j = (int)vn_rng_below(&rng, (uint64_t)i + 1), swap = order[i];
                order[i] = order[j];
                order[j] = swap;
            }
            float sum = (float)vn_tensor_get_f64(data, 0);
            for (int i = 0; i < M; ++i) sum += (float)vn_tensor_get_f64(updates, order[i]);
            const double error = (double)sum - r->value[0];
            VN_ASSERT_LE(t, fabs(error), r->bound[0]);
            square += error * error;
            dropped += fabs(error - vn_tensor_get_f64(updates, order[0])) > r->bound[0];
        }
        VN_ASSERT(t, dropped > runs / 2);
        VN_ASSERT(t, r->var[0] > 0 && square / runs < 30 * r->var[0]); /* the variance is of the right size */
        mc_free(&s);
    }
}

/* The lost update of a kernel that reads all, adds, and writes all lies outside the bound. */
VN_TEST(scatter, lost_update_is_outside) {
    mc_t s;
    scatter_case(&s, "ScatterElements", mc_f32(MC_DIMS(1), (double[]){1.25}), MC_I64(0, 0), mc_f32(MC_DIMS(2), (double[]){0.5, 0.75}),
                 "add");
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    VN_ASSERT_DEQ(t, s.out[0].value[0], 2.5);
    VN_ASSERT_GT(t, fabs(1.25 + 0.75 - 2.5), s.out[0].bound[0]);
    mc_free(&s);
}

VN_TEST(scatter, f16_partial_sums_are_the_second_tier) {
    const int64_t one = 1, m = 40;
    vn_tensor_t *data = mc_tensor(VN_F16, 1, &one), *updates = mc_tensor(VN_F16, 1, &m);
    vn_tensor_set_f64(data, 0, 2048); /* ulp 2: every single 1 is lost */
    for (int i = 0; i < m; ++i) vn_tensor_set_f64(updates, i, 1);
    mc_t s;
    scatter_case(&s, "ScatterElements", data, mc_tensor(VN_I64, 1, &m), updates, "add");
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    double sum = 2048;
    for (int i = 0; i < m; ++i) sum = vn_round_to(VN_FMT_F16, sum + vn_tensor_get_f64(updates, i), VN_RNE, false);
    VN_ASSERT_GT(t, fabs(sum - s.out[0].value[0]), s.out[0].bound[0]);
    VN_ASSERT_LE(t, fabs(sum - s.out[0].value[0]), s.out[0].wide[0]);
    mc_free(&s);
}

VN_TEST(scatter, mul_max_min_and_integers) {
    mc_t s;
    scatter_case(&s, "ScatterElements", mc_f32(MC_DIMS(2), (double[]){3, 4}), MC_I64(0, 0), mc_f32(MC_DIMS(2), (double[]){0.1, 7}), "mul");
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    const float f = 3.f * 0.1f * 7.f;
    VN_ASSERT_LE(t, fabs((double)f - s.out[0].value[0]), s.out[0].bound[0]);
    VN_ASSERT_LE(t, s.out[0].bound[0], 2.1 * 0x1p-24 * 2.1);
    VN_ASSERT_DEQ(t, s.out[0].bound[1], 0);
    mc_free(&s);
    const double nan = NAN;
    for (int max = 0; max < 2; ++max) {
        scatter_case(&s, "ScatterElements", mc_f32(MC_DIMS(3), (double[]){1, 1, 0.0}), MC_I64(0, 0, 1, 2),
                     mc_f32(MC_DIMS(4), (double[]){5, -5, nan, -0.0}), max ? "max" : "min");
        VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].tensor, 0), max ? 5 : -5);
        VN_ASSERT(t, isnan(vn_tensor_get_f64(s.out[0].tensor, 1)));
        VN_ASSERT_STR(t, s.out[0].readings[0].name, "nan-ignored");
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(s.out[0].readings[0].value, 1), 1);
        VN_ASSERT(t, !signbit(vn_tensor_get_f64(s.out[0].tensor, 2)) && signbit(vn_tensor_get_f64(s.out[0].either, 2)));
        mc_free(&s);
    }
    vn_tensor_t *data = mc_tensor(VN_U8, MC_DIMS(1)), *updates = mc_tensor(VN_U8, MC_DIMS(2));
    vn_tensor_set_i64(data, 0, 200);
    vn_tensor_set_i64(updates, 0, 50);
    vn_tensor_set_i64(updates, 1, 10);
    scatter_case(&s, "ScatterElements", data, MC_I64(0, 0), updates, "add");
    VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(s.out[0].tensor, 0), 4); /* modulo 256 */
    mc_free(&s);
    scatter_case(&s, "ScatterElements", mc_tensor(VN_BOOL, MC_DIMS(1)), MC_I64(0), mc_tensor(VN_BOOL, MC_DIMS(1)), "add");
    VN_ASSERT_EQ(t, mc_run(&s), VN_ERR_UNSUPPORTED);
    mc_free(&s);
    mc_new(&s, "ScatterElements", 13); /* no reductions yet */
    mc_in(&s, mc_tensor(VN_F32, MC_DIMS(1)));
    mc_in(&s, MC_I64(0));
    mc_in(&s, mc_tensor(VN_F32, MC_DIMS(1)));
    mc_string(&s, "reduction", "add");
    VN_ASSERT_EQ(t, mc_run(&s), VN_ERR_UNSUPPORTED);
    mc_free(&s);
}

VN_TEST(scatter, cache_updates) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 40; ++n) {
        const int64_t dims[4] = {2, 3, 5, 2};
        int64_t udims[4] = {2, 3, 1 + (int64_t)vn_rng_below(&rng, 5), 2}, c[4];
        const bool circular = n % 2;
        mc_t s;
        mc_new(&s, "TensorScatter", 24);
        mc_in(&s, mc_random(&rng, mc_types[n % MC_TYPES], 4, dims));
        mc_in(&s, mc_random(&rng, mc_types[n % MC_TYPES], 4, udims));
        int64_t start[2];
        for (int b = 0; b < 2; ++b) start[b] = (int64_t)vn_rng_below(&rng, (uint64_t)(circular ? 12 : 5 - udims[2] + 1));
        mc_in(&s, mc_i64(2, start));
        mc_string(&s, "mode", circular ? "circular" : "linear");
        VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
        for (int64_t i = 0; i < s.out[0].count; ++i) {
            mc_coords(s.out[0].tensor, i, c);
            int64_t step = -1;
            for (int64_t k = 0; k < udims[2]; ++k)
                if ((start[c[0]] + k) % 5 == c[2]) step = k;
            c[2] = step;
            VN_ASSERT(t, step < 0 ? mc_same(s.out[0].tensor, i, s.in[0]->tensor, i)
                                  : mc_same(s.out[0].tensor, i, s.in[1]->tensor, mc_flat(s.in[1]->tensor, c)));
        }
        mc_free(&s);
    }
    mc_t s;
    mc_new(&s, "TensorScatter", 24);
    mc_in(&s, mc_tensor(VN_F32, MC_DIMS(1, 4, 1)));
    mc_in(&s, mc_tensor(VN_F32, MC_DIMS(1, 2, 1)));
    mc_in(&s, MC_I64(3));
    VN_ASSERT_EQ(t, mc_run(&s), VN_ERR_RANGE);
    mc_free(&s);
}

/* MOVE-11: ones fold to the number of windows over each pixel; the bound is that of its sum. */
VN_TEST(col2im, counts_windows) {
    static const int64_t strides[] = {1, 2}, pads[] = {1, 0, 0, 1}, dilations[] = {2, 1};
    const int64_t image[] = {5, 4}, block[] = {2, 2}, steps[] = {(5 + 1 - 2 - 1) / 1 + 1, (4 + 1 - 1 - 1) / 2 + 1};
    const int64_t dims[] = {1, 2 * 4, steps[0] * steps[1]};
    for (int type = 0; type < 2; ++type) {
        mc_t c;
        mc_new(&c, "Col2Im", 18);
        vn_tensor_t *x = mc_tensor(type ? VN_I32 : VN_F32, 3, dims);
        for (int64_t i = 0; i < x->count; ++i) {
            if (type) vn_tensor_set_i64(x, i, 1);
            else vn_tensor_set_f64(x, i, 1.1);
        }
        mc_in(&c, x);
        mc_in(&c, mc_i64(2, image));
        mc_in(&c, mc_i64(2, block));
        mc_ints(&c, "strides", 2, strides);
        mc_ints(&c, "pads", 4, pads);
        mc_ints(&c, "dilations", 2, dilations);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT_EQ(t, c.out[0].rank, 4);
        for (int64_t i = 0; i < c.out[0].count; ++i) {
            const int64_t y = i / 4 % 5, z = i % 4;
            int64_t n = 0;
            for (int64_t a = 0; a < steps[0]; ++a)
                for (int64_t b = 0; b < steps[1]; ++b)
                    for (int64_t p = 0; p < 2; ++p)
                        for (int64_t q = 0; q < 2; ++q) n += a + 2 * p - 1 == y && 2 * b + q == z;
            if (type) {
                VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), n);
                continue;
            }
            const double term = vn_tensor_get_f64(x, 0);
            VN_ASSERT_LE(t, fabs(c.out[0].value[i] - (double)n * term), 0x1p-50);
            VN_ASSERT_LE(t, c.out[0].bound[i], n > 1 ? 1.01 * (double)(n - 1) * 0x1p-24 * (double)n * term : 0);
            float sum = 0;
            for (int64_t k = 0; k < n; ++k) sum += 1.1f;
            VN_ASSERT_LE(t, fabs((double)sum - c.out[0].value[i]), c.out[0].bound[i]);
        }
        mc_free(&c);
    }
    mc_t c;
    mc_new(&c, "Col2Im", 18);
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(1, 4, 9)));
    mc_in(&c, MC_I64(3, 3));
    mc_in(&c, MC_I64(2, 2));
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_SHAPE); /* 4 places, not 9 */
    mc_free(&c);
}

VN_TEST(scatter, allocation_faults) {
    static const char *const how[] = {"none", "add", "mul", "max"};
    static const vn_dtype_t types[] = {VN_F32, VN_I8};
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < 8; ++i) {
        mc_t s;
        scatter_case(&s, "ScatterElements", mc_random(&rng, types[i / 4], MC_DIMS(4)), MC_I64(1, 1, 7),
                     mc_random(&rng, types[i / 4], MC_DIMS(3)), how[i % 4]);
        VN_ASSERT_GT(t, mc_faults(t, &s), 3);
        mc_free(&s);
    }
    mc_t c;
    mc_new(&c, "Col2Im", 18);
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(1, 4, 4)));
    mc_in(&c, MC_I64(3, 3));
    mc_in(&c, MC_I64(2, 2));
    VN_ASSERT_GT(t, mc_faults(t, &c), 3);
    mc_free(&c);
}

VN_TEST_MAIN(VN_CASE(scatter, allocation_faults), VN_CASE(scatter, elements_is_its_twin), VN_CASE(scatter, nd_writes_slices),
             VN_CASE(scatter, order_of_duplicates_is_open), VN_CASE(scatter, index_out_of_range_is_void),
             VN_CASE(scatter, add_bound_true_tight_sharp), VN_CASE(scatter, lost_update_is_outside),
             VN_CASE(scatter, f16_partial_sums_are_the_second_tier), VN_CASE(scatter, mul_max_min_and_integers),
             VN_CASE(scatter, cache_updates), VN_CASE(col2im, counts_windows))
