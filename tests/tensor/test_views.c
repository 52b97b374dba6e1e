/* Views against plain index arithmetic. */
#include <string.h>

#include "support/vn_test.h"

/* A tensor whose element i is i (modulo what the type holds). */
static vn_tensor_t *count_up(vn_dtype_t d, int rank, const int64_t *dims) {
    vn_tensor_t *x = NULL;
    if (vn_tensor_new(d, rank, dims, &x, NULL) != VN_OK) return NULL;
    for (int64_t i = 0; i < x->count; ++i) vn_tensor_set_i64(x, i, i);
    return x;
}

/* Multi-index of row-major place i. */
static void unravel(int64_t i, int rank, const int64_t *dims, int64_t *at) {
    for (int k = rank - 1; k >= 0; --k) {
        at[k] = i % dims[k];
        i /= dims[k];
    }
}

static int64_t ravel(const int64_t *at, int rank, const int64_t *dims) {
    int64_t i = 0;
    for (int k = 0; k < rank; ++k) i = i * dims[k] + at[k];
    return i;
}

static int random_dims(vn_rng_t *rng, int64_t *dims) {
    const int rank = (int)vn_rng_below(rng, 5);
    for (int k = 0; k < rank; ++k) dims[k] = 1 + (int64_t)vn_rng_below(rng, 5);
    return rank;
}

/* Single reads and bulk reads of a view give the same. */
static void check_bulk(vn_test_t *t, const vn_tensor_t *v) {
    double *x = vn_alloc((size_t)v->count, sizeof *x);
    int64_t *n = vn_alloc((size_t)v->count, sizeof *n);
    vn_tensor_to_f64(v, x);
    vn_tensor_to_i64(v, n);
    for (int64_t i = 0; i < v->count; ++i) {
        VN_ASSERT_DEQ(t, x[i], vn_tensor_get_f64(v, i));
        VN_ASSERT_EQ(t, n[i], vn_tensor_get_i64(v, i));
    }
    vn_tensor_t *dense;
    VN_ASSERT_OK(t, vn_tensor_copy(v, &dense, NULL));
    VN_ASSERT(t, vn_tensor_is_contiguous(dense) && vn_tensor_equal_bits(dense, v));
    vn_tensor_free(dense);
    vn_free(x);
    vn_free(n);
}

static const vn_dtype_t kinds[] = {VN_I32, VN_F64, VN_U4, VN_C128, VN_U16, VN_I2, VN_U8};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

VN_TEST(views, permute) {
    vn_rng_t rng = vn_test_rng(t);
    for (int trial = 0; trial < 200 * vn_test_scale(t); ++trial) {
        int64_t dims[5], at[5], from[5];
        int axes[5];
        const int rank = random_dims(&rng, dims);
        for (int k = 0; k < rank; ++k) axes[k] = k;
        for (int k = rank - 1; k > 0; --k) {
            const int j = (int)vn_rng_below(&rng, (uint64_t)k + 1), keep = axes[k];
            axes[k] = axes[j];
            axes[j] = keep;
        }
        vn_tensor_t *x = count_up(kinds[trial % N_KINDS], rank, dims), *v;
        VN_ASSERT_OK(t, vn_tensor_permute(x, axes, &v, NULL));
        for (int64_t i = 0; i < v->count; ++i) {
            unravel(i, rank, v->dims, at);
            for (int k = 0; k < rank; ++k) from[axes[k]] = at[k];
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(v, i), vn_tensor_get_f64(x, ravel(from, rank, dims)));
        }
        check_bulk(t, v);
        vn_tensor_free(v);
        vn_tensor_free(x);
    }
    vn_tensor_t *x = count_up(VN_F32, 2, (int64_t[]){2, 2}), *v;
    VN_ASSERT_EQ(t, vn_tensor_permute(x, (int[]){0, 0}, &v, NULL), VN_ERR_SHAPE);
    VN_ASSERT_EQ(t, vn_tensor_permute(x, (int[]){0, 2}, &v, NULL), VN_ERR_SHAPE);
    vn_tensor_free(x);
}

VN_TEST(views, slice) {
    vn_rng_t rng = vn_test_rng(t);
    for (int trial = 0; trial < 300 * vn_test_scale(t); ++trial) {
        int64_t dims[5], start[5], length[5], step[5], at[5], from[5];
        const int rank = random_dims(&rng, dims);
        for (int k = 0; k < rank; ++k) {
            start[k] = (int64_t)vn_rng_below(&rng, (uint64_t)dims[k]);
            step[k] = (int64_t)vn_rng_below(&rng, 7) - 3;
            const int64_t room = step[k] > 0 ? (dims[k] - 1 - start[k]) / step[k] : step[k] < 0 ? start[k] / -step[k] : 3;
            length[k] = (int64_t)vn_rng_below(&rng, (uint64_t)room + 2);
        }
        vn_tensor_t *x = count_up(kinds[trial % N_KINDS], rank, dims), *v;
        VN_ASSERT_OK(t, vn_tensor_slice(x, start, length, step, &v, NULL));
        for (int64_t i = 0; i < v->count; ++i) {
            unravel(i, rank, length, at);
            for (int k = 0; k < rank; ++k) from[k] = start[k] + at[k] * step[k];
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(v, i), vn_tensor_get_f64(x, ravel(from, rank, dims)));
        }
        check_bulk(t, v);
        vn_tensor_free(v);
        vn_tensor_free(x);
    }
    vn_tensor_t *x = count_up(VN_F32, 1, (int64_t[]){5}), *v;
    static const int64_t bad[][3] = {{0, 6, 1},  {5, 1, 1},         {-1, 1, 1},        {0, -1, 1},
                                     {1, 3, -1}, {0, 2, INT64_MAX}, {4, INT64_MAX, 2}, {0, 3, INT64_MIN}};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; ++k)
        VN_ASSERT_EQ(t, vn_tensor_slice(x, &bad[k][0], &bad[k][1], &bad[k][2], &v, NULL), VN_ERR_RANGE);
    VN_ASSERT_EQ(t, vn_tensor_slice(x, (int64_t[]){0}, (int64_t[]){INT64_MAX}, (int64_t[]){0}, &v, NULL),
                 VN_OK); /* a broadcast by step 0 */
    vn_tensor_free(v);
    vn_tensor_free(x);
}

VN_TEST(views, broadcast) {
    vn_rng_t rng = vn_test_rng(t);
    for (int trial = 0; trial < 200 * vn_test_scale(t); ++trial) {
        int64_t dims[5], small[5], at[5], from[5];
        const int rank = random_dims(&rng, dims), less = (int)vn_rng_below(&rng, (uint64_t)rank + 1);
        for (int k = 0; k < less; ++k) small[k] = vn_rng_below(&rng, 2) ? 1 : dims[rank - less + k];
        vn_tensor_t *x = count_up(kinds[trial % N_KINDS], less, small), *v;
        VN_ASSERT_OK(t, vn_tensor_broadcast(x, rank, dims, &v, NULL));
        for (int64_t i = 0; i < v->count; ++i) {
            unravel(i, rank, dims, at);
            for (int k = 0; k < less; ++k) from[k] = small[k] == 1 ? 0 : at[rank - less + k];
            VN_ASSERT_DEQ(t, vn_tensor_get_f64(v, i), vn_tensor_get_f64(x, ravel(from, less, small)));
        }
        check_bulk(t, v);
        int out_rank;
        int64_t out[VN_MAX_RANK];
        VN_ASSERT_OK(t, vn_broadcast_shape(rank, dims, less, small, &out_rank, out, NULL));
        VN_ASSERT(t, out_rank == rank && memcmp(out, dims, (size_t)rank * sizeof *dims) == 0);
        vn_tensor_free(v);
        vn_tensor_free(x);
    }
    vn_error_t err;
    int rank;
    int64_t out[VN_MAX_RANK];
    VN_ASSERT_OK(t, vn_broadcast_shape(2, (int64_t[]){0, 1}, 1, (int64_t[]){3}, &rank, out, NULL)); /* an empty axis stays empty */
    VN_ASSERT(t, rank == 2 && out[0] == 0 && out[1] == 3);
    VN_ASSERT_EQ(t, vn_broadcast_shape(2, (int64_t[]){4, 2}, 1, (int64_t[]){3}, &rank, out, &err), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, err.text, "2 against 3 at axis 1");
    vn_tensor_t *x = count_up(VN_F32, 1, (int64_t[]){2}), *v;
    VN_ASSERT_EQ(t, vn_tensor_broadcast(x, 1, (int64_t[]){3}, &v, &err), VN_ERR_SHAPE);
    VN_ASSERT_EQ(t, vn_tensor_broadcast(x, 0, NULL, &v, &err), VN_ERR_SHAPE);
    VN_ASSERT_EQ(t, vn_tensor_broadcast(x, 2, (int64_t[]){-1, 2}, &v, &err), VN_ERR_RANGE);
    vn_tensor_free(x);
}

VN_TEST(views, reshape) {
    vn_tensor_t *x = count_up(VN_U4, 2, (int64_t[]){2, 6}), *v, *p;
    vn_error_t err;
    VN_ASSERT_OK(t, vn_tensor_reshape(x, 3, (int64_t[]){3, 2, 2}, &v, NULL));
    VN_ASSERT(t, v->data == x->data && vn_tensor_get_i64(v, 11) == 11);
    VN_ASSERT_EQ(t, vn_tensor_reshape(x, 1, (int64_t[]){11}, &p, &err), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, err.text, "u4[2,6]");
    vn_tensor_free(v);
    vn_tensor_free(x);
    x = count_up(VN_F32, 2, (int64_t[]){2, 3});
    VN_ASSERT_OK(t, vn_tensor_permute(x, (int[]){1, 0}, &p, NULL));
    VN_ASSERT_EQ(t, vn_tensor_reshape(p, 1, (int64_t[]){6}, &v, &err), VN_ERR_USAGE);
    vn_tensor_free(p);
    vn_tensor_free(x);
}

VN_TEST_MAIN(VN_CASE(views, permute), VN_CASE(views, slice), VN_CASE(views, broadcast), VN_CASE(views, reshape))
