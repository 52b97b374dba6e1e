/* f64 tensors, class by class (claim PREC-4): value + lo is within own of the exact value, own is below 2^-10 of the bound of a plain f64 kernel, and
 * the tensor holds the exact value rounded once. The twin is MPFR.
 */
#include "oracle/twin_case.h"

enum { N = 24, ROWS = 4 };

/* One output against exact values. least: share of its elements that must carry a bound, so that the check says something. */
static void check(vn_test_t *t, const char *what, const vn_ref_t *r, const mpfr_t *exact) {
    int64_t open = 0;
    for (int64_t i = 0; i < r->count; ++i) {
        const double y = mpfr_get_d(exact[i], MPFR_RNDN), got = vn_tensor_get_f64(r->tensor, i);
        if (!isfinite(y) || !isfinite(r->value[i])) continue;
        twin_value(t, what, r, i, exact[i]);
        const double own = vn_ref_own(r, i), bound = r->bound[i];
        if (isfinite(bound) && !(own <= 0x1p-10 * bound))
            vn_test_fail(t, __FILE__, __LINE__, "%s, element %lld: own error %a of a bound of %a", what, (long long)i, own, bound);
        if (got == y || (r->undecided && vn_tensor_get_f64(r->either, i) == y && ++open)) continue;
        vn_test_fail(t, __FILE__, __LINE__, "%s, element %lld: %a, exactly rounded %a", what, (long long)i, got, y);
    }
    VN_ASSERT_LE(t, open, r->undecided);
}

static one_node_t node(const char *op, int version, int n_in) {
    return (one_node_t){.domain = "", .op = op, .version = version, .n_in = n_in, .want = VN_WANT_BOUND};
}

static vn_tensor_t *rows_of(vn_test_t *t, vn_rng_t *rng, twin_data_t kind, double *x) {
    for (int r = 0; r < ROWS; ++r) twin_fill(rng, kind, VN_FMT_F64, x + r * N, N);
    return twin_tensor(t, VN_F64, TWIN_DIMS(ROWS, N), x);
}

VN_TEST(f64, functions) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(N), *x = tw_new(1);
    for (int k = 0; k < tw_function_count; ++k) {
        const tw_function_t *f = &tw_functions[k];
        one_node_t n = {.domain = f->domain, .op = f->op, .version = f->version, .n_in = 1, .want = VN_WANT_BOUND};
        double v[N];
        for (int i = 0; i < N; ++i) {
            v[i] = f->lo + (f->hi - f->lo) * vn_rng_uniform(&rng);
            if (i % 4 == 3 && f->lo < 0) v[i] = ldexp(v[i], -(int)vn_rng_below(&rng, 60)); /* near the origin */
            mpfr_set_d(x[0], v[i], MPFR_RNDN);
            f->exact(exact[i], x[0], f->p);
        }
        if (f->form) n.attrs[0] = (one_attr_t){"approximate", ONE_TEXT, 0, f->form};
        n.in[0] = one_vector(t, VN_F64, N, v);
        one_run(t, &n);
        check(t, f->op, &n.out[0], (const mpfr_t *)exact);
        one_free(&n);
    }
    tw_free(exact, N);
    tw_free(x, 1);
}

VN_TEST(f64, pairs) {
    static const struct {
        const char *op;
        int version;
        int (*exact)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);
    } pairs[] = {{"Add", 14, mpfr_add}, {"Sub", 14, mpfr_sub}, {"Mul", 14, mpfr_mul}, {"Div", 14, mpfr_div}, {"Pow", 15, mpfr_pow}};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(N), *x = tw_new(2);
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; ++k)
        for (int data = 0; data <= TWIN_CANCELLING; ++data) {
            double a[N], b[N];
            one_node_t n = node(pairs[k].op, pairs[k].version, 2);
            twin_fill(&rng, pairs[k].exact == mpfr_pow ? TWIN_POSITIVE : (twin_data_t)data, VN_FMT_F64, a, N);
            twin_fill(&rng, (twin_data_t)data, VN_FMT_F64, b, N);
            for (int i = 0; i < N; ++i) {
                if (data == TWIN_CANCELLING) b[i] = -a[i] * (1 + 0x1p-40 * vn_rng_uniform(&rng));
                mpfr_set_d(x[0], a[i], MPFR_RNDN);
                mpfr_set_d(x[1], b[i], MPFR_RNDN);
                pairs[k].exact(exact[i], x[0], x[1], MPFR_RNDN);
            }
            n.in[0] = one_vector(t, VN_F64, N, a);
            n.in[1] = one_vector(t, VN_F64, N, b);
            one_run(t, &n);
            check(t, pairs[k].op, &n.out[0], (const mpfr_t *)exact);
            one_free(&n);
        }
    tw_free(exact, N);
    tw_free(x, 2);
}

VN_TEST(f64, reductions) {
    static const struct {
        const char *op;
        tw_reduce_t kind;
    } kinds[] = {{"ReduceSum", TW_SUM},           {"ReduceMean", TW_MEAN}, {"ReduceL1", TW_L1},         {"ReduceL2", TW_L2},
                 {"ReduceSumSquare", TW_SQUARES}, {"ReduceProd", TW_PROD}, {"ReduceLogSum", TW_LOGSUM}, {"ReduceLogSumExp", TW_LOGSUMEXP}};
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
        for (int data = 0; data <= TWIN_OFFSET; ++data) {
            double x[ROWS * N];
            if (kinds[k].kind == TW_LOGSUM && data != TWIN_POSITIVE && data != TWIN_OFFSET)
                continue; /* a sum of either sign has no logarithm */
            one_node_t n = node(kinds[k].op, 18, 2);
            n.in[0] = rows_of(t, &rng, (twin_data_t)data, x);
            n.in[1] = one_ints(t, VN_I64, 1, (const int64_t[]){1});
            one_run(t, &n);
            for (int r = 0; r < ROWS; ++r) tw_reduce(exact[r], kinds[k].kind, x + r * N, N);
            check(t, kinds[k].op, &n.out[0], (const mpfr_t *)exact);
            one_free(&n);
        }
    tw_free(exact, ROWS);
}

VN_TEST(f64, softmax) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS * N), *x = tw_new(N);
    for (int log = 0; log < 2; ++log)
        for (int data = 0; data <= TWIN_OFFSET; ++data) {
            double v[ROWS * N];
            one_node_t n = node(log ? "LogSoftmax" : "Softmax", 13, 1);
            n.in[0] = rows_of(t, &rng, (twin_data_t)data, v);
            one_run(t, &n);
            /* beside a tie the logarithm may be as small as e^-3000, and still decides */
            for (int i = 0; i < ROWS * N; ++i) mpfr_set_prec(exact[i], log && data == TWIN_WIDE ? 5000 : TW_BITS);
            for (int r = 0; r < ROWS; ++r) {
                tw_load(x, v + r * N, N);
                tw_softmax(exact + r * N, x, N, log);
            }
            check(t, n.op, &n.out[0], (const mpfr_t *)exact);
            one_free(&n);
        }
    tw_free(exact, ROWS * N);
    tw_free(x, N);
}

VN_TEST(f64, norms) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS * N);
    for (int centred = 0; centred < 2; ++centred)
        for (int data = 0; data <= TWIN_OFFSET; ++data) {
            double v[ROWS * N], gamma[N], beta[N];
            one_node_t n = node(centred ? "LayerNormalization" : "RMSNormalization", 23, centred ? 3 : 2);
            n.attrs[0] = (one_attr_t){"stash_type", ONE_INT, VN_F64, NULL};
            n.in[0] = rows_of(t, &rng, (twin_data_t)data, v);
            twin_fill(&rng, TWIN_RANDOM, VN_FMT_F64, gamma, N);
            twin_fill(&rng, TWIN_RANDOM, VN_FMT_F64, beta, N);
            n.in[1] = one_vector(t, VN_F64, N, gamma);
            if (centred) n.in[2] = one_vector(t, VN_F64, N, beta);
            one_run(t, &n);
            for (int r = 0; r < ROWS; ++r)
                tw_normalise(exact + r * N, v + r * N, gamma, centred ? beta : NULL, N, 1e-5f /* the operator's default */, centred);
            check(t, n.op, &n.out[0], (const mpfr_t *)exact);
            one_free(&n);
        }
    tw_free(exact, ROWS * N);
}

VN_TEST(f64, scans) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS * N);
    for (int product = 0; product < 2; ++product)
        for (int data = 0; data <= TWIN_OFFSET; ++data) {
            double v[ROWS * N];
            const bool reverse = vn_rng_below(&rng, 2), exclusive = vn_rng_below(&rng, 2);
            one_node_t n = node(product ? "CumProd" : "CumSum", product ? 26 : 14, 2);
            n.attrs[0] = (one_attr_t){"reverse", ONE_INT, reverse, NULL};
            n.attrs[1] = (one_attr_t){"exclusive", ONE_INT, exclusive, NULL};
            n.in[0] = rows_of(t, &rng, (twin_data_t)data, v);
            n.in[1] = one_scalar(t, VN_I64, 1);
            one_run(t, &n);
            for (int r = 0; r < ROWS; ++r) tw_prefix(exact + r * N, v + r * N, N, product, exclusive, reverse);
            check(t, n.op, &n.out[0], (const mpfr_t *)exact);
            one_free(&n);
        }
    tw_free(exact, ROWS * N);
}

/* [ROWS, N] x [N, 3], plain and with alpha, beta and a bias that nearly cancels the product. */
VN_TEST(f64, products) {
    enum { M = 3 };
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS * M), *part = tw_new(1);
    for (int gemm = 0; gemm < 2; ++gemm)
        for (int data = 0; data <= TWIN_OFFSET; ++data) {
            double a[ROWS * N], b[N * M], c[ROWS * M];
            one_node_t n = node(gemm ? "Gemm" : "MatMul", 13, gemm ? 3 : 2);
            n.in[0] = rows_of(t, &rng, (twin_data_t)data, a);
            twin_fill(&rng, TWIN_RANDOM, VN_FMT_F64, b, N * M);
            n.in[1] = twin_tensor(t, VN_F64, TWIN_DIMS(N, M), b);
            const double alpha = gemm ? 0.7f : 1, beta = gemm ? -1.3f : 0;
            for (int i = 0; i < ROWS * M; ++i) {
                mpfr_set_zero(exact[i], 1);
                tw_dot(exact[i], a + i / M * N, 1, b + i % M, M, N);
                mpfr_mul_d(exact[i], exact[i], alpha, MPFR_RNDN);
                c[i] = gemm ? mpfr_get_d(exact[i], MPFR_RNDN) / -beta * (1 + 0x1p-30 * vn_rng_uniform(&rng)) : 0;
                mpfr_set_d(part[0], c[i], MPFR_RNDN);
                mpfr_mul_d(part[0], part[0], beta, MPFR_RNDN);
                mpfr_add(exact[i], exact[i], part[0], MPFR_RNDN);
            }
            if (gemm) n.in[2] = twin_tensor(t, VN_F64, TWIN_DIMS(ROWS, M), c);
            n.attrs[0] = gemm ? (one_attr_t){"alpha", ONE_FLOAT, alpha, NULL} : (one_attr_t){0};
            n.attrs[1] = gemm ? (one_attr_t){"beta", ONE_FLOAT, beta, NULL} : (one_attr_t){0};
            one_run(t, &n);
            check(t, n.op, &n.out[0], (const mpfr_t *)exact);
            one_free(&n);
        }
    tw_free(exact, ROWS * M);
    tw_free(part, 1);
}

VN_TEST(f64, pooling) {
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(ROWS);
    static const struct {
        const char *op;
        int version;
        tw_reduce_t kind;
    } kinds[] = {{"GlobalAveragePool", 1, TW_MEAN}, {"GlobalLpPool", 2, TW_L2}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
        for (int data = 0; data <= TWIN_OFFSET; ++data) {
            double x[ROWS * N];
            one_node_t n = node(kinds[k].op, kinds[k].version, 1);
            for (int r = 0; r < ROWS; ++r) twin_fill(&rng, (twin_data_t)data, VN_FMT_F64, x + r * N, N);
            n.in[0] = twin_tensor(t, VN_F64, TWIN_DIMS(1, ROWS, N), x);
            one_run(t, &n);
            for (int r = 0; r < ROWS; ++r) tw_reduce(exact[r], kinds[k].kind, x + r * N, N);
            check(t, kinds[k].op, &n.out[0], (const mpfr_t *)exact);
            one_free(&n);
        }
    tw_free(exact, ROWS);
}

VN_TEST(f64, attention) {
    enum { QUERIES = 3, KEYS = 7, SIZE = 5, VALUES = 4 };
    vn_rng_t rng = vn_test_rng(t);
    mpfr_t *exact = tw_new(QUERIES * VALUES);
    for (int data = 0; data <= TWIN_OFFSET; ++data) {
        double q[QUERIES * SIZE], k[KEYS * SIZE], v[KEYS * VALUES], mask[QUERIES * KEYS];
        const double cap = data % 2 ? 4 : 0;
        one_node_t n = node("Attention", 24, 4);
        twin_fill(&rng, TWIN_RANDOM, VN_FMT_F64, q, QUERIES * SIZE);
        twin_fill(&rng, TWIN_RANDOM, VN_FMT_F64, k, KEYS * SIZE);
        twin_fill(&rng, (twin_data_t)data, VN_FMT_F64, v, KEYS * VALUES);
        for (int i = 0; i < QUERIES * KEYS; ++i) mask[i] = i % KEYS && i % 5 == 0 ? -INFINITY : vn_rng_normal(&rng);
        n.in[0] = twin_tensor(t, VN_F64, TWIN_DIMS(1, 1, QUERIES, SIZE), q);
        n.in[1] = twin_tensor(t, VN_F64, TWIN_DIMS(1, 1, KEYS, SIZE), k);
        n.in[2] = twin_tensor(t, VN_F64, TWIN_DIMS(1, 1, KEYS, VALUES), v);
        n.in[3] = twin_tensor(t, VN_F64, TWIN_DIMS(QUERIES, KEYS), mask);
        n.attrs[0] = (one_attr_t){"scale", ONE_FLOAT, 0.4375, NULL};
        n.attrs[1] = (one_attr_t){"softcap", ONE_FLOAT, cap, NULL};
        one_run(t, &n);
        for (int i = 0; i < QUERIES; ++i) {
            const tw_query_t a = {.q = q + i * SIZE,
                                  .k = k,
                                  .v = v,
                                  .mask = mask + i * KEYS,
                                  .keys = KEYS,
                                  .size = SIZE,
                                  .value_size = VALUES,
                                  .scale = 0.4375,
                                  .softcap = cap};
            tw_attend(exact + i * VALUES, &a);
        }
        check(t, n.op, &n.out[0], (const mpfr_t *)exact);
        one_free(&n);
    }
    tw_free(exact, QUERIES * VALUES);
}

VN_TEST_MAIN(VN_CASE(f64, functions), VN_CASE(f64, pairs), VN_CASE(f64, reductions), VN_CASE(f64, softmax), VN_CASE(f64, norms),
             VN_CASE(f64, scans), VN_CASE(f64, products), VN_CASE(f64, pooling), VN_CASE(f64, attention))
