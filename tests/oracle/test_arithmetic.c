/* Claims ELEM-1, ELEM-7, ELEM-9 to ELEM-11, ELEM-INT, BCAST: operators on several operands, floats against MPFR, integers against slow twins. */
#include <mpfr.h>

#include "oracle/elementwise.h"
#include "oracle/one_node.h"

__extension__ typedef __int128 wide_t;
__extension__ typedef unsigned __int128 uwide_t;

/* ---- one rounding ---- */

static double random_float(vn_rng_t *rng, int spread) {
    const double m = 0.5 + vn_rng_uniform(rng) / 2;
    return ldexp(m, (int)vn_rng_below(rng, (uint64_t)spread) - spread / 2) * (vn_rng_below(rng, 2) ? 1 : -1);
}

static vn_tensor_t *random_vector(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type, int64_t n, int spread) {
    vn_tensor_t *x = one_tensor(t, type, 1, &n);
    for (int64_t i = 0; i < n; ++i) vn_tensor_set_f64(x, i, random_float(rng, spread));
    return x;
}

static void exact_pair(mpfr_t y, const char *op, double a, double b) {
    mpfr_set_d(y, a, MPFR_RNDN);
    if (!strcmp(op, "Add")) mpfr_add_d(y, y, b, MPFR_RNDN);
    if (!strcmp(op, "Sub")) mpfr_sub_d(y, y, b, MPFR_RNDN);
    if (!strcmp(op, "Mul")) mpfr_mul_d(y, y, b, MPFR_RNDN);
    if (!strcmp(op, "Div")) mpfr_div_d(y, y, b, MPFR_RNDN);
    if (!strcmp(op, "PRelu") && a < 0) mpfr_mul_d(y, y, b, MPFR_RNDN);
    if (!strcmp(op, "Pow")) {
        mpfr_t e;
        mpfr_init2(e, 200);
        mpfr_set_d(e, b, MPFR_RNDN);
        mpfr_pow(y, y, e, MPFR_RNDN);
        mpfr_clear(e);
    }
}

static double to_odd(const mpfr_t y) {
    mpfr_t z;
    mpfr_init2(z, 53);
    const int inexact = mpfr_set(z, y, MPFR_RNDZ);
    double d = mpfr_get_d(z, MPFR_RNDN);
    mpfr_clear(z);
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    if (inexact && isfinite(d)) bits |= 1;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static const char *const pairs[] = {"Add", "Sub", "Mul", "Div", "PRelu", "Pow"};

static void check_pairs(vn_test_t *t, vn_dtype_t type, int64_t n, int spread) {
    vn_rng_t rng = vn_test_rng(t);
    const vn_format_t f = vn_format_of(type);
    mpfr_t y, d;
    mpfr_init2(y, 2400); /* sums of f64 far apart are exact */
    mpfr_init2(d, 2400);
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k) {
        one_node_t c = {.op = pairs[k], .version = 16, .n_in = 2, .want = VN_WANT_VARIANCE, .contract = "ieee"};
        const bool pow_op = !strcmp(pairs[k], "Pow");
        c.in[0] = random_vector(t, &rng, type, n, pow_op ? 8 : spread);
        c.in[1] = random_vector(t, &rng, type, n, pow_op ? 6 : spread);
        one_run(t, &c);
        const vn_ref_t *r = &c.out[0];
        VN_ASSERT(t, r->demand_equal == !pow_op);
        for (int64_t i = 0; i < n; ++i) {
            const double a = vn_tensor_get_f64(c.in[0], i), b = vn_tensor_get_f64(c.in[1], i);
            exact_pair(y, pairs[k], a, b);
            if (!mpfr_number_p(y)) continue;
            if (!pow_op) {
                const double want = type == VN_F64 ? mpfr_get_d(y, MPFR_RNDN) : vn_round_to(f, to_odd(y), VN_RNE, false);
                const double got = vn_tensor_get_f64(r->tensor, i);
                if (want != got) vn_test_fail(t, __FILE__, __LINE__, "%s(%a, %a) = %a, exactly %a", pairs[k], a, b, got, want);
            }
            if (!isfinite(r->value[i])) continue;
            mpfr_set_d(d, r->value[i], MPFR_RNDN);
            if (r->lo) mpfr_add_d(d, d, r->lo[i], MPFR_RNDN);
            mpfr_sub(d, d, y, MPFR_RNDN);
            const double off = fabs(mpfr_get_d(d, MPFR_RNDA));
            const double own = pow_op ? r->own[i] : type == VN_F64 ? 0x1p-100 * fabs(r->value[i]) : 0x1p-52 * fabs(r->value[i]);
            if (!(off <= own + 0x1p-1074)) vn_test_fail(t, __FILE__, __LINE__, "%s(%a, %a): off by %a, own %a", pairs[k], a, b, off, own);
        }
        one_free(&c);
    }
    mpfr_clear(y);
    mpfr_clear(d);
}

VN_TEST(arithmetic, one_rounding_f32) { check_pairs(t, VN_F32, 400 * vn_test_scale(t), 100); }
VN_TEST(arithmetic, one_rounding_f16) { check_pairs(t, VN_F16, 400 * vn_test_scale(t), 30); }
VN_TEST(arithmetic, one_rounding_bf16) { check_pairs(t, VN_BF16, 400 * vn_test_scale(t), 100); }
VN_TEST(arithmetic, one_rounding_f64) { check_pairs(t, VN_F64, 200 * vn_test_scale(t), 200); }

/* x * (1/y) lies in the second tier, 4u off lies outside; ieee has no second tier. */
VN_TEST(arithmetic, quotient_by_reciprocal) {
    vn_rng_t rng = vn_test_rng(t);
    one_node_t c = {.op = "Div", .version = 14, .n_in = 2, .want = VN_WANT_BOUND};
    c.in[0] = random_vector(t, &rng, VN_F32, 4000, 60);
    c.in[1] = random_vector(t, &rng, VN_F32, 4000, 60);
    one_run(t, &c);
    const vn_ref_t *r = &c.out[0];
    VN_ASSERT_STR(t, r->wide_note, "reciprocal-quotient");
    int beyond = 0;
    for (int64_t i = 0; i < r->count; ++i) {
        const float a = ((float *)c.in[0]->data)[i], b = ((float *)c.in[1]->data)[i], q = a * (1.0f / b);
        VN_ASSERT_LE(t, fabs((double)q - r->value[i]), r->wide[i]);
        VN_ASSERT_LT(t, r->wide[i], 4 * 0x1p-24 * fabs(r->value[i]) + 0x1p-120);
        beyond += fabs((double)q - r->value[i]) > r->bound[i];
    }
    VN_ASSERT(t, beyond > 100);
    one_free(&c);
    one_node_t strict = {.op = "Div",
                         .version = 14,
                         .n_in = 2,
                         .want = VN_WANT_BOUND,
                         .contract = "ieee",
                         .in = {one_scalar(t, VN_F32, 1), one_scalar(t, VN_F32, 3)}};
    one_run(t, &strict);
    VN_ASSERT(t, strict.out[0].wide == NULL && strict.out[0].demand_equal);
    one_free(&strict);
}

/* daz: tau |b| for a subnormal a. */
VN_TEST(arithmetic, daz_operand) {
    one_node_t c = {.op = "Mul",
                    .version = 14,
                    .n_in = 2,
                    .want = VN_WANT_BOUND,
                    .contract = "subnormals=daz",
                    .in = {one_scalar(t, VN_F32, 1e-39), one_scalar(t, VN_F32, 1e20)}};
    one_run(t, &c);
    VN_ASSERT_GE(t, c.out[0].bound[0], c.out[0].value[0]);
    VN_ASSERT(t, !c.out[0].demand_equal);
    one_free(&c);
}

/* ---- pow, mod: edge tables of C and of the text ---- */

static void pair_gives(vn_test_t *t, const char *op, int version, int fmod_attr, double a, double b, double want) {
    one_node_t c = {
        .op = op, .version = version, .n_in = 2, .in = {one_scalar(t, VN_F32, a), one_scalar(t, VN_F32, b)}, .want = VN_WANT_BOUND};
    if (fmod_attr >= 0) c.attrs[0] = (one_attr_t){"fmod", ONE_INT, fmod_attr, NULL};
    one_run(t, &c);
    const double got = vn_tensor_get_f64(c.out[0].tensor, 0);
    if (!(isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want)))
        vn_test_fail(t, __FILE__, __LINE__, "%s(%g, %g) = %g, expected %g", op, a, b, got, want);
    one_free(&c);
}

VN_TEST(arithmetic, pow_and_mod_specials) {
    static const double pow_table[][3] = {
        {0, 0, 1},
        {NAN, 0, 1},
        {1, NAN, 1},
        {-2, 3, -8},
        {-2, 0.5, NAN},
        {0, -1, INFINITY},
        {-0.0, -1, -INFINITY},
        {-0.0, 3, -0.0},
        {-1, INFINITY, 1},
        {0.5, INFINITY, 0},
        {2, -INFINITY, 0},
        {-INFINITY, 3, -INFINITY},
        {-INFINITY, -3, -0.0},
        {2, 10, 1024},
    };
    for (size_t k = 0; k < sizeof pow_table / sizeof *pow_table; ++k)
        pair_gives(t, "Pow", 15, -1, pow_table[k][0], pow_table[k][1], pow_table[k][2]);
    static const double fmod_table[][3] = {
        {5.5, 2, 1.5}, {-5.5, 2, -1.5}, {5.5, -2, 1.5}, {INFINITY, 2, NAN}, {2, 0, NAN}, {2, INFINITY, 2}, {NAN, 1, NAN}, {-4, 2, -0.0},
    };
    for (size_t k = 0; k < sizeof fmod_table / sizeof *fmod_table; ++k)
        pair_gives(t, "Mod", 13, 1, fmod_table[k][0], fmod_table[k][1], fmod_table[k][2]);
    static const double floor_table[][3] = {
        {5.5, 2, 1.5}, {-5.5, 2, 0.5}, {5.5, -2, -0.5}, {-5.5, -2, -1.5}, {2, INFINITY, 2}, {-2, INFINITY, INFINITY},
        {-0.0, 3, 0},  {0, -3, -0.0},  {4, -2, -0.0},   {1, 0, NAN},
    };
    for (size_t k = 0; k < sizeof floor_table / sizeof *floor_table; ++k)
        pair_gives(t, "Mod", 28, 0, floor_table[k][0], floor_table[k][1], floor_table[k][2]);
    one_node_t bad = {.op = "Mod", .version = 13, .n_in = 2, .in = {one_scalar(t, VN_F32, 1), one_scalar(t, VN_F32, 1)}};
    VN_ASSERT_EQ(t, one_try(t, &bad), VN_ERR_DTYPE);
    one_free(&bad);
}

/* ---- integers ---- */

static const vn_dtype_t int_types[] = {VN_U8, VN_I8, VN_U16, VN_I16, VN_U32, VN_I32, VN_U64, VN_I64};

static wide_t as_wide(vn_dtype_t type, int64_t v) { return type == VN_U64 ? (wide_t)(uint64_t)v : (wide_t)v; }

static int64_t random_int(vn_rng_t *rng, vn_dtype_t type) {
    const int64_t corners[] = {0, 1, -1, 2, 3, 7, vn_int_min(type), vn_int_max(type), vn_int_max(type) - 1};
    if (vn_rng_below(rng, 3) == 0) return vn_wrap(type, corners[vn_rng_below(rng, 9)]);
    const int64_t v = (int64_t)(vn_rng_u64(rng) >> vn_rng_below(rng, 63));
    return vn_wrap(type, vn_rng_below(rng, 2) ? v : -v);
}

/* Repeated subtraction on magnitudes would be slow; the twin divides in 128 bits by a binary loop of its own. */
static wide_t slow_div(wide_t a, wide_t b) {
    const bool negative = (a < 0) != (b < 0);
    const wide_t n = a < 0 ? -a : a, d = b < 0 ? -b : b;
    wide_t rest = 0, q = 0;
    for (int k = 70; k >= 0; --k) {
        rest = rest * 2 + (n >> k & 1);
        q *= 2;
        if (rest >= d) rest -= d, q += 1;
    }
    return negative ? -q : q;
}

static int64_t slow_wrap(vn_dtype_t type, wide_t v) {
    const int bits = vn_dtype_bits(type);
    const wide_t modulus = (wide_t)1 << bits;
    v %= modulus;
    if (v < 0) v += modulus;
    if (vn_dtype_kind(type) == VN_KIND_SIGNED && v >= modulus / 2) v -= modulus;
    return (int64_t)(uint64_t)v;
}

VN_TEST(arithmetic, integers_against_twins) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 300 };
    for (size_t k = 0; k < sizeof int_types / sizeof *int_types; ++k) {
        const vn_dtype_t type = int_types[k];
        int64_t a[N], b[N];
        for (int i = 0; i < N; ++i) a[i] = random_int(&rng, type), b[i] = random_int(&rng, type);
        static const char *const ops[] = {"Add", "Sub", "Mul", "Div", "Mod", "Mod"};
        for (int o = 0; o < 6; ++o) {
            one_node_t c = {
                .op = ops[o], .version = 14, .n_in = 2, .want = VN_WANT_BOUND, .in = {one_ints(t, type, N, a), one_ints(t, type, N, b)}};
            if (o == 5) c.attrs[0] = (one_attr_t){"fmod", ONE_INT, 1, NULL};
            one_run(t, &c);
            bool zero_seen = false;
            for (int i = 0; i < N; ++i) {
                const wide_t x = as_wide(type, a[i]), y = as_wide(type, b[i]);
                const bool undefined = o >= 3 && y == 0;
                zero_seen |= undefined;
                if (undefined) {
                    VN_ASSERT(t, c.out[0].flags && (c.out[0].flags[i] & VN_EL_VOID));
                    continue;
                }
                wide_t want = 0;
                if (o == 0) want = x + y;
                if (o == 1) want = x - y;
                if (o == 2) want = (wide_t)((uwide_t)x * (uwide_t)y); /* low bits are all that count */
                if (o == 3) want = slow_div(x, y);
                if (o >= 4) want = x - slow_div(x, y) * y;
                if (o == 4 && want != 0 && (want < 0) != (y < 0)) want += y;
                const int64_t got = vn_tensor_get_i64(c.out[0].tensor, i);
                if (got != slow_wrap(type, want))
                    vn_test_fail(t, __FILE__, __LINE__, "%s %s: %lld, %lld: %lld", vn_dtype_name(type), ops[o], (long long)a[i],
                                 (long long)b[i], (long long)got);
            }
            VN_ASSERT(t, o < 3 || zero_seen);
            one_free(&c);
        }
    }
}

VN_TEST(arithmetic, integer_overflow_readings) {
    const double a[] = {200, 3}, b[] = {250, 2};
    one_node_t c = {
        .op = "Sub", .version = 14, .n_in = 2, .want = VN_WANT_BOUND, .in = {one_vector(t, VN_U8, 2, a), one_vector(t, VN_U8, 2, b)}};
    one_run(t, &c);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, 0), 206);
    VN_ASSERT_EQ(t, c.out[0].n_readings, 1);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].readings[0].value, 0), 0);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].readings[0].value, 1), 1);
    one_free(&c);
    const double base[] = {2, -3, 10, 0, 7, -1, 2}, n[] = {31, 3, 9, 0, -2, -3, 62};
    const int64_t want[] = {-2147483648LL, -27, 1000000000, 1, 0, -1, 0};
    one_node_t p = {
        .op = "Pow", .version = 15, .n_in = 2, .want = VN_WANT_BOUND, .in = {one_vector(t, VN_I32, 7, base), one_vector(t, VN_I32, 7, n)}};
    one_run(t, &p);
    for (int i = 0; i < 7; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(p.out[0].tensor, i), want[i]);
    VN_ASSERT_EQ(t, p.out[0].n_readings, 2);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(p.out[0].readings[0].value, 0), 2147483647);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(p.out[0].readings[1].value, 0), -2147483648LL); /* through floating point */
    one_free(&p);
    const double fb[] = {4, 27, 10}, fe[] = {0.5, 1.0 / 3, -1};
    one_node_t q = {
        .op = "Pow", .version = 15, .n_in = 2, .want = VN_WANT_BOUND, .in = {one_vector(t, VN_I64, 3, fb), one_vector(t, VN_F32, 3, fe)}};
    one_run(t, &q);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(q.out[0].tensor, 0), 2);
    VN_ASSERT(t, q.out[0].either && vn_tensor_get_i64(q.out[0].either, 0) == 1); /* a pow that gives 1.9999999 */
    VN_ASSERT_EQ(t, vn_tensor_get_i64(q.out[0].tensor, 1), 3);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(q.out[0].tensor, 2), 0);
    one_free(&q);
}

VN_TEST(arithmetic, shifts_and_bits) {
    const double x[] = {-8, -1, -128, 3, 3, 64}, s[] = {1, 1, 7, 8, -1, 1};
    const int64_t right[] = {-4, -1, -1, 0, 0, 32}, left[] = {-16, -2, 0, 0, 0, -128};
    for (int dir = 0; dir < 2; ++dir) {
        one_node_t c = {.op = "BitShift",
                        .version = 28,
                        .n_in = 2,
                        .want = VN_WANT_BOUND,
                        .in = {one_vector(t, VN_I8, 6, x), one_vector(t, VN_I8, 6, s)},
                        .attrs = {{"direction", ONE_TEXT, 0, dir ? "LEFT" : "RIGHT"}}};
        one_run(t, &c);
        for (int i = 0; i < 6; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(c.out[0].tensor, i), (dir ? left : right)[i]);
        VN_ASSERT_EQ(t, c.out[0].n_readings, 0);
        one_free(&c);
    }
    const double u[] = {1, 255}, v[] = {9, 4};
    one_node_t old = {.op = "BitShift",
                      .version = 11,
                      .n_in = 2,
                      .want = VN_WANT_BOUND,
                      .in = {one_vector(t, VN_U8, 2, u), one_vector(t, VN_U8, 2, v)},
                      .attrs = {{"direction", ONE_TEXT, 0, "LEFT"}}};
    one_run(t, &old);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(old.out[0].tensor, 0), 0);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(old.out[0].tensor, 1), 240);
    VN_ASSERT(t, old.out[0].n_readings == 1 && vn_tensor_get_i64(old.out[0].readings[0].value, 0) == 2);
    one_free(&old);
    one_node_t n = {.op = "BitwiseNot", .version = 18, .n_in = 1, .in = {one_vector(t, VN_U16, 2, u)}};
    one_run(t, &n);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(n.out[0].tensor, 0), 65534);
    one_free(&n);
    const double p[] = {0, 1, 0, 1}, q[] = {0, 0, 1, 1};
    one_node_t lx = {.op = "Xor", .version = 7, .n_in = 2, .in = {one_vector(t, VN_BOOL, 4, p), one_vector(t, VN_BOOL, 4, q)}};
    one_run(t, &lx);
    for (int i = 0; i < 4; ++i) VN_ASSERT_EQ(t, vn_tensor_get_i64(lx.out[0].tensor, i), (int)p[i] ^ (int)q[i]);
    one_free(&lx);
}

/* ---- Max Min Sum Mean Clip ---- */

VN_TEST(arithmetic, max_with_nan) {
    const double a[] = {NAN, 1, -0.0}, b[] = {0, NAN, 0.0};
    one_node_t c = {
        .op = "Max", .version = 13, .n_in = 2, .want = VN_WANT_BOUND, .in = {one_vector(t, VN_F32, 3, a), one_vector(t, VN_F32, 3, b)}};
    one_run(t, &c);
    VN_ASSERT(t, isnan(vn_tensor_get_f64(c.out[0].tensor, 0)) && isnan(vn_tensor_get_f64(c.out[0].tensor, 1)));
    VN_ASSERT_EQ(t, c.out[0].n_readings, 3);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].readings[0].value, 0), 0);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].readings[0].value, 1), 1);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].readings[1].value, 0), 0); /* the later operand */
    VN_ASSERT(t, isnan(vn_tensor_get_f64(c.out[0].readings[1].value, 1)));
    VN_ASSERT(t, isnan(vn_tensor_get_f64(c.out[0].readings[2].value, 0)));
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].readings[2].value, 1), 1); /* the earlier operand */
    VN_ASSERT(t, c.out[0].flags && c.out[0].flags[2] == VN_EL_ZERO_OK);
    one_free(&c);
    const int64_t u[] = {-1, 5}, v[] = {3, 9}; /* -1: the largest u64 */
    one_node_t m = {.op = "Min", .version = 13, .n_in = 2, .in = {one_ints(t, VN_U64, 2, u), one_ints(t, VN_U64, 2, v)}};
    one_run(t, &m);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(m.out[0].tensor, 0), 3);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(m.out[0].tensor, 1), 5);
    one_free(&m);
}

VN_TEST(arithmetic, sum_and_mean_true_tight_sharp) {
    vn_rng_t rng = vn_test_rng(t);
    enum { N = 2000, K = 5 };
    for (int mean = 0; mean < 2; ++mean) {
        one_node_t c = {.op = mean ? "Mean" : "Sum", .version = 13, .n_in = K, .want = VN_WANT_VARIANCE};
        for (int k = 0; k < K; ++k) c.in[k] = random_vector(t, &rng, VN_F32, N, 10);
        one_run(t, &c);
        const vn_ref_t *r = &c.out[0];
        int close = 0;
        double ratio = 0;
        for (int64_t i = 0; i < N; ++i) {
            float s = 0;
            double sizes = 0;
            long double exact = 0;
            for (int k = 0; k < K; ++k) {
                const float x = ((float *)c.in[k]->data)[i];
                s = k ? s + x : x;
                sizes += fabs((double)x);
                exact += x;
            }
            if (mean) s *= 1.0f / K, exact /= K;
            VN_ASSERT_LE(t, fabs((double)(exact - r->value[i])), 0x1p-50 * sizes);
            VN_ASSERT_LE(t, fabs((double)s - r->value[i]), r->bound[i]);
            VN_ASSERT_LE(t, r->bound[i], (K + 1.01) * 0x1p-24 * sizes / (mean ? K : 1) + 0x1p-148);
            ratio += pow((double)s - r->value[i], 2) / r->var[i];
            close += fabs((double)s - r->value[i]) > 0.1 * r->bound[i];
        }
        VN_ASSERT(t, close > N / 50);
        VN_ASSERT(t, ratio / N < 2 && ratio / N > 0.1); /* the variance is that of a sequential sum, or of the worst order */
        one_free(&c);
    }
}

VN_TEST(arithmetic, clip_rules) {
    const double x[] = {-3, 0.5, 9, NAN, INFINITY};
    one_node_t c = {.op = "Clip",
                    .version = 13,
                    .n_in = 3,
                    .want = VN_WANT_BOUND,
                    .in = {one_vector(t, VN_F32, 5, x), one_scalar(t, VN_F32, 2), one_scalar(t, VN_F32, 1)}};
    one_run(t, &c); /* min above max: everything becomes max */
    for (int i = 0; i < 3; ++i) VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].tensor, i), 1);
    VN_ASSERT(t, isnan(vn_tensor_get_f64(c.out[0].tensor, 3)) && c.out[0].n_readings == 2);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c.out[0].readings[0].value, 3), 2);
    one_free(&c);
    one_node_t open = {
        .op = "Clip", .version = 13, .n_in = 2, .want = VN_WANT_BOUND, .in = {one_vector(t, VN_F32, 5, x), one_scalar(t, VN_F32, 0)}};
    one_run(t, &open);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(open.out[0].tensor, 4), 0x1.fffffep127);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(open.out[0].readings[open.out[0].n_readings - 1].value, 4), INFINITY);
    one_free(&open);
    const int64_t v[] = {-5, 7, 300};
    one_node_t ints = {.op = "Clip", .version = 13, .n_in = 3, .in = {one_ints(t, VN_I64, 3, v), NULL, one_scalar(t, VN_I64, 100)}};
    one_run(t, &ints);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(ints.out[0].tensor, 2), 100);
    VN_ASSERT_EQ(t, vn_tensor_get_i64(ints.out[0].tensor, 0), -5);
    one_free(&ints);
}

/* ---- broadcasting against index arithmetic ---- */

VN_TEST(arithmetic, broadcast_against_indices) {
    static const int64_t shapes[][2][4] = {
        {{2, 3, 4, 5}, {2, 3, 4, 5}}, {{2, 3, 4, 5}, {1, 1, 1, 1}}, {{2, 3, 4, 5}, {1, 3, 1, 1}}, {{2, 3, 4, 5}, {1, 1, 1, 5}},
        {{1, 3, 1, 5}, {2, 1, 4, 1}}, {{2, 1, 4, 5}, {1, 3, 4, 1}}, {{0, 3, 4, 5}, {1, 3, 1, 5}}, {{2, 3, 700, 3}, {1, 1, 1, 3}},
    };
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; ++k) {
        one_node_t c = {.op = "Sub", .version = 14, .n_in = 2, .want = VN_WANT_BOUND};
        for (int o = 0; o < 2; ++o) {
            c.in[o] = one_tensor(t, VN_F32, 4, shapes[k][o]);
            for (int64_t i = 0; i < c.in[o]->count; ++i) vn_tensor_set_f64(c.in[o], i, (double)(i + 1) * (o ? 0.25 : 3));
        }
        one_run(t, &c);
        const vn_ref_t *r = &c.out[0];
        VN_ASSERT_EQ(t, r->rank, 4);
        for (int64_t i = 0; i < r->count; ++i) {
            int64_t rest = i, at[2] = {0, 0}, step[2] = {1, 1};
            for (int d = 3; d >= 0; --d) {
                const int64_t index = rest % r->dims[d];
                rest /= r->dims[d];
                for (int o = 0; o < 2; ++o) {
                    if (shapes[k][o][d] != 1) at[o] += index * step[o];
                    step[o] *= shapes[k][o][d];
                }
            }
            VN_ASSERT_DEQ(t, r->value[i], (double)(at[0] + 1) * 3 - (double)(at[1] + 1) * 0.25);
        }
        one_free(&c);
    }
    one_node_t bad = {.op = "Add", .version = 14, .n_in = 2};
    bad.in[0] = one_tensor(t, VN_F32, 1, (const int64_t[]){3});
    bad.in[1] = one_tensor(t, VN_F32, 1, (const int64_t[]){4});
    VN_ASSERT_EQ(t, one_try(t, &bad), VN_ERR_SHAPE);
    VN_ASSERT_HAS(t, bad.err.text, "does not broadcast");
    one_free(&bad);
}

/* The same bits for every number of threads. */
VN_TEST(arithmetic, threads_do_not_matter) {
    vn_rng_t rng = vn_test_rng(t);
    one_node_t c = {.op = "Pow", .version = 15, .n_in = 2, .want = VN_WANT_VARIANCE};
    c.in[0] = random_vector(t, &rng, VN_F32, 100000, 20);
    c.in[1] = one_scalar(t, VN_F32, 1.7);
    const int before = vn_threads_get();
    vn_threads_set(1);
    one_run(t, &c);
    one_node_t d = c;
    memset(d.out, 0, sizeof d.out);
    vn_threads_set(7);
    one_run(t, &d);
    vn_threads_set(before);
    VN_ASSERT(t, vn_tensor_equal_bits(c.out[0].tensor, d.out[0].tensor));
    VN_ASSERT(t, memcmp(c.out[0].bound, d.out[0].bound, 100000 * sizeof(double)) == 0);
    VN_ASSERT(t, (c.out[0].flags != NULL) == (d.out[0].flags != NULL));
    if (c.out[0].flags) VN_ASSERT(t, memcmp(c.out[0].flags, d.out[0].flags, 100000) == 0);
    vn_ref_free(&d.out[0]);
    one_free(&c);
}

VN_TEST_MAIN(VN_CASE(arithmetic, one_rounding_f32), VN_CASE(arithmetic, one_rounding_f16), VN_CASE(arithmetic, one_rounding_bf16),
             VN_CASE(arithmetic, one_rounding_f64), VN_CASE(arithmetic, quotient_by_reciprocal), VN_CASE(arithmetic, daz_operand),
             VN_CASE(arithmetic, pow_and_mod_specials), VN_CASE(arithmetic, integers_against_twins),
             VN_CASE(arithmetic, integer_overflow_readings), VN_CASE(arithmetic, shifts_and_bits), VN_CASE(arithmetic, max_with_nan),
             VN_CASE(arithmetic, sum_and_mean_true_tight_sharp), VN_CASE(arithmetic, clip_rules),
             VN_CASE(arithmetic, broadcast_against_indices), VN_CASE(arithmetic, threads_do_not_matter))
