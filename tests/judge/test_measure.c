/* Rungs 3 to 5 (claim JUDGE-1): what one pass over the elements accepts, refuses and counts, element by element, for every class of value. */
#include "judge/judge_case.h"

/* ---- one element of f32 at a time ---- */

enum { OUT = 1, GOOD = 0 };

typedef struct element {
    const char *what;
    double value, bound, actual;
    uint8_t flags;
    int outside, unequal;
} element_t;

static const element_t elements[] = {
    {"equal", 1.5, 0.25, 1.5, 0, GOOD, 0},
    {"inside", 1.5, 0.25, 1.75, 0, GOOD, 1},
    {"one float beyond", 1.5, 0.25, 0x1.c00002p0, 0, OUT, 1},
    {"inside below", 1.5, 0.25, 1.25, 0, GOOD, 1},
    {"one float beyond below", 1.5, 0.25, 0x1.3ffffep0, 0, OUT, 1},
    {"the other zero", 0.0, 0.0, -0.0, 0, GOOD, 1},
    {"the other zero, turned", -0.0, 0.0, 0.0, 0, GOOD, 1},
    {"NaN for NaN", NAN, 0, NAN, 0, GOOD, 0},
    {"NaN for a number", 1, 9, NAN, 0, OUT, 1},
    {"NaN allowed", 1, 0, NAN, VN_EL_NAN_OK, GOOD, 1},
    {"a number for NaN", NAN, 9, 1, 0, OUT, 1},
    {"a number for NaN, allowed", NAN, 9, 1, VN_EL_NAN_OK, GOOD, 1},
    {"an infinity for NaN", NAN, 9, INFINITY, 0, OUT, 1},
    {"NaN for infinity", INFINITY, 9, NAN, 0, OUT, 1},
    {"infinity for infinity", -INFINITY, 0, -INFINITY, 0, GOOD, 0},
    {"the other infinity", INFINITY, 0, -INFINITY, 0, OUT, 1},
    {"the other infinity, allowed", INFINITY, 0, -INFINITY, VN_EL_INF_OK, GOOD, 1},
    {"infinity for a number", 3e38, 1e38, INFINITY, 0, OUT, 1},
    {"infinity for a number, allowed", 3e38, 1e30, INFINITY, VN_EL_INF_OK, GOOD, 1},
    {"a number for infinity", INFINITY, 1e38, 0x1.fffffep127, 0, OUT, 1},
    {"a number for infinity, allowed", INFINITY, 1e38, 0x1.fffffep127, VN_EL_INF_OK, GOOD, 1},
    {"overflow of the store", 1e39, 0, INFINITY, 0, GOOD, 0},
    {"no overflow although due", 1e39, 1e30, 0x1.fffffep127, 0, OUT, 1},
    {"zero allowed", 1, 0x1p-20, 0, VN_EL_ZERO_OK, GOOD, 1},
    {"minus zero allowed", 1, 0x1p-20, -0.0, VN_EL_ZERO_OK, GOOD, 1},
    {"zero not allowed", 1, 0x1p-20, 0, 0, OUT, 1},
    {"a zero permission is for zeros", 1, 0x1p-20, 2, VN_EL_ZERO_OK, OUT, 1},
    {"no statement", 1, 0, 7, VN_EL_VOID, GOOD, 1},
    {"no statement on NaN", 1, 0, NAN, VN_EL_VOID, GOOD, 1},
    {"infinite bound", 1, INFINITY, 1e30, 0, GOOD, 1},
    {"infinite bound is none for NaN", 1, INFINITY, NAN, 0, OUT, 1},
    {"subnormals", 0x1p-140, 0x1p-149, 0x1p-140 + 0x1p-149, 0, GOOD, 1},
    {"subnormals beyond", 0x1p-140, 0x1p-149, 0x1p-140 + 0x1p-148, 0, OUT, 1},
};
enum { ELEMENTS = sizeof elements / sizeof *elements };

/* A reference of one f32 element; planes point to the caller's doubles. */
static vn_ref_t one_ref(vn_test_t *t, const double *value, const double *bound, const uint8_t *flags) {
    vn_ref_t r = {.dtype = VN_F32,
                  .rank = 1,
                  .dims = {1},
                  .count = 1,
                  .value = (double *)(uintptr_t)value,
                  .bound = (double *)(uintptr_t)bound,
                  .flags = (uint8_t *)(uintptr_t)flags};
    r.tensor = jc_tensor(t, VN_F32, JC_DIMS(1), value);
    return r;
}

static vn_measure_t measured(vn_test_t *t, const vn_ref_t *r, vn_dtype_t type, double actual) {
    vn_measure_t m;
    vn_tensor_t *x = jc_tensor(t, type, JC_DIMS(1), &actual);
    VN_ASSERT_OK(t, vn_measure(r, x, &m, NULL));
    vn_tensor_free(x);
    return m;
}

VN_TEST(measure, each_class_of_value) {
    for (int i = 0; i < ELEMENTS; ++i) {
        const element_t *e = &elements[i];
        vn_ref_t r = one_ref(t, &e->value, &e->bound, &e->flags);
        const vn_measure_t m = measured(t, &r, VN_F32, e->actual);
        if (m.outside != e->outside || m.unequal != e->unequal)
            vn_test_fail(t, __FILE__, __LINE__, "%s: outside %lld, unequal %lld", e->what, (long long)m.outside, (long long)m.unequal);
        VN_ASSERT_EQ(t, m.first_outside, e->outside ? 0 : -1);
        VN_ASSERT_EQ(t, m.first_unequal, e->unequal ? 0 : -1);
        VN_ASSERT_EQ(t, m.classes != 0, e->outside && (!isfinite(e->actual) || !isfinite(e->value)));
        vn_tensor_free(r.tensor);
    }
}

VN_TEST(measure, reasons_are_counted_apart) {
    const double one = 1, nan = NAN, inf = INFINITY, none = 0;
    vn_ref_t r = one_ref(t, &one, &none, NULL);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, NAN).nan_extra, 1);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, INFINITY).inf_extra, 1);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 0).zero_extra, 1);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 2).zero_extra, 0);
    VN_ASSERT(t, isinf(measured(t, &r, VN_F32, INFINITY).worst_ratio));
    vn_tensor_free(r.tensor);
    r = one_ref(t, &nan, &none, NULL);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 0).nan_missing, 1);
    vn_tensor_free(r.tensor);
    r = one_ref(t, &inf, &none, NULL);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 1).inf_missing, 1);
    vn_tensor_free(r.tensor);
}

VN_TEST(measure, payload_of_nan_is_free_and_its_sign) {
    const double nan = NAN, none = 0;
    vn_ref_t r = one_ref(t, &nan, &none, NULL);
    for (int i = 0; i < 3; ++i) {
        static const uint32_t bits[] = {0x7fc00000u, 0xffc12345u, 0x7f800001u};
        vn_tensor_t *x = jc_tensor(t, VN_F32, JC_DIMS(1), &none);
        vn_measure_t m;
        memcpy(x->data, &bits[i], 4);
        VN_ASSERT_OK(t, vn_measure(&r, x, &m, NULL));
        VN_ASSERT_EQ(t, m.unequal, 0);
        VN_ASSERT_EQ(t, m.outside, 0);
        vn_tensor_free(x);
    }
    vn_tensor_free(r.tensor);
}

VN_TEST(measure, own_error_of_the_oracle_widens) {
    const double value = 1.5, bound = 0x1p-22, own = 0x1p-22;
    vn_ref_t r = one_ref(t, &value, &bound, NULL);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 1.5 + 0x1p-21).outside, 1); /* own is 2^-52 |y| unless stated */
    r.own = (double *)(uintptr_t)&own;
    const vn_measure_t m = measured(t, &r, VN_F32, 1.5 + 0x1p-21);
    VN_ASSERT_EQ(t, m.outside, 0);
    VN_ASSERT_DEQ(t, m.worst_ratio, 1);
    VN_ASSERT_DEQ(t, m.oracle_ratio, 1);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 1.5 + 0x1.8p-21).outside, 1);
    vn_tensor_free(r.tensor);
}

VN_TEST(measure, one_rounding_demands_its_bits) {
    const double value = 1 + 0x1p-25, bound = 0x1p-23, tiny = 0x1p-130, tau = 0x1p-126;
    vn_ref_t r = one_ref(t, &value, &bound, NULL);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 1 + 0x1p-23).outside, 0);
    r.demand_equal = true;
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 1 + 0x1p-23).outside, 1);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 1).outside, 0);
    vn_tensor_free(r.tensor);
    r = one_ref(t, &tiny, &tau, NULL); /* a contract that flushes shows in the bound: zero passes, another subnormal does not */
    r.demand_equal = true;
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 0).outside, 0);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, -0.0).outside, 0);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 0x1p-131).outside, 1);
    vn_tensor_free(r.tensor);
}

VN_TEST(measure, second_value_and_second_tier) {
    const double value = 2, bound = 0, wide = 1, other = 3, far = 5;
    vn_ref_t r = one_ref(t, &value, &bound, NULL);
    r.either = jc_tensor(t, VN_F32, JC_DIMS(1), &other);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 3).outside, 0);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 3).unequal, 1);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 2.5).outside, 1);
    r.wide = (double *)(uintptr_t)&wide;
    vn_measure_t m = measured(t, &r, VN_F32, 2.5);
    VN_ASSERT_EQ(t, m.outside, 0);
    VN_ASSERT_EQ(t, m.wide_used, 1);
    m = measured(t, &r, VN_F32, 3); /* the second value needs no second tier */
    VN_ASSERT_EQ(t, m.wide_used, 0);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 3.5).outside, 1);
    vn_tensor_free(r.either);
    r.either = jc_tensor(t, VN_F32, JC_DIMS(1), &(const double){INFINITY});
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, INFINITY).outside, 0);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, -INFINITY).outside, 1);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, far).outside, 1);
    vn_tensor_free(r.either);
    vn_tensor_free(r.tensor);
}

VN_TEST(measure, moved_bits_keep_the_sign_of_zero) {
    const double zero = 0, minus = -0.0;
    vn_ref_t r = {.dtype = VN_F32, .rank = 1, .dims = {1}, .count = 1, .tensor = jc_tensor(t, VN_F32, JC_DIMS(1), &zero)};
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, 0).outside, 0);
    VN_ASSERT_EQ(t, measured(t, &r, VN_F32, minus).outside, 1);
    vn_tensor_free(r.tensor);
}

VN_TEST(measure, types_that_are_no_floats) {
    static const struct {
        vn_dtype_t type;
        double right, wrong;
    } rows[] = {{VN_I8, -128, 127}, {VN_U8, 255, 0}, {VN_I16, -1, 1}, {VN_U16, 65535, 65534}, {VN_I32, -7, 7}, {VN_U32, 7, 8},
                {VN_I64, 1, 2},     {VN_U64, 3, 2},  {VN_BOOL, 1, 0}, {VN_U4, 15, 14},        {VN_I4, -8, 7}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        vn_ref_t r = {
            .dtype = rows[i].type, .rank = 1, .dims = {1}, .count = 1, .tensor = jc_tensor(t, rows[i].type, JC_DIMS(1), &rows[i].right)};
        VN_ASSERT_EQ(t, measured(t, &r, rows[i].type, rows[i].right).unequal, 0);
        const vn_measure_t m = measured(t, &r, rows[i].type, rows[i].wrong);
        VN_ASSERT_EQ(t, m.outside, 1);
        VN_ASSERT_DEQ(t, m.max_abs, fabs(rows[i].right - rows[i].wrong));
        VN_ASSERT(t, isinf(m.worst_ratio)); /* no room at all */
        r.either = jc_tensor(t, rows[i].type, JC_DIMS(1), &rows[i].wrong);
        VN_ASSERT_EQ(t, measured(t, &r, rows[i].type, rows[i].wrong).outside, 0);
        vn_tensor_free(r.either);
        r.either = NULL;
        const uint8_t silent = VN_EL_VOID;
        r.flags = (uint8_t *)(uintptr_t)&silent;
        VN_ASSERT_EQ(t, measured(t, &r, rows[i].type, rows[i].wrong).outside, 0);
        VN_ASSERT_EQ(t, measured(t, &r, rows[i].type, rows[i].wrong).voids, 1);
        vn_tensor_free(r.tensor);
    }
}

VN_TEST(measure, strings_and_complex) {
    const int64_t n = 2;
    vn_tensor_t *want, *got;
    vn_measure_t m;
    VN_ASSERT_OK(t, vn_tensor_new(VN_STRING, 1, &n, &want, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(want, 0, "ab", 2, NULL));
    VN_ASSERT_OK(t, vn_tensor_set_string(want, 1, "c\0d", 3, NULL));
    VN_ASSERT_OK(t, vn_tensor_copy(want, &got, NULL));
    vn_ref_t r = {.dtype = VN_STRING, .rank = 1, .dims = {n}, .count = n, .tensor = want};
    VN_ASSERT_OK(t, vn_measure(&r, got, &m, NULL));
    VN_ASSERT_EQ(t, m.unequal, 0);
    VN_ASSERT_OK(t, vn_tensor_set_string(got, 1, "c\0e", 3, NULL)); /* differs after a NUL */
    VN_ASSERT_OK(t, vn_measure(&r, got, &m, NULL));
    VN_ASSERT_EQ(t, m.outside, 1);
    VN_ASSERT_EQ(t, m.first_outside, 1);
    vn_tensor_free(got);
    vn_tensor_free(want);

    VN_ASSERT_OK(t, vn_tensor_new(VN_C128, 1, &n, &want, NULL));
    VN_ASSERT_OK(t, vn_tensor_copy(want, &got, NULL));
    ((double *)got->data)[3] = 0x1p-60; /* an imaginary part */
    r = (vn_ref_t){.dtype = VN_C128, .rank = 1, .dims = {n}, .count = n, .tensor = want};
    VN_ASSERT_OK(t, vn_measure(&r, got, &m, NULL));
    VN_ASSERT_EQ(t, m.outside, 1);
    VN_ASSERT_EQ(t, m.first_outside, 1);
    vn_tensor_free(got);
    vn_tensor_free(want);
}

/* ---- a large output ---- */

enum { N = 100003 };

static vn_ref_t large(vn_test_t *t, vn_rng_t *rng, vn_tensor_t **actual) {
    const int64_t n = N;
    vn_ref_t r = {.dtype = VN_F32, .rank = 1, .dims = {n}, .count = n, .terms = 100};
    r.value = vn_alloc(N, sizeof *r.value);
    r.bound = vn_alloc(N, sizeof *r.bound);
    r.var = vn_alloc(N, sizeof *r.var);
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, &n, &r.tensor, NULL));
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, &n, actual, NULL));
    for (int64_t i = 0; i < N; ++i) {
        r.value[i] = vn_rng_normal(rng);
        r.bound[i] = 0x1p-18;
        r.var[i] = 0x1p-44 * (1 + vn_rng_uniform(rng));
        vn_tensor_set_f64(r.tensor, i, r.value[i]);
        vn_tensor_set_f64(*actual, i, r.value[i] + 0x1p-22 * vn_rng_normal(rng));
    }
    return r;
}

/* Sums over elements are floating point: only a fixed order of chunks makes them the same bits. */
VN_TEST(measure, the_same_for_any_number_of_threads) {
    vn_rng_t rng = vn_test_rng(t);
    vn_tensor_t *x;
    vn_ref_t r = large(t, &rng, &x);
    const int before = vn_threads_get();
    vn_measure_t m[3];
    static const int threads[] = {1, 2, 5};
    vn_tensor_set_f64(x, 70000, NAN);
    vn_tensor_set_f64(x, 90001, 1e9);
    vn_tensor_set_f64(x, 90002, 1e9);
    for (int k = 0; k < 3; ++k) {
        memset(&m[k], 0xAB, sizeof m[k]);
        vn_threads_set(threads[k]);
        VN_ASSERT_OK(t, vn_measure(&r, x, &m[k], NULL));
    }
    vn_threads_set(before);
    VN_ASSERT(t, memcmp(&m[0], &m[1], sizeof m[0]) == 0);
    VN_ASSERT(t, memcmp(&m[0], &m[2], sizeof m[0]) == 0);
    VN_ASSERT_EQ(t, m[0].count, N);
    VN_ASSERT_EQ(t, m[0].outside, 3);
    VN_ASSERT_EQ(t, m[0].first_outside, 70000);
    VN_ASSERT_EQ(t, m[0].sigmas, N - 1);
    VN_ASSERT_EQ(t, m[0].worst, 70000);
    vn_tensor_free(x);
    vn_ref_free(&r);
}

VN_TEST(measure, sums_are_those_of_a_plain_loop) {
    vn_rng_t rng = vn_test_rng(t);
    vn_tensor_t *x;
    vn_ref_t r = large(t, &rng, &x);
    vn_measure_t m;
    VN_ASSERT_OK(t, vn_measure(&r, x, &m, NULL));
    double y2 = 0, z2 = 0, largest = 0, z_max = 0;
    int64_t unequal = 0;
    for (int64_t i = 0; i < N; ++i) {
        const double e = vn_tensor_get_f64(x, i) - r.value[i], z = fabs(e) / sqrt(r.var[i]);
        unequal += vn_tensor_bits(x, i) != vn_tensor_bits(r.tensor, i);
        y2 += r.value[i] * r.value[i];
        z2 += z * z;
        largest = fmax(largest, fabs(e));
        z_max = fmax(z_max, z);
    }
    VN_ASSERT_EQ(t, m.unequal, unequal);
    VN_ASSERT_DEQ(t, m.max_abs, largest);
    VN_ASSERT_LE(t, fabs(m.z_max - z_max), 1e-14 * z_max);
    VN_ASSERT_LE(t, fabs(m.sum_y2 - y2), 1e-11 * y2);
    VN_ASSERT_LE(t, fabs(m.sum_z2 - z2), 1e-11 * z2);
    VN_ASSERT_LE(t, m.sum_clipped, m.sum_z2);
    vn_tensor_free(x);
    vn_ref_free(&r);
}

/* Blocks of 512 against single elements, which a plain loop judges. Zeros, voids, no variance, clipped errors, ties, and lengths around a block. */
static void whole_against_parts(vn_test_t *t, vn_dtype_t type, int64_t n, bool own_plane, vn_rng_t *rng) {
    vn_ref_t r = {.dtype = type, .rank = 1, .dims = {n}, .count = n, .terms = 100, .own_abs = 0x1p-60, .own_rel = 0x1p-50};
    vn_tensor_t *x;
    vn_measure_t all, sum = {.first_unequal = -1, .worst = -1};
    const double u = vn_format_info(vn_format_of(type))->u;
    double sizes = 0;
    r.value = vn_alloc((size_t)n, sizeof *r.value);
    r.bound = vn_alloc((size_t)n, sizeof *r.bound);
    r.var = vn_alloc((size_t)n, sizeof *r.var);
    r.own = own_plane ? vn_alloc((size_t)n, sizeof *r.own) : NULL;
    VN_ASSERT_OK(t, vn_tensor_new(type, 1, &n, &r.tensor, NULL));
    VN_ASSERT_OK(t, vn_tensor_new(type, 1, &n, &x, NULL));
    for (int64_t i = 0; i < n; ++i) {
        const uint64_t kind = vn_rng_below(rng, 16);
        r.value[i] = kind == 0 ? 0 : vn_rng_normal(rng);
        r.bound[i] = kind == 1 ? INFINITY : 64 * u * (1 + vn_rng_uniform(rng));
        r.var[i] = kind == 2 ? 0 : u * u * (kind == 3 ? 0x1p-8 : 4); /* 3: some errors are to be clipped */
        if (r.own) r.own[i] = 0x1p-50 * vn_rng_uniform(rng);
        vn_tensor_set_f64(r.tensor, i, r.value[i]);
        vn_tensor_set_f64(x, i, vn_rng_below(rng, 3) ? r.value[i] : r.value[i] + 2 * u * vn_rng_normal(rng));
    }
    VN_ASSERT_OK(t, vn_measure(&r, x, &all, NULL));
    for (int64_t i = 0; i < n; ++i) {
        const int64_t one = 1, at = i;
        vn_tensor_t *due, *got;
        vn_measure_t m;
        VN_ASSERT_OK(t, vn_tensor_slice(r.tensor, &at, &one, &one, &due, NULL));
        VN_ASSERT_OK(t, vn_tensor_slice(x, &at, &one, &one, &got, NULL));
        vn_ref_t each = {.dtype = type, .rank = 1, .dims = {1}, .count = 1, .own_abs = r.own_abs, .own_rel = r.own_rel};
        each.value = r.value + i, each.bound = r.bound + i, each.var = r.var + i, each.own = r.own ? r.own + i : NULL;
        each.tensor = due;
        VN_ASSERT_OK(t, vn_measure(&each, got, &m, NULL));
        if (m.unequal && sum.first_unequal < 0) sum.first_unequal = i;
        if (m.worst >= 0 && m.worst_ratio > sum.worst_ratio) sum.worst = i;
        sum.unequal += m.unequal, sum.outside += m.outside, sum.voids += m.voids, sum.sigmas += m.sigmas;
        sum.sum_y2 += m.sum_y2, sum.sum_z2 += m.sum_z2, sum.sum_clipped += m.sum_clipped, sum.sum_signed += m.sum_signed;
        sizes += fabs(m.sum_signed);
        sum.worst_ratio = fmax(sum.worst_ratio, m.worst_ratio);
        sum.max_abs = fmax(sum.max_abs, m.max_abs);
        sum.oracle_ratio = fmax(sum.oracle_ratio, m.oracle_ratio);
        sum.weakest = fmax(sum.weakest, m.weakest);
        sum.z_max = fmax(sum.z_max, m.z_max);
        vn_tensor_free(due);
        vn_tensor_free(got);
    }
    VN_ASSERT_EQ(t, all.unequal, sum.unequal);
    VN_ASSERT_EQ(t, all.outside, sum.outside);
    VN_ASSERT_EQ(t, all.voids, sum.voids);
    VN_ASSERT_EQ(t, all.sigmas, sum.sigmas);
    VN_ASSERT_EQ(t, all.first_unequal, sum.first_unequal);
    VN_ASSERT_EQ(t, all.worst, sum.worst);
    VN_ASSERT_DEQ(t, all.max_abs, sum.max_abs);
    VN_ASSERT_DEQ(t, all.worst_ratio, sum.worst_ratio);
    VN_ASSERT_LE(t, fabs(all.oracle_ratio - sum.oracle_ratio), 0x1p-50 * sum.oracle_ratio); /* a record by a rounding may be missed */
    VN_ASSERT(t, all.weakest == sum.weakest || fabs(all.weakest - sum.weakest) <= 0x1p-50 * sum.weakest);
    VN_ASSERT_LE(t, fabs(all.z_max - sum.z_max), 0x1p-50 * sum.z_max);
    VN_ASSERT_LE(t, fabs(all.sum_y2 - sum.sum_y2), 1e-12 * sum.sum_y2);
    VN_ASSERT_LE(t, fabs(all.sum_z2 - sum.sum_z2), 1e-12 * sum.sum_z2);
    VN_ASSERT_LE(t, fabs(all.sum_clipped - sum.sum_clipped), 1e-12 * sum.sum_clipped);
    VN_ASSERT_DEQ(t, all.sum_signed2, all.sum_clipped);
    VN_ASSERT_LE(t, fabs(all.sum_signed - sum.sum_signed), 0x1p-23 * sizes); /* roots of f32 */
    vn_tensor_free(x);
    vn_ref_free(&r);
}

VN_TEST(measure, blocks_say_what_single_elements_say) {
    static const vn_dtype_t types[] = {VN_F32, VN_BF16, VN_F16, VN_F64};
    static const int64_t lengths[] = {1, 31, 32, 511, 512, 513, 1400};
    vn_rng_t rng = vn_test_rng(t);
    for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; ++l) whole_against_parts(t, types[k], lengths[l], l % 2, &rng);
}

VN_TEST(measure, strided_and_empty) {
    const double v[] = {1, 2, 3, 4, 5, 6}, turned[] = {1, 4, 2, 5, 3, 6};
    vn_tensor_t *x = jc_tensor(t, VN_F32, JC_DIMS(2, 3), v), *view, *none;
    const int axes[] = {1, 0};
    const int64_t empty = 0;
    vn_measure_t m;
    VN_ASSERT_OK(t, vn_tensor_permute(x, axes, &view, NULL));
    vn_ref_t r = {.dtype = VN_F32, .rank = 2, .dims = {3, 2}, .count = 6, .tensor = jc_tensor(t, VN_F32, JC_DIMS(3, 2), turned)};
    VN_ASSERT_OK(t, vn_measure(&r, view, &m, NULL));
    VN_ASSERT_EQ(t, m.unequal, 0);
    vn_tensor_free(view);
    vn_tensor_free(x);
    vn_tensor_free(r.tensor);
    VN_ASSERT_OK(t, vn_tensor_new(VN_F32, 1, &empty, &none, NULL));
    r = (vn_ref_t){.dtype = VN_F32, .rank = 1, .dims = {0}, .count = 0, .tensor = none};
    VN_ASSERT_OK(t, vn_measure(&r, none, &m, NULL));
    VN_ASSERT_EQ(t, m.count, 0);
    VN_ASSERT_EQ(t, m.outside, 0);
    vn_tensor_free(none);
}

VN_TEST(measure, no_memory_is_an_error) {
    const double one = 1, none = 0;
    vn_ref_t r = one_ref(t, &one, &none, NULL);
    vn_tensor_t *x = jc_tensor(t, VN_F32, JC_DIMS(1), &one);
    vn_error_t err = {0};
    vn_measure_t m;
    vn_status_t s = VN_ERR_NOMEM;
    for (int n = 1; s != VN_OK; ++n) {
        VN_ASSERT(t, n < 20);
        vn_alloc_fail_at(n);
        s = vn_measure(&r, x, &m, &err);
        vn_alloc_fail_at(0);
        if (s != VN_OK) VN_ASSERT_EQ(t, s, VN_ERR_NOMEM);
    }
    vn_tensor_free(x);
    vn_tensor_free(r.tensor);
}

VN_TEST_MAIN(VN_CASE(measure, each_class_of_value), VN_CASE(measure, reasons_are_counted_apart),
             VN_CASE(measure, payload_of_nan_is_free_and_its_sign), VN_CASE(measure, own_error_of_the_oracle_widens),
             VN_CASE(measure, one_rounding_demands_its_bits), VN_CASE(measure, second_value_and_second_tier),
             VN_CASE(measure, moved_bits_keep_the_sign_of_zero), VN_CASE(measure, types_that_are_no_floats),
             VN_CASE(measure, strings_and_complex), VN_CASE(measure, the_same_for_any_number_of_threads),
             VN_CASE(measure, sums_are_those_of_a_plain_loop), VN_CASE(measure, blocks_say_what_single_elements_say),
             VN_CASE(measure, strided_and_empty), VN_CASE(measure, no_memory_is_an_error))
