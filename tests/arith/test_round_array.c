/* vn_round_array against vn_round_to, which tests/tensor/test_format.c holds against MPFR and member lists: every f16 and bf16 member with its
 * ties and their neighbours, f32 and tf32 around random members, in every mode; and lengths that leave every kind of tail.
 */
#include <math.h>
#include <string.h>

#include "support/vn_test.h"
#include "vernier/arith.h"

enum { N = 1 << 16 };
static double x[N], y[N];

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

static void check(vn_test_t *t, vn_format_t f, int64_t n) {
    for (int r = VN_RNE; r <= VN_RD; ++r) {
        memcpy(y, x, (size_t)n * sizeof *x);
        vn_round_array(f, (vn_rounding_t)r, y, n);
        for (int64_t i = 0; i < n; ++i) {
            const double want = vn_round_to(f, x[i], (vn_rounding_t)r, false);
            if (!same(y[i], want))
                vn_test_fail(t, __FILE__, __LINE__, "%s mode %d: %a -> %a, expected %a", vn_format_info(f)->name, r, x[i], y[i], want);
        }
    }
}

VN_TEST(round_array, every_member_of_f16_and_bf16_and_its_ties) {
    static const vn_dtype_t kinds[] = {VN_F16, VN_BF16};
    for (int k = 0; k < 2; ++k)
        for (int place = 0; place < 6; ++place) { /* at the member, at the tie above it, and beside both */
            int n = 0;
            for (unsigned code = 0; code < 0x8000; ++code) {
                const double v = vn_decode_small(kinds[k], (uint16_t)code), next = vn_decode_small(kinds[k], (uint16_t)(code + 1));
                if (!isfinite(v)) break;
                const double mid = isfinite(next) ? 0.5 * (v + next) : v + 0.5 * vn_ulp(vn_format_of(kinds[k]), v);
                const double places[] = {v, nextafter(v, INFINITY), nextafter(mid, 0), mid, nextafter(mid, INFINITY), nextafter(next, 0)};
                x[n++] = places[place];
                x[n++] = -places[place];
            }
            check(t, vn_format_of(kinds[k]), n);
        }
}

VN_TEST(round_array, f32_and_tf32_near_their_ties) {
    vn_rng_t rng = vn_test_rng(t);
    static const vn_format_t formats[] = {VN_FMT_F32, VN_FMT_TF32};
    for (int k = 0; k < 2; ++k) {
        const vn_format_info_t *f = vn_format_info(formats[k]);
        for (int i = 0; i < N; ++i) {
            const int e = f->emin - f->p - 3 + (int)vn_rng_below(&rng, (uint64_t)(f->emax - f->emin + f->p + 6));
            double v = ldexp(1 + floor(ldexp(vn_rng_uniform(&rng), f->p)) * ldexp(1, -f->p), e); /* p+1 digits: members and ties */
            const uint64_t nudge = vn_rng_below(&rng, 4);
            if (nudge == 0) v = nextafter(v, 0);
            if (nudge == 1) v = nextafter(v, INFINITY);
            x[i] = vn_rng_u64(&rng) & 1 ? -v : v;
        }
        static const double edges[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0x1.fffffffffffffp1023, 0x1p-1074, -0x1p-1022};
        memcpy(x, edges, sizeof edges);
        check(t, formats[k], N);
    }
}

VN_TEST(round_array, every_format_and_every_tail) {
    vn_rng_t rng = vn_test_rng(t);
    for (int i = 0; i < 64; ++i) x[i] = ldexp(vn_rng_normal(&rng), (int)vn_rng_below(&rng, 40) - 20);
    for (int f = 1; f < VN_FMT_COUNT; ++f)
        for (int64_t n = 0; n <= 64; ++n) check(t, (vn_format_t)f, n);
    memcpy(y, x, sizeof *x);
    vn_round_array(VN_FMT_NONE, VN_RNE, y, 1);
    VN_ASSERT_DEQ(t, y[0], x[0]);
}

VN_TEST_MAIN(VN_CASE(round_array, every_member_of_f16_and_bf16_and_its_ties), VN_CASE(round_array, f32_and_tf32_near_their_ties),
             VN_CASE(round_array, every_format_and_every_tail))
