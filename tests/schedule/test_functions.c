/* test_functions.c -- elementary functions measured on results that are known: rounded by MPFR, then with one fault; division (claims CARD-6, CARD-7). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/mpfr_twin.h"
#include "support/vn_test.h"
#include "vernier/schedule.h"

static const vn_elementary_t *function(const char *name) {
    const vn_elementary_t *all;
    const int n = vn_elementaries(&all);
    for (int k = 0; k < n; ++k)
        if (strcmp(all[k].name, name) == 0) return &all[k];
    return NULL;
}

/* A back end that rounds every result once: arguments, exact values as double + low, results. */
typedef struct perfect {
    const vn_elementary_t *f;
    vn_tensor_t *in, *out;
    double *exact, *low;
} perfect_t;

static perfect_t empty(vn_test_t *t, const char *name, vn_dtype_t type) {
    perfect_t q = {.f = function(name)};
    vn_error_t err = {0};
    VN_ASSERT(t, q.f != NULL);
    VN_ASSERT_OK_ERR(t, vn_elementary_inputs(q.f, type, 1, &q.in, &err), err);
    VN_ASSERT_OK_ERR(t, vn_tensor_new(type, 1, q.in->dims, &q.out, &err), err);
    q.exact = vn_alloc((size_t)q.in->count, sizeof *q.exact);
    q.low = vn_alloc((size_t)q.in->count, sizeof *q.low);
    VN_ASSERT(t, q.exact && q.low);
    return q;
}

static perfect_t perfect(vn_test_t *t, const char *name, vn_dtype_t type) {
    perfect_t q = empty(t, name, type);
    const tw_function_t *twin = tw_function(q.f->op, NULL);
    VN_ASSERT(t, twin != NULL && q.f->then == NULL);
    mpfr_t x, y, rest;
    mpfr_inits2(120, x, y, rest, (mpfr_ptr)0);
    for (int64_t k = 0; k < q.in->count; ++k) {
        mpfr_set_d(x, vn_tensor_get_f64(q.in, k), MPFR_RNDN);
        twin->exact(y, x, twin->p);
        q.exact[k] = mpfr_get_d(y, MPFR_RNDN);
        mpfr_sub_d(rest, y, q.exact[k], MPFR_RNDN);
        q.low[k] = isfinite(q.exact[k]) ? mpfr_get_d(rest, MPFR_RNDN) : 0;
        const double rounded = tw_round(vn_format_of(type), y);
        vn_tensor_set_f64(q.out, k, rounded == 0 ? copysign(0, q.exact[k]) : rounded);
    }
    mpfr_clears(x, y, rest, (mpfr_ptr)0);
    return q;
}

/* For the faults: libm in f64, whose last bit is nothing in f16. */
static perfect_t quick(vn_test_t *t, const char *name, vn_dtype_t type, double (*libm)(double)) {
    perfect_t q = empty(t, name, type);
    for (int64_t k = 0; k < q.in->count; ++k) q.exact[k] = libm(vn_tensor_get_f64(q.in, k));
    vn_tensor_from_f64(q.out, q.exact, VN_RNE, false);
    return q;
}

static void clear(perfect_t *q) {
    vn_tensor_free(q->in);
    vn_tensor_free(q->out);
    vn_free(q->exact);
    vn_free(q->low);
}

static vn_elementary_row_t measure(vn_test_t *t, const perfect_t *q) {
    vn_elementary_row_t row;
    vn_error_t err = {0};
    VN_ASSERT_OK_ERR(t, vn_elementary_measure(q->f, q->in, q->out, q->exact, q->low, NULL, &row, &err), err);
    return row;
}

/* The element whose argument is x. */
static int64_t at(vn_test_t *t, const perfect_t *q, double x) {
    for (int64_t k = 0; k < q->in->count; ++k)
        if (vn_tensor_get_f64(q->in, k) == x) return k;
    vn_test_fail(t, __FILE__, __LINE__, "%s: %a is no argument", q->f->name, x);
    return 0;
}

/* Rounded once: half an ulp at most, nearly that somewhere (tight), and every property. */
VN_TEST(functions, rounded_once) {
    static const struct {
        const char *name;
        int monotone, symmetric;
    } due[] = {{"tanh", 1, 1},  {"exp", 1, -1},       {"log", 1, -1}, {"sigmoid", 1, -1},
               {"sqrt", 1, -1}, {"reciprocal", 1, 1}, {"sin", 1, 1},  {"cos", 1, 1}};
    static const vn_dtype_t types[] = {VN_F16, VN_BF16};
    for (size_t k = 0; k < (vn_test_full() ? sizeof due / sizeof *due : 1); ++k) {
        perfect_t q = perfect(t, due[k].name, types[k % 2]);
        const vn_elementary_row_t row = measure(t, &q);
        VN_ASSERT_EQ(t, row.inputs, 65536);
        if (!(row.all.ulp <= 0.5 && row.normal.ulp > 0.49))
            vn_test_fail(t, __FILE__, __LINE__, "%s: %a ulp at %a, %a at %a", due[k].name, row.all.ulp, row.all.at, row.normal.ulp,
                         row.normal.at);
        if (row.monotone != due[k].monotone || row.symmetric != due[k].symmetric)
            vn_test_fail(t, __FILE__, __LINE__, "%s: monotone %d (%a), symmetric %d (%a)", due[k].name, row.monotone, row.broken,
                         row.symmetric, row.uneven);
        char hex[65];
        vn_sha256_hex(q.out->data, 2 * 65536, hex);
        VN_ASSERT(t, strcmp(hex, row.sha256) == 0);
        clear(&q);
    }
}

/* One entry of a table is wrong: it is found, and where; the hash is another. */
VN_TEST(functions, one_wrong_entry) {
    perfect_t q = quick(t, "exp", VN_F16, exp);
    const vn_elementary_row_t before = measure(t, &q);
    const int64_t k = at(t, &q, -2.5);
    uint16_t *bits = q.out->data;
    bits[k] += 2;
    vn_elementary_row_t row = measure(t, &q);
    VN_ASSERT(t, row.all.ulp >= 1.5 && row.all.ulp <= 2.5 && row.all.at == -2.5 && row.normal.at == -2.5);
    VN_ASSERT(t, strcmp(before.sha256, row.sha256) != 0);
    bits[k] += 40; /* beyond its neighbour's result */
    row = measure(t, &q);
    VN_ASSERT_EQ(t, row.monotone, 0);
    VN_ASSERT(t, fabs(row.broken + 2.5) < 0.01);
    bits[k] = 0x7e00; /* NaN */
    row = measure(t, &q);
    VN_ASSERT(t, isinf(row.all.ulp) && row.all.at == -2.5 && row.monotone == 0);
    clear(&q);

    q = quick(t, "tanh", VN_BF16, tanh); /* a last bit that only one sign has */
    bits = q.out->data;
    bits[at(t, &q, -0.75)]++;
    row = measure(t, &q);
    VN_ASSERT_EQ(t, row.symmetric, 0);
    VN_ASSERT(t, row.uneven == 0.75 && row.normal.ulp < 1.5 && row.normal.ulp >= 0.5);
    clear(&q);

    q = quick(t, "sin", VN_BF16, sin); /* sin(-0) is +0 */
    bits = q.out->data;
    bits[0x8000] = 0;
    row = measure(t, &q);
    VN_ASSERT(t, row.symmetric == 0 && row.uneven == 0 && row.all.ulp <= 0.5);
    clear(&q);
}

/* Overflow and underflow: an infinity one step early is one ulp and a bit, zero for the smallest normal number many, outside the normal range. */
VN_TEST(functions, ends_of_the_range) {
    perfect_t q = quick(t, "exp", VN_F16, exp);
    uint16_t *bits = q.out->data;
    int64_t last = at(t, &q, 11.0859375), tiny = at(t, &q, -10.5); /* exp(11.0859375) is 65233, exp(-10.5) subnormal */
    VN_ASSERT(t, isfinite(vn_tensor_get_f64(q.out, last)) && vn_tensor_get_f64(q.out, tiny) > 0);
    bits[last] = 0x7c00;
    vn_elementary_row_t row = measure(t, &q);
    VN_ASSERT(t, isinf(row.all.ulp) && row.all.at == 11.0859375);
    bits[last] = 0x7bff;
    bits[tiny] = 0;
    row = measure(t, &q);
    VN_ASSERT(t, row.all.at == -10.5 && row.all.ulp > 400 && row.normal.ulp < 10);
    clear(&q);
}

/* Where the standard is open, a NaN or an infinity counts nothing; another number still does. */
VN_TEST(functions, open_elements) {
    perfect_t q = quick(t, "sqrt", VN_F16, sqrt);
    uint8_t *free = vn_alloc(65536, 1);
    vn_elementary_row_t row;
    const int64_t k = at(t, &q, 4);
    VN_ASSERT(t, free != NULL);
    free[k] = 1;
    ((uint16_t *)q.out->data)[k] = 0x7e00;
    VN_ASSERT_OK(t, vn_elementary_measure(q.f, q.in, q.out, q.exact, q.low, free, &row, NULL));
    VN_ASSERT(t, row.all.ulp <= 0.5);
    ((uint16_t *)q.out->data)[k] = 0x4500; /* 5 */
    VN_ASSERT_OK(t, vn_elementary_measure(q.f, q.in, q.out, q.exact, q.low, free, &row, NULL));
    VN_ASSERT(t, row.all.at == 4 && row.all.ulp == 3 / 0x1p-9);
    vn_free(free);
    clear(&q);
}

/* The f32 sample: the same for one seed, whole runs of neighbours ascending, 0 and infinity in it, mirrored where negative arguments count. */
VN_TEST(functions, sample) {
    const vn_elementary_t *names[] = {function("tanh"), function("log")};
    for (int n = 0; n < 2; ++n) {
        vn_tensor_t *a, *b, *c;
        VN_ASSERT_OK(t, vn_elementary_inputs(names[n], VN_F32, 1, &a, NULL));
        VN_ASSERT_OK(t, vn_elementary_inputs(names[n], VN_F32, 1, &b, NULL));
        VN_ASSERT_OK(t, vn_elementary_inputs(names[n], VN_F32, 2, &c, NULL));
        VN_ASSERT(t, vn_tensor_equal_bits(a, b) && !vn_tensor_equal_bits(a, c));
        VN_ASSERT_EQ(t, a->count, 1 << 20);
        const float *x = a->data;
        const int64_t half = a->count / (names[n]->positive ? 2 : 4);
        VN_ASSERT(t, x[0] == 0 && isinf(x[half - 1]) && x[half] >= names[n]->low);
        for (int64_t k = 0; k < a->count; ++k) {
            if (k + 1 < half && !(x[k] < x[k + 1])) vn_test_fail(t, __FILE__, __LINE__, "%a before %a", (double)x[k], (double)x[k + 1]);
            if (k % 16 < 15 && k < 2 * half && x[k + 1] != nextafterf(x[k], INFINITY))
                vn_test_fail(t, __FILE__, __LINE__, "%a and %a are no neighbours", (double)x[k], (double)x[k + 1]);
            if (!names[n]->positive && k >= a->count / 2) VN_ASSERT(t, x[k] == -x[k - a->count / 2]);
            if (k >= half && k < 2 * half) VN_ASSERT(t, x[k] <= names[n]->high * 1.001);
        }
        vn_tensor_free(a);
        vn_tensor_free(b);
        vn_tensor_free(c);
    }
    vn_tensor_t *none;
    VN_ASSERT_EQ(t, vn_elementary_inputs(names[0], VN_F64, 1, &none, NULL), VN_ERR_DTYPE);
}

VN_TEST(functions, division) {
    static const float divisors[] = {3, 10};
    vn_tensor_t *in, *out;
    vn_card_row_t row;
    VN_ASSERT_OK(t, vn_elementary_inputs(function("reciprocal"), VN_F32, 1, &in, NULL));
    VN_ASSERT_OK(t, vn_tensor_copy(in, &out, NULL));
    float *y = out->data;
    for (int d = 0; d < 2; ++d) {
        const float inverse = 1 / divisors[d];
        for (int64_t k = 0; k < in->count; ++k) y[k] = ((const float *)in->data)[k] / divisors[d];
        VN_ASSERT_OK(t, vn_division_measure(divisors[d], in, out, &row, NULL));
        VN_ASSERT(t, strncmp(row.finding, "the rounded quotient, all of", 28) == 0);
        for (int64_t k = 0; k < in->count; ++k) y[k] = ((const float *)in->data)[k] * inverse;
        VN_ASSERT_OK(t, vn_division_measure(divisors[d], in, out, &row, NULL));
        if (strncmp(row.finding, "x times 1/", 10) != 0)
            vn_test_fail(t, __FILE__, __LINE__, "x * (1/%g): %s", (double)divisors[d], row.finding);
        y[in->count / 4] = nextafterf(y[in->count / 4], 0); /* neither */
        VN_ASSERT_OK(t, vn_division_measure(divisors[d], in, out, &row, NULL));
        VN_ASSERT(t, strstr(row.finding, "are not the rounded quotient, 1 not x times") != NULL);
    }
    vn_tensor_free(in);
    vn_tensor_free(out);
}

VN_TEST_MAIN(VN_CASE(functions, rounded_once), VN_CASE(functions, one_wrong_entry), VN_CASE(functions, ends_of_the_range),
             VN_CASE(functions, open_elements), VN_CASE(functions, sample), VN_CASE(functions, division))
