/* Other arithmetics of functions, stores and rows (claims ARITH-1 to -3, -8 to -11, -14): planted, and faults that are none of them. */
#include "judge/name_case.h"

enum { N = 400 };
static double x[1 << 17], y[1 << 17], z[1 << 12];

static double f32(double v) { return (double)(float)v; }
static double f16(double v) { return vn_round_to(VN_FMT_F16, v, VN_RNE, false); }

static void one(vn_test_t *t, jc_t *c, const char *contract, const char *op, int64_t version, vn_dtype_t type, int64_t n) {
    jc_new(t, c, contract);
    jc_in(t, c, type, JC_DIMS(n), x);
    jc_op(t, c, op, version, 1);
    jc_oracle(t, c);
}

/* ---- exponentials ---- */

static double bits_exp(double v, double offset) {
    const double s = v * 1.4426950408889634 - offset, k = floor(s);
    return ldexp(1 + (s - k), (int)k);
}

VN_TEST(arith_functions, exponentials_of_exponent_bits_are_named) {
    static const double offsets[] = {0, 0.0430, 0.0580};
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < N; ++k) x[k] = f32(-6 + 12.0 * k / N);
    for (int o = 0; o < 3; ++o) {
        jc_t c;
        one(t, &c, "operand=f32,accumulator=f32,result=f32,function_ulp=4", "Exp", 13, VN_F32, N);
        for (int k = 0; k < N; ++k) y[k] = f32(bits_exp(x[k], offsets[o]));
        VN_ASSERT_CAUSE(t, &c, y, "fast-exp");
        for (int k = 0; k < N; ++k) y[k] = f32(exp(x[k]) * (1 + 0.02 * vn_rng_normal(&rng))); /* as far off, without the pattern */
        VN_ASSERT_NOT_CAUSE(t, &c, y, "fast-exp low-order coefficients");
        jc_free(&c);
        one(t, &c, "operand=f32,accumulator=f32,result=f32,function_ulp=4", "Tanh", 13, VN_F32, N);
        for (int k = 0; k < N; ++k) y[k] = f32(1 - 2 / (bits_exp(2 * x[k], offsets[o]) + 1));
        VN_ASSERT_CAUSE(t, &c, y, "fast-exp");
        jc_free(&c);
    }
}

VN_TEST(arith_functions, softmax_of_exponent_bits_is_named) {
    enum { R = 8, C = 40 };
    vn_rng_t rng = vn_test_rng(t);
    nc_fill(&rng, x, R * C, 2);
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(R, C), x);
    jc_op(t, &c, "Softmax", 13, 1);
    jc_oracle(t, &c);
    for (int r = 0; r < R; ++r) {
        double top = x[r * C], sum = 0;
        for (int k = 1; k < C; ++k) top = fmax(top, x[r * C + k]);
        for (int k = 0; k < C; ++k) sum += bits_exp(x[r * C + k] - top, 0.0580);
        for (int k = 0; k < C; ++k) y[r * C + k] = f32(bits_exp(x[r * C + k] - top, 0.0580) / sum);
    }
    VN_ASSERT_CAUSE(t, &c, y, "fast-exp");
    jc_free(&c);
}

VN_TEST(arith_functions, a_missing_maximum_is_named_by_its_classes) {
    enum { R = 6, C = 12 };
    vn_rng_t rng = vn_test_rng(t);
    static const char *const ops[] = {"Softmax", "LogSoftmax"};
    for (int k = 0; k < R * C; ++k) x[k] = f32(70 + 30 * vn_rng_normal(&rng));
    x[0] = 120;
    for (int o = 0; o < 2; ++o) {
        jc_t c;
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(R, C), x);
        jc_op(t, &c, ops[o], 13, 1);
        VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "axis", 0, NULL));
        jc_oracle(t, &c);
        for (int k = 0; k < C; ++k) {
            float sum = 0;
            for (int r = 0; r < R; ++r) sum += expf((float)x[r * C + k]);
            for (int r = 0; r < R; ++r) {
                const float e = expf((float)x[r * C + k]);
                y[r * C + k] = (double)(o ? (float)x[r * C + k] - logf(sum) : e / sum);
            }
        }
        VN_ASSERT_CAUSE(t, &c, y, "no-max-subtraction");
        for (int k = 0; k < R * C; ++k) y[k] = f32(c.refs[0].value[k]);
        y[5] = NAN; /* a NaN that no overflow explains */
        VN_ASSERT_CAUSE(t, &c, y, "nan-produced");
        jc_free(&c);
    }
}

VN_TEST(arith_functions, differences_that_cancel_are_named) {
    for (int k = 0; k < N; ++k) x[k] = f32((k - N / 2) * 1e-5);
    jc_t c;
    one(t, &c, "operand=f32,accumulator=f32,result=f32,function_ulp=4", "Sinh", 9, VN_F32, N);
    for (int k = 0; k < N; ++k) y[k] = (double)((expf((float)x[k]) - expf(-(float)x[k])) / 2);
    VN_ASSERT_CAUSE(t, &c, y, "expm1-missing");
    for (int k = 0; k < N; ++k) y[k] = f32(c.refs[0].value[k] * 1.5);
    VN_ASSERT_NOT_CAUSE(t, &c, y, "expm1");
    jc_free(&c);
}

/* ---- approximations ---- */

/* Value of the degree-7 Taylor polynomial of sin with its coefficients rounded to `f`. */
static double sine(double v, vn_format_t f) {
    static const double coefficients[] = {1, -1. / 6, 1. / 120, -1. / 5040};
    double s = 0;
    for (int k = 3; k >= 0; --k) s = s * v * v + vn_round_to(f, coefficients[k], VN_RNE, false);
    return s * v;
}

VN_TEST(arith_functions, coarse_fits_are_named_as_functions_of_the_argument) {
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < N; ++k) x[k] = f32(3 * vn_rng_uniform(&rng) - 1.5);
    jc_t c;
    one(t, &c, "operand=f32,accumulator=f32,result=f32,function_ulp=4", "Sin", 7, VN_F32, N);
    for (int k = 0; k < N; ++k) y[k] = f32(sine(x[k], VN_FMT_F64));
    VN_ASSERT_CAUSE(t, &c, y, "low-order-fit");
    for (int k = 0; k < N; ++k) y[k] = f32(sine(x[k], VN_FMT_F16));
    VN_ASSERT_CAUSE(t, &c, y, "coefficients-f16");
    for (int k = 0; k < N; ++k) y[k] = f32(sin(x[k]) + 1e-4 * vn_rng_normal(&rng)); /* as large, not of the argument */
    VN_ASSERT_NOT_CAUSE(t, &c, y, "low-order coefficients");
    for (int k = 0; k < N; ++k) y[k] = f32(sin(x[(k + 1) % N]));
    VN_ASSERT_NOT_CAUSE(t, &c, y, "low-order coefficients");
    jc_free(&c);
}

/* ---- stores and flushes ---- */

VN_TEST(arith_functions, rounding_twice_is_named_where_it_tells) {
    static const vn_dtype_t types[] = {VN_F16, VN_BF16};
    vn_rng_t rng = vn_test_rng(t);
    for (int o = 0; o < 2; ++o) {
        const vn_format_t f = vn_format_of(types[o]);
        for (int k = 0; k < N; ++k) {
            const double v = vn_round_to(f, vn_rng_normal(&rng), VN_RNE, false), half = vn_ulp(f, v) / 2;
            x[k] = k % 4 ? vn_rng_normal(&rng) : v + half * (1 + (k % 8 ? 1e-10 : -1e-10));
        }
        jc_t c;
        jc_new(t, &c, "operand=f64,accumulator=f64,result=f64");
        jc_in(t, &c, VN_F64, JC_DIMS(N), x);
        jc_op(t, &c, "Cast", 19, 1);
        VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "to", types[o], NULL));
        jc_oracle(t, &c);
        for (int k = 0; k < N; ++k) y[k] = vn_round_to(f, f32(x[k]), VN_RNE, false);
        VN_ASSERT_CAUSE(t, &c, y, "double-rounding");
        y[3] += 4 * vn_ulp(f, y[3]); /* one wrong element beside: not this */
        VN_ASSERT_NOT_CAUSE(t, &c, y, "double");
        jc_free(&c);
    }
}

VN_TEST(arith_functions, flushes_foretell_every_element) {
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < 60; ++k) {
        x[k] = f32(k % 3 ? vn_rng_normal(&rng) * 0x1p-130 : vn_rng_normal(&rng));
        z[k] = f32(1e4 * (1 + vn_rng_uniform(&rng)));
        y[k] = fabs(x[k]) < 0x1p-126 ? 0 : f32(x[k] * z[k]);
    }
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(60), x);
    jc_in(t, &c, VN_F32, JC_DIMS(60), z);
    jc_op(t, &c, "Mul", 14, 1);
    jc_oracle(t, &c);
    VN_ASSERT_CAUSE(t, &c, y, "daz");
    y[0] = f32(x[0] * z[0] * 2);
    VN_ASSERT_NOT_CAUSE(t, &c, y, "daz ftz");
    jc_free(&c);
    for (int k = 0; k < 60; ++k) x[k] = f32((1 + k % 10) * -0x1p-130);
    jc_new(t, &c, "ieee"); /* an output of indices */
    jc_in(t, &c, VN_F32, JC_DIMS(6, 10), x);
    jc_op(t, &c, "ArgMin", 13, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "axis", 1, NULL));
    jc_oracle(t, &c);
    memset(y, 0, 6 * sizeof *y);
    VN_ASSERT_CAUSE(t, &c, y, "daz");
    y[2] = 4;
    VN_ASSERT_NOT_CAUSE(t, &c, y, "daz");
    jc_free(&c);
}

VN_TEST(arith_functions, rounded_reciprocals_are_named_by_their_steps) {
    for (int k = 0; k < 96; ++k) {
        z[k] = k % 2 ? 41 : 47;
        x[k] = (double)(k + 1) * z[k];
    }
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F32, JC_DIMS(96), x);
    jc_in(t, &c, VN_F32, JC_DIMS(96), z);
    jc_op(t, &c, "Mod", 13, 1);
    VN_ASSERT_OK(t, vn_node_set_int(c.model, c.node, "fmod", 1, NULL));
    jc_oracle(t, &c);
    int steps = 0;
    for (int k = 0; k < 96; ++k) {
        const float q = (float)x[k] * (1 / (float)z[k]);
        y[k] = x[k] - z[k] * trunc((double)q);
        steps += y[k] != 0;
    }
    VN_ASSERT_GT(t, steps, 0); /* 41 times the rounded 1/41 falls short of 1 */
    VN_ASSERT_CAUSE(t, &c, y, "reciprocal-quotient");
    y[5] = 1;
    VN_ASSERT_NOT_CAUSE(t, &c, y, "reciprocal");
    jc_free(&c);
}

/* ---- overflow of hidden f16 numbers ---- */

VN_TEST(arith_functions, squares_beyond_f16_are_named) {
    enum { R = 4, C = 32 };
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < R * C; ++k) x[k] = f16((k / C % 2 ? 500 : 3) * (1 + vn_rng_uniform(&rng)));
    for (int k = 0; k < C; ++k) z[k] = f16(1 + vn_rng_uniform(&rng));
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F16, JC_DIMS(R, C), x);
    jc_in(t, &c, VN_F16, JC_DIMS(C), z);
    jc_op(t, &c, "RMSNormalization", 23, 1);
    jc_oracle(t, &c);
    for (int k = 0; k < R * C; ++k) y[k] = k / C % 2 ? 0 : f16(c.refs[0].value[k]);
    VN_ASSERT_CAUSE(t, &c, y, "intermediate-f16-overflow");
    for (int k = 0; k < R * C; ++k) y[k] = k / C % 2 ? f16(c.refs[0].value[k]) : 0; /* rows that overflow nowhere */
    VN_ASSERT_NOT_CAUSE(t, &c, y, "intermediate-f16-overflow");
    jc_free(&c);
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_F16, JC_DIMS(R, C), x);
    jc_op(t, &c, "ReduceL2", 13, 1);
    const int64_t axes[] = {1};
    VN_ASSERT_OK(t, vn_node_set_ints(c.model, c.node, "axes", axes, 1, NULL));
    jc_oracle(t, &c);
    for (int k = 0; k < R; ++k) y[k] = k % 2 ? INFINITY : f16(c.refs[0].value[k]);
    VN_ASSERT_CAUSE(t, &c, y, "intermediate-f16-overflow");
    y[0] = INFINITY;
    VN_ASSERT_CAUSE(t, &c, y, "inf-produced");
    jc_free(&c);
}

VN_TEST(arith_functions, statistics_in_16_bits_are_named) {
    enum { R = 6, C = 48 };
    static const struct {
        vn_format_t format;
        const char *cause;
    } planted[] = {{VN_FMT_F16, "intermediate-f16"}, {VN_FMT_BF16, "intermediate-bf16"}};
    vn_rng_t rng = vn_test_rng(t);
    nc_fill(&rng, x, R * C, 1);
    nc_fill(&rng, z, C, 1);
    for (int p = 0; p < 2; ++p) {
        jc_t c;
        jc_new(t, &c, "ieee");
        jc_in(t, &c, VN_F32, JC_DIMS(R, C), x);
        jc_in(t, &c, VN_F32, JC_DIMS(C), z);
        jc_op(t, &c, "LayerNormalization", 17, 1);
        jc_oracle(t, &c);
        for (int r = 0; r < R; ++r) {
            double mean = 0, q = 0;
            for (int k = 0; k < C; ++k) mean += x[r * C + k] / C;
            for (int k = 0; k < C; ++k)
                q += vn_round_to(planted[p].format, (x[r * C + k] - mean) * (x[r * C + k] - mean), VN_RNE, false) / C;
            for (int k = 0; k < C; ++k) y[r * C + k] = f32((x[r * C + k] - mean) / sqrt(q + (double)1e-5f) * z[k]);
        }
        VN_ASSERT_CAUSE(t, &c, y, planted[p].cause);
        VN_ASSERT_HAS(t, c.found[0].words, "squares");
        jc_free(&c);
    }
}

VN_TEST(arith_functions, a_stalled_denominator_is_named) {
    enum { R = 3, C = 1500 };
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < R * C; ++k) x[k] = vn_round_to(VN_FMT_BF16, 0.1 * vn_rng_normal(&rng), VN_RNE, false);
    jc_t c;
    jc_new(t, &c, "ieee");
    jc_in(t, &c, VN_BF16, JC_DIMS(R, C), x);
    jc_op(t, &c, "Softmax", 13, 1);
    jc_oracle(t, &c);
    for (int r = 0; r < R; ++r) {
        double top = x[r * C], sum = 0;
        for (int k = 0; k < C; ++k) top = fmax(top, x[r * C + k]);
        for (int k = 0; k < C; ++k)
            sum = vn_round_to(VN_FMT_BF16, sum + vn_round_to(VN_FMT_BF16, exp(x[r * C + k] - top), VN_RNE, false), VN_RNE, false);
        VN_ASSERT_LE(t, sum, 512); /* 1500 numbers near 0.7: it has stalled */
        for (int k = 0; k < C; ++k) y[r * C + k] = exp(x[r * C + k] - top) / sum;
    }
    VN_ASSERT_CAUSE(t, &c, y, "accumulator-bf16");
    for (int k = 0; k < R * C; ++k) y[k] = 3 * c.refs[0].value[k]; /* too large alike, not by what a chain would have lost */
    VN_ASSERT_NOT_CAUSE(t, &c, y, "accumulator");
    jc_free(&c);
}

VN_TEST_MAIN(VN_CASE(arith_functions, exponentials_of_exponent_bits_are_named), VN_CASE(arith_functions, softmax_of_exponent_bits_is_named),
             VN_CASE(arith_functions, a_missing_maximum_is_named_by_its_classes),
             VN_CASE(arith_functions, differences_that_cancel_are_named),
             VN_CASE(arith_functions, coarse_fits_are_named_as_functions_of_the_argument),
             VN_CASE(arith_functions, rounding_twice_is_named_where_it_tells), VN_CASE(arith_functions, flushes_foretell_every_element),
             VN_CASE(arith_functions, rounded_reciprocals_are_named_by_their_steps), VN_CASE(arith_functions, squares_beyond_f16_are_named),
             VN_CASE(arith_functions, statistics_in_16_bits_are_named), VN_CASE(arith_functions, a_stalled_denominator_is_named))
