/* DFT, STFT and the windows in more digits (claim PREC-9): every element is the exact value rounded once, own errors are true, and small against the
 * bound in f64. The twin is MPFR.
 */
#include <stdio.h>

#include "oracle/twin_case.h"

enum { BITS = 600, MAX_N = 40 };

static const vn_dtype_t types[] = {VN_F32, VN_F64, VN_F16, VN_BF16};

static void fill(vn_rng_t *rng, vn_format_t f, bool coarse, double *x, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
        x[i] = vn_round_to(f, coarse ? (double)vn_rng_below(rng, 513) - 256 : vn_rng_normal(rng), VN_RNE, false);
}

/* Elements that were evaluated again; zeros of this case: what cancels by more than one root of unity is not known to be zero. */
typedef struct total {
    int64_t again, zeros;
} total_t;

static void settled(vn_test_t *t, const char *what, const one_node_t *c, total_t *seen) {
    const vn_ref_t *r = &c->out[0];
    if (r->undecided > seen->zeros) vn_test_fail(t, __FILE__, __LINE__, "%s: %lld elements are undecided", what, (long long)r->undecided);
    seen->again += r->escalated;
    seen->zeros = 0;
}

static void check(vn_test_t *t, const char *what, const one_node_t *c, int64_t i, mpfr_t exact, total_t *seen) {
    const vn_ref_t *r = &c->out[0];
    mpfr_prec_round(exact, BITS / 2, MPFR_RNDN); /* functions cut at BITS: a tie is a tie again, and what cancels is zero */
    if (fabs(mpfr_get_d(exact, MPFR_RNDN)) < 0x1p-250) mpfr_set_zero(exact, 1);
    twin_value(t, what, r, i, exact);
    const double due = tw_round(vn_format_of(r->dtype), exact), got = vn_tensor_get_f64(r->tensor, i);
    mpfr_prec_round(exact, BITS, MPFR_RNDN);
    seen->zeros += due == 0;
    if (got != due && due != 0) vn_test_fail(t, __FILE__, __LINE__, "%s: element %lld is %a, exactly %a", what, (long long)i, got, due);
    if (r->dtype == VN_F64 && r->bound[i] > 0) VN_ASSERT_LE(t, vn_ref_own(r, i), 0x1p-10 * r->bound[i]);
}

/* sum of (re + i im)(w) exp(sign 2 pi i k t / n), over n if scaled. */
static void transform(mpfr_t a, mpfr_t b, const double *re, const double *im, const double *w, int64_t n, int64_t k, bool inverse) {
    mpfr_t angle, c, s, x, y;
    mpfr_inits2(BITS, angle, c, s, x, y, (mpfr_ptr)0);
    mpfr_set_zero(a, 1);
    mpfr_set_zero(b, 1);
    for (int64_t t = 0; t < n; ++t) {
        mpfr_const_pi(angle, MPFR_RNDN);
        mpfr_mul_si(angle, angle, (long)(2 * (k * t % n)), MPFR_RNDN);
        mpfr_div_si(angle, angle, (long)n, MPFR_RNDN);
        mpfr_sin_cos(s, c, angle, MPFR_RNDN);
        if (!inverse) mpfr_neg(s, s, MPFR_RNDN);
        mpfr_set_d(x, re[t], MPFR_RNDN);
        mpfr_set_d(y, im[t], MPFR_RNDN);
        if (w) mpfr_mul_d(x, x, w[t], MPFR_RNDN), mpfr_mul_d(y, y, w[t], MPFR_RNDN);
        mpfr_mul(angle, x, c, MPFR_RNDN); /* re += x c - y s */
        mpfr_add(a, a, angle, MPFR_RNDN);
        mpfr_mul(angle, y, s, MPFR_RNDN);
        mpfr_sub(a, a, angle, MPFR_RNDN);
        mpfr_mul(angle, x, s, MPFR_RNDN); /* im += x s + y c */
        mpfr_add(b, b, angle, MPFR_RNDN);
        mpfr_mul(angle, y, c, MPFR_RNDN);
        mpfr_add(b, b, angle, MPFR_RNDN);
    }
    if (inverse) mpfr_div_si(a, a, (long)n, MPFR_RNDN), mpfr_div_si(b, b, (long)n, MPFR_RNDN);
    mpfr_clears(angle, c, s, x, y, (mpfr_ptr)0);
}

typedef enum form { COMPLEX, REAL, ONESIDED, TO_REAL, FORMS } form_t;

static void dft(vn_test_t *t, vn_rng_t *rng, vn_dtype_t type, form_t form, bool inverse, bool coarse, int64_t n, total_t *seen) {
    const int64_t given = form == TO_REAL ? n / 2 + 1 : n, parts = form == REAL || form == ONESIDED ? 1 : 2;
    double x[2 * MAX_N], re[MAX_N] = {0}, im[MAX_N] = {0};
    char what[120];
    mpfr_t a, b;
    mpfr_inits2(BITS, a, b, (mpfr_ptr)0);
    fill(rng, vn_format_of(type), coarse, x, given * parts);
    for (int64_t i = 0; i < given; ++i) {
        re[i] = x[i * parts];
        im[i] = parts == 2 ? x[2 * i + 1] : 0;
    }
    if (form == TO_REAL) { /* the spectrum of a real signal */
        im[0] = 0;
        if (n % 2 == 0) im[n / 2] = 0;
        for (int64_t i = n / 2 + 1; i < n; ++i) re[i] = re[n - i], im[i] = -im[n - i];
    }
    one_node_t c = {.op = "DFT",
                    .version = 20,
                    .n_in = 2,
                    .want = VN_WANT_BOUND,
                    .attrs = {{"inverse", ONE_INT, inverse, NULL}, {"onesided", ONE_INT, form == ONESIDED || form == TO_REAL, NULL}}};
    c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, given, parts), x);
    c.in[1] = one_scalar(t, VN_I64, n);
    one_run(t, &c);
    snprintf(what, sizeof what, "DFT of %d, form %d, inverse %d, %s, %s", (int)n, form, inverse, vn_dtype_name(type),
             coarse ? "coarse" : "normal");
    const int64_t bins = form == ONESIDED ? n / 2 + 1 : n;
    for (int64_t k = 0; k < bins; ++k) {
        transform(a, b, re, im, NULL, n, k, inverse);
        check(t, what, &c, form == TO_REAL ? k : 2 * k, a, seen);
        if (form != TO_REAL) check(t, what, &c, 2 * k + 1, b, seen);
    }
    settled(t, what, &c, seen);
    one_free(&c);
    mpfr_clears(a, b, (mpfr_ptr)0);
}

VN_TEST(escalate_spectra, transforms) {
    static const int64_t lengths[] = {1, 2, 3, 4, 7, 16, 24, 37};
    vn_rng_t rng = vn_test_rng(t);
    total_t seen = {0, 0};
    for (int run = 0; run < 4 * 2 * FORMS * 8; ++run) {
        const form_t form = run / 8 % FORMS;
        if (!vn_test_full() && vn_rng_below(&rng, 8)) continue;
        for (int inverse = form == TO_REAL; inverse < (form == ONESIDED ? 1 : 2); ++inverse)
            dft(t, &rng, types[run % 4], form, inverse != 0, run / 4 % 2, lengths[run / (8 * FORMS)], &seen);
    }
    VN_ASSERT_GT(t, seen.again, 20);
}

VN_TEST(escalate_spectra, frames) {
    enum { LENGTH = 40, FRAME = 12, HOP = 6, BINS = FRAME / 2 + 1 };
    vn_rng_t rng = vn_test_rng(t);
    total_t seen = {0, 0};
    mpfr_t a, b;
    mpfr_inits2(BITS, a, b, (mpfr_ptr)0);
    for (int run = 0; run < 8; ++run) {
        const vn_dtype_t type = types[run % 4];
        double x[LENGTH], w[FRAME], zero[FRAME] = {0};
        fill(&rng, vn_format_of(type), run / 4, x, LENGTH);
        fill(&rng, vn_format_of(type), false, w, FRAME);
        one_node_t c = {.op = "STFT", .version = 17, .n_in = 3, .want = VN_WANT_BOUND};
        c.in[0] = twin_tensor(t, type, TWIN_DIMS(1, LENGTH, 1), x);
        c.in[1] = one_scalar(t, VN_I64, HOP);
        c.in[2] = one_vector(t, type, FRAME, w);
        one_run(t, &c);
        for (int64_t f = 0; f < c.out[0].dims[1]; ++f)
            for (int64_t k = 0; k < BINS; ++k) {
                transform(a, b, x + f * HOP, zero, w, FRAME, k, false);
                check(t, "STFT", &c, 2 * (f * BINS + k), a, &seen);
                check(t, "STFT", &c, 2 * (f * BINS + k) + 1, b, &seen);
            }
        settled(t, "STFT", &c, &seen);
        one_free(&c);
    }
    VN_ASSERT_GT(t, seen.again, 20);
    mpfr_clears(a, b, (mpfr_ptr)0);
}

VN_TEST(escalate_spectra, windows) {
    static const struct {
        const char *name;
        int a0, a1, a2, of;
    } forms[] = {{"HannWindow", 1, 1, 0, 2}, {"HammingWindow", 25, 21, 0, 46}, {"BlackmanWindow", 42, 50, 8, 100}};
    total_t seen = {0, 0};
    mpfr_t y, c;
    mpfr_inits2(BITS, y, c, (mpfr_ptr)0);
    for (int run = 0; run < 3 * 2 * 4 * 3; ++run) {
        const int form = run % 3, size = (const int[]){2, 24, 37}[run / 24], period = run / 3 % 2 ? size : size - 1;
        const vn_dtype_t type = types[run / 6 % 4];
        char what[80];
        one_node_t n = {.op = forms[form].name,
                        .version = 17,
                        .n_in = 1,
                        .want = VN_WANT_BOUND,
                        .attrs = {{"periodic", ONE_INT, run / 3 % 2, NULL}, {"output_datatype", ONE_INT, type, NULL}}};
        n.in[0] = one_scalar(t, VN_I64, size);
        one_run(t, &n);
        snprintf(what, sizeof what, "%s of %d, period %d, %s", forms[form].name, size, period, vn_dtype_name(type));
        for (int i = 0; i < size; ++i) {
            mpfr_set_si(y, forms[form].a0, MPFR_RNDN);
            for (int k = 1; k <= 2; ++k) {
                mpfr_const_pi(c, MPFR_RNDN);
                mpfr_mul_si(c, c, 2 * k * i, MPFR_RNDN);
                mpfr_div_si(c, c, period, MPFR_RNDN);
                mpfr_cos(c, c, MPFR_RNDN);
                mpfr_mul_si(c, c, k == 1 ? -forms[form].a1 : forms[form].a2, MPFR_RNDN);
                mpfr_add(y, y, c, MPFR_RNDN);
            }
            mpfr_div_si(y, y, forms[form].of, MPFR_RNDN);
            check(t, what, &n, i, y, &seen);
        }
        settled(t, what, &n, &seen);
        one_free(&n);
    }
    VN_ASSERT_GT(t, seen.again, 10);
    mpfr_clears(y, c, (mpfr_ptr)0);
}

VN_TEST_MAIN(VN_CASE(escalate_spectra, transforms), VN_CASE(escalate_spectra, frames), VN_CASE(escalate_spectra, windows))
