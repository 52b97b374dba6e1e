/* MOVE-1 .. MOVE-5: movement against a slow twin that computes every place by division; identities; hostile operands. */
#include "move_case.h"

/* ---- twins: for every element of the result, the element of operand 0 it must be (or -1: fill) ---- */

typedef int64_t (*twin_fn)(const void *ctx, const vn_tensor_t *from, const int64_t *c);

static void check_twin(vn_test_t *t, const mc_t *c, twin_fn twin, const void *ctx) {
    const vn_tensor_t *out = c->out[0].tensor, *from = c->in[0]->tensor;
    int64_t at[VN_MAX_RANK] = {0};
    VN_ASSERT(t, out && out->dtype == from->dtype);
    for (int64_t i = 0; i < out->count; ++i) {
        mc_coords(out, i, at);
        const int64_t j = twin(ctx, from, at);
        if (!mc_same(out, i, from, j))
            vn_test_fail(t, __FILE__, __LINE__, "%s of %s: element %lld is not element %lld of the operand", c->node.op,
                         vn_dtype_name(from->dtype), (long long)i, (long long)j);
    }
}

static int64_t transposed(const void *ctx, const vn_tensor_t *from, const int64_t *c) {
    const int64_t *perm = ctx;
    int64_t at[VN_MAX_RANK] = {0};
    for (int k = 0; k < from->rank; ++k) at[perm[k]] = c[k];
    return mc_flat(from, at);
}

VN_TEST(movement, transpose_is_its_twin_and_its_own_inverse) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 200 * vn_test_scale(t); ++n) {
        int64_t dims[5], perm[5], back[5];
        const int rank = mc_random_dims(&rng, 5, n % 10 ? 6 : 40, dims);
        for (int k = 0; k < rank; ++k) perm[k] = k;
        for (int k = rank - 1; k > 0; --k) {
            const int j = (int)vn_rng_below(&rng, (uint64_t)k + 1);
            const int64_t swap = perm[k];
            perm[k] = perm[j];
            perm[j] = swap;
        }
        for (int k = 0; k < rank; ++k) back[perm[k]] = k;
        if (rank > 4) dims[0] = 2;
        mc_t a, b;
        mc_new(&a, "Transpose", 13);
        mc_in(&a, mc_random(&rng, mc_types[n % MC_TYPES], rank, dims));
        mc_ints(&a, "perm", rank, perm);
        VN_ASSERT_OK_ERR(t, mc_run(&a), a.err);
        check_twin(t, &a, transposed, perm);
        mc_new(&b, "Transpose", 25);
        mc_in(&b, vn_tensor_retain(a.out[0].tensor));
        mc_ints(&b, "perm", rank, back);
        VN_ASSERT_OK_ERR(t, mc_run(&b), b.err);
        VN_ASSERT(t, vn_tensor_equal_bits(b.out[0].tensor, a.in[0]->tensor));
        mc_free(&a);
        mc_free(&b);
    }
}

/* Large enough for blocks and threads, odd sizes at the borders. */
VN_TEST(movement, transpose_in_blocks) {
    static const int64_t shapes[][3] = {{1, 257, 320}, {3, 96, 131}, {2, 64, 64}, {1, 1024, 33}},
                         perms[][3] = {{2, 1, 0}, {0, 2, 1}, {2, 0, 1}};
    static const vn_dtype_t types[] = {VN_U8, VN_F16, VN_F32, VN_F64, VN_C128};
    vn_rng_t rng = vn_test_rng(t);
    for (int s = 0; s < 4; ++s)
        for (int p = 0; p < 3; ++p) {
            mc_t c;
            mc_new(&c, "Transpose", 13);
            mc_in(&c, mc_random(&rng, types[(s + p) % 5], 3, shapes[s]));
            mc_ints(&c, "perm", 3, perms[p]);
            VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
            check_twin(t, &c, transposed, perms[p]);
            mc_free(&c);
        }
}

typedef struct cut {
    int64_t start[5], step[5];
} cut_t;

static int64_t sliced(const void *ctx, const vn_tensor_t *from, const int64_t *c) {
    const cut_t *cut = ctx;
    int64_t at[VN_MAX_RANK] = {0};
    for (int k = 0; k < from->rank; ++k) at[k] = cut->start[k] + c[k] * cut->step[k];
    return mc_flat(from, at);
}

/* The standard's rule for one axis, by walking: which entries are taken. */
static int64_t walk(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *first) {
    int64_t n = 0;
    *first = 0;
    if (dim == 0) return 0;
    if (start < 0) start += dim;
    if (end < 0) end += dim;
    if (step > 0) {
        start = start < 0 ? 0 : start > dim ? dim : start;
        end = end < 0 ? 0 : end > dim ? dim : end;
        for (int64_t i = start; i < end; i += step) ++n;
    } else {
        start = start < 0 ? 0 : start > dim - 1 ? dim - 1 : start;
        end = end < -1 ? -1 : end > dim - 1 ? dim - 1 : end;
        for (int64_t i = start; i > end; i += step) ++n;
    }
    *first = n ? start : 0;
    return n;
}

VN_TEST(movement, slice_is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 400 * vn_test_scale(t); ++n) {
        int64_t dims[4], starts[4], ends[4], steps[4], axes[4], want[4];
        const int rank = mc_random_dims(&rng, 4, 6, dims);
        cut_t cut = {{0}, {0}};
        for (int k = 0; k < rank; ++k) {
            starts[k] = (int64_t)vn_rng_below(&rng, 20) - 10;
            ends[k] = (int64_t)vn_rng_below(&rng, 20) - 10;
            steps[k] = (int64_t)vn_rng_below(&rng, 3) + 1;
            if (vn_rng_below(&rng, 2)) steps[k] = -steps[k];
            if (vn_rng_below(&rng, 8) == 0) ends[k] = vn_rng_below(&rng, 2) ? INT64_MAX : INT64_MIN;
            axes[k] = vn_rng_below(&rng, 2) ? k : k - rank;
            want[k] = walk(dims[k], starts[k], ends[k] == INT64_MIN ? -100 : ends[k] == INT64_MAX ? 100 : ends[k], steps[k], &cut.start[k]);
            cut.step[k] = steps[k];
        }
        mc_t c;
        mc_new(&c, "Slice", 13);
        mc_in(&c, mc_random(&rng, mc_types[n % MC_TYPES], rank, dims));
        mc_in(&c, mc_i64(rank, starts));
        mc_in(&c, mc_i64(rank, ends));
        mc_in(&c, mc_i64(rank, axes));
        mc_in(&c, mc_i64(rank, steps));
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        for (int k = 0; k < rank; ++k) VN_ASSERT_EQ(t, c.out[0].dims[k], want[k]);
        check_twin(t, &c, sliced, &cut);
        mc_free(&c);
    }
}

VN_TEST(movement, slice_by_attributes_before_opset_10) {
    static const int64_t starts[] = {1, 0}, ends[] = {-1, 1000};
    mc_t c;
    mc_new(&c, "Slice", 9);
    mc_in(&c, mc_f32(MC_DIMS(3, 2), (double[]){1, 2, 3, 4, 5, 6}));
    mc_ints(&c, "starts", 2, starts);
    mc_ints(&c, "ends", 2, ends);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].dims[0], 1);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 1), 4.0);
    mc_free(&c);
}

typedef struct pad {
    int64_t begin[4], end[4];
    const char *mode;
} pad_t;

/* Place in an axis by stepping outwards from the operand, one entry at a time. */
static int64_t pad_place(const char *mode, int64_t i, int64_t first, int64_t n) {
    if (i >= first && i < first + n) return i;
    if (!strcmp(mode, "constant")) return -1;
    if (!strcmp(mode, "edge")) return i < first ? first : first + n - 1;
    if (!strcmp(mode, "wrap")) {
        while (i < first) i += n;
        while (i >= first + n) i -= n;
        return i;
    }
    if (n == 1) return first;
    while (i < first || i >= first + n) i = i < first ? 2 * first - i : 2 * (first + n - 1) - i; /* mirror until inside */
    return i;
}

static int64_t padded(const void *ctx, const vn_tensor_t *from, const int64_t *c) {
    const pad_t *p = ctx;
    int64_t at[VN_MAX_RANK] = {0};
    for (int k = 0; k < from->rank; ++k) {
        const int64_t first = p->begin[k] < 0 ? -p->begin[k] : 0, n = from->dims[k] - first - (p->end[k] < 0 ? -p->end[k] : 0);
        at[k] = pad_place(p->mode, c[k] - p->begin[k], first, n);
        if (at[k] < 0) return -1;
    }
    return mc_flat(from, at);
}

VN_TEST(movement, pad_is_its_twin) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 300 * vn_test_scale(t); ++n) {
        int64_t dims[3] = {1, 1, 1}, pads[6], axes[3];
        const int rank = 1 + (int)vn_rng_below(&rng, 3);
        pad_t p = {.mode = modes[n % 4]};
        for (int k = 0; k < rank; ++k) {
            dims[k] = 1 + (int64_t)vn_rng_below(&rng, 5);
            p.begin[k] = (int64_t)vn_rng_below(&rng, 9) - 1;
            p.end[k] = (int64_t)vn_rng_below(&rng, 9) - 1;
            if (dims[k] < 3) p.begin[k] = p.begin[k] < 0 ? 0 : p.begin[k], p.end[k] = p.end[k] < 0 ? 0 : p.end[k];
            axes[k] = k - rank;
            pads[k] = p.begin[k];
            pads[rank + k] = p.end[k];
        }
        mc_t c;
        mc_new(&c, "Pad", 25);
        mc_in(&c, mc_random(&rng, mc_types[n / 4 % MC_TYPES], rank, dims));
        mc_in(&c, mc_i64(2 * rank, pads));
        mc_in(&c, NULL);
        mc_in(&c, mc_i64(rank, axes));
        mc_string(&c, "mode", p.mode);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        check_twin(t, &c, padded, &p);
        mc_free(&c);
    }
}

VN_TEST(movement, pad_constants) {
    static const int64_t pads[] = {1, 0};
    mc_t c;
    mc_new(&c, "Pad", 10); /* attributes */
    mc_in(&c, mc_f32(MC_DIMS(2), (double[]){1, 2}));
    mc_ints(&c, "pads", 2, pads);
    mc_float(&c, "value", 7.5f);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 0), 7.5);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 2), 2.0);
    mc_free(&c);
    mc_new(&c, "Pad", 11);
    vn_tensor_t *s = mc_tensor(VN_STRING, MC_DIMS(1)), *fill = mc_tensor(VN_STRING, 0, NULL);
    VN_ASSERT_OK(t, vn_tensor_set_string(s, 0, "x", 1, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(fill, 0, "fill", 4, NULL));
    mc_in(&c, s);
    mc_in(&c, MC_I64(0, 2));
    mc_in(&c, fill);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_STR(t, ((vn_string_t *)c.out[0].tensor->data)[2].text, "fill");
    mc_free(&c);
}

static int64_t repeated(const void *ctx, const vn_tensor_t *from, const int64_t *c) {
    (void)ctx;
    int64_t at[VN_MAX_RANK] = {0};
    for (int k = 0; k < from->rank; ++k) at[k] = c[k] % from->dims[k];
    return mc_flat(from, at);
}

VN_TEST(movement, tile_and_expand_are_their_twins) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 100 * vn_test_scale(t); ++n) {
        int64_t dims[4], repeats[4], wide[4];
        const int rank = mc_random_dims(&rng, 4, 3, dims);
        mc_t c;
        mc_new(&c, "Tile", 13);
        for (int k = 0; k < rank; ++k) repeats[k] = (int64_t)vn_rng_below(&rng, 4);
        mc_in(&c, mc_random(&rng, mc_types[n % MC_TYPES], rank, dims));
        mc_in(&c, mc_i64(rank, repeats));
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        check_twin(t, &c, repeated, NULL);
        mc_free(&c);
        for (int k = 0; k < rank; ++k) wide[k] = dims[k] == 1 ? (int64_t)vn_rng_below(&rng, 4) : vn_rng_below(&rng, 2) ? dims[k] : 1;
        mc_new(&c, "Expand", 13);
        mc_in(&c, mc_random(&rng, mc_types[n % MC_TYPES], rank, dims));
        mc_in(&c, mc_i64(rank, wide));
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        for (int k = 0; k < rank; ++k) VN_ASSERT_EQ(t, c.out[0].dims[k], dims[k] == 1 ? wide[k] : dims[k]);
        check_twin(t, &c, repeated, NULL);
        mc_free(&c);
    }
}

VN_TEST(movement, split_then_concat_is_identity) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 120 * vn_test_scale(t); ++n) {
        int64_t dims[4] = {3, 3, 3, 3}, sizes[3];
        const int rank = 1 + (int)vn_rng_below(&rng, 4), axis = (int)vn_rng_below(&rng, (uint64_t)rank);
        dims[axis] = (int64_t)vn_rng_below(&rng, 9);
        sizes[0] = (int64_t)vn_rng_below(&rng, (uint64_t)dims[axis] + 1);
        sizes[1] = (int64_t)vn_rng_below(&rng, (uint64_t)(dims[axis] - sizes[0]) + 1);
        sizes[2] = dims[axis] - sizes[0] - sizes[1];
        mc_t s, c;
        mc_new(&s, "Split", 18);
        mc_in(&s, mc_random(&rng, mc_types[n % MC_TYPES], rank, dims));
        mc_in(&s, mc_i64(3, sizes));
        mc_int(&s, "axis", axis - rank);
        s.node.n_outputs = 3;
        VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
        mc_new(&c, "Concat", 13);
        for (int k = 0; k < 3; ++k) {
            VN_ASSERT_EQ(t, s.out[k].dims[axis], sizes[k]);
            mc_in(&c, vn_tensor_retain(s.out[k].tensor));
        }
        mc_int(&c, "axis", axis);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT(t, vn_tensor_equal_bits(c.out[0].tensor, s.in[0]->tensor));
        mc_free(&s);
        mc_free(&c);
    }
}

/* MOVE-2: equal parts, the last smaller since opset 18. */
VN_TEST(movement, split_into_parts) {
    static const struct {
        int64_t version, dim;
        int parts;
        int64_t want[4];
    } cases[] = {
        {18, 7, 3, {3, 3, 1, 0}}, {18, 8, 4, {2, 2, 2, 2}}, {18, 2, 4, {1, 1, 0, 0}}, {13, 6, 3, {2, 2, 2, 0}}, {11, 4, 2, {2, 2, 0, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        mc_t c;
        mc_new(&c, "Split", cases[i].version);
        mc_in(&c, mc_tensor(VN_F32, 1, &cases[i].dim));
        if (cases[i].version >= 18) mc_int(&c, "num_outputs", cases[i].parts);
        c.node.n_outputs = cases[i].parts;
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        for (int k = 0; k < cases[i].parts; ++k) VN_ASSERT_EQ(t, c.out[k].dims[0], cases[i].want[k]);
        mc_free(&c);
    }
}

VN_TEST(movement, reshape_rules) {
    static const struct {
        int64_t shape[4];
        int n, rank;
        int64_t zero, want[4];
        vn_status_t status;
    } cases[] = {
        {{4, 6}, 2, 2, 0, {4, 6}, VN_OK},
        {{-1, 6}, 2, 2, 0, {4, 6}, VN_OK},
        {{0, -1}, 2, 2, 0, {2, 12}, VN_OK},
        {{0, 0, 0}, 3, 3, 0, {2, 3, 4}, VN_OK},
        {{24}, 1, 1, 0, {24}, VN_OK},
        {{-1, -1}, 2, 0, 0, {0}, VN_ERR_SHAPE},
        {{5, -1}, 2, 0, 0, {0}, VN_ERR_SHAPE},
        {{0, 0, 0, 0}, 4, 0, 0, {0}, VN_ERR_SHAPE},
        {{0, -1}, 2, 0, 1, {0}, VN_ERR_SHAPE},
        {{23}, 1, 0, 0, {0}, VN_ERR_SHAPE},
        {{INT64_MAX, 4}, 2, 0, 0, {0}, VN_ERR_RANGE},
        {{-2, 12}, 2, 0, 0, {0}, VN_ERR_SHAPE},
        {{-1, 1, 24}, 3, 3, 0, {1, 1, 24}, VN_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        mc_t c;
        mc_new(&c, "Reshape", 14);
        mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2, 3, 4)));
        mc_in(&c, mc_i64(cases[i].n, cases[i].shape));
        mc_int(&c, "allowzero", cases[i].zero);
        VN_ASSERT_EQ(t, mc_run(&c), cases[i].status);
        if (cases[i].status == VN_OK) {
            VN_ASSERT_EQ(t, c.out[0].rank, cases[i].rank);
            for (int k = 0; k < cases[i].rank; ++k) VN_ASSERT_EQ(t, c.out[0].dims[k], cases[i].want[k]);
            VN_ASSERT(t, c.out[0].tensor->data == c.in[0]->tensor->data); /* shared, not copied */
        } else {
            VN_ASSERT_HAS(t, c.err.text, "node");
        }
        mc_free(&c);
    }
}

VN_TEST(movement, squeeze_unsqueeze_flatten) {
    static const int64_t axes9[] = {0, 2};
    mc_t c;
    mc_new(&c, "Squeeze", 11); /* attribute */
    mc_in(&c, mc_tensor(VN_I4, MC_DIMS(1, 3, 1)));
    mc_ints(&c, "axes", 2, axes9);
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].rank, 1);
    mc_free(&c);
    mc_new(&c, "Squeeze", 13); /* no axes: all ones */
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(1, 1)));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].rank, 0);
    mc_free(&c);
    mc_new(&c, "Squeeze", 13);
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(1, 3)));
    mc_in(&c, MC_I64(1));
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_SHAPE);
    mc_free(&c);
    mc_new(&c, "Unsqueeze", 13);
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(5)));
    mc_in(&c, MC_I64(-1, 0));
    VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
    VN_ASSERT_EQ(t, c.out[0].rank, 3);
    VN_ASSERT_EQ(t, c.out[0].dims[1], 5);
    mc_free(&c);
    mc_new(&c, "Unsqueeze", 13);
    mc_in(&c, mc_tensor(VN_F32, MC_DIMS(5)));
    mc_in(&c, MC_I64(0, -3)); /* the same axis twice */
    VN_ASSERT_EQ(t, mc_run(&c), VN_ERR_SHAPE);
    mc_free(&c);
    static const int64_t flat[][3] = {{0, 1, 24}, {1, 2, 12}, {3, 24, 1}, {-1, 6, 4}, {-3, 1, 24}};
    for (int i = 0; i < 5; ++i) {
        mc_new(&c, "Flatten", 13);
        mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2, 3, 4)));
        mc_int(&c, "axis", flat[i][0]);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        VN_ASSERT_EQ(t, c.out[0].dims[0], flat[i][1]);
        VN_ASSERT_EQ(t, c.out[0].dims[1], flat[i][2]);
        mc_free(&c);
    }
}

/* MOVE-4, by the standard's reshape-transpose-reshape, and back. */
VN_TEST(movement, blocks_there_and_back) {
    vn_rng_t rng = vn_test_rng(t);
    for (int mode = 0; mode < 2; ++mode)
        for (int n = 0; n < MC_TYPES; ++n) {
            const int64_t b = 2, cc = 3, h = 2, w = 3;
            mc_t d, s;
            mc_new(&d, "DepthToSpace", 13);
            mc_in(&d, mc_random(&rng, mc_types[n], MC_DIMS(2, cc * b * b, h, w)));
            mc_int(&d, "blocksize", b);
            mc_string(&d, "mode", mode ? "CRD" : "DCR");
            VN_ASSERT_OK_ERR(t, mc_run(&d), d.err);
            const vn_tensor_t *out = d.out[0].tensor;
            for (int64_t i = 0; i < out->count; ++i) {
                int64_t c[4], from[4];
                mc_coords(out, i, c);
                const int64_t row = c[2] % b, column = c[3] % b;
                from[0] = c[0];
                from[1] = mode ? (c[1] * b + row) * b + column : (row * b + column) * cc + c[1];
                from[2] = c[2] / b;
                from[3] = c[3] / b;
                VN_ASSERT(t, mc_same(out, i, d.in[0]->tensor, mc_flat(d.in[0]->tensor, from)));
            }
            mc_new(&s, "SpaceToDepth", 28);
            mc_in(&s, vn_tensor_retain(d.out[0].tensor));
            mc_int(&s, "blocksize", b);
            mc_string(&s, "mode", mode ? "CRD" : "DCR");
            VN_ASSERT_OK_ERR(t, mc_run(&s), s.err);
            VN_ASSERT(t, vn_tensor_equal_bits(s.out[0].tensor, d.in[0]->tensor));
            mc_free(&d);
            mc_free(&s);
        }
}

static int64_t triangle(const void *ctx, const vn_tensor_t *from, const int64_t *c) {
    const int64_t *k = ctx, d = c[from->rank - 1] - c[from->rank - 2]; /* k[0]: diagonal, k[1]: upper */
    return (k[1] ? d >= k[0] : d <= k[0]) ? mc_flat(from, c) : -1;
}

VN_TEST(movement, trilu_is_its_twin) {
    vn_rng_t rng = vn_test_rng(t);
    for (int n = 0; n < 80; ++n) {
        int64_t dims[3] = {2, (int64_t)vn_rng_below(&rng, 5), (int64_t)vn_rng_below(&rng, 5)},
                k[2] = {(int64_t)vn_rng_below(&rng, 13) - 6, n % 2};
        if (n == 40) k[0] = INT64_MAX;
        if (n == 41) k[0] = INT64_MIN;
        mc_t c;
        mc_new(&c, "Trilu", 14);
        mc_in(&c, mc_random(&rng, mc_types[n % MC_TYPES], 3, dims));
        vn_tensor_t *diagonal = mc_tensor(VN_I64, 0, NULL);
        vn_tensor_set_i64(diagonal, 0, k[0]);
        mc_in(&c, diagonal);
        mc_int(&c, "upper", k[1]);
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        check_twin(t, &c, triangle, k);
        mc_free(&c);
    }
}

VN_TEST(movement, center_crop_pad) {
    static const struct {
        int64_t dim, want, first; /* first: entry of the operand at place 0 of the result (negative: padding in front) */
    } cases[] = {{7, 4, 1}, {4, 7, -1}, {5, 5, 0}, {6, 3, 1}, {3, 6, -1}, {2, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        mc_t c;
        mc_new(&c, "CenterCropPad", 18);
        vn_tensor_t *x = mc_tensor(VN_I32, 1, &cases[i].dim);
        for (int64_t k = 0; k < x->count; ++k) vn_tensor_set_i64(x, k, k + 1);
        mc_in(&c, x);
        mc_in(&c, MC_I64(cases[i].want));
        VN_ASSERT_OK_ERR(t, mc_run(&c), c.err);
        for (int64_t k = 0; k < cases[i].want; ++k) {
            const int64_t at = cases[i].first + k;
            VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, k), at >= 0 && at < cases[i].dim ? at + 1 : 0);
        }
        mc_free(&c);
    }
}

static void refuse(vn_test_t *t, const char *op, int64_t version, vn_tensor_t *a, vn_tensor_t *b, vn_status_t status) {
    mc_t c;
    mc_new(&c, op, version);
    mc_in(&c, a);
    mc_in(&c, b);
    const vn_status_t got = mc_run(&c);
    if (got != status)
        vn_test_fail(t, __FILE__, __LINE__, "%s: %s instead of %s (%s)", op, vn_status_name(got), vn_status_name(status), c.err.text);
    VN_ASSERT_HAS(t, c.err.text, op);
    VN_ASSERT(t, c.out[0].tensor == NULL);
    mc_free(&c);
}

VN_TEST(movement, hostile_operands_are_refused) {
    refuse(t, "Expand", 13, mc_tensor(VN_F32, MC_DIMS(1)), MC_I64(INT64_MAX / 2), VN_ERR_RANGE);
    refuse(t, "Expand", 13, mc_tensor(VN_F32, MC_DIMS(1)), MC_I64(1 << 30, 1 << 30), VN_ERR_RANGE);
    refuse(t, "Expand", 13, mc_tensor(VN_F32, MC_DIMS(1)), MC_I64(-1), VN_ERR_SHAPE);
    refuse(t, "Tile", 13, mc_tensor(VN_U8, MC_DIMS(4)), MC_I64((INT64_C(1) << 40) + 1), VN_ERR_RANGE);
    refuse(t, "Tile", 13, mc_tensor(VN_U8, MC_DIMS(4)), MC_I64(-1), VN_ERR_RANGE);
    refuse(t, "Pad", 13, mc_tensor(VN_U8, MC_DIMS(4)), MC_I64(INT64_MIN, INT64_MAX), VN_ERR_RANGE);
    refuse(t, "Pad", 13, mc_tensor(VN_U8, MC_DIMS(4)), MC_I64(INT64_MAX, INT64_MAX), VN_ERR_RANGE);
    refuse(t, "Pad", 13, mc_tensor(VN_U8, MC_DIMS(4)), MC_I64(1, 1, 1), VN_ERR_SHAPE);
    refuse(t, "Reshape", 13, mc_tensor(VN_U8, MC_DIMS(4)), mc_tensor(VN_I64, MC_DIMS(2, 2)), VN_ERR_SHAPE);
    refuse(t, "Unsqueeze", 13, mc_tensor(VN_U8, MC_DIMS(4)), mc_tensor(VN_I64, MC_DIMS(16)), VN_ERR_RANGE);
    refuse(t, "Gather", 13, mc_tensor(VN_U8, MC_DIMS(4)), mc_tensor(VN_F32, MC_DIMS(1)), VN_ERR_DTYPE);
    refuse(t, "Gather", 13, mc_tensor(VN_U8, MC_DIMS(0)), MC_I64(0), VN_ERR_RANGE);
    refuse(t, "Slice", 13, mc_tensor(VN_U8, MC_DIMS(4)), MC_I64(0), VN_ERR_SHAPE);
    refuse(t, "CenterCropPad", 18, mc_tensor(VN_U8, MC_DIMS(4)), MC_I64(-3), VN_ERR_RANGE);
    refuse(t, "Concat", 13, mc_tensor(VN_U8, MC_DIMS(4)), mc_tensor(VN_U8, MC_DIMS(4)), VN_ERR_SHAPE);
}

VN_TEST(movement, concat_needs_fitting_parts) {
    for (int i = 0; i < 2; ++i) {
        mc_t c;
        mc_new(&c, "Concat", 13);
        mc_in(&c, mc_tensor(VN_F32, MC_DIMS(2, 3)));
        mc_in(&c, i ? mc_tensor(VN_F64, MC_DIMS(2, 3)) : mc_tensor(VN_F32, MC_DIMS(2, 4)));
        mc_int(&c, "axis", 0);
        VN_ASSERT_EQ(t, mc_run(&c), i ? VN_ERR_DTYPE : VN_ERR_SHAPE);
        mc_free(&c);
    }
}

/* Every allocation of a run may fail; strings and packed types take the longest way. */
VN_TEST(movement, allocation_faults) {
    static const vn_dtype_t types[] = {VN_F32, VN_STRING, VN_I4};
    static const struct {
        const char *op;
        int64_t version, a[4], b[4];
        int n_a, n_b;
    } cases[] = {{"Transpose", 13, {0}, {0}, 0, 0},          {"Slice", 13, {0, 1}, {2, 3}, 2, 2},  {"Tile", 13, {2, 2}, {0}, 2, 0},
                 {"Expand", 13, {2, 2, 3}, {0}, 3, 0},       {"Pad", 13, {1, 0, 0, 1}, {0}, 4, 0}, {"Gather", 13, {1, 9}, {0}, 2, 0},
                 {"CenterCropPad", 18, {3, 2}, {0}, 2, 0},   {"Trilu", 14, {1}, {0}, 1, 0},        {"Unique", 11, {0}, {0}, 0, 0},
                 {"SplitToSequence", 11, {1, 1}, {0}, 2, 0}, {"Identity", 13, {0}, {0}, 0, 0},     {"Squeeze", 11, {0}, {0}, 0, 0}};
    vn_rng_t rng = vn_test_rng(t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        for (int k = 0; k < 3; ++k) {
            if (!strcmp(cases[i].op, "Unique") && k == 2) continue; /* no order of codes is needed */
            mc_t c;
            mc_new(&c, cases[i].op, cases[i].version);
            mc_in(&c, mc_random(&rng, types[k], MC_DIMS(2, 3)));
            if (cases[i].n_a) mc_in(&c, mc_i64(cases[i].n_a, cases[i].a));
            if (cases[i].n_b) mc_in(&c, mc_i64(cases[i].n_b, cases[i].b));
            VN_ASSERT_GT(t, mc_faults(t, &c), 0);
            mc_free(&c);
        }
}

VN_TEST_MAIN(VN_CASE(movement, allocation_faults), VN_CASE(movement, transpose_is_its_twin_and_its_own_inverse),
             VN_CASE(movement, transpose_in_blocks), VN_CASE(movement, slice_is_its_twin),
             VN_CASE(movement, slice_by_attributes_before_opset_10), VN_CASE(movement, pad_is_its_twin), VN_CASE(movement, pad_constants),
             VN_CASE(movement, tile_and_expand_are_their_twins), VN_CASE(movement, split_then_concat_is_identity),
             VN_CASE(movement, split_into_parts), VN_CASE(movement, reshape_rules), VN_CASE(movement, squeeze_unsqueeze_flatten),
             VN_CASE(movement, blocks_there_and_back), VN_CASE(movement, trilu_is_its_twin), VN_CASE(movement, center_crop_pad),
             VN_CASE(movement, hostile_operands_are_refused), VN_CASE(movement, concat_needs_fitting_parts))
