/* Claims DET-1 to DET-4 and CAST-6: determinants against elimination in 1600 bits, f32 and f64 eliminations of several kinds inside the bound,
 * special matrices; bit casts. */
#include <mpfr.h>

#include "oracle/one_node.h"
#include "oracle/simulate.h"

enum { BITS = 1600, MAX_N = 24 };

/* Exact to about 2^-1500 of the largest product: elimination with partial pivoting in MPFR. */
static void exact_det(mpfr_t out, const double *x, int n) {
    mpfr_t *a = malloc((size_t)(n * n) * sizeof *a), f;
    mpfr_init2(f, BITS);
    for (int i = 0; i < n * n; ++i) {
        mpfr_init2(a[i], BITS);
        mpfr_set_d(a[i], x[i], MPFR_RNDN);
    }
    mpfr_set_d(out, 1, MPFR_RNDN);
    for (int k = 0; k < n; ++k) {
        int best = k;
        for (int i = k + 1; i < n; ++i)
            if (mpfr_cmpabs(a[i * n + k], a[best * n + k]) > 0) best = i;
        for (int j = 0; j < n && best != k; ++j) mpfr_swap(a[k * n + j], a[best * n + j]);
        if (best != k) mpfr_neg(out, out, MPFR_RNDN);
        mpfr_mul(out, out, a[k * n + k], MPFR_RNDN);
        if (mpfr_zero_p(a[k * n + k])) break;
        for (int i = k + 1; i < n; ++i) {
            mpfr_div(f, a[i * n + k], a[k * n + k], MPFR_RNDN);
            for (int j = k; j < n; ++j) {
                mpfr_t p;
                mpfr_init2(p, BITS);
                mpfr_mul(p, f, a[k * n + j], MPFR_RNDN);
                mpfr_sub(a[i * n + j], a[i * n + j], p, MPFR_RNDN);
                mpfr_clear(p);
            }
        }
    }
    for (int i = 0; i < n * n; ++i) mpfr_clear(a[i]);
    mpfr_clear(f);
    free(a);
}

typedef enum kernel { ROWS, FUSED, RECIPROCAL, COLUMNS_LAST, EXPLICIT, KERNELS } kernel_t;

static double op(vn_format_t f, kernel_t k, double a, double b, double c) { /* a - b c */
    if (k == FUSED) return sim(f, fma(-b, c, a));
    return sim(f, a - sim(f, b * c));
}

/* Determinant as a kernel of format f computes it. */
static double computed(vn_format_t f, kernel_t kind, const double *x, int n) {
    double a[MAX_N * MAX_N], det = 1;
    memcpy(a, x, (size_t)(n * n) * sizeof *a);
    if (kind == EXPLICIT && n == 2) return op(f, ROWS, sim(f, a[0] * a[3]), a[1], a[2]);
    if (kind == EXPLICIT && n == 3) {
        double sum = 0;
        for (int j = 0; j < 3; ++j) {
            const int p = (j + 1) % 3, q = (j + 2) % 3;
            sum = sim(f, sum + sim(f, a[j] * op(f, ROWS, sim(f, a[3 + p] * a[6 + q]), a[3 + q], a[6 + p])));
        }
        return sum;
    }
    for (int k = 0; k < n; ++k) {
        int best = k;
        for (int i = k + 1; i < n; ++i)
            if (fabs(a[i * n + k]) > fabs(a[best * n + k])) best = i;
        for (int j = 0; j < n && best != k; ++j) {
            const double t = a[k * n + j];
            a[k * n + j] = a[best * n + j];
            a[best * n + j] = t;
        }
        if (best != k) det = -det;
        const double pivot = a[k * n + k], inverse = sim(f, 1 / pivot);
        if (pivot == 0) return 0;
        for (int i = k + 1; i < n; ++i) {
            const double l = kind == RECIPROCAL ? sim(f, a[i * n + k] * inverse) : sim(f, a[i * n + k] / pivot);
            for (int j = k + 1; j < n; ++j) a[i * n + j] = op(f, kind, a[i * n + j], l, a[k * n + j]);
        }
    }
    for (int k = 0; k < n; ++k) det = sim(f, det * a[kind == COLUMNS_LAST ? (n - 1 - k) * (n + 1) : k * (n + 1)]);
    return det;
}

typedef enum data { RANDOM, GRADED, NEAR_SINGULAR, SINGULAR, INTEGERS, TOEPLITZ, KINDS } data_t;

static void fill(vn_rng_t *rng, data_t kind, vn_dtype_t type, double *x, int n) {
    for (int i = 0; i < n * n; ++i) {
        const double g = vn_rng_normal(rng);
        x[i] = kind == GRADED     ? ldexp(g, (int)vn_rng_below(rng, 20) - 10)
               : kind == INTEGERS ? (double)vn_rng_below(rng, 7) - 3
               : kind == TOEPLITZ ? 1.0 / (1 + abs(i / n - i % n))
                                  : g;
    }
    for (int j = 0; j < n && kind >= NEAR_SINGULAR && kind <= SINGULAR; ++j) /* the last row nearly the first, or twice the first */
        x[(n - 1) * n + j] = kind == SINGULAR ? 2 * x[j] : x[j] * (1 + 0x1p-12 * vn_rng_uniform(rng));
    for (int i = 0; i < n * n; ++i) {
        if (type == VN_F32) x[i] = (float)x[i];
        if (type == VN_F16) x[i] = vn_round_to(VN_FMT_F16, x[i], VN_RNE, false);
    }
    if (kind == SINGULAR)
        for (int j = 0; j < n; ++j) x[(n - 1) * n + j] = 2 * x[j];
}

static void run(vn_test_t *t, one_node_t *c, vn_dtype_t type, int batch, int n, const double *x) {
    const int64_t dims[] = {batch, n, n};
    *c = (one_node_t){.op = "Det", .version = 22, .n_in = 1, .want = VN_WANT_VARIANCE};
    c->in[0] = one_tensor(t, type, 3, dims);
    for (int64_t i = 0; i < c->in[0]->count; ++i) vn_tensor_set_f64(c->in[0], i, x[i]);
    one_run(t, c);
}

/* Value within own, own far below the bound, every kernel inside; one in 2^9 outside where the matrix is well-conditioned. */
VN_TEST(det, value_and_bound) {
    static const int sizes[] = {2, 3, 4, 7, 12, MAX_N};
    vn_rng_t rng = vn_test_rng(t);
    double x[MAX_N * MAX_N], best[2] = {0, 0};
    mpfr_t exact, off;
    mpfr_inits2(BITS, exact, off, (mpfr_ptr)NULL);
    for (int round = 0; round < 3 * vn_test_scale(t); ++round)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
            for (data_t kind = 0; kind < KINDS; ++kind)
                for (int wide = 0; wide < 2; ++wide) {
                    const int n = sizes[s];
                    if (n == MAX_N && round) continue;
                    const vn_dtype_t type = wide ? VN_F64 : VN_F32;
                    const vn_format_t f = vn_format_of(type);
                    one_node_t c;
                    fill(&rng, kind, type, x, n);
                    run(t, &c, type, 1, n, x);
                    const vn_ref_t *r = &c.out[0];
                    exact_det(exact, x, n);
                    mpfr_sub_d(off, exact, r->value[0], MPFR_RNDN);
                    if (r->lo) mpfr_sub_d(off, off, r->lo[0], MPFR_RNDN);
                    const double error = fabs(mpfr_get_d(off, MPFR_RNDA)), y = mpfr_get_d(exact, MPFR_RNDN);
                    if (!wide && kind != SINGULAR) VN_ASSERT_LE(t, error, r->own[0] + 0x1p-53 * fabs(y));
                    if (wide) VN_ASSERT_LE(t, error, r->own[0] + 0x1p-100 * fabs(y));
                    VN_ASSERT(t, isfinite(r->bound[0]));
                    VN_ASSERT_LE(t, r->own[0], 0x1p-10 * r->bound[0]);
                    for (kernel_t k = 0; k < KERNELS; ++k) {
                        const double got = computed(f, k, x, n);
                        mpfr_d_sub(off, got, exact, MPFR_RNDN);
                        const double e = fabs(mpfr_get_d(off, MPFR_RNDD));
                        if (!isfinite(got)) { /* only where the row says so */
                            VN_ASSERT(t, r->flags && (r->flags[0] & VN_EL_INF_OK));
                            continue;
                        }
                        if (!(e <= r->bound[0] + r->own[0]))
                            vn_test_fail(t, __FILE__, __LINE__, "n %d, data %d, kernel %d, %s: off by %g of %g, bound %g", n, (int)kind,
                                         (int)k, vn_dtype_name(type), e, y, r->bound[0]);
                        if (r->bound[0] > 0) best[wide] = fmax(best[wide], e / r->bound[0]);
                    }
                    if (kind == TOEPLITZ) VN_ASSERT_LE(t, r->bound[0], (wide ? 0x1p-40 : 0x1p-9) * fabs(y)); /* sharp */
                    VN_ASSERT(t, r->var[0] >= 0);
                    one_free(&c);
                }
    VN_ASSERT_GT(t, best[0], 0x1p-7); /* not vacuous: some kernel uses a good part of it */
    VN_ASSERT_GT(t, best[1], 0x1p-7);
    mpfr_clears(exact, off, (mpfr_ptr)NULL);
}

VN_TEST(det, small_and_empty) {
    const int64_t none[] = {2, 0, 0}, one[] = {3, 1, 1}, bad[] = {2, 3}, line[] = {4};
    one_node_t c = {.op = "Det", .version = 11, .n_in = 1, .want = VN_WANT_BOUND, .in = {one_tensor(t, VN_F32, 3, none)}};
    one_run(t, &c);
    VN_ASSERT_EQ(t, c.out[0].count, 2);
    VN_ASSERT_DEQ(t, c.out[0].value[1], 1);
    one_free(&c);
    c = (one_node_t){.op = "Det", .version = 11, .n_in = 1, .want = VN_WANT_BOUND, .in = {one_tensor(t, VN_F32, 3, one)}};
    for (int i = 0; i < 3; ++i) vn_tensor_set_f64(c.in[0], i, i == 2 ? INFINITY : -0.3);
    one_run(t, &c);
    VN_ASSERT(t, c.out[0].demand_equal);
    VN_ASSERT_EQ(t, vn_tensor_bits(c.out[0].tensor, 0), vn_tensor_bits(c.in[0], 0));
    VN_ASSERT(t, isinf(vn_tensor_get_f64(c.out[0].tensor, 2)));
    one_free(&c);
    c = (one_node_t){.op = "Det", .version = 22, .n_in = 1, .in = {one_tensor(t, VN_F32, 2, bad)}};
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_SHAPE);
    one_free(&c);
    c = (one_node_t){.op = "Det", .version = 22, .n_in = 1, .in = {one_tensor(t, VN_F32, 1, line)}};
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_SHAPE);
    one_free(&c);
}

/* A batch with a singular matrix, one with a NaN, and one whose pivots overflow f32 while the determinant does not. */
VN_TEST(det, specials) {
    const double x[] = {1, 2, 2, 4, 1, NAN, 0, 1, 0x1p100, 0, 0, 0x1p100, 0x1p-100, 0, 0, 0x1p-90};
    one_node_t c;
    run(t, &c, VN_F32, 4, 2, x);
    const vn_ref_t *r = &c.out[0];
    VN_ASSERT_DEQ(t, r->value[0], 0);
    VN_ASSERT(t, r->bound[0] > 0 && r->bound[0] < 0x1p-16);
    VN_ASSERT(t, isnan(r->value[1]) && (r->flags[1] & VN_EL_VOID));
    VN_ASSERT_DEQ(t, r->value[2], 0x1p200);
    VN_ASSERT(t, r->flags[2] & VN_EL_INF_OK);
    VN_ASSERT_DEQ(t, r->value[3], 0x1p-190);
    VN_ASSERT_GE(t, r->bound[3], 0x1p-190); /* zero is what f32 makes of it */
    one_free(&c);
    const double far[] = {0x1p100, 0, 0, 0, 0x1p100, 0, 0, 0, 0x1p-100}; /* 2^200 on the way to 2^100 */
    run(t, &c, VN_F32, 1, 3, far);
    VN_ASSERT_DEQ(t, c.out[0].value[0], 0x1p100);
    VN_ASSERT(t, c.out[0].flags && (c.out[0].flags[0] & VN_EL_INF_OK));
    one_free(&c);
}

/* f16 operands, f32 elimination, f16 store. */
VN_TEST(det, narrow_store) {
    vn_rng_t rng = vn_test_rng(t);
    double x[16];
    for (int round = 0; round < 50; ++round) {
        one_node_t c;
        fill(&rng, RANDOM, VN_F16, x, 4);
        run(t, &c, VN_F16, 1, 4, x);
        for (kernel_t k = 0; k < KERNELS; ++k) {
            const double got = vn_round_to(VN_FMT_F16, computed(VN_FMT_F32, k, x, 4), VN_RNE, false);
            VN_ASSERT_LE(t, fabs(got - c.out[0].value[0]), c.out[0].bound[0]);
        }
        VN_ASSERT_LE(t, c.out[0].bound[0], 0x1p-9 * fabs(c.out[0].value[0]) + 0x1p-14);
        one_free(&c);
    }
}

/* ---- BitCast ---- */

VN_TEST(det, bit_casts_keep_bits) {
    vn_rng_t rng = vn_test_rng(t);
    for (int from = 1; from < VN_DTYPE_COUNT; ++from)
        for (int to = 1; to < VN_DTYPE_COUNT; ++to) {
            if (from == VN_STRING || to == VN_STRING) continue;
            const int64_t dims[] = {3, 5};
            size_t bytes;
            one_node_t c = {.op = "BitCast", .version = 26, .n_in = 1, .attrs = {{"to", ONE_INT, to, NULL}}};
            c.in[0] = one_tensor(t, (vn_dtype_t)from, 2, dims);
            VN_ASSERT(t, vn_dtype_storage((vn_dtype_t)from, 15, &bytes));
            for (size_t i = 0; i < bytes; ++i) ((uint8_t *)c.in[0]->data)[i] = (uint8_t)vn_rng_u64(&rng);
            const vn_status_t s = one_try(t, &c);
            if (vn_dtype_bits((vn_dtype_t)from) != vn_dtype_bits((vn_dtype_t)to)) {
                VN_ASSERT_EQ(t, s, VN_ERR_DTYPE);
                VN_ASSERT_HAS(t, c.err.text, "equal widths");
            } else {
                VN_ASSERT_OK_ERR(t, s, c.err);
                VN_ASSERT_EQ(t, c.out[0].tensor->dtype, to);
                VN_ASSERT_EQ(t, c.out[0].tensor->dims[1], 5);
                VN_ASSERT_EQ(t, memcmp(c.out[0].tensor->data, c.in[0]->data, bytes), 0);
            }
            one_free(&c);
        }
    one_node_t c = {.op = "BitCast", .version = 26, .n_in = 1, .attrs = {{"to", ONE_INT, VN_STRING, NULL}}};
    c.in[0] = one_scalar(t, VN_F32, 1);
    VN_ASSERT_EQ(t, one_try(t, &c), VN_ERR_DTYPE);
    one_free(&c);
}

VN_TEST_MAIN(VN_CASE(det, value_and_bound), VN_CASE(det, small_and_empty), VN_CASE(det, specials), VN_CASE(det, narrow_store),
             VN_CASE(det, bit_casts_keep_bits))
