/* Rounding and codes of every format against twins that share nothing with them: sorted member lists built from (p, emin, max) for the
 * formats of at most 16 bits, MPFR for f32 and tf32.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mpfr.h>

#include "support/vn_test.h"
#include "tensor/round_kernel.h"

/* The formats, written down a second time, from the OCP and IEEE texts. */
typedef struct twin {
    vn_format_t format;
    int p, emin;
    double max;
    bool has_inf, has_nan, has_negative_zero;
} twin_t;

static const twin_t twins[] = {
    {VN_FMT_F16, 11, -14, 65504, true, true, true},   {VN_FMT_BF16, 8, -126, 0x1.fep127, true, true, true},
    {VN_FMT_F8E4M3FN, 4, -6, 448, false, true, true}, {VN_FMT_F8E4M3FNUZ, 4, -7, 240, false, true, false},
    {VN_FMT_F8E5M2, 3, -14, 57344, true, true, true}, {VN_FMT_F8E5M2FNUZ, 3, -15, 57344, false, true, false},
    {VN_FMT_F4E2M1, 2, 0, 6, false, false, true},
};
enum { N_TWINS = sizeof twins / sizeof *twins, MAX_MEMBERS = 1 << 15 };

/* All members >= 0 in order, and one more: the number that would follow max. */
static int members(const twin_t *w, double *out) {
    int n = 0;
    const int half = 1 << (w->p - 1);
    for (int k = 0; k < half; ++k) out[n++] = ldexp(k, w->emin - (w->p - 1));
    for (int e = w->emin;; ++e)
        for (int k = half; k < 2 * half; ++k) {
            out[n++] = ldexp(k, e - (w->p - 1));
            if (out[n - 1] > w->max) return n - 1;
        }
}

/* Rounded magnitude of lo <= a <= hi, neighbours in the list at `index`; parity of the index is parity of the last digit. */
static double pick(double a, double lo, double hi, int index, vn_rounding_t r, bool negative) {
    const double mid = 0.5 * (lo + hi);
    if (a == lo || a == hi) return a;
    switch (r) {
    case VN_RZ: return lo;
    case VN_RU: return negative ? lo : hi;
    case VN_RD: return negative ? hi : lo;
    case VN_RNA: return a < mid ? lo : hi;
    default: return a < mid ? lo : a > mid ? hi : index % 2 ? hi : lo;
    }
}

static double expected(const twin_t *w, const double *list, int index, double x, vn_rounding_t r, bool saturate) {
    const bool negative = signbit(x);
    double y = pick(fabs(x), list[index], list[index + 1], index, r, negative);
    if (y > w->max) y = saturate || !w->has_nan ? w->max : w->has_inf ? INFINITY : NAN;
    if (y == 0 && !w->has_negative_zero) return 0.0;
    return negative ? -y : y;
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || vn_f64_bits(a) == vn_f64_bits(b); }

static double list[MAX_MEMBERS + 2];

VN_TEST(format, rounds_like_the_member_list) {
    for (int k = 0; k < N_TWINS; ++k) {
        const twin_t *w = &twins[k];
        const int n = members(w, list);
        for (int i = 0; i < n; ++i) {
            const double lo = list[i], hi = list[i + 1], mid = 0.5 * (lo + hi);
            const double probes[] = {lo, nextafter(lo, hi), nextafter(mid, lo), mid, nextafter(mid, hi), nextafter(hi, lo)};
            for (int j = 0; j < 12; ++j)
                for (int r = VN_RNE; r <= VN_RD; ++r)
                    for (int s = 0; s < 2; ++s) {
                        const double x = j < 6 ? probes[j] : -probes[j - 6];
                        const double got = vn_round_to(w->format, x, (vn_rounding_t)r, s),
                                     want = expected(w, list, i, x, (vn_rounding_t)r, s);
                        if (!same(got, want))
                            vn_test_fail(t, __FILE__, __LINE__, "%s mode %d saturate %d: %a -> %a, expected %a",
                                         vn_format_info(w->format)->name, r, s, x, got, want);
                    }
        }
    }
}

VN_TEST(format, codes_are_the_member_list) {
    for (int k = 0; k < N_TWINS; ++k) {
        const twin_t *w = &twins[k];
        const vn_dtype_t d = vn_format_info(w->format)->dtype;
        const int bits = vn_dtype_bits(d), n = members(w, list);
        const unsigned sign = 1u << (bits - 1);
        for (int i = 0; i < n; ++i) { /* codes count upward through the members */
            VN_ASSERT_DEQ(t, vn_decode_small(d, (uint16_t)i), list[i]);
            VN_ASSERT_EQ(t, vn_encode_small(d, list[i]), i);
            if (i == 0 && !w->has_negative_zero) continue;
            VN_ASSERT(t, same(vn_decode_small(d, (uint16_t)(sign | (unsigned)i)), -list[i]));
            VN_ASSERT_EQ(t, vn_encode_small(d, -list[i]), sign | (unsigned)i);
        }
        for (unsigned c = (unsigned)n; c < sign; ++c) { /* what is left is Inf once, then NaN */
            const double x = vn_decode_small(d, (uint16_t)c);
            VN_ASSERT(t, w->has_inf && c == (unsigned)n ? x == INFINITY : isnan(x));
            VN_ASSERT(t, same(vn_decode_small(d, (uint16_t)(sign | c)), -x));
        }
        if (w->has_inf) VN_ASSERT_EQ(t, vn_encode_small(d, -INFINITY), sign | (unsigned)n);
        if (w->has_nan) VN_ASSERT(t, isnan(vn_decode_small(d, vn_encode_small(d, NAN))));
        if (!w->has_negative_zero) {
            VN_ASSERT(t, isnan(vn_decode_small(d, (uint16_t)sign)));
            VN_ASSERT_EQ(t, vn_encode_small(d, NAN), sign);
            VN_ASSERT_EQ(t, vn_encode_small(d, -0.0), 0);
        }
    }
}

/* The tables of the ONNX Cast text. */
VN_TEST(format, special_values_follow_the_cast_tables) {
    static const struct {
        vn_format_t f;
        double inf_saturated, inf_plain;
    } rows[] = {
        {VN_FMT_F8E4M3FN, 448, NAN}, {VN_FMT_F8E4M3FNUZ, 240, NAN}, {VN_FMT_F8E5M2, 57344, INFINITY}, {VN_FMT_F8E5M2FNUZ, 57344, NAN},
        {VN_FMT_F4E2M1, 6, 6},       {VN_FMT_F16, 65504, INFINITY}, {VN_FMT_F32, FLT_MAX, INFINITY},  {VN_FMT_F64, DBL_MAX, INFINITY},
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
        VN_ASSERT(t, same(vn_round_to(rows[k].f, INFINITY, VN_RNE, true), rows[k].inf_saturated));
        VN_ASSERT(t, same(vn_round_to(rows[k].f, -INFINITY, VN_RNE, true), -rows[k].inf_saturated));
        VN_ASSERT(t, same(vn_round_to(rows[k].f, INFINITY, VN_RNE, false), rows[k].inf_plain));
        VN_ASSERT(t, same(vn_round_to(rows[k].f, INFINITY, VN_RZ, false), rows[k].inf_plain)); /* an infinity is no overflow */
        VN_ASSERT(t, isnan(vn_round_to(rows[k].f, NAN, VN_RNE, true)));
    }
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F8E4M3FN, 464, VN_RNE, false), 448); /* the tie below overflow goes to the even 448 */
    VN_ASSERT(t, isnan(vn_round_to(VN_FMT_F8E4M3FN, nextafter(464, 500), VN_RNE, false)));
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F16, 1e300, VN_RZ, false), 65504);
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F16, -1e300, VN_RU, false), -65504);
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F16, 1e300, VN_RU, false), INFINITY);
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F32, DBL_MAX, VN_RNA, false), INFINITY);
    VN_ASSERT(t, same(vn_round_to(VN_FMT_F8E5M2FNUZ, -1e-30, VN_RNE, false), 0.0));
    VN_ASSERT(t, same(vn_round_to(VN_FMT_F8E5M2, -1e-30, VN_RNE, false), -0.0));
    VN_ASSERT_EQ(t, vn_encode_small(VN_F4E2M1, NAN), 7); /* float4 text: NaN -> 6 */
}

VN_TEST(format, e8m0_is_powers_of_two) {
    for (int c = 0; c < 255; ++c) {
        const double v = ldexp(1, c - 127);
        VN_ASSERT_DEQ(t, vn_decode_small(VN_F8E8M0, (uint16_t)c), v);
        VN_ASSERT_EQ(t, vn_encode_small(VN_F8E8M0, v), c);
        for (int r = VN_RNE; r <= VN_RD; ++r) {
            const bool nearest = r == VN_RNE || r == VN_RNA;
            const double next = c < 254 ? 2 * v : NAN; /* beyond max: NaN, or max where rounding points inward */
            VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F8E8M0, v, (vn_rounding_t)r, false), v);
            const double down = vn_round_to(VN_FMT_F8E8M0, nextafter(1.5 * v, 0), (vn_rounding_t)r, false);
            const double tie = vn_round_to(VN_FMT_F8E8M0, 1.5 * v, (vn_rounding_t)r, false);
            VN_ASSERT(t, same(down, r == VN_RU ? next : v));
            VN_ASSERT(t, same(tie, nearest || r == VN_RU ? next : v));
        }
    }
    VN_ASSERT(t, isnan(vn_decode_small(VN_F8E8M0, 0xff)));
    VN_ASSERT_EQ(t, vn_encode_small(VN_F8E8M0, NAN), 0xff);
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F8E8M0, 0.0, VN_RU, true), 0x1p-127);
    VN_ASSERT(t, isnan(vn_round_to(VN_FMT_F8E8M0, 0.0, VN_RNE, false)));
    VN_ASSERT_DEQ(t, vn_round_to(VN_FMT_F8E8M0, INFINITY, VN_RU, true), 0x1p127);
    VN_ASSERT(t, isnan(vn_round_to(VN_FMT_F8E8M0, INFINITY, VN_RNE, false)));
    VN_ASSERT(t, isnan(vn_round_to(VN_FMT_F8E8M0, -1.0, VN_RNE, true)));
}

/* x rounded by MPFR to p digits with gradual underflow at 2^emin; r of the five modes (ties away by hand: MPFR has none for sets). */
static double by_mpfr(double x, int p, int emin, int emax, vn_rounding_t r) {
    static const mpfr_rnd_t modes[] = {[VN_RNE] = MPFR_RNDN, [VN_RZ] = MPFR_RNDZ, [VN_RU] = MPFR_RNDU, [VN_RD] = MPFR_RNDD};
    mpfr_t y;
    double out;
    if (r == VN_RNA) { /* the result of RZ or RA, whichever is nearer, RA when equal */
        const double z = by_mpfr(x, p, emin, 1 << 20, VN_RZ), up = by_mpfr(x, p, emin, 1 << 20, x > 0 ? VN_RU : VN_RD);
        out = fabs(x - z) < fabs(up - x) ? z : up; /* both differences are exact */
        return fabs(out) >= ldexp(1, emax + 1) ? copysign(INFINITY, x) : out;
    }
    const mpfr_exp_t old_min = mpfr_get_emin(), old_max = mpfr_get_emax();
    mpfr_init2(y, p);
    mpfr_set_emin(emin + 1 - (p - 1)); /* MPFR's significands lie in [1/2, 1) */
    mpfr_set_emax(emax + 1);
    int ternary = mpfr_set_d(y, x, modes[r]);
    ternary = mpfr_check_range(y, ternary, modes[r]);
    mpfr_subnormalize(y, ternary, modes[r]);
    out = mpfr_get_d(y, MPFR_RNDN);
    mpfr_set_emin(old_min);
    mpfr_set_emax(old_max);
    mpfr_clear(y);
    return out;
}

/* A double whose exponent straddles the format's range and whose digits are often near a tie. */
static double tricky(vn_rng_t *rng, int p) {
    const uint64_t sign = vn_rng_u64(rng) << 63, exponent = 1023 - 160 + vn_rng_below(rng, 300);
    uint64_t fraction = vn_rng_u64(rng) >> 12;
    const int tail = 53 - p;
    switch (vn_rng_below(rng, 4)) {
    case 0: fraction &= ~UINT64_C(0) << tail; break;                                           /* a member */
    case 1: fraction = (fraction & (~UINT64_C(0) << tail)) | UINT64_C(1) << (tail - 1); break; /* a tie */
    case 2: fraction = ((fraction & (~UINT64_C(0) << tail)) | UINT64_C(1) << (tail - 1)) + vn_rng_below(rng, 3) - 1; break;
    default: break;
    }
    return vn_bits_f64(sign | exponent << 52 | (fraction & ((UINT64_C(1) << 52) - 1)));
}

VN_TEST(format, f32_and_tf32_round_like_mpfr) {
    static const double edges[] = {
        0.0,     0x1p-149,    0x1p-150,    0x1.8p-150, 0x1p-151,        0x1.fffffep127, 0x1.ffffffp127, 0x1.fffffefffffffp127,
        0x1p128, 0x1.ffcp127, 0x1.ffep127, 0x1p-126,   0x1.fffffcp-127, 0x1p-136,       0x1p-137,       0x1.8p-137,
        DBL_MAX, DBL_MIN,     0x1p-1074,   1e300};
    enum { N_EDGES = sizeof edges / sizeof *edges };
    static const struct {
        vn_format_t f;
        int p;
    } rows[] = {{VN_FMT_F32, 24}, {VN_FMT_TF32, 11}};
    vn_rng_t rng = vn_test_rng(t);
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < 2 * N_EDGES + 12000 * vn_test_scale(t); ++i)
            for (int r = VN_RNE; r <= VN_RD; ++r) {
                const double x = i < N_EDGES ? edges[i] : i < 2 * N_EDGES ? -edges[i - N_EDGES] : tricky(&rng, rows[k].p);
                const double got = vn_round_to(rows[k].f, x, (vn_rounding_t)r, false),
                             want = by_mpfr(x, rows[k].p, -126, 127, (vn_rounding_t)r);
                if (!same(got, want))
                    vn_test_fail(t, __FILE__, __LINE__, "%s mode %d: %a -> %a, MPFR %a", vn_format_info(rows[k].f)->name, r, x, got, want);
            }
}

VN_TEST(format, the_table_agrees_with_itself) {
    for (int f = 1; f < VN_FMT_COUNT; ++f) {
        const vn_format_info_t *i = vn_format_info((vn_format_t)f);
        VN_ASSERT_EQ(t, vn_format_from_name(i->name), f);
        if (i->dtype) VN_ASSERT_EQ(t, vn_format_of(i->dtype), f);
        VN_ASSERT_DEQ(t, i->u, ldexp(1, -i->p));
        VN_ASSERT_DEQ(t, i->tau, ldexp(1, i->emin));
        VN_ASSERT_DEQ(t, i->eta, ldexp(1, i->emin - (i->p - 1)));
        VN_ASSERT_EQ(t, ilogb(i->max), i->emax);
        VN_ASSERT_DEQ(t, vn_ulp((vn_format_t)f, 0.0), i->eta);
        VN_ASSERT_DEQ(t, vn_ulp((vn_format_t)f, i->tau), i->eta);
        VN_ASSERT_DEQ(t, vn_ulp((vn_format_t)f, -1.5), ldexp(1, 1 - i->p));
        VN_ASSERT_DEQ(t, vn_ulp((vn_format_t)f, nextafter(2.0, 0)), ldexp(1, 1 - i->p));
        VN_ASSERT_DEQ(t, vn_ulp((vn_format_t)f, 2.0), ldexp(1, 2 - i->p));
        VN_ASSERT_DEQ(t, vn_round_to((vn_format_t)f, i->max, VN_RNE, false), i->max);
    }
    VN_ASSERT(t, vn_format_info(VN_FMT_NONE) == NULL && vn_format_of(VN_I32) == VN_FMT_NONE && vn_format_from_name("f31") == VN_FMT_NONE);
    for (int d = 1; d < VN_DTYPE_COUNT; ++d) VN_ASSERT_EQ(t, vn_dtype_from_name(vn_dtype_name((vn_dtype_t)d)), d);
    VN_ASSERT_EQ(t, vn_dtype_from_name("undefined"), VN_UNDEFINED);
}

VN_TEST_MAIN(VN_CASE(format, rounds_like_the_member_list), VN_CASE(format, codes_are_the_member_list),
             VN_CASE(format, special_values_follow_the_cast_tables), VN_CASE(format, e8m0_is_powers_of_two),
             VN_CASE(format, f32_and_tf32_round_like_mpfr), VN_CASE(format, the_table_agrees_with_itself))
