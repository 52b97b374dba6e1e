/* Bulk conversions against single ones (which test_format holds against independent twins), all codes, all modes, any number of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/vn_test.h"
#include "tensor/round_kernel.h"

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || vn_f64_bits(a) == vn_f64_bits(b); }

VN_TEST(convert, every_code_of_the_small_floats) {
    for (int d = 1; d < VN_DTYPE_COUNT; ++d) {
        const int bits = vn_dtype_bits((vn_dtype_t)d);
        if (!vn_dtype_is_float((vn_dtype_t)d) || bits > 16) continue;
        const int64_t n = INT64_C(1) << bits;
        vn_tensor_t *x;
        VN_ASSERT_OK(t, vn_tensor_new((vn_dtype_t)d, 1, &n, &x, NULL));
        for (int64_t i = 0; i < n; ++i) {
            if (bits == 16) ((uint16_t *)x->data)[i] = (uint16_t)i;
            else if (bits == 8) ((uint8_t *)x->data)[i] = (uint8_t)i;
            else ((uint8_t *)x->data)[i / 2] |= (uint8_t)(i << (i % 2 * 4));
        }
        double *out = vn_alloc((size_t)n, sizeof *out);
        vn_tensor_to_f64(x, out);
        for (int64_t i = 0; i < n; ++i) {
            VN_ASSERT_EQ(t, vn_tensor_bits(x, i), i);
            if (!same(out[i], vn_decode_small((vn_dtype_t)d, (uint16_t)i)))
                vn_test_fail(t, __FILE__, __LINE__, "%s code 0x%x: %a", vn_dtype_name((vn_dtype_t)d), (unsigned)i, out[i]);
        }
        vn_tensor_t *again; /* and back: every code but the payloads of NaN */
        VN_ASSERT_OK(t, vn_tensor_new((vn_dtype_t)d, 1, &n, &again, NULL));
        vn_tensor_from_f64(again, out, VN_RZ, false);
        for (int64_t i = 0; i < n; ++i)
            VN_ASSERT_EQ(t, vn_tensor_bits(again, i), isnan(out[i]) ? vn_encode_small((vn_dtype_t)d, out[i]) : (uint64_t)i);
        vn_tensor_free(x);
        vn_tensor_free(again);
        vn_free(out);
    }
}

/* Doubles over the whole range, often members, ties and neighbours of ties of a format with p digits. */
static double sample(vn_rng_t *rng, int p, int emin, int emax) {
    static const double special[] = {0.0, -0.0, INFINITY, -INFINITY, 0x1p-1074, 0x1.fffffffffffffp1023};
    const uint64_t pick = vn_rng_below(rng, 24);
    if (pick < 6) return special[pick];
    if (pick == 6) return NAN;
    const int span = emax - emin + 2 * p + 8;
    const int e = emin - p - 4 + (int)vn_rng_below(rng, (uint64_t)span);
    double m = 1 + vn_rng_uniform(rng);
    if (pick < 16) { /* p+1 digits: members and ties, some of them nudged */
        m = ldexp(floor(ldexp(m, p)), -p);
        if (pick == 7) m = nextafter(m, 4);
        if (pick == 8) m = nextafter(m, 0);
    }
    return ldexp(vn_rng_u64(rng) & 1 ? -m : m, e);
}

VN_TEST(convert, bulk_rounding_is_single_rounding) {
    enum { N = 3000 };
    vn_rng_t rng = vn_test_rng(t);
    static double x[N], want[N], got[N];
    for (int f = 1; f < VN_FMT_COUNT; ++f) {
        const vn_format_info_t *info = vn_format_info((vn_format_t)f);
        for (int i = 0; i < N; ++i) x[i] = sample(&rng, info->p, info->emin, f == VN_FMT_F64 ? 1000 : info->emax);
        for (int r = VN_RNE; r <= VN_RD; ++r)
            for (int s = 0; s < 2; ++s) {
                for (int i = 0; i < N; ++i) want[i] = vn_round_to((vn_format_t)f, x[i], (vn_rounding_t)r, s);
                vn_round_bulk((vn_format_t)f, (vn_rounding_t)r, s, x, got, N);
                for (int i = 0; i < N; ++i)
                    if (!same(got[i], want[i]))
                        vn_test_fail(t, __FILE__, __LINE__, "%s mode %d saturate %d: %a -> %a, single %a", info->name, r, s, x[i], got[i],
                                     want[i]);
                if (!info->dtype) continue;
                vn_tensor_t *b, *one;
                VN_ASSERT_OK(t, vn_tensor_new(info->dtype, 1, (int64_t[]){N}, &b, NULL));
                VN_ASSERT_OK(t, vn_tensor_new(info->dtype, 1, (int64_t[]){1}, &one, NULL));
                vn_tensor_from_f64(b, x, (vn_rounding_t)r, s);
                for (int i = 0; i < N; ++i) {
                    vn_tensor_set_f64(one, 0, want[i]);
                    if (isnan(want[i]) && info->has_nan) VN_ASSERT(t, isnan(vn_tensor_get_f64(b, i)));
                    else VN_ASSERT_EQ(t, vn_tensor_bits(b, i), vn_tensor_bits(one, 0));
                }
                vn_tensor_free(b);
                vn_tensor_free(one);
            }
    }
}

VN_TEST(convert, integers_in_bulk) {
    vn_rng_t rng = vn_test_rng(t);
    for (int d = 1; d < VN_DTYPE_COUNT; ++d) {
        if (!vn_dtype_is_int((vn_dtype_t)d) && d != VN_BOOL) continue;
        enum { N = 333 };
        double x[N], back[N];
        int64_t ints[N];
        vn_tensor_t *b, *one;
        VN_ASSERT_OK(t, vn_tensor_new((vn_dtype_t)d, 1, (int64_t[]){N}, &b, NULL));
        VN_ASSERT_OK(t, vn_tensor_new((vn_dtype_t)d, 1, (int64_t[]){N}, &one, NULL));
        for (int i = 0; i < N; ++i) {
            x[i] = ldexp(2 * vn_rng_uniform(&rng) - 1, (int)vn_rng_below(&rng, 80));
            if (i == 5) x[i] = NAN;
            if (i == 6) x[i] = -INFINITY;
            vn_tensor_set_f64(one, i, x[i]);
        }
        vn_tensor_from_f64(b, x, VN_RNE, false);
        VN_ASSERT(t, vn_tensor_equal_bits(b, one));
        vn_tensor_to_f64(b, back);
        vn_tensor_to_i64(b, ints);
        for (int i = 0; i < N; ++i) {
            VN_ASSERT_DEQ(t, back[i], vn_tensor_get_f64(b, i));
            VN_ASSERT_EQ(t, ints[i], vn_tensor_get_i64(b, i));
            if (d == VN_U64) VN_ASSERT_DEQ(t, back[i], (double)(uint64_t)ints[i]);
            else VN_ASSERT_DEQ(t, back[i], (double)ints[i]);
        }
        vn_tensor_free(b);
        vn_tensor_free(one);
    }
}

VN_TEST(convert, the_same_for_any_number_of_threads) {
    enum { N = 200000 };
    static double x[N], a[N], b[N];
    static const vn_dtype_t kinds[] = {VN_F32, VN_BF16, VN_I4, VN_F4E2M1, VN_U2};
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < N; ++i) x[i] = 8 * vn_rng_normal(&rng);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k) {
        vn_tensor_t *p, *q;
        VN_ASSERT_OK(t, vn_tensor_new(kinds[k], 1, (int64_t[]){N}, &p, NULL));
        VN_ASSERT_OK(t, vn_tensor_new(kinds[k], 1, (int64_t[]){N}, &q, NULL));
        vn_threads_set(1);
        vn_tensor_from_f64(p, x, VN_RNE, false);
        vn_tensor_to_f64(p, a);
        vn_threads_set(7);
        vn_tensor_from_f64(q, x, VN_RNE, false);
        vn_tensor_to_f64(q, b);
        vn_threads_set(0);
        VN_ASSERT(t, vn_tensor_equal_bits(p, q) && memcmp(a, b, sizeof a) == 0);
        vn_tensor_free(p);
        vn_tensor_free(q);
    }
}

VN_TEST(convert, complex_parts) {
    vn_tensor_t *c;
    VN_ASSERT_OK(t, vn_tensor_new(VN_C64, 1, (int64_t[]){2}, &c, NULL));
    ((float *)c->data)[3] = 5;
    vn_tensor_set_f64(c, 1, 1.1);
    VN_ASSERT_DEQ(t, vn_tensor_get_f64(c, 1), (double)1.1f);
    VN_ASSERT_DEQ(t, (double)((float *)c->data)[3], 0.0);
    vn_tensor_from_f64(c, (double[]){3, 4}, VN_RNE, false);
    VN_ASSERT(t, vn_tensor_get_f64(c, 0) == 3 && vn_tensor_get_i64(c, 1) == 4);
    vn_tensor_free(c);
}

VN_TEST_MAIN(VN_CASE(convert, every_code_of_the_small_floats), VN_CASE(convert, bulk_rounding_is_single_rounding),
             VN_CASE(convert, integers_in_bulk), VN_CASE(convert, the_same_for_any_number_of_threads), VN_CASE(convert, complex_parts))
