/* Tensors, values and bundles: shapes, counts, elements, texts, hashes; every allocation may fail. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/vn_test.h"
#include "tensor/round_kernel.h"

static vn_tensor_t *make(vn_dtype_t d, int rank, const int64_t *dims) {
    vn_tensor_t *x = NULL;
    if (vn_tensor_new(d, rank, dims, &x, NULL) != VN_OK) return NULL;
    return x;
}

VN_TEST(tensor, new_is_zeroed_aligned_and_counted) {
    for (int d = 1; d < VN_DTYPE_COUNT; ++d) {
        vn_tensor_t *x = make((vn_dtype_t)d, 3, (int64_t[]){2, 3, 5});
        VN_ASSERT(t, x && x->count == 30 && (uintptr_t)x->data % 64 == 0 && vn_tensor_is_contiguous(x));
        for (int64_t i = 0; i < 30 && d != VN_STRING && d != VN_F8E8M0; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, i), 0.0);
        vn_tensor_t *same = vn_tensor_retain(x);
        VN_ASSERT(t, same == x && x->refs == 2);
        vn_tensor_free(x);
        VN_ASSERT(t, same->refs == 1);
        vn_tensor_free(same);
    }
    vn_tensor_t *scalar = make(VN_F32, 0, NULL), *empty = make(VN_F64, 2, (int64_t[]){0, 7});
    VN_ASSERT(t, scalar->count == 1 && empty->count == 0);
    vn_tensor_free(scalar);
    vn_tensor_free(empty);
    vn_tensor_free(NULL);
}

VN_TEST(tensor, refuses_hostile_shapes) {
    vn_tensor_t *x;
    vn_error_t err;
    const int64_t many[VN_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    VN_ASSERT_EQ(t, vn_tensor_new(VN_F32, 2, (int64_t[]){3, -1}, &x, &err), VN_ERR_RANGE);
    VN_ASSERT(t, x == NULL);
    VN_ASSERT_HAS(t, err.text, "f32[3,-1] is negative");
    VN_ASSERT_EQ(t, vn_tensor_new(VN_F32, 3, (int64_t[]){INT64_C(1) << 31, INT64_C(1) << 31, 4}, &x, &err), VN_ERR_RANGE);
    VN_ASSERT_HAS(t, err.text, "overflows");
    VN_ASSERT_EQ(t, vn_tensor_new(VN_F32, 3, (int64_t[]){0, INT64_MAX, INT64_MAX}, &x, &err), VN_ERR_RANGE); /* strides would overflow */
    VN_ASSERT_EQ(t, vn_tensor_new(VN_C128, 1, (int64_t[]){INT64_MAX / 8}, &x, &err), VN_ERR_RANGE);
    VN_ASSERT_EQ(t, vn_tensor_new(VN_U8, VN_MAX_RANK + 1, many, &x, &err), VN_ERR_RANGE);
    VN_ASSERT_EQ(t, vn_tensor_new(VN_U8, -1, many, &x, &err), VN_ERR_RANGE);
    VN_ASSERT_EQ(t, vn_tensor_new(VN_UNDEFINED, 0, NULL, &x, &err), VN_ERR_DTYPE);
    VN_ASSERT_EQ(t, vn_tensor_new((vn_dtype_t)99, 0, NULL, &x, &err), VN_ERR_DTYPE);
    size_t bytes;
    VN_ASSERT(t, vn_dtype_storage(VN_U4, 5, &bytes) && bytes == 3);
    VN_ASSERT(t, vn_dtype_storage(VN_I2, 5, &bytes) && bytes == 2);
    VN_ASSERT(t, !vn_dtype_storage(VN_F64, INT64_MAX, &bytes) && !vn_dtype_storage(VN_F32, -1, &bytes));
}

static void count_release(void *ctx) { ++*(int *)ctx; }

VN_TEST(tensor, wrapped_memory_is_released_with_its_last_holder) {
    float data[6] = {1, 2, 3, 4, 5, 6};
    int released = 0;
    vn_tensor_t *x, *view;
    vn_error_t err;
    VN_ASSERT_OK(t, vn_tensor_wrap(VN_F32, 2, (int64_t[]){2, 3}, data, sizeof data, count_release, &released, &x, NULL));
    VN_ASSERT(t, x->data == data);
    VN_ASSERT_OK(t, vn_tensor_permute(x, (int[]){1, 0}, &view, NULL));
    vn_tensor_free(x);
    VN_ASSERT_EQ(t, released, 0);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(view, 1), 4.0);
    vn_tensor_free(view);
    VN_ASSERT_EQ(t, released, 1);
    VN_ASSERT_EQ(t, vn_tensor_wrap(VN_F32, 1, (int64_t[]){7}, data, sizeof data, count_release, &released, &x, &err), VN_ERR_RANGE);
    VN_ASSERT_HAS(t, err.text, "f32[7] needs 28 bytes, 24 are given");
    VN_ASSERT_EQ(t, released, 1); /* a refused wrap leaves the memory to the caller */
    VN_ASSERT_OK(t, vn_tensor_wrap(VN_F32, 1, (int64_t[]){0}, NULL, 0, NULL, NULL, &x, NULL));
    VN_ASSERT(t, x->data != NULL);
    vn_tensor_free(x);
}

VN_TEST(tensor, integers_store_their_low_bits) {
    static const struct {
        vn_dtype_t d;
        int64_t in, out;
    } rows[] = {
        {VN_U8, 300, 44},
        {VN_I8, 200, -56},
        {VN_U16, -1, 65535},
        {VN_I16, 40000, -25536},
        {VN_U32, -1, UINT32_MAX},
        {VN_I32, INT64_C(1) << 40, 0},
        {VN_I64, INT64_MIN, INT64_MIN},
        {VN_U64, -1, -1},
        {VN_U4, 17, 1},
        {VN_I4, 9, -7},
        {VN_U2, 7, 3},
        {VN_I2, 2, -2},
        {VN_BOOL, 256, 1},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        vn_tensor_t *x = make(rows[k].d, 1, (int64_t[]){7});
        vn_tensor_set_i64(x, 3, rows[k].in);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(x, 3), rows[k].out);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(x, 2), 0); /* neighbours in the same byte are untouched */
        VN_ASSERT_EQ(t, vn_tensor_get_i64(x, 4), 0);
        vn_tensor_set_f64(x, 3, (double)rows[k].in);
        if (rows[k].d != VN_U64) VN_ASSERT_EQ(t, vn_tensor_get_i64(x, 3), rows[k].out);
        vn_tensor_free(x);
    }
    vn_tensor_t *u = make(VN_U64, 1, (int64_t[]){1}), *b = make(VN_BOOL, 1, (int64_t[]){1}), *i = make(VN_I32, 1, (int64_t[]){1});
    vn_tensor_set_f64(u, 0, 0x1p63);
    VN_ASSERT(t, vn_tensor_bits(u, 0) == UINT64_C(1) << 63 && vn_tensor_get_f64(u, 0) == 0x1p63);
    vn_tensor_set_f64(u, 0, -0x1.8p64); /* -1.5 2^64 = 2^63 modulo 2^64 */
    VN_ASSERT(t, vn_tensor_bits(u, 0) == UINT64_C(1) << 63);
    vn_tensor_set_f64(b, 0, NAN);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(b, 0), 1);
    vn_tensor_set_f64(b, 0, 0.25);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(b, 0), 1);
    vn_tensor_set_f64(i, 0, -2.9);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(i, 0), -2);
    vn_tensor_set_f64(i, 0, NAN);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(i, 0), 0);
    vn_tensor_free(u);
    vn_tensor_free(b);
    vn_tensor_free(i);
}

/* The processor rounds an int64 to float once; going through double would round twice. */
VN_TEST(tensor, int64_to_float_rounds_once) {
    vn_rng_t rng = vn_test_rng(t);
    vn_tensor_t *x = make(VN_F32, 1, (int64_t[]){1});
    for (int k = 0; k < 20000 * vn_test_scale(t); ++k) {
        int64_t v = (int64_t)(vn_rng_u64(&rng) >> vn_rng_below(&rng, 64));
        if (k % 3 == 0) v = (v & ~INT64_C(0xffffff)) | INT64_C(0x800000); /* near ties of f32 */
        if (k % 3 == 1) v = (v | INT64_C(0x7ffffff)) + (int64_t)vn_rng_below(&rng, 2);
        if (k % 2) v = -v;
        if (k == 7) v = INT64_MAX;
        if (k == 9) v = INT64_MIN;
        vn_tensor_set_i64(x, 0, v);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, 0), (double)(float)v);
    }
    const int64_t twice = (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1; /* just above a tie of f32; a double loses the 1 */
    vn_tensor_set_i64(x, 0, twice);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(x, 0), 0x1p60 + 0x1p37);
    vn_tensor_free(x);
}

VN_TEST(tensor, texts_are_owned_and_copied) {
    vn_tensor_t *x = make(VN_STRING, 1, (int64_t[]){3}), *copy, *view, *f = make(VN_F32, 0, NULL);
    vn_error_t err;
    VN_ASSERT_OK(t, vn_tensor_set_string(x, 0, "one", 3, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(x, 0, "uno\0dos", 7, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(x, 2, NULL, 0, NULL));
    VN_ASSERT_EQ(t, vn_tensor_set_string(x, 3, "x", 1, &err), VN_ERR_RANGE);
    VN_ASSERT_EQ(t, vn_tensor_set_string(f, 0, "x", 1, &err), VN_ERR_DTYPE);
    VN_ASSERT_OK(t, vn_tensor_slice(x, (int64_t[]){2}, (int64_t[]){3}, (int64_t[]){-1}, &view, NULL));
    VN_ASSERT_OK(t, vn_tensor_copy(view, &copy, NULL));
    vn_tensor_free(x);
    vn_tensor_free(view);
    const vn_string_t *s = (const vn_string_t *)copy->data + 2;
    VN_ASSERT(t, s->length == 7 && memcmp(s->text, "uno\0dos", 8) == 0);
    VN_ASSERT(t, isnan(vn_tensor_get_f64(copy, 0)));
    vn_tensor_free(copy);
    vn_tensor_free(f);
}

VN_TEST(tensor, equal_bits_and_hash_see_values_not_layout) {
    vn_tensor_t *a = make(VN_F32, 2, (int64_t[]){2, 3}), *turned, *back;
    for (int i = 0; i < 6; ++i) vn_tensor_set_f64(a, i, i ? i : -0.0);
    VN_ASSERT_OK(t, vn_tensor_permute(a, (int[]){1, 0}, &turned, NULL));
    vn_tensor_t *dense;
    VN_ASSERT_OK(t, vn_tensor_copy(turned, &dense, NULL));
    VN_ASSERT_OK(t, vn_tensor_permute(dense, (int[]){1, 0}, &back, NULL));
    char ha[65], hb[65], want[65];
    VN_ASSERT(t, vn_tensor_equal_bits(a, back) && !vn_tensor_equal_bits(a, turned) && !vn_tensor_is_contiguous(back));
    VN_ASSERT_OK(t, vn_tensor_sha256(a, ha, NULL));
    VN_ASSERT_OK(t, vn_tensor_sha256(back, hb, NULL));
    VN_ASSERT_STR(t, ha, hb);
    unsigned char text[3 + 24 + 24] = "f32\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3"; /* the text that is hashed, written out */
    memcpy(text + 27, a->data, 24);
    vn_sha256_hex(text, sizeof text, want);
    VN_ASSERT_STR(t, ha, want);
    vn_tensor_set_f64(a, 0, 0.0);
    VN_ASSERT(t, !vn_tensor_equal_bits(a, back)); /* +0 is not -0 here */
    vn_tensor_free(turned);
    vn_tensor_free(back);
    vn_tensor_free(dense);
    vn_tensor_free(a);

    vn_tensor_t *p = make(VN_U4, 1, (int64_t[]){3}), *q = make(VN_U4, 1, (int64_t[]){3});
    for (int i = 0; i < 3; ++i) {
        vn_tensor_set_i64(p, i, i + 1);
        vn_tensor_set_i64(q, i, i + 1);
    }
    ((unsigned char *)q->data)[1] |= 0xf0; /* the unused half byte does not count */
    VN_ASSERT_OK(t, vn_tensor_sha256(p, ha, NULL));
    VN_ASSERT_OK(t, vn_tensor_sha256(q, hb, NULL));
    VN_ASSERT(t, vn_tensor_equal_bits(p, q));
    VN_ASSERT_STR(t, ha, hb);
    vn_tensor_free(p);
    vn_tensor_free(q);
}

VN_TEST(tensor, describes_itself) {
    char out[64], tiny[6];
    vn_tensor_t *x = make(VN_BF16, 4, (int64_t[]){1, 3, 48, 320});
    vn_tensor_describe(x, out, sizeof out);
    VN_ASSERT_STR(t, out, "bf16[1,3,48,320]");
    vn_tensor_describe(x, tiny, sizeof tiny);
    VN_ASSERT_STR(t, tiny, "bf16[");
    vn_tensor_free(x);
}

VN_TEST(tensor, values_hold_what_they_are_given) {
    vn_value_t *v = vn_value_tensor(make(VN_F32, 0, NULL));
    vn_value_t *seq = vn_value_list(VN_VALUE_SEQUENCE, VN_F32, (vn_value_t *[]){v, v}, 2),
               *none = vn_value_list(VN_VALUE_OPTIONAL, VN_I64, NULL, 0);
    VN_ASSERT(t, v->refs == 3 && v->elem == VN_F32 && seq->items[1] == v && none->count == 0 && none->elem == VN_I64);
    vn_value_free(v);
    vn_value_free(vn_value_retain(seq));
    VN_ASSERT_EQ(t, v->refs, 2);
    vn_value_free(seq);
    vn_value_free(none);
    vn_value_free(NULL);
    VN_ASSERT(t, vn_value_tensor(NULL) == NULL);
}

VN_TEST(tensor, bundles_find_by_name) {
    vn_bundle_t b = {0};
    vn_tensor_t *x = make(VN_F32, 0, NULL);
    char name[16];
    for (int i = 0; i < 20; ++i) {
        snprintf(name, sizeof name, "x%d", i);
        VN_ASSERT_OK(t, vn_bundle_add(&b, name, x, NULL));
    }
    VN_ASSERT(t, x->refs == 21 && vn_bundle_find(&b, "x19") == x && vn_bundle_find(&b, "x20") == NULL);
    vn_bundle_free(&b);
    VN_ASSERT_EQ(t, x->refs, 1);
    vn_tensor_free(x);
}

/* Everything that allocates, once for each allocation that may fail; ASan counts what is lost. */
static vn_status_t exercise(vn_error_t *err) {
    vn_tensor_t *x = NULL, *p = NULL, *c = NULL, *s = NULL, *sc = NULL, *u = NULL, *up = NULL;
    vn_value_t *v = NULL, *list = NULL;
    vn_bundle_t b = {0};
    char hex[65];
    vn_status_t r = vn_tensor_new(VN_F32, 2, (int64_t[]){2, 3}, &x, err);
    if (r == VN_OK) r = vn_tensor_permute(x, (int[]){1, 0}, &p, err);
    if (r == VN_OK) r = vn_tensor_contiguous(p, &c, err);
    if (r == VN_OK) r = vn_tensor_new(VN_STRING, 1, (int64_t[]){2}, &s, err);
    if (r == VN_OK) r = vn_tensor_set_string(s, 1, "text", 4, err);
    if (r == VN_OK) r = vn_tensor_copy(s, &sc, err);
    if (r == VN_OK) r = vn_tensor_new(VN_U4, 2, (int64_t[]){2, 3}, &u, err);
    if (r == VN_OK) r = vn_tensor_permute(u, (int[]){1, 0}, &up, err);
    if (r == VN_OK) r = vn_tensor_sha256(p, hex, err);
    if (r == VN_OK) r = vn_bundle_add(&b, "x", x, err);
    if (r == VN_OK && !(v = vn_value_tensor(vn_tensor_retain(x)))) r = vn_fail(err, VN_ERR_NOMEM, "value");
    if (r == VN_OK && !(list = vn_value_list(VN_VALUE_SEQUENCE, VN_F32, &v, 1))) r = vn_fail(err, VN_ERR_NOMEM, "list");
    vn_value_free(list);
    vn_value_free(v);
    vn_bundle_free(&b);
    vn_tensor_t *all[] = {x, p, c, s, sc, u, up};
    for (size_t k = 0; k < sizeof all / sizeof *all; ++k) vn_tensor_free(all[k]);
    return r;
}

VN_TEST(tensor, survives_every_failed_allocation) {
    int failures = 0;
    for (int n = 1;; ++n) {
        vn_error_t err = {0};
        vn_alloc_fail_at(n);
        const vn_status_t s = exercise(&err);
        vn_alloc_fail_at(0);
        if (s == VN_OK) break;
        VN_ASSERT_EQ(t, s, VN_ERR_NOMEM);
        VN_ASSERT(t, err.text[0] != '\0');
        ++failures;
    }
    VN_ASSERT_GE(t, failures, 15);
}

VN_TEST_MAIN(VN_CASE(tensor, new_is_zeroed_aligned_and_counted), VN_CASE(tensor, refuses_hostile_shapes),
             VN_CASE(tensor, wrapped_memory_is_released_with_its_last_holder), VN_CASE(tensor, integers_store_their_low_bits),
             VN_CASE(tensor, int64_to_float_rounds_once), VN_CASE(tensor, texts_are_owned_and_copied),
             VN_CASE(tensor, equal_bits_and_hash_see_values_not_layout), VN_CASE(tensor, describes_itself),
             VN_CASE(tensor, values_hold_what_they_are_given), VN_CASE(tensor, bundles_find_by_name),
             VN_CASE(tensor, survives_every_failed_allocation))
