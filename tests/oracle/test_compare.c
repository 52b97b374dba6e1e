/* Claims CMP-1, CMP-2: comparisons and Where. */
#include "oracle/elementwise.h"
#include "oracle/one_node.h"

VN_TEST(compare, table_of_specials) {
    static const char *const ops[] = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
    static const struct {
        double a, b;
        int want[5];
    } table[] = {
        {1, 1, {1, 0, 1, 0, 1}},
        {1, 2, {0, 0, 0, 1, 1}},
        {2, 1, {0, 1, 1, 0, 0}},
        {NAN, 1, {0, 0, 0, 0, 0}},
        {NAN, NAN, {0, 0, 0, 0, 0}},
        {-0.0, 0, {1, 0, 1, 0, 1}},
        {INFINITY, INFINITY, {1, 0, 1, 0, 1}},
        {-INFINITY, 0x1p-149, {0, 0, 0, 1, 1}},
    };
    for (int o = 0; o < 5; ++o)
        for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
            one_node_t c = {.op = ops[o],
                            .version = 19,
                            .n_in = 2,
                            .in = {one_scalar(t, VN_F32, table[k].a), one_scalar(t, VN_F32, table[k].b)},
                            .want = VN_WANT_BOUND};
            one_run(t, &c);
            VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), table[k].want[o]);
            VN_ASSERT(t, c.out[0].either == NULL);
            one_free(&c);
        }
}

VN_TEST(compare, integers_of_every_type) {
    static const vn_dtype_t types[] = {VN_U8, VN_I8, VN_U16, VN_I16, VN_U32, VN_I32, VN_U64, VN_I64};
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k) {
        const int64_t a[] = {vn_int_max(types[k]), 0, vn_int_min(types[k])}, b[] = {1, 0, vn_int_max(types[k])};
        one_node_t c = {.op = "Greater", .version = 13, .n_in = 2, .in = {one_ints(t, types[k], 3, a), one_ints(t, types[k], 3, b)}};
        one_run(t, &c);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), 1); /* u64: all ones is the largest, not -1 */
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 1), 0);
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 2), 0);
        one_free(&c);
    }
    const int64_t big[] = {(INT64_C(1) << 53) + 1}, near[] = {INT64_C(1) << 53}; /* not through a double */
    one_node_t c = {.op = "Equal", .version = 13, .n_in = 2, .in = {one_ints(t, VN_I64, 1, big), one_ints(t, VN_I64, 1, near)}};
    one_run(t, &c);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), 0);
    one_free(&c);
}

VN_TEST(compare, strings) {
    one_node_t c = {.op = "Equal", .version = 19, .n_in = 2};
    const int64_t three = 3;
    c.in[0] = one_tensor(t, VN_STRING, 1, &three);
    c.in[1] = one_tensor(t, VN_STRING, 0, NULL);
    VN_ASSERT_OK(t, vn_tensor_set_string(c.in[0], 0, "abc", 3, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(c.in[0], 1, "ab", 2, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(c.in[0], 2, "", 0, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(c.in[1], 0, "abc", 3, NULL));
    one_run(t, &c);
    for (int i = 0; i < 3; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), i == 0);
    c.op = "Less";
    vn_ref_free(&c.out[0]);
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_DTYPE);
    one_free(&c);
}

VN_TEST(compare, where_moves_bits) {
    const double cond[] = {1, 0};
    one_node_t c = {.op = "Where", .version = 16, .n_in = 3, .want = VN_WANT_BOUND};
    c.in[0] = one_vector(t, VN_BOOL, 2, cond);
    c.in[1] = one_tensor(t, VN_F32, 2, (const int64_t[]){3, 1});
    c.in[2] = one_tensor(t, VN_F32, 2, (const int64_t[]){1, 2});
    const uint32_t nans[] = {0x7fc12345, 0xffc00001, 0x80000000};
    memcpy(c.in[1]->data, nans, sizeof nans); /* payloads and signs pass */
    vn_tensor_set_f64(c.in[2], 1, 7);
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].count, 6);
    for (int i = 0; i < 3; ++i) {
        VN_ASSERT_EQ(t, vn_tensor_bits(c.out[0].tensor, 2 * i), nans[i]);
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, 2 * i + 1), 7);
    }
    one_free(&c);
    one_node_t s = {.op = "Where", .version = 16, .n_in = 3};
    s.in[0] = one_vector(t, VN_BOOL, 2, cond);
    const int64_t two = 2;
    s.in[1] = one_tensor(t, VN_STRING, 1, &two);
    s.in[2] = one_tensor(t, VN_STRING, 0, NULL);
    VN_ASSERT_OK(t, vn_tensor_set_string(s.in[1], 0, "yes", 3, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(s.in[2], 0, "no", 2, NULL));
    one_run(t, &s);
    VN_ASSERT_STR(t, ((const vn_string_t *)s.out[0].tensor->data)[0].text, "yes");
    VN_ASSERT_STR(t, ((const vn_string_t *)s.out[0].tensor->data)[1].text, "no");
    one_free(&s);
}

VN_TEST_MAIN(VN_CASE(compare, table_of_specials), VN_CASE(compare, integers_of_every_type), VN_CASE(compare, strings),
             VN_CASE(compare, where_moves_bits))
