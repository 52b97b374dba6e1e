/* Every f16 and bf16 argument of every function of one argument: the oracle's rounded result is the exact value rounded once (claim ELEM-OWN,
 * PREC-1). Quick tier: a share of the arguments, drawn by the seed; VERNIER_FULL=1: all of them. Cast to the 8-bit formats, whose arguments
 * are exhaustively covered by test_cast, is the only function that these types have.
 */
#include <stdio.h>

#include "oracle/one_node.h"
#include "support/mpfr_twin.h"

enum { BITS = 200, SHARE = 96 };

/* Attributes away from the defaults: other bits in every product. */
static const struct {
    const char *op, *attr[2];
    double p[2];
} variants[] = {
    {"LeakyRelu", {"alpha", NULL}, {0.1f, 0}},
    {"Elu", {"alpha", NULL}, {0.7f, 0}},
    {"Selu", {"alpha", "gamma"}, {1.3f, 0.9f}},
    {"Celu", {"alpha", NULL}, {0.3f, 0}},
    {"HardSigmoid", {"alpha", "beta"}, {0.16666667f, 0.4f}},
    {"Shrink", {"lambd", "bias"}, {0.3f, 0.2f}},
    {"ThresholdedRelu", {"alpha", NULL}, {0.3f, 0}},
    {"Swish", {"alpha", NULL}, {1.702f, 0}},
};
enum { VARIANTS = sizeof variants / sizeof *variants };

typedef struct sweep {
    vn_text_t failures;
    int64_t checked, failed;
} sweep_t;

static void sweep(vn_test_t *t, vn_rng_t *rng, sweep_t *s, const tw_function_t *f, vn_dtype_t type, int variant) {
    const int64_t count = 65536;
    const vn_format_t format = vn_format_of(type);
    const double *p = variant < 0 ? f->p : variants[variant].p;
    one_node_t n = {.domain = f->domain, .op = f->op, .version = f->version, .n_in = 1, .contract = "portable", .want = VN_WANT_BOUND};
    if (f->form) n.attrs[0] = (one_attr_t){"approximate", ONE_TEXT, 0, f->form};
    for (int a = 0; variant >= 0 && a < 2 && variants[variant].attr[a]; ++a)
        n.attrs[a] = (one_attr_t){variants[variant].attr[a], ONE_FLOAT, p[a], NULL};
    n.in[0] = one_tensor(t, type, 1, &count);
    for (int i = 0; i < 65536; ++i) ((uint16_t *)n.in[0]->data)[i] = (uint16_t)i;
    one_run(t, &n);
    mpfr_t x, y;
    mpfr_inits2(BITS, x, y, (mpfr_ptr)0);
    int64_t failed = 0;
    const int step = vn_test_full() ? 1 : SHARE;
    for (int i = vn_test_full() ? 0 : (int)vn_rng_below(rng, SHARE); i < 65536;
         i += vn_test_full() ? 1 : 1 + (int)vn_rng_below(rng, (uint64_t)(2 * step - 1))) {
        const double v = vn_tensor_get_f64(n.in[0], i), got = vn_tensor_get_f64(n.out[0].tensor, i);
        if (!isfinite(v)) continue; /* test_elementwise: specials */
        mpfr_set_d(x, v, MPFR_RNDN);
        f->exact(y, x, p);
        const double want = tw_round(format, y);
        ++s->checked;
        if (got == want || (isnan(got) && isnan(want))) continue;
        if (failed++ == 0)
            vn_text_printf(&s->failures, "\n    %s%s%s%s%s of %s %a (0x%04x): %a, exactly rounded %a", f->domain, *f->domain ? "." : "",
                           f->op, f->form ? " " : "", f->form ? f->form : "", vn_dtype_name(type), v, (unsigned)i, got, want);
    }
    if (failed > 1) vn_text_printf(&s->failures, ", and %lld more", (long long)failed - 1);
    s->failed += failed;
    mpfr_clears(x, y, (mpfr_ptr)0);
    one_free(&n);
}

static void all_functions(vn_test_t *t, vn_dtype_t type) {
    vn_rng_t rng = vn_test_rng(t);
    sweep_t s = {0};
    for (int k = 0; k < tw_function_count; ++k) sweep(t, &rng, &s, &tw_functions[k], type, -1);
    for (int v = 0; v < VARIANTS; ++v) {
        const tw_function_t *f = tw_function(variants[v].op, NULL);
        VN_ASSERT(t, f != NULL);
        sweep(t, &rng, &s, f, type, v);
    }
    if (s.failed)
        vn_test_fail(t, __FILE__, __LINE__, "%lld of %lld results are not the exact value rounded once:%s", (long long)s.failed,
                     (long long)s.checked, s.failures.data);
    VN_ASSERT(t, s.checked > (vn_test_full() ? 60000 : 400) * (tw_function_count + VARIANTS));
    vn_text_free(&s.failures);
}

VN_TEST(exhaustive, f16) { all_functions(t, VN_F16); }
VN_TEST(exhaustive, bf16) { all_functions(t, VN_BF16); }

/* The twin can tell: one value displaced by a unit of the last place of f64 across a boundary of the type is another result. */
VN_TEST(exhaustive, rounding_of_the_twin_is_single) {
    mpfr_t y;
    mpfr_init2(y, BITS);
    /* 1 + 2^-11 is a tie of f16; an excess of 2^-100 decides it, though f64 cannot hold it */
    mpfr_set_d(y, 1 + 0x1p-11, MPFR_RNDN);
    VN_ASSERT_DEQ(t, tw_round(VN_FMT_F16, y), 1);
    mpfr_add_d(y, y, 0x1p-100, MPFR_RNDN);
    VN_ASSERT_DEQ(t, tw_round(VN_FMT_F16, y), 1 + 0x1p-10);
    mpfr_set_d(y, 0x1p-25, MPFR_RNDN); /* half of the smallest subnormal */
    VN_ASSERT_DEQ(t, tw_round(VN_FMT_F16, y), 0);
    mpfr_add_d(y, y, 0x1p-200, MPFR_RNDN);
    VN_ASSERT_DEQ(t, tw_round(VN_FMT_F16, y), 0x1p-24);
    mpfr_set_d(y, 65520, MPFR_RNDN);
    VN_ASSERT_DEQ(t, tw_round(VN_FMT_F16, y), INFINITY);
    mpfr_sub_d(y, y, 0x1p-100, MPFR_RNDN);
    VN_ASSERT_DEQ(t, tw_round(VN_FMT_F16, y), 65504);
    mpfr_clear(y);
}

VN_TEST_MAIN(VN_CASE(exhaustive, f16), VN_CASE(exhaustive, bf16), VN_CASE(exhaustive, rounding_of_the_twin_is_single))
