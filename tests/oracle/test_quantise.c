/* Claims QUANT-1 to QUANT-3: codes, tie windows, granularity, dequantisation. */
#include "oracle/elementwise.h"
#include "oracle/one_node.h"

static const vn_dtype_t code_types[] = {VN_U8, VN_I8, VN_U16, VN_I16, VN_U4, VN_I4, VN_U2, VN_I2};

/* Half-even rounding on its own: floor and parity. */
static double half_even(double q) {
    const double lo = floor(q), d = q - lo;
    if (d < 0.5) return lo;
    if (d > 0.5) return lo + 1;
    return fmod(lo, 2) == 0 ? lo : lo + 1;
}

static int64_t slow_code(vn_dtype_t type, float x, float s, int64_t z) {
    const volatile float q = x / s; /* the division of the text, in f32 */
    const double v = half_even((double)q) + (double)z, lo = (double)vn_int_min(type), hi = (double)vn_int_max(type);
    return (int64_t)(v < lo ? lo : v > hi ? hi : v);
}

VN_TEST(quantise, codes_against_the_text) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 2000 };
    for (size_t k = 0; k < sizeof code_types / sizeof *code_types; ++k) {
        const vn_dtype_t type = code_types[k];
        const int64_t z = vn_wrap(type, (int64_t)vn_rng_u64(&rng));
        const float s = (float)ldexp(0.5 + vn_rng_uniform(&rng), -4);
        double v[N];
        for (int i = 0; i < N; ++i) /* grid points, ties, and everything else */
            v[i] = i % 3 == 0 ? (float)((double)((int)vn_rng_below(&rng, 600) - 300) * 0.5 * s) : vn_rng_normal(&rng) * s * 100;
        one_node_t c = {.op = "QuantizeLinear",
                        .version = 25,
                        .n_in = 3,
                        .want = VN_WANT_BOUND,
                        .contract = "ieee",
                        .in = {one_vector(t, VN_F32, N, v), one_scalar(t, VN_F32, s), one_ints(t, type, 1, &z)}};
        c.in[2]->rank = 0;
        one_run(t, &c);
        VN_ASSERT(t, c.out[0].either == NULL); /* ieee: the quotient is determined */
        for (int i = 0; i < N; ++i)
            VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), slow_code(type, ((float *)c.in[0]->data)[i], s, z));
        vn_ref_free(&c.out[0]);
        /* portable: x * (1/s) and division in f64 stay inside; two codes away is outside */
        c.contract = "portable";
        one_run(t, &c);
        int open = 0;
        for (int i = 0; i < N; ++i) {
            const float x = ((float *)c.in[0]->data)[i];
            const int64_t first = vn_tensor_get_i64(c.out[0].tensor, i),
                          second = c.out[0].either ? vn_tensor_get_i64(c.out[0].either, i) : first;
            const float r = 1.0f / s;
            const double lo = (double)vn_int_min(type), hi = (double)vn_int_max(type);
            const int64_t by_reciprocal = (int64_t)fmin(fmax(half_even((double)(x * r)) + (double)z, lo), hi);
            const int64_t by_f64 = (int64_t)fmin(fmax(half_even((double)x / (double)s) + (double)z, lo), hi);
            if (by_reciprocal != first && by_reciprocal != second)
                vn_test_fail(t, __FILE__, __LINE__, "x %a, s %a: reciprocal code outside", (double)x, (double)s);
            if (by_f64 != first && by_f64 != second)
                vn_test_fail(t, __FILE__, __LINE__, "x %a, s %a: f64 code outside", (double)x, (double)s);
            open += second != first;
        }
        VN_ASSERT(t, open < N / 2); /* only the ties of the grid */
        one_free(&c);
    }
}

/* A power of two as scale leaves nothing open: ties away from zero are then a fault, under every contract. */
VN_TEST(quantise, ties_with_exact_quotients_are_demanded) {
    const double x[] = {-5, -4.875, -4.625, 0.125, 0.375};
    one_node_t c = {.op = "QuantizeLinear",
                    .version = 13,
                    .n_in = 3,
                    .want = VN_WANT_BOUND,
                    .in = {one_vector(t, VN_F32, 5, x), one_scalar(t, VN_F32, 0.25), one_scalar(t, VN_U8, 128)}};
    one_run(t, &c);
    VN_ASSERT(t, c.out[0].either == NULL);
    const int64_t want[] = {108, 108, 110, 128, 130};
    for (int i = 0; i < 5; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), want[i]);
    one_free(&c);
    const double odd[] = {-9.5, -8.5};
    one_node_t d = {.op = "QuantizeLinear",
                    .version = 13,
                    .n_in = 3,
                    .want = VN_WANT_BOUND,
                    .in = {one_vector(t, VN_F32, 2, odd), one_scalar(t, VN_F32, 1), one_scalar(t, VN_I8, 3)}};
    one_run(t, &d); /* the zero point is added after rounding */
    VN_ASSERT_EQ(t, vn_tensor_get_i64(d.out[0].tensor, 0), -7);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(d.out[0].tensor, 1), -5);
    one_free(&d);
}

VN_TEST(quantise, granularity) {
    const int64_t dims[] = {2, 4, 3};
    one_node_t c = {.op = "QuantizeLinear", .version = 21, .n_in = 3, .want = VN_WANT_BOUND, .attrs = {{"axis", ONE_INT, 1, NULL}}};
    c.in[0] = one_tensor(t, VN_F32, 3, dims);
    for (int i = 0; i < 24; ++i) vn_tensor_set_f64(c.in[0], i, i * 2);
    const double scale[] = {1, 2, 4, 8}, zero[] = {0, 1, 2, 3};
    c.in[1] = one_vector(t, VN_F32, 4, scale);
    c.in[2] = one_vector(t, VN_U8, 4, zero);
    one_run(t, &c);
    for (int i = 0; i < 24; ++i) {
        const int a = i / 3 % 4;
        VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), (int64_t)fmin(half_even(i * 2 / scale[a]) + zero[a], 255));
    }
    one_free(&c);
    /* blocks of 3 along an axis of 4: the second block is short */
    const int64_t sdims[] = {2, 2, 3};
    one_node_t b = {.op = "DequantizeLinear",
                    .version = 21,
                    .n_in = 2,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"axis", ONE_INT, -2, NULL}, {"block_size", ONE_INT, 3, NULL}}};
    b.in[0] = one_tensor(t, VN_I4, 3, dims);
    b.in[1] = one_tensor(t, VN_F32, 3, sdims);
    for (int i = 0; i < 24; ++i) vn_tensor_set_i64(b.in[0], i, i % 16 - 8);
    for (int i = 0; i < 12; ++i) vn_tensor_set_f64(b.in[1], i, 0.1 * (i + 1));
    one_run(t, &b);
    VN_ASSERT(t, b.out[0].demand_equal);
    for (int i = 0; i < 24; ++i) {
        const int o = i / 12, a = i / 3 % 4, n = i % 3, s = (o * 2 + a / 3) * 3 + n;
        const float want = (float)(i % 16 - 8) * ((float *)b.in[1]->data)[s];
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(b.out[0].tensor, i), (double)want);
    }
    one_free(&b);
    one_node_t bad = {
        .op = "DequantizeLinear", .version = 21, .n_in = 2, .in = {one_tensor(t, VN_I8, 3, dims), one_vector(t, VN_F32, 3, scale)}};
    VN_ASSERT_EQ(t, one_try(t, &bad), VN_ERR_SHAPE);
    one_free(&bad);
}

VN_TEST(quantise, small_float_codes) {
    const double x[] = {0, 1, 1000, -1e6, 3.3, NAN};
    one_node_t c = {.op = "QuantizeLinear",
                    .version = 24,
                    .n_in = 3,
                    .want = VN_WANT_BOUND,
                    .contract = "ieee",
                    .in = {one_vector(t, VN_F32, 6, x), one_scalar(t, VN_F32, 2), one_scalar(t, VN_F8E4M3FN, 0)}};
    one_run(t, &c);
    const double want[] = {0, 0.5, 448, -448, 1.625};
    VN_ASSERT_EQ(t, c.out[0].dtype, VN_F8E4M3FN);
    for (int i = 0; i < 5; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), want[i]);
    VN_ASSERT(t, isnan(vn_tensor_get_f64(c.out[0].tensor, 5)));
    one_free(&c);
}

VN_TEST(quantise, types_by_attribute) {
    one_node_t c = {.op = "QuantizeLinear",
                    .version = 21,
                    .n_in = 2,
                    .in = {one_scalar(t, VN_F32, -3), one_scalar(t, VN_F32, 1)},
                    .attrs = {{"output_dtype", ONE_INT, VN_I16, NULL}}};
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].dtype, VN_I16);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), -3);
    one_free(&c);
    one_node_t d = {.op = "DequantizeLinear",
                    .version = 23,
                    .n_in = 2,
                    .in = {one_scalar(t, VN_U8, 3), one_scalar(t, VN_F32, 0.1)},
                    .want = VN_WANT_BOUND,
                    .attrs = {{"output_dtype", ONE_INT, VN_F16, NULL}}};
    one_run(t, &d);
    VN_ASSERT_EQ(t, d.out[0].dtype, VN_F16);
    VN_ASSERT(t, !d.out[0].demand_equal); /* the scale may be rounded to f16 first */
    const double early = vn_round_to(VN_FMT_F16, 3 * vn_round_to(VN_FMT_F16, (double)0.1f, VN_RNE, false), VN_RNE, false);
    VN_ASSERT_LE(t, fabs(early - d.out[0].value[0]), d.out[0].bound[0]);
    VN_ASSERT_LE(t, d.out[0].bound[0], 2.01 * 0x1p-11 * d.out[0].value[0] + 0x1p-24);
    one_free(&d);
    one_node_t bad = {.op = "QuantizeLinear",
                      .version = 21,
                      .n_in = 3,
                      .in = {one_scalar(t, VN_F32, 1), one_scalar(t, VN_F32, 1), one_scalar(t, VN_I8, 0)},
                      .attrs = {{"output_dtype", ONE_INT, VN_U8, NULL}}};
    VN_ASSERT_EQ(t, one_try(t, &bad), VN_ERR_DTYPE);
    one_free(&bad);
}

/* (q - z) s equals f32 arithmetic; s q - (s z) lies in the named second tier and mostly outside the first. */
VN_TEST(quantise, dequantise_true_tight_sharp) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 256 };
    double q[N];
    for (int i = 0; i < N; ++i) q[i] = i;
    const float s = (float)(0.01 + vn_rng_uniform(&rng));
    const int z = 113;
    one_node_t c = {.op = "DequantizeLinear",
                    .version = 19,
                    .n_in = 3,
                    .want = VN_WANT_BOUND,
                    .in = {one_vector(t, VN_U8, N, q), one_scalar(t, VN_F32, s), one_scalar(t, VN_U8, z)}};
    one_run(t, &c);
    VN_ASSERT_STR(t, c.out[0].wide_note, "folded-zero-point");
    int beyond = 0;
    for (int i = 0; i < N; ++i) {
        VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), (double)((float)(i - z) * s));
        const volatile float b = -s * (float)z, p = s * (float)i;
        const double folded = (double)(p + b), e = fabs(folded - c.out[0].value[i]);
        VN_ASSERT_LE(t, e, c.out[0].wide[i]);
        VN_ASSERT_LE(t, c.out[0].wide[i], 0x1p-24 * 1.001 * (fabs(s * i) + fabs(s * z) + 2 * fabs(c.out[0].value[i])) + 0x1p-140);
        beyond += e > c.out[0].bound[i];
    }
    VN_ASSERT(t, beyond > 20);
    one_free(&c);
    const int64_t big[] = {INT32_MAX, INT32_MIN + 1, (1 << 25) + 1};
    one_node_t d = {.op = "DequantizeLinear",
                    .version = 19,
                    .n_in = 2,
                    .want = VN_WANT_BOUND,
                    .in = {one_ints(t, VN_I32, 3, big), one_scalar(t, VN_F32, s)}};
    one_run(t, &d);
    VN_ASSERT(t, !d.out[0].demand_equal); /* q is rounded to f32 before the product */
    for (int i = 0; i < 3; ++i) {
        const float y = (float)big[i] * s;
        VN_ASSERT_LE(t, fabs((double)y - d.out[0].value[i]), d.out[0].bound[i]);
        VN_ASSERT_LE(t, d.out[0].bound[i], 2.01 * 0x1p-24 * fabs(d.out[0].value[i]));
    }
    one_free(&d);
}

VN_TEST(quantise, dynamic) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 500 };
    for (int round = 0; round < 20; ++round) {
        double v[N];
        for (int i = 0; i < N; ++i) v[i] = vn_rng_normal(&rng) + 0.3 * round;
        one_node_t c = {.op = "DynamicQuantizeLinear",
                        .version = 11,
                        .n_in = 1,
                        .n_out = 3,
                        .want = VN_WANT_BOUND,
                        .in = {one_vector(t, VN_F32, N, v)}};
        one_run(t, &c);
        float lo = 0, hi = 0;
        for (int i = 0; i < N; ++i) {
            const float x = ((float *)c.in[0]->data)[i];
            lo = x < lo ? x : lo;
            hi = x > hi ? x : hi;
        }
        /* two evaluations of the text in f32: by quotients, and by reciprocals */
        for (int how = 0; how < 2; ++how) {
            const volatile float range = hi - lo, scale = how ? range * (1.0f / 255) : range / 255,
                                 zq = how ? -lo * (1 / scale) : -lo / scale;
            const int64_t zero = (int64_t)fmin(fmax(half_even((double)zq), 0), 255);
            VN_ASSERT_LE(t, fabs((double)scale - c.out[1].value[0]), c.out[1].bound[0]);
            VN_ASSERT_LE(t, c.out[1].bound[0], 3.1 * 0x1p-24 * c.out[1].value[0]);
            const int64_t z0 = vn_tensor_get_i64(c.out[2].tensor, 0), z1 = c.out[2].either ? vn_tensor_get_i64(c.out[2].either, 0) : z0;
            VN_ASSERT(t, zero == z0 || zero == z1);
            for (int i = 0; i < N && zero == z0; ++i) {
                const float x = ((float *)c.in[0]->data)[i];
                const volatile float q = how ? x * (1 / scale) : x / scale;
                const int64_t code = (int64_t)fmin(fmax(half_even((double)q) + (double)zero, 0), 255);
                const int64_t a = vn_tensor_get_i64(c.out[0].tensor, i), b = c.out[0].either ? vn_tensor_get_i64(c.out[0].either, i) : a;
                if (code != a && code != b)
                    vn_test_fail(t, __FILE__, __LINE__, "x %a: code %lld, oracle %lld or %lld", (double)x, (long long)code, (long long)a,
                                 (long long)b);
            }
        }
        one_free(&c);
    }
    const double none[] = {0, 0};
    one_node_t z = {
        .op = "DynamicQuantizeLinear", .version = 11, .n_in = 1, .n_out = 3, .want = VN_WANT_BOUND, .in = {one_vector(t, VN_F32, 2, none)}};
    one_run(t, &z);
    for (int k = 0; k < 3; ++k) VN_ASSERT(t, z.out[k].flags && z.out[k].flags[0] == VN_EL_VOID);
    one_free(&z);
}

VN_TEST_MAIN(VN_CASE(quantise, codes_against_the_text), VN_CASE(quantise, ties_with_exact_quotients_are_demanded),
             VN_CASE(quantise, granularity), VN_CASE(quantise, small_float_codes), VN_CASE(quantise, types_by_attribute),
             VN_CASE(quantise, dequantise_true_tight_sharp), VN_CASE(quantise, dynamic))
