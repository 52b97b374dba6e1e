/* MOVE-6, MOVE-8, MOVE-10, MOVE-12: picked elements, generated results, unique elements, sequences. */
#include "move_case.h"

static vn_tensor_t *random_indices(vn_rng_t *rng, int rank, const int64_t *dims, int64_t size) {
    vn_tensor_t *x = mc_tensor(vn_rng_below(rng, 2) ? VN_I64 : VN_I32, rank, dims);
    for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_i64(x, i, (int64_t)vn_rng_below(rng, (uint64_t)(2 * size)) - size);
    return x;
}
static int64_t wrapped(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

VN_TEST(gather, along_an_axis_is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 150 * vn_test_scale(t); ++n) {
        int64_t dims[3] = {1, 1, 1}, idims[2], c[VN_MAX_RANK];
        const int rank = 1 + (int)vn_rng_below(&rng, 3), irank = mc_random_dims(&rng, 2, 3, idims),
                  axis = (int)vn_rng_below(&rng, (uint64_t)rank);
        for (int k = 0; k < rank; ++k) dims[k] = 1 + (int64_t)vn_rng_below(&rng, 4);
        mc_t g;
        mc_new(&g, "Gather", 13);
        mc_in(&g, mc_random(&rng, mc_types[n % MC_TYPES], rank, dims));
        mc_in(&g, random_indices(&rng, irank, idims, dims[axis]));
        mc_int(&g, "axis", axis - (n % 2 ? rank : 0));
        VN_ASSERT_OK_ERR(t, mc_run(&g), g.err);
        const vn_tensor_t *out = g.out[0].tensor, *data = g.in[0]->tensor, *index = g.in[1]->tensor;
        VN_ASSERT_EQ(t, out->rank, rank - 1 + irank);
        VN_ASSERT(t, g.out[0].flags == NULL && g.out[0].n_readings == 0);
        for (int64_t i = 0; i < out->count; ++i) {
            int64_t from[VN_MAX_RANK] = {0};
            mc_coords(out, i, c);
            for (int k = 0; k < rank; ++k) from[k] = k < axis ? c[k] : k > axis ? c[k - 1 + irank] : 0;
            from[axis] = wrapped(vn_tensor_get_i64(index, mc_flat(index, c + axis)), dims[axis]);
            VN_ASSERT(t, mc_same(out, i, data, mc_flat(data, from)));
        }
        mc_free(&g);
    }
}

VN_TEST(gather, elements_is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 100 * vn_test_scale(t); ++n) {
        int64_t dims[3] = {3, 2, 4}, idims[3], c[3];
        const int axis = n % 3;
        for (int k = 0; k < 3; ++k) idims[k] = (int64_t)vn_rng_below(&rng, (uint64_t)dims[k] + 1);
        idims[axis] = (int64_t)vn_rng_below(&rng, 7);
        mc_t g;
        mc_new(&g, "GatherElements", 13);
        mc_in(&g, mc_random(&rng, mc_types[n % MC_TYPES], 3, dims));
        mc_in(&g, random_indices(&rng, 3, idims, dims[axis]));
        mc_int(&g, "axis", axis);
        VN_ASSERT_OK_ERR(t, mc_run(&g), g.err);
        const vn_tensor_t *out = g.out[0].tensor, *data = g.in[0]->tensor;
        for (int64_t i = 0; i < out->count; ++i) {
            mc_coords(out, i, c);
            c[axis] = wrapped(vn_tensor_get_i64(g.in[1]->tensor, i), dims[axis]);
            VN_ASSERT(t, mc_same(out, i, data, mc_flat(data, c)));
        }
        mc_free(&g);
    }
}

VN_TEST(gather, nd_is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 120 * vn_test_scale(t); ++n) {
        const int64_t dims[4] = {2, 3, 4, 2};
        const int batch = n % 3, depth = 1 + (int)vn_rng_below(&rng, (uint64_t)(4 - batch));
        int64_t idims[4], c[VN_MAX_RANK];
        int irank = 0;
        for (int k = 0; k < batch; ++k) idims[irank++] = dims[k];
        idims[irank++] = (int64_t)vn_rng_below(&rng, 4);
        idims[irank++] = depth;
        vn_tensor_t *index = mc_tensor(VN_I64, irank, idims);
        for (int64_t i = 0; i < index->count; ++i) {
            const int64_t size = dims[batch + i % depth];
            vn_tensor_set_i64(index, i, (int64_t)vn_rng_below(&rng, (uint64_t)(2 * size)) - size);
        }
        mc_t g;
        mc_new(&g, "GatherND", 13);
        mc_in(&g, mc_random(&rng, mc_types[n % MC_TYPES], 4, dims));
        mc_in(&g, index);
        mc_int(&g, "batch_dims", batch);
        VN_ASSERT_OK_ERR(t, mc_run(&g), g.err);
        const vn_tensor_t *out = g.out[0].tensor, *data = g.in[0]->tensor;
        VN_ASSERT_EQ(t, out->rank, irank - 1 + 4 - depth - batch);
        for (int64_t i = 0; i < out->count; ++i) {
            int64_t from[4], tuple[VN_MAX_RANK];
            mc_coords(out, i, c);
            memcpy(tuple, c, sizeof tuple);
            for (int k = 0; k < batch; ++k) from[k] = c[k];
            for (int k = 0; k < depth; ++k) {
                tuple[irank - 1] = k;
                from[batch + k] = wrapped(vn_tensor_get_i64(index, mc_flat(index, tuple)), dims[batch + k]);
            }
            for (int k = batch + depth; k < 4; ++k) from[k] = c[irank - 1 + k - batch - depth];
            VN_ASSERT(t, mc_same(out, i, data, mc_flat(data, from)));
        }
        mc_free(&g);
    }
}

/* The standard gives no value: the row is void, zero and clamped are shown, everything else is exact. */
VN_TEST(gather, index_out_of_range_is_void) {
    mc_t g;
    mc_new(&g, "Gather", 13);
    mc_in(&g, mc_f32(MC_DIMS(4, 2), (double[]){1, 2, 3, 4, 5, 6, 7, 8}));
    mc_in(&g, MC_I64(1, 9, -5, -1));
    VN_ASSERT_OK_ERR(t, mc_run(&g), g.err);
    static const double clamped[] = {3, 4, 7, 8, 1, 2, 7, 8}, zero[] = {3, 4, 0, 0, 0, 0, 7, 8};
    static const int flags[] = {0, 0, 1, 1, 1, 1, 0, 0};
    VN_ASSERT_EQ(t, g.out[0].n_readings, 1);
    VN_ASSERT_STR(t, g.out[0].readings[0].name, "index-out-of-range:zero");
    for (int i = 0; i < 8; ++i) {
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(g.out[0].tensor, i), clamped[i]);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(g.out[0].readings[0].value, i), zero[i]);
        VN_ASSERT_EQ(t, g.out[0].flags[i], flags[i] ? VN_EL_VOID : 0);
    }
    mc_free(&g);
}

VN_TEST(gather, compress_and_reverse) {
    mc_t c;
    mc_new(&c, "Compress", 11);
    mc_in(&c, mc_f32(MC_DIMS(2, 3), (double[]){1, 2, 3, 4, 5, 6}));
    vn_tensor_t *keep = mc_tensor(VN_BOOL, MC_DIMS(2));
    vn_tensor_set_i64(keep, 1, 1);
    mc_in(&c, keep);
    mc_int(&c, "axis", 1);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 1);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 1), 5);
    mc_free(&c);
    mc_new(&c, "Compress", 11); /* flattened; selects past the end */
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2)));
    keep = mc_tensor(VN_BOOL, MC_DIMS(3));
    vn_tensor_set_i64(keep, 2, 1);
    mc_in(&c, keep);
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_RANGE);
    mc_free(&c);
    mc_new(&c, "ReverseSequence", 10);
    mc_in(&c, mc_f32(MC_DIMS(2, 3), (double[]){1, 2, 3, 4, 5, 6}));
    mc_in(&c, MC_I64(3, 2));
    mc_int(&c, "time_axis", 1);
    mc_int(&c, "batch_axis", 0);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    static const double want[] = {3, 2, 1, 5, 4, 6};
    for (int i = 0; i < 6; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), want[i]);
    mc_free(&c);
    mc_new(&c, "ReverseSequence", 10);
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2, 3)));
    mc_in(&c, MC_I64(1, 3, 1));
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_RANGE);
    mc_free(&c);
}

/* ---- generated results ---- */

VN_TEST(generate, one_hot_out_of_range_by_version) {
    for (int version = 9; version <= 11; version += 2) {
        mc_t c;
        mc_new(&c, "OneHot", version);
        mc_in(&c, MC_I64(1, -1, 7));
        mc_in(&c, mc_scalar(VN_F32, 3)); /* not an integer type: cast */
        vn_tensor_t *values = mc_tensor(VN_I16, MC_DIMS(2));
        vn_tensor_set_i64(values, 0, 5);
        vn_tensor_set_i64(values, 1, 9);
        mc_in(&c, values);
        mc_int(&c, "axis", 0);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        for (int64_t i = 0; i < 9; ++i) {
            const bool on = (i == 3) || (i == 7 && version >= 11); /* [1,0]; -1 counts from the end since opset 11 */
            VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), on ? 9 : 5);
        }
        mc_free(&c);
    }
}

VN_TEST(generate, constants_shapes_and_eyes) {
    mc_t c;
    mc_new(&c, "ConstantOfShape", 9);
    mc_in(&c, MC_I64(2, 3));
    mc_attr(&c, "value", VN_ATTR_TENSOR)->t = mc_scalar(VN_I8, -3);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dtype, VN_I8);
    for (int i = 0; i < 6; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), -3);
    vn_tensor_free(c.attrs[0].t);
    mc_free(&c);
    mc_new(&c, "ConstantOfShape", 9);
    mc_in(&c, MC_I64(1 << 20, 1 << 20, 4));
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_RANGE);
    mc_free(&c);
    static const int64_t sides[] = {2, 3, 5},
                         ends[][4] = {
                             {0, 3, 0, 3}, {-1, 3, 2, 1}, {1, -1, 1, 1}, {-9, 9, 0, 3}, {2, 1, 0, 0}}; /* start, end -> first, count */
    for (int i = 0; i < 5; ++i) {
        mc_new(&c, "Shape", 15);
        mc_in(&c, mc_tensor(VN_U4, MC_DIMS(2, 3, 5)));
        mc_int(&c, "start", ends[i][0]);
        mc_int(&c, "end", ends[i][1]);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT_EQ(t, c.out[0].count, ends[i][3]);
        for (int64_t k = 0; k < ends[i][3]; ++k) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, k), sides[ends[i][2] + k]);
        mc_free(&c);
    }
    for (int64_t k = -4; k <= 5; ++k) {
        mc_new(&c, "EyeLike", 9);
        mc_in(&c, mc_tensor(VN_I32, MC_DIMS(3, 4)));
        mc_int(&c, "k", k);
        mc_int(&c, "dtype", VN_F16);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        for (int64_t i = 0; i < 12; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), i % 4 - i / 4 == k);
        mc_free(&c);
    }
}

VN_TEST(generate, range_counts_exactly) {
    static const struct {
        vn_dtype_t t;
        double start, limit, delta;
        int64_t n; /* -1: by the walk below alone */
    } cases[] = {
        {VN_F32, 0, 10, 1, 10},
        {VN_F32, 5, -5, -2, 5},
        {VN_I32, 10, 4, -2, 3},
        {VN_I64, 3, 3, 1, 0},
        {VN_F32, 1, 0, 1, 0},
        {VN_F32, 0, 16777217.0, 16777216.0, 1}, /* the limit is rounded to 2^24 on the way in */
        {VN_F64, 0, 0.3, 0.1, 3},               /* 3 * 0.1 > 0.3 exactly, though the quotient rounds to 3 */
        {VN_F32, 0, 3.0000002384185791, 1, 4},
        {VN_F32, -1, 2.384185791015625e-07, 1.00000011920929, 2}, /* the quotient 1 + 2^-23 - ... must not be rounded down */
        {VN_F32, 0, 16777216.0, 16777214.0, 2},
        {VN_F32, -7.3, 100.1, 0.37, -1},
        {VN_F64, 3.3, -2.2, -0.011, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        mc_t c;
        mc_new(&c, "Range", 11);
        mc_in(&c, mc_scalar(cases[i].t, cases[i].start));
        mc_in(&c, mc_scalar(cases[i].t, cases[i].limit));
        mc_in(&c, mc_scalar(cases[i].t, cases[i].delta));
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        /* the twin: walk with exact products of small i */
        int64_t n = 0;
        const double start = vn_tensor_get_f64(c.in[0]->tensor, 0), limit = vn_tensor_get_f64(c.in[1]->tensor, 0),
                     delta = vn_tensor_get_f64(c.in[2]->tensor, 0);
        while (delta > 0 ? __builtin_fma((double)n, delta, start - limit) < 0 : __builtin_fma((double)n, delta, start - limit) > 0) ++n;
        VN_ASSERT_EQ(t, c.out[0].count, n);
        if (cases[i].n >= 0) VN_ASSERT_EQ(t, n, cases[i].n);
        for (int64_t k = 0; k < n; ++k) {
            const double y = __builtin_fma((double)k, delta, start);
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, k), cases[i].t == VN_F32 ? (double)(float)y : y);
        }
        mc_free(&c);
    }
    mc_t r;
    mc_new(&r, "Range", 11); /* limit - start is 1 + 2^-25: two elements, one after rounding to f32 */
    mc_in(&r, mc_scalar(VN_F32, -1));
    mc_in(&r, mc_scalar(VN_F32, 0x1p-25));
    mc_in(&r, mc_scalar(VN_F32, 1));
    VN_ASSERT_OK_ERR(t, mc_run(&r), r.err);
    VN_ASSERT_EQ(t, r.out[0].count, 2);
    VN_ASSERT_EQ(t, r.out[0].n_readings, 1);
    VN_ASSERT_EQ(t, r.out[0].readings[0].value->count, 1);
    mc_free(&r);
    static const double bad[][3] = {{0, 1, 0}, {0, 1e30, 1e-30}, {0, 1e18, 1}, {0.0 / 0.0, 1, 1}};
    for (int i = 0; i < 4; ++i) {
        mc_t c;
        mc_new(&c, "Range", 11);
        for (int k = 0; k < 3; ++k) mc_in(&c, mc_scalar(VN_F32, bad[i][k]));
        VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_RANGE);
        mc_free(&c);
    }
}

/* MOVE-9: true for the three usual loops in f32, tight (exact steps demand equality), sharp (a step of u/4 more leaves it). */
VN_TEST(generate, range_bound_true_tight_sharp) {
    const float start = 0.1f, delta = 0.3f, limit = 900;
    mc_t c;
    mc_new(&c, "Range", 11);
    mc_in(&c, mc_scalar(VN_F32, (double)start));
    mc_in(&c, mc_scalar(VN_F32, (double)limit));
    mc_in(&c, mc_scalar(VN_F32, (double)delta));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    const vn_ref_t *r = &c.out[0];
    float sum = start;
    const float second = start + delta, step = second - start;
    int caught = 0;
    for (int64_t i = 0; i < r->count; ++i) {
        const float product = (float)i * delta, y = start + product, fused = __builtin_fmaf((float)i, delta, start);
        VN_ASSERT_LE(t, __builtin_fabs((double)y - r->value[i]), r->bound[i]);
        VN_ASSERT_LE(t, __builtin_fabs((double)fused - r->value[i]), r->bound[i]);
        VN_ASSERT_LE(t, __builtin_fabs((double)sum - r->value[i]), r->wide[i]);
        const float again = start + (float)i * step;
        VN_ASSERT_LE(t, __builtin_fabs((double)again - r->value[i]), r->wide[i]);
        caught += __builtin_fabs((double)(start + (float)i * (delta * (1 + 4 * 0x1p-24f))) - r->value[i]) > r->bound[i];
        sum += delta;
    }
    VN_ASSERT(t, caught > r->count / 2);
    mc_free(&c);
    mc_new(&c, "Range", 11);
    for (int k = 0; k < 3; ++k) mc_in(&c, mc_scalar(VN_F32, (double[]){-3, 100, 0.5}[k]));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    for (int64_t i = 0; i < c.out[0].count; ++i) VN_ASSERT_DEQ(t, c.out[0].bound[i], 0);
    mc_free(&c);
}

/* ---- NonZero, Unique ---- */

VN_TEST(unique, non_zero) {
    mc_t c;
    mc_new(&c, "NonZero", 13);
    mc_in(&c, mc_f32(MC_DIMS(2, 3), (double[]){1, 0, -0.0, 0, __builtin_nan(""), 2}));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    static const int64_t want[] = {0, 1, 1, 0, 1, 2};
    VN_ASSERT_EQ(t, c.out[0].dims[0], 2);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 3);
    for (int i = 0; i < 6; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), want[i]);
    mc_free(&c);
    mc_new(&c, "NonZero", 13);
    mc_in(&c, mc_scalar(VN_I32, 4));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dims[0], 0);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 1);
    mc_free(&c);
}

/* Against a quadratic twin on small integers. */
VN_TEST(unique, is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 100 * vn_test_scale(t); ++n) {
        const int64_t count = (int64_t)vn_rng_below(&rng, 20);
        mc_t c;
        mc_new(&c, "Unique", 11);
        vn_tensor_t *x = mc_tensor(VN_I8, 1, &count);
        for (int64_t i = 0; i < count; ++i) vn_tensor_set_i64(x, i, (int64_t)vn_rng_below(&rng, 6) - 3);
        mc_in(&c, x);
        mc_int(&c, "sorted", n % 2);
        c.node.n_outputs = 4;
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        const vn_tensor_t *y = c.out[0].tensor, *first = c.out[1].tensor, *inverse = c.out[2].tensor, *counts = c.out[3].tensor;
        int64_t total = 0;
        for (int64_t i = 0; i < count; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(y, vn_tensor_get_i64(inverse, i)), vn_tensor_get_i64(x, i));
        for (int64_t k = 0; k < y->count; ++k) {
            int64_t seen = 0;
            for (int64_t i = count - 1; i >= 0; --i)
                if (vn_tensor_get_i64(x, i) == vn_tensor_get_i64(y, k)) {
                    ++seen;
                    total = i; /* ends at the first one */
                }
            VN_ASSERT_EQ(t, vn_tensor_get_i64(counts, k), seen);
            VN_ASSERT_EQ(t, vn_tensor_get_i64(first, k), total);
            const vn_tensor_t *order = n % 2 ? y : first; /* ascending values, or order of appearance */
            if (k) VN_ASSERT(t, vn_tensor_get_i64(order, k - 1) < vn_tensor_get_i64(order, k));
        }
        mc_free(&c);
    }
}

VN_TEST(unique, rows_strings_and_nan) {
    mc_t c;
    mc_new(&c, "Unique", 11);
    mc_in(&c, mc_f32(MC_DIMS(3, 2), (double[]){2, 1, 0, 1, 2, 1}));
    mc_int(&c, "axis", 0);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dims[0], 2);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 0), 0);
    mc_free(&c);
    mc_new(&c, "Unique", 11);
    vn_tensor_t *s = mc_tensor(VN_STRING, MC_DIMS(3));
    VN_ASSERT_OK(t, vn_tensor_set_string(s, 0, "b", 1, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(s, 1, "ab", 2, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(s, 2, "b", 1, NULL));
    mc_in(&c, s);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].count, 2);
    VN_ASSERT_STR(t, ((vn_string_t *)c.out[0].tensor->data)[0].text, "ab");
    mc_free(&c);
    mc_new(&c, "Unique", 11);
    mc_in(&c, mc_f32(MC_DIMS(4), (double[]){__builtin_nan(""), 1, __builtin_nan(""), -0.0}));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].count, 3);
    VN_ASSERT_EQ(t, c.out[0].n_readings, 1);
    VN_ASSERT_EQ(t, c.out[0].readings[0].value->count, 4);
    mc_free(&c);
}

/* ---- sequences ---- */

VN_TEST(sequence, insert_erase_at) {
    mc_t c, d;
    mc_new(&c, "SequenceConstruct", 11);
    for (int k = 0; k < 3; ++k) mc_in(&c, mc_scalar(VN_F32, k));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    vn_value_t *seq = c.out[0].nested;
    VN_ASSERT_EQ(t, seq->count, 3);
    static const int64_t places[] = {-3, -1, 0, 3};
    static const double want[4][4] = {{9, 0, 1, 2}, {0, 1, 9, 2}, {9, 0, 1, 2}, {0, 1, 2, 9}};
    for (int i = 0; i < 4; ++i) {
        mc_new(&d, "SequenceInsert", 11);
        mc_in_value(&d, vn_value_retain(seq));
        mc_in(&d, mc_scalar(VN_F32, 9));
        mc_in(&d, mc_scalar(VN_I64, (double)places[i]));
        VN_ASSERT_OK_ERR(t, mc_run(&d), d.err);
        for (int k = 0; k < 4; ++k) VN_ASSERT_DEQ(t, vn_tensor_get_f64(d.out[0].nested->items[k]->tensor, 0), want[i][k]);
        mc_free(&d);
    }
    mc_new(&d, "SequenceErase", 11); /* the last one by default */
    mc_in_value(&d, vn_value_retain(seq));
    VN_ASSERT_OK_ERR(t, mc_run(&d), d.err);
    VN_ASSERT_EQ(t, d.out[0].nested->count, 2);
    mc_free(&d);
    mc_new(&d, "SequenceAt", 11);
    mc_in_value(&d, vn_value_retain(seq));
    mc_in(&d, mc_scalar(VN_I64, 3));
    VN_ASSERT_EQ(t, mc_run(&d), VN_ERR_RANGE);
    mc_free(&d);
    mc_new(&d, "SequenceInsert", 11);
    mc_in_value(&d, vn_value_retain(seq));
    mc_in(&d, mc_scalar(VN_F64, 9));
    VN_ASSERT_EQ(t, mc_run(&d), VN_ERR_DTYPE);
    mc_free(&d);
    mc_new(&d, "ConcatFromSequence", 11);
    mc_in_value(&d, vn_value_retain(seq));
    mc_int(&d, "axis", 0);
    mc_int(&d, "new_axis", 1);
    VN_ASSERT_OK_ERR(t, mc_run(&d), d.err);
    VN_ASSERT_EQ(t, d.out[0].dims[0], 3);
    mc_free(&d);
    mc_free(&c);
}

VN_TEST(sequence, split_and_join_is_identity) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 60; ++n) {
        mc_t s, c;
        mc_new(&s, "SplitToSequence", 11);
        mc_in(&s, mc_random(&rng, mc_types[n % MC_TYPES], MC_DIMS(2, 5, 3)));
        const int mode = n % 3; /* a scalar size, sizes, none */
        if (mode == 0) mc_in(&s, mc_scalar(VN_I64, 2));
        if (mode == 1) mc_in(&s, MC_I64(1, 0, 4));
        mc_int(&s, "axis", 1);
        mc_int(&s, "keepdims", 0);
        VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
        VN_ASSERT_EQ(t, s.out[0].nested->count, mode == 2 ? 5 : 3);
        VN_ASSERT_EQ(t, s.out[0].nested->items[0]->tensor->rank, mode == 2 ? 2 : 3);
        mc_new(&c, "ConcatFromSequence", 11);
        mc_in_value(&c, vn_value_retain(s.out[0].nested));
        mc_int(&c, "axis", 1);
        mc_int(&c, "new_axis", mode == 2);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT(t, vn_tensor_equal_bits(c.out[0].tensor, s.in[0]->tensor));
        mc_free(&s);
        mc_free(&c);
    }
}

VN_TEST(sequence, optionals) {
    mc_t c, d;
    mc_new(&c, "Optional", 15);
    mc_in(&c, mc_scalar(VN_F32, 5));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    mc_new(&d, "OptionalGetElement", 18);
    mc_in_value(&d, vn_value_retain(c.out[0].nested));
    VN_ASSERT_OK_ERR(t, mc_run(&d), d.err);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(d.out[0].tensor, 0), 5);
    mc_free(&d);
    mc_free(&c);
    vn_type_t tensor = {.kind = VN_TYPE_TENSOR, .dtype = VN_F32};
    mc_new(&c, "Optional", 15);
    mc_attr(&c, "type", VN_ATTR_TYPE)->types = &tensor;
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    mc_new(&d, "OptionalHasElement", 18);
    mc_in_value(&d, vn_value_retain(c.out[0].nested));
    VN_ASSERT_OK_ERR(t, mc_run(&d), d.err);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(d.out[0].tensor, 0), 0);
    mc_free(&d);
    mc_new(&d, "OptionalGetElement", 18);
    mc_in_value(&d, vn_value_retain(c.out[0].nested));
    VN_ASSERT_EQ(t, mc_run(&d), VN_ERR_RANGE);
    mc_free(&d);
    mc_free(&c);
}

VN_TEST_MAIN(VN_CASE(gather, along_an_axis_is_its_twin), VN_CASE(gather, elements_is_its_twin), VN_CASE(gather, nd_is_its_twin),
             VN_CASE(gather, index_out_of_range_is_void), VN_CASE(gather, compress_and_reverse),
             VN_CASE(generate, one_hot_out_of_range_by_version), VN_CASE(generate, constants_shapes_and_eyes),
             VN_CASE(generate, range_counts_exactly), VN_CASE(generate, range_bound_true_tight_sharp), VN_CASE(unique, non_zero),
             VN_CASE(unique, is_its_twin), VN_CASE(unique, rows_strings_and_nan), VN_CASE(sequence, insert_erase_at),
             VN_CASE(sequence, split_and_join_is_identity), VN_CASE(sequence, optionals))
